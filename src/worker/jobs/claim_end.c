/*-------------------------------------------------------------------------
 *
 * claim_end.c
 *		The end of a claim, and a check if a tick is taken care of.
 *
 * src/worker/jobs/claim_end.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "settings.h"
#include "shmem/events.h"
#include "shmem/run_registry.h"
#include "worker/jobs/claim_cache.h"
#include "worker/jobs/claim_end.h"
#include "worker/jobs/claims.h"
#include "worker/view/eligible.h"

/* ---- completing ---- */

/* The claim's node reports a failure once, when the store has the end. */
static void
note_failed(const LeClaimAsk *c, const LeClaim *claim)
{
	if (claim->state != LE_CLAIM_FAILED || c->p.ask.forget)
		return;
	le_event(LE_EVENT_JOB_FAILED, c->p.ask.election, claim->token,
			 "job %s, tick %s, try %d%s%s", claim->job,
			 timestamptz_to_str(le_from_tick(claim->tick)), claim->try,
			 claim->sqlstate == NULL ? "" : ": ",
			 claim->sqlstate == NULL ? "" : claim->sqlstate);
}

/*
 * A run that is over without a result stays "running", for a call that catches
 * up, and has a time at which it ended.  The next look at all jobs tells of
 * it.
 */
static bool
is_abandoned(const LeClaim *claim)
{
	return claim->state == LE_CLAIM_RUNNING && claim->ended_at != 0;
}

static void
end_written(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeClaimAsk *c = le_claim_ask_of(w, flight);

	if (c == NULL)
		return;
	if (answer->outcome == LE_DONE)
	{
		le_keep_record(w->claim_cache, flight->op.claim.record, answer->index);
		le_claim_record_seen(w, flight->op.claim.record);
		note_failed(c, flight->op.claim.record);
		if (is_abandoned(flight->op.claim.record))
			w->job_scan_due = true;
		le_reply(&c->p, LE_REPLY_TRUE);
	}
	else
		le_claim_not_written(w, c, answer->outcome);
}

/* A record that was forgotten ends as done, but not as a success. */
static void
set_ending(LeFlight *flight, LeClaim *claim, const LeAsk *ask)
{
	claim->state = ask->ending;
	claim->writes++;
	if (ask->ending != LE_CLAIM_RUNNING)
		memset(&claim->gap, 0, sizeof(claim->gap)); /* reported */
	claim->ended_at = le_tick_now();
	if (claim->node == NULL)
		claim->node = le_flight_string(flight, le_my_name());	/* not kept */
	if (ask->ending == LE_CLAIM_DONE)
	{
		if (!ask->forget)
			claim->last_success = claim->ended_at;
		claim->failures = 0;
	}
	else
		claim->failures = Max(claim->failures, 0) + 1;
	if (ask->sqlstate[0] != '\0')
		claim->sqlstate = le_flight_string(flight, ask->sqlstate);
	if (ask->has_value)
		claim->message = le_flight_string(flight, ask->value);
}

/* The store has another claim. */
static void
forget_claim(LeWorker *w, const LeAsk *ask)
{
	const LeClaim *known = le_kept_record(w->claim_cache, ask->election,
										  ask->job);

	if (known != NULL && strcmp(known->id, ask->claim_id) == 0)
		le_forget_record(w->claim_cache, ask->election, ask->job);
}

static void
judge_end(LeWorker *w, LeClaimAsk *c, const LeClaim *found)
{
	LeFlight   *flight;
	LeClaim    *claim;

	if (found == NULL || strcmp(found->id, c->p.ask.claim_id) != 0)
	{
		forget_claim(w, &c->p.ask);
		/* The claim may have been ended before it was replaced. */
		if (c->maybe)
			le_claim_reply_outcome(w, c, LE_UNKNOWN);
		else
			le_reply(&c->p, LE_REPLY_FALSE);
		return;
	}
	if (found->state != LE_CLAIM_RUNNING ||
		(c->p.ask.ending == LE_CLAIM_RUNNING && is_abandoned(found)))
	{
		note_failed(c, found);
		le_reply(&c->p, found->state == c->p.ask.ending ? LE_REPLY_TRUE :
				 LE_REPLY_FALSE);
		return;
	}
	flight = le_claim_flight(c, LE_OP_COMPLETE, end_written);
	flight->op.claim.previous = le_copy_claim(flight->context, found);
	claim = le_copy_claim(flight->context, found);
	set_ending(flight, claim, &c->p.ask);
	flight->op.claim.record = claim;
	c->writing = true;
	le_claim_send(w, flight);
}

