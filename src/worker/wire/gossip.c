/*-------------------------------------------------------------------------
 *
 * gossip.c
 *		News: the election keys that a node writes, told to the others.
 *
 * With many elections, an answer that shows all their keys is long, and each
 * change causes one.  So each node keeps a short list of its latest writes,
 * its news, in a key of its own, which is written in the same transaction, and
 * the others wait for the news instead.  All keys of one transaction have the
 * same index: a node that hears of a release knows at once on which index its
 * acquire depends.
 *
 * Several transactions of a node may be under way at a time, be applied in
 * another order, or not at all; a reader may see only some of their news; and
 * the outcome of a lost answer is unknown.  Therefore:
 *
 * - An item of the news is a fact: by this write its key had this index.
 *   Facts may be heard twice and in any order; the highest index counts.
 * - The writes of a transaction have a number, by which its sender counts.
 *   For the newest number, the writes have the index of the news, except a
 *   published value; for one that was answered before, the index stands
 *   beside them; for one that was still under way there is none, and later
 *   news will tell.
 * - News say since which number they list everything.  A reader that has not
 *   heard all up to that one has missed something, and reads all keys.
 * - If the stored news lack a fact and nothing more is under way, the key is
 *   written once more for its own sake (le_gossip_untold).
 *
 * Numbers begin with the clock that a node's deadlines rest on.  So a new
 * worker, and a new incarnation that acts for a session of its predecessor,
 * which know no list, begin with a higher number than was ever told, and with
 * a gap.
 *
 * News are no proof.  They make a node try, and the store judges that by the
 * index; a node that misses them is late until the keys are listed again.
 *
 * src/worker/wire/gossip.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "shmem/clock.h"
#include "shmem/leases.h"
#include "worker/wire/gossip.h"

typedef struct ToldItem
{
	LeGossipItem	item;
	char		election[LE_MAX_ELECTION_LEN + 1];
} ToldItem;

/* This node's own news. */
typedef struct Told
{
	char		session[LE_SESSION_LEN + 1];
	uint64		number;			/* the newest in use */
	uint64		since;			/* nothing up to this number is listed */
	uint64		facts;			/* facts to tell so far */
	uint64		shown_index;	/* index of the stored news ... */
	uint64		shown_facts;	/* ... and the number of their facts */
	int			under_way;		/* transactions with news */
	le_time		untold_at;		/* they lack a fact since then; 0: they lack
								 * none */
	int			nitems;
	ToldItem		items[LE_MAX_NEWS]; /* the oldest first */
} Told;

/* The news that go with a transaction. */
typedef struct Attached
{
	LeGossip		news;
	uint64		facts;			/* told when it is applied */
} Attached;

/* The news heard of another node. */
typedef struct Heard
{
	char		session[LE_SESSION_LEN + 1];
	uint64		index;			/* index of its news */
	uint64		through;		/* all is heard up to this number */
	bool		held;
} Heard;

struct LeGossiper
{
	int			capacity;		/* length of the list */
	Told	   *told;			/* NULL: this node tells nothing */
	le_time		settled_at;		/* all writes without news are answered by
								 * then; 0: they are */
	Heard	   *heard;
	int			nheard;
};

/* "capacity": the longest list of news, at most LE_MAX_NEWS. */
LeGossiper *
le_gossip_new(int capacity)
{
	LeGossiper *gossip = MemoryContextAllocZero(TopMemoryContext,
												sizeof(LeGossiper));

	gossip->capacity = capacity;
	return gossip;
}

/* ---- telling ---- */

static void
note_fact(LeGossiper *gossip)
{
	gossip->told->facts++;
	if (gossip->told->untold_at == 0)
		gossip->told->untold_at = le_now();
}

/*
 * Something may have been written that is not, or no longer, listed: the next
 * news begin with a gap.  No news ever had this number, so no reader has heard
 * all up to it.
 */
static void
begin_with_gap(LeGossiper *gossip)
{
	gossip->told->number = Max(gossip->told->number + 1,
							   (uint64) (le_now() / 1000));
	gossip->told->since = gossip->told->number;
	gossip->told->nitems = 0;
	note_fact(gossip);
}

/*
 * Tell from now on.  The requests under way were sent without news, so nodes
 * that go by news have to read all keys once more after their answers.
 */
void
le_gossip_begin(LeGossiper *gossip, le_duration until_settled)
{
	if (gossip->told != NULL)
		return;
	gossip->told = MemoryContextAllocZero(TopMemoryContext, sizeof(Told));
	strlcpy(gossip->told->session, le_table->session,
			sizeof(gossip->told->session));
	begin_with_gap(gossip);
	gossip->settled_at = le_now() + until_settled;
}

/* The worker before may have told news that others go by. */
void
le_gossip_start(LeGossiper *gossip)
{
	if (le_table->session[0] != '\0')
		le_gossip_begin(gossip, 0);
}

