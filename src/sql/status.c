/*-------------------------------------------------------------------------
 *
 * status.c
 *		The rows behind the views.
 *
 * All but le_claims and le_jobs come from shared memory alone: they work while
 * the store or the worker is down, the time when they are needed most.
 *
 * src/sql/status.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/tupdesc.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "settings.h"
#include "shmem/events.h"
#include "shmem/history.h"
#include "shmem/job_snapshot.h"
#include "shmem/leases.h"
#include "shmem/progress.h"
#include "shmem/requests.h"
#include "shmem/stats.h"
#include "sql/arguments.h"
#include "sql/encoding.h"
#include "sql/jobs.h"
#include "sql/status.h"

PG_FUNCTION_INFO_V1(le_status);
PG_FUNCTION_INFO_V1(le_nodes);
PG_FUNCTION_INFO_V1(le_claims);
PG_FUNCTION_INFO_V1(le_jobs);
PG_FUNCTION_INFO_V1(le_history);
PG_FUNCTION_INFO_V1(le_events);
PG_FUNCTION_INFO_V1(le_stat);
PG_FUNCTION_INFO_V1(le_stat_reset);

/* election, the counters, the round trips, the longest turn, the last answer,
 * since when */
#define MAX_COLUMNS		(1 + LE_NSTATS + 6 + 3)

/* A row under construction. */
typedef struct Row
{
	Datum		values[MAX_COLUMNS];
	bool		nulls[MAX_COLUMNS];
	int			n;
} Row;

static void
put_column(Row *row, Datum value, bool isnull)
{
	row->values[row->n] = value;
	row->nulls[row->n] = isnull;
	row->n++;
}

static void
put_text(Row *row, const char *s)
{
	if (s == NULL || s[0] == '\0')
		put_column(row, (Datum) 0, true);
	else
		put_column(row, CStringGetTextDatum(le_shown(s)), false);
}

static void
put_time(Row *row, TimestampTz when)
{
	put_column(row, TimestampTzGetDatum(when), when == 0);
}

/* There may be a million of them. */
static void
put_row(Row *row, Tuplestorestate *rows, TupleDesc desc)
{
	CHECK_FOR_INTERRUPTS();
	tuplestore_putvalues(rows, desc, row->values, row->nulls);
}

