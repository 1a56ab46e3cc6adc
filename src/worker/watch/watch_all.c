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


#include "settings.h"
#include "worker/lead/elect.h"
#include "worker/lead/elect_all.h"
#include "worker/lead/elect_timers.h"
#include "worker/view/cache.h"
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

/*
 * With more keys than that, news are heard instead, and all keys are listed
 * this often.  An answer that shows so many has 40 kB, and takes half a
 * millisecond to process, as long as a whole request of ours.
 */
int			le_gossip_from = 100;

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

static void show_slot(int number);

static struct
{
	uint32		epoch;			/* its session's */
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
} watch = {.showing = {.look = show_slot}};

static struct
{
	bool		in_flight;
	uint64		index;			/* to wait for */
	le_time		next_at;
	le_time		look_at;		/* at all awaited elections, not before */
	int			failures;
} news;

static struct
{
	bool		in_flight;
	le_time		next_at;		/* not before */
	int			failures;
} telling;

static struct
{
	bool		in_flight;
	le_time		next_at;
	bool		fresh;			/* ask the leader of the store, not just any
								 * server */
	int			failures;
} listing;

/* ---- election keys ---- */

/*
 * The election's slot.  A key that our session holds gets a slot if it has
 * none, since this node has to release it.
 */
static LeSlot *
slot_of(const LeKey *key)
{
	if (key->holder != NULL && strcmp(key->holder, le_table->session) == 0)
		return le_elect_slot(key->election);
	return le_find_slot(key->election);
}

/* A key that our session holds must have a slot before any key is shown. */
static void
add_own_slots(void)
{
	const LeKey *keys;
	int			nkeys = le_cache_keys(&keys);

	for (int i = 0; i < nkeys; i++)
		if (keys[i].holder != NULL)
			(void) slot_of(&keys[i]);
}

/* Show the slot's election its key in the list. */
static void
show_slot(int number)
{
	LeSlot	   *slot = le_slot(number);
	const LeKey *key = le_cache_key(slot->name);
	uint64		index = key == NULL ? 0 : key->index;

	watch.changed = watch.changed || slot->holder_index != index;
	le_elect_seen(slot, key, Max(watch.shown_as_of, index));
}

static bool
are_many(void)
{
	const LeKey *keys;

	return le_configured_store()->tells &&
		le_cache_keys(&keys) > le_gossip_from;
}

static void
watch_failed(void)
{
	watch.failures++;
	watch.index = 0;
	watch.wanted = true;
	le_elect_listed();			/* candidacies have to read by themselves */
	watch.next_at = le_now() + le_retry_delay(&le_table->node.timing,
											  watch.failures, le_random());
}

/* All slots have been shown the list: draw the conclusions, and schedule the
 * next query. */
static void
end_show(void)
{
	le_elect_listed();
	watch.shown_at = le_now();
	watch.next_at = watch.shown_at +
		(watch.cost > COSTLY ? REST * watch.cost : 0);

	/* A key that is absent while others change makes the query return at once,
	 * again and again. */
	if (watch.changed)
		watch.idle_answers = 0;
	else if (watch.shown_at - watch.listed_at >= IDLE_GAP)
		watch.idle_answers = watch.shown_at = 0;	/* nothing followed */
	else if (++watch.idle_answers >= IDLE_BURST)
		watch.next_at = Max(watch.next_at, le_now() + IDLE_GAP);
}

static void
go_on_showing(void)
{
	le_time		began = le_now();

	le_sweep_go_on(&watch.showing);
	watch.cost += le_now() - began;
	if (!watch.showing.under_way)
		end_show();
}

static void
watch_answered(LeFlight *flight, const LeAnswer *answer)
{
	le_time		began = le_now();

	if (flight->epoch != le_table->node.epoch)
		return;					/* the keys may be at another place by now */
	watch.in_flight = false;
	if (answer->outcome != LE_DONE)
	{
		watch_failed();
		return;
	}
	watch.failures = 0;
	watch.index = answer->index;
	watch.listed_at = flight->sent;
	le_cache_keep_keys(answer, flight->sent);
	if (are_many())
		le_gossip_begin(le_table->node.timing.request_timeout + LE_SEC);
	add_own_slots();
	watch.shown_as_of = answer->index;
	watch.changed = false;
	watch.cost = le_now() - began;
	le_sweep_start(&watch.showing);
	go_on_showing();
}

/*
 * Even if little changes, a candidate that waits hears of its election twice
 * per lease, and need not read its key.
 */
static int
park_ms(void)
{
	return (int) Min(le_configured_store()->park_ms,
					 le_table->node.timing.lease / LE_MSEC / 2);
}

