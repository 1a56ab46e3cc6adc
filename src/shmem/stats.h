/*-------------------------------------------------------------------------
 *
 * stats.h
 *		Counters of each election: the numbers behind the views le_stat*.
 *
 * src/shmem/stats.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_STATS_H
#define LE_STATS_H

#include "datatype/timestamp.h"

#include "core/election.h"

/* The counters; le_stat() has a column for each, in this order. */
typedef enum LeStat
{
	/* the view le_stat */
	LE_STAT_TERMS,				/* terms that began ... */
	LE_STAT_RELEASES,			/* ... that this node ended ... */
	LE_STAT_LOSSES,				/* ... that ended otherwise */
	LE_STAT_GATE_PASSED,		/* le_require_leader() and the like */
	LE_STAT_GATE_REFUSED,
	LE_STAT_FENCE_ABORTS,		/* transactions that failed their check */
	LE_STAT_CANCELS,			/* sessions stopped before the deadline */

	/* the view le_stat_jobs */
	LE_STAT_CLAIMS,				/* ticks claimed */
	LE_STAT_RUNS,				/* commands run by le_run() */
	LE_STAT_SKIPS,				/* le_run() that had nothing to do here */
	LE_STAT_FAILED,				/* runs that ended in an error, and claims by
								 * hand that ended as failed */
	LE_STAT_MISSED,				/* ticks that were never claimed */
	LE_STAT_RUN_TIME,			/* total of all runs, in microseconds */

	/* the view le_stat_store */
	LE_STAT_RENEWALS,			/* proofs that kept a term */
	LE_STAT_FAILURES,			/* requests that were refused or went
								 * unanswered without effect */
	LE_STAT_UNKNOWN,			/* requests of unknown outcome */
	LE_STAT_WAITS				/* requests that waited for their turn */
} LeStat;

#define LE_NSTATS	(LE_STAT_WAITS + 1)

/* Counts events that concern no election of the table. */
#define LE_STAT_NODE	(-1)

/* For reading: a copy. */
typedef struct LeStatRow
{
	uint64		counts[LE_NSTATS];
	uint64		trips;			/* round trips to the store: number, and in
								 * microseconds total, last, extremes */
	uint64		trips_total;
	uint32		trip_last;
	uint32		trip_min;
	uint32		trip_max;
} LeStatRow;

extern Size le_stats_size(void);
extern void le_stats_init(bool found, void *where);

/*
 * Count one.  le_stat_count() is for any process; an election that is not in
 * the lease table counts for the node.  le_stat_count_slot() is the same by
 * the slot's number; le_stat_add() counts several.
 */
extern void le_stat_count(const char *election, LeStat what);
extern void le_stat_count_slot(int slot, LeStat what);
extern void le_stat_add(const char *election, LeStat what, uint64 n);

/* in the worker */
extern void le_stat_answer(int slot, le_time sent, LeOutcome outcome);
extern void le_stat_forget(int slot);
extern void le_stat_turn(le_duration took);

/* reading, and starting anew, from any process */
extern void le_reset_stats(void);
extern void le_copy_stat(int slot, LeStatRow *row);
extern TimestampTz le_stat_since(void);
extern uint64 le_longest_turn(void);
extern le_time le_last_contact(void);

#endif							/* LE_STATS_H */
