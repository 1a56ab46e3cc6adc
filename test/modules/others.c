/*-------------------------------------------------------------------------
 *
 * others.c
 *		Behavior of other extensions, for tests of ours beside them.
 *
 * Built by LeaderElection::Module and loaded after the extension, so its hooks
 * are called first and see a statement end last.
 *
 * test/modules/others.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "access/xact.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(others_at_commit);
PG_FUNCTION_INFO_V1(others_fail);
PG_FUNCTION_INFO_V1(others_sleep);

extern PGDLLEXPORT void _PG_init(void);

static ExecutorEnd_hook_type next_executor_end = NULL;

static char *at_commit = NULL;	/* the command to run then; NULL: none */
static int	times = 0;			/* to run it */
static bool registered = false;

static int64
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64CONST(1000) + now.tv_nsec / 1000000;
}

static void
run_command(void)
{
	elog(NOTICE, "called at commit");
	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
	for (int i = 0; i < times; i++)
		SPI_execute(at_commit, false, 0);
	SPI_finish();
	PopActiveSnapshot();
}

static void
at_xact_end(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_COMMIT && at_commit != NULL)
		run_command();
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT)
		at_commit = NULL;
}

/* Registered as late as possible: when all other hooks have been called. */
static void
executor_end(QueryDesc *query)
{
	if (next_executor_end)
		next_executor_end(query);
	else
		standard_ExecutorEnd(query);
	if (registered || at_commit == NULL)
		return;
	RegisterXactCallback(at_xact_end, NULL);
	registered = true;
}

void
_PG_init(void)
{
	next_executor_end = ExecutorEnd_hook;
	ExecutorEnd_hook = executor_end;
}

/* Run this command, that often, when the transaction is about to commit. */
Datum
others_at_commit(PG_FUNCTION_ARGS)
{
	at_commit = MemoryContextStrdup(TopMemoryContext,
									text_to_cstring(PG_GETARG_TEXT_PP(0)));
	times = PG_GETARG_INT32(1);
	PG_RETURN_VOID();
}

/* Work for that many ms, deaf to interrupts, and fail. */
Datum
others_fail(PG_FUNCTION_ARGS)
{
	int64		until = now_ms() + PG_GETARG_INT32(0);

	while (now_ms() < until)
		;
	ereport(ERROR,
			(errcode(ERRCODE_DIVISION_BY_ZERO),
			 errmsg("failed at last")));
	PG_RETURN_VOID();
}

/*
 * Wait that many ms in the given system call, as code does that knows nothing
 * of PostgreSQL, and report the time.
 */
Datum
others_sleep(PG_FUNCTION_ARGS)
{
	char	   *how = text_to_cstring(PG_GETARG_TEXT_PP(0));
	int			ms = PG_GETARG_INT32(1);
	int64		from = now_ms();
	struct timespec span = {ms / 1000, ms % 1000 * 1000000L};

	if (strcmp(how, "sleep") == 0)
		sleep(ms / 1000);
	else if (strcmp(how, "poll") == 0)
		(void) poll(NULL, 0, ms);
	else
		nanosleep(&span, NULL);
	PG_RETURN_INT32((int32) (now_ms() - from));
}
