/*-------------------------------------------------------------------------
 *
 * checks.c
 *		What must hold at every step.
 *
 * Beliefs are read as a backend's check reads them, from the lease table and
 * the node's clock, at the instant of the step; the terms of all nodes are
 * compared with the keys as the store really has them.
 *
 * test/sim/checks.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include "settings.h"

/* What a shutdown may take beyond its time: turns of the worker. */
#define SHUT_DOWN_SLACK (LE_SEC / 10)

/*
 * The index of the key as the session took it last, and the time before; and
 * whether somebody overwrote it by hand then, which leaves the key with its
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
	memset(anew, 0, sizeof(anew));
	memset(sim.released, 0, sizeof(sim.released));
	memset(sim.outside_until, 0, sizeof(sim.outside_until));
	memset(sim.leaderless, 0, sizeof(sim.leaderless));
	memset(sim.free_since, 0, sizeof(sim.free_since));
	memset(sim.free_until, 0, sizeof(sim.free_until));
}

/* As le_read_term() and those who call it. */
static bool
believes_slot(const SimNode *n, LeSlot *slot)
{
	LeOwner		owner = le_owner_of(slot);
	uint64		token = pg_atomic_read_u64(&slot->token);

	if ((pg_atomic_read_u64(&slot->version) & 1) || token == 0 ||
		pg_atomic_read_u64(&slot->given_up) == token)
		return false;
	if (clock_boot(n, sim.now) >=
		(le_time) pg_atomic_read_u64(&slot->deadline))
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
 * Somebody has done by hand what nobody may: until no belief from before it is
 * left, the longest lease being of 60 s.
 */
void
check_allow_overlap(int election)
{
	sim.outside_until[election] = sim.now + 61 * LE_SEC;
}

/*
 * The key was deleted by hand, and its tokens begin anew: with the first term
 * that is granted from then on, however late, and also for a node that has had
 * the same token before.
 */
void
check_begins_anew(int election)
{
	sim.last_token[election] = sim.released[election] = 0;
	sim.forgotten[election] = true;
	anew[election] = true;
	for (int i = 0; i < sim.nnodes; i++)
		if (!check_believes(sim.node[i], election))
			sim.node[i]->term_believed[election] = 0;
}

/* A session is given up when the store says that it is over, not otherwise. */
static void
check_gone(SimNode *n, const LeNode *node, int session)
{
	if (node->gone && !n->gone && !node->destroyed && n->told_lost != session)
		sim_fail("n%d gives up session %d, of which the store said nothing",
				 n->number, session);
	n->gone = node->gone;
}

/* What is known of other nodes is never replaced by what was known before. */
static void
check_knowledge(SimNode *n, LeTable *t)
{
	uint64		version = pg_atomic_read_u64(&t->nodes_version);

	if (version == n->nodes_version)
		return;
	n->nodes_version = version;
	n->look++;
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

/* Unless the store has forgotten, no token that it gives is too low. */
static void
check_refused(const SimNode *n, const LeSlot *slot, int election)
{
	if (slot->election.refused_until != 0 && !sim.forgotten[election])
		sim_fail("n%d refuses a token of e%d, which never went back",
				 n->number, election);
}

/* A proof is for the terms that can be believed in, and fails for no other. */
void
check_proof(SimNode *n, const Request *r)
{
	for (int i = 0; r->kind == LE_OP_PROVE_NODE && i < r->nsteps; i++)
	{
		int			e = r->steps[i].key;

		if (r->steps[i].role == LE_CONSUL_HELD &&
			pg_atomic_read_u64(&node_slot(n, e)->token) == 0)
			sim_fail("n%d proves e%d, of which it shows no term", n->number, e);
	}
}

/* A key is given up for lost when the store has lost it, not otherwise. */
static void
check_reason(const SimNode *n, int election, const LeSlot *slot)
{
	if (slot->last_reason == LE_REASON_KEY_LOST && !check_outside(election) &&
		sim.model->safe != NULL &&
		!sim.model->ran_out(election, n->term[election]) &&
		sim.model->safe(n->term_session[election], election,
						n->term[election]))
		sim_fail("n%d gives up its term of e%d with token " UINT64_FORMAT
				 ", which the store has not lost", n->number, election,
				 n->term[election]);
}

/* The worker ran: which terms does its table show now? */
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
		token = pg_atomic_read_u64(&slot->token);
		if (pg_atomic_read_u64(&slot->deadline) != 0)
			n->deadline[e] = (le_time) pg_atomic_read_u64(&slot->deadline);
		if ((pg_atomic_read_u64(&slot->version) & 1) ||
			pg_atomic_read_u64(&slot->deadline) == 0)
			token = 0;
		if (n->ends[e] && pg_atomic_read_u64(&slot->token) == 0)
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
			n->took[e] = 0;		/* somebody was told of it */
		if (sim.model->key(e)->session == session)
			n->lost_at[e] = 0;	/* that was an earlier term */
	}
	if (session != 0 && session != n->session)
	{
		n->session = session;
		n->margin = t->node.timing.margin;
		memset(n->lost_at, 0, sizeof(n->lost_at));
	}
	n->margin = Min(n->margin, t->node.timing.margin);
}

