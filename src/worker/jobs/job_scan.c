/*-------------------------------------------------------------------------
 *
 * job_scan.c
 *		A scan of all jobs: ends of their runs, and runs that are abandoned.
 *
 * A scan runs when a backend asks, and now and then while this node holds or
 * seeks any election, so that events tell of a job that is late or abandoned,
 * and monitoring need not wait for the store.  In this order:
 *
 *		list	the records of all jobs
 *		terms	the key of the election of each job that runs: is its term
 *				still the same?
 *		again	the records of jobs whose term is over, since a run may have
 *				been marked as done between the two, and of those of which a
 *				later record was seen: has the store lost it?
 *		publish	in shared memory (job_snapshot.c), with events for the changes
 *
 * One scan is under way at a time.  The next one answers a question that comes
 * meanwhile, since it must see what its caller has just done.
 *
 * src/worker/jobs/job_scan.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "settings.h"
#include "shmem/clock.h"
#include "shmem/events.h"
#include "shmem/history.h"
#include "shmem/job_snapshot.h"
#include "worker/disk/tokens.h"
#include "worker/jobs/claim_end.h"
#include "worker/jobs/claim_list.h"
#include "worker/jobs/job_scan.h"
#include "worker/lead/elect_all.h"
#include "worker/wire/dispatch.h"

/* A backend's question. */
typedef struct JobsAsk
{
	LePending	p;
	uint64		round;			/* the scan that answers, or a later one */
} JobsAsk;

typedef struct Row
{
	LeJobRow	job;
	bool		judged;			/* its term was read */
	bool		doubted;		/* ... and is over: look again */
	LeSeenRecord seen;			/* ... or a later record was seen */
} Row;

struct LeJobScan
{
	LePendingList *asks;
	uint64		round;			/* the present one, or the last */
	bool		under_way;
	le_time		next_at;		/* without a question; 0: not yet known */
	le_time		as_of;
	LeClaimList list;			/* its rows are Row */
	int			listed;			/* rows that are in the store's list */
	int			at;				/* the row at hand */
};

LeJobScan *
le_job_scan_new(void)
{
	LeJobScan  *scan = MemoryContextAllocZero(TopMemoryContext,
											  sizeof(LeJobScan));

	scan->asks = le_pending_list_new(sizeof(JobsAsk), "jobs");
	scan->list.size = sizeof(Row);
	return scan;
}

static void list_next_jobs(LeWorker *w);
static void look_at_terms(LeWorker *w);
static void look_at_doubted(LeWorker *w);

/* ---- replies ---- */

/* Answer the questions that came before this round began. */
static void
reply_round(LeWorker *w, LeOutcome outcome)
{
	LeJobScan  *scan = w->job_scan;

	le_foreach_pending(p, scan->asks)
	{
		if (((JobsAsk *) p)->round > scan->round)
			continue;
		if (outcome == LE_DONE)
			le_reply(p, LE_REPLY_TRUE);
		else
			le_reply_unread(w, p, outcome);
	}
}

static le_time
next_of_its_own(void)
{
	le_duration gap = le_job_check_interval * LE_MSEC;

	return le_now() + gap - le_jitter(gap / 10, le_random());
}

static void
end_round(LeWorker *w, LeOutcome outcome)
{
	LeJobScan  *scan = w->job_scan;

	le_claim_list_clear(&scan->list);
	scan->under_way = false;
	scan->next_at = next_of_its_own();
	reply_round(w, outcome);
}

/* ---- requests ---- */

/* Is it an answer for this round? */
static bool
is_of_round(LeWorker *w, const LeFlight *flight)
{
	LeJobScan  *scan = w->job_scan;

	return scan->under_way &&
		flight->asker.number == scan->round;
}

static void
send_read(LeWorker *w, LeOpKind kind, const char *election, const char *job,
		  LeFlightDone done)
{
	LeJobScan  *scan = w->job_scan;

	LeFlight   *flight = le_flight_new(kind, done);
	LeSlot	   *slot = election == NULL ? NULL : le_find_slot(election);

	flight->op.election = le_flight_string(flight, election);
	flight->op.claim.job = le_flight_string(flight, job);
	flight->op.page = le_flight_string(flight, scan->list.page);
	le_flight_local_key(flight, slot);
	flight->asker.number = scan->round;
	flight->lane = LE_LANE_READ;
	flight->may_be_refused = true;	/* a node may do without jobs */
	le_flight_send(w, flight, le_table->node.timing.request_timeout);
}

/* ---- list ---- */

/* The claim's own node has written that the run is over without a result. */
static void
note_abandoned(LeJobRow *job)
{
	job->abandoned = job->claim.state == LE_CLAIM_RUNNING &&
		job->claim.ended_at != 0;
}

