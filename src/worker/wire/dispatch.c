/*-------------------------------------------------------------------------
 *
 * dispatch.c
 *		Operations on their way to the store and back.
 *
 * A remote store's operation is encoded, sent and, when the response has
 * come, decoded.  The local store answers at once, but its answer waits in a
 * queue all the same, so that done() is never called from within the call
 * that sent the operation, whatever the store.
 *
 * Requests go in lanes, each with connections and a window of its own: what
 * keeps a term alive never waits behind what seeks one, however much of that
 * there is.  An operation that finds its lane's window full waits for its
 * turn.  It is not sent yet, so its time has not begun, and the store has not
 * failed if it takes long; whoever has stopped wanting it until then is told
 * so instead.  No more can wait than there are elections, as each has one
 * request at a time, and sessions that wait themselves.
 *
 * What waits together goes together, where the store can have several
 * operations in one request.  Each of them is answered for itself; those that
 * were not applied only because another was refused are sent again.  A server
 * that does not take them together, as one of an earlier version, is asked for
 * one after the other, and tried again after a while.
 *
 * src/worker/wire/dispatch.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "nodes/pg_list.h"
#include "replication/message.h"
#include "utils/memutils.h"

#include "compat.h"
#include "settings.h"
#include "shmem/events.h"
#include "shmem/stats.h"
#include "worker/disk/claimlog.h"
#include "worker/wire/dispatch.h"
#include "worker/wire/gossip.h"
#include "worker/wire/http.h"
#include "worker/wire/secret.h"
#include "worker/wire/throttle.h"

/* To a server that is not there, when there are others. */
#define CONNECT_MS			1000

/*
 * How many requests of a lane may be under way.  Those that nobody may delay
 * are never many; of the others enough to keep the store busy, and not so many
 * that each of them is slow.
 */
int			le_lane_windows[LE_NLANES] = {
	[LE_LANE_LIFE] = 8,
	[LE_LANE_RELEASE] = 4,
	[LE_LANE_ASKED] = 8,
	[LE_LANE_CAMPAIGN] = 8,
	[LE_LANE_READ] = 4,
	[LE_LANE_WATCH] = 3,		/* keys, news, nodes; and what a store parks */
};

/* Whose request was so often in vain goes by itself. */
#define MAX_UNJUDGED	3

/*
 * A store that carries out each by itself must not take long to answer, since
 * trust counts from the send of the request: no more than a share of the
 * lease, of which half is quick.  So few go together in any case.
 */
#define SLOW_SHARE		16
#define LEAST_TOGETHER	8

/* So many operations of the store "local" are carried out in a turn. */
#define LOCAL_AT_ONCE	64

/* So many that wait for their kind are passed by to find one of another. */
#define MAX_PASSED_BY	400

/* What a server does not take together goes one by one for so long. */
#define APART			(60 * LE_SEC)

typedef struct Lane
{
	int			window;
	int			under_way;
	int			carrying;		/* of these, that carry several */
	dlist_head	waiting;		/* flights, the oldest first */
} Lane;

static Lane lanes[LE_NLANES];
static uint64 turns = 0;		/* of the loop so far */
static le_time apart_until = 0; /* each operation goes alone */
static int	together;			/* so many go in one, where each is carried
								 * out by itself */
static const LeStore *store;
static LeFlight **newest;		/* of each slot's election, while it has no
								 * answer */
static List *answered = NIL;	/* flights that perform() has to answer */
static List *unread = NIL;		/* answers whose decoding has begun */
static List *secretless = NIL;	/* ... and that wait for a secret */
static bool authenticating = false;
static LeOutcome no_secret = LE_UNAVAILABLE;	/* what failed attempts to get
												 * one mean to them */

/*
 * What the store was last found wanting in, by kind of operation.  A refusal
 * concerns what needs the same permission, since a token may allow one thing
 * and not the other; it counts until such a thing succeeds, or was not tried
 * for so long.  One that is for whoever asks ends with any success.
 */
#define REFUSAL_LIFE	(60 * LE_SEC)

static struct
{
	le_time		at;				/* of the last failure; 0: none */
	bool		refused;		/* else: no answer */
	bool		all;			/* refused not for what was asked */
	bool		node;			/* concerns every election of this node */
}			failing[LE_NOPS];

static char trouble[LE_MAX_ERROR_LEN + 1];
static LeCause trouble_cause = LE_CAUSE_OTHER;

static bool transmit(LeFlight *flight);
static void launch(LeFlight *flight);

/* For jitter only, so the quality of the generator does not matter. */
uint32
le_random(void)
{
	static uint64 state = 0;

	if (state == 0)
		state = (uint64) le_now() ^ ((uint64) MyProcPid << 32);
	state = state * UINT64CONST(6364136223846793005) +
		UINT64CONST(1442695040888963407);
	return (uint32) (state >> 32);
}

static XLogRecPtr last_local_token = 0; /* 0: all of them are flushed */

/*
 * The next token of the local store: a position in the write-ahead log that
 * is flushed before anybody sees it, see run_local().  Whatever becomes of the
 * server, the log goes on behind it.
 */
static uint64
next_local_token(void)
{
	static const char note[] = "term";

	if (RecoveryInProgress())
		return 0;
	last_local_token = le_log_logical_message("leader_election", note,
											  sizeof(note));
	return last_local_token;
}

