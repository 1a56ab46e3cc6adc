/*-------------------------------------------------------------------------
 *
 * election.c
 *		State machine of one election as one node sees it.
 *
 * Three rules shape the table below.
 *
 * One request at a time: while a write is in flight or its outcome is not
 * known, no other is sent, and a wish that arrives meanwhile (to release, to
 * publish) waits for it.
 *
 * Every write names the index of the key that it was decided on, so of any
 * two writes based on the same index at most one is ever applied, however
 * late a copy arrives.  Resolving an unknown outcome therefore means to read
 * the key and, if its index has not moved, to send the same write again:
 * once one copy is applied the other must fail.  Until the index has moved
 * the earlier copies stay unresolved, whatever becomes of the newest.
 *
 * Belief ends before the store is told: an action that ends a term is
 * carried out before the request that goes with it is sent.
 *
 * src/core/election.c
 *
 *-------------------------------------------------------------------------
 */
#include "core/election.h"

typedef void (*Handler) (LeElection *e, const LeInput *in, LeActions *act);

/* ---- sub-states that a state's name does not show ---- */

/* Is this write, or the next, a copy of one that may still be in flight? */
bool
le_election_is_repeating(const LeElection *e)
{
	return e->failures > 0;
}

/* Does it wait for an instant?  If not, for an answer or for the node. */
static bool
has_timer(const LeElection *e)
{
	return e->timer_at != 0;
}

/* Does this candidate wait for another holder of the key? */
static bool
awaits_holder(const LeElection *e)
{
	return e->look_at != 0;
}

/* ---- small steps that the handlers share ---- */

static void
send(LeElection *e, LeActions *act, LeSend what, uint64_t index, LeState next)
{
	e->state = next;
	e->timer_at = 0;
	e->look_at = 0;
	e->request++;
	act->send = what;
	act->index = index;
}

static void
set_verdict(LeActions *act, LeVerdict verdict, LeOutcome outcome)
{
	act->verdict = verdict;
	act->outcome = outcome;
}

static void
end_term(LeElection *e, LeActions *act, LeReason reason)
{
	if (e->token == 0)
		return;
	e->token = 0;
	e->deadline = e->renew_at = 0;
	e->renewing = false;		/* answers to an earlier term's are dropped */
	e->drain_until = 0;
	act->term_ends = true;
	act->reason = reason;
}

static void
wait_until(LeElection *e, le_time when)
{
	e->state = LE_WAITING;
	e->timer_at = when;
	e->tries = 0;
}

static void
retry_later(LeElection *e, const LeInput *in)
{
	e->failures++;
	e->tries = 0;
	e->timer_at = in->now +
		le_retry_delay(in->timing, e->failures, in->random);
}

static void
read_key(LeElection *e, LeActions *act, LeState next)
{
	send(e, act, LE_SEND_READ, 0, next);
}

static void
release(LeElection *e, LeActions *act, uint64_t index)
{
	send(e, act, LE_SEND_RELEASE, index, LE_RELEASING);
}

/*
 * A copy of the last attempt may be in flight only while it is repeated; the
 * highest token before the first copy counts for all of them.
 */
static void
attempt(LeElection *e, LeActions *act, LeSend what, uint64_t index)
{
	e->attempt.index = index;
	e->attempt.unsure = e->attempt.unsure && le_election_is_repeating(e);
	if (!le_election_is_repeating(e))
	{
		e->attempt.number++;
		e->attempt.floor = e->token_floor;
	}
	e->attempt.takeover = what == LE_SEND_TAKE_OVER;
	send(e, act, what, index, LE_ACQUIRING);
}

static void
acquire(LeElection *e, LeActions *act, uint64_t index)
{
	attempt(e, act, LE_SEND_ACQUIRE, index);
}

static void
take_over(LeElection *e, LeActions *act, uint64_t index)
{
	attempt(e, act, LE_SEND_TAKE_OVER, index);
}

/* Does this candidate wait since its writes were all in vain? */
static bool
rests(const LeElection *e)
{
	return e->state == LE_WAITING && e->tries > 0;
}

/*
 * A candidate writes.  Each write is on what it was shown last, so one in vain
 * means that the key has changed since; but views may be wrong again and
 * again, as after the store has gone back, and then each leads to the next
 * write at once.  So after a few of them it rests, and writes one at a time.
 */
static void
try_to(LeElection *e, const LeInput *in, LeActions *act, LeSend what,
	   uint64_t index)
{
	if (e->tries >= LE_ATTEMPTS)
	{
		wait_until(e, in->now + le_retry_delay(in->timing, LE_ATTEMPTS,
											   in->random));
		e->tries = LE_ATTEMPTS - 1;
		return;
	}
	e->tries++;
	if (what == LE_SEND_RELEASE)
		release(e, act, index);
	else
		attempt(e, act, what, index);
}

