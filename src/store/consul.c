/*-------------------------------------------------------------------------
 *
 * consul.c
 *		The store "consul": requests to Consul's HTTP API, and its answers.
 *
 * Keys, with P the prefix, E an election and S a store session:
 *
 *	P/E/leader		locked by the session of E's leader
 *	P.nodes/S		the node key, locked by S itself
 *	P.nodes/news/S	which election keys S wrote last, locked by it; beside the
 *					node keys, so that what may write these may write it, and
 *					their proofs do not wake who waits for news
 *	P.claims/E/J		the record of the last claim of E's job J, unlocked;
 *				beside P, so that it wakes no watch
 *
 * Every write is one transaction (PUT /v1/txn) whose conditions are checked
 * together with it by Consul's state machine.  A transaction is planned once,
 * as a list of steps; encoding prints the plan, and decoding looks up in the
 * same plan what the failure of a step means.
 *
 * Every write of a key carries the lock flag of Consul's own client, which
 * refuses a key without it, as we do.
 *
 * Three rules govern decoding.  A write is DONE only if the answer shows what
 * was written.  A write counts as not applied only if Consul says so in words
 * that are known to be said before anything is applied; all else is UNKNOWN.
 * Errors are recognised by a part of their text, since each server that one
 * passes through puts words before it.
 *
 * src/store/consul.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "store/claim_record.h"
#include "store/consul.h"
#include "store/json.h"

#define LOCK_FLAG		UINT64CONST(3304740253564472344)
#define PROTO			1
#define SESSION_NAME	"leader_election: "

/* The longest answers that make sense, in bytes. */
#define MAX_SMALL_ANSWER	(1024 * 1024)
#define MAX_KEY_ANSWER		(1024 * 1024)	/* a key of somebody else's may
											 * hold 512 kB, in base64 */
#define MAX_LIST_ANSWER		(128 * 1024 * 1024)

/* So much of a list is decoded at a time: some 300 keys of elections, which
 * takes a millisecond or two. */
size_t		le_consul_slice = 128 * 1024;

/* What may come back in strings; beyond these nothing of ours is. */
#define MAX_KEY_LEN			1024
#define MAX_NAME_LEN		256
#define MAX_ERROR_LEN		4096
#define MAX_STORED_VALUE	(8 * 1024)	/* our own with all of the user's
										 * value and the node name escaped */

/* The shortest TTL that Consul grants a session. */
#define LEAST_SESSION	(10 * LE_SEC)

/* ---- keys and paths ---- */

/* The prefix as keys have it: no slash at either end. */
static char *
key_prefix(const LePlace *place)
{
	const char *p = place->prefix;
	size_t		len;

	p += strspn(p, "/");
	len = strlen(p);
	while (len > 0 && p[len - 1] == '/')
		len--;
	return pnstrdup(p, len);
}

static char *
election_key(const LePlace *place, const char *election,
			 const char *leaf)
{
	return psprintf("%s/%s/%s", key_prefix(place), election, leaf);
}

static char *
node_key(const LePlace *place, const char *session)
{
	return psprintf("%s.nodes/%s", key_prefix(place), session);
}

#define NEWS_BELOW		".nodes/news/"

static char *
news_key(const LePlace *place, const char *session)
{
	return psprintf("%s" NEWS_BELOW "%s", key_prefix(place), session);
}

static char *
claim_key(const LePlace *place, const char *election,
		  const char *job)
{
	StringInfoData key;

	initStringInfo(&key);
	appendStringInfo(&key, "%s.claims/", key_prefix(place));
	le_claim_append_key(&key, election, job);
	return key.data;
}

static void
add_query(LeHttpRequest *request, const char *parameter)
{
	char		mark = strchr(request->path.data, '?') == NULL ? '?' : '&';

	appendStringInfo(&request->path, "%c%s", mark, parameter);
}

/* Starts a request for /v1/<endpoint><what>, without a body. */
static void
start_request(const LePlace *place, LeHttpRequest *request,
			  const char *method, const char *endpoint, const char *what,
			  size_t max_answer)
{
	memset(request, 0, sizeof(*request));
	initStringInfo(&request->path);
	initStringInfo(&request->headers);
	initStringInfo(&request->body);
	request->method = method;
	request->max_answer = max_answer;
	appendStringInfo(&request->path, "/v1/%s", endpoint);
	le_append_encoded(&request->path, what, "/");
	if (place->part[0] != '\0')
	{
		add_query(request, "dc=");
		le_append_encoded(&request->path, place->part, "");
	}
}

/* ---- values, as written ---- */

static int64
whole_seconds(le_duration d)
{
	return (d + LE_SEC - 1) / LE_SEC;
}

/* Consul's TTL must not be shorter than the lease, nor than Consul allows. */
static int64
ttl_seconds(const LeOp *op)
{
	return whole_seconds(le_session_ttl(op->lease, LEAST_SESSION));
}

static int64
lock_delay_seconds(const LeOp *op)
{
	return whole_seconds(op->lease);
}

static char *
leader_value(const LeOp *op, bool released)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "{\"proto\":%d,\"node\":", PROTO);
	le_json_append_string(&buf, op->node_name);
	appendStringInfoString(&buf, ",\"session\":");
	le_json_append_string(&buf, op->session);
	if (op->value != NULL)
	{
		appendStringInfoString(&buf, ",\"value\":");
		if (le_json_embeddable(op->value))
			appendStringInfoString(&buf, op->value);
		else
			le_json_append_string(&buf, op->value);
	}
	/* The acquiring write has the token as its index; a later one has not. */
	if (op->kind == LE_OP_PUBLISH && op->token != 0)
		appendStringInfo(&buf, ",\"token\":" UINT64_FORMAT, op->token);
	appendStringInfo(&buf, ",\"released\":%s}", released ? "true" : "false");
	return buf.data;
}

static char *
node_key_value(const LeNodeKey *key)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "{\"proto\":%d,\"node\":", PROTO);
	le_json_append_string(&buf, key->node);
	appendStringInfoString(&buf, ",\"incarnation\":");
	le_json_append_string(&buf, key->incarnation);
	appendStringInfoString(&buf, ",\"session\":");
	le_json_append_string(&buf, key->session);
	appendStringInfo(&buf, ",\"lease_ms\":" INT64_FORMAT
					 ",\"seq\":" UINT64_FORMAT ",\"revoked\":%s",
					 (int64) (key->lease / LE_MSEC), key->seq,
					 key->revoked ? "true" : "false");
	if (key->unfit != NULL)
	{
		appendStringInfoString(&buf, ",\"unfit\":");
		le_json_append_string(&buf, key->unfit);
	}
	appendStringInfoChar(&buf, '}');
	return buf.data;
}

/* The value of our own node key. */
static char *
node_value(const LeOp *op, bool revoked)
{
	LeNodeKey	key = {0};

	key.session = op->session;
	key.node = op->node_name;
	key.incarnation = op->incarnation;
	key.lease = op->lease;
	key.seq = op->seq;
	key.revoked = revoked;
	key.unfit = op->unfit;
	return node_key_value(&key);
}

static const char *const news_kinds[] = {
	[LE_OP_ACQUIRE] = "acquire",
	[LE_OP_PUBLISH] = "publish",
	[LE_OP_RELEASE] = "release",
};

static void
append_item(StringInfo buf, const LeNewsItem *item)
{
	appendStringInfo(buf, "{\"number\":" UINT64_FORMAT ",\"kind\":\"%s\"",
					 item->number, news_kinds[item->kind]);
	if (item->index != 0)
		appendStringInfo(buf, ",\"index\":" UINT64_FORMAT, item->index);
	if (item->kind == LE_OP_PUBLISH)
		appendStringInfo(buf, ",\"token\":" UINT64_FORMAT, item->token);
	appendStringInfoString(buf, ",\"election\":");
	le_json_append_string(buf, item->election);
	appendStringInfoChar(buf, '}');
}

static char *
news_value(const LeOp *op)
{
	const LeNews *news = op->news;
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "{\"proto\":%d,\"node\":", PROTO);
	le_json_append_string(&buf, op->node_name);
	appendStringInfoString(&buf, ",\"session\":");
	le_json_append_string(&buf, op->session);
	appendStringInfo(&buf, ",\"number\":" UINT64_FORMAT ",\"since\":"
					 UINT64_FORMAT ",\"items\":[", news->number, news->since);
	for (int i = 0; i < news->nitems; i++)
	{
		if (i > 0)
			appendStringInfoChar(&buf, ',');
		append_item(&buf, &news->items[i]);
	}
	appendStringInfoString(&buf, "]}");
	return buf.data;
}

/* ---- transactions ---- */

/* What it means when a step of a transaction fails. */
typedef enum StepRole
{
	STEP_OWN,					/* our session or its node key is gone */
	STEP_UNCHANGED,				/* the key is not as it was read */
	STEP_FREE_OF_PATRONI,		/* the key's directory belongs to Patroni */
	STEP_HELD,					/* this election's key is not ours */
	STEP_WRITE					/* the write itself: its text tells */
} StepRole;

typedef struct Step
{
	StepRole	role;
	int			part;			/* for which of the operations; or ... */
	const char *verb;
	const char *key;
	const char *session;		/* NULL: none to be sent */
	uint64		index;			/* 0: none to be sent */
	const char *value;			/* NULL: none to be sent */
} Step;

#define ALL_PARTS	(-1)		/* ... for each of them */

/* Consul takes no more in a transaction; a node proof has nearly as many. */
#define MAX_STEPS	64

StaticAssertDecl(LE_MAX_CHECKED_KEYS + 2 <= MAX_STEPS,
				 "a node proof is one transaction");

/* What those that go in one transaction have in common: our node key, our
 * news, and the node key of the holder that is taken over from. */
#define COMMON_STEPS	5

