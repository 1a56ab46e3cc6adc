/*-------------------------------------------------------------------------
 *
 * explore.c
 *		All states that two nodes and a store with sessions can reach, within
 *		bounds: breadth first, by the object code of src/core.
 *
 * The worker's acts around the core are written here once more, in short, for
 * one election without publishing.
 *
 * A request is carried out and answered at once, or "parked", one at a time:
 * then it is applied at any later time or never, and its answer comes at any
 * time after, or its sender gives it up, before or after it was applied.
 * Time passes in steps of half a second; a node that may be late stands still
 * for as long as it likes.
 *
 * Two states are the same if they can only behave alike.  So the clock always
 * shows NOW, instants move into the past instead, no further than anything
 * depends on, and indexes and the numbers of proofs are ranks.
 *
 * usage: explore [-p] [-o operation] [-l nodes] [-s steps] [-T seconds]
 *		-p parks requests, -o only these; so many nodes, the first ones, may
 *		be late; the first node's clock misses one step after so many; after
 *		so many seconds of work it stops.
 *
 * Ends with 1 if it finds what must not be, with 3 if it has not seen all.
 *
 * test/prove/explore.c
 *
 *-------------------------------------------------------------------------
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/node.h"

#define N			2			/* nodes */
#define SL			2			/* store sessions of a node at one time */
#define S			(N * SL)

#define Q			(LE_SEC / 2)	/* a step of time */
#define NOW			(1000 * Q)
#define LEASE		(6 * Q)
#define MARGIN		(1 * Q)
#define TTL			8			/* steps; longer than the lease */
#define LOCK_DELAY	5			/* steps: the lease less the margin */
#define LONGEST		(9 * Q)		/* stands for LE_MAX_LEASE */
#define MOST_STATES 4000000

enum Op
{
	NONE, CREATE, VERIFY, REGISTER, RENEW, PROVE, LIST, UNLOCK, DESTROY,
	REVOKE, FORGET, READ, ACQUIRE, TAKE_OVER, RELEASE
};

static const char *const op_names[] = {
	"-", "create", "verify", "register", "renew", "prove", "list", "unlock",
	"destroy", "revoke", "forget", "read", "acquire", "take over", "release"
};

/* A session of the store and its node key.  Session s is named s + 1. */
typedef struct Session
{
	uint8_t		used;			/* by its node */
	uint8_t		alive;
	uint8_t		age;			/* steps since it was renewed */
	uint8_t		key;			/* is there */
	uint8_t		held;
	uint8_t		revoked;
	uint64_t	index;
	uint64_t	seq;
} Session;

/* The election's key. */
typedef struct Key
{
	uint8_t		exists;
	uint8_t		holder;			/* session; 0: none */
	uint8_t		value;			/* the session that wrote it */
	uint8_t		released;
	uint8_t		delay;			/* steps of lock-delay that are left */
	uint64_t	index;
	uint64_t	token;
} Key;

typedef struct Message
{
	uint8_t		op;
	uint8_t		node;
	uint8_t		sess;
	uint8_t		current;		/* the sender waits for the answer */
	uint8_t		applied;
	uint8_t		age;			/* steps since it was sent */
	uint8_t		target;			/* of a takeover: whose node key */
	uint8_t		target_holds;
	uint8_t		proves;			/* a proof of a term, too: "index" */
	uint64_t	index;			/* condition */
	uint64_t	target_index;
	uint64_t	seq;

	/* the answer */
	uint8_t		outcome;
	uint8_t		conflict;
	uint8_t		lost;			/* the proof's term */
	uint8_t		held;
	uint8_t		named;
	uint64_t	new_index;
	Key			key;
} Message;

/* A node's knowledge of a session of another. */
typedef struct Info
{
	uint8_t		known;
	uint8_t		held;
	uint8_t		revoked;
	uint64_t	index;
	le_time		moved;			/* receipt of the first answer with it */
	le_time		doubted;
} Info;

typedef struct Node
{
	LeNode		n;
	LeElection	e;
	uint64_t	token;			/* what sessions of PostgreSQL see */
	le_time		deadline;
	uint8_t		session;
	uint8_t		previous;
	uint8_t		waits_for;		/* session */
	uint8_t		waits_holds;
	uint8_t		since_skip;
	uint64_t	seen_index;
	Info		info[S];
} Node;

typedef struct World
{
	Key			key;
	Session		sess[S];
	Message		msg;			/* the parked one */
	Node		node[N];
} World;

static bool parks = false;
static int	only = 0;
static int	late = 0;
static int	skip_every = 0;

static const LeTiming timing = {
	.lease = LEASE, .session_ttl = TTL * Q, .margin = MARGIN,
	.renew_interval = 2 * Q, .request_timeout = 2 * Q
};

static World w;
static const char *wrong;		/* what must not be */

/* ---- of one action ---- */

