/*-------------------------------------------------------------------------
 *
 * health.c
 *		The health of the store: missing answers and refusals, and its clock.
 *
 * The log says when the store goes and when it comes back, once each.
 *
 * src/worker/wire/health.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "core/tick.h"
#include "settings.h"
#include "shmem/clock.h"
#include "shmem/events.h"
#include "shmem/leases.h"
#include "worker/wire/health.h"
#include "worker/wire/servers.h"

/*
 * The store's failures, by kind of operation.  A refusal concerns operations
 * that need the same permission, since a token may allow one thing and not the
 * other; it counts until such an operation succeeds, or was not tried for so
 * long.  A refusal that concerns any request ends with any success.
 */
#define REFUSAL_LIFE	(60 * LE_SEC)

struct LeHealth
{
	struct
	{
		le_time		at;			/* last failure; 0: none */
		bool		refused;	/* else: no answer */
		bool		all;		/* a refusal that concerns any request */
		bool		node;		/* concerns every election of this node */
	}			failing[LE_NOPS];
	char		trouble[LE_MAX_ERROR_LEN + 1];	/* the last one's reason */
	LeCause		cause;

	/*
	 * The store's wall clock less CLOCK_BOOTTIME, in µs, as its last answer
	 * shows: so it stays right while ours is set.
	 */
	bool		knows_clock;
	int64		clock_least;
	int64		clock_most;
};

/* Forget the failures that the worker before knew of. */
LeHealth *
le_health_new(void)
{
	LeHealth   *health = MemoryContextAllocZero(TopMemoryContext,
												sizeof(LeHealth));

	health->cause = LE_CAUSE_OTHER;
	le_set_trouble(LE_TROUBLE_STORE, "");
	return health;
}

/* The name of the store in messages. */
const char *
le_store_address(LeWorker *w)
{
	const LeStore *store = le_configured_store();

	return store->between_instances ? le_server_address(w) : store->name;
}

/* The reason of the last failure; "" if the store answers. */
const char *
le_store_trouble(LeWorker *w)
{
	return w->health->trouble;
}

LeCause
le_store_trouble_cause(LeWorker *w)
{
	return w->health->cause;
}

/* Has an operation got no answer, and none got one since? */
static bool
is_down(LeWorker *w)
{
	LeHealth   *health = w->health;

	for (int i = 0; i < lengthof(health->failing); i++)
		if (health->failing[i].at != 0 && !health->failing[i].refused)
			return true;
	return false;
}

/* le_status shows a failure that concerns all elections while it lasts. */
static void
end_trouble(LeWorker *w)
{
	LeHealth   *health = w->health;

	for (int i = 0; i < lengthof(health->failing); i++)
		if (health->failing[i].at != 0 && health->failing[i].node)
			return;
	le_set_trouble(LE_TROUBLE_STORE, "");
}

/* A store whose answer could not be taken is not down, either. */
static bool
is_refusal(const LeAnswer *answer)
{
	return answer->outcome == LE_REFUSED || answer->wire.untaken;
}

/* Does the failure concern the node, so that all elections depend on it? */
static bool
concerns_node(const LeFlight *flight, const LeAnswer *answer)
{
	if (!is_refusal(answer) || le_refuses_all(answer->cause))
		return true;
	switch (flight->op.kind)
	{
		case LE_OP_READ_CLAIM:
		case LE_OP_CLAIM:
		case LE_OP_COMPLETE:
		case LE_OP_LIST_CLAIMS:
		case LE_OP_SESSION_NAME:
			return false;
		default:
			return flight->op.election == NULL;
	}
}

static void
note_failure(LeWorker *w, const LeFlight *flight, const LeAnswer *answer)
{
	LeHealth   *health = w->health;
	LeOpKind	kind = flight->op.kind;
	LeOpKind	right = le_op_right(kind);
	bool		refused = is_refusal(answer);
	const char *detail = answer->detail ? answer->detail : "no answer";

	if (refused ? health->failing[right].at == 0 ||
		!health->failing[right].refused : !is_down(w))
	{
		ereport(LOG,
				(errmsg(answer->wire.untaken ?
						"leader_election could not use the answer of the store at %s: could not %s: %s" :
						refused ?
						"leader_election store at %s refused to %s: %s" :
						"leader_election store at %s is down: could not %s: %s",
						le_store_address(w), le_op_name(kind), detail),
				 refused && answer->cause == LE_CAUSE_SETTING ?
				 errhint("Trying again does not help: correct the setting that is named.") :
				 0));
		le_event(refused ? LE_EVENT_STORE_REFUSED : LE_EVENT_STORE_DOWN,
				 flight->op.election, 0, "could not %s: %s", le_op_name(kind),
				 detail);
	}
	health->failing[right].at = le_now();
	health->failing[right].refused = refused;
	health->failing[right].all = le_refuses_all(answer->cause);
	health->failing[right].node = concerns_node(flight, answer);
	strlcpy(health->trouble, detail, sizeof(health->trouble));
	health->cause = answer->cause;
	if (health->failing[right].node)
		le_set_trouble(LE_TROUBLE_STORE, detail);
	else
		end_trouble(w);
}

