/*-------------------------------------------------------------------------
 *
 * test_history.c
 *		Tests of shmem/history.c: each run is shown once, in a number of steps
 *		that grows as the number of runs does, and a cancel is heeded.
 *
 * The memory is our own.  A claim's id is a number here, which stands for its
 * hash.
 *
 * test/unit/test_history.c
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

#include "miscadmin.h"
#include "utils/hsearch.h"

#include "settings.h"
#include "shmem/history.h"

#define MANY	2000

/* ---- stubs of the server ---- */

int			le_max_events = 2 * MANY;
MemoryContext CurrentMemoryContext;
volatile sig_atomic_t InterruptPending;

static HTAB *made;
static int	steps;
static int	cancel_at;			/* this step a cancel comes; 0: never */
static jmp_buf canceled;

struct HTAB
{
	Size		entry_size;
	char	   *entries[2 * MANY + 1];	/* by the number in the id */
};

/* See test_history.h. */
int
step(int result)
{
	InterruptPending |= ++steps == cancel_at;
	return result;
}

HTAB *
table_create(const HASHCTL *ctl, int nelem)
{
	made = calloc(1, sizeof(HTAB));
	made->entry_size = ctl->entrysize;
	return made;
}

void *
table_search(HTAB *table, const void *key, HASHACTION action)
{
	char	  **entry = &table->entries[atoi(key)];

	(void) step(0);
	if (*entry == NULL && action == HASH_ENTER)
		*entry = calloc(1, table->entry_size);
	return *entry;
}

void
hash_destroy(HTAB *table)
{
	for (int i = 0; i < lengthof(table->entries); i++)
		free(table->entries[i]);
	free(table);
}

/* As the end of the transaction frees memory. */
void
ProcessInterrupts(void)
{
	hash_destroy(made);
	InterruptPending = false;
	longjmp(canceled, 1);
}

Size
mul_size(Size a, Size b)
{
	return a * b;
}

Size
add_size(Size a, Size b)
{
	return a + b;
}

/* ---- runs ---- */

static LeJobRow shown[2 * MANY];

static void
note(int id, const char *job, int ended_at, const char *sqlstate)
{
	LeJobRow	run = {0};

	strlcpy(run.claim.election, "billing", sizeof(run.claim.election));
	strlcpy(run.claim.job, job, sizeof(run.claim.job));
	strlcpy(run.claim.sqlstate, sqlstate, sizeof(run.claim.sqlstate));
	run.claim.ended_at = ended_at;
	if (id != 0)
		snprintf(run.claim.id, sizeof(run.claim.id), "%d", id);
	le_history_note(&run);
}

static int
steps_of(const char *job)
{
	steps = 0;
	(void) le_history_copy("billing", job, le_max_events, shown);
	return steps;
}

static int
make_memory(void **state)
{
	*state = malloc(le_history_size());
	le_history_init(false, *state);
	cancel_at = 0;
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
test_newest_first(void **state)
{
	for (int i = 1; i <= 5; i++)
		note(i, i % 2 == 0 ? "even" : "odd", i, "");
	assert_int_equal(le_history_copy(NULL, NULL, 10, shown), 5);
	assert_int_equal(shown[0].claim.ended_at, 5);
	assert_int_equal(shown[4].claim.ended_at, 1);
	assert_int_equal(le_history_copy("billing", "even", 10, shown), 2);
	assert_int_equal(le_history_copy("billing", NULL, 3, shown), 3);
	assert_int_equal(shown[2].claim.ended_at, 3);
	assert_int_equal(le_history_copy("other", NULL, 10, shown), 0);
}

/* By whoever ran it, and by a look at the store that does not know why. */
static void
test_noted_twice(void **state)
{
	note(1, "a", 7, "22012");
	note(2, "a", 8, "");
	note(1, "a", 0, "");
	note(0, "a", 9, "");
	note(0, "a", 9, "");
	assert_int_equal(le_history_copy(NULL, NULL, 10, shown), 4);
	assert_string_equal(shown[2].claim.id, "1");
	assert_int_equal(shown[2].claim.ended_at, 7);
	assert_string_equal(shown[2].claim.sqlstate, "22012");
	assert_string_equal(shown[3].claim.id, "2");
}

/* Twice as many runs take twice as many steps. */
static void
test_steps(void **state)
{
	int			half;

	for (int i = 1; i <= MANY; i++)
		note(i, "a", i, "");
	half = steps_of("a");
	assert_in_range(half, MANY, 10 * MANY);
	for (int i = MANY + 1; i <= 2 * MANY; i++)
		note(i, "a", i, "");
	assert_int_equal(steps_of("a"), 2 * half);
}

/* ... also where all have been noted before. */
static void
test_steps_of_repeated(void **state)
{
	int			half;

	for (int i = 1; i <= MANY; i++)
		note(i % (MANY / 2) + 1, "a", i, "");
	half = steps_of("a");
	assert_int_equal(le_history_copy(NULL, NULL, MANY, shown), MANY / 2);
	for (int i = 1; i <= MANY; i++)
		note(i % MANY + 1, "a", i, "");
	assert_in_range(steps_of("a"), half, 2 * half + MANY);
}

/* A cancel is heeded before the next run. */
static void
test_cancel(void **state)
{
	int			of_all;

	for (int i = 1; i <= MANY; i++)
		note(i, "a", i, "");
	of_all = steps_of("a");
	cancel_at = of_all / 2;
	if (setjmp(canceled) == 0)
	{
		(void) steps_of("a");
		fail();
	}
	assert_in_range(steps, cancel_at, cancel_at + of_all / MANY);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_newest_first, make_memory,
										free_memory),
		cmocka_unit_test_setup_teardown(test_noted_twice, make_memory,
										free_memory),
		cmocka_unit_test_setup_teardown(test_steps, make_memory, free_memory),
		cmocka_unit_test_setup_teardown(test_steps_of_repeated, make_memory,
										free_memory),
		cmocka_unit_test_setup_teardown(test_cancel, make_memory,
										free_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
