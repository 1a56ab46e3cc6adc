/*-------------------------------------------------------------------------
 *
 * cancel.c
 *		Stop in time: cancel this session's statement when its term is over,
 *		or its time limit.
 *
 * A session cancels its own statement when one of the terms that it works
 * under is about to end.  No other process could: a late cancel by the worker
 * would hit the next statement of that process.  The session checks its terms
 *
 * - when a deadline comes close, by a timer of its own.  It fires once per
 *   lease, since renewals move the deadline without notice;
 * - when the worker signals (bound.c) that a term ended early, or will;
 * - when a statement starts, for changes since the last one.
 *
 * The time limit of le_run()'s command works the same way.  Unlike
 * statement_timeout it survives the end of a statement, and a caught error.
 *
 * There are no other signals: they would interrupt the poll(), sleep() and the
 * like of other extensions.  For the same reason a session that did not ask
 * for cancels has no timer.
 *
 * PostgreSQL's own timeouts do not fit: a caught error disables them, and they
 * follow the wall clock.  So this is a kernel timer on the clock of all
 * deadlines, which signals this thread as the worker does.
 *
 * PostgreSQL drops a cancel that arrives between statements, and the next
 * statement would run.  So a transaction past its stop is canceled repeatedly
 * until it is over.
 *
 * Between its check and the commit record a transaction is watched for all
 * terms that bind it, with or without cancel on loss, until commit_margin
 * before the deadline.  Once the record may be written, nothing is canceled.
 *
 * The handler does nothing while "looking" is off; the list changes only
 * then.  The timer stays on after the last term: firing once in vain costs
 * less than a system call at each commit.
 *
 * src/sql/cancel.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"

#include "compat.h"
#include "settings.h"
#include "shmem/bound.h"
#include "shmem/requests.h"
#include "sql/cancel.h"

/* Older C libraries have the field, but not its name. */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id	_sigev_un._tid
#endif

/* Time until the cancel is repeated. */
#define FIRE_AGAIN		(100 * LE_MSEC)

/* Time until a slot that was changing is read again. */
#define LOOK_AGAIN		(10 * LE_MSEC)

static dlist_head stops = DLIST_STATIC_INIT(stops);
static volatile sig_atomic_t looking = false;
static volatile sig_atomic_t missed_signal = false; /* while not looking */
static bool listening = false;	/* to the signal */
static LeCommitStage commit_stage = LE_COMMIT_NONE;
static timer_t timer;
static bool have_timer = false;
static le_time timer_at = 0;	/* it fires then, or has */

/*
 * A pending cancel by another process looks like ours.  So count those
 * cancels, and remember the count when ours becomes the pending one.
 */
static struct sigaction next_sigint;
static volatile sig_atomic_t others = 0;
static volatile sig_atomic_t others_before = -1;

/* Set the timer, unless it fires earlier; 0: nothing to wait for. */
static void
set_cancel_timer(le_time when)
{
	struct itimerspec at = {.it_interval = {0}};

	if (!have_timer || when == 0 || (timer_at > le_now() && timer_at <= when))
		return;
	timer_at = when;
	at.it_value.tv_sec = when / LE_SEC;
	at.it_value.tv_nsec = when % LE_SEC;
	timer_settime(timer, TIMER_ABSTIME, &at, NULL);
}

/* Like pg_cancel_backend(), from the inside. */
static void
fire(LeStop *s)
{
	sig_atomic_t others_now = others;

	s->fired = true;
	if (!QueryCancelPending)
		others_before = others_now;
	if (!proc_exit_inprogress)
	{
		InterruptPending = true;
		QueryCancelPending = true;
	}
	SetLatch(MyLatch);
}

/* Is there nothing to stop? */
static bool
idle(const LeStop *s)
{
	return s->in_xact_only && !IsTransactionState();
}

/* The time before the deadline at which it stops; -1: it does not. */
static le_duration
lead_of(const LeStop *s)
{
	if (s->cancels)
		return le_cancel_lead * LE_MSEC;
	return commit_stage != LE_COMMIT_NONE ? le_commit_margin * LE_MSEC : -1;
}

