/*-------------------------------------------------------------------------
 *
 * brief.c
 *		The fields of each election that the loop reads in each turn.
 *
 * src/worker/lead/brief.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "shmem/progress.h"
#include "worker/lead/brief.h"

LeBrief *
le_briefs_new(void)
{
	return MemoryContextAllocZero(TopMemoryContext,
								  le_table->nslots * sizeof(LeBrief));
}

static LeBrief
brief_of(const LeSlot *slot)
{
	const LeElection *e = &slot->election;
	LeBrief		brief = {
		.timer = e->timer_at,
		.deadline = e->deadline,
		.renew_at = le_election_renew_at(e),
		.progress_due = le_progress_due(le_slot_number(slot)),
		.has_term = pg_atomic_read_u64(&((LeSlot *) slot)->token) != 0,
		.active = e->state != LE_IDLE,
		.waiting = e->state == LE_WAITING,
		.draining = e->drain_until != 0,
		.candidate = slot->campaign || slot->configured,
		.token_refused = (slot->campaign || slot->configured) &&
		slot->refused_token != 0,
	};

	brief.next = le_earliest(le_earliest(brief.timer, brief.deadline),
							 le_earliest(brief.renew_at, brief.progress_due));
	return brief;
}

/* Call after every change of these fields. */
void
le_brief_refresh(LeBrief *briefs, const LeSlot *slot)
{
	briefs[le_slot_number(slot)] = brief_of(slot);
}

#ifdef USE_ASSERT_CHECKING

/* Slots checked per turn, lest thousands make it long. */
#define CHECKED_AT_ONCE	500

/*
 * Progress of a backend moves progress_due on, and the loop notices that only
 * when the earlier time has come.
 */
static void
check_brief(const LeBrief *briefs, const LeSlot *slot)
{
	const LeBrief *kept = &briefs[le_slot_number(slot)];
	LeBrief		now = brief_of(slot);

	Assert(kept->timer == now.timer);
	Assert(kept->deadline == now.deadline);
	Assert(kept->renew_at == now.renew_at);
	Assert(kept->progress_due <= now.progress_due);
	Assert((kept->progress_due == 0) == (now.progress_due == 0));
	Assert(kept->has_term == now.has_term);
	Assert(kept->active == now.active);
	Assert(kept->waiting == now.waiting);
	Assert(kept->token_refused == now.token_refused);
	Assert(kept->draining == now.draining);
	Assert(kept->candidate == now.candidate);
}

void
le_briefs_check(const LeBrief *briefs)
{
	int			n = Min(le_table->nused, CHECKED_AT_ONCE);
	uint64		from = pg_atomic_read_u64(&le_table->turns) * CHECKED_AT_ONCE;

	for (int k = 0; k < n; k++)
		check_brief(briefs, le_slot((from + k) % le_table->nused));
}
#endif

/* Does this node wait for the end of another node's term? */
bool
le_waits_for_holder(LeBrief *briefs, int number)
{
	const LeSlot *slot = le_slot(number);

	return briefs[number].active && slot->election.state == LE_WAITING &&
		slot->holder_session[0] != '\0' && slot->holder_holds;
}
