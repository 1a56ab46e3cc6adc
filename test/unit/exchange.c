/*-------------------------------------------------------------------------
 *
 * exchange.c
 *		One request to a store and its answer, from the corpus, and the rules
 *		for every answer.
 *
 * A file of the corpus has header lines "name: value", an empty line, and the
 * body of the answer, byte for byte:
 *
 *		kind: acquire		name of the operation
 *		status: 409
 *		type: application/json
 *		index: 17			X-Consul-Index, if there was one
 *		filtered: true		X-Consul-Results-Filtered-By-ACLs, if so
 *		watch: 12			watch_index of the operation
 *		condition: 7		index of the operation
 *		rev: 2				its revision
 *		header: ETag: "1"	a line of the answer's headers
 *		step: 4				of the operation, with ...
 *		token: 1			... the result of the request before
 *		joined: 2			other operations in it, about "e0", "e1" ...
 *		net: broken			or "not sent"
 *
 * The same text is the input of the fuzzer.
 *
 * test/unit/exchange.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "exchange.h"
#include "mb/pg_wchar.h"
#include "store/json.h"

#define NKINDS	(LE_OP_SESSION_NAME + 1)

#define require(condition) \
	do \
	{ \
		if (!(condition)) \
			broken(op, answer, #condition, __LINE__); \
	} while (0)

static const char *const held[] = {"billing", "reports/daily", "a"};

static const LeTermRef terms[] = {
	{"billing", 7, 2, ATTEMPT}, {"reports/daily", 9, 1, ATTEMPT},
	{"a", 3, 40, ATTEMPT}
};

/* The silent holder to take over from. */
static const LeNodeKey target = {
	.session = FOREIGN,
	.held = true,
	.index = 5,
	.node = "n2",
	.incarnation = INCARNATION,
	.lease = 15 * LE_SEC,
	.seq = 4,
};

/* A tick to claim, and the record of the one before. */
static const LeClaim claim = {
	.election = "billing",
	.job = "nightly",
	.tick = 1800000000000,
	.try = 1,
	.id = CLAIM,
	.token = 7,
	.node = "n1",
	.claimed_at = 1800000000123,
	.failures = -1,
};

static const LeClaim previous = {
	.election = "billing",
	.job = "nightly",
	.tick = 1799999940000,
	.try = 2,
	.id = PREVIOUS_CLAIM,
	.token = 6,
	.node = "n2",
	.state = LE_CLAIM_DONE,
	.claimed_at = 1799999940123,
	.ended_at = 1799999941123,
	.failures = -1,
	.index = 8,
};

/* The node's writes: just now, before, and under way. */
static const LeGossipItem news_items[] = {
	{"reports/daily", LE_OP_PUBLISH, 40, 6, 5},
	{"a", LE_OP_ACQUIRE, 41},
	{"billing", LE_OP_RELEASE, 42},
};

static const LeGossip news = {
	.number = 42,
	.since = 39,
	.items = news_items,
	.nitems = lengthof(news_items),
};

const LeNamespace test_namespace = {
	.prefix = "leader_election",
};

LeOp
test_op(LeOpKind kind)
{
	LeOp		op;

	memset(&op, 0, sizeof(op));
	op.kind = kind;
	op.node_name = "n1";
	op.incarnation = INCARNATION;
	op.session = SESSION;
	op.lease = 15 * LE_SEC;
	op.election = "billing";
	op.index = 7;
	op.proof.seq = 3;
	op.proof.held = held;
	op.proof.nheld = lengthof(held);
	op.watch.wait_ms = 30000;
	op.term.rev = 2;
	op.term.token_floor = 6;
	op.term.attempt = ATTEMPT;
	op.renew.terms = terms;
	op.renew.nterms = lengthof(terms);
	op.takeover.target = &target;
	op.takeover.target_holds = true;
	op.claim.job = "nightly";
	op.claim.record = &claim;
	op.claim.previous = &previous;
	if (kind == LE_OP_TELL_NEWS)
		op.news = &news;
	return op;
}

/* Adds news to the request. */
void
add_test_news(LeOp *op)
{
	op->news = &news;
}

