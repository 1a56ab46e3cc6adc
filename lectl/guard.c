/*
 * lectl/guard.c
 *
 * The parent of the command: a second process that ends the command and its
 * descendants, even if lectl was killed or is stopped at the deadline.
 *
 * The guard is the reaper of its descendants, so all processes of the command
 * stay below it, whatever their process group or session, and no others:
 * lectl's inherited children, and orphans adopted by lectl as process 1, stay
 * lectl's.
 *
 * The guard also keeps the connection's socket open, without using it.  So
 * when lectl is killed, the server sees the session end, and another node can
 * lead, only after all these processes are gone.
 */
#include "postgres_fe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "events.h"
#include "guard.h"

/* How long we keep the socket open for processes that do not die. */
#define LINGER		(5 * SEC)

/* Words on the lifeline.  End of file: lectl is dead. */
#define LOOK_AGAIN	'l'			/* at kill_at */
#define END_ALL		'e'
#define DISMISSED	'd'

/* The guard's own. */
typedef struct Watch
{
	Guarded    *guarded;
	pid_t		lectl;
	int			lifeline;
	int			timer;
	int			children;
	bool		ending;			/* the command and its descendants */
	bool		signaled;		/* the command was sent its signal */
	bool		alone;			/* lectl is dead */
	instant		limit;			/* then: until when we stay */
} Watch;

/* ---- the guard ---- */

/*
 * Notes the end of the command.  It stays a zombie, so that no other process
 * or group can get its number.
 */
static void
look_at_command(Watch *watch)
{
	Guarded    *guarded = watch->guarded;
	siginfo_t	info = {0};

	if (guarded->ended)
		return;
	waitid(P_PID, guarded->group, &info, WEXITED | WNOHANG | WNOWAIT);
	if (info.si_pid == 0)
		return;
	guarded->code = info.si_code == CLD_EXITED ? info.si_status :
		128 + info.si_status;
	__atomic_store_n(&guarded->ended, 1, __ATOMIC_RELEASE);
	if (getppid() == watch->lectl)
		kill(watch->lectl, SIGCHLD);
}

/*
 * Reaps or kills each child but the command; true: there may be more.  When a
 * child dies, we become the parent of its children, so look again after any
 * child.  true, too, if we cannot list the children.
 */
static bool
end_children(Watch *watch, bool to_kill)
{
	char		path[64];
	FILE	   *children;
	int			pid;
	bool		any = false;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int) getpid());
	children = fopen(path, "r");
	if (children == NULL)
		return true;
	while (fscanf(children, "%d", &pid) == 1)
	{
		if (pid == watch->guarded->group)
			continue;
		if (waitpid(pid, NULL, WNOHANG) != pid && to_kill)
			kill(pid, SIGKILL);
		any = true;
	}
	fclose(children);
	return any;
}

static void
end_all(Watch *watch)
{
	bool		any;

	kill(-watch->guarded->group, SIGKILL);
	any = end_children(watch, true);
	if (!any && watch->guarded->ended)
		__atomic_store_n(&watch->guarded->gone, 1, __ATOMIC_RELEASE);
}

/* KILL ends the descendants, too; another signal goes to the group, once. */
static void
end_command(Watch *watch)
{
	if (watch->guarded->signal == SIGKILL)
		watch->ending = true;
	else if (!watch->signaled)
		kill(-watch->guarded->group, watch->guarded->signal);
	watch->signaled = true;
}

static bool
is_gone(const Watch *watch)
{
	return watch->ending ? watch->guarded->gone : watch->guarded->ended;
}

static void
obey(Watch *watch)
{
	char		word = DISMISSED;
	ssize_t		n = read(watch->lifeline, &word, 1);

	if (n == 0)
	{
		watch->alone = true;
		watch->limit = now() + LINGER;
		end_command(watch);
	}
	else if (word == END_ALL)
		watch->ending = true;
	else if (word == DISMISSED)
		_exit(0);
}

/* Waits once, and handles the events. */
static void
turn(Watch *watch)
{
	instant		kill_at = __atomic_load_n(&watch->guarded->kill_at,
										  __ATOMIC_ACQUIRE);
	bool		busy;
	struct pollfd fds[] = {
		{watch->alone ? -1 : watch->lifeline, POLLIN, 0},
		{watch->timer, POLLIN, 0},
		{watch->children, POLLIN, 0}
	};
	struct signalfd_siginfo info;

	if (now() >= kill_at)
		end_command(watch);
	if (watch->ending && !watch->guarded->gone)
		end_all(watch);
	busy = watch->alone || (watch->ending && !watch->guarded->gone);
	set_timer(watch->timer, watch->signaled ? NEVER : kill_at);
	poll(fds, lengthof(fds), busy ? 1 : -1);
	clear_timer(watch->timer);
	while (read(watch->children, &info, sizeof(info)) > 0)
		;
	look_at_command(watch);
	if (!watch->ending && fds[2].revents != 0)
		end_children(watch, false);
	if (fds[0].revents != 0)
		obey(watch);
}

