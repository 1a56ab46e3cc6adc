/*-------------------------------------------------------------------------
 *
 * consul_text.c
 *		Keys and values of the store "consul", as text and back.
 *
 * Keys, with P the prefix, E an election and S a store session:
 *
 *	P/E/leader		locked by the session of E's leader
 *	P.nodes/S		the node key, locked by S itself
 *	P.nodes/news/S	the election keys that S wrote last, locked by it; beside
 *					the node keys, so that the same permission covers them, and
 *					proofs do not wake readers of news
 *	P.claims/E/J		the record of the last claim of E's job J, unlocked;
 *				beside P, so that it wakes no watch
 *
 * src/store/consul_text.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "store/claim_record.h"
#include "store/consul_text.h"

#define PROTO			1

/* Our own value with all of the user's value and the node name escaped. */
#define MAX_STORED_VALUE	(8 * 1024)

/* ---- keys and paths ---- */

/* The prefix in the form for keys: no slash at either end. */
char *
le_consul_key_prefix(const LeNamespace *ns)
{
	const char *p = ns->prefix;
	size_t		len;

	p += strspn(p, "/");
	len = strlen(p);
	while (len > 0 && p[len - 1] == '/')
		len--;
	return pnstrdup(p, len);
}

static char *
claim_key(const LeNamespace *ns, const char *election, const char *job)
{
	StringInfoData key;

	initStringInfo(&key);
	appendStringInfo(&key, "%s.claims/", le_consul_key_prefix(ns));
	le_claim_append_key(&key, election, job);
	return key.data;
}

char *
le_consul_key_text(const LeNamespace *ns, const LeConsulKey *key)
{
	char	   *prefix = le_consul_key_prefix(ns);

	switch (key->kind)
	{
		case LE_CONSUL_LEADER:
			return psprintf("%s/%s/leader", prefix, key->name);
		case LE_CONSUL_CONFIG:
			return psprintf("%s/%s/config", prefix, key->name);
		case LE_CONSUL_INITIALIZE:
			return psprintf("%s/%s/initialize", prefix, key->name);
		case LE_CONSUL_NODE:
			return psprintf("%s.nodes/%s", prefix, key->name);
		case LE_CONSUL_NEWS:
			return psprintf("%s" LE_CONSUL_NEWS_BELOW "%s", prefix,
							key->name);
		case LE_CONSUL_CLAIM:
			break;
	}
	return claim_key(ns, key->name, key->job);
}

void
le_consul_add_query(LeRequest *request, const char *parameter)
{
	char		mark = strchr(request->http.path.data, '?') == NULL ? '?' :
		'&';

	appendStringInfo(&request->http.path, "%c%s", mark, parameter);
}

/* Starts a request for /v1/<endpoint><what>, without a body. */
void
le_consul_start_request(const LeNamespace *ns, LeRequest *request,
						const char *method, const char *endpoint,
						const char *what,
						size_t max_answer)
{
	memset(request, 0, sizeof(*request));
	initStringInfo(&request->http.path);
	initStringInfo(&request->http.headers);
	initStringInfo(&request->http.body);
	request->http.method = method;
	request->max_answer = max_answer;
	appendStringInfo(&request->http.path, "/v1/%s", endpoint);
	le_append_encoded(&request->http.path, what, "/");
	if (ns->part[0] != '\0')
	{
		le_consul_add_query(request, "dc=");
		le_append_encoded(&request->http.path, ns->part, "");
	}
}

/* ---- values, as written ---- */

/* Leader keys and news begin with their writer's name and session. */
static void
begin_value(StringInfo buf, const LeOp *op)
{
	initStringInfo(buf);
	appendStringInfo(buf, "{\"proto\":%d,\"node\":", PROTO);
	le_json_append_string(buf, op->node_name);
	appendStringInfoString(buf, ",\"session\":");
	le_json_append_string(buf, op->session);
}

