/*-------------------------------------------------------------------------
 *
 * tick.c
 *		Which tick of a job may be claimed, and which tick it is.
 *
 * src/core/tick.c
 *
 *-------------------------------------------------------------------------
 */
#include "core/tick.h"

/* How early or late a timer may fire and still name its tick, in µs. */
#define MAX_EARLY	INT64_C(2000000)

/*
 * Was the record left running by a term that is over, or by a run that is?
 * Tokens only grow, so a lower one than that of a term that holds now is of
 * the past.  One that is higher tells that tokens have gone back, or that it
 * is our term that is over.  Where the store writes a claim only if our term
 * holds, the latter comes to nothing; so there it is of the past, too.
 */
static bool
left_undone(const LeClaimView *found, const LeClaimWish *wish)
{
	if (found->state != LE_CLAIM_RUNNING)
		return false;
	if (found->token == wish->token)
		return found->over;
	return found->token < wish->token || wish->term_is_judged;
}

/* May somebody be at it, as far as the claimant can know? */
static bool
under_way(const LeClaimView *found, const LeClaimWish *wish)
{
	return found->state == LE_CLAIM_RUNNING && found->token == wish->token &&
		!found->over;
}

/*
 * Is one tick to be over before the next is claimed?  A claim that ran beside
 * that of an older tick would stand in its place.
 */
bool
le_claims_in_order(const LeClaimWish *wish)
{
	return wish->catch_up || wish->missed == LE_MISSED_LAST ||
		wish->missed == LE_MISSED_ALL;
}

/*
 * Does the tick on record belong to the same row of ticks as the wish?  By
 * another interval it would be anybody's guess which ticks were due since; of
 * one that became shorter there would be a flood.
 */
static bool
same_row(const LeClaimView *found, const LeClaimWish *wish)
{
	return found->exists && wish->every > 0 && found->every == wish->every &&
		found->tick < wish->due &&
		(wish->due - found->tick) % wish->every == 0;
}

/*
 * An older tick than the one that is due is claimed because of what was on
 * record.  If that is of another row by now, nobody knows of it any more.
 */
static bool
is_outdated(const LeClaimView *found, const LeClaimWish *wish)
{
	return wish->tick < wish->due && !same_row(found, wish);
}

/* How many ticks lie between the two? */
static int64_t
count_between(int64_t after, int64_t before, int64_t every)
{
	return (before - after) / every - 1;
}

/*
 * The tick to claim next after that on record: the one that is wished for, due
 * that is, unless some before it were missed, and are to be run.
 */
static int64_t
next_tick(const LeClaimView *found, const LeClaimWish *wish)
{
	int64_t		missed;
	int64_t		runs = 0;

	if (!same_row(found, wish))
		return wish->tick;
	missed = count_between(found->tick, wish->due, wish->every);
	if (wish->missed == LE_MISSED_ALL)
		runs = missed < wish->max_missed ? missed : wish->max_missed;
	else if (wish->missed == LE_MISSED_LAST && missed > 0)
		runs = 1;
	return wish->due - runs * wish->every;
}

/*
 * What a claim of wish->tick passes over.  A record only goes forward, so what
 * lies between it and the tick is missed for good once that is written.
 */
LeGap
le_gap_before(const LeClaimView *found, const LeClaimWish *wish)
{
	LeGap		gap = {0};

	if (wish->every <= 0 || wish->forget || !found->exists ||
		found->tick >= wish->tick)
		return gap;
	if (!same_row(found, wish))
	{
		if (found->every != wish->every)
			gap.every_before = found->every;
		return gap;
	}
	gap.n = count_between(found->tick, wish->tick, wish->every);
	if (gap.n > 0)
	{
		gap.first = found->tick + wish->every;
		gap.last = wish->tick - wish->every;
	}
	return gap;
}

/*
 * A tick is claimed once, and again only to catch up: in a later term, or in
 * the same one when the run before is over.  That is what keeps two runs of
 * one tick from being under way at the same time.  While it may be, whoever
 * catches up does not pass over it: nobody would ever hear of it again.
 * "older" is the tick that comes first, or may be under way.
 */
LeClaimVerdict
le_judge_claim(const LeClaimView *found, const LeClaimWish *wish, int *try,
			   int64_t *older)
{
	*try = 1;
	*older = found->tick;
	if (!found->exists)
		return wish->forget || is_outdated(found, wish) ?
			LE_CLAIM_TAKEN : LE_CLAIM_TAKE;
	if (found->ours)
	{
		*try = found->try;
		return LE_CLAIM_OURS;
	}
	if (wish->forget)
		return LE_CLAIM_TAKE;
	if (found->tick > wish->tick)
		return LE_CLAIM_TAKEN;
	if (wish->catch_up && left_undone(found, wish))
	{
		if (found->tick < wish->tick)
			return LE_CLAIM_BEHIND;
		*try = found->try + 1;
		return LE_CLAIM_TAKE;
	}
	if (found->tick >= wish->tick)
		return LE_CLAIM_TAKEN;
	if (le_claims_in_order(wish) && under_way(found, wish))
		return LE_CLAIM_UNDER_WAY;
	if (is_outdated(found, wish))
		return LE_CLAIM_TAKEN;
	*older = next_tick(found, wish);
	return *older < wish->tick ? LE_CLAIM_BEHIND : LE_CLAIM_TAKE;
}

/*
 * The tick that an instant belongs to: the last multiple of the interval,
 * counted from the epoch of "now".  What fires up to a quarter of the interval
 * too early, at most 2 s, means the tick to come: the clocks of two nodes
 * never agree, and both must name the same tick.  All in µs.
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
 * What was caught up with later than that tells nothing about when the job is
 * called, only that it may be as late as the end of its tick.  Clocks of two
 * nodes differ, so a claim may also seem to come before its tick.  All in ms;
 * claimed_at is 0 if it is not known.
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
 * Should the tick after this one have been claimed by now?  Whoever waits for
 * its turn may take "wait", and a timer as much more as it may be early.  All
 * in ms; every is 0 if it is not known.
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
