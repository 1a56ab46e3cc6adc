/*-------------------------------------------------------------------------
 *
 * election.c
 *		One step of an election's machine, for one cell of its table.
 *
 * From every state that le_election_sound() allows, by every input that
 * le_election_contract() allows, to a sound state again, and what must be true
 * of the step.  The start is sound, so this holds for runs of any length.
 *
 * test/prove/run names the cell: STATE and KIND.
 *
 * test/prove/election.c
 *
 *-------------------------------------------------------------------------
 */
#include "prove.h"

#ifndef STATE
#define STATE	any_of(LE_NSTATES)
#define KIND	any_of(LE_NINPUTS)
#endif

static LeElection
any_election(void)
{
	LeElection	e;

	e.state = (LeState) STATE;
	e.wanted = any_bool();
	e.token = any_uint64();
	e.drain_until = any_instant();
	e.write_index = any_uint64();
	e.attempt.index = any_uint64();
	e.attempt.floor = any_uint64();
	e.attempt.number = any_uint32();
	e.attempt.takeover = any_bool();
	e.attempt.unsure = any_bool();
	e.free = any_bool();
	e.token_floor = any_uint64();
	e.free_index = any_uint64();
	e.seen_index = any_uint64();
	e.seen_at = any_instant();
	e.refused_until = any_instant();
	e.look_at = any_instant();
	e.timer_at = any_instant();
	e.failures = any_int();
	e.tries = any_int();
	e.deadline = any_instant();
	e.renew_at = any_instant();
	e.renewing = any_bool();
	e.renews_apart = any_bool();
	e.renew_failures = any_int();
	e.request = any_uint32();
	ASSUME(e.failures >= 0 && e.failures <= MOST_FAILURES);
	ASSUME(e.renew_failures >= 0 && e.renew_failures <= MOST_FAILURES);
	ASSUME(le_election_sound(&e) == NULL);
	return e;
}

static LeKeyView
any_view(void)
{
	LeKeyView	v;

	v.holder = (LeKeyHolder) any_of(LE_KEY_OTHER + 1);
	v.exists = any_bool();
	v.usable = any_bool();
	v.released = any_bool();
	v.holder_ended = any_bool();
	v.own_lease = any_bool();
	v.silent_at = any_instant();
	v.index = any_uint64();
	v.as_of = any_uint64();
	v.token = any_uint64();
	v.holder_lease = any_duration(LE_MAX_LEASE);
	return v;
}

static LeInput
any_input(const LeTiming *timing, const LeKeyView *view)
{
	LeInput		in;

	in.kind = (LeInputKind) KIND;
	in.now = any_instant();
	in.random = any_uint32();
	in.timing = timing;
	in.view = view;
	in.index = any_uint64();
	in.suffices = any_bool();
	in.outcome = (LeOutcome) any_of(LE_UNKNOWN + 1);
	in.conflict = (LeConflict) any_of(LE_CONFLICT_OWN + 1);
	in.reason = (LeReason) any_of(LE_REASON_TOKEN + 1);
	in.silent_at = any_instant();
	in.sent = any_instant();
	in.deadline = any_instant();
	in.renews_apart = any_bool();
	in.until = any_instant();
	return in;
}

static bool
is_answer(LeInputKind k)
{
	return k == LE_IN_READ || k == LE_IN_READ_FAILED || k == LE_IN_DONE ||
		k == LE_IN_CONFLICT || k == LE_IN_NOT_APPLIED || k == LE_IN_UNKNOWN;
}

static bool
acquires(LeSend send)
{
	return send == LE_SEND_ACQUIRE || send == LE_SEND_TAKE_OVER;
}

static bool
is_acquiring(const LeElection *e)
{
	return e->state == LE_ACQUIRING || e->state == LE_ACQUIRE_UNSURE;
}

