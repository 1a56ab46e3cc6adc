/*-------------------------------------------------------------------------
 *
 * test_timing.c
 *		Tests of src/core/timing.c: each rule just before, at and after its
 *		boundary.
 *
 * test/unit/test_timing.c
 *
 *-------------------------------------------------------------------------
 */
#include "core_test.h"

#define MIN_TIMEOUT		(LE_MIN_ATTEMPT / 2)

static void
default_interval_is_a_third(void **state)
{
	(void) state;
	assert_int_equal(le_default_interval(15 * LE_SEC), 5 * LE_SEC);
	assert_int_equal(le_default_interval(10 * LE_SEC), 10 * LE_SEC / 3);
}

static void
unsafe_timings_are_refused(void **state)
{
	static const struct
	{
		int			line;
		le_duration lease;
		le_duration margin;
		le_duration interval;
		LeTimingFault fault;
	}			cases[] = {
		{__LINE__, 15 * LE_SEC, LE_SEC, 5 * LE_SEC, LE_TIMING_OK},
		/* the margin: more than nothing, less than half */
		{__LINE__, 15 * LE_SEC, -1, 5 * LE_SEC, LE_TIMING_MARGIN},
		{__LINE__, 15 * LE_SEC, 0, 5 * LE_SEC, LE_TIMING_MARGIN},
		{__LINE__, 15 * LE_SEC, 1, 5 * LE_SEC, LE_TIMING_OK},
		{__LINE__, 20 * LE_SEC, 10 * LE_SEC - 1, 5 * LE_SEC, LE_TIMING_OK},
		{__LINE__, 20 * LE_SEC, 10 * LE_SEC, 5 * LE_SEC, LE_TIMING_MARGIN},
		{__LINE__, 20 * LE_SEC, 10 * LE_SEC + 1, 5 * LE_SEC, LE_TIMING_MARGIN},
		/* the interval: 1.5 s for the attempts, 1 s of margin */
		{__LINE__, 15 * LE_SEC, LE_SEC, -1, LE_TIMING_INTERVAL},
		{__LINE__, 15 * LE_SEC, LE_SEC, 0, LE_TIMING_INTERVAL},
		{__LINE__, 15 * LE_SEC, LE_SEC, 1, LE_TIMING_OK},
		{__LINE__, 15 * LE_SEC, LE_SEC, 12500 * LE_MSEC - 1, LE_TIMING_OK},
		{__LINE__, 15 * LE_SEC, LE_SEC, 12500 * LE_MSEC, LE_TIMING_OK},
		{__LINE__, 15 * LE_SEC, LE_SEC, 12500 * LE_MSEC + 1,
		LE_TIMING_INTERVAL},
		/* both wrong: the margin is named */
		{__LINE__, 15 * LE_SEC, 0, 0, LE_TIMING_MARGIN},
	};

	(void) state;
	for (size_t i = 0; i < lengthof(cases); i++)
	{
		int			line = cases[i].line;
		LeTiming	t = defaults;

		t.lease = cases[i].lease;
		t.session_ttl = le_session_ttl(t.lease, LEAST_SESSION);
		t.margin = cases[i].margin;
		t.renew_interval = cases[i].interval;
		check_int(le_timing_fault(&t), cases[i].fault);
	}
}

static void
default_settings_are_safe_at_every_lease(void **state)
{
	(void) state;
	for (int seconds = 10; seconds <= 60; seconds++)
	{
		LeTiming	t = defaults;

		t.lease = seconds * LE_SEC;
		t.session_ttl = le_session_ttl(t.lease, LEAST_SESSION);
		t.renew_interval = le_default_interval(t.lease);
		assert_int_equal(le_timing_fault(&t), LE_TIMING_OK);
		assert_true(t.lease <= LE_MAX_LEASE);
	}
}

static void
older_request_decides_the_deadline(void **state)
{
	le_time		trust = defaults.lease - defaults.margin;

	(void) state;
	assert_int_equal(le_deadline(&defaults, T0, T0), T0 + trust);
	assert_int_equal(le_deadline(&defaults, T0, T0 + 1), T0 + trust);
	assert_int_equal(le_deadline(&defaults, T0 + 1, T0), T0 + trust);
	assert_int_equal(le_deadline(&defaults, T0 + LE_SEC, T0 + 2 * LE_SEC),
					 T0 + LE_SEC + trust);
}

