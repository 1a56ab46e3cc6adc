/*-------------------------------------------------------------------------
 *
 * claim_take.c
 *		A tick is claimed, if the job's record and the term allow it.
 *
 * The rules are in core/tick.c.  This file finds the facts about a run: is it
 * over, and which ticks does the claim pass over?
 *
 * src/worker/jobs/claim_take.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "settings.h"
#include "shmem/events.h"
#include "shmem/run_registry.h"
#include "shmem/stats.h"
#include "worker/base/trace.h"
#include "worker/jobs/claim_cache.h"
#include "worker/jobs/claim_end.h"
#include "worker/jobs/claim_take.h"
#include "worker/jobs/claims.h"
#include "worker/lead/term.h"
#include "worker/view/eligible.h"
#include "worker/view/wishes.h"
#include "worker/wire/health.h"

/* ---- replies ---- */

/* The claim has replaced one of an older tick, whose end nobody will see. */
static void
note_passed(const LeClaimAsk *c)
{
	const char *state = c->passed.over ? "left undone" : "perhaps under way";
	char	   *tick;

	if (c->passed.try == 0)
		return;
	tick = pstrdup(timestamptz_to_str(le_from_tick(c->passed.tick)));
	ereport(LOG,
			(errmsg("tick %s of job \"%s\" of election \"%s\" was passed over",
					tick, c->p.ask.job, c->p.ask.election),
			 errdetail("Try %d of it was %s when tick %s was claimed, without catch_up.",
					   c->passed.try, state,
					   timestamptz_to_str(le_from_tick(c->p.ask.tick)))));
	le_event(LE_EVENT_PASSED_OVER, c->p.ask.election, c->p.ask.token,
			 "job %s, tick %s, try %d: %s", c->p.ask.job, tick, c->passed.try,
			 state);
}

/*
 * No leader claims older ticks, now that a later one is claimed.  That is told
 * before the claimant hears of the claim, and so before the claim can end.
 */
static void
note_missed(const LeClaimAsk *c)
{
	char	   *first;
	char	   *last;

	Assert(c->gap.n >= 0);
	if (c->gap.n <= 0)
		return;
	le_stat_add(c->p.ask.election, LE_STAT_MISSED, (uint64) c->gap.n);
	first = pstrdup(timestamptz_to_str(le_from_tick(c->gap.first)));
	last = pstrdup(timestamptz_to_str(le_from_tick(c->gap.last)));
	ereport(LOG,
			(errmsg("ticks of job \"%s\" of election \"%s\" were missed: "
					INT64_FORMAT, c->p.ask.job, c->p.ask.election, c->gap.n),
			 errdetail("No leader has claimed them. The first was due at %s, the last at %s.",
					   first, last)));
	if (c->gap.n == 1)
		le_event(LE_EVENT_JOB_MISSED, c->p.ask.election, c->p.ask.token,
				 "job %s, tick %s", c->p.ask.job, first);
	else
		le_event(LE_EVENT_JOB_MISSED, c->p.ask.election, c->p.ask.token,
				 "job %s, " INT64_FORMAT " ticks from %s to %s", c->p.ask.job,
				 c->gap.n, first, last);
}

static void
reply_claimed(LeClaimAsk *c, int try)
{
	LeReply		r = {.kind = LE_REPLY_TRUE, .try = try};

	note_passed(c);
	note_missed(c);
	r.tick = c->tick_before;
	r.every_before = c->every_before;
	(void) le_pending_answer(&c->p, &r);
}

/* An older tick is to be claimed first, or may still be under way. */
static void
reply_older(LeClaimAsk *c, int64 tick, LeClaimVerdict verdict)
{
	LeReply		r = {.kind = LE_REPLY_FALSE, .tick = tick};

	r.behind = verdict == LE_CLAIM_BEHIND;
	r.under_way = verdict == LE_CLAIM_UNDER_WAY;
	(void) le_pending_answer(&c->p, &r);
}

/* The tick is taken.  A caller is told of a record ahead of our clock. */
static void
reply_taken(LeClaimAsk *c, const LeClaim *found)
{
	LeReply		r = {.kind = LE_REPLY_FALSE};

	if (found != NULL &&
		le_claim_is_ahead(le_tick_now(), found->tick, found->claimed_at,
						  found->every))
	{
		r.ahead = true;
		r.tick = found->tick;
		r.claimed_at = found->claimed_at;
	}
	(void) le_pending_answer(&c->p, &r);
}

/* The term ended before anything was written. */
static void
reply_no_term(LeClaimAsk *c)
{
	LeReply		r = {.kind = LE_REPLY_FALSE, .no_term = true};

	(void) le_pending_answer(&c->p, &r);
}

