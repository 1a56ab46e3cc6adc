/*-------------------------------------------------------------------------
 *
 * consul.c
 *		A model of Consul, as hostile as its documents allow.
 *
 * One sequence of transactions, as Raft makes it; sessions, locks, blocking
 * queries and lock-delay around it.  Each documented rule is quoted beside its
 * model: "docs" is Consul's documentation (sessions: docs/automate/session,
 * txn: api-docs/txn, blocking: api-docs/features/ blocking, consistency:
 * api-docs/features/consistency), "code" the file of its source where the
 * documents say nothing. test/t/110_model.pl compares the transactions and
 * sessions with a real Consul.
 *
 * test/sim/consul.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include "utils/memutils.h"

#define HISTORY		6			/* versions of a node key that are kept */
#define MAX_PARKED	(3 * MAX_NODES)
#define LIST_ROOM	256			/* node keys in one answer */

typedef struct Version
{
	uint64		index;			/* 0: none */
	bool		exists;
	bool		held;
	Value		value;
} Version;

typedef struct Session
{
	bool		alive;
	int			node;			/* number of its request; -1: another
								 * client's */
	uint32		stamp;			/* number of the valid expiry */
	le_duration ttl;
	le_duration lease;
	le_duration lock_delay;
	Key			key;			/* its node key */
	Version		past[HISTORY];	/* versions of the node key, newest first */
	Key			news_key;
	uint64		tells_since;	/* the index of the first; 0: it has none */
	NewsText	news;
} Session;

/* A blocking query. */
typedef struct Parked
{
	bool		used;
	uint32		stamp;
	int			node;
	uint32		process;
	int			flight;
	uint32		number;
	uint64		index;			/* waits for a change past it */
	bool		news;			/* for news, not elections */
} Parked;

static struct
{
	uint64		index;			/* index of the newest write */
	int			nsessions;
	Key			keys[MAX_ELECTIONS];
	Key			claims[MAX_ELECTIONS * ELECTION_JOBS];
	Key			kept[MAX_ELECTIONS * ELECTION_JOBS];	/* a copy of these */
	Key			patroni;		/* never exists */
	uint64		deleted;		/* tombstones: newest index ... */
	uint64		deleted_news;	/* ... and newest index of news */
	le_time		down_until;		/* no leader: no request succeeds */
	le_time		new_until;		/* a new leader does not know every session
								 * yet */
	le_time		watches_hang_until;
	uint32		stamp;
} store;

static Session sessions[MAX_SESSIONS];
static Parked parked[MAX_PARKED];
static int	nparked;			/* entries in use, now or before */

static void fire_watches(bool news);

void
store_reset(void)
{
	memset(&store, 0, sizeof(store));
	store.index = 10 + sim_below(1000);
	nparked = 0;
}

uint64
store_index(void)
{
	return store.index;
}

int
store_nsessions(void)
{
	return store.nsessions;
}

bool
store_lives(int session)
{
	return session > 0 && session <= store.nsessions &&
		sessions[session].alive;
}

int
store_owner(int session)
{
	return session > 0 && session <= store.nsessions ?
		sessions[session].node : -1;
}

le_duration
store_lease(int session)
{
	return sessions[session].lease;
}

Key *
store_key(int number)
{
	if (number < MAX_ELECTIONS)
		return &store.keys[number];
	if (IS_NODE_KEY(number))
		return &sessions[number - MAX_ELECTIONS].key;
	if (IS_NEWS_KEY(number))
		return &sessions[number - NEWS_KEY(0)].news_key;
	if (number == PATRONI_KEY)
		return &store.patroni;
	return &store.claims[number - CLAIM_KEY(0, 0)];
}

/* ---- lists of node keys ---- */

/* Freed with the schedule, in any case. */
static void
new_list(Answer *a)
{
	a->list = memory_new();
	a->nodes = MemoryContextAlloc((MemoryContext) a->list,
								  Min(store.nsessions, LIST_ROOM) *
								  sizeof(NodeKeyShown));
}

void
store_list_free(const Answer *a)
{
	if (a->list != NULL)
		MemoryContextDelete((MemoryContext) a->list);
}

/* A node key was written: keep the version that a lagging server shows. */
static void
remember(int number)
{
	Session    *s;
	Version    *v;

	if (!IS_NODE_KEY(number))
		return;
	s = &sessions[number - MAX_ELECTIONS];
	memmove(&s->past[1], &s->past[0], (HISTORY - 1) * sizeof(Version));
	v = &s->past[0];
	v->index = store.index;
	v->exists = s->key.exists;
	v->held = s->key.session != 0;
	v->value = s->key.value;
}

