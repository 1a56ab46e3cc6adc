/*-------------------------------------------------------------------------
 *
 * session.h
 *		The node's store session: between core/node.h and the store.
 *
 * src/worker/session.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_SESSION_H
#define LE_SESSION_H

#include "shmem/leases.h"

extern void le_session_start(void);
extern void le_session_configure(void);
extern void le_session_want(void);
extern void le_session_unwant(void);
extern void le_session_prove_now(void);
extern bool le_session_live(void);
extern bool le_session_none(void);
extern void le_session_run_timers(void);
extern le_time le_session_timer(void);
extern bool le_may_lead(char *why, size_t size, int *sqlstate);

#endif							/* LE_SESSION_H */
