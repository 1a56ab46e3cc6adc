/*-------------------------------------------------------------------------
 *
 * gateway.c
 *		The gateways of Cassandra: requests, step by step.
 *
 * Follows gateway/internal/lease function by function, under the same names:
 * the order of waiting requests, the times of reads and writes, and the effect
 * of a missing answer.  Each request runs as a coroutine, which sleeps while a
 * statement is on its way; gateways are frozen, die with all their requests,
 * and come back with empty memory.
 *
 * gateway/internal/lease/lease_test.go shows the same of the real one over a
 * store with faults on demand, test/gateway over a real Cassandra.
 *
 * test/sim/gateway.c
 *
 *-------------------------------------------------------------------------
 */
#include "cassandra.h"

#define MAX_JOBS		96
#define GRANULARITY		LE_SEC
#define BUDGET			(4500 * LE_MSEC)	/* --request-timeout */
#define STATEMENT		(2 * LE_SEC)	/* --statement-timeout */
#define POLL			(800 * LE_MSEC) /* with many locks watched */
#define MIN_TTL_MS		5000
#define MAX_TTL_MS		(24 * 3600 * 1000)
#define MAX_TOKEN		(UINT64CONST(1) << 53)
#define MAX_TOKEN_JUMP	(UINT64CONST(1) << 40)

/* The queue of one lock; exists while a request stands in it. */
typedef struct Line
{
	int			refs;
	bool		taken;
	bool		filled;
	Row			seen;
	le_time		since;			/* the send of the read that brought it */
	CqlKind		level;
} Line;

/* A lock with waiters. */
typedef struct Hub
{
	int			refs;
	uint32		stamp;			/* number of the next read */
	bool		seen;
	Row			row;
	uint32		version;		/* version of row */
} Hub;

typedef struct Gateway
{
	bool		up;
	le_time		frozen_until;
	le_time		severed_until;	/* cut off from Cassandra */
	Line		lines[MAX_ELECTIONS];
	Hub			hubs[MAX_ELECTIONS];
	Row			terms[MAX_ELECTIONS];	/* last write; epoch 0: unknown */
} Gateway;

/* Destination of an answer; one for all locks of a batch. */
typedef struct Reply
{
	bool		used;
	int			left;			/* locks without an outcome yet */
	int			node;
	uint32		process;
	int			flight;
	uint32		number;
	Answer		answer;
} Reply;

typedef struct Job
{
	bool		used;
	int			number;
	int			gateway;
	uint32		stamp;			/* number of the valid wake-up */
	Coroutine  *coroutine;
	int			reply;			/* -1: no client waits for it */
	int			doc;			/* index of the answer's document */
	int			election;
	bool		background;		/* burns an acquire of unknown outcome */
	Request		request;
	LeTermRef	term;			/* belongs to a renewal */

	/* has the turn on its lock */
	bool		queues;
	bool		has_turn;
	uint64		arrival;
	le_time		arrived;

	le_time		deadline;		/* its work goes on in the background */
	le_duration pause;			/* the next one */
	bool		parked;			/* waits for a lock to change */

	/* a statement that is applied when it wakes up */
	bool		under_way;
	Cql			cql;
	CqlResult	result;
	Row			shown;

	/* an acquire */
	bool		open;
	bool		lost;			/* a write cannot apply now, but may have */
	uint64		e0;
	uint64		want;
	le_time		start;
} Job;

static Gateway gateways[GATEWAYS];
static Job *jobs[MAX_JOBS];
static Reply replies[MAX_JOBS];
static int	nused;				/* entries in use, now or before */
static uint64 arrivals;
static uint32 stamps;
static Job *self;				/* the coroutine that runs */

static Job *new_job(int gateway, const Request *r, int election);

static Gateway *
mine(void)
{
	return &gateways[self->gateway];
}

void
gateways_reset(void)
{
	memset(gateways, 0, sizeof(gateways));
	for (int i = 0; i < GATEWAYS; i++)
		gateways[i].up = true;
	for (int i = 0; i < nused; i++)
	{
		if (jobs[i]->used)
			coroutine_reset(jobs[i]->coroutine);
		jobs[i]->used = replies[i].used = false;
	}
	nused = 0;
	arrivals = stamps = 0;
}

/* ---- time ---- */

static void
wake_job(Job *job, le_time at)
{
	job->stamp = ++stamps;
	network_at(at, AT_JOB, job->number, job->stamp);
}

static void
sleep_until(le_time at)
{
	wake_job(self, at);
	coroutine_yield();
}

static void
new_pause(void)
{
	self->pause = 20 * LE_MSEC;
}

/* service.go, pause.wait(): false if no time is left. */
static bool
pause_job(void)
{
	le_duration d = sim_span(self->pause / 2, self->pause * 3 / 2);

	self->pause = Min(2 * self->pause, 300 * LE_MSEC);
	if (self->deadline - sim.now <= d)
		return false;
	sleep_until(sim.now + d);
	return true;
}

/* ---- statements ---- */

static CqlResult
open_outcome(le_duration most)
{
	sim.counts.open_statements++;
	sleep_until(sim.now + sim_span(LE_MSEC, most));
	return CQL_UNKNOWN;
}

/* Cassandra has no majority, or loses it. */
static CqlResult
statement_without_majority(Cql *cql)
{
	if (sim_chance(100000))
		cassandra_propose(cql);
	else if (sim_chance(200000))
		cassandra_later(cql, cassandra_down_until() - sim.now +
						sim_span(0, LE_SEC));
	return open_outcome(STATEMENT);
}

/* It is not applied, and the gateway mostly knows that. */
static CqlResult
statement_severed(void)
{
	if (sim_below(4) != 0)
	{
		sleep_until(sim.now + LE_MSEC);
		return CQL_NOT_SENT;
	}
	return open_outcome(STATEMENT);
}

