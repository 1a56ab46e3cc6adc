/*-------------------------------------------------------------------------
 *
 * secret.c
 *		The secret that proves this node's identity to the store.
 *
 * Mostly a token in a file, which is read at the start, at each reload, and
 * when the store refuses the last one read.
 *
 * With some stores a token is fetched in the name of an identity, and runs
 * out: then that one is sent, and a new one is fetched ahead of its end, so
 * that no renewal has to wait for it.  Its issuer may fail for as long as the
 * last one serves: it is not given up before there is another, not even when
 * the store refuses it, which may be a mistake.
 *
 * Secrets live in the worker alone, and are overwritten when given up.
 *
 * src/worker/wire/secret.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "utils/memutils.h"

#include "settings.h"
#include "shmem/clock.h"
#include "worker/wire/files.h"
#include "worker/wire/secret.h"

/* Delay of the next attempt after a failed fetch: twice as long each time. */
#define FIRST_DELAY		LE_SEC
#define LONGEST_DELAY	(30 * LE_SEC)

/* The least time between two fetches, however soon a token ends, or is
 * refused. */
#define FETCH_GAP		(5 * LE_SEC)

/* Interval of checks whether the file's secret ends soon. */
#define JUDGE_GAP		(3600 * LE_SEC)

/*
 * No store gives out shorter ones, though some take any that somebody has
 * chosen; in messages so little could not be told from other words.
 */
#define LEAST_SECRET	4

struct LeSecrets
{
	char	   *of_file;
	char		complaint[LE_MAX_FILE_TROUBLE]; /* why the file cannot be
												 * used; "": it can, or there
												 * is none */
	bool		was_read;		/* the file, before */
	char		tls_trouble[LE_MAX_FILE_TROUBLE];
	char	   *fetched;
	char		identity[LE_MAX_PART_LEN + 1];	/* the fetched secret's */
	le_time		fetched_at;
	le_time		due_at;			/* next fetch; 0: none */
	int			failures;		/* to fetch it, in a row */
	char		why_not[200];	/* "": the last attempt succeeded */
	uint32		number;			/* counts secrets, of both kinds */
	uint32		refused;		/* the last one replaced after a refusal */
	le_time		judge_at;
	char		judged[300];	/* the last warning; "": none */
};

LeSecrets *
le_secrets_new(void)
{
	LeSecrets  *secrets = MemoryContextAllocZero(TopMemoryContext,
												 sizeof(LeSecrets));

	secrets->number = 1;
	return secrets;
}

/* The file cannot be used: log the reason, and keep it for later questions. */
static bool
cannot(LeSecrets *secrets, const char *why)
{
	if (strcmp(secrets->complaint, why) == 0)
		return false;
	strlcpy(secrets->complaint, why, sizeof(secrets->complaint));
	ereport(LOG,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("%s", secrets->complaint)));
	return false;
}

static bool
cannot_use(LeSecrets *secrets, const char *format, const char *path)
{
	char		why[LE_MAX_FILE_TROUBLE];

	snprintf(why, sizeof(why), format, path);
	return cannot(secrets, why);
}

/*
 * Read the file; false if it cannot be used.  A line that does not fit is
 * refused, since part of a token would be another one.
 */
static bool
read_secret(LeSecrets *secrets, const char *path, char *secret, size_t size)
{
	char		why[LE_MAX_FILE_TROUBLE];
	size_t		len;
	size_t		end = 0;

	if (!le_read_file("token", path, secret, size, &len, why))
		return cannot(secrets, why);
	while (end < len && secret[end] != '\n' && secret[end] != '\r' &&
		   secret[end] != '\0')
		end++;
	if (end == size)
		return cannot_use(secrets,
						  "the first line of token file \"%s\" is too long",
						  path);
	secret[end] = '\0';
	if (end == 0)
		return cannot_use(secrets, "token file \"%s\" is empty", path);
	for (char *p = secret; *p != '\0'; p++)
		if ((unsigned char) *p <= ' ' || (unsigned char) *p >= 0x7f)
			return cannot_use(secrets,
							  "token file \"%s\" does not hold one printable token",
							  path);
	if (strchr("{[\"", secret[0]) != NULL)
		return cannot_use(secrets,
						  "token file \"%s\" holds JSON, not the token alone",
						  path);
	if (end < LEAST_SECRET)
		return cannot_use(secrets,
						  "the first line of token file \"%s\" is too short for a token",
						  path);
	return true;
}

