/*-------------------------------------------------------------------------
 *
 * jobs.h
 *		Ticks of jobs, as a backend claims and ends them.
 *
 * src/sql/jobs.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_JOBS_H
#define LE_JOBS_H

#include "lib/ilist.h"

#include "sql/arguments.h"

/* A tick that this backend has claimed, or may have. */
typedef struct LeMyClaim
{
	slist_node	node;
	char		election[LE_MAX_ELECTION_LEN + 1];
	char		job[LE_MAX_JOB_LEN + 1];	/* UTF-8 */
	int64		tick;			/* ms since 1970-01-01 UTC */
	uint64		token;			/* the term's */
	int			try;
	int64		claimed_at;		/* as known here, in ms */
	bool		ours;			/* the store has confirmed it */
	bool		ending;			/* the worker was asked to tell of its end */
	bool		maybe;			/* a write may be applied or in flight ... */
	bool		otherwise;		/* ... with other options than now */
	bool		catch_up;		/* the options of the first call whose outcome
								 * is unknown */
	LeMissed	missed;
	int			max_missed;
	int64		every;
	int			run;			/* its run's entry in run_registry.c; -1: the
								 * session's */
	uint64		number;			/* ... and number */
	char		id[LE_CLAIM_ID_LEN + 1];
} LeMyClaim;

extern void le_set_job(LeAsk *ask, text *job);
extern int64 le_to_every(Interval *interval);
extern void le_set_due(LeAsk *ask, int64 every);
extern le_duration le_set_wait(LeAsk *ask, Interval *interval);
extern void le_set_missed(LeAsk *ask, text *missed, int32 max_missed);
extern int64 le_to_tick(TimestampTz when);
extern void le_check_not_ahead(TimestampTz tick);
extern LeMyClaim *le_try_claim(LeAsk *ask, const LeTerm *term, bool run,
							   LeReply *reply);
extern void le_end_ask(LeAsk *ask, LeMyClaim *claim, LeClaimState ending);
extern void le_note_run(const LeMyClaim *claim, const LeAsk *ask,
						LeClaimState state, int64 began);
extern void le_forget_claim(LeMyClaim *claim);
extern void le_forget_claims(void);
extern void le_park_claims(void);
extern void le_each_claim(void (*act) (const LeClaimRow *row, void *arg),
						  void *arg);

#endif							/* LE_JOBS_H */
