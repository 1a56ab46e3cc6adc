/*-------------------------------------------------------------------------
 *
 * elect.c
 *		The worker's elections: between core/election.h and the rest.
 *
 * What the core decides is carried out here: terms are published in the lease
 * table, requests sent, verdicts passed on to those who asked (pending.c).
 * And for each election it is worked out, again after everything that
 * happens, whether this node should seek it: wishes are never passed on as a
 * chain of events that could lose a link.
 *
 * src/worker/lead/elect.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "utils/memutils.h"

#include "settings.h"
#include "shmem/bound.h"
#include "shmem/clock.h"
#include "shmem/events.h"
#include "shmem/progress.h"
#include "shmem/stats.h"
#include "worker/disk/tokens.h"
#include "worker/lead/elect.h"
#include "worker/lead/pending.h"
#include "worker/lead/term.h"
#include "worker/view/cache.h"
#include "worker/view/eligible.h"
#include "worker/view/key_view.h"
#include "worker/view/sweep.h"
#include "worker/view/wishes.h"
#include "worker/wire/dispatch.h"

/*
 * What the loop looks at in each turn, close together: without it each turn
 * would touch every slot of the table, most of whose lines are cold.  It
 * follows from the slot, by brief_of(), and is worked out anew after whatever
 * may have changed it.
 *
 * Measured: with max_elections = 100000, 20,001 names used and the store
 * "local", an acquire and its release take 0.58 ms with it, 3.9 ms without.
 * With one name they take 0.26 ms with it, 0.12 ms without.
 */
typedef struct Brief
{
	le_time		timer;
	le_time		deadline;		/* of a term with a lease of its own */
	le_time		renew_at;
	le_time		progress_due;	/* by then there must be some */
	le_time		next;			/* the earliest of these; 0: there is none */
	bool		has_term;
	bool		active;			/* not idle: is to be looked at */
	bool		waiting;		/* for another's term to end */
	bool		token_refused;	/* a candidate, whose token was too low */
	bool		draining;		/* has a term that is to end */
	bool		candidate;		/* campaigned for, by call or by setting */
} Brief;

/* How often to look whether a term that is to end is still needed, should
 * nobody say so. */
#define DRAIN_POLL		(100 * LE_MSEC)

/* How long a campaign rests whose tokens the store gave out before. */
#define TOKEN_PAUSE		(30 * LE_SEC)

/* While tokens cannot be kept on disk: how often that is tried. */
#define TOKENS_PAUSE	(5 * LE_SEC)

/* How many elections that were refused are asked about again in a round. */
#define ASKED_AGAIN		16

static Brief *briefs;
static uint32 *granted;			/* request of the acquire by which the slot's
								 * term will begin; 0: none will */
static bool any_granted = false;
static le_time tokens_try_at = 0;

/* With more candidacies than that a list of all keys takes less than reading
 * each. */
int			le_list_from = 8;

static void seek(int number);
static void recheck(int number);
static void look(int number);

static LeSweep seeking = {.look = seek};
static LeSweep rechecking = {.look = recheck};
static LeSweep looking = {.look = look};

static le_time list_by = 0;		/* until then they wait for that list; 0: they
								 * do not */
static bool may_lead = false;
static bool any_pause = false;	/* some slot waits out a hold-off */

static void feed(LeSlot *slot, LeInput *input);
static bool waits_for_holder(int i);

static Brief
brief_of(const LeSlot *slot)
{
	const LeElection *e = &slot->election;
	Brief		brief = {
		.timer = e->timer_at,
		.deadline = e->deadline,
		.renew_at = le_election_renew_at(e),
		.progress_due = le_progress_due(le_slot_number(slot)),
		.has_term = pg_atomic_read_u64(&((LeSlot *) slot)->token) != 0,
		.active = e->state != LE_IDLE,
		.waiting = e->state == LE_WAITING,
		.draining = e->drain_until != 0,
		.candidate = slot->campaign || slot->configured,
		.token_refused = (slot->campaign || slot->configured) &&
		slot->refused_token != 0,
	};

	brief.next = le_earliest(le_earliest(brief.timer, brief.deadline),
							 le_earliest(brief.renew_at, brief.progress_due));
	return brief;
}

/* After whatever may have changed what the loop looks at. */
static void
note(const LeSlot *slot)
{
	briefs[le_slot_number(slot)] = brief_of(slot);
}

/* ---- terms ---- */

/* A proof moved the deadline of every term; 0 ends all belief. */
void
le_elect_deadline(le_time deadline)
{
	TimestampTz now = GetCurrentTimestamp();

	if (le_configured_store()->key_leases)
		return;					/* each has a deadline of its own */

	for (int i = 0; i < le_table->nused; i++)
	{
		LeSlot	   *slot = le_slot(i);

		if (!briefs[i].has_term)
			continue;
		pg_atomic_write_u64(&slot->deadline, deadline);
		slot->renewed_at = now;
	}
}

/* ---- who wants the election ---- */

static bool
sought(const LeSlot *slot)
{
	if (!may_lead || le_tokens_trouble()[0] != '\0' ||
		le_now() < slot->hold_off_until)
		return false;
	return le_campaigns(slot) || le_first_seeker(slot) != NULL;
}

/*
 * For whom is the acquire that is about to be sent?  Decided before it is
 * sent, since its value goes with it.
 */
static bool
choose_candidate(LeSlot *slot)
{
	const LeAsk *ask = le_first_seeker(slot);
	const char *value = NULL;
	LeProgress *progress = le_progress_of(le_slot_number(slot));

	progress->candidate_within = progress->campaign_within;
	if (ask != NULL)
	{
		slot->candidate = ask->owner;
		if (ask->within != LE_WITHIN_SETTING || ask->owner != LE_OWNER_NODE)
			progress->candidate_within = ask->within;
		slot->candidate_proc = ask->proc;
		slot->candidate_pid = ask->pid;
		if (ask->has_value)
			value = ask->value;
		else if (slot->campaign && slot->has_value)
			value = slot->value;
	}
	else if (le_campaigns(slot))
	{
		slot->candidate = LE_OWNER_NODE;
		slot->candidate_proc = slot->candidate_pid = 0;
		if (slot->campaign && slot->has_value)
			value = slot->value;
	}
	else
		return false;
	if (value == NULL)
		value = le_my_value();
	le_begin_note(slot);
	if (value != slot->value)
		strlcpy(slot->value, value, sizeof(slot->value));
	slot->has_value = true;
	le_end_note(slot);
	return true;
}

