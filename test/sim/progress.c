/*-------------------------------------------------------------------------
 *
 * progress.c
 *		Terms that need progress, and their invariants.
 *
 * In schedules with progress_within each node has a scheduler, which reports
 * progress three times in that time; or, while it is dead, only checks whether
 * it leads.  Work under the gate and jobs count as well.  This file derives
 * from the backends' actions until when a term may last, and for how long a
 * node without progress has to stay away.
 *
 * test/sim/progress.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include "settings.h"
#include "shmem/progress.h"
#include "sql/arguments.h"

int			le_progress_within = 0;

#define LIMIT	(le_progress_within * LE_SEC)

/* ---- actions of backends ---- */

/* From here on it may have been noted, at any instant ... */
void
progress_begins(void)
{
	sim_backend->reports = sim_backend->script.election + 1;
	sim_backend->reports_since = clock_boot(sim_node, sim.now);
}

/* ... up to this one, if it was the same term all the time. */
void
progress_ends(bool made)
{
	Backend    *b = sim_backend;
	int			e = b->script.election;

	b->reports = 0;
	if (!made || b->reports_since <= sim_node->began[e] ||
		sim_node->term[e] == 0)
		return;
	sim_node->progress[e] = clock_boot(sim_node, sim.now);
	sim_node->made[e] = true;
	sim.counts.progress++;
}

/* A backend has ended before it could report: perhaps it was noted. */
void
progress_cut_off(SimNode *n, const Backend *b)
{
	if (b->reports == 0)
		return;
	n->progress[b->reports - 1] = clock_boot(n, sim.now);
	n->unsure[b->reports - 1] = true;
}

/* As le_progress(). */
void
progress_report(const char *election)
{
	if (le_progress_within == 0)
		return;
	progress_begins();
	progress_ends(le_make_progress(election));
}

/* The scheduler's action when it is due. */
void
do_cron(Script *s)
{
	LeTerm		term;

	for (int e = 0; e < sim.nelections; e++)
	{
		s->election = e;
		if (s->random != 0)
			(void) le_may_begin(name_of_election(e), &term);
		else
			progress_report(name_of_election(e));
	}
}

/* Its next time has come.  It is late if the last action still runs. */
void
cron_fires(SimNode *n)
{
	Script		script = {.what = HAPPEN_CRON_STOPS};

	network_at(sim.now + LIMIT / 3, AT_CRON, n->number, 0);
	if (!n->up || n->backends[CRON_PROC].busy || sim.now < n->wakes_at)
		return;
	script.random = sim.storm && sim.now < n->cron_until;
	process_start(n, CRON_PROC, &script);
}

/* ---- invariants ---- */

static bool
any_reports(const SimNode *n, int election)
{
	for (int i = 0; i < PROCS; i++)
		if (n->backends[i].busy && n->backends[i].reports == election + 1)
			return true;
	return false;
}

/* The operator's request outranks the node's reaction to it. */
void
progress_meddled(SimNode *n)
{
	memset(n->idle_until, 0, sizeof(n->idle_until));
	memset(n->idled_known, 0, sizeof(n->idled_known));
	memset(n->meddled, true, sizeof(n->meddled));
}

/* Shared memory is new. */
void
progress_forgotten(SimNode *n)
{
	memset(n->idle_until, 0, sizeof(n->idle_until));
	memset(n->idled, 0, sizeof(n->idled));
	memset(n->ended_token, 0, sizeof(n->ended_token));
	memset(n->ends, false, sizeof(n->ends));
	memset(n->idled_known, true, sizeof(n->idled_known));
}

void
progress_term_begins(SimNode *n, int election)
{
	le_time		now = clock_boot(n, sim.now);

	n->began[election] = n->progress[election] = now;
	n->made[election] = n->meddled[election] = n->unsure[election] = false;

	/* a term that began and ended within a turn was not seen */
	if (n->ends[election] ||
		node_slot(n, election)->ended_token != n->ended_token[election])
		n->idled_known[election] = n->ends[election] = false;
	if (now < n->idle_until[election])
		sim_fail("n%d leads e%d again, %.3f s too early: it was of no use",
				 n->number, election,
				 (n->idle_until[election] - now) / (double) LE_SEC);
}

