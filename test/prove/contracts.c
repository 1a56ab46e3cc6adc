/*-------------------------------------------------------------------------
 *
 * contracts.c
 *		In place of some functions of core/timing.c: any result in order.
 *
 * CBMC takes the first of two functions of one name, so this file stands
 * before core/timing.c.  ONLY_JITTER leaves the others as they are.
 *
 * test/prove/contracts.c
 *
 *-------------------------------------------------------------------------
 */
#include "contracts.h"
#include "prove.h"

le_duration
le_jitter(le_duration span, uint32_t random)
{
	le_duration j = any_int64();

	(void) random;
	CLAIM(span >= 0 && span <= LE_MAX_LEASE, "le_jitter() is exact for it");
	ASSUME(is_jitter(j, span));
	return j;
}

le_duration
le_most_jitter(le_duration interval)
{
	le_duration j = any_duration(LE_MAX_LEASE);

	ASSUME(is_most_jitter(j, interval));
	return j;
}

#ifndef ONLY_JITTER
le_duration
le_retry_delay(const LeTiming *t, int failures, uint32_t random)
{
	le_duration d = any_duration(LE_MAX_LEASE);

	(void) random;
	CLAIM(failures > 0, "a retry follows a failure");
	ASSUME(is_retry_delay(d, t));
	return d;
}

le_duration
le_attempt_timeout(const LeTiming *t, le_time now, le_time deadline,
				   int failures)
{
	le_duration d = any_duration(LE_MAX_LEASE);

	(void) now;
	(void) deadline;
	CLAIM(failures >= 0, "failures are counted upwards");
	ASSUME(is_attempt_timeout(d, t));
	return d;
}

le_time
le_next_proof(const LeTiming *t, le_time sent, uint32_t random)
{
	le_time		at = any_int64();

	(void) random;
	ASSUME(is_next_proof(at, t, sent));
	return at;
}

le_time
le_next_renewal(const LeTiming *t, le_time sent, uint32_t random)
{
	le_time		at = any_int64();

	(void) random;
	ASSUME(is_next_renewal(at, t, sent));
	return at;
}
#endif
