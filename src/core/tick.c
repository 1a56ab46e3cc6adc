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
 * the past.
 */
static bool
left_undone(const LeClaimView *found, const LeClaimWish *wish)
{
	return found->state == LE_CLAIM_RUNNING &&
		(found->token < wish->token ||
		 (found->token == wish->token && found->over));
}

/* May somebody be at it, as far as the claimant can know? */
static bool
under_way(const LeClaimView *found, const LeClaimWish *wish)
{
	return found->state == LE_CLAIM_RUNNING && found->token == wish->token &&
		!found->over;
}

/*
 * A tick is claimed once, and again only to catch up: in a later term, or in
 * the same one when the run before is over.  That is what keeps two runs of
 * one tick from being under way at the same time.  While it may be, whoever
 * catches up does not pass over it: nobody would ever hear of it again.
 */
LeClaimVerdict
le_judge_claim(const LeClaimView *found, const LeClaimWish *wish, int *try)
{
	*try = 1;
	if (!found->exists)
		return wish->forget ? LE_CLAIM_TAKEN : LE_CLAIM_TAKE;
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
	if (wish->catch_up && found->tick < wish->tick && under_way(found, wish))
		return LE_CLAIM_UNDER_WAY;
	return found->tick < wish->tick ? LE_CLAIM_TAKE : LE_CLAIM_TAKEN;
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
 * Should the tick after this one have been claimed by now?  Whoever waits for
 * its turn may take "wait", and a timer as much more as it may be early.  All
 * in ms; every is 0 if it is not known.
 */
bool
le_tick_is_late(int64_t now, int64_t tick, int64_t every, int64_t wait)
{
	int64_t		grace = every / 4 < MAX_EARLY / 1000 ? every / 4 :
		MAX_EARLY / 1000;

	return every > 0 && now > tick + every + wait + grace;
}
