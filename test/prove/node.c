/*-------------------------------------------------------------------------
 *
 * node.c
 *		One step of the node's machine, for one cell of its table.
 *
 * As election.c has it.
 *
 * test/prove/node.c
 *
 *-------------------------------------------------------------------------
 */
#include "prove.h"

#ifndef STATE
#define STATE	any_of(LE_NODE_NSTATES)
#define KIND	any_of(LE_NODE_NINPUTS)
#endif

static LeNode
any_node(void)
{
	LeNode		n;

	n.state = (LeNodeState) STATE;
	n.timing = any_timing();
	n.next_timing = any_timing();
	n.wanted = any_bool();
	n.gone = any_bool();
	n.destroyed = any_bool();
	n.renewing = any_bool();
	n.proving = any_bool();
	n.prove_again = any_bool();
	n.epoch = any_uint32();
	n.seq = any_uint64();
	n.proof_index = any_uint64();
	n.proof_sent = any_instant();
	n.renew_sent = any_instant();
	n.deadline = any_instant();
	n.prove_at = any_instant();
	n.renew_at = any_instant();
	n.step_at = any_instant();
	n.proof_failures = any_int();
	n.renew_failures = any_int();
	n.step_failures = any_int();
	n.setup_failures = any_int();
	n.unlocks = any_int();
	n.named = any_int();
	ASSUME(n.seq < UINT64_MAX);
	ASSUME(n.proof_failures >= 0 && n.proof_failures <= MOST_FAILURES);
	ASSUME(n.renew_failures >= 0 && n.renew_failures <= MOST_FAILURES);
	ASSUME(n.step_failures >= 0 && n.step_failures <= MOST_FAILURES);
	ASSUME(n.setup_failures >= 0 && n.setup_failures <= MOST_FAILURES);
	ASSUME(n.unlocks >= 0 && n.named >= 0);
	ASSUME(le_node_sound(&n) == NULL);
	return n;
}

static LeNodeInput
any_input(void)
{
	LeNodeInput in;

	in.kind = (LeNodeInputKind) KIND;
	in.now = any_instant();
	in.random = any_uint32();
	in.outcome = (LeOutcome) any_of(LE_UNKNOWN + 1);
	in.sent = any_instant();
	in.index = any_uint64();
	in.held = any_int();
	in.named = any_int();
	in.early = any_bool();
	return in;
}

/* The node's beliefs. */
static void
claim_belief(const LeNode *was, const LeNodeInput *in, const LeNode *n,
			 const LeNodeActions *act)
{
	bool		moved = n->deadline != 0 && n->deadline != was->deadline;

	CLAIM(IMPLIES(moved, n->deadline <=
				  n->proof_sent + n->timing.lease - n->timing.margin),
		  "no belief past the proof's lease, less the margin");
	CLAIM(IMPLIES(moved, n->deadline <=
				  n->renew_sent + n->timing.session_ttl - n->timing.margin),
		  "no belief past the session's end, less the margin");
	CLAIM(IMPLIES(n->proof_sent != was->proof_sent,
				  n->proof_sent == in->sent &&
				  (in->kind == LE_NODE_IN_PROVED ||
				   (in->kind == LE_NODE_IN_DONE &&
					was->state == LE_NODE_REGISTERING))),
		  "a renewal is no proof");
	CLAIM(IMPLIES(n->renew_sent != was->renew_sent,
				  n->renew_sent == in->sent &&
				  (in->kind == LE_NODE_IN_RENEWED ||
				   (in->kind == LE_NODE_IN_DONE &&
					was->state == LE_NODE_CREATING))),
		  "a proof is no renewal");
	CLAIM(IMPLIES(in->kind == LE_NODE_IN_PROVED &&
				  in->index <= was->proof_index,
				  n->deadline == was->deadline &&
				  n->proof_sent == was->proof_sent),
		  "a write that moved no index is no proof");
	CLAIM(IMPLIES(was->deadline != 0 && in->now >= was->deadline &&
				  (in->kind == LE_NODE_IN_RENEWED ||
				   (in->kind == LE_NODE_IN_PROVED &&
					in->index > was->proof_index) ||
				   in->kind == LE_NODE_IN_PROVE_NOW ||
				   in->kind == LE_NODE_IN_TIMER), n->deadline == 0),
		  "belief ends at the deadline");
	CLAIM(IMPLIES(in->kind == LE_NODE_IN_UNWANT && was->deadline != 0,
				  n->deadline == 0), "given up is given up");
	CLAIM(IMPLIES(in->outcome == LE_LOST && was->deadline != 0 &&
				  (in->kind == LE_NODE_IN_RENEW_FAILED ||
				   in->kind == LE_NODE_IN_PROOF_FAILED), n->deadline == 0),
		  "a lost session carries nothing");
}