/* Is the one that an acquired term was meant for still there? */
static bool
candidate_waits(LeSlot *slot)
{
	if (slot->candidate == LE_OWNER_NODE && le_campaigns(slot))
		return true;
	return le_seeker_waits(slot, slot->candidate);
}

void
le_elect_feed(LeSlot *slot, LeInputKind kind)
{
	LeInput		input = {.kind = kind};

	feed(slot, &input);
}

/* The holder has a new value: send it, if nothing else is under way. */
static void
push_value(LeSlot *slot)
{
	const char *value = le_value_to_publish(slot);

	if (value == NULL)
		return;
	le_begin_note(slot);
	strlcpy(slot->value, value, sizeof(slot->value));
	slot->has_value = true;
	le_end_note(slot);
	le_elect_feed(slot, LE_IN_PUBLISH);
}

/* Nobody of this instance may have to wait for the list. */
static bool
awaits_list(const LeSlot *slot)
{
	return list_by != 0 && le_first_seeker(slot) == NULL;
}

/*
 * Bring the core's idea of what this node wants up to date.  Called after
 * everything that may have changed it; does nothing if nothing has.
 */
void
le_elect_advance(LeSlot *slot)
{
	LeElection *e = &slot->election;
	bool		wanted;

	if (granted[le_slot_number(slot)] != 0)
		return;					/* again when the term has begun */
	if (le_election_has_term(e))
	{
		if (le_term_abandoned(slot) ||
			(e->drain_until != 0 &&
			 !le_bound_to(le_slot_number(slot), e->token)))
			le_elect_feed(slot, LE_IN_UNWANT);
		else if (e->drain_until != 0)
			le_stop_drained(slot);
		else if (e->state == LE_HELD)
			push_value(slot);
	}
	if (le_election_has_term(e))
		return;
	wanted = sought(slot);
	if (wanted && !le_session_live())
		le_wish_session();
	else if (wanted && awaits_list(slot))
		return;
	else if (wanted && !e->wanted)
		le_elect_feed(slot, LE_IN_WANT);
	else if (!wanted && e->wanted)
		le_elect_feed(slot, LE_IN_UNWANT);
}

/* A campaign rests for a while; le_acquire() may still try. */
static void
pause_campaign(LeSlot *slot, le_duration how_long)
{
	slot->campaign_after = le_now() + how_long;
	any_pause = true;
}

/* ---- what people are told ---- */

static void
set_error(LeSlot *slot, const char *text)
{
	le_begin_note(slot);
	strlcpy(slot->last_error, text, sizeof(slot->last_error));
	slot->last_error_at = GetCurrentTimestamp();
	slot->refused = false;
	le_end_note(slot);
}

/* Others are to hear now whether this node could lead, if that has changed. */
static void
tell_fitness(void)
{
	if (le_elect_note_fitness(false) && le_session_live())
		le_wish_proof();
}

/*
 * The store has given a token that is too low, just now ("anew") or lately.
 * A campaign has nobody who waits for an answer, so that is said wherever
 * somebody might look.
 */
static void
token_refused(LeSlot *slot, bool anew)
{
	char		text[LE_MAX_ERROR_LEN + 1];

	if (anew)
	{
		slot->refused_token = slot->election.write_index;
		le_event(LE_EVENT_TOKEN_REFUSED, slot->name, slot->refused_token,
				 "not higher than " UINT64_FORMAT ", the highest seen at store %s",
				 slot->election.token_floor, le_store_place());
	}
	snprintf(text, sizeof(text),
			 "fencing token " UINT64_FORMAT " is not higher than " UINT64_FORMAT ", the highest seen",
			 slot->refused_token, slot->election.token_floor);
	set_error(slot, text);
	pause_campaign(slot, TOKEN_PAUSE);
}

/* ---- what the store says ---- */

/* The watch shows the key; NULL: no such key. */
void
le_elect_seen(LeSlot *slot, const LeKey *key, uint64 as_of)
{
	LeInput		input = {.kind = LE_IN_SEEN};
	LeKeyView	view;

	if (granted[le_slot_number(slot)] != 0)
		le_elect_begin_terms(); /* from whom it is taken is noted here */
	le_make_view(&view, key, as_of);
	le_note_holder(slot, key, &view);
	note(slot);					/* its token may not be refused any more */
	if (!le_election_has_term(&slot->election))
		slot->rev = key == NULL ? 0 : key->rev;
	if (!le_session_live())
		return;					/* nothing could be done about it */
	if (key == NULL && le_election_has_term(&slot->election))
	{
		/*
		 * A key that is absent from a list may merely be hidden.  The next
		 * proof decides, and it is sent now.
		 */
		if (as_of > slot->election.write_index)
			le_wish_proof();
		return;
	}
	input.view = &view;
	feed(slot, &input);
	le_elect_advance(slot);
}

/* To wait for a turn in vain is no failure of the store. */
static void
note_error(LeSlot *slot, const LeFlight *flight, const LeAnswer *answer)
{
	if (!answer->unsent)
		le_note_error(slot, flight->op.kind, answer->outcome, answer->detail);
}

/* Is this the answer to the election's newest request? */
static bool
stale(const LeFlight *flight)
{
	return flight->epoch != le_table->node.epoch ||
		flight->request != le_slot(flight->slot)->election.request;
}

/*
 * The watch may have shown what came after this read, while the answer was on
 * its way.  A candidate that reads does not look at that, and it is not shown
 * twice.
 */
static bool
watch_shows_newer(const LeSlot *slot, const LeKey *read, uint64 as_of)
{
	const LeKey *key = le_cache_key(slot->name);
	uint64		listed;

	if (slot->election.state != LE_READING ||
		!le_cache_lately(le_table->node.timing.lease, &listed))
		return false;
	if (key == NULL)
		return read != NULL && read->index < listed;
	return key->index > (read == NULL ? as_of : read->index);
}