/*
 * No answer comes; it was applied, or is not, or will be.  The next statements
 * may get no answer either.
 */
static CqlResult
statement_without_answer(Cql *cql)
{
	Row			shown;

	if (sim_below(4) == 0)
		mine()->severed_until = sim.now + sim_span(0, 10 * LE_SEC);
	switch (sim_below(4))
	{
		case 0:
			cassandra_execute(cql, &shown);
			break;
		case 1:
			cassandra_later(cql, sim_span(0, 5 * LE_SEC));
			break;
		case 2:
			cassandra_propose(cql);
			break;
		default:
			break;
	}
	return open_outcome(STATEMENT);
}

/*
 * cql/db.go: sent once.  It is applied at its beginning or at its end, which
 * is all that others can tell; its second is that of the beginning.
 */
static CqlResult
statement(Cql *cql, Row *shown)
{
	const Weather *w = &sim.schedule->weather;
	bool		writes = cql->kind > CQL_READ;
	le_duration took = sim_chance(w->delay) ? sim_span(0, STATEMENT) :
		sim_span(LE_MSEC, 6 * LE_MSEC);
	CqlResult	result;

	sim.counts.statements++;
	cql->second = cassandra_second(cql->election);
	cql->travel = self->request.lock.travel;
	if (self->deadline <= sim.now || sim_chance(w->refuse / 2))
		return CQL_NOT_SENT;
	if (cassandra_down())
		return statement_without_majority(cql);
	if (mine()->severed_until > sim.now)
		return statement_severed();
	if (sim_chance(w->break_answer))
		return statement_without_answer(cql);
	if (sim_below(2) == 0)
	{
		result = cassandra_execute(cql, shown);
		sleep_until(sim.now + took);
	}
	else
	{
		self->cql = *cql;
		self->under_way = true;
		sleep_until(sim.now + took);
		result = self->result;
		*shown = self->shown;
		cql->claim = self->cql.claim;
	}
	if (writes && result == CQL_APPLIED)
		cassandra_answered(cql->election);
	return result;
}

static CqlResult
write_row(CqlKind kind, uint64 e0, const Row *row)
{
	Cql			cql = {.kind = kind, .election = self->election, .e0 = e0,
	.job = -1};
	Row			shown;
	CqlResult	result;

	cql.row = *row;
	result = statement(&cql, &shown);
	trace(NULL, "    gateway %d: %s e%d, token " UINT64_FORMAT ", rev "
		  UINT64_FORMAT ": %s", self->gateway,
		  kind == CQL_ACQUIRE ? "acquire" : kind == CQL_BURN ? "burn" :
		  kind == CQL_RENEW ? "renew" : "release", self->election,
		  row->epoch, row->rev, result == CQL_APPLIED ? "applied" :
		  result == CQL_REFUSED ? "refused" :
		  result == CQL_NOT_SENT ? "not sent" : "outcome open");
	return result;
}

/* ---- outcomes ---- */

static LockDoc *
doc(void)
{
	return &replies[self->reply].answer.lock.docs[self->doc];
}

static bool
answer(int status, const char *problem)
{
	LockDoc    *d;

	if (self->reply < 0)
		return false;
	d = doc();
	d->election = self->election;
	d->status = status;
	d->problem = problem;
	d->shows_row = d->shows_claim = false;
	d->trust_ms = -1;
	return true;
}

static void
refuse(int status, const char *problem, const Row *row)
{
	if (!answer(status, problem))
		return;
	doc()->shows_row = true;
	doc()->row = *row;
}

/* service.go, outcome() */
static void
fail(bool maybe)
{
	answer(503, maybe ? "unknown" : "not-applied");
}

/* service.go, trust(): for so many whole seconds. */
static le_duration
trust(int ttl)
{
	return Max(0, ttl * LE_SEC - GRANULARITY -
			   sim.schedule->max_skew_ms * LE_MSEC);
}

static void
grant(int status, const Row *row, le_duration span)
{
	if (!answer(status, NULL))
		return;
	doc()->row = *row;
	doc()->trust_ms = (int) (span / LE_MSEC);
}

/* lease.go, WholeTTL() */
static int
whole_ttl(int ttl_ms)
{
	return (ttl_ms + 999) / 1000;
}

static bool
ttl_is_good(int ttl_ms)
{
	int			least = Max(MIN_TTL_MS, 2000 + sim.schedule->max_skew_ms);

	return ttl_ms >= least && ttl_ms <= MAX_TTL_MS;
}

static bool
is_term(const Row *row, int owner, uint64 token)
{
	return row->owner != 0 && row->owner == owner && row->epoch == token;
}

/* ---- the line of a lock (line.go) ---- */

static void
drop(Line *line)
{
	if (--line->refs == 0)
		memset(line, 0, sizeof(*line));
}

/* Requests that keep or end a term go before all others. */
static bool
comes_first(const Job *job)
{
	LockVerb	verb = job->request.lock.verb;

	return !job->background &&
		(verb == LOCK_RENEW || verb == LOCK_RENEW_MANY ||
		 verb == LOCK_RELEASE || verb == LOCK_RELEASE_MANY ||
		 verb == LOCK_COMPLETE);
}

static bool
is_before(const Job *a, const Job *b)
{
	if (comes_first(a) != comes_first(b))
		return comes_first(a);
	return a->arrival < b->arrival;
}

/* By rank, then arrival; false: others took all the time. */
static bool
enter(void)
{
	Line	   *line = &mine()->lines[self->election];

	self->arrived = sim.now;
	line->refs++;
	if (!line->taken)
	{
		line->taken = true;
		return true;
	}
	self->arrival = ++arrivals;
	self->has_turn = false;
	self->queues = true;
	sleep_until(self->deadline);
	self->queues = false;
	if (!self->has_turn)
		drop(line);
	return self->has_turn;
}

