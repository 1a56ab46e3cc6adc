/*-------------------------------------------------------------------------
 *
 * claim_list.c
 *		The records of all jobs, page by page.
 *
 * Stores list them a page at a time.  A backend gets as many rows in shared
 * memory as it has capacity for; the others are kept for a while.
 *
 * src/worker/jobs/claim_list.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/dsm.h"
#include "utils/memutils.h"

#include "settings.h"
#include "shmem/clock.h"
#include "worker/jobs/claim_list.h"
#include "worker/wire/dispatch.h"

/* Time for a backend to ask for more of the rows. */
#define KEEP_ROWS		(10 * LE_SEC)

typedef struct Listing
{
	LePending	p;
	LeClaimList list;
	bool		fetched;		/* in full, and some rows were shown: the rest
								 * is kept until give_up */
} Listing;

/* ---- rows and pages ---- */

/* A claim as it travels through shared memory. */
void
le_claim_row(LeClaimRow *row, const LeClaim *claim)
{
	memset(row, 0, sizeof(*row));
	strlcpy(row->election, claim->election, sizeof(row->election));
	strlcpy(row->job, claim->job, sizeof(row->job));
	strlcpy(row->id, claim->id, sizeof(row->id));
	if (claim->node != NULL)
		strlcpy(row->node, claim->node, sizeof(row->node));
	row->tick = claim->tick;
	row->claimed_at = claim->claimed_at;
	row->ended_at = claim->ended_at;
	row->token = claim->token;
	row->try = claim->try;
	row->state = claim->state;
	row->every = claim->every;
	row->wait = claim->wait;
	row->last_success = claim->last_success;
	row->failures = claim->failures;
	row->writes = claim->writes;
	if (claim->sqlstate != NULL)
		strlcpy(row->sqlstate, claim->sqlstate, sizeof(row->sqlstate));
	if (claim->message != NULL)
		strlcpy(row->message, claim->message, sizeof(row->message));
}

/*
 * Name the next election that this node knows, or NULL for all of them at
 * once.  False: the list is complete.
 */
bool
le_claim_list_next(LeClaimList *list, const char **election)
{
	*election = NULL;
	if (le_configured_store()->claims.lists_all)
		return list->next_slot == 0;
	while (list->next_slot < le_table->nused &&
		   !le_slot(list->next_slot)->used)
		list->next_slot++;
	if (list->next_slot >= le_table->nused)
		return false;
	*election = le_slot(list->next_slot)->name;
	return true;
}

static void
make_room(LeClaimList *list, int n)
{
	Size		size;

	if (list->nrows + n <= list->capacity)
		return;
	list->capacity = 2 * list->nrows + n;
	size = mul_size(list->capacity, list->size);
	list->rows = list->rows == NULL ?
		MemoryContextAllocHuge(TopMemoryContext, size) :
		repalloc_huge(list->rows, size);
}

/* Another row, all zeros.  It begins with a LeClaimRow. */
void *
le_claim_list_new_row(LeClaimList *list)
{
	char	   *row;

	make_room(list, 1);
	row = (char *) list->rows + list->nrows++ * list->size;
	memset(row, 0, list->size);
	return row;
}

/* A page has come. */
void
le_claim_list_add(LeClaimList *list, const LeAnswer *answer)
{
	make_room(list, answer->nclaims);
	for (int i = 0; i < answer->nclaims; i++)
		le_claim_row(le_claim_list_new_row(list), &answer->claims[i]);
	if (list->page != NULL)
		pfree(list->page);
	list->page = answer->page == NULL ? NULL :
		MemoryContextStrdup(TopMemoryContext, answer->page);
	if (list->page == NULL)
		list->next_slot++;
}

void
le_claim_list_clear(LeClaimList *list)
{
	if (list->rows != NULL)
		pfree(list->rows);
	if (list->page != NULL)
		pfree(list->page);
	*list = (LeClaimList)
	{
		.size = list->size
	};
}