static void
read_answered(LeFlight *flight, const LeAnswer *answer)
{
	LeSlot	   *slot = le_slot(flight->slot);
	LeInput		input = {.kind = LE_IN_READ};
	const LeKey *key = answer->nkeys > 0 ? &answer->keys[0] : NULL;
	LeKeyView	view;

	if (stale(flight))
		return;
	le_pending_unsent(slot, answer->unsent);
	note_error(slot, flight, answer);
	if (answer->outcome == LE_DONE)
	{
		if (watch_shows_newer(slot, key, answer->index))
			key = le_cache_key(slot->name);
		le_make_view(&view, key, answer->index);
		le_note_holder(slot, key, &view);
		slot->rev = key == NULL ? 0 : key->rev;
		input.view = &view;
	}
	else
	{
		input.kind = LE_IN_READ_FAILED;
		input.outcome = answer->outcome;
	}
	feed(slot, &input);
	le_elect_advance(slot);
}

/* The answer to a write of a key with a lease of its own. */
static void
note_lease(LeSlot *slot, LeInput *input, const LeFlight *flight,
		   const LeAnswer *answer)
{
	LeOpKind	kind = flight->op.kind;

	if (answer->outcome == LE_CONFLICT && answer->conflict == LE_CONFLICT_OWN)
		slot->rev = answer->rev;
	if (answer->outcome != LE_DONE ||
		(kind != LE_OP_ACQUIRE && kind != LE_OP_PUBLISH))
		return;
	slot->rev = answer->rev;
	input->renews_apart = le_configured_store()->renews_apart;
	if (kind == LE_OP_PUBLISH && input->renews_apart)
		return;					/* written, but not renewed */
	input->sent = flight->sent;
	input->deadline = le_trusted_until(&le_table->node.timing,
									   flight->sent, answer->trust);
	if (kind == LE_OP_ACQUIRE && slot->election.failures == 0)
		le_check_trust(answer->trust);
}

/* Does it mark the node key of the holder that the term is taken from? */
static bool
marks_holder(const LeFlight *flight)
{
	return flight->op.kind == LE_OP_TAKE_OVER && !flight->op.target->revoked;
}

static void
write_answered(LeFlight *flight, const LeAnswer *answer)
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

	if (marks_holder(flight))
		le_cache_marking(false);
	if (stale(flight))
		return;
	le_pending_unsent(slot, answer->unsent);
	note_error(slot, flight, answer);
	input.index = answer->index;
	input.outcome = answer->outcome;
	input.conflict = answer->conflict;
	input.suffices = !le_configured_store()->key_leases;
	if (le_configured_store()->key_leases)
		note_lease(slot, &input, flight, answer);
	if (flight->op.kind == LE_OP_TAKE_OVER && answer->outcome == LE_CONFLICT)
	{
		le_cache_doubt(flight->op.target->session);
		le_wish_fresh_nodes();
	}
	else if (flight->op.kind == LE_OP_TAKE_OVER && answer->outcome == LE_DONE)
		le_wish_fresh_nodes();	/* the mark spares waits for its others */
	feed(slot, &input);
	/* Our session is gone, says the store: the proof tells for all of us. */
	if (answer->outcome == LE_LOST)
		le_wish_proof();
	le_elect_advance(slot);
}

/*
 * The node key of the node that the term is taken from.  Also for a key that
 * the store has freed: marking its last holder spares the wait for that node's
 * other elections.  Not of a key that has changed since it was looked at, as
 * by our own release: that node has nothing to do with it any more.
 */
static bool
add_target(LeFlight *flight, const LeSlot *slot)
{
	const LeNodeInfo *from;
	LeNodeKey  *target;

	if (slot->holder_session[0] == '\0' || flight->op.index == 0 ||
		slot->holder_index != flight->op.index ||
		(from = le_cache_node(slot->holder_session)) == NULL ||
		(!slot->holder_holds && (from->held || from->revoked)))
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
	flight->op.target = target;
	flight->op.target_holds = slot->holder_holds;
	return true;
}

/*
 * What a write of a key with a lease of its own says beside the index.  Each
 * decision to acquire has an id of its own; a copy sent because nobody knows
 * what became of the first has the same.  A worker that ends between decision
 * and id leaves the id of an earlier term, and a release of that term that is
 * on its way would end the new one: hence the number, which is written last.
 */
