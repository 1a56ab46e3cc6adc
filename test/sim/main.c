/*-------------------------------------------------------------------------
 *
 * main.c
 *		The simulator's command line.
 *
 *	sim run [schedules=N] [from=SEED] [jobs=N] [first=1] [store=NAME]
 *			[traces=DIR] [every=N]
 *	sim replay seed=SEED [store=...] [drop=...] [calm=...] [storm=...]
 *				[kill=...]
 *	sim shrink seed=SEED
 *	sim regress FILE ...
 *	sim exhaust faults=N|replay=LENGTH:N,...
 *	sim kills [seeds=N] [from=SEED]
 *	sim load
 *	sim model SEED OPERATIONS
 *	sim model-cassandra SEED OPERATIONS
 *	sim model-azure
 *
 * test/sim/main.c
 *
 *-------------------------------------------------------------------------
 */
#include "cli.h"

#include <unistd.h>

#include "worker/base/trace.h"

static Schedule schedule;

static bool
is(const char *word, const char *prefix, const char **value)
{
	*value = word + strlen(prefix);
	return strncmp(word, prefix, strlen(prefix)) == 0;
}

static int
usage(void)
{
	fprintf(stderr, "usage: sim run [schedules=N] [from=SEED] [jobs=N] [first=1] "
			"[store=NAME]\n"
			"               [traces=DIR] [every=N]\n"
			"       sim replay|shrink seed=SEED [store=NAME] [drop=N,...] "
			"[calm=NAME,...] [storm=MS] [kill=N]\n"
			"       sim regress FILE ...\n"
			"       sim exhaust faults=N|replay=LENGTH:N,...\n"
			"       sim kills [seeds=N] [from=SEED]\n"
			"       sim load\n"
			"       sim model SEED OPERATIONS\n"
			"       sim model-cassandra SEED OPERATIONS\n"
			"       sim model-azure\n");
	return 2;
}

static int
run(int argc, char **argv)
{
	uint64		schedules = 500000;
	uint64		from = 1;
	int			njobs = (int) sysconf(_SC_NPROCESSORS_ONLN);
	bool		first = false;
	const char *value;

	for (int i = 0; i < argc; i++)
	{
		if (is(argv[i], "schedules=", &value))
			schedules = strtoull(value, NULL, 10);
		else if (is(argv[i], "from=", &value))
			from = strtoull(value, NULL, 10);
		else if (is(argv[i], "jobs=", &value))
			njobs = atoi(value);
		else if (is(argv[i], "first=", &value))
			first = atoi(value) != 0;
		else if (is(argv[i], "store=", &value))
			jobs_store(value);
		else if (is(argv[i], "traces=", &value))
			jobs_trace(value, 0);
		else if (is(argv[i], "every=", &value))
			jobs_trace(NULL, strtoull(value, NULL, 10));
		else
			return usage();
	}
	if (schedules == 0 || njobs <= 0)
		return usage();
	return jobs_run(from, schedules, njobs, first);
}

static int
kills(int argc, char **argv)
{
	uint64		from = 1;
	uint64		seeds = 20;
	const char *value;

	for (int i = 0; i < argc; i++)
	{
		if (is(argv[i], "seeds=", &value))
			seeds = strtoull(value, NULL, 10);
		else if (is(argv[i], "from=", &value))
			from = strtoull(value, NULL, 10);
		else
			return usage();
	}
	return kills_run(from, seeds);
}

static bool
read_words(int argc, char **argv)
{
	if (argc == 0 || strncmp(argv[0], "seed=", 5) != 0)
		return false;
	for (int i = 0; i < argc; i++)
		if (!edit_schedule(&schedule, argv[i]))
			return false;
	return true;
}

static int
replay(int argc, char **argv)
{
	if (!read_words(argc, argv))
		return usage();
	trace_on = true;
	schedule_print(&schedule);
	schedule_run(&schedule);
	printf("%s\n", sim.failed ? sim.failure : "passed");
	return sim.failed;
}

static int
shorten(int argc, char **argv)
{
	if (!read_words(argc, argv))
		return usage();
	shrink(&schedule);
	printf("%s\n", sim.failed ? sim.failure : "passed");
	edit_print(&schedule);
	return sim.failed;
}

/* Lines of words; # begins a comment. */
static int
regress(int argc, char **argv)
{
	int			failed = 0;
	int			n = 0;

	for (int i = 0; i < argc; i++)
	{
		char		line[1024];
		FILE	   *file = fopen(argv[i], "r");

		if (file == NULL)
		{
			perror(argv[i]);
			return 2;
		}
		while (fgets(line, sizeof(line), file) != NULL)
		{
			char	   *words[8];
			int			nwords = 0;

			line[strcspn(line, "#\n")] = '\0';
			for (char *w = strtok(line, " \t"); w != NULL && nwords < 8;
				 w = strtok(NULL, " \t"))
				words[nwords++] = w;
			if (nwords == 0)
				continue;
			if (!read_words(nwords, words))
			{
				fprintf(stderr, "%s: cannot be read: %s\n", argv[i],
						words[0]);
				return 2;
			}
			schedule_run(&schedule);
			n++;
			failed += sim.failed;
			if (sim.failed)
				printf("%s: %s: %s\n", argv[i], words[0], sim.failure);
		}
		fclose(file);
	}
	printf("%d regression schedules, failed: %d\n", n, failed);
	return failed != 0;
}

int
main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	argc -= 2;
	argv += 2;
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	stores_adapt();
	le_trace_sink = NULL;
	if (strcmp(mode, "run") == 0)
		return run(argc, argv);
	if (strcmp(mode, "replay") == 0)
		return replay(argc, argv);
	if (strcmp(mode, "shrink") == 0)
		return shorten(argc, argv);
	if (strcmp(mode, "regress") == 0)
		return regress(argc, argv);
	if (strcmp(mode, "exhaust") == 0 && argc == 1 &&
		strncmp(argv[0], "faults=", 7) == 0)
		return exhaustive_run(atoi(argv[0] + 7));
	if (strcmp(mode, "exhaust") == 0 && argc == 1 &&
		strncmp(argv[0], "replay=", 7) == 0)
		return exhaustive_replay(argv[0] + 7);
	if (strcmp(mode, "kills") == 0)
		return kills(argc, argv);
	if (strcmp(mode, "load") == 0 && argc == 0)
	{
		load_report();
		return 0;
	}
	if (strcmp(mode, "model") == 0 && argc == 2)
		return model_run(strtoull(argv[0], NULL, 10), atoi(argv[1]));
	if (strcmp(mode, "model-cassandra") == 0 && argc == 2)
		return model_cassandra_run(strtoull(argv[0], NULL, 10),
								   atoi(argv[1]));
	if (strcmp(mode, "model-azure") == 0 && argc == 0)
		return model_azure_run();
	return usage();
}
