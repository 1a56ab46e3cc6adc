/*-------------------------------------------------------------------------
 *
 * key_view.h
 *		The core's view of one election, made from an answer of the store.
 *
 * src/worker/view/key_view.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_KEY_VIEW_H
#define LE_KEY_VIEW_H

#include "shmem/leases.h"
#include "worker/base/context.h"

extern bool le_takes_over(void);
extern bool le_foreign_key(const LeKey *key);
extern void le_make_view(LeWorker *w, LeKeyView *view, const LeKey *key,
						 uint64 as_of);
extern void le_note_holder(LeWorker *w, LeSlot *slot, const LeKey *key,
						   const LeKeyView *view);

#endif							/* LE_KEY_VIEW_H */