static int	sent;				/* requests so far */
static int	park;				/* which of them is parked; 0: none */
static bool impossible;			/* no room for what would follow */
static Message done[64];		/* answers on their way */
static int	ndone;
static int	at_done;

static void feed_node(int i, LeNodeInputKind kind, const Message *m);
static void feed_kind(int i, LeInputKind kind);

static bool
believes(int i)
{
	return w.node[i].token != 0 && le_believes(NOW, w.node[i].deadline);
}

static void
raise_to(uint64_t *most, uint64_t index)
{
	if (index > *most)
		*most = index;
}

/*
 * Call f for each index of the election's key, or of a session's node key, or
 * for each number of a node's proofs.  The three are never compared.
 */
static void
of_message(Message *m, int s, void (*f) (uint64_t *index))
{
	if (m->op == NONE)
		return;
	if (s < 0)
	{
		f(&m->index);
		f(&m->key.index);
		f(&m->key.token);
		if (m->op >= READ || m->op == UNLOCK)
			f(&m->new_index);
		return;
	}
	if (m->op == TAKE_OVER && m->target == s)
		f(&m->target_index);
	if (m->op < READ && m->op != UNLOCK && m->sess == s)
		f(&m->new_index);
}

static void
each_index(int s, void (*f) (uint64_t *index))
{
	of_message(&w.msg, s, f);
	for (int k = at_done; k < ndone; k++)
		of_message(&done[k], s, f);
	if (s >= 0)
		f(&w.sess[s].index);
	else
	{
		f(&w.key.index);
		f(&w.key.token);
	}
	for (int i = 0; i < N; i++)
	{
		Node	   *p = &w.node[i];

		if (s >= 0)
		{
			f(&p->info[s].index);
			if (p->session == s + 1)
				f(&p->n.proof_index);
			continue;
		}
		f(&p->e.token);
		f(&p->e.write_index);
		f(&p->e.attempt.index);
		f(&p->e.attempt.floor);
		f(&p->e.token_floor);
		f(&p->e.free_index);
		f(&p->e.seen_index);
		f(&p->token);
		f(&p->seen_index);
	}
}

static void
each_seq(int i, void (*f) (uint64_t *index))
{
	f(&w.node[i].n.seq);
	for (int s = i * SL; s < (i + 1) * SL; s++)
		f(&w.sess[s].seq);
	if (w.msg.op != NONE && w.msg.node == i)
		f(&w.msg.seq);
}

static uint64_t highest;

static void
note_highest(uint64_t *index)
{
	raise_to(&highest, *index);
}

static uint64_t
next_index(int s)
{
	highest = 0;
	each_index(s, note_highest);
	return highest + 1;
}

/* ---- the store ---- */

static void
end_session(int s)
{
	w.sess[s].alive = w.sess[s].held = 0;
	if (w.key.holder == s + 1)
	{
		w.key.holder = 0;
		w.key.index = next_index(-1);
		w.key.delay = LOCK_DELAY;
	}
}

static void
conflict(Message *m, LeConflict c)
{
	m->outcome = LE_CONFLICT;
	m->conflict = c;
}

static void
nobody_else_believes(int node, const char *text)
{
	for (int i = 0; i < N; i++)
		if (i != node && believes(i))
			wrong = text;
}

/* The key is the sender's. */
static void
grant(Message *m)
{
	w.key.exists = 1;
	w.key.holder = w.key.value = m->sess + 1;
	w.key.released = 0;
	m->new_index = w.key.index = w.key.token = next_index(-1);
}

static void
apply_acquire(Message *m)
{
	if (w.key.holder != 0)
		conflict(m, LE_CONFLICT_HELD);
	else if (w.key.delay > 0)
		conflict(m, LE_CONFLICT_LOCK_DELAY);
	else if (w.key.index != m->index)
		conflict(m, LE_CONFLICT_CHANGED);
	else
	{
		nobody_else_believes(m->node, "a key is granted under a leader");
		grant(m);
	}
}

static void
apply_take_over(Message *m)
{
	Session    *t = &w.sess[m->target];

	if (w.key.index != m->index)
		conflict(m, w.key.holder != 0 ? LE_CONFLICT_HELD :
				 LE_CONFLICT_CHANGED);
	else if (w.key.holder != (m->target_holds ? m->target + 1 : 0) ||
			 !t->key || t->index != m->target_index)
		conflict(m, LE_CONFLICT_CHANGED);
	else if (!m->target_holds && w.key.delay > 0)
		conflict(m, LE_CONFLICT_LOCK_DELAY);
	else
	{
		nobody_else_believes(m->node, "a leader is taken over");
		t->revoked = 1;
		t->held = 0;
		t->index = next_index(m->target);
		grant(m);
	}
}