static char *
leader_value(const LeConsulValue *value)
{
	const LeOp *op = value->op;
	StringInfoData buf;

	begin_value(&buf, op);
	if (op->value != NULL)
	{
		appendStringInfoString(&buf, ",\"value\":");
		if (le_json_embeddable(op->value))
			appendStringInfoString(&buf, op->value);
		else
			le_json_append_string(&buf, op->value);
	}
	if (value->token != 0)
		appendStringInfo(&buf, ",\"token\":" UINT64_FORMAT, value->token);
	appendStringInfo(&buf, ",\"lease_ms\":" UINT64_FORMAT,
					 (uint64) (op->lease / LE_MSEC));
	appendStringInfo(&buf, ",\"released\":%s}",
					 value->ended ? "true" : "false");
	return buf.data;
}

/* As text: not every reader's numbers are that long. */
static void
append_systems(StringInfo buf, const LeSystems *systems)
{
	if (systems->ids[0] == 0)
		return;
	appendStringInfo(buf, ",\"system\":\"" UINT64_FORMAT "\"",
					 systems->ids[0]);
	if (systems->ids[1] == 0)
		return;
	appendStringInfoString(buf, ",\"earlier_systems\":[");
	for (int i = 1; i < LE_MAX_SYSTEMS && systems->ids[i] != 0; i++)
		appendStringInfo(buf, "%s\"" UINT64_FORMAT "\"", i > 1 ? "," : "",
						 systems->ids[i]);
	appendStringInfoChar(buf, ']');
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
	append_systems(&buf, &key->systems);
	if (key->since != 0)
		appendStringInfo(&buf, ",\"since\":" UINT64_FORMAT, key->since);
	appendStringInfoChar(&buf, '}');
	return buf.data;
}

/* The value of our own node key. */
static char *
node_value(const LeConsulValue *value)
{
	const LeOp *op = value->op;
	LeNodeKey	key = {0};

	key.session = op->session;
	key.node = op->node_name;
	key.incarnation = op->incarnation;
	key.lease = op->lease;
	key.seq = op->proof.seq;
	key.revoked = value->ended;
	key.unfit = op->proof.unfit;
	key.systems = op->proof.systems;
	key.since = op->proof.since;
	return node_key_value(&key);
}

/* The value that the target wrote, with the mark. */
static char *
target_value(const LeConsulValue *value)
{
	LeNodeKey	key = *value->op->takeover.target;

	key.revoked = value->ended;
	return node_key_value(&key);
}

static const char *const news_kinds[] = {
	[LE_OP_ACQUIRE] = "acquire",
	[LE_OP_PUBLISH] = "publish",
	[LE_OP_RELEASE] = "release",
};

static void
append_item(StringInfo buf, const LeGossipItem *item)
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
	const LeGossip *news = op->news;
	StringInfoData buf;

	begin_value(&buf, op);
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

static char *
claim_value(const LeOp *op)
{
	StringInfoData value;

	initStringInfo(&value);
	le_claim_append_text(&value, op->claim.record);
	return value.data;
}

/* NULL: nothing to write. */
char *
le_consul_value_text(const LeConsulValue *value)
{
	switch (value->kind)
	{
		case LE_CONSUL_VALUE_OF_LEADER:
			return leader_value(value);
		case LE_CONSUL_VALUE_OF_NODE:
			return node_value(value);
		case LE_CONSUL_VALUE_OF_TARGET:
			return target_value(value);
		case LE_CONSUL_VALUE_OF_NEWS:
			return news_value(value->op);
		case LE_CONSUL_VALUE_OF_CLAIM:
			return claim_value(value->op);
		case LE_CONSUL_NOTHING:
			break;
	}
	return NULL;
}

/* ---- answers: texts for people ---- */

void
le_consul_fail_shape(const LeOp *op, const LeResponse *response,
					 LeAnswer *answer)
{
	le_fail_shape(op, response, "Consul's", answer);
}

/* ---- answers: keys ---- */

/* An index must fit a bigint, since tokens are made of them; 0 is none. */
static bool
valid_index(uint64 index)
{
	return index >= 1 && index < LE_NO_INDEX;
}

bool
le_consul_valid_session(const char *s)
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
bool
le_consul_valid_name(const char *s)
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

