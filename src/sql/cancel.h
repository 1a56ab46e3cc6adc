/*-------------------------------------------------------------------------
 *
 * cancel.h
 *		Stop in time: cancel this session's statement when its term is over,
 *		or its time limit.
 *
 * src/sql/cancel.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CANCEL_H
#define LE_CANCEL_H

#include <signal.h>

#include "lib/ilist.h"

#include "shmem/leases.h"

/*
 * A term that stops this session when it ends, or a time limit (run.c).  Owned
 * by its watcher, read by a signal handler.
 */
typedef struct LeStop
{
	dlist_node	node;
	le_time		at;				/* a time limit's end; 0: this is a term,
								 * with the fields below */
	int			number;			/* the slot's */
	uint64		token;
	bool		cancels;		/* before the deadline */
	bool		in_xact_only;	/* nothing to stop between transactions */
	bool		missed;			/* the last check found no such term */
	bool		too_late;		/* the statement began after its end */
	volatile sig_atomic_t fired;	/* its transaction must not commit */
	char		election[LE_MAX_ELECTION_LEN + 1];
} LeStop;

/* The stage of the transaction on its way to the commit record. */
typedef enum LeCommitStage
{
	LE_COMMIT_NONE,				/* not on its way, or over */
	LE_COMMIT_CHECKED,			/* one more check follows */
	LE_COMMIT_LAST				/* no check follows */
} LeCommitStage;

extern void le_cancel_prepare(bool cancels);
extern void le_cancel_watch(LeStop *stop);
extern void le_cancel_unwatch(LeStop *stop);
extern void le_cancel_excuse(LeStop *stop);
extern void le_cancel_pause(void);
extern void le_cancel_resume(void);
extern void le_cancel_commit(LeCommitStage stage);
extern void le_cancel_statement_starts(void);
extern void le_cancel_insist(void);

#endif							/* LE_CANCEL_H */
