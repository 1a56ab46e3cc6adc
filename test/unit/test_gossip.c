/*-------------------------------------------------------------------------
 *
 * test_gossip.c
 *		Tests of news: one node publishes, another receives.
 *
 * A store in a few lines keeps one node's news; a listener knows only that
 * store.
 *
 * test/unit/test_gossip.c
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

#include "memory.h"
#include "shmem/clock.h"
#include "shmem/leases.h"
#include "worker/base/context.h"
#include "worker/wire/gossip.h"

#define ME		"11111111-1111-1111-1111-111111111111"
#define AGAIN	"22222222-2222-2222-2222-222222222222"

static LeWorker worker;
static LeWorker *const w = &worker;

/* ---- stubs of the rest of the extension ---- */

static LeTable table;
LeTable    *le_table = &table;
MemoryContext TopMemoryContext;
MemoryContext CurrentMemoryContext;

static le_time now;
static void *kept[64];
static int	nkept;

le_time
le_now(void)
{
	return now;
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return kept[nkept++] = calloc(1, size);
}

/* ---- the store ---- */

static uint64 at_index;			/* index of the newest write */
static LeGossip shown;			/* the present news key */

static LeOp
op_on(LeOpKind kind, const char *election)
{
	LeOp		op = {0};

	op.kind = kind;
	op.session = pstrdup(table.session);
	op.election = election;
	op.token = 5;
	return op;
}

/* On its way: with news. */
static LeOp
sent(LeOpKind kind, const char *election)
{
	LeOp		op = op_on(kind, election);

	le_gossip_attach(w->gossip, &op);
	return op;
}

/* As the codec reads it: writes of the newest number have the news' index. */
static void
applied(const LeOp *op)
{
	LeGossipItem *items = palloc0(LE_MAX_NEWS * sizeof(LeGossipItem));

	shown = *op->news;
	shown.node = "n1";
	shown.held = true;
	shown.index = ++at_index;
	for (int i = 0; i < shown.nitems; i++)
	{
		items[i] = op->news->items[i];
		if (items[i].number == shown.number &&
			items[i].kind != LE_OP_PUBLISH)
			items[i].index = shown.index;
	}
	shown.items = items;
}

static void
answered(const LeOp *op, LeOutcome outcome, uint64 index)
{
	LeAnswer	answer = {.outcome = outcome, .index = index};

	le_gossip_landed(w->gossip, op, &answer);
}

static LeOp
written(LeOpKind kind, const char *election)
{
	LeOp		op = sent(kind, election);

	applied(&op);
	answered(&op, LE_DONE, at_index);
	return op;
}

/* Index of an election's newest write by the news; 0: none. */
static uint64
told_of(const char *election)
{
	uint64		index = 0;

	for (int i = 0; i < shown.nitems; i++)
		if (strcmp(shown.items[i].election, election) == 0)
			index = Max(index, shown.items[i].index);
	return index;
}

static int
hears(void)
{
	return le_gossip_hear(w->gossip, &shown);
}

static int
begin_with(int capacity)
{
	memset(&table, 0, sizeof(table));
	strlcpy(table.session, ME, sizeof(table.session));
	now = 100 * LE_SEC;
	at_index = 1000;
	w->gossip = le_gossip_new(capacity);
	le_gossip_begin(w->gossip, 6 * LE_SEC);
	assert_true(le_gossip_untold(w->gossip));
	(void) written(LE_OP_TELL_NEWS, NULL);
	assert_false(le_gossip_untold(w->gossip));
	assert_int_equal(hears(), LE_HEARD_GAP | LE_HEARD_ITEMS);
	return 0;
}

static int
begin(void **state)
{
	return begin_with(LE_MAX_NEWS);
}

static int
begin_small(void **state)
{
	return begin_with(3);
}

static int
end(void **state)
{
	while (nkept > 0)
		free(kept[--nkept]);
	reset_memory();
	return 0;
}

/* ---- tests ---- */

