/*-------------------------------------------------------------------------
 *
 * worker.h
 *		The background worker.
 *
 * src/worker/worker.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_WORKER_H
#define LE_WORKER_H

#include "worker/base/context.h"

extern const LeLimits le_usual_limits;	/* those that ship */

extern void le_register_worker(void);
extern PGDLLEXPORT void le_worker_main(Datum arg);

#endif							/* LE_WORKER_H */
