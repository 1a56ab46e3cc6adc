/*-------------------------------------------------------------------------
 *
 * consul_numbers.c
 *		The text of the store "consul", in numbers.
 *
 * Replaces store/consul_text.c and its callers: numbers instead of names and
 * JSON make millions of schedules affordable.  The steps of a transaction and
 * the meaning of their results are shipped code, store/consul_plan.c.
 *
 * test/sim/consul_numbers.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include "store/consul_wire.h"

/* ---- operation to request ---- */

static Value
leader_value(const LeConsulValue *from)
{
	const LeOp *op = from->op;

	return (Value)
	{
		.node = node_of_name(op->node_name),
		.session = session_of_name(op->session),
		.user = number_of_value(op->value),
		.token = from->token,
		.lease = op->lease,
		.released = from->ended
	};
}

static Value
node_value(const LeConsulValue *from)
{
	const LeOp *op = from->op;

	return (Value)
	{
		.node = node_of_name(op->node_name),
		.session = session_of_name(op->session),
		.incarnation = number_of_incarnation(op->incarnation),
		.lease = op->lease,
		.seq = op->proof.seq,
		.system = op->proof.systems.ids[0],
		.since = op->proof.since,
		.revoked = from->ended
	};
}

static Value
target_value(const LeConsulValue *from)
{
	const LeNodeKey *target = from->op->takeover.target;

	return (Value)
	{
		.node = node_of_name(target->node),
		.session = session_of_name(target->session),
		.incarnation = number_of_incarnation(target->incarnation),
		.lease = target->lease,
		.seq = target->seq,
		.system = target->systems.ids[0],
		.since = target->since,
		.revoked = from->ended
	};
}

/* A record, coded in other fields. */
static Value
claim_value(const LeClaim *claim)
{
	return (Value)
	{
		.node = node_of_name(claim->node),
		.user = claim_of_name(claim->id),
		.seq = (uint64) claim->tick,
		.incarnation = (uint32) claim->try,
		.token = claim->token,
		.lease = claim->state,
		.revoked = claim->ended_at != 0,
		.session = (int) claim->every,
		.gap = claim->gap,
		.writes = claim->writes
	};
}

ClaimRecord
record_of_key(const Key *key)
{
	const Value *v = &key->value;
	ClaimRecord record = {0};

	record.exists = key->exists;
	record.id = v->user;
	record.tick = (int64) v->seq;
	record.try = (int) v->incarnation;
	record.token = v->token;
	record.state = (LeClaimState) v->lease;
	record.ended = v->revoked;
	record.every = v->session;
	record.gap = v->gap;
	record.writes = v->writes;
	return record;
}

/* Only the index of a news key makes its value differ. */
static Value
news_value(Request *r, const LeOp *op)
{
	const LeGossip *from = op->news;

	r->tells = true;
	r->news.node = node_of_name(op->node_name);
	r->news.number = from->number;
	r->news.since = from->since;
	r->news.nitems = from->nitems;
	sim.counts.gaps += from->since == from->number;
	for (int i = 0; i < from->nitems; i++)
	{
		const LeGossipItem *item = &from->items[i];

		r->news.items[i].election = election_of_name(item->election);
		r->news.items[i].kind = item->kind;
		r->news.items[i].number = item->number;
		r->news.items[i].index = item->index;
		r->news.items[i].token = item->token;
	}
	return (Value)
	{
		.seq = from->number
	};
}

/* Returns its number; -1: nothing is written. */
static int
take_value(Request *r, const LeConsulValue *from)
{
	Value	   *to = &r->values[r->nvalues];

	switch (from->kind)
	{
		case LE_CONSUL_NOTHING:
			return -1;
		case LE_CONSUL_VALUE_OF_LEADER:
			*to = leader_value(from);
			break;
		case LE_CONSUL_VALUE_OF_NODE:
			*to = node_value(from);
			break;
		case LE_CONSUL_VALUE_OF_TARGET:
			*to = target_value(from);
			break;
		case LE_CONSUL_VALUE_OF_NEWS:
			*to = news_value(r, from->op);
			break;
		case LE_CONSUL_VALUE_OF_CLAIM:
			*to = claim_value(from->op->claim.record);
			break;
	}
	to->ours = true;
	return r->nvalues++;
}

