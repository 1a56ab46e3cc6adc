/*-------------------------------------------------------------------------
 *
 * tick.c
 *		Which tick may be claimed, for every record and every plan.
 *
 * Ticks and intervals are milliseconds below 2^TICK_BITS.  Where they are
 * divided, that is too much for a solver at the 52 bits of the stores: there
 * test/prove/run makes them narrower.
 *
 * test/prove/tick.c
 *
 *-------------------------------------------------------------------------
 */
#include "prove.h"

#ifndef TICK_BITS
#define TICK_BITS	52
#endif
#define LAST_TICK	((INT64_C(1) << TICK_BITS) - 1)

static int64_t
any_tick(void)
{
	return (int64_t) (any_uint64() & LAST_TICK);
}

/* A record that the codecs let through. */
static LeClaimView
any_record(void)
{
	LeClaimView v;

	memset(&v, 0, sizeof(v));
	v.writes = any_uint64();
	v.exists = any_bool();
	if (!v.exists)
		return v;
	v.ours = any_bool();
	v.tick = any_tick();
	v.try = any_int();
	v.token = any_uint64();
	v.state = (LeClaimState) any_of(LE_CLAIM_NSTATES);
	v.over = any_bool();
	v.every = any_tick();
	v.gap.n = any_tick();
	v.gap.first = any_tick();
	v.gap.last = any_tick();
	v.lost = any_bool();
	ASSUME(v.try >= 1 && v.try < INT_MAX);
	/* le_count_seen() */
	ASSUME(IMPLIES(v.lost, v.state == LE_CLAIM_DONE));
	return v;
}

/* By a possible question of a session. */
static LeClaimPlan
any_plan(void)
{
	LeClaimPlan p;

	p.tick = any_tick();
	p.token = any_uint64();
	p.catch_up = any_bool();
	p.forget = any_bool();
	p.term_is_judged = any_bool();
	p.every = any_tick();
	p.due = any_tick();
	p.missed = (LeMissed) any_of(LE_NMISSED);
	p.max_missed = any_uint32() & 0xffff & LAST_TICK;
	ASSUME(p.due >= p.tick);
	ASSUME(IMPLIES(p.every == 0,
				   p.due == p.tick && p.missed == LE_MISSED_SKIP));
	ASSUME(p.max_missed >= 1);
	ASSUME(IMPLIES(p.forget, !p.catch_up && p.every == 0));
	return p;
}

/* The tick that is due, or one that a verdict has named: of the same row. */
static bool
is_of_the_row(const LeClaimPlan *p)
{
	return p->every == 0 || (p->due - p->tick) % p->every == 0;
}

