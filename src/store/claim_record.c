/*-------------------------------------------------------------------------
 *
 * claim_record.c
 *		The record of a claim as text, and the key of a job.
 *
 * Stores that keep claims as text (Consul, and the file of the store "local")
 * all use this form, JSON in UTF-8:
 *
 *		{"proto":1,"node":N,"job":J,"tick":MS,"try":N,"token":N,"claim":ID,
 *		 "state":"running","claimed_at":MS,"ended_at":MS,
 *		 "every":MS,"wait":MS,"failures":N,"last_success":MS,
 *		 "missed":N,"missed_from":MS,"missed_to":MS,"writes":N,
 *		 "sqlstate":CODE,"message":TEXT}
 *
 * Each field from ended_at on may be missing, but of the three about missed
 * ticks all or none.  A reader ignores unknown fields, so a later version may
 * add some.
 *
 * The job's key is ELECTION/JOB with the job's name escaped, so that the last
 * slash is the one between the two.
 *
 * src/store/claim_record.c
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

#define PROTO	1

/*
 * Escapes characters that are special in keys or in URLs, and a leading dot,
 * since a proxy might fold the segments "." and "..".
 */
void
le_claim_append_key(StringInfo key, const char *election, const char *job)
{
	const char *plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"abcdefghijklmnopqrstuvwxyz0123456789-_";

	appendStringInfo(key, "%s/", election);
	for (const char *s = job; *s != '\0'; s++)
	{
		if (strchr(plain, *s) != NULL || (*s == '.' && s != job))
			appendStringInfoChar(key, *s);
		else
			appendStringInfo(key, "%%%02X", (unsigned char) *s);
	}
}

static int
hex_value(char c)
{
	const char *digits = "0123456789ABCDEF";
	const char *found = c == '\0' ? NULL : strchr(digits, c);

	return found == NULL ? -1 : (int) (found - digits);
}

/* Reverses the escaping; NULL if the text is none of ours. */
static char *
unescape(const char *s)
{
	char	   *job = palloc(strlen(s) + 1);
	char	   *to = job;

	while (*s != '\0')
	{
		int			high;
		int			low;

		if (*s != '%')
		{
			*to++ = *s++;
			continue;
		}
		high = hex_value(s[1]);
		low = high < 0 ? -1 : hex_value(s[2]);
		if (low < 0 || high * 16 + low == 0)
			return NULL;
		*to++ = (char) (high * 16 + low);
		s += 3;
	}
	*to = '\0';
	return job;
}

/* False if no claim of ours has that key. */
bool
le_claim_split_key(const char *key, char **election, char **job)
{
	const char *slash = strrchr(key, '/');
	StringInfoData again;

	if (slash == NULL)
		return false;
	*election = pnstrdup(key, slash - key);
	*job = unescape(slash + 1);
	if (*job == NULL || !le_valid_job_name(*job) ||
		!le_valid_election_name(*election))
		return false;
	/* One name, one key. */
	initStringInfo(&again);
	le_claim_append_key(&again, *election, *job);
	return strcmp(again.data, key) == 0;
}

static void
append_ms(StringInfo text, const char *name, int64 ms)
{
	if (ms != 0)
		appendStringInfo(text, ",\"%s\":" INT64_FORMAT, name, ms);
}

void
le_claim_append_text(StringInfo text, const LeClaim *claim)
{
	appendStringInfo(text, "{\"proto\":%d,\"node\":", PROTO);
	le_json_append_string(text, claim->node);
	appendStringInfoString(text, ",\"job\":");
	le_json_append_string(text, claim->job);
	appendStringInfo(text, ",\"tick\":" INT64_FORMAT ",\"try\":%d,"
					 "\"token\":" UINT64_FORMAT ",\"claim\":\"%s\","
					 "\"state\":\"%s\",\"claimed_at\":" INT64_FORMAT,
					 claim->tick, claim->try, claim->token, claim->id,
					 le_claim_state_name(claim->state), claim->claimed_at);
	append_ms(text, "ended_at", claim->ended_at);
	append_ms(text, "every", claim->every);
	append_ms(text, "wait", claim->wait);
	append_ms(text, "last_success", claim->last_success);
	if (claim->gap.n > 0)
		appendStringInfo(text, ",\"missed\":" INT64_FORMAT
						 ",\"missed_from\":" INT64_FORMAT
						 ",\"missed_to\":" INT64_FORMAT, claim->gap.n,
						 claim->gap.first, claim->gap.last);
	if (claim->writes > 0)
		appendStringInfo(text, ",\"writes\":" UINT64_FORMAT, claim->writes);
	if (claim->failures >= 0)
		appendStringInfo(text, ",\"failures\":%d", claim->failures);
	if (claim->sqlstate != NULL)
		appendStringInfo(text, ",\"sqlstate\":\"%s\"", claim->sqlstate);
	if (claim->message != NULL)
	{
		appendStringInfoString(text, ",\"message\":");
		le_json_append_string(text, claim->message);
	}
	appendStringInfoChar(text, '}');
}

typedef struct Record
{
	uint64		proto;
	char	   *node;
	char	   *job;
	char	   *id;
	uint64		tick;
	bool		has_tick;
	uint64		try;
	uint64		token;
	bool		has_state;
	LeClaimState state;
	uint64		claimed_at;
	uint64		ended_at;
	uint64		every;
	uint64		wait;
	uint64		last_success;
	uint64		missed;
	uint64		missed_from;
	uint64		missed_to;
	uint64		writes;
	bool		has_failures;
	uint64		failures;
	char	   *sqlstate;
	char	   *message;
} Record;

