/*-------------------------------------------------------------------------
 *
 * job_scan.h
 *		A scan of all jobs: ends of their runs, and runs that are abandoned.
 *
 * src/worker/jobs/job_scan.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_JOB_SCAN_H
#define LE_JOB_SCAN_H

#include "shmem/requests.h"
#include "worker/base/context.h"

typedef struct LeJobScan LeJobScan;

extern LeJobScan *le_job_scan_new(void);
extern void le_ask_jobs(LeWorker *w, int proc, uint64 number,
						const LeAsk *ask);
extern void le_job_scan_run_timers(LeWorker *w);
extern le_time le_job_scan_timer(LeWorker *w);

#endif							/* LE_JOB_SCAN_H */
