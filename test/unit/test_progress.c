/*-------------------------------------------------------------------------
 *
 * test_progress.c
 *		Tests of shmem/progress.c: until when a term lasts without progress.
 *
 * The memory is our own.
 *
 * test/unit/test_progress.c
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

/* ---- stubs of the server ---- */

#define NSLOTS	2

int			le_max_elections = NSLOTS;
int			le_progress_within;

static LeSlot slots[NSLOTS];
static le_time now = 2000 * LE_SEC;

le_time
le_now(void)
{
	return now;
}

Size
mul_size(Size a, Size b)
{
	return a * b;
}

LeSlot *
le_slot(int number)
{
	return &slots[number];
}

LeOwner
le_owner_of(const LeSlot *slot)
{
	return pg_atomic_read_u64(&((LeSlot *) slot)->term.owner);
}

/* ---- a term ---- */

#define BEGIN	(1000 * LE_SEC)

static int
start(void **state)
{
	void	   *where = malloc(le_progress_size());

	le_progress_init(false, where);
	memset(slots, 0, sizeof(slots));
	for (int i = 0; i < NSLOTS; i++)
	{
		pg_atomic_init_u64(&slots[i].term.owner, LE_OWNER_NODE);
		pg_atomic_init_u64(&slots[i].term.token, 7);
	}
	le_progress_within = 10;
	le_progress_begin(1, BEGIN);
	*state = where;
	return 0;
}

static int
stop(void **state)
{
	free(*state);
	return 0;
}

static void
term_begins_with_progress(void **state)
{
	(void) state;
	assert_int_equal(le_progress_due(1), BEGIN + 10 * LE_SEC);
	assert_false(le_made_progress(1));
	le_progress_within = 0;
	assert_int_equal(le_progress_due(1), 0);
}

static void
only_what_is_newer_counts(void **state)
{
	(void) state;
	/* by a process that was stopped since an earlier term */
	le_note_progress(1, BEGIN - 1);
	assert_int_equal(le_progress_due(1), BEGIN + 10 * LE_SEC);
	assert_false(le_made_progress(1));
	le_note_progress(1, BEGIN + 3);
	assert_int_equal(le_progress_due(1), BEGIN + 3 + 10 * LE_SEC);
	assert_true(le_made_progress(1));
	le_note_progress(1, BEGIN + 2);
	assert_int_equal(le_progress_due(1), BEGIN + 3 + 10 * LE_SEC);
	le_note_progress(-1, BEGIN + 4);	/* no such election */
	assert_int_equal(pg_atomic_read_u64(&le_progress_of(0)->at), 0);
}

static void
limit_that_changes_begins_anew(void **state)
{
	(void) state;
	le_progress_within = 5;
	assert_int_equal(le_progress_due(1), now + 5 * LE_SEC);
	now += LE_SEC;				/* it is the same now */
	assert_int_equal(le_progress_due(1), now + 4 * LE_SEC);
	le_note_progress(1, now + 1);
	assert_int_equal(le_progress_due(1), now + 1 + 5 * LE_SEC);
	le_progress_within = 0;
	assert_int_equal(le_progress_due(1), 0);
}

static void
nothing_is_due_without_a_term_that_stays(void **state)
{
	(void) state;
	slots[1].election.drain_until = BEGIN + LE_SEC;
	assert_int_equal(le_progress_due(1), 0);
	slots[1].election.drain_until = 0;
	pg_atomic_write_u64(&slots[1].term.token, 0);
	assert_int_equal(le_progress_due(1), 0);
}

static void
setting_is_for_terms_of_the_node(void **state)
{
	(void) state;
	pg_atomic_write_u64(&slots[1].term.owner, 5);	/* a session's */
	assert_int_equal(le_progress_limit(1), 0);
	le_progress_of(1)->candidate_within = 3 * LE_SEC;
	le_progress_begin(1, BEGIN);
	assert_int_equal(le_progress_limit(1), 3 * LE_SEC);
	pg_atomic_write_u64(&slots[1].term.owner, LE_OWNER_NODE);
	assert_int_equal(le_progress_limit(1), 3 * LE_SEC);
	le_progress_of(1)->within = LE_WITHIN_ANY;
	assert_int_equal(le_progress_limit(1), 0);
}

