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

/* Connections to the store, those of the watch included. */
#define CONNECTIONS			16
#define LEASE_CONNECTIONS	(LE_MAX_POLLS + 32)

/* To a gateway that is not there, when there are others. */
#define CONNECT_MS			1000

static const LeStore *store;
static List *answered = NIL;	/* flights that perform() has to answer */

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
}			failing[LE_OP_SESSION_NAME + 1];

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
	if (store->remote)
		le_http_start(store->key_leases ? LEASE_CONNECTIONS : CONNECTIONS);
	le_dispatch_configure();
}

void
le_dispatch_configure(void)
{
	if (store->key_leases)
	{
		le_gateways_configure(le_gateway_urls);
		le_http_configure(le_gateway_place(), le_gateway_token_file,
						  "Authorization: Bearer ");
	}
	else if (store->remote)
		le_http_configure(le_consul_url, le_consul_token_file,
						  "X-Consul-Token: ");
}

const LeStore *
le_store(void)
{
	return store;
}

/* How messages name the store. */
const char *
le_store_place(void)
{
	if (store->key_leases)
		return le_gateway_place();
	return store->remote ? le_http_origin() : "local";
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

/* Does perform() answer it at once? */
static bool
answers_here(LeOpKind kind)
{
	return !store->remote ||
		(store->performs != NULL && store->performs(kind));
}

static void
store_settings(LeStoreSettings *settings)
{
	settings->consul_url = le_consul_url;
	settings->consul_key_prefix = le_table->prefix;
	settings->consul_datacenter = le_table->datacenter;
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
	if (!store->remote || !answers_here(flight->op.kind))
	{
		count_answer(flight, answer);
		note_store(flight, answer);
	}
	flight->done(flight, answer);
	MemoryContextDelete(flight->context);
}

/*
 * The gateway that was asked has failed, or does well.  What was certainly
 * not applied is sent to the next one, while there is time; what may have
 * been applied is not, since only the one who decided to send it knows how to
 * find out.
 */
static bool
ask_another(LeFlight *flight, const LeHttpResponse *response,
			const LeAnswer *answer)
{
	if (!store->key_leases)
		return false;
	if (response->net != LE_NET_OK || answer->next_server)
		le_gateway_failed(flight->gateway,
						  answer->detail ? answer->detail : "no answer");
	else
		le_gateway_answered(flight->gateway);
	if (!answer->next_server || flight->until - le_now() < LE_MIN_ATTEMPT / 2)
		return false;
	return transmit(flight);
}

static void
response_came(void *arg, const LeHttpResponse *response)
{
	LeFlight   *flight = arg;
	LeStoreSettings settings;
	LeAnswer	answer = {0};
	MemoryContext old = MemoryContextSwitchTo(flight->context);

	store_settings(&settings);
	store->decode(&settings, &flight->op, response, &answer);
	MemoryContextSwitchTo(old);
	if (!ask_another(flight, response, &answer))
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
	le_duration left = Max(flight->until - flight->sent, LE_MSEC);
	unsigned	tried = flight->tried;
	LeGatewayRef other;

	if (!store->key_leases || le_op_writes(flight->op.kind) ||
		flight->op.kind == LE_OP_WATCH || !le_gateway_pick(&tried, &other))
		return left;
	return left / 2;
}

/* Encode and send; false: there is nobody left to send it to. */
static bool
transmit(LeFlight *flight)
{
	LeStoreSettings settings;
	LeHttpRequest request = {0};
	MemoryContext old;

	if (store->key_leases &&
		!le_gateway_pick(&flight->tried, &flight->gateway))
		return false;
	old = MemoryContextSwitchTo(flight->context);
	store_settings(&settings);
	initStringInfo(&request.path);
	initStringInfo(&request.body);
	store->encode(&settings, &flight->op, &request);
	if (store->key_leases)
		request.base = le_gateway_url(flight->gateway);
	if (le_gateways_several())
		request.connect_ms = CONNECT_MS;
	flight->sent = le_now();
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

	flight->sent = le_now();
	flight->until = flight->sent + timeout;
	if (!answers_here(flight->op.kind))
	{
		/* The list of gateways is never empty. */
		if (!transmit(flight))
			elog(ERROR, "leader_election has no gateway to ask");
		return;
	}
	old = MemoryContextSwitchTo(TopMemoryContext);
	answered = lappend(answered, flight);
	MemoryContextSwitchTo(old);
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
	if (store->remote)
		le_http_run();
	if (store->key_leases)
		le_gateways_run_timers();
	run_local();
}

le_time
le_dispatch_timer(void)
{
	le_time		next = answered == NIL ? 0 : le_now();

	if (store->remote)
		next = le_earliest(next, le_http_timer());
	if (store->key_leases)
		next = le_earliest(next, le_gateways_timer());
	return next;
}
