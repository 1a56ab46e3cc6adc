/*-------------------------------------------------------------------------
 *
 * test_run_registry.c
 *		Tests of shmem/run_registry.c: when can no session act on a claim any
 *		more?
 *
 * The memory is our own.
 *
 * test/unit/test_run_registry.c
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

#include "shmem/leases.h"
#include "shmem/requests.h"
#include "shmem/run_registry.h"

int			my_proc;			/* read by test_run_registry.h */

/* ---- stubs of the server ---- */

#define NBACKENDS	3

int			MaxBackends = NBACKENDS;
LeTable    *le_table;

static LeOwner owners[NBACKENDS];	/* 0: no backend */

Size
mul_size(Size a, Size b)
{
	return a * b;
}

LeOwner
le_my_owner(bool xact)
{
	if (owners[my_proc] == 0)
		owners[my_proc] =
			pg_atomic_add_fetch_u64(&le_table->last_owner, 1);
	return owners[my_proc];
}

bool
le_owner_lives(LeOwner owner, int proc)
{
	return owner != LE_OWNER_NONE && owners[proc] == owner;
}

/* ---- claims ---- */

typedef struct Claimed
{
	int			entry;
	uint64		number;
	char		id[LE_CLAIM_ID_LEN + 1];
} Claimed;

static void
name(Claimed *c)
{
	memset(c->id, 'a', LE_CLAIM_ID_LEN);
	le_run_print(c->id + LE_CLAIM_ID_LEN - LE_RUN_DIGITS, c->number);
}

static Claimed
begin(int backend)
{
	Claimed		c;

	my_proc = backend;
	c.entry = le_run_registry_begin(&c.number);
	name(&c);
	return c;
}

static Claimed
by_hand(int backend)
{
	Claimed		c;

	my_proc = backend;
	c.entry = -1;
	c.number = le_my_owner(false);
	name(&c);
	return c;
}

static int
set_up(void **state)
{
	void	   *where = malloc(le_run_registry_size());

	le_table = calloc(1, sizeof(LeTable));
	pg_atomic_init_u64(&le_table->last_owner, LE_OWNER_NODE);
	strcpy(le_table->incarnation, "0123456789abcdef0123456789abcdef");
	memset(owners, 0, sizeof(owners));
	le_run_registry_init(false, where);
	*state = where;
	return 0;
}

static int
tear_down(void **state)
{
	free(*state);
	free(le_table);
	return 0;
}

/* ---- tests ---- */

static void
test_a_run(void **state)
{
	Claimed		one = begin(1);
	Claimed		other = begin(2);

	assert_int_equal(strlen(one.id), LE_CLAIM_ID_LEN);
	assert_string_not_equal(one.id, other.id);
	assert_false(le_run_retire(one.id, ""));
	my_proc = 1;
	le_run_registry_end(one.entry, one.number);
	assert_true(le_run_retire(one.id, ""));
	assert_false(le_run_retire(other.id, ""));
	/* the next owner of the entry is another session */
	assert_int_equal(begin(1).entry, one.entry);
	assert_true(le_run_retire(one.id, ""));
	assert_false(le_run_registry_resume(one.entry, one.number));
}

static void
test_by_hand(void **state)
{
	Claimed		one = by_hand(0);

	le_run_registry_end(one.entry, one.number);
	le_run_registry_park(one.entry, one.number);
	assert_false(le_run_retire(one.id, ""));
	assert_true(le_run_registry_resume(one.entry, one.number));
	owners[0] = 0;
	assert_true(le_run_retire(one.id, ""));
}

/* It exits, and the next backend in its seat has not used its entries yet. */
static void
test_exit(void **state)
{
	Claimed		run = begin(1);

	owners[1] = 0;
	assert_true(le_run_retire(run.id, ""));
	my_proc = 1;
	(void) le_my_owner(false);
	assert_true(le_run_retire(run.id, ""));
	(void) begin(1);
	assert_true(le_run_retire(run.id, ""));
}

/* Either the session goes on with it, or another session is told so. */
static void
test_parked(void **state)
{
	Claimed		one = begin(1);

	le_run_registry_park(one.entry, one.number);
	assert_true(le_run_registry_resume(one.entry, one.number));
	assert_true(le_run_registry_resume(one.entry, one.number));
	assert_false(le_run_retire(one.id, ""));
	le_run_registry_park(one.entry, one.number);
	assert_true(le_run_retire(one.id, ""));
	assert_false(le_run_registry_resume(one.entry, one.number));
	assert_true(le_run_retire(one.id, ""));
	le_run_registry_park(one.entry, one.number);
	assert_false(le_run_registry_resume(one.entry, one.number));
}

