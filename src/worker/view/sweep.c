/*-------------------------------------------------------------------------
 *
 * sweep.c
 *		A look at all elections that is spread over turns of the loop.
 *
 * With thousands of elections a look takes long, and proofs must not wait.
 *
 * src/worker/view/sweep.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/leases.h"
#include "worker/view/sweep.h"

/* Start from the first slot, even if the sweep is under way. */
void
le_sweep_start(LeSweep *sweep)
{
	sweep->under_way = true;
	sweep->next = 0;
}

/* Look at the next slots; a look may end the sweep. */
void
le_sweep_go_on(LeWorker *w, LeSweep *sweep)
{
	int			end = Min(sweep->next + w->limits->slots_at_once,
						  le_table->nused);

	while (sweep->under_way && sweep->next < end)
		sweep->look(w, sweep->next++);
	sweep->under_way = sweep->under_way && sweep->next < le_table->nused;
}
