/*-------------------------------------------------------------------------
 *
 * run.c
 *		le_run(): a command that runs on the leader, once per tick.
 *
 * In this order: bind the session to the term, claim the tick, run the
 * command with all of its transactions bound, commit it, flush the WAL, mark
 * the tick done.  So a tick that is marked done was committed, and a tick left
 * undone shows in its claim, which stays "running".  A term being given up
 * waits for bound sessions, hence for a run from its claim on.
 *
 * A claim is marked failed only if the command failed of itself.  A run that
 * ends with leadership stays "running", to be caught up by a later leader, or
 * by the next call in the same term, which can know that this run is over.
 *
 * The same call runs undone and missed ticks before the due one, each by a
 * claim of its own.  So if the term ends in between, another leader continues
 * after the last claim.
 *
 * src/sql/run.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "parser/analyze.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/cmdtag.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "settings.h"
#include "shmem/events.h"
#include "shmem/stats.h"
#include "sql/arguments.h"
#include "sql/cancel.h"
#include "sql/encoding.h"
#include "sql/fence.h"
#include "sql/jobs.h"
#include "sql/run.h"

PG_FUNCTION_INFO_V1(le_run);
PG_FUNCTION_INFO_V1(le_tick);

/* The interval at which a waiting node reads the state of the tick. */
#define LOOK_INTERVAL	LE_SEC

/* The interval at which it checks whether it leads. */
#define TURN_INTERVAL	50		/* ms */

/* The time that a failed command waits for its claim to be marked. */
#define FAILURE_PATIENCE	LE_SEC

typedef struct Run
{
	char	   *command;
	bool		has_tick;
	int64		every;			/* µs; 0: not given */
	le_time		until;			/* end of the wait */
	LeOnLoss	on_loss;
	le_duration timeout;		/* the command's; 0: none */
	LeAsk		ask;			/* election, job, tick, catch_up, missed */
} Run;

/* The command's time limit; "at" is 0 unless such a command runs. */
static LeStop time_limit;

/* The command has set statement_timeout. */
static bool own_statement_timeout = false;

/* The tick that is being run in this session. */
static bool running = false;
static bool running_tick = false;
static int64 current_tick;

/* ---- the command's text ---- */

/* As SPI does with errors in a statement that it is given. */
static void
point_into_command(void *command)
{
	int			position = geterrposition();

	if (position <= 0)
		return;
	errposition(0);
	internalerrposition(position);
	internalerrquery(command);
}

/*
 * The statements.  The position of a syntax error is one in the command, not
 * in the statement of the client, of which the command is only a literal.
 */
List *
le_parse_command(const char *command)
{
	ErrorContextCallback pointer = {
		.previous = error_context_stack,
		.callback = point_into_command,
		.arg = unconstify(char *, command)
	};
	List	   *statements;

	error_context_stack = &pointer;
	statements = pg_parse_query(command);
	error_context_stack = pointer.previous;
	return statements;
}

/* ---- arguments ---- */

static void
check_context(FunctionCallInfo fcinfo)
{
	CallContext *context = (CallContext *) fcinfo->context;

	if (context == NULL || !IsA(context, CallContext) || context->atomic ||
		IsSubTransaction())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("le_run() cannot be called inside a transaction block"),
				 errhint("Let the CALL be the only statement of its string, outside of BEGIN, functions and exception handlers.")));
	if (running)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("le_run() is already running in this session")));
}

static void
refuse(RawStmt *statement, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("le_run() cannot run %s",
					GetCommandTagName(CreateCommandTag(statement->stmt))),
			 errhint("%s", hint)));
}

/* The option's value in the statement, or else its default. */
static bool
has_option(List *options, const char *name, bool missing)
{
	ListCell   *lc;
	bool		found = missing;

	foreach(lc, options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, name) == 0)
			found = defGetBoolean(option);
	}
	return found;
}

static bool
names_option(List *options, const char *name)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		if (strcmp(lfirst_node(DefElem, lc)->defname, name) == 0)
			return true;
	}
	return false;
}

