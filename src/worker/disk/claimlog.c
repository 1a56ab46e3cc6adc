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
	dlist_node	place;			/* in the order of ... */
	uint64		number;
	LeClaim		claim;			/* its strings are here: */
	char		id[LE_CLAIM_ID_LEN + 1];
	char		node[LE_MAX_NODE_NAME_LEN + 1];
	char		sqlstate[LE_SQLSTATE_LEN + 1];
	char		message[LE_MAX_MESSAGE_LEN + 1];
} Entry;

/* Age at which a claim makes way for another job's. */
#define KEPT_MS			(INT64CONST(90) * 86400 * 1000)

static HTAB *entries = NULL;
static dlist_head order = DLIST_STATIC_INIT(order);
static uint64 last_number = 0;
static Entry *shown = NULL;		/* last one returned by next(), or NULL */
static const LeClaim *keeping = NULL;	/* being written, not in entries yet */
static bool led_before = false; /* so that there has been a file */
static bool known = false;		/* all earlier claims are known */

static bool take(char *line);
static void put_all(LeLogLines *lines);

static LeCheckedLog file = {
	.file = LE_CLAIMS_FILE,
	.kind = CLAIMS_KIND,
	.take = take,
	.put_all = put_all,
	.meanwhile = "Nothing can be claimed until then.",
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
remember(const LeClaim *claim)
{
	Key			key;
	Entry	   *entry;
	bool		found;

	set_key(&key, claim->election, claim->job);
	entry = hash_search(entries, &key, HASH_ENTER, &found);
	if (!found)
	{
		entry->number = ++last_number;
		dlist_push_tail(&order, &entry->place);
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
find(const char *election, const char *job)
{
	Key			key;
	Entry	   *entry;

	set_key(&key, election, job);
	entry = hash_search(entries, &key, HASH_FIND, NULL);
	return entry == NULL ? NULL : &entry->claim;
}

static Entry *
first_after(uint64 number)
{
	dlist_iter	iter;

	if (number != 0 && shown != NULL && shown->number == number)
		return !dlist_has_next(&order, &shown->place) ? NULL :
			dlist_container(Entry, place,
							dlist_next_node(&order, &shown->place));
	dlist_foreach(iter, &order)
	{
		Entry	   *entry = dlist_container(Entry, place, iter.cur);

		if (entry->number > number)
			return entry;
	}
	return NULL;
}

/* The claim after this number, whatever was added or dropped since. */
static const LeClaim *
next(uint64 *cursor)
{
	Entry	   *entry = first_after(*cursor);

	if (entry == NULL)
		return NULL;
	shown = entry;
	*cursor = entry->number;
	return &entry->claim;
}

/* It may come back until the file is rewritten, which is no harm. */
static void
drop(Entry *entry)
{
	if (shown == entry)
		shown = NULL;
	dlist_delete(&entry->place);
	(void) hash_search(entries, &entry->key, HASH_REMOVE, NULL);
}

/*
 * May the election have one more job?  At the limit, jobs that were silent for
 * long make way.
 */
static bool
has_room(const char *election)
{
	int64		old = le_tick_now() - KEPT_MS;
	int			njobs = 0;
	dlist_iter	each;
	dlist_mutable_iter iter;

	dlist_foreach(each, &order)
	{
		Entry	   *entry = dlist_container(Entry, place, each.cur);

		njobs += strcmp(entry->key.election, election) == 0;
	}
	if (njobs < le_max_jobs)
		return true;
	dlist_foreach_modify(iter, &order)
	{
		Entry	   *entry = dlist_container(Entry, place, iter.cur);

		if (strcmp(entry->key.election, election) != 0 ||
			entry->claim.tick > old ||
			Max(entry->claim.claimed_at, entry->claim.ended_at) > old)
			continue;
		drop(entry);
		njobs--;
	}
	return njobs < le_max_jobs;
}

/* ---- on disk ---- */

static void
put(LeLogLines *lines, const LeClaim *claim)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "%s ", claim->election);
	le_claim_append_text(&text, claim);
	le_log_line(lines, text.data);
	pfree(text.data);
}

static void
put_all(LeLogLines *lines)
{
	dlist_iter	iter;

	dlist_foreach(iter, &order)
		put(lines, &dlist_container(Entry, place, iter.cur)->claim);
	if (keeping != NULL)
		put(lines, keeping);
}

static bool
take(char *line)
{
	char	   *record = strchr(line, ' ');
	LeClaim		claim;

	if (record == NULL)
		return false;
	*record++ = '\0';
	if (!le_claim_parse(record, strlen(record), &claim) ||
		!le_valid_election_name(line))
		return false;
	claim.election = line;
	remember(&claim);
	return true;
}

static bool
keep(const LeClaim *claim)
{
	LeLogLines	lines;
	bool		ok;

	le_log_begin(&lines);
	put(&lines, claim);
	keeping = claim;
	ok = le_log_append(&file, &lines, true);
	keeping = NULL;
	pfree(lines.text.data);
	if (ok)
		remember(claim);
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
offered(void)
{
	return exists(LE_UPGRADED_FILE) || exists(REST_FILE);
}

static void
withdraw(const char *name)
{
	if (unlink(name) != 0 && errno != ENOENT)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not remove file \"%s\": %m", name)));
}

