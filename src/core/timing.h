/*-------------------------------------------------------------------------
 *
 * timing.h
 *		Instants, deadlines and schedules of a lease.
 *
 * Everything here is arithmetic on a time that the caller passes in.  An
 * instant is nanoseconds of CLOCK_BOOTTIME: it counts while the machine is
 * suspended and never steps, so a deadline computed from it means the same
 * to every process of this machine and survives a change of the wall clock.
 *
 * This directory compiles without PostgreSQL, libcurl, a clock or an
 * allocator: the extension and the tests run the same object code.
 *
 * src/core/timing.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_TIMING_H
#define LE_TIMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int64_t le_time;		/* CLOCK_BOOTTIME, ns; 0 means "none" */
typedef int64_t le_duration;	/* ns */

#define LE_MSEC		INT64_C(1000000)
#define LE_SEC		INT64_C(1000000000)

/* For people: whole milliseconds. */
#define LE_MS(duration)	((int) ((duration) / LE_MSEC))

/*
 * The least room for one attempt: half of it for the answer, since a request
 * that gets less is not worth sending, the rest for the pause that follows.
 */
#define LE_MIN_ATTEMPT		(500 * LE_MSEC)

/* How many attempts must fit between the start of a round and the deadline. */
#define LE_ATTEMPTS			3

/* The longest lease that a node may have; a waiter that cannot learn its
 * predecessor's lease assumes this one. */
#define LE_MAX_LEASE		(60 * LE_SEC)

/* The longest hold-off for lack of progress, unless a single one is longer. */
#define LE_MAX_IDLE			(3600 * LE_SEC)

typedef struct LeTiming
{
	le_duration lease;			/* how long a proof carries */
	le_duration session_ttl;	/* granted by the store; the lease or more */
	le_duration margin;			/* safety_margin: bounds the clocks' rates */
	le_duration renew_interval; /* start of a round to start of the next */
	le_duration request_timeout;	/* longest wait for one answer */
	le_duration least_lease;	/* shortest that the store grants; 0: any */
	le_duration most_lease;		/* 0: any */
	le_duration granularity;	/* how much shorter than asked a lease of the
								 * store may be, at most */
} LeTiming;

/* Why a set of timings is refused. */
typedef enum LeTimingFault
{
	LE_TIMING_OK,
	LE_TIMING_LEASE,			/* the store does not grant such a lease */
	LE_TIMING_MARGIN,			/* margin takes half of the lease or more */
	LE_TIMING_INTERVAL			/* interval + attempts do not fit */
} LeTimingFault;

extern le_duration le_default_interval(le_duration lease);
extern le_duration le_session_ttl(le_duration lease, le_duration least);
extern LeTimingFault le_timing_fault(const LeTiming *t);

extern le_time le_deadline(const LeTiming *t, le_time proof_sent,
						   le_time renew_sent);
extern le_time le_trusted_until(const LeTiming *t, le_time sent,
								le_duration trust);
extern bool le_believes(le_time now, le_time deadline);
extern le_duration le_attempt_timeout(const LeTiming *t, le_time now,
									  le_time deadline, int failures);
extern le_duration le_most_jitter(le_duration interval);
extern le_time le_next_proof(const LeTiming *t, le_time sent,
							 uint32_t random);
extern le_time le_next_renewal(const LeTiming *t, le_time sent,
							   uint32_t random);
extern le_duration le_retry_delay(const LeTiming *t, int failures,
								  uint32_t random);
extern le_duration le_next_hold_off(le_duration within, le_duration last);
extern le_duration le_jitter(le_duration span, uint32_t random);
extern le_time le_earliest(le_time a, le_time b);

#endif							/* LE_TIMING_H */
