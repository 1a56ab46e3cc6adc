/*-------------------------------------------------------------------------
 *
 * cassandra.c
 *		The store "cassandra": requests to le-gateway's HTTP API, which turns
 *		them into lightweight transactions of Cassandra, and its answers.
 *
 * Each lock has a lease of its own, so there is no store session: the owner
 * of a lock is "NODE#INCARNATION".  A key's index is the lock's token (its
 * epoch), which only an acquire moves; every renewal moves its revision.
 * Renewals and releases name both, so that a late copy changes nothing.  An
 * acquire carries the id of its attempt, so that a repetition finds out its
 * outcome.
 *
 * Cassandra judges every lease, skew of its clocks included: a lock that is
 * shown free can be taken at once.
 *
 * Acquires of several elections go in one request, as do releases and reads.
 * Each has an answer of its own, as it would alone.
 *
 * The type of the problem document, which never changes, tells errors apart.
 * A write is not applied only if the gateway says so; an answer that is not
 * the gateway's leaves its outcome unknown.
 *
 * src/store/cassandra.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "store/claim_record.h"
#include "store/json.h"
#include "store/store.h"

#define PROBLEM			"urn:leader-election:problem:"

/* The longest answers that make sense, in bytes. */
#define MAX_SMALL_ANSWER	(512 * 1024)	/* a foreign value may have 64 kB,
											 * escaped */
#define MAX_BATCH_ANSWER	(64 * 1024 * 1024)
#define MAX_LIST_ANSWER		(128 * 1024 * 1024)

/* Longest strings in answers; nothing of ours is longer. */
#define MAX_OWNER_LEN		512
#define MAX_TEXT_LEN		4096
#define MAX_PAGE_LEN		8192

/* The gateway has no higher token, and accepts none. */
#define MAX_TOKEN			(UINT64CONST(1) << 53)

/* Waits that are parked at the gateways at a time. */
#define MAX_PARKED			64

/* Locks on one page of the list. */
#define PAGE_SIZE			1000

/* ---- owners ---- */

/*
 * "NODE#INCARNATION".  The incarnation is taken from the session that the
 * operation acts for, which may be this node's predecessor's.
 */
static char *
owner_of(const LeOp *op)
{
	StringInfoData owner;

	initStringInfo(&owner);
	appendStringInfo(&owner, "%s#", op->node_name);
	for (const char *s = op->session; *s != '\0'; s++)
		if (*s != '-')
			appendStringInfoChar(&owner, *s);
	return owner.data;
}

/* The lock's holder: a node of this extension, or another client, by name. */
static void
show_owner(const char *owner, LeKey *key)
{
	const char *mark = strrchr(owner, '#');

	if (mark != NULL && mark > owner &&
		mark - owner <= LE_MAX_NODE_NAME_LEN &&
		strlen(mark + 1) == LE_INCARNATION_LEN &&
		strspn(mark + 1, "0123456789abcdef") == LE_INCARNATION_LEN)
	{
		key->node = le_shown_name(owner, mark - owner);
		key->holder = le_session_of_incarnation(mark + 1);
	}
	else
		key->node = key->holder = le_shown_name(owner, strlen(owner));
	key->value_session = key->holder;
}

/* ---- requests ---- */

/* One path segment for any name: the words of the API cannot clash. */
static void
append_lock(LeRequest *request, const char *election)
{
	appendStringInfoString(&request->http.path, "/v1/locks/");
	le_append_encoded(&request->http.path, election, "");
}

static void
append_field(StringInfo body, const char *name, const char *value)
{
	if (value == NULL)
		return;
	appendStringInfo(body, "%s\"%s\":", body->len > 1 ? "," : "", name);
	le_json_append_string(body, value);
}

static void
append_ttl(StringInfo body, const LeOp *op)
{
	appendStringInfo(body, ",\"ttl\":\"%lldms\"",
					 (long long) ((op->lease + LE_MSEC - 1) / LE_MSEC));
}

static void
append_min_token(StringInfo body, const LeOp *op)
{
	appendStringInfo(body, ",\"min_token\":" UINT64_FORMAT "}",
					 Min(op->term.token_floor, (uint64) PG_INT64_MAX));
}

static void
encode_acquire(const LeOp *op, LeRequest *request)
{
	StringInfo	body = &request->http.body;

	request->http.method = "PUT";
	append_lock(request, op->election);
	appendStringInfoChar(body, '{');
	append_field(body, "owner", owner_of(op));
	append_field(body, "attempt", op->term.attempt);
	append_field(body, "value", op->value);
	append_ttl(body, op);
	append_min_token(body, op);
}

static void
encode_publish(const LeOp *op, LeRequest *request)
{
	StringInfo	body = &request->http.body;

	request->http.method = "POST";
	append_lock(request, op->election);
	appendStringInfoString(&request->http.path, "/renew");
	appendStringInfoChar(body, '{');
	append_field(body, "owner", owner_of(op));
	append_field(body, "value", op->value);
	append_ttl(body, op);
	appendStringInfo(body, ",\"token\":" UINT64_FORMAT
					 ",\"rev\":" UINT64_FORMAT "}", op->index, op->term.rev);
}

