/*-------------------------------------------------------------------------
 *
 * node.c
 *		State machine of a node's store session.
 *
 * Belief rests on two requests that are sent once per round, for any number
 * of elections: the renewal that keeps the store from ending the
 * session, and the proof, a write to the node key that succeeds only while
 * the session lives and holds the key.  The renewal alone is no proof, since
 * a deposed leader of the store may answer it; the proof alone does not keep
 * the session.  The deadline follows the older of the two.
 *
 * A proof counts only if the node key's index has moved: the store answers an
 * identical rewrite without looking further.  Hence every attempt carries a
 * number never used before in the session.
 *
 * A deadline that has passed is final for its session.  The session is then
 * taken out of the store, release by release, before another is created, so
 * that no request still in flight in its name can ever count.
 *
 * src/core/node.c
 *
 *-------------------------------------------------------------------------
 */
#include "core/node.h"

typedef void (*Handler) (LeNode *n, const LeNodeInput *in, LeNodeActions *act);

/* ---- small steps that the handlers share ---- */

/* The timeout is for each request of the step; the shortest suits all. */
static void
request(LeNodeActions *act, unsigned what, le_duration timeout)
{
	if (act->send == 0 || timeout < act->timeout)
		act->timeout = timeout;
	act->send |= what;
}

static void
step(LeNode *n, LeNodeActions *act, LeNodeState state, unsigned what)
{
	n->state = state;
	n->step_at = 0;
	request(act, what, n->timing.request_timeout);
}

static void
step_failed(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	n->step_failures++;
	n->step_at = in->now + le_retry_delay(&n->timing, n->step_failures,
										  in->random);
	act->failed = true;
	act->outcome = in->outcome;
}

static void
end_terms(LeNode *n, LeNodeActions *act, LeReason reason)
{
	if (n->deadline == 0)
		return;
	n->deadline = 0;
	act->deadline_moved = true;
	act->terms_end = true;
	act->reason = reason;
}

static void
create(LeNode *n, LeNodeActions *act)
{
	n->timing = n->next_timing;
	n->epoch++;
	n->gone = false;
	n->renewing = n->proving = n->prove_again = false;
	n->seq = 0;
	n->proof_index = 0;
	n->proof_failures = n->renew_failures = 0;
	n->destroyed = false;
	step(n, act, LE_NODE_CREATING, LE_NODE_SEND_CREATE);
}

static void
finished(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	n->state = LE_NODE_NONE;
	n->step_at = 0;
	n->step_failures = 0;
	act->ended = true;
	if (!n->wanted)
		return;
	if (n->setup_failures == 0)
		create(n, act);
	else
	{
		/* Sessions that cannot be used must not be made in a tight loop. */
		n->state = LE_NODE_CREATING;
		n->step_at = in->now + le_retry_delay(&n->timing, n->setup_failures,
											  in->random);
	}
}

/* Belief is over; take the session out of the store. */
static void
leave_store(LeNode *n, LeNodeActions *act, LeReason reason)
{
	end_terms(n, act, reason);
	n->epoch++;					/* answers to proofs are of no use any more */
	n->renewing = n->proving = n->prove_again = false;
	n->step_failures = 0;
	if (n->gone)
		step(n, act, LE_NODE_REVOKING, LE_NODE_SEND_REVOKE);
	else
		step(n, act, LE_NODE_LISTING, LE_NODE_SEND_LIST);
}

static void
session_gone(LeNode *n, LeNodeActions *act)
{
	n->gone = true;
	leave_store(n, act, LE_REASON_SESSION_LOST);
}

static void
send_proof(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	n->proving = true;
	n->prove_again = false;
	n->seq++;
	request(act, LE_NODE_SEND_PROOF,
			le_attempt_timeout(&n->timing, in->now, n->deadline,
							   n->proof_failures));
}

static void
send_renewal(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	n->renewing = true;
	request(act, LE_NODE_SEND_RENEW,
			le_attempt_timeout(&n->timing, in->now, n->deadline,
							   n->renew_failures));
}

