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
 * postmaster.pid tells which.  It tells of a smart shutdown as well, in which
 * SIGTERM comes only when the last client has gone: terms end before.
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

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "postmaster/interrupt.h"
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
#include "worker/disk/pastfile.h"
#include "worker/disk/statefile.h"
#include "worker/disk/tokens.h"
#include "worker/jobs/claim_cache.h"
#include "worker/jobs/claim_end.h"
#include "worker/jobs/claim_list.h"
#include "worker/jobs/claim_take.h"
#include "worker/jobs/claims.h"
#include "worker/jobs/job_scan.h"
#include "worker/lead/candidacy.h"
#include "worker/lead/elect.h"
#include "worker/lead/elect_all.h"
#include "worker/lead/elect_timers.h"
#include "worker/lead/grants.h"
#include "worker/lead/pending.h"
#include "worker/lead/renew.h"
#include "worker/lead/roster.h"
#include "worker/lead/session.h"
#include "worker/view/cache.h"
#include "worker/view/clones.h"
#include "worker/view/eligible.h"
#include "worker/view/wishes.h"
#include "worker/watch/watch_all.h"
#include "worker/watch/watch_each.h"
#include "worker/wire/dispatch.h"
#include "worker/wire/gossip.h"
#include "worker/wire/http.h"
#include "worker/wire/lanes.h"
#include "worker/worker.h"

/* An orphan's interval of looks at the flags that a latch would announce. */
#define ORPHAN_LOOKS_MS	10

const LeLimits le_usual_limits = {
	.lane_windows = le_lane_windows,
	.list_from = 8,
	.slots_at_once = 500,
	.gossip_from = 100,
	.gossip_capacity = LE_MAX_NEWS,
};

/* Does nothing; PostgreSQL's SIG_IGN is not a handler in every version. */
static void
handle_sigint(SIGNAL_ARGS)
{
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
sleep_as_orphan(LeWorker *w, long timeout)
{
	struct pollfd store = {.fd = -1, .events = POLLIN};

	if (le_configured_store()->between_instances)
		store.fd = le_http_socket(w);
	(void) poll(&store, 1, (int) Min((unsigned long) timeout,
									 ORPHAN_LOOKS_MS));
}

/* The events that end a sleep, set up once: that costs more than a sleep. */
static WaitEventSet *
what_wakes(LeWorker *w)
{
	WaitEventSet *set = le_create_wait_event_set(3);

	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_POSTMASTER_DEATH, PGINVALID_SOCKET, NULL, NULL);
	if (le_configured_store()->between_instances)
		AddWaitEventToSet(set, WL_SOCKET_READABLE, le_http_socket(w), NULL,
						  NULL);
	return set;
}

/* Sleep until an answer, a signal, a question, or "next" (0: no limit). */
static void
sleep_until(LeWorker *w, le_time next)
{
	WaitEvent	woken;
	long		timeout = -1;

	if (next != 0)
	{
		le_duration left = next - le_now();

		/* Round up, or the last millisecond is spent in a busy loop. */
		timeout = left <= 0 ? 0 : (long) ((left + LE_MSEC - 1) / LE_MSEC);
		timeout = Min(timeout, 3600 * 1000L);
	}
	if (w->orphaned)
	{
		sleep_as_orphan(w, timeout);
		return;
	}
	if (w->wakes == NULL)
		w->wakes = what_wakes(w);
	if (WaitEventSetWait(w->wakes, timeout, &woken, 1,
						 LE_WAIT_EVENT(w->wait_event,
									   "LeaderElectionMain")) == 1 &&
		woken.events == WL_POSTMASTER_DEATH)
		w->orphaned = true;
	ResetLatch(MyLatch);
}

/* May this node lead with these settings?  If not, the log says why. */
static void
judge_settings(LeWorker *w)
{
	LeTiming	timing;
	StringInfoData detail;

	le_configured_timing(&timing);
	le_judge_settings(w->eligibility);
	initStringInfo(&detail);
	if (!le_explain_timing(&timing, &detail))
		ereport(LOG,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("leader_election timing is unsafe: this node does not lead"),
				 errdetail_internal("%s", detail.data)));
	pfree(detail.data);
}

static void
reload_settings(LeWorker *w)
{
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	judge_settings(w);
	if (le_dispatch_configure(w))
		le_cache_begin_anew(w);
	le_clones_configure();
	le_session_configure(w);
	le_elect_refresh(w);
}

