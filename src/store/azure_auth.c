/*-------------------------------------------------------------------------
 *
 * azure_auth.c
 *		Authentication to Azure: signatures and identities.
 *
 * A shared access signature (SAS) is a query that shows its end and, in
 * letters, its permissions to any reader; only the service can check it.
 *
 * The identity of a machine gets its tokens from the metadata service of the
 * machine (IMDS), which no other machine can ask.  The identity of a workload
 * in Kubernetes exchanges a token from a file for one of Azure's, with
 * parameters from the environment, where Azure's webhook puts them.
 *
 * No part of either service's answers is shown: it may quote the request.
 *
 * src/store/azure_auth.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include <time.h>

#include "store/azure_auth.h"
#include "store/json.h"

#define AUDIENCE		"https://storage.azure.com/"
#define LOGIN			"https://login.microsoftonline.com"

/* Longer than any answer with a token in it. */
#define MAX_TOKEN_ANSWER	(64 * 1024)

/* A SAS with less time left causes a warning. */
#define SAS_WARNING		(INT64CONST(7) * 86400 * 1000)

char	   *le_azure_identity = "";
char	   *le_azure_identity_url = "http://169.254.169.254";

/* ---- tokens ---- */

static const char *
environment(const char *name)
{
	const char *value = getenv(name);

	return value == NULL ? "" : value;
}

/* The file that Kubernetes renews; "": the environment names none. */
const char *
le_azure_token_file(void)
{
	return environment("AZURE_FEDERATED_TOKEN_FILE");
}

/* Plain http only to this machine, where a stand-in may be. */
static bool
is_safe(const char *url)
{
	return (strncmp(url, "https://", 8) == 0 ||
			strncmp(url, "http://127.0.0.1:", 17) == 0) &&
		strpbrk(url, " ?#,@\r\n") == NULL;
}

static const char *
authority(void)
{
	const char *url = environment("AZURE_AUTHORITY_HOST");

	return url[0] == '\0' ? LOGIN : url;
}

/* The environment's fault that keeps out a workload's identity, or NULL. */
const char *
le_azure_workload_fault(void)
{
	static const char *const names[] = {
		"AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_ID", "AZURE_TENANT_ID"
	};

	for (int i = 0; i < lengthof(names); i++)
		if (environment(names[i])[0] == '\0')
			return psprintf("The server's environment has no %s.", names[i]);
	if (!is_safe(authority()))
		return "AZURE_AUTHORITY_HOST in the server's environment does not begin with https://.";
	return NULL;
}

bool
le_azure_is_workload(const char *identity)
{
	return strcmp(identity, LE_AZURE_WORKLOAD) == 0;
}

static void
ask_metadata(const char *identity, const char *url, LeRequest *request)
{
	request->http.method = "GET";
	request->base = url;
	appendStringInfoString(&request->http.path,
						   "/metadata/identity/oauth2/token"
						   "?api-version=2018-02-01&resource=");
	le_append_encoded(&request->http.path, AUDIENCE, "");
	if (strcmp(identity, LE_AZURE_SYSTEM) != 0)
	{
		appendStringInfoString(&request->http.path, "&client_id=");
		le_append_encoded(&request->http.path, identity, "");
	}
	appendStringInfoString(&request->http.headers, "Metadata: true\n");
}

static void
add_pair(StringInfo form, const char *name, const char *value)
{
	appendStringInfo(form, "%s%s=", form->len == 0 ? "" : "&", name);
	le_append_encoded(form, value, "");
}