static void
forget_secret(char **secret)
{
	if (*secret == NULL)
		return;
	explicit_bzero(*secret, strlen(*secret));
	pfree(*secret);
	*secret = NULL;
}

static void
keep_secret(char **secret, const char *value)
{
	forget_secret(secret);
	if (value[0] != '\0')
		*secret = MemoryContextStrdup(TopMemoryContext, value);
}

static void
warn_of_mode(const char *what, const char *file)
{
	if (le_others_can_read(file))
		ereport(LOG,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("%s file \"%s\" has group or world access", what, file),
				 errdetail(LE_SECRET_MODE)));
}

/* The token goes over the network as it is. */
static void
warn_of_transport(void)
{
	const LeStore *store = le_configured_store();
	const char *list = store->servers.urls();
	char		url[MAXPGPATH];

	while (le_next_name(&list, url, sizeof(url)))
		if (le_goes_in_clear(url))
			ereport(LOG,
					(errcode(ERRCODE_CONFIG_FILE_ERROR),
					 errmsg("the token for %s can be read on the network",
							url),
					 errhint("Use https:// in \"%s\".",
							 store->servers.setting)));
}

/* The fault in the files of the settings that prevents TLS, where it is used;
 * "": none is known. */
const char *
le_secret_tls_trouble(LeSecrets *secrets)
{
	const LeStore *store = le_configured_store();
	const char *list = store->between_instances ? store->servers.urls() : "";
	char	   *trouble = secrets->tls_trouble;
	char		url[MAXPGPATH];

	trouble[0] = '\0';
	while (trouble[0] == '\0' && le_next_name(&list, url, sizeof(url)))
		if (strncmp(url, "https://", 8) == 0)
			le_tls_trouble(trouble);
	return trouble;
}

/* Kept connections go on, so that a reload is the time to report it. */
static void
warn_of_tls(LeSecrets *secrets)
{
	const char *why = le_secret_tls_trouble(secrets);

	if (why[0] != '\0')
		ereport(LOG,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg_internal("%s", why),
				 errdetail("The store's servers are asked over TLS: no new connection can be made.")));
}

/* Log a rotation, but never the token. */
static void
log_change(LeSecrets *secrets, const char *path, const char *before)
{
	bool		same = secrets->of_file == NULL ||
		(before != NULL && strcmp(secrets->of_file, before) == 0);

	if (secrets->was_read && !same)
		ereport(LOG,
				(errmsg("read a new token from file \"%s\"", path)));
	secrets->was_read = true;
}

static const char *
configured_identity(void)
{
	const LeStore *store = le_configured_store();

	return store->secret.authenticates == NULL ? "" :
		store->secret.authenticates();
}

static bool
is_fetched(LeSecrets *secrets)
{
	return secrets->identity[0] != '\0';
}

static const char *
file_name(void)
{
	const LeStore *store = le_configured_store();

	return store->secret.file == NULL ? "" : store->secret.file();
}

/* Is the secret read from a file, rather than fetched? */
bool
le_secret_is_in_file(LeSecrets *secrets)
{
	return !is_fetched(secrets) && file_name()[0] != '\0';
}

/* If the file cannot be used, the last secret stays. */
static void
load_token_file(LeSecrets *secrets)
{
	char		secret[LE_MAX_SECRET_LEN];

	if (file_name()[0] != '\0' &&
		read_secret(secrets, file_name(), secret, sizeof(secret)))
	{
		secrets->complaint[0] = '\0';
		keep_secret(&secrets->of_file, secret);
	}
	explicit_bzero(secret, sizeof(secret));
}

