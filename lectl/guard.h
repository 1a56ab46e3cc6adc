/*
 * lectl/guard.h
 *
 * A second process that ends the command if lectl itself cannot.
 */
#ifndef LECTL_GUARD_H
#define LECTL_GUARD_H

#include <sys/types.h>

#include "deadline.h"

/* Shared by lectl, its guard and, until it is another program, the command. */
typedef struct Guarded
{
	instant		kill_at;
	pid_t		group;			/* 0: the command does not run yet */
	int			signal;			/* what it is ended by */
} Guarded;

typedef struct Guard
{
	Guarded    *guarded;
	pid_t		pid;
	int			lifeline;		/* we hold it open as long as we live */
} Guard;

extern bool guard_start(Guard *guard, instant kill_at, int signo);
extern void guard_move(Guard *guard, instant kill_at);
extern void guard_dismiss(Guard *guard);

#endif							/* LECTL_GUARD_H */
