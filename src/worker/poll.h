/*-------------------------------------------------------------------------
 *
 * poll.h
 *		Waiting for keys one by one, where each has a lease of its own.
 *
 * src/worker/poll.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_POLL_H
#define LE_POLL_H

#include "core/timing.h"

extern void le_poll_start(void);
extern void le_poll_run_timers(void);
extern le_time le_poll_timer(void);

#endif							/* LE_POLL_H */
