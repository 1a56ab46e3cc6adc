/*-------------------------------------------------------------------------
 *
 * test_local.c
 *		Tests of the store "local" and of rules for all stores.
 *
 * test/unit/test_local.c
 *
 *-------------------------------------------------------------------------
 */
#include "store_test.h"

#include "exchange.h"

static uint64 token;

static uint64
next_token(struct LeLocalTokens *tokens)
{
	return token;
}

static LeAnswer
perform(LeOpKind kind, uint64 index, LeLocalKey *key)
{
	LeOp		op = test_op(kind);
	LeAnswer	answer;

	op.index = index;
	op.local.key = key;
	op.local.next_token = next_token;
	memset(&answer, 0xff, sizeof(answer));
	le_store_local.codec.perform(&op, &answer);
	return answer;
}

/* Each operation on the session succeeds, and moves its index. */
static void
test_session(void **state)
{
	static const LeOpKind plain[] = {
		LE_OP_VERIFY_SESSION, LE_OP_CHECK_PREFIX, LE_OP_RENEW_SESSION,
		LE_OP_LIST_HELD, LE_OP_DESTROY_SESSION, LE_OP_REVOKE_NODE,
		LE_OP_FORGET_NODE, LE_OP_WATCH, LE_OP_LIST_NODES, LE_OP_SESSION_NAME
	};
	LeAnswer	a = perform(LE_OP_CREATE_SESSION, 0, NULL);
	LeOp		op = test_op(LE_OP_PROVE_NODE);
	uint64		before;

	assert_int_equal(a.outcome, LE_DONE);
	assert_string_equal(a.session, "00112233-4455-6677-8899-aabbccddeeff");
	a = perform(LE_OP_REGISTER_NODE, 0, NULL);
	assert_int_equal(a.outcome, LE_DONE);
	assert_int_equal(a.index, 1);
	before = a.index;
	for (op.proof.seq = 1; op.proof.seq < 4; op.proof.seq++)
	{
		le_store_local.codec.perform(&op, &a);
		assert_int_equal(a.outcome, LE_DONE);
		assert_true(a.index > before);
		assert_int_equal(a.nlost, 0);
		before = a.index;
	}
	for (int i = 0; i < lengthof(plain); i++)
	{
		a = perform(plain[i], 0, NULL);
		assert_int_equal(a.outcome, LE_DONE);
		assert_int_equal(a.nkeys, 0);
		assert_int_equal(a.nnodes, 0);
		assert_null(a.name);
	}
}

static void
test_short_incarnation(void **state)
{
	LeOp		op = test_op(LE_OP_CREATE_SESSION);
	LeAnswer	a;

	op.incarnation = "abc";
	le_store_local.codec.perform(&op, &a);
	assert_string_equal(a.session, "abc00000-0000-0000-0000-000000000000");
}

static void
test_term(void **state)
{
	LeLocalKey	key = {0, false};
	LeAnswer	a = perform(LE_OP_READ, 0, &key);

	assert_int_equal(a.outcome, LE_DONE);
	assert_int_equal(a.nkeys, 0);

	token = 100;
	a = perform(LE_OP_ACQUIRE, 0, &key);
	assert_int_equal(a.outcome, LE_DONE);
	assert_int_equal(a.index, 100);
	a = perform(LE_OP_READ, 0, &key);
	assert_int_equal(a.nkeys, 1);
	assert_string_equal(a.keys[0].holder, SESSION);
	assert_int_equal(a.keys[0].index, 100);
	assert_int_equal(a.keys[0].token, 100);
	assert_int_equal(a.index, 100);
	assert_true(a.keys[0].usable && a.keys[0].ours);
	assert_false(a.keys[0].released);

	a = perform(LE_OP_PUBLISH, 100, &key);
	assert_int_equal(a.outcome, LE_DONE);
	assert_int_equal(a.index, 100);
	assert_true(key.held && key.index == 100);

	a = perform(LE_OP_RELEASE, 100, &key);
	assert_int_equal(a.outcome, LE_DONE);
	a = perform(LE_OP_READ, 0, &key);
	assert_null(a.keys[0].holder);
	assert_int_equal(a.keys[0].token, 0);
	assert_true(a.keys[0].released);

	token = 200;
	a = perform(LE_OP_ACQUIRE, 100, &key);
	assert_int_equal(a.outcome, LE_DONE);
	assert_int_equal(a.index, 200);
}

