/*-------------------------------------------------------------------------
 *
 * functions.c
 *		SQL functions: check arguments, ask the worker, wait.
 *
 * le_is_leader(), le_fencing_token() and le_remaining() read shared memory and
 * nothing else; le_progress() also writes one number there.  All others leave
 * the work to the worker.
 *
 * src/sql/functions.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "settings.h"
#include "shmem/bound.h"
#include "shmem/requests.h"
#include "sql/arguments.h"
#include "sql/encoding.h"
#include "sql/fence.h"
#include "sql/guard.h"
#include "sql/xact.h"

PG_FUNCTION_INFO_V1(le_acquire);
PG_FUNCTION_INFO_V1(le_renew);
PG_FUNCTION_INFO_V1(le_release);
PG_FUNCTION_INFO_V1(le_current_leader);
PG_FUNCTION_INFO_V1(le_leader);
PG_FUNCTION_INFO_V1(le_is_leader);
PG_FUNCTION_INFO_V1(le_seeks);
PG_FUNCTION_INFO_V1(le_progress);
PG_FUNCTION_INFO_V1(le_fencing_token);
PG_FUNCTION_INFO_V1(le_remaining);
PG_FUNCTION_INFO_V1(le_require_leader);
PG_FUNCTION_INFO_V1(le_fence_guard);
PG_FUNCTION_INFO_V1(le_campaign);
PG_FUNCTION_INFO_V1(le_withdraw);
PG_FUNCTION_INFO_V1(le_step_down);
PG_FUNCTION_INFO_V1(le_accept_store);
PG_FUNCTION_INFO_V1(le_version);

/* ---- arguments ---- */

static LeOwner
scope_owner(text *scope)
{
	char	   *name = text_to_cstring(scope);

	if (strcmp(name, "node") == 0)
		return LE_OWNER_NODE;
	if (strcmp(name, "session") == 0)
		return le_my_owner(false);
	if (strcmp(name, "transaction") == 0)
		return le_my_owner(true);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid scope: \"%s\"", name),
			 errhint("The scope is \"node\", \"session\" or \"transaction\".")));
	return LE_OWNER_NONE;		/* keep compilers quiet */
}

/* The argument on_loss; NULL: the setting. */
static LeOnLoss
on_loss_argument(FunctionCallInfo fcinfo, int n)
{
	return le_on_loss_named(PG_ARGISNULL(n) ? NULL :
							text_to_cstring(PG_GETARG_TEXT_PP(n)));
}

/* Ask, for a session that ends terms which it may depend on itself. */
static void
ask_to_leave(LeAsk *ask, LeReply *reply)
{
	le_fence_leave_begin(ask->all ? LE_BOUND_ALL :
						 le_find_term(ask->election));
	PG_TRY();
	{
		le_ask_worker(ask, reply);
	}
	PG_FINALLY();
	{
		le_fence_leave_end();
	}
	PG_END_TRY();
}

/* ---- leading ---- */

Datum
le_acquire(PG_FUNCTION_ARGS)
{
	LeAsk		ask;
	LeReply		reply;
	le_duration wait;
	LeOnLoss	on_loss;

	le_start_ask(&ask, LE_ASK_ACQUIRE, fcinfo);
	le_check_not_null(fcinfo, 2, "wait");
	le_check_not_null(fcinfo, 3, "scope");
	if (!PG_ARGISNULL(1))
		le_set_value(&ask, PG_GETARG_TEXT_PP(1));
	wait = le_to_duration(PG_GETARG_INTERVAL_P(2), "wait");
	ask.wait_until = wait == 0 ? 0 : le_now() + wait;
	ask.owner = scope_owner(PG_GETARG_TEXT_PP(3));
	on_loss = on_loss_argument(fcinfo, 4);
	ask.within = le_to_within(fcinfo, 5);
	if (ask.owner == LE_OWNER_NODE && !PG_ARGISNULL(4) &&
		on_loss != LE_ON_LOSS_NONE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"on_loss\" needs scope \"session\" or \"transaction\""),
				 errhint("In scope \"node\" let each job call le_require_leader().")));
	if (ask.owner & LE_OWNER_XACT)
		le_xact_prepare();
	if (ask.owner != LE_OWNER_NODE)
		le_fence_prepare(on_loss);

	le_ask_worker(&ask, &reply);
	if (reply.kind == LE_REPLY_TRUE && (ask.owner & LE_OWNER_XACT))
	{
		le_xact_holds(ask.election, reply.token);
		(void) le_fence_bind(ask.election, 0, on_loss);
	}
	else if (reply.kind == LE_REPLY_TRUE && ask.owner != LE_OWNER_NODE)
		le_fence_hold(ask.election, reply.token, on_loss);
	PG_RETURN_BOOL(reply.kind == LE_REPLY_TRUE);
}