/*
 * Keep whether the key is free for any node.  However old this view is, an
 * acquire that depends on the index needs no read before: if another node came
 * first it is refused, and then the key is read.  A key with a lease of its
 * own depends on more than its index.
 */
static void
note_free(LeElection *e, const LeKeyView *v)
{
	e->free = !v->own_lease && v->holder == LE_KEY_FREE &&
		(!v->exists || (v->usable && v->released));
	e->free_index = v->exists ? v->index : 0;
}

/* A candidate begins: with the free key last seen, once, or with a read. */
static void
seek(LeElection *e, LeActions *act)
{
	e->failures = 0;
	if (e->free)
		acquire(e, act, e->free_index);
	else
		read_key(e, act, LE_READING);
	e->free = false;
}

/* Nothing is held or in flight: seek again, or go idle. */
static void
start_over(LeElection *e, LeActions *act)
{
	e->seen_index = 0;
	e->failures = 0;
	if (e->wanted)
		seek(e, act);
	else
	{
		e->state = LE_IDLE;
		e->timer_at = 0;
		e->tries = 0;
	}
}

/*
 * When to read again a key that another holds?  At the time of a takeover, if
 * the store allows one, but not all waiters at once; and once per lease in any
 * case: the watch may have shown the change already while the read was in
 * flight, or may be silent for long.
 */
static void
wait_for_holder(LeElection *e, const LeInput *in, le_time silent_at)
{
	le_duration spread = le_earliest(in->timing->lease / 20, LE_SEC / 4);
	le_time		look = e->look_at;

	if (silent_at != 0)
		look = le_earliest(look, silent_at + le_jitter(spread, in->random));
	wait_until(e, look);
}

/*
 * When may a free key be taken whose last holder never said that it stopped
 * believing?  A whole lease of that holder after the *receipt* of the first
 * answer that showed the key at this index.  The holder cannot have had a
 * proof of its term after the write that freed the key, and that write is
 * older than the answer.
 */
static le_time
unreleased_until(LeElection *e, const LeInput *in)
{
	if (e->seen_index != in->view->index)
	{
		e->seen_index = in->view->index;
		e->seen_at = in->now;
	}
	return e->seen_at + in->view->holder_lease;
}

/*
 * Has the holder been silent for its whole lease since the receipt of its
 * last sign of life?  Then its belief is over, and the store refuses the
 * takeover if the holder comes to life meanwhile.
 */
static bool
silent(const LeKeyView *v, le_time now)
{
	return v->holder_ended || (v->silent_at != 0 && v->silent_at <= now);
}

/* A candidate learnt the key's state: take it, wait, or give up on it. */
static void
judge_key(LeElection *e, const LeInput *in, LeActions *act)
{
	const LeKeyView *v = in->view;
	le_time		until;

	e->failures = 0;
	if (v->exists && !v->usable)
	{
		set_verdict(act, LE_SAY_FAILED, LE_REFUSED);
		wait_until(e, in->now + in->timing->lease);
	}
	else if (v->holder == LE_KEY_OURS)
		try_to(e, in, act, LE_SEND_RELEASE, v->index);	/* it has no term */
	else if (v->holder == LE_KEY_OTHER && silent(v, in->now))
		try_to(e, in, act, LE_SEND_TAKE_OVER, v->index);
	else if (v->holder == LE_KEY_OTHER)
	{
		e->seen_index = 0;
		e->look_at = in->now + in->timing->lease -
			le_jitter(in->timing->lease / 10, in->random);
		set_verdict(act, LE_SAY_DENIED, LE_DONE);
		wait_for_holder(e, in, v->silent_at);
	}
	else if (in->now < e->refused_until)
	{
		set_verdict(act, LE_SAY_TOKEN_WENT_BACK, LE_REFUSED);
		wait_until(e, e->refused_until);
	}
	else if (!v->exists || v->released || v->holder_ended)
		try_to(e, in, act, LE_SEND_ACQUIRE, v->exists ? v->index : 0);
	else if ((until = unreleased_until(e, in)) <= in->now)
		try_to(e, in, act, LE_SEND_ACQUIRE, v->index);
	else
	{
		set_verdict(act, LE_SAY_DENIED, LE_DONE);
		wait_until(e, until + le_jitter(in->timing->lease / 20, in->random));
	}
}

/*
 * The answer to a write says until when the term may be trusted, counted from
 * the sending of its request.  An earlier proof that carries further stays
 * valid.
 */
static void
trust(LeElection *e, const LeInput *in, LeActions *act)
{
	if (in->deadline == 0)
		return;
	e->renew_failures = 0;
	e->renew_at = le_next_proof(in->timing, in->sent, in->random);
	if (in->deadline <= e->deadline)
		return;
	e->deadline = in->deadline;
	act->deadline_moved = true;
}

