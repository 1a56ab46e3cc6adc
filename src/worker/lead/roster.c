/*-------------------------------------------------------------------------
 *
 * roster.c
 *		The elections of interest to the loop, by what is of interest.
 *
 * A turn must not touch each slot of a large table, most of whose cache lines
 * are cold: sets tell which elections are held, active or sought, and a heap
 * whose timer is the next.  "make bench ONLY=names" measures that a pair of calls
 * costs the same whether 1 or 20,000 names have been used.
 *
 * src/worker/lead/roster.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/pairingheap.h"
#include "utils/memutils.h"

#include "shmem/progress.h"
#include "worker/lead/roster.h"

typedef struct SlotTimer
{
	pairingheap_node node;		/* if "at" is not 0 */
	le_time		at;				/* the earliest of the slot's times; 0: none */
} SlotTimer;

typedef struct LeSlotTimers
{
	pairingheap heap;			/* the earliest first */
	SlotTimer	each[FLEXIBLE_ARRAY_MEMBER];	/* by slot */
} LeSlotTimers;

/* ---- timers ---- */

static int
compare_timers(const pairingheap_node *a, const pairingheap_node *b,
			   void *arg)
{
	le_time		x = pairingheap_const_container(SlotTimer, node, a)->at;
	le_time		y = pairingheap_const_container(SlotTimer, node, b)->at;

	return x < y ? 1 : x > y ? -1 : 0;
}

static LeSlotTimers *
new_timers(void)
{
	Size		size = offsetof(LeSlotTimers, each) +
		le_table->nslots * sizeof(SlotTimer);
	LeSlotTimers *timers = MemoryContextAllocZero(TopMemoryContext, size);

	timers->heap.ph_compare = compare_timers;
	return timers;
}

static void
set_slot_timer(LeSlotTimers *timers, int slot, le_time at)
{
	SlotTimer  *timer = &timers->each[slot];

	if (timer->at == at)
		return;
	if (timer->at != 0)
		pairingheap_remove(&timers->heap, &timer->node);
	timer->at = at;
	if (at != 0)
		pairingheap_add(&timers->heap, &timer->node);
}

static const SlotTimer *
first_timer(const LeSlotTimers *timers)
{
	pairingheap *heap = unconstify(pairingheap *, &timers->heap);

	return pairingheap_is_empty(heap) ? NULL :
		pairingheap_container(SlotTimer, node, pairingheap_first(heap));
}

/* The time of the next timer of any election; 0: there is none. */
le_time
le_roster_timer(const LeRoster *roster)
{
	const SlotTimer *first = first_timer(roster->timers);

	return first == NULL ? 0 : first->at;
}

/*
 * A slot with a timer that is due; -1: none has.  It has none until the next
 * update.
 */
int
le_roster_take_due(LeRoster *roster, le_time now)
{
	const SlotTimer *first = first_timer(roster->timers);
	int			slot;

	if (first == NULL || first->at > now)
		return -1;
	slot = first - roster->timers->each;
	set_slot_timer(roster->timers, slot, 0);
	return slot;
}

/* ---- sets ---- */

LeRoster *
le_roster_new(void)
{
	LeRoster   *roster = MemoryContextAllocZero(TopMemoryContext,
												sizeof(LeRoster));

	le_set_init(&roster->held, le_table->nslots);
	le_set_init(&roster->draining, le_table->nslots);
	le_set_init(&roster->active, le_table->nslots);
	le_set_init(&roster->waiting, le_table->nslots);
	le_set_init(&roster->candidates, le_table->nslots);
	le_set_init(&roster->too_low, le_table->nslots);
	roster->timers = new_timers();
	return roster;
}

static bool
has_term(const LeSlot *slot)
{
	return pg_atomic_read_u64(&((LeSlot *) slot)->term.token) != 0;
}

static bool
is_candidate(const LeSlot *slot)
{
	return slot->campaign || slot->configured;
}

static bool
is_too_low(const LeSlot *slot)
{
	return is_candidate(slot) && slot->refused_token != 0;
}

static le_time
next_time(const LeSlot *slot)
{
	const LeElection *e = &slot->election;

	return le_earliest(le_earliest(e->timer_at, e->deadline),
					   le_earliest(le_election_renew_at(e),
								   le_progress_due(le_slot_number(slot))));
}

/* Call after every change of what the sets and the timers depend on. */
void
le_roster_update(LeRoster *roster, const LeSlot *slot)
{
	int			number = le_slot_number(slot);

	le_set_put(&roster->held, number, has_term(slot));
	le_set_put(&roster->draining, number, slot->election.drain_until != 0);
	le_set_put(&roster->active, number, slot->election.state != LE_IDLE);
	le_set_put(&roster->waiting, number, slot->election.state == LE_WAITING);
	le_set_put(&roster->candidates, number, is_candidate(slot));
	le_set_put(&roster->too_low, number, is_too_low(slot));
	set_slot_timer(roster->timers, number, next_time(slot));
}

/* Does this node wait for the end of another node's term? */
bool
le_waits_for_holder(const LeRoster *roster, int number)
{
	const LeSlot *slot = le_slot(number);

	return le_set_has(&roster->waiting, number) &&
		slot->holder.session[0] != '\0' && slot->holder.holds;
}

#ifdef USE_ASSERT_CHECKING

/* Slots checked per turn, lest thousands make it long. */
#define CHECKED_AT_ONCE	500

/*
 * Progress of a backend moves its time on, and the loop notices that only when
 * the earlier time has come.
 */
static void
check_slot(const LeRoster *roster, const LeSlot *slot)
{
	int			number = le_slot_number(slot);
	le_time		kept = roster->timers->each[number].at;
	le_time		next = next_time(slot);

	Assert(le_set_has(&roster->held, number) == has_term(slot));
	Assert(le_set_has(&roster->draining, number) ==
		   (slot->election.drain_until != 0));
	Assert(le_set_has(&roster->active, number) ==
		   (slot->election.state != LE_IDLE));
	Assert(le_set_has(&roster->waiting, number) ==
		   (slot->election.state == LE_WAITING));
	Assert(le_set_has(&roster->candidates, number) == is_candidate(slot));
	Assert(le_set_has(&roster->too_low, number) == is_too_low(slot));
	Assert((kept == 0) == (next == 0));
	Assert(kept <= next);
	Assert(kept == next || le_progress_due(number) != 0);
}

void
le_roster_check(const LeRoster *roster)
{
	int			n = Min(le_table->nused, CHECKED_AT_ONCE);
	uint64		from = pg_atomic_read_u64(&le_table->turns) * CHECKED_AT_ONCE;

	for (int k = 0; k < n; k++)
		check_slot(roster, le_slot((from + k) % le_table->nused));
}
#endif
