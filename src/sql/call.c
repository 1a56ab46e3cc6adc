/*-------------------------------------------------------------------------
 *
 * call.c
 *		The CALL of le_run() as text, for a scheduler to keep, and back.
 *
 * A scheduler keeps the job's command as a literal in the CALL.  Writing a
 * CALL includes the checks of le_run(), so that mistakes fail now and not at
 * the first tick.  Reading only parses the text and evaluates nothing, so its
 * author need not be trusted.
 *
 * src/sql/call.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/timestamp.h"

#include "sql/arguments.h"
#include "sql/call.h"
#include "sql/run.h"

PG_FUNCTION_INFO_V1(le_run_call);
PG_FUNCTION_INFO_V1(le_run_command);

/* The arguments of le_run(), by position. */
typedef enum LeRunArgument
{
	LE_RUN_ELECTION,
	LE_RUN_COMMAND,
	LE_RUN_JOB,
	LE_RUN_EVERY,
	LE_RUN_TICK,
	LE_RUN_WAIT,
	LE_RUN_CATCH_UP,
	LE_RUN_ON_LOSS,
	LE_RUN_MISSED,
	LE_RUN_MAX_MISSED,
	LE_RUN_TIMEOUT
} LeRunArgument;

/* ---- to text ---- */

/* The arguments of le_run_call(): those of le_run() but the tick. */
static const LeRunArgument given[] = {
	LE_RUN_ELECTION, LE_RUN_COMMAND, LE_RUN_JOB, LE_RUN_EVERY, LE_RUN_WAIT,
	LE_RUN_CATCH_UP, LE_RUN_ON_LOSS, LE_RUN_MISSED, LE_RUN_MAX_MISSED,
	LE_RUN_TIMEOUT
};

#define DEFAULT_MAX_MISSED	100

static void
set_arguments(FunctionCallInfo run, FunctionCallInfo fcinfo)
{
	for (int i = 0; i < FUNC_MAX_ARGS; i++)
		run->args[i] = (NullableDatum) {.value = (Datum) 0, .isnull = true};
	for (int i = 0; i < lengthof(given); i++)
		run->args[given[i]] = fcinfo->args[i];
}

static char *
text_of(FunctionCallInfo run, LeRunArgument n)
{
	return TextDatumGetCString(run->args[n].value);
}

/* In a form that means the same under every IntervalStyle. */
static char *
interval_of(FunctionCallInfo run, LeRunArgument n)
{
	char		buf[MAXDATELEN + 1];
	struct pg_itm itm;

	interval2itm(*DatumGetIntervalP(run->args[n].value), &itm);
	EncodeInterval(&itm, INTSTYLE_POSTGRES, buf);
	return pstrdup(buf);
}

static bool
is_zero(FunctionCallInfo run, LeRunArgument n)
{
	Interval   *interval = DatumGetIntervalP(run->args[n].value);

	return interval->time == 0 && interval->day == 0;
}

/*
 * Cast the argument to the type that le_run() declares.  An untyped literal
 * might match an overload instead, which would run with the job's privileges.
 */
static void
append_text(StringInfo call, const char *name, FunctionCallInfo run,
			LeRunArgument n)
{
	appendStringInfo(call, "%s%s::text", name,
					 quote_literal_cstr(text_of(run, n)));
}

static void
append_interval(StringInfo call, const char *name, FunctionCallInfo run,
				LeRunArgument n)
{
	appendStringInfo(call, ", %s => interval '%s'", name,
					 interval_of(run, n));
}

/* The arguments that differ from the defaults, by name. */
static void
append_options(StringInfo call, FunctionCallInfo run)
{
	int32		max_missed = DatumGetInt32(run->args[LE_RUN_MAX_MISSED].value);

	if (!run->args[LE_RUN_JOB].isnull)
		append_text(call, ", job => ", run, LE_RUN_JOB);
	if (!run->args[LE_RUN_EVERY].isnull)
		append_interval(call, "every", run, LE_RUN_EVERY);
	if (!is_zero(run, LE_RUN_WAIT))
		append_interval(call, "wait", run, LE_RUN_WAIT);
	if (DatumGetBool(run->args[LE_RUN_CATCH_UP].value))
		appendStringInfoString(call, ", catch_up => true");
	if (strcmp(text_of(run, LE_RUN_ON_LOSS), "cancel") != 0)
		append_text(call, ", on_loss => ", run, LE_RUN_ON_LOSS);
	if (strcmp(text_of(run, LE_RUN_MISSED), "skip") != 0)
		append_text(call, ", missed => ", run, LE_RUN_MISSED);
	if (max_missed != DEFAULT_MAX_MISSED)
		appendStringInfo(call, ", max_missed => %d", max_missed);
	if (!is_zero(run, LE_RUN_TIMEOUT))
		append_interval(call, "timeout", run, LE_RUN_TIMEOUT);
}

