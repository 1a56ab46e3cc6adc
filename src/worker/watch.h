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

#include "core/timing.h"

extern int	le_news_from;

extern void le_watch_run_timers(void);
extern le_time le_watch_timer(void);

#endif							/* LE_WATCH_H */