/* And all before it, also of a worker that ended before it could do so. */
static void
flush_local_tokens(uint64 newest_token)
{
	if (newest_token != 0)
		XLogFlush(newest_token);
	last_local_token = 0;
}

void
le_dispatch_start(void)
{
	int			connections[LE_NLANES];

	store = le_configured_store();
	apart_until = 0;
	together = LE_MAX_JOINED;
	le_set_trouble(LE_TROUBLE_STORE, "");	/* what the worker before knew of it */
	newest = MemoryContextAllocZero(TopMemoryContext,
									le_table->nslots * sizeof(LeFlight *));
	for (int i = 0; i < LE_NLANES; i++)
	{
		lanes[i].window = le_lane_windows[i];
		lanes[i].under_way = lanes[i].carrying = 0;
		dlist_init(&lanes[i].waiting);
		if (i == LE_LANE_WATCH)
			lanes[i].window += store->max_parked;
		connections[i] = lanes[i].window;
	}
	if (store->between_instances)
		le_http_start(connections);
	else
		flush_local_tokens(next_local_token());
	le_throttle_start();
	le_dispatch_configure();
}

/* Take over the settings, at start and after a reload. */
void
le_dispatch_configure(void)
{
	if (!store->between_instances)
		return;
	apart_until = 0;			/* others may be asked from now on */
	le_servers_configure(store->servers());
	le_secret_configure();
}

/* How messages name the store. */
const char *
le_store_place(void)
{
	return store->between_instances ? le_server_place() : store->name;
}

/* Why the store was last found wanting; "" if it answers. */
const char *
le_store_trouble(void)
{
	return trouble;
}

LeCause
le_store_trouble_cause(void)
{
	return trouble_cause;
}

static LeLane
usual_lane(LeOpKind kind)
{
	switch (kind)
	{
		case LE_OP_RELEASE:
		case LE_OP_TELL_NEWS:	/* of releases, perhaps */
			return LE_LANE_RELEASE;
		case LE_OP_READ_CLAIM:
		case LE_OP_CLAIM:
		case LE_OP_COMPLETE:
			return LE_LANE_ASKED;
		case LE_OP_READ:
		case LE_OP_ACQUIRE:
		case LE_OP_TAKE_OVER:
		case LE_OP_PUBLISH:
		case LE_OP_FORGET_NODE:
			return LE_LANE_CAMPAIGN;
		case LE_OP_LIST_CLAIMS:
		case LE_OP_SESSION_NAME:
			return LE_LANE_READ;
		case LE_OP_WATCH:
		case LE_OP_WATCH_NEWS:
		case LE_OP_LIST_NODES:
			return LE_LANE_WATCH;
		default:
			return LE_LANE_LIFE;
	}
}

LeFlight *
le_flight_new(LeOpKind kind, void (*done) (LeFlight *, const LeAnswer *))
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext,
												  "leader_election flight",
												  ALLOCSET_SMALL_SIZES);
	LeFlight   *flight = MemoryContextAllocZero(context, sizeof(LeFlight));

	flight->context = context;
	flight->slot = -1;
	flight->done = done;
	flight->lane = usual_lane(kind);
	flight->epoch = le_table->node.epoch;
	flight->op.kind = kind;
	flight->op.node_name = le_my_name();
	flight->op.incarnation = le_table->incarnation;
	flight->op.session = le_flight_string(flight, le_table->session);
	flight->op.lease = le_table->node.timing.lease;
	return flight;
}

/*
 * A dry run: the store will not carry it out, even if it has nothing against
 * it, since it depends on an index that no key has.  So it must not go with
 * any that is to be carried out: it has the lane of what people look at.
 */
LeFlight *
le_flight_without_effect(LeOpKind kind, const char *election,
						 void (*done) (LeFlight *, const LeAnswer *))
{
	LeFlight   *flight = le_flight_new(kind, done);

	if (election[0] != '\0')
		flight->op.election = le_flight_string(flight, election);
	flight->op.dry_run = true;
	flight->op.index = flight->op.token = LE_NO_INDEX;
	flight->op.rev = 1;
	flight->lane = LE_LANE_READ;
	return flight;
}

const char *
le_flight_string(LeFlight *flight, const char *s)
{
	return s == NULL ? NULL : MemoryContextStrdup(flight->context, s);
}

/* Has it given no answer to something, and none to anything since? */
static bool
is_down(void)
{
	for (int i = 0; i < lengthof(failing); i++)
		if (failing[i].at != 0 && !failing[i].refused)
			return true;
	return false;
}

/* le_status shows what concerns all elections for as long as it does. */
static void
end_trouble(void)
{
	for (int i = 0; i < lengthof(failing); i++)
		if (failing[i].at != 0 && failing[i].node)
			return;
	le_set_trouble(LE_TROUBLE_STORE, "");
}

/* Is it about the node, so that all elections depend on it? */
static bool
concerns_node(const LeFlight *flight, const LeAnswer *answer)
{
	if (answer->outcome != LE_REFUSED || le_refuses_all(answer->cause))
		return true;
	switch (flight->op.kind)
	{
		case LE_OP_READ_CLAIM:
		case LE_OP_CLAIM:
		case LE_OP_COMPLETE:
		case LE_OP_LIST_CLAIMS:
		case LE_OP_SESSION_NAME:
			return false;
		default:
			return flight->op.election == NULL;
	}
}

