/*-------------------------------------------------------------------------
 *
 * dispatch.c
 *		Operations on their way to the store and back.
 *
 * A remote store's operation is encoded, sent and, when the response has
 * come, decoded.  The local store answers at once, but its answer waits in a
 * queue all the same, so that done() is never called from within the call
 * that sent the operation, whatever the store.
 *
 * src/worker/dispatch.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "nodes/pg_list.h"
#include "replication/message.h"
#include "utils/memutils.h"

#include "compat.h"
#include "settings.h"
#include "shmem/events.h"
#include "shmem/stats.h"
#include "worker/claimlog.h"
#include "worker/dispatch.h"
#include "worker/http.h"
#include "worker/secret.h"

/* To a server that is not there, when there are others. */
#define CONNECT_MS			1000

static const LeStore *store;
static List *answered = NIL;	/* flights that perform() has to answer */
static List *secretless = NIL;	/* ... and that wait for a secret */
static bool authenticating = false;

/*
 * What the store was last found wanting in, by kind of operation.  A refusal
 * concerns its kind alone, since a token may allow one thing and not the
 * other; it counts until that kind succeeds, or was not tried for so long.
 */
#define REFUSAL_LIFE	(60 * LE_SEC)

static struct
{
	le_time		at;				/* of the last failure; 0: none */
	bool		refused;		/* else: no answer */
}			failing[LE_NOPS];

static char trouble[LE_MAX_ERROR_LEN + 1];

static bool transmit(LeFlight *flight);

/* For jitter only, so the quality of the generator does not matter. */
uint32
le_random(void)
{
	static uint64 state = 0;

	if (state == 0)
		state = (uint64) le_now() ^ ((uint64) MyProcPid << 32);
	state = state * UINT64CONST(6364136223846793005) +
		UINT64CONST(1442695040888963407);
	return (uint32) (state >> 32);
}

void
le_dispatch_start(void)
{
	store = le_configured_store();
	if (store->between_instances)
		le_http_start(store->connections);
	le_dispatch_configure();
}

/* Take over the settings, at start and after a reload. */
void
le_dispatch_configure(void)
{
	if (!store->between_instances)
		return;
	le_servers_configure(store->servers());
	le_secret_configure();
}

/* How messages name the store. */
const char *
le_store_place(void)
{
	return store->between_instances ? le_server_place() : store->name;
}

/* Why the store was last found wanting; "" if it answers. */
const char *
le_store_trouble(void)
{
	return trouble;
}

LeFlight *
le_flight_new(LeOpKind kind, void (*done) (LeFlight *, const LeAnswer *))
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext,
												  "leader_election flight",
												  ALLOCSET_SMALL_SIZES);
	LeFlight   *flight = MemoryContextAllocZero(context, sizeof(LeFlight));

	flight->context = context;
	flight->slot = -1;
	flight->done = done;
	flight->epoch = le_table->node.epoch;
	flight->op.kind = kind;
	flight->op.node_name = le_my_name();
	flight->op.incarnation = le_table->incarnation;
	flight->op.session = le_flight_string(flight, le_table->session);
	flight->op.lease = le_table->node.timing.lease;
	return flight;
}

const char *
le_flight_string(LeFlight *flight, const char *s)
{
	return s == NULL ? NULL : MemoryContextStrdup(flight->context, s);
}

static bool
any_failing(bool refused)
{
	for (int i = 0; i < lengthof(failing); i++)
		if (failing[i].at != 0 && failing[i].refused == refused)
			return true;
	return false;
}

static void
note_failure(const LeFlight *flight, bool refused, const char *detail)
{
	LeOpKind	kind = flight->op.kind;

	if (refused ? failing[kind].at == 0 || !failing[kind].refused :
		!any_failing(false))
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
	failing[kind].at = le_now();
	failing[kind].refused = refused;
	strlcpy(trouble, detail, sizeof(trouble));
}

static void
note_success(const LeFlight *flight)
{
	LeOpKind	kind = flight->op.kind;
	bool		was_failing = any_failing(true) || any_failing(false);
	le_time		old = le_now() - REFUSAL_LIFE;

	/* A server that has lost all others lists the nodes it remembers. */
	if (!was_failing || kind == LE_OP_LIST_NODES)
		return;
	for (int i = 0; i < lengthof(failing); i++)
		if (i == kind || !failing[i].refused || failing[i].at < old)
			failing[i].at = 0;
	if (any_failing(true))
		return;
	trouble[0] = '\0';
	ereport(LOG,
			(errmsg("leader_election store at %s answers again",
					le_store_place())));
	le_event(LE_EVENT_STORE_UP, NULL, 0, NULL);
}

