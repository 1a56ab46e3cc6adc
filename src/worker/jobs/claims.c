/*-------------------------------------------------------------------------
 *
 * claims.c
 *		Questions about one claim: the job's record is read, judged, written.
 *
 * Each question begins with a linearizable read of the job's record, unless
 * this worker wrote it last and so may know it (claim_cache.c).  The write
 * that the record allows depends on the record, and for a claim on the term,
 * being as they were.  After any answer to the write but a plain yes the
 * record is read again: it has the claim's id, which the backend has drawn.
 * So a lost answer, a replaced worker and a repeated question all end in the
 * same way.
 *
 * A claim that was written stays.  The store is told of its end even if the
 * backend cannot wait for that (to_the_end).
 *
 * src/worker/jobs/claims.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "settings.h"
#include "shmem/clock.h"
#include "worker/disk/tokens.h"
#include "worker/jobs/claim_cache.h"
#include "worker/jobs/claim_list.h"
#include "worker/jobs/claims.h"
#include "worker/lead/elect.h"

/* How long to tell the store of a claim's end without a backend that waits. */
#define TO_THE_END		(5 * 60 * LE_SEC)

/* Does the backend wait for the answer, or must the question go on without? */
static bool
claim_ask_wanted(const LePending *p, le_time now)
{
	return le_still_asked(p->proc, p->number) ||
		(p->ask.to_the_end && now < p->give_up + TO_THE_END);
}

static le_time
claim_ask_due(LeWorker *w, const LePending *p)
{
	return le_earliest(((const LeClaimAsk *) p)->again_at,
					   p->ask.to_the_end ? 0 : p->give_up);
}

static void
claim_ask_act(LeWorker *w, LePending *p, le_time now)
{
	LeClaimAsk *c = (LeClaimAsk *) p;

	if (!p->ask.to_the_end && now >= p->give_up)
		le_claim_reply_outcome(w, c, p->outcome);
	else
		le_claim_begin(w, c);
}

LePendingList *
le_claim_asks_new(void)
{
	LePendingList *asks = le_pending_list_new(sizeof(LeClaimAsk), NULL);

	asks->wanted = claim_ask_wanted;
	asks->due = claim_ask_due;
	asks->act = claim_ask_act;
	return asks;
}

/* The caller starts the work on the question. */
LeClaimAsk *
le_claim_ask_new(LeWorker *w, int proc, uint64 number, const LeAsk *ask,
				 const LeClaimKind *kind)
{
	LeClaimAsk *c = (LeClaimAsk *) le_pending_add(w->claim_asks, proc, number,
												  ask);

	c->kind = kind;
	c->maybe = ask->again;
	return c;
}

LeClaimAsk *
le_claim_ask_of(LeWorker *w, const LeFlight *flight)
{
	return (LeClaimAsk *) le_pending_in(w->claim_asks, flight->asker.number,
										flight->asker.proc);
}

static bool
is_being_told(LeWorker *w, const char *claim_id, bool result)
{
	le_foreach_pending(p, w->claim_asks)
		if (p->ask.kind == LE_ASK_COMPLETE &&
			(p->ask.ending != LE_CLAIM_RUNNING) == result &&
			strcmp(p->ask.claim_id, claim_id) == 0)
			return true;
	return false;
}

/* Is the store still being told how the claim ended? */
bool
le_claim_is_being_ended(LeWorker *w, const char *claim_id)
{
	return is_being_told(w, claim_id, true);
}

/* ... that it ended without a result, which keeps nobody from another try? */
bool
le_claim_is_being_abandoned(LeWorker *w, const char *claim_id)
{
	return is_being_told(w, claim_id, false);
}

/*
 * Does another question write a claim of the same job?  A store that loses
 * records while both are under way would take both.  The older question goes
 * first where nobody knows whether its write was applied.
 */
