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

#include "utils/memutils.h"

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

LeThrottle *
le_throttle_new(void)
{
	return MemoryContextAllocZero(TopMemoryContext, sizeof(LeThrottle));
}

/* The store is busy; "asked": how long to leave it alone, or 0. */
void
le_throttle_busy(LeThrottle *throttle, le_duration asked)
{
	if (throttle->level < MAX_LEVEL)
		throttle->level++;
	throttle->changed = le_now();
	throttle->asked_for = Min(asked, MOST_ASKED);
	throttle->busy_at = throttle->changed;
}

static void
calm_down(LeThrottle *throttle)
{
	while (throttle->level > 0 && le_now() >= throttle->changed + QUIET)
	{
		throttle->level--;
		throttle->changed += QUIET;
	}
}

/* The time until the next look, which would otherwise be "gap". */
le_duration
le_throttle_look(LeThrottle *throttle, le_duration gap)
{
	le_duration longer;

	calm_down(throttle);
	if (throttle->level == 0)
		return gap;
	longer = Min(Max(gap, LEAST_GAP) << throttle->level,
				 Max(gap, LONGEST_GAP));
	return Max(longer, throttle->busy_at + throttle->asked_for - le_now());
}

/*
 * When may the next campaign's request be sent?  0: at once.  A sixth of the
 * lease is as long as a renewal waits for its next attempt.
 */
le_time
le_throttle_campaign(LeThrottle *throttle, le_duration lease)
{
	le_duration gap;
	le_time		from;

	calm_down(throttle);
	if (throttle->level < CAMPAIGN_LEVEL)
		return 0;
	gap = Min(CAMPAIGN_GAP << (throttle->level - CAMPAIGN_LEVEL), lease / 6);
	from = Max(throttle->campaigned + gap,
			   throttle->busy_at + Min(throttle->asked_for, lease / 6));
	return from > le_now() ? from : 0;
}

void
le_throttle_campaigned(LeThrottle *throttle)
{
	throttle->campaigned = le_now();
}