/* Takes one field of an entry; false if Consul would never send it. */
bool
le_consul_entry_field(LeConsulEntry *entry, const LeJsonNode *node)
{
	int			level = node->depth - 1;

	if (le_json_at(node, level, "Key"))
	{
		entry->key = le_json_string(node, LE_CONSUL_MAX_KEY_LEN);
		return node->type == LE_JSON_STRING;
	}
	if (le_json_at(node, level, "Session"))
	{
		entry->session = le_json_string(node, LE_SESSION_LEN);
		if (entry->session != NULL && entry->session[0] == '\0')
			entry->session = NULL;
		else if (entry->session == NULL ||
				 !le_consul_valid_session(entry->session))
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
char *
le_consul_between(const char *s, const char *prefix, const char *suffix)
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
 * The value of a key: JSON in base64, if it is ours; NULL if it cannot be.
 * Values longer than any of ours are not even decoded.
 */
static char *
value_text(const LeConsulEntry *entry, int *len)
{
	if (entry->value == NULL || entry->value_len > MAX_STORED_VALUE * 4 / 3)
		return NULL;
	return le_base64_decode(entry->value, (int) entry->value_len, len);
}

static bool
walk_value(const LeConsulEntry *entry, LeJsonVisit visit, void *arg)
{
	int			len;
	char	   *text = value_text(entry, &len);

	return text != NULL && le_json_walk(text, len, visit, arg);
}

/* Common fields of our own values. */
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
		return header->node != NULL && le_consul_valid_name(header->node);
	}
	if (le_json_at(node, 0, "session"))
	{
		header->session = le_json_string(node, LE_SESSION_LEN);
		return header->session != NULL &&
			le_consul_valid_session(header->session);
	}
	return true;
}

/* A higher protocol may use the same words in another sense. */
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

static bool
valid_lease(uint64 lease_ms)
{
	return lease_ms >= 1 && lease_ms <= LE_MAX_LEASE / LE_MSEC;
}

typedef struct LeaderValue
{
	Header		header;
	char	   *value;
	uint64		token;			/* 0: not shown */
	uint64		lease_ms;		/* 0: the same */
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
	if (le_json_at(node, 0, "lease_ms"))
		return le_json_uint64(node, &v->lease_ms) && valid_lease(v->lease_ms);
	if (le_json_at(node, 0, "released"))
		return take_bool(node, &v->released);
	return header_field(&v->header, node);
}

void
le_consul_entry_to_key(const LeConsulEntry *entry, const char *election,
					   LeKey *key)
{
	LeaderValue v;

	memset(key, 0, sizeof(*key));
	key->election = election;
	key->holder = entry->session;
	key->index = entry->index;
	key->usable = entry->flags == LE_CONSUL_LOCK_FLAG;
	memset(&v, 0, sizeof(v));
	if (!walk_value(entry, leader_visit, &v) || !header_complete(&v.header))
		return;
	key->ours = true;
	key->node = v.header.node;
	key->value_session = v.header.session;
	key->value = v.value;
	key->token = le_consul_token(key, v.token);
	key->lease = (le_duration) v.lease_ms * LE_MSEC;
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
	LeSystems	systems;
	int			nearlier;		/* the present one may come later */
	uint64		since;
} NodeValue;

/*
 * For display only: an invalid word here must not make the node's other fields
 * be lost.
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

/*
 * A system identifier, as text.  Anything else is none, and no reason to lose
 * the other fields.
 */
static uint64
system_of(const LeJsonNode *node)
{
	char	   *text = le_json_string(node, 20);
	uint64		system;

	if (text == NULL || text[0] == '\0' ||
		text[strspn(text, "0123456789")] != '\0')
		return 0;
	errno = 0;
	system = strtoull(text, NULL, 10);
	return errno == 0 ? system : 0;
}

static void
take_earlier(const LeJsonNode *node, NodeValue *v)
{
	uint64		system = system_of(node);

	if (system != 0 && v->nearlier < LE_MAX_SYSTEMS - 1)
		v->systems.ids[++v->nearlier] = system;
}

