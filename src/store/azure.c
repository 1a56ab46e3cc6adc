/*-------------------------------------------------------------------------
 *
 * azure.c
 *		The store "azure": leases on blobs of Azure Blob Storage.
 *
 * Each election is one empty block blob.  The service's lease on it decides
 * who leads and until when, the blob's ETag in which order, and a number in
 * its metadata is the fencing token.  To acquire takes three requests: HEAD
 * shows ETag and token; the lease is acquired on the condition of that ETag,
 * with a lease id that no other decision to acquire has; the metadata is
 * written ("stamped") with the next token, on the condition of both.  A term
 * exists when the stamp was answered, and is trusted from when the lease was
 * asked for.
 *
 * What makes an acquire conditional: ETag and token of one answer.  Each ETag
 * carries at most one token, so tokens rise strictly whatever leases do, and
 * a late copy of an acquire fails once its term was stamped.  Renewals and
 * releases name the lease id only, which is that of one term, so no copy of
 * them reaches another.  An answer to a renewal or an acquire counts only if
 * it names our lease id.
 *
 * The service judges its leases: what it shows as expired or available can be
 * taken at once.  A lease that somebody broke ends before its holder's belief
 * does, so it counts as free but not as released.
 *
 * Outcomes are told by the header x-ms-error-code, which never changes; an
 * answer without the service's headers is a proxy's and leaves them unknown.
 *
 * src/store/azure.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "mb/pg_wchar.h"

#include "store/azure_auth.h"
#include "store/json.h"
#include "store/store.h"
#include "store/xml.h"

#define API_VERSION		"2021-12-02"
#define PROTO			1

/* The longest answers that make sense, in bytes. */
#define MAX_SMALL_ANSWER	(64 * 1024)
#define MAX_LIST_ANSWER		(64 * 1024 * 1024)

/* Blobs on one page of a list. */
#define PAGE_SIZE		1000

/* As long as any value of ours in the metadata: base64 of the longest. */
#define MAX_FIELD_LEN	(LE_MAX_VALUE_LEN / 3 * 4 + 8)

/* A value of no bytes; a header must not be empty. */
#define EMPTY_VALUE		"="

/* Looks at elections that this node waits for, under way at a time. */
#define MAX_PARKED		16

/* That no lease has: to find out whether one could be released. */
#define NO_LEASE		"00000000-0000-0000-0000-000000000000"

/* The session of whoever has a lease, but has written nothing yet. */
#define UNNAMED			NO_LEASE

/* Who this instance is, unless a signature says it; "": that does. */
static char *identity = "";
static char *identity_url = "http://169.254.169.254";

/* ---- steps of operations that take several requests ---- */

enum
{
	STEP_HEAD,					/* of every operation but a renewal */
	STEP_WRITE,					/* PUBLISH, RELEASE, CLAIM, COMPLETE */
	STEP_CHECK,					/* CLAIM: is the term still in force? */
	STEP_CREATE,				/* ACQUIRE */
	STEP_LEASE,
	STEP_STAMP,
	STEP_RENEW,					/* ACQUIRE again, of what was stamped */
	STEP_WHOSE,					/* READ, WATCH: is the lease that of the
								 * metadata? */
	STEP_GIVE_BACK				/* ACQUIRE: what cannot be stamped */
};

/* From which step on may no answer mean that something was applied? */
static int
first_write(const LeOp *op)
{
	switch (op->kind)
	{
		case LE_OP_RENEW_TERMS:
			return STEP_HEAD;
		case LE_OP_ACQUIRE:
			return STEP_LEASE;
		default:
			return STEP_WRITE;
	}
}

static bool
is_list(const LeOp *op)
{
	return op->kind == LE_OP_LIST_HELD || op->kind == LE_OP_LIST_CLAIMS;
}

/* It is to find out what is allowed, and must change nothing. */
static bool
is_probe(const LeOp *op)
{
	return op->kind == LE_OP_RELEASE && op->dry_run;
}

static void
go_on(LeAnswer *answer, int step, uint64 index, const char *tag)
{
	answer->again = true;
	answer->next.number = step;
	answer->next.index = index;
	strlcpy(answer->next.tag, tag, sizeof(answer->next.tag));
}

/* ---- names of blobs ---- */

/* The service advises against names with a segment that ends in a dot. */
static void
append_path(StringInfo name, const char *path)
{
	for (const char *s = path; *s != '\0'; s++)
	{
		appendStringInfoChar(name, *s);
		if (s[0] == '.' && s[1] == '/')
			appendStringInfoChar(name, '~');
	}
}

/* "~" is in no election's name, so that "a" and "a/b" are never one blob, or
 * one the directory of the other. */
static char *
leader_name(const LePlace *place, const char *election)
{
	StringInfoData name;

	initStringInfo(&name);
	append_path(&name, psprintf("%s/%s", place->prefix, election));
	appendStringInfoString(&name, "~leader");
	return name.data;
}

static void
append_job(StringInfo name, const char *job)
{
	const char *plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"abcdefghijklmnopqrstuvwxyz0123456789_-";

	for (const char *s = job; *s != '\0'; s++)
	{
		if (strchr(plain, *s) != NULL)
			appendStringInfoChar(name, *s);
		else
			appendStringInfo(name, "=%02X", (unsigned char) *s);
	}
}

/* At most 200 + 8 + 200 + 2 + 3 * 200 characters, and a few for dots; the
 * service takes 1024. */
static char *
claim_name(const LePlace *place, const char *election, const char *job)
{
	StringInfoData name;

	initStringInfo(&name);
	append_path(&name, place->prefix);
	appendStringInfoString(&name, "~claims/");
	append_path(&name, election);
	appendStringInfoString(&name, "~/");
	append_job(&name, job);
	return name.data;
}

/* What the names of all keys, or of all claims, begin with. */
static char *
name_prefix(const LePlace *place, bool claims)
{
	StringInfoData name;

	initStringInfo(&name);
	if (claims)
	{
		append_path(&name, place->prefix);
		appendStringInfoString(&name, "~claims/");
	}
	else
		append_path(&name, psprintf("%s/", place->prefix));
	return name.data;
}

/* The election in the middle of a name; NULL if none of ours is there. */
static char *
election_between(const char *start, const char *end)
{
	char	   *election = palloc(end - start + 1);
	char	   *to = election;

	for (const char *s = start; s < end; s++)
		if (*s != '~')			/* put back, and compared, by the caller */
			*to++ = *s;
	*to = '\0';
	return le_valid_election_name(election) ? election : NULL;
}

/* Whose blob is it?  NULL: not that of an election. */
static char *
election_of(const LePlace *place, const char *name)
{
	const char *prefix = name_prefix(place, false);
	const char *end = strrchr(name, '~');
	char	   *election;

	if (strncmp(name, prefix, strlen(prefix)) != 0 || end == NULL ||
		end < name + strlen(prefix))
		return NULL;
	election = election_between(name + strlen(prefix), end);
	if (election == NULL || strcmp(leader_name(place, election), name) != 0)
		return NULL;
	return election;
}

/* The election that a claim's blob belongs to, if it is that of the job. */
static char *
election_of_claim(const LePlace *place, const char *name, const char *job)
{
	const char *prefix = name_prefix(place, true);
	const char *end = strrchr(name, '/');
	char	   *election;

	if (strncmp(name, prefix, strlen(prefix)) != 0 || end == NULL ||
		end < name + strlen(prefix))
		return NULL;
	election = election_between(name + strlen(prefix), end);
	if (election == NULL ||
		strcmp(claim_name(place, election, job), name) != 0)
		return NULL;
	return election;
}