/* One transaction, for one operation or for several that are joined in it. */
typedef struct Plan
{
	int			nsteps;
	int			nparts;
	int			part;			/* being planned */
	int			write[LE_MAX_JOINED];	/* the step that writes, of each */
	Step		steps[MAX_STEPS];
} Plan;

static Step *
add_step(Plan *plan, StepRole role, const char *verb, const char *key)
{
	Step	   *step = &plan->steps[plan->nsteps++];

	memset(step, 0, sizeof(*step));
	step->role = role;
	step->part = plan->part;
	step->verb = verb;
	step->key = key;
	return step;
}

static void
check_session(Plan *plan, StepRole role, const char *key, const char *session)
{
	add_step(plan, role, "check-session", key)->session = session;
}

static void
check_absent(Plan *plan, StepRole role, const char *key)
{
	add_step(plan, role, "check-not-exists", key);
}

static void
check_index(Plan *plan, const char *key, uint64 index)
{
	add_step(plan, STEP_UNCHANGED, "check-index", key)->index = index;
}

static void
write_key(Plan *plan, const char *verb, const char *key, const char *session,
		  const char *value)
{
	Step	   *step;

	plan->write[plan->part] = plan->nsteps;
	step = add_step(plan, STEP_WRITE, verb, key);
	step->session = session;
	step->value = value;
}

/* Only our own session can fail it. */
static void
add_news(const LePlace *place, const LeOp *op, Plan *plan)
{
	Step	   *step = add_step(plan, STEP_OWN, "lock",
								news_key(place, op->session));

	step->session = op->session;
	step->value = news_value(op);
}

static void
plan_tell(const LePlace *place, const LeOp *op, const char *node, Plan *plan)
{
	check_session(plan, STEP_OWN, node, op->session);
	write_key(plan, "lock", news_key(place, op->session), op->session,
			  news_value(op));
}

static void
plan_prove(const LePlace *place, const LeOp *op, const char *node,
		   Plan *plan)
{
	check_session(plan, STEP_OWN, node, op->session);
	write_key(plan, "lock", node, op->session, node_value(op, false));
	for (int i = 0; i < op->nheld && plan->nsteps < MAX_STEPS; i++)
		check_session(plan, STEP_HELD,
					  election_key(place, op->held[i], "leader"),
					  op->session);
}

static void
plan_acquire(const LePlace *place, const LeOp *op, const char *key,
			 Plan *plan)
{
	if (op->index != 0)
		check_index(plan, key, op->index);
	else
	{
		check_absent(plan, STEP_FREE_OF_PATRONI,
					 election_key(place, op->election, "config"));
		check_absent(plan, STEP_FREE_OF_PATRONI,
					 election_key(place, op->election, "initialize"));
		check_absent(plan, STEP_UNCHANGED, key);
	}
	write_key(plan, "lock", key, op->session, leader_value(op, false));
}

/* A step that frees or marks what the silent holder has. */
static Step *
take_from(Plan *plan, const char *verb, const char *key, const char *session,
		  const char *value)
{
	Step	   *step = add_step(plan, STEP_UNCHANGED, verb, key);

	step->session = session;
	step->value = value;
	return step;
}

/*
 * Marks the holder's node key, as it was seen when the holder had been silent
 * for a whole lease.  A proof that it made since moved the index and refuses
 * everything.  Marked, never deleted: were the key gone, a late duplicate of
 * the request that made it would bring it back.
 */
static void
plan_revoke(const LeNodeKey *target, const char *node, Plan *plan)
{
	LeNodeKey	marked = *target;
	char	   *value;

	marked.revoked = true;
	value = node_key_value(&marked);
	check_index(plan, node, target->index);
	check_session(plan, STEP_UNCHANGED, node,
				  target->held ? target->session : "");
	if (target->revoked)
		return;
	if (target->held)
		take_from(plan, "unlock", node, target->session, value);
	else
		take_from(plan, "cas", node, NULL, value)->index = target->index;
}

static void
plan_take_over(const LeOp *op, const char *key, Plan *plan)
{
	char	   *value = leader_value(op, false);

	check_index(plan, key, op->index);
	if (op->target_holds)
		take_from(plan, "unlock", key, op->target->session, value);
	else
		check_session(plan, STEP_UNCHANGED, key, "");
	write_key(plan, "lock", key, op->session, value);
}

static void
plan_part(const LePlace *place, const LeOp *op, Plan *plan)
{
	const char *key = election_key(place, op->election, "leader");

	switch (op->kind)
	{
		case LE_OP_ACQUIRE:
			plan_acquire(place, op, key, plan);
			break;
		case LE_OP_TAKE_OVER:
			plan_take_over(op, key, plan);
			break;
		case LE_OP_PUBLISH:
			check_index(plan, key, op->index);
			write_key(plan, "lock", key, op->session,
					  leader_value(op, false));
			break;
		default:				/* LE_OP_RELEASE */
			check_index(plan, key, op->index);
			write_key(plan, "unlock", key, op->session,
					  leader_value(op, true));
			break;
	}
}

/*
 * One or several operations of a kind, each on its own election's key.  The
 * check of the own node key stops a late acquire of a session that has been
 * given up, that of the index a late duplicate of any other write.
 */
static void
plan_joined(const LePlace *place, const LeOp *op, const char *node,
			Plan *plan)
{
	plan->nparts = 1 + op->njoined;
	plan->part = ALL_PARTS;
	if (op->kind == LE_OP_TAKE_OVER)
		plan_revoke(op->target, node_key(place, op->target->session), plan);
	if (op->kind != LE_OP_RELEASE)
		check_session(plan, STEP_OWN, node, op->session);
	for (plan->part = 0; plan->part < plan->nparts; plan->part++)
		plan_part(place, plan->part == 0 ? op : op->joined[plan->part - 1],
				  plan);
	plan->part = ALL_PARTS;
	if (op->news != NULL)
		add_news(place, op, plan);
}

/*
 * The check of the session shows that the term holds, that of the index that
 * it is this term and not a later one of the same session, as a request that
 * was held up might find.
 */
static void
plan_claim(const LePlace *place, const LeOp *op,
		   const char *node, const char *leader, Plan *plan)
{
	char	   *key = claim_key(place, op->election, op->claim->job);
	StringInfoData value;

	initStringInfo(&value);
	le_claim_append_text(&value, op->claim);
	check_session(plan, STEP_OWN, node, op->session);
	check_session(plan, STEP_UNCHANGED, leader, op->session);
	check_index(plan, leader, op->index);
	if (op->previous != NULL)
		check_index(plan, key, op->previous->index);
	else
		check_absent(plan, STEP_UNCHANGED, key);
	write_key(plan, "set", key, NULL, value.data);
}

/* No word of the term: work that is done is done. */
static void
plan_complete(const LePlace *place, const LeOp *op, Plan *plan)
{
	char	   *key = claim_key(place, op->election, op->claim->job);
	StringInfoData value;

	initStringInfo(&value);
	le_claim_append_text(&value, op->claim);
	check_index(plan, key, op->previous->index);
	write_key(plan, "set", key, NULL, value.data);
}

/* False if the operation is not a transaction. */
static bool
make_plan(const LePlace *place, const LeOp *op, Plan *plan)
{
	char	   *node = node_key(place, op->session);
	char	   *key = op->election != NULL ?
		election_key(place, op->election, "leader") : NULL;

	memset(plan, 0, offsetof(Plan, steps));
	plan->nparts = 1;
	switch (op->kind)
	{
		case LE_OP_REGISTER_NODE:
			check_absent(plan, STEP_UNCHANGED, node);
			write_key(plan, "lock", node, op->session,
					  node_value(op, false));
			return true;
		case LE_OP_PROVE_NODE:
			plan_prove(place, op, node, plan);
			return true;
		case LE_OP_REVOKE_NODE:
			check_session(plan, STEP_UNCHANGED, node, "");
			write_key(plan, "set", node, NULL, node_value(op, true));
			return true;
		case LE_OP_FORGET_NODE:
			check_session(plan, STEP_UNCHANGED, node, "");
			add_step(plan, STEP_UNCHANGED, "delete",
					 news_key(place, op->session));
			write_key(plan, "delete", node, NULL, NULL);
			return true;
		case LE_OP_TELL_NEWS:
			plan_tell(place, op, node, plan);
			return true;
		case LE_OP_ACQUIRE:
		case LE_OP_TAKE_OVER:
		case LE_OP_PUBLISH:
		case LE_OP_RELEASE:
			plan_joined(place, op, node, plan);
			return true;
		case LE_OP_CLAIM:
			plan_claim(place, op, node, key, plan);
			return true;
		case LE_OP_COMPLETE:
			plan_complete(place, op, plan);
			return true;
		default:
			return false;
	}
}

static void
append_step(StringInfo body, const Step *step)
{
	appendStringInfo(body, "{\"KV\":{\"Verb\":\"%s\",\"Key\":", step->verb);
	le_json_append_string(body, step->key);
	if (step->session != NULL)
	{
		appendStringInfoString(body, ",\"Session\":");
		le_json_append_string(body, step->session);
	}
	if (step->index != 0)
		appendStringInfo(body, ",\"Index\":" UINT64_FORMAT, step->index);
	if (step->value != NULL)
	{
		appendStringInfo(body, ",\"Flags\":" UINT64_FORMAT ",\"Value\":\"",
						 LOCK_FLAG);
		le_base64_append(body, step->value, (int) strlen(step->value));
		appendStringInfoChar(body, '"');
	}
	appendStringInfoString(body, "}}");
}

static void
encode_plan(const LePlace *place, const Plan *plan,
			LeHttpRequest *request)
{
	start_request(place, request, "PUT", "txn", "", MAX_SMALL_ANSWER);
	request->has_body = true;
	for (int i = 0; i < plan->nsteps; i++)
	{
		appendStringInfoChar(&request->body, i == 0 ? '[' : ',');
		append_step(&request->body, &plan->steps[i]);
	}
	appendStringInfoChar(&request->body, ']');
}

