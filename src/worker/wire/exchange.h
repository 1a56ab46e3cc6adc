/*-------------------------------------------------------------------------
 *
 * exchange.h
 *		Requests as a server gets them, and its answers.
 *
 * src/worker/wire/exchange.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_EXCHANGE_H
#define LE_EXCHANGE_H

#include "worker/wire/flight.h"

/* The answer, decoded to its end. */
typedef void (*LeHeard) (LeFlight *flight, const LeHttpResponse *response,
						 LeAnswer *answer);

extern void le_exchange_start(LeHeard heard);
extern void le_exchange_begin(LeFlight *flight);
extern bool le_exchange_send(LeFlight *flight);
extern void le_exchange_run(void);
extern bool le_exchange_is_busy(void);

#endif							/* LE_EXCHANGE_H */