static void
add_lease(LeFlight *flight, LeSlot *slot)
{
	uint8		id[LE_ATTEMPT_LEN / 2];

	flight->op.rev = slot->rev;
	flight->op.token_floor = slot->election.token_floor;
	if (flight->op.kind == LE_OP_ACQUIRE &&
		(slot->attempt_of != slot->election.decisions ||
		 slot->attempt[0] == '\0'))
	{
		if (!pg_strong_random(id, sizeof(id)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate random bytes")));
		for (int i = 0; i < (int) sizeof(id); i++)
			snprintf(slot->attempt + 2 * i, 3, "%02x", id[i]);
		slot->attempt_of = slot->election.decisions;
	}
	flight->op.attempt = le_flight_string(flight, slot->attempt);
}

/*
 * When it is its turn: is it still the election's request, and wanted?  An
 * acquire that is repeated is sent in any case: it is how to find out what
 * became of the first.  For whom a first one was meant may have gone while it
 * waited, and been told "no"; if others seek the election, it is for them.
 */
static bool
still_wanted(LeFlight *flight)
{
	LeSlot	   *slot = le_slot(flight->slot);
	const LeElection *e = &slot->election;

	if (stale(flight))
		return false;
	if (e->state != LE_ACQUIRING || e->failures > 0)
		return true;
	if (!e->wanted)
		return false;
	if (slot->candidate == LE_OWNER_NODE ? slot->campaign || slot->configured :
		le_seeker_heard_of(slot, slot->candidate))
		return true;
	if (!choose_candidate(slot))
		return false;
	flight->op.value = le_flight_string(flight, slot->value);
	return true;
}

static void
send_request(LeSlot *slot, const LeActions *act)
{
	static const LeOpKind kinds[] = {
		[LE_SEND_READ] = LE_OP_READ,
		[LE_SEND_ACQUIRE] = LE_OP_ACQUIRE,
		[LE_SEND_TAKE_OVER] = LE_OP_ACQUIRE,
		[LE_SEND_PUBLISH] = LE_OP_PUBLISH,
		[LE_SEND_RELEASE] = LE_OP_RELEASE,
	};
	LeFlight   *flight = le_flight_new(kinds[act->send],
									   act->send == LE_SEND_READ ?
									   read_answered : write_answered);

	flight->slot = le_slot_number(slot);
	flight->request = slot->election.request;
	flight->op.election = le_flight_string(flight, slot->name);
	flight->op.index = act->index;
	flight->op.token = slot->election.token;
	flight->op.local = &slot->local;
	if (slot->has_value)
		flight->op.value = le_flight_string(flight, slot->value);
	if (le_configured_store()->key_leases)
		add_lease(flight, slot);
	else if (flight->op.kind == LE_OP_ACQUIRE && le_takes_over() &&
			 add_target(flight, slot))
		flight->op.kind = LE_OP_TAKE_OVER;
	if (marks_holder(flight))
		le_cache_marking(true);
	flight->wanted = still_wanted;
	if (slot->asked > 0 && act->send != LE_SEND_RELEASE)
		flight->lane = LE_LANE_ASKED;
	flight->keeps_waiting = flight->lane != LE_LANE_ASKED;
	le_flight_send(flight, le_table->node.timing.request_timeout);
}

/*
 * A term ends: if it was of no use, the election is left alone from now on.  A
 * hold-off that somebody asked for may be longer.
 */
static void
stay_away(LeSlot *slot)
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
	p->idles = any_pause = true;
}

/*
 * A worker that stops in here leaves the rest to the next one, which would
 * contend at once for what has ended: so staying away begins before that, and
 * counts from it, for one that stood still in between.
 */
static void
end_term(LeSlot *slot, LeReason reason)
{
	stay_away(slot);
	le_end_term(slot, reason);
	stay_away(slot);
	le_pending_term_ended(slot);
}

/* Nothing follows from what was fed. */
#define NO_INPUT	LE_NINPUTS

/*
 * One input through the core, and its actions in the order that safety asks
 * for: belief ends before anything is sent, and begins only for somebody
 * who is still there to have it.  Returns the input that follows from it,
 * which is not fed from in here: this one has to be done with first.
 */
static LeInputKind
step(LeSlot *slot, LeInput *input)
{
	LeActions	act;
	uint32		answered;
	bool		unsent;
	LeInputKind next = NO_INPUT;

	if (granted[le_slot_number(slot)] != 0)
		le_elect_begin_terms(); /* one thing after the other */
	answered = slot->election.request;
	unsent = le_acquire_waits(slot);
	input->now = le_now();
	if (input->random == 0)
		input->random = le_random();
	input->timing = &le_table->node.timing;
	act = le_election_input(&slot->election, input);

	if (act.unresolved && !unsent)
		le_pending_unresolved(slot);	/* before there is another candidate */
	else if (act.unresolved && act.outcome == LE_UNKNOWN)
		act.outcome = LE_UNAVAILABLE;	/* it was never sent */
	if (act.term_ends && pg_atomic_read_u64(&slot->token) != 0)
		end_term(slot, act.reason);
	if (act.term_drains)
		le_drain_term(slot);
	if (act.term_begins)
	{
		granted[le_slot_number(slot)] = answered;
		any_granted = true;
		act.verdict = LE_SAY_NOTHING;	/* not before it has begun */
	}
	else if (act.deadline_moved)
		le_move_deadline(slot);
	if ((act.send == LE_SEND_ACQUIRE || act.send == LE_SEND_TAKE_OVER) &&
		!choose_candidate(slot))
		slot->candidate = LE_OWNER_NONE;	/* granted, it is given back */
	if (act.send != LE_SEND_NOTHING)
		send_request(slot, &act);
	if (act.verdict == LE_SAY_RELEASED)
		slot->end_confirmed = true;
	if (act.verdict == LE_SAY_TOKEN_WENT_BACK)
		token_refused(slot, act.reason == LE_REASON_TOKEN);
	if (le_pass_verdict(slot, &act, answered) &&
		slot->election.state == LE_WAITING)
		next = LE_IN_WANT;
	note(slot);
	if (act.verdict == LE_SAY_TOKEN_WENT_BACK)
		tell_fitness();
	return next;
}

static void
feed(LeSlot *slot, LeInput *input)
{
	LeInputKind next = step(slot, input);

	while (next != NO_INPUT)
	{
		LeInput		following = {.kind = next};

		next = step(slot, &following);
	}
	if (waits_for_holder(le_slot_number(slot)))
		le_wish_nodes(le_table->node.timing.lease / 4);
}

void
le_elect_input(LeSlot *slot, LeInput *input)
{
	feed(slot, input);
}

/* ---- from a grant of the store to a term ---- */

/* Its token is not on disk: what the store has granted is given back. */
static void
refuse_term(LeSlot *slot)
{
	char		message[256];

	set_error(slot, le_tokens_trouble());
	snprintf(message, sizeof(message),
			 "could not keep the fencing token of election \"%s\"",
			 slot->name);
	le_pending_refuse(slot, LE_ERRCODE_REFUSED, message, le_tokens_trouble(),
					  LE_TOKENS_HINT);
	le_elect_feed(slot, LE_IN_UNWANT);
}

/* How long may what was granted be believed in? */
static le_time
granted_until(const LeSlot *slot)
{
	return slot->election.deadline != 0 ? slot->election.deadline :
		le_table->node.deadline;
}

static void
begin_term(LeSlot *slot, uint32 answered)
{
	LeActions	act = {.verdict = LE_SAY_GRANTED};
	le_time		now = le_now();

	if (!candidate_waits(slot))
		le_elect_feed(slot, LE_IN_UNWANT);
	else if (!le_believes(now, granted_until(slot)))
	{
		/* The disk took so long that nothing of the lease is left. */
		le_pending_unresolved(slot);
		act.verdict = LE_SAY_FAILED;
		act.outcome = LE_UNKNOWN;
		(void) le_pass_verdict(slot, &act, answered);
		le_elect_feed(slot, LE_IN_UNWANT);
	}
	else
	{
		le_begin_term(slot, now);
		(void) le_pass_verdict(slot, &act, answered);
		note(slot);
	}
	le_elect_advance(slot);
}

/*
 * Begin the terms that the store has granted since this was called last, in
 * this turn of the loop: with their tokens on disk, by one write for all of
 * them.  The store "local" takes its tokens from the write-ahead log, which is
 * flushed already.
 */
void
le_elect_begin_terms(void)
{
	bool		kept;

	if (!any_granted)
	{
		(void) le_tokens_keep(false);	/* of other nodes */
		return;
	}
	for (int i = 0; i < le_table->nused; i++)
		if (granted[i] != 0)
			le_token_seen(le_slot(i)->name, le_slot(i)->election.token);
	kept = le_tokens_keep(le_configured_store()->between_instances);
	any_granted = false;
	for (int i = 0; i < le_table->nused; i++)
	{
		uint32		answered = granted[i];

		granted[i] = 0;
		if (answered == 0)
			continue;
		if (kept)
			begin_term(le_slot(i), answered);
		else
			refuse_term(le_slot(i));
	}
}

/*
 * The session has ended before they began: whoever waits for one cannot know
 * what others have seen meanwhile.
 */
static void
forget_granted(void)
{
	for (int i = 0; i < le_table->nused; i++)
		if (granted[i] != 0)
		{
			le_pending_unresolved(le_slot(i));
			granted[i] = 0;
		}
	any_granted = false;
}

/*
 * Whoever it is that finds tokens can be kept again, a term that was to begin
 * or le_reset_token(), those that stopped seeking for it are told.
 */
static void
note_tokens(void)
{
	static bool kept = true;
	bool		before = kept;

	kept = le_tokens_trouble()[0] == '\0';
	if (kept == before)
		return;
	le_set_trouble(LE_TROUBLE_TOKENS, le_tokens_trouble());
	if (kept)
		le_elect_refresh();
	tell_fitness();
}

/* Can tokens be kept on disk?  If they could not, it is tried again. */
bool
le_elect_can_begin(void)
{
	if (le_tokens_trouble()[0] != '\0')
	{
		tokens_try_at = le_now() + TOKENS_PAUSE;
		if (!le_tokens_try())
			le_set_trouble(LE_TROUBLE_TOKENS, le_tokens_trouble());
	}
	note_tokens();
	return le_tokens_trouble()[0] == '\0';
}

/* ---- leases of single terms ---- */

/* A renewal of the term's lease is on its way. */
void
le_elect_renewal_sent(LeSlot *slot)
{
	le_election_renewal_sent(&slot->election);
	note(slot);
}

/* It is on its way no more, and was not sent: it is due as it was. */
void
le_elect_renewal_unsent(LeSlot *slot)
{
	le_election_renewal_unsent(&slot->election);
	note(slot);
}

bool
le_elect_any_renewal_due(le_time now)
{
	for (int i = 0; i < le_table->nused; i++)
		if (briefs[i].renew_at != 0 && now >= briefs[i].renew_at)
			return true;
	return false;
}

void
le_elect_renew_now(LeSlot *slot)
{
	le_election_renew_now(&slot->election, le_now());
	note(slot);
}

/*
 * End the term in good order: those who are bound to it may finish.  Without
 * any it ends at once.
 */
static void
drain(LeSlot *slot, le_duration patience, le_duration grace)
{
	LeInput		input = {.kind = LE_IN_DRAIN};
	const Brief *brief = &briefs[le_slot_number(slot)];
	bool		told = brief->draining;

	input.until = le_now() + patience + grace;
	slot->drain_grace = grace;
	feed(slot, &input);
	le_elect_advance(slot);
	if (brief->draining && !told)
		ereport(LOG,
				(errmsg("giving up election \"%s\" with fencing token " UINT64_FORMAT " when the transactions bound to it are done",
						slot->name, slot->election.token),
				 errdetail("They are canceled in %d ms.",
						   (int) (patience / LE_MSEC))));
}

/* The same, with the patience that the settings ask for. */
void
le_elect_give_up(LeSlot *slot)
{
	drain(slot, le_drain_timeout * LE_MSEC, LE_DRAIN_GRACE);
}

/* Do not contend for a while, whoever asks. */
void
le_elect_hold_off(LeSlot *slot, le_duration how_long)
{
	slot->hold_off_until = le_now() + how_long;
	le_progress_of(le_slot_number(slot))->idles = false;
	any_pause = true;
}

/*
 * Is there anything to step down from: a term, a candidacy, or a hold-off
 * that could be changed?  An election that was merely seen here is none of
 * this node's business.
 */
bool
le_elect_takes_part(const LeSlot *slot)
{
	return le_election_has_term(&slot->election) || slot->election.wanted ||
		slot->campaign || slot->configured ||
		slot->hold_off_until > le_now() || le_first_seeker(slot) != NULL;
}

/* "within": which progress its terms must see, also the present one. */
void
le_elect_set_campaign(LeSlot *slot, bool campaign, le_duration within)
{
	LeProgress *p = le_progress_of(le_slot_number(slot));

	slot->campaign = campaign;
	p->campaign_within = within;
	if (campaign && le_owner_of(slot) == LE_OWNER_NODE)
		p->within = within;
	if (campaign && slot->candidate == LE_OWNER_NODE)
		p->candidate_within = within;
	note(slot);
}

/* Somebody relies on the term who was not there when it began. */
void
le_elect_shorten_progress(LeSlot *slot, le_duration within)
{
	le_progress_shorten(le_slot_number(slot), within);
	note(slot);
}

/* ---- called by the rest of the worker ---- */

/*
 * A new worker: requests that its predecessor had in flight are lost, and
 * what became of them is not known.
 */
static void
resume(LeSlot *slot)
{
	LeElection *e = &slot->election;
	LeInput		input = {0};

	le_election_resume(e, le_now());
	note(slot);
	switch (e->state)
	{
		case LE_ACQUIRING:
		case LE_PUBLISHING:
		case LE_RELEASING:
			input.kind = LE_IN_UNKNOWN;
			feed(slot, &input);
			break;
		case LE_READING:
		case LE_ACQUIRE_UNSURE:
		case LE_PUBLISH_UNSURE:
		case LE_RELEASE_UNSURE:
			input.kind = LE_IN_READ_FAILED;
			input.outcome = LE_UNAVAILABLE;
			feed(slot, &input);
			break;
		default:
			break;
	}
}

/*
 * The worker before may have gone between what the core decided and what the
 * table shows.  A term that the core has ended must not be believed in for
 * the rest of its time; one that never was published, le_elect_advance() gives
 * back, and until then no proof may be made to fail for it.
 */
static void
settle(LeSlot *slot)
{
	uint64		token = pg_atomic_read_u64(&slot->token);

	/* A worker that died in a change: nobody believes a torn slot. */
	if ((pg_atomic_read_u64(&slot->version) |
		 pg_atomic_read_u64(&slot->shown)) & 1)
		le_end_change(slot);
	if (token != slot->election.token)
	{
		if (token != 0)
			stay_away(slot);
		le_begin_change(slot);
		pg_atomic_write_u64(&slot->deadline, 0);
		pg_atomic_write_u64(&slot->owner, LE_OWNER_NONE);
		pg_atomic_write_u64(&slot->token, 0);
		le_end_change(slot);
	}
	slot->asked = 0;
}

void
le_elect_start(void)
{
	briefs = MemoryContextAllocZero(TopMemoryContext,
									le_table->nslots * sizeof(Brief));
	granted = MemoryContextAllocZero(TopMemoryContext,
									 le_table->nslots * sizeof(uint32));
	for (int i = 0; i < le_table->nused; i++)
	{
		settle(le_slot(i));
		note(le_slot(i));
	}
	le_bound_nudge_all();
	any_pause = true;
	le_set_trouble(LE_TROUBLE_TOKENS, le_tokens_trouble());
	/* The worker before may have gone while it was ending the terms. */
	if (!le_session_live())
		le_elect_node_ended(LE_REASON_EXPIRED);
	for (int i = 0; i < le_table->nused; i++)
		resume(le_slot(i));
	le_elect_refresh();
}

/*
 * The election's slot, a new one if it has none; NULL: the table is full.
 * What was counted under another name in that place is forgotten.
 */
LeSlot *
le_elect_slot(const char *election)
{
	bool		added;
	LeSlot	   *slot = le_find_or_add_slot(election, &added);

	if (slot == NULL)
		return NULL;
	if (added)
	{
		le_stat_forget(le_slot_number(slot));
		le_progress_forget(le_slot_number(slot));
		note(slot);
	}
	slot->election.token_floor = Max(slot->election.token_floor,
									 le_token_floor(election));
	return slot;
}

/* For le_elect_refresh(): which slots the setting names. */
static bool *named;

static void
mark_named(const char *election)
{
	LeSlot	   *slot = le_find_slot(election);

	if (slot != NULL)
		named[le_slot_number(slot)] = true;
}

static void
mark_configured(const char *election)
{
	LeSlot	   *slot = le_elect_slot(election);

	if (slot == NULL)
		ereport(LOG,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no room for election \"%s\" in the lease table",
						election),
				 errhint("Raise \"leader_election.max_elections\" and restart.")));
	else
	{
		slot->configured = true;
		note(slot);
	}
}