/* One after the other, each seen or only the last: nothing is missed. */
static void
test_in_order(void **state)
{
	(void) written(LE_OP_ACQUIRE, "a");
	assert_int_equal(hears(), LE_HEARD_ITEMS);
	assert_int_equal(told_of("a"), at_index);
	(void) written(LE_OP_ACQUIRE, "b");
	(void) written(LE_OP_RELEASE, "a");
	(void) written(LE_OP_TAKE_OVER, "c");
	assert_int_equal(hears(), LE_HEARD_ITEMS);
	assert_int_equal(told_of("b"), at_index - 2);
	assert_int_equal(told_of("a"), at_index - 1);
	assert_int_equal(told_of("c"), at_index);
	assert_int_equal(shown.items[3].kind, LE_OP_ACQUIRE);
	assert_int_equal(hears(), 0);
	assert_false(le_gossip_untold(w->gossip));
}

/* More than fits, unseen: a gap, and only then. */
static void
test_missed(void **state)
{
	for (int i = 0; i < LE_MAX_NEWS; i++)
		(void) written(LE_OP_RELEASE, psprintf("e%d", i));
	assert_int_equal(hears(), LE_HEARD_ITEMS);
	for (int i = 0; i <= LE_MAX_NEWS; i++)
		(void) written(LE_OP_RELEASE, psprintf("e%d", i));
	assert_int_equal(hears(), LE_HEARD_ITEMS | LE_HEARD_GAP);
	(void) written(LE_OP_RELEASE, "a");
	assert_int_equal(hears(), LE_HEARD_ITEMS);
}

/*
 * Two under way at a time, applied in either order, answered in either order:
 * in the end the news tell both.
 */
static void
test_at_a_time(void **state)
{
	for (int i = 0; i < 4; i++)
	{
		const char *names[] = {psprintf("a%d", i), psprintf("b%d", i)};
		LeOp		ops[2] = {
			sent(LE_OP_ACQUIRE, names[0]), sent(LE_OP_RELEASE, names[1])
		};
		uint64		indexes[2];

		applied(&ops[i & 1]);
		indexes[i & 1] = at_index;
		applied(&ops[!(i & 1)]);
		indexes[!(i & 1)] = at_index;
		assert_int_equal(hears(), LE_HEARD_ITEMS);	/* by the second only */
		assert_int_equal(told_of(names[i & 1]), 0);
		answered(&ops[i >> 1], LE_DONE, indexes[i >> 1]);
		answered(&ops[!(i >> 1)], LE_DONE, indexes[!(i >> 1)]);
		assert_true(le_gossip_untold(w->gossip));
		(void) written(LE_OP_TELL_NEWS, NULL);
		assert_int_equal(hears(), LE_HEARD_ITEMS);
		assert_int_equal(told_of(names[0]), indexes[0]);
		assert_int_equal(told_of(names[1]), indexes[1]);
		assert_false(le_gossip_untold(w->gossip));
	}
}

/* While others are under way they may take it along, but not for long. */
static void
test_untold_waits(void **state)
{
	LeOp		first = sent(LE_OP_ACQUIRE, "a");
	LeOp		second = sent(LE_OP_ACQUIRE, "b");
	LeOp		third;

	applied(&first);
	applied(&second);
	third = sent(LE_OP_ACQUIRE, "c");
	answered(&first, LE_DONE, at_index - 1);
	answered(&second, LE_DONE, at_index);
	assert_false(le_gossip_untold(w->gossip));
	assert_true(le_gossip_timer(w->gossip) == now + LE_UNTOLD_GAP);
	now += LE_UNTOLD_GAP;
	assert_true(le_gossip_untold(w->gossip));
	(void) written(LE_OP_TELL_NEWS, NULL);
	assert_int_equal(told_of("a"), at_index - 2);
	answered(&third, LE_CONFLICT, 0);
	assert_false(le_gossip_untold(w->gossip));
}

