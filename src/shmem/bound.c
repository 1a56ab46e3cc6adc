/*-------------------------------------------------------------------------
 *
 * bound.c
 *		Registry of the sessions with transactions bound to a term.
 *
 * A term that is to end waits for them.  Each backend has a few entries of its
 * own in shared memory, written by no other process; the worker scans all of
 * them, but only while some term is to end.  A process that dies leaves no
 * counter too high: the entries of a backend that is gone do not count.
 *
 * The worker also signals them to check a term that ended early, or will.  The
 * signal only makes them faster.
 *
 * src/shmem/bound.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "compat.h"
#include "shmem/bound.h"
#include "shmem/requests.h"

typedef struct Bound
{
	pg_atomic_uint64 token;		/* 0: the entry is free */
	pg_atomic_uint32 slot;
	pg_atomic_uint32 stops;		/* stop the session when the term is lost */
} Bound;

typedef struct Bindings
{
	pg_atomic_uint64 owner;		/* the session that owns the entries */
	pg_atomic_uint32 pid;
	pg_atomic_uint32 holding;	/* terms in its own name that stop it without
								 * binding it */
	pg_atomic_uint32 used;		/* number of entries in use */
	pg_atomic_uint32 commits;	/* its transaction is about to commit */
	pg_atomic_uint32 excused;	/* slot + 1 of the election that this backend
								 * itself is about to end; 0: none */
	Bound		entries[LE_MAX_BOUND];
} Bindings;

#define EXCUSED_ALL		PG_UINT32_MAX

static Bindings *backends;

/* The signal of le_bound_nudge(); 0: none.  Chosen in the postmaster. */
static int	signal_number = 0;

Size
le_bound_size(void)
{
	return mul_size(MaxBackends, sizeof(Bindings));
}

void
le_bound_init(bool found, void *where)
{
	backends = where;
	if (found)
		return;
	for (int i = 0; i < MaxBackends; i++)
	{
		Bindings   *b = &backends[i];

		pg_atomic_init_u64(&b->owner, LE_OWNER_NONE);
		pg_atomic_init_u32(&b->pid, 0);
		pg_atomic_init_u32(&b->holding, 0);
		pg_atomic_init_u32(&b->used, 0);
		pg_atomic_init_u32(&b->commits, 0);
		pg_atomic_init_u32(&b->excused, 0);
		for (int k = 0; k < LE_MAX_BOUND; k++)
		{
			pg_atomic_init_u64(&b->entries[k].token, 0);
			pg_atomic_init_u32(&b->entries[k].slot, 0);
			pg_atomic_init_u32(&b->entries[k].stops, 0);
		}
	}
}

/*
 * Choose an unused real-time signal, the same for all processes.  A process
 * ignores it until it is bound to a term: a late signal may hit another
 * process of this server, and must not end it.
 */
void
le_bound_install(void)
{
	for (int signo = SIGRTMIN + 3; signo <= SIGRTMAX; signo++)
	{
		struct sigaction old;

		if (sigaction(signo, NULL, &old) == 0 &&
			(old.sa_flags & SA_SIGINFO) == 0 && old.sa_handler == SIG_DFL)
		{
			signal_number = signo;
			signal(signo, SIG_IGN);
			return;
		}
	}
}

/* ---- in a backend ---- */

int
le_bound_signal(void)
{
	return signal_number;
}

/* The previous backend with this number may have left entries behind. */
static Bindings *
my_bindings(void)
{
	Bindings   *b = &backends[LE_MY_PROC];
	LeOwner		owner = le_my_owner(false);

	if (pg_atomic_read_u64(&b->owner) == owner)
		return b;
	pg_atomic_write_u64(&b->owner, LE_OWNER_NONE);
	pg_write_barrier();
	for (int k = 0; k < LE_MAX_BOUND; k++)
		pg_atomic_write_u64(&b->entries[k].token, 0);
	pg_atomic_write_u32(&b->pid, MyProcPid);
	pg_atomic_write_u32(&b->holding, 0);
	pg_atomic_write_u32(&b->used, 0);
	pg_atomic_write_u32(&b->commits, 0);
	pg_atomic_write_u32(&b->excused, 0);
	pg_write_barrier();
	pg_atomic_write_u64(&b->owner, owner);
	return b;
}

/*
 * Register this session.  Returns its entry, or -1 if none is free.  The
 * caller must check the term again afterwards: the worker marks a term that is
 * to end before it scans these entries, so one of the two sees the other.
 */
int
le_bound_enter(int slot, uint64 token)
{
	Bindings   *b = my_bindings();

	Assert(slot >= 0 && token != 0);
	for (int k = 0; k < LE_MAX_BOUND; k++)
	{
		Bound	   *entry = &b->entries[k];

		if (pg_atomic_read_u64(&entry->token) != 0)
			continue;
		pg_atomic_write_u32(&entry->slot, (uint32) slot);
		pg_atomic_write_u32(&entry->stops, 0);
		pg_write_barrier();
		pg_atomic_write_u64(&entry->token, token);
		pg_atomic_write_u32(&b->used, pg_atomic_read_u32(&b->used) + 1);
		Assert(pg_atomic_read_u32(&b->used) <= LE_MAX_BOUND);
		pg_memory_barrier();
		return k;
	}
	return -1;
}

void
le_bound_leave(int entry)
{
	Bindings   *b = &backends[LE_MY_PROC];

	Assert(entry >= 0 && entry < LE_MAX_BOUND);
	Assert(pg_atomic_read_u64(&b->entries[entry].token) != 0);
	Assert(pg_atomic_read_u32(&b->used) > 0);
	pg_atomic_write_u64(&b->entries[entry].token, 0);
	pg_atomic_write_u32(&b->used, pg_atomic_read_u32(&b->used) - 1);
}

