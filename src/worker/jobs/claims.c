/*-------------------------------------------------------------------------
 *
 * claims.c
 *		The worker's side of claims: ticks of jobs, once each.
 *
 * Each question begins with a linearizable read of the job's record, unless
 * this worker wrote that last and so may know it (records.c).  What the record
 * allows (core/tick.c) is then written on the condition that the record, and
 * for a claim the term, are still as they were.  Whatever comes of the write
 * but a plain yes, the record is read again: the claim's id, drawn by the
 * backend, says whose it is.  So an answer that was lost, a worker that was
 * replaced and a question that was asked twice all end in the same way.
 *
 * What has been claimed stays so; the end of a claim is told to the store even
 * if the backend that tells it is in a hurry (to_the_end).
 *
 * src/worker/jobs/claims.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "storage/dsm.h"
#include "utils/memutils.h"

#include "settings.h"
#include "shmem/events.h"
#include "shmem/run_registry.h"
#include "shmem/stats.h"
#include "worker/jobs/claim_cache.h"
#include "worker/jobs/claims.h"
#include "worker/lead/elect.h"
#include "worker/lead/term.h"
#include "worker/view/wishes.h"
#include "worker/wire/dispatch.h"

/* How long the store is told of the end of a claim that nobody waits for. */
#define TO_THE_END		(5 * 60 * LE_SEC)

/* How long a backend may take to ask for more of the claims. */
#define KEEP_ROWS		(10 * LE_SEC)

/* A question that has not been answered yet. */
typedef struct Claiming
{
	dlist_node	node;
	int			proc;
	uint64		number;
	LeAsk		ask;
	int			slot;			/* of the election; -1: none */
	le_time		give_up;
	le_time		again_at;		/* read the record then; 0: under way */
	int			failures;
	bool		maybe;			/* a write was sent, and may yet be applied */
	bool		writing;		/* one is under way; or was answered, and a
								 * copy of it may be why */
	bool		guessed;		/* ... on the strength of what was kept */
	LeOutcome	outcome;		/* of the last failure */
	struct
	{
		int64		tick;		/* 0: none is passed over */
		int			try;
		bool		over;		/* nobody acts on it */
	}			passed;			/* by the claim that is written */
	int64		tick_before;	/* of the record; 0: there was none */
	LeGap		gap;			/* ticks that the claim passes over */

	/* CLAIMS */
	LeClaimRow *rows;
	int			nrows;
	int			room;			/* for so many of them */
	bool		fetched;		/* all of them, and some were shown: kept until
								 * give_up for whoever asks for the rest */
	char	   *page;			/* of the listing under way; NULL: the first */
	int			next_slot;		/* whose claims are to be asked for, where
								 * that has to be done one by one */
} Claiming;

static dlist_head claimings = DLIST_STATIC_INIT(claimings);

static void look(Claiming *c);
static void list(Claiming *c);

/* ---- replies ---- */

static void
drop(Claiming *c)
{
	if (c->slot >= 0)
		le_slot(c->slot)->asked--;
	dlist_delete(&c->node);
	if (c->rows != NULL)
		pfree(c->rows);
	if (c->page != NULL)
		pfree(c->page);
	pfree(c);
}

static void
reply(Claiming *c, LeReplyKind kind)
{
	LeReply		r = {0};

	r.kind = kind;
	le_answer(c->proc, c->number, &r);
	drop(c);
}

/*
 * The claim stands in the place of one of an older tick, of which nobody will
 * hear any more.
 */
static void
note_passed(const Claiming *c)
{
	const char *state = c->passed.over ? "left undone" : "perhaps under way";
	char	   *tick;

	if (c->passed.try == 0)
		return;
	tick = pstrdup(timestamptz_to_str(le_from_tick(c->passed.tick)));
	ereport(LOG,
			(errmsg("tick %s of job \"%s\" of election \"%s\" was passed over",
					tick, c->ask.job, c->ask.election),
			 errdetail("Try %d of it was %s when tick %s was claimed, without catch_up.",
					   c->passed.try, state,
					   timestamptz_to_str(le_from_tick(c->ask.tick)))));
	le_event(LE_EVENT_PASSED_OVER, c->ask.election, c->ask.token,
			 "job %s, tick %s, try %d: %s", c->ask.job, tick, c->passed.try,
			 state);
}

