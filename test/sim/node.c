/*-------------------------------------------------------------------------
 *
 * node.c
 *		Instances, their shared memory, and the life of their workers.
 *
 * Each worker has its LeWorker, as in PostgreSQL.  Pointers are set when the
 * turn of another node comes: to its shared memory, which a new process finds
 * as its predecessor left it, and to the process's own copies.
 *
 * test/sim/node.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include <signal.h>

#include "postmaster/interrupt.h"
#include "utils/memutils.h"

#include "settings.h"
#include "shmem/bound.h"
#include "shmem/progress.h"
#include "shmem/run_registry.h"
#include "worker/wire/lanes.h"
#include "worker/worker.h"

/* Memory for the shared part of bound.c, run_registry.c and progress.c. */
#define BOUND_AT	MAXALIGN(le_leases_size())
#define RUNS_AT		(BOUND_AT + MAXALIGN(le_bound_size()))
#define PROGRESS_AT	(RUNS_AT + MAXALIGN(le_run_registry_size()))

SimNode    *sim_node = NULL;

/* The extension's code sees this node's shared memory, and is this process. */
static SimNode *attached = NULL;
static SimProcess *live = NULL;

/* Time of a turn, and the limit of turns in a second. */
#define TURN		(50 * LE_MSEC / 1000)
#define MAX_TURNS	4000

/*
 * Few elections would never fill a window made for thousands, nor list the
 * keys first: every fourth schedule makes them.
 */
static void
narrow_lanes(SimNode *n)
{
	if (sim.schedule->seed % 4 != 3)
		return;
	n->lane_windows[LE_LANE_RELEASE] = n->lane_windows[LE_LANE_ASKED] =
		n->lane_windows[LE_LANE_CAMPAIGN] = 1;
	n->limits.list_from = 0;
	n->limits.slots_at_once = 1;
}

/*
 * Few elections would never make nodes rely on each other's news: two of three
 * schedules make them, and in half of these the first node publishes none yet.
 * Nor would news ever overflow.
 */
static void
force_news(SimNode *n)
{
	uint64		kind = sim.schedule->seed / 6 % 6;

	if (kind < 2 || (kind % 2 == 1 && n->number == 0))
		return;
	n->limits.gossip_from = 0;
	if (kind > 3)
		n->limits.gossip_capacity = 1;
}

static void
worker_process(void)
{
	SimNode    *n = sim_node;

	n->limits = le_usual_limits;
	memcpy(n->lane_windows, le_lane_windows, sizeof(n->lane_windows));
	n->limits.lane_windows = n->lane_windows;
	narrow_lanes(n);
	force_news(n);
	le_worker_main(PointerGetDatum(&n->limits));
}

static SimNode *
node_new(int number)
{
	SimNode    *n = aligned_alloc(PG_CACHE_LINE_SIZE,
								  TYPEALIGN(PG_CACHE_LINE_SIZE,
											sizeof(SimNode)));

	memset(n, 0, sizeof(*n));
	if (number == 0)
		le_bound_install();
	n->number = number;
	n->shmem = calloc(1, PROGRESS_AT + le_progress_size());
	n->worker = coroutine_new(worker_process);
	return n;
}

/* Makes this node's shared memory that of the extension's code. */
static void
attach(SimNode *n, bool found)
{
	attached = sim_node = n;
	le_leases_init(found, n->shmem);
	le_bound_init(found, n->shmem + BOUND_AT);
	le_run_registry_init(found, n->shmem + RUNS_AT);
	le_progress_init(found, n->shmem + PROGRESS_AT);
}

/* From here on the extension's code means this process of this node. */
void
node_enter_process(SimNode *n, SimProcess *p)
{
	if (attached != n)
		attach(n, true);
	sim_node = n;
	ShutdownRequestPending = n->terminated;
	if (live == p)
		return;
	if (live != NULL)
	{
		live->context = (struct SimContext *) CurrentMemoryContext;
		live->exceptions = PG_exception_stack;
	}
	live = p;
	le_process = &p->own;
	le_session = &p->session;
	PG_exception_stack = p->exceptions;
	TopMemoryContext = (MemoryContext) p->top;
	CurrentMemoryContext = (MemoryContext) p->context;
	process_has_proc(p->proc);
	le_lease_ttl = n->lease_ms;
	le_safety_margin = n->margin_ms;
}