/*
 * Shall the worker signal the session when the term is lost?  As above, the
 * caller checks the term again afterwards.
 */
void
le_bound_stops(int entry, bool stops)
{
	Assert(entry >= 0 && entry < LE_MAX_BOUND);
	pg_atomic_write_u32(&backends[LE_MY_PROC].entries[entry].stops, stops);
	pg_memory_barrier();
}

/* The same for terms held in the session's name: one more, or less. */
void
le_bound_holds(int change)
{
	Bindings   *b = my_bindings();

	Assert(change > 0 || pg_atomic_read_u32(&b->holding) > 0);
	pg_atomic_fetch_add_u32(&b->holding, change);
}

/*
 * The session's bound transaction may pass the check at commit from here on;
 * or its commit is over.
 */
void
le_bound_commits(bool yes)
{
	pg_atomic_write_u32(&backends[LE_MY_PROC].commits, yes);
	pg_memory_barrier();
}

/*
 * This session is about to end a term itself.  If it is bound to that term,
 * the worker must not wait for it: it would wait for itself, and its commit is
 * refused anyway.
 */
void
le_bound_do_not_wait(int slot)
{
	pg_atomic_write_u32(&my_bindings()->excused,
						slot == LE_BOUND_ALL ? EXCUSED_ALL :
						slot == LE_BOUND_NONE ? 0 : (uint32) slot + 1);
}

/* ---- in the worker ---- */

static bool
is_excused(Bindings *b, int slot)
{
	uint32		excused = pg_atomic_read_u32(&b->excused);

	return excused == EXCUSED_ALL || excused == (uint32) slot + 1;
}

/* The backend's entry; NULL: it is not bound to the term. */
static Bound *
entry_of(Bindings *b, int slot, uint64 token)
{
	Assert(token != 0);			/* 0 marks a free entry */
	if (pg_atomic_read_u32(&b->used) == 0)
		return NULL;
	for (int k = 0; k < LE_MAX_BOUND; k++)
		if (pg_atomic_read_u64(&b->entries[k].token) == token &&
			pg_atomic_read_u32(&b->entries[k].slot) == (uint32) slot)
			return &b->entries[k];
	return NULL;
}

/* Could any transaction bound to this term still commit? */
bool
le_bound_to(int slot, uint64 token)
{
	for (int i = 0; i < MaxBackends; i++)
	{
		Bindings   *b = &backends[i];

		if (entry_of(b, slot, token) != NULL && !is_excused(b, slot) &&
			le_owner_lives(pg_atomic_read_u64(&b->owner), i))
			return true;
	}
	return false;
}

/*
 * May a transaction bound to this term have passed the check at commit,
 * without having written its commit record?  A transaction that waits for a
 * standby has written it.
 */
bool
le_bound_commit_under_way(int slot, uint64 token)
{
	pg_memory_barrier();
	for (int i = 0; i < MaxBackends; i++)
	{
		Bindings   *b = &backends[i];

		if (pg_atomic_read_u32(&b->commits) != 0 &&
			entry_of(b, slot, token) != NULL && !is_excused(b, slot) &&
			le_owner_lives(pg_atomic_read_u64(&b->owner), i) &&
			!le_waits_for_standby(i))
			return true;
	}
	return false;
}

/* Must this backend check the term, which it may hold itself? */
static bool
is_concerned(Bindings *b, int slot, uint64 token, LeOwner owner, bool all)
{
	Bound	   *entry = entry_of(b, slot, token);

	if (entry != NULL && (all || pg_atomic_read_u32(&entry->stops) != 0))
		return true;
	return (owner & ~LE_OWNER_XACT) == pg_atomic_read_u64(&b->owner) &&
		pg_atomic_read_u32(&b->holding) > 0;
}

/*
 * The term is over or to end, or allows no commit any more: signal the
 * sessions that stop when it is lost, or with "all" those bound to it.  No
 * others, since a signal interrupts waits in code of other extensions.
 */
void
le_bound_nudge(int slot, uint64 token, LeOwner owner, bool all)
{
	if (signal_number == 0)
		return;
	for (int i = 0; i < MaxBackends; i++)
	{
		Bindings   *b = &backends[i];

		if (is_concerned(b, slot, token, owner, all) && !is_excused(b, slot) &&
			le_owner_lives(pg_atomic_read_u64(&b->owner), i))
			(void) kill((pid_t) pg_atomic_read_u32(&b->pid), signal_number);
	}
}

/* Does the end of any term stop this backend? */
static bool
is_to_look(Bindings *b)
{
	for (int k = 0; k < LE_MAX_BOUND; k++)
	{
		Bound	   *entry = &b->entries[k];

		if (pg_atomic_read_u64(&entry->token) != 0 &&
			pg_atomic_read_u32(&entry->stops) != 0 &&
			!is_excused(b, (int) pg_atomic_read_u32(&entry->slot)))
			return true;
	}
	return pg_atomic_read_u32(&b->holding) > 0 &&
		pg_atomic_read_u32(&b->excused) == 0;
}

/*
 * A new worker cannot know which signals its predecessor sent: it may have
 * died between the end of a term and the signal.  So signal all sessions that
 * stop for any term.
 */
void
le_bound_nudge_all(void)
{
	if (signal_number == 0)
		return;
	for (int i = 0; i < MaxBackends; i++)
	{
		Bindings   *b = &backends[i];

		if (is_to_look(b) && le_owner_lives(pg_atomic_read_u64(&b->owner), i))
			(void) kill((pid_t) pg_atomic_read_u32(&b->pid), signal_number);
	}
}
