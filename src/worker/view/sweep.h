/*-------------------------------------------------------------------------
 *
 * sweep.h
 *		A look at all elections that is spread over turns of the loop.
 *
 * src/worker/view/sweep.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_SWEEP_H
#define LE_SWEEP_H

#include "worker/base/context.h"

typedef struct LeSweep
{
	void		(*look) (LeWorker *w, int number);	/* slot number */
	bool		under_way;
	int			next;			/* slot */
} LeSweep;

extern void le_sweep_start(LeSweep *sweep);
extern void le_sweep_go_on(LeWorker *w, LeSweep *sweep);

#endif							/* LE_SWEEP_H */