static bool
detaches_concurrently(AlterTableStmt *statement)
{
	ListCell   *lc;

	foreach(lc, statement->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype == AT_DetachPartition &&
			((PartitionCmd *) cmd->def)->concurrent)
			return true;
	}
	return false;
}

/* Each partition gets a transaction.  A table not there yet has none. */
static bool
is_partitioned(RangeVar *name)
{
	char		kind = get_rel_relkind(RangeVarGetRelid(name, NoLock, true));

	return kind == RELKIND_PARTITIONED_TABLE ||
		kind == RELKIND_PARTITIONED_INDEX;
}

static bool
clusters_alone(LeClusterStmt *statement)
{
	return le_clustered(statement) == NULL ||
		has_option(statement->params, "concurrently", false) ||
		is_partitioned(le_clustered(statement));
}

static bool
reindexes_alone(ReindexStmt *statement)
{
	return statement->kind >= REINDEX_OBJECT_SCHEMA ||
		has_option(statement->params, "concurrently", false) ||
		is_partitioned(statement->relation);
}

/* Does it change something at the publisher, which no rollback undoes? */
static bool
alters_publisher(AlterSubscriptionStmt *statement)
{
	switch (statement->kind)
	{
		case LE_ALTER_SUBSCRIPTION_REFRESH:
			return true;
		case ALTER_SUBSCRIPTION_SET_PUBLICATION:
		case ALTER_SUBSCRIPTION_ADD_PUBLICATION:
		case ALTER_SUBSCRIPTION_DROP_PUBLICATION:
			return has_option(statement->options, "refresh", true);
		case ALTER_SUBSCRIPTION_OPTIONS:
			return names_option(statement->options, "failover") ||
				!has_option(statement->options, "two_phase", true);
		default:
			return false;
	}
}

/*
 * Does the statement need a transaction of its own?  Covers the callers of
 * PreventInTransactionBlock(), except DROP SUBSCRIPTION: whether there is a
 * slot to be dropped may be decided by the statement before.
 */
static bool
runs_alone(Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_VacuumStmt:
			return ((VacuumStmt *) statement)->is_vacuumcmd;
		case T_IndexStmt:
			return ((IndexStmt *) statement)->concurrent;
		case T_DropStmt:
			return ((DropStmt *) statement)->concurrent;
		case T_ReindexStmt:
			return reindexes_alone((ReindexStmt *) statement);
		case T_AlterTableStmt:
			return detaches_concurrently((AlterTableStmt *) statement);
		case T_AlterDatabaseStmt:
			return names_option(((AlterDatabaseStmt *) statement)->options,
								"tablespace");
		case T_DiscardStmt:
			return ((DiscardStmt *) statement)->target == DISCARD_ALL;
		case T_CreateSubscriptionStmt:
			return has_option(((CreateSubscriptionStmt *) statement)->options,
							  "connect", true) &&
				has_option(((CreateSubscriptionStmt *) statement)->options,
						   "create_slot", true);
		case T_AlterSubscriptionStmt:
			return alters_publisher((AlterSubscriptionStmt *) statement);
		case LE_T_CLUSTER:
			return clusters_alone((LeClusterStmt *) statement);
		case T_CreatedbStmt:
		case T_DropdbStmt:
		case T_CreateTableSpaceStmt:
		case T_DropTableSpaceStmt:
		case T_AlterSystemStmt:
			return true;
		default:
			return le_is_wait(statement);
	}
}

/*
 * Refuse commands that cannot run here before a tick is claimed.  Raises
 * syntax errors, too.
 */
static void
check_command(const char *command)
{
	List	   *statements = le_parse_command(command);
	ListCell   *lc;

	if (statements == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"command\" is empty")));
	foreach(lc, statements)
	{
		RawStmt    *statement = lfirst_node(RawStmt, lc);

		if (IsA(statement->stmt, TransactionStmt))
			refuse(statement, "The command is committed at its end. What has to commit in between can be a procedure: let the command be its CALL.");
		if (runs_alone(statement->stmt))
			refuse(statement, "It has to be the only statement of its transaction. Schedule it without le_run().");
		if (IsA(statement->stmt, CopyStmt) &&
			((CopyStmt *) statement->stmt)->filename == NULL)
			refuse(statement, "There is no client to copy from or to. Use a file or a program.");
	}
}