/* Requests: which, when, and how many. */
static void
claim_requests(const LeNode *was, const LeNodeInput *in, const LeNode *n,
			   const LeNodeActions *act)
{
	const unsigned of_life = LE_NODE_SEND_PROOF | LE_NODE_SEND_RENEW;
	unsigned	steps = act->send & ~of_life;

	CLAIM((steps & (steps - 1)) == 0, "one step at a time");
	CLAIM(IMPLIES(steps != 0, n->state != LE_NODE_LIVE && n->step_at == 0 &&
				  (act->send & of_life) == 0),
		  "a step is under way, and no proof");
	CLAIM(IMPLIES((act->send & of_life) != 0, n->state == LE_NODE_LIVE),
		  "what lives is proven and renewed");
	CLAIM(IMPLIES((act->send & LE_NODE_SEND_PROOF) && was->proving,
				  in->kind == LE_NODE_IN_PROVED ||
				  in->kind == LE_NODE_IN_PROOF_FAILED),
		  "one proof at a time");
	CLAIM(IMPLIES((act->send & LE_NODE_SEND_RENEW) && was->renewing, false),
		  "one renewal at a time");
	CLAIM(IMPLIES(act->send & (LE_NODE_SEND_PROOF | LE_NODE_SEND_REGISTER),
				  n->seq == was->seq + 1),
		  "no number is used for two proofs");
	CLAIM(IMPLIES(act->send != 0, act->timeout >= 100 * LE_MSEC &&
				  act->timeout <= LE_MAX_LEASE), "with time for an answer");
	CLAIM(IMPLIES((act->send & LE_NODE_SEND_CREATE) &&
				  was->state != LE_NODE_NONE &&
				  was->state != LE_NODE_CREATING, act->ended),
		  "one session after the other");
	CLAIM(IMPLIES(act->send & LE_NODE_SEND_CREATE, n->wanted),
		  "a session is made for somebody");
	CLAIM(IMPLIES(act->ended, n->state == LE_NODE_NONE ||
				  n->state == LE_NODE_CREATING), "ended is ended");
	CLAIM(IMPLIES(act->ended && was->state != LE_NODE_CREATING,
				  was->state == LE_NODE_REVOKING ||
				  was->state == LE_NODE_FORGETTING),
		  "a session ends by being marked or forgotten");
	CLAIM(IMPLIES(act->send & LE_NODE_SEND_FORGET, was->state ==
				  LE_NODE_FORGETTING || (in->kind == LE_NODE_IN_DONE &&
										 was->named == 0)),
		  "what a key names is not forgotten");
	CLAIM(IMPLIES(in->kind == LE_NODE_IN_LISTED && in->early,
				  (act->send & LE_NODE_SEND_DESTROY) == 0),
		  "a list that came early does not end a session");
	CLAIM(IMPLIES(in->kind == LE_NODE_IN_LISTED && in->held > 0,
				  act->send == LE_NODE_SEND_UNLOCKS &&
				  n->unlocks == in->held),
		  "each key that is held is released");
}