/* A request about several locks, up to the first of them. */
static void
begin_batch(const LeOp *op, const char *path, LeRequest *request)
{
	StringInfo	body = &request->http.body;

	request->http.method = "POST";
	request->max_answer = MAX_BATCH_ANSWER;
	appendStringInfoString(&request->http.path, path);
	appendStringInfoChar(body, '{');
	if (op->kind != LE_OP_READ)
		append_field(body, "owner", owner_of(op));
	if (op->kind == LE_OP_ACQUIRE || op->kind == LE_OP_RENEW_TERMS)
		append_ttl(body, op);
	appendStringInfoString(body, body->len > 1 ? ",\"locks\":[" :
						   "\"locks\":[");
}

/* One of the locks; the caller ends the entry. */
static void
append_entry(StringInfo body, int i, const char *election)
{
	appendStringInfoString(body, i == 0 ? "{\"name\":" : ",{\"name\":");
	le_json_append_string(body, election);
}

static void
append_term(StringInfo body, uint64 token, uint64 rev)
{
	appendStringInfo(body, ",\"token\":" UINT64_FORMAT
					 ",\"rev\":" UINT64_FORMAT "}", token, rev);
}

static void
encode_renewals(const LeOp *op, LeRequest *request)
{
	begin_batch(op, "/v1/renew", request);
	for (int i = 0; i < op->renew.nterms; i++)
	{
		append_entry(&request->http.body, i, op->renew.terms[i].election);
		append_term(&request->http.body, op->renew.terms[i].token,
					op->renew.terms[i].rev);
	}
	appendStringInfoString(&request->http.body, "]}");
}

/* The operation at this position of its request: itself, or a joined one. */
static const LeOp *
part_of(const LeOp *op, int i)
{
	return i == 0 ? op : op->wire.joined[i - 1];
}

static void
encode_joined(const LeOp *op, LeRequest *request)
{
	StringInfo	body = &request->http.body;

	begin_batch(op, op->kind == LE_OP_ACQUIRE ? "/v1/acquire" :
				op->kind == LE_OP_RELEASE ? "/v1/release" : "/v1/read",
				request);
	for (int i = 0; i <= op->wire.njoined; i++)
	{
		const LeOp *part = part_of(op, i);

		append_entry(body, i, part->election);
		if (op->kind == LE_OP_ACQUIRE)
		{
			append_field(body, "attempt", part->term.attempt);
			append_field(body, "value", part->value);
			append_min_token(body, part);
		}
		else if (op->kind == LE_OP_RELEASE)
			append_term(body, Min(part->index, MAX_TOKEN), part->term.rev);
		else
			appendStringInfoChar(body, '}');
	}
	appendStringInfoString(body, "]}");
}

static void
encode_release(const LeOp *op, LeRequest *request)
{
	request->http.method = "DELETE";
	append_lock(request, op->election);
	appendStringInfoString(&request->http.path, "?owner=");
	le_append_encoded(&request->http.path, owner_of(op), "");
	appendStringInfo(&request->http.path, "&token=" UINT64_FORMAT
					 "&rev=" UINT64_FORMAT, Min(op->index, MAX_TOKEN),
					 op->term.rev);
}

static void
encode_watch(const LeOp *op, LeRequest *request)
{
	append_lock(request, op->election);
	appendStringInfo(&request->http.path, "?wait=%dms&token=" UINT64_FORMAT
					 "&rev=" UINT64_FORMAT,
					 Min(op->watch.wait_ms, LE_MAX_WATCH_MS), op->watch.index,
					 op->term.rev);
}

static void
encode_list(const LeOp *op, LeRequest *request)
{
	request->max_answer = MAX_LIST_ANSWER;
	appendStringInfo(&request->http.path, "/v1/locks?limit=%d", PAGE_SIZE);
	if (op->page != NULL)
	{
		appendStringInfoString(&request->http.path, "&page=");
		le_append_encoded(&request->http.path, op->page, "");
	}
}

/* The record of a job, or with NULL all records of the election. */
static void
append_claim(const LeOp *op, const char *job, LeRequest *request)
{
	append_lock(request, op->election);
	appendStringInfoString(&request->http.path, "/claims");
	if (job == NULL)
		return;
	appendStringInfoChar(&request->http.path, '/');
	le_append_encoded(&request->http.path, job, "");
}

/*
 * The gateway decides by its own fields of a claim, and keeps this text with
 * it: the whole record, in the form that other stores keep.
 */
static void
append_info(StringInfo body, const LeClaim *claim)
{
	StringInfoData info;

	initStringInfo(&info);
	le_claim_append_text(&info, claim);
	append_field(body, "info", info.data);
}

static void
encode_claim(const LeOp *op, LeRequest *request)
{
	const LeClaim *claim = op->claim.record;
	StringInfo	body = &request->http.body;

	request->http.method = "POST";
	append_claim(op, claim->job, request);
	appendStringInfoChar(body, '{');
	append_field(body, "owner", owner_of(op));
	append_field(body, "claim", claim->id);
	append_info(body, claim);
	if (op->claim.previous != NULL)
	{
		append_field(body, "prev_claim", op->claim.previous->id);
		append_field(body, "prev_state",
					 le_claim_state_name(op->claim.previous->state));
	}
	appendStringInfo(body, ",\"token\":" UINT64_FORMAT ",\"tick\":"
					 INT64_FORMAT ",\"try\":%d}",
					 op->token, claim->tick, claim->try);
}

static void
encode_complete(const LeOp *op, LeRequest *request)
{
	StringInfo	body = &request->http.body;

	request->http.method = "POST";
	append_claim(op, op->claim.record->job, request);
	appendStringInfoString(&request->http.path, "/complete");
	appendStringInfoChar(body, '{');
	append_field(body, "claim", op->claim.record->id);
	append_info(body, op->claim.record);
	append_field(body, "state", le_claim_state_name(op->claim.record->state));
	appendStringInfoChar(body, '}');
}

