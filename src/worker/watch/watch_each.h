/*-------------------------------------------------------------------------
 *
 * watch_each.h
 *		Waiting for keys one by one, where each has a lease of its own.
 *
 * src/worker/watch/watch_each.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_WATCH_EACH_H
#define LE_WATCH_EACH_H

#include "core/timing.h"
#include "worker/base/context.h"

typedef struct LeWatchEach LeWatchEach;

extern LeWatchEach *le_watch_each_new(void);
extern void le_watch_each_run_timers(LeWorker *w);
extern le_time le_watch_each_timer(LeWorker *w);

#endif							/* LE_WATCH_EACH_H */
