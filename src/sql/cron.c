/*-------------------------------------------------------------------------
 *
 * cron.c
 *		The time zone of pg_cron's schedules.
 *
 * pg_cron shows its settings to superusers only.  But an author of a schedule
 * must know its time zone, and would find out anyway.
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

/* GMT if pg_cron is not loaded, or is older than the setting. */
Datum
le_cron_timezone(PG_FUNCTION_ARGS)
{
	const char *zone = GetConfigOption("cron.timezone", true, false);

	if (zone == NULL || zone[0] == '\0')
		zone = "GMT";
	PG_RETURN_TEXT_P(cstring_to_text(zone));
}