/*
 * docs, consistency: a stale read may come from any server, with a past state
 * of any age.
 */
static void
list_nodes(const Request *r, Answer *a)
{
	uint64		as_of = store.index;

	if (!r->fresh && sim_chance(sim.schedule->weather.stale_list))
		as_of -= Min(sim_below(12), as_of - 1);
	new_list(a);
	a->index = as_of;
	for (int i = 1; i <= store.nsessions && a->nnodes < LIST_ROOM; i++)
	{
		const Version *v = sessions[i].past;
		int			age = 0;
		NodeKeyShown *to;

		while (age < HISTORY - 1 && v[age].index > as_of &&
			   v[age + 1].index != 0)
			age++;
		if (v[age].index == 0 || v[age].index > as_of || !v[age].exists ||
			!v[age].value.ours)
			continue;
		to = &a->nodes[a->nnodes++];
		to->session = i;
		to->held = v[age].held;
		to->index = v[age].index;
		to->tells = v[age].held && sessions[i].tells_since != 0 &&
			sessions[i].tells_since <= as_of;
		to->value = v[age].value;
	}
}

/* ---- sessions ---- */

int
store_create(const Request *r)
{
	Session    *s;

	if (store.nsessions == MAX_SESSIONS - 1)
		return 0;
	s = &sessions[++store.nsessions];
	memset(s, 0, sizeof(*s));
	s->alive = true;
	s->node = r->node;
	s->lease = r->lease;
	s->ttl = r->ttl;
	s->lock_delay = r->lock_delay;
	return store.nsessions;
}

/*
 * docs, sessions: the TTL is a lower bound; code, session_ttl.go: the timer
 * is set to twice the TTL.  Anywhere from the one to the other is allowed.
 */
static le_duration
time_to_live(const Session *s)
{
	if (sim.schedule->fair)
		return 2 * s->ttl;
	return s->ttl + sim_span(0, s->ttl);
}

static void
set_timer(int session)
{
	Session    *s = &sessions[session];

	s->stamp = ++store.stamp;
	network_at(sim.now + time_to_live(s), AT_EXPIRY, session, s->stamp);
}

/*
 * docs, sessions: invalidation releases the locks, and puts lock-delay on
 * each; code, state/session.go: at most 60 s.  A key of behaviour "release"
 * keeps its value.
 */
static void
end_session(int session)
{
	Session    *s = &sessions[session];

	if (!s->alive)
		return;
	s->alive = false;
	store.index++;
	if (s->news_key.session == session)
	{
		s->news_key.session = 0;
		s->news_key.index = store.index;
	}
	for (int k = NODE_KEY(store.nsessions); k >= 0; k--)
	{
		Key		   *key = store_key(k);
		Key			before = *key;

		if (key->session != session)
			continue;
		key->session = 0;
		key->index = store.index;
		key->delay_until = sim.now + Min(s->lock_delay, 60 * LE_SEC);
		if (k < MAX_ELECTIONS)
			check_write(0, k, &before, key);
		else
			remember(k);
	}
	fire_watches(false);
	fire_watches(true);
}

void
store_expiry(int session, uint32 stamp)
{
	if (!sessions[session].alive || sessions[session].stamp != stamp)
		return;
	/* code, session_ttl.go: without a leader nothing expires */
	if (sim.now < store.down_until)
	{
		set_timer(session);
		return;
	}
	sim.counts.expired++;
	trace(NULL, "session %d expires", session);
	end_session(session);
}

/* docs, sessions: by an operator, a health check, a node that is removed. */
void
store_invalidate(int session)
{
	if (!store_lives(session))
		return;
	sim.counts.invalidated++;
	trace(NULL, "session %d is invalidated", session);
	end_session(session);
}

/*
 * code, leader.go: a new leader sets every session's timer anew, to its full
 * length, once it knows them; until then a renewal may be answered by the old
 * one, or by the new one that does not know the session yet.
 */
void
store_new_server(le_duration down)
{
	store.down_until = sim.now + down;
	store.new_until = store.down_until + 2 * LE_SEC;
	for (int i = 1; i <= store.nsessions; i++)
		if (sessions[i].alive)
		{
			Session    *s = &sessions[i];

			s->stamp = ++store.stamp;
			network_at(store.down_until + time_to_live(s), AT_EXPIRY, i,
					   s->stamp);
		}
	trace(NULL, "the store has no leader for %.1f s",
		  down / (double) LE_SEC);
}