/* The same, for a new process. */
void
node_begin_process(SimNode *n, SimProcess *p)
{
	memset(&p->own, 0, sizeof(p->own));
	memset(&p->session, 0, sizeof(p->session));
	p->top = p->context = memory_new();
	p->exceptions = NULL;
	if (live == p)
		live = NULL;
	node_enter_process(n, p);
}

/* The worker's. */
void
node_enter(SimNode *n)
{
	node_enter_process(n, &n->main);
}

LeTable *
node_table(const SimNode *n)
{
	return (LeTable *) n->shmem;
}

LeSlot *
node_find_slot(SimNode *n, int election)
{
	LeTable    *t = node_table(n);

	for (int i = 0; i < t->nused; i++)
	{
		LeSlot	   *slot = le_slot_of(t, i);

		if (slot->name[0] != '\0' && election_of_name(slot->name) == election)
			return n->slots[election] = slot;
	}
	return NULL;
}

LeProgress *
node_progress(SimNode *n, const LeSlot *slot)
{
	Size		offset = (const char *) slot -
		(const char *) le_slot_of(node_table(n), 0);

	return (LeProgress *) (n->shmem + PROGRESS_AT) + offset / LE_SLOT_SIZE;
}

/* ---- times of its turns ---- */

/* The worker has gone to sleep: the time of its wake-up. */
void
node_plan(SimNode *n)
{
	le_time		at = NEVER;

	if (n->latch)
		at = sim.now;
	else if (n->sleeps_until != 0)
		at = clock_mono_inverse(n, n->sleeps_until);
	at = Max(at, sim.now + TURN);
	n->run_at = Max(at, n->frozen_until);
}

void
node_wake(SimNode *n)
{
	n->latch = true;
	if (n->running)
		n->run_at = Max(sim.now + TURN, n->frozen_until);
}

/* The clock reading at which it happens next. */
static int64
draw_reading(int per_million)
{
	if (per_million == 0)
		return PG_INT64_MAX;
	if (exhaustive)
		return 0;				/* at each, it may */
	return sim.readings + 1 +
		(int64) sim_below(2 * INT64CONST(1000000) / per_million);
}

static void
expect_fate(int64 pause_at, int64 kill_at)
{
	sim.pause_at = pause_at;
	sim.kill_at = kill_at;
	sim.fate_at = Min(pause_at, kill_at);
}

/*
 * The worker has just sent the proof of an ambush.  The store answers, but the
 * worker is stopped, and no later request arrives: this shows from when on it
 * counts its trust.
 */
void
node_ambush(void)
{
	SimNode    *n = sim_node;

	if (n->ambush == 0 || !sim.exposed)
		return;
	n->frozen_until = n->run_at = sim.now + n->ambush;
	n->cut_gateway = -1;
	n->cut_from = sim.now + 20 * LE_MSEC;
	n->cut_until = n->frozen_until + 2 * n->lease_ms * LE_MSEC;
	n->ambush = 0;
	trace(n, "stops with its proof on its way for %.3f s",
		  (n->run_at - sim.now) / (double) LE_SEC);
	coroutine_yield();
}

/* A worker stops, or dies, between two of its instructions. */
pg_noinline void
node_meets_fate(void)
{
	const Weather *w = &sim.schedule->weather;

	if (exhaustive ? sim_chance(w->pause) : sim.readings >= sim.pause_at)
	{
		/* this reading does not count for the other kind */
		expect_fate(draw_reading(w->pause),
					sim.kill_at + (sim.kill_at != PG_INT64_MAX));
		sim.counts.pauses++;
		sim_node->frozen_until = sim.now +
			sim_span(LE_MSEC, exhaustive ? 7 * LE_SEC : 25 * LE_SEC);
		sim_node->run_at = sim_node->frozen_until;
		trace(sim_node, "stops in the middle for %.3f s",
			  (sim_node->run_at - sim.now) / (double) LE_SEC);
		if (!exhaustive && sim_below(2) == 0)
		{
			/* its request gets an answer, then it is cut off */
			sim_node->cut_gateway = -1;
			sim_node->cut_from = sim.now + 20 * LE_MSEC;
			sim_node->cut_until = sim_node->frozen_until +
				sim_span(0, 20 * LE_SEC);
		}
		coroutine_yield();
	}
	else if (exhaustive ? sim_chance(w->kill) : sim.readings >= sim.kill_at)
	{
		expect_fate(sim.pause_at, draw_reading(w->kill));
		node_kill_worker(sim_node);
		for (;;)
			coroutine_yield();
	}
}

