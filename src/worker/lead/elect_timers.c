/*-------------------------------------------------------------------------
 *
 * elect_timers.c
 *		Elections in time: timers, sweeps, and sessions that begin or end.
 *
 * src/worker/lead/elect_timers.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "utils/memutils.h"

#include "settings.h"
#include "shmem/bound.h"
#include "shmem/clock.h"
#include "shmem/progress.h"
#include "worker/base/trace.h"
#include "worker/disk/tokens.h"
#include "worker/lead/candidacy.h"
#include "worker/lead/elect.h"
#include "worker/lead/elect_all.h"
#include "worker/lead/elect_timers.h"
#include "worker/lead/grants.h"
#include "worker/lead/pending.h"
#include "worker/lead/roster.h"
#include "worker/view/cache.h"
#include "worker/view/clones.h"
#include "worker/view/eligible.h"
#include "worker/view/key_view.h"
#include "worker/view/sweep.h"

/* Interval of looks at a draining term, in case no backend reports its end. */
#define DRAIN_POLL		(100 * LE_MSEC)

/* Pause between attempts to keep tokens on disk after a failure. */
#define TOKENS_PAUSE	(5 * LE_SEC)

struct LeElectTimers
{
	LeSweep		seeking;
	LeSweep		rechecking;
	LeSweep		looking;
	le_time		tokens_try_at;
	bool		tokens_kept;	/* when that was last looked at */
};

static void seek_election(LeWorker *w, int number);
static void recheck_election(LeWorker *w, int number);
static void look_at_election(LeWorker *w, int number);

LeElectTimers *
le_elect_timers_new(void)
{
	LeElectTimers *timers = MemoryContextAllocZero(TopMemoryContext,
												   sizeof(LeElectTimers));

	timers->seeking.look = seek_election;
	timers->rechecking.look = recheck_election;
	timers->looking.look = look_at_election;
	timers->tokens_kept = true;
	return timers;
}

/* ---- tokens ---- */

/*
 * A term that was to begin, or le_accept_store(), may have found that tokens
 * can be kept again: candidacies that stopped for it resume.
 */
static void
note_tokens(LeWorker *w)
{
	bool		kept = le_tokens_trouble(w->tokens)[0] == '\0';

	if (kept == w->elect_timers->tokens_kept)
		return;
	w->elect_timers->tokens_kept = kept;
	le_set_trouble(LE_TROUBLE_TOKENS, le_tokens_trouble(w->tokens));
	if (kept)
		le_elect_refresh(w);
	le_tell_fitness(w);
}

/* Can tokens be kept on disk?  After a failure, try again. */
bool
le_elect_can_begin(LeWorker *w)
{
	if (le_tokens_trouble(w->tokens)[0] != '\0')
	{
		w->elect_timers->tokens_try_at = le_now() + TOKENS_PAUSE;
		if (!le_tokens_try(w->tokens))
			le_set_trouble(LE_TROUBLE_TOKENS, le_tokens_trouble(w->tokens));
	}
	note_tokens(w);
	return le_tokens_trouble(w->tokens)[0] == '\0';
}

/* ---- timers ---- */

/*
 * It is time to look again at the key of an awaited election.  If the watch
 * has shown it lately, only its index matters and no read is needed, so the
 * keys of a node that went need no read each.  Read it after a failure, or if
 * a read has shown another state since.
 */
static void
look_at_key_again(LeWorker *w, LeSlot *slot)
{
	LeInput		input = {.kind = LE_IN_SEEN};
	const LeKey *key = le_cache_key(w->cache, slot->name);
	LeKeyView	view;
	uint64		as_of;

	slot->election.timer_at = 0;
	if (slot->election.failures > 0 || slot->election.tries > 0 ||
		!le_cache_lately(w->cache, le_table->node.timing.lease, &as_of) ||
		slot->holder.index != (key == NULL ? 0 : key->index))
	{
		le_elect_feed(w, slot, LE_IN_TIMER);
		return;
	}
	le_make_view(w, &view, key, key == NULL ? as_of : Max(as_of, key->index));
	input.view = &view;
	le_elect_input(w, slot, &input);
}