HARNESS(claims)
{
	LeClaimView v = any_record();
	LeClaimPlan p = any_plan();
	int			try;
	int64_t		older;
	LeClaimVerdict verdict = le_judge_claim(&v, &p, &try, &older);
	bool		running = v.exists && v.state == LE_CLAIM_RUNNING;
	bool		again = v.exists && v.tick == p.tick && !p.forget;
	bool		onward = v.exists && v.tick < p.tick && !p.forget;
	bool		in_order = p.catch_up || p.missed != LE_MISSED_SKIP;

	CLAIM(le_claims_in_order(&p) == in_order, "missed ticks run in order");
	CLAIM(try >= 1, "tries count from one");
	if (verdict == LE_CLAIM_TAKE)
	{
		CLAIM(!v.ours, "what is ours is not taken again");
		CLAIM(!v.exists || p.forget || again || onward,
			  "a record never goes back");
		CLAIM(IMPLIES(again, running && p.catch_up),
			  "a tick that is done or failed is final");
		CLAIM(IMPLIES(again, try == v.try + 1), "the next try");
		CLAIM(IMPLIES(!again, try == 1), "the first try");
		CLAIM(IMPLIES(again && v.token == p.token, v.over),
			  "no second run beside the first in one term");
		CLAIM(IMPLIES(again && v.token > p.token, p.term_is_judged),
			  "against a later term the store decides");
		CLAIM(IMPLIES(onward && in_order && running &&
					  v.token == p.token, v.over),
			  "in order, no tick begins before the last is over");
		CLAIM(IMPLIES(onward && p.catch_up && running,
					  v.token > p.token && !p.term_is_judged),
			  "to catch up passes over nothing that was left undone");
		CLAIM(IMPLIES(!v.exists && p.tick < p.due, false),
			  "without a record nobody catches up");
		CLAIM(IMPLIES(onward && v.lost && p.tick < p.due,
					  v.every == p.every),
			  "nor by a record of another row");
	}
	if (verdict == LE_CLAIM_BEHIND)
	{
		CLAIM(v.exists, "behind what is on record");
		CLAIM(older >= v.tick && older < p.tick,
			  "an older tick, and no older than the record");
		CLAIM(IMPLIES(older > v.tick, p.missed != LE_MISSED_SKIP),
			  "missed ticks run only where that is asked for");
		CLAIM(IMPLIES(older > v.tick, (p.due - older) % p.every == 0),
			  "a tick of the row");
		CLAIM(IMPLIES(older > v.tick && p.missed == LE_MISSED_ALL,
					  (p.due - older) / p.every <= p.max_missed),
			  "no more missed ticks than max_missed");
		CLAIM(IMPLIES(older > v.tick && p.missed == LE_MISSED_ALL,
					  older == v.tick + p.every ||
					  (p.due - older) / p.every == p.max_missed),
			  "the oldest of them first");
		CLAIM(IMPLIES(older > v.tick && p.missed == LE_MISSED_LAST,
					  p.due - older == p.every), "the last missed tick");
	}
	if (verdict == LE_CLAIM_UNDER_WAY)
		CLAIM(running && v.tick < p.tick && v.token == p.token,
			  "an older tick runs in this term");
	if (verdict == LE_CLAIM_OURS)
		CLAIM(v.exists && v.ours && try == v.try, "as it was written");
	if (verdict == LE_CLAIM_LOST)
		CLAIM(v.lost && v.tick >= p.tick,
			  "lost records count up to the tick that was seen");
}

/* Each tick between the record and the claim is run or reported. */
HARNESS(gaps)
{
	LeClaimView v = any_record();
	LeClaimPlan p = any_plan();
	LeGap		kept = le_gap_kept(&v);
	LeGap		g;

	ASSUME(is_of_the_row(&p));
	g = le_gap_before(&v, &p);
	CLAIM(g.n >= kept.n, "what is not reported yet stays to report");
	CLAIM(IMPLIES(kept.n > 0, g.first == kept.first),
		  "what is not reported yet is reported again");
	if (g.n > kept.n)
	{
		CLAIM(v.exists && !p.forget && v.every == p.every,
			  "ticks are counted only in a row");
		CLAIM(g.last == p.tick - p.every, "up to the tick before");
		CLAIM(IMPLIES(kept.n == 0, g.first == v.tick + p.every),
			  "from the tick after the one on record");
		CLAIM((g.n - kept.n + 1) * p.every == p.tick - v.tick,
			  "each tick between the two");
	}
}

HARNESS(every_before)
{
	LeClaimView v = any_record();
	LeClaimPlan p = any_plan();
	int64_t		every = le_every_before(&v, &p);

	CLAIM(IMPLIES(every != 0, v.exists && every == v.every &&
				  every != p.every), "another interval on record");
}