static void
note_failure(const LeFlight *flight, const LeAnswer *answer)
{
	LeOpKind	kind = flight->op.kind;
	LeOpKind	right = le_op_right(kind);
	bool		refused = answer->outcome == LE_REFUSED;
	const char *detail = answer->detail ? answer->detail : "no answer";

	if (refused ? failing[right].at == 0 || !failing[right].refused :
		!is_down())
	{
		ereport(LOG,
				(errmsg(refused ?
						"leader_election store at %s refused to %s: %s" :
						"leader_election store at %s is down: could not %s: %s",
						le_store_place(), le_op_name(kind), detail)));
		le_event(refused ? LE_EVENT_STORE_REFUSED : LE_EVENT_STORE_DOWN,
				 flight->op.election, 0, "could not %s: %s", le_op_name(kind),
				 detail);
	}
	failing[right].at = le_now();
	failing[right].refused = refused;
	failing[right].all = le_refuses_all(answer->cause);
	failing[right].node = concerns_node(flight, answer);
	strlcpy(trouble, detail, sizeof(trouble));
	trouble_cause = answer->cause;
	if (failing[right].node)
		le_set_trouble(LE_TROUBLE_STORE, detail);
	else
		end_trouble();
}

/*
 * Does the success end the failure of the other kind?  Not if it was asked for
 * before that, as by a watch that had been parked.  A server that has lost all
 * others lists the nodes that it remembers, so all that can be learned from
 * that is that it may be asked to.
 */
static bool
ends(const LeFlight *flight, LeOpKind other)
{
	LeOpKind	kind = flight->op.kind;

	if (flight->transmitted < failing[other].at)
		return false;
	if (kind == LE_OP_AUTHENTICATE)
		return other == kind;	/* it says nothing about the store */
	if (kind == LE_OP_LIST_NODES)
		return other == kind && failing[other].refused;
	return other == le_op_right(kind) || !failing[other].refused ||
		failing[other].all || failing[other].at < le_now() - REFUSAL_LIFE;
}

static void
note_success(const LeFlight *flight)
{
	bool		any = false;
	bool		left = false;

	for (int i = 0; i < lengthof(failing); i++)
	{
		if (failing[i].at == 0)
			continue;
		if (ends(flight, i))
		{
			failing[i].at = 0;
			any = true;
		}
		else
			left = true;
	}
	end_trouble();
	if (!any || left)
		return;
	trouble[0] = '\0';
	trouble_cause = LE_CAUSE_OTHER;
	ereport(LOG,
			(errmsg("leader_election store at %s answers again",
					le_store_place())));
	le_event(LE_EVENT_STORE_UP, NULL, 0, NULL);
}

/* Say in the log when the store goes and when it comes back, once each. */
static void
note_store(const LeFlight *flight, const LeAnswer *answer)
{
	/* Nothing of this instance's was refused: who asked is told. */
	if (flight->probe && answer->outcome == LE_REFUSED)
		return;
	switch (answer->outcome)
	{
		case LE_DONE:
		case LE_CONFLICT:
		case LE_LOST:
			note_success(flight);
			break;
		case LE_UNAVAILABLE:
		case LE_UNKNOWN:
		case LE_REFUSED:
			note_failure(flight, answer);
			break;
	}
}

/* Which row of the statistics it counts for. */
static int
stat_row(const LeFlight *flight)
{
	const char *election = flight->op.election;

	return election == NULL ? LE_STAT_NODE : le_find_term(election);
}

static bool
may_park(LeOpKind kind)
{
	return kind == LE_OP_WATCH || kind == LE_OP_WATCH_NEWS;
}

/*
 * A parked query is answered when something changes: the time says nothing
 * about the store.
 */
static void
count_answer(const LeFlight *flight, const LeAnswer *answer)
{
	if (!may_park(flight->op.kind))
		le_stat_answer(stat_row(flight), flight->sent, answer->outcome);
}

static void
leave_place(LeFlight *flight)
{
	if (flight->under_way)
		lanes[flight->lane].under_way--;
	if (flight->carries)
		lanes[flight->lane].carrying--;
	flight->under_way = flight->carries = flight->handed_over = false;
}

/* What its answer leads to may send the next for the same election. */
static void
deliver(LeFlight *flight, const LeAnswer *answer)
{
	if (flight->request != 0 && newest[flight->slot] == flight)
		newest[flight->slot] = NULL;
	flight->done(flight, answer);
	MemoryContextDelete(flight->context);
}

/* Of a secret ahead of time nobody has to know: there is the last one. */
static bool
is_of_interest(const LeFlight *flight)
{
	if (flight->op.kind == LE_OP_AUTHENTICATE && !le_secret_missing())
		return false;
	return !store->between_instances || !le_performs(store, flight->op.kind);
}

static void
finish(LeFlight *flight, const LeAnswer *answer)
{
	leave_place(flight);
	if (is_of_interest(flight))
	{
		count_answer(flight, answer);
		note_store(flight, answer);
	}
	deliver(flight, answer);
}