static void
apply_prove(Message *m)
{
	Session    *s = &w.sess[m->sess];

	/* an identical rewrite is answered without another look */
	if (s->key && s->seq == m->seq)
		m->new_index = s->index;
	else if (!s->alive || !s->key || !s->held || s->revoked)
		m->outcome = LE_LOST;
	else if (m->proves && w.key.holder != m->sess + 1)
	{
		conflict(m, LE_CONFLICT_CHANGED);
		m->lost = 1;
	}
	else
	{
		s->seq = m->seq;
		m->new_index = s->index = next_index(m->sess);
	}
}

static void
apply(Message *m)
{
	Session    *s = &w.sess[m->sess];
	bool		ours = s->alive && s->key && s->held && !s->revoked;

	m->applied = 1;
	m->outcome = LE_DONE;
	switch (m->op)
	{
		case CREATE:
			s->alive = 1;
			s->age = 0;
			break;
		case VERIFY:
		case RENEW:
			if (!s->alive)
				m->outcome = LE_LOST;
			else if (m->op == RENEW)
				s->age = 0;
			break;
		case REGISTER:
			if (!s->alive || (s->key && !s->held))
			{
				m->outcome = LE_LOST;
				break;
			}
			s->key = s->held = 1;
			s->seq = m->seq;
			m->new_index = s->index = next_index(m->sess);
			break;
		case PROVE:
			apply_prove(m);
			break;
		case LIST:
			m->held = w.key.holder == m->sess + 1;
			m->named = w.key.exists && w.key.holder == 0 &&
				!w.key.released && w.key.value == m->sess + 1;
			m->key = w.key;
			break;
		case UNLOCK:
		case RELEASE:
			if (w.key.holder == m->sess + 1 && w.key.index == m->index)
			{
				w.key.holder = 0;
				w.key.released = 1;
				m->new_index = w.key.index = next_index(-1);
			}
			else
				conflict(m, LE_CONFLICT_CHANGED);
			break;
		case DESTROY:
			if (s->alive)
				end_session(m->sess);
			break;
		case REVOKE:
		case FORGET:
			if (s->alive)
				conflict(m, LE_CONFLICT_HELD);
			else if (m->op == FORGET)
				s->key = s->held = s->revoked = 0;
			else if (s->key)
			{
				s->revoked = 1;
				s->index = next_index(m->sess);
			}
			break;
		case READ:
			m->key = w.key;
			break;
		default:
			if (!ours)
				m->outcome = LE_LOST;
			else if (m->op == ACQUIRE)
				apply_acquire(m);
			else
				apply_take_over(m);
			break;
	}
}

/* ---- what the worker does around the core ---- */

static Message
message(int i, int op)
{
	Message		m;

	memset(&m, 0, sizeof(m));
	m.op = op;
	m.node = i;
	m.sess = w.node[i].session != 0 ? w.node[i].session - 1 : 0;
	m.current = 1;
	return m;
}

static void
send_message(const Message *m)
{
	sent++;
	if (sent == park)
	{
		impossible = w.msg.op != NONE || (only != 0 && m->op != only);
		if (!impossible)
			w.msg = *m;
		return;
	}
	if (ndone == (int) (sizeof(done) / sizeof(done[0])))
	{
		wrong = "requests without end";
		return;
	}
	done[ndone] = *m;
	apply(&done[ndone++]);
}

static void
outdate_one(Message *m, int i, bool of_the_node)
{
	if (m->op != NONE && m->node == i &&
		(of_the_node || (m->op >= READ && m->op <= RELEASE)))
		m->current = 0;
}

/* A request under another number, or by another session, is stale. */
static void
outdate(int i, bool of_the_node)
{
	outdate_one(&w.msg, i, of_the_node);
	for (int k = at_done; k < ndone; k++)
		outdate_one(&done[k], i, of_the_node);
}

static le_time
silent_at(const Info *f)
{
	return (f->moved > f->doubted ? f->moved : f->doubted) + LEASE;
}

static void
make_view(int i, LeKeyView *v, const Key *k)
{
	const Node *p = &w.node[i];
	const Info *f;

	memset(v, 0, sizeof(*v));
	v->as_of = k->index;
	if (!k->exists)
		return;
	v->exists = v->usable = true;
	v->index = k->index;
	v->released = k->released;
	v->token = k->token;
	f = &p->info[(k->holder != 0 ? k->holder : k->value) - 1];
	if (k->holder != 0 && k->holder == p->session)
		v->holder = LE_KEY_OURS;
	else if (k->holder != 0)
	{
		v->holder = LE_KEY_OTHER;
		v->holder_ended = f->known && f->revoked;
		if (f->known && !f->revoked)
			v->silent_at = silent_at(f);
	}
	else if (!k->released)
	{
		v->holder_lease = f->known ? LEASE : LONGEST;
		v->holder_ended = k->value == p->previous ||
			(f->known && f->revoked);
	}
}

