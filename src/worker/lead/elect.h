/*-------------------------------------------------------------------------
 *
 * elect.h
 *		The worker's elections: between core/election.h and the rest.
 *
 * src/worker/lead/elect.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_ELECT_H
#define LE_ELECT_H

#include "shmem/leases.h"

/* the loop */
extern void le_elect_start(void);
extern void le_elect_refresh(void);
extern void le_elect_recheck(void);
extern void le_elect_begin_terms(void);
extern void le_elect_run_timers(void);
extern le_time le_elect_timer(void);
extern void le_elect_release_all(bool patiently);
extern bool le_elect_all_released(void);

/* the node's session, and its proofs */
extern int	le_list_from;

extern void le_elect_node_live(void);
extern void le_elect_listed(void);
extern void le_elect_look(void);
extern void le_elect_go_on(void);
extern void le_elect_moved(void);
extern void le_elect_node_ended(LeReason reason);
extern void le_elect_deadline(le_time deadline);
extern void le_elect_not_ours(int slot);
extern int	le_elect_pick_held(int max, int *slots, const char **names);
extern bool le_elect_note_fitness(bool session_refused);
extern void le_elect_ask_refused(void);
extern void le_elect_proved(le_time sent, const int *slots, int n);
extern void le_elect_count_proof(le_time sent, LeOutcome outcome,
								 bool renewed);
extern bool le_elect_need_session(void);

/* terms with leases of their own */
extern void le_elect_input(LeSlot *slot, LeInput *input);
extern bool le_elect_any_renewal_due(le_time now);
extern void le_elect_renew_now(LeSlot *slot);
extern void le_elect_renewal_sent(LeSlot *slot);
extern void le_elect_renewal_unsent(LeSlot *slot);

/* what backends ask */
extern LeSlot *le_elect_slot(const char *election);
extern bool le_elect_can_begin(void);
extern void le_elect_feed(LeSlot *slot, LeInputKind kind);
extern void le_elect_advance(LeSlot *slot);
extern void le_elect_give_up(LeSlot *slot);
extern void le_elect_set_campaign(LeSlot *slot, bool campaign,
								  le_duration within);
extern void le_elect_shorten_progress(LeSlot *slot, le_duration within);
extern bool le_elect_takes_part(const LeSlot *slot);
extern void le_elect_hold_off(LeSlot *slot, le_duration how_long);

/* what the store shows without being asked */
extern void le_elect_seen(LeSlot *slot, const LeKey *key, uint64 as_of);
extern void le_elect_recheck_waiting(void);
extern bool le_elect_waits_for_holder(void);
extern bool le_elect_any_waiting(void);
extern bool le_elect_need_watch(void);

#endif							/* LE_ELECT_H */
