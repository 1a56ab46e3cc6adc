/*-------------------------------------------------------------------------
 *
 * wishes.h
 *		Wishes of elections to the node, kept until the loop comes to them.
 *
 * src/worker/view/wishes.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_WISHES_H
#define LE_WISHES_H

#include "core/timing.h"

/* Not at once, since others may want the same. */
#define LE_SOON		(100 * LE_MSEC)

/* raised anywhere in the worker */
extern void le_wish_session(void);
extern void le_wish_proof(void);
extern void le_wish_nodes(le_duration within);
extern void le_wish_fresh_nodes(void);

/* taken by the pass that fulfils them: session.c, watch_all.c */
extern bool le_take_session_wish(void);
extern bool le_take_proof_wish(void);
extern le_time le_take_nodes_wish(bool *fresh);
extern bool le_any_wish(void);

#endif							/* LE_WISHES_H */