/* The fields about ticks that were passed over. */
static bool
gap_visit(Record *r, const LeJsonNode *node)
{
	uint64	   *to = le_json_at(node, 0, "missed") ? &r->missed :
		le_json_at(node, 0, "missed_from") ? &r->missed_from :
		le_json_at(node, 0, "missed_to") ? &r->missed_to : NULL;

	return to == NULL || le_json_uint64(node, to);
}

/* The fields for people. */
static bool
report_visit(Record *r, const LeJsonNode *node)
{
	if (le_json_at(node, 0, "every"))
		return le_json_uint64(node, &r->every);
	if (le_json_at(node, 0, "wait"))
		return le_json_uint64(node, &r->wait);
	if (le_json_at(node, 0, "last_success"))
		return le_json_uint64(node, &r->last_success);
	if (le_json_at(node, 0, "writes"))
		return le_json_uint64(node, &r->writes);
	if (le_json_at(node, 0, "failures"))
		return r->has_failures = le_json_uint64(node, &r->failures);
	if (le_json_at(node, 0, "sqlstate"))
		return (r->sqlstate = le_json_string(node, LE_SQLSTATE_LEN)) != NULL;
	if (le_json_at(node, 0, "message"))
		return (r->message = le_json_string(node, LE_MAX_MESSAGE_LEN)) != NULL;
	return gap_visit(r, node);
}

static bool
record_visit(void *arg, const LeJsonNode *node)
{
	Record	   *r = arg;

	if (node->depth == 0)
		return node->type == LE_JSON_OBJECT;
	if (node->depth > 1)
		return true;
	if (le_json_at(node, 0, "proto"))
		return le_json_uint64(node, &r->proto);
	if (le_json_at(node, 0, "node"))
		return (r->node = le_json_string(node, LE_MAX_NODE_NAME_LEN)) != NULL;
	if (le_json_at(node, 0, "job"))
		return (r->job = le_json_string(node, LE_MAX_JOB_LEN)) != NULL;
	if (le_json_at(node, 0, "claim"))
		return (r->id = le_json_string(node, LE_CLAIM_ID_LEN)) != NULL;
	if (le_json_at(node, 0, "tick"))
		return r->has_tick = le_json_uint64(node, &r->tick);
	if (le_json_at(node, 0, "try"))
		return le_json_uint64(node, &r->try);
	if (le_json_at(node, 0, "token"))
		return le_json_uint64(node, &r->token);
	if (le_json_at(node, 0, "state"))
	{
		char	   *name = le_json_string(node, LE_MAX_JOB_LEN);

		return r->has_state = le_claim_state_named(name, &r->state);
	}
	if (le_json_at(node, 0, "claimed_at"))
		return le_json_uint64(node, &r->claimed_at);
	if (le_json_at(node, 0, "ended_at"))
		return le_json_uint64(node, &r->ended_at);
	return report_visit(r, node);
}

/* May a name be shown? */
static bool
is_shown(const char *s)
{
	for (; *s != '\0'; s++)
	{
		if ((unsigned char) *s < ' ' || *s == 0x7f)
			return false;
	}
	return true;
}

/* False if some of the fields are missing or contradict each other. */
static bool
take_gap(const Record *r, LeGap *gap)
{
	if (r->missed == 0 && r->missed_from == 0 && r->missed_to == 0)
		return true;
	if (r->missed > LE_MAX_TICK || r->missed_from > LE_MAX_TICK ||
		r->missed_to > LE_MAX_TICK)
		return false;
	gap->n = (int64) r->missed;
	gap->first = (int64) r->missed_from;
	gap->last = (int64) r->missed_to;
	return le_valid_gap(gap, (int64) r->tick);
}

static bool
complete(const Record *r)
{
	return r->proto == PROTO && r->node != NULL && is_shown(r->node) &&
		r->job != NULL && le_valid_job_name(r->job) &&
		r->id != NULL && r->id[0] != '\0' && is_shown(r->id) &&
		r->has_tick && r->tick <= LE_MAX_TICK &&
		r->try >= 1 && r->try < PG_INT32_MAX &&
		r->token >= 1 && r->token < LE_NO_INDEX && r->has_state &&
		r->claimed_at <= LE_MAX_TICK && r->ended_at <= LE_MAX_TICK &&
		r->every <= LE_MAX_TICK && r->wait <= LE_MAX_TICK &&
		r->last_success <= LE_MAX_TICK && r->failures < PG_INT32_MAX &&
		r->writes < LE_NO_INDEX &&
		(r->sqlstate == NULL || le_valid_sqlstate(r->sqlstate));
}

/*
 * Reads all but the election and the index, which are not in the text.  False
 * if it is no record of ours; a higher protocol may use the same words in
 * another sense.
 */
bool
le_claim_parse(const char *text, size_t len, LeClaim *claim)
{
	Record		r;

	memset(&r, 0, sizeof(r));
	memset(claim, 0, sizeof(*claim));
	if (!le_json_walk(text, len, record_visit, &r) || !complete(&r) ||
		!take_gap(&r, &claim->gap))
		return false;
	claim->job = r.job;
	claim->tick = (int64) r.tick;
	claim->try = (int) r.try;
	claim->id = r.id;
	claim->token = r.token;
	claim->node = r.node;
	claim->state = r.state;
	claim->claimed_at = (int64) r.claimed_at;
	claim->ended_at = (int64) r.ended_at;
	claim->every = (int64) r.every;
	claim->wait = (int64) r.wait;
	claim->writes = r.writes;
	claim->last_success = (int64) r.last_success;
	claim->failures = r.has_failures ? (int) r.failures : -1;
	claim->sqlstate = r.sqlstate;
	claim->message = r.message == NULL ? NULL : le_shown_message(r.message);
	return true;
}
