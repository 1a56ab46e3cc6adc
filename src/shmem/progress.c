/*-------------------------------------------------------------------------
 *
 * progress.c
 *		Is a term of any use?  When something was last done in it.
 *
 * A node renews what it leads for as long as its worker lives, also when its
 * scheduler is dead or its jobs hang.  So where progress_within asks for it, a
 * term must see progress.  Whoever makes some writes down when, one number by
 * one compare-and-exchange; the worker looks at it when it would be due,
 * which a check (le_is_leader()) has no part in.
 *
 * This lies beside the lease table for the reason that counters do: in it each
 * commit under the gate would take the cache line of a deadline away from
 * those who check it.
 *
 * src/shmem/progress.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/shmem.h"

#include "settings.h"
#include "shmem/clock.h"
#include "shmem/leases.h"
#include "shmem/progress.h"

static LeProgress *all;

Size
le_progress_size(void)
{
	return mul_size(le_max_elections, sizeof(LeProgress));
}

void
le_progress_init(bool found, void *where)
{
	all = where;
	if (found)
		return;
	memset(all, 0, le_progress_size());
	for (int i = 0; i < le_max_elections; i++)
		pg_atomic_init_u64(&all[i].at, 0);
}

LeProgress *
le_progress_of(int slot)
{
	Assert(slot >= 0 && slot < le_max_elections);
	return &all[slot];
}

/*
 * The caller has made progress in the election with that place.  It has read
 * the clock before it found, for the last time, that its term was there: so
 * what is written late, by a process that was stopped, is older than the begin
 * of any later term, also of another name in this place, and changes nothing
 * there.
 */
void
le_note_progress(int slot, le_time at)
{
	uint64		seen;

	if (slot < 0)
		return;
	Assert(slot < le_max_elections);
	seen = pg_atomic_read_u64(&all[slot].at);
	while (seen < (uint64) at &&
		   !pg_atomic_compare_exchange_u64(&all[slot].at, &seen, (uint64) at))
		;
}

/*
 * Within which time does the term have to see progress?  0: it need not.  The
 * setting is for terms of the instance: a session that holds one is there, and
 * lets go when it ends.
 */
le_duration
le_progress_limit(int slot)
{
	le_duration within = all[slot].within;

	if (within == LE_WITHIN_ANY)
		return 0;
	if (within != LE_WITHIN_SETTING)
		return within;
	return le_owner_of(le_slot(slot)) == LE_OWNER_NODE ?
		le_progress_within * LE_SEC : 0;
}

/*
 * Until when does the term last if there is no more progress?  0: as long as
 * it likes.
 */
le_time
le_progress_until(int slot)
{
	le_time		at = (le_time) pg_atomic_read_u64(&all[slot].at);
	le_duration limit = le_progress_limit(slot);

	return limit == 0 ? 0 : Max(at, all[slot].since) + limit;
}

/* In the present term, or in the one that is just ending? */
bool
le_made_progress(int slot)
{
	return (le_time) pg_atomic_read_u64(&all[slot].at) > all[slot].began_at;
}

/* ---- in the worker ---- */

/* The place is another election's now. */
void
le_progress_forget(int slot)
{
	LeProgress *p = le_progress_of(slot);

	pg_atomic_write_u64(&p->at, 0);
	p->began_at = p->limit = p->since = p->judged = p->away_until = 0;
	p->within = p->candidate_within = p->campaign_within = LE_WITHIN_SETTING;
	p->useless = p->idled = 0;
	p->idles = false;
}

/*
 * A term begins, with progress at its begin.  Its owner is known.  Whoever was
 * not needed for so long after a hold-off had others that were of use: what it
 * failed at once does not keep it away when they are gone.
 */
void
le_progress_begin(int slot, le_time now)
{
	LeProgress *p = le_progress_of(slot);

	if (p->idled != 0 && now >= p->away_until + LE_MAX_IDLE)
		p->idled = 0;
	p->within = p->candidate_within;
	p->useless = 0;
	p->began_at = now;
	p->since = 0;
	p->limit = le_progress_limit(slot);
	pg_atomic_write_u64(&p->at, (uint64) p->began_at);
}

/*
 * It ends: how long to stay away, if that is for lack of progress?  Decided
 * now, since what was done while the term was waited for counts; and once,
 * although a worker may stop halfway and the next one come here again.
 */
void
le_progress_end(int slot)
{
	LeProgress *p = le_progress_of(slot);

	Assert(p->judged <= p->began_at);
	if (p->judged == p->began_at)
		return;
	p->judged = p->began_at;
	if (le_made_progress(slot))
		p->idled = 0;
	if (p->useless != 0)
		p->idled = le_next_hold_off(p->useless, p->idled);
}

/*
 * When is the term to be looked at?  0: never, or it is given up already.
 * Backends move that without a word, so what was found earlier may be too
 * early, never too late.  Who changes the limit under a term gives it that
 * much time first: nobody knew that it would be asked for.
 */
le_time
le_progress_due(int slot)
{
	LeProgress *p = &all[slot];
	LeSlot	   *s = le_slot(slot);

	if (pg_atomic_read_u64(&s->token) == 0 || s->election.drain_until != 0)
		return 0;
	if (le_progress_limit(slot) != p->limit)
	{
		p->limit = le_progress_limit(slot);
		p->since = le_now();
	}
	return le_progress_until(slot);
}

/* Somebody else relies on the term, too: the strictest counts. */
void
le_progress_shorten(int slot, le_duration within)
{
	le_duration limit = le_progress_limit(slot);

	if (within > 0 && (limit == 0 || within < limit))
		all[slot].within = within;
}
