/*
 * lectl/guard.h
 *
 * The parent of the command: ends it, and all that it has started, also if
 * lectl itself cannot.
 */
#ifndef LECTL_GUARD_H
#define LECTL_GUARD_H

#include <sys/types.h>

#include "deadline.h"

/* Shared by lectl and its guard. */
typedef struct Guarded
{
	instant		kill_at;
	int			signal;			/* what the command is ended by */
	pid_t		group;			/* the command's; it is waited for last */
	int			ended;			/* the command */
	int			code;			/* then: what a shell would say */
	int			gone;			/* all that it has started, too */
} Guarded;

typedef struct Guard
{
	Guarded    *guarded;
	pid_t		pid;			/* 0: none */
	bool		dead;			/* somebody has ended it */
	int			lifeline;		/* we hold it open as long as we live */
} Guard;

/* Starts the command; negative: it could not. */
typedef pid_t (*StartCommand) (void *what);

extern bool guard_start(Guard *guard, instant kill_at, int signo,
						StartCommand start, void *what);
extern void guard_move(Guard *guard, instant kill_at);
extern bool guard_end_all(Guard *guard, instant limit);
extern void guard_dismiss(Guard *guard);

#endif							/* LECTL_GUARD_H */
