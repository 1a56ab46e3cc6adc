/*-------------------------------------------------------------------------
 *
 * worker.c
 *		The background worker: one loop, one latch.
 *
 * The worker sleeps until something is due: a timer, an answer, a question, a
 * signal.  It holds no transaction, takes no lock that a backend might hold,
 * and never blocks in a call of its own, so it never holds up DROP DATABASE, a
 * reload or a shutdown, even while the store hangs.
 *
 * It is restarted one second after it fails or is terminated, and takes its
 * leases up from shared memory.  At a shutdown of the instance it first
 * releases everything, for at most shutdown_timeout.  SIGTERM means both;
 * postmaster.pid tells which.
 *
 * If the postmaster dies, this process lives on for a moment, and uses it as
 * at a shutdown: belief ends, then the store is told, so that others need not
 * wait for the lease to run out.
 *
 * src/worker/worker.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <poll.h>
#include <signal.h>

#include "postmaster/interrupt.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/procsignal.h"
#include "utils/memutils.h"

#include "compat.h"
#include "settings.h"
#include "shmem/events.h"
#include "shmem/requests.h"
#include "shmem/stats.h"
#include "worker/ask/ask.h"
#include "worker/disk/claimlog.h"
#include "worker/disk/tokens.h"
#include "worker/jobs/claims.h"
#include "worker/jobs/job_scan.h"
#include "worker/lead/elect.h"
#include "worker/lead/elect_all.h"
#include "worker/lead/elect_timers.h"
#include "worker/lead/pending.h"
#include "worker/lead/renew.h"
#include "worker/lead/session.h"
#include "worker/view/eligible.h"
#include "worker/view/wishes.h"
#include "worker/watch/watch_all.h"
#include "worker/watch/watch_each.h"
#include "worker/wire/dispatch.h"
#include "worker/wire/gossip.h"
#include "worker/wire/http.h"
#include "worker/worker.h"

/* An orphan's interval of looks at the flags that a latch would announce. */
#define ORPHAN_LOOKS_MS	10

static volatile sig_atomic_t got_sigterm = false;

static bool orphaned = false;	/* the postmaster is dead */
static bool first_turn = true;

static void
handle_sigterm(SIGNAL_ARGS)
{
	int			save_errno = errno;

	got_sigterm = true;
	SetLatch(MyLatch);
	errno = save_errno;
}

/* Does nothing; PostgreSQL's SIG_IGN is not a handler in every version. */
static void
handle_sigint(SIGNAL_ARGS)
{
}

/*
 * Is the instance shutting down, or was only this process terminated?  The
 * postmaster notes the first in its lock file before it sends any signal.
 *
 * A file that cannot be read, perhaps for want of descriptors, does not tell.
 * To take that for a terminate is the smaller mistake: at a shutdown the
 * leases run out by themselves, while a worker that released them and left for
 * good would have no successor.
 */
static bool
instance_stops(void)
{
	FILE	   *file = AllocateFile("postmaster.pid", "r");
	char		line[MAXPGPATH];
	bool		stopping = false;

	if (file == NULL && errno == ENOENT)
		return true;			/* no lock file: no server */
	if (file == NULL)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m",
						"postmaster.pid")));
		return false;
	}
	for (int number = 1; fgets(line, sizeof(line), file) != NULL; number++)
		if (number == 8)		/* LOCK_FILE_LINE_PM_STATUS */
			stopping = strncmp(line, "stopping", 8) == 0;
	FreeFile(file);
	return stopping;
}

/* Nobody should wait for a worker that is not there. */
static void
worker_leaves(int code, Datum arg)
{
	pg_atomic_write_u32(&le_table->worker_proc, 0);
	pg_atomic_write_u32(&le_table->worker_pid, 0);
}

/*
 * Sleep without a postmaster, whose death ends every wait for a latch: only
 * the store and the clock wake an orphan.
 */
static void
sleep_as_orphan(long timeout)
{
	struct pollfd store = {.fd = -1, .events = POLLIN};

	if (le_configured_store()->between_instances)
		store.fd = le_http_socket();
	(void) poll(&store, 1, (int) Min((unsigned long) timeout,
									 ORPHAN_LOOKS_MS));
}

/* The events that end a sleep, set up once: that costs more than a sleep. */
static WaitEventSet *
what_wakes(void)
{
	WaitEventSet *set = le_create_wait_event_set(3);

	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_POSTMASTER_DEATH, PGINVALID_SOCKET, NULL, NULL);
	if (le_configured_store()->between_instances)
		AddWaitEventToSet(set, WL_SOCKET_READABLE, le_http_socket(), NULL,
						  NULL);
	return set;
}

