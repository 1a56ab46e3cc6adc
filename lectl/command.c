/*
 * lectl/command.c
 *
 * The command that is run: its start, its process group, its end.
 *
 * If the command must not outlive us, a guard is its parent, else we are.  The
 * command dies with its parent; the guard ends all its descendants.
 */
#include "command.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The command's own group would be in the background, and stop when it reads
 * from the terminal: we would lead for ever.  So the command gets the
 * terminal, if we have it, and ignores SIGTSTP; otherwise it ignores SIGTTIN
 * and its read fails.  In a pipeline the pager keeps the terminal.  SIGTTOU
 * must be ignored: see events.c.
 */
static bool
have_terminal(void)
{
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) &&
		tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void
take_terminal(bool take)
{
	if (take)
		tcsetpgrp(STDIN_FILENO, getpid());
	signal(take ? SIGTSTP : SIGTTIN, SIG_IGN);
}

static void
take_terminal_back(const Command *command)
{
	if (command->has_terminal)
		tcsetpgrp(STDIN_FILENO, getpgrp());
}

/* How to start the command. */
typedef struct Start
{
	char	  **argv;
	int			death_signal;
	const Events *events;
	bool		terminal;
} Start;

static void
become(const Start *start, pid_t parent)
{
	int			error;

	setpgid(0, 0);
	take_terminal(start->terminal);
	if (start->death_signal != 0)
		prctl(PR_SET_PDEATHSIG, start->death_signal);
	if (getppid() != parent)
		_exit(LECTL_SOFTWARE);
	events_give_back(start->events);
	execvp(start->argv[0], start->argv);
	error = errno;
	pg_log_error("could not execute \"%s\": %m", start->argv[0]);
	_exit(error == ENOENT ? LECTL_NOT_FOUND : LECTL_CANNOT_RUN);
}

static pid_t
begin(void *what)
{
	pid_t		parent = getpid();
	pid_t		pid = fork();

	if (pid == 0)
		become(what, parent);
	return pid;
}

/* Death signal 0: the command may outlive us.  A guard becomes its parent. */
bool
command_start(Command *command, char **argv, int death_signal,
			  Guard *guard, instant kill_at, const Events *events,
			  bool at_terminal)
{
	bool		terminal = at_terminal && have_terminal();
	Start		start = {argv, death_signal, events, terminal};

	command->has_terminal = terminal;
	command->guard = guard;
	fflush(NULL);
	if (guard != NULL)
	{
		if (!guard_start(guard, kill_at, death_signal, begin, &start))
			return false;
		command->pid = guard->guarded->group;
		return true;
	}
	command->pid = begin(&start);
	if (command->pid < 0)
		return false;
	setpgid(command->pid, command->pid);	/* the child does, too: a race */
	return true;
}

void
command_signal(const Command *command, int signo)
{
	if (command->pid > 0 && !command->gone)
		kill(-command->pid, signo);
}

/*
 * A child has ended: the guard, or a stranger that we inherited from our
 * caller or adopted as process 1.  A stranger is reaped and forgotten.
 */
static void
bury(Command *command, pid_t pid)
{
	waitpid(pid, NULL, 0);
	if (command->guard != NULL && pid == command->guard->pid)
		command->guard->dead = true;
}

/*
 * Somebody killed the guard, and the command died with it.  We kill the rest
 * of the command's group; its other descendants are unknown.
 */
static void
lose_guard(Command *command)
{
	pg_log_error("the process that guards the command was ended");
	kill(-command->pid, SIGKILL);
	command->ended = true;
	command->code = 128 + SIGKILL;
}

/*
 * Notes the end of the command.  It stays a zombie, so that no other process
 * or group can get its number.
 */
void
command_look(Command *command)
{
	siginfo_t	info = {0};
	const Guard *guard = command->guard;

	while (command->pid > 0 && !command->ended &&
		   waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		   info.si_pid != 0)
	{
		if (guard != NULL || info.si_pid != command->pid)
		{
			bury(command, info.si_pid);
			info.si_pid = 0;
			continue;
		}
		command->ended = true;
		command->code = info.si_code == CLD_EXITED ? info.si_status :
			128 + info.si_status;
	}
	if (guard == NULL || command->pid <= 0 || command->ended)
		return;
	if (__atomic_load_n(&guard->guarded->ended, __ATOMIC_ACQUIRE))
	{
		command->ended = true;
		command->code = guard->guarded->code;
	}
	else if (guard->dead)
		lose_guard(command);
}

/*
 * The command has ended; end its descendants, too.  false: some of them still
 * run at the limit.
 */
bool
command_end_rest(Command *command, instant limit)
{
	bool		ended = guard_end_all(command->guard, limit);

	command->gone = true;
	take_terminal_back(command);
	return ended;
}

/* The same if its descendants may go on. */
void
command_forget(Command *command)
{
	if (command->guard == NULL)
		waitpid(command->pid, NULL, 0);
	command->gone = true;
	take_terminal_back(command);
}
