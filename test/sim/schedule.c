/*-------------------------------------------------------------------------
 *
 * schedule.c
 *		Schedules: made from a seed, and carried out.
 *
 * Every schedule draws which kinds of trouble it has at all, so that each also
 * occurs alone.  After a storm the weather clears up, and then all elections
 * must get their leaders within a bound, and keep them.
 *
 * test/sim/schedule.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include "settings.h"

/* An election has a leader again this long after the last fault. */
#define CALM_BOUND	(150 * LE_SEC)

/* README: a crashed leader is replaced within lease + lease/4 + 0.5 s ... */
#define CRASH_BOUND(lease)	((lease) + (lease) / 4 + LE_SEC / 2)

/* ... and with Cassandra within the lease in whole seconds + 1 s. */
#define KEY_CRASH_BOUND(lease) \
	(((lease) + LE_SEC - 1) / LE_SEC * LE_SEC + LE_SEC)

/* ... and with Azure that, a poll with its jitter, and a few requests. */
#define BLOB_CRASH_BOUND(lease) \
	(KEY_CRASH_BOUND(lease) - LE_SEC + 2 * LE_SEC * 11 / 10 + LE_SEC / 2)

/* docs/failover-times.md: without a takeover the store ends a silent node's
 * session, within two TTL, and then its lease is waited out ... */
#define ENDED_BOUND(lease) \
	(2 * Max(lease, 10 * LE_SEC) + DESTROYED_BOUND(lease))

/* ... as after a session that was destroyed. */
#define DESTROYED_BOUND(lease)	((lease) + (lease) / 20 + LE_SEC / 2)

/* An earlier request is refused by the lock-delay, and repeated. */
#define DELAYED_BOUND(lease) \
	(((lease) + LE_SEC - 1) / LE_SEC * LE_SEC + LE_SEC * 3 / 2)

/* By the node, without a wait, for one election; as ask() reads it. */
#define STEP_DOWN_PLAIN 0x2200

/* An announced end: the next leader hears of it, or polls. */
#define HANDOFF_BOUND(store) \
	((store) == STORE_AZURE ? 2 * LE_SEC * 11 / 10 + LE_SEC / 2 : LE_SEC / 2)

/* New sessions for all, and a handoff or two. */
#define RELOADED_BOUND	LE_SEC

/*
 * le_claim() and le_complete(), or le_run() whose commits do not wait;
 * scripts.c and transactions.c explain the bits.
 */
#define CALM_JOB		0x3f000017
#define CALM_JOB_MAY	0x48	/* be fenced, catch up */
#define CALM_JOB_CATCHES_UP	0x08

World		sim;

typedef struct Kind
{
	const char *name;
	int			weight;
	bool		swarm;			/* may be absent from a schedule */
} Kind;

static const Kind kinds[HAPPEN_KINDS] = {
	[HAPPEN_FREEZE] = {"freeze", 6, true},
	[HAPPEN_KILL] = {"kill", 4, true},
	[HAPPEN_TERMINATE] = {"terminate", 2, true},
	[HAPPEN_CRASH] = {"crash", 3, true},
	[HAPPEN_SHUTDOWN] = {"shutdown", 2, true},
	[HAPPEN_SUSPEND] = {"suspend", 3, true},
	[HAPPEN_CUT] = {"cut", 5, true},
	[HAPPEN_LOSE_ANSWERS] = {"lose-answers", 4, true},
	[HAPPEN_WALL_JUMP] = {"wall-jump", 2, true},
	[HAPPEN_RELOAD] = {"reload", 2, true},
	[HAPPEN_SLOW] = {"slow", 2, true},
	[HAPPEN_NEW_SERVER] = {"new-server", 3, true},
	[HAPPEN_STORE_DOWN] = {"store-down", 2, true},
	[HAPPEN_WATCH_HANGS] = {"watch-hangs", 3, true},
	[HAPPEN_INVALIDATE] = {"invalidate", 6, true},
	[HAPPEN_DELETE_KEY] = {"delete-key", 1, true},
	[HAPPEN_OVERWRITE_KEY] = {"overwrite-key", 1, true},
	[HAPPEN_FOREIGN_LOCK] = {"foreign-lock", 1, true},
	[HAPPEN_ACQUIRE] = {"acquire", 6, true},
	[HAPPEN_RENEW] = {"renew", 4, true},
	[HAPPEN_RELEASE] = {"release", 6, true},
	[HAPPEN_CAMPAIGN] = {"campaign", 2, true},
	[HAPPEN_WITHDRAW] = {"withdraw", 2, true},
	[HAPPEN_STEP_DOWN] = {"step-down", 3, true},
	[HAPPEN_READ_LEADER] = {"read-leader", 1, true},
	[HAPPEN_CANCEL] = {"cancel", 3, true},
	[HAPPEN_EXIT] = {"exit", 3, true},
	[HAPPEN_AMBUSH] = {"ambush", 0, false},
	[HAPPEN_JOB] = {"job", 0, true},	/* see make_work() */
	[HAPPEN_TRANSACTION] = {"transaction", 0, true},
	[HAPPEN_CRON_STOPS] = {"cron-stops", 0, true},	/* see make_progress() */
	[HAPPEN_RECORDS] = {"records", 0, true},	/* see make_restore() */
};

const char *
happening_name(Happening what)
{
	return kinds[what].name;
}

const char *
store_kind_name(StoreKind store)
{
	static const char *const names[] = {
		[STORE_CONSUL] = "consul",
		[STORE_CASSANDRA] = "cassandra",
		[STORE_AZURE] = "azure",
	};

	return names[store];
}

static const StoreModel *
model_of(StoreKind store)
{
	static const StoreModel *const models[] = {
		[STORE_CONSUL] = &consul_model,
		[STORE_CASSANDRA] = &cassandra_model,
		[STORE_AZURE] = &azure_model,
	};

	return models[store];
}

/* ---- making ---- */

/* A strength of one kind of bad luck. */
static int
strength(int strong)
{
	static const int parts[] = {0, 0, 10, 3, 1};
	int			part = parts[sim_below(lengthof(parts))];

	return part == 0 ? 0 : strong / part;
}

