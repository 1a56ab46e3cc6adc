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
	bool		abandoned;		/* it runs, and its leader's term is over */
	bool		told_abandoned; /* this instance's events have that ... */
	bool		told_late;		/* ... and that the next one is late */
} LeJobRow;

extern Size le_job_snapshot_size(void);
extern void le_job_snapshot_init(bool found, void *where);

/* in the worker: rows as the store had them at that time or later */
extern void le_job_snapshot_put(const LeJobRow *rows, int nrows,
								le_time as_of);

/* A copy, and as of when; false: there is none. */
extern bool le_job_snapshot_copy(LeJobRow **rows, int *nrows, le_time *as_of);

#endif							/* LE_JOB_SNAPSHOT_H */
