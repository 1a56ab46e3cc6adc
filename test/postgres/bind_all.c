/*-------------------------------------------------------------------------
 *
 * bind_all.c
 *		For tests: binds each query of each session to a term.
 *
 * To be preloaded after leader_election.  The gate is called as a C function,
 * so that no trace of it is in the database.
 *
 * test/postgres/bind_all.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

static char *election;
static char *except;
static PGFunction gate;

static ExecutorStart_hook_type next_executor_start;
static ProcessUtility_hook_type next_process_utility;

/* Does this session belong to a test that must stay unbound? */
static bool
excepted(void)
{
	const char *prefix = "pg_regress/";
	char	   *list;
	List	   *names;
	ListCell   *cell;
	bool		found = false;

	if (except[0] == '\0' ||
		strncmp(application_name, prefix, strlen(prefix)) != 0)
		return false;
	list = pstrdup(except);
	if (SplitIdentifierString(list, ',', &names))
		foreach(cell, names)
			found |= strcmp(lfirst(cell),
							application_name + strlen(prefix)) == 0;
	pfree(list);
	return found;
}

/* le_require_leader(election, '0', on_loss => 'cancel') */
static void
bind(void)
{
	LOCAL_FCINFO(fcinfo, 3);
	Interval	zero = {0};

	if (MyBackendType != B_BACKEND || election[0] == '\0' ||
		!IsTransactionState() || excepted())
		return;
	InitFunctionCallInfoData(*fcinfo, NULL, 3, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = CStringGetTextDatum(election);
	fcinfo->args[0].isnull = false;
	fcinfo->args[1].value = IntervalPGetDatum(&zero);
	fcinfo->args[1].isnull = false;
	fcinfo->args[2].value = CStringGetTextDatum("cancel");
	fcinfo->args[2].isnull = false;
	(void) gate(fcinfo);
}

static void
executor_start(QueryDesc *query, int flags)
{
	bind();
	if (next_executor_start)
		next_executor_start(query, flags);
	else
		standard_ExecutorStart(query, flags);
}

static void
process_utility(PlannedStmt *statement, const char *text, bool read_only,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *environment, DestReceiver *dest,
				QueryCompletion *completion)
{
	bind();
	if (next_process_utility)
		next_process_utility(statement, text, read_only, context, params,
							 environment, dest, completion);
	else
		standard_ProcessUtility(statement, text, read_only, context, params,
								environment, dest, completion);
}

void
_PG_init(void)
{
	DefineCustomStringVariable("bind_all.election",
							   "Binds each query to a term of this election.",
							   NULL, &election, "", PGC_SUSET, 0,
							   NULL, NULL, NULL);
	DefineCustomStringVariable("bind_all.except",
							   "Lists tests whose sessions are not bound.",
							   NULL, &except, "", PGC_SUSET, 0,
							   NULL, NULL, NULL);
	gate = load_external_function("leader_election", "le_require_leader", true,
								  NULL);
	next_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	next_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
