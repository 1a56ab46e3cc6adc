/*-------------------------------------------------------------------------
 *
 * test_consul.c
 *		Tests of the store "consul": requests, and answers real and invented.
 *
 * "test_consul --encode kind=NAME ..." prints a request instead; record-corpus
 * sends it to a real Consul.
 *
 * test/unit/test_consul.c
 *
 *-------------------------------------------------------------------------
 */
#include "store_test.h"

#include <dirent.h>

#include "exchange.h"
#include "store/consul_list.h"
#include "store/json.h"

#define JSON	"application/json"
#define TEXT	"text/plain; charset=utf-8"
#define HTML	"text/html"
#define NODE	"leader_election.nodes/" SESSION
#define KEY		"leader_election/billing/leader"
#define FLAG	"3304740253564472344"
#define OTHER_NODE	"leader_election.nodes/" FOREIGN
#define NEWS	"leader_election.nodes/news/" SESSION
#define NEWS_TEXT \
	"{\"proto\":1,\"node\":\"n1\",\"session\":\"" SESSION "\"," \
	"\"number\":42,\"since\":39,\"items\":[" \
	"{\"number\":40,\"kind\":\"publish\",\"index\":6,\"token\":5," \
	"\"election\":\"reports/daily\"}," \
	"{\"number\":41,\"kind\":\"acquire\",\"election\":\"a\"}," \
	"{\"number\":42,\"kind\":\"release\",\"election\":\"billing\"}]}"
#define NEWS_STEP \
	"{\"KV\":{\"Verb\":\"lock\",\"Key\":\"" NEWS "\"," \
	"\"Session\":\"" SESSION "\",\"Flags\":" FLAG ",\"Value\":" NEWS_TEXT "}}"
#define MARKED \
	"{\"proto\":1,\"node\":\"n2\",\"incarnation\":\"" INCARNATION "\"," \
	"\"session\":\"" FOREIGN "\",\"lease_ms\":15000,\"seq\":4," \
	"\"revoked\":true}"
#define TAKEN \
	"{\"proto\":1,\"node\":\"n1\",\"session\":\"" SESSION "\"," \
	"\"lease_ms\":15000,\"released\":false}"

#define CLAIM_KEY	"leader_election.claims/billing/nightly"
#define CLAIM_TEXT \
	"{\"proto\":1,\"node\":\"n1\",\"job\":\"nightly\"," \
	"\"tick\":1800000000000,\"try\":1,\"token\":7,\"claim\":\"" CLAIM "\"," \
	"\"state\":\"running\",\"claimed_at\":1800000000123}"

static const char *corpus = "test/unit/corpus/consul";

/* ---- requests ---- */

static LeRequest
encode(const LeNamespace *ns, const LeOp *op)
{
	LeRequest request;

	memset(&request, 0xff, sizeof(request));
	le_store_consul.codec.encode(ns, op, &request);
	assert_true(request.max_answer > 0);
	return request;
}

/* All bodies, with base64 values decoded, for people. */
static const char *
readable(const char *body)
{
	StringInfoData buf;
	const char *value;

	initStringInfo(&buf);
	while ((value = strstr(body, "\"Value\":\"")) != NULL)
	{
		const char *end;
		int			len;

		value += strlen("\"Value\":\"");
		end = strchr(value, '"');
		appendBinaryStringInfo(&buf, body, value - body - 1);
		appendStringInfoString(&buf, le_base64_decode(value, end - value,
													  &len));
		body = end + 1;
	}
	appendStringInfoString(&buf, body);
	return buf.data;
}

typedef struct RequestCase
{
	LeOpKind	kind;
	const char *method;
	const char *path;
	const char *body;			/* NULL: none */
} RequestCase;

static const RequestCase requests[] = {
	{LE_OP_CREATE_SESSION, "PUT", "/v1/session/create",
		"{\"Name\":\"leader_election: n1\",\"TTL\":\"15s\","
		"\"LockDelay\":\"15s\",\"Behavior\":\"release\","
	"\"Checks\":[],\"NodeChecks\":[]}"},
	{LE_OP_VERIFY_SESSION, "GET", "/v1/session/info/" SESSION "?consistent"},
	{LE_OP_CHECK_PREFIX, "GET", "/v1/kv/leader_election/?keys&consistent"},
	{LE_OP_REGISTER_NODE, "PUT", "/v1/txn",
		"[{\"KV\":{\"Verb\":\"check-not-exists\",\"Key\":\"" NODE "\"}},"
		"{\"KV\":{\"Verb\":\"lock\",\"Key\":\"" NODE "\","
		"\"Session\":\"" SESSION "\",\"Flags\":" FLAG ",\"Value\":"
		"{\"proto\":1,\"node\":\"n1\",\"incarnation\":\"" INCARNATION "\","
		"\"session\":\"" SESSION "\",\"lease_ms\":15000,\"seq\":3,"
	"\"revoked\":false}}}]"},
	{LE_OP_RENEW_SESSION, "PUT", "/v1/session/renew/" SESSION, ""},
	{LE_OP_PROVE_NODE, "PUT", "/v1/txn",
		"[{\"KV\":{\"Verb\":\"check-session\",\"Key\":\"" NODE "\","
		"\"Session\":\"" SESSION "\"}},"
		"{\"KV\":{\"Verb\":\"lock\",\"Key\":\"" NODE "\","
		"\"Session\":\"" SESSION "\",\"Flags\":" FLAG ",\"Value\":"
		"{\"proto\":1,\"node\":\"n1\",\"incarnation\":\"" INCARNATION "\","
		"\"session\":\"" SESSION "\",\"lease_ms\":15000,\"seq\":3,"
		"\"revoked\":false}}},"
		"{\"KV\":{\"Verb\":\"check-session\",\"Key\":\"" KEY "\","
		"\"Session\":\"" SESSION "\"}},"
		"{\"KV\":{\"Verb\":\"check-session\","
		"\"Key\":\"leader_election/reports/daily/leader\","
		"\"Session\":\"" SESSION "\"}},"
		"{\"KV\":{\"Verb\":\"check-session\","
		"\"Key\":\"leader_election/a/leader\","
	"\"Session\":\"" SESSION "\"}}]"},
	{LE_OP_LIST_HELD, "GET", "/v1/kv/leader_election/?recurse&consistent"},
	{LE_OP_DESTROY_SESSION, "PUT", "/v1/session/destroy/" SESSION, ""},
	{LE_OP_REVOKE_NODE, "PUT", "/v1/txn",
		"[{\"KV\":{\"Verb\":\"check-session\",\"Key\":\"" NODE "\","
		"\"Session\":\"\"}},"
		"{\"KV\":{\"Verb\":\"set\",\"Key\":\"" NODE "\",\"Flags\":" FLAG ","
		"\"Value\":{\"proto\":1,\"node\":\"n1\","
		"\"incarnation\":\"" INCARNATION "\",\"session\":\"" SESSION "\","
	"\"lease_ms\":15000,\"seq\":3,\"revoked\":true}}}]"},
	{LE_OP_FORGET_NODE, "PUT", "/v1/txn",
		"[{\"KV\":{\"Verb\":\"check-session\",\"Key\":\"" NODE "\","
		"\"Session\":\"\"}},"
		"{\"KV\":{\"Verb\":\"delete\",\"Key\":\"" NEWS "\"}},"
	"{\"KV\":{\"Verb\":\"delete\",\"Key\":\"" NODE "\"}}]"},
	{LE_OP_TELL_NEWS, "PUT", "/v1/txn",
		"[{\"KV\":{\"Verb\":\"check-session\",\"Key\":\"" NODE "\","
	"\"Session\":\"" SESSION "\"}}," NEWS_STEP "]"},
	{LE_OP_READ, "GET", "/v1/kv/" KEY "?consistent"},
	{LE_OP_ACQUIRE, "PUT", "/v1/txn",
		"[{\"KV\":{\"Verb\":\"check-session\",\"Key\":\"" NODE "\","
		"\"Session\":\"" SESSION "\"}},"
		"{\"KV\":{\"Verb\":\"check-index\",\"Key\":\"" KEY "\","
		"\"Index\":7}},"
		"{\"KV\":{\"Verb\":\"lock\",\"Key\":\"" KEY "\","
		"\"Session\":\"" SESSION "\",\"Flags\":" FLAG ",\"Value\":"
		"{\"proto\":1,\"node\":\"n1\",\"session\":\"" SESSION "\","
	"\"lease_ms\":15000,\"released\":false}}}]"},
	{LE_OP_TAKE_OVER, "PUT", "/v1/txn",
		"[{\"KV\":{\"Verb\":\"check-index\",\"Key\":\"" OTHER_NODE "\","
		"\"Index\":5}},"
		"{\"KV\":{\"Verb\":\"check-session\",\"Key\":\"" OTHER_NODE "\","
		"\"Session\":\"" FOREIGN "\"}},"
		"{\"KV\":{\"Verb\":\"unlock\",\"Key\":\"" OTHER_NODE "\","
		"\"Session\":\"" FOREIGN "\",\"Flags\":" FLAG ",\"Value\":" MARKED
		"}},"
		"{\"KV\":{\"Verb\":\"check-session\",\"Key\":\"" NODE "\","
		"\"Session\":\"" SESSION "\"}},"
		"{\"KV\":{\"Verb\":\"check-index\",\"Key\":\"" KEY "\","
		"\"Index\":7}},"
		"{\"KV\":{\"Verb\":\"unlock\",\"Key\":\"" KEY "\","
		"\"Session\":\"" FOREIGN "\",\"Flags\":" FLAG ",\"Value\":" TAKEN
		"}},"
		"{\"KV\":{\"Verb\":\"lock\",\"Key\":\"" KEY "\","
		"\"Session\":\"" SESSION "\",\"Flags\":" FLAG ",\"Value\":" TAKEN
	"}}]"},
	{LE_OP_PUBLISH, "PUT", "/v1/txn",
		"[{\"KV\":{\"Verb\":\"check-session\",\"Key\":\"" NODE "\","
		"\"Session\":\"" SESSION "\"}},"
		"{\"KV\":{\"Verb\":\"check-index\",\"Key\":\"" KEY "\","
		"\"Index\":7}},"
		"{\"KV\":{\"Verb\":\"lock\",\"Key\":\"" KEY "\","
		"\"Session\":\"" SESSION "\",\"Flags\":" FLAG ",\"Value\":"
		"{\"proto\":1,\"node\":\"n1\",\"session\":\"" SESSION "\","
	"\"lease_ms\":15000,\"released\":false}}}]"},
	{LE_OP_RELEASE, "PUT", "/v1/txn",
		"[{\"KV\":{\"Verb\":\"check-index\",\"Key\":\"" KEY "\","
		"\"Index\":7}},"
		"{\"KV\":{\"Verb\":\"unlock\",\"Key\":\"" KEY "\","
		"\"Session\":\"" SESSION "\",\"Flags\":" FLAG ",\"Value\":"
		"{\"proto\":1,\"node\":\"n1\",\"session\":\"" SESSION "\","
	"\"lease_ms\":15000,\"released\":true}}}]"},
	{LE_OP_READ_CLAIM, "GET", "/v1/kv/" CLAIM_KEY "?consistent"},
	{LE_OP_CLAIM, "PUT", "/v1/txn",
		"[{\"KV\":{\"Verb\":\"check-session\",\"Key\":\"" NODE "\","
		"\"Session\":\"" SESSION "\"}},"
		"{\"KV\":{\"Verb\":\"check-session\",\"Key\":\"" KEY "\","
		"\"Session\":\"" SESSION "\"}},"
		"{\"KV\":{\"Verb\":\"check-index\",\"Key\":\"" KEY "\","
		"\"Index\":7}},"
		"{\"KV\":{\"Verb\":\"check-index\",\"Key\":\"" CLAIM_KEY "\","
		"\"Index\":8}},"
		"{\"KV\":{\"Verb\":\"set\",\"Key\":\"" CLAIM_KEY "\","
	"\"Flags\":" FLAG ",\"Value\":" CLAIM_TEXT "}}]"},
	{LE_OP_COMPLETE, "PUT", "/v1/txn",
		"[{\"KV\":{\"Verb\":\"check-index\",\"Key\":\"" CLAIM_KEY "\","
		"\"Index\":8}},"
		"{\"KV\":{\"Verb\":\"set\",\"Key\":\"" CLAIM_KEY "\","
	"\"Flags\":" FLAG ",\"Value\":" CLAIM_TEXT "}}]"},
	{LE_OP_LIST_CLAIMS, "GET",
	"/v1/kv/leader_election.claims/?recurse&consistent"},
	{LE_OP_WATCH, "GET", "/v1/kv/leader_election/?recurse"},
	{LE_OP_WATCH_NEWS, "GET", "/v1/kv/leader_election.nodes/news/?recurse"},
	{LE_OP_LIST_NODES, "GET", "/v1/kv/leader_election.nodes/?recurse&stale"},
	{LE_OP_SESSION_NAME, "GET", "/v1/session/info/" SESSION},
};

static void
test_requests(void **state)
{
	/* all but RENEW_TERMS, which is for stores with leases per key */
	assert_int_equal(lengthof(requests), LE_OP_SESSION_NAME);
	for (int i = 0; i < lengthof(requests); i++)
	{
		const RequestCase *c = &requests[i];
		LeOp		op = test_op(c->kind);
		LeRequest r = encode(&test_namespace, &op);

		assert_string_equal(r.http.method, c->method);
		assert_string_equal(r.http.path.data, c->path);
		assert_int_equal(r.http.has_body, c->body != NULL);
		assert_string_equal(readable(r.http.body.data), c->body ? c->body :
							"");
		assert_true(r.http.body.len == 0 || r.http.has_body);
		assert_true(r.http.body.len == 0 ||
					le_json_walk(r.http.body.data, r.http.body.len, NULL,
								 NULL));
	}
}

/* Each write of election keys takes news along, as the last steps. */
static void
test_takes_news(void **state)
{
	static const LeOpKind kinds[] = {
		LE_OP_ACQUIRE, LE_OP_TAKE_OVER, LE_OP_PUBLISH, LE_OP_RELEASE
	};

	for (int i = 0; i < lengthof(kinds); i++)
	{
		LeOp		op = test_op(kinds[i]);
		const char *without = readable(encode(&test_namespace,
											  &op).http.body.data);

		add_test_news(&op);
		assert_string_equal(readable(encode(&test_namespace,
											&op).http.body.data),
							psprintf("%.*s," NEWS_STEP "]",
									 (int) strlen(without) - 1, without));
	}
}

/* A key that never existed is taken only where Patroni keeps nothing. */
static void
test_acquire_new(void **state)
{
	LeOp		op = test_op(LE_OP_ACQUIRE);

	op.index = 0;
	op.value = "{\"a\":1}";
	assert_string_equal(readable(encode(&test_namespace, &op).http.body.data),
						"[{\"KV\":{\"Verb\":\"check-session\","
						"\"Key\":\"" NODE "\",\"Session\":\"" SESSION "\"}},"
						"{\"KV\":{\"Verb\":\"check-not-exists\","
						"\"Key\":\"leader_election/billing/config\"}},"
						"{\"KV\":{\"Verb\":\"check-not-exists\","
						"\"Key\":\"leader_election/billing/initialize\"}},"
						"{\"KV\":{\"Verb\":\"check-not-exists\","
						"\"Key\":\"" KEY "\"}},"
						"{\"KV\":{\"Verb\":\"lock\",\"Key\":\"" KEY "\","
						"\"Session\":\"" SESSION "\",\"Flags\":" FLAG ","
						"\"Value\":{\"proto\":1,\"node\":\"n1\","
						"\"session\":\"" SESSION "\",\"value\":{\"a\":1},"
						"\"lease_ms\":15000,\"released\":false}}}]");
}