/* Nor of ticks that no leader has claimed, now that a later one is. */
static void
note_missed(const Claiming *c)
{
	char	   *first;
	char	   *last;

	if (c->gap.n == 0)
		return;
	le_stat_add(c->ask.election, LE_STAT_MISSED, (uint64) c->gap.n);
	first = pstrdup(timestamptz_to_str(le_from_tick(c->gap.first)));
	last = pstrdup(timestamptz_to_str(le_from_tick(c->gap.last)));
	ereport(LOG,
			(errmsg("ticks of job \"%s\" of election \"%s\" were missed: "
					INT64_FORMAT, c->ask.job, c->ask.election, c->gap.n),
			 errdetail("No leader has claimed what was due from %s to %s.",
					   first, last)));
	if (c->gap.n == 1)
		le_event(LE_EVENT_JOB_MISSED, c->ask.election, c->ask.token,
				 "job %s, tick %s", c->ask.job, first);
	else
		le_event(LE_EVENT_JOB_MISSED, c->ask.election, c->ask.token,
				 "job %s, " INT64_FORMAT " ticks from %s to %s", c->ask.job,
				 c->gap.n, first, last);
}

static void
reply_claimed(Claiming *c, int try)
{
	LeReply		r = {0};

	note_passed(c);
	note_missed(c);
	r.kind = LE_REPLY_TRUE;
	r.try = try;
	r.tick = c->tick_before;
	r.every_before = c->gap.every_before;
	le_answer(c->proc, c->number, &r);
	drop(c);
}

/* An older tick is to be claimed first, or may be under way yet. */
static void
reply_older(Claiming *c, int64 tick, LeClaimVerdict verdict)
{
	LeReply		r = {0};

	r.kind = LE_REPLY_FALSE;
	r.behind = verdict == LE_CLAIM_BEHIND;
	r.under_way = verdict == LE_CLAIM_UNDER_WAY;
	r.tick = tick;
	le_answer(c->proc, c->number, &r);
	drop(c);
}

/* The term ended before anything was written. */
static void
reply_no_term(Claiming *c)
{
	LeReply		r = {0};

	r.kind = LE_REPLY_FALSE;
	r.no_term = true;
	le_answer(c->proc, c->number, &r);
	drop(c);
}

/* The answer must not hang on a loss: the backend is told what is known. */
static void
reply_lost(Claiming *c)
{
	LeReply		r = {0};

	r.kind = LE_REPLY_ERROR;
	r.sqlstate = LE_ERRCODE_LOST;
	snprintf(r.message, sizeof(r.message),
			 "leadership of election \"%s\" was lost while a tick was being claimed",
			 c->ask.election);
	strlcpy(r.detail, "The store may have recorded the claim.",
			sizeof(r.detail));
	le_answer(c->proc, c->number, &r);
	drop(c);
}

static void
reply_outcome(Claiming *c, LeOutcome outcome)
{
	LeReply		r = {0};

	r.kind = LE_REPLY_ERROR;
	if (c->ask.kind == LE_ASK_CLAIMS)
		snprintf(r.message, sizeof(r.message),
				 "could not read the claims from the lease store %s",
				 le_store_place());
	else
		snprintf(r.message, sizeof(r.message),
				 c->ask.kind == LE_ASK_CLAIM ?
				 "could not claim a tick of election \"%s\" at the lease store %s" :
				 c->ask.kind == LE_ASK_COMPLETE ?
				 "could not complete a tick of election \"%s\" at the lease store %s" :
				 "could not read a claim of election \"%s\" at the lease store %s",
				 c->ask.election, le_store_place());
	strlcpy(r.detail, le_store_trouble(), sizeof(r.detail));
	if (c->maybe || c->writing)
	{
		r.sqlstate = LE_ERRCODE_UNKNOWN;
		if (c->ask.kind == LE_ASK_CLAIM)
			strlcpy(r.hint, "Call again in the same session, with the same tick and options, to find out.",
					sizeof(r.hint));
	}
	else if (outcome == LE_REFUSED)
		r.sqlstate = LE_ERRCODE_REFUSED;
	else
		r.sqlstate = LE_ERRCODE_UNAVAILABLE;
	le_answer(c->proc, c->number, &r);
	drop(c);
}

