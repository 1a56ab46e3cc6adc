/*-------------------------------------------------------------------------
 *
 * test_tick.c
 *		Tests of core/tick.c and store/claim_record.c: which tick may be
 *		claimed, which tick it is, and the record of a claim.
 *
 * test/unit/test_tick.c
 *
 *-------------------------------------------------------------------------
 */
#include "store_test.h"

#include "store/claim_record.h"

#define OURS	.exists = true, .ours = true
#define FOUND	.exists = true
#define SEC		INT64_C(1000000)

typedef struct JudgeCase
{
	int			line;
	LeClaimView found;
	bool		catch_up;
	LeClaimVerdict verdict;
	int			try;
	bool		judged;			/* the term, by the store */
} JudgeCase;

/* The plan for tick 100, in the term 50. */
static const JudgeCase judgements[] = {
	{__LINE__, {.exists = false}, false, LE_CLAIM_TAKE, 1},
	{__LINE__, {.exists = false}, true, LE_CLAIM_TAKE, 1},

	/* an older tick, however it ended */
	{__LINE__, {FOUND, false, 99, 3, 40, LE_CLAIM_DONE}, false,
	LE_CLAIM_TAKE, 1},
	{__LINE__, {FOUND, false, 99, 3, 40, LE_CLAIM_FAILED}, true,
	LE_CLAIM_TAKE, 1},
	{__LINE__, {FOUND, false, 99, 3, 40, LE_CLAIM_RUNNING}, false,
	LE_CLAIM_TAKE, 1},
	/* it is caught up first, if a dead term left it */
	{__LINE__, {FOUND, false, 99, 3, 49, LE_CLAIM_RUNNING}, true,
	LE_CLAIM_BEHIND},
	/* or a run of this term that is over */
	{__LINE__, {FOUND, false, 99, 3, 50, LE_CLAIM_RUNNING, true}, true,
	LE_CLAIM_BEHIND},
	{__LINE__, {FOUND, false, 99, 3, 50, LE_CLAIM_RUNNING}, true,
	LE_CLAIM_UNDER_WAY},
	/* without catching up, the claim passes over it */
	{__LINE__, {FOUND, false, 99, 3, 50, LE_CLAIM_RUNNING, true}, false,
	LE_CLAIM_TAKE, 1},
	{__LINE__, {FOUND, false, 99, 3, 50, LE_CLAIM_RUNNING}, false,
	LE_CLAIM_TAKE, 1},
	{__LINE__, {FOUND, false, 99, 3, 50, LE_CLAIM_DONE}, true,
	LE_CLAIM_TAKE, 1},
	{__LINE__, {FOUND, false, 99, 3, 51, LE_CLAIM_RUNNING}, true,
	LE_CLAIM_TAKE, 1},
	/* from a higher token: past, if our term can be judged to hold */
	{__LINE__, {FOUND, false, 99, 3, 51, LE_CLAIM_RUNNING}, true,
	LE_CLAIM_BEHIND, 0, true},
	{__LINE__, {FOUND, false, 99, 3, 51, LE_CLAIM_RUNNING}, false,
	LE_CLAIM_TAKE, 1, true},
	{__LINE__, {FOUND, false, 99, 3, 51, LE_CLAIM_DONE}, true,
	LE_CLAIM_TAKE, 1, true},
	{__LINE__, {FOUND, false, 99, 3, 50, LE_CLAIM_RUNNING}, true,
	LE_CLAIM_UNDER_WAY, 0, true},

	/* this tick */
	{__LINE__, {FOUND, false, 100, 1, 49, LE_CLAIM_RUNNING}, false,
	LE_CLAIM_TAKEN},
	{__LINE__, {FOUND, false, 100, 1, 49, LE_CLAIM_RUNNING}, true,
	LE_CLAIM_TAKE, 2},
	{__LINE__, {FOUND, false, 100, 2, 1, LE_CLAIM_RUNNING}, true,
	LE_CLAIM_TAKE, 3},
	/* twice in one term only if the first run is over */
	{__LINE__, {FOUND, false, 100, 1, 50, LE_CLAIM_RUNNING, true}, true,
	LE_CLAIM_TAKE, 2},
	{__LINE__, {FOUND, false, 100, 1, 50, LE_CLAIM_RUNNING, true}, false,
	LE_CLAIM_TAKEN},
	{__LINE__, {FOUND, false, 100, 1, 51, LE_CLAIM_RUNNING}, true,
	LE_CLAIM_TAKE, 2, true},
	{__LINE__, {FOUND, false, 100, 1, 51, LE_CLAIM_RUNNING}, false,
	LE_CLAIM_TAKEN, 0, true},
	/* else never, nor in one that may be an earlier one than before */
	{__LINE__, {FOUND, false, 100, 1, 50, LE_CLAIM_RUNNING}, true,
	LE_CLAIM_TAKEN},
	{__LINE__, {FOUND, false, 100, 1, 51, LE_CLAIM_RUNNING}, true,
	LE_CLAIM_TAKEN},
	/* a tick that is over stays so */
	{__LINE__, {FOUND, false, 100, 1, 49, LE_CLAIM_DONE}, true,
	LE_CLAIM_TAKEN},
	{__LINE__, {FOUND, false, 100, 1, 49, LE_CLAIM_FAILED}, true,
	LE_CLAIM_TAKEN},

	/* a later tick */
	{__LINE__, {FOUND, false, 101, 1, 49, LE_CLAIM_RUNNING}, true,
	LE_CLAIM_TAKEN},
	{__LINE__, {FOUND, false, 101, 1, 49, LE_CLAIM_DONE}, false,
	LE_CLAIM_TAKEN},

	/* written already, by a request whose answer was lost */
	{__LINE__, {OURS, 100, 2, 50, LE_CLAIM_RUNNING}, true, LE_CLAIM_OURS, 2},
	{__LINE__, {OURS, 100, 1, 50, LE_CLAIM_RUNNING}, false, LE_CLAIM_OURS, 1},
};