/* Each session has news of its own. */
static void
follow_session(LeGossiper *gossip, const char *session)
{
	if (strcmp(gossip->told->session, session) == 0)
		return;
	strlcpy(gossip->told->session, session, sizeof(gossip->told->session));
	gossip->told->shown_index = gossip->told->shown_facts = 0;
	gossip->told->under_way = 0;
	begin_with_gap(gossip);
}

static void
drop_oldest(LeGossiper *gossip)
{
	uint64		number = gossip->told->items[0].item.number;
	int			n = 0;

	while (n < gossip->told->nitems &&
		   gossip->told->items[n].item.number == number)
		n++;
	gossip->told->nitems -= n;
	memmove(gossip->told->items, gossip->told->items + n,
			gossip->told->nitems * sizeof(ToldItem));
	gossip->told->since = Max(gossip->told->since, number);
}

static void
add_item(LeGossiper *gossip, const LeOp *op)
{
	ToldItem	   *to = &gossip->told->items[gossip->told->nitems++];

	memset(to, 0, sizeof(*to));
	strlcpy(to->election, op->election, sizeof(to->election));
	to->item.kind = op->kind == LE_OP_TAKE_OVER ? LE_OP_ACQUIRE : op->kind;
	to->item.number = gossip->told->number;
	to->item.token = op->kind == LE_OP_PUBLISH ? op->token : 0;
}

/* List the writes of the transaction; too many for the list make a gap. */
static void
add_items(LeGossiper *gossip, const LeOp *op)
{
	int			n = 1 + op->wire.njoined;

	while (gossip->told->nitems > 0 &&
		   gossip->told->nitems + n > gossip->capacity &&
		   gossip->told->items[0].item.index != 0)
		drop_oldest(gossip);
	if (gossip->told->nitems + n > gossip->capacity)
	{
		begin_with_gap(gossip);
		return;
	}
	gossip->told->number++;
	add_item(gossip, op);
	for (int i = 0; i < op->wire.njoined; i++)
		add_item(gossip, op->wire.joined[i]);
}

/* A copy in the caller's memory: the list may change before it is sent. */
static const LeGossipItem *
copy_items(LeGossiper *gossip)
{
	LeGossipItem *items = palloc(LE_MAX_NEWS * sizeof(LeGossipItem));

	for (int i = 0; i < gossip->told->nitems; i++)
	{
		items[i] = gossip->told->items[i].item;
		items[i].election = pstrdup(gossip->told->items[i].election);
	}
	return items;
}

static bool
writes_elections(LeOpKind kind)
{
	return kind == LE_OP_ACQUIRE || kind == LE_OP_TAKE_OVER ||
		kind == LE_OP_PUBLISH || kind == LE_OP_RELEASE;
}

/* If the write is applied, do its own news say with which index? */
static bool
tells_of_itself(LeGossiper *gossip, const LeOp *op)
{
	return gossip->told->since < gossip->told->number &&
		op->kind != LE_OP_TELL_NEWS && op->kind != LE_OP_PUBLISH;
}

/* The request is about to be encoded: the news go with it. */
void
le_gossip_attach(LeGossiper *gossip, LeOp *op)
{
	Attached   *attached;

	if (gossip->told == NULL ||
		(!writes_elections(op->kind) && op->kind != LE_OP_TELL_NEWS))
		return;
	follow_session(gossip, op->session);
	if (op->kind == LE_OP_TELL_NEWS)
		gossip->told->number++;
	else
		add_items(gossip, op);
	attached = palloc0(sizeof(Attached));
	attached->news.session = op->session;
	attached->news.number = gossip->told->number;
	attached->news.since = gossip->told->since;
	attached->news.items = copy_items(gossip);
	attached->news.nitems = gossip->told->nitems;
	attached->facts = gossip->told->facts;
	if (tells_of_itself(gossip, op))
		attached->facts++;
	op->news = &attached->news;
	gossip->told->under_way++;
}

/* The writes with this number were applied.  False: they are not listed. */
static bool
note_applied(LeGossiper *gossip, uint64 number, const LeAnswer *answer)
{
	int			part = 0;

	for (int i = 0; i < gossip->told->nitems; i++)
		if (gossip->told->items[i].item.number == number)
		{
			gossip->told->items[i].item.index = answer->wire.parts == NULL ?
				answer->index : answer->wire.parts[part].index;
			part++;
		}
	return part > 0;
}

/* The writes were not applied: there is nothing to tell. */
static void
forget_items(LeGossiper *gossip, uint64 number)
{
	int			n = 0;

	for (int i = 0; i < gossip->told->nitems; i++)
		if (gossip->told->items[i].item.number != number)
			gossip->told->items[n++] = gossip->told->items[i];
	gossip->told->nitems = n;
}