static void
cassandra_encode(const LeNamespace *ns, const LeOp *op,
				 LeRequest *request)
{
	(void) ns;
	request->http.method = "GET";
	request->max_answer = MAX_SMALL_ANSWER;
	if (op->wire.njoined > 0)
	{
		encode_joined(op, request);
		request->http.has_body = true;
		return;
	}
	switch (op->kind)
	{
		case LE_OP_READ:
			append_lock(request, op->election);
			break;
		case LE_OP_ACQUIRE:
			encode_acquire(op, request);
			break;
		case LE_OP_PUBLISH:
			encode_publish(op, request);
			break;
		case LE_OP_RENEW_TERMS:
			encode_renewals(op, request);
			break;
		case LE_OP_RELEASE:
			encode_release(op, request);
			break;
		case LE_OP_WATCH:
			encode_watch(op, request);
			break;
		case LE_OP_LIST_HELD:
			encode_list(op, request);
			break;
		case LE_OP_READ_CLAIM:
			append_claim(op, op->claim.job, request);
			break;
		case LE_OP_CLAIM:
			encode_claim(op, request);
			break;
		case LE_OP_COMPLETE:
			encode_complete(op, request);
			break;
		case LE_OP_LIST_CLAIMS:
			request->max_answer = MAX_LIST_ANSWER;
			append_claim(op, NULL, request);
			break;
		default:
			Assert(false);		/* answered by perform() */
			break;
	}
	request->http.has_body = request->http.body.len > 0;
}

/* ---- documents ---- */

/* A lock or a problem, as far as the answer shows it. */
typedef struct Doc
{
	char	   *name;
	char	   *owner;
	char	   *value;
	uint64		token;
	uint64		rev;
	bool		has_token;
	bool		has_rev;
	bool		has_trust;
	uint64		trust_ms;
	char	   *type;			/* the last part of a problem's URN */
	char	   *title;
	char	   *detail;
} Doc;

static bool
take_string(const LeJsonNode *node, size_t max, char **s)
{
	*s = le_json_string(node, max);
	return *s != NULL;
}

/* A text that people could not read is left out, not refused. */
static bool
take_words(const LeJsonNode *node, char **s)
{
	*s = le_json_string(node, MAX_TEXT_LEN);
	return true;
}

static bool
take_type(const LeJsonNode *node, char **type)
{
	char	   *urn = le_json_string(node, MAX_TEXT_LEN);

	if (urn == NULL || strncmp(urn, PROBLEM, strlen(PROBLEM)) != 0)
		return false;
	*type = urn + strlen(PROBLEM);
	return true;
}

/* Tokens are signed integers in the gateway. */
static bool
take_number(const LeJsonNode *node, uint64 *n)
{
	return le_json_uint64(node, n) && *n < LE_NO_INDEX;
}

/* Takes a field of the document, which is "level" containers deep. */
static bool
doc_field(Doc *doc, const LeJsonNode *node, int level)
{
	if (le_json_at(node, level, "name"))
		return take_string(node, LE_MAX_ELECTION_LEN, &doc->name);
	if (le_json_at(node, level, "owner"))
		return take_string(node, MAX_OWNER_LEN, &doc->owner);
	if (le_json_at(node, level, "value"))
	{
		/* a longer value is another client's, and left out */
		doc->value = le_json_string(node, LE_MAX_VALUE_LEN);
		return node->type == LE_JSON_STRING;
	}
	if (le_json_at(node, level, "token"))
		return doc->has_token = take_number(node, &doc->token);
	if (le_json_at(node, level, "rev"))
		return doc->has_rev = take_number(node, &doc->rev);
	if (le_json_at(node, level, "trust_ms"))
		return doc->has_trust = take_number(node, &doc->trust_ms);
	if (le_json_at(node, level, "type"))
		return take_type(node, &doc->type);
	if (le_json_at(node, level, "title"))
		return take_words(node, &doc->title);
	if (le_json_at(node, level, "detail"))
		return take_words(node, &doc->detail);
	return true;
}

static bool
doc_visit(void *arg, const LeJsonNode *node)
{
	if (node->depth == 0)
		return node->type == LE_JSON_OBJECT;
	return node->depth > 1 || doc_field(arg, node, 0);
}

static bool
read_doc(const LeResponse *response, Doc *doc)
{
	memset(doc, 0, sizeof(*doc));
	return le_json_walk(response->body, response->body_len, doc_visit, doc);
}

/* ---- errors ---- */

static void
fail_shape(const LeOp *op, const LeResponse *response, LeAnswer *answer)
{
	le_fail_shape(op, response, "the gateway's", answer);
}

static const char *
problem_detail(const Doc *doc)
{
	if (doc->title != NULL && doc->detail != NULL)
		return psprintf("%s: %s", doc->title, doc->detail);
	return doc->title != NULL ? doc->title : doc->type;
}

/*
 * Every problem that a lock's request can meet, except those that show the
 * lock's state.  With a type that is not in the list a write may have been
 * applied.
 */