/* Say in the log when the store goes and when it comes back, once each. */
static void
note_store(const LeFlight *flight, const LeAnswer *answer)
{
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
			note_failure(flight, answer->outcome == LE_REFUSED,
						 answer->detail ? answer->detail : "no answer");
			break;
	}
}

/*
 * A parked query is answered when something changes: the time says nothing
 * about the store.
 */
static void
count_answer(const LeFlight *flight, const LeAnswer *answer)
{
	const char *election = flight->op.election;

	if (flight->op.kind != LE_OP_WATCH)
		le_stat_answer(election == NULL ? LE_STAT_NODE :
					   le_slot_number_of(election),
					   flight->sent, answer->outcome);
}

static void
finish(LeFlight *flight, const LeAnswer *answer)
{
	if (!store->between_instances || !le_performs(store, flight->op.kind))
	{
		count_answer(flight, answer);
		note_store(flight, answer);
	}
	flight->done(flight, answer);
	MemoryContextDelete(flight->context);
}

/*
 * The next request cannot be sent.  Was it the first, nothing was applied; of
 * several, nobody knows what those before it have done.
 */
static void
give_up(LeFlight *flight, const char *why)
{
	LeAnswer	answer = {0};

	if (flight->op.step.number > 0)
		le_fail_open(&flight->op, &answer, why);
	else
		le_fail(&answer, LE_UNAVAILABLE, why);
	finish(flight, &answer);
}

/* ---- a secret that has to be fetched ---- */

/* All that waited for one go ahead; without one they have failed. */
static void
authenticated(LeFlight *flight, const LeAnswer *answer)
{
	List	   *waiting = secretless;

	secretless = NIL;
	authenticating = false;
	if (answer->outcome == LE_DONE)
		le_secret_fetched(answer->secret, answer->lasts);
	while (waiting != NIL)
	{
		LeFlight   *next = linitial(waiting);

		waiting = list_delete_first(waiting);
		if (answer->outcome != LE_DONE)
			give_up(next, answer->detail ? answer->detail : "no answer");
		else if (le_now() >= next->until || !transmit(next))
			give_up(next, "there was no time left after authentication");
	}
}

static void
authenticate(void)
{
	LeFlight   *flight;

	if (authenticating)
		return;
	authenticating = true;
	flight = le_flight_new(LE_OP_AUTHENTICATE, authenticated);
	flight->op.secret = le_secret_of_file();
	le_flight_send(flight, le_table->node.timing.request_timeout);
}

static void
await_secret(LeFlight *flight)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	secretless = lappend(secretless, flight);
	MemoryContextSwitchTo(old);
	authenticate();
}

/*
 * The secret that was sent has run out: with a new one, once more, and only
 * once, lest one that is never accepted should be fetched for ever.
 */
static bool
ask_with_new_secret(LeFlight *flight, const LeAnswer *answer)
{
	if (!answer->stale_secret || flight->renewed_secret ||
		flight->op.kind == LE_OP_AUTHENTICATE)
		return false;
	flight->renewed_secret = true;
	flight->tried = 0;
	le_secret_refused();
	if (!le_secret_missing())
		return false;			/* it is the file's: nobody has a newer one */
	await_secret(flight);
	return true;
}

/* ---- requests ---- */

/*
 * The server that was asked has failed, or does well.  What was certainly not
 * applied is sent to the next one, while there is time; what may have been
 * applied is not, since only the one who decided to send it knows how to find
 * out.
 */
static bool
ask_another(LeFlight *flight, const LeHttpResponse *response,
			const LeAnswer *answer)
{
	if (response->net != LE_NET_OK || answer->next_server)
		le_server_failed(flight->server,
						 answer->detail ? answer->detail : "no answer");
	else
		le_server_answered(flight->server);
	if (!answer->next_server || flight->until - le_now() < LE_MIN_ATTEMPT / 2)
		return false;
	return transmit(flight);
}

/* The operation goes on with another request, to whatever server is best. */
static bool
go_on(LeFlight *flight, const LeAnswer *answer)
{
	if (!answer->again)
		return false;
	flight->op.step = answer->next;
	flight->tried = 0;
	if (le_now() >= flight->until || !transmit(flight))
		give_up(flight, "there was no time left for the rest of it");
	return true;
}

