/*-------------------------------------------------------------------------
 *
 * consul_wire.c
 *		Requests to Consul's HTTP API, and its answers.
 *
 * Three rules govern decoding.  A write is DONE only if the answer shows it.
 * It counts as not applied only if Consul says so in words that it is known to
 * use before anything is applied; all else is UNKNOWN.  Errors are recognised
 * by a part of their text, since each server on the way puts words before it.
 *
 * src/store/consul_wire.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "store/consul_list.h"
#include "store/consul_plan.h"
#include "store/consul_session.h"
#include "store/consul_text.h"
#include "store/consul_txn.h"
#include "store/consul_wire.h"

/* ---- requests ---- */

static void
encode_session(const LeNamespace *ns, const LeOp *op,
			   const char *method, const char *endpoint,
			   LeRequest *request)
{
	le_consul_start_request(ns, request, method, endpoint, op->session,
							LE_CONSUL_MAX_SMALL_ANSWER);
	request->http.has_body = strcmp(method, "PUT") == 0;	/* an empty one */
}

/* Reads one key, linearizably. */
static void
encode_read(const LeNamespace *ns, LeConsulKey key, LeRequest *request)
{
	le_consul_start_request(ns, request, "GET", "kv/",
							le_consul_key_text(ns, &key),
							LE_CONSUL_MAX_KEY_ANSWER);
	le_consul_add_query(request, "consistent");
}

static void
encode_list(const LeNamespace *ns, const char *suffix,
			const char *parameter, LeRequest *request)
{
	le_consul_start_request(ns, request, "GET", "kv/",
							psprintf("%s%s", le_consul_key_prefix(ns), suffix),
							LE_CONSUL_MAX_LIST_ANSWER);
	le_consul_add_query(request, parameter);
}

/*
 * Watches the prefix with its slash: without, writes to node keys would wake
 * it.  Not a consistent read: belief does not rest on it, and Consul would
 * ask a quorum at each wake-up.
 */
static void
encode_watch(const LeNamespace *ns, const LeOp *op, const char *below,
			 LeRequest *request)
{
	encode_list(ns, below, "recurse", request);
	if (op->watch.index != 0)
		le_consul_add_query(request,
							psprintf("index=" UINT64_FORMAT "&wait=%dms",
									 op->watch.index, op->watch.wait_ms));
}

void
le_consul_encode(const LeNamespace *ns, const LeOp *op,
				 LeRequest *request)
{
	LeConsulPlan plan;

	switch (op->kind)
	{
		case LE_OP_CREATE_SESSION:
			le_consul_encode_create(ns, op, request);
			break;
		case LE_OP_VERIFY_SESSION:
			encode_session(ns, op, "GET", "session/info/", request);
			/* a server that is behind might not show it yet */
			le_consul_add_query(request, "consistent");
			break;
		case LE_OP_SESSION_NAME:
			encode_session(ns, op, "GET", "session/info/", request);
			break;
		case LE_OP_RENEW_SESSION:
			encode_session(ns, op, "PUT", "session/renew/", request);
			break;
		case LE_OP_DESTROY_SESSION:
			encode_session(ns, op, "PUT", "session/destroy/", request);
			break;
		case LE_OP_CHECK_PREFIX:
			encode_list(ns, "/", "keys&consistent", request);
			break;
		case LE_OP_LIST_HELD:
			encode_list(ns, "/", "recurse&consistent", request);
			break;
		case LE_OP_LIST_NODES:
			encode_list(ns, ".nodes/",
						op->fresh ? "recurse" : "recurse&stale", request);
			break;
		case LE_OP_WATCH:
			encode_watch(ns, op, "/", request);
			break;
		case LE_OP_WATCH_NEWS:
			encode_watch(ns, op, LE_CONSUL_NEWS_BELOW, request);
			break;
		case LE_OP_READ:
			encode_read(ns, (LeConsulKey)
						{
							.kind = LE_CONSUL_LEADER, .name = op->election
						}, request);
			break;
		case LE_OP_READ_CLAIM:
			encode_read(ns, (LeConsulKey)
						{
							.kind = LE_CONSUL_CLAIM, .name = op->election,
							.job = op->claim.job
						}, request);
			break;
		case LE_OP_LIST_CLAIMS:
			encode_list(ns, ".claims/", "recurse&consistent", request);
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
			le_consul_plan(op, &plan);
			le_consul_encode_plan(ns, &plan, request);
			break;
		case LE_OP_RENEW_TERMS: /* the node's proof carries all terms */
		case LE_OP_AUTHENTICATE:	/* a token does not run out */
			Assert(false);
			break;
	}
}

