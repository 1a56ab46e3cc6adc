/*-------------------------------------------------------------------------
 *
 * process.h
 *		A process's own copies and numbers, outside of shared memory.
 *
 * They are behind a pointer, since the simulator has many processes in one.
 *
 * src/shmem/process.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_PROCESS_H
#define LE_PROCESS_H

#include "store/store.h"

/* An election that was looked up; see find_cached(). */
typedef struct LeLookedUp
{
	char		name[LE_MAX_ELECTION_LEN + 1];
	uint64		as_of;			/* the layout; 0: none was looked up */
	int			number;			/* -1: it has no slot */
	bool		noted;			/* as missing, see note_missing() */
} LeLookedUp;

typedef struct LeProcess
{
	uint64		random;			/* state of le_random(); 0: not begun */
	LeLookedUp	cached;			/* the last one */
} LeProcess;

extern LeProcess *le_process;

#endif							/* LE_PROCESS_H */
