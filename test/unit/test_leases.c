/*-------------------------------------------------------------------------
 *
 * test_leases.c
 *		Tests of the lease table: a reader beside a writer at work.
 *
 * The memory is our own.
 * test/t/030_table.pl does the same in a real server.
 *
 * test/unit/test_leases.c
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
#include <sched.h>
#include <stdlib.h>

#include "shmem/clock.h"
#include "shmem/leases.h"

/* The writer may run between any two reads of a reader. */
static int	reads_left = -1;
static void (*interruption) (void);

/* Called by leases.c; see test_leases.h. */
void
about_to_read(void)
{
	if (reads_left >= 0 && reads_left-- == 0)
		interruption();
}

/* ---- stubs of the server ---- */

int			le_max_elections;
int			MyProcPid = 1;

static void *table;

static LeSlot *
find_or_add(const char *election)
{
	bool		added;

	return le_find_or_add_slot(election, &added);
}

static TimestampTz wall = 1;

TimestampTz
GetCurrentTimestamp(void)
{
	return wall;
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

static Oid	role = 10;

Oid
GetSessionUserId(void)
{
	return role;
}

bool
pg_strong_random(void *buf, size_t len)
{
	memset(buf, 0xab, len);
	return true;
}

bool
errstart(int elevel, const char *domain)
{
	abort();
}

bool
errstart_cold(int elevel, const char *domain)
{
	abort();
}

int
errcode(int sqlerrcode)
{
	abort();
}

int
errmsg(const char *format,...)
{
	abort();
}

void
errfinish(const char *file, int line, const char *function)
{
	abort();
}

/* ---- tools ---- */

static void
make_table(int nslots)
{
	static uint64 layout = 0;

	le_max_elections = nslots;
	free(table);
	table = calloc(1, le_leases_size());
	le_leases_init(false, table);
	/* a reader's memory of an earlier table must not fit this one */
	pg_atomic_write_u64(&le_table->layout, layout += 1000000000);
}

static int
drop_table(void **state)
{
	free(table);
	table = NULL;
	return 0;
}

static void
begin_term(LeSlot *slot, LeOwner owner, uint64 token, le_time deadline)
{
	le_begin_change(slot);
	slot->election.state = LE_HELD;
	pg_atomic_write_u64(&slot->term.owner, owner);
	pg_atomic_write_u64(&slot->term.token, token);
	pg_atomic_write_u64(&slot->term.deadline, deadline);
	le_end_change(slot);
}

static void
end_term(LeSlot *slot)
{
	le_begin_change(slot);
	slot->election.state = LE_IDLE;
	pg_atomic_write_u64(&slot->term.deadline, 0);
	pg_atomic_write_u64(&slot->term.owner, LE_OWNER_NONE);
	pg_atomic_write_u64(&slot->term.token, 0);
	le_end_change(slot);
}

static bool
has_term(const char *election)
{
	LeTerm		term;

	return le_read_term(election, &term);
}

/* ---- tests ---- */

static void
test_term(void **state)
{
	LeSlot	   *slot;
	LeTerm		term;

	make_table(4);
	assert_false(has_term("a"));
	slot = find_or_add("a");
	assert_ptr_equal(slot, find_or_add("a"));
	assert_false(has_term("a"));
	begin_term(slot, LE_OWNER_NODE, 5, 100);
	assert_true(le_read_term("a", &term));
	assert_int_equal(term.owner, LE_OWNER_NODE);
	assert_int_equal(term.token, 5);
	assert_int_equal(term.deadline, 100);
	assert_false(has_term("A"));
	assert_false(has_term("a/"));
	assert_false(has_term(""));
	assert_true(has_term("a"));
	end_term(slot);
	assert_false(has_term("a"));
}

/* A worker that died in a change leaves no term to believe in. */
static void
test_torn(void **state)
{
	LeSlot	   *slot;
	LeSlot		copy;

	make_table(4);
	slot = find_or_add("a");
	begin_term(slot, LE_OWNER_NODE, 5, 100);
	le_begin_change(slot);
	assert_false(has_term("a"));
	assert_false(le_copy_slot(0, &copy));
	le_end_change(slot);
	assert_true(has_term("a"));
	assert_true(le_copy_slot(0, &copy));

	/* a death in a change of fields for people only takes no term away */
	le_begin_note(slot);
	assert_true(has_term("a"));
	assert_false(le_copy_slot(0, &copy));

	/* after any death, its successor's brackets are the right way round */
	le_begin_change(slot);
	le_begin_change(slot);
	assert_false(has_term("a"));
	le_end_change(slot);
	assert_true(has_term("a"));
	assert_true(le_copy_slot(0, &copy));
}

/* The mark of an old term must not bring a later one back. */
static void
test_given_up(void **state)
{
	LeSlot	   *slot;

	make_table(4);
	le_give_up_term("a", 5);
	slot = find_or_add("a");
	begin_term(slot, 7, 5, 100);
	le_give_up_term("a", 4);
	assert_true(has_term("a"));
	le_give_up_term("a", 5);
	assert_false(has_term("a"));
	begin_term(slot, 7, 9, 100);
	assert_true(has_term("a"));
	le_give_up_term("a", 9);
	le_give_up_term("a", 5);
	assert_false(has_term("a"));
}

/* Slots in use keep their names. */
static void
test_reuse(void **state)
{
	LeSlot	   *a,
			   *b,
			   *c;
	uint32		request;

	make_table(2);
	a = find_or_add("a");
	b = find_or_add("b");
	begin_term(a, LE_OWNER_NODE, 5, 100);
	b->asked = 1;
	assert_null(find_or_add("c"));
	b->asked = 0;
	b->campaign = true;
	assert_null(find_or_add("c"));
	b->campaign = false;
	b->configured = true;
	assert_null(find_or_add("c"));
	b->configured = false;
	b->election.wanted = true;
	assert_null(find_or_add("c"));
	b->election.wanted = false;
	b->hold_off_until = le_now() + 3600 * LE_SEC;
	assert_null(find_or_add("c"));
	assert_true(has_term("a"));

	/* an answer that is still to come for b must not be taken for c's */
	b->hold_off_until = 0;
	b->election.request = 7;
	pg_atomic_write_u64(&b->term.given_up, 6);
	assert_false(has_term("b"));
	c = find_or_add("c");
	assert_ptr_equal(c, b);
	request = c->election.request;
	assert_true(request > 7);
	assert_null(le_find_slot("b"));
	begin_term(c, LE_OWNER_NODE, 6, 100);
	assert_true(has_term("c"));
	assert_false(has_term("b"));
	assert_true(has_term("a"));
}

/* Many names in long chains, added, found and replaced. */
static void
test_chains(void **state)
{
	enum
	{
		SLOTS = 100,
		NAMES = 1000
	};
	char		name[32];
	LeTerm		term;

	make_table(SLOTS);
	for (int i = 0; i < NAMES; i++)
	{
		LeSlot	   *slot;

		snprintf(name, sizeof(name), "name/%d", i);
		slot = find_or_add(name);
		assert_non_null(slot);
		begin_term(slot, LE_OWNER_NODE, i + 1, 100);
		assert_true(le_read_term(name, &term));
		assert_int_equal(term.token, i + 1);
		if (i >= SLOTS / 2)
		{
			snprintf(name, sizeof(name), "name/%d", i - SLOTS / 2);
			end_term(le_find_slot(name));
		}
	}
	for (int i = 0; i < NAMES; i++)
	{
		snprintf(name, sizeof(name), "name/%d", i);
		assert_int_equal(le_read_term(name, &term), i >= NAMES - SLOTS / 2);
	}
}

/* ---- a writer between a reader's steps ---- */

static void
end_it(void)
{
	end_term(le_slot(0));
}

static void
end_and_begin(void)
{
	end_term(le_slot(0));
	begin_term(le_slot(0), 8, 9, 200);
}

static void
give_to_other_name(void)
{
	end_term(le_slot(0));
	begin_term(find_or_add("b"), 8, 9, 200);
}

static void
die_in_change(void)
{
	le_begin_change(le_slot(0));
	pg_atomic_write_u64(&le_slot(0)->term.deadline, 200);
	pg_atomic_write_u64(&le_slot(0)->term.owner, 8);
}

static void
note_value(void)
{
	le_begin_note(le_slot(0));
	strlcpy(le_slot(0)->value, "x", sizeof(le_slot(0)->value));
}

/*
 * At any step, the reader finds the term from before or, if there is one, from
 * after the change, or none where that is allowed.
 */
static void
interrupt_everywhere(void (*action) (void), bool may_miss, bool second_term)
{
	for (int known = 0; known <= 1; known++)
	{
		bool		done = false;

		for (int k = 0; !done; k++)
		{
			LeTerm		term;
			bool		found;

			make_table(1);
			begin_term(find_or_add("a"), LE_OWNER_NODE, 5, 100);
			if (known)
				assert_true(has_term("a"));
			interruption = action;
			reads_left = k;
			found = le_read_term("a", &term);
			done = reads_left >= 0;
			reads_left = -1;
			if (!found)
				assert_true(may_miss);
			else if (term.token == 5)
				assert_true(term.owner == LE_OWNER_NODE &&
							term.deadline == 100);
			else
				assert_true(second_term && term.token == 9 &&
							term.owner == 8 && term.deadline == 200);
		}
	}
}

static void
test_interrupted(void **state)
{
	interrupt_everywhere(end_it, true, false);
	interrupt_everywhere(end_and_begin, false, true);
	interrupt_everywhere(give_to_other_name, true, false);
	interrupt_everywhere(die_in_change, true, false);
	interrupt_everywhere(note_value, false, false);
}

/* ---- a reader against a writer ---- */

static volatile bool stop;

/* Owner, token and deadline belong together: each term is n, n + 1, n + 2. */
static void *
write_terms(void *arg)
{
	LeSlot	   *slot = le_find_slot("a");

	for (uint64 n = 2; !stop; n++)
	{
		begin_term(slot, n, n + 1, n + 2);
		if (n % 4 == 0)
			end_term(slot);
		if (n % 256 == 0)
			sched_yield();		/* or valgrind runs this thread only */
	}
	return NULL;
}

static void
test_reader_of_terms(void **state)
{
	pthread_t	writer;
	le_time		until;
	LeTerm		term;
	uint64		last = 0;
	uint64		seen = 0;
	uint64		mixed = 0;
	uint64		went_back = 0;

	make_table(4);
	(void) find_or_add("a");
	stop = false;
	assert_int_equal(pthread_create(&writer, NULL, write_terms, NULL), 0);
	for (until = le_now() + LE_SEC; le_now() < until;)
	{
		if (!le_read_term("a", &term))
			continue;
		seen++;
		if (term.token != term.owner + 1 || term.deadline != term.owner + 2)
			mixed++;
		if (term.token < last)
			went_back++;
		last = term.token;
	}
	stop = true;
	pthread_join(writer, NULL);
	assert_int_equal(mixed, 0);
	assert_int_equal(went_back, 0);
}

/*
 * One slot, two names in turn, the token tells which; and one name that is
 * held for the whole time, at the end of the same chains.
 */
static void *
write_names(void *arg)
{
	static const char *const names[] = {"even", "odd"};

	for (uint64 n = 2; !stop; n++)
	{
		LeSlot	   *slot = find_or_add(names[n % 2]);

		begin_term(slot, LE_OWNER_NODE, n, 100);
		end_term(slot);
		if (n % 256 == 0)
			sched_yield();
	}
	return NULL;
}

static void
test_reader_of_names(void **state)
{
	pthread_t	writer;
	le_time		until;
	LeTerm		term;
	uint64		wrong = 0;
	uint64		missed = 0;

	make_table(2);
	le_table->nbuckets = 1;
	begin_term(find_or_add("held"), LE_OWNER_NODE, 1, 100);
	stop = false;
	assert_int_equal(pthread_create(&writer, NULL, write_names, NULL), 0);
	for (until = le_now() + 2 * LE_SEC; le_now() < until;)
	{
		if (le_read_term("even", &term) && term.token % 2 != 0)
			wrong++;
		if (le_read_term("odd", &term) && term.token % 2 != 1)
			wrong++;
		if (!le_read_term("held", &term) || term.token != 1)
			missed++;
	}
	stop = true;
	pthread_join(writer, NULL);
	assert_int_equal(wrong, 0);
	assert_int_equal(missed, 0);
}

/*
 * One acquire served several calls.  In any order of their answers: the term
 * stays if one call took it, and ends with the last if none did.
 */
static void
test_grants(void **state)
{
	static const char *const orders[] = {
		"gk.", "g.k", "gd.!", "g.d!", ".!", "gx.!", "gxgd.!", "gggdd.d!",
		"ggkd.d", "ggd.kd", "gggd.dk", "gg.dkd", "gxgk.",
	};

	for (int i = 0; i < lengthof(orders); i++)
	{
		LeSlot	   *slot;
		bool		ends = strchr(orders[i], '!') != NULL;

		make_table(4);
		slot = find_or_add("a");
		begin_term(slot, LE_OWNER_NODE, 5, 100);
		le_begin_grants(slot);
		for (const char *p = orders[i]; *p != '\0'; p++)
		{
			assert_int_equal(le_grants_open(slot),
							 memchr(orders[i], '.', p - orders[i]) == NULL);
			if (*p != '!')
				assert_true(has_term("a"));
			if (*p == 'g')
				le_grant(slot);
			else if (*p == '.')
				le_end_grants(slot);
			else if (*p == 'k')
				le_keep_term("a", 5);
			else if (*p == 'd' || *p == 'x')
				le_decline_term("a", 5);
		}
		assert_int_equal(has_term("a"), !ends);
	}
}

/* A late answer to a call of an earlier term does not concern it. */
static void
test_late_decline(void **state)
{
	LeSlot	   *slot;

	make_table(4);
	slot = find_or_add("a");
	begin_term(slot, LE_OWNER_NODE, 5, 100);
	le_begin_grants(slot);
	le_grant(slot);
	le_end_grants(slot);
	end_term(slot);
	begin_term(slot, LE_OWNER_NODE, 6, 100);
	le_begin_grants(slot);
	le_grant(slot);
	le_end_grants(slot);
	le_decline_term("a", 5);
	assert_true(has_term("a"));
	le_keep_term("a", 5);
	le_decline_term("b", 6);
	le_decline_term("a", 6);
	assert_false(has_term("a"));
}

/* An election's error stays until the refused operation succeeds. */
static void
test_errors(void **state)
{
	static const struct
	{
		LeOpKind	failed;
		LeOutcome	outcome;
		LeOpKind	went_well;
		bool		over;
	}			cases[] = {
		{LE_OP_READ, LE_UNAVAILABLE, LE_OP_ACQUIRE, true},
		{LE_OP_ACQUIRE, LE_UNKNOWN, LE_OP_READ, true},
		{LE_OP_ACQUIRE, LE_REFUSED, LE_OP_READ, false},
		{LE_OP_ACQUIRE, LE_REFUSED, LE_OP_RELEASE, true},
		{LE_OP_TAKE_OVER, LE_REFUSED, LE_OP_ACQUIRE, true},
		{LE_OP_READ, LE_REFUSED, LE_OP_ACQUIRE, false},
		{LE_OP_READ, LE_REFUSED, LE_OP_READ, true},
	};
	LeSlot	   *slot;

	make_table(4);
	slot = find_or_add("a");
	for (int i = 0; i < lengthof(cases); i++)
	{
		wall++;
		le_note_error(slot, cases[i].failed, cases[i].outcome,
					  LE_CAUSE_PERMISSION, NULL);
		assert_string_equal(slot->error.text,
							le_outcome_name(cases[i].outcome));
		assert_int_equal(slot->error.at, wall);
		assert_int_equal(slot->error.refused, cases[i].outcome == LE_REFUSED);
		le_note_error(slot, cases[i].went_well, LE_CONFLICT,
					  LE_CAUSE_OTHER, "who cares");
		assert_int_equal(slot->error.at, cases[i].over ? 0 : wall);
		assert_int_equal(slot->error.text[0] == '\0', cases[i].over);
		assert_int_equal(slot->error.refused, !cases[i].over);
		assert_int_equal(slot->error.cause, cases[i].over ?
						 LE_CAUSE_OTHER : LE_CAUSE_PERMISSION);
	}
}

static bool
is_noted(const char *election)
{
	char		name[LE_MAX_ELECTION_LEN + 1];

	for (int i = 0; i < LE_MAX_MISSING; i++)
		if (le_copy_missing(i, name) != 0 && strcmp(name, election) == 0)
			return true;
	return false;
}

/* Names that checks asked for in vain: the last few, each once. */
static void
test_missing(void **state)
{
	char		name[8];

	make_table(4);
	find_or_add("a");
	assert_false(has_term("a"));
	assert_false(is_noted("a"));
	assert_int_equal(le_find_term("b"), -1);
	assert_false(is_noted("b"));	/* that was no check */
	for (int i = 0; i < 3; i++)
	{
		assert_false(has_term("b"));
		assert_false(has_term("a"));
	}
	assert_true(is_noted("b"));
	assert_int_equal(pg_atomic_read_u64(&le_table->nmissing), 1);
	for (int i = 1; i < LE_MAX_MISSING; i++)
	{
		role++;
		snprintf(name, sizeof(name), "c%d", i);
		assert_false(has_term(name));
	}
	assert_true(is_noted("b") && is_noted("c1"));
	role++;
	assert_false(has_term("d"));
	assert_true(!is_noted("b") && is_noted("c1") && is_noted("d"));

	/* a writer that stopped in the middle holds up no reader */
	for (int i = 0; i < LE_MAX_MISSING; i++)
		pg_atomic_fetch_add_u64(&le_table->missing[i].version, 1);
	assert_false(has_term("e"));
	assert_true(!is_noted("e") && !is_noted("d"));
}

/* However many names one role makes up, those of others stay. */
static void
test_missing_of_roles(void **state)
{
	char		name[8];
	int			noted = 0;

	make_table(4);
	role = 10;
	assert_false(has_term("mine"));
	role = 20;
	for (int i = 0; i < 100; i++)
	{
		snprintf(name, sizeof(name), "e%d", i);
		assert_false(has_term(name));
		if (i == 50)
			assert_false(has_term("mine"));	/* which makes it nobody else's */
	}
	for (int i = 0; i < 100; i++)
	{
		snprintf(name, sizeof(name), "e%d", i);
		noted += is_noted(name);
	}
	assert_int_equal(noted, LE_MAX_MISSING_OF_ROLE);
	assert_true(is_noted("e99") && is_noted("e96"));	/* the last ones */
	assert_true(is_noted("mine"));

	/* others use the rest */
	for (int i = 0; i < LE_MAX_MISSING - LE_MAX_MISSING_OF_ROLE - 1; i++)
	{
		role++;
		snprintf(name, sizeof(name), "c%d", i);
		assert_false(has_term(name));
	}
	assert_true(is_noted("e99") && is_noted("mine") && is_noted("c0"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_term, drop_table),
		cmocka_unit_test_teardown(test_torn, drop_table),
		cmocka_unit_test_teardown(test_given_up, drop_table),
		cmocka_unit_test_teardown(test_grants, drop_table),
		cmocka_unit_test_teardown(test_late_decline, drop_table),
		cmocka_unit_test_teardown(test_errors, drop_table),
		cmocka_unit_test_teardown(test_missing, drop_table),
		cmocka_unit_test_teardown(test_missing_of_roles, drop_table),
		cmocka_unit_test_teardown(test_reuse, drop_table),
		cmocka_unit_test_teardown(test_chains, drop_table),
		cmocka_unit_test_teardown(test_interrupted, drop_table),
		cmocka_unit_test_teardown(test_reader_of_terms, drop_table),
		cmocka_unit_test_teardown(test_reader_of_names, drop_table),
	};

	return cmocka_run_group_tests_name("leases", tests, NULL, NULL);
}