/* Its turn has come: in the turn of the loop in which it was asked for? */
static void
count_wait(const LeFlight *flight)
{
	if (flight->turn != turns)
		le_stat_count_slot(stat_row(flight), LE_STAT_WAITS);
}

/* ---- several operations in one request ---- */

static bool
goes_alone(const LeFlight *flight)
{
	return store->room == 0 || flight->fresh ||
		flight->unjudged >= MAX_UNJUDGED ||
		store->takes(&flight->op) == 0 || le_now() < apart_until;
}

/* Is each carried out by itself, although it could go with others? */
static bool
is_one_of_many(const LeFlight *flight)
{
	return store->key_leases && store->room > 0 &&
		store->takes(&flight->op) > 0;
}

/*
 * While a request carries several of those, no other of them goes: they would
 * only take the store's time from each other, and from what keeps terms.
 */
static bool
has_place(const Lane *lane, const LeFlight *next)
{
	return lane->under_way < lane->window &&
		(lane->carrying == 0 || !is_one_of_many(next));
}

/*
 * The store carries out each by itself, so that a request about many takes
 * long when it is slow, and of what it grants little is left then.  Half as
 * many are asked for next time; twice as many again when it is quick.
 */
static void
note_pace(const LeFlight *flight)
{
	le_duration took = le_now() - flight->transmitted;
	le_duration slow = le_table->node.timing.lease / SLOW_SHARE;

	if (!flight->carries)
		return;
	if (took > slow)
		together = Max(together / 2, LEAST_TOGETHER);
	else if (took < slow / 2)
		together = Min(together * 2, LE_MAX_JOINED);
}

/* By their names: two sessions that ask who leads may mean the same one. */
static bool
is_about_another(const LeFlight *flight, const LeFlight *other)
{
	if (strcmp(other->op.election, flight->op.election) == 0)
		return false;
	for (int i = 0; i < flight->op.njoined; i++)
		if (strcmp(other->op.election, flight->op.joined[i]->election) == 0)
			return false;
	return true;
}

static void
join(LeFlight *flight, LeFlight *other)
{
	const LeOp **ops = (const LeOp **) flight->op.joined;

	if (flight->joined == NULL)
	{
		flight->joined = MemoryContextAlloc(flight->context, LE_MAX_JOINED *
											sizeof(LeFlight *));
		ops = MemoryContextAlloc(flight->context,
								 LE_MAX_JOINED * sizeof(LeOp *));
		flight->op.joined = ops;
	}
	ops[flight->op.njoined] = &other->op;
	flight->joined[flight->op.njoined++] = other;
	other->handed_over = true;	/* in no lane any more, from here on */
}

/* Take along what waits in the same lane, as far as there are places. */
static void
join_others(Lane *lane, LeFlight *flight)
{
	int			room;
	int			looks = 2 * LE_MAX_JOINED;
	dlist_mutable_iter iter;

	if (goes_alone(flight))
		return;
	room = store->room - store->takes(&flight->op);
	dlist_foreach_modify(iter, &lane->waiting)
	{
		LeFlight   *other = dlist_container(LeFlight, node, iter.cur);

		if (looks-- == 0 || room <= 0 ||
			flight->op.njoined == LE_MAX_JOINED - 1 ||
			(is_one_of_many(flight) && flight->op.njoined + 1 >= together))
			break;
		if (goes_alone(other) || store->takes(&other->op) > room ||
			!store->joins(&flight->op, &other->op) ||
			!is_about_another(flight, other) ||
			(other->wanted != NULL && !other->wanted(other)))
			continue;
		room -= store->takes(&other->op);
		dlist_delete(&other->node);
		count_wait(other);
		join(flight, other);
	}
	flight->carries = flight->op.njoined > 0 && is_one_of_many(flight);
	if (flight->carries)
		lane->carrying++;
}

/* One of the operations of a request has its answer, or must go again. */
static void
land_one(LeFlight *flight, const LeAnswer *answer)
{
	if (!answer->unjudged && !answer->apart)
	{
		finish(flight, answer);
		return;
	}
	leave_place(flight);
	flight->unjudged = answer->apart ? MAX_UNJUDGED : flight->unjudged + 1;
	flight->op.njoined = 0;
	flight->tried = 0;
	flight->turn = turns;
	dlist_push_head(&lanes[flight->lane].waiting, &flight->node);
}

/* Not all at once, then; who was asked may be replaced by a newer one. */
static void
note_apart(const LeFlight *flight, const LeAnswer *answer)
{
	if (apart_until == 0)
		ereport(LOG,
				(errmsg("leader_election store at %s does not take several elections in one request: %s",
						le_store_place(), answer->detail),
				 errdetail("Could not %s %d at once; it may be of an earlier version. Each goes by itself, until it is tried again in %d seconds.",
						   le_op_name(flight->op.kind),
						   1 + flight->op.njoined,
						   (int) (APART / LE_SEC))));
	apart_until = le_now() + APART;
}

/* The answer lives as long as the one that was sent for all: it goes last. */
static void
land(LeFlight *flight, const LeAnswer *answer)
{
	int			n = flight->op.njoined;

	if (answer->apart)
		note_apart(flight, answer);
	else
		note_pace(flight);
	for (int i = n; i > 0; i--)
		land_one(flight->joined[i - 1],
				 answer->parts != NULL ? &answer->parts[i] : answer);
	land_one(flight, n > 0 && answer->parts != NULL ? &answer->parts[0] :
			 answer);
}