static void
note_holder(int i, const Key *k, const LeKeyView *v)
{
	Node	   *p = &w.node[i];

	if (v->holder != LE_KEY_OURS)
		raise_to(&p->e.token_floor, v->index);
	p->seen_index = v->index;
	if (v->holder == LE_KEY_OURS && (p->e.state == LE_ACQUIRING ||
									 p->e.state == LE_ACQUIRE_UNSURE))
		return;
	p->waits_for = k->exists && v->holder != LE_KEY_OURS && !v->released ?
		k->value : 0;
	p->waits_holds = v->holder == LE_KEY_OTHER;
}

static void
send_election(int i, const LeActions *act)
{
	static const uint8_t ops[] = {
		[LE_SEND_READ] = READ, [LE_SEND_ACQUIRE] = ACQUIRE,
		[LE_SEND_TAKE_OVER] = ACQUIRE, [LE_SEND_RELEASE] = RELEASE
	};
	const Node *p = &w.node[i];
	Message		m = message(i, ops[act->send]);

	if (p->session == 0)
	{
		wrong = "a request without a session";
		return;
	}
	m.index = act->index;
	if (m.op == ACQUIRE && p->waits_for != 0 && m.index != 0 &&
		p->seen_index == m.index)
	{
		const Info *f = &p->info[p->waits_for - 1];

		if (f->known && (p->waits_holds || !(f->held || f->revoked)))
		{
			m.op = TAKE_OVER;
			m.target = p->waits_for - 1;
			m.target_index = f->index;
			m.target_holds = p->waits_holds;
		}
	}
	send_message(&m);
}

static void
must_be(const char *broken)
{
	if (broken != NULL)
		wrong = broken;
}

static void
feed_election(int i, LeInput *in)
{
	Node	   *p = &w.node[i];
	LeElection	was = p->e;
	LeActions	act;

	in->now = NOW;
	in->timing = &p->n.timing;
	must_be(le_election_contract(&was, in));
	act = le_election_input(&p->e, in);
	must_be(le_election_check(&was, in, &p->e, &act));
	if (p->e.request != was.request)
		outdate(i, false);
	if (act.term_ends)
		p->token = p->deadline = 0;
	if (act.send != LE_SEND_NOTHING)
		send_election(i, &act);
	if (act.term_begins && !le_believes(NOW, p->n.deadline))
		feed_kind(i, LE_IN_UNWANT);
	else if (act.term_begins)
	{
		p->token = p->e.token;
		p->deadline = p->n.deadline;
	}
}

static void
feed_kind(int i, LeInputKind kind)
{
	LeInput		in = {.kind = kind};

	feed_election(i, &in);
}

static bool
is_live(int i)
{
	return w.node[i].n.state == LE_NODE_LIVE;
}

/* Both want the election, always. */
static void
advance(int i)
{
	if (le_election_has_term(&w.node[i].e))
		return;
	if (!is_live(i) && !w.node[i].n.wanted)
		feed_node(i, LE_NODE_IN_WANT, NULL);
	else if (is_live(i) && !w.node[i].e.wanted)
		feed_kind(i, LE_IN_WANT);
}

/* One that nothing in the world names any more. */
static int
free_session(int i)
{
	for (int s = i * SL; s < (i + 1) * SL; s++)
	{
		const Message *m = &w.msg;
		bool		named = w.sess[s].used || w.sess[s].alive ||
			w.sess[s].key || w.key.holder == s + 1 || w.key.value == s + 1;

		named = named || (m->op != NONE &&
						  (m->sess == s || m->key.holder == s + 1 ||
						   m->key.value == s + 1 ||
						   (m->op == TAKE_OVER && m->target == s)));
		for (int j = 0; j < N; j++)
			named = named || w.node[j].session == s + 1 ||
				w.node[j].waits_for == s + 1;
		if (!named)
			return s;
	}
	return -1;
}

static bool
take_session(int i, Message *m)
{
	int			s = free_session(i);

	if (s < 0)
	{
		impossible = true;
		return false;
	}
	memset(&w.sess[s], 0, sizeof(Session));
	for (int j = 0; j < N; j++)
	{
		memset(&w.node[j].info[s], 0, sizeof(Info));
		if (w.node[j].previous == s + 1)
			w.node[j].previous = 0;
	}
	w.sess[s].used = 1;
	m->sess = s;
	return true;
}

