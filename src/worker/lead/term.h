/*-------------------------------------------------------------------------
 *
 * term.h
 *		A term in the lease table: how it begins, drains and ends.
 *
 * src/worker/lead/term.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_TERM_H
#define LE_TERM_H

#include "shmem/requests.h"
#include "worker/base/context.h"

extern void le_begin_term(LeWorker *w, LeSlot *slot, le_time now);
extern void le_end_term(LeSlot *slot, LeReason reason);
extern void le_move_deadline(LeSlot *slot);
extern void le_drain_term(LeSlot *slot);
extern void le_stop_drained(LeSlot *slot);
extern bool le_term_abandoned(const LeSlot *slot);
extern bool le_held_by_caller(const LeSlot *slot, const LeAsk *ask);

#endif							/* LE_TERM_H */