/* Joins so many others to the request, if its kind can be joined. */
static void
join_ops(LeOp *op, int n)
{
	const LeOp **others = palloc(LE_MAX_JOINED * sizeof(LeOp *));

	if (le_store_consul.batch.takes(op) == 0 &&
		le_store_cassandra.batch.takes(op) == 0)
		return;
	op->wire.joined = others;
	op->wire.njoined = 0;		/* the header may be repeated */
	for (int i = 0; i < n && i < 10; i++)
	{
		LeOp	   *other = palloc(sizeof(LeOp));

		*other = *op;
		other->wire.njoined = 0;
		other->election = psprintf("e%d", i);
		others[op->wire.njoined++] = other;
	}
}

/* One more line of an answer's headers. */
void
add_header(LeResponse *response, const char *name, const char *value)
{
	response->http.headers = psprintf("%s%s: %s\r\n",
									  response->http.headers == NULL ?
									  "" : response->http.headers, name,
									  value);
}

bool
shows_header(const LeResponse *response, const char *name)
{
	char		value[256];

	return le_header(response, name, value, sizeof(value));
}

/* Does the answer say that keys were left out? */
bool
says_filtered(const LeResponse *response)
{
	char		value[8];

	return le_header(response, FILTERED, value, sizeof(value)) &&
		strcmp(value, "true") == 0;
}

static bool
parse_line(const char *name, const char *value, LeOp *op,
		   LeResponse *response)
{
	if (strcmp(name, "kind") == 0)
	{
		for (int kind = 0; kind < NKINDS; kind++)
		{
			if (strcmp(le_op_name(kind), value) == 0)
			{
				*op = test_op(kind);
				return true;
			}
		}
		return false;
	}
	if (strcmp(name, "status") == 0)
		response->http.status = atoi(value);
	else if (strcmp(name, "type") == 0)
		response->http.content_type = value;
	else if (strcmp(name, "index") == 0)
		add_header(response, "X-Consul-Index", value);
	else if (strcmp(name, "filtered") == 0)
		add_header(response, FILTERED, value);
	else if (strcmp(name, "watch") == 0)
		op->watch.index = strtoull(value, NULL, 10);
	else if (strcmp(name, "condition") == 0)
		op->index = strtoull(value, NULL, 10);
	else if (strcmp(name, "rev") == 0)
		op->term.rev = strtoull(value, NULL, 10);
	else if (strcmp(name, "step") == 0)
		op->wire.step.number = atoi(value);
	else if (strcmp(name, "token") == 0)
		op->wire.step.index = strtoull(value, NULL, 10);
	else if (strcmp(name, "header") == 0)
		response->http.headers = psprintf("%s%s\r\n",
										  response->http.headers == NULL ?
										  "" : response->http.headers, value);
	else if (strcmp(name, "joined") == 0)
		join_ops(op, atoi(value));
	else if (strcmp(name, "news") == 0)
		op->news = &news;
	else if (strcmp(name, "net") == 0)
		response->net = strcmp(value, "broken") == 0 ? LE_NET_BROKEN :
			strcmp(value, "untaken") == 0 ? LE_NET_UNTAKEN : LE_NET_NOT_SENT;
	else
		return false;
	return true;
}

bool
parse_exchange(const char *text, size_t len, LeOp *op,
			   LeResponse *response)
{
	const char *end = text + len;
	bool		has_op = false;

	memset(response, 0, sizeof(*response));
	response->http.content_type = "";
	while (text < end)
	{
		const char *eol = memchr(text, '\n', end - text);
		char	   *line;
		char	   *value;

		if (eol == NULL)
			return false;
		line = pnstrdup(text, eol - text);
		text = eol + 1;
		if (line[0] == '\0')
			break;
		value = strstr(line, ": ");
		if (value == NULL)
			return false;
		*value = '\0';
		if (!parse_line(line, value + 2, op, response))
			return false;
		has_op = has_op || strcmp(line, "kind") == 0;
		if (!has_op)
			return false;
	}
	/* A copy of its own, so that the sanitizer sees reads past its end. */
	response->body_len = end - text;
	response->body = palloc(Max(response->body_len, 1));
	memcpy(unconstify(char *, response->body), text, response->body_len);
	return has_op;
}

