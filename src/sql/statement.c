/*-------------------------------------------------------------------------
 *
 * statement.c
 *		Hooks around statements.
 *
 * After each statement of a bound transaction the fence's callback becomes
 * the newest again (fence.c says why): whatever the statement used for the
 * first time in this session may have registered one of its own.  A procedure
 * or a block may commit between its statements, so that goes for each of them,
 * too; but not for what runs inside of those, as they end before any commit.
 * Outside of bound transactions a hook costs one look at a list.
 *
 * Where a statement stands also tells whether a commit may have begun, of
 * which nobody has told us yet.  What a client sends, what a procedure says
 * and what a deferred trigger does comes before it; of other statements, such
 * as those of another extension's callback, we cannot know.
 *
 * DISCARD ALL is noticed here, too (discard.c).
 *
 * And what comes out of the outermost statement as a cancel, because its term
 * was about to end, is turned into the error that says so.
 *
 * src/sql/statement.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "tcop/pquery.h"
#include "tcop/utility.h"
#include "utils/fmgrprotos.h"
#include "utils/portal.h"

#include "compat.h"
#include "sql/cancel.h"
#include "sql/discard.h"
#include "sql/fence.h"
#include "sql/statement.h"

/* Who is called next; never NULL once the hooks are installed. */
static ExecutorRun_hook_type next_executor_run = NULL;
static ExecutorFinish_hook_type next_executor_finish = NULL;
static ExecutorEnd_hook_type next_executor_end = NULL;
static ProcessUtility_hook_type next_process_utility = NULL;

/* Statements that run inside each other; 0: none. */
static int	depth = 0;

/*
 * How many of them, from the outermost on, are calls and blocks that may
 * commit before they are done.
 */
static int	calls = 0;

/* The query that runs, if no commit can have begun. */
static const QueryDesc *before_commit = NULL;

/*
 * An error leaves the outermost statement.  Usually nobody is left to catch
 * it; but we cannot tell a client's statement from one in a function that the
 * planner or a deferred trigger calls, which might.
 */
static void
leave_outermost(MemoryContext context)
{
	ErrorData  *error;

	if (geterrcode() != ERRCODE_QUERY_CANCELED)
		PG_RE_THROW();
	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	le_fence_explain_cancel(error);
	le_cancel_insist();
	ReThrowError(error);
}

/*
 * May a commit follow the statement that begins, or ends, before any other
 * ends?  Of a call that has failed, "calls" does not know yet.
 */
static bool
commit_may_follow(void)
{
	calls = Min(calls, depth);
	return depth == calls;
}

/*
 * Run "call", counting it.  Only a statement that a commit may follow needs to
 * see errors; what one leaves of the count further in, that sets right.
 */
#define COUNTED(sees_errors, call) \
	do { \
		int			outer_depth = depth++; \
		MemoryContext outer_context = CurrentMemoryContext; \
		\
		if (outer_depth == 0) \
			le_fence_forget_stop(); \
		if (!(sees_errors)) \
			call; \
		else \
		{ \
			PG_TRY(); \
			{ \
				call; \
			} \
			PG_CATCH(); \
			{ \
				depth = outer_depth; \
				if (outer_depth == 0) \
					leave_outermost(outer_context); \
				PG_RE_THROW(); \
			} \
			PG_END_TRY(); \
		} \
		depth = outer_depth; \
	} while (0)

/* Is a trigger at work? */
static bool
in_trigger(void)
{
	return DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, 0)) > 0;
}

/*
 * Is this a query that runs before a commit for certain?  Asked when it runs:
 * when it ends, its destination may be gone.
 *
 * The client's does; a procedure's own, as only those have a connection to SPI
 * that may commit; and a deferred trigger's (a callback's are not in a
 * trigger, and what these fire runs inside of them).
 */
static bool
comes_before_commit(const QueryDesc *query)
{
	CommandDest dest = query->dest->mydest;

	if (in_trigger())
		return true;
	if (depth > 0)
		return dest == DestSPI && SPI_inside_nonatomic_context();
	return dest == DestRemote || dest == DestRemoteExecute;
}

/*
 * A procedure that commits has given its snapshot back before, and has a new
 * one only when its next statement runs.  So while there is one, no commit is
 * under way; unless a callback had one taken, as it should not.
 */
static bool
procedure_goes_on(void)
{
	return depth > 0 && ActivePortal != NULL &&
		ActivePortal->portalSnapshot != NULL;
}

/* The statement is done. */
static void
be_newest(bool no_commit)
{
	if (le_fence_attends() && commit_may_follow())
		le_fence_be_newest(no_commit, procedure_goes_on());
}

static void
executor_run(QueryDesc *query, ScanDirection direction,
			 uint64 count LE_RUN_ONCE_DECL)
{
	bool		last = commit_may_follow();

	if (depth == 0)
		le_cancel_statement_starts();
	if (last && le_fence_attends() && comes_before_commit(query))
		before_commit = query;
	else if (before_commit == query)
		before_commit = NULL;
	COUNTED(last, next_executor_run(query, direction, count LE_RUN_ONCE));
}

static void
executor_finish(QueryDesc *query)
{
	COUNTED(commit_may_follow(), next_executor_finish(query));
}

static void
executor_end(QueryDesc *query)
{
	bool		no_commit = query == before_commit;

	next_executor_end(query);
	if (no_commit)
		before_commit = NULL;
	be_newest(no_commit);
}

static void
process_utility(PlannedStmt *statement, const char *text, bool read_only,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *environment, DestReceiver *dest,
				QueryCompletion *completion)
{
	const Node *node = statement->utilityStmt;
	bool		last = commit_may_follow();
	bool		no_commit = context == PROCESS_UTILITY_TOPLEVEL ||
		context == PROCESS_UTILITY_QUERY_NONATOMIC;

	if (depth == 0)
		le_cancel_statement_starts();
	if (last && no_commit && (IsA(node, CallStmt) || IsA(node, DoStmt)) &&
		!IsTransactionBlock())
		calls = depth + 1;
	COUNTED(last, next_process_utility(statement, text, read_only, context,
									   params, environment, dest,
									   completion));
	le_discard_done(statement->utilityStmt);
	be_newest(no_commit);
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
