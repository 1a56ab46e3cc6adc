/*-------------------------------------------------------------------------
 *
 * prove.h
 *		Words of the harnesses for CBMC, and values that settings let through.
 *
 * any_...() is any value of its type.  ASSUME() leaves out what the caller
 * promises never to pass.  CLAIM() must hold for all the rest.  That there is
 * a rest is shown with REACHED, under which CLAIM_REACHED() must fail.
 *
 * test/prove/prove.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PROVE_H
#define PROVE_H

#include <limits.h>
#include <string.h>

#include "core/clone.h"
#include "core/node.h"
#include "core/tick.h"

extern int64_t nondet_int64(void);
extern uint64_t nondet_uint64(void);
extern uint32_t nondet_uint32(void);
extern int	nondet_int(void);
extern unsigned char nondet_uchar(void);
extern void __CPROVER_assume(_Bool condition);
extern void __CPROVER_assert(_Bool condition, const char *text);

#define any_int64()		nondet_int64()
#define any_uint64()	nondet_uint64()
#define any_uint32()	nondet_uint32()
#define any_int()		nondet_int()
#define any_bool()		((nondet_uchar() & 1) != 0)
#define ASSUME(c)		__CPROVER_assume(c)
#ifndef REACHED
#define CLAIM(c, text)	__CPROVER_assert((c), text)
#define CLAIM_REACHED()	((void) 0)
#else
#define CLAIM(c, text)	((void) (c))
#define CLAIM_REACHED()	__CPROVER_assert(false, "nothing gets here")
#endif
#define IMPLIES(a, b)	(!(a) || (b))

/* test/prove/run finds harnesses by this word. */
#define HARNESS(name)	void name(void)

/* One of so many. */
static inline uint32_t
any_of(uint32_t many)
{
	uint32_t	v = any_uint32();

	ASSUME(v < many);
	return v;
}

/* Failures in a row are counted in an int. */
#define MOST_FAILURES	(INT_MAX - LE_ATTEMPTS)

/*
 * Instants of the two weeks after a machine's start, 0 among them: only their
 * differences matter.
 */
#define LAST_INSTANT	((INT64_C(1) << 50) - 1)

static inline le_time
any_instant(void)
{
	return (le_time) (any_uint64() & LAST_INSTANT);
}

static inline le_duration
any_duration(le_duration most)
{
	le_duration d = any_int64();

	ASSUME(d >= 0 && d <= most);
	return d;
}

/*
 * Does le_timing_fault() find none?  Without its division, which is hard for
 * a solver; timing.c shows that the two agree.
 */
static inline bool
may_lead(const LeTiming *t)
{
	return t->lease >= t->least_lease &&
		(t->most_lease == 0 || t->lease <= t->most_lease) &&
		t->margin > 0 && 2 * t->margin + 2 <= t->lease &&
		t->renew_interval > 0 &&
		t->renew_interval + LE_ATTEMPTS * LE_MIN_ATTEMPT <=
		t->lease - t->granularity - t->margin;
}

static inline LeTiming
any_settings(void)
{
	LeTiming	t;

	t.lease = any_duration(LE_MAX_LEASE);
	t.session_ttl = any_duration(LE_MAX_LEASE);
	t.margin = any_duration(LE_MAX_LEASE);
	t.renew_interval = any_duration(LE_MAX_LEASE);
	t.request_timeout = any_duration(LE_MAX_LEASE);
	t.least_lease = any_duration(LE_MAX_LEASE);
	t.most_lease = any_duration(LE_MAX_LEASE);
	t.granularity = any_duration(LE_SEC);
	ASSUME(t.session_ttl >= t.lease);
	ASSUME(t.request_timeout >= 100 * LE_MSEC);
	return t;
}

/* Settings under which a node leads, and what its store grants. */
static inline LeTiming
any_timing(void)
{
	LeTiming	t = any_settings();

	ASSUME(may_lead(&t));
	return t;
}

#endif							/* PROVE_H */