/* The term is lost, and the claim's outcome stays unknown for now. */
static void
reply_lost(LeClaimAsk *c)
{
	char		message[256];

	snprintf(message, sizeof(message),
			 "leadership of election \"%s\" was lost while a tick was being claimed",
			 c->p.ask.election);
	le_reply_error(&c->p, LE_ERRCODE_LOST, message,
				   "The store may have recorded the claim.", "");
}

/* ---- the limit of new jobs ---- */

/*
 * Jobs that got their first record in a term, by slot.  A role that may only
 * claim shall not fill the store with records.
 */
struct LeNewJobs
{
	uint64		token;			/* the term's */
	int			n;
};

LeNewJobs *
le_new_jobs_new(void)
{
	return MemoryContextAllocZero(TopMemoryContext,
								  mul_size(le_table->nslots,
										   sizeof(LeNewJobs)));
}

static LeNewJobs *
new_jobs(LeWorker *w, const LeClaimAsk *c)
{
	LeNewJobs  *jobs = &w->new_jobs[c->p.slot];

	if (jobs->token != c->p.ask.token)
	{
		jobs->token = c->p.ask.token;
		jobs->n = 0;
	}
	return jobs;
}

static void
reply_too_many(LeWorker *w, LeClaimAsk *c)
{
	char		message[256];
	char		detail[160];

	snprintf(message, sizeof(message), "too many jobs of election \"%s\"",
			 c->p.ask.election);
	snprintf(detail, sizeof(detail),
			 "In this term %d of them got their first record, as many as \"leader_election.max_jobs\" allows.",
			 new_jobs(w, c)->n);
	le_reply_error(&c->p, LE_ERRCODE_REFUSED, message, detail, "");
}

/*
 * A tick is a wall-clock time, and a record only goes forward: a claim by a
 * clock that is ahead would silence the job everywhere until its tick is past.
 */
static void
reply_clock(LeClaimAsk *c, const char *detail)
{
	char		message[256];

	snprintf(message, sizeof(message),
			 "could not claim a tick of election \"%s\": clocks differ",
			 c->p.ask.election);
	le_reply_error(&c->p, LE_ERRCODE_REFUSED, message, detail,
				   "Set the clock that is wrong. Leadership does not depend on it.");
}

/*
 * The tick was claimed, or a later one, but the store does not know it any
 * more.  Only people know whether its work is to be done again.
 */
static void
reply_record_lost(LeClaimAsk *c, int64 tick)
{
	char		message[256];
	char		detail[512];

	snprintf(message, sizeof(message),
			 "could not claim a tick of election \"%s\": the lease store has lost records",
			 c->p.ask.election);
	snprintf(detail, sizeof(detail),
			 "Tick %s of job \"%s\" was claimed, which the job's record does not show.",
			 timestamptz_to_str(le_from_tick(tick)), c->p.ask.job);
	le_reply_error(&c->p, LE_ERRCODE_REFUSED, message, detail,
				   LE_ACCEPT_HINT);
}

/* The same, of the store "local" on a new timeline: the tick is a guess. */
static void
reply_earlier_timeline(LeClaimAsk *c, int64 tick)
{
	char		message[256];
	char		detail[512];

	snprintf(message, sizeof(message),
			 "could not claim a tick of election \"%s\": it may have run before this server was promoted or restored",
			 c->p.ask.election);
	snprintf(detail, sizeof(detail),
			 "Ticks up to %s are not claimed: the store \"local\" does not know which of them ran.",
			 timestamptz_to_str(le_from_tick(tick)));
	le_reply_error(&c->p, LE_ERRCODE_REFUSED, message, detail,
				   "If those without a record are to run, call le_accept_store().");
}

/* ---- the write ---- */

/* Does the term of the claim still hold? */
static bool
its_term_stands(const LeClaimAsk *c)
{
	const LeSlot *slot;

	if (c->p.slot < 0)
		return false;
	slot = le_slot(c->p.slot);
	return le_held_by_caller(slot, &c->p.ask) &&
		slot->election.token == c->p.ask.token && le_term_stands(slot);
}

static void
claim_written(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeClaimAsk *c = le_claim_ask_of(w, flight);

	/* Our session is gone, or the key: a proof tells for all terms. */
	if (answer->outcome == LE_LOST ||
		(answer->outcome == LE_CONFLICT &&
		 answer->conflict == LE_CONFLICT_HELD))
		le_wish_proof(w->wishes);
	if (answer->outcome == LE_DONE)
	{
		le_keep_record(w->claim_cache, flight->op.claim.record, answer->index);
		le_claim_record_seen(w, flight->op.claim.record);
	}
	if (c == NULL)
	{
		le_claims_end_abandoned(w);
		return;
	}
	if (answer->outcome == LE_DONE && flight->op.claim.previous == NULL)
		new_jobs(w, c)->n++;
	if (answer->outcome == LE_DONE)
		reply_claimed(c, flight->op.claim.record->try);
	else
		le_claim_not_written(w, c, answer->outcome);
}

