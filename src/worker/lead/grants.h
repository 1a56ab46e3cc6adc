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

extern void le_grants_start(void);
extern void le_grant_add(const LeSlot *slot, uint32 answered);
extern bool le_grant_open(const LeSlot *slot);
extern void le_grants_settle(void (*begin) (LeSlot *slot, uint32 answered),
							 void (*refuse) (LeSlot *slot));
extern void le_grants_forget(void);

#endif							/* LE_GRANTS_H */