static void
let_go_of_output(void)
{
	int			null = open("/dev/null", O_RDWR);

	for (int fd = 0; fd <= 2; fd++)
		dup2(null, fd);
}

static int
open_children(void)
{
	sigset_t	mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	return signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

/*
 * Signals are blocked, as in lectl: those that end lectl in good order are not
 * for us.
 */
static void
watch_over(Watch *watch)
{
	while (!watch->alone || (!is_gone(watch) && now() < watch->limit))
		turn(watch);
	_exit(0);
}

/* The result of the start. */
typedef struct Birth
{
	pid_t		pid;
	int			error;
} Birth;

static void
be_guard(Guarded *guarded, pid_t lectl, int lifeline, int report,
		 StartCommand start, void *what)
{
	Watch		watch = {.guarded = guarded,.lectl = lectl};
	Birth		birth;

	watch.lifeline = lifeline;
	setpgid(0, 0);
	if (guarded->signal == SIGKILL)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	watch.timer = open_timer();
	watch.children = open_children();
	birth.pid = watch.timer >= 0 && watch.children >= 0 ? start(what) : -1;
	birth.error = errno;
	if (birth.pid > 0)
		setpgid(birth.pid, birth.pid);	/* the child does, too: a race */
	guarded->group = birth.pid;
	if (write(report, &birth, sizeof(birth)) != sizeof(birth) || birth.pid < 0)
		_exit(1);
	close(report);
	prctl(PR_SET_NAME, "lectl-guard");
	let_go_of_output();
	watch_over(&watch);
}

/* ---- lectl ---- */

static void
say(Guard *guard, char word)
{
	ssize_t		written = write(guard->lifeline, &word, 1);

	(void) written;
	kill(guard->pid, SIGCONT);	/* somebody may have stopped it */
}

/* Makes the pipes and the shared memory. */
static bool
prepare(Guard *guard, int lifeline[2], int report[2])
{
	guard->guarded = mmap(NULL, sizeof(Guarded), PROT_READ | PROT_WRITE,
						  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return guard->guarded != MAP_FAILED &&
		pipe2(lifeline, O_CLOEXEC) == 0 && pipe2(report, O_CLOEXEC) == 0;
}

/* true: the guard has started the command. */
static bool
take_report(int report)
{
	Birth		birth = {-1, ECHILD};
	ssize_t		n;

	while ((n = read(report, &birth, sizeof(birth))) < 0 && errno == EINTR)
		;
	close(report);
	errno = birth.error;
	return n == sizeof(birth) && birth.pid > 0;
}

bool
guard_start(Guard *guard, instant kill_at, int signo, StartCommand start,
			void *what)
{
	pid_t		lectl = getpid();
	int			lifeline[2];
	int			report[2];

	if (!prepare(guard, lifeline, report))
		return false;
	guard->guarded->kill_at = kill_at;
	guard->guarded->signal = signo;
	guard->dead = false;
	fflush(NULL);
	guard->pid = fork();
	if (guard->pid == 0)
	{
		close(lifeline[1]);
		be_guard(guard->guarded, lectl, lifeline[0], report[1], start, what);
	}
	close(lifeline[0]);
	close(report[1]);
	guard->lifeline = lifeline[1];
	fcntl(guard->lifeline, F_SETFL, O_NONBLOCK);
	return guard->pid > 0 && take_report(report[0]);
}

void
guard_move(Guard *guard, instant kill_at)
{
	instant		before = __atomic_exchange_n(&guard->guarded->kill_at, kill_at,
											 __ATOMIC_ACQ_REL);

	if (kill_at < before && !guard->dead)
		say(guard, LOOK_AGAIN);
}

/*
 * The command has ended; end its descendants, too.  false: some of them still
 * run at the limit, stuck in the kernel.
 */
bool
guard_end_all(Guard *guard, instant limit)
{
	if (!guard->dead)
		say(guard, END_ALL);
	while (!__atomic_load_n(&guard->guarded->gone, __ATOMIC_ACQUIRE))
	{
		if (guard->dead || now() >= limit)
			return false;
		poll(NULL, 0, 1);
		guard->dead = waitpid(guard->pid, NULL, WNOHANG) == guard->pid;
	}
	return true;
}

/* From now on the guard must not end anything. */
void
guard_dismiss(Guard *guard)
{
	if (!guard->dead)
	{
		say(guard, DISMISSED);
		while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(guard->lifeline);
	munmap(guard->guarded, sizeof(Guarded));
	guard->guarded = NULL;
	guard->pid = 0;
}