static void
make_weather(Weather *w)
{
	memset(w, 0, sizeof(*w));
	w->leak = 250000;
	w->watch_miss = strength(300000);
	w->stale_list = 500000;
	if (sim_below(8) == 0)
		return;					/* only deliberate events */
	w->lose_request = strength(100000);
	w->lose_answer = strength(100000);
	w->repeat = strength(200000);
	w->delay = strength(200000);
	w->long_delay = strength(60000);
	w->refuse = strength(60000);
	w->break_answer = strength(100000);
	w->false_renew = strength(300000);
	w->false_gone = strength(20000);
	w->watch_reset = strength(50000);
	w->pause = strength(2000);
	w->kill = strength(500);
}

static void
make_nodes(Schedule *s)
{
	static const int session_leases[] = {
		3000, 3000, 5000, 5000, 10000, 15000, 20000
	};
	static const int key_leases[] = {
		5000, 5000, 6300, 6300, 8000, 10000, 15000
	};
	static const int blob_leases[] = {
		15000, 15000, 15000, 15500, 16000, 20000, 45000
	};
	const int  *leases = s->store == STORE_CASSANDRA ? key_leases :
		s->store == STORE_AZURE ? blob_leases : session_leases;
	bool		mixed = sim_below(3) == 0;
	int			lease = leases[sim_below(lengthof(key_leases))];
	bool		takeover = sim_below(8) != 0;
	int			margin = sim_below(2) == 0 ? 500 : 1000;
	int			rate = sim_below(3) == 0 ? 0 : 1 + (int) sim_below(2);

	for (int i = 0; i < s->nnodes; i++)
	{
		if (mixed)
			lease = leases[sim_below(lengthof(key_leases))];
		s->lease_ms[i] = lease;
		s->margin_ms[i] = lease < (leases == key_leases ? 6000 : 5000) ? 500 :
			margin;
		s->takeover[i] = mixed ? sim_below(2) == 0 : takeover;
		s->campaigns[i] = (uint32) sim_below(1 << s->nelections);
		if (i == 0 || sim_below(2) == 0)
			s->campaigns[i] = (1 << s->nelections) - 1;
	}

	/*
	 * G1 asks that any two nodes' rates differ by less than margin / lease.
	 * Half of that each way or, if beyond, five times as much.
	 */
	for (int i = 0; i < s->nnodes; i++)
	{
		int			most = 1000000;

		for (int k = 0; k < s->nnodes; k++)
			most = Min(most, (int) (INT64CONST(1000000) * s->margin_ms[k] /
									s->lease_ms[k]));
		most = most * 48 / 100;
		if (s->beyond)
			most *= 5;
		if (s->beyond || rate == 2)
			s->ppm[i] = sim_below(2) == 0 ? most : -most;
		else if (rate == 1)
			s->ppm[i] = (int) sim_below(2 * most + 1) - most;
	}
}

/*
 * The gateways allow for as much skew as leaves three attempts to renew (a
 * worker says so if it is more), and Cassandra's clocks stay within it, or
 * exceed it.
 */
static void
make_clocks(Schedule *s)
{
	static const int skews[] = {2000, 1000, 500, 300, 0};
	static const int wanders[] = {0, 50000, 400000};
	int			most = PG_INT32_MAX;
	int			span;

	for (int i = 0; i < s->nnodes; i++)
		most = Min(most, s->lease_ms[i] - s->lease_ms[i] / 3 -
				   LE_ATTEMPTS * (int) (LE_MIN_ATTEMPT / LE_MSEC) - 1000 -
				   s->margin_ms[i]);
	for (int i = (int) sim_below(2); i < lengthof(skews); i++)
	{
		s->max_skew_ms = skews[i];
		if (skews[i] <= most)
			break;
	}
	span = s->fair ? 0 : s->beyond ? 3000 + 3 * s->max_skew_ms :
		s->max_skew_ms;
	for (int c = 0; c < COORDINATORS; c++)
		s->skew_ms[c] = sim_below(4) == 0 ? span : (int) sim_below(span + 1);
	s->wander = s->fair ? 0 : wanders[sim_below(lengthof(wanders))];
}

/*
 * As documented, or as Azurite; when leases begin, and how late they end.
 */
static void
make_service(Schedule *s)
{
	static const int late[] = {0, 0, 1000, 60000};

	s->azurite = sim_below(4) == 0;
	s->cuts_off = sim_below(2) == 0;
	s->late_ms = s->fair ? 0 : late[sim_below(lengthof(late))];
}

static Happening
draw_kind(uint64 present)
{
	for (;;)
	{
		int			left = 0;

		for (int k = 0; k < HAPPEN_KINDS; k++)
			left += (present >> k) & 1 ? kinds[k].weight : 0;
		left = (int) sim_below(left);
		for (int k = 0; k < HAPPEN_KINDS; k++)
		{
			left -= (present >> k) & 1 ? kinds[k].weight : 0;
			if (left < 0)
				return k;
		}
	}
}

/* Misfortunes seldom come alone: this one strikes during or after the last. */
static void
follow(Intervention *v, const Intervention *last)
{
	v->node = last->node;
	v->election = last->election;
	v->at = last->at + sim_span(0, sim_below(2) == 0 ? last->span : 0) +
		(sim_below(2) == 0 ? last->span : 0) + sim_span(0, LE_SEC);
}

static void
make_events(Schedule *s)
{
	uint64		present = 0;
	int			n = 4 + (int) sim_below(20);

	while (present == 0)
		for (int k = 0; k < HAPPEN_AMBUSH; k++)
			if (sim_below(2) == 0 && (kinds[k].weight > 1 ||
									  sim_below(4) == 0))
				present |= UINT64CONST(1) << k;
	for (int i = 0; i < n; i++)
	{
		Intervention *v = &s->events[s->nevents++];

		memset(v, 0, sizeof(*v));
		v->what = draw_kind(present);
		v->node = (int) sim_below(s->nnodes);
		v->election = (int) sim_below(s->nelections);
		v->at = LE_SEC + sim_span(0, s->storm);
		v->span = sim_span(LE_MSEC, sim_below(3) == 0 ? 40 * LE_SEC :
						   8 * LE_SEC);
		v->random = (uint32) sim_random();
		if (i > 0 && sim_below(5) < 2)
			follow(v, v - 1);
	}
}

