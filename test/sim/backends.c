/*-------------------------------------------------------------------------
 *
 * backends.c
 *		Backends that ask the worker.
 *
 * The worker's half of requests.h, over backends that do not wait: a question
 * keeps its proc until it is answered or withdrawn.
 *
 * test/sim/backends.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include "settings.h"

/* Turns of the worker that an answer may take beyond its time. */
#define ANSWER_SLACK	(LE_SEC / 10)

/* Counted over the whole life of an instance. */
void
backends_reset(SimNode *n)
{
	for (int i = 0; i < PROCS; i++)
	{
		process_end(n, i);
		n->backends[i].owner = 0;
		n->backends[i].begun_number = 0;
		n->backends[i].state = ASK_FREE;
		memset(n->backends[i].told, 0, sizeof(n->backends[i].told));
	}
}

/* As le_my_owner(). */
static LeOwner
owner_of(SimNode *n, Backend *b)
{
	if (b->owner == 0)
		b->owner =
			pg_atomic_add_fetch_u64(&node_table(n)->last_owner, 1);
	return b->owner;
}

/* Does it end a hold-off, or begin another? */
static bool
meddles(LeRequestKind kind)
{
	return kind == LE_ASK_CAMPAIGN || kind == LE_ASK_STEP_DOWN ||
		kind == LE_ASK_RELEASE;
}

/* As post() in requests.c. */
void
backend_post(SimNode *n, Backend *b)
{
	int			proc = (int) (b - n->backends);

	sim.counts.questions++;
	if (meddles(b->ask.kind))
		progress_meddled(n);
	(void) owner_of(n, b);
	b->ask.proc = proc;
	b->ask.pid = 100 + proc;
	b->number++;
	b->asked_at = sim.now;
	b->state = ASK_POSTED;
	node_wake(n);
}

void
backend_ask(SimNode *n, int proc, const LeAsk *ask, bool by_backend)
{
	Backend    *b = &n->backends[proc];

	b->ask = *ask;
	(void) owner_of(n, b);
	if (by_backend)
		b->ask.owner = b->owner | b->ask.owner;
	else
		b->ask.owner = LE_OWNER_NODE;
	backend_post(n, b);
}

/* As withdraw() in requests.c: a term unknown to all sessions has to end. */
void
backend_cancel(SimNode *n, int proc)
{
	Backend    *b = &n->backends[proc];

	if (b->state == ASK_ANSWERED && b->ask.kind == LE_ASK_ACQUIRE &&
		b->reply.fresh)
	{
		LeSlot	   *slot = node_slot(n, election_of_name(b->ask.election));
		uint64		marked = slot == NULL ? PG_UINT64_MAX :
			pg_atomic_read_u64(&slot->term.given_up);

		if (marked < b->reply.token)
			pg_atomic_write_u64(&slot->term.given_up, b->reply.token);
	}
	b->state = ASK_FREE;
	pg_atomic_fetch_add_u64(&node_table(n)->hints, 1);
	node_wake(n);
}

void
backend_exit(SimNode *n, int proc)
{
	process_end(n, proc);
	backend_cancel(n, proc);
	if (n->backends[proc].owner != 0)
		claims_left(n->number, n->backends[proc].owner);
	n->backends[proc].owner = 0;
}

/* ---- called by backends ---- */

LeOwner
le_my_owner(bool xact)
{
	LeOwner		owner = owner_of(sim_node, sim_backend);

	return xact ? owner | LE_OWNER_XACT : owner;
}

bool
le_is_mine(LeOwner owner)
{
	if (owner == LE_OWNER_NODE)
		return true;
	return sim_backend->owner != 0 &&
		(owner & ~LE_OWNER_XACT) == sim_backend->owner;
}

/* ---- called by the worker ---- */

void
le_each_request(LeRequestTaken act, void *arg, bool taken_too)
{
	for (int i = 0; i < MAX_BACKENDS; i++)
	{
		Backend    *b = &sim_node->backends[i];

		if (b->state == ASK_POSTED ||
			(taken_too && b->state == ASK_TAKEN))
		{
			LeAsk		ask = b->ask;

			b->again = b->state == ASK_TAKEN;
			ask.again |= b->again;
			b->state = ASK_TAKEN;
			act(arg, i, b->number, &ask);
		}
	}
}

