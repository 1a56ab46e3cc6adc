/*-------------------------------------------------------------------------
 *
 * fence.c
 *		Transactions bound to a term: refused at commit once it is over.
 *
 * A transaction that passed the gate, or took an election in scope
 * "transaction", is bound to the present term.  At commit the same term must
 * still hold, with commit_margin left.  The transaction stays bound until the
 * commit or the abort is done, not only until the check.
 *
 * One registration of the checking callback is as old as the process, so it
 * sees every commit.  But the check must come before the commit work of other
 * extensions: postgres_fdw commits its remote transactions in such a callback,
 * and a later check would be too late for the remote rows.  PostgreSQL calls
 * the newest callback first, so while a transaction is bound our callback is
 * registered again after each statement (statement.c), and is the newest after
 * the last one.
 *
 * The oldest registration checks again, after most other extensions.  From the
 * first check to the commit record the session watches its terms, with or
 * without cancel on loss: PostgreSQL and others may wait there for any time.
 * bound.c has a mark for this, so that a term being given up waits for commits
 * that have passed the check.
 *
 * A term that is given up in good order continues for the transactions bound
 * to it, and for no others; bound.c counts them.
 *
 * A binding may also ask to be stopped in time (cancel.c).  So may a session
 * that holds a term in its own name, without being bound.
 *
 * src/sql/fence.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "lib/ilist.h"
#include "utils/memutils.h"

#include "shmem/bound.h"
#include "shmem/events.h"
#include "shmem/progress.h"
#include "shmem/requests.h"
#include "shmem/stats.h"
#include "sql/arguments.h"
#include "sql/cancel.h"
#include "sql/fence.h"
#include "sql/session.h"

typedef enum Kind
{
	BOUND,						/* the transaction */
	STANDING,					/* this transaction and all later ones */
	HOLDING						/* the session holds the term; not bound */
} Kind;

typedef struct Binding
{
	dlist_node	node;
	Kind		kind;
	SubTransactionId subxact;	/* BOUND: ends with its rollback */
	int			entry;			/* in bound.c; -1: not bound */
	le_time		checked_at;		/* the last check that found the term held */
	LeStop		stop;			/* the term */
} Binding;

/* Tells the registration that is as old as the process from its copies. */
#define OLDEST ((void *) le_session)

/* The number of copies that is worth a risk to reduce. */
#define MANY_COPIES 64

/* ---- the term that a binding names ---- */

typedef enum Standing
{
	HOLDS,
	OVER,						/* ended, or another has begun */
	GIVEN_UP,					/* about to end: goes on for others at most */
	EXPIRED,
	TOO_LATE					/* less than the needed time is left */
} Standing;

/*
 * How does the term stand?  The clock must be read after the deadline:
 * otherwise, after a pause in between, an old instant would meet a newer
 * deadline.
 */
static Standing
term_stands(int number, const char *election, uint64 token, bool bound,
			le_duration needed, le_duration *left, le_time *now)
{
	LeTerm		term;

	*left = 0;
	if (!le_read_term_at(number, election, &term) || term.token != token ||
		!le_is_mine(term.owner))
		return OVER;
	*now = le_now();
	*left = term.deadline - *now;
	if (*left <= 0)
		return EXPIRED;
	if (term.drain_until != 0 && (!bound || *now >= term.drain_until))
		return GIVEN_UP;
	return *left > needed ? HOLDS : TOO_LATE;
}

/* The reason for the term's end, from its slot. */
static const char *
why_over(int number, const char *election, uint64 token)
{
	LeSlot	   *copy = palloc(sizeof(LeSlot));

	if (number < 0 || !le_copy_slot(number, copy) ||
		strcmp(copy->name, election) != 0)
		return "the term is over";
	if (pg_atomic_read_u64(&copy->term.token) == token)
		return "given up";
	if (pg_atomic_read_u64(&copy->term.token) != 0)
		return "a later term has begun";
	return le_reason_name(copy->view.last_reason);
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
			 standing == GIVEN_UP ?
			 errdetail("The transaction is bound to the term with fencing token " UINT64_FORMAT ", which is given up, and was waited for.",
					   token) :
			 errdetail("The transaction is bound to the term with fencing token " UINT64_FORMAT ": %s.",
					   token, why_over(number, election, token))));
}

/* The reason for the stop, to follow the token in a message. */
static const char *
why_stopped(const LeStop *stop)
{
	LeTerm		term;

	if (le_read_term_at(stop->number, stop->election, &term) &&
		term.token == stop->token && term.drain_until != 0)
		return "it is given up, and was waited for";
	if (le_read_term_at(stop->number, stop->election, &term) &&
		term.token == stop->token)
		return stop->cancels ?
			psprintf("its deadline came closer than cancel_lead (%d ms)",
					 le_cancel_lead) :
			psprintf("its deadline came closer than commit_margin (%d ms)",
					 le_commit_margin);
	return why_over(stop->number, stop->election, stop->token);
}