/* Before, during or after another event, or at any time. */
static le_time
time_for_work(const Schedule *s, int others)
{
	const Intervention *v = &s->events[sim_below(others)];

	switch (sim_below(3))
	{
		case 0:
			return LE_SEC + sim_span(0, s->storm);
		case 1:
			return Max(v->at - sim_span(0, 2 * LE_SEC), LE_SEC);
		default:
			return v->at + sim_span(0, Min(v->span, 4 * LE_SEC));
	}
}

/* Events that end a term under the transactions bound to it. */
static void
make_end(Schedule *s, const Intervention *work)
{
	static const Happening ends[] = {HAPPEN_RELEASE, HAPPEN_RELEASE,
		HAPPEN_STEP_DOWN, HAPPEN_SHUTDOWN, HAPPEN_FREEZE, HAPPEN_SUSPEND,
	HAPPEN_CUT, HAPPEN_INVALIDATE};
	Intervention *v = &s->events[s->nevents++];

	*v = *work;
	v->what = ends[sim_below(lengthof(ends))];
	v->at += sim_span(0, work->span + LE_SEC / 4);
	v->span = sim_span(LE_SEC, 20 * LE_SEC);
	v->random = (uint32) sim_random();
}

/* Drawn apart, too; half of all schedules go without. */
static void
make_work(Schedule *s)
{
	static const le_duration periods[] = {3 * LE_SEC, 10 * LE_SEC,
	30 * LE_SEC};
	int			others = s->nevents;
	uint64		before = sim.random;
	int			n;

	sim.random = sim_mix(s->seed ^ UINT64CONST(0x70B5));
	n = sim_below(2) == 0 ? 0 : 1 + (int) sim_below(8);
	s->every = periods[sim_below(lengthof(periods))];
	s->weather.backend_pause = strength(40000);
	for (int i = 0; i < n && s->nevents < MAX_EVENTS - 1; i++)
	{
		Intervention *v = &s->events[s->nevents++];

		memset(v, 0, sizeof(*v));
		v->what = HAPPEN_JOB;
		if (sim_below(2) == 0)
		{
			v->what = HAPPEN_TRANSACTION;
			v->node = sim_below(4) == 0 ? (int) sim_below(s->nnodes) : -1;
		}
		v->election = (int) sim_below(s->nelections);
		v->at = time_for_work(s, others);
		v->span = sim_span(LE_MSEC, sim_below(3) == 0 ? 20 * LE_SEC :
						   2 * LE_SEC);
		v->random = (uint32) sim_random();
		if (v->what == HAPPEN_TRANSACTION && sim_below(2) == 0)
			make_end(s, v);
	}
	sim.random = before;
}

/*
 * In one of eight a term needs progress, and schedulers stop: of one node,
 * mostly the leader's, or of all.  Drawn apart, too.
 */
static void
make_progress(Schedule *s)
{
	static const int limits[] = {2, 3, 5, 8};
	uint64		before = sim.random;
	int			n;

	sim.random = sim_mix(s->seed ^ UINT64CONST(0x9406E55));
	s->within = sim_below(8) == 0 ? limits[sim_below(lengthof(limits))] : 0;
	n = s->within == 0 ? 0 : (int) sim_below(4);
	for (int i = 0; i < n && s->nevents < MAX_EVENTS; i++)
	{
		Intervention *v = &s->events[s->nevents++];

		memset(v, 0, sizeof(*v));
		v->what = HAPPEN_CRON_STOPS;
		v->node = sim_below(4) == 0 ? (int) sim_below(s->nnodes) : -1;
		v->election = (int) sim_below(s->nelections);
		v->at = 2 * LE_SEC + sim_span(0, s->storm / 2);
		v->span = sim_span(s->within * LE_SEC, s->storm);
		v->random = (uint32) sim_below(3);	/* 0: all */
	}
	sim.random = before;
}

/* Drawn apart, so that most schedules stay the same for their seed. */
static void
make_disk(Schedule *s)
{
	uint64		before = sim.random;

	sim.random = sim_mix(s->seed ^ UINT64CONST(0xD15C));
	s->weather.full_disk = sim_below(4) == 0 ? strength(300000) : 0;
	sim.random = before;
}

/*
 * Trouble that chance alone would cause too seldom.  Drawn apart, so that the
 * rest of a schedule stays the same for its seed.
 */
static void
make_ambushes(Schedule *s)
{
	uint64		before = sim.random;
	int			n;

	sim.random = sim_mix(s->seed ^ UINT64CONST(0xA3B05));
	n = sim_below(4) == 0 ? 1 + (int) sim_below(3) : 0;
	for (int i = 0; i < n; i++)
	{
		Intervention *v = &s->events[s->nevents++];

		memset(v, 0, sizeof(*v));
		v->what = HAPPEN_AMBUSH;
		v->node = sim_below(4) == 0 ? (int) sim_below(s->nnodes) : -1;
		v->election = (int) sim_below(s->nelections);
		v->at = LE_SEC * 4 + sim_span(0, s->storm / 2);
		v->span = sim_span(LE_SEC / 2, 8 * LE_SEC);
	}
	sim.random = before;
}

static Intervention *
add_event(Schedule *s, Happening what, int node, int election, le_time at)
{
	Intervention *v = &s->events[s->nevents++];

	memset(v, 0, sizeof(*v));
	v->what = what;
	v->node = node;
	v->election = election;
	v->at = at;
	return v;
}

/*
 * One backend asks for another node's election, and stops waiting; the leader
 * steps down; another backend asks.  All is slow, so that the answer to the
 * first question may come when only that to the second counts.
 */
