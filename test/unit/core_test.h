/*-------------------------------------------------------------------------
 *
 * core_test.h
 *		Shared by the unit tests of src/core.
 *
 * test/unit/core_test.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CORE_TEST_H
#define LE_CORE_TEST_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/election.h"
#include "core/node.h"
#include "core/timing.h"

#define lengthof(array)		(sizeof(array) / sizeof((array)[0]))

/* An instant to start from; no test depends on which. */
#define T0			(1000 * LE_SEC)

#define NO_LUCK		0			/* the two ends of "random" */
#define ALL_LUCK	UINT32_MAX

/* The shortest TTL that a store grants, as Consul does. */
#define LEAST_SESSION	(10 * LE_SEC)

/* The default settings. */
static const LeTiming defaults = {
	.lease = 15 * LE_SEC,
	.session_ttl = 15 * LE_SEC,
	.margin = 1 * LE_SEC,
	.renew_interval = 5 * LE_SEC,
	.request_timeout = 5 * LE_SEC,
};

/* A test that failed deep inside a table names the entry's line. */
#define check(condition) \
	do { \
		if (!(condition)) \
			fail_msg("line %d: %s", line, #condition); \
	} while (0)

#define check_int(actual, expected) \
	do { \
		long long	a_ = (long long) (actual); \
		long long	e_ = (long long) (expected); \
		if (a_ != e_) \
			fail_msg("line %d: %s is %lld, not %lld", line, #actual, a_, e_); \
	} while (0)

/* The same for an invariant, whose message names the breach. */
static inline void
check_holds(int line, const char *broken)
{
	if (broken != NULL)
		fail_msg("line %d: does not hold: %s", line, broken);
}

/* Small, seeded, the same everywhere (xorshift64*). */
static inline uint32_t
draw(uint64_t *seed)
{
	*seed ^= *seed >> 12;
	*seed ^= *seed << 25;
	*seed ^= *seed >> 27;
	return (uint32_t) ((*seed * UINT64_C(2685821657736338717)) >> 32);
}

#endif							/* LE_CORE_TEST_H */
