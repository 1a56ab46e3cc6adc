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

extern void le_dispatch_start(void);
extern void le_dispatch_configure(void);
extern void le_flight_send(LeFlight *flight, le_duration timeout);
extern bool le_flight_waits(int slot);
extern void le_flight_hurry(int slot);
extern void le_dispatch_run(void);
extern void le_dispatch_send(void);
extern le_time le_dispatch_timer(void);

#endif							/* LE_DISPATCH_H */