/* ---- requests ---- */

/*
 * No checks: a session that rests on the agent's health check dies with a
 * hiccup of the agent.  Both ways to say so, for versions before and since
 * 1.7.
 */
static void
encode_create(const LePlace *place, const LeOp *op,
			  LeHttpRequest *request)
{
	StringInfo	body = &request->body;

	start_request(place, request, "PUT", "session/create", "",
				  MAX_SMALL_ANSWER);
	request->has_body = true;
	appendStringInfoString(body, "{\"Name\":");
	le_json_append_string(body, psprintf(SESSION_NAME "%s", op->node_name));
	appendStringInfo(body, ",\"TTL\":\"" INT64_FORMAT "s\","
					 "\"LockDelay\":\"" INT64_FORMAT "s\","
					 "\"Behavior\":\"release\","
					 "\"Checks\":[],\"NodeChecks\":[]}",
					 ttl_seconds(op), lock_delay_seconds(op));
}

static void
encode_session(const LePlace *place, const LeOp *op,
			   const char *method, const char *endpoint,
			   LeHttpRequest *request)
{
	start_request(place, request, method, endpoint, op->session,
				  MAX_SMALL_ANSWER);
	request->has_body = strcmp(method, "PUT") == 0; /* of length 0 */
}

static void
encode_read(const LePlace *place, const LeOp *op,
			LeHttpRequest *request)
{
	start_request(place, request, "GET", "kv/",
				  election_key(place, op->election, "leader"),
				  MAX_KEY_ANSWER);
	add_query(request, "consistent");
}

static void
encode_read_claim(const LePlace *place, const LeOp *op,
				  LeHttpRequest *request)
{
	start_request(place, request, "GET", "kv/",
				  claim_key(place, op->election, op->job),
				  MAX_KEY_ANSWER);
	add_query(request, "consistent");
}

static void
encode_list(const LePlace *place, const char *suffix,
			const char *parameter, LeHttpRequest *request)
{
	start_request(place, request, "GET", "kv/",
				  psprintf("%s%s", key_prefix(place), suffix),
				  MAX_LIST_ANSWER);
	add_query(request, parameter);
}

/*
 * Watches the prefix with its slash: without, writes to node keys would wake
 * it.  Not a consistent read: belief does not rest on it, and Consul would
 * ask a quorum at each wake-up.
 */
static void
encode_watch(const LePlace *place, const LeOp *op, const char *below,
			 LeHttpRequest *request)
{
	encode_list(place, below, "recurse", request);
	if (op->watch_index != 0)
		add_query(request, psprintf("index=" UINT64_FORMAT "&wait=%dms",
									op->watch_index, op->wait_ms));
}

static void
consul_encode(const LePlace *place, const LeOp *op,
			  LeHttpRequest *request)
{
	Plan		plan;

	switch (op->kind)
	{
		case LE_OP_CREATE_SESSION:
			encode_create(place, op, request);
			break;
		case LE_OP_VERIFY_SESSION:
			encode_session(place, op, "GET", "session/info/", request);
			/* a server that is behind might not show it yet */
			add_query(request, "consistent");
			break;
		case LE_OP_SESSION_NAME:
			encode_session(place, op, "GET", "session/info/", request);
			break;
		case LE_OP_RENEW_SESSION:
			encode_session(place, op, "PUT", "session/renew/", request);
			break;
		case LE_OP_DESTROY_SESSION:
			encode_session(place, op, "PUT", "session/destroy/", request);
			break;
		case LE_OP_CHECK_PREFIX:
			encode_list(place, "/", "keys&consistent", request);
			break;
		case LE_OP_LIST_HELD:
			encode_list(place, "/", "recurse&consistent", request);
			break;
		case LE_OP_LIST_NODES:
			encode_list(place, ".nodes/",
						op->fresh ? "recurse" : "recurse&stale", request);
			break;
		case LE_OP_WATCH:
			encode_watch(place, op, "/", request);
			break;
		case LE_OP_WATCH_NEWS:
			encode_watch(place, op, NEWS_BELOW, request);
			break;
		case LE_OP_READ:
			encode_read(place, op, request);
			break;
		case LE_OP_READ_CLAIM:
			encode_read_claim(place, op, request);
			break;
		case LE_OP_LIST_CLAIMS:
			encode_list(place, ".claims/", "recurse&consistent", request);
			break;
		case LE_OP_REGISTER_NODE:
		case LE_OP_PROVE_NODE:
		case LE_OP_REVOKE_NODE:
		case LE_OP_FORGET_NODE:
		case LE_OP_TELL_NEWS:
		case LE_OP_ACQUIRE:
		case LE_OP_TAKE_OVER:
		case LE_OP_PUBLISH:
		case LE_OP_RELEASE:
		case LE_OP_CLAIM:
		case LE_OP_COMPLETE:
			make_plan(place, op, &plan);
			encode_plan(place, &plan, request);
			break;
		case LE_OP_RENEW_TERMS: /* the node's proof carries all terms */
		case LE_OP_AUTHENTICATE:	/* a token does not run out */
			Assert(false);
			break;
	}
}

/* ---- answers: what people are told ---- */

static void
fail_shape(const LeOp *op, const LeHttpResponse *response, LeAnswer *answer)
{
	le_fail_shape(op, response, "Consul's", answer);
}

/*
 * The text of an error, terminated.  Consul sends plain text; what a proxy
 * says instead is not worth repeating, and might repeat our headers.
 */
static char *
error_text(const LeHttpResponse *response)
{
	size_t		len = Min(response->body_len, MAX_ERROR_LEN);
	char	   *text;

	if (pg_strncasecmp(response->content_type, "text/html", 9) == 0)
		return pstrdup("");
	text = palloc(len + 1);
	if (len > 0)
		memcpy(text, response->body, len);
	text[len] = '\0';
	for (size_t i = 0; i < len; i++)
	{
		if (text[i] == '\0')
			text[i] = ' ';
		if (pg_strncasecmp(text + i, "x-consul-token", 14) == 0 ||
			pg_strncasecmp(text + i, "authorization", 13) == 0 ||
			pg_strncasecmp(text + i, "bearer ", 7) == 0)
			text[i] = '\0';
	}
	return text;
}

static const char *
status_detail(const LeHttpResponse *response, const char *text)
{
	if (text[0] == '\0')
		return psprintf("HTTP %d", response->status);
	return psprintf("HTTP %d: %s", response->status, text);
}

/* ---- answers: status codes and error texts ---- */

/* A token that Consul does not know is refused whatever it asks for. */
static const char unknown_token[] = "ACL not found";

typedef struct Phrase
{
	const char *text;
	LeOutcome	outcome;
} Phrase;

/*
 * Parts of error texts, the first that is found counts.  Whatever could mean
 * that a write is on its way comes before what says that it is not.
 */
static const Phrase phrases[] = {
	{"rpc error making call: EOF", LE_UNKNOWN},
	{"i/o deadline reached", LE_UNKNOWN},
	{"leadership lost while committing log", LE_UNKNOWN},
	{"snapshot restored while committing log", LE_UNKNOWN},
	{"raft is already shutdown", LE_UNKNOWN},

	/* permission or configuration */
	{"Permission denied", LE_REFUSED},
	{unknown_token, LE_REFUSED},
	{"Endpoint is blocked", LE_REFUSED},
	{"Access is restricted", LE_REFUSED},
	{"Invalid Session TTL", LE_REFUSED},
	{"Session TTL '", LE_REFUSED},
	{"Invalid Behavior setting", LE_REFUSED},
	{"cross datacenter lock must be created", LE_REFUSED},
	{"invalid key name", LE_REFUSED},

	/* the session is not there */
	{"invalid session", LE_LOST},

	/* said before anything is applied */
	{"No cluster leader", LE_UNAVAILABLE},
	{"No known Consul servers", LE_UNAVAILABLE},
	{"rpc error getting client", LE_UNAVAILABLE},
	{"Raft leader not found in server lookup mapping", LE_UNAVAILABLE},
	{"node is not the leader", LE_UNAVAILABLE},
	{"leadership transfer in progress", LE_UNAVAILABLE},
	{"timed out enqueuing operation", LE_UNAVAILABLE},
	{"Not ready to serve consistent reads", LE_UNAVAILABLE},
	{"rate limit exceeded", LE_UNAVAILABLE},
	{"No path to datacenter", LE_UNAVAILABLE},
	{"Missing node registration", LE_UNAVAILABLE},
	{"Missing check '", LE_UNAVAILABLE},
	{"is in critical state", LE_UNAVAILABLE},
};

/* Does the request speak for a session, so that it can be told it is gone? */
static bool
acts_for_session(LeOpKind kind)
{
	switch (kind)
	{
		case LE_OP_RENEW_SESSION:
		case LE_OP_REGISTER_NODE:
		case LE_OP_PROVE_NODE:
		case LE_OP_TELL_NEWS:
		case LE_OP_ACQUIRE:
		case LE_OP_TAKE_OVER:
		case LE_OP_PUBLISH:
		case LE_OP_RELEASE:
			return true;
		default:
			return false;
	}
}

/* The server failed: only its words can tell whether it did so in time. */
static void
decode_server_error(const LeOp *op, const LeHttpResponse *response,
					LeAnswer *answer)
{
	char	   *text = error_text(response);
	const char *detail = status_detail(response, text);

	for (int i = 0; i < lengthof(phrases); i++)
	{
		if (strstr(text, phrases[i].text) == NULL)
			continue;
		if (phrases[i].outcome == LE_UNKNOWN ||
			(phrases[i].outcome == LE_LOST && !acts_for_session(op->kind)))
			break;
		le_fail(answer, phrases[i].outcome, detail);
		answer->refuses_all = strcmp(phrases[i].text, unknown_token) == 0;
		return;
	}
	le_fail_open(op, answer, detail);
}

