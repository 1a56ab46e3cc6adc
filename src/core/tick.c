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
 * Was the record left running by a term that is over?  Tokens only grow, so a
 * lower one than that of a term that holds now is of the past.
 */
static bool
left_undone(const LeClaimView *found, const LeClaimWish *wish)
{
	return found->state == LE_CLAIM_RUNNING && found->token < wish->token;
}

/*
 * A tick is claimed once, and again only to catch up, in a later term.  That
 * the try rises in a later term only is what keeps two runs of one tick from
 * being under way at the same time.
 */
LeClaimVerdict
le_judge_claim(const LeClaimView *found, const LeClaimWish *wish, int *try)
{
	*try = 1;
	if (!found->exists)
		return LE_CLAIM_TAKE;
	if (found->ours)
	{
		*try = found->try;
		return LE_CLAIM_OURS;
	}
	if (found->tick > wish->tick)
		return LE_CLAIM_TAKEN;
	if (wish->catch_up && left_undone(found, wish))
	{
		if (found->tick < wish->tick)
			return LE_CLAIM_BEHIND;
		*try = found->try + 1;
		return LE_CLAIM_TAKE;
	}
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
