/*-------------------------------------------------------------------------
 *
 * network.c
 *		Future events, and the network between nodes and store.
 *
 * Requests and answers are lost, repeated, held up and reordered, each
 * independently.  A request is applied when it arrives, even if its sender has
 * given it up or is dead.
 *
 * test/sim/network.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include "lib/stringinfo.h"
#include "port/pg_bitutils.h"

#define MAX_MESSAGES	2048

typedef struct Message
{
	int			next_free;
	int			node;
	uint32		process;
	int			flight;
	uint32		number;
	bool		repeated;		/* the second of two */
	Request		request;
	Answer		answer;
} Message;

typedef struct Entry
{
	le_time		at;
	int			what;
	int			a;
	uint32		b;
} Entry;

static Message messages[MAX_MESSAGES];
static int	free_message;
static int	fresh_message;

/*
 * Future events, the first at the end.  They are few, and a new one mostly
 * comes soon: faster than a heap.
 */
static Entry entries[2 * MAX_MESSAGES];
static int	nentries;

void
network_reset(void)
{
	free_message = -1;
	fresh_message = 0;
	nentries = 0;
}

/* ---- future events ---- */

/* After all events of the same instant. */
void
network_at(le_time at, int what, int a, uint32 b)
{
	int			i = nentries++;

	if (nentries == lengthof(entries))
		abort();
	for (; i > 0 && entries[i - 1].at <= at; i--)
		entries[i] = entries[i - 1];
	entries[i] = (Entry) {at, what, a, b};
}

le_time
network_next(void)
{
	return nentries == 0 ? NEVER : entries[nentries - 1].at;
}

/* ---- messages ---- */

static int
new_message(void)
{
	int			m = free_message;

	if (m >= 0)
		free_message = messages[m].next_free;
	else if (fresh_message < MAX_MESSAGES)
		m = fresh_message++;
	else
		abort();
	return m;
}

static void
end_message(int m)
{
	messages[m].next_free = free_message;
	free_message = m;
}

static void
end_answer(int m)
{
	store_list_free(&messages[m].answer);
	end_message(m);
}

/* Does the sending worker still wait for an answer? */
bool
network_awaits(int node, uint32 process, int flight, uint32 number)
{
	const SimNode *n = sim.node[node];

	return n->process == process && ((n->in_flight >> flight) & 1) != 0 &&
		n->flights[flight].number == number;
}

static bool
is_awaited(const Message *m)
{
	return network_awaits(m->node, m->process, m->flight, m->number);
}

/* An answer that has arrived, and its worker has not read yet. */
const Answer *
network_answer_to(const Flight *f)
{
	return &messages[f->message].answer;
}

static le_duration
latency(void)
{
	const Weather *w = &sim.schedule->weather;

	if (sim_chance(w->delay))
		return sim_span(LE_MSEC, 4 * LE_SEC);
	if (sim_chance(w->long_delay))
		return sim_span(LE_SEC, 60 * LE_SEC);
	if (sim.now < sim.slow_until && sim.storm)
		return sim_span(LE_MSEC, 3 * LE_SEC);
	return sim_span(LE_MSEC / 2, 8 * LE_MSEC);
}

static bool
cut(const SimNode *n, int gateway)
{
	return sim.now >= n->cut_from && sim.now < n->cut_until &&
		(n->cut_gateway < 0 || n->cut_gateway == gateway);
}

/* Each store ends it for itself. */
static size_t
request_size(const Request *r)
{
	if (sim.model == &azure_model)
		return offsetof(Request, blob) + sizeof(BlobRequest);
	return r->lock.verb != LOCK_NONE ? offsetof(Request, values) :
		r->tells ? sizeof(Request) :
		offsetof(Request, steps) + r->nsteps * sizeof(Step);
}

static int
post_request(const Request *r, const SimNode *n, int flight, bool repeated)
{
	int			m = new_message();

	messages[m].node = n->number;
	messages[m].process = n->process;
	messages[m].flight = flight;
	messages[m].number = n->flights[flight].number;
	messages[m].repeated = repeated;
	memcpy(&messages[m].request, r, request_size(r));
	messages[m].request.tells = r->tells;
	messages[m].request.lock.travel = (Travel) {.sent = sim.now};
	network_at(sim.now + latency(), AT_REQUEST, m, 0);
	return m;
}

void
network_send(const Request *r, int flight)
{
	const Weather *w = &sim.schedule->weather;
	SimNode    *n = sim_node;
	int			m;

	check_proof(n, r);
	sim.counts.requests++;
	sim.counts.op[r->kind]++;
	check_sent(n, r);
	trace(n, "sends %s", trace_request(r));
	if (cut(n, r->lock.gateway) || sim_chance(w->lose_request))
	{
		trace(n, "  lost on the way");
		return;
	}
	m = post_request(r, n, flight, false);
	if (sim_chance(w->repeat))
	{
		messages[m].request.lock.travel.copied = true;
		m = post_request(r, n, flight, true);
		messages[m].request.lock.travel.copied = true;
	}
}