/* Neither answer is linearizable: it does not go through Raft. */
static void
renew_session(const Request *r, Answer *a)
{
	const Weather *w = &sim.schedule->weather;
	bool		new = sim.now < store.new_until;

	if (!store_lives(r->session))
	{
		if (!sim_chance(new ? 300000 : w->false_renew))
			a->outcome = LE_LOST;
	}
	else if (sim_chance(new ? 50000 : w->false_gone))
		a->outcome = LE_LOST;
	else
		set_timer(r->session);
}

/* ---- transactions ---- */

/*
 * Does the refusal tell that the asker's session, or its node key, is gone?
 * By the request, independently of the codec.
 */
static bool
tells_end(const Request *r, const Step *step, LeConsulReason reason)
{
	return reason == LE_CONSUL_NO_SESSION ||
		(r->kind != LE_OP_REGISTER_NODE && r->session != 0 &&
		 step->session == r->session &&
		 (step->key == NODE_KEY(r->session) ||
		  step->key == NEWS_KEY(r->session)));
}

static void
refuse(const Request *r, const Step *step, LeConsulReason reason, Answer *a)
{
	int			n = a->nrefused++;

	a->refused[n].step = (short) (step - r->steps);
	a->refused[n].reason = (short) reason;
	if (tells_end(r, step, reason))
		a->outcome = LE_LOST;
	else if (a->outcome == LE_DONE)
		a->outcome = LE_CONFLICT;
}

static bool
same_value(const Value *a, const Value *b)
{
	return a->ours == b->ours && a->released == b->released &&
		a->revoked == b->revoked && a->node == b->node &&
		a->session == b->session && a->user == b->user &&
		a->incarnation == b->incarnation && a->token == b->token &&
		a->seq == b->seq && a->system == b->system &&
		a->since == b->since && a->lease == b->lease &&
		memcmp(&a->gap, &b->gap, sizeof(LeGap)) == 0 && a->writes == b->writes;
}

static void
put(Key *key, const Value *value, int session, uint32 lock_index)
{
	/* code, state/kvs.go: an identical rewrite leaves the index alone */
	if (key->exists && key->usable && key->session == session &&
		key->lock_index == lock_index && same_value(&key->value, value))
		return;
	key->lock_index = lock_index;
	key->exists = true;
	key->usable = true;
	key->session = session;
	key->value = *value;
	key->index = store.index + 1;
}

/* docs, txn: conditions and effects of the verbs.  False: refused. */
static bool
run_step(const Request *r, const Step *step, Key *key,
		 LeConsulReason *reason)
{
	*reason = LE_CONSUL_CHANGED;
	switch (step->verb)
	{
		case LE_CONSUL_CHECK_SESSION:
			if (key->exists)
				*reason = LE_CONSUL_HELD_BY_OTHER;
			return key->exists && key->session == step->session;
		case LE_CONSUL_CHECK_INDEX:
			return key->exists && key->index == step->index;
		case LE_CONSUL_CHECK_ABSENT:
			return !key->exists;
		case LE_CONSUL_LOCK:
			*reason = store_lives(step->session) ? LE_CONSUL_HELD_BY_OTHER :
				LE_CONSUL_NO_SESSION;
			if (!store_lives(step->session) ||
				(key->session != 0 && key->session != step->session))
				return false;
			put(key, &r->values[step->value], step->session,
				!key->exists ? 1 :
				key->lock_index + (key->session != step->session));
			return true;
		case LE_CONSUL_UNLOCK:
			/* code, state/kvs.go: an ended session is "invalid" */
			if (!store_lives(step->session))
				*reason = LE_CONSUL_NO_SESSION;
			if (!store_lives(step->session) || !key->exists ||
				key->session != step->session)
				return false;
			put(key, &r->values[step->value], 0, key->lock_index);
			return true;
		case LE_CONSUL_CAS:
			if (!key->exists || key->index != step->index)
				return false;
			put(key, &r->values[step->value], key->session, 0);
			return true;
		case LE_CONSUL_SET:
			put(key, &r->values[step->value], key->session, 0);
			return true;
		case LE_CONSUL_DELETE:
			key->exists = false;
			key->session = 0;
			key->index = store.index + 1;
			return true;
	}
	return false;
}

/*
 * code, kvs_endpoint.go: lock-delay is checked before the transaction goes to
 * Raft, by the leader's own clock; a lock that was checked just before the
 * invalidation, and applied just after, gets through.
 */