static Row *
row_at(LeWorker *w, int i)
{
	return &((Row *) w->job_scan->list.rows)[i];
}

static int
compare_jobs(const LeJobRow *one, const LeJobRow *two)
{
	int			order = strcmp(one->claim.election, two->claim.election);

	return order != 0 ? order : strcmp(one->claim.job, two->claim.job);
}

static int
compare_rows(const void *a, const void *b)
{
	return compare_jobs(&((const Row *) a)->job, &((const Row *) b)->job);
}

static void
jobs_listed(LeWorker *w, LeFlight *flight, const LeAnswer *found)
{
	if (!is_of_round(w, flight))
		return;
	if (found->outcome != LE_DONE)
	{
		end_round(w, found->outcome);
		return;
	}
	for (int i = 0; i < found->nclaims; i++)
		le_record_seen(w->tokens, &found->claims[i]);
	le_claim_list_add(&w->job_scan->list, found);
	list_next_jobs(w);
}

/* ---- records that the store has lost ---- */

static Row *
find_row(LeWorker *w, int n, const char *election, const char *job)
{
	Row		   *key = palloc0(sizeof(Row));
	Row		   *found;

	strlcpy(key->job.claim.election, election,
			sizeof(key->job.claim.election));
	strlcpy(key->job.claim.job, job, sizeof(key->job.claim.job));
	found = bsearch(key, w->job_scan->list.rows, n, sizeof(Row),
					compare_rows);
	pfree(key);
	return found;
}

static void
doubt(Row *row, const LeSeenRecord *seen)
{
	row->judged = row->doubted = true;
	row->seen = *seen;
}

/* Was a later record seen than the one in the list? */
static void
doubt_if_lost(LeWorker *w, Row *row)
{
	const LeClaimRow *claim = &row->job.claim;
	LeSeenRecord seen = le_record_seen_last(w->tokens, claim->election,
											claim->job);

	if (le_record_is_lost(&seen, claim->writes, claim->tick))
		doubt(row, &seen);
}

/* A record was seen: does the list have the job? */
static void
doubt_if_missing(void *arg, const char *election, const char *job,
				 const LeSeenRecord *seen)
{
	LeWorker   *w = arg;
	Row		   *row;

	if (find_row(w, w->job_scan->listed, election, job) != NULL)
		return;
	/* not all stores list all elections */
	if (!le_configured_store()->claims.lists_all &&
		le_find_slot(election) == NULL)
		return;
	row = le_claim_list_new_row(&w->job_scan->list);
	strlcpy(row->job.claim.election, election,
			sizeof(row->job.claim.election));
	strlcpy(row->job.claim.job, job, sizeof(row->job.claim.job));
	row->job.claim.state = LE_CLAIM_DONE;
	doubt(row, seen);
}

/*
 * The record was read again; 0 writes of tick -1: there is none.  The store
 * "local" has seen no other tick than that on record: it is on a new timeline.
 */
static void
judge_lost(Row *row, uint64 writes, int64 tick)
{
	row->job.lost = le_record_is_lost(&row->seen, writes, tick);
	if (row->job.lost && le_configured_store()->between_instances)
		row->job.claim.tick = row->seen.tick;
}

static void
sort_rows(LeWorker *w)
{
	LeClaimList *list = &w->job_scan->list;

	if (list->nrows > 1)
		qsort(list->rows, list->nrows, sizeof(Row), compare_rows);
}

static void
list_next_jobs(LeWorker *w)
{
	LeJobScan  *scan = w->job_scan;

	const char *election;

	if (le_claim_list_next(&scan->list, &election))
	{
		send_read(w, LE_OP_LIST_CLAIMS, election, NULL, jobs_listed);
		return;
	}
	for (int i = 0; i < scan->list.nrows; i++)
	{
		note_abandoned(&row_at(w, i)->job);
		doubt_if_lost(w, row_at(w, i));
	}
	sort_rows(w);
	scan->listed = scan->list.nrows;
	le_each_record_seen(w->tokens, doubt_if_missing, w);
	sort_rows(w);
	scan->at = 0;
	look_at_terms(w);
}

/* ---- terms ---- */

static bool
runs(const Row *row)
{
	return row->job.claim.state == LE_CLAIM_RUNNING;
}