/*
 * The name, in events, of a run without a record.  Not the command itself,
 * which may contain a password.
 */
static text *
name_of_command(const char *command)
{
	RawStmt    *first = linitial_node(RawStmt, le_parse_command(command));

	return cstring_to_text(GetCommandTagName(CreateCommandTag(first->stmt)));
}

static void
set_tick(Run *run, FunctionCallInfo fcinfo)
{
	if (!PG_ARGISNULL(3) && !PG_ARGISNULL(4))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("only one of the arguments \"every\" and \"tick\" can be given")));
	if (!PG_ARGISNULL(3))
	{
		run->every = le_to_every(PG_GETARG_INTERVAL_P(3));
		run->ask.tick = le_to_tick(le_tick_at(GetCurrentTimestamp(),
											  run->every));
		le_set_due(&run->ask, run->every);
	}
	else if (!PG_ARGISNULL(4))
	{
		run->ask.tick = le_to_tick(PG_GETARG_TIMESTAMPTZ(4));
		le_check_not_ahead(PG_GETARG_TIMESTAMPTZ(4));
	}
	run->has_tick = !PG_ARGISNULL(3) || !PG_ARGISNULL(4);
	/* A name made of the command would change with each edit. */
	if (run->has_tick && PG_ARGISNULL(2))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the arguments \"every\" and \"tick\" need \"job\""),
				 errhint("The store records ticks under the job's name, the same on all instances.")));
}

static void
set_wait(Run *run, FunctionCallInfo fcinfo)
{
	le_duration wait = le_set_wait(&run->ask, PG_GETARG_INTERVAL_P(5));

	if (!run->has_tick && (wait != 0 || run->ask.catch_up))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the arguments \"wait\" and \"catch_up\" need \"every\" or \"tick\"")));
	run->until = le_now() + wait;
}

static void
set_timeout(Run *run, FunctionCallInfo fcinfo)
{
	run->timeout = le_to_duration(PG_GETARG_INTERVAL_P(10), "timeout");
	if (run->timeout != 0)
		le_cancel_prepare(true);	/* before the tick is claimed */
}

static void
get_arguments(Run *run, FunctionCallInfo fcinfo)
{
	memset(run, 0, sizeof(*run));
	le_start_ask(&run->ask, LE_ASK_CLAIM, fcinfo);
	le_check_not_null(fcinfo, 1, "command");
	le_check_not_null(fcinfo, 5, "wait");
	le_check_not_null(fcinfo, 6, "catch_up");
	le_check_not_null(fcinfo, 7, "on_loss");
	le_check_not_null(fcinfo, 8, "missed");
	le_check_not_null(fcinfo, 9, "max_missed");
	le_check_not_null(fcinfo, 10, "timeout");
	run->command = text_to_cstring(PG_GETARG_TEXT_PP(1));
	check_command(run->command);
	le_set_job(&run->ask, PG_ARGISNULL(2) ? name_of_command(run->command) :
			   PG_GETARG_TEXT_PP(2));
	run->ask.catch_up = PG_GETARG_BOOL(6);
	run->on_loss = le_on_loss_named(text_to_cstring(PG_GETARG_TEXT_PP(7)));
	le_fence_check_on_loss(run->on_loss);	/* before the tick is claimed */
	set_tick(run, fcinfo);
	set_wait(run, fcinfo);
	le_set_missed(&run->ask, PG_GETARG_TEXT_PP(8), PG_GETARG_INT32(9));
	set_timeout(run, fcinfo);
}

/* Raises the errors of le_run()'s arguments. */
void
le_run_check_arguments(FunctionCallInfo fcinfo)
{
	Run			run;

	get_arguments(&run, fcinfo);
}

/* ---- the command ---- */

/* Does the term leave time for a transaction? */
static bool
leaves_time(const Run *run, const LeTerm *term)
{
	le_duration needed = (run->on_loss == LE_ON_LOSS_CANCEL ?
						  le_cancel_lead : le_commit_margin) * LE_MSEC;

	return term->deadline - le_now() > needed;
}