static void
test_judge(void **state)
{
	const LeClaimPlan usual = {.tick = 100, .token = 50};

	for (int i = 0; i < lengthof(judgements); i++)
	{
		const JudgeCase *c = &judgements[i];
		LeClaimPlan plan = usual;
		int			try = -1;
		int64		older;
		LeClaimVerdict verdict;

		plan.catch_up = c->catch_up;
		plan.term_is_judged = c->judged;
		verdict = le_judge_claim(&c->found, &plan, &try, &older);
		if (verdict != c->verdict)
			fail_msg("line %d: verdict %d", c->line, verdict);
		if (c->try != 0 && try != c->try)
			fail_msg("line %d: try %d", c->line, try);
		if (verdict == LE_CLAIM_BEHIND)
			assert_int_equal(older, c->found.tick);

		/* the record begins anew, if there is one */
		plan.forget = true;
		verdict = le_judge_claim(&c->found, &plan, &try, &older);
		if (verdict != (!c->found.exists ? LE_CLAIM_TAKEN : c->found.ours ?
						LE_CLAIM_OURS : LE_CLAIM_TAKE))
			fail_msg("line %d: verdict %d on forgetting", c->line, verdict);
		if (verdict == LE_CLAIM_TAKE)
			assert_int_equal(try, 1);
	}
}

#define NEW_COUNT	(UINT64CONST(1) << 32)

