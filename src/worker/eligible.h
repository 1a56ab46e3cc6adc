/*-------------------------------------------------------------------------
 *
 * eligible.h
 *		May this node lead, does it want to, and do its timings allow it?
 *
 * src/worker/eligible.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_ELIGIBLE_H
#define LE_ELIGIBLE_H

#include "shmem/leases.h"

extern bool le_may_lead(char *why, size_t size, int *sqlstate);
extern bool le_campaigns(const LeSlot *slot);
extern void le_check_trust(le_duration trust);

#endif							/* LE_ELIGIBLE_H */
