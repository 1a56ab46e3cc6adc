/*-------------------------------------------------------------------------
 *
 * fence.c
 *		Transactions bound to a term: refused at commit once it is over.
 *
 * A transaction that asked for the gate, or took an election in scope
 * "transaction", is bound to the term that it found.  When it is about to
 * commit the same term must still hold, with commit_margin left.  It stays
 * bound until the commit or the abort is done, not only until the check.
 *
 * The check must come before the commit work of other extensions: postgres_fdw
 * commits its remote transactions in the same kind of callback, and a fence
 * that fails after that has failed for the remote rows.  PostgreSQL calls the
 * newest callback first, so while something is bound ours is registered anew
 * after each statement (statement.c), and is the newest when the last one is
 * done.
 *
 * src/fence.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "lib/ilist.h"
#include "utils/memutils.h"

#include "fence.h"
#include "requests.h"

typedef struct Binding
{
	dlist_node	node;
	bool		standing;		/* outlives its transaction */
	SubTransactionId subxact;	/* else: ends with its rollback */
	int			number;			/* of the election's slot */
	uint64		token;
	LeOnLoss	on_loss;
	char		election[LE_MAX_ELECTION_LEN + 1];
} Binding;

static dlist_head bindings = DLIST_STATIC_INIT(bindings);

/* Between the check at commit and the end of the transaction. */
static bool ending = false;

static void at_xact_end(XactEvent event, void *arg);

/* ---- the term that a binding names ---- */

typedef enum Standing
{
	HOLDS,
	OVER,						/* ended, or another has begun */
	EXPIRED,
	TOO_LATE					/* less than the time asked for is left */
} Standing;

/*
 * How does the term stand?  The clock is read last: reading it before the
 * deadline would let a pause in between make an old instant meet a deadline
 * that it is not entitled to.
 */
static Standing
term_stands(int number, const char *election, uint64 token,
			le_duration needed, le_duration *left)
{
	LeTerm		term;

	*left = 0;
	if (!le_read_term_at(number, election, &term) || term.token != token ||
		!le_is_mine(term.owner))
		return OVER;
	*left = term.deadline - le_now();
	if (*left <= 0)
		return EXPIRED;
	return *left > needed ? HOLDS : TOO_LATE;
}

/* Why the slot says that the term is over. */
static const char *
why_over(int number, const char *election)
{
	LeSlot	   *copy = palloc(sizeof(LeSlot));

	if (number >= 0 && le_copy_slot(number, copy) &&
		strcmp(copy->name, election) == 0 &&
		copy->last_reason != LE_REASON_NONE)
		return le_reason_name(copy->last_reason);
	return "the term is over";
}

static void
raise_lost(int number, const char *election, uint64 token,
		   Standing standing, le_duration left)
{
	int			ms = (int) (left / LE_MSEC);

	ereport(ERROR,
			(errcode(LE_ERRCODE_LOST),
			 errmsg("no longer leader of election \"%s\"", election),
			 standing == TOO_LATE ?
			 errdetail("The transaction is bound to the term with fencing token " UINT64_FORMAT ", whose deadline is %d ms away, less than commit_margin (%d ms).",
					   token, ms, le_commit_margin) :
			 standing == EXPIRED ?
			 errdetail("The transaction is bound to the term with fencing token " UINT64_FORMAT ", whose deadline passed %d ms ago.",
					   token, -ms) :
			 errdetail("The transaction is bound to the term with fencing token " UINT64_FORMAT ": %s.",
					   token, why_over(number, election))));
}

static void
check(const Binding *b)
{
	le_duration left;
	Standing	standing = term_stands(b->number, b->election, b->token,
									   le_commit_margin * LE_MSEC, &left);

	if (standing != HOLDS)
		raise_lost(b->number, b->election, b->token, standing, left);
}

bool
le_fence_would_pass(const char *election, uint64 token)
{
	le_duration left;

	return term_stands(le_find_term(election), election, token,
					   le_commit_margin * LE_MSEC, &left) == HOLDS;
}

/* ---- bindings ---- */

static Binding *
find_binding(const char *election)
{
	dlist_iter	iter;

	dlist_foreach(iter, &bindings)
	{
		Binding    *b = dlist_container(Binding, node, iter.cur);

		if (strcmp(b->election, election) == 0)
			return b;
	}
	return NULL;
}

static void
remove_binding(Binding *b)
{
	dlist_delete(&b->node);
	pfree(b);
}

static Binding *
add_binding(const char *election, uint64 token, LeOnLoss on_loss)
{
	Binding    *b = MemoryContextAllocZero(TopMemoryContext, sizeof(Binding));

	b->subxact = GetCurrentSubTransactionId();
	b->number = le_find_term(election);
	b->token = token;
	b->on_loss = on_loss;
	strlcpy(b->election, election, sizeof(b->election));
	dlist_push_tail(&bindings, &b->node);
	return b;
}

/* Of all that was asked for the strictest counts. */
static void
tighten(Binding *b, LeOnLoss on_loss)
{
	b->on_loss = Max(b->on_loss, on_loss);
}

/* ---- the ends of transactions ---- */

static void
check_all(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &bindings)
		check(dlist_container(Binding, node, iter.cur));
}

