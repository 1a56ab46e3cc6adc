/*-------------------------------------------------------------------------
 *
 * cron.c
 *		Settings of pg_cron that decide when and where jobs run.
 *
 * pg_cron shows its settings to superusers only.  But an author of a schedule
 * must know its time zone, and would find out anyway.
 *
 * The version follows from the settings that the library has: the number in a
 * database's catalog need not be the library's.
 *
 * src/sql/cron.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/dbcommands.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "postmaster/postmaster.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "sql/cron.h"

PG_FUNCTION_INFO_V1(le_cron_timezone);
PG_FUNCTION_INFO_V1(le_cron_server);

/* Has a library defined the setting?  Any value can be in the files. */
static bool
is_defined(const char *name)
{
	return GetConfigOption(name, true, false) != NULL &&
		(GetConfigOptionFlags(name, true) & GUC_CUSTOM_PLACEHOLDER) == 0;
}

/* Does pg_cron, if it is loaded, have its jobs in this database? */
bool
le_cron_is_here(void)
{
	const char *database = GetConfigOption("cron.database_name", true, false);

	return database == NULL || database[0] == '\0' ||
		strcmp(database, get_database_name(MyDatabaseId)) == 0;
}

/* Before 1.5, schedules are in GMT. */
static bool
is_old(void)
{
	return is_defined("cron.database_name") && !is_defined("cron.timezone");
}

/*
 * Does a job keep others from starting?  pg_cron 1.4 waits for the result of
 * each background worker: https://github.com/citusdata/pg_cron/issues/200.
 */
bool
le_cron_runs_one_job(void)
{
	const char *workers = "cron.use_background_workers";

	return is_old() && is_defined(workers) &&
		strcmp(GetConfigOption(workers, true, false), "on") == 0;
}

/* GMT if pg_cron is not loaded, or is older than the setting. */
Datum
le_cron_timezone(PG_FUNCTION_ARGS)
{
	const char *zone = GetConfigOption("cron.timezone", true, false);

	if (zone == NULL || zone[0] == '\0' || is_old())
		zone = "GMT";
	PG_RETURN_TEXT_P(cstring_to_text(zone));
}

/* Does pg_cron connect to the server that a job's row names? */
static bool
connects(void)
{
	const char *workers =
		GetConfigOption("cron.use_background_workers", true, false);

	return workers == NULL || strcmp(workers, "on") != 0;
}

/*
 * NULL: this server, since pg_cron does not connect, or since the columns are
 * as it writes them for a new job.  Another name may mean this server, too,
 * but that cannot be known.
 */
char *
le_cron_server_of(const char *name, int port)
{
	const char *host = GetConfigOption("cron.host", true, false);

	if (host == NULL)
		host = "localhost";
	if (!connects() || (port == PostPortNumber && strcmp(name, host) == 0))
		return NULL;
	return psprintf("%s:%d", name, port);
}

Datum
le_cron_server(PG_FUNCTION_ARGS)
{
	char	   *server =
		le_cron_server_of(text_to_cstring(PG_GETARG_TEXT_PP(0)),
						  PG_GETARG_INT32(1));

	if (server == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(server));
}
