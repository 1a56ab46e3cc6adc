/*-------------------------------------------------------------------------
 *
 * checks.c
 *		Invariants, checked at every step.
 *
 * Beliefs are read as a backend's check reads them, from the lease table and
 * the node's clock, at the instant of the step; the terms of all nodes are
 * compared with the true keys of the store.
 *
 * test/sim/checks.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include "settings.h"

/* Turns of the worker that a shutdown may take beyond its time. */
#define SHUT_DOWN_SLACK (LE_SEC / 10)

/*
 * Index of the key at the session's last acquire, and at the one before; and
 * whether it was then overwritten by hand, which leaves the key with its
 * holder.
 */
static uint64 granted[MAX_SESSIONS][MAX_ELECTIONS];
static uint64 granted_before[MAX_SESSIONS][MAX_ELECTIONS];
static bool overwritten[MAX_SESSIONS][MAX_ELECTIONS];
static bool anew[MAX_ELECTIONS];	/* tokens begin with the next term */

void
sim_fail(const char *format,...)
{
	va_list		args;

	if (sim.failed)
		return;
	sim.failed = true;
	va_start(args, format);
	pg_vsnprintf(sim.failure, sizeof(sim.failure), format, args);
	va_end(args);
	trace(NULL, "FAILED: %s", sim.failure);
}

void
check_reset(void)
{
	sim.failed = false;
	sim.digest = 0;
	memset(granted, 0, sizeof(granted));
	memset(granted_before, 0, sizeof(granted_before));
	memset(overwritten, 0, sizeof(overwritten));
	claims_reset();
	memset(sim.last_token, 0, sizeof(sim.last_token));
	memset(sim.forgotten, 0, sizeof(sim.forgotten));
	sim.restored = false;
	memset(anew, 0, sizeof(anew));
	memset(sim.released, 0, sizeof(sim.released));
	memset(sim.outside_until, 0, sizeof(sim.outside_until));
	memset(sim.leaderless, 0, sizeof(sim.leaderless));
	memset(sim.free_since, 0, sizeof(sim.free_since));
	memset(sim.free_until, 0, sizeof(sim.free_until));
}

/* As le_read_term() and its callers. */
static bool
believes_slot(const SimNode *n, LeSlot *slot)
{
	LeOwner		owner = le_owner_of(slot);
	uint64		token = pg_atomic_read_u64(&slot->term.token);

	if ((pg_atomic_read_u64(&slot->term.version) & 1) || token == 0 ||
		pg_atomic_read_u64(&slot->term.given_up) == token)
		return false;
	if (clock_boot(n, sim.now) >=
		(le_time) pg_atomic_read_u64(&slot->term.deadline))
		return false;
	return owner == LE_OWNER_NODE ||
		(owner != LE_OWNER_NONE &&
		 n->backends[slot->owner_proc].owner == (owner & ~LE_OWNER_XACT));
}

bool
check_believes(const SimNode *n, int election)
{
	LeSlot	   *slot;

	if (!n->up || n->term[election] == 0)
		return false;
	slot = node_slot((SimNode *) n, election);
	return slot != NULL && believes_slot(n, slot);
}

int
check_leader(int election)
{
	for (int i = 0; i < sim.nnodes; i++)
		if (check_believes(sim.node[i], election))
			return i;
	return -1;
}

bool
check_outside(int election)
{
	return sim.schedule->beyond || sim.now < sim.outside_until[election];
}

/*
 * An operator broke the rules by hand: exempt until every earlier belief is
 * over (the longest lease is 60 s).
 */
void
check_allow_overlap(int election)
{
	sim.outside_until[election] = sim.now + 61 * LE_SEC;
	traces_deed(election, "two may believe");
}

/*
 * The key was deleted by hand, and its tokens begin anew: with the next term,
 * however late, and also for a node that had the same token before.
 */
void
check_begins_anew(int election)
{
	sim.last_token[election] = sim.released[election] = 0;
	sim.forgotten[election] = true;
	anew[election] = true;
	traces_deed(election, "tokens begin anew");
	for (int i = 0; i < sim.nnodes; i++)
		if (!check_believes(sim.node[i], election))
			sim.node[i]->term_believed[election] = 0;
}

