/*-------------------------------------------------------------------------
 *
 * test_azure.c
 *		Tests of src/store/azure.c: its requests, and its decoding of answers,
 *		recorded from Azurite (corpus/azure) or made up where the service is
 *		documented to differ.
 *
 * test/unit/test_azure.c
 *
 *-------------------------------------------------------------------------
 */
#include "store_test.h"

#include <stdio.h>

#include "exchange.h"

#define OURS	"00000000-0000-0000-0000-000000000001"
#define OTHERS	"00000000-0000-0000-0000-000000000002"
#define ETAG	"\"0x8D\""
#define K		"/leader_election/billing~leader"
#define C		"/leader_election~claims/billing~/nightly"
#define VERSION	"x-ms-version: 2021-12-02\n"

enum
{
	HEAD, WRITE, CHECK, CREATE, LEASE, STAMP, RENEW, WHOSE, GIVE_BACK
};

/* ---- requests ---- */

static LeRequest
encode(const LeOp *op)
{
	LeRequest r;

	memset(&r, 0, sizeof(r));
	initStringInfo(&r.http.path);
	initStringInfo(&r.http.headers);
	initStringInfo(&r.http.body);
	le_store_azure.codec.encode(&test_namespace, op, &r);
	assert_true(r.max_answer > 0);
	assert_false(r.http.has_body);
	assert_false(le_store_azure.codec.performs(op->kind));
	return r;
}

static LeOp
op_at(LeOpKind kind, int step, uint64 index)
{
	LeOp		op = test_op(kind);

	op.wire.step.number = step;
	op.wire.step.index = index;
	strcpy(op.wire.step.tag, ETAG);
	op.renew.nterms = 1;
	op.value = "v";
	op.token = 7;
	return op;
}

static void
expect_request(LeOp op, const char *method, const char *path,
			   const char *headers)
{
	LeRequest r = encode(&op);

	assert_string_equal(r.http.method, method);
	assert_string_equal(r.http.path.data, path);
	assert_string_equal(r.http.headers.data, psprintf(VERSION "%s", headers));
}

#define TERM(token, session) \
	"x-ms-lease-id: " OURS "\nx-ms-meta-le_token: " token "\n" \
	"x-ms-meta-le_attempt: " OURS "\nx-ms-meta-le_session: " session "\n" \
	"x-ms-meta-le_node: bjE\nx-ms-meta-le_lease: 15000\n" \
	"x-ms-meta-le_value: dg\n"
#define RECORD \
	"x-ms-meta-le_job: bmlnaHRseQ\nx-ms-meta-le_tick: 1800000000000\n" \
	"x-ms-meta-le_try: 1\nx-ms-meta-le_token: 7\n" \
	"x-ms-meta-le_id: " CLAIM "\nx-ms-meta-le_state: running\n" \
	"x-ms-meta-le_node: bjE\nx-ms-meta-le_claimed: 1800000000123\n"
#define CREATES	"x-ms-blob-type: BlockBlob\nIf-None-Match: *\n" \
	"x-ms-meta-le_proto: 1\n"
#define METADATA	"If-Match: " ETAG "\nx-ms-meta-le_proto: 1\n"
#define LEASES(what)	"x-ms-lease-action: " what "\n"

static void
test_requests(void **state)
{
	LeOp		op;

	expect_request(op_at(LE_OP_READ, HEAD, 0), "HEAD", K, "");
	expect_request(op_at(LE_OP_WATCH, HEAD, 0), "HEAD", K, "");
	expect_request(op_at(LE_OP_READ, WHOSE, 7), "HEAD", K,
				   "x-ms-lease-id: " ETAG "\n");
	expect_request(op_at(LE_OP_ACQUIRE, HEAD, 0), "HEAD", K, "");
	expect_request(op_at(LE_OP_ACQUIRE, CREATE, 0), "PUT", K,
				   CREATES "x-ms-meta-le_token: 0\n");
	expect_request(op_at(LE_OP_ACQUIRE, LEASE, 7), "PUT", K "?comp=lease",
				   LEASES("acquire") "x-ms-lease-duration: 15\n"
				   "x-ms-proposed-lease-id: " OURS "\nIf-Match: " ETAG "\n");
	expect_request(op_at(LE_OP_ACQUIRE, STAMP, 7), "PUT", K "?comp=metadata",
				   METADATA TERM("8", SESSION));
	expect_request(op_at(LE_OP_ACQUIRE, RENEW, 8), "PUT", K "?comp=lease",
				   LEASES("renew") "x-ms-lease-id: " OURS "\n");
	expect_request(op_at(LE_OP_ACQUIRE, GIVE_BACK, 409), "PUT",
				   K "?comp=lease", LEASES("release") "x-ms-lease-id: " OURS "\n");
	expect_request(op_at(LE_OP_PUBLISH, WRITE, 7), "PUT", K "?comp=metadata",
				   METADATA TERM("7", SESSION));
	expect_request(op_at(LE_OP_RENEW_TERMS, HEAD, 0), "PUT", K "?comp=lease",
				   LEASES("renew") "x-ms-lease-id: " OURS "\n");
	op = op_at(LE_OP_RELEASE, WRITE, 7);
	strcpy(op.wire.step.tag, OTHERS);
	expect_request(op, "PUT", K "?comp=lease",
				   LEASES("release") "x-ms-lease-id: " OTHERS "\n");
	op = op_at(LE_OP_RELEASE, HEAD, 0);
	op.dry_run = true;			/* may it be written?  Nothing is to change */
	expect_request(op, "PUT", K "?comp=lease", LEASES("release")
				   "x-ms-lease-id: 00000000-0000-0000-0000-000000000000\n");
	expect_request(op_at(LE_OP_READ_CLAIM, HEAD, 0), "HEAD", C, "");
	op = op_at(LE_OP_CLAIM, WRITE, 0);
	expect_request(op, "PUT", C "?comp=metadata", METADATA RECORD);
	op.wire.step.tag[0] = '\0';
	expect_request(op, "PUT", C, CREATES RECORD);
	expect_request(op_at(LE_OP_CLAIM, CHECK, 0), "PUT", K "?comp=lease",
				   LEASES("renew") "x-ms-lease-id: " OURS "\n");
	expect_request(op_at(LE_OP_COMPLETE, WRITE, 0), "PUT", C "?comp=metadata",
				   METADATA RECORD);
	op = op_at(LE_OP_LIST_HELD, HEAD, 0);
	expect_request(op, "GET", "?restype=container&comp=list&include=metadata"
				   "&maxresults=1000&prefix=leader_election%2F", "");
	op.kind = LE_OP_LIST_CLAIMS;
	op.page = "a/b&c=";
	expect_request(op, "GET", "?restype=container&comp=list&include=metadata"
				   "&maxresults=1000&prefix=leader_election~claims%2F"
				   "&marker=a%2Fb%26c%3D", "");
}