/*
 * Consul answers a renewal with 404 when the session is gone; any other 404
 * that is not the answer to a read (see decode) comes from something else.
 */
static void
decode_not_found(const LeOp *op, const LeHttpResponse *response,
				 LeAnswer *answer)
{
	char	   *text = error_text(response);

	if (op->kind == LE_OP_RENEW_SESSION &&
		strstr(text, psprintf("Session id '%s' not found", op->session)))
		le_fail(answer, LE_LOST, status_detail(response, text));
	else
		le_fail(answer, LE_UNAVAILABLE, "HTTP 404 from something that is not "
				"Consul; check the URL");
}

static void
decode_status(const LeOp *op, const LeHttpResponse *response,
			  LeAnswer *answer)
{
	int			status = response->status;

	if (status >= 300 && status <= 399)
	{
		le_fail(answer, LE_REFUSED, psprintf("HTTP %d, a redirect, which is not "
											 "followed; check the URL", status));
		answer->refuses_all = true;
	}
	else if (status == 404)
		decode_not_found(op, response, answer);
	else if (status == 425 || status == 429)
		le_fail(answer, LE_UNAVAILABLE,
				status_detail(response, error_text(response)));
	else if (status == 408 || status == 409)
		le_fail_open(op, answer,
					 status_detail(response, error_text(response)));
	else if (status >= 400 && status <= 499)
	{
		le_fail(answer, LE_REFUSED,
				status_detail(response, error_text(response)));
		answer->refuses_all = strstr(answer->detail, unknown_token) != NULL;
	}
	else if (status >= 500 && status <= 599)
		decode_server_error(op, response, answer);
	else
		fail_shape(op, response, answer);
}

/* ---- answers: keys ---- */

/* An index must fit a bigint, since tokens are made of them; 0 is none. */
static bool
valid_index(uint64 index)
{
	return index >= 1 && index <= PG_INT64_MAX;
}

static bool
valid_session(const char *s)
{
	static const char shape[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	if (strlen(s) != LE_SESSION_LEN)
		return false;
	for (int i = 0; i < LE_SESSION_LEN; i++)
	{
		if (shape[i] == '-' ? s[i] != '-' :
			strchr("0123456789abcdefABCDEF", s[i]) == NULL)
			return false;
	}
	return true;
}

/* A name that may be shown: not empty, no control characters. */
static bool
valid_name(const char *s)
{
	if (*s == '\0')
		return false;
	for (; *s != '\0'; s++)
	{
		if ((unsigned char) *s < ' ' || *s == 0x7f)
			return false;
	}
	return true;
}

/* A key as an answer shows it, while it is being read. */
typedef struct Entry
{
	char	   *key;			/* NULL: longer than any of ours */
	char	   *session;		/* NULL: free */
	uint64		index;			/* 0: not shown */
	uint64		flags;
	const char *value;			/* base64, in the answer; NULL: none */
	size_t		value_len;
} Entry;

/* Takes one field of an entry; false if no Consul would say that. */
static bool
entry_field(Entry *entry, const LeJsonNode *node)
{
	int			level = node->depth - 1;

	if (le_json_at(node, level, "Key"))
	{
		entry->key = le_json_string(node, MAX_KEY_LEN);
		return node->type == LE_JSON_STRING;
	}
	if (le_json_at(node, level, "Session"))
	{
		entry->session = le_json_string(node, LE_SESSION_LEN);
		if (entry->session != NULL && entry->session[0] == '\0')
			entry->session = NULL;
		else if (entry->session == NULL || !valid_session(entry->session))
			return false;
	}
	else if (le_json_at(node, level, "ModifyIndex"))
		return le_json_uint64(node, &entry->index) &&
			valid_index(entry->index);
	else if (le_json_at(node, level, "Flags"))
		return le_json_uint64(node, &entry->flags);
	else if (le_json_at(node, level, "Value"))
	{
		entry->value = node->text + 1;
		entry->value_len = node->len - 2;
		if (node->type == LE_JSON_NULL)
			entry->value = NULL;
		else
			return node->type == LE_JSON_STRING;
	}
	return true;
}

/* Is s the prefix, a middle and a suffix?  Returns the middle, or NULL. */
static char *
between(const char *s, const char *prefix, const char *suffix)
{
	size_t		len = strlen(s);
	size_t		before = strlen(prefix);
	size_t		after = strlen(suffix);

	if (len < before + after || strncmp(s, prefix, before) != 0 ||
		strcmp(s + len - after, suffix) != 0)
		return NULL;
	return pnstrdup(s + before, len - before - after);
}

/*
 * The value of a key, which is JSON in base64 if it is ours; NULL if it cannot
 * be.  Values that are longer than ours can be are not even decoded.
 */
static char *
value_text(const Entry *entry, int *len)
{
	if (entry->value == NULL || entry->value_len > MAX_STORED_VALUE * 4 / 3)
		return NULL;
	return le_base64_decode(entry->value, (int) entry->value_len, len);
}

static bool
walk_value(const Entry *entry, LeJsonVisit visit, void *arg)
{
	int			len;
	char	   *text = value_text(entry, &len);

	return text != NULL && le_json_walk(text, len, visit, arg);
}

/* What our own values have in common. */
typedef struct Header
{
	uint64		proto;			/* 0: not shown */
	char	   *node;
	char	   *session;
} Header;

static bool
header_field(Header *header, const LeJsonNode *node)
{
	if (le_json_at(node, 0, "proto"))
		return le_json_uint64(node, &header->proto);
	if (le_json_at(node, 0, "node"))
	{
		header->node = le_json_string(node, LE_MAX_NODE_NAME_LEN);
		return header->node != NULL && valid_name(header->node);
	}
	if (le_json_at(node, 0, "session"))
	{
		header->session = le_json_string(node, LE_SESSION_LEN);
		return header->session != NULL && valid_session(header->session);
	}
	return true;
}

/* A higher protocol may mean anything by the same words. */
static bool
header_complete(const Header *header)
{
	return header->proto == PROTO && header->node != NULL &&
		header->session != NULL;
}

static bool
take_bool(const LeJsonNode *node, bool *value)
{
	*value = node->type == LE_JSON_TRUE;
	return *value || node->type == LE_JSON_FALSE;
}

typedef struct LeaderValue
{
	Header		header;
	char	   *value;
	uint64		token;			/* 0: not shown */
	bool		released;
} LeaderValue;

/* The value as the user gave it: text, or JSON that was embedded. */
static bool
user_value(const LeJsonNode *node, char **value)
{
	if (node->type == LE_JSON_NULL)
		return true;
	if (node->type == LE_JSON_STRING)
		*value = le_json_string(node, LE_MAX_VALUE_LEN);
	else if (node->len <= LE_MAX_VALUE_LEN)
		*value = pnstrdup(node->text, node->len);
	return *value != NULL;
}

static bool
leader_visit(void *arg, const LeJsonNode *node)
{
	LeaderValue *v = arg;

	if (node->depth == 0)
		return node->type == LE_JSON_OBJECT;
	if (node->depth > 1)
		return true;			/* inside the user's value */
	if (le_json_at(node, 0, "value"))
		return user_value(node, &v->value);
	if (le_json_at(node, 0, "token"))
		return le_json_uint64(node, &v->token) && valid_index(v->token);
	if (le_json_at(node, 0, "released"))
		return take_bool(node, &v->released);
	return header_field(&v->header, node);
}

static void
entry_to_key(const Entry *entry, const char *election, LeKey *key)
{
	LeaderValue v;

	memset(key, 0, sizeof(*key));
	key->election = election;
	key->holder = entry->session;
	key->index = entry->index;
	key->usable = entry->flags == LOCK_FLAG;
	memset(&v, 0, sizeof(v));
	if (!walk_value(entry, leader_visit, &v) || !header_complete(&v.header))
		return;
	key->ours = true;
	key->node = v.header.node;
	key->value_session = v.header.session;
	key->value = v.value;
	if (key->holder != NULL && strcmp(key->holder, v.header.session) == 0 &&
		v.token <= entry->index)
		key->token = v.token != 0 ? v.token : entry->index;
	key->released = v.released;
}

typedef struct NodeValue
{
	Header		header;
	char	   *incarnation;
	uint64		lease_ms;
	uint64		seq;
	bool		revoked;
	char	   *unfit;
} NodeValue;

/*
 * Only shown, never acted upon: a word that makes no sense here must not make
 * the node's other words be lost.
 */
static void
take_unfit(const LeJsonNode *node, char **unfit)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz";

	*unfit = le_json_string(node, LE_UNFIT_LEN);
	if (*unfit != NULL && ((*unfit)[0] == '\0' ||
						   (*unfit)[strspn(*unfit, letters)] != '\0'))
		*unfit = NULL;
}

static bool
node_visit(void *arg, const LeJsonNode *node)
{
	NodeValue  *v = arg;

	if (node->depth == 0)
		return node->type == LE_JSON_OBJECT;
	if (node->depth > 1)
		return true;
	if (le_json_at(node, 0, "incarnation"))
	{
		v->incarnation = le_json_string(node, LE_INCARNATION_LEN);
		return v->incarnation != NULL && valid_name(v->incarnation);
	}
	if (le_json_at(node, 0, "lease_ms"))
		return le_json_uint64(node, &v->lease_ms);
	if (le_json_at(node, 0, "seq"))
		return le_json_uint64(node, &v->seq);
	if (le_json_at(node, 0, "revoked"))
		return take_bool(node, &v->revoked);
	if (le_json_at(node, 0, "unfit"))
		take_unfit(node, &v->unfit);
	return header_field(&v->header, node);
}