Datum
le_renew(PG_FUNCTION_ARGS)
{
	LeAsk		ask;
	LeReply		reply;

	le_start_ask(&ask, LE_ASK_RENEW, fcinfo);
	if (!PG_ARGISNULL(1))
		le_set_value(&ask, PG_GETARG_TEXT_PP(1));
	le_ask_worker(&ask, &reply);
	PG_RETURN_BOOL(reply.kind == LE_REPLY_TRUE);
}

Datum
le_release(PG_FUNCTION_ARGS)
{
	LeAsk		ask;
	LeReply		reply;

	le_start_ask(&ask, LE_ASK_RELEASE, fcinfo);
	ask_to_leave(&ask, &reply);
	if (reply.kind == LE_REPLY_NOT_HELD)
		ereport(WARNING,
				(errmsg("you do not hold election \"%s\"", ask.election)));
	PG_RETURN_BOOL(reply.kind == LE_REPLY_TRUE);
}

Datum
le_campaign(PG_FUNCTION_ARGS)
{
	LeAsk		ask;
	LeReply		reply;

	le_start_ask(&ask, LE_ASK_CAMPAIGN, fcinfo);
	if (!PG_ARGISNULL(1))
		le_set_value(&ask, PG_GETARG_TEXT_PP(1));
	ask.within = le_to_within(fcinfo, 2);
	le_ask_worker(&ask, &reply);
	PG_RETURN_VOID();
}

Datum
le_withdraw(PG_FUNCTION_ARGS)
{
	LeAsk		ask;
	LeReply		reply;

	le_start_ask(&ask, LE_ASK_WITHDRAW, fcinfo);
	ask_to_leave(&ask, &reply);
	PG_RETURN_BOOL(reply.kind == LE_REPLY_TRUE);
}

Datum
le_step_down(PG_FUNCTION_ARGS)
{
	LeAsk		ask = {0};
	LeReply		reply;
	LeTerm		term;
	bool		led;

	if (PG_ARGISNULL(0))
	{
		le_check_preloaded();
		ask.kind = LE_ASK_STEP_DOWN;
		ask.owner = le_my_owner(false);
		ask.all = true;			/* all allowed elections */
		strlcpy(ask.value, le_allowed_list, sizeof(ask.value));
	}
	else
		le_start_ask(&ask, LE_ASK_STEP_DOWN, fcinfo);
	le_check_not_null(fcinfo, 1, "hold_off");
	ask.hold_off = le_to_hold_off(PG_GETARG_INTERVAL_P(1));
	led = !ask.all && le_read_term(ask.election, &term) &&
		le_believes(le_now(), term.deadline);
	ask_to_leave(&ask, &reply);
	if (reply.kind == LE_REPLY_TRUE && !ask.all && !led && ask.hold_off > 0)
		ereport(NOTICE,
				(errmsg("this instance did not lead election \"%s\"",
						ask.election),
				 errdetail("It does not contend for it during the hold-off.")));
	PG_RETURN_BOOL(reply.kind == LE_REPLY_TRUE);
}

/* NULL: of all elections. */
Datum
le_accept_store(PG_FUNCTION_ARGS)
{
	LeAsk		ask = {0};
	LeReply		reply;

	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to accept lower fencing tokens and older records")));
	if (PG_ARGISNULL(0))
	{
		le_check_preloaded();
		ask.kind = LE_ASK_ACCEPT_STORE;
		ask.owner = le_my_owner(false);
		ask.all = true;
	}
	else
		le_start_ask(&ask, LE_ASK_ACCEPT_STORE, fcinfo);
	le_ask_worker(&ask, &reply);
	PG_RETURN_VOID();
}

/* ---- checks: shared memory only ---- */

/* A name that does not fit is no election's. */
static bool
get_name(text *name, char *election)
{
	Size		len = VARSIZE_ANY_EXHDR(name);

	le_check_preloaded();
	if (len > LE_MAX_ELECTION_LEN)
		return false;
	memcpy(election, VARDATA_ANY(name), len);
	election[len] = '\0';
	return true;
}

Datum
le_is_leader(PG_FUNCTION_ARGS)
{
	char		election[LE_MAX_ELECTION_LEN + 1];
	LeTerm		term;

	PG_RETURN_BOOL(get_name(PG_GETARG_TEXT_PP(0), election) &&
				   le_may_begin(election, &term));
}

Datum
le_seeks(PG_FUNCTION_ARGS)
{
	char		election[LE_MAX_ELECTION_LEN + 1];

	PG_RETURN_BOOL(get_name(PG_GETARG_TEXT_PP(0), election) &&
				   le_takes_part(election));
}

/*
 * le_is_leader() that also notes progress: see progress_within.  It prolongs a
 * term, so the caller needs the permission to lead.  Not STRICT, since a call
 * with NULL would pass unchecked.
 */
