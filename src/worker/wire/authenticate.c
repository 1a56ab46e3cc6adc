/*-------------------------------------------------------------------------
 *
 * authenticate.c
 *		Flights that wait for a secret, which has to be fetched.
 *
 * src/worker/wire/authenticate.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "settings.h"
#include "shmem/clock.h"
#include "shmem/leases.h"
#include "worker/wire/authenticate.h"
#include "worker/wire/exchange.h"
#include "worker/wire/lanes.h"
#include "worker/wire/secret.h"

static const char no_time_left[] =
	"there was no time left after authentication";

struct LeAuthentication
{
	List	   *waiting;		/* flights that wait for a secret */
	bool		under_way;
	LeOutcome	no_secret;		/* their outcome if the fetch fails */
};

LeAuthentication *
le_authentication_new(void)
{
	LeAuthentication *a = MemoryContextAllocZero(TopMemoryContext,
												 sizeof(LeAuthentication));

	a->no_secret = LE_UNAVAILABLE;
	return a;
}

/* The flight's next request cannot be sent: nothing was applied, except
 * perhaps by its earlier ones. */
static void
fail_secretless(LeWorker *w, LeFlight *flight, const char *why)
{
	LeAnswer	answer = {0};

	le_flight_fail_rest(flight, &answer, w->authentication->no_secret, why);
	if (answer.outcome == LE_REFUSED)
		answer.cause = LE_CAUSE_STRANGER;
	le_lanes_land(w, flight, &answer);
}

static void
forget_text(const char *secret)
{
	if (secret != NULL)
		explicit_bzero(unconstify(char *, secret), strlen(secret));
}

/* All flights that waited for the secret go ahead, or fail without one. */
static void
authenticated(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeAuthentication *auth = w->authentication;
	const char *why = answer->detail ? answer->detail : "no answer";
	List	   *waiting = auth->waiting;

	auth->waiting = NIL;
	auth->under_way = false;
	auth->no_secret = answer->outcome == LE_REFUSED ? LE_REFUSED :
		LE_UNAVAILABLE;
	if (answer->outcome == LE_DONE)
		le_secret_fetched(w->secrets, answer->secret, answer->lasts);
	else
		le_secret_failed(w->secrets, why, answer->wire.busy_for, le_random());
	forget_text(answer->secret);
	forget_text(flight->op.secret);
	while (waiting != NIL)
	{
		LeFlight   *next = linitial(waiting);

		waiting = list_delete_first(waiting);
		if (answer->outcome != LE_DONE)
			fail_secretless(w, next, why);
		else if (le_flight_is_past(next))
			le_lanes_give_up(w, next, "its session has ended");
		else if (le_now() >= next->until || !le_exchange_send(w, next))
			le_lanes_give_up(w, next, no_time_left);
	}
}

/* Not in a lane's turn: all flights under way in it may wait for this. */
static void
authenticate(LeWorker *w)
{
	LeAuthentication *auth = w->authentication;
	LeFlight   *flight;

	if (auth->under_way ||
		(le_secret_due(w->secrets) != 0 &&
		 le_now() < le_secret_due(w->secrets)))
		return;
	auth->under_way = true;
	le_secret_read_again(w->secrets);
	flight = le_flight_new(LE_OP_AUTHENTICATE, authenticated);
	flight->op.secret = le_flight_string(flight,
										 le_secret_of_file(w->secrets));
	flight->patience = le_table->node.timing.request_timeout;
	le_lane_enter(w, flight);
	le_exchange_begin(w, flight);
}

void
le_await_secret(LeWorker *w, LeFlight *flight)
{
	LeAuthentication *auth = w->authentication;

	auth->waiting = le_flights_append(auth->waiting, flight);
	authenticate(w);
}

/*
 * A flight waits for a secret no longer than for an answer.  While none is
 * being fetched it fails at once, since the last attempt has just failed.
 */
static void
run_secretless(LeWorker *w)
{
	LeAuthentication *auth = w->authentication;

	for (int n = list_length(auth->waiting); n > 0; n--)
	{
		LeFlight   *flight = linitial(auth->waiting);

		auth->waiting = list_delete_first(auth->waiting);
		if (!auth->under_way)
			fail_secretless(w, flight, le_secret_trouble(w->secrets));
		else if (le_now() >= flight->until)
			fail_secretless(w, flight, "no token could be fetched in time");
		else
			auth->waiting = le_flights_append(auth->waiting, flight);
	}
}

static le_time
secretless_timer(LeWorker *w)
{
	LeAuthentication *auth = w->authentication;
	le_time		next = 0;
	ListCell   *cell;

	if (auth->waiting != NIL && !auth->under_way)
		return le_now();
	foreach(cell, auth->waiting)
		next = le_earliest(next, ((LeFlight *) lfirst(cell))->until);
	return next;
}

/* Fetch a new secret ahead of the end of the last one, too. */
void
le_authenticate_run(LeWorker *w)
{
	if (le_secret_due(w->secrets) != 0 &&
		le_now() >= le_secret_due(w->secrets))
		authenticate(w);
	run_secretless(w);
}

le_time
le_authenticate_timer(LeWorker *w)
{
	return le_earliest(secretless_timer(w),
					   w->authentication->under_way ? 0 :
					   le_secret_due(w->secrets));
}

/* ---- a secret that was refused ---- */

/* Has the store refused the request, or a part of it, and so applied none? */
static bool
is_refusal(const LeFlight *flight, const LeResponse *response,
		   const LeAnswer *answer)
{
	if (response->net != LE_NET_OK || response->http.status < 400)
		return false;
	for (int i = 0; answer->wire.parts != NULL &&
		 i <= flight->op.wire.njoined; i++)
		if (answer->wire.parts[i].outcome == LE_REFUSED)
			return true;
	return answer->outcome == LE_REFUSED;
}

/* Add the fault of the file, if it could not be read again. */
static void
explain_file(LeWorker *w, const LeFlight *flight, LeAnswer *answer)
{
	MemoryContext old;

	if (answer->outcome != LE_REFUSED ||
		le_secret_trouble(w->secrets)[0] == '\0')
		return;
	old = MemoryContextSwitchTo(flight->context);
	answer->detail =
		le_clean_detail(psprintf(le_secret(w->secrets) == NULL ?
								 "%s (no token was sent: %s)" :
								 "%s (the token is an old one: %s)",
								 answer->detail,
								 le_secret_trouble(w->secrets)));
	le_secret_blame(answer);
	MemoryContextSwitchTo(old);
}

/*
 * The secret that was sent has run out, or its file may have another by now:
 * send the request again with a new one, but only once, lest a secret that is
 * never accepted be fetched forever.
 */
bool
le_ask_with_new_secret(LeWorker *w, LeFlight *flight,
					   const LeResponse *response, LeAnswer *answer)
{
	LeSecretAdvice advice;

	if (!answer->wire.stale_secret &&
		!(le_secret_is_in_file(w->secrets) &&
		  is_refusal(flight, response, answer)))
		return false;
	if (flight->renewed_secret || flight->op.kind == LE_OP_AUTHENTICATE ||
		le_flight_is_past(flight))
		return false;
	advice = le_secret_refused(w->secrets, flight->secret_number);
	if (advice == LE_SECRET_GIVE_UP)
	{
		explain_file(w, flight, answer);
		return false;
	}
	flight->renewed_secret = true;
	flight->tried = 0;
	if (advice == LE_SECRET_FETCH)
		le_await_secret(w, flight);
	else if (le_now() >= flight->until || !le_exchange_send(w, flight))
		le_lanes_give_up(w, flight, no_time_left);
	return true;
}
