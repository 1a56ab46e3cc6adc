/*-------------------------------------------------------------------------
 *
 * test_pending.c
 *		Tests of waiters, and their answers after a grant: a term that no
 *		session takes must not be kept.
 *
 * The simulator meets these cases once in millions of schedules.
 *
 * test/unit/test_pending.c
 *
 *-------------------------------------------------------------------------
 */
#undef FRONTEND
#include "postgres.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>

#include "settings.h"
#include "shmem/leases.h"
#include "shmem/progress.h"
#include "shmem/requests.h"
#include "worker/lead/pending.h"
#include "worker/view/eligible.h"
#include "worker/wire/dispatch.h"

static LeWorker worker;
static LeWorker *const w = &worker;

/* ---- stubs of the rest of the extension ---- */

int			le_max_elections = 4;
int			le_request_timeout = 5000;
MemoryContext TopMemoryContext;

static le_time now = 1000 * LE_SEC;
static void *memory;
static bool gone[4];			/* backends that have stopped waiting */
static LeReply replies[4];
static bool campaigns;

le_time
le_now(void)
{
	return now;
}

bool
le_still_asked(int proc, uint64 number)
{
	return true;				/* until the reply */
}

bool
le_answer(int proc, uint64 number, const LeReply *reply)
{
	if (gone[proc])
		return false;
	replies[proc] = *reply;
	return true;
}

void
le_hint_worker(void)
{
}

TimestampTz
GetCurrentTimestamp(void)
{
	return 0;
}

Oid
GetSessionUserId(void)
{
	return 10;
}

bool
le_campaigns(const LeSlot *slot)
{
	return campaigns;
}

void
le_progress_shorten(int slot, le_duration within)
{
}

static const LeStore *store = &le_store_local;

const LeStore *
le_configured_store(void)
{
	return store;
}

const char *
le_store_address(LeWorker *worker)
{
	return "local";
}

const char *
le_store_trouble(LeWorker *worker)
{
	return "";
}

static LeCause cause;

LeCause
le_store_trouble_cause(LeWorker *worker)
{
	return cause;
}

static bool waits;				/* the election's request, for its turn */
static int	hurried;

bool
le_flight_waits(LeWorker *worker, int slot)
{
	assert_int_equal(slot, 0);
	return waits;
}

void
le_flight_hurry(LeWorker *worker, int slot)
{
	assert_int_equal(slot, 0);
	hurried++;
}

/* ---- stubs of the server ---- */

Size
add_size(Size a, Size b)
{
	return a + b;
}

Size
mul_size(Size a, Size b)
{
	return a * b;
}

bool
pg_strong_random(void *buf, size_t len)
{
	memset(buf, 0xab, len);
	return true;
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return palloc0(size);
}

bool
errstart(int elevel, const char *domain)
{
	assert_true(elevel < ERROR);
	return false;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
}

int
errcode(int sqlerrcode)
{
	return 0;
}

int
errmsg(const char *fmt,...)
{
	return 0;
}

int
errmsg_internal(const char *fmt,...)
{
	return 0;
}

int
errdetail(const char *fmt,...)
{
	return 0;
}

int
errdetail_internal(const char *fmt,...)
{
	return 0;
}

int
errhint(const char *fmt,...)
{
	return 0;
}

/* ---- tests ---- */

#define TOKEN	7

static LeSlot *slot;

static int
begin(void **state)
{
	bool		added;

	memory = malloc(le_leases_size());
	le_leases_init(false, memory);
	slot = le_find_or_add_slot("a", &added);
	memset(gone, 0, sizeof(gone));
	memset(replies, 0, sizeof(replies));
	campaigns = waits = false;
	hurried = 0;
	w->pendings = le_pendings_new();
	return 0;
}

static int
end(void **state)
{
	free(memory);
	return 0;
}