/* A record once seen counts where the store has an older one, or none. */
static void
test_lost(void **state)
{
	static const struct
	{
		int			line;
		LeClaimView found;
		LeSeenRecord seen;
		int64		tick;		/* to be claimed */
		LeClaimVerdict verdict;
	}			cases[] = {
		{__LINE__, {.exists = false}, {0, 0}, 100, LE_CLAIM_TAKE},
		{__LINE__, {.exists = false}, {2, 100}, 99, LE_CLAIM_LOST},
		{__LINE__, {.exists = false}, {2, 100}, 100, LE_CLAIM_LOST},
		{__LINE__, {.exists = false}, {2, 100}, 101, LE_CLAIM_TAKE},
		{__LINE__, {FOUND, .tick = 90, .writes = 3}, {5, 100}, 95,
		LE_CLAIM_LOST},
		{__LINE__, {FOUND, .tick = 90, .writes = 3}, {5, 100}, 101,
		LE_CLAIM_TAKE},
		/* its end was lost */
		{__LINE__, {FOUND, .tick = 100, .state = LE_CLAIM_RUNNING,
		.writes = 4}, {5, 100}, 100, LE_CLAIM_LOST},
		{__LINE__, {FOUND, .tick = 100, .state = LE_CLAIM_RUNNING,
		.writes = 5}, {5, 100}, 100, LE_CLAIM_TAKE},
		/* an older claim has ended since, on the store that lost this one */
		{__LINE__, {FOUND, .tick = 90, .state = LE_CLAIM_DONE, .writes = 5},
		{5, 100}, 95, LE_CLAIM_LOST},
		{__LINE__, {FOUND, .tick = 90, .state = LE_CLAIM_DONE, .writes = 5},
		{5, 100}, 101, LE_CLAIM_TAKE},
		/* nothing was seen */
		{__LINE__, {FOUND, .tick = 90, .state = LE_CLAIM_DONE}, {0, 100}, 95,
		LE_CLAIM_TAKE},
		{__LINE__, {FOUND, .tick = 90, .state = LE_CLAIM_DONE, .writes = 6},
		{5, 100}, 100, LE_CLAIM_LOST},
		/* made to begin anew, at an earlier tick */
		{__LINE__, {FOUND, .tick = 90, .state = LE_CLAIM_DONE,
		.writes = NEW_COUNT}, {5, 100}, 95, LE_CLAIM_TAKE},
		{__LINE__, {FOUND, .tick = 70, .state = LE_CLAIM_DONE, .writes = 6},
		{NEW_COUNT, 80}, 75, LE_CLAIM_LOST},
		/* by another client, which counts no writes */
		{__LINE__, {FOUND, .tick = 110, .writes = 0}, {5, 100}, 105,
		LE_CLAIM_TAKEN},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeClaimView found = cases[i].found;
		LeClaimPlan plan = {
			.tick = cases[i].tick, .token = 50, .catch_up = true
		};
		LeClaimVerdict verdict;
		int			try;
		int64		older;

		le_count_seen(&found, &cases[i].seen);
		verdict = le_judge_claim(&found, &plan, &try, &older);
		if (verdict != cases[i].verdict)
			fail_msg("line %d: verdict %d", cases[i].line, verdict);
		plan.forget = true;
		if (verdict == LE_CLAIM_LOST)
			assert_int_equal(le_judge_claim(&found, &plan, &try, &older),
							 LE_CLAIM_TAKE);
	}
}

/* Each time that a job begins anew its record counts from a higher number. */
static void
test_anew(void **state)
{
	uint64		writes = 5;

	for (int i = 1; i <= 3; i++)
	{
		LeSeenRecord before = {.writes = writes + i, .tick = 100};
		LeSeenRecord after = {
			.writes = le_begin_anew(before.writes), .tick = 50
		};

		assert_int_equal(after.writes, i * NEW_COUNT);
		assert_true(le_record_is_later(&after, &before));
		assert_false(le_record_is_later(&before, &after));
		writes = after.writes;
	}
}

/* ---- missed ticks ---- */

#define ORIGIN		1000
#define EVERY		10
#define MOST		8			/* ticks from ORIGIN on */

typedef struct Fate
{
	int			ran[MOST + 1];	/* by tick: its position, from 1 */
	int			missed[MOST + 1];	/* number of reports that it was */
	int			nran;
} Fate;

static int64
nth(int n)
{
	return ORIGIN + (int64) n * EVERY;
}

/* A claim is written in the place of the record, and then done. */
static void
write_claim(LeClaimView *record, const LeClaimPlan *plan, Fate *fate)
{
	LeGap		gap = le_gap_before(record, plan);

	assert_int_equal(le_every_before(record, plan), 0);
	for (int64 i = 0; i < gap.n; i++)
	{
		int64		tick = gap.first + i * EVERY;

		assert_in_range(tick, gap.first, gap.last);
		fate->missed[(tick - ORIGIN) / EVERY]++;
	}
	if (gap.n > 0)
		assert_int_equal(gap.first + (gap.n - 1) * EVERY, gap.last);
	fate->ran[(plan->tick - ORIGIN) / EVERY] = ++fate->nran;
	record->exists = true;
	record->tick = plan->tick;
	record->every = plan->every;
	record->state = LE_CLAIM_DONE;
}

/*
 * All of one call of le_run(): the oldest tick is claimed first, up to the one
 * that is due.
 */
static void
run_all(LeClaimView *record, const LeClaimPlan *due, Fate *fate)
{
	int			try;
	int64		older;
	LeClaimPlan plan;

	for (;;)
	{
		plan = *due;
		if (le_judge_claim(record, &plan, &try, &older) == LE_CLAIM_BEHIND)
		{
			assert_in_range(older, record->tick + 1, due->tick - 1);
			plan.tick = older;
		}
		assert_int_equal(le_judge_claim(record, &plan, &try, &older),
						 LE_CLAIM_TAKE);
		assert_int_equal(try, 1);
		write_claim(record, &plan, fate);
		if (plan.tick == due->tick)
			return;
	}
}

