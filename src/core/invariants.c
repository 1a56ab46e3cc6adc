/*-------------------------------------------------------------------------
 *
 * invariants.c
 *		Invariants of the two machines, and their contract with the caller.
 *
 * For each machine there are three checks: of a state ("sound"), of what the
 * caller feeds to a sound state ("contract"), and of the step that follows
 * ("check").  Each returns NULL, or says in words what does not hold.  A check
 * changes nothing: a build without Asserts does the same.
 *
 * The three belong together.  A sound state and an input that keeps the
 * contract lead to a sound state again, so what "check" promises of one step
 * holds for runs of any length.
 *
 * src/core/invariants.c
 *
 *-------------------------------------------------------------------------
 */
#include "core/election.h"
#include "core/node.h"

#define MUST(condition, text) \
	do { \
		if (!(condition)) \
			return (text); \
	} while (0)

/* Is a field other than 0 in a state? */
typedef enum Field
{
	NO,
	MAY,
	YES
} Field;

static bool
agrees(Field field, bool set)
{
	return field == MAY || (field == YES) == set;
}

/* ---- elections ---- */

typedef struct ElectionFields
{
	Field		wanted;
	Field		token;			/* a term */
	Field		drain_until;
	Field		timer_at;
	Field		look_at;
	Field		failures;
	Field		free;
} ElectionFields;

/*
 * An unsure state has failed, and either reads the key or waits until it may.
 * LE_WAITING lacks a timer while no session lives.
 */
static const ElectionFields election_fields[LE_NSTATES] = {
	/*						wanted token drain timer look failures free */
	[LE_IDLE] =				{NO,  NO,  NO,  NO,  NO,  NO,  MAY},
	[LE_READING] =			{YES, NO,  NO,  NO,  NO,  MAY, NO},
	[LE_WAITING] =			{YES, NO,  NO,  MAY, MAY, MAY, NO},
	[LE_ACQUIRING] =		{MAY, NO,  NO,  NO,  NO,  MAY, NO},
	[LE_ACQUIRE_UNSURE] =	{MAY, NO,  NO,  MAY, NO,  YES, NO},
	[LE_HELD] =				{YES, YES, NO,  NO,  NO,  NO,  NO},
	[LE_PUBLISHING] =		{MAY, MAY, MAY, NO,  NO,  MAY, NO},
	[LE_PUBLISH_UNSURE] =	{MAY, MAY, MAY, MAY, NO,  YES, NO},
	[LE_DRAINING] =			{MAY, YES, YES, YES, NO,  NO,  NO},
	[LE_RELEASING] =		{MAY, NO,  NO,  NO,  NO,  MAY, MAY},
	[LE_RELEASE_UNSURE] =	{MAY, NO,  NO,  MAY, NO,  YES, MAY},
};

/* Does this state of an election ever arise? */
const char *
le_election_sound(const LeElection *e)
{
	const ElectionFields *f = &election_fields[e->state];

	MUST(agrees(f->wanted, e->wanted), "the wish fits the state");
	MUST(agrees(f->token, e->token != 0), "the term fits the state");
	MUST(agrees(f->drain_until, e->drain_until != 0),
		 "the end of a drain fits the state");
	MUST(agrees(f->timer_at, e->timer_at != 0), "the timer fits the state");
	MUST(agrees(f->look_at, e->look_at != 0),
		 "only a candidate that waits, waits for a holder");
	MUST(agrees(f->failures, e->failures != 0), "the failures fit the state");
	MUST(agrees(f->free, e->free), "a key is free where nothing uses that");

	MUST(e->token == 0 || e->wanted || e->drain_until != 0,
		 "a term is wanted, or drains");
	MUST(e->token != 0 || e->drain_until == 0, "without a term none drains");
	MUST(e->state != LE_DRAINING || e->timer_at >= e->drain_until,
		 "a term drains for as long as was said");
	MUST(e->deadline == 0 || e->token != 0,
		 "a deadline belongs to a term");
	MUST((e->renew_at != 0) == (e->deadline != 0),
		 "an election with a deadline has a renewal");
	MUST(!e->renewing || e->deadline != 0,
		 "a term that is renewed has a deadline");
	MUST(e->state != LE_ACQUIRING || !e->attempt.unsure ||
		 le_election_is_repeating(e),
		 "a first copy cannot have been applied before");
	MUST(e->token == 0 || e->seen_index == 0, "a holder waits out no key");
	MUST(e->tries >= 0 && e->tries <= LE_ATTEMPTS,
		 "a candidate rests after a few writes");
	MUST(e->tries == 0 || (e->state != LE_IDLE && e->token == 0),
		 "nobody but a candidate tries to write");
	return NULL;
}