/*
 * It leads nothing, and whatever it seeks it was refused: by the store, or for
 * a token that is too low, after which it pauses.
 */
static bool
refused_all(void)
{
	bool		any = false;

	for (int i = 0; i < le_table->nused; i++)
	{
		const LeSlot *slot = le_slot(i);

		if (briefs[i].has_term)
			return false;
		if (!briefs[i].token_refused &&
			(!briefs[i].active || !slot->election.wanted))
			continue;
		if (!briefs[i].token_refused && !slot->refused)
			return false;
		any = true;
	}
	return any;
}

/*
 * Work out anew whether this node could lead, for le_nodes here and, with the
 * next proof, elsewhere.  While it cannot keep tokens it begins no term; those
 * that it has go on.  True if the answer is another one.
 */
bool
le_elect_note_fitness(bool session_refused)
{
	const char *unfit = le_unfit();

	if (unfit == NULL)
		unfit = session_refused || le_tokens_trouble()[0] != '\0' ||
			refused_all() ? "refused" : "";
	if (strcmp(le_table->unfit, unfit) == 0)
		return false;
	le_set_unfit(unfit);
	return true;
}

/* Those that the setting does not name any more, in one look at the list. */
static void
sweep_configured(void)
{
	named = palloc0(le_table->nslots * sizeof(bool));
	le_each_campaign(mark_named);
	for (int i = 0; i < le_table->nused; i++)
	{
		LeSlot	   *slot = le_slot(i);

		if (!slot->configured || named[i])
			continue;
		slot->configured = false;
		note(slot);
		if (le_owner_of(slot) == LE_OWNER_NODE && !slot->campaign)
			le_elect_give_up(slot);
	}
	pfree(named);
	named = NULL;
}

