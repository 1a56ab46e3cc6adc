/*-------------------------------------------------------------------------
 *
 * elect.c
 *		The worker's elections: between core/election.h and the rest.
 *
 * This file carries out the decisions of the core: it publishes terms in the
 * lease table, sends requests and passes verdicts on to the backends that
 * asked (pending.c).  After every event it recomputes whether this node should
 * seek the election: wishes are never passed on as a chain of events that
 * could lose a link.
 *
 * src/worker/lead/elect.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "settings.h"
#include "shmem/bound.h"
#include "shmem/clock.h"
#include "shmem/events.h"
#include "shmem/progress.h"
#include "shmem/stats.h"
#include "worker/base/trace.h"
#include "worker/disk/tokens.h"
#include "worker/lead/candidacy.h"
#include "worker/lead/elect.h"
#include "worker/lead/grants.h"
#include "worker/lead/key_op.h"
#include "worker/lead/pending.h"
#include "worker/lead/roster.h"
#include "worker/lead/term.h"
#include "worker/view/cache.h"
#include "worker/view/eligible.h"
#include "worker/view/key_view.h"
#include "worker/view/wishes.h"
#include "worker/wire/dispatch.h"

/* Pause of a campaign after the store gave a token that was too low. */
#define TOKEN_PAUSE		(30 * LE_SEC)

void
le_elect_feed(LeWorker *w, LeSlot *slot, LeInputKind kind)
{
	LeInput		input = {.kind = kind};

	le_elect_input(w, slot, &input);
}

/* The holder has a new value: send it, if nothing else is under way. */
static void
push_value(LeWorker *w, LeSlot *slot)
{
	const char *value = le_value_to_publish(w, slot);

	if (value == NULL)
		return;
	le_begin_note(slot);
	strlcpy(slot->value, value, sizeof(slot->value));
	slot->has_value = true;
	le_end_note(slot);
	le_elect_feed(w, slot, LE_IN_PUBLISH);
}

/*
 * Update the core's view of this node's wishes.  Called after every possible
 * change of them; does nothing without one.
 */
void
le_elect_advance(LeWorker *w, LeSlot *slot)
{
	LeElection *e = &slot->election;
	bool		wanted;

	if (le_grant_open(w, slot))
		return;					/* again when the term has begun */
	if (le_election_has_term(e))
	{
		if (le_term_abandoned(slot) ||
			(e->drain_until != 0 &&
			 !le_bound_to(le_slot_number(slot), e->token)))
			le_elect_feed(w, slot, LE_IN_UNWANT);
		else if (e->drain_until != 0)
			le_stop_drained(slot);
		else if (e->state == LE_HELD)
			push_value(w, slot);
	}
	if (le_election_has_term(e))
		return;
	wanted = le_sought(w, slot);
	if (wanted && !le_session_live())
		le_wish_session(w->wishes);
	else if (wanted && le_awaits_list(w, slot))
		return;
	else if (wanted && !e->wanted)
		le_elect_feed(w, slot, LE_IN_WANT);
	else if (!wanted && e->wanted)
		le_elect_feed(w, slot, LE_IN_UNWANT);
}

/* ---- errors shown to people ---- */

static void
set_error(LeSlot *slot, const char *text)
{
	le_begin_note(slot);
	strlcpy(slot->error.text, text, sizeof(slot->error.text));
	slot->error.at = GetCurrentTimestamp();
	slot->error.refused = false;
	le_end_note(slot);
}

/*
 * The store has given a token that is too low, just now ("anew") or lately.  A
 * campaign has no caller that waits for an answer, so the history and the
 * views report it.
 */
static void
token_refused(LeWorker *w, LeSlot *slot, bool anew)
{
	char		text[LE_MAX_ERROR_LEN + 1];

	if (anew)
	{
		slot->refused_token = slot->election.write_index;
		le_event(LE_EVENT_TOKEN_REFUSED, slot->name, slot->refused_token,
				 "not higher than " UINT64_FORMAT ", the highest seen at store %s",
				 slot->election.token_floor, le_store_address(w));
	}
	snprintf(text, sizeof(text),
			 "fencing token " UINT64_FORMAT " is not higher than " UINT64_FORMAT ", the highest seen",
			 slot->refused_token, slot->election.token_floor);
	set_error(slot, text);
	le_pause_campaign(w, slot, TOKEN_PAUSE);
}