/* ---- rules for answers ---- */

static void
broken(const LeOp *op, const LeAnswer *answer, const char *condition, int line)
{
	fprintf(stderr, "exchange.c:%d: %s: not so for \"%s\", which is %s (%s)\n",
			line, condition, le_op_name(op->kind),
			le_outcome_name(answer->outcome),
			answer->detail ? answer->detail : "");
	abort();
}

static bool
is_session(const char *s)
{
	return s != NULL && strlen(s) == LE_SESSION_LEN &&
		strspn(s, "0123456789abcdefABCDEF-") == LE_SESSION_LEN;
}

static bool
is_text(const char *s, size_t max)
{
	size_t		len = strlen(s);

	return len <= max &&
		pg_encoding_verifymbstr(PG_UTF8, s, (int) len) == (int) len;
}

static void
check_key(const LeOp *op, const LeAnswer *answer, const LeKey *key)
{
	require(le_valid_election_name(key->election));
	require(key->holder == NULL || is_session(key->holder));
	require(key->index >= 1 && key->index <= PG_INT64_MAX);
	if (!key->ours)
	{
		require(key->node == NULL && key->value_session == NULL);
		require(key->value == NULL && !key->released && key->token == 0);
		return;
	}
	require(key->node != NULL && key->node[0] != '\0');
	require(is_text(key->node, LE_MAX_NODE_NAME_LEN));
	require(strpbrk(key->node, "\r\n\t\033") == NULL);
	require(is_session(key->value_session));
	require(key->token <= key->index);
	require(key->value == NULL || is_text(key->value, LE_MAX_VALUE_LEN));
}

static void
check_node(const LeOp *op, const LeAnswer *answer, const LeNodeKey *node)
{
	require(is_session(node->session));
	require(node->index >= 1 && node->index <= PG_INT64_MAX);
	require(node->node[0] != '\0');
	require(is_text(node->node, LE_MAX_NODE_NAME_LEN));
	require(is_text(node->incarnation, LE_INCARNATION_LEN));
	require(node->lease > 0 && node->lease <= LE_MAX_LEASE);
}

static void
check_news(const LeOp *op, const LeAnswer *answer, const LeGossip *told)
{
	require(is_session(told->session));
	require(told->index >= 1 && told->index <= PG_INT64_MAX);
	require(told->nitems <= LE_MAX_NEWS);
	if (told->node == NULL)
	{
		require(told->nitems == 0 && told->number == 0 && told->since == 0);
		return;
	}
	require(is_text(told->node, LE_MAX_NODE_NAME_LEN));
	require(told->since <= told->number);
	for (int i = 0; i < told->nitems; i++)
	{
		const LeGossipItem *item = &told->items[i];

		require(le_valid_election_name(item->election));
		require(item->kind == LE_OP_ACQUIRE || item->kind == LE_OP_PUBLISH ||
				item->kind == LE_OP_RELEASE);
		require(item->number >= 1 && item->number <= told->number);
		require(item->index <= told->index && item->token <= told->index);
	}
}

static void
check_claim(const LeOp *op, const LeAnswer *answer, const LeClaim *c)
{
	require(le_valid_election_name(c->election));
	require(le_valid_job_name(c->job));
	require(c->tick >= 0 && c->tick <= LE_MAX_TICK);
	require(c->try >= 1);
	require(c->id[0] != '\0' && is_text(c->id, LE_CLAIM_ID_LEN));
	require(c->token >= 1 && c->token <= PG_INT64_MAX);
	require(is_text(c->node, LE_MAX_NODE_NAME_LEN));
	require(strpbrk(c->node, "\r\n\t\033") == NULL);
	require(c->index >= 1 && c->index <= PG_INT64_MAX);
	require(c->every >= 0 && c->wait >= 0 && c->last_success >= 0);
	require(c->failures >= -1);
	require(c->writes <= PG_INT64_MAX);
	require(c->gap.n == 0 || le_valid_gap(&c->gap, c->tick));
	require(c->sqlstate == NULL || le_valid_sqlstate(c->sqlstate));
	if (c->message != NULL)
	{
		require(is_text(c->message, LE_MAX_MESSAGE_LEN));
		require(strpbrk(c->message, "\r\n\t\033") == NULL);
	}
	if (op->kind == LE_OP_READ_CLAIM)
	{
		require(strcmp(c->election, op->election) == 0);
		require(strcmp(c->job, op->claim.job) == 0);
	}
}

