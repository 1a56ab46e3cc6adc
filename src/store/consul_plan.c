/*-------------------------------------------------------------------------
 *
 * consul_plan.c
 *		Transactions of the store "consul", and the meaning of results.
 *
 * Every write is one transaction (PUT /v1/txn) whose conditions are checked
 * together with it by Consul's state machine.  A transaction is planned as a
 * list of steps; the same plan gives the meaning of a step's failure.
 *
 * This file has no text of Consul's: the simulator links it as it is.
 *
 * src/store/consul_plan.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "store/consul_plan.h"

StaticAssertDecl(LE_MAX_CHECKED_KEYS + 2 <= LE_CONSUL_MAX_STEPS,
				 "a node proof is one transaction");

/* ---- sessions ---- */

static int64
whole_seconds(le_duration d)
{
	return (d + LE_SEC - 1) / LE_SEC;
}

/* Consul's TTL must not be shorter than the lease, nor than Consul allows. */
int64
le_consul_ttl_seconds(le_duration lease)
{
	return whole_seconds(le_session_ttl(lease, LE_CONSUL_LEAST_SESSION));
}

/* A holder's belief has ended before its key can be locked. */
int64
le_consul_lock_delay_seconds(le_duration lease)
{
	return whole_seconds(lease);
}

/* ---- keys and values ---- */

static LeConsulKey
leader_key(const char *election)
{
	return (LeConsulKey)
	{
		.kind = LE_CONSUL_LEADER, .name = election
	};
}

static LeConsulKey
node_key(const char *session)
{
	return (LeConsulKey)
	{
		.kind = LE_CONSUL_NODE, .name = session
	};
}

static LeConsulKey
news_key(const char *session)
{
	return (LeConsulKey)
	{
		.kind = LE_CONSUL_NEWS, .name = session
	};
}

static LeConsulKey
claim_key(const LeOp *op)
{
	return (LeConsulKey)
	{
		.kind = LE_CONSUL_CLAIM, .name = op->election,
			.job = op->claim.record->job };
}

static const LeConsulValue no_value = {.kind = LE_CONSUL_NOTHING};

/* The index of the acquiring write is the token; a later write has another. */
static LeConsulValue
leader_value(const LeOp *op, bool released)
{
	return (LeConsulValue)
	{
		.kind = LE_CONSUL_VALUE_OF_LEADER, .op = op,
		.token = op->kind == LE_OP_PUBLISH ? op->token : 0, .ended = released
	};
}

static LeConsulValue
node_value(const LeOp *op, bool revoked)
{
	return (LeConsulValue)
	{
		.kind = LE_CONSUL_VALUE_OF_NODE, .op = op, .ended = revoked
	};
}

static LeConsulValue
news_value(const LeOp *op)
{
	return (LeConsulValue)
	{
		.kind = LE_CONSUL_VALUE_OF_NEWS, .op = op
	};
}

/* ---- steps ---- */

static LeConsulStep *
add_step(LeConsulPlan *plan, LeConsulRole role, LeConsulVerb verb,
		 LeConsulKey key)
{
	LeConsulStep *step = &plan->steps[plan->nsteps++];

	memset(step, 0, sizeof(*step));
	step->role = role;
	step->part = plan->part;
	step->verb = verb;
	step->key = key;
	return step;
}

static void
check_session(LeConsulPlan *plan, LeConsulRole role, LeConsulKey key,
			  const char *session)
{
	add_step(plan, role, LE_CONSUL_CHECK_SESSION, key)->session = session;
}

static void
check_absent(LeConsulPlan *plan, LeConsulRole role, LeConsulKey key)
{
	add_step(plan, role, LE_CONSUL_CHECK_ABSENT, key);
}

static void
check_index(LeConsulPlan *plan, LeConsulKey key, uint64 index)
{
	add_step(plan, LE_CONSUL_UNCHANGED, LE_CONSUL_CHECK_INDEX, key)->index =
		index;
}

static void
write_key(LeConsulPlan *plan, LeConsulVerb verb, LeConsulKey key,
		  const char *session, LeConsulValue value)
{
	LeConsulStep *step;

	plan->write[plan->part] = plan->nsteps;
	step = add_step(plan, LE_CONSUL_WRITE, verb, key);
	step->session = session;
	step->value = value;
}

