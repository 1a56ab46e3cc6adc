/*-------------------------------------------------------------------------
 *
 * grants.c
 *		Grants of the store, until their terms begin.
 *
 * src/worker/lead/grants.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "settings.h"
#include "worker/disk/tokens.h"
#include "worker/lead/grants.h"
#include "worker/lead/pending.h"

struct LeGrants
{
	LeSlotSet	open;
	uint32	   *answered;		/* by slot, if open: request of the acquire
								 * that begins its term */
};

LeGrants *
le_grants_new(void)
{
	LeGrants   *grants = MemoryContextAllocZero(TopMemoryContext,
												sizeof(LeGrants));

	le_set_init(&grants->open, le_table->nslots);
	grants->answered = MemoryContextAllocZero(TopMemoryContext,
											  le_table->nslots *
											  sizeof(uint32));
	return grants;
}

void
le_grant_add(LeWorker *w, const LeSlot *slot, uint32 answered)
{
	int			number = le_slot_number(slot);

	Assert(answered != 0);
	w->grants->answered[number] = answered;
	le_set_put(&w->grants->open, number, true);
}

bool
le_grant_open(LeWorker *w, const LeSlot *slot)
{
	return le_set_has(&w->grants->open, le_slot_number(slot));
}

/*
 * Begin or refuse the terms granted since the last call, in this turn of the
 * loop.  First one write puts all their tokens on disk.  The store "local"
 * takes its tokens from the write-ahead log, which is flushed already.
 */
void
le_grants_settle(LeWorker *w,
				 void (*begin) (LeWorker *w, LeSlot *slot, uint32 answered),
				 void (*refuse) (LeWorker *w, LeSlot *slot))
{
	LeSlotSet  *open = &w->grants->open;
	bool		kept;

	if (open->n == 0)
	{
		(void) le_tokens_keep(w->tokens, false);	/* tokens of other nodes */
		return;
	}
	le_foreach_slot(i, open)
		le_token_seen(w->tokens, le_slot(i)->name,
					  le_slot(i)->election.token);
	kept = le_tokens_keep(w->tokens, le_configured_store()->between_instances);
	le_foreach_slot(i, open)
	{
		le_set_put(open, i, false);
		if (kept)
			begin(w, le_slot(i), w->grants->answered[i]);
		else
			refuse(w, le_slot(i));
	}
}

/*
 * The session has ended before these terms began: their callers cannot know
 * what others have seen meanwhile.
 */
void
le_grants_forget(LeWorker *w)
{
	le_foreach_slot(i, &w->grants->open)
	{
		le_pending_unresolved(w, le_slot(i));
		le_set_put(&w->grants->open, i, false);
	}
}
