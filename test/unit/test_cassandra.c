/*-------------------------------------------------------------------------
 *
 * test_cassandra.c
 *		Tests of src/store/cassandra.c: its requests, and its decoding of
 *		answers, recorded from a real gateway (corpus/cassandra) or made up.
 *
 * test/unit/test_cassandra.c
 *
 *-------------------------------------------------------------------------
 */
#include "store_test.h"

#include <stdio.h>

#include "exchange.h"
#include "store/json.h"

#define HELD_BY_US	"00112233-4455-6677-8899-aabbccddeeff"

/* ---- requests ---- */

static LeRequest
encode(const LeOp *op)
{
	LeRequest r;

	memset(&r, 0, sizeof(r));
	initStringInfo(&r.http.path);
	initStringInfo(&r.http.body);
	le_store_cassandra.codec.encode(&test_namespace, op, &r);
	return r;
}

static void
expect_request(const LeOp *op, const char *method, const char *path,
			   const char *body)
{
	LeRequest r = encode(op);

	assert_string_equal(r.http.method, method);
	assert_string_equal(r.http.path.data, path);
	assert_int_equal(r.http.has_body, body != NULL);
	assert_string_equal(r.http.body.data, body ? body : "");
	assert_true(body == NULL ||
				le_json_walk(r.http.body.data, r.http.body.len, NULL, NULL));
	assert_true(r.max_answer > 0);
}

#define INFO \
	"\"info\":\"{\\\"proto\\\":1,\\\"node\\\":\\\"n1\\\"," \
	"\\\"job\\\":\\\"nightly\\\",\\\"tick\\\":1800000000000," \
	"\\\"try\\\":1,\\\"token\\\":7,\\\"claim\\\":\\\"" CLAIM "\\\"," \
	"\\\"state\\\":\\\"running\\\",\\\"claimed_at\\\":1800000000123}\""

static void
test_requests(void **state)
{
	static const struct
	{
		LeOpKind	kind;
		const char *method;
		const char *path;
		const char *body;
	}			cases[] = {
		{LE_OP_READ, "GET", "/v1/locks/billing"},
		{LE_OP_ACQUIRE, "PUT", "/v1/locks/billing",
			"{\"owner\":\"" OWNER "\",\"attempt\":\"" ATTEMPT "\","
		"\"value\":\"v\",\"ttl\":\"15000ms\",\"min_token\":6}"},
		{LE_OP_PUBLISH, "POST", "/v1/locks/billing/renew",
			"{\"owner\":\"" OWNER "\",\"value\":\"v\","
		"\"ttl\":\"15000ms\",\"token\":7,\"rev\":2}"},
		{LE_OP_RELEASE, "DELETE", "/v1/locks/billing?owner="
		"n1%2311111111111111111111111111111111&token=7&rev=2"},
		{LE_OP_RENEW_TERMS, "POST", "/v1/renew",
			"{\"owner\":\"" OWNER "\",\"ttl\":\"15000ms\",\"locks\":["
			"{\"name\":\"billing\",\"token\":7,\"rev\":2},"
			"{\"name\":\"reports/daily\",\"token\":9,\"rev\":1},"
		"{\"name\":\"a\",\"token\":3,\"rev\":40}]}"},
		{LE_OP_WATCH, "GET",
		"/v1/locks/billing?wait=30000ms&token=5&rev=2"},
		{LE_OP_LIST_HELD, "GET", "/v1/locks?limit=1000"},
		{LE_OP_READ_CLAIM, "GET", "/v1/locks/billing/claims/nightly"},
		{LE_OP_CLAIM, "POST", "/v1/locks/billing/claims/nightly",
			"{\"owner\":\"" OWNER "\",\"claim\":\"" CLAIM "\"," INFO ","
			"\"prev_claim\":\"" PREVIOUS_CLAIM "\",\"prev_state\":\"done\","
		"\"token\":7,\"tick\":1800000000000,\"try\":1}"},
		{LE_OP_COMPLETE, "POST", "/v1/locks/billing/claims/nightly/complete",
		"{\"claim\":\"" CLAIM "\"," INFO ",\"state\":\"running\"}"},
		{LE_OP_LIST_CLAIMS, "GET", "/v1/locks/billing/claims"},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeOp		op = test_op(cases[i].kind);

		op.value = "v";
		op.watch.index = 5;
		op.token = 7;
		assert_false(le_store_cassandra.codec.performs(op.kind));
		expect_request(&op, cases[i].method, cases[i].path, cases[i].body);
	}
}

/* Any name or value stays inside its string. */
static void
test_hostile_names(void **state)
{
	LeOp		op = test_op(LE_OP_RELEASE);

	op.election = "reports/renew";
	op.node_name = "n 1&rev=9\"\xc3\xa9#";
	op.session = HELD_BY_US;
	expect_request(&op, "DELETE", "/v1/locks/reports%2Frenew?owner="
				   "n%201%26rev%3D9%22%C3%A9%23%23"
				   INCARNATION "&token=7&rev=2", NULL);
	op = test_op(LE_OP_PUBLISH);
	op.value = "\",\"token\":1}\n";
	expect_request(&op, "POST", "/v1/locks/billing/renew",
				   "{\"owner\":\"" OWNER "\","
				   "\"value\":\"\\\",\\\"token\\\":1}\\n\","
				   "\"ttl\":\"15000ms\",\"token\":7,\"rev\":2}");
	op = test_op(LE_OP_READ_CLAIM);
	op.claim.job = "../complete a/b?\xc3\xa9";
	expect_request(&op, "GET", "/v1/locks/billing/claims/"
				   "..%2Fcomplete%20a%2Fb%3F%C3%A9", NULL);
	op = test_op(LE_OP_LIST_HELD);
	op.page = "a/b=&c";
	expect_request(&op, "GET", "/v1/locks?limit=1000&page=a%2Fb%3D%26c",
				   NULL);
}

static void
test_limits(void **state)
{
	LeOp		op = test_op(LE_OP_ACQUIRE);

	op.lease = 5 * LE_SEC + 1;	/* rounded up, never down */
	op.term.token_floor = PG_UINT64_MAX;
	assert_non_null(strstr(encode(&op).http.body.data, "\"ttl\":\"5001ms\""));
	assert_non_null(strstr(encode(&op).http.body.data,
						   "\"min_token\":9223372036854775807}"));
	op = test_op(LE_OP_RELEASE);
	op.index = PG_INT64_MAX;	/* as of a dry run */
	assert_non_null(strstr(encode(&op).http.path.data,
						   "&token=9007199254740992&rev=2"));
	op = test_op(LE_OP_WATCH);
	op.watch.wait_ms = 1000000;
	assert_non_null(strstr(encode(&op).http.path.data, "wait=60000ms"));
}

/* The session exists in name only; the name tells the incarnation. */
static void
test_session(void **state)
{
	int			performed = 0;

	for (int kind = 0; kind <= LE_OP_SESSION_NAME; kind++)
	{
		LeOp		op = test_op(kind);
		LeAnswer	a;

		if (!le_store_cassandra.codec.performs(kind))
			continue;
		performed++;
		le_store_cassandra.codec.perform(&op, &a);
		assert_int_equal(a.outcome,
						 kind == LE_OP_TAKE_OVER ? LE_CONFLICT : LE_DONE);
		if (kind == LE_OP_CREATE_SESSION)
			assert_string_equal(a.session, HELD_BY_US);
		if (kind == LE_OP_PROVE_NODE)
			assert_true(a.index > op.proof.seq);
	}
	assert_int_equal(performed, LE_OP_SESSION_NAME + 1 - 11);
}