Datum
le_run_call(PG_FUNCTION_ARGS)
{
	LOCAL_FCINFO(run, FUNC_MAX_ARGS);
	StringInfoData call;

	InitFunctionCallInfoData(*run, NULL, FUNC_MAX_ARGS, InvalidOid, NULL,
							 NULL);
	set_arguments(run, fcinfo);
	le_run_check_arguments(run);
	initStringInfo(&call);
	appendStringInfo(&call, "CALL %s.le_run(", le_schema_of(fcinfo));
	append_text(&call, "", run, LE_RUN_ELECTION);
	append_text(&call, ", ", run, LE_RUN_COMMAND);
	append_options(&call, run);
	appendStringInfoChar(&call, ')');
	PG_RETURN_TEXT_P(cstring_to_text_with_len(call.data, call.len));
}

/* ---- from text ---- */

/* The call, if the text is exactly one CALL of le_run(). */
static FuncCall *
call_of_le_run(const char *text)
{
	List	   *statements = le_parse_command(text);
	Node	   *statement;
	FuncCall   *call;

	if (list_length(statements) != 1)
		return NULL;
	statement = linitial_node(RawStmt, statements)->stmt;
	if (!IsA(statement, CallStmt))
		return NULL;
	call = ((CallStmt *) statement)->funccall;
	return strcmp(strVal(llast(call->funcname)), "le_run") == 0 ? call : NULL;
}

/* Is it this argument, by position or by name? */
static bool
is_argument(Node *node, int at, LeRunArgument n, const char *name)
{
	if (IsA(node, NamedArgExpr))
		return strcmp(((NamedArgExpr *) node)->name, name) == 0;
	return at == (int) n;
}

/* The argument, if it is written as a literal; otherwise NULL. */
static char *
literal_of(FuncCall *call, LeRunArgument n, const char *name)
{
	ListCell   *lc;

	foreach(lc, call->args)
	{
		Node	   *node = lfirst(lc);

		if (!is_argument(node, foreach_current_index(lc), n, name))
			continue;
		if (IsA(node, NamedArgExpr))
			node = (Node *) ((NamedArgExpr *) node)->arg;
		if (IsA(node, TypeCast))
			node = ((TypeCast *) node)->arg;
		if (IsA(node, A_Const) && !((A_Const *) node)->isnull &&
			IsA(&((A_Const *) node)->val, String))
			return strVal(&((A_Const *) node)->val);
	}
	return NULL;
}

static void
set_text(Datum *value, bool *isnull, const char *text)
{
	*isnull = text == NULL;
	if (text != NULL)
		*value = CStringGetTextDatum(text);
}

/*
 * Does the text call le_run(), and with which literals?  One that cannot be
 * parsed does not.  The parser holds nothing that an error would have to
 * release.
 */
bool
le_calls_run(const char *text, char **election, char **job)
{
	MemoryContext caller = CurrentMemoryContext;
	FuncCall   *volatile call = NULL;

	PG_TRY();
	{
		call = call_of_le_run(text);
	}
	PG_CATCH();
	{
		if (geterrcode() == ERRCODE_QUERY_CANCELED ||
			geterrcode() == ERRCODE_ADMIN_SHUTDOWN ||
			geterrcode() == ERRCODE_OUT_OF_MEMORY)
			PG_RE_THROW();
		MemoryContextSwitchTo(caller);
		FlushErrorState();
	}
	PG_END_TRY();
	*election = call == NULL ? NULL :
		literal_of(call, LE_RUN_ELECTION, "election");
	*job = call == NULL ? NULL : literal_of(call, LE_RUN_JOB, "job");
	return call != NULL;
}

/* election, job and command; nulls unless the text is a CALL of le_run() */
Datum
le_run_command(PG_FUNCTION_ARGS)
{
	FuncCall   *call = call_of_le_run(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	Datum		values[3] = {0};
	bool		nulls[3] = {true, true, true};
	TupleDesc	tupdesc;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (call != NULL)
	{
		set_text(&values[0], &nulls[0],
				 literal_of(call, LE_RUN_ELECTION, "election"));
		set_text(&values[1], &nulls[1], literal_of(call, LE_RUN_JOB, "job"));
		set_text(&values[2], &nulls[2],
				 literal_of(call, LE_RUN_COMMAND, "command"));
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc),
													  values, nulls)));
}