/* The service counts whole seconds: asks for more, believes in less. */
static void
test_durations(void **state)
{
	LeOp		op = op_at(LE_OP_ACQUIRE, LEASE, 7);

	op.lease = 15500 * LE_MSEC;
	assert_non_null(strstr(encode(&op).http.headers.data,
						   "x-ms-lease-duration: 16\n"));
	assert_int_equal(le_store_azure.lease.least, 15 * LE_SEC);
	assert_int_equal(le_store_azure.lease.granularity, LE_SEC);
}

/* Requests of a session go to its own store, even if the setting changes. */
static void
test_namespace_of_session(void **state)
{
	LeNamespace		ns = test_namespace;
	LeOp		op = op_at(LE_OP_READ, HEAD, 0);
	LeRequest r = {0};

	initStringInfo(&r.http.path);
	initStringInfo(&r.http.headers);
	strcpy(ns.part, "https://a.blob.core.windows.net/old");
	le_store_azure.codec.encode(&ns, &op, &r);
	assert_string_equal(r.base, "https://a.blob.core.windows.net/old");
}

/* The service takes 1,024 characters. */
static void
check_longest_name(void)
{
	LeNamespace		ns = test_namespace;
	LeOp		op = op_at(LE_OP_READ_CLAIM, HEAD, 0);
	LeRequest r = {0};
	char		name[LE_MAX_ELECTION_LEN + 1] = "";
	char		job[LE_MAX_JOB_LEN + 1] = "";

	memset(name, 'a', LE_MAX_ELECTION_LEN);
	memset(job, '.', LE_MAX_JOB_LEN);
	strcpy(ns.prefix, name);
	op.election = name;
	op.claim.job = job;
	initStringInfo(&r.http.path);
	initStringInfo(&r.http.headers);
	le_store_azure.codec.encode(&ns, &op, &r);
	assert_int_equal(strlen(r.http.path.data), 1 + 1010);
	assert_null(strchr(r.http.path.data, '%'));
}

static void
test_names(void **state)
{
	static const struct
	{
		const char *election;
		const char *path;
	}			cases[] = {
		{"a", "/leader_election/a~leader"},
		{"a/b", "/leader_election/a/b~leader"},
		{"a.", "/leader_election/a.~leader"},
		{"a./b..c", "/leader_election/a.~/b..c~leader"},
	};
	LeOp		op = op_at(LE_OP_READ, HEAD, 0);

	for (int i = 0; i < lengthof(cases); i++)
	{
		op.election = cases[i].election;
		expect_request(op, "HEAD", cases[i].path, "");
	}
	check_longest_name();
	op = op_at(LE_OP_READ_CLAIM, HEAD, 0);
	op.election = "a./b";
	op.claim.job = "../x y?=\xc3\xa9";
	expect_request(op, "HEAD", "/leader_election~claims/a.~/b~/"
				   "=2E=2E=2Fx=20y=3F=3D=C3=A9", "");
}

/* ---- answers ---- */

static LeAnswer
decode(const LeOp *op, const LeResponse *response)
{
	LeAnswer	a;

	memset(&a, 0x55, sizeof(a));
	le_store_azure.codec.decode(&test_namespace, op, response, &a);
	check_blob_answer(op, response, &a);
	return a;
}

static LeAnswer
decode_file(const char *name, LeOp *op)
{
	char	   *path = psprintf("test/unit/corpus/azure/%s", name);
	FILE	   *file = fopen(path, "r");
	char	   *text = palloc(65536);
	LeResponse response;
	size_t		len;

	if (file == NULL)
		fail_msg("no file %s", path);
	len = fread(text, 1, 65536, file);
	fclose(file);
	assert_true(parse_exchange(text, len, op, &response));
	op->renew.nterms = 1;
	return decode(op, &response);
}

/* An answer of the service, made up. */
static LeResponse
answer_of(int status, const char *code, const char *headers)
{
	LeResponse r = {.http.status = status, .http.content_type = "",
		.body = ""};

	r.http.headers =
		psprintf("x-ms-request-id: r\r\nx-ms-version: 2021-12-02\r\n"
				 "%s%s%s%s", code ? "x-ms-error-code: " : "",
				 code ? code : "", code ? "\r\n" : "", headers);
	return r;
}

#define NOTHING	(-1)			/* no further request */

static void
test_recorded(void **state)
{
	static const struct
	{
		const char *file;
		LeOutcome	outcome;
		int			next;
		LeConflict	conflict;
	}			cases[] = {
		{"read-never", LE_DONE, NOTHING},
		{"read-no-term", LE_DONE, NOTHING},
		{"read", LE_DONE, WHOSE},
		{"watch", LE_DONE, WHOSE},
		{"read-whose", LE_DONE, NOTHING},
		{"read-whose-other", LE_DONE, NOTHING},
		{"read-whose-free", LE_DONE, HEAD},
		{"read-free", LE_DONE, NOTHING},
		{"read-breaking", LE_DONE, WHOSE},
		{"read-broken", LE_DONE, NOTHING},
		{"read-expired-sas", LE_REFUSED, NOTHING},
		{"read-no-container", LE_REFUSED, NOTHING},
		{"acquire-head-never", LE_DONE, CREATE},
		{"acquire-create", LE_DONE, LEASE},
		{"acquire-create-exists", LE_CONFLICT, NOTHING, LE_CONFLICT_CHANGED},
		{"acquire-head", LE_DONE, LEASE},
		{"acquire-lease", LE_DONE, STAMP},
		{"acquire-lease-held", LE_CONFLICT, NOTHING, LE_CONFLICT_HELD},
		{"acquire-lease-moved", LE_CONFLICT, NOTHING, LE_CONFLICT_CHANGED},
		{"acquire-lease-breaking", LE_CONFLICT, NOTHING, LE_CONFLICT_HELD},
		{"acquire-stamp", LE_DONE, NOTHING},
		{"acquire-stamp-again", LE_UNKNOWN, NOTHING},
		{"acquire-stamp-other", LE_CONFLICT, NOTHING, LE_CONFLICT_CHANGED},
		{"acquire-stamp-not-leased", LE_CONFLICT, NOTHING,
		LE_CONFLICT_CHANGED},
		{"acquire-head-own", LE_DONE, RENEW},
		{"acquire-head-moved", LE_CONFLICT, NOTHING, LE_CONFLICT_CHANGED},
		{"acquire-renew", LE_DONE, NOTHING},
		{"acquire-permission", LE_REFUSED, NOTHING},
		{"publish-head", LE_DONE, WRITE},
		{"publish", LE_DONE, NOTHING},
		{"publish-again", LE_UNKNOWN, NOTHING},
		{"release-head", LE_DONE, WRITE},
		{"release", LE_DONE, NOTHING},
		{"release-again", LE_DONE, NOTHING},
		{"read-claim-never", LE_DONE, NOTHING},
		{"read-claim", LE_DONE, NOTHING},
		{"claim-create", LE_DONE, CHECK},
		{"claim-exists", LE_CONFLICT, NOTHING, LE_CONFLICT_CHANGED},
		{"claim-head-own", LE_DONE, CHECK},
		{"complete-head", LE_DONE, NOTHING},
		{"complete", LE_DONE, NOTHING},
		{"complete-again", LE_UNKNOWN, NOTHING},
		{"list-held-permission", LE_REFUSED, NOTHING},
		{"renew-no-container", LE_REFUSED, NOTHING},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeOp		op;
		LeAnswer	a = decode_file(cases[i].file, &op);

		if (a.outcome != cases[i].outcome ||
			a.wire.again != (cases[i].next != NOTHING) ||
			(a.wire.again && a.wire.next.number != cases[i].next) ||
			(a.outcome == LE_CONFLICT && a.conflict != cases[i].conflict))
			fail_msg("%s: outcome %s (%s), conflict %d, next %d",
					 cases[i].file, le_outcome_name(a.outcome),
					 a.detail ? a.detail : "", a.conflict,
					 a.wire.again ? a.wire.next.number : NOTHING);
	}
}