/* Offered files stay until they are not needed, even after a crash. */
static void
settle(void)
{
	known = true;
	if (!le_log_rewrite(&file))
		return;
	withdraw(LE_UPGRADED_FILE);
	withdraw(REST_FILE);
}

/* Report why nothing can be claimed, and the remedy. */
static void
wait_for_file(const char *fault)
{
	const char *offer = exists(LE_UPGRADED_FILE) ?
		"copy it from there, or rename \"" LE_UPGRADED_FILE "\" to it to start without what was claimed" :
		"put a whole copy in its place, or rename \"" REST_FILE "\" to it to go on with what was read";

	if (fault != NULL)
		le_log_trouble(&file, "\"%s\" is not whole, %s: %s", LE_CLAIMS_FILE,
					   fault, offer);
	else if (exists(LE_UPGRADED_FILE))
		le_log_trouble(&file,
					   "pg_upgrade left \"%s\" in the old data directory: %s",
					   LE_CLAIMS_FILE, offer);
	else
		le_log_trouble(&file, "\"%s\" was damaged or removed: %s",
					   LE_CLAIMS_FILE, offer);
}

static void
lose(void)
{
	if (offered() || le_log_copy(&file, REST_FILE))
		wait_for_file(NULL);
}

/*
 * The first time, take the readable lines and move the file out of the way.
 * Later leave it alone: an administrator may be about to bring it.
 */
static void
found_damaged(const char *fault, StringInfo text)
{
	if (offered())
	{
		wait_for_file(fault);
		return;
	}
	(void) le_log_take(&file, text);
	if (le_log_copy(&file, REST_FILE) &&
		le_log_keep_aside(&file, fault,
						  "Nothing can be claimed, since ticks that have run might run again.",
						  "Put a whole copy in its place, or rename \"" REST_FILE "\" to it to go on with what could be read."))
		wait_for_file(NULL);
}

static void
forget_all(void)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &order)
		drop(dlist_container(Entry, place, iter.cur));
}

static void
load(void)
{
	StringInfoData text;
	const char *fault;
	LeLogState	found = le_log_read(&file, LE_CLAIMS_FILE, &text, &fault);

	if (found == LE_LOG_WHOLE)
	{
		forget_all();
		if (!le_log_take(&file, &text))
		{
			found = LE_LOG_DAMAGED;
			fault = "it was written by another version";
		}
	}
	if (found == LE_LOG_WHOLE ||
		(found == LE_LOG_ABSENT && !led_before && !offered()))
		settle();
	else if (found == LE_LOG_ABSENT)
		lose();
	else if (found == LE_LOG_DAMAGED)
		found_damaged(fault, &text);
	pfree(text.data);
}

/* The file may have been brought since. */
static const char *
lost(void)
{
	if (!known)
		load();
	return known ? NULL : file.trouble;
}

/* The obstacle may be gone. */
static const char *
trouble(void)
{
	const char *why = lost();

	if (why != NULL || file.trouble[0] == '\0')
		return why;
	settle();
	return file.trouble[0] == '\0' ? NULL : file.trouble;
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
	.find = find,
	.next = next,
	.has_room = has_room,
	.keep = keep,
	.lost = lost,
	.trouble = trouble,
};

/*
 * Read the file, at the worker's start.  "led": this node has led before with
 * the store "local", so that there has been a file.
 */
void
le_claim_log_load(bool led)
{
	HASHCTL		ctl = {0};
	StringInfoData text;
	const char *fault;

	ctl.keysize = sizeof(Key);
	ctl.entrysize = sizeof(Entry);
	entries = hash_create("leader_election claims", 64, &ctl,
						  HASH_ELEM | HASH_BLOBS);
	led_before = led;
	/* lost before this start: the claims known then are known now */
	if (le_log_read(&file, REST_FILE, &text, &fault) == LE_LOG_WHOLE)
		(void) le_log_take(&file, &text);
	pfree(text.data);
	load();
}
