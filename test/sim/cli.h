/*-------------------------------------------------------------------------
 *
 * cli.h
 *		Shared by the files of the simulator's command line.
 *
 * test/sim/cli.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_SIM_CLI_H
#define LE_SIM_CLI_H

#include "sim.h"

/* edit.c: a schedule, changed by words like "drop=1,2" */
extern bool edit_schedule(Schedule *s, const char *word);
extern void edit_print(const Schedule *s);

/* jobs.c */
extern void jobs_store(const char *name);
extern void jobs_trace(const char *dir, uint64 every);
extern int	jobs_run(uint64 from, uint64 schedules, int jobs, bool first);

/* traces.c */
extern void traces_begin(const char *dir, const Schedule *s);
extern void traces_end(void);

/* shrink.c */
extern void shrink(Schedule *s);

/* load.c */
extern void load_report(void);

/* exhaustive.c */
extern int	exhaustive_run(int most);
extern int	exhaustive_replay(const char *faults);

/* kills.c */
extern int	kills_run(uint64 from, uint64 seeds);

/* model.c */
extern int	model_run(uint64 seed, int operations);

/* model_cassandra.c */
extern int	model_cassandra_run(uint64 seed, int operations);

/* model_azure.c */
extern int	model_azure_run(void);

#endif							/* LE_SIM_CLI_H */
