/*-------------------------------------------------------------------------
 *
 * core_test.h
 *		What the unit tests of src/core share.
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

/* A test that failed deep inside a table names the line of the entry. */
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

/* Small, seeded, the same everywhere (xorshift64*). */
static inline uint32_t
draw(uint64_t *seed)
{
	*seed ^= *seed >> 12;
	*seed ^= *seed << 25;
	*seed ^= *seed >> 27;
	return (uint32_t) ((*seed * UINT64_C(2685821657736338717)) >> 32);
}

/*
 * What holds for every step of an election, whatever the event: the promises
 * of election.h to the caller.
 */
static inline void
check_election_step(int line, const LeElection *before, const LeInput *ev,
					const LeElection *after, const LeActions *act)
{
	bool		write = act->send != LE_SEND_NOTHING &&
		act->send != LE_SEND_READ;

	/* terms */
	check(after->token == 0 || after->wanted || after->drain_until != 0);
	check((after->token != 0) == le_election_has_term(after));
	check(after->token == 0 || after->state == LE_HELD ||
		  after->state == LE_PUBLISHING ||
		  after->state == LE_PUBLISH_UNSURE || after->state == LE_DRAINING);
	check(after->state != LE_HELD || after->token != 0);

	/* a term that is to end does end, and never later than was said */
	check(after->drain_until == 0 || after->token != 0);
	check(after->state != LE_HELD || after->drain_until == 0);
	check(after->state != LE_DRAINING ||
		  (after->drain_until != 0 && after->timer_at == after->drain_until));
	check(!act->term_drains || (after->drain_until != 0 && !after->wanted));
	check(before->drain_until == 0 || after->token == 0 ||
		  (after->drain_until != 0 &&
		   after->drain_until <= before->drain_until));
	check(act->term_ends == (before->token != 0 && after->token == 0));
	check(act->term_begins == (before->token == 0 && after->token != 0));
	check(before->token == 0 || after->token == 0 ||
		  before->token == after->token);
	check(!act->term_begins || after->token > before->token_floor);
	check(after->token_floor >= before->token_floor);
	check(!act->term_ends || act->reason != LE_REASON_NONE);

	/* one request at a time, and belief before message */
	check((act->send != LE_SEND_NOTHING) ==
		  (after->request != before->request && le_election_in_flight(after)));
	check(act->send != LE_SEND_RELEASE || after->token == 0);
	check(act->send != LE_SEND_ACQUIRE || after->token == 0);
	check(act->send != LE_SEND_TAKE_OVER || after->token == 0);
	check(act->send != LE_SEND_PUBLISH || after->token != 0);
	if (le_election_in_flight(before) && act->send != LE_SEND_NOTHING)
		check(ev->kind != LE_IN_WANT && ev->kind != LE_IN_UNWANT &&
			  ev->kind != LE_IN_PUBLISH && ev->kind != LE_IN_SEEN &&
			  (!write || ev->kind == LE_IN_READ || ev->kind == LE_IN_DONE ||
			   ev->kind == LE_IN_CONFLICT || ev->kind == LE_IN_NOT_APPLIED));

	/* something leads on: an answer, a timer, the node, or a wish */
	if (after->state == LE_WAITING)
		check(after->wanted &&
			  (after->timer_at > ev->now || ev->kind == LE_IN_NODE_ENDED ||
			   (ev->kind == LE_IN_HOLDER && after->timer_at != 0) ||
			   memcmp(before, after, sizeof(*before)) == 0));
	else if (after->state == LE_ACQUIRE_UNSURE ||
			 after->state == LE_PUBLISH_UNSURE ||
			 after->state == LE_RELEASE_UNSURE)
		check(le_election_in_flight(after) || after->timer_at != 0);
	else if (after->state != LE_DRAINING)
		check(after->timer_at == 0);
}

/* The same for a step of the node. */
static inline void
check_node_step(int line, const LeNode *before, const LeNodeInput *ev,
				const LeNode *after, const LeNodeActions *act)
{
	const unsigned leaving = LE_NODE_SEND_LIST | LE_NODE_SEND_UNLOCKS |
		LE_NODE_SEND_DESTROY | LE_NODE_SEND_REVOKE | LE_NODE_SEND_FORGET;

	/* belief rests on both requests, and only while the session is live */
	check((after->deadline != 0) == (after->state == LE_NODE_LIVE));
	if (after->deadline != 0)
		check(after->deadline + after->timing.margin <=
			  after->proof_sent + after->timing.lease &&
			  after->deadline + after->timing.margin <=
			  after->renew_sent + after->timing.session_ttl);
	check(act->terms_end == (before->deadline != 0 && after->deadline == 0));
	check(act->deadline_moved == (before->deadline != after->deadline));
	check(act->became_live == (before->deadline == 0 && after->deadline != 0));
	check(!act->terms_end || act->reason != LE_REASON_NONE);
	if (after->deadline > before->deadline)
		check(before->state == LE_NODE_REGISTERING ||
			  ev->now < before->deadline);
	check((act->send & leaving) == 0 || after->deadline == 0);
	check((act->send & LE_NODE_SEND_DESTROY) == 0 ||
		  before->state == LE_NODE_DESTROYING ||
		  (ev->kind == LE_NODE_IN_LISTED && ev->held == 0));

	/* numbers are never used twice, late answers never count */
	check((after->seq == before->seq + 1) ==
		  ((act->send & (LE_NODE_SEND_PROOF | LE_NODE_SEND_REGISTER)) != 0) ||
		  (act->send & LE_NODE_SEND_CREATE) != 0);
	check(after->epoch != before->epoch ||
		  ((act->send & LE_NODE_SEND_CREATE) == 0 && !act->terms_end));
	check((act->send & LE_NODE_SEND_PROOF) == 0 || after->proving);
	check((act->send & LE_NODE_SEND_RENEW) == 0 || after->renewing);
	check(act->send == 0 || act->timeout > 0);
	check(memcmp(&before->timing, &after->timing, sizeof(LeTiming)) == 0 ||
		  (act->send & LE_NODE_SEND_CREATE) != 0);

	/* something leads on: a request, a timer, or the wish for a session */
	if (after->state == LE_NODE_LIVE)
		check(le_node_timer(after) != 0);
	else if (after->state != before->state && after->state != LE_NODE_NONE)
		check(act->send != 0 || le_node_timer(after) != 0);
	check(after->state != LE_NODE_NONE || !after->wanted);
}

#endif							/* LE_CORE_TEST_H */