static void
test_conditions(void **state)
{
	LeLocalKey	key = {100, false};
	LeAnswer	a;

	token = 200;
	a = perform(LE_OP_ACQUIRE, 0, &key);
	assert_int_equal(a.outcome, LE_CONFLICT);
	assert_int_equal(a.conflict, LE_CONFLICT_CHANGED);
	a = perform(LE_OP_ACQUIRE, 99, &key);
	assert_int_equal(a.conflict, LE_CONFLICT_CHANGED);
	a = perform(LE_OP_PUBLISH, 100, &key);
	assert_int_equal(a.outcome, LE_CONFLICT);
	a = perform(LE_OP_RELEASE, 100, &key);
	assert_int_equal(a.outcome, LE_CONFLICT);
	assert_true(key.index == 100 && !key.held);

	key.held = true;
	a = perform(LE_OP_TAKE_OVER, 100, &key);
	assert_int_equal(a.outcome, LE_CONFLICT);
	a = perform(LE_OP_ACQUIRE, 100, &key);
	assert_int_equal(a.outcome, LE_CONFLICT);
	assert_int_equal(a.conflict, LE_CONFLICT_HELD);
	a = perform(LE_OP_RELEASE, 99, &key);
	assert_int_equal(a.outcome, LE_CONFLICT);
	assert_non_null(a.detail);
	assert_true(key.index == 100 && key.held);
}

/* ---- claims, with a log of one record ---- */

static LeClaim record;
static bool has_record;
static bool disk_full;

static const LeClaim *
find(struct LeClaims *claims, const char *election, const char *job)
{
	return has_record && strcmp(record.job, job) == 0 ? &record : NULL;
}

/* Once, or for many. */
static uint64 nrecords = 1;
static bool full;

static const LeClaim *
next(struct LeClaims *claims, uint64 *cursor)
{
	return has_record && (*cursor)++ < nrecords ? &record : NULL;
}

static bool
has_room(struct LeClaims *claims, const char *election)
{
	return !full;
}

static bool
keep(struct LeClaims *claims, const LeClaim *claim)
{
	if (disk_full)
		return false;
	record = *claim;
	has_record = true;
	return true;
}

static const char *lost;		/* why some records are unknown */
static const char *trouble;		/* why no record can be written */

static const char *
why_lost(struct LeClaims *claims)
{
	return lost;
}

static const char *
why_not(struct LeClaims *claims)
{
	return lost != NULL ? lost : trouble;
}

static const LeClaimLog claim_log = {
	find, next, has_room, keep, why_lost, why_not
};

static LeAnswer
perform_claim(LeOpKind kind, uint64 index, LeLocalKey *key,
			  const LeClaim *previous)
{
	LeOp		op = test_op(kind);
	LeAnswer	answer;

	op.index = index;
	op.local.key = key;
	op.local.log = &claim_log;
	op.claim.previous = previous;
	memset(&answer, 0xff, sizeof(answer));
	le_store_local.codec.perform(&op, &answer);
	return answer;
}

