/*-------------------------------------------------------------------------
 *
 * watch_all.c
 *		The watch over all election keys, and the list of nodes.
 *
 * This file watches two things while this node holds or seeks any election.
 * One blocking query over all election keys answers as soon as one of them
 * changes, which makes a handoff a matter of milliseconds.  And the node keys
 * are listed once per lease: they tell how long to wait for a silent holder,
 * and which other nodes take part.
 *
 * The answer to that query shows all keys, so with many of them it costs more
 * than the change itself.  Then the query is over the news of the nodes
 * instead (gossip.c), if all live nodes tell some.  The keys are listed when
 * news were missed, when a node is gone, and from time to time because of
 * writers that tell nothing: Consul's other clients, and people.
 *
 * Nothing here is a proof.  A watch parked on a frozen server stays silent for
 * half a minute after a key has changed hands, so the watch may end belief and
 * wake candidates, but never extend anything.
 *
 * src/worker/watch/watch_all.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"


#include "utils/memutils.h"

#include "settings.h"
#include "worker/lead/elect.h"
#include "worker/lead/elect_all.h"
#include "worker/lead/elect_timers.h"
#include "worker/view/cache.h"
#include "worker/view/clones.h"
#include "worker/view/sweep.h"
#include "worker/view/wishes.h"
#include "worker/watch/watch_all.h"
#include "worker/wire/dispatch.h"
#include "worker/wire/gossip.h"

/* After so many immediate answers in a row without anything new, the next
 * query is sent no sooner than this. */
#define IDLE_BURST		3
#define IDLE_GAP		(500 * LE_MSEC)

/* An answer with thousands of keys takes long, and some key then always
 * changes: leave this many times as long for other things. */
#define COSTLY			(5 * LE_MSEC)
#define REST			8

/*
 * The requests that follow from the answer go first, and so do those that the
 * next change was made for.  A query that waits at the store is answered with
 * every change, also this node's own, and would keep the store and all
 * watchers busy while a caller waits for the answer to the change itself.  If
 * no candidate waits for another's term, nothing depends on hearing of its end
 * at once.
 */
#define LEAST_REST		(2 * LE_MSEC)
#define LONG_REST		(50 * LE_MSEC)

/* While news are heard, all keys are listed this often. */
#define LIST_PERIOD		(30 * LE_SEC)

/* After news of more facts than their list holds, expect more of the kind. */
#define GAP_REST		(50 * LE_MSEC)

/*
 * The node key of a session that ended this long ago is of no use.  If the
 * node is back with another session, the key tells people nothing either: then
 * it is kept for so many times the TTL of its session.  By then the store has
 * ended that session, and every node has listed keys and nodes anew.
 */
#define NODE_KEY_LIFE	(3600 * LE_SEC)
#define SUPERSEDED_LIFE	5

/* Limit of such keys that are removed after one listing. */
#define TIDY_AT_ONCE	8

typedef struct Watch
{
	uint32		epoch;			/* its session's ... */
	uint32		store;			/* ... and the number of the store */
	bool		in_flight;
	uint64		index;			/* to wait for */
	le_time		next_at;		/* 0: not scheduled */
	int			failures;
	int			idle_answers;	/* in a row, immediate and without news */
	le_time		listed_at;		/* send time of the last good one */
	LeSweep		showing;		/* shows the list to all slots */
	uint64		shown_as_of;	/* index of the list */
	bool		changed;		/* the list has shown something new */
	le_time		shown_at;		/* when all slots had been shown the list; 0:
								 * nothing followed */
	le_duration cost;			/* the showing has taken so far */
	bool		by_news;		/* only lists, as "news" waits */
	bool		wanted;			/* list now, not when it is due */
} Watch;

typedef struct News
{
	bool		in_flight;
	uint64		index;			/* to wait for */
	le_time		next_at;
	le_time		look_at;		/* at all awaited elections, not before */
	int			failures;
} News;

typedef struct Telling
{
	bool		in_flight;
	le_time		next_at;		/* not before */
	int			failures;
} Telling;

typedef struct Listing
{
	bool		in_flight;
	le_time		next_at;
	bool		fresh;			/* ask the leader of the store, not just any
								 * server */
	int			failures;
} Listing;

struct LeWatchAll
{
	Watch		watch;
	News		news;
	Telling		telling;
	Listing		listing;
};

static void show_slot(LeWorker *w, int number);

LeWatchAll *
le_watch_all_new(void)
{
	LeWatchAll *all = MemoryContextAllocZero(TopMemoryContext,
											 sizeof(LeWatchAll));

	all->watch.showing.look = show_slot;
	return all;
}