/* A secret other than before gets a new number. */
static void
number_secret(LeSecrets *secrets, char *before)
{
	bool		same = secrets->of_file == NULL || before == NULL ?
		secrets->of_file == before : strcmp(secrets->of_file, before) == 0;

	if (!same && !is_fetched(secrets))
		secrets->number++;
	log_change(secrets, file_name(), before);
	forget_secret(&before);
}

/*
 * Read the file beside a reload: it may have another secret by now.  During
 * its replacement it may be gone, or not whole: the last one stays.
 */
void
le_secret_read_again(LeSecrets *secrets)
{
	char	   *before = secrets->of_file == NULL ? NULL :
		MemoryContextStrdup(TopMemoryContext, secrets->of_file);

	load_token_file(secrets);
	number_secret(secrets, before);
}

/* At start and reload: a file that cannot be used counts as empty. */
static void
read_token_file(LeSecrets *secrets)
{
	char	   *before = secrets->of_file;

	secrets->of_file = NULL;
	secrets->complaint[0] = '\0';	/* reported again at each reload */
	if (file_name()[0] != '\0')
	{
		warn_of_mode("token", file_name());
		load_token_file(secrets);
		if (secrets->of_file != NULL)
			warn_of_transport();
	}
	number_secret(secrets, before);
}

/* Judge the file's secret by its own contents.  False: they say nothing.  The
 * text is the caller's. */
bool
le_secret_judge(LeSecrets *secrets, LeFinding *finding)
{
	const LeStore *store = le_configured_store();

	memset(finding, 0, sizeof(*finding));
	if (store->secret.judge == NULL || secrets->of_file == NULL)
		return false;
	store->secret.judge(secrets->of_file, (int64) time(NULL) * 1000, finding);
	return finding->text != NULL;
}

/* Log each fault of the secret once. */
static void
judge_file(LeSecrets *secrets)
{
	LeFinding	finding;
	bool		bad = le_secret_judge(secrets, &finding) &&
		finding.level != LE_LEVEL_OK;
	const char *what = finding.lasting != NULL ? finding.lasting :
		finding.text;

	secrets->judge_at = secrets->of_file == NULL ||
		le_configured_store()->secret.judge == NULL ? 0 : le_now() + JUDGE_GAP;
	if (!bad)
		secrets->judged[0] = '\0';
	else if (strcmp(secrets->judged, what) != 0)
	{
		strlcpy(secrets->judged, what, sizeof(secrets->judged));
		ereport(LOG,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("token file \"%s\" should be replaced", file_name()),
				 errdetail_internal("%s", finding.text)));
	}
}

/*
 * Adopt the settings, at start and after a reload.  Requests in flight keep
 * their secret.  A fetched one stays for as long as the identity is the same:
 * the issuer of the next may not be there.
 */
void
le_secret_configure(LeSecrets *secrets)
{
	warn_of_mode("private key", le_key_file);
	warn_of_tls(secrets);
	if (strcmp(secrets->identity, configured_identity()) != 0)
	{
		forget_secret(&secrets->fetched);
		strlcpy(secrets->identity, configured_identity(),
				sizeof(secrets->identity));
		secrets->number++;
		secrets->fetched_at = 0;
		secrets->failures = 0;
		secrets->why_not[0] = '\0';
	}
	/* Ahead of the first request; after a failure without its delay. */
	if (is_fetched(secrets) && (secrets->fetched == NULL ||
								secrets->failures > 0))
		secrets->due_at = le_now();
	else if (!is_fetched(secrets))
		secrets->due_at = 0;
	read_token_file(secrets);
	secrets->judged[0] = '\0';
	judge_file(secrets);
}

/* NULL: there is none. */
const char *
le_secret_of_file(LeSecrets *secrets)
{
	return secrets->of_file;
}

/* The reason why there is none, although there should be; "" if there is. */
const char *
le_secret_trouble(LeSecrets *secrets)
{
	return secrets->complaint[0] != '\0' ? secrets->complaint :
		secrets->why_not;
}

