/*-------------------------------------------------------------------------
 *
 * exchange.c
 *		Requests as a server gets them, and its answers.
 *
 * An operation is encoded and sent to the best server, and its response is
 * decoded: a long one in parts, one in a turn of the loop.
 *
 * src/worker/wire/exchange.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "settings.h"
#include "shmem/clock.h"
#include "shmem/leases.h"
#include "worker/wire/exchange.h"
#include "worker/wire/gossip.h"
#include "worker/wire/health.h"
#include "worker/wire/secret.h"

/* Time for a server to accept a connection, if there are others. */
#define CONNECT_MS			1000

/* An answer that is decoded in parts, one in a turn of the loop. */
typedef struct Unread
{
	LeFlight   *flight;
	LeResponse response;
	LeAnswer	answer;			/* the parts so far */
} Unread;

struct LeExchange
{
	LeHeard		heard;			/* is told of each answer */
	List	   *unread;			/* answers that are partly decoded */
};

LeExchange *
le_exchange_new(LeHeard heard)
{
	LeExchange *exchange = MemoryContextAllocZero(TopMemoryContext,
												  sizeof(LeExchange));

	exchange->heard = heard;
	return exchange;
}

/* Add the fault of the secret, if the secret itself shows one. */
static void
explain_refusal(LeWorker *w, LeAnswer *answer)
{
	LeFinding	finding;

	if (!answer->wire.stale_secret || answer->outcome != LE_REFUSED ||
		!le_secret_judge(w->secrets, &finding) ||
		finding.level != LE_LEVEL_ERROR)
		return;
	answer->detail = le_clean_detail(psprintf("%s %s", finding.text,
											  answer->detail));
	le_secret_blame(answer);
}

/* Decode a part of the response, or all, in the flight's memory. */
static void
decode_part(LeWorker *w, LeFlight *flight, const LeResponse *response,
			LeAnswer *answer)
{
	MemoryContext old = MemoryContextSwitchTo(flight->context);

	flight->op.wire.from = answer->wire.rest;
	le_configured_store()->codec.decode(&le_table->namespace, &flight->op,
										response, answer);
	if (answer->wire.rest == 0)
	{
		if (response->secret != NULL)
			le_hide_secret(&flight->op, response->secret, answer);
		explain_refusal(w, answer);
	}
	MemoryContextSwitchTo(old);
}

/* Decode the rest later, from a copy: the response is gone by then. */
static void
read_later(LeWorker *w, LeFlight *flight, const LeResponse *response,
		   const LeAnswer *answer)
{
	LeExchange *exchange = w->exchange;
	MemoryContext old = MemoryContextSwitchTo(flight->context);
	Unread	   *u = palloc(sizeof(Unread));

	u->flight = flight;
	u->response = *response;
	u->response.secret = NULL;	/* a long answer is quoted nowhere */
	u->response.body = memcpy(palloc(response->body_len), response->body,
							  response->body_len);
	u->response.http.content_type = pstrdup(response->http.content_type);
	if (response->http.headers != NULL)
		u->response.http.headers = pstrdup(response->http.headers);
	u->answer = *answer;
	MemoryContextSwitchTo(old);
	exchange->unread = le_flights_append(exchange->unread, u);
}

static void
response_came(LeWorker *w, void *arg, const LeResponse *response)
{
	LeFlight   *flight = arg;
	LeAnswer	answer = {0};

	le_health_note_clock(w, flight, response);
	decode_part(w, flight, response, &answer);
	if (answer.wire.rest != 0)
		read_later(w, flight, response, &answer);
	else
		w->exchange->heard(w, flight, response, &answer);
}

/* Decode one more part of each unfinished answer. */
void
le_exchange_run(LeWorker *w)
{
	LeExchange *exchange = w->exchange;

	for (int n = list_length(exchange->unread); n > 0; n--)
	{
		Unread	   *u = linitial(exchange->unread);

		exchange->unread = list_delete_first(exchange->unread);
		decode_part(w, u->flight, &u->response, &u->answer);
		if (u->answer.wire.rest == 0)
			exchange->heard(w, u->flight, &u->response, &u->answer);
		else
			exchange->unread = le_flights_append(exchange->unread, u);
	}
}

/* Is there a part of an answer that has still to be decoded? */
bool
le_exchange_is_busy(LeWorker *w)
{
	return w->exchange->unread != NIL;
}

/*
 * How long may this server take?  A read that another server could answer
 * leaves time for that one, lest a server that hangs use up the caller's time.
 */
static le_duration
patience(LeWorker *w, const LeFlight *flight)
{
	le_duration left = Max(flight->until - flight->transmitted, LE_MSEC);
	unsigned	tried = flight->tried;
	LeServerRef other;

	if (le_op_writes(flight->op.kind) || le_flight_may_park(flight) ||
		!le_server_pick(w, &tried, &other))
		return left;
	return left / 2;
}

/* Encode and send; false: there is no server left. */
bool
le_exchange_send(LeWorker *w, LeFlight *flight)
{
	const LeStore *store = le_configured_store();
	LeRequest request = {0};
	MemoryContext old;

	Assert(flight->under_way);
	if (!le_server_pick(w, &flight->tried, &flight->server))
		return false;
	old = MemoryContextSwitchTo(flight->context);
	initStringInfo(&request.http.path);
	initStringInfo(&request.http.headers);
	initStringInfo(&request.http.body);
	if (store->watch.tells && !flight->op.dry_run)
		le_gossip_attach(w->gossip, &flight->op);
	store->codec.encode(&le_table->namespace, &flight->op, &request);
	if (request.base == NULL)
		request.base = le_server_url(w, flight->server);
	if (!request.without_secret)
		request.secret = le_secret(w->secrets);
	request.secret_header = le_secret_header(w->secrets);
	flight->secret_number = le_secret_number(w->secrets);
	request.fresh = flight->fresh;
	if (le_servers_several(w))
		request.connect_ms = CONNECT_MS;
	flight->transmitted = le_now();
	if (!flight->anchored)
		flight->sent = flight->transmitted;
	flight->handed_over = true;
	for (int i = 0; i < flight->op.wire.njoined; i++)
	{
		flight->joined[i]->handed_over = true;
		flight->joined[i]->sent = flight->sent;
		flight->joined[i]->transmitted = flight->transmitted;
	}
	le_http_send(w, &request, flight->lane, patience(w, flight), response_came,
				 flight);
	MemoryContextSwitchTo(old);
	return true;
}

/* Send the first request: the list of servers is never empty. */
void
le_exchange_begin(LeWorker *w, LeFlight *flight)
{
	if (!le_exchange_send(w, flight))
		elog(ERROR, "leader_election has no server to ask");
}