/* Each term, and what it may trust in. */
static void
claim_terms(const LeElection *was, const LeInput *in, const LeElection *e,
			const LeActions *act)
{
	bool		has = e->token != 0;

	CLAIM(IMPLIES(act->term_begins, e->state == LE_HELD &&
				  e->write_index == e->token &&
				  act->verdict == LE_SAY_GRANTED),
		  "a term begins with what the store has granted");
	CLAIM(IMPLIES(act->verdict == LE_SAY_GRANTED, act->term_begins),
		  "granted is said of nothing else");
	CLAIM(IMPLIES(has && e->deadline != was->deadline,
				  e->deadline == in->deadline &&
				  (in->kind == LE_IN_RENEWED || in->kind == LE_IN_DONE)),
		  "a deadline is what an answer says");
	CLAIM(IMPLIES(has && was->token != 0 && e->deadline != was->deadline,
				  in->now < was->deadline && e->deadline > was->deadline),
		  "it moves forward, and never once it has passed");
	CLAIM(IMPLIES(in->kind == LE_IN_UNWANT, !e->wanted && !has),
		  "given up is given up");
	CLAIM(IMPLIES(in->kind == LE_IN_NODE_ENDED, !has &&
				  !le_election_in_flight(e) && act->send == LE_SEND_NOTHING),
		  "without a session nothing is under way");
	CLAIM(IMPLIES(in->kind == LE_IN_EXPIRED && was->token != 0 &&
				  was->deadline != 0 && in->now >= was->deadline, !has),
		  "a term ends at its deadline");
	CLAIM(IMPLIES(in->kind == LE_IN_RENEW_FAILED && in->outcome == LE_LOST,
				  !has), "a term ends with its lease");
	CLAIM(IMPLIES(in->kind == LE_IN_NOT_OURS && was->token != 0 && has,
				  false), "a term ends with its key");
	CLAIM(IMPLIES(in->kind == LE_IN_SEEN && was->token != 0 && has,
				  in->view->holder == LE_KEY_OURS ||
				  in->view->as_of <= was->write_index ||
				  was->state == LE_PUBLISHING),
		  "a term ends when a newer answer shows its key as another's");
	CLAIM(IMPLIES(in->kind == LE_IN_UNWANT && act->term_ends &&
				  act->send == LE_SEND_NOTHING,
				  le_election_in_flight(e) || e->timer_at != 0),
		  "what is released here is released in the store");
	CLAIM(IMPLIES(in->kind == LE_IN_SEEN && has &&
				  e->write_index != was->write_index,
				  in->view->holder == LE_KEY_OURS &&
				  in->view->token == was->token &&
				  e->write_index == in->view->index),
		  "a write that was seen is this term's own");
	CLAIM(IMPLIES(in->kind == LE_IN_SEEN && was->token != 0 && has &&
				  in->view->holder == LE_KEY_OURS && !in->view->own_lease &&
				  in->view->token == was->token,
				  e->write_index >= in->view->index ||
				  was->state == LE_PUBLISH_UNSURE),
		  "and is followed");
}

