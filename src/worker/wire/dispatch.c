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

#include "utils/memutils.h"

#include "settings.h"
#include "shmem/clock.h"
#include "shmem/leases.h"
#include "worker/disk/claimlog.h"
#include "worker/disk/tokens.h"
#include "worker/wire/authenticate.h"
#include "worker/wire/dispatch.h"
#include "worker/wire/exchange.h"
#include "worker/wire/gossip.h"
#include "worker/wire/http.h"
#include "worker/wire/lanes.h"
#include "worker/wire/local_tokens.h"
#include "worker/wire/secret.h"
#include "worker/wire/throttle.h"

struct LeDispatch
{
	const LeStore *store;
	List	   *answered;		/* flights that perform() has to answer */
};

/* ---- consequences of an answer ---- */

/*
 * The server that was asked has failed, or does well.  A request that was
 * certainly not applied goes to the next server while there is time.  One that
 * may have been applied does not, since only its caller knows how to find out.
 */
static bool
ask_another(LeWorker *w, LeFlight *flight, const LeResponse *response,
			const LeAnswer *answer)
{
	if ((response->net != LE_NET_OK && response->net != LE_NET_UNTAKEN) ||
		answer->wire.next_server)
		le_server_failed(w, flight->server,
						 answer->detail ? answer->detail : "no answer");
	else
		le_server_answered(w, flight->server);
	if (!answer->wire.next_server || le_flight_is_past(flight) ||
		flight->until - le_now() < LE_MIN_ATTEMPT / 2)
		return false;
	return le_exchange_send(w, flight);
}

/*
 * A read was answered by a store that does not count any more: it begins anew
 * with the present one.  A parked query does not, since the next one has been
 * sent already.
 */
static bool
ask_present_store(LeWorker *w, LeFlight *flight)
{
	if (!le_flight_is_outdated(w, flight) ||
		le_op_writes(flight->op.kind) || le_flight_may_park(flight) ||
		flight->op.kind == LE_OP_AUTHENTICATE)
		return false;
	memset(&flight->op.wire.step, 0, sizeof(flight->op.wire.step));
	flight->tried = 0;
	if (le_now() >= flight->until || !le_exchange_send(w, flight))
		le_lanes_give_up(w, flight,
						 "there was no time left to ask another store");
	else
		flight->store = w->stores;
	return true;
}

/* The operation goes on with another request, to the best server now. */
static bool
go_on(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	if (!answer->wire.again)
		return false;
	flight->op.wire.step = answer->wire.next;
	flight->tried = 0;
	if (le_flight_is_past(flight))
		le_lanes_give_up(w, flight, "its session has ended");
	else if (le_now() >= flight->until || !le_exchange_send(w, flight))
		le_lanes_give_up(w, flight,
						 "there was no time left for the rest of it");
	return true;
}

/*
 * The caller counts trust from flight->sent.  Among several requests that is
 * the one that took or renewed the lease: later ones say nothing about the age
 * of the lease.
 */
static void
act_on(LeWorker *w, LeFlight *flight, const LeResponse *response,
	   LeAnswer *answer)
{
	le_gossip_landed(w->gossip, &flight->op, answer);
	flight->op.news = NULL;
	if (answer->wire.busy && flight->op.kind != LE_OP_AUTHENTICATE)
		le_throttle_busy(w->throttle, answer->wire.busy_for);
	flight->anchored = flight->anchored || answer->wire.anchors;
	if (!ask_present_store(w, flight) &&
		!ask_another(w, flight, response, answer) &&
		!le_ask_with_new_secret(w, flight, response, answer) &&
		!go_on(w, flight, answer))
		le_lanes_land(w, flight, answer);
}

void
le_dispatch_start(LeWorker *w)
{
	int			connections[LE_NLANES];

	w->dispatch = MemoryContextAllocZero(TopMemoryContext, sizeof(LeDispatch));
	w->dispatch->store = le_configured_store();
	w->health = le_health_new();
	w->flights = le_flights_new();
	w->lanes = le_lanes_new(w->limits->lane_windows, connections);
	w->exchange = le_exchange_new(act_on);
	w->authentication = le_authentication_new();
	w->secrets = le_secrets_new();
	w->servers = le_servers_new();
	w->throttle = le_throttle_new();
	w->gossip = le_gossip_new(w->limits->gossip_capacity);
	w->local_tokens = le_local_tokens_new();
	if (w->dispatch->store->between_instances)
		le_http_start(w, connections);
	else
	{
		(void) le_local_token_next(w->local_tokens);
		le_local_tokens_flush(w->local_tokens);
	}
	(void) le_dispatch_configure(w);
}

/*
 * Adopt the settings, at start and after a reload.  True: other servers are
 * asked from now on.
 */
bool
le_dispatch_configure(LeWorker *w)
{
	LeDispatch *dispatch = w->dispatch;
	bool		others;

	if (!dispatch->store->between_instances)
		return false;
	le_lanes_configure(w);
	others = le_servers_configure(w, dispatch->store->servers.urls());
	le_secret_configure(w->secrets);
	return others;
}

/* ---- requests ---- */

static void
launch(LeWorker *w, LeFlight *flight)
{
	le_lane_enter(w, flight);
	if (le_secret_missing(w->secrets))
		le_await_secret(w, flight);
	else
		le_exchange_begin(w, flight);
}

