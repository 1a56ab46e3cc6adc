/*-------------------------------------------------------------------------
 *
 * elect_all.c
 *		Operations on all elections.
 *
 * src/worker/lead/elect_all.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "settings.h"
#include "shmem/clock.h"
#include "shmem/stats.h"
#include "worker/disk/tokens.h"
#include "worker/lead/candidacy.h"
#include "worker/lead/elect.h"
#include "worker/lead/elect_all.h"
#include "worker/lead/pending.h"
#include "worker/lead/roster.h"
#include "worker/view/clones.h"
#include "worker/view/eligible.h"

/* A proof moved the deadline of every term; 0 ends all belief. */
void
le_elect_deadline(LeWorker *w, le_time deadline)
{
	TimestampTz now = GetCurrentTimestamp();

	if (le_configured_store()->key_leases)
		return;					/* each has a deadline of its own */

	le_foreach_slot(i, &w->roster->held)
	{
		LeSlot	   *slot = le_slot(i);

		pg_atomic_write_u64(&slot->term.deadline, deadline);
		slot->view.renewed_at = now;
	}
}

/* For le_each_campaign(); "arg": the worker. */
static void
mark_configured(const char *election, void *arg)
{
	LeWorker   *w = arg;
	LeSlot	   *slot = le_elect_slot(w, election);

	if (slot == NULL)
		ereport(LOG,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no room for election \"%s\" in the lease table",
						election),
				 errhint("Raise \"leader_election.max_elections\" and restart.")));
	else
	{
		slot->configured = true;
		le_roster_update(w->roster, slot);
	}
}

/* The same; "arg": by slot, whether the setting names it. */
static void
mark_named(const char *election, void *arg)
{
	bool	   *named = arg;
	LeSlot	   *slot = le_find_slot(election);

	if (slot != NULL)
		named[le_slot_number(slot)] = true;
}

/* Clear slots that the setting no longer names, in one pass over the list. */
static void
sweep_configured(LeWorker *w)
{
	bool	   *named = palloc0(le_table->nslots * sizeof(bool));

	le_each_campaign(mark_named, named);
	for (int i = 0; i < le_table->nused; i++)
	{
		LeSlot	   *slot = le_slot(i);

		if (!slot->configured || named[i])
			continue;
		slot->configured = false;
		le_roster_update(w->roster, slot);
		if (le_owner_of(slot) == LE_OWNER_NODE && !slot->campaign)
			le_elect_give_up(w, slot);
	}
	pfree(named);
}

/* After a reload, a promotion, or any other event that concerns them all. */
void
le_elect_refresh(LeWorker *w)
{
	char		why[LE_MAX_ERROR_LEN + 1];
	int			sqlstate;

	(void) le_clones_show_systems();	/* perhaps it is no clone any more */
	w->candidacies->may_lead = le_may_lead(why, sizeof(why), &sqlstate);
	sweep_configured(w);
	le_each_campaign(mark_configured, w);
	for (int i = 0; i < le_table->nused; i++)
	{
		/* progress_within may have changed */
		le_roster_update(w->roster, le_slot(i));
		if (!w->candidacies->may_lead && le_set_has(&w->roster->held, i))
			le_elect_give_up(w, le_slot(i));
		le_elect_advance(w, le_slot(i));
	}
	le_set_trouble(LE_TROUBLE_SETTINGS,
				   w->candidacies->may_lead || sqlstate != LE_ERRCODE_REFUSED ?
				   "" : why);
	le_tell_fitness(w);
}

/* Backends have withdrawn questions, or ended: recheck active elections. */
void
le_elect_recheck(LeWorker *w)
{
	le_foreach_slot(i, &w->roster->active)
		le_elect_advance(w, le_slot(i));
}

/*
 * The keys are in another namespace from now on, with tokens of their own.
 * There is no session yet, so there is no term and nothing is under way.
 */
