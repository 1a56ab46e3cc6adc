/*-------------------------------------------------------------------------
 *
 * candidacy.c
 *		The elections that this node seeks, and their candidates.
 *
 * src/worker/lead/candidacy.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "settings.h"
#include "shmem/clock.h"
#include "shmem/progress.h"
#include "worker/disk/tokens.h"
#include "worker/lead/candidacy.h"
#include "worker/lead/pending.h"
#include "worker/lead/roster.h"
#include "worker/view/clones.h"
#include "worker/view/eligible.h"
#include "worker/view/wishes.h"

LeCandidacies *
le_candidacies_new(void)
{
	return MemoryContextAllocZero(TopMemoryContext, sizeof(LeCandidacies));
}

bool
le_sought(LeWorker *w, const LeSlot *slot)
{
	if (!w->candidacies->may_lead || le_clones_unclear() ||
		le_tokens_trouble(w->tokens)[0] != '\0' ||
		le_now() < slot->hold_off_until)
		return false;
	return le_campaigns(slot) || le_first_seeker(w, slot) != NULL;
}

/*
 * Choose the owner for whom the next acquire is sent.  This comes before the
 * request, since the owner's value goes with it.
 */
bool
le_choose_candidate(LeWorker *w, LeSlot *slot)
{
	const LeAsk *ask = le_first_seeker(w, slot);
	const char *value = NULL;
	LeProgress *progress = le_progress_of(le_slot_number(slot));

	progress->candidate_within = progress->campaign_within;
	if (ask != NULL)
	{
		slot->candidate.owner = ask->owner;
		if (ask->within != LE_WITHIN_SETTING || ask->owner != LE_OWNER_NODE)
			progress->candidate_within = ask->within;
		slot->candidate.proc = ask->proc;
		slot->candidate.pid = ask->pid;
		if (ask->has_value)
			value = ask->value;
		else if (slot->campaign && slot->has_value)
			value = slot->value;
	}
	else if (le_campaigns(slot))
	{
		slot->candidate.owner = LE_OWNER_NODE;
		slot->candidate.proc = slot->candidate.pid = 0;
		if (slot->campaign && slot->has_value)
			value = slot->value;
	}
	else
		return false;
	if (value == NULL)
		value = le_my_value();
	le_begin_note(slot);
	if (value != slot->value)
		strlcpy(slot->value, value, sizeof(slot->value));
	slot->has_value = true;
	le_end_note(slot);
	return true;
}

/* Does the candidate of an acquired term still wait for it? */
bool
le_candidate_waits(LeWorker *w, LeSlot *slot)
{
	if (slot->candidate.owner == LE_OWNER_NODE && le_campaigns(slot))
		return true;
	return le_seeker_waits(w, slot, slot->candidate.owner);
}

/* Candidacies wait for the list of keys, calls of backends do not. */
bool
le_awaits_list(LeWorker *w, const LeSlot *slot)
{
	return w->candidacies->list_by != 0 && le_first_seeker(w, slot) == NULL;
}

/* A campaign rests for a while; le_acquire() may still try. */
void
le_pause_campaign(LeWorker *w, LeSlot *slot, le_duration how_long)
{
	slot->campaign_after = le_now() + how_long;
	w->candidacies->any_pause = true;
}

/*
 * This node leads nothing, and everything it seeks was refused: by the store,
 * or because the token was too low, after which the campaign pauses.
 */
static bool
refused_all(LeWorker *w)
{
	const LeRoster *roster = w->roster;
	bool		any = roster->too_low.n > 0;

	if (roster->held.n > 0)
		return false;
	le_foreach_slot(i, &roster->active)
	{
		const LeSlot *slot = le_slot(i);

		if (le_set_has(&roster->too_low, i) || !slot->election.wanted)
			continue;
		if (!slot->error.refused)
			return false;
		any = true;
	}
	return any;
}

/*
 * Recompute whether this node could lead, for le_nodes here and, with the next
 * proof, elsewhere; and whether its system identifiers go with it.  A node
 * that cannot keep tokens begins no term, but goes on with those it has.  True
 * if the result changed.
 */
bool
le_note_fitness(LeWorker *w, bool session_refused)
{
	bool		shows = le_clones_show_systems();
	const char *unfit = le_unfit();

	if (unfit == NULL)
		unfit = session_refused || le_tokens_trouble(w->tokens)[0] != '\0' ||
			refused_all(w) ? "refused" : "";
	if (strcmp(le_table->unfit, unfit) == 0 &&
		le_table->shows_systems == shows)
		return false;
	le_table->shows_systems = shows;
	le_set_unfit(unfit);
	return true;
}

/* Tell other nodes now if this node's fitness to lead has changed. */
void
le_tell_fitness(LeWorker *w)
{
	if (le_note_fitness(w, false) && le_session_live())
		le_wish_proof(w->wishes);
}
