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

extern void le_elect_refresh(void);
extern void le_elect_recheck(void);
extern void le_elect_moved(void);
extern void le_elect_release_all(bool patiently);
extern bool le_elect_all_released(void);

/* the node's proofs */
extern void le_elect_deadline(le_time deadline);
extern int	le_elect_pick_held(int max, int *slots, const char **names);
extern void le_elect_proved(le_time sent, const int *slots, int n);
extern void le_elect_count_proof(le_time sent, LeOutcome outcome,
								 bool renewed);
extern bool le_elect_any_renewal_due(le_time now);

/* needs of all elections */
extern bool le_elect_need_session(void);
extern bool le_elect_need_watch(void);
extern bool le_elect_waits_for_holder(void);
extern bool le_elect_any_waiting(void);

#endif							/* LE_ELECT_ALL_H */