void
node_run(SimNode *n)
{
	if (sim.now - n->turns_since > LE_SEC)
	{
		n->turns_since = sim.now;
		n->turns = 0;
	}
	if (++n->turns > MAX_TURNS)
		sim_fail("n%d runs in a tight loop", n->number);
	if (n->frozen_until <= sim.now)
		n->went_on = Max(n->went_on, n->frozen_until);
	node_enter(n);
	sim.exposed = sim.storm;
	coroutine_resume(n->worker);
	sim.exposed = false;
	check_terms(n);
}

/* ---- life and death ---- */

void
node_start_worker(SimNode *n)
{
	node_begin_process(n, &n->main);
	coroutine_reset(n->worker);
	n->running = true;
	n->latch = true;
	n->reload = false;
	n->on_exit = NULL;
	n->on_sigterm = NULL;
	n->terminated = false;
	n->run_at = n->began_at = Max(sim.now, n->frozen_until);
	trace(n, "worker starts");
}

/* The postmaster starts another worker; on_exit callbacks do not run. */
void
node_kill_worker(SimNode *n)
{
	if (!n->running)
		return;
	trace(n, "worker is killed");
	sim.counts.kills++;
	network_forget(n);
	n->running = false;
	n->run_at = NEVER;
	n->frozen_until = 0;
	if (n->stopping)
		node_stop(n);
	else
		network_at(sim.now + LE_SEC, AT_WORKER, n->number, n->process);
}

/* SIGTERM; a process without a handler dies of it. */
void
node_signal(SimNode *n)
{
	if (!n->running)
		return;
	if (n->on_sigterm == NULL)
	{
		node_kill_worker(n);
		return;
	}
	node_enter(n);
	n->on_sigterm(SIGTERM);
	node_wake(n);
}

void
node_reload(SimNode *n)
{
	n->reload = true;
	if (n->running)
		node_wake(n);
}

/* A new incarnation: shared memory begins anew, files do not. */
void
node_start(SimNode *n)
{
	n->incarnation = ++sim.incarnations;
	attach(n, false);
	node_enter(n);
	progress_forgotten(n);
	backends_reset(n);
	memset(n->slots, 0, sizeof(n->slots));	/* the table is new */
	n->look++;
	n->nodes_version = 0;
	n->gone = false;
	n->up = true;
	n->stopping = false;
	n->frozen_until = 0;
	node_start_worker(n);
}

/* The instance ends, in any way, and its beliefs with it. */
void
node_stop(SimNode *n)
{
	network_forget(n);
	n->up = n->running = n->stopping = false;
	n->run_at = NEVER;
	for (int i = 0; i < PROCS; i++)
		process_end(n, i);
	for (int e = 0; e < MAX_ELECTIONS; e++)
		n->term[e] = 0;
}

static void
node_reset(SimNode *n, const Schedule *s)
{
	int			i = n->number;
	SimNode		clean;

	memset(&clean, 0, offsetof(SimNode, flights));
	clean.number = i;
	clean.worker = n->worker;
	clean.shmem = n->shmem;
	clean.run_at = NEVER;
	clean.lease_ms = s->lease_ms[i];
	clean.margin_ms = s->margin_ms[i];
	clean.takeover = s->takeover[i];
	clean.campaigns = s->campaigns[i];
	clock_start(&clean, s->ppm[i]);
	memcpy(n, &clean, offsetof(SimNode, flights));
	for (int k = 0; k < PROCS; k++)
		n->backends[k].number = 0;
}

void
nodes_reset(const Schedule *s)
{
	sim_node = attached = NULL;
	live = NULL;
	sim.incarnations = sim.attempts = 0;
	sim.readings = 0;
	sim.pause_at = draw_reading(s->weather.pause);
	expect_fate(sim.pause_at, draw_reading(s->weather.kill));
	if (s->kill_at != 0)
		expect_fate(sim.pause_at, s->kill_at);
	for (int i = 0; i < s->nnodes; i++)
	{
		if (sim.node[i] == NULL)
			sim.node[i] = node_new(i);
		node_reset(sim.node[i], s);
	}
}
