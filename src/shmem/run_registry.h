/*-------------------------------------------------------------------------
 *
 * run_registry.h
 *		Registry of the runs on this node that may still act on a claim.
 *
 * src/shmem/run_registry.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_RUN_REGISTRY_H
#define LE_RUN_REGISTRY_H

/* Hex digits at the end of a claim's id that identify its run. */
#define LE_RUN_DIGITS	24

/*
 * A run acts on one claim at a time.  The other entries are for parked
 * numbers; if there are more, the oldest ticks cannot be asked for again.
 */
#define LE_RUN_ENTRIES	8

extern Size le_run_registry_size(void);
extern void le_run_registry_init(bool found, void *where);

/* in a backend */
extern int	le_run_registry_begin(uint64 *number);
extern void le_run_print(char *to, uint64 number);
extern void le_run_registry_end(int entry, uint64 number);
extern void le_run_registry_park(int entry, uint64 number);
extern bool le_run_registry_resume(int entry, uint64 number);

/* in the worker */
extern bool le_run_retire(const char *claim_id, const char *asker);
extern bool le_run_is_over(const char *claim_id);

#endif							/* LE_RUN_REGISTRY_H */
