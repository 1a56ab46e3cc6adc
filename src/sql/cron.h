/*-------------------------------------------------------------------------
 *
 * cron.h
 *		Settings of pg_cron that decide when and where jobs run.
 *
 * src/sql/cron.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CRON_H
#define LE_CRON_H

extern bool le_cron_is_here(void);
extern bool le_cron_runs_one_job(void);
extern char *le_cron_server_of(const char *name, int port);

#endif							/* LE_CRON_H */
