/*-------------------------------------------------------------------------
 *
 * pastfile.h
 *		The point at which this database has left its past.
 *
 * src/worker/disk/pastfile.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_PASTFILE_H
#define LE_PASTFILE_H

struct LeWorker;

extern void le_past_look(struct LeWorker *w);

#endif							/* LE_PASTFILE_H */
