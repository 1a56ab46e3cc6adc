/*-------------------------------------------------------------------------
 *
 * timing.c
 *		The arithmetic of leases, for all settings and two weeks of instants.
 *
 * test/prove/timing.c
 *
 *-------------------------------------------------------------------------
 */
#include "contracts.h"
#include "prove.h"

HARNESS(timing_fault)
{
	LeTiming	t = any_settings();
	LeTimingFault fault = le_timing_fault(&t);

	CLAIM((fault == LE_TIMING_OK) == may_lead(&t),
		  "what is unsafe is refused, and nothing else");
}

HARNESS(deadlines)
{
	LeTiming	t = any_timing();
	le_time		proof = any_instant();
	le_time		renewal = any_instant();
	le_time		d = le_deadline(&t, proof, renewal);

	CLAIM((d == 0) == (proof == 0 || renewal == 0),
		  "no trust without both, trust with both");
	if (d == 0)
		return;
	CLAIM(d <= proof + t.lease - t.margin, "no trust past the proof's lease");
	CLAIM(d <= renewal + t.session_ttl - t.margin,
		  "no trust past the session's end");
	CLAIM(d == proof + t.lease - t.margin ||
		  d == renewal + t.session_ttl - t.margin, "trust up to one of them");
	CLAIM(d > proof || d > renewal, "some trust is left");
	CLAIM(!le_believes(d, d), "at the deadline belief is over");
	CLAIM(le_believes(d - 1, d), "before it belief holds");
}

HARNESS(later_deadlines)
{
	LeTiming	t = any_timing();
	le_time		proof = any_instant();
	le_time		renewal = any_instant();
	le_time		later = any_instant();
	le_time		d = le_deadline(&t, proof, renewal);

	ASSUME(d != 0);
	CLAIM(IMPLIES(later >= proof, le_deadline(&t, later, renewal) >= d),
		  "a later proof never shortens trust");
	CLAIM(IMPLIES(later >= renewal, le_deadline(&t, proof, later) >= d),
		  "nor does a later renewal");
}

HARNESS(key_leases)
{
	LeTiming	t = any_timing();
	le_time		sent = any_instant();
	le_duration trust = any_duration(t.lease);
	le_time		d = le_trusted_until(&t, sent, trust);

	CLAIM(d <= sent + t.lease - t.margin,
		  "no trust past the lease less the margin");
	CLAIM(d == sent + trust - t.margin, "trust as long as the store says");
}

HARNESS(jitter)
{
	le_duration span = any_duration(LE_MAX_LEASE);
	uint32_t	random = any_uint32();

#ifdef RANDOM_BITS
	random <<= 32 - RANDOM_BITS;
#endif
	CLAIM(is_jitter(le_jitter(span, random), span), "less than the span");
}

HARNESS(most_jitter)
{
	le_duration interval = any_duration(LE_MAX_LEASE);

	le_duration j = le_most_jitter(interval);

	CLAIM(is_most_jitter(j, interval), "no more than the interval");
	CLAIM(10 * j <= interval && interval < 10 * j + 10, "a tenth of it");
}

HARNESS(next_proof)
{
	LeTiming	t = any_timing();
	le_time		sent = any_instant();
	le_time		at = le_next_proof(&t, sent, any_uint32());

	/* so its attempts fit before the deadline: may_lead() */
	CLAIM(is_next_proof(at, &t, sent), "a round is never late");
}

HARNESS(next_renewal)
{
	LeTiming	t = any_timing();
	le_time		sent = any_instant();
	le_time		at = le_next_renewal(&t, sent, any_uint32());

	CLAIM(is_next_renewal(at, &t, sent),
		  "the renewal comes before the session ends");
}

HARNESS(retry_delay)
{
	LeTiming	t = any_timing();
	int			failures = any_int();

	ASSUME(failures > 0);
	CLAIM(is_retry_delay(le_retry_delay(&t, failures, any_uint32()), &t),
		  "no tight loop, and six retries in a lease");
}

HARNESS(attempt_timeout)
{
	LeTiming	t = any_timing();
	le_time		now = any_instant();
	le_time		deadline = any_instant();
	int			failures = any_int();
	le_duration d;

	ASSUME(failures >= 0);
	d = le_attempt_timeout(&t, now, deadline, failures);
	CLAIM(is_attempt_timeout(d, &t), "time enough, and no more than is set");
	CLAIM(IMPLIES(deadline - now >= LE_MIN_ATTEMPT / 2, now + d <= deadline),
		  "it is answered or given up by the deadline");
}

/* A week, which no progress_within exceeds. */
#define MOST_HOLD_OFF	(7 * 24 * 3600 * LE_SEC)

HARNESS(hold_off)
{
	le_duration within = any_duration(MOST_HOLD_OFF);
	le_duration last = any_duration(MOST_HOLD_OFF);
	le_duration next;

	ASSUME(within > 0);
	next = le_next_hold_off(within, last);
	CLAIM(next >= within, "as long again, at least");
	CLAIM(next <= within || next <= LE_MAX_IDLE, "an hour at most");
	CLAIM(next >= 2 * last || next >= LE_MAX_IDLE, "twice the last");
}

HARNESS(earliest)
{
	le_time		a = any_instant();
	le_time		b = any_instant();
	le_time		e = le_earliest(a, b);

	CLAIM((e == 0) == (a == 0 && b == 0), "none only of none");
	CLAIM(e == a || e == b, "one of the two");
	CLAIM(IMPLIES(a != 0, e <= a) && IMPLIES(b != 0, e <= b), "the earlier");
}

HARNESS(session_ttl)
{
	le_duration lease = any_duration(LE_MAX_LEASE);
	le_duration least = any_duration(LE_MAX_LEASE);
	le_duration ttl = le_session_ttl(lease, least);

	CLAIM(ttl >= lease && ttl >= least, "a session outlasts the lease");
	CLAIM(ttl == lease || ttl == least, "and is no longer than it must");
}
