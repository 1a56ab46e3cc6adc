/*-------------------------------------------------------------------------
 *
 * consul_session.c
 *		Sessions of the store "consul".
 *
 * src/store/consul_session.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "store/consul_plan.h"
#include "store/consul_session.h"
#include "store/consul_text.h"

#define SESSION_NAME	"leader_election: "

/*
 * No checks: a session that rests on the agent's health check dies with a
 * hiccup of the agent.  The two empty lists are for versions before and since
 * 1.7.
 */
void
le_consul_encode_create(const LeNamespace *ns, const LeOp *op,
						LeRequest *request)
{
	StringInfo	body = &request->http.body;

	le_consul_start_request(ns, request, "PUT", "session/create", "",
							LE_CONSUL_MAX_SMALL_ANSWER);
	request->http.has_body = true;
	appendStringInfoString(body, "{\"Name\":");
	le_json_append_string(body, psprintf(SESSION_NAME "%s", op->node_name));
	appendStringInfo(body, ",\"TTL\":\"" INT64_FORMAT "s\","
					 "\"LockDelay\":\"" INT64_FORMAT "s\","
					 "\"Behavior\":\"release\","
					 "\"Checks\":[],\"NodeChecks\":[]}",
					 le_consul_ttl_seconds(op->lease),
					 le_consul_lock_delay_seconds(op->lease));
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
		info->name = le_json_string(node, LE_CONSUL_MAX_NAME_LEN);
	else if (le_json_at(node, 1, "Behavior"))
		info->behavior = le_json_string(node, LE_CONSUL_MAX_NAME_LEN);
	else if (le_json_at(node, 1, "TTL"))
		info->ttl = le_json_string(node, LE_CONSUL_MAX_NAME_LEN);
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
			return false;		/* not the session asked for */
		s->found = s->info;
		memset(&s->info, 0, sizeof(s->info));
	}
	return true;
}

/* Reads Go's form: 15s, 1m0s, 1h0m0s, 500ms; 0 if it is another. */
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
 * Does the session have the properties that terms rely on?  A larger TTL than
 * asked for only keeps the waiters longer; nothing is ever derived from it.
 */
static void
verify_session(const LeOp *op, const SessionInfo *info, LeAnswer *answer)
{
	le_duration ttl = le_consul_ttl_seconds(op->lease) * LE_SEC;
	le_duration lock_delay =
		le_consul_lock_delay_seconds(op->lease) * LE_SEC;

	if (info->id == NULL)
	{
		le_fail(answer, LE_REFUSED, "the new session is not shown: the token "
				"needs session:read on the agent's node, or it is gone already");
		answer->cause = LE_CAUSE_PERMISSION;
	}
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

void
le_consul_decode_session(const LeOp *op, const LeResponse *response,
						 LeAnswer *answer)
{
	SessionAnswer s;

	memset(&s, 0, sizeof(s));
	s.id = op->session;
	if (!le_json_walk(response->body, response->body_len, session_visit, &s))
		le_consul_fail_shape(op, response, answer);
	else if (op->kind == LE_OP_VERIFY_SESSION)
		verify_session(op, &s.found, answer);
	else if (op->kind == LE_OP_RENEW_SESSION && s.found.id == NULL)
		le_consul_fail_shape(op, response, answer);
	else if (op->kind == LE_OP_SESSION_NAME && s.found.name != NULL &&
			 le_consul_valid_name(s.found.name))
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
		return answer->session != NULL &&
			le_consul_valid_session(answer->session);
	}
	return true;
}

void
le_consul_decode_created(const LeOp *op, const LeResponse *response,
						 LeAnswer *answer)
{
	if (!le_json_walk(response->body, response->body_len, created_visit,
					  answer) || answer->session == NULL)
		le_consul_fail_shape(op, response, answer);
}

static bool
true_visit(void *arg, const LeJsonNode *node)
{
	return node->type == LE_JSON_TRUE;
}

void
le_consul_decode_true(const LeOp *op, const LeResponse *response,
					  LeAnswer *answer)
{
	if (!le_json_walk(response->body, response->body_len, true_visit, NULL))
		le_consul_fail_shape(op, response, answer);
}