Tuplestorestate *
le_begin_rows(FunctionCallInfo fcinfo, TupleDesc *desc)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext old;
	Tuplestorestate *rows;

	if (rsinfo == NULL || !IsA(rsinfo, ReturnSetInfo) ||
		(rsinfo->allowedModes & SFRM_Materialize) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("set-valued function called in context that cannot accept a set")));
	old = MemoryContextSwitchTo(rsinfo->econtext->ecxt_per_query_memory);
	if (get_call_result_type(fcinfo, NULL, desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	rows = tuplestore_begin_heap(true, false, work_mem);
	rsinfo->returnMode = SFRM_Materialize;
	rsinfo->setResult = rows;
	rsinfo->setDesc = *desc;
	MemoryContextSwitchTo(old);
	return rows;
}

static const char *
state_of(int number, const LeSlot *slot, le_time deadline)
{
	if (le_election_has_term(&slot->election) &&
		!le_believes(le_now(), deadline))
		return "expired";
	if (slot->election.state == LE_IDLE && slot->hold_off_until > le_now())
		return le_progress_of(number)->idles ? "no progress" : "stepped down";
	if (slot->election.state == LE_IDLE &&
		(slot->campaign || slot->configured))
		return "candidate";
	return le_state_name(slot->election.state);
}

/* The newer of this election's last error and the node's. */
static void
put_error(Row *row, const LeSlot *slot, const LeTrouble *trouble)
{
	if (trouble->at > slot->error.at)
	{
		put_time(row, trouble->at);
		put_text(row, trouble->text);
	}
	else
	{
		put_time(row, slot->error.at);
		put_text(row, slot->error.text);
	}
}

/* The time of the last progress, and that by which more is needed. */
static void
put_progress(Row *row, int number, bool leads)
{
	le_time		at = (le_time) pg_atomic_read_u64(&le_progress_of(number)->at);
	le_time		until = le_progress_until(number);
	TimestampTz shown = le_wall(at);

	put_time(row, leads ? shown : 0);
	put_time(row, leads && until != 0 ? shown + (until - at) / 1000 : 0);
}

static void
put_status(int number, LeSlot *slot, const LeTrouble *trouble,
		   Tuplestorestate *rows, TupleDesc desc)
{
	LeOwner		owner = pg_atomic_read_u64(&slot->term.owner);
	le_time		deadline = (le_time) pg_atomic_read_u64(&slot->term.deadline);
	uint64		token = pg_atomic_read_u64(&slot->term.token);
	bool		leads = token != 0;
	Row			row = {.n = 0};

	put_text(&row, slot->name);
	put_text(&row, state_of(number, slot, deadline));
	put_text(&row, owner == LE_OWNER_NONE ? NULL : le_scope_name(owner));
	put_text(&row, !leads ? le_leader_seen(slot) :
			 le_believes(le_now(), deadline) ? le_my_name() : NULL);
	put_column(&row, Int64GetDatum((int64) token), !leads);
	put_time(&row, leads && deadline != 0 ? le_wall(deadline) : 0);
	put_column(&row, Int32GetDatum(slot->owner_pid),
			   owner == LE_OWNER_NONE || owner == LE_OWNER_NODE);
	put_time(&row, leads ? slot->view.term_started : 0);
	put_time(&row, leads ? slot->view.renewed_at : 0);
	put_progress(&row, number, leads);
	put_time(&row, slot->view.last_change);
	put_text(&row, slot->view.last_reason == LE_REASON_NONE ? NULL :
			 le_reason_name(slot->view.last_reason));
	put_text(&row, le_configured_store()->between_instances ?
			 le_configured_store()->name : "local (this instance only)");
	put_error(&row, slot, trouble);
	put_text(&row, leads && slot->has_value ? slot->value : NULL);
	put_row(&row, rows, desc);
}

Datum
le_status(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Tuplestorestate *rows;
	LeSlot	   *slot = palloc(sizeof(LeSlot));
	LeTrouble	trouble;

	le_check_preloaded();
	rows = le_begin_rows(fcinfo, &desc);
	le_copy_trouble(&trouble);
	for (int i = 0; i < le_table->nused; i++)
		if (le_copy_slot(i, slot))
			put_status(i, slot, &trouble, rows, desc);
	return (Datum) 0;
}

/* For a node that is gone, its fitness does not matter. */
static const char *
node_state(const LeNodeInfo *info)
{
	if (info->revoked)
		return "revoked";
	if (!info->held)
		return "ended";
	if (le_now() - info->first_seen > 2 * info->lease)
		return "silent";
	return info->unfit[0] != '\0' ? info->unfit : "live";
}

static void
put_node(const LeNodeInfo *info, const char *state, Tuplestorestate *rows,
		 TupleDesc desc)
{
	Row			row = {.n = 0};
	Interval   *lease = palloc0(sizeof(Interval));

	lease->time = info->lease / 1000;
	put_text(&row, info->node);
	put_column(&row, BoolGetDatum(info->self), false);
	put_text(&row, state);
	put_column(&row, IntervalPGetDatum(lease), info->lease == 0);
	put_time(&row, info->first_seen_wall);
	put_text(&row, info->incarnation);
	put_text(&row, info->session);
	put_row(&row, rows, desc);
}

static bool
knows_nodes(const LeStore *store)
{
	return store->has_sessions;
}

/* This node, from its own memory. */
static void
this_node(LeNodeInfo *info)
{
	bool		live = le_table->node.state == LE_NODE_LIVE;

	memset(info, 0, sizeof(*info));
	strlcpy(info->node, le_my_name(), sizeof(info->node));
	strlcpy(info->incarnation, le_table->incarnation,
			sizeof(info->incarnation));
	info->self = true;
	if (!live)
		return;
	strlcpy(info->session, le_table->session, sizeof(info->session));
	info->lease = le_table->node.timing.lease;
	info->first_seen = le_table->node.proof_sent;
	info->first_seen_wall = info->first_seen == 0 ? 0 :
		le_wall(info->first_seen);
}

/*
 * This instance is shown from its own memory if the store does not list nodes,
 * or if it cannot lead and therefore does not take part.
 */
Datum
le_nodes(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Tuplestorestate *rows;
	LeNodeInfo *nodes = palloc(LE_MAX_NODES * sizeof(LeNodeInfo));
	LeNodeInfo	self;
	char		unfit[LE_UNFIT_LEN + 1];
	bool		seen = false;
	int			n;

	le_check_preloaded();
	rows = le_begin_rows(fcinfo, &desc);
	le_copy_unfit(unfit);
	n = knows_nodes(le_configured_store()) ? le_copy_nodes(nodes) : 0;
	for (int i = 0; i < n; i++)
	{
		const char *state = node_state(&nodes[i]);
		bool		here = nodes[i].self && nodes[i].held && !nodes[i].revoked;

		put_node(&nodes[i], here && unfit[0] != '\0' ? unfit : state, rows,
				 desc);
		seen = seen || here;
	}
	this_node(&self);
	if (seen)
		return (Datum) 0;
	if (unfit[0] != '\0')
		put_node(&self, unfit, rows, desc);
	else if (!knows_nodes(le_configured_store()) && self.lease != 0)
		put_node(&self, "live", rows, desc);
	return (Datum) 0;
}

static void
put_event(const LeEvent *record, Tuplestorestate *rows, TupleDesc desc)
{
	Row			row = {.n = 0};

	put_column(&row, Int64GetDatum((int64) record->number), false);
	put_time(&row, record->at);
	put_text(&row, le_event_name(record->what));
	put_text(&row, record->election);
	put_text(&row, record->node);
	put_column(&row, Int64GetDatum((int64) record->token), record->token == 0);
	put_column(&row, Int32GetDatum(record->pid), false);
	put_text(&row, record->detail);
	put_row(&row, rows, desc);
}

/* The newest last, as in a log. */
Datum
le_events(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Tuplestorestate *rows;
	LeEventReader reader;
	LeEvent		record;

	le_check_preloaded();
	rows = le_begin_rows(fcinfo, &desc);
	le_begin_events(&reader);
	while (le_next_event(&reader, &record))
		put_event(&record, rows, desc);
	return (Datum) 0;
}

/*
 * Milliseconds, as in PostgreSQL's own statistics, rounded to microseconds:
 * measurements are no finer, and a mean of sixteen digits would make a wide
 * column.
 */
static void
put_ms(Row *row, double microseconds, bool isnull)
{
	put_column(row, Float8GetDatum(rint(microseconds) / 1000), isnull);
}

static void
put_stat(const char *election, int slot, Tuplestorestate *rows, TupleDesc desc)
{
	Row			row = {.n = 0};
	LeStatRow	stat;
	bool		none;

	le_copy_stat(slot, &stat);
	none = stat.trips == 0;
	put_text(&row, election);
	for (int i = 0; i < LE_NSTATS; i++)
	{
		if (i == LE_STAT_RUN_TIME)
			put_ms(&row, (double) stat.counts[i], false);
		else
			put_column(&row, Int64GetDatum((int64) stat.counts[i]), false);
	}
	put_column(&row, Int64GetDatum((int64) stat.trips), false);
	put_ms(&row, (double) stat.trips_total, false);
	put_ms(&row, stat.trip_last, none);
	put_ms(&row, stat.trip_min, none);
	put_ms(&row, none ? 0 : (double) stat.trips_total / stat.trips, none);
	put_ms(&row, stat.trip_max, none);
	put_ms(&row, (double) le_longest_turn(), false);
	put_time(&row, le_last_contact() == 0 ? 0 : le_wall(le_last_contact()));
	put_time(&row, le_stat_since());
	put_row(&row, rows, desc);
}

Datum
le_stat(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Tuplestorestate *rows;
	LeSlot	   *slot = palloc(sizeof(LeSlot));

	le_check_preloaded();
	rows = le_begin_rows(fcinfo, &desc);
	put_stat(NULL, LE_STAT_NODE, rows, desc);
	for (int i = 0; i < le_table->nused; i++)
		if (le_copy_slot(i, slot))
			put_stat(slot->name, i, rows, desc);
	return (Datum) 0;
}

Datum
le_stat_reset(PG_FUNCTION_ARGS)
{
	le_check_preloaded();
	le_reset_stats();
	PG_RETURN_VOID();
}

typedef struct ClaimRows
{
	TupleDesc	desc;
	Tuplestorestate *rows;
} ClaimRows;

static void
put_claim(const LeClaimRow *claim, void *arg)
{
	ClaimRows  *to = arg;
	Row			row = {.n = 0};

	put_text(&row, claim->election);
	put_text(&row, claim->job);
	put_text(&row, le_claim_state_name(claim->state));
	put_column(&row, TimestampTzGetDatum(le_from_tick(claim->tick)), false);
	put_column(&row, Int32GetDatum(claim->try), false);
	put_text(&row, claim->node);
	put_column(&row, Int64GetDatum((int64) claim->token), false);
	put_column(&row, TimestampTzGetDatum(le_from_tick(claim->claimed_at)),
			   claim->claimed_at == 0);
	put_column(&row, TimestampTzGetDatum(le_from_tick(claim->ended_at)),
			   claim->ended_at == 0);
	put_text(&row, claim->id);
	put_row(&row, to->rows, to->desc);
}

Datum
le_claims(PG_FUNCTION_ARGS)
{
	ClaimRows	to;

	le_check_preloaded();
	to.rows = le_begin_rows(fcinfo, &to.desc);
	le_each_claim(put_claim, &to);
	return (Datum) 0;
}

/* ---- jobs ---- */

static const char *
job_state(const LeJobRow *job)
{
	return job->lost ? "lost" : job->abandoned ? "abandoned" :
		le_claim_state_name(job->claim.state);
}

/* In milliseconds, 0: not known */
static void
put_tick(Row *row, int64 ms)
{
	put_column(row, TimestampTzGetDatum(le_from_tick(ms)), ms == 0);
}

static void
put_ms_interval(Row *row, int64 ms, bool isnull)
{
	Interval   *interval = palloc0(sizeof(Interval));

	interval->time = ms * 1000;
	put_column(row, IntervalPGetDatum(interval), isnull);
}

/* The run's duration, up to "then" if it is still running. */
static void
put_duration(Row *row, const LeJobRow *job, int64 then)
{
	const LeClaimRow *claim = &job->claim;
	int64		end = claim->ended_at;

	if (end == 0 && claim->state == LE_CLAIM_RUNNING && !job->abandoned)
		end = then;
	put_ms_interval(row, Max(end - claim->claimed_at, 0),
					end == 0 || claim->claimed_at == 0);
}

/* A day is 24 hours, as in le_run(). */
static void
put_every(Row *row, int64 ms)
{
	Interval   *interval = palloc0(sizeof(Interval));
	int64		us = ms * 1000;

	interval->day = (int32) (us / USECS_PER_DAY);
	interval->time = us % USECS_PER_DAY;
	put_column(row, IntervalPGetDatum(interval), ms == 0);
}

static void
put_failure(Row *row, const LeClaimRow *claim)
{
	if (claim->message[0] == '\0')
		put_text(row, claim->sqlstate);
	else
		put_text(row, psprintf("%s: %s", claim->sqlstate, claim->message));
}

/* All as of one time: an old snapshot does not make ticks late. */
static void
put_job(const LeJobRow *job, le_time as_of, Tuplestorestate *rows,
		TupleDesc desc)
{
	const LeClaimRow *claim = &job->claim;
	int64		then = le_unix_us(le_wall(as_of)) / 1000;
	bool		planned = claim->every != 0;
	int64		next = le_next_expected(claim->tick, claim->claimed_at,
										claim->every);
	Row			row = {.n = 0};

	put_text(&row, claim->election);
	put_text(&row, claim->job);
	put_text(&row, job_state(job));
	put_time(&row, le_wall(as_of));
	put_column(&row, BoolGetDatum(le_tick_is_late(then, claim->tick,
												  claim->claimed_at,
												  claim->every, claim->wait)),
			   !planned);
	put_column(&row, BoolGetDatum(le_claim_is_ahead(then, claim->tick,
													claim->claimed_at,
													claim->every)), false);
	put_column(&row, Int32GetDatum(claim->failures), claim->failures < 0);
	put_column(&row, TimestampTzGetDatum(le_from_tick(claim->tick)), false);
	put_column(&row, Int32GetDatum(claim->try), false);
	put_text(&row, claim->node);
	put_duration(&row, job, then);
	put_failure(&row, claim);
	put_tick(&row, claim->claimed_at);
	put_tick(&row, claim->ended_at);
	put_tick(&row, claim->last_success);
	put_every(&row, claim->every);
	put_column(&row, TimestampTzGetDatum(le_from_tick(next)), !planned);
	put_column(&row, Int64GetDatum((int64) claim->token), false);
	put_row(&row, rows, desc);
}

static void
have_jobs_looked_at(void)
{
	LeAsk		ask = {0};
	LeReply		reply;

	ask.kind = LE_ASK_JOBS;
	ask.owner = le_my_owner(false);
	le_ask_store(&ask, &reply,
				 "le_jobs(NULL) shows the jobs as they were last seen.");
}

/*
 * From the worker's last snapshot, unless it is older than the caller accepts;
 * null: the last snapshot, without asking the worker.
 */
Datum
le_jobs(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Tuplestorestate *rows;
	LeJobRow   *jobs = NULL;
	int			njobs = 0;
	le_time		as_of = 0;
	bool		known;

	le_check_preloaded();
	rows = le_begin_rows(fcinfo, &desc);
	known = le_job_snapshot_copy(&jobs, &njobs, &as_of);
	if (!PG_ARGISNULL(0))
	{
		le_duration most = le_to_duration(PG_GETARG_INTERVAL_P(0),
										  "max_staleness");

		if (!known || most == 0 || le_now() - as_of > most)
		{
			have_jobs_looked_at();
			known = le_job_snapshot_copy(&jobs, &njobs, &as_of);
		}
		if (!known)
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
					 errmsg("there was no shared memory for the list of jobs"),
					 errhint("The server's log has more.")));
	}
	for (int i = 0; i < njobs; i++)
		put_job(&jobs[i], as_of, rows, desc);
	return (Datum) 0;
}