/* The term, if it holds and leaves time for a transaction. */
static bool
leads(const Run *run, LeTerm *term)
{
	return le_may_begin(run->ask.election, term) && leaves_time(run, term);
}

/* Does the command itself say whether its transaction may write? */
static bool
sets_access_mode(const char *command)
{
	List	   *statements = pg_parse_query(command);
	ListCell   *lc;

	foreach(lc, statements)
	{
		RawStmt    *statement = lfirst_node(RawStmt, lc);
		VariableSetStmt *set = (VariableSetStmt *) statement->stmt;

		if (IsA(set, VariableSetStmt) && set->name != NULL &&
			(strcmp(set->name, "transaction_read_only") == 0 ||
			 (strcmp(set->name, "TRANSACTION") == 0 &&
			  names_option(set->args, "transaction_read_only"))))
			return true;
	}
	return false;
}

/*
 * A command that writes would fail, and its tick with it, so that no other
 * instance could run it.  A standby leads only where that is meant.
 */
static void
check_writable(const Run *run)
{
	if (!DefaultXactReadOnly || le_read_only_eligible ||
		RecoveryInProgress() || sets_access_mode(run->command))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
			 errmsg("le_run() does not run a command in a read-only transaction"),
			 errdetail("\"default_transaction_read_only\" is on. No tick was claimed."),
			 errhint("Turn it off for this role in this database. If jobs only read, turn \"leader_election.read_only_eligible\" on.")));
}

/*
 * Binds this session before the last check of the term (bound.c): from here
 * on, a term being given up waits for the run.  Without cancel on loss, which
 * is for the command: a slow claim must not end a wait.
 */
static bool
bind_session(const Run *run, uint64 token)
{
	LeTerm		term;

	check_writable(run);
	le_fence_set_standing(run->ask.election, token, LE_ON_LOSS_NONE);
	if (leads(run, &term) && term.token == token)
		return true;
	le_fence_clear_standing();
	return false;
}

static void
sleep_a_little(void)
{
	static uint32 wait_event = 0;

	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | WL_TIMEOUT,
					 TURN_INTERVAL,
					 LE_WAIT_EVENT(wait_event, "LeaderElectionRun"));
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * After the claim the deadline may be close, with the next proof under way.
 * To fail now would waste the tick.
 */
static void
wait_for_renewal(const Run *run, uint64 token)
{
	LeTerm		term;

	while (le_my_term(run->ask.election, &term) && term.token == token &&
		   !leaves_time(run, &term))
		sleep_a_little();
}

/*
 * Some statements must not have a snapshot (SET TRANSACTION), or should take
 * none (LOCK): so one is taken here only for those whose analysis needs it.
 */
static void
execute_statement(RawStmt *statement, const char *text)
{
	bool		may_commit = IsA(statement->stmt, CallStmt) ||
		IsA(statement->stmt, DoStmt);
	SPIExecuteOptions options = {0};
	int			rc;

	if (analyze_requires_snapshot(statement))
		EnsurePortalSnapshotExists();
	options.allow_nonatomic = may_commit;
	options.dest = None_Receiver;
	rc = SPI_execute_extended(text, &options);
	if (rc < 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("le_run() cannot run this command: %s",
						SPI_result_code_string(rc))));
}

/*
 * PostgreSQL starts statement_timeout at each statement of a string, but takes
 * the CALL for one.  A value that the command sets limits its next statements,
 * as it would without le_run(); any other limits the whole CALL.
 */
static void
start_statement_timeout(int before)
{
	if (StatementTimeout == before && !own_statement_timeout)
		return;
	own_statement_timeout = true;
	if (StatementTimeout > 0)
		enable_timeout_after(STATEMENT_TIMEOUT, StatementTimeout);
	else
		disable_timeout(STATEMENT_TIMEOUT, false);
}

static void
end_statement_timeout(void)
{
	if (own_statement_timeout)
		disable_timeout(STATEMENT_TIMEOUT, false);
	own_statement_timeout = false;
}

