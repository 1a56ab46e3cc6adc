/*-------------------------------------------------------------------------
 *
 * session.h
 *		The node's store session: between core/node.h and the store.
 *
 * src/worker/lead/session.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_SESSION_H
#define LE_SESSION_H

#include "core/timing.h"

extern void le_session_start(void);
extern void le_session_configure(void);
extern void le_session_unwant(void);
extern void le_session_run_timers(void);
extern le_time le_session_timer(void);

#endif							/* LE_SESSION_H */