/* ---- election keys ---- */

/*
 * The election's slot.  A key that our session holds gets a slot if it has
 * none, since this node has to release it.
 */
static LeSlot *
slot_of(LeWorker *w, const LeKey *key)
{
	if (key->holder != NULL && strcmp(key->holder, le_table->session) == 0)
		return le_elect_slot(w, key->election);
	return le_find_slot(key->election);
}

/* A key that our session holds must have a slot before any key is shown. */
static void
add_own_slots(LeWorker *w)
{
	const LeKey *keys;
	int			nkeys = le_cache_keys(w->cache, &keys);

	for (int i = 0; i < nkeys; i++)
		if (keys[i].holder != NULL)
			(void) slot_of(w, &keys[i]);
}

/* Show the slot's election its key in the list. */
static void
show_slot(LeWorker *w, int number)
{
	LeWatchAll *watch_all = w->watch_all;
	LeSlot	   *slot = le_slot(number);
	const LeKey *key = le_cache_key(w->cache, slot->name);
	uint64		index = key == NULL ? 0 : key->index;

	watch_all->watch.changed = watch_all->watch.changed ||
		slot->holder.index != index;
	le_elect_seen(w, slot, key, Max(watch_all->watch.shown_as_of, index));
}

static bool
are_many(LeWorker *w)
{
	const LeKey *keys;

	return le_configured_store()->watch.tells &&
		le_cache_keys(w->cache, &keys) > w->limits->gossip_from;
}

/* The namespace, or the store, may be another by now. */
static bool
is_outdated(LeWorker *w, const LeFlight *flight)
{
	return flight->epoch != le_table->node.epoch ||
		le_flight_is_outdated(w, flight);
}

static void
watch_failed(LeWorker *w)
{
	LeWatchAll *watch_all = w->watch_all;

	watch_all->watch.failures++;
	watch_all->watch.index = 0;
	watch_all->watch.wanted = true;
	le_elect_listed(w);			/* candidacies have to read by themselves */
	watch_all->watch.next_at = le_now() +
		le_retry_delay(&le_table->node.timing,
					   watch_all->watch.failures, le_random());
}

/* All slots have been shown the list: draw the conclusions, and schedule the
 * next query. */
static void
end_show(LeWorker *w)
{
	LeWatchAll *watch_all = w->watch_all;

	le_elect_listed(w);
	watch_all->watch.shown_at = le_now();
	watch_all->watch.next_at = watch_all->watch.shown_at +
		(watch_all->watch.cost > COSTLY ? REST * watch_all->watch.cost : 0);

	/* A key that is absent while others change makes the query return at once,
	 * again and again.  One that news make necessary does not wait at all. */
	if (watch_all->watch.changed || watch_all->watch.by_news)
		watch_all->watch.idle_answers = 0;
	else if (watch_all->watch.shown_at - watch_all->watch.listed_at >=
			 IDLE_GAP)
		watch_all->watch.idle_answers = watch_all->watch.shown_at = 0;
	else if (++watch_all->watch.idle_answers >= IDLE_BURST)
		watch_all->watch.next_at = Max(watch_all->watch.next_at,
									   le_now() + IDLE_GAP);
}

static void
go_on_showing(LeWorker *w)
{
	LeWatchAll *watch_all = w->watch_all;
	le_time		began = le_now();

	le_sweep_go_on(w, &watch_all->watch.showing);
	watch_all->watch.cost += le_now() - began;
	if (!watch_all->watch.showing.under_way)
		end_show(w);
}

static void
watch_answered(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeWatchAll *watch_all = w->watch_all;
	le_time		began = le_now();

	if (is_outdated(w, flight))
		return;
	watch_all->watch.in_flight = false;
	if (answer->outcome != LE_DONE)
	{
		watch_failed(w);
		return;
	}
	watch_all->watch.failures = 0;
	watch_all->watch.index = answer->index;
	watch_all->watch.listed_at = flight->sent;
	le_cache_keep_keys(w->cache, answer, flight->sent);
	if (are_many(w))
		le_gossip_begin(w->gossip, le_table->node.timing.request_timeout +
						LE_SEC);
	add_own_slots(w);
	watch_all->watch.shown_as_of = answer->index;
	watch_all->watch.changed = false;
	watch_all->watch.cost = le_now() - began;
	le_sweep_start(&watch_all->watch.showing);
	go_on_showing(w);
}

/*
 * Even if little changes, a candidate that waits hears of its election twice
 * per lease, and need not read its key.
 */
static int
park_ms(void)
{
	return (int) Min(le_configured_store()->watch.park_ms,
					 le_table->node.timing.lease / LE_MSEC / 2);
}

