/*-------------------------------------------------------------------------
 *
 * authenticate.h
 *		Flights that wait for a secret, which has to be fetched.
 *
 * src/worker/wire/authenticate.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_AUTHENTICATE_H
#define LE_AUTHENTICATE_H

#include "worker/wire/flight.h"

typedef struct LeAuthentication LeAuthentication;

extern LeAuthentication *le_authentication_new(void);
extern void le_await_secret(LeWorker *w, LeFlight *flight);
extern bool le_ask_with_new_secret(LeWorker *w, LeFlight *flight,
								   const LeResponse *response,
								   LeAnswer *answer);
extern void le_authenticate_run(LeWorker *w);
extern le_time le_authenticate_timer(LeWorker *w);

#endif							/* LE_AUTHENTICATE_H */