/* Each tick up to the one that is due runs once or is missed once. */
static void
check_fate(const Fate *fate, int last, int due, LeMissed missed, int most)
{
	int			between = due - last - 1;
	int			runs = missed == LE_MISSED_ALL ? Min(between, most) :
		missed == LE_MISSED_LAST ? Min(between, 1) : 0;

	for (int n = 0; n <= MOST; n++)
	{
		bool		runs_now = n > last && n <= due && n >= due - runs;

		assert_int_equal(fate->ran[n], runs_now ? n - (due - runs) + 1 : 0);
		assert_int_equal(fate->missed[n],
						 n > last && n < due && !runs_now);
	}
}

static void
test_missed(void **state)
{
	for (int last = 0; last < MOST; last++)
		for (int due = last + 1; due <= MOST; due++)
			for (int missed = 0; missed < LE_NMISSED; missed++)
				for (int most = 1; most <= MOST; most++)
					for (int ending = 0; ending < LE_CLAIM_NSTATES; ending++)
					{
						/* an unfinished run belongs to an earlier term */
						LeClaimView record = {FOUND, false, nth(last), 1, 49,
						ending, false, EVERY};
						LeClaimPlan plan = {nth(due), 50, .every = EVERY,
						.due = nth(due), .missed = missed, .max_missed = most};
						Fate		fate = {0};

						run_all(&record, &plan, &fate);
						check_fate(&fate, last, due, missed, most);
					}
}

/* A job without claims, or with another interval, has missed nothing. */
static void
test_missed_not_known(void **state)
{
	static const struct
	{
		int			line;
		bool		exists;
		int64		tick;
		int64		every;
		int64		told;		/* another interval than the record's */
	}			cases[] = {
		{__LINE__, false},
		{__LINE__, true, ORIGIN, 0, 0},
		{__LINE__, true, ORIGIN, 2 * EVERY, 2 * EVERY},
		{__LINE__, true, ORIGIN, EVERY / 2, EVERY / 2},
		{__LINE__, true, ORIGIN + 1, 7, 7},
		{__LINE__, true, ORIGIN + 1, EVERY, 0},
	};

	for (int i = 0; i < lengthof(cases); i++)
		for (int missed = 0; missed < LE_NMISSED; missed++)
		{
			LeClaimView record = {cases[i].exists, false, cases[i].tick, 1, 49,
			LE_CLAIM_DONE, false, cases[i].every};
			LeClaimPlan plan = {nth(5), 50, .every = EVERY, .due = nth(5),
			.missed = missed, .max_missed = 100};
			int			try;
			int64		older;
			int64		told;

			if (le_judge_claim(&record, &plan, &try, &older) != LE_CLAIM_TAKE)
				fail_msg("line %d", cases[i].line);
			assert_int_equal(le_gap_before(&record, &plan).n, 0);
			told = le_every_before(&record, &plan);
			if (told != cases[i].told)
				fail_msg("line %d: %d", cases[i].line, (int) told);

			/* a missed one, by the earlier record */
			plan.tick = nth(4);
			if (le_judge_claim(&record, &plan, &try, &older) != LE_CLAIM_TAKEN)
				fail_msg("line %d: outdated", cases[i].line);
		}
}

/*
 * The gap of a claim is reported by the next one, too, unless that claim has
 * ended: nobody knows if it was.
 */