/* ---- recorded answers ---- */

static LeAnswer
decode(const LeOp *op, const LeResponse *response)
{
	LeAnswer	a;

	memset(&a, 0xff, sizeof(a));
	le_store_cassandra.codec.decode(&test_namespace, op, response, &a);
	check_lease_answer(op, response, &a);
	return a;
}

static LeAnswer
recorded(const char *file)
{
	char	   *path = psprintf("test/unit/corpus/cassandra/%s", file);
	FILE	   *f = fopen(path, "r");
	char	   *text = palloc(65536);
	size_t		len;
	LeOp	   *op = palloc(sizeof(LeOp));
	LeResponse response;

	if (f == NULL)
		fail_msg("could not open %s", path);
	len = fread(text, 1, 65536, f);
	fclose(f);
	assert_true(parse_exchange(text, len, op, &response));
	return decode(op, &response);
}

static void
test_recorded(void **state)
{
	static const struct
	{
		const char *file;
		LeOutcome	outcome;
		LeConflict	conflict;
		uint64		index;
		uint64		rev;
		int			trust_s;
		int			nkeys;
		const char *detail;
	}			cases[] = {
		{"acquire", LE_DONE, 0, 7, 1, 12},
		{"acquire-repeated", LE_DONE, 0, 7, 1, -1},
		{"acquire-own", LE_CONFLICT, LE_CONFLICT_OWN, 7, 1},
		{"acquire-held", LE_CONFLICT, LE_CONFLICT_HELD, 3, 1},
		{"acquire-jump", LE_REFUSED, .detail = "2^40"},
		{"acquire-ttl", LE_REFUSED, .detail = "ttl must be between 5s"},
		{"acquire-malformed", LE_REFUSED, .detail = "HTTP 400"},
		{"acquire-unauthorized", LE_REFUSED, .detail = "HTTP 401"},
		{"acquire-not-applied", LE_UNAVAILABLE, .detail = "HTTP 503"},
		{"publish", LE_DONE, 0, 7, 2, 12},
		{"publish-repeated", LE_DONE, 0, 7, 2, -1},
		{"publish-stale", LE_CONFLICT, LE_CONFLICT_CHANGED, 7, 2},
		{"publish-lost", LE_CONFLICT, LE_CONFLICT_CHANGED, 7, 2},
		{"read", LE_DONE, 0, 7, .nkeys = 1},
		{"read-never", LE_DONE, 0, 1},
		{"read-free", LE_DONE, 0, 8, .nkeys = 1},
		{"read-unavailable", LE_UNAVAILABLE, .detail = "HTTP 503"},
		{"watch", LE_DONE, 0, 7, .nkeys = 1},
		{"release", LE_DONE, 0, 7},
		{"release-free", LE_DONE, 0, 7},
		{"release-not-yours", LE_DONE, 0, 3},
		{"release-stale", LE_CONFLICT, LE_CONFLICT_CHANGED, 7, 3},
		{"renew-terms", LE_DONE},
		{"renew-terms-stale", LE_DONE},
		{"list-held", LE_DONE, .nkeys = 3},
		{"list-held-page", LE_DONE, .nkeys = 2},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeAnswer	a = recorded(cases[i].file);

		if (a.outcome != cases[i].outcome || a.index != cases[i].index ||
			a.term.rev != cases[i].rev || a.nkeys != cases[i].nkeys ||
			a.conflict != cases[i].conflict)
			fail_msg("%s: outcome %s, conflict %d, index %d, rev %d, %d keys",
					 cases[i].file, le_outcome_name(a.outcome), a.conflict,
					 (int) a.index, (int) a.term.rev, a.nkeys);
		if (cases[i].trust_s >= 0)
			assert_int_equal(a.term.trust, cases[i].trust_s * LE_SEC);
		else
			assert_in_range(a.term.trust, 1, 12 * LE_SEC);
		if (cases[i].detail != NULL &&
			strstr(a.detail, cases[i].detail) == NULL)
			fail_msg("%s: %s", cases[i].file, a.detail);
	}
}

static void
test_recorded_keys(void **state)
{
	LeAnswer	a = recorded("read");
	LeKey	   *key = a.keys;

	assert_string_equal(key->election, "billing");
	assert_string_equal(key->holder, SESSION);
	assert_string_equal(key->node, "n1");
	assert_string_equal(key->value, "w");
	assert_int_equal(key->rev, 2);
	assert_false(key->released);

	key = recorded("read-free").keys;
	assert_null(key->holder);
	assert_true(key->released);
	assert_int_equal(key->index, 7);
	assert_int_equal(key->rev, 0);

	a = recorded("list-held");
	for (int i = 0; i < a.nkeys; i++)
	{
		key = &a.keys[i];
		if (strcmp(key->election, "a") == 0)
			assert_string_equal(key->node, "other");
		else
			assert_string_equal(key->holder, SESSION);
	}
	assert_null(a.page);
	a = recorded("list-held-page");
	assert_non_null(a.page);
}

static void
test_recorded_batch(void **state)
{
	LeAnswer	a = recorded("renew-terms");

	assert_int_equal(a.renewals[0].outcome, LE_DONE);
	assert_int_equal(a.renewals[0].rev, 3);
	assert_int_equal(a.renewals[0].trust, 12 * LE_SEC);
	assert_int_equal(a.renewals[1].outcome, LE_DONE);
	assert_int_equal(a.renewals[1].rev, 2);
	assert_int_equal(a.renewals[2].outcome, LE_LOST);
	a = recorded("renew-terms-stale");
	assert_int_equal(a.renewals[0].outcome, LE_CONFLICT);
	assert_int_equal(a.renewals[0].rev, 3);
	assert_int_equal(a.renewals[1].outcome, LE_CONFLICT);
	assert_int_equal(a.renewals[1].rev, 2);
	assert_int_equal(a.renewals[2].outcome, LE_LOST);
}

/* Locks billing, e0 and e1; another client holds the second. */
static void
test_recorded_joined(void **state)
{
	LeAnswer	a = recorded("acquire-many");

	assert_int_equal(a.wire.parts[0].outcome, LE_DONE);
	assert_int_equal(a.wire.parts[0].index, 9);
	assert_int_equal(a.wire.parts[0].term.trust, 12 * LE_SEC);
	assert_int_equal(a.wire.parts[1].conflict, LE_CONFLICT_HELD);
	assert_int_equal(a.wire.parts[1].index, 3);
	assert_int_equal(a.wire.parts[2].outcome, LE_DONE);
	assert_int_equal(a.wire.parts[2].index, 7);
	a = recorded("acquire-many-repeated");
	assert_int_equal(a.wire.parts[0].index, 9);
	assert_int_equal(a.wire.parts[1].outcome, LE_CONFLICT);
	assert_in_range(a.wire.parts[2].term.trust, 1, 12 * LE_SEC);
	a = recorded("read-many");
	assert_string_equal(a.wire.parts[0].keys[0].holder, SESSION);
	assert_string_equal(a.wire.parts[1].keys[0].node, "other");
	assert_string_equal(a.wire.parts[2].keys[0].election, "e1");
	a = recorded("release-many");
	assert_int_equal(a.wire.parts[0].outcome, LE_DONE);
	assert_int_equal(a.wire.parts[1].outcome, LE_DONE);	/* not ours any more */
	assert_int_equal(a.wire.parts[2].conflict, LE_CONFLICT_CHANGED);
	a = recorded("read-many-free");
	assert_true(a.wire.parts[0].keys[0].released);
	assert_null(a.wire.parts[0].keys[0].holder);
	a = recorded("acquire-many-not-applied");
	assert_true(a.wire.next_server);
}