Datum
le_progress(PG_FUNCTION_ARGS)
{
	LeAsk		ask;

	le_check_preloaded();
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	le_set_election(&ask, PG_GETARG_TEXT_PP(0));
	PG_RETURN_BOOL(le_make_progress(ask.election));
}

/*
 * A bound transaction returns its term's token until its end, even if the term
 * is being given up or over.  Receivers of the token judge that, and the
 * commit is refused anyway.
 */
Datum
le_fencing_token(PG_FUNCTION_ARGS)
{
	char		election[LE_MAX_ELECTION_LEN + 1];
	LeTerm		term;

	if (!get_name(PG_GETARG_TEXT_PP(0), election))
		PG_RETURN_NULL();
	term.token = le_fence_token(election);
	if (term.token == 0 && !le_may_begin(election, &term))
		PG_RETURN_NULL();
	PG_RETURN_INT64((int64) term.token);
}

/*
 * For clients that act elsewhere and cannot read our clock: they count from
 * the instant of the call.  The result is never rounded up, and the clock is
 * read after the deadline, so a pause in between makes it smaller.  For a
 * bound transaction only its term counts, and no later one of this backend.
 */
Datum
le_remaining(PG_FUNCTION_ARGS)
{
	char		election[LE_MAX_ELECTION_LEN + 1];
	LeTerm		term;
	uint64		bound;
	le_duration left;
	Interval   *remaining;

	if (!get_name(PG_GETARG_TEXT_PP(0), election) ||
		!le_may_begin(election, &term))
		PG_RETURN_NULL();
	bound = le_fence_token(election);
	if (bound != 0 && bound != term.token)
		PG_RETURN_NULL();
	left = term.deadline - le_now();
	if (left <= 0)
		PG_RETURN_NULL();
	remaining = (Interval *) palloc0(sizeof(Interval));
	remaining->time = left / 1000;
	PG_RETURN_INTERVAL_P(remaining);
}

/*
 * The gate: raises an error unless the caller leads, and binds its
 * transaction to the term.
 */
Datum
le_require_leader(PG_FUNCTION_ARGS)
{
	LeAsk		ask;
	le_duration min_remaining;

	le_check_preloaded();
	le_check_not_null(fcinfo, 0, "election");
	le_check_not_null(fcinfo, 1, "min_remaining");
	le_set_election(&ask, PG_GETARG_TEXT_PP(0));
	min_remaining = le_to_duration(PG_GETARG_INTERVAL_P(1), "min_remaining");
	PG_RETURN_INT64((int64) le_fence_bind(ask.election,
										  min_remaining / LE_MSEC,
										  on_loss_argument(fcinfo, 2)));
}

/* The gate, and the same for a table that several instances write to. */
Datum
le_fence_guard(PG_FUNCTION_ARGS)
{
	LeAsk		ask;
	uint64		token;

	le_check_preloaded();
	le_check_not_null(fcinfo, 0, "rel");
	le_check_not_null(fcinfo, 1, "election");
	le_set_election(&ask, PG_GETARG_TEXT_PP(1));
	token = le_fence_bind(ask.election, 0, le_on_loss_named(NULL));
	le_guard(PG_GETARG_OID(0), ask.election, token);
	PG_RETURN_INT64((int64) token);
}

/* ---- the leader ---- */

static void
ask_leader(FunctionCallInfo fcinfo, LeReply *reply)
{
	LeAsk		ask;

	le_start_ask(&ask, LE_ASK_LEADER, fcinfo);
	le_check_not_null(fcinfo, 1, "max_staleness");
	ask.max_staleness = le_to_duration(PG_GETARG_INTERVAL_P(1), "max_staleness");
	le_ask_store(&ask, reply,
				 "The view le_status shows the leader as it was last seen.");
}

Datum
le_current_leader(PG_FUNCTION_ARGS)
{
	LeReply		reply;

	ask_leader(fcinfo, &reply);
	if (!reply.has_leader)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(le_shown(reply.leader)));
}

Datum
le_leader(PG_FUNCTION_ARGS)
{
	LeReply		reply;
	TupleDesc	desc;
	Datum		values[6] = {0};
	bool		nulls[6] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	ask_leader(fcinfo, &reply);

	values[0] = PG_GETARG_DATUM(0);
	nulls[1] = !reply.has_leader;
	if (reply.has_leader)
		values[1] = CStringGetTextDatum(le_shown(reply.leader));
	nulls[2] = !reply.has_value;
	if (reply.has_value)
		values[2] = CStringGetTextDatum(le_shown(reply.value));
	nulls[3] = reply.leader_token == 0;
	values[3] = Int64GetDatum((int64) reply.leader_token);
	values[4] = BoolGetDatum(reply.is_self);
	values[5] = TimestampTzGetDatum(reply.observed);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

Datum
le_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(LE_VERSION));
}