static void
test_missed_and_kept(void **state)
{
	static const struct
	{
		int			line;
		LeClaimState state;		/* of the record, for tick 4 */
		int			kept;		/* ticks that it keeps, from 1 on */
		int			tick;		/* that is claimed */
		int64		every;
		bool		forget;
		int			n;			/* to be reported ... */
		int			first;
		int			last;
	}			cases[] = {
		{__LINE__, LE_CLAIM_RUNNING, 3, 5, EVERY, false, 3, 1, 3},
		{__LINE__, LE_CLAIM_RUNNING, 1, 6, EVERY, false, 2, 1, 5},
		{__LINE__, LE_CLAIM_RUNNING, 2, 8, EVERY, false, 5, 1, 7},
		{__LINE__, LE_CLAIM_RUNNING, 0, 6, EVERY, false, 1, 5, 5},
		{__LINE__, LE_CLAIM_RUNNING, 0, 5, EVERY, false, 0},
		/* another try */
		{__LINE__, LE_CLAIM_RUNNING, 3, 4, EVERY, false, 3, 1, 3},
		/* another interval, or none */
		{__LINE__, LE_CLAIM_RUNNING, 3, 8, 2 * EVERY, false, 3, 1, 3},
		{__LINE__, LE_CLAIM_RUNNING, 3, 8, 0, false, 3, 1, 3},
		/* the record begins anew */
		{__LINE__, LE_CLAIM_RUNNING, 3, 8, 0, true, 3, 1, 3},
		{__LINE__, LE_CLAIM_RUNNING, 3, 2, 0, true, 3, 1, 3},
		/* reported, as the end shows */
		{__LINE__, LE_CLAIM_DONE, 3, 5, EVERY, false, 0},
		{__LINE__, LE_CLAIM_FAILED, 3, 6, EVERY, false, 1, 5, 5},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		LeClaimView record = {FOUND, false, nth(4), 1, 49, cases[i].state,
		false, EVERY, {cases[i].kept, nth(1), nth(cases[i].kept)}};
		LeClaimPlan plan = {nth(cases[i].tick), 50, .every = cases[i].every,
			.forget = cases[i].forget, .due = nth(cases[i].tick),
		.missed = LE_MISSED_SKIP, .max_missed = 100};
		LeGap		gap = le_gap_before(&record, &plan);

		if (gap.n != cases[i].n)
			fail_msg("line %d: %d", cases[i].line, (int) gap.n);
		if (gap.n > 0 && (gap.first != nth(cases[i].first) ||
						  gap.last != nth(cases[i].last)))
			fail_msg("line %d: %d to %d", cases[i].line, (int) gap.first,
					 (int) gap.last);

		/* the claim itself, written before */
		gap = le_gap_kept(&record);
		assert_int_equal(gap.n, cases[i].state == LE_CLAIM_RUNNING ?
						 cases[i].kept : 0);
	}
}

/* A run of missed ticks waits for the one under way; none goes back. */
static void
test_missed_in_order(void **state)
{
	for (int missed = 0; missed < LE_NMISSED; missed++)
		for (int catch_up = 0; catch_up < 2; catch_up++)
		{
			bool		in_order = catch_up || missed == LE_MISSED_LAST ||
				missed == LE_MISSED_ALL;
			LeClaimView record = {FOUND, false, nth(2), 1, 50,
			LE_CLAIM_RUNNING, false, EVERY};
			LeClaimPlan plan = {nth(5), 50, catch_up, .every = EVERY,
			.due = nth(5), .missed = missed, .max_missed = 100};
			LeClaimVerdict verdict;
			int			try;
			int64		older;

			verdict = le_judge_claim(&record, &plan, &try, &older);
			assert_int_equal(verdict, in_order ? LE_CLAIM_UNDER_WAY :
							 LE_CLAIM_TAKE);
			if (in_order)
				assert_int_equal(older, nth(2));

			/* over: at least once, or at most once */
			record.over = true;
			verdict = le_judge_claim(&record, &plan, &try, &older);
			if (catch_up)
				assert_int_equal(older, nth(2));
			else if (missed == LE_MISSED_ALL)
				assert_int_equal(older, nth(3));
			assert_int_equal(verdict, in_order ? LE_CLAIM_BEHIND :
							 LE_CLAIM_TAKE);

			/* another session was quicker */
			plan.tick = nth(2);
			plan.catch_up = false;
			assert_int_equal(le_judge_claim(&record, &plan, &try, &older),
							 LE_CLAIM_TAKEN);
			plan.tick = nth(1);
			assert_int_equal(le_judge_claim(&record, &plan, &try, &older),
							 LE_CLAIM_TAKEN);
		}
}