/*
 * The same for a term that goes on.  A deadline that has passed is final,
 * for any answer.
 */
static void
extend(LeElection *e, const LeInput *in, LeActions *act)
{
	if (e->token == 0 || e->deadline == 0)
		return;
	if (le_believes(in->now, e->deadline))
		trust(e, in, act);
	else
		end_term(e, act, LE_REASON_EXPIRED);
}

static void
begin_term(LeElection *e, const LeInput *in, LeActions *act, uint64_t index)
{
	e->token = index;
	e->token_floor = index;
	e->state = LE_HELD;
	e->timer_at = 0;
	e->tries = 0;
	e->seen_index = 0;
	e->deadline = 0;
	e->renews_apart = in->renews_apart;
	trust(e, in, act);
	/* Terms that began together are not renewed together for ever. */
	if (in->deadline != 0)
		e->renew_at = in->sent + in->timing->renew_interval -
			le_jitter(in->timing->renew_interval / 2, in->random);
	act->term_begins = true;
	set_verdict(act, LE_SAY_GRANTED, LE_DONE);
}

/* The key is ours at this index: the acquire was applied. */
static void
acquired(LeElection *e, const LeInput *in, LeActions *act, uint64_t index)
{
	e->failures = 0;
	e->write_index = index;
	if (index > e->attempt.floor && index <= e->token_floor)
	{
		/*
		 * The key has been seen since, newer, and not as ours: the grant was
		 * gone before its answer came.
		 */
		act->unresolved = true;
		set_verdict(act, LE_SAY_FAILED, LE_UNKNOWN);
		start_over(e, act);
	}
	else if (index <= e->token_floor)
	{
		/*
		 * A store that was rebuilt: its tokens would not fence anything.  The
		 * next one is hardly higher, so do not try at once.
		 */
		e->refused_until = in->now + in->timing->lease;
		set_verdict(act, LE_SAY_TOKEN_WENT_BACK, LE_REFUSED);
		act->reason = LE_REASON_TOKEN;
		release(e, act, index);
	}
	else if (!e->wanted)
	{
		act->unresolved = true; /* for waiters, during a hold-off */
		release(e, act, index);
	}
	else if (in->deadline != 0 && !le_believes(in->now, in->deadline))
	{
		/* Learnt too late: no belief is left in the lease. */
		act->unresolved = true;
		set_verdict(act, LE_SAY_FAILED, LE_UNKNOWN);
		release(e, act, index);
	}
	else
		begin_term(e, in, act, index);
}

/* A term goes on after the answer to its write, unless it was given up. */
static void
held_again(LeElection *e, LeActions *act)
{
	e->failures = 0;
	if (e->drain_until != 0)
	{
		e->state = LE_DRAINING;
		e->timer_at = e->drain_until;
	}
	else if (e->wanted && e->token != 0)
	{
		e->state = LE_HELD;
		e->timer_at = 0;
	}
	else
		release(e, act, e->write_index);
}

static void
lose_term(LeElection *e, LeActions *act, LeReason reason)
{
	bool		expected = e->token == 0 || e->drain_until != 0;

	end_term(e, act, reason);
	start_over(e, act);
	if (!expected)
		set_verdict(act, LE_SAY_LOST, LE_DONE);
	else
		set_verdict(act, LE_SAY_RELEASED, LE_DONE);
}

/* ---- handlers, by the state they serve ---- */

static void
want(LeElection *e, const LeInput *in, LeActions *act)
{
	e->wanted = true;
	e->free = e->free && in->now >= e->refused_until;
	seek(e, act);
}

/* The write in flight comes first; its answer will find the wish. */
static void
want_noted(LeElection *e, const LeInput *in, LeActions *act)
{
	(void) in;
	(void) act;
	e->wanted = true;
}

static void
unwant_candidate(LeElection *e, const LeInput *in, LeActions *act)
{
	(void) in;
	(void) act;
	e->wanted = false;
	e->state = LE_IDLE;
	e->timer_at = 0;
	e->look_at = 0;
	e->failures = e->tries = 0;
	e->request++;				/* an answer to the read is of no use now */
}

static void
unwant_noted(LeElection *e, const LeInput *in, LeActions *act)
{
	(void) in;
	e->wanted = false;
	end_term(e, act, LE_REASON_RELEASED);
}

static void
unwant_holder(LeElection *e, const LeInput *in, LeActions *act)
{
	(void) in;
	e->wanted = false;
	end_term(e, act, LE_REASON_RELEASED);
	release(e, act, e->write_index);
}

/*
 * The term is to end in good order: belief goes on for the sessions bound
 * to it, and the caller, which counts them, says when the last is done.  If
 * asked again, the shorter patience counts.
 */
