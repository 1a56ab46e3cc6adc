/*-------------------------------------------------------------------------
 *
 * roster.h
 *		The elections of interest to the loop, by what is of interest.
 *
 * src/worker/lead/roster.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_ROSTER_H
#define LE_ROSTER_H

#include "shmem/leases.h"
#include "worker/base/slot_set.h"

/*
 * Kept by le_roster_update(), after every change of the slot; builds with
 * cassert compare the two at the end of a turn.
 */
typedef struct LeRoster
{
	LeSlotSet	held;			/* this node has a term */
	LeSlotSet	draining;		/* ... which is to end */
	LeSlotSet	active;			/* not idle */
	LeSlotSet	waiting;		/* ... but for another's term to end */
	LeSlotSet	candidates;		/* by call or by setting */
	LeSlotSet	too_low;		/* ... whose token was too low */
	struct LeSlotTimers *timers;
} LeRoster;

extern LeRoster *le_roster_new(void);
extern void le_roster_update(LeRoster *roster, const LeSlot *slot);
extern le_time le_roster_timer(const LeRoster *roster);
extern int	le_roster_take_due(LeRoster *roster, le_time now);
extern bool le_waits_for_holder(const LeRoster *roster, int number);

#ifdef USE_ASSERT_CHECKING
extern void le_roster_check(const LeRoster *roster);
#else
#define le_roster_check(roster)	((void) 0)
#endif

#endif							/* LE_ROSTER_H */
