/*-------------------------------------------------------------------------
 *
 * health.h
 *		The health of the store: missing answers and refusals.
 *
 * src/worker/wire/health.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_HEALTH_H
#define LE_HEALTH_H

#include "worker/wire/flight.h"

extern void le_health_start(void);
extern void le_health_note(const LeFlight *flight, const LeAnswer *answer);
extern const char *le_store_place(void);
extern const char *le_store_trouble(void);
extern LeCause le_store_trouble_cause(void);

#endif							/* LE_HEALTH_H */
