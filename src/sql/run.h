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

extern const char *le_schema_of(FunctionCallInfo fcinfo);
extern List *le_parse_command(const char *command);
extern void le_run_check_arguments(FunctionCallInfo fcinfo);

#endif							/* LE_RUN_H */