static void
test_recorded_renewals(void **state)
{
	static const struct
	{
		const char *file;
		LeOutcome	outcome;
	}			cases[] = {
		{"renew-terms", LE_DONE},
		{"renew-terms-other", LE_LOST},
		{"renew-terms-released", LE_LOST},
		{"renew-terms-breaking", LE_LOST},
		{"renew-terms-broken", LE_LOST},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeOp		op;
		LeAnswer	a = decode_file(cases[i].file, &op);

		assert_int_equal(a.outcome, LE_DONE);
		if (a.renewals[0].outcome != cases[i].outcome)
			fail_msg("%s: %s", cases[i].file,
					 le_outcome_name(a.renewals[0].outcome));
	}
}

static void
test_recorded_keys(void **state)
{
	LeOp		op;
	LeAnswer	a = decode_file("read-whose", &op);
	LeKey	   *key = a.keys;

	assert_int_equal(a.nkeys, 1);
	assert_int_equal(key->index, 1);
	assert_int_equal(a.index, 1);
	assert_string_equal(key->holder, SESSION);
	assert_string_equal(key->node, "n1");
	assert_string_equal(key->value, "v");

	/* leased by another client, whose name is not written yet */
	a = decode_file("read-whose-other", &op);
	key = a.keys;
	assert_int_equal(key->index, 1);
	assert_true(key->usable);
	assert_string_not_equal(key->holder, op.session);
	assert_string_equal(key->value_session, key->holder);
	assert_string_equal(key->node, "");

	/* judged by the service, so the state may be newer than the term */
	a = decode_file("read-free", &op);
	key = a.keys;
	assert_null(key->holder);
	assert_true(key->released);
	assert_int_equal(a.index, 2);

	/* free, but its holder may still believe */
	a = decode_file("read-broken", &op);
	key = a.keys;
	assert_null(key->holder);
	assert_true(key->ours);
	assert_false(key->released);
	assert_string_equal(key->value_session, SESSION);

	assert_int_equal(decode_file("read-never", &op).nkeys, 0);
	assert_int_equal(decode_file("read-no-term", &op).nkeys, 0);
	a = decode_file("read-claim", &op);
	assert_int_equal(a.nclaims, 1);
	assert_string_equal(a.claims[0].job, "nightly");
	assert_string_equal(a.claims[0].id, CLAIM);
	assert_string_equal(a.claims[0].node, "n1");
	assert_int_equal(a.claims[0].tick, 1800000000000);
	assert_int_equal(a.claims[0].state, LE_CLAIM_RUNNING);
}

#define MISSED(n, from, to) \
	"x-ms-meta-le_missed: " n "\r\n" \
	"x-ms-meta-le_missed_from: " from "\r\n" \
	"x-ms-meta-le_missed_to: " to "\r\n"

/* A record's text for people; one of an earlier version has none. */
static void
test_report(void **state)
{
	LeClaim		told = *test_op(LE_OP_CLAIM).claim.record;
	LeOp		op = op_at(LE_OP_CLAIM, WRITE, 0);
	LeResponse response;
	LeAnswer	a;

	told.every = 60000;
	told.wait = 5000;
	told.last_success = 1700000000000;
	told.writes = 12;
	told.gap = (LeGap) {2, 1799999820000, 1799999940000};
	told.failures = 2;
	told.sqlstate = "22012";
	told.message = "Br\xc3\xbc" "cke: 7";
	op.claim.record = &told;
	expect_request(op, "PUT", C "?comp=metadata", METADATA RECORD
				   "x-ms-meta-le_every: 60000\nx-ms-meta-le_wait: 5000\n"
				   "x-ms-meta-le_success: 1700000000000\n"
				   "x-ms-meta-le_missed: 2\n"
				   "x-ms-meta-le_missed_from: 1799999820000\n"
				   "x-ms-meta-le_missed_to: 1799999940000\n"
				   "x-ms-meta-le_writes: 12\n"
				   "x-ms-meta-le_failures: 2\n"
				   "x-ms-meta-le_sqlstate: 22012\n"
				   "x-ms-meta-le_message: QnLDvGNrZTogNw\n");
	response = answer_of(200, NULL, psprintf("ETag: " ETAG "\r\n"
											 "x-ms-lease-state: available\r\n%s",
											 encode(&op).http.headers.data));
	op = op_at(LE_OP_READ_CLAIM, HEAD, 0);
	a = decode(&op, &response);
	assert_int_equal(a.outcome, LE_DONE);
	assert_int_equal(a.nclaims, 1);
	assert_int_equal(a.claims[0].every, 60000);
	assert_int_equal(a.claims[0].wait, 5000);
	assert_int_equal(a.claims[0].last_success, 1700000000000);
	assert_int_equal(a.claims[0].writes, 12);
	assert_int_equal(a.claims[0].gap.n, 2);
	assert_int_equal(a.claims[0].gap.first, 1799999820000);
	assert_int_equal(a.claims[0].gap.last, 1799999940000);
	assert_int_equal(a.claims[0].failures, 2);
	assert_string_equal(a.claims[0].sqlstate, "22012");
	assert_string_equal(a.claims[0].message, "Br\xc3\xbc" "cke: 7");

	a = decode_file("read-claim", &op);
	assert_int_equal(a.claims[0].every, 0);
	assert_int_equal(a.claims[0].gap.n, 0);
	assert_int_equal(a.claims[0].failures, -1);
	assert_null(a.claims[0].sqlstate);
	assert_null(a.claims[0].message);
}

