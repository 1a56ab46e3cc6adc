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

#include "settings.h"
#include "shmem/bound.h"
#include "shmem/clock.h"
#include "shmem/progress.h"
#include "worker/disk/tokens.h"
#include "worker/lead/brief.h"
#include "worker/lead/candidacy.h"
#include "worker/lead/elect.h"
#include "worker/lead/elect_all.h"
#include "worker/lead/elect_timers.h"
#include "worker/lead/grants.h"
#include "worker/lead/pending.h"
#include "worker/view/cache.h"
#include "worker/view/eligible.h"
#include "worker/view/key_view.h"
#include "worker/view/sweep.h"

/* Interval of looks at a draining term, in case no backend reports its end. */
#define DRAIN_POLL		(100 * LE_MSEC)

/* Pause between attempts to keep tokens on disk after a failure. */
#define TOKENS_PAUSE	(5 * LE_SEC)

/* With more candidacies, a list of all keys takes less than reading each. */
int			le_list_from = 8;

static void seek(int number);
static void recheck(int number);
static void look(int number);

static LeSweep seeking = {.look = seek};
static LeSweep rechecking = {.look = recheck};
static LeSweep looking = {.look = look};

static le_time tokens_try_at = 0;

/* ---- tokens ---- */

/*
 * A term that was to begin, or le_reset_token(), may have found that tokens
 * can be kept again: candidacies that stopped for it resume.
 */
static void
note_tokens(void)
{
	static bool kept = true;
	bool		before = kept;

	kept = le_tokens_trouble()[0] == '\0';
	if (kept == before)
		return;
	le_set_trouble(LE_TROUBLE_TOKENS, le_tokens_trouble());
	if (kept)
		le_elect_refresh();
	le_tell_fitness();
}

/* Can tokens be kept on disk?  After a failure, try again. */
bool
le_elect_can_begin(void)
{
	if (le_tokens_trouble()[0] != '\0')
	{
		tokens_try_at = le_now() + TOKENS_PAUSE;
		if (!le_tokens_try())
			le_set_trouble(LE_TROUBLE_TOKENS, le_tokens_trouble());
	}
	note_tokens();
	return le_tokens_trouble()[0] == '\0';
}

/* ---- timers ---- */

/*
 * It is time to look again at the key of an awaited election.  If the watch
 * has shown it lately, only its index matters and no read is needed, so the
 * keys of a node that went need no read each.  Read it after a failure, or if
 * a read has shown another state since.
 */
static void
look_again(LeSlot *slot)
{
	LeInput		input = {.kind = LE_IN_SEEN};
	const LeKey *key = le_cache_key(slot->name);
	LeKeyView	view;
	uint64		as_of;

	slot->election.timer_at = 0;
	if (slot->election.failures > 0 ||
		!le_cache_lately(le_table->node.timing.lease, &as_of) ||
		slot->holder_index != (key == NULL ? 0 : key->index))
	{
		le_elect_feed(slot, LE_IN_TIMER);
		return;
	}
	le_make_view(&view, key, key == NULL ? as_of : Max(as_of, key->index));
	input.view = &view;
	le_elect_input(slot, &input);
}

/*
 * A node whose jobs do not run, or hang, would renew its terms forever.
 * Another node is to have the election.
 */