static char *
stop_message(const LeStop *stop)
{
	return psprintf("canceling statement due to loss of election \"%s\"",
					stop->election);
}

static char *
stop_detail(const LeStop *stop)
{
	return psprintf("The term with fencing token " UINT64_FORMAT ": %s.",
					stop->token, why_stopped(stop));
}

static void
note_abort(const LeStop *stop)
{
	le_stat_count(stop->election, LE_STAT_FENCE_ABORTS);
	le_event(LE_EVENT_FENCE_ABORTED, stop->election, stop->token, NULL);
}

static void
check(Binding *b)
{
	const LeStop *stop = &b->stop;
	Standing	standing = HOLDS;
	le_duration left;

	if (stop->fired)
	{
		note_abort(stop);
		ereport(ERROR,
				(errcode(LE_ERRCODE_LOST),
				 errmsg_internal("%s", stop_message(stop)),
				 errdetail_internal("%s", stop_detail(stop))));
	}
	if (b->kind != HOLDING)
		standing = term_stands(stop->number, stop->election, stop->token, true,
							   le_commit_margin * LE_MSEC, &left,
							   &b->checked_at);
	if (standing != HOLDS)
	{
		note_abort(stop);
		raise_lost(stop->number, stop->election, stop->token, standing, left);
	}
}

/* ---- bindings ---- */

/* The transaction's binding, or with "holding" the session's. */
static Binding *
find_binding(const char *election, bool holding)
{
	dlist_iter	iter;

	dlist_foreach(iter, &le_session->bindings)
	{
		Binding    *b = dlist_container(Binding, node, iter.cur);

		if ((b->kind == HOLDING) == holding &&
			strcmp(b->stop.election, election) == 0)
			return b;
	}
	return NULL;
}

static void
note_stop(const Binding *b)
{
	if (b->stop.fired)
		le_session->stopped = b->stop;
}

/* After the list has changed; not during a commit without bindings. */
static void
resume_watch(void)
{
	if (!le_session->ending || le_session->marked)
		le_cancel_resume();
}

/* The caller calls resume_watch() afterwards. */
static void
remove_binding(Binding *b)
{
	Assert((b->kind == HOLDING) == (b->entry < 0));
	note_stop(b);
	le_cancel_unwatch(&b->stop);
	if (b->entry >= 0)
	{
		le_bound_leave(b->entry);
		if (pg_atomic_read_u64(&le_slot(b->stop.number)->term.drain_until) !=
			0)
			le_hint_worker();
	}
	else if (b->kind == HOLDING)
		le_bound_holds(-1);
	dlist_delete(&b->node);
	pfree(b);
}

static void
enter(Binding *b)
{
	b->entry = le_bound_enter(b->stop.number, b->stop.token);
	if (b->entry >= 0)
	{
		le_bound_stops(b->entry, b->stop.cancels);
		return;
	}
	pfree(b);
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("a transaction cannot be bound to more than %d elections",
					LE_MAX_BOUND)));
}

static Binding *
add_binding(Kind kind, const char *election, uint64 token, LeOnLoss on_loss)
{
	Binding    *b = MemoryContextAllocZero(TopMemoryContext, sizeof(Binding));

	Assert(token != 0);
	Assert(find_binding(election, kind == HOLDING) == NULL);
	b->kind = kind;
	b->subxact = GetCurrentSubTransactionId();
	b->stop.number = le_find_term(election);
	b->stop.token = token;
	b->stop.cancels = on_loss == LE_ON_LOSS_CANCEL;
	b->stop.in_xact_only = kind == HOLDING;
	b->entry = -1;
	strlcpy(b->stop.election, election, sizeof(b->stop.election));
	if (kind == HOLDING)
		le_bound_holds(1);
	else
		enter(b);
	dlist_push_tail(&le_session->bindings, &b->node);
	le_cancel_watch(&b->stop);
	return b;
}

/* The strictest on_loss of all calls counts. */
static void
tighten(Binding *b, LeOnLoss on_loss)
{
	Assert(b->kind != HOLDING);
	if (on_loss != LE_ON_LOSS_CANCEL || b->stop.cancels)
		return;
	le_cancel_prepare(true);
	le_cancel_pause();
	b->stop.cancels = true;
	le_bound_stops(b->entry, true);
	resume_watch();
}

