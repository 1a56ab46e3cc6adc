/*-------------------------------------------------------------------------
 *
 * bound.c
 *		Which sessions have transactions that are bound to a term.
 *
 * A term that is to end waits for them.  Each backend has a few places of its
 * own in shared memory, which nobody else writes; the worker looks through
 * all of them, but only while some term is to end.  No counter could be left
 * too high by a process that dies: the places of a backend that is gone count
 * for nothing.
 *
 * src/shmem/bound.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "shmem/bound.h"
#include "shmem/requests.h"

typedef struct Bound
{
	pg_atomic_uint64 token;		/* 0: the place is free */
	pg_atomic_uint32 slot;
} Bound;

typedef struct Backend
{
	pg_atomic_uint64 owner;		/* whose the places are */
	pg_atomic_uint32 used;		/* how many of them */
	pg_atomic_uint32 excused;	/* slot + 1 of the election that this backend
								 * itself is about to end; 0: none */
	Bound		places[LE_MAX_BOUND];
} Backend;

#define EXCUSED_ALL		PG_UINT32_MAX

static Backend *backends;

Size
le_bound_size(void)
{
	return mul_size(MaxBackends, sizeof(Backend));
}

void
le_bound_init(bool found, void *where)
{
	backends = where;
	if (found)
		return;
	for (int i = 0; i < MaxBackends; i++)
	{
		Backend    *b = &backends[i];

		pg_atomic_init_u64(&b->owner, LE_OWNER_NONE);
		pg_atomic_init_u32(&b->used, 0);
		pg_atomic_init_u32(&b->excused, 0);
		for (int k = 0; k < LE_MAX_BOUND; k++)
		{
			pg_atomic_init_u64(&b->places[k].token, 0);
			pg_atomic_init_u32(&b->places[k].slot, 0);
		}
	}
}

/* ---- in a backend ---- */

/* Whoever sat here before may have left in a hurry. */
static Backend *
my_places(void)
{
	Backend    *b = &backends[LE_MY_PROC];
	LeOwner		owner = le_my_owner(false);

	if (pg_atomic_read_u64(&b->owner) == owner)
		return b;
	pg_atomic_write_u64(&b->owner, LE_OWNER_NONE);
	pg_write_barrier();
	for (int k = 0; k < LE_MAX_BOUND; k++)
		pg_atomic_write_u64(&b->places[k].token, 0);
	pg_atomic_write_u32(&b->used, 0);
	pg_atomic_write_u32(&b->excused, 0);
	pg_write_barrier();
	pg_atomic_write_u64(&b->owner, owner);
	return b;
}

/*
 * Count this session in.  Returns its place, or -1 if it has no more.  The
 * caller looks at the term again afterwards: the worker marks one that is to
 * end before it looks here, so one of the two sees the other.
 */
int
le_bound_enter(int slot, uint64 token)
{
	Backend    *b = my_places();

	for (int k = 0; k < LE_MAX_BOUND; k++)
	{
		Bound	   *place = &b->places[k];

		if (pg_atomic_read_u64(&place->token) != 0)
			continue;
		pg_atomic_write_u32(&place->slot, (uint32) slot);
		pg_write_barrier();
		pg_atomic_write_u64(&place->token, token);
		pg_atomic_write_u32(&b->used, pg_atomic_read_u32(&b->used) + 1);
		pg_memory_barrier();
		return k;
	}
	return -1;
}

void
le_bound_leave(int place)
{
	Backend    *b = &backends[LE_MY_PROC];

	pg_atomic_write_u64(&b->places[place].token, 0);
	pg_atomic_write_u32(&b->used, pg_atomic_read_u32(&b->used) - 1);
}

/*
 * This session is about to end a term itself.  If it is bound to that, it
 * cannot be waited for: it would wait for itself, and its commit is refused
 * anyway.
 */
void
le_bound_do_not_wait(int slot)
{
	pg_atomic_write_u32(&my_places()->excused,
						slot == LE_BOUND_ALL ? EXCUSED_ALL :
						slot == LE_BOUND_NONE ? 0 : (uint32) slot + 1);
}

/* ---- in the worker ---- */

static bool
waits_for(Backend *b, int slot, uint64 token)
{
	uint32		excused = pg_atomic_read_u32(&b->excused);

	if (excused == EXCUSED_ALL || excused == (uint32) slot + 1)
		return false;
	for (int k = 0; k < LE_MAX_BOUND; k++)
		if (pg_atomic_read_u64(&b->places[k].token) == token &&
			pg_atomic_read_u32(&b->places[k].slot) == (uint32) slot)
			return true;
	return false;
}

/* Is any transaction bound to this term, that could still commit? */
bool
le_bound_to(int slot, uint64 token)
{
	for (int i = 0; i < MaxBackends; i++)
	{
		Backend    *b = &backends[i];

		if (pg_atomic_read_u32(&b->used) > 0 &&
			le_owner_lives(pg_atomic_read_u64(&b->owner), i) &&
			waits_for(b, slot, token))
			return true;
	}
	return false;
}
