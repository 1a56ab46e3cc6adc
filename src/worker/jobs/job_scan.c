/*-------------------------------------------------------------------------
 *
 * job_scan.c
 *		A look at all jobs: what became of them, and whose nobody does.
 *
 * It is made when a backend asks, and now and then while this node holds or
 * seeks anything, so that events tell of a job that is late or abandoned, and
 * monitoring need not wait for the store.  In this order:
 *
 *		list	the records of all jobs
 *		terms	of those that run, the key of the election: is it still that
 *				term's?
 *		again	the records of those whose term is over, since a run may have
 *				been marked as done between the two
 *		publish	on the board (board.c), and tell what is new
 *
 * One is under way at a time.  Who asks meanwhile is answered by the next one:
 * what the caller has just done must be seen.
 *
 * src/worker/jobs/job_scan.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "utils/memutils.h"

#include "settings.h"
#include "shmem/events.h"
#include "shmem/history.h"
#include "shmem/job_snapshot.h"
#include "worker/jobs/claims.h"
#include "worker/jobs/job_scan.h"
#include "worker/lead/elect_all.h"
#include "worker/wire/dispatch.h"

/* Somebody who asks. */
typedef struct Waiter
{
	dlist_node	node;
	int			proc;
	uint64		number;
	uint64		round;			/* the one that answers, or a later one */
	le_time		give_up;
} Waiter;

typedef struct Row
{
	LeJobRow	job;
	bool		judged;			/* its term was looked at */
	bool		doubted;		/* ... and is over: look again */
} Row;

static dlist_head waiters = DLIST_STATIC_INIT(waiters);

static struct
{
	uint64		round;			/* this one, or the last */
	bool		under_way;
	le_time		next_at;		/* of its own accord; 0: not yet known */
	le_time		as_of;
	Row		   *rows;
	int			nrows;
	int			room;
	char	   *page;			/* of the list; NULL: the first */
	int			next_slot;		/* where elections are listed one by one */
	int			at;				/* the row that is being looked at */
} survey;

static void list(void);
static void look_at_terms(void);
static void look_again(void);

/* ---- replies ---- */

static void
answer(Waiter *w, const LeReply *reply)
{
	le_answer(w->proc, w->number, reply);
	dlist_delete(&w->node);
	pfree(w);
}

static void
fill_error(LeReply *reply, LeOutcome outcome)
{
	memset(reply, 0, sizeof(*reply));
	reply->kind = LE_REPLY_ERROR;
	reply->sqlstate = outcome == LE_REFUSED ? LE_ERRCODE_REFUSED :
		LE_ERRCODE_UNAVAILABLE;
	snprintf(reply->message, sizeof(reply->message),
			 "could not read the jobs from the lease store %s",
			 le_store_place());
	strlcpy(reply->detail, le_store_trouble(), sizeof(reply->detail));
}

static void
answer_all(const LeReply *reply)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &waiters)
	{
		Waiter	   *w = dlist_container(Waiter, node, iter.cur);

		if (w->round <= survey.round)
			answer(w, reply);
	}
}

static le_time
next_of_its_own(void)
{
	le_duration gap = le_job_check_interval * LE_MSEC;

	return le_now() + gap - le_jitter(gap / 10, le_random());
}

static void
end_round(void)
{
	if (survey.rows != NULL)
		pfree(survey.rows);
	if (survey.page != NULL)
		pfree(survey.page);
	survey.rows = NULL;
	survey.page = NULL;
	survey.nrows = survey.room = 0;
	survey.under_way = false;
	survey.next_at = next_of_its_own();
}

static void
give_up(LeOutcome outcome)
{
	LeReply		reply;

	end_round();
	fill_error(&reply, outcome);
	answer_all(&reply);
}

/* ---- requests ---- */

/* Is it the answer to what this round asked last? */
static bool
is_current(const LeFlight *flight)
{
	return survey.under_way && flight->asker.number == survey.round;
}

static void
send(LeOpKind kind, const char *election, const char *job,
	 void (*done) (LeFlight *, const LeAnswer *))
{
	static LeLocalKey nobody = {0};
	LeFlight   *flight = le_flight_new(kind, done);
	LeSlot	   *slot = election == NULL ? NULL : le_find_slot(election);

	flight->op.election = le_flight_string(flight, election);
	flight->op.job = le_flight_string(flight, job);
	flight->op.page = le_flight_string(flight, survey.page);
	flight->op.local = slot == NULL ? &nobody : &slot->local;
	flight->asker.number = survey.round;
	flight->lane = LE_LANE_READ;
	flight->probe = true;		/* a node may do without jobs */
	le_flight_send(flight, le_table->node.timing.request_timeout);
}

