/*-------------------------------------------------------------------------
 *
 * http_text.c
 *		The text of requests to gateways, and of their answers.
 *
 * Requests are as store/cassandra.c writes them, answers as the gateway does
 * (gateway/internal/api, gateway/openapi.yaml); store/cassandra.c reads them.
 * In between they travel as structures.
 *
 * test/sim/http_text.c
 *
 *-------------------------------------------------------------------------
 */
#include "cassandra.h"

#define INCARNATION_DIGITS	8	/* digits used of 32; the others are zeros */

/* ---- reading ---- */

static void
no_sense(const LeRequest *request)
{
	fprintf(stderr, "sim: a gateway cannot read %s %s %s\n",
			request->http.method, request->http.path.data,
			request->http.has_body ? request->http.body.data : "");
	abort();
}

/* The text after the name; NULL: no such name. */
static const char *
find(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at == NULL ? NULL : at + strlen(name);
}

static uint64
number_at(const char *s)
{
	uint64		n = 0;

	if (s == NULL)
		return 0;
	while (*s >= '0' && *s <= '9')
		n = n * 10 + (*s++ - '0');
	return n;
}

static uint64
hex_at(const char *s, int digits)
{
	uint64		n = 0;

	for (int i = 0; i < digits; i++)
		n = n * 16 + (s[i] <= '9' ? s[i] - '0' : s[i] - 'a' + 10);
	return n;
}

/* "n1#..." with the mark as given */
static int
owner_at(const char *s, const char *mark)
{
	const char *incarnation;

	if (s == NULL || s[0] != 'n' ||
		(incarnation = find(s, mark)) == NULL)
		return 0;
	return OWNER((int) hex_at(incarnation, INCARNATION_DIGITS),
				 node_of_name(s));
}

/* Is the request about several locks? */
bool
lock_many(LockVerb verb)
{
	return verb == LOCK_RENEW_MANY || verb == LOCK_ACQUIRE_MANY ||
		verb == LOCK_RELEASE_MANY || verb == LOCK_GET_MANY;
}

/* The text after the name, up to the end of the entry. */
static const char *
find_before(const char *text, const char *name)
{
	const char *at = find(text, name);

	return at == NULL || at > strchr(text, '}') ? NULL : at;
}

static void
read_terms(const char *body, LockRequest *l)
{
	while ((body = find(body, "{\"name\":\"")) != NULL)
	{
		const char *value = find_before(body, "\"value\":\"");
		const char *attempt = find_before(body, "\"attempt\":\"");
		int			i = l->n++;

		l->terms[i].election = election_of_name(body);
		l->terms[i].token = number_at(find_before(body, "\"token\":"));
		l->terms[i].rev = number_at(find_before(body, "\"rev\":"));
		l->terms[i].min_token = number_at(find_before(body,
													  "\"min_token\":"));
		l->terms[i].has_value = value != NULL;
		l->terms[i].value = value != NULL ? number_of_value(value) : 0;
		l->terms[i].attempt = attempt != NULL ? hex_at(attempt, 16) : 0;
	}
}

static bool
read_state(const char *s, LeClaimState *state)
{
	for (int i = 0; s != NULL && i < LE_CLAIM_NSTATES; i++)
	{
		size_t		len = strlen(le_claim_state_name(i));

		if (strncmp(s, le_claim_state_name(i), len) == 0 && s[len] == '"')
		{
			*state = i;
			return true;
		}
	}
	return false;
}

static void
read_claim(const char *body, LockRequest *l)
{
	ClaimRecord *c = &l->claim;
	const char *id = find(body, "\"claim\":\"");
	const char *previous = find(body, "\"prev_claim\":\"");

	if (id != NULL)
		c->id = claim_of_name(id);
	c->exists = true;
	c->tick = (int64) number_at(find(body, "\"tick\":"));
	c->try = (int) number_at(find(body, "\"try\":"));
	c->token = l->terms[0].token;
	c->every = (int64) number_at(find(body, "\\\"every\\\":"));
	c->ended = number_at(find(body, "\\\"ended_at\\\":")) != 0;
	c->gap.n = (int64) number_at(find(body, "\\\"missed\\\":"));
	c->gap.first = (int64) number_at(find(body, "\\\"missed_from\\\":"));
	c->gap.last = (int64) number_at(find(body, "\\\"missed_to\\\":"));
	c->writes = number_at(find(body, "\\\"writes\\\":"));
	c->state = LE_CLAIM_RUNNING;
	(void) read_state(find(body, "\"state\":\""), &c->state);
	if (previous == NULL)
		return;
	l->previous.id = claim_of_name(previous);
	l->previous.exists = read_state(find(body, "\"prev_state\":\""),
									&l->previous.state);
}