/* ---- text in metadata: base64url without padding ---- */

static char *
to_text(const char *s)
{
	StringInfoData text;

	initStringInfo(&text);
	le_base64_append(&text, s, (int) strlen(s));
	text.data[strcspn(text.data, "=")] = '\0';
	for (char *p = text.data; *p != '\0'; p++)
		*p = *p == '+' ? '-' : *p == '/' ? '_' : *p;
	return text.data[0] == '\0' ? pstrdup(EMPTY_VALUE) : text.data;
}

/* NULL: it is none of ours, or not UTF-8 of at most so many bytes. */
static char *
from_text(const char *text, size_t max)
{
	StringInfoData padded;
	char	   *s;
	int			len = 0;

	if (text == NULL || strpbrk(text, "+/") != NULL)
		return NULL;
	if (strcmp(text, EMPTY_VALUE) == 0)
		return pstrdup("");
	initStringInfo(&padded);
	for (const char *p = text; *p != '\0'; p++)
		appendStringInfoChar(&padded, *p == '-' ? '+' : *p == '_' ? '/' : *p);
	while (padded.len % 4 != 0)
		appendStringInfoChar(&padded, '=');
	s = le_base64_decode(padded.data, padded.len, &len);
	if (s == NULL || (size_t) len > max)
		return NULL;
	s = pnstrdup(s, len);
	if (strlen(s) != (size_t) len ||
		pg_encoding_verifymbstr(PG_UTF8, s, len) != len)
		return NULL;
	return s;
}

/* A name as people may see it, with nothing that a terminal would obey. */
static char *
shown_name(const char *text)
{
	char	   *name = from_text(text, LE_MAX_NODE_NAME_LEN);

	return name == NULL ? pstrdup("?") : le_shown_name(name, strlen(name));
}

/* ---- metadata ---- */

enum
{
	F_PROTO, F_TOKEN, F_ATTEMPT, F_SESSION, F_NODE, F_VALUE, F_LEASE,
	F_JOB, F_TICK, F_TRY, F_ID, F_STATE, F_CLAIMED, F_ENDED,
	F_EVERY, F_WAIT, F_SUCCESS, F_FAILURES, F_SQLSTATE, F_MESSAGE, NFIELDS
};

static const char *const field_names[NFIELDS] = {
	[F_PROTO] = "le_proto",
	[F_TOKEN] = "le_token",
	[F_ATTEMPT] = "le_attempt",
	[F_SESSION] = "le_session",
	[F_NODE] = "le_node",
	[F_VALUE] = "le_value",
	[F_LEASE] = "le_lease",
	[F_JOB] = "le_job",
	[F_TICK] = "le_tick",
	[F_TRY] = "le_try",
	[F_ID] = "le_id",
	[F_STATE] = "le_state",
	[F_CLAIMED] = "le_claimed",
	[F_ENDED] = "le_ended",
	[F_EVERY] = "le_every",
	[F_WAIT] = "le_wait",
	[F_SUCCESS] = "le_success",
	[F_FAILURES] = "le_failures",
	[F_SQLSTATE] = "le_sqlstate",
	[F_MESSAGE] = "le_message",
};

/* How the service shows a blob's lease. */
typedef enum Lease
{
	LEASE_FREE,					/* never taken, or released */
	LEASE_EXPIRED,				/* free, too, unless a renewal comes late */
	LEASE_HELD,					/* also until a break takes effect */
	LEASE_BROKEN,				/* ended by somebody, perhaps too early */
	LEASE_UNCLEAR
} Lease;

/* A blob, as far as an answer shows it. */
typedef struct Blob
{
	const char *fields[NFIELDS];	/* NULL: not there */
	Lease		lease;
	bool		endless;		/* a lease that does not run out */
} Blob;

static Lease
lease_of(const char *state)
{
	if (strcmp(state, "leased") == 0 || strcmp(state, "breaking") == 0)
		return LEASE_HELD;
	if (strcmp(state, "available") == 0)
		return LEASE_FREE;
	if (strcmp(state, "expired") == 0)
		return LEASE_EXPIRED;
	return strcmp(state, "broken") == 0 ? LEASE_BROKEN : LEASE_UNCLEAR;
}

static void
read_blob(const LeHttpResponse *response, Blob *blob)
{
	char		value[MAX_FIELD_LEN + 1];

	memset(blob, 0, sizeof(*blob));
	for (int i = 0; i < NFIELDS; i++)
		if (le_header(response, psprintf("x-ms-meta-%s", field_names[i]),
					  value, sizeof(value)))
			blob->fields[i] = pstrdup(value);
	blob->lease = LEASE_UNCLEAR;
	if (le_header(response, "x-ms-lease-state", value, sizeof(value)))
		blob->lease = lease_of(value);
	blob->endless = blob->lease == LEASE_HELD &&
		le_header(response, "x-ms-lease-duration", value, sizeof(value)) &&
		strcmp(value, "infinite") == 0;
}

/* Digits only, and no more than others take. */
static bool
read_number(const char *text, uint64 *n)
{
	if (text == NULL || text[0] == '\0' || strlen(text) > 19 ||
		strspn(text, "0123456789") != strlen(text))
		return false;
	*n = strtoull(text, NULL, 10);
	return *n <= (uint64) PG_INT64_MAX;
}

