/*-------------------------------------------------------------------------
 *
 * ring.h
 *		The last records that any process wrote, in shared memory.
 *
 * A writer draws a number and writes the record of that number; neither it nor
 * a reader ever waits.  See ring.c for the method.
 *
 * src/shmem/ring.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_RING_H
#define LE_RING_H

typedef struct LeRing LeRing;

extern Size le_ring_size(int nentries, Size record_size);
extern void le_ring_init(LeRing *ring, int nentries, Size record_size);
extern uint64 le_ring_draw(LeRing *ring);
extern void le_ring_write(LeRing *ring, uint64 number, const void *record);
extern uint64 le_ring_newest(LeRing *ring);
extern uint64 le_ring_oldest(LeRing *ring);
extern bool le_ring_copy(LeRing *ring, uint64 number, void *copy);

#endif							/* LE_RING_H */