/* The holder of the key in the store is enough here. */
static void
term_read(LeWorker *w, LeFlight *flight, const LeAnswer *found)
{
	LeJobScan  *scan = w->job_scan;

	const LeKey *key = found->nkeys > 0 ? &found->keys[0] : NULL;
	uint64		token;

	if (!is_of_round(w, flight))
		return;
	if (found->outcome != LE_DONE)
	{
		end_round(w, found->outcome);
		return;
	}
	token = key == NULL || key->holder == NULL ? 0 : key->token;
	for (int i = scan->at; i < scan->list.nrows; i++)
	{
		Row		   *row = row_at(w, i);

		if (strcmp(row->job.claim.election, flight->op.election) != 0)
			break;				/* the rows are in order */
		if (row->judged)
			continue;			/* perhaps lost */
		row->judged = true;
		row->doubted = runs(row) && !row->job.abandoned &&
			row->job.claim.token != token;
	}
	look_at_terms(w);
}

static void
look_at_terms(LeWorker *w)
{
	LeJobScan  *scan = w->job_scan;

	while (scan->at < scan->list.nrows &&
		   (row_at(w, scan->at)->judged ||
			!runs(row_at(w, scan->at))))
		scan->at++;
	if (scan->at < scan->list.nrows)
	{
		send_read(w, LE_OP_READ, row_at(w, scan->at)->job.claim.election,
				  NULL, term_read);
		return;
	}
	scan->at = 0;
	look_at_doubted(w);
}

/* ---- again ---- */

static void
doubted_read(LeWorker *w, LeFlight *flight, const LeAnswer *found)
{
	LeJobScan  *scan = w->job_scan;

	LeClaimRow *row;
	bool		same;

	if (!is_of_round(w, flight))
		return;
	if (found->outcome != LE_DONE)
	{
		end_round(w, found->outcome);
		return;
	}
	row = &row_at(w, scan->at)->job.claim;
	if (found->nclaims > 0)
	{
		same = strcmp(found->claims[0].id, row->id) == 0;
		le_claim_row(row, &found->claims[0]);
		row_at(w, scan->at)->job.abandoned = same &&
			row->state == LE_CLAIM_RUNNING;
		judge_lost(row_at(w, scan->at), row->writes, row->tick);
	}
	else
		judge_lost(row_at(w, scan->at), 0, -1);
	scan->at++;
	look_at_doubted(w);
}

/* ---- publish ---- */

static void
tell_of_job(LeEventKind what, const LeClaimRow *row)
{
	int64		due = what == LE_EVENT_JOB_LATE ? row->tick + row->every :
		row->tick;
	char	   *tick = pstrdup(timestamptz_to_str(le_from_tick(due)));

	le_event_of(row->node, what, row->election, row->token,
				"job %s, tick %s%s", row->job, tick,
				what == LE_EVENT_JOB_LATE ? ": not claimed yet" : "");
}

static void
tell_of_clock(const LeClaimRow *row)
{
	char	   *tick = pstrdup(timestamptz_to_str(le_from_tick(row->tick)));

	le_event_of(row->node, LE_EVENT_JOB_AHEAD, row->election, row->token,
				"job %s, tick %s: claimed at %s by its clock", row->job, tick,
				timestamptz_to_str(le_from_tick(row->claimed_at)));
	pfree(tick);
}

static void
tell_of_loss(const LeClaimRow *row)
{
	le_event_of(row->node, LE_EVENT_JOB_LOST, row->election, row->token,
				le_configured_store()->between_instances ?
				"job %s: the store has lost the record of tick %s" :
				"job %s: ticks after %s may have run before this server was promoted or restored",
				row->job, timestamptz_to_str(le_from_tick(row->tick)));
}

/* Report the changes of the job since the last scan (NULL: it is new). */
static void
report_changes(LeJobRow *now, const LeJobRow *before)
{
	const LeClaimRow *row = &now->claim;
	bool		late = le_tick_is_late(le_tick_now(), row->tick,
									   row->claimed_at, row->every, row->wait);
	bool		ahead = le_claim_is_ahead(le_tick_now(), row->tick,
										  row->claimed_at, row->every);

	if (before != NULL && strcmp(before->claim.id, row->id) != 0)
		before = NULL;
	now->told_lost = now->lost;
	if (now->lost)
	{
		if (before == NULL || !before->told_lost)
			tell_of_loss(row);
		return;
	}
	if (row->state != LE_CLAIM_RUNNING &&
		(before == NULL || before->claim.state != row->state))
		le_history_note(now);
	if (now->abandoned && (before == NULL || !before->told_abandoned))
	{
		le_history_note(now);
		tell_of_job(LE_EVENT_JOB_ABANDONED, row);
	}
	if (late && (before == NULL || !before->told_late))
		tell_of_job(LE_EVENT_JOB_LATE, row);
	now->told_abandoned = now->abandoned ||
		(before != NULL && before->told_abandoned);
	if (ahead && (before == NULL || !before->told_ahead))
		tell_of_clock(row);
	now->told_late = late || (before != NULL && before->told_late);
	now->told_ahead = ahead || (before != NULL && before->told_ahead);
}

