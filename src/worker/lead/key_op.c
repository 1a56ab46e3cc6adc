/*-------------------------------------------------------------------------
 *
 * key_op.c
 *		An election's requests to the store about its key.
 *
 * src/worker/lead/key_op.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "settings.h"
#include "worker/lead/candidacy.h"
#include "worker/lead/key_op.h"
#include "worker/lead/pending.h"
#include "worker/lead/roster.h"
#include "worker/view/cache.h"
#include "worker/view/key_view.h"

/* Refused elections that are tried again in a round. */
#define ASKED_AGAIN		16

/* A request that got no turn is no failure of the store. */
void
le_key_op_note_error(LeSlot *slot, const LeFlight *flight,
					 const LeAnswer *answer)
{
	if (!answer->unsent)
		le_note_error(slot, flight->op.kind, answer->outcome, answer->cause,
					  answer->detail);
}

/* Is this the answer to the election's newest request? */
bool
le_key_op_stale(const LeFlight *flight)
{
	return flight->epoch != le_table->node.epoch ||
		flight->request != le_slot(flight->slot)->election.request;
}

/* Does it mark the node key of the holder that the term is taken from? */
bool
le_key_op_marks_holder(const LeFlight *flight)
{
	return flight->op.kind == LE_OP_TAKE_OVER &&
		!flight->op.takeover.target->revoked;
}

/*
 * The node key of the node that loses the term.  Also for a key that the store
 * has freed: marking its last holder spares the wait for that node's other
 * elections.  Not for a key that has changed since the last look, as by our
 * own release: that node has nothing to do with it any more.
 */
static bool
add_target(LeFlight *flight, const LeSlot *slot)
{
	const LeNodeInfo *from;
	LeNodeKey  *target;

	if (slot->holder.session[0] == '\0' || flight->op.index == 0 ||
		slot->holder.index != flight->op.index ||
		(from = le_cache_node(slot->holder.session)) == NULL ||
		(!slot->holder.holds && (from->held || from->revoked)))
		return false;
	target = MemoryContextAllocZero(flight->context, sizeof(LeNodeKey));
	target->session = le_flight_string(flight, from->session);
	target->node = le_flight_string(flight, from->node);
	target->incarnation = le_flight_string(flight, from->incarnation);
	target->index = from->index;
	target->lease = from->lease;
	target->seq = from->seq;
	target->held = from->held && !from->revoked;
	target->revoked = from->revoked;
	flight->op.takeover.target = target;
	flight->op.takeover.target_holds = slot->holder.holds;
	return true;
}

/*
 * The further fields of a write of a key with a lease of its own.  Each
 * decision to acquire gets an id of its own; copies of it, sent after an
 * unknown outcome, have the same.  A worker that ends between decision and id
 * leaves the id of an earlier term, and a late release of that term would end
 * the new one: so attempt_of, written last, tells the id's decision.
 */
static void
add_lease(LeFlight *flight, LeSlot *slot)
{
	uint8		id[LE_ATTEMPT_LEN / 2];

	flight->op.term.rev = slot->key.rev;
	flight->op.term.token_floor = slot->election.token_floor;
	if (flight->op.kind == LE_OP_ACQUIRE &&
		(slot->key.attempt_of != slot->election.attempt.number ||
		 slot->key.attempt[0] == '\0'))
	{
		if (!pg_strong_random(id, sizeof(id)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate random bytes")));
		for (int i = 0; i < (int) sizeof(id); i++)
			snprintf(slot->key.attempt + 2 * i, 3, "%02x", id[i]);
		slot->key.attempt_of = slot->election.attempt.number;
	}
	flight->op.term.attempt = le_flight_string(flight, slot->key.attempt);
}

/*
 * The request's turn has come: is it still the election's, and wanted?  A
 * repeated acquire is sent in any case: it finds out the fate of the first.
 * The candidate of a first one may have gone while it waited, and been told
 * "no"; if others seek the election, it is for them.
 */
static bool
still_wanted(LeWorker *w, LeFlight *flight)
{
	LeSlot	   *slot = le_slot(flight->slot);
	const LeElection *e = &slot->election;

	if (le_key_op_stale(flight))
		return false;
	if (e->state != LE_ACQUIRING || le_election_is_repeating(e))
		return true;
	if (!e->wanted)
		return false;
	if (slot->candidate.owner == LE_OWNER_NODE ? slot->campaign ||
		slot->configured : le_seeker_heard_of(w, slot, slot->candidate.owner))
		return true;
	if (!le_choose_candidate(w, slot))
		return false;
	flight->op.value = le_flight_string(flight, slot->value);
	return true;
}

void
le_key_op_send(LeWorker *w, LeSlot *slot, const LeActions *act,
			   LeFlightDone done)
{
	static const LeOpKind kinds[] = {
		[LE_SEND_READ] = LE_OP_READ,
		[LE_SEND_ACQUIRE] = LE_OP_ACQUIRE,
		[LE_SEND_TAKE_OVER] = LE_OP_ACQUIRE,
		[LE_SEND_PUBLISH] = LE_OP_PUBLISH,
		[LE_SEND_RELEASE] = LE_OP_RELEASE,
	};
	LeFlight   *flight = le_flight_new(kinds[act->send], done);

	flight->slot = le_slot_number(slot);
	flight->request = slot->election.request;
	flight->op.election = le_flight_string(flight, slot->name);
	flight->op.index = act->index;
	flight->op.token = slot->election.token;
	flight->op.local.key = &slot->local;
	if (slot->has_value)
		flight->op.value = le_flight_string(flight, slot->value);
	if (le_configured_store()->key_leases)
		add_lease(flight, slot);
	else if (flight->op.kind == LE_OP_ACQUIRE && le_takes_over() &&
			 add_target(flight, slot))
		flight->op.kind = LE_OP_TAKE_OVER;
	if (le_key_op_marks_holder(flight))
		le_cache_marking(w->cache, true);
	flight->wanted = still_wanted;
	if (slot->asked > 0 && act->send != LE_SEND_RELEASE)
		flight->lane = LE_LANE_ASKED;
	flight->keeps_waiting = flight->lane != LE_LANE_ASKED;
	le_flight_send(w, flight, le_table->node.timing.request_timeout);
}

static void
asked_again(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeSlot	   *slot = le_slot(flight->slot);

	if (flight->epoch == le_table->node.epoch &&
		strcmp(slot->name, flight->op.election) == 0)
		le_key_op_note_error(slot, flight, answer);
}

/* The store refused its acquire. */
static bool
was_refused(const LeSlot *slot)
{
	return slot->error.refused && slot->error.kind == LE_OP_ACQUIRE;
}

/*
 * Once per round: a node that was refused an election does not try again while
 * another node leads it, and would not notice that its token may write the key
 * by now.
 */
void
le_ask_refused_again(LeWorker *w)
{
	const LeSlotSet *waiting = &w->roster->waiting;
	int			n = 0;

	for (int k = waiting->n; k > 0 && n < ASKED_AGAIN; k--)
	{
		LeFlight   *flight;
		LeSlot	   *slot;

		w->refused_slot = le_set_after(waiting, w->refused_slot);
		slot = le_slot(w->refused_slot);
		if (!was_refused(slot))
			continue;
		flight = le_flight_without_effect(LE_OP_RELEASE, slot->name,
										  asked_again);
		flight->slot = w->refused_slot;
		flight->op.local.key = &slot->local;
		le_flight_send(w, flight, le_table->node.timing.request_timeout);
		n++;
	}
}