static void
check_lists(const LeOp *op, const LeAnswer *answer)
{
	bool		keys = op->kind == LE_OP_READ ||
		op->kind == LE_OP_LIST_HELD || op->kind == LE_OP_WATCH;

	require(answer->nkeys == 0 || keys);
	require(answer->nnodes == 0 || op->kind == LE_OP_LIST_NODES);
	require(answer->nnews == 0 || op->kind == LE_OP_WATCH_NEWS);
	require(op->kind != LE_OP_READ || answer->nkeys <= 1);
	require(answer->nclaims == 0 || op->kind == LE_OP_LIST_CLAIMS ||
			(op->kind == LE_OP_READ_CLAIM && answer->nclaims == 1));
	for (int i = 0; i < answer->nclaims; i++)
		check_claim(op, answer, &answer->claims[i]);
	for (int i = 0; i < answer->nkeys; i++)
		check_key(op, answer, &answer->keys[i]);
	for (int i = 0; i < answer->nnodes; i++)
		check_node(op, answer, &answer->nodes[i]);
	for (int i = 0; i < answer->nnews; i++)
		check_news(op, answer, &answer->news[i]);
	if (op->kind == LE_OP_READ && answer->nkeys == 1)
		require(strcmp(answer->keys[0].election, op->election) == 0);
}

static bool
is_transaction(LeOpKind kind)
{
	return le_op_writes(kind) && kind != LE_OP_CREATE_SESSION &&
		kind != LE_OP_RENEW_SESSION && kind != LE_OP_DESTROY_SESSION;
}

static void
check_done(const LeOp *op, const LeResponse *response,
		   const LeAnswer *answer)
{
	bool		read_nothing = response->http.status == 404 &&
		!le_op_writes(op->kind) && shows_header(response, "X-Consul-Index");

	require(response->net == LE_NET_OK);
	require(response->http.status == 200 || read_nothing);
	require(!says_filtered(response) || le_op_writes(op->kind) ||
			op->kind == LE_OP_VERIFY_SESSION ||
			op->kind == LE_OP_SESSION_NAME);
	if (is_transaction(op->kind) && op->kind != LE_OP_FORGET_NODE)
		require(answer->index >= 1 && answer->index <= PG_INT64_MAX);
	if (op->kind == LE_OP_CREATE_SESSION)
		require(is_session(answer->session));
	require(answer->name == NULL || is_text(answer->name, 256));
	require(answer->detail == NULL);
}

static void
check_conflict(const LeOp *op, const LeResponse *response,
			   const LeAnswer *answer)
{
	require(response->http.status == 409 && is_transaction(op->kind));
	require((op->kind == LE_OP_PROVE_NODE) == (answer->nlost > 0));
	for (int i = 0; i < answer->nlost; i++)
	{
		require(answer->lost[i] >= 0 && answer->lost[i] < op->proof.nheld);
		for (int j = 0; j < i; j++)
			require(answer->lost[i] != answer->lost[j]);
	}
}

static void
check_detail(const LeOp *op, const LeAnswer *answer)
{
	require(answer->detail != NULL && strlen(answer->detail) <= 200);
	for (const char *s = answer->detail; *s != '\0'; s++)
		require(*s >= ' ' && *s <= '~');
	require(answer->nkeys == 0 && answer->nnodes == 0 &&
			answer->nnews == 0 && answer->nclaims == 0);
	require(answer->session == NULL && answer->name == NULL);
	require(answer->index == 0);
}