/* Sleep until an answer, a signal, a question, or "next" (0: no limit). */
static void
sleep_until(le_time next)
{
	static WaitEventSet *wakes = NULL;
	static uint32 wait_event = 0;
	WaitEvent	woken;
	long		timeout = -1;

	if (next != 0)
	{
		le_duration left = next - le_now();

		/* Round up, or the last millisecond is spent in a busy loop. */
		timeout = left <= 0 ? 0 : (long) ((left + LE_MSEC - 1) / LE_MSEC);
		timeout = Min(timeout, 3600 * 1000L);
	}
	if (orphaned)
	{
		sleep_as_orphan(timeout);
		return;
	}
	if (wakes == NULL)
		wakes = what_wakes();
	if (WaitEventSetWait(wakes, timeout, &woken, 1,
						 LE_WAIT_EVENT(wait_event, "LeaderElectionMain")) == 1 &&
		woken.events == WL_POSTMASTER_DEATH)
		orphaned = true;
	ResetLatch(MyLatch);
}

/* May this node lead with these settings?  If not, the log says why. */
static void
judge_settings(void)
{
	LeTiming	timing;
	StringInfoData detail;

	le_configured_timing(&timing);
	le_judge_settings();
	initStringInfo(&detail);
	if (!le_explain_timing(&timing, &detail))
		ereport(LOG,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("leader_election timing is unsafe: this node does not lead"),
				 errdetail_internal("%s", detail.data)));
	pfree(detail.data);
}

static void
reload(void)
{
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	judge_settings();
	le_dispatch_configure();
	le_session_configure();
	le_elect_refresh();
}

/* The files could not be read; by now they may be. */
static void
judge_again(void)
{
	judge_settings();
	le_elect_refresh();
}

/*
 * Backends may have given up a term, stopped waiting, or ended, without a
 * question: the hints tell if any did.
 */
static void
look_after_backends(void)
{
	static uint64 last = PG_UINT64_MAX;
	uint64		hints = pg_atomic_read_u64(&le_table->hints);

	if (hints == last)
		return;
	last = hints;
	le_pending_withdrawn();
	le_claims_withdrawn();
	le_elect_recheck();
}

/* Questions of backends; the first turn also finds those of a predecessor. */
static void
take_requests(void)
{
	le_each_request(le_question, first_turn);
	if (first_turn)
		le_pending_end_grants();
	first_turn = false;
}

/* Phases of the worker's life; a pass belongs to one or to several. */
typedef enum Phase
{
	SERVING = 1 << 0,
	RELEASING = 1 << 1,			/* leaves: its terms end */
	LEAVING = 1 << 2			/* leaves: its store session ends */
} Phase;

/*
 * A turn does all that is due, in this order: answers of the store, timers of
 * elections, questions of backends, and then the work that follows from those.
 * A timer ends the sleep only in the phases in which its pass runs: a timer
 * that is due, but not looked after, would make the loop a busy one.
 */
typedef struct Pass
{
	void		(*run) (void);
	le_time		(*timer) (void);	/* NULL: another pass's timer, or none */
	int			phases;
} Pass;

static const Pass passes[] = {
	{le_dispatch_run, le_dispatch_timer, SERVING | RELEASING | LEAVING},
	{le_elect_begin_terms, NULL, SERVING | RELEASING | LEAVING},
	{le_elect_go_on, NULL, SERVING | RELEASING},
	{le_elect_run_timers, le_elect_timer, SERVING | RELEASING},
	{le_pending_run_timers, le_pending_timer, SERVING | RELEASING | LEAVING},
	{le_claims_run_timers, le_claims_timer, SERVING | RELEASING},
	{le_job_scan_run_timers, le_job_scan_timer, SERVING},
	{take_requests, NULL, SERVING},
	{look_after_backends, NULL, SERVING | RELEASING},
	{le_session_run_timers, le_session_timer, SERVING | RELEASING | LEAVING},
	{le_watch_all_run_timers, le_watch_all_timer, SERVING},
	{le_watch_each_run_timers, le_watch_each_timer, SERVING},
	{le_renew_run_timers, NULL, SERVING | RELEASING},
	{le_dispatch_send, NULL, SERVING | RELEASING | LEAVING},
};

static void
turn(Phase phase)
{
	pg_atomic_fetch_add_u64(&le_table->turns, 1);
	for (int i = 0; i < lengthof(passes); i++)
		if (passes[i].phases & phase)
			passes[i].run();
}

