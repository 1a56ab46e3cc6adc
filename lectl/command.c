/*
 * lectl/command.c
 *
 * The command that is run: its start, its process group, its end.
 *
 * Three things keep it from outliving us.  It dies with its parent; the guard
 * ends its process group; and what it leaves behind becomes our child, as we
 * are the reaper of our descendants, and is ended before we give up the term.
 */
#include "command.h"

#include <errno.h>
#include <poll.h>
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

static void
become(char **argv, int death_signal, pid_t parent, Guarded *guarded,
	   const Events *events, bool terminal)
{
	int			error;

	setpgid(0, 0);
	take_terminal(terminal);
	if (death_signal != 0)
		prctl(PR_SET_PDEATHSIG, death_signal);
	if (getppid() != parent)
		_exit(LECTL_SOFTWARE);
	if (guarded != NULL)
		__atomic_store_n(&guarded->group, getpid(), __ATOMIC_RELEASE);
	events_give_back(events);
	execvp(argv[0], argv);
	error = errno;
	pg_log_error("could not execute \"%s\": %m", argv[0]);
	_exit(error == ENOENT ? LECTL_NOT_FOUND : LECTL_CANNOT_RUN);
}

/* Death signal 0: it may outlive us. */
bool
command_start(Command *command, char **argv, int death_signal,
			  Guarded *guarded, const Events *events, bool at_terminal)
{
	pid_t		parent = getpid();

	command->has_terminal = at_terminal && have_terminal();
	if (death_signal == SIGKILL)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	fflush(NULL);
	command->pid = fork();
	if (command->pid == 0)
		become(argv, death_signal, parent, guarded, events,
			   command->has_terminal);
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
 * Has it ended?  It is left to be waited for: as long as it is not, nobody
 * else can have its number, nor its group's.  Whoever else has ended was
 * orphaned and has become our child.
 */
void
command_look(Command *command)
{
	siginfo_t	info = {0};

	while (command->pid > 0 && !command->ended &&
		   waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		   info.si_pid != 0)
	{
		if (info.si_pid != command->pid)
		{
			waitpid(info.si_pid, NULL, 0);
			continue;
		}
		command->ended = true;
		command->code = info.si_code == CLD_EXITED ? info.si_status :
			128 + info.si_status;
	}
}

/* KILL to each child of ours but the guard; are there any? */
static bool
end_children(pid_t guard)
{
	char		path[64];
	FILE	   *children;
	int			pid;
	bool		any = false;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int) getpid());
	children = fopen(path, "r");
	if (children == NULL)
		return false;
	while (fscanf(children, "%d", &pid) == 1)
	{
		if (pid == guard)
			continue;
		kill(pid, SIGKILL);
		any = true;
	}
	fclose(children);
	return any;
}

/*
 * The command has ended.  What it left running is ended as well and waited
 * for; what that had started is our child then.  false: some of it is still
 * there at the limit, as what the kernel does not let go of.
 */
bool
command_end_rest(Command *command, Guard *guard, instant limit)
{
	bool		rest;

	kill(-command->pid, SIGKILL);
	__atomic_store_n(&guard->guarded->group, 0, __ATOMIC_RELEASE);
	while ((rest = end_children(guard->pid)) && now() < limit)
	{
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		poll(NULL, 0, 1);
	}
	command->gone = true;
	take_terminal_back(command);
	return !rest;
}

/* The same where what it left running may go on. */
void
command_forget(Command *command)
{
	waitpid(command->pid, NULL, 0);
	command->gone = true;
	take_terminal_back(command);
}
