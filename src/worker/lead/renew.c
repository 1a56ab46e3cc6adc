/*-------------------------------------------------------------------------
 *
 * renew.c
 *		Renewing terms that have leases of their own, many at a time.
 *
 * The core decides when to renew a term's lease, and judges the answers.  This
 * file puts terms that are due at about the same time into one request, and so
 * spreads the requests of a node that holds many over the renewal interval.
 *
 * src/worker/lead/renew.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "settings.h"
#include "shmem/stats.h"
#include "worker/lead/elect.h"
#include "worker/lead/elect_all.h"
#include "worker/lead/pending.h"
#include "worker/lead/renew.h"
#include "worker/lead/roster.h"
#include "worker/wire/dispatch.h"

/* Tell the core the outcome for one of the terms. */
static void
tell_core(LeWorker *w, LeFlight *flight, int i, const LeRenewal *renewal,
		  uint32 random)
{
	LeSlot	   *slot = le_slot(flight->held_slots[i]);
	LeInput		input = {.kind = LE_IN_RENEW_FAILED};

	input.random = random;
	input.outcome = renewal->outcome;
	if (renewal->outcome == LE_DONE)
	{
		input.kind = LE_IN_RENEWED;
		input.sent = flight->sent;
		input.deadline = le_trusted_until(&le_table->node.timing, flight->sent,
										  renewal->trust);
	}
	if (renewal->outcome == LE_DONE || renewal->outcome == LE_CONFLICT)
		slot->key.rev = renewal->rev;
	le_elect_input(w, slot, &input);
}

/*
 * Is the term still the one that the request was sent for?  If it ended since,
 * it needs nothing any more.  Its token may be another's by now, where the
 * store went back and a person accepted that; the id of its attempt is not.
 */
static bool
is_same_term(const LeFlight *flight, int i)
{
	const LeSlot *slot = le_slot(flight->held_slots[i]);

	return slot->election.token == flight->held_tokens[i] &&
		strcmp(slot->key.attempt, flight->op.renew.terms[i].attempt) == 0;
}

/* The request got no turn: nothing has failed, the terms are due as before. */
static void
try_again(LeWorker *w, LeFlight *flight)
{
	for (int i = 0; i < flight->op.renew.nterms; i++)
		if (is_same_term(flight, i))
			le_elect_renewal_unsent(w, le_slot(flight->held_slots[i]));
}

static void
terms_answered(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	uint32		random = le_random();	/* one for all: they stay together */
	LeRenewal	all = {.outcome = answer->outcome, .detail = answer->detail};
	int			ndone = 0;
	int		   *done = palloc(flight->op.renew.nterms * sizeof(int));

	if (answer->unsent)
	{
		try_again(w, flight);
		return;
	}
	if (answer->outcome == LE_REFUSED && flight->op.renew.nterms > 1)
		w->renew_alone_until = le_now() + le_table->node.timing.lease;
	for (int i = 0; i < flight->op.renew.nterms; i++)
	{
		int			number = flight->held_slots[i];
		LeSlot	   *slot = le_slot(number);
		const LeRenewal *renewal = answer->outcome == LE_DONE ?
			&answer->renewals[i] : &all;

		if (!is_same_term(flight, i))
			continue;
		le_stat_answer(number, flight->sent, renewal->outcome);
		tell_core(w, flight, i, renewal, random);
		le_note_error(slot, flight->op.kind, renewal->outcome, answer->cause,
					  renewal->detail);
		if (renewal->outcome == LE_DONE)
		{
			done[ndone++] = number;
			le_stat_count_slot(number, LE_STAT_RENEWALS);
		}
		else
			le_elect_advance(w, slot);
	}
	le_elect_proved(w, flight->sent, done, ndone);
	/* Renewals that were asked for while this request was under way. */
	for (int i = 0; i < ndone; i++)
		if (le_renewal_asked(w, done[i]))
			le_elect_renew_now(w, le_slot(done[i]));
}

typedef struct Due
{
	le_time		at;
	int			slot;
} Due;

static int
compare_due(const void *a, const void *b)
{
	le_time		x = ((const Due *) a)->at;
	le_time		y = ((const Due *) b)->at;

	return x < y ? -1 : x > y ? 1 : 0;
}

static void
send_batch(LeWorker *w, const Due *due, int n)
{
	LeFlight   *flight = le_flight_new(LE_OP_RENEW_TERMS, terms_answered);
	LeTermRef  *terms = MemoryContextAlloc(flight->context,
										   n * sizeof(LeTermRef));
	le_time		deadline = 0;
	int			failures = 0;

	flight->held_slots = MemoryContextAlloc(flight->context, n * sizeof(int));
	flight->held_tokens = MemoryContextAlloc(flight->context,
											 n * sizeof(uint64));
	for (int i = 0; i < n; i++)
	{
		LeSlot	   *slot = le_slot(due[i].slot);

		flight->held_slots[i] = due[i].slot;
		flight->held_tokens[i] = slot->election.token;
		terms[i].election = le_flight_string(flight, slot->name);
		terms[i].token = slot->election.token;
		terms[i].rev = slot->key.rev;
		terms[i].attempt = le_flight_string(flight, slot->key.attempt);
		deadline = le_earliest(deadline, slot->election.deadline);
		failures = Max(failures, slot->election.renew_failures);
		le_elect_renewal_sent(w, slot);
	}
	flight->op.renew.terms = terms;
	flight->op.renew.nterms = n;
	flight->not_after = deadline;	/* later it would only keep others off */
	le_flight_send(w, flight, le_attempt_timeout(&le_table->node.timing,
												 le_now(), deadline,
												 failures));
}

/*
 * A term that is due takes along those due soon: within half of the interval's
 * share of one request, so that requests stay apart.
 */
void
le_renew_run_timers(LeWorker *w)
{
	const LeSlotSet *held = &w->roster->held;
	le_time		next = le_roster_timer(w->roster);
	le_time		now = le_now();
	Due		   *due;
	int			n = 0;
	le_duration ahead;
	int			together = le_configured_store()->batch.max_renewals;
	int			most = now < w->renew_alone_until ? 1 : together;

	/* A renewal that is due has a timer that is due. */
	if (!le_configured_store()->key_leases || held->n == 0 ||
		next == 0 || next > now)
		return;
	due = palloc(held->n * sizeof(Due));
	ahead = le_table->node.timing.renew_interval /
		(2 * (1 + (held->n - 1) / together));
	le_foreach_slot(i, held)
	{
		le_time		at = le_election_renew_at(&le_slot(i)->election);

		if (at != 0 && at <= now + ahead)
			due[n++] = (Due) {at, i};
	}
	qsort(due, n, sizeof(Due), compare_due);
	for (int i = 0; i < n && due[i].at <= now; i += most)
		send_batch(w, &due[i], Min(n - i, most));
	pfree(due);
}
