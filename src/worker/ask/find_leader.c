/*-------------------------------------------------------------------------
 *
 * find_leader.c
 *		le_current_leader(): who leads?
 *
 * If the caller allows for some age, the keys that the watch has seen give the
 * answer, else a linearizable read.
 *
 * src/worker/ask/find_leader.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "settings.h"
#include "shmem/clock.h"
#include "shmem/requests.h"
#include "worker/ask/find_leader.h"
#include "worker/lead/term.h"
#include "worker/view/cache.h"
#include "worker/view/eligible.h"
#include "worker/view/key_view.h"
#include "worker/wire/dispatch.h"

/* When the request's turn comes: does the backend still wait? */
static bool
still_asked(LeWorker *w, LeFlight *flight)
{
	const LePending *p = le_pending_find(w, flight->asker.number,
										 flight->asker.proc);

	return p != NULL && le_still_asked(p->proc, p->number);
}

static void
session_named(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LePending  *p = le_pending_find(w, flight->asker.number,
									flight->asker.proc);
	LeReply		r = {0};

	if (p == NULL)
		return;
	r.kind = LE_REPLY_TRUE;
	r.has_leader = true;
	r.observed = le_wall(flight->sent);
	if (answer->outcome == LE_DONE && answer->name != NULL &&
		answer->name[0] != '\0')
		strlcpy(r.leader, answer->name, sizeof(r.leader));
	else
		snprintf(r.leader, sizeof(r.leader), "session:%s", flight->op.session);
	(void) le_pending_answer(p, &r);
}

static void
fill_leader(LeReply *r, const LeKey *key, const char *election)
{
	LeSlot	   *slot = le_find_slot(election);

	r->has_leader = true;
	strlcpy(r->leader, key->node, sizeof(r->leader));
	r->leader_token = key->token;
	r->is_self = strcmp(key->holder, le_table->session) == 0 &&
		slot != NULL && le_election_has_term(&slot->election);
	if (key->value != NULL)
	{
		r->has_value = true;
		strlcpy(r->value, key->value, sizeof(r->value));
	}
}

static void
leader_read(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LePending  *p = le_pending_find(w, flight->asker.number,
									flight->asker.proc);
	const LeKey *key = answer->nkeys > 0 ? &answer->keys[0] : NULL;
	LeReply		r = {0};

	if (p == NULL)
		return;
	if (answer->outcome != LE_DONE)
	{
		le_contest(p)->unsent = answer->unsent;
		le_reply_outcome(w, p, answer->outcome);
		return;
	}
	if (key != NULL && key->holder != NULL && le_foreign_key(key))
	{
		LeFlight   *next = le_flight_new(LE_OP_SESSION_NAME, session_named);

		next->op.session = le_flight_string(next, key->holder);
		next->asker = flight->asker;
		next->wanted = still_asked;
		le_flight_send(w, next, le_table->node.timing.request_timeout);
		return;
	}
	r.kind = LE_REPLY_TRUE;
	r.observed = le_wall(flight->sent);
	/* A key without a name: the holder has still to write that. */
	if (key != NULL && key->holder != NULL && key->node[0] != '\0')
		fill_leader(&r, key, p->ask.election);
	(void) le_pending_answer(p, &r);
}

/* With the local store this node's own table is the whole truth. */
static void
answer_local_leader(LePending *p)
{
	LeSlot	   *slot = le_find_slot(p->ask.election);
	LeReply		r = {0};

	r.kind = LE_REPLY_TRUE;
	r.observed = GetCurrentTimestamp();
	if (slot != NULL && le_election_has_term(&slot->election) &&
		!le_term_abandoned(slot))
	{
		r.has_leader = r.is_self = true;
		r.leader_token = slot->election.token;
		strlcpy(r.leader, le_my_name(), sizeof(r.leader));
		r.has_value = slot->has_value;
		strlcpy(r.value, slot->value, sizeof(r.value));
	}
	(void) le_pending_answer(p, &r);
}

/* Answer by the keys that the watch has seen, if fresh and complete. */
static bool
answer_from_watch(LeWorker *w, LePending *p)
{
	le_time		fresh = le_cache_as_of(w->cache);
	const LeKey *key;
	LeReply		r = {0};

	if (fresh == 0 || le_now() - fresh > p->ask.max_staleness)
		return false;
	key = le_cache_key(w->cache, p->ask.election);
	if (key != NULL && key->holder != NULL &&
		(key->told || le_foreign_key(key)))
		return false;			/* ask for its value, or its session's name */
	r.kind = LE_REPLY_TRUE;
	r.observed = le_wall(fresh);
	if (key != NULL && key->holder != NULL)
		fill_leader(&r, key, p->ask.election);
	(void) le_pending_answer(p, &r);
	return true;
}

void
le_ask_leader(LeWorker *w, LePending *p)
{
	LeFlight   *flight;
	char		message[256];

	/* The wrong store or prefix would say that nobody leads. */
	if (le_settings_fault()[0] != '\0')
	{
		snprintf(message, sizeof(message),
				 "could not find out who leads election \"%s\"",
				 p->ask.election);
		le_reply_error(p, LE_ERRCODE_REFUSED, message, le_settings_fault(), "");
		return;
	}
	if (!le_configured_store()->between_instances)
	{
		answer_local_leader(p);
		return;
	}
	if (answer_from_watch(w, p))
		return;
	flight = le_flight_new(LE_OP_READ, leader_read);
	flight->op.election = le_flight_string(flight, p->ask.election);
	flight->op.for_people = true;
	flight->asker.proc = p->proc;
	flight->asker.number = p->number;
	flight->wanted = still_asked;
	flight->lane = LE_LANE_READ;
	le_flight_send(w, flight, le_table->node.timing.request_timeout);
}
