/*-------------------------------------------------------------------------
 *
 * jobs.c
 *		Ticks of jobs, as a backend claims and ends them.
 *
 * Each claim has an id that the backend draws.  The backend keeps it until the
 * store's answer is known, so that asking again does not claim twice; and then
 * until the claim is ended, since only its owner may end it.  The id ends in a
 * number that tells the worker whether a backend may still act on the claim
 * (run_registry.c).
 *
 * Claims do not roll back: the store has decided.
 *
 * src/sql/jobs.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "lib/ilist.h"
#include "mb/pg_wchar.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "settings.h"
#include "shmem/events.h"
#include "shmem/history.h"
#include "shmem/run_registry.h"
#include "shmem/stats.h"
#include "sql/arguments.h"
#include "sql/encoding.h"
#include "sql/jobs.h"
#include "sql/session.h"

PG_FUNCTION_INFO_V1(le_claim);
PG_FUNCTION_INFO_V1(le_claim_tick);
PG_FUNCTION_INFO_V1(le_complete);
PG_FUNCTION_INFO_V1(le_fail_tick);
PG_FUNCTION_INFO_V1(le_forget_job);

/* ---- arguments ---- */

/* Stores count in milliseconds, so a tick must be a whole one. */
int64
le_to_tick(TimestampTz when)
{
	int64		us = le_unix_us(when);

	if (TIMESTAMP_NOT_FINITE(when) || us < 0 || us / 1000 > LE_MAX_TICK)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("tick out of range: %s", timestamptz_to_str(when))));
	if (us % 1000 != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("tick is not a whole millisecond: %s",
						timestamptz_to_str(when)),
				 errhint("All nodes must name the same tick, for example date_trunc('minute', now()).")));
	return us / 1000;
}

/*
 * A tick is claimed when it is due.  A claim in the far future would make all
 * earlier ticks count as taken, and silence the job until then.
 */
void
le_check_not_ahead(TimestampTz tick)
{
	TimestampTz now = GetCurrentTimestamp();

	if (tick - now > le_max_tick_ahead * USECS_PER_SEC)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("tick is too far in the future: %s",
						timestamptz_to_str(tick)),
				 errdetail("The clock of this instance shows %s; \"leader_election.max_tick_ahead\" is %d s.",
						   timestamptz_to_str(now), le_max_tick_ahead)));
}

/* Names of jobs travel as UTF-8, independent of the database's encoding. */
void
le_set_job(LeAsk *ask, text *job)
{
	char	   *server = text_to_cstring(job);
	char	   *utf8 = le_to_utf8(server);

	if (!le_valid_job_name(utf8))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid job name: \"%s\"",
						pnstrdup(server, pg_mbcliplen(server, strlen(server),
													  LE_MAX_JOB_LEN))),
				 errdetail("A job's name has 1 to %d bytes in UTF-8, without control characters.",
						   LE_MAX_JOB_LEN)));
	strlcpy(ask->job, utf8, sizeof(ask->job));
}

/* An interval between ticks, in µs. */
int64
le_to_every(Interval *interval)
{
	int64		every;

	(void) le_to_duration(interval, "every");
	every = interval->day * USECS_PER_DAY + interval->time;
	if (every < USECS_PER_SEC || every % 1000 != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"every\" must be at least one second, in whole milliseconds")));
	return every;
}

/* The tick of the question is due; ticks are "every" apart. */
void
le_set_due(LeAsk *ask, int64 every)
{
	Assert(every >= 0 && every % 1000 == 0);
	ask->due = ask->tick;
	ask->every = every / 1000;
}

/*
 * The time that other nodes wait for their turn.  It is in the record, so that
 * no tick counts as late before.  Call before le_set_missed(), which may clear
 * the interval.
 */
le_duration
le_set_wait(LeAsk *ask, Interval *interval)
{
	le_duration wait = le_to_duration(interval, "wait");

	if (ask->every != 0 && wait >= ask->every * LE_MSEC)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"wait\" must be less than \"every\"")));
	ask->wait = wait / LE_MSEC;
	return wait;
}