static bool
may_guess_end(const LeClaimAsk *c, const LeClaim *known)
{
	return known->state == LE_CLAIM_RUNNING &&
		strcmp(known->id, c->p.ask.claim_id) == 0;
}

static const LeClaimKind claim_ending = {
	.what = "complete a tick",
	.hint = "",
	.judge = judge_end,
	.may_guess = may_guess_end,
};

void
le_ask_complete(LeWorker *w, int proc, uint64 number, const LeAsk *ask)
{
	le_claim_begin(w, le_claim_ask_new(w, proc, number, ask, &claim_ending));
}

/* ---- runs that are over without a result ---- */

/*
 * Is it the claim of a term of ours, on which nobody here acts any more?  Then
 * nobody acts on it at all: only this incarnation has that term.
 */
bool
le_claim_is_abandoned(LeWorker *w, const char *election, uint64 token,
					  const char *claim_id)
{
	const LeSlot *slot = le_find_slot(election);

	return slot != NULL && le_election_has_term(&slot->election) &&
		slot->election.token == token && le_run_is_over(claim_id) &&
		!le_claim_is_being_ended(w, claim_id);
}

/* The worker's own question, unless there is one: nobody waits for it. */
void
le_claim_abandon(LeWorker *w, const char *election, const char *job,
				 int64 tick, const char *claim_id)
{
	LeAsk		ask = {.kind = LE_ASK_COMPLETE};

	if (le_claim_is_being_abandoned(w, claim_id))
		return;
	strlcpy(ask.election, election, sizeof(ask.election));
	strlcpy(ask.job, job, sizeof(ask.job));
	strlcpy(ask.claim_id, claim_id, sizeof(ask.claim_id));
	ask.tick = tick;
	ask.ending = LE_CLAIM_RUNNING;
	ask.to_the_end = true;
	le_ask_complete(w, LE_NO_PROC, ++w->claims_abandoned, &ask);
}

static void
abandon_kept(LeWorker *w, const LeClaim *claim)
{
	if (claim->state == LE_CLAIM_RUNNING && claim->ended_at == 0 &&
		le_claim_is_abandoned(w, claim->election, claim->token, claim->id))
		le_claim_abandon(w, claim->election, claim->job, claim->tick,
						 claim->id);
}

/*
 * A session has ended, or has given up claims.  Those that this worker has not
 * written itself are found by the look at all jobs.
 */
void
le_claims_end_abandoned(LeWorker *w)
{
	le_each_kept(w->claim_cache, abandon_kept, w);
}

/* ---- is the tick taken care of? ---- */

/* The holder of the key in the store is enough here. */
static void
holder_read(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeClaimAsk *c = le_claim_ask_of(w, flight);

	if (c == NULL)
		return;
	if (answer->outcome != LE_DONE)
		le_claim_failed(w, c, answer->outcome);
	else
		le_reply(&c->p, answer->nkeys > 0 && answer->keys[0].holder != NULL &&
				 answer->keys[0].token == flight->op.token ? LE_REPLY_TRUE :
				 LE_REPLY_FALSE);
}

static void
judge_care(LeWorker *w, LeClaimAsk *c, const LeClaim *found)
{
	LeFlight   *flight;
	LeSlot	   *slot;

	if (found == NULL || found->tick < c->p.ask.tick)
		le_reply(&c->p, LE_REPLY_FALSE);
	else if (found->tick > c->p.ask.tick || found->state != LE_CLAIM_RUNNING)
		le_reply(&c->p, LE_REPLY_TRUE);
	else
	{
		flight = le_claim_flight(c, LE_OP_READ, holder_read);
		flight->op.token = found->token;
		slot = le_find_slot(c->p.ask.election);
		le_flight_local_key(flight, slot);
		le_claim_send(w, flight);
	}
}

static const LeClaimKind care_of_tick = {
	.what = "read a claim",
	.hint = "",
	.judge = judge_care,
};

void
le_ask_look(LeWorker *w, int proc, uint64 number, const LeAsk *ask)
{
	LeClaimAsk *c = le_claim_ask_new(w, proc, number, ask, &care_of_tick);

	c->p.give_up = Min(c->p.give_up, ask->wait_until);
	le_claim_begin(w, c);
}
