/*
 * lectl/deadline.h
 *
 * Until when the term may be trusted, on our own clock.
 */
#ifndef LECTL_DEADLINE_H
#define LECTL_DEADLINE_H

#include <stdint.h>

/* nanoseconds of CLOCK_BOOTTIME: it goes on while the machine sleeps */
typedef int64_t instant;

#define MSEC		INT64_C(1000000)
#define SEC			INT64_C(1000000000)
#define NEVER		INT64_MAX

typedef struct Deadline
{
	instant		term_at;		/* the command gets TERM */
	instant		kill_at;		/* and KILL */
	int64_t		grace;			/* time between the two */
	int64_t		ask_every;
	int64_t		longest;		/* longest time left that the server told */
} Deadline;

extern instant now(void);
extern void deadline_learn(Deadline *deadline, instant sent, int64_t left);
extern void deadline_lost(Deadline *deadline, instant at);

#endif							/* LECTL_DEADLINE_H */