static void
perform(int i, const LeNodeActions *act)
{
	static const uint8_t ops[] = {
		CREATE, VERIFY, REGISTER, RENEW, PROVE, LIST, NONE, DESTROY, REVOKE,
		FORGET
	};
	Node	   *p = &w.node[i];

	if (act->terms_end)
	{
		LeInput		in = {.kind = LE_IN_NODE_ENDED, .reason = act->reason};

		feed_election(i, &in);
		p->token = p->deadline = 0;
	}
	else if (act->deadline_moved && p->token != 0)
		p->deadline = p->n.deadline;
	if (act->ended && p->session != 0)
	{
		p->previous = p->session;
		w.sess[p->session - 1].used = 0;
		p->session = 0;
	}
	for (int k = 0; k < (int) sizeof(ops); k++)
	{
		Message		m = message(i, ops[k]);

		if (ops[k] == NONE || !(act->send & (1U << k)))
			continue;
		if (ops[k] == CREATE && !take_session(i, &m))
			return;
		m.seq = p->n.seq;
		m.proves = ops[k] == PROVE && p->token != 0;
		m.index = m.proves ? p->token : 0;
		send_message(&m);
	}
	if (act->became_live)
	{
		advance(i);
		if (p->e.state == LE_WAITING)
			feed_kind(i, LE_IN_WANT);
	}
}

/* May the parked message make this session hold a key? */
static bool
acquire_is_parked(int s)
{
	return (w.msg.op == ACQUIRE || w.msg.op == TAKE_OVER) &&
		w.msg.sess == s && !w.msg.applied;
}

static void
feed_node(int i, LeNodeInputKind kind, const Message *m)
{
	Node	   *p = &w.node[i];
	LeNodeInput in = {.kind = kind, .now = NOW};
	LeNode		was = p->n;
	LeNodeActions act;

	if (m != NULL)
	{
		in.sent = NOW - m->age * Q;
		in.index = m->new_index;
		in.outcome = m->outcome;
		in.held = m->held;
		in.named = m->named;
		in.early = acquire_is_parked(m->sess);
	}
	must_be(le_node_contract(&was, &in));
	act = le_node_input(&p->n, &in);
	must_be(le_node_check(&was, &in, &p->n, &act));
	if (p->n.epoch != was.epoch)
		outdate(i, true);
	perform(i, &act);
}

static void
deliver_to_election(const Message *m)
{
	Node	   *p = &w.node[m->node];
	LeInput		in = {.outcome = m->outcome, .conflict = m->conflict};
	LeKeyView	v;

	if (m->op == READ && m->outcome == LE_DONE)
	{
		make_view(m->node, &v, &m->key);
		note_holder(m->node, &m->key, &v);
		in.view = &v;
		in.kind = LE_IN_READ;
	}
	else if (m->op == READ)
		in.kind = LE_IN_READ_FAILED;
	else
	{
		in.kind = m->outcome == LE_DONE ? LE_IN_DONE :
			m->outcome == LE_CONFLICT ? LE_IN_CONFLICT :
			m->outcome == LE_UNKNOWN ? LE_IN_UNKNOWN : LE_IN_NOT_APPLIED;
		in.index = m->new_index;
		in.suffices = true;
		if (m->op == TAKE_OVER && m->outcome == LE_CONFLICT)
			p->info[m->target].doubted = NOW;
	}
	feed_election(m->node, &in);
	if (m->outcome == LE_LOST && is_live(m->node))
		feed_node(m->node, LE_NODE_IN_PROVE_NOW, NULL);
	advance(m->node);
}

/* An answer has come, or its sender has given up waiting for one. */
static void
deliver(const Message *m)
{
	int			i = m->node;
	Node	   *p = &w.node[i];
	bool		ok = m->outcome == LE_DONE;
	Message		unlock;

	if (!m->current)
		return;
	switch (m->op)
	{
		case RENEW:
			feed_node(i, ok ? LE_NODE_IN_RENEWED : LE_NODE_IN_RENEW_FAILED,
					  m);
			break;
		case PROVE:
			if (m->lost && p->e.token == m->index)
			{
				feed_kind(i, LE_IN_NOT_OURS);
				advance(i);
			}
			feed_node(i, ok ? LE_NODE_IN_PROVED : LE_NODE_IN_PROOF_FAILED, m);
			break;
		case LIST:
			feed_node(i, ok ? LE_NODE_IN_LISTED : LE_NODE_IN_FAILED, m);
			if (!ok || m->held == 0)
				break;
			unlock = message(i, UNLOCK);
			unlock.index = m->key.index;
			send_message(&unlock);
			break;
		case UNLOCK:
			feed_node(i, LE_NODE_IN_UNLOCKED, m);
			break;
		case READ:
		case ACQUIRE:
		case TAKE_OVER:
		case RELEASE:
			deliver_to_election(m);
			break;
		case CREATE:
			if (ok)
				p->session = m->sess + 1;
			else
				w.sess[m->sess].used = 0;
			/* FALLTHROUGH */
		default:
			feed_node(i, ok ? LE_NODE_IN_DONE : LE_NODE_IN_FAILED, m);
			break;
	}
}

/* ---- actions ---- */

static bool
is_due(le_time at)
{
	return at != 0 && NOW >= at;
}

static void
settle(void)
{
	while (at_done < ndone && wrong == NULL && !impossible)
	{
		Message		m = done[at_done++];

		deliver(&m);
		/* each turn of the worker ends with the session's timer */
		if (is_due(le_node_timer(&w.node[m.node].n)))
			feed_node(m.node, LE_NODE_IN_TIMER, NULL);
	}
}

