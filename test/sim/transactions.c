/*-------------------------------------------------------------------------
 *
 * transactions.c
 *		Transactions bound to a term, and their invariants.
 *
 * In place of PostgreSQL's transactions: the callbacks of fence.c and xact.c,
 * newest first, as the server calls them.  Whenever a backend reads the clock,
 * the truth about all nodes and the store at that instant is noted; a check
 * that it then passes must agree.  Between the check and the commit record it
 * may wait: interruptibly, and then the term must still hold, or
 * uninterruptibly.
 *
 * test/sim/transactions.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include "access/xact.h"
#include "access/xlog.h"

#include "settings.h"
#include "sql/cancel.h"

/*
 * The worker looks each 100 ms at a commit that outlasts the drain.  It may
 * end just after a look, and the next one is late by a turn.
 */
#define DRAIN_SLACK	(LE_SEC / 5)

int			le_commit_margin = 250;
int			le_cancel_lead = 1000;
int			le_on_loss = LE_ON_LOSS_NONE;

/* ---- called by the backend's code ---- */

void
RegisterXactCallback(XactCallback callback, void *arg)
{
	Backend    *b = sim_backend;

	if (b->ncallbacks == (int) lengthof(b->callbacks))
		abort();
	b->arguments[b->ncallbacks] = arg;
	b->callbacks[b->ncallbacks++] = (SimCallback) callback;
	process_may_stop();
}

void
UnregisterXactCallback(XactCallback callback, void *arg)
{
	Backend    *b = sim_backend;
	int			i = b->ncallbacks - 1;

	while (b->callbacks[i] != (SimCallback) callback ||
		   b->arguments[i] != arg)
		i--;					/* the newest of them */
	b->ncallbacks--;
	for (; i < b->ncallbacks; i++)
	{
		b->callbacks[i] = b->callbacks[i + 1];
		b->arguments[i] = b->arguments[i + 1];
	}
}

/* There are no savepoints here. */
void
RegisterSubXactCallback(SubXactCallback callback, void *arg)
{
	(void) callback;
	(void) arg;
}

SubTransactionId
GetCurrentSubTransactionId(void)
{
	return TopSubTransactionId;
}

void
pg_re_throw(void)
{
	siglongjmp(*PG_exception_stack, 1);
}

bool
le_explain_cancel_lead(const LeTiming *timing, StringInfo detail)
{
	(void) timing;
	(void) detail;
	return true;
}

/*
 * Statements are not canceled for a term, but commits are, so that the check
 * must suffice.  The functions below note the sessions whose statement would
 * have been canceled, and whether they could know.
 */
void
le_cancel_prepare(bool cancels)
{
	(void) cancels;
}

/* Not by its deadline: each session watches that itself. */
static bool
is_to_stop(LeSlot *slot, uint64 token)
{
	return pg_atomic_read_u64(&slot->term.token) != token ||
		pg_atomic_read_u64(&slot->term.deadline) == 0 ||
		pg_atomic_read_u64(&slot->term.drain_until) != 0;
}

/* The backend reads its term. */
static void
look(Backend *b)
{
	b->knows = b->stops_for != 0 &&
		is_to_stop(le_slot(b->stops_in), b->stops_for);
}

void
le_cancel_watch(LeStop *stop)
{
	process_may_stop();
	if (!stop->cancels)
		return;
	sim_backend->stops_for = stop->token;
	sim_backend->stops_in = stop->number;
	look(sim_backend);
}

void
le_cancel_unwatch(LeStop *stop)
{
	if (sim_backend->stops_for == stop->token)
		sim_backend->stops_for = 0;
}

/* The worker nudges a backend. */
int
kill(pid_t pid, int signo)
{
	Backend    *b = &sim_node->backends[process_of_pid(pid)];

	(void) signo;
	if (!b->knows && b->stops_for != 0 &&
		pg_atomic_read_u64(&le_slot(b->stops_in)->term.token) != b->stops_for)
		sim.counts.nudges_late++;
	b->knows = true;
	sim.counts.nudges++;
	return 0;
}