static void
send_watch(LeWorker *w)
{
	LeWatchAll *watch_all = w->watch_all;
	const LeStore *store = le_configured_store();
	LeFlight   *flight = le_flight_new(LE_OP_WATCH, watch_answered);

	flight->op.watch.index = watch_all->watch.by_news ? 0 :
		watch_all->watch.index;
	flight->op.watch.wait_ms = park_ms();
	watch_all->watch.in_flight = true;
	watch_all->watch.wanted = false;
	watch_all->watch.next_at = 0;
	le_flight_send(w, flight, (store->watch.park_ms +
							   store->watch.park_grace_ms) * LE_MSEC);
}

/* When is the next query to be sent, if none is under way? */
static le_time
next_watch(LeWorker *w)
{
	LeWatchAll *watch_all = w->watch_all;
	le_duration rest;

	/* Long after any rest: no search for waiting candidates in each turn. */
	if (watch_all->watch.by_news && !watch_all->watch.wanted)
		return Max(watch_all->watch.next_at,
				   watch_all->watch.listed_at + LIST_PERIOD);
	rest = le_elect_any_waiting(w) ? LEAST_REST : LONG_REST;
	return Max(watch_all->watch.next_at, watch_all->watch.shown_at + rest);
}

/* ---- news ---- */

/* Show the election its key as now known, if that is new to its slot. */
static void
show_told(LeWorker *w, const char *election)
{
	const LeKey *key = le_cache_key(w->cache, election);
	LeSlot	   *slot = key == NULL ? NULL : slot_of(w, key);

	if (slot != NULL && slot->holder.index < key->index)
		le_elect_seen(w, slot, key, key->index);
}

/* One node's news: adds the names of elections of which more is known. */
static List *
hear_one(LeWorker *w, const LeGossip *from, List *changed)
{
	LeWatchAll *watch_all = w->watch_all;
	int			what = le_gossip_hear(w->gossip, from);

	if (what & (LE_HEARD_GAP | LE_HEARD_END))
		watch_all->watch.wanted = true;
	if (what & LE_HEARD_GAP)
		watch_all->news.next_at = le_now() + GAP_REST;
	if (what & LE_HEARD_END)
		le_wish_nodes(w->wishes, LE_SOON);
	for (int i = 0; (what & LE_HEARD_ITEMS) && i < from->nitems; i++)
	{
		char	   *name = unconstify(char *, from->items[i].election);

		if (le_cache_hear(w->cache, from, &from->items[i]))
			changed = lappend(changed, name);
	}
	return changed;
}

/* Note all news first: one node may tell of a release, and another that it has
 * the election. */
static void
hear(LeWorker *w, const LeAnswer *answer)
{
	List	   *changed = NIL;
	ListCell   *cell;

	for (int i = 0; i < answer->nnews; i++)
		changed = hear_one(w, &answer->news[i], changed);
	if (le_gossip_heard(w->gossip, answer))
	{
		w->watch_all->watch.wanted = true;
		le_wish_nodes(w->wishes, LE_SOON);
	}
	foreach(cell, changed)
		show_told(w, lfirst(cell));
}

static void
news_failed(LeWorker *w)
{
	LeWatchAll *watch_all = w->watch_all;

	watch_all->news.failures++;
	watch_all->news.index = 0;
	le_gossip_forget(w->gossip);
	watch_all->watch.wanted = true;
	watch_all->news.next_at = le_now() +
		le_retry_delay(&le_table->node.timing, watch_all->news.failures,
					   le_random());
}

/* Nothing was missed: candidates that wait need not read their keys. */
static void
look_around(LeWorker *w)
{
	LeWatchAll *watch_all = w->watch_all;

	le_cache_heard(w->cache);
	if (le_now() < watch_all->news.look_at)
		return;
	watch_all->news.look_at = le_now() + park_ms() * LE_MSEC / 2;
	le_elect_look(w);
}

/* Before the first answer any news may have been told. */
static void
news_answered(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeWatchAll *watch_all = w->watch_all;

	if (is_outdated(w, flight))
		return;
	watch_all->news.in_flight = false;
	if (answer->outcome != LE_DONE)
	{
		news_failed(w);
		return;
	}
	watch_all->news.failures = 0;
	watch_all->news.index = answer->index;
	watch_all->news.next_at = le_now() + LEAST_REST;
	if (flight->op.watch.index == 0)
		watch_all->watch.wanted = true;
	hear(w, answer);
	if (!watch_all->watch.wanted && !watch_all->watch.in_flight &&
		!watch_all->watch.showing.under_way)
		look_around(w);
	if (answer->nnews == 0)		/* then any write answers the query */
		watch_all->news.next_at = le_now() + IDLE_GAP;
}