/*
 * A takeover from a holder whose session the store has ended, and of further
 * elections of a marked one: other checks, the same end.
 */
static void
test_take_over_dead(void **state)
{
	LeOp		op = test_op(LE_OP_TAKE_OVER);
	LeNodeKey	dead = *op.takeover.target;
	const char *rest = "{\"KV\":{\"Verb\":\"check-session\","
		"\"Key\":\"" NODE "\",\"Session\":\"" SESSION "\"}},"
		"{\"KV\":{\"Verb\":\"check-index\",\"Key\":\"" KEY "\","
		"\"Index\":7}},"
		"{\"KV\":{\"Verb\":\"check-session\",\"Key\":\"" KEY "\","
		"\"Session\":\"\"}},"
		"{\"KV\":{\"Verb\":\"lock\",\"Key\":\"" KEY "\","
		"\"Session\":\"" SESSION "\",\"Flags\":" FLAG ",\"Value\":" TAKEN
		"}}]";
	const char *start = "[{\"KV\":{\"Verb\":\"check-index\","
		"\"Key\":\"" OTHER_NODE "\",\"Index\":5}},"
		"{\"KV\":{\"Verb\":\"check-session\",\"Key\":\"" OTHER_NODE "\","
		"\"Session\":\"\"}},";
	const char *mark = "{\"KV\":{\"Verb\":\"cas\",\"Key\":\"" OTHER_NODE
		"\",\"Index\":5,\"Flags\":" FLAG ",\"Value\":" MARKED "}},";

	dead.held = false;
	op.takeover.target = &dead;
	op.takeover.target_holds = false;
	assert_string_equal(readable(encode(&test_namespace, &op).http.body.data),
						psprintf("%s%s%s", start, mark, rest));
	dead.revoked = true;
	assert_string_equal(readable(encode(&test_namespace, &op).http.body.data),
						psprintf("%s%s", start, rest));
}

static const char *
path_of(LeOpKind kind, const char *prefix, const char *dc)
{
	LeNamespace		ns = {""};
	LeOp		op = test_op(kind);

	strlcpy(ns.prefix, prefix, sizeof(ns.prefix));
	strlcpy(ns.part, dc, sizeof(ns.part));
	op.watch.index = 12;
	return encode(&ns, &op).http.path.data;
}

/* The first claim of a job; a job whose name cannot stand in a URL. */
static void
test_claim_new(void **state)
{
	LeOp		op = test_op(LE_OP_CLAIM);
	LeRequest r;

	op.claim.previous = NULL;
	r = encode(&test_namespace, &op);
	assert_non_null(strstr(r.http.body.data,
						   "{\"KV\":{\"Verb\":\"check-not-exists\","
						   "\"Key\":\"" CLAIM_KEY "\"}},"));
	op = test_op(LE_OP_READ_CLAIM);
	op.claim.job = "../a b/\xc3\xa4%";
	r = encode(&test_namespace, &op);
	assert_string_equal(r.http.path.data,
						"/v1/kv/leader_election.claims/billing/"
						"%252E.%252Fa%2520b%252F%25C3%25A4%2525?consistent");
}

static void
test_paths(void **state)
{
	assert_string_equal(path_of(LE_OP_READ, "p", ""),
						"/v1/kv/p/billing/leader?consistent");
	assert_string_equal(path_of(LE_OP_READ, "p", "dc 1&x"),
						"/v1/kv/p/billing/leader?dc=dc%201%26x&consistent");
	assert_string_equal(path_of(LE_OP_READ, "/a b/\xc3\xa4?#%/", ""),
						"/v1/kv/a%20b/%C3%A4%3F%23%25/billing/leader"
						"?consistent");
	assert_string_equal(path_of(LE_OP_LIST_NODES, "p/", ""),
						"/v1/kv/p.nodes/?recurse&stale");
	assert_string_equal(path_of(LE_OP_ACQUIRE, "p", "dc1"),
						"/v1/txn?dc=dc1");
	assert_string_equal(path_of(LE_OP_RENEW_SESSION, "p", "dc1"),
						"/v1/session/renew/" SESSION "?dc=dc1");
	assert_string_equal(path_of(LE_OP_CREATE_SESSION, "p", "dc1"),
						"/v1/session/create?dc=dc1");
	assert_string_equal(path_of(LE_OP_WATCH, "p", ""),
						"/v1/kv/p/?recurse&index=12&wait=30000ms");
}

static void
test_odd_names(void **state)
{
	LeNamespace		ns = {"a\"b\\c", ""};
	LeOp		op = test_op(LE_OP_RELEASE);
	LeRequest r;

	op.node_name = "n\"1\\";
	r = encode(&ns, &op);
	assert_non_null(strstr(r.http.body.data,
						   "\"Key\":\"a\\\"b\\\\c/billing/"));
	assert_non_null(strstr(readable(r.http.body.data),
						   "\"node\":\"n\\\"1\\\\\""));
	op.kind = LE_OP_CREATE_SESSION;
	r = encode(&ns, &op);
	assert_non_null(strstr(r.http.body.data,
						   "\"Name\":\"leader_election: n\\\"1\\\\\""));
}

/* The TTL is never shorter than the lease, and the lock-delay is the same. */
static void
test_lease_rounding(void **state)
{
	LeOp		op = test_op(LE_OP_CREATE_SESSION);

	op.lease = 15 * LE_SEC + 1;
	assert_non_null(strstr(encode(&test_namespace, &op).http.body.data,
						   "\"TTL\":\"16s\",\"LockDelay\":\"16s\""));
	op.lease = 60 * LE_SEC;
	assert_non_null(strstr(encode(&test_namespace, &op).http.body.data,
						   "\"TTL\":\"60s\",\"LockDelay\":\"60s\""));
	op.kind = LE_OP_REGISTER_NODE;
	op.lease = 15500 * LE_MSEC;
	assert_non_null(strstr(readable(encode(&test_namespace,
										   &op).http.body.data),
						   "\"lease_ms\":15500,"));
}

/* The system identifier, which needs all 64 bits, is text. */
static void
test_system_is_told(void **state)
{
	LeOp		op = test_op(LE_OP_PROVE_NODE);

	assert_null(strstr(readable(encode(&test_namespace, &op).http.body.data),
					   "\"system\""));
	op.proof.systems.ids[0] = PG_UINT64_MAX;
	op.proof.since = 7;
	assert_non_null(strstr(readable(encode(&test_namespace,
										   &op).http.body.data),
						   ",\"system\":\"18446744073709551615\",\"since\":7}"));
	op.proof.systems.ids[1] = 6;
	op.proof.systems.ids[2] = 5;
	assert_non_null(strstr(readable(encode(&test_namespace,
										   &op).http.body.data),
						   ",\"earlier_systems\":[\"6\",\"5\"],\"since\":7}"));
}

static void
test_proof_size(void **state)
{
	LeOp		op = test_op(LE_OP_PROVE_NODE);
	const char *names[LE_MAX_CHECKED_KEYS + 5];
	int			steps = 0;
	const char *s;

	for (int i = 0; i < lengthof(names); i++)
		names[i] = "x";
	op.proof.held = names;
	op.proof.nheld = LE_MAX_CHECKED_KEYS;
	s = encode(&test_namespace, &op).http.body.data;
	while ((s = strstr(s, "\"Verb\"")) != NULL)
	{
		steps++;
		s++;
	}
	assert_int_equal(steps, LE_MAX_CHECKED_KEYS + 2);
}

/* ---- values ---- */

static void
test_values(void **state)
{
	static const char *const values[] = {
		NULL, "", "plain", "null", "\"quoted\"", "{\"host\": \"db1\"}",
		"[1, [2], {}]", "42", "-1.50e+3", "true", "false", " {} ", "{",
		"two\nlines\t\r\b\001\177", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
		"{\"a\":\"\\u0000\\ud800\"}", "</script>", "\\", "\"", "{}x", "1 ",
		"{\"released\":true,\"session\":\"x\"}", "\\u0041", "184467440737095516160"
	};
	char		longest[LE_MAX_VALUE_LEN + 1];

	for (int i = 0; i < lengthof(values); i++)
		check_value(values[i]);
	memset(longest, '\001', LE_MAX_VALUE_LEN);
	longest[LE_MAX_VALUE_LEN] = '\0';
	check_value(longest);
	memset(longest, '7', LE_MAX_VALUE_LEN);
	check_value(longest);
	memset(longest, '[', LE_MAX_VALUE_LEN / 2);
	memset(longest + LE_MAX_VALUE_LEN / 2, ']', LE_MAX_VALUE_LEN / 2);
	check_value(longest);
}

/* ---- answers ---- */

static int	nparts;				/* the last answer's */

static LeAnswer
decode(const LeOp *op, const LeResponse *response)
{
	LeAnswer	answer;


	memset(&answer, 0xff, sizeof(answer));
	le_store_consul.codec.decode(&test_namespace, op, response, &answer);
	for (nparts = 1; answer.outcome == LE_DONE &&
		 answer.wire.rest != 0; nparts++)
	{
		LeOp		next = *op;

		assert_true(answer.wire.rest > next.wire.from);
		next.wire.from = answer.wire.rest;
		le_store_consul.codec.decode(&test_namespace, &next, response,
									 &answer);
	}
	check_answer(op, response, &answer);
	return answer;
}

static LeResponse
response(int status, const char *type, const char *body)
{
	LeResponse r;

	memset(&r, 0, sizeof(r));
	r.http.status = status;
	r.http.content_type = type;
	r.body_len = strlen(body);
	/* not terminated, so that the sanitizer sees reads past the end */
	r.body = memcpy(palloc(Max(r.body_len, 1)), body, r.body_len);
	return r;
}

static LeAnswer
answer_to(LeOpKind kind, int status, const char *type, const char *body)
{
	LeOp		op = test_op(kind);
	LeResponse r = response(status, type, body);

	return decode(&op, &r);
}

/* Status and text of an error, and its meaning for a write and a read. */
typedef struct ErrorCase
{
	int			status;
	const char *type;
	const char *text;
	LeOutcome	write;
	LeOutcome	read;
	LeCause		cause;
} ErrorCase;

static const ErrorCase errors[] = {
	/* may have been applied, or may yet be */
	{500, TEXT, "rpc error making call: EOF", LE_UNKNOWN, LE_UNAVAILABLE},
	{500, TEXT, "rpc error making call: rpc error making call: EOF",
	LE_UNKNOWN, LE_UNAVAILABLE},
	{500, TEXT, "rpc error making call: i/o deadline reached", LE_UNKNOWN,
	LE_UNAVAILABLE},
	{500, TEXT, "raft apply failed: leadership lost while committing log",
	LE_UNKNOWN, LE_UNAVAILABLE},
	{500, TEXT, "apply failed: leadership lost while committing log",
	LE_UNKNOWN, LE_UNAVAILABLE},
	{500, TEXT, "snapshot restored while committing log", LE_UNKNOWN,
	LE_UNAVAILABLE},
	{500, TEXT, "raft is already shutdown", LE_UNKNOWN, LE_UNAVAILABLE},
	{500, TEXT, "something new", LE_UNKNOWN, LE_UNAVAILABLE},
	{500, TEXT, "", LE_UNKNOWN, LE_UNAVAILABLE},
	{500, HTML, "<p>No cluster leader</p>", LE_UNKNOWN, LE_UNAVAILABLE},
	/* the graver of two counts */
	{500, TEXT, "No cluster leader; rpc error making call: EOF", LE_UNKNOWN,
	LE_UNAVAILABLE},
	{502, HTML, "<html>Bad Gateway</html>", LE_UNKNOWN, LE_UNAVAILABLE},
	{503, HTML, "<html>Service Unavailable</html>", LE_UNKNOWN,
	LE_UNAVAILABLE},
	{503, TEXT, "upstream reset", LE_UNKNOWN, LE_UNAVAILABLE},
	{504, HTML, "<html>Gateway Timeout</html>", LE_UNKNOWN, LE_UNAVAILABLE},
	{408, TEXT, "Request Timeout", LE_UNKNOWN, LE_UNAVAILABLE},
	{204, "", "", LE_UNKNOWN, LE_UNAVAILABLE},
	{206, JSON, "[]", LE_UNKNOWN, LE_UNAVAILABLE},
	{0, "", "", LE_UNKNOWN, LE_UNAVAILABLE},
	{100, "", "", LE_UNKNOWN, LE_UNAVAILABLE},
	{600, "", "", LE_UNKNOWN, LE_UNAVAILABLE},
	{-1, "", "", LE_UNKNOWN, LE_UNAVAILABLE},

	/* never applied */
	{500, TEXT, "No cluster leader", LE_UNAVAILABLE, LE_UNAVAILABLE},
	{500, TEXT, "rpc error making call: No cluster leader", LE_UNAVAILABLE,
	LE_UNAVAILABLE},
	{500, TEXT, "No known Consul servers", LE_UNAVAILABLE, LE_UNAVAILABLE},
	{500, TEXT, "rpc error getting client: failed to get conn: EOF",
	LE_UNAVAILABLE, LE_UNAVAILABLE},
	{500, TEXT, "Raft leader not found in server lookup mapping",
	LE_UNAVAILABLE, LE_UNAVAILABLE},
	{500, TEXT, "raft apply failed: node is not the leader", LE_UNAVAILABLE,
	LE_UNAVAILABLE},
	{500, TEXT, "leadership transfer in progress", LE_UNAVAILABLE,
	LE_UNAVAILABLE},
	{500, TEXT, "timed out enqueuing operation", LE_UNAVAILABLE,
	LE_UNAVAILABLE},
	{500, TEXT, "Not ready to serve consistent reads", LE_UNAVAILABLE,
	LE_UNAVAILABLE},
	{500, TEXT, "No path to datacenter", LE_UNAVAILABLE, LE_UNAVAILABLE},
	{500, TEXT, "Missing node registration", LE_UNAVAILABLE, LE_UNAVAILABLE},
	{500, TEXT, "Missing check 'serfHealth' registration", LE_UNAVAILABLE,
	LE_UNAVAILABLE},
	{500, TEXT, "Check 'x' is in critical state", LE_UNAVAILABLE,
	LE_UNAVAILABLE},
	{429, TEXT, "Your IP is issuing too many concurrent connections, please "
	"rate limit your calls\n", LE_UNAVAILABLE, LE_UNAVAILABLE},
	{429, TEXT, "rate limit exceeded, try again later or against a different "
	"server", LE_UNAVAILABLE, LE_UNAVAILABLE},
	{503, TEXT, "rate limit exceeded for operation that can only be performed "
	"by the leader, try again later", LE_UNAVAILABLE, LE_UNAVAILABLE},
	{404, TEXT, "404 page not found", LE_UNAVAILABLE, LE_UNAVAILABLE},
	{404, HTML, "<html>Not Found</html>", LE_UNAVAILABLE, LE_UNAVAILABLE},
	{404, "", "", LE_UNAVAILABLE, LE_UNAVAILABLE},

	/* permission or configuration */
	{403, TEXT, "Permission denied: token with AccessorID 'x' lacks "
	"permission 'key:write' on \"y\"", LE_REFUSED, LE_REFUSED,
	LE_CAUSE_PERMISSION},
	{403, TEXT, "rpc error making call: ACL not found", LE_REFUSED,
	LE_REFUSED, LE_CAUSE_STRANGER},
	{500, TEXT, "rpc error making call: Permission denied", LE_REFUSED,
	LE_REFUSED, LE_CAUSE_PERMISSION},
	{500, TEXT, "ACL not found", LE_REFUSED, LE_REFUSED, LE_CAUSE_STRANGER},
	{403, TEXT, "Endpoint is blocked by agent configuration", LE_REFUSED,
	LE_REFUSED, LE_CAUSE_SETTING},
	{403, TEXT, "Access is restricted", LE_REFUSED, LE_REFUSED,
	LE_CAUSE_SETTING},
	{403, HTML, "<html>Forbidden</html>", LE_REFUSED, LE_REFUSED},
	{401, HTML, "<html>Unauthorized</html>", LE_REFUSED, LE_REFUSED},
	{400, TEXT, "Client sent an HTTP request to an HTTPS server.\n",
	LE_REFUSED, LE_REFUSED},
	{405, TEXT, "method GET not allowed", LE_REFUSED, LE_REFUSED},
	{413, TEXT, "Request body(700000 bytes) too large", LE_REFUSED,
	LE_REFUSED},
	{500, TEXT, "Invalid Session TTL '5000000000', must be between "
	"[10s=24h0m0s]", LE_REFUSED, LE_REFUSED, LE_CAUSE_SETTING},
	{500, TEXT, "invalid key name, keys should respect the ...", LE_REFUSED,
	LE_REFUSED},
	{500, TEXT, "cross datacenter lock must be created at server agent",
	LE_REFUSED, LE_REFUSED, LE_CAUSE_SETTING},
	{301, HTML, "<a href=\"/x\">Moved</a>", LE_REFUSED, LE_REFUSED,
	LE_CAUSE_NOT_STORE},
	{302, TEXT, "No cluster leader", LE_REFUSED, LE_REFUSED,
	LE_CAUSE_NOT_STORE},
	{307, HTML, "", LE_REFUSED, LE_REFUSED, LE_CAUSE_NOT_STORE},
	{308, "", "", LE_REFUSED, LE_REFUSED, LE_CAUSE_NOT_STORE},

	/* JSON, but no answer */
	{200, JSON, "", LE_UNKNOWN, LE_UNAVAILABLE},
	{200, JSON, "null", LE_UNKNOWN, LE_UNAVAILABLE},
	{200, JSON, "{}", LE_UNKNOWN, LE_UNAVAILABLE},
	{200, JSON, "\"ok\"", LE_UNKNOWN, LE_UNAVAILABLE},
	{200, JSON, "[{}]", LE_UNKNOWN, LE_UNAVAILABLE},
	{200, JSON, "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", LE_UNKNOWN,
	LE_UNAVAILABLE},
	{200, HTML, "<html>Sign in</html>", LE_UNKNOWN, LE_UNAVAILABLE},
	{200, TEXT, "No cluster leader", LE_UNKNOWN, LE_UNAVAILABLE},
};