static void
make_haste(Schedule *s)
{
	uint64		before = sim.random;
	le_time		at;
	int			node,
				e;

	sim.random = sim_mix(s->seed ^ UINT64CONST(0x8A57E));
	if (sim_below(8) == 0 && s->nevents + 5 <= MAX_EVENTS)
	{
		at = 3 * LE_SEC + sim_span(0, s->storm / 2);
		node = 1 + (int) sim_below(s->nnodes - 1);
		e = (int) sim_below(s->nelections);
		add_event(s, HAPPEN_SLOW, node, e, at)->span = 6 * LE_SEC;
		add_event(s, HAPPEN_ACQUIRE, node, e, at + LE_MSEC);
		add_event(s, HAPPEN_CANCEL, node, e, at + sim_span(2, 20) * LE_MSEC);
		/* so long that the election is free, if no other node contends */
		add_event(s, HAPPEN_STEP_DOWN, -1, e, at + 50 * LE_MSEC);
		s->events[s->nevents - 1].span = 20 * LE_SEC;
		s->events[s->nevents - 1].random = 0x2000;	/* only for this one */
		add_event(s, HAPPEN_ACQUIRE, node, e,
				  at + LE_SEC + sim_span(0, 3 * LE_SEC))->random = 1;
	}
	sim.random = before;
}

/*
 * The store gets the records of jobs back that it had a while ago, or loses
 * them all, as of a snapshot that is restored or a table that is emptied; and
 * perhaps it loses all terms, too.
 */
static void
make_restore(Schedule *s)
{
	uint64		before = sim.random;
	le_time		at;

	sim.random = sim_mix(s->seed ^ UINT64CONST(0x4E57));
	if (sim_below(8) == 0 && s->nevents + 2 <= MAX_EVENTS)
	{
		at = 2 * LE_SEC + sim_span(0, s->storm / 2);
		if (sim_below(4) != 0)
			add_event(s, HAPPEN_RECORDS, 0, 0, at);
		at += sim_span(0, s->storm / 2);
		add_event(s, HAPPEN_RECORDS, 0, 0, at)->random =
			1 + 2 * (sim_below(3) == 0);
	}
	sim.random = before;
}

/*
 * Or the only candidate crashes and comes back like a copy of itself: it knows
 * its predecessor by name only, and has to wait it out.
 */
static void
make_return(Schedule *s, Intervention *v)
{
	uint64		before = sim.random;

	sim.random = sim_mix(s->seed ^ UINT64CONST(0x4E7A4));
	if (sim_below(3) == 0)
	{
		for (int i = 1; i < s->nnodes; i++)
			s->campaigns[i] = 0;
		v->span = LE_SEC + sim_span(0, s->lease_ms[0] * LE_MSEC);
		v->random = 1;			/* the state file is lost */
	}
	sim.random = before;
}

/*
 * The successor begins to contend while the term ends: its first read of the
 * key may be older than the watch's answer meanwhile.
 */
static void
make_newcomer(Schedule *s, uint64 random)
{
	const Intervention *end = &s->events[0];
	Intervention *v = &s->events[s->nevents++];

	for (int i = 1; i < s->nnodes; i++)
		s->campaigns[i] &= ~(1 << end->election);
	memset(v, 0, sizeof(*v));
	v->what = HAPPEN_CAMPAIGN;
	v->node = 1;
	v->election = end->election;
	v->at = end->at - (le_duration) (random % (5 * LE_MSEC));
}

/* Or the term ends in good order: the node steps down, or is shut down. */
static void
make_handoff(Schedule *s, Intervention *v)
{
	uint64		random = sim_mix(s->seed ^ UINT64CONST(0x4A17D));

	if (random % 3 != 0)
		return;
	if ((random >> 8) % 2 != 0)
		v->what = HAPPEN_SHUTDOWN;
	else
	{
		v->what = HAPPEN_STEP_DOWN;
		v->random = STEP_DOWN_PLAIN;
	}
	if ((random >> 16) % 2 != 0)
		make_newcomer(s, random >> 24);
}

/* All nodes get another lease, each while the others may seek its terms. */
static void
make_reloads(Schedule *s, Intervention *v, uint64 random)
{
	v->what = HAPPEN_RELOAD;
	v->random = s->lease_ms[0] == 15000 ? 0 : 1;
	for (int i = 0; i < s->nnodes; i++)
	{
		Intervention *earlier = &s->events[s->nevents++];

		*earlier = *v;
		earlier->node = i;
		earlier->at -= random % (40 * LE_MSEC);
		random = sim_mix(random);
	}
}

/* Or the store ends it: an operator's order, or no node may take it over. */
static void
make_ended(Schedule *s, Intervention *v)
{
	uint64		random = sim_mix(s->seed ^ UINT64CONST(0xE4DED));

	if (s->store != STORE_CONSUL || v->what != HAPPEN_CRASH ||
		v->span != 200 * LE_SEC)
		return;
	if (random % 4 == 0)
		v->what = HAPPEN_INVALIDATE;
	else if (random % 4 == 1)
		for (int i = 0; i < s->nnodes; i++)
			s->takeover[i] = false;
	else if (random % 4 == 2)
		make_reloads(s, v, random >> 8);
}

/* A term ends in fair weather, to compare with the stated bounds. */
static void
make_fair(Schedule *s)
{
	Intervention *v = &s->events[s->nevents++];
	int			lease = s->lease_ms[0];

	s->fair = true;
	s->beyond = false;
	memset(&s->weather, 0, sizeof(s->weather));
	for (int i = 0; i < s->nnodes; i++)
	{
		s->lease_ms[i] = lease;
		s->margin_ms[i] = s->margin_ms[0];
		s->takeover[i] = true;
		s->ppm[i] = 0;
		s->campaigns[i] = (1 << s->nelections) - 1;
	}
	memset(v, 0, sizeof(*v));
	v->what = HAPPEN_CRASH;
	v->node = -1;				/* any leader */
	v->election = (int) sim_below(s->nelections);
	v->at = LE_SEC * 3 + sim_span(lease * LE_MSEC, 3 * lease * LE_MSEC);
	v->span = 200 * LE_SEC;
	s->storm = v->at - LE_SEC;
	make_return(s, v);
	if (v->span == 200 * LE_SEC)
		make_handoff(s, v);
	make_ended(s, v);
}

