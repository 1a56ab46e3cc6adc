/*-------------------------------------------------------------------------
 *
 * watch.c
 *		What the store shows without being asked about one election.
 *
 * Two things are looked at while this node holds or seeks anything.  One
 * blocking query over all election keys answers as soon as one of them
 * changes, which makes a handoff a matter of milliseconds.  And the node keys
 * are listed once per lease: they tell how long a silent holder must be
 * waited for, and who else takes part.
 *
 * Nothing here is a proof.  A watch parked on a frozen server stays silent
 * for half a minute after a key has changed hands, so what it shows may end
 * belief and wake candidates, never extend anything.
 *
 * src/worker/watch.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "compat.h"
#include "settings.h"
#include "worker/dispatch.h"
#include "worker/elect.h"
#include "worker/session.h"
#include "worker/watch.h"

/* How long one query stays parked at the store. */
#define PARK_MS			10000

/* Consul adds up to a sixteenth, and 7 s when it has no leader. */
#define PARK_TIMEOUT	((PARK_MS + PARK_MS / 16 + 8000) * LE_MSEC)

/* After so many answers in a row that came at once and brought nothing new,
 * the next query is sent no sooner than this. */
#define IDLE_BURST		3
#define IDLE_GAP		(500 * LE_MSEC)

/* The node key of a session that ended this long ago is of no use. */
#define NODE_KEY_LIFE	(3600 * LE_SEC)

static struct
{
	bool		in_flight;
	uint32		number;			/* of the query; older answers are dropped */
	uint64		index;			/* to wait for */
	le_time		next_at;		/* 0: not scheduled */
	le_time		fresh_at;		/* when the query behind the newest answer was
								 * sent; 0: none */
	int			failures;
	int			idle_answers;	/* in a row, that came at once with no news */
	MemoryContext context;		/* of keys */
	LeKey	   *keys;			/* as the newest answer showed them */
	int			nkeys;
} watch;

static struct
{
	bool		in_flight;
	le_time		next_at;
	bool		doubted;		/* ask the leader of the store, not just any
								 * server */
	int			failures;
	char		warned[LE_INCARNATION_LEN + 1];
} listing;

/* ---- election keys ---- */

static const char *
copy_string(const char *s)
{
	return s == NULL ? NULL : pstrdup(s);
}

