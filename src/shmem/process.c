/*-------------------------------------------------------------------------
 *
 * process.c
 *		A process's own copies and numbers, outside of shared memory.
 *
 * src/shmem/process.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/process.h"

static LeProcess this_process;
LeProcess  *le_process = &this_process;