/* The length of its hold-off, where it can be derived here. */
static void
check_idles(SimNode *n, int election, le_duration idled)
{
	le_duration expected = LIMIT;

	if (!n->made[election])
		expected = le_next_hold_off(LIMIT, n->idled[election]);
	if ((n->made[election] || n->idled_known[election]) &&
		!n->unsure[election] && !any_reports(n, election) &&
		idled != expected)
		sim_fail("n%d stays away from e%d for %.3f s, not %.3f s", n->number,
				 election, idled / (double) LE_SEC,
				 expected / (double) LE_SEC);
}

void
progress_term_ends(SimNode *n, int election, LeSlot *slot)
{
	LeProgress *p = node_progress(n, slot);

	if (le_progress_within == 0)
		return;
	/* a worker that stopped in the middle has not ended the term yet */
	n->ends[election] = pg_atomic_read_u64(&slot->term.token) != 0;
	if (n->ends[election])
		return;
	if (p->useless != 0)
		sim.counts.useless++;
	if (p->useless != 0 && !n->meddled[election])
	{
		check_idles(n, election, p->idled);
		n->idle_until[election] = clock_boot(n, sim.now) + p->idled;
	}
	n->idled[election] = p->idled;
	n->idled_known[election] = !n->meddled[election];
	n->ended_token[election] = slot->ended_token;
}

/* The rounding of a sleep, and the length of a turn. */
#define PUNCTUAL	(10 * LE_MSEC)

/* Is a session bound to the term, or about to be? */
static bool
any_bound(const SimNode *n, int election)
{
	for (int i = 0; i < MAX_BACKENDS; i++)
		if (n->backends[i].busy &&
			n->backends[i].script.election == election)
			return true;
	return false;
}

/*
 * A node without progress holds no term for longer than progress_within and
 * one round, if its worker runs, or one round after it resumes; by then
 * sessions bound to it know that it is given up, and it ends with the last of
 * them.
 */
static void
check_punctual(SimNode *n, int election)
{
	le_duration round = node_table(n)->node.timing.renew_interval + PUNCTUAL;
	le_time		now = clock_boot(n, sim.now);
	le_time		able = Max(n->began_at, n->frozen_until);
	le_time		due;

	if (sim.now < able)
		return;
	due = Max(n->progress[election] + LIMIT, clock_boot(n, able));
	if (now <= due)
		return;
	if (any_bound(n, election))
		n->bound_at[election] = now;
	if (!n->running || n->stopping || now <= due + round ||
		any_reports(n, election))
		return;
	if (n->drained[election] == 0)
		sim_fail("n%d has not begun to give up e%d, %.3f s after it made "
				 "progress last", n->number, election,
				 (now - n->progress[election]) / (double) LE_SEC);
	else if (now > n->bound_at[election] + round)
		sim_fail("n%d leads e%d, to which nobody is bound, %.3f s after it made "
				 "progress last", n->number, election,
				 (now - n->progress[election]) / (double) LE_SEC);
}

/*
 * In any case no longer than progress_within, plus the wait for the term's
 * sessions (a commit that has begun extends it), plus a lease: a stopped
 * worker has not renewed it since.  A worker that was stopped earlier has
 * noticed nothing until it resumed.
 */
void
progress_check(SimNode *n, int election)
{
	le_time		now = clock_boot(n, sim.now);
	le_time		since = Max(n->progress[election],
							clock_boot(n, n->went_on));
	le_time		given_up;

	if (le_progress_within == 0 ||
		le_owner_of(node_slot(n, election)) != LE_OWNER_NODE)
		return;
	check_punctual(n, election);
	if (any_reports(n, election))
		n->commit_at[election] = now;
	given_up = Max(since + LIMIT + le_drain_timeout * LE_MSEC + LE_DRAIN_GRACE,
				   n->commit_at[election]);
	if (now > given_up +
		Max(node_table(n)->node.timing.lease, n->lease_ms * LE_MSEC))
		sim_fail("n%d leads e%d, %.3f s after it made progress last",
				 n->number, election,
				 (now - n->progress[election]) / (double) LE_SEC);
}
