/*-------------------------------------------------------------------------
 *
 * cron.c
 *		What a schedule of pg_cron depends on.
 *
 * pg_cron lets only superusers see its settings.  By which time zone it reads
 * a schedule whoever schedules a job has to know, and finds out anyway.
 *
 * src/sql/cron.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"

PG_FUNCTION_INFO_V1(le_cron_timezone);

/* Before it had that setting, and if it is not loaded: GMT. */
Datum
le_cron_timezone(PG_FUNCTION_ARGS)
{
	const char *zone = GetConfigOption("cron.timezone", true, false);

	if (zone == NULL || zone[0] == '\0')
		zone = "GMT";
	PG_RETURN_TEXT_P(cstring_to_text(zone));
}