/* ---- requests ---- */

static Claiming *
find(const LeFlight *flight)
{
	dlist_iter	iter;

	dlist_foreach(iter, &claimings)
	{
		Claiming   *c = dlist_container(Claiming, node, iter.cur);

		if (c->number == flight->asker.number && c->proc == flight->asker.proc)
			return c;
	}
	return NULL;
}

static void
try_again(Claiming *c, LeOutcome outcome)
{
	c->outcome = outcome;
	c->again_at = le_now() +
		le_retry_delay(&le_table->node.timing, ++c->failures, le_random());
}

/*
 * No answer, or one that says no: what follows is the question's to say.  A
 * list is for people, who would rather know than wait.
 */
static void
failed(Claiming *c, LeOutcome outcome)
{
	if (c->ask.kind == LE_ASK_CLAIMS)
		reply_outcome(c, outcome);
	else if (outcome == LE_REFUSED && !c->maybe && !c->writing)
		reply_outcome(c, outcome);
	else
		try_again(c, outcome);
}

static LeFlight *
new_flight(const Claiming *c, LeOpKind kind,
		   void (*done) (LeFlight *, const LeAnswer *))
{
	LeFlight   *flight = le_flight_new(kind, done);

	flight->op.election = le_flight_string(flight, c->ask.election);
	flight->op.job = le_flight_string(flight, c->ask.job);
	flight->asker.proc = c->proc;
	flight->asker.number = c->number;
	return flight;
}

static void
send(LeFlight *flight)
{
	le_flight_send(flight, le_table->node.timing.request_timeout);
}

/*
 * The leader key is not what the claim rested on: a copy of our own publish
 * may have come late.  Of that there are no news, and the watch may hang.
 */
static void
leader_shown(LeFlight *flight, const LeAnswer *answer)
{
	LeSlot	   *slot = le_find_slot(flight->op.election);
	Claiming   *c;

	if (answer->outcome == LE_DONE && slot != NULL &&
		flight->epoch == le_table->node.epoch)
		le_elect_seen(slot, answer->nkeys > 0 ? &answer->keys[0] : NULL,
					  answer->index);
	c = find(flight);
	if (c != NULL)
		try_again(c, LE_UNAVAILABLE);
}

static void
look_at_leader(Claiming *c)
{
	LeFlight   *flight = new_flight(c, LE_OP_READ, leader_shown);

	flight->lane = LE_LANE_ASKED;
	send(flight);
}

/*
 * A write that was not confirmed; the record tells what became of it.  A
 * conflict may be with a copy of the same request that came first.
 */
static void
not_written(Claiming *c, LeOutcome outcome)
{
	switch (outcome)
	{
		case LE_UNKNOWN:
			c->maybe = true;
			try_again(c, outcome);
			break;
		case LE_CONFLICT:
			if (c->guessed)
				look(c);		/* somebody else wrote it, as is his right */
			else if (le_configured_store()->watching == LE_WATCH_ALL)
				look_at_leader(c);
			else
				try_again(c, LE_UNAVAILABLE);
			break;
		case LE_LOST:
			try_again(c, LE_UNAVAILABLE);
			break;
		case LE_REFUSED:
		case LE_UNAVAILABLE:
			c->writing = false;
			failed(c, outcome);
			break;
		case LE_DONE:
			Assert(false);
			break;
	}
}

/* ---- claiming ---- */

/*
 * How many jobs got their first record in a term, by slot.  A role that may
 * only claim shall not fill the store with records that nobody can look
 * through any more.
 */
typedef struct NewJobs
{
	uint64		token;			/* of the term */
	int			n;
} NewJobs;

static NewJobs *
new_jobs(const Claiming *c)
{
	static NewJobs *all = NULL;
	NewJobs    *jobs;

	if (all == NULL)
		all = MemoryContextAllocZero(TopMemoryContext,
									 mul_size(le_table->nslots,
											  sizeof(NewJobs)));
	jobs = &all[c->slot];
	if (jobs->token != c->ask.token)
	{
		jobs->token = c->ask.token;
		jobs->n = 0;
	}
	return jobs;
}