/* A session may outlive the lease; it never stretches it. */
static void
proof_and_renewal_carry_for_their_own_time(void **state)
{
	LeTiming	t = defaults;

	(void) state;
	t.lease = 4 * LE_SEC;
	t.session_ttl = le_session_ttl(t.lease, LEAST_SESSION);
	assert_int_equal(t.session_ttl, LEAST_SESSION);
	assert_int_equal(le_session_ttl(LEAST_SESSION - 1, LEAST_SESSION),
					 LEAST_SESSION);
	assert_int_equal(le_session_ttl(LEAST_SESSION + 1, LEAST_SESSION),
					 LEAST_SESSION + 1);
	assert_int_equal(le_deadline(&t, T0, T0), T0 + 3 * LE_SEC);
	assert_int_equal(le_deadline(&t, T0 + 5 * LE_SEC, T0), T0 + 8 * LE_SEC);
	assert_int_equal(le_deadline(&t, T0 + 6 * LE_SEC, T0), T0 + 9 * LE_SEC);
	assert_int_equal(le_deadline(&t, T0 + 7 * LE_SEC, T0), T0 + 9 * LE_SEC);
	assert_int_equal(le_deadline(&t, T0, T0 + 7 * LE_SEC), T0 + 3 * LE_SEC);
	assert_int_equal(le_next_renewal(&t, T0, NO_LUCK),
					 T0 + LEAST_SESSION / 3);
	assert_int_equal(le_next_renewal(&defaults, T0, ALL_LUCK),
					 le_next_proof(&defaults, T0, ALL_LUCK));
}

static void
no_deadline_without_both_requests(void **state)
{
	(void) state;
	assert_int_equal(le_deadline(&defaults, 0, T0), 0);
	assert_int_equal(le_deadline(&defaults, T0, 0), 0);
	assert_int_equal(le_deadline(&defaults, 0, 0), 0);
}

static void
belief_ends_at_the_deadline(void **state)
{
	(void) state;
	assert_true(le_believes(T0 - 1, T0));
	assert_false(le_believes(T0, T0));
	assert_false(le_believes(T0 + 1, T0));
	assert_false(le_believes(T0, 0));
	assert_false(le_believes(0, 0));
}

static void
attempts_share_the_time_that_is_left(void **state)
{
	static const struct
	{
		int			line;
		le_duration left;
		int			failures;
		le_duration timeout;
	}			cases[] = {
		/* never longer than request_timeout */
		{__LINE__, 15 * LE_SEC - 3, 0, 5 * LE_SEC - 1},
		{__LINE__, 15 * LE_SEC, 0, 5 * LE_SEC},
		{__LINE__, 15 * LE_SEC + 3, 0, 5 * LE_SEC},
		{__LINE__, 10 * LE_SEC - 2, 1, 5 * LE_SEC - 1},
		{__LINE__, 10 * LE_SEC + 2, 1, 5 * LE_SEC},
		{__LINE__, 5 * LE_SEC - 1, 2, 5 * LE_SEC - 1},
		{__LINE__, 5 * LE_SEC + 1, 2, 5 * LE_SEC},
		/* thirds, halves, all of it */
		{__LINE__, 9 * LE_SEC, 0, 3 * LE_SEC},
		{__LINE__, 6 * LE_SEC, 1, 3 * LE_SEC},
		{__LINE__, 3 * LE_SEC, 2, 3 * LE_SEC},
		{__LINE__, 3 * LE_SEC, 3, 3 * LE_SEC},
		{__LINE__, 3 * LE_SEC, 1000, 3 * LE_SEC},
		/* never shorter than is worth sending, the deadline past included */
		{__LINE__, MIN_TIMEOUT + 1, 2, MIN_TIMEOUT + 1},
		{__LINE__, MIN_TIMEOUT, 2, MIN_TIMEOUT},
		{__LINE__, MIN_TIMEOUT - 1, 2, MIN_TIMEOUT},
		{__LINE__, 0, 0, MIN_TIMEOUT},
		{__LINE__, -60 * LE_SEC, 0, MIN_TIMEOUT},
	};

	(void) state;
	for (size_t i = 0; i < lengthof(cases); i++)
	{
		int			line = cases[i].line;

		check_int(le_attempt_timeout(&defaults, T0, T0 + cases[i].left,
									 cases[i].failures), cases[i].timeout);
	}
}

