/*-------------------------------------------------------------------------
 *
 * claimlog.c
 *		The claims of the store "local", kept on disk.
 *
 * A claim that was granted must be there after any crash, or the tick would
 * run again.  So each claim is written and flushed before anybody hears of it.
 *
 * The file is a checked log, "<election> <record>" per line; the last line of
 * a job counts.  It exists from the first start on.
 *
 * If it is missing or damaged, ticks that have run would be free.  So nothing
 * is claimed until there is a whole file again: a copy that an administrator
 * brings, or the readable rest, which is offered as a file under another name.
 * Removing a file is no answer: it could not be told from another loss.  The
 * tokens that this node has led with show that a file was there before.
 *
 * pg_upgrade makes a new data directory and leaves the file in the old one.
 * But it loads this library in the new server, as a test: so a file without
 * claims is offered there, under a name that says why.
 *
 * src/worker/disk/claimlog.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "lib/ilist.h"
#include "storage/fd.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "settings.h"
#include "shmem/clock.h"
#include "store/claim_record.h"
#include "worker/disk/checkedlog.h"
#include "worker/disk/claimlog.h"

#define CLAIMS_KIND		"claims"

/* The readable rest of a damaged file, as a whole one. */
#define REST_FILE		LE_CLAIMS_FILE ".rest"

typedef struct Key
{
	char		election[LE_MAX_ELECTION_LEN + 1];
	char		job[LE_MAX_JOB_LEN + 1];
} Key;

typedef struct Entry
{
	Key			key;			/* hash key, first */
	dlist_node	in_order;		/* in the order of ... */
	uint64		number;
	LeClaim		claim;			/* its strings are here: */
	char		id[LE_CLAIM_ID_LEN + 1];
	char		node[LE_MAX_NODE_NAME_LEN + 1];
	char		sqlstate[LE_SQLSTATE_LEN + 1];
	char		message[LE_MAX_MESSAGE_LEN + 1];
} Entry;

/* Age at which a claim makes way for another job's. */
#define KEPT_MS			(INT64CONST(90) * 86400 * 1000)

struct LeClaims
{
	HTAB	   *entries;
	dlist_head	order;
	uint64		last_number;
	Entry	   *shown;			/* last one returned by next(), or NULL */
	const LeClaim *keeping;		/* being written, not in entries yet */
	bool		led_before;		/* so that there has been a file */
	bool		known;			/* all earlier claims are known */
	LeCheckedLog file;
};

/* ---- in memory ---- */

static void
set_key(Key *key, const char *election, const char *job)
{
	memset(key, 0, sizeof(*key));
	strlcpy(key->election, election, sizeof(key->election));
	strlcpy(key->job, job, sizeof(key->job));
}

static const char *
keep_string(char *to, const char *s, size_t size)
{
	if (s == NULL)
		return NULL;
	strlcpy(to, s, size);
	return to;
}

static void
remember_claim(LeClaims *claims, const LeClaim *claim)
{
	Key			key;
	Entry	   *entry;
	bool		found;

	set_key(&key, claim->election, claim->job);
	entry = hash_search(claims->entries, &key, HASH_ENTER, &found);
	if (!found)
	{
		entry->number = ++claims->last_number;
		dlist_push_tail(&claims->order, &entry->in_order);
	}
	strlcpy(entry->id, claim->id, sizeof(entry->id));
	strlcpy(entry->node, claim->node, sizeof(entry->node));
	entry->claim = *claim;
	entry->claim.election = entry->key.election;
	entry->claim.job = entry->key.job;
	entry->claim.id = entry->id;
	entry->claim.node = entry->node;
	entry->claim.sqlstate = keep_string(entry->sqlstate, claim->sqlstate,
										sizeof(entry->sqlstate));
	entry->claim.message = keep_string(entry->message, claim->message,
									   sizeof(entry->message));
}

static const LeClaim *
find_claim(LeClaims *claims, const char *election, const char *job)
{
	Key			key;
	Entry	   *entry;

	set_key(&key, election, job);
	entry = hash_search(claims->entries, &key, HASH_FIND, NULL);
	return entry == NULL ? NULL : &entry->claim;
}

static Entry *
first_after(LeClaims *claims, uint64 number)
{
	dlist_iter	iter;

	if (number != 0 && claims->shown != NULL &&
		claims->shown->number == number)
		return !dlist_has_next(&claims->order, &claims->shown->in_order) ?
			NULL :
			dlist_container(Entry, in_order,
							dlist_next_node(&claims->order,
											&claims->shown->in_order));
	dlist_foreach(iter, &claims->order)
	{
		Entry	   *entry = dlist_container(Entry, in_order, iter.cur);

		if (entry->number > number)
			return entry;
	}
	return NULL;
}

