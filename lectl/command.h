/*
 * lectl/command.h
 *
 * The command that is run: its start, its process group, its end.
 */
#ifndef LECTL_COMMAND_H
#define LECTL_COMMAND_H

#include "lectl.h"

#include "events.h"
#include "guard.h"

typedef struct Command
{
	pid_t		pid;			/* and its group's; 0: not started */
	Guard	   *guard;			/* NULL: we are its parent */
	bool		ended;
	bool		gone;			/* and was waited for */
	bool		has_terminal;	/* it gets the typed input, not we */
	int			code;			/* as a shell reports it */
} Command;

extern bool command_start(Command *command, char **argv, int death_signal,
						  Guard *guard, instant kill_at, const Events *events,
						  bool at_terminal);
extern void command_signal(const Command *command, int signo);
extern void command_look(Command *command);
extern bool command_end_rest(Command *command, instant limit);
extern void command_forget(Command *command);

#endif							/* LECTL_COMMAND_H */
