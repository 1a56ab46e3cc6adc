/*-------------------------------------------------------------------------
 *
 * discard.c
 *		DISCARD ALL ends leases in scope "session", and claims by hand.
 *
 * A connection pool sends it before it gives the session to another client,
 * which must inherit neither advisory locks nor leadership.  As with these
 * locks, other ways to reset a session keep leases: RESET ALL, DISCARD PLANS
 * and the like have another purpose, and pg_advisory_unlock_all() names its
 * own.
 *
 * As at the session's end, belief ends at once, without waiting: the worker
 * tells the store later.  A reset must not fail because the store is down.
 *
 * Ticks claimed by hand are left undone, again as at the session's end: the
 * session gets a new number, so that none of them counts as under way
 * (run_registry.c), and the next client cannot complete them.
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
	(void) le_give_up_terms_of(le_my_owner(false));
	le_renew_owner();
	le_hint_worker();
}