/* This step fails only with our own session. */
static void
add_news(const LeOp *op, LeConsulPlan *plan)
{
	LeConsulStep *step = add_step(plan, LE_CONSUL_OWN, LE_CONSUL_LOCK,
								  news_key(op->session));

	step->session = op->session;
	step->value = news_value(op);
}

/* ---- transactions ---- */

static void
plan_register(const LeOp *op, LeConsulPlan *plan)
{
	LeConsulKey node = node_key(op->session);

	check_absent(plan, LE_CONSUL_UNCHANGED, node);
	write_key(plan, LE_CONSUL_LOCK, node, op->session, node_value(op, false));
}

static void
plan_prove(const LeOp *op, LeConsulPlan *plan)
{
	LeConsulKey node = node_key(op->session);

	check_session(plan, LE_CONSUL_OWN, node, op->session);
	write_key(plan, LE_CONSUL_LOCK, node, op->session, node_value(op, false));
	for (int i = 0; i < op->proof.nheld &&
		 plan->nsteps < LE_CONSUL_MAX_STEPS; i++)
		check_session(plan, LE_CONSUL_HELD, leader_key(op->proof.held[i]),
					  op->session);
}

/* Marks the node key of a session that has ended. */
static void
plan_mark(const LeOp *op, LeConsulPlan *plan)
{
	LeConsulKey node = node_key(op->session);

	check_session(plan, LE_CONSUL_UNCHANGED, node, "");
	write_key(plan, LE_CONSUL_SET, node, NULL, node_value(op, true));
}

static void
plan_forget(const LeOp *op, LeConsulPlan *plan)
{
	LeConsulKey node = node_key(op->session);

	check_session(plan, LE_CONSUL_UNCHANGED, node, "");
	add_step(plan, LE_CONSUL_UNCHANGED, LE_CONSUL_DELETE,
			 news_key(op->session));
	write_key(plan, LE_CONSUL_DELETE, node, NULL, no_value);
}

static void
plan_tell(const LeOp *op, LeConsulPlan *plan)
{
	check_session(plan, LE_CONSUL_OWN, node_key(op->session), op->session);
	write_key(plan, LE_CONSUL_LOCK, news_key(op->session), op->session,
			  news_value(op));
}

static void
plan_acquire(const LeOp *op, LeConsulKey key, LeConsulPlan *plan)
{
	if (op->index != 0)
		check_index(plan, key, op->index);
	else
	{
		LeConsulKey patroni = key;

		patroni.kind = LE_CONSUL_CONFIG;
		check_absent(plan, LE_CONSUL_FREE_OF_PATRONI, patroni);
		patroni.kind = LE_CONSUL_INITIALIZE;
		check_absent(plan, LE_CONSUL_FREE_OF_PATRONI, patroni);
		check_absent(plan, LE_CONSUL_UNCHANGED, key);
	}
	write_key(plan, LE_CONSUL_LOCK, key, op->session,
			  leader_value(op, false));
}

/* A step that frees or marks a key of the silent holder. */
static LeConsulStep *
take_from(LeConsulPlan *plan, LeConsulVerb verb, LeConsulKey key,
		  const char *session, LeConsulValue value)
{
	LeConsulStep *step = add_step(plan, LE_CONSUL_UNCHANGED, verb, key);

	step->session = session;
	step->value = value;
	return step;
}

/*
 * Marks the holder's node key, as it was seen when the holder had been silent
 * for a whole lease.  After a later proof of the holder the index has moved,
 * so the whole transaction is refused.  The key is never deleted: a late
 * duplicate of the request that made it would bring it back.
 */
static void
plan_revoke(const LeOp *op, LeConsulPlan *plan)
{
	const LeNodeKey *target = op->takeover.target;
	LeConsulKey node = node_key(target->session);
	LeConsulValue value = {
		.kind = LE_CONSUL_VALUE_OF_TARGET, .op = op, .ended = true
	};

	check_index(plan, node, target->index);
	check_session(plan, LE_CONSUL_UNCHANGED, node,
				  target->held ? target->session : "");
	if (target->revoked)
		return;
	if (target->held)
		take_from(plan, LE_CONSUL_UNLOCK, node, target->session, value);
	else
		take_from(plan, LE_CONSUL_CAS, node, NULL, value)->index =
			target->index;
}

static void
plan_take_over(const LeOp *op, LeConsulKey key, LeConsulPlan *plan)
{
	LeConsulValue value = leader_value(op, false);

	check_index(plan, key, op->index);
	if (op->takeover.target_holds)
		take_from(plan, LE_CONSUL_UNLOCK, key, op->takeover.target->session,
				  value);
	else
		check_session(plan, LE_CONSUL_UNCHANGED, key, "");
	write_key(plan, LE_CONSUL_LOCK, key, op->session, value);
}