/*
 * The treatment of ticks that no leader has claimed.  With "ignore" not all
 * multiples of the interval are ticks of the job, so none counts as missed or
 * late, and the interval does not go to the store.
 */
void
le_set_missed(LeAsk *ask, text *missed, int32 max_missed)
{
	static const char *const names[] = {
		[LE_MISSED_SKIP] = "skip",
		[LE_MISSED_LAST] = "last",
		[LE_MISSED_ALL] = "all",
		"ignore"
	};
	char	   *name = text_to_cstring(missed);
	int			i = 0;

	while (i < lengthof(names) && strcmp(name, names[i]) != 0)
		i++;
	if (i == lengthof(names))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid missed: \"%s\"", name),
				 errhint("It is \"skip\", \"last\", \"all\" or \"ignore\".")));
	if (max_missed < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"max_missed\" must be at least 1")));
	if (ask->every == 0 && i != LE_MISSED_SKIP)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the argument \"missed\" needs \"every\"")));
	if (i == LE_NMISSED)
		ask->every = 0;
	else
		ask->missed = i;
	ask->max_missed = max_missed;
}

static void
start_tick(LeAsk *ask, LeRequestKind kind, FunctionCallInfo fcinfo)
{
	le_start_ask(ask, kind, fcinfo);
	le_check_not_null(fcinfo, 1, "job");
	le_check_not_null(fcinfo, 2, "tick");
	le_set_job(ask, PG_GETARG_TEXT_PP(1));
	ask->tick = le_to_tick(PG_GETARG_TIMESTAMPTZ(2));
}

/* ---- the claims of this backend ---- */

static bool
same_job(const LeMyClaim *claim, const LeAsk *ask)
{
	return strcmp(claim->election, ask->election) == 0 &&
		strcmp(claim->job, ask->job) == 0;
}

static LeMyClaim *
find_claim(const LeAsk *ask)
{
	slist_iter	iter;

	slist_foreach(iter, &le_session->claims)
	{
		LeMyClaim  *claim = slist_container(LeMyClaim, node, iter.cur);

		if (same_job(claim, ask) && claim->tick == ask->tick)
			return claim;
	}
	return NULL;
}

/* From here on no backend acts on the claim: its run, if any, is over. */
void
le_forget_claim(LeMyClaim *claim)
{
	le_run_registry_end(claim->run, claim->number);
	slist_delete(&le_session->claims, &claim->node);
	pfree(claim);
}

/*
 * The run ends with its session, which knows no result.  The worker tells the
 * store (claim_end.c); what this instance counts and lists is told here, at
 * once.
 */
static void
tell_abandoned(const LeMyClaim *claim)
{
	LeAsk		ask = {0};

	if (!claim->ours || claim->ending)
		return;
	strlcpy(ask.election, claim->election, sizeof(ask.election));
	strlcpy(ask.job, claim->job, sizeof(ask.job));
	le_stat_count(claim->election, LE_STAT_FAILED);
	le_event(LE_EVENT_RUN_FAILED, claim->election, claim->token,
			 "job %s, tick %s, try %d: its session ended", claim->job,
			 timestamptz_to_str(le_from_tick(claim->tick)), claim->try);
	le_note_run(claim, &ask, LE_CLAIM_RUNNING, claim->claimed_at);
}

static void
session_ends(int code, Datum arg)
{
	slist_iter	iter;

	slist_foreach(iter, &le_session->claims)
		tell_abandoned(slist_container(LeMyClaim, node, iter.cur));
}

/* Before the first claim of a session. */
static void
watch_end_of_session(void)
{
	static bool watched = false;

	if (watched)
		return;
	before_shmem_exit(session_ends, (Datum) 0);
	watched = true;
}

/*
 * The session begins anew: others may take over its open claims.  The caller
 * hints the worker when they count as over.
 */
void
le_forget_claims(void)
{
	session_ends(0, (Datum) 0);
	while (!slist_is_empty(&le_session->claims))
		le_forget_claim(slist_container(LeMyClaim, node,
										slist_head_node(&le_session->claims)));
}

/*
 * The run is over.  Its claims with unknown outcome can be asked for again,
 * unless another session catches up with them before.
 */