static void
reply_too_many(Claiming *c)
{
	LeReply		r = {0};

	r.kind = LE_REPLY_ERROR;
	r.sqlstate = LE_ERRCODE_REFUSED;
	snprintf(r.message, sizeof(r.message),
			 "too many jobs of election \"%s\"", c->ask.election);
	snprintf(r.detail, sizeof(r.detail),
			 "In this term %d of them got their first record, as many as \"leader_election.max_jobs\" allows.",
			 new_jobs(c)->n);
	le_answer(c->proc, c->number, &r);
	drop(c);
}

/* Does the term for which the tick is claimed still hold? */
static bool
its_term_stands(const Claiming *c)
{
	const LeSlot *slot;

	if (c->slot < 0)
		return false;
	slot = le_slot(c->slot);
	return le_held_by_caller(slot, &c->ask) &&
		slot->election.token == c->ask.token && le_term_stands(slot);
}

static void
claim_written(LeFlight *flight, const LeAnswer *answer)
{
	Claiming   *c = find(flight);

	/* Our session is gone, or the key: the proof tells for all of us. */
	if (answer->outcome == LE_LOST ||
		(answer->outcome == LE_CONFLICT &&
		 answer->conflict == LE_CONFLICT_HELD))
		le_wish_proof();
	if (c == NULL)
		return;
	if (answer->outcome == LE_DONE && flight->op.previous == NULL)
		new_jobs(c)->n++;
	if (answer->outcome == LE_DONE)
	{
		le_keep_record(flight->op.claim, answer->index);
		reply_claimed(c, flight->op.claim->try);
	}
	else
		not_written(c, answer->outcome);
}

/*
 * What the job's record goes on to tell.  A run that was left undone is none
 * that went well, whoever is at fault.
 */
static void
carry_on(LeClaim *claim, const LeClaim *found)
{
	if (found == NULL)
		return;
	claim->last_success = found->last_success;
	claim->failures = Max(found->failures, 0);
	if (found->state == LE_CLAIM_RUNNING && strcmp(found->id, claim->id) != 0)
		claim->failures++;
}

static void
send_claim(Claiming *c, const LeClaim *found, int try)
{
	LeFlight   *flight = new_flight(c, LE_OP_CLAIM, claim_written);
	LeSlot	   *slot = le_slot(c->slot);
	LeClaim		claim = {0};

	claim.election = c->ask.election;
	claim.job = c->ask.job;
	claim.tick = c->ask.tick;
	claim.try = try;
	claim.id = c->ask.claim_id;
	claim.token = c->ask.token;
	claim.every = found != NULL && found->tick == c->ask.tick ?
		found->every : c->ask.every;
	claim.node = le_my_name();
	claim.state = LE_CLAIM_RUNNING;
	claim.claimed_at = le_tick_now();
	claim.wait = c->ask.wait;
	if (!c->ask.forget)
		carry_on(&claim, found);
	/* Some stores know only of claims that run; then that is told next. */
	if (c->ask.forget)
	{
		claim.state = LE_CLAIM_DONE;
		claim.ended_at = claim.claimed_at;
	}
	flight->op.claim = le_copy_claim(flight->context, &claim);
	if (found != NULL)
		flight->op.previous = le_copy_claim(flight->context, found);
	flight->op.index = slot->election.write_index;
	flight->op.token = slot->election.token;
	flight->op.attempt = le_flight_string(flight, slot->attempt);
	flight->op.local = &slot->local;
	/* Its last request renews the lease, which would keep others off. */
	if (le_configured_store()->claims_apart)
		flight->not_after = slot->election.deadline;
	c->writing = true;
	send(flight);
}

/* Is the store still being told how the claim ended? */
static bool
is_being_ended(const LeClaim *found)
{
	dlist_iter	iter;

	dlist_foreach(iter, &claimings)
	{
		Claiming   *c = dlist_container(Claiming, node, iter.cur);

		if (c->ask.kind == LE_ASK_COMPLETE &&
			strcmp(c->ask.claim_id, found->id) == 0)
			return true;
	}
	return false;
}

/*
 * Retires the run of a claim of the claimant's own term, unless it is active.
 * Only this incarnation of this node has had that term, so it knows each
 * session that may act on the claim.
 */
static bool
retire_run(const Claiming *c, const LeClaim *found)
{
	return found->state == LE_CLAIM_RUNNING && found->token == c->ask.token &&
		!is_being_ended(found) && le_run_retire(found->id, c->ask.claim_id);
}

