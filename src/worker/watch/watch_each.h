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

extern void le_watch_each_start(void);
extern void le_watch_each_run_timers(void);
extern le_time le_watch_each_timer(void);

#endif							/* LE_WATCH_EACH_H */
