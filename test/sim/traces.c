/*-------------------------------------------------------------------------
 *
 * traces.c
 *		The record of decisions, as workers of the tests write it, for
 *		test/traces to judge: one file for a schedule.
 *
 * A line's time is the true one.  Besides the workers' lines there are those
 * that only the simulator can write: the rates of the nodes' clocks, and the
 * deeds of people and other clients.
 *
 * test/sim/traces.c
 *
 *-------------------------------------------------------------------------
 */
#include "cli.h"

#include "worker/base/trace.h"

static FILE *file;
static bool clocks_told;

/* Each node's clock: the time that it shows now, and its speed. */
static void
tell_clocks(void)
{
	for (int i = 0; i < sim.nnodes; i++)
		fprintf(file, "{\"at\":%lld,\"line\":\"clock\",\"node\":\"%s\","
				"\"shows\":%lld,\"ppm\":%d,\"beyond\":%d}\n",
				(long long) sim.now, name_of_node(i),
				(long long) clock_boot(sim.node[i], sim.now),
				sim.schedule->ppm[i], sim.schedule->beyond);
	clocks_told = true;
}

/* Written by the simulator, or by a worker. */
static void
put(const char *line)
{
	if (!clocks_told)
		tell_clocks();
	fprintf(file, "{\"at\":%lld%s}\n", (long long) sim.now, line);
}

/* A sample of the schedules goes to DIR/seed-N.jsonl. */
void
traces_begin(const char *dir, const Schedule *s)
{
	char		text[1024];

	pg_snprintf(text, sizeof(text), "%s/seed-" UINT64_FORMAT ".jsonl", dir,
				s->seed);
	file = fopen(text, "w");
	if (file == NULL)
	{
		perror(text);
		exit(2);
	}
	le_trace_sink = put;
	clocks_told = false;
}

void
traces_end(void)
{
	if (file == NULL)
		return;
	le_trace_sink = NULL;
	if (fclose(file) != 0)
	{
		perror("traces");
		exit(2);
	}
	file = NULL;
}

/* Somebody other than a worker has changed an election's key in the store. */
void
traces_deed(int election, const char *what)
{
	char		text[256];

	if (file == NULL)
		return;
	pg_snprintf(text, sizeof(text),
				",\"line\":\"deed\",\"election\":\"%s\",\"what\":\"%s\"",
				name_of_election(election), what);
	put(text);
}