static bool
has_work(int i)
{
	const Node *p = &w.node[i];

	return is_due(le_node_timer(&p->n)) || is_due(p->e.timer_at) ||
		(!le_election_has_term(&p->e) &&
		 !(is_live(i) ? p->e.wanted : p->n.wanted));
}

static void
take_turn(int i)
{
	Node	   *p = &w.node[i];

	if (is_due(le_node_timer(&p->n)))
		feed_node(i, LE_NODE_IN_TIMER, NULL);
	settle();
	if (is_due(p->e.timer_at))
	{
		bool		asks = p->e.state != LE_WAITING || is_live(i);

		if (p->e.state == LE_WAITING)
			p->e.timer_at = 0;
		if (asks)
			feed_kind(i, LE_IN_TIMER);
	}
	settle();
	advance(i);
	settle();
}

/* The list of nodes, and in it the holder that is waited for. */
static void
list_nodes(int i)
{
	Node	   *p = &w.node[i];
	LeInput		in = {.kind = LE_IN_HOLDER};

	for (int s = 0; s < S; s++)
	{
		Info	   *f = &p->info[s];
		const Session *z = &w.sess[s];

		if (!z->key || s / SL == i)
		{
			memset(f, 0, sizeof(*f));
			continue;
		}
		if (!f->known || (f->index != z->index && !z->revoked))
			f->moved = NOW;
		f->known = 1;
		f->index = z->index;
		f->held = z->held;
		f->revoked = z->revoked;
	}
	if (p->e.state != LE_WAITING || p->waits_for == 0 || !p->waits_holds ||
		!p->info[p->waits_for - 1].known)
		return;
	in.silent_at = p->info[p->waits_for - 1].revoked ? NOW :
		silent_at(&p->info[p->waits_for - 1]);
	feed_election(i, &in);
	settle();
}

static void
watch(int i)
{
	LeInput		in = {.kind = LE_IN_SEEN};
	LeKeyView	v;

	make_view(i, &v, &w.key);
	note_holder(i, &w.key, &v);
	if (!is_live(i) ||
		(!w.key.exists && le_election_has_term(&w.node[i].e)))
		return;
	in.view = &v;
	feed_election(i, &in);
	settle();
	advance(i);
	settle();
}

/* It is longer ago by a step; what is longer ago than "most" is no longer. */
static void
earlier(le_time *t, le_duration most)
{
	if (*t == 0)
		return;
	*t -= Q;
	if (*t < NOW - most)
		*t = NOW - most;
}

static void
older(uint8_t *age)
{
	if (*age < TTL)
		(*age)++;
}

/* Half a second passes; the first node's clock may miss it. */
static void
pass_time(bool skip)
{
	for (int i = 0; i < N; i++)
	{
		Node	   *p = &w.node[i];
		bool		missed = i == 0 && skip;

		if (i == 0 && skip_every > 0)
			p->since_skip = missed ? 0 : p->since_skip +
				(p->since_skip < skip_every);
		if (missed)
			continue;
		earlier(&p->n.proof_sent, LEASE);
		earlier(&p->n.renew_sent, TTL * Q);
		earlier(&p->n.deadline, 0);
		earlier(&p->n.prove_at, 0);
		earlier(&p->n.renew_at, 0);
		earlier(&p->n.step_at, 0);
		earlier(&p->e.seen_at, LONGEST);
		earlier(&p->e.refused_until, 0);
		earlier(&p->e.look_at, 0);
		earlier(&p->e.timer_at, 0);
		earlier(&p->deadline, 0);
		for (int s = 0; s < S; s++)
		{
			earlier(&p->info[s].moved, LEASE);
			earlier(&p->info[s].doubted, LEASE);
		}
	}
	if (w.msg.op != NONE && !(skip && w.msg.node == 0))
		older(&w.msg.age);
	for (int s = 0; s < S; s++)
		if (w.sess[s].alive)
			older(&w.sess[s].age);
	if (w.key.delay > 0)
		w.key.delay--;
}

enum Action
{
	TIME, SKIP, TURN, NODES, WATCH, APPLY, ANSWER, GIVE_UP, DROP, END, LAST
};

static const char *const action_names[] = {
	"half a second", "half a second, which the clock of 0 misses", "turn of",
	"list of nodes for", "watch of", "applied", "answered", "given up",
	"dropped", "the store ends session"
};

/* The parked message is on its way no more. */
static Message
unpark(void)
{
	Message		m = w.msg;

	memset(&w.msg, 0, sizeof(w.msg));
	return m;
}