static void
plan_part(const LeOp *op, LeConsulPlan *plan)
{
	LeConsulKey key = leader_key(op->election);

	switch (op->kind)
	{
		case LE_OP_ACQUIRE:
			plan_acquire(op, key, plan);
			break;
		case LE_OP_TAKE_OVER:
			plan_take_over(op, key, plan);
			break;
		case LE_OP_PUBLISH:
			check_index(plan, key, op->index);
			write_key(plan, LE_CONSUL_LOCK, key, op->session,
					  leader_value(op, false));
			break;
		default:				/* LE_OP_RELEASE */
			check_index(plan, key, op->index);
			write_key(plan, LE_CONSUL_UNLOCK, key, op->session,
					  leader_value(op, true));
			break;
	}
}

/*
 * One or several operations of a kind, each on its own election's key.  The
 * check of our node key stops a late acquire of a session that was given up;
 * the check of the index stops a late duplicate of any other write.
 */
static void
plan_joined(const LeOp *op, LeConsulPlan *plan)
{
	plan->nparts = 1 + op->wire.njoined;
	plan->part = LE_CONSUL_ALL_PARTS;
	if (op->kind == LE_OP_TAKE_OVER)
		plan_revoke(op, plan);
	if (op->kind != LE_OP_RELEASE)
		check_session(plan, LE_CONSUL_OWN, node_key(op->session),
					  op->session);
	for (plan->part = 0; plan->part < plan->nparts; plan->part++)
		plan_part(plan->part == 0 ? op : op->wire.joined[plan->part - 1],
				  plan);
	plan->part = LE_CONSUL_ALL_PARTS;
	if (op->news != NULL)
		add_news(op, plan);
}

static void
write_claim(const LeOp *op, LeConsulPlan *plan)
{
	LeConsulValue value = {.kind = LE_CONSUL_VALUE_OF_CLAIM, .op = op};

	write_key(plan, LE_CONSUL_SET, claim_key(op), NULL, value);
}

/*
 * The check of the session shows that the term holds.  The check of the index
 * shows that it is this term: a delayed request might find a later one of the
 * same session.
 */
static void
plan_claim(const LeOp *op, LeConsulPlan *plan)
{
	LeConsulKey leader = leader_key(op->election);

	check_session(plan, LE_CONSUL_OWN, node_key(op->session), op->session);
	check_session(plan, LE_CONSUL_UNCHANGED, leader, op->session);
	check_index(plan, leader, op->index);
	if (op->claim.previous != NULL)
		check_index(plan, claim_key(op), op->claim.previous->index);
	else
		check_absent(plan, LE_CONSUL_UNCHANGED, claim_key(op));
	write_claim(op, plan);
}

/* Without conditions on the term: work that is done is done. */
static void
plan_complete(const LeOp *op, LeConsulPlan *plan)
{
	check_index(plan, claim_key(op), op->claim.previous->index);
	write_claim(op, plan);
}

bool
le_consul_plan(const LeOp *op, LeConsulPlan *plan)
{
	plan->op = op;
	plan->nsteps = 0;
	plan->nparts = 1;
	plan->part = 0;
	switch (op->kind)
	{
		case LE_OP_REGISTER_NODE:
			plan_register(op, plan);
			return true;
		case LE_OP_PROVE_NODE:
			plan_prove(op, plan);
			return true;
		case LE_OP_REVOKE_NODE:
			plan_mark(op, plan);
			return true;
		case LE_OP_FORGET_NODE:
			plan_forget(op, plan);
			return true;
		case LE_OP_TELL_NEWS:
			plan_tell(op, plan);
			return true;
		case LE_OP_ACQUIRE:
		case LE_OP_TAKE_OVER:
		case LE_OP_PUBLISH:
		case LE_OP_RELEASE:
			plan_joined(op, plan);
			return true;
		case LE_OP_CLAIM:
			plan_claim(op, plan);
			return true;
		case LE_OP_COMPLETE:
			plan_complete(op, plan);
			return true;
		default:
			return false;
	}
}

/* ---- results ---- */

