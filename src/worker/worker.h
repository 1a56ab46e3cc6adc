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

extern void le_register_worker(void);
extern PGDLLEXPORT void le_worker_main(Datum arg);

#endif							/* LE_WORKER_H */