/* How far do the newest proof and renewal carry? */
static void
extend(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	le_time		deadline = le_deadline(&n->timing, n->proof_sent,
									   n->renew_sent);

	if (!le_believes(in->now, n->deadline))
		leave_store(n, act, LE_REASON_EXPIRED);
	else if (deadline > n->deadline)
	{
		n->deadline = deadline;
		act->deadline_moved = true;
	}
}

/* ---- handlers, by the state they serve ---- */

static void
want_none(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	(void) in;
	n->wanted = true;
	n->step_failures = 0;
	create(n, act);
}

static void
want_noted(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	(void) in;
	(void) act;
	n->wanted = true;
}

static void
unwant_noted(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	(void) in;
	(void) act;
	n->wanted = false;
}

/* While waiting to create again there is nothing in the store to remove. */
static void
unwant_creating(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	n->wanted = false;
	if (n->step_at != 0)
		finished(n, in, act);
}

static void
unwant_live(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	(void) in;
	n->wanted = false;
	leave_store(n, act, LE_REASON_RELEASED);
}

static void
created(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	/* The store counts the session's time from the create request on. */
	n->renew_sent = in->sent;
	n->step_failures = 0;
	if (n->wanted)
		step(n, act, LE_NODE_VERIFYING, LE_NODE_SEND_VERIFY);
	else
		leave_store(n, act, LE_REASON_RELEASED);
}

/*
 * A create that may have been applied leaves an empty session behind that goes
 * away by itself; another attempt makes another session.
 */
static void
create_failed(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	if (n->wanted)
		step_failed(n, in, act);
	else
		finished(n, in, act);
}

static void
verified(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	(void) in;
	n->seq++;
	step(n, act, LE_NODE_REGISTERING, LE_NODE_SEND_REGISTER);
}

/*
 * The session differs from the one asked for, or could not be read, or its
 * node key could not be written: do not build on it.
 */
static void
setup_failed(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	n->setup_failures++;
	act->failed = true;
	act->outcome = in->outcome;
	if (in->outcome == LE_LOST)
		n->gone = true;
	leave_store(n, act, LE_REASON_SESSION_LOST);
}

static void
registered(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	le_time		deadline = le_deadline(&n->timing, in->sent, n->renew_sent);

	if (!n->wanted || !le_believes(in->now, deadline))
	{
		leave_store(n, act, LE_REASON_RELEASED);
		return;
	}
	n->state = LE_NODE_LIVE;
	n->step_at = 0;
	n->step_failures = 0;
	n->setup_failures = 0;
	n->proof_index = in->index;
	n->proof_sent = in->sent;
	n->deadline = deadline;
	n->prove_at = le_next_proof(&n->timing, in->sent, in->random);
	n->renew_at = le_next_renewal(&n->timing, n->renew_sent, in->random);
	act->deadline_moved = true;
	act->became_live = true;
}

static void
session_renewed(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	n->renewing = false;
	n->renew_failures = 0;
	if (in->sent > n->renew_sent)
		n->renew_sent = in->sent;
	n->renew_at = le_next_renewal(&n->timing, in->sent, in->random);
	extend(n, in, act);
}

static void
renew_failed(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	n->renewing = false;
	if (in->outcome == LE_LOST)
	{
		session_gone(n, act);
		return;
	}
	n->renew_failures++;
	n->renew_at = in->now + le_retry_delay(&n->timing, n->renew_failures,
										   in->random);
	act->failed = true;
	act->outcome = in->outcome;
}

static void
proof_retry(LeNode *n, const LeNodeInput *in)
{
	n->proof_failures++;
	n->prove_at = in->now + le_retry_delay(&n->timing, n->proof_failures,
										   in->random);
}

