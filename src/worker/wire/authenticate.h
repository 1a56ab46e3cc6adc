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

extern void le_await_secret(LeFlight *flight);
extern bool le_ask_with_new_secret(LeFlight *flight,
								   const LeHttpResponse *response,
								   LeAnswer *answer);
extern void le_authenticate_run(void);
extern le_time le_authenticate_timer(void);

#endif							/* LE_AUTHENTICATE_H */
