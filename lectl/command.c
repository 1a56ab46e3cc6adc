/*
 * lectl/command.c
 *
 * The command that is run: its start, its process group, its end.
 *
 * It has a guard for its parent where it must not outlive us, and us where it
 * may.  It dies with its parent; the guard ends all that it has started.
 */
#include "command.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * A group of its own is one in the background, which is stopped when it reads
 * from the terminal: we would lead for ever.  So it gets the terminal, if we
 * have it, and is not to be stopped there; or an error when it reads.  Not in
 * a pipeline, in which a pager needs it.  Needs SIGTTOU to be ignored: see
 * events.c.
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

/* How it is to be started. */
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

/* Death signal 0: it may outlive us.  With a guard that is its parent. */
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
	setpgid(command->pid, command->pid);	/* whoever comes first */
	return true;
}

void
command_signal(const Command *command, int signo)
{
	if (command->pid > 0 && !command->gone)
		kill(-command->pid, signo);
}

/*
 * A child of ours has ended: the guard or one that we know nothing of, which
 * is ours because our caller had it or because we are process 1.  Such a one
 * is waited for and not missed.
 */
static void
bury(Command *command, pid_t pid)
{
	waitpid(pid, NULL, 0);
	if (command->guard != NULL && pid == command->guard->pid)
		command->guard->dead = true;
}

/*
 * The guard was ended by somebody, and the command with it.  If its group has
 * others they end, too; nobody can say what else it has started.
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
 * Has it ended?  It is left to be waited for: as long as it is not, nobody
 * else can have its number, nor its group's.
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
 * The command has ended.  What it left running is ended as well.  false: some
 * of it is still there at the limit.
 */
bool
command_end_rest(Command *command, instant limit)
{
	bool		ended = guard_end_all(command->guard, limit);

	command->gone = true;
	take_terminal_back(command);
	return ended;
}

/* The same where what it left running may go on. */
void
command_forget(Command *command)
{
	if (command->guard == NULL)
		waitpid(command->pid, NULL, 0);
	command->gone = true;
	take_terminal_back(command);
}
