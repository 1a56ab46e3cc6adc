/*-------------------------------------------------------------------------
 *
 * edit.c
 *		Changes to a schedule made from a seed.
 *
 * A schedule is written as words: seed=5 drop=0,3 calm=delay,repeat
 * storm=12345 (ms), perhaps with store=consul, cassandra or azure after the
 * seed.  The search for a shorter schedule prints such a line, and the files
 * in seeds/ consist of them.  With kill=N a worker dies at the Nth reading of
 * all, to find the one instruction at which that does harm.
 *
 * test/sim/edit.c
 *
 *-------------------------------------------------------------------------
 */
#include "cli.h"

#define PART(name)	{#name, offsetof(Weather, name)}

static const struct
{
	const char *name;
	size_t		offset;
}			parts[] = {
	PART(lose_request), PART(lose_answer), PART(repeat), PART(delay),
	PART(long_delay), PART(refuse), PART(break_answer), PART(false_renew),
	PART(false_gone), PART(stale_list), PART(watch_miss), PART(watch_reset),
	PART(leak), PART(pause), PART(kill), PART(backend_pause),
	PART(full_disk)
};

static int *
part_of(Weather *w, int i)
{
	return (int *) ((char *) w + parts[i].offset);
}

static bool
drop_events(Schedule *s, const char *list)
{
	char	   *end;

	while (*list != '\0')
	{
		long		n = strtol(list, &end, 10);

		if (end == list || n < 0 || n >= s->nevents)
			return false;
		s->events[n].dropped = true;
		list = *end == ',' ? end + 1 : end;
	}
	return true;
}

static bool
calm_parts(Schedule *s, const char *list)
{
	while (*list != '\0')
	{
		size_t		len = strcspn(list, ",");
		bool		found = false;

		for (int i = 0; i < (int) lengthof(parts); i++)
			if (strlen(parts[i].name) == len &&
				strncmp(parts[i].name, list, len) == 0)
			{
				*part_of(&s->weather, i) = 0;
				found = true;
			}
		if (!found)
			return false;
		list += len + (list[len] == ',');
	}
	return true;
}

/* False if the word means nothing here. */
bool
edit_schedule(Schedule *s, const char *word)
{
	if (strncmp(word, "seed=", 5) == 0)
		schedule_make(s, strtoull(word + 5, NULL, 10));
	else if (strcmp(word, "store=consul") == 0)
		schedule_make_for(s, s->seed, STORE_CONSUL);
	else if (strcmp(word, "store=cassandra") == 0)
		schedule_make_for(s, s->seed, STORE_CASSANDRA);
	else if (strcmp(word, "store=azure") == 0)
		schedule_make_for(s, s->seed, STORE_AZURE);
	else if (strncmp(word, "drop=", 5) == 0)
		return drop_events(s, word + 5);
	else if (strncmp(word, "calm=", 5) == 0)
		return calm_parts(s, word + 5);
	else if (strncmp(word, "storm=", 6) == 0)
		s->storm = strtoll(word + 6, NULL, 10) * LE_MSEC;
	else if (strncmp(word, "kill=", 5) == 0)
		s->kill_at = strtoll(word + 5, NULL, 10);
	else
		return false;
	return true;
}

/* The line that makes this schedule. */
void
edit_print(const Schedule *s)
{
	static Schedule plain;
	const char *before = " drop=";

	schedule_make(&plain, s->seed);
	printf("seed=" UINT64_FORMAT, s->seed);
	if (s->store != plain.store)
		printf(" store=%s", store_kind_name(s->store));
	schedule_make_for(&plain, s->seed, s->store);
	for (int i = 0; i < s->nevents; i++)
		if (s->events[i].dropped)
		{
			printf("%s%d", before, i);
			before = ",";
		}
	before = " calm=";
	for (int i = 0; i < (int) lengthof(parts); i++)
		if (*part_of(&plain.weather, i) != 0 &&
			*part_of((Weather *) &s->weather, i) == 0)
		{
			printf("%s%s", before, parts[i].name);
			before = ",";
		}
	if (s->storm != plain.storm)
		printf(" storm=" INT64_FORMAT, s->storm / LE_MSEC);
	if (s->kill_at != 0)
		printf(" kill=" INT64_FORMAT, s->kill_at);
	printf("\n");
}