/* The gap of a claim is whole, or nothing; the record stands. */
static void
test_gap(void **state)
{
	static const struct
	{
		const char *meta;
		int64		n;
	}			cases[] = {
		{MISSED("1", "1799999940000", "1799999940000"), 1},
		{MISSED("0", "1799999940000", "1799999940000"), 0},
		{MISSED("-1", "1799999940000", "1799999940000"), 0},
		{MISSED("2", "1799999940000", "1799999940000"), 0},
		{MISSED("1", "1799999940000", "1800000000000"), 0},
		{MISSED("1", "1799999940000", "1799999820000"), 0},
		{MISSED("1", "x", "1799999940000"), 0},
		{"x-ms-meta-le_missed: 1\r\n", 0},
		{"x-ms-meta-le_missed_from: 1\r\nx-ms-meta-le_missed_to: 1\r\n", 0},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeOp		op = op_at(LE_OP_CLAIM, WRITE, 0);
		LeResponse response =
			answer_of(200, NULL, psprintf("ETag: " ETAG "\r\n"
										  "x-ms-lease-state: available\r\n%s%s",
										  encode(&op).http.headers.data,
										  cases[i].meta));
		LeAnswer	a;

		op = op_at(LE_OP_READ_CLAIM, HEAD, 0);
		a = decode(&op, &response);
		assert_int_equal(a.outcome, LE_DONE);
		if (a.nclaims != 1 || a.claims[0].gap.n != cases[i].n)
			fail_msg("case %d", i);
	}
}

static void
test_recorded_lists(void **state)
{
	LeOp		op;
	LeAnswer	a = decode_file("list-held", &op);

	assert_int_equal(a.outcome, LE_DONE);
	assert_int_equal(a.nkeys, 1);
	assert_string_equal(a.keys[0].election, "billing");
	assert_string_equal(a.keys[0].holder, SESSION);
	assert_null(a.page);
	a = decode_file("list-claims", &op);
	assert_int_equal(a.nclaims, 1);
	assert_string_equal(a.claims[0].election, "billing");
	assert_int_equal(a.claims[0].state, LE_CLAIM_DONE);
	a = decode_file("list-held-page", &op);
	assert_int_equal(a.nkeys, 0);
	assert_string_equal(a.page, "leader_election/a&b~leader");
	a = decode_file("list-held-empty", &op);
	assert_int_equal(a.outcome, LE_DONE);
	assert_int_equal(a.nkeys, 0);
	assert_null(a.page);
}

/* Belief counts from the request for the lease alone. */
static void
test_anchor(void **state)
{
	LeOp		op;
	LeAnswer	a = decode_file("acquire-head", &op);

	assert_false(a.wire.anchors);
	a = decode_file("acquire-lease", &op);
	assert_true(a.wire.anchors);
	a = decode_file("acquire-stamp", &op);
	assert_false(a.wire.anchors);
	assert_int_equal(a.index, 1);
	assert_int_equal(a.term.trust, 14 * LE_SEC);
	a = decode_file("acquire-renew", &op);
	assert_true(a.wire.anchors);
	assert_int_equal(a.index, 1);
	a = decode_file("publish", &op);
	assert_int_equal(a.term.trust, 0);
}

/* Azurite renews an expired lease for any client. */
static void
test_lease_ids(void **state)
{
	static const struct
	{
		LeOpKind	kind;
		int			step;
	}			cases[] = {
		{LE_OP_ACQUIRE, LEASE}, {LE_OP_ACQUIRE, RENEW}, {LE_OP_CLAIM, CHECK}
	};
	LeOp		op = op_at(LE_OP_RENEW_TERMS, HEAD, 0);
	LeResponse r = answer_of(200, NULL, "x-ms-lease-id: " OTHERS "\r\n");
	LeAnswer	a = decode(&op, &r);

	assert_int_equal(a.renewals[0].outcome, LE_LOST);
	r = answer_of(200, NULL, "");
	assert_int_equal(decode(&op, &r).outcome, LE_UNKNOWN);
	for (int i = 0; i < lengthof(cases); i++)
	{
		op = op_at(cases[i].kind, cases[i].step, 7);
		r = answer_of(200, NULL, "x-ms-lease-id: " OURS "\r\n");
		assert_int_equal(decode(&op, &r).outcome, LE_DONE);
		r = answer_of(200, NULL, "x-ms-lease-id: " OTHERS "\r\n");
		assert_int_equal(decode(&op, &r).outcome, LE_UNKNOWN);
	}
}

/* The metadata of a term, as a HEAD shows it. */
static LeResponse
term_of(const char *state, const char *token, const char *session,
		const char *attempt)
{
	return answer_of(200, NULL,
					 psprintf("ETag: " ETAG "\r\nx-ms-lease-state: %s\r\n"
							  "x-ms-meta-le_proto: 1\r\n"
							  "x-ms-meta-le_token: %s\r\n"
							  "x-ms-meta-le_session: %s\r\n"
							  "x-ms-meta-le_node: bjE\r\n"
							  "x-ms-meta-le_attempt: %s\r\n",
							  state, token, session, attempt));
}

static void
test_acquire_head(void **state)
{
	LeOp		op = op_at(LE_OP_ACQUIRE, HEAD, 0);
	LeResponse r;
	LeAnswer	a;

	/* any old metadata: asks for the lease */
	r = term_of("leased", "7", FOREIGN, OTHERS);
	a = decode(&op, &r);
	assert_true(a.wire.again && a.wire.next.number == LEASE &&
				a.wire.next.index == 7);
	assert_string_equal(a.wire.next.tag, ETAG);

	/* stamped by an earlier copy of this very acquire */
	r = term_of("leased", "8", SESSION, OURS);
	a = decode(&op, &r);
	assert_true(a.wire.again && a.wire.next.number == RENEW &&
				a.wire.next.index == 8);

	/* expired since: nothing to revive */
	r = term_of("expired", "8", SESSION, OURS);
	a = decode(&op, &r);
	assert_int_equal(a.outcome, LE_CONFLICT);
	assert_int_equal(a.conflict, LE_CONFLICT_CHANGED);

	/* the ETag belongs to another token */
	r = term_of("available", "8", FOREIGN, OTHERS);
	assert_int_equal(decode(&op, &r).outcome, LE_CONFLICT);

	/* by this node, but for another reason */
	r = term_of("leased", "8", SESSION, OTHERS);
	a = decode(&op, &r);
	assert_int_equal(a.outcome, LE_CONFLICT);
	assert_int_equal(a.conflict, LE_CONFLICT_OWN);
	assert_int_equal(a.index, 8);
	r = term_of("leased", "8", FOREIGN, OTHERS);
	a = decode(&op, &r);
	assert_int_equal(a.outcome, LE_CONFLICT);
	assert_int_equal(a.conflict, LE_CONFLICT_CHANGED);

	/* a foreign blob */
	r = answer_of(200, NULL, "ETag: " ETAG "\r\nx-ms-lease-state: available\r\n");
	a = decode(&op, &r);
	assert_int_equal(a.outcome, LE_CONFLICT);
	op = op_at(LE_OP_READ, HEAD, 0);
	a = decode(&op, &r);
	assert_int_equal(a.nkeys, 1);
	assert_false(a.keys[0].usable);
}