/* ---- the store's answers ---- */

/* The watch shows the key; NULL: no such key. */
void
le_elect_seen(LeWorker *w, LeSlot *slot, const LeKey *key, uint64 as_of)
{
	LeInput		input = {.kind = LE_IN_SEEN};
	LeKeyView	view;

	if (le_grant_open(w, slot))
		le_elect_begin_terms(w);	/* their log needs the old holder */
	le_make_view(w, &view, key, as_of);
	le_note_holder(w, slot, key, &view);
	le_roster_update(w->roster, slot);	/* refused_token may be 0 now */
	if (!le_election_has_term(&slot->election))
		slot->key.rev = key == NULL ? 0 : key->rev;
	if (!le_session_live())
		return;					/* without a session nothing follows */
	if (key == NULL && le_election_has_term(&slot->election))
	{
		/*
		 * A list may merely hide the key.  The next proof decides, and it is
		 * sent now.
		 */
		if (as_of > slot->election.write_index)
			le_wish_proof(w->wishes);
		return;
	}
	input.view = &view;
	le_elect_input(w, slot, &input);
	le_elect_advance(w, slot);
}

/*
 * While the answer was on its way, the watch may have shown a newer state.  A
 * candidate that reads ignores the watch, which does not show it twice.
 */
static bool
watch_shows_newer(LeWorker *w, const LeSlot *slot, const LeKey *read,
				  uint64 as_of)
{
	const LeKey *key = le_cache_key(w->cache, slot->name);
	uint64		listed;

	if (slot->election.state != LE_READING ||
		!le_cache_lately(w->cache, le_table->node.timing.lease, &listed))
		return false;
	if (key == NULL)
		return read != NULL && read->index < listed;
	return key->index > (read == NULL ? as_of : read->index);
}

static void
read_answered(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeSlot	   *slot = le_slot(flight->slot);
	LeInput		input = {.kind = LE_IN_READ};
	const LeKey *key = answer->nkeys > 0 ? &answer->keys[0] : NULL;
	LeKeyView	view;

	if (le_key_op_stale(flight))
		return;
	le_pending_unsent(w, slot, answer->unsent);
	le_key_op_note_error(slot, flight, answer);
	if (answer->outcome == LE_DONE)
	{
		if (watch_shows_newer(w, slot, key, answer->index))
			key = le_cache_key(w->cache, slot->name);
		le_make_view(w, &view, key, answer->index);
		le_note_holder(w, slot, key, &view);
		slot->key.rev = key == NULL ? 0 : key->rev;
		input.view = &view;
	}
	else
	{
		input.kind = LE_IN_READ_FAILED;
		input.outcome = answer->outcome;
	}
	le_elect_input(w, slot, &input);
	le_elect_advance(w, slot);
}

/* The answer to a write of a key with a lease of its own. */
static void
note_lease(LeWorker *w, LeSlot *slot, LeInput *input, const LeFlight *flight,
		   const LeAnswer *answer)
{
	LeOpKind	kind = flight->op.kind;

	if (answer->outcome == LE_CONFLICT && answer->conflict == LE_CONFLICT_OWN)
		slot->key.rev = answer->term.rev;
	if (answer->outcome != LE_DONE ||
		(kind != LE_OP_ACQUIRE && kind != LE_OP_PUBLISH))
		return;
	slot->key.rev = answer->term.rev;
	input->renews_apart = le_configured_store()->lease.renews_apart;
	if (kind == LE_OP_PUBLISH && input->renews_apart)
		return;					/* written, but not renewed */
	input->sent = flight->sent;
	input->deadline = le_trusted_until(&le_table->node.timing,
									   flight->sent, answer->term.trust);
	if (kind == LE_OP_ACQUIRE && !le_election_is_repeating(&slot->election))
		le_check_trust(w->eligibility, answer->term.trust);
}

