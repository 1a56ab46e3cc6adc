/*-------------------------------------------------------------------------
 *
 * stats.c
 *		Statistics and events, which decide nothing.
 *
 * A worker may stop, or end by an error, where it would note something.
 *
 * test/sim/stats.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include "shmem/events.h"
#include "shmem/stats.h"

void
le_stat_count(const char *election, LeStat what)
{
	node_may_pause();
}

void
le_stat_add(const char *election, LeStat what, uint64 n)
{
	node_may_pause();
}

void
le_stat_count_slot(int slot, LeStat what)
{
	node_may_pause();
}

void
le_stat_answer(int slot, le_time sent, LeOutcome outcome)
{
}

void
le_stat_turn(le_duration took)
{
}

void
le_stat_forget(int slot)
{
}

/* The event "job missed": "job J, tick T", or "job J, N ticks from T to T". */
static void
note_missed(const char *election, const char *detail, va_list args)
{
	bool		one = strstr(detail, "ticks from") == NULL;
	const char *job = va_arg(args, const char *);
	LeGap		gap = {1};

	if (!one)
		gap.n = va_arg(args, int64);
	gap.first = gap.last = strtoll(va_arg(args, const char *), NULL, 10);
	if (!one)
		gap.last = strtoll(va_arg(args, const char *), NULL, 10);
	missed_reported(election, job, &gap);
}

void
le_event(LeEventKind what, const char *election, uint64 token,
		 const char *detail,...)
{
	va_list		args;

	if (what == LE_EVENT_JOB_MISSED)
	{
		va_start(args, detail);
		note_missed(election, detail, args);
		va_end(args);
	}
	if (what == LE_EVENT_RELEASED || what == LE_EVENT_STEPPED_DOWN ||
		what == LE_EVENT_NO_PROGRESS)
		transactions_ended(sim_node, election_of_name(election), token);
	node_may_pause();
}

void
le_event_of(const char *node, LeEventKind what, const char *election,
			uint64 token, const char *detail,...)
{
	node_may_pause();
}