void
le_elect_moved(LeWorker *w)
{
	for (int i = 0; i < le_table->nused; i++)
	{
		LeSlot	   *slot = le_slot(i);

		slot->election.token_floor = le_token_floor(w->tokens, slot->name);
		slot->election.refused_until = 0;
		slot->campaign_after = 0;
		slot->refused_token = 0;
		le_roster_update(w->roster, slot);
	}
}

/* ---- the node's proofs ---- */

static int
pick(int i, int n, int *numbers, const char **names)
{
	for (int k = 0; k < n; k++)
		if (numbers[k] == i)
			return n;
	numbers[n] = i;
	names[n] = le_slot(i)->name;
	return n + 1;
}

/*
 * Choose the held keys that the next proof checks: those with a question for a
 * renewal, then the others in rotation.
 */
int
le_elect_pick_held(LeWorker *w, int max, int *numbers, const char **names)
{
	const LeSlotSet *held = &w->roster->held;
	int			n = 0;

	for (int i = le_set_next(held, -1); i >= 0 && n < max;
		 i = le_set_next(held, i))
		if (le_renewal_asked(w, i))
			n = pick(i, n, numbers, names);
	for (int k = held->n; k > 0 && n < max; k--)
	{
		w->proved_slot = le_set_after(held, w->proved_slot);
		n = pick(w->proved_slot, n, numbers, names);
	}
	return n;
}

/* The proof sent at this time covers these elections. */
void
le_elect_proved(LeWorker *w, le_time sent, const int *numbers, int n)
{
	le_pending_proved(w, sent, numbers, n);
	for (int i = 0; i < n; i++)
		le_elect_advance(w, le_slot(numbers[i]));
}

/* A proof is about every term, however many keys it names. */
void
le_elect_count_proof(LeWorker *w, le_time sent, LeOutcome outcome,
					 bool renewed)
{
	if (le_configured_store()->key_leases)
		return;					/* it exists in name only */
	le_foreach_slot(i, &w->roster->held)
	{
		le_stat_answer(i, sent, outcome);
		if (renewed)
			le_stat_count_slot(i, LE_STAT_RENEWALS);
	}
}

/* ---- needs of all elections ---- */

/* Does this node lead, or seek to lead, any election? */
bool
le_elect_need_session(LeWorker *w)
{
	if (w->roster->active.n > 0)
		return true;
	/* A clone lets the others see it; an instance that may be one waits for
	 * its original to give a sign of life. */
	if (le_clones_unclear() ||
		(w->roster->candidates.n > 0 && le_steps_back()))
		return true;
	le_foreach_slot(i, &w->roster->candidates)
		if (le_sought(w, le_slot(i)))
			return true;
	return le_any_seeker(w, le_sought);
}

/* Could the watch tell the fate of any election? */
bool
le_elect_need_watch(LeWorker *w)
{
	return w->candidacies->list_by != 0 || w->roster->active.n > 0 ||
		le_clones_unclear();
}

bool
le_elect_waits_for_holder(LeWorker *w)
{
	le_foreach_slot(i, &w->roster->waiting)
		if (le_waits_for_holder(w->roster, i))
			return true;
	return false;
}

/* Does a candidacy wait for a key that is another's, or was lately? */
bool
le_elect_any_waiting(LeWorker *w)
{
	return w->roster->waiting.n > 0;
}

/* ---- shutdown ---- */

/*
 * The instance shuts down: release everything.  Half of the time allowed is
 * for transactions that are about to commit, a quarter for the store.
 */
void
le_elect_release_all(LeWorker *w, bool patiently)
{
	le_duration time = le_shutdown_timeout * LE_MSEC;
	le_duration patience = patiently ? time / 2 : 0;

	for (int i = 0; i < le_table->nused; i++)
	{
		le_slot(i)->hold_off_until = le_now() + 3600 * LE_SEC;
		if (le_set_has(&w->roster->held, i))
			le_elect_drain(w, le_slot(i), patience, time / 4);
		else if (le_set_has(&w->roster->active, i))
			le_elect_feed(w, le_slot(i), LE_IN_UNWANT);
	}
}

bool
le_elect_all_released(LeWorker *w)
{
	return w->roster->active.n == 0;
}
