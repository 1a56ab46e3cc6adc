/*-------------------------------------------------------------------------
 *
 * contracts.h
 *		What is known of functions of core/timing.c that divide and multiply.
 *
 * timing.c claims it of the functions.  Where something else is proved,
 * contracts.c takes their place: each returns any value of which this holds.
 *
 * test/prove/contracts.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef CONTRACTS_H
#define CONTRACTS_H

#include "core/timing.h"

/* A part of it, and less than all. */
static inline bool
is_jitter(le_duration j, le_duration span)
{
	return j >= 0 && (j < span || j == 0);
}

static inline bool
is_most_jitter(le_duration j, le_duration interval)
{
	return j >= 0 && j <= interval;
}

/* No tight loop, and six retries in a lease. */
static inline bool
is_retry_delay(le_duration d, const LeTiming *t)
{
	return d >= 50 * LE_MSEC && 6 * d <= t->lease;
}

/* A round is never late. */
static inline bool
is_next_proof(le_time at, const LeTiming *t, le_time sent)
{
	return at > sent && at <= sent + t->renew_interval;
}

/* The renewal comes before the session ends. */
static inline bool
is_next_renewal(le_time at, const LeTiming *t, le_time sent)
{
	return at > sent && at < sent + t->session_ttl;
}

/* Time enough for an answer, and no longer than the setting. */
static inline bool
is_attempt_timeout(le_duration d, const LeTiming *t)
{
	return d >= LE_MIN_ATTEMPT / 2 &&
		(d <= t->request_timeout || d == LE_MIN_ATTEMPT / 2);
}

#endif							/* CONTRACTS_H */
