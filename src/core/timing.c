/*-------------------------------------------------------------------------
 *
 * timing.c
 *		Instants, deadlines and schedules of a lease.
 *
 * src/core/timing.c
 *
 *-------------------------------------------------------------------------
 */
#include "core/timing.h"

/*
 * The renewal interval that renew_interval = 0 stands for: a third of the
 * lease, so that two whole rounds may fail before the third decides.
 */
le_duration
le_default_interval(le_duration lease)
{
	return lease / 3;
}

/*
 * The TTL to ask for.  A lease may be shorter than the shortest session that
 * the store grants, since the lease follows the proofs and the session has a
 * schedule of its own.
 */
le_duration
le_session_ttl(le_duration lease, le_duration least)
{
	return lease < least ? least : lease;
}

/*
 * May a node lead with these timings?
 *
 * A round that starts as late as planned must still find room for
 * LE_ATTEMPTS attempts before the deadline; otherwise one lost packet deposes
 * the leader.  A margin of half the lease or more would leave so little trust
 * that the node spends its time between two leaders.
 */
LeTimingFault
le_timing_fault(const LeTiming *t)
{
	if (t->lease < t->least_lease ||
		(t->most_lease != 0 && t->lease > t->most_lease))
		return LE_TIMING_LEASE;
	if (t->margin <= 0 || t->margin >= t->lease / 2)
		return LE_TIMING_MARGIN;
	if (t->renew_interval <= 0 ||
		t->renew_interval + LE_ATTEMPTS * LE_MIN_ATTEMPT >
		t->lease - t->granularity - t->margin)
		return LE_TIMING_INTERVAL;
	return LE_TIMING_OK;
}

/*
 * Until when may a term be trusted?
 *
 * Two requests must have succeeded: the proof that the session was alive and
 * ours at a point of the store's history, and the renewal that keeps the
 * store from ending it.  Each says something about the time since it was
 * *sent*, since the store may have acted on it at any instant from then on;
 * the answer's arrival says nothing.  The proof carries for a lease, because
 * waiters take over from a node that has been silent for that long; the
 * renewal for as long as the store lets the session live.  The earlier end
 * decides; where one is missing, there is no trust.
 */
le_time
le_deadline(const LeTiming *t, le_time proof_sent, le_time renew_sent)
{
	if (proof_sent == 0 || renew_sent == 0)
		return 0;
	return le_earliest(proof_sent + t->lease,
					   renew_sent + t->session_ttl) - t->margin;
}

/*
 * The same for a term with a lease of its own.  "sent" is the time of the
 * request that wrote or renewed it, "trust" the store's answer.
 */
le_time
le_trusted_until(const LeTiming *t, le_time sent, le_duration trust)
{
	return sent + trust - t->margin;
}

/* At the deadline itself belief has ended already. */
bool
le_believes(le_time now, le_time deadline)
{
	return now < deadline;
}

/*
 * How long may one attempt wait for its answer?
 *
 * An equal share of the time before the deadline, so that a store that
 * swallows requests cannot use up the time of all attempts with one.
 */
le_duration
le_attempt_timeout(const LeTiming *t, le_time now, le_time deadline,
				   int failures)
{
	int			left = failures < LE_ATTEMPTS ? LE_ATTEMPTS - failures : 1;
	le_duration share = (deadline - now) / left;

	if (share > t->request_timeout)
		share = t->request_timeout;
	return share < LE_MIN_ATTEMPT / 2 ? LE_MIN_ATTEMPT / 2 : share;
}

/* How much before the end of its interval a request may be due. */
le_duration
le_most_jitter(le_duration interval)
{
	return interval / 10;
}

static le_time
next_after(le_time sent, le_duration interval, uint32_t random)
{
	return sent + interval - le_jitter(le_most_jitter(interval), random);
}

/*
 * When is the proof after one sent at "sent" due?  Up to a tenth early:
 * nodes that started together drift apart, and a round is never late.
 */
le_time
le_next_proof(const LeTiming *t, le_time sent, uint32_t random)
{
	return next_after(sent, t->renew_interval, random);
}

/* The same for the renewal, which may have more time than the proof. */
le_time
le_next_renewal(const LeTiming *t, le_time sent, uint32_t random)
{
	if (t->session_ttl == t->lease)
		return le_next_proof(t, sent, random);
	return next_after(sent, t->session_ttl / 3, random);
}

/*
 * How long to wait before trying again after "failures" failures in a row:
 * doubling from 100 ms up to a sixth of the lease, half of it random so that
 * nodes do not hit a store that comes back all at once.
 */
le_duration
le_retry_delay(const LeTiming *t, int failures, uint32_t random)
{
	le_duration delay = 100 * LE_MSEC;

	while (--failures > 0 && delay < t->lease / 6)
		delay *= 2;
	if (delay > t->lease / 6)
		delay = t->lease / 6;
	return delay / 2 + le_jitter(delay / 2, random);
}

/*
 * How long must a node stay away that made no progress within that time?  As
 * long again, and twice as long each time, up to an hour ("last" is the
 * previous hold-off, 0 after progress): so useless nodes do not pass the lead
 * round and round, and a useful one gets its turn soon.
 */
le_duration
le_next_hold_off(le_duration within, le_duration last)
{
	le_duration most = within > LE_MAX_IDLE ? within : LE_MAX_IDLE;
	le_duration next = 2 * last < within ? within : 2 * last;

	return next < most ? next : most;
}

/* A random part of span, from 0 to just below it. */
le_duration
le_jitter(le_duration span, uint32_t random)
{
	return (le_duration) (((uint64_t) (span >> 10) * random >> 32) << 10);
}

/* The earlier of two instants, where 0 means "none". */
le_time
le_earliest(le_time a, le_time b)
{
	if (a == 0)
		return b;
	if (b == 0)
		return a;
	return a < b ? a : b;
}
