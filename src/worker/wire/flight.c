/*-------------------------------------------------------------------------
 *
 * flight.c
 *		One operation under way.
 *
 * src/worker/wire/flight.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "settings.h"
#include "shmem/leases.h"
#include "worker/wire/flight.h"

struct LeFlights
{
	int			acquires;		/* without an answer so far */
	LeFlight   *newest[FLEXIBLE_ARRAY_MEMBER];	/* by slot: the election's,
												 * until its answer */
};

LeFlights *
le_flights_new(void)
{
	return MemoryContextAllocZero(TopMemoryContext,
								  offsetof(LeFlights, newest) +
								  le_table->nslots * sizeof(LeFlight *));
}

static LeLane
usual_lane(LeOpKind kind)
{
	switch (kind)
	{
		case LE_OP_RELEASE:
		case LE_OP_TELL_NEWS:	/* perhaps of releases */
			return LE_LANE_RELEASE;
		case LE_OP_READ_CLAIM:
		case LE_OP_CLAIM:
		case LE_OP_COMPLETE:
			return LE_LANE_ASKED;
		case LE_OP_READ:
		case LE_OP_ACQUIRE:
		case LE_OP_TAKE_OVER:
		case LE_OP_PUBLISH:
		case LE_OP_FORGET_NODE:
			return LE_LANE_CAMPAIGN;
		case LE_OP_LIST_CLAIMS:
		case LE_OP_SESSION_NAME:
			return LE_LANE_READ;
		case LE_OP_WATCH:
		case LE_OP_WATCH_NEWS:
		case LE_OP_LIST_NODES:
			return LE_LANE_WATCH;
		default:
			return LE_LANE_LIFE;
	}
}

LeFlight *
le_flight_new(LeOpKind kind, LeFlightDone done)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext,
												  "leader_election flight",
												  ALLOCSET_SMALL_SIZES);
	LeFlight   *flight = MemoryContextAllocZero(context, sizeof(LeFlight));

	flight->context = context;
	flight->slot = -1;
	flight->done = done;
	flight->lane = usual_lane(kind);
	flight->epoch = le_table->node.epoch;
	flight->op.kind = kind;
	flight->op.node_name = le_my_name();
	flight->op.incarnation = le_table->incarnation;
	flight->op.session = le_flight_string(flight, le_table->session);
	flight->op.lease = le_table->node.timing.lease;
	return flight;
}

/*
 * A dry run: it depends on an index that no key has, so the store never
 * applies it, even if it has no objection.  It must not share a request with
 * operations to be applied, so it has the lane of reads.
 */
LeFlight *
le_flight_without_effect(LeOpKind kind, const char *election,
						 LeFlightDone done)
{
	LeFlight   *flight = le_flight_new(kind, done);

	if (election[0] != '\0')
		flight->op.election = le_flight_string(flight, election);
	flight->op.dry_run = true;
	flight->op.index = flight->op.token = LE_NO_INDEX;
	flight->op.term.rev = 1;
	flight->lane = LE_LANE_READ;
	return flight;
}

const char *
le_flight_string(LeFlight *flight, const char *s)
{
	return s == NULL ? NULL : MemoryContextStrdup(flight->context, s);
}

/* The key in the store "local"; an election without a slot has an empty one. */
void
le_flight_local_key(LeFlight *flight, LeSlot *slot)
{
	flight->op.local.key = slot != NULL ? &slot->local :
		MemoryContextAllocZero(flight->context, sizeof(LeLocalKey));
}

/* Append to a list that is kept from one turn of the loop to the next. */
List *
le_flights_append(List *flights, void *member)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	flights = lappend(flights, member);
	MemoryContextSwitchTo(old);
	return flights;
}

static bool
is_acquire(const LeFlight *flight)
{
	return flight->op.kind == LE_OP_ACQUIRE ||
		flight->op.kind == LE_OP_TAKE_OVER;
}

/* From here on the election waits for its answer. */
void
le_flight_expect(LeWorker *w, LeFlight *flight)
{
	Assert(flight->request == 0 || flight->asker.number == 0);
	if (flight->request != 0)
		w->flights->newest[flight->slot] = flight;
	w->flights->acquires += is_acquire(flight);
}

/* Has an acquire no answer yet? */
bool
le_flights_acquire(LeWorker *w)
{
	return w->flights->acquires > 0;
}

LeFlight *
le_flight_newest(LeWorker *w, int slot)
{
	return w->flights->newest[slot];
}

bool
le_flight_may_park(const LeFlight *flight)
{
	return flight->op.kind == LE_OP_WATCH ||
		flight->op.kind == LE_OP_WATCH_NEWS;
}

/*
 * An acquire of a session that has ended since.  Callers that seek the
 * election now are told that nothing was done for them, so none of its
 * requests may still be sent.
 */
bool
le_flight_is_past(const LeFlight *flight)
{
	return is_acquire(flight) && flight->epoch != le_table->node.epoch;
}

/*
 * Was it sent to a store that does not count any more?  Its views must not mix
 * with those of the present one.  A write has its effect in any case.
 */
bool
le_flight_is_outdated(LeWorker *w, const LeFlight *flight)
{
	return flight->store != w->stores;
}

/*
 * The next request cannot be sent.  If it is the first, nothing was applied;
 * otherwise the effect of the earlier ones is unknown.
 */
void
le_flight_fail_rest(const LeFlight *flight, LeAnswer *answer,
					LeOutcome outcome, const char *why)
{
	if (flight->op.wire.step.number > 0)
		le_fail_open(&flight->op, answer, why);
	else
		le_fail(answer, outcome, why);
}

/* Forget it first: done() may send the election's next request. */
void
le_flight_deliver(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeFlights  *flights = w->flights;

	if (flight->request != 0 && flights->newest[flight->slot] == flight)
		flights->newest[flight->slot] = NULL;
	flights->acquires -= is_acquire(flight);
	flight->done(w, flight, answer);
	MemoryContextDelete(flight->context);
}
