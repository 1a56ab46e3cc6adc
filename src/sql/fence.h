/*-------------------------------------------------------------------------
 *
 * fence.h
 *		Transactions bound to a term: refused at commit once it is over.
 *
 * src/sql/fence.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_FENCE_H
#define LE_FENCE_H

#include "settings.h"

/*
 * Bind the transaction to the present term of the election and return its
 * fencing token.  Raises LE001 if the caller does not lead, or not for
 * min_remaining_ms more; LE002 if the transaction is bound to an earlier term
 * of the election.
 */
extern uint64 le_fence_bind(const char *election, int64 min_remaining_ms,
							LeOnLoss on_loss);

/* Raises if a cancel is impossible, or too late with these settings. */
extern void le_fence_check_on_loss(LeOnLoss on_loss);

/* The steps that can fail, once per session, before it asks for a lease. */
extern void le_fence_prepare(LeOnLoss on_loss);

/*
 * From here until le_fence_clear_standing(), every transaction of this
 * session is bound to the term.  Clear it after the last of them has
 * committed, or when an error ends it: the open transaction is not bound.
 */
extern void le_fence_set_standing(const char *election, uint64 token,
								  LeOnLoss on_loss);
extern void le_fence_clear_standing(void);

/* The token of the term that binds the transaction; 0: there is none. */
extern uint64 le_fence_token(const char *election);

/* Is the session being stopped for the end of a term that binds it? */
extern bool le_fence_stopped(const char *election);

/* The session holds a term in its own name; cancel it when that ends. */
extern void le_fence_hold(const char *election, uint64 token,
						  LeOnLoss on_loss);

/* The session holds no term any more that could stop it. */
extern void le_fence_hold_nothing(void);

/*
 * Around a call in which the session itself ends the term in this slot, or in
 * all slots (bound.h).
 */
extern void le_fence_leave_begin(int slot);
extern void le_fence_leave_end(void);

/* When the library is loaded, before anything else. */
extern void le_fence_install(void);

/* for statement.c */
extern bool le_fence_attends(void);
extern void le_fence_be_newest(bool no_commit, bool hardly_commit);
extern void le_fence_forget_stop(void);
extern void le_fence_explain_cancel(ErrorData *error);

#endif							/* LE_FENCE_H */