static void
read_body(const char *body, LockRequest *l)
{
	bool		acquires = l->verb == LOCK_ACQUIRE;
	const char *value = !acquires && l->verb != LOCK_RENEW ? NULL :
		find(body, "\"value\":\"");
	const char *attempt = acquires ? find(body, "\"attempt\":\"") : NULL;

	l->owner = owner_at(find(body, "\"owner\":\""), "#");
	l->ttl_ms = (int) number_at(find(body, "\"ttl\":\""));
	if (acquires)
		l->min_token = number_at(find(body, "\"min_token\":"));
	if (value != NULL)
	{
		l->has_value = true;
		l->value = number_of_value(value);
	}
	if (attempt != NULL)
		l->attempt = hex_at(attempt, 16);
	if (lock_many(l->verb))
		read_terms(body, l);
	else
	{
		l->n = 1;
		l->terms[0].token = number_at(find(body, "\"token\":"));
		l->terms[0].rev = number_at(find(body, "\"rev\":"));
	}
	if (l->verb == LOCK_CLAIM || l->verb == LOCK_COMPLETE)
		read_claim(body, l);
}

static void
read_query(const char *query, Request *r)
{
	LockRequest *l = &r->lock;
	const char *wait = find(query, "?wait=");

	l->n = 1;
	l->terms[0].token = number_at(find(query, "&token="));
	l->terms[0].rev = number_at(find(query, "&rev="));
	l->owner = owner_at(find(query, "owner="), "%23");
	if (wait != NULL)
	{
		l->verb = LOCK_WAIT;
		r->wait = number_at(wait) * LE_MSEC;
	}
}

/* One lock's request, by method and the rest of the path. */
static LockVerb
lock_verb(const char *method, const char *rest, LockRequest *l)
{
	const char *job = find(rest, "/claims/");

	if (job != NULL)
	{
		l->job = job_of_name(job);
		if (strcmp(method, "GET") == 0)
			return LOCK_GET_CLAIM;
		return strstr(job, "/complete") != NULL ? LOCK_COMPLETE : LOCK_CLAIM;
	}
	if (strcmp(method, "PUT") == 0)
		return LOCK_ACQUIRE;
	if (strcmp(method, "DELETE") == 0)
		return LOCK_RELEASE;
	if (strcmp(method, "POST") == 0 && strcmp(rest, "/renew") == 0)
		return LOCK_RENEW;
	return strcmp(method, "GET") == 0 ? LOCK_GET : LOCK_NONE;
}

static LeOpKind
kind_of(LockVerb verb)
{
	switch (verb)
	{
		case LOCK_WAIT:
			return LE_OP_WATCH;
		case LOCK_LIST:
			return LE_OP_LIST_HELD;
		case LOCK_ACQUIRE:
		case LOCK_ACQUIRE_MANY:
			return LE_OP_ACQUIRE;
		case LOCK_RENEW:
			return LE_OP_PUBLISH;
		case LOCK_RENEW_MANY:
			return LE_OP_RENEW_TERMS;
		case LOCK_RELEASE:
		case LOCK_RELEASE_MANY:
			return LE_OP_RELEASE;
		case LOCK_READY:
			return LE_OP_VERIFY_SESSION;
		case LOCK_GET_CLAIM:
			return LE_OP_READ_CLAIM;
		case LOCK_CLAIM:
			return LE_OP_CLAIM;
		case LOCK_COMPLETE:
			return LE_OP_COMPLETE;
		default:
			return LE_OP_READ;
	}
}

