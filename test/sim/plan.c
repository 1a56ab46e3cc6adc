/*-------------------------------------------------------------------------
 *
 * plan.c
 *		The store's codec without its text.
 *
 * encode() makes the same steps of the same transactions as store/consul.c,
 * decode() gives the same answers, but numbers take the place of names and
 * JSON, which is what makes millions of schedules affordable.
 *
 * test/sim/plan.c
 *
 *-------------------------------------------------------------------------
 */
#include "azure.h"

#include "plan.h"

/* ---- names and numbers ---- */

const char *
name_of_session(int session)
{
	static char names[MAX_SESSIONS][LE_SESSION_LEN + 1];

	if (session == 0)
		return NULL;
	if (names[session][0] == '\0')
		pg_snprintf(names[session], sizeof(names[session]),
					"00000000-0000-4000-8000-%012x", session);
	return names[session];
}

/* In ASCII, letters are 0x41 and more. */
static uint32
digit(char c)
{
	return (c & 15) + (c >> 6) * 9;
}

static inline uint32
read_4_digits(const char *s)
{
	return digit(s[0]) << 12 | digit(s[1]) << 8 | digit(s[2]) << 4 |
		digit(s[3]);
}

static uint32
read_8_digits(const char *s)
{
	return read_4_digits(s) << 16 | read_4_digits(s + 4);
}

/*
 * The last digits tell, or where the session is one in name only, the first,
 * which are those of the incarnation.  "" is no session.
 */
int
session_of_name(const char *name)
{
	int			n;

	if (name == NULL || name[0] == '\0')
		return 0;
	n = (int) read_4_digits(name + LE_SESSION_LEN - 4);
	return n != 0 ? n : (int) read_8_digits(name);
}

/* "e0", "e1", ... */
int
election_of_name(const char *name)
{
	return name[1] - '0';
}

const char *
name_of_election(int election)
{
	static const char *const names[MAX_ELECTIONS] = {"e0", "e1", "e2", "e3"};

	return names[election];
}

short
node_of_name(const char *name)
{
	return (short) atoi(name + 1);
}

const char *
name_of_node(int node)
{
	static char names[MAX_NODES][8];

	if (names[node][0] == '\0')
		pg_snprintf(names[node], sizeof(names[node]), "n%d", node);
	return names[node];
}

/* Values are "v" and a number. */
uint32
number_of_value(const char *value)
{
	return value == NULL ? 0 : (uint32) atoi(value + 1) + 1;
}

const char *
name_of_value(uint32 user)
{
	static char names[16][8];

	if (user == 0)
		return NULL;
	if (user >= lengthof(names))
		abort();
	if (names[user][0] == '\0')
		pg_snprintf(names[user], sizeof(names[user]), "v%u", user - 1);
	return names[user];
}

static uint32
number_of_incarnation(const char *incarnation)
{
	return read_8_digits(incarnation);
}

static const char *
name_of_incarnation(uint32 number)
{
	static char names[1024][LE_INCARNATION_LEN + 1];
	char	   *name = names[number % 1024];

	if (name[0] == '\0')
		pg_snprintf(name, LE_INCARNATION_LEN + 1, "%08x%024d",
					number % 1024, 0);
	return name;
}

/* ---- operation to request ---- */

static int
add_value(Request *r, const Value *value)
{
	r->values[r->nvalues] = *value;
	return r->nvalues++;
}

static Step *
add_step(Request *r, Role role, Verb verb, int key)
{
	Step	   *step = &r->steps[r->nsteps++];

	step->role = role;
	step->part = r->nparts - 1;
	step->verb = verb;
	step->key = key;
	step->session = 0;
	step->value = -1;
	step->index = 0;
	return step;
}

static void
check_session(Request *r, Role role, int key, int session)
{
	add_step(r, role, VERB_CHECK_SESSION, key)->session = session;
}

static void
check_index(Request *r, int key, uint64 index)
{
	add_step(r, ROLE_UNCHANGED, VERB_CHECK_INDEX, key)->index = index;
}

static void
write_key(Request *r, Verb verb, int key, int session, int value)
{
	Step	   *step;

	r->write[r->nparts - 1] = r->nsteps;
	step = add_step(r, ROLE_WRITE, verb, key);
	step->session = session;
	step->value = value;
}

static int
leader_value(Request *r, const LeOp *op, bool released)
{
	Value		v = {0};

	v.ours = true;
	v.node = node_of_name(op->node_name);
	v.session = r->session;
	v.user = number_of_value(op->value);
	v.token = op->kind == LE_OP_PUBLISH ? op->token : 0;
	v.released = released;
	return add_value(r, &v);
}