/*
 * One statement after the other, so that each sees the effects of those
 * before: SPI takes a snapshot for each statement, except where it may commit.
 */
static void
execute(const char *command)
{
	List	   *statements = pg_parse_query(command);
	int			timeout = StatementTimeout;
	ListCell   *lc;

	foreach(lc, statements)
	{
		RawStmt    *statement = lfirst_node(RawStmt, lc);
		const char *text = command + statement->stmt_location;
		int			len = statement->stmt_len;

		start_statement_timeout(timeout);
		execute_statement(statement, len == 0 ? text : pnstrdup(text, len));
	}
}

/* ---- its time limit ---- */

static void
start_time_limit(const Run *run)
{
	if (run->timeout == 0)
		return;
	memset(&time_limit, 0, sizeof(time_limit));
	time_limit.at = le_now() + run->timeout;
	le_cancel_watch(&time_limit);
}

/* A command that has caught the cancel does not count as successful. */
static void
check_time_limit(void)
{
	if (time_limit.at != 0 && time_limit.fired)
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("canceling statement due to timeout")));
}

/* Did the time limit end the command? */
static bool
end_time_limit(void)
{
	bool		fired;

	if (time_limit.at == 0)
		return false;
	le_cancel_pause();
	fired = time_limit.fired;
	le_cancel_unwatch(&time_limit);
	time_limit.at = 0;
	le_cancel_resume();
	return fired;
}

/* The error of a cancel by the time limit. */
static void
name_timeout(const Run *run, ErrorData *error)
{
	error->message = pstrdup("canceling command of le_run() due to its timeout");
	error->detail = psprintf("It took longer than %g s.",
							 run->timeout / (double) LE_SEC);
}

/*
 * Did the command fail of itself, and does the term still hold, to mark it?
 * An error of the fence or of the cancel on loss means the end of the term,
 * even if it is renewed in the last moment.
 */
static bool
failed_of_itself(const Run *run, uint64 token)
{
	LeTerm		term;

	return geterrcode() != LE_ERRCODE_LOST &&
		!le_fence_stopped(run->ask.election) &&
		le_my_term(run->ask.election, &term) && term.token == token;
}

/* For le_events, with the job's name to identify the run. */
static void
note(LeEventKind what, const Run *run, uint64 token, const LeMyClaim *claim)
{
	if (claim == NULL)
		le_event(what, run->ask.election, token, "job %s", run->ask.job);
	else
		le_event(what, run->ask.election, token, "job %s, tick %s, try %d",
				 claim->job, timestamptz_to_str(le_from_tick(claim->tick)),
				 claim->try);
}

/*
 * An error message can contain the command's data, so only a setting of the
 * administrator adds it.  Nothing may fail here.  No more of it is converted
 * than can be kept.
 */
static void
set_error(LeAsk *ask, const ErrorData *error)
{
	char	   *message = error->message;

	strlcpy(ask->sqlstate, unpack_sql_state(error->sqlerrcode),
			sizeof(ask->sqlstate));
	if (!le_log_error || message == NULL)
		return;
	message = pnstrdup(message, pg_mbcliplen(message, strlen(message),
											 LE_MAX_MESSAGE_LEN));
	ask->has_value = true;
	strlcpy(ask->value, le_shown_message(le_to_utf8_anyway(message)),
			sizeof(ask->value));
}

/*
 * For le_history().  A run that did not fail of itself stays "running", as in
 * the store.
 */
static void
note_failed(const Run *run, const LeMyClaim *claim, const ErrorData *error,
			bool failed, int64 began)
{
	LeAsk		told = run->ask;

	set_error(&told, error);
	le_note_run(claim, &told, failed ? LE_CLAIM_FAILED : LE_CLAIM_RUNNING,
				began);
}

static void
mark_failed(LeMyClaim *claim, const ErrorData *error)
{
	LeAsk		ask;
	LeReply		reply;

	le_end_ask(&ask, claim, LE_CLAIM_FAILED);
	set_error(&ask, error);
	ask.to_the_end = true;
	(void) le_tell(&ask, &reply, FAILURE_PATIENCE);
}

