/*-------------------------------------------------------------------------
 *
 * lanes.c
 *		The turns of requests, and operations that share one.
 *
 * Requests go in lanes, each with connections and a window of its own: a
 * request that keeps a term alive never waits behind those that seek one,
 * however many there are.  An operation that finds its lane's window full
 * waits for its turn.  It is not sent yet, so its time has not begun, and the
 * store has not failed if it takes long; a caller that has stopped wanting it
 * by then is told so instead.  At most one request per election waits, and
 * those of sessions that wait themselves.
 *
 * Operations that wait together go together, if the store can have several in
 * one request.  Each of them is answered for itself; those that were not
 * applied only because another was refused are sent again.  A server that
 * refuses them all together, as it does for the fault of one, is asked for one
 * after the other, and tried again after a while.
 *
 * src/worker/wire/lanes.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "settings.h"
#include "shmem/clock.h"
#include "shmem/leases.h"
#include "shmem/stats.h"
#include "worker/wire/health.h"
#include "worker/wire/lanes.h"
#include "worker/wire/secret.h"
#include "worker/wire/throttle.h"

/*
 * Limits of the lanes' requests under way.  Urgent ones are never many; for
 * the others a window keeps the store busy without making each of them slow.
 */
const int	le_lane_windows[LE_NLANES] = {
	[LE_LANE_LIFE] = 8,
	[LE_LANE_RELEASE] = 4,
	[LE_LANE_ASKED] = 8,
	[LE_LANE_CAMPAIGN] = 8,
	[LE_LANE_READ] = 4,
	[LE_LANE_WATCH] = 3,		/* keys, news, nodes; max_parked is added */
};

/* A flight that was sent in vain so often goes by itself. */
#define MAX_UNJUDGED	3

/*
 * A store that carries out each by itself must not take long to answer, since
 * trust counts from the send of the request: no more than a share of the
 * lease, of which half is quick.
 */
#define SLOW_SHARE		16

/* Flights that may be passed by to find one of another kind. */
#define MAX_PASSED_BY	400

/* Sets how many connections each lane may need. */
LeLanes *
le_lanes_new(const int windows[LE_NLANES], int connections[LE_NLANES])
{
	LeLanes    *lanes = MemoryContextAllocZero(TopMemoryContext,
											   sizeof(LeLanes));

	lanes->together = LE_MAX_JOINED;
	for (int i = 0; i < LE_NLANES; i++)
	{
		LeLaneQueue	   *lane = &lanes->each[i];

		dlist_init(&lane->waiting);
		lane->window = windows[i];
		if (i == LE_LANE_WATCH)
			lane->window += le_configured_store()->watch.max_parked;
		connections[i] = lane->window;
	}
	return lanes;
}

/* Other servers may be asked from now on. */
void
le_lanes_configure(LeWorker *w)
{
	w->lanes->apart_until = 0;
}

bool
le_lane_is_free(LeWorker *w, LeLane lane)
{
	LeLanes	   *lanes = w->lanes;

	return lanes->each[lane].under_way < lanes->each[lane].window;
}

/* The flight is not in its lane, and is in no other's request. */
pg_attribute_unused() static bool
waits_for_turn(const LeFlight *flight)
{
	return !flight->under_way && !flight->handed_over;
}

/* The flight waits for its turn behind the others. */
void
le_lane_queue(LeWorker *w, LeFlight *flight)
{
	LeLanes	   *lanes = w->lanes;

	Assert(waits_for_turn(flight));
	flight->turn = lanes->turns;
	dlist_push_tail(&lanes->each[flight->lane].waiting, &flight->node);
}

/* The same, but in another lane. */
void
le_lane_change(LeWorker *w, LeFlight *flight, LeLane lane)
{
	Assert(waits_for_turn(flight));
	dlist_delete(&flight->node);
	flight->lane = lane;
	dlist_push_tail(&w->lanes->each[lane].waiting, &flight->node);
}