/*
 * An acquire of a session that has ended since.  Who seeks the election now is
 * told that nothing was done for him, so no request of it may still set out.
 */
static bool
is_of_the_past(const LeFlight *flight)
{
	return (flight->op.kind == LE_OP_ACQUIRE ||
			flight->op.kind == LE_OP_TAKE_OVER) &&
		flight->epoch != le_table->node.epoch;
}

/*
 * The next request cannot be sent.  Was it the first, nothing was applied; of
 * several, nobody knows what those before it have done.
 */
static void
give_up(LeFlight *flight, const char *why)
{
	LeAnswer	answer = {0};

	if (flight->op.step.number > 0)
		le_fail_open(&flight->op, &answer, why);
	else
		le_fail(&answer, LE_UNAVAILABLE, why);
	land(flight, &answer);
}

/* ---- a secret that has to be fetched ---- */

/* It cannot be sent, or its last request not again: nothing was applied, but
 * perhaps by those before. */
static void
fail_secretless(LeFlight *flight, const char *why)
{
	LeAnswer	answer = {0};

	if (flight->op.step.number > 0)
		le_fail_open(&flight->op, &answer, why);
	else
		le_fail(&answer, no_secret, why);
	if (answer.outcome == LE_REFUSED)
		answer.cause = LE_CAUSE_STRANGER;
	land(flight, &answer);
}

static void
forget_text(const char *secret)
{
	if (secret != NULL)
		explicit_bzero(unconstify(char *, secret), strlen(secret));
}

/* All that waited for one go ahead; without one they have failed. */
static void
authenticated(LeFlight *flight, const LeAnswer *answer)
{
	const char *why = answer->detail ? answer->detail : "no answer";
	List	   *waiting = secretless;

	secretless = NIL;
	authenticating = false;
	no_secret = answer->outcome == LE_REFUSED ? LE_REFUSED : LE_UNAVAILABLE;
	if (answer->outcome == LE_DONE)
		le_secret_fetched(answer->secret, answer->lasts);
	else
		le_secret_failed(why, answer->busy_for, le_random());
	forget_text(answer->secret);
	forget_text(flight->op.secret);
	while (waiting != NIL)
	{
		LeFlight   *next = linitial(waiting);

		waiting = list_delete_first(waiting);
		if (answer->outcome != LE_DONE)
			fail_secretless(next, why);
		else if (is_of_the_past(next))
			give_up(next, "its session has ended");
		else if (le_now() >= next->until || !transmit(next))
			give_up(next, "there was no time left after authentication");
	}
}

/* Not in a lane's turn: those that have a place may all wait for this. */
static void
authenticate(void)
{
	LeFlight   *flight;

	if (authenticating ||
		(le_secret_due() != 0 && le_now() < le_secret_due()))
		return;
	authenticating = true;
	le_secret_read_again();
	flight = le_flight_new(LE_OP_AUTHENTICATE, authenticated);
	flight->op.secret = le_flight_string(flight, le_secret_of_file());
	flight->patience = le_table->node.timing.request_timeout;
	launch(flight);
}

static void
await_secret(LeFlight *flight)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	secretless = lappend(secretless, flight);
	MemoryContextSwitchTo(old);
	authenticate();
}

/*
 * Whoever waits for a secret has no more time than for an answer, and while
 * none is being fetched, since that has failed just now, no hope.
 */
static void
run_secretless(void)
{
	for (int n = list_length(secretless); n > 0; n--)
	{
		LeFlight   *flight = linitial(secretless);
		MemoryContext old;

		secretless = list_delete_first(secretless);
		if (!authenticating)
			fail_secretless(flight, le_secret_trouble());
		else if (le_now() >= flight->until)
			fail_secretless(flight, "no token could be fetched in time");
		else
		{
			old = MemoryContextSwitchTo(TopMemoryContext);
			secretless = lappend(secretless, flight);
			MemoryContextSwitchTo(old);
		}
	}
}

static le_time
secretless_timer(void)
{
	le_time		next = 0;
	ListCell   *cell;

	if (secretless != NIL && !authenticating)
		return le_now();
	foreach(cell, secretless)
		next = le_earliest(next, ((LeFlight *) lfirst(cell))->until);
	return next;
}

/* Has the store refused all of the request, or a part, and so applied none? */
static bool
is_refusal(const LeFlight *flight, const LeHttpResponse *response,
		   const LeAnswer *answer)
{
	if (response->net != LE_NET_OK || response->status < 400)
		return false;
	for (int i = 0; answer->parts != NULL && i <= flight->op.njoined; i++)
		if (answer->parts[i].outcome == LE_REFUSED)
			return true;
	return answer->outcome == LE_REFUSED;
}

/* The secret is what is wrong, whether the store could tell or not. */
static void
blame_secret(LeAnswer *answer)
{
	answer->cause = le_refuses_all(answer->cause) ? LE_CAUSE_STRANGER :
		LE_CAUSE_PERMISSION;
}