static void
send_watch(void)
{
	const LeStore *store = le_configured_store();
	LeFlight   *flight = le_flight_new(LE_OP_WATCH, watch_answered);

	flight->op.watch_index = watch.by_news ? 0 : watch.index;
	flight->op.wait_ms = park_ms();
	watch.in_flight = true;
	watch.wanted = false;
	watch.next_at = 0;
	le_flight_send(flight, (store->park_ms + store->park_grace_ms) * LE_MSEC);
}

/* When is the next query to be sent, if none is under way? */
static le_time
next_watch(void)
{
	le_duration rest;

	/* Long after any rest: no search for waiting candidates in each turn. */
	if (watch.by_news && !watch.wanted)
		return Max(watch.next_at, watch.listed_at + LIST_PERIOD);
	rest = le_elect_any_waiting() ? LEAST_REST : LONG_REST;
	return Max(watch.next_at, watch.shown_at + rest);
}

/* ---- news ---- */

/* Show the election its key as now known, if that is new to its slot. */
static void
show_told(const char *election)
{
	const LeKey *key = le_cache_key(election);
	LeSlot	   *slot = key == NULL ? NULL : slot_of(key);

	if (slot != NULL && slot->holder_index < key->index)
		le_elect_seen(slot, key, key->index);
}

/* One node's news: adds the names of elections of which more is known. */
static List *
hear_one(const LeGossip *from, List *changed)
{
	int			what = le_gossip_hear(from);

	if (what & (LE_HEARD_GAP | LE_HEARD_END))
		watch.wanted = true;
	if (what & LE_HEARD_GAP)
		news.next_at = le_now() + GAP_REST;
	if (what & LE_HEARD_END)
		le_wish_nodes(LE_SOON);
	for (int i = 0; (what & LE_HEARD_ITEMS) && i < from->nitems; i++)
	{
		char	   *name = unconstify(char *, from->items[i].election);

		if (le_cache_hear(from, &from->items[i]))
			changed = lappend(changed, name);
	}
	return changed;
}

/* Note all news first: one node may tell of a release, and another that it has
 * the election. */
static void
hear(const LeAnswer *answer)
{
	List	   *changed = NIL;
	ListCell   *cell;

	for (int i = 0; i < answer->nnews; i++)
		changed = hear_one(&answer->news[i], changed);
	if (le_gossip_heard(answer))
	{
		watch.wanted = true;
		le_wish_nodes(LE_SOON);
	}
	foreach(cell, changed)
		show_told(lfirst(cell));
}

static void
news_failed(void)
{
	news.failures++;
	news.index = 0;
	le_gossip_forget();
	watch.wanted = true;
	news.next_at = le_now() + le_retry_delay(&le_table->node.timing,
											 news.failures, le_random());
}

/* Nothing was missed: candidates that wait need not read their keys. */
static void
look_around(void)
{
	le_cache_heard();
	if (le_now() < news.look_at)
		return;
	news.look_at = le_now() + park_ms() * LE_MSEC / 2;
	le_elect_look();
}

/* Before the first answer any news may have been told. */
static void
news_answered(LeFlight *flight, const LeAnswer *answer)
{
	if (flight->epoch != le_table->node.epoch)
		return;
	news.in_flight = false;
	if (answer->outcome != LE_DONE)
	{
		news_failed();
		return;
	}
	news.failures = 0;
	news.index = answer->index;
	news.next_at = le_now() + LEAST_REST;
	if (flight->op.watch_index == 0)
		watch.wanted = true;
	hear(answer);
	if (!watch.wanted && !watch.in_flight && !watch.showing.under_way)
		look_around();
	if (answer->nnews == 0)		/* then any write answers the query */
		news.next_at = le_now() + IDLE_GAP;
}

static void
send_news_watch(void)
{
	const LeStore *store = le_configured_store();
	LeFlight   *flight = le_flight_new(LE_OP_WATCH_NEWS, news_answered);

	flight->op.watch_index = news.index;
	flight->op.wait_ms = park_ms();
	news.in_flight = true;
	le_flight_send(flight, (store->park_ms + store->park_grace_ms) * LE_MSEC);
}

/* Choose between watching the keys and hearing the news. */
static void
choose(void)
{
	bool		by_news = are_many() && le_cache_all_tell();

	if (by_news == watch.by_news)
		return;
	watch.by_news = by_news;
	if (!by_news || news.in_flight)
		return;
	news.index = 0;
	news.next_at = le_now();
	le_gossip_forget();
}

static void
news_told(LeFlight *flight, const LeAnswer *answer)
{
	telling.in_flight = false;
	if (answer->outcome == LE_DONE)
	{
		telling.failures = 0;
		if (!le_cache_all_tell())
			le_wish_nodes(LE_SOON);
		return;
	}
	telling.failures++;
	telling.next_at = le_now() +
		le_retry_delay(&le_table->node.timing, telling.failures, le_random());
}

