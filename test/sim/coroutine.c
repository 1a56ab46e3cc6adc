/*-------------------------------------------------------------------------
 *
 * coroutine.c
 *		Workers that can be stopped anywhere, and left there for ever.
 *
 * Each has a stack of its own.  Going from one to another saves no signal
 * mask, so that it takes no system call; the stacks are made once.
 *
 * test/sim/coroutine.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include <sys/mman.h>
#include <ucontext.h>

#define STACK_SIZE	(256 * 1024)

struct Coroutine
{
	void	   *now[5];			/* its saved state */
	void	   *start[5];		/* at its beginning */
	void		(*run) (void);
	ucontext_t	context;
};

static Coroutine *current;
static void *scheduler[5];
static ucontext_t scheduler_context;

/* A function of its own, for the compilers' sake. */
static pg_noinline void
jump(void **where)
{
	__builtin_longjmp(where, 1);
}

static pg_noinline void
go_back(void)
{
	if (__builtin_setjmp(current->now) == 0)
		jump(scheduler);
}

/* A restarted process returns to its first yield. */
static void
entry(void)
{
	Coroutine  *self = current;

	if (__builtin_setjmp(self->start) == 0)
		swapcontext(&self->context, &scheduler_context);
	for (;;)
	{
		current->run();
		go_back();
	}
}

Coroutine *
coroutine_new(void (*run) (void))
{
	Coroutine  *c = calloc(1, sizeof(Coroutine));
	Coroutine  *running = current;
	void	   *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
							 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
							 -1, 0);

	if (c == NULL || stack == MAP_FAILED)
		abort();
	c->run = run;
	getcontext(&c->context);
	c->context.uc_stack.ss_sp = stack;
	c->context.uc_stack.ss_size = STACK_SIZE;
	c->context.uc_link = NULL;
	makecontext(&c->context, entry, 0);
	current = c;
	swapcontext(&scheduler_context, &c->context);
	current = running;
	coroutine_reset(c);
	return c;
}

/* Ends its work; it starts from its beginning. */
void
coroutine_reset(Coroutine *c)
{
	memcpy(c->now, c->start, sizeof(c->now));
}

pg_noinline void
coroutine_resume(Coroutine *c)
{
	current = c;
	if (__builtin_setjmp(scheduler) == 0)
		jump(c->now);
	current = NULL;
}

/* Or is it the scheduler? */
bool
coroutine_runs(void)
{
	return current != NULL;
}

void
coroutine_yield(void)
{
	go_back();
}
