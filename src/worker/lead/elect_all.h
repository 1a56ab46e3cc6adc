/*-------------------------------------------------------------------------
 *
 * elect_all.h
 *		Operations on all elections.
 *
 * src/worker/lead/elect_all.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_ELECT_ALL_H
#define LE_ELECT_ALL_H

#include "shmem/leases.h"
#include "worker/base/context.h"

extern void le_elect_refresh(LeWorker *w);
extern void le_elect_recheck(LeWorker *w);
extern void le_elect_moved(LeWorker *w);
extern void le_elect_release_all(LeWorker *w, bool patiently);
extern bool le_elect_all_released(LeWorker *w);

/* the node's proofs */
extern void le_elect_deadline(LeWorker *w, le_time deadline);
extern int	le_elect_pick_held(LeWorker *w, int max, int *slots,
							   const char **names);
extern void le_elect_proved(LeWorker *w, le_time sent, const int *slots,
							int n);
extern void le_elect_count_proof(LeWorker *w, le_time sent, LeOutcome outcome,
								 bool renewed);

/* needs of all elections */
extern bool le_elect_need_session(LeWorker *w);
extern bool le_elect_need_watch(LeWorker *w);
extern bool le_elect_waits_for_holder(LeWorker *w);
extern bool le_elect_any_waiting(LeWorker *w);

#endif							/* LE_ELECT_ALL_H */