/* The time at which the session must stop; 0: not for now. */
static le_time
stop_at(LeStop *s, le_time now)
{
	le_duration lead = lead_of(s);
	LeTerm		term;

	if (s->at != 0)
		return s->at;
	if (!le_read_term_at(s->number, s->election, &term) ||
		term.token != s->token || !le_is_mine(term.owner))
	{
		if (!s->missed)
		{
			s->missed = true;
			return now + LOOK_AGAIN;
		}
		return lead >= 0 && !s->too_late ? now : 0;
	}
	s->missed = s->too_late = false;
	return le_earliest(term.drain_until,
					   lead >= 0 ? term.deadline - lead : 0);
}

/*
 * Would PostgreSQL process a cancel before the commit record?  After the last
 * check we do not, and a cancel that is pending when the record is written
 * would end the wait for a standby.  So cancel only during an interruptible
 * wait: not for a disk or a lightweight lock.
 */
static bool
is_heard(void)
{
	uint32		class = *(volatile uint32 *) my_wait_event_info & 0xFF000000;

	if (commit_stage != LE_COMMIT_LAST)
		return true;
	return InterruptHoldoffCount == 0 && CritSectionCount == 0 &&
		class != 0 && class != PG_WAIT_LWLOCK && class != PG_WAIT_IO;
}

/* Check one term; returns the time of the next check. */
static le_time
look_at(LeStop *s, le_time now)
{
	le_time		when = stop_at(s, now);

	if (!s->fired && (when == 0 || when > now))
		return when;
	if (!is_heard())
		return now + (InterruptHoldoffCount == 0 ? LOOK_AGAIN : FIRE_AGAIN);
	if (!idle(s))
	{
		fire(s);
		return now + FIRE_AGAIN;
	}
	if (s->missed)
		s->too_late = true;		/* it ended while the session was idle */
	return 0;
}

static le_time
look(void)
{
	le_time		now = le_now();
	le_time		next = 0;
	dlist_iter	iter;

	dlist_foreach(iter, &stops)
		next = le_earliest(next, look_at(dlist_container(LeStop, node,
														 iter.cur), now));
	return next;
}

/* The timer has fired, or the worker has signaled. */
static void
handle_signal(int signo)
{
	int			save_errno = errno;

	(void) signo;
	if (looking)
		set_cancel_timer(look());
	else
		missed_signal = true;
	errno = save_errno;
}

/* Another process cancels, by PostgreSQL's own means. */
static void
handle_sigint(int signo, siginfo_t *info, void *context)
{
	others++;
	if ((next_sigint.sa_flags & SA_SIGINFO) != 0)
		next_sigint.sa_sigaction(signo, info, context);
	else
		next_sigint.sa_handler(signo);
}

static void
listen_to_signals(void)
{
	struct sigaction action = {0};

	sigemptyset(&action.sa_mask);
	action.sa_flags = SA_RESTART;
	action.sa_handler = handle_signal;
	if (le_bound_signal() != 0)
		(void) sigaction(le_bound_signal(), &action, NULL);
	if (sigaction(SIGINT, NULL, &next_sigint) == 0 &&
		((next_sigint.sa_flags & SA_SIGINFO) != 0 ||
		 (next_sigint.sa_handler != SIG_DFL &&
		  next_sigint.sa_handler != SIG_IGN)))
	{
		action = next_sigint;
		action.sa_flags |= SA_SIGINFO;
		action.sa_sigaction = handle_sigint;
		(void) sigaction(SIGINT, &action, NULL);
	}
	listening = true;
}

static bool
create_timer(void)
{
	struct sigevent event = {0};

	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = le_bound_signal();
	event.sigev_notify_thread_id = (pid_t) syscall(SYS_gettid);
	have_timer = event.sigev_signo != 0 &&
		timer_create(CLOCK_BOOTTIME, &event, &timer) == 0;
	return have_timer;
}

