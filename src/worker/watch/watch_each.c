/*-------------------------------------------------------------------------
 *
 * watch_each.c
 *		Waiting for keys one by one, where each has a lease of its own.
 *
 * A store that cannot show all keys at once is asked about each election that
 * this node waits for: the request is parked there until holder, term or value
 * differ from those seen last, or is repeated every so often.  This node's own
 * terms are not watched: their renewals tell, and until the lease has run out
 * no other node can take the key.
 *
 * Waits hold connections, so there is a limit to how many are parked at once.
 * Beyond it they take turns, each for a shorter time; and the core looks at
 * every key that it waits for once per lease by itself.
 *
 * src/worker/watch/watch_each.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "settings.h"
#include "worker/lead/elect.h"
#include "worker/lead/roster.h"
#include "worker/watch/watch_each.h"
#include "worker/wire/dispatch.h"
#include "worker/wire/throttle.h"

/* Least share of the time per wait, when not all can be parked. */
#define LEAST_PARK_MS	1000

typedef struct Poll
{
	bool		parked;
	int			failures;
	le_time		next_at;		/* 0: at once */
} Poll;

struct LeWatchEach
{
	int			parked;
	int			turn;			/* the next slot, when they take turns */
	Poll		polls[FLEXIBLE_ARRAY_MEMBER];	/* by slot */
};

LeWatchEach *
le_watch_each_new(void)
{
	return MemoryContextAllocZero(TopMemoryContext,
								  offsetof(LeWatchEach, polls) +
								  le_table->nslots * sizeof(Poll));
}

/* A parked wait is followed by another at once.  If the store answers each at
 * once, nodes that began together drift apart. */
static le_time
next_look(LeWorker *w)
{
	const int  *ms = le_configured_store()->watch.poll_ms;
	le_duration gap = le_throttle_look(w->throttle, ms == NULL ? 0 :
									   *ms * LE_MSEC);

	return gap == 0 ? 0 : le_now() + gap - le_jitter(gap / 10, le_random());
}

static void
poll_answered(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeWatchEach *watch_each = w->watch_each;
	Poll	   *poll = &watch_each->polls[flight->slot];
	LeSlot	   *slot = le_slot(flight->slot);

	poll->parked = false;
	watch_each->parked--;
	if (answer->outcome != LE_DONE)
	{
		poll->failures++;
		poll->next_at = le_now() +
			le_throttle_look(w->throttle,
							 le_retry_delay(&le_table->node.timing,
											poll->failures, le_random()));
		return;
	}
	poll->failures = 0;
	poll->next_at = next_look(w);
	/* The slot may have another name by now, the node another session. */
	if (strcmp(slot->name, flight->op.election) == 0 &&
		flight->epoch == le_table->node.epoch &&
		!le_flight_is_outdated(w, flight))
		le_elect_seen(w, slot, answer->nkeys > 0 ? &answer->keys[0] : NULL,
					  answer->index);
}

static void
park(LeWorker *w, int i, int watched)
{
	LeWatchEach *watch_each = w->watch_each;
	LeSlot	   *slot = le_slot(i);
	LeFlight   *flight = le_flight_new(LE_OP_WATCH, poll_answered);
	const LeStore *store = le_configured_store();
	int			wait_ms = store->watch.park_ms;

	if (watched > store->watch.max_parked)
		wait_ms = Max(wait_ms / watched * store->watch.max_parked,
					  LEAST_PARK_MS);
	flight->slot = i;
	flight->op.election = le_flight_string(flight, slot->name);
	flight->op.watch.index = slot->holder.index;
	flight->op.term.rev = slot->key.rev;
	flight->op.watch.wait_ms = wait_ms;
	watch_each->polls[i].parked = true;
	watch_each->parked++;
	le_flight_send(w, flight, (wait_ms +
							   store->watch.park_grace_ms) * LE_MSEC);
}

static bool
is_wait_due(LeWorker *w, int i, le_time now)
{
	LeWatchEach *watch_each = w->watch_each;

	return !watch_each->polls[i].parked && now >= watch_each->polls[i].next_at;
}

static bool
is_wait_needed(void)
{
	return le_configured_store()->watch.kind == LE_WATCH_EACH &&
		le_session_live();
}

void
le_watch_each_run_timers(LeWorker *w)
{
	LeWatchEach *watch_each = w->watch_each;
	const LeSlotSet *waiting = &w->roster->waiting;
	int			most = le_configured_store()->watch.max_parked;
	le_time		now = le_now();

	if (!is_wait_needed())
		return;
	for (int k = waiting->n; k > 0 && watch_each->parked < most; k--)
	{
		watch_each->turn = le_set_after(waiting, watch_each->turn);
		if (is_wait_due(w, watch_each->turn, now))
			park(w, watch_each->turn, waiting->n);
	}
}

le_time
le_watch_each_timer(LeWorker *w)
{
	LeWatchEach *watch_each = w->watch_each;
	le_time		next = 0;
	le_time		now = le_now();

	if (!is_wait_needed() || watch_each->parked >=
		le_configured_store()->watch.max_parked)
		return 0;
	le_foreach_slot(i, &w->roster->waiting)
		if (!watch_each->polls[i].parked)
			next = le_earliest(next, Max(watch_each->polls[i].next_at, now));
	return next;
}