static LeOutcome
problem_outcome(const LeOp *op, const char *type)
{
	static const struct
	{
		const char *type;
		LeOutcome	outcome;
	}			known[] = {
		{"not-applied", LE_UNAVAILABLE},
		{"overloaded", LE_UNAVAILABLE},
		{"bad-request", LE_REFUSED},
		{"bad-name", LE_REFUSED},
		{"bad-duration", LE_REFUSED},
		{"bad-ttl", LE_REFUSED},
		{"token-jump", LE_REFUSED},
		{"unauthorized", LE_REFUSED},
		{"forbidden", LE_REFUSED},
		{"cross-origin", LE_REFUSED},
		{"no-resource", LE_REFUSED},
		{"method", LE_REFUSED},
		{"too-large", LE_REFUSED},
	};

	for (int i = 0; i < lengthof(known); i++)
		if (strcmp(type, known[i].type) == 0)
			return known[i].outcome;
	return le_op_writes(op->kind) ? LE_UNKNOWN : LE_UNAVAILABLE;
}

static void
conflict(LeAnswer *answer, LeConflict what, const Doc *doc)
{
	le_fail(answer, LE_CONFLICT, problem_detail(doc));
	answer->conflict = what;
	answer->index = doc->token;
	answer->term.rev = doc->rev;
}

static void
add_key(LeKey *key, const char *election, const Doc *doc)
{
	key->election = election;
	key->index = key->token = doc->token;
	key->rev = doc->rev;
	key->usable = key->ours = true;
	if (doc->owner != NULL && doc->owner[0] != '\0')
	{
		show_owner(doc->owner, key);
		key->value = doc->value;
	}
	else
	{
		/* Cassandra has judged the last lease: there is no wait. */
		key->value_session = "";
		key->node = "";
		key->released = true;
	}
}

/* The lock is free; index 0: it was never held. */
static void
show_free(const LeOp *op, const Doc *doc, LeAnswer *answer)
{
	memset(answer, 0, sizeof(*answer));
	/* Above the token: a holder that still believes loses the term. */
	answer->index = doc->token + 1;
	if (doc->token == 0)
		return;
	answer->keys = palloc0(sizeof(LeKey));
	answer->nkeys = 1;
	add_key(answer->keys, op->election, doc);
}

static bool
is(const Doc *doc, const char *type)
{
	return doc->type != NULL && strcmp(doc->type, type) == 0;
}

/*
 * Is the request about several locks?  Then a problem concerns the request,
 * and none of the locks.
 */
static bool
is_batch(const LeOp *op)
{
	return op->wire.njoined > 0 || op->kind == LE_OP_RENEW_TERMS;
}

/*
 * The gateway may refuse a batch, before it does anything, for one of its
 * locks: then each is sent alone.  Errors that every lock would meet do not
 * count.
 */
static bool
spoils_one(const LeOp *op, const Doc *doc)
{
	return op->wire.njoined > 0 && !is(doc, "unauthorized") &&
		!is(doc, "bad-ttl");
}

/* A problem with the request, not with the lock's state. */
static void
take_failure(const LeOp *op, const LeResponse *response, const Doc *doc,
			 LeAnswer *answer)
{
	le_fail(answer, problem_outcome(op, doc->type),
			psprintf("HTTP %d: %s%s", response->http.status,
					 problem_detail(doc), is(doc, "no-resource") ?
					 " (see \"leader_election.gateway_url\")" : ""));
	answer->wire.next_server = answer->outcome == LE_UNAVAILABLE;
	answer->cause = is(doc, "unauthorized") ? LE_CAUSE_STRANGER :
		is(doc, "forbidden") ? LE_CAUSE_PERMISSION :
		is(doc, "no-resource") ? LE_CAUSE_SETTING : LE_CAUSE_OTHER;
}

static void
take_problem(const LeOp *op, const LeResponse *response, const Doc *doc,
			 LeAnswer *answer)
{
	bool		reads = op->kind == LE_OP_READ || op->kind == LE_OP_WATCH;

	if (is(doc, "free") && doc->has_token && reads)
		show_free(op, doc, answer);
	else if (op->kind == LE_OP_RELEASE &&
			 (is(doc, "free") || is(doc, "not-yours")))
		answer->index = op->index;	/* the term is over, however it ended */
	else if (is(doc, "held") && doc->has_token && doc->has_rev &&
			 doc->owner != NULL && strcmp(doc->owner, owner_of(op)) == 0)
		conflict(answer, LE_CONFLICT_OWN, doc);
	else if (is(doc, "held"))
		conflict(answer, LE_CONFLICT_HELD, doc);
	else if (is(doc, "no-claim") && op->kind == LE_OP_READ_CLAIM)
		memset(answer, 0, sizeof(*answer));
	else if (is(doc, "lost") || is(doc, "stale-revision") ||
			 ((is(doc, "claim-refused") || is(doc, "no-claim")) &&
			  (op->kind == LE_OP_CLAIM || op->kind == LE_OP_COMPLETE)))
		conflict(answer, LE_CONFLICT_CHANGED, doc);
	else
		take_failure(op, response, doc, answer);
}

static void
decode_problem(const LeOp *op, const LeResponse *response,
			   LeAnswer *answer)
{
	Doc			doc;

	if (!read_doc(response, &doc) || doc.type == NULL)
		fail_shape(op, response, answer);
	else if (is_batch(op))
	{
		take_failure(op, response, &doc, answer);
		answer->wire.apart = answer->outcome == LE_REFUSED &&
			spoils_one(op, &doc);
	}
	else
		take_problem(op, response, &doc, answer);
}

/* ---- answers ---- */

