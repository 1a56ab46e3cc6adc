/*-------------------------------------------------------------------------
 *
 * tick.c
 *		Rules for claims of a job's ticks.
 *
 * src/core/tick.c
 *
 *-------------------------------------------------------------------------
 */
#include "core/tick.h"

/* How early or late a timer may fire and still name its tick, in µs. */
#define MAX_EARLY	INT64_C(2000000)

/* How far the clocks of two nodes may differ before anybody is told, in ms. */
#define MAX_APART	INT64_C(60000)

/*
 * Did a term or a run that is over leave the record running?  Tokens only
 * grow, so a token below that of a term that holds now is of the past.  A
 * higher one means that tokens have gone back or that our term is over.  If
 * our term is over, a store that checks the term refuses our claim anyway, so
 * there a higher token counts as past, too.
 */
static bool
left_undone(const LeClaimView *found, const LeClaimPlan *plan)
{
	if (found->state != LE_CLAIM_RUNNING)
		return false;
	if (found->token == plan->token)
		return found->over;
	return found->token < plan->token || plan->term_is_judged;
}

/* May a run of our own term still be under way? */
static bool
under_way(const LeClaimView *found, const LeClaimPlan *plan)
{
	return found->state == LE_CLAIM_RUNNING && found->token == plan->token &&
		!found->over;
}

/*
 * Must one tick be over before the next is claimed?  A second claim replaces
 * the record of the first.
 */
bool
le_claims_in_order(const LeClaimPlan *plan)
{
	return plan->catch_up || plan->missed == LE_MISSED_LAST ||
		plan->missed == LE_MISSED_ALL;
}

/*
 * Does the tick on record belong to the same row of ticks as the plan?  After
 * a change of the interval nobody can tell which ticks were due since, and a
 * shorter one would cause a flood.
 */
static bool
same_row(const LeClaimView *found, const LeClaimPlan *plan)
{
	return found->exists && plan->every > 0 && found->every == plan->every &&
		found->tick < plan->due &&
		(plan->due - found->tick) % plan->every == 0;
}

/*
 * Is the plan for a tick before the due one outdated?  The record showed that
 * tick as missed or undone; a record of another row no longer does.
 */
static bool
is_outdated(const LeClaimView *found, const LeClaimPlan *plan)
{
	return plan->tick < plan->due && !same_row(found, plan);
}

/* How many ticks lie between the two? */
static int64_t
count_between(int64_t after, int64_t before, int64_t every)
{
	return (before - after) / every - 1;
}

/*
 * The tick to claim next after that on record: the one that is due, or the
 * first of the missed ticks that are to be run.
 */
static int64_t
next_tick(const LeClaimView *found, const LeClaimPlan *plan)
{
	int64_t		missed;
	int64_t		runs = 0;

	if (!same_row(found, plan))
		return plan->tick;
	missed = count_between(found->tick, plan->due, plan->every);
	if (plan->missed == LE_MISSED_ALL)
		runs = missed < plan->max_missed ? missed : plan->max_missed;
	else if (plan->missed == LE_MISSED_LAST && missed > 0)
		runs = 1;
	return plan->due - runs * plan->every;
}

/* Does a claim of plan->tick step forward from the tick on record? */
static bool
steps_on(const LeClaimView *found, const LeClaimPlan *plan)
{
	return plan->every > 0 && !plan->forget && found->exists &&
		found->tick < plan->tick;
}

/*
 * Another interval on record, so nobody knows how many ticks a claim of
 * plan->tick passes over; 0: the same interval, or none.
 */
int64_t
le_every_before(const LeClaimView *found, const LeClaimPlan *plan)
{
	return steps_on(found, plan) && found->every != plan->every ?
		found->every : 0;
}

/* A record only goes forward, so ticks between are missed for good. */
static LeGap
gap_between(const LeClaimView *found, const LeClaimPlan *plan)
{
	LeGap		gap = {0};

	if (!steps_on(found, plan) || !same_row(found, plan))
		return gap;
	gap.n = count_between(found->tick, plan->tick, plan->every);
	if (gap.n > 0)
	{
		gap.first = found->tick + plan->every;
		gap.last = plan->tick - plan->every;
	}
	return gap;
}

/*
 * The ticks that the claim on record has passed over, and perhaps nobody has
 * reported: its claimant is told of the claim after the report, and only a
 * claimant who was told ends the claim.
 */
LeGap
le_gap_kept(const LeClaimView *found)
{
	LeGap		none = {0};

	return found->exists && found->state == LE_CLAIM_RUNNING ?
		found->gap : none;
}

/*
 * The ticks to report with a claim of plan->tick: those that it passes over,
 * and those that the claim in whose place it comes has left to report.  The
 * tick of that claim lies between the two and is not one of them.
 */
LeGap
le_gap_before(const LeClaimView *found, const LeClaimPlan *plan)
{
	LeGap		kept = le_gap_kept(found);
	LeGap		gap = gap_between(found, plan);

	if (kept.n == 0)
		return gap;
	if (gap.n > 0)
		kept.last = gap.last;
	kept.n += gap.n;
	return kept;
}

/*
 * Each write of a record is based on the one before it, and counts one more.
 * Its tick never goes back but where the job was made to begin anew: then a
 * new count begins, in the upper half of the number.
 */
#define COUNT_OF(writes)	((writes) >> 32)

/* The number of a write by which the job begins anew. */
uint64_t
le_begin_anew(uint64_t writes)
{
	return (COUNT_OF(writes) + 1) << 32;
}

