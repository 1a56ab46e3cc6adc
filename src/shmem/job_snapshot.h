/*-------------------------------------------------------------------------
 *
 * job_snapshot.h
 *		All jobs as the worker last saw them in the store: behind le_jobs().
 *
 * src/shmem/job_snapshot.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_JOB_SNAPSHOT_H
#define LE_JOB_SNAPSHOT_H

#include "shmem/requests.h"

typedef struct LeJobRow
{
	LeClaimRow	claim;
	bool		abandoned;		/* running, but its leader's term is over */
	bool		lost;			/* the store has lost the tick's record */
	bool		told_abandoned; /* this instance has an event of that ... */
	bool		told_late;		/* ... and of the next tick being late */
	bool		told_ahead;		/* ... and of the claimant's clock */
	bool		told_lost;		/* ... and of the lost record */
} LeJobRow;

extern Size le_job_snapshot_size(void);
extern void le_job_snapshot_init(bool found, void *where);

/* in the worker: rows read from the store at that time or later */
extern void le_job_snapshot_put(const LeJobRow *rows, int nrows,
								le_time as_of);

/* A copy, and its time; false: there is none. */
extern bool le_job_snapshot_copy(LeJobRow **rows, int *nrows, le_time *as_of);

#endif							/* LE_JOB_SNAPSHOT_H */