static void
test_errors(void **state)
{
	for (int i = 0; i < lengthof(errors); i++)
	{
		const ErrorCase *c = &errors[i];

		for (int kind = 0; kind <= LE_OP_SESSION_NAME; kind++)
		{
			LeAnswer	a = answer_to(kind, c->status, c->type, c->text);
			LeOutcome	expect = le_op_writes(kind) ? c->write : c->read;

			if (a.outcome != expect)
				fail_msg("%d \"%s\": %s is %s, not %s", c->status, c->text,
						 le_op_name(kind), le_outcome_name(a.outcome),
						 le_outcome_name(expect));
			if (a.cause != c->cause)
				fail_msg("%d \"%s\": cause %d", c->status, c->text, a.cause);
		}
	}
}

/* Only an explicit answer ends the session, and only for its own. */
static void
test_session_lost(void **state)
{
	static const struct
	{
		LeOpKind	kind;
		int			status;
		const char *text;
		LeOutcome	outcome;
	}			cases[] = {
		{LE_OP_RENEW_SESSION, 404, "Session id '" SESSION "' not found",
		LE_LOST},
		{LE_OP_RENEW_SESSION, 404, "Session id '" FOREIGN "' not found",
		LE_UNAVAILABLE},
		{LE_OP_RENEW_SESSION, 404, "Invalid URL path", LE_UNAVAILABLE},
		{LE_OP_RENEW_SESSION, 404, "", LE_UNAVAILABLE},
		{LE_OP_ACQUIRE, 404, "Session id '" SESSION "' not found",
		LE_UNAVAILABLE},
		{LE_OP_RENEW_SESSION, 500, "rpc error making call: rpc error making "
		"call: invalid session \"" SESSION "\"", LE_LOST},
		{LE_OP_ACQUIRE, 500, "invalid session \"" SESSION "\"", LE_LOST},
		{LE_OP_PROVE_NODE, 500, "invalid session \"" SESSION "\"", LE_LOST},
		{LE_OP_CREATE_SESSION, 500, "invalid session \"x\"", LE_UNKNOWN},
		{LE_OP_DESTROY_SESSION, 500, "invalid session \"x\"", LE_UNKNOWN},
		{LE_OP_READ, 500, "invalid session \"x\"", LE_UNAVAILABLE},
		{LE_OP_RENEW_SESSION, 408, "invalid session", LE_UNKNOWN},
		{LE_OP_RENEW_SESSION, 409, "invalid session", LE_UNKNOWN},
		{LE_OP_RENEW_SESSION, 403, "Permission denied", LE_REFUSED},
		{LE_OP_RENEW_SESSION, 500, "No cluster leader", LE_UNAVAILABLE},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeAnswer	a = answer_to(cases[i].kind, cases[i].status, TEXT,
								  cases[i].text);

		if (a.outcome != cases[i].outcome)
			fail_msg("%s, %d \"%s\": %s", le_op_name(cases[i].kind),
					 cases[i].status, cases[i].text,
					 le_outcome_name(a.outcome));
	}
}

static void
test_network(void **state)
{
	for (int kind = 0; kind <= LE_OP_SESSION_NAME; kind++)
	{
		LeOp		op = test_op(kind);
		LeResponse r = response(200, JSON, "true");
		LeAnswer	a;

		r.net = LE_NET_NOT_SENT;
		r.net_error = "connection\nrefused";
		a = decode(&op, &r);
		assert_int_equal(a.outcome, LE_UNAVAILABLE);
		assert_string_equal(a.detail, "connection refused");
		r.net = LE_NET_BROKEN;
		r.net_error = NULL;
		a = decode(&op, &r);
		assert_int_equal(a.outcome, le_op_writes(kind) ?
						 LE_UNKNOWN : LE_UNAVAILABLE);
		r.net = LE_NET_UNTAKEN;
		r.net_error = "the answer is too large";
		a = decode(&op, &r);
		assert_int_equal(a.outcome, le_op_writes(kind) ?
						 LE_UNKNOWN : LE_REFUSED);
		assert_string_equal(a.detail, r.net_error);
		assert_true(a.wire.untaken);
	}
}

/* A failed transaction: operation, its errors, their meaning. */
typedef struct TxnCase
{
	LeOpKind	kind;
	uint64		index;
	const char *errors;
	LeOutcome	outcome;
	LeConflict	conflict;
} TxnCase;

#define ERR(n, what)	"{\"OpIndex\":" #n ",\"What\":\"" what "\"}"
#define BAD_SESSION		"failed session check for key \\\"k\\\", current " \
	"session \\\"" FOREIGN "\\\" != \\\"" SESSION "\\\""
#define NO_KEY			"failed to check session, key \\\"k\\\" doesn't exist"
#define BAD_INDEX		"failed index check for key \\\"k\\\", current modify " \
	"index 22 != 20"
#define EXISTS			"key \\\"k\\\" exists"
#define IS_HELD			"failed to lock key \\\"k\\\", lock is already held"
#define DELAYED			"failed to lock key \\\"k\\\" due to lock delay"
#define NOT_HELD		"failed to unlock key \\\"k\\\", lock isn't held, or " \
	"is held by another session"
#define INVALID			"invalid session \\\"" SESSION "\\\""
#define DENIED			"Permission denied: token with AccessorID 'x' lacks " \
	"permission 'key:write' on \\\"k\\\""

static const TxnCase transactions[] = {
	{LE_OP_REGISTER_NODE, 0, ERR(0, EXISTS), LE_CONFLICT,
	LE_CONFLICT_CHANGED},
	{LE_OP_REGISTER_NODE, 0, ERR(0, EXISTS) "," ERR(1, IS_HELD), LE_CONFLICT,
	LE_CONFLICT_HELD},
	{LE_OP_REGISTER_NODE, 0, ERR(1, INVALID), LE_LOST},
	{LE_OP_REGISTER_NODE, 0, ERR(1, DENIED), LE_REFUSED},

	{LE_OP_PROVE_NODE, 0, ERR(0, BAD_SESSION), LE_LOST},
	{LE_OP_PROVE_NODE, 0, ERR(0, NO_KEY), LE_LOST},
	{LE_OP_PROVE_NODE, 0, ERR(0, NO_KEY) "," ERR(1, INVALID), LE_LOST},
	{LE_OP_PROVE_NODE, 0, ERR(1, INVALID), LE_LOST},
	{LE_OP_PROVE_NODE, 0, ERR(1, DELAYED), LE_LOST},
	{LE_OP_PROVE_NODE, 0, ERR(1, IS_HELD), LE_LOST},
	{LE_OP_PROVE_NODE, 0, ERR(1, "something new"), LE_LOST},
	{LE_OP_PROVE_NODE, 0, ERR(2, BAD_SESSION) "," ERR(0, NO_KEY), LE_LOST},
	{LE_OP_PROVE_NODE, 0, ERR(2, BAD_SESSION), LE_CONFLICT},
	{LE_OP_PROVE_NODE, 0, ERR(2, NO_KEY) "," ERR(4, BAD_SESSION),
	LE_CONFLICT},
	{LE_OP_PROVE_NODE, 0, ERR(1, DENIED), LE_REFUSED},
	{LE_OP_PROVE_NODE, 0, ERR(2, DENIED) "," ERR(3, NO_KEY), LE_REFUSED},
	{LE_OP_PROVE_NODE, 0, ERR(5, NO_KEY), LE_UNKNOWN},

	{LE_OP_ACQUIRE, 7, ERR(0, BAD_SESSION), LE_LOST},
	{LE_OP_ACQUIRE, 7, ERR(0, NO_KEY) "," ERR(1, BAD_INDEX), LE_LOST},
	{LE_OP_ACQUIRE, 7, ERR(1, BAD_INDEX), LE_CONFLICT, LE_CONFLICT_CHANGED},
	{LE_OP_ACQUIRE, 7, ERR(1, BAD_INDEX) "," ERR(2, IS_HELD), LE_CONFLICT,
	LE_CONFLICT_HELD},
	{LE_OP_ACQUIRE, 7, ERR(2, IS_HELD), LE_CONFLICT, LE_CONFLICT_HELD},
	{LE_OP_ACQUIRE, 7, ERR(2, DELAYED), LE_CONFLICT, LE_CONFLICT_LOCK_DELAY},
	{LE_OP_ACQUIRE, 7, ERR(2, INVALID), LE_LOST},
	{LE_OP_ACQUIRE, 7, ERR(2, DENIED), LE_REFUSED},
	{LE_OP_ACQUIRE, 7, ERR(2, "ACL not found"), LE_REFUSED},
	{LE_OP_ACQUIRE, 7, ERR(2, "something new"), LE_CONFLICT,
	LE_CONFLICT_CHANGED},
	{LE_OP_ACQUIRE, 0, ERR(1, EXISTS), LE_REFUSED},
	{LE_OP_ACQUIRE, 0, ERR(2, EXISTS), LE_REFUSED},
	{LE_OP_ACQUIRE, 0, ERR(3, EXISTS), LE_CONFLICT, LE_CONFLICT_CHANGED},
	{LE_OP_ACQUIRE, 0, ERR(3, EXISTS) "," ERR(4, IS_HELD), LE_CONFLICT,
	LE_CONFLICT_HELD},
	{LE_OP_ACQUIRE, 0, ERR(1, EXISTS) "," ERR(3, EXISTS), LE_REFUSED},
	{LE_OP_ACQUIRE, 0, ERR(4, DELAYED), LE_CONFLICT, LE_CONFLICT_LOCK_DELAY},
	{LE_OP_ACQUIRE, 7, ERR(3, EXISTS), LE_UNKNOWN},

	{LE_OP_TAKE_OVER, 7, ERR(0, BAD_INDEX), LE_CONFLICT,
	LE_CONFLICT_CHANGED},
	{LE_OP_TAKE_OVER, 7, ERR(1, BAD_SESSION), LE_CONFLICT, LE_CONFLICT_HELD},
	{LE_OP_TAKE_OVER, 7, ERR(2, NOT_HELD), LE_CONFLICT, LE_CONFLICT_CHANGED},
	{LE_OP_TAKE_OVER, 7, ERR(3, BAD_SESSION) "," ERR(4, BAD_INDEX), LE_LOST},
	{LE_OP_TAKE_OVER, 7, ERR(4, BAD_INDEX) "," ERR(5, NOT_HELD) ","
		ERR(6, IS_HELD), LE_CONFLICT, LE_CONFLICT_HELD},
	{LE_OP_TAKE_OVER, 7, ERR(6, DELAYED), LE_CONFLICT,
	LE_CONFLICT_LOCK_DELAY},
	{LE_OP_TAKE_OVER, 7, ERR(6, INVALID), LE_LOST},
	{LE_OP_TAKE_OVER, 7, ERR(5, DENIED), LE_REFUSED},
	{LE_OP_TAKE_OVER, 7, ERR(7, NO_KEY), LE_UNKNOWN},

	{LE_OP_PUBLISH, 7, ERR(0, BAD_SESSION), LE_LOST},
	{LE_OP_PUBLISH, 7, ERR(1, BAD_INDEX), LE_CONFLICT, LE_CONFLICT_CHANGED},
	{LE_OP_PUBLISH, 7, ERR(1, BAD_INDEX) "," ERR(2, IS_HELD), LE_CONFLICT,
	LE_CONFLICT_HELD},

	{LE_OP_RELEASE, 7, ERR(0, BAD_INDEX), LE_CONFLICT, LE_CONFLICT_CHANGED},
	{LE_OP_RELEASE, 7, ERR(1, NOT_HELD), LE_CONFLICT, LE_CONFLICT_CHANGED},
	{LE_OP_RELEASE, 7, ERR(1, DENIED), LE_REFUSED},

	{LE_OP_CLAIM, 7, ERR(0, BAD_SESSION), LE_LOST},
	{LE_OP_CLAIM, 7, ERR(0, NO_KEY) "," ERR(3, BAD_INDEX), LE_LOST},
	{LE_OP_CLAIM, 7, ERR(1, BAD_SESSION), LE_CONFLICT, LE_CONFLICT_HELD},
	{LE_OP_CLAIM, 7, ERR(1, BAD_SESSION) "," ERR(2, BAD_INDEX), LE_CONFLICT,
	LE_CONFLICT_HELD},
	{LE_OP_CLAIM, 7, ERR(1, NO_KEY) "," ERR(2, BAD_INDEX), LE_CONFLICT,
	LE_CONFLICT_CHANGED},
	{LE_OP_CLAIM, 7, ERR(2, BAD_INDEX), LE_CONFLICT, LE_CONFLICT_CHANGED},
	{LE_OP_CLAIM, 7, ERR(3, BAD_INDEX), LE_CONFLICT, LE_CONFLICT_CHANGED},
	{LE_OP_CLAIM, 7, ERR(4, DENIED), LE_REFUSED},
	{LE_OP_CLAIM, 7, ERR(5, NO_KEY), LE_UNKNOWN},

	{LE_OP_COMPLETE, 7, ERR(0, BAD_INDEX), LE_CONFLICT, LE_CONFLICT_CHANGED},
	{LE_OP_COMPLETE, 7, ERR(1, DENIED), LE_REFUSED},

	{LE_OP_REVOKE_NODE, 0, ERR(0, NO_KEY), LE_CONFLICT, LE_CONFLICT_CHANGED},
	{LE_OP_REVOKE_NODE, 0, ERR(0, BAD_SESSION), LE_CONFLICT,
	LE_CONFLICT_HELD},
	{LE_OP_REVOKE_NODE, 0, ERR(1, DENIED), LE_REFUSED},
	{LE_OP_FORGET_NODE, 0, ERR(0, NO_KEY), LE_CONFLICT, LE_CONFLICT_CHANGED},
	{LE_OP_FORGET_NODE, 0, ERR(0, BAD_SESSION), LE_CONFLICT,
	LE_CONFLICT_HELD},

	/* 409, but not Consul's */
	{LE_OP_ACQUIRE, 7, "", LE_UNKNOWN},
	{LE_OP_ACQUIRE, 7, "{}", LE_UNKNOWN},
	{LE_OP_ACQUIRE, 7, "{\"What\":\"x\"}", LE_UNKNOWN},
	{LE_OP_ACQUIRE, 7, "{\"OpIndex\":1}", LE_UNKNOWN},
	{LE_OP_ACQUIRE, 7, ERR(-1, BAD_INDEX), LE_UNKNOWN},
	{LE_OP_ACQUIRE, 7, ERR(1.0, BAD_INDEX), LE_UNKNOWN},
	{LE_OP_ACQUIRE, 7, ERR(18446744073709551615, BAD_INDEX), LE_UNKNOWN},
	{LE_OP_ACQUIRE, 7, "1", LE_UNKNOWN},
	{LE_OP_ACQUIRE, 7, ERR(1, BAD_INDEX) ",1", LE_UNKNOWN},
};