bool
le_job_is_being_claimed(LeWorker *w, const LeClaimAsk *c)
{
	bool		older = true;

	le_foreach_pending(p, w->claim_asks)
	{
		const LeClaimAsk *other = (const LeClaimAsk *) p;

		if (other == c)
			older = false;
		else if ((other->writing || (other->maybe && older)) &&
				 p->ask.kind == c->p.ask.kind &&
				 strcmp(p->ask.election, c->p.ask.election) == 0 &&
				 strcmp(p->ask.job, c->p.ask.job) == 0)
			return true;
	}
	return false;
}

/* ---- requests ---- */

LeFlight *
le_claim_flight(const LeClaimAsk *c, LeOpKind kind,
				LeFlightDone done)
{
	LeFlight   *flight = le_flight_new(kind, done);

	flight->op.election = le_flight_string(flight, c->p.ask.election);
	flight->op.claim.job = le_flight_string(flight, c->p.ask.job);
	flight->asker.number = c->p.number;
	flight->asker.proc = c->p.proc;
	return flight;
}

void
le_claim_send(LeWorker *w, LeFlight *flight)
{
	le_flight_send(w, flight, le_table->node.timing.request_timeout);
}

/* ---- failures ---- */

void
le_claim_reply_outcome(LeWorker *w, LeClaimAsk *c, LeOutcome outcome)
{
	char		message[256];
	bool		unknown = c->maybe || c->writing;

	snprintf(message, sizeof(message),
			 "could not %s of election \"%s\" at the lease store %s",
			 c->kind->what, c->p.ask.election, le_store_address(w));
	le_reply_error(&c->p, unknown ? LE_ERRCODE_UNKNOWN :
				   outcome == LE_REFUSED ? LE_ERRCODE_REFUSED :
				   LE_ERRCODE_UNAVAILABLE, message, le_store_trouble(w),
				   unknown ? c->kind->hint : "");
}

void
le_claim_try_again(LeClaimAsk *c, LeOutcome outcome)
{
	c->p.outcome = outcome;
	c->again_at = le_now() +
		le_retry_delay(&le_table->node.timing, ++c->failures, le_random());
}

/*
 * The store did not answer, or refused.  A backend is told at once of what it
 * may have to mend.
 */
void
le_claim_failed(LeWorker *w, LeClaimAsk *c, LeOutcome outcome)
{
	if (outcome == LE_REFUSED && !c->maybe && !c->writing &&
		c->p.proc != LE_NO_PROC)
		le_claim_reply_outcome(w, c, outcome);
	else
		le_claim_try_again(c, outcome);
}

/*
 * The leader key is not as the claim said: a copy of our own publish may have
 * come late.  The news do not tell of that, and the watch may hang.
 */
static void
leader_shown(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeSlot	   *slot = le_find_slot(flight->op.election);
	LeClaimAsk *c;

	if (answer->outcome == LE_DONE && slot != NULL &&
		flight->epoch == le_table->node.epoch)
		le_elect_seen(w, slot, answer->nkeys > 0 ? &answer->keys[0] : NULL,
					  answer->index);
	c = le_claim_ask_of(w, flight);
	if (c != NULL)
		le_claim_try_again(c, LE_UNAVAILABLE);
}

static void
look_at_leader(LeWorker *w, LeClaimAsk *c)
{
	LeFlight   *flight = le_claim_flight(c, LE_OP_READ, leader_shown);

	flight->lane = LE_LANE_ASKED;
	le_claim_send(w, flight);
}

/*
 * A write was not confirmed; the record tells whether it was applied.  A
 * conflict may be with a copy of the same request that came first.
 */
void
le_claim_not_written(LeWorker *w, LeClaimAsk *c, LeOutcome outcome)
{
	switch (outcome)
	{
		case LE_UNKNOWN:
			c->maybe = true;
			le_claim_try_again(c, outcome);
			break;
		case LE_CONFLICT:
			if (c->guessed)
				le_claim_read(w, c);	/* another node wrote it */
			else if (le_configured_store()->watch.kind == LE_WATCH_ALL)
				look_at_leader(w, c);
			else
				le_claim_try_again(c, LE_UNAVAILABLE);
			break;
		case LE_LOST:
			le_claim_try_again(c, LE_UNAVAILABLE);
			break;
		case LE_REFUSED:
		case LE_UNAVAILABLE:
			c->writing = false;
			le_claim_failed(w, c, outcome);
			break;
		case LE_DONE:
			Assert(false);
			break;
	}
}