static void
drain_noted(LeElection *e, const LeInput *in, LeActions *act)
{
	if (e->token == 0)
		return;					/* it was given up before */
	e->wanted = false;
	e->drain_until = le_earliest(e->drain_until, in->until);
	act->term_drains = true;
}

static void
drain_holder(LeElection *e, const LeInput *in, LeActions *act)
{
	drain_noted(e, in, act);
	e->state = LE_DRAINING;
	e->timer_at = e->drain_until;
}

static void
read_again(LeElection *e, const LeInput *in, LeActions *act)
{
	(void) in;
	read_key(e, act, e->state == LE_WAITING ? LE_READING : e->state);
}

static void
candidate_read_failed(LeElection *e, const LeInput *in, LeActions *act)
{
	set_verdict(act, LE_SAY_FAILED, in->outcome);
	e->state = LE_WAITING;
	retry_later(e, in);
}

/*
 * With no candidate the only task is to release a key left behind.  An answer
 * older than the free key says nothing about it.
 */
static void
idle_seen(LeElection *e, const LeInput *in, LeActions *act)
{
	if (!e->free || in->view->as_of >= e->free_index)
		note_free(e, in->view);
	if (in->view->holder == LE_KEY_OURS)
		release(e, act, in->view->index);
}

/*
 * The watch may be old, but the write that follows is conditional on the index
 * it showed.  An older one must not restart a wait that the timer is counting,
 * and none shortens a rest.
 */
static void
waiting_seen(LeElection *e, const LeInput *in, LeActions *act)
{
	if (!has_timer(e) || (in->view->index >= e->seen_index && !rests(e)))
		judge_key(e, in, act);
}

static void
unsure_read_failed(LeElection *e, const LeInput *in, LeActions *act)
{
	(void) act;
	switch (e->state)
	{
		case LE_PUBLISH_UNSURE:
			set_verdict(act, LE_SAY_PUBLISH_FAILED, LE_UNKNOWN);
			break;
		case LE_RELEASE_UNSURE:
			set_verdict(act, LE_SAY_RELEASE_FAILED, LE_UNKNOWN);
			break;
		default:
			set_verdict(act, LE_SAY_FAILED, LE_UNKNOWN);
			break;
	}
	retry_later(e, in);
}

/*
 * The outcome of a write is unknown, or a copy of it was in its way: only the
 * key can tell.  A store that answers reads but loses every write must not be
 * asked in a tight loop, nor must waiters be left without an answer.
 */
static void
read_back(LeElection *e, const LeInput *in, LeActions *act, LeState next)
{
	e->state = next;
	if (e->failures < LE_ATTEMPTS)
	{
		e->failures++;
		read_key(e, act, next);
	}
	else
		unsure_read_failed(e, in, act);
}

/* A sign of life moves the time at which the holder may be taken over. */
static void
waiting_holder(LeElection *e, const LeInput *in, LeActions *act)
{
	(void) act;
	if (awaits_holder(e))
		wait_for_holder(e, in, in->silent_at);
}

static void
acquire_done(LeElection *e, const LeInput *in, LeActions *act)
{
	acquired(e, in, act, in->index);
}

/*
 * Another holds the key, and no copy of ours can be the cause.  A read would
 * tell nothing better: where a grant takes two steps the key looks free until
 * the holder has written its name, and for a whole lease if it dies before.
 */
static void
acquire_denied(LeElection *e, const LeInput *in, LeActions *act)
{
	le_duration tenth = in->timing->lease / 10;

	e->failures = 0;
	e->seen_index = 0;
	if (!e->wanted)
	{
		start_over(e, act);
		return;
	}
	set_verdict(act, LE_SAY_DENIED, LE_DONE);
	wait_until(e, in->now + tenth + le_jitter(tenth, in->random));
}

/*
 * The answer is about this copy only.  After a first copy that is all; if it
 * is a later one, an earlier copy may have stood in its way, and the key may
 * be ours.
 */
static void
acquire_conflict(LeElection *e, const LeInput *in, LeActions *act)
{
	if (in->conflict == LE_CONFLICT_OWN)
	{
		act->unresolved = true;
		release(e, act, in->index); /* it has no term */
	}
	else if (!e->wanted && !le_election_is_repeating(e))
		start_over(e, act);
	else if (in->conflict == LE_CONFLICT_HELD && !e->attempt.unsure)
		acquire_denied(e, in, act);
	else if (in->conflict == LE_CONFLICT_LOCK_DELAY)
	{
		/* by the time of this answer, an earlier copy may have got it */
		if (e->attempt.unsure)
			set_verdict(act, LE_SAY_FAILED, LE_UNKNOWN);
		else
			set_verdict(act, LE_SAY_DENIED, LE_DONE);
		e->state = le_election_is_repeating(e) ?
			LE_ACQUIRE_UNSURE : LE_WAITING;
		e->tries = 0;
		e->timer_at = in->now + LE_SEC / 2 + le_jitter(LE_SEC, in->random);
	}
	else
		read_back(e, in, act, LE_ACQUIRE_UNSURE);
}

