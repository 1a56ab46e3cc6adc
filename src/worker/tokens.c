/*-------------------------------------------------------------------------
 *
 * tokens.c
 *		The highest fencing token seen of each election, kept on disk.
 *
 * A store that was rebuilt or restored hands out tokens that are lower than
 * ones already in use, and whatever checks tokens would then refuse the new
 * leader or, worse, let an old one in.  So the node remembers the highest it
 * has seen, restarts included, and does not lead with less.
 *
 * Tokens can be compared only where they come from one sequence: Consul counts
 * the writes of one datacenter, the store "local" the bytes of this instance's
 * write-ahead log.  So what is kept is kept by store, datacenter and prefix;
 * one that was tried first does not keep a node from leading in another.  The
 * URL does not count: a store that was rebuilt elsewhere must be noticed too,
 * and an instance that is to use another cluster on purpose is told to call
 * le_reset_token().
 *
 * A term begins when its token is on disk, and not if it cannot be written: a
 * node must not lead with what it would not know after a crash.  The tokens of
 * others, which it merely sees, are written too, but not synced one by one.
 * All of a turn of the worker are written together, with one sync.  With the
 * store "local" not even that: there a token is a position of the write-ahead
 * log that was flushed before, and no later one can be lower.
 *
 * The file is a log, "<token> <place> <election> <checksum>" per line; the
 * highest line of an election counts, except that a line with token 0 forgets
 * what came before it.  The first line has the number of those that were
 * synced; so a file that is damaged or cut short can be told from one whose
 * last lines a crash has spoilt, which nobody has relied on.  The former is
 * kept aside, under another name, for people to look at; what can be read of
 * it counts.  It is rewritten when most of it is out of date, and after a
 * write that failed, since nobody knows then what is in it.
 *
 * The file is opened for each write: one that was removed or replaced by hand
 * meanwhile is noticed, and written anew.
 *
 * It lies in the data directory and is part of a base backup on purpose: a
 * restored node should remember too.
 *
 * src/worker/tokens.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "settings.h"
#include "shmem/events.h"
#include "worker/tokens.h"

#define TOKENS_FILE		LE_TOKENS_FILE
#define TOKENS_TEMP		TOKENS_FILE ".tmp"

/* Fixed in length, since it is written in place. */
#define HEADER_FORMAT	"leader_election tokens 1 %010d %08x\n"
#define HEADER_SCAN		"leader_election tokens 1 %d %x"
#define HEADER_LEN		45

/* "<store>:<datacenter>:<prefix>"; none of them holds a colon or a blank. */
#define MAX_PLACE_LEN	(16 + LE_MAX_PART_LEN + LE_MAX_ELECTION_LEN + 2)

typedef struct Key
{
	char		election[LE_MAX_ELECTION_LEN + 1];
	int			place;			/* in the list of those */
} Key;

typedef struct Entry
{
	Key			key;			/* hash key, first */
	uint64		token;
	bool		unwritten;		/* in the list of those */
} Entry;

static HTAB *entries = NULL;
static List *places = NIL;		/* of strings; few */
static List *unwritten = NIL;	/* of entries */
static bool loaded = false;		/* what the file said is in "entries" */
static off_t size = -1;			/* of the file as it was left; -1: not known,
								 * it is to be rewritten */
static int	lines = 0;
static bool synced = true;		/* all of them */
static char trouble[LE_MAX_ERROR_LEN + 1];	/* "": it can be written */

/* The number of a place; one that is seen for the first time gets one. */
static int
number_of(const char *place)
{
	MemoryContext old;
	ListCell   *cell;

	foreach(cell, places)
		if (strcmp(lfirst(cell), place) == 0)
			return foreach_current_index(cell);
	old = MemoryContextSwitchTo(TopMemoryContext);
	places = lappend(places, pstrdup(place));
	MemoryContextSwitchTo(old);
	return list_length(places) - 1;
}