/*
 * The record keeps its history.  A run left undone counts as a failure,
 * once: one that is known to be abandoned was counted then.
 */
static void
carry_on(LeClaim *claim, const LeClaim *found)
{
	if (found == NULL)
		return;
	claim->last_success = found->last_success;
	claim->failures = Max(found->failures, 0);
	if (found->state == LE_CLAIM_RUNNING && found->ended_at == 0 &&
		strcmp(found->id, claim->id) != 0)
		claim->failures++;
}

static void
send_claim(LeWorker *w, LeClaimAsk *c, const LeClaim *found, int try)
{
	LeFlight   *flight = le_claim_flight(c, LE_OP_CLAIM, claim_written);
	LeSlot	   *slot = le_slot(c->p.slot);
	LeClaim		claim = {0};

	claim.election = c->p.ask.election;
	claim.job = c->p.ask.job;
	claim.tick = c->p.ask.tick;
	claim.try = try;
	claim.id = c->p.ask.claim_id;
	claim.token = c->p.ask.token;
	claim.every = found != NULL && found->tick == c->p.ask.tick ?
		found->every : c->p.ask.every;
	claim.node = le_my_name();
	claim.state = LE_CLAIM_RUNNING;
	claim.claimed_at = le_tick_now();
	claim.wait = c->p.ask.wait;
	claim.writes = c->writes;
	if (!c->p.ask.forget)
	{
		carry_on(&claim, found);
		claim.gap = c->gap;
	}
	/* Some stores accept only a running claim first; its end comes next. */
	if (c->p.ask.forget)
	{
		claim.state = LE_CLAIM_DONE;
		claim.ended_at = claim.claimed_at;
	}
	flight->op.claim.record = le_copy_claim(flight->context, &claim);
	if (found != NULL)
		flight->op.claim.previous = le_copy_claim(flight->context, found);
	flight->op.index = slot->election.write_index;
	flight->op.token = slot->election.token;
	flight->op.term.attempt = le_flight_string(flight, slot->key.attempt);
	flight->op.local.key = &slot->local;
	/* The last request renews the lease; a late one would keep others off. */
	if (le_configured_store()->claims.apart)
		flight->not_after = slot->election.deadline;
	c->writing = true;
	le_claim_send(w, flight);
}

/* ---- the verdict ---- */

/*
 * Retire the run of a claim of the claimant's own term, unless it is active.
 * Only this incarnation of this node has had that term, so it knows each
 * session that may act on the claim.
 */
static bool
retire_run(LeWorker *w, const LeClaimAsk *c, const LeClaim *found)
{
	return found->state == LE_CLAIM_RUNNING &&
		found->token == c->p.ask.token &&
		!le_claim_is_being_ended(w, found->id) &&
		le_run_retire(found->id, c->p.ask.claim_id);
}

/* The facts to report once the claim has replaced the record. */
static void
note_found(LeClaimAsk *c, const LeClaim *found, bool retired)
{
	c->tick_before = found == NULL ? 0 : found->tick;
	memset(&c->passed, 0, sizeof(c->passed));
	if (found == NULL || found->state != LE_CLAIM_RUNNING ||
		found->tick >= c->p.ask.tick)
		return;
	c->passed.tick = found->tick;
	c->passed.try = found->try;
	c->passed.over = found->token != c->p.ask.token || retired;
}

/*
 * The claim is written, perhaps by a worker before this one.  Its record says
 * what it has passed over; one that forgets keeps nothing.
 */
static void
take_gap(LeClaimAsk *c, const LeClaimView *found)
{
	if (!c->p.ask.forget)
		c->gap = le_gap_kept(found);
}

/* May the claim replace one of a run that is over? */
static bool
may_replace(const LeClaimPlan *plan, const LeClaim *found)
{
	return plan->catch_up ||
		(le_claims_in_order(plan) && found->tick < plan->tick);
}

/*
 * An earlier call with other options may have a write under way that succeeds
 * as long as the record stays the same.
 */
static bool
may_yet_be_written(const LeClaimAsk *c, const LeClaim *found)
{
	return c->p.ask.otherwise && found != NULL &&
		(found->tick < c->p.ask.tick ||
		 (found->tick == c->p.ask.tick && found->state == LE_CLAIM_RUNNING));
}

