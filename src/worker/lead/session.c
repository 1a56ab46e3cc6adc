/*-------------------------------------------------------------------------
 *
 * session.c
 *		The node's store session: between core/node.h and the store.
 *
 * core/node.c decides; this file sends its requests, feeds it the answers, and
 * passes the results on to the elections.
 *
 * src/worker/lead/session.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "compat.h"
#include "settings.h"
#include "worker/base/trace.h"
#include "worker/disk/statefile.h"
#include "worker/lead/candidacy.h"
#include "worker/lead/elect.h"
#include "worker/lead/elect_all.h"
#include "worker/lead/elect_timers.h"
#include "worker/lead/key_op.h"
#include "worker/lead/pending.h"
#include "worker/lead/session.h"
#include "worker/view/cache.h"
#include "worker/view/clones.h"
#include "worker/view/wishes.h"
#include "worker/wire/dispatch.h"

/* A session that no election needs is kept this long for the next one. */
#define LINGER	(60 * LE_SEC)

struct LeStoreSession
{
	LeNode	   *node;
	le_time		registered_sent;	/* the last registration, */
	uint64		registered_index;	/* and its index */
	le_time		idle_since;
	bool		settings_new;	/* The session may have been made under other
								 * settings, and the worker before may have
								 * ended without comparing them. */
};

static void perform(LeWorker *w, const LeNodeActions *act);
static void keys_listed(LeWorker *w, LeFlight *flight, const LeAnswer *answer);

static void
feed(LeWorker *w, LeNodeInput *input)
{
	LeStoreSession *session = w->session;

	LeNode		before PG_USED_FOR_ASSERTS_ONLY = *session->node;
	LeNodeActions act;

	input->now = le_now();
	input->random = le_random();
	le_assert_holds(le_node_sound(session->node));
	le_assert_holds(le_node_contract(session->node, input));
	act = le_node_input(session->node, input);
	le_trace_node(&before, input, &act);
	le_assert_holds(le_node_check(&before, input, session->node, &act));
	perform(w, &act);
}

static void
feed_kind(LeWorker *w, LeNodeInputKind kind)
{
	LeNodeInput input = {.kind = kind};

	feed(w, &input);
}

/* An answer to a request of an earlier session says nothing about this one. */
static bool
stale(LeWorker *w, const LeFlight *flight)
{
	return flight->epoch != w->session->node->epoch;
}

/* ---- answers ---- */

static void
step_answered(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeNodeInput input = {.kind = LE_NODE_IN_DONE};

	if (stale(w, flight))
		return;
	input.sent = flight->sent;
	input.index = answer->index;
	input.outcome = answer->outcome;
	if (answer->outcome != LE_DONE)
		input.kind = LE_NODE_IN_FAILED;
	feed(w, &input);
}

/* The session is written down before it can hold anything. */
static void
remember_session(LeWorker *w, const char *session)
{
	LePredecessor mine = {0};

	strlcpy(le_table->session, session, sizeof(le_table->session));
	strlcpy(le_table->session_incarnation, le_table->incarnation,
			sizeof(le_table->session_incarnation));
	if (!le_configured_store()->between_instances)
		return;
	strlcpy(mine.session, session, sizeof(mine.session));
	strlcpy(mine.incarnation, le_table->incarnation, sizeof(mine.incarnation));
	mine.namespace = le_table->namespace;
	mine.lease = w->session->node->timing.lease;
	le_statefile_write(w->statefile, &mine);
}

static void
session_created(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	if (stale(w, flight))
		return;
	if (answer->outcome == LE_DONE)
		remember_session(w, answer->session);
	step_answered(w, flight, answer);
}

/* The session is as asked for; the namespace must be, too. */
static void
session_verified(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	if (stale(w, flight))
		return;
	if (answer->outcome == LE_DONE)
		le_flight_send(w, le_flight_new(LE_OP_CHECK_PREFIX, step_answered),
					   w->session->node->timing.request_timeout);
	else
		step_answered(w, flight, answer);
}

/*
 * The instances that were there before.  An answer that they are not to be
 * seen is the store's last word: takeovers do without them, too.
 */