static void
leave(void)
{
	Line	   *line = &mine()->lines[self->election];
	Job		   *next = NULL;

	for (int i = 0; i < nused; i++)
	{
		Job		   *job = jobs[i];

		if (job->used && job->queues && !job->has_turn &&
			job->gateway == self->gateway &&
			job->election == self->election &&
			(next == NULL || is_before(job, next)))
			next = job;
	}
	line->taken = next != NULL;
	if (next != NULL)
	{
		next->has_turn = true;
		wake_job(next, sim.now);
	}
	drop(line);
}

static void
in_turn(void (*work) (void))
{
	if (!enter())
		fail(false);
	else
	{
		work();
		leave();
	}
}

/* A row that others have read since this request arrived. */
static bool
seen_since(CqlKind level, Row *row)
{
	const Line *line = &mine()->lines[self->election];

	if (!line->filled || line->level < level || line->since < self->arrived)
		return false;
	*row = line->seen;
	row->ttl -= (int) ((sim.now - line->since) / LE_SEC);
	return row->owner == 0 || row->ttl >= 1;
}

/* ---- reads (service.go) ---- */

static CqlResult
read_row(CqlKind level, Row *row)
{
	Cql			cql = {.kind = level, .election = self->election, .job = -1};
	le_time		since = sim.now;
	Line	   *line = &mine()->lines[self->election];
	CqlResult	result = statement(&cql, row);

	if (result != CQL_APPLIED)
		return result;
	line->seen = *row;
	line->since = since;
	line->level = level;
	line->filled = true;
	return result;
}

/* Repeated until it succeeds or the time is over. */
static CqlResult
settle(bool open, Row *row)
{
	new_pause();
	for (;;)
	{
		CqlResult	result = read_row(CQL_READ, row);

		if (result == CQL_APPLIED || (!open && result == CQL_NOT_SENT) ||
			!pause_job())
			return result;
	}
}

/* ---- hubs (read.go) ---- */

static void
look(int gateway, int election, le_time at)
{
	Hub		   *hub = &gateways[gateway].hubs[election];

	hub->stamp = ++stamps;
	network_at(at, AT_HUB, gateway * MAX_ELECTIONS + election, hub->stamp);
}

/* Written through this gateway: its own waiters get the change at once. */
static void
changed(void)
{
	if (mine()->hubs[self->election].refs > 0)
		look(self->gateway, self->election, sim.now + LE_MSEC);
}

static bool
differs(const Row *a, const Row *b)
{
	return a->epoch != b->epoch || a->owner != b->owner ||
		a->value != b->value;
}

static bool
caller_is_gone(const Job *job)
{
	const Reply *r = &replies[job->reply];

	return !network_awaits(r->node, r->process, r->flight, r->number);
}

static void
wake_parked(int gateway, int election, bool all)
{
	for (int i = 0; i < nused; i++)
	{
		Job		   *job = jobs[i];

		if (job->used && job->parked && job->gateway == gateway &&
			job->election == election && (all || caller_is_gone(job)))
			wake_job(job, sim.now);
	}
}

/* A read at QUORUM is enough to notice; the row for a waiter is read again. */
static void
poll_hub(int gateway, int election)
{
	Hub		   *hub = &gateways[gateway].hubs[election];
	Cql			cql = {.kind = CQL_POLL, .election = election, .job = -1};
	Row			row = {0};
	bool		changed = false;

	sim.counts.statements++;
	look(gateway, election, sim.now + sim_span(POLL * 3 / 4, POLL));
	if (!cassandra_down() && gateways[gateway].severed_until <= sim.now &&
		!sim_chance(sim.schedule->weather.watch_miss))
	{
		cql.second = cassandra_second(election);
		cassandra_execute(&cql, &row);
		changed = !hub->seen || differs(&hub->row, &row);
	}
	if (changed)
	{
		hub->row = row;
		hub->seen = true;
		hub->version++;
	}
	wake_parked(gateway, election, changed);
}

static void
join(void)
{
	Hub		   *hub = &mine()->hubs[self->election];

	if (hub->refs++ == 0)
	{
		hub->seen = false;
		look(self->gateway, self->election,
			 sim.now + sim_span(POLL * 3 / 4, POLL));
	}
}

static void
part(void)
{
	Hub		   *hub = &mine()->hubs[self->election];

	if (--hub->refs == 0)
		hub->stamp = 0;
}

/* ---- terms (terms.go) ---- */

static void
began(const Row *row)
{
	mine()->terms[self->election] = *row;
	changed();
}

static void
forget(uint64 token)
{
	Row		   *known = &mine()->terms[self->election];

	if (known->epoch <= token)
		known->epoch = 0;
}

static void
ended(uint64 token)
{
	mine()->lines[self->election].filled = false;
	forget(token);
	changed();
}

/* ---- acquire (acquire.go) ---- */

static bool
is_mine(const Row *row)
{
	return row->owner == self->request.lock.owner &&
		row->attempt == self->request.lock.attempt;
}

/* service.go, repeated() */
static void
repeated(const Row *row)
{
	grant(200, row,
		  trust(Min(row->ttl, whole_ttl(self->request.lock.ttl_ms))));
}

/* The lock is held, perhaps by this attempt: only the rest of it counts. */
static void
taken(const Row *row)
{
	if (!is_mine(row))
	{
		refuse(409, "held", row);
		return;
	}
	began(row);
	repeated(row);
}

/* False: no such token. */
static bool
next_token(uint64 e0, uint64 least, uint64 *e1)
{
	*e1 = Max(e0, Min(least, MAX_TOKEN)) + 1;
	return *e1 <= MAX_TOKEN && *e1 - e0 <= MAX_TOKEN_JUMP;
}