/* After a reload, a promotion, or anything else that concerns them all. */
void
le_elect_refresh(void)
{
	char		why[LE_MAX_ERROR_LEN + 1];
	int			sqlstate;

	may_lead = le_may_lead(why, sizeof(why), &sqlstate);
	sweep_configured();
	le_each_campaign(mark_configured);
	for (int i = 0; i < le_table->nused; i++)
	{
		note(le_slot(i));		/* progress_within may be another */
		if (!may_lead && briefs[i].has_term)
			le_elect_give_up(le_slot(i));
		le_elect_advance(le_slot(i));
	}
	le_set_trouble(LE_TROUBLE_SETTINGS,
				   !may_lead && sqlstate == LE_ERRCODE_REFUSED ? why : "");
	tell_fitness();
}

/*
 * It is time to look again at the key of an election that is waited for.  The
 * watch has shown it lately: what follows depends on its index, so there is
 * no need to read it once more, and those of a node that went need not be read
 * each.  After a failure, or where a read has shown something else since, it
 * is read.
 */
static void
look_again(LeSlot *slot)
{
	LeInput		input = {.kind = LE_IN_SEEN};
	const LeKey *key = le_cache_key(slot->name);
	LeKeyView	view;
	uint64		as_of;

	slot->election.timer_at = 0;
	if (slot->election.failures > 0 ||
		!le_cache_lately(le_table->node.timing.lease, &as_of) ||
		slot->holder_index != (key == NULL ? 0 : key->index))
	{
		le_elect_feed(slot, LE_IN_TIMER);
		return;
	}
	le_make_view(&view, key, key == NULL ? as_of : Max(as_of, key->index));
	input.view = &view;
	feed(slot, &input);
}

/* Backends have given something up, or gone: does it concern an election? */
void
le_elect_recheck(void)
{
	for (int i = 0; i < le_table->nused; i++)
		if (briefs[i].active)
			le_elect_advance(le_slot(i));
}

/*
 * A node whose jobs do not run, or hang, goes on renewing what it leads for
 * ever.  Others are to have it then.
 */
static void
give_up_useless(LeSlot *slot)
{
	int			number = le_slot_number(slot);

	le_progress_of(number)->useless = le_progress_limit(number);
	le_elect_give_up(slot);
}

/*
 * The time to wait for who is bound to the term is over, but not for a commit
 * that may have passed its check: it would be recorded under the next leader.
 * It is canceled where it can be, so this ends with the disk, or whatever else
 * it waits for without looking up.
 */
static bool
commit_outlasts_drain(const LeSlot *slot)
{
	return slot->election.state == LE_DRAINING &&
		le_bound_commit_under_way(le_slot_number(slot),
								  slot->election.token);
}