/* Where the keys are that this node sees at present. */
static int
this_place(void)
{
	char		place[MAX_PLACE_LEN + 1];

	snprintf(place, sizeof(place), "%s:%s:%s", le_configured_store()->name,
			 le_table->place.part, le_table->place.prefix);
	return number_of(place);
}

static void
set_key(Key *key, int place, const char *election)
{
	memset(key, 0, sizeof(*key));
	strlcpy(key->election, election, sizeof(key->election));
	key->place = place;
}

static uint32
checksum(uint64 token, const char *place, const char *election)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &token, sizeof(token));
	COMP_CRC32C(crc, place, strlen(place) + 1);
	COMP_CRC32C(crc, election, strlen(election));
	FIN_CRC32C(crc);
	return crc;
}

static void
append_line(StringInfo buf, const Entry *entry)
{
	const char *place = list_nth(places, entry->key.place);

	appendStringInfo(buf, UINT64_FORMAT " %s %s %08x\n", entry->token, place,
					 entry->key.election,
					 checksum(entry->token, place, entry->key.election));
}

static uint32
header_checksum(int n)
{
	return checksum((uint64) n, "", "");
}

static Entry *
find_or_add(const Key *key)
{
	bool		found;
	Entry	   *entry = hash_search(entries, key, HASH_ENTER, &found);

	if (!found)
	{
		entry->token = 0;
		entry->unwritten = false;
	}
	return entry;
}

/* ---- when it fails ---- */

/*
 * Say so, once for each reason, and keep it for those who ask.  A function of
 * the standard library that fails may leave errno alone, as write() does that
 * wrote less than it should.
 */
static void
failed(const char *what, int error)
{
	char		now[sizeof(trouble)];

	errno = error != 0 ? error : ENOSPC;
	snprintf(now, sizeof(now), "could not %s file \"%s\": %m", what,
			 TOKENS_FILE);
	size = -1;
	if (strcmp(now, trouble) == 0)
		return;
	strlcpy(trouble, now, sizeof(trouble));
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("%s", trouble),
			 errdetail("This node begins no term until the file can be used.")));
	le_event(LE_EVENT_FILE_TROUBLE, NULL, 0, "%s", trouble);
}

static void
succeeded(void)
{
	if (trouble[0] == '\0')
		return;
	trouble[0] = '\0';
	ereport(LOG,
			(errmsg("file \"%s\" can be written again", TOKENS_FILE)));
	le_event(LE_EVENT_FILE_WRITTEN, NULL, 0, "%s", TOKENS_FILE);
}

/* Not what this node left: out of the way, but not lost. */
static bool
keep_aside(const char *why)
{
	char		aside[MAXPGPATH];

	snprintf(aside, sizeof(aside), "%s%ld", LE_TOKENS_DAMAGED,
			 (long) time(NULL));
	if (rename(TOKENS_FILE, aside) != 0)
	{
		failed("rename", errno);
		return false;
	}
	ereport(LOG,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("file \"%s\" is damaged: %s", TOKENS_FILE, why),
			 errdetail("It is kept as \"%s\". What could be read of it counts.",
					   aside),
			 errhint("Should the store have been rebuilt or restored lately, lower fencing tokens may not be noticed.")));
	le_event(LE_EVENT_FILE_TROUBLE, NULL, 0,
			 "\"%s\" is damaged: %s; kept as \"%s\"", TOKENS_FILE, why,
			 aside);
	return true;
}

/* ---- reading ---- */

static bool
read_line(const char *line)
{
	char		place[MAX_PLACE_LEN + 1];
	char		election[LE_MAX_ELECTION_LEN + 1];
	unsigned long long token;
	uint32		crc;
	Key			key;
	Entry	   *entry;

	if (sscanf(line, "%llu %473s %200s %8x", &token, place, election,
			   &crc) != 4 ||
		crc != checksum(token, place, election))
		return false;
	set_key(&key, number_of(place), election);
	entry = find_or_add(&key);
	if (token == 0 || token > entry->token)
		entry->token = token;
	return true;
}