static void
mark_done(LeMyClaim *claim)
{
	LeAsk		ask;
	LeReply		reply;

	le_end_ask(&ask, claim, LE_CLAIM_DONE);
	ask.to_the_end = true;
	if (!le_tell(&ask, &reply, 3 * (le_request_timeout * LE_MSEC)) ||
		reply.kind == LE_REPLY_ERROR)
		ereport(WARNING,
				(errcode(LE_ERRCODE_UNKNOWN),
				 errmsg("could not confirm that the tick %s of job \"%s\" is marked as done",
						timestamptz_to_str(le_from_tick(claim->tick)),
						le_shown(claim->job)),
				 errdetail("The command was run and committed. The worker goes on telling the store.")));
	else if (reply.kind != LE_REPLY_TRUE)
		ereport(WARNING,
				(errmsg("the tick %s of job \"%s\" is not marked as done",
						timestamptz_to_str(le_from_tick(claim->tick)),
						le_shown(claim->job)),
				 errdetail("The command was run and committed. Its claim is not in the store any more: that of a later tick has replaced it, or the store has lost it.")));
}

static void
count_time(const Run *run, le_time began)
{
	le_stat_add(run->ask.election, LE_STAT_RUN_TIME,
				(uint64) ((le_now() - began) / 1000));
}

/*
 * A transaction in which to wait, without a snapshot: there must be one, and
 * it holds nothing.  So transaction_timeout, which may be set for all of a
 * server's short transactions, does not count it.
 */
static void
begin_to_wait(void)
{
	SPI_commit();
	le_stop_transaction_timeout();
}

/*
 * Run and commit the command as leader of this term, to which the session is
 * bound; the claim is NULL if there is none.  The transaction that is open
 * afterwards is not bound.
 */
static void
run_command(const Run *run, uint64 token, LeMyClaim *claim)
{
	MemoryContext caller = CurrentMemoryContext;
	le_time		began = le_now();
	int64		began_at = le_tick_now();
	bool		timed_out;
	bool		failed;

	note(LE_EVENT_RUN_STARTED, run, token, claim);
	le_stat_count(run->ask.election, LE_STAT_RUNS);
	PG_TRY();
	{
		if (claim != NULL)
		{
			running_tick = true;
			current_tick = claim->tick;
		}
		wait_for_renewal(run, token);
		SPI_commit();			/* the command gets a transaction of its own */
		le_fence_set_standing(run->ask.election, token, run->on_loss);
		(void) le_fence_bind(run->ask.election, 0, run->on_loss);
		start_time_limit(run);
		execute(run->command);
		end_statement_timeout();
		check_time_limit();
		begin_to_wait();		/* for the mark */
		(void) end_time_limit();
		le_fence_clear_standing();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		end_statement_timeout();
		timed_out = end_time_limit() &&
			geterrcode() == ERRCODE_QUERY_CANCELED &&
			!le_fence_stopped(run->ask.election);
		failed = failed_of_itself(run, token);
		(void) MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		if (timed_out)
			name_timeout(run, error);
		le_fence_clear_standing();
		running_tick = false;
		note(LE_EVENT_RUN_FAILED, run, token, claim);
		le_stat_count(run->ask.election, LE_STAT_FAILED);
		count_time(run, began);
		note_failed(run, claim, error, failed || claim == NULL, began_at);
		if (claim != NULL)
		{
			if (failed)
				mark_failed(claim, error);
			le_forget_claim(claim);
			if (!failed)
				le_hint_worker();	/* it may lead on */
		}
		if (timed_out)
		{
			FlushErrorState();
			ReThrowError(error);
		}
		PG_RE_THROW();
	}
	PG_END_TRY();
	running_tick = false;
	note(LE_EVENT_RUN_DONE, run, token, claim);
	count_time(run, began);
	le_note_run(claim, &run->ask, LE_CLAIM_DONE, began_at);
	if (claim != NULL)
	{
		mark_done(claim);
		le_forget_claim(claim);
	}
}

/* ---- the tick ---- */