static void
write_answered(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	static const LeInputKind kinds[] = {
		[LE_DONE] = LE_IN_DONE,
		[LE_CONFLICT] = LE_IN_CONFLICT,
		[LE_LOST] = LE_IN_NOT_APPLIED,
		[LE_REFUSED] = LE_IN_NOT_APPLIED,
		[LE_UNAVAILABLE] = LE_IN_NOT_APPLIED,
		[LE_UNKNOWN] = LE_IN_UNKNOWN,
	};
	LeSlot	   *slot = le_slot(flight->slot);
	LeInput		input = {.kind = kinds[answer->outcome]};

	if (le_key_op_marks_holder(flight))
		le_cache_marking(w->cache, false);
	if (le_key_op_stale(flight))
		return;
	le_pending_unsent(w, slot, answer->unsent);
	le_key_op_note_error(slot, flight, answer);
	input.index = answer->index;
	input.outcome = answer->outcome;
	input.conflict = answer->conflict;
	input.suffices = !le_configured_store()->key_leases;
	if (le_configured_store()->key_leases)
		note_lease(w, slot, &input, flight, answer);
	if (flight->op.kind == LE_OP_TAKE_OVER && answer->outcome == LE_CONFLICT)
	{
		le_cache_doubt(flight->op.takeover.target->session);
		le_wish_fresh_nodes(w->wishes);
	}
	else if (flight->op.kind == LE_OP_TAKE_OVER && answer->outcome == LE_DONE)
		le_wish_fresh_nodes(w->wishes); /* the mark spares waits for the
										 * holder's other elections */
	le_elect_input(w, slot, &input);
	/* The store says that our session is gone: a proof tells for all terms. */
	if (answer->outcome == LE_LOST)
		le_wish_proof(w->wishes);
	le_elect_advance(w, slot);
}

/* The proof shows that the key is not ours any more. */
void
le_elect_not_ours(LeWorker *w, int number)
{
	LeSlot	   *slot = le_slot(number);

	le_elect_feed(w, slot, LE_IN_NOT_OURS);
	le_elect_advance(w, slot);
}

/* ---- the core and its actions ---- */

/*
 * If a term ends for want of progress, this node stops contending for a while.
 * A hold-off that a caller asked for may be longer.
 */
static void
stay_away(LeWorker *w, LeSlot *slot)
{
	LeProgress *p = le_progress_of(le_slot_number(slot));
	le_time		until;

	le_progress_end(le_slot_number(slot));
	if (p->useless == 0)
		return;
	until = le_now() + p->idled;
	p->away_until = Max(until, slot->hold_off_until);
	if (slot->hold_off_until >= until)
		return;
	slot->hold_off_until = until;
	p->idles = w->candidacies->any_pause = true;
}

/*
 * If the worker stops in here, its successor completes the end and would
 * contend at once: so start the hold-off first, and restart it afterwards in
 * case this worker stalled in between.
 */
static void
end_term(LeWorker *w, LeSlot *slot, LeReason reason)
{
	stay_away(w, slot);
	le_end_term(slot, reason);
	stay_away(w, slot);
	le_pending_term_ended(w, slot);
}

/* No further input follows. */
#define NO_INPUT	LE_NINPUTS

/*
 * Feed one input to the core, and carry out its actions in the order that
 * safety asks for: belief ends before anything is sent, and begins only for a
 * candidate that is still there.  Returns the next input, for the caller to
 * feed: this one has to be done with first.
 */
static LeInputKind
step(LeWorker *w, LeSlot *slot, LeInput *input)
{
	LeElection	before PG_USED_FOR_ASSERTS_ONLY;
	LeActions	act;
	uint32		answered;
	bool		unsent;
	LeInputKind next = NO_INPUT;

	if (le_grant_open(w, slot))
		le_elect_begin_terms(w);	/* finish the grants first */
	answered = slot->election.request;
	unsent = le_acquire_waits(w, slot);
	input->now = le_now();
	if (input->random == 0)
		input->random = le_random();
	input->timing = &le_table->node.timing;
	le_assert_holds(le_election_sound(&slot->election));
	le_assert_holds(le_election_contract(&slot->election, input));
	before = slot->election;
	act = le_election_input(&slot->election, input);
	le_trace_election(slot, &before, input, &act);
	le_assert_holds(le_election_check(&before, input, &slot->election, &act));

	if (act.unresolved && !unsent)
		le_pending_unresolved(w, slot);	/* before the candidate changes */
	else if (act.unresolved && act.outcome == LE_UNKNOWN)
		act.outcome = LE_UNAVAILABLE;	/* it was never sent */
	if (act.term_ends && pg_atomic_read_u64(&slot->term.token) != 0)
		end_term(w, slot, act.reason);
	if (act.term_drains)
		le_drain_term(slot);
	if (act.term_begins)
	{
		le_grant_add(w, slot, answered);
		act.verdict = LE_SAY_NOTHING;	/* told when it has begun */
	}
	else if (act.deadline_moved)
		le_move_deadline(slot);
	if ((act.send == LE_SEND_ACQUIRE || act.send == LE_SEND_TAKE_OVER) &&
		!le_choose_candidate(w, slot))
		slot->candidate.owner = LE_OWNER_NONE;	/* a grant is given back */
	if (act.send != LE_SEND_NOTHING)
		le_key_op_send(w, slot, &act, act.send == LE_SEND_READ ?
					   read_answered : write_answered);
	if (act.verdict == LE_SAY_RELEASED)
		slot->end_confirmed = true;
	if (act.verdict == LE_SAY_TOKEN_WENT_BACK)
		token_refused(w, slot, act.reason == LE_REASON_TOKEN);
	if (le_pass_verdict(w, slot, &act, answered) &&
		slot->election.state == LE_WAITING)
		next = LE_IN_WANT;
	le_roster_update(w->roster, slot);
	if (act.verdict == LE_SAY_TOKEN_WENT_BACK)
		le_tell_fitness(w);
	return next;
}