static void
test_claims(void **state)
{
	LeLocalKey	key = {100, true};
	LeClaim		before;
	LeAnswer	a;

	has_record = disk_full = false;
	a = perform_claim(LE_OP_READ_CLAIM, 0, NULL, NULL);
	assert_int_equal(a.outcome, LE_DONE);
	assert_int_equal(a.nclaims, 0);

	/* not without the term, or with another */
	a = perform_claim(LE_OP_CLAIM, 99, &key, NULL);
	assert_int_equal(a.outcome, LE_CONFLICT);
	assert_int_equal(a.conflict, LE_CONFLICT_HELD);
	key.held = false;
	a = perform_claim(LE_OP_CLAIM, 100, &key, NULL);
	assert_int_equal(a.conflict, LE_CONFLICT_HELD);
	a = perform_claim(LE_OP_CLAIM, 100, NULL, NULL);
	assert_int_equal(a.conflict, LE_CONFLICT_HELD);
	assert_false(has_record);

	key.held = true;
	/* one job more than the capacity */
	full = true;
	a = perform_claim(LE_OP_CLAIM, 100, &key, NULL);
	assert_int_equal(a.outcome, LE_REFUSED);
	assert_non_null(strstr(a.detail, "max_jobs"));
	assert_false(has_record);
	full = false;
	a = perform_claim(LE_OP_CLAIM, 100, &key, NULL);
	assert_int_equal(a.outcome, LE_DONE);
	a = perform_claim(LE_OP_CLAIM, 100, &key, NULL);
	assert_int_equal(a.outcome, LE_CONFLICT);
	assert_int_equal(a.conflict, LE_CONFLICT_CHANGED);
	a = perform_claim(LE_OP_READ_CLAIM, 0, NULL, NULL);
	assert_int_equal(a.nclaims, 1);
	assert_string_equal(a.claims[0].id, CLAIM);
	a = perform_claim(LE_OP_LIST_CLAIMS, 0, NULL, NULL);
	assert_int_equal(a.nclaims, 1);

	/* ended without the term; the state is part of the condition */
	before = record;
	a = perform_claim(LE_OP_COMPLETE, 0, NULL, &before);
	assert_int_equal(a.outcome, LE_DONE);
	before.state = LE_CLAIM_DONE;
	a = perform_claim(LE_OP_CLAIM, 100, &key, &before);
	assert_int_equal(a.outcome, LE_CONFLICT);
	before.id = PREVIOUS_CLAIM;
	before.state = record.state;
	a = perform_claim(LE_OP_COMPLETE, 0, NULL, &before);
	assert_int_equal(a.outcome, LE_CONFLICT);

	/* a record whose write failed may exist all the same */
	disk_full = true;
	before = record;
	a = perform_claim(LE_OP_CLAIM, 100, &key, &before);
	assert_int_equal(a.outcome, LE_UNKNOWN);
	assert_non_null(a.detail);
}

static void
test_standby(void **state)
{
	LeLocalKey	key = {0, false};
	LeAnswer	a;

	token = 0;
	a = perform(LE_OP_ACQUIRE, 0, &key);
	assert_int_equal(a.outcome, LE_UNAVAILABLE);
	assert_string_equal(a.detail,
						"the local store has no fencing token: this server is in recovery, or has had too many timelines");
	assert_true(key.index == 0 && !key.held);
}

/* Common assumptions about every store. */
static void
check_complete(const LeStore *store)
{
	assert_true(store->lease.most == LE_MAX_LEASE);
	assert_non_null(store->between_instances && !store->has_sessions ?
					(void *) store->codec.performs : (void *) store);
	if (!store->between_instances)
	{
		assert_non_null(store->codec.perform);
		assert_int_equal(store->watch.kind, LE_WATCH_NOTHING);
		return;
	}
	assert_non_null(store->codec.encode);
	assert_non_null(store->codec.decode);
	assert_non_null(store->servers.setting);
	assert_non_null(store->people.namespace_verb);
	assert_true(store->has_sessions != store->key_leases);
	assert_true(strstr(store->servers.urls(), "://") != NULL);
	assert_true(!store->key_leases || store->batch.max_renewals > 0);
	assert_true(store->lease.hiccup == 0 || store->lease.hiccup_cause != NULL);
	assert_true(store->watch.kind != LE_WATCH_EACH ||
				(store->watch.max_parked > 0 &&
				 (store->watch.poll_ms != NULL) !=
				 (store->watch.park_ms > 0)));
}

