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

static uint32 *granted;			/* request of the acquire that begins the
								 * slot's term; 0: none */
static bool any_granted = false;

void
le_grants_start(void)
{
	granted = MemoryContextAllocZero(TopMemoryContext,
									 le_table->nslots * sizeof(uint32));
}

void
le_grant_add(const LeSlot *slot, uint32 answered)
{
	granted[le_slot_number(slot)] = answered;
	any_granted = true;
}

bool
le_grant_open(const LeSlot *slot)
{
	return granted[le_slot_number(slot)] != 0;
}

/*
 * Begin or refuse the terms granted since the last call, in this turn of the
 * loop.  First one write puts all their tokens on disk.  The store "local"
 * takes its tokens from the write-ahead log, which is flushed already.
 */
void
le_grants_settle(void (*begin) (LeSlot *slot, uint32 answered),
				 void (*refuse) (LeSlot *slot))
{
	bool		kept;

	if (!any_granted)
	{
		(void) le_tokens_keep(false);	/* tokens of other nodes */
		return;
	}
	for (int i = 0; i < le_table->nused; i++)
		if (granted[i] != 0)
			le_token_seen(le_slot(i)->name, le_slot(i)->election.token);
	kept = le_tokens_keep(le_configured_store()->between_instances);
	any_granted = false;
	for (int i = 0; i < le_table->nused; i++)
	{
		uint32		answered = granted[i];

		granted[i] = 0;
		if (answered == 0)
			continue;
		if (kept)
			begin(le_slot(i), answered);
		else
			refuse(le_slot(i));
	}
}

/*
 * The session has ended before these terms began: their callers cannot know
 * what others have seen meanwhile.
 */
void
le_grants_forget(void)
{
	for (int i = 0; i < le_table->nused; i++)
		if (granted[i] != 0)
		{
			le_pending_unresolved(le_slot(i));
			granted[i] = 0;
		}
	any_granted = false;
}
