/*-------------------------------------------------------------------------
 *
 * clonefile.h
 *		The mark of a clone's data directory, the system identifiers that it
 *		has had, and the mark of a standby's.
 *
 * src/worker/disk/clonefile.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CLONEFILE_H
#define LE_CLONEFILE_H

#include "store/store.h"

typedef struct LeClonemark
{
	uint64		system;
	char		original[LE_MAX_NODE_NAME_LEN + 1];
	char		namespace[1024];	/* of the keys that it shares with its
									 * original; "place" in the file */
} LeClonemark;

extern bool le_clonefile_read(LeClonemark *mark);
extern void le_clonefile_write(const LeClonemark *mark);
extern void le_clonefile_remove(void);
extern void le_clonefile_systems(LeSystems *systems);
extern bool le_follows_primary(void);

#endif							/* LE_CLONEFILE_H */
