/*-------------------------------------------------------------------------
 *
 * statement.c
 *		Hooks around statements.
 *
 * After each statement of a bound transaction the fence's callback becomes
 * the newest again (fence.c says why): another extension, used by the
 * statement for the first time in this session, may have registered one.  A
 * procedure or a DO block may commit between its statements, so each of them
 * counts, too; statements inside of those do not, as they end before any
 * commit.  Outside of bound transactions a hook costs one check of a list.
 *
 * The context of a statement also shows whether a commit may have begun
 * without our knowledge.  Statements of a client, of a procedure and of a
 * deferred trigger precede the commit; for others, such as those of another
 * extension's callback, we cannot know.
 *
 * DISCARD ALL is noticed here, too (discard.c).
 *
 * A cancel because of a term's end leaves the outermost statement as the
 * error LE002.
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

/* The next hooks; never NULL once ours are installed. */
static ExecutorRun_hook_type next_executor_run = NULL;
static ExecutorFinish_hook_type next_executor_finish = NULL;
static ExecutorEnd_hook_type next_executor_end = NULL;
static ProcessUtility_hook_type next_process_utility = NULL;

/* Statements that run inside each other; 0: none. */
static int	depth = 0;

/*
 * The number of them, from the outermost on, that are calls and blocks and may
 * commit before they end.
 */
static int	calls = 0;

/* The running query, if no commit can have begun. */
static const QueryDesc *before_commit = NULL;

/*
 * An error leaves the outermost statement.  Usually no caller is left to catch
 * it; but a function called by the planner or a deferred trigger might, and
 * its statements look like a client's.
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
 * statement ends?  First correct "calls", which may still count a failed call.
 */
static bool
commit_may_follow(void)
{
	calls = Min(calls, depth);
	return depth == calls;
}

/*
 * Run "call", counting it.  Only a statement that a commit may follow needs to
 * see errors; it also corrects the depth that an inner error left behind.
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
 * Does this query certainly precede the commit?  Called when it runs, since
 * its destination may be gone when it ends.
 *
 * True for queries of the client; of a procedure, as only those have an SPI
 * connection that may commit; and of a deferred trigger (a callback's queries
 * are not in a trigger, and triggers that they fire are nested in them).
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
 * A procedure returns its snapshot before it commits, and takes a new one for
 * its next statement.  So no commit is under way while it has a snapshot,
 * unless a callback took one, which it should not.
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
