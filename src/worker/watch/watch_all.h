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

extern int	le_gossip_from;

extern void le_watch_all_run_timers(void);
extern le_time le_watch_all_timer(void);

#endif							/* LE_WATCH_ALL_H */
