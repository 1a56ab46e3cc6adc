/*-------------------------------------------------------------------------
 *
 * test_job_callers.c
 *		Tests of sql/job_callers.c: do two call one job in turn?
 *
 * The memory is our own.  A hash is the number at the end of a name, so that
 * a test chooses who shares an entry.
 *
 * test/unit/test_job_callers.c
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

#include "common/hashfn.h"
#include "storage/spin.h"

#include "sql/job_callers.h"

/* ---- stubs of the server ---- */

uint64
hash_bytes_extended(const unsigned char *k, int keylen, uint64 seed)
{
	return seed + strtoull((const char *) k + 1, NULL, 10);
}

int
s_lock(volatile slock_t *lock, const char *file, int line, const char *func)
{
	fail();
	return 0;
}

/* ---- calls ---- */

/* Each letter is a caller.  Is there a clash after the last call? */
static bool
clashes_after(const char *job, const char *calls)
{
	LeJobCallers callers;

	for (const char *c = calls; *c != '\0'; c++)
	{
		LeCaller	caller = {*c, 1};
		LeJobCallers before;
		bool		clashed = le_copy_callers("e0", job, &before) &&
			le_callers_clash(&before);
		bool		first = le_note_caller("e0", job, caller, &callers);

		assert_int_equal(first, !clashed && le_callers_clash(&callers));
		assert_int_equal(callers.last.role, *c);
	}
	assert_true(le_copy_callers("e0", job, &callers));
	return le_callers_clash(&callers);
}

static int
make_memory(void **state)
{
	*state = malloc(le_job_callers_size());
	le_job_callers_init(false, *state);
	return 0;
}

static int
free_memory(void **state)
{
	free(*state);
	return 0;
}

/* ---- tests ---- */

static void
test_one_caller(void **state)
{
	assert_false(clashes_after("j1", "aaaaaaaa"));
}

static void
test_another_owner(void **state)
{
	assert_false(clashes_after("j1", "aaaaabbbbb"));
	assert_false(clashes_after("j2", "ab"));
	assert_false(clashes_after("j3", "abcdefgh"));
}

/* Somebody runs a tick by hand. */
static void
test_one_call_by_hand(void **state)
{
	assert_false(clashes_after("j1", "aaabaaaa"));
	assert_false(clashes_after("j2", "aaabbaaa"));
}

static void
test_two_in_turn(void **state)
{
	assert_false(clashes_after("j1", "aba"));
	assert_true(clashes_after("j2", "abab"));
	assert_true(clashes_after("j3", "aaaabab"));
	assert_true(clashes_after("j4", "ababababab"));
}

/* At each tick both call, in any order: the clash goes on. */
static void
test_any_order(void **state)
{
	char		calls[] = "ab" "ba" "ab" "ab" "ba" "ba" "ab" "ba";

	assert_true(clashes_after("j1", "abba" "ab"));
	for (const char *c = calls; *c != '\0'; c += 2)
	{
		char		tick[] = {c[0], c[1], '\0'};

		assert_true(clashes_after("j1", tick));
	}
}

static void
test_it_ends(void **state)
{
	assert_true(clashes_after("j1", "abab"));
	assert_true(clashes_after("j1", "b"));
	assert_false(clashes_after("j1", "bb"));
	assert_false(clashes_after("j1", "bbbb"));
	assert_false(clashes_after("j1", "a"));
}

/* One role's jobs in two databases. */
static void
test_two_databases(void **state)
{
	LeJobCallers callers;

	for (int i = 0; i < 4; i++)
	{
		LeCaller	caller = {'a', i % 2};

		assert_int_equal(le_note_caller("e0", "j1", caller, &callers), i == 3);
	}
	assert_true(le_callers_clash(&callers));
}

/* Jobs whose hashes lead to one entry: as many as have room. */
static void
test_entries(void **state)
{
	LeJobCallers callers;

	assert_false(le_copy_callers("e0", "j1", &callers));
	for (int i = 0; i < 3; i++)
	{
		assert_int_equal(clashes_after("j1", "ab"), i > 0);
		assert_int_equal(clashes_after("j1025", "ab"), i > 0);
		assert_false(clashes_after("j2049", "a"));
		assert_false(clashes_after("j3073", "a"));
	}
	/* the one more takes over the entry of the oldest */
	assert_false(clashes_after("j4097", "a"));
	assert_false(le_copy_callers("e0", "j1", &callers));
	assert_true(le_copy_callers("e0", "j1025", &callers));
	assert_true(le_callers_clash(&callers));
	/* a job of another election is another */
	assert_false(le_copy_callers("e1", "j1025", &callers));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_caller, make_memory,
										free_memory),
		cmocka_unit_test_setup_teardown(test_another_owner, make_memory,
										free_memory),
		cmocka_unit_test_setup_teardown(test_one_call_by_hand, make_memory,
										free_memory),
		cmocka_unit_test_setup_teardown(test_two_in_turn, make_memory,
										free_memory),
		cmocka_unit_test_setup_teardown(test_any_order, make_memory,
										free_memory),
		cmocka_unit_test_setup_teardown(test_it_ends, make_memory,
										free_memory),
		cmocka_unit_test_setup_teardown(test_two_databases, make_memory,
										free_memory),
		cmocka_unit_test_setup_teardown(test_entries, make_memory,
										free_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