static void
run_slot_timer(int i, le_time now)
{
	LeSlot	   *slot = le_slot(i);

	if (briefs[i].deadline != 0 && now >= briefs[i].deadline)
	{
		le_elect_feed(slot, LE_IN_EXPIRED);
		le_elect_advance(slot);
	}
	if (briefs[i].timer != 0 && now >= briefs[i].timer)
	{
		bool		outlasted = commit_outlasts_drain(slot);

		slot->election.timer_at = outlasted ? now + DRAIN_POLL : 0;
		note(slot);
		if (outlasted)
			le_elect_advance(slot);
		else if (slot->election.state != LE_WAITING)
			le_elect_feed(slot, LE_IN_TIMER);
		else if (le_session_live())
			look_again(slot);	/* if not, le_elect_node_live() asks again */
	}
	if (briefs[i].progress_due != 0 && now >= briefs[i].progress_due)
	{
		note(slot);
		if (briefs[i].progress_due != 0 && now >= briefs[i].progress_due)
			give_up_useless(slot);
	}
}

static void
end_hold_offs(le_time now)
{
	if (!any_pause)
		return;
	any_pause = false;
	for (int i = 0; i < le_table->nused; i++)
	{
		LeSlot	   *slot = le_slot(i);

		any_pause = any_pause || slot->hold_off_until > now ||
			slot->campaign_after > now;
		if (slot->hold_off_until != 0 && now >= slot->hold_off_until)
			slot->hold_off_until = 0;
		else if (slot->campaign_after != 0 && now >= slot->campaign_after)
			slot->campaign_after = 0;
		else
			continue;
		le_elect_advance(slot);
	}
}

void
le_elect_run_timers(void)
{
	le_time		now = le_now();
	char		why[256];
	int			sqlstate;

	if (now >= tokens_try_at)
		(void) le_elect_can_begin();
	note_tokens();
	/* A promotion comes without a message. */
	if (may_lead != le_may_lead(why, sizeof(why), &sqlstate))
		le_elect_refresh();
	if (list_by != 0 && now >= list_by)
		le_elect_listed();
	for (int i = 0; i < le_table->nused; i++)
		if (briefs[i].next != 0 && now >= briefs[i].next)
			run_slot_timer(i, now);
	end_hold_offs(now);
	for (int i = 0; i < le_table->nused; i++)
		if (briefs[i].draining)
			le_elect_advance(le_slot(i));
}

le_time
le_elect_timer(void)
{
	le_time		next = list_by;
	bool		campaigning = false;

	if (seeking.under_way || rechecking.under_way || looking.under_way)
		return le_now();

	if (le_tokens_trouble()[0] != '\0')
		next = le_earliest(next, tokens_try_at);
	for (int i = 0; i < le_table->nused; i++)
	{
		if (briefs[i].next != 0 && (next == 0 || briefs[i].next < next))
			next = briefs[i].next;
		if (briefs[i].draining)
			next = le_earliest(next, le_now() + DRAIN_POLL);
		if (any_pause)
		{
			next = le_earliest(next, le_slot(i)->hold_off_until);
			next = le_earliest(next, le_slot(i)->campaign_after);
		}
		campaigning = campaigning || briefs[i].candidate;
	}
	/* Nobody tells a worker that its standby was promoted. */
	if (campaigning && !may_lead && RecoveryInProgress())
		next = le_earliest(next, le_now() + LE_SEC);
	return next;
}

static void
seek(int number)
{
	LeSlot	   *slot = le_slot(number);

	le_elect_advance(slot);
	if (slot->election.state == LE_WAITING && !awaits_list(slot))
		le_elect_feed(slot, LE_IN_WANT);
}

/*
 * The session can carry terms now: everybody who waited for it goes ahead,
 * many candidacies when the list of keys has shown what there is to take.
 */
void
le_elect_node_live(void)
{
	int			candidates = 0;

	le_pending_session_live();
	for (int i = 0; i < le_table->nused; i++)
		candidates += briefs[i].candidate ? 1 : 0;
	list_by = 0;
	if (candidates > le_list_from &&
		le_configured_store()->watching == LE_WATCH_ALL)
		list_by = le_now() + le_table->node.timing.request_timeout;
	le_sweep_start(&seeking);
	le_sweep_go_on(&seeking);
}

/* The list has come, or cannot be had. */
void
le_elect_listed(void)
{
	if (list_by == 0)
		return;
	list_by = 0;
	le_sweep_start(&seeking);
	le_sweep_go_on(&seeking);
}

/*
 * The keys are elsewhere from here on, with tokens of their own.  No session
 * is there yet, so there is no term and nothing is under way.
 */
void
le_elect_moved(void)
{
	for (int i = 0; i < le_table->nused; i++)
	{
		LeSlot	   *slot = le_slot(i);

		slot->election.token_floor = le_token_floor(slot->name);
		slot->election.refused_until = 0;
		slot->campaign_after = 0;
		slot->refused_token = 0;
		note(slot);
	}
}

void
le_elect_node_ended(LeReason reason)
{
	forget_granted();
	list_by = 0;
	seeking.under_way = rechecking.under_way = looking.under_way = false;

	/*
	 * All belief ends before the first message about any of it is written,
	 * and those who are to stop for it know.
	 */
	for (int i = 0; i < le_table->nused; i++)
	{
		LeSlot	   *slot = le_slot(i);

		if (!briefs[i].has_term)
			continue;
		pg_atomic_write_u64(&slot->deadline, 0);
		le_bound_nudge(i, pg_atomic_read_u64(&slot->token),
					   le_owner_of(slot), false);
	}
	for (int i = 0; i < le_table->nused; i++)
	{
		LeInput		input = {.kind = LE_IN_NODE_ENDED};

		input.reason = reason;
		if (briefs[i].active)
			feed(le_slot(i), &input);
	}
}

/* The proof shows that the key is not ours any more. */
void
le_elect_not_ours(int number)
{
	LeSlot	   *slot = le_slot(number);

	le_elect_feed(slot, LE_IN_NOT_OURS);
	le_elect_advance(slot);
}

static int
pick(int i, int n, int *numbers, const char **names)
{
	for (int k = 0; k < n; k++)
		if (numbers[k] == i)
			return n;
	numbers[n] = i;
	names[n] = le_slot(i)->name;
	return n + 1;
}