/* ---- the ends of transactions ---- */

/* Also finds a cancel from before. */
static void
check_all(void)
{
	dlist_iter	iter;

	le_cancel_pause();
	dlist_foreach(iter, &le_session->bindings)
		check(dlist_container(Binding, node, iter.cur));
}

/*
 * An error on the way to the commit: if it is our cancel, report the loss.  No
 * statement is running that could report it, or catch the error.
 */
static void
explain_commit(void *arg)
{
	dlist_iter	iter;

	if (!le_session->ending || geterrcode() != ERRCODE_QUERY_CANCELED)
		return;
	dlist_foreach(iter, &le_session->bindings)
	{
		const LeStop *stop = &dlist_container(Binding, node, iter.cur)->stop;

		if (!stop->fired)
			continue;
		errcode(LE_ERRCODE_LOST);
		errmsg_internal("%s", stop_message(stop));
		errdetail_internal("%s", stop_detail(stop));
		le_stat_count(stop->election, LE_STAT_CANCELS);
		le_event(LE_EVENT_CANCELED, stop->election, stop->token, "%s",
				 why_stopped(stop));
		return;
	}
}

static void
explain_errors(bool yes)
{
	if (yes && !le_session->explaining)
	{
		le_session->explainer.callback = explain_commit;
		le_session->explainer.previous = error_context_stack;
		error_context_stack = &le_session->explainer;
	}
	else if (!yes && error_context_stack == &le_session->explainer)
		error_context_stack = le_session->explainer.previous;
	le_session->explaining = yes;
}

/*
 * The commit begins.  The mark precedes the check: the worker reads it when
 * drain_timeout is over, and no check passes from then on, so one of the two
 * sees the other.
 */
static void
begin_commit(void)
{
	le_session->ending = true;
	le_cancel_pause();
	if (dlist_is_empty(&le_session->bindings))
		return;
	le_session->marked = true;
	le_bound_commits(true);
	explain_errors(true);
	check_all();
	le_cancel_commit(LE_COMMIT_CHECKED);
	le_cancel_resume();
}

/* Our last call before the commit record. */
static void
check_again(void)
{
	Assert(le_session->ending);
	if (le_session->marked)
		check_all();
	le_cancel_commit(LE_COMMIT_LAST);
	resume_watch();
}

static void
end_commit(void)
{
	le_session->ending = false;
	le_cancel_pause();
	le_cancel_commit(LE_COMMIT_NONE);
	explain_errors(false);
	if (le_session->marked)
		le_bound_commits(false);
	le_session->marked = false;
}

/*
 * A commit under the gate is progress in its term, as of the check, if the
 * term still holds; see le_note_progress().
 */
static void
note_progress(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &le_session->bindings)
	{
		const Binding *b = dlist_container(Binding, node, iter.cur);
		LeTerm		term;

		if (b->kind != HOLDING &&
			le_read_term_at(b->stop.number, b->stop.election, &term) &&
			term.token == b->stop.token)
			le_note_progress(b->stop.number, b->checked_at);
	}
}

/* A prepared transaction could be committed by any session at any time. */
static void
refuse_prepare(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &le_session->bindings)
	{
		Binding    *b = dlist_container(Binding, node, iter.cur);

		if (b->kind != HOLDING)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction that is bound to a term of election \"%s\"",
							b->stop.election)));
	}
}

/* A session is not canceled for a term that is over. */
static void
let_go(Binding *b)
{
	LeTerm		term;

	if (!le_read_term_at(b->stop.number, b->stop.election, &term) ||
		term.token != b->stop.token)
	{
		remove_binding(b);
		return;
	}
	note_stop(b);
	if (b->stop.fired)
		le_cancel_excuse(&b->stop);
}

static void
unbind(void)
{
	dlist_mutable_iter iter;

	le_cancel_pause();
	dlist_foreach_modify(iter, &le_session->bindings)
	{
		Binding    *b = dlist_container(Binding, node, iter.cur);

		if (b->kind == BOUND)
			remove_binding(b);
		else if (b->kind == HOLDING)
			let_go(b);
	}
	resume_watch();
}

/*
 * The newest registration checks before other extensions commit anything, and
 * the oldest checks again.  If the term ended in between, aborting is better
 * even though the others may have committed.
 */
static void
at_xact_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (!le_session->ending)
				begin_commit();
			if (arg == OLDEST)
				check_again();
			break;
		case XACT_EVENT_PRE_PREPARE:
			if (le_session->ending)
				break;
			refuse_prepare();
			le_session->ending = true;
			check_all();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			if (event == XACT_EVENT_COMMIT)
				note_progress();
			if (le_session->ending)
				end_commit();
			unbind();
			break;
		default:
			break;
	}
}