static void
confirm(const Row *row)
{
	Row			released = *row;

	if (row->owner != 0 && is_mine(row) && row->epoch == self->want)
	{
		int			ttl = whole_ttl(self->request.lock.ttl_ms);
		le_duration span = trust(ttl);
		le_duration passed = sim.now - self->start + GRANULARITY +
			sim.schedule->max_skew_ms * LE_MSEC;

		if (row->ttl * LE_SEC < ttl * LE_SEC - passed)
			span = Min(span, trust(row->ttl));
		began(row);
		grant(201, row, span);
	}
	else if (row->epoch >= self->want && row->owner != 0)
		refuse(409, "held", row);
	else if (row->epoch >= self->want)
		fail(true);				/* over already, but perhaps unseen */
	else
	{
		/* a write from the future hides it */
		if (row->owner != 0 && is_mine(row))
			write_row(CQL_RELEASE, 0, &released);
		fail(true);
	}
}

/* Burns an acquire that may still apply, in the background if need be. */
static void
give_up(bool applied)
{
	Row			burned = {.epoch = self->want};
	bool		pending = applied || self->open;
	Job		   *rest;

	if (pending && !applied && self->deadline > sim.now &&
		write_row(CQL_BURN, self->e0, &burned) == CQL_APPLIED)
		pending = false;
	if (pending && (rest = new_job(self->gateway, &self->request,
								 self->election)) != NULL)
	{
		rest->background = true;
		rest->e0 = self->e0;
		rest->want = self->want;
		wake_job(rest, sim.now);
	}
	fail(pending || self->lost);
}

/* False: it has been answered. */
static bool
try_acquire(const Row *row, bool *applied)
{
	const LockRequest *l = &self->request.lock;
	Row			new = {0};
	CqlResult	result;

	if (!self->open)
	{
		if (!next_token(row->epoch, l->min_token, &self->want))
		{
			refuse(422, "token-jump", row);
			return false;
		}
		self->e0 = row->epoch;
	}
	new.epoch = self->want;
	new.owner = l->owner;
	new.value = l->value;
	new.attempt = l->attempt;
	new.rev = 1;
	new.ttl = whole_ttl(l->ttl_ms);
	result = write_row(CQL_ACQUIRE, self->e0, &new);
	*applied = result == CQL_APPLIED;
	if (result == CQL_NOT_SENT && !self->open)
	{
		fail(self->lost);
		return false;
	}
	if (result == CQL_NOT_SENT || result == CQL_UNKNOWN)
		self->open = true;
	return true;
}

static void
acquire_in_turn(void)
{
	Row			row;
	bool		known = seen_since(CQL_POLL, &row);
	bool		applied = false;

	if ((!known || is_mine(&row) || row.owner == 0) &&
		read_row(CQL_POLL, &row) != CQL_APPLIED)
	{
		fail(false);
		return;
	}
	/* a poll refuses, it never grants */
	if (row.owner != 0 && is_mine(&row) &&
		settle(false, &row) != CQL_APPLIED)
	{
		fail(false);
		return;
	}
	for (le_duration pause = 20 * LE_MSEC;; pause = self->pause)
	{
		if (row.owner != 0)
		{
			taken(&row);
			return;
		}
		if (!try_acquire(&row, &applied))
			return;
		if (settle(applied || self->open, &row) != CQL_APPLIED)
		{
			give_up(applied);
			return;
		}
		if (self->open && row.epoch != self->e0)
		{
			self->open = false; /* the cause of the change, or nothing */
			if (!is_mine(&row) &&
				(row.owner == 0 || row.epoch != self->want))
				self->lost = true;
		}
		if (applied)
		{
			confirm(&row);
			return;
		}
		self->pause = pause;
		if (row.owner == 0 && !pause_job())
		{
			give_up(false);
			return;
		}
	}
}

static void
acquire(void)
{
	if (!ttl_is_good(self->request.lock.ttl_ms))
	{
		answer(422, "bad-ttl");
		return;
	}
	self->start = sim.now;
	self->open = self->lost = false;
	in_turn(acquire_in_turn);
}

/* True: done. */
static bool
abandoned(void)
{
	Row			row;
	Row			burned = {.epoch = self->want};
	bool		settled = true;

	if (!enter())
		return true;
	if (read_row(CQL_READ, &row) != CQL_APPLIED)
		settled = false;
	else if (row.epoch == self->e0 && row.owner == 0)
		settled = write_row(CQL_BURN, self->e0, &burned) == CQL_APPLIED;
	leave();
	return settled;
}

static void
abandon(void)
{
	le_duration pause;

	self->deadline = sim.now + 3 * BUDGET;
	for (pause = 20 * LE_MSEC; !abandoned(); pause = self->pause)
	{
		self->pause = pause;
		if (!pause_job())
			return;
	}
}

/* ---- renew (renew.go) ---- */

/* True: it has been answered. */
static bool
judge_renew(const Row *row)
{
	const LockRequest *l = &self->request.lock;

	if (!is_term(row, l->owner, self->term.token))
		refuse(409, "lost", row);
	else if (row->rev == self->term.rev)
		return false;
	else if (row->rev == self->term.rev + 1 &&
			 (!l->has_value || l->value == row->value))
		repeated(row);
	else
		refuse(409, "stale-revision", row);
	return true;
}