void
le_consul_begin(LeConsulOutcome *outcome, const LeConsulPlan *plan,
				LeAnswer *answer)
{
	outcome->plan = plan;
	outcome->answers = plan->op->wire.njoined == 0 ? answer :
		palloc0(plan->nparts * sizeof(LeAnswer));
	outcome->nrefused = 0;
	for (int i = 0; i < plan->nparts; i++)
	{
		outcome->weight[i] = 0;
		memset(&outcome->written[i], 0, sizeof(LeConsulWritten));
	}
}

/* The meaning of a step's failure, and its gravity. */
typedef struct Verdict
{
	int			weight;
	LeOutcome	outcome;
	LeConflict	conflict;
} Verdict;

static Verdict
judge_reason(const LeConsulPlan *plan, const LeConsulStep *step,
			 LeConsulReason reason)
{
	static const Verdict denied = {.weight = 7, .outcome = LE_REFUSED};
	static const Verdict lost = {.weight = 6, .outcome = LE_LOST};
	static const Verdict delay = {4, LE_CONFLICT, LE_CONFLICT_LOCK_DELAY};
	static const Verdict held = {3, LE_CONFLICT, LE_CONFLICT_HELD};
	static const Verdict changed = {2, LE_CONFLICT, LE_CONFLICT_CHANGED};

	if (reason == LE_CONSUL_DENIED)
		return denied;
	if (reason == LE_CONSUL_NO_SESSION)
		return lost;
	if (step->role == LE_CONSUL_WRITE && plan->op->kind == LE_OP_PROVE_NODE)
		return lost;
	if (reason == LE_CONSUL_DELAYED)
		return delay;
	if (reason == LE_CONSUL_HELD_BY_OTHER)
		return held;
	return changed;
}

static Verdict
judge_step(const LeConsulPlan *plan, const LeConsulStep *step,
		   LeConsulReason reason)
{
	static const Verdict patroni = {.weight = 5, .outcome = LE_REFUSED};
	static const Verdict lost = {.weight = 6, .outcome = LE_LOST};
	static const Verdict not_ours = {1, LE_CONFLICT, LE_CONFLICT_CHANGED};
	Verdict		by_reason = judge_reason(plan, step, reason);

	if (by_reason.outcome != LE_CONFLICT)
		return by_reason;
	switch (step->role)
	{
		case LE_CONSUL_OWN:
			return lost;
		case LE_CONSUL_FREE_OF_PATRONI:
			return patroni;
		case LE_CONSUL_HELD:
			return not_ours;
		case LE_CONSUL_UNCHANGED:
		case LE_CONSUL_WRITE:
			break;
	}
	return by_reason;
}

static void
add_lost(LeAnswer *answer, int position)
{
	if (answer->lost == NULL)
		answer->lost = palloc(LE_MAX_CHECKED_KEYS * sizeof(int));
	for (int i = 0; i < answer->nlost; i++)
	{
		if (answer->lost[i] == position)
			return;
	}
	answer->lost[answer->nlost++] = position;
}

/* Keep a step's verdict on one of the parts if it is the gravest. */
static void
note_verdict(LeConsulOutcome *outcome, int part, const Verdict *verdict,
			 LeCause cause, const char *detail)
{
	LeAnswer   *answer = &outcome->answers[part];

	if (verdict->weight <= outcome->weight[part])
		return;
	outcome->weight[part] = verdict->weight;
	answer->outcome = verdict->outcome;
	answer->cause = cause;
	answer->conflict = verdict->conflict;
	answer->detail = detail;
}

/* The detail is for people. */
void
le_consul_refused(LeConsulOutcome *outcome, int number,
				  LeConsulReason reason, const char *detail)
{
	const LeConsulPlan *plan = outcome->plan;
	const LeConsulStep *step = &plan->steps[number];
	Verdict		verdict = judge_step(plan, step, reason);
	LeCause		cause = reason == LE_CONSUL_DENIED ? LE_CAUSE_PERMISSION :
		LE_CAUSE_OTHER;

	outcome->nrefused++;
	if (step->role == LE_CONSUL_HELD)
		add_lost(&outcome->answers[0], number - 2);
	for (int i = 0; i < plan->nparts; i++)
		if (step->part == i || step->part == LE_CONSUL_ALL_PARTS)
			note_verdict(outcome, i, &verdict, cause, detail);
}