static size_t
answer_size(const Answer *a)
{
	if (sim.model == &azure_model)
		return offsetof(Answer, blob.shown) +
			a->blob.nshown * sizeof(BlobShown);
	if (sim.model == &cassandra_model)
		return offsetof(Answer, lock) + sizeof(LockAnswer);
	return a->keys_shown != 0 ? offsetof(Answer, keys) +
		sizeof(a->keys) : offsetof(Answer, keys);
}

/* On its way back; delayed answers may overtake each other. */
void
network_answer(int node, uint32 process, int flight, uint32 number,
			   const Answer *answer)
{
	SimNode    *n = sim.node[node];
	int			m;

	if (n->process != process || cut(n, answer->gateway) ||
		sim.now < n->deaf_until ||
		sim_chance(sim.schedule->weather.lose_answer))
	{
		trace(n, "  answer lost");
		store_list_free(answer);
		return;
	}
	m = new_message();
	messages[m].node = node;
	messages[m].process = process;
	messages[m].flight = flight;
	messages[m].number = number;
	memcpy(&messages[m].answer, answer, answer_size(answer));
	network_at(sim.now + latency(), AT_ANSWER, m, 0);
}

/*
 * A claim trusts a "no" that says that nothing was done.  A request is
 * repeated for want of an answer, so the answer to one of two cannot be
 * trusted.
 */
static void
distrust(const Message *m, Answer *a)
{
	if (m->request.lock.travel.copied &&
		(m->request.kind == LE_OP_CLAIM ||
		 m->request.kind == LE_OP_COMPLETE) &&
		(a->outcome == LE_UNAVAILABLE || a->outcome == LE_REFUSED))
		a->net = LE_NET_BROKEN;
}

static void
deliver_request(int number)
{
	Message    *m = &messages[number];
	Answer		answer;

	if (m->repeated)
		sim.counts.duplicates++;
	if (!is_awaited(m))
		sim.counts.late++;
	sim.travel = m->request.lock.travel;
	if (sim.model->apply(&m->request, &answer, m->node, m->process, m->flight,
						 m->number))
	{
		distrust(m, &answer);
		network_answer(m->node, m->process, m->flight, m->number, &answer);
	}
	end_message(number);
}

static void
deliver_answer(int number)
{
	Message    *m = &messages[number];
	SimNode    *n = sim.node[m->node];

	uint64		bit = UINT64CONST(1) << m->flight;

	if (is_awaited(m) && (n->answered & bit) == 0)
	{
		n->answered |= bit;
		/* until the worker reads the answer */
		n->flights[m->flight].message = number;
		node_wake(n);
	}
	else
		end_answer(number);
}

/* For a request, or the request of an answer; some have no waiter. */
static LeOpKind
kind_of(const Entry *e)
{
	const Message *m = &messages[e->a];

	if (e->what == AT_REQUEST)
		return m->request.kind;
	return is_awaited(m) ? sim.node[m->node]->flights[m->flight].kind : 0;
}

/* Messages in flight, in any order; and the time until each arrives. */
uint64
network_hash(void)
{
	uint64		hash = 0;

	for (int i = 0; i < nentries; i++)
	{
		const Entry *e = &entries[i];
		uint64		one = (uint64) (e->at - sim.now) / LE_MSEC << 8 | e->what;

		if (e->what == AT_REQUEST || e->what == AT_ANSWER)
			one = sim_mix(one) ^ kind_of(e) << 8 ^ messages[e->a].node;
		hash += sim_mix(one);
	}
	return hash;
}

void
network_step(void)
{
	Entry		e = entries[--nentries];
	SimNode    *n;

	sim.now = Max(sim.now, e.at);
	switch (e.what)
	{
		case AT_REQUEST:
			deliver_request(e.a);
			break;
		case AT_ANSWER:
			deliver_answer(e.a);
			break;
		case AT_HAPPENING:
			schedule_happen(e.a);
			break;
		case AT_START:
			n = sim.node[e.a];
			if (!n->up)
				node_start(n);
			else if (n->stopping)
				network_at(sim.now + LE_SEC, AT_START, e.a, 0);
			break;
		case AT_WORKER:
			n = sim.node[e.a];
			if (n->up && !n->running && !n->stopping && n->process == e.b)
				node_start_worker(n);
			break;
		case AT_BACKEND:
			process_run(sim.node[e.a / PROCS], e.a % PROCS, e.b);
			break;
		case AT_CRON:
			cron_fires(sim.node[e.a]);
			break;
		default:
			sim.model->event(e.what, e.a, e.b);
			break;
	}
}