/* Which of two records of a job came later?  The other one may be none. */
bool
le_record_is_later(const LeSeenRecord *record, const LeSeenRecord *other)
{
	if (COUNT_OF(record->writes) != COUNT_OF(other->writes))
		return record->writes > other->writes;
	if (record->tick != other->tick)
		return record->tick > other->tick;
	return record->writes > other->writes;
}

/*
 * Has the store lost the record that was seen?  Then it was restored, or its
 * data was deleted, and it may have been written since, by others who had not
 * seen it.  A record of another client counts no writes; a later tick shows
 * that it came later.  "tick" is negative if there is no record.
 */
bool
le_record_is_lost(const LeSeenRecord *seen, uint64_t writes, int64_t tick)
{
	LeSeenRecord found = {.writes = writes, .tick = tick};

	return seen->writes != 0 && tick <= seen->tick &&
		le_record_is_later(seen, &found);
}

/*
 * Where the store has lost a record, what was seen counts in its place: the
 * ticks up to there may have run, and a claim of a later tick brings the
 * record up to date.
 */
void
le_count_seen(LeClaimView *found, const LeSeenRecord *seen)
{
	LeGap		none = {0};

	if (!le_record_is_lost(seen, found->writes,
						   found->exists ? found->tick : -1))
		return;
	found->lost = found->exists = true;
	found->writes = seen->writes;
	found->tick = seen->tick;
	found->state = LE_CLAIM_DONE;
	found->gap = none;
}

/*
 * A tick is claimed once, and again only to catch up: in a later term, or in
 * the same one when the run before is over.  So two runs of one tick are never
 * under way at the same time.  A claimant that catches up does not pass over a
 * tick that may be under way, since no later claim would report it.  "older"
 * is the tick that comes first, or may be under way.
 */
LeClaimVerdict
le_judge_claim(const LeClaimView *found, const LeClaimPlan *plan, int *try,
			   int64_t *older)
{
	*try = 1;
	*older = found->tick;
	if (!found->exists)
		return plan->forget || is_outdated(found, plan) ?
			LE_CLAIM_TAKEN : LE_CLAIM_TAKE;
	if (found->ours)
	{
		*try = found->try;
		return LE_CLAIM_OURS;
	}
	if (plan->forget)
		return LE_CLAIM_TAKE;
	if (found->lost && found->tick >= plan->tick)
		return LE_CLAIM_LOST;
	if (found->tick > plan->tick)
		return LE_CLAIM_TAKEN;
	if (plan->catch_up && left_undone(found, plan))
	{
		if (found->tick < plan->tick)
			return LE_CLAIM_BEHIND;
		*try = found->try + 1;
		return LE_CLAIM_TAKE;
	}
	if (found->tick >= plan->tick)
		return LE_CLAIM_TAKEN;
	if (le_claims_in_order(plan) && under_way(found, plan))
		return LE_CLAIM_UNDER_WAY;
	if (is_outdated(found, plan))
		return LE_CLAIM_TAKEN;
	*older = next_tick(found, plan);
	return *older < plan->tick ? LE_CLAIM_BEHIND : LE_CLAIM_TAKE;
}

/*
 * The tick that an instant belongs to: the last multiple of the interval,
 * counted from the epoch of "now".  A timer that fires up to a quarter of the
 * interval too early, at most 2 s, means the tick to come: the clocks of two
 * nodes never agree, and both must name the same tick.  All in µs.
 */
int64_t
le_tick_at(int64_t now, int64_t every)
{
	int64_t		early = every / 4 < MAX_EARLY ? every / 4 : MAX_EARLY;
	int64_t		shifted = now + early;
	int64_t		n = shifted / every;

	if (shifted % every < 0)
		n--;					/* before the epoch too, downwards */
	return n * every;
}

/*
 * When is the tick after this one to be claimed?  As long after its time as
 * this one was: a job that is called at 03:00 claims the tick of midnight.
 * After a later claim, to catch up, the time of the call is unknown: it may be
 * as late as the end of the tick.  Clocks of two nodes differ, so a claim may
 * also seem to come before its tick.  All in ms; claimed_at is 0 if unknown.
 */
int64_t
le_next_expected(int64_t tick, int64_t claimed_at, int64_t every)
{
	int64_t		phase = claimed_at - tick;

	if (phase < 0)
		phase = 0;
	if (phase > every)
		phase = every;
	return tick + every + phase;
}

/*
 * Should the tick after this one have been claimed by now?  A node that waits
 * for its turn may take "wait", and a timer as much more as it may be early.
 * All in ms; every is 0 if it is not known.
 */
bool
le_tick_is_late(int64_t now, int64_t tick, int64_t claimed_at, int64_t every,
				int64_t wait)
{
	int64_t		grace = every / 4 < MAX_EARLY / 1000 ? every / 4 :
		MAX_EARLY / 1000;

	return every > 0 &&
		now > le_next_expected(tick, claimed_at, every) + wait + grace;
}

/*
 * By how much is our clock ahead of another, at least, of which the bounds are
 * known?  Negative: behind; 0: perhaps neither.
 */
int64_t
le_clock_ahead(int64_t ours, int64_t least, int64_t most)
{
	return ours > most ? ours - most : ours < least ? ours - least : 0;
}

/*
 * Does a claim lie ahead of this node's clock?  Then one of the two clocks is
 * or was wrong, and the job rests, since a record only goes forward.  A caller
 * by hand may name a tick of the future; where ticks have an interval, none
 * after the next.  All in ms; claimed_at is 0 if unknown, every is 0 if ticks
 * have no interval.
 */
bool
le_claim_is_ahead(int64_t now, int64_t tick, int64_t claimed_at, int64_t every)
{
	return claimed_at > now + MAX_APART ||
		(every > 0 && tick > now + every + MAX_APART);
}