/* ---- answers made up ---- */

#define JSON	"application/json"
#define PROBLEM "application/problem+json"
#define LOCK(name, owner, token, rev, trust) \
	"{\"name\":\"" name "\",\"owner\":\"" owner "\",\"value\":\"\"," \
	"\"token\":" token ",\"rev\":" rev ",\"expires_in_ms\":1000" trust "}"
#define TRUST	",\"trust_ms\":12000"
#define TYPE(t) "{\"type\":\"urn:leader-election:problem:" t "\"," \
	"\"title\":\"T\",\"status\":0"

static LeAnswer
made_up(LeOpKind kind, int status, const char *type, const char *body)
{
	LeOp	   *op = palloc(sizeof(LeOp));
	LeResponse response;

	*op = test_op(kind);
	memset(&response, 0, sizeof(response));
	response.http.status = status;
	response.http.content_type = type;
	response.body = body;
	response.body_len = strlen(body);
	return decode(op, &response);
}

/*
 * An answer to a write counts only if it shows our own term, as asked for;
 * any other leaves the outcome unknown.
 */
static void
test_grants_of_something_else(void **state)
{
	static const char *const bodies[] = {
		LOCK("billing", OWNER, "8", "3", ""),	/* no trust */
		LOCK("other", OWNER, "7", "3", TRUST),
		LOCK("billing", "n2#" INCARNATION, "7", "3", TRUST),
		LOCK("billing", OWNER, "0", "3", TRUST),
		LOCK("billing", OWNER, "-7", "3", TRUST),
		LOCK("billing", OWNER, "9223372036854775808", "3", TRUST),
		LOCK("billing", OWNER, "7", "0", TRUST),
		LOCK("billing", OWNER, "7.5", "3", TRUST),
		LOCK("billing", OWNER, "\"7\"", "3", TRUST),
		LOCK("billing", OWNER, "7", "3", ",\"trust_ms\":-1"),
		"{}", "[]", "null", "", "{\"name\":", "<html></html>",
	};

	for (int i = 0; i < lengthof(bodies); i++)
	{
		LeAnswer	a = made_up(LE_OP_ACQUIRE, 201, JSON, bodies[i]);

		if (a.outcome != LE_UNKNOWN)
			fail_msg("%s: %s", bodies[i], le_outcome_name(a.outcome));
	}
	assert_int_equal(made_up(LE_OP_ACQUIRE, 201, JSON,
							 LOCK("billing", OWNER, "8", "3", TRUST)).outcome,
					 LE_DONE);
	/* a publish is about this term and this revision */
	assert_int_equal(made_up(LE_OP_PUBLISH, 200, JSON,
							 LOCK("billing", OWNER, "7", "3", TRUST)).outcome,
					 LE_DONE);
	assert_int_equal(made_up(LE_OP_PUBLISH, 200, JSON,
							 LOCK("billing", OWNER, "8", "3", TRUST)).outcome,
					 LE_UNKNOWN);
	assert_int_equal(made_up(LE_OP_PUBLISH, 200, JSON,
							 LOCK("billing", OWNER, "7", "4", TRUST)).outcome,
					 LE_UNKNOWN);
	/* no belief outlasts the requested lease */
	assert_int_equal(made_up(LE_OP_ACQUIRE, 201, JSON,
							 LOCK("billing", OWNER, "8", "1",
								  ",\"trust_ms\":86400000")).term.trust,
					 15 * LE_SEC);
}

static void
test_statuses(void **state)
{
	static const struct
	{
		LeOpKind	kind;
		int			status;
		const char *type;
		const char *body;
		LeOutcome	outcome;
		bool		next;
	}			cases[] = {
		{LE_OP_ACQUIRE, 503, PROBLEM, TYPE("unknown") "}", LE_UNKNOWN},
		{LE_OP_ACQUIRE, 500, PROBLEM, TYPE("internal") "}", LE_UNKNOWN},
		{LE_OP_ACQUIRE, 409, PROBLEM, TYPE("never-heard-of") "}", LE_UNKNOWN},
		{LE_OP_ACQUIRE, 503, PROBLEM, TYPE("overloaded") "}",
		LE_UNAVAILABLE, true},
		{LE_OP_ACQUIRE, 503, PROBLEM, TYPE("not-applied") "}",
		LE_UNAVAILABLE, true},
		{LE_OP_ACQUIRE, 503, PROBLEM, "{\"type\":\"about:blank\"}",
		LE_UNKNOWN},
		{LE_OP_ACQUIRE, 503, "text/html", "<p>later</p>", LE_UNKNOWN},
		{LE_OP_ACQUIRE, 502, "text/html", "", LE_UNKNOWN},
		{LE_OP_ACQUIRE, 429, "text/html", "", LE_UNKNOWN},
		{LE_OP_ACQUIRE, 404, "text/html", "", LE_REFUSED},
		{LE_OP_ACQUIRE, 302, "text/html", "", LE_REFUSED},
		{LE_OP_ACQUIRE, 204, "", "", LE_UNKNOWN},
		{LE_OP_ACQUIRE, 403, PROBLEM, TYPE("forbidden") "}", LE_REFUSED},
		{LE_OP_READ, 503, PROBLEM, TYPE("unknown") "}", LE_UNAVAILABLE, true},
		{LE_OP_READ, 502, "text/html", "", LE_UNAVAILABLE},
		{LE_OP_READ, 404, "text/html", "no such page", LE_REFUSED},
		{LE_OP_READ, 404, PROBLEM, TYPE("no-resource") "}", LE_REFUSED},
		{LE_OP_READ, 404, PROBLEM, TYPE("free") "}", LE_UNAVAILABLE, true},
		{LE_OP_READ, 200, JSON, LOCK("other", OWNER, "7", "3", ""),
		LE_UNAVAILABLE},
		{LE_OP_RELEASE, 200, JSON, "{}", LE_UNKNOWN},
		{LE_OP_RELEASE, 404, "text/html", "", LE_REFUSED},
		{LE_OP_RELEASE, 503, PROBLEM, TYPE("unknown") "}", LE_UNKNOWN},
		{LE_OP_RENEW_TERMS, 200, JSON, "{\"results\":[]}", LE_UNKNOWN},
		{LE_OP_RENEW_TERMS, 200, JSON, "{}", LE_UNKNOWN},
		{LE_OP_RENEW_TERMS, 401, PROBLEM, TYPE("unauthorized") "}",
		LE_REFUSED},
		{LE_OP_LIST_HELD, 200, JSON, "{\"locks\":[]}", LE_DONE},
		{LE_OP_LIST_HELD, 200, JSON, "{\"locks\":{}}", LE_UNAVAILABLE},
		{LE_OP_LIST_HELD, 200, JSON, "{\"locks\":[{\"name\":\"a\"}]}",
		LE_UNAVAILABLE},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeAnswer	a = made_up(cases[i].kind, cases[i].status,
								cases[i].type, cases[i].body);

		if (a.outcome != cases[i].outcome ||
			a.wire.next_server != cases[i].next)
			fail_msg("case %d, %s: %s", i, cases[i].body,
					 le_outcome_name(a.outcome));
	}
}