static void
acquire_not_applied(LeElection *e, const LeInput *in, LeActions *act)
{
	if (le_election_is_repeating(e))
	{
		e->state = LE_ACQUIRE_UNSURE;
		unsure_read_failed(e, in, act);
		return;
	}
	set_verdict(act, LE_SAY_FAILED, in->outcome);
	if (e->wanted)
	{
		e->state = LE_WAITING;
		retry_later(e, in);
	}
	else
		start_over(e, act);
}

static void
acquire_unknown(LeElection *e, const LeInput *in, LeActions *act)
{
	e->attempt.unsure = true;
	read_back(e, in, act, LE_ACQUIRE_UNSURE);
}

/*
 * A takeover of unknown outcome, and the key is unchanged.  While the holder
 * is silent the same takeover is sent again.  After a sign of life its node
 * key has moved, so the late copy must fail; a takeover with the new index
 * would depose a live leader.  But the wait also starts anew where only doubts
 * arose about the holder, and then the copy may yet be applied: nobody is told
 * a certain "no".
 */
static void
taken_over_read_back(LeElection *e, const LeInput *in, LeActions *act)
{
	if (silent(in->view, in->now))
		take_over(e, act, e->attempt.index);
	else if (in->view->silent_at == 0)
		unsure_read_failed(e, in, act); /* nothing is known of the holder */
	else
	{
		act->unresolved = e->attempt.unsure;
		if (e->wanted)
			judge_key(e, in, act);
		else
			start_over(e, act);
	}
}

static void
acquire_read_back(LeElection *e, const LeInput *in, LeActions *act)
{
	const LeKeyView *v = in->view;

	if (v->holder == LE_KEY_OURS && !v->own_lease)
		acquired(e, in, act, v->index);
	else if (v->holder == LE_KEY_OURS)
		acquire(e, act, e->attempt.index); /* its answer tells the deadline */
	else if (v->index == e->attempt.index && e->attempt.takeover)
		taken_over_read_back(e, in, act);
	else if (v->index == e->attempt.index)
		acquire(e, act, e->attempt.index); /* the late copy fails, or is it */
	else
	{
		/* The index moved: no copy can apply, but one may have. */
		act->unresolved = e->attempt.unsure;
		if (e->wanted)
			judge_key(e, in, act);
		else
			start_over(e, act);
	}
}

static void
publish(LeElection *e, const LeInput *in, LeActions *act)
{
	(void) in;
	send(e, act, LE_SEND_PUBLISH, e->write_index, LE_PUBLISHING);
}

static void
publish_done(LeElection *e, const LeInput *in, LeActions *act)
{
	e->failures = 0;
	/* The watch may have shown a still newer one before this answer. */
	if (e->write_index < in->index)
		e->write_index = in->index;
	extend(e, in, act);
	set_verdict(act, act->term_ends ? LE_SAY_LOST : LE_SAY_PUBLISHED, LE_DONE);
	held_again(e, act);
}

static void
publish_unsure(LeElection *e, const LeInput *in, LeActions *act)
{
	read_back(e, in, act, LE_PUBLISH_UNSURE);
}

static void
publish_not_applied(LeElection *e, const LeInput *in, LeActions *act)
{
	set_verdict(act, LE_SAY_PUBLISH_FAILED,
				le_election_is_repeating(e) ? LE_UNKNOWN : in->outcome);
	held_again(e, act);
}

/*
 * Still our key: write the value again on the index that it has now.  The
 * store treats an identical rewrite as done, so this also confirms a write
 * whose answer was lost.
 */
static void
publish_read_back(LeElection *e, const LeInput *in, LeActions *act)
{
	if (in->view->holder != LE_KEY_OURS)
		lose_term(e, act, LE_REASON_KEY_LOST);
	else
	{
		e->write_index = in->view->index;
		if (e->token != 0)
			publish(e, in, act);
		else
			release(e, act, e->write_index);
	}
}

/*
 * The key is ours and was written for this term after our last write known to
 * be applied: by a publish whose other copy was refused, as behind a proxy
 * that tries again.  A write that names the old index, such as a claim, would
 * not be applied any more.
 */
static void
own_key_seen(LeElection *e, const LeInput *in, LeActions *act)
{
	(void) act;
	if (in->view->holder == LE_KEY_OURS && !in->view->own_lease &&
		e->token != 0 && in->view->token == e->token &&
		in->view->index > e->write_index)
		e->write_index = in->view->index;
}

/*
 * The watch ends a term only if it shows more than our last write: an older
 * answer shows the key as another node left it.  A late acquire of ours, on a
 * key that was deleted by hand, makes the key ours too, but not by this term.
 */