/*
 * Have the operation sent at the end of this turn, or when its turn comes;
 * done() will be called once, later.  "timeout" counts from the send.
 */
void
le_flight_send(LeWorker *w, LeFlight *flight, le_duration timeout)
{
	LeDispatch *dispatch = w->dispatch;

	flight->store = w->stores;
	flight->sent = flight->transmitted = le_now();
	flight->patience = timeout;
	flight->until = le_earliest(flight->sent + timeout, flight->not_after);
	le_flight_expect(w, flight);
	if (le_performs(dispatch->store, flight->op.kind))
	{
		flight->handed_over = true;
		dispatch->answered = le_flights_append(dispatch->answered, flight);
	}
	else if (flight->lane == LE_LANE_LIFE &&
			 le_lane_is_free(w, flight->lane) && le_now() < flight->until)
		launch(w, flight);		/* a proof names the terms held now, not those
								 * at the end of the turn */
	else
		le_lane_queue(w, flight);
}

/* Has the store certainly not seen the election's newest request yet? */
bool
le_flight_waits(LeWorker *w, int slot)
{
	const LeFlight *flight = le_flight_newest(w, slot);

	return flight != NULL && !flight->handed_over;
}

/*
 * A backend asks about an election whose request waits in the lane of
 * campaigns: from here on it has the lane of requests that backends wait for.
 */
void
le_flight_hurry(LeWorker *w, int slot)
{
	LeFlight   *flight = le_flight_newest(w, slot);

	if (flight == NULL || flight->under_way || flight->handed_over ||
		flight->lane != LE_LANE_CAMPAIGN)
		return;
	le_lane_change(w, flight, LE_LANE_ASKED);
	flight->keeps_waiting = false;
	flight->until = le_earliest(le_now() + flight->patience,
								flight->not_after);
}

/* The request was never sent: no server has failed, nothing was applied. */
static void
finish_unsent(LeWorker *w, LeFlight *flight, const char *why)
{
	LeAnswer	answer = {0};

	le_fail(&answer, LE_UNAVAILABLE, why);
	answer.unsent = true;
	le_flight_deliver(w, flight, &answer);
}

/* One flight at a time, since each send or answer may change the lane. */
static void
run_lane(LeWorker *w, LeLane lane)
{
	const char *unsent;
	LeFlight   *flight;

	while ((flight = le_lane_next(w, lane, &unsent)) != NULL)
	{
		if (unsent != NULL)
			finish_unsent(w, flight, unsent);
		else
			launch(w, flight);
	}
}

/* Send the requests of this turn, as far as the lanes' windows allow. */
void
le_dispatch_send(LeWorker *w)
{
	for (int i = 0; i < LE_NLANES; i++)
		run_lane(w, i);
	if (w->dispatch->store->between_instances)
		le_http_push(w);
	le_lanes_end_turn(w);
}

/* ---- operations performed here ---- */

static void
perform_next(LeWorker *w, LeFlight **flight, LeAnswer *answer)
{
	LeDispatch *dispatch = w->dispatch;
	MemoryContext old;

	*flight = linitial(dispatch->answered);
	dispatch->answered = list_delete_first(dispatch->answered);
	old = MemoryContextSwitchTo((*flight)->context);
	(*flight)->op.local.next_token = le_local_token_next;
	(*flight)->op.local.tokens = w->local_tokens;
	(*flight)->op.local.log = &le_claim_log;
	(*flight)->op.local.claims = w->claims;
	dispatch->store->codec.perform(&(*flight)->op, answer);
	MemoryContextSwitchTo(old);
}

/*
 * Perform a limited number in a turn, with one flush for all their tokens.
 * Operations that their callers send wait for the next turn, so that the rest
 * of the loop gets its turn.
 */
static void
run_local(LeWorker *w)
{
	LeFlight   *flights[LE_LOCAL_AT_ONCE];
	LeAnswer	answers[LE_LOCAL_AT_ONCE] = {0};
	int			n = Min(list_length(w->dispatch->answered), LE_LOCAL_AT_ONCE);

	for (int i = 0; i < n; i++)
		perform_next(w, &flights[i], &answers[i]);
	le_local_tokens_flush(w->local_tokens);
	for (int i = 0; i < n; i++)
		le_lanes_finish(w, flights[i], &answers[i]);
}

void
le_dispatch_run(LeWorker *w)
{
	if (w->dispatch->store->between_instances)
	{
		le_exchange_run(w);
		le_http_run(w);
		le_servers_run_timers(w);
		le_secret_run_timers(w->secrets);
		le_authenticate_run(w);
	}
	else
		le_local_tokens_begin(w->local_tokens,
							  le_tokens_generation(w->tokens));
	run_local(w);
}

le_time
le_dispatch_timer(LeWorker *w)
{
	LeDispatch *dispatch = w->dispatch;
	le_time		next = 0;

	if (dispatch->answered != NIL || le_exchange_is_busy(w))
		next = le_now();
	if (dispatch->store->between_instances)
	{
		next = le_earliest(next, le_http_timer(w));
		next = le_earliest(next, le_servers_timer(w));
		next = le_earliest(next, le_lanes_timer(w));
		next = le_earliest(next, le_secret_timer(w->secrets));
		next = le_earliest(next, le_authenticate_timer(w));
	}
	return next;
}