/* Only the store's word gives a session up. */
static void
check_gone(SimNode *n, const LeNode *node, int session)
{
	if (node->gone && !n->gone && !node->destroyed && n->told_lost != session)
		sim_fail("n%d gives up session %d, of which the store said nothing",
				 n->number, session);
	n->gone = node->gone;
}

/*
 * Older facts about other nodes never replace newer ones.  A node that is
 * missing in between is new; what a worker that stops in its turn showed
 * before, nobody has seen.
 */
static void
check_knowledge(SimNode *n, LeTable *t)
{
	uint64		version = pg_atomic_read_u64(&t->nodes_version);

	if (version == n->nodes_version)
		return;
	n->look += version - n->nodes_version > 2 ? 2 : 1;	/* a change adds 2 */
	n->nodes_version = version;
	if (t->clone_of[0] != '\0')
		sim_fail("n%d, which has no copy, takes itself for one", n->number);
	for (int i = 0; i < t->nnodes; i++)
	{
		int			session = session_of_name(t->nodes[i].session);

		if (t->nodes[i].index < n->node_index[session] &&
			n->node_look[session] == n->look - 1)
			sim_fail("n%d goes back from index " UINT64_FORMAT " to "
					 UINT64_FORMAT " of the node key of session %d",
					 n->number, n->node_index[session], t->nodes[i].index,
					 session);
		n->node_index[session] = t->nodes[i].index;
		n->node_look[session] = n->look;
	}
}

/* Unless the store lost data, none of its tokens is too low. */
static void
check_refused(const SimNode *n, const LeSlot *slot, int election)
{
	if (slot->election.refused_until != 0 && !sim.forgotten[election])
		sim_fail("n%d refuses a token of e%d, which never went back",
				 n->number, election);
}

/* A proof concerns the credible terms, and fails for no other. */
void
check_proof(SimNode *n, const Request *r)
{
	for (int i = 0; r->kind == LE_OP_PROVE_NODE && i < r->nsteps; i++)
	{
		int			e = r->steps[i].key;

		if (r->steps[i].role == LE_CONSUL_HELD &&
			pg_atomic_read_u64(&node_slot(n, e)->term.token) == 0)
			sim_fail("n%d proves e%d, of which it shows no term", n->number, e);
	}
}

/* Only a loss in the store makes a node give a key up. */
static void
check_reason(const SimNode *n, int election, const LeSlot *slot)
{
	if (slot->view.last_reason == LE_REASON_KEY_LOST &&
		!check_outside(election) && sim.model->safe != NULL &&
		!sim.model->ran_out(election, n->term[election]) &&
		sim.model->safe(n->term_session[election], election,
						n->term[election]))
		sim_fail("n%d gives up its term of e%d with token " UINT64_FORMAT
				 ", which the store has not lost", n->number, election,
				 n->term[election]);
}

/* After a turn of the worker: terms in its table now. */
void
check_terms(SimNode *n)
{
	LeTable    *t = node_table(n);
	int			session;

	if (!n->up)
		return;
	session = session_of_name(t->session);
	check_gone(n, &t->node, session);
	check_knowledge(n, t);
	for (int e = 0; e < sim.nelections; e++)
	{
		LeSlot	   *slot = node_slot(n, e);
		uint64		token;

		if (slot == NULL)
			continue;
		check_refused(n, slot, e);
		transactions_note_drain(n, e, slot);
		transactions_told(n, le_slot_number(slot), slot);
		token = pg_atomic_read_u64(&slot->term.token);
		if (pg_atomic_read_u64(&slot->term.deadline) != 0)
			n->deadline[e] =
				(le_time) pg_atomic_read_u64(&slot->term.deadline);
		if ((pg_atomic_read_u64(&slot->term.version) & 1) ||
			pg_atomic_read_u64(&slot->term.deadline) == 0)
			token = 0;
		if (n->ends[e] && pg_atomic_read_u64(&slot->term.token) == 0)
			progress_term_ends(n, e, slot);
		if (token == n->term[e])
			continue;
		trace(n, token != 0 ? "* leads e%d with token " UINT64_FORMAT :
			  "* leads e%d no more", e, token);
		if (token == 0)
			check_reason(n, e, slot);
		if (n->term[e] != 0)
			progress_term_ends(n, e, slot);
		n->term[e] = token;
		n->term_session[e] = session;
		if (token == 0)
			continue;
		progress_term_begins(n, e);
		sim.counts.terms++;
		if (token == n->took[e])
			n->took[e] = 0;		/* a client was told of it */
		if (sim.model->key(e)->session == session)
			n->lost_at[e] = 0;	/* an earlier term */
	}
	if (session != 0 && session != n->session)
	{
		n->session = session;
		n->margin = t->node.timing.margin;
		memset(n->lost_at, 0, sizeof(n->lost_at));
	}
	n->margin = Min(n->margin, t->node.timing.margin);
}