static void
test_foreign_blobs(void **state)
{
	static const char *const cases[] = {
		"x-ms-meta-le_proto: 2\r\nx-ms-meta-le_token: 7\r\n",
		"x-ms-meta-le_proto: 1\r\n",
		"x-ms-meta-le_proto: 1\r\nx-ms-meta-le_token: 7\r\n",
		"x-ms-meta-le_proto: 1\r\nx-ms-meta-le_token: -7\r\n",
		"x-ms-meta-le_proto: 1\r\nx-ms-meta-le_token: 99999999999999999999\r\n",
		"x-ms-meta-le_token: 7\r\n",
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeResponse r = answer_of(200, NULL,
								 psprintf("ETag: " ETAG "\r\n"
										  "x-ms-lease-state: leased\r\n%s",
										  cases[i]));
		LeOp		op = op_at(LE_OP_READ, HEAD, 0);
		LeAnswer	a = decode(&op, &r);

		assert_true(a.nkeys == 1 && !a.keys[0].usable);
		op = op_at(LE_OP_RELEASE, HEAD, 0);
		assert_false(decode(&op, &r).wire.again);
		op = op_at(LE_OP_PUBLISH, HEAD, 0);
		assert_int_equal(decode(&op, &r).outcome, LE_CONFLICT);
		op = op_at(LE_OP_CLAIM, HEAD, 0);
		assert_int_equal(decode(&op, &r).outcome, LE_REFUSED);
	}
}

/*
 * Only reads for people ask for the lease's holder, as they would show a
 * former leader; the frequent reads of candidates do not.
 */
static void
test_who_asks_whose(void **state)
{
	static const struct
	{
		LeOpKind	kind;
		bool		for_people;
		const char *session;
		const char *lease;
		bool		asks;
	}			cases[] = {
		{LE_OP_READ, true, FOREIGN, "leased", true},
		{LE_OP_READ, true, FOREIGN, "breaking", true},
		{LE_OP_READ, true, FOREIGN, "expired", false},
		{LE_OP_READ, false, FOREIGN, "leased", false},
		{LE_OP_WATCH, false, FOREIGN, "leased", false},
		{LE_OP_READ, true, SESSION, "leased", true},
		{LE_OP_READ, false, SESSION, "leased", true},
		{LE_OP_WATCH, false, SESSION, "leased", true},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeResponse r = term_of(cases[i].lease, "7", cases[i].session,
							   OTHERS);
		LeOp		op = op_at(cases[i].kind, HEAD, 0);
		LeAnswer	a;

		op.for_people = cases[i].for_people;
		a = decode(&op, &r);
		assert_int_equal(a.outcome, LE_DONE);
		assert_int_equal(a.wire.again, cases[i].asks);
		if (!a.wire.again)
			continue;
		assert_int_equal(a.wire.next.number, WHOSE);
		assert_int_equal(a.wire.next.index, 7);
		assert_string_equal(a.wire.next.tag, OTHERS);
	}
}

/* Only a blob that names this very term is released or published to. */
static void
test_other_terms(void **state)
{
	static const struct
	{
		const char *lease;
		const char *token;
		const char *session;
		const char *attempt;
		bool		releases;
		bool		publishes;
	}			cases[] = {
		{"leased", "7", SESSION, OURS, true, true},
		{"breaking", "7", SESSION, OURS, true, true},
		{"leased", "7", SESSION, OTHERS, true, false},
		{"leased", "8", SESSION, OURS, false, false},
		{"leased", "7", FOREIGN, OTHERS, false, false},
		/* a renewal in flight would find it */
		{"expired", "7", SESSION, OURS, true, true},
		{"expired", "8", SESSION, OURS, false, false},
		{"expired", "7", FOREIGN, OTHERS, false, false},
		{"available", "7", SESSION, OURS, false, true},
		{"broken", "7", SESSION, OURS, false, true},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeResponse r = term_of(cases[i].lease, cases[i].token,
							   cases[i].session, cases[i].attempt);
		LeOp		op = op_at(LE_OP_RELEASE, HEAD, 0);
		LeAnswer	a = decode(&op, &r);

		assert_int_equal(a.outcome, LE_DONE);
		assert_int_equal(a.wire.again, cases[i].releases);
		if (a.wire.again)
			assert_string_equal(a.wire.next.tag, cases[i].attempt);
		op = op_at(LE_OP_PUBLISH, HEAD, 0);
		assert_int_equal(decode(&op, &r).wire.again, cases[i].publishes);
	}
}

/* A lease that cannot be stamped is released, and the reason is kept. */
static void
test_refused_stamp(void **state)
{
	LeOp		op = op_at(LE_OP_ACQUIRE, STAMP, 7);
	LeResponse r = answer_of(409, "BlobImmutableDueToPolicy", "");
	LeAnswer	a = decode(&op, &r);

	assert_true(a.wire.again && !a.wire.anchors);
	assert_int_equal(a.wire.next.number, GIVE_BACK);
	op.wire.step = a.wire.next;
	for (int i = 0; i < 2; i++)
	{
		r = i == 0 ? answer_of(200, NULL, "") :
			(LeResponse) {.net = LE_NET_BROKEN, .http.content_type = "",
			.body = ""};
		a = decode(&op, &r);
		assert_int_equal(a.outcome, LE_REFUSED);
		assert_string_equal(a.detail, "HTTP 409: BlobImmutableDueToPolicy");
	}
	/* a rejected identity could not release it either */
	op = op_at(LE_OP_ACQUIRE, STAMP, 7);
	r = answer_of(403, "AuthenticationFailed", "");
	assert_false(decode(&op, &r).wire.again);
}

/* No node takes an infinite lease: its holder has to release it. */
static void
test_infinite_lease(void **state)
{
	static const char *const tokens[] = {"0", "7"};

	for (int i = 0; i < lengthof(tokens); i++)
	{
		LeResponse r = term_of("leased", tokens[i], FOREIGN, OTHERS);
		LeOp		op = op_at(LE_OP_READ, HEAD, 0);
		LeAnswer	a;

		r.http.headers = psprintf("%sx-ms-lease-duration: infinite\r\n",
								  r.http.headers);
		a = decode(&op, &r);
		assert_true(a.nkeys == 1 && !a.keys[0].usable);
		assert_non_null(strstr(a.keys[0].fault, "az storage blob lease break"));
		r = term_of("leased", tokens[i], FOREIGN, OTHERS);
		r.http.headers = psprintf("%sx-ms-lease-duration: fixed\r\n",
								  r.http.headers);
		a = decode(&op, &r);
		assert_true(a.nkeys == 0 || a.keys[0].usable);
	}
}

/* A blob without a term has no lease id to release. */
static void
test_no_term(void **state)
{
	LeResponse r = answer_of(200, NULL,
							 "ETag: " ETAG "\r\n"
							 "x-ms-lease-state: leased\r\n"
							 "x-ms-meta-le_proto: 1\r\n"
							 "x-ms-meta-le_token: 0\r\n"
							 "x-ms-meta-le_session: " SESSION "\r\n");
	LeOp		op = op_at(LE_OP_RELEASE, HEAD, 0);

	op.index = 0;
	assert_false(decode(&op, &r).wire.again);
	op.kind = LE_OP_PUBLISH;
	assert_int_equal(decode(&op, &r).outcome, LE_CONFLICT);
	op.kind = LE_OP_READ;
	assert_int_equal(decode(&op, &r).nkeys, 0);
}

