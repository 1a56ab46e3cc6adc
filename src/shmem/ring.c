/*-------------------------------------------------------------------------
 *
 * ring.c
 *		The last records that any process wrote, in shared memory.
 *
 * No lock guards them, not even one that PostgreSQL frees when its holder
 * dies: a process that is stopped, rather than dead, would keep such a lock,
 * and the worker would hang in writing about a term instead of ending or
 * renewing it.
 *
 * Instead each entry of the ring has a version.  A writer draws the next
 * number, which names its entry, and makes the version of that entry odd by
 * compare-and-swap; so there is one writer in an entry at a time.  It fails if
 * another writer is in the entry, stopped there while the rest went once round
 * the ring, or if one with a higher number has been there: then the record is
 * dropped, and its number is missing.  A writer never waits and never tries
 * twice.
 *
 * A reader accepts a copy only if the version before and after it says that
 * this number was written completely.  A writer that is stopped in the middle
 * makes one entry unreadable until it goes on; one that is killed there takes
 * the whole instance into a crash restart, which starts with an empty ring.
 * Nothing else ends a writer in the middle: interrupts are not served there,
 * and nothing can fail.
 *
 * src/shmem/ring.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"
#include "storage/shmem.h"

#include "shmem/ring.h"

typedef struct Entry
{
	pg_atomic_uint64 version;	/* 0: never used; odd: being written */
	char		record[FLEXIBLE_ARRAY_MEMBER];
} Entry;

struct LeRing
{
	pg_atomic_uint64 drawn;		/* numbers drawn so far */
	uint64		nentries;
	Size		record_size;
	Size		entry_size;
	char		entries[FLEXIBLE_ARRAY_MEMBER];
};

#define BEING_WRITTEN(number)	(2 * (number) - 1)
#define WRITTEN(number)			(2 * (number))

static Size
entry_size(Size record_size)
{
	return MAXALIGN(offsetof(Entry, record) + record_size);
}

Size
le_ring_size(int nentries, Size record_size)
{
	return add_size(MAXALIGN(offsetof(LeRing, entries)),
					mul_size(nentries, entry_size(record_size)));
}

static Entry *
entry_of(LeRing *ring, uint64 number)
{
	return (Entry *) ((char *) ring + MAXALIGN(offsetof(LeRing, entries)) +
					  number % ring->nentries * ring->entry_size);
}

void
le_ring_init(LeRing *ring, int nentries, Size record_size)
{
	Assert(nentries > 0 && record_size > 0);
	memset(ring, 0, le_ring_size(nentries, record_size));
	pg_atomic_init_u64(&ring->drawn, 0);
	ring->nentries = nentries;
	ring->record_size = record_size;
	ring->entry_size = entry_size(record_size);
	for (int i = 0; i < nentries; i++)
		pg_atomic_init_u64(&entry_of(ring, i)->version, 0);
}

/* The number of a record that the caller is about to write: 1, 2, ... */
uint64
le_ring_draw(LeRing *ring)
{
	return pg_atomic_add_fetch_u64(&ring->drawn, 1);
}

/* Nothing in here may fail or be interrupted once the version is odd. */
void
le_ring_write(LeRing *ring, uint64 number, const void *record)
{
	Entry	   *entry = entry_of(ring, number);
	uint64		version = pg_atomic_read_u64(&entry->version);

	Assert(number > 0);
	if ((version & 1) != 0 || version > WRITTEN(number) ||
		!pg_atomic_compare_exchange_u64(&entry->version, &version,
										BEING_WRITTEN(number)))
		return;
	memcpy(entry->record, record, ring->record_size);
	pg_write_barrier();
	pg_atomic_write_u64(&entry->version, WRITTEN(number));
}

/* 0: none was written */
uint64
le_ring_newest(LeRing *ring)
{
	return pg_atomic_read_u64(&ring->drawn);
}

/* The lowest number that may still be there. */
uint64
le_ring_oldest(LeRing *ring)
{
	uint64		newest = le_ring_newest(ring);

	return newest > ring->nentries ? newest - ring->nentries + 1 : 1;
}

/*
 * False: it was dropped, was overwritten, or is being written right now, or
 * the number is higher than any drawn.
 */
bool
le_ring_copy(LeRing *ring, uint64 number, void *copy)
{
	Entry	   *entry = entry_of(ring, number);

	Assert(number > 0);			/* an entry that was never used has 0 */
	if (pg_atomic_read_u64(&entry->version) != WRITTEN(number))
		return false;
	pg_read_barrier();
	memcpy(copy, entry->record, ring->record_size);
	pg_read_barrier();
	return pg_atomic_read_u64(&entry->version) == WRITTEN(number);
}