void
le_cancel_excuse(LeStop *stop)
{
	(void) stop;
}

void
le_cancel_pause(void)
{
	sim_backend->looking = false;
	process_may_stop();
}

void
le_cancel_resume(void)
{
	sim_backend->looking = true;
	look(sim_backend);
}

void
le_cancel_commit(LeCommitStage stage)
{
	sim_backend->watched = stage != LE_COMMIT_NONE;
}

/* ---- the log of the server ---- */

int			wal_segment_size = 16 * 1024 * 1024;

XLogRecPtr
GetXLogInsertRecPtr(void)
{
	return 1;
}

void
XLogFlush(XLogRecPtr record)
{
	(void) record;
	process_may_stop();
	sim_backend->in_memory = false;
}

/* ---- the truth at this instant ---- */

static const char *
others_believe(const SimNode *n, int election)
{
	for (int i = 0; i < sim.nnodes; i++)
		if (sim.node[i] != n && check_believes(sim.node[i], election) &&
			!check_outside(election))
			return "another node leads";
	return NULL;
}

/* Reasons against a commit under this term. */
static const char *
objection(SimNode *n, const Backend *b, int election)
{
	LeSlot	   *slot = node_slot(n, election);
	le_time		now = clock_boot(n, sim.now);
	le_time		drained;

	if (b->left)
		return "it gave the term up itself";
	if (sim.released[election] >= b->token && !check_outside(election))
		return "the store was told of its end";
	if (slot == NULL || pg_atomic_read_u64(&slot->term.token) != b->token)
		return "it is over";
	if ((le_time) pg_atomic_read_u64(&slot->term.deadline) - now <=
		le_commit_margin * LE_MSEC)
		return "its deadline is too close";
	drained = (le_time) pg_atomic_read_u64(&slot->term.drain_until);
	if (drained != 0 && now >= drained)
		return "it was waited for long enough";
	return others_believe(n, election);
}

/* Reasons against beginning anything. */
static const char *
hindrance(SimNode *n, int election)
{
	LeSlot	   *slot = node_slot(n, election);

	if (slot == NULL || !check_believes(n, election))
		return "it does not lead";
	if (pg_atomic_read_u64(&slot->term.drain_until) != 0)
		return "the term is given up";
	return others_believe(n, election);
}

/* The backend reads the clock. */
void
transaction_looks(void)
{
	Backend    *b = sim_backend;

	b->hindered = hindrance(sim_node, b->script.election);
	b->objected = b->token == 0 ? NULL :
		objection(sim_node, b, b->script.election);
}

/* The gate let it pass. */
void
transaction_may_begin(void)
{
	if (sim_backend->hindered != NULL)
		sim_fail("b%d of n%d begins something under e%d: %s",
				 sim_backend->process.proc, sim_node->number,
				 sim_backend->script.election, sim_backend->hindered);
}

/* ---- transactions ---- */

void
transaction_bound(uint64 token)
{
	Backend    *b = sim_backend;

	if (sim_node->hasty[b->script.election] == token)
		sim_fail("e%d is given up under b%d of n%d, which has passed the gate",
				 b->script.election, b->process.proc, sim_node->number);
	sim.counts.bound++;
	b->bound = true;
	b->token = token;
	b->left = false;
	trace(sim_node, "b%d is bound to token " UINT64_FORMAT " of e%d",
		  b->process.proc, token, b->script.election);
}

static void
note_refusal(void)
{
	LeSlot	   *slot = node_slot(sim_node, sim_backend->script.election);

	sim.counts.refused_commits++;
	if (slot != NULL && pg_atomic_read_u64(&slot->term.token) ==
		sim_backend->token && pg_atomic_read_u64(&slot->term.drain_until) != 0)
		sim.counts.cut++;
}

