/*-------------------------------------------------------------------------
 *
 * claims.h
 *		The worker's side of claims: ticks of jobs, once each.
 *
 * src/worker/jobs/claims.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CLAIMS_H
#define LE_CLAIMS_H

#include "shmem/requests.h"

extern bool le_asks_for_claim(LeRequestKind kind);
extern void le_claim_question(int proc, uint64 number, const LeAsk *ask);
extern void le_claim_row(LeClaimRow *row, const LeClaim *claim);
extern void le_claims_withdrawn(void);
extern void le_claims_run_timers(void);
extern le_time le_claims_timer(void);

#endif							/* LE_CLAIMS_H */
