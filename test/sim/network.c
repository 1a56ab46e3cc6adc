/*-------------------------------------------------------------------------
 *
 * network.c
 *		What is to come, and the network between nodes and store.
 *
 * Requests and answers are lost, repeated, held up and reordered, each on its
 * own.  A request whose sender has given it up, or is dead, is applied all
 * the same when it arrives.
 *
 * test/sim/network.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include "lib/stringinfo.h"

#include "plan.h"

#define MAX_MESSAGES	2048

typedef struct Message
{
	int			next_free;
	int			node;
	uint32		process;
	int			flight;
	uint32		number;
	bool		repeated;		/* the second of two ... */
	bool		copied;			/* ... of which this is one */
	Request		request;
	Answer		answer;
} Message;

typedef struct Entry
{
	le_time		at;
	uint32		order;			/* of entries of one instant */
	short		what;
	int			a;
	uint32		b;
} Entry;

static Message messages[MAX_MESSAGES];
static int	free_message;
static int	fresh_message;

static Entry heap[2 * MAX_MESSAGES];
static int	nheap;
static uint32 last_order;

void
network_reset(void)
{
	free_message = -1;
	fresh_message = 0;
	nheap = 0;
	last_order = 0;
}

/* ---- what is to come ---- */

static bool
before(const Entry *a, const Entry *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void
network_at(le_time at, int what, int a, uint32 b)
{
	Entry		e = {.at = at, .what = what, .a = a, .b = b};
	int			i = nheap++;

	if (nheap > 2 * MAX_MESSAGES - 1)
		abort();
	e.order = ++last_order;
	for (; i > 0 && before(&e, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = e;
}

le_time
network_next(void)
{
	return nheap == 0 ? NEVER : heap[0].at;
}

static Entry
take_first(void)
{
	Entry		first = heap[0];
	Entry		last = heap[--nheap];
	int			i = 0;

	for (;;)
	{
		int			child = 2 * i + 1;

		if (child >= nheap)
			break;
		if (child + 1 < nheap && before(&heap[child + 1], &heap[child]))
			child++;
		if (!before(&heap[child], &last))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
	return first;
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

static int
post_request(const Request *r, const SimNode *n, int flight, bool repeated)
{
	int			m = new_message();

	messages[m].node = n->number;
	messages[m].process = n->process;
	messages[m].flight = flight;
	messages[m].number = n->flights[flight].number;
	messages[m].repeated = repeated;
	messages[m].copied = false;
	messages[m].request = *r;
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
	if (trace_on)
		trace(n, "sends %s", trace_request(r));
	if (cut(n, r->lock.gateway) || sim_chance(w->lose_request))
	{
		if (trace_on)
			trace(n, "  lost on the way");
		return;
	}
	m = post_request(r, n, flight, false);
	if (sim_chance(w->repeat))
	{
		messages[m].copied = true;
		m = post_request(r, n, flight, true);
		messages[m].copied = true;
	}
}

/* On its way back; answers that were held up may overtake each other. */
void
network_answer(int node, uint32 process, int flight, uint32 number,
			   const Answer *answer)
{
	SimNode    *n = sim.node[node];
	int			m;

	if (n->process != process || cut(n, answer->lock.gateway) ||
		sim.now < n->deaf_until ||
		sim_chance(sim.schedule->weather.lose_answer))
	{
		if (trace_on)
			trace(n, "  answer lost");
		store_list_free(answer->nodes);
		return;
	}
	m = new_message();
	messages[m].node = node;
	messages[m].process = process;
	messages[m].flight = flight;
	messages[m].number = number;
	messages[m].answer = *answer;
	network_at(sim.now + latency(), AT_ANSWER, m, 0);
}

/*
 * A claim trusts a "no" that says that nothing was done.  Whoever repeats a
 * request does so for want of an answer, so one of two is none to trust.
 */
static void
distrust(const Message *m, Answer *a)
{
	if (m->copied && (m->request.kind == LE_OP_CLAIM ||
					  m->request.kind == LE_OP_COMPLETE) &&
		(a->outcome == LE_UNAVAILABLE || a->outcome == LE_REFUSED))
		a->net = LE_NET_BROKEN;
}

static void
deliver_request(int number)
{
	Message    *m = &messages[number];
	const Flight *f = &sim.node[m->node]->flights[m->flight];
	Answer		answer;

	if (m->repeated)
		sim.counts.duplicates++;
	if (m->process != sim.node[m->node]->process || !f->used ||
		f->number != m->number)
		sim.counts.late++;
	m->request.lock.copied = sim.copied = m->copied;
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
	Flight	   *f = &n->flights[m->flight];

	if (n->process == m->process && f->used && f->number == m->number &&
		!f->answered)
	{
		f->answered = true;
		f->answer = m->answer;
		node_wake(n);
	}
	else
		store_list_free(m->answer.nodes);
	end_message(number);
}

/* What is under way, whatever the order; and how long until it arrives. */
uint64
network_hash(void)
{
	uint64		hash = 0;

	for (int i = 0; i < nheap; i++)
	{
		const Entry *e = &heap[i];
		uint64		one = (uint64) (e->at - sim.now) / LE_MSEC << 8 | e->what;

		if (e->what == AT_REQUEST || e->what == AT_ANSWER)
			one = sim_mix(one) ^ messages[e->a].request.kind << 8 ^
				messages[e->a].node;
		hash += sim_mix(one);
	}
	return hash;
}

void
network_step(void)
{
	Entry		e = take_first();
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
			process_run(sim.node[e.a / MAX_BACKENDS], e.a % MAX_BACKENDS,
						e.b);
			break;
		default:
			sim.model->event(e.what, e.a, e.b);
			break;
	}
}

/* The process is gone, and its connections with it. */
void
network_forget(SimNode *n)
{
	for (int i = 0; i < n->nflights; i++)
	{
		if (n->flights[i].used && n->flights[i].answered)
			store_list_free(n->flights[i].answer.nodes);
		n->flights[i].used = false;
	}
	n->process++;
}

/* ---- in place of http.c ---- */

void
le_http_start(int connections)
{
	(void) connections;
}

bool
le_http_configure(const char *url, const char *token_file,
				  const char *header)
{
	(void) header;
	return true;
}

int
le_http_socket(void)
{
	return 0;
}

const char *
le_http_origin(void)
{
	return "http://sim";
}

/* libcurl times its requests by CLOCK_MONOTONIC. */
void
le_http_send(const LeHttpRequest *request, le_duration timeout,
			 LeHttpDone done, void *arg)
{
	SimNode    *n = sim_node;
	int			i = 0;
	Flight	   *f;

	Request		r;

	if (sim.model->read_request != NULL)
		sim.model->read_request(request, &r);
	else
		r = n->encoded;
	node_may_pause();
	while (i < MAX_FLIGHTS && n->flights[i].used)
		i++;
	if (i == MAX_FLIGHTS)
		abort();
	n->nflights = Max(n->nflights, i + 1);
	f = &n->flights[i];
	f->used = true;
	f->answered = false;
	f->number = ++n->last_flight;
	f->kind = r.kind;
	f->session = r.session;
	f->times_out = clock_mono(n, sim.now) + timeout;
	f->done = done;
	f->arg = arg;
	network_send(&r, i);
	if (r.kind == LE_OP_PROVE_NODE || r.kind == LE_OP_RENEW_SESSION ||
		r.kind == LE_OP_RENEW_TERMS)
		node_ambush();
	node_may_pause();
}

static le_time
first_timeout(const SimNode *n)
{
	le_time		next = 0;

	for (int i = 0; i < n->nflights; i++)
	{
		const Flight *f = &n->flights[i];

		if (f->used)
			next = le_earliest(next, f->answered ? 1 : f->times_out);
	}
	return next;
}

/* Asked for on the clock of le_now(). */
le_time
le_http_timer(void)
{
	le_time		next = first_timeout(sim_node);

	if (next == 0)
		return 0;
	return Max(next - clock_mono(sim_node, sim.now), 0) +
		clock_boot(sim_node, sim.now);
}

static void
end_flight(Flight *f, LeNet net)
{
	LeHttpResponse response = {.net = net, .status = 200};
	Answer		answer = f->answer;

	f->used = false;
	if (net != LE_NET_OK)
	{
		memset(&answer, 0, sizeof(answer));
		if (trace_on)
			trace(sim_node, "gives up waiting for an answer to %s",
				  le_op_name(f->kind));
	}
	else if (trace_on)
		trace(sim_node, "gets answer to %s: %s", le_op_name(f->kind),
			  answer.net != LE_NET_OK ? "nothing that counts" :
			  le_outcome_name(answer.outcome));
	response.body = (const char *) &answer;
	response.body_len = sizeof(answer);
	if (net == LE_NET_OK)
		response.net = answer.net;
	if (sim.model->write_answer != NULL && response.net == LE_NET_OK)
		sim.model->write_answer(&answer, &response);
	if (response.net != LE_NET_OK)
		sim.counts.unknown++;
	else if (answer.outcome == LE_LOST)
		sim_node->told_lost = f->session;
	f->done(f->arg, &response);
	store_list_free(answer.nodes);
}

/* In the order in which they were sent, answers before timeouts. */
void
le_http_run(void)
{
	SimNode    *n = sim_node;

	for (int pass = 0; pass < 2; pass++)
		for (;;)
		{
			Flight	   *first = NULL;
			le_time		now = clock_mono(n, sim.now);

			for (int i = 0; i < n->nflights; i++)
			{
				Flight	   *f = &n->flights[i];

				if (f->used && (f->answered || (pass == 1 &&
												f->times_out <= now)) &&
					(first == NULL || f->number < first->number))
					first = f;
			}
			if (first == NULL)
				break;
			end_flight(first, first->answered ? LE_NET_OK : LE_NET_BROKEN);
		}
}