static void
proved(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	n->proving = false;
	if (in->index <= n->proof_index)
	{
		/* "Applied", but nothing was written: no proof. */
		proof_retry(n, in);
		return;
	}
	n->proof_index = in->index;
	n->proof_failures = 0;
	if (in->sent > n->proof_sent)
		n->proof_sent = in->sent;
	n->prove_at = le_next_proof(&n->timing, in->sent, in->random);
	extend(n, in, act);
	if (n->state == LE_NODE_LIVE && n->prove_again)
		send_proof(n, in, act);
}

static void
proof_failed(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	n->proving = false;
	if (in->outcome == LE_LOST)
	{
		/* The list will show if the session still lives. */
		leave_store(n, act, LE_REASON_SESSION_LOST);
		return;
	}
	proof_retry(n, in);
	if (in->outcome == LE_CONFLICT && n->proof_failures < LE_ATTEMPTS)
	{
		/* The caller has dropped the lost keys from the next proof. */
		send_proof(n, in, act);
		return;
	}
	act->failed = true;
	act->outcome = in->outcome;
}

/* Would the session's renewal hold back the deadline of a proof sent now? */
static bool
renewal_is_behind(const LeNode *n, le_time now)
{
	return n->renew_sent + n->timing.session_ttl < now + n->timing.lease;
}

static void
prove_now(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	if (!le_believes(in->now, n->deadline))
	{
		leave_store(n, act, LE_REASON_EXPIRED);
		return;
	}
	if (n->proving)
		n->prove_again = true;
	else
		send_proof(n, in, act);
	if (!n->renewing && renewal_is_behind(n, in->now))
		send_renewal(n, in, act);
}

/* Is this request of the round due, or within "ahead" and no retry? */
static bool
due_within(const LeNodeInput *in, bool under_way, int failures, le_time at,
		   le_duration ahead)
{
	return !under_way && in->now >= at - (failures == 0 ? ahead : 0);
}

/*
 * When one of the two is due, the other goes along if only the jitter keeps
 * them apart: that spares the worker a wake-up in each round.
 */
static void
live_timer(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	le_duration ahead = le_most_jitter(n->timing.renew_interval);

	if (!le_believes(in->now, n->deadline))
	{
		leave_store(n, act, LE_REASON_EXPIRED);
		return;
	}
	if (in->now < le_node_timer(n))
		return;
	if (due_within(in, n->proving, n->proof_failures, n->prove_at, ahead))
		send_proof(n, in, act);
	if (due_within(in, n->renewing, n->renew_failures, n->renew_at, ahead))
		send_renewal(n, in, act);
}

static void
list_later(LeNode *n, const LeNodeInput *in)
{
	n->step_failures++;
	n->state = LE_NODE_LISTING;
	n->step_at = in->now + le_retry_delay(&n->timing, n->step_failures,
										  in->random);
}

/*
 * Only a consistent list that shows no key of the session, sent when none of
 * its acquires was under way, allows to destroy it: destroying a session that
 * holds keys starts the lock-delay of each for everyone, this node included.
 */
static void
held_keys_listed(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	n->named = in->named;
	n->unlocks = in->held;
	if (in->held > 0)
		step(n, act, LE_NODE_UNLOCKING, LE_NODE_SEND_UNLOCKS);
	else if (in->early)
		list_later(n, in);
	else
	{
		n->step_failures = 0;
		step(n, act, LE_NODE_DESTROYING, LE_NODE_SEND_DESTROY);
	}
}

/*
 * The next list shows the keys that are left, after any answers.  It is asked
 * for at once only the first time: a key that cannot be released must not
 * keep the store busy.
 */
static void
unlocked(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	if (n->unlocks > 0)
		n->unlocks--;
	if (n->unlocks > 0)
		return;
	if (n->step_failures == 0)
	{
		n->step_failures++;
		step(n, act, LE_NODE_LISTING, LE_NODE_SEND_LIST);
	}
	else
		list_later(n, in);
}

/*
 * Waiters would wait for a free key that names this session and does not say
 * released; the mark on the node key tells them that they need not.
 */
