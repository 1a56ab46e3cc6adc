/*-------------------------------------------------------------------------
 *
 * cache.c
 *		The keys and nodes that the store was last seen to hold.
 *
 * watch_all.c asks for them; its answers are kept here, for judging a key or
 * answering a question.  None of it is a proof: it may be old.
 *
 * src/worker/view/cache.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "settings.h"
#include "shmem/clock.h"
#include "worker/view/cache.h"

struct LeCache
{
	struct
	{
		MemoryContext context;	/* holds the keys */
		LeKey	   *keys;		/* sorted by name */
		int			nkeys;
		int			capacity;
		uint64		index;		/* the answer's */
		le_time		as_of;		/* when the query behind them was sent; 0:
								 * nothing is known */
		le_time		heard_at;	/* when they came */
	}			known;
	bool		marking;		/* a node key is being marked; see
								 * le_cache_marking() */
	char		warned[LE_INCARNATION_LEN + 1]; /* the incarnation of the
												 * namesake that was last
												 * warned of */
};

LeCache *
le_cache_new(void)
{
	return MemoryContextAllocZero(TopMemoryContext, sizeof(LeCache));
}

/* ---- election keys ---- */

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const LeKey *) a)->election,
				  ((const LeKey *) b)->election);
}

/* The index of the key among those known, or where it would be. */
static int
index_of(LeCache *cache, const char *election, bool *there)
{
	int			low = 0;
	int			high = cache->known.nkeys;

	*there = false;
	while (low < high)
	{
		int			middle = (low + high) / 2;
		int			order = strcmp(cache->known.keys[middle].election,
								   election);

		if (order == 0)
		{
			*there = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Keep a key, unless something newer is known of it. */
static bool
keep_key(LeCache *cache, const LeKey *key)
{
	bool		there;
	int			index = index_of(cache, key->election, &there);
	MemoryContext old;

	if (there ? key->index <= cache->known.keys[index].index :
		key->index <= cache->known.index)
		return false;
	old = MemoryContextSwitchTo(cache->known.context);
	if (!there && cache->known.nkeys == cache->known.capacity)
	{
		cache->known.capacity = 2 * cache->known.capacity;
		cache->known.keys = repalloc(cache->known.keys,
									 cache->known.capacity * sizeof(LeKey));
	}
	if (!there)
	{
		memmove(cache->known.keys + index + 1, cache->known.keys + index,
				(cache->known.nkeys - index) * sizeof(LeKey));
		cache->known.nkeys++;
	}
	le_copy_key(&cache->known.keys[index], key);
	MemoryContextSwitchTo(old);
	return true;
}

/*
 * Keep the keys for answers of limited age.  Keys that news have told since
 * stay: the answer may have been on its way for long.
 */
void
le_cache_keep_keys(LeCache *cache, const LeAnswer *answer, le_time sent)
{
	MemoryContext old;
	MemoryContext before = cache->known.context;
	const LeKey *keys = cache->known.keys;
	int			nkeys = cache->known.nkeys;

	cache->known.context = AllocSetContextCreate(TopMemoryContext,
												 "leader_election keys",
												 ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cache->known.context);
	cache->known.as_of = sent;
	cache->known.heard_at = le_now();
	cache->known.index = answer->index;
	cache->known.nkeys = answer->nkeys;
	cache->known.capacity = answer->nkeys + 16;
	cache->known.keys = palloc(cache->known.capacity * sizeof(LeKey));
	for (int i = 0; i < answer->nkeys; i++)
		le_copy_key(&cache->known.keys[i], &answer->keys[i]);
	qsort(cache->known.keys, cache->known.nkeys, sizeof(LeKey), by_name);
	MemoryContextSwitchTo(old);
	for (int i = 0; i < nkeys; i++)
		if (keys[i].told)
			(void) keep_key(cache, &keys[i]);
	if (before != NULL)
		MemoryContextDelete(before);
}

/*
 * A node tells of a write.  False if nothing follows: something newer is
 * known, or there is no list yet to add it to.
 */
bool
le_cache_hear(LeCache *cache, const LeGossip *news, const LeGossipItem *item)
{
	LeKey		key = {0};

	if (cache->known.as_of == 0 || item->index == 0)
		return false;
	key.election = item->election;
	key.holder = item->kind == LE_OP_RELEASE ? NULL : news->session;
	key.index = item->index;
	key.usable = key.ours = key.told = true;
	key.node = news->node;
	key.value_session = news->session;
	if (item->kind != LE_OP_RELEASE)
		key.token = item->kind == LE_OP_PUBLISH ? item->token : item->index;
	key.released = item->kind == LE_OP_RELEASE;
	return keep_key(cache, &key);
}

/* All news have been heard: the keys are as good as a new list, but for the
 * writes of those that tell nothing. */
void
le_cache_heard(LeCache *cache)
{
	if (cache->known.as_of != 0)
		cache->known.heard_at = le_now();
}

/*
 * The store is another one, the keys are in another namespace, or the store
 * has gone back in time and people have accepted that.  Earlier views say
 * nothing of it, and would only be newer by numbers that another history has
 * given: so they are forgotten, and answers to earlier reads show nothing.
 */
void
le_cache_begin_anew(LeWorker *w)
{
	LeCache    *cache = w->cache;

	w->stores++;
	cache->known.nkeys = 0;
	cache->known.index = 0;
	cache->known.as_of = cache->known.heard_at = 0;
	le_set_nodes(le_table->nodes, 0);
}

/* The number of keys; valid until the next are kept. */
int
le_cache_keys(LeCache *cache, const LeKey **keys)
{
	*keys = cache->known.keys;
	return cache->known.nkeys;
}

/* NULL: there was no such key. */
const LeKey *
le_cache_key(LeCache *cache, const char *election)
{
	LeKey		sought = {.election = unconstify(char *, election)};

	if (cache->known.nkeys == 0)
		return NULL;
	return bsearch(&sought, cache->known.keys, cache->known.nkeys,
				   sizeof(LeKey), by_name);
}

le_time
le_cache_as_of(LeCache *cache)
{
	return cache->known.as_of;
}

/*
 * Have the keys come within this time?  The index is that of the answer.  A
 * decision on a key names its index, so the store refuses it if the key has
 * changed since.
 */
bool
le_cache_lately(LeCache *cache, le_duration within, uint64 *index)
{
	*index = cache->known.index;
	return cache->known.heard_at != 0 &&
		le_now() - cache->known.heard_at < within;
}

/* Does a free key still name the session, so that a node may have to know
 * about it? */
bool
le_cache_to_be_named(LeCache *cache, const char *session)
{
	for (int i = 0; i < cache->known.nkeys; i++)
		if (cache->known.keys[i].value_session != NULL &&
			!cache->known.keys[i].released &&
			strcmp(cache->known.keys[i].value_session, session) == 0)
			return true;
	return false;
}

/* ---- node keys ---- */

const LeNodeInfo *
le_cache_node(const char *session)
{
	for (int i = 0; i < le_table->nnodes; i++)
		if (strcmp(le_table->nodes[i].session, session) == 0)
			return &le_table->nodes[i];
	return NULL;
}

/*
 * When will the node have been silent for its whole lease?  Counted from the
 * receipt of its last sign of life, or from the refusal of a takeover: that
 * tells of one that was not shown here yet.
 */
le_time
le_cache_silent_at(LeCache *cache, const LeNodeInfo *info)
{
	le_time		at = Max(info->first_seen, info->doubted) + info->lease;

	if (cache->marking)
		at = Max(at, le_now() + le_table->node.timing.request_timeout);
	return at;
}

/*
 * Has the node lived since it was first shown here?  After a crash its key may
 * still change: late copies of its last proofs are applied, each once, and in
 * any order, or the first answer with it was stale.  So one new proof does not
 * tell; a row of them does, if it is as long as the lease.
 */
bool
le_cache_lives(const LeNodeInfo *info)
{
	return info->lives_since != 0 &&
		info->proved - info->lives_since >= info->lease;
}

/*
 * The first term that is taken from a silent node marks its node key, on whose
 * index all other takeovers depend: sent together with it, they would be
 * refused.  So no node counts as silent until that is answered, and then a
 * fresh list shows the node.
 */
void
le_cache_marking(LeCache *cache, bool under_way)
{
	cache->marking = under_way;
}

/* Two live instances under one name: their incarnations tell them apart, but
 * people cannot. */
static void
warn_of_namesake(LeCache *cache, const LeNodeInfo *info)
{
	if (!le_cache_lives(info) || !info->held || info->self || info->revoked ||
		strcmp(info->node, le_my_name()) != 0 ||
		strcmp(info->incarnation, cache->warned) == 0)
		return;
	strlcpy(cache->warned, info->incarnation, sizeof(cache->warned));
	ereport(WARNING,
			(errmsg("another live node calls itself \"%s\"", info->node),
			 errdetail("Its store session is %s.", info->session),
			 errhint("Set \"leader_election.node_name\" to a different name on each instance.")));
}

/*
 * A new proof of the node; those that come in a row are counted from the first
 * one on.  Nodes are listed once a lease, so that a row may seem to have a
 * pause as long as that.
 */
static void
note_proof(LeNodeInfo *info)
{
	le_time		now = le_now();

	if (info->lives_since == 0 ||
		now - info->proved >= info->lease + le_table->node.timing.lease)
		info->lives_since = now;
	info->proved = now;
}

static void
fill_node(LeCache *cache, LeNodeInfo *info, const LeNodeKey *key)
{
	const LeNodeInfo *before = le_cache_node(key->session);

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
	info->tells = key->tells;
	if (key->unfit != NULL)
		strlcpy(info->unfit, key->unfit, sizeof(info->unfit));
	info->systems = key->systems;
	info->since = key->since;
	info->self = strcmp(key->incarnation, le_table->incarnation) == 0;
	info->doubted = before != NULL ? before->doubted : 0;
	info->told = before != NULL && before->told;
	info->lives_since = before != NULL ? before->lives_since : 0;
	info->proved = before != NULL ? before->proved : 0;
	if (before != NULL && (before->index == key->index || key->revoked))
	{
		info->first_seen = before->first_seen;
		info->first_seen_wall = before->first_seen_wall;
	}
	else
	{
		info->first_seen = le_now();
		info->first_seen_wall = GetCurrentTimestamp();
	}
	if (before != NULL && key->seq > before->seq)
		note_proof(info);
	warn_of_namesake(cache, info);
}

static int
by_session(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* The sessions that hold, or left, an election of this node; sorted. */
static const char **
sessions_waited_for(int *n)
{
	const char **sessions = palloc(Max(le_table->nused, 1) * sizeof(char *));

	*n = 0;
	for (int i = 0; i < le_table->nused; i++)
		if (le_slot(i)->holder.session[0] != '\0')
			sessions[(*n)++] = le_slot(i)->holder.session;
	qsort(sessions, *n, sizeof(char *), by_session);
	return sessions;
}

/*
 * If there are more nodes than the table shows, those come first that this
 * node's candidacies may have to wait for: how long depends on their keys.
 */
static LeNodeKey *
chosen_nodes(const LeAnswer *answer)
{
	int			nwanted;
	const char **wanted = sessions_waited_for(&nwanted);
	LeNodeKey  *chosen = palloc(answer->nnodes * sizeof(LeNodeKey));
	int			first = 0;
	int			last = answer->nnodes;

	for (int i = 0; i < answer->nnodes; i++)
	{
		const LeNodeKey *key = &answer->nodes[i];

		if (bsearch(&key->session, wanted, nwanted, sizeof(char *),
					by_session) != NULL)
			chosen[first++] = *key;
		else
			chosen[--last] = *key;
	}
	pfree(wanted);
	return chosen;
}

void
le_cache_keep_nodes(LeCache *cache, const LeAnswer *answer)
{
	int			n = Min(answer->nnodes, LE_MAX_NODES);
	const LeNodeKey *nodes = answer->nnodes > LE_MAX_NODES ?
		chosen_nodes(answer) : answer->nodes;
	LeNodeInfo *fresh = palloc(Max(n, 1) * sizeof(LeNodeInfo));

	for (int i = 0; i < n; i++)
		fill_node(cache, &fresh[i], &nodes[i]);

	le_set_nodes(fresh, n);
	pfree(fresh);
}

/* Do all nodes that live tell of their writes? */
bool
le_cache_all_tell(void)
{
	for (int i = 0; i < le_table->nnodes; i++)
	{
		const LeNodeInfo *info = &le_table->nodes[i];

		if (info->held && !info->revoked && !info->tells)
			return false;
	}
	return le_table->nnodes > 0;
}

/*
 * A takeover was refused: the node has given a sign of life that was not shown
 * here yet.  Until it is, the wait starts anew.
 */
void
le_cache_doubt(const char *session)
{
	for (int i = 0; i < le_table->nnodes; i++)
		if (strcmp(le_table->nodes[i].session, session) == 0)
			le_table->nodes[i].doubted = le_now();
}
