/*-------------------------------------------------------------------------
 *
 * test_slot_set.c
 *		Tests of worker/base/slot_set.h, beside a plain array.
 *
 * test/unit/test_slot_set.c
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
#include "worker/base/slot_set.h"

#define NSLOTS	200

MemoryContext TopMemoryContext;

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return palloc0(size);
}

static int
end(void **state)
{
	reset_memory();
	return 0;
}

/* The members of both, in the same order. */
static void
compare(const LeSlotSet *set, const bool *in)
{
	int			at = -1;
	int			n = 0;

	for (int i = 0; i < NSLOTS; i++)
	{
		assert_int_equal(le_set_has(set, i), in[i]);
		n += in[i];
	}
	assert_int_equal(set->n, n);
	le_foreach_slot(i, set)
	{
		for (at++; !in[at]; at++)
			assert_in_range(at, 0, NSLOTS - 1);
		assert_int_equal(i, at);
		n--;
	}
	assert_int_equal(n, 0);
}

static void
test_any(void **state)
{
	LeSlotSet	set;
	bool		in[NSLOTS] = {false};

	le_set_init(&set, NSLOTS);
	compare(&set, in);
	srand(4711);
	for (int step = 0; step < 5000; step++)
	{
		int			slot = rand() % NSLOTS;

		/* sometimes nearly full, sometimes nearly empty */
		in[slot] = rand() % 20 < (step / 500 % 2 == 0 ? 19 : 1);
		le_set_put(&set, slot, in[slot]);
		if (step % 10 == 0)
			compare(&set, in);
	}
}

static void
test_ring(void **state)
{
	LeSlotSet	set;

	le_set_init(&set, NSLOTS);
	assert_int_equal(le_set_after(&set, 5), -1);
	le_set_put(&set, 63, true);
	assert_int_equal(le_set_after(&set, 63), 63);
	le_set_put(&set, 64, true);
	le_set_put(&set, NSLOTS - 1, true);
	assert_int_equal(le_set_after(&set, 63), 64);
	assert_int_equal(le_set_after(&set, 64), NSLOTS - 1);
	assert_int_equal(le_set_after(&set, NSLOTS - 1), 63);
	assert_int_equal(le_set_next(&set, NSLOTS - 1), -1);
}

/* The body of a loop may change the set: members to come count as they are. */
static void
test_changes(void **state)
{
	LeSlotSet	set;
	int			seen = 0;

	le_set_init(&set, NSLOTS);
	le_set_put(&set, 10, true);
	le_set_put(&set, 20, true);
	le_foreach_slot(i, &set)
	{
		seen++;
		assert_int_not_equal(i, 20);
		le_set_put(&set, i, false);
		le_set_put(&set, 20, false);
		if (i == 10)
			le_set_put(&set, 150, true);
	}
	assert_int_equal(seen, 2);
	assert_int_equal(set.n, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_any, end),
		cmocka_unit_test_teardown(test_ring, end),
		cmocka_unit_test_teardown(test_changes, end),
	};

	return cmocka_run_group_tests_name("slot_set", tests, NULL, NULL);
}
