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
static char *fetched = NULL;
static le_time due_at = 0;		/* when to fetch the next; 0: not */

/* Read the file; false, with a log line, if it cannot be used. */
static bool
read_secret(const char *path, char *secret, size_t size)
{
	FILE	   *file = AllocateFile(path, "r");
	size_t		len;

	if (file == NULL)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not open token file \"%s\": %m", path)));
		return false;
	}
	len = fread(secret, 1, size - 1, file);
	FreeFile(file);
	secret[len] = '\0';
	secret[strcspn(secret, "\r\n")] = '\0';
	for (char *p = secret; *p != '\0'; p++)
	{
		if ((unsigned char) *p <= ' ' || (unsigned char) *p >= 0x7f)
		{
			ereport(LOG,
					(errcode(ERRCODE_CONFIG_FILE_ERROR),
					 errmsg("token file \"%s\" does not hold one printable token",
							path)));
			return false;
		}
	}
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

/*
 * Take over the settings, at start and after a reload.  Requests in flight
 * keep what they were sent with.  A file that cannot be used counts as empty
 * until the next reload.
 */
void
le_secret_configure(void)
{
	const LeStore *store = le_configured_store();
	char		secret[LE_MAX_SECRET_LEN];

	forget(&of_file);
	forget(&fetched);
	due_at = 0;
	if (store->secret_file == NULL || store->secret_file()[0] == '\0')
		return;
	if (read_secret(store->secret_file(), secret, sizeof(secret)))
		keep(&of_file, secret);
	explicit_bzero(secret, sizeof(secret));
}

/* NULL: there is none. */
const char *
le_secret_of_file(void)
{
	return of_file;
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