/* Requests: which, when, and on which index. */
static void
claim_requests(const LeElection *was, const LeInput *in, const LeElection *e,
			   const LeActions *act)
{
	const LeKeyView *v = in->view;
	bool		writes = was->state == LE_ACQUIRING ||
		was->state == LE_PUBLISHING || was->state == LE_RELEASING;

	CLAIM(IMPLIES(le_election_in_flight(e) && act->send == LE_SEND_NOTHING,
				  e->state == was->state && !is_answer(in->kind)),
		  "nothing is waited for that was not sent");
	CLAIM(IMPLIES(writes && act->send != LE_SEND_NOTHING &&
				  !is_answer(in->kind),
				  was->state == LE_PUBLISHING && was->token != 0 &&
				  (in->kind == LE_IN_NOT_OURS ||
				   (in->kind == LE_IN_RENEW_FAILED &&
					in->outcome == LE_LOST))),
		  "one write at a time, until the key is lost");
	CLAIM(IMPLIES(act->send == LE_SEND_RELEASE, e->token == 0),
		  "belief ends before the store is told");
	CLAIM(IMPLIES(act->send == LE_SEND_RELEASE && was->token != 0 &&
				  in->kind != LE_IN_READ, act->index == e->write_index),
		  "a term gives back the key as it wrote it last");
	CLAIM(IMPLIES(act->send == LE_SEND_RELEASE && in->view == v &&
				  (in->kind == LE_IN_READ || in->kind == LE_IN_SEEN),
				  v->holder == LE_KEY_OURS && act->index == v->index),
		  "only our own key is given back");
	CLAIM(IMPLIES(act->send == LE_SEND_PUBLISH,
				  e->token != 0 && act->index == e->write_index),
		  "a term publishes on its last write");
	CLAIM(IMPLIES(acquires(act->send), e->token == 0 &&
				  (e->wanted || le_election_is_repeating(e))),
		  "only who wants the key, or repeats a request for it, seeks it");
	CLAIM(IMPLIES(act->send == LE_SEND_TAKE_OVER,
				  in->kind == LE_IN_READ || in->kind == LE_IN_SEEN) &&
		  IMPLIES(act->send == LE_SEND_TAKE_OVER,
				  act->index == v->index && v->holder != LE_KEY_OURS &&
				  (v->holder == LE_KEY_OTHER ||
				   (was->attempt.takeover && is_acquiring(was))) &&
				  (v->holder_ended ||
				   (v->silent_at != 0 && v->silent_at <= in->now))),
		  "only who is silent is taken over, as it was seen");
	CLAIM(IMPLIES(act->send == LE_SEND_ACQUIRE &&
				  (in->kind == LE_IN_READ || in->kind == LE_IN_SEEN) &&
				  !(was->state == LE_ACQUIRE_UNSURE &&
					act->index == was->attempt.index),
				  v->holder == LE_KEY_FREE && act->index == v->index &&
				  in->now >= was->refused_until &&
				  (!v->exists || v->usable)),
		  "a key is taken as it was seen to be free");
	CLAIM(IMPLIES(act->send == LE_SEND_ACQUIRE &&
				  (in->kind == LE_IN_READ || in->kind == LE_IN_SEEN) &&
				  !(was->state == LE_ACQUIRE_UNSURE &&
					act->index == was->attempt.index),
				  !v->exists || v->released || v->holder_ended ||
				  (e->seen_index == v->index &&
				   (was->seen_index == v->index ?
					was->seen_at : in->now) + v->holder_lease <= in->now)),
		  "what nobody released is waited out");
	CLAIM(IMPLIES(act->send == LE_SEND_ACQUIRE &&
				  was->state == LE_ACQUIRE_UNSURE && was->attempt.takeover &&
				  v->index == was->attempt.index && !v->own_lease,
				  v->holder == LE_KEY_FREE),
		  "no takeover is repeated as an acquire of a held key");
	CLAIM(IMPLIES(act->send == LE_SEND_ACQUIRE && in->kind == LE_IN_WANT,
				  was->free && act->index == was->free_index &&
				  in->now >= was->refused_until),
		  "a key that was seen to be free is taken at once, and once");
	CLAIM(IMPLIES(in->kind == LE_IN_UNKNOWN && was->state == LE_ACQUIRING,
				  e->state == LE_ACQUIRE_UNSURE && e->attempt.unsure),
		  "no answer is no refusal");
	CLAIM(IMPLIES(in->kind == LE_IN_UNKNOWN && was->state == LE_RELEASING,
				  e->state == LE_RELEASE_UNSURE), "nor a confirmation");
	CLAIM(IMPLIES(was->attempt.unsure && is_acquiring(was) &&
				  is_acquiring(e) && le_election_is_repeating(e),
				  e->attempt.unsure), "and is not forgotten");
	CLAIM(IMPLIES(acquires(act->send) && le_election_is_repeating(was) &&
				  is_acquiring(was) &&
				  e->attempt.number == was->attempt.number,
				  act->index == was->attempt.index &&
				  e->attempt.floor == was->attempt.floor),
		  "a copy repeats the same decision");
	CLAIM(IMPLIES(was->state == LE_IDLE && in->kind == LE_IN_SEEN &&
				  v->holder == LE_KEY_OURS, act->send == LE_SEND_RELEASE),
		  "a key without a term is given back");
	CLAIM(IMPLIES(in->kind == LE_IN_SEEN && was->state == LE_IDLE &&
				  was->free && v->as_of < was->free_index,
				  e->free && e->free_index == was->free_index),
		  "an older answer says nothing of a free key");
	CLAIM(IMPLIES(in->kind == LE_IN_SEEN && e->free &&
				  !(was->free && v->as_of < was->free_index),
				  v->holder == LE_KEY_FREE && !v->own_lease &&
				  (!v->exists || (v->usable && v->released)) &&
				  e->free_index == v->index),
		  "free to take is what was released");
	CLAIM(IMPLIES(in->kind == LE_IN_CONFLICT && was->state == LE_ACQUIRING &&
				  in->conflict == LE_CONFLICT_HELD && !was->attempt.unsure,
				  act->send != LE_SEND_READ),
		  "that another has the key needs no read");
}

/* The replies to waiting sessions. */
static void
claim_verdicts(const LeElection *was, const LeInput *in, const LeElection *e,
			   const LeActions *act)
{
	CLAIM(IMPLIES(is_acquiring(was) && was->attempt.unsure &&
				  act->verdict == LE_SAY_DENIED, act->unresolved),
		  "no \"no\" while a copy of the request may be applied");
	CLAIM(IMPLIES(is_acquiring(was) && was->attempt.unsure &&
				  act->verdict == LE_SAY_FAILED && act->outcome != LE_UNKNOWN,
				  act->unresolved),
		  "no \"nothing was done\" while a copy may be applied");
	CLAIM(IMPLIES(was->state == LE_PUBLISHING &&
				  in->kind == LE_IN_NOT_APPLIED &&
				  le_election_is_repeating(was) &&
				  act->verdict == LE_SAY_PUBLISH_FAILED,
				  act->outcome == LE_UNKNOWN),
		  "no \"not published\" while a copy may be applied");
	CLAIM(IMPLIES(act->verdict == LE_SAY_PUBLISHED,
				  in->kind == LE_IN_DONE && e->token != 0) ||
		  was->token == 0, "published is what the store has confirmed");
	CLAIM(IMPLIES(was->state == LE_ACQUIRING && in->kind == LE_IN_NODE_ENDED,
				  act->unresolved && act->outcome == LE_UNKNOWN),
		  "what is under way when the session ends is not resolved");
	CLAIM(IMPLIES(act->verdict == LE_SAY_TOKEN_WENT_BACK &&
				  in->kind == LE_IN_DONE, in->index <= was->attempt.floor),
		  "a token went back only if it was known before the request");
	CLAIM(IMPLIES(act->verdict == LE_SAY_TOKEN_WENT_BACK, e->token == 0 &&
				  in->now < e->refused_until),
		  "a token that went back is refused for a lease");
}

