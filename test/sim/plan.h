/*-------------------------------------------------------------------------
 *
 * plan.h
 *		The store's codec without its text.
 *
 * test/sim/plan.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_SIM_PLAN_H
#define LE_SIM_PLAN_H

#include "sim.h"

extern const char *name_of_node(int node);
extern const char *name_of_value(uint32 user);

#endif							/* LE_SIM_PLAN_H */
