/*-------------------------------------------------------------------------
 *
 * ask.h
 *		The start of the work on each question of a backend.
 *
 * src/worker/ask/ask.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_ASK_H
#define LE_ASK_H

#include "shmem/requests.h"
#include "worker/base/context.h"

extern void le_question(LeWorker *w, int proc, uint64 number,
						const LeAsk *ask);

#endif							/* LE_ASK_H */
