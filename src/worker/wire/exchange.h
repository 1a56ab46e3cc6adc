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
typedef void (*LeHeard) (LeWorker *w, LeFlight *flight,
						 const LeResponse *response, LeAnswer *answer);

typedef struct LeExchange LeExchange;

extern LeExchange *le_exchange_new(LeHeard heard);
extern void le_exchange_begin(LeWorker *w, LeFlight *flight);
extern bool le_exchange_send(LeWorker *w, LeFlight *flight);
extern void le_exchange_run(LeWorker *w);
extern bool le_exchange_is_busy(LeWorker *w);

#endif							/* LE_EXCHANGE_H */