static void
destroyed(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	(void) in;
	n->gone = true;
	n->destroyed = true;
	n->step_failures = 0;
	if (n->named > 0)
		step(n, act, LE_NODE_REVOKING, LE_NODE_SEND_REVOKE);
	else
		step(n, act, LE_NODE_FORGETTING, LE_NODE_SEND_FORGET);
}

/*
 * The mark and the deletion help others; nothing depends on them, so any
 * answer of the store suffices.  But if the mark is refused for a session that
 * only a renewal reported gone, that report may have come from a new leader of
 * the store that did not know better: the session may live and hold keys, so
 * it is ended like any other.
 */
static void
farewell_failed(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	if (in->outcome == LE_CONFLICT && !n->destroyed)
	{
		n->gone = false;
		step(n, act, LE_NODE_LISTING, LE_NODE_SEND_LIST);
	}
	else if (in->outcome == LE_UNAVAILABLE || in->outcome == LE_UNKNOWN)
		step_failed(n, in, act);
	else
		finished(n, in, act);
}

static void
step_again(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	static const unsigned what[LE_NODE_NSTATES] = {
		[LE_NODE_VERIFYING] = LE_NODE_SEND_VERIFY,
		[LE_NODE_LISTING] = LE_NODE_SEND_LIST,
		[LE_NODE_DESTROYING] = LE_NODE_SEND_DESTROY,
		[LE_NODE_REVOKING] = LE_NODE_SEND_REVOKE,
		[LE_NODE_FORGETTING] = LE_NODE_SEND_FORGET,
	};

	if (n->step_at != 0 && in->now >= n->step_at)
		step(n, act, n->state, what[n->state]);
}

static void
create_timer(LeNode *n, const LeNodeInput *in, LeNodeActions *act)
{
	if (n->step_at == 0 || in->now < n->step_at)
		return;
	if (n->wanted)
		create(n, act);
	else
		finished(n, in, act);
}

/* The table; an empty cell means that the input changes nothing. */
#define ROW		[LE_NODE_NINPUTS]

static const Handler table[LE_NODE_NSTATES] ROW = {
	[LE_NODE_NONE] = {
		[LE_NODE_IN_WANT] = want_none,
		[LE_NODE_IN_UNWANT] = unwant_noted,
	},
	[LE_NODE_CREATING] = {
		[LE_NODE_IN_WANT] = want_noted,
		[LE_NODE_IN_UNWANT] = unwant_creating,
		[LE_NODE_IN_DONE] = created,
		[LE_NODE_IN_FAILED] = create_failed,
		[LE_NODE_IN_TIMER] = create_timer,
	},
	[LE_NODE_VERIFYING] = {
		[LE_NODE_IN_WANT] = want_noted,
		[LE_NODE_IN_UNWANT] = unwant_noted,
		[LE_NODE_IN_DONE] = verified,
		[LE_NODE_IN_FAILED] = setup_failed,
	},
	[LE_NODE_REGISTERING] = {
		[LE_NODE_IN_WANT] = want_noted,
		[LE_NODE_IN_UNWANT] = unwant_noted,
		[LE_NODE_IN_DONE] = registered,
		[LE_NODE_IN_FAILED] = setup_failed,
	},
	[LE_NODE_LIVE] = {
		[LE_NODE_IN_WANT] = want_noted,
		[LE_NODE_IN_UNWANT] = unwant_live,
		[LE_NODE_IN_RENEWED] = session_renewed,
		[LE_NODE_IN_RENEW_FAILED] = renew_failed,
		[LE_NODE_IN_PROVED] = proved,
		[LE_NODE_IN_PROOF_FAILED] = proof_failed,
		[LE_NODE_IN_PROVE_NOW] = prove_now,
		[LE_NODE_IN_TIMER] = live_timer,
	},
	[LE_NODE_LISTING] = {
		[LE_NODE_IN_WANT] = want_noted,
		[LE_NODE_IN_UNWANT] = unwant_noted,
		[LE_NODE_IN_LISTED] = held_keys_listed,
		[LE_NODE_IN_FAILED] = step_failed,
		[LE_NODE_IN_TIMER] = step_again,
	},
	[LE_NODE_UNLOCKING] = {
		[LE_NODE_IN_WANT] = want_noted,
		[LE_NODE_IN_UNWANT] = unwant_noted,
		[LE_NODE_IN_UNLOCKED] = unlocked,
	},
	[LE_NODE_DESTROYING] = {
		[LE_NODE_IN_WANT] = want_noted,
		[LE_NODE_IN_UNWANT] = unwant_noted,
		[LE_NODE_IN_DONE] = destroyed,
		[LE_NODE_IN_FAILED] = step_failed,
		[LE_NODE_IN_TIMER] = step_again,
	},
	[LE_NODE_REVOKING] = {
		[LE_NODE_IN_WANT] = want_noted,
		[LE_NODE_IN_UNWANT] = unwant_noted,
		[LE_NODE_IN_DONE] = finished,
		[LE_NODE_IN_FAILED] = farewell_failed,
		[LE_NODE_IN_TIMER] = step_again,
	},
	[LE_NODE_FORGETTING] = {
		[LE_NODE_IN_WANT] = want_noted,
		[LE_NODE_IN_UNWANT] = unwant_noted,
		[LE_NODE_IN_DONE] = finished,
		[LE_NODE_IN_FAILED] = farewell_failed,
		[LE_NODE_IN_TIMER] = step_again,
	},
};