/* A refused write leaves the news. */
static void
test_refused(void **state)
{
	LeOp		op = sent(LE_OP_ACQUIRE, "a");

	answered(&op, LE_CONFLICT, 0);
	assert_false(le_gossip_untold(w->gossip));
	(void) written(LE_OP_ACQUIRE, "b");
	assert_int_equal(shown.nitems, 1);
	assert_int_equal(hears(), LE_HEARD_ITEMS);
}

/* An unknown outcome, so no reader is told that nothing else was written. */
static void
test_unknown(void **state)
{
	LeOp		op = sent(LE_OP_RELEASE, "a");

	answered(&op, LE_UNKNOWN, 0);
	assert_true(le_gossip_untold(w->gossip));
	(void) written(LE_OP_TELL_NEWS, NULL);
	assert_int_equal(hears(), LE_HEARD_ITEMS | LE_HEARD_GAP);

	/* it comes late: its content is true, and nothing is received twice */
	applied(&op);
	assert_int_equal(told_of("a"), at_index);
	assert_int_equal(hears(), LE_HEARD_ITEMS);
}

/* Only its answer tells the index, if it has changed the key at all. */
static void
test_published(void **state)
{
	LeOp		op = sent(LE_OP_PUBLISH, "a");

	applied(&op);
	assert_int_equal(told_of("a"), 0);
	answered(&op, LE_DONE, 77);
	assert_true(le_gossip_untold(w->gossip));
	(void) written(LE_OP_TELL_NEWS, NULL);
	assert_int_equal(told_of("a"), 77);
	assert_int_equal(shown.items[0].token, 5);
	assert_false(le_gossip_untold(w->gossip));
}

/* Several in a transaction share a number, with an index each. */
static void
test_joined(void **state)
{
	LeOp		second = op_on(LE_OP_PUBLISH, "b");
	const LeOp *joined[] = {&second};
	LeOp		op = op_on(LE_OP_PUBLISH, "a");
	LeAnswer	parts[2] = {{.index = 70}, {.index = 80}};
	LeAnswer	answer = {.index = 70, .wire.parts = parts};

	op.wire.joined = joined;
	op.wire.njoined = 1;
	le_gossip_attach(w->gossip, &op);
	applied(&op);
	assert_int_equal(shown.nitems, 2);
	le_gossip_landed(w->gossip, &op, &answer);
	(void) written(LE_OP_TELL_NEWS, NULL);
	assert_int_equal(told_of("a"), 70);
	assert_int_equal(told_of("b"), 80);
}

/*
 * More in one than is ever told.  A reader that listed all keys in between may
 * have done so before the other one was applied.
 */
static void
test_too_many(void **state)
{
	LeOp		many[2];
	LeOp		others[4];
	const LeOp *joined[4];

	for (int i = 0; i < 4; i++)
	{
		others[i] = op_on(LE_OP_ACQUIRE, psprintf("e%d", i));
		joined[i] = &others[i];
	}
	for (int i = 0; i < 2; i++)
	{
		many[i] = op_on(LE_OP_ACQUIRE, i == 0 ? "a" : "b");
		many[i].wire.joined = joined;
		many[i].wire.njoined = 4;
		le_gossip_attach(w->gossip, &many[i]);
		assert_int_equal(many[i].news->nitems, 0);
	}
	applied(&many[1]);
	assert_int_equal(hears() & LE_HEARD_GAP, LE_HEARD_GAP);
	applied(&many[0]);
	assert_int_equal(hears() & LE_HEARD_GAP, 0);
	answered(&many[0], LE_DONE, at_index);
	answered(&many[1], LE_DONE, at_index - 1);
	assert_true(le_gossip_untold(w->gossip));
	(void) written(LE_OP_TELL_NEWS, NULL);
	assert_int_equal(hears() & LE_HEARD_GAP, LE_HEARD_GAP);
	assert_false(le_gossip_untold(w->gossip));
}

