/*-------------------------------------------------------------------------
 *
 * tick.h
 *		Rules for claims of a job's ticks.
 *
 * A job has one record in the store: the last tick claimed, the term that
 * claimed it, and the result.  That record alone decides whether another
 * claim is in order; the store then makes sure that the record and the
 * claimant's term are still the same when the claim is written.
 *
 * src/core/tick.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_TICK_H
#define LE_TICK_H

#include <stdbool.h>
#include <stdint.h>

typedef enum LeClaimState
{
	LE_CLAIM_RUNNING,
	LE_CLAIM_DONE,
	LE_CLAIM_FAILED				/* final: it is not claimed again */
} LeClaimState;

#define LE_CLAIM_NSTATES	(LE_CLAIM_FAILED + 1)

/* How to treat ticks that were due and that no leader has claimed. */
typedef enum LeMissed
{
	LE_MISSED_SKIP,				/* they are reported */
	LE_MISSED_LAST,				/* the newest one is run, others reported */
	LE_MISSED_ALL				/* they are run, the oldest first */
} LeMissed;

#define LE_NMISSED	(LE_MISSED_ALL + 1)

/* Ticks that claims have passed over, which nobody will claim any more. */
typedef struct LeGap
{
	int64_t		n;				/* so many; 0: none */
	int64_t		first;
	int64_t		last;
} LeGap;

/* A job's record, as far as the next claim depends on it. */
typedef struct LeClaimView
{
	bool		exists;			/* false: the job was never claimed */
	bool		ours;			/* written by this very claim */
	int64_t		tick;
	int			try;
	uint64_t	token;			/* the claiming term's */
	LeClaimState state;
	bool		over;			/* in the claimant's own term: certainly no
								 * backend acts on it, or ever will */
	int64_t		every;			/* ms between ticks; 0: not known */
	LeGap		gap;			/* passed over by the claim, and perhaps not
								 * reported if that is running */
	uint64_t	writes;			/* of the record so far; 0: not known */
	bool		lost;			/* the store has lost a later record: that one
								 * counts */
} LeClaimView;

/* The latest record of a job that this node has seen. */
typedef struct LeSeenRecord
{
	uint64_t	writes;			/* 0: it has seen none */
	int64_t		tick;
} LeSeenRecord;

/* A claim to be made. */
typedef struct LeClaimPlan
{
	int64_t		tick;
	uint64_t	token;			/* the claimant's term's */
	bool		catch_up;		/* also ticks left undone */
	bool		forget;			/* replace any record */
	bool		term_is_judged; /* the store writes it only while the term
								 * holds */

	/* where ticks have an interval */
	int64_t		every;			/* ms; 0: they have none */
	int64_t		due;			/* the tick it is time for: "tick", or later */
	LeMissed	missed;			/* how to treat those before "due" */
	int64_t		max_missed;		/* how many LE_MISSED_ALL runs, at least 1 */
} LeClaimPlan;

typedef enum LeClaimVerdict
{
	LE_CLAIM_TAKE,				/* write it, as this try */
	LE_CLAIM_OURS,				/* it is written already */
	LE_CLAIM_TAKEN,				/* no: the tick, or a later one, is taken */
	LE_CLAIM_BEHIND,			/* an older tick comes first */
	LE_CLAIM_UNDER_WAY,			/* an older tick may be under way yet */
	LE_CLAIM_LOST				/* no: the store has lost the record of the
								 * tick, or of a later one */
} LeClaimVerdict;

extern uint64_t le_begin_anew(uint64_t writes);
extern bool le_record_is_later(const LeSeenRecord *record,
							   const LeSeenRecord *other);
extern bool le_record_is_lost(const LeSeenRecord *seen, uint64_t writes,
							  int64_t tick);
extern void le_count_seen(LeClaimView *found, const LeSeenRecord *seen);
extern LeClaimVerdict le_judge_claim(const LeClaimView *found,
									 const LeClaimPlan *plan, int *try,
									 int64_t *older);
extern bool le_claims_in_order(const LeClaimPlan *plan);
extern LeGap le_gap_before(const LeClaimView *found, const LeClaimPlan *plan);
extern LeGap le_gap_kept(const LeClaimView *found);
extern int64_t le_every_before(const LeClaimView *found,
							   const LeClaimPlan *plan);
extern int64_t le_tick_at(int64_t now, int64_t every);
extern int64_t le_next_expected(int64_t tick, int64_t claimed_at,
								int64_t every);
extern bool le_tick_is_late(int64_t now, int64_t tick, int64_t claimed_at,
							int64_t every, int64_t wait);
extern int64_t le_clock_ahead(int64_t ours, int64_t least, int64_t most);
extern bool le_claim_is_ahead(int64_t now, int64_t tick, int64_t claimed_at,
							  int64_t every);

#endif							/* LE_TICK_H */
