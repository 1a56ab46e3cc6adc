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

#endif							/* LE_CLAIM_END_H */
