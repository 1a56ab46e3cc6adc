/*
 * lectl/deadline.c
 *
 * Until when the term may be trusted, on our own clock.
 *
 * The server may be on another machine, so instants of its clock mean nothing
 * here.  It answers for how long the term is good, and we count from the
 * moment we sent the query: the server cannot have looked earlier.
 */
#include "deadline.h"

#include <time.h>

instant
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

static int64_t
between(int64_t least, int64_t x, int64_t most)
{
	return x < least ? least : x > most ? most : x;
}

/*
 * The lead times follow from the longest answer, which is close to the lease:
 * a renewal that is merely due must not look like the end.  The newest answer
 * sets the deadline, even if it is shorter than the one before.
 */
void
deadline_learn(Deadline *deadline, instant sent, int64_t left)
{
	if (left > deadline->longest)
		deadline->longest = left;
	deadline->grace = between(0, deadline->longest / 10, SEC / 2);
	deadline->ask_every = between(50 * MSEC, deadline->longest / 20, SEC);
	deadline->kill_at = sent + left -
		between(100 * MSEC, deadline->longest / 10, SEC);
	deadline->term_at = deadline->kill_at - deadline->grace;
}

/* The term is over or about to be: at most the grace is left. */
void
deadline_lost(Deadline *deadline, instant at)
{
	deadline->term_at = at;
	if (at + deadline->grace < deadline->kill_at)
		deadline->kill_at = at + deadline->grace;
}