/* Reasons of refusals. */
static void
test_causes(void **state)
{
	static const struct
	{
		int			status;
		const char *type;
		const char *body;
		LeCause		cause;
	}			cases[] = {
		{401, PROBLEM, TYPE("unauthorized") "}", LE_CAUSE_STRANGER},
		{403, PROBLEM, TYPE("forbidden") "}", LE_CAUSE_PERMISSION},
		{400, PROBLEM, TYPE("bad-request") "}", LE_CAUSE_OTHER},
		{400, PROBLEM, TYPE("bad-name") "}", LE_CAUSE_OTHER},
		{400, PROBLEM, TYPE("bad-duration") "}", LE_CAUSE_OTHER},
		{400, PROBLEM, TYPE("bad-ttl") "}", LE_CAUSE_OTHER},
		{403, PROBLEM, TYPE("cross-origin") "}", LE_CAUSE_OTHER},
		{404, PROBLEM, TYPE("no-resource") "}", LE_CAUSE_SETTING},
		{405, PROBLEM, TYPE("method") "}", LE_CAUSE_OTHER},
		{413, PROBLEM, TYPE("too-large") "}", LE_CAUSE_OTHER},
		/* the outcome for a term, which no file has */
		{422, PROBLEM, TYPE("token-jump") "}", LE_CAUSE_OTHER},
		{401, "text/html", "", LE_CAUSE_NOT_STORE},
		{404, "text/html", "", LE_CAUSE_NOT_STORE},
		{307, "", "", LE_CAUSE_NOT_STORE},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeAnswer	a = made_up(LE_OP_ACQUIRE, cases[i].status,
								cases[i].type, cases[i].body);

		assert_int_equal(a.outcome, LE_REFUSED);
		if (a.cause != cases[i].cause)
			fail_msg("case %d, %s: cause %d", i, cases[i].body, a.cause);
	}
}

static void
test_network(void **state)
{
	static const LeOpKind kinds[] = {
		LE_OP_READ, LE_OP_ACQUIRE, LE_OP_PUBLISH, LE_OP_RENEW_TERMS,
		LE_OP_RELEASE, LE_OP_WATCH, LE_OP_LIST_HELD
	};

	for (int i = 0; i < lengthof(kinds); i++)
	{
		LeOp		op = test_op(kinds[i]);
		LeResponse response;
		LeAnswer	a;

		memset(&response, 0, sizeof(response));
		response.http.content_type = response.body = "";
		response.net_error = "Failed\r\nto\x01" "connect";
		response.net = LE_NET_NOT_SENT;
		assert_string_equal(decode(&op, &response).detail,
							"Failed to connect");
		response.net = LE_NET_BROKEN;
		/* a read that another gateway can answer is repeated */
		assert_int_equal(decode(&op, &response).wire.next_server,
						 !le_op_writes(op.kind));
		response.net_error = NULL;
		assert_string_equal(decode(&op, &response).detail, "no answer");
		response.net = LE_NET_NOT_SENT;
		assert_string_equal(decode(&op, &response).detail, "no connection");
		response.net = LE_NET_UNTAKEN;
		response.net_error = "the answer is too large";
		a = decode(&op, &response);
		assert_int_equal(a.outcome, le_op_writes(op.kind) ?
						 LE_UNKNOWN : LE_REFUSED);
		assert_string_equal(a.detail, response.net_error);
		/* another gateway's would be as large */
		assert_true(a.wire.untaken && !a.wire.next_server);
	}
}

/* One different result must not vouch for its neighbours. */
static void
test_batches(void **state)
{
#define RESULT(name, body)	"{\"name\":\"" name "\"," body "}"
#define GOOD(name, token, rev) \
	"\"status\":200,\"lock\":" LOCK(name, OWNER, token, rev, TRUST)
	LeAnswer	a;

	a = made_up(LE_OP_RENEW_TERMS, 200, JSON, "{\"results\":["
				RESULT("billing", GOOD("billing", "7", "3")) ","
				RESULT("reports/daily", "\"status\":503,\"problem\":"
					   TYPE("unknown") "}") ","
				RESULT("a", "\"status\":503,\"problem\":"
					   TYPE("not-applied") "}") "]}");
	assert_int_equal(a.outcome, LE_DONE);
	assert_int_equal(a.renewals[0].outcome, LE_DONE);
	assert_int_equal(a.renewals[1].outcome, LE_UNKNOWN);
	assert_int_equal(a.renewals[2].outcome, LE_UNAVAILABLE);

	/* a gateway that could renew none is left for another */
	a = made_up(LE_OP_RENEW_TERMS, 200, JSON, "{\"results\":["
				RESULT("billing", "\"status\":503,\"problem\":"
					   TYPE("not-applied") "}") ","
				RESULT("reports/daily", "\"status\":503,\"problem\":"
					   TYPE("not-applied") "}") ","
				RESULT("a", "\"status\":503,\"problem\":"
					   TYPE("not-applied") "}") "]}");
	assert_int_equal(a.outcome, LE_UNAVAILABLE);
	assert_true(a.wire.next_server);
	assert_null(a.renewals);

	/* another term, revision or name inside */
	a = made_up(LE_OP_RENEW_TERMS, 200, JSON, "{\"results\":["
				RESULT("billing", GOOD("billing", "8", "3")) ","
				RESULT("reports/daily", GOOD("reports/daily", "9", "3")) ","
				RESULT("a", GOOD("billing", "3", "41")) "]}");
	for (int i = 0; i < 3; i++)
		assert_int_equal(a.renewals[i].outcome, LE_UNKNOWN);

	/* an empty result does not inherit */
	a = made_up(LE_OP_RENEW_TERMS, 200, JSON, "{\"results\":["
				RESULT("billing", GOOD("billing", "7", "3")) ","
				RESULT("reports/daily", "\"status\":200") ","
				RESULT("a", "\"status\":409") "]}");
	assert_int_equal(a.renewals[1].outcome, LE_UNKNOWN);
	assert_int_equal(a.renewals[2].outcome, LE_UNKNOWN);

	/* nor is a term over because its neighbour is */
	a = made_up(LE_OP_RENEW_TERMS, 200, JSON, "{\"results\":["
				RESULT("billing", "\"status\":409,\"problem\":"
					   TYPE("lost") "}") ","
				RESULT("reports/daily", "\"status\":409") ","
				RESULT("a", "\"status\":409") "]}");
	assert_int_equal(a.renewals[0].outcome, LE_LOST);
	assert_int_equal(a.renewals[1].outcome, LE_UNKNOWN);
	assert_int_equal(a.renewals[2].outcome, LE_UNKNOWN);

	/* out of order: nothing counts */
	a = made_up(LE_OP_RENEW_TERMS, 200, JSON, "{\"results\":["
				RESULT("reports/daily", GOOD("reports/daily", "9", "2")) ","
				RESULT("billing", GOOD("billing", "7", "3")) ","
				RESULT("a", GOOD("a", "3", "41")) "]}");
	assert_int_equal(a.outcome, LE_UNKNOWN);
}

/* ---- several operations in one request ---- */