/* False: it cannot happen in this state. */
static bool
act(int what, int arg)
{
	Message    *m = &w.msg;
	Message		copy;

	sent = ndone = at_done = 0;
	impossible = false;
	wrong = NULL;
	switch (what)
	{
		case TIME:
			for (int i = late; i < N; i++)
				if (has_work(i))
					return false;
			pass_time(false);
			break;
		case SKIP:
			if (skip_every == 0 || w.node[0].since_skip < skip_every)
				return false;
			pass_time(true);
			break;
		case TURN:
			if (!has_work(arg))
				return false;
			take_turn(arg);
			break;
		case NODES:
			list_nodes(arg);
			break;
		case WATCH:
			watch(arg);
			break;
		case APPLY:
			if (m->op == NONE || m->applied)
				return false;
			apply(m);
			if (!m->current)
				unpark();
			break;
		case ANSWER:
			if (m->op == NONE || !m->applied || !m->current)
				return false;
			copy = unpark();
			deliver(&copy);
			settle();
			break;
		case GIVE_UP:
			if (m->op == NONE || !m->current)
				return false;
			copy = *m;
			m->current = 0;
			if (m->applied || m->op == READ || m->op == LIST)
				unpark();
			copy.outcome = LE_UNKNOWN;
			copy.lost = copy.held = copy.new_index = 0;
			deliver(&copy);
			settle();
			break;
		case DROP:
			if (m->op == NONE || m->current)
				return false;
			unpark();
			break;
		case END:
			if (!w.sess[arg].alive || w.sess[arg].age < TTL)
				return false;
			end_session(arg);
			break;
	}
	if (believes(0) && believes(1))
		wrong = "two nodes lead";
	return !impossible;
}

static int
arguments(int what)
{
	return what == END ? S : what >= TURN && what <= WATCH ? N : 1;
}

/* ---- states ---- */

static uint64_t ranks[1024];
static int	nranks;

static void
collect(uint64_t *index)
{
	int			at = 0;

	if (*index == 0)
		return;
	while (at < nranks && ranks[at] < *index)
		at++;
	if (at < nranks && ranks[at] == *index)
		return;
	memmove(&ranks[at + 1], &ranks[at], (nranks++ - at) * sizeof(ranks[0]));
	ranks[at] = *index;
}

static void
rank(uint64_t *index)
{
	int			at = 0;

	while (at < nranks && ranks[at] < *index)
		at++;
	if (*index != 0)
		*index = at + 1;
}

/* Forget what will be written before it is read, and number the rest anew. */
static void
canonical(void)
{
	ndone = at_done = 0;
	for (int i = 0; i < N; i++)
	{
		LeNode	   *n = &w.node[i].n;
		LeElection *e = &w.node[i].e;
		int			most = LE_ATTEMPTS + 2;

		n->epoch = 0;
		e->request = e->attempt.number = 0;
		if (n->proving)
			n->prove_at = NOW;
		if (n->renewing)
			n->renew_at = NOW;
		if (n->state != LE_NODE_LIVE)
		{
			n->prove_at = n->renew_at = n->proof_sent = 0;
			n->proof_failures = n->renew_failures = 0;
			n->proof_index = 0;
			if (n->state != LE_NODE_VERIFYING &&
				n->state != LE_NODE_REGISTERING)
				n->renew_sent = n->seq = 0;
		}
		if (e->token == 0 && e->state != LE_RELEASING &&
			e->state != LE_RELEASE_UNSURE)
			e->write_index = 0;
		if (e->state != LE_ACQUIRING && e->state != LE_ACQUIRE_UNSURE)
			memset(&e->attempt, 0, sizeof(e->attempt));
		if (!e->free)
			e->free_index = 0;
		if (e->seen_index == 0)
			e->seen_at = 0;
		if (e->refused_until <= NOW)
			e->refused_until = 0;
		/* more of them make no longer delays */
		e->failures = e->failures < most ? e->failures : most;
		n->proof_failures = n->proof_failures < most ?
			n->proof_failures : most;
		n->renew_failures = n->renew_failures < most ?
			n->renew_failures : most;
		n->step_failures = n->step_failures < most ? n->step_failures : most;
		n->setup_failures = n->setup_failures < most ?
			n->setup_failures : most;
	}
	for (int s = 0; s < S; s++)
	{
		if (!w.sess[s].key)
			w.sess[s].index = w.sess[s].seq = 0;
		if (!w.sess[s].alive)
			w.sess[s].age = 0;
	}
	for (int s = -1; s < S; s++)
	{
		nranks = 0;
		each_index(s, collect);
		each_index(s, rank);
	}
	for (int i = 0; i < N; i++)
	{
		nranks = 0;
		each_seq(i, collect);
		each_seq(i, rank);
	}
}

typedef struct Entry
{
	World	   *world;
	uint32_t	parent;
	uint8_t		what;
	uint8_t		arg;
	uint8_t		park;
} Entry;

static Entry *entries;
static uint32_t nentries;
static uint32_t *table;			/* by hash: 1 + entry */
static const uint32_t mask = (1U << 23) - 1;