/* Keep the keys for answers of limited age. */
static void
keep_keys(const LeAnswer *answer)
{
	MemoryContext old;

	if (watch.context == NULL)
		watch.context = AllocSetContextCreate(TopMemoryContext,
											  "leader_election watch",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(watch.context);
	old = MemoryContextSwitchTo(watch.context);
	watch.nkeys = answer->nkeys;
	watch.keys = palloc(Max(answer->nkeys, 1) * sizeof(LeKey));
	for (int i = 0; i < answer->nkeys; i++)
	{
		const LeKey *from = &answer->keys[i];
		LeKey	   *to = &watch.keys[i];

		*to = *from;
		to->election = copy_string(from->election);
		to->holder = copy_string(from->holder);
		to->node = copy_string(from->node);
		to->value_session = copy_string(from->value_session);
		to->value = copy_string(from->value);
	}
	MemoryContextSwitchTo(old);
}

/* The key as the newest answer showed it; NULL: it showed none. */
const LeKey *
le_watch_key(const char *election)
{
	for (int i = 0; i < watch.nkeys; i++)
		if (strcmp(watch.keys[i].election, election) == 0)
			return &watch.keys[i];
	return NULL;
}

/*
 * The election's place in the table.  A key that our session holds gets one
 * if it has none: somebody has to release it.
 */
static LeSlot *
slot_of(const LeKey *key)
{
	if (key->holder != NULL && strcmp(key->holder, le_table->session) == 0)
		return le_find_or_add_slot(key->election);
	return le_find_slot(key->election);
}

/* Show every election of the table what the answer says about it. */
static bool
show_keys(uint64 as_of)
{
	bool	   *shown = palloc0(Max(le_table->nslots, 1) * sizeof(bool));
	bool		news = false;

	for (int i = 0; i < watch.nkeys; i++)
	{
		LeSlot	   *slot = slot_of(&watch.keys[i]);

		if (slot == NULL)
			continue;
		shown[le_slot_number(slot)] = true;
		news = news || slot->holder_index != watch.keys[i].index;
		le_elect_seen(slot, &watch.keys[i], as_of);
	}
	for (int i = 0; i < le_table->nused; i++)
	{
		if (shown[i])
			continue;
		news = news || le_slot(i)->holder_index != 0;
		le_elect_seen(le_slot(i), NULL, as_of);
	}
	pfree(shown);
	return news;
}

static void
watch_failed(void)
{
	watch.failures++;
	watch.index = 0;
	watch.next_at = le_now() + le_retry_delay(&le_table->node.timing,
											  watch.failures, le_random());
}

static void
watch_answered(LeFlight *flight, const LeAnswer *answer)
{
	bool		news;

	if (flight->request != watch.number)
		return;
	watch.in_flight = false;
	if (answer->outcome != LE_DONE)
	{
		watch_failed();
		return;
	}
	watch.failures = 0;
	watch.index = answer->index;
	watch.fresh_at = flight->sent;
	watch.next_at = le_now();
	keep_keys(answer);
	news = show_keys(answer->index);

	/* A key that is absent while others change makes the query return at
	 * once, again and again. */
	if (news || le_now() - flight->sent >= IDLE_GAP)
		watch.idle_answers = 0;
	else if (++watch.idle_answers >= IDLE_BURST)
		watch.next_at = le_now() + IDLE_GAP;
}

static void
send_watch(void)
{
	LeFlight   *flight = le_flight_new(LE_OP_WATCH, watch_answered);

	flight->request = ++watch.number;
	flight->op.watch_index = watch.index;
	flight->op.wait_ms = PARK_MS;
	watch.in_flight = true;
	watch.next_at = 0;
	le_flight_send(flight, PARK_TIMEOUT);
}

/* The place to watch may be another one now; an older answer is dropped. */
void
le_watch_restart(void)
{
	if (!le_store()->remote || le_store()->key_leases)
		return;
	watch.number++;
	watch.in_flight = false;
	watch.index = 0;
	watch.next_at = le_now();
	listing.next_at = le_now();
}

/* The keys are elsewhere from now on: what was seen says nothing. */
void
le_watch_forget(void)
{
	watch.number++;
	watch.in_flight = false;
	watch.index = 0;
	watch.nkeys = 0;
	watch.fresh_at = 0;
}

/* As of when is what le_watch_key() says?  0: nothing is known. */
le_time
le_watch_fresh_at(void)
{
	return watch.fresh_at;
}

/* ---- node keys ---- */

const LeNodeInfo *
le_watch_node(const char *session)
{
	for (int i = 0; i < le_table->nnodes; i++)
		if (strcmp(le_table->nodes[i].session, session) == 0)
			return &le_table->nodes[i];
	return NULL;
}

/*
 * When will the node have been silent for its whole lease?  Counted from the
 * receipt of its last sign of life, or from when it was seen to have given
 * one that was not shown here yet.
 */
le_time
le_watch_silent_at(const LeNodeInfo *info)
{
	return Max(info->first_seen, info->doubted) + info->lease;
}

/* Two live instances under one name: each is told from the other by its
 * incarnation, but people cannot. */
static void
warn_of_namesake(const LeNodeInfo *info, bool alive)
{
	if (!alive || !info->held || info->self || info->revoked ||
		strcmp(info->node, le_my_name()) != 0 ||
		strcmp(info->incarnation, listing.warned) == 0)
		return;
	strlcpy(listing.warned, info->incarnation, sizeof(listing.warned));
	ereport(WARNING,
			(errmsg("another live node calls itself \"%s\"", info->node),
			 errdetail("Its store session is %s.", info->session),
			 errhint("Set \"leader_election.node_name\" to a different name on each instance.")));
}

static void
fill_node(LeNodeInfo *info, const LeNodeKey *key)
{
	const LeNodeInfo *before = le_watch_node(key->session);
	bool		alive = false;

	if (before != NULL && before->index > key->index)
	{
		*info = *before;		/* the answer is older than what is known */
		return;
	}
	memset(info, 0, sizeof(*info));
	strlcpy(info->session, key->session, sizeof(info->session));
	strlcpy(info->node, key->node, sizeof(info->node));
	strlcpy(info->incarnation, key->incarnation, sizeof(info->incarnation));
	info->index = key->index;
	info->lease = key->lease;
	info->seq = key->seq;
	info->held = key->held;
	info->revoked = key->revoked;
	info->self = strcmp(key->incarnation, le_table->incarnation) == 0;
	info->doubted = before != NULL ? before->doubted : 0;
	if (before != NULL && (before->index == key->index || key->revoked))
	{
		info->first_seen = before->first_seen;
		info->first_seen_wall = before->first_seen_wall;
	}
	else
	{
		alive = before != NULL;
		info->first_seen = le_now();
		info->first_seen_wall = GetCurrentTimestamp();
	}
	warn_of_namesake(info, alive);
}

static void
node_forgotten(LeFlight *flight, const LeAnswer *answer)
{
}

/* Does a free key still name the session, so that somebody may want to know
 * about it? */
static bool
named_by_key(const char *session)
{
	for (int i = 0; i < watch.nkeys; i++)
		if (watch.keys[i].value_session != NULL && !watch.keys[i].released &&
			strcmp(watch.keys[i].value_session, session) == 0)
			return true;
	return false;
}

/* Remove what a node that died long ago, and without heirs, left behind. */
static void
tidy(const LeNodeInfo *info)
{
	LeFlight   *flight;

	if (info->held || watch.fresh_at == 0 || named_by_key(info->session) ||
		le_now() - info->first_seen < NODE_KEY_LIFE)
		return;
	flight = le_flight_new(LE_OP_FORGET_NODE, node_forgotten);
	flight->op.session = le_flight_string(flight, info->session);
	le_flight_send(flight, le_table->node.timing.request_timeout);
}

static void
take_nodes(const LeAnswer *answer)
{
	static LeNodeInfo fresh[LE_MAX_NODES];
	int			n = Min(answer->nnodes, LE_MAX_NODES);

	for (int i = 0; i < n; i++)
		fill_node(&fresh[i], &answer->nodes[i]);

	pg_atomic_fetch_add_u64(&le_table->nodes_version, 1);
	pg_write_barrier();
	memcpy(le_table->nodes, fresh, n * sizeof(LeNodeInfo));
	le_table->nnodes = n;
	pg_write_barrier();
	pg_atomic_fetch_add_u64(&le_table->nodes_version, 1);

	for (int i = 0; i < n; i++)
		tidy(&fresh[i]);
}

/*
 * Once per lease; four times as often while somebody is waited for, since the
 * wait is counted from the receipt of the holder's last sign of life.
 */
static le_time
next_listing(void)
{
	le_duration gap = le_table->node.timing.lease;

	if (le_elect_waits_for_holder())
		gap /= 4;
	return le_now() + gap - le_jitter(gap / 10, le_random());
}

static void
nodes_answered(LeFlight *flight, const LeAnswer *answer)
{
	listing.in_flight = false;
	if (answer->outcome != LE_DONE)
	{
		listing.doubted = listing.doubted || flight->op.fresh;
		listing.failures++;
		listing.next_at = le_now() +
			le_retry_delay(&le_table->node.timing, listing.failures,
						   le_random());
		return;
	}
	listing.failures = 0;
	listing.next_at = next_listing();
	take_nodes(answer);
	le_elect_recheck_waiting();
	if (listing.doubted)
		le_watch_nodes_soon();	/* this answer was asked for before */
}

static void
send_listing(void)
{
	LeFlight   *flight = le_flight_new(LE_OP_LIST_NODES, nodes_answered);

	flight->op.fresh = listing.doubted;
	listing.doubted = false;
	listing.in_flight = true;
	listing.next_at = 0;
	le_flight_send(flight, le_table->node.timing.request_timeout);
}

/*
 * A takeover was refused: the node has given a sign of life that was not
 * shown here yet.  Until it is, the wait starts anew.
 */
void
le_watch_doubt_node(const char *session)
{
	for (int i = 0; i < le_table->nnodes; i++)
	{
		if (strcmp(le_table->nodes[i].session, session) == 0)
			le_table->nodes[i].doubted = le_now();
	}
	listing.doubted = true;
	le_watch_nodes_soon();
}

/*
 * A takeover succeeded and marked a node key: once the mark is seen here, the
 * node's other elections need not be waited for.
 */
void
le_watch_took_over(void)
{
	listing.doubted = true;
	le_watch_nodes_soon();
}

static void
list_nodes_within(le_duration gap)
{
	le_time		by = le_now() + gap;

	if (!listing.in_flight && (listing.next_at == 0 || listing.next_at > by))
		listing.next_at = by;
}

/* A key names a session that is not known here. */
void
le_watch_nodes_soon(void)
{
	list_nodes_within(100 * LE_MSEC);
}

/* Somebody is waited for, from now on perhaps: see it fall silent in time. */
void
le_watch_follow_nodes(void)
{
	list_nodes_within(le_table->node.timing.lease / 4);
}

/* ---- timers ---- */

static bool
needed(void)
{
	return le_store()->remote && !le_store()->key_leases &&
		le_session_live() && le_elect_need_watch();
}

void
le_watch_run_timers(void)
{
	le_time		now = le_now();

	if (!needed())
		return;
	if (!watch.in_flight && now >= watch.next_at)
		send_watch();
	if (!listing.in_flight && now >= listing.next_at)
		send_listing();
}

le_time
le_watch_timer(void)
{
	le_time		next = 0;

	if (!needed())
		return 0;
	if (!watch.in_flight)
		next = watch.next_at;
	if (!listing.in_flight)
		next = le_earliest(next, listing.next_at);
	return next;
}