/* The claim after this number, whatever was added or dropped since. */
static const LeClaim *
next_claim(LeClaims *claims, uint64 *cursor)
{
	Entry	   *entry = first_after(claims, *cursor);

	if (entry == NULL)
		return NULL;
	claims->shown = entry;
	*cursor = entry->number;
	return &entry->claim;
}

/* It may come back until the file is rewritten, which is no harm. */
static void
drop_claim(LeClaims *claims, Entry *entry)
{
	if (claims->shown == entry)
		claims->shown = NULL;
	dlist_delete(&entry->in_order);
	(void) hash_search(claims->entries, &entry->key, HASH_REMOVE, NULL);
}

/*
 * May the election have one more job?  At the limit, jobs that were silent for
 * long make way.
 */
static bool
has_room_for_job(LeClaims *claims, const char *election)
{
	int64		old = le_tick_now() - KEPT_MS;
	int			njobs = 0;
	dlist_iter	each;
	dlist_mutable_iter iter;

	dlist_foreach(each, &claims->order)
	{
		Entry	   *entry = dlist_container(Entry, in_order, each.cur);

		njobs += strcmp(entry->key.election, election) == 0;
	}
	if (njobs < le_max_jobs)
		return true;
	dlist_foreach_modify(iter, &claims->order)
	{
		Entry	   *entry = dlist_container(Entry, in_order, iter.cur);

		if (strcmp(entry->key.election, election) != 0 ||
			entry->claim.tick > old ||
			Max(entry->claim.claimed_at, entry->claim.ended_at) > old)
			continue;
		drop_claim(claims, entry);
		njobs--;
	}
	return njobs < le_max_jobs;
}

/* ---- on disk ---- */

static void
put_claim(LeLogLines *lines, const LeClaim *claim)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "%s ", claim->election);
	le_claim_append_text(&text, claim);
	le_log_line(lines, text.data);
	pfree(text.data);
}

static void
put_claims(void *owner, LeLogLines *lines)
{
	LeClaims   *claims = owner;
	dlist_iter	iter;

	dlist_foreach(iter, &claims->order)
		put_claim(lines, &dlist_container(Entry, in_order, iter.cur)->claim);
	if (claims->keeping != NULL)
		put_claim(lines, claims->keeping);
}

static bool
take_claim(void *owner, char *line)
{
	LeClaims   *claims = owner;
	char	   *record = strchr(line, ' ');
	LeClaim		claim;

	if (record == NULL)
		return false;
	*record++ = '\0';
	if (!le_claim_parse(record, strlen(record), &claim) ||
		!le_valid_election_name(line))
		return false;
	claim.election = line;
	remember_claim(claims, &claim);
	return true;
}

static bool
keep_claim(LeClaims *claims, const LeClaim *claim)
{
	LeLogLines	lines;
	bool		ok;

	le_log_begin(&lines);
	put_claim(&lines, claim);
	claims->keeping = claim;
	ok = le_log_append(&claims->file, &lines, true);
	claims->keeping = NULL;
	pfree(lines.text.data);
	if (ok)
		remember_claim(claims, claim);
	return ok;
}

/* ---- earlier claims ---- */

static bool
exists(const char *name)
{
	return access(name, F_OK) == 0;
}

/* Is the loss of the file known, so that a whole one is waited for? */
static bool
file_offered(void)
{
	return exists(LE_UPGRADED_FILE) || exists(REST_FILE);
}

static void
withdraw_file(const char *name)
{
	if (unlink(name) != 0 && errno != ENOENT)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not remove file \"%s\": %m", name)));
}

/* Offered files stay until they are not needed, even after a crash. */
static void
accept_claims(LeClaims *claims)
{
	claims->known = true;
	if (!le_log_rewrite(&claims->file))
		return;
	withdraw_file(LE_UPGRADED_FILE);
	withdraw_file(REST_FILE);
}

/* Report why nothing can be claimed, and the remedy. */
static void
wait_for_file(LeClaims *claims, const char *fault)
{
	const char *offer = exists(LE_UPGRADED_FILE) ?
		"copy it from there, or rename \"" LE_UPGRADED_FILE "\" to it to start without earlier claims" :
		"put a whole copy in its place, or rename \"" REST_FILE "\" to it to go on with the readable part";

	if (fault != NULL)
		le_log_trouble(&claims->file, "\"%s\" is not whole, %s: %s",
					   LE_CLAIMS_FILE, fault, offer);
	else if (exists(LE_UPGRADED_FILE))
		le_log_trouble(&claims->file,
					   "pg_upgrade left \"%s\" in the old data directory: %s",
					   LE_CLAIMS_FILE, offer);
	else
		le_log_trouble(&claims->file, "\"%s\" was damaged or removed: %s",
					   LE_CLAIMS_FILE, offer);
}