/* Its findings are few, and each has its words. */
static void
check_findings(const LeStore *store)
{
	LeTiming	timing = {.lease = 15 * LE_SEC, .margin = LE_SEC};
	LeFinding	findings[LE_MAX_FINDINGS] = {{0}};
	int			n = 0;

	le_store_limits(store, &timing);
	if (store->people.explain != NULL)
		n = store->people.explain(&timing, 2, findings);
	assert_in_range(n, 0, LE_MAX_FINDINGS);
	for (int i = 0; i < n; i++)
		assert_true(findings[i].topic[0] != '\0' &&
					findings[i].text[0] != '\0');
}

static void
check_settings(const LeStore *store)
{
	for (int i = 0; i < store->settings.n; i++)
	{
		const LeSetting *s = &store->settings.list[i];

		assert_int_equal(strncmp(s->name, "leader_election.", 16), 0);
		assert_non_null(s->brief);
		assert_non_null(s->kind == LE_SETTING_FLAG ? (void *) s->flag :
						s->kind == LE_SETTING_MS ? (void *) s->ms :
						(void *) s->text);
	}
}

/* The first is the default, which needs no server. */
static void
test_registry(void **state)
{
	const LeStore *store;
	int			n;

	assert_ptr_equal(le_store_number(0), &le_store_local);
	for (n = 0; (store = le_store_number(n)) != NULL; n++)
	{
		for (int i = 0; i < n; i++)
			assert_string_not_equal(le_store_number(i)->name, store->name);
		check_complete(store);
		check_findings(store);
		check_settings(store);
	}
	assert_true(n >= 3);
}

static void
test_headers(void **state)
{
	LeResponse r = {.http.headers =
		"HTTP/1.1 200 OK\r\nA: 1\r\nAB:\t two  \r\n"
		"a: 3\r\nEmpty:\r\nLast: x"};
	char		value[8];

	assert_true(le_header(&r, "ab", value, sizeof(value)));
	assert_string_equal(value, "two");
	assert_true(le_header(&r, "A", value, sizeof(value)));
	assert_string_equal(value, "3");	/* the last of several */
	assert_true(le_header(&r, "Empty", value, sizeof(value)));
	assert_string_equal(value, "");
	assert_true(le_header(&r, "Last", value, sizeof(value)));
	assert_string_equal(value, "x");
	assert_false(le_header(&r, "HTTP/1.1", value, sizeof(value)));
	assert_false(le_header(&r, "AB", value, 3));	/* does not fit */
	r.http.headers = NULL;
	assert_false(le_header(&r, "A", value, sizeof(value)));
}

static void
test_names(void **state)
{
	for (int kind = 0; kind < LE_NOPS; kind++)
		assert_non_null(le_op_name(kind));
	for (int outcome = 0; outcome <= LE_UNKNOWN; outcome++)
		assert_non_null(le_outcome_name(outcome));
	assert_true(le_op_writes(LE_OP_ACQUIRE));
	assert_true(le_op_writes(LE_OP_RENEW_SESSION));
	assert_false(le_op_writes(LE_OP_READ));
	assert_false(le_op_writes(LE_OP_VERIFY_SESSION));
}

static void
test_election_names(void **state)
{
	static const char *const good[] = {
		"a", "billing", "A-Z_0.9", "a/b/c", "...", "a/...", ".a", "a..b"
	};
	static const char *const bad[] = {
		"", "/", "a/", "/a", "a//b", ".", "..", "a/.", "a/../b", "./a", "a b",
		"a%", "\xc3\xa4", "a\n", "a?b"
	};
	char		name[LE_MAX_ELECTION_LEN + 2];

	for (int i = 0; i < lengthof(good); i++)
	{
		if (!le_valid_election_name(good[i]))
			fail_msg("refused: %s", good[i]);
	}
	for (int i = 0; i < lengthof(bad); i++)
	{
		if (le_valid_election_name(bad[i]))
			fail_msg("accepted: %s", bad[i]);
	}
	memset(name, 'a', sizeof(name));
	name[LE_MAX_ELECTION_LEN + 1] = '\0';
	assert_false(le_valid_election_name(name));
	name[LE_MAX_ELECTION_LEN] = '\0';
	assert_true(le_valid_election_name(name));
}