/* The facts to report once the claim has replaced the record. */
static void
note_found(Claiming *c, const LeClaim *found, const LeGap *gap, bool retired)
{
	c->gap = *gap;
	c->tick_before = found == NULL ? 0 : found->tick;
	memset(&c->passed, 0, sizeof(c->passed));
	if (found == NULL || found->state != LE_CLAIM_RUNNING ||
		found->tick >= c->ask.tick)
		return;
	c->passed.tick = found->tick;
	c->passed.try = found->try;
	c->passed.over = found->token != c->ask.token || retired;
}

/* Would the claim take the place of one that nobody is at any more? */
static bool
may_replace(const LeClaimWish *wish, const LeClaim *found)
{
	return wish->catch_up ||
		(le_claims_in_order(wish) && found->tick < wish->tick);
}

/*
 * Asked for in another way, the tick was to be had, and a write that was sent
 * then may yet find this record.  Until it has changed nobody can say no.
 */
static bool
may_yet_be_written(const Claiming *c, const LeClaim *found)
{
	return c->ask.otherwise && found != NULL &&
		(found->tick < c->ask.tick ||
		 (found->tick == c->ask.tick && found->state == LE_CLAIM_RUNNING));
}

static void
judge(Claiming *c, const LeClaim *found)
{
	LeClaimView view = {0};
	LeClaimWish wish = {0};
	LeClaimVerdict verdict;
	LeGap		gap;
	bool		replaces = false;
	int64		older;
	int			try;

	wish.tick = c->ask.tick;
	wish.token = c->ask.token;
	wish.catch_up = c->ask.catch_up;
	wish.forget = c->ask.forget;
	wish.term_is_judged = !le_configured_store()->claims_apart;
	wish.every = c->ask.every;
	wish.due = Max(c->ask.due, c->ask.tick);
	wish.missed = c->ask.missed;
	wish.max_missed = c->ask.max_missed;
	if (found != NULL)
	{
		view.exists = true;
		view.ours = strcmp(found->id, c->ask.claim_id) == 0;
		view.tick = found->tick;
		view.try = found->try;
		view.token = found->token;
		view.state = found->state;
		view.every = found->every;

		/* A run that is left as it is stays parked, and may resume. */
		replaces = may_replace(&wish, found);
		view.over = replaces && retire_run(c, found);
	}
	verdict = le_judge_claim(&view, &wish, &try, &older);
	if (verdict != LE_CLAIM_OURS && verdict != LE_CLAIM_TAKE &&
		may_yet_be_written(c, found))
	{
		try_again(c, LE_UNAVAILABLE);
		return;
	}
	switch (verdict)
	{
		case LE_CLAIM_OURS:
			if (!le_configured_store()->claims_apart)
				reply_claimed(c, try);
			else if (its_term_stands(c))
			{
				/* written, but not checked: it stays, whatever comes */
				c->maybe = true;
				send_claim(c, found, try);
			}
			else
				reply_lost(c);
			break;
		case LE_CLAIM_TAKEN:
			reply(c, LE_REPLY_FALSE);
			break;
		case LE_CLAIM_BEHIND:
		case LE_CLAIM_UNDER_WAY:
			/* by what is on record, whose interval others may have changed */
			if (c->guessed)
				look(c);
			else
				reply_older(c, older, verdict);
			break;
		case LE_CLAIM_TAKE:
			if (its_term_stands(c) && found == NULL &&
				new_jobs(c)->n >= le_max_jobs)
				reply_too_many(c);
			else if (its_term_stands(c))
			{
				gap = le_gap_before(&view, &wish);
				note_found(c, found, &gap,
						   replaces ? view.over :
						   found != NULL && retire_run(c, found));
				send_claim(c, found, try);
			}
			else if (c->maybe)
				reply_lost(c);
			else
				reply_no_term(c);
			break;
	}
}

/* ---- completing ---- */