/* What was wrong with the file, if it could not be read again. */
static void
explain_file(const LeFlight *flight, LeAnswer *answer)
{
	MemoryContext old;

	if (answer->outcome != LE_REFUSED || le_secret_trouble()[0] == '\0')
		return;
	old = MemoryContextSwitchTo(flight->context);
	answer->detail =
		le_clean_detail(psprintf(le_secret() == NULL ?
								 "%s (no token was sent: %s)" :
								 "%s (the token is an old one: %s)",
								 answer->detail, le_secret_trouble()));
	blame_secret(answer);
	MemoryContextSwitchTo(old);
}

/*
 * The secret that was sent has run out, or its file may have another by now:
 * with a new one, once more, and only once, lest one that is never accepted
 * should be fetched for ever.
 */
static bool
ask_with_new_secret(LeFlight *flight, const LeHttpResponse *response,
					LeAnswer *answer)
{
	LeSecretAdvice advice;

	if (!answer->stale_secret &&
		!(le_secret_is_in_file() && is_refusal(flight, response, answer)))
		return false;
	if (flight->renewed_secret || flight->op.kind == LE_OP_AUTHENTICATE ||
		is_of_the_past(flight))
		return false;
	advice = le_secret_refused(flight->secret_number);
	if (advice == LE_SECRET_GIVE_UP)
	{
		explain_file(flight, answer);
		return false;
	}
	flight->renewed_secret = true;
	flight->tried = 0;
	if (advice == LE_SECRET_FETCH)
		await_secret(flight);
	else if (le_now() >= flight->until || !transmit(flight))
		give_up(flight, "there was no time left after authentication");
	return true;
}

/* What was wrong with it, if it says so itself. */
static void
explain_refusal(LeAnswer *answer)
{
	LeFinding	finding;

	if (!answer->stale_secret || answer->outcome != LE_REFUSED ||
		!le_secret_judge(&finding) || finding.level != LE_LEVEL_ERROR)
		return;
	answer->detail = le_clean_detail(psprintf("%s %s", finding.text,
											  answer->detail));
	blame_secret(answer);
}

/* ---- requests ---- */

/*
 * The server that was asked has failed, or does well.  What was certainly not
 * applied is sent to the next one, while there is time; what may have been
 * applied is not, since only the one who decided to send it knows how to find
 * out.
 */
static bool
ask_another(LeFlight *flight, const LeHttpResponse *response,
			const LeAnswer *answer)
{
	if (response->net != LE_NET_OK || answer->next_server)
		le_server_failed(flight->server,
						 answer->detail ? answer->detail : "no answer");
	else
		le_server_answered(flight->server);
	if (!answer->next_server || is_of_the_past(flight) ||
		flight->until - le_now() < LE_MIN_ATTEMPT / 2)
		return false;
	return transmit(flight);
}

/* The operation goes on with another request, to whatever server is best. */
static bool
go_on(LeFlight *flight, const LeAnswer *answer)
{
	if (!answer->again)
		return false;
	flight->op.step = answer->next;
	flight->tried = 0;
	if (is_of_the_past(flight))
		give_up(flight, "its session has ended");
	else if (le_now() >= flight->until || !transmit(flight))
		give_up(flight, "there was no time left for the rest of it");
	return true;
}

/* An answer that is decoded in parts, one in a turn of the loop. */
typedef struct Unread
{
	LeFlight   *flight;
	LeHttpResponse response;
	LeAnswer	answer;			/* as far as it goes */
} Unread;

/* A part of it, or all.  What it becomes lives as long as the flight. */
static void
decode_part(LeFlight *flight, const LeHttpResponse *response,
			LeAnswer *answer)
{
	MemoryContext old = MemoryContextSwitchTo(flight->context);

	flight->op.from = answer->rest;
	store->decode(&le_table->place, &flight->op, response, answer);
	if (answer->rest == 0)
		explain_refusal(answer);
	MemoryContextSwitchTo(old);
}

/* The rest of it later: the response is gone by then, so it is copied. */
static void
read_later(LeFlight *flight, const LeHttpResponse *response,
		   const LeAnswer *answer)
{
	MemoryContext old = MemoryContextSwitchTo(flight->context);
	Unread	   *u = palloc(sizeof(Unread));

	u->flight = flight;
	u->response = *response;
	u->response.body = memcpy(palloc(response->body_len), response->body,
							  response->body_len);
	u->response.content_type = pstrdup(response->content_type);
	if (response->headers != NULL)
		u->response.headers = pstrdup(response->headers);
	u->answer = *answer;
	MemoryContextSwitchTo(TopMemoryContext);
	unread = lappend(unread, u);
	MemoryContextSwitchTo(old);
}

/*
 * Whoever waits for the answer counts trust from flight->sent.  Of several
 * requests that is the one that took or renewed the lease: what was sent after
 * it says nothing about how long ago that was.
 */
static void
act_on(LeFlight *flight, const LeHttpResponse *response, LeAnswer *answer)
{
	le_gossip_landed(&flight->op, answer);
	flight->op.news = NULL;
	if (answer->busy && flight->op.kind != LE_OP_AUTHENTICATE)
		le_throttle_busy(answer->busy_for);
	flight->anchored = flight->anchored || answer->anchors;
	if (!ask_another(flight, response, answer) &&
		!ask_with_new_secret(flight, response, answer) &&
		!go_on(flight, answer))
		land(flight, answer);
}

