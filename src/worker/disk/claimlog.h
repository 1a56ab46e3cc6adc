/*-------------------------------------------------------------------------
 *
 * claimlog.h
 *		The claims of the store "local", kept on disk.
 *
 * src/worker/disk/claimlog.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CLAIMLOG_H
#define LE_CLAIMLOG_H

#include "store/store.h"

typedef struct LeClaims LeClaims;

extern const LeClaimLog le_claim_log;
extern void le_claim_log_upgraded(void);

extern LeClaims *le_claims_load(bool led);

#endif							/* LE_CLAIMLOG_H */