/* The tick meant by a timer that fires a little early or late, or not. */
static void
test_tick(void **state)
{
	static const struct
	{
		int			line;
		int64		every;
		int64		now;
		int64		tick;
	}			cases[] = {
		{__LINE__, 60 * SEC, 600 * SEC, 600 * SEC},
		{__LINE__, 60 * SEC, 600 * SEC - 2 * SEC, 600 * SEC},
		{__LINE__, 60 * SEC, 600 * SEC - 2 * SEC - 1, 540 * SEC},
		{__LINE__, 60 * SEC, 657 * SEC, 600 * SEC},
		/* a quarter of a short interval */
		{__LINE__, 4 * SEC, 8 * SEC - SEC, 8 * SEC},
		{__LINE__, 4 * SEC, 8 * SEC - SEC - 1, 4 * SEC},
		{__LINE__, 8 * SEC, 16 * SEC - 2 * SEC, 16 * SEC},
		{__LINE__, 8 * SEC, 16 * SEC - 2 * SEC - 1, 8 * SEC},
		/* before 2000 */
		{__LINE__, 60 * SEC, -60 * SEC, -60 * SEC},
		{__LINE__, 60 * SEC, -61 * SEC, -60 * SEC},
		{__LINE__, 60 * SEC, -63 * SEC, -120 * SEC},
		{__LINE__, 60 * SEC, -1 * SEC, 0},
	};

	for (int i = 0; i < lengthof(cases); i++)
	{
		int64		tick = le_tick_at(cases[i].now, cases[i].every);

		if (tick != cases[i].tick)
			fail_msg("line %d: %lld", cases[i].line, (long long) tick);
	}
}

static const char *
key_of(const char *election, const char *job)
{
	StringInfoData key;

	initStringInfo(&key);
	le_claim_append_key(&key, election, job);
	return key.data;
}

static void
test_keys(void **state)
{
	static const char *const jobs[][2] = {
		{"nightly", "a/b/nightly"},
		{"a/b", "a/b/a%2Fb"},
		{"x.y-z_1", "a/b/x.y-z_1"},
		{".", "a/b/%2E"},
		{"..", "a/b/%2E."},
		{"CALL f('x')", "a/b/CALL%20f%28%27x%27%29"},
		{"100%", "a/b/100%25"},
		{"\xc3\xa4", "a/b/%C3%A4"},
	};
	static const char *const bad[] = {
		"", "nightly", "a/", "/x", "a/x%", "a/x%2", "a/x%2f", "a/x%zz",
		"a/%00", "a/%61", "a/.x", "a/x y", "a b/x", "a//x", "a/%0A"
	};
	char	   *election;
	char	   *job;

	for (int i = 0; i < lengthof(jobs); i++)
	{
		assert_string_equal(key_of("a/b", jobs[i][0]), jobs[i][1]);
		assert_true(le_claim_split_key(jobs[i][1], &election, &job));
		assert_string_equal(election, "a/b");
		assert_string_equal(job, jobs[i][0]);
	}
	for (int i = 0; i < lengthof(bad); i++)
	{
		if (le_claim_split_key(bad[i], &election, &job))
			fail_msg("accepted: %s", bad[i]);
	}
	/* two elections, two jobs, not one key */
	assert_string_not_equal(key_of("a", "b/c"), key_of("a/b", "c"));
}

static const LeClaim sample = {
	.election = "billing",
	.job = "tidy \"up\" \xc3\xa4",
	.tick = 1800000000000,
	.try = 3,
	.id = "0123456789abcdef0123456789abcdef",
	.token = LE_NO_INDEX - 1,
	.node = "n \\ 1",
	.state = LE_CLAIM_FAILED,
	.claimed_at = 1800000000123,
	.ended_at = 1800000000456,
};

static void
test_record(void **state)
{
	for (int i = 0; i < LE_CLAIM_NSTATES; i++)
	{
		LeClaim		claim = sample;
		LeClaim		back;
		StringInfoData text;

		claim.state = i;
		claim.ended_at = i == LE_CLAIM_RUNNING ? 0 : sample.ended_at;
		initStringInfo(&text);
		le_claim_append_text(&text, &claim);
		assert_true(text.len < LE_MAX_CLAIM_TEXT);
		assert_null(strchr(text.data, '\n'));
		memset(&back, 0xff, sizeof(back));
		assert_true(le_claim_parse(text.data, text.len, &back));
		assert_string_equal(back.job, claim.job);
		assert_string_equal(back.node, claim.node);
		assert_string_equal(back.id, claim.id);
		assert_int_equal(back.tick, claim.tick);
		assert_int_equal(back.try, claim.try);
		assert_true(back.token == claim.token);
		assert_int_equal(back.state, claim.state);
		assert_int_equal(back.claimed_at, claim.claimed_at);
		assert_int_equal(back.ended_at, claim.ended_at);
		/* a part of a record is none */
		for (int len = 0; len < text.len; len++)
			assert_false(le_claim_parse(text.data, len, &back));
	}
}

