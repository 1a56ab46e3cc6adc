/*-------------------------------------------------------------------------
 *
 * watch_all.h
 *		The watch over all election keys, and the list of nodes.
 *
 * src/worker/watch/watch_all.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_WATCH_ALL_H
#define LE_WATCH_ALL_H

#include "core/timing.h"
#include "worker/base/context.h"

typedef struct LeWatchAll LeWatchAll;

extern LeWatchAll *le_watch_all_new(void);
extern void le_watch_all_run_timers(LeWorker *w);
extern le_time le_watch_all_timer(LeWorker *w);

#endif							/* LE_WATCH_ALL_H */