static void
others_listed(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeStoreSession *session = w->session;
	LeNodeInput input = {.kind = LE_NODE_IN_DONE, .outcome = LE_DONE};

	if (stale(w, flight))
		return;
	if (answer->outcome != LE_DONE && answer->outcome != LE_REFUSED)
	{
		step_answered(w, flight, answer);
		return;
	}
	if (answer->outcome == LE_DONE)
	{
		le_cache_keep_nodes(w->cache, answer);
		if (le_clones_judge(w))
			le_elect_refresh(w);
	}
	input.sent = session->registered_sent;
	input.index = session->registered_index;
	feed(w, &input);
}

/*
 * An instance whose original lives must not acquire anything.  So one that
 * tells its system identifiers looks who is there before its session is live:
 * of two that join at the same time, the later one then sees the other.
 */
static void
node_registered(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeStoreSession *session = w->session;
	LeFlight   *next;

	if (stale(w, flight))
		return;
	if (answer->outcome == LE_DONE && le_configured_store()->has_sessions)
		le_clones_joined(answer->index);
	if (answer->outcome != LE_DONE || flight->op.proof.systems.ids[0] == 0 ||
		!le_configured_store()->has_sessions)
	{
		step_answered(w, flight, answer);
		return;
	}
	session->registered_sent = flight->sent;
	session->registered_index = answer->index;
	next = le_flight_new(LE_OP_LIST_NODES, others_listed);
	next->op.fresh = true;
	next->lane = LE_LANE_LIFE;
	le_flight_send(w, next, session->node->timing.request_timeout);
}

static void
renewal_answered(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeNodeInput input = {.kind = LE_NODE_IN_RENEWED};

	if (stale(w, flight))
		return;
	input.sent = flight->sent;
	input.outcome = answer->outcome;
	if (answer->outcome != LE_DONE)
		input.kind = LE_NODE_IN_RENEW_FAILED;
	feed(w, &input);
}

static void
proof_answered(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeStoreSession *session = w->session;
	LeNodeInput input = {.kind = LE_NODE_IN_PROVED};
	uint64		before = session->node->proof_index;

	if (stale(w, flight))
		return;
	input.sent = flight->sent;
	input.index = answer->index;
	input.outcome = answer->outcome;
	if (answer->outcome != LE_DONE)
		input.kind = LE_NODE_IN_PROOF_FAILED;
	le_elect_count_proof(w, flight->sent, answer->outcome,
						 answer->outcome == LE_DONE &&
						 answer->index > before);
	/*
	 * The lost keys go first, so that the next proof is made without them.
	 * The proof is not about terms that began since.
	 */
	for (int i = 0; i < answer->nlost; i++)
	{
		int			lost = answer->lost[i];
		int			slot = flight->held_slots[lost];

		if (le_slot(slot)->election.token == flight->held_tokens[lost])
			le_elect_not_ours(w, slot);
	}
	feed(w, &input);
	if (answer->outcome != LE_DONE || session->node->proof_index <= before)
		return;
	if (!le_configured_store()->key_leases) /* else it exists in name only */
		le_elect_proved(w, flight->sent, flight->held_slots,
						flight->op.proof.nheld);
	le_ask_refused_again(w);
}

static bool
is_session(const char *a, const char *b)
{
	return a != NULL && strcmp(a, b) == 0;
}

static void
unlock_answered(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	le_trace_unlocked(flight->op.election, flight->op.index, answer->outcome,
					  answer->index);
	if (!stale(w, flight))
		feed_kind(w, LE_NODE_IN_UNLOCKED);
}

/*
 * Release a key that the ending session holds, in the name of the node that
 * holds it, and marked as released: its belief is known to be over.
 */
static void
unlock(LeWorker *w, const LeKey *key)
{
	LeFlight   *flight = le_flight_new(LE_OP_RELEASE, unlock_answered);

	flight->op.election = le_flight_string(flight, key->election);
	flight->op.index = key->index;
	flight->op.term.rev = key->rev;
	flight->op.value = le_flight_string(flight, key->value);
	if (key->node != NULL)
		flight->op.node_name = le_flight_string(flight, key->node);
	le_trace_unlock(flight->op.election, flight->op.index);
	le_flight_send(w, flight, w->session->node->timing.request_timeout);
}

static LeKey *
copy_key(const LeKey *key)
{
	LeKey	   *copy = palloc(sizeof(LeKey));

	le_copy_key(copy, key);
	return copy;
}

