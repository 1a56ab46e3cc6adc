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
#include "worker/base/context.h"

/* inputs of one election */
extern void le_elect_input(LeWorker *w, LeSlot *slot, LeInput *input);
extern void le_elect_feed(LeWorker *w, LeSlot *slot, LeInputKind kind);
extern void le_elect_advance(LeWorker *w, LeSlot *slot);
extern void le_elect_seen(LeWorker *w, LeSlot *slot, const LeKey *key,
						  uint64 as_of);
extern void le_elect_not_ours(LeWorker *w, int slot);
extern void le_elect_settle(LeWorker *w, LeSlot *slot);

/* terms */
extern void le_elect_begin_terms(LeWorker *w);
extern void le_elect_renew_now(LeWorker *w, LeSlot *slot);
extern void le_elect_renewal_sent(LeWorker *w, LeSlot *slot);
extern void le_elect_renewal_unsent(LeWorker *w, LeSlot *slot);
extern void le_elect_drain(LeWorker *w, LeSlot *slot, le_duration patience,
						   le_duration grace);

/* questions of backends */
extern LeSlot *le_elect_slot(LeWorker *w, const char *election);
extern void le_elect_give_up(LeWorker *w, LeSlot *slot);
extern void le_elect_set_campaign(LeWorker *w, LeSlot *slot, bool campaign,
								  le_duration within);
extern void le_elect_shorten_progress(LeWorker *w, LeSlot *slot,
									  le_duration within);
extern bool le_elect_takes_part(LeWorker *w, const LeSlot *slot);
extern void le_elect_hold_off(LeWorker *w, LeSlot *slot, le_duration how_long);

#endif							/* LE_ELECT_H */
