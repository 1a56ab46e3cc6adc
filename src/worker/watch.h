/*-------------------------------------------------------------------------
 *
 * watch.h
 *		What the store shows without being asked about one election.
 *
 * src/worker/watch.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_WATCH_H
#define LE_WATCH_H

#include "shmem/leases.h"

extern void le_watch_run_timers(void);
extern le_time le_watch_timer(void);
extern void le_watch_restart(void);
extern void le_watch_forget(void);
extern void le_watch_nodes_soon(void);
extern void le_watch_follow_nodes(void);
extern void le_watch_took_over(void);
extern le_time le_watch_fresh_at(void);
extern const LeKey *le_watch_key(const char *election);
extern void le_watch_doubt_node(const char *session);
extern const LeNodeInfo *le_watch_node(const char *session);
extern le_time le_watch_silent_at(const LeNodeInfo *info);

#endif							/* LE_WATCH_H */
