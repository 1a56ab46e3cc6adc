/*-------------------------------------------------------------------------
 *
 * cassandra.c
 *		A model of Cassandra's lightweight transactions on the table of locks.
 *
 * One sequence of transactions per row, as Paxos makes it; around it clocks
 * that differ from coordinator to coordinator, leases in whole seconds, and
 * statements of unknown outcome.  "code" names a file of Cassandra's source,
 * below src/java/org/apache/cassandra; statements are those of
 * gateway/internal/cql/schema.go. test/gateway shows the same of a real
 * Cassandra: basic_test.go effects and refusals of statements, late copies,
 * and the length of a lease; faults_test.go differing clocks of coordinators,
 * and unknown outcomes.
 *
 * test/sim/cassandra.c
 *
 *-------------------------------------------------------------------------
 */
#include "cassandra.h"

#define MAX_LATE	64

/*
 * A partition: the lock's static columns, and its jobs.  The epoch is written
 * without a TTL, the lock's other columns with the same one in every statement
 * that writes any of them.
 */
typedef struct Cells
{
	Row			row;			/* its ttl is not used */
	int64		expires;		/* second from which on owner etc. are gone */
	ClaimRecord claims[ELECTION_JOBS];	/* without a TTL; rows of their own, in
										 * the same partition */
} Cells;

typedef struct Stored
{
	Cells		now;
	Cells		before;			/* the last change ... */
	bool		answered;		/* ... shown to a client, or not */
	bool		proposed;		/* by a coordinator that did not finish it */
	Cells		proposal;
	int			proposer;		/* the node of a claim */
	Travel		travel;			/* number of its request */
	bool		shadowed;		/* by timestamps in the future */
	uint64		ran_out;		/* the newest term that a read showed to be
								 * over */
	Key			key;			/* for queries of store_key() */
} Stored;

static struct
{
	Stored		rows[MAX_ELECTIONS];
	ClaimRecord kept[MAX_ELECTIONS][ELECTION_JOBS]; /* a copy of the records */
	le_duration phase;			/* shift of its seconds from true time */
	le_duration offset[COORDINATORS];
	int			first;			/* a coordinator with the fastest clock ... */
	int			last;			/* ... and one with the slowest */
	int			home;			/* shifts the coordinators */
	le_time		down_until;
	uint64		changes;
} cass;

static struct
{
	bool		used;
	Cql			cql;
}			late[MAX_LATE];

/* By session; those of instances are numbered by incarnation. */
static le_duration leases[MAX_SESSIONS];
static int	owners[MAX_SESSIONS];	/* nodes */

/* The revision of a term that each worker heard in its renewals. */
static struct
{
	uint32		process;
	uint64		token;
	uint64		rev;
}			told[MAX_NODES][MAX_ELECTIONS];

/* Time of the last change. */
static void
compare_clocks(void)
{
	cass.last = cass.first = 0;
	for (int c = 1; c < COORDINATORS; c++)
	{
		if (cass.offset[c] < cass.offset[cass.last])
			cass.last = c;
		if (cass.offset[c] > cass.offset[cass.first])
			cass.first = c;
	}
}

static void
cass_reset(void)
{
	const Schedule *s = sim.schedule;

	memset(&cass, 0, sizeof(cass));
	memset(told, 0, s->nnodes * sizeof(told[0]));
	memset(late, 0, sizeof(late));
	memset(leases, 0, sizeof(leases));
	for (int i = 0; i < MAX_SESSIONS; i++)
		owners[i] = -1;
	cass.phase = sim_span(0, LE_SEC);
	for (int c = 0; c < COORDINATORS; c++)
		cass.offset[c] = s->skew_ms[c] * LE_MSEC;
	compare_clocks();
	for (int e = 0; e < MAX_ELECTIONS; e++)
		cass.rows[e].answered = true;
	gateways_reset();
}

/* ---- clocks ---- */

/* code, utils/FBUtilities.java nowInSeconds(): cut off, not rounded. */
static int64
second_of(int coordinator)
{
	return (sim.now + cass.phase + cass.offset[coordinator]) / LE_SEC;
}

/*
 * Requests for a partition go to one of its replicas, and to another when
 * that does not answer.  code, service/QueryState.java getNowInSeconds(): the
 * coordinator's clock counts, as it was when the request began.
 */