static bool
is_id(const char *s)
{
	static const char shape[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	if (s == NULL || strlen(s) != LE_SESSION_LEN)
		return false;
	for (int i = 0; i < LE_SESSION_LEN; i++)
		if (shape[i] == '-' ? s[i] != '-' :
			strchr("0123456789abcdef", s[i]) == NULL)
			return false;
	return true;
}

static bool
has_proto(const Blob *blob)
{
	return blob->fields[F_PROTO] != NULL &&
		strcmp(blob->fields[F_PROTO], psprintf("%d", PROTO)) == 0;
}

/* Is it an election's, written by this extension?  Token 0: by nobody yet. */
static bool
read_term(const Blob *blob, uint64 *token)
{
	return has_proto(blob) && read_number(blob->fields[F_TOKEN], token) &&
		(*token == 0 ||
		 (is_id(blob->fields[F_SESSION]) && is_id(blob->fields[F_ATTEMPT])));
}

static bool
field_is(const Blob *blob, int field, const char *value)
{
	return blob->fields[field] != NULL &&
		strcmp(blob->fields[field], value) == 0;
}

/* The lease id of an attempt. */
static char *
lease_id(const char *attempt)
{
	return le_session_of_incarnation(attempt);
}

static bool
is_claim_id(const char *s)
{
	return s != NULL && s[0] != '\0' && strlen(s) <= LE_CLAIM_ID_LEN &&
		strspn(s, "0123456789abcdef") == strlen(s);
}

/* Milliseconds for people: 0 if they are not there, or are none. */
static int64
read_ms(const char *text)
{
	uint64		ms;

	return read_number(text, &ms) && ms <= LE_MAX_TICK ? (int64) ms : 0;
}

/* What is for people. */
static void
read_report(const Blob *blob, LeClaim *claim)
{
	const char *const *f = blob->fields;
	char	   *message = from_text(f[F_MESSAGE], LE_MAX_MESSAGE_LEN);
	uint64		failures;

	claim->every = read_ms(f[F_EVERY]);
	claim->wait = read_ms(f[F_WAIT]);
	claim->last_success = read_ms(f[F_SUCCESS]);
	claim->failures = read_number(f[F_FAILURES], &failures) &&
		failures < PG_INT32_MAX ? (int) failures : -1;
	if (f[F_SQLSTATE] != NULL && le_valid_sqlstate(f[F_SQLSTATE]))
		claim->sqlstate = f[F_SQLSTATE];
	if (message != NULL)
		claim->message = le_shown_message(message);
}

/* A job's record; false if it is none of ours. */
static bool
read_claim(const Blob *blob, const char *election, LeClaim *claim)
{
	const char *const *f = blob->fields;
	uint64		tick;
	uint64		try;
	uint64		claimed = 0;
	uint64		ended = 0;

	memset(claim, 0, sizeof(*claim));
	claim->job = from_text(f[F_JOB], LE_MAX_JOB_LEN);
	if (!has_proto(blob) || claim->job == NULL ||
		!le_valid_job_name(claim->job) || !is_claim_id(f[F_ID]) ||
		!read_number(f[F_TICK], &tick) || tick > LE_MAX_TICK ||
		!read_number(f[F_TRY], &try) || try < 1 || try >= PG_INT32_MAX ||
		!read_number(f[F_TOKEN], &claim->token) || claim->token == 0 ||
		!le_claim_state_named(f[F_STATE], &claim->state) ||
		!read_number(f[F_CLAIMED], &claimed) || claimed > LE_MAX_TICK ||
		(f[F_ENDED] != NULL &&
		 (!read_number(f[F_ENDED], &ended) || ended > LE_MAX_TICK)))
		return false;
	claim->election = election;
	claim->id = f[F_ID];
	claim->node = shown_name(f[F_NODE]);
	claim->tick = (int64) tick;
	claim->try = (int) try;
	claim->claimed_at = (int64) claimed;
	claim->ended_at = (int64) ended;
	claim->index = claim->token;
	read_report(blob, claim);
	return true;
}

/* ---- requests ---- */

static void
add_line(LeHttpRequest *request, const char *name, const char *value)
{
	appendStringInfo(&request->headers, "%s: %s\n", name, value);
}

static void
add_field(LeHttpRequest *request, int field, const char *value)
{
	add_line(request, psprintf("x-ms-meta-%s", field_names[field]), value);
}

static void
add_number(LeHttpRequest *request, int field, uint64 n)
{
	add_field(request, field, psprintf(UINT64_FORMAT, n));
}

static void
begin(LeHttpRequest *request, const char *method, const char *name,
	  const char *query)
{
	request->method = method;
	appendStringInfoChar(&request->path, '/');
	le_append_encoded(&request->path, name, "/=");
	appendStringInfoString(&request->path, query);
}

static void
begin_lease(LeHttpRequest *request, const char *name, const char *action,
			const char *id)
{
	begin(request, "PUT", name, "?comp=lease");
	add_line(request, "x-ms-lease-action", action);
	add_line(request, "x-ms-lease-id", id);
}

/* An empty blob, which must not be there yet. */
static void
begin_create(LeHttpRequest *request, const char *name)
{
	begin(request, "PUT", name, "");
	add_line(request, "x-ms-blob-type", "BlockBlob");
	add_line(request, "If-None-Match", "*");
	add_number(request, F_PROTO, PROTO);
}

/* All metadata anew: what is not named goes. */
static void
begin_metadata(LeHttpRequest *request, const char *name, const char *etag)
{
	begin(request, "PUT", name, "?comp=metadata");
	add_line(request, "If-Match", etag);
	add_number(request, F_PROTO, PROTO);
}

static void
encode_acquire(const LeOp *op, const char *name, LeHttpRequest *request)
{
	begin(request, "PUT", name, "?comp=lease");
	add_line(request, "x-ms-lease-action", "acquire");
	add_line(request, "x-ms-lease-duration",
			 psprintf("%d", (int) ((op->lease + LE_SEC - 1) / LE_SEC)));
	add_line(request, "x-ms-proposed-lease-id", lease_id(op->attempt));
	add_line(request, "If-Match", op->step.tag);
}

/* The term: by the stamp that begins it, and by each value published in it. */
static void
encode_term(const LeOp *op, const char *name, uint64 token,
			LeHttpRequest *request)
{
	begin_metadata(request, name, op->step.tag);
	add_line(request, "x-ms-lease-id", lease_id(op->attempt));
	add_number(request, F_TOKEN, token);
	add_field(request, F_ATTEMPT, lease_id(op->attempt));
	add_field(request, F_SESSION, op->session);
	add_field(request, F_NODE, to_text(op->node_name));
	add_number(request, F_LEASE, op->lease / LE_MSEC);
	if (op->value != NULL)
		add_field(request, F_VALUE, to_text(op->value));
}

static void
add_ms(LeHttpRequest *request, int field, int64 ms)
{
	if (ms != 0)
		add_number(request, field, ms);
}

/* Of a job that has none yet, or in place of the one whose ETag was read. */
static void
encode_record(const LeOp *op, const char *name, LeHttpRequest *request)
{
	const LeClaim *claim = op->claim;

	if (op->step.tag[0] == '\0')
		begin_create(request, name);
	else
		begin_metadata(request, name, op->step.tag);
	add_field(request, F_JOB, to_text(claim->job));
	add_number(request, F_TICK, claim->tick);
	add_number(request, F_TRY, claim->try);
	add_number(request, F_TOKEN, claim->token);
	add_field(request, F_ID, claim->id);
	add_field(request, F_STATE, le_claim_state_name(claim->state));
	add_field(request, F_NODE, to_text(claim->node ? claim->node : ""));
	add_number(request, F_CLAIMED, claim->claimed_at);
	add_ms(request, F_ENDED, claim->ended_at);
	add_ms(request, F_EVERY, claim->every);
	add_ms(request, F_WAIT, claim->wait);
	add_ms(request, F_SUCCESS, claim->last_success);
	if (claim->failures >= 0)
		add_number(request, F_FAILURES, claim->failures);
	if (claim->sqlstate != NULL)
		add_field(request, F_SQLSTATE, claim->sqlstate);
	if (claim->message != NULL)
		add_field(request, F_MESSAGE, to_text(claim->message));
}

static void
encode_list(const LePlace *place, const LeOp *op, LeHttpRequest *request)
{
	request->method = "GET";
	request->max_answer = MAX_LIST_ANSWER;
	appendStringInfo(&request->path,
					 "?restype=container&comp=list&include=metadata"
					 "&maxresults=%d&prefix=", PAGE_SIZE);
	le_append_encoded(&request->path,
					  name_prefix(place, op->kind == LE_OP_LIST_CLAIMS), "");
	if (op->page != NULL)
	{
		appendStringInfoString(&request->path, "&marker=");
		le_append_encoded(&request->path, op->page, "");
	}
}

static void
encode_step(const LeOp *op, const char *name, LeHttpRequest *request)
{
	uint64		token = op->step.index;

	switch (op->step.number)
	{
		case STEP_HEAD:
			begin(request, "HEAD", name, "");
			break;
		case STEP_WHOSE:
			begin(request, "HEAD", name, "");
			add_line(request, "x-ms-lease-id", op->step.tag);
			break;
		case STEP_CREATE:
			begin_create(request, name);
			add_number(request, F_TOKEN, 0);
			break;
		case STEP_LEASE:
			encode_acquire(op, name, request);
			break;
		case STEP_STAMP:
			encode_term(op, name, token + 1, request);
			break;
		case STEP_CHECK:
		case STEP_RENEW:
			begin_lease(request, name, "renew", lease_id(op->attempt));
			break;
		case STEP_GIVE_BACK:
			begin_lease(request, name, "release", lease_id(op->attempt));
			break;
		default:				/* STEP_WRITE */
			if (op->kind == LE_OP_RELEASE)
				begin_lease(request, name, "release", op->step.tag);
			else if (op->kind == LE_OP_PUBLISH)
				encode_term(op, name, token, request);
			else
				encode_record(op, name, request);
			break;
	}
}

/* The blob that this request of the operation is about. */
static const char *
blob_name(const LePlace *place, const LeOp *op)
{
	switch (op->kind)
	{
		case LE_OP_READ_CLAIM:
			return claim_name(place, op->election, op->job);
		case LE_OP_CLAIM:
		case LE_OP_COMPLETE:
			if (op->step.number != STEP_CHECK)
				return claim_name(place, op->election, op->claim->job);
			return leader_name(place, op->election);
		case LE_OP_RENEW_TERMS:
			return leader_name(place, op->terms[0].election);
		default:
			return leader_name(place, op->election);
	}
}

/*
 * The place of a session has the container's URL: a change of the setting must
 * not send what is about its terms elsewhere.
 */
static void
azure_encode(const LePlace *place, const LeOp *op, LeHttpRequest *request)
{
	if (op->kind == LE_OP_AUTHENTICATE)
	{
		le_azure_ask_token(identity, identity_url, op, request);
		return;
	}
	if (place->part[0] != '\0')
		request->base = place->part;
	request->max_answer = MAX_SMALL_ANSWER;
	add_line(request, "x-ms-version", API_VERSION);
	if (is_list(op))
		encode_list(place, op, request);
	else if (op->kind == LE_OP_RENEW_TERMS)
		begin_lease(request, blob_name(place, op), "renew",
					lease_id(op->terms[0].attempt));
	else if (is_probe(op))
		begin_lease(request, blob_name(place, op), "release", NO_LEASE);
	else
		encode_step(op, blob_name(place, op), request);
}

/* ---- what went wrong ---- */

typedef enum Trouble
{
	NO_BLOB,
	LEASED,						/* by another */
	MOVED,						/* the ETag is another one */
	EXISTS,
	OVER,						/* the lease is not, or no more, ours */
	UNDER_LEASE,				/* it needs a lease that we do not have ... */
	NOT_LEASED,					/* ... or that nobody has any more */
	REFUSED,
	UNKNOWN_ASKER,				/* whoever asks is not known, or may not */
	BUSY						/* and whatever is not in the list */
} Trouble;

static const struct
{
	const char *code;
	Trouble		trouble;
}			codes[] = {
	{"BlobNotFound", NO_BLOB},
	{"LeaseAlreadyPresent", LEASED},
	{"LeaseIsBreakingAndCannotBeAcquired", LEASED},
	{"ConditionNotMet", MOVED},
	{"BlobAlreadyExists", EXISTS},
	{"LeaseIdMismatchWithLeaseOperation", OVER},
	{"LeaseNotPresentWithLeaseOperation", OVER},
	{"LeaseIsBrokenAndCannotBeRenewed", OVER},
	{"LeaseIdMismatchWithBlobOperation", UNDER_LEASE},
	{"LeaseNotPresentWithBlobOperation", NOT_LEASED},
	{"LeaseIdMissing", UNDER_LEASE},
	{"LeaseLost", NOT_LEASED},
	{"ContainerNotFound", REFUSED},
	{"ContainerBeingDeleted", REFUSED},
	{"ContainerDisabled", REFUSED},
	{"ResourceNotFound", REFUSED},
	{"BlobImmutableDueToPolicy", REFUSED},
	{"BlobImmutableDueToLegalHold", REFUSED},
	{"AuthenticationFailed", UNKNOWN_ASKER},
	{"AuthorizationFailure", UNKNOWN_ASKER},
	{"InvalidAuthenticationInfo", UNKNOWN_ASKER},
	{"AuthorizationPermissionMismatch", REFUSED},
	{"OperationTimedOut", BUSY},
	{"ServerBusy", BUSY},
	{"InternalError", BUSY},
};

/* Statuses that mean no to whatever was asked, if the code says nothing. */
static Trouble
trouble_of_status(int status)
{
	switch (status)
	{
		case 400:
		case 403:
		case 405:
		case 413:
		case 414:
		case 431:
			return REFUSED;
		case 401:
			return UNKNOWN_ASKER;
		default:
			return status / 100 == 3 ? UNKNOWN_ASKER : BUSY;
	}
}

static Trouble
trouble_of(int status, const char *code)
{
	for (int i = 0; i < lengthof(codes); i++)
		if (strcmp(code, codes[i].code) == 0)
			return codes[i].trouble;
	return trouble_of_status(status);
}

/* What people are told: never a body, which may quote what was signed. */
static const char *
detail_of(int status, const char *code)
{
	const char *why = "";
	bool		by_sas = identity[0] == '\0';

	if (strcmp(code, "AuthorizationPermissionMismatch") == 0)
		why = by_sas ? " (the SAS needs at least sp=rwl)" :
			" (the identity needs the role Storage Blob Data Contributor)";
	else if (trouble_of(status, code) == UNKNOWN_ASKER && code[0] != '\0')
		why = by_sas ?
			" (is the SAS right and not expired, and is the network allowed?)" :
			" (is the identity's token accepted, and is the network allowed?)";
	return psprintf("HTTP %d: %s%s", status,
					code[0] != '\0' ? code : "no error code", why);
}

/* Without a code the answer is not the service's own. */
static LeCause
cause_of(int status, const char *code)
{
	if (strcmp(code, "AuthorizationPermissionMismatch") == 0 ||
		strcmp(code, "InsufficientAccountPermissions") == 0)
		return LE_CAUSE_PERMISSION;
	if (trouble_of(status, code) != UNKNOWN_ASKER)
		return LE_CAUSE_OTHER;
	return code[0] != '\0' ? LE_CAUSE_STRANGER : LE_CAUSE_NOT_STORE;
}

static void
refuse(int status, const char *code, LeAnswer *answer)
{
	le_fail(answer, LE_REFUSED, detail_of(status, code));
	answer->cause = cause_of(status, code);
}

/* A flight of several requests failed: did any of them do something? */
static void
fail_open(const LeOp *op, LeAnswer *answer, const char *detail)
{
	le_fail(answer, le_op_writes(op->kind) &&
			op->step.number >= first_write(op) && !is_probe(op) ?
			LE_UNKNOWN : LE_UNAVAILABLE, detail);
}

static void
fail_shape(const LeOp *op, const LeHttpResponse *response, LeAnswer *answer)
{
	fail_open(op, answer,
			  psprintf("HTTP %d with an answer that is not Azure's",
					   response->status));
}

static void
fail_network(const LeOp *op, const LeHttpResponse *response, LeAnswer *answer)
{
	const char *error = response->net_error;

	if (response->net == LE_NET_NOT_SENT &&
		op->step.number <= first_write(op))
		le_fail(answer, LE_UNAVAILABLE,
				error != NULL ? error : "no connection");
	else
		fail_open(op, answer, error != NULL ? error : "no answer");
}

static void
conflict(LeAnswer *answer, LeConflict what, const char *detail)
{
	le_fail(answer, LE_CONFLICT, detail);
	answer->conflict = what;
}

static void
changed(LeAnswer *answer)
{
	conflict(answer, LE_CONFLICT_CHANGED, "the blob has changed");
}

/* The term is over, however it ended: there is nothing left to release. */
static void
released(const LeOp *op, LeAnswer *answer)
{
	answer->index = op->index;
}

static void
renewal_lost(LeAnswer *answer, const char *detail)
{
	answer->renewals = palloc0(sizeof(LeRenewal));
	answer->renewals->outcome = LE_LOST;
	answer->renewals->detail = le_clean_detail(detail);
}

static void
show_nothing(LeAnswer *answer)
{
	answer->index = 1;			/* later than anything that never was */
}

/* ---- keys ---- */

static void
show_key(const char *election, const Blob *blob, uint64 token, LeKey *key)
{
	memset(key, 0, sizeof(*key));
	key->election = election;
	key->index = key->token = token;
	key->usable = key->ours = true;
	if (blob->lease == LEASE_FREE || blob->lease == LEASE_EXPIRED)
	{
		/* The service has judged the last lease: nobody is waited for. */
		key->value_session = key->node = "";
		key->released = true;
		return;
	}
	key->value_session = blob->fields[F_SESSION];
	key->node = shown_name(blob->fields[F_NODE]);
	if (blob->lease == LEASE_BROKEN)
		return;					/* free, while its holder may believe */
	key->holder = key->value_session;
	key->value = from_text(blob->fields[F_VALUE], LE_MAX_VALUE_LEN);
}

static LeKey *
add_key(LeAnswer *answer)
{
	answer->keys = palloc0(sizeof(LeKey));
	answer->nkeys = 1;
	return answer->keys;
}

/*
 * Between the lease and the stamp of another's acquire the metadata is that of
 * the term before.  If that was ours, it must not be taken for one that is
 * left behind; and people who ask who leads are not to hear of one that has
 * given up.  So both ask whose the lease is.  Who contends for it need not: he
 * waits for whoever it is, and looks often.
 */
static void
decode_read(const LeOp *op, const Blob *blob, LeAnswer *answer)
{
	uint64		token;

	if (!read_term(blob, &token) || blob->endless)
	{
		add_key(answer)->election = op->election;	/* not to be used */
		if (blob->endless)
			answer->keys->fault = "the blob has an infinite lease, which this extension never takes: end it by \"az storage blob lease break\"";
		return;
	}
	if (token == 0)
	{
		show_nothing(answer);
		return;
	}
	if (op->step.number == STEP_HEAD && blob->lease == LEASE_HELD &&
		(op->for_people || field_is(blob, F_SESSION, op->session)))
	{
		go_on(answer, STEP_WHOSE, token, blob->fields[F_ATTEMPT]);
		return;
	}
	show_key(op->election, blob, token, add_key(answer));
	/* Later than the term, which its holder may take for on. */
	answer->index = answer->keys->holder == NULL ? token + 1 : token;
}

/*
 * The lease is not the one that the metadata names, and its holder has written
 * nothing yet: the election is somebody's, and nobody leads.
 */
static void
show_unnamed(const LeOp *op, LeAnswer *answer)
{
	LeKey	   *key = add_key(answer);

	key->election = op->election;
	key->holder = key->value_session = UNNAMED;
	key->node = "";
	key->index = key->token = answer->index = op->step.index;
	key->usable = key->ours = true;
}

/* ---- acquiring ---- */

/* The blob has moved on since: by a copy of this acquire, or by others. */
static void
judge_moved(const LeOp *op, const Blob *blob, uint64 token, LeAnswer *answer)
{
	bool		next = token == op->index + 1 && blob->lease == LEASE_HELD &&
		field_is(blob, F_SESSION, op->session);

	if (next && field_is(blob, F_ATTEMPT, lease_id(op->attempt)))
		go_on(answer, STEP_RENEW, token, "");
	else if (next)
	{
		conflict(answer, LE_CONFLICT_OWN, "it is held by this node");
		answer->index = token;
	}
	else
		changed(answer);
}

static void
decode_acquire_head(const LeOp *op, const Blob *blob, const char *etag,
					LeAnswer *answer)
{
	uint64		token;

	if (!read_term(blob, &token))
		changed(answer);		/* the next read says that it is not ours */
	else if (token == op->index)
		go_on(answer, STEP_LEASE, token, etag);
	else
		judge_moved(op, blob, token, answer);
}

static void
grant(const LeOp *op, uint64 token, LeAnswer *answer)
{
	answer->index = token;
	answer->trust = op->lease - LE_SEC;
}

/* ---- claims ---- */

/* Is the record as it was when the write was decided on? */
static bool
is_as_read(const LeOp *op, const LeClaim *found)
{
	return op->previous != NULL && strcmp(found->id, op->previous->id) == 0 &&
		found->state == op->previous->state;
}

/* Written, then checked: a record with our id is not yet a yes. */
static void
decode_claim_head(const LeOp *op, const LeClaim *found, const char *etag,
				  LeAnswer *answer)
{
	if (op->kind == LE_OP_READ_CLAIM)
	{
		answer->claims = palloc(sizeof(LeClaim));
		answer->claims[0] = *found;
		answer->nclaims = 1;
	}
	else if (op->kind == LE_OP_CLAIM && strcmp(found->id, op->claim->id) == 0)
		go_on(answer, STEP_CHECK, 0, "");
	else if (op->kind == LE_OP_COMPLETE &&
			 strcmp(found->id, op->claim->id) == 0 &&
			 found->state == op->claim->state)
		answer->index = found->index;	/* by an earlier copy */
	else if (is_as_read(op, found))
		go_on(answer, STEP_WRITE, 0, etag);
	else
		changed(answer);
}

/* ---- answers by step ---- */

static bool
is_about_a_claim(const LeOp *op)
{
	return op->kind == LE_OP_READ_CLAIM || op->kind == LE_OP_CLAIM ||
		op->kind == LE_OP_COMPLETE;
}

static void
decode_claim_blob(const LeOp *op, const Blob *blob, const char *etag,
				  LeAnswer *answer)
{
	LeClaim		found;
	const char *job = op->kind == LE_OP_READ_CLAIM ? op->job : op->claim->job;

	if (!read_claim(blob, op->election, &found) ||
		strcmp(found.job, job) != 0)
		le_fail(answer, LE_REFUSED,
				"the blob of the job is not this extension's");
	else
		decode_claim_head(op, &found, etag, answer);
}

/*
 * A term is released by its lease id, which the metadata has.  One that has
 * run out, too: a renewal that is still under way would take it for another
 * lease's time.
 */
static void
decode_release_head(const LeOp *op, const Blob *blob, LeAnswer *answer)
{
	bool		ends = blob->lease == LEASE_HELD ||
		blob->lease == LEASE_EXPIRED;
	uint64		token;

	if (read_term(blob, &token) && token > 0 && token == op->index &&
		ends && field_is(blob, F_SESSION, op->session))
		go_on(answer, STEP_WRITE, token, blob->fields[F_ATTEMPT]);
	else
		released(op, answer);
}

static void
decode_publish_head(const LeOp *op, const Blob *blob, const char *etag,
					LeAnswer *answer)
{
	uint64		token;

	if (read_term(blob, &token) && token == op->index &&
		field_is(blob, F_ATTEMPT, lease_id(op->attempt)))
		go_on(answer, STEP_WRITE, token, etag);
	else
		changed(answer);
}

static void
decode_head(const LeOp *op, const LeHttpResponse *response, LeAnswer *answer)
{
	char		etag[LE_MAX_TAG_LEN + 1];
	Blob		blob;

	read_blob(response, &blob);
	if (!le_header(response, "ETag", etag, sizeof(etag)) ||
		etag[0] == '\0' || blob.lease == LEASE_UNCLEAR)
		fail_shape(op, response, answer);
	else if (is_about_a_claim(op))
		decode_claim_blob(op, &blob, etag, answer);
	else if (op->kind == LE_OP_ACQUIRE)
		decode_acquire_head(op, &blob, etag, answer);
	else if (op->kind == LE_OP_RELEASE)
		decode_release_head(op, &blob, answer);
	else if (op->kind == LE_OP_PUBLISH)
		decode_publish_head(op, &blob, etag, answer);
	else
		decode_read(op, &blob, answer);
}

/* Does the answer name this lease id? */
static bool
names(const LeHttpResponse *response, const char *id)
{
	char		found[LE_SESSION_LEN + 1];

	return le_header(response, "x-ms-lease-id", found, sizeof(found)) &&
		strcmp(found, id) == 0;
}

static void
decode_created(const LeOp *op, const LeHttpResponse *response,
			   LeAnswer *answer)
{
	char		etag[LE_MAX_TAG_LEN + 1];

	if (le_header(response, "ETag", etag, sizeof(etag)) && etag[0] != '\0')
		go_on(answer, STEP_LEASE, 0, etag);
	else
		fail_shape(op, response, answer);
}

/* A lease was acquired or renewed; but is it ours? */
static void
decode_lease(const LeOp *op, const LeHttpResponse *response, LeAnswer *answer)
{
	if (!names(response, lease_id(op->attempt)))
		fail_shape(op, response, answer);
	else if (op->step.number == STEP_CHECK)
		answer->index = op->token;
	else if (op->step.number == STEP_RENEW)
		grant(op, op->step.index, answer);
	else
		go_on(answer, STEP_STAMP, op->step.index, op->step.tag);
	answer->anchors = answer->outcome == LE_DONE &&
		op->step.number != STEP_CHECK;
}

/* A lease that ran out can be renewed in another's name on Azurite. */
static void
decode_renewal(const LeOp *op, const LeHttpResponse *response,
			   LeAnswer *answer)
{
	char		found[LE_SESSION_LEN + 1];

	if (!le_header(response, "x-ms-lease-id", found, sizeof(found)))
		fail_shape(op, response, answer);
	else if (!names(response, lease_id(op->terms[0].attempt)))
		renewal_lost(answer, "another lease was renewed");
	else
	{
		answer->renewals = palloc0(sizeof(LeRenewal));
		answer->renewals->outcome = LE_DONE;
		answer->renewals->rev = op->terms[0].rev;
		answer->renewals->trust = op->lease - LE_SEC;
	}
}

static void
decode_written(const LeOp *op, LeAnswer *answer)
{
	if (op->kind == LE_OP_CLAIM)
		go_on(answer, STEP_CHECK, 0, "");
	else if (op->kind == LE_OP_COMPLETE)
		answer->index = op->claim->token;
	else
		answer->index = op->index;	/* no publish renews the lease */
}

static void decode_list(const LePlace *place, const LeOp *op,
						const LeHttpResponse *response, LeAnswer *answer);

static void
decode_success(const LePlace *place, const LeOp *op,
			   const LeHttpResponse *response, LeAnswer *answer)
{
	if (is_list(op))
		decode_list(place, op, response, answer);
	else if (op->kind == LE_OP_RENEW_TERMS)
		decode_renewal(op, response, answer);
	else if (is_probe(op))
		released(op, answer);
	else if (op->step.number == STEP_HEAD || op->step.number == STEP_WHOSE)
		decode_head(op, response, answer);
	else if (op->step.number == STEP_CREATE)
		decode_created(op, response, answer);
	else if (op->step.number == STEP_STAMP)
		grant(op, op->step.index + 1, answer);
	else if (op->step.number == STEP_WRITE)
		decode_written(op, answer);
	else
		decode_lease(op, response, answer);
}

/* ---- answers that say no ---- */

/* There is no blob of that name. */
static void
decode_no_blob(const LeOp *op, LeAnswer *answer)
{
	switch (op->kind)
	{
		case LE_OP_READ:
		case LE_OP_WATCH:
			show_nothing(answer);
			break;
		case LE_OP_READ_CLAIM:
			break;
		case LE_OP_RELEASE:
			released(op, answer);
			break;
		case LE_OP_RENEW_TERMS:
			renewal_lost(answer, "the blob is gone");
			break;
		case LE_OP_ACQUIRE:
			if (op->index == 0)
				go_on(answer, STEP_CREATE, 0, "");
			else
				changed(answer);
			break;
		case LE_OP_CLAIM:
			if (op->previous == NULL)
				go_on(answer, STEP_WRITE, 0, "");
			else
				changed(answer);
			break;
		default:
			changed(answer);
			break;
	}
}

/* Of an operation's first request. */
static bool
first_expects(const LeOp *op, Trouble trouble, LeAnswer *answer)
{
	if (trouble == NO_BLOB && !is_list(op))
		decode_no_blob(op, answer);
	else if (trouble == OVER && op->kind == LE_OP_RENEW_TERMS)
		renewal_lost(answer, "the lease is over");
	else if (trouble == OVER && is_probe(op))
		released(op, answer);
	else
		return false;
	return true;
}

/* An ETag that moved is not in here: a copy of the same write may be why. */
static bool
write_expects(const LeOp *op, Trouble trouble, LeAnswer *answer)
{
	if (op->kind == LE_OP_RELEASE && (trouble == OVER || trouble == NO_BLOB))
		released(op, answer);
	else if (trouble == UNDER_LEASE || trouble == NOT_LEASED ||
			 trouble == NO_BLOB ||
			 trouble == EXISTS)
		changed(answer);
	else
		return false;
	return true;
}

static bool
lease_expects(Trouble trouble, LeAnswer *answer)
{
	if (trouble == LEASED)
		conflict(answer, LE_CONFLICT_HELD, "another has the lease");
	else if (trouble == MOVED || trouble == NO_BLOB)
		changed(answer);
	else
		return false;
	return true;
}

/* The trouble that each step may meet without anything being wrong. */
static bool
is_expected(const LeOp *op, Trouble trouble, LeAnswer *answer)
{
	bool		over = trouble == OVER || trouble == NO_BLOB;

	switch (op->step.number)
	{
		case STEP_HEAD:
			return first_expects(op, trouble, answer);
		case STEP_WHOSE:
			if (trouble == UNDER_LEASE)
				show_unnamed(op, answer);
			else if (trouble == NOT_LEASED)
				go_on(answer, STEP_HEAD, 0, "");	/* released meanwhile */
			return trouble == UNDER_LEASE || trouble == NOT_LEASED;
		case STEP_LEASE:
			return lease_expects(trouble, answer);
		case STEP_RENEW:
			if (over)
				changed(answer);
			return over;
		case STEP_CHECK:
			if (over)
				le_fail(answer, LE_LOST, "the term is over");
			return over;
		default:				/* CREATE, STAMP, WRITE */
			return write_expects(op, trouble, answer);
	}
}

/*
 * Would another secret help?  A file may have another SAS by now, whatever was
 * wrong with the last.  A token is not refused with AuthorizationFailure, but
 * networks are.
 */
static bool
may_be_stale(const LeHttpResponse *response, const char *code)
{
	if (identity[0] == '\0')
		return response->status == 401 || response->status == 403;
	return response->status == 401 ||
		strcmp(code, "AuthenticationFailed") == 0;
}

static void
decode_error(const LeOp *op, const LeHttpResponse *response, const char *code,
			 LeAnswer *answer)
{
	Trouble		trouble = trouble_of(response->status, code);

	if (is_expected(op, trouble, answer))
		return;
	/* What was written before the check stays, whatever refused that. */
	if (trouble == REFUSED && op->step.number == STEP_STAMP)
		go_on(answer, STEP_GIVE_BACK, response->status, code);
	else if ((trouble == REFUSED || trouble == UNKNOWN_ASKER) &&
		op->step.number != STEP_CHECK)
		refuse(response->status, code, answer);
	else
		fail_open(op, answer, detail_of(response->status, code));
	answer->stale_secret = may_be_stale(response, code);
}

/*
 * The stamp was refused, so there is no term, and the lease, if it was not
 * given back, ends by itself.  What is told is why the stamp was refused.
 */
static void
given_back(const LeOp *op, LeAnswer *answer)
{
	refuse((int) op->step.index, op->step.tag, answer);
}

static bool
has(const LeHttpResponse *response, const char *header)
{
	char		value[256];

	return le_header(response, header, value, sizeof(value));
}

/* The service's answers to more than it takes, and those of a proxy. */
static void
note_busy(const LeHttpResponse *response, const char *code, LeAnswer *answer)
{
	char		seconds[16];

	if (response->net != LE_NET_OK ||
		(response->status != 429 && response->status != 503 &&
		 strcmp(code, "OperationTimedOut") != 0))
		return;
	answer->busy = true;
	if (le_header(response, "Retry-After", seconds, sizeof(seconds)) &&
		strlen(seconds) <= 4 &&
		strspn(seconds, "0123456789") == strlen(seconds))
		answer->busy_for = atoi(seconds) * LE_SEC;
}

static void
azure_decode(const LePlace *place, const LeOp *op,
			 const LeHttpResponse *response, LeAnswer *answer)
{
	char		code[128];

	memset(answer, 0, sizeof(*answer));
	answer->outcome = LE_DONE;
	if (!le_header(response, "x-ms-error-code", code, sizeof(code)))
		code[0] = '\0';
	if (op->kind == LE_OP_AUTHENTICATE)
		le_azure_take_token(identity, response, answer);
	else if (op->step.number == STEP_GIVE_BACK)
		given_back(op, answer);
	else if (response->net != LE_NET_OK)
		fail_network(op, response, answer);
	else if (response->status >= 200 && response->status <= 202 &&
			 has(response, "x-ms-request-id") &&
			 has(response, "x-ms-version") && code[0] == '\0')
		decode_success(place, op, response, answer);
	else if (has(response, "x-ms-request-id") && code[0] != '\0')
		decode_error(op, response, code, answer);
	else if (response->status == 400 || response->status == 413 ||
			 response->status == 414 || response->status == 431 ||
			 response->status / 100 == 3)
		decode_error(op, response, "", answer);
	else
		fail_shape(op, response, answer);
	note_busy(response, code, answer);
}

/* ---- lists ---- */

typedef struct List
{
	const LePlace *place;
	const LeOp *op;
	char	   *name;			/* of the blob being read */
	Blob		blob;
	LeKey	   *keys;
	int			nkeys;
	LeClaim    *claims;
	int			nclaims;
	char	   *next;
} List;

static bool
list_key(List *list)
{
	char	   *election = election_of(list->place, list->name);
	uint64		token;

	if (election == NULL || !read_term(&list->blob, &token) || token == 0)
		return true;			/* somebody else's, or nobody's yet */
	if (list->blob.lease == LEASE_UNCLEAR)
		return false;
	if (list->keys == NULL)
		list->keys = palloc(PAGE_SIZE * sizeof(LeKey));
	if (list->nkeys == PAGE_SIZE)
		return false;
	show_key(election, &list->blob, token, &list->keys[list->nkeys++]);
	return true;
}

static bool
list_claim(List *list)
{
	LeClaim		claim;

	if (!read_claim(&list->blob, NULL, &claim))
		return true;
	claim.election = election_of_claim(list->place, list->name, claim.job);
	if (claim.election == NULL)
		return true;
	if (list->claims == NULL)
		list->claims = palloc(PAGE_SIZE * sizeof(LeClaim));
	if (list->nclaims == PAGE_SIZE)
		return false;
	list->claims[list->nclaims++] = claim;
	return true;
}

static bool
list_blob(List *list)
{
	bool		ok = list->name != NULL;

	if (ok)
		ok = list->op->kind == LE_OP_LIST_CLAIMS ? list_claim(list) :
			list_key(list);
	list->name = NULL;
	memset(&list->blob, 0, sizeof(Blob));
	list->blob.lease = LEASE_UNCLEAR;
	return ok;
}

/* A value of the metadata, or what is known of the lease. */
static void
list_field(List *list, const LeXmlNode *node, char *text)
{
	if (le_xml_at(node, 3, "Properties") && le_xml_at(node, 4, "LeaseState"))
		list->blob.lease = lease_of(text);
	if (!le_xml_at(node, 3, "Metadata"))
		return;
	for (int i = 0; i < NFIELDS; i++)
		if (le_xml_at(node, 4, field_names[i]))
			list->blob.fields[i] = text;
}

static bool
list_visit(void *arg, const LeXmlNode *node)
{
	List	   *list = arg;
	char	   *text;

	if (!le_xml_at(node, 0, "EnumerationResults"))
		return false;
	if (node->depth == 2 && le_xml_at(node, 1, "NextMarker"))
	{
		list->next = le_xml_text(node);
		return list->next != NULL;
	}
	if (node->depth < 3 || !le_xml_at(node, 1, "Blobs") ||
		!le_xml_at(node, 2, "Blob"))
		return true;
	if (node->depth == 3)
		return list_blob(list);
	if (node->text == NULL)
		return true;			/* of what is in it something else is read */
	if ((text = le_xml_text(node)) == NULL)
		return false;
	if (node->depth == 4 && le_xml_at(node, 3, "Name"))
		list->name = text;
	else if (node->depth == 5)
		list_field(list, node, text);
	return true;
}

static void
decode_list(const LePlace *place, const LeOp *op,
			const LeHttpResponse *response, LeAnswer *answer)
{
	List		list = {.place = place, .op = op};

	list.blob.lease = LEASE_UNCLEAR;
	if (!le_xml_walk(response->body, response->body_len, list_visit, &list))
	{
		fail_shape(op, response, answer);
		return;
	}
	answer->keys = list.keys;
	answer->nkeys = list.nkeys;
	answer->claims = list.claims;
	answer->nclaims = list.nclaims;
	if (list.next != NULL && list.next[0] != '\0')
		answer->page = list.next;
}

static bool
azure_performs(LeOpKind kind)
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
		case LE_OP_AUTHENTICATE:
			return false;
		default:
			return true;
	}
}