void
check_answer(const LeOp *op, const LeResponse *response,
			 const LeAnswer *answer)
{
	bool		writes = le_op_writes(op->kind);

	if (response->net == LE_NET_NOT_SENT)
		require(answer->outcome == LE_UNAVAILABLE);
	if (response->net == LE_NET_BROKEN)
		require(answer->outcome == (writes ? LE_UNKNOWN : LE_UNAVAILABLE));
	if (response->net == LE_NET_UNTAKEN)
		require(answer->outcome == (writes ? LE_UNKNOWN : LE_REFUSED));
	if (response->net == LE_NET_OK && response->http.status / 100 == 3)
		require(answer->outcome == LE_REFUSED);
	require(answer->nlost == 0 || answer->outcome == LE_CONFLICT);
	for (int i = 0; answer->wire.parts != NULL && i <= op->wire.njoined; i++)
		check_answer(i == 0 ? op : op->wire.joined[i - 1], response,
					 &answer->wire.parts[i]);
	require(!answer->wire.unjudged || (answer->outcome == LE_UNAVAILABLE &&
									   response->http.status == 409));
	check_lists(op, answer);
	switch (answer->outcome)
	{
		case LE_DONE:
			check_done(op, response, answer);
			return;
		case LE_CONFLICT:
			check_conflict(op, response, answer);
			break;
		case LE_LOST:
			require(writes && op->kind != LE_OP_CREATE_SESSION &&
					op->kind != LE_OP_DESTROY_SESSION);
			require(response->http.status == 409 ||
					response->http.status >= 500 ||
					(response->http.status == 404 &&
					 op->kind == LE_OP_RENEW_SESSION));
			break;
		case LE_UNKNOWN:
			require(writes);
			break;
		case LE_REFUSED:
		case LE_UNAVAILABLE:
			break;
	}
	check_detail(op, answer);
}

/* ---- the same for stores with leases per key ---- */

static void
check_leased_key(const LeOp *op, const LeAnswer *answer, const LeKey *key)
{
	bool		free = key->holder == NULL;

	require(key->usable && key->ours && key->value_session != NULL);
	require(key->released == free && key->token == key->index);
	require(key->index <= PG_INT64_MAX && key->rev <= PG_INT64_MAX);
	require(is_text(key->node, LE_MAX_NODE_NAME_LEN));
	require(strpbrk(key->node, "\r\n\t\033") == NULL);
	require(key->value == NULL || is_text(key->value, LE_MAX_VALUE_LEN));
	require(free || strcmp(key->holder, key->value_session) == 0);
}

static void
check_renewal(const LeOp *op, const LeAnswer *answer, int i)
{
	const LeRenewal *renewal = &answer->renewals[i];

	require(renewal->trust >= 0 && renewal->trust <= op->lease);
	require(renewal->outcome == LE_DONE || renewal->trust == 0);
	if (renewal->outcome == LE_DONE)
		require(renewal->rev == op->renew.terms[i].rev + 1);
}

static void
check_lease_done(const LeOp *op, const LeResponse *response,
				 const LeAnswer *answer)
{
	bool		grants = op->kind == LE_OP_ACQUIRE ||
		op->kind == LE_OP_PUBLISH;

	require(response->net == LE_NET_OK && answer->detail == NULL);
	require(answer->nkeys == 0 || !le_op_writes(op->kind));
	require(answer->nkeys <= 1 || op->kind == LE_OP_LIST_HELD);
	require((op->kind == LE_OP_RENEW_TERMS) == (answer->renewals != NULL));
	require(grants || answer->term.trust == 0);
	require(answer->term.trust >= 0 && answer->term.trust <= op->lease);
	require(!grants || (answer->index > 0 && answer->term.rev > 0));
	require(op->kind != LE_OP_PUBLISH ||
			(answer->index == op->index &&
			 answer->term.rev == op->term.rev + 1));
	for (int i = 0; i < answer->nkeys; i++)
		check_leased_key(op, answer, &answer->keys[i]);
	for (int i = 0; answer->renewals != NULL && i < op->renew.nterms; i++)
		check_renewal(op, answer, i);
}

/* Each on its own; all together only if none could be carried out. */
static void
check_lease_parts(const LeOp *op, const LeResponse *response,
				  const LeAnswer *answer)
{
	bool		none = true;

	require(response->net == LE_NET_OK && op->wire.njoined > 0);
	for (int i = 0; i <= op->wire.njoined; i++)
	{
		const LeAnswer *part = &answer->wire.parts[i];
		LeOp		alone = i == 0 ? *op : *op->wire.joined[i - 1];

		alone.wire.njoined = 0;
		require(part->wire.parts == NULL && !part->wire.apart &&
				!part->wire.unjudged);
		check_lease_answer(&alone, response, part);
		none = none && part->wire.next_server;
	}
	require(answer->wire.next_server == none && !answer->wire.apart);
	require(answer->outcome == (none ? LE_UNAVAILABLE : LE_DONE));
	require(answer->nkeys == 0 && answer->renewals == NULL);
	require(answer->term.trust == 0 && answer->index == 0);
}

