/*-------------------------------------------------------------------------
 *
 * clock.c
 *		Each node's clocks, at rates of their own.
 *
 * As clock_gettime(2) has it: CLOCK_MONOTONIC stands still while the machine
 * is suspended, CLOCK_BOOTTIME does not, CLOCK_REALTIME can be set.
 *
 * test/sim/clock.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include <time.h>

static le_time
at_rate(const Clock *c, le_time t)
{
	return t + t / 1000000 * c->ppm + t % 1000000 * c->ppm / 1000000;
}

le_time
clock_boot(const SimNode *n, le_time now)
{
	return n->clock.offset + at_rate(&n->clock, now);
}

le_time
clock_mono(const SimNode *n, le_time now)
{
	return n->clock.offset + at_rate(&n->clock, now - n->clock.suspended);
}

/* When, in true time, will CLOCK_MONOTONIC show this, without a suspend? */
le_time
clock_mono_inverse(const SimNode *n, le_time mono)
{
	le_time		t = (mono - n->clock.offset) / (1000000 + n->clock.ppm) *
		1000000;

	while (at_rate(&n->clock, t) + n->clock.offset < mono)
		t += 100000;
	return t + n->clock.suspended;
}

extern int	__wrap_clock_gettime(clockid_t id, struct timespec *ts);

/*
 * What the worker's code calls.  Every check reads the clock, so a process
 * that stops here stops between a check and the act that follows from it.
 */
int
__wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	le_time		t;

	if (id == CLOCK_BOOTTIME)
		t = clock_boot(sim_node, sim.now);
	else if (id == CLOCK_MONOTONIC)
		t = clock_mono(sim_node, sim.now);
	else
		t = clock_boot(sim_node, sim.now) + sim_node->clock.wall;
	ts->tv_sec = t / LE_SEC;
	ts->tv_nsec = t % LE_SEC;
	if (sim_backend != NULL && id == CLOCK_BOOTTIME)
		transaction_looks();
	node_may_pause();
	return 0;
}