typedef enum Progress
{
	OVER,						/* run, or not ours to run */
	ONCE_MORE,					/* an older tick came first */
	NOT_NOW						/* not decided yet */
} Progress;

/* Could the store's answer be different a moment later? */
static bool
may_change(const Run *run, const LeReply *reply)
{
	return le_now() < run->until &&
		(reply->sqlstate == LE_ERRCODE_UNAVAILABLE ||
		 reply->sqlstate == LE_ERRCODE_UNKNOWN ||
		 reply->sqlstate == LE_ERRCODE_LOST);
}

/* Claiming the newer tick would lose the older one if that fails. */
static void
tell_under_way(const Run *run, int64 older)
{
	char	   *tick = pstrdup(timestamptz_to_str(le_from_tick(older)));

	ereport(NOTICE,
			(errmsg("tick %s of job \"%s\" is not claimed: tick %s may still be under way",
					timestamptz_to_str(le_from_tick(run->ask.tick)),
					le_shown(run->ask.job), tick)));
}

/* One claim as leader of the term, and its run. */
static Progress
claim_and_run(Run *run, const LeTerm *term)
{
	LeReply		reply;
	LeMyClaim  *claim = le_try_claim(&run->ask, term, true, &reply);

	if (reply.kind == LE_REPLY_ERROR)
	{
		if (!may_change(run, &reply))
			le_throw(&reply);
		return NOT_NOW;
	}
	if (claim != NULL)
	{
		run_command(run, term->token, claim);
		return OVER;
	}
	if (reply.behind)
	{
		Run			older = *run;

		older.ask.tick = reply.tick;
		claim = le_try_claim(&older.ask, term, true, &reply);
		if (reply.kind == LE_REPLY_ERROR && !may_change(run, &reply))
			le_throw(&reply);
		if (claim != NULL)
			run_command(&older, term->token, claim);
		return reply.kind == LE_REPLY_ERROR ? NOT_NOW : ONCE_MORE;
	}
	if (reply.under_way)
	{
		if (le_now() < run->until)
			return NOT_NOW;
		tell_under_way(run, reply.tick);
	}
	/* Not for this term; but the next one, perhaps ours, may claim it. */
	if (reply.no_term && le_now() < run->until)
		return NOT_NOW;
	le_stat_count(run->ask.election, LE_STAT_SKIPS);
	return OVER;
}

static Progress
run_tick(Run *run, const LeTerm *term)
{
	Progress	progress;

	if (!bind_session(run, term->token))
		return NOT_NOW;
	progress = claim_and_run(run, term);
	le_fence_clear_standing();
	if (progress != NOT_NOW)
		(void) le_make_progress(run->ask.election);
	return progress;
}

/* Has a live term, or a later tick, made ours unnecessary? */
static bool
taken_care_of(const Run *run)
{
	LeAsk		ask = run->ask;
	LeReply		reply;

	ask.kind = LE_ASK_LOOK;
	ask.wait_until = run->until;
	le_ask(&ask, &reply);
	return reply.kind == LE_REPLY_TRUE;
}

static void
run_when_leading(Run *run)
{
	le_time		claim_at = 0;
	le_time		look_at = 0;

	for (;;)
	{
		Progress	progress = NOT_NOW;
		LeTerm		term;

		if (leads(run, &term))
		{
			if (le_now() >= claim_at)
			{
				progress = run_tick(run, &term);
				claim_at = le_now() + LOOK_INTERVAL;
			}
		}
		else if (le_now() >= run->until ||
				 (le_now() >= look_at && taken_care_of(run)))
		{
			le_stat_count(run->ask.election, LE_STAT_SKIPS);
			return;
		}
		else if (le_now() >= look_at)
		{
			look_at = le_now() + LOOK_INTERVAL;
		}
		if (progress == OVER)
			return;
		if (progress == ONCE_MORE)
			claim_at = 0;
		else
			sleep_a_little();
	}
}

/*
 * The schema of the function, quoted: other functions of ours are there, too,
 * and the path of whoever pastes a statement may differ.
 */