static void
holder_seen(LeElection *e, const LeInput *in, LeActions *act)
{
	const LeKeyView *v = in->view;
	bool		anew = v->token > e->token && !v->own_lease;

	if (v->holder == LE_KEY_OURS && !anew)
		own_key_seen(e, in, act);
	else if (v->as_of > e->write_index)
		lose_term(e, act, LE_REASON_KEY_LOST);
}

/* Without a term the answer to the write in flight leads on. */
static void
not_ours(LeElection *e, const LeInput *in, LeActions *act)
{
	(void) in;
	if (e->token == 0)
		return;
	e->request++;
	lose_term(e, act, LE_REASON_KEY_LOST);
}

/*
 * The deadline of the term's own lease is final for any later answer.  The key
 * may still be ours in the store, so it is released; while a publish is in
 * flight its answer leads there.
 */
static void
expired(LeElection *e, const LeInput *in, LeActions *act)
{
	if (e->token == 0 || e->deadline == 0 ||
		le_believes(in->now, e->deadline))
		return;
	end_term(e, act, LE_REASON_EXPIRED);
	if (e->state == LE_HELD || e->state == LE_DRAINING)
		release(e, act, e->write_index);
	set_verdict(act, LE_SAY_LOST, LE_DONE);
}

static void
lease_renewed(LeElection *e, const LeInput *in, LeActions *act)
{
	e->renewing = false;
	expired(e, in, act);
	extend(e, in, act);
}

/*
 * An unknown outcome neither extends nor ends: the next attempt finds out.  A
 * renewal whose answer was lost has moved the key; the next one starts at once
 * from there.
 */
static void
renew_failed(LeElection *e, const LeInput *in, LeActions *act)
{
	e->renewing = false;
	if (in->outcome == LE_LOST)
	{
		not_ours(e, in, act);
		return;
	}
	e->renew_failures++;
	e->renew_at = in->now;
	if (in->outcome != LE_CONFLICT || e->renew_failures >= LE_ATTEMPTS)
		e->renew_at += le_retry_delay(in->timing, e->renew_failures,
									  in->random);
}

static void
release_done(LeElection *e, const LeInput *in, LeActions *act)
{
	e->failures = 0;
	e->free = in->kind == LE_IN_DONE && in->suffices &&
		in->now >= e->refused_until;
	e->free_index = in->index;
	start_over(e, act);
	if (act->verdict == LE_SAY_NOTHING)
		set_verdict(act, LE_SAY_RELEASED, LE_DONE);
}

/* Applied or not, only the key itself shows whether it is still ours. */
static void
release_unsure(LeElection *e, const LeInput *in, LeActions *act)
{
	read_back(e, in, act, LE_RELEASE_UNSURE);
}

static void
release_not_applied(LeElection *e, const LeInput *in, LeActions *act)
{
	set_verdict(act, LE_SAY_RELEASE_FAILED, in->outcome);
	e->state = LE_RELEASE_UNSURE;
	retry_later(e, in);
}

static void
release_read_back(LeElection *e, const LeInput *in, LeActions *act)
{
	if (in->view->holder == LE_KEY_OURS)
		release(e, act, in->view->index);
	else
		release_done(e, in, act);
}

/*
 * The store session is over, so nothing that was sent in its name counts any
 * more: every write carries the session as a condition, and the node starts
 * another session only after the store has ended this one.
 */
static void
node_ended(LeElection *e, const LeInput *in, LeActions *act)
{
	bool		had_term = e->token != 0;
	bool		drained = e->drain_until != 0;
	LeState		was = e->state;

	end_term(e, act, in->reason);
	e->request++;
	e->timer_at = 0;
	e->look_at = 0;
	e->failures = e->tries = 0;
	e->free = false;
	e->state = e->wanted ? LE_WAITING : LE_IDLE;
	if (had_term && !drained)
		set_verdict(act, LE_SAY_LOST, LE_DONE);
	else if (drained || was == LE_PUBLISHING || was == LE_PUBLISH_UNSURE ||
			 was == LE_RELEASING || was == LE_RELEASE_UNSURE)
	{
		/*
		 * A session that only expired here may still hold the key there.  So
		 * may one that a new leader of the store did not know yet.
		 */
		set_verdict(act, LE_SAY_RELEASE_FAILED, LE_UNKNOWN);
	}
	else if (was == LE_ACQUIRING || was == LE_ACQUIRE_UNSURE)
	{
		act->unresolved = was == LE_ACQUIRING || e->attempt.unsure;
		set_verdict(act, LE_SAY_FAILED, act->unresolved ? LE_UNKNOWN :
					LE_LOST);
	}
}

/*
 * The table.  An empty cell means that the input changes nothing in that
 * state.  The caller drops answers to requests other than the newest, so a
 * state only ever sees answers to what it sent.
 */
