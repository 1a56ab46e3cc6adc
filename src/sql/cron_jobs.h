/*-------------------------------------------------------------------------
 *
 * cron_jobs.h
 *		The jobs of pg_cron, those of all roles.
 *
 * src/sql/cron_jobs.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CRON_JOBS_H
#define LE_CRON_JOBS_H

#include "nodes/pg_list.h"

typedef struct LeCronJob
{
	char	   *name;			/* as le_cron_jobs() has it */
	char	   *role;
	char	   *command;
	char	   *server;			/* NULL: this one */
	bool		active;
	bool		calls_run;		/* le_run(), with these: */
	char	   *election;		/* NULL: not written as a literal */
	char	   *job;			/* NULL: none, or not as a literal */
} LeCronJob;

extern List *le_all_cron_jobs(void);
extern bool le_have_same_ticks(const LeCronJob *a, const LeCronJob *b);

#endif							/* LE_CRON_JOBS_H */
