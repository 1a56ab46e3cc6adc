/*-------------------------------------------------------------------------
 *
 * test_stats.c
 *		Tests of the counters behind le_stat.
 *
 * The memory is our own.
 *
 * test/unit/test_stats.c
 *
 *-------------------------------------------------------------------------
 */
#undef FRONTEND
#include "postgres.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>

#include "settings.h"
#include "shmem/clock.h"
#include "shmem/leases.h"
#include "shmem/stats.h"

/* ---- stubs of the server ---- */

int			le_max_elections = 3;

static void *memory;
static le_time now = 10 * LE_SEC;
static TimestampTz wall = 1;

TimestampTz
GetCurrentTimestamp(void)
{
	return wall;
}

le_time
le_now(void)
{
	return now;
}

int
le_find_term(const char *election)
{
	return strcmp(election, "first") == 0 ? 0 :
		strcmp(election, "last") == 0 ? 2 : -1;
}

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

/* ---- tests ---- */

static int
make_stats(void **state)
{
	memory = malloc(le_stats_size());
	memset(memory, 0xa5, le_stats_size());
	le_stats_init(false, memory);
	return 0;
}

static int
drop_stats(void **state)
{
	free(memory);
	memory = NULL;
	le_stats_init(true, NULL);
	return 0;
}

static uint64
count_of(int slot, LeStat what)
{
	LeStatRow	row;

	le_copy_stat(slot, &row);
	return row.counts[what];
}

/* Each counter of each election is one of its own. */
static void
test_counters(void **state)
{
	for (int slot = LE_STAT_NODE; slot < le_max_elections; slot++)
		for (int i = 0; i < LE_NSTATS; i++)
			for (int k = 0; k < 10 * (slot + 2) + i; k++)
				le_stat_count_slot(slot, i);
	for (int slot = LE_STAT_NODE; slot < le_max_elections; slot++)
		for (int i = 0; i < LE_NSTATS; i++)
			assert_int_equal(count_of(slot, i), 10 * (slot + 2) + i);

	le_stat_forget(1);
	for (int i = 0; i < LE_NSTATS; i++)
	{
		assert_int_equal(count_of(0, i), 20 + i);
		assert_int_equal(count_of(1, i), 0);
		assert_int_equal(count_of(2, i), 40 + i);
	}
}

static void
test_by_name(void **state)
{
	le_stat_count("first", LE_STAT_GATE_PASSED);
	le_stat_count("last", LE_STAT_GATE_PASSED);
	le_stat_count("last", LE_STAT_GATE_PASSED);
	le_stat_count("unheard of", LE_STAT_GATE_REFUSED);
	assert_int_equal(count_of(0, LE_STAT_GATE_PASSED), 1);
	assert_int_equal(count_of(2, LE_STAT_GATE_PASSED), 2);
	assert_int_equal(count_of(LE_STAT_NODE, LE_STAT_GATE_REFUSED), 1);
	assert_int_equal(count_of(LE_STAT_NODE, LE_STAT_GATE_PASSED), 0);
}

static void
test_not_preloaded(void **state)
{
	le_stats_init(true, NULL);
	le_stat_count("first", LE_STAT_GATE_PASSED);
}

static void
test_outcomes(void **state)
{
	static const struct
	{
		LeOutcome	outcome;
		int			failures;
		int			unknown;
		int			trips;
	}			cases[] = {
		{LE_DONE, 0, 0, 1},
		{LE_CONFLICT, 0, 0, 1},
		{LE_LOST, 1, 0, 1},
		{LE_REFUSED, 1, 0, 1},
		{LE_UNAVAILABLE, 1, 0, 0},
		{LE_UNKNOWN, 0, 1, 0},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeStatRow	row;

		le_stats_init(false, memory);
		le_stat_answer(0, now - LE_MSEC, cases[i].outcome);
		le_copy_stat(0, &row);
		assert_int_equal(row.counts[LE_STAT_FAILURES], cases[i].failures);
		assert_int_equal(row.counts[LE_STAT_UNKNOWN], cases[i].unknown);
		assert_int_equal(row.trips, cases[i].trips);
		assert_int_equal(le_last_contact(), cases[i].trips ? now : 0);
	}
}