/* Also by an error on the way to its commit. */
void
transaction_unbound(void)
{
	Backend    *b = sim_backend;

	if (b->committing)
		note_refusal();
	b->committing = b->at_commit = false;
	b->bound = b->ending = b->passed = false;
	b->reports = 0;
	b->token = 0;
}

/* Would cancel.c stop the commit now? */
static bool
is_to_be_canceled(const Backend *b)
{
	LeSlot	   *slot = node_slot(sim_node, b->script.election);
	le_time		now = clock_boot(sim_node, sim.now);
	le_time		drained;

	if (!b->looking || !b->watched || !b->bound)
		return false;
	if (slot == NULL || pg_atomic_read_u64(&slot->term.token) != b->token)
		return true;
	drained = (le_time) pg_atomic_read_u64(&slot->term.drain_until);
	return (drained != 0 && now >= drained) ||
		(le_time) pg_atomic_read_u64(&slot->term.deadline) - now <=
		le_commit_margin * LE_MSEC;
}

/* For a wait of PostgreSQL or another extension, which a cancel ends. */
static void
wait_in_commit(le_duration span)
{
	sim.counts.commit_waits++;
	process_sleep(span);
	process_may_stop();
	if (!is_to_be_canceled(sim_backend))
		return;
	sim.counts.canceled_commits++;
	ereport(ERROR,
			(errcode(LE_ERRCODE_LOST),
			 errmsg("canceling statement due to loss of the election")));
}

/* One commit in so many, by bits unused elsewhere in the script. */
static bool
commit_waits(const Backend *b, int bit)
{
	return b->bound && ((b->script.random >> bit) & 3) == 0;
}

static void
call_back(XactEvent event)
{
	Backend    *b = sim_backend;

	for (int i = b->ncallbacks - 1; i >= 0; i--)
	{
		/* another extension's callback, between the newest and that */
		if (event == XACT_EVENT_PRE_COMMIT && i == 0 && b->ncallbacks > 1 &&
			commit_waits(b, 24))
			wait_in_commit(b->script.span / 2);
		((XactCallback) b->callbacks[i]) (event, b->arguments[i]);
	}
}

/*
 * From the last check to the commit record.  After an interruptible wait the
 * term must still satisfy the check.  Then the disk may take its time,
 * uninterruptibly; only giving the term up waits for that.
 */
static void
record_commit(void)
{
	Backend    *b = sim_backend;
	const char *objection_now = NULL;

	b->passed = b->bound;
	if (commit_waits(b, 26))
	{
		wait_in_commit(b->script.span);
		objection_now = objection(sim_node, b, b->script.election);
	}
	if (objection_now != NULL)
		sim_fail("b%d of n%d has waited for long, and commits under token "
				 UINT64_FORMAT " of e%d: %s",
				 b->process.proc, sim_node->number, b->token,
				 b->script.election, objection_now);
	if (commit_waits(b, 28))
		process_sleep_deaf(b->script.span);
	b->passed = false;
}

/* The session may stay bound, for the transactions to come. */
void
transaction_commit(bool stays_bound)
{
	Backend    *b = sim_backend;

	b->objected = "it did not look";
	b->committing = b->at_commit = b->bound;
	if (b->bound)
		progress_begins();
	call_back(XACT_EVENT_PRE_COMMIT);
	if (b->bound && b->objected != NULL)
		sim_fail("b%d of n%d commits under token " UINT64_FORMAT " of e%d: %s",
				 b->process.proc, sim_node->number, b->token,
				 b->script.election, b->objected);
	record_commit();
	b->in_memory = true;		/* synchronous_commit = off */
	b->committing = false;
	if (b->bound)
		sim.counts.commits++;
	if (trace_on && b->bound)
		trace(sim_node, "b%d commits", b->process.proc);
	process_may_stop();
	b->ending = !stays_bound;
	call_back(XACT_EVENT_COMMIT);
	b->at_commit = false;
	if (b->bound)
		progress_ends(sim_node->term[b->script.election] == b->token);
	if (!stays_bound)
		transaction_unbound();
}