/* Locks billing, reports/daily and a, in this order. */
static LeOp
joined_op(LeOpKind kind)
{
	static const char *const names[] = {"reports/daily", "a"};
	const LeOp **others = palloc(lengthof(names) * sizeof(LeOp *));
	LeOp		op = test_op(kind);

	op.value = "v";
	for (int i = 0; i < lengthof(names); i++)
	{
		LeOp	   *other = palloc(sizeof(LeOp));

		*other = test_op(kind);
		other->election = names[i];
		other->index = 9 + i;
		other->term.rev = 4 + i;
		other->term.token_floor = 8 + i;
		other->term.attempt = i == 0 ? "second" : "third";
		others[i] = other;
		assert_true(le_store_cassandra.batch.joins(&op, other));
	}
	op.wire.joined = others;
	op.wire.njoined = lengthof(names);
	return op;
}

static void
test_joined_requests(void **state)
{
	LeOp		op = joined_op(LE_OP_ACQUIRE);

	expect_request(&op, "POST", "/v1/acquire",
				   "{\"owner\":\"" OWNER "\",\"ttl\":\"15000ms\",\"locks\":["
				   "{\"name\":\"billing\",\"attempt\":\"" ATTEMPT "\","
				   "\"value\":\"v\",\"min_token\":6},"
				   "{\"name\":\"reports/daily\",\"attempt\":\"second\","
				   "\"min_token\":8},"
				   "{\"name\":\"a\",\"attempt\":\"third\","
				   "\"min_token\":9}]}");
	op = joined_op(LE_OP_RELEASE);
	expect_request(&op, "POST", "/v1/release",
				   "{\"owner\":\"" OWNER "\",\"locks\":["
				   "{\"name\":\"billing\",\"token\":7,\"rev\":2},"
				   "{\"name\":\"reports/daily\",\"token\":9,\"rev\":4},"
				   "{\"name\":\"a\",\"token\":10,\"rev\":5}]}");
	op = joined_op(LE_OP_READ);
	expect_request(&op, "POST", "/v1/read",
				   "{\"locks\":[{\"name\":\"billing\"},"
				   "{\"name\":\"reports/daily\"},{\"name\":\"a\"}]}");
}

/* The largest full batch, of the longest names and values, is a request that a
 * gateway takes: a megabyte. */
static void
test_joined_room(void **state)
{
	LeOp		op = test_op(LE_OP_ACQUIRE);
	const LeOp *others[LE_MAX_JOINED];
	char		name[LE_MAX_ELECTION_LEN + 1];
	char		value[LE_MAX_VALUE_LEN + 1];

	memset(name, 'n', LE_MAX_ELECTION_LEN);
	name[LE_MAX_ELECTION_LEN] = '\0';
	memset(value, 1, LE_MAX_VALUE_LEN); /* six bytes each, in JSON */
	value[LE_MAX_VALUE_LEN] = '\0';
	op.election = name;
	op.value = value;
	op.term.token_floor = PG_UINT64_MAX;
	assert_int_equal(le_store_cassandra.batch.takes(&op), 1);
	for (int i = 0; i < le_store_cassandra.batch.capacity - 1; i++)
		others[i] = &op;
	op.wire.joined = others;
	op.wire.njoined = le_store_cassandra.batch.capacity - 1;
	assert_true(op.wire.njoined < LE_MAX_JOINED);
	assert_in_range(encode(&op).http.body.len, 600 * 1024, 1024 * 1024);
}

static void
test_not_joined(void **state)
{
	LeOp		a = test_op(LE_OP_ACQUIRE);
	LeOp		b = test_op(LE_OP_RELEASE);

	assert_false(le_store_cassandra.batch.joins(&a, &b));
	b = a;
	b.session = FOREIGN;		/* this node's predecessor's */
	assert_false(le_store_cassandra.batch.joins(&a, &b));
	b = a;
	b.node_name = "n2";
	assert_false(le_store_cassandra.batch.joins(&a, &b));
	b = a;
	b.lease++;
	assert_false(le_store_cassandra.batch.joins(&a, &b));
	for (int kind = 0; kind <= LE_OP_SESSION_NAME; kind++)
	{
		a = test_op(kind);
		assert_true((le_store_cassandra.batch.takes(&a) > 0) ==
					(kind == LE_OP_ACQUIRE || kind == LE_OP_RELEASE ||
					 kind == LE_OP_READ));
	}
}

static LeAnswer
joined_answer(LeOpKind kind, int status, const char *type, const char *body)
{
	LeOp		op = joined_op(kind);
	LeResponse response;

	memset(&response, 0, sizeof(response));
	response.http.status = status;
	response.http.content_type = type;
	response.body = body;
	response.body_len = strlen(body);
	return decode(&op, &response);
}

#define RESULTS(first, second, third) \
	"{\"results\":[" first "," second "," third "]}"
#define FAILED(name, type, more) \
	RESULT(name, "\"status\":409,\"problem\":" TYPE(type) more "}")
#define GRANTED(name, token) \
	RESULT(name, "\"status\":201,\"lock\":" LOCK(name, OWNER, token, "1", TRUST))

/* Each result is judged by itself, without its neighbours. */
static void
test_joined(void **state)
{
	LeAnswer	a;

	a = joined_answer(LE_OP_ACQUIRE, 200, JSON,
					  RESULTS(FAILED("billing", "held",
									 ",\"owner\":\"n2\",\"token\":3,\"rev\":5"),
							  GRANTED("reports/daily", "12"),
							  FAILED("a", "unknown", "")));
	assert_int_equal(a.outcome, LE_DONE);
	assert_false(a.wire.next_server);
	assert_int_equal(a.wire.parts[0].outcome, LE_CONFLICT);
	assert_int_equal(a.wire.parts[0].conflict, LE_CONFLICT_HELD);
	assert_int_equal(a.wire.parts[0].index, 3);
	assert_int_equal(a.wire.parts[0].term.rev, 5);
	assert_int_equal(a.wire.parts[1].outcome, LE_DONE);
	assert_int_equal(a.wire.parts[1].index, 12);
	assert_int_equal(a.wire.parts[1].term.rev, 1);
	assert_int_equal(a.wire.parts[1].term.trust, 12 * LE_SEC);
	assert_int_equal(a.wire.parts[2].outcome, LE_UNKNOWN);

	/* known outcomes, and a name that the token does not open */
	a = joined_answer(LE_OP_ACQUIRE, 200, JSON,
					  RESULTS(FAILED("billing", "not-applied", ""),
							  FAILED("reports/daily", "forbidden", ""),
							  FAILED("a", "held", ",\"owner\":\"" OWNER
									 "\",\"token\":4,\"rev\":2")));
	assert_int_equal(a.wire.parts[0].outcome, LE_UNAVAILABLE);
	assert_int_equal(a.wire.parts[1].outcome, LE_REFUSED);
	assert_non_null(strstr(a.wire.parts[1].detail, "HTTP 409"));
	assert_int_equal(a.wire.parts[2].conflict, LE_CONFLICT_OWN);
	assert_false(a.wire.next_server);

	a = joined_answer(LE_OP_RELEASE, 200, JSON,
					  RESULTS(RESULT("billing", "\"status\":204"),
							  FAILED("reports/daily", "free", ",\"token\":9"),
							  FAILED("a", "stale-revision",
									 ",\"token\":10,\"rev\":6")));
	assert_int_equal(a.wire.parts[0].outcome, LE_DONE);
	assert_int_equal(a.wire.parts[0].index, 7);
	assert_int_equal(a.wire.parts[1].outcome, LE_DONE);
	assert_int_equal(a.wire.parts[1].index, 9);
	assert_int_equal(a.wire.parts[2].outcome, LE_CONFLICT);
	assert_int_equal(a.wire.parts[2].conflict, LE_CONFLICT_CHANGED);
	assert_int_equal(a.wire.parts[2].term.rev, 6);

	a = joined_answer(LE_OP_READ, 200, JSON,
					  RESULTS(FAILED("billing", "free", ",\"token\":0"),
							  RESULT("reports/daily", "\"status\":200,\"lock\":"
									 LOCK("reports/daily", "n2#" INCARNATION,
										  "9", "4", "")),
							  FAILED("a", "free", ",\"token\":2")));
	assert_int_equal(a.wire.parts[0].nkeys, 0);
	assert_int_equal(a.wire.parts[0].index, 1);
	assert_int_equal(a.wire.parts[1].nkeys, 1);
	assert_string_equal(a.wire.parts[1].keys[0].holder, HELD_BY_US);
	assert_string_equal(a.wire.parts[1].keys[0].election, "reports/daily");
	assert_int_equal(a.wire.parts[2].nkeys, 1);
	assert_true(a.wire.parts[2].keys[0].released);
	assert_string_equal(a.wire.parts[2].keys[0].election, "a");
}

