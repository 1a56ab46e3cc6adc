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
 * src/worker/wire/dispatch.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "settings.h"
#include "shmem/clock.h"
#include "shmem/leases.h"
#include "worker/disk/claimlog.h"
#include "worker/wire/authenticate.h"
#include "worker/wire/dispatch.h"
#include "worker/wire/exchange.h"
#include "worker/wire/gossip.h"
#include "worker/wire/http.h"
#include "worker/wire/lanes.h"
#include "worker/wire/local_tokens.h"
#include "worker/wire/secret.h"
#include "worker/wire/throttle.h"

/* So many operations of the store "local" are carried out in a turn. */
#define LOCAL_AT_ONCE	64

static const LeStore *store;
static List *answered = NIL;	/* flights that perform() has to answer */

/* ---- what an answer leads to ---- */

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
	if (!answer->next_server || le_flight_is_past(flight) ||
		flight->until - le_now() < LE_MIN_ATTEMPT / 2)
		return false;
	return le_exchange_send(flight);
}

/* The operation goes on with another request, to whatever server is best. */
static bool
go_on(LeFlight *flight, const LeAnswer *answer)
{
	if (!answer->again)
		return false;
	flight->op.step = answer->next;
	flight->tried = 0;
	if (le_flight_is_past(flight))
		le_lanes_give_up(flight, "its session has ended");
	else if (le_now() >= flight->until || !le_exchange_send(flight))
		le_lanes_give_up(flight, "there was no time left for the rest of it");
	return true;
}

/*
 * Whoever waits for the answer counts trust from flight->sent.  Of several
 * requests that is the one that took or renewed the lease: what was sent after
 * it says nothing about how long ago that was.
 */
static void
act_on(LeFlight *flight, const LeHttpResponse *response, LeAnswer *answer)
{
	le_gossip_landed(&flight->op, answer);
	flight->op.news = NULL;
	if (answer->busy && flight->op.kind != LE_OP_AUTHENTICATE)
		le_throttle_busy(answer->busy_for);
	flight->anchored = flight->anchored || answer->anchors;
	if (!ask_another(flight, response, answer) &&
		!le_ask_with_new_secret(flight, response, answer) &&
		!go_on(flight, answer))
		le_lanes_land(flight, answer);
}

void
le_dispatch_start(void)
{
	int			connections[LE_NLANES];

	store = le_configured_store();
	le_health_start();
	le_flights_start();
	le_lanes_start(connections);
	le_exchange_start(act_on);
	if (store->between_instances)
		le_http_start(connections);
	else
	{
		(void) le_local_token_next();
		le_local_tokens_flush();
	}
	le_throttle_start();
	le_dispatch_configure();
}

/* Take over the settings, at start and after a reload. */
void
le_dispatch_configure(void)
{
	if (!store->between_instances)
		return;
	le_lanes_configure();
	le_servers_configure(store->servers());
	le_secret_configure();
}

/* ---- requests ---- */

static void
launch(LeFlight *flight)
{
	le_lane_enter(flight);
	if (le_secret_missing())
		le_await_secret(flight);
	else
		le_exchange_begin(flight);
}

/*
 * Have the operation sent when this turn ends, or when it is its turn; done()
 * will be called once, later.  The store has "timeout" from when it is sent.
 */
void
le_flight_send(LeFlight *flight, le_duration timeout)
{
	flight->sent = flight->transmitted = le_now();
	flight->patience = timeout;
	flight->until = le_earliest(flight->sent + timeout, flight->not_after);
	le_flight_expect(flight);
	if (le_performs(store, flight->op.kind))
	{
		flight->handed_over = true;
		answered = le_flights_append(answered, flight);
	}
	else if (flight->lane == LE_LANE_LIFE && le_lane_is_free(flight->lane) &&
			 le_now() < flight->until)
		launch(flight);			/* a proof names what is held now, not at the
								 * end of the turn */
	else
		le_lane_queue(flight);
}

/* Has the store certainly not been asked yet what the election waits for? */
bool
le_flight_waits(int slot)
{
	const LeFlight *flight = le_flight_newest(slot);

	return flight != NULL && !flight->handed_over;
}

/*
 * A session asks about an election whose request waits behind those that
 * nobody waits for: from here on it is one of those that somebody does.
 */
void
le_flight_hurry(int slot)
{
	LeFlight   *flight = le_flight_newest(slot);

	if (flight == NULL || flight->under_way || flight->handed_over ||
		flight->lane != LE_LANE_CAMPAIGN)
		return;
	le_lane_change(flight, LE_LANE_ASKED);
	flight->keeps_waiting = false;
	flight->until = le_earliest(le_now() + flight->patience,
								flight->not_after);
}

/* It was never sent: nobody has failed, and nothing was applied. */
static void
finish_unsent(LeFlight *flight, const char *why)
{
	LeAnswer	answer = {0};

	le_fail(&answer, LE_UNAVAILABLE, why);
	answer.unsent = true;
	le_flight_deliver(flight, &answer);
}

/* Whatever is sent or answered may change a lane, so that one is served at a
 * time. */
static void
run_lane(LeLane lane)
{
	const char *unsent;
	LeFlight   *flight;

	while ((flight = le_lane_next(lane, &unsent)) != NULL)
	{
		if (unsent != NULL)
			finish_unsent(flight, unsent);
		else
			launch(flight);
	}
}

/* Send what this turn has made necessary, as far as there is room. */
void
le_dispatch_send(void)
{
	for (int i = 0; i < LE_NLANES; i++)
		run_lane(i);
	if (store->between_instances)
		le_http_push();
	le_lanes_end_turn();
}

/* ---- what is answered here ---- */

static void
perform_next(LeFlight **flight, LeAnswer *answer)
{
	MemoryContext old;

	*flight = linitial(answered);
	answered = list_delete_first(answered);
	old = MemoryContextSwitchTo((*flight)->context);
	(*flight)->op.next_token = le_local_token_next;
	(*flight)->op.log = &le_claim_log;
	store->perform(&(*flight)->op, answer);
	MemoryContextSwitchTo(old);
}

/*
 * So many in a turn, with one flush for the tokens of all of them.  What these
 * send waits for the next turn: others want theirs.
 */
static void
run_local(void)
{
	LeFlight   *flights[LOCAL_AT_ONCE];
	LeAnswer	answers[LOCAL_AT_ONCE] = {0};
	int			n = Min(list_length(answered), LOCAL_AT_ONCE);

	for (int i = 0; i < n; i++)
		perform_next(&flights[i], &answers[i]);
	le_local_tokens_flush();
	for (int i = 0; i < n; i++)
		le_lanes_finish(flights[i], &answers[i]);
}

void
le_dispatch_run(void)
{
	if (store->between_instances)
	{
		le_exchange_run();
		le_http_run();
		le_servers_run_timers();
		le_secret_run_timers();
		le_authenticate_run();
	}
	run_local();
}

le_time
le_dispatch_timer(void)
{
	le_time		next = 0;

	if (answered != NIL || le_exchange_is_busy())
		next = le_now();
	if (store->between_instances)
	{
		next = le_earliest(next, le_http_timer());
		next = le_earliest(next, le_servers_timer());
		next = le_earliest(next, le_lanes_timer());
		next = le_earliest(next, le_secret_timer());
		next = le_earliest(next, le_authenticate_timer());
	}
	return next;
}
