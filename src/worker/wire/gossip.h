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

/* telling */
extern int	le_gossip_room;

extern void le_gossip_start(void);
extern void le_gossip_begin(le_duration until_settled);
extern void le_gossip_attach(LeOp *op);
extern void le_gossip_landed(const LeOp *op, const LeAnswer *answer);
extern bool le_gossip_untold(void);
extern le_time le_gossip_timer(void);

/* Contents of one node's news; several may be true. */
#define LE_HEARD_ITEMS		1	/* items that have an index */
#define LE_HEARD_GAP		2	/* a fact was told and missed */
#define LE_HEARD_END		4	/* its session is over */

/* hearing */
extern int	le_gossip_hear(const LeGossip *news);
extern bool le_gossip_heard(const LeAnswer *answer);
extern void le_gossip_forget(void);

#endif							/* LE_GOSSIP_H */