/* The flight enters its lane, and its time begins. */
void
le_lane_enter(LeWorker *w, LeFlight *flight)
{
	Assert(waits_for_turn(flight));
	w->lanes->each[flight->lane].under_way++;
	flight->under_way = true;
	flight->sent = flight->transmitted = le_now();
	flight->until = le_earliest(flight->sent + flight->patience,
								flight->not_after);
}

/* ---- answers ---- */

/* The row of the statistics that the flight counts for. */
static int
stat_row(const LeFlight *flight)
{
	const char *election = flight->op.election;

	return election == NULL ? LE_STAT_NODE : le_find_term(election);
}

/*
 * A parked query is answered when something changes: its time says nothing
 * about the store.
 */
static void
count_answer(const LeFlight *flight, const LeAnswer *answer)
{
	if (!le_flight_may_park(flight))
		le_stat_answer(stat_row(flight), flight->sent, answer->outcome);
}

static void
leave_lane(LeWorker *w, LeFlight *flight)
{
	LeLanes	   *lanes = w->lanes;

	Assert(flight->under_way || flight->handed_over);
	Assert(flight->under_way || !flight->carries);
	Assert(lanes->each[flight->lane].under_way >= flight->under_way);
	Assert(lanes->each[flight->lane].carrying >= flight->carries);
	if (flight->under_way)
		lanes->each[flight->lane].under_way--;
	if (flight->carries)
		lanes->each[flight->lane].carrying--;
	flight->under_way = flight->carries = flight->handed_over = false;
}

/* A failed fetch ahead of time is of no interest: there is the last secret. */
static bool
is_of_interest(LeWorker *w, const LeFlight *flight)
{
	const LeStore *store = le_configured_store();

	if (flight->op.kind == LE_OP_AUTHENTICATE &&
		!le_secret_missing(w->secrets))
		return false;
	return !store->between_instances || !le_performs(store, flight->op.kind);
}

void
le_lanes_finish(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	leave_lane(w, flight);
	if (is_of_interest(w, flight))
	{
		count_answer(flight, answer);
		le_health_note(w, flight, answer);
	}
	le_flight_deliver(w, flight, answer);
}

/* Its turn has come: count a wait, if that is a later turn of the loop. */
static void
count_wait(LeWorker *w, const LeFlight *flight)
{
	if (flight->turn != w->lanes->turns)
		le_stat_count_slot(stat_row(flight), LE_STAT_WAITS);
}

/* ---- several operations in one request ---- */

static bool
goes_alone(LeWorker *w, const LeFlight *flight)
{
	const LeStore *store = le_configured_store();

	return store->batch.capacity == 0 || flight->fresh ||
		flight->unjudged >= MAX_UNJUDGED ||
		store->batch.takes(&flight->op) == 0 ||
		le_now() < w->lanes->apart_until;
}

/* Is each carried out by itself, although it could go with others? */
static bool
is_one_of_many(const LeFlight *flight)
{
	const LeStore *store = le_configured_store();

	return store->key_leases && store->batch.capacity > 0 &&
		store->batch.takes(&flight->op) > 0;
}

/*
 * While a request carries several of those, no other of them goes: they would
 * only take the store's time from each other, and from requests that keep
 * terms.
 */
static bool
has_turn(const LeLaneQueue *lane, const LeFlight *next)
{
	return lane->under_way < lane->window &&
		(lane->carrying == 0 || !is_one_of_many(next));
}

/*
 * The store carries out each by itself, so a request with many takes long when
 * the store is slow, and little is left of the leases that it grants.  Halve
 * the number for the next request; double it again when the store is quick.
 */
static void
note_pace(LeWorker *w, const LeFlight *flight)
{
	LeLanes	   *lanes = w->lanes;
	le_duration took = le_now() - flight->transmitted;
	le_duration slow = le_table->node.timing.lease / SLOW_SHARE;

	if (!flight->carries)
		return;
	if (took > slow)
		lanes->together = Max(lanes->together / 2, LE_LEAST_TOGETHER);
	else if (took < slow / 2)
		lanes->together = Min(lanes->together * 2, LE_MAX_JOINED);
}

