/*-------------------------------------------------------------------------
 *
 * model_cassandra.c
 *		Random requests and the answers of the models of gateway and Cassandra.
 *
 * One line of JSON per request: method, path, body, and the answer's status
 * and body.  test/gateway/model_test.go puts the same to a real le-gateway
 * over a real Cassandra and compares.  The requests are written by
 * store/cassandra.c; leases are so long that none runs out.
 *
 * The checks of the simulation judge workers.  There are none here, so their
 * findings do not count.
 *
 * test/sim/model_cassandra.c
 *
 *-------------------------------------------------------------------------
 */
#include "cassandra.h"
#include "cli.h"

#include "utils/memutils.h"

#define OWNERS		3
#define ELECTIONS	3
#define LEASE		(12 * 3600 * LE_SEC)

static Schedule schedule;

/* An operation, and all that it points to. */
typedef struct Ask
{
	LeOp		op;
	char		session[LE_SESSION_LEN + 1];
	char		attempt[LE_ATTEMPT_LEN + 1];
	LeClaim		claim;
	LeClaim		previous;
	LeTermRef	terms[ELECTIONS];
	const LeOp *joined[ELECTIONS];	/* operations in the same request */
} Ask;

static bool
fitting(void)
{
	return sim_below(5) != 0;
}

static int
some_owner(void)
{
	return (int) sim_below(OWNERS);
}

/* State of the lock, and content of its job's record. */
static Row
row_of(int election, int job, ClaimRecord *record)
{
	Cql			cql = {.kind = CQL_READ, .election = election, .job = job};
	Row			row;

	cql.second = cassandra_second(election);
	cassandra_execute(&cql, &row);
	*record = cql.claim;
	return row;
}

static void
ask_as(Ask *a, int owner)
{
	a->op.node_name = a->claim.node = name_of_node(owner);
	pg_snprintf(a->session, sizeof(a->session), "%08x%024d", owner + 1, 0);
	a->op.session = a->session;
}

/* Mostly for the present term. */
static void
name_term(Ask *a, const Row *row)
{
	a->op.index = fitting() ? row->epoch : sim_below(row->epoch + 3);
	a->op.term.rev = fitting() ? row->rev : sim_below(row->rev + 3);
}

static void
fill_acquire(Ask *a, const Row *row)
{
	uint64		attempt = row->attempt != 0 && sim_below(3) == 0 ?
		row->attempt : ++sim.attempts;

	pg_snprintf(a->attempt, sizeof(a->attempt), "%08x%08x%016d",
				(unsigned) (attempt >> 32), (unsigned) attempt, 0);
	a->op.term.attempt = a->attempt;
	if (sim_below(8) == 0)
		a->op.term.token_floor = row->epoch + sim_below(10);
	else if (sim_below(16) == 0)
		a->op.term.token_floor = row->epoch + (UINT64CONST(1) << 41);
	if (sim_below(16) == 0)
		a->op.lease = LE_SEC;	/* below a gateway's minimum */
}

static void
fill_terms(Ask *a)
{
	a->op.renew.terms = a->terms;
	a->op.renew.nterms = ELECTIONS;
	for (int e = 0; e < ELECTIONS; e++)
	{
		ClaimRecord record;
		Row			row = row_of(e, 0, &record);

		a->terms[e].election = name_of_election(e);
		a->terms[e].token = fitting() ? Max(row.epoch, 1) : 1 + sim_below(9);
		a->terms[e].rev = fitting() ? Max(row.rev, 1) : 1 + sim_below(3);
	}
}

static void
fill_claim(Ask *a, const Row *row, const ClaimRecord *record)
{
	uint32		id = record->exists && sim_below(3) == 0 ? record->id :
		claim_draw();

	a->op.claim.record = &a->claim;
	a->claim.id = name_of_claim(id);
	a->claim.tick = record->tick + (int64) sim_below(2) * 1000;
	a->claim.try = record->try + (int) sim_below(2);
	if (a->claim.try == 0)
		a->claim.try = 1;
	if (id == record->id && fitting())
	{
		a->claim.tick = record->tick;
		a->claim.try = record->try;
	}
	a->claim.state = LE_CLAIM_RUNNING;
	a->op.token = fitting() ? row->epoch : row->epoch + sim_below(2);
	if (record->exists == fitting())
	{
		a->op.claim.previous = &a->previous;
		a->previous.id = name_of_claim(record->exists ? record->id : id);
		a->previous.state = fitting() ? record->state : LE_CLAIM_DONE;
	}
}

static void
fill_complete(Ask *a, const ClaimRecord *record)
{
	a->op.claim.record = &a->claim;
	a->claim.id = name_of_claim(record->exists && fitting() ? record->id :
								claim_draw());
	a->claim.state = sim_below(2) == 0 ? LE_CLAIM_DONE : LE_CLAIM_FAILED;
}

/* A single bad one spoils them all, which one request shows. */
static void
well_formed(LeOp *op)
{
	op->index = Max(op->index, 1);
	op->term.rev = Max(op->term.rev, 1);
}

