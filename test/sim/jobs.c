/*-------------------------------------------------------------------------
 *
 * jobs.c
 *		Many schedules, on all processors.
 *
 * Each job takes every n-th seed, counts in shared memory, and goes on after
 * a failure, unless the first is enough; the seed of a job that crashes stays
 * there.
 *
 * test/sim/jobs.c
 *
 *-------------------------------------------------------------------------
 */
#include "cli.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_JOBS		64
#define MAX_FAILURES	8		/* for one job */

typedef struct Job
{
	pid_t		pid;
	volatile uint64 done;
	volatile uint64 current;
	volatile int nfailures;
	volatile bool stop;
	uint64		seeds[MAX_FAILURES];
	char		failures[MAX_FAILURES][256];
	Counts		counts;
} Job;

static Job *jobs;
static Counts total;
static int	only_store = -1;	/* overrides the seeds */
static const char *trace_dir;	/* NULL: none leaves a record */
static uint64 trace_every = 997;	/* with all kinds of seeds */

extern int	__real_clock_gettime(clockid_t id, struct timespec *ts);

static double
seconds(void)
{
	struct timespec ts;

	__real_clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* All schedules are for this store. */
void
jobs_store(const char *name)
{
	for (int k = 0; k < STORE_KINDS; k++)
		if (strcmp(name, store_kind_name(k)) == 0)
			only_store = k;
}

/* Seeds that can be divided by "every" leave a record; 0: the usual ones. */
void
jobs_trace(const char *dir, uint64 every)
{
	if (dir != NULL)
		trace_dir = dir;
	if (every != 0)
		trace_every = every;
}

static void
make(Schedule *s, uint64 seed)
{
	if (only_store < 0)
		schedule_make(s, seed);
	else
		schedule_make_for(s, seed, only_store);
}

static void
work(Job *job, uint64 first, uint64 end, int stride)
{
	static Schedule s;

	for (uint64 seed = first; seed < end && !job->stop; seed += stride)
	{
		job->current = seed;
		make(&s, seed);
		if (trace_dir != NULL && seed % trace_every == 0)
			traces_begin(trace_dir, &s);
		schedule_run(&s);
		traces_end();
		job->done++;
		if (sim.failed)
		{
			int			n = job->nfailures;

			job->seeds[n] = seed;
			strlcpy(job->failures[n], sim.failure, sizeof(sim.failure));
			job->nfailures = n + 1;
			if (n + 1 == MAX_FAILURES)
				break;
		}
	}
	job->counts = sim.counts;
}

static uint64
done_by(int njobs)
{
	uint64		done = 0;

	for (int i = 0; i < njobs; i++)
		done += jobs[i].done;
	return done;
}

static int
failures_of(int njobs)
{
	int			n = 0;

	for (int i = 0; i < njobs; i++)
		n += jobs[i].nfailures;
	return n;
}

static void
stop_jobs(int njobs)
{
	for (int i = 0; i < njobs; i++)
		jobs[i].stop = true;
}

/* Failures of a long run can be read before its end. */
static void
tell_failures(int njobs)
{
	static int	told[MAX_JOBS];

	for (int i = 0; i < njobs; i++)
		for (; told[i] < jobs[i].nfailures; told[i]++)
			printf("seed " UINT64_FORMAT ": %s\n", jobs[i].seeds[told[i]],
				   jobs[i].failures[told[i]]);
	fflush(stdout);
}

/* A job that ends silently must not pass for one without failures. */
static bool
ended_well(const Job *job, int status)
{
	if (status == 0 && job->counts.schedules == job->done)
		return true;
	printf("sim: crashed at seed " UINT64_FORMAT ", status %d, after "
		   UINT64_FORMAT " schedules, of which it counts " UINT64_FORMAT "\n",
		   job->current, status, job->done, job->counts.schedules);
	return false;
}

/* Waits until all have ended; returns how many crashed. */
static int
wait_for_jobs(int njobs, uint64 schedules, bool first, double started)
{
	int			left = njobs;
	int			crashed = 0;
	double		told = started;
	bool		to_screen = isatty(STDERR_FILENO);

	while (left > 0)
	{
		int			status;
		pid_t		pid = waitpid(-1, &status, WNOHANG);
		double		now = seconds();

		if (pid > 0)
		{
			left--;
			for (int i = 0; i < njobs; i++)
				if (jobs[i].pid == pid && !ended_well(&jobs[i], status))
					crashed++;
			continue;
		}
		usleep(20000);
		tell_failures(njobs);
		if (first && failures_of(njobs) + crashed > 0)
			stop_jobs(njobs);
		if (now - told < (to_screen ? 1 : 30))
			continue;
		told = now;
		fprintf(stderr, "%s" UINT64_FORMAT " of " UINT64_FORMAT
				" schedules, %.0f/s, %d failed%s", to_screen ? "\r" : "",
				done_by(njobs), schedules,
				done_by(njobs) / (now - started), failures_of(njobs),
				to_screen ? " " : "\n");
	}
	if (to_screen)
		fprintf(stderr, "\r%79s\r", "");
	return crashed;
}

static void
add_counts(const Counts *c)
{
	uint64	   *to = (uint64 *) &total;
	const uint64 *from = (const uint64 *) c;

	for (size_t i = 0; i < sizeof(Counts) / sizeof(uint64); i++)
		to[i] += from[i];
}

#define N(field)	((unsigned long long) total.field)

/* Other processes share the processors, so the jobs' own time counts. */
static double
cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_CHILDREN, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec +
		(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void
summary(double elapsed, int njobs, int failed)
{
	double		cpu = cpu_seconds();

	printf("%llu schedules in %.1f s by %d jobs, %.1f s of processor time, "
		   "%.0f per second of it\n", N(schedules), elapsed, njobs, cpu,
		   N(schedules) / Max(cpu, 0.001));
	printf("by store:");
	for (int k = 0; k < STORE_KINDS; k++)
		printf("%s %s %llu", k == 0 ? "" : ",", store_kind_name(k),
			   N(of_store[k]));
	printf("\n%llu steps, %llu requests; %llu terms began, %llu takeovers\n",
		   N(steps), N(requests), N(terms), N(takeovers));
	printf("operations that went with another's: %llu, again for its sake: "
		   "%llu; gateways that know of none: %llu times\n", N(joined),
		   N(unjudged), N(apart));
	printf("writes that news told of: %llu; news that began with a gap: "
		   "%llu\n", N(told), N(gaps));
	printf("requests: %llu of unknown outcome, %llu applied after they were "
		   "given up, %llu twice\n", N(unknown), N(late), N(duplicates));
	printf("sessions: %llu expired, %llu invalidated; locks refused for "
		   "lock-delay: %llu, leaked: %llu\n", N(expired), N(invalidated),
		   N(delayed), N(leaked));
	printf("statements of gateways: %llu, %llu of unknown outcome, %llu late, "
		   "%llu finished by another, %llu burns; gateways: %llu killed, "
		   "%llu frozen\n", N(statements), N(open_statements),
		   N(late_statements), N(proposals), N(burned), N(gateways_killed),
		   N(gateways_frozen));
	printf("leases on blobs: %llu, %llu never stamped, %llu broken; requests "
		   "refused by a busy service: %llu\n", N(leases), N(unstamped),
		   N(broken), N(throttled));
	printf("workers: %llu stopped between two instructions, %llu killed; "
		   "instances: %llu crashed, %llu suspended\n", N(pauses), N(kills),
		   N(crashes), N(suspends));
	printf("terms that did not begin for a full disk: %llu\n", N(unkept));
	printf("questions of backends: %llu\n", N(questions));
	printf("claims: %llu asked, %llu granted (%llu as another try, %llu of "
		   "these in the same term), %llu refused, %llu behind an older tick, "
		   "%llu while one was under way, %llu unknown or lost; "
		   "%llu completed, %llu after the term, %llu abandoned in it\n", N(claims_asked),
		   N(claims_granted), N(claims_again), N(claims_same_term),
		   N(claims_refused), N(claims_behind), N(claims_under_way),
		   N(claims_unknown), N(completed), N(completed_late),
		   N(claims_abandoned));
	printf("ticks that were missed: %llu run, %llu reported; %llu claims by "
		   "another interval than the one before\n", N(missed_run),
		   N(missed_told), N(intervals));
	printf("transactions: %llu bound, %llu committed, %llu refused, %llu of "
		   "them after they were waited for, %llu waits, %llu of them "
		   "canceled\n", N(bound), N(commits),
		   N(refused_commits), N(cut), N(commit_waits),
		   N(canceled_commits));
	printf("sessions that were nudged to look at their terms: %llu\n",
		   N(nudges));
	printf("progress told of: %llu; terms given up without: %llu\n",
		   N(progress), N(useless));
	printf("backends stopped between two instructions: %llu\n",
		   N(backend_pauses));
	printf("terms ended in fair weather, the next within the "
		   "bound: %llu\n", N(fair_handovers));
	printf("outside the assumptions (clocks too fast, keys edited by hand) "
		   "two believed: %llu steps\n", N(outside));
	for (int k = 0; k < HAPPEN_KINDS; k++)
		printf("%s%s %llu", k % 7 == 0 ? k == 0 ? "" : "\n" : ", ",
			   happening_name(k), N(happened[k]));
	printf("\nfailed: %d\n", failed);
}

/* The first failure, shortened as far as possible. */
static void
explain(int njobs)
{
	static Schedule s;

	for (int i = 0; i < njobs; i++)
		if (jobs[i].nfailures > 0)
		{
			make(&s, jobs[i].seeds[0]);
			shrink(&s);
			printf("shortest: ");
			edit_print(&s);
			printf("replay: make sim SEED=" UINT64_FORMAT "\n", s.seed);
			return;
		}
}

int
jobs_run(uint64 from, uint64 schedules, int njobs, bool first)
{
	double		started = seconds();
	double		elapsed;
	int			failed;

	njobs = Min(njobs, MAX_JOBS);
	jobs = mmap(NULL, njobs * sizeof(Job), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (jobs == MAP_FAILED)
		abort();
	fflush(stdout);
	for (int i = 0; i < njobs; i++)
	{
		pid_t		pid = fork();

		if (pid == 0)
		{
			work(&jobs[i], from + i, from + schedules, njobs);
			_exit(0);
		}
		jobs[i].pid = pid;		/* shared: the child's 0 must not get here */
	}
	failed = wait_for_jobs(njobs, schedules, first, started);
	elapsed = seconds() - started;
	failed += failures_of(njobs);
	for (int i = 0; i < njobs; i++)
		add_counts(&jobs[i].counts);
	tell_failures(njobs);
	if (!first)
		explain(njobs);
	summary(elapsed, njobs, failed);
	return failed == 0 ? 0 : 1;
}
