/*-------------------------------------------------------------------------
 *
 * job_callers.h
 *		Who called le_run() for a job on this instance.
 *
 * src/sql/job_callers.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_JOB_CALLERS_H
#define LE_JOB_CALLERS_H

/* Jobs of two roles, or of two databases, are two jobs. */
typedef struct LeCaller
{
	Oid			role;
	Oid			database;
} LeCaller;

typedef struct LeJobCallers
{
	uint64		job;			/* hash of election and name; 0: free */
	uint64		at;				/* number of its last call */
	LeCaller	last;
	LeCaller	other;			/* the last one but this; role 0: none */
	uint8		returns;		/* its last calls, the newest in the lowest
								 * bit: did the other caller come back? */
} LeJobCallers;

extern Size le_job_callers_size(void);
extern void le_job_callers_init(bool found, void *where);

extern bool le_note_caller(const char *election, const char *job,
						   LeCaller caller, LeJobCallers *callers);
extern bool le_copy_callers(const char *election, const char *job,
							LeJobCallers *callers);
extern bool le_callers_clash(const LeJobCallers *callers);

#endif							/* LE_JOB_CALLERS_H */