/* Each backend counts its own, and asks less than 1,000. */
static uint64
question_of(const Backend *b, int place)
{
	return b->number + 1000 * (uint64) place;
}

/*
 * For which backend's question, if for any, is it?  Chosen for one that was
 * canceled, it may be sent when the backend has asked again; the worker, which
 * was stopped, does not know of that question yet.
 */
static void
note_acquire(SimNode *n, int election, int session)
{
	const LeSlot *slot = node_slot(n, election);
	const Backend *b = &n->backends[slot->candidate_proc];

	n->asked_in[election] = session;

	/* a repeated one may be for nobody, and another may ask from his place */
	n->asked_for[election] =
		slot->candidate_pid == 0 || b->state != PLACE_TAKEN ||
		b->ask.owner != slot->candidate ? 0 :
		question_of(b, slot->candidate_proc);
}

static void
note_taken(int owner, int election, int session, uint64 index)
{
	SimNode    *n = owner < 0 ? NULL : sim.node[owner];

	/* of two copies one may be refused for certain, and the other applied */
	if (n == NULL || !n->up || sim.travel.copied)
		return;
	/* a late one of the node's session before is nobody's question */
	if (session != n->asked_in[election])
		return;
	n->took_at[election] = sim.now;
	n->took[election] = index;
	n->took_for[election] = n->asked_for[election];
	n->took_by[election] = sim.travel.sent;
}

/*
 * A key was written in the name of a session (0: by the store or by hand),
 * and perhaps taken from the one that had it.
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

	/* it may come back: a copy of its acquire, after a deletion by hand */
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
 * A term that is over is not renewed: that would keep out who could lead.  A
 * worker that stops in the middle of its turn may be late all the same.
 */
static void
check_renewed(SimNode *n, const Request *r)
{
	LeSlot	   *slot = node_slot(n, r->election);
	le_time		deadline = (le_time) pg_atomic_read_u64(&slot->deadline);

	if (pg_atomic_read_u64(&slot->token) == r->term && deadline != 0 &&
		clock_boot(n, n->awake_since) >= deadline)
		sim_fail("n%d renews e%d %.3f s after the deadline of its term",
				 n->number, r->election, (clock_boot(n, sim.now) - deadline) /
				 (double) LE_SEC);
}

/* Does the release name a term that is not the present one? */
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
 * a late release of the term that had the same would end the new one.
 */
static void
check_attempt(SimNode *n, int election)
{
	const LeSlot *slot = node_slot(n, election);
	uint32		decision;

	if (slot == NULL || slot->attempt[0] == '\0')
		return;
	decision = slot->election.attempt.number;
	if (decision != n->decision[election] &&
		strcmp(slot->attempt, n->attempt[election]) == 0)
		sim_fail("n%d acquires e%d with the id of an earlier decision",
				 n->number, election);
	n->decision[election] = decision;
	strlcpy(n->attempt[election], slot->attempt, sizeof(n->attempt[election]));
}

/* Belief in a term ends before the store is told of its end. */
void
check_sent(SimNode *n, const Request *r)
{
	if (r->kind == LE_OP_RENEW_TERMS && sim.model == &azure_model)
		check_renewed(n, r);
	for (int i = 0; i < Max(r->nparts, 1); i++)
	{
		int			e = r->nparts > 0 ? r->elections[i] : r->election;

		if (r->kind == LE_OP_RELEASE && !other_term(n, r, i, e) &&
			check_believes(n, e))
			sim_fail("n%d gives up e%d at the store, and believes in its term",
					 n->number, e);
		if (r->kind == LE_OP_ACQUIRE || r->kind == LE_OP_TAKE_OVER)
		{
			note_acquire(n, e, r->session);
			check_attempt(n, e);
		}
	}
}