static void
seek(int proc, LeOwner owner, bool again)
{
	LeAsk		question = {.kind = LE_ASK_ACQUIRE, .owner = owner,
	.again = again};

	strlcpy(question.election, "a", sizeof(question.election));
	le_pending_attach(w, le_pending_new(w, proc, 1, &question), slot);
}

static void
ask(int proc, LeOwner owner)
{
	seek(proc, owner, false);
}

/* A question taken by the worker before. */
static void
ask_again(int proc, LeOwner owner)
{
	seek(proc, owner, true);
}

/* As le_begin_term(). */
static void
begin_term(LeOwner owner)
{
	slot->candidate.owner = owner;
	slot->election.token = TOKEN;
	le_begin_grants(slot);
	pg_atomic_write_u64(&slot->term.token, TOKEN);
	pg_atomic_write_u64(&slot->term.owner, owner);
	pg_atomic_write_u64(&slot->term.deadline, now + LE_SEC);
}

/* The core has granted it to the callers for this owner. */
static void
grant(LeOwner owner)
{
	LeActions	act = {.verdict = LE_SAY_GRANTED};

	begin_term(owner);
	assert_false(le_pass_verdict(w, slot, &act, 1));
}

static bool
is_given_up(void)
{
	return pg_atomic_read_u64(&slot->term.given_up) == TOKEN;
}

static void
a_grant_is_kept_by_who_heard_of_it(void **state)
{
	ask(0, 5);
	grant(5);
	assert_int_equal(replies[0].kind, LE_REPLY_TRUE);
	assert_true(replies[0].fresh);
	le_keep_term("a", TOKEN);
	assert_false(is_given_up());
}

/* The statement was canceled just before: no other session will end it. */
static void
a_grant_nobody_heard_of_is_given_up(void **state)
{
	gone[0] = true;
	ask(0, 5);
	grant(5);
	assert_true(is_given_up());
}

/* One of two calls for the node has gone; the other keeps it. */
static void
one_who_heard_of_it_is_enough(void **state)
{
	gone[0] = true;
	ask(0, LE_OWNER_NODE);
	ask(1, LE_OWNER_NODE);
	grant(LE_OWNER_NODE);
	assert_false(is_given_up());
	assert_int_equal(replies[1].kind, LE_REPLY_TRUE);
	/* it is canceled, too, before it has read the answer */
	le_decline_term("a", TOKEN);
	assert_true(is_given_up());
}

/* A campaigning node has the lease without any call, too. */
static void
a_campaign_keeps_the_nodes_term(void **state)
{
	campaigns = true;
	ask(0, LE_OWNER_NODE);
	grant(LE_OWNER_NODE);
	assert_false(replies[0].fresh);
	assert_false(is_given_up());
}

/* But not one that was asked for by a session, or a transaction. */
static void
a_campaign_keeps_no_sessions_term(void **state)
{
	campaigns = true;
	ask(0, 5 | LE_OWNER_XACT);
	grant(5 | LE_OWNER_XACT);
	assert_true(replies[0].fresh);
	end(state);
	begin(state);
	campaigns = gone[0] = true;
	ask(0, 5 | LE_OWNER_XACT);
	grant(5 | LE_OWNER_XACT);
	assert_true(is_given_up());
}

/*
 * A worker ended when the term had begun and no caller had been told: a call
 * that was canceled meanwhile never asks the next one.
 */
static void
a_term_nobody_was_told_of_is_given_up(void **state)
{
	static const LeOwner owners[] = {5, 5 | LE_OWNER_XACT, LE_OWNER_NODE};

	for (int i = 0; i < lengthof(owners); i++)
	{
		begin_term(owners[i]);
		le_pending_end_grants();
		assert_true(is_given_up());
		end(state);
		begin(state);
	}
	campaigns = true;
	begin_term(LE_OWNER_NODE);
	le_pending_end_grants();
	assert_false(is_given_up());
}

