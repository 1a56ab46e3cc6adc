/*
 * lectl/events.c
 *
 * Events that lectl waits for: signals, an instant, the server.
 */
#include "postgres_fe.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "events.h"

/*
 * Not poll's own timeout: it does not count the machine's sleep, and we must
 * see at once a deadline that passed meanwhile.
 */
int
open_timer(void)
{
	return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

void
set_timer(int timer, instant at)
{
	struct itimerspec spec = {.it_value = {0, 0}};

	if (at != NEVER)
	{
		spec.it_value.tv_sec = at / SEC;
		spec.it_value.tv_nsec = at % SEC;
	}
	timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

void
clear_timer(int timer)
{
	uint64_t	times;
	ssize_t		n = read(timer, &times, sizeof(times));

	(void) n;
}

/* The signals that we pass on, and SIGCHLD. */
static const int ours[] = {
	SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGCHLD
};

static sigset_t
our_mask(void)
{
	sigset_t	mask;

	sigemptyset(&mask);
	for (int i = 0; i < lengthof(ours); i++)
		sigaddset(&mask, ours[i]);
	return mask;
}

/*
 * We and the command need SIGCHLD, and a TERM that ends the process, even if
 * our caller ignores or blocks them.  The command inherits other ignored
 * signals, as under nohup.
 */
void
events_reset(void)
{
	sigset_t	mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigaddset(&mask, SIGTERM);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &mask, NULL);
}

bool
events_open(Events *events)
{
	sigset_t	mask = our_mask();

	sigprocmask(SIG_BLOCK, &mask, &events->mask_before);

	/* a vanished reader of our messages is no reason to end */
	events->pipe_before = signal(SIGPIPE, SIG_IGN);

	/* we go on while the command has the terminal */
	events->output_before = signal(SIGTTOU, SIG_IGN);
	events->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	events->timer = open_timer();
	return events->signals >= 0 && events->timer >= 0;
}

/* Restores the caller's settings, for the command. */
void
events_give_back(const Events *events)
{
	signal(SIGPIPE, events->pipe_before);
	signal(SIGTTOU, events->output_before);
	sigprocmask(SIG_SETMASK, &events->mask_before, NULL);
}

/* Undoes events_give_back(). */
void
events_take_again(const Events *events)
{
	sigset_t	mask = our_mask();

	sigprocmask(SIG_BLOCK, &mask, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTTOU, SIG_IGN);
}

/* true: the socket (-1: none) is ready. */
bool
events_wait(Events *events, int socket, bool to_write, instant until)
{
	struct pollfd fds[] = {
		{events->signals, POLLIN, 0},
		{events->timer, POLLIN, 0},
		{socket, POLLIN | (to_write ? POLLOUT : 0), 0}
	};

	set_timer(events->timer, until);
	poll(fds, lengthof(fds), -1);
	clear_timer(events->timer);
	return fds[2].revents != 0;
}

/* The next pending signal, 0: none. */
int
events_signal(Events *events)
{
	struct signalfd_siginfo info;

	if (read(events->signals, &info, sizeof(info)) != sizeof(info))
		return 0;
	return (int) info.ssi_signo;
}