static int
key_number(const LeConsulKey *key)
{
	switch (key->kind)
	{
		case LE_CONSUL_LEADER:
			return election_of_name(key->name);
		case LE_CONSUL_NODE:
			return NODE_KEY(session_of_name(key->name));
		case LE_CONSUL_NEWS:
			return NEWS_KEY(session_of_name(key->name));
		case LE_CONSUL_CLAIM:
			return CLAIM_KEY(election_of_name(key->name),
							 job_of_name(key->job));
		case LE_CONSUL_CONFIG:
		case LE_CONSUL_INITIALIZE:
			break;
	}
	return PATRONI_KEY;
}

static void
take_step(Request *r, const LeConsulStep *from)
{
	Step	   *to = &r->steps[r->nsteps++];

	to->role = from->role;
	to->part = from->part;
	to->verb = from->verb;
	to->key = key_number(&from->key);
	to->session = session_of_name(from->session);
	to->index = from->index;
	to->value = take_value(r, &from->value);
}

static void
take_plan(Request *r, const LeConsulPlan *plan)
{
	const LeOp *op = plan->op;

	if (plan->nsteps > MAX_STEPS)
		abort();
	for (int i = 0; i < plan->nsteps; i++)
		take_step(r, &plan->steps[i]);
	r->nparts = plan->nparts;
	for (int i = 0; i < plan->nparts; i++)
	{
		r->write[i] = plan->write[i];
		r->elections[i] = i == 0 ? r->election :
			election_of_name(op->wire.joined[i - 1]->election);
	}
	sim.counts.joined += op->wire.njoined;
}

void
le_consul_encode(const LeNamespace *ns, const LeOp *op,
				 LeRequest *request)
{
	Request    *r = &sim_node->encoded;
	LeConsulPlan plan;

	(void) ns;
	(void) request;
	r->kind = op->kind;
	r->node = sim_node->number;
	r->session = session_of_name(op->session);
	r->election = op->election == NULL ? -1 : election_of_name(op->election);
	r->job = op->claim.job == NULL ? -1 : job_of_name(op->claim.job);
	r->fresh = op->fresh;
	r->lease = op->lease;
	if (op->kind == LE_OP_CREATE_SESSION)
	{
		r->ttl = le_consul_ttl_seconds(op->lease) * LE_SEC;
		r->lock_delay = le_consul_lock_delay_seconds(op->lease) * LE_SEC;
	}
	r->watch_index = op->watch.index;
	r->wait = op->watch.wait_ms * LE_MSEC;
	r->nvalues = r->nsteps = r->nparts = 0;
	r->tells = false;
	if (le_consul_plan(op, &plan))
		take_plan(r, &plan);
}

/* ---- answer to answer ---- */

static void
show_key(LeKey *to, int election, const Key *from)
{
	const Value *v = &from->value;

	memset(to, 0, sizeof(*to));
	to->election = name_of_election(election);
	to->holder = name_of_session(from->session);
	to->index = from->index;
	to->usable = from->usable;
	to->ours = v->ours;
	if (!v->ours)
		return;
	to->node = name_of_node(v->node);
	to->value_session = name_of_session(v->session);
	to->value = name_of_value(v->user);
	to->token = le_consul_token(to, v->token);
	to->lease = v->lease;
	to->released = v->released;
}

static void
show_keys(const Answer *from, LeAnswer *to)
{
	to->keys = palloc(MAX_ELECTIONS * sizeof(LeKey));
	for (int e = 0; e < MAX_ELECTIONS; e++)
		if ((from->keys_shown >> e) & 1)
			show_key(&to->keys[to->nkeys++], e, &from->keys[e]);
}

static void
show_nodes(const Answer *from, LeAnswer *to)
{
	to->nodes = palloc(Max(from->nnodes, 1) * sizeof(LeNodeKey));
	for (int i = 0; i < from->nnodes; i++)
	{
		const NodeKeyShown *n = &from->nodes[i];
		LeNodeKey  *key = &to->nodes[to->nnodes++];

		key->session = name_of_session(n->session);
		key->held = n->held;
		key->index = n->index;
		key->node = name_of_node(n->value.node);
		key->incarnation = name_of_incarnation(n->value.incarnation);
		key->lease = n->value.lease;
		key->seq = n->value.seq;
		key->revoked = n->value.revoked;
		key->tells = n->tells;
		key->unfit = NULL;		/* nothing depends on it */
		key->since = n->value.since != 0 ? n->value.since : n->index;
		memset(&key->systems, 0, sizeof(key->systems));
		key->systems.ids[0] = n->value.system;
	}
}

