/*-------------------------------------------------------------------------
 *
 * claim_end.h
 *		The end of a claim, and a check if a tick is taken care of.
 *
 * src/worker/jobs/claim_end.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CLAIM_END_H
#define LE_CLAIM_END_H

#include "shmem/requests.h"
#include "worker/base/context.h"

extern void le_ask_complete(LeWorker *w, int proc, uint64 number,
							const LeAsk *ask);
extern void le_ask_look(LeWorker *w, int proc, uint64 number,
						const LeAsk *ask);
extern bool le_claim_is_abandoned(LeWorker *w, const char *election,
								  uint64 token, const char *claim_id);
extern void le_claim_abandon(LeWorker *w, const char *election,
							 const char *job, int64 tick,
							 const char *claim_id);
extern void le_claims_end_abandoned(LeWorker *w);

#endif							/* LE_CLAIM_END_H */
