/*-------------------------------------------------------------------------
 *
 * statefile.h
 *		The store session that this data directory's node had last.
 *
 * src/worker/disk/statefile.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_STATEFILE_H
#define LE_STATEFILE_H

#include "shmem/leases.h"

typedef struct LePredecessor
{
	char		session[LE_SESSION_LEN + 1];
	char		incarnation[LE_INCARNATION_LEN + 1];
	LeNamespace namespace;
	le_duration lease;
} LePredecessor;

typedef struct LeStateFile LeStateFile;

extern LeStateFile *le_statefile_new(void);
extern void le_statefile_write(LeStateFile *statefile,
							   const LePredecessor *session);
extern const char *le_statefile_trouble(LeStateFile *statefile);
extern bool le_statefile_read(LePredecessor *session);
extern void le_statefile_remove(void);

#endif							/* LE_STATEFILE_H */