/* Only a look: a run that may resume is not over, and still may. */
static void
test_over(void **state)
{
	Claimed		hand = by_hand(2);
	Claimed		one = begin(1);
	Claimed		other = begin(1);
	char		id[LE_CLAIM_ID_LEN + 1];

	assert_false(le_run_is_over(one.id));
	le_run_registry_park(one.entry, one.number);
	assert_false(le_run_is_over(one.id));
	assert_true(le_run_registry_resume(one.entry, one.number));
	le_run_registry_end(one.entry, one.number);
	assert_true(le_run_is_over(one.id));
	assert_false(le_run_is_over(other.id));
	assert_false(le_run_is_over(hand.id));
	owners[1] = owners[2] = 0;
	assert_true(le_run_is_over(other.id));
	assert_true(le_run_is_over(hand.id));

	/* another incarnation's, and none of ours: nothing is known of them */
	strlcpy(id, one.id, sizeof(id));
	id[LE_CLAIM_ID_LEN - LE_RUN_DIGITS] ^= 1;
	assert_false(le_run_is_over(id));
	assert_false(le_run_is_over("by hand"));
}

/* A session that asks for its own claim again does not end it. */
static void
test_asks_for_its_own(void **state)
{
	Claimed		other = begin(2);
	Claimed		one = begin(1);

	le_run_registry_park(one.entry, one.number);
	assert_false(le_run_retire(one.id, one.id));
	assert_true(le_run_registry_resume(one.entry, one.number));
	le_run_registry_park(one.entry, one.number);
	assert_true(le_run_retire(one.id, other.id));
	assert_false(le_run_registry_resume(one.entry, one.number));
}

static void
test_entries(void **state)
{
	Claimed		c[LE_RUN_ENTRIES + 2];

	/* the oldest parked one makes room */
	for (int i = 0; i < LE_RUN_ENTRIES; i++)
	{
		c[i] = begin(1);
		if (i == 3 || i == 5)
			le_run_registry_park(c[i].entry, c[i].number);
	}
	c[LE_RUN_ENTRIES] = begin(1);
	assert_int_equal(c[LE_RUN_ENTRIES].entry, c[3].entry);
	le_run_registry_end(c[3].entry, c[3].number);	/* no longer the
													 * session's */
	assert_false(le_run_retire(c[LE_RUN_ENTRIES].id, ""));
	assert_true(le_run_retire(c[3].id, ""));
	assert_true(le_run_registry_resume(c[5].entry, c[5].number));

	/* none does: as long as the session lives, it may act */
	c[LE_RUN_ENTRIES + 1] = begin(1);
	assert_int_equal(c[LE_RUN_ENTRIES + 1].entry, -1);
	le_run_registry_end(-1, c[LE_RUN_ENTRIES + 1].number);
	assert_false(le_run_retire(c[LE_RUN_ENTRIES + 1].id, ""));
	for (int i = 0; i < LE_RUN_ENTRIES + 1; i++)
		if (i != 3)
			assert_false(le_run_retire(c[i].id, ""));
}

static void
test_others(void **state)
{
	Claimed		run = begin(1);
	char		id[LE_CLAIM_ID_LEN + 1];

	/* from another incarnation, whose token went back to ours */
	strcpy(id, run.id);
	id[LE_CLAIM_ID_LEN - LE_RUN_DIGITS] ^= 1;
	assert_true(le_run_retire(id, ""));
	/* undrawn numbers, and ids of another form, tell nothing */
	memset(id, '0', LE_CLAIM_ID_LEN);
	le_run_print(id + LE_CLAIM_ID_LEN - LE_RUN_DIGITS, 0);
	assert_false(le_run_retire(id, ""));
	le_run_print(id + LE_CLAIM_ID_LEN - LE_RUN_DIGITS, LE_OWNER_NODE);
	assert_false(le_run_retire(id, ""));
	le_run_print(id + LE_CLAIM_ID_LEN - LE_RUN_DIGITS, 1000);
	assert_false(le_run_retire(id, ""));
	assert_false(le_run_retire("c", ""));
	assert_false(le_run_retire("", ""));
}

#define runs_test(f)	cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		runs_test(test_a_run),
			runs_test(test_by_hand),
			runs_test(test_exit),
			runs_test(test_parked),
			runs_test(test_over),
			runs_test(test_asks_for_its_own),
			runs_test(test_entries),
			runs_test(test_others),
	};

	return cmocka_run_group_tests_name("runs", tests, NULL, NULL);
}