/* Writes sent before the first news may be applied until then. */
static void
test_settles(void **state)
{
	assert_true(le_gossip_timer(w->gossip) == now + 6 * LE_SEC);
	now += 6 * LE_SEC;
	assert_true(le_gossip_untold(w->gossip));
	(void) written(LE_OP_TELL_NEWS, NULL);
	assert_int_equal(hears(), LE_HEARD_ITEMS | LE_HEARD_GAP);
	assert_true(le_gossip_timer(w->gossip) == 0);
}

/* A new worker knows no list; its numbers are higher all the same. */
static void
test_new_worker(void **state)
{
	uint64		before;

	for (int i = 0; i < 100; i++)
		(void) written(LE_OP_RELEASE, "a");
	(void) hears();
	before = shown.number;
	w->gossip = le_gossip_new(LE_MAX_NEWS);
	now += LE_MSEC;
	le_gossip_start(w->gossip);
	assert_true(le_gossip_untold(w->gossip));
	(void) written(LE_OP_RELEASE, "b");
	assert_true(shown.number > before);
	assert_int_equal(hears(), LE_HEARD_ITEMS | LE_HEARD_GAP);
}

/* Another session has news of its own, and those of the old one end. */
static void
test_new_session(void **state)
{
	LeGossip		old;
	LeAnswer	answer = {0};
	LeOp		late = sent(LE_OP_RELEASE, "a");

	strlcpy(table.session, AGAIN, sizeof(table.session));
	assert_true(le_gossip_untold(w->gossip));
	old = shown;
	old.held = false;
	old.index = ++at_index;
	assert_int_equal(le_gossip_hear(w->gossip, &old),
					 LE_HEARD_END | LE_HEARD_ITEMS);
	(void) written(LE_OP_TELL_NEWS, NULL);
	assert_string_equal(shown.session, AGAIN);
	assert_int_equal(hears(), LE_HEARD_ITEMS | LE_HEARD_GAP);
	answered(&late, LE_DONE, at_index);	/* not in this one's news */
	assert_false(le_gossip_untold(w->gossip));

	/* without news it is forgotten */
	answer.news = &shown;
	answer.nnews = 1;
	assert_false(le_gossip_heard(w->gossip, &answer));
	assert_int_equal(hears(), 0);

	/* one that lived at its last news may have released since */
	answer.nnews = 0;
	assert_true(le_gossip_heard(w->gossip, &answer));
	assert_false(le_gossip_heard(w->gossip, &answer));
	assert_int_equal(hears(), LE_HEARD_ITEMS | LE_HEARD_GAP);
}

/* From a later version, or foreign: any write may have happened. */
static void
test_strange(void **state)
{
	LeGossip		strange = {.session = ME, .held = true,
		.index = at_index + 1};

	assert_int_equal(le_gossip_hear(w->gossip, &strange), LE_HEARD_GAP);
	assert_int_equal(le_gossip_hear(w->gossip, &strange), 0);
}

/* News tell only writes of election keys, and none from before they began. */
static void
test_silent(void **state)
{
	LeOp		op = sent(LE_OP_PROVE_NODE, NULL);

	assert_null(op.news);
	w->gossip = le_gossip_new(LE_MAX_NEWS);
	op = sent(LE_OP_RELEASE, "a");
	assert_null(op.news);
	answered(&op, LE_DONE, 1);
	assert_false(le_gossip_untold(w->gossip));
	table.session[0] = '\0';
	le_gossip_start(w->gossip);
	op = sent(LE_OP_RELEASE, "a");
	assert_null(op.news);
}

#define news_test(f)	cmocka_unit_test_setup_teardown(f, begin, end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		news_test(test_in_order),
		news_test(test_missed),
		news_test(test_at_a_time),
		news_test(test_untold_waits),
		news_test(test_refused),
		news_test(test_unknown),
		news_test(test_published),
		news_test(test_joined),
		cmocka_unit_test_setup_teardown(test_too_many, begin_small, end),
		news_test(test_settles),
		news_test(test_new_worker),
		news_test(test_new_session),
		news_test(test_strange),
		news_test(test_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