/* By code, not by status; and by the earlier requests. */
static void
test_errors(void **state)
{
	static const struct
	{
		LeOpKind	kind;
		int			step;
		int			status;
		const char *code;
		LeOutcome	outcome;
	}			cases[] = {
		{LE_OP_READ, HEAD, 503, "ServerBusy", LE_UNAVAILABLE},
		{LE_OP_READ, HEAD, 500, "InternalError", LE_UNAVAILABLE},
		{LE_OP_READ, HEAD, 403, "AuthenticationFailed", LE_REFUSED},
		{LE_OP_READ, HEAD, 404, "ResourceNotFound", LE_REFUSED},
		{LE_OP_READ, HEAD, 429, "Whatever", LE_UNAVAILABLE},
		{LE_OP_READ, HEAD, 409, "BlobImmutableDueToPolicy", LE_REFUSED},
		{LE_OP_ACQUIRE, HEAD, 503, "ServerBusy", LE_UNAVAILABLE},
		{LE_OP_ACQUIRE, CREATE, 503, "ServerBusy", LE_UNAVAILABLE},
		{LE_OP_ACQUIRE, CREATE, 412, "LeaseIdMissing", LE_CONFLICT},
		{LE_OP_ACQUIRE, LEASE, 503, "ServerBusy", LE_UNKNOWN},
		{LE_OP_ACQUIRE, LEASE, 404, "BlobNotFound", LE_CONFLICT},
		{LE_OP_ACQUIRE, STAMP, 503, "ServerBusy", LE_UNKNOWN},
		{LE_OP_ACQUIRE, STAMP, 409, "LeaseIdMismatchWithBlobOperation",
		LE_CONFLICT},
		{LE_OP_ACQUIRE, STAMP, 412, "LeaseLost", LE_CONFLICT},
		{LE_OP_ACQUIRE, STAMP, 403, "AuthorizationFailure", LE_REFUSED},
		{LE_OP_ACQUIRE, GIVE_BACK, 200, NULL, LE_REFUSED},
		{LE_OP_ACQUIRE, GIVE_BACK, 503, "ServerBusy", LE_REFUSED},
		{LE_OP_ACQUIRE, RENEW, 409, "LeaseIdMismatchWithLeaseOperation",
		LE_CONFLICT},
		{LE_OP_PUBLISH, HEAD, 503, "ServerBusy", LE_UNAVAILABLE},
		{LE_OP_PUBLISH, WRITE, 500, "OperationTimedOut", LE_UNKNOWN},
		{LE_OP_RELEASE, HEAD, 404, "BlobNotFound", LE_DONE},
		{LE_OP_RELEASE, WRITE, 404, "BlobNotFound", LE_DONE},
		{LE_OP_RELEASE, WRITE, 409, "LeaseNotPresentWithLeaseOperation",
		LE_DONE},
		{LE_OP_RENEW_TERMS, HEAD, 404, "BlobNotFound", LE_DONE},
		{LE_OP_RENEW_TERMS, HEAD, 503, "ServerBusy", LE_UNKNOWN},
		{LE_OP_RENEW_TERMS, HEAD, 403, "AuthenticationFailed", LE_REFUSED},
		{LE_OP_CLAIM, HEAD, 503, "ServerBusy", LE_UNAVAILABLE},
		{LE_OP_CLAIM, WRITE, 412, "ConditionNotMet", LE_UNKNOWN},
		{LE_OP_CLAIM, CHECK, 409, "LeaseIdMismatchWithLeaseOperation",
		LE_LOST},
		{LE_OP_CLAIM, CHECK, 409, "LeaseIsBrokenAndCannotBeRenewed", LE_LOST},
		{LE_OP_CLAIM, CHECK, 404, "BlobNotFound", LE_LOST},
		{LE_OP_CLAIM, CHECK, 503, "ServerBusy", LE_UNKNOWN},
		{LE_OP_CLAIM, CHECK, 403, "AuthenticationFailed", LE_UNKNOWN},
		{LE_OP_LIST_HELD, HEAD, 404, "BlobNotFound", LE_UNAVAILABLE},
		{LE_OP_COMPLETE, HEAD, 404, "BlobNotFound", LE_CONFLICT},
		{LE_OP_COMPLETE, WRITE, 503, "ServerBusy", LE_UNKNOWN},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeOp		op = op_at(cases[i].kind, cases[i].step, 7);
		LeResponse r = answer_of(cases[i].status, cases[i].code, "");
		LeAnswer	a = decode(&op, &r);

		if (a.outcome != cases[i].outcome)
			fail_msg("%s, step %d, %s: %s", le_op_name(op.kind),
					 cases[i].step, cases[i].code,
					 le_outcome_name(a.outcome));
	}
}

/* A lost answer: the earlier requests decide how much stays open. */
static void
test_network(void **state)
{
	static const struct
	{
		LeOpKind	kind;
		int			step;
		LeOutcome	not_sent;
		LeOutcome	broken;
	}			cases[] = {
		{LE_OP_READ, HEAD, LE_UNAVAILABLE, LE_UNAVAILABLE},
		{LE_OP_READ, WHOSE, LE_UNAVAILABLE, LE_UNAVAILABLE},
		{LE_OP_ACQUIRE, HEAD, LE_UNAVAILABLE, LE_UNAVAILABLE},
		{LE_OP_ACQUIRE, CREATE, LE_UNAVAILABLE, LE_UNAVAILABLE},
		{LE_OP_ACQUIRE, LEASE, LE_UNAVAILABLE, LE_UNKNOWN},
		{LE_OP_ACQUIRE, STAMP, LE_UNKNOWN, LE_UNKNOWN},
		{LE_OP_ACQUIRE, RENEW, LE_UNKNOWN, LE_UNKNOWN},
		{LE_OP_PUBLISH, HEAD, LE_UNAVAILABLE, LE_UNAVAILABLE},
		{LE_OP_PUBLISH, WRITE, LE_UNAVAILABLE, LE_UNKNOWN},
		{LE_OP_RELEASE, WRITE, LE_UNAVAILABLE, LE_UNKNOWN},
		{LE_OP_RENEW_TERMS, HEAD, LE_UNAVAILABLE, LE_UNKNOWN},
		{LE_OP_CLAIM, HEAD, LE_UNAVAILABLE, LE_UNAVAILABLE},
		{LE_OP_CLAIM, WRITE, LE_UNAVAILABLE, LE_UNKNOWN},
		{LE_OP_CLAIM, CHECK, LE_UNKNOWN, LE_UNKNOWN},
		{LE_OP_COMPLETE, WRITE, LE_UNAVAILABLE, LE_UNKNOWN},
		{LE_OP_LIST_HELD, HEAD, LE_UNAVAILABLE, LE_UNAVAILABLE},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeOp		op = op_at(cases[i].kind, cases[i].step, 7);
		LeResponse r = {.http.content_type = "", .body = ""};

		r.net = LE_NET_NOT_SENT;
		assert_int_equal(decode(&op, &r).outcome, cases[i].not_sent);
		r.net = LE_NET_BROKEN;
		assert_int_equal(decode(&op, &r).outcome, cases[i].broken);
		r.net = LE_NET_UNTAKEN;
		assert_int_equal(decode(&op, &r).outcome,
						 cases[i].broken == LE_UNKNOWN ?
						 LE_UNKNOWN : LE_REFUSED);
	}
}