/* Each field is needed, and must be valid. */
static void
test_bad_records(void **state)
{
	static const char good[] = "{\"proto\":1,\"node\":\"n\",\"job\":\"j\","
		"\"tick\":5,\"try\":1,\"token\":7,\"claim\":\"c\","
		"\"state\":\"done\",\"claimed_at\":5}";
	static const char *const changes[][2] = {
		{"\"proto\":1", "\"proto\":2"},
		{"\"proto\":1,", ""},
		{"\"node\":\"n\",", ""},
		{"\"node\":\"n\"", "\"node\":1"},
		{"\"node\":\"n\"", "\"node\":\"\\n\""},
		{"\"job\":\"j\",", ""},
		{"\"job\":\"j\"", "\"job\":\"\""},
		{"\"job\":\"j\"", "\"job\":\"\\u0001\""},
		{"\"tick\":5,", ""},
		{"\"tick\":5", "\"tick\":-5"},
		{"\"tick\":5", "\"tick\":5.5"},
		{"\"tick\":5", "\"tick\":9007199254740992"},
		{"\"try\":1,", ""},
		{"\"try\":1", "\"try\":0"},
		{"\"try\":1", "\"try\":2147483647"},
		{"\"token\":7,", ""},
		{"\"token\":7", "\"token\":0"},
		{"\"token\":7", "\"token\":9223372036854775807"},
		{"\"claim\":\"c\",", ""},
		{"\"claim\":\"c\"", "\"claim\":\"\""},
		{"\"claim\":\"c\"", "\"claim\":\"0123456789abcdef0123456789abcdef0\""},
		{"\"state\":\"done\",", ""},
		{"\"state\":\"done\"", "\"state\":\"over\""},
		{"\"claimed_at\":5", "\"claimed_at\":\"5\""},
		{"{", "["},
	};
	LeClaim		claim;

	assert_true(le_claim_parse(good, strlen(good), &claim));
	for (int i = 0; i < lengthof(changes); i++)
	{
		const char *at = strstr(good, changes[i][0]);
		char	   *bad = psprintf("%.*s%s%s", (int) (at - good), good,
								   changes[i][1], at + strlen(changes[i][0]));

		if (le_claim_parse(bad, strlen(bad), &claim))
			fail_msg("accepted: %s", bad);
	}
}

/* The tick after the one on record is late when its time has passed. */
static void
test_late(void **state)
{
	/* a minute, no wait: 2 s of grace */
	assert_false(le_tick_is_late(60000, 0, 0, 60000, 0));
	assert_false(le_tick_is_late(62000, 0, 0, 60000, 0));
	assert_true(le_tick_is_late(62001, 0, 0, 60000, 0));
	/* others may wait for their turn */
	assert_false(le_tick_is_late(72000, 0, 0, 60000, 10000));
	assert_true(le_tick_is_late(72001, 0, 0, 60000, 10000));
	/* a short interval has a quarter of it */
	assert_false(le_tick_is_late(1250, 0, 0, 1000, 0));
	assert_true(le_tick_is_late(1251, 0, 0, 1000, 0));
	/* the record counts from its tick */
	assert_false(le_tick_is_late(62001, 1, 1, 60000, 0));
	/* the next tick is unknown */
	assert_false(le_tick_is_late(INT64_C(1) << 52, 0, 0, 0, 0));
	assert_false(le_tick_is_late(INT64_C(1) << 52, 0, 0, 0, 10));
	assert_false(le_tick_is_late(INT64_C(1) << 52, 0, 5, 0, 10));
}

#define HOUR	INT64_C(3600000)
#define MINUTE	INT64_C(60000)

/* Between the bounds nothing is known to be apart. */
static void
test_clock_ahead(void **state)
{
	assert_int_equal(le_clock_ahead(9, 10, 20), -1);
	assert_int_equal(le_clock_ahead(10, 10, 20), 0);
	assert_int_equal(le_clock_ahead(20, 10, 20), 0);
	assert_int_equal(le_clock_ahead(21, 10, 20), 1);
}