/* ---- the record ---- */

/*
 * Was a later record seen while the read was under way?  Nobody knows which
 * came first, so neither a claim nor the loss of that record may rest on the
 * answer.
 */
static bool
is_out_of_date(LeWorker *w, const LeClaimAsk *c, const LeAnswer *answer)
{
	const LeClaim *found = answer->nclaims > 0 ? &answer->claims[0] : NULL;
	LeSeenRecord seen = le_record_seen_last(w->tokens, c->p.ask.election,
											c->p.ask.job);

	return le_record_is_later(&seen, &c->seen) &&
		le_record_is_lost(&seen, found != NULL ? found->writes : 0,
						  found != NULL ? found->tick : -1);
}

/*
 * A caller is about to be told of the record.  So it is written first: this
 * node must know it then, whatever becomes of the worker.
 */
void
le_claim_record_seen(LeWorker *w, const LeClaim *record)
{
	le_record_seen(w->tokens, record);
	(void) le_tokens_keep(w->tokens, false);
}

static void
record_read(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeClaimAsk *c = le_claim_ask_of(w, flight);

	if (c == NULL)
		return;
	if (answer->outcome != LE_DONE)
	{
		le_claim_failed(w, c, answer->outcome);
		return;
	}
	c->writing = c->guessed = false;
	if (is_out_of_date(w, c, answer))
	{
		le_claim_read(w, c);
		return;
	}
	if (answer->nclaims > 0)
	{
		le_record_read(w->claim_cache, &answer->claims[0]);
		le_claim_record_seen(w, &answer->claims[0]);
	}
	c->kind->judge(w, c, answer->nclaims > 0 ? &answer->claims[0] : NULL);
}

void
le_claim_read(LeWorker *w, LeClaimAsk *c)
{
	c->again_at = 0;
	c->seen = le_record_seen_last(w->tokens, c->p.ask.election,
								  c->p.ask.job);
	le_claim_send(w, le_claim_flight(c, LE_OP_READ_CLAIM, record_read));
}

/*
 * Judge by the record written last, but only in the usual cases: the next tick
 * after one that is over, and the end of a claim.  Other answers, refusals
 * above all, need the record as it is.
 */
static bool
judge_kept_record(LeWorker *w, LeClaimAsk *c)
{
	const LeClaim *known = le_kept_record(w->claim_cache, c->p.ask.election,
										  c->p.ask.job);
	LeSeenRecord seen = le_record_seen_last(w->tokens, c->p.ask.election,
											c->p.ask.job);

	/* a store that was restored may have the known one again */
	if (known == NULL || c->maybe ||
		le_record_is_lost(&seen, known->writes, known->tick))
		return false;
	if (c->kind->may_guess == NULL || !c->kind->may_guess(c, known))
		return false;
	c->guessed = true;
	memset(&c->seen, 0, sizeof(c->seen));
	c->kind->judge(w, c, known);
	return true;
}

void
le_claim_begin(LeWorker *w, LeClaimAsk *c)
{
	if (c->failures > 0 || !judge_kept_record(w, c))
		le_claim_read(w, c);
}

/* ---- called by the loop ---- */

void
le_claims_withdrawn(LeWorker *w)
{
	le_time		now = le_now();

	le_list_withdrawn(w->claim_asks, now);
	le_list_withdrawn(w->claim_listings, now);
}

void
le_claims_run_timers(LeWorker *w)
{
	le_time		now = le_now();

	le_list_run_timers(w, w->claim_asks, now);
	le_list_run_timers(w, w->claim_listings, now);
}

le_time
le_claims_timer(LeWorker *w)
{
	return le_earliest(le_list_timer(w, w->claim_asks),
					   le_list_timer(w, w->claim_listings));
}
