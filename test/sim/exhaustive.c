/*-------------------------------------------------------------------------
 *
 * exhaustive.c
 *		Every schedule of a small configuration with at most so many faults.
 *
 * Two nodes, one election, a lease of 3 s, a job, and a transaction under
 * which the term is released.  Each possible fault of a message, a renewal, a
 * list, a worker between two of its instructions or a session is a decision;
 * without a fault every decision is "no", and all times are fixed.  A run is
 * the list of decisions that are "yes".  From each run one more fault is tried
 * at every decision after its last, up to the given number; each run starts
 * from the beginning.  Delays and pauses have one length in a run; with one
 * fault at most every run is tried with each length.
 *
 * A state consists of the content of machines, store and network, and the time
 * left to each deadline, in ms.  States are counted, not pruned: two that look
 * alike here need not be equal.
 *
 * test/sim/exhaustive.c
 *
 *-------------------------------------------------------------------------
 */
#include "cli.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_FAULTS		6
#define LEASE			(3 * LE_SEC)
#define MARGIN			(LE_SEC / 2)
#define SET_BITS		25
#define SET_SIZE		(UINT64CONST(1) << SET_BITS)

static struct
{
	int			yes[MAX_FAULTS];	/* the decisions that are "yes" */
	int			nyes;
	int			made;			/* decisions in this run */
	int			next;			/* in yes[] */
} now;

/* Shared by the jobs, each of which takes every n-th first fault. */
static struct
{
	uint64		states;
	uint64		runs;
	uint64		steps;
	uint64		failed;
	uint64		seen[SET_SIZE]; /* open addressing; 0: empty */
}		   *set;

/*
 * How long delays and pauses are: in the middle of what is possible, or such
 * that the request or the worker is there just before the deadline, just after
 * it, or after the lease.
 */
static const le_duration lengths[] = {
	0, LEASE - MARGIN - 50 * LE_MSEC, LEASE - MARGIN + 50 * LE_MSEC,
	LEASE + LE_SEC / 2
};
static int	length = 0;

static int	jobs = 1;
static int	job = 0;
static Schedule schedule;

bool		exhaustive = false;

/* Is this one of the faults of this run? */
bool
exhaustive_decide(void)
{
	int			number = now.made++;

	if (now.next < now.nyes && now.yes[now.next] == number)
	{
		now.next++;
		return true;
	}
	return false;
}

/* A span that is shorter than a second in any case is as short as can be. */
le_duration
exhaustive_span(le_duration least, le_duration most)
{
	if (most - least < LE_SEC)
		return least;
	if (lengths[length] == 0)
		return (least + most) / 2;
	return Min(Max(lengths[length], least), most);
}

static uint64
add(uint64 hash, uint64 value)
{
	return sim_mix(hash ^ value);
}

static uint64
hash_key(uint64 hash, const Key *k)
{
	hash = add(hash, (uint64) k->exists << 40 | k->session);
	hash = add(hash, store_index() - k->index);
	return add(hash, (uint64) k->value.released << 41 |
			   (uint64) k->value.revoked << 40 | k->value.session);
}

static uint64
hash_node(uint64 hash, SimNode *n)
{
	const LeNode *m = &node_table(n)->node;
	LeSlot	   *slot = node_slot(n, 0);
	le_time		clock = clock_boot(n, sim.now);

	hash = add(hash, (uint64) n->up << 20 | (uint64) n->running << 21 |
			   (uint64) (n->frozen_until > sim.now) << 22 |
			   (uint64) m->state << 8 | (uint64) m->proving << 6 |
			   (uint64) m->renewing << 7);
	if (m->deadline != 0)
		hash = add(hash, (m->deadline - clock) / LE_MSEC);
	if (slot == NULL)
		return hash;
	hash = add(hash, (uint64) slot->election.state << 8 |
			   slot->election.wanted);
	hash = add(hash, slot->election.token == 0 ? 0 :
			   store_index() - slot->election.token);
	if (pg_atomic_read_u64(&slot->term.deadline) != 0)
		hash = add(hash, ((le_time) pg_atomic_read_u64(&slot->term.deadline) -
						  clock) / LE_MSEC);
	return hash;
}

void
exhaustive_note_state(void)
{
	uint64		hash = network_hash();
	uint64		mask = SET_SIZE - 1;
	uint64		at;

	hash = hash_key(hash, store_key(0));
	for (int s = 1; s <= store_nsessions(); s++)
	{
		hash = add(hash, store_lives(s));
		hash = hash_key(hash, store_key(NODE_KEY(s)));
	}
	for (int i = 0; i < sim.nnodes; i++)
		hash = hash_node(hash, sim.node[i]);
	hash |= 1;
	if (set->states > SET_SIZE / 2)
		return;
	for (at = hash & mask;; at = (at + 1) & mask)
	{
		if (__sync_bool_compare_and_swap(&set->seen[at], 0, hash))
			break;
		if (set->seen[at] == hash)
			return;
	}
	__sync_fetch_and_add(&set->states, 1);
}