static int
node_value(Request *r, const LeOp *op, bool revoked)
{
	Value		v = {0};

	v.ours = true;
	v.node = node_of_name(op->node_name);
	v.session = r->session;
	v.incarnation = number_of_incarnation(op->incarnation);
	v.lease = op->lease;
	v.seq = op->seq;
	v.revoked = revoked;
	return add_value(r, &v);
}

static int
revoked_value(Request *r, const LeNodeKey *target)
{
	Value		v = {0};

	v.ours = true;
	v.node = node_of_name(target->node);
	v.session = session_of_name(target->session);
	v.incarnation = number_of_incarnation(target->incarnation);
	v.lease = target->lease;
	v.seq = target->seq;
	v.revoked = true;
	return add_value(r, &v);
}

/* The news go to a key of their own, whose index is all that its value has to
 * make differ. */
static void
add_news(Request *r, const LeOp *op, bool apart)
{
	const LeNews *from = op->news;
	Value		v = {0};
	Step	   *step;
	int			key = NEWS_KEY(r->session);

	v.ours = true;
	v.seq = from->number;
	if (apart)
		write_key(r, VERB_LOCK, key, r->session, add_value(r, &v));
	else
	{
		step = add_step(r, ROLE_OWN, VERB_LOCK, key);
		step->part = -1;
		step->session = r->session;
		step->value = add_value(r, &v);
	}
	r->tells = true;
	r->news.node = node_of_name(op->node_name);
	r->news.number = from->number;
	r->news.since = from->since;
	r->news.nitems = from->nitems;
	sim.counts.gaps += from->since == from->number;
	for (int i = 0; i < from->nitems; i++)
	{
		const LeNewsItem *item = &from->items[i];

		r->news.items[i].election = election_of_name(item->election);
		r->news.items[i].kind = item->kind;
		r->news.items[i].number = item->number;
		r->news.items[i].index = item->index;
		r->news.items[i].token = item->token;
	}
}

/* The steps that those joined have in common belong to none of them. */
static void
plan_revoke(Request *r, const LeNodeKey *target)
{
	int			from = session_of_name(target->session);
	Step	   *step;

	check_index(r, NODE_KEY(from), target->index);
	check_session(r, ROLE_UNCHANGED, NODE_KEY(from),
				  target->held ? from : 0);
	if (!target->revoked)
	{
		step = add_step(r, ROLE_UNCHANGED,
						target->held ? VERB_UNLOCK : VERB_CAS,
						NODE_KEY(from));
		step->session = target->held ? from : 0;
		step->index = target->held ? 0 : target->index;
		step->value = revoked_value(r, target);
	}
}

static void
plan_take_over(Request *r, const LeOp *op)
{
	int			from = session_of_name(op->target->session);
	int			value = leader_value(r, op, false);
	Step	   *step;

	check_index(r, r->election, op->index);
	if (op->target_holds)
	{
		step = add_step(r, ROLE_UNCHANGED, VERB_UNLOCK, r->election);
		step->session = from;
		step->value = value;
	}
	else
		check_session(r, ROLE_UNCHANGED, r->election, 0);
	write_key(r, VERB_LOCK, r->election, r->session, value);
}

/* A record, in the words of other values. */
static int
claim_value(Request *r, const LeClaim *claim)
{
	Value		v = {0};

	v.ours = true;
	v.node = node_of_name(claim->node);
	v.user = claim_of_name(claim->id);
	v.seq = (uint64) claim->tick;
	v.incarnation = (uint32) claim->try;
	v.token = claim->token;
	v.lease = claim->state;
	v.session = (int) claim->every;
	return add_value(r, &v);
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
	record.every = v->session;
	return record;
}

static void
plan_claim(Request *r, const LeOp *op)
{
	int			key = CLAIM_KEY(r->election, r->job);

	if (op->kind == LE_OP_CLAIM)
	{
		check_session(r, ROLE_OWN, NODE_KEY(r->session), r->session);
		check_session(r, ROLE_UNCHANGED, r->election, r->session);
		check_index(r, r->election, op->index);
	}
	if (op->previous != NULL)
		check_index(r, key, op->previous->index);
	else
		add_step(r, ROLE_UNCHANGED, VERB_CHECK_ABSENT, key);
	write_key(r, VERB_SET, key, 0, claim_value(r, op->claim));
}