/* A result without a verdict on its lock leaves that lock's outcome open, and
 * only that. */
static void
test_joined_results(void **state)
{
	static const char *const second[] = {
		RESULT("reports/daily", "\"status\":201"),
		RESULT("reports/daily", "\"status\":204"),
		RESULT("reports/daily", "\"status\":409"),
		RESULT("reports/daily", "\"lock\":"
			   LOCK("reports/daily", OWNER, "12", "1", TRUST)),
		RESULT("reports/daily", GOOD("a", "12", "1")),
		RESULT("reports/daily", "\"status\":201,\"lock\":"
			   LOCK("reports/daily", "n2#" INCARNATION, "12", "1", TRUST)),
		RESULT("reports/daily", "\"status\":201,\"lock\":"
			   LOCK("reports/daily", OWNER, "12", "1", "")),
		FAILED("reports/daily", "never-heard-of", ""),
		RESULT("reports/daily", "\"status\":99999999999,\"lock\":{}"),
	};

	for (int i = 0; i < lengthof(second); i++)
	{
		LeAnswer	a = joined_answer(LE_OP_ACQUIRE, 200, JSON,
									  psprintf(RESULTS("%s", "%s", "%s"),
											   GRANTED("billing", "8"),
											   second[i],
											   GRANTED("a", "3")));

		assert_int_equal(a.outcome, LE_DONE);
		assert_int_equal(a.wire.parts[0].outcome, LE_DONE);
		if (a.wire.parts[1].outcome != LE_UNKNOWN)
			fail_msg("%s: %s", second[i],
					 le_outcome_name(a.wire.parts[1].outcome));
		assert_int_equal(a.wire.parts[2].outcome, LE_DONE);
		assert_int_equal(a.wire.parts[2].index, 3);
	}
}

/* An answer that does not fit all operations answers none. */
static void
test_joined_garbled(void **state)
{
	static const struct
	{
		int			status;
		const char *type;
		const char *body;
	}			cases[] = {
		{200, JSON, ""},
		{200, JSON, "{}"},
		{200, JSON, "{\"results\":[]}"},
		{200, JSON, "{\"results\":[" GRANTED("billing", "8") ","
		GRANTED("reports/daily", "12") "]}"},
		{200, JSON, RESULTS(GRANTED("reports/daily", "12"),
		GRANTED("billing", "8"), GRANTED("a", "3"))},
		{200, JSON, RESULTS(GRANTED("billing", "8"),
		GRANTED("reports/daily", "12"), GRANTED("a", "3") ","
		GRANTED("b", "3"))},
		{200, JSON, "{\"results\":[" GRANTED("billing", "8") ","
		GRANTED("reports/daily", "12") "," GRANTED("a", "3")},
		/* the answer to one alone */
		{201, JSON, LOCK("billing", OWNER, "8", "1", TRUST)},
		{204, "", ""},
		{409, PROBLEM, TYPE("held") ",\"token\":3,\"rev\":1}"},
		{404, PROBLEM, TYPE("free") ",\"token\":3}"},
		{409, PROBLEM, TYPE("not-yours") "}"},
		{409, PROBLEM, TYPE("lost") "}"},
		{503, PROBLEM, TYPE("unknown") "}"},
		{502, "text/html", "<html></html>"},
		{429, "text/html", ""},
	};
	static const LeOpKind kinds[] = {
		LE_OP_ACQUIRE, LE_OP_RELEASE, LE_OP_READ
	};

	for (int i = 0; i < lengthof(cases); i++)
		for (int k = 0; k < lengthof(kinds); k++)
		{
			LeAnswer	a = joined_answer(kinds[k], cases[i].status,
										  cases[i].type, cases[i].body);

			assert_null(a.wire.parts);
			assert_false(a.wire.apart);
			if (a.outcome != (kinds[k] == LE_OP_READ ? LE_UNAVAILABLE :
							  LE_UNKNOWN))
				fail_msg("%d %s: %s", cases[i].status, cases[i].body,
						 le_outcome_name(a.outcome));
		}
}

/*
 * A gateway that does not take several at once has done nothing, and may do
 * each; one that refuses the caller, or all of them alike, will do none.
 */
static void
test_joined_refused(void **state)
{
	static const struct
	{
		int			status;
		const char *type;
		const char *body;
		LeOutcome	outcome;
		bool		apart;
		bool		next;
	}			cases[] = {
		{400, PROBLEM, TYPE("bad-request") "}", LE_REFUSED, true},
		{403, PROBLEM, TYPE("forbidden") "}", LE_REFUSED, true},
		{413, PROBLEM, TYPE("too-large") "}", LE_REFUSED, true},
		{404, "text/html", "no such page", LE_REFUSED, false},
		{405, "text/html", "", LE_REFUSED, false},
		{403, "", "", LE_REFUSED, false},
		{302, "text/html", "", LE_REFUSED, false},
		{401, PROBLEM, TYPE("unauthorized") "}", LE_REFUSED, false},
		{422, PROBLEM, TYPE("bad-ttl") "}", LE_REFUSED, false},
		{503, PROBLEM, TYPE("overloaded") "}", LE_UNAVAILABLE, false, true},
		{503, PROBLEM, TYPE("not-applied") "}", LE_UNAVAILABLE, false, true},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeAnswer	a = joined_answer(LE_OP_ACQUIRE, cases[i].status,
									  cases[i].type, cases[i].body);

		assert_null(a.wire.parts);
		if (a.outcome != cases[i].outcome || a.wire.apart != cases[i].apart ||
			a.wire.next_server != cases[i].next)
			fail_msg("%d %s: %s%s", cases[i].status, cases[i].body,
					 le_outcome_name(a.outcome), a.wire.apart ? ", apart" :
					 "");
		/* refused alone, it is refused for good */
		assert_false(made_up(LE_OP_ACQUIRE, cases[i].status, cases[i].type,
							 cases[i].body).wire.apart);
	}
}

