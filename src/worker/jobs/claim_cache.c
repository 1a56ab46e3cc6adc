/*-------------------------------------------------------------------------
 *
 * claim_cache.c
 *		The records of jobs that this worker wrote last.
 *
 * A leader that claims tick after tick of a job has usually written its record
 * last, and need not read it.  Each write depends on the record as it was, so
 * the store refuses a write by a record that has changed; then it is read.  A
 * kept record is a guess, good only to spare that read.
 *
 * src/worker/jobs/claim_cache.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "utils/memutils.h"

#include "worker/jobs/claim_cache.h"

/* Jobs with a kept record: those that were claimed last. */
#define MAX_KEPT		1000

typedef struct Kept
{
	dlist_node	node;
	MemoryContext context;		/* holds this and all its contents */
	LeClaim    *claim;
} Kept;

struct LeClaimCache
{
	dlist_head	kept;			/* the last one first */
	int			n;
};

LeClaimCache *
le_claim_cache_new(void)
{
	LeClaimCache *cache = MemoryContextAllocZero(TopMemoryContext,
												 sizeof(LeClaimCache));

	dlist_init(&cache->kept);
	return cache;
}

LeClaim *
le_copy_claim(MemoryContext context, const LeClaim *claim)
{
	LeClaim    *copy = MemoryContextAlloc(context, sizeof(LeClaim));

	*copy = *claim;
	copy->election = MemoryContextStrdup(context, claim->election);
	copy->job = MemoryContextStrdup(context, claim->job);
	copy->id = MemoryContextStrdup(context, claim->id);
	if (claim->node != NULL)
		copy->node = MemoryContextStrdup(context, claim->node);
	if (claim->sqlstate != NULL)
		copy->sqlstate = MemoryContextStrdup(context, claim->sqlstate);
	if (claim->message != NULL)
		copy->message = MemoryContextStrdup(context, claim->message);
	return copy;
}

static Kept *
find_kept(LeClaimCache *cache, const char *election, const char *job)
{
	dlist_iter	iter;

	dlist_foreach(iter, &cache->kept)
	{
		Kept	   *entry = dlist_container(Kept, node, iter.cur);

		if (strcmp(entry->claim->job, job) == 0 &&
			strcmp(entry->claim->election, election) == 0)
			return entry;
	}
	return NULL;
}

static void
drop_kept(LeClaimCache *cache, Kept *entry)
{
	dlist_delete(&entry->node);
	cache->n--;
	MemoryContextDelete(entry->context);
}

/* Was it written before the one that is kept?  By the rule for lost ones. */
static bool
is_older(const LeClaim *claim, const LeClaim *kept)
{
	LeSeenRecord seen = {.writes = kept->writes, .tick = kept->tick};

	return le_record_is_lost(&seen, claim->writes, claim->tick);
}

/*
 * The store has confirmed the write of this record, with this index.  That
 * answer may come late, after one that confirmed a later record.
 */
void
le_keep_record(LeClaimCache *cache, const LeClaim *claim, uint64 index)
{
	MemoryContext context;
	Kept	   *entry = find_kept(cache, claim->election, claim->job);

	if (entry != NULL && is_older(claim, entry->claim))
		return;
	le_forget_record(cache, claim->election, claim->job);
	if (cache->n >= MAX_KEPT)
		drop_kept(cache, dlist_tail_element(Kept, node, &cache->kept));
	context = AllocSetContextCreate(TopMemoryContext, "leader_election record",
									ALLOCSET_SMALL_SIZES);
	entry = MemoryContextAlloc(context, sizeof(Kept));
	entry->context = context;
	entry->claim = le_copy_claim(context, claim);
	entry->claim->index = index;
	dlist_push_head(&cache->kept, &entry->node);
	cache->n++;
}

/* NULL: nothing is kept.  Good until another function here is called. */
const LeClaim *
le_kept_record(LeClaimCache *cache, const char *election, const char *job)
{
	const Kept *entry = find_kept(cache, election, job);

	return entry == NULL ? NULL : entry->claim;
}

void
le_forget_record(LeClaimCache *cache, const char *election, const char *job)
{
	Kept	   *entry = find_kept(cache, election, job);

	if (entry != NULL)
		drop_kept(cache, entry);
}

/*
 * The record was read.  Another node may have written it since this one did;
 * or the answer comes late, and shows it as it was before.
 */
void
le_record_read(LeClaimCache *cache, const LeClaim *found)
{
	Kept	   *entry = find_kept(cache, found->election, found->job);

	if (entry != NULL && !is_older(found, entry->claim) &&
		(found->writes != entry->claim->writes ||
		 found->tick != entry->claim->tick))
		drop_kept(cache, entry);
}

/* The act may keep and forget records of the same job. */
void
le_each_kept(LeClaimCache *cache,
			 void (*act) (LeWorker *w, const LeClaim *claim), LeWorker *w)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &cache->kept)
		act(w, dlist_container(Kept, node, iter.cur)->claim);
}