static void
response_came(void *arg, const LeHttpResponse *response)
{
	LeFlight   *flight = arg;
	LeAnswer	answer = {0};

	decode_part(flight, response, &answer);
	if (answer.rest != 0)
		read_later(flight, response, &answer);
	else
		act_on(flight, response, &answer);
}

/* One part more of each answer that is not decoded to its end. */
static void
run_unread(void)
{
	for (int n = list_length(unread); n > 0; n--)
	{
		Unread	   *u = linitial(unread);
		MemoryContext old;

		unread = list_delete_first(unread);
		decode_part(u->flight, &u->response, &u->answer);
		if (u->answer.rest == 0)
		{
			act_on(u->flight, &u->response, &u->answer);
			continue;
		}
		old = MemoryContextSwitchTo(TopMemoryContext);
		unread = lappend(unread, u);
		MemoryContextSwitchTo(old);
	}
}

/*
 * How long may this server take?  A read that another could answer as well
 * leaves time for that one, lest a server that hangs should use up the time
 * that somebody has to wait.
 */
static le_duration
patience(const LeFlight *flight)
{
	le_duration left = Max(flight->until - flight->transmitted, LE_MSEC);
	unsigned	tried = flight->tried;
	LeServerRef other;

	if (le_op_writes(flight->op.kind) || may_park(flight->op.kind) ||
		!le_server_pick(&tried, &other))
		return left;
	return left / 2;
}

/* Encode and send; false: there is nobody left to send it to. */
static bool
transmit(LeFlight *flight)
{
	LeHttpRequest request = {0};
	MemoryContext old;

	if (!le_server_pick(&flight->tried, &flight->server))
		return false;
	old = MemoryContextSwitchTo(flight->context);
	initStringInfo(&request.path);
	initStringInfo(&request.headers);
	initStringInfo(&request.body);
	if (store->tells && !flight->op.dry_run)
		le_gossip_attach(&flight->op);
	store->encode(&le_table->place, &flight->op, &request);
	if (request.base == NULL)
		request.base = le_server_url(flight->server);
	if (!request.without_secret)
		request.secret = le_secret();
	request.secret_header = le_secret_header();
	flight->secret_number = le_secret_number();
	request.fresh = flight->fresh;
	if (le_servers_several())
		request.connect_ms = CONNECT_MS;
	flight->transmitted = le_now();
	if (!flight->anchored)
		flight->sent = flight->transmitted;
	flight->handed_over = true;
	for (int i = 0; i < flight->op.njoined; i++)
	{
		flight->joined[i]->handed_over = true;
		flight->joined[i]->sent = flight->sent;
		flight->joined[i]->transmitted = flight->transmitted;
	}
	le_http_send(&request, flight->lane, patience(flight), response_came,
				 flight);
	MemoryContextSwitchTo(old);
	return true;
}

/*
 * Have the operation sent when this turn ends, or when it is its turn; done()
 * will be called once, later.  The store has "timeout" from when it is sent.
 */
void
le_flight_send(LeFlight *flight, le_duration timeout)
{
	Lane	   *lane = &lanes[flight->lane];
	MemoryContext old;

	flight->sent = flight->transmitted = le_now();
	flight->patience = timeout;
	flight->until = le_earliest(flight->sent + timeout, flight->not_after);
	if (flight->request != 0)
		newest[flight->slot] = flight;
	if (le_performs(store, flight->op.kind))
	{
		flight->handed_over = true;
		old = MemoryContextSwitchTo(TopMemoryContext);
		answered = lappend(answered, flight);
		MemoryContextSwitchTo(old);
	}
	else if (flight->lane == LE_LANE_LIFE && lane->under_way < lane->window &&
			 le_now() < flight->until)
		launch(flight);			/* a proof names what is held now, not at the
								 * end of the turn */
	else
	{
		flight->turn = turns;
		dlist_push_tail(&lane->waiting, &flight->node);
	}
}

/* Has the store certainly not been asked yet what the election waits for? */
bool
le_flight_waits(int slot)
{
	return newest[slot] != NULL && !newest[slot]->handed_over;
}

/*
 * A session asks about an election whose request waits behind those that
 * nobody waits for: from here on it is one of those that somebody does.
 */
void
le_flight_hurry(int slot)
{
	LeFlight   *flight = newest[slot];

	if (flight == NULL || flight->under_way || flight->handed_over ||
		flight->lane != LE_LANE_CAMPAIGN)
		return;
	dlist_delete(&flight->node);
	flight->lane = LE_LANE_ASKED;
	flight->keeps_waiting = false;
	flight->until = le_earliest(le_now() + flight->patience,
								flight->not_after);
	dlist_push_tail(&lanes[flight->lane].waiting, &flight->node);
}

/* ---- whose turn it is ---- */

/* It was never sent: nobody has failed, and nothing was applied. */
static void
finish_unsent(LeFlight *flight, const char *why)
{
	LeAnswer	answer = {0};

	le_fail(&answer, LE_UNAVAILABLE, why);
	answer.unsent = true;
	deliver(flight, &answer);
}