static void
test_transactions(void **state)
{
	for (int i = 0; i < lengthof(transactions); i++)
	{
		const TxnCase *c = &transactions[i];
		LeOp		op = test_op(c->kind);
		LeResponse r;
		LeAnswer	a;

		op.index = c->index;
		r = response(409, JSON, psprintf("{\"Results\":null,\"Errors\":[%s]}",
										 c->errors));
		a = decode(&op, &r);
		if (a.outcome != c->outcome)
			fail_msg("%s, %s: %s", le_op_name(c->kind), c->errors,
					 le_outcome_name(a.outcome));
		if (a.outcome == LE_CONFLICT && a.conflict != c->conflict)
			fail_msg("%s, %s: conflict %d", le_op_name(c->kind), c->errors,
					 a.conflict);
		if ((a.cause == LE_CAUSE_PERMISSION) !=
			(a.outcome == LE_REFUSED && strstr(c->errors, EXISTS) == NULL))
			fail_msg("%s, %s: cause %d", le_op_name(c->kind), c->errors,
					 a.cause);
		/* with a status of success, the outcome is unknown */
		r.http.status = 200;
		a = decode(&op, &r);
		assert_int_equal(a.outcome, LE_UNKNOWN);
	}
}

static void
test_lost_positions(void **state)
{
	LeAnswer	a = answer_to(LE_OP_PROVE_NODE, 409, JSON,
							  "{\"Errors\":[" ERR(4, NO_KEY) ","
							  ERR(2, BAD_SESSION) "," ERR(4, NO_KEY)
							  "],\"Results\":[]}");

	assert_int_equal(a.outcome, LE_CONFLICT);
	assert_int_equal(a.nlost, 2);
	assert_int_equal(a.lost[0], 2);
	assert_int_equal(a.lost[1], 0);
}

static void
test_patroni_detail(void **state)
{
	LeOp		op = test_op(LE_OP_ACQUIRE);
	LeResponse r = response(409, JSON,
							"{\"Errors\":[" ERR(1, EXISTS) "]}");

	op.index = 0;
	assert_string_equal(decode(&op, &r).detail,
						"key \"leader_election/billing/config\" exists: "
						"this name belongs to Patroni");
}

/* The results of a transaction that was applied: only ours count. */
#define RESULT(key, session, index) \
	"{\"KV\":{\"LockIndex\":1,\"Key\":\"" key "\",\"Flags\":" FLAG "," \
	"\"Value\":null," session "\"CreateIndex\":1,\"ModifyIndex\":" #index "}}"
#define BY(session)		"\"Session\":\"" session "\","

static void
test_applied(void **state)
{
	static const struct
	{
		LeOpKind	kind;
		const char *results;
		uint64		index;		/* 0: not believed */
	}			cases[] = {
		{LE_OP_ACQUIRE, RESULT(NODE, BY(SESSION), 5) ","
			RESULT(KEY, "", 7) "," RESULT(KEY, BY(SESSION), 9), 9},
		{LE_OP_TAKE_OVER, RESULT(KEY, BY(FOREIGN), 7) ","
			RESULT(KEY, "", 9) "," RESULT(KEY, BY(SESSION), 9), 9},
		{LE_OP_TAKE_OVER, RESULT(KEY, BY(FOREIGN), 7) ","
			RESULT(KEY, "", 9), 0},
		{LE_OP_PROVE_NODE, RESULT(NODE, BY(SESSION), 5) ","
			RESULT(NODE, BY(SESSION), 8) "," RESULT(KEY, BY(SESSION), 6), 8},
		{LE_OP_RELEASE, RESULT(KEY, BY(SESSION), 7) ","
			RESULT(KEY, "", 9), 9},
		{LE_OP_REVOKE_NODE, RESULT(NODE, "", 7) "," RESULT(NODE, "", 9), 9},
		{LE_OP_ACQUIRE, RESULT(KEY, BY(SESSION), 9223372036854775806),
		UINT64CONST(9223372036854775806)},

		{LE_OP_ACQUIRE, "", 0},
		{LE_OP_ACQUIRE, RESULT(NODE, BY(SESSION), 5), 0},
		{LE_OP_ACQUIRE, RESULT(KEY, "", 9), 0},
		{LE_OP_ACQUIRE, RESULT(KEY, BY(FOREIGN), 9), 0},
		{LE_OP_ACQUIRE, RESULT(KEY, BY("x"), 9), 0},
		{LE_OP_ACQUIRE, RESULT(KEY, BY(SESSION), 0), 0},
		{LE_OP_ACQUIRE, RESULT(KEY, BY(SESSION), 9223372036854775807), 0},
		{LE_OP_ACQUIRE, RESULT(KEY, BY(SESSION), 9223372036854775808), 0},
		{LE_OP_ACQUIRE, RESULT(KEY, BY(SESSION), -9), 0},
		{LE_OP_ACQUIRE, RESULT(KEY, BY(SESSION), 9.5), 0},
		{LE_OP_ACQUIRE, RESULT(KEY, BY(SESSION), "9"), 0},
		{LE_OP_ACQUIRE, RESULT(KEY "x", BY(SESSION), 9), 0},
		{LE_OP_RELEASE, RESULT(KEY, BY(SESSION), 9), 0},
		{LE_OP_PROVE_NODE, RESULT(KEY, BY(SESSION), 9), 0},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeAnswer	a = answer_to(cases[i].kind, 200, JSON,
								  psprintf("{\"Results\":[%s],"
										   "\"Errors\":null}",
										   cases[i].results));

		if (a.outcome != (cases[i].index ? LE_DONE : LE_UNKNOWN) ||
			a.index != cases[i].index)
			fail_msg("%s, %s: %s", le_op_name(cases[i].kind),
					 cases[i].results, le_outcome_name(a.outcome));
		/* with an error beside it, the outcome is unknown */
		a = answer_to(cases[i].kind, 200, JSON,
					  psprintf("{\"Results\":[%s],\"Errors\":["
							   ERR(0, "x") "]}", cases[i].results));
		assert_int_equal(a.outcome, LE_UNKNOWN);
		/* without the flag, foreign */
		a = answer_to(cases[i].kind, 200, JSON,
					  psprintf("{\"Results\":[{\"KV\":{\"Key\":\"%s\","
							   "\"Flags\":0,\"Session\":\"%s\","
							   "\"ModifyIndex\":9}}]}", KEY, SESSION));
		assert_int_equal(a.outcome, LE_UNKNOWN);
	}
}

/* ---- several operations in one transaction ---- */

#define KEY2			"leader_election/payroll/leader"

/* The second of two; the first carries it. */
static LeOp
joined_op(LeOpKind kind, LeOp *second)
{
	static const LeOp *joined[1];
	LeOp		op = test_op(kind);

	*second = test_op(kind);
	second->election = "payroll";
	second->index = 11;
	joined[0] = second;
	op.wire.joined = joined;
	op.wire.njoined = 1;
	return op;
}

/* Steps in common appear once. */
static void
test_joined(void **state)
{
	static const struct
	{
		LeOpKind	kind;
		const char *verbs;
	}			cases[] = {
		{LE_OP_ACQUIRE, "check-session check-index lock check-index lock"},
		{LE_OP_PUBLISH, "check-session check-index lock check-index lock"},
		{LE_OP_RELEASE, "check-index unlock check-index unlock"},
		{LE_OP_TAKE_OVER, "check-index check-session unlock check-session "
			"check-index unlock lock check-index unlock lock"},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeOp		second;
		LeOp		op = joined_op(cases[i].kind, &second);
		const char *at = encode(&test_namespace, &op).http.body.data;
		StringInfoData verbs;

		assert_true(le_store_consul.batch.joins(&op, &second));
		initStringInfo(&verbs);
		while ((at = strstr(at, "\"Verb\":\"")) != NULL)
		{
			at += strlen("\"Verb\":\"");
			appendStringInfo(&verbs, "%s%.*s", verbs.len > 0 ? " " : "",
							 (int) strcspn(at, "\""), at);
		}
		assert_string_equal(verbs.data, cases[i].verbs);
	}
}

/* A full batch has no more steps than Consul takes. */
static void
test_joined_room(void **state)
{
	static const LeOpKind kinds[] = {LE_OP_ACQUIRE, LE_OP_TAKE_OVER,
	LE_OP_PUBLISH, LE_OP_RELEASE};

	for (int i = 0; i < 2 * (int) lengthof(kinds); i++)
	{
		const LeOp *others[LE_MAX_JOINED];
		LeOp		op = test_op(kinds[i / 2]);
		int			left;
		int			steps = 0;

		op.index = i % 2 == 0 ? 7 : 0;
		add_test_news(&op);
		left = le_store_consul.batch.capacity;
		op.wire.joined = others;
		left -= le_store_consul.batch.takes(&op);
		while (left >= le_store_consul.batch.takes(&op))
		{
			LeOp	   *other = palloc(sizeof(LeOp));

			*other = op;
			other->wire.njoined = 0;
			others[op.wire.njoined++] = other;
			left -= le_store_consul.batch.takes(&op);
		}
		for (const char *at = encode(&test_namespace, &op).http.body.data;
			 (at = strstr(at, "\"Verb\"")) != NULL; at++)
			steps++;
		assert_in_range(steps, 61 - 3, 64);
	}
}

static LeAnswer
joined_answer(LeOpKind kind, int status, const char *body)
{
	LeOp		second;
	LeOp		op = joined_op(kind, &second);
	LeResponse r = response(status, JSON, body);

	return decode(&op, &r);
}

/* Each gets its own answer, and untried ones go again. */
static void
test_joined_refused(void **state)
{
	LeAnswer	a = joined_answer(LE_OP_ACQUIRE, 409, "{\"Errors\":["
								  ERR(3, BAD_INDEX) "]}");

	assert_non_null(a.wire.parts);
	assert_true(a.wire.parts[0].wire.unjudged);
	assert_int_equal(a.wire.parts[0].outcome, LE_UNAVAILABLE);
	assert_false(a.wire.parts[1].wire.unjudged);
	assert_int_equal(a.wire.parts[1].outcome, LE_CONFLICT);
	assert_int_equal(a.wire.parts[1].conflict, LE_CONFLICT_CHANGED);

	a = joined_answer(LE_OP_ACQUIRE, 409, "{\"Errors\":["
					  ERR(2, DENIED) "," ERR(4, IS_HELD) "]}");
	assert_int_equal(a.wire.parts[0].outcome, LE_REFUSED);
	assert_int_equal(a.wire.parts[1].outcome, LE_CONFLICT);
	assert_int_equal(a.wire.parts[1].conflict, LE_CONFLICT_HELD);

	/* our node key, or the holder's: it concerns them all */
	a = joined_answer(LE_OP_ACQUIRE, 409, "{\"Errors\":["
					  ERR(0, NO_KEY) "," ERR(1, BAD_INDEX) "]}");
	assert_int_equal(a.wire.parts[0].outcome, LE_LOST);
	assert_int_equal(a.wire.parts[1].outcome, LE_LOST);
	a = joined_answer(LE_OP_TAKE_OVER, 409, "{\"Errors\":["
					  ERR(0, BAD_INDEX) "]}");
	assert_int_equal(a.wire.parts[0].outcome, LE_CONFLICT);
	assert_int_equal(a.wire.parts[1].outcome, LE_CONFLICT);
}