/*
 * A run of ours that is over without a result, and whose record does not say
 * so yet: by a worker before this one, say.  The record is read once more, and
 * the look after that shows it.
 */
static void
end_if_abandoned(LeWorker *w, const LeJobRow *job)
{
	const LeClaimRow *claim = &job->claim;

	if (!job->lost && claim->state == LE_CLAIM_RUNNING &&
		claim->ended_at == 0 &&
		le_claim_is_abandoned(w, claim->election, claim->token, claim->id))
		le_claim_abandon(w, claim->election, claim->job, claim->tick,
						 claim->id);
}

static void
publish_jobs(LeWorker *w)
{
	LeJobScan  *scan = w->job_scan;

	LeJobRow   *before = NULL;
	int			nbefore = 0;
	int			k = 0;
	le_time		as_of;
	LeJobRow   *jobs = MemoryContextAllocHuge(CurrentMemoryContext,
											  Max(mul_size(scan->list.nrows,
														   sizeof(LeJobRow)),
												  1));

	(void) le_job_snapshot_copy(&before, &nbefore, &as_of);
	for (int i = 0; i < scan->list.nrows; i++)
	{
		jobs[i] = row_at(w, i)->job;
		while (k < nbefore && compare_jobs(&before[k], &jobs[i]) < 0)
			k++;
		report_changes(&jobs[i], k < nbefore &&
					   compare_jobs(&before[k], &jobs[i]) == 0 ?
					   &before[k] : NULL);
	}
	le_job_snapshot_put(jobs, scan->list.nrows, scan->as_of);
	for (int i = 0; i < scan->list.nrows; i++)
		end_if_abandoned(w, &jobs[i]);
	end_round(w, LE_DONE);
}

static void
look_at_doubted(LeWorker *w)
{
	LeJobScan  *scan = w->job_scan;

	while (scan->at < scan->list.nrows &&
		   !row_at(w, scan->at)->doubted)
		scan->at++;
	if (scan->at < scan->list.nrows)
		send_read(w, LE_OP_READ_CLAIM, row_at(w,
											  scan->at)->job.claim.election,
				  row_at(w, scan->at)->job.claim.job, doubted_read);
	else
		publish_jobs(w);
}

/* ---- called by ask.c and the loop ---- */

static void
start_round(LeWorker *w)
{
	LeJobScan  *scan = w->job_scan;

	scan->round++;
	scan->under_way = true;
	w->job_scan_due = false;
	scan->as_of = le_now();
	list_next_jobs(w);
}

void
le_ask_jobs(LeWorker *w, int proc, uint64 number, const LeAsk *ask)
{
	LeJobScan  *scan = w->job_scan;

	JobsAsk    *jobs_ask = (JobsAsk *) le_pending_add(scan->asks, proc,
													  number, ask);

	jobs_ask->round = scan->round + 1;
	if (!scan->under_way)
		start_round(w);
}

/* Does a question wait for the next round? */
static bool
is_asked_for(LeWorker *w)
{
	LeJobScan  *scan = w->job_scan;

	return !scan->under_way &&
		!dlist_is_empty(&scan->asks->head);
}

/* Is a scan due without a question?  Only if this node leads, or seeks to. */
static bool
is_scan_due(LeWorker *w, le_time now)
{
	LeJobScan  *scan = w->job_scan;

	if (le_job_check_interval == 0 || scan->under_way)
		return false;
	/* the setting may be shorter by now */
	scan->next_at = Min(scan->next_at,
							   now + le_job_check_interval * LE_MSEC);
	if (w->job_scan_due)
		scan->next_at = now;
	w->job_scan_due = false;
	if (now < scan->next_at)
		return false;
	if (le_session_live() && le_elect_need_session(w))
		return true;
	scan->next_at = next_of_its_own();
	return false;
}

void
le_job_scan_run_timers(LeWorker *w)
{
	le_time		now = le_now();

	le_list_run_timers(w, w->job_scan->asks, now);
	if (is_asked_for(w) || is_scan_due(w, now))
		start_round(w);
}

le_time
le_job_scan_timer(LeWorker *w)
{
	LeJobScan  *scan = w->job_scan;

	le_time		next = 0;

	if (is_asked_for(w))
		return le_now();
	if (le_job_check_interval > 0 && !scan->under_way)
		next = w->job_scan_due ? le_now() : Max(scan->next_at, 1);
	return le_earliest(next, le_list_timer(w, scan->asks));
}