static void
send_news_watch(LeWorker *w)
{
	LeWatchAll *watch_all = w->watch_all;
	const LeStore *store = le_configured_store();
	LeFlight   *flight = le_flight_new(LE_OP_WATCH_NEWS, news_answered);

	flight->op.watch.index = watch_all->news.index;
	flight->op.watch.wait_ms = park_ms();
	watch_all->news.in_flight = true;
	le_flight_send(w, flight, (store->watch.park_ms +
							   store->watch.park_grace_ms) * LE_MSEC);
}

/* Choose between watching the keys and hearing the news. */
static void
choose(LeWorker *w)
{
	LeWatchAll *watch_all = w->watch_all;
	bool		by_news = are_many(w) && le_cache_all_tell();

	if (by_news == watch_all->watch.by_news)
		return;
	watch_all->watch.by_news = by_news;
	if (!by_news || watch_all->news.in_flight)
		return;
	watch_all->news.index = 0;
	watch_all->news.next_at = le_now();
	le_gossip_forget(w->gossip);
}

static void
news_told(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeWatchAll *watch_all = w->watch_all;

	watch_all->telling.in_flight = false;
	if (answer->outcome == LE_DONE)
	{
		watch_all->telling.failures = 0;
		if (!le_cache_all_tell())
			le_wish_nodes(w->wishes, LE_SOON);
		return;
	}
	watch_all->telling.failures++;
	watch_all->telling.next_at = le_now() +
		le_retry_delay(&le_table->node.timing, watch_all->telling.failures,
					   le_random());
}

static bool
may_tell(LeWorker *w)
{
	return le_configured_store()->watch.tells && le_session_live() &&
		!w->watch_all->telling.in_flight;
}

/* Tell the others news that went with no write. */
static void
tell_news(LeWorker *w)
{
	LeWatchAll *watch_all = w->watch_all;
	LeFlight   *flight;

	if (!may_tell(w) || le_now() < watch_all->telling.next_at ||
		!le_gossip_untold(w->gossip))
		return;
	watch_all->telling.in_flight = true;
	watch_all->telling.next_at = 0;
	flight = le_flight_new(LE_OP_TELL_NEWS, news_told);
	flight->keeps_waiting = true;	/* its news are found when it goes */
	le_flight_send(w, flight, le_table->node.timing.request_timeout);
}

/* ---- node keys ---- */

static void
node_forgotten(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
}

/* Does the node live, with another session? */
static bool
is_superseded(const LeNodeInfo *info)
{
	for (int i = 0; i < le_table->nnodes; i++)
	{
		const LeNodeInfo *other = &le_table->nodes[i];

		if (other->held && !other->revoked && other->index > info->index &&
			strcmp(other->node, info->node) == 0)
			return true;
	}
	return false;
}

/*
 * Has the session been over for long, and is it in no key that a node may have
 * to wait for?  Keys that were not seen for so long may have changed.
 */
static bool
is_leftover(LeWorker *w, const LeNodeInfo *info)
{
	const LeStore *store = le_configured_store();
	le_duration ttl = le_session_ttl(info->lease, store->lease.least_session);
	le_duration life = is_superseded(info) ? SUPERSEDED_LIFE * ttl :
		NODE_KEY_LIFE;

	return !info->held && le_now() - info->first_seen >= life &&
		le_cache_as_of(w->cache) != 0 &&
		le_now() - le_cache_as_of(w->cache) < LE_MAX_LEASE &&
		!le_cache_to_be_named(w->cache, info->session);
}

/* Remove node keys of sessions that ended long ago. */
static void
tidy(LeWorker *w)
{
	int			n = 0;

	for (int i = 0; i < le_table->nnodes && n < TIDY_AT_ONCE; i++)
	{
		LeFlight   *flight;

		if (!is_leftover(w, &le_table->nodes[i]))
			continue;
		flight = le_flight_new(LE_OP_FORGET_NODE, node_forgotten);
		flight->op.session =
			le_flight_string(flight, le_table->nodes[i].session);
		le_flight_send(w, flight, le_table->node.timing.request_timeout);
		n++;
	}
}

/*
 * Once per lease; four times as often while a candidacy waits for a holder,
 * since the wait is counted from the receipt of the holder's last sign of
 * life, or for one of what may be this instance's original.
 */