/* A list with missing results shows none. */
static void
test_joined_applied(void **state)
{
	const char *first = RESULT(KEY, BY(SESSION), 9);
	const char *second = RESULT(KEY2, BY(SESSION), 9);
	LeAnswer	a = joined_answer(LE_OP_ACQUIRE, 200,
								  psprintf("{\"Results\":[%s,%s]}",
										   first, second));

	assert_int_equal(a.wire.parts[0].outcome, LE_DONE);
	assert_int_equal(a.wire.parts[1].outcome, LE_DONE);
	assert_true(a.wire.parts[0].index == 9 && a.wire.parts[1].index == 9);
	a = joined_answer(LE_OP_ACQUIRE, 200,
					  psprintf("{\"Results\":[%s]}", first));
	assert_null(a.wire.parts);
	assert_int_equal(a.outcome, LE_UNKNOWN);
	a = joined_answer(LE_OP_ACQUIRE, 200,
					  psprintf("{\"Results\":[%s,%s],\"Errors\":["
							   ERR(3, EXISTS) "]}", first, second));
	assert_null(a.wire.parts);
	assert_int_equal(a.outcome, LE_UNKNOWN);
	/* a verdict on the whole request is one on each */
	a = joined_answer(LE_OP_ACQUIRE, 500, "No cluster leader");
	assert_null(a.wire.parts);
	assert_int_equal(a.outcome, LE_UNAVAILABLE);
}

/* Those of another kind, or from another holder, go alone. */
static void
test_not_joined(void **state)
{
	LeOp		a = test_op(LE_OP_TAKE_OVER);
	LeOp		b = a;
	LeNodeKey	other = *a.takeover.target;

	assert_true(le_store_consul.batch.joins(&a, &b));
	b.kind = LE_OP_ACQUIRE;
	assert_false(le_store_consul.batch.joins(&a, &b));
	b = a;
	other.index++;
	b.takeover.target = &other;
	assert_false(le_store_consul.batch.joins(&a, &b));
	a = b = test_op(LE_OP_RELEASE);
	b.session = FOREIGN;
	assert_false(le_store_consul.batch.joins(&a, &b));
	for (int kind = 0; kind < LE_NOPS; kind++)
	{
		a = test_op(kind);
		assert_true((le_store_consul.batch.takes(&a) > 0) ==
					(kind == LE_OP_ACQUIRE || kind == LE_OP_TAKE_OVER ||
					 kind == LE_OP_PUBLISH || kind == LE_OP_RELEASE));
	}
}

static void
test_forget(void **state)
{
	assert_int_equal(answer_to(LE_OP_FORGET_NODE, 200, JSON,
							   "{\"Results\":[],\"Errors\":null}").outcome,
					 LE_DONE);
	assert_int_equal(answer_to(LE_OP_FORGET_NODE, 200, JSON,
							   "{\"Results\":null}").outcome, LE_UNKNOWN);
	assert_int_equal(answer_to(LE_OP_FORGET_NODE, 200, JSON, "{}").outcome,
					 LE_UNKNOWN);
}

/* ---- keys ---- */

static const char *
base64(const char *value)
{
	StringInfoData buf;

	initStringInfo(&buf);
	le_base64_append(&buf, value, (int) strlen(value));
	return buf.data;
}

static LeAnswer
list(LeOpKind kind, const char *entries)
{
	LeOp		op = test_op(kind);
	LeResponse r = response(200, JSON, psprintf("[%s]", entries));

	add_header(&r, "X-Consul-Index", "50");
	return decode(&op, &r);
}

/* The leader key with this value, as a consistent read shows it. */
static LeKey
key_of(const char *value)
{
	LeAnswer	a = list(LE_OP_READ,
						 psprintf("{\"Key\":\"" KEY "\",\"Flags\":" FLAG ","
								  "\"ModifyIndex\":9,\"Value\":\"%s\"}",
								  base64(value)));

	assert_int_equal(a.outcome, LE_DONE);
	assert_int_equal(a.nkeys, 1);
	assert_int_equal(a.index, 50);
	return a.keys[0];
}

#define VALUE(rest) \
	"{\"proto\":1,\"node\":\"n2\",\"session\":\"" FOREIGN "\"" rest "}"

static void
test_leader_value(void **state)
{
	static const char *const foreign[] = {
		"", "go client", "{}", "[]", "1", "{\"proto\":1}",
		"{\"proto\":2,\"node\":\"n2\",\"session\":\"" FOREIGN "\"}",
		"{\"proto\":\"1\",\"node\":\"n2\",\"session\":\"" FOREIGN "\"}",
		"{\"proto\":1,\"node\":\"\",\"session\":\"" FOREIGN "\"}",
		"{\"proto\":1,\"node\":1,\"session\":\"" FOREIGN "\"}",
		"{\"proto\":1,\"node\":\"a\\u001b[2J\",\"session\":\"" FOREIGN "\"}",
		"{\"proto\":1,\"node\":\"n2\",\"session\":\"x\"}",
		"{\"proto\":1,\"node\":\"n2\",\"session\":null}",
		"{\"proto\":1,\"node\":\"n2\"}",
		"[" VALUE("") "]", VALUE("") " x", VALUE(",\"released\":1"),
		VALUE(",\"released\":null"), VALUE(",\"value\":\"\\u0000\""),
		VALUE(",\"value\":[1"), VALUE(",\"lease_ms\":0"),
		VALUE(",\"lease_ms\":60001"), VALUE(",\"lease_ms\":\"1000\""), "\xff"
	};
	LeKey		key = key_of(VALUE(",\"released\":true,\"new\":[{\"x\":1}]"));

	assert_true(key.usable && key.ours && key.released);
	assert_string_equal(key.node, "n2");
	assert_string_equal(key.value_session, FOREIGN);
	assert_null(key.value);
	assert_null(key.holder);
	assert_int_equal(key.index, 9);
	assert_true(key.lease == 0);
	key = key_of(VALUE(",\"lease_ms\":60000"));
	assert_true(key.ours && key.lease == LE_MAX_LEASE);
	key = key_of(VALUE(",\"value\":{\"released\":true,\"proto\":7}"));
	assert_true(key.ours && !key.released);
	assert_string_equal(key.value, "{\"released\":true,\"proto\":7}");
	key = key_of(VALUE(",\"value\":null"));
	assert_true(key.ours);
	assert_null(key.value);
	for (int i = 0; i < lengthof(foreign); i++)
	{
		key = key_of(foreign[i]);
		if (key.ours || !key.usable)
			fail_msg("taken for ours: %s", foreign[i]);
	}
}

/*
 * The fencing token of a holder: the index of its acquire.  A write of the
 * value moves the index on, so that write names the token.
 */
static void
test_token(void **state)
{
	static const struct
	{
		const char *session;	/* session that holds the key */
		const char *rest;		/* the value's */
		bool		ours;
		uint64		token;
	}			cases[] = {
		{FOREIGN, "", true, 9},
		{FOREIGN, ",\"token\":5", true, 5},
		{FOREIGN, ",\"token\":9", true, 9},
		{FOREIGN, ",\"token\":10", true, 0},
		{"", ",\"token\":5", true, 0},
		{SESSION, ",\"token\":5", true, 0},
		{FOREIGN, ",\"token\":0", false, 0},
		{FOREIGN, ",\"token\":-5", false, 0},
		{FOREIGN, ",\"token\":\"5\"", false, 0},
		{FOREIGN, ",\"token\":9223372036854775808", false, 0},
		{FOREIGN, ",\"value\":{\"token\":5}", true, 9},
	};
	LeOp		op = test_op(LE_OP_PUBLISH);

	for (int i = 0; i < lengthof(cases); i++)
	{
		char	   *value = psprintf("{\"proto\":1,\"node\":\"n2\","
									 "\"session\":\"" FOREIGN "\"%s}",
									 cases[i].rest);
		LeAnswer	a = list(LE_OP_READ,
							 psprintf("{\"Key\":\"" KEY "\",\"Flags\":" FLAG
									  ",\"ModifyIndex\":9,\"Session\":\"%s\","
									  "\"Value\":\"%s\"}",
									  cases[i].session, base64(value)));

		if (a.keys[0].ours != cases[i].ours ||
			a.keys[0].token != cases[i].token)
			fail_msg("%s: " UINT64_FORMAT, value, a.keys[0].token);
	}
	op.token = 5;
	assert_non_null(strstr(readable(encode(&test_namespace,
										   &op).http.body.data),
						   ",\"token\":5,\"lease_ms\":15000,\"released\":false}"));
	op.kind = LE_OP_ACQUIRE;
	assert_null(strstr(readable(encode(&test_namespace, &op).http.body.data),
					   "token"));
}