void
transaction_abort(void)
{
	sim_backend->ending = true;
	call_back(XACT_EVENT_ABORT);
	transaction_unbound();
}

/*
 * A term was ended in good order.  Its bound sessions were waited for, unless
 * its time was up; a session that ends its own term waits for none.
 */
void
transactions_ended(SimNode *n, int election, uint64 token)
{
	LeSlot	   *slot = node_slot(n, election);
	le_time		now = clock_boot(n, sim.now);
	le_time		deadline = node_table(n)->node.deadline;

	if (sim.model->store->key_leases)
		deadline = Min(deadline, n->deadline[election]);
	if (slot == NULL || pg_atomic_read_u64(&slot->term.given_up) == token ||
		deadline - now <= le_commit_margin * LE_MSEC)
		return;
	if (n->drained[election] == 0)
		n->hasty[election] = token;
	for (int i = 0; i < MAX_BACKENDS; i++)
	{
		const Backend *b = &n->backends[i];

		if (b->busy && b->bound && b->token == token && !b->leaving &&
			!b->ending &&
			b->script.election == election &&
			(b->passed || n->drained[election] == 0 ||
			 now < n->drained[election]))
			sim_fail("e%d is given up under b%d of n%d, whose transaction is "
					 "bound to it and was not waited for", election, i,
					 n->number);
	}
}

/*
 * A session that is to stop with a term has been told when the term is over or
 * about to end: its own clock may tell it a lease later.  One that ends the
 * term itself looks afterwards.
 */
void
transactions_told(SimNode *n, int number, LeSlot *slot)
{
	if (pg_atomic_read_u64(&slot->term.version) & 1)
		return;
	for (int i = 0; i < MAX_BACKENDS; i++)
	{
		const Backend *b = &n->backends[i];

		if (b->busy && b->stops_for != 0 && b->stops_in == number &&
			!b->knows && !b->leaving && is_to_stop(slot, b->stops_for))
			sim_fail("b%d of n%d is not told of the end of its term with "
					 "token " UINT64_FORMAT, i, n->number, b->stops_for);
	}
}

/* Is a transaction at its commit, from its check to the server's report? */
static bool
any_commits(const SimNode *n, int election)
{
	for (int i = 0; i < MAX_BACKENDS; i++)
	{
		const Backend *b = &n->backends[i];

		if (b->at_commit && b->script.election == election)
			return true;
	}
	return false;
}

/*
 * A term that is given up is over after its wait and grace, or as soon as a
 * commit that had begun is recorded or a write is settled, even with sessions
 * bound to it; the worker may have stood still.
 */
void
transactions_check_drain(SimNode *n, int election)
{
	le_time		able = Max(Max(n->began_at, n->frozen_until), n->went_on);
	le_time		now = clock_boot(n, sim.now);
	le_time		by;

	if (n->drained[election] == 0)
		return;
	if (any_commits(n, election) ||
		node_slot(n, election)->election.state != LE_DRAINING)
		n->awaits_at[election] = now;
	by = Max(Max(n->drained[election] + LE_DRAIN_GRACE,
				 n->awaits_at[election]), clock_boot(n, able)) + DRAIN_SLACK;
	if (n->running && sim.now >= able && now > by)
		sim_fail("n%d still leads e%d, which is given up, %.3f s after the "
				 "time for which it is waited for", n->number, election,
				 (now - n->drained[election]) / (double) LE_SEC);
}

/* Slots of the worker's table for terms that are to end. */
void
transactions_note_drain(SimNode *n, int election, LeSlot *slot)
{
	if (pg_atomic_read_u64(&slot->term.token) != 0)
		n->drained[election] =
			(le_time) pg_atomic_read_u64(&slot->term.drain_until);
}
