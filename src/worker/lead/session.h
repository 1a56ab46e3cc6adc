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
#include "worker/base/context.h"

typedef struct LeStoreSession LeStoreSession;

extern void le_session_start(LeWorker *w);
extern void le_session_configure(LeWorker *w);
extern void le_session_unwant(LeWorker *w);
extern void le_session_run_timers(LeWorker *w);
extern void le_session_leave(LeWorker *w);
extern le_time le_session_timer(LeWorker *w);

#endif							/* LE_SESSION_H */