/* Every third seed is for Cassandra, every sixth for Azure. */
void
schedule_make(Schedule *s, uint64 seed)
{
	schedule_make_for(s, seed, seed % 3 == 1 ? STORE_CASSANDRA :
					  seed % 6 == 5 ? STORE_AZURE : STORE_CONSUL);
}

void
schedule_make_for(Schedule *s, uint64 seed, StoreKind store)
{
	memset(s, 0, offsetof(Schedule, events));
	sim.random = sim_mix(seed);
	s->seed = seed;
	s->store = store;
	s->nnodes = 2 + (int) sim_below(2);
	s->nelections = 1 + (int) sim_below(2);
	s->storm = sim_span(10 * LE_SEC, 40 * LE_SEC);
	if (store == STORE_AZURE)
		s->storm *= 2;			/* leases are long */
	s->beyond = sim_below(16) == 0;
	memset(s->ppm, 0, sizeof(s->ppm));
	make_weather(&s->weather);
	make_nodes(s);
	if (sim_below(16) == 0)
		make_fair(s);
	else
	{
		make_events(s);
		make_ambushes(s);
		make_haste(s);
		make_work(s);
		make_disk(s);
		make_progress(s);
		make_restore(s);
	}
	if (store == STORE_CASSANDRA)
		make_clocks(s);
	if (store == STORE_AZURE)
		make_service(s);
}

void
schedule_print(const Schedule *s)
{
	const Weather *w = &s->weather;

	printf("seed " UINT64_FORMAT ": %s, %d nodes, %d elections, storm of %.1f s%s%s\n",
		   s->seed, store_kind_name(s->store), s->nnodes, s->nelections,
		   s->storm / (double) LE_SEC,
		   s->beyond ? ", clocks beyond the assumptions" : "",
		   s->fair ? ", fair weather" : "");
	if (s->within != 0)
		printf("progress within %d s\n", s->within);
	printf("per million: lose %d/%d repeat %d delay %d/%d refuse %d break %d "
		   "renew %d/%d list %d watch %d/%d leak %d pause %d kill %d\n",
		   w->lose_request, w->lose_answer, w->repeat, w->delay,
		   w->long_delay, w->refuse, w->break_answer, w->false_renew,
		   w->false_gone, w->stale_list, w->watch_miss, w->watch_reset,
		   w->leak, w->pause, w->kill);
	if (s->store == STORE_CASSANDRA)
		printf("coordinators %d, %d, %d ms ahead, %d ms allowed for; "
			   "%d wander\n", s->skew_ms[0], s->skew_ms[1], s->skew_ms[2],
			   s->max_skew_ms, s->wander);
	if (s->store == STORE_AZURE)
		printf("%s, leases begin %s and end up to %d ms late\n",
			   s->azurite ? "Azurite" : "as documented",
			   s->cuts_off ? "with the second" : "at once", s->late_ms);
	for (int i = 0; i < s->nnodes; i++)
		printf("n%d: lease %d ms, margin %d ms, clock %+d ppm, takeover %s, "
			   "campaigns %x\n", i, s->lease_ms[i], s->margin_ms[i],
			   s->ppm[i], s->takeover[i] ? "on" : "off", s->campaigns[i]);
	for (int i = 0; i < s->nevents; i++)
	{
		const Intervention *v = &s->events[i];

		if (!v->dropped)
			printf("%2d: %10.4f %s n%d e%d, %.3f s\n", i,
				   v->at / (double) LE_SEC, kinds[v->what].name, v->node,
				   v->election, v->span / (double) LE_SEC);
	}
}

/* ---- carrying out ---- */

static void
ask(SimNode *n, const Intervention *v, LeRequestKind kind)
{
	LeAsk		a;
	bool		by_backend = false;
	int			proc = (int) (v->random % MAX_BACKENDS);

	if (n->backends[proc].state == ASK_POSTED ||
		n->backends[proc].state == ASK_TAKEN || n->backends[proc].busy)
		return;
	memset(&a, 0, offsetof(LeAsk, election));
	a.kind = kind;
	strlcpy(a.election, name_of_election(v->election), sizeof(a.election));
	a.value[0] = '\0';
	switch ((v->random >> 8) % 4)
	{
		case 0:
			by_backend = true;
			break;
		case 1:
			by_backend = true;
			a.owner = LE_OWNER_XACT;
			break;
		default:
			break;
	}
	if (((v->random >> 12) & 1) != 0)
		a.wait_until = clock_boot(n, sim.now) + v->span;
	a.hold_off = v->span;
	a.all = kind == LE_ASK_STEP_DOWN && ((v->random >> 13) & 3) == 0;
	if (((v->random >> 15) & 1) != 0)
	{
		a.has_value = true;
		pg_snprintf(a.value, sizeof(a.value), "v%u", (v->random >> 16) % 3);
	}
	backend_ask(n, proc, &a, by_backend);
}

static void
freeze(SimNode *n, le_duration span)
{
	if (!n->running)
		return;
	n->frozen_until = Max(n->frozen_until, sim.now + span);
	n->run_at = n->run_at == NEVER ? NEVER : Max(n->run_at, n->frozen_until);
}

/* The whole machine sleeps; CLOCK_MONOTONIC does not notice. */
static void
suspend(SimNode *n, le_duration span)
{
	if (!n->running || n->frozen_until > sim.now)
		return;
	sim.counts.suspends++;
	freeze(n, span);
	n->clock.suspended += span;
	n->wakes_at = sim.now + span;
	if (n->run_at != NEVER && n->run_at < n->frozen_until)
		n->run_at = n->frozen_until;
}

static void
crash(SimNode *n, const Intervention *v)
{
	if (!n->up)
		return;
	sim.counts.crashes++;
	if ((v->random & 1) != 0)
		n->has_statefile = false;	/* as after a reboot, or in a copy */
	node_stop(n);
	network_at(sim.now + v->span, AT_START, n->number, 0);
}

static void
shut_down(SimNode *n, const Intervention *v)
{
	if (!n->up || n->stopping)
		return;
	n->stopping = true;
	n->told_to_stop = sim.now;
	if (!n->running)
		node_stop(n);
	else
		node_signal(n);
	network_at(sim.now + v->span + 3 * LE_SEC, AT_START, n->number, 0);
}

