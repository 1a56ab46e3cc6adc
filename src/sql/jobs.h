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
#include "storage/dsm.h"

#include "sql/arguments.h"

/* A tick that this backend has claimed, or may have. */
typedef struct LeMyClaim
{
	slist_node	node;
	char		election[LE_MAX_ELECTION_LEN + 1];
	char		job[LE_MAX_JOB_LEN + 1];	/* UTF-8 */
	int64		tick;			/* ms since 1970-01-01 UTC */
	uint64		token;			/* of the term */
	int			try;
	bool		ours;			/* the store has confirmed it */
	bool		maybe;			/* it may have been written, or yet be */
	char		id[LE_CLAIM_ID_LEN + 1];
} LeMyClaim;

extern void le_set_job(LeAsk *ask, text *job);
extern int64 le_to_tick(TimestampTz when);
extern TimestampTz le_from_tick(int64 tick);
extern LeMyClaim *le_try_claim(LeAsk *ask, const LeTerm *term,
							   LeReply *reply);
extern void le_end_ask(LeAsk *ask, const LeMyClaim *claim,
					   LeClaimState ending);
extern void le_forget_claim(LeMyClaim *claim);
extern dsm_segment *le_fetch_claims(int *nrows);

#endif							/* LE_JOBS_H */
