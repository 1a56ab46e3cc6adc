/*-------------------------------------------------------------------------
 *
 * gossip.h
 *		News: the election keys that a node writes, told to the others.
 *
 * src/worker/wire/gossip.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_GOSSIP_H
#define LE_GOSSIP_H

#include "store/store.h"

/* Transactions under way have this long to take missing facts along. */
#define LE_UNTOLD_GAP	(20 * LE_MSEC)

typedef struct LeGossiper LeGossiper;

extern LeGossiper *le_gossip_new(int capacity);

/* telling */
extern void le_gossip_start(LeGossiper *gossip);
extern void le_gossip_begin(LeGossiper *gossip, le_duration until_settled);
extern void le_gossip_attach(LeGossiper *gossip, LeOp *op);
extern void le_gossip_landed(LeGossiper *gossip, const LeOp *op,
							 const LeAnswer *answer);
extern bool le_gossip_untold(LeGossiper *gossip);
extern le_time le_gossip_timer(LeGossiper *gossip);

/* Contents of one node's news; several may be true. */
#define LE_HEARD_ITEMS		1	/* items that have an index */
#define LE_HEARD_GAP		2	/* a fact was told and missed */
#define LE_HEARD_END		4	/* its session is over */

/* hearing */
extern int	le_gossip_hear(LeGossiper *gossip, const LeGossip *news);
extern bool le_gossip_heard(LeGossiper *gossip, const LeAnswer *answer);
extern void le_gossip_forget(LeGossiper *gossip);

#endif							/* LE_GOSSIP_H */