/* No token goes to a host that is not known to be safe. */
static void
exchange_token(const LeOp *op, LeRequest *request)
{
	const char *host = is_safe(authority()) ? authority() : LOGIN;
	size_t		len = strlen(host);

	while (len > 0 && host[len - 1] == '/')
		len--;
	request->http.method = "POST";
	request->base = pnstrdup(host, len);
	request->http.has_body = true;
	appendStringInfoChar(&request->http.path, '/');
	le_append_encoded(&request->http.path, environment("AZURE_TENANT_ID"), "");
	appendStringInfoString(&request->http.path, "/oauth2/v2.0/token");
	appendStringInfoString(&request->http.headers,
						   "Content-Type: application/x-www-form-urlencoded\n");
	add_pair(&request->http.body, "grant_type", "client_credentials");
	add_pair(&request->http.body, "client_id", environment("AZURE_CLIENT_ID"));
	add_pair(&request->http.body, "scope", AUDIENCE ".default");
	add_pair(&request->http.body, "client_assertion_type",
			 "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
	add_pair(&request->http.body, "client_assertion",
			 op->secret == NULL ? "" : op->secret);
}

/* "url" is the metadata service's. */
void
le_azure_ask_token(const char *identity, const char *url, const LeOp *op,
				   LeRequest *request)
{
	request->without_secret = true;
	request->max_answer = MAX_TOKEN_ANSWER;
	if (le_azure_is_workload(identity))
		exchange_token(op, request);
	else
		ask_metadata(identity, url, request);
}

typedef struct Token
{
	char	   *value;
	uint64		expires_in;		/* seconds */
} Token;

/* A number, which the metadata service puts between quotes. */
static bool
take_seconds(const LeJsonNode *node, uint64 *seconds)
{
	char	   *text;

	if (node->type != LE_JSON_STRING)
		return le_json_uint64(node, seconds);
	text = le_json_string(node, 10);
	if (text == NULL || text[0] == '\0' ||
		strspn(text, "0123456789") != strlen(text))
		return false;
	*seconds = strtoull(text, NULL, 10);
	return true;
}

static bool
token_visit(void *arg, const LeJsonNode *node)
{
	Token	   *token = arg;

	if (node->depth == 0)
		return node->type == LE_JSON_OBJECT;
	if (node->depth > 1)
		return true;
	if (le_json_at(node, 0, "access_token"))
		return (token->value = le_json_string(node,
											  LE_MAX_SECRET_LEN - 1)) != NULL;
	if (le_json_at(node, 0, "expires_in"))
		return take_seconds(node, &token->expires_in);
	return true;
}

/* The token becomes a header: no character may end or change that. */
static bool
is_token(const char *s)
{
	const char *p = s;

	while (*p > ' ' && *p < 0x7f)
		p++;
	return p > s && *p == '\0';
}

static bool
read_token(const LeResponse *response, Token *token)
{
	memset(token, 0, sizeof(*token));
	return le_json_walk(response->body, response->body_len, token_visit,
						token) &&
		token->value != NULL && is_token(token->value) &&
		token->expires_in > 0 && token->expires_in < PG_INT32_MAX;
}

/*
 * Why is there no token?  400 says that the machine has no such identity, 401
 * and 403 that it may not be used.  404 and 410 come while the metadata
 * service is updated, 429 if it was asked too often: they pass.
 */
static void
refuse_token(const char *identity, const LeResponse *response,
			 LeAnswer *answer)
{
	int			status = response->http.status;
	const char *whom = le_azure_is_workload(identity) ? "Microsoft Entra" :
		"the machine's metadata service";
	bool		refused = status == 400 || status == 401 || status == 403;

	if (response->net != LE_NET_OK)
		le_fail(answer, LE_UNAVAILABLE,
				psprintf("no token from %s: %s", whom,
						 response->net_error ? response->net_error :
						 "no answer"));
	else if (status == 200)
		le_fail(answer, LE_UNAVAILABLE,
				psprintf("no token from %s: its answer has none", whom));
	else
		le_fail(answer, refused ? LE_REFUSED : LE_UNAVAILABLE,
				psprintf("no token from %s: HTTP %d%s", whom, status,
						 status == 400 ? " (is this identity assigned?)" :
						 ""));
	answer->cause = refused ? LE_CAUSE_STRANGER : LE_CAUSE_OTHER;
}

void
le_azure_take_token(const char *identity, const LeResponse *response,
					LeAnswer *answer)
{
	Token		token;

	if (response->net == LE_NET_OK && response->http.status == 200 &&
		read_token(response, &token))
	{
		answer->secret = token.value;
		answer->lasts = (le_duration) token.expires_in * LE_SEC;
	}
	else
		refuse_token(identity, response, answer);
}

/* ---- signatures ---- */

/* A field of the query, decoded; NULL: no such field. */
static char *
sas_field(const char *sas, const char *name)
{
	size_t		len = strlen(name);
	const char *s = sas + (sas[0] == '?');
	StringInfoData value;

	while (strncmp(s, name, len) != 0 || s[len] != '=')
	{
		s += strcspn(s, "&");
		if (*s == '\0')
			return NULL;
		s++;
	}
	initStringInfo(&value);
	for (s += len + 1; *s != '\0' && *s != '&'; s++)
	{
		if (s[0] == '%' && le_hex_digit(s[1]) >= 0 && le_hex_digit(s[2]) >= 0)
		{
			appendStringInfoChar(&value, (char) (le_hex_digit(s[1]) * 16 +
												 le_hex_digit(s[2])));
			s += 2;
		}
		else
			appendStringInfoChar(&value, *s);
	}
	return value.data;
}

/* An instant in a SAS's form, UTC, in ms since 1970; false: it is none. */
static bool
read_instant(const char *text, int64 *instant)
{
	struct tm	tm = {.tm_mday = 1};
	int			seen = 0;
	size_t		len = strlen(text);

	if (sscanf(text, "%4d-%2d-%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
			   &seen) != 3)
		return false;
	text += seen;
	if (*text == 'T')
	{
		seen = 0;
		if (sscanf(text, "T%2d:%2d%n", &tm.tm_hour, &tm.tm_min, &seen) != 2)
			return false;
		text += seen;
		seen = 0;
		if (sscanf(text, ":%2d%n", &tm.tm_sec, &seen) == 1)
			text += seen;
		if (*text == '.')
			text += 1 + strspn(text + 1, "0123456789");
		if (strcmp(text, "Z") != 0)
			return false;
	}
	else if (*text != '\0' || len > 10)
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	*instant = (int64) timegm(&tm) * 1000;
	return true;
}

static char *
shown_instant(int64 instant)
{
	time_t		seconds = (time_t) (instant / 1000);
	char		text[64];
	struct tm	tm;

	if (gmtime_r(&seconds, &tm) == NULL ||
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
		return pstrdup("?");
	return pstrdup(text);
}

/* The permissions that are needed and missing. */
static char *
missing_letters(const char *letters)
{
	StringInfoData missing;

	initStringInfo(&missing);
	for (const char *needed = "rwl"; *needed != '\0'; needed++)
		if (strchr(letters, *needed) == NULL)
			appendStringInfoChar(&missing, *needed);
	return missing.data;
}

static void
judge_times(const char *sas, int64 now, LeFinding *finding)
{
	const char *starts = sas_field(sas, "st");
	const char *ends = sas_field(sas, "se");
	int64		start;
	int64		end;

	if (ends == NULL)
		finding->text = "The SAS does not say itself when it ends, but its access policy does.";
	else if (!read_instant(ends, &end))
	{
		finding->level = LE_LEVEL_WARNING;
		finding->text = "The SAS ends at a time that cannot be read (se).";
	}
	else if (end <= now)
	{
		finding->level = LE_LEVEL_ERROR;
		finding->text = psprintf("The SAS has expired at %s.",
								 shown_instant(end));
	}
	else if (starts != NULL && read_instant(starts, &start) && start > now)
	{
		finding->level = LE_LEVEL_ERROR;
		finding->text = psprintf("The SAS is not valid before %s.",
								 shown_instant(start));
	}
	else
	{
		finding->level = end - now < SAS_WARNING ? LE_LEVEL_WARNING :
			LE_LEVEL_OK;
		finding->lasting = psprintf("The SAS expires at %s.",
									shown_instant(end));
		finding->text = psprintf("The SAS expires at %s, in %.1f days.",
								 shown_instant(end),
								 (end - now) / (86400 * 1000.0));
	}
}

/*
 * Judges a SAS by its own fields.  "now" is the wall clock's time, in ms since
 * 1970, which may be wrong: so the result is for people only.
 */
void
le_azure_judge_sas(const char *sas, int64 now, LeFinding *finding)
{
	const char *letters = sas_field(sas, "sp");
	const char *missing = letters == NULL ? "" : missing_letters(letters);

	memset(finding, 0, sizeof(*finding));
	if (sas_field(sas, "sig") == NULL)
	{
		finding->level = LE_LEVEL_ERROR;
		finding->text = "The file holds no SAS: it has no signature (sig).";
		return;
	}
	judge_times(sas, now, finding);
	if (finding->level == LE_LEVEL_ERROR || missing[0] == '\0')
		return;
	finding->level = LE_LEVEL_ERROR;
	finding->lasting = psprintf("sp=%s %s", letters, finding->lasting ?
								finding->lasting : finding->text);
	finding->text = psprintf("The SAS does not allow all that is needed (sp=rwl): \"%s\" is missing. %s",
							 missing, finding->text);
}