int64
cassandra_second(int election)
{
	int			c = (election + cass.home) % COORDINATORS;

	if (sim_chance(sim.schedule->wander))
		c = (int) sim_below(COORDINATORS);
	return second_of(c);
}

/* ---- rows ---- */

/* code, db/rows/AbstractCell.java isLive(): up to the second of its end. */
static bool
is_held(const Cells *cells, int64 second)
{
	return cells->row.owner != 0 && second < cells->expires;
}

static void
show(const Cells *cells, int64 second, Row *row)
{
	memset(row, 0, sizeof(*row));
	row->epoch = cells->row.epoch;
	if (!is_held(cells, second))
		return;
	*row = cells->row;
	/* code, cql3/selection: TTL() is the rest, in whole seconds */
	row->ttl = (int) Min(cells->expires - second, PG_INT32_MAX);
}

static void
make_key(const Stored *s, const Cells *cells, Key *key)
{
	memset(key, 0, sizeof(*key));
	key->exists = cells->row.epoch != 0 || cells->row.owner != 0 ||
		s->shadowed;
	key->usable = !s->shadowed && cells->row.owner != OWNER_FOREIGN;
	key->session = OWNER_SESSION(cells->row.owner);
	key->index = cells->row.epoch;
}

/* The session that loses its term; also to a new term of the same owner. */
static void
tell_checks(int session, int election, const Cells *before, const Cells *after)
{
	Key			from;
	Key			none;
	Key			to;

	make_key(&cass.rows[election], before, &from);
	make_key(&cass.rows[election], after, &to);
	none = from;
	none.session = 0;
	if (from.session == to.session && from.index != to.index)
	{
		check_write(session == 0 ? 0 : -1, election, &from, &none);
		/* a burn leaves an expired term */
		if (after->expires != before->expires)
			check_write(session, election, &none, &to);
	}
	else
		check_write(session, election, &from, &to);
}

/* Also for a claim: the holder of the lock at its write. */
static void
store_claims(int election, const Cells *cells, int node)
{
	Stored	   *s = &cass.rows[election];
	int			owner = s->now.row.owner;

	for (int j = 0; j < ELECTION_JOBS; j++)
	{
		ClaimRecord before = s->now.claims[j];

		if (memcmp(&before, &cells->claims[j], sizeof(before)) == 0)
			continue;
		s->now.claims[j] = cells->claims[j];
		claim_written(node, election, j, &before, &cells->claims[j],
					  OWNER_SESSION(owner) == 0 ? -1 : OWNER_NODE(owner),
					  s->now.row.epoch);
	}
}

static void
store_cells(int election, const Cells *cells, bool by_hand)
{
	Stored	   *s = &cass.rows[election];
	int			session = OWNER_SESSION(cells->row.owner);

	/* the releaser was the holder */
	if (session == 0)
		session = cells->row.epoch == s->now.row.epoch ?
			OWNER_SESSION(s->now.row.owner) : -1;
	if (session == 0)
		session = -1;

	/* written, but with an older timestamp: no effect */
	if (s->shadowed)
		return;
	s->before = s->now;
	s->now = *cells;
	s->answered = false;
	cass.changes++;
	tell_checks(by_hand ? 0 : session, election, &s->before, &s->now);
}

/* ---- statements ---- */

/*
 * Effect of the statement on the row, by the clock of the coordinator that
 * began it; code, service/paxos: retries within a statement keep that second.
 * False: its condition does not hold.
 */