static void
on_backend(SimNode *n, const Intervention *v)
{
	int			proc = (int) (v->random % MAX_BACKENDS);
	Backend    *b = &n->backends[proc];

	if (v->what == HAPPEN_EXIT)
		backend_exit(n, proc);
	else if (b->busy)
		process_cancel(n, proc);
	else if (b->state != ASK_ANSWERED || ((v->random >> 8) & 1) != 0)
		backend_cancel(n, proc);
}

/* A proc whose backend is idle; -1: all are busy. */
static int
idle_proc(const SimNode *n, uint32 from)
{
	for (int i = 0; i < MAX_BACKENDS; i++)
	{
		int			proc = (int) ((from + i) % MAX_BACKENDS);
		const Backend *b = &n->backends[proc];

		if (!b->busy && b->state == ASK_FREE)
			return proc;
	}
	return -1;
}

/* pg_cron fires on every node, with delays and random bits of its own. */
static void
fire_job(const Intervention *v)
{
	uint64		r = sim_mix(v->random);
	Script		script = {.what = HAPPEN_JOB};

	script.election = v->election;
	script.job = (int) (r & 3) == 0 ? 1 : 0;
	script.span = v->span;
	for (int i = 0; i < sim.nnodes; i++, r = sim_mix(r))
	{
		SimNode    *n = sim.node[i];
		int			proc = idle_proc(n, v->random);

		if (!n->up || proc < 0)
			continue;
		script.random = (uint32) (r >> 8);
		script.delay = (le_duration) ((r >> 40) % (300 * LE_MSEC));
		script_set_tick(&script);
		process_start(n, proc, &script);
	}
}

static void
stop_cron(SimNode *n, const Intervention *v)
{
	for (int i = 0; i < sim.nnodes; i++)
		if (v->random == 0 || sim.node[i] == n)
			sim.node[i]->cron_until = Max(sim.node[i]->cron_until,
										  sim.now + v->span);
}

static void
begin_transaction(SimNode *n, const Intervention *v)
{
	Script		script = {.what = HAPPEN_TRANSACTION};
	int			proc = idle_proc(n, v->random);

	if (proc < 0)
		return;
	script.election = v->election;
	script.span = v->span;
	script.random = v->random;
	process_start(n, proc, &script);
}

/* Only a leader has a value to publish, or a term to release. */
static bool
asks_leader(const Intervention *v)
{
	return sim.model->store->key_leases &&
		(v->what == HAPPEN_RENEW || v->what == HAPPEN_RELEASE) &&
		((v->random >> 20) & 1) != 0;
}

void
schedule_happen(int number)
{
	const Intervention *v = &sim.schedule->events[number];
	SimNode    *n;
	int			leader = check_leader(v->election);

	if (!sim.storm)
		return;
	if (v->node < 0 && leader < 0)
		return;
	n = sim.node[v->node < 0 || (leader >= 0 && asks_leader(v)) ? leader :
				 v->node];
	sim.counts.happened[v->what]++;
	trace(NULL, "## %s n%d e%d, %.3f s", kinds[v->what].name, n->number,
		  v->election, v->span / (double) LE_SEC);
	if (v->what == HAPPEN_JOB)
	{
		fire_job(v);
		return;
	}
	if (v->what == HAPPEN_CRON_STOPS)
	{
		stop_cron(n, v);
		return;
	}
	if (!n->up && ((v->what >= HAPPEN_ACQUIRE && v->what <= HAPPEN_EXIT) ||
				   v->what == HAPPEN_TRANSACTION))
		return;
	switch (v->what)
	{
		case HAPPEN_FREEZE:
			freeze(n, v->span);
			break;
		case HAPPEN_KILL:
			node_kill_worker(n);
			break;
		case HAPPEN_TERMINATE:
			node_signal(n);
			break;
		case HAPPEN_CRASH:
			crash(n, v);
			break;
		case HAPPEN_SHUTDOWN:
			shut_down(n, v);
			break;
		case HAPPEN_SUSPEND:
			suspend(n, v->span);
			break;
		case HAPPEN_CUT:
			n->cut_gateway = ((v->random >> 1) & 1) != 0 &&
				sim.schedule->store == STORE_CASSANDRA ?
				(int) (v->random & 1) : -1;
			n->cut_from = sim.now;
			n->cut_until = sim.now + v->span;
			break;
		case HAPPEN_LOSE_ANSWERS:
			n->deaf_until = sim.now + v->span;
			break;
		case HAPPEN_WALL_JUMP:
			n->clock.wall += ((v->random & 1) != 0 ? 1 : -1) * 3600 * LE_SEC;
			break;
		case HAPPEN_RELOAD:
			/* with a margin that allows for any of our clocks */
			n->lease_ms = (v->random & 1) != 0 ? 15000 :
				sim.schedule->store == STORE_CASSANDRA ? 10000 :
				sim.schedule->store == STORE_AZURE ? 20000 : 5000;
			n->margin_ms = n->lease_ms / 5;
			n->moved = n->moved != ((v->random & 2) != 0);
			node_reload(n);
			break;
		case HAPPEN_NEW_SERVER:
			sim.model->new_server(v->span / 4);
			break;
		case HAPPEN_STORE_DOWN:
			sim.model->new_server(v->span);
			break;
		case HAPPEN_WATCH_HANGS:
			sim.model->hang_watches(sim.now + v->span);
			break;
		case HAPPEN_INVALIDATE:
			sim.model->invalidate(n->session);
			break;
		case HAPPEN_DELETE_KEY:
		case HAPPEN_OVERWRITE_KEY:
			check_allow_overlap(v->election);
			sim.model->write_by_hand(v->election,
									 v->what == HAPPEN_DELETE_KEY);
			break;
		case HAPPEN_FOREIGN_LOCK:
			if (sim.schedule->store == STORE_CONSUL)
				check_allow_overlap(v->election);
			traces_deed(v->election, "another client's lock");
			sim.model->foreign_lock(v->election);
			break;
		case HAPPEN_ACQUIRE:
			ask(n, v, LE_ASK_ACQUIRE);
			break;
		case HAPPEN_RENEW:
			ask(n, v, LE_ASK_RENEW);
			break;
		case HAPPEN_RELEASE:
			ask(n, v, LE_ASK_RELEASE);
			break;
		case HAPPEN_CAMPAIGN:
			ask(n, v, LE_ASK_CAMPAIGN);
			break;
		case HAPPEN_WITHDRAW:
			ask(n, v, LE_ASK_WITHDRAW);
			break;
		case HAPPEN_STEP_DOWN:
			ask(n, v, LE_ASK_STEP_DOWN);
			break;
		case HAPPEN_READ_LEADER:
			ask(n, v, LE_ASK_LEADER);
			break;
		case HAPPEN_CANCEL:
		case HAPPEN_EXIT:
			on_backend(n, v);
			break;
		case HAPPEN_AMBUSH:
			n->ambush = v->span;
			break;
		case HAPPEN_RECORDS:
			sim.model->records((v->random & 1) != 0);
			for (int e = 0; e < sim.nelections && (v->random & 2) != 0; e++)
			{
				check_allow_overlap(e);
				sim.model->write_by_hand(e, true);
			}
			break;
		case HAPPEN_JOB:
		case HAPPEN_CRON_STOPS:
			break;
		case HAPPEN_TRANSACTION:
			begin_transaction(n, v);
			break;
		case HAPPEN_SLOW:
			sim.slow_until = sim.now + v->span;
			break;
		case HAPPEN_KINDS:
			break;
	}
}

