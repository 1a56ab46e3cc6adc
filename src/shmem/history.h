/*-------------------------------------------------------------------------
 *
 * history.h
 *		Runs of jobs that this instance has seen: behind le_history().
 *
 * src/shmem/history.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_HISTORY_H
#define LE_HISTORY_H

#include "shmem/job_snapshot.h"

extern Size le_history_size(void);
extern void le_history_init(bool found, void *where);

/* Notes a run; from any process. */
extern void le_history_note(const LeJobRow *run);

/* The newest runs of "election" and "job" (NULL: any), at most so many. */
extern int	le_history_copy(const char *election, const char *job, int most,
							LeJobRow *runs);

#endif							/* LE_HISTORY_H */
