/*-------------------------------------------------------------------------
 *
 * elect.h
 *		The worker's elections: between core/election.h and the rest.
 *
 * src/worker/lead/elect.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_ELECT_H
#define LE_ELECT_H

#include "shmem/leases.h"

/* events of one election */
extern void le_elect_input(LeSlot *slot, LeInput *input);
extern void le_elect_feed(LeSlot *slot, LeInputKind kind);
extern void le_elect_advance(LeSlot *slot);
extern void le_elect_seen(LeSlot *slot, const LeKey *key, uint64 as_of);
extern void le_elect_not_ours(int slot);
extern void le_elect_settle(LeSlot *slot);

/* terms */
extern void le_elect_begin_terms(void);
extern void le_elect_renew_now(LeSlot *slot);
extern void le_elect_renewal_sent(LeSlot *slot);
extern void le_elect_renewal_unsent(LeSlot *slot);
extern void le_elect_drain(LeSlot *slot, le_duration patience,
						   le_duration grace);

/* questions of backends */
extern LeSlot *le_elect_slot(const char *election);
extern void le_elect_give_up(LeSlot *slot);
extern void le_elect_set_campaign(LeSlot *slot, bool campaign,
								  le_duration within);
extern void le_elect_shorten_progress(LeSlot *slot, le_duration within);
extern bool le_elect_takes_part(const LeSlot *slot);
extern void le_elect_hold_off(LeSlot *slot, le_duration how_long);

#endif							/* LE_ELECT_H */
