/*-------------------------------------------------------------------------
 *
 * leader_election.c
 *		Library entry: settings, shared memory, worker registration.
 *
 * src/leader_election.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/extension.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "postmaster/bgworker_internals.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "compat.h"
#include "mistakes.h"
#include "settings.h"
#include "shmem/bound.h"
#include "shmem/events.h"
#include "shmem/history.h"
#include "shmem/job_snapshot.h"
#include "shmem/leases.h"
#include "shmem/progress.h"
#include "shmem/requests.h"
#include "shmem/run_registry.h"
#include "shmem/stats.h"
#include "sql/arguments.h"
#include "sql/fence.h"
#include "sql/job_callers.h"
#include "sql/statement.h"
#include "worker/disk/claimlog.h"
#include "worker/worker.h"

LE_MODULE_MAGIC;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(add_size(le_leases_size(), le_requests_size()));
	RequestAddinShmemSpace(add_size(le_events_size(), le_stats_size()));
	RequestAddinShmemSpace(add_size(le_bound_size(), le_run_registry_size()));
	RequestAddinShmemSpace(add_size(le_history_size(),
									 le_job_snapshot_size()));
	RequestAddinShmemSpace(add_size(le_progress_size(),
									 le_job_callers_size()));
}

/*
 * Also runs when the postmaster starts over after a crash, with new memory
 * and thus a new incarnation of this node.
 */
static void
shmem_startup(void)
{
	void	   *where;
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	where = ShmemInitStruct("leader_election leases", le_leases_size(),
							&found);
	le_leases_init(found, where);
	where = ShmemInitStruct("leader_election requests", le_requests_size(),
							&found);
	le_requests_init(found, where);
	where = ShmemInitStruct("leader_election events", le_events_size(),
							&found);
	le_events_init(found, where);
	where = ShmemInitStruct("leader_election history", le_history_size(),
							&found);
	le_history_init(found, where);
	where = ShmemInitStruct("leader_election job snapshot",
							le_job_snapshot_size(), &found);
	le_job_snapshot_init(found, where);
	where = ShmemInitStruct("leader_election stats", le_stats_size(),
							&found);
	le_stats_init(found, where);
	where = ShmemInitStruct("leader_election bound", le_bound_size(), &found);
	le_bound_init(found, where);
	where = ShmemInitStruct("leader_election runs", le_run_registry_size(), &found);
	le_run_registry_init(found, where);
	where = ShmemInitStruct("leader_election progress", le_progress_size(),
							&found);
	le_progress_init(found, where);
	where = ShmemInitStruct("leader_election callers", le_job_callers_size(),
							&found);
	le_job_callers_init(found, where);
	LWLockRelease(AddinShmemInitLock);
}

/*
 * Did the postmaster take our worker on?  It writes a line into the log, but
 * does not tell us, if max_worker_processes leaves no room.
 */
static bool
worker_is_registered(void)
{
	LeRegisteredIter iter;

	le_foreach_registered(iter)
	{
		const RegisteredBgWorker *registered = le_registered(iter);

		if (strcmp(registered->rw_worker.bgw_library_name,
				   "leader_election") == 0)
			return true;
	}
	return false;
}

/*
 * Without preloading there is no shared memory and no worker.  The library
 * still loads, so that CREATE EXTENSION works and the functions can name the
 * missing setting.  pg_upgrade and single-user mode must not elect anybody.
 */
void
_PG_init(void)
{
	if (IsBinaryUpgrade)
		le_claim_log_upgraded();
	if (!process_shared_preload_libraries_in_progress)
	{
		if (creating_extension && !IsBinaryUpgrade)
			le_say_not_preloaded(WARNING);
		return;
	}
	le_mistakes_given();
	le_define_settings();
	le_mistakes_taken();
	if (IsBinaryUpgrade || !IsPostmasterEnvironment)
		return;

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;
	le_bound_install();
	le_fence_install();
	le_install_statement_hooks();
	le_register_worker();
	le_worker_left_out = !worker_is_registered();
}
