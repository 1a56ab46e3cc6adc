/*-------------------------------------------------------------------------
 *
 * test_cache.c
 *		Tests of the cache of keys: lists, and news between them.
 *
 * In any order of arrival, the newest write wins.
 *
 * test/unit/test_cache.c
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
#include "settings.h"
#include "shmem/clock.h"
#include "shmem/leases.h"
#include "worker/base/context.h"
#include "worker/view/cache.h"

#define S1	"11111111-1111-1111-1111-111111111111"
#define S2	"22222222-2222-2222-2222-222222222222"

static LeWorker worker;
static LeWorker *const w = &worker;

/* ---- stubs of the rest of the extension ---- */

static LeTable table;
LeTable    *le_table = &table;
MemoryContext TopMemoryContext;
MemoryContext CurrentMemoryContext;

static LeSlot slots[2];

LeSlot *
le_slot(int number)
{
	return &slots[number];
}

static le_time now;

le_time
le_now(void)
{
	return now;
}

TimestampTz
GetCurrentTimestamp(void)
{
	return 0;
}

const char *
le_my_name(void)
{
	return "n1";
}

void
le_set_nodes(const LeNodeInfo *nodes, int n)
{
	memcpy(table.nodes, nodes, n * sizeof(LeNodeInfo));
	table.nnodes = n;
}

MemoryContext
AllocSetContextCreateInternal(MemoryContext parent, const char *name,
							  Size minContextSize, Size initBlockSize,
							  Size maxBlockSize)
{
	return NULL;
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return palloc0(size);
}

void
MemoryContextDelete(MemoryContext context)
{
}

bool
errstart(int elevel, const char *domain)
{
	return false;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return false;
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
}

int
errmsg(const char *fmt,...)
{
	return 0;
}

int
errdetail(const char *fmt,...)
{
	return 0;
}

int
errhint(const char *fmt,...)
{
	return 0;
}

/* ---- lists and news ---- */

/* A list with an election "b" that S1 holds, at this index. */
static void
list_b(uint64 index, uint64 as_of)
{
	LeKey		key = {
		.election = "b", .holder = S1, .value_session = S1, .node = "n1",
		.value = "v", .usable = true, .ours = true, .token = index,
		.index = index,
	};
	LeAnswer	answer = {.keys = &key, .nkeys = 1, .index = as_of};

	le_cache_keep_keys(w->cache, &answer, now);
}

static bool
hear(const char *election, LeOpKind kind, uint64 index)
{
	LeGossip		news = {.session = S2, .node = "n2"};
	LeGossipItem	item = {
		.election = election, .kind = kind, .index = index, .token = 5,
	};

	return le_cache_hear(w->cache, &news, &item);
}

static uint64
index_of(const char *election)
{
	const LeKey *key = le_cache_key(w->cache, election);

	return key == NULL ? 0 : key->index;
}

static int
begin(void **state)
{
	w->cache = le_cache_new();
	memset(&table, 0, sizeof(table));
	now = LE_SEC;
	return 0;
}

static int
end(void **state)
{
	reset_memory();
	return 0;
}

/* ---- tests ---- */

static void
test_heard(void **state)
{
	const LeKey *key;

	assert_false(hear("b", LE_OP_RELEASE, 50)); /* there is no list yet */
	list_b(20, 30);
	assert_true(hear("b", LE_OP_RELEASE, 31));
	key = le_cache_key(w->cache, "b");
	assert_int_equal(key->index, 31);
	assert_null(key->holder);
	assert_true(key->released && key->told && key->usable && key->ours);
	assert_string_equal(key->value_session, S2);
	assert_true(hear("b", LE_OP_ACQUIRE, 32));
	key = le_cache_key(w->cache, "b");
	assert_string_equal(key->holder, S2);
	assert_string_equal(key->node, "n2");
	assert_int_equal(key->token, 32);
	assert_false(key->released);
	assert_null(key->value);
	assert_true(hear("b", LE_OP_PUBLISH, 40));
	assert_int_equal(le_cache_key(w->cache, "b")->token, 5);
}

/* The cache is newer, or has facts that the sender of the news lacks. */
static void
test_old_news(void **state)
{
	list_b(20, 30);
	assert_false(hear("b", LE_OP_RELEASE, 19));
	assert_false(hear("b", LE_OP_RELEASE, 20));
	assert_false(hear("b", LE_OP_RELEASE, 0));
	assert_int_equal(index_of("b"), 20);
	assert_string_equal(le_cache_key(w->cache, "b")->value, "v");

	/* it was deleted before the list was made */
	assert_false(hear("a", LE_OP_RELEASE, 30));
	assert_int_equal(index_of("a"), 0);
}