/* The files could not be read; by now they may be. */
static void
judge_again(LeWorker *w)
{
	judge_settings(w);
	le_elect_refresh(w);
}

/*
 * Backends may have given up a term, stopped waiting, or ended, without a
 * question: the hints tell if any did.
 */
static void
look_after_backends(LeWorker *w)
{
	uint64		hints = pg_atomic_read_u64(&le_table->hints);

	if (hints == w->hints)
		return;
	w->hints = hints;
	le_pending_withdrawn(w);
	le_claims_withdrawn(w);
	le_claims_end_abandoned(w);
	le_elect_recheck(w);
}

static void
look_for_stop(LeWorker *w)
{
	le_look_for_stop(w->eligibility);
}

static void
take_request(void *arg, int proc, uint64 number, const LeAsk *ask)
{
	le_question(arg, proc, number, ask);
}

/* Questions of backends; the first turn also finds those of a predecessor. */
static void
take_requests(LeWorker *w)
{
	le_each_request(take_request, w, w->first_turn);
	if (w->first_turn)
		le_pending_end_grants();
	w->first_turn = false;
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
	void		(*run) (LeWorker *w);
	le_time		(*timer) (LeWorker *w); /* NULL: another pass's, or none */
	int			phases;
} Pass;

static const Pass passes[] = {
	{le_past_look, NULL, SERVING},
	{look_for_stop, NULL, SERVING},
	{le_dispatch_run, le_dispatch_timer, SERVING | RELEASING | LEAVING},
	{le_elect_begin_terms, NULL, SERVING | RELEASING | LEAVING},
	{le_elect_go_on, NULL, SERVING | RELEASING},
	{le_elect_run_timers, le_elect_timer, SERVING | RELEASING},
	{le_pending_run_timers, le_pending_timer, SERVING | RELEASING | LEAVING},
	{le_claims_run_timers, le_claims_timer, SERVING | RELEASING},
	{le_job_scan_run_timers, le_job_scan_timer, SERVING},
	{take_requests, NULL, SERVING},
	{look_after_backends, NULL, SERVING | RELEASING},
	{le_session_run_timers, le_session_timer, SERVING | RELEASING},
	{le_session_leave, le_session_timer, LEAVING},
	{le_watch_all_run_timers, le_watch_all_timer, SERVING},
	{le_watch_each_run_timers, le_watch_each_timer, SERVING},
	{le_renew_run_timers, NULL, SERVING | RELEASING},
	{le_dispatch_send, NULL, SERVING | RELEASING | LEAVING},
};

static void
run_passes(LeWorker *w, Phase phase)
{
	pg_atomic_fetch_add_u64(&le_table->turns, 1);
	for (int i = 0; i < lengthof(passes); i++)
		if (passes[i].phases & phase)
			passes[i].run(w);
}

/* The next time at which a pass of that phase has something to do; 0: none. */
static le_time
next_timer(LeWorker *w, Phase phase)
{
	le_time		next = 0;

	for (int i = 0; i < lengthof(passes); i++)
		if ((passes[i].phases & phase) && passes[i].timer != NULL)
			next = le_earliest(next, passes[i].timer(w));
	return next;
}

/* While serving, wishes and the settings' timer end the sleep as well. */
static le_time
next_work(LeWorker *w)
{
	if (le_any_wish(w->wishes))
		return le_now();
	return le_earliest(next_timer(w, SERVING),
					   le_settings_timer(w->eligibility));
}

/*
 * The instance shuts down, or has lost its postmaster.  Belief ends at once;
 * then the store is told, for as long as the administrator allows.
 */