/* ---- the contract of an election ---- */

/* Is an answer to a write, or to a read, still to come? */
static bool
awaits_write(const LeElection *e)
{
	return e->state == LE_ACQUIRING || e->state == LE_PUBLISHING ||
		e->state == LE_RELEASING;
}

static bool
awaits_read(const LeElection *e)
{
	return le_election_in_flight(e) && !awaits_write(e);
}

static const char *
check_view(const LeKeyView *v)
{
	MUST(v != NULL, "a view of the key comes along");
	MUST(v->exists || v->index == 0, "no key has no index");
	MUST(!v->exists || v->index != 0 || v->own_lease,
		 "a key has an index, unless its holder is yet to write one");
	MUST(v->exists || v->holder == LE_KEY_FREE, "no key has no holder");
	MUST(v->silent_at >= 0 &&
		 (v->silent_at == 0 || v->holder == LE_KEY_OTHER),
		 "only another holder falls silent");
	MUST(v->silent_at == 0 || !v->own_lease,
		 "a key with a lease of its own is not taken from anybody");
	MUST(v->holder_lease >= 0 && v->holder_lease <= LE_MAX_LEASE,
		 "no lease is longer than the longest");
	MUST(v->holder != LE_KEY_FREE || !v->usable || v->released ||
		 v->holder_lease > 0, "a key that was not released is waited for");
	return NULL;
}

/* An answer's words on the term's own lease. */
static const char *
check_deadline(const LeElection *e, const LeInput *in)
{
	bool		renewed = in->kind == LE_IN_RENEWED;

	if (in->deadline == 0)
	{
		MUST(!renewed, "a renewal says how far it carries");
		return NULL;
	}
	MUST(renewed || (in->kind == LE_IN_DONE && e->state != LE_RELEASING),
		 "a deadline comes with the answer to a renewal, or to a write");
	MUST(in->sent > 0 && in->sent <= in->now,
		 "an answer comes after its request");
	MUST(in->deadline <= in->sent + in->timing->lease - in->timing->margin,
		 "a lease counts from the sending of its request");
	return NULL;
}

static const char *
check_answer(const LeElection *e, const LeInput *in)
{
	switch (in->kind)
	{
		case LE_IN_READ:
			MUST(awaits_read(e), "a read is answered once");
			break;
		case LE_IN_READ_FAILED:
			MUST(awaits_read(e), "a read is answered once");
			MUST(in->outcome != LE_DONE, "a read that failed is not done");
			break;
		case LE_IN_DONE:
			MUST(awaits_write(e), "a write is answered once");
			MUST(in->index != 0 || e->state != LE_ACQUIRING,
				 "a key that was acquired has an index");
			break;
		case LE_IN_CONFLICT:
			MUST(awaits_write(e), "a write is answered once");
			MUST(in->conflict != LE_CONFLICT_OWN ||
				 (e->state == LE_ACQUIRING && in->index != 0),
				 "only an acquire is in the way of an acquire");
			break;
		case LE_IN_NOT_APPLIED:
			MUST(awaits_write(e), "a write is answered once");
			MUST(in->outcome == LE_LOST || in->outcome == LE_REFUSED ||
				 in->outcome == LE_UNAVAILABLE,
				 "a write that was not applied was refused");
			break;
		case LE_IN_UNKNOWN:
			MUST(awaits_write(e), "a write is answered once");
			break;
		case LE_IN_RENEWED:
			MUST(e->renewing, "a renewal is answered once");
			break;
		case LE_IN_RENEW_FAILED:
			MUST(e->renewing, "a renewal is answered once");
			MUST(in->outcome != LE_DONE,
				 "a renewal that failed is not done");
			break;
		default:
			break;
	}
	return check_deadline(e, in);
}

/* Inputs from this node's sessions, its clock and its own session. */
static const char *
check_input(const LeElection *e, const LeInput *in)
{
	switch (in->kind)
	{
		case LE_IN_PUBLISH:
			MUST(e->state == LE_HELD, "a holder publishes");
			break;
		case LE_IN_DRAIN:
			MUST(in->until > 0, "a term drains until some time");
			break;
		case LE_IN_TIMER:
			MUST(e->state == LE_WAITING ||
				 (e->timer_at != 0 && in->now >= e->timer_at),
				 "a timer comes when it has come");
			break;
		case LE_IN_HOLDER:
			MUST(in->silent_at >= 0, "a holder falls silent some time");
			break;
		case LE_IN_NODE_ENDED:
			MUST(in->reason != LE_REASON_NONE, "a session ends for a reason");
			break;
		default:
			break;
	}
	return NULL;
}