/*
 * A rollback to a savepoint undoes the work under the gate since then, and
 * with it ends the binding, as it ends a lease in scope "transaction".
 */
static void
at_subxact_end(SubXactEvent event, SubTransactionId mine,
			   SubTransactionId parent, void *arg)
{
	dlist_mutable_iter iter;

	if (event != SUBXACT_EVENT_ABORT_SUB && event != SUBXACT_EVENT_COMMIT_SUB)
		return;
	dlist_foreach_modify(iter, &le_session->bindings)
	{
		Binding    *b = dlist_container(Binding, node, iter.cur);

		if (b->kind != BOUND || b->subxact != mine)
			continue;
		if (event == SUBXACT_EVENT_COMMIT_SUB)
		{
			b->subxact = parent;
			continue;
		}
		remove_binding(b);
		resume_watch();
	}
}

/* In the postmaster: every process inherits its registrations. */
void
le_fence_install(void)
{
	RegisterXactCallback(at_xact_end, OLDEST);
	RegisterSubXactCallback(at_subxact_end, NULL);
}

/* Is there anything to do at the end of a statement? */
bool
le_fence_attends(void)
{
	return le_session->copies > 0 || !dlist_is_empty(&le_session->bindings);
}

static void
add_copy(void)
{
	RegisterXactCallback(at_xact_end, NULL);
	le_session->copies++;
}

/*
 * Make our callback the first that is called.
 *
 * No entry may leave the list of callbacks while PostgreSQL walks it.  Another
 * extension's callback, newer than ours, may run statements during a commit,
 * and these look to us like any others.  Removing an entry then would skip our
 * check, if PostgreSQL looks for the next entry after the call (15), or call
 * the other callback again from our entry's memory (16).  Adding one is
 * harmless.  So entries are removed only if "no_commit" excludes a commit, and
 * stay until then.  As a loop can add millions, "hardly_commit" is enough if
 * there are many.
 */
void
le_fence_be_newest(bool no_commit, bool hardly_commit)
{
	bool		clear = no_commit ||
		(hardly_commit && le_session->copies >= MANY_COPIES);

	if (le_session->ending)
		return;
	for (; clear && le_session->copies > 0; le_session->copies--)
		UnregisterXactCallback(at_xact_end, NULL);
	if (!dlist_is_empty(&le_session->bindings))
		add_copy();
}

/*
 * The steps of a binding that may fail, before there is one.  Only the first
 * binding needs a registration: the end of its statement makes it the newest.
 */
void
le_fence_prepare(LeOnLoss on_loss)
{
	le_cancel_prepare(on_loss == LE_ON_LOSS_CANCEL);
	if (!le_session->ending &&
		(le_session->copies == 0 ||
		 (dlist_is_empty(&le_session->bindings) &&
		  le_session->copies < MANY_COPIES)))
		add_copy();
}

/* ---- the error of a cancel ---- */

void
le_fence_forget_stop(void)
{
	le_session->stopped.election[0] = '\0';
}

/*
 * Inside, a cancel is PostgreSQL's own, which WHEN OTHERS does not catch.  The
 * outermost statement reports it as leadership lost.
 */
void
le_fence_explain_cancel(ErrorData *error)
{
	dlist_iter	iter;

	if (error->sqlerrcode != ERRCODE_QUERY_CANCELED)
		return;
	dlist_foreach(iter, &le_session->bindings)
		note_stop(dlist_container(Binding, node, iter.cur));
	if (le_session->stopped.election[0] == '\0')
		return;
	error->sqlerrcode = LE_ERRCODE_LOST;
	error->message = stop_message(&le_session->stopped);
	error->detail = stop_detail(&le_session->stopped);
	le_stat_count(le_session->stopped.election, LE_STAT_CANCELS);
	le_event(LE_EVENT_CANCELED, le_session->stopped.election,
			 le_session->stopped.token, "%s",
			 why_stopped(&le_session->stopped));
}

/* ---- binding ---- */

void
le_fence_check_on_loss(LeOnLoss on_loss)
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
				 errmsg("statements cannot be canceled in time with these settings"),
				 errdetail_internal("%s", detail.data)));
	le_cancel_prepare(true);
}

/* The time before the deadline at which commits are refused, or canceled. */
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
	const char *instead = standing == OVER ? le_leader_instead(election) : "";

	le_stat_count(election, LE_STAT_GATE_REFUSED);
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
					   (int) (-left / LE_MSEC)) :
			 standing == GIVEN_UP ?
			 errdetail("This node is giving it up.") :
			 errdetail_internal("%s", instead)));
}