/* The next event: the network's, or a worker's turn. */
static bool
step(le_time until)
{
	le_time		next = network_next();
	SimNode    *runs = NULL;

	for (int i = 0; i < sim.nnodes; i++)
		if (sim.node[i]->run_at < next)
		{
			runs = sim.node[i];
			next = runs->run_at;
		}
	if (next > until)
	{
		sim.now = Max(sim.now, until);
		return false;
	}
	sim.now = Max(sim.now, next);
	if (runs != NULL)
		node_run(runs);
	else
		network_step();
	check_step();
	return true;
}

static void
run_until(le_time until)
{
	while (!sim.failed && step(until))
		;
}

static bool
all_led(void)
{
	for (int e = 0; e < sim.nelections; e++)
		if (check_leader(e) < 0)
			return false;
	return true;
}

/* Backends under which a term could end later on. */
static void
dismiss_backends(SimNode *n)
{
	for (int i = 0; n->up && i < PROCS; i++)
	{
		const Backend *b = &n->backends[i];

		if (b->busy && (b->bound || b->stopped ||
						b->script.what == HAPPEN_TRANSACTION ||
						(b->script.what == HAPPEN_JOB &&
						 script_goes(&b->script))))
			backend_exit(n, i);
	}
}

/* All faults end now. */
static void
clear_up(void)
{
	bool		deleted = false;

	sim.storm = false;
	sim.model->clear_up();
	for (int i = 0; i < sim.nnodes; i++)
	{
		SimNode    *n = sim.node[i];

		n->cut_until = n->deaf_until = n->ambush = 0;
		dismiss_backends(n);
		if (n->frozen_until > sim.now)
		{
			/* a machine that is woken early has slept for less */
			n->clock.suspended -= Max(n->wakes_at - sim.now, 0);
			n->frozen_until = sim.now;
			if (n->run_at != NEVER)
				n->run_at = sim.now;
		}
		n->wakes_at = 0;
	}
	trace(NULL, "## the weather clears up");

	/* an operator deletes keys that were overwritten by hand */
	for (int e = 0; e < sim.nelections; e++)
		if (sim.model->key(e)->exists && !sim.model->key(e)->usable)
		{
			check_allow_overlap(e);
			sim.model->write_by_hand(e, true);
			deleted = true;
		}
	if (deleted)
		run_until(sim.now + 61 * LE_SEC);
	for (int e = 0; e < sim.nelections; e++)
		if (sim.forgotten[e] && sim.model->forget != NULL)
		{
			/* not while a node may believe in an earlier token */
			run_until(Max(sim.now, sim.outside_until[e]));
			sim.model->forget(e);
		}
}

/*
 * A blob's lease that was granted in the storm may end that late, and a reader
 * that finds it broken waits for a whole lease from then on.
 */
static le_duration
calm_bound(void)
{
	return CALM_BOUND + sim.schedule->late_ms * LE_MSEC;
}

/* A node that is down, or that may not contend, need not lead. */
static void
check_leaders_come(void)
{
	le_time		end = sim.now + calm_bound();
	const char *missing = "";

	while (!sim.failed && !all_led() && step(end))
		;
	if (sim.failed)
		return;
	for (int e = 0; e < sim.nelections; e++)
		if (check_leader(e) < 0)
			sim_fail("e%d has no leader %.1f s after the last fault%s", e,
					 calm_bound() / (double) LE_SEC, missing);
}

/* Is a backend at the election's jobs, or about to be? */
static bool
job_under_way(const SimNode *n, int election)
{
	for (int i = 0; i < MAX_BACKENDS; i++)
		if (n->backends[i].busy &&
			n->backends[i].script.what == HAPPEN_JOB &&
			n->backends[i].script.election == election)
			return true;
	return false;
}

/* A tick that is due now is claimed and done; false: no backend is free. */
static bool
begin_last_job(int election)
{
	SimNode    *n = sim.node[check_leader(election)];
	int			proc = idle_proc(n, 0);
	Script		script = {.what = HAPPEN_JOB};

	if (sim.claims == 0 || proc < 0 ||
		le_owner_of(node_slot(n, election)) != LE_OWNER_NODE)
		return false;
	script.election = election;
	script.tick = (sim.now / sim.schedule->every + 2) *
		sim.schedule->every / LE_MSEC;
	script.span = LE_SEC;
	script.random = CALM_JOB | (sim.schedule->seed & CALM_JOB_MAY);
	if (claim_stays(election, script.job, sim.last_token[election],
					script_is_run(&script)) ||
		job_under_way(n, election))
		script.random &= ~CALM_JOB_CATCHES_UP;
	process_start(n, proc, &script);
	return true;
}

