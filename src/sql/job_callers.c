/*-------------------------------------------------------------------------
 *
 * job_callers.c
 *		The callers of each job on this instance.
 *
 * A job's record goes by election and name.  So two schedulers' jobs of one
 * name have the same ticks: at each one of them runs, and the other's call
 * does nothing, without a word.  Here it can be seen that two call in turn.
 *
 * A new caller takes the place of the old one, for which there are reasons
 * enough: another owner, somebody who runs a tick by hand.  They clash if one
 * that had gone came back, and not only once.  With the last return out of
 * sight the clash is over.
 *
 * The memory is small, and keeps no names: a reader asks for a job that it
 * knows.  A job that finds no place takes that of the one whose last call is
 * the oldest.  It would take that for new, and say nothing.
 *
 * src/sql/job_callers.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "storage/spin.h"

#include "sql/job_callers.h"

/* Each job has its place among the next few from where its hash leads. */
#define ENTRIES			1024
#define ENTRIES_OF_JOB	4

/* The calls that are in sight, as bits of "returns". */
#define IN_SIGHT		0x0F

typedef struct JobCallers
{
	slock_t		mutex;
	uint64		calls;			/* so far */
	LeJobCallers jobs[ENTRIES];
} JobCallers;

static JobCallers *memory = NULL;

Size
le_job_callers_size(void)
{
	return sizeof(JobCallers);
}

void
le_job_callers_init(bool found, void *where)
{
	memory = where;
	if (found)
		return;
	memset(memory, 0, sizeof(JobCallers));
	SpinLockInit(&memory->mutex);
}

static uint64
hash_of(const char *election, const char *job)
{
	uint64		seed = hash_bytes_extended((const unsigned char *) election,
										   strlen(election), 0);

	return Max(1, hash_bytes_extended((const unsigned char *) job,
									  strlen(job), seed));
}

/* The job's place, or else that which it may take. */
static LeJobCallers *
entry_of_job(uint64 job)
{
	LeJobCallers *oldest = NULL;

	for (int i = 0; i < ENTRIES_OF_JOB; i++)
	{
		LeJobCallers *entry = &memory->jobs[(job + i) % ENTRIES];

		if (entry->job == job)
			return entry;
		if (oldest == NULL || entry->at < oldest->at)
			oldest = entry;
	}
	return oldest;
}

static bool
same_caller(LeCaller a, LeCaller b)
{
	return a.role == b.role && a.database == b.database;
}

static void
note(LeJobCallers *callers, LeCaller caller)
{
	bool		same = same_caller(caller, callers->last);
	bool		returns = !same && same_caller(caller, callers->other);

	callers->returns = callers->returns << 1 | returns;
	if (same)
		return;
	callers->other = callers->last;
	callers->last = caller;
}

/*
 * A call, with what is known of the job's callers then.  Is it the first since
 * when they clash?
 */
bool
le_note_caller(const char *election, const char *job, LeCaller caller,
			   LeJobCallers *callers)
{
	uint64		hash = hash_of(election, job);
	LeJobCallers *entry;
	bool		before;

	SpinLockAcquire(&memory->mutex);
	entry = entry_of_job(hash);
	if (entry->job != hash)
	{
		memset(entry, 0, sizeof(*entry));
		entry->job = hash;
	}
	entry->at = ++memory->calls;
	before = le_callers_clash(entry);
	note(entry, caller);
	*callers = *entry;
	SpinLockRelease(&memory->mutex);
	return !before && le_callers_clash(callers);
}

/* False: no call of the job is known. */
bool
le_copy_callers(const char *election, const char *job, LeJobCallers *callers)
{
	uint64		hash = hash_of(election, job);

	SpinLockAcquire(&memory->mutex);
	*callers = *entry_of_job(hash);
	SpinLockRelease(&memory->mutex);
	return callers->job == hash;
}

/* Do two callers call the job in turn: did one come back more than once? */
bool
le_callers_clash(const LeJobCallers *callers)
{
	uint8		returns = callers->returns & IN_SIGHT;

	return (returns & (returns - 1)) != 0;
}