static bool
refused_for_delay(const Request *r, Answer *a)
{
	bool		refused = false;

	for (int i = 0; i < r->nsteps; i++)
	{
		const Step *step = &r->steps[i];

		if (step->verb != LE_CONSUL_LOCK ||
			store_key(step->key)->delay_until <= sim.now)
			continue;
		if (sim_chance(sim.schedule->weather.leak))
		{
			sim.counts.leaked++;
			continue;
		}
		sim.counts.delayed++;
		refuse(r, step, LE_CONSUL_DELAYED, a);
		refused = true;
	}
	return refused;
}

/*
 * Holder of the election by its key, at this instant; -1: nobody.  A value
 * written by hand does not tell its term: 0.
 */
static int
holder_of(int election, uint64 *token)
{
	const Key  *key = &store.keys[election];

	*token = !key->value.ours ? 0 :
		key->value.token != 0 ? key->value.token : key->index;
	return key->exists && key->session != 0 ? store_owner(key->session) : -1;
}

static void
note_record(const Request *r, const Key *before, const Key *after)
{
	ClaimRecord was = record_of_key(before);
	ClaimRecord is = record_of_key(after);
	uint64		token;
	int			holder = holder_of(r->election, &token);

	claim_written(r->node, r->election, r->job, &was, &is, holder, token);
}

/* New content of the news key. */
static void
note_news(const Request *r)
{
	Session    *s = &sessions[r->session];

	s->news = r->news;
	if (s->tells_since == 0)
		s->tells_since = store.index;
}

/*
 * docs, txn: all of the steps or none; each sees the earlier ones.  Returns
 * the failed steps.
 */
uint32
store_try(const Request *r, Answer *a)
{
	Key			before[MAX_STEPS];
	uint32		failed = 0;

	a->judged = true;
	if (refused_for_delay(r, a))
		return 0;
	for (int i = 0; i < r->nsteps; i++)
	{
		Key		   *key = store_key(r->steps[i].key);
		LeConsulReason reason;

		before[i] = *key;
		if (!run_step(r, &r->steps[i], key, &reason))
		{
			failed |= 1 << i;
			refuse(r, &r->steps[i], reason, a);
		}
	}
	if (failed != 0)
	{
		for (int i = r->nsteps - 1; i >= 0; i--)
			*store_key(r->steps[i].key) = before[i];
		return failed;
	}
	store.index++;
	for (int i = 0; i < r->nparts; i++)
	{
		const Key  *key = store_key(r->steps[r->write[i]].key);

		a->written[i].index = key->exists ? key->index : 0;
		a->written[i].session = key->session;
		a->written[i].usable = key->usable;
	}
	if (r->kind == LE_OP_TAKE_OVER)
		sim.counts.takeovers++;
	for (int i = 0; i < r->nsteps; i++)
	{
		const Step *step = &r->steps[i];

		if (step->verb < LE_CONSUL_LOCK)
			continue;
		remember(step->key);
		if (IS_CLAIM_KEY(step->key))
			note_record(r, &before[i], store_key(step->key));
		if (step->key < MAX_ELECTIONS && step->part >= 0 &&
			i == r->write[step->part])
		{
			/* before the first step that wrote it */
			int			first = i;

			for (int k = i - 1; k >= 0; k--)
				if (r->steps[k].key == step->key)
					first = k;
			check_write(r->session, step->key, &before[first],
						store_key(step->key));
		}
	}
	if (r->tells)
		note_news(r);
	if (r->kind == LE_OP_FORGET_NODE)
		store.deleted_news = store.index;
	if (r->election >= 0 && !IS_CLAIM_KEY(r->steps[r->write[0]].key))
		fire_watches(false);
	if (r->tells || r->kind == LE_OP_FORGET_NODE)
		fire_watches(true);
	return 0;
}

/* ---- reads ---- */

static void
show_elections(Answer *a)
{
	a->index = store.deleted;
	for (int e = 0; e < sim.nelections; e++)
	{
		if (!store.keys[e].exists)
			continue;
		a->keys_shown |= 1 << e;
		a->keys[e] = store.keys[e];
		a->index = Max(a->index, store.keys[e].index);
	}
	/* code, state/kvs.go: an empty prefix falls back to the table's index */
	if (a->keys_shown == 0)
		a->index = store.index;
	/* code, state/kvs.go: tombstones are collected, and the index goes back */
	if (sim_chance(sim.schedule->weather.watch_reset))
		a->index = 1;
}

