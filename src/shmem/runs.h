/*-------------------------------------------------------------------------
 *
 * runs.h
 *		Who on this node may still act on a tick that was claimed.
 *
 * src/shmem/runs.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_RUNS_H
#define LE_RUNS_H

/* Hex digits at the end of a claim's id that say who may act on it. */
#define LE_RUN_DIGITS	24

extern Size le_runs_size(void);
extern void le_runs_init(bool found, void *where);

/* in a backend */
extern int	le_runs_begin(uint64 *number);
extern void le_run_print(char *to, uint64 number);
extern void le_runs_end(int place, uint64 number);
extern void le_runs_park(int place, uint64 number);
extern bool le_runs_resume(int place, uint64 number);

/* in the worker */
extern bool le_run_is_over(const char *claim_id, const char *asker);

#endif							/* LE_RUNS_H */