/* Each backend counts its own questions, below 1,000. */
static uint64
question_of(const Backend *b, int proc)
{
	return b->number + 1000 * (uint64) proc;
}

/*
 * The backend whose question it is for, if any.  A request for a canceled
 * question may be sent after the backend has asked again; the worker, which
 * stood still, does not know that new question yet.
 */
static void
note_acquire(SimNode *n, int election, int session)
{
	const LeSlot *slot = node_slot(n, election);
	const Backend *b = &n->backends[slot->candidate.proc];

	n->asked_in[election] = session;

	/* a repeated one may have no question, and another backend its proc */
	n->asked_for[election] =
		slot->candidate.pid == 0 || b->state != ASK_TAKEN ||
		b->ask.owner != slot->candidate.owner ? 0 :
		question_of(b, slot->candidate.proc);
}

static void
note_taken(int owner, int election, int session, uint64 index)
{
	SimNode    *n = owner < 0 ? NULL : sim.node[owner];

	/* one of two copies may be certainly refused, and the other applied */
	if (n == NULL || !n->up || sim.travel.copied)
		return;
	/* a late request of the node's previous session has no question */
	if (session != n->asked_in[election])
		return;
	n->took_at[election] = sim.now;
	n->took[election] = index;
	n->took_for[election] = n->asked_for[election];
	n->took_by[election] = sim.travel.sent;
}

/*
 * A session (0: the store or an operator) wrote a key, and perhaps took it
 * from its holder.
 */
void
check_write(int session, int election, const Key *before, const Key *after)
{
	int			owner = sim.model->owner(after->session);
	SimNode    *n;

	if (session == 0)
		overwritten[after->session][election] = true;
	else if (after->session == session && before->session != session)
	{
		granted_before[session][election] = granted[session][election];
		granted[session][election] = after->index;
		note_taken(owner, election, session, after->index);
	}

	if (session != 0 && before->session == session && after->session == 0)
		sim.released[election] = before->value.token != 0 ?
			before->value.token : before->index;

	/* may come back: a copy of its acquire, after a deletion by hand */
	if (owner >= 0 && sim.node[owner]->session == after->session)
		sim.node[owner]->lost_at[election] = 0;
	owner = sim.model->owner(before->session);
	if (before->session == 0 || owner < 0)
		return;
	n = sim.node[owner];
	if (after->session == before->session && after->exists && after->usable)
		return;
	if (check_believes(n, election) &&
		n->term_session[election] == before->session)
	{
		if (session != 0 && !check_outside(election))
			sim_fail("e%d was taken from n%d, which believes in its term "
					 "with token " UINT64_FORMAT ", by a message of session %d",
					 election, owner, n->term[election], session);
	}
	else if (session == 0 && sim.model->lives(before->session))
	{
		n->lost_at[election] = 0;	/* by hand, before there was a term */
		return;
	}
	if (after->session != before->session && n->session == before->session)
	{
		n->lost_at[election] = clock_boot(n, sim.now);
		n->lost_lease[election] =
			sim.model->lease(before->session) - n->margin;
	}
}

/*
 * A term that is over is not renewed: that would lock out the candidates.  A
 * worker that stops in the middle of its turn may still be late.
 */