static void
trip(int slot, le_duration took)
{
	le_stat_answer(slot, now - took, LE_DONE);
}

static void
assert_trips(int slot, uint64 n, uint64 total, uint32 last, uint32 min,
			 uint32 max)
{
	LeStatRow	row;

	le_copy_stat(slot, &row);
	assert_int_equal(row.trips, n);
	assert_int_equal(row.trips_total, total);
	assert_int_equal(row.trip_last, last);
	assert_int_equal(row.trip_min, min);
	assert_int_equal(row.trip_max, max);
}

static void
test_trips(void **state)
{
	assert_trips(0, 0, 0, 0, 0, 0);
	trip(0, 5 * LE_MSEC);
	assert_trips(0, 1, 5000, 5000, 5000, 5000);
	trip(0, 2 * LE_MSEC);
	trip(0, 9 * LE_MSEC);
	trip(0, 4 * LE_MSEC);
	assert_trips(0, 4, 20000, 4000, 2000, 9000);
	/* never nothing, nor less, nor more than fits */
	trip(0, 0);
	assert_trips(0, 5, 20001, 1, 1, 9000);
	le_stat_answer(0, now - 5000 * LE_SEC, LE_DONE);
	assert_trips(0, 6, 20001 + (uint64) PG_UINT32_MAX, PG_UINT32_MAX, 1,
				 PG_UINT32_MAX);
	assert_trips(1, 0, 0, 0, 0, 0);
}

/* The longest counts, until a reset. */
static void
test_longest_turn(void **state)
{
	assert_int_equal(le_longest_turn(), 0);
	le_stat_turn(7 * LE_MSEC);
	le_stat_turn(3 * LE_MSEC);
	assert_int_equal(le_longest_turn(), 7000);
	le_reset_stats();
	assert_int_equal(le_longest_turn(), 0);
	le_stat_turn(LE_MSEC);
	assert_int_equal(le_longest_turn(), 1000);
}

/* A reset counts from its own instant on, for the worker's values, too. */
static void
test_reset(void **state)
{
	assert_int_equal(le_stat_since(), 1);
	trip(0, 5 * LE_MSEC);
	trip(LE_STAT_NODE, 5 * LE_MSEC);
	le_stat_count_slot(2, LE_STAT_RUNS);
	wall = 2;
	le_reset_stats();
	assert_int_equal(le_stat_since(), 2);
	assert_trips(0, 0, 0, 0, 0, 0);
	assert_trips(LE_STAT_NODE, 0, 0, 0, 0, 0);
	assert_int_equal(count_of(2, LE_STAT_RUNS), 0);

	/* earlier extremes are gone */
	trip(0, 6 * LE_MSEC);
	assert_trips(0, 1, 6000, 6000, 6000, 6000);
	trip(0, 7 * LE_MSEC);
	assert_trips(0, 2, 13000, 7000, 6000, 7000);
	le_reset_stats();
	trip(0, LE_MSEC);
	assert_trips(0, 1, 1000, 1000, 1000, 1000);
	/* a counter that has counted nothing since */
	assert_trips(LE_STAT_NODE, 0, 0, 0, 0, 0);
}

/* Nothing is lost, in spite of simultaneous counting. */
static void *
count_many(void *arg)
{
	for (int i = 0; i < 200000; i++)
		le_stat_count("first", LE_STAT_GATE_PASSED);
	return NULL;
}

static void
test_together(void **state)
{
	pthread_t	others[3];

	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&others[i], NULL, count_many, NULL),
						 0);
	for (int i = 0; i < 3; i++)
		pthread_join(others[i], NULL);
	assert_int_equal(count_of(0, LE_STAT_GATE_PASSED), 600000);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_stats, drop_stats)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_counters),
		TEST(test_by_name),
		TEST(test_not_preloaded),
		TEST(test_outcomes),
		TEST(test_trips),
		TEST(test_longest_turn),
		TEST(test_reset),
		TEST(test_together),
	};

	return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
