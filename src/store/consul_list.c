/*-------------------------------------------------------------------------
 *
 * consul_list.c
 *		Lists of keys in the store "consul", some of them in parts.
 *
 * src/store/consul_list.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "store/claim_record.h"
#include "store/consul_list.h"
#include "store/consul_text.h"

/* Bytes of a list to decode at a time: some 300 keys of elections, which takes
 * a millisecond or two. */
size_t		le_consul_slice = 128 * 1024;

/* ---- answers: lists of keys ---- */

typedef struct List
{
	const LeOp *op;
	LeAnswer   *answer;
	char	   *prefix;			/* common to the keys asked for */
	const char *only;			/* READ, READ_CLAIM: the one key asked for */
	bool		foreign;		/* CHECK_PREFIX: keys are Patroni's;
								 * READ_CLAIM: no claim of ours */
	int			allocated;
	LeConsulEntry		entry;
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
	le_consul_entry_to_key(&list->entry, election,
						   &answer->keys[answer->nkeys++]);
}

static void
add_node(List *list, const char *session)
{
	LeAnswer   *answer = list->answer;

	answer->nodes = grow(list, answer->nodes, answer->nnodes,
						 sizeof(LeNodeKey));
	if (le_consul_entry_to_node(&list->entry, session,
								&answer->nodes[answer->nnodes]))
		answer->nnodes++;
}

static void
add_news_of(List *list, const char *session)
{
	LeAnswer   *answer = list->answer;

	answer->news = grow(list, answer->news, answer->nnews, sizeof(LeGossip));
	le_consul_entry_to_news(&list->entry, session,
							&answer->news[answer->nnews++]);
}

/* News come after all node keys: "n" is no hexadecimal digit. */
static void
mark_telling(List *list, const char *session)
{
	LeAnswer   *answer = list->answer;

	for (int i = 0; i < answer->nnodes; i++)
		if (strcmp(answer->nodes[i].session, session) == 0)
			answer->nodes[i].tells = list->entry.session != NULL &&
				strcmp(list->entry.session, session) == 0;
}

/* Node keys, and after them the news of some of the nodes. */
static void
list_node(List *list)
{
	char	   *name = le_consul_between(list->entry.key, list->prefix, "");
	char	   *news = name == NULL ? NULL : le_consul_between(name, "news/", "");

	if (name != NULL && le_consul_valid_session(name))
		add_node(list, name);
	else if (news != NULL && le_consul_valid_session(news))
		mark_telling(list, news);
}

static void
list_news(List *list)
{
	char	   *name = le_consul_between(list->entry.key, list->prefix, "");

	if (name != NULL && le_consul_valid_session(name))
		add_news_of(list, name);
}