/* ---- questions for all records ---- */

static bool
listing_wanted(const LePending *p, le_time now)
{
	return ((const Listing *) p)->fetched ? now < p->give_up :
		le_still_asked(p->proc, p->number);
}

static void
listing_released(LePending *p)
{
	le_claim_list_clear(&((Listing *) p)->list);
}

LePendingList *
le_claim_listings_new(void)
{
	LePendingList *listings = le_pending_list_new(sizeof(Listing), "claims");

	listings->wanted = listing_wanted;
	listings->release = listing_released;
	return listings;
}

/*
 * Reply with as many rows as the backend has capacity for, and with the number
 * of all; the others stay here for a while.
 */
static void
reply_rows(Listing *l)
{
	LeReply		r = {0};
	const LeAsk *ask = &l->p.ask;
	int			n = Min(l->list.nrows - ask->from, ask->capacity);
	dsm_segment *segment;

	r.kind = LE_REPLY_TRUE;
	r.rows = l->list.nrows;
	/* The segment goes with its backend; then nobody reads the reply. */
	if (n > 0 && (segment = dsm_attach(ask->segment)) != NULL)
	{
		memcpy(dsm_segment_address(segment),
			   (LeClaimRow *) l->list.rows + ask->from,
			   n * sizeof(LeClaimRow));
		dsm_detach(segment);
	}
	if (!le_answer(l->p.proc, l->p.number, &r) ||
		ask->from + n >= l->list.nrows)
	{
		le_pending_drop(&l->p);
		return;
	}
	l->fetched = true;
	l->p.give_up = le_now() + KEEP_ROWS;
}

/* The rest of the rows fetched for this backend; FALSE: they are not kept. */
static void
reply_rest(LeWorker *w, int proc, uint64 number, const LeAsk *ask)
{
	LeReply		r = {.kind = LE_REPLY_FALSE};

	le_foreach_pending(p, w->claim_listings)
	{
		Listing    *l = (Listing *) p;

		if (!l->fetched || p->proc != proc || p->ask.owner != ask->owner ||
			ask->from < 0 || ask->from > l->list.nrows)
			continue;
		p->number = number;
		p->ask = *ask;
		reply_rows(l);
		return;
	}
	le_answer(proc, number, &r);
}

static void list_next_claims(LeWorker *w, Listing *l);

static void
claims_listed(LeWorker *w, LeFlight *flight, const LeAnswer *answer)
{
	LePending  *p = le_pending_in(w->claim_listings, flight->asker.number,
								  flight->asker.proc);
	Listing    *l = (Listing *) p;

	if (p == NULL)
		return;
	/* A list is for people, who prefer an error to a wait. */
	if (answer->outcome != LE_DONE)
	{
		le_reply_unread(w, p, answer->outcome);
		return;
	}
	le_claim_list_add(&l->list, answer);
	list_next_claims(w, l);
}

static void
list_next_claims(LeWorker *w, Listing *l)
{
	LeFlight   *flight;
	const char *election;

	if (!le_claim_list_next(&l->list, &election))
	{
		reply_rows(l);
		return;
	}
	flight = le_flight_new(LE_OP_LIST_CLAIMS, claims_listed);
	flight->op.election = le_flight_string(flight, election);
	flight->op.page = le_flight_string(flight, l->list.page);
	flight->asker.number = l->p.number;
	flight->asker.proc = l->p.proc;
	le_flight_send(w, flight, le_table->node.timing.request_timeout);
}

void
le_ask_claims(LeWorker *w, int proc, uint64 number, const LeAsk *ask)
{
	Listing    *l;

	if (ask->from != 0)
	{
		reply_rest(w, proc, number, ask);
		return;
	}
	l = (Listing *) le_pending_add(w->claim_listings, proc, number, ask);
	l->list.size = sizeof(LeClaimRow);
	list_next_claims(w, l);
}
