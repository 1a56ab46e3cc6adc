/*-------------------------------------------------------------------------
 *
 * job_callers.c
 *		The callers of each job on this instance.
 *
 * A job's record goes by election and name.  So two schedulers' jobs of one
 * name have the same ticks: at each one of them runs, and the other's call
 * does nothing, without a word.  Here it can be seen that two call in turn.
 *
 * A new caller may rightly replace the old one: another owner, or a tick run
 * by hand, after which the old one returns.  Two returns among the last four
 * calls are a clash.
 *
 * The table is small, and keeps hashes instead of names.  A job without a free
 * entry takes over the one whose job was called least recently.  That job then
 * looks new, and its clash is not reported until it shows again.
 *
 * src/sql/job_callers.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "storage/spin.h"

#include "sql/job_callers.h"

/* A job's entry is one of a few, from that of its hash on. */
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

/* The job's entry, or else the one that it may take over. */
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

/* Do two callers call the job in turn: is more than one return in sight? */
bool
le_callers_clash(const LeJobCallers *callers)
{
	uint8		returns = callers->returns & IN_SIGHT;

	return (returns & (returns - 1)) != 0;
}
