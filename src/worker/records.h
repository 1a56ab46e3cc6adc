/*-------------------------------------------------------------------------
 *
 * records.h
 *		Jobs' records as this worker wrote them last.
 *
 * src/worker/records.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_RECORDS_H
#define LE_RECORDS_H

#include "store/store.h"

extern LeClaim *le_copy_claim(MemoryContext context, const LeClaim *claim);

extern void le_keep_record(const LeClaim *claim, uint64 index);
extern const LeClaim *le_kept_record(const char *election, const char *job);
extern void le_forget_record(const char *election, const char *job);

#endif							/* LE_RECORDS_H */
