/*-------------------------------------------------------------------------
 *
 * claim_cache.h
 *		The records of jobs that this worker wrote last.
 *
 * src/worker/jobs/claim_cache.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CLAIM_CACHE_H
#define LE_CLAIM_CACHE_H

#include "store/store.h"
#include "worker/base/context.h"

typedef struct LeClaimCache LeClaimCache;

extern LeClaimCache *le_claim_cache_new(void);
extern LeClaim *le_copy_claim(MemoryContext context, const LeClaim *claim);

extern void le_keep_record(LeClaimCache *cache, const LeClaim *claim,
						   uint64 index);
extern const LeClaim *le_kept_record(LeClaimCache *cache, const char *election,
									 const char *job);
extern void le_forget_record(LeClaimCache *cache, const char *election,
							 const char *job);
extern void le_record_read(LeClaimCache *cache, const LeClaim *found);
extern void le_each_kept(LeClaimCache *cache,
						 void (*act) (LeWorker *w, const LeClaim *claim),
						 LeWorker *w);

#endif							/* LE_CLAIM_CACHE_H */