/* New names come in where they belong. */
static void
test_new_names(void **state)
{
	const LeKey *keys;

	list_b(20, 30);
	for (int i = 0; i < 100; i++)
		assert_true(hear(psprintf("%c%d", i % 2 == 0 ? 'a' : 'c', i),
						 LE_OP_ACQUIRE, 31 + i));
	assert_int_equal(le_cache_keys(w->cache, &keys), 101);
	for (int i = 0; i < 100; i++)
		assert_int_equal(index_of(psprintf("%c%d", i % 2 == 0 ? 'a' : 'c',
										   i)), 31 + i);
	assert_int_equal(index_of("b"), 20);
}

/* A list that was long on its way shows a state before the news. */
static void
test_late_list(void **state)
{
	list_b(20, 30);
	assert_true(hear("b", LE_OP_RELEASE, 40));
	assert_true(hear("n", LE_OP_ACQUIRE, 41));
	list_b(20, 30);
	assert_int_equal(index_of("b"), 40);
	assert_int_equal(index_of("n"), 41);
	list_b(45, 45);
	assert_int_equal(index_of("b"), 45);
	assert_string_equal(le_cache_key(w->cache, "b")->value, "v");
	assert_int_equal(index_of("n"), 0); /* so it was deleted since */
}

/* As good as new, as of the list. */
static void
test_lately(void **state)
{
	uint64		index;

	list_b(20, 30);
	now += 5 * LE_SEC;
	assert_false(le_cache_lately(w->cache, 3 * LE_SEC, &index));
	le_cache_heard(w->cache);
	assert_true(le_cache_lately(w->cache, 3 * LE_SEC, &index));
	assert_int_equal(index, 30);
	assert_true(le_cache_as_of(w->cache) == now - 5 * LE_SEC);
	le_cache_begin_anew(w);
	le_cache_heard(w->cache);
	assert_false(le_cache_lately(w->cache, 3 * LE_SEC, &index));
}

/* Another store may have lower indexes, for keys and for nodes. */
static void
test_another_store(void **state)
{
	LeNodeKey	node = {.session = S1, .node = "n1", .incarnation = "x",
		.lease = 10 * LE_SEC, .index = 500, .held = true,
	};
	LeAnswer	answer = {.nodes = &node, .nnodes = 1};
	uint32		stores = w->stores;

	list_b(400, 500);
	assert_true(hear("n", LE_OP_ACQUIRE, 501));
	le_cache_keep_nodes(w->cache, &answer);
	now += 8 * LE_SEC;
	le_cache_begin_anew(w);
	assert_int_equal(w->stores, stores + 1);
	assert_int_equal(index_of("b"), 0);
	assert_null(le_cache_node(S1));
	assert_false(hear("b", LE_OP_RELEASE, 502));
	list_b(20, 30);
	assert_int_equal(index_of("b"), 20);
	assert_int_equal(index_of("n"), 0);
	assert_true(hear("b", LE_OP_RELEASE, 31));
	node.index = 25;
	le_cache_keep_nodes(w->cache, &answer);
	assert_int_equal(le_cache_node(S1)->index, 25);
	assert_true(le_cache_silent_at(w->cache, le_cache_node(S1)) == now +
				10 * LE_SEC);
}

static void
test_all_tell(void **state)
{
	LeNodeKey	nodes[] = {
		{.session = S1, .node = "n1", .incarnation = "x", .lease = LE_SEC,
		.index = 5, .held = true, .tells = true},
		{.session = S2, .node = "n2", .incarnation = "y", .lease = LE_SEC,
		.index = 6, .held = true},
	};
	LeAnswer	answer = {.nodes = nodes, .nnodes = 2};

	assert_false(le_cache_all_tell());
	le_cache_keep_nodes(w->cache, &answer);
	assert_false(le_cache_all_tell());
	nodes[1].tells = true;
	le_cache_keep_nodes(w->cache, &answer);
	assert_true(le_cache_all_tell());
	nodes[1].tells = nodes[1].held = false;
	le_cache_keep_nodes(w->cache, &answer);
	assert_true(le_cache_all_tell());
}

/*
 * A node whose takeover was refused has given a sign of life that no list has
 * shown yet: its wait starts anew, even if an older list comes.
 */
