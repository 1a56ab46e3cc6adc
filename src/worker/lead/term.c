/*-------------------------------------------------------------------------
 *
 * term.c
 *		A term in the lease table: how it begins, drains and ends.
 *
 * The core decides; this file shows its decisions to every process of the
 * instance, to the log and to the history.
 *
 * src/worker/lead/term.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "settings.h"
#include "shmem/bound.h"
#include "shmem/clock.h"
#include "shmem/events.h"
#include "shmem/progress.h"
#include "shmem/stats.h"
#include "worker/lead/term.h"
#include "worker/view/cache.h"
#include "worker/view/eligible.h"
#include "worker/wire/dispatch.h"

/* Log the former holder of the term, and why the takeover was allowed. */
static void
log_takeover(const LeSlot *slot)
{
	const LeNodeInfo *from = slot->holder.session[0] == '\0' ? NULL :
		le_cache_node(slot->holder.session);
	double		silence;

	if (!slot->election.attempt.takeover || from == NULL)
		return;
	silence = (le_now() - from->first_seen) / (double) LE_SEC;
	ereport(LOG,
			(errmsg("took over election \"%s\" from node \"%s\" after %.1f s of silence",
					slot->name, from->node, silence),
			 errdetail("Its fencing token was " UINT64_FORMAT ", its lease %d ms; the new token is " UINT64_FORMAT ".",
					   slot->holder.token, (int) (from->lease / LE_MSEC),
					   slot->election.token)));
	le_event(LE_EVENT_TOOK_OVER, slot->name, slot->election.token,
			 "from node \"%s\" with token " UINT64_FORMAT " after %.1f s of silence",
			 from->node, slot->holder.token, silence);
}

/* The term's token is on disk by now. */
void
le_begin_term(LeWorker *w, LeSlot *slot, le_time now)
{
	LeElection *e = &slot->election;

	le_begin_change(slot);
	slot->owner_proc = slot->candidate.proc;
	slot->owner_pid = slot->candidate.pid;
	slot->view.term_started = slot->view.last_change = GetCurrentTimestamp();
	slot->view.renewed_at = slot->view.term_started;
	slot->view.last_reason = LE_REASON_NONE;
	slot->stepping_down = false;
	slot->error.text[0] = '\0';
	slot->refused_token = 0;
	slot->error.at = 0;
	slot->error.refused = false;
	strlcpy(slot->holder.node, le_my_name(), sizeof(slot->holder.node));
	/* After le_accept_store() a mark could be too high to be replaced. */
	if (pg_atomic_read_u64(&slot->term.given_up) >= e->token)
		pg_atomic_write_u64(&slot->term.given_up, 0);
	pg_atomic_write_u64(&slot->term.drain_until, 0);
	le_begin_grants(slot);
	pg_atomic_write_u64(&slot->term.owner, slot->candidate.owner);
	le_progress_begin(le_slot_number(slot), now);
	pg_atomic_write_u64(&slot->term.token, e->token);
	pg_atomic_write_u64(&slot->term.deadline, e->deadline != 0 ? e->deadline :
						le_table->node.deadline);
	le_end_change(slot);
	ereport(LOG,
			(errmsg("leader of election \"%s\" with fencing token " UINT64_FORMAT,
					slot->name, e->token),
			 errdetail("Scope %s, store %s.",
					   le_scope_name(slot->candidate.owner),
					   le_store_address(w))));
	le_stat_count_slot(le_slot_number(slot), LE_STAT_TERMS);
	le_event(LE_EVENT_ACQUIRED, slot->name, e->token, "scope %s",
			 le_scope_name(slot->candidate.owner));
	log_takeover(slot);
}

static void
note_end(const LeSlot *slot, LeReason reason, uint64 token)
{
	const LeProgress *p = le_progress_of(le_slot_number(slot));
	const char *unfit = le_unfit();
	bool		by_itself = reason == LE_REASON_RELEASED ||
		reason == LE_REASON_STEPPED_DOWN ||
		reason == LE_REASON_NO_PROGRESS;

	le_stat_count_slot(le_slot_number(slot),
					   by_itself ? LE_STAT_RELEASES : LE_STAT_LOSSES);
	if (reason == LE_REASON_NO_PROGRESS)
		le_event(LE_EVENT_NO_PROGRESS, slot->name, token,
				 "none for %.1f s; does not contend for %.1f s",
				 p->useless / (double) LE_SEC,
				 p->idled / (double) LE_SEC);
	else if (reason == LE_REASON_STEPPED_DOWN)
		le_event(LE_EVENT_STEPPED_DOWN, slot->name, token, NULL);
	else if (by_itself)
		le_event(LE_EVENT_RELEASED, slot->name, token,
				 unfit == NULL ? NULL : "state: %s", unfit);
	else
		le_event(LE_EVENT_LOST, slot->name, token, "%s",
				 le_reason_name(reason));
}

