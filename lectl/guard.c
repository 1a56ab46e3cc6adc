/*
 * lectl/guard.c
 *
 * A second process that ends the command if lectl itself cannot: because it
 * was killed, or stands still when the deadline comes.
 *
 * It also has the connection's socket open, of which it makes no use.  So when
 * lectl is killed, the server does not see the session end, and gives nobody
 * else the lead, before the command's process group is gone.
 */
#include "postgres_fe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "events.h"
#include "guard.h"

/* So long the socket is kept open for processes that do not die. */
#define LINGER		(5 * SEC)

static void
end_group(const Guarded *guarded)
{
	pid_t		group = __atomic_load_n(&guarded->group, __ATOMIC_ACQUIRE);

	if (group > 0)
		kill(-group, guarded->signal);
}

/* Dead ones that nobody waits for count as there, hence the limit. */
static void
wait_for_group(const Guarded *guarded)
{
	instant		limit = now() + LINGER;
	pid_t		group = __atomic_load_n(&guarded->group, __ATOMIC_ACQUIRE);

	while (group > 0 && kill(-group, 0) == 0 && now() < limit)
		poll(NULL, 0, 1);
}

static void
let_go_of_output(void)
{
	int			null = open("/dev/null", O_RDWR);

	for (int fd = 0; fd <= 2; fd++)
		dup2(null, fd);
}

/*
 * All signals are blocked, as they are in lectl: what ends lectl in good order
 * is not for us.
 */
static void
watch_over(Guarded *guarded, int lifeline)
{
	int			timer = open_timer();
	struct pollfd fds[] = {{lifeline, POLLIN, 0}, {timer, POLLIN, 0}};
	char		word;

	setpgid(0, 0);
	prctl(PR_SET_NAME, "lectl-guard");
	let_go_of_output();
	for (;;)
	{
		instant		kill_at = __atomic_load_n(&guarded->kill_at,
											  __ATOMIC_ACQUIRE);

		if (now() >= kill_at)
		{
			end_group(guarded);
			kill_at = NEVER;
		}
		set_timer(timer, kill_at);
		poll(fds, lengthof(fds), -1);
		clear_timer(timer);
		if (fds[0].revents == 0)
			continue;
		if (read(lifeline, &word, 1) == 0)	/* not dismissed: lectl is dead */
		{
			end_group(guarded);
			wait_for_group(guarded);
		}
		_exit(0);
	}
}

bool
guard_start(Guard *guard, instant kill_at, int signo)
{
	int			ends[2];

	guard->guarded = mmap(NULL, sizeof(Guarded), PROT_READ | PROT_WRITE,
						  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (guard->guarded == MAP_FAILED || pipe2(ends, O_CLOEXEC) != 0)
		return false;
	guard->guarded->kill_at = kill_at;
	guard->guarded->signal = signo;
	guard->pid = fork();
	if (guard->pid == 0)
	{
		close(ends[1]);
		watch_over(guard->guarded, ends[0]);
	}
	close(ends[0]);
	guard->lifeline = ends[1];
	return guard->pid > 0;
}

/* A guard that sleeps until an earlier instant looks again then. */
void
guard_move(Guard *guard, instant kill_at)
{
	__atomic_store_n(&guard->guarded->kill_at, kill_at, __ATOMIC_RELEASE);
}

/* The command and its group are gone: nobody else's must be ended by us. */
void
guard_dismiss(Guard *guard)
{
	ssize_t		written;

	__atomic_store_n(&guard->guarded->group, 0, __ATOMIC_RELEASE);
	written = write(guard->lifeline, "", 1);
	(void) written;
	while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(guard->lifeline);
}