/* False if it is not a node key of ours. */
static bool
entry_to_node(const Entry *entry, const char *session, LeNodeKey *node)
{
	NodeValue	v;

	memset(&v, 0, sizeof(v));
	if (!walk_value(entry, node_visit, &v) || !header_complete(&v.header) ||
		v.incarnation == NULL || strcmp(v.header.session, session) != 0 ||
		v.lease_ms < 1 || v.lease_ms > LE_MAX_LEASE / LE_MSEC)
		return false;
	memset(node, 0, sizeof(*node));
	node->session = session;
	node->held = entry->session != NULL &&
		strcmp(entry->session, session) == 0;
	node->index = entry->index;
	node->node = v.header.node;
	node->incarnation = v.incarnation;
	node->lease = (le_duration) v.lease_ms * LE_MSEC;
	node->seq = v.seq;
	node->revoked = v.revoked;
	node->unfit = v.unfit;
	return true;
}

typedef struct NewsValue
{
	Header		header;
	uint64		number;
	uint64		since;
	LeNewsItem	item;			/* being read; kind 0: none yet */
	LeNewsItem *items;
	int			nitems;
} NewsValue;

static bool
item_kind(const LeJsonNode *node, LeNewsItem *item)
{
	char	   *name = le_json_string(node, MAX_NAME_LEN);

	for (int i = 0; name != NULL && i < lengthof(news_kinds); i++)
		if (news_kinds[i] != NULL && strcmp(name, news_kinds[i]) == 0)
		{
			item->kind = (LeOpKind) i;
			return true;
		}
	return false;
}

static bool
item_field(LeNewsItem *item, const LeJsonNode *node)
{
	if (le_json_at(node, 2, "number"))
		return le_json_uint64(node, &item->number);
	if (le_json_at(node, 2, "index"))
		return le_json_uint64(node, &item->index) && valid_index(item->index);
	if (le_json_at(node, 2, "token"))
		return le_json_uint64(node, &item->token) && valid_index(item->token);
	if (le_json_at(node, 2, "kind"))
		return item_kind(node, item);
	if (le_json_at(node, 2, "election"))
	{
		item->election = le_json_string(node, LE_MAX_ELECTION_LEN);
		return item->election != NULL &&
			le_valid_election_name(item->election);
	}
	return true;
}

static bool
take_item(NewsValue *v)
{
	if (v->nitems == LE_MAX_NEWS || v->item.election == NULL ||
		v->item.number == 0 || v->item.kind == 0)
		return false;
	if (v->items == NULL)
		v->items = palloc(LE_MAX_NEWS * sizeof(LeNewsItem));
	v->items[v->nitems++] = v->item;
	memset(&v->item, 0, sizeof(v->item));
	return true;
}

static bool
news_visit(void *arg, const LeJsonNode *node)
{
	NewsValue  *v = arg;

	if (node->depth == 0)
		return node->type == LE_JSON_OBJECT;
	if (!le_json_at(node, 0, "items"))
	{
		if (node->depth > 1)
			return true;
		if (le_json_at(node, 0, "number"))
			return le_json_uint64(node, &v->number);
		if (le_json_at(node, 0, "since"))
			return le_json_uint64(node, &v->since);
		return header_field(&v->header, node);
	}
	if (node->depth == 1)
		return node->type == LE_JSON_ARRAY;
	if (node->depth == 2)
		return node->type == LE_JSON_OBJECT && take_item(v);
	return node->depth > 3 || item_field(&v->item, node);
}

/*
 * What is told of for the first time was written with the news, and all of one
 * transaction have one index.  Not so a value that is published once more as
 * it was, since then the key's index stays; and the end of the session moves
 * that of the news.
 */
static bool
settle_items(const Entry *entry, bool held, NewsValue *v)
{
	for (int i = 0; i < v->nitems; i++)
	{
		LeNewsItem *item = &v->items[i];

		if (item->number > v->number || item->index > entry->index ||
			item->token > entry->index)
			return false;
		if (item->number == v->number)
			item->index = held && item->kind != LE_OP_PUBLISH ?
				entry->index : 0;
	}
	return true;
}

/* Those of a later version, or of somebody else, tell nothing. */
static void
entry_to_news(const Entry *entry, const char *session, LeNews *news)
{
	NewsValue	v;

	memset(news, 0, sizeof(*news));
	news->session = session;
	news->held = entry->session != NULL &&
		strcmp(entry->session, session) == 0;
	news->index = entry->index;
	memset(&v, 0, sizeof(v));
	if (!walk_value(entry, news_visit, &v) || !header_complete(&v.header) ||
		strcmp(v.header.session, session) != 0 || v.number == 0 ||
		v.since > v.number || !settle_items(entry, news->held, &v))
		return;
	news->node = v.header.node;
	news->number = v.number;
	news->since = v.since;
	news->items = v.items;
	news->nitems = v.nitems;
}

/* False if it is no claim of ours, or not one of the job its key names. */
static bool
entry_to_claim(const Entry *entry, const char *election, const char *job,
			   LeClaim *claim)
{
	int			len;
	char	   *text = value_text(entry, &len);

	if (text == NULL || entry->flags != LOCK_FLAG || entry->session != NULL ||
		!le_claim_parse(text, len, claim) || strcmp(claim->job, job) != 0)
		return false;
	claim->election = election;
	claim->index = entry->index;
	return true;
}

/* ---- answers: lists of keys ---- */

typedef struct List
{
	const LeOp *op;
	LeAnswer   *answer;
	char	   *prefix;			/* of the keys asked for */
	const char *only;			/* READ, READ_CLAIM: the one key asked for */
	bool		foreign;		/* CHECK_PREFIX: keys that are Patroni's;
								 * READ_CLAIM: no claim of ours */
	int			allocated;
	Entry		entry;
} List;

/* Makes room for one element more in an array of the answer. */
static void *
grow(List *list, void *array, int used, size_t size)
{
	if (array == NULL)
	{
		list->allocated = 8;
		return palloc(list->allocated * size);
	}
	if (used < list->allocated)
		return array;
	list->allocated *= 2;
	return repalloc(array, list->allocated * size);
}

static void
add_key(List *list, const char *election)
{
	LeAnswer   *answer = list->answer;

	answer->keys = grow(list, answer->keys, answer->nkeys, sizeof(LeKey));
	entry_to_key(&list->entry, election, &answer->keys[answer->nkeys++]);
}

static void
add_node(List *list, const char *session)
{
	LeAnswer   *answer = list->answer;

	answer->nodes = grow(list, answer->nodes, answer->nnodes,
						 sizeof(LeNodeKey));
	if (entry_to_node(&list->entry, session, &answer->nodes[answer->nnodes]))
		answer->nnodes++;
}

static void
add_news_of(List *list, const char *session)
{
	LeAnswer   *answer = list->answer;

	answer->news = grow(list, answer->news, answer->nnews, sizeof(LeNews));
	entry_to_news(&list->entry, session, &answer->news[answer->nnews++]);
}

/* News come behind all node keys: "n" is no hexadecimal digit. */
static void
mark_telling(List *list, const char *session)
{
	LeAnswer   *answer = list->answer;

	for (int i = 0; i < answer->nnodes; i++)
		if (strcmp(answer->nodes[i].session, session) == 0)
			answer->nodes[i].tells = list->entry.session != NULL &&
				strcmp(list->entry.session, session) == 0;
}

/* Node keys, and behind them the news of some of the nodes. */
static void
list_node(List *list)
{
	char	   *name = between(list->entry.key, list->prefix, "");
	char	   *news = name == NULL ? NULL : between(name, "news/", "");

	if (name != NULL && valid_session(name))
		add_node(list, name);
	else if (news != NULL && valid_session(news))
		mark_telling(list, news);
}

static void
list_news(List *list)
{
	char	   *name = between(list->entry.key, list->prefix, "");

	if (name != NULL && valid_session(name))
		add_news_of(list, name);
}

static bool
add_claim(List *list, const char *election, const char *job)
{
	LeAnswer   *answer = list->answer;

	answer->claims = grow(list, answer->claims, answer->nclaims,
						  sizeof(LeClaim));
	if (!entry_to_claim(&list->entry, election, job,
						&answer->claims[answer->nclaims]))
		return false;
	answer->nclaims++;
	return true;
}

/* The one key that was asked for; false if it is another, or a second. */
static bool
only_entry(List *list)
{
	const LeOp *op = list->op;

	if (list->answer->nkeys > 0 || list->answer->nclaims > 0 ||
		list->foreign || list->entry.key == NULL ||
		strcmp(list->entry.key, list->only) != 0)
		return false;
	if (op->kind == LE_OP_READ)
		add_key(list, op->election);
	else
		list->foreign = !add_claim(list, op->election, op->job);
	return true;
}

static void
list_claim(List *list)
{
	char	   *key = between(list->entry.key, list->prefix, "");
	char	   *election;
	char	   *job;

	if (key != NULL && le_claim_split_key(key, &election, &job))
		(void) add_claim(list, election, job);
}

/* An entry is complete: keep it if it is one that was asked for. */
static bool
list_entry(List *list)
{
	const Entry *entry = &list->entry;
	char	   *name;

	if (entry->index == 0)
		return false;
	if (list->only != NULL)
		return only_entry(list);
	if (entry->key == NULL)
		return true;
	if (list->op->kind == LE_OP_LIST_CLAIMS)
	{
		list_claim(list);
		return true;
	}
	if (list->op->kind == LE_OP_LIST_NODES)
	{
		list_node(list);
		return true;
	}
	if (list->op->kind == LE_OP_WATCH_NEWS)
	{
		list_news(list);
		return true;
	}
	name = between(entry->key, list->prefix, "/leader");
	if (name != NULL && le_valid_election_name(name))
		add_key(list, name);
	return true;
}

