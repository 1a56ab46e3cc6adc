/*-------------------------------------------------------------------------
 *
 * history.c
 *		Runs of jobs that this instance has seen: behind le_history().
 *
 * A backend notes its own runs as they end.  The worker notes ended runs of
 * other instances when it reads all jobs (job_scan.c).  So a run can be noted
 * twice, with the same claim id.
 *
 * src/shmem/history.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "settings.h"
#include "shmem/history.h"
#include "shmem/ring.h"

static LeRing *ring = NULL;

Size
le_history_size(void)
{
	return le_ring_size(le_max_events, sizeof(LeJobRow));
}

void
le_history_init(bool found, void *where)
{
	ring = where;
	if (!found)
		le_ring_init(ring, le_max_events, sizeof(LeJobRow));
}

void
le_history_note(const LeJobRow *run)
{
	if (ring != NULL)
		le_ring_write(ring, le_ring_draw(ring), run);
}

/* The run's own backend knows its error; a reader of the store may not. */
static void
complete(LeClaimRow *run, const LeClaimRow *older)
{
	if (run->ended_at == 0)
		run->ended_at = older->ended_at;
	if (run->sqlstate[0] != '\0')
		return;
	strlcpy(run->sqlstate, older->sqlstate, sizeof(run->sqlstate));
	strlcpy(run->message, older->message, sizeof(run->message));
}

/*
 * Is the run there already, from a later note?  A run without a claim has no
 * id, and is noted once.
 */
static bool
is_among(const LeJobRow *run, LeJobRow *runs, int n)
{
	for (int i = 0; i < n && run->claim.id[0] != '\0'; i++)
	{
		if (strcmp(runs[i].claim.id, run->claim.id) != 0)
			continue;
		complete(&runs[i].claim, &run->claim);
		return true;
	}
	return false;
}

/* The newest first, each from its last note. */
int
le_history_copy(const char *election, const char *job, int most,
				LeJobRow *runs)
{
	uint64		oldest = le_ring_oldest(ring);
	int			n = 0;

	for (uint64 number = le_ring_newest(ring); number >= oldest; number--)
	{
		LeJobRow	run;

		if (le_ring_copy(ring, number, &run) &&
			(election == NULL || strcmp(run.claim.election, election) == 0) &&
			(job == NULL || strcmp(run.claim.job, job) == 0) &&
			!is_among(&run, runs, n) && n < most)
			runs[n++] = run;
	}
	return n;
}