/*
 * The longest belief after a loss: a lease; with a clock slower than assumed,
 * so that nothing is done in time, the session's lifetime in the store at its
 * last renewal.
 */
static le_duration
time_to_notice(void)
{
	const LeStore *store = sim.model->store;
	le_duration longest = 0;

	/* only the watch may tell of a key edited by hand */
	for (int e = 0; e < sim.nelections; e++)
		if (sim.outside_until[e] != 0)
			longest = (store->watch.park_ms +
					   store->watch.park_grace_ms) * LE_MSEC *
				11 / 10;
	for (int i = 0; i < sim.nnodes; i++)
	{
		le_duration span = sim.node[i]->lease_ms * LE_MSEC * 11 / 10;
		int			ppm = sim.schedule->ppm[i];

		if (sim.schedule->beyond && ppm < 0)
			span = le_session_ttl(span, 10 * LE_SEC) * 1000000 /
				(1000000 + ppm);
		longest = Max(longest, span);
	}
	return longest;
}

/* A term that was given up in the storm, or for what was left undone there. */
static bool
any_term_ends(void)
{
	for (int e = 0; e < sim.nelections; e++)
	{
		int			leader = check_leader(e);

		if (leader >= 0 && sim.node[leader]->drained[e] != 0)
			return true;
	}
	return false;
}

/*
 * Leaders stay, and no node asks the store in a tight loop.  But first nodes
 * get the time to notice losses.
 */
static void
check_they_stay(void)
{
	uint64		token[MAX_ELECTIONS];
	uint64		requests;
	uint64		jobs;
	le_duration span = 8 * LE_SEC;
	int			most;

	run_until(sim.now + time_to_notice());
	check_leaders_come();
	if (!sim.failed && any_term_ends())
	{
		run_until(sim.now + le_drain_timeout * LE_MSEC + 2 * LE_DRAIN_GRACE);
		check_leaders_come();
	}
	if (sim.failed)
		return;
	for (int e = 0; e < sim.nelections; e++)
		token[e] = sim.last_token[e];
	requests = sim.counts.requests;
	jobs = sim.counts.completed;
	for (int e = 0; e < sim.nelections; e++)
		if (begin_last_job(e))
			jobs++;
	run_until(sim.now + span);
	if (sim.failed)
		return;
	if (sim.counts.completed < jobs)
		sim_fail("a job was not done in calm weather");
	for (int e = 0; e < sim.nelections; e++)
		if (check_leader(e) < 0 || sim.last_token[e] != token[e])
			sim_fail("e%d changed its leader in calm weather", e);
		else
			claims_check_left(e, check_leader(e));
	most = sim.nnodes * (sim.nelections + 2) * 8 * (int) (span / LE_SEC);
	if (sim.counts.requests - requests > (uint64) most)
		sim_fail(UINT64_FORMAT " requests in %.0f s of calm weather",
				 sim.counts.requests - requests, span / (double) LE_SEC);
	check_calm();
}

/* The longest time until an election has a leader again. */
static le_duration
handover_bound(const Schedule *s)
{
	le_duration lease = s->lease_ms[0] * LE_MSEC;
	bool		key_leases = sim.model->store->key_leases;
	le_duration bound = s->store == STORE_CASSANDRA ? KEY_CRASH_BOUND(lease) :
		s->store == STORE_AZURE ? BLOB_CRASH_BOUND(lease) :
		CRASH_BOUND(lease);

	if (s->events[0].what == HAPPEN_INVALIDATE)
		return Max(DESTROYED_BOUND(lease), DELAYED_BOUND(lease)) + LE_SEC / 2;
	if (s->events[0].what == HAPPEN_RELOAD)
		return RELOADED_BOUND;
	if (s->events[0].what != HAPPEN_CRASH)
		return HANDOFF_BOUND(s->store);
	if (!s->takeover[0])
		return ENDED_BOUND(lease);

	/* the predecessor's session may end while it is watched: once more */
	if (s->events[0].span < 200 * LE_SEC)
		bound = (key_leases ? bound : 2 * bound) +
			s->events[0].span + LE_SEC;
	return bound;
}

static void
check_handover(const Schedule *s)
{
	const Intervention *v = &s->events[0];
	le_duration bound = handover_bound(s);
	uint64		token = sim.last_token[v->election];

	run_until(sim.now + bound);
	if (sim.failed)
		return;
	if (!all_led() || (sim.last_token[v->election] == token &&
					   v->what != HAPPEN_RELOAD))
		sim_fail("no new leader %.2f s after a %s, lease %d ms",
				 bound / (double) LE_SEC, kinds[v->what].name, s->lease_ms[0]);
	sim.counts.fair_handovers++;
}

void
schedule_start(const Schedule *s)
{
	sim.schedule = s;
	sim.model = model_of(s->store);
	sim.random = sim_mix(s->seed + 1);
	sim.now = LE_SEC;
	sim.storm = true;
	sim.slow_until = 0;
	sim.nnodes = s->nnodes;
	sim.nelections = s->nelections;
	memory_reset_all();
	network_reset();
	sim.model->reset();
	check_reset();
	nodes_reset(s);
	le_progress_within = s->within;
	for (int i = 0; i < s->nnodes; i++)
		node_start(sim.node[i]);
	for (int i = 0; s->within != 0 && i < s->nnodes; i++)
		network_at(LE_SEC + i * LE_SEC / 8, AT_CRON, i, 0);
	for (int i = 0; i < s->nevents; i++)
		if (!s->events[i].dropped)
			network_at(s->events[i].at, AT_HAPPENING, i, 0);
}

void
schedule_run_until(le_time until)
{
	run_until(until);
}

void
schedule_run(const Schedule *s)
{
	schedule_start(s);
	run_until(LE_SEC + s->storm);
	if (s->fair)
	{
		run_until(sim.now + LE_MSEC);
		sim.storm = false;
		check_handover(s);
	}
	else
	{
		clear_up();
		check_leaders_come();
	}
	if (!sim.failed)
		check_they_stay();
	sim.counts.schedules++;
	sim.counts.of_store[s->store]++;
}
