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

/* Transactions under way have this long to take missing facts along. */
#define UNTOLD_GAP		(20 * LE_MSEC)

/* Length of the list, at most LE_MAX_NEWS. */
int			le_gossip_room = LE_MAX_NEWS;

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

static Told *told = NULL;		/* NULL: this node tells nothing */
static le_time settled_at = 0;	/* all writes without news are answered by
								 * then; 0: they are */
static Heard *heard = NULL;
static int	nheard = 0;

/* ---- telling ---- */

static void
note_fact(void)
{
	told->facts++;
	if (told->untold_at == 0)
		told->untold_at = le_now();
}

/*
 * Something may have been written that is not, or no longer, listed: the next
 * news begin with a gap.  No news ever had this number, so no reader has heard
 * all up to it.
 */
static void
begin_with_gap(void)
{
	told->number = Max(told->number + 1, (uint64) (le_now() / 1000));
	told->since = told->number;
	told->nitems = 0;
	note_fact();
}

/*
 * Tell from now on.  The requests under way were sent without news, so nodes
 * that go by news have to read all keys once more after their answers.
 */
void
le_gossip_begin(le_duration until_settled)
{
	if (told != NULL)
		return;
	told = MemoryContextAllocZero(TopMemoryContext, sizeof(Told));
	strlcpy(told->session, le_table->session, sizeof(told->session));
	begin_with_gap();
	settled_at = le_now() + until_settled;
}

/* The worker before may have told news that others go by. */
void
le_gossip_start(void)
{
	if (le_table->session[0] != '\0')
		le_gossip_begin(0);
}

/* Each session has news of its own. */
static void
follow_session(const char *session)
{
	if (strcmp(told->session, session) == 0)
		return;
	strlcpy(told->session, session, sizeof(told->session));
	told->shown_index = told->shown_facts = 0;
	told->under_way = 0;
	begin_with_gap();
}

static void
drop_oldest(void)
{
	uint64		number = told->items[0].item.number;
	int			n = 0;

	while (n < told->nitems && told->items[n].item.number == number)
		n++;
	told->nitems -= n;
	memmove(told->items, told->items + n, told->nitems * sizeof(ToldItem));
	told->since = Max(told->since, number);
}

static void
add_item(const LeOp *op)
{
	ToldItem	   *to = &told->items[told->nitems++];

	memset(to, 0, sizeof(*to));
	strlcpy(to->election, op->election, sizeof(to->election));
	to->item.kind = op->kind == LE_OP_TAKE_OVER ? LE_OP_ACQUIRE : op->kind;
	to->item.number = told->number;
	to->item.token = op->kind == LE_OP_PUBLISH ? op->token : 0;
}

/* List the writes of the transaction; too many for the list make a gap. */
static void
add_items(const LeOp *op)
{
	int			n = 1 + op->njoined;

	while (told->nitems > 0 && told->nitems + n > le_gossip_room &&
		   told->items[0].item.index != 0)
		drop_oldest();
	if (told->nitems + n > le_gossip_room)
	{
		begin_with_gap();
		return;
	}
	told->number++;
	add_item(op);
	for (int i = 0; i < op->njoined; i++)
		add_item(op->joined[i]);
}

