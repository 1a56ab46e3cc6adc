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
	bool		any;
	uint32		granted[FLEXIBLE_ARRAY_MEMBER]; /* by slot: request of the
												 * acquire that begins its
												 * term; 0: none */
};

LeGrants *
le_grants_new(void)
{
	return MemoryContextAllocZero(TopMemoryContext,
								  offsetof(LeGrants, granted) +
								  le_table->nslots * sizeof(uint32));
}

void
le_grant_add(LeWorker *w, const LeSlot *slot, uint32 answered)
{
	LeGrants   *grants = w->grants;

	grants->granted[le_slot_number(slot)] = answered;
	grants->any = true;
}

bool
le_grant_open(LeWorker *w, const LeSlot *slot)
{
	return w->grants->granted[le_slot_number(slot)] != 0;
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
	LeGrants   *grants = w->grants;
	bool		kept;

	if (!grants->any)
	{
		(void) le_tokens_keep(w->tokens, false);	/* tokens of other nodes */
		return;
	}
	for (int i = 0; i < le_table->nused; i++)
		if (grants->granted[i] != 0)
			le_token_seen(w->tokens, le_slot(i)->name,
						  le_slot(i)->election.token);
	kept = le_tokens_keep(w->tokens, le_configured_store()->between_instances);
	grants->any = false;
	for (int i = 0; i < le_table->nused; i++)
	{
		uint32		answered = grants->granted[i];

		grants->granted[i] = 0;
		if (answered == 0)
			continue;
		if (kept)
			begin(w, le_slot(i), answered);
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
	LeGrants   *grants = w->grants;

	for (int i = 0; i < le_table->nused; i++)
		if (grants->granted[i] != 0)
		{
			le_pending_unresolved(w, le_slot(i));
			grants->granted[i] = 0;
		}
	grants->any = false;
}
