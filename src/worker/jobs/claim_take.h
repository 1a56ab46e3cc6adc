/*-------------------------------------------------------------------------
 *
 * claim_take.h
 *		A tick is claimed, if the job's record and the term allow it.
 *
 * src/worker/jobs/claim_take.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CLAIM_TAKE_H
#define LE_CLAIM_TAKE_H

#include "shmem/requests.h"
#include "worker/base/context.h"

typedef struct LeNewJobs LeNewJobs;

extern LeNewJobs *le_new_jobs_new(void);
extern void le_ask_claim(LeWorker *w, int proc, uint64 number,
						 const LeAsk *ask);

#endif							/* LE_CLAIM_TAKE_H */
