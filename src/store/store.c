/*-------------------------------------------------------------------------
 *
 * store.c
 *		The lease stores by name, and code common to all of them.
 *
 * src/store/store.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include <arpa/inet.h>

#include "mb/pg_wchar.h"

#include "store/store.h"

#define MAX_DETAIL_LEN		200

/* The registry; the list that a wrong name brings up has the same order. */
static const LeStore *const stores[] = {
	&le_store_local,
	&le_store_consul,
	&le_store_cassandra,
	&le_store_azure,
};

typedef struct OpInfo
{
	const char *name;
	bool		writes;
} OpInfo;

static const OpInfo ops[] = {
	[LE_OP_CREATE_SESSION] = {"create session", true},
	[LE_OP_VERIFY_SESSION] = {"verify session", false},
	[LE_OP_CHECK_PREFIX] = {"check prefix", false},
	[LE_OP_REGISTER_NODE] = {"register node", true},
	[LE_OP_RENEW_SESSION] = {"renew session", true},
	[LE_OP_PROVE_NODE] = {"prove node", true},
	[LE_OP_LIST_HELD] = {"list held", false},
	[LE_OP_DESTROY_SESSION] = {"destroy session", true},
	[LE_OP_REVOKE_NODE] = {"revoke node", true},
	[LE_OP_FORGET_NODE] = {"forget node", true},
	[LE_OP_TELL_NEWS] = {"tell news", true},
	[LE_OP_READ] = {"read", false},
	[LE_OP_ACQUIRE] = {"acquire", true},
	[LE_OP_TAKE_OVER] = {"take over", true},
	[LE_OP_PUBLISH] = {"publish", true},
	[LE_OP_RELEASE] = {"release", true},
	[LE_OP_RENEW_TERMS] = {"renew terms", true},
	[LE_OP_READ_CLAIM] = {"read claim", false},
	[LE_OP_CLAIM] = {"claim", true},
	[LE_OP_COMPLETE] = {"complete", true},
	[LE_OP_LIST_CLAIMS] = {"list claims", false},
	[LE_OP_WATCH] = {"watch", false},
	[LE_OP_WATCH_NEWS] = {"watch news", false},
	[LE_OP_LIST_NODES] = {"list nodes", false},
	[LE_OP_SESSION_NAME] = {"session name", false},
	[LE_OP_AUTHENTICATE] = {"authenticate", false},
};

static const char *const outcomes[] = {
	[LE_DONE] = "done",
	[LE_CONFLICT] = "conflict",
	[LE_LOST] = "lost",
	[LE_REFUSED] = "refused",
	[LE_UNAVAILABLE] = "unavailable",
	[LE_UNKNOWN] = "unknown",
};

static const char *const claim_states[] = {
	[LE_CLAIM_RUNNING] = "running",
	[LE_CLAIM_DONE] = "done",
	[LE_CLAIM_FAILED] = "failed",
};

/* The stores in the order of the registry; NULL: there are no more. */
const LeStore *
le_store_number(int number)
{
	return number < lengthof(stores) ? stores[number] : NULL;
}

/* The store's limits on a lease; settings make the rest of the timing. */
void
le_store_limits(const LeStore *store, LeTiming *timing)
{
	timing->session_ttl = le_session_ttl(timing->lease, store->least_session);
	timing->least_lease = store->least_lease;
	timing->most_lease = store->most_lease;
	timing->granularity = store->granularity;
}

/* Does perform() answer the operation, without a request? */
bool
le_performs(const LeStore *store, LeOpKind kind)
{
	return !store->between_instances ||
		(store->performs != NULL && store->performs(kind));
}

/*
 * Does it change the store?  Without an answer the outcome of a write is
 * unknown; a read has simply failed.
 */
bool
le_op_writes(LeOpKind kind)
{
	return ops[kind].writes;
}

/* Does a refusal for this cause concern every request? */
bool
le_refuses_all(LeCause cause)
{
	return cause == LE_CAUSE_STRANGER || cause == LE_CAUSE_NOT_STORE;
}

/*
 * Which operations need the same permission?  Returns one that stands for all
 * that write the same kind of key.
 */