/*
 * Whoever waits for the answer counts trust from flight->sent.  Of several
 * requests that is the one that took or renewed the lease: what was sent after
 * it says nothing about how long ago that was.
 */
static void
response_came(void *arg, const LeHttpResponse *response)
{
	LeFlight   *flight = arg;
	LeAnswer	answer = {0};
	MemoryContext old = MemoryContextSwitchTo(flight->context);

	store->decode(&le_table->place, &flight->op, response, &answer);
	MemoryContextSwitchTo(old);
	flight->anchored = flight->anchored || answer.anchors;
	if (!ask_another(flight, response, &answer) &&
		!ask_with_new_secret(flight, &answer) && !go_on(flight, &answer))
		finish(flight, &answer);
}

/*
 * How long may this server take?  A read that another could answer as well
 * leaves time for that one, lest a server that hangs should use up the time
 * that somebody has to wait.
 */
static le_duration
patience(const LeFlight *flight)
{
	le_duration left = Max(flight->until - flight->transmitted, LE_MSEC);
	unsigned	tried = flight->tried;
	LeServerRef other;

	if (le_op_writes(flight->op.kind) || flight->op.kind == LE_OP_WATCH ||
		!le_server_pick(&tried, &other))
		return left;
	return left / 2;
}

/* Encode and send; false: there is nobody left to send it to. */
static bool
transmit(LeFlight *flight)
{
	LeHttpRequest request = {0};
	MemoryContext old;

	if (!le_server_pick(&flight->tried, &flight->server))
		return false;
	old = MemoryContextSwitchTo(flight->context);
	initStringInfo(&request.path);
	initStringInfo(&request.headers);
	initStringInfo(&request.body);
	store->encode(&le_table->place, &flight->op, &request);
	if (request.base == NULL)
		request.base = le_server_url(flight->server);
	if (!request.without_secret)
		request.secret = le_secret();
	request.secret_header = store->secret_header;
	if (le_servers_several())
		request.connect_ms = CONNECT_MS;
	flight->transmitted = le_now();
	if (!flight->anchored)
		flight->sent = flight->transmitted;
	le_http_send(&request, patience(flight), response_came, flight);
	MemoryContextSwitchTo(old);
	return true;
}

/*
 * The next token of the local store: a position in the write-ahead log that
 * is flushed before anybody sees it.  Whatever becomes of the server, the
 * log goes on behind it.
 */
static uint64
next_local_token(void)
{
	static const char note[] = "term";
	XLogRecPtr	position;

	if (RecoveryInProgress())
		return 0;
	position = le_log_logical_message("leader_election", note, sizeof(note));
	XLogFlush(position);
	return position;
}

/* Send the operation; done() will be called from le_dispatch_run(). */
void
le_flight_send(LeFlight *flight, le_duration timeout)
{
	MemoryContext old;

	flight->sent = flight->transmitted = le_now();
	flight->until = flight->sent + timeout;
	if (le_performs(store, flight->op.kind))
	{
		old = MemoryContextSwitchTo(TopMemoryContext);
		answered = lappend(answered, flight);
		MemoryContextSwitchTo(old);
	}
	else if (flight->op.kind != LE_OP_AUTHENTICATE && le_secret_missing())
		await_secret(flight);
	else if (!transmit(flight))
		elog(ERROR, "leader_election has no server to ask");	/* never empty */
}

static void
run_local(void)
{
	while (answered != NIL)
	{
		LeFlight   *flight = linitial(answered);
		LeAnswer	answer = {0};
		MemoryContext old;

		answered = list_delete_first(answered);
		old = MemoryContextSwitchTo(flight->context);
		flight->op.next_token = next_local_token;
		flight->op.log = &le_claim_log;
		store->perform(&flight->op, &answer);
		MemoryContextSwitchTo(old);
		finish(flight, &answer);
	}
}

void
le_dispatch_run(void)
{
	if (store->between_instances)
	{
		le_http_run();
		le_servers_run_timers();
		if (le_secret_due() != 0 && le_now() >= le_secret_due())
			authenticate();
	}
	run_local();
}

le_time
le_dispatch_timer(void)
{
	le_time		next = answered == NIL ? 0 : le_now();

	if (store->between_instances)
	{
		next = le_earliest(next, le_http_timer());
		next = le_earliest(next, le_servers_timer());
		if (!authenticating)
			next = le_earliest(next, le_secret_due());
	}
	return next;
}
