/*-------------------------------------------------------------------------
 *
 * poll.c
 *		Waiting for keys one by one, where each has a lease of its own.
 *
 * A store with leases per key is asked about each election that this node
 * waits for: the request is parked there until holder, term or value differ
 * from what was seen last.  What this node holds is not watched: its renewals
 * tell, and until its lease has run out nobody else can take it.
 *
 * Waits hold connections, so there is a limit to how many are parked at once.
 * Beyond it they take turns, each for a shorter time; and the core looks at
 * every key that it waits for once per lease by itself.
 *
 * src/worker/poll.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "compat.h"
#include "worker/dispatch.h"
#include "worker/elect.h"
#include "worker/poll.h"

/* How long one wait stays parked at the store, if all can be. */
#define PARK_MS			30000
#define LEAST_PARK_MS	1000

/* What the store may need beyond that. */
#define PARK_GRACE		(10 * LE_SEC)

typedef struct Poll
{
	bool		parked;
	int			failures;
	le_time		next_at;		/* 0: at once */
} Poll;

static Poll *polls;
static int	parked = 0;
static int	turn = 0;			/* whose it is, when they take turns */

void
le_poll_start(void)
{
	polls = MemoryContextAllocZero(TopMemoryContext,
								   le_table->nslots * sizeof(Poll));
}

static bool
to_be_watched(int i)
{
	return le_slot(i)->election.state == LE_WAITING;
}

static int
count_watched(void)
{
	int			n = 0;

	for (int i = 0; i < le_table->nused; i++)
		n += to_be_watched(i) ? 1 : 0;
	return n;
}

static void
poll_answered(LeFlight *flight, const LeAnswer *answer)
{
	Poll	   *poll = &polls[flight->slot];
	LeSlot	   *slot = le_slot(flight->slot);

	poll->parked = false;
	parked--;
	if (answer->outcome != LE_DONE)
	{
		poll->failures++;
		poll->next_at = le_now() +
			le_retry_delay(&le_table->node.timing, poll->failures,
						   le_random());
		return;
	}
	poll->failures = 0;
	poll->next_at = 0;
	/* The slot may have another name by now, or the node another session. */
	if (strcmp(slot->name, flight->op.election) == 0 &&
		flight->epoch == le_table->node.epoch)
		le_elect_seen(slot, answer->nkeys > 0 ? &answer->keys[0] : NULL,
					  answer->index);
}

static void
park(int i, int watched)
{
	LeSlot	   *slot = le_slot(i);
	LeFlight   *flight = le_flight_new(LE_OP_WATCH, poll_answered);
	int			wait_ms = PARK_MS;

	if (watched > LE_MAX_POLLS)
		wait_ms = Max(PARK_MS / watched * LE_MAX_POLLS, LEAST_PARK_MS);
	flight->slot = i;
	flight->op.election = le_flight_string(flight, slot->name);
	flight->op.watch_index = slot->holder_index;
	flight->op.rev = slot->rev;
	flight->op.wait_ms = wait_ms;
	polls[i].parked = true;
	parked++;
	le_flight_send(flight, wait_ms * LE_MSEC + PARK_GRACE);
}

static bool
is_due(int i, le_time now)
{
	return to_be_watched(i) && !polls[i].parked && now >= polls[i].next_at;
}

static bool
needed(void)
{
	return le_store()->key_leases && le_session_live();
}

void
le_poll_run_timers(void)
{
	le_time		now = le_now();
	int			watched;

	if (!needed() || (watched = count_watched()) == 0)
		return;
	for (int k = 0; k < le_table->nused && parked < LE_MAX_POLLS; k++)
	{
		turn = (turn + 1) % le_table->nused;
		if (is_due(turn, now))
			park(turn, watched);
	}
}

le_time
le_poll_timer(void)
{
	le_time		next = 0;
	le_time		now = le_now();

	if (!needed() || parked >= LE_MAX_POLLS)
		return 0;
	for (int i = 0; i < le_table->nused; i++)
		if (to_be_watched(i) && !polls[i].parked)
			next = le_earliest(next, Max(polls[i].next_at, now));
	return next;
}
