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

typedef struct LeHealth LeHealth;

extern LeHealth *le_health_new(void);
extern void le_health_note(LeWorker *w, const LeFlight *flight,
						   const LeAnswer *answer);
extern void le_health_note_clock(LeWorker *w, const LeFlight *flight,
								 const LeResponse *response);
extern bool le_store_clock_differs(LeWorker *w, char *text, size_t size);
extern const char *le_store_address(LeWorker *w);
extern const char *le_store_trouble(LeWorker *w);
extern LeCause le_store_trouble_cause(LeWorker *w);

#endif							/* LE_HEALTH_H */