/*
 * A store that swallows every request: with any pauses, the third attempt of a
 * round that began as late as planned still gets its time.
 */
static void
three_attempts_fit_before_the_deadline(void **state)
{
	(void) state;
	for (int seconds = 10; seconds <= 60; seconds += 5)
	{
		for (int tenths = 1; tenths < 5 * seconds; tenths++)
		{
			LeTiming	t = defaults;
			le_time		now;
			le_time		deadline;

			t.lease = seconds * LE_SEC;
			t.session_ttl = le_session_ttl(t.lease, LEAST_SESSION);
			t.margin = tenths * LE_SEC / 10;
			t.renew_interval = t.lease - t.margin -
				LE_ATTEMPTS * LE_MIN_ATTEMPT;
			assert_int_equal(le_timing_fault(&t), LE_TIMING_OK);
			deadline = le_deadline(&t, T0, T0);
			now = le_next_proof(&t, T0, NO_LUCK);
			for (int failures = 0; failures < LE_ATTEMPTS; failures++)
			{
				if (failures > 0)
					now += le_retry_delay(&t, failures, ALL_LUCK);
				assert_true(deadline - now >= MIN_TIMEOUT);
				now += le_attempt_timeout(&t, now, deadline, failures);
			}
			assert_true(now <= deadline);
		}
	}
}

static void
rounds_come_early_but_never_late(void **state)
{
	le_time		planned = T0 + defaults.renew_interval;
	le_time		previous = planned + 1;

	(void) state;
	assert_int_equal(le_next_proof(&defaults, T0, NO_LUCK), planned);
	for (int i = 0; i <= 16; i++)
	{
		uint32_t	random = i == 16 ? ALL_LUCK : (uint32_t) i << 28;
		le_time		next = le_next_proof(&defaults, T0, random);

		assert_true(next < previous);
		assert_true(next > planned - defaults.renew_interval / 10);
		previous = next;
	}
	/* nearly all of the tenth is used */
	assert_true(previous <= planned - defaults.renew_interval / 10 + LE_MSEC);
}

static void
pauses_double_up_to_a_sixth_of_the_lease(void **state)
{
	static const int full[] = {100, 100, 200, 400, 800, 1600, 2500, 2500};

	(void) state;
	for (int failures = 0; failures < (int) lengthof(full); failures++)
	{
		le_duration half = full[failures] * LE_MSEC / 2;
		le_duration shortest = le_retry_delay(&defaults, failures, NO_LUCK);
		le_duration longest = le_retry_delay(&defaults, failures, ALL_LUCK);

		assert_int_equal(shortest, half);
		assert_true(longest > 2 * half - LE_MSEC && longest < 2 * half);
	}
	assert_int_equal(le_retry_delay(&defaults, 1000000000, NO_LUCK),
					 1250 * LE_MSEC);
	assert_int_equal(le_retry_delay(&defaults, -1, NO_LUCK), 50 * LE_MSEC);
}

static void
jitter_stays_below_its_span(void **state)
{
	static const le_duration spans[] = {
		1024, 1025, LE_MSEC, LE_SEC, LE_MAX_LEASE, 3600 * LE_SEC
	};

	(void) state;
	assert_int_equal(le_jitter(0, ALL_LUCK), 0);
	assert_int_equal(le_jitter(1023, ALL_LUCK), 0);
	for (size_t i = 0; i < lengthof(spans); i++)
	{
		le_duration half = le_jitter(spans[i], UINT32_C(1) << 31);

		assert_int_equal(le_jitter(spans[i], NO_LUCK), 0);
		assert_true(le_jitter(spans[i], ALL_LUCK) < spans[i]);
		assert_true(le_jitter(spans[i], ALL_LUCK) >= spans[i] - 3 * 1024);
		assert_true(half >= spans[i] / 2 - 2 * 1024 && half <= spans[i] / 2);
	}
}

