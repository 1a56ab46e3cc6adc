/*-------------------------------------------------------------------------
 *
 * wishes.c
 *		Wishes of elections to the node, kept until the loop comes to them.
 *
 * An election that needs a store session, a proof or a list of the nodes does
 * not see to that itself: the handler that found it out may have been called
 * by the very pass that would, in the middle of its work.  It leaves a wish,
 * and that pass reads it in the same turn.  A wish that is raised twice is
 * fulfilled once.
 *
 * Wishes are the worker's own: a new worker looks at everything anew.
 *
 * src/worker/view/wishes.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "shmem/clock.h"
#include "worker/view/wishes.h"

struct LeWishes
{
	bool		session;		/* an election is sought without one */
	bool		proof;			/* prove the node now, not when it is due */
	le_time		nodes_by;		/* list the node keys by then; 0: no wish */
	bool		fresh;			/* ... and not from just any server */
};

LeWishes *
le_wishes_new(void)
{
	return MemoryContextAllocZero(TopMemoryContext, sizeof(LeWishes));
}

void
le_wish_session(LeWishes *wishes)
{
	wishes->session = true;
}

void
le_wish_proof(LeWishes *wishes)
{
	wishes->proof = true;
}

void
le_wish_nodes(LeWishes *wishes, le_duration within)
{
	wishes->nodes_by = le_earliest(wishes->nodes_by, le_now() + within);
}

/* Soon, and by the server that decides: others may not know it yet. */
void
le_wish_fresh_nodes(LeWishes *wishes)
{
	le_wish_nodes(wishes, LE_SOON);
	wishes->fresh = true;
}

static bool
take_wish(bool *wish)
{
	bool		wished = *wish;

	*wish = false;
	return wished;
}

bool
le_take_session_wish(LeWishes *wishes)
{
	return take_wish(&wishes->session);
}

bool
le_take_proof_wish(LeWishes *wishes)
{
	return take_wish(&wishes->proof);
}

/* 0: nobody wants the nodes listed sooner than planned. */
le_time
le_take_nodes_wish(LeWishes *wishes, bool *fresh)
{
	le_time		by = wishes->nodes_by;

	wishes->nodes_by = 0;
	*fresh = take_wish(&wishes->fresh);
	return by;
}

/* Is there a wish that the loop has not come to yet? */
bool
le_any_wish(LeWishes *wishes)
{
	return wishes->session || wishes->proof || wishes->nodes_by != 0;
}