static le_time
next_listing(LeWorker *w)
{
	le_duration gap = le_table->node.timing.lease;

	if (le_elect_waits_for_holder(w) || le_clones_unclear())
		gap /= 4;
	return le_now() + gap - le_jitter(gap / 10, le_random());
}

static void
nodes_answered(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LeWatchAll *watch_all = w->watch_all;

	watch_all->listing.in_flight = false;
	if (answer->outcome != LE_DONE)
	{
		watch_all->listing.fresh = watch_all->listing.fresh ||
			flight->op.fresh;
		watch_all->listing.failures++;
		watch_all->listing.next_at = le_now() +
			le_retry_delay(&le_table->node.timing, watch_all->listing.failures,
						   le_random());
		return;
	}
	watch_all->listing.failures = 0;
	/* If a fresh list is wanted, that wish came after this request. */
	watch_all->listing.next_at = watch_all->listing.fresh ?
		le_now() + LE_SOON : next_listing(w);
	le_cache_keep_nodes(w->cache, answer);
	if (le_clones_judge(w))
		le_elect_refresh(w);
	tidy(w);
	le_elect_recheck_waiting(w);
}

static void
send_listing(LeWorker *w)
{
	LeWatchAll *watch_all = w->watch_all;
	LeFlight   *flight = le_flight_new(LE_OP_LIST_NODES, nodes_answered);

	flight->op.fresh = watch_all->listing.fresh;
	watch_all->listing.fresh = false;
	watch_all->listing.in_flight = true;
	watch_all->listing.next_at = 0;
	le_flight_send(w, flight, le_table->node.timing.request_timeout);
}

/* An earlier listing is wished for; one under way will do, unless it has to be
 * fresh. */
static void
hear_wish(LeWorker *w)
{
	LeWatchAll *watch_all = w->watch_all;
	bool		fresh;
	le_time		by = le_take_nodes_wish(w->wishes, &fresh);

	watch_all->listing.fresh = watch_all->listing.fresh || fresh;
	if (by != 0 && !watch_all->listing.in_flight &&
		(watch_all->listing.next_at == 0 || watch_all->listing.next_at > by))
		watch_all->listing.next_at = by;
}

/* ---- timers ---- */

static bool
is_watch_needed(LeWorker *w)
{
	return le_configured_store()->watch.kind == LE_WATCH_ALL &&
		le_session_live() && le_elect_need_watch(w);
}

/* A session that has just become live has a namespace of its own to watch, and
 * another store has a history of its own. */
static void
start_anew(LeWorker *w)
{
	LeWatchAll *watch_all = w->watch_all;

	watch_all->watch.epoch = le_table->node.epoch;
	watch_all->watch.store = w->stores;
	watch_all->watch.in_flight = watch_all->news.in_flight = false;
	watch_all->watch.index = watch_all->news.index = 0;
	watch_all->watch.by_news = watch_all->watch.wanted =
		watch_all->watch.showing.under_way = false;
	watch_all->watch.shown_at = 0;
	watch_all->watch.next_at = watch_all->listing.next_at = le_now();
	le_gossip_forget(w->gossip);
}

void
le_watch_all_run_timers(LeWorker *w)
{
	LeWatchAll *watch_all = w->watch_all;
	le_time		now = le_now();

	hear_wish(w);
	tell_news(w);
	if (!is_watch_needed(w))
		return;
	if (watch_all->watch.epoch != le_table->node.epoch ||
		watch_all->watch.store != w->stores)
		start_anew(w);
	choose(w);
	if (watch_all->watch.showing.under_way)
		go_on_showing(w);
	else if (!watch_all->watch.in_flight && now >= next_watch(w))
		send_watch(w);
	if (watch_all->watch.by_news && !watch_all->news.in_flight &&
		now >= watch_all->news.next_at)
		send_news_watch(w);
	if (!watch_all->listing.in_flight && now >= watch_all->listing.next_at)
		send_listing(w);
}

le_time
le_watch_all_timer(LeWorker *w)
{
	LeWatchAll *watch_all = w->watch_all;
	le_time		next = 0;

	if (may_tell(w) && le_gossip_timer(w->gossip) != 0)
		next = Max(le_gossip_timer(w->gossip), watch_all->telling.next_at);
	if (!is_watch_needed(w))
		return next;
	if (watch_all->watch.showing.under_way)
		next = le_now();
	else if (!watch_all->watch.in_flight)
		next = le_earliest(next, next_watch(w));
	if (watch_all->watch.by_news && !watch_all->news.in_flight)
		next = le_earliest(next, watch_all->news.next_at);
	if (!watch_all->listing.in_flight)
		next = le_earliest(next, watch_all->listing.next_at);
	return next;
}