void
le_node_init(LeNode *n)
{
	*n = (LeNode)
	{
		.state = LE_NODE_NONE
	};
}

/*
 * Start by ending the session of this node's previous incarnation, which the
 * caller has proven dead.  The timing is that session's; this node's own is
 * set with le_node_set_timing().  The next LE_NODE_IN_TIMER sends the first
 * request.
 */
void
le_node_adopt_predecessor(LeNode *n, const LeTiming *timing, le_time now)
{
	n->timing = *timing;
	n->state = LE_NODE_LISTING;
	n->step_at = now;
	n->epoch++;
}

/*
 * A new worker found the machine as its predecessor left it: every request in
 * flight is lost, and its outcome unknown.  Unless the node is live, it may
 * have no term: the caller ends those it finds.
 */
void
le_node_resume(LeNode *n, le_time now)
{
	n->epoch++;
	n->renewing = n->proving = n->prove_again = false;
	switch (n->state)
	{
		case LE_NODE_NONE:
			break;
		case LE_NODE_LIVE:
			n->prove_at = n->renew_at = now;
			break;
		case LE_NODE_CREATING:
			n->step_at = now;
			break;
		case LE_NODE_VERIFYING:
		case LE_NODE_REGISTERING:
		case LE_NODE_UNLOCKING:
			n->state = LE_NODE_LISTING;
			n->step_at = now;
			break;
		default:
			n->step_at = now;
			break;
	}
}

/* Changed settings count from the next session on. */
void
le_node_set_timing(LeNode *n, const LeTiming *timing)
{
	n->next_timing = *timing;
	if (n->state == LE_NODE_NONE)
		n->timing = *timing;
}

LeNodeActions
le_node_input(LeNode *n, const LeNodeInput *input)
{
	LeNodeActions act = {0};
	Handler		handler = table[n->state][input->kind];

	if (handler != NULL)
		handler(n, input, &act);
	return act;
}

/* When does the machine want LE_NODE_IN_TIMER?  0: never. */
le_time
le_node_timer(const LeNode *n)
{
	le_time		next;

	if (n->state != LE_NODE_LIVE)
		return n->step_at;
	next = n->deadline;
	if (!n->proving)
		next = le_earliest(next, n->prove_at);
	if (!n->renewing)
		next = le_earliest(next, n->renew_at);
	return next;
}