static bool
may_tell(void)
{
	return le_configured_store()->tells && le_session_live() &&
		!telling.in_flight;
}

/* Tell the others news that went with no write. */
static void
tell(void)
{
	LeFlight   *flight;

	if (!may_tell() || le_now() < telling.next_at || !le_gossip_untold())
		return;
	telling.in_flight = true;
	telling.next_at = 0;
	flight = le_flight_new(LE_OP_TELL_NEWS, news_told);
	flight->keeps_waiting = true;	/* its news are found when it goes */
	le_flight_send(flight, le_table->node.timing.request_timeout);
}

/* ---- node keys ---- */

static void
node_forgotten(LeFlight *flight, const LeAnswer *answer)
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
is_leftover(const LeNodeInfo *info)
{
	le_duration ttl = le_session_ttl(info->lease,
									 le_configured_store()->least_session);
	le_duration life = is_superseded(info) ? SUPERSEDED_LIFE * ttl :
		NODE_KEY_LIFE;

	return !info->held && le_now() - info->first_seen >= life &&
		le_cache_as_of() != 0 &&
		le_now() - le_cache_as_of() < LE_MAX_LEASE &&
		!le_cache_to_be_named(info->session);
}

/* Remove node keys of sessions that ended long ago. */
static void
tidy(void)
{
	int			n = 0;

	for (int i = 0; i < le_table->nnodes && n < TIDY_AT_ONCE; i++)
	{
		LeFlight   *flight;

		if (!is_leftover(&le_table->nodes[i]))
			continue;
		flight = le_flight_new(LE_OP_FORGET_NODE, node_forgotten);
		flight->op.session =
			le_flight_string(flight, le_table->nodes[i].session);
		le_flight_send(flight, le_table->node.timing.request_timeout);
		n++;
	}
}

/*
 * Once per lease; four times as often while a candidacy waits for a holder,
 * since the wait is counted from the receipt of the holder's last sign of
 * life.
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
		listing.fresh = listing.fresh || flight->op.fresh;
		listing.failures++;
		listing.next_at = le_now() +
			le_retry_delay(&le_table->node.timing, listing.failures,
						   le_random());
		return;
	}
	listing.failures = 0;
	/* If a fresh list is wanted, that wish came after this request. */
	listing.next_at = listing.fresh ? le_now() + LE_SOON : next_listing();
	le_cache_keep_nodes(answer);
	tidy();
	le_elect_recheck_waiting();
}

static void
send_listing(void)
{
	LeFlight   *flight = le_flight_new(LE_OP_LIST_NODES, nodes_answered);

	flight->op.fresh = listing.fresh;
	listing.fresh = false;
	listing.in_flight = true;
	listing.next_at = 0;
	le_flight_send(flight, le_table->node.timing.request_timeout);
}

/* An earlier listing is wished for; one under way will do, unless it has to be
 * fresh. */
static void
hear_wish(void)
{
	bool		fresh;
	le_time		by = le_take_nodes_wish(&fresh);

	listing.fresh = listing.fresh || fresh;
	if (by != 0 && !listing.in_flight &&
		(listing.next_at == 0 || listing.next_at > by))
		listing.next_at = by;
}

/* ---- timers ---- */

static bool
needed(void)
{
	return le_configured_store()->watching == LE_WATCH_ALL &&
		le_session_live() && le_elect_need_watch();
}

/* A session that has just become live has a place of its own to watch. */
static void
start_anew(void)
{
	watch.epoch = le_table->node.epoch;
	watch.in_flight = news.in_flight = false;
	watch.index = news.index = 0;
	watch.by_news = watch.wanted = watch.showing.under_way = false;
	watch.shown_at = 0;
	watch.next_at = listing.next_at = le_now();
	le_gossip_forget();
}

void
le_watch_all_run_timers(void)
{
	le_time		now = le_now();

	hear_wish();
	tell();
	if (!needed())
		return;
	if (watch.epoch != le_table->node.epoch)
		start_anew();
	choose();
	if (watch.showing.under_way)
		go_on_showing();
	else if (!watch.in_flight && now >= next_watch())
		send_watch();
	if (watch.by_news && !news.in_flight && now >= news.next_at)
		send_news_watch();
	if (!listing.in_flight && now >= listing.next_at)
		send_listing();
}

le_time
le_watch_all_timer(void)
{
	le_time		next = 0;

	if (may_tell() && le_gossip_timer() != 0)
		next = Max(le_gossip_timer(), telling.next_at);
	if (!needed())
		return next;
	if (watch.showing.under_way)
		next = le_now();
	else if (!watch.in_flight)
		next = le_earliest(next, next_watch());
	if (watch.by_news && !news.in_flight)
		next = le_earliest(next, news.next_at);
	if (!listing.in_flight)
		next = le_earliest(next, listing.next_at);
	return next;
}
