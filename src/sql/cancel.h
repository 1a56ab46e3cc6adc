/*-------------------------------------------------------------------------
 *
 * cancel.h
 *		Stop in time: cancel this session's statement when its term is over,
 *		or its time.
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
 * A term at whose end this session is to stop, or a time limit (run.c).  Owned
 * by who watches it, read by a signal handler meanwhile.
 */
typedef struct LeStop
{
	dlist_node	node;
	le_time		at;				/* not a term's: then, whatever leads; 0: a
								 * term's, to which what follows belongs */
	int			number;			/* of the election's slot */
	uint64		token;
	bool		cancels;		/* before the deadline; else not for that */
	bool		in_xact_only;	/* nothing to stop between transactions */
	bool		missed;			/* the last look found no such term */
	bool		too_late;		/* the statement began after its end */
	volatile sig_atomic_t fired;	/* its transaction must not commit */
	char		election[LE_MAX_ELECTION_LEN + 1];
} LeStop;

/* Where the transaction is on its way to the commit record. */
typedef enum LeCommitStage
{
	LE_COMMIT_NONE,				/* not on its way, or over */
	LE_COMMIT_CHECKED,			/* it is checked once more */
	LE_COMMIT_LAST				/* it is not */
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