/* The row to write, value and attempt included.  False: answered. */
static bool
successor(Row *next)
{
	const LockRequest *l = &self->request.lock;
	const Row  *known = &mine()->terms[self->election];

	if (is_term(known, l->owner, self->term.token) &&
		known->rev == self->term.rev)
		*next = *known;
	else
	{
		for (CqlKind level = CQL_POLL; level <= CQL_READ; level++)
		{
			if (read_row(level, next) != CQL_APPLIED)
			{
				fail(false);
				return false;
			}
			if (is_term(next, l->owner, self->term.token) &&
				next->rev == self->term.rev)
				break;
		}
		if (judge_renew(next))
			return false;
	}
	next->rev++;
	next->ttl = whole_ttl(l->ttl_ms);
	if (l->has_value)
		next->value = l->value;
	return true;
}

static void
renew_in_turn(void)
{
	Row			next;
	Row			row;
	bool		maybe = false;

	if (!successor(&next))
		return;
	for (le_duration pause = 20 * LE_MSEC;; pause = self->pause)
	{
		CqlResult	result = write_row(CQL_RENEW, 0, &next);

		if (result == CQL_APPLIED)
		{
			began(&next);
			grant(200, &next, trust(next.ttl));
			return;
		}
		if (result == CQL_NOT_SENT && !maybe)
		{
			fail(false);
			return;
		}
		maybe = maybe || result != CQL_REFUSED;
		if (settle(maybe, &row) != CQL_APPLIED)
		{
			fail(maybe);
			return;
		}
		if (judge_renew(&row))
		{
			if (self->reply >= 0 && doc()->problem == NULL)
				began(&row);
			else
				forget(self->term.token);
			return;
		}
		self->pause = pause;
		if (!pause_job())
		{
			fail(maybe);
			return;
		}
	}
}

static void
renew(void)
{
	if (!ttl_is_good(self->request.lock.ttl_ms))
		answer(422, "bad-ttl");
	else
		in_turn(renew_in_turn);
}

/* ---- release (renew.go) ---- */

static void
released(const Row *row, bool sent)
{
	const LockRequest *l = &self->request.lock;

	if (is_term(row, l->owner, self->term.token))
		refuse(409, "stale-revision", row);
	else if (row->owner != 0)
		refuse(409, "not-yours", row);
	else if (sent && row->epoch == self->term.token)
		answer(204, NULL);
	else
		refuse(404, "free", row);
}

static void
release_in_turn(void)
{
	const LockRequest *l = &self->request.lock;
	Row			term = {.epoch = self->term.token, .owner = l->owner,
	.rev = self->term.rev};
	Row			row;
	bool		maybe = false;

	for (le_duration pause = 20 * LE_MSEC;; pause = self->pause)
	{
		CqlResult	result = write_row(CQL_RELEASE, 0, &term);

		if (result == CQL_APPLIED)
		{
			ended(term.epoch);
			answer(204, NULL);
			return;
		}
		if (result == CQL_NOT_SENT && !maybe)
		{
			fail(false);
			return;
		}
		maybe = maybe || result != CQL_REFUSED;
		if (settle(maybe, &row) != CQL_APPLIED)
		{
			fail(maybe);
			return;
		}
		if (!is_term(&row, l->owner, term.epoch) || row.rev != term.rev)
		{
			ended(term.epoch);
			released(&row, maybe);
			return;
		}
		self->pause = pause;
		if (!pause_job())
		{
			fail(maybe);
			return;
		}
	}
}

static void
release(void)
{
	in_turn(release_in_turn);
}

/* ---- claims (claim.go) ---- */

static void
show_claim(int status, const ClaimRecord *c)
{
	if (!answer(status, NULL))
		return;
	doc()->shows_claim = true;
	doc()->claim = *c;
}

/* A record, or none, and the lock at that time. */
static CqlResult
read_record(Row *row, ClaimRecord *now)
{
	Cql			cql = {.kind = CQL_READ, .election = self->election,
	.job = self->request.lock.job};
	CqlResult	result = statement(&cql, row);

	*now = cql.claim;
	return result;
}

static CqlResult
read_lock(Row *row)
{
	Cql			cql = {.kind = CQL_READ, .election = self->election,
	.job = -1};

	return statement(&cql, row);
}

/*
 * cql/db.go, ReadClaim(): a lock without the record needs a read of its own,
 * and the record is read once more after that.
 */
static CqlResult
read_claim(Row *row, ClaimRecord *now)
{
	Row			lock;
	CqlResult	result = read_record(row, now);

	if (result != CQL_APPLIED || now->exists)
		return result;
	result = read_lock(&lock);
	if (result == CQL_APPLIED)
		result = read_record(row, now);
	if (result == CQL_APPLIED && !now->exists)
		*row = lock;
	return result;
}

static CqlResult
settle_claim(bool open, Row *row, ClaimRecord *now)
{
	new_pause();
	for (;;)
	{
		CqlResult	result = read_claim(row, now);

		if (result == CQL_APPLIED || (!open && result == CQL_NOT_SENT) ||
			!pause_job())
			return result;
	}
}

static CqlResult
write_claim(CqlKind kind)
{
	const LockRequest *l = &self->request.lock;
	Cql			cql = {.kind = kind, .election = self->election,
		.job = l->job, .claim = l->claim, .previous = l->previous,
	.node = self->request.node};
	Row			shown;
	CqlResult	result;

	cql.row.owner = l->owner;
	cql.row.epoch = l->claim.token;
	result = statement(&cql, &shown);
	trace(NULL, "    gateway %d: %s claim %u of e%d: %s", self->gateway,
		  kind == CQL_CLAIM ? "write" : "end", l->claim.id,
		  self->election, result == CQL_APPLIED ? "applied" :
		  result == CQL_REFUSED ? "refused" :
		  result == CQL_NOT_SENT ? "not sent" : "outcome open");
	return result;
}

/* Is the claim certainly impossible? maybe: a try may still apply. */
static bool
cannot_claim(const Row *row, const ClaimRecord *now, bool maybe)
{
	const LockRequest *l = &self->request.lock;
	bool		over = row->epoch != l->claim.token ||
		(row->owner != 0 && row->owner != l->owner) ||
		(row->owner == 0 && !maybe);

	return over || now->id != l->previous.id ||
		(now->exists && now->state != l->previous.state);
}