static void
check_renewed(SimNode *n, const Request *r)
{
	LeSlot	   *slot = node_slot(n, r->election);
	le_time		deadline = (le_time) pg_atomic_read_u64(&slot->term.deadline);

	if (pg_atomic_read_u64(&slot->term.token) == r->term && deadline != 0 &&
		clock_boot(n, n->awake_since) >= deadline)
		sim_fail("n%d renews e%d %.3f s after the deadline of its term",
				 n->number, r->election, (clock_boot(n, sim.now) - deadline) /
				 (double) LE_SEC);
}

/* Does the release name an earlier term? */
static bool
other_term(const SimNode *n, const Request *r, int part, int election)
{
	uint64		term = sim.model == &azure_model ? r->term :
		r->lock.verb == LOCK_RELEASE || r->lock.verb == LOCK_RELEASE_MANY ?
		r->lock.terms[part].token : 0;

	return term != 0 && term != n->term[election];
}

/*
 * Each decision to acquire a key with a lease of its own has an id of its own:
 * a late release of a term with the same id would end the new one.
 */
static void
check_attempt(SimNode *n, int election)
{
	const LeSlot *slot = node_slot(n, election);
	uint32		decision;

	if (slot == NULL || slot->key.attempt[0] == '\0')
		return;
	decision = slot->election.attempt.number;
	if (decision != n->decision[election] &&
		strcmp(slot->key.attempt, n->attempt[election]) == 0)
		sim_fail("n%d acquires e%d with the id of an earlier decision",
				 n->number, election);
	n->decision[election] = decision;
	strlcpy(n->attempt[election], slot->key.attempt,
			sizeof(n->attempt[election]));
}

/* Belief in a term ends before the store is told of its end. */
void
check_sent(SimNode *n, const Request *r)
{
	if (r->kind == LE_OP_RENEW_TERMS && sim.model == &azure_model)
		check_renewed(n, r);
	if (r->kind == LE_OP_PROVE_NODE)
		n->proved_by = sim.now;
	for (int i = 0; i < Max(r->nparts, 1); i++)
	{
		int			e = r->nparts > 0 ? r->elections[i] : r->election;

		if (r->kind == LE_OP_RELEASE && !other_term(n, r, i, e) &&
			check_believes(n, e))
			sim_fail("n%d gives up e%d at the store, and believes in its term",
					 n->number, e);
		if (r->kind == LE_OP_RENEW_TERMS)
			n->renewed_by[e] = sim.now;
		if (r->kind == LE_OP_ACQUIRE || r->kind == LE_OP_TAKE_OVER)
		{
			note_acquire(n, e, r->session);
			check_attempt(n, e);
		}
	}
}

/* A term without a key ends with the trust of its last proof. */
static void
check_lost(const SimNode *n, int election)
{
	if (n->lost_at[election] != 0 &&
		n->term_session[election] == n->session &&
		clock_boot(n, sim.now) >= n->lost_at[election] +
		n->lost_lease[election])
		sim_fail("n%d still believes in its term of e%d, %.3f s after its key "
				 "was lost", n->number, election,
				 (clock_boot(n, sim.now) - n->lost_at[election]) /
				 (double) LE_SEC);
}

/*
 * A term counts from the first instant of belief.  One that was granted too
 * late, to a worker that stood still, never does.
 */
static void
check_token(SimNode *n, int election)
{
	uint64		token = n->term[election];

	if (token == n->term_believed[election])
		return;
	n->term_believed[election] = token;
	/*
	 * A key that is deleted by hand can be granted once more, by a copy of the
	 * request, before the first answer comes.  With Cassandra, grants depend
	 * on the clocks, too.
	 */
	if (granted[n->term_session[election]][election] != token &&
		granted_before[n->term_session[election]][election] != token &&
		!overwritten[n->term_session[election]][election] &&
		!(sim.schedule->beyond && sim.model == &cassandra_model))
		sim_fail("n%d believes in a term of e%d with token " UINT64_FORMAT
				 " that its session %d was not granted", n->number, election,
				 token, n->term_session[election]);
	/* permission to forget tokens covers the disk, too */
	if (token > n->token_kept[election] &&
		!(sim.forgotten[election] && check_outside(election)))
		sim_fail("n%d believes in its term of e%d, whose token " UINT64_FORMAT
				 " is not on its disk", n->number, election, token);
	if (token > sim.last_token[election])
		sim.last_token[election] = token;
	else if (anew[election])
	{
		/* a term from before the deletion may become known after it */
		sim.last_token[election] = token;
		anew[election] = false;
	}
	else if (check_outside(election))
		sim.counts.outside++;
	else
		sim_fail("token " UINT64_FORMAT " of e%d on n%d, after "
				 UINT64_FORMAT, token, election, n->number,
				 sim.last_token[election]);
}