#define ROW		[LE_NINPUTS]

static const Handler table[LE_NSTATES] ROW = {
	[LE_IDLE] = {
		[LE_IN_WANT] = want,
		[LE_IN_SEEN] = idle_seen,
	},
	[LE_READING] = {
		[LE_IN_WANT] = want_noted,
		[LE_IN_UNWANT] = unwant_candidate,
		[LE_IN_READ] = judge_key,
		[LE_IN_READ_FAILED] = candidate_read_failed,
		[LE_IN_NODE_ENDED] = node_ended,
	},
	[LE_WAITING] = {
		[LE_IN_WANT] = want,
		[LE_IN_UNWANT] = unwant_candidate,
		[LE_IN_SEEN] = waiting_seen,
		[LE_IN_TIMER] = read_again,
		[LE_IN_HOLDER] = waiting_holder,
		[LE_IN_NODE_ENDED] = node_ended,
	},
	[LE_ACQUIRING] = {
		[LE_IN_WANT] = want_noted,
		[LE_IN_UNWANT] = unwant_noted,
		[LE_IN_DONE] = acquire_done,
		[LE_IN_CONFLICT] = acquire_conflict,
		[LE_IN_NOT_APPLIED] = acquire_not_applied,
		[LE_IN_UNKNOWN] = acquire_unknown,
		[LE_IN_NODE_ENDED] = node_ended,
	},
	[LE_ACQUIRE_UNSURE] = {
		[LE_IN_WANT] = want_noted,
		[LE_IN_UNWANT] = unwant_noted,
		[LE_IN_READ] = acquire_read_back,
		[LE_IN_READ_FAILED] = unsure_read_failed,
		[LE_IN_TIMER] = read_again,
		[LE_IN_NODE_ENDED] = node_ended,
	},
	[LE_HELD] = {
		[LE_IN_UNWANT] = unwant_holder,
		[LE_IN_DRAIN] = drain_holder,
		[LE_IN_PUBLISH] = publish,
		[LE_IN_SEEN] = holder_seen,
		[LE_IN_NOT_OURS] = not_ours,
		[LE_IN_RENEWED] = lease_renewed,
		[LE_IN_RENEW_FAILED] = renew_failed,
		[LE_IN_EXPIRED] = expired,
		[LE_IN_NODE_ENDED] = node_ended,
	},
	[LE_PUBLISHING] = {
		[LE_IN_WANT] = want_noted,
		[LE_IN_UNWANT] = unwant_noted,
		[LE_IN_DRAIN] = drain_noted,
		[LE_IN_DONE] = publish_done,
		[LE_IN_CONFLICT] = publish_unsure,
		[LE_IN_NOT_APPLIED] = publish_not_applied,
		[LE_IN_UNKNOWN] = publish_unsure,
		[LE_IN_SEEN] = own_key_seen,
		[LE_IN_NOT_OURS] = not_ours,
		[LE_IN_RENEWED] = lease_renewed,
		[LE_IN_RENEW_FAILED] = renew_failed,
		[LE_IN_EXPIRED] = expired,
		[LE_IN_NODE_ENDED] = node_ended,
	},
	[LE_PUBLISH_UNSURE] = {
		[LE_IN_WANT] = want_noted,
		[LE_IN_UNWANT] = unwant_noted,
		[LE_IN_DRAIN] = drain_noted,
		[LE_IN_READ] = publish_read_back,
		[LE_IN_READ_FAILED] = unsure_read_failed,
		[LE_IN_NOT_OURS] = not_ours,
		[LE_IN_TIMER] = read_again,
		[LE_IN_RENEWED] = lease_renewed,
		[LE_IN_RENEW_FAILED] = renew_failed,
		[LE_IN_EXPIRED] = expired,
		[LE_IN_NODE_ENDED] = node_ended,
	},
	[LE_DRAINING] = {
		[LE_IN_UNWANT] = unwant_holder,
		[LE_IN_DRAIN] = drain_holder,
		[LE_IN_SEEN] = holder_seen,
		[LE_IN_NOT_OURS] = not_ours,
		[LE_IN_TIMER] = unwant_holder,
		[LE_IN_RENEWED] = lease_renewed,
		[LE_IN_RENEW_FAILED] = renew_failed,
		[LE_IN_EXPIRED] = expired,
		[LE_IN_NODE_ENDED] = node_ended,
	},
	[LE_RELEASING] = {
		[LE_IN_WANT] = want_noted,
		[LE_IN_UNWANT] = unwant_noted,
		[LE_IN_DONE] = release_done,
		[LE_IN_CONFLICT] = release_unsure,
		[LE_IN_NOT_APPLIED] = release_not_applied,
		[LE_IN_UNKNOWN] = release_unsure,
		[LE_IN_NODE_ENDED] = node_ended,
	},
	[LE_RELEASE_UNSURE] = {
		[LE_IN_WANT] = want_noted,
		[LE_IN_UNWANT] = unwant_noted,
		[LE_IN_READ] = release_read_back,
		[LE_IN_READ_FAILED] = unsure_read_failed,
		[LE_IN_TIMER] = read_again,
		[LE_IN_NODE_ENDED] = node_ended,
	},
};

