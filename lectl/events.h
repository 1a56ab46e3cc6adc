/*
 * lectl/events.h
 *
 * Events that lectl waits for: signals, an instant, the server.
 */
#ifndef LECTL_EVENTS_H
#define LECTL_EVENTS_H

#include <signal.h>

#include "deadline.h"

typedef struct Events
{
	int			signals;
	int			timer;
	sigset_t	mask_before;	/* the caller's, for the command */
	void		(*pipe_before) (int);
	void		(*output_before) (int);
} Events;

/* timers count the machine's sleep, too */
extern int	open_timer(void);
extern void set_timer(int timer, instant at);
extern void clear_timer(int timer);

extern void events_reset(void);
extern bool events_open(Events *events);
extern void events_give_back(const Events *events);
extern void events_take_again(const Events *events);
extern bool events_wait(Events *events, int socket, bool to_write,
						instant until);
extern int	events_signal(Events *events);

#endif							/* LECTL_EVENTS_H */