void
le_park_claims(void)
{
	slist_iter	iter;

	slist_foreach(iter, &le_session->claims)
	{
		LeMyClaim  *claim = slist_container(LeMyClaim, node, iter.cur);

		le_run_registry_park(claim->run, claim->number);
	}
}

/*
 * Drop the job's claims that the new one makes void: all older claims if it is
 * confirmed, else only unconfirmed ones.
 */
static void
forget_others(const LeMyClaim *kept, const LeAsk *ask)
{
	slist_mutable_iter iter;

	slist_foreach_modify(iter, &le_session->claims)
	{
		LeMyClaim  *claim = slist_container(LeMyClaim, node, iter.cur);

		if (claim == kept || !same_job(claim, ask) ||
			(claim->ours && !kept->ours))
			continue;
		le_run_registry_end(claim->run, claim->number);
		slist_delete_current(&iter);
		pfree(claim);
	}
}

static LeMyClaim *
new_claim(const LeAsk *ask, uint64 token, bool run)
{
	LeMyClaim  *claim = MemoryContextAllocZero(TopMemoryContext,
											   sizeof(LeMyClaim));
	uint8		random[(LE_CLAIM_ID_LEN - LE_RUN_DIGITS) / 2];

	watch_end_of_session();
	if (!pg_strong_random(random, sizeof(random)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	for (int i = 0; i < lengthof(random); i++)
		snprintf(claim->id + 2 * i, 3, "%02x", random[i]);
	claim->run = -1;
	claim->number = le_my_owner(false);
	if (run)
		claim->run = le_run_registry_begin(&claim->number);
	le_run_print(claim->id + 2 * lengthof(random), claim->number);
	Assert(strlen(claim->id) == LE_CLAIM_ID_LEN);
	strlcpy(claim->election, ask->election, sizeof(claim->election));
	strlcpy(claim->job, ask->job, sizeof(claim->job));
	claim->tick = ask->tick;
	claim->token = token;
	slist_push_head(&le_session->claims, &claim->node);
	return claim;
}

/*
 * The ticks between the two are unknown.  Counting by the new interval might
 * run a daily job once for each minute of the day.
 */
static void
tell_other_interval(const LeAsk *ask, const LeReply *reply)
{
	char	   *from = pstrdup(timestamptz_to_str(le_from_tick(reply->tick)));

	ereport(WARNING,
			(errmsg("the interval of job \"%s\" of election \"%s\" has changed from %g s to %g s",
					le_shown(ask->job), ask->election,
					reply->every_before / 1000.0, ask->every / 1000.0),
			 errdetail("No tick between %s and %s counts as missed.", from,
					   timestamptz_to_str(le_from_tick(ask->tick)))));
}

/*
 * An earlier call may have a write in flight, or applied, under its options.
 * If the present options forbid that write, a certain "no" would be wrong.
 */
static void
note_way(LeMyClaim *claim, LeAsk *ask)
{
	if (!claim->maybe)
	{
		claim->otherwise = false;
		claim->catch_up = ask->catch_up;
		claim->missed = ask->missed;
		claim->max_missed = ask->max_missed;
		claim->every = ask->every;
	}
	else if (claim->catch_up != ask->catch_up ||
			 claim->missed != ask->missed ||
			 claim->max_missed != ask->max_missed ||
			 claim->every != ask->every)
		claim->otherwise = true;
	ask->again = claim->maybe;
	ask->otherwise = claim->otherwise;
}

/* Without a word nobody would see why the job rests. */
static void
tell_ahead(const LeAsk *ask, const LeReply *reply)
{
	char	   *tick = pstrdup(timestamptz_to_str(le_from_tick(reply->tick)));
	char	   *now = pstrdup(timestamptz_to_str(GetCurrentTimestamp()));

	ereport(WARNING,
			(errmsg("the last claim of job \"%s\" of election \"%s\" lies ahead of this instance's clock",
					le_shown(ask->job), ask->election),
			 errdetail("Tick %s was claimed at %s; the clock here shows %s. The job rests until that tick has passed.",
					   tick,
					   timestamptz_to_str(le_from_tick(reply->claimed_at)),
					   now),
			 errhint("One of the clocks is or was wrong. If this one is right, le_forget_job() lets the job run again.")));
}

/*
 * Claims the tick for this term; NULL on failure, with the reason, or the
 * error, in the reply.  A claim with unknown outcome keeps its id in the same
 * term: the record will show whether it was ours.  But not if the worker has
 * meanwhile told another session that no backend acts on it.
 */
LeMyClaim *
le_try_claim(LeAsk *ask, const LeTerm *term, bool run, LeReply *reply)
{
	LeMyClaim  *claim = find_claim(ask);
	LeTerm		now;

	memset(reply, 0, sizeof(*reply));
	reply->kind = LE_REPLY_FALSE;
	if (claim != NULL && claim->token == term->token && claim->ours)
		return NULL;			/* once is enough */
	if (claim != NULL && (claim->token != term->token ||
						  !le_run_registry_resume(claim->run, claim->number)))
	{
		le_forget_claim(claim);
		claim = NULL;
	}
	if (claim == NULL)
		claim = new_claim(ask, term->token, run);
	forget_others(claim, ask);

	ask->kind = LE_ASK_CLAIM;
	ask->token = term->token;
	strlcpy(ask->claim_id, claim->id, sizeof(ask->claim_id));
	note_way(claim, ask);
	claim->maybe = true;		/* also if le_ask() is canceled */
	le_ask(ask, reply);
	if (reply->kind == LE_REPLY_ERROR)
	{
		if (reply->sqlstate == LE_ERRCODE_UNAVAILABLE ||
			reply->sqlstate == LE_ERRCODE_REFUSED)
			claim->maybe = ask->again;
		return NULL;
	}
	if (reply->kind != LE_REPLY_TRUE)
	{
		le_forget_claim(claim);
		if (reply->ahead)
			tell_ahead(ask, reply);
		return NULL;
	}
	claim->ours = true;
	claim->try = reply->try;
	claim->claimed_at = le_tick_now();
	le_stat_count(ask->election, LE_STAT_CLAIMS);
	le_event(LE_EVENT_CLAIMED, ask->election, term->token,
			 "job %s, tick %s, try %d", ask->job,
			 timestamptz_to_str(le_from_tick(ask->tick)), reply->try);
	forget_others(claim, ask);
	if (reply->every_before != 0)
		tell_other_interval(ask, reply);
	if (!le_my_term(ask->election, &now) || now.token != term->token)
	{
		le_forget_claim(claim);
		ereport(ERROR,
				(errcode(LE_ERRCODE_LOST),
				 errmsg("leadership of election \"%s\" was lost while a tick was being claimed",
						ask->election),
				 errdetail("The tick is recorded as claimed by the term with fencing token " UINT64_FORMAT ".",
						   term->token)));
	}
	return claim;
}

/*
 * Flush all of this server's WAL so far.  With synchronous_commit off, a crash
 * could lose the work of a tick that is marked as done.  Another session may
 * have done the work, so our own last commit is not enough.
 */
static void
make_durable(void)
{
	XLogRecPtr	end;

	if (RecoveryInProgress())
		return;
	end = GetXLogInsertRecPtr();
	/* at a page's beginning it points behind the header, not yet written */
	if (XLogSegmentOffset(end, wal_segment_size) == SizeOfXLogLongPHD ||
		end % XLOG_BLCKSZ == SizeOfXLogShortPHD)
		end -= end % XLOG_BLCKSZ;
	XLogFlush(end);
}

/* The question that ends a claim; flushes the finished work before. */
void
le_end_ask(LeAsk *ask, LeMyClaim *claim, LeClaimState ending)
{
	claim->ending = true;
	memset(ask, 0, sizeof(*ask));
	ask->kind = LE_ASK_COMPLETE;
	ask->owner = le_my_owner(false);
	strlcpy(ask->election, claim->election, sizeof(ask->election));
	strlcpy(ask->job, claim->job, sizeof(ask->job));
	strlcpy(ask->claim_id, claim->id, sizeof(ask->claim_id));
	ask->tick = claim->tick;
	ask->ending = ending;
	if (ending == LE_CLAIM_DONE)
		make_durable();
}

/*
 * A run of this node for le_history(), without regard to the store; the claim
 * is NULL if there was none.
 */
void
le_note_run(const LeMyClaim *claim, const LeAsk *ask, LeClaimState state,
			int64 began)
{
	LeJobRow	run;
	LeClaimRow *row = &run.claim;

	memset(&run, 0, sizeof(run));
	strlcpy(row->election, ask->election, sizeof(row->election));
	strlcpy(row->job, ask->job, sizeof(row->job));
	strlcpy(row->node, le_my_name(), sizeof(row->node));
	strlcpy(row->sqlstate, ask->sqlstate, sizeof(row->sqlstate));
	if (ask->has_value)
		strlcpy(row->message, ask->value, sizeof(row->message));
	row->claimed_at = began;
	row->ended_at = le_tick_now();
	row->state = state;
	run.abandoned = state == LE_CLAIM_RUNNING;
	if (claim != NULL)
	{
		strlcpy(row->id, claim->id, sizeof(row->id));
		row->tick = claim->tick;
		row->token = claim->token;
		row->try = claim->try;
	}
	le_history_note(&run);
}

/* ---- SQL ---- */

Datum
le_claim(PG_FUNCTION_ARGS)
{
	LeAsk		ask;
	LeReply		reply;
	LeTerm		term;
	LeMyClaim  *claim;

	start_tick(&ask, LE_ASK_CLAIM, fcinfo);
	le_check_not_ahead(PG_GETARG_TIMESTAMPTZ(2));
	if (!le_may_begin(ask.election, &term))
		PG_RETURN_BOOL(false);
	claim = le_try_claim(&ask, &term, false, &reply);
	if (reply.kind == LE_REPLY_ERROR)
		le_throw(&reply);
	PG_RETURN_BOOL(claim != NULL);
}

/*
 * The same, with ticks to catch up or missed ones first; returns the claimed
 * tick.  It does not wait: "wait" is the time for which the caller may have
 * waited for its turn.
 */
Datum
le_claim_tick(PG_FUNCTION_ARGS)
{
	LeAsk		ask;
	LeReply		reply;
	LeTerm		term;
	LeMyClaim  *claim;

	start_tick(&ask, LE_ASK_CLAIM, fcinfo);
	le_check_not_null(fcinfo, 3, "catch_up");
	le_check_not_ahead(PG_GETARG_TIMESTAMPTZ(2));
	le_check_not_null(fcinfo, 5, "missed");
	le_check_not_null(fcinfo, 6, "max_missed");
	le_check_not_null(fcinfo, 7, "wait");
	ask.catch_up = PG_GETARG_BOOL(3);
	if (!PG_ARGISNULL(4))
		le_set_due(&ask, le_to_every(PG_GETARG_INTERVAL_P(4)));
	(void) le_set_wait(&ask, PG_GETARG_INTERVAL_P(7));
	le_set_missed(&ask, PG_GETARG_TEXT_PP(5), PG_GETARG_INT32(6));
	if (!le_may_begin(ask.election, &term))
		PG_RETURN_NULL();
	claim = le_try_claim(&ask, &term, false, &reply);
	if (claim == NULL && reply.kind != LE_REPLY_ERROR && reply.behind)
	{
		ask.tick = reply.tick;
		claim = le_try_claim(&ask, &term, false, &reply);
	}
	if (reply.kind == LE_REPLY_ERROR)
		le_throw(&reply);
	if (claim == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(le_from_tick(claim->tick));
}

static Datum
end_claim(FunctionCallInfo fcinfo, LeClaimState ending)
{
	LeAsk		ask;
	LeReply		reply;
	LeMyClaim  *claim;

	start_tick(&ask, LE_ASK_COMPLETE, fcinfo);
	claim = find_claim(&ask);
	if (claim == NULL || !claim->ours)
	{
		ereport(WARNING,
				(errmsg("you have not claimed that tick of job \"%s\" of election \"%s\"",
						text_to_cstring(PG_GETARG_TEXT_PP(1)),
						ask.election)));
		PG_RETURN_BOOL(false);
	}
	le_end_ask(&ask, claim, ending);
	le_ask_worker(&ask, &reply);
	if (reply.kind == LE_REPLY_TRUE)
		le_note_run(claim, &ask, ending, claim->claimed_at);
	le_forget_claim(claim);
	if (reply.kind == LE_REPLY_TRUE)
		(void) le_make_progress(ask.election);
	if (reply.kind == LE_REPLY_TRUE && ending == LE_CLAIM_FAILED)
		le_stat_count(ask.election, LE_STAT_FAILED);
	PG_RETURN_BOOL(reply.kind == LE_REPLY_TRUE);
}

Datum
le_complete(PG_FUNCTION_ARGS)
{
	return end_claim(fcinfo, LE_CLAIM_DONE);
}

Datum
le_fail_tick(PG_FUNCTION_ARGS)
{
	return end_claim(fcinfo, LE_CLAIM_FAILED);
}

/*
 * The job's record begins anew, at this instant: earlier ticks stay taken, so
 * that none runs twice; later ones can be claimed, even if they were before.
 * Like any claim it is written by the leader, and ended at once.
 */
Datum
le_forget_job(PG_FUNCTION_ARGS)
{
	LeAsk		ask;
	LeReply		reply;
	LeTerm		term;
	LeMyClaim  *claim;

	le_start_ask(&ask, LE_ASK_CLAIM, fcinfo);
	le_check_not_null(fcinfo, 1, "job");
	le_set_job(&ask, PG_GETARG_TEXT_PP(1));
	if (!le_may_begin(ask.election, &term))
		ereport(ERROR,
				(errcode(LE_ERRCODE_NOT_LEADER),
				 errmsg("not leader of election \"%s\"", ask.election),
				 errdetail_internal("%s", le_leader_instead(ask.election)),
				 errhint("Call it where the election is led; le_current_leader() says where.")));
	ask.tick = le_tick_now();
	ask.forget = true;
	claim = le_try_claim(&ask, &term, false, &reply);
	if (reply.kind == LE_REPLY_ERROR)
		le_throw(&reply);
	if (claim == NULL)
	{
		ereport(WARNING,
				(errmsg("job \"%s\" of election \"%s\" has no record",
						text_to_cstring(PG_GETARG_TEXT_PP(1)),
						ask.election)));
		PG_RETURN_BOOL(false);
	}
	le_end_ask(&ask, claim, LE_CLAIM_DONE);
	ask.to_the_end = true;
	ask.forget = true;
	le_forget_claim(claim);
	le_ask_worker(&ask, &reply);
	ereport(WARNING,
			(errmsg("the record of job \"%s\" of election \"%s\" begins anew",
					text_to_cstring(PG_GETARG_TEXT_PP(1)), ask.election),
			 errdetail("Ticks up to now count as taken. Claims of later ticks are forgotten, so those ticks can run again.")));
	PG_RETURN_BOOL(true);
}

/* ---- all claims, for the view ---- */

/*
 * The worker writes the rows, page by page, into memory of this backend: there
 * may be many rows, and other backends wait for answers, too.
 */
void
le_each_claim(void (*act) (const LeClaimRow *row, void *arg), void *arg)
{
	dsm_segment *segment =
		dsm_create(mul_size(LE_CLAIMS_PAGE, sizeof(LeClaimRow)), 0);
	const LeClaimRow *rows = dsm_segment_address(segment);
	LeAsk		ask = {0};
	LeReply		reply;

	ask.kind = LE_ASK_CLAIMS;
	ask.owner = le_my_owner(false);
	ask.segment = dsm_segment_handle(segment);
	ask.capacity = LE_CLAIMS_PAGE;
	do
	{
		le_ask_worker(&ask, &reply);
		if (reply.kind != LE_REPLY_TRUE)
			ereport(ERROR,
					(errcode(LE_ERRCODE_UNAVAILABLE),
					 errmsg("could not read all claims"),
					 errdetail("The leader_election worker has been replaced, or this session took too long."),
					 errhint("Try again.")));
		for (int i = 0; i < Min(reply.rows - ask.from, ask.capacity); i++)
			act(&rows[i], arg);
		ask.from += ask.capacity;
	} while (ask.from < reply.rows);
	dsm_detach(segment);
}