static bool
node_visit(void *arg, const LeJsonNode *node)
{
	NodeValue  *v = arg;

	if (node->depth == 0)
		return node->type == LE_JSON_OBJECT;
	if (node->depth == 2 && le_json_at(node, 0, "earlier_systems"))
		take_earlier(node, v);
	if (node->depth > 1)
		return true;
	if (le_json_at(node, 0, "incarnation"))
	{
		v->incarnation = le_json_string(node, LE_INCARNATION_LEN);
		return v->incarnation != NULL && le_consul_valid_name(v->incarnation);
	}
	if (le_json_at(node, 0, "lease_ms"))
		return le_json_uint64(node, &v->lease_ms);
	if (le_json_at(node, 0, "seq"))
		return le_json_uint64(node, &v->seq);
	if (le_json_at(node, 0, "revoked"))
		return take_bool(node, &v->revoked);
	if (le_json_at(node, 0, "unfit"))
		take_unfit(node, &v->unfit);
	if (le_json_at(node, 0, "system"))
		v->systems.ids[0] = system_of(node);
	if (le_json_at(node, 0, "since") && !le_json_uint64(node, &v->since))
		v->since = 0;
	return header_field(&v->header, node);
}

/* False if it is not a node key of ours. */
bool
le_consul_entry_to_node(const LeConsulEntry *entry, const char *session,
						LeNodeKey *node)
{
	NodeValue	v;

	memset(&v, 0, sizeof(v));
	if (!walk_value(entry, node_visit, &v) || !header_complete(&v.header) ||
		v.incarnation == NULL || strcmp(v.header.session, session) != 0 ||
		!valid_lease(v.lease_ms))
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
	node->systems = v.systems;
	node->since = v.since != 0 ? v.since : entry->index;
	return true;
}

typedef struct NewsValue
{
	Header		header;
	uint64		number;
	uint64		since;
	LeGossipItem	item;			/* being read; kind 0: none yet */
	LeGossipItem *items;
	int			nitems;
} NewsValue;

static bool
item_kind(const LeJsonNode *node, LeGossipItem *item)
{
	char	   *name = le_json_string(node, LE_CONSUL_MAX_NAME_LEN);

	for (int i = 0; name != NULL && i < lengthof(news_kinds); i++)
		if (news_kinds[i] != NULL && strcmp(name, news_kinds[i]) == 0)
		{
			item->kind = (LeOpKind) i;
			return true;
		}
	return false;
}

static bool
item_field(LeGossipItem *item, const LeJsonNode *node)
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
		v->items = palloc(LE_MAX_NEWS * sizeof(LeGossipItem));
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

/* News of a later version, or of another writer, get no node and no items. */
void
le_consul_entry_to_news(const LeConsulEntry *entry, const char *session,
						LeGossip *news)
{
	NewsValue	v;

	memset(news, 0, sizeof(*news));
	news->session = session;
	news->held = entry->session != NULL &&
		strcmp(entry->session, session) == 0;
	news->index = entry->index;
	memset(&v, 0, sizeof(v));
	if (!walk_value(entry, news_visit, &v) ||
		!header_complete(&v.header) ||
		strcmp(v.header.session, session) != 0 || v.number == 0 ||
		v.since > v.number)
		return;
	news->number = v.number;
	news->nitems = v.nitems;
	if (!le_consul_date_items(news, v.items))
	{
		news->number = 0;
		news->nitems = 0;
		return;
	}
	news->node = v.header.node;
	news->since = v.since;
	news->items = v.items;
}

/* False if it is no claim of ours, or not one of the job its key names. */
bool
le_consul_entry_to_claim(const LeConsulEntry *entry, const char *election,
						 const char *job, LeClaim *claim)
{
	int			len;
	char	   *text = value_text(entry, &len);

	if (text == NULL || entry->flags != LE_CONSUL_LOCK_FLAG ||
		entry->session != NULL ||
		!le_claim_parse(text, len, claim) || strcmp(claim->job, job) != 0)
		return false;
	claim->election = election;
	claim->index = entry->index;
	return true;
}