/* The keys that the ending session holds: those known and the answer's. */
static List *
keep_held(const List *known, const LeAnswer *answer)
{
	List	   *held = NIL;
	ListCell   *cell;

	foreach(cell, known)
		held = lappend(held, copy_key(lfirst(cell)));
	for (int i = 0; i < answer->nkeys; i++)
		if (is_session(answer->keys[i].holder, le_table->session))
			held = lappend(held, copy_key(&answer->keys[i]));
	return held;
}

/*
 * A list may come in several pages.  Keys of earlier pages are released with
 * those of the last, since only the whole list can say that none is held.
 */
static bool
next_page(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeFlight   *next;
	MemoryContext old;

	if (answer->page == NULL)
		return false;
	next = le_flight_new(LE_OP_LIST_HELD, keys_listed);
	next->op.page = le_flight_string(next, answer->page);
	next->early = flight->early;
	old = MemoryContextSwitchTo(next->context);
	next->earlier = keep_held(flight->earlier, answer);
	MemoryContextSwitchTo(old);
	le_flight_send(w, next, w->session->node->timing.request_timeout);
	return true;
}

static void
keys_listed(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeNodeInput input = {.kind = LE_NODE_IN_LISTED};
	List	   *held;
	ListCell   *cell;

	if (stale(w, flight))
		return;
	if (answer->outcome != LE_DONE)
	{
		step_answered(w, flight, answer);
		return;
	}
	if (next_page(w, flight, answer))
		return;
	for (int i = 0; i < answer->nkeys; i++)
	{
		const LeKey *key = &answer->keys[i];

		if (key->holder == NULL && !key->released &&
			is_session(key->value_session, le_table->session))
			input.named++;
	}
	held = keep_held(flight->earlier, answer);
	input.held = list_length(held);
	input.early = flight->early;
	feed(w, &input);
	foreach(cell, held)
		unlock(w, lfirst(cell));
}

/* ---- requests ---- */

/* The node key's fields about this node's fitness. */
static void
add_fitness(LeWorker *w, LeFlight *flight)
{
	(void) le_note_fitness(w, false);
	if (le_table->unfit[0] != '\0')
		flight->op.proof.unfit = le_flight_string(flight, le_table->unfit);
	if (le_table->shows_systems)
		flight->op.proof.systems = le_table->systems;
	flight->op.proof.since = le_table->since;
}

static void
send_step(LeWorker *w, LeOpKind kind,
		  LeFlightDone done, le_duration timeout)
{
	LeFlight   *flight = le_flight_new(kind, done);

	flight->op.proof.seq = w->session->node->seq;
	if (kind == LE_OP_REGISTER_NODE)
		add_fitness(w, flight);
	if (kind == LE_OP_LIST_HELD)
		flight->early = le_flights_acquire(w);
	if (kind == LE_OP_REVOKE_NODE)
		flight->op.incarnation = le_table->session_incarnation;
	le_flight_send(w, flight, timeout);
}

static void
send_proof(LeWorker *w, le_duration timeout)
{
	LeFlight   *flight = le_flight_new(LE_OP_PROVE_NODE, proof_answered);
	const char **names;

	names = MemoryContextAlloc(flight->context,
							   LE_MAX_CHECKED_KEYS * sizeof(char *));
	flight->held_slots = MemoryContextAlloc(flight->context,
											LE_MAX_CHECKED_KEYS * sizeof(int));
	flight->held_tokens = MemoryContextAlloc(flight->context,
											 LE_MAX_CHECKED_KEYS *
											 sizeof(uint64));
	flight->op.proof.nheld = le_elect_pick_held(w, LE_MAX_CHECKED_KEYS,
												flight->held_slots, names);
	for (int i = 0; i < flight->op.proof.nheld; i++)
	{
		names[i] = le_flight_string(flight, names[i]);
		flight->held_tokens[i] =
			le_slot(flight->held_slots[i])->election.token;
	}
	flight->op.proof.held = names;
	flight->op.proof.seq = w->session->node->seq;
	add_fitness(w, flight);
	le_flight_send(w, flight, timeout);
}

