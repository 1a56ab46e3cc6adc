/*-------------------------------------------------------------------------
 *
 * pending_list.c
 *		Questions of backends until they are answered.
 *
 * There are three kinds: about terms (pending.c), about claims and about all
 * jobs (worker/jobs).  Each kind has a list.  A question leaves it with its
 * reply, or when nobody waits for one any more.
 *
 * src/worker/lead/pending_list.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "settings.h"
#include "shmem/clock.h"
#include "worker/lead/pending_list.h"
#include "worker/wire/dispatch.h"

LePendingList *
le_pending_list_new(Size size, const char *what)
{
	LePendingList *list = MemoryContextAllocZero(TopMemoryContext,
												 sizeof(LePendingList));

	dlist_init(&list->head);
	list->size = size;
	list->what = what;
	return list;
}

/* The caller starts the work on the question. */
LePending *
le_pending_add(LePendingList *list, int proc, uint64 number, const LeAsk *ask)
{
	LePending  *p = MemoryContextAllocZero(TopMemoryContext, list->size);

	p->list = list;
	p->proc = proc;
	p->number = number;
	p->ask = *ask;
	p->slot = -1;
	p->asked = le_now();
	p->outcome = LE_UNAVAILABLE;
	p->give_up = p->asked + 3 * (le_request_timeout * LE_MSEC);
	dlist_push_tail(&list->head, &p->node);
	return p;
}

LePending *
le_pending_in(const LePendingList *list, uint64 number, int proc)
{
	le_foreach_pending(p, list)
		if (p->number == number && p->proc == proc)
			return p;
	return NULL;
}

/* The slot must not get another name while the question is under way. */
void
le_pending_keep_slot(LePending *p, LeSlot *slot)
{
	p->slot = le_slot_number(slot);
	slot->asked++;
}

void
le_pending_drop(LePending *p)
{
	if (p->slot >= 0)
		le_slot(p->slot)->asked--;
	dlist_delete(&p->node);
	if (p->list->release != NULL)
		p->list->release(p);
	pfree(p);
}

/* ---- replies ---- */

/* False: nobody will see the reply. */
bool
le_pending_answer(LePending *p, const LeReply *reply)
{
	bool		seen = le_answer(p->proc, p->number, reply);

	le_pending_drop(p);
	return seen;
}

void
le_reply(LePending *p, LeReplyKind kind)
{
	LeReply		r = {.kind = kind};

	(void) le_pending_answer(p, &r);
}

void
le_reply_error(LePending *p, int sqlstate, const char *message,
			   const char *detail, const char *hint)
{
	LeReply		r = {.kind = LE_REPLY_ERROR, .sqlstate = sqlstate};

	strlcpy(r.message, message, sizeof(r.message));
	strlcpy(r.detail, detail, sizeof(r.detail));
	strlcpy(r.hint, hint, sizeof(r.hint));
	(void) le_pending_answer(p, &r);
}

/* The store could not be read. */
void
le_reply_unread(LeWorker *w, LePending *p, LeOutcome outcome)
{
	char		message[256];

	snprintf(message, sizeof(message),
			 "could not read the %s from the lease store %s", p->list->what,
			 le_store_address(w));
	le_reply_error(p, outcome == LE_REFUSED ? LE_ERRCODE_REFUSED :
				   LE_ERRCODE_UNAVAILABLE, message, le_store_trouble(w), "");
}

/* ---- time passes, and backends go ---- */

static bool
is_wanted(const LePending *p, le_time now)
{
	return p->list->wanted == NULL ? le_still_asked(p->proc, p->number) :
		p->list->wanted(p, now);
}

static le_time
due(LeWorker *w, const LePending *p)
{
	return p->list->due == NULL ? p->give_up : p->list->due(w, p);
}

static void
act(LeWorker *w, LePending *p, le_time now)
{
	if (p->list->act == NULL)
		le_reply_unread(w, p, p->outcome);
	else
		p->list->act(w, p, now);
}

/* Drop the questions that nobody waits for any more. */
void
le_list_withdrawn(LePendingList *list, le_time now)
{
	le_foreach_pending(p, list)
		if (!is_wanted(p, now))
			le_pending_drop(p);
}

void
le_list_run_timers(LeWorker *w, LePendingList *list, le_time now)
{
	le_foreach_pending(p, list)
	{
		le_time		at = due(w, p);

		if (!is_wanted(p, now))
			le_pending_drop(p);
		else if (at != 0 && now >= at)
			act(w, p, now);
	}
}

/* When is the next question due? */
le_time
le_list_timer(LeWorker *w, const LePendingList *list)
{
	le_time		next = 0;

	le_foreach_pending(p, list)
		next = le_earliest(next, due(w, p));
	return next;
}