/* Nothing is forgotten, and nothing goes round in a tight loop. */
static void
claim_timers(const LeNode *was, const LeNodeInput *in, const LeNode *n,
			 const LeNodeActions *act)
{
	CLAIM(IMPLIES(n->state == LE_NODE_LIVE, le_node_timer(n) != 0 &&
				  le_node_timer(n) <= n->deadline),
		  "who believes has a timer for the deadline");
	CLAIM(IMPLIES(n->step_at != 0 && n->step_at != was->step_at,
				  n->step_at >= in->now + 50 * LE_MSEC &&
				  n->step_at <= in->now + LE_MAX_LEASE),
		  "a step that failed is due again, and not at once");
	CLAIM(IMPLIES(n->state != LE_NODE_NONE && n->state != LE_NODE_LIVE &&
				  n->step_at == 0, act->send != 0 ||
				  (was->state == n->state && was->step_at == 0)),
		  "a step is under way, or due");
	CLAIM(IMPLIES(in->kind == LE_NODE_IN_TIMER && was->deadline != 0 &&
				  in->now < le_node_timer(was), act->send == 0),
		  "no round goes before any of it is due");
	CLAIM(IMPLIES(in->kind == LE_NODE_IN_TIMER && was->deadline != 0 &&
				  was->proof_failures > 0 && in->now < was->prove_at,
				  (act->send & LE_NODE_SEND_PROOF) == 0) &&
		  IMPLIES(in->kind == LE_NODE_IN_TIMER && was->deadline != 0 &&
				  was->renew_failures > 0 && in->now < was->renew_at,
				  (act->send & LE_NODE_SEND_RENEW) == 0),
		  "what failed waits out its pause");
	CLAIM(IMPLIES(n->state == LE_NODE_NONE, !n->wanted),
		  "who is wanted does not rest");
	CLAIM(n->proof_failures >= 0 && n->renew_failures >= 0 &&
		  n->step_failures >= 0 && n->setup_failures >= 0 && n->unlocks >= 0,
		  "counts are not negative");
}

HARNESS(node_step)
{
	LeNodeInput in = any_input();
	LeNode		was = any_node();
	LeNode		n = was;
	LeNodeActions act;
	const char *broken;

	ASSUME(le_node_contract(&was, &in) == NULL);
	act = le_node_input(&n, &in);
	broken = le_node_check(&was, &in, &n, &act);
	CLAIM(broken == NULL, "the invariants of a step hold");
	broken = le_node_sound(&n);
	CLAIM(broken == NULL, "the state is sound again");
	claim_belief(&was, &in, &n, &act);
	claim_requests(&was, &in, &n, &act);
	claim_timers(&was, &in, &n, &act);
	CLAIM_REACHED();
}

HARNESS(node_start)
{
	LeNode		n;
	LeTiming	t = any_timing();
	LeTiming	earlier = any_timing();
	le_time		now = any_instant();

	ASSUME(now > 0);
	le_node_init(&n);
	CLAIM(le_node_sound(&n) == NULL, "it starts soundly");
	le_node_set_timing(&n, &t);
	CLAIM(le_node_sound(&n) == NULL && n.timing.lease == t.lease,
		  "with its settings");
	le_node_adopt_predecessor(&n, &earlier, now);
	CLAIM(le_node_sound(&n) == NULL && n.deadline == 0,
		  "a predecessor gives no belief");
	CLAIM(n.next_timing.lease == t.lease, "and leaves the settings");
	CLAIM(le_node_timer(&n) == now, "its session is ended at once");
}

HARNESS(node_calls)
{
	le_time		now = any_instant();
	LeTiming	t = any_timing();
	LeNode		n = any_node();
	LeNode		was = n;

	ASSUME(now > 0);
	le_node_resume(&n, now);
	CLAIM(le_node_sound(&n) == NULL, "a new worker finds it sound");
	CLAIM(n.deadline == was.deadline && n.seq == was.seq,
		  "believes no longer, and uses no number twice");
	CLAIM(n.epoch != was.epoch, "what was in flight is stale");
	CLAIM(IMPLIES(n.state != LE_NODE_NONE, le_node_timer(&n) != 0),
		  "and it goes on by itself");
	n = was;
	le_node_set_timing(&n, &t);
	CLAIM(le_node_sound(&n) == NULL && n.deadline == was.deadline,
		  "settings change no belief");
}