LeOpKind
le_op_right(LeOpKind kind)
{
	switch (kind)
	{
		case LE_OP_TAKE_OVER:
		case LE_OP_PUBLISH:
		case LE_OP_RELEASE:
			return LE_OP_ACQUIRE;
		case LE_OP_REGISTER_NODE:
		case LE_OP_REVOKE_NODE:
		case LE_OP_FORGET_NODE:
		case LE_OP_TELL_NEWS:
			return LE_OP_PROVE_NODE;
		case LE_OP_RENEW_SESSION:
		case LE_OP_DESTROY_SESSION:
			return LE_OP_CREATE_SESSION;
		case LE_OP_COMPLETE:
			return LE_OP_CLAIM;
		default:
			return kind;
	}
}

const char *
le_op_name(LeOpKind kind)
{
	return ops[kind].name;
}

const char *
le_outcome_name(LeOutcome outcome)
{
	return outcomes[outcome];
}

/* The value of a header if the line is one of that name, else NULL. */
static const char *
header_of_line(const char *line, size_t len, const char *name)
{
	size_t		n = strlen(name);

	if (len <= n || line[n] != ':' || pg_strncasecmp(line, name, n) != 0)
		return NULL;
	for (line += n + 1; *line == ' ' || *line == '\t'; line++)
		;
	return line;
}

/*
 * The value of a header of the answer; false if there is none, or it does not
 * fit.  The last of several of one name counts.
 */
bool
le_header(const LeHttpResponse *response, const char *name, char *value,
		  size_t size)
{
	bool		found = false;

	for (const char *line = response->headers; line != NULL && *line != '\0';)
	{
		size_t		len = strcspn(line, "\r\n");
		const char *at = header_of_line(line, len, name);

		if (at != NULL)
		{
			size_t		n = at > line + len ? 0 : line + len - at;

			while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\t'))
				n--;
			found = n < size;
			if (found)
			{
				memcpy(value, at, n);
				value[n] = '\0';
			}
		}
		line += len;
		line += strspn(line, "\r\n");
	}
	return found;
}

/* Appends s percent-encoded but for RFC 3986's unreserved characters and those
 * that are to be kept. */
void
le_append_encoded(StringInfo path, const char *s, const char *kept)
{
	const char *plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"abcdefghijklmnopqrstuvwxyz0123456789-._~";

	for (; *s != '\0'; s++)
	{
		if (strchr(plain, *s) != NULL || strchr(kept, *s) != NULL)
			appendStringInfoChar(path, *s);
		else
			appendStringInfo(path, "%%%02X", (unsigned char) *s);
	}
}

const char *
le_claim_state_name(LeClaimState state)
{
	return claim_states[state];
}

/* The state of that name; false: there is none, or no name. */
bool
le_claim_state_named(const char *name, LeClaimState *state)
{
	for (int i = 0; name != NULL && i < LE_CLAIM_NSTATES; i++)
	{
		if (strcmp(name, claim_states[i]) == 0)
		{
			*state = i;
			return true;
		}
	}
	return false;
}

static bool
valid_segment(const char *s, size_t len)
{
	if (len == 0)
		return false;
	return !(s[0] == '.' && (len == 1 || (len == 2 && s[1] == '.')));
}

/*
 * 1..200 bytes of A-Z a-z 0-9 . _ - / without an empty, "." or ".." segment:
 * every store and every proxy in front of it leaves such a name as it is.
 */
bool
le_valid_election_name(const char *name)
{
	const char *allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"abcdefghijklmnopqrstuvwxyz0123456789._-/";
	const char *segment = name;
	size_t		len = strlen(name);

	if (len < 1 || len > LE_MAX_ELECTION_LEN || strspn(name, allowed) != len)
		return false;
	for (;;)
	{
		size_t		n = strcspn(segment, "/");

		if (!valid_segment(segment, n))
			return false;
		if (segment[n] == '\0')
			return true;
		segment += n + 1;
	}
}

/* 1..200 bytes of UTF-8 without control characters (C0, DEL, C1). */
bool
le_valid_job_name(const char *name)
{
	const unsigned char *s = (const unsigned char *) name;
	size_t		len = strlen(name);

	if (len < 1 || len > LE_MAX_JOB_LEN ||
		pg_encoding_verifymbstr(PG_UTF8, name, (int) len) != (int) len)
		return false;
	for (; *s != '\0'; s++)
	{
		if (*s < ' ' || *s == 0x7f || (*s == 0xc2 && s[1] < 0xa0))
			return false;
	}
	return true;
}