/* Does the caller keep the contract in election.h with this input? */
const char *
le_election_contract(const LeElection *e, const LeInput *input)
{
	const char *broken = NULL;

	MUST(input->timing != NULL && input->timing->lease > 0 &&
		 input->timing->lease <= LE_MAX_LEASE, "a node has a lease");
	MUST(input->now > 0 && input->now >= e->seen_at, "time goes on");
	if (input->kind == LE_IN_READ || input->kind == LE_IN_SEEN)
		broken = check_view(input->view);
	if (broken == NULL)
		broken = check_answer(e, input);
	if (broken == NULL)
		broken = check_input(e, input);
	return broken;
}

/* ---- steps of an election ---- */

/* Terms, and their tokens and deadlines. */
static const char *
check_term(const LeElection *was, const LeInput *in, const LeElection *e,
		   const LeActions *act)
{
	MUST(act->term_ends == (was->token != 0 && e->token == 0),
		 "the actions name the end of a term");
	MUST(act->term_begins == (was->token == 0 && e->token != 0),
		 "the actions name the beginning of a term");
	MUST(was->token == 0 || e->token == 0 || was->token == e->token,
		 "a term keeps its token");
	MUST(!act->term_begins || e->token > was->token_floor,
		 "a new token is higher than any seen");
	MUST(!act->term_begins || e->wanted, "a term begins for a wish");
	MUST(e->token_floor >= was->token_floor, "the highest token never falls");
	MUST(!act->term_ends || act->reason != LE_REASON_NONE,
		 "a term ends for a reason");
	MUST(!act->term_drains || e->drain_until != 0,
		 "a term that drains ends some time");
	MUST(was->drain_until == 0 || e->token == 0 ||
		 (e->drain_until != 0 && e->drain_until <= was->drain_until),
		 "a term never drains for longer than was said");

	MUST(act->deadline_moved == (e->deadline > was->deadline),
		 "the actions name a moved deadline");
	MUST(e->deadline >= was->deadline || act->term_ends,
		 "a deadline never comes earlier");
	MUST(!act->term_begins || e->deadline == 0 || in->now < e->deadline,
		 "no term begins after its deadline");
	MUST(was->token == 0 || e->deadline == was->deadline ||
		 act->term_ends || in->now < was->deadline,
		 "a deadline that has passed is final");
	return NULL;
}

static bool
is_write(LeSend send)
{
	return send != LE_SEND_NOTHING && send != LE_SEND_READ;
}

/* Inputs unrelated to the outcome of a request in flight. */
static bool
is_no_answer(LeInputKind kind)
{
	return kind == LE_IN_WANT || kind == LE_IN_UNWANT ||
		kind == LE_IN_PUBLISH || kind == LE_IN_SEEN;
}

/* One request at a time, and belief before message. */
static const char *
check_request(const LeElection *was, const LeInput *in, const LeElection *e,
			  const LeActions *act)
{
	MUST((act->send != LE_SEND_NOTHING) ==
		 (e->request != was->request && le_election_in_flight(e)),
		 "a request in flight has been sent");
	MUST(!is_write(act->send) ||
		 (act->send == LE_SEND_PUBLISH) == (e->token != 0),
		 "a term publishes, and writes nothing else");
	if (!le_election_in_flight(was) || act->send == LE_SEND_NOTHING)
		return NULL;
	MUST(!is_no_answer(in->kind), "a request in flight comes first");
	MUST(!is_write(act->send) || in->kind == LE_IN_READ ||
		 in->kind == LE_IN_DONE || in->kind == LE_IN_CONFLICT ||
		 in->kind == LE_IN_NOT_APPLIED,
		 "a request of unknown outcome is read back before a write");
	return NULL;
}

/* A candidate that waits: the timer, the node or nothing new. */
static bool
goes_on_waiting(const LeElection *was, const LeInput *in, const LeElection *e)
{
	return e->timer_at > in->now || in->kind == LE_IN_NODE_ENDED ||
		(in->kind == LE_IN_HOLDER && e->timer_at != 0) ||
		(was->state == LE_WAITING && e->timer_at == was->timer_at);
}

