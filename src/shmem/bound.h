/*-------------------------------------------------------------------------
 *
 * bound.h
 *		Registry of the sessions with transactions bound to a term.
 *
 * src/shmem/bound.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_BOUND_H
#define LE_BOUND_H

#include "shmem/leases.h"

/* The number of terms that may bind one session. */
#define LE_MAX_BOUND	16

#define LE_BOUND_NONE	(-1)	/* no election */
#define LE_BOUND_ALL	(-2)	/* every election */

extern Size le_bound_size(void);
extern void le_bound_init(bool found, void *where);

/* in the postmaster */
extern void le_bound_install(void);

/* in a backend */
extern int	le_bound_signal(void);
extern int	le_bound_enter(int slot, uint64 token);
extern void le_bound_leave(int entry);
extern void le_bound_stops(int entry, bool stops);
extern void le_bound_holds(int change);
extern void le_bound_commits(bool yes);
extern void le_bound_do_not_wait(int slot);

/* in the worker */
extern bool le_bound_to(int slot, uint64 token);
extern bool le_bound_commit_under_way(int slot, uint64 token);
extern void le_bound_nudge(int slot, uint64 token, LeOwner owner, bool all);
extern void le_bound_nudge_all(void);

#endif							/* LE_BOUND_H */