/* A value longer than ours can be is foreign. */
static void
test_long_values(void **state)
{
	char		text[4096];
	static const int lengths[][2] = {
		{LE_MAX_VALUE_LEN, true}, {LE_MAX_VALUE_LEN + 1, false}
	};

	for (int i = 0; i < lengthof(lengths); i++)
	{
		memset(text, '1', sizeof(text));
		text[lengths[i][0]] = '\0';
		assert_int_equal(key_of(psprintf(VALUE(",\"value\":\"%s\""),
										 text)).ours, lengths[i][1]);
		assert_int_equal(key_of(psprintf(VALUE(",\"value\":%s"),
										 text)).ours, lengths[i][1]);
	}
	memset(text, 'n', sizeof(text));
	text[LE_MAX_NODE_NAME_LEN] = '\0';
	assert_true(key_of(psprintf("{\"proto\":1,\"node\":\"%s\",\"session\":\""
								FOREIGN "\"}", text)).ours);
	text[LE_MAX_NODE_NAME_LEN] = 'n';
	text[LE_MAX_NODE_NAME_LEN + 1] = '\0';
	assert_false(key_of(psprintf("{\"proto\":1,\"node\":\"%s\",\"session\":\""
								 FOREIGN "\"}", text)).ours);
	memset(text, ' ', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_false(key_of(psprintf(VALUE(",\"x\":[%s%s%s]"), text, text,
								 text)).ours);
}

/* Valid and invalid reads; the last but one: not believed. */
static void
test_read(void **state)
{
	static const char *const broken[] = {
		"", "{}", "1", "null",
		"{\"Key\":\"" KEY "\"}",
		"{\"Key\":\"" KEY "\",\"ModifyIndex\":0}",
		"{\"Key\":\"" KEY "\",\"ModifyIndex\":9223372036854775808}",
		"{\"Key\":\"" KEY "\",\"ModifyIndex\":\"9\"}",
		"{\"Key\":\"other\",\"ModifyIndex\":9}",
		"{\"Key\":null,\"ModifyIndex\":9}",
		"{\"ModifyIndex\":9}",
		"{\"Key\":\"" KEY "\",\"ModifyIndex\":9,\"Session\":\"x\"}",
		"{\"Key\":\"" KEY "\",\"ModifyIndex\":9,\"Session\":1}",
		"{\"Key\":\"" KEY "\",\"ModifyIndex\":9,\"Flags\":-1}",
		"{\"Key\":\"" KEY "\",\"ModifyIndex\":9,\"Value\":1}",
		"{\"Key\":\"" KEY "\",\"ModifyIndex\":9},"
		"{\"Key\":\"" KEY "\",\"ModifyIndex\":9}",
	};
	LeAnswer	a;

	for (int i = 0; i < lengthof(broken); i++)
	{
		a = list(LE_OP_READ, broken[i]);
		if (a.outcome != LE_UNAVAILABLE)
			fail_msg("%s: %s", broken[i], le_outcome_name(a.outcome));
	}
	a = list(LE_OP_READ, "{\"Key\":\"" KEY "\",\"ModifyIndex\":9,"
			 "\"Session\":\"\",\"Value\":\"!!!\",\"Flags\":1}");
	assert_int_equal(a.outcome, LE_DONE);
	assert_null(a.keys[0].holder);
	assert_false(a.keys[0].usable || a.keys[0].ours);
	a = list(LE_OP_READ, "{\"Key\":\"" KEY "\",\"ModifyIndex\":9,"
			 "\"Session\":\"" FOREIGN "\",\"Flags\":18446744073709551615}");
	assert_string_equal(a.keys[0].holder, FOREIGN);
	assert_false(a.keys[0].usable);
}

/* 404 means that there is nothing only if Consul says so. */
static void
test_nothing_there(void **state)
{
	static const LeOpKind kinds[] = {
		LE_OP_READ, LE_OP_LIST_HELD, LE_OP_WATCH, LE_OP_LIST_NODES,
		LE_OP_WATCH_NEWS, LE_OP_CHECK_PREFIX
	};

	for (int i = 0; i < lengthof(kinds); i++)
	{
		LeOp		op = test_op(kinds[i]);
		LeResponse r = response(404, "", "");
		LeAnswer	a;

		a = decode(&op, &r);
		assert_int_equal(a.outcome, LE_UNAVAILABLE);
		assert_string_equal(a.detail, "HTTP 404 from something that is not "
							"Consul; check the URL");
		add_header(&r, "X-Consul-Index", "50");
		a = decode(&op, &r);
		assert_int_equal(a.outcome, LE_DONE);
		assert_int_equal(a.index, 50);
		add_header(&r, FILTERED, "true");
		a = decode(&op, &r);
		assert_int_equal(a.outcome, LE_REFUSED);
		assert_non_null(strstr(a.detail, "key:read"));
		/* an answer of 200 needs the index as well */
		r = response(200, JSON, "[]");
		assert_int_equal(decode(&op, &r).outcome, LE_UNAVAILABLE);
	}
	for (int kind = 0; kind <= LE_OP_SESSION_NAME; kind++)
	{
		LeOp		op = test_op(kind);
		LeResponse r = response(404, TEXT, "");

		add_header(&r, "X-Consul-Index", "0");
		if (le_op_writes(kind))
			assert_int_equal(decode(&op, &r).outcome, LE_UNAVAILABLE);
	}
}

static void
test_list(void **state)
{
	LeAnswer	a = list(LE_OP_LIST_HELD,
						 "{\"Key\":\"leader_election/a/leader\","
						 "\"ModifyIndex\":1,\"Session\":\"" SESSION "\"},"
						 "{\"Key\":\"leader_election/a/b/leader\","
						 "\"ModifyIndex\":2},"
						 "{\"Key\":\"leader_election/leader\","
						 "\"ModifyIndex\":3},"
						 "{\"Key\":\"leader_election//leader\","
						 "\"ModifyIndex\":3},"
						 "{\"Key\":\"leader_election/../leader\","
						 "\"ModifyIndex\":3},"
						 "{\"Key\":\"leader_election/a b/leader\","
						 "\"ModifyIndex\":3},"
						 "{\"Key\":\"leader_election/a/config\","
						 "\"ModifyIndex\":3},"
						 "{\"Key\":\"other/a/leader\",\"ModifyIndex\":3}");

	assert_int_equal(a.outcome, LE_DONE);
	assert_int_equal(a.nkeys, 2);
	assert_string_equal(a.keys[0].election, "a");
	assert_string_equal(a.keys[0].holder, SESSION);
	assert_string_equal(a.keys[1].election, "a/b");
	assert_null(a.keys[1].holder);
	/* one broken entry breaks the list: the key might be in it */
	a = list(LE_OP_LIST_HELD, "{\"Key\":\"leader_election/a/leader\","
			 "\"ModifyIndex\":1},{\"Key\":\"leader_election/b/leader\"}");
	assert_int_equal(a.outcome, LE_UNAVAILABLE);
}

static void
test_long_list(void **state)
{
	StringInfoData entries;
	LeAnswer	a;

	initStringInfo(&entries);
	for (int i = 0; i < 5000; i++)
		appendStringInfo(&entries, "%s{\"Key\":\"leader_election/e%d/leader\","
						 "\"ModifyIndex\":%d}", i ? "," : "", i, i + 1);
	a = list(LE_OP_WATCH, entries.data);
	assert_int_equal(a.nkeys, 5000);
	for (int i = 0; i < 5000; i++)
	{
		assert_string_equal(a.keys[i].election, psprintf("e%d", i));
		assert_int_equal(a.keys[i].index, i + 1);
	}
}

/* In parts it gives the same as in one piece, for any parts. */
static void
test_slices(void **state)
{
	static const char *const broken[] = {
		"[%s,]", "[,%s]", "[%s", "%s]", "[%s]]", "[%s] x", "[%s,7]",
		"{\"a\":[%s]}", "[%s}", "[%s,{]", "[%s \"]", "[%s,{}}]"
	};
	static const char *const entries =
		"{\"Key\":\"leader_election/a/leader\",\"ModifyIndex\":1},\n "
		"{\"Key\":\"leader_election/b/leader\",\"ModifyIndex\":2,"
		"\"X\":[{\"}]\":\",\\\"}],\"}]} ,"
		"{\"ModifyIndex\":3,\"Key\":\"leader_election/c/leader\"}";
	static const LeOpKind kinds[] = {
		LE_OP_WATCH, LE_OP_LIST_HELD, LE_OP_LIST_NODES, LE_OP_LIST_CLAIMS
	};
	size_t		usual = le_consul_slice;

	for (le_consul_slice = 1; le_consul_slice < 250; le_consul_slice++)
	{
		LeOpKind	kind = kinds[le_consul_slice % 2];
		LeAnswer	a = list(kind, entries);

		assert_int_equal(a.outcome, LE_DONE);
		assert_int_equal(a.nkeys, 3);
		for (int i = 0; i < 3; i++)
		{
			assert_int_equal(a.keys[i].election[0], 'a' + i);
			assert_int_equal(a.keys[i].index, i + 1);
		}
		if (le_consul_slice == 1)
			assert_int_equal(nparts, 3);
		for (int i = 0; i < lengthof(broken); i++)
		{
			LeOp		op = test_op(kinds[le_consul_slice % 4]);
			char	   *body = palloc(1000);
			LeResponse r;

			pg_snprintf(body, 1000, broken[i], entries);
			r = response(200, JSON, body);
			add_header(&r, "X-Consul-Index", "50");
			if (decode(&op, &r).outcome != LE_UNAVAILABLE)
				fail_msg("slices of %d: %s", (int) le_consul_slice,
						 broken[i]);
		}
	}
	le_consul_slice = 4000;
	test_long_list(state);
	assert_in_range(nparts, 50, 80);
	le_consul_slice = usual;
}

static const char *node_entry(const char *session, const char *holder,
							  const char *value);

#define NODE_VALUE(session, lease, rest) \
	"{\"proto\":1,\"node\":\"n2\",\"incarnation\":\"abc\"," \
	"\"session\":\"" session "\",\"lease_ms\":" lease rest "}"

/* Lists longer than their first allocation, one entry at a time. */
static void
test_slices_of_nodes(void **state)
{
	size_t		usual = le_consul_slice;
	StringInfoData nodes;
	LeAnswer	a;

	initStringInfo(&nodes);
	for (int i = 0; i < 40; i++)
		appendStringInfo(&nodes, "%s%s", i > 0 ? "," : "",
						 node_entry(FOREIGN, FOREIGN,
									NODE_VALUE(FOREIGN, "15000", "")));
	le_consul_slice = 1;
	a = list(LE_OP_LIST_NODES, nodes.data);
	assert_int_equal(a.outcome, LE_DONE);
	assert_int_equal(nparts, 40);
	assert_int_equal(a.nnodes, 40);
	for (int i = 0; i < 40; i++)
		assert_string_equal(a.nodes[i].session, FOREIGN);
	le_consul_slice = usual;
}

static void
test_watch_index(void **state)
{
	static const struct
	{
		uint64		waited;
		uint64		shown;
		uint64		next;
	}			cases[] = {
		{0, 50, 50}, {50, 50, 50}, {50, 51, 51}, {51, 50, 0}, {0, 0, 1},
		{1, 0, 0}, {0, 1, 1}
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeOp		op = test_op(LE_OP_WATCH);
		LeResponse r = response(200, JSON, "[]");

		op.watch.index = cases[i].waited;
		add_header(&r, "X-Consul-Index",
				   psprintf("%lld", (long long) cases[i].shown));
		assert_int_equal(decode(&op, &r).index, cases[i].next);
	}
}

static const char *
node_entry(const char *session, const char *holder, const char *value)
{
	return psprintf("{\"Key\":\"leader_election.nodes/%s\",\"Flags\":" FLAG
					",\"ModifyIndex\":9,\"Session\":\"%s\","
					"\"Value\":\"%s\"}", session, holder, base64(value));
}

static void
test_nodes(void **state)
{
	static const char *const foreign[] = {
		"", "{}", NODE_VALUE(SESSION, "15000", ""),
		NODE_VALUE(FOREIGN, "0", ""), NODE_VALUE(FOREIGN, "-1", ""),
		NODE_VALUE(FOREIGN, "60001", ""),
		NODE_VALUE(FOREIGN, "18446744073709551615", ""),
		NODE_VALUE(FOREIGN, "\"15000\"", ""),
		NODE_VALUE(FOREIGN, "15000", ",\"revoked\":1"),
		"{\"proto\":1,\"node\":\"n\",\"session\":\"" FOREIGN "\","
		"\"lease_ms\":15000}",
		"{\"proto\":1,\"node\":\"n\",\"session\":\"" FOREIGN "\","
		"\"lease_ms\":15000,\"incarnation\":\"0123456789abcdef"
		"0123456789abcdef0\"}",
	};

	/* only shown: an unknown word does not make it less of a node */
	static const char *const unfit[] = {
		NODE_VALUE(FOREIGN, "15000", ",\"unfit\":\"standby\""),
		NODE_VALUE(FOREIGN, "15000", ",\"unfit\":\"\""),
		NODE_VALUE(FOREIGN, "15000", ",\"unfit\":\"a b\""),
		NODE_VALUE(FOREIGN, "15000", ",\"unfit\":\"abcdefghijklmnop\""),
		NODE_VALUE(FOREIGN, "15000", ",\"unfit\":1"),
		NODE_VALUE(FOREIGN, "15000", ",\"unfit\":null"),
		NODE_VALUE(FOREIGN, "15000", ",\"unfit\":{\"a\":[\"b\"]}"),
		NODE_VALUE(FOREIGN, "15000", ",\"of later\":{\"proto\":2}"),
	};
	static const struct
	{
		const char *fields;
		LeSystems	systems;
		uint64		since;
	}			systems[] = {
		{"", {{0}}, 9},			/* of an earlier version */
		{",\"system\":\"7300000000000000001\"", {{7300000000000000001}}, 9},
		{",\"system\":\"18446744073709551615\",\"since\":7",
			{{PG_UINT64_MAX}}, 7},
		{",\"system\":\"18446744073709551616\"", {{0}}, 9},
		{",\"system\":7300000000000000001", {{0}}, 9},
		{",\"system\":\"\",\"since\":\"7\"", {{0}}, 9},
		{",\"system\":\"+1\",\"since\":-7", {{0}}, 9},
		{",\"system\":{\"a\":1},\"since\":null", {{0}}, 9},
		/* a copy that was given another; what is no identifier does not count,
		 * nor do more than there may be */
		{",\"earlier_systems\":[\"6\",\"5\"],\"system\":\"7\"", {{7, 6, 5}}, 9},
		{",\"system\":\"7\",\"earlier_systems\":[5,\"\",[\"4\"],\"6\"]",
			{{7, 6}}, 9},
		{",\"system\":\"7\",\"earlier_systems\":\"6\"", {{7}}, 9},
		{",\"system\":\"9\",\"earlier_systems\":[\"8\",\"7\",\"6\",\"5\",\"4\",\"3\",\"2\",\"1\"]",
			{{9, 8, 7, 6, 5, 4, 3, 2}}, 9},
	};
	LeAnswer	a;

	for (int i = 0; i < lengthof(systems); i++)
	{
		a = list(LE_OP_LIST_NODES,
				 node_entry(FOREIGN, FOREIGN,
							psprintf(NODE_VALUE(FOREIGN, "15500", "%s"),
									 systems[i].fields)));
		assert_int_equal(a.nnodes, 1);
		assert_memory_equal(&a.nodes[0].systems, &systems[i].systems,
							sizeof(LeSystems));
		assert_true(a.nodes[0].since == systems[i].since);
	}
	a = list(LE_OP_LIST_NODES, node_entry(FOREIGN, FOREIGN,
										  NODE_VALUE(FOREIGN, "15500", "")));
	assert_int_equal(a.nnodes, 1);
	assert_string_equal(a.nodes[0].session, FOREIGN);
	assert_string_equal(a.nodes[0].node, "n2");
	assert_string_equal(a.nodes[0].incarnation, "abc");
	assert_true(a.nodes[0].lease == 15500 * LE_MSEC);
	assert_true(a.nodes[0].held && !a.nodes[0].revoked);
	assert_int_equal(a.nodes[0].index, 9);
	a = list(LE_OP_LIST_NODES, node_entry(FOREIGN, "",
										  NODE_VALUE(FOREIGN, "60000",
													 ",\"revoked\":true")));
	assert_true(!a.nodes[0].held && a.nodes[0].revoked);
	for (int i = 0; i < lengthof(unfit); i++)
	{
		a = list(LE_OP_LIST_NODES, node_entry(FOREIGN, FOREIGN, unfit[i]));
		assert_int_equal(a.nnodes, 1);
		if (i == 0)
			assert_string_equal(a.nodes[0].unfit, "standby");
		else
			assert_null(a.nodes[0].unfit);
	}
	a = list(LE_OP_LIST_NODES, node_entry(FOREIGN, SESSION,
										  NODE_VALUE(FOREIGN, "1", "")));
	assert_false(a.nodes[0].held);
	for (int i = 0; i < lengthof(foreign); i++)
	{
		a = list(LE_OP_LIST_NODES, node_entry(FOREIGN, FOREIGN, foreign[i]));
		assert_int_equal(a.outcome, LE_DONE);
		if (a.nnodes != 0)
			fail_msg("taken for a node: %s", foreign[i]);
	}
	a = list(LE_OP_LIST_NODES, node_entry("x", "", NODE_VALUE("x", "1", "")));
	assert_int_equal(a.nnodes, 0);
}

#define NEWS_HEAD \
	"{\"proto\":1,\"node\":\"n2\",\"session\":\"" FOREIGN "\""

static const char *
news_entry(const char *holder, const char *value)
{
	return psprintf("{\"Key\":\"leader_election.nodes/news/" FOREIGN "\","
					"\"Flags\":" FLAG ",\"ModifyIndex\":90,"
					"\"Session\":\"%s\",\"Value\":\"%s\"}", holder,
					base64(value));
}

/* A node with news is among the nodes; the news are no node. */
static void
test_nodes_that_tell(void **state)
{
	const char *node = node_entry(FOREIGN, FOREIGN,
								  NODE_VALUE(FOREIGN, "15000", ""));
	LeAnswer	a = list(LE_OP_LIST_NODES, node);

	assert_false(a.nodes[0].tells);
	a = list(LE_OP_LIST_NODES, psprintf("%s,%s", node,
										news_entry(FOREIGN, "")));
	assert_int_equal(a.nnodes, 1);
	assert_true(a.nodes[0].tells);
	a = list(LE_OP_LIST_NODES, psprintf("%s,%s", node, news_entry("", "")));
	assert_false(a.nodes[0].tells);
}

/*
 * Keys written with the news have the news' index, except a value that may
 * have been published unchanged.
 */
static void
test_gossip(void **state)
{
	static const char text[] = NEWS_HEAD ",\"number\":42,\"since\":39,"
		"\"items\":["
		"{\"number\":40,\"kind\":\"publish\",\"index\":6,\"token\":5,"
		"\"election\":\"a/b\"},"
		"{\"number\":41,\"kind\":\"acquire\",\"election\":\"c\"},"
		"{\"number\":42,\"kind\":\"release\",\"election\":\"d\"},"
		"{\"number\":42,\"kind\":\"publish\",\"token\":7,"
		"\"election\":\"e\"}],\"of later\":[{\"number\":0}]}";
	LeAnswer	a = list(LE_OP_WATCH_NEWS, news_entry(FOREIGN, text));
	const LeGossip *n = a.news;

	assert_int_equal(a.outcome, LE_DONE);
	assert_int_equal(a.nnews, 1);
	assert_string_equal(n->session, FOREIGN);
	assert_true(n->held);
	assert_int_equal(n->index, 90);
	assert_string_equal(n->node, "n2");
	assert_int_equal(n->number, 42);
	assert_int_equal(n->since, 39);
	assert_int_equal(n->nitems, 4);
	assert_string_equal(n->items[0].election, "a/b");
	assert_int_equal(n->items[0].kind, LE_OP_PUBLISH);
	assert_int_equal(n->items[0].index, 6);
	assert_int_equal(n->items[0].token, 5);
	assert_int_equal(n->items[1].kind, LE_OP_ACQUIRE);
	assert_int_equal(n->items[1].index, 0);
	assert_int_equal(n->items[2].kind, LE_OP_RELEASE);
	assert_int_equal(n->items[2].index, 90);
	assert_int_equal(n->items[3].index, 0);

	/* the end of the session has moved the index */
	a = list(LE_OP_WATCH_NEWS, news_entry("", text));
	assert_false(a.news[0].held);
	assert_int_equal(a.news[0].items[0].index, 6);
	assert_int_equal(a.news[0].items[2].index, 0);
}

/* They exist, and contain nothing reliable. */
static void
test_strange_news(void **state)
{
#define ITEM(what) NEWS_HEAD ",\"number\":42,\"since\":39,\"items\":[" what "]}"
	static const char *const texts[] = {
		"", "{}", "[]", "x", NEWS_HEAD "}",
		NEWS_HEAD ",\"number\":0,\"since\":0,\"items\":[]}",
		NEWS_HEAD ",\"number\":3,\"since\":4,\"items\":[]}",
		NEWS_HEAD ",\"number\":3,\"since\":-1,\"items\":[]}",
		NEWS_HEAD ",\"number\":3,\"since\":1,\"items\":{}}",
		"{\"proto\":2,\"node\":\"n2\",\"session\":\"" FOREIGN "\","
		"\"number\":42,\"since\":39,\"items\":[]}",
		"{\"proto\":1,\"node\":\"n2\",\"session\":\"" SESSION "\","
		"\"number\":42,\"since\":39,\"items\":[]}",
		ITEM("7"), ITEM("{}"),
		ITEM("{\"number\":43,\"kind\":\"release\",\"election\":\"d\"}"),
		ITEM("{\"number\":0,\"kind\":\"release\",\"election\":\"d\"}"),
		ITEM("{\"number\":42,\"kind\":\"read\",\"election\":\"d\"}"),
		ITEM("{\"number\":42,\"kind\":\"release\",\"election\":\"../d\"}"),
		ITEM("{\"number\":42,\"kind\":\"release\"}"),
		ITEM("{\"number\":41,\"index\":91,\"kind\":\"release\","
			 "\"election\":\"d\"}"),
		ITEM("{\"number\":41,\"token\":91,\"kind\":\"publish\","
			 "\"election\":\"d\"}"),
	};
	StringInfoData many;

	for (int i = 0; i < lengthof(texts); i++)
	{
		LeAnswer	a = list(LE_OP_WATCH_NEWS, news_entry(FOREIGN, texts[i]));

		assert_int_equal(a.outcome, LE_DONE);
		assert_int_equal(a.nnews, 1);
		assert_int_equal(a.news[0].index, 90);
		if (a.news[0].node != NULL || a.news[0].nitems != 0)
			fail_msg("taken for news: %s", texts[i]);
	}
	initStringInfo(&many);
	for (int i = 0; i <= LE_MAX_NEWS; i++)
		appendStringInfo(&many, "%s{\"number\":42,\"kind\":\"release\","
						 "\"election\":\"e%d\"}", i > 0 ? "," : "", i);
	assert_null(list(LE_OP_WATCH_NEWS,
					 news_entry(FOREIGN,
								psprintf(NEWS_HEAD ",\"number\":42,"
										 "\"since\":39,\"items\":[%s]}",
										 many.data))).news[0].node);
	assert_int_equal(list(LE_OP_WATCH_NEWS,
						  "{\"Key\":\"leader_election.nodes/news/x\","
						  "\"ModifyIndex\":9}").nnews, 0);
}

static void
test_prefix(void **state)
{
	static const struct
	{
		const char *keys;
		LeOutcome	outcome;
	}			cases[] = {
		{"", LE_DONE},
		{"\"leader_election/a/leader\"", LE_DONE},
		{"\"leader_election/a/members/x/leader\"", LE_DONE},
		{"\"leader_election/config/leader\"", LE_DONE},
		{"\"leader_election/a/configuration\"", LE_DONE},
		{"\"leader_election/a/config\"", LE_REFUSED},
		{"\"leader_election/config\"", LE_REFUSED},
		{"\"leader_election/a/leader\",\"leader_election/b/initialize\"",
		LE_REFUSED},
		{"\"leader_election/a/members/n1\"", LE_REFUSED},
		{"\"leader_election/members/n1\"", LE_REFUSED},
		{"\"else/a/config\"", LE_DONE},
		{"1", LE_UNAVAILABLE}, {"{}", LE_UNAVAILABLE},
		{"[\"leader_election/a\"]", LE_UNAVAILABLE}, {"null", LE_UNAVAILABLE}
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeAnswer	a = list(LE_OP_CHECK_PREFIX, cases[i].keys);

		if (a.outcome != cases[i].outcome)
			fail_msg("%s: %s", cases[i].keys, le_outcome_name(a.outcome));
	}
}

/* ---- sessions ---- */

#define INFO(ttl, delay, behavior, checks) \
	"[{\"ID\":\"" SESSION "\",\"Name\":\"x\",\"LockDelay\":" delay "," \
	"\"Behavior\":\"" behavior "\",\"TTL\":\"" ttl "\"," checks "}]"
#define NO_CHECKS	"\"NodeChecks\":[],\"ServiceChecks\":null"

static void
test_verify(void **state)
{
	static const struct
	{
		const char *body;
		LeOutcome	outcome;
		const char *detail;
	}			cases[] = {
		{INFO("15s", "15000000000", "release", NO_CHECKS), LE_DONE, NULL},
		{INFO("0m15s", "15000000000", "release", NO_CHECKS), LE_DONE, NULL},
		{INFO("15000ms", "15000000000", "release", NO_CHECKS), LE_DONE, NULL},
		{INFO("1m0s", "15000000000", "release", NO_CHECKS), LE_DONE, NULL},
		{INFO("15s", "15000000000", "release", "\"NodeChecks\":null"),
		LE_DONE, NULL},
		{"[]", LE_REFUSED, "session:read"},
		{INFO("14s", "15000000000", "release", NO_CHECKS), LE_REFUSED, "TTL"},
		{INFO("", "15000000000", "release", NO_CHECKS), LE_REFUSED, "TTL"},
		{INFO("15", "15000000000", "release", NO_CHECKS), LE_REFUSED, "TTL"},
		{INFO("15x", "15000000000", "release", NO_CHECKS), LE_REFUSED, "TTL"},
		{INFO("15ss", "15000000000", "release", NO_CHECKS), LE_REFUSED,
		"TTL"},
		{INFO("99999999999999999999s", "15000000000", "release", NO_CHECKS),
		LE_REFUSED, "TTL"},
		{INFO("999999h999999h999999h999999h", "15000000000", "release",
			  NO_CHECKS), LE_REFUSED, "TTL"},
		{INFO("15s", "0", "release", NO_CHECKS), LE_REFUSED, "lock-delay"},
		{INFO("15s", "1000000000", "release", NO_CHECKS), LE_REFUSED,
		"lock-delay"},
		{INFO("15s", "15000000000", "delete", NO_CHECKS), LE_REFUSED,
		"behavior"},
		{INFO("15s", "15000000000", "release",
			  "\"NodeChecks\":[\"serfHealth\"]"), LE_REFUSED, "checks"},
		{INFO("15s", "15000000000", "release", "\"Checks\":[\"serfHealth\"]"),
		LE_REFUSED, "checks"},
		{INFO("15s", "15000000000", "release",
			  "\"ServiceChecks\":[{\"ID\":\"x\"}]"), LE_REFUSED, "checks"},
		{"[{\"ID\":\"" SESSION "\"}]", LE_REFUSED, "TTL"},
		{"[{\"ID\":\"" FOREIGN "\"}]", LE_UNAVAILABLE, "not Consul's"},
		{"[{}]", LE_UNAVAILABLE, "not Consul's"},
		{"{}", LE_UNAVAILABLE, "not Consul's"},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeAnswer	a = answer_to(LE_OP_VERIFY_SESSION, 200, JSON,
								  cases[i].body);

		if (a.outcome != cases[i].outcome ||
			(a.detail != NULL && strstr(a.detail, cases[i].detail) == NULL))
			fail_msg("%s: %s, %s", cases[i].body, le_outcome_name(a.outcome),
					 a.detail ? a.detail : "");
	}
}

static void
test_session_answers(void **state)
{
	LeAnswer	a;

	a = answer_to(LE_OP_CREATE_SESSION, 200, JSON,
				  "{\"ID\":\"" FOREIGN "\"}");
	assert_int_equal(a.outcome, LE_DONE);
	assert_string_equal(a.session, FOREIGN);
	assert_int_equal(answer_to(LE_OP_CREATE_SESSION, 200, JSON,
							   "{\"ID\":\"x\"}").outcome, LE_UNKNOWN);
	assert_int_equal(answer_to(LE_OP_CREATE_SESSION, 200, JSON,
							   "{\"ID\":null}").outcome, LE_UNKNOWN);
	assert_int_equal(answer_to(LE_OP_CREATE_SESSION, 200, JSON,
							   "{\"ID\":\"11111111-1111-1111-1111-"
							   "11111111111g\"}").outcome, LE_UNKNOWN);

	assert_int_equal(answer_to(LE_OP_RENEW_SESSION, 200, JSON,
							   "[{\"ID\":\"" SESSION "\"}]").outcome,
					 LE_DONE);
	assert_int_equal(answer_to(LE_OP_RENEW_SESSION, 200, JSON,
							   "[{\"ID\":\"" FOREIGN "\"}]").outcome,
					 LE_UNKNOWN);
	assert_int_equal(answer_to(LE_OP_RENEW_SESSION, 200, JSON, "[]").outcome,
					 LE_UNKNOWN);

	assert_int_equal(answer_to(LE_OP_DESTROY_SESSION, 200, JSON,
							   "true").outcome, LE_DONE);
	assert_int_equal(answer_to(LE_OP_DESTROY_SESSION, 200, JSON,
							   "false").outcome, LE_UNKNOWN);
	assert_int_equal(answer_to(LE_OP_DESTROY_SESSION, 200, JSON,
							   "[true]").outcome, LE_UNKNOWN);

	a = answer_to(LE_OP_SESSION_NAME, 200, JSON,
				  "[{\"ID\":\"" SESSION "\",\"Name\":\"Consul API Lock\"}]");
	assert_int_equal(a.outcome, LE_DONE);
	assert_string_equal(a.name, "Consul API Lock");
	a = answer_to(LE_OP_SESSION_NAME, 200, JSON, "[]");
	assert_int_equal(a.outcome, LE_DONE);
	assert_null(a.name);
	a = answer_to(LE_OP_SESSION_NAME, 200, JSON,
				  "[{\"ID\":\"" SESSION "\",\"Name\":\"\"}]");
	assert_null(a.name);
	a = answer_to(LE_OP_SESSION_NAME, 200, JSON,
				  "[{\"ID\":\"" SESSION "\",\"Name\":\"a\\nb\"}]");
	assert_null(a.name);
}

/* ---- details ---- */

static void
test_details(void **state)
{
	char		text[1000];
	LeAnswer	a;

	a = answer_to(LE_OP_ACQUIRE, 500, TEXT, "one\r\n\ttwo\033[2J \xc3\xa4");
	assert_string_equal(a.detail, "HTTP 500: one two [2J");
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	a = answer_to(LE_OP_ACQUIRE, 500, TEXT, text);
	assert_int_equal(strlen(a.detail), 200);
	a = answer_to(LE_OP_ACQUIRE, 502, HTML, "<html>secret</html>");
	assert_string_equal(a.detail, "HTTP 502");
	a = answer_to(LE_OP_ACQUIRE, 400, TEXT,
				  "bad: X-Consul-Token: s3cret, Authorization: Bearer s3cret");
	assert_string_equal(a.detail, "HTTP 400: bad:");
	a = answer_to(LE_OP_ACQUIRE, 400, TEXT, "bad: bearer s3cret");
	assert_string_equal(a.detail, "HTTP 400: bad:");
	a = answer_to(LE_OP_ACQUIRE, 307, TEXT, "");
	assert_string_equal(a.detail, "HTTP 307, a redirect, which is not "
						"followed; check the URL");
	a = answer_to(LE_OP_READ, 200, HTML, "<html>");
	assert_string_equal(a.detail, "HTTP 200 with an answer that is not "
						"Consul's (text/html)");
}

/* ---- answers of a real Consul ---- */

typedef struct Recorded
{
	const char *file;
	LeOutcome	outcome;
	LeConflict	conflict;
	int			count;			/* keys, nodes or lost positions */
} Recorded;

static const Recorded recorded[] = {
	{"acl-acquire", LE_DONE},
	{"acl-register", LE_DONE},
	{"acquire-bad-body", LE_REFUSED},
	{"acquire-changed", LE_CONFLICT, LE_CONFLICT_CHANGED},
	{"acquire-denied", LE_REFUSED},
	{"acquire-done", LE_DONE},
	{"acquire-done-new", LE_DONE},
	{"acquire-exists", LE_CONFLICT, LE_CONFLICT_CHANGED},
	{"acquire-held", LE_CONFLICT, LE_CONFLICT_HELD},
	{"acquire-lock-delay", LE_CONFLICT, LE_CONFLICT_LOCK_DELAY},
	{"acquire-no-datacenter", LE_UNAVAILABLE},
	{"acquire-no-leader", LE_UNAVAILABLE},
	{"acquire-no-node-key", LE_LOST},
	{"acquire-no-such-token", LE_REFUSED},
	/* the lock-delay hides that the node key is not ours any more */
	{"acquire-own-gone", LE_CONFLICT, LE_CONFLICT_LOCK_DELAY},
	{"acquire-patroni", LE_REFUSED},
	{"acquire-rate-limit", LE_UNAVAILABLE},
	{"acquire-redirect", LE_REFUSED},
	{"acquire-second", LE_DONE},
	{"acquire-too-large", LE_REFUSED},
	{"acquire-too-many-connections", LE_UNAVAILABLE},
	{"acquire-wrong-method", LE_REFUSED},
	{"check-prefix-empty", LE_DONE},
	{"check-prefix-filtered", LE_REFUSED},
	{"check-prefix-hidden", LE_REFUSED},
	{"check-prefix-ours", LE_DONE},
	{"check-prefix-patroni", LE_REFUSED},
	{"claim-changed", LE_CONFLICT, LE_CONFLICT_CHANGED},
	{"claim-denied", LE_REFUSED},
	{"claim-done", LE_DONE},
	{"claim-done-new", LE_DONE},
	{"claim-exists", LE_CONFLICT, LE_CONFLICT_CHANGED},
	{"claim-later-term", LE_CONFLICT, LE_CONFLICT_CHANGED},
	{"claim-no-node-key", LE_LOST},
	{"claim-not-held", LE_CONFLICT, LE_CONFLICT_HELD},
	{"complete-changed", LE_CONFLICT, LE_CONFLICT_CHANGED},
	{"complete-done", LE_DONE},
	{"complete-without-term", LE_DONE},
	{"create-blocked", LE_REFUSED},
	{"create-denied", LE_REFUSED},
	{"create-done", LE_DONE},
	{"create-no-leader", LE_UNAVAILABLE},
	{"create-ttl-too-short", LE_REFUSED},
	{"destroy-again", LE_DONE},
	{"destroy-denied", LE_REFUSED},
	{"destroy-done", LE_DONE},
	{"forget-absent", LE_CONFLICT, LE_CONFLICT_CHANGED},
	{"forget-alive", LE_CONFLICT, LE_CONFLICT_HELD},
	{"forget-done", LE_DONE},
	{"list-claims", LE_DONE, 0, 2},
	{"list-claims-empty", LE_DONE},
	{"list-claims-filtered", LE_REFUSED},
	{"list-held", LE_DONE, 0, 2},
	/* Consul does not tell a client without a token that it hides something */
	{"list-held-anonymous", LE_DONE},
	{"list-held-empty", LE_DONE},
	{"list-held-filtered", LE_REFUSED},
	{"list-held-hidden", LE_REFUSED},
	{"list-nodes", LE_DONE, 0, 1},
	{"list-nodes-empty", LE_DONE},
	{"list-nodes-revoked", LE_DONE, 0, 2},
	{"not-found", LE_UNAVAILABLE},
	{"prove-denied", LE_REFUSED},
	{"prove-done", LE_DONE},
	{"prove-identical", LE_DONE},
	{"prove-key-deleted", LE_CONFLICT, 0, 1},
	{"prove-session-gone", LE_LOST},
	{"prove-two-keys-lost", LE_CONFLICT, 0, 2},
	{"publish-changed", LE_CONFLICT, LE_CONFLICT_CHANGED},
	{"publish-done", LE_DONE},
	{"publish-session-gone", LE_CONFLICT, LE_CONFLICT_LOCK_DELAY},
	{"read-absent", LE_DONE},
	{"read-anonymous", LE_REFUSED},
	{"read-claim", LE_DONE, 0, 1},
	{"read-claim-absent", LE_DONE},
	{"read-claim-denied", LE_REFUSED},
	{"read-claim-foreign", LE_REFUSED},
	{"read-denied", LE_REFUSED},
	{"read-empty-value", LE_DONE, 0, 1},
	{"read-foreign-holder", LE_DONE, 0, 1},
	{"read-held", LE_DONE, 0, 1},
	{"read-held-text", LE_DONE, 0, 1},
	{"read-no-datacenter", LE_UNAVAILABLE},
	{"read-no-flag", LE_DONE, 0, 1},
	{"read-no-leader", LE_UNAVAILABLE},
	{"read-no-such-token", LE_REFUSED},
	{"read-redirect", LE_REFUSED},
	{"read-released", LE_DONE, 0, 1},
	{"read-semaphore", LE_DONE, 0, 1},
	{"read-unreleased", LE_DONE, 0, 1},
	{"read-wrong-key", LE_UNAVAILABLE},
	{"register-again", LE_CONFLICT, LE_CONFLICT_CHANGED},
	{"register-done", LE_DONE},
	{"register-invalid-session", LE_LOST},
	{"register-second", LE_DONE},
	{"release-changed", LE_CONFLICT, LE_CONFLICT_CHANGED},
	{"release-done", LE_DONE},
	{"release-held-by-other", LE_CONFLICT, LE_CONFLICT_CHANGED},
	{"release-not-held", LE_CONFLICT, LE_CONFLICT_CHANGED},
	{"renew-denied", LE_REFUSED},
	{"renew-done", LE_DONE},
	{"renew-gone", LE_LOST},
	{"renew-no-leader", LE_UNAVAILABLE},
	{"renew-no-session", LE_REFUSED},
	{"revoke-absent", LE_CONFLICT, LE_CONFLICT_CHANGED},
	{"revoke-alive", LE_CONFLICT, LE_CONFLICT_HELD},
	{"revoke-done", LE_DONE},
	{"session-name", LE_DONE},
	{"session-name-gone", LE_DONE},
	{"take-over-dead", LE_DONE},
	{"take-over-proved-since", LE_CONFLICT, LE_CONFLICT_CHANGED},
	{"take-over-again", LE_CONFLICT, LE_CONFLICT_HELD},
	{"take-over-live", LE_DONE},
	{"verify-body-ignored", LE_REFUSED},
	{"verify-done", LE_DONE},
	{"verify-gone", LE_REFUSED},
	{"verify-hidden", LE_REFUSED},
	{"verify-other-lock-delay", LE_REFUSED},
	{"watch-bad-wait", LE_REFUSED},
	{"watch-empty", LE_DONE},
	{"watch-filtered", LE_REFUSED},
	{"watch-now", LE_DONE, 0, 2},
	{"watch-timeout", LE_DONE, 0, 2},
};

static void
load(const char *name, LeOp *op, LeResponse *r)
{
	FILE	   *f = fopen(psprintf("%s/%s", corpus, name), "rb");
	char	   *text = palloc(1 << 20);
	size_t		len;

	if (f == NULL)
		fail_msg("no %s/%s", corpus, name);
	len = fread(text, 1, 1 << 20, f);
	fclose(f);
	if (!parse_exchange(text, len, op, r))
		fail_msg("%s cannot be parsed", name);
}

static LeAnswer
decode_file(const char *name)
{
	LeOp		op;
	LeResponse r;

	load(name, &op, &r);
	return decode(&op, &r);
}

static void
test_recorded(void **state)
{
	for (int i = 0; i < lengthof(recorded); i++)
	{
		const Recorded *c = &recorded[i];
		LeAnswer	a = decode_file(c->file);

		if (a.outcome != c->outcome)
			fail_msg("%s: %s (%s)", c->file, le_outcome_name(a.outcome),
					 a.detail ? a.detail : "");
		if (a.outcome == LE_CONFLICT && a.conflict != c->conflict)
			fail_msg("%s: conflict %d", c->file, a.conflict);
		if (a.nkeys + a.nnodes + a.nclaims + a.nlost != c->count)
			fail_msg("%s: %d keys, %d nodes, %d claims, %d lost", c->file,
					 a.nkeys, a.nnodes, a.nclaims, a.nlost);
	}
}

/* Reasons of refusals. */
static void
test_causes(void **state)
{
	static const char *const permission[] = {
		"acquire-denied", "check-prefix-filtered", "check-prefix-hidden",
		"claim-denied", "create-denied", "destroy-denied",
		"list-claims-filtered", "list-held-filtered", "list-held-hidden",
		"prove-denied", "read-anonymous", "read-claim-denied", "read-denied",
		"renew-denied", "verify-gone", "verify-hidden", "watch-filtered",
	};

	for (int i = 0; i < lengthof(recorded); i++)
	{
		const char *file = recorded[i].file;
		LeCause		expect = LE_CAUSE_OTHER;

		for (int k = 0; k < lengthof(permission); k++)
			if (strcmp(file, permission[k]) == 0)
				expect = LE_CAUSE_PERMISSION;
		if (strstr(file, "no-such-token") != NULL)
			expect = LE_CAUSE_STRANGER;
		if (strstr(file, "redirect") != NULL)
			expect = LE_CAUSE_NOT_STORE;
		if (strcmp(file, "create-blocked") == 0 ||
			strcmp(file, "create-ttl-too-short") == 0)
			expect = LE_CAUSE_SETTING;
		if (decode_file(file).cause != expect)
			fail_msg("%s: cause %d", file, decode_file(file).cause);
	}
}

/* No file of the corpus is forgotten. */
static void
test_corpus_complete(void **state)
{
	DIR		   *dir = opendir(corpus);
	struct dirent *entry;
	int			n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL)
		n += entry->d_name[0] != '.';
	closedir(dir);
	assert_int_equal(n, lengthof(recorded));
}