/* A request about several locks, by its path. */
static LockVerb
batch_verb(const char *path)
{
	static const struct
	{
		const char *path;
		LockVerb	verb;
	}			batches[] = {
		{"/v1/renew", LOCK_RENEW_MANY},
		{"/v1/acquire", LOCK_ACQUIRE_MANY},
		{"/v1/release", LOCK_RELEASE_MANY},
		{"/v1/read", LOCK_GET_MANY},
	};

	for (int i = 0; i < (int) lengthof(batches); i++)
		if (strcmp(path, batches[i].path) == 0)
			return batches[i].verb;
	return LOCK_NONE;
}

/* The elections of a batch, for the checks. */
static void
note_parts(Request *r)
{
	const LockRequest *l = &r->lock;

	r->nparts = l->n;
	for (int i = 0; i < l->n; i++)
		r->elections[i] = l->terms[i].election;
	if (l->verb == LOCK_RENEW_MANY)
		return;					/* one operation */
	r->election = l->terms[0].election;
	sim.counts.joined += l->n - 1;
}

void
text_read_request(const LeRequest *request, Request *r)
{
	LockRequest *l = &r->lock;
	const char *path = request->http.path.data;
	const char *lock = strncmp(path, "/v1/locks/", 10) == 0 ? path + 10 :
		NULL;

	memset(r, 0, offsetof(Request, values));
	r->node = sim_node->number;
	r->election = r->job = l->job = -1;
	r->nparts = 0;
	l->gateway = atoi(request->base + strlen("http://g"));
	if (lock != NULL)
	{
		r->election = election_of_name(lock);
		l->verb = lock_verb(request->http.method, lock + 2, l);
	}
	else if (batch_verb(path) != LOCK_NONE)
		l->verb = batch_verb(path);
	else if (strcmp(path, "/readyz") == 0)
		l->verb = LOCK_READY;
	else if (strncmp(path, "/v1/locks?", 10) == 0)
		l->verb = LOCK_LIST;
	if (request->http.has_body)
		read_body(request->http.body.data, l);
	else if (lock != NULL)
		read_query(lock, r);
	if (l->verb == LOCK_NONE)
		no_sense(request);
	if (lock_many(l->verb))
		note_parts(r);
	r->kind = kind_of(l->verb);
	r->job = l->job;
	r->session = OWNER_SESSION(l->owner);
	if (l->owner != 0 && l->ttl_ms != 0)
		cassandra_asked_for(l->owner, l->ttl_ms * LE_MSEC);
}

/* ---- writing ---- */

static char buffer[4096];
static char *end;

/* Mostly for constants, whose length need not be counted each time. */
static pg_attribute_always_inline void
put(const char *s)
{
	size_t		len = strlen(s);

	memcpy(end, s, len + 1);
	end += len;
}

static void
put_number(const char *name, uint64 n)
{
	char		digits[24];
	char	   *d = &digits[23];

	*d = '\0';
	do
		*--d = '0' + n % 10;
	while ((n /= 10) != 0);
	put(name);
	put(d);
}

static void
put_owner(int owner)
{
	static const char hex[] = "0123456789abcdef";

	put(",\"owner\":\"");
	if (owner == OWNER_FOREIGN)
		put("somebody else");
	else if (owner != 0)
	{
		put(name_of_node(OWNER_NODE(owner)));
		put("#");
		for (int i = INCARNATION_DIGITS - 1; i >= 0; i--)
			*end++ = hex[(OWNER_SESSION(owner) >> 4 * i) & 15];
		put("000000000000000000000000");
	}
	put("\"");
}

/* A lock, but for its braces. */
static void
put_row(const Row *row)
{
	const char *value = name_of_value(row->value);

	put_owner(row->owner);
	put(",\"value\":\"");
	put(value != NULL ? value : "");
	put_number("\",\"token\":", row->epoch);
	put_number(",\"rev\":", row->rev);
	put_number(",\"expires_in_ms\":", row->ttl * 1000);
}

