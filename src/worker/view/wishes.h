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
typedef struct LeWishes LeWishes;

extern LeWishes *le_wishes_new(void);
extern void le_wish_session(LeWishes *wishes);
extern void le_wish_proof(LeWishes *wishes);
extern void le_wish_nodes(LeWishes *wishes, le_duration within);
extern void le_wish_fresh_nodes(LeWishes *wishes);

/* taken by the pass that fulfils them: session.c, watch_all.c */
extern bool le_take_session_wish(LeWishes *wishes);
extern bool le_take_proof_wish(LeWishes *wishes);
extern le_time le_take_nodes_wish(LeWishes *wishes, bool *fresh);
extern bool le_any_wish(LeWishes *wishes);

#endif							/* LE_WISHES_H */