/* Told once: by the node that made the claim, when the store has it. */
static void
note_failed(const Claiming *c, const LeClaim *claim)
{
	if (claim->state != LE_CLAIM_FAILED || c->ask.forget)
		return;
	le_event(LE_EVENT_JOB_FAILED, c->ask.election, claim->token,
			 "job %s, tick %s, try %d%s%s", claim->job,
			 timestamptz_to_str(le_from_tick(claim->tick)), claim->try,
			 claim->sqlstate == NULL ? "" : ": ",
			 claim->sqlstate == NULL ? "" : claim->sqlstate);
}

static void
end_written(LeFlight *flight, const LeAnswer *answer)
{
	Claiming   *c = find(flight);

	if (c == NULL)
		return;
	if (answer->outcome == LE_DONE)
	{
		le_keep_record(flight->op.claim, answer->index);
		note_failed(c, flight->op.claim);
		reply(c, LE_REPLY_TRUE);
	}
	else
		not_written(c, answer->outcome);
}

/* A record that begins anew ends as done, lest it should look like trouble. */
static void
set_ending(LeFlight *flight, LeClaim *claim, const LeAsk *ask)
{
	claim->state = ask->ending;
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

static void
end_claim(Claiming *c, const LeClaim *found)
{
	LeFlight   *flight;
	LeClaim    *claim;

	if (found == NULL || strcmp(found->id, c->ask.claim_id) != 0)
	{
		/* It may have been ended before it was replaced. */
		if (c->maybe)
			reply_outcome(c, LE_UNKNOWN);
		else
			reply(c, LE_REPLY_FALSE);
		return;
	}
	if (found->state != LE_CLAIM_RUNNING)
	{
		note_failed(c, found);
		reply(c, found->state == c->ask.ending ? LE_REPLY_TRUE :
			  LE_REPLY_FALSE);
		return;
	}
	flight = new_flight(c, LE_OP_COMPLETE, end_written);
	flight->op.previous = le_copy_claim(flight->context, found);
	claim = le_copy_claim(flight->context, found);
	set_ending(flight, claim, &c->ask);
	flight->op.claim = claim;
	c->writing = true;
	send(flight);
}

/* ---- is the tick taken care of? ---- */

/* The holder of the key is believed in by the store, which is enough here. */
static void
leader_read(LeFlight *flight, const LeAnswer *answer)
{
	Claiming   *c = find(flight);

	if (c == NULL)
		return;
	if (answer->outcome != LE_DONE)
		failed(c, answer->outcome);
	else
		reply(c, answer->nkeys > 0 && answer->keys[0].holder != NULL &&
			  answer->keys[0].token == flight->op.token ? LE_REPLY_TRUE :
			  LE_REPLY_FALSE);
}

static void
judge_care(Claiming *c, const LeClaim *found)
{
	static LeLocalKey nobody = {0};
	LeFlight   *flight;
	LeSlot	   *slot;

	if (found == NULL || found->tick < c->ask.tick)
		reply(c, LE_REPLY_FALSE);
	else if (found->tick > c->ask.tick || found->state != LE_CLAIM_RUNNING)
		reply(c, LE_REPLY_TRUE);
	else
	{
		flight = new_flight(c, LE_OP_READ, leader_read);
		flight->op.token = found->token;
		slot = le_find_slot(c->ask.election);
		flight->op.local = slot == NULL ? &nobody : &slot->local;
		send(flight);
	}
}

/* ---- the record ---- */

static void
looked(LeFlight *flight, const LeAnswer *answer)
{
	Claiming   *c = find(flight);
	const LeClaim *found = answer->nclaims > 0 ? &answer->claims[0] : NULL;

	if (c == NULL)
		return;
	if (answer->outcome != LE_DONE)
	{
		failed(c, answer->outcome);
		return;
	}
	c->writing = c->guessed = false;
	if (c->ask.kind == LE_ASK_CLAIM)
		judge(c, found);
	else if (c->ask.kind == LE_ASK_COMPLETE)
		end_claim(c, found);
	else
		judge_care(c, found);
}

static void
look(Claiming *c)
{
	c->again_at = 0;
	le_forget_record(c->ask.election, c->ask.job);
	send(new_flight(c, LE_OP_READ_CLAIM, looked));
}

/*
 * Go by what was written last.  Only the usual is done so: the next tick after
 * one that is over, and the end of what was claimed.  All else, a refusal
 * above all, needs the record as it is.
 */
static bool
guess(Claiming *c)
{
	const LeClaim *known = le_kept_record(c->ask.election, c->ask.job);

	if (known == NULL || c->maybe)
		return false;
	if (c->ask.kind == LE_ASK_CLAIM &&
		known->state != LE_CLAIM_RUNNING && known->tick < c->ask.tick &&
		its_term_stands(c))
	{
		c->guessed = true;
		judge(c, known);
		return true;
	}
	if (c->ask.kind == LE_ASK_COMPLETE &&
		known->state == LE_CLAIM_RUNNING &&
		strcmp(known->id, c->ask.claim_id) == 0)
	{
		c->guessed = true;
		end_claim(c, known);
		return true;
	}
	return false;
}

/* ---- all of them ---- */

/* A claim as it travels through shared memory. */
void
le_claim_row(LeClaimRow *row, const LeClaim *claim)
{
	memset(row, 0, sizeof(*row));
	strlcpy(row->election, claim->election, sizeof(row->election));
	strlcpy(row->job, claim->job, sizeof(row->job));
	strlcpy(row->id, claim->id, sizeof(row->id));
	if (claim->node != NULL)
		strlcpy(row->node, claim->node, sizeof(row->node));
	row->tick = claim->tick;
	row->claimed_at = claim->claimed_at;
	row->ended_at = claim->ended_at;
	row->token = claim->token;
	row->try = claim->try;
	row->state = claim->state;
	row->every = claim->every;
	row->wait = claim->wait;
	row->last_success = claim->last_success;
	row->failures = claim->failures;
	if (claim->sqlstate != NULL)
		strlcpy(row->sqlstate, claim->sqlstate, sizeof(row->sqlstate));
	if (claim->message != NULL)
		strlcpy(row->message, claim->message, sizeof(row->message));
}

/*
 * As many as the backend has room for, and how many there are; the others stay
 * here for a while.
 */
static void
reply_rows(Claiming *c)
{
	LeReply		r = {0};
	int			n = Min(c->nrows - c->ask.from, c->ask.room);
	dsm_segment *segment;

	r.kind = LE_REPLY_TRUE;
	r.rows = c->nrows;
	/* It is gone if the backend is; then nobody reads the reply either. */
	if (n > 0 && (segment = dsm_attach(c->ask.segment)) != NULL)
	{
		memcpy(dsm_segment_address(segment), c->rows + c->ask.from,
			   n * sizeof(LeClaimRow));
		dsm_detach(segment);
	}
	if (!le_answer(c->proc, c->number, &r) || c->ask.from + n >= c->nrows)
	{
		drop(c);
		return;
	}
	c->fetched = true;
	c->give_up = le_now() + KEEP_ROWS;
}

/* The rest of what was fetched for this backend; FALSE: it is not kept. */
static void
reply_rest(int proc, uint64 number, const LeAsk *ask)
{
	LeReply		r = {0};
	dlist_iter	iter;

	dlist_foreach(iter, &claimings)
	{
		Claiming   *c = dlist_container(Claiming, node, iter.cur);

		if (!c->fetched || c->proc != proc || c->ask.owner != ask->owner ||
			ask->from < 0 || ask->from > c->nrows)
			continue;
		c->number = number;
		c->ask = *ask;
		reply_rows(c);
		return;
	}
	r.kind = LE_REPLY_FALSE;
	le_answer(proc, number, &r);
}

static void
keep_rows(Claiming *c, const LeAnswer *answer)
{
	if (answer->nclaims == 0)
		return;
	if (c->nrows + answer->nclaims > c->room)
	{
		Size		size;

		c->room = 2 * c->nrows + answer->nclaims;
		size = mul_size(c->room, sizeof(LeClaimRow));
		c->rows = c->rows == NULL ?
			MemoryContextAllocHuge(TopMemoryContext, size) :
			repalloc_huge(c->rows, size);
	}
	for (int i = 0; i < answer->nclaims; i++)
		le_claim_row(&c->rows[c->nrows++], &answer->claims[i]);
}

static void
listed(LeFlight *flight, const LeAnswer *answer)
{
	Claiming   *c = find(flight);

	if (c == NULL)
		return;
	if (answer->outcome != LE_DONE)
	{
		failed(c, answer->outcome);
		return;
	}
	keep_rows(c, answer);
	if (c->page != NULL)
		pfree(c->page);
	c->page = answer->page == NULL ? NULL :
		MemoryContextStrdup(TopMemoryContext, answer->page);
	if (c->page == NULL)
		c->next_slot++;
	list(c);
}

/* All at once, or election by election, of those that this node knows. */
static void
list(Claiming *c)
{
	LeFlight   *flight;
	bool		at_once = le_configured_store()->lists_all_claims;

	c->again_at = 0;
	while (!at_once && c->next_slot < le_table->nused &&
		   !le_slot(c->next_slot)->used)
		c->next_slot++;
	if (c->next_slot >= (at_once ? 1 : le_table->nused))
	{
		reply_rows(c);
		return;
	}
	flight = new_flight(c, LE_OP_LIST_CLAIMS, listed);
	flight->op.election = at_once ? NULL :
		le_flight_string(flight, le_slot(c->next_slot)->name);
	flight->op.page = le_flight_string(flight, c->page);
	send(flight);
}

/* ---- called by ask.c ---- */

bool
le_asks_for_claim(LeRequestKind kind)
{
	return kind == LE_ASK_CLAIM || kind == LE_ASK_COMPLETE ||
		kind == LE_ASK_LOOK || kind == LE_ASK_CLAIMS;
}

static void
begin(Claiming *c)
{
	if (c->ask.kind == LE_ASK_CLAIMS)
		list(c);
	else if (c->failures > 0 || !guess(c))
		look(c);
}

/* The slot must not get another name while the claim is under way. */
static bool
attach(Claiming *c)
{
	LeSlot	   *slot = le_find_slot(c->ask.election);

	if (slot == NULL || !le_held_by_caller(slot, &c->ask))
		return false;
	c->slot = le_slot_number(slot);
	slot->asked++;
	return true;
}

void
le_claim_question(int proc, uint64 number, const LeAsk *ask)
{
	Claiming   *c;

	if (ask->kind == LE_ASK_CLAIMS && ask->from != 0)
	{
		reply_rest(proc, number, ask);
		return;
	}
	c = MemoryContextAllocZero(TopMemoryContext, sizeof(Claiming));
	c->proc = proc;
	c->number = number;
	c->ask = *ask;
	c->maybe = ask->again;
	c->slot = -1;
	c->outcome = LE_UNAVAILABLE;
	c->give_up = le_now() + 3 * (le_request_timeout * LE_MSEC);
	if (ask->kind == LE_ASK_LOOK)
		c->give_up = Min(c->give_up, ask->wait_until);
	dlist_push_tail(&claimings, &c->node);
	/* Without the term there is nothing to write, but perhaps to find. */
	if (ask->kind == LE_ASK_CLAIM && !attach(c) && !c->maybe)
		reply_no_term(c);
	else
		begin(c);
}

/* Does anybody wait for the answer, or is it worth going on without? */
static bool
wanted(Claiming *c, le_time now)
{
	if (c->fetched)
		return now < c->give_up;
	if (le_still_asked(c->proc, c->number))
		return true;
	return c->ask.to_the_end && now < c->give_up + TO_THE_END;
}

/* Drop the questions that nobody waits for any more. */
void
le_claims_withdrawn(void)
{
	dlist_mutable_iter iter;
	le_time		now = le_now();

	dlist_foreach_modify(iter, &claimings)
	{
		Claiming   *c = dlist_container(Claiming, node, iter.cur);

		if (!wanted(c, now))
			drop(c);
	}
}

void
le_claims_run_timers(void)
{
	le_time		now = le_now();
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &claimings)
	{
		Claiming   *c = dlist_container(Claiming, node, iter.cur);

		if (!wanted(c, now))
			drop(c);
		else if (now >= c->give_up && !c->ask.to_the_end)
			reply_outcome(c, c->outcome);
		else if (c->again_at != 0 && now >= c->again_at)
			begin(c);
	}
}

/* When is there something to do next? */
le_time
le_claims_timer(void)
{
	le_time		next = 0;
	dlist_iter	iter;

	dlist_foreach(iter, &claimings)
	{
		Claiming   *c = dlist_container(Claiming, node, iter.cur);

		next = le_earliest(next, c->again_at);
		if (!c->ask.to_the_end)
			next = le_earliest(next, c->give_up);
	}
	return next;
}
