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

extern int	le_list_from;

extern void le_elect_start(void);
extern bool le_elect_can_begin(void);
extern void le_elect_run_timers(void);
extern le_time le_elect_timer(void);

/* the session begins and ends; the store shows its keys */
extern void le_elect_node_live(void);
extern void le_elect_node_ended(LeReason reason);
extern void le_elect_listed(void);
extern void le_elect_recheck_waiting(void);
extern void le_elect_look(void);
extern void le_elect_go_on(void);

#endif							/* LE_ELECT_TIMERS_H */