static void
send_requests(LeWorker *w, const LeNodeActions *act)
{
	static const struct
	{
		unsigned	bit;
		LeOpKind	kind;
		LeFlightDone done;
	}			steps[] = {
		{LE_NODE_SEND_CREATE, LE_OP_CREATE_SESSION, session_created},
		{LE_NODE_SEND_VERIFY, LE_OP_VERIFY_SESSION, session_verified},
		{LE_NODE_SEND_REGISTER, LE_OP_REGISTER_NODE, node_registered},
		{LE_NODE_SEND_RENEW, LE_OP_RENEW_SESSION, renewal_answered},
		{LE_NODE_SEND_LIST, LE_OP_LIST_HELD, keys_listed},
		{LE_NODE_SEND_DESTROY, LE_OP_DESTROY_SESSION, step_answered},
		{LE_NODE_SEND_REVOKE, LE_OP_REVOKE_NODE, step_answered},
		{LE_NODE_SEND_FORGET, LE_OP_FORGET_NODE, step_answered},
	};

	for (int i = 0; i < (int) lengthof(steps); i++)
		if (act->send & steps[i].bit)
			send_step(w, steps[i].kind, steps[i].done, act->timeout);
	if (act->send & LE_NODE_SEND_PROOF)
		send_proof(w, act->timeout);
}

static void
session_over(void)
{
	if (le_table->session[0] == '\0')
		return;
	strlcpy(le_table->previous, le_table->session,
			sizeof(le_table->previous));
	le_table->session[0] = '\0';
	if (le_configured_store()->between_instances)
		le_statefile_remove();
}

static LeNamespace
configured_namespace(void)
{
	LeNamespace		ns = {0};

	if (le_configured_store()->settings.namespace != NULL)
		le_configured_store()->settings.namespace(&ns);
	return ns;
}

static bool
namespace_changed(void)
{
	LeNamespace		ns = configured_namespace();

	return strcmp(le_table->namespace.prefix, ns.prefix) != 0 ||
		strcmp(le_table->namespace.part, ns.part) != 0;
}

/*
 * Adopt the lease of the next session, and its namespace.  A session
 * that has been asked for already keeps its namespace.
 */
static void
adopt_settings(LeWorker *w, bool creating)
{
	LeStoreSession *session = w->session;
	LeTiming	timing;

	le_configured_timing(&timing);
	le_node_set_timing(session->node, &timing);
	if (session->node->state != LE_NODE_NONE && !creating)
		return;
	if (!namespace_changed())
		return;
	le_cache_begin_anew(w);
	le_table->namespace = configured_namespace();
	le_elect_moved(w);
}

/*
 * Belief first: its end, or a moved deadline.  Then requests, then elections
 * and questions that wait for the session.
 */
static void
perform(LeWorker *w, const LeNodeActions *act)
{
	LeStoreSession *session = w->session;

	if (act->terms_end)
		le_elect_node_ended(w, act->reason);
	else if (act->deadline_moved)
		le_elect_deadline(w, session->node->deadline);
	if (act->ended)
		session_over();
	if (act->ended || (act->send & LE_NODE_SEND_CREATE))
		adopt_settings(w, (act->send & LE_NODE_SEND_CREATE) != 0);
	send_requests(w, act);
	if (act->became_live)
		le_elect_node_live(w);
	if (act->failed && session->node->state != LE_NODE_LIVE)
	{
		(void) le_note_fitness(w, act->outcome == LE_REFUSED);
		le_pending_no_session(w, act->outcome);
	}
}

/* ---- the rest of the worker calls these ---- */

/*
 * The first worker of an incarnation looks for its predecessor's session; a
 * later one resumes the session of the worker before it.
 */