/* ---- the store ---- */

/* The default is Azurite's, the service's emulator, on this machine. */
static char *container_url =
	"http://127.0.0.1:10000/devstoreaccount1/leader-election";
static char *prefix = "leader_election";
static char *sas_file = "";
static int	poll_interval = 2000;

static const LeSetting settings[] = {
	{
		.name = "leader_election.azure_container_url",
		.kind = LE_SETTING_URL,
		.brief = "Sets the URL of the blob container that holds the leases.",
		.detail = "A change takes effect with the next store session.",
		.text = &container_url
	},
	{
		.name = "leader_election.azure_prefix",
		.kind = LE_SETTING_PREFIX,
		.brief = "Sets the prefix of the names of all blobs.",
		.detail = "A change takes effect with the next store session.",
		.text = &prefix
	},
	{
		.name = "leader_election.azure_sas_file",
		.kind = LE_SETTING_FILE,
		.brief = "Names the file that holds the shared access signature.",
		.detail = "It is read again on reload, and when the service refuses the signature. Empty means that none is sent.",
		.text = &sas_file
	},
	{
		.name = "leader_election.azure_identity",
		.kind = LE_SETTING_WORD,
		.brief = "Sets the identity in whose name blobs are used, in place of a shared access signature.",
		.detail = "\"system\" is the machine's own, a client id one that was assigned to it, \"workload\" that of a Kubernetes service account. Empty means none.",
		.text = &identity
	},
	{
		.name = "leader_election.azure_identity_url",
		.kind = LE_SETTING_ISSUER,
		.brief = "Sets the URL of the service that gives out the tokens of the machine's identities.",
		.text = &identity_url
	},
	{
		.name = "leader_election.azure_poll_interval",
		.kind = LE_SETTING_MS,
		.brief = "Sets how often an election is looked at that another leads.",
		.ms = &poll_interval,
		.min_ms = 500,
		.max_ms = 30000
	},
};