/* A term whose key is gone ends with the trust that its last proof gave. */
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
 * A term counts from the first instant at which it can be believed in.  One
 * that was granted too late, to a worker that had stopped, never does.
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
	 * request, before the first answer comes.  With Cassandra, what is granted
	 * hangs on the clocks, too.
	 */
	if (granted[n->term_session[election]][election] != token &&
		granted_before[n->term_session[election]][election] != token &&
		!overwritten[n->term_session[election]][election] &&
		!(sim.schedule->beyond && sim.model == &cassandra_model))
		sim_fail("n%d believes in a term of e%d with token " UINT64_FORMAT
				 " that its session %d was not granted", n->number, election,
				 token, n->term_session[election]);
	/* who may forget tokens does so on disk, too */
	if (token > n->token_kept[election] &&
		!(sim.forgotten[election] && check_outside(election)))
		sim_fail("n%d believes in its term of e%d, whose token " UINT64_FORMAT
				 " is not on its disk", n->number, election, token);
	if (token > sim.last_token[election])
		sim.last_token[election] = token;
	else if (anew[election])
	{
		/* a term from before the deletion may have been heard of after it */
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

/* Is the store still bound to refuse everybody else, by any of its clocks? */
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
 * Released or never held, and nothing keeps it from being taken?  That changes
 * with what the store holds, and with the end of a lock-delay.
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
 * Who is told that his acquire had no effect has not had the key meanwhile,
 * not even for nobody: others would have been refused because of it.
 */
void
check_nothing_done(const SimNode *n, const Backend *b)
{
	int			e = election_of_name(b->ask.election);

	/* with keys of their own sessions do not tell what was sent before */
	if (n->took[e] != 0 && n->took_at[e] > b->asked_at &&
		n->took_by[e] >= b->asked_at &&
		n->took_for[e] == question_of(b, (int) (b - n->backends)) &&
		!check_outside(e))
		sim_fail("b%d of n%d is told that its acquire of e%d had no effect, "
				 "and the store has applied it, at index " UINT64_FORMAT,
				 (int) (b - n->backends), n->number, e, n->took[e]);
}

/* Who does not wait is told "false" if he could not have had it. */
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
 * A term that is held for a backend is known to it, and one for the whole
 * instance to somebody, or to the campaign: else nobody ends it.
 */
static void
check_told(const SimNode *n, int election)
{
	const LeSlot *slot = node_slot((SimNode *) n, election);
	LeOwner		owner = le_owner_of(slot);
	uint64		token = pg_atomic_read_u64(&((LeSlot *) slot)->token);
	bool		told = false;

	if (owner == LE_OWNER_NODE && (slot->campaign || slot->configured))
		return;
	for (int i = 0; i < PLACES; i++)
		if (owner == LE_OWNER_NODE || i == slot->owner_proc)
			told = told || n->backends[i].told[election] == token;
	if (!told)
		sim_fail("n%d holds e%d with token " UINT64_FORMAT " for %s "
				 "that nobody told of it", n->number, election, token,
				 owner == LE_OWNER_NODE ? "an instance" : "a backend");
}

/*
 * A worker that has nothing more to do has told all who waited for a term, or
 * the one before it had: a term that nobody knows of is nobody's to end.  One
 * that is over by then, as after a stop, needs nobody.
 */
void
check_grants(SimNode *n)
{
	for (int e = 0; e < sim.nelections; e++)
	{
		LeSlot	   *slot = node_slot(n, e);

		if (slot != NULL && le_grants_open(slot) &&
			pg_atomic_read_u64(&slot->token) != 0)
			sim_fail("n%d rests, and has not told who waited for e%d",
					 n->number, e);
	}
}

/* Nobody reads a slot that somebody is in the middle of changing. */
static void
check_whole(SimNode *n)
{
	for (int e = 0; n->running && e < sim.nelections; e++)
	{
		LeSlot	   *slot = node_slot(n, e);

		if (slot != NULL && ((pg_atomic_read_u64(&slot->version) |
							  pg_atomic_read_u64(&slot->shown)) & 1) != 0)
			sim_fail("the slot of e%d on n%d is left half-written", e,
					 n->number);
	}
}

/* However the store is: the time is that of the worker, once it goes on. */
void
check_shut_down(const SimNode *n)
{
	le_duration took = clock_boot(n, sim.now) -
		clock_boot(n, Max(n->told_to_stop, n->went_on));

	if (took > le_shutdown_timeout * LE_MSEC + SHUT_DOWN_SLACK)
		sim_fail("n%d has shut down %.3f s after it was told to",
				 n->number, took / (double) LE_SEC);
}

/* Nothing is held by nobody, and nothing half done. */
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