/* The secret to send; NULL: none. */
const char *
le_secret(LeSecrets *secrets)
{
	return is_fetched(secrets) ? secrets->fetched : secrets->of_file;
}

/* The header before it; NULL: it goes into the query. */
const char *
le_secret_header(LeSecrets *secrets)
{
	const LeStore *store = le_configured_store();

	return is_fetched(secrets) ? store->secret.fetched_header :
		store->secret.header;
}

/* The number of the present secret; another has another number. */
uint32
le_secret_number(LeSecrets *secrets)
{
	return secrets->number;
}

/* Must the secret be fetched before anything can be sent? */
bool
le_secret_missing(LeSecrets *secrets)
{
	return is_fetched(secrets) && secrets->fetched == NULL;
}

void
le_secret_fetched(LeSecrets *secrets, const char *secret, le_duration lasts)
{
	keep_secret(&secrets->fetched, secret);
	secrets->number++;
	secrets->fetched_at = le_now();
	secrets->due_at = lasts == 0 ? 0 :
		le_now() + Max(lasts / 3 * 2, FETCH_GAP);
	if (secrets->failures > 0)
		ereport(LOG,
				(errmsg("a new token could be fetched")));
	secrets->failures = 0;
	secrets->why_not[0] = '\0';
}

/*
 * No secret could be fetched.  "asked": how long its issuer wants to be left
 * alone; 0: not said.
 */
void
le_secret_failed(LeSecrets *secrets, const char *why, le_duration asked,
				 uint32 random)
{
	le_duration delay = FIRST_DELAY;

	for (int i = 0; i < secrets->failures && delay < LONGEST_DELAY; i++)
		delay *= 2;
	delay = Max(Min(delay, LONGEST_DELAY), Min(asked, 2 * LONGEST_DELAY));
	secrets->due_at = le_now() + delay - le_jitter(delay / 4, random);
	if (secrets->failures++ == 0)
		ereport(LOG,
				(errmsg("a new token could not be fetched: %s", why),
				 secrets->fetched == NULL ? 0 :
				 errdetail("The last one is used for as long as the store accepts it.")));
	strlcpy(secrets->why_not, why, sizeof(secrets->why_not));
}

/*
 * The store does not accept the secret with that number.  A file may have
 * another by now.  A fetched one is replaced, but not over and over.
 */
LeSecretAdvice
le_secret_refused(LeSecrets *secrets, uint32 which)
{
	if (which != secrets->number)
		return LE_SECRET_AGAIN;
	if (!is_fetched(secrets))
	{
		le_secret_read_again(secrets);
		if (which == secrets->number)
			return LE_SECRET_GIVE_UP;
		judge_file(secrets);
		return LE_SECRET_AGAIN;
	}
	if (secrets->fetched != NULL && secrets->refused == secrets->number)
		return LE_SECRET_FETCH; /* under way, for another's sake */
	if (secrets->fetched_at != 0 && secrets->refused != 0 &&
		le_now() < secrets->fetched_at + FETCH_GAP)
		return LE_SECRET_GIVE_UP;	/* as the one before */
	secrets->refused = secrets->number;
	if (secrets->failures == 0)
		secrets->due_at = le_now();
	return LE_SECRET_FETCH;
}

/* When is the next one fetched, while this one still serves?  0: never. */
le_time
le_secret_due(LeSecrets *secrets)
{
	return secrets->due_at;
}

void
le_secret_run_timers(LeSecrets *secrets)
{
	if (secrets->judge_at != 0 && le_now() >= secrets->judge_at)
		judge_file(secrets);
}

le_time
le_secret_timer(LeSecrets *secrets)
{
	return secrets->judge_at;
}

/* The secret is at fault, even if the store could not tell. */
void
le_secret_blame(LeAnswer *answer)
{
	answer->cause = le_refuses_all(answer->cause) ? LE_CAUSE_STRANGER :
		LE_CAUSE_PERMISSION;
}