/* Content of the recorded answers, beyond their outcome. */
static void
test_recorded_keys(void **state)
{
	LeKey		key = decode_file("read-held").keys[0];
	LeAnswer	a;

	assert_string_equal(key.election, "billing");
	assert_string_equal(key.holder, SESSION);
	assert_string_equal(key.value_session, SESSION);
	assert_string_equal(key.node, "n1");
	assert_string_equal(key.value, "{\"host\":\"db1\",\"port\":5432}");
	assert_true(key.usable && key.ours && !key.released);
	key = decode_file("read-held-text").keys[0];
	assert_string_equal(key.value, "two\nlines \xc3\xa4");
	key = decode_file("read-released").keys[0];
	assert_true(key.usable && key.ours && key.released);
	assert_null(key.holder);
	assert_string_equal(key.value, "{\"host\":\"db1\",\"port\":5432}");
	key = decode_file("read-unreleased").keys[0];
	assert_true(key.usable && key.ours && !key.released);
	assert_null(key.holder);
	key = decode_file("read-foreign-holder").keys[0];
	assert_true(key.usable && !key.ours);
	assert_string_equal(key.holder, FOREIGN);
	key = decode_file("read-empty-value").keys[0];
	assert_true(key.usable && !key.ours);
	assert_null(key.holder);
	assert_false(decode_file("read-no-flag").keys[0].usable);
	assert_false(decode_file("read-semaphore").keys[0].usable);

	a = decode_file("prove-two-keys-lost");
	assert_int_equal(a.lost[0], 1);
	assert_int_equal(a.lost[1], 2);
	assert_int_equal(decode_file("prove-identical").index,
					 decode_file("prove-done").index);
	assert_true(decode_file("prove-done").index >
				decode_file("register-done").index);
	assert_true(decode_file("release-done").index >
				decode_file("publish-done").index);
	assert_true(decode_file("publish-done").index >
				decode_file("acquire-done-new").index);
	a = decode_file("list-nodes-revoked");
	for (int i = 0; i < 2; i++)
	{
		bool		revoked = strcmp(a.nodes[i].session, SESSION) == 0;

		assert_int_equal(a.nodes[i].revoked, revoked);
		assert_int_equal(a.nodes[i].held, !revoked);
	}
	a = decode_file("read-claim");
	assert_string_equal(a.claims[0].id, CLAIM);
	assert_int_equal(a.claims[0].tick, 1800000000000);
	assert_int_equal(a.claims[0].state, LE_CLAIM_RUNNING);
	assert_int_equal(a.claims[0].index, decode_file("claim-done").index);
	a = decode_file("list-claims");
	assert_string_equal(a.claims[0].job, "../a b/\xc3\xa4%");
	assert_string_equal(a.claims[1].job, "nightly");
	assert_string_equal(a.claims[1].election, "billing");
	assert_int_equal(decode_file("watch-timeout").index, 0);
	assert_string_equal(decode_file("session-name").name,
						"leader_election: n1");
	assert_string_equal(decode_file("create-done").session, SESSION);
	assert_non_null(strstr(decode_file("verify-hidden").detail,
						   "session:read"));
}