/*
 * The text of an error, terminated.  Consul sends plain text; the text of a
 * proxy is not worth repeating, and might repeat our headers.
 */
static char *
error_text(const LeResponse *response)
{
	size_t		len = Min(response->body_len, LE_CONSUL_MAX_ERROR_LEN);
	char	   *text;

	if (pg_strncasecmp(response->http.content_type, "text/html", 9) == 0)
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
status_detail(const LeResponse *response, const char *text)
{
	if (text[0] == '\0')
		return psprintf("HTTP %d", response->http.status);
	return psprintf("HTTP %d: %s", response->http.status, text);
}

/* ---- answers: status codes and error texts ---- */

typedef struct Phrase
{
	const char *text;
	LeOutcome	outcome;
} Phrase;

/*
 * Parts of error texts; the first that is found counts.  Texts of a write that
 * may be on its way come before those of a write that is not.
 */
static const Phrase phrases[] = {
	{"rpc error making call: EOF", LE_UNKNOWN},
	{"i/o deadline reached", LE_UNKNOWN},
	{"leadership lost while committing log", LE_UNKNOWN},
	{"snapshot restored while committing log", LE_UNKNOWN},
	{"raft is already shutdown", LE_UNKNOWN},

	/* permission or configuration */
	{LE_CONSUL_DENIED_WORDS, LE_REFUSED},
	{LE_CONSUL_UNKNOWN_TOKEN, LE_REFUSED},
	{"Endpoint is blocked", LE_REFUSED},
	{"Access is restricted", LE_REFUSED},
	{"Invalid Session TTL", LE_REFUSED},
	{"Session TTL '", LE_REFUSED},
	{"Invalid Behavior setting", LE_REFUSED},
	{"cross datacenter lock must be created", LE_REFUSED},
	{"invalid key name", LE_REFUSED},

	/* the session is not there */
	{"invalid session", LE_LOST},

	/* errors from before anything is applied */
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

/* Judged by Consul's own words; a proxy's may be anything. */
static LeCause
cause_of(const char *text)
{
	if (strstr(text, LE_CONSUL_UNKNOWN_TOKEN) != NULL)
		return LE_CAUSE_STRANGER;
	if (strstr(text, LE_CONSUL_DENIED_WORDS) != NULL)
		return LE_CAUSE_PERMISSION;
	return LE_CAUSE_OTHER;
}

/* Refusals that no further attempt will change, and what does. */
typedef struct Mistake
{
	const char *text;			/* part of the error text */
	const char *cure;
} Mistake;

static const Mistake mistakes[] = {
	{"cross datacenter lock must be created", "\"leader_election.consul_datacenter\" must be empty or the agent's own"},
	{"Access is restricted", "\"http_config.allow_write_http_from\" of the agent leaves this machine out"},
	{"Invalid Session TTL", "\"session_ttl_min\" of the servers is above \"leader_election.lease_ttl\""},
};

/* May be a mistake, or pass. */
static const Mistake doubts[] = {
	{"No path to datacenter", "is \"leader_election.consul_datacenter\" right?"},
	{"Missing node registration", "if it lasts: \"leader_election.consul_datacenter\" must be empty or the agent's own"},
};

static const char *
cure_of(const Mistake *list, int n, const char *text)
{
	for (int i = 0; i < n; i++)
		if (strstr(text, list[i].text) != NULL)
			return list[i].cure;
	return NULL;
}

/* The endpoint as "http_config.block_endpoints" names it. */
static char *
endpoint_of(const LeNamespace *ns, const LeOp *op)
{
	static const char session[] = "/v1/session/";
	LeRequest	request = {0};
	const char *path;
	size_t		len;

	if (op->kind == LE_OP_RENEW_TERMS || op->kind == LE_OP_AUTHENTICATE)
		return pstrdup("it");	/* nobody asks Consul that */
	initStringInfo(&request.http.path);
	initStringInfo(&request.http.headers);
	initStringInfo(&request.http.body);
	le_consul_encode(ns, op, &request);
	path = request.http.path.data;
	len = strncmp(path, session, strlen(session)) == 0 ? strlen(session) :
		strlen("/v1/");
	len += strcspn(path + len, "/?");
	return pnstrdup(path, len);
}

/* The detail of a refusal that a setting causes; NULL: none is known to. */
static const char *
mistaken_setting(const LeNamespace *ns, const LeOp *op, const char *text)
{
	if (strstr(text, "Endpoint is blocked") != NULL)
		return psprintf("\"http_config.block_endpoints\" of the agent has %s",
						endpoint_of(ns, op));
	return cure_of(mistakes, lengthof(mistakes), text);
}

static void
refuse(const LeNamespace *ns, const LeOp *op, const char *text,
	   const char *detail, LeAnswer *answer)
{
	const char *cure = mistaken_setting(ns, op, text);

	le_fail(answer, LE_REFUSED,
			cure == NULL ? detail : psprintf("%s (%s)", cure, detail));
	answer->cause = cure == NULL ? cause_of(detail) : LE_CAUSE_SETTING;
}

/* Does the request act for a session, so that "invalid session" means LOST? */
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

/* The server failed: only its words tell if anything was applied. */
static void
decode_server_error(const LeNamespace *ns, const LeOp *op,
					const LeResponse *response, LeAnswer *answer)
{
	char	   *text = error_text(response);
	const char *detail = status_detail(response, text);
	const char *doubt;

	for (int i = 0; i < lengthof(phrases); i++)
	{
		if (strstr(text, phrases[i].text) == NULL)
			continue;
		if (phrases[i].outcome == LE_UNKNOWN ||
			(phrases[i].outcome == LE_LOST && !acts_for_session(op->kind)))
			break;
		if (phrases[i].outcome == LE_REFUSED)
			refuse(ns, op, text, detail, answer);
		else
		{
			doubt = cure_of(doubts, ns->part[0] == '\0' ? 0 :
							lengthof(doubts), phrases[i].text);
			le_fail(answer, phrases[i].outcome, doubt == NULL ? detail :
					psprintf("%s (%s)", detail, doubt));
		}
		return;
	}
	le_fail_open(op, answer, detail);
}

/*
 * Consul answers a renewal with 404 when the session is gone; any other 404
 * except for reads (see decode) comes from another server.
 */
static void
decode_not_found(const LeOp *op, const LeResponse *response,
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
decode_status(const LeNamespace *ns, const LeOp *op,
			  const LeResponse *response, LeAnswer *answer)
{
	int			status = response->http.status;
	char	   *text;

	if (status >= 300 && status <= 399)
	{
		le_fail(answer, LE_REFUSED, psprintf("HTTP %d, a redirect, which is not "
											 "followed; check the URL", status));
		answer->cause = LE_CAUSE_NOT_STORE;
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
		text = error_text(response);
		refuse(ns, op, text, status_detail(response, text), answer);
	}
	else if (status >= 500 && status <= 599)
		decode_server_error(ns, op, response, answer);
	else
		le_consul_fail_shape(op, response, answer);
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
decode_body(const LeNamespace *ns, const LeOp *op,
			const LeResponse *response, LeAnswer *answer)
{
	LeConsulPlan plan;

	if (le_consul_plan(op, &plan))
		le_consul_decode_plan(ns, &plan, response, answer);
	else if (reads_keys(op->kind))
		le_consul_decode_list(ns, op, response, answer);
	else if (op->kind == LE_OP_CREATE_SESSION)
		le_consul_decode_created(op, response, answer);
	else if (op->kind == LE_OP_DESTROY_SESSION)
		le_consul_decode_true(op, response, answer);
	else
		le_consul_decode_session(op, response, answer);
}

static bool
is_transaction(LeOpKind kind)
{
	return le_op_writes(kind) && kind != LE_OP_CREATE_SESSION &&
		kind != LE_OP_RENEW_SESSION && kind != LE_OP_DESTROY_SESSION;
}

void
le_consul_decode(const LeNamespace *ns, const LeOp *op,
				 const LeResponse *response, LeAnswer *answer)
{
	int			status = response->http.status;
	uint64		index;

	if (op->wire.from == 0)
		memset(answer, 0, sizeof(*answer));
	answer->outcome = LE_DONE;
	if (response->net != LE_NET_OK)
		le_fail_network(op, response, answer);
	else if (status == 200 ||
			 (status == 409 && is_transaction(op->kind)) ||
			 (status == 404 && reads_keys(op->kind) &&
			  le_consul_has_index(response, &index)))
		decode_body(ns, op, response, answer);
	else
		decode_status(ns, op, response, answer);
}