/* ---- list ---- */

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
keep_rows(const LeAnswer *found)
{
	Size		size;

	if (survey.nrows + found->nclaims > survey.room)
	{
		survey.room = 2 * survey.nrows + found->nclaims;
		size = mul_size(survey.room, sizeof(Row));
		survey.rows = survey.rows == NULL ?
			MemoryContextAllocHuge(TopMemoryContext, size) :
			repalloc_huge(survey.rows, size);
	}
	for (int i = 0; i < found->nclaims; i++)
	{
		Row		   *row = &survey.rows[survey.nrows++];

		memset(row, 0, sizeof(*row));
		le_claim_row(&row->job.claim, &found->claims[i]);
	}
}

static void
listed(LeFlight *flight, const LeAnswer *found)
{
	if (!is_current(flight))
		return;
	if (found->outcome != LE_DONE)
	{
		give_up(found->outcome);
		return;
	}
	keep_rows(found);
	if (survey.page != NULL)
		pfree(survey.page);
	survey.page = found->page == NULL ? NULL :
		MemoryContextStrdup(TopMemoryContext, found->page);
	if (survey.page == NULL)
		survey.next_slot++;
	list();
}

/* All at once, or election by election, of those that this node knows. */
static void
list(void)
{
	bool		at_once = le_configured_store()->lists_all_claims;

	while (!at_once && survey.next_slot < le_table->nused &&
		   !le_slot(survey.next_slot)->used)
		survey.next_slot++;
	if (survey.next_slot < (at_once ? 1 : le_table->nused))
	{
		send(LE_OP_LIST_CLAIMS,
			 at_once ? NULL : le_slot(survey.next_slot)->name, NULL, listed);
		return;
	}
	if (survey.nrows > 1)
		qsort(survey.rows, survey.nrows, sizeof(Row), compare_rows);
	survey.at = 0;
	look_at_terms();
}

/* ---- terms ---- */

static bool
runs(const Row *row)
{
	return row->job.claim.state == LE_CLAIM_RUNNING;
}

/* The holder of the key is believed in by the store, which is enough here. */
static void
term_read(LeFlight *flight, const LeAnswer *found)
{
	const LeKey *key = found->nkeys > 0 ? &found->keys[0] : NULL;
	uint64		token;

	if (!is_current(flight))
		return;
	if (found->outcome != LE_DONE)
	{
		give_up(found->outcome);
		return;
	}
	token = key == NULL || key->holder == NULL ? 0 : key->token;
	for (int i = survey.at; i < survey.nrows; i++)
	{
		Row		   *row = &survey.rows[i];

		if (strcmp(row->job.claim.election, flight->op.election) != 0)
			break;				/* they are in order */
		row->judged = true;
		row->doubted = runs(row) && row->job.claim.token != token;
	}
	look_at_terms();
}

static void
look_at_terms(void)
{
	while (survey.at < survey.nrows &&
		   (survey.rows[survey.at].judged || !runs(&survey.rows[survey.at])))
		survey.at++;
	if (survey.at < survey.nrows)
	{
		send(LE_OP_READ, survey.rows[survey.at].job.claim.election, NULL,
			 term_read);
		return;
	}
	survey.at = 0;
	look_again();
}

/* ---- again ---- */

static void
read_again(LeFlight *flight, const LeAnswer *found)
{
	LeClaimRow *row;
	bool		same;

	if (!is_current(flight))
		return;
	if (found->outcome != LE_DONE)
	{
		give_up(found->outcome);
		return;
	}
	row = &survey.rows[survey.at].job.claim;
	if (found->nclaims > 0)
	{
		same = strcmp(found->claims[0].id, row->id) == 0;
		le_claim_row(row, &found->claims[0]);
		survey.rows[survey.at].job.abandoned = same &&
			row->state == LE_CLAIM_RUNNING;
	}
	survey.at++;
	look_again();
}

/* ---- publish ---- */

static void
tell(LeEventKind what, const LeClaimRow *row)
{
	int64		due = what == LE_EVENT_JOB_LATE ? row->tick + row->every :
		row->tick;
	char	   *tick = pstrdup(timestamptz_to_str(le_from_tick(due)));

	le_event_of(row->node, what, row->election, row->token,
				"job %s, tick %s%s", row->job, tick,
				what == LE_EVENT_JOB_LATE ? ": not claimed yet" : "");
}