/* A copy in the caller's memory: the list may change before it is sent. */
static const LeGossipItem *
copy_items(void)
{
	LeGossipItem *items = palloc(LE_MAX_NEWS * sizeof(LeGossipItem));

	for (int i = 0; i < told->nitems; i++)
	{
		items[i] = told->items[i].item;
		items[i].election = pstrdup(told->items[i].election);
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
tells_of_itself(const LeOp *op)
{
	return told->since < told->number && op->kind != LE_OP_TELL_NEWS &&
		op->kind != LE_OP_PUBLISH;
}

/* The request is about to be encoded: the news go with it. */
void
le_gossip_attach(LeOp *op)
{
	Attached   *attached;

	if (told == NULL ||
		(!writes_elections(op->kind) && op->kind != LE_OP_TELL_NEWS))
		return;
	follow_session(op->session);
	if (op->kind == LE_OP_TELL_NEWS)
		told->number++;
	else
		add_items(op);
	attached = palloc0(sizeof(Attached));
	attached->news.session = op->session;
	attached->news.number = told->number;
	attached->news.since = told->since;
	attached->news.items = copy_items();
	attached->news.nitems = told->nitems;
	attached->facts = told->facts;
	if (tells_of_itself(op))
		attached->facts++;
	op->news = &attached->news;
	told->under_way++;
}

/* The writes with this number were applied.  False: they are not listed. */
static bool
settle(uint64 number, const LeAnswer *answer)
{
	int			part = 0;

	for (int i = 0; i < told->nitems; i++)
		if (told->items[i].item.number == number)
		{
			told->items[i].item.index = answer->parts == NULL ?
				answer->index : answer->parts[part].index;
			part++;
		}
	return part > 0;
}

/* The writes were not applied: there is nothing to tell. */
static void
forget_items(uint64 number)
{
	int			n = 0;

	for (int i = 0; i < told->nitems; i++)
		if (told->items[i].item.number != number)
			told->items[n++] = told->items[i];
	told->nitems = n;
}

static void
note_shown(const Attached *attached, uint64 index)
{
	if (index > told->shown_index)
	{
		told->shown_index = index;
		told->shown_facts = attached->facts;
	}
	if (told->shown_facts >= told->facts)
		told->untold_at = 0;
}

/*
 * A request that took news along was answered.  If its outcome is unknown,
 * readers of the news cannot know it either.
 */
void
le_gossip_landed(const LeOp *op, const LeAnswer *answer)
{
	const Attached *attached = (const Attached *) op->news;
	uint64		number;

	if (attached == NULL || told == NULL ||
		strcmp(told->session, op->session) != 0)
		return;
	told->under_way--;
	number = attached->news.number;
	if (answer->outcome == LE_UNKNOWN)
		begin_with_gap();
	else if (answer->outcome != LE_DONE)
		forget_items(number);
	else
	{
		if (op->kind == LE_OP_TELL_NEWS)
			;					/* no new fact */
		else if (settle(number, answer))
			note_fact();
		else
			begin_with_gap();
		note_shown(attached, answer->index);
	}
}

/*
 * Must the present session, which must live, send a transaction for its news
 * alone?
 */
bool
le_gossip_untold(void)
{
	if (told == NULL)
		return false;
	follow_session(le_table->session);
	if (settled_at != 0 && le_now() >= settled_at)
	{
		settled_at = 0;
		begin_with_gap();
	}
	return told->untold_at != 0 &&
		(told->under_way == 0 || le_now() - told->untold_at >= UNTOLD_GAP);
}

le_time
le_gossip_timer(void)
{
	le_time		next = settled_at;

	if (told != NULL && told->untold_at != 0)
		next = le_earliest(next, told->untold_at +
						   (told->under_way == 0 ? 0 : UNTOLD_GAP));
	return next;
}

/* ---- hearing ---- */

static Heard *
find_heard(const char *session)
{
	for (int i = 0; i < nheard; i++)
		if (strcmp(heard[i].session, session) == 0)
			return &heard[i];
	return NULL;
}

static Heard *
heard_of(const char *session)
{
	Heard	   *h = find_heard(session);

	if (h != NULL)
		return h;
	if (heard == NULL)
		heard = MemoryContextAllocZero(TopMemoryContext,
									   LE_MAX_NODES * sizeof(Heard));
	if (nheard == LE_MAX_NODES)
		return NULL;
	h = &heard[nheard++];
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
le_gossip_hear(const LeGossip *news)
{
	Heard	   *h = heard_of(news->session);
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
le_gossip_heard(const LeAnswer *answer)
{
	bool		missed = false;
	int			n = 0;

	for (int i = 0; i < nheard; i++)
	{
		bool		there = false;

		for (int k = 0; k < answer->nnews && !there; k++)
			there = strcmp(answer->news[k].session, heard[i].session) == 0;
		if (there)
			heard[n++] = heard[i];
		else if (heard[i].held)
			missed = true;
	}
	nheard = n;
	return missed;
}

/* The keys are at another place, or were not watched for a while. */
void
le_gossip_forget(void)
{
	nheard = 0;
}