static void
plan_part(Request *r, const LeOp *op)
{
	r->election = election_of_name(op->election);
	r->elections[r->nparts++] = r->election;
	switch (op->kind)
	{
		case LE_OP_ACQUIRE:
			if (op->index != 0)
				check_index(r, r->election, op->index);
			else
				add_step(r, ROLE_UNCHANGED, VERB_CHECK_ABSENT, r->election);
			write_key(r, VERB_LOCK, r->election, r->session,
					  leader_value(r, op, false));
			break;
		case LE_OP_TAKE_OVER:
			plan_take_over(r, op);
			break;
		case LE_OP_PUBLISH:
			check_index(r, r->election, op->index);
			write_key(r, VERB_LOCK, r->election, r->session,
					  leader_value(r, op, false));
			break;
		default:				/* LE_OP_RELEASE */
			check_index(r, r->election, op->index);
			write_key(r, VERB_UNLOCK, r->election, r->session,
					  leader_value(r, op, true));
			break;
	}
}

static void
plan_joined(Request *r, const LeOp *op)
{
	if (op->kind == LE_OP_TAKE_OVER)
		plan_revoke(r, op->target);
	if (op->kind != LE_OP_RELEASE)
		check_session(r, ROLE_OWN, NODE_KEY(r->session), r->session);
	plan_part(r, op);
	for (int i = 0; i < op->njoined; i++)
		plan_part(r, op->joined[i]);
	if (op->news != NULL)
		add_news(r, op, false);
	if (op->njoined > 0)
		sim.counts.joined += op->njoined;
}

static void
plan_transaction(Request *r, const LeOp *op)
{
	int			s = r->session;

	switch (op->kind)
	{
		case LE_OP_ACQUIRE:
		case LE_OP_TAKE_OVER:
		case LE_OP_PUBLISH:
		case LE_OP_RELEASE:
			plan_joined(r, op);
			return;
		default:
			r->nparts = 1;
			r->elections[0] = r->election;
			break;
	}
	switch (op->kind)
	{
		case LE_OP_REGISTER_NODE:
			add_step(r, ROLE_UNCHANGED, VERB_CHECK_ABSENT, NODE_KEY(s));
			write_key(r, VERB_LOCK, NODE_KEY(s), s,
					  node_value(r, op, false));
			break;
		case LE_OP_PROVE_NODE:
			check_session(r, ROLE_OWN, NODE_KEY(s), s);
			write_key(r, VERB_LOCK, NODE_KEY(s), s,
					  node_value(r, op, false));
			for (int i = 0; i < op->nheld; i++)
				check_session(r, ROLE_HELD, election_of_name(op->held[i]), s);
			break;
		case LE_OP_REVOKE_NODE:
			check_session(r, ROLE_UNCHANGED, NODE_KEY(s), 0);
			write_key(r, VERB_SET, NODE_KEY(s), 0, node_value(r, op, true));
			break;
		case LE_OP_FORGET_NODE:
			check_session(r, ROLE_UNCHANGED, NODE_KEY(s), 0);
			add_step(r, ROLE_UNCHANGED, VERB_DELETE, NEWS_KEY(s));
			write_key(r, VERB_DELETE, NODE_KEY(s), 0, -1);
			break;
		case LE_OP_TELL_NEWS:
			check_session(r, ROLE_OWN, NODE_KEY(s), s);
			add_news(r, op, true);
			break;
		case LE_OP_CLAIM:
		case LE_OP_COMPLETE:
			plan_claim(r, op);
			break;
		default:
			r->nparts = 0;
			break;
	}
}

static void
plan_encode(const LePlace *place, const LeOp *op,
			LeHttpRequest *request)
{
	Request    *r = &sim_node->encoded;

	r->kind = op->kind;
	r->node = sim_node->number;
	r->session = session_of_name(op->session);
	r->election = op->election == NULL ? -1 : election_of_name(op->election);
	r->job = op->job == NULL ? -1 : job_of_name(op->job);
	r->fresh = op->fresh;
	r->lease = op->lease;
	r->watch_index = op->watch_index;
	r->wait = op->wait_ms * LE_MSEC;
	r->nvalues = r->nsteps = r->nparts = 0;
	r->tells = false;
	plan_transaction(r, op);
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
	if (from->session != 0 && from->session == v->session)
		to->token = v->token != 0 ? v->token : from->index;
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
	}
}

static void
show_items(const NewsShown *from, LeNews *to)
{
	LeNewsItem *items = palloc0(LE_MAX_NEWS * sizeof(LeNewsItem));

	for (int i = 0; i < from->text.nitems; i++)
	{
		items[i].election = name_of_election(from->text.items[i].election);
		items[i].kind = from->text.items[i].kind;
		items[i].number = from->text.items[i].number;
		items[i].token = from->text.items[i].token;
		items[i].index = items[i].number != from->text.number ?
			from->text.items[i].index :
			from->held && items[i].kind != LE_OP_PUBLISH ? from->index : 0;
		sim.counts.told += items[i].index != 0;
	}
	to->items = items;
	to->nitems = from->text.nitems;
}

