/*-------------------------------------------------------------------------
 *
 * process.c
 *		Backends that run the extension's own code.
 *
 * Like a worker, such a backend runs on a stack of its own; it stops where it
 * sleeps, where it waits for an answer, and, by chance, wherever it reads a
 * clock.  It starts with its first script (scripts.c) and keeps its session
 * until the backend exits.
 *
 * test/sim/process.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include "sql/arguments.h"
#include "sql/fence.h"
#include "sql/jobs.h"

Backend    *sim_backend = NULL;

/* ---- life ---- */

static void
main_of_process(void)
{
	Backend    *b = sim_backend;
	sigjmp_buf	local;

	PG_exception_stack = &local;
	if (sigsetjmp(local, 0) == 0)
	{
		if (b->ncallbacks == 0)
			le_fence_install();
		script_run(&b->script);
	}
	else
	{
		trace(sim_node, "b%d: error, %s", b->process.proc,
			  b->sqlstate == LE_ERRCODE_NOT_LEADER ? "not leader" :
			  b->sqlstate == LE_ERRCODE_LOST ? "lost" : "other");
		PG_exception_stack = NULL;
		b->acting = 0;			/* with any outcome of its transaction */
		transaction_abort();
	}
	PG_exception_stack = NULL;
	le_park_claims();			/* as le_run() at its end */
	b->busy = false;
	b->acting = 0;
	if (b->goes)
		backend_exit(sim_node, b->process.proc);
}

/* Continues, unless it was woken since. */
void
process_run(SimNode *n, int proc, uint32 stamp)
{
	Backend    *b = &n->backends[proc];

	if (!b->busy || b->stamp != stamp)
		return;
	if (sim.now < n->wakes_at)
	{
		network_at(n->wakes_at, AT_BACKEND,
				   n->number * PROCS + proc, stamp);
		return;
	}
	node_enter_process(n, &b->process);
	sim_backend = b;
	coroutine_resume(b->coroutine);
	sim_backend = NULL;
}

static void
run_at(SimNode *n, int proc, le_time at)
{
	network_at(at, AT_BACKEND, n->number * PROCS + proc,
			   ++n->backends[proc].stamp);
}

/* It must not be busy. */
void
process_start(SimNode *n, int proc, const Script *script)
{
	Backend    *b = &n->backends[proc];

	if (b->coroutine == NULL)
		b->coroutine = coroutine_new(main_of_process);
	if (!b->begun)
	{
		coroutine_reset(b->coroutine);
		b->process.proc = proc;
		node_begin_process(n, &b->process);
		b->begun = true;
		b->ncallbacks = 0;
	}
	b->script = *script;
	b->busy = true;
	b->awaits = b->stopped = b->canceled = b->goes = false;
	b->acting = 0;
	b->bound = b->leaving = b->left = b->committing = b->ending = false;
	b->passed = b->watched = b->in_memory = false;
	b->reports = 0;
	b->token = b->stops_for = 0;
	run_at(n, proc, sim.now + script->delay);
}

/* It ends, wherever it stood. */
void
process_end(SimNode *n, int proc)
{
	Backend    *b = &n->backends[proc];

	progress_cut_off(n, b);
	b->stops_for = 0;
	b->begun = b->busy = b->awaits = b->stopped = false;
	b->acting = 0;
	b->reports = 0;
}

/* ---- waiting ---- */

static void
wait_to_go_on(void)
{
	SimNode    *n = sim_node;
	Backend    *b = sim_backend;

	coroutine_yield();
	Assert(sim_node == n && sim_backend == b);
	(void) n;
	(void) b;
}

static void
check_for_interrupts(void)
{
	if (!sim_backend->canceled)
		return;
	sim_backend->canceled = false;
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("canceling statement due to user request")));
}

/* The event that the backend waits for. */
void
process_wake(SimNode *n, int proc)
{
	if (!n->backends[proc].stopped)
		run_at(n, proc, sim.now + sim_span(20 * LE_MSEC / 1000, LE_MSEC));
}

/* An answer, a cancel or the end of a sleep continues it here. */
void
process_sleep(le_duration span)
{
	SimNode    *n = sim_node;

	run_at(n, sim_backend->process.proc, sim.now + span);
	wait_to_go_on();
	check_for_interrupts();
}

/* The same, but deaf to all events. */
void
process_sleep_deaf(le_duration span)
{
	Backend    *b = sim_backend;

	b->stopped = true;
	run_at(sim_node, b->process.proc, sim.now + span);
	wait_to_go_on();
	b->stopped = false;
}

void
process_cancel(SimNode *n, int proc)
{
	Backend    *b = &n->backends[proc];

	if (!b->busy || b->canceled)
		return;
	b->canceled = true;
	process_wake(n, proc);
}

/* SIGSTOP; only its end wakes it up. */
void
process_may_stop(void)
{
	Backend    *b = sim_backend;

	if (!sim_chance(sim.schedule->weather.backend_pause))
		return;
	sim.counts.backend_pauses++;
	b->stopped = true;
	run_at(sim_node, b->process.proc,
		   sim.now + sim_span(LE_MSEC, 25 * LE_SEC));
	trace(sim_node, "b%d stops in the middle", b->process.proc);
	wait_to_go_on();
	b->stopped = false;
}

/* ---- questions to the worker, as requests.c ---- */

/* Used by le_cancel_pause() and the like: a cancel may have come first. */
static void
withdraw(void)
{
	backend_cancel(sim_node, sim_backend->process.proc);
}

static void
post(LeAsk *ask)
{
	Backend    *b = sim_backend;

	if (ask->kind == LE_ASK_COMPLETE && ask->ending == LE_CLAIM_DONE &&
		b->in_memory)
		sim_fail("b%d of n%d marks a tick of %s as done, whose work a crash "
				 "would undo", b->process.proc, sim_node->number, ask->job);
	b->ask = *ask;
	backend_post(sim_node, b);
	if (ask->kind == LE_ASK_CLAIM)
		claim_asked(ask);
	process_may_stop();
}

static void
take_reply(LeReply *reply)
{
	Backend    *b = sim_backend;

	*reply = b->reply;
	if (b->ask.kind == LE_ASK_ACQUIRE && reply->fresh)
		le_keep_term(b->ask.election, reply->token);
	b->state = ASK_FREE;
	claim_told(&b->ask, reply);
}

void
le_ask(LeAsk *ask, LeReply *reply)
{
	Backend    *b = sim_backend;

	post(ask);
	while (b->state != ASK_ANSWERED)
	{
		b->awaits = true;
		wait_to_go_on();
		b->awaits = false;
		if (b->canceled)
		{
			withdraw();
			check_for_interrupts();
		}
	}
	take_reply(reply);
}

bool
le_tell(LeAsk *ask, LeReply *reply, le_duration patience)
{
	Backend    *b = sim_backend;
	le_time		until = le_now() + patience;

	post(ask);
	while (b->state != ASK_ANSWERED)
	{
		if (le_now() >= until ||
			(b->canceled && b->state != ASK_POSTED))
		{
			withdraw();
			return false;
		}
		b->awaits = true;
		run_at(sim_node, b->process.proc, sim.now + LE_SEC / 5);
		wait_to_go_on();
		b->awaits = false;
	}
	take_reply(reply);
	return true;
}
