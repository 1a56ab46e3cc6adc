/*-------------------------------------------------------------------------
 *
 * kills.c
 *		A few schedules, in which a worker dies at each reading of a clock.
 *
 * A process announces a change in two steps, in the table and to sleepers; its
 * end may come between them, and the next one has to do the second.  Few
 * random schedules die just there: each of these defects took a seed of its
 * own, which missed after the next change of the worker.  So every reading is
 * tried, one after another, until the schedule has no more.  Only seeds count
 * in which a session learns of its term's end late, or a term ends for lack of
 * progress: in most others no session could miss the change.
 *
 * test/sim/kills.c
 *
 *-------------------------------------------------------------------------
 */
#include "cli.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Tally
{
	uint64		schedules;
	uint64		failed;
} Tally;

/* The first failure of a seed is enough: its neighbours are mostly alike. */
static void
kill_everywhere(uint64 seed, Tally *tally)
{
	static Schedule s;

	for (int64 at = 1;; at++)
	{
		schedule_make(&s, seed);
		s.kill_at = at;
		schedule_run(&s);
		__sync_fetch_and_add(&tally->schedules, 1);
		if (sim.failed)
		{
			__sync_fetch_and_add(&tally->failed, 1);
			printf("seed " UINT64_FORMAT " kill=" INT64_FORMAT ": %s\n", seed,
				   at, sim.failure);
			fflush(stdout);
		}
		if (sim.failed || sim.readings < at)
			return;
	}
}

/* Each job takes the next free seed, until there are none. */
static void
work(const uint64 *seeds, uint64 n, uint64 *next, Tally *tally)
{
	uint64		i;

	while ((i = __sync_fetch_and_add(next, 1)) < n)
		kill_everywhere(seeds[i], tally);
}

/* Half of them for each kind. */
static void
choose(uint64 *seeds, uint64 n, uint64 from)
{
	static Schedule s;

	for (uint64 i = 0; i < n; from++)
	{
		const uint64 *happens = i % 2 == 0 ? &sim.counts.nudges_late :
			&sim.counts.useless;
		uint64		before = *happens;

		schedule_make(&s, from);
		schedule_run(&s);
		if (*happens > before)
			seeds[i++] = from;
	}
}

int
kills_run(uint64 from, uint64 n)
{
	int			jobs = (int) sysconf(_SC_NPROCESSORS_ONLN);
	uint64	   *seeds = calloc(Max(n, 1), sizeof(uint64));
	uint64	   *next;
	Tally	   *tally;

	next = mmap(NULL, sizeof(*next) + sizeof(*tally), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (next == MAP_FAILED || seeds == NULL)
		abort();
	tally = (Tally *) (next + 1);
	choose(seeds, n, from);
	fflush(stdout);
	for (int i = 0; i < jobs; i++)
		if (fork() == 0)
		{
			work(seeds, n, next, tally);
			_exit(0);
		}
	for (int i = 0; i < jobs; i++)
	{
		int			status;

		wait(&status);
		tally->failed += status != 0;
	}
	printf("a worker that dies at each of its readings, " UINT64_FORMAT
		   " seeds: " UINT64_FORMAT " schedules, failed: " UINT64_FORMAT "\n",
		   n, tally->schedules, tally->failed);
	return tally->failed != 0;
}
