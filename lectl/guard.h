/*
 * lectl/guard.h
 *
 * The parent of the command: ends the command and its descendants, even if
 * lectl cannot.
 */
#ifndef LECTL_GUARD_H
#define LECTL_GUARD_H

#include <sys/types.h>

#include "deadline.h"

/* Shared by lectl and its guard. */
typedef struct Guarded
{
	instant		kill_at;
	int			signal;			/* ends the command */
	pid_t		group;			/* the command's, which is reaped last */
	int			ended;			/* the command */
	int			code;			/* then: as a shell reports it */
	int			gone;			/* its descendants, too */
} Guarded;

typedef struct Guard
{
	Guarded    *guarded;
	pid_t		pid;			/* 0: none */
	bool		dead;			/* somebody has ended it */
	int			lifeline;		/* its end of file tells of our death */
} Guard;

/* Starts the command; negative: it could not. */
typedef pid_t (*StartCommand) (void *what);

extern bool guard_start(Guard *guard, instant kill_at, int signo,
						StartCommand start, void *what);
extern void guard_move(Guard *guard, instant kill_at);
extern bool guard_end_all(Guard *guard, instant limit);
extern void guard_dismiss(Guard *guard);

#endif							/* LECTL_GUARD_H */