void
check_lease_answer(const LeOp *op, const LeResponse *response,
				   const LeAnswer *answer)
{
	bool		writes = le_op_writes(op->kind);

	if (answer->wire.parts != NULL)
	{
		check_lease_parts(op, response, answer);
		return;
	}
	/* One lock's state never answers a request about several. */
	require(op->wire.njoined == 0 || (answer->outcome != LE_DONE &&
									  answer->outcome != LE_CONFLICT));
	require(!answer->wire.apart || (answer->outcome == LE_REFUSED &&
									op->wire.njoined > 0));
	if (response->net == LE_NET_NOT_SENT)
		require(answer->outcome == LE_UNAVAILABLE && answer->wire.next_server);
	if (response->net == LE_NET_BROKEN)
		require(answer->outcome == (writes ? LE_UNKNOWN : LE_UNAVAILABLE));
	if (response->net == LE_NET_UNTAKEN)
		require(answer->outcome == (writes ? LE_UNKNOWN : LE_REFUSED));
	require(!answer->wire.next_server || answer->outcome == LE_UNAVAILABLE);
	require(answer->outcome != LE_UNKNOWN || writes);
	require(answer->outcome != LE_LOST);
	if (answer->outcome == LE_DONE)
	{
		check_lease_done(op, response, answer);
		return;
	}
	require(answer->detail != NULL && strlen(answer->detail) <= 200);
	for (const char *s = answer->detail; *s != '\0'; s++)
		require(*s >= ' ' && *s <= '~');
	require(answer->nkeys == 0 && answer->renewals == NULL);
	require(answer->term.trust == 0);
}

/* ---- the same for leases on blobs ---- */

static void
check_blob_key(const LeOp *op, const LeAnswer *answer, const LeKey *key)
{
	require(le_valid_election_name(key->election));
	require(key->index <= PG_INT64_MAX && key->rev == 0);
	if (!key->ours)
	{
		/* a foreign blob, or a lease that no blob names yet */
		require(key->usable == (key->holder != NULL));
		require(key->value_session == NULL && key->value == NULL);
		require(!key->released && key->token == 0);
		return;
	}
	require(key->usable && key->index > 0 && key->token == key->index);
	require(key->node != NULL && key->value_session != NULL);
	require(is_text(key->node, LE_MAX_NODE_NAME_LEN));
	require(strpbrk(key->node, "\r\n\t\033") == NULL);
	require(key->released || is_session(key->value_session));
	require(!key->released || key->holder == NULL);
	require(key->holder == NULL ||
			strcmp(key->holder, key->value_session) == 0);
	require(key->value == NULL || is_text(key->value, LE_MAX_VALUE_LEN));
}

/* Belief needs an answer that names our lease id, and ends a second early. */
static void
check_blob_trust(const LeOp *op, const LeResponse *response,
				 const LeAnswer *answer)
{
	const LeRenewal *renewal = answer->renewals;
	char		id[64] = "";
	bool		ours;

	(void) le_header(response, "x-ms-lease-id", id, sizeof(id));
	ours = strcmp(id, le_session_of_incarnation(ATTEMPT)) == 0;
	require((op->kind == LE_OP_RENEW_TERMS) == (renewal != NULL));
	require(!answer->wire.anchors || (ours && op->kind == LE_OP_ACQUIRE));
	if (renewal != NULL)
	{
		require(renewal->outcome == LE_DONE || renewal->outcome == LE_LOST);
		require(renewal->outcome != LE_DONE ||
				(ours && response->http.status / 100 == 2));
		require(renewal->trust == (renewal->outcome == LE_DONE ?
								   op->lease - LE_SEC : 0));
	}
	require(answer->wire.again || answer->term.trust ==
			(op->kind == LE_OP_ACQUIRE ? op->lease - LE_SEC : 0));
	require(!answer->wire.again || answer->term.trust == 0);
	if (op->kind == LE_OP_ACQUIRE && !answer->wire.again)
		require(answer->wire.anchors || op->wire.step.number == 5);
}