static void
drain(LeWorker *w)
{
	le_time		until = le_now() + le_shutdown_timeout * LE_MSEC;

	le_elect_release_all(w, !w->orphaned);
	while (le_now() < until && !le_elect_all_released(w))
	{
		sleep_until(w, le_earliest(next_timer(w, RELEASING), until));
		run_passes(w, RELEASING);
	}
	le_session_unwant(w);
	while (le_now() < until && !le_session_none())
	{
		sleep_until(w, le_earliest(next_timer(w, LEAVING), until));
		run_passes(w, LEAVING);
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
leave_as_orphan(LeWorker *w)
{
	ereport(LOG,
			(errmsg("leader_election releases everything, since the postmaster is dead")));
	drain(w);
	proc_exit(1);
}

/* The parts that read neither files nor settings; start() makes the others. */
static LeWorker *
new_worker(const LeLimits *limits)
{
	LeWorker   *w = MemoryContextAllocZero(TopMemoryContext, sizeof(LeWorker));

	w->limits = limits;
	w->first_turn = true;
	w->hints = PG_UINT64_MAX;
	w->statefile = le_statefile_new();
	w->wishes = le_wishes_new();
	w->eligibility = le_eligibility_new();
	w->cache = le_cache_new();
	w->pendings = le_pendings_new();
	w->roster = le_roster_new();
	w->candidacies = le_candidacies_new();
	w->grants = le_grants_new();
	w->elect_timers = le_elect_timers_new();
	w->watch_all = le_watch_all_new();
	w->watch_each = le_watch_each_new();
	w->claim_cache = le_claim_cache_new();
	w->claim_asks = le_claim_asks_new();
	w->claim_listings = le_claim_listings_new();
	w->new_jobs = le_new_jobs_new();
	w->job_scan = le_job_scan_new();
	return w;
}

/*
 * A server in the foreground has a terminal for its standard input, and so do
 * its processes.  Nothing here may read it, libraries included: nobody need
 * sit there.  Another file with that number may be one of the server's own.
 */
static void
leave_terminal(void)
{
	int			nobody;

	if (!isatty(STDIN_FILENO))
		return;
	nobody = open(DEVNULL, O_RDONLY | O_CLOEXEC);
	if (nobody < 0 || dup2(nobody, STDIN_FILENO) < 0)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", DEVNULL)));
	if (nobody >= 0)
		close(nobody);
}

static void
start_worker(LeWorker *w)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGINT, handle_sigint);	/* there is no query to cancel */
	pqsignal(SIGUSR1, procsignal_sigusr1_handler);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	leave_terminal();

	before_shmem_exit(worker_leaves, (Datum) 0);
	pg_atomic_write_u32(&le_table->worker_pid, (uint32) MyProcPid);
	le_dispatch_start(w);
	w->tokens = le_tokens_load();
	if (!le_configured_store()->between_instances)
		w->claims = le_claims_load(le_tokens_led_before(w->tokens));
	judge_settings(w);
	ereport(LOG,
			(errmsg("leader_election worker started as node \"%s\"",
					le_my_name()),
			 le_configured_store()->between_instances ?
			 errdetail("Store %s at %s.", le_configured_store()->name,
					   le_store_address(w)) :
			 errdetail("Store local: elections are decided inside this instance only, not between instances.")));
	le_event(LE_EVENT_WORKER_STARTED, NULL, 0, NULL);
	le_clones_configure();
	if (le_configured_store()->watch.tells)
		le_gossip_start(w->gossip);
	le_session_start(w);
	le_elect_start(w);
	pg_atomic_write_u32(&le_table->worker_proc, (uint32) LE_MY_PROC + 1);

	/*
	 * The first look at the questions finds those that were posted before
	 * their backends could see this.  It must not be made before the write is
	 * visible; see wake_worker().
	 */
	pg_memory_barrier();
}

/* "arg": the simulator's limits, or 0. */
void
le_worker_main(Datum arg)
{
	LeWorker   *w = new_worker(arg == 0 ? &le_usual_limits :
							   (const LeLimits *) DatumGetPointer(arg));
	MemoryContext turn_context;

	start_worker(w);
	turn_context = AllocSetContextCreate(TopMemoryContext,
										 "leader_election turn",
										 ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(turn_context);
	for (;;)
	{
		le_time		began = le_now();

		CHECK_FOR_INTERRUPTS();
		if (w->orphaned)
			leave_as_orphan(w);
		if (ConfigReloadPending)
			reload_settings(w);
		else if (le_settings_timer(w->eligibility) != 0 &&
				 le_now() >= le_settings_timer(w->eligibility))
			judge_again(w);
		if (ShutdownRequestPending && le_instance_stops())
		{
			drain(w);
			proc_exit(0);
		}
		if (ShutdownRequestPending)
			ereport(FATAL,
					(errcode(ERRCODE_ADMIN_SHUTDOWN),
					 errmsg("terminating the leader_election worker due to administrator command"),
					 errdetail("It starts again in one second and keeps its leases.")));
		run_passes(w, SERVING);
		MemoryContextReset(turn_context);
		le_stat_turn(le_now() - began);
		sleep_until(w, next_work(w));
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