/*
 * A node whose jobs do not run, or hang, would renew its terms forever.
 * Another node is to have the election.
 */
static void
give_up_useless(LeWorker *w, LeSlot *slot)
{
	int			number = le_slot_number(slot);

	le_progress_of(number)->useless = le_progress_limit(number);
	le_elect_give_up(w, slot);
}

/*
 * The drain time is over, but a commit may have passed its check already: it
 * would be recorded under the next leader.  Wait for it: it is canceled where
 * possible, so only the disk, or another wait without interrupts, prolongs
 * this.
 */
static bool
commit_outlasts_drain(const LeSlot *slot)
{
	return slot->election.state == LE_DRAINING &&
		le_bound_commit_under_way(le_slot_number(slot),
								  slot->election.token);
}

static void
run_slot_timer(LeWorker *w, int i, le_time now)
{
	LeSlot	   *slot = le_slot(i);
	LeElection *e = &slot->election;
	le_time		progress_due;

	if (e->deadline != 0 && now >= e->deadline)
	{
		le_elect_feed(w, slot, LE_IN_EXPIRED);
		le_elect_advance(w, slot);
	}
	if (e->timer_at != 0 && now >= e->timer_at)
	{
		bool		outlasted = commit_outlasts_drain(slot);

		if (outlasted)
			e->timer_at = now + DRAIN_POLL;
		else if (e->state == LE_WAITING)
			e->timer_at = 0;	/* le_elect_node_live() asks again */
		le_roster_update(w->roster, slot);
		if (outlasted)
			le_elect_advance(w, slot);
		else if (e->state != LE_WAITING)
			le_elect_feed(w, slot, LE_IN_TIMER);
		else if (le_session_live())
			look_at_key_again(w, slot);
	}
	progress_due = le_progress_due(i);
	if (progress_due != 0 && now >= progress_due)
		give_up_useless(w, slot);
	le_roster_update(w->roster, slot);
}

static int
compare_numbers(const void *a, const void *b)
{
	return *(const int *) a - *(const int *) b;
}

/* In the order of their slots, each once in a turn. */
static void
run_slot_timers(LeWorker *w, le_time now)
{
	int		   *due;
	int			n = 0;

	if (le_roster_timer(w->roster) == 0 || le_roster_timer(w->roster) > now)
		return;
	due = palloc(le_table->nused * sizeof(int));
	while ((due[n] = le_roster_take_due(w->roster, now)) >= 0)
		if (++n == le_table->nused)
			break;
	qsort(due, n, sizeof(int), compare_numbers);
	for (int k = 0; k < n; k++)
		run_slot_timer(w, due[k], now);
	pfree(due);
}

static void
end_hold_offs(LeWorker *w, le_time now)
{
	if (!w->candidacies->any_pause)
		return;
	w->candidacies->any_pause = false;
	for (int i = 0; i < le_table->nused; i++)
	{
		LeSlot	   *slot = le_slot(i);

		if (slot->hold_off_until > now || slot->campaign_after > now)
			w->candidacies->any_pause = true;
		if (slot->hold_off_until != 0 && now >= slot->hold_off_until)
			slot->hold_off_until = 0;
		else if (slot->campaign_after != 0 && now >= slot->campaign_after)
			slot->campaign_after = 0;
		else
			continue;
		le_elect_advance(w, slot);
	}
}