/* Reasons of refusals. */
static void
test_causes(void **state)
{
	static const struct
	{
		int			status;
		const char *code;
		LeCause		cause;
	}			cases[] = {
		{403, "AuthorizationPermissionMismatch", LE_CAUSE_PERMISSION},
		{403, "InsufficientAccountPermissions", LE_CAUSE_PERMISSION},
		{403, "AuthenticationFailed", LE_CAUSE_STRANGER},
		{403, "AuthorizationFailure", LE_CAUSE_STRANGER},
		{400, "InvalidAuthenticationInfo", LE_CAUSE_STRANGER},
		{401, "NoAuthenticationInformation", LE_CAUSE_STRANGER},
		{404, "ContainerNotFound", LE_CAUSE_SETTING},
		{409, "ContainerBeingDeleted", LE_CAUSE_OTHER},
		{409, "ContainerDisabled", LE_CAUSE_OTHER},
		{404, "ResourceNotFound", LE_CAUSE_OTHER},
		{409, "BlobImmutableDueToPolicy", LE_CAUSE_OTHER},
		{409, "BlobImmutableDueToLegalHold", LE_CAUSE_OTHER},
		{400, "InvalidHeaderValue", LE_CAUSE_OTHER},
		{400, "", LE_CAUSE_OTHER},
		{307, "", LE_CAUSE_NOT_STORE},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeOp		op = op_at(LE_OP_READ, HEAD, 0);
		LeResponse r = answer_of(cases[i].status, cases[i].code, "");
		LeAnswer	a = decode(&op, &r);

		assert_int_equal(a.outcome, LE_REFUSED);
		if (a.cause != cases[i].cause)
			fail_msg("%d %s: cause %d", cases[i].status, cases[i].code,
					 a.cause);
		if (cases[i].cause == LE_CAUSE_STRANGER)
			continue;
		/* the stamp's refusal, reported after the release */
		op = op_at(LE_OP_ACQUIRE, GIVE_BACK, cases[i].status);
		strlcpy(op.wire.step.tag, cases[i].code, sizeof(op.wire.step.tag));
		r = answer_of(200, NULL, "");
		assert_int_equal(decode(&op, &r).cause, cases[i].cause);
	}
}

/* An answer of a proxy says nothing about a term. */
static void
test_proxies(void **state)
{
	static const int statuses[] = {200, 404, 403, 409, 412, 500, 502, 503};
	static const LeOpKind reads[] = {
		LE_OP_READ, LE_OP_WATCH, LE_OP_LIST_HELD, LE_OP_READ_CLAIM
	};
	LeOp		op;

	for (int i = 0; i < lengthof(statuses); i++)
	{
		LeResponse r = {.http.status = statuses[i]};

		r.http.content_type = "text/html";
		r.body = "<html></html>";
		r.body_len = strlen(r.body);
		for (int k = 0; k < lengthof(reads); k++)
		{
			op = op_at(reads[k], HEAD, 0);
			assert_int_equal(decode(&op, &r).outcome, LE_UNAVAILABLE);
		}
		op = op_at(LE_OP_RENEW_TERMS, HEAD, 0);
		assert_int_equal(decode(&op, &r).outcome, LE_UNKNOWN);
		op = op_at(LE_OP_ACQUIRE, STAMP, 7);
		assert_int_equal(decode(&op, &r).outcome, LE_UNKNOWN);
		r.http.status = 307;
		assert_int_equal(decode(&op, &r).outcome, LE_REFUSED);
	}
}

/* No part of a body is shown: it may quote signed text. */
static void
test_details(void **state)
{
	LeOp		op = op_at(LE_OP_READ, HEAD, 0);
	LeResponse r = answer_of(403, "AuthorizationPermissionMismatch", "");

	r.body = "<Error><Message>sig=secret</Message></Error>";
	r.body_len = strlen(r.body);
	assert_string_equal(decode(&op, &r).detail,
						"HTTP 403: AuthorizationPermissionMismatch (the SAS needs at least sp=rwl)");
	r = answer_of(403, "AuthenticationFailed", "");
	r.body = "<Error><Message>sig=secret</Message></Error>";
	r.body_len = strlen(r.body);
	assert_null(strstr(decode(&op, &r).detail, "secret"));
	assert_int_equal(decode(&op, &r).cause, LE_CAUSE_STRANGER);
}

/* ---- lists ---- */

#define BLOB(name, more) \
	"<Blob><Name>" name "</Name><Properties><LeaseState>leased</LeaseState>" \
	"</Properties><Metadata><le_proto>1</le_proto><le_token>5</le_token>" \
	"<le_session>" SESSION "</le_session><le_node>bjE</le_node>" \
	"<le_attempt>" OURS "</le_attempt></Metadata>" more "</Blob>"
#define LIST(blobs, after) \
	"\xef\xbb\xbf<?xml version=\"1.0\"?>\n<EnumerationResults a=\"b>c\">" \
	"<Blobs>" blobs "</Blobs>" after "</EnumerationResults>"

static LeAnswer
decode_list(const char *body)
{
	LeOp		op = op_at(LE_OP_LIST_HELD, HEAD, 0);
	LeResponse r = answer_of(200, NULL, "");

	r.body_len = strlen(body);
	r.body = palloc(r.body_len);	/* the sanitizer sees reads past its end */
	memcpy(unconstify(char *, r.body), body, r.body_len);
	return decode(&op, &r);
}