/* One run, and from it all runs with more faults. */
static void
explore(int nyes, int most)
{
	int			made;
	int			first = nyes == 0 ? 0 : now.yes[nyes - 1] + 1;

	now.nyes = nyes;
	now.made = now.next = 0;
	schedule_run(&schedule);
	if (nyes > 0 || job == 0)
		__sync_fetch_and_add(&set->runs, 1);
	made = now.made;
	if (sim.failed)
	{
		__sync_fetch_and_add(&set->failed, 1);
		printf("failed with length %d, faults", length);
		for (int i = 0; i < nyes; i++)
			printf(" %d", now.yes[i]);
		printf(": %s\n", sim.failure);
		return;
	}
	if (nyes == most || nyes == MAX_FAULTS)
		return;
	for (int i = first; i < made; i++)
	{
		if (nyes == 0 && i % jobs != job)
			continue;
		now.yes[nyes] = i;
		explore(nyes + 1, most);
		if (sim.failed)
			return;
	}
}

/* The leader's events; also work, and the end of the term under it. */
static void
add_event(Happening what, le_time at)
{
	Intervention *v = &schedule.events[schedule.nevents++];

	v->what = what;
	v->node = what == HAPPEN_JOB ? 0 : -1;
	v->random = 0x2500;			/* a transaction that comes through the gate */
	v->at = at;
	v->span = LE_SEC / 2;
}

static void
prepare(void)
{
	Weather    *w = &schedule.weather;

	exhaustive = true;
	set = mmap(NULL, sizeof(*set), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (set == MAP_FAILED)
		abort();

	memset(&schedule, 0, sizeof(schedule));
	schedule.seed = 1;
	schedule.nnodes = 2;
	schedule.nelections = 1;
	schedule.storm = 4 * LE_SEC;
	w->lose_request = w->lose_answer = w->repeat = w->delay = 1;
	w->break_answer = w->false_renew = w->false_gone = w->leak = 1;
	w->pause = w->kill = w->invalidate = w->backend_pause = 1;
	schedule.every = 10 * LE_SEC;
	add_event(HAPPEN_JOB, 1500 * LE_MSEC);
	add_event(HAPPEN_TRANSACTION, 1700 * LE_MSEC);
	add_event(HAPPEN_RELEASE, 2000 * LE_MSEC);
	add_event(HAPPEN_JOB, 4 * LE_SEC);
	for (int i = 0; i < 2; i++)
	{
		schedule.lease_ms[i] = LEASE / LE_MSEC;
		schedule.margin_ms[i] = MARGIN / LE_MSEC;
		schedule.takeover[i] = true;
		schedule.campaigns[i] = 1;
	}
}

/* LENGTH:FAULT,...: exactly these faults, with a trace for people. */
int
exhaustive_replay(const char *faults)
{
	char	   *end;

	prepare();
	length = (int) strtol(faults, &end, 10);
	if (*end != ':' || length < 0 || length >= (int) lengthof(lengths))
		return 2;
	faults = end + 1;
	while (*faults != '\0' && now.nyes < MAX_FAULTS)
	{
		now.yes[now.nyes++] = (int) strtol(faults, &end, 10);
		faults = *end == ',' ? end + 1 : "";
	}
	trace_on = true;
	schedule_run(&schedule);
	printf("%s\n", sim.failed ? sim.failure : "passed");
	return sim.failed;
}

int
exhaustive_run(int most)
{
	if (most < 0 || most > MAX_FAULTS)
		return 2;
	prepare();
	jobs = (int) sysconf(_SC_NPROCESSORS_ONLN);
	fflush(stdout);
	for (job = 0; job < jobs; job++)
		if (fork() == 0)
		{
			do
				explore(0, most);
			while (most == 1 && ++length < (int) lengthof(lengths));
			__sync_fetch_and_add(&set->steps, sim.counts.steps);
			fflush(stdout);
			_exit(0);
		}
	for (job = 0; job < jobs; job++)
	{
		int			status;

		wait(&status);
		set->failed += status != 0;
	}
	printf("exhaustive search, 2 nodes, 1 election, at most %d faults%s: "
		   UINT64_FORMAT " schedules, " UINT64_FORMAT " steps, "
		   UINT64_FORMAT "%s states, failed: " UINT64_FORMAT "\n", most,
		   most == 1 ? " of four lengths each" : "",
		   set->runs, set->steps, set->states,
		   set->states > SET_SIZE / 2 ? " or more" : "", set->failed);
	return set->failed != 0;
}