static void
refuse_prepare(void)
{
	Binding    *b;

	if (dlist_is_empty(&bindings))
		return;
	b = dlist_head_element(Binding, node, &bindings);
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot PREPARE a transaction that is bound to a term of election \"%s\"",
					b->election)));
}

static void
unbind(void)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &bindings)
	{
		Binding    *b = dlist_container(Binding, node, iter.cur);

		if (!b->standing)
			remove_binding(b);
	}
}

static void
at_xact_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			ending = true;
			check_all();
			break;
		case XACT_EVENT_PRE_PREPARE:
			refuse_prepare();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
			ending = false;
			unbind();
			break;
		default:
			break;
	}
}

/*
 * A rollback to a savepoint undoes what was done under the gate since, and
 * ends the binding with it, as it ends a lease in scope "transaction".
 */
static void
at_subxact_end(SubXactEvent event, SubTransactionId mine,
			   SubTransactionId parent, void *arg)
{
	dlist_mutable_iter iter;

	if (event != SUBXACT_EVENT_ABORT_SUB && event != SUBXACT_EVENT_COMMIT_SUB)
		return;
	dlist_foreach_modify(iter, &bindings)
	{
		Binding    *b = dlist_container(Binding, node, iter.cur);

		if (b->standing || b->subxact != mine)
			continue;
		if (event == SUBXACT_EVENT_ABORT_SUB)
			remove_binding(b);
		else
			b->subxact = parent;
	}
}

bool
le_fence_binds(void)
{
	return !dlist_is_empty(&bindings);
}

/*
 * Make our callback the one that is called first.  Not while callbacks are
 * being called: the list of them must stand still then.  Were one that is
 * newer than ours to run statements of its own at commit, we would be among
 * those still to come and not know it; so the old entry goes before the new
 * one comes, which then gets the same piece of memory and leads nowhere else.
 */
void
le_fence_be_newest(void)
{
	if (ending)
		return;
	UnregisterXactCallback(at_xact_end, NULL);
	RegisterXactCallback(at_xact_end, NULL);
}

void
le_fence_prepare(void)
{
	static bool registered = false;

	if (!registered)
	{
		RegisterXactCallback(at_xact_end, NULL);
		RegisterSubXactCallback(at_subxact_end, NULL);
		registered = true;
	}
	le_fence_be_newest();
}

/* ---- binding ---- */

static void
check_on_loss(LeOnLoss on_loss)
{
	LeTiming	timing;
	StringInfoData detail;

	if (on_loss != LE_ON_LOSS_CANCEL)
		return;
	le_configured_timing(&timing);
	initStringInfo(&detail);
	if (!le_explain_cancel_lead(&timing, &detail))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("statements cannot be cancelled in time with these settings"),
				 errdetail_internal("%s", detail.data)));
}

/* What is left when a commit is refused, or before that when it cancels. */
static le_duration
lead(LeOnLoss on_loss)
{
	return (on_loss == LE_ON_LOSS_CANCEL ? le_cancel_lead : le_commit_margin) *
		LE_MSEC;
}

static void
raise_not_leader(const char *election, Standing standing, le_duration left,
				 le_duration min_remaining, LeOnLoss on_loss)
{
	ereport(ERROR,
			(errcode(LE_ERRCODE_NOT_LEADER),
			 errmsg("not leader of election \"%s\"", election),
			 standing == TOO_LATE ?
			 errdetail("The deadline of its term is %d ms away, which leaves less than min_remaining (" INT64_FORMAT " ms) before %s (%d ms).",
					   (int) (left / LE_MSEC), min_remaining / LE_MSEC,
					   on_loss == LE_ON_LOSS_CANCEL ?
					   "cancel_lead" : "commit_margin",
					   (int) (lead(on_loss) / LE_MSEC)) :
			 standing == EXPIRED ?
			 errdetail("The deadline of its term passed %d ms ago.",
					   (int) (-left / LE_MSEC)) : 0));
}

uint64
le_fence_bind(const char *election, int64 min_remaining_ms, LeOnLoss on_loss)
{
	int			number = le_find_term(election);
	le_duration min_remaining = min_remaining_ms * LE_MSEC;
	le_duration left;
	Standing	standing = OVER;
	Binding    *b = find_binding(election);
	LeTerm		term;

	check_on_loss(on_loss);
	if (b != NULL)
		check(b);
	if (le_read_term_at(number, election, &term))
		standing = term_stands(number, election, term.token,
							   lead(on_loss) + min_remaining, &left);
	if (standing != HOLDS)
		raise_not_leader(election, standing, left, min_remaining, on_loss);
	if (b == NULL)
	{
		le_fence_prepare();
		b = add_binding(election, term.token, on_loss);
	}
	tighten(b, on_loss);
	return b->token;
}

void
le_fence_set_standing(const char *election, uint64 token, LeOnLoss on_loss)
{
	Binding    *b = find_binding(election);

	check_on_loss(on_loss);
	le_fence_prepare();
	if (b == NULL)
		b = add_binding(election, token, on_loss);
	else
		check(b);
	tighten(b, on_loss);
	b->standing = true;
}

void
le_fence_clear_standing(void)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &bindings)
	{
		Binding    *b = dlist_container(Binding, node, iter.cur);

		if (b->standing)
			remove_binding(b);
	}
}
