/*-------------------------------------------------------------------------
 *
 * shrink.c
 *		From a schedule that fails to a shorter one that fails alike.
 *
 * Each part is left out in turn, again and again, until none can be.  "Alike"
 * means the same check, with any numbers.
 *
 * test/sim/shrink.c
 *
 *-------------------------------------------------------------------------
 */
#include "cli.h"

static char wanted[sizeof(sim.failure)];

/* The message without its digits. */
static void
kind_of(char *to, const char *from)
{
	for (; *from != '\0'; from++)
		if (*from < '0' || *from > '9')
			*to++ = *from;
	*to = '\0';
}

static bool
still_fails(const Schedule *s)
{
	char		kind[sizeof(sim.failure)];

	schedule_run(s);
	if (!sim.failed)
		return false;
	kind_of(kind, sim.failure);
	return strcmp(kind, wanted) == 0;
}

static bool
shorter_storm(Schedule *s)
{
	le_duration before = s->storm;

	for (int part = 2; part <= 16; part *= 2)
	{
		s->storm = before - before / part;
		s->storm -= s->storm % LE_MSEC;
		if (s->storm > 0 && still_fails(s))
			return true;
	}
	s->storm = before;
	return false;
}

static bool
fewer_events(Schedule *s)
{
	bool		any = false;

	for (int i = s->nevents - 1; i >= 0; i--)
	{
		if (s->events[i].dropped)
			continue;
		s->events[i].dropped = true;
		if (still_fails(s))
			any = true;
		else
			s->events[i].dropped = false;
	}
	return any;
}

static bool
calmer_weather(Schedule *s)
{
	static const char *const words[] = {
		"calm=lose_request", "calm=lose_answer", "calm=repeat", "calm=delay",
		"calm=long_delay", "calm=refuse", "calm=break_answer",
		"calm=false_renew", "calm=false_gone", "calm=stale_list",
		"calm=watch_miss", "calm=watch_reset", "calm=leak", "calm=pause",
		"calm=kill", "calm=backend_pause"
	};
	bool		any = false;

	for (int i = 0; i < (int) lengthof(words); i++)
	{
		Weather		before = s->weather;

		edit_schedule(s, words[i]);
		if (memcmp(&before, &s->weather, sizeof(before)) == 0)
			continue;
		if (still_fails(s))
			any = true;
		else
			s->weather = before;
	}
	return any;
}

void
shrink(Schedule *s)
{
	bool		more = true;

	schedule_run(s);
	if (!sim.failed)
		return;
	kind_of(wanted, sim.failure);
	for (int round = 0; more && round < 8; round++)
	{
		more = fewer_events(s);
		more = calmer_weather(s) || more;
		more = shorter_storm(s) || more;
	}
	schedule_run(s);
}