/* A caller of the next one knows, and may be canceled before it reads, too. */
static void
the_next_worker_tells_of_it(void **state)
{
	for (int canceled = 0; canceled < 2; canceled++)
	{
		begin_term(5);
		ask(0, 5);
		le_reply_granted(le_pending_find(w, 1, 0), slot);
		assert_int_equal(replies[0].kind, LE_REPLY_TRUE);
		assert_int_equal(replies[0].token, TOKEN);
		assert_true(replies[0].fresh);
		if (canceled)
			le_decline_term("a", TOKEN);
		else
			le_keep_term("a", TOKEN);
		le_pending_end_grants();
		assert_int_equal(is_given_up(), canceled);
		end(state);
		begin(state);
	}
}

/* A canceled call leaves its owner's earlier lease in place. */
static void
a_term_that_is_known_stays(void **state)
{
	ask(0, 5);
	grant(5);
	le_keep_term("a", TOKEN);
	ask(1, 5);
	le_reply_granted(le_pending_find(w, 1, 1), slot);
	assert_int_equal(replies[1].kind, LE_REPLY_TRUE);
	assert_false(replies[1].fresh);
	le_pending_end_grants();
	assert_false(is_given_up());
}

/*
 * The worker before has sent an acquire for the question, with unknown
 * outcome: others may have been refused because of it.
 */
static void
what_was_sent_before_is_not_known(void **state)
{
	LeActions	act = {.verdict = LE_SAY_DENIED};

	ask(0, 5);
	ask_again(1, 5);
	slot->candidate.owner = 5;
	assert_false(le_pass_verdict(w, slot, &act, 1));
	assert_int_equal(replies[0].kind, LE_REPLY_FALSE);
	assert_int_equal(replies[1].kind, LE_REPLY_ERROR);
	assert_int_equal(replies[1].sqlstate, LE_ERRCODE_UNKNOWN);
}

/* Nor if this node may not lead any more: a reason, but not a former one. */
static void
what_was_sent_before_is_not_refused(void **state)
{
	ask(0, 5);
	ask_again(1, 5);
	le_pending_refuse(w, slot, LE_ERRCODE_REFUSED, "", "", "");
	assert_int_equal(replies[0].sqlstate, LE_ERRCODE_REFUSED);
	assert_int_equal(replies[1].sqlstate, LE_ERRCODE_UNKNOWN);
}

/* Answered at once: no caller waits for the campaign's request. */
static void
questions_are_in_a_hurry(void **state)
{
	LeAsk		question = {.kind = LE_ASK_CAMPAIGN};

	le_pending_attach(w, le_pending_new(w, 0, 1, &question), slot);
	assert_int_equal(hurried, 0);
	ask(1, LE_OWNER_NODE);
	assert_int_equal(hurried, 1);
}

/* An unsent request cannot have been applied, and no store is to blame. */
static void
give_up_acquire(int failures, bool unsent)
{
	slot->election.state = LE_ACQUIRING;
	slot->election.failures = failures;
	slot->candidate.owner = LE_OWNER_NODE;
	waits = unsent;
	ask(0, LE_OWNER_NODE);
	now += 3 * le_request_timeout * LE_MSEC;
	le_pending_run_timers(w);
	assert_int_equal(replies[0].kind, LE_REPLY_ERROR);
}

static void
what_was_not_sent_was_not_applied(void **state)
{
	give_up_acquire(0, true);
	assert_int_equal(replies[0].sqlstate, LE_ERRCODE_UNAVAILABLE);
	assert_non_null(strstr(replies[0].detail, "waiting for their turn"));
	assert_non_null(strstr(replies[0].hint, "\"wait\""));
	give_up_acquire(0, false);
	assert_int_equal(replies[0].sqlstate, LE_ERRCODE_UNKNOWN);
	give_up_acquire(1, true);	/* but a copy of it was */
	assert_int_equal(replies[0].sqlstate, LE_ERRCODE_UNKNOWN);
	assert_string_equal(replies[0].detail, "");
}

