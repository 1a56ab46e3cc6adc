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

/* A run as it was just seen; by any process. */
extern void le_history_note(const LeJobRow *run);

/* As many of the newest as may be there, of "election" and "job" (NULL: any). */
extern int	le_history_copy(const char *election, const char *job, int most,
							LeJobRow *runs);

#endif							/* LE_HISTORY_H */