/*
 * Which held keys does the next proof check?  Those that somebody asked to
 * be proven, then the others in rotation.
 */
int
le_elect_pick_held(int max, int *numbers, const char **names)
{
	static int	cursor = 0;
	int			n = 0;
	int			total = le_table->nused;

	for (int i = 0; i < total && n < max; i++)
		if (briefs[i].has_term && le_renewal_asked(i))
			n = pick(i, n, numbers, names);
	for (int k = 0; k < total && n < max; k++)
	{
		cursor = (cursor + 1) % total;
		if (briefs[cursor].has_term)
			n = pick(cursor, n, numbers, names);
	}
	return n;
}

/* A proof that was sent then covers these elections. */
void
le_elect_proved(le_time sent, const int *numbers, int n)
{
	le_pending_proved(sent, numbers, n);
	for (int i = 0; i < n; i++)
		le_elect_advance(le_slot(numbers[i]));
}

static void
asked_again(LeFlight *flight, const LeAnswer *answer)
{
	LeSlot	   *slot = le_slot(flight->slot);

	if (flight->epoch == le_table->node.epoch &&
		strcmp(slot->name, flight->op.election) == 0)
		note_error(slot, flight, answer);
}

/* Waits for another's term to end, and then could not lead itself. */
static bool
waits_in_vain(int i)
{
	const LeSlot *slot = le_slot(i);

	return briefs[i].active && slot->election.state == LE_WAITING &&
		slot->refused && slot->refused_kind == LE_OP_ACQUIRE;
}

/*
 * Once per round: who was refused an election that another leads now has no
 * reason to try again before that one is gone, and would not notice that the
 * token may write the key by now.
 */
void
le_elect_ask_refused(void)
{
	static int	cursor = 0;
	int			n = 0;

	for (int k = 0; k < le_table->nused && n < ASKED_AGAIN; k++)
	{
		LeFlight   *flight;

		cursor = (cursor + 1) % le_table->nused;
		if (!waits_in_vain(cursor))
			continue;
		flight = le_flight_without_effect(LE_OP_RELEASE,
										  le_slot(cursor)->name, asked_again);
		flight->slot = cursor;
		flight->op.local = &le_slot(cursor)->local;
		le_flight_send(flight, le_table->node.timing.request_timeout);
		n++;
	}
}

/* A proof is about every term, however many keys it names. */
void
le_elect_count_proof(le_time sent, LeOutcome outcome, bool renewed)
{
	if (le_configured_store()->key_leases)
		return;					/* it exists in name only */
	for (int i = 0; i < le_table->nused; i++)
	{
		if (!briefs[i].has_term)
			continue;
		le_stat_answer(i, sent, outcome);
		if (renewed)
			le_stat_count_slot(i, LE_STAT_RENEWALS);
	}
}

/* Does anybody lead, or seek to lead? */
bool
le_elect_need_session(void)
{

	for (int i = 0; i < le_table->nused; i++)
		if (briefs[i].active ||
			(briefs[i].candidate && sought(le_slot(i))))
			return true;
	return le_any_seeker(sought);
}

/* Is there anything whose fate the watch could tell? */
bool
le_elect_need_watch(void)
{
	if (list_by != 0)
		return true;
	for (int i = 0; i < le_table->nused; i++)
		if (briefs[i].active)
			return true;
	return false;
}

/* Is another node's term what this node waits for? */
static bool
waits_for_holder(int i)
{
	const LeSlot *slot = le_slot(i);

	return briefs[i].active && slot->election.state == LE_WAITING &&
		slot->holder_session[0] != '\0' && slot->holder_holds;
}

bool
le_elect_waits_for_holder(void)
{
	for (int i = 0; i < le_table->nused; i++)
		if (waits_for_holder(i))
			return true;
	return false;
}

/* Is anything sought that is another's, or was lately? */
bool
le_elect_any_waiting(void)
{
	for (int i = 0; i < le_table->nused; i++)
		if (briefs[i].waiting)
			return true;
	return false;
}

static void
recheck_holder(LeSlot *slot)
{
	const LeNodeInfo *holder = le_cache_node(slot->holder_session);
	LeInput		input = {.kind = LE_IN_HOLDER};

	if (!le_takes_over() || holder == NULL)
		return;
	input.silent_at = le_cache_silent_at(holder);
	if (holder->revoked)
		look_again(slot);		/* and take it */
	else
		feed(slot, &input);
}

static void
recheck(int number)
{
	LeSlot	   *slot = le_slot(number);

	if (waits_for_holder(number))
		recheck_holder(slot);
	else if (briefs[number].active && slot->election.state == LE_WAITING &&
			 slot->election.seen_index != 0)
		look_again(slot);
}

/* The node keys have news about holders that are being waited out. */
void
le_elect_recheck_waiting(void)
{
	if (le_session_live())
	{
		le_sweep_start(&rechecking);
		le_sweep_go_on(&rechecking);
	}
}

static void
look(int number)
{
	if (briefs[number].active && le_slot(number)->election.state == LE_WAITING)
		look_again(le_slot(number));
}

/*
 * All that is known of the keys is as good as new.  Looking at all that are
 * waited for at once spares a turn of the loop for each, when its time comes.
 */
void
le_elect_look(void)
{
	if (le_session_live())
	{
		le_sweep_start(&looking);
		le_sweep_go_on(&looking);
	}
}

/* Sweeps over all elections that have not come to their end. */
void
le_elect_go_on(void)
{
	le_sweep_go_on(&seeking);
	le_sweep_go_on(&rechecking);
	le_sweep_go_on(&looking);
}

/*
 * The instance shuts down: let go of everything.  Of the time that there is,
 * half is for transactions that are about to commit, and a quarter for the
 * store.
 */
void
le_elect_release_all(bool patiently)
{
	le_duration time = le_shutdown_timeout * LE_MSEC;
	le_duration patience = patiently ? time / 2 : 0;

	for (int i = 0; i < le_table->nused; i++)
	{
		le_slot(i)->hold_off_until = le_now() + 3600 * LE_SEC;
		if (briefs[i].has_term)
			drain(le_slot(i), patience, time / 4);
		else if (briefs[i].active)
			le_elect_feed(le_slot(i), LE_IN_UNWANT);
	}
}

bool
le_elect_all_released(void)
{
	for (int i = 0; i < le_table->nused; i++)
		if (briefs[i].active)
			return false;
	return true;
}