void
le_elect_run_timers(LeWorker *w)
{
	le_time		now = le_now();
	char		why[256];
	int			sqlstate;

	if (now >= w->elect_timers->tokens_try_at)
		(void) le_elect_can_begin(w);
	note_tokens(w);
	/* A promotion comes without a message. */
	if (w->candidacies->may_lead != le_may_lead(why, sizeof(why), &sqlstate) ||
		le_clones_clear_now())
		le_elect_refresh(w);
	if (w->candidacies->list_by != 0 && now >= w->candidacies->list_by)
		le_elect_listed(w);
	run_slot_timers(w, now);
	end_hold_offs(w, now);
	le_foreach_slot(i, &w->roster->draining)
		le_elect_advance(w, le_slot(i));
}

le_time
le_elect_timer(LeWorker *w)
{
	LeElectTimers *elect_timers = w->elect_timers;
	le_time		next = le_earliest(w->candidacies->list_by,
								   le_table->unclear_until);

	le_roster_check(w->roster);
	if (elect_timers->seeking.under_way ||
		elect_timers->rechecking.under_way || elect_timers->looking.under_way)
		return le_now();

	if (le_tokens_trouble(w->tokens)[0] != '\0')
		next = le_earliest(next, elect_timers->tokens_try_at);
	next = le_earliest(next, le_roster_timer(w->roster));
	if (w->roster->draining.n > 0)
		next = le_earliest(next, le_now() + DRAIN_POLL);
	for (int i = 0; w->candidacies->any_pause && i < le_table->nused; i++)
	{
		next = le_earliest(next, le_slot(i)->hold_off_until);
		next = le_earliest(next, le_slot(i)->campaign_after);
	}
	/*
	 * Nobody tells a worker that its standby was promoted.  With the store
	 * "local" no tick up to when it is seen is claimed.
	 */
	if (RecoveryInProgress() &&
		(!le_configured_store()->between_instances ||
		 (w->roster->candidates.n > 0 && !w->candidacies->may_lead)))
		next = le_earliest(next, le_now() + LE_SEC);
	return next;
}

/* ---- sweeps ---- */

static void
seek_election(LeWorker *w, int number)
{
	LeSlot	   *slot = le_slot(number);

	le_elect_advance(w, slot);
	if (slot->election.state == LE_WAITING && !le_awaits_list(w, slot))
		le_elect_feed(w, slot, LE_IN_WANT);
}

/*
 * The session can carry terms now: all candidates that waited for it go ahead.
 * Many candidacies wait until the list of keys has shown the free ones.
 */
void
le_elect_node_live(LeWorker *w)
{
	LeElectTimers *elect_timers = w->elect_timers;

	le_pending_session_live(w);
	w->candidacies->list_by = 0;
	if (w->roster->candidates.n > w->limits->list_from &&
		le_configured_store()->watch.kind == LE_WATCH_ALL)
		w->candidacies->list_by = le_now() +
			le_table->node.timing.request_timeout;
	le_sweep_start(&elect_timers->seeking);
	le_sweep_go_on(w, &elect_timers->seeking);
}

/* The list has come, or cannot be had. */
void
le_elect_listed(LeWorker *w)
{
	LeElectTimers *elect_timers = w->elect_timers;

	if (w->candidacies->list_by == 0)
		return;
	w->candidacies->list_by = 0;
	le_sweep_start(&elect_timers->seeking);
	le_sweep_go_on(w, &elect_timers->seeking);
}

static void
recheck_holder(LeWorker *w, LeSlot *slot)
{
	const LeNodeInfo *holder = le_cache_node(slot->holder.session);
	LeInput		input = {.kind = LE_IN_HOLDER};

	if (!le_takes_over() || holder == NULL)
		return;
	input.silent_at = le_cache_silent_at(w->cache, holder);
	if (holder->revoked)
		look_at_key_again(w, slot);	/* and take it */
	else
		le_elect_input(w, slot, &input);
}

static void
recheck_election(LeWorker *w, int number)
{
	LeSlot	   *slot = le_slot(number);

	if (le_waits_for_holder(w->roster, number))
		recheck_holder(w, slot);
	else if (slot->election.state == LE_WAITING &&
			 slot->election.seen_index != 0)
		look_at_key_again(w, slot);
}