static void
show_items(const NewsShown *from, LeGossip *to)
{
	LeGossipItem *items = palloc0(LE_MAX_NEWS * sizeof(LeGossipItem));

	to->nitems = from->text.nitems;
	for (int i = 0; i < to->nitems; i++)
	{
		items[i].election = name_of_election(from->text.items[i].election);
		items[i].kind = from->text.items[i].kind;
		items[i].number = from->text.items[i].number;
		items[i].token = from->text.items[i].token;
		items[i].index = from->text.items[i].index;
	}
	if (!le_consul_date_items(to, items))
		abort();
	for (int i = 0; i < to->nitems; i++)
		sim.counts.told += items[i].index != 0;
	to->items = items;
}

static void
show_news(const Answer *from, LeAnswer *to)
{
	to->news = palloc0(Max(from->nnews, 1) * sizeof(LeGossip));
	for (int i = 0; i < from->nnews; i++)
	{
		const NewsShown *n = &from->news[i];
		LeGossip	   *news = &to->news[to->nnews++];

		news->session = name_of_session(n->session);
		news->held = n->held;
		news->index = n->index;
		news->node = name_of_node(n->text.node);
		news->number = n->text.number;
		news->since = n->text.since;
		show_items(n, news);
	}
}

static void
show_claim(const Answer *from, const LeOp *op, LeAnswer *to)
{
	ClaimRecord record = record_of_key(&from->keys[0]);
	LeClaim    *claim;

	if (from->keys_shown == 0)
		return;
	claim = palloc0(sizeof(LeClaim));
	claim->election = op->election;
	claim->job = op->claim.job;
	claim->tick = record.tick;
	claim->try = record.try;
	claim->id = name_of_claim(record.id);
	claim->token = record.token;
	claim->node = name_of_node(from->keys[0].value.node);
	claim->state = record.state;
	claim->ended_at = record.ended;
	claim->every = record.every;
	claim->gap = record.gap;
	claim->writes = record.writes;
	claim->index = from->keys[0].index;
	to->claims = claim;
	to->nclaims = 1;
}

/* Results of the steps, or the values written: the answer is the shipped
 * code's. */
static void
show_results(const Answer *from, const LeConsulPlan *plan, LeAnswer *to)
{
	LeConsulOutcome outcome;

	to->outcome = LE_DONE;
	le_consul_begin(&outcome, plan, to);
	for (int i = 0; i < from->nrefused; i++)
		le_consul_refused(&outcome, from->refused[i].step,
						  from->refused[i].reason, NULL);
	for (int i = 0; from->nrefused == 0 && i < plan->nparts; i++)
		outcome.written[i] = (LeConsulWritten)
		{
			.index = from->written[i].index,
			.flagged = from->written[i].usable,
			.session = name_of_session(from->written[i].session)
		};
	if (!le_consul_settle(&outcome, from->nrefused > 0, to))
		le_fail_open(plan->op, to, "an answer that is not Consul's");
	for (int i = 0; to->wire.parts != NULL && i < plan->nparts; i++)
		sim.counts.unjudged += to->wire.parts[i].wire.unjudged;
}

static void
show_read(const Answer *from, const LeOp *op, LeAnswer *to)
{
	to->index = from->index;
	switch (op->kind)
	{
		case LE_OP_CREATE_SESSION:
			to->session = name_of_session(from->session);
			break;
		case LE_OP_SESSION_NAME:
			to->name = "somebody";
			break;
		case LE_OP_WATCH:
			to->index = le_consul_next_index(op, from->index);
			show_keys(from, to);
			break;
		case LE_OP_READ:
		case LE_OP_LIST_HELD:
			show_keys(from, to);
			break;
		case LE_OP_LIST_NODES:
			show_nodes(from, to);
			break;
		case LE_OP_WATCH_NEWS:
			to->index = le_consul_next_index(op, from->index);
			show_news(from, to);
			break;
		case LE_OP_READ_CLAIM:
			show_claim(from, op, to);
			break;
		default:
			break;
	}
}

void
le_consul_decode(const LeNamespace *ns, const LeOp *op,
				 const LeResponse *response, LeAnswer *to)
{
	const Answer *from = (const Answer *) response->body;
	LeConsulPlan plan;

	(void) ns;
	memset(to, 0, sizeof(*to));
	if (response->net == LE_NET_NOT_SENT)
		to->outcome = LE_UNAVAILABLE;
	else if (response->net == LE_NET_BROKEN)
		to->outcome = le_op_writes(op->kind) ? LE_UNKNOWN : LE_UNAVAILABLE;
	else
		to->outcome = from->outcome;
	if (response->net != LE_NET_OK)
		return;
	if (from->judged && le_consul_plan(op, &plan))
		show_results(from, &plan, to);
	else if (to->outcome == LE_DONE)
		show_read(from, op, to);
}
