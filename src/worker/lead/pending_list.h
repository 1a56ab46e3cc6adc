/*-------------------------------------------------------------------------
 *
 * pending_list.h
 *		Questions of backends until they are answered.
 *
 * src/worker/lead/pending_list.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_PENDING_LIST_H
#define LE_PENDING_LIST_H

#include "lib/ilist.h"

#include "shmem/requests.h"
#include "worker/base/context.h"

/*
 * A backend's question that has not been answered yet.  The first member of a
 * struct with the further fields of its kind.
 */
typedef struct LePending
{
	dlist_node	node;
	struct LePendingList *list;
	int			proc;
	uint64		number;
	LeAsk		ask;
	int			slot;			/* the election's; -1: none */
	le_time		asked;
	le_time		give_up;		/* answer by then, whatever is known */
	LeOutcome	outcome;		/* the last failure's */
} LePending;

/*
 * Questions of one kind, the oldest first.  Without wanted() a question stays
 * as long as its backend waits.  Without due() and act() it stays until
 * give_up; then the reply is that "what" could not be read.
 */
typedef struct LePendingList
{
	dlist_head	head;
	Size		size;			/* a question's */
	bool		(*wanted) (const LePending *p, le_time now);
	le_time		(*due) (LeWorker *w, const LePending *p);	/* 0: nothing is */
	/* that time has come */
	void		(*act) (LeWorker *w, LePending *p, le_time now);
	void		(*release) (LePending *p);	/* its memory; NULL: it has none */
	const char *what;
} LePendingList;

static inline LePending *
le_next_pending(const LePendingList *list, const dlist_node *node)
{
	return node->next == &list->head.head ? NULL :
		dlist_container(LePending, node, node->next);
}

/* Each question of a list; the body may drop the present one. */
#define le_foreach_pending(p, list) \
	for (LePending *p = le_next_pending(list, &(list)->head.head), *p##_next; \
		 p != NULL && (p##_next = le_next_pending(list, &p->node), true); \
		 p = p##_next)

extern LePendingList *le_pending_list_new(Size size, const char *what);
extern LePending *le_pending_add(LePendingList *list, int proc, uint64 number,
								 const LeAsk *ask);
extern LePending *le_pending_in(const LePendingList *list, uint64 number,
								int proc);
extern void le_pending_keep_slot(LePending *p, LeSlot *slot);
extern void le_pending_drop(LePending *p);

/* the end of a question */
extern bool le_pending_answer(LePending *p, const LeReply *reply);
extern void le_reply(LePending *p, LeReplyKind kind);
extern void le_reply_error(LePending *p, int sqlstate, const char *message,
						   const char *detail, const char *hint);
extern void le_reply_unread(LeWorker *w, LePending *p, LeOutcome outcome);

/* time passes, and backends go */
extern void le_list_withdrawn(LePendingList *list, le_time now);
extern void le_list_run_timers(LeWorker *w, LePendingList *list, le_time now);
extern le_time le_list_timer(LeWorker *w, const LePendingList *list);

#endif							/* LE_PENDING_LIST_H */