/* A node may not believe for longer than it asked for. */
static le_duration
trust_of(const LeOp *op, const Doc *doc)
{
	if (doc->trust_ms >= (uint64) (op->lease / LE_MSEC))
		return op->lease;
	return (le_duration) doc->trust_ms * LE_MSEC;
}

/* Does the document show a term of ours, as it must after a write? */
static bool
grants(const LeOp *op, const Doc *doc, const char *election)
{
	return doc->name != NULL && strcmp(doc->name, election) == 0 &&
		doc->owner != NULL && strcmp(doc->owner, owner_of(op)) == 0 &&
		doc->has_token && doc->token > 0 && doc->has_rev && doc->rev > 0 &&
		doc->has_trust;
}

static void
take_grant(const LeOp *op, const LeResponse *response, const Doc *doc,
		   LeAnswer *answer)
{
	if (!grants(op, doc, op->election) ||
		(op->kind == LE_OP_PUBLISH &&
		 (doc->token != op->index || doc->rev != op->term.rev + 1)))
	{
		fail_shape(op, response, answer);
		return;
	}
	answer->index = doc->token;
	answer->term.rev = doc->rev;
	answer->term.trust = trust_of(op, doc);
}

static void
take_lock(const LeOp *op, const LeResponse *response, const Doc *doc,
		  LeAnswer *answer)
{
	if (doc->name == NULL || strcmp(doc->name, op->election) != 0 ||
		doc->owner == NULL || doc->owner[0] == '\0' || !doc->has_token ||
		doc->token == 0 || !doc->has_rev)
	{
		fail_shape(op, response, answer);
		return;
	}
	answer->index = doc->token;
	answer->keys = palloc0(sizeof(LeKey));
	answer->nkeys = 1;
	add_key(answer->keys, op->election, doc);
}

/* The operation on one lock was done; the document shows the lock. */
static void
take_success(const LeOp *op, const LeResponse *response, const Doc *doc,
			 LeAnswer *answer)
{
	if ((response->http.status == 204) != (op->kind == LE_OP_RELEASE))
		fail_shape(op, response, answer);
	else if (op->kind == LE_OP_RELEASE)
		answer->index = op->index;
	else if (op->kind == LE_OP_ACQUIRE || op->kind == LE_OP_PUBLISH)
		take_grant(op, response, doc, answer);
	else
		take_lock(op, response, doc, answer);
}

static bool
is_success(int status)
{
	return status == 200 || status == 201 || status == 204;
}

/* The list of locks, while it is read. */
typedef struct List
{
	Doc			doc;
	LeKey	   *keys;
	int			nkeys;
	char	   *next;
} List;

static bool
list_entry(List *list)
{
	if (list->doc.name == NULL || !list->doc.has_token ||
		!list->doc.has_rev)
		return false;
	if (list->keys == NULL)
		list->keys = palloc(PAGE_SIZE * sizeof(LeKey));
	if (list->nkeys == PAGE_SIZE)
		return false;
	memset(&list->keys[list->nkeys], 0, sizeof(LeKey));
	add_key(&list->keys[list->nkeys++], list->doc.name, &list->doc);
	memset(&list->doc, 0, sizeof(Doc));
	return true;
}

static bool
list_visit(void *arg, const LeJsonNode *node)
{
	List	   *list = arg;

	if (node->depth == 0)
		return node->type == LE_JSON_OBJECT;
	if (node->depth == 1 && le_json_at(node, 0, "next"))
		return take_string(node, MAX_PAGE_LEN, &list->next);
	if (!le_json_at(node, 0, "locks"))
		return true;
	if (node->depth == 1)
		return node->type == LE_JSON_ARRAY;
	if (node->depth == 2)
		return node->type == LE_JSON_OBJECT && list_entry(list);
	return node->depth > 3 || doc_field(&list->doc, node, 2);
}

static void
decode_list(const LeOp *op, const LeResponse *response, LeAnswer *answer)
{
	List		list = {.keys = NULL};

	if (!le_json_walk(response->body, response->body_len, list_visit, &list))
	{
		fail_shape(op, response, answer);
		return;
	}
	answer->keys = list.keys;
	answer->nkeys = list.nkeys;
	answer->page = list.next;
}

/* The results of a batch, while they are read. */
typedef struct Batch
{
	const LeOp *op;
	const LeResponse *response;
	Doc			doc;
	char	   *name;
	uint64		status;
	LeRenewal  *renewals;		/* RENEW_TERMS ... */
	LeAnswer   *parts;			/* ... or joined operations */
	int			n;				/* so far ... */
	int			total;			/* ... and in all */
} Batch;

/* Decodes one result for its term. */
static void
judge_renewal(const Batch *batch, const LeTermRef *term, LeRenewal *renewal)
{
	const Doc  *doc = &batch->doc;

	memset(renewal, 0, sizeof(*renewal));
	renewal->outcome = LE_UNKNOWN;
	if (batch->status == 200)
	{
		if (!grants(batch->op, doc, term->election) ||
			doc->token != term->token || doc->rev != term->rev + 1)
			return;
		renewal->outcome = LE_DONE;
		renewal->rev = doc->rev;
		renewal->trust = trust_of(batch->op, doc);
		return;
	}
	if (doc->type == NULL)
		return;
	renewal->detail = le_clean_detail(problem_detail(doc));
	if (is(doc, "lost"))
		renewal->outcome = LE_LOST;
	else if (is(doc, "stale-revision") && doc->token == term->token &&
			 doc->has_rev)
	{
		renewal->outcome = LE_CONFLICT;
		renewal->rev = doc->rev;
	}
	else
		renewal->outcome = problem_outcome(batch->op, doc->type);
}

