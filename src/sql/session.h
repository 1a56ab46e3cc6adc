/*-------------------------------------------------------------------------
 *
 * session.h
 *		The state of a session: its bindings, leases and claims.
 *
 * It is behind a pointer, since the simulator has many sessions in one
 * process.
 *
 * src/sql/session.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_SQL_SESSION_H
#define LE_SQL_SESSION_H

#include "lib/ilist.h"

#include "sql/cancel.h"

typedef struct LeSession
{
	/* fence.c */
	dlist_head	bindings;		/* zeroes are empty lists */
	bool		ending;			/* between the check at commit and the end of
								 * the transaction */
	bool		marked;			/* the same, as marked in bound.c */
	ErrorContextCallback explainer; /* explains the cancel of a commit */
	bool		explaining;
	int			copies;			/* registrations of the callback beside the
								 * oldest */
	LeStop		stopped;		/* the term for which the outermost statement
								 * was stopped; "": none */

	/* xact.c */
	slist_head	held;			/* leases of the transaction */
	struct Held *spare;			/* for the next lease */
	bool		registered;		/* the callbacks */

	/* jobs.c */
	slist_head	claims;
} LeSession;

extern LeSession *le_session;

#endif							/* LE_SQL_SESSION_H */