static bool
add_claim(List *list, const char *election, const char *job)
{
	LeAnswer   *answer = list->answer;

	answer->claims = grow(list, answer->claims, answer->nclaims,
						  sizeof(LeClaim));
	if (!le_consul_entry_to_claim(&list->entry, election, job,
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
		list->foreign = !add_claim(list, op->election, op->claim.job);
	return true;
}

static void
list_claim(List *list)
{
	char	   *key = le_consul_between(list->entry.key, list->prefix, "");
	char	   *election;
	char	   *job;

	if (key != NULL && le_claim_split_key(key, &election, &job))
		(void) add_claim(list, election, job);
}

/* An entry is complete: keep it if it is one that was asked for. */
static bool
list_entry(List *list)
{
	const LeConsulEntry *entry = &list->entry;
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
	name = le_consul_between(entry->key, list->prefix, "/leader");
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
	return node->depth > 2 || le_consul_entry_field(&list->entry, node);
}

/* Does a key, from the last slash of the prefix on, look like Patroni's? */
static bool
is_patroni(const char *key)
{
	return le_consul_between(key, "", "/config") != NULL ||
		le_consul_between(key, "", "/initialize") != NULL ||
		(strstr(key, "/members/") != NULL &&
		 le_consul_between(key, "", "/leader") == NULL);
}

static bool
names_visit(void *arg, const LeJsonNode *node)
{
	List	   *list = arg;
	char	   *key;
	size_t		len = strlen(list->prefix);

	if (node->depth == 0)
		return node->type == LE_JSON_ARRAY;
	key = le_json_string(node, LE_CONSUL_MAX_KEY_LEN);
	if (key != NULL && strncmp(key, list->prefix, len) == 0 &&
		is_patroni(key + len - 1))
		list->foreign = true;
	return node->depth == 1 && node->type == LE_JSON_STRING;
}

static void
start_list(const LeNamespace *ns, const LeOp *op,
		   LeAnswer *answer, List *list)
{
	const char *below = "/";
	int			have;

	if (op->kind == LE_OP_LIST_NODES)
		below = ".nodes/";
	else if (op->kind == LE_OP_WATCH_NEWS)
		below = LE_CONSUL_NEWS_BELOW;
	else if (op->kind == LE_OP_LIST_CLAIMS || op->kind == LE_OP_READ_CLAIM)
		below = ".claims/";
	memset(list, 0, sizeof(*list));
	list->op = op;
	list->answer = answer;
	list->prefix = psprintf("%s%s", le_consul_key_prefix(ns), below);
	/* at most the size that grow() had reached in the part before */
	have = Max(Max(answer->nkeys, answer->nnodes), answer->nclaims);
	for (list->allocated = 8; list->allocated < have;)
		list->allocated *= 2;
	if (op->kind == LE_OP_READ)
		list->only = le_consul_key_text(ns, &(LeConsulKey)
		{
			.kind = LE_CONSUL_LEADER, .name = op->election
		});
	else if (op->kind == LE_OP_READ_CLAIM)
		list->only = le_consul_key_text(ns, &(LeConsulKey)
		{
			.kind = LE_CONSUL_CLAIM, .name = op->election, .job = op->claim.job
		});
}

/* Foreign keys stand in the place of ours. */
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

/* Each answer of Consul's own about keys has an index. */
bool
le_consul_has_index(const LeResponse *response, uint64 *index)
{
	char		value[24];
	char	   *end;

	if (!le_header(response, "X-Consul-Index", value, sizeof(value)) ||
		value[0] < '0' || value[0] > '9')
		return false;
	*index = strtou64(value, &end, 10);
	return *end == '\0';
}

/* Does the answer leave out keys that the token may not read? */
static bool
is_filtered(const LeResponse *response)
{
	char		value[8];

	return le_header(response, "X-Consul-Results-Filtered-By-ACLs", value,
					 sizeof(value)) && strcmp(value, "true") == 0;
}

/*
 * The end of a slice, which begins with an element of an array, or with the
 * array's end: after the first element that makes it long enough.
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
			return i;			/* the array ends */
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
skip_space(const LeResponse *response, size_t at)
{
	while (at < response->body_len &&
		   strchr(" \t\r\n", response->body[at]) != NULL &&
		   response->body[at] != '\0')
		at++;
	return at;
}

/*
 * Walks a list with thousands of keys a part at a time.  After a comma there
 * has to be one more element, as in one piece.
 */
static bool
walk_slice(const LeOp *op, const LeResponse *response, List *list)
{
	const char *body = response->body;
	size_t		len = response->body_len;
	size_t		from = op->wire.from;
	size_t		end;

	if (from == 0)
	{
		from = skip_space(response, 0);
		if (from == len || body[from] != '[')
			return false;
		from++;
	}
	end = slice_end(body, len, from);
	if (op->wire.from != 0 && skip_space(response, from) >= end)
		return false;
	if (end == len || !walk_part(body, from, end, list))
		return false;
	if (body[end] == ',')
		list->answer->wire.rest = end + 1;
	else if (body[end] == ']')
	{
		list->answer->wire.rest = 0;
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
walk_list(const LeOp *op, const LeResponse *response, List *list)
{
	if (op->kind == LE_OP_CHECK_PREFIX)
		return le_json_walk(response->body, response->body_len, names_visit,
							list);
	if (may_be_long(op->kind))
		return walk_slice(op, response, list);
	return le_json_walk(response->body, response->body_len, list_visit, list);
}

void
le_consul_decode_list(const LeNamespace *ns, const LeOp *op,
					  const LeResponse *response, LeAnswer *answer)
{
	List		list;
	uint64		index;

	start_list(ns, op, answer, &list);

	if (is_filtered(response))
	{
		le_fail(answer, LE_REFUSED,
				psprintf("Consul's ACL hides keys below \"%s\" from the token; "
						 "it needs key:read on all of them", list.prefix));
		answer->cause = LE_CAUSE_PERMISSION;
	}
	else if (!le_consul_has_index(response, &index))
		le_consul_fail_shape(op, response, answer);
	else if (response->http.status == 200 &&
			 (!walk_list(op, response, &list) ||
			  (list.only != NULL && !list.foreign &&
			   answer->nkeys + answer->nclaims != 1)))
		le_consul_fail_shape(op, response, answer);
	else if (list.foreign)
		fail_foreign(&list, answer);
	else if (op->kind == LE_OP_WATCH || op->kind == LE_OP_WATCH_NEWS)
		answer->index = le_consul_next_index(op, index);
	else
		answer->index = index;
}