/*
 * NULL if all is well: each line that was synced is there, and whole.  Else
 * why not; what can be read is taken all the same.
 */
static const char *
read_lines(FILE *from)
{
	char		line[MAX_PLACE_LEN + LE_MAX_ELECTION_LEN + 64];
	const char *fault = NULL;
	int			promised;
	uint32		crc;
	int			n = 0;

	if (fgets(line, sizeof(line), from) == NULL)
		return "it is empty";
	if (sscanf(line, HEADER_SCAN, &promised, &crc) != 2 ||
		crc != header_checksum(promised))
	{
		fault = "its first line is not what it should be";
		promised = 0;
	}
	for (; fgets(line, sizeof(line), from) != NULL; n++)
		if (!read_line(line) && n < promised && fault == NULL)
			fault = psprintf("line %d is not what was written", n + 2);
	if (fault == NULL && n < promised)
		fault = psprintf("it has %d lines of %d", n, promised);
	return fault;
}

StaticAssertDecl(MAX_PLACE_LEN == 473, "read_line() says 473");

/* False: there may be something in it that is not known. */
static bool
load(void)
{
	FILE	   *old = AllocateFile(TOKENS_FILE, PG_BINARY_R);
	const char *fault;
	int			error;

	if (old == NULL && errno == ENOENT)
		return true;
	if (old == NULL)
	{
		failed("open", errno);
		return false;
	}
	errno = 0;
	fault = read_lines(old);
	error = ferror(old) ? errno : 0;
	FreeFile(old);
	if (error == EISDIR)
		fault = "it is a directory";
	else if (error != 0)
	{
		failed("read", error);
		return false;
	}
	return fault == NULL || keep_aside(fault);
}

/* ---- writing ---- */

static void
append_header(StringInfo buf, int n)
{
	appendStringInfo(buf, HEADER_FORMAT, n, header_checksum(n));
	Assert(buf->len == HEADER_LEN);
}

static bool
write_at(int fd, const StringInfoData *buf, off_t at)
{
	errno = 0;
	return pg_pwrite(fd, buf->data, buf->len, at) == buf->len;
}

static void
all_written(void)
{
	ListCell   *cell;

	foreach(cell, unwritten)
		((Entry *) lfirst(cell))->unwritten = false;
	list_free(unwritten);
	unwritten = NIL;
	succeeded();
}

/* Write only what still counts, beside the old file, and put it in place. */
static bool
rewrite(void)
{
	HASH_SEQ_STATUS status;
	Entry	   *entry;
	StringInfoData head;
	StringInfoData text;
	int			fd = BasicOpenFile(TOKENS_TEMP,
								   O_RDWR | O_CREAT | O_TRUNC | PG_BINARY);
	bool		ok;
	int			error;
	int			n = 0;

	initStringInfo(&head);
	initStringInfo(&text);
	hash_seq_init(&status, entries);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (entry->token == 0)
			continue;
		append_line(&text, entry);
		n++;
	}
	append_header(&head, n);
	ok = fd >= 0 && write_at(fd, &head, 0) &&
		write_at(fd, &text, HEADER_LEN) && pg_fsync(fd) == 0;
	error = errno;
	if (fd >= 0)
		close(fd);
	if (ok)
	{
		ok = durable_rename(TOKENS_TEMP, TOKENS_FILE, LOG) == 0;
		error = errno;
	}
	if (!ok)
		failed("write", error);
	else
	{
		size = HEADER_LEN + text.len;
		lines = n;
		synced = true;
		all_written();
	}
	pfree(head.data);
	pfree(text.data);
	return ok;
}

