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

#define STEP	(LE_MSEC / 10)	/* ends sleeps */

static le_time
at_rate(const Clock *c, le_time t)
{
	return c->ppm == 0 ? t :
		t + t / 1000000 * c->ppm + t % 1000000 * c->ppm / 1000000;
}

pg_noinline le_time
clock_reckon(const Clock *c, const Reading *reading, le_time at)
{
	Reading    *r = (Reading *) reading;

	r->at = at;
	r->shows = c->offset + at_rate(c, at);
	r->ts.tv_sec = r->shows / LE_SEC;
	r->ts.tv_nsec = r->shows % LE_SEC;
	return r->shows;
}

void
clock_start(SimNode *n, int ppm)
{
	n->clock.ppm = ppm;
	n->clock.ms_per_count = 1 / (1e6 + ppm);
	n->clock.offset = LE_SEC * (1000 + sim_below(100000));
	n->clock.wall = LE_SEC * INT64CONST(800000000);
	n->clock.boot.at = n->clock.mono.at = NEVER;
}

/*
 * The true time at which CLOCK_MONOTONIC will show this, without a suspend.
 * At the end of a step: the first instant of that millisecond that is not too
 * early.
 */
le_time
clock_mono_inverse(const SimNode *n, le_time mono)
{
	const Clock *c = &n->clock;
	le_time		counted = mono - c->offset;
	le_time		ms = (le_time) (counted * c->ms_per_count);
	le_duration rest = counted - ms * (LE_MSEC + c->ppm);
	le_duration steps = 0;

	if (rest > 0)
		steps = (le_duration) (rest * c->ms_per_count * (LE_MSEC / STEP));
	while (at_rate(c, steps * STEP) < rest)
		steps++;
	return ms * LE_MSEC + steps * STEP + c->suspended;
}

extern int	__wrap_clock_gettime(clockid_t id, struct timespec *ts);

static pg_noinline int
read_any(clockid_t id, struct timespec *ts)
{
	const Clock *c = &sim_node->clock;

	if (id == CLOCK_MONOTONIC)
	{
		(void) clock_mono(sim_node, sim.now);
		*ts = c->mono.ts;
	}
	else
	{
		(void) clock_boot(sim_node, sim.now);
		*ts = c->boot.ts;
	}
	if (id == CLOCK_REALTIME)
		ts->tv_sec += c->wall / LE_SEC;
	if (sim_backend != NULL && id == CLOCK_BOOTTIME)
		transaction_looks();
	node_may_pause();
	return 0;
}

/*
 * Called by the worker's code.  Every check reads the clock, so a process that
 * stops here stops between a check and its act.  Thousands of times in a
 * schedule the worker reads the same time again and nothing happens; that is
 * answered at once.
 */
int
__wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	const Clock *c = &sim_node->clock;

	if (id != CLOCK_BOOTTIME || c->boot.at != sim.now ||
		sim_backend != NULL || sim.readings + 1 >= sim.fate_at)
		return read_any(id, ts);
	*ts = c->boot.ts;
	sim.readings += sim.exposed;
	return 0;
}