void
le_elect_input(LeWorker *w, LeSlot *slot, LeInput *input)
{
	LeInputKind next = step(w, slot, input);

	while (next != NO_INPUT)
	{
		LeInput		following = {.kind = next};

		next = step(w, slot, &following);
	}
	if (le_waits_for_holder(w->roster, le_slot_number(slot)))
		le_wish_nodes(w->wishes, le_table->node.timing.lease / 4);
}

/* ---- from a grant of the store to a term ---- */

/* The token could not be kept on disk: give the grant back. */
static void
refuse_term(LeWorker *w, LeSlot *slot)
{
	char		message[256];

	set_error(slot, le_tokens_trouble(w->tokens));
	snprintf(message, sizeof(message),
			 "could not keep the fencing token of election \"%s\"",
			 slot->name);
	le_pending_refuse(w, slot, LE_ERRCODE_REFUSED, message,
					  le_tokens_trouble(w->tokens), LE_TOKENS_HINT);
	le_elect_feed(w, slot, LE_IN_UNWANT);
}

/* The end of belief in a granted term. */
static le_time
granted_until(const LeSlot *slot)
{
	return slot->election.deadline != 0 ? slot->election.deadline :
		le_table->node.deadline;
}

static void
begin_term(LeWorker *w, LeSlot *slot, uint32 answered)
{
	LeActions	act = {.verdict = LE_SAY_GRANTED};
	le_time		now = le_now();

	if (!le_candidate_waits(w, slot))
		le_elect_feed(w, slot, LE_IN_UNWANT);
	else if (!le_believes(now, granted_until(slot)))
	{
		/* The disk took so long that nothing of the lease is left. */
		le_pending_unresolved(w, slot);
		act.verdict = LE_SAY_FAILED;
		act.outcome = LE_UNKNOWN;
		(void) le_pass_verdict(w, slot, &act, answered);
		le_elect_feed(w, slot, LE_IN_UNWANT);
	}
	else
	{
		le_begin_term(w, slot, now);
		(void) le_pass_verdict(w, slot, &act, answered);
		le_roster_update(w->roster, slot);
	}
	le_elect_advance(w, slot);
}

/* Begin, or give back, the terms granted in this turn. */
void
le_elect_begin_terms(LeWorker *w)
{
	le_grants_settle(w, begin_term, refuse_term);
}

/* ---- leases of single terms ---- */

/* A renewal of the term's lease is on its way. */
void
le_elect_renewal_sent(LeWorker *w, LeSlot *slot)
{
	le_election_renewal_sent(&slot->election);
	le_roster_update(w->roster, slot);
}

/* The renewal got no turn and was not sent: it is due as before. */
void
le_elect_renewal_unsent(LeWorker *w, LeSlot *slot)
{
	le_election_renewal_unsent(&slot->election);
	le_roster_update(w->roster, slot);
}

void
le_elect_renew_now(LeWorker *w, LeSlot *slot)
{
	le_election_renew_now(&slot->election, le_now());
	le_roster_update(w->roster, slot);
}

/* ---- questions of backends ---- */

/*
 * End the term in good order: the transactions bound to it may finish.
 * Without any it ends at once.
 */