static void
show_news(Answer *a)
{
	int			n = 0;

	a->index = store.deleted_news;
	for (int i = 1; i <= store.nsessions; i++)
		n += sessions[i].news_key.exists;
	a->list = memory_new();
	a->news = MemoryContextAlloc((MemoryContext) a->list,
								 Max(n, 1) * sizeof(NewsShown));
	for (int i = 1; i <= store.nsessions; i++)
	{
		const Key  *key = &sessions[i].news_key;
		NewsShown  *to;

		if (!key->exists)
			continue;
		to = &a->news[a->nnews++];
		to->session = i;
		to->held = key->session == i;
		to->index = key->index;
		to->text = sessions[i].news;
		a->index = Max(a->index, key->index);
	}
	/* code, state/kvs.go: as for elections */
	if (n == 0)
		a->index = store.index;
	if (sim_chance(sim.schedule->weather.watch_reset))
		a->index = 1;
}

static void
answer_parked(Parked *p)
{
	Answer		a = {0};

	p->used = false;
	if (p->news)
		show_news(&a);
	else
		show_elections(&a);
	network_answer(p->node, p->process, p->flight, p->number, &a);
}

/*
 * docs, blocking: it returns after a change, or when the time is up, or for no
 * reason.  One that is parked on a stopped server returns when that goes on,
 * or never.
 */
static void
fire_watches(bool news)
{
	if (sim.now < store.watches_hang_until)
		return;
	for (int i = 0; i < nparked; i++)
		if (parked[i].used && parked[i].news == news &&
			!sim_chance(sim.schedule->weather.watch_miss))
			answer_parked(&parked[i]);
}

void
store_parked(int index, uint32 stamp)
{
	if (!parked[index].used || parked[index].stamp != stamp)
		return;
	if (sim.now < store.watches_hang_until)
		network_at(store.watches_hang_until, AT_PARKED, index, stamp);
	else
		answer_parked(&parked[index]);
}

/* All faults end. */
void
store_clear_up(void)
{
	store.down_until = Min(store.down_until, sim.now);
	store.new_until = Min(store.new_until, sim.now);
	store.watches_hang_until = 0;
}

void
store_hang_watches(le_time until)
{
	store.watches_hang_until = until;
}

/* True if the answer comes at once. */
static bool
watch(const Request *r, Answer *a, int node, uint32 process, int flight,
	  uint32 number)
{
	int			i = 0;
	Parked	   *p;

	if (r->kind == LE_OP_WATCH_NEWS)
		show_news(a);
	else
		show_elections(a);
	if (r->watch_index == 0 || a->index > r->watch_index)
		return true;
	while (i < nparked && parked[i].used)
		i++;
	if (i == MAX_PARKED)
		return true;
	nparked = Max(nparked, i + 1);
	store_list_free(a);
	p = &parked[i];
	p->news = r->kind == LE_OP_WATCH_NEWS;
	p->used = true;
	p->stamp = ++store.stamp;
	p->node = node;
	p->process = process;
	p->flight = flight;
	p->number = number;
	p->index = r->watch_index;
	/* docs, blocking: plus up to a sixteenth */
	network_at(sim.now + r->wait + sim_span(0, r->wait / 16), AT_PARKED, i,
			   p->stamp);
	return false;
}

/* ---- one request ---- */

static void
serve(const Request *r, Answer *a)
{
	const Key  *key;

	switch (r->kind)
	{
		case LE_OP_CREATE_SESSION:
			a->session = store_create(r);
			if (a->session == 0)
				a->outcome = LE_UNAVAILABLE;
			else
				set_timer(a->session);
			break;
		case LE_OP_VERIFY_SESSION:
			if (!store_lives(r->session))
				a->outcome = LE_REFUSED;
			break;
		case LE_OP_RENEW_SESSION:
			renew_session(r, a);
			break;
		case LE_OP_DESTROY_SESSION:
			end_session(r->session);
			break;
		case LE_OP_CHECK_PREFIX:
		case LE_OP_SESSION_NAME:
			break;
		case LE_OP_LIST_NODES:
			list_nodes(r, a);
			break;
		case LE_OP_READ:
			a->index = store.index;
			if (store.keys[r->election].exists)
			{
				a->keys_shown = 1 << r->election;
				a->keys[r->election] = store.keys[r->election];
				a->index = store.keys[r->election].index;
			}
			break;
		case LE_OP_READ_CLAIM:
			key = store_key(CLAIM_KEY(r->election, r->job));
			a->index = store.index;
			a->keys_shown = key->exists;
			a->keys[0] = *key;
			break;
		case LE_OP_LIST_HELD:
			show_elections(a);
			break;
		default:
			store_try(r, a);
			break;
	}
}