static uint64_t
hash(const World *x)
{
	uint64_t	h = 0x9E3779B97F4A7C15;
	uint64_t	v;

	for (size_t i = 0; i + sizeof(v) <= sizeof(*x); i += sizeof(v))
	{
		memcpy(&v, (const char *) x + i, sizeof(v));
		h = (h ^ v) * 0xff51afd7ed558ccd;
		h ^= h >> 32;
	}
	return h;
}

static void
add(uint32_t parent, int what, int arg)
{
	uint32_t	at;

	canonical();
	for (at = hash(&w) & mask; table[at] != 0; at = (at + 1) & mask)
		if (memcmp(entries[table[at] - 1].world, &w, sizeof(w)) == 0)
			return;
	if (nentries == MOST_STATES)
		return;
	entries[nentries].world = malloc(sizeof(w));
	assert(entries[nentries].world != NULL);
	*entries[nentries].world = w;
	entries[nentries].parent = parent;
	entries[nentries].what = what;
	entries[nentries].arg = arg;
	entries[nentries].park = park;
	table[at] = ++nentries;
}

/* The way there, backwards. */
static void
tell(uint32_t at, int what, int arg, int parked)
{
	for (;;)
	{
		w = *entries[at].world;
		printf("  %s %d", action_names[what], arg);
		if (w.msg.op != NONE && what >= APPLY && what <= DROP)
			printf(" (%s of node %d)", op_names[w.msg.op], w.msg.node);
		if (parked != 0)
			printf(", request %d is parked", parked);
		printf(";  before: node 0 %s%s, node 1 %s%s\n",
			   le_state_name(w.node[0].e.state),
			   believes(0) ? ", believes" : "",
			   le_state_name(w.node[1].e.state),
			   believes(1) ? ", believes" : "");
		if (at == 0)
			return;
		what = entries[at].what;
		arg = entries[at].arg;
		parked = entries[at].park;
		at = entries[at].parent;
	}
}

/* Each way on from there; true if one leads where none may. */
static bool
expand(uint32_t at, uint64_t *steps)
{
	for (int what = 0; what < LAST; what++)
		for (int arg = 0; arg < arguments(what); arg++)
		{
			int			most = 0;

			for (park = 0; park <= most; park++)
			{
				bool		happens;

				w = *entries[at].world;
				happens = act(what, arg);
				if (park == 0 && parks)
					most = sent;
				if (!happens)
					continue;
				++*steps;
				if (wrong != NULL)
				{
					const char *text = wrong;

					printf("explore: WRONG: %s\n", text);
					tell(at, what, arg, park);
					return true;
				}
				add(at, what, arg);
			}
		}
	return false;
}

static double
work(void)
{
	return (double) clock() / CLOCKS_PER_SEC;
}

int
main(int argc, char **argv)
{
	int			c;
	double		seconds = 1e9;
	uint64_t	steps = 0;
	uint32_t	at;
	uint32_t	level = 1;
	int			depth = 0;

	while ((c = getopt(argc, argv, "po:l:s:T:")) != -1)
		switch (c)
		{
			case 'p':
				parks = true;
				break;
			case 'o':
				for (only = RELEASE; only > 0; only--)
					if (strcmp(op_names[only], optarg) == 0)
						break;
				break;
			case 'l':
				late = atoi(optarg);
				break;
			case 's':
				skip_every = atoi(optarg);
				break;
			case 'T':
				seconds = atof(optarg);
				break;
			default:
				return 2;
		}
	entries = calloc(MOST_STATES, sizeof(Entry));
	table = calloc((size_t) mask + 1, sizeof(uint32_t));
	assert(entries != NULL && table != NULL);
	for (int i = 0; i < N; i++)
	{
		le_node_init(&w.node[i].n);
		le_node_set_timing(&w.node[i].n, &timing);
		le_election_init(&w.node[i].e, 0);
	}
	add(0, TIME, 0);
	for (at = 0; at < nentries && nentries < MOST_STATES && work() < seconds;
		 at++)
	{
		if (at == level)
		{
			level = nentries;
			depth++;
		}
		if (expand(at, &steps))
		{
			printf("explore: at depth %d, of %u states, %.1f s\n", depth + 1,
				   nentries, work());
			return 1;
		}
	}
	printf(late == 0 ? "explore: two nodes, nobody late" :
		   "explore: two nodes, %d may be late", late);
	if (parks)
		printf(", any %s may be parked", only ? op_names[only] : "request");
	if (skip_every > 0)
		printf(", a clock misses a step in %d", skip_every + 1);
	printf(": %u states, %s, %llu steps, depth %d, %.1f s\n", nentries,
		   at == nentries ? "which are all" : "not all",
		   (unsigned long long) steps, depth, work());
	return at == nentries ? 0 : 3;
}