/* The same for the other elections, by one request. */
static void
join_others(Ask *a, int election)
{
	static Ask	others[ELECTIONS];
	int			n = 0;

	for (int e = 0; e < ELECTIONS; e++)
	{
		Ask		   *other = &others[e];
		ClaimRecord record;
		Row			row = row_of(e, 0, &record);

		if (e == election || sim_below(4) == 0)
			continue;
		memset(other, 0, sizeof(*other));
		other->op = a->op;
		other->op.election = name_of_election(e);
		other->op.value = name_of_value((uint32) sim_below(4));
		name_term(other, &row);
		well_formed(&other->op);
		if (a->op.kind == LE_OP_ACQUIRE)
			fill_acquire(other, &row);
		other->op.lease = a->op.lease;
		a->joined[n++] = &other->op;
	}
	if (n > 0)
		well_formed(&a->op);
	a->op.wire.joined = a->joined;
	a->op.wire.njoined = n;
}

static void
draw(Ask *a)
{
	static const LeOpKind kinds[] = {
		LE_OP_ACQUIRE, LE_OP_ACQUIRE, LE_OP_ACQUIRE, LE_OP_PUBLISH,
		LE_OP_PUBLISH, LE_OP_RELEASE, LE_OP_RELEASE, LE_OP_RENEW_TERMS,
		LE_OP_CLAIM, LE_OP_CLAIM, LE_OP_CLAIM, LE_OP_COMPLETE,
		LE_OP_COMPLETE, LE_OP_READ, LE_OP_READ_CLAIM, LE_OP_LIST_HELD,
		LE_OP_WATCH
	};
	int			election = (int) sim_below(ELECTIONS);
	int			job = (int) sim_below(ELECTION_JOBS);
	ClaimRecord record;
	Row			row = row_of(election, job, &record);

	memset(a, 0, sizeof(*a));
	a->op.kind = kinds[sim_below(lengthof(kinds))];
	a->op.election = name_of_election(election);
	a->op.lease = LEASE;
	a->op.claim.job = a->claim.job = name_of_job(job);
	a->op.value = name_of_value((uint32) sim_below(4));
	ask_as(a, row.owner != 0 && fitting() ? OWNER_NODE(row.owner) :
		   some_owner());
	name_term(a, &row);
	switch (a->op.kind)
	{
		case LE_OP_ACQUIRE:
			fill_acquire(a, &row);
			break;
		case LE_OP_RENEW_TERMS:
			fill_terms(a);
			break;
		case LE_OP_CLAIM:
			fill_claim(a, &row, &record);
			break;
		case LE_OP_COMPLETE:
			fill_complete(a, &record);
			break;
		case LE_OP_WATCH:
			a->op.watch.index = row.epoch + 1;	/* so nothing waits for it */
			a->op.watch.wait_ms = 1000;
			break;
		default:
			break;
	}
	if (le_store_cassandra.batch.takes(&a->op) > 0 && sim_below(3) == 0)
		join_others(a, election);
}

static void
encode(const Ask *a, LeRequest *request)
{
	static const LeNamespace ns = {""};

	memset(request, 0, sizeof(*request));
	initStringInfo(&request->http.path);
	initStringInfo(&request->http.headers);
	initStringInfo(&request->http.body);
	request->base = "http://g0";
	le_store_cassandra.codec.encode(&ns, &a->op, request);
}

/* All the way: to the gateway, through its statements, and back. */
static void
answer_to(const LeRequest *request, LeResponse *response)
{
	SimNode    *n = sim_node;
	Flight	   *f = &n->flights[0];
	Request		r;

	f->number = ++n->last_flight;
	n->in_flight = 1;
	n->answered = 0;
	text_read_request(request, &r);
	gateway_serve(&r, n->number, n->process, 0, f->number);
	while (n->answered == 0)
		network_step();
	memset(response, 0, sizeof(*response));
	text_write_answer(network_answer_to(f), response);
}

static void
print(const LeRequest *request, const LeResponse *response)
{
	printf("{\"method\":\"%s\",\"path\":\"%s\",\"body\":%s,\"status\":%d,"
		   "\"answer\":%.*s}\n", request->http.method, request->http.path.data,
		   request->http.has_body ? request->http.body.data : "null",
		   response->http.status,
		   response->body_len > 0 ? (int) response->body_len : 4,
		   response->body_len > 0 ? response->body : "null");
}

int
model_cassandra_run(uint64 seed, int operations)
{
	memset(&schedule, 0, sizeof(schedule));
	schedule.nnodes = OWNERS;
	schedule.nelections = ELECTIONS;
	schedule.store = STORE_CASSANDRA;
	sim.schedule = &schedule;
	sim.model = &cassandra_model;
	sim.random = sim_mix(seed);
	sim.nnodes = OWNERS;
	sim.nelections = ELECTIONS;
	sim.now = LE_SEC;
	sim.storm = false;
	memory_reset_all();
	CurrentMemoryContext = (MemoryContext) memory_new();
	network_reset();
	sim.model->reset();
	check_reset();
	nodes_reset(&schedule);
	for (int i = 0; i < operations; i++)
	{
		Ask			ask;
		LeRequest request;
		LeResponse response;

		MemoryContextReset(CurrentMemoryContext);
		draw(&ask);
		sim_node = sim.node[node_of_name(ask.op.node_name)];
		encode(&ask, &request);
		answer_to(&request, &response);
		print(&request, &response);
	}
	return 0;
}