bool
le_valid_sqlstate(const char *sqlstate)
{
	return strlen(sqlstate) == LE_SQLSTATE_LEN &&
		strspn(sqlstate, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == LE_SQLSTATE_LEN;
}

/*
 * A copy of UTF-8 text for people, cut at a whole character.  "blank" replaces
 * controls (C0, DEL, C1), which a terminal or a log might obey.
 */
static char *
without_controls(const char *text, size_t len, size_t max, char blank)
{
	char	   *shown;

	if (len > max)
	{
		len = max;
		while (len > 0 && ((unsigned char) text[len] & 0xc0) == 0x80)
			len--;
	}
	shown = pnstrdup(text, len);
	for (unsigned char *s = (unsigned char *) shown; *s != '\0'; s++)
	{
		if (*s < ' ' || *s == 0x7f)
			*s = blank;
		else if (*s == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0)
			s[0] = s[1] = blank;
	}
	return shown;
}

/* The first line of a foreign message, to be kept and shown. */
char *
le_shown_message(const char *message)
{
	return without_controls(message, strcspn(message, "\r\n"),
							LE_MAX_MESSAGE_LEN, ' ');
}

/* A foreign name, as people may see it. */
char *
le_shown_name(const char *name, size_t len)
{
	return without_controls(name, len, LE_MAX_NODE_NAME_LEN, '?');
}

/*
 * Does a URL lead to this machine, for any resolver?  Only whole addresses
 * count: a resolver decides on the meaning of 127.1.
 */
bool
le_is_loopback(const char *url)
{
	const char *scheme = strstr(url, "://");
	const char *host = scheme == NULL ? url : scheme + 3;
	size_t		len = strcspn(host, host[0] == '[' ? "/" : ":/");
	char		name[sizeof("127.255.255.255")];
	struct in_addr address;

	if (host[0] == '[')
		return strncmp(host, "[::1]", 5) == 0 &&
			(host[5] == '\0' || host[5] == ':' || host[5] == '/');
	if (len >= sizeof(name))
		return false;
	memcpy(name, host, len);
	name[len] = '\0';
	return strcmp(name, "localhost") == 0 ||
		(inet_pton(AF_INET, name, &address) == 1 &&
		 (ntohl(address.s_addr) >> 24) == 127);
}

static const char *
copy_string(const char *s)
{
	return s == NULL ? NULL : pstrdup(s);
}

/* With its strings, in the current context. */
void
le_copy_key(LeKey *to, const LeKey *from)
{
	*to = *from;
	to->election = copy_string(from->election);
	to->holder = copy_string(from->holder);
	to->node = copy_string(from->node);
	to->value_session = copy_string(from->value_session);
	to->value = copy_string(from->value);
}

/* ---- answers that are not DONE ---- */

/* Text for people: one line of limited length, plain ASCII. */
const char *
le_clean_detail(const char *s)
{
	char	   *result = palloc(MAX_DETAIL_LEN + 1);
	int			n = 0;

	for (; *s != '\0' && n < MAX_DETAIL_LEN; s++)
	{
		if (*s >= ' ' && *s <= '~')
			result[n++] = *s;
		else if (n > 0 && result[n - 1] != ' ')
			result[n++] = ' ';
	}
	while (n > 0 && result[n - 1] == ' ')
		n--;
	result[n] = '\0';
	return result;
}

void
le_fail(LeAnswer *answer, LeOutcome outcome, const char *detail)
{
	memset(answer, 0, sizeof(*answer));
	answer->outcome = outcome;
	answer->detail = le_clean_detail(detail);
}

/* No meaningful answer: the outcome depends on the operation. */
void
le_fail_open(const LeOp *op, LeAnswer *answer, const char *detail)
{
	le_fail(answer, le_op_writes(op->kind) ? LE_UNKNOWN : LE_UNAVAILABLE,
			detail);
}

/* An answer of some other server, such as a proxy. */
void
le_fail_shape(const LeOp *op, const LeHttpResponse *response,
			  const char *whose, LeAnswer *answer)
{
	le_fail_open(op, answer,
				 psprintf("HTTP %d with an answer that is not %s (%s)",
						  response->status, whose,
						  response->content_type[0] != '\0' ?
						  response->content_type : "no type"));
}

/* No answer came, or the request was not even sent. */
void
le_fail_network(const LeOp *op, const LeHttpResponse *response,
				LeAnswer *answer)
{
	const char *error = response->net_error;

	if (response->net == LE_NET_NOT_SENT)
		le_fail(answer, LE_UNAVAILABLE,
				error != NULL ? error : "no connection");
	else
		le_fail_open(op, answer, error != NULL ? error : "no answer");
}