/*
 * An answer is read after other operations: the record's new id beside its old
 * tick would pass for a replaceable one.
 */
static void
test_answer_is_as_of_then(void **state)
{
	LeLocalKey	key = {100, true};
	char		id[] = "first";
	LeAnswer	a;

	has_record = disk_full = false;
	lost = trouble = NULL;
	a = perform_claim(LE_OP_CLAIM, 100, &key, NULL);
	assert_int_equal(a.outcome, LE_DONE);
	record.id = record.node = record.message = id;
	a = perform_claim(LE_OP_READ_CLAIM, 0, NULL, NULL);
	memcpy(id, "other", sizeof(id));
	assert_string_equal(a.claims[0].id, "first");
	assert_string_equal(a.claims[0].node, "first");
	assert_string_equal(a.claims[0].message, "first");
}

/* Some earlier claims are unknown, or no record can be written. */
static void
test_claims_lost(void **state)
{
	LeLocalKey	key = {100, true};
	LeClaim		before;
	LeAnswer	a;

	has_record = disk_full = false;
	lost = "a file was lost";
	a = perform_claim(LE_OP_READ_CLAIM, 0, NULL, NULL);
	assert_int_equal(a.outcome, LE_REFUSED);
	assert_string_equal(a.detail, lost);
	a = perform_claim(LE_OP_CLAIM, 100, &key, NULL);
	assert_int_equal(a.outcome, LE_REFUSED);
	assert_false(has_record);

	/* a known record can be read, and is not changed */
	lost = NULL;
	a = perform_claim(LE_OP_CLAIM, 100, &key, NULL);
	assert_int_equal(a.outcome, LE_DONE);
	before = record;
	lost = "a file was lost";
	a = perform_claim(LE_OP_READ_CLAIM, 0, NULL, NULL);
	assert_int_equal(a.outcome, LE_DONE);
	assert_int_equal(a.nclaims, 1);
	a = perform_claim(LE_OP_COMPLETE, 0, NULL, &before);
	assert_int_equal(a.outcome, LE_REFUSED);

	/* all is known: a missing record is certain, but no more */
	lost = NULL;
	trouble = "the disk is full";
	a = perform_claim(LE_OP_COMPLETE, 0, NULL, &before);
	assert_int_equal(a.outcome, LE_REFUSED);
	assert_string_equal(a.detail, trouble);
	has_record = false;
	a = perform_claim(LE_OP_READ_CLAIM, 0, NULL, NULL);
	assert_int_equal(a.outcome, LE_DONE);
	a = perform_claim(LE_OP_CLAIM, 100, &key, NULL);
	assert_int_equal(a.outcome, LE_REFUSED);
	assert_false(has_record);
	trouble = NULL;
}

/* Many claims come a page at a time, each once. */
static void
test_pages(void **state)
{
	LeOp		op = test_op(LE_OP_LIST_CLAIMS);
	int			pages = 0;
	uint64		rows = 0;

	has_record = true;
	nrecords = 2 * LE_CLAIMS_PAGE + 1;
	op.local.log = &claim_log;
	do
	{
		LeAnswer	a = {0};

		le_store_local.codec.perform(&op, &a);
		assert_int_equal(a.outcome, LE_DONE);
		assert_true(a.nclaims <= LE_CLAIMS_PAGE);
		rows += a.nclaims;
		pages++;
		op.page = a.page;
	} while (op.page != NULL);
	assert_int_equal(pages, 3);
	assert_true(rows == nrecords);
	has_record = false;
	nrecords = 1;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(test_session),
		store_test(test_short_incarnation),
		store_test(test_term),
		store_test(test_conditions),
		store_test(test_claims),
		store_test(test_answer_is_as_of_then),
		store_test(test_claims_lost),
		store_test(test_pages),
		store_test(test_standby),
		store_test(test_registry),
		store_test(test_headers),
		store_test(test_names),
		store_test(test_election_names),
	};

	return cmocka_run_group_tests_name("local", tests, NULL, NULL);
}
