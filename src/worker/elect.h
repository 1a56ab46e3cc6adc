/*-------------------------------------------------------------------------
 *
 * elect.h
 *		The worker's elections: between core/election.h and the rest.
 *
 * src/worker/elect.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_ELECT_H
#define LE_ELECT_H

#include "shmem/leases.h"
#include "shmem/requests.h"

extern void le_elect_start(void);
extern void le_elect_refresh(void);
extern void le_elect_hints(void);
extern void le_elect_run_timers(void);
extern le_time le_elect_timer(void);

/* from session.c */
extern void le_elect_node_live(void);
extern void le_elect_no_session(void);
extern void le_elect_node_ended(LeReason reason);
extern void le_elect_deadline(le_time deadline);
extern void le_elect_not_ours(int slot);
extern int	le_elect_pick_held(int max, int *slots, const char **names);
extern void le_elect_proved(le_time sent, const int *slots, int n);
extern void le_elect_count_proof(le_time sent, LeOutcome outcome,
								 bool renewed);
extern bool le_elect_need_session(void);

/* from renew.c */
extern void le_elect_input(LeSlot *slot, LeInput *input);
extern void le_elect_note_error(LeSlot *slot, LeOutcome outcome,
								const char *detail);
extern void le_elect_note_timers(const LeSlot *slot);
extern bool le_elect_any_renewal_due(le_time now);
extern void le_elect_renew_now(LeSlot *slot);

/* from questions.c */
extern void le_elect_feed(LeSlot *slot, LeInputKind kind);
extern void le_elect_advance(LeSlot *slot);
extern void le_elect_drain(LeSlot *slot, le_duration patience,
						   le_duration grace);
extern void le_elect_give_up(LeSlot *slot);
extern bool le_elect_abandoned(const LeSlot *slot);
extern bool le_elect_campaigns(const LeSlot *slot);
extern void le_elect_set_campaign(LeSlot *slot, bool campaign);
extern bool le_elect_takes_part(const LeSlot *slot);
extern void le_elect_hold_off(LeSlot *slot, le_duration how_long);
extern void le_elect_pause_campaign(LeSlot *slot, le_duration how_long);
extern const char *le_scope_name(LeOwner owner);

/* from watch.c */
extern void le_elect_seen(LeSlot *slot, const LeKey *key, uint64 as_of);
extern void le_elect_recheck_waiting(void);
extern bool le_elect_waits_for_holder(void);
extern bool le_elect_need_watch(void);

/* from worker.c */
extern void le_elect_release_all(void);
extern bool le_elect_all_released(void);

#endif							/* LE_ELECT_H */