/* Does the term allow new work now? */
static void
pass_gate(int number, const char *election, uint64 token,
		  le_duration min_remaining, LeOnLoss on_loss)
{
	le_duration left = 0;
	le_time		now;
	Standing	standing = OVER;

	if (token != 0)
		standing = term_stands(number, election, token, false,
							   lead(on_loss) + min_remaining, &left, &now);
	if (standing != HOLDS)
		raise_not_leader(election, standing, left, min_remaining, on_loss);
}

/* A new binding, made before the last check: see bound.c. */
static Binding *
bind_transaction(int number, const char *election, le_duration min_remaining,
				 LeOnLoss on_loss)
{
	LeTerm		term;
	Binding    *b;

	if (!le_read_term_at(number, election, &term))
		term.token = 0;
	pass_gate(number, election, term.token, min_remaining, on_loss);
	le_fence_prepare(on_loss);
	b = add_binding(BOUND, election, term.token, on_loss);
	PG_TRY();
	{
		pass_gate(number, election, term.token, min_remaining, on_loss);
	}
	PG_CATCH();
	{
		remove_binding(b);
		resume_watch();
		PG_RE_THROW();
	}
	PG_END_TRY();
	return b;
}

static Binding *
bind_or_check(const char *election, le_duration min_remaining,
			  LeOnLoss on_loss)
{
	int			number = le_find_term(election);
	Binding    *b = find_binding(election, false);
	le_duration left;
	le_time		now;
	Standing	standing;

	if (b == NULL)
		return bind_transaction(number, election, min_remaining, on_loss);
	check(b);
	standing = term_stands(number, election, b->stop.token, true,
						   lead(on_loss) + min_remaining, &left, &now);
	if (standing != HOLDS)
		raise_not_leader(election, standing, left, min_remaining, on_loss);
	tighten(b, on_loss);
	return b;
}

uint64
le_fence_bind(const char *election, int64 min_remaining_ms, LeOnLoss on_loss)
{
	Binding    *b;

	le_fence_check_on_loss(on_loss);
	if (le_session->ending)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot bind a transaction that is about to commit to a term of election \"%s\"",
						election)));
	b = bind_or_check(election, min_remaining_ms * LE_MSEC, on_loss);
	le_stat_count_slot(b->stop.number, LE_STAT_GATE_PASSED);
	return b->stop.token;
}

void
le_fence_set_standing(const char *election, uint64 token, LeOnLoss on_loss)
{
	Binding    *b = find_binding(election, false);

	le_fence_check_on_loss(on_loss);
	le_fence_prepare(on_loss);
	if (b == NULL)
		b = add_binding(STANDING, election, token, on_loss);
	else
		check(b);
	tighten(b, on_loss);
	b->kind = STANDING;
}

static void
remove_bindings(Kind kind)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &le_session->bindings)
	{
		Binding    *b = dlist_container(Binding, node, iter.cur);

		if (b->kind == kind)
			remove_binding(b);
	}
	resume_watch();
}

void
le_fence_clear_standing(void)
{
	remove_bindings(STANDING);
}

uint64
le_fence_token(const char *election)
{
	const Binding *b = find_binding(election, false);

	return b == NULL ? 0 : b->stop.token;
}

bool
le_fence_stopped(const char *election)
{
	const Binding *b = find_binding(election, false);

	return b != NULL && b->stop.fired;
}

/* The session holds this term now; on_loss decides whether it is stopped. */
void
le_fence_hold(const char *election, uint64 token, LeOnLoss on_loss)
{
	Binding    *b = find_binding(election, true);

	if (b != NULL && b->stop.token == token &&
		b->stop.cancels == (on_loss == LE_ON_LOSS_CANCEL))
		return;
	if (b != NULL)
		remove_binding(b);
	if (on_loss == LE_ON_LOSS_CANCEL)
		(void) add_binding(HOLDING, election, token, on_loss);
	resume_watch();
}

void
le_fence_hold_nothing(void)
{
	remove_bindings(HOLDING);
}

/*
 * The session itself ends terms: it must not be stopped for those that it
 * holds, nor for others while it waits for the store's answer.
 */
void
le_fence_leave_begin(int slot)
{
	le_bound_do_not_wait(slot);
	le_cancel_pause();
}

void
le_fence_leave_end(void)
{
	dlist_mutable_iter iter;

	le_bound_do_not_wait(LE_BOUND_NONE);
	dlist_foreach_modify(iter, &le_session->bindings)
	{
		Binding    *b = dlist_container(Binding, node, iter.cur);

		if (b->kind == HOLDING)
			let_go(b);
	}
	resume_watch();
}