/* The nodes were listed: look at the holders that candidates wait for. */
void
le_elect_recheck_waiting(LeWorker *w)
{
	LeElectTimers *elect_timers = w->elect_timers;

	if (le_session_live())
	{
		le_sweep_start(&elect_timers->rechecking);
		le_sweep_go_on(w, &elect_timers->rechecking);
	}
}

static void
look_at_election(LeWorker *w, int number)
{
	if (le_set_has(&w->roster->waiting, number))
		look_at_key_again(w, le_slot(number));
}

/*
 * All keys are freshly known.  One look at all awaited elections spares a turn
 * of the loop for each at its own time.
 */
void
le_elect_look(LeWorker *w)
{
	LeElectTimers *elect_timers = w->elect_timers;

	if (le_session_live())
	{
		le_sweep_start(&elect_timers->looking);
		le_sweep_go_on(w, &elect_timers->looking);
	}
}

/* Continue the unfinished sweeps over all elections. */
void
le_elect_go_on(LeWorker *w)
{
	LeElectTimers *elect_timers = w->elect_timers;

	le_sweep_go_on(w, &elect_timers->seeking);
	le_sweep_go_on(w, &elect_timers->rechecking);
	le_sweep_go_on(w, &elect_timers->looking);
}

/* ---- the end of the session, and the start of a worker ---- */

void
le_elect_node_ended(LeWorker *w, LeReason reason)
{
	LeElectTimers *elect_timers = w->elect_timers;

	le_grants_forget(w);
	w->candidacies->list_by = 0;
	elect_timers->seeking.under_way = elect_timers->rechecking.under_way =
		elect_timers->looking.under_way = false;

	/*
	 * All belief ends, and the backends concerned are told, before the first
	 * message about it is written.
	 */
	le_foreach_slot(i, &w->roster->held)
	{
		LeSlot	   *slot = le_slot(i);

		pg_atomic_write_u64(&slot->term.deadline, 0);
		le_bound_nudge(i, pg_atomic_read_u64(&slot->term.token),
					   le_owner_of(slot), false);
	}
	le_foreach_slot(i, &w->roster->active)
	{
		LeInput		input = {.kind = LE_IN_NODE_ENDED};

		input.reason = reason;
		le_elect_input(w, le_slot(i), &input);
	}
}

/*
 * A new worker: the requests that its predecessor had in flight are lost, and
 * their outcome is unknown.
 */
static void
resume(LeWorker *w, LeSlot *slot)
{
	LeElection	before PG_USED_FOR_ASSERTS_ONLY = slot->election;
	LeElection *e = &slot->election;
	LeInput		input = {.kind = LE_IN_READ_FAILED, .outcome = LE_UNAVAILABLE};

	le_election_resume(e, le_now());
	le_trace_election(slot, &before, NULL, NULL);
	le_roster_update(w->roster, slot);
	if (!le_election_in_flight(e))
		return;
	if (e->state == LE_ACQUIRING || e->state == LE_PUBLISHING ||
		e->state == LE_RELEASING)
		input.kind = LE_IN_UNKNOWN;
	le_elect_input(w, slot, &input);
}

void
le_elect_start(LeWorker *w)
{
	for (int i = 0; i < le_table->nused; i++)
	{
		le_elect_settle(w, le_slot(i));
		le_roster_update(w->roster, le_slot(i));
	}
	le_bound_nudge_all();
	w->candidacies->any_pause = true;
	le_set_trouble(LE_TROUBLE_TOKENS, le_tokens_trouble(w->tokens));
	/* The worker before may have gone while it was ending the terms. */
	if (!le_session_live())
		le_elect_node_ended(w, LE_REASON_EXPIRED);
	for (int i = 0; i < le_table->nused; i++)
		resume(w, le_slot(i));
	le_elect_refresh(w);
}
