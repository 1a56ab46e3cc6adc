/*-------------------------------------------------------------------------
 *
 * claims.h
 *		Questions about one claim: the job's record is read, judged, written.
 *
 * src/worker/jobs/claims.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CLAIMS_H
#define LE_CLAIMS_H

#include "core/tick.h"
#include "worker/lead/pending_list.h"
#include "worker/wire/dispatch.h"

typedef struct LeClaimAsk
{
	LePending	p;
	const struct LeClaimKind *kind;
	le_time		again_at;		/* read the record then; 0: under way */
	int			failures;
	bool		maybe;			/* a write was sent, and may yet be applied */
	bool		writing;		/* a write is under way, or was answered, and a
								 * copy of it may be the reason */
	bool		guessed;		/* ... on the basis of a kept record */
	struct
	{
		int64		tick;		/* 0: none is passed over */
		int			try;
		bool		over;		/* nobody acts on it */
	}			passed;			/* by the claim that is written */
	int64		tick_before;	/* the record's; 0: there was none */
	int64		every_before;	/* ... and its interval, if that is another */
	LeGap		gap;			/* ticks to be reported with the claim */
	uint64		writes;			/* ... of its record, the claim included */
	LeSeenRecord seen;			/* the latest one when the read was sent: the
								 * record that it shows is no older */
} LeClaimAsk;

typedef struct LeClaimKind
{
	const char *what;			/* the question's verb, for error messages */
	const char *hint;			/* given if the outcome is unknown */
	void		(*judge) (LeWorker *w, LeClaimAsk *c, const LeClaim *found);
	bool		(*may_guess) (const LeClaimAsk *c, const LeClaim *known);
} LeClaimKind;

/* called by the loop */
extern LePendingList *le_claim_asks_new(void);
extern void le_claims_withdrawn(LeWorker *w);
extern void le_claims_run_timers(LeWorker *w);
extern le_time le_claims_timer(LeWorker *w);

extern LeClaimAsk *le_claim_ask_new(LeWorker *w, int proc, uint64 number,
									const LeAsk *ask, const LeClaimKind *kind);
extern LeClaimAsk *le_claim_ask_of(LeWorker *w, const LeFlight *flight);
extern bool le_claim_is_being_ended(LeWorker *w, const char *claim_id);
extern bool le_claim_is_being_abandoned(LeWorker *w, const char *claim_id);
extern bool le_job_is_being_claimed(LeWorker *w, const LeClaimAsk *c);
extern LeFlight *le_claim_flight(const LeClaimAsk *c, LeOpKind kind,
								 LeFlightDone done);
extern void le_claim_send(LeWorker *w, LeFlight *flight);
extern void le_claim_begin(LeWorker *w, LeClaimAsk *c);
extern void le_claim_read(LeWorker *w, LeClaimAsk *c);
extern void le_claim_record_seen(LeWorker *w, const LeClaim *record);
extern void le_claim_try_again(LeClaimAsk *c, LeOutcome outcome);
extern void le_claim_failed(LeWorker *w, LeClaimAsk *c, LeOutcome outcome);
extern void le_claim_not_written(LeWorker *w, LeClaimAsk *c,
								 LeOutcome outcome);
extern void le_claim_reply_outcome(LeWorker *w, LeClaimAsk *c,
								   LeOutcome outcome);

#endif							/* LE_CLAIMS_H */