/* False: no answer comes, or not yet. */
bool
store_apply(const Request *r, Answer *a, int node, uint32 process, int flight,
			uint32 number)
{
	const Weather *w = &sim.schedule->weather;
	bool		broken;

	memset(a, 0, offsetof(Answer, keys));
	a->outcome = LE_DONE;
	if (sim_chance(w->refuse))
	{
		a->outcome = sim_chance(800000) ? LE_UNAVAILABLE : LE_REFUSED;
		return true;
	}

	/*
	 * docs, consistency: without a leader there are only stale reads.  code,
	 * rpc.go: requests in flight at its loss may have been committed.
	 */
	if (sim.now < store.down_until && r->kind != LE_OP_LIST_NODES)
	{
		if (r->kind == LE_OP_RENEW_SESSION && sim_chance(200000))
			return true;		/* by the old leader, which does not know
								 * yet */
		if (!sim_chance(300000))
		{
			a->outcome = LE_UNAVAILABLE;
			return true;
		}
		if (!sim_chance(500000))
			return false;
		a->net = LE_NET_BROKEN;
	}
	if (w->invalidate != 0 && r->session != 0 && sim_chance(w->invalidate))
		store_invalidate(r->session);
	broken = sim_chance(w->break_answer);
	if (broken && sim_chance(500000))
	{
		a->net = LE_NET_BROKEN;
		return true;
	}
	if (r->kind == LE_OP_WATCH || r->kind == LE_OP_WATCH_NEWS)
	{
		if (!watch(r, a, node, process, flight, number))
			return false;
	}
	else
		serve(r, a);
	if (broken)
		a->net = LE_NET_BROKEN;
	trace(NULL, "  applied for n%d: %s %s", node, trace_request(r),
		  le_outcome_name(a->outcome));
	return true;
}

/* ---- other clients ---- */

/* By hand, past all locks. */
void
store_write_by_hand(int election, bool delete)
{
	Key		   *key = &store.keys[election];
	Key			before = *key;

	if (!key->exists)
		return;
	store.index++;
	key->index = store.index;
	key->usable = key->usable && delete;
	if (delete)
	{
		store.deleted = store.index;
		key->exists = false;
		key->session = 0;
	}
	memset(&key->value, 0, sizeof(key->value));
	check_write(0, election, &before, key);
	fire_watches(false);
}

/* Consul's own client takes a free key, with a value of its own. */
void
store_foreign_lock(int election)
{
	Key		   *key = &store.keys[election];
	Key			before = *key;
	Request		r = {
		.node = -1, .lease = 10 * LE_SEC, .ttl = 10 * LE_SEC,
		.lock_delay = 10 * LE_SEC
	};
	int			session;

	if (key->session != 0 || key->delay_until > sim.now ||
		(session = store_create(&r)) == 0)
		return;
	set_timer(session);			/* it dies before it renews */
	store.index++;
	key->exists = key->usable = true;
	key->session = session;
	key->index = store.index;
	memset(&key->value, 0, sizeof(key->value));
	check_write(0, election, &before, key);
	fire_watches(false);
}

/* The index goes on, as after "consul snapshot restore" in the same cluster. */
static void
store_records(bool restore)
{
	if (!restore)
	{
		memcpy(store.kept, store.claims, sizeof(store.kept));
		return;
	}
	memcpy(store.claims, store.kept, sizeof(store.kept));
	for (int i = 0; i < lengthof(store.kept); i++)
	{
		ClaimRecord now = record_of_key(&store.claims[i]);

		record_restored(i / ELECTION_JOBS, i % ELECTION_JOBS, &now);
	}
}

static void
store_event(int what, int a, uint32 b)
{
	if (what == AT_EXPIRY)
		store_expiry(a, b);
	else if (what == AT_PARKED)
		store_parked(a, b);
}

const StoreModel consul_model = {
	.store = &sim_consul,
	.reset = store_reset,
	.apply = store_apply,
	.event = store_event,
	.invalidate = store_invalidate,
	.new_server = store_new_server,
	.hang_watches = store_hang_watches,
	.clear_up = store_clear_up,
	.lives = store_lives,
	.key = store_key,
	.write_by_hand = store_write_by_hand,
	.foreign_lock = store_foreign_lock,
	.records = store_records,
	.index = store_index,
	.owner = store_owner,
	.lease = store_lease,
};