static void
claim_in_turn(void)
{
	const ClaimRecord *c = &self->request.lock.claim;
	ClaimRecord now;
	Row			row;
	bool		maybe = false;

	for (le_duration pause = 20 * LE_MSEC;; pause = self->pause)
	{
		CqlResult	result = write_claim(CQL_CLAIM);

		if (result == CQL_APPLIED)
		{
			show_claim(201, c);
			return;
		}
		if (result == CQL_NOT_SENT && !maybe)
		{
			fail(false);
			return;
		}
		maybe = maybe || result != CQL_REFUSED;
		if (settle_claim(maybe, &row, &now) != CQL_APPLIED)
		{
			fail(maybe);
			return;
		}
		if (now.id == c->id && now.tick == c->tick && now.try == c->try &&
			now.token == c->token)
		{
			show_claim(200, &now);
			return;
		}
		if (now.id == c->id || cannot_claim(&row, &now, maybe))
		{
			refuse(409, "claim-refused", &row);
			return;
		}
		self->pause = pause;
		if (!pause_job())
		{
			fail(maybe);
			return;
		}
	}
}

static void
complete_in_turn(void)
{
	const ClaimRecord *c = &self->request.lock.claim;
	ClaimRecord now;
	Row			row;
	bool		maybe = false;

	for (le_duration pause = 20 * LE_MSEC;; pause = self->pause)
	{
		CqlResult	result = write_claim(CQL_COMPLETE);
		bool		known = result == CQL_APPLIED || result == CQL_REFUSED;

		if (result == CQL_NOT_SENT && !maybe)
		{
			fail(false);
			return;
		}
		maybe = maybe || !known;
		if (settle_claim(maybe || known, &row, &now) != CQL_APPLIED)
		{
			fail(maybe || known);
			return;
		}
		if (!now.exists)
		{
			refuse(404, "no-claim", &row);
			return;
		}
		if (now.id == c->id && now.state == c->state)
		{
			show_claim(200, &now);
			return;
		}
		if (now.id != c->id || now.state != LE_CLAIM_RUNNING)
		{
			refuse(409, "claim-refused", &row);
			return;
		}
		self->pause = pause;
		if (!pause_job())
		{
			fail(maybe);
			return;
		}
	}
}

static void
change_claim(void)
{
	in_turn(self->request.lock.verb == LOCK_CLAIM ?
			claim_in_turn : complete_in_turn);
}

static void
get_claim(void)
{
	ClaimRecord now;
	Row			row;

	if (settle_claim(false, &row, &now) != CQL_APPLIED)
		fail(false);
	else if (!now.exists)
		refuse(404, "no-claim", &row);
	else
		show_claim(200, &now);
}

/* ---- reads for clients (read.go, api/server.go) ---- */

/* False: unknown, and answered so. */
static bool
get_row(Row *row)
{
	bool		known;

	self->deadline = sim.now + BUDGET;
	if (!enter())
	{
		fail(false);
		return false;
	}
	known = seen_since(CQL_READ, row) || settle(false, row) == CQL_APPLIED;
	leave();
	if (!known)
		fail(false);
	return known;
}

static void
show_row(const Row *row)
{
	if (row->owner == 0)
		refuse(404, "free", row);
	else if (answer(200, NULL))
		doc()->row = *row;
}

static void
get(void)
{
	Row			row;

	if (get_row(&row))
		show_row(&row);
}

/* False: the caller has gone. */
static bool
park(le_time until)
{
	uint32		version = mine()->hubs[self->election].version;

	while (mine()->hubs[self->election].version == version &&
		   sim.now < until)
	{
		self->parked = true;
		sleep_until(until);
		self->parked = false;
		if (caller_is_gone(self))
			return false;
	}
	return true;
}

static void
wait_for_change(void)
{
	const Hub  *hub = &mine()->hubs[self->election];
	le_time		until = sim.now + self->request.wait;
	Row			first;
	Row			row;
	bool		known;

	known = get_row(&first);
	if (known && (first.epoch != self->term.token ||
				  first.rev != self->term.rev))
	{
		show_row(&first);
		return;
	}
	while (known)
	{
		if (hub->seen && differs(&first, &hub->row))
		{
			if (!get_row(&row))
				return;
			if (differs(&first, &row))
				break;
		}
		if (!park(until))
			return;
		if (sim.now >= until)
		{
			known = get_row(&row);
			break;
		}
	}
	if (known)
		show_row(&row);
}

static void
list(void)
{
	Answer	   *a = &replies[self->reply].answer;
	Row			row;

	for (int e = 0; e < sim.nelections; e++)
	{
		self->election = e;
		if (read_row(CQL_POLL, &row) != CQL_APPLIED)
		{
			a->lock.ndocs = 1;
			self->doc = 0;
			fail(false);
			doc()->election = -1;
			return;
		}
		if (row.owner == 0)
			continue;
		self->doc = a->lock.ndocs++;
		if (answer(200, NULL))
			doc()->row = row;
	}
}

static void
ready(void)
{
	Row			row;

	self->election = 0;
	if (read_row(CQL_READ, &row) == CQL_APPLIED)
		answer(200, NULL);
	else
	{
		fail(false);
		doc()->election = -1;
	}
}

/* ---- jobs ---- */

