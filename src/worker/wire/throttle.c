/*-------------------------------------------------------------------------
 *
 * throttle.c
 *		Asking less of a store that has too much to do.
 *
 * A store may answer that it is busy, or that it was asked too often.  What
 * can wait makes room then for what cannot: looks at elections that others
 * lead slow down with the first such answer, twice with each further one;
 * what is sought without anybody waiting for it with the second; renewals,
 * releases and what a session waits for never, beyond the delays between
 * their own attempts.  Each quiet span takes one step back.
 *
 * src/worker/wire/throttle.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/clock.h"
#include "worker/wire/throttle.h"

/* Doubles the time between looks five times, at most. */
#define MAX_LEVEL		5

/* Looks never get further apart than this, unless they are anyway. */
#define LONGEST_GAP		(30 * LE_SEC)

/* Where looks follow each other at once. */
#define LEAST_GAP		LE_SEC

/* Without such an answer a level ends after so long. */
#define QUIET			(10 * LE_SEC)

/* Between campaigns' requests at the first level that slows them down. */
#define CAMPAIGN_GAP	(500 * LE_MSEC)
#define CAMPAIGN_LEVEL	2

/* A store that asks for more than this is asked again all the same. */
#define MOST_ASKED		(60 * LE_SEC)

static int	level = 0;
static le_time changed = 0;		/* when the level was last raised or lowered */
static le_time busy_at = 0;		/* when the store last said so, and ... */
static le_duration asked_for = 0;	/* ... for how long */
static le_time campaigned = 0;

void
le_throttle_start(void)
{
	level = 0;
	changed = busy_at = campaigned = 0;
	asked_for = 0;
}

/* The store has said so; "asked": how long to leave it alone, or 0. */
void
le_throttle_busy(le_duration asked)
{
	if (level < MAX_LEVEL)
		level++;
	changed = le_now();
	asked_for = Min(asked, MOST_ASKED);
	busy_at = changed;
}

static void
calm_down(void)
{
	while (level > 0 && le_now() >= changed + QUIET)
	{
		level--;
		changed += QUIET;
	}
}

/* How long until the next look, which would otherwise be after "gap"? */
le_duration
le_throttle_look(le_duration gap)
{
	le_duration longer;

	calm_down();
	if (level == 0)
		return gap;
	longer = Min(Max(gap, LEAST_GAP) << level, Max(gap, LONGEST_GAP));
	return Max(longer, busy_at + asked_for - le_now());
}

/*
 * From when on may what is sought by itself be sent?  0: at once.  A sixth of
 * the lease is as long as a renewal waits for its next attempt.
 */
le_time
le_throttle_campaign(le_duration lease)
{
	le_duration gap;
	le_time		from;

	calm_down();
	if (level < CAMPAIGN_LEVEL)
		return 0;
	gap = Min(CAMPAIGN_GAP << (level - CAMPAIGN_LEVEL), lease / 6);
	from = Max(campaigned + gap, busy_at + Min(asked_for, lease / 6));
	return from > le_now() ? from : 0;
}

void
le_throttle_campaigned(void)
{
	campaigned = le_now();
}
