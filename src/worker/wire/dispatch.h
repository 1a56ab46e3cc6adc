/*-------------------------------------------------------------------------
 *
 * dispatch.h
 *		Operations on their way to the store and back.
 *
 * src/worker/wire/dispatch.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_DISPATCH_H
#define LE_DISPATCH_H

#include "worker/wire/flight.h"
#include "worker/wire/health.h"

/* Operations of the store "local" that are carried out in a turn. */
#define LE_LOCAL_AT_ONCE	64

typedef struct LeDispatch LeDispatch;

extern void le_dispatch_start(LeWorker *w);
extern bool le_dispatch_configure(LeWorker *w);
extern void le_flight_send(LeWorker *w, LeFlight *flight, le_duration timeout);
extern bool le_flight_waits(LeWorker *w, int slot);
extern void le_flight_hurry(LeWorker *w, int slot);
extern void le_dispatch_run(LeWorker *w);
extern void le_dispatch_send(LeWorker *w);
extern le_time le_dispatch_timer(LeWorker *w);

#endif							/* LE_DISPATCH_H */
