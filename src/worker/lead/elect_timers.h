/*-------------------------------------------------------------------------
 *
 * elect_timers.h
 *		Elections in time: timers, sweeps, and sessions that begin or end.
 *
 * src/worker/lead/elect_timers.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_ELECT_TIMERS_H
#define LE_ELECT_TIMERS_H

#include "shmem/leases.h"
#include "worker/base/context.h"

typedef struct LeElectTimers LeElectTimers;

extern LeElectTimers *le_elect_timers_new(void);
extern void le_elect_start(LeWorker *w);
extern bool le_elect_can_begin(LeWorker *w);
extern void le_elect_run_timers(LeWorker *w);
extern le_time le_elect_timer(LeWorker *w);

/* the session begins and ends; the store shows its keys */
extern void le_elect_node_live(LeWorker *w);
extern void le_elect_node_ended(LeWorker *w, LeReason reason);
extern void le_elect_listed(LeWorker *w);
extern void le_elect_recheck_waiting(LeWorker *w);
extern void le_elect_look(LeWorker *w);
extern void le_elect_go_on(LeWorker *w);

#endif							/* LE_ELECT_TIMERS_H */