/* Decodes one result for its operation, as if that were alone. */
static void
judge_part(const Batch *batch, const LeOp *op, LeAnswer *answer)
{
	LeResponse response = *batch->response;

	response.http.status = (int) Min(batch->status, 1000);
	memset(answer, 0, sizeof(*answer));
	answer->outcome = LE_DONE;
	if (is_success(response.http.status))
		take_success(op, &response, &batch->doc, answer);
	else if (batch->doc.type != NULL)
		take_problem(op, &response, &batch->doc, answer);
	else
		fail_shape(op, &response, answer);
}

static const char *
election_at(const LeOp *op, int i)
{
	return op->kind == LE_OP_RENEW_TERMS ? op->renew.terms[i].election :
		part_of(op, i)->election;
}

static bool
batch_entry(Batch *batch)
{
	const LeOp *op = batch->op;
	int			i = batch->n;

	if (i == batch->total || batch->name == NULL ||
		strcmp(batch->name, election_at(op, i)) != 0)
		return false;
	if (op->kind == LE_OP_RENEW_TERMS)
		judge_renewal(batch, &op->renew.terms[i], &batch->renewals[i]);
	else
		judge_part(batch, part_of(op, i), &batch->parts[i]);
	batch->n++;
	memset(&batch->doc, 0, sizeof(Doc));
	batch->name = NULL;
	batch->status = 0;
	return true;
}

static bool
batch_visit(void *arg, const LeJsonNode *node)
{
	Batch	   *batch = arg;

	if (node->depth == 0)
		return node->type == LE_JSON_OBJECT;
	if (!le_json_at(node, 0, "results"))
		return true;
	if (node->depth == 1)
		return node->type == LE_JSON_ARRAY;
	if (node->depth == 2)
		return node->type == LE_JSON_OBJECT && batch_entry(batch);
	if (node->depth == 3 && le_json_at(node, 2, "name"))
		return take_string(node, LE_MAX_ELECTION_LEN, &batch->name);
	if (node->depth == 3 && le_json_at(node, 2, "status"))
		return le_json_uint64(node, &batch->status);
	if (node->depth == 4 && (le_json_at(node, 2, "lock") ||
							 le_json_at(node, 2, "problem")))
		return doc_field(&batch->doc, node, 3);
	return true;
}

/* Reads all results, each in its place; false if the answer is invalid. */
static bool
read_batch(const LeResponse *response, Batch *batch)
{
	return le_json_walk(response->body, response->body_len, batch_visit,
						batch) && batch->n == batch->total;
}

/*
 * No part of a batch could be done here, though perhaps elsewhere: that is the
 * gateway's trouble, and not one of the locks'.
 */
static void
fail_here(LeAnswer *answer, const char *detail)
{
	le_fail(answer, LE_UNAVAILABLE, detail);
	answer->wire.next_server = true;
}

static void
decode_renewals(const LeOp *op, const LeResponse *response,
				LeAnswer *answer)
{
	Batch		batch = {.op = op,.response = response,.total =
		op->renew.nterms};
	bool		elsewhere = op->renew.nterms > 0;

	batch.renewals = palloc0(Max(op->renew.nterms, 1) * sizeof(LeRenewal));
	if (!read_batch(response, &batch))
	{
		fail_shape(op, response, answer);
		return;
	}
	for (int i = 0; i < op->renew.nterms; i++)
		elsewhere = elsewhere && batch.renewals[i].outcome == LE_UNAVAILABLE;
	if (elsewhere)
		fail_here(answer, batch.renewals[0].detail);
	else
		answer->renewals = batch.renewals;
}

static void
decode_joined(const LeOp *op, const LeResponse *response,
			  LeAnswer *answer)
{
	Batch		batch = {.op = op,.response = response,
	.total = 1 + op->wire.njoined};
	bool		elsewhere = true;

	batch.parts = palloc0(batch.total * sizeof(LeAnswer));
	if (!read_batch(response, &batch))
	{
		fail_shape(op, response, answer);
		return;
	}
	for (int i = 0; i < batch.total; i++)
		elsewhere = elsewhere && batch.parts[i].wire.next_server;
	if (elsewhere)
		fail_here(answer, batch.parts[0].detail);
	answer->wire.parts = batch.parts;
}

/* ---- claims ---- */

typedef struct Claims
{
	const LeOp *op;
	LeClaim		claim;			/* being read */
	uint64		try;
	bool		has_tick;
	bool		has_state;
	char	   *info;			/* NULL: none */
	LeClaim    *claims;
	int			nclaims;
	int			capacity;
} Claims;

static bool
claim_field(Claims *list, const LeJsonNode *node, int level)
{
	uint64		tick;
	char	   *s = NULL;
	bool		ok = true;

	if (le_json_at(node, level, "job"))
	{
		ok = take_string(node, LE_MAX_JOB_LEN, &s);
		list->claim.job = s;
	}
	else if (le_json_at(node, level, "claim"))
	{
		/* longer than ours: another client's, and shown in part */
		s = le_json_string(node, MAX_TEXT_LEN);
		ok = s != NULL;
		list->claim.id = ok ?
			le_shown_name(s, Min(strlen(s), LE_CLAIM_ID_LEN)) : NULL;
	}
	else if (le_json_at(node, level, "tick"))
	{
		ok = list->has_tick = take_number(node, &tick) && tick <= LE_MAX_TICK;
		list->claim.tick = ok ? (int64) tick : 0;
	}
	else if (le_json_at(node, level, "try"))
		ok = le_json_uint64(node, &list->try) && list->try >= 1 &&
			list->try < PG_INT32_MAX;
	else if (le_json_at(node, level, "token"))
		ok = take_number(node, &list->claim.token);
	else if (le_json_at(node, level, "state"))
	{
		s = le_json_string(node, LE_MAX_JOB_LEN);
		ok = list->has_state = le_claim_state_named(s, &list->claim.state);
	}
	else if (le_json_at(node, level, "info"))
		list->info = le_json_string(node, MAX_TEXT_LEN);
	return ok;
}