/* An answer that is lost leaves each of them open. */
static void
test_joined_network(void **state)
{
	static const LeOpKind kinds[] = {
		LE_OP_ACQUIRE, LE_OP_RELEASE, LE_OP_READ
	};

	for (int i = 0; i < lengthof(kinds); i++)
	{
		LeOp		op = joined_op(kinds[i]);
		LeResponse response = {.net = LE_NET_BROKEN};
		LeAnswer	a;

		response.http.content_type = response.body = "";
		a = decode(&op, &response);
		assert_null(a.wire.parts);
		assert_int_equal(a.outcome, kinds[i] == LE_OP_READ ?
						 LE_UNAVAILABLE : LE_UNKNOWN);
		response.net = LE_NET_NOT_SENT;
		assert_true(decode(&op, &response).wire.next_server);
	}
}

/* A gateway that can carry out none of them is left for another. */
static void
test_joined_elsewhere(void **state)
{
	LeAnswer	a = joined_answer(LE_OP_ACQUIRE, 200, JSON,
								  RESULTS(FAILED("billing", "not-applied", ""),
										  FAILED("reports/daily", "not-applied",
												 ""),
										  FAILED("a", "not-applied", "")));

	assert_int_equal(a.outcome, LE_UNAVAILABLE);
	assert_true(a.wire.next_server);
	for (int i = 0; i < 3; i++)
		assert_int_equal(a.wire.parts[i].outcome, LE_UNAVAILABLE);
}

/* Any client may hold a lock; its name's text must not reach a terminal. */
static void
test_owners(void **state)
{
	static const struct
	{
		const char *owner;
		const char *node;
		const char *holder;
	}			cases[] = {
		{"n1#" INCARNATION, "n1", HELD_BY_US},
		{"a#b#" INCARNATION, "a#b", HELD_BY_US},
		{"shell", "shell", "shell"},
		{"#" INCARNATION, "#" INCARNATION, "#" INCARNATION},
		{"n1#00112233445566778899AABBCCDDEEFF",
			"n1#00112233445566778899AABBCCDDEEFF",
		"n1#00112233445566778899AABBCCDDEEFF"},
		{"a\\u001b[2J\\n", "a?[2J?", "a?[2J?"},
	};
	char		longer[200];
	LeAnswer	a;

	for (int i = 0; i < lengthof(cases); i++)
	{
		a = made_up(LE_OP_READ, 200, JSON,
					psprintf("{\"name\":\"billing\",\"owner\":\"%s\","
							 "\"value\":\"\",\"token\":7,\"rev\":1}",
							 cases[i].owner));
		assert_int_equal(a.outcome, LE_DONE);
		assert_string_equal(a.keys[0].node, cases[i].node);
		assert_string_equal(a.keys[0].holder, cases[i].holder);
	}
	/* cut between characters */
	memset(longer, 'x', sizeof(longer));
	memcpy(longer + LE_MAX_NODE_NAME_LEN - 1, "\xc3\xa9", 2);
	longer[199] = '\0';
	a = made_up(LE_OP_READ, 200, JSON,
				psprintf("{\"name\":\"billing\",\"owner\":\"%s\","
						 "\"value\":\"\",\"token\":7,\"rev\":1}", longer));
	assert_int_equal(strlen(a.keys[0].node), LE_MAX_NODE_NAME_LEN - 1);
	/* a value that no node can have written is not shown in part */
	memset(longer, 'x', sizeof(longer));
	longer[199] = '\0';
	a = made_up(LE_OP_READ, 200, JSON,
				psprintf("{\"name\":\"billing\",\"owner\":\"o\","
						 "\"value\":\"%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s"
						 "%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s\",\"token\":7,"
						 "\"rev\":1}", longer, longer, longer, longer, longer,
						 longer, longer, longer, longer, longer, longer,
						 longer, longer, longer, longer, longer, longer,
						 longer, longer, longer, longer, longer, longer,
						 longer, longer, longer, longer, longer, longer,
						 longer, longer, longer, longer, longer, longer));
	assert_int_equal(a.outcome, LE_DONE);
	assert_null(a.keys[0].value);
}

#define RECORD(job, tick, try, id, token, state) \
	"{\"job\":\"" job "\",\"tick\":" tick ",\"try\":" try "," \
	"\"claim\":\"" id "\",\"token\":" token ",\"state\":\"" state "\"}"