static void
need_timer(void)
{
	if (le_bound_signal() == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("no real-time signal is left for leader_election"),
				 errdetail("Other libraries of this server use all of them; statements cannot be canceled when leadership is lost.")));
	if (!create_timer())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not create a timer for leader_election: %m"),
				 errhint("The server's limit of pending signals (ulimit -i) may be too low.")));
}

/*
 * Called before the first watch.  Only this may fail, and it may be called
 * again then.  Without cancels no timer is needed.
 */
void
le_cancel_prepare(bool cancels)
{
	if (!listening)
		listen_to_signals();
	if (cancels && !have_timer)
		need_timer();
}

/* Keep the handler off the list, so that it can be changed. */
void
le_cancel_pause(void)
{
	looking = false;
	pg_compiler_barrier();
}

/* Check the terms as well, for signals missed during the pause. */
void
le_cancel_resume(void)
{
	if (dlist_is_empty(&stops))
		return;
	do
	{
		le_cancel_pause();
		missed_signal = false;
		set_cancel_timer(look());
		pg_compiler_barrier();
		looking = true;
		pg_compiler_barrier();
	} while (missed_signal);
}

/* Does no term or limit need the timer? */
static bool
nobody_asked(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &stops)
	{
		const LeStop *s = dlist_container(LeStop, node, iter.cur);

		if (s->cancels || s->at != 0)
			return false;
	}
	return true;
}

/*
 * The transaction is about to commit, or the commit is over.  Call while
 * paused.  A session without cancels has a timer only during the commit; if
 * none can be created, only the worker's signal triggers a check.
 */
void
le_cancel_commit(LeCommitStage stage)
{
	const struct itimerspec never = {.it_interval = {0}};

	commit_stage = stage;
	if (stage == LE_COMMIT_CHECKED && !have_timer)
		(void) create_timer();
	if (stage != LE_COMMIT_NONE || timer_at == 0 || !nobody_asked())
		return;
	timer_settime(timer, 0, &never, NULL);
	timer_at = 0;
}

/*
 * A statement starts.  A session that was idle must not stop for a term that
 * is already over: the statement does not work under it.
 */
void
le_cancel_statement_starts(void)
{
	dlist_iter	iter;
	LeTerm		term;

	if (dlist_is_empty(&stops))
		return;
	le_cancel_pause();
	dlist_foreach(iter, &stops)
	{
		LeStop	   *s = dlist_container(LeStop, node, iter.cur);

		if (s->in_xact_only && !s->fired &&
			!le_read_term_at(s->number, s->election, &term))
			s->too_late = true;
	}
	le_cancel_resume();
}

/*
 * The cancel ends a statement by an error.  A caller that catches it is
 * canceled at once.
 */
void
le_cancel_insist(void)
{
	dlist_iter	iter;

	le_cancel_pause();
	dlist_foreach(iter, &stops)
	{
		LeStop	   *s = dlist_container(LeStop, node, iter.cur);

		if (s->fired)
			fire(s);
	}
	le_cancel_resume();
}

void
le_cancel_watch(LeStop *stop)
{
	le_cancel_pause();
	stop->fired = stop->missed = stop->too_late = false;
	dlist_push_tail(&stops, &stop->node);
	le_cancel_resume();
}

/*
 * Withdraw the cancel for this term.  If still pending, it must not hit the
 * next statement; PostgreSQL drops cancels between statements for the same
 * reason.  But keep it if another process has canceled since.
 */
void
le_cancel_excuse(LeStop *stop)
{
	dlist_iter	iter;

	stop->fired = false;
	dlist_foreach(iter, &stops)
	{
		if (dlist_container(LeStop, node, iter.cur)->fired)
			return;
	}
	if (others_before == others)
		QueryCancelPending = false;
	others_before = -1;
}

/* The caller resumes afterwards. */
void
le_cancel_unwatch(LeStop *stop)
{
	le_cancel_pause();
	dlist_delete(&stop->node);
	if (stop->fired)
		le_cancel_excuse(stop);
}