static void
test_doubted(void **state)
{
	LeNodeKey	node = {.session = S1, .node = "n1", .incarnation = "x",
		.lease = 10 * LE_SEC, .index = 5, .held = true,
	};
	LeAnswer	answer = {.nodes = &node, .nnodes = 1};
	le_time		seen = now;

	le_cache_keep_nodes(w->cache, &answer);
	assert_true(le_cache_silent_at(w->cache, le_cache_node(S1)) == seen +
				10 * LE_SEC);
	now += 10 * LE_SEC;
	le_cache_doubt(S2);			/* another node's, unknown here */
	assert_true(le_cache_silent_at(w->cache, le_cache_node(S1)) == now);
	le_cache_doubt(S1);
	assert_true(le_cache_silent_at(w->cache, le_cache_node(S1)) == now +
				10 * LE_SEC);
	le_cache_keep_nodes(w->cache, &answer);
	assert_true(le_cache_silent_at(w->cache, le_cache_node(S1)) == now +
				10 * LE_SEC);
	now += 2 * LE_SEC;
	node.index = 6;				/* and there it is */
	le_cache_keep_nodes(w->cache, &answer);
	assert_true(le_cache_silent_at(w->cache, le_cache_node(S1)) == now +
				10 * LE_SEC);
}

/* With more nodes than fit, the table has those that may be waited for. */
static void
test_many_nodes(void **state)
{
	LeNodeKey  *nodes = palloc0((LE_MAX_NODES + 100) * sizeof(LeNodeKey));
	LeAnswer	answer = {.nodes = nodes, .nnodes = LE_MAX_NODES + 100};

	for (int i = 0; i < answer.nnodes; i++)
	{
		nodes[i].session = psprintf("%08d-0000-0000-0000-000000000000", i);
		nodes[i].node = "n2";
		nodes[i].incarnation = "y";
		nodes[i].lease = LE_SEC;
		nodes[i].index = i + 1;
	}
	for (int i = 0; i < 3; i++)
	{
		const char *holder = nodes[(LE_MAX_NODES + 99) * i / 2].session;

		le_cache_keep_nodes(w->cache, &answer);
		assert_int_equal(table.nnodes, LE_MAX_NODES);
		table.nused = 2;
		strcpy(slots[1].holder.session, holder);
		le_cache_keep_nodes(w->cache, &answer);
		assert_int_equal(table.nnodes, LE_MAX_NODES);
		assert_non_null(le_cache_node(holder));
		slots[1].holder.session[0] = '\0';
	}
}

/*
 * A node lives if its new proofs make a row as long as its lease; here nodes
 * are listed once in two seconds.
 */
static void
test_lives(void **state)
{
	static const struct
	{
		int			after;			/* seconds since the step before */
		uint64		index;
		uint64		seq;
		bool		held;
		bool		revoked;
		bool		lives;
	}			steps[] = {
		{0, 10, 1, true, false, false},
		{9, 10, 1, true, false, false},
		{0, 11, 1, true, true, false},	/* marked by another */
		{0, 12, 3, true, false, false}, /* the first new proof */
		{2, 13, 4, true, false, false},
		{11, 13, 4, true, false, false},	/* time alone is none */
		{0, 14, 2, true, false, false}, /* nor is an older proof */
		{1, 15, 5, true, false, false}, /* after a pause */
		{9, 16, 6, true, false, false},
		{1, 17, 7, true, false, true},
		{0, 16, 6, true, true, true},	/* an old answer */
		{0, 18, 7, false, false, true},
	};
	LeNodeKey	node = {
		.session = S2, .node = "n2", .incarnation = "y",
		.lease = 10 * LE_SEC, .systems = {{77, 76}}, .since = 5,
	};
	LeAnswer	answer = {.nodes = &node, .nnodes = 1};

	table.node.timing.lease = 2 * LE_SEC;
	for (int i = 0; i < lengthof(steps); i++)
	{
		now += steps[i].after * LE_SEC;
		node.index = steps[i].index;
		node.seq = steps[i].seq;
		node.held = steps[i].held;
		node.revoked = steps[i].revoked;
		le_cache_keep_nodes(w->cache, &answer);
		if (le_cache_lives(le_cache_node(S2)) != steps[i].lives)
			fail_msg("step %d", i);
		assert_true(le_cache_node(S2)->systems.ids[0] == 77);
		assert_true(le_cache_node(S2)->systems.ids[1] == 76);
		assert_true(le_cache_node(S2)->since == 5);
	}
}

#define known_test(f)	cmocka_unit_test_setup_teardown(f, begin, end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		known_test(test_heard),
		known_test(test_old_news),
		known_test(test_new_names),
		known_test(test_late_list),
		known_test(test_lately),
		known_test(test_another_store),
		known_test(test_all_tell),
		known_test(test_doubted),
		known_test(test_many_nodes),
		known_test(test_lives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