/* Answers to a claim's request; only one that shows the claim counts. */
static void
test_claims(void **state)
{
	static const struct
	{
		int			line;
		LeOpKind	kind;
		int			status;
		const char *body;
		LeOutcome	outcome;
		int			nclaims;
	}			cases[] = {
		{__LINE__, LE_OP_CLAIM, 201, RECORD("nightly", "1800000000000", "1",
		CLAIM, "7", "running"), LE_DONE},
		{__LINE__, LE_OP_CLAIM, 200, RECORD("nightly", "1800000000000", "1",
		CLAIM, "7", "done"), LE_DONE},
		/* another job, tick, try, claim, term */
		{__LINE__, LE_OP_CLAIM, 201, RECORD("daily", "1800000000000", "1",
		CLAIM, "7", "running"), LE_UNKNOWN},
		{__LINE__, LE_OP_CLAIM, 201, RECORD("nightly", "1800000000001", "1",
		CLAIM, "7", "running"), LE_UNKNOWN},
		{__LINE__, LE_OP_CLAIM, 201, RECORD("nightly", "1800000000000", "2",
		CLAIM, "7", "running"), LE_UNKNOWN},
		{__LINE__, LE_OP_CLAIM, 201, RECORD("nightly", "1800000000000", "1",
		PREVIOUS_CLAIM, "7", "running"), LE_UNKNOWN},
		{__LINE__, LE_OP_CLAIM, 201, RECORD("nightly", "1800000000000", "1",
		CLAIM, "8", "running"), LE_UNKNOWN},
		{__LINE__, LE_OP_CLAIM, 201, "{}", LE_UNKNOWN},
		{__LINE__, LE_OP_CLAIM, 204, "", LE_UNKNOWN},
		{__LINE__, LE_OP_CLAIM, 409, TYPE("claim-refused") "}", LE_CONFLICT},
		{__LINE__, LE_OP_CLAIM, 404, TYPE("no-claim") "}", LE_CONFLICT},
		{__LINE__, LE_OP_CLAIM, 503, TYPE("unknown") "}", LE_UNKNOWN},
		{__LINE__, LE_OP_CLAIM, 503, TYPE("not-applied") "}", LE_UNAVAILABLE},
		{__LINE__, LE_OP_CLAIM, 400, TYPE("bad-request") "}", LE_REFUSED},

		{__LINE__, LE_OP_COMPLETE, 200, RECORD("nightly", "5", "3", CLAIM,
		"6", "running"), LE_DONE},
		{__LINE__, LE_OP_COMPLETE, 200, RECORD("nightly", "5", "3", CLAIM,
		"6", "failed"), LE_UNKNOWN},
		{__LINE__, LE_OP_COMPLETE, 200, RECORD("nightly", "5", "3",
		PREVIOUS_CLAIM, "6", "running"), LE_UNKNOWN},
		{__LINE__, LE_OP_COMPLETE, 409, TYPE("claim-refused") "}",
		LE_CONFLICT},
		{__LINE__, LE_OP_COMPLETE, 404, TYPE("no-claim") "}", LE_CONFLICT},

		{__LINE__, LE_OP_READ_CLAIM, 200, RECORD("nightly", "5", "3", "x", "6",
		"failed"), LE_DONE, 1},
		{__LINE__, LE_OP_READ_CLAIM, 404, TYPE("no-claim") "}", LE_DONE, 0},
		{__LINE__, LE_OP_READ_CLAIM, 409, TYPE("claim-refused") "}",
		LE_UNAVAILABLE},
		{__LINE__, LE_OP_READ_CLAIM, 200, RECORD("daily", "5", "3", "x", "6",
		"failed"), LE_UNAVAILABLE},
		{__LINE__, LE_OP_READ_CLAIM, 200, RECORD("nightly", "-5", "3", "x",
		"6", "failed"), LE_UNAVAILABLE},
		{__LINE__, LE_OP_READ_CLAIM, 200, RECORD("nightly", "5", "0", "x", "6",
		"failed"), LE_UNAVAILABLE},
		{__LINE__, LE_OP_READ_CLAIM, 200, RECORD("nightly", "5", "3", "", "6",
		"failed"), LE_UNAVAILABLE},
		{__LINE__, LE_OP_READ_CLAIM, 200, RECORD("nightly", "5", "3", "x", "0",
		"failed"), LE_UNAVAILABLE},
		{__LINE__, LE_OP_READ_CLAIM, 200, RECORD("nightly", "5", "3", "x", "6",
		"over"), LE_UNAVAILABLE},

		{__LINE__, LE_OP_LIST_CLAIMS, 200, "{\"claims\":[]}", LE_DONE, 0},
		{__LINE__, LE_OP_LIST_CLAIMS, 200, "{\"claims\":["
			RECORD("nightly", "5", "3", "x", "6", "failed") ","
			RECORD("daily", "6", "1", "y", "7", "done") "]}", LE_DONE, 2},
		{__LINE__, LE_OP_LIST_CLAIMS, 200, "{\"claims\":[{}]}",
		LE_UNAVAILABLE},
		{__LINE__, LE_OP_LIST_CLAIMS, 200, "{\"claims\":{}}", LE_UNAVAILABLE},
		{__LINE__, LE_OP_LIST_CLAIMS, 200, "[]", LE_UNAVAILABLE},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeOp		op = test_op(cases[i].kind);
		LeResponse response;
		LeAnswer	a;

		op.token = 7;
		memset(&response, 0, sizeof(response));
		response.http.status = cases[i].status;
		response.http.content_type = cases[i].status < 300 ? JSON : PROBLEM;
		response.body = cases[i].body;
		response.body_len = strlen(cases[i].body);
		memset(&a, 0xff, sizeof(a));
		le_store_cassandra.codec.decode(&test_namespace, &op, &response, &a);
		if (a.outcome != cases[i].outcome || a.nclaims != cases[i].nclaims)
			fail_msg("line %d: %s, %d claims (%s)", cases[i].line,
					 le_outcome_name(a.outcome), a.nclaims,
					 a.detail ? a.detail : "");
		if (a.nclaims == 2)
		{
			assert_string_equal(a.claims[0].election, "billing");
			assert_string_equal(a.claims[1].job, "daily");
			assert_int_equal(a.claims[1].try, 1);
			assert_int_equal(a.claims[0].state, LE_CLAIM_FAILED);
			assert_null(a.claims[0].node);
		}
	}
}

/*
 * A claim's text for people; none of it if another client of the gateway wrote
 * the record.
 */
static void
test_info(void **state)
{
	static const struct
	{
		const char *info;
		int			failures;
	}			cases[] = {
		{"\"{\\\"proto\\\":1,\\\"node\\\":\\\"n1\\\","
			"\\\"job\\\":\\\"nightly\\\",\\\"tick\\\":5,\\\"try\\\":3,"
			"\\\"token\\\":6,\\\"claim\\\":\\\"x\\\","
			"\\\"state\\\":\\\"failed\\\",\\\"claimed_at\\\":7,"
			"\\\"ended_at\\\":8,\\\"every\\\":60000,\\\"wait\\\":5000,"
			"\\\"failures\\\":2,\\\"last_success\\\":4,"
			"\\\"missed\\\":2,\\\"missed_from\\\":1,\\\"missed_to\\\":3,"
		"\\\"sqlstate\\\":\\\"22012\\\"}\"", 2},
		{"\"{\\\"proto\\\":1,\\\"node\\\":\\\"n1\\\","
			"\\\"job\\\":\\\"nightly\\\",\\\"tick\\\":5,\\\"try\\\":3,"
			"\\\"token\\\":6,\\\"claim\\\":\\\"y\\\","
			"\\\"state\\\":\\\"failed\\\",\\\"claimed_at\\\":7,"
		"\\\"failures\\\":2}\"", -1},
		{"\"no record\"", -1},
		{"7", -1},
		{"null", -1},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeOp		op = test_op(LE_OP_READ_CLAIM);
		LeResponse response = {.http.status = 200, .http.content_type = JSON};
		LeAnswer	a;

		response.body = psprintf("{\"info\":%s,\"job\":\"nightly\","
								 "\"tick\":5,\"try\":3,\"claim\":\"x\","
								 "\"token\":6,\"state\":\"failed\"}",
								 cases[i].info);
		response.body_len = strlen(response.body);
		le_store_cassandra.codec.decode(&test_namespace, &op, &response, &a);
		assert_int_equal(a.outcome, LE_DONE);
		assert_int_equal(a.nclaims, 1);
		assert_int_equal(a.claims[0].failures, cases[i].failures);
		if (cases[i].failures < 0)
		{
			assert_null(a.claims[0].node);
			assert_null(a.claims[0].sqlstate);
			assert_int_equal(a.claims[0].claimed_at, 0);
			assert_int_equal(a.claims[0].gap.n, 0);
			continue;
		}
		assert_string_equal(a.claims[0].node, "n1");
		assert_int_equal(a.claims[0].claimed_at, 7);
		assert_int_equal(a.claims[0].ended_at, 8);
		assert_int_equal(a.claims[0].every, 60000);
		assert_int_equal(a.claims[0].wait, 5000);
		assert_int_equal(a.claims[0].last_success, 4);
		assert_int_equal(a.claims[0].gap.n, 2);
		assert_int_equal(a.claims[0].gap.first, 1);
		assert_int_equal(a.claims[0].gap.last, 3);
		assert_string_equal(a.claims[0].sqlstate, "22012");
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(test_requests),
		store_test(test_hostile_names),
		store_test(test_limits),
		store_test(test_session),
		store_test(test_recorded),
		store_test(test_recorded_keys),
		store_test(test_recorded_batch),
		store_test(test_recorded_joined),
		store_test(test_grants_of_something_else),
		store_test(test_statuses),
		store_test(test_causes),
		store_test(test_network),
		store_test(test_batches),
		store_test(test_joined_requests),
		store_test(test_joined_room),
		store_test(test_not_joined),
		store_test(test_joined),
		store_test(test_joined_results),
		store_test(test_joined_garbled),
		store_test(test_joined_refused),
		store_test(test_joined_network),
		store_test(test_joined_elsewhere),
		store_test(test_owners),
		store_test(test_claims),
		store_test(test_info),
	};

	return cmocka_run_group_tests_name("cassandra", tests, NULL, NULL);
}
