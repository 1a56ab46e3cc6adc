/*-------------------------------------------------------------------------
 *
 * wishes.c
 *		What an election wants of the node, kept until the loop comes to it.
 *
 * An election that needs a store session, a proof or a look at the other
 * nodes does not see to that itself: the handler that found it out may have
 * been called by those who would, in the middle of their work.  It leaves a
 * wish, and their next pass of the loop, in the same turn, reads it.  A wish
 * that is raised twice is fulfilled once.
 *
 * They are the worker's own: one that replaces another looks at everything
 * anew.
 *
 * src/worker/view/wishes.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/clock.h"
#include "worker/view/wishes.h"

static struct
{
	bool		session;		/* an election is sought, and there is none */
	bool		proof;			/* prove the node now, not when it is due */
	le_time		nodes_by;		/* list the node keys by then; 0: no wish */
	bool		fresh;			/* ... and not from just any server */
} wishes;

void
le_wish_session(void)
{
	wishes.session = true;
}

void
le_wish_proof(void)
{
	wishes.proof = true;
}

void
le_wish_nodes(le_duration within)
{
	wishes.nodes_by = le_earliest(wishes.nodes_by, le_now() + within);
}

/* Soon, and by the server that decides: others may not know it yet. */
void
le_wish_fresh_nodes(void)
{
	le_wish_nodes(LE_SOON);
	wishes.fresh = true;
}

static bool
take(bool *wish)
{
	bool		wished = *wish;

	*wish = false;
	return wished;
}

bool
le_take_session_wish(void)
{
	return take(&wishes.session);
}

bool
le_take_proof_wish(void)
{
	return take(&wishes.proof);
}

/* 0: nobody wants the nodes listed sooner than they would be anyway. */
le_time
le_take_nodes_wish(bool *fresh)
{
	le_time		by = wishes.nodes_by;

	wishes.nodes_by = 0;
	*fresh = take(&wishes.fresh);
	return by;
}

/* Is there one that the loop has not come to yet? */
bool
le_any_wish(void)
{
	return wishes.session || wishes.proof || wishes.nodes_by != 0;
}