/* A record lies ahead of the clock: by its tick, or the time of its claim. */
static void
test_ahead(void **state)
{
	int64_t		now = INT64_C(1000000000);

	/* claimed a little later than now, by a clock that may differ */
	assert_false(le_claim_is_ahead(now, now, now + 60000, 1000));
	assert_true(le_claim_is_ahead(now, now, now + 60001, 1000));
	assert_true(le_claim_is_ahead(now, 0, now + 60001, 0));
	/* the next tick, but not the one after it */
	assert_false(le_claim_is_ahead(now, now + 61000, now, 1000));
	assert_true(le_claim_is_ahead(now, now + 61001, now, 1000));
	/* without an interval a tick may lie anywhere */
	assert_false(le_claim_is_ahead(now, now + 86400000, now, 0));
	assert_false(le_claim_is_ahead(now, now + 86400000, 0, 0));
	assert_true(le_claim_is_ahead(now, now + 86400000, 0, 1000));
}

/* A job of 03:00 claims the tick of midnight, each day three hours late. */
static void
test_late_by_phase(void **state)
{
	const int64_t day = 24 * HOUR;
	const int64_t wait = 5 * MINUTE;
	const int64_t tick = 20000 * day;
	const int64_t at = tick + 3 * HOUR;

	assert_int_equal(le_next_expected(tick, at, day), tick + 27 * HOUR);
	assert_false(le_tick_is_late(tick + 23 * HOUR + 1, tick, at, day, wait));
	assert_false(le_tick_is_late(tick + day + wait + 2001, tick, at, day,
								 wait));
	assert_false(le_tick_is_late(tick + 26 * HOUR + 59 * MINUTE, tick, at,
								 day, wait));
	assert_false(le_tick_is_late(tick + 27 * HOUR + wait + 2000, tick, at,
								 day, wait));
	assert_true(le_tick_is_late(tick + 27 * HOUR + wait + 2001, tick, at, day,
								wait));
	assert_true(le_tick_is_late(tick + 27 * HOUR + 5 * MINUTE + wait, tick,
								at, day, wait));
	/* a run that waited for its turn: the next one may be as late */
	assert_int_equal(le_next_expected(tick, at + wait, day),
					 tick + 27 * HOUR + wait);
	/* caught up with after days: by the end of the next tick */
	assert_int_equal(le_next_expected(tick, tick + day, day), tick + 2 * day);
	assert_int_equal(le_next_expected(tick, tick + day + 1, day),
					 tick + 2 * day);
	assert_true(le_tick_is_late(at + 5 * day, tick, at + 5 * day, day, wait));
	/* early, or by a clock that is behind: by the tick */
	assert_int_equal(le_next_expected(tick, tick - 1999, day), tick + day);
	/* not kept */
	assert_int_equal(le_next_expected(tick, 0, day), tick + day);
	/* any record gives a time */
	assert_int_equal(le_next_expected(LE_MAX_TICK, LE_MAX_TICK, LE_MAX_TICK),
					 2 * LE_MAX_TICK);
	assert_int_equal(le_next_expected(0, LE_MAX_TICK, LE_MAX_TICK),
					 2 * LE_MAX_TICK);
	/* no interval: nothing is added */
	assert_int_equal(le_next_expected(tick, at, 0), tick);
}

static void
test_job_names(void **state)
{
	char		name[LE_MAX_JOB_LEN + 2];

	assert_true(le_valid_job_name("a"));
	assert_true(le_valid_job_name("CALL f('\xc3\xa4'); -- ?"));
	assert_true(le_valid_job_name("\xc2\xa0"));
	assert_false(le_valid_job_name(""));
	assert_false(le_valid_job_name("a\nb"));
	assert_false(le_valid_job_name("a\x7f"));
	assert_false(le_valid_job_name("\xc2\x85"));
	assert_false(le_valid_job_name("\xc3"));
	memset(name, 'a', sizeof(name));
	name[LE_MAX_JOB_LEN + 1] = '\0';
	assert_false(le_valid_job_name(name));
	name[LE_MAX_JOB_LEN] = '\0';
	assert_true(le_valid_job_name(name));
	for (int i = 0; i < LE_CLAIM_NSTATES; i++)
		assert_non_null(le_claim_state_name(i));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(test_judge),
		store_test(test_lost),
		store_test(test_anew),
		store_test(test_missed),
		store_test(test_missed_not_known),
		store_test(test_missed_and_kept),
		store_test(test_missed_in_order),
		store_test(test_tick),
		store_test(test_late),
		store_test(test_ahead),
		store_test(test_clock_ahead),
		store_test(test_late_by_phase),
		store_test(test_keys),
		store_test(test_record),
		store_test(test_bad_records),
		store_test(test_job_names),
	};

	return cmocka_run_group_tests_name("claim", tests, NULL, NULL);
}