/* By name: two questions for the leader may be about the same election. */
static bool
is_about_another(const LeFlight *flight, const LeFlight *other)
{
	if (strcmp(other->op.election, flight->op.election) == 0)
		return false;
	for (int i = 0; i < flight->op.wire.njoined; i++)
		if (strcmp(other->op.election, flight->op.wire.joined[i]->election) ==
			0)
			return false;
	return true;
}

static void
join(LeFlight *flight, LeFlight *other)
{
	const LeOp **ops = (const LeOp **) flight->op.wire.joined;

	Assert(waits_for_turn(other) && other->lane == flight->lane);
	if (flight->joined == NULL)
	{
		flight->joined = MemoryContextAlloc(flight->context, LE_MAX_JOINED *
											sizeof(LeFlight *));
		ops = MemoryContextAlloc(flight->context,
								 LE_MAX_JOINED * sizeof(LeOp *));
		flight->op.wire.joined = ops;
	}
	ops[flight->op.wire.njoined] = &other->op;
	flight->joined[flight->op.wire.njoined++] = other;
	other->handed_over = true;	/* in no lane any more, from here on */
}

/* Take along operations that wait in the same lane, up to the capacity. */
static void
join_others(LeWorker *w, LeLaneQueue *lane, LeFlight *flight)
{
	const LeStore *store = le_configured_store();
	int			capacity;
	int			looks = 2 * LE_MAX_JOINED;
	dlist_mutable_iter iter;

	if (goes_alone(w, flight))
		return;
	capacity = store->batch.capacity - store->batch.takes(&flight->op);
	dlist_foreach_modify(iter, &lane->waiting)
	{
		LeFlight   *other = dlist_container(LeFlight, node, iter.cur);

		if (looks-- == 0 || capacity <= 0 ||
			flight->op.wire.njoined == LE_MAX_JOINED - 1 ||
			(is_one_of_many(flight) &&
			 flight->op.wire.njoined + 1 >= w->lanes->together))
			break;
		if (goes_alone(w, other) ||
			store->batch.takes(&other->op) > capacity ||
			!store->batch.joins(&flight->op, &other->op) ||
			!is_about_another(flight, other) ||
			(other->wanted != NULL && !other->wanted(w, other)))
			continue;
		capacity -= store->batch.takes(&other->op);
		dlist_delete(&other->node);
		count_wait(w, other);
		join(flight, other);
	}
	flight->carries = flight->op.wire.njoined > 0 && is_one_of_many(flight);
	if (flight->carries)
		lane->carrying++;
}

/* One of the operations of a request has its answer, or must go again. */
static void
land_one(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeLanes	   *lanes = w->lanes;

	if (!answer->wire.unjudged && !answer->wire.apart)
	{
		le_lanes_finish(w, flight, answer);
		return;
	}
	leave_lane(w, flight);
	flight->unjudged = answer->wire.apart ? MAX_UNJUDGED :
		flight->unjudged + 1;
	flight->op.wire.njoined = 0;
	flight->tried = 0;
	flight->turn = lanes->turns;
	dlist_push_head(&lanes->each[flight->lane].waiting, &flight->node);
}

/* Not all at once, then; a newer server may replace this one. */
static void
note_apart(LeWorker *w, const LeFlight *flight, const LeAnswer *answer)
{
	LeLanes	   *lanes = w->lanes;

	if (lanes->apart_until == 0)
		ereport(LOG,
				(errmsg("leader_election store at %s does not take several elections in one request: %s",
						le_store_address(w), answer->detail),
				 errdetail("Could not %s %d at once; one of them may be the cause. Each goes by itself, until it is tried again in %d seconds.",
						   le_op_name(flight->op.kind),
						   1 + flight->op.wire.njoined,
						   (int) (LE_APART / LE_SEC))));
	lanes->apart_until = le_now() + LE_APART;
}

