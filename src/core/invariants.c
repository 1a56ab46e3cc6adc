/*-------------------------------------------------------------------------
 *
 * invariants.c
 *		Invariants of every step of the two machines.
 *
 * Each check gets the machine before and after one input, the input and the
 * actions.  It returns NULL, or says in words which invariant does not hold.
 * A check changes nothing: a build without Asserts does the same.
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

static const char *
check_election_state(const LeElection *e)
{
	const ElectionFields *f = &election_fields[e->state];

	MUST(agrees(f->wanted, e->wanted), "a state and the wish for it");
	MUST(agrees(f->token, e->token != 0), "a state and its term");
	MUST(agrees(f->drain_until, e->drain_until != 0),
		 "a state and the end that its term is to have");
	MUST(agrees(f->timer_at, e->timer_at != 0), "a state and its timer");
	MUST(agrees(f->look_at, e->look_at != 0),
		 "only a candidate that waits, waits for a holder");
	MUST(agrees(f->failures, e->failures != 0), "a state and its failures");
	MUST(agrees(f->free, e->free), "a key is free where nothing uses that");

	MUST(e->token == 0 || e->wanted || e->drain_until != 0,
		 "a term is wanted, or drains");
	MUST(e->token != 0 || e->drain_until == 0, "without a term none drains");
	MUST(e->state != LE_DRAINING || e->timer_at >= e->drain_until,
		 "a term drains for as long as was said");
	MUST(e->deadline == 0 || e->token != 0,
		 "a deadline belongs to a term");
	MUST((e->renew_at != 0) == (e->deadline != 0),
		 "what has a deadline has a renewal");
	MUST(!e->renewing || e->deadline != 0,
		 "what is being renewed has a deadline");
	MUST(e->state != LE_ACQUIRING || !e->attempt.unsure ||
		 le_election_is_repeating(e),
		 "a first copy cannot have been applied before");
	MUST(e->state != LE_HELD || e->seen_index == 0,
		 "a holder waits out no key");
	return NULL;
}

/* Terms, and their tokens and deadlines. */
static const char *
check_term(const LeElection *was, const LeInput *in, const LeElection *e,
		   const LeActions *act)
{
	MUST(act->term_ends == (was->token != 0 && e->token == 0),
		 "a term that ends is said to");
	MUST(act->term_begins == (was->token == 0 && e->token != 0),
		 "a term that begins is said to");
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
		 "a deadline that moves is said to");
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
		 "what nobody knows the outcome of is read back before a write");
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
	const char *broken = check_election_state(after);

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

static const char *
check_node_state(const LeNode *n)
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
	return NULL;
}

/* Belief, and the numbers that identify late answers. */
static const char *
check_belief(const LeNode *was, const LeNodeInput *in, const LeNode *n,
			 const LeNodeActions *act)
{
	bool		created = (act->send & LE_NODE_SEND_CREATE) != 0;

	MUST(act->terms_end == (was->deadline != 0 && n->deadline == 0),
		 "terms that end are said to");
	MUST(act->deadline_moved == (was->deadline != n->deadline),
		 "a deadline that moves is said to");
	MUST(act->became_live == (was->deadline == 0 && n->deadline != 0),
		 "a session that becomes live is said to");
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
		 "something leads on");
	return NULL;
}

/* The invariants of the node, after each input. */
const char *
le_node_check(const LeNode *before, const LeNodeInput *input,
			  const LeNode *after, const LeNodeActions *act)
{
	const char *broken = check_node_state(after);

	if (broken == NULL)
		broken = check_belief(before, input, after, act);
	if (broken == NULL)
		broken = check_steps(before, input, after, act);
	return broken;
}
