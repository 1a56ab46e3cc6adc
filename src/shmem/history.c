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

#include "miscadmin.h"
#include "utils/hsearch.h"

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

typedef struct Shown
{
	char		id[LE_CLAIM_ID_LEN + 1];	/* key */
	LeJobRow   *run;
} Shown;

static HTAB *
shown_by_id(int most)
{
	HASHCTL		ctl = {0};

	ctl.keysize = LE_CLAIM_ID_LEN + 1;
	ctl.entrysize = sizeof(Shown);
	ctl.hcxt = CurrentMemoryContext;
	return hash_create("runs that are shown", Max(most, 1), &ctl,
					   HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
}

/*
 * Is the run there already, from a later note?  A run without a claim has no
 * id, and is noted once.
 */
static bool
is_among(const LeJobRow *run, HTAB *shown)
{
	Shown	   *entry;

	if (run->claim.id[0] == '\0')
		return false;
	entry = hash_search(shown, run->claim.id, HASH_FIND, NULL);
	if (entry == NULL)
		return false;
	complete(&entry->run->claim, &run->claim);
	return true;
}

static void
add_run(const LeJobRow *run, LeJobRow *to, HTAB *shown)
{
	Shown	   *entry;

	*to = *run;
	if (run->claim.id[0] == '\0')
		return;
	entry = hash_search(shown, run->claim.id, HASH_ENTER, NULL);
	entry->run = to;
}

/* The newest first, each from its last note. */
int
le_history_copy(const char *election, const char *job, int most,
				LeJobRow *runs)
{
	uint64		oldest = le_ring_oldest(ring);
	HTAB	   *shown = shown_by_id(most);
	int			n = 0;

	for (uint64 number = le_ring_newest(ring); number >= oldest; number--)
	{
		LeJobRow	run;

		CHECK_FOR_INTERRUPTS();
		if (le_ring_copy(ring, number, &run) &&
			(election == NULL || strcmp(run.claim.election, election) == 0) &&
			(job == NULL || strcmp(run.claim.job, job) == 0) &&
			!is_among(&run, shown) && n < most)
			add_run(&run, &runs[n++], shown);
	}
	hash_destroy(shown);
	return n;
}