const char *
le_schema_of(FunctionCallInfo fcinfo)
{
	Oid			schema = get_func_namespace(fcinfo->flinfo->fn_oid);
	char	   *name = get_namespace_name(schema);

	/* A function can be dropped while it runs. */
	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("extension \"leader_election\" has been dropped")));
	return quote_identifier(name);
}

/*
 * Make a job noticeable that would never run anywhere.  Whether somebody else
 * leads only the store knows, which is not asked at each tick.
 */
static void
warn_if_idle(const Run *run, FunctionCallInfo fcinfo)
{
	const char *election = run->ask.election;

	if (le_takes_part(election))
		return;
	if (le_worker_left_out)
	{
		ereport(WARNING,
				(errmsg("the leader_election worker is not running"),
				 errdetail(LE_LEFT_OUT_DETAIL " The command is not run here.",
						   max_worker_processes),
				 errhint(LE_LEFT_OUT_HINT)));
		return;
	}
	ereport(WARNING,
			(errmsg("this instance does not seek election \"%s\"", election),
			 errdetail("Until it does, and leads, the command is not run here."),
			 errhint("Is the name spelled right, and in \"leader_election.campaign\"? To see the leader, run SELECT %s.le_current_leader(%s) as a role that may call it.",
					 le_schema_of(fcinfo), quote_literal_cstr(election))));
}

/* For people; NULL: one of them is gone. */
const char *
le_name_callers(const LeJobCallers *callers)
{
	char	   *role = GetUserNameFromId(callers->last.role, true);
	char	   *other = GetUserNameFromId(callers->other.role, true);
	char	   *database = get_database_name(callers->last.database);
	char	   *elsewhere = get_database_name(callers->other.database);

	if (role == NULL || other == NULL || database == NULL ||
		elsewhere == NULL)
		return NULL;
	return psprintf("Role \"%s\" calls it in database \"%s\", and role \"%s\" in database \"%s\": at each tick one command runs, and the other does not.",
					role, database, other, elsewhere);
}

/*
 * Two schedulers have a job of that name, and nobody would see why a command
 * does not run.  The log has it once, each caller at each of its calls.
 */
static void
warn_if_called_by_two(const Run *run)
{
	LeCaller	me = {GetUserId(), MyDatabaseId};
	LeJobCallers callers;
	const char *who;
	bool		first;

	if (!run->has_tick)
		return;
	first = le_note_caller(run->ask.election, run->ask.job, me, &callers);
	who = le_callers_clash(&callers) ? le_name_callers(&callers) : NULL;
	if (who == NULL)
		return;
	ereport(first ? WARNING : WARNING_CLIENT_ONLY,
			(errmsg("job \"%s\" of election \"%s\" has two callers",
					le_shown(run->ask.job), run->ask.election),
			 errdetail("%s", who),
			 errhint("%s", LE_CALLERS_HINT)));
}

/* ---- SQL ---- */

Datum
le_run(PG_FUNCTION_ARGS)
{
	Run			run;
	LeTerm		term;

	check_context(fcinfo);
	get_arguments(&run, fcinfo);
	le_find_conversions();
	warn_if_called_by_two(&run);
	if (!leads(&run, &term))
	{
		warn_if_idle(&run, fcinfo);
		if (le_now() >= run.until)
		{
			le_stat_count(run.ask.election, LE_STAT_SKIPS);
			return (Datum) 0;
		}
	}

	if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect_ext failed");
	running = true;
	PG_TRY();
	{
		begin_to_wait();
		if (run.has_tick)
			run_when_leading(&run);
		else if (bind_session(&run, term.token))
			run_command(&run, term.token, NULL);
		else
			le_stat_count(run.ask.election, LE_STAT_SKIPS);
	}
	PG_FINALLY();
	{
		le_fence_clear_standing();
		le_park_claims();
		running = false;
	}
	PG_END_TRY();
	SPI_finish();
	return (Datum) 0;
}

/* The tick that le_run() is running in this session; else NULL. */
Datum
le_tick(PG_FUNCTION_ARGS)
{
	le_check_preloaded();
	if (!running_tick)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(le_from_tick(current_tick));
}