static bool
list_visit(void *arg, const LeJsonNode *node)
{
	List	   *list = arg;

	if (node->depth == 0)
		return node->type == LE_JSON_ARRAY;
	if (node->depth == 1)
	{
		if (node->type != LE_JSON_OBJECT || !list_entry(list))
			return false;
		memset(&list->entry, 0, sizeof(list->entry));
		return true;
	}
	return node->depth > 2 || entry_field(&list->entry, node);
}

/* Does a key, from its last slash of the prefix on, look like Patroni's? */
static bool
is_patroni(const char *key)
{
	return between(key, "", "/config") != NULL ||
		between(key, "", "/initialize") != NULL ||
		(strstr(key, "/members/") != NULL &&
		 between(key, "", "/leader") == NULL);
}

static bool
names_visit(void *arg, const LeJsonNode *node)
{
	List	   *list = arg;
	char	   *key;
	size_t		len = strlen(list->prefix);

	if (node->depth == 0)
		return node->type == LE_JSON_ARRAY;
	key = le_json_string(node, MAX_KEY_LEN);
	if (key != NULL && strncmp(key, list->prefix, len) == 0 &&
		is_patroni(key + len - 1))
		list->foreign = true;
	return node->depth == 1 && node->type == LE_JSON_STRING;
}

/*
 * The index to wait for next.  One that went back (tombstones were collected,
 * Consul was restored) must not be waited for: that would be to sleep through
 * everything until the old one is reached again.
 */
static uint64
next_watch_index(const LeOp *op, uint64 index)
{
	if (index < op->watch_index)
		return 0;
	return Max(index, 1);
}

static void
start_list(const LePlace *place, const LeOp *op,
		   LeAnswer *answer, List *list)
{
	const char *below = "/";
	int			have;

	if (op->kind == LE_OP_LIST_NODES)
		below = ".nodes/";
	else if (op->kind == LE_OP_WATCH_NEWS)
		below = NEWS_BELOW;
	else if (op->kind == LE_OP_LIST_CLAIMS || op->kind == LE_OP_READ_CLAIM)
		below = ".claims/";
	memset(list, 0, sizeof(*list));
	list->op = op;
	list->answer = answer;
	list->prefix = psprintf("%s%s", key_prefix(place), below);
	/* as grow() had it when the part before ended, or less */
	have = Max(Max(answer->nkeys, answer->nnodes), answer->nclaims);
	for (list->allocated = 8; list->allocated < have;)
		list->allocated *= 2;
	if (op->kind == LE_OP_READ)
		list->only = election_key(place, op->election, "leader");
	else if (op->kind == LE_OP_READ_CLAIM)
		list->only = claim_key(place, op->election, op->job);
}

/* Keys that are somebody else's stand where ours should. */
static void
fail_foreign(const List *list, LeAnswer *answer)
{
	if (list->op->kind == LE_OP_READ_CLAIM)
		le_fail(answer, LE_REFUSED,
				psprintf("key \"%s\" is not a claim of this extension",
						 list->only));
	else
		le_fail(answer, LE_REFUSED,
				psprintf("the keys below \"%s\" belong to Patroni; choose "
						 "another key prefix", list->prefix));
}

/* Each answer about keys that is Consul's own has an index. */
static bool
has_index(const LeHttpResponse *response, uint64 *index)
{
	char		value[24];
	char	   *end;

	if (!le_header(response, "X-Consul-Index", value, sizeof(value)) ||
		value[0] < '0' || value[0] > '9')
		return false;
	*index = strtou64(value, &end, 10);
	return *end == '\0';
}

/* Were keys left out that the token may not read? */
static bool
is_filtered(const LeHttpResponse *response)
{
	char		value[8];

	return le_header(response, "X-Consul-Results-Filtered-By-ACLs", value,
					 sizeof(value)) && strcmp(value, "true") == 0;
}

/*
 * Where does a slice end that begins with an element of an array, or with the
 * array's end?  Behind the first of its elements that makes it long enough.
 */
static size_t
slice_end(const char *body, size_t len, size_t from)
{
	int			depth = 0;
	bool		quoted = false;

	for (size_t i = from; i < len; i++)
	{
		char		c = body[i];

		if (quoted)
		{
			if (c == '\\')
				i++;
			quoted = c != '"';
		}
		else if (c == '"')
			quoted = true;
		else if (c == '{' || c == '[')
			depth++;
		else if ((c == '}' || c == ']') && depth-- == 0)
			return i;			/* of the array itself */
		else if (c == ',' && depth == 0 && i - from >= le_consul_slice)
			return i;
	}
	return len;
}

static bool
walk_part(const char *body, size_t from, size_t end, List *list)
{
	StringInfoData part;
	bool		ok;

	initStringInfo(&part);
	appendStringInfoChar(&part, '[');
	appendBinaryStringInfo(&part, body + from, (int) (end - from));
	appendStringInfoChar(&part, ']');
	ok = le_json_walk(part.data, part.len, list_visit, list);
	pfree(part.data);
	return ok;
}

static size_t
skip_space(const LeHttpResponse *response, size_t at)
{
	while (at < response->body_len &&
		   strchr(" \t\r\n", response->body[at]) != NULL &&
		   response->body[at] != '\0')
		at++;
	return at;
}

/*
 * A list that shows thousands of keys is walked through a part at a time.
 * Behind a comma there has to be one more element, as in one piece.
 */
static bool
walk_slice(const LeOp *op, const LeHttpResponse *response, List *list)
{
	const char *body = response->body;
	size_t		len = response->body_len;
	size_t		from = op->from;
	size_t		end;

	if (from == 0)
	{
		from = skip_space(response, 0);
		if (from == len || body[from] != '[')
			return false;
		from++;
	}
	end = slice_end(body, len, from);
	if (op->from != 0 && skip_space(response, from) >= end)
		return false;
	if (end == len || !walk_part(body, from, end, list))
		return false;
	if (body[end] == ',')
		list->answer->rest = end + 1;
	else if (body[end] == ']')
	{
		list->answer->rest = 0;
		return skip_space(response, end + 1) == len;
	}
	else
		return false;
	return true;
}

static bool
may_be_long(LeOpKind kind)
{
	return kind == LE_OP_WATCH || kind == LE_OP_LIST_HELD ||
		kind == LE_OP_LIST_NODES || kind == LE_OP_LIST_CLAIMS;
}

static bool
walk_list(const LeOp *op, const LeHttpResponse *response, List *list)
{
	if (op->kind == LE_OP_CHECK_PREFIX)
		return le_json_walk(response->body, response->body_len, names_visit,
							list);
	if (may_be_long(op->kind))
		return walk_slice(op, response, list);
	return le_json_walk(response->body, response->body_len, list_visit, list);
}

static void
decode_list(const LePlace *place, const LeOp *op,
			const LeHttpResponse *response, LeAnswer *answer)
{
	List		list;
	uint64		index;

	start_list(place, op, answer, &list);

	if (is_filtered(response))
		le_fail(answer, LE_REFUSED,
				psprintf("Consul's ACL hides keys below \"%s\" from the token; "
						 "it needs key:read on all of them", list.prefix));
	else if (!has_index(response, &index))
		fail_shape(op, response, answer);
	else if (response->status == 200 &&
			 (!walk_list(op, response, &list) ||
			  (list.only != NULL && !list.foreign &&
			   answer->nkeys + answer->nclaims != 1)))
		fail_shape(op, response, answer);
	else if (list.foreign)
		fail_foreign(&list, answer);
	else if (op->kind == LE_OP_WATCH || op->kind == LE_OP_WATCH_NEWS)
		answer->index = next_watch_index(op, index);
	else
		answer->index = index;
}

/* ---- answers: transactions ---- */

typedef struct TxnAnswer
{
	const Plan *plan;
	const LeOp *op;
	LeAnswer   *answers;		/* one for each part */

	/* results */
	Entry		entry;			/* being read */
	Entry		written[LE_MAX_JOINED]; /* the last for the key that each part
										 * writes */
	bool		has_results;	/* even if there are none in it */

	/* errors */
	uint64		failed_step;	/* being read; nsteps: not shown */
	char	   *what;			/* being read */
	int			nerrors;
	int			weight[LE_MAX_JOINED];	/* of the gravest so far */
} TxnAnswer;

/* What the failure of a step means, and how grave that is. */
typedef struct Verdict
{
	int			weight;
	LeOutcome	outcome;
	LeConflict	conflict;
} Verdict;

static Verdict
judge_text(const TxnAnswer *txn, const Step *step)
{
	static const Verdict denied = {.weight = 7, .outcome = LE_REFUSED};
	static const Verdict lost = {.weight = 6, .outcome = LE_LOST};
	static const Verdict delay = {4, LE_CONFLICT, LE_CONFLICT_LOCK_DELAY};
	static const Verdict held = {3, LE_CONFLICT, LE_CONFLICT_HELD};
	static const Verdict changed = {2, LE_CONFLICT, LE_CONFLICT_CHANGED};

	if (strstr(txn->what, "Permission denied") != NULL ||
		strstr(txn->what, unknown_token) != NULL)
		return denied;
	if (strstr(txn->what, "invalid session") != NULL)
		return lost;
	if (step->role == STEP_WRITE && txn->op->kind == LE_OP_PROVE_NODE)
		return lost;
	if (strstr(txn->what, "due to lock delay") != NULL)
		return delay;
	if (strstr(txn->what, "lock is already held") != NULL)
		return held;
	if (strstr(txn->what, "failed session check") != NULL)
		return held;
	return changed;
}