/*
 * Takes fields from the text that goes with the claim, unless the text belongs
 * to another claim or another client: the gateway does not require one.
 */
static void
take_info(LeClaim *claim, const char *info)
{
	LeClaim		told;

	claim->failures = -1;
	if (info == NULL || !le_claim_parse(info, strlen(info), &told) ||
		strcmp(told.id, claim->id) != 0 || told.tick != claim->tick)
		return;
	claim->node = told.node;
	claim->claimed_at = told.claimed_at;
	claim->ended_at = told.ended_at;
	claim->every = told.every;
	claim->gap = told.gap;
	claim->writes = told.writes;
	claim->wait = told.wait;
	claim->last_success = told.last_success;
	claim->failures = told.failures;
	claim->sqlstate = told.sqlstate;
	claim->message = told.message;
}

/* A record is complete; false if a part of it is missing. */
static bool
take_claim(Claims *list)
{
	LeClaim    *claim = &list->claim;

	if (claim->job == NULL || !le_valid_job_name(claim->job) ||
		claim->id == NULL || claim->id[0] == '\0' || !list->has_tick ||
		list->try == 0 || claim->token == 0 || !list->has_state)
		return false;
	claim->election = list->op->election;
	claim->try = (int) list->try;
	claim->index = claim->token;
	take_info(claim, list->info);
	if (list->nclaims == list->capacity)
	{
		list->capacity = Max(16, 2 * list->capacity);
		list->claims = list->claims == NULL ?
			palloc(list->capacity * sizeof(LeClaim)) :
			repalloc(list->claims, list->capacity * sizeof(LeClaim));
	}
	list->claims[list->nclaims++] = *claim;
	memset(claim, 0, sizeof(*claim));
	list->try = 0;
	list->has_tick = list->has_state = false;
	list->info = NULL;
	return true;
}

static bool
claim_visit(void *arg, const LeJsonNode *node)
{
	if (node->depth == 0)
		return node->type == LE_JSON_OBJECT && take_claim(arg);
	return node->depth > 1 || claim_field(arg, node, 0);
}

static bool
claims_visit(void *arg, const LeJsonNode *node)
{
	if (node->depth == 0)
		return node->type == LE_JSON_OBJECT;
	if (!le_json_at(node, 0, "claims"))
		return true;
	if (node->depth == 1)
		return node->type == LE_JSON_ARRAY;
	if (node->depth == 2)
		return node->type == LE_JSON_OBJECT && take_claim(arg);
	return node->depth > 3 || claim_field(arg, node, 2);
}

/* Does the answer to a write show that write? */
static bool
shows_claim(const LeOp *op, const LeClaim *found)
{
	const LeClaim *claim = op->claim.record;

	if (strcmp(found->job, claim->job) != 0 ||
		strcmp(found->id, claim->id) != 0)
		return false;
	if (op->kind == LE_OP_COMPLETE)
		return le_claim_ends_alike(found, claim);
	return found->tick == claim->tick && found->try == claim->try &&
		found->token == op->token;
}

static void
decode_claims(const LeOp *op, const LeResponse *response,
			  LeAnswer *answer)
{
	Claims		list = {.op = op};
	bool		all = op->kind == LE_OP_LIST_CLAIMS;

	if (!le_json_walk(response->body, response->body_len,
					  all ? claims_visit : claim_visit, &list) ||
		(op->kind == LE_OP_READ_CLAIM &&
		 strcmp(list.claims[0].job, op->claim.job) != 0) ||
		(le_op_writes(op->kind) && !shows_claim(op, &list.claims[0])))
	{
		fail_shape(op, response, answer);
		return;
	}
	if (le_op_writes(op->kind))
		answer->index = list.claims[0].index;
	else
	{
		answer->claims = list.claims;
		answer->nclaims = list.nclaims;
	}
}

static bool
is_about_claims(LeOpKind kind)
{
	return kind == LE_OP_READ_CLAIM || kind == LE_OP_CLAIM ||
		kind == LE_OP_COMPLETE || kind == LE_OP_LIST_CLAIMS;
}

static void
decode_success(const LeOp *op, const LeResponse *response,
			   LeAnswer *answer)
{
	Doc			doc;

	if (op->wire.njoined > 0)
		decode_joined(op, response, answer);
	else if (is_about_claims(op->kind) && response->http.status != 204)
		decode_claims(op, response, answer);
	else if (op->kind == LE_OP_RENEW_TERMS)
		decode_renewals(op, response, answer);
	else if (op->kind == LE_OP_LIST_HELD)
		decode_list(op, response, answer);
	else if (response->http.status == 204 || read_doc(response, &doc))
		take_success(op, response, &doc, answer);
	else
		fail_shape(op, response, answer);
}

