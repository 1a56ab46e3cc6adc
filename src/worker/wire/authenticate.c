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

#include "settings.h"
#include "shmem/clock.h"
#include "shmem/leases.h"
#include "worker/wire/authenticate.h"
#include "worker/wire/exchange.h"
#include "worker/wire/lanes.h"
#include "worker/wire/secret.h"

static const char no_time_left[] =
	"there was no time left after authentication";

static List *secretless = NIL;	/* flights that wait for a secret */
static bool authenticating = false;
static LeOutcome no_secret = LE_UNAVAILABLE;	/* their outcome if the fetch
												 * fails */

/* The flight's next request cannot be sent: nothing was applied, except
 * perhaps by its earlier ones. */
static void
fail_secretless(LeFlight *flight, const char *why)
{
	LeAnswer	answer = {0};

	le_flight_fail_rest(flight, &answer, no_secret, why);
	if (answer.outcome == LE_REFUSED)
		answer.cause = LE_CAUSE_STRANGER;
	le_lanes_land(flight, &answer);
}

static void
forget_text(const char *secret)
{
	if (secret != NULL)
		explicit_bzero(unconstify(char *, secret), strlen(secret));
}

/* All flights that waited for the secret go ahead, or fail without one. */
static void
authenticated(LeFlight *flight, const LeAnswer *answer)
{
	const char *why = answer->detail ? answer->detail : "no answer";
	List	   *waiting = secretless;

	secretless = NIL;
	authenticating = false;
	no_secret = answer->outcome == LE_REFUSED ? LE_REFUSED : LE_UNAVAILABLE;
	if (answer->outcome == LE_DONE)
		le_secret_fetched(answer->secret, answer->lasts);
	else
		le_secret_failed(why, answer->busy_for, le_random());
	forget_text(answer->secret);
	forget_text(flight->op.secret);
	while (waiting != NIL)
	{
		LeFlight   *next = linitial(waiting);

		waiting = list_delete_first(waiting);
		if (answer->outcome != LE_DONE)
			fail_secretless(next, why);
		else if (le_flight_is_past(next))
			le_lanes_give_up(next, "its session has ended");
		else if (le_now() >= next->until || !le_exchange_send(next))
			le_lanes_give_up(next, no_time_left);
	}
}

/* Not in a lane's turn: all flights under way in it may wait for this. */
static void
authenticate(void)
{
	LeFlight   *flight;

	if (authenticating ||
		(le_secret_due() != 0 && le_now() < le_secret_due()))
		return;
	authenticating = true;
	le_secret_read_again();
	flight = le_flight_new(LE_OP_AUTHENTICATE, authenticated);
	flight->op.secret = le_flight_string(flight, le_secret_of_file());
	flight->patience = le_table->node.timing.request_timeout;
	le_lane_enter(flight);
	le_exchange_begin(flight);
}

void
le_await_secret(LeFlight *flight)
{
	secretless = le_flights_append(secretless, flight);
	authenticate();
}

/*
 * A flight waits for a secret no longer than for an answer.  While none is
 * being fetched it fails at once, since the last attempt has just failed.
 */
static void
run_secretless(void)
{
	for (int n = list_length(secretless); n > 0; n--)
	{
		LeFlight   *flight = linitial(secretless);

		secretless = list_delete_first(secretless);
		if (!authenticating)
			fail_secretless(flight, le_secret_trouble());
		else if (le_now() >= flight->until)
			fail_secretless(flight, "no token could be fetched in time");
		else
			secretless = le_flights_append(secretless, flight);
	}
}

static le_time
secretless_timer(void)
{
	le_time		next = 0;
	ListCell   *cell;

	if (secretless != NIL && !authenticating)
		return le_now();
	foreach(cell, secretless)
		next = le_earliest(next, ((LeFlight *) lfirst(cell))->until);
	return next;
}

/* Fetch a new secret ahead of the end of the last one, too. */
void
le_authenticate_run(void)
{
	if (le_secret_due() != 0 && le_now() >= le_secret_due())
		authenticate();
	run_secretless();
}

le_time
le_authenticate_timer(void)
{
	return le_earliest(secretless_timer(),
					   authenticating ? 0 : le_secret_due());
}

/* ---- a secret that was refused ---- */

/* Has the store refused the request, or a part of it, and so applied none? */
static bool
is_refusal(const LeFlight *flight, const LeHttpResponse *response,
		   const LeAnswer *answer)
{
	if (response->net != LE_NET_OK || response->status < 400)
		return false;
	for (int i = 0; answer->parts != NULL && i <= flight->op.njoined; i++)
		if (answer->parts[i].outcome == LE_REFUSED)
			return true;
	return answer->outcome == LE_REFUSED;
}

/* Add the fault of the file, if it could not be read again. */
static void
explain_file(const LeFlight *flight, LeAnswer *answer)
{
	MemoryContext old;

	if (answer->outcome != LE_REFUSED || le_secret_trouble()[0] == '\0')
		return;
	old = MemoryContextSwitchTo(flight->context);
	answer->detail =
		le_clean_detail(psprintf(le_secret() == NULL ?
								 "%s (no token was sent: %s)" :
								 "%s (the token is an old one: %s)",
								 answer->detail, le_secret_trouble()));
	le_secret_blame(answer);
	MemoryContextSwitchTo(old);
}

/*
 * The secret that was sent has run out, or its file may have another by now:
 * send the request again with a new one, but only once, lest a secret that is
 * never accepted be fetched forever.
 */
bool
le_ask_with_new_secret(LeFlight *flight, const LeHttpResponse *response,
					   LeAnswer *answer)
{
	LeSecretAdvice advice;

	if (!answer->stale_secret &&
		!(le_secret_is_in_file() && is_refusal(flight, response, answer)))
		return false;
	if (flight->renewed_secret || flight->op.kind == LE_OP_AUTHENTICATE ||
		le_flight_is_past(flight))
		return false;
	advice = le_secret_refused(flight->secret_number);
	if (advice == LE_SECRET_GIVE_UP)
	{
		explain_file(flight, answer);
		return false;
	}
	flight->renewed_secret = true;
	flight->tried = 0;
	if (advice == LE_SECRET_FETCH)
		le_await_secret(flight);
	else if (le_now() >= flight->until || !le_exchange_send(flight))
		le_lanes_give_up(flight, no_time_left);
	return true;
}