/* Its time was up in the queue; the next answer is the store's again. */
static void
no_turn_is_no_fault_of_the_store(void **state)
{
	LeActions	act = {.verdict = LE_SAY_FAILED, .outcome = LE_UNAVAILABLE};

	ask(0, LE_OWNER_NODE);
	le_pending_unsent(w, slot, true);
	assert_false(le_pass_verdict(w, slot, &act, 1));
	assert_int_equal(replies[0].sqlstate, LE_ERRCODE_UNAVAILABLE);
	assert_non_null(strstr(replies[0].detail, "waiting for their turn"));
	ask(1, LE_OWNER_NODE);
	le_pending_unsent(w, slot, true);
	le_pending_unsent(w, slot, false);
	assert_false(le_pass_verdict(w, slot, &act, 1));
	assert_int_equal(replies[1].sqlstate, LE_ERRCODE_UNAVAILABLE);
	assert_string_equal(replies[1].detail, "");
}

/* The setting is named that the refusal may come of. */
static void
a_hint_follows_from_the_cause(void **state)
{
	static const char *const hints[] = {
		[LE_CAUSE_OTHER] = NULL,
		[LE_CAUSE_PERMISSION] = "consul_token_file",
		[LE_CAUSE_STRANGER] = "consul_token_file",
		[LE_CAUSE_NOT_STORE] = "consul_url",
		[LE_CAUSE_SETTING] = "that the detail names",
	};
	LeActions	act = {.verdict = LE_SAY_FAILED, .outcome = LE_REFUSED};

	store = &le_store_consul;
	for (int i = 0; i < lengthof(hints); i++)
	{
		cause = i;
		ask(0, LE_OWNER_NODE);
		assert_false(le_pass_verdict(w, slot, &act, 1));
		if (hints[i] == NULL)
			assert_string_equal(replies[0].hint, "");
		else
			assert_non_null(strstr(replies[0].hint, hints[i]));
		/* the election's own error outranks that */
		cause = LE_CAUSE_PERMISSION;
		le_note_error(slot, LE_OP_ACQUIRE, LE_REFUSED, i, "no");
		ask(0, LE_OWNER_NODE);
		assert_false(le_pass_verdict(w, slot, &act, 1));
		assert_string_equal(replies[0].detail, "no");
		assert_int_equal(replies[0].hint[0] != '\0', hints[i] != NULL);
		slot->error.text[0] = '\0';
	}
	store = &le_store_local;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_grant_is_kept_by_who_heard_of_it,
										begin, end),
		cmocka_unit_test_setup_teardown(a_grant_nobody_heard_of_is_given_up,
										begin, end),
		cmocka_unit_test_setup_teardown(one_who_heard_of_it_is_enough,
										begin, end),
		cmocka_unit_test_setup_teardown(a_campaign_keeps_the_nodes_term,
										begin, end),
		cmocka_unit_test_setup_teardown(a_campaign_keeps_no_sessions_term,
										begin, end),
		cmocka_unit_test_setup_teardown(a_term_nobody_was_told_of_is_given_up,
										begin, end),
		cmocka_unit_test_setup_teardown(the_next_worker_tells_of_it, begin,
										end),
		cmocka_unit_test_setup_teardown(a_term_that_is_known_stays, begin,
										end),
		cmocka_unit_test_setup_teardown(what_was_sent_before_is_not_known,
										begin, end),
		cmocka_unit_test_setup_teardown(what_was_sent_before_is_not_refused,
										begin, end),
		cmocka_unit_test_setup_teardown(questions_are_in_a_hurry, begin, end),
		cmocka_unit_test_setup_teardown(what_was_not_sent_was_not_applied,
										begin, end),
		cmocka_unit_test_setup_teardown(a_hint_follows_from_the_cause,
										begin, end),
		cmocka_unit_test_setup_teardown(no_turn_is_no_fault_of_the_store,
										begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