static void
strictest_counts(void **state)
{
	(void) state;
	le_progress_shorten(1, LE_WITHIN_SETTING);
	le_progress_shorten(1, LE_WITHIN_ANY);
	le_progress_shorten(1, 11 * LE_SEC);
	assert_int_equal(le_progress_limit(1), 10 * LE_SEC);
	le_progress_shorten(1, 9 * LE_SEC);
	assert_int_equal(le_progress_limit(1), 9 * LE_SEC);
	le_progress_within = 0;
	le_progress_begin(1, BEGIN);
	le_progress_shorten(1, 3600 * LE_SEC);
	assert_int_equal(le_progress_limit(1), 3600 * LE_SEC);
}

static void
end_without_progress(le_duration expected)
{
	le_progress_of(1)->useless = le_progress_limit(1);
	le_progress_end(1);
	assert_int_equal(le_progress_of(1)->idled, expected);
}

static void
hold_off_doubles_until_there_is_progress(void **state)
{
	LeProgress *p = le_progress_of(1);

	(void) state;
	end_without_progress(10 * LE_SEC);
	le_progress_begin(1, BEGIN + 20 * LE_SEC);
	assert_int_equal(p->useless, 0);
	end_without_progress(20 * LE_SEC);

	/* a term with another end says nothing of it, unless there was progress */
	le_progress_begin(1, BEGIN + 50 * LE_SEC);
	le_progress_end(1);
	assert_int_equal(p->idled, 20 * LE_SEC);
	le_progress_begin(1, BEGIN + 60 * LE_SEC);
	end_without_progress(40 * LE_SEC);
	le_progress_begin(1, BEGIN + 110 * LE_SEC);
	le_note_progress(1, BEGIN + 111 * LE_SEC);
	le_progress_end(1);
	assert_int_equal(p->idled, 0);

	/* also progress that came while the term was waited for */
	le_progress_begin(1, BEGIN + 120 * LE_SEC);
	end_without_progress(10 * LE_SEC);
	le_progress_begin(1, BEGIN + 140 * LE_SEC);
	le_note_progress(1, BEGIN + 151 * LE_SEC);
	end_without_progress(10 * LE_SEC);
}

/* Other nodes led for an hour: they made progress, or this node was away. */
static void
hold_off_begins_anew_after_an_hour(void **state)
{
	LeProgress *p = le_progress_of(1);

	(void) state;
	end_without_progress(10 * LE_SEC);
	p->away_until = BEGIN + 20 * LE_SEC;
	le_progress_begin(1, BEGIN + 20 * LE_SEC + LE_MAX_IDLE - 1);
	end_without_progress(20 * LE_SEC);
	p->away_until = BEGIN + 40 * LE_SEC + LE_MAX_IDLE;
	le_progress_begin(1, BEGIN + 40 * LE_SEC + 2 * LE_MAX_IDLE);
	assert_int_equal(p->idled, 0);
	end_without_progress(10 * LE_SEC);
}

static void
entry_is_anothers(void **state)
{
	LeProgress *p = le_progress_of(1);

	(void) state;
	p->campaign_within = 5 * LE_SEC;
	p->away_until = BEGIN;
	p->idles = true;
	end_without_progress(10 * LE_SEC);
	le_progress_forget(1);
	assert_int_equal(pg_atomic_read_u64(&p->at), 0);
	assert_int_equal(p->campaign_within, LE_WITHIN_SETTING);
	assert_int_equal(p->idled, 0);
	assert_int_equal(p->useless, 0);
	assert_int_equal(p->away_until, 0);
	assert_false(p->idles);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(term_begins_with_progress),
			TEST(only_what_is_newer_counts),
			TEST(limit_that_changes_begins_anew),
			TEST(nothing_is_due_without_a_term_that_stays),
			TEST(setting_is_for_terms_of_the_node),
			TEST(strictest_counts),
			TEST(hold_off_doubles_until_there_is_progress),
			TEST(hold_off_begins_anew_after_an_hour),
			TEST(entry_is_anothers),
	};

	return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