static bool
judge(const Cql *cql, const Cells *now, Cells *after)
{
	const ClaimRecord *record = &now->claims[Max(cql->job, 0)];
	bool		held = is_held(now, cql->second);
	bool		theirs = held && now->row.epoch == cql->row.epoch &&
		now->row.owner == cql->row.owner;

	*after = *now;
	switch (cql->kind)
	{
		case CQL_ACQUIRE:
			/* IF epoch = :e0 AND owner = NULL; two updates, one batch */
			if (held || now->row.epoch != cql->e0)
				return false;
			after->row = cql->row;
			after->expires = cql->second + cql->row.ttl;
			return true;
		case CQL_BURN:
			if (held || now->row.epoch != cql->e0)
				return false;
			/* columns that this clock finds expired stay */
			after->row.epoch = cql->row.epoch;
			return true;
		case CQL_RENEW:
			/* IF epoch = :e AND owner = :me AND rev = :r0; writes r0 + 1 */
			if (!theirs || now->row.rev + 1 != cql->row.rev)
				return false;
			after->row = cql->row;
			after->expires = cql->second + cql->row.ttl;
			return true;
		case CQL_RELEASE:
			/* cells only: the epoch stays */
			if (!theirs || now->row.rev != cql->row.rev)
				return false;
			after->row.owner = 0;
			after->expires = 0;
			return true;
		case CQL_CLAIM:
			/* IF epoch = :e AND owner = :me AND claim = :c AND state = :s */
			if (!theirs || record->id != cql->previous.id ||
				(record->exists && record->state != cql->previous.state))
				return false;
			after->claims[cql->job] = cql->claim;
			return true;
		case CQL_COMPLETE:
			/* IF claim = :c AND state = 'running' */
			if (!record->exists || record->id != cql->claim.id ||
				record->state != LE_CLAIM_RUNNING)
				return false;
			after->claims[cql->job].state = cql->claim.state;
			after->claims[cql->job].ended = cql->claim.ended;
			after->claims[cql->job].gap = cql->claim.gap;
			after->claims[cql->job].writes = cql->claim.writes;
			return true;
		case CQL_POLL:
		case CQL_READ:
			break;
	}
	return false;
}

static void
apply(int election, const Cells *cells, bool to_claims, int node)
{
	if (to_claims)
		store_claims(election, cells, node);
	else
		store_cells(election, cells, false);
}

/*
 * code, service/paxos: every transaction, and every SERIAL read, first settles
 * a statement that another coordinator left half way: it finishes it, or
 * prevents it for ever.
 */
static void
settle_proposal(int election)
{
	Stored	   *s = &cass.rows[election];
	Travel		travel = sim.travel;

	if (s->proposed && sim_below(2) == 0)
	{
		sim.counts.proposals++;
		sim.travel = s->travel;
		trace(NULL, "  e%d: a half finished transaction is finished",
			  election);
		apply(election, &s->proposal, s->proposer >= 0, s->proposer);
		sim.travel = travel;
	}
	s->proposed = false;
}

/*
 * A read of a majority shows every change that a client was told of; it may
 * miss the newest one if no client was told of it yet.
 */
static void
poll(const Cql *cql, Row *shown)
{
	const Stored *s = &cass.rows[cql->election];
	bool		old = !s->answered && sim_chance(500000);

	show(old ? &s->before : &s->now, cql->second, shown);
}

/* The instant at which it is applied. */
CqlResult
cassandra_execute(Cql *cql, Row *shown)
{
	Stored	   *s = &cass.rows[cql->election];
	Cells		after;

	sim.travel = cql->travel;
	if (cql->kind == CQL_POLL)
	{
		poll(cql, shown);
		return CQL_APPLIED;
	}
	settle_proposal(cql->election);
	if (cql->kind == CQL_READ)
	{
		s->answered = true;
		if (!is_held(&s->now, cql->second))
			s->ran_out = s->now.row.epoch;
		show(&s->now, cql->second, shown);
		if (cql->job >= 0)
			cql->claim = s->now.claims[cql->job];
		return CQL_APPLIED;
	}
	if (!judge(cql, &s->now, &after))
		return CQL_REFUSED;
	if (cql->kind == CQL_BURN)
		sim.counts.burned++;
	apply(cql->election, &after, cql->kind >= CQL_CLAIM, cql->node);
	return CQL_APPLIED;
}

/* Its client has an answer. */
void
cassandra_answered(int election)
{
	cass.rows[election].answered = true;
}

/*
 * conf/cassandra.yaml, cas_contention_timeout and write_request_timeout: a
 * coordinator may begin another round seconds after its client has given up.
 */
void
cassandra_later(const Cql *cql, le_duration delay)
{
	for (int i = 0; i < MAX_LATE; i++)
		if (!late[i].used)
		{
			late[i].used = true;
			late[i].cql = *cql;
			network_at(sim.now + delay, AT_LATE, i, 0);
			return;
		}
}