/* The process has ended, and its connections with it. */
void
network_forget(SimNode *n)
{
	for (uint64 left = n->answered; left != 0; left &= left - 1)
		end_answer(n->flights[pg_rightmost_one_pos64(left)].message);
	n->in_flight = n->answered = 0;
	n->process++;
}

/* ---- in place of http.c ---- */

void
le_http_start(LeWorker *w, const int connections[LE_NLANES])
{
	(void) connections;
}

int
le_http_socket(LeWorker *w)
{
	return 0;
}

bool
le_http_looks_up_apart(void)
{
	return true;
}

/* The request is on its way. */
void
le_http_push(LeWorker *w)
{
}

/* libcurl times its requests by CLOCK_MONOTONIC. */
void
le_http_send(LeWorker *w, const LeRequest *request, LeLane lane,
			 le_duration timeout, LeHttpDone done, void *arg)
{
	SimNode    *n = sim_node;
	Request    *r = &n->encoded;
	int			i;
	Flight	   *f;

	if (sim.model->read_request != NULL)
		sim.model->read_request(request, r);
	node_may_pause();
	if (n->in_flight == PG_UINT64_MAX)
		abort();
	i = pg_rightmost_one_pos64(~n->in_flight);
	n->in_flight |= UINT64CONST(1) << i;
	f = &n->flights[i];
	f->number = ++n->last_flight;
	f->kind = r->kind;
	f->session = r->session;
	f->times_out = clock_mono(n, sim.now) + timeout;
	f->done = done;
	f->arg = arg;
	network_send(r, i);
	if (r->kind == LE_OP_PROVE_NODE || r->kind == LE_OP_RENEW_SESSION ||
		r->kind == LE_OP_RENEW_TERMS)
		node_ambush();
	node_may_pause();
}

static le_time
first_timeout(const SimNode *n)
{
	le_time		next = 0;

	if (n->answered != 0)
		return 1;
	for (uint64 left = n->in_flight; left != 0; left &= left - 1)
		next = le_earliest(next,
						   n->flights[pg_rightmost_one_pos64(left)].times_out);
	return next;
}

/* Time-out on the clock of le_now(). */
le_time
le_http_timer(LeWorker *w)
{
	le_time		next = first_timeout(sim_node);

	if (next == 0)
		return 0;
	return Max(next - clock_mono(sim_node, sim.now), 0) +
		clock_boot(sim_node, sim.now);
}

static void
give_up_waiting(LeWorker *w, const Flight *f)
{
	LeResponse response = {.net = LE_NET_BROKEN, .http.status = 200};

	trace(sim_node, "gives up waiting for an answer to %s",
		  le_op_name(f->kind));
	sim.counts.unknown++;
	f->done(w, f->arg, &response);
}

static void
take_notice(LeWorker *w, const Flight *f)
{
	int			message = f->message;
	const Answer *answer = network_answer_to(f);
	LeResponse response = {.net = answer->net, .http.status = 200};

	trace(sim_node, "gets answer to %s: %s", le_op_name(f->kind),
		  answer->net != LE_NET_OK ? "nothing that counts" :
		  le_outcome_name(answer->outcome));
	response.body = (const char *) answer;
	response.body_len = sizeof(*answer);
	if (sim.model->write_answer != NULL && response.net == LE_NET_OK)
		sim.model->write_answer(answer, &response);
	if (response.net != LE_NET_OK)
		sim.counts.unknown++;
	else if (answer->outcome == LE_LOST)
		sim_node->told_lost = f->session;
	f->done(w, f->arg, &response);
	end_answer(message);
}

static void
end_flight(LeWorker *w, SimNode *n, int i)
{
	uint64		bit = UINT64CONST(1) << i;
	bool		answered = (n->answered & bit) != 0;

	n->in_flight &= ~bit;
	n->answered &= ~bit;
	if (answered)
		take_notice(w, &n->flights[i]);
	else
		give_up_waiting(w, &n->flights[i]);
}

/* The finished flight that was sent first; -1: none. */
static int
first_over(const SimNode *n, uint64 left, le_time now)
{
	int			first = -1;

	for (; left != 0; left &= left - 1)
	{
		int			i = pg_rightmost_one_pos64(left);
		const Flight *f = &n->flights[i];

		if ((((n->answered >> i) & 1) != 0 || f->times_out <= now) &&
			(first < 0 || f->number < n->flights[first].number))
			first = i;
	}
	return first;
}

/* In the order of sending, answers before timeouts. */
void
le_http_run(LeWorker *w)
{
	SimNode    *n = sim_node;
	int			i;

	while ((i = first_over(n, n->answered, 0)) >= 0)
		end_flight(w, n, i);
	while ((i = first_over(n, n->in_flight, clock_mono(n, sim.now))) >= 0)
		end_flight(w, n, i);
}