void
le_elect_drain(LeWorker *w, LeSlot *slot, le_duration patience,
			   le_duration grace)
{
	LeInput		input = {.kind = LE_IN_DRAIN};
	const LeSlotSet *draining = &w->roster->draining;
	bool		told = le_set_has(draining, le_slot_number(slot));

	input.until = le_now() + patience + grace;
	slot->drain_grace = grace;
	le_elect_input(w, slot, &input);
	le_elect_advance(w, slot);
	if (le_set_has(draining, le_slot_number(slot)) && !told)
		ereport(LOG,
				(errmsg("giving up election \"%s\" with fencing token " UINT64_FORMAT " when the transactions bound to it are done",
						slot->name, slot->election.token),
				 errdetail("They are canceled in %d ms.",
						   (int) (patience / LE_MSEC))));
}

/* The same, with the patience that the settings ask for. */
void
le_elect_give_up(LeWorker *w, LeSlot *slot)
{
	le_elect_drain(w, slot, le_drain_timeout * LE_MSEC, LE_DRAIN_GRACE);
}

/* Do not contend for a while, not even for callers. */
void
le_elect_hold_off(LeWorker *w, LeSlot *slot, le_duration how_long)
{
	slot->hold_off_until = le_now() + how_long;
	le_progress_of(le_slot_number(slot))->idles = false;
	w->candidacies->any_pause = true;
}

/*
 * Is there anything to step down from: a term, a candidacy, or a hold-off that
 * could be changed?  An election that this node has merely seen does not
 * count.
 */
bool
le_elect_takes_part(LeWorker *w, const LeSlot *slot)
{
	return le_election_has_term(&slot->election) || slot->election.wanted ||
		slot->campaign || slot->configured ||
		slot->hold_off_until > le_now() || le_first_seeker(w, slot) != NULL;
}

/* "within" is the progress_within of its terms, also of the present one. */
void
le_elect_set_campaign(LeWorker *w, LeSlot *slot, bool campaign,
					  le_duration within)
{
	LeProgress *p = le_progress_of(le_slot_number(slot));

	slot->campaign = campaign;
	p->campaign_within = within;
	if (campaign && le_owner_of(slot) == LE_OWNER_NODE)
		p->within = within;
	if (campaign && slot->candidate.owner == LE_OWNER_NODE)
		p->candidate_within = within;
	le_roster_update(w->roster, slot);
}

/* A later caller relies on the term, with a progress_within of its own. */
void
le_elect_shorten_progress(LeWorker *w, LeSlot *slot, le_duration within)
{
	le_progress_shorten(le_slot_number(slot), within);
	le_roster_update(w->roster, slot);
}

/*
 * The election's slot, a new one if it has none; NULL: the table is full.  A
 * new slot starts without the counts of its former name.
 */
LeSlot *
le_elect_slot(LeWorker *w, const char *election)
{
	bool		added;
	LeSlot	   *slot = le_find_or_add_slot(election, &added);

	if (slot == NULL)
		return NULL;
	if (added)
	{
		le_stat_forget(le_slot_number(slot));
		le_progress_forget(le_slot_number(slot));
		le_roster_update(w->roster, slot);
	}
	slot->election.token_floor = Max(slot->election.token_floor,
									 le_token_floor(w->tokens, election));
	return slot;
}

/* ---- a new worker ---- */

/*
 * The worker before may have ended between the core's decision and the change
 * of the table.  Backends must not believe in a term that the core has ended.
 * le_elect_advance() gives back a term that was never published, and no proof
 * may fail for it until then.
 */
void
le_elect_settle(LeWorker *w, LeSlot *slot)
{
	uint64		token = pg_atomic_read_u64(&slot->term.token);

	/* A worker died in a change: end it, as nobody believes a torn slot. */
	if ((pg_atomic_read_u64(&slot->term.version) |
		 pg_atomic_read_u64(&slot->shown)) & 1)
		le_end_change(slot);
	if (token != slot->election.token)
	{
		if (token != 0)
			stay_away(w, slot);
		le_begin_change(slot);
		pg_atomic_write_u64(&slot->term.deadline, 0);
		pg_atomic_write_u64(&slot->term.owner, LE_OWNER_NONE);
		pg_atomic_write_u64(&slot->term.token, 0);
		le_end_change(slot);
	}
	slot->asked = 0;
}