HARNESS(seen_records)
{
	LeClaimView v = any_record();
	LeClaimView was = v;
	LeSeenRecord seen;

	seen.writes = any_uint64();
	seen.tick = any_tick();
	le_count_seen(&v, &seen);
	CLAIM(IMPLIES(was.exists, v.exists && v.tick >= was.tick),
		  "a record never goes back");
	CLAIM(IMPLIES(seen.writes == 0 || was.writes >> 32 > seen.writes >> 32 ||
				  (was.exists && was.tick > seen.tick),
				  v.tick == was.tick && v.writes == was.writes &&
				  v.state == was.state && v.gap.n == was.gap.n),
		  "what came later, or began anew, is not lost");
	CLAIM(IMPLIES(seen.writes != 0 && was.writes >> 32 <= seen.writes >> 32 &&
				  (!was.exists || was.tick < seen.tick),
				  v.exists && v.lost && v.tick == seen.tick &&
				  v.state == LE_CLAIM_DONE),
		  "what was seen counts where the store has lost it");
	CLAIM(IMPLIES(was.exists && was.tick == seen.tick &&
				  was.writes < seen.writes, v.lost),
		  "so does the end of a claim");
}

HARNESS(anew)
{
	LeSeenRecord one;
	LeSeenRecord other;

	one.writes = any_uint64();
	one.tick = any_tick();
	other.writes = any_uint64();
	other.tick = any_tick();
	CLAIM(!(le_record_is_later(&one, &other) &&
			le_record_is_later(&other, &one)), "one of two is later");
	CLAIM(le_record_is_later(&one, &other) ||
		  le_record_is_later(&other, &one) ||
		  (one.writes == other.writes && one.tick == other.tick),
		  "or they are the same");
	ASSUME(one.writes >> 32 < UINT32_MAX);
	other.writes = le_begin_anew(one.writes);
	CLAIM(le_record_is_later(&other, &one), "what begins anew is later");
}

/* PostgreSQL's timestamps, in µs, and intervals as a job may have. */
HARNESS(ticks)
{
	int64_t		now = any_int64();
	int64_t		every = any_int64();
	int64_t		tick;
	int64_t		early;

#ifdef NARROW
	ASSUME(now >= -NARROW && now <= NARROW);
	ASSUME(every >= 1 && every <= NARROW);
#else
	ASSUME(now >= INT64_C(-211813488000000000) &&
		   now <= INT64_C(9223371331200000000));
	ASSUME(every >= 1000000 && every <= INT64_C(1) << 52);
#endif
	tick = le_tick_at(now, every);
	early = every / 4 < 2000000 ? every / 4 : 2000000;
	CLAIM(tick % every == 0, "a multiple of the interval");
	CLAIM(tick <= now + early, "not ahead, but for what a timer is early");
	CLAIM(now + early - tick < every, "the last one");
}

HARNESS(lateness)
{
	int64_t		now = any_tick();
	int64_t		tick = any_tick();
	int64_t		at = any_tick();
	int64_t		every = any_tick();
	int64_t		wait = any_tick();
	int64_t		next = le_next_expected(tick, at, every);

	CLAIM(next >= tick + every && next <= tick + 2 * every,
		  "within the interval after the next tick");
	CLAIM(IMPLIES(at >= tick && at <= tick + every, next == at + every),
		  "as late as the last");
	CLAIM(IMPLIES(le_tick_is_late(now, tick, at, every, wait),
				  every > 0 && now > next),
		  "late is after it was expected, where that is known");
	CLAIM(IMPLIES(every > 0 && now > next + wait + 2000,
				  le_tick_is_late(now, tick, at, every, wait)),
		  "and all that is later is late");
}

HARNESS(clocks)
{
	int64_t		now = any_tick();
	int64_t		tick = any_tick();
	int64_t		at = any_tick();
	int64_t		every = any_tick();
	int64_t		least = any_tick();
	int64_t		most = any_tick();
	int64_t		ahead;

	ASSUME(least <= most);
	ahead = le_clock_ahead(now, least, most);
	CLAIM(now - ahead >= least && now - ahead <= most,
		  "less that, it is within the bounds");
	CLAIM(IMPLIES(now >= least && now <= most, ahead == 0),
		  "within the bounds it is right");
	CLAIM(IMPLIES(at <= now && tick <= now,
				  !le_claim_is_ahead(now, tick, at, every)),
		  "what is past is not ahead");
	CLAIM(IMPLIES(at > now + 60000, le_claim_is_ahead(now, tick, at, every)),
		  "a claim by a clock that is a minute ahead is told");
}
