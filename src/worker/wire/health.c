/*-------------------------------------------------------------------------
 *
 * health.c
 *		The health of the store: missing answers and refusals.
 *
 * The log says when the store goes and when it comes back, once each.
 *
 * src/worker/wire/health.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

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

static struct
{
	le_time		at;				/* last failure; 0: none */
	bool		refused;		/* else: no answer */
	bool		all;			/* a refusal that concerns any request */
	bool		node;			/* concerns every election of this node */
}			failing[LE_NOPS];

static char trouble[LE_MAX_ERROR_LEN + 1];
static LeCause trouble_cause = LE_CAUSE_OTHER;

/* Forget the failures that the worker before knew of. */
void
le_health_start(void)
{
	le_set_trouble(LE_TROUBLE_STORE, "");
}

/* The name of the store in messages. */
const char *
le_store_place(void)
{
	const LeStore *store = le_configured_store();

	return store->between_instances ? le_server_place() : store->name;
}

/* The reason of the last failure; "" if the store answers. */
const char *
le_store_trouble(void)
{
	return trouble;
}

LeCause
le_store_trouble_cause(void)
{
	return trouble_cause;
}

/* Has an operation got no answer, and none got one since? */
static bool
is_down(void)
{
	for (int i = 0; i < lengthof(failing); i++)
		if (failing[i].at != 0 && !failing[i].refused)
			return true;
	return false;
}

/* le_status shows a failure that concerns all elections while it lasts. */
static void
end_trouble(void)
{
	for (int i = 0; i < lengthof(failing); i++)
		if (failing[i].at != 0 && failing[i].node)
			return;
	le_set_trouble(LE_TROUBLE_STORE, "");
}

/* Does the failure concern the node, so that all elections depend on it? */
static bool
concerns_node(const LeFlight *flight, const LeAnswer *answer)
{
	if (answer->outcome != LE_REFUSED || le_refuses_all(answer->cause))
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
note_failure(const LeFlight *flight, const LeAnswer *answer)
{
	LeOpKind	kind = flight->op.kind;
	LeOpKind	right = le_op_right(kind);
	bool		refused = answer->outcome == LE_REFUSED;
	const char *detail = answer->detail ? answer->detail : "no answer";

	if (refused ? failing[right].at == 0 || !failing[right].refused :
		!is_down())
	{
		ereport(LOG,
				(errmsg(refused ?
						"leader_election store at %s refused to %s: %s" :
						"leader_election store at %s is down: could not %s: %s",
						le_store_place(), le_op_name(kind), detail)));
		le_event(refused ? LE_EVENT_STORE_REFUSED : LE_EVENT_STORE_DOWN,
				 flight->op.election, 0, "could not %s: %s", le_op_name(kind),
				 detail);
	}
	failing[right].at = le_now();
	failing[right].refused = refused;
	failing[right].all = le_refuses_all(answer->cause);
	failing[right].node = concerns_node(flight, answer);
	strlcpy(trouble, detail, sizeof(trouble));
	trouble_cause = answer->cause;
	if (failing[right].node)
		le_set_trouble(LE_TROUBLE_STORE, detail);
	else
		end_trouble();
}

/*
 * Does the success end the failure of the other kind?  Not if its request was
 * sent before that, as by a watch that had been parked.  A server that has
 * lost all others lists the nodes that it remembers, so such a list proves
 * only the permission to list.
 */
static bool
ends_failure(const LeFlight *flight, LeOpKind other)
{
	LeOpKind	kind = flight->op.kind;

	if (flight->transmitted < failing[other].at)
		return false;
	if (kind == LE_OP_AUTHENTICATE)
		return other == kind;	/* it says nothing about the store */
	if (kind == LE_OP_LIST_NODES)
		return other == kind && failing[other].refused;
	return other == le_op_right(kind) || !failing[other].refused ||
		failing[other].all || failing[other].at < le_now() - REFUSAL_LIFE;
}

static void
note_success(const LeFlight *flight)
{
	bool		any = false;
	bool		left = false;

	for (int i = 0; i < lengthof(failing); i++)
	{
		if (failing[i].at == 0)
			continue;
		if (ends_failure(flight, i))
		{
			failing[i].at = 0;
			any = true;
		}
		else
			left = true;
	}
	end_trouble();
	if (!any || left)
		return;
	trouble[0] = '\0';
	trouble_cause = LE_CAUSE_OTHER;
	ereport(LOG,
			(errmsg("leader_election store at %s answers again",
					le_store_place())));
	le_event(LE_EVENT_STORE_UP, NULL, 0, NULL);
}

void
le_health_note(const LeFlight *flight, const LeAnswer *answer)
{
	/* Nothing of this instance's was refused: the caller is told. */
	if (flight->probe && answer->outcome == LE_REFUSED)
		return;
	switch (answer->outcome)
	{
		case LE_DONE:
		case LE_CONFLICT:
		case LE_LOST:
			note_success(flight);
			break;
		case LE_UNAVAILABLE:
		case LE_UNKNOWN:
		case LE_REFUSED:
			note_failure(flight, answer);
			break;
	}
}
