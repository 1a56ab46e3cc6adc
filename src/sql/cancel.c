/*-------------------------------------------------------------------------
 *
 * cancel.c
 *		Stop in time: a timer that cancels this session's statement.
 *
 * The session's own timer looks at the terms that it works under, and cancels
 * the statement that runs when one of them is about to end.  Nobody else sends
 * a signal: the worker would have to find the right process, and a cancel that
 * comes late would hit whatever that process does next.
 *
 * PostgreSQL's own timeouts will not do.  They are given up when an error is
 * caught on the way, and they follow the wall clock.  So this is a timer of
 * the kernel's on the clock of all deadlines, that tells this very thread by a
 * real-time signal that nothing else uses.  Renewals move a deadline without
 * a word to us, so the handler reads it again and sets the timer anew.
 *
 * A cancel that comes while the client thinks is dropped by PostgreSQL, and
 * the next statement would run: past the point where it should stop, a
 * transaction is canceled again and again until it is over.
 *
 * The handler does nothing while "looking" is off; the list is changed only
 * then.  The timer is not stopped when the last term goes: it fires once more
 * for nobody, which costs less than a system call at each commit.
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

#include "settings.h"
#include "shmem/requests.h"
#include "sql/cancel.h"

/* Older C libraries have the field, but not its name. */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id	_sigev_un._tid
#endif

/* How often to look at a term that may be given up, or lost, before its time:
 * for those who want to be stopped then, and for the others. */
#define LOOK_OFTEN		(100 * LE_MSEC)
#define LOOK_SELDOM		LE_SEC

/* A slot that was being changed is looked at again before it counts. */
#define LOOK_AGAIN		(10 * LE_MSEC)

static dlist_head stops = DLIST_STATIC_INIT(stops);
static volatile sig_atomic_t looking = false;
static volatile sig_atomic_t cancel_is_ours = false;
static timer_t timer;
static bool have_timer = false;
static le_time timer_at = 0;

static void
set_timer(le_time when)
{
	struct itimerspec at = {.it_interval = {0}};

	timer_at = when;
	at.it_value.tv_sec = when / LE_SEC;
	at.it_value.tv_nsec = when % LE_SEC;
	timer_settime(timer, TIMER_ABSTIME, &at, NULL);
}

/* What pg_cancel_backend() does, from the inside. */
static void
fire(LeStop *s)
{
	s->fired = true;
	cancel_is_ours = true;
	if (!proc_exit_inprogress)
	{
		InterruptPending = true;
		QueryCancelPending = true;
	}
	SetLatch(MyLatch);
}

/* Is there anything that could be stopped? */
static bool
idle(const LeStop *s)
{
	return s->in_xact_only && !IsTransactionState();
}

/* When has the session to stop for this term's sake?  0: not for now. */
static le_time
stop_at(LeStop *s, le_time now)
{
	LeTerm		term;

	if (!le_read_term_at(s->number, s->election, &term) ||
		term.token != s->token || !le_is_mine(term.owner))
	{
		if (!s->missed)
		{
			s->missed = true;
			return now + LOOK_AGAIN;
		}
		return s->cancels ? now : 0;
	}
	s->missed = false;
	return le_earliest(term.drain_until, s->cancels ?
					   term.deadline - le_cancel_lead * LE_MSEC : 0);
}

/* Look at one term; returns when to look again. */
static le_time
look_at(LeStop *s, le_time now)
{
	le_time		when = stop_at(s, now);

	if (when == 0 || when > now)
		return le_earliest(when, now + (s->cancels && !idle(s) ?
										LOOK_OFTEN : LOOK_SELDOM));
	if (!idle(s))
		fire(s);
	else if (s->missed)
		return 0;				/* it ended while there was nothing to stop */
	return now + LOOK_OFTEN;
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

static void
timer_fired(int signo)
{
	int			save_errno = errno;

	(void) signo;
	if (looking)
		set_timer(look());
	errno = save_errno;
}

/* A signal of which nobody has made use yet; 0: there is none. */
static int
free_signal(void)
{
	for (int signo = SIGRTMIN + 3; signo <= SIGRTMAX; signo++)
	{
		struct sigaction old;

		if (sigaction(signo, NULL, &old) == 0 &&
			(old.sa_flags & SA_SIGINFO) == 0 && old.sa_handler == SIG_DFL)
			return signo;
	}
	return 0;
}

/* Called before anything is watched; only this may fail. */
void
le_cancel_prepare(void)
{
	struct sigaction action = {0};
	struct sigevent event = {0};
	int			signo;

	if (have_timer)
		return;
	signo = free_signal();
	action.sa_handler = timer_fired;
	action.sa_flags = SA_RESTART;
	sigemptyset(&action.sa_mask);
	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = signo;
	event.sigev_notify_thread_id = (pid_t) syscall(SYS_gettid);
	if (signo == 0 || sigaction(signo, &action, NULL) != 0 ||
		timer_create(CLOCK_BOOTTIME, &event, &timer) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not create a timer for leader_election: %m")));
	have_timer = true;
}

/* The list stands still for whoever changes it or what is in it. */
void
le_cancel_pause(void)
{
	looking = false;
	pg_compiler_barrier();
}

/*
 * A timer that is still to fire will find us looking.  One whose time has
 * come may have fired while nobody looked.
 */
void
le_cancel_resume(void)
{
	le_time		next;

	if (dlist_is_empty(&stops))
		return;
	next = look();
	if (timer_at <= le_now() || next < timer_at)
		set_timer(next);
	pg_compiler_barrier();
	looking = true;
	/* It was set while we did not look, and may have come already. */
	if (timer_at <= le_now())
		set_timer(timer_at);
}

void
le_cancel_watch(LeStop *stop)
{
	le_cancel_pause();
	stop->fired = stop->missed = false;
	dlist_push_tail(&stops, &stop->node);
	le_cancel_resume();
}

/*
 * What was fired for this term has no aim any more.  A cancel that nobody has
 * come across yet must not hit what comes next; core drops one that arrives
 * between statements for the same reason.
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
	if (cancel_is_ours)
		QueryCancelPending = false;
	cancel_is_ours = false;
}

/* To be called while paused, or resumed after. */
void
le_cancel_unwatch(LeStop *stop)
{
	le_cancel_pause();
	dlist_delete(&stop->node);
	if (stop->fired)
		le_cancel_excuse(stop);
}
