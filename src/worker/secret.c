/*-------------------------------------------------------------------------
 *
 * secret.c
 *		What proves to the store who this node is.
 *
 * Mostly a token that lies in a file.  With some stores the file's secret
 * only serves to fetch another, which runs out: then that one is sent, and a
 * new one is fetched ahead of its end, so that no renewal has to wait for it.
 *
 * Secrets live in the worker alone, and are overwritten when given up.
 *
 * src/worker/secret.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/fd.h"
#include "utils/memutils.h"

#include "settings.h"
#include "shmem/clock.h"
#include "worker/secret.h"

static char *of_file = NULL;
static char complaint[MAXPGPATH + 200];	/* why the file cannot be used; "": it
										 * can, or there is none */
static char *fetched = NULL;
static le_time due_at = 0;		/* when to fetch the next; 0: not */

/* The file cannot be used: say so in the log, and keep it for who asks. */
static bool
cannot(const char *format, const char *path)
{
	snprintf(complaint, sizeof(complaint), format, path);
	ereport(LOG,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("%s", complaint)));
	return false;
}

/* Read the file; false if it cannot be used. */
static bool
read_secret(const char *path, char *secret, size_t size)
{
	FILE	   *file = AllocateFile(path, "r");
	size_t		len;
	bool		whole;

	if (file == NULL)
		return cannot("could not open token file \"%s\": %m", path);
	errno = 0;
	len = fread(secret, 1, size - 1, file);
	whole = !ferror(file);
	if (!whole)
		(void) cannot("could not read token file \"%s\": %m", path);
	FreeFile(file);
	if (!whole)
		return false;
	secret[len] = '\0';
	secret[strcspn(secret, "\r\n")] = '\0';
	if (secret[0] == '\0')
		return cannot("token file \"%s\" is empty", path);
	for (char *p = secret; *p != '\0'; p++)
		if ((unsigned char) *p <= ' ' || (unsigned char) *p >= 0x7f)
			return cannot("token file \"%s\" does not hold one printable token",
						  path);
	return true;
}

static void
forget(char **secret)
{
	if (*secret == NULL)
		return;
	explicit_bzero(*secret, strlen(*secret));
	pfree(*secret);
	*secret = NULL;
}

static void
keep(char **secret, const char *value)
{
	forget(secret);
	if (value[0] != '\0')
		*secret = MemoryContextStrdup(TopMemoryContext, value);
}

static bool
is_fetched(void)
{
	const LeStore *store = le_configured_store();

	return store->authenticates != NULL && store->authenticates();
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

/* It goes over the network as it is. */
static void
warn_of_transport(void)
{
	const LeStore *store = le_configured_store();
	const char *list = store->servers();
	char		url[MAXPGPATH];

	while (le_next_name(&list, url, sizeof(url)))
		if (le_goes_in_clear(url))
			ereport(LOG,
					(errcode(ERRCODE_CONFIG_FILE_ERROR),
					 errmsg("the token for %s can be read on the network", url),
					 errhint("Use https:// in \"%s\".", store->url_setting)));
}

/* A rotation is to be seen; never what the token is. */
static void
log_change(const char *path, const char *before)
{
	static bool first = true;
	bool		same = of_file == NULL ||
		(before != NULL && strcmp(of_file, before) == 0);

	if (!first && !same)
		ereport(LOG,
				(errmsg("read a new token from file \"%s\"", path)));
	first = false;
}

/*
 * Take over the settings, at start and after a reload.  Requests in flight
 * keep what they were sent with.  A file that cannot be used counts as empty
 * until the next reload.
 */
void
le_secret_configure(void)
{
	const LeStore *store = le_configured_store();
	const char *path = store->secret_file == NULL ? "" : store->secret_file();
	char		secret[LE_MAX_SECRET_LEN];
	char	   *before = of_file;

	of_file = NULL;
	forget(&fetched);
	due_at = 0;
	complaint[0] = '\0';
	warn_of_mode("private key", le_key_file);
	if (path[0] != '\0')
	{
		warn_of_mode("token", path);
		if (read_secret(path, secret, sizeof(secret)))
		{
			keep(&of_file, secret);
			warn_of_transport();
		}
		explicit_bzero(secret, sizeof(secret));
	}
	log_change(path, before);
	forget(&before);
}

/* NULL: there is none. */
const char *
le_secret_of_file(void)
{
	return of_file;
}

/* Why the file that is named cannot be used; "" if it can. */
const char *
le_secret_trouble(void)
{
	return complaint;
}

/* The one to send; NULL: none. */
const char *
le_secret(void)
{
	return is_fetched() ? fetched : of_file;
}

/* Does it have to be fetched before anything can be sent? */
bool
le_secret_missing(void)
{
	return is_fetched() && fetched == NULL;
}

void
le_secret_fetched(const char *secret, le_duration lasts)
{
	keep(&fetched, secret);
	due_at = lasts == 0 ? 0 : le_now() + lasts / 3 * 2;
}

/* The store does not accept it any more. */
void
le_secret_refused(void)
{
	forget(&fetched);
	due_at = 0;
}

/* When is the next to be fetched, while this one still serves?  0: never. */
le_time
le_secret_due(void)
{
	return due_at;
}
