/*-------------------------------------------------------------------------
 *
 * claimlog.c
 *		The claims of the store "local", kept on disk.
 *
 * A claim that was granted must be there after any crash, or the tick would
 * run again.  So each is written and flushed before anybody hears of it.
 *
 * The file is a log, "<checksum> <election> <record>" per line; the last line
 * of a job counts.  It is rewritten when most of it is out of date.  A line
 * cut off by a crash fails its checksum and is skipped: nobody was told of it.
 *
 * After a write that failed nobody knows what is in the file; before the next
 * one it is rewritten from memory.
 *
 * pg_upgrade makes a new data directory and leaves the file in the old one.
 * Every tick would be free there, also one that has run.  But it loads this
 * library in the new server to see whether it can be: so a mark is left, and
 * with the mark and without the file nothing is claimed until somebody has
 * brought the file, or has removed the mark.
 *
 * src/worker/claimlog.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "lib/ilist.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"
#include "utils/hsearch.h"

#include "settings.h"
#include "shmem/clock.h"
#include "store/claim_record.h"
#include "worker/claimlog.h"

#define CLAIMS_FILE		LE_CLAIMS_FILE
#define CLAIMS_TEMP		LE_CLAIMS_FILE ".tmp"

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

/* How long a claim is kept that is in the way of another job's. */
#define KEPT_MS			(INT64CONST(90) * 86400 * 1000)

static HTAB *entries = NULL;
static dlist_head order = DLIST_STATIC_INIT(order);
static uint64 last_number = 0;
static Entry *shown = NULL;		/* last, by next(); NULL: it is gone */
static int	file = -1;			/* -1: to be rewritten first */
static int	lines = 0;

static void
complain(const char *what)
{
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("could not %s file \"%s\": %m", what, CLAIMS_FILE)));
}

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

/* The one after that with this number, whatever was added or dropped since. */
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

/* Until the file is rewritten it may come back, which is no harm. */
static void
drop(Entry *entry)
{
	if (shown == entry)
		shown = NULL;
	dlist_delete(&entry->place);
	(void) hash_search(entries, &entry->key, HASH_REMOVE, NULL);
}

/*
 * May the election have one more job?  If it has all that it may, those of
 * which nothing was heard for long make room.
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

static uint32
checksum(const char *text, size_t len)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, text, len);
	FIN_CRC32C(crc);
	return crc;
}

static bool
write_line(int to, const LeClaim *claim)
{
	StringInfoData text;
	char	   *line;
	int			len;
	bool		ok;

	initStringInfo(&text);
	appendStringInfo(&text, "%s ", claim->election);
	le_claim_append_text(&text, claim);
	line = psprintf("%08x %s\n", checksum(text.data, text.len), text.data);
	len = (int) strlen(line);
	errno = 0;
	ok = write(to, line, len) == len;
	if (!ok && errno == 0)
		errno = ENOSPC;
	pfree(line);
	pfree(text.data);
	return ok;
}

/* False, and nothing remembered, if the line is not whole. */
static bool
read_line(char *line)
{
	char	   *election = strchr(line, ' ');
	char	   *record;
	LeClaim		claim;

	if (election == NULL)
		return false;
	*election++ = '\0';
	if (strtoul(line, NULL, 16) != checksum(election, strlen(election)) ||
		(record = strchr(election, ' ')) == NULL)
		return false;
	*record++ = '\0';
	if (!le_claim_parse(record, strlen(record), &claim) ||
		!le_valid_election_name(election))
		return false;
	claim.election = election;
	remember(&claim);
	return true;
}

static void
read_lines(FILE *from)
{
	char	   *line = palloc(LE_MAX_CLAIM_TEXT);

	while (fgets(line, LE_MAX_CLAIM_TEXT, from) != NULL)
	{
		line[strcspn(line, "\n")] = '\0';
		(void) read_line(line);
	}
	pfree(line);
}

/* Write only what still counts, beside the old file, and put it in place. */
static bool
rewrite(void)
{
	int			fresh = BasicOpenFile(CLAIMS_TEMP,
									  O_RDWR | O_CREAT | O_TRUNC | PG_BINARY);
	dlist_iter	iter;
	bool		ok = fresh >= 0;

	lines = 0;
	dlist_foreach(iter, &order)
	{
		lines++;
		ok = ok && write_line(fresh,
							  &dlist_container(Entry, place, iter.cur)->claim);
	}
	ok = ok && pg_fsync(fresh) == 0 &&
		durable_rename(CLAIMS_TEMP, CLAIMS_FILE, LOG) == 0;
	if (!ok)
	{
		complain("write");
		if (fresh >= 0)
			close(fresh);
		return false;
	}
	if (file >= 0)
		close(file);
	file = fresh;
	return true;
}

static void
distrust(void)
{
	complain("write");
	close(file);
	file = -1;
}

static bool
keep(const LeClaim *claim)
{
	if (file < 0 && !rewrite())
		return false;
	if (!write_line(file, claim) || pg_fsync(file) != 0)
	{
		distrust();
		return false;
	}
	remember(claim);
	if (++lines > 1024 && lines > 4 * hash_get_num_entries(entries))
		(void) rewrite();
	return true;
}

/* ---- pg_upgrade ---- */

static bool
exists(const char *name)
{
	return access(name, F_OK) == 0;
}

/*
 * pg_upgrade runs, and this is the new server, or the old one: that one has
 * the worker's files, unless no worker ever ran there.
 */
void
le_claim_log_upgraded(void)
{
	int			fd;

	if (exists(CLAIMS_FILE) || exists(LE_TOKENS_FILE))
		return;
	fd = BasicOpenFile(LE_UPGRADED_FILE, O_WRONLY | O_CREAT | PG_BINARY);
	if (fd < 0 || pg_fsync(fd) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", LE_UPGRADED_FILE)));
	close(fd);
}

static const char *
lost(void)
{
	if (!exists(LE_UPGRADED_FILE))
		return NULL;
	if (!exists(CLAIMS_FILE))
		return "pg_upgrade left \"" CLAIMS_FILE "\" in the old data directory: copy it from there, or remove \"" LE_UPGRADED_FILE "\" to start without what was claimed";
	le_claim_log_load();
	if (unlink(LE_UPGRADED_FILE) != 0)
		return "could not remove file \"" LE_UPGRADED_FILE "\"";
	return NULL;
}

const LeClaimLog le_claim_log = {
	.lost = lost,
	.find = find,
	.next = next,
	.has_room = has_room,
	.keep = keep,
};

/* Read the file, at the worker's start. */
void
le_claim_log_load(void)
{
	HASHCTL		ctl = {0};
	FILE	   *old;

	ctl.keysize = sizeof(Key);
	ctl.entrysize = sizeof(Entry);
	entries = hash_create("leader_election claims", 64, &ctl,
						  HASH_ELEM | HASH_BLOBS);
	old = AllocateFile(CLAIMS_FILE, PG_BINARY_R);
	if (old != NULL)
	{
		read_lines(old);
		FreeFile(old);
	}
	else if (errno != ENOENT)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", CLAIMS_FILE)));
	if (old != NULL)
		(void) rewrite();
}
