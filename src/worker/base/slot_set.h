/*-------------------------------------------------------------------------
 *
 * slot_set.h
 *		A set of slots of the lease table, in their order.
 *
 * Of 100,000 slots few are of interest at a time: the loop asks a set which
 * ones, or how many, and never looks at all slots in a turn.
 *
 * src/worker/base/slot_set.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_SLOT_SET_H
#define LE_SLOT_SET_H

#include "port/pg_bitutils.h"
#include "utils/memutils.h"

typedef struct LeSlotSet
{
	int			n;				/* members */
	int			nwords;
	uint64	   *words;			/* a bit per slot */
} LeSlotSet;

/* An empty one, for as long as the process lives. */
static inline void
le_set_init(LeSlotSet *set, int nslots)
{
	set->n = 0;
	set->nwords = (nslots + 63) / 64;
	set->words = MemoryContextAllocZero(TopMemoryContext,
										set->nwords * sizeof(uint64));
}

static inline bool
le_set_has(const LeSlotSet *set, int slot)
{
	Assert(slot >= 0 && slot / 64 < set->nwords);
	return ((set->words[slot / 64] >> (slot % 64)) & 1) != 0;
}

static inline void
le_set_put(LeSlotSet *set, int slot, bool in)
{
	if (le_set_has(set, slot) == in)
		return;
	set->words[slot / 64] ^= UINT64CONST(1) << (slot % 64);
	set->n += in ? 1 : -1;
}

/* The first member behind that slot; -1: there is none. */
static inline int
le_set_next(const LeSlotSet *set, int slot)
{
	int			word = (slot + 1) / 64;
	uint64		bits;

	if (set->n == 0 || word >= set->nwords)
		return -1;
	bits = set->words[word] & (PG_UINT64_MAX << ((slot + 1) % 64));
	while (bits == 0 && ++word < set->nwords)
		bits = set->words[word];
	return bits == 0 ? -1 : word * 64 + pg_rightmost_one_pos64(bits);
}

/* The same, but the first member follows the last; -1: the set is empty. */
static inline int
le_set_after(const LeSlotSet *set, int slot)
{
	int			next = le_set_next(set, slot);

	return next >= 0 ? next : le_set_next(set, -1);
}

/* Each member; the body may add and remove any. */
#define le_foreach_slot(i, set) \
	for (int i = le_set_next(set, -1); i >= 0; i = le_set_next(set, i))

#endif							/* LE_SLOT_SET_H */