/* api/decode.go: requests refused at once. */
static bool
malformed(const LockRequest *l)
{
	if (l->verb == LOCK_CLAIM)
		return l->owner == 0 || l->claim.token < 1 || l->claim.try < 1 ||
			(l->previous.exists && l->previous.id == l->claim.id);
	if (l->verb == LOCK_ACQUIRE_MANY)
		return l->owner == 0;
	if (l->verb != LOCK_RENEW && l->verb != LOCK_RENEW_MANY &&
		l->verb != LOCK_RELEASE && l->verb != LOCK_RELEASE_MANY)
		return false;
	for (int i = 0; i < l->n; i++)
		if (l->terms[i].token < 1 || l->terms[i].token > MAX_TOKEN ||
			l->terms[i].rev < 1)
			return true;
	return l->owner == 0;
}

static void
run_job(void)
{
	self->deadline = sim.now + BUDGET;
	if (self->background)
	{
		abandon();
		return;
	}
	switch (self->request.lock.verb)
	{
		case LOCK_ACQUIRE:
		case LOCK_ACQUIRE_MANY:
			acquire();
			break;
		case LOCK_RENEW:
		case LOCK_RENEW_MANY:
			renew();
			break;
		case LOCK_RELEASE:
		case LOCK_RELEASE_MANY:
			release();
			break;
		case LOCK_WAIT:
			join();
			wait_for_change();
			part();
			break;
		case LOCK_LIST:
			list();
			break;
		case LOCK_READY:
			ready();
			break;
		case LOCK_GET_CLAIM:
			get_claim();
			break;
		case LOCK_CLAIM:
		case LOCK_COMPLETE:
			change_claim();
			break;
		default:
			get();
			break;
	}
}

static void
resume_job(Job *job)
{
	self = job;
	coroutine_resume(job->coroutine);
}

/*
 * A claim trusts a "no" that says that nothing was done.  A request is
 * repeated for want of an answer, so the answer to one of two cannot be
 * trusted.
 */
static bool
to_distrust(const Request *r, const char *problem)
{
	return r->lock.travel.copied &&
		(r->lock.verb == LOCK_CLAIM || r->lock.verb == LOCK_COMPLETE) &&
		problem != NULL && strcmp(problem, "claim-refused") != 0;
}

/* The body of a coroutine; it returns here for the next request. */
static void
job_process(void)
{
	Job		   *job = self;
	Reply	   *r;

	run_job();
	job->used = false;
	if (job->reply < 0)
		return;
	r = &replies[job->reply];
	if (--r->left > 0)
		return;
	r->used = false;
	if (to_distrust(&job->request, r->answer.lock.docs[0].problem))
		r->answer.net = LE_NET_BROKEN;
	network_answer(r->node, r->process, r->flight, r->number, &r->answer);
}

static bool
room_for(int n)
{
	int			room = MAX_JOBS - nused;

	for (int i = 0; i < nused; i++)
		if (!jobs[i]->used)
			room++;
	return room >= n;
}

static Job *
new_job(int gateway, const Request *r, int election)
{
	int			i = 0;
	Coroutine  *coroutine;

	while (i < nused && jobs[i]->used)
		i++;
	if (i == MAX_JOBS)
		return NULL;
	if (jobs[i] == NULL)
	{
		jobs[i] = calloc(1, sizeof(Job));
		jobs[i]->coroutine = coroutine_new(job_process);
	}
	nused = Max(nused, i + 1);
	coroutine = jobs[i]->coroutine;
	memset(jobs[i], 0, sizeof(Job));
	jobs[i]->coroutine = coroutine;
	jobs[i]->number = i;
	jobs[i]->used = true;
	jobs[i]->gateway = gateway;
	jobs[i]->election = election;
	jobs[i]->reply = -1;
	memcpy(&jobs[i]->request, r, offsetof(Request, values));
	jobs[i]->term.token = r->lock.terms[0].token;
	jobs[i]->term.rev = r->lock.terms[0].rev;
	return jobs[i];
}

/* Answered before anything was done. */
static void
answer_at_once(const Request *r, int node, uint32 process, int flight,
			   uint32 number, LeNet net, int status, const char *problem)
{
	static Answer a;
	LockDoc    *d = &a.lock.docs[0];

	memset(&a, 0, sizeof(a));
	a.net = to_distrust(r, "any") ? LE_NET_BROKEN : net;
	a.lock.verb = r->lock.verb;
	a.gateway = r->lock.gateway;
	a.lock.ndocs = 1;
	d->election = -1;
	d->status = status;
	d->problem = problem;
	d->trust_ms = -1;
	network_answer(node, process, flight, number, &a);
}

static Reply *
new_reply(const Request *r, int node, uint32 process, int flight,
		  uint32 number)
{
	int			i = 0;
	Reply	   *reply;

	while (i < MAX_JOBS && replies[i].used)
		i++;
	if (i == MAX_JOBS)
		return NULL;
	reply = &replies[i];
	memset(reply, 0, sizeof(*reply));
	reply->used = true;
	reply->node = node;
	reply->process = process;
	reply->flight = flight;
	reply->number = number;
	reply->answer.outcome = LE_DONE;
	reply->answer.lock.verb = r->lock.verb;
	reply->answer.lock.job = r->lock.job;
	reply->answer.gateway = r->lock.gateway;
	return reply;
}

/* A fault between client and gateway: no answer, or a proxy's. */
static void
break_answer(Answer *a)
{
	if (sim_below(2) == 0)
		a->net = LE_NET_BROKEN;
	else
		a->lock.foreign = true;
}

/* One lock of a batch, as if it were alone. */
static void
take_entry(LockRequest *l, int i)
{
	l->has_value = l->terms[i].has_value;
	l->value = l->terms[i].value;
	l->attempt = l->terms[i].attempt;
	l->min_token = l->terms[i].min_token;
}

/*
 * Does it refuse batches other than renewals, for the sake of one lock?  By
 * the seed alone, so that old schedules stay the same.
 */