static void
run_late(int i)
{
	Row			shown;

	late[i].used = false;
	sim.counts.late_statements++;
	if (cassandra_execute(&late[i].cql, &shown) == CQL_APPLIED && trace_on)
		trace(NULL, "  e%d: a late statement is applied",
			  late[i].cql.election);
}

/*
 * Judged, and accepted by a minority, when its coordinator was cut off: the
 * next transaction of this row, and no later one, may finish it.
 */
void
cassandra_propose(const Cql *cql)
{
	Stored	   *s = &cass.rows[cql->election];

	settle_proposal(cql->election);
	s->proposed = judge(cql, &s->now, &s->proposal);
	s->proposer = cql->kind >= CQL_CLAIM ? cql->node : -1;
	s->travel = cql->travel;
}

bool
cassandra_down(void)
{
	return sim.now < cass.down_until;
}

le_time
cassandra_down_until(void)
{
	return cass.down_until;
}

/* ---- faults ---- */

static void
cass_invalidate(int session)
{
	(void) session;
	gateway_kill((int) sim_below(GATEWAYS), sim_span(0, 10 * LE_SEC));
}

/*
 * No majority for a while.  Other coordinators may answer then; one clock is
 * set, within the bound.
 */
static void
cass_new_server(le_duration down)
{
	int			c = (int) sim_below(COORDINATORS);

	cass.down_until = sim.now + down;
	cass.home = (int) sim_below(COORDINATORS);
	if (!sim.schedule->beyond)
		cass.offset[c] = sim_span(0, sim.schedule->max_skew_ms * LE_MSEC);
	compare_clocks();
	trace(NULL, "no majority for %.1f s; coordinator %d is %.1f s ahead",
		  down / (double) LE_SEC, c,
		  cass.offset[c] / (double) LE_SEC);
}

static void
cass_freeze_gateway(le_time until)
{
	gateway_freeze((int) sim_below(GATEWAYS), until);
}

/*
 * By hand, without a condition.  Deletion of the lock deletes the epoch:
 * tokens begin anew.  An ordinary write may carry a timestamp that lets no
 * transaction change it any more.
 */
static void
cass_by_hand(int election, bool delete)
{
	Stored	   *s = &cass.rows[election];
	Cells		after = {0};

	memcpy(after.claims, s->now.claims, sizeof(after.claims));
	if (delete && (s->shadowed || sim_below(2) == 0))
		check_begins_anew(election);
	else
		after.row.epoch = s->now.row.epoch;
	if (!delete && sim_below(2) == 0)
	{
		after.row.owner = OWNER_FOREIGN;
		after.row.rev = 1;
		after.expires = PG_INT64_MAX;	/* no TTL */
	}
	s->proposed = s->shadowed = false;
	store_cells(election, &after, true);
	s->shadowed = !delete;
	s->answered = true;
}

/* Another client of a gateway takes it if it is free; it never renews. */
static void
cass_foreign_lock(int election)
{
	Cql			cql = {.kind = CQL_ACQUIRE, .election = election, .job = -1};
	Row			shown;

	cql.second = cassandra_second(election);
	cql.e0 = cass.rows[election].now.row.epoch;
	cql.row.epoch = cql.e0 + 1;
	cql.row.owner = OWNER_FOREIGN;
	cql.row.rev = 1;
	cql.row.ttl = 5 + (int) sim_below(10);
	cql.row.attempt = PG_UINT64_MAX;
	if (cassandra_execute(&cql, &shown) == CQL_APPLIED)
		cassandra_answered(election);
}

static void
cass_clear_up(void)
{
	cass.down_until = Min(cass.down_until, sim.now);
	gateways_clear_up();
}

/* ---- queries of the checks ---- */

void
cassandra_asked_for(int owner, le_duration lease)
{
	int			session = OWNER_SESSION(owner);

	owners[session] = OWNER_NODE(owner);
	leases[session] = Max(leases[session], lease);
}

/* A worker takes notice of an answer ... */
static void
cass_write_answer(const Answer *a, LeResponse *response)
{
	const LockAnswer *l = &a->lock;
	const SimNode *n = sim_node;

	text_write_answer(a, response);
	if (l->verb != LOCK_RENEW_MANY || l->foreign)
		return;
	for (int i = 0; i < l->ndocs; i++)
	{
		const LockDoc *d = &l->docs[i];
		int			e = d->election;

		if (e < 0 || (d->problem != NULL &&
					  strcmp(d->problem, "stale-revision") != 0))
			continue;
		told[n->number][e].process = n->process;
		told[n->number][e].token = d->row.epoch;
		told[n->number][e].rev = d->row.rev;
	}
}