static void
check_blob_done(const LeOp *op, const LeResponse *response,
				const LeAnswer *answer)
{
	require(response->net == LE_NET_OK && answer->detail == NULL);
	require(shows_header(response, "x-ms-request-id") ||
			(answer->wire.again && answer->wire.next.number == 8));
	require(answer->nkeys == 0 || !le_op_writes(op->kind));
	require(answer->nkeys <= 1 || op->kind == LE_OP_LIST_HELD);
	require(answer->nclaims <= 1 || op->kind == LE_OP_LIST_CLAIMS);
	if (answer->wire.again)
	{
		/* only a read may begin anew, if its findings are over by then */
		require(answer->wire.next.number <= 8 &&
				(answer->wire.next.number >= 1 || op->wire.step.number == 7));
		require(strlen(answer->wire.next.tag) <= LE_MAX_TAG_LEN);
		require(answer->nkeys == 0 && answer->nclaims == 0);
	}
	check_blob_trust(op, response, answer);
	for (int i = 0; i < answer->nkeys; i++)
		check_blob_key(op, answer, &answer->keys[i]);
	for (int i = 0; i < answer->nclaims; i++)
		check_claim(op, answer, &answer->claims[i]);
}

void
check_blob_answer(const LeOp *op, const LeResponse *response,
				  const LeAnswer *answer)
{
	if (answer->outcome == LE_DONE)
	{
		check_blob_done(op, response, answer);
		return;
	}
	require(answer->outcome != LE_UNKNOWN || le_op_writes(op->kind));
	require(answer->outcome != LE_CONFLICT || le_op_writes(op->kind));
	require(answer->outcome != LE_LOST || op->kind == LE_OP_CLAIM);
	require(!answer->wire.again && !answer->wire.anchors &&
			answer->term.trust == 0);
	require(answer->detail != NULL && strlen(answer->detail) <= 200);
	for (const char *s = answer->detail; *s != '\0'; s++)
		require(*s >= ' ' && *s <= '~');
	require(answer->nkeys == 0 && answer->nclaims == 0 &&
			answer->renewals == NULL);
}

/* ---- values ---- */

/* The value that a transaction writes, in base64: the last in its body. */
static char *
written_value(const LeRequest *request)
{
	char	   *value = NULL;
	char	   *s = request->http.body.data;

	while ((s = strstr(s, "\"Value\":\"")) != NULL)
		value = s += strlen("\"Value\":\"");
	return pnstrdup(value, strcspn(value, "\""));
}

void
check_value(const char *value)
{
	LeOp		write = test_op(LE_OP_PUBLISH);
	LeOp		read = test_op(LE_OP_READ);
	const LeOp *op = &read;
	LeRequest request;
	LeResponse response;
	LeAnswer	result;
	LeAnswer   *answer = &result;

	write.value = value;
	le_store_consul.codec.encode(&test_namespace, &write, &request);
	memset(&response, 0, sizeof(response));
	response.http.status = 200;
	response.http.content_type = "application/json";
	add_header(&response, "X-Consul-Index", "9");
	response.body = psprintf("[{\"Key\":\"leader_election/billing/leader\","
							 "\"Flags\":3304740253564472344,\"Value\":\"%s\","
							 "\"Session\":\"%s\",\"ModifyIndex\":9}]",
							 written_value(&request), SESSION);
	response.body_len = strlen(response.body);
	le_store_consul.codec.decode(&test_namespace, &read, &response, answer);
	check_answer(&read, &response, answer);
	require(answer->outcome == LE_DONE && answer->nkeys == 1);
	require(answer->keys[0].ours && answer->keys[0].usable);
	require(strcmp(answer->keys[0].node, "n1") == 0);
	if (value == NULL)
		require(answer->keys[0].value == NULL);
	else
	{
		require(answer->keys[0].value != NULL);
		require(strcmp(answer->keys[0].value, value) == 0);
	}
}