static bool
finds_fault(int gateway)
{
	return sim_mix(sim.schedule->seed ^ (uint64) (gateway + 71)) % 8 == 0;
}

void
gateway_serve(const Request *r, int node, uint32 process, int flight,
			  uint32 number)
{
	const Weather *w = &sim.schedule->weather;
	const LockRequest *l = &r->lock;
	bool		many = lock_many(l->verb);
	Reply	   *reply;
	int			n = many ? l->n : 1;

	if (!gateways[l->gateway].up)
	{
		/* its machine refuses, or is down, too */
		if (sim_below(2) == 0)
			answer_at_once(r, node, process, flight, number, LE_NET_NOT_SENT,
						   0, NULL);
		return;
	}
	if (sim_chance(w->refuse))
	{
		bool		busy = sim_below(4) != 0;

		answer_at_once(r, node, process, flight, number, LE_NET_OK,
					   busy ? 503 : 401, busy ? "overloaded" :
					   "unauthorized");
		return;
	}
	if (many && l->verb != LOCK_RENEW_MANY && finds_fault(l->gateway))
	{
		sim.counts.apart++;
		answer_at_once(r, node, process, flight, number, LE_NET_OK, 400,
					   "bad-request");
		return;
	}
	if (!room_for(n))			/* --max-requests */
	{
		answer_at_once(r, node, process, flight, number, LE_NET_OK, 503,
					   "overloaded");
		return;
	}
	if (malformed(l))
	{
		answer_at_once(r, node, process, flight, number, LE_NET_OK, 400,
					   "bad-request");
		return;
	}
	if ((l->verb == LOCK_RENEW_MANY || l->verb == LOCK_ACQUIRE_MANY) &&
		!ttl_is_good(l->ttl_ms))	/* it is that of all */
	{
		answer_at_once(r, node, process, flight, number, LE_NET_OK, 422,
					   "bad-ttl");
		return;
	}
	reply = new_reply(r, node, process, flight, number);
	if (reply == NULL)
		return;
	if (sim_chance(w->break_answer))
		break_answer(&reply->answer);
	reply->left = n;
	if (l->verb != LOCK_LIST)
		reply->answer.lock.ndocs = n;
	for (int i = 0; i < n; i++)
	{
		Job		   *job = new_job(l->gateway, r,
								  many ? l->terms[i].election : r->election);

		if (job == NULL)
			abort();
		job->reply = (int) (reply - replies);
		job->doc = i;
		job->term.token = l->terms[i].token;
		job->term.rev = l->terms[i].rev;
		if (l->verb == LOCK_ACQUIRE_MANY)
			take_entry(&job->request.lock, i);
		wake_job(job, Max(sim.now, gateways[l->gateway].frozen_until));
	}
}

/* ---- faults ---- */

void
gateway_freeze(int number, le_time until)
{
	Gateway    *g = &gateways[number];

	if (!g->up)
		return;
	sim.counts.gateways_frozen++;
	trace(NULL, "gateway %d stops for %.3f s", number,
		  (until - sim.now) / (double) LE_SEC);
	g->frozen_until = Max(g->frozen_until, until);
}

/* Requests that it has sent may still arrive. */
void
gateway_kill(int number, le_duration down)
{
	if (!gateways[number].up)
		return;
	sim.counts.gateways_killed++;
	trace(NULL, "gateway %d is killed, for %.3f s", number,
		  down / (double) LE_SEC);
	for (int i = 0; i < nused; i++)
	{
		Job		   *job = jobs[i];

		if (!job->used || job->gateway != number)
			continue;
		if (job->under_way && sim_below(2) == 0)
			cassandra_later(&job->cql, sim_span(0, 3 * LE_SEC));
		if (job->reply >= 0)
			replies[job->reply].used = false;
		job->used = false;
		job->stamp = 0;
		coroutine_reset(job->coroutine);
	}
	memset(&gateways[number], 0, sizeof(Gateway));
	network_at(sim.now + down, AT_GATEWAY, number, 0);
}

void
gateways_clear_up(void)
{
	for (int i = 0; i < GATEWAYS; i++)
	{
		gateways[i].up = true;
		gateways[i].severed_until = 0;
		if (gateways[i].frozen_until <= sim.now)
			continue;
		gateways[i].frozen_until = sim.now;
		for (int k = 0; k < nused; k++)
			if (jobs[k]->used && jobs[k]->gateway == i &&
				!jobs[k]->parked && (!jobs[k]->queues || jobs[k]->has_turn))
				wake_job(jobs[k], sim.now);
	}
}

/* ---- events ---- */

/* A statement is applied whether or not its gateway still runs. */
static void
wake(int number, uint32 stamp)
{
	Job		   *job = number < nused ? jobs[number] : NULL;
	le_time		frozen_until;

	if (job == NULL || !job->used || job->stamp != stamp)
		return;
	if (job->under_way)
	{
		job->result = cassandra_execute(&job->cql, &job->shown);
		job->under_way = false;
	}
	frozen_until = gateways[job->gateway].frozen_until;
	if (frozen_until > sim.now)
		wake_job(job, frozen_until);
	else
		resume_job(job);
}

static void
look_now(int index, uint32 stamp)
{
	int			gateway = index / MAX_ELECTIONS;
	int			election = index % MAX_ELECTIONS;
	const Gateway *g = &gateways[gateway];

	if (!g->up || g->hubs[election].stamp != stamp || stamp == 0)
		return;
	if (g->frozen_until > sim.now)
		look(gateway, election, g->frozen_until);
	else
		poll_hub(gateway, election);
}

void
gateways_event(int what, int a, uint32 b)
{
	if (what == AT_JOB)
		wake(a, b);
	else if (what == AT_HUB)
		look_now(a, b);
	else if (what == AT_GATEWAY)
		gateways[a].up = true;
}
