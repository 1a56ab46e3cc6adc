/*-------------------------------------------------------------------------
 *
 * key_op.h
 *		An election's requests to the store about its key.
 *
 * src/worker/lead/key_op.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_KEY_OP_H
#define LE_KEY_OP_H

#include "shmem/leases.h"
#include "worker/wire/dispatch.h"

extern void le_key_op_send(LeWorker *w, LeSlot *slot, const LeActions *act,
						   LeFlightDone done);
extern bool le_key_op_stale(const LeFlight *flight);
extern bool le_key_op_marks_holder(const LeFlight *flight);
extern void le_key_op_note_error(LeSlot *slot, const LeFlight *flight,
								 const LeAnswer *answer);
extern void le_ask_refused_again(LeWorker *w);

#endif							/* LE_KEY_OP_H */