/* The answer lives as long as the flight sent for all: that one goes last. */
void
le_lanes_land(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	int			n = flight->op.wire.njoined;

	Assert(flight->under_way);
	if (answer->wire.apart)
		note_apart(w, flight, answer);
	else
		note_pace(w, flight);
	for (int i = n; i > 0; i--)
		land_one(w, flight->joined[i - 1],
				 answer->wire.parts != NULL ? &answer->wire.parts[i] : answer);
	land_one(w, flight, n > 0 && answer->wire.parts != NULL ?
			 &answer->wire.parts[0] : answer);
}

/* The next request cannot be sent. */
void
le_lanes_give_up(LeWorker *w, LeFlight *flight, const char *why)
{
	LeAnswer	answer = {0};

	le_flight_fail_rest(flight, &answer, LE_UNAVAILABLE, why);
	le_lanes_land(w, flight, &answer);
}

/* ---- turns ---- */

/* The end of the lane's pause; 0: there is none. */
static le_time
paused_until(LeWorker *w, const LeLaneQueue *lane)
{
	return lane == &w->lanes->each[LE_LANE_CAMPAIGN] ?
		le_throttle_campaign(w->throttle, le_table->node.timing.lease) : 0;
}

/* Does it wait only for a request that carries others of its kind? */
static bool
is_passed_by(LeWorker *w, const LeLaneQueue *lane, const LeFlight *next)
{
	return lane->under_way < lane->window && !has_turn(lane, next) &&
		paused_until(w, lane) == 0;
}

/* False: not its turn.  "unsent": the reason not to send it, or NULL. */
static bool
take_turn(LeWorker *w, LeLaneQueue *lane, LeFlight *next, const char **unsent)
{
	bool		wanted = next->wanted == NULL || next->wanted(w, next);
	bool		late = !next->keeps_waiting && le_now() >= next->until;

	if (wanted && !late && (!has_turn(lane, next) ||
							paused_until(w, lane) != 0))
		return false;
	dlist_delete(&next->node);
	count_wait(w, next);
	if (!wanted)
		*unsent = "it is not wanted any more";
	else if (late)
		*unsent = "too many requests were waiting for their turn";
	else
	{
		*unsent = NULL;
		join_others(w, lane, next);
		if (lane == &w->lanes->each[LE_LANE_CAMPAIGN])
			le_throttle_campaigned(w->throttle);
	}
	return true;
}

/*
 * The oldest first; but flights that wait only for their kind hold up no other
 * kind, as hundreds of acquires before a claim.  NULL: no turn has come.
 */
LeFlight *
le_lane_next(LeWorker *w, LeLane number, const char **unsent)
{
	LeLaneQueue	   *lane = &w->lanes->each[number];
	int			looks = MAX_PASSED_BY;
	dlist_iter	iter;

	dlist_foreach(iter, &lane->waiting)
	{
		LeFlight   *next = dlist_container(LeFlight, node, iter.cur);

		if (looks < MAX_PASSED_BY && is_passed_by(w, lane, next))
			;					/* passed by, too */
		else if (take_turn(w, lane, next, unsent))
			return next;
		else if (!is_passed_by(w, lane, next))
			return NULL;
		if (--looks == 0)
			return NULL;
	}
	return NULL;
}

void
le_lanes_end_turn(LeWorker *w)
{
	w->lanes->turns++;
}

/* When has a flight waited for too long, should it get no turn? */
le_time
le_lanes_timer(LeWorker *w)
{
	LeLanes	   *lanes = w->lanes;
	le_time		next = 0;

	for (int i = 0; i < LE_NLANES; i++)
	{
		const LeFlight *first;
		le_time		paused;

		if (dlist_is_empty(&lanes->each[i].waiting))
			continue;
		first = dlist_container(LeFlight, node,
								dlist_head_node(&lanes->each[i].waiting));
		paused = paused_until(w, &lanes->each[i]);
		if (paused != 0)
			next = le_earliest(next, paused);
		else if (has_turn(&lanes->each[i], first))
			return le_now();
		if (!first->keeps_waiting)
			next = le_earliest(next, first->until);
	}
	return next;
}
