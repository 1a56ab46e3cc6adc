/*-------------------------------------------------------------------------
 *
 * probe.h
 *		le_check_config(): would the store do what it will be asked?
 *
 * src/worker/probe.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_PROBE_H
#define LE_PROBE_H

#include "worker/pending.h"

extern void le_ask_check(LePending *p);

#endif							/* LE_PROBE_H */