static void
note_shown(LeGossiper *gossip, const Attached *attached, uint64 index)
{
	if (index > gossip->told->shown_index)
	{
		gossip->told->shown_index = index;
		gossip->told->shown_facts = attached->facts;
	}
	if (gossip->told->shown_facts >= gossip->told->facts)
		gossip->told->untold_at = 0;
}

/*
 * A request that took news along was answered.  If its outcome is unknown,
 * readers of the news cannot know it either.
 */
void
le_gossip_landed(LeGossiper *gossip, const LeOp *op, const LeAnswer *answer)
{
	const Attached *attached = (const Attached *) op->news;
	uint64		number;

	if (attached == NULL || gossip->told == NULL ||
		strcmp(gossip->told->session, op->session) != 0)
		return;
	gossip->told->under_way--;
	number = attached->news.number;
	if (answer->outcome == LE_UNKNOWN)
		begin_with_gap(gossip);
	else if (answer->outcome != LE_DONE)
		forget_items(gossip, number);
	else
	{
		if (op->kind == LE_OP_TELL_NEWS)
			;					/* no new fact */
		else if (note_applied(gossip, number, answer))
			note_fact(gossip);
		else
			begin_with_gap(gossip);
		note_shown(gossip, attached, answer->index);
	}
}

/*
 * Must the present session, which must live, send a transaction for its news
 * alone?
 */
bool
le_gossip_untold(LeGossiper *gossip)
{
	if (gossip->told == NULL)
		return false;
	follow_session(gossip, le_table->session);
	if (gossip->settled_at != 0 && le_now() >= gossip->settled_at)
	{
		gossip->settled_at = 0;
		begin_with_gap(gossip);
	}
	return gossip->told->untold_at != 0 &&
		(gossip->told->under_way == 0 ||
		 le_now() - gossip->told->untold_at >= LE_UNTOLD_GAP);
}

le_time
le_gossip_timer(LeGossiper *gossip)
{
	le_time		next = gossip->settled_at;

	if (gossip->told != NULL && gossip->told->untold_at != 0)
		next = le_earliest(next, gossip->told->untold_at +
						   (gossip->told->under_way == 0 ? 0 : LE_UNTOLD_GAP));
	return next;
}

/* ---- hearing ---- */

static Heard *
find_heard(LeGossiper *gossip, const char *session)
{
	for (int i = 0; i < gossip->nheard; i++)
		if (strcmp(gossip->heard[i].session, session) == 0)
			return &gossip->heard[i];
	return NULL;
}

static Heard *
heard_of(LeGossiper *gossip, const char *session)
{
	Heard	   *h = find_heard(gossip, session);

	if (h != NULL)
		return h;
	if (gossip->heard == NULL)
		gossip->heard = MemoryContextAllocZero(TopMemoryContext,
											   LE_MAX_NODES * sizeof(Heard));
	if (gossip->nheard == LE_MAX_NODES)
		return NULL;
	h = &gossip->heard[gossip->nheard++];
	memset(h, 0, sizeof(*h));
	strlcpy(h->session, session, sizeof(h->session));
	return h;
}

/* The number up to which a reader of these news has heard everything. */
static uint64
all_through(const LeGossip *news)
{
	uint64		through = news->number;

	for (int i = 0; i < news->nitems; i++)
		if (news->items[i].index == 0)
			through = Min(through, news->items[i].number - 1);
	return through;
}

/* Hear one node's news in an answer: LE_HEARD_... */
int
le_gossip_hear(LeGossiper *gossip, const LeGossip *news)
{
	Heard	   *h = heard_of(gossip, news->session);
	int			what = 0;

	if (h == NULL)
		return LE_HEARD_GAP;
	if (h->index == news->index)
		return 0;
	if (h->held && !news->held)
		what |= LE_HEARD_END;
	if (news->node == NULL || news->since > h->through)
		what |= LE_HEARD_GAP;
	if (news->node != NULL)
	{
		h->through = Max(h->through, all_through(news));
		what |= LE_HEARD_ITEMS;
	}
	h->index = news->index;
	h->held = news->held;
	return what;
}

/*
 * The whole answer has been heard: nodes that it does not show are forgotten.
 * A node that leaves takes its news along.  True: a node has left whose last
 * news were not heard here, and they may have told of a release.
 */
bool
le_gossip_heard(LeGossiper *gossip, const LeAnswer *answer)
{
	bool		missed = false;
	int			n = 0;

	for (int i = 0; i < gossip->nheard; i++)
	{
		bool		there = false;

		for (int k = 0; k < answer->nnews && !there; k++)
			there = strcmp(answer->news[k].session,
						   gossip->heard[i].session) == 0;
		if (there)
			gossip->heard[n++] = gossip->heard[i];
		else if (gossip->heard[i].held)
			missed = true;
	}
	gossip->nheard = n;
	return missed;
}

/* The keys are in another namespace, or were not watched for a while. */
void
le_gossip_forget(LeGossiper *gossip)
{
	gossip->nheard = 0;
}