static void
put_run(const LeJobRow *run, Tuplestorestate *rows, TupleDesc desc)
{
	const LeClaimRow *claim = &run->claim;
	bool		claimed = claim->try != 0;
	Row			row = {.n = 0};

	put_text(&row, claim->election);
	put_text(&row, claim->job);
	put_column(&row, TimestampTzGetDatum(le_from_tick(claim->tick)), !claimed);
	put_text(&row, job_state(run));
	put_column(&row, Int32GetDatum(claim->try), !claimed);
	put_text(&row, claim->node);
	put_duration(&row, run, le_tick_now());
	put_failure(&row, claim);
	put_tick(&row, claim->claimed_at);
	put_tick(&row, claim->ended_at);
	put_row(&row, rows, desc);
}

/* A name to look for, in the store's encoding; NULL: any. */
static char *
name_or_any(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		return NULL;
	return le_to_utf8(text_to_cstring(PG_GETARG_TEXT_PP(n)));
}

/* The newest first. */
Datum
le_history(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Tuplestorestate *rows;
	LeJobRow   *runs;
	int			most;
	int			n;

	le_check_preloaded();
	le_check_not_null(fcinfo, 2, "max_rows");
	most = PG_GETARG_INT32(2);
	if (most < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"max_rows\" must not be negative")));
	most = Min(most, le_max_events);
	rows = le_begin_rows(fcinfo, &desc);
	runs = MemoryContextAllocHuge(CurrentMemoryContext,
								  mul_size(Max(most, 1), sizeof(LeJobRow)));
	n = le_history_copy(name_or_any(fcinfo, 0), name_or_any(fcinfo, 1), most,
						runs);
	for (int i = 0; i < n; i++)
		put_run(&runs[i], rows, desc);
	return (Datum) 0;
}