/* The claimant's text, which the gateway does not interpret. */
static void
put_info(const ClaimRecord *c, int job)
{
	if (c->every == 0 && c->gap.n == 0 && !c->ended && c->writes == 0)
		return;
	put(",\"info\":\"{\\\"proto\\\":1,\\\"node\\\":\\\"-\\\",\\\"job\\\":\\\"");
	put(name_of_job(job));
	put("\\\",\\\"claim\\\":\\\"");
	put(name_of_claim(c->id));
	put("\\\",\\\"state\\\":\\\"running");
	put_number("\\\",\\\"tick\\\":", (uint64) c->tick);
	put_number(",\\\"try\\\":", c->try);
	put_number(",\\\"token\\\":", c->token);
	put_number(",\\\"every\\\":", (uint64) c->every);
	if (c->ended)
		put_number(",\\\"ended_at\\\":", 1);
	if (c->writes > 0)
		put_number(",\\\"writes\\\":", c->writes);
	if (c->gap.n > 0)
	{
		put_number(",\\\"missed\\\":", (uint64) c->gap.n);
		put_number(",\\\"missed_from\\\":", (uint64) c->gap.first);
		put_number(",\\\"missed_to\\\":", (uint64) c->gap.last);
	}
	put("}\"");
}

static void
put_claim(const ClaimRecord *c, int job)
{
	put("{\"job\":\"");
	put(name_of_job(job));
	put_number("\",\"tick\":", (uint64) c->tick);
	put_number(",\"try\":", c->try);
	put(",\"claim\":\"");
	put(name_of_claim(c->id));
	put_number("\",\"token\":", c->token);
	put(",\"state\":\"");
	put(le_claim_state_name(c->state));
	put("\"");
	put_info(c, job);
	put("}");
}

static void
put_name(const char *before, int election)
{
	put(before);
	put(name_of_election(election));
	put("\"");
}

static void
put_doc(const LockDoc *d)
{
	if (d->problem == NULL)
		put_name("{\"name\":\"", d->election);
	else
	{
		put("{\"type\":\"urn:leader-election:problem:");
		put(d->problem);
		put_number("\",\"title\":\"It did not work\",\"status\":", d->status);
		if (d->election >= 0)
			put_name(",\"name\":\"", d->election);
	}
	if (d->problem == NULL || d->shows_row)
		put_row(&d->row);
	if (d->trust_ms >= 0)
		put_number(",\"trust_ms\":", d->trust_ms);
	put("}");
}

static void
put_list(const LockAnswer *l)
{
	put("{\"locks\":[");
	for (int i = 0; i < l->ndocs; i++)
	{
		if (i > 0)
			put(",");
		put_doc(&l->docs[i]);
	}
	put("],\"linearizable\":false}");
}

static void
put_results(const LockAnswer *l)
{
	put("{\"results\":[");
	for (int i = 0; i < l->ndocs; i++)
	{
		const LockDoc *d = &l->docs[i];

		put_name(i > 0 ? ",{\"name\":\"" : "{\"name\":\"", d->election);
		put_number(",\"status\":", d->status);
		if (d->status == 204)
		{
			put("}");
			continue;
		}
		put(d->problem == NULL ? ",\"lock\":" : ",\"problem\":");
		put_doc(d);
		put("}");
	}
	put("]}");
}

void
text_write_answer(const Answer *a, LeResponse *response)
{
	const LockAnswer *l = &a->lock;
	const LockDoc *first = &l->docs[0];

	end = buffer;
	*end = '\0';
	response->http.content_type = "application/json";
	response->http.status = 200;
	if (l->foreign)
	{
		response->http.status = 502;
		response->http.content_type = "text/html";
		put("<html>Bad gateway</html>");
	}
	else if (l->ndocs == 1 && first->election < 0)
	{
		/* about the request, not about a lock */
		response->http.status = first->status;
		response->http.content_type = "application/problem+json";
		put_doc(first);
	}
	else if (l->verb == LOCK_READY)
		put("{\"status\":\"ready\"}");
	else if (l->verb == LOCK_LIST)
		put_list(l);
	else if (lock_many(l->verb))
		put_results(l);
	else
	{
		response->http.status = first->status;
		if (first->problem != NULL)
			response->http.content_type = "application/problem+json";
		if (first->shows_claim)
			put_claim(&first->claim, l->job);
		else if (first->status != 204)
			put_doc(first);
	}
	response->body = buffer;
	response->body_len = end - buffer;
}
