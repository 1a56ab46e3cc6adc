/*-------------------------------------------------------------------------
 *
 * throttle.c
 *		Asking less of a store that has too much to do.
 *
 * A store may answer that it is busy, or that it was asked too often.
 * Requests that can wait then make room for those that cannot.  The first such
 * answer slows down looks at elections that others lead, each further one
 * doubles their interval; the second slows down campaigns.  Renewals, releases
 * and requests that a session waits for never slow down, beyond the delays
 * between their own attempts.  Each quiet span takes one step back.
 *
 * src/worker/wire/throttle.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/clock.h"
#include "worker/wire/throttle.h"

/* The time between looks doubles five times, at most. */
#define MAX_LEVEL		5

/* The longest time between looks, unless it is longer anyway. */
#define LONGEST_GAP		(30 * LE_SEC)

/* For looks that follow each other at once. */
#define LEAST_GAP		LE_SEC

/* A level ends after so long without such an answer. */
#define QUIET			(10 * LE_SEC)

/* Time between campaigns' requests at the first level that slows them down. */
#define CAMPAIGN_GAP	(500 * LE_MSEC)
#define CAMPAIGN_LEVEL	2

/* A store that asks for more than this is asked again all the same. */
#define MOST_ASKED		(60 * LE_SEC)

static int	level = 0;
static le_time changed = 0;		/* last change of the level */
static le_time busy_at = 0;		/* last answer of a busy store ... */
static le_duration asked_for = 0;	/* ... and the pause it asked for */
static le_time campaigned = 0;

void
le_throttle_start(void)
{
	level = 0;
	changed = busy_at = campaigned = 0;
	asked_for = 0;
}

/* The store is busy; "asked": how long to leave it alone, or 0. */
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

/* The time until the next look, which would otherwise be "gap". */
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
 * When may the next campaign's request be sent?  0: at once.  A sixth of the
 * lease is as long as a renewal waits for its next attempt.
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
