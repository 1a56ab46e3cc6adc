/*-------------------------------------------------------------------------
 *
 * dispatch.c
 *		Operations on their way to the store and back.
 *
 * A remote store's operation is encoded, sent and, when the response has come,
 * decoded.  The local store answers at once, but its answer waits in a queue,
 * so that with any store done() is never called from within the call that sent
 * the operation.
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

/* Operations of the store "local" that are carried out in a turn. */
#define LOCAL_AT_ONCE	64

static const LeStore *store;
static List *answered = NIL;	/* flights that perform() has to answer */

/* ---- consequences of an answer ---- */

/*
 * The server that was asked has failed, or does well.  A request that was
 * certainly not applied goes to the next server while there is time.  One that
 * may have been applied does not, since only its caller knows how to find out.
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

/* The operation goes on with another request, to the best server now. */
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
 * The caller counts trust from flight->sent.  Among several requests that is
 * the one that took or renewed the lease: later ones say nothing about the age
 * of the lease.
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

/* Adopt the settings, at start and after a reload. */
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
 * Have the operation sent at the end of this turn, or when its turn comes;
 * done() will be called once, later.  "timeout" counts from the send.
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
		launch(flight);			/* a proof names the terms held now, not those
								 * at the end of the turn */
	else
		le_lane_queue(flight);
}

/* Has the store certainly not seen the election's newest request yet? */
bool
le_flight_waits(int slot)
{
	const LeFlight *flight = le_flight_newest(slot);

	return flight != NULL && !flight->handed_over;
}

/*
 * A backend asks about an election whose request waits in the lane of
 * campaigns: from here on it has the lane of requests that backends wait for.
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

/* The request was never sent: no server has failed, nothing was applied. */
static void
finish_unsent(LeFlight *flight, const char *why)
{
	LeAnswer	answer = {0};

	le_fail(&answer, LE_UNAVAILABLE, why);
	answer.unsent = true;
	le_flight_deliver(flight, &answer);
}

/* One flight at a time, since each send or answer may change the lane. */
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

/* Send the requests of this turn, as far as the lanes' windows allow. */
void
le_dispatch_send(void)
{
	for (int i = 0; i < LE_NLANES; i++)
		run_lane(i);
	if (store->between_instances)
		le_http_push();
	le_lanes_end_turn();
}

/* ---- operations performed here ---- */

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
 * Perform a limited number in a turn, with one flush for all their tokens.
 * Operations that their callers send wait for the next turn, so that the rest
 * of the loop gets its turn.
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