static void
judge_claim(LeWorker *w, LeClaimAsk *c, const LeClaim *found)
{
	LeClaimView view = {0};
	LeClaimPlan plan = {0};
	LeClaimVerdict verdict;
	bool		replaces = false;
	char		clock[512];
	int64		older;
	int			try;

	plan.tick = c->p.ask.tick;
	plan.token = c->p.ask.token;
	plan.catch_up = c->p.ask.catch_up;
	plan.forget = c->p.ask.forget;
	plan.term_is_judged = !le_configured_store()->claims.apart;
	plan.every = c->p.ask.every;
	plan.due = Max(c->p.ask.due, c->p.ask.tick);
	plan.missed = c->p.ask.missed;
	plan.max_missed = c->p.ask.max_missed;
	if (found != NULL)
	{
		view.exists = true;
		view.ours = strcmp(found->id, c->p.ask.claim_id) == 0;
		view.tick = found->tick;
		view.try = found->try;
		view.token = found->token;
		view.state = found->state;
		view.every = found->every;
		view.gap = found->gap;
		view.writes = found->writes;

		/* A run whose claim is not replaced stays parked, and may resume. */
		replaces = may_replace(&plan, found);
		view.over = replaces && retire_run(w, c, found);
	}
	if (!view.ours)
		le_count_seen(&view, &c->seen);
	verdict = le_judge_claim(&view, &plan, &try, &older);
	le_trace_claim(c->p.ask.election, c->p.ask.job, &view, &plan, verdict, try,
				   older);
	if (verdict != LE_CLAIM_OURS && verdict != LE_CLAIM_TAKE &&
		may_yet_be_written(c, found))
	{
		le_claim_try_again(c, LE_UNAVAILABLE);
		return;
	}
	switch (verdict)
	{
		case LE_CLAIM_OURS:
			take_gap(c, &view);
			if (!le_configured_store()->claims.apart)
			{
				le_keep_record(w->claim_cache, found, found->index);
				reply_claimed(c, try);
			}
			else if (its_term_stands(c))
			{
				/* written, but not checked: it stays in any case */
				c->maybe = true;
				c->writes = view.writes;
				send_claim(w, c, found, try);
			}
			else
				reply_lost(c);
			break;
		case LE_CLAIM_TAKEN:
			reply_taken(c, found);
			break;
		case LE_CLAIM_LOST:
			if (le_configured_store()->between_instances)
				reply_record_lost(c, view.tick);
			else
				reply_earlier_timeline(c, view.tick);
			break;
		case LE_CLAIM_BEHIND:
		case LE_CLAIM_UNDER_WAY:
			/* by the real record: others may have changed the interval */
			if (c->guessed)
				le_claim_read(w, c);
			else
				reply_older(c, older, verdict);
			break;
		case LE_CLAIM_TAKE:
			if (its_term_stands(c) && found == NULL &&
				new_jobs(w, c)->n >= le_max_jobs)
				reply_too_many(w, c);
			else if (its_term_stands(c) &&
					 le_store_clock_differs(w, clock, sizeof(clock)))
				reply_clock(c, clock);
			else if (its_term_stands(c) && le_job_is_being_claimed(w, c))
				le_claim_try_again(c, LE_UNAVAILABLE);
			else if (its_term_stands(c))
			{
				c->gap = le_gap_before(&view, &plan);
				c->every_before = le_every_before(&view, &plan);
				c->writes = plan.forget ? le_begin_anew(view.writes) :
					view.writes + 1;
				note_found(c, found,
						   replaces ? view.over :
						   found != NULL && retire_run(w, c, found));
				send_claim(w, c, found, try);
			}
			else if (c->maybe)
				reply_lost(c);
			else
				reply_no_term(c);
			break;
	}
}

/* Only the next tick after one that is over. */
static bool
may_guess_claim(const LeClaimAsk *c, const LeClaim *known)
{
	return known->state != LE_CLAIM_RUNNING && known->tick < c->p.ask.tick &&
		its_term_stands(c);
}

static const LeClaimKind claim_taking = {
	.what = "claim a tick",
	.hint = "Call again in the same session, with the same tick and options, to find out.",
	.judge = judge_claim,
	.may_guess = may_guess_claim,
};

/* Without the term there is nothing to write, but perhaps a record to find. */
void
le_ask_claim(LeWorker *w, int proc, uint64 number, const LeAsk *ask)
{
	LeClaimAsk *c = le_claim_ask_new(w, proc, number, ask,
									 &claim_taking);
	LeSlot	   *slot = le_find_slot(ask->election);

	if (slot != NULL && le_held_by_caller(slot, ask))
		le_pending_keep_slot(&c->p, slot);
	if (c->p.slot >= 0 || c->maybe)
		le_claim_begin(w, c);
	else
		reply_no_term(c);
}