static Verdict
judge_step(const TxnAnswer *txn, const Step *step)
{
	static const Verdict patroni = {.weight = 5, .outcome = LE_REFUSED};
	static const Verdict lost = {.weight = 6, .outcome = LE_LOST};
	static const Verdict not_ours = {1, LE_CONFLICT, LE_CONFLICT_CHANGED};
	Verdict		by_text = judge_text(txn, step);

	if (by_text.outcome != LE_CONFLICT)
		return by_text;
	switch (step->role)
	{
		case STEP_OWN:
			return lost;
		case STEP_FREE_OF_PATRONI:
			return patroni;
		case STEP_HELD:
			return not_ours;
		case STEP_UNCHANGED:
		case STEP_WRITE:
			break;
	}
	return by_text;
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

/* Keep what a step says about one of the parts if it is the gravest. */
static void
note_verdict(TxnAnswer *txn, int part, const Step *step,
			 const Verdict *verdict)
{
	LeAnswer   *answer = &txn->answers[part];

	if (verdict->weight <= txn->weight[part])
		return;
	txn->weight[part] = verdict->weight;
	answer->outcome = verdict->outcome;
	answer->conflict = verdict->conflict;
	answer->detail = le_clean_detail(txn->what);
	if (verdict->outcome == LE_REFUSED &&
		step->role == STEP_FREE_OF_PATRONI &&
		strstr(txn->what, "denied") == NULL)
		answer->detail = le_clean_detail(psprintf("key \"%s\" exists: this "
											   "name belongs to Patroni",
											   step->key));
}

/* One error is complete. */
static bool
take_error(TxnAnswer *txn)
{
	const Plan *plan = txn->plan;
	const Step *step;
	Verdict		verdict;

	if (txn->what == NULL || txn->failed_step >= plan->nsteps)
		return false;
	txn->nerrors++;
	step = &plan->steps[txn->failed_step];
	verdict = judge_step(txn, step);
	if (step->role == STEP_HELD)
		add_lost(&txn->answers[0], (int) txn->failed_step - 2);
	for (int i = 0; i < plan->nparts; i++)
		if (step->part == i || step->part == ALL_PARTS)
			note_verdict(txn, i, step, &verdict);
	return true;
}

static bool
error_field(TxnAnswer *txn, const LeJsonNode *node)
{
	if (le_json_at(node, 2, "OpIndex"))
		return le_json_uint64(node, &txn->failed_step);
	if (le_json_at(node, 2, "What"))
	{
		txn->what = le_json_string(node, MAX_ERROR_LEN);
		return txn->what != NULL;
	}
	return true;
}

static void
take_result(TxnAnswer *txn)
{
	const Plan *plan = txn->plan;

	/* Checks answer too, with the key as they found it: the last counts. */
	for (int i = 0; txn->entry.key != NULL && i < plan->nparts; i++)
		if (strcmp(txn->entry.key, plan->steps[plan->write[i]].key) == 0)
			txn->written[i] = txn->entry;
	memset(&txn->entry, 0, sizeof(txn->entry));
}

static bool
errors_visit(TxnAnswer *txn, const LeJsonNode *node)
{
	bool		ok;

	if (node->depth == 1)
		return node->type == LE_JSON_ARRAY || node->type == LE_JSON_NULL;
	if (node->depth == 3)
		return error_field(txn, node);
	if (node->depth != 2)
		return true;
	ok = node->type == LE_JSON_OBJECT && take_error(txn);
	txn->failed_step = txn->plan->nsteps;
	txn->what = NULL;
	return ok;
}

static bool
results_visit(TxnAnswer *txn, const LeJsonNode *node)
{
	if (node->depth == 1)
	{
		txn->has_results = node->type == LE_JSON_ARRAY;
		return txn->has_results || node->type == LE_JSON_NULL;
	}
	if (node->depth == 4 && le_json_at(node, 2, "KV"))
		return entry_field(&txn->entry, node);
	if (node->depth == 2)
		take_result(txn);
	return true;
}

static bool
txn_visit(void *arg, const LeJsonNode *node)
{
	TxnAnswer  *txn = arg;

	if (node->depth == 0)
		return node->type == LE_JSON_OBJECT;
	if (le_json_at(node, 0, "Errors"))
		return errors_visit(txn, node);
	if (le_json_at(node, 0, "Results"))
		return results_visit(txn, node);
	return true;
}

/* Does the answer show what the part was to write? */
static bool
shows_write(const TxnAnswer *txn, int part)
{
	const Step *step = &txn->plan->steps[txn->plan->write[part]];
	const Entry *written = &txn->written[part];

	if (step->value == NULL)
		return true;			/* a deletion leaves nothing to show */
	if (written->index == 0 || written->flags != LOCK_FLAG)
		return false;
	if (strcmp(step->verb, "lock") == 0)
		return written->session != NULL &&
			strcmp(written->session, step->session) == 0;
	return written->session == NULL;
}

/* All parts are applied, or the answer is not what Consul says then. */
static bool
decode_results(const TxnAnswer *txn)
{
	if (!txn->has_results || txn->nerrors > 0)
		return false;
	for (int i = 0; i < txn->plan->nparts; i++)
	{
		if (!shows_write(txn, i))
			return false;
		txn->answers[i].index = txn->written[i].index;
	}
	return true;
}

/* None is applied; what was wrong with none of its steps may be sent again. */
static bool
decode_errors(const TxnAnswer *txn)
{
	if (txn->nerrors == 0)
		return false;
	for (int i = 0; i < txn->plan->nparts; i++)
	{
		LeAnswer   *answer = &txn->answers[i];

		if (txn->weight[i] == 0)
		{
			le_fail(answer, LE_UNAVAILABLE, "another election's part of the "
					"transaction was refused");
			answer->unjudged = true;
		}
		if (answer->outcome != LE_CONFLICT)
			answer->nlost = 0;
	}
	return true;
}

static void
decode_plan(const LeOp *op, const Plan *plan, const LeHttpResponse *response,
			LeAnswer *answer)
{
	TxnAnswer  *txn = palloc0(sizeof(TxnAnswer));

	txn->plan = plan;
	txn->op = op;
	txn->answers = op->njoined == 0 ? answer :
		palloc0(plan->nparts * sizeof(LeAnswer));
	txn->failed_step = plan->nsteps;
	if (!le_json_walk(response->body, response->body_len, txn_visit, txn) ||
		!(response->status == 409 ? decode_errors(txn) : decode_results(txn)))
		fail_shape(op, response, answer);
	else if (op->njoined > 0)
	{
		if (response->status == 409)
			le_fail(answer, LE_CONFLICT, "one of the elections was refused");
		else
			answer->index = txn->answers[0].index;
		answer->parts = txn->answers;
	}
}

/* ---- answers: sessions ---- */

typedef struct SessionInfo
{
	char	   *id;
	char	   *name;
	char	   *behavior;
	char	   *ttl;
	uint64		lock_delay;		/* ns */
	bool		has_checks;
} SessionInfo;

typedef struct SessionAnswer
{
	SessionInfo info;			/* being read */
	SessionInfo found;			/* the one asked for */
	const char *id;
} SessionAnswer;

static bool
session_field(SessionInfo *info, const LeJsonNode *node)
{
	if (le_json_at(node, 1, "ID"))
		info->id = le_json_string(node, LE_SESSION_LEN);
	else if (le_json_at(node, 1, "Name"))
		info->name = le_json_string(node, MAX_NAME_LEN);
	else if (le_json_at(node, 1, "Behavior"))
		info->behavior = le_json_string(node, MAX_NAME_LEN);
	else if (le_json_at(node, 1, "TTL"))
		info->ttl = le_json_string(node, MAX_NAME_LEN);
	else if (le_json_at(node, 1, "LockDelay"))
		return le_json_uint64(node, &info->lock_delay);
	return true;
}

static bool
session_visit(void *arg, const LeJsonNode *node)
{
	SessionAnswer *s = arg;

	if (node->depth == 0)
		return node->type == LE_JSON_ARRAY;
	if (node->depth == 2)
		return session_field(&s->info, node);
	if (node->depth == 3 && (le_json_at(node, 1, "Checks") ||
							 le_json_at(node, 1, "NodeChecks") ||
							 le_json_at(node, 1, "ServiceChecks")))
		s->info.has_checks = true;
	if (node->depth == 1)
	{
		if (node->type != LE_JSON_OBJECT || s->info.id == NULL ||
			strcmp(s->info.id, s->id) != 0)
			return false;		/* not what was asked for */
		s->found = s->info;
		memset(&s->info, 0, sizeof(s->info));
	}
	return true;
}

/* Reads 15s, 1m0s, 1h0m0s, 500ms, as Go writes them; 0 if it cannot. */
static le_duration
parse_duration(const char *s)
{
	le_duration total = 0;

	while (*s >= '0' && *s <= '9')
	{
		int64		n = 0;
		le_duration unit;
		size_t		len;

		for (; *s >= '0' && *s <= '9'; s++)
		{
			n = n * 10 + (*s - '0');
			if (n > 1000000)
				return 0;
		}
		len = strspn(s, "hms");
		if (len == 1 && *s == 'h')
			unit = 3600 * LE_SEC;
		else if (len == 1 && *s == 'm')
			unit = 60 * LE_SEC;
		else if (len == 1 && *s == 's')
			unit = LE_SEC;
		else if (len == 2 && strncmp(s, "ms", 2) == 0)
			unit = LE_MSEC;
		else
			return 0;
		if (total > PG_INT64_MAX / 2 - n * unit)
			return 0;
		total += n * unit;
		s += len;
	}
	return *s == '\0' ? total : 0;
}

/*
 * Is the session what the terms rely on?  A larger TTL than asked for only
 * keeps the waiters longer; nothing is ever derived from it.
 */
static void
verify_session(const LeOp *op, const SessionInfo *info, LeAnswer *answer)
{
	le_duration ttl = ttl_seconds(op) * LE_SEC;
	le_duration lock_delay = lock_delay_seconds(op) * LE_SEC;

	if (info->id == NULL)
		le_fail(answer, LE_REFUSED, "the new session is not shown: the token "
				"needs session:read on the agent's node, or it is gone already");
	else if (info->ttl == NULL || parse_duration(info->ttl) < ttl)
		le_fail(answer, LE_REFUSED, psprintf("the session has TTL \"%s\", not "
											 "the one asked for",
											 info->ttl ? info->ttl : ""));
	else if (info->lock_delay != (uint64) lock_delay)
		le_fail(answer, LE_REFUSED, "the session has another lock-delay than "
				"was asked for");
	else if (info->behavior == NULL || strcmp(info->behavior, "release") != 0)
		le_fail(answer, LE_REFUSED, "the session has another behavior than "
				"\"release\"");
	else if (info->has_checks)
		le_fail(answer, LE_REFUSED, "the session depends on health checks, "
				"though none were asked for");
}

static void
decode_session(const LeOp *op, const LeHttpResponse *response,
			   LeAnswer *answer)
{
	SessionAnswer s;

	memset(&s, 0, sizeof(s));
	s.id = op->session;
	if (!le_json_walk(response->body, response->body_len, session_visit, &s))
		fail_shape(op, response, answer);
	else if (op->kind == LE_OP_VERIFY_SESSION)
		verify_session(op, &s.found, answer);
	else if (op->kind == LE_OP_RENEW_SESSION && s.found.id == NULL)
		fail_shape(op, response, answer);
	else if (op->kind == LE_OP_SESSION_NAME && s.found.name != NULL &&
			 valid_name(s.found.name))
		answer->name = s.found.name;
}

static bool
created_visit(void *arg, const LeJsonNode *node)
{
	LeAnswer   *answer = arg;

	if (node->depth == 0)
		return node->type == LE_JSON_OBJECT;
	if (node->depth == 1 && le_json_at(node, 0, "ID"))
	{
		answer->session = le_json_string(node, LE_SESSION_LEN);
		return answer->session != NULL && valid_session(answer->session);
	}
	return true;
}

static void
decode_created(const LeOp *op, const LeHttpResponse *response,
			   LeAnswer *answer)
{
	if (!le_json_walk(response->body, response->body_len, created_visit,
					  answer) || answer->session == NULL)
		fail_shape(op, response, answer);
}

static bool
true_visit(void *arg, const LeJsonNode *node)
{
	return node->type == LE_JSON_TRUE;
}

static void
decode_true(const LeOp *op, const LeHttpResponse *response, LeAnswer *answer)
{
	if (!le_json_walk(response->body, response->body_len, true_visit, NULL))
		fail_shape(op, response, answer);
}

/* ---- answers ---- */

static bool
reads_keys(LeOpKind kind)
{
	return kind == LE_OP_READ || kind == LE_OP_LIST_HELD ||
		kind == LE_OP_LIST_NODES || kind == LE_OP_CHECK_PREFIX ||
		kind == LE_OP_WATCH || kind == LE_OP_WATCH_NEWS ||
		kind == LE_OP_READ_CLAIM || kind == LE_OP_LIST_CLAIMS;
}

/* A complete answer, with the status that goes with a meaningful body. */
static void
decode_body(const LePlace *place, const LeOp *op,
			const LeHttpResponse *response, LeAnswer *answer)
{
	Plan		plan;

	if (make_plan(place, op, &plan))
		decode_plan(op, &plan, response, answer);
	else if (reads_keys(op->kind))
		decode_list(place, op, response, answer);
	else if (op->kind == LE_OP_CREATE_SESSION)
		decode_created(op, response, answer);
	else if (op->kind == LE_OP_DESTROY_SESSION)
		decode_true(op, response, answer);
	else
		decode_session(op, response, answer);
}

static bool
is_transaction(LeOpKind kind)
{
	return le_op_writes(kind) && kind != LE_OP_CREATE_SESSION &&
		kind != LE_OP_RENEW_SESSION && kind != LE_OP_DESTROY_SESSION;
}

static void
consul_decode(const LePlace *place, const LeOp *op,
			  const LeHttpResponse *response, LeAnswer *answer)
{
	int			status = response->status;
	uint64		index;

	if (op->from == 0)
		memset(answer, 0, sizeof(*answer));
	answer->outcome = LE_DONE;
	if (response->net != LE_NET_OK)
		le_fail_network(op, response, answer);
	else if (status == 200 ||
			 (status == 409 && is_transaction(op->kind)) ||
			 (status == 404 && reads_keys(op->kind) &&
			  has_index(response, &index)))
		decode_body(place, op, response, answer);
	else
		decode_status(op, response, answer);
}

/* ---- several operations in one request ---- */

/* Places that the operation takes of a transaction: as many as plan_part()
 * makes steps. */
static int
consul_takes(const LeOp *op)
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

/* Each transaction takes over from one holder, as it was last seen. */
static bool
consul_joins(const LeOp *op, const LeOp *other)
{
	const LeNodeKey *a = op->target;
	const LeNodeKey *b = other->target;

	return op->kind == other->kind &&
		strcmp(op->session, other->session) == 0 &&
		(op->kind != LE_OP_TAKE_OVER ||
		 (strcmp(a->session, b->session) == 0 && a->index == b->index &&
		  a->held == b->held && a->revoked == b->revoked));
}

/* ---- the store ---- */

static char *url = "http://127.0.0.1:8500";
static char *token_file = "";
static char *datacenter = "";
static char *prefix = "leader_election";
static bool takeover = true;

static const LeSetting settings[] = {
	{
		.name = "leader_election.consul_url",
		.kind = LE_SETTING_URL,
		.brief = "Sets the URL of the Consul agent.",
		.text = &url
	},
	{
		.name = "leader_election.consul_token_file",
		.kind = LE_SETTING_FILE,
		.brief = "Names the file that holds the Consul ACL token.",
		.detail = "It is read again on reload. Empty means no token.",
		.text = &token_file
	},
	{
		.name = "leader_election.consul_datacenter",
		.kind = LE_SETTING_WORD,
		.brief = "Sets the Consul datacenter.",
		.detail = "Empty means the agent's own.",
		.text = &datacenter
	},
	{
		.name = "leader_election.consul_key_prefix",
		.kind = LE_SETTING_PREFIX,
		.brief = "Sets the prefix of all keys in Consul.",
		.detail = "All instances that elect among each other share it.",
		.text = &prefix
	},
	{
		.name = "leader_election.consul_takeover",
		.kind = LE_SETTING_FLAG,
		.brief = "Takes over from a leader that has been silent for its whole lease.",
		.detail = "Off means to wait until Consul ends its session.",
		.flag = &takeover
	},
};

static const char *
consul_servers(void)
{
	return url;
}

static const char *
consul_token_file(void)
{
	return token_file;
}

static void
consul_place(LePlace *place)
{
	strlcpy(place->prefix, prefix, sizeof(place->prefix));
	strlcpy(place->part, datacenter, sizeof(place->part));
}

static bool
consul_takes_over(void)
{
	return takeover;
}

/* When is there another leader after a crash? */
static LeFinding
failover(const LeTiming *t)
{
	le_duration jitter = le_earliest(t->lease / 20, LE_SEC / 4);
	LeFinding	finding = {.level = LE_LEVEL_OK, .topic = "failover"};

	if (takeover)
		finding.text = psprintf("After a crash another candidate leads within %d ms: lease_ttl + lease_ttl / 4 + %d ms.",
								LE_MS(t->lease + t->lease / 4 + jitter),
								LE_MS(jitter));
	else
	{
		finding.level = LE_LEVEL_WARNING;
		finding.text = psprintf("After a crash another candidate leads within %d ms only: 2 x session TTL (%d ms) + lease_ttl + lease_ttl / 20 + 500 ms, because \"leader_election.consul_takeover\" is off.",
								LE_MS(2 * t->session_ttl + t->lease +
									  t->lease / 20 + LE_SEC / 2),
								LE_MS(t->session_ttl));
	}
	return finding;
}

/* Consul is told a lock-delay in whole seconds. */
static LeFinding
lock_delay(const LeTiming *t)
{
	le_duration delay = whole_seconds(t->lease) * LE_SEC;
	le_duration trusted = t->lease - t->margin;

	return (LeFinding)
	{
		.level = delay >= trusted ? LE_LEVEL_OK : LE_LEVEL_ERROR,
		.topic = "lock-delay",
		.text = psprintf("Consul's lock-delay (%d ms) covers the %d ms for which a leader may believe after its last proof; session TTL %d ms.",
						 LE_MS(delay), LE_MS(trusted), LE_MS(t->session_ttl))
	};
}

static int
consul_explain(const LeTiming *timing, int elections, LeFinding *findings)
{
	(void) elections;
	findings[0] = failover(timing);
	findings[1] = lock_delay(timing);
	return 2;
}

const LeStore le_store_consul = {
	.name = "consul",
	.between_instances = true,
	.has_sessions = true,
	.takes_over = consul_takes_over,
	.most_lease = LE_MAX_LEASE,
	.least_session = LEAST_SESSION,
	.hiccup = 4 * LE_SEC,
	.hiccup_cause = "a change of Consul's own leader",
	.room = MAX_STEPS - COMMON_STEPS,
	.takes = consul_takes,
	.joins = consul_joins,
	.watching = LE_WATCH_ALL,
	.tells = true,
	.park_ms = 10000,
	.park_grace_ms = 10000 / 16 + 8000, /* a sixteenth, and 7 s when Consul has
										 * no leader */
	.lists_all_claims = true,
	.settings = settings,
	.nsettings = lengthof(settings),
	.servers = consul_servers,
	.url_setting = "leader_election.consul_url",
	.place = consul_place,
	.secret_file = consul_token_file,
	.secret_setting = "leader_election.consul_token_file",
	.secret_header = "X-Consul-Token: ",
	.place_check = LE_OP_CHECK_PREFIX,
	.place_verb = "use the key prefix",
	.foreign_key = "the election's key was made by something else: it lacks the lock flag of Consul's clients",
	.explain = consul_explain,
	.encode = consul_encode,
	.decode = consul_decode,
};