static void
launch(LeFlight *flight)
{
	lanes[flight->lane].under_way++;
	flight->under_way = true;
	flight->sent = flight->transmitted = le_now();
	flight->until = le_earliest(flight->sent + flight->patience,
								flight->not_after);
	if (flight->op.kind != LE_OP_AUTHENTICATE && le_secret_missing())
		await_secret(flight);
	else if (!transmit(flight))
		elog(ERROR, "leader_election has no server to ask");	/* never empty */
}

/* What a lane waits for beside a place in it; 0: nothing. */
static le_time
paused_until(const Lane *lane)
{
	return lane == &lanes[LE_LANE_CAMPAIGN] ?
		le_throttle_campaign(le_table->node.timing.lease) : 0;
}

/* Does it wait for nothing but a request that carries others of its kind? */
static bool
is_passed_by(const Lane *lane, const LeFlight *next)
{
	return lane->under_way < lane->window && !has_place(lane, next) &&
		paused_until(lane) == 0;
}

/* False: it is not its turn. */
static bool
take_turn(Lane *lane, LeFlight *next)
{
	bool		wanted = next->wanted == NULL || next->wanted(next);
	bool		late = !next->keeps_waiting && le_now() >= next->until;

	if (wanted && !late && (!has_place(lane, next) ||
							paused_until(lane) != 0))
		return false;
	dlist_delete(&next->node);
	count_wait(next);
	if (!wanted)
		finish_unsent(next, "it is not wanted any more");
	else if (late)
		finish_unsent(next, "too many requests were waiting for their turn");
	else
	{
		join_others(lane, next);
		if (lane == &lanes[LE_LANE_CAMPAIGN])
			le_throttle_campaigned();
		launch(next);
	}
	return true;
}

/*
 * The oldest first; but those that wait only for their kind hold up no other
 * kind, as a claim behind hundreds of acquires.  Whatever is sent or answered
 * may change the list, so that one is served at a time.
 */
static bool
serve_one(Lane *lane)
{
	int			looks = MAX_PASSED_BY;
	dlist_iter	iter;

	dlist_foreach(iter, &lane->waiting)
	{
		LeFlight   *next = dlist_container(LeFlight, node, iter.cur);

		if (looks < MAX_PASSED_BY && is_passed_by(lane, next))
			;					/* one of those, too */
		else if (take_turn(lane, next))
			return true;
		else if (!is_passed_by(lane, next))
			return false;
		if (--looks == 0)
			return false;
	}
	return false;
}

static void
run_lane(Lane *lane)
{
	while (serve_one(lane))
		;
}

/* Send what this turn has made necessary, as far as there is room. */
void
le_dispatch_send(void)
{
	for (int i = 0; i < LE_NLANES; i++)
		run_lane(&lanes[i]);
	if (store->between_instances)
		le_http_push();
	turns++;
}

/* When has somebody waited for too long, should no place become free? */
static le_time
waiting_timer(void)
{
	le_time		next = 0;

	for (int i = 0; i < LE_NLANES; i++)
	{
		const LeFlight *first;
		le_time		paused;

		if (dlist_is_empty(&lanes[i].waiting))
			continue;
		first = dlist_container(LeFlight, node,
								dlist_head_node(&lanes[i].waiting));
		paused = paused_until(&lanes[i]);
		if (paused != 0)
			next = le_earliest(next, paused);
		else if (has_place(&lanes[i], first))
			return le_now();
		if (!first->keeps_waiting)
			next = le_earliest(next, first->until);
	}
	return next;
}

static void
perform_next(LeFlight **flight, LeAnswer *answer)
{
	MemoryContext old;

	*flight = linitial(answered);
	answered = list_delete_first(answered);
	old = MemoryContextSwitchTo((*flight)->context);
	(*flight)->op.next_token = next_local_token;
	(*flight)->op.log = &le_claim_log;
	store->perform(&(*flight)->op, answer);
	MemoryContextSwitchTo(old);
}

/*
 * So many in a turn, with one flush for the tokens of all of them.  What these
 * send waits for the next turn: others want theirs.
 */
static void
run_local(void)
{
	LeFlight   *flights[LOCAL_AT_ONCE];
	LeAnswer	answers[LOCAL_AT_ONCE] = {0};
	int			n = Min(list_length(answered), LOCAL_AT_ONCE);

	for (int i = 0; i < n; i++)
		perform_next(&flights[i], &answers[i]);
	flush_local_tokens(last_local_token);
	for (int i = 0; i < n; i++)
		finish(flights[i], &answers[i]);
}

void
le_dispatch_run(void)
{
	if (store->between_instances)
	{
		run_unread();
		le_http_run();
		le_servers_run_timers();
		le_secret_run_timers();
		if (le_secret_due() != 0 && le_now() >= le_secret_due())
			authenticate();
		run_secretless();
	}
	run_local();
}

le_time
le_dispatch_timer(void)
{
	le_time		next = answered == NIL && unread == NIL ? 0 : le_now();

	if (store->between_instances)
	{
		next = le_earliest(next, le_http_timer());
		next = le_earliest(next, le_servers_timer());
		next = le_earliest(next, waiting_timer());
		next = le_earliest(next, le_secret_timer());
		next = le_earliest(next, secretless_timer());
		if (!authenticating)
			next = le_earliest(next, le_secret_due());
	}
	return next;
}