/* ... and does not repeat a revision that it knows to be over. */
static void
cass_read_request(const LeRequest *request, Request *r)
{
	const LockRequest *l = &r->lock;
	const SimNode *n = sim_node;

	text_read_request(request, r);
	if (l->verb != LOCK_RENEW_MANY)
		return;
	for (int i = 0; i < l->n; i++)
	{
		int			e = l->terms[i].election;

		if (told[n->number][e].process == n->process &&
			told[n->number][e].token == l->terms[i].token &&
			told[n->number][e].rev > l->terms[i].rev)
			sim_fail("n%d renews e%d at revision " UINT64_FORMAT
					 ", although it was told of " UINT64_FORMAT, n->number,
					 e, l->terms[i].rev, told[n->number][e].rev);
	}
}

static bool
cass_apply(const Request *r, Answer *a, int node, uint32 process, int flight,
		   uint32 number)
{
	(void) a;
	gateway_serve(r, node, process, flight, number);
	return false;
}

static void
cass_event(int what, int a, uint32 b)
{
	if (what == AT_LATE)
		run_late(a);
	else
		gateways_event(what, a, b);
}

/* Held for the checks, as long as for any coordinator. */
static Key *
cass_key(int election)
{
	Stored	   *s = &cass.rows[election];

	make_key(s, &s->now, &s->key);
	if (s->key.session != 0 && !is_held(&s->now, second_of(cass.last)))
		s->key.session = 0;
	return &s->key;
}

static int
cass_owner(int session)
{
	return session > 0 && session < MAX_SESSIONS ? owners[session] : -1;
}

static bool
cass_lives(int session)
{
	int			node = cass_owner(session);

	return node >= 0 && sim.node[node]->up &&
		sim.node[node]->incarnation == (uint32) session;
}

static le_duration
cass_lease(int session)
{
	return leases[session];
}

static uint64
cass_index(void)
{
	return cass.changes;
}

/* By the fastest clock. */
static bool
cass_safe(int session, int election, uint64 token)
{
	const Cells *cells = &cass.rows[election].now;

	return cells->row.epoch == token &&
		OWNER_SESSION(cells->row.owner) == session &&
		is_held(cells, second_of(cass.first));
}

/*
 * A read has shown the lease as expired.  An earlier statement of its owner
 * may still revive it, as it is judged by its own second.
 */
static bool
cass_ran_out(int election, uint64 token)
{
	return cass.rows[election].ran_out == token;
}

static void
cass_records(bool restore)
{
	for (int e = 0; e < MAX_ELECTIONS; e++)
	{
		Stored	   *s = &cass.rows[e];

		if (!restore)
		{
			memcpy(cass.kept[e], s->now.claims, sizeof(cass.kept[e]));
			continue;
		}
		memcpy(s->now.claims, cass.kept[e], sizeof(cass.kept[e]));
		memcpy(s->before.claims, cass.kept[e], sizeof(cass.kept[e]));
		memcpy(s->proposal.claims, cass.kept[e], sizeof(cass.kept[e]));
		for (int j = 0; j < ELECTION_JOBS; j++)
			record_restored(e, j, &s->now.claims[j]);
	}
}

const StoreModel cassandra_model = {
	.store = &sim_cassandra,
	.reset = cass_reset,
	.apply = cass_apply,
	.event = cass_event,
	.invalidate = cass_invalidate,
	.new_server = cass_new_server,
	.hang_watches = cass_freeze_gateway,
	.clear_up = cass_clear_up,
	.lives = cass_lives,
	.key = cass_key,
	.write_by_hand = cass_by_hand,
	.foreign_lock = cass_foreign_lock,
	.records = cass_records,
	.index = cass_index,
	.owner = cass_owner,
	.lease = cass_lease,
	.read_request = cass_read_request,
	.write_answer = cass_write_answer,
	.safe = cass_safe,
	.ran_out = cass_ran_out,
};