static void
give_up_useless(LeSlot *slot)
{
	int			number = le_slot_number(slot);

	le_progress_of(number)->useless = le_progress_limit(number);
	le_elect_give_up(slot);
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
run_slot_timer(int i, le_time now)
{
	LeSlot	   *slot = le_slot(i);

	if (le_briefs[i].deadline != 0 && now >= le_briefs[i].deadline)
	{
		le_elect_feed(slot, LE_IN_EXPIRED);
		le_elect_advance(slot);
	}
	if (le_briefs[i].timer != 0 && now >= le_briefs[i].timer)
	{
		bool		outlasted = commit_outlasts_drain(slot);

		slot->election.timer_at = outlasted ? now + DRAIN_POLL : 0;
		le_brief_refresh(slot);
		if (outlasted)
			le_elect_advance(slot);
		else if (slot->election.state != LE_WAITING)
			le_elect_feed(slot, LE_IN_TIMER);
		else if (le_session_live())
			look_again(slot);	/* if not, le_elect_node_live() asks again */
	}
	if (le_briefs[i].progress_due != 0 && now >= le_briefs[i].progress_due)
	{
		le_brief_refresh(slot);
		if (le_briefs[i].progress_due != 0 && now >= le_briefs[i].progress_due)
			give_up_useless(slot);
	}
}

static void
end_hold_offs(le_time now)
{
	if (!le_candidacies.any_pause)
		return;
	le_candidacies.any_pause = false;
	for (int i = 0; i < le_table->nused; i++)
	{
		LeSlot	   *slot = le_slot(i);

		if (slot->hold_off_until > now || slot->campaign_after > now)
			le_candidacies.any_pause = true;
		if (slot->hold_off_until != 0 && now >= slot->hold_off_until)
			slot->hold_off_until = 0;
		else if (slot->campaign_after != 0 && now >= slot->campaign_after)
			slot->campaign_after = 0;
		else
			continue;
		le_elect_advance(slot);
	}
}

void
le_elect_run_timers(void)
{
	le_time		now = le_now();
	char		why[256];
	int			sqlstate;

	if (now >= tokens_try_at)
		(void) le_elect_can_begin();
	note_tokens();
	/* A promotion comes without a message. */
	if (le_candidacies.may_lead != le_may_lead(why, sizeof(why), &sqlstate))
		le_elect_refresh();
	if (le_candidacies.list_by != 0 && now >= le_candidacies.list_by)
		le_elect_listed();
	for (int i = 0; i < le_table->nused; i++)
		if (le_briefs[i].next != 0 && now >= le_briefs[i].next)
			run_slot_timer(i, now);
	end_hold_offs(now);
	for (int i = 0; i < le_table->nused; i++)
		if (le_briefs[i].draining)
			le_elect_advance(le_slot(i));
}

le_time
le_elect_timer(void)
{
	le_time		next = le_candidacies.list_by;
	bool		campaigning = false;

	le_briefs_check();
	if (seeking.under_way || rechecking.under_way || looking.under_way)
		return le_now();

	if (le_tokens_trouble()[0] != '\0')
		next = le_earliest(next, tokens_try_at);
	for (int i = 0; i < le_table->nused; i++)
	{
		if (le_briefs[i].next != 0 && (next == 0 || le_briefs[i].next < next))
			next = le_briefs[i].next;
		if (le_briefs[i].draining)
			next = le_earliest(next, le_now() + DRAIN_POLL);
		if (le_candidacies.any_pause)
		{
			next = le_earliest(next, le_slot(i)->hold_off_until);
			next = le_earliest(next, le_slot(i)->campaign_after);
		}
		campaigning = campaigning || le_briefs[i].candidate;
	}
	/* Nobody tells a worker that its standby was promoted. */
	if (campaigning && !le_candidacies.may_lead && RecoveryInProgress())
		next = le_earliest(next, le_now() + LE_SEC);
	return next;
}

/* ---- sweeps ---- */

static void
seek(int number)
{
	LeSlot	   *slot = le_slot(number);

	le_elect_advance(slot);
	if (slot->election.state == LE_WAITING && !le_awaits_list(slot))
		le_elect_feed(slot, LE_IN_WANT);
}

/*
 * The session can carry terms now: all candidates that waited for it go ahead.
 * Many candidacies wait until the list of keys has shown the free ones.
 */
void
le_elect_node_live(void)
{
	int			candidates = 0;

	le_pending_session_live();
	for (int i = 0; i < le_table->nused; i++)
		candidates += le_briefs[i].candidate ? 1 : 0;
	le_candidacies.list_by = 0;
	if (candidates > le_list_from &&
		le_configured_store()->watching == LE_WATCH_ALL)
		le_candidacies.list_by = le_now() +
			le_table->node.timing.request_timeout;
	le_sweep_start(&seeking);
	le_sweep_go_on(&seeking);
}

/* The list has come, or cannot be had. */
void
le_elect_listed(void)
{
	if (le_candidacies.list_by == 0)
		return;
	le_candidacies.list_by = 0;
	le_sweep_start(&seeking);
	le_sweep_go_on(&seeking);
}

static void
recheck_holder(LeSlot *slot)
{
	const LeNodeInfo *holder = le_cache_node(slot->holder_session);
	LeInput		input = {.kind = LE_IN_HOLDER};

	if (!le_takes_over() || holder == NULL)
		return;
	input.silent_at = le_cache_silent_at(holder);
	if (holder->revoked)
		look_again(slot);		/* and take it */
	else
		le_elect_input(slot, &input);
}

static void
recheck(int number)
{
	LeSlot	   *slot = le_slot(number);

	if (le_waits_for_holder(number))
		recheck_holder(slot);
	else if (le_briefs[number].active && slot->election.state == LE_WAITING &&
			 slot->election.seen_index != 0)
		look_again(slot);
}

/* The node keys have news about holders whose terms candidates wait for. */
void
le_elect_recheck_waiting(void)
{
	if (le_session_live())
	{
		le_sweep_start(&rechecking);
		le_sweep_go_on(&rechecking);
	}
}

static void
look(int number)
{
	if (le_briefs[number].active &&
		le_slot(number)->election.state == LE_WAITING)
		look_again(le_slot(number));
}

/*
 * All keys are freshly known.  One look at all awaited elections spares a turn
 * of the loop for each at its own time.
 */
void
le_elect_look(void)
{
	if (le_session_live())
	{
		le_sweep_start(&looking);
		le_sweep_go_on(&looking);
	}
}

/* Continue the unfinished sweeps over all elections. */
void
le_elect_go_on(void)
{
	le_sweep_go_on(&seeking);
	le_sweep_go_on(&rechecking);
	le_sweep_go_on(&looking);
}

/* ---- the end of the session, and the start of a worker ---- */

void
le_elect_node_ended(LeReason reason)
{
	le_grants_forget();
	le_candidacies.list_by = 0;
	seeking.under_way = rechecking.under_way = looking.under_way = false;

	/*
	 * All belief ends, and the backends concerned are told, before the first
	 * message about it is written.
	 */
	for (int i = 0; i < le_table->nused; i++)
	{
		LeSlot	   *slot = le_slot(i);

		if (!le_briefs[i].has_term)
			continue;
		pg_atomic_write_u64(&slot->deadline, 0);
		le_bound_nudge(i, pg_atomic_read_u64(&slot->token),
					   le_owner_of(slot), false);
	}
	for (int i = 0; i < le_table->nused; i++)
	{
		LeInput		input = {.kind = LE_IN_NODE_ENDED};

		input.reason = reason;
		if (le_briefs[i].active)
			le_elect_input(le_slot(i), &input);
	}
}

/*
 * A new worker: the requests that its predecessor had in flight are lost, and
 * their outcome is unknown.
 */
static void
resume(LeSlot *slot)
{
	LeElection *e = &slot->election;
	LeInput		input = {0};

	le_election_resume(e, le_now());
	le_brief_refresh(slot);
	switch (e->state)
	{
		case LE_ACQUIRING:
		case LE_PUBLISHING:
		case LE_RELEASING:
			input.kind = LE_IN_UNKNOWN;
			le_elect_input(slot, &input);
			break;
		case LE_READING:
		case LE_ACQUIRE_UNSURE:
		case LE_PUBLISH_UNSURE:
		case LE_RELEASE_UNSURE:
			input.kind = LE_IN_READ_FAILED;
			input.outcome = LE_UNAVAILABLE;
			le_elect_input(slot, &input);
			break;
		default:
			break;
	}
}

void
le_elect_start(void)
{
	le_briefs_start();
	le_grants_start();
	for (int i = 0; i < le_table->nused; i++)
	{
		le_elect_settle(le_slot(i));
		le_brief_refresh(le_slot(i));
	}
	le_bound_nudge_all();
	le_candidacies.any_pause = true;
	le_set_trouble(LE_TROUBLE_TOKENS, le_tokens_trouble());
	/* The worker before may have gone while it was ending the terms. */
	if (!le_session_live())
		le_elect_node_ended(LE_REASON_EXPIRED);
	for (int i = 0; i < le_table->nused; i++)
		resume(le_slot(i));
	le_elect_refresh();
}
