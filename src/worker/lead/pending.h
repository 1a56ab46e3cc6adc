/*-------------------------------------------------------------------------
 *
 * pending.h
 *		Questions about terms, and the replies to them.
 *
 * src/worker/lead/pending.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_PENDING_H
#define LE_PENDING_H

#include "worker/lead/pending_list.h"

/* A question about a term, and the verdicts on it so far. */
typedef struct LeContest
{
	LePending	pending;
	uint32		joined;			/* ACQUIRE: the request that was under way when
								 * it was asked; 0: none */
	bool		known;			/* there was a verdict on it ... */
	bool		denied;			/* ... and the last said "not ours" */
	bool		unsent;			/* its request got no turn, hence "outcome" */
	bool		unresolved;		/* ACQUIRE: one of its requests may have been
								 * applied, and nobody will find out */
	bool		publishing;		/* RENEW: proven, the value is on its way */
	int			releases;		/* STEP_DOWN: still to be confirmed ... */
	bool	   *releasing;		/* ... with "all": by slot */
} LeContest;

/* The whole of a question made by le_pending_new(). */
#define le_contest(p)	((LeContest *) (p))

extern LePendingList *le_pendings_new(void);
extern LePending *le_pending_new(LeWorker *w, int proc, uint64 number,
								 const LeAsk *ask);
extern LePending *le_pending_find(LeWorker *w, uint64 number, int proc);
extern void le_pending_attach(LeWorker *w, LePending *p, LeSlot *slot);
extern void le_reply_outcome(LeWorker *w, LePending *p, LeOutcome outcome);
extern void le_reply_granted(LePending *p, LeSlot *slot);
extern void le_reply_not_granted(LeWorker *w, LePending *p, bool denied,
								 LeOutcome outcome);
extern void le_reply_refused(LeWorker *w, LePending *p, int sqlstate,
							 const char *message,
							 const char *detail, const char *hint);

/* for the decisions of the elections */
extern const LeAsk *le_first_seeker(LeWorker *w, const LeSlot *slot);
extern bool le_seeker_waits(LeWorker *w, const LeSlot *slot, LeOwner owner);
extern bool le_seeker_heard_of(LeWorker *w, const LeSlot *slot, LeOwner owner);
extern bool le_any_seeker(LeWorker *w, bool (*may_seek) (LeWorker *w,
														 const LeSlot *slot));
extern bool le_renewal_asked(LeWorker *w, int slot);
extern bool le_acquire_waits(LeWorker *w, const LeSlot *slot);
extern const char *le_value_to_publish(LeWorker *w, const LeSlot *slot);

/* verdicts of the elections */
extern void le_pending_refuse(LeWorker *w, const LeSlot *slot, int sqlstate,
							  const char *message, const char *detail,
							  const char *hint);
extern void le_pending_unresolved(LeWorker *w, const LeSlot *slot);
extern void le_pending_unsent(LeWorker *w, const LeSlot *slot, bool unsent);
extern bool le_pass_verdict(LeWorker *w, LeSlot *slot, const LeActions *act,
							uint32 answered);
extern void le_pending_end_grants(void);
extern void le_pending_term_ended(LeWorker *w, LeSlot *slot);
extern void le_pending_proved(LeWorker *w, le_time sent, const int *numbers,
							  int n);
extern void le_pending_session_live(LeWorker *w);
extern void le_pending_no_session(LeWorker *w, LeOutcome outcome);

/* time passes, and backends go */
extern void le_pending_withdrawn(LeWorker *w);
extern void le_pending_run_timers(LeWorker *w);
extern le_time le_pending_timer(LeWorker *w);

#endif							/* LE_PENDING_H */