/* From here on no check believes in the term, whatever else happens. */
void
le_end_term(LeSlot *slot, LeReason reason)
{
	uint64		token = pg_atomic_read_u64(&slot->term.token);
	LeOwner		owner = le_owner_of(slot);
	const LeProgress *p = le_progress_of(le_slot_number(slot));

	if (reason == LE_REASON_RELEASED && p->useless != 0)
		reason = LE_REASON_NO_PROGRESS;
	else if (reason == LE_REASON_RELEASED && slot->stepping_down)
		reason = LE_REASON_STEPPED_DOWN;
	le_begin_change(slot);
	pg_atomic_write_u64(&slot->term.deadline, 0);
	pg_atomic_write_u64(&slot->term.owner, LE_OWNER_NONE);
	pg_atomic_write_u64(&slot->term.token, 0);
	pg_atomic_write_u64(&slot->term.drain_until, 0);
	slot->ended_token = token;
	slot->end_confirmed = false;
	slot->view.last_reason = reason;
	slot->view.last_change = GetCurrentTimestamp();
	slot->holder.node[0] = '\0';
	slot->holder.seen = 0;
	le_end_change(slot);
	le_bound_nudge(le_slot_number(slot), token, owner, false);
	ereport(LOG,
			(errmsg("no longer leader of election \"%s\" with fencing token " UINT64_FORMAT ": %s",
					slot->name, token, le_reason_name(reason)),
			 reason != LE_REASON_NO_PROGRESS ? 0 :
			 errdetail("There was none for %.1f s (progress_within). This node does not contend for %.1f s.",
					   p->useless / (double) LE_SEC,
					   p->idled / (double) LE_SEC)));
	note_end(slot, reason, token);
}

/* The lease of this one term was renewed. */
void
le_move_deadline(LeSlot *slot)
{
	pg_atomic_write_u64(&slot->term.deadline, slot->election.deadline);
	slot->view.renewed_at = GetCurrentTimestamp();
}

/*
 * From here on only the transactions bound to the term may use it.  The mark
 * comes before the count of them: a backend counts itself in before it looks
 * for the mark, so one of the two sees the other.
 *
 * Backends that are to stop in time hear of it now, and watch that time as
 * they watch the deadline: this process may stand still when it comes.
 */
void
le_drain_term(LeSlot *slot)
{
	slot->drain_told = false;
	pg_atomic_write_u64(&slot->term.drain_until,
						slot->election.drain_until - slot->drain_grace);
	pg_memory_barrier();
	le_bound_nudge(le_slot_number(slot), slot->election.token,
				   le_owner_of(slot), false);
}

/*
 * Nothing may be committed any more under a term that is to end: stop the
 * backends still bound to it, whatever signal they asked for.  Once is enough:
 * a later statement checks by itself, and each signal cuts short waits in code
 * that knows nothing of us.
 */
void
le_stop_drained(LeSlot *slot)
{
	if (slot->drain_told ||
		le_now() < (le_time) pg_atomic_read_u64(&slot->term.drain_until))
		return;
	slot->drain_told = true;
	le_bound_nudge(le_slot_number(slot), slot->election.token,
				   le_owner_of(slot), true);
}

/* Has the owner of the term let go of it, or died? */
bool
le_term_abandoned(const LeSlot *slot)
{
	LeOwner		owner = le_owner_of(slot);

	return !le_owner_lives(owner, slot->owner_proc) ||
		pg_atomic_read_u64(&((LeSlot *) slot)->term.given_up) ==
		slot->election.token;
}

/* Does the caller hold the election, or the instance for all its sessions? */
bool
le_held_by_caller(const LeSlot *slot, const LeAsk *ask)
{
	LeOwner		owner = le_owner_of(slot);

	if (!le_election_has_term(&slot->election) || le_term_abandoned(slot))
		return false;
	return owner == LE_OWNER_NODE ||
		(owner & ~LE_OWNER_XACT) == (ask->owner & ~LE_OWNER_XACT);
}