/* Start with no candidate and no term. */
void
le_election_init(LeElection *e, uint64_t token_floor)
{
	*e = (LeElection)
	{
		.state = LE_IDLE, .token_floor = token_floor
	};
}

/* Feed one input; the caller carries the actions out in the stated order. */
LeActions
le_election_input(LeElection *e, const LeInput *input)
{
	LeActions	act = {0};
	Handler		handler = table[e->state][input->kind];

	if (handler != NULL)
		handler(e, input, &act);
	return act;
}

/* Does the node hold a term, as far as the deadline allows to believe it? */
bool
le_election_has_term(const LeElection *e)
{
	return e->token != 0;
}

/* Is an answer to the newest request still to come? */
bool
le_election_in_flight(const LeElection *e)
{
	switch (e->state)
	{
		case LE_READING:
		case LE_ACQUIRING:
		case LE_PUBLISHING:
		case LE_RELEASING:
			return true;
		case LE_ACQUIRE_UNSURE:
		case LE_PUBLISH_UNSURE:
		case LE_RELEASE_UNSURE:
			return !has_timer(e);
		default:
			return false;
	}
}

/* Has a term ended, but not yet in the store? */
bool
le_election_is_ending(const LeElection *e)
{
	switch (e->state)
	{
		case LE_RELEASING:
		case LE_RELEASE_UNSURE:
			return true;
		case LE_PUBLISHING:
		case LE_PUBLISH_UNSURE:
			return e->token == 0;
		default:
			return false;
	}
}

/* Would a renewal now only be in the way?  Most publishes renew, too. */
static bool
may_renew(const LeElection *e)
{
	switch (e->state)
	{
		case LE_HELD:
		case LE_DRAINING:
			return true;
		case LE_PUBLISHING:
		case LE_PUBLISH_UNSURE:
			return e->renews_apart;
		default:
			return false;
	}
}

/*
 * When is the lease of the term to be renewed?  0: it has none of its own, or
 * a renewal or a publish that renews is in flight.
 */
le_time
le_election_renew_at(const LeElection *e)
{
	if (!may_renew(e) || e->deadline == 0 || e->renewing)
		return 0;
	return e->renew_at;
}

/* A renewal is in flight; its answer comes as LE_IN_RENEWED or _FAILED. */
void
le_election_renewal_sent(LeElection *e)
{
	e->renewing = true;
}

/* The renewal was not sent: no answer will come, and nothing has failed. */
void
le_election_renewal_unsent(LeElection *e)
{
	e->renewing = false;
}

/* Have the term proven soon. */
void
le_election_renew_now(LeElection *e, le_time now)
{
	if (e->deadline != 0)
		e->renew_at = now;
}

/*
 * A new worker: the outcome of a renewal in flight is unknown, and the end of
 * a drain may have been noticed but not yet acted on.
 */
void
le_election_resume(LeElection *e, le_time now)
{
	if (e->state == LE_DRAINING)
		e->timer_at = e->drain_until;
	e->renewing = false;
	le_election_renew_now(e, now);
}

const char *
le_state_name(LeState state)
{
	static const char *const names[LE_NSTATES] = {
		[LE_IDLE] = "idle",
		[LE_READING] = "reading",
		[LE_WAITING] = "waiting",
		[LE_ACQUIRING] = "acquiring",
		[LE_ACQUIRE_UNSURE] = "acquire unsure",
		[LE_HELD] = "leader",
		[LE_PUBLISHING] = "leader, publishing",
		[LE_PUBLISH_UNSURE] = "leader, publish unsure",
		[LE_DRAINING] = "draining",
		[LE_RELEASING] = "releasing",
		[LE_RELEASE_UNSURE] = "release unsure",
	};

	return names[state];
}

const char *
le_reason_name(LeReason reason)
{
	switch (reason)
	{
		case LE_REASON_NONE:
			break;
		case LE_REASON_RELEASED:
			return "released";
		case LE_REASON_STEPPED_DOWN:
			return "stepped down";
		case LE_REASON_NO_PROGRESS:
			return "no progress";
		case LE_REASON_KEY_LOST:
			return "key deleted or taken";
		case LE_REASON_SESSION_LOST:
			return "store session ended";
		case LE_REASON_EXPIRED:
			return "deadline passed without proof";
		case LE_REASON_TOKEN:
			return "fencing token went back";
	}
	return "none";
}