static void
cassandra_decode(const LeNamespace *ns, const LeOp *op,
				 const LeResponse *response, LeAnswer *answer)
{
	static const char problem[] = "application/problem+json";

	(void) ns;
	memset(answer, 0, sizeof(*answer));
	answer->outcome = LE_DONE;
	if (response->net != LE_NET_OK)
	{
		le_fail_network(op, response, answer);
		answer->wire.next_server = answer->outcome == LE_UNAVAILABLE;
	}
	else if (is_success(response->http.status))
		decode_success(op, response, answer);
	else if (pg_strncasecmp(response->http.content_type, problem,
							strlen(problem)) == 0)
		decode_problem(op, response, answer);
	else if (response->http.status >= 300 && response->http.status < 500 &&
			 response->http.status != 408 && response->http.status != 429)
	{
		le_fail(answer, LE_REFUSED,
				psprintf("HTTP %d, which is not the gateway's answer",
						 response->http.status));
		answer->cause = LE_CAUSE_NOT_STORE;
	}
	else
		fail_shape(op, response, answer);
}

static bool
cassandra_performs(LeOpKind kind)
{
	switch (kind)
	{
		case LE_OP_READ:
		case LE_OP_ACQUIRE:
		case LE_OP_PUBLISH:
		case LE_OP_RELEASE:
		case LE_OP_RENEW_TERMS:
		case LE_OP_WATCH:
		case LE_OP_LIST_HELD:
		case LE_OP_READ_CLAIM:
		case LE_OP_CLAIM:
		case LE_OP_COMPLETE:
		case LE_OP_LIST_CLAIMS:
			return false;
		case LE_OP_CREATE_SESSION:
		case LE_OP_VERIFY_SESSION:
		case LE_OP_CHECK_PREFIX:
		case LE_OP_REGISTER_NODE:
		case LE_OP_RENEW_SESSION:
		case LE_OP_PROVE_NODE:
		case LE_OP_DESTROY_SESSION:
		case LE_OP_REVOKE_NODE:
		case LE_OP_FORGET_NODE:
		case LE_OP_TELL_NEWS:
		case LE_OP_WATCH_NEWS:
		case LE_OP_TAKE_OVER:
		case LE_OP_LIST_NODES:
		case LE_OP_SESSION_NAME:
		case LE_OP_AUTHENTICATE:
			return true;
	}
	return false;
}

/* ---- several operations in one request ---- */

static int
cassandra_takes(const LeOp *op)
{
	return op->kind == LE_OP_ACQUIRE || op->kind == LE_OP_RELEASE ||
		op->kind == LE_OP_READ ? 1 : 0;
}

/* They share the owner; acquires also share the lease. */
static bool
cassandra_joins(const LeOp *op, const LeOp *other)
{
	return op->kind == other->kind && op->lease == other->lease &&
		strcmp(op->session, other->session) == 0 &&
		strcmp(op->node_name, other->node_name) == 0;
}

/* ---- the store ---- */

static char *urls = "http://127.0.0.1:7480";
static char *token_file = "";

static const LeSetting settings[] = {
	{
		.name = "leader_election.gateway_url",
		.kind = LE_SETTING_URLS,
		.brief = "Lists the URLs of the gateways to Cassandra.",
		.detail = "They are separated by commas; the first that answers is asked.",
		.text = &urls
	},
	{
		.name = "leader_election.gateway_token_file",
		.kind = LE_SETTING_FILE,
		.brief = "Names the file that holds the gateways' bearer token.",
		.detail = "It is read again on reload. Empty means no token.",
		.text = &token_file
	},
};

static const char *
cassandra_servers(void)
{
	return urls;
}

static const char *
cassandra_token_file(void)
{
	return token_file;
}

static int
cassandra_explain(const LeTiming *timing, int elections, LeFinding *findings)
{
	(void) elections;
	findings[0] = (LeFinding)
	{
		.level = LE_LEVEL_OK,
		.topic = "failover",
		.text = psprintf("After a crash another candidate leads within %d ms: lease_ttl + 1 s, in which the gateway looks.",
						 LE_MS(timing->lease + LE_SEC))
	};
	return 1;
}

const LeStore le_store_cassandra = {
	.name = "cassandra",
	.between_instances = true,
	.key_leases = true,
	.lease = {
		.least = 5 * LE_SEC,
		.most = LE_MAX_LEASE,
		.granularity = LE_SEC,
		.takes_more = "the gateway's --max-clock-skew",
	},
	.batch = {
		.capacity = LE_MAX_JOINED,
		.takes = cassandra_takes,
		.joins = cassandra_joins,
		.max_renewals = 100,
	},
	.watch = {
		.kind = LE_WATCH_EACH,
		.park_ms = 30000,
		.park_grace_ms = 10000,
		.max_parked = MAX_PARKED,
	},
	.settings = {
		.list = settings,
		.n = lengthof(settings),
	},
	.servers = {
		.urls = cassandra_servers,
		.setting = "leader_election.gateway_url",
		.ready_path = "/readyz",
	},
	.secret = {
		.file = cassandra_token_file,
		.setting = "leader_election.gateway_token_file",
		.header = "Authorization: Bearer ",
	},
	.people = {
		.namespace_check = LE_OP_LIST_HELD,
		.namespace_verb = "list locks",
		.explain = cassandra_explain,
	},
	.codec = {
		.encode = cassandra_encode,
		.decode = cassandra_decode,
		.performs = cassandra_performs,
		.perform = le_perform_session,
	},
};
