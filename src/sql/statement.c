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
 * And what comes out of the outermost statement as a cancel, because its term
 * was about to end, is turned into the error that says so.
 *
 * src/sql/statement.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "tcop/utility.h"

#include "compat.h"
#include "sql/fence.h"
#include "sql/statement.h"

/* Who is called next; never NULL once the hooks are installed. */
static ExecutorRun_hook_type next_executor_run = NULL;
static ExecutorFinish_hook_type next_executor_finish = NULL;
static ExecutorEnd_hook_type next_executor_end = NULL;
static ProcessUtility_hook_type next_process_utility = NULL;

/* Statements that run inside each other; 0: none. */
static int	depth = 0;

/* An error leaves the outermost statement. */
static void
leave_outermost(MemoryContext context)
{
	ErrorData  *error;

	depth = 0;
	if (geterrcode() != ERRCODE_QUERY_CANCELED)
		PG_RE_THROW();
	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	le_fence_explain_cancel(error);
	ReThrowError(error);
}

/*
 * Run "call", counting it.  Only the outermost statement needs to see errors;
 * what an error leaves of the count further in, that one sets right.
 */
#define COUNTED(call) \
	do { \
		int			outer_depth = depth++; \
		MemoryContext outer_context = CurrentMemoryContext; \
		\
		if (outer_depth > 0) \
			call; \
		else \
		{ \
			le_fence_forget_stop(); \
			PG_TRY(); \
			{ \
				call; \
			} \
			PG_CATCH(); \
			{ \
				leave_outermost(outer_context); \
			} \
			PG_END_TRY(); \
		} \
		depth = outer_depth; \
	} while (0)

static void
executor_run(QueryDesc *query, ScanDirection direction,
			 uint64 count LE_RUN_ONCE_DECL)
{
	COUNTED(next_executor_run(query, direction, count LE_RUN_ONCE));
}

static void
executor_finish(QueryDesc *query)
{
	COUNTED(next_executor_finish(query));
}

static void
executor_end(QueryDesc *query)
{
	next_executor_end(query);
	if (le_fence_binds())
		le_fence_be_newest();
}

static void
process_utility(PlannedStmt *statement, const char *text, bool read_only,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *environment, DestReceiver *dest,
				QueryCompletion *completion)
{
	COUNTED(next_process_utility(statement, text, read_only, context, params,
								 environment, dest, completion));
	if (le_fence_binds())
		le_fence_be_newest();
}

void
le_install_statement_hooks(void)
{
	next_executor_run = ExecutorRun_hook ? ExecutorRun_hook :
		standard_ExecutorRun;
	ExecutorRun_hook = executor_run;
	next_executor_finish = ExecutorFinish_hook ? ExecutorFinish_hook :
		standard_ExecutorFinish;
	ExecutorFinish_hook = executor_finish;
	next_executor_end = ExecutorEnd_hook ? ExecutorEnd_hook :
		standard_ExecutorEnd;
	ExecutorEnd_hook = executor_end;
	next_process_utility = ProcessUtility_hook ? ProcessUtility_hook :
		standard_ProcessUtility;
	ProcessUtility_hook = process_utility;
}