static void
lose_claims(LeClaims *claims)
{
	if (file_offered() || le_log_copy(&claims->file, REST_FILE))
		wait_for_file(claims, NULL);
}

/*
 * The first time, take the readable lines and move the file out of the way.
 * Later leave the file alone: an administrator may be copying a whole one.
 */
static void
found_damaged(LeClaims *claims, const char *fault, StringInfo text)
{
	if (file_offered())
	{
		wait_for_file(claims, fault);
		return;
	}
	(void) le_log_take(&claims->file, text);
	if (le_log_copy(&claims->file, REST_FILE) &&
		le_log_keep_aside(&claims->file, fault,
						  "Nothing can be claimed, since ticks that have run might run again.",
						  "Put a whole copy in its place, or rename \"" REST_FILE "\" to it to go on with the readable part."))
		wait_for_file(claims, NULL);
}

static void
forget_all(LeClaims *claims)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &claims->order)
		drop_claim(claims, dlist_container(Entry, in_order, iter.cur));
}

static void
load_claims(LeClaims *claims)
{
	StringInfoData text;
	const char *fault;
	LeLogState	found = le_log_read(&claims->file, LE_CLAIMS_FILE, &text,
									&fault);

	if (found == LE_LOG_WHOLE)
	{
		forget_all(claims);
		if (!le_log_take(&claims->file, &text))
		{
			found = LE_LOG_DAMAGED;
			fault = "it was written by another version";
		}
	}
	if (found == LE_LOG_WHOLE ||
		(found == LE_LOG_ABSENT && !claims->led_before && !file_offered()))
		accept_claims(claims);
	else if (found == LE_LOG_ABSENT)
		lose_claims(claims);
	else if (found == LE_LOG_DAMAGED)
		found_damaged(claims, fault, &text);
	pfree(text.data);
}

/* The file may have been brought since. */
static const char *
why_lost(LeClaims *claims)
{
	if (!claims->known)
		load_claims(claims);
	return claims->known ? NULL : claims->file.trouble;
}

/* The obstacle may be gone. */
static const char *
why_no_claim(LeClaims *claims)
{
	const char *why = why_lost(claims);

	if (why != NULL || claims->file.trouble[0] == '\0')
		return why;
	accept_claims(claims);
	return claims->file.trouble[0] == '\0' ? NULL : claims->file.trouble;
}

/*
 * pg_upgrade runs, and this is the new server or the old one.  The old one has
 * the worker's files, unless no worker ever ran there.
 */
void
le_claim_log_upgraded(void)
{
	if (exists(LE_CLAIMS_FILE) || exists(LE_TOKENS_FILE) ||
		exists(LE_UPGRADED_FILE))
		return;
	errno = le_log_create(LE_UPGRADED_FILE, CLAIMS_KIND);
	if (errno != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", LE_UPGRADED_FILE)));
}

const LeClaimLog le_claim_log = {
	.find = find_claim,
	.next = next_claim,
	.has_room = has_room_for_job,
	.keep = keep_claim,
	.lost = why_lost,
	.trouble = why_no_claim,
};

/*
 * Read the file, at the worker's start.  "led": this node has led before with
 * the store "local", so that there has been a file.
 */
LeClaims *
le_claims_load(bool led)
{
	LeClaims   *claims = MemoryContextAllocZero(TopMemoryContext,
												sizeof(LeClaims));
	HASHCTL		ctl = {0};
	StringInfoData text;
	const char *fault;

	dlist_init(&claims->order);
	claims->file.file = LE_CLAIMS_FILE;
	claims->file.kind = CLAIMS_KIND;
	claims->file.owner = claims;
	claims->file.take = take_claim;
	claims->file.put_all = put_claims;
	claims->file.meanwhile = "Nothing can be claimed until then.";
	ctl.keysize = sizeof(Key);
	ctl.entrysize = sizeof(Entry);
	claims->entries = hash_create("leader_election claims", 64, &ctl,
								  HASH_ELEM | HASH_BLOBS);
	claims->led_before = led;
	/* lost before this start: the claims known then are known now */
	if (le_log_read(&claims->file, REST_FILE, &text, &fault) == LE_LOG_WHOLE)
		(void) le_log_take(&claims->file, &text);
	pfree(text.data);
	load_claims(claims);
	return claims;
}