static void
show_news(const Answer *from, LeAnswer *to)
{
	to->news = palloc0(Max(from->nnews, 1) * sizeof(LeNews));
	for (int i = 0; i < from->nnews; i++)
	{
		const NewsShown *n = &from->news[i];
		LeNews	   *news = &to->news[to->nnews++];

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
	claim->job = op->job;
	claim->tick = record.tick;
	claim->try = record.try;
	claim->id = name_of_claim(record.id);
	claim->token = record.token;
	claim->node = name_of_node(from->keys[0].value.node);
	claim->state = record.state;
	claim->every = record.every;
	claim->index = from->keys[0].index;
	to->claims = claim;
	to->nclaims = 1;
}

/* Some part was refused, or none. */
static void
show_parts(const Answer *from, const LeOp *op, LeAnswer *to)
{
	to->parts = palloc0((1 + op->njoined) * sizeof(LeAnswer));
	for (int i = 0; i <= op->njoined; i++)
	{
		LeAnswer   *part = &to->parts[i];

		part->outcome = from->parts[i].outcome;
		part->conflict = from->parts[i].conflict;
		part->index = from->parts[i].index;
		part->unjudged = from->outcome != LE_DONE &&
			from->parts[i].weight == 0;
		if (part->unjudged)
			part->outcome = LE_UNAVAILABLE;
		sim.counts.unjudged += part->unjudged;
	}
}

static void
plan_decode(const LePlace *place, const LeOp *op,
			const LeHttpResponse *response, LeAnswer *to)
{
	const Answer *from = (const Answer *) response->body;

	memset(to, 0, sizeof(*to));
	if (response->net == LE_NET_NOT_SENT)
		to->outcome = LE_UNAVAILABLE;
	else if (response->net == LE_NET_BROKEN)
		to->outcome = le_op_writes(op->kind) ? LE_UNKNOWN : LE_UNAVAILABLE;
	else
		to->outcome = from->outcome;
	if (response->net != LE_NET_OK)
		return;
	to->conflict = from->conflict;
	if (op->njoined > 0 && from->judged)
		show_parts(from, op, to);
	if (from->nlost > 0)
	{
		to->lost = palloc(MAX_ELECTIONS * sizeof(int));
		memcpy(to->lost, from->lost, from->nlost * sizeof(int));
		to->nlost = from->nlost;
	}
	if (to->outcome != LE_DONE)
		return;
	to->index = from->index;
	if ((op->kind == LE_OP_WATCH || op->kind == LE_OP_WATCH_NEWS) &&
		from->index < op->watch_index)
		to->index = 0;
	if (op->kind == LE_OP_CREATE_SESSION)
		to->session = name_of_session(from->session);
	if (op->kind == LE_OP_SESSION_NAME)
		to->name = "somebody";
	if (op->kind == LE_OP_READ || op->kind == LE_OP_LIST_HELD ||
		op->kind == LE_OP_WATCH)
		show_keys(from, to);
	if (op->kind == LE_OP_LIST_NODES)
		show_nodes(from, to);
	if (op->kind == LE_OP_WATCH_NEWS)
		show_news(from, to);
	if (op->kind == LE_OP_READ_CLAIM)
		show_claim(from, op, to);
}

/* ---- the stores as the worker finds them ---- */

LeStore		sim_consul;
LeStore		sim_cassandra;
LeStore		sim_azure;

static const char *
two_gateways(void)
{
	return "http://g0,http://g1";
}

/* What the text of a request does not tell: what for, and for which term. */
static void
noting_encode(const LePlace *place, const LeOp *op, LeHttpRequest *request)
{
	Request    *r = &sim_node->encoded;
	const char *election = op->kind == LE_OP_RENEW_TERMS ?
		op->terms[0].election : op->election;

	r->kind = op->kind;
	r->node = sim_node->number;
	r->session = session_of_name(op->session);
	r->election = election == NULL ? -1 : election_of_name(election);
	r->term = op->kind == LE_OP_RENEW_TERMS ? op->terms[0].token : op->index;
	azure_asked_for(r->session, op->lease);
	le_store_azure.encode(place, op, request);
}

static bool
node_takes_over(void)
{
	return sim_node->takeover;
}

/* What a store can do is what the real one says it can. */
void
stores_adapt(void)
{
	sim_consul = le_store_consul;
	sim_consul.encode = plan_encode;
	sim_consul.decode = plan_decode;
	sim_consul.takes_over = node_takes_over;
	sim_cassandra = le_store_cassandra;
	sim_cassandra.servers = two_gateways;
	sim_azure = le_store_azure;
	sim_azure.encode = noting_encode;
}
