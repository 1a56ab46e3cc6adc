/*-------------------------------------------------------------------------
 *
 * discard.c
 *		DISCARD ALL ends leases in scope "session", and claims by hand.
 *
 * A connection pool sends it before it gives the session to another client,
 * who must not inherit what the one before has left, be it an advisory lock or
 * leadership.  As with these locks, other ways to reset a session leave leases
 * alone: RESET ALL, DISCARD PLANS and the like are about something else, and
 * pg_advisory_unlock_all() names what it unlocks.
 *
 * As at the session's end, belief ends here and now, and nobody waits: the
 * worker tells the store.  A reset must not fail because that is down.
 *
 * Ticks that were claimed by hand are left undone, as at the session's end,
 * too: the session goes on under another number, so that none of them counts
 * as under way (run_registry.c), and the next client cannot complete them.
 *
 * src/sql/discard.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/parsenodes.h"

#include "shmem/requests.h"
#include "sql/discard.h"
#include "sql/fence.h"
#include "sql/jobs.h"

/* The statement has been carried out. */
void
le_discard_done(const Node *statement)
{
	if (!IsA(statement, DiscardStmt) ||
		((const DiscardStmt *) statement)->target != DISCARD_ALL ||
		!le_has_owner())
		return;
	le_fence_hold_nothing();
	le_forget_claims();
	if (le_give_up_terms_of(le_my_owner(false)))
		le_hint_worker();
	le_renew_owner();
}