/* As it was left, or the file is not that any more. */
static int
open_again(void)
{
	int			fd = BasicOpenFile(TOKENS_FILE, O_RDWR | PG_BINARY);
	struct stat st;

	if (fd < 0 || (fstat(fd, &st) == 0 && st.st_size == size))
		return fd;
	close(fd);
	return -1;
}

/* False: nobody knows what is in the file now. */
static bool
append(int fd, bool sync)
{
	StringInfoData text;
	StringInfoData head;
	ListCell   *cell;
	bool		ok;

	initStringInfo(&text);
	foreach(cell, unwritten)
		append_line(&text, lfirst(cell));
	ok = write_at(fd, &text, size);
	size += text.len;
	lines += list_length(unwritten);
	pfree(text.data);
	if (!ok || !sync)
	{
		synced = synced && text.len == 0;
		return ok;
	}
	initStringInfo(&head);
	append_header(&head, lines);
	ok = write_at(fd, &head, 0) && pg_fsync(fd) == 0;
	pfree(head.data);
	synced = true;
	return ok;
}

/* Is most of it? */
static bool
out_of_date(void)
{
	return lines > 1024 && lines > 4 * hash_get_num_entries(entries);
}

/*
 * Write what was seen since the last time; with "sync" it is on disk when this
 * returns.  False: it is not, le_tokens_trouble() says why.
 */
bool
le_tokens_keep(bool sync)
{
	int			fd;
	bool		ok;
	int			error;

	if (unwritten == NIL && (synced || !sync))
		return trouble[0] == '\0';
	/* Not in each turn: le_tokens_try() tells when it can be written again. */
	if (!loaded || (trouble[0] != '\0' && !sync))
		return false;
	if (size < 0 || out_of_date() || (fd = open_again()) < 0)
		return rewrite();
	ok = append(fd, sync);
	error = errno;
	close(fd);
	if (!ok)
		failed("write", error);
	else
		all_written();
	return ok;
}

/* Has what stood in the way gone?  Costs nothing while all is well. */
bool
le_tokens_try(void)
{
	if (trouble[0] == '\0')
		return true;
	if (!loaded)
		loaded = load();
	return loaded && rewrite();
}

/* Why tokens cannot be kept; "" if they can. */
const char *
le_tokens_trouble(void)
{
	return trouble;
}

/* Read the file at the worker's start. */
void
le_tokens_load(void)
{
	HASHCTL		ctl = {0};

	ctl.keysize = sizeof(Key);
	ctl.entrysize = sizeof(Entry);
	entries = hash_create("leader_election tokens", 256, &ctl,
						  HASH_ELEM | HASH_BLOBS);
	loaded = load();
	if (loaded)
		(void) rewrite();
}

/* ---- what the worker asks ---- */

/* The highest that was seen where the keys are now; 0: none. */
uint64
le_token_floor(const char *election)
{
	Key			key;
	Entry	   *entry;

	set_key(&key, this_place(), election);
	entry = hash_search(entries, &key, HASH_FIND, NULL);
	return entry == NULL ? 0 : entry->token;
}

static void
set_token(const char *election, uint64 token)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	Key			key;
	Entry	   *entry;

	set_key(&key, this_place(), election);
	entry = find_or_add(&key);
	entry->token = token;
	if (!entry->unwritten)
		unwritten = lappend(unwritten, entry);
	entry->unwritten = true;
	MemoryContextSwitchTo(old);
}

/* In memory; le_tokens_keep() writes it. */
void
le_token_seen(const char *election, uint64 token)
{
	if (token > le_token_floor(election))
		set_token(election, token);
}

/*
 * le_reset_token(): lower tokens are accepted from here on.  False: that could
 * not be written, and nothing has changed.
 */
bool
le_token_forget(const char *election)
{
	uint64		floor = le_token_floor(election);

	if (!le_tokens_try())
		return false;
	set_token(election, 0);
	if (le_tokens_keep(true))
		return true;
	set_token(election, floor);
	return false;
}
