/*-------------------------------------------------------------------------
 *
 * grants.h
 *		Grants of the store, until their terms begin.
 *
 * src/worker/lead/grants.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_GRANTS_H
#define LE_GRANTS_H

#include "shmem/leases.h"
#include "worker/base/context.h"
#include "worker/base/slot_set.h"

typedef struct LeGrants LeGrants;

extern LeGrants *le_grants_new(void);
extern void le_grant_add(LeWorker *w, const LeSlot *slot, uint32 answered);
extern bool le_grant_open(LeWorker *w, const LeSlot *slot);
extern void le_grants_settle(LeWorker *w,
							 void (*begin) (LeWorker *w, LeSlot *slot,
											uint32 answered),
							 void (*refuse) (LeWorker *w, LeSlot *slot));
extern void le_grants_forget(LeWorker *w);

#endif							/* LE_GRANTS_H */