static const char *
azure_servers(void)
{
	return container_url;
}

static void
azure_place(LePlace *place)
{
	strlcpy(place->prefix, prefix, sizeof(place->prefix));
	strlcpy(place->part, container_url, sizeof(place->part));
}

static const char *
azure_secret_file(void)
{
	return identity[0] == '\0' ? sas_file :
		le_azure_is_workload(identity) ? le_azure_token_file() : "";
}

static const char *
azure_identity(void)
{
	return identity;
}

static void
azure_judge_secret(const char *secret, int64 now, LeFinding *finding)
{
	memset(finding, 0, sizeof(*finding));
	if (identity[0] == '\0')
		le_azure_judge_sas(secret, now, finding);
}

/* The last segment of the path, of 3 to 63 characters. */
static bool
names_container(const char *path)
{
	const char *last = strrchr(path, '/');
	size_t		len = last == NULL ? 0 : strlen(last + 1);

	return len >= 3 && len <= 63 && last[1] != '-' && last[len] != '-' &&
		strspn(last + 1, "abcdefghijklmnopqrstuvwxyz0123456789-$") == len;
}

/* What is wrong with a URL that has the form of one? */
static const char *
azure_url_fault(const char *url)
{
	bool		tls = strncmp(url, "https://", 8) == 0;
	const char *host = url + (tls ? 8 : 7);
	size_t		len = strcspn(host, host[0] == '[' ? "/" : ":/");

	if (host[0] == '[')
		len = strcspn(host, "]") + 1;
	if (strlen(url) > LE_MAX_PART_LEN)
		return psprintf("The URL has at most %d bytes.", LE_MAX_PART_LEN);
	if (!tls && !le_is_loopback(url))
		return "The URL must begin with https:// unless it is of this machine: the signature would go over the network as it is.";
	if (strstr(pnstrdup(host, len), "-secondary.") != NULL)
		return "The secondary endpoint of an account lags behind and takes no leases.";
	if (!names_container(host))
		return "The URL must end in the name of a container: 3 to 63 lower-case letters, digits and \"-\".";
	return NULL;
}