void
le_session_start(LeWorker *w)
{
	LeStoreSession *session = MemoryContextAllocZero(TopMemoryContext,
													 sizeof(LeStoreSession));
	LePredecessor before;
	LeNode		found PG_USED_FOR_ASSERTS_ONLY = le_table->node;

	session->node = &le_table->node;
	session->settings_new = true;
	w->session = session;
	le_trace_worker();
	if (le_table->worker_started)
	{
		le_node_resume(session->node, le_now());
		le_trace_node(&found, NULL, NULL);
		return;
	}
	le_table->worker_started = true;
	adopt_settings(w, false);
	if (le_configured_store()->between_instances &&
		le_statefile_read(&before))
	{
		LeTiming	timing;

		le_configured_timing(&timing);
		timing.lease = before.lease;
		le_store_limits(le_configured_store(), &timing);
		strlcpy(le_table->session, before.session, sizeof(le_table->session));
		strlcpy(le_table->session_incarnation, before.incarnation,
				sizeof(le_table->session_incarnation));
		le_table->namespace = before.namespace;
		ereport(LOG,
				(errmsg("ending the leases of this node's previous incarnation"),
				 errdetail("Store session %s at %s.", before.session,
						   le_store_address(w))));
		le_node_adopt_predecessor(session->node, &timing, le_now());
		le_trace_node(&found, NULL, NULL);
	}
}

static bool
lease_or_namespace_changed(LeWorker *w)
{
	LeTiming	timing;

	le_configured_timing(&timing);
	return timing.lease != w->session->node->timing.lease ||
		namespace_changed();
}

/*
 * After a reload.  A session keeps its lease and its namespace for life, so a
 * change of those ends it: the node releases everything, and acquires anew the
 * elections that it still wants.  Other settings take effect from the next
 * round on.  While a session is being made, all of it waits until it is.
 */
static void
apply_settings(LeWorker *w)
{
	LeStoreSession *session = w->session;
	LeTiming	timing;

	if (!session->settings_new || session->node->state == LE_NODE_CREATING ||
		session->node->state == LE_NODE_VERIFYING ||
		session->node->state == LE_NODE_REGISTERING)
		return;
	session->settings_new = false;
	if (session->node->state == LE_NODE_NONE)
		return;
	if (lease_or_namespace_changed(w))
	{
		if (session->node->state == LE_NODE_LIVE)
		{
			ereport(LOG,
					(errmsg("leader_election settings changed: starting a new store session")));
			feed_kind(w, LE_NODE_IN_UNWANT);
		}
		return;
	}
	le_configured_timing(&timing);
	if (le_timing_fault(&timing) == LE_TIMING_OK)
		session->node->timing = timing;
}

void
le_session_configure(LeWorker *w)
{
	adopt_settings(w, false);
	w->session->settings_new = true;
	apply_settings(w);
}

void
le_session_unwant(LeWorker *w)
{
	LeStoreSession *session = w->session;

	session->idle_since = 0;
	if (session->node->wanted || session->node->state == LE_NODE_LIVE)
		feed_kind(w, LE_NODE_IN_UNWANT);
}

static void
want_session(LeWorker *w)
{
	LeStoreSession *session = w->session;

	session->idle_since = 0;
	if (!session->node->wanted)
	{
		adopt_settings(w, false);
		feed_kind(w, LE_NODE_IN_WANT);
	}
}

/* The wishes of this turn's elections and questions. */
static void
hear_wishes(LeWorker *w)
{
	if (le_take_session_wish(w->wishes))
		want_session(w);
	if (le_take_proof_wish(w->wishes))
		feed_kind(w, LE_NODE_IN_PROVE_NOW);
}

static void
leave_if_idle(LeWorker *w)
{
	LeStoreSession *session = w->session;

	if (le_elect_need_session(w))
		want_session(w);
	else if (!session->node->wanted)
		session->idle_since = 0;
	else if (session->idle_since == 0)
		session->idle_since = le_now();
	else if (le_now() >= session->idle_since + LINGER)
		le_session_unwant(w);
}

static void
run_node_timer(LeWorker *w)
{
	le_time		timer = le_node_timer(w->session->node);

	if (timer != 0 && le_now() >= timer)
		feed_kind(w, LE_NODE_IN_TIMER);
}

void
le_session_run_timers(LeWorker *w)
{
	apply_settings(w);
	hear_wishes(w);
	leave_if_idle(w);
	run_node_timer(w);
}

/*
 * The instance leaves: its session is no longer wanted, whatever else is so.
 * A clone wants one to be seen, and would leave another behind.
 */
void
le_session_leave(LeWorker *w)
{
	run_node_timer(w);
}

le_time
le_session_timer(LeWorker *w)
{
	LeStoreSession *session = w->session;
	le_time		linger = session->idle_since == 0 ? 0 :
		session->idle_since + LINGER;

	return le_earliest(le_node_timer(session->node), linger);
}
