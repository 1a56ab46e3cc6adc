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

extern void le_ask_claim(int proc, uint64 number, const LeAsk *ask);

#endif							/* LE_CLAIM_TAKE_H */