/* The invariants of an election, after each input. */
const char *
le_election_check(const LeElection *before, const LeInput *input,
				  const LeElection *after, const LeActions *act)
{
	const char *broken = le_election_sound(after);

	if (broken == NULL)
		broken = check_term(before, input, after, act);
	if (broken == NULL)
		broken = check_request(before, input, after, act);
	if (broken != NULL)
		return broken;
	MUST(after->state != LE_WAITING || goes_on_waiting(before, input, after),
		 "something ends each wait");
	return NULL;
}

/* ---- the node ---- */

/* Does this state of the node ever arise? */
const char *
le_node_sound(const LeNode *n)
{
	bool		live = n->state == LE_NODE_LIVE;

	MUST((n->deadline != 0) == live, "only a live session carries terms");
	MUST(live || (!n->proving && !n->renewing && !n->prove_again),
		 "only a live session is proven and renewed");
	MUST(!live || (n->wanted && n->step_at == 0 && n->step_failures == 0),
		 "a live session is wanted, and its setup is over");
	MUST(n->state != LE_NODE_NONE ||
		 (!n->wanted && n->step_at == 0 && n->step_failures == 0),
		 "without a session nothing is under way");
	MUST(n->state != LE_NODE_UNLOCKING || n->unlocks > 0,
		 "an answer of a release is still to come");
	MUST(n->step_at == 0 ||
		 (n->state != LE_NODE_VERIFYING && n->state != LE_NODE_REGISTERING &&
		  n->state != LE_NODE_UNLOCKING),
		 "a step that is not repeated is in flight");
	switch (n->state)
	{
		case LE_NODE_NONE:
		case LE_NODE_CREATING:
			break;				/* left by the session before */
		case LE_NODE_REVOKING:
			MUST(n->gone, "only a session that has ended is marked");
			break;
		case LE_NODE_FORGETTING:
			MUST(n->gone && n->destroyed,
				 "only a session that we ended is forgotten");
			break;
		default:
			MUST(!n->gone && !n->destroyed,
				 "a session that has ended is not worked with");
			break;
	}
	MUST(n->proof_index == 0 || (n->state != LE_NODE_VERIFYING &&
								 n->state != LE_NODE_REGISTERING),
		 "a session that is being set up has no proof");
	MUST(n->state != LE_NODE_CREATING || n->step_at != 0 ||
		 (!n->gone && !n->destroyed && n->proof_index == 0),
		 "a session that is being created is new");
	return NULL;
}

/* ---- the contract of the node ---- */

/* Is the present step's request in flight? */
static bool
awaits_step(const LeNode *n)
{
	return n->step_at == 0 && n->state != LE_NODE_NONE &&
		n->state != LE_NODE_LIVE;
}

static const char *
check_node_answer(const LeNode *n, const LeNodeInput *in)
{
	switch (in->kind)
	{
		case LE_NODE_IN_DONE:
			MUST(awaits_step(n) && n->state != LE_NODE_LISTING &&
				 n->state != LE_NODE_UNLOCKING, "a step is answered once");
			break;
		case LE_NODE_IN_FAILED:
			MUST(awaits_step(n) && n->state != LE_NODE_UNLOCKING,
				 "a step is answered once");
			MUST(in->outcome != LE_DONE, "a step that failed is not done");
			break;
		case LE_NODE_IN_LISTED:
			MUST(awaits_step(n) && n->state == LE_NODE_LISTING,
				 "a list is answered once");
			MUST(in->held >= 0 && in->named >= 0, "a list has a length");
			break;
		case LE_NODE_IN_UNLOCKED:
			MUST(n->state == LE_NODE_UNLOCKING, "a release is answered once");
			break;
		case LE_NODE_IN_RENEWED:
			MUST(n->renewing, "a renewal is answered once");
			break;
		case LE_NODE_IN_RENEW_FAILED:
			MUST(n->renewing, "a renewal is answered once");
			MUST(in->outcome != LE_DONE,
				 "a renewal that failed is not done");
			break;
		case LE_NODE_IN_PROVED:
			MUST(n->proving, "a proof is answered once");
			break;
		case LE_NODE_IN_PROOF_FAILED:
			MUST(n->proving, "a proof is answered once");
			MUST(in->outcome != LE_DONE, "a proof that failed is not done");
			break;
		default:
			break;
	}
	return NULL;
}

/* Is this the answer to a request whose sending counts? */
static bool
counts_from_sending(const LeNode *n, LeNodeInputKind kind)
{
	return kind == LE_NODE_IN_RENEWED || kind == LE_NODE_IN_PROVED ||
		(kind == LE_NODE_IN_DONE && (n->state == LE_NODE_CREATING ||
									 n->state == LE_NODE_REGISTERING));
}