static void
earliest_knows_none(void **state)
{
	(void) state;
	assert_int_equal(le_earliest(0, 0), 0);
	assert_int_equal(le_earliest(T0, 0), T0);
	assert_int_equal(le_earliest(0, T0), T0);
	assert_int_equal(le_earliest(T0, T0 + 1), T0);
	assert_int_equal(le_earliest(T0 + 1, T0), T0);
}

/* Leases per key have less room: a granularity, and a shortest lease. */
static void
leases_per_key_have_less_room(void **state)
{
	LeTiming	t = defaults;

	(void) state;
	t.lease = 5 * LE_SEC;
	t.least_lease = (5 * LE_SEC);
	t.granularity = LE_SEC;
	t.renew_interval = 1500 * LE_MSEC;
	assert_int_equal(le_timing_fault(&t), LE_TIMING_OK);
	t.renew_interval++;
	assert_int_equal(le_timing_fault(&t), LE_TIMING_INTERVAL);
	t.renew_interval--;
	t.lease--;
	assert_int_equal(le_timing_fault(&t), LE_TIMING_LEASE);
}

static void
hold_offs_double_up_to_an_hour(void **state)
{
	(void) state;
	assert_int_equal(le_next_hold_off(10 * LE_SEC, 0), 10 * LE_SEC);
	assert_int_equal(le_next_hold_off(10 * LE_SEC, 10 * LE_SEC), 20 * LE_SEC);
	assert_int_equal(le_next_hold_off(10 * LE_SEC, 20 * LE_SEC), 40 * LE_SEC);
	/* the setting was raised, or lowered, in between */
	assert_int_equal(le_next_hold_off(300 * LE_SEC, 10 * LE_SEC),
					 300 * LE_SEC);
	assert_int_equal(le_next_hold_off(LE_SEC, 300 * LE_SEC), 600 * LE_SEC);
	assert_int_equal(le_next_hold_off(10 * LE_SEC, 1800 * LE_SEC),
					 3600 * LE_SEC);
	assert_int_equal(le_next_hold_off(10 * LE_SEC, 1801 * LE_SEC),
					 3600 * LE_SEC);
	assert_int_equal(le_next_hold_off(10 * LE_SEC, 3600 * LE_SEC),
					 3600 * LE_SEC);
	/* never less than the given time */
	assert_int_equal(le_next_hold_off(7200 * LE_SEC, 0), 7200 * LE_SEC);
	assert_int_equal(le_next_hold_off(7200 * LE_SEC, 7200 * LE_SEC),
					 7200 * LE_SEC);
	assert_int_equal(le_next_hold_off(366 * 86400 * LE_SEC,
									  366 * 86400 * LE_SEC),
					 366 * 86400 * LE_SEC);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(default_interval_is_a_third),
		cmocka_unit_test(unsafe_timings_are_refused),
		cmocka_unit_test(default_settings_are_safe_at_every_lease),
		cmocka_unit_test(older_request_decides_the_deadline),
		cmocka_unit_test(proof_and_renewal_carry_for_their_own_time),
		cmocka_unit_test(no_deadline_without_both_requests),
		cmocka_unit_test(belief_ends_at_the_deadline),
		cmocka_unit_test(attempts_share_the_time_that_is_left),
		cmocka_unit_test(three_attempts_fit_before_the_deadline),
		cmocka_unit_test(rounds_come_early_but_never_late),
		cmocka_unit_test(pauses_double_up_to_a_sixth_of_the_lease),
		cmocka_unit_test(jitter_stays_below_its_span),
		cmocka_unit_test(earliest_knows_none),
		cmocka_unit_test(leases_per_key_have_less_room),
		cmocka_unit_test(hold_offs_double_up_to_an_hour),
	};

	return cmocka_run_group_tests_name("timing", tests, NULL, NULL);
}