/*
 * Does the success end the failure of the other kind?  Not if its request was
 * sent before that, as by a watch that had been parked.  A server that has
 * lost all others lists the nodes that it remembers, so such a list proves
 * only the permission to list.
 */
static bool
ends_failure(LeWorker *w, const LeFlight *flight, LeOpKind other)
{
	LeHealth   *health = w->health;
	LeOpKind	kind = flight->op.kind;

	if (flight->transmitted < health->failing[other].at)
		return false;
	if (kind == LE_OP_AUTHENTICATE)
		return other == kind;	/* it says nothing about the store */
	if (kind == LE_OP_LIST_NODES)
		return other == kind && health->failing[other].refused;
	return other == le_op_right(kind) || !health->failing[other].refused ||
		health->failing[other].all ||
		health->failing[other].at < le_now() - REFUSAL_LIFE;
}

static void
note_success(LeWorker *w, const LeFlight *flight)
{
	LeHealth   *health = w->health;
	bool		any = false;
	bool		left = false;

	for (int i = 0; i < lengthof(health->failing); i++)
	{
		if (health->failing[i].at == 0)
			continue;
		if (ends_failure(w, flight, i))
		{
			health->failing[i].at = 0;
			any = true;
		}
		else
			left = true;
	}
	end_trouble(w);
	if (!any || left)
		return;
	health->trouble[0] = '\0';
	health->cause = LE_CAUSE_OTHER;
	ereport(LOG,
			(errmsg("leader_election store at %s answers again",
					le_store_address(w))));
	le_event(LE_EVENT_STORE_UP, NULL, 0, NULL);
}

void
le_health_note(LeWorker *w, const LeFlight *flight, const LeAnswer *answer)
{
	if (le_flight_is_outdated(w, flight))
		return;					/* it tells of another store */
	/* Nothing of this instance's was refused: the caller is told. */
	if (flight->may_be_refused && answer->outcome == LE_REFUSED)
		return;
	switch (answer->outcome)
	{
		case LE_DONE:
		case LE_CONFLICT:
		case LE_LOST:
			note_success(w, flight);
			break;
		case LE_UNAVAILABLE:
		case LE_UNKNOWN:
		case LE_REFUSED:
			note_failure(w, flight, answer);
			break;
	}
}

/* ---- its wall clock ---- */

/*
 * An answer tells the second in which it was made, between the send of the
 * request and its receipt.  A parked query says too little, and a server that
 * gives out tokens is another one.
 */
void
le_health_note_clock(LeWorker *w, const LeFlight *flight,
					 const LeResponse *response)
{
	LeHealth   *health = w->health;
	int64		date = response->http.date * USECS_PER_SEC;

	if (date == 0 || le_flight_may_park(flight) ||
		flight->op.kind == LE_OP_AUTHENTICATE)
		return;
	health->knows_clock = true;
	health->clock_least = date - le_now() / 1000;
	health->clock_most = date + USECS_PER_SEC - flight->transmitted / 1000;
}

/*
 * Does the store's wall clock differ from ours by more than is allowed?  Then
 * the text says so.  No lease depends on it, but the time of a tick does.
 */
bool
le_store_clock_differs(LeWorker *w, char *text, size_t size)
{
	const LeHealth *health = w->health;
	int64		ours = le_unix_us(GetCurrentTimestamp()) - le_now() / 1000;
	int64		s = le_clock_ahead(ours, health->clock_least,
								   health->clock_most) / USECS_PER_SEC;
	int64		apart = s < 0 ? -s : s;

	if (!health->knows_clock || apart <= le_max_clock_offset)
		return false;
	snprintf(text, size,
			 "The wall clock of this instance is " INT64_FORMAT " s %s that of the store at %s; \"leader_election.max_clock_offset\" is %d s.",
			 apart, s > 0 ? "ahead of" : "behind", le_store_address(w),
			 le_max_clock_offset);
	return true;
}