bool
le_still_asked(int proc, uint64 number)
{
	return proc != LE_NO_PROC &&
		sim_node->backends[proc].state == ASK_TAKEN &&
		sim_node->backends[proc].number == number;
}

/*
 * A worker that refuses a term for a reason of its own may have had it, and
 * releases it; but it does not know its predecessor's requests.
 */
static bool
says_nothing_done(const Backend *b, const LeReply *reply)
{
	if (reply->kind != LE_REPLY_ERROR)
		return reply->kind == LE_REPLY_FALSE;
	return reply->sqlstate == LE_ERRCODE_UNAVAILABLE ||
		(b->again && reply->sqlstate != LE_ERRCODE_UNKNOWN);
}

/*
 * docs/reference.md: within its wait and three request_timeout, by a worker
 * that ran all the time.  Giving up a term also waits for the transactions
 * bound to it.
 */
static void
check_answered_in_time(const Backend *b)
{
	SimNode    *n = sim_node;
	le_time		by = Max(clock_boot(n, b->asked_at), b->ask.wait_until) +
		3 * (le_request_timeout * LE_MSEC) + ANSWER_SLACK;

	if (b->again || Max(n->began_at, n->went_on) >= b->asked_at ||
		(b->ask.kind != LE_ASK_ACQUIRE && b->ask.kind != LE_ASK_RENEW))
		return;
	if (clock_boot(n, sim.now) > by)
		sim_fail("b%d of n%d is answered %.3f s after it asked",
				 (int) (b - n->backends), n->number,
				 (sim.now - b->asked_at) / (double) LE_SEC);
}

bool
le_answer(int proc, uint64 number, const LeReply *reply)
{
	Backend    *b;

	if (proc == LE_NO_PROC)
		return false;
	b = &sim_node->backends[proc];
	if (meddles(b->ask.kind) || b->number != number)
		progress_meddled(sim_node);
	if (!le_still_asked(proc, number))
		return false;
	b->reply = *reply;
	b->state = ASK_ANSWERED;
	check_answered_in_time(b);
	if (b->ask.kind == LE_ASK_ACQUIRE && reply->kind == LE_REPLY_FALSE)
		check_denied(sim_node, b);
	if (b->ask.kind == LE_ASK_RENEW && reply->kind == LE_REPLY_TRUE)
		check_told_renewed(sim_node, b);
	if (b->ask.kind == LE_ASK_ACQUIRE && says_nothing_done(b, reply))
		check_nothing_done(sim_node, b);
	if (b->ask.kind == LE_ASK_ACQUIRE && reply->token != 0)
		b->told[election_of_name(b->ask.election)] = reply->token;
	if (b->begun_number == number && reply->kind != LE_REPLY_TRUE &&
		reply->kind != LE_REPLY_ERROR)
		sim_fail("b%d of n%d is told that there is nothing to give up, and a "
				 "worker has begun to, with token " UINT64_FORMAT,
				 proc, sim_node->number, b->begun_token);
	if (b->awaits)
		process_wake(sim_node, proc);
	return true;
}

void
le_note_begun(int proc, uint64 number, uint64 token)
{
	sim_node->backends[proc].begun_number = number;
	sim_node->backends[proc].begun_token = token;
}

bool
le_was_begun(int proc, uint64 number, uint64 *token)
{
	*token = sim_node->backends[proc].begun_token;
	return sim_node->backends[proc].begun_number == number;
}

bool
le_owner_lives(LeOwner owner, int proc)
{
	if (owner == LE_OWNER_NODE)
		return true;
	return owner != LE_OWNER_NONE && proc < MAX_BACKENDS &&
		sim_node->backends[proc].owner == (owner & ~LE_OWNER_XACT);
}

/* There are no standbys here. */
bool
le_waits_for_standby(int proc)
{
	(void) proc;
	return false;
}

/* The worker hints itself, too. */
void
le_hint_worker(void)
{
	pg_atomic_fetch_add_u64(&node_table(sim_node)->hints, 1);
	node_wake(sim_node);
}