/*
 * An answer that is cut short, or followed by more, is none: with any first
 * part, the outcome of a write is unknown.
 */
static void
test_truncated(void **state)
{
	for (int i = 0; i < lengthof(recorded); i++)
	{
		LeOp		op;
		LeResponse r;
		LeOutcome	expect;
		size_t		full;

		load(recorded[i].file, &op, &r);
		if (r.http.status != 200 && r.http.status != 409)
			continue;
		expect = le_op_writes(op.kind) ? LE_UNKNOWN : LE_UNAVAILABLE;
		if (says_filtered(&r))
			expect = recorded[i].outcome;
		full = r.body_len;
		while (full > 0 && strchr(" \n", r.body[full - 1]) != NULL)
			full--;
		for (r.body_len = 0; r.body_len < full; r.body_len++)
		{
			LeOutcome	outcome = decode(&op, &r).outcome;

			if (outcome != expect &&
				!(says_filtered(&r) && outcome == LE_UNAVAILABLE))
				fail_msg("%s, %zu bytes: %s", recorded[i].file, r.body_len,
						 le_outcome_name(outcome));
		}
		reset_memory();
	}
}

/* Flips each bit: the result may be any that keeps the rules. */
static void
test_damaged(void **state)
{
	for (int i = 0; i < lengthof(recorded); i++)
	{
		LeOp		op;
		LeResponse r;

		load(recorded[i].file, &op, &r);
		for (size_t bit = 0; bit < r.body_len * 8; bit++)
		{
			char	   *byte = unconstify(char *, r.body) + bit / 8;

			*byte ^= 1 << bit % 8;
			decode(&op, &r);
			*byte ^= 1 << bit % 8;
		}
		reset_memory();
	}
}

/* ---- --encode ---- */

static const char *held[LE_MAX_CHECKED_KEYS];
static LeNodeKey target;
static LeClaim claim;
static LeClaim previous;

static bool
set_argument(LeOp *op, LeNamespace *ns, const char *name,
			 char *value)
{
	if (strcmp(name, "session") == 0)
		op->session = value;
	else if (strcmp(name, "election") == 0)
		op->election = value;
	else if (strcmp(name, "value") == 0)
		op->value = value;
	else if (strcmp(name, "index") == 0)
		op->index = strtoull(value, NULL, 10);
	else if (strcmp(name, "seq") == 0)
		op->proof.seq = strtoull(value, NULL, 10);
	else if (strcmp(name, "lease") == 0)
		op->lease = strtoll(value, NULL, 10) * LE_SEC;
	else if (strcmp(name, "watch") == 0)
		op->watch.index = strtoull(value, NULL, 10);
	else if (strcmp(name, "wait") == 0)
		op->watch.wait_ms = atoi(value);
	else if (strcmp(name, "target") == 0)
		target.session = value;
	else if (strcmp(name, "target_index") == 0)
		target.index = strtoull(value, NULL, 10);
	else if (strcmp(name, "target_held") == 0)
		target.held = op->takeover.target_holds = strcmp(value, "1") == 0;
	else if (strcmp(name, "job") == 0)
		op->claim.job = claim.job = value;
	else if (strcmp(name, "previous") == 0)
	{
		previous.index = strtoull(value, NULL, 10);
		op->claim.previous = previous.index == 0 ? NULL : &previous;
	}
	else if (strcmp(name, "dc") == 0)
		strlcpy(ns->part, value, sizeof(ns->part));
	else if (strcmp(name, "held") == 0)
	{
		op->proof.held = held;
		op->proof.nheld = 0;
		for (char *s = strtok(value, ","); s != NULL; s = strtok(NULL, ","))
			held[op->proof.nheld++] = s;
	}
	else
		return false;
	return true;
}

static bool
kind_by_name(const char *name, LeOpKind *kind)
{
	for (int i = 0; i <= LE_OP_SESSION_NAME; i++)
	{
		if (strcmp(le_op_name(i), name) == 0)
		{
			*kind = i;
			return true;
		}
	}
	return false;
}

/*
 * Prints a request, for record-corpus: method, path, body.  The first
 * argument is kind=NAME, the others replace test_op's values.
 */
static int
print_request(int argc, char **argv)
{
	LeNamespace		ns = test_namespace;
	LeRequest request;
	LeOpKind	kind;
	LeOp		op;

	if (argc < 1 || strncmp(argv[0], "kind=", 5) != 0 ||
		!kind_by_name(argv[0] + 5, &kind))
		return 2;
	op = test_op(kind);
	target = *op.takeover.target;
	op.takeover.target = &target;
	claim = *op.claim.record;
	op.claim.record = &claim;
	for (int i = 1; i < argc; i++)
	{
		char	   *equal = strchr(argv[i], '=');

		if (equal == NULL)
			return 2;
		*equal = '\0';
		if (!set_argument(&op, &ns, argv[i], equal + 1))
			return 2;
	}
	le_store_consul.codec.encode(&ns, &op, &request);
	printf("%s\n%s\n%s", request.http.method, request.http.path.data,
		   request.http.body.data);
	reset_memory();
	return 0;
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		store_test(test_requests),
		store_test(test_acquire_new),
		store_test(test_takes_news),
		store_test(test_nodes_that_tell),
		store_test(test_gossip),
		store_test(test_strange_news),
		store_test(test_joined),
		store_test(test_joined_room),
		store_test(test_joined_refused),
		store_test(test_joined_applied),
		store_test(test_not_joined),
		store_test(test_take_over_dead),
		store_test(test_claim_new),
		store_test(test_paths),
		store_test(test_odd_names),
		store_test(test_lease_rounding),
		store_test(test_system_is_told),
		store_test(test_proof_size),
		store_test(test_values),
		store_test(test_errors),
		store_test(test_session_lost),
		store_test(test_network),
		store_test(test_transactions),
		store_test(test_lost_positions),
		store_test(test_patroni_detail),
		store_test(test_applied),
		store_test(test_forget),
		store_test(test_leader_value),
		store_test(test_token),
		store_test(test_long_values),
		store_test(test_read),
		store_test(test_nothing_there),
		store_test(test_list),
		store_test(test_long_list),
		store_test(test_slices),
		store_test(test_slices_of_nodes),
		store_test(test_watch_index),
		store_test(test_nodes),
		store_test(test_prefix),
		store_test(test_verify),
		store_test(test_session_answers),
		store_test(test_details),
		store_test(test_recorded),
		store_test(test_causes),
		store_test(test_corpus_complete),
		store_test(test_recorded_keys),
		store_test(test_truncated),
		store_test(test_damaged),
	};

	if (argc > 1 && strcmp(argv[1], "--encode") == 0)
		return print_request(argc - 2, argv + 2);
	return cmocka_run_group_tests_name("consul", tests, NULL, NULL);
}
