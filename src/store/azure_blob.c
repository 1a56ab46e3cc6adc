/*-------------------------------------------------------------------------
 *
 * azure_blob.c
 *		Blobs of the store "azure": their names, metadata and leases.
 *
 * src/store/azure_blob.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "mb/pg_wchar.h"

#include "store/azure_blob.h"
#include "store/json.h"

/* As long as any value of ours in the metadata: base64 of the longest. */
#define MAX_FIELD_LEN	(LE_MAX_VALUE_LEN / 3 * 4 + 8)

/* A value of no bytes; a header must not be empty. */
#define EMPTY_VALUE		"="

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

/* "~" is in no election's name.  So "a" and "a/b" are never one blob, nor is
 * one the directory of the other. */
char *
le_azure_leader_name(const LeNamespace *ns, const char *election)
{
	StringInfoData name;

	initStringInfo(&name);
	append_path(&name, psprintf("%s/%s", ns->prefix, election));
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
char *
le_azure_claim_name(const LeNamespace *ns, const char *election,
					const char *job)
{
	StringInfoData name;

	initStringInfo(&name);
	append_path(&name, ns->prefix);
	appendStringInfoString(&name, "~claims/");
	append_path(&name, election);
	appendStringInfoString(&name, "~/");
	append_job(&name, job);
	return name.data;
}

/* The common prefix of the names of all keys, or of all claims. */
char *
le_azure_name_prefix(const LeNamespace *ns, bool claims)
{
	StringInfoData name;

	initStringInfo(&name);
	if (claims)
	{
		append_path(&name, ns->prefix);
		appendStringInfoString(&name, "~claims/");
	}
	else
		append_path(&name, psprintf("%s/", ns->prefix));
	return name.data;
}

/* The election in the middle of a name; NULL if it is none of ours. */
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

/* The election of a blob; NULL: the blob belongs to none. */
char *
le_azure_election_of(const LeNamespace *ns, const char *name)
{
	const char *prefix = le_azure_name_prefix(ns, false);
	const char *end = strrchr(name, '~');
	char	   *election;

	if (strncmp(name, prefix, strlen(prefix)) != 0 || end == NULL ||
		end < name + strlen(prefix))
		return NULL;
	election = election_between(name + strlen(prefix), end);
	if (election == NULL ||
		strcmp(le_azure_leader_name(ns, election), name) != 0)
		return NULL;
	return election;
}

/* The election of a claim's blob, if the blob belongs to the job. */
char *
le_azure_election_of_claim(const LeNamespace *ns, const char *name,
						   const char *job)
{
	const char *prefix = le_azure_name_prefix(ns, true);
	const char *end = strrchr(name, '/');
	char	   *election;

	if (strncmp(name, prefix, strlen(prefix)) != 0 || end == NULL ||
		end < name + strlen(prefix))
		return NULL;
	election = election_between(name + strlen(prefix), end);
	if (election == NULL ||
		strcmp(le_azure_claim_name(ns, election, job), name) != 0)
		return NULL;
	return election;
}

/* ---- text in metadata: base64url without padding ---- */

char *
le_azure_to_text(const char *s)
{
	StringInfoData text;

	initStringInfo(&text);
	le_base64_append(&text, s, (int) strlen(s));
	text.data[strcspn(text.data, "=")] = '\0';
	for (char *p = text.data; *p != '\0'; p++)
		*p = *p == '+' ? '-' : *p == '/' ? '_' : *p;
	return text.data[0] == '\0' ? pstrdup(EMPTY_VALUE) : text.data;
}

/* NULL: not written by us, or not UTF-8 of at most so many bytes. */
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

/* A name for people, without characters that a terminal would obey. */
static char *
shown_name(const char *text)
{
	char	   *name = from_text(text, LE_MAX_NODE_NAME_LEN);

	return name == NULL ? pstrdup("?") : le_shown_name(name, strlen(name));
}

/* ---- metadata ---- */

const char *const le_azure_field_names[LE_AZURE_NFIELDS] = {
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
	[F_MISSED] = "le_missed",
	[F_MISSED_FROM] = "le_missed_from",
	[F_MISSED_TO] = "le_missed_to",
	[F_WRITES] = "le_writes",
	[F_FAILURES] = "le_failures",
	[F_SQLSTATE] = "le_sqlstate",
	[F_MESSAGE] = "le_message",
};

LeAzureLease
le_azure_lease_of(const char *state)
{
	if (strcmp(state, "leased") == 0 || strcmp(state, "breaking") == 0)
		return LE_AZURE_HELD;
	if (strcmp(state, "available") == 0)
		return LE_AZURE_FREE;
	if (strcmp(state, "expired") == 0)
		return LE_AZURE_EXPIRED;
	return strcmp(state, "broken") == 0 ? LE_AZURE_BROKEN : LE_AZURE_UNCLEAR;
}

void
le_azure_read_blob(const LeResponse *response, LeAzureBlob *blob)
{
	char		value[MAX_FIELD_LEN + 1];

	memset(blob, 0, sizeof(*blob));
	for (int i = 0; i < LE_AZURE_NFIELDS; i++)
		if (le_header(response,
					  psprintf("x-ms-meta-%s", le_azure_field_names[i]),
					  value, sizeof(value)))
			blob->fields[i] = pstrdup(value);
	blob->lease = LE_AZURE_UNCLEAR;
	if (le_header(response, "x-ms-lease-state", value, sizeof(value)))
		blob->lease = le_azure_lease_of(value);
	blob->endless = blob->lease == LE_AZURE_HELD &&
		le_header(response, "x-ms-lease-duration", value, sizeof(value)) &&
		strcmp(value, "infinite") == 0;
}

/* Digits only, and at most a bigint. */
static bool
read_number(const char *text, uint64 *n)
{
	if (text == NULL || text[0] == '\0' || strlen(text) > 19 ||
		strspn(text, "0123456789") != strlen(text))
		return false;
	*n = strtoull(text, NULL, 10);
	return *n < LE_NO_INDEX;
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
has_proto(const LeAzureBlob *blob)
{
	return blob->fields[F_PROTO] != NULL &&
		strcmp(blob->fields[F_PROTO], psprintf("%d", LE_AZURE_PROTO)) == 0;
}

/* Is it an election's, written by this extension?  Token 0: no term yet. */
bool
le_azure_read_term(const LeAzureBlob *blob, uint64 *token)
{
	return has_proto(blob) && read_number(blob->fields[F_TOKEN], token) &&
		(*token == 0 ||
		 (is_id(blob->fields[F_SESSION]) && is_id(blob->fields[F_ATTEMPT])));
}

bool
le_azure_field_is(const LeAzureBlob *blob, int field, const char *value)
{
	return blob->fields[field] != NULL &&
		strcmp(blob->fields[field], value) == 0;
}

/* The lease id of an attempt. */
char *
le_azure_lease_id(const char *attempt)
{
	return le_session_of_incarnation(attempt);
}

static bool
is_claim_id(const char *s)
{
	return s != NULL && s[0] != '\0' && strlen(s) <= LE_CLAIM_ID_LEN &&
		strspn(s, "0123456789abcdef") == strlen(s);
}

/* Milliseconds for people: 0 if missing or invalid. */
static int64
read_ms(const char *text)
{
	uint64		ms;

	return read_number(text, &ms) && ms <= LE_MAX_TICK ? (int64) ms : 0;
}

/* Ticks that were passed over: none if a field is missing or invalid. */
static void
read_gap(const LeAzureBlob *blob, LeClaim *claim)
{
	const char *const *f = blob->fields;
	LeGap		gap = {0};

	gap.n = read_ms(f[F_MISSED]);
	gap.first = read_ms(f[F_MISSED_FROM]);
	gap.last = read_ms(f[F_MISSED_TO]);
	if (le_valid_gap(&gap, claim->tick))
		claim->gap = gap;
}

/* The fields for people. */
static void
read_report(const LeAzureBlob *blob, LeClaim *claim)
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
bool
le_azure_read_claim(const LeAzureBlob *blob, const char *election,
					LeClaim *claim)
{
	const char *const *f = blob->fields;
	uint64		tick;
	uint64		try;
	uint64		claimed = 0;
	uint64		ended = 0;
	uint64		writes;

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
	if (read_number(f[F_WRITES], &writes) && writes < LE_NO_INDEX)
		claim->writes = writes;
	read_gap(blob, claim);
	read_report(blob, claim);
	return true;
}

/* ---- keys ---- */

void
le_azure_show_key(const char *election, const LeAzureBlob *blob,
				  uint64 token, LeKey *key)
{
	memset(key, 0, sizeof(*key));
	key->election = election;
	key->index = key->token = token;
	key->usable = key->ours = true;
	if (blob->lease == LE_AZURE_FREE || blob->lease == LE_AZURE_EXPIRED)
	{
		/* The service has judged the last lease: there is no wait. */
		key->value_session = key->node = "";
		key->released = true;
		return;
	}
	key->value_session = blob->fields[F_SESSION];
	key->node = shown_name(blob->fields[F_NODE]);
	if (blob->lease == LE_AZURE_BROKEN)
		return;					/* free, while its holder may believe */
	key->holder = key->value_session;
	key->value = from_text(blob->fields[F_VALUE], LE_MAX_VALUE_LEN);
}
