/*-------------------------------------------------------------------------
 *
 * progress.c
 *		Is a term of any use?  The time of the last progress in it.
 *
 * A node renews its leases for as long as its worker lives, even if its
 * scheduler is dead or its jobs hang.  So with progress_within a term must see
 * progress.  A process that makes progress writes down the time, by one
 * compare-and-exchange; the worker checks it when it is due.  A check
 * (le_is_leader()) does not read it.
 *
 * Like the counters, this lies beside the lease table: in it, each commit
 * under the gate would take the cache line of a deadline away from checks.
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
 * The caller has made progress in the election of this slot.  It must have
 * read the clock before the last check of its term: so a late write, by a
 * process that was stopped, is older than the begin of any later term, also of
 * another name in this slot, and does not affect it.
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
 * The time within which the term must see progress; 0: it need not.  The
 * setting is for terms of the instance: a session that holds a term is alive,
 * and releases it when it ends.
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
 * The end of the term if there is no more progress; 0: no limit.
 */
le_time
le_progress_until(int slot)
{
	le_time		at = (le_time) pg_atomic_read_u64(&all[slot].at);
	le_duration limit = le_progress_limit(slot);

	return limit == 0 ? 0 : Max(at, all[slot].since) + limit;
}

/* Was there progress in the present, or just ending, term? */
bool
le_made_progress(int slot)
{
	return (le_time) pg_atomic_read_u64(&all[slot].at) > all[slot].began_at;
}

/* ---- in the worker ---- */

/* The slot belongs to another election now. */
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
 * A term begins, with progress at its begin.  Its owner is known.  If this
 * node did not lead for so long after a hold-off, other leaders made progress;
 * its old failures do not count when they are gone.
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
 * The term ends: compute the hold-off, if that is for lack of progress.  Not
 * earlier, since progress during the drain counts; and only once, although a
 * worker may stop halfway and the next one come here again.
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
 * The time of the worker's next check of the term; 0: never, or it is given up
 * already.  Backends move it without notice, so an earlier result may be too
 * early, never too late.  A changed limit counts from now, since nobody could
 * know of it before.
 */
le_time
le_progress_due(int slot)
{
	LeProgress *p = &all[slot];
	LeSlot	   *s = le_slot(slot);

	if (pg_atomic_read_u64(&s->term.token) == 0 ||
		s->election.drain_until != 0)
		return 0;
	if (le_progress_limit(slot) != p->limit)
	{
		p->limit = le_progress_limit(slot);
		p->since = le_now();
	}
	return le_progress_until(slot);
}

/* Another caller relies on the term, too: the strictest limit counts. */
void
le_progress_shorten(int slot, le_duration within)
{
	le_duration limit = le_progress_limit(slot);

	if (within > 0 && (limit == 0 || within < limit))
		all[slot].within = within;
}