/* Does the caller keep the contract in node.h with this input? */
const char *
le_node_contract(const LeNode *n, const LeNodeInput *input)
{
	const char *broken = check_node_answer(n, input);

	if (broken != NULL)
		return broken;
	MUST(input->now > 0 && input->now >= n->proof_sent &&
		 input->now >= n->renew_sent, "time goes on");
	MUST(!counts_from_sending(n, input->kind) ||
		 (input->sent > 0 && input->sent <= input->now),
		 "an answer comes after its request");
	return NULL;
}

/* ---- steps of the node ---- */

/* Belief, and the numbers that identify late answers. */
static const char *
check_belief(const LeNode *was, const LeNodeInput *in, const LeNode *n,
			 const LeNodeActions *act)
{
	bool		created = (act->send & LE_NODE_SEND_CREATE) != 0;

	MUST(act->terms_end == (was->deadline != 0 && n->deadline == 0),
		 "the actions name the end of all terms");
	MUST(act->deadline_moved == (was->deadline != n->deadline),
		 "the actions name a moved deadline");
	MUST(act->became_live == (was->deadline == 0 && n->deadline != 0),
		 "the actions name a session that becomes live");
	MUST(!act->terms_end || act->reason != LE_REASON_NONE,
		 "terms end for a reason");
	MUST(n->deadline >= was->deadline || act->terms_end,
		 "a deadline never comes earlier");
	MUST(n->deadline <= was->deadline || was->deadline == 0 ||
		 in->now < was->deadline, "a deadline that has passed is final");
	MUST(n->deadline == was->deadline || n->deadline == 0 ||
		 (in->now < n->deadline && n->deadline ==
		  le_deadline(&n->timing, n->proof_sent, n->renew_sent)),
		 "belief rests on proof and renewal, and on nothing older");

	MUST(created || n->proof_index >= was->proof_index,
		 "the index of the node key never falls");
	MUST(created || (n->seq == was->seq + 1) ==
		 ((act->send & (LE_NODE_SEND_PROOF | LE_NODE_SEND_REGISTER)) != 0),
		 "each proof has a number of its own");
	MUST(n->epoch != was->epoch || (!created && !act->terms_end),
		 "answers to an earlier session's requests are known as such");
	return NULL;
}

static bool
same_timing(const LeTiming *a, const LeTiming *b)
{
	return a->lease == b->lease && a->session_ttl == b->session_ttl &&
		a->margin == b->margin && a->renew_interval == b->renew_interval &&
		a->request_timeout == b->request_timeout;
}

static const char *
check_steps(const LeNode *was, const LeNodeInput *in, const LeNode *n,
			const LeNodeActions *act)
{
	const unsigned leaving = LE_NODE_SEND_LIST | LE_NODE_SEND_UNLOCKS |
		LE_NODE_SEND_DESTROY | LE_NODE_SEND_REVOKE | LE_NODE_SEND_FORGET;

	MUST((act->send & leaving) == 0 || n->deadline == 0,
		 "belief ends before the session is taken away");
	MUST((act->send & LE_NODE_SEND_DESTROY) == 0 ||
		 was->state == LE_NODE_DESTROYING ||
		 (in->kind == LE_NODE_IN_LISTED && in->held == 0),
		 "a session is destroyed only when it holds nothing");
	MUST((act->send & LE_NODE_SEND_PROOF) == 0 || n->proving,
		 "a proof in flight is known");
	MUST((act->send & LE_NODE_SEND_RENEW) == 0 || n->renewing,
		 "a renewal in flight is known");
	MUST(act->send == 0 || act->timeout > 0, "each request has a timeout");
	MUST((act->send & LE_NODE_SEND_CREATE) != 0 ||
		 same_timing(&was->timing, &n->timing),
		 "a session keeps its timing");
	MUST(n->state == LE_NODE_NONE || n->state == was->state ||
		 act->send != 0 || le_node_timer(n) != 0,
		 "a state just entered has a request under way or a timer");
	return NULL;
}

/* The invariants of the node, after each input. */
const char *
le_node_check(const LeNode *before, const LeNodeInput *input,
			  const LeNode *after, const LeNodeActions *act)
{
	const char *broken = le_node_sound(after);

	if (broken == NULL)
		broken = check_belief(before, input, after, act);
	if (broken == NULL)
		broken = check_steps(before, input, after, act);
	return broken;
}
