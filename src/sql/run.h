/*-------------------------------------------------------------------------
 *
 * run.h
 *		le_run(): a command that runs on the leader, once per tick.
 *
 * src/sql/run.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_RUN_H
#define LE_RUN_H

#include "fmgr.h"
#include "nodes/pg_list.h"

#include "sql/job_callers.h"

#define LE_CALLERS_HINT	"Give one of them another name."

extern const char *le_schema_of(FunctionCallInfo fcinfo);
extern List *le_parse_command(const char *command);
extern const char *le_name_callers(const LeJobCallers *callers);
extern void le_run_check_arguments(FunctionCallInfo fcinfo);

#endif							/* LE_RUN_H */