/* What is news of the job since it was last seen (NULL: never). */
static void
tell_news(LeJobRow *now, const LeJobRow *before)
{
	const LeClaimRow *row = &now->claim;
	bool		late = le_tick_is_late(le_tick_now(), row->tick,
									   row->claimed_at, row->every, row->wait);

	if (before != NULL && strcmp(before->claim.id, row->id) != 0)
		before = NULL;
	if (row->state != LE_CLAIM_RUNNING &&
		(before == NULL || before->claim.state != row->state))
		le_history_note(now);
	if (now->abandoned && (before == NULL || !before->told_abandoned))
	{
		le_history_note(now);
		tell(LE_EVENT_JOB_ABANDONED, row);
	}
	if (late && (before == NULL || !before->told_late))
		tell(LE_EVENT_JOB_LATE, row);
	now->told_abandoned = now->abandoned ||
		(before != NULL && before->told_abandoned);
	now->told_late = late || (before != NULL && before->told_late);
}

static void
publish(void)
{
	LeReply		reply = {0};
	LeJobRow   *before = NULL;
	int			nbefore = 0;
	int			k = 0;
	le_time		as_of;
	LeJobRow   *jobs = MemoryContextAllocHuge(CurrentMemoryContext,
											  Max(mul_size(survey.nrows,
														   sizeof(LeJobRow)),
												  1));

	(void) le_job_snapshot_copy(&before, &nbefore, &as_of);
	for (int i = 0; i < survey.nrows; i++)
	{
		jobs[i] = survey.rows[i].job;
		while (k < nbefore && compare_jobs(&before[k], &jobs[i]) < 0)
			k++;
		tell_news(&jobs[i], k < nbefore &&
				  compare_jobs(&before[k], &jobs[i]) == 0 ? &before[k] : NULL);
	}
	le_job_snapshot_put(jobs, survey.nrows, survey.as_of);
	end_round();
	reply.kind = LE_REPLY_TRUE;
	answer_all(&reply);
}

static void
look_again(void)
{
	while (survey.at < survey.nrows && !survey.rows[survey.at].doubted)
		survey.at++;
	if (survey.at < survey.nrows)
		send(LE_OP_READ_CLAIM, survey.rows[survey.at].job.claim.election,
			 survey.rows[survey.at].job.claim.job, read_again);
	else
		publish();
}

/* ---- called by ask.c and the loop ---- */

static void
start(void)
{
	survey.round++;
	survey.under_way = true;
	survey.as_of = le_now();
	survey.next_slot = 0;
	list();
}

void
le_job_scan_question(int proc, uint64 number, const LeAsk *ask)
{
	Waiter	   *w = MemoryContextAllocZero(TopMemoryContext, sizeof(Waiter));

	w->proc = proc;
	w->number = number;
	w->round = survey.round + 1;
	w->give_up = le_now() + 3 * (le_request_timeout * LE_MSEC);
	dlist_push_tail(&waiters, &w->node);
	if (!survey.under_way)
		start();
}

/* Does anybody wait for the next round? */
static bool
is_asked_for(void)
{
	return !survey.under_way && !dlist_is_empty(&waiters);
}

/* Of its own accord; not while this node has to do with no election. */
static bool
is_due(le_time now)
{
	if (le_job_check_interval == 0 || survey.under_way)
		return false;
	/* what is set may be shorter by now */
	survey.next_at = Min(survey.next_at,
						 now + le_job_check_interval * LE_MSEC);
	if (now < survey.next_at)
		return false;
	if (le_session_live() && le_elect_need_session())
		return true;
	survey.next_at = next_of_its_own();
	return false;
}

static void
answer_late(le_time now)
{
	dlist_mutable_iter iter;
	LeReply		reply;

	dlist_foreach_modify(iter, &waiters)
	{
		Waiter	   *w = dlist_container(Waiter, node, iter.cur);

		if (now < w->give_up)
			continue;
		fill_error(&reply, LE_UNAVAILABLE);
		answer(w, &reply);
	}
}

void
le_job_scan_run_timers(void)
{
	le_time		now = le_now();

	answer_late(now);
	if (is_asked_for() || is_due(now))
		start();
}

le_time
le_job_scan_timer(void)
{
	le_time		next = 0;
	dlist_iter	iter;

	if (is_asked_for())
		return le_now();
	if (le_job_check_interval > 0 && !survey.under_way)
		next = Max(survey.next_at, 1);
	dlist_foreach(iter, &waiters)
		next = le_earliest(next,
						   dlist_container(Waiter, node, iter.cur)->give_up);
	return next;
}