/* The next time at which a pass of that phase has something to do; 0: none. */
static le_time
next_timer(Phase phase)
{
	le_time		next = 0;

	for (int i = 0; i < lengthof(passes); i++)
		if ((passes[i].phases & phase) && passes[i].timer != NULL)
			next = le_earliest(next, passes[i].timer());
	return next;
}

/* While serving, wishes and the settings' timer end the sleep as well. */
static le_time
next_work(void)
{
	if (le_any_wish())
		return le_now();
	return le_earliest(next_timer(SERVING), le_settings_timer());
}

/*
 * The instance shuts down, or has lost its postmaster.  Belief ends at once;
 * then the store is told, for as long as the administrator allows.
 */
static void
drain(void)
{
	le_time		until = le_now() + le_shutdown_timeout * LE_MSEC;

	le_elect_release_all(!orphaned);
	while (le_now() < until && !le_elect_all_released())
	{
		sleep_until(le_earliest(next_timer(RELEASING), until));
		turn(RELEASING);
	}
	le_session_unwant();
	while (le_now() < until && !le_session_none())
	{
		sleep_until(le_earliest(next_timer(LEAVING), until));
		turn(LEAVING);
	}
	if (!le_session_none())
		ereport(LOG,
				(errmsg("leader_election could not leave the store in time"),
				 errdetail("The next start on this data directory ends the session, or it runs out.")));
}

/*
 * Backends outlive the postmaster without its care: those bound to a term are
 * canceled and refused at their commit, as after any loss.  It remains to tell
 * the store, which would else wait for the lease to run out.  A new postmaster
 * does not start while a process of the old one is there: hence not longer
 * than at a shutdown.
 */
static void
leave_as_orphan(void)
{
	ereport(LOG,
			(errmsg("leader_election releases everything, since the postmaster is dead")));
	drain();
	proc_exit(1);
}

static void
start(void)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, handle_sigterm);
	pqsignal(SIGINT, handle_sigint);	/* there is no query to cancel */
	pqsignal(SIGUSR1, procsignal_sigusr1_handler);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	before_shmem_exit(worker_leaves, (Datum) 0);
	pg_atomic_write_u32(&le_table->worker_pid, (uint32) MyProcPid);
	le_dispatch_start();
	le_tokens_load();
	if (!le_configured_store()->between_instances)
		le_claim_log_load(le_tokens_led_before());
	judge_settings();
	ereport(LOG,
			(errmsg("leader_election worker started as node \"%s\"",
					le_my_name()),
			 le_configured_store()->between_instances ?
			 errdetail("Store %s at %s.", le_configured_store()->name, le_store_place()) :
			 errdetail("Store local: elections are decided inside this instance only, not between instances.")));
	le_event(LE_EVENT_WORKER_STARTED, NULL, 0, NULL);
	if (le_configured_store()->tells)
		le_gossip_start();
	le_session_start();
	le_watch_each_start();
	le_elect_start();
	pg_atomic_write_u32(&le_table->worker_proc, (uint32) LE_MY_PROC + 1);

	/*
	 * The first look at the questions finds those that were posted before
	 * their backends could see this.  It must not be made before the write is
	 * visible; see wake_worker().
	 */
	pg_memory_barrier();
}

void
le_worker_main(Datum arg)
{
	MemoryContext turn_context;

	start();
	turn_context = AllocSetContextCreate(TopMemoryContext,
										 "leader_election turn",
										 ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(turn_context);
	for (;;)
	{
		le_time		began = le_now();

		CHECK_FOR_INTERRUPTS();
		if (orphaned)
			leave_as_orphan();
		if (ConfigReloadPending)
			reload();
		else if (le_settings_timer() != 0 && le_now() >= le_settings_timer())
			judge_again();
		if (got_sigterm && instance_stops())
		{
			drain();
			proc_exit(0);
		}
		if (got_sigterm)
			ereport(FATAL,
					(errcode(ERRCODE_ADMIN_SHUTDOWN),
					 errmsg("terminating the leader_election worker due to administrator command"),
					 errdetail("It starts again in one second and keeps its leases.")));
		turn(SERVING);
		MemoryContextReset(turn_context);
		le_stat_turn(le_now() - began);
		sleep_until(next_work());
	}
}

void
le_register_worker(void)
{
	BackgroundWorker worker = {0};

	strlcpy(worker.bgw_name, "leader_election worker", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "leader_election worker", BGW_MAXLEN);
	strlcpy(worker.bgw_library_name, "leader_election",
			sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "le_worker_main", BGW_MAXLEN);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = 1;
	RegisterBackgroundWorker(&worker);
}