/* Does the answer show the part's write? */
static bool
shows_write(const LeConsulOutcome *outcome, int part)
{
	const LeConsulPlan *plan = outcome->plan;
	const LeConsulStep *step = &plan->steps[plan->write[part]];
	const LeConsulWritten *written = &outcome->written[part];

	if (step->value.kind == LE_CONSUL_NOTHING)
		return true;			/* a deletion leaves nothing to show */
	if (written->index == 0 || !written->flagged)
		return false;
	if (step->verb == LE_CONSUL_LOCK)
		return written->session != NULL &&
			strcmp(written->session, step->session) == 0;
	return written->session == NULL;
}

/* All parts are applied; false if the answer does not show that. */
static bool
settle_done(LeConsulOutcome *outcome)
{
	if (outcome->nrefused > 0)
		return false;
	for (int i = 0; i < outcome->plan->nparts; i++)
	{
		if (!shows_write(outcome, i))
			return false;
		outcome->answers[i].index = outcome->written[i].index;
	}
	return true;
}

/* None is applied; a part without a faulty step may be sent again. */
static bool
settle_refused(LeConsulOutcome *outcome)
{
	if (outcome->nrefused == 0)
		return false;
	for (int i = 0; i < outcome->plan->nparts; i++)
	{
		LeAnswer   *answer = &outcome->answers[i];

		if (outcome->weight[i] == 0)
		{
			le_fail(answer, LE_UNAVAILABLE, "another election's part of the "
					"transaction was refused");
			answer->wire.unjudged = true;
		}
		if (answer->outcome != LE_CONFLICT)
			answer->nlost = 0;
	}
	return true;
}

/* False if no Consul would answer that. */
bool
le_consul_settle(LeConsulOutcome *outcome, bool refused, LeAnswer *answer)
{
	if (!(refused ? settle_refused(outcome) : settle_done(outcome)))
		return false;
	if (outcome->plan->op->wire.njoined == 0)
		return true;			/* the only part's answer is the whole */
	if (refused)
		le_fail(answer, LE_CONFLICT, "one of the elections was refused");
	else
		answer->index = outcome->answers[0].index;
	answer->wire.parts = outcome->answers;
	return true;
}

/* ---- data from reads ---- */

/*
 * The token of the term in this key, 0 if unknown.  "written" is the token in
 * the key's value, 0 if that has none.
 */
uint64
le_consul_token(const LeKey *key, uint64 written)
{
	if (key->holder == NULL || strcmp(key->holder, key->value_session) != 0 ||
		written > key->index)
		return 0;
	return written != 0 ? written : key->index;
}

/*
 * The index to wait for next.  If the index went back (tombstones were
 * collected, Consul was restored), a wait for the old one would sleep through
 * all changes until that is reached again.
 */
uint64
le_consul_next_index(const LeOp *op, uint64 index)
{
	if (index < op->watch.index)
		return 0;
	return Max(index, 1);
}

/*
 * A write listed for the first time went together with the news, and all
 * writes of one transaction have one index.  There are two exceptions: a value
 * published again unchanged leaves the key's index, and the end of the session
 * moves that of the news.  False if no node of ours writes such news.
 */
bool
le_consul_date_items(const LeGossip *news, LeGossipItem *items)
{
	for (int i = 0; i < news->nitems; i++)
	{
		LeGossipItem *item = &items[i];

		if (item->number > news->number || item->index > news->index ||
			item->token > news->index)
			return false;
		if (item->number == news->number)
			item->index = news->held && item->kind != LE_OP_PUBLISH ?
				news->index : 0;
	}
	return true;
}

/* ---- several operations in one transaction ---- */

/* Units of a transaction that the operation takes: the number of steps of
 * plan_part(). */
int
le_consul_takes(const LeOp *op)
{
	switch (op->kind)
	{
		case LE_OP_ACQUIRE:
			return op->index != 0 ? 2 : 4;
		case LE_OP_TAKE_OVER:
			return 3;
		case LE_OP_PUBLISH:
		case LE_OP_RELEASE:
			return 2;
		default:
			return 0;
	}
}

/* Each transaction takes over from one holder, in its state last seen. */
bool
le_consul_joins(const LeOp *op, const LeOp *other)
{
	const LeNodeKey *a = op->takeover.target;
	const LeNodeKey *b = other->takeover.target;

	return op->kind == other->kind &&
		strcmp(op->session, other->session) == 0 &&
		(op->kind != LE_OP_TAKE_OVER ||
		 (strcmp(a->session, b->session) == 0 && a->index == b->index &&
		  a->held == b->held && a->revoked == b->revoked));
}