/* Nothing is forgotten. */
static void
claim_timers(const LeElection *was, const LeInput *in, const LeElection *e,
			 const LeActions *act)
{
	(void) act;
	CLAIM(IMPLIES(e->timer_at != 0 && e->timer_at != was->timer_at,
				  e->timer_at == e->drain_until ||
				  e->timer_at == was->refused_until ||
				  e->timer_at <= was->look_at ||
				  e->timer_at <= in->now + 2 * LE_MAX_LEASE),
		  "nobody waits for long without a look");
	CLAIM(e->failures >= 0 && e->renew_failures >= 0 &&
		  e->failures <= was->failures + 1 + (was->failures < 0),
		  "failures are counted one by one");
	CLAIM(e->tries <= was->tries + 1, "tries are counted one by one");
	CLAIM(IMPLIES(was->state == LE_WAITING && was->tries > 0 &&
				  was->timer_at != 0 && in->kind == LE_IN_SEEN,
				  act->send == LE_SEND_NOTHING),
		  "no answer of the watch cuts a rest short");
	CLAIM(e->seen_at <= in->now || e->seen_at == was->seen_at,
		  "what is waited out was seen by now");
}

HARNESS(election_step)
{
	LeTiming	timing = any_timing();
	LeKeyView	view = any_view();
	LeInput		in = any_input(&timing, &view);
	LeElection	was = any_election();
	LeElection	e = was;
	LeActions	act;
	const char *broken;

	ASSUME(le_election_contract(&was, &in) == NULL);
	act = le_election_input(&e, &in);
	broken = le_election_check(&was, &in, &e, &act);
	CLAIM(broken == NULL, "the invariants of a step hold");
	broken = le_election_sound(&e);
	CLAIM(broken == NULL, "the state is sound again");
	claim_terms(&was, &in, &e, &act);
	claim_requests(&was, &in, &e, &act);
	claim_verdicts(&was, &in, &e, &act);
	claim_timers(&was, &in, &e, &act);
	CLAIM_REACHED();
}

HARNESS(election_start)
{
	LeElection	e;
	uint64_t	floor = any_uint64();

	le_election_init(&e, floor);
	CLAIM(le_election_sound(&e) == NULL, "it starts soundly");
	CLAIM(e.token_floor == floor, "with the token that it was given");
}

/* The worker's acts between inputs leave the state sound. */
HARNESS(election_calls)
{
	le_time		now = any_instant();
	LeElection	e = any_election();
	LeElection	was = e;
	le_time		at = le_election_renew_at(&e);

	ASSUME(now > 0);
	CLAIM(IMPLIES(at != 0, e.token != 0 && e.deadline != 0 && !e.renewing),
		  "a term with a lease of its own is renewed, once at a time");
	if (at != 0)
	{
		le_election_renewal_sent(&e);
		CLAIM(le_election_sound(&e) == NULL, "a renewal is on its way");
		CLAIM(le_election_renew_at(&e) == 0, "and no second");
		le_election_renewal_unsent(&e);
		CLAIM(le_election_sound(&e) == NULL, "or it is not");
	}
	le_election_renew_now(&e, now);
	CLAIM(le_election_sound(&e) == NULL, "it is renewed soon");
	le_election_resume(&e, now);
	CLAIM(le_election_sound(&e) == NULL, "a new worker finds it sound");
	CLAIM(e.token == was.token && e.deadline == was.deadline,
		  "and changes no belief");
	CLAIM(IMPLIES(e.token != 0 && e.deadline != 0 &&
				  (e.state == LE_HELD || e.state == LE_DRAINING ||
				   e.renews_apart),
				  le_election_renew_at(&e) == now), "and renews at once");
	CLAIM(IMPLIES(e.state == LE_DRAINING, e.timer_at == e.drain_until),
		  "and finds out when a drain is over");
	CLAIM(IMPLIES(le_election_is_ending(&e), !le_election_has_term(&e)),
		  "what is ending is no term");
}