/*
 * In 30 days.  Both renewals and looks come up to a tenth of their interval
 * early, a twentieth on the average.
 */
static double
monthly(le_duration interval, int elections)
{
	return elections * 30.0 * 86400 * LE_SEC / (Max(interval, LE_MSEC) * 0.95);
}

/* A sample price, of "all other operations", in the Hot tier. */
#define PRICE	(0.0044 / 10000)

/* By what does the service know this instance? */
static int
explain_identity(LeFinding *finding)
{
	const char *fault = le_azure_is_workload(identity) ?
		le_azure_workload_fault() : NULL;

	finding->topic = "secrets";
	finding->level = LE_LEVEL_ERROR;
	if (fault != NULL)
		finding->text = psprintf("\"leader_election.azure_identity\" is \"workload\": %s",
								 fault);
	else if (identity[0] != '\0' && sas_file[0] != '\0')
	{
		finding->level = LE_LEVEL_WARNING;
		finding->text = "Both \"leader_election.azure_identity\" and \"leader_election.azure_sas_file\" are set: the signature is not used.";
	}
	else if (identity[0] == '\0' && sas_file[0] == '\0')
		finding->text = "Neither \"leader_election.azure_sas_file\" nor \"leader_election.azure_identity\" is set: the service does not know who asks.";
	else
		return 0;
	return 1;
}

