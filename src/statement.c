/*-------------------------------------------------------------------------
 *
 * statement.c
 *		Hooks around statements.
 *
 * After each statement of a bound transaction the fence's callback becomes
 * the newest again (fence.c says why): whatever the statement used for the
 * first time in this session may have registered one of its own.  Outside of
 * bound transactions a hook costs one look at a list.
 *
 * src/statement.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "tcop/utility.h"

#include "fence.h"
#include "statement.h"

static ExecutorEnd_hook_type prev_executor_end = NULL;
static ProcessUtility_hook_type prev_process_utility = NULL;

static void
executor_end(QueryDesc *query)
{
	if (prev_executor_end)
		prev_executor_end(query);
	else
		standard_ExecutorEnd(query);
	if (le_fence_binds())
		le_fence_be_newest();
}

static void
process_utility(PlannedStmt *statement, const char *text, bool read_only,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *environment, DestReceiver *dest,
				QueryCompletion *completion)
{
	if (prev_process_utility)
		prev_process_utility(statement, text, read_only, context, params,
							 environment, dest, completion);
	else
		standard_ProcessUtility(statement, text, read_only, context, params,
								environment, dest, completion);
	if (le_fence_binds())
		le_fence_be_newest();
}

void
le_install_statement_hooks(void)
{
	prev_executor_end = ExecutorEnd_hook;
	ExecutorEnd_hook = executor_end;
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
