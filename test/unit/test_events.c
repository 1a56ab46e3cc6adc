/*-------------------------------------------------------------------------
 *
 * test_events.c
 *		Tests of the ring of events: writers and readers that stop anywhere
 *		must neither hinder nor mislead the others.
 *
 * The memory is our own.
 *
 * test/unit/test_events.c
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

#include "mb/pg_wchar.h"

#include "settings.h"
#include "shmem/events.h"
#include "shmem/ring.h"

/* Other processes may run before any access to shared memory. */
static __thread int steps_left = -1;
static void (*interruption) (void);

/* Called by ring.c and events.c; see test_events.h. */
void
about_to_access(void)
{
	if (steps_left >= 0 && steps_left-- == 0)
		interruption();
}

/* ---- stubs of the server ---- */

int			le_max_events;
int			MyProcPid = 42;

static void *memory;
static pg_atomic_uint64 begun;	/* events: writes */

static TimestampTz clock_now = 7;

TimestampTz
GetCurrentTimestamp(void)
{
	return clock_now;
}

const char *
timestamptz_to_str(TimestampTz at)
{
	return "then";
}

const char *
le_my_name(void)
{
	return "here";
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

/* As the server's, for UTF-8. */
int
pg_encoding_mbcliplen(int encoding, const char *s, int len, int limit)
{
	int			n = Min(len, limit);

	while (n > 0 && n < len && ((unsigned char) s[n] & 0xc0) == 0x80)
		n--;
	return n;
}

/* ---- tools ---- */

static void
make_ring(int nentries)
{
	le_max_events = nentries;
	free(memory);
	memory = malloc(le_events_size());
	memset(memory, 0xa5, le_events_size());
	le_events_init(false, memory);
	pg_atomic_init_u64(&begun, 0);
	steps_left = -1;
}

static int
drop_ring(void **state)
{
	free(memory);
	memory = NULL;
	le_events_init(true, NULL);
	return 0;
}

/* Type of an event in the ring of terms. */
static uint64
newest(void)
{
	return le_events_newest(LE_RING_TERMS);
}

static bool
copy_event(uint64 entry, LeEvent *copy)
{
	return le_copy_event(LE_RING_TERMS, entry, copy);
}

/* Each part of such an event tells its token. */
static void
write_event(uint64 token)
{
	char		election[32];

	snprintf(election, sizeof(election), "e" UINT64_FORMAT, token);
	pg_atomic_fetch_add_u64(&begun, 1);
	le_event(LE_EVENT_ACQUIRED, election, token, "token " UINT64_FORMAT,
			 token);
}

static bool
is_whole(const LeEvent *r)
{
	char		election[32];
	char		detail[32];

	snprintf(election, sizeof(election), "e" UINT64_FORMAT, r->token);
	snprintf(detail, sizeof(detail), "token " UINT64_FORMAT, r->token);
	return strcmp(r->election, election) == 0 &&
		strcmp(r->detail, detail) == 0 && strcmp(r->node, "here") == 0;
}

/* The token of the event of that number; 0: cannot be read. */
static uint64
token_of(uint64 number)
{
	LeEvent	r;

	if (!copy_event(number, &r))
		return 0;
	/* when two draw at once the second may get the first entry */
	assert_in_range(r.number, 1,
					pg_atomic_read_u64(&begun));
	assert_true(is_whole(&r));
	return r.token;
}

/* ---- tests ---- */

static void
test_record(void **state)
{
	LeEvent	r;

	make_ring(4);
	assert_int_equal(newest(), 0);
	assert_false(copy_event(1, &r));
	le_event(LE_EVENT_STORE_UP, NULL, 0, NULL);
	le_event_of("there", LE_EVENT_SEEN, "billing", 9, "%d%%", 5);
	assert_int_equal(newest(), 2);

	assert_true(copy_event(1, &r));
	assert_int_equal(r.number, 1);
	assert_int_equal(r.at, 7);
	assert_int_equal(r.pid, 42);
	assert_int_equal(r.what, LE_EVENT_STORE_UP);
	assert_int_equal(r.token, 0);
	assert_string_equal(r.election, "");
	assert_string_equal(r.node, "here");
	assert_string_equal(r.detail, "");

	assert_true(copy_event(2, &r));
	assert_string_equal(r.node, "there");
	assert_string_equal(r.election, "billing");
	assert_string_equal(r.detail, "5%");
	assert_int_equal(r.token, 9);
	assert_false(copy_event(3, &r));
}

/* Longer ones are cut, at the end of a character. */
static void
test_long_detail(void **state)
{
	char		text[600];
	LeEvent	r;

	make_ring(4);
	for (int before = 0; before < 3; before++)
	{
		int			len;

		memset(text, 'x', before);
		for (len = before; len < 597; len += 3)
			memcpy(text + len, "\xe2\x82\xac", 3);
		text[len] = '\0';
		le_event(LE_EVENT_LOST, "e", 1, "%s", text);
		assert_true(copy_event(newest(), &r));
		assert_int_equal(strlen(r.detail),
						 before + (LE_MAX_EVENT_DETAIL - before) / 3 * 3);
		assert_memory_equal(r.detail, text, strlen(r.detail));
	}
}

static void
test_names(void **state)
{
	for (int i = 0; i < LE_NEVENTKINDS; i++)
	{
		assert_non_null(le_event_name(i));
		for (int k = 0; k < i; k++)
			assert_string_not_equal(le_event_name(i), le_event_name(k));
	}
}

/* The kinds that are there, in their order. */
static int
read_all(LeEvent *list, int size)
{
	LeEventReader reader;
	int			n = 0;

	le_begin_events(&reader);
	while (n < size && le_next_event(&reader, &list[n]))
	{
		if (n > 0)
			assert_true(list[n].number > list[n - 1].number);
		n++;
	}
	return n;
}

/* For any number of runs, terms stay in the history. */
static void
test_rings(void **state)
{
	LeEvent		list[20];

	make_ring(4);
	le_event(LE_EVENT_ACQUIRED, "e", 5, NULL);
	le_event(LE_EVENT_JOB_MISSED, "e", 5, "job j, tick");
	for (int i = 0; i < 100; i++)
	{
		le_event(LE_EVENT_RUN_STARTED, "e", 5, NULL);
		le_event(LE_EVENT_RUN_DONE, "e", 5, NULL);
	}
	le_event(LE_EVENT_LOST, "e", 5, NULL);
	assert_int_equal(read_all(list, 20), 7);
	assert_int_equal(list[0].what, LE_EVENT_ACQUIRED);
	assert_int_equal(list[1].what, LE_EVENT_JOB_MISSED);
	for (int i = 2; i < 6; i++)
		assert_int_equal(list[i].what,
						 i % 2 ? LE_EVENT_RUN_DONE : LE_EVENT_RUN_STARTED);
	assert_int_equal(list[6].what, LE_EVENT_LOST);
	assert_int_equal(list[6].number, 203);
}

/* A store that flaps makes one pair of events. */
static void
test_repeats(void **state)
{
	LeEvent		list[20];

	make_ring(8);
	clock_now = 7;
	le_event(LE_EVENT_ACQUIRED, "e", 5, NULL);
	for (int i = 1; i <= 13; i++)
	{
		clock_now += 1000000;
		le_event(LE_EVENT_STORE_DOWN, NULL, 0, "could not read %d", i);
		/* no event says "back" while it is away */
		assert_int_equal(read_all(list, 20), 2);
		assert_int_equal(list[1].what, LE_EVENT_STORE_DOWN);
		le_event(LE_EVENT_STORE_UP, NULL, 0, NULL);
		assert_int_equal(read_all(list, 20), 3);
	}
	assert_string_equal(list[1].detail, "13 times since then: could not read 13");
	assert_int_equal(list[1].at, clock_now);
	assert_int_equal(list[2].what, LE_EVENT_STORE_UP);
	assert_string_equal(list[2].detail, "13 times since then");

	/* another kind, an event between, or a long time: a new pair */
	le_event(LE_EVENT_STORE_REFUSED, NULL, 0, "no");
	le_event(LE_EVENT_STORE_UP, NULL, 0, NULL);
	assert_int_equal(read_all(list, 20), 5);
	le_event(LE_EVENT_LOST, "e", 5, NULL);
	le_event(LE_EVENT_STORE_REFUSED, NULL, 0, "no");
	le_event(LE_EVENT_STORE_UP, NULL, 0, NULL);
	assert_int_equal(read_all(list, 20), 8);
	clock_now += 2 * LE_REPEATED_WITHIN;
	le_event(LE_EVENT_STORE_REFUSED, NULL, 0, "no");
	assert_int_equal(read_all(list, 20), 8);	/* one was pushed out */
	assert_string_equal(list[7].detail, "no");
	clock_now = 7;
}

/* Without preloading there is no ring, and nothing to do. */
static void
test_no_ring(void **state)
{
	le_events_init(true, NULL);
	write_event(1);
}

static void
test_wrap(void **state)
{
	make_ring(3);
	for (uint64 n = 1; n <= 20; n++)
	{
		write_event(100 + n);
		assert_int_equal(newest(), n);
		for (uint64 k = 1; k <= n + 3; k++)
			assert_int_equal(token_of(k),
							 k <= n && k + 3 > n ? 100 + k : 0);
	}
}

/*
 * A writer stops before each of its steps in turn, and others write "many"
 * events meanwhile.  All of theirs are there at once, except in its own entry;
 * afterwards its own is there, unless the ring has passed it.
 */
static int	many;

static void
others_write(void)
{
	int			missing = 0;

	for (int i = 0; i < many; i++)
	{
		write_event(200 + i);
		missing += token_of(newest()) != 200 + i;
	}
	assert_in_range(missing, 0, (many + 3) / 4);
}

static void
test_stopped_writer(void **state)
{
	interruption = others_write;
	for (many = 1; many < 14; many++)
	{
		int			step;

		for (step = 0;; step++)
		{
			LeEvent	r;
			int			own = 0;
			int			all = 0;

			make_ring(4);
			write_event(1);
			steps_left = step;
			write_event(50);
			if (steps_left >= 0)
				break;			/* it has not that many steps */
			assert_int_equal(newest(), many + 2);
			for (int n = many + 2; n > 0 && n > many - 2; n--)
			{
				if (!copy_event(n, &r))
					continue;
				assert_true(is_whole(&r));
				all++;
				own += r.token == 50;
			}
			assert_in_range(all, Min(many + 2, 4) - 1, 4);
			if (many < 3)
				assert_int_equal(own, 1);
			/* passed before it was in its entry, it must stay out */
			if (many >= 4 && step < 4)
				assert_int_equal(all, 4);
			/* the next time round the entry is in use again */
			for (int i = 0; i < 4; i++)
				write_event(300 + i);
			for (int i = 0; i < 4; i++)
				assert_int_equal(token_of(newest() - i), 303 - i);
		}
		assert_int_equal(step, 5);
	}
}

/* A reader that stops before each of its steps is not misled. */
static void
test_stopped_reader(void **state)
{
	interruption = others_write;
	for (many = 1; many < 14; many++)
	{
		int			step;

		for (step = 0;; step++)
		{
			uint64		token;

			make_ring(4);
			for (int i = 1; i <= 4; i++)
				write_event(i);
			steps_left = step;
			token = token_of(2);
			assert_true(token == 2 || token == 0);
			if (many < 2)
				assert_int_equal(token, 2);
			if (steps_left >= 0)
				break;
		}
		assert_int_equal(step, 2);
	}
}

/* A writer that stops for good takes one entry and no more. */
static jmp_buf never;

static void
stay_away(void)
{
	longjmp(never, 1);
}

static void
test_writer_gone(void **state)
{
	volatile int missing = 0;

	make_ring(4);
	interruption = stay_away;
	steps_left = 4;				/* entry, number, version, swap; the end */
	if (setjmp(never) == 0)
		write_event(50);
	steps_left = -1;
	assert_int_equal(newest(), 1);
	assert_int_equal(token_of(1), 0);
	for (int i = 0; i < 40; i++)
	{
		write_event(100 + i);
		missing += token_of(newest()) == 0;
	}
	assert_int_equal(missing, 10);
}

/*
 * With real threads: readers get whole records, beside any writers.  Valgrind
 * runs one thread at a time, so on a busy machine a reader may long find only
 * unfinished records.
 */
static volatile bool stop;

static void *
write_many(void *arg)
{
	uint64		base = *(int *) arg * UINT64CONST(1000000000);

	for (uint64 n = 1; !stop; n++)
	{
		write_event(base + n);
		if (n % 64 == 0)
			sched_yield();
	}
	return NULL;
}

static void
test_under_load(void **state)
{
	static int	who[] = {1, 2, 3};
	pthread_t	writers[lengthof(who)];
	struct timespec ts;
	time_t		until;
	uint64		seen = 0;
	uint64		torn = 0;

	make_ring(2);
	stop = false;
	for (int i = 0; i < lengthof(who); i++)
		assert_int_equal(pthread_create(&writers[i], NULL, write_many,
										&who[i]), 0);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	until = ts.tv_sec + 3;
	do
	{
		for (int i = 0; i < 1000; i++)
		{
			LeEvent	r;

			if (!copy_event(Max(newest(), 2) - i % 2, &r))
				continue;
			seen++;
			torn += !is_whole(&r);
		}
		clock_gettime(CLOCK_MONOTONIC, &ts);
	} while (ts.tv_sec < until || (seen == 0 && ts.tv_sec < until + 60));
	stop = true;
	for (int i = 0; i < lengthof(who); i++)
		pthread_join(writers[i], NULL);
	assert_int_equal(torn, 0);
	assert_true(seen > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_record, drop_ring),
		cmocka_unit_test_teardown(test_long_detail, drop_ring),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_no_ring),
		cmocka_unit_test_teardown(test_rings, drop_ring),
		cmocka_unit_test_teardown(test_repeats, drop_ring),
		cmocka_unit_test_teardown(test_wrap, drop_ring),
		cmocka_unit_test_teardown(test_stopped_writer, drop_ring),
		cmocka_unit_test_teardown(test_stopped_reader, drop_ring),
		cmocka_unit_test_teardown(test_writer_gone, drop_ring),
		cmocka_unit_test_teardown(test_under_load, drop_ring),
	};

	return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}
