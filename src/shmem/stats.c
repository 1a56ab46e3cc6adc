/*-------------------------------------------------------------------------
 *
 * stats.c
 *		Counters of each election: the numbers behind the views le_stat*.
 *
 * They lie beside the lease table, not in it: a counter that moves would
 * take the cache line of a deadline away from checks.  Any process adds to a
 * counter by one atomic instruction.  Only the worker writes round trips, so
 * that it can keep extremes without a lock.
 *
 * They start at zero with the instance, and with le_stat_reset().
 *
 * src/shmem/stats.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/shmem.h"

#include "settings.h"
#include "shmem/leases.h"
#include "shmem/stats.h"

typedef struct Entry
{
	pg_atomic_uint64 counts[LE_NSTATS];

	/* the worker's */
	uint64		trips;
	uint64		trips_total;	/* microseconds, as the following */
	uint32		trip_last;
	uint32		trip_min;
	uint32		trip_max;
	uint32		resets;			/* the table's, when this began */
} Entry;

typedef struct Stats
{
	pg_atomic_uint32 resets;	/* calls of le_stat_reset() */
	pg_atomic_uint64 since;		/* TimestampTz */
	pg_atomic_uint64 contact;	/* le_time of the store's last answer */
	pg_atomic_uint64 longest_turn;	/* the worker loop's, in microseconds */
	Entry		entries[FLEXIBLE_ARRAY_MEMBER]; /* the node's, the slots' */
} Stats;

static Stats *stats = NULL;

static Entry *
entry_of(int slot)
{
	Assert(slot >= LE_STAT_NODE && slot < le_max_elections);
	return &stats->entries[slot + 1];
}

static void
zero_counts(Entry *entry)
{
	for (int i = 0; i < LE_NSTATS; i++)
		pg_atomic_write_u64(&entry->counts[i], 0);
}

Size
le_stats_size(void)
{
	return add_size(offsetof(Stats, entries),
					mul_size(add_size(le_max_elections, 1), sizeof(Entry)));
}

void
le_stats_init(bool found, void *where)
{
	stats = where;
	if (found)
		return;
	memset(where, 0, le_stats_size());
	pg_atomic_init_u32(&stats->resets, 0);
	pg_atomic_init_u64(&stats->since, (uint64) GetCurrentTimestamp());
	pg_atomic_init_u64(&stats->contact, 0);
	pg_atomic_init_u64(&stats->longest_turn, 0);
	for (int i = LE_STAT_NODE; i < le_max_elections; i++)
		for (int k = 0; k < LE_NSTATS; k++)
			pg_atomic_init_u64(&entry_of(i)->counts[k], 0);
}

/* ---- counting ---- */

void
le_stat_count_slot(int slot, LeStat what)
{
	Assert(what < LE_NSTATS);
	pg_atomic_fetch_add_u64(&entry_of(slot)->counts[what], 1);
}

void
le_stat_count(const char *election, LeStat what)
{
	if (stats != NULL)
		le_stat_count_slot(le_find_term(election), what);
}

void
le_stat_add(const char *election, LeStat what, uint64 n)
{
	Entry	   *entry;

	if (stats == NULL)
		return;
	entry = entry_of(le_find_term(election));
	pg_atomic_fetch_add_u64(&entry->counts[what], (int64) n);
}

static void
forget_trips(Entry *entry)
{
	entry->trips = entry->trips_total = 0;
	entry->trip_last = entry->trip_min = entry->trip_max = 0;
}

/*
 * The store has answered a request that was sent then.  A reset by a backend
 * takes effect here, since only the worker writes these numbers.
 */
static void
count_trip(Entry *entry, le_time sent)
{
	uint32		resets = pg_atomic_read_u32(&stats->resets);
	le_duration took = (le_now() - sent) / 1000;

	if (entry->resets != resets)
		forget_trips(entry);
	took = Max(took, 1);
	took = Min(took, (le_duration) PG_UINT32_MAX);
	if (entry->trips == 0 || took < entry->trip_min)
		entry->trip_min = (uint32) took;
	entry->trip_max = Max(entry->trip_max, (uint32) took);
	entry->trip_last = (uint32) took;
	entry->trips_total += took;
	entry->trips++;
	Assert(entry->trip_min <= entry->trip_max);
	pg_write_barrier();
	entry->resets = resets;
}

/*
 * Counts the outcome of a request that was sent then.  A conflict is part of
 * the competition between nodes, and no failure.
 */
void
le_stat_answer(int slot, le_time sent, LeOutcome outcome)
{
	switch (outcome)
	{
		case LE_DONE:
		case LE_CONFLICT:
			break;
		case LE_LOST:
		case LE_REFUSED:
			le_stat_count_slot(slot, LE_STAT_FAILURES);
			break;
		case LE_UNAVAILABLE:
			le_stat_count_slot(slot, LE_STAT_FAILURES);
			return;
		case LE_UNKNOWN:
			le_stat_count_slot(slot, LE_STAT_UNKNOWN);
			return;
	}
	count_trip(entry_of(slot), sent);
	pg_atomic_write_u64(&stats->contact, (uint64) le_now());
}

/* A turn of the worker's loop took so long, without hearing any backend. */
void
le_stat_turn(le_duration took)
{
	uint64		us = (uint64) Max(took / 1000, 0);

	if (us > pg_atomic_read_u64(&stats->longest_turn))
		pg_atomic_write_u64(&stats->longest_turn, us);
}

/* The slot is another election's from here on. */
void
le_stat_forget(int slot)
{
	zero_counts(entry_of(slot));
	forget_trips(entry_of(slot));
}

/*
 * A concurrent addition counts before or after.  The worker's numbers are void
 * from the first line on, and start anew with the store's next answer.
 */
void
le_reset_stats(void)
{
	pg_atomic_fetch_add_u32(&stats->resets, 1);
	for (int i = LE_STAT_NODE; i < le_max_elections; i++)
		zero_counts(entry_of(i));
	pg_atomic_write_u64(&stats->longest_turn, 0);
	pg_atomic_write_u64(&stats->since, (uint64) GetCurrentTimestamp());
}

/* ---- reading ---- */

/*
 * Numbers that are written meanwhile may be a step apart from each other.
 */
void
le_copy_stat(int slot, LeStatRow *row)
{
	Entry	   *entry = entry_of(slot);

	memset(row, 0, sizeof(*row));
	for (int i = 0; i < LE_NSTATS; i++)
		row->counts[i] = pg_atomic_read_u64(&entry->counts[i]);
	if (entry->resets != pg_atomic_read_u32(&stats->resets))
		return;					/* nothing came since the last reset */
	pg_read_barrier();
	row->trips = entry->trips;
	row->trips_total = entry->trips_total;
	row->trip_last = entry->trip_last;
	row->trip_min = entry->trip_min;
	row->trip_max = entry->trip_max;
}

TimestampTz
le_stat_since(void)
{
	return (TimestampTz) pg_atomic_read_u64(&stats->since);
}

/* In microseconds. */
uint64
le_longest_turn(void)
{
	return pg_atomic_read_u64(&stats->longest_turn);
}

/* 0: none yet */
le_time
le_last_contact(void)
{
	return (le_time) pg_atomic_read_u64(&stats->contact);
}