/* Must the store still refuse all others, by any of its clocks? */
static void
check_safe(const SimNode *n, int election)
{
	if (sim.model->safe == NULL || check_outside(election) ||
		sim.model->safe(n->term_session[election], election,
						n->term[election]))
		return;
	sim_fail("n%d believes in its term of e%d with token " UINT64_FORMAT
			 ", which others could take", n->number, election,
			 n->term[election]);
}

/*
 * Released or never held, and free to take?  That changes with the store's
 * content, and with the end of a lock-delay.
 */
static void
note_free(int election)
{
	const Key  *key = sim.model->key(election);
	bool		delayed = sim.now < key->delay_until;

	if (key->session != 0 || delayed ||
		(key->exists && !(key->usable && key->value.ours &&
						  key->value.released)))
		sim.free_since[election] = 0;
	else if (sim.free_since[election] == 0)
		sim.free_since[election] = sim.now;
	sim.free_until[election] = delayed ? key->delay_until : NEVER;
}

/*
 * If a caller is told that its acquire had no effect, the acquire never held
 * the key, even briefly: others would have been refused because of it.
 */
void
check_nothing_done(const SimNode *n, const Backend *b)
{
	int			e = election_of_name(b->ask.election);

	/* keys with their own sessions do not tell earlier requests */
	if (n->took[e] != 0 && n->took_at[e] > b->asked_at &&
		n->took_by[e] >= b->asked_at &&
		n->took_for[e] == question_of(b, (int) (b - n->backends)) &&
		!check_outside(e))
		sim_fail("b%d of n%d is told that its acquire of e%d had no effect, "
				 "and the store has applied it, at index " UINT64_FORMAT,
				 (int) (b - n->backends), n->number, e, n->took[e]);
}

/* An immediate "no" means that the caller could not have had the term. */
void
check_denied(const SimNode *n, const Backend *b)
{
	int			e = election_of_name(b->ask.election);

	if (b->ask.wait_until == 0 && sim.free_since[e] != 0 &&
		sim.free_since[e] < b->asked_at && !check_outside(e))
		sim_fail("b%d of n%d is told that e%d is not to be had, %.3f s after "
				 "it asked; it has been free for %.3f s",
				 (int) (b - n->backends), n->number, e,
				 (sim.now - b->asked_at) / (double) LE_SEC,
				 (sim.now - sim.free_since[e]) / (double) LE_SEC);
}

/* A caller is told that its term was renewed: by a request sent since. */
void
check_told_renewed(const SimNode *n, const Backend *b)
{
	int			e = election_of_name(b->ask.election);
	le_time		sent = sim.model->store->key_leases ? n->renewed_by[e] :
		n->proved_by;

	if (sent < b->asked_at)
		sim_fail("b%d of n%d is told that e%d was renewed, and nothing was "
				 "sent to the store since it asked",
				 (int) (b - n->backends), n->number, e);
}