static void
test_lists(void **state)
{
	static const char *const foreign[] = {
		LIST(BLOB("leader_election/a&amp;b~leader", ""), "<NextMarker/>"),
		LIST(BLOB("leader_election/a~b~leader", ""), "<NextMarker/>"),
		LIST(BLOB("leader_election/a", ""), "<NextMarker/>"),
		LIST(BLOB("leader_election/a./b~leader", ""), "<NextMarker/>"),
		LIST(BLOB("other/a~leader", ""), "<NextMarker/>"),
		LIST("<Blob><Name>leader_election/a~leader</Name><Metadata/></Blob>",
			 "<NextMarker/>"),
	};
	static const char *const bad[] = {
		"",
		"<EnumerationResults>",
		"<html></html>",
		LIST("<Blob></Blob>", ""),
		LIST("<Blob><Name>leader_election/a~leader</Name>", ""),
		LIST("<Blob><Name>&#65;</Name></Blob>", ""),
		LIST("<Blob><Name><![CDATA[a]]></Name></Blob>", ""),
		LIST("<!-- a -->", ""),
		"<!DOCTYPE a [<!ENTITY b \"c\">]><EnumerationResults/>",
		LIST(BLOB("leader_election/a~leader", ""), "") "<x/>",
		LIST("<a><b><c><d><e><f><g/></f></e></d></c></b></a>", ""),
		LIST("<Blob><Name>leader_election/a~leader</Nam></Blob>", ""),
	};
	LeAnswer	a = decode_list(LIST(BLOB("leader_election/a.~/b~leader",
										  "<Tags/>"),
									 "<NextMarker>x&amp;y</NextMarker>"));

	assert_int_equal(a.outcome, LE_DONE);
	assert_int_equal(a.nkeys, 1);
	assert_string_equal(a.keys[0].election, "a./b");
	assert_int_equal(a.keys[0].index, 5);
	assert_string_equal(a.page, "x&y");
	for (int i = 0; i < lengthof(foreign); i++)
	{
		a = decode_list(foreign[i]);
		if (a.outcome != LE_DONE || a.nkeys != 0)
			fail_msg("%s: %s, %d keys", foreign[i],
					 le_outcome_name(a.outcome), a.nkeys);
	}
	for (int i = 0; i < lengthof(bad); i++)
		if (decode_list(bad[i]).outcome != LE_UNAVAILABLE)
			fail_msg("taken: %s", bad[i]);
}

/* More blobs than asked for are no page. */
static void
test_long_list(void **state)
{
	StringInfoData body;

	initStringInfo(&body);
	appendStringInfoString(&body, "<EnumerationResults><Blobs>");
	for (int i = 0; i < 1000; i++)
		appendStringInfoString(&body, BLOB("leader_election/a~leader", ""));
	assert_int_equal(decode_list(psprintf("%s</Blobs></EnumerationResults>",
										  body.data)).nkeys, 1000);
	appendStringInfoString(&body, BLOB("leader_election/a~leader", ""));
	assert_int_equal(decode_list(psprintf("%s</Blobs></EnumerationResults>",
										  body.data)).outcome, LE_UNAVAILABLE);
}

/* ---- values ---- */

static void
check_round_trip(const char *value)
{
	LeOp		op = op_at(LE_OP_PUBLISH, WRITE, 7);
	LeResponse r;
	LeAnswer	a;

	op.value = value;
	r = answer_of(200, NULL,
				  psprintf("ETag: " ETAG "\r\nx-ms-lease-state: leased\r\n%s",
						   encode(&op).http.headers.data));
	op = op_at(LE_OP_READ, WHOSE, 7);
	a = decode(&op, &r);
	assert_int_equal(a.nkeys, 1);
	if (value == NULL)
		assert_null(a.keys[0].value);
	else
		assert_string_equal(a.keys[0].value, value);
}

static void
test_values(void **state)
{
	char	   *longest = palloc(LE_MAX_VALUE_LEN + 1);

	memset(longest, '\n', LE_MAX_VALUE_LEN);
	longest[LE_MAX_VALUE_LEN] = '\0';
	check_round_trip(NULL);
	check_round_trip("");
	check_round_trip("v");
	check_round_trip("va");
	check_round_trip(" x-ms-meta-le_token: 9\r\n\xc3\xa9\xe2\x82\xac?>~ ");
	check_round_trip(longest);
}

/* Foreign names and values do no harm. */
static void
test_bad_values(void **state)
{
	static const char *const bad[] = {"a+b/", "!", "_w", "GxtbMm0A", "a"};

	for (int i = 0; i < lengthof(bad); i++)
	{
		LeResponse r = term_of("leased", "7", FOREIGN, OTHERS);
		LeOp		op = op_at(LE_OP_READ, HEAD, 0);

		r.http.headers = psprintf("%sx-ms-meta-le_value: %s\r\n"
								  "x-ms-meta-le_node: %s\r\n",
								  r.http.headers, bad[i], bad[i]);
		(void) decode(&op, &r);	/* judged by check_blob_answer() */
	}
}

/* ---- settings ---- */

static void
test_urls(void **state)
{
	static const struct
	{
		const char *url;
		bool		ok;
	}			cases[] = {
		{"https://a.blob.core.windows.net/leases", true},
		{"http://127.0.0.1:10000/devstoreaccount1/leases", true},
		{"http://[::1]:10000/devstoreaccount1/leases", true},
		{"http://localhost/devstoreaccount1/leases", true},
		{"http://127.0.0.1.example.com/leases", false},
		{"http://localhost.example.com/leases", false},
		{"http://a.blob.core.windows.net/leases", false},
		{"https://a-secondary.blob.core.windows.net/leases", false},
		{"https://a.blob.core.windows.net", false},
		{"https://a.blob.core.windows.net/", false},
		{"https://a.blob.core.windows.net/le", false},
		{"https://a.blob.core.windows.net/Leases", false},
		{"https://a.blob.core.windows.net/leases/", false},
	};

	for (int i = 0; i < lengthof(cases); i++)
		if ((le_store_azure.servers.url_fault(cases[i].url) == NULL) !=
			cases[i].ok)
			fail_msg("%s", cases[i].url);
	assert_null(
		le_store_azure.servers.url_fault(le_store_azure.servers.urls()));
}

static void
test_costs(void **state)
{
	LeTiming	timing = {.lease = 15 * LE_SEC, .renew_interval = 5 * LE_SEC};
	LeFinding	findings[LE_MAX_FINDINGS];

	assert_int_equal(le_store_azure.people.explain(&timing, 10, findings), 3);
	/* 518,400 and 1,296,000 for each, and a twentieth more for the jitter */
	assert_non_null(strstr(findings[1].text, "10 elections take"));
	assert_non_null(strstr(findings[1].text, "5456842 requests"));
	assert_non_null(strstr(findings[1].text, "13642105 if it waits"));
	assert_non_null(strstr(findings[1].text, "2.40 to 6.00 $"));
	assert_int_equal(le_store_azure.people.explain(&timing, 0, findings), 3);
	assert_non_null(strstr(findings[1].text, "1 election takes about 545684"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(test_requests),
			store_test(test_durations),
			store_test(test_namespace_of_session),
			store_test(test_names),
			store_test(test_recorded),
			store_test(test_recorded_renewals),
			store_test(test_recorded_keys),
			store_test(test_report),
		store_test(test_gap),
			store_test(test_recorded_lists),
			store_test(test_anchor),
			store_test(test_lease_ids),
			store_test(test_acquire_head),
			store_test(test_foreign_blobs),
			store_test(test_who_asks_whose),
			store_test(test_other_terms),
			store_test(test_refused_stamp),
			store_test(test_infinite_lease),
			store_test(test_no_term),
			store_test(test_errors),
			store_test(test_network),
			store_test(test_causes),
			store_test(test_proxies),
			store_test(test_details),
			store_test(test_lists),
			store_test(test_long_list),
			store_test(test_values),
			store_test(test_bad_values),
			store_test(test_urls),
			store_test(test_costs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