static int
azure_explain(const LeTiming *timing, int elections, LeFinding *findings)
{
	int			n = Max(elections, 1);
	double		leads = monthly(timing->renew_interval, n);
	double		waits = monthly(poll_interval * LE_MSEC, n);

	findings[0] = (LeFinding)
	{
		.level = LE_LEVEL_OK,
		.topic = "failover",
		.text = psprintf("After a crash another candidate leads within %d ms plus a few requests: lease_ttl in whole seconds + azure_poll_interval. Azure's documents allow it a minute until an expired lease can be taken.",
						 (int) ((timing->lease + LE_SEC - 1) / LE_SEC * 1000) +
						 poll_interval)
	};
	findings[1] = (LeFinding)
	{
		.level = LE_LEVEL_OK,
		.topic = "cost",
		.text = psprintf("%d %s about %.0f requests of this instance in 30 days if it leads (one each renew_interval, %d ms) and %.0f if it waits (azure_poll_interval, %d ms): %.2f to %.2f $ at a sample price of 0.0044 $ per 10,000.",
						 n, n == 1 ? "election takes" : "elections take",
						 leads, (int) (timing->renew_interval / LE_MSEC),
						 waits, poll_interval, Min(leads, waits) * PRICE,
						 Max(leads, waits) * PRICE)
	};
	return 2 + explain_identity(&findings[2]);
}

const LeStore le_store_azure = {
	.name = "azure",
	.between_instances = true,
	.key_leases = true,
	.renews_apart = true,
	.claims_apart = true,
	.least_lease = 15 * LE_SEC,
	.most_lease = LE_MAX_LEASE,
	.granularity = LE_SEC,
	.max_renewals = 1,
	.watching = LE_WATCH_EACH,
	.park_grace_ms = 5000,
	.max_parked = MAX_PARKED,
	.poll_ms = &poll_interval,
	.lists_all_claims = true,
	.settings = settings,
	.nsettings = lengthof(settings),
	.servers = azure_servers,
	.url_setting = "leader_election.azure_container_url",
	.url_fault = azure_url_fault,
	.place = azure_place,
	.secret_file = azure_secret_file,
	.secret_setting = "leader_election.azure_sas_file",
	.authenticates = azure_identity,
	.fetched_header = "Authorization: Bearer ",
	.judge_secret = azure_judge_secret,
	.place_check = LE_OP_LIST_HELD,
	.place_verb = "list blobs",
	.foreign_key = "the blob was not written by this extension",
	.explain = azure_explain,
	.encode = azure_encode,
	.decode = azure_decode,
	.performs = azure_performs,
	.perform = le_perform_session,
};