void
check_step(void)
{
	uint64		index = sim.model->index();
	bool		changed = index != sim.free_index;

	sim.counts.steps++;
	if (exhaustive && sim.storm)
		exhaustive_note_state();
	sim.digest = (sim.digest ^ (uint64) sim.now) *
		UINT64CONST(0x100000001B3) + index;
	sim.free_index = index;
	for (int e = 0; e < sim.nelections; e++)
	{
		const SimNode *leader = NULL;

		if (changed || sim.now >= sim.free_until[e])
			note_free(e);
		for (int i = 0; i < sim.nnodes; i++)
		{
			SimNode    *n = sim.node[i];

			if (n->term[e] == 0 || !check_believes(n, e))
				continue;
			check_token(n, e);
			check_lost(n, e);
			check_safe(n, e);
			progress_check(n, e);
			transactions_check_drain(n, e);
			if (leader == NULL)
				leader = n;
			else if (check_outside(e))
				sim.counts.outside++;
			else
				sim_fail("n%d and n%d both believe that they lead e%d, with "
						 "tokens " UINT64_FORMAT " and " UINT64_FORMAT,
						 leader->number, n->number, e, leader->term[e],
						 n->term[e]);
		}
		if (leader != NULL)
			sim.leaderless[e] = 0;
		else if (sim.leaderless[e] == 0)
			sim.leaderless[e] = sim.now;
	}
}

/*
 * A backend knows a term that is held for it; a term of the instance is known
 * to a session or to the campaign.  Otherwise it would never end.
 */
static void
check_told(const SimNode *n, int election)
{
	const LeSlot *slot = node_slot((SimNode *) n, election);
	LeOwner		owner = le_owner_of(slot);
	uint64		token = pg_atomic_read_u64(&((LeSlot *) slot)->term.token);
	bool		told = false;

	if (owner == LE_OWNER_NODE && (slot->campaign || slot->configured))
		return;
	for (int i = 0; i < PROCS; i++)
		if (owner == LE_OWNER_NODE || i == slot->owner_proc)
			told = told || n->backends[i].told[election] == token;
	if (!told)
		sim_fail("n%d holds e%d with token " UINT64_FORMAT " for %s "
				 "that nobody told of it", n->number, election, token,
				 owner == LE_OWNER_NODE ? "an instance" : "a backend");
}

/*
 * An idle worker has told all waiters of a term, or its predecessor had: an
 * unknown term is never ended.  One that is over by then, as after a stop,
 * needs no owner, nor does one of an instance that stops, with its sessions.
 */
void
check_grants(SimNode *n)
{
	for (int e = 0; e < sim.nelections; e++)
	{
		LeSlot	   *slot = node_slot(n, e);

		if (slot != NULL && le_grants_open(slot) && !n->stopping &&
			pg_atomic_read_u64(&slot->term.token) != 0)
			sim_fail("n%d rests, and has not told who waited for e%d",
					 n->number, e);
	}
}

/* No reader uses a slot in the middle of a change. */
static void
check_whole(SimNode *n)
{
	for (int e = 0; n->running && e < sim.nelections; e++)
	{
		LeSlot	   *slot = node_slot(n, e);

		if (slot != NULL && ((pg_atomic_read_u64(&slot->term.version) |
							  pg_atomic_read_u64(&slot->shown)) & 1) != 0)
			sim_fail("the slot of e%d on n%d is left half-written", e,
					 n->number);
	}
}

/* In any state of the store: the time counts while the worker runs. */
void
check_shut_down(const SimNode *n)
{
	le_duration took = clock_boot(n, sim.now) -
		clock_boot(n, Max(n->told_to_stop, n->went_on));

	if (took > le_shutdown_timeout * LE_MSEC + SHUT_DOWN_SLACK)
		sim_fail("n%d has shut down %.3f s after it was told to",
				 n->number, took / (double) LE_SEC);
}

/* Every held key has a leader, and nothing is half done. */
void
check_calm(void)
{
	for (int i = 0; i < sim.nnodes; i++)
		check_whole(sim.node[i]);
	for (int e = 0; e < sim.nelections; e++)
	{
		const Key  *key = sim.model->key(e);
		int			owner = sim.model->owner(key->session);
		int			leader = check_leader(e);

		if (leader >= 0)
			check_told(sim.node[leader], e);
		if (key->session == 0)
			continue;
		if (owner < 0 || !check_believes(sim.node[owner], e) ||
			sim.node[owner]->term_session[e] != key->session)
			sim_fail("e%d is held by session %d, and nobody leads by it", e,
					 key->session);
	}
}
