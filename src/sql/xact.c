/*-------------------------------------------------------------------------
 *
 * xact.c
 *		Leases in scope "transaction".
 *
 * They follow pg_advisory_xact_lock(): held until the transaction ends, or
 * until a rollback to a savepoint set before the lease was taken.  The
 * backend ends its belief itself, in the transaction's callbacks, which must
 * neither fail nor wait; the worker tells the store afterwards.  The
 * transaction is bound to the term as well (fence.c), which also prevents its
 * PREPARE.
 *
 * src/sql/xact.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "lib/ilist.h"
#include "utils/memutils.h"

#include "shmem/leases.h"
#include "shmem/requests.h"
#include "sql/session.h"
#include "sql/xact.h"

typedef struct Held
{
	slist_node	node;
	SubTransactionId subxact;
	uint64		token;
	char		election[LE_MAX_ELECTION_LEN + 1];
} Held;

/* End the leases taken in this subtransaction, or in all of them. */
static void
give_up_leases(SubTransactionId subxact)
{
	slist_mutable_iter iter;
	bool		any = false;

	slist_foreach_modify(iter, &le_session->held)
	{
		Held	   *h = slist_container(Held, node, iter.cur);

		if (subxact != InvalidSubTransactionId && h->subxact != subxact)
			continue;
		le_give_up_term(h->election, h->token);
		slist_delete_current(&iter);
		pfree(h);
		any = true;
	}
	if (any)
		le_hint_worker();
}

static void
at_xact_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
			give_up_leases(InvalidSubTransactionId);
			Assert(slist_is_empty(&le_session->held));
			break;
		default:
			break;
	}
}

static void
at_subxact_end(SubXactEvent event, SubTransactionId mine,
			   SubTransactionId parent, void *arg)
{
	slist_iter	iter;

	if (event == SUBXACT_EVENT_ABORT_SUB)
		give_up_leases(mine);
	if (event != SUBXACT_EVENT_COMMIT_SUB)
		return;
	slist_foreach(iter, &le_session->held)
	{
		Held	   *h = slist_container(Held, node, iter.cur);

		if (h->subxact == mine)
			h->subxact = parent;
	}
}

/* Called before asking for a lease: nothing may fail after it is granted. */
void
le_xact_prepare(void)
{
	if (le_session->spare == NULL)
		le_session->spare = MemoryContextAlloc(TopMemoryContext, sizeof(Held));
	if (le_session->registered)
		return;
	RegisterXactCallback(at_xact_end, NULL);
	RegisterSubXactCallback(at_subxact_end, NULL);
	le_session->registered = true;
}

static Held *
find_held(const char *election)
{
	slist_iter	iter;

	slist_foreach(iter, &le_session->held)
	{
		Held	   *h = slist_container(Held, node, iter.cur);

		if (strcmp(h->election, election) == 0)
			return h;
	}
	return NULL;
}

/*
 * The transaction holds this term now; a second call is harmless.  An earlier
 * term of the election has been released already.  Cannot fail, since
 * le_xact_prepare() was called before.
 */
void
le_xact_holds(const char *election, uint64 token)
{
	Held	   *h = find_held(election);

	Assert(token != 0);
	if (h == NULL)
	{
		Assert(le_session->spare != NULL);
		h = le_session->spare;
		le_session->spare = NULL;
		strlcpy(h->election, election, sizeof(h->election));
		slist_push_head(&le_session->held, &h->node);
	}
	else if (h->token == token)
		return;
	h->subxact = GetCurrentSubTransactionId();
	h->token = token;
}
