/*-------------------------------------------------------------------------
 *
 * ask.h
 *		What backends ask, until it is answered.
 *
 * src/worker/ask.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_ASK_H
#define LE_ASK_H

#include "shmem/leases.h"
#include "shmem/requests.h"

extern void le_question(int proc, uint64 number, const LeAsk *ask);
extern void le_questions_withdrawn(void);
extern void le_questions_run_timers(le_time now);
extern le_time le_questions_timer(void);

/* what the elections need to know */
extern const LeAsk *le_first_seeker(const LeSlot *slot);
extern bool le_seeker_waits(const LeSlot *slot, LeOwner owner);
extern bool le_any_seeker(bool (*may_seek) (const LeSlot *slot));
extern bool le_renewal_asked(int slot);
extern bool le_held_by_caller(const LeSlot *slot, const LeAsk *ask);
extern const char *le_value_to_publish(const LeSlot *slot);

/* what they tell */
extern void le_questions_unresolved(const LeSlot *slot);
extern void le_pass_verdict(LeSlot *slot, const LeActions *act,
							uint32 answered);
extern void le_questions_term_ended(LeSlot *slot);
extern void le_questions_proved(le_time sent, const int *numbers, int n);
extern void le_questions_session_live(void);
extern void le_questions_no_session(LeOutcome outcome);

#endif							/* LE_ASK_H */
