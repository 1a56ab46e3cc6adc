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
 * The file is a log, "<token> <election> <checksum>" per line; the highest
 * line of an election counts, except that a line with token 0 forgets what
 * came before it.  It is rewritten when most of it is out of date.  A line
 * cut off by a crash fails its checksum and is skipped.  Lines are not synced
 * one by one: what is lost with the operating system's cache matters only if
 * the store was rebuilt at the same time, and a sync here would hold up the
 * renewals of every lease.
 *
 * It lies in the data directory and is part of a base backup on purpose: a
 * restored node should remember too.
 *
 * src/worker/tokens.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "port/pg_crc32c.h"
#include "storage/fd.h"
#include "utils/hsearch.h"

#include "store/store.h"
#include "worker/tokens.h"

#define TOKENS_FILE		"leader_election.tokens"
#define TOKENS_TEMP		"leader_election.tokens.tmp"

typedef struct Entry
{
	char		election[LE_MAX_ELECTION_LEN + 1];	/* hash key, first */
	uint64		token;
} Entry;

static HTAB *entries = NULL;
static FILE *file = NULL;
static int	lines = 0;

static uint32
checksum(uint64 token, const char *election)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &token, sizeof(token));
	COMP_CRC32C(crc, election, strlen(election));
	FIN_CRC32C(crc);
	return crc;
}

static bool
write_line(FILE *to, uint64 token, const char *election)
{
	return fprintf(to, UINT64_FORMAT " %s %08x\n", token, election,
				   checksum(token, election)) > 0;
}

static void
complain(const char *what)
{
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("could not %s file \"%s\": %m", what, TOKENS_FILE)));
}

static void
remember(const char *election, uint64 token)
{
	bool		found;
	Entry	   *entry = hash_search(entries, election, HASH_ENTER, &found);

	if (!found || token == 0 || token > entry->token)
		entry->token = token;
}

static void
read_lines(FILE *from)
{
	char		line[LE_MAX_ELECTION_LEN + 64];

	while (fgets(line, sizeof(line), from) != NULL)
	{
		char		election[LE_MAX_ELECTION_LEN + 1];
		unsigned long long token;
		uint32		crc;

		lines++;
		if (sscanf(line, "%llu %200s %8x", &token, election, &crc) == 3 &&
			crc == checksum(token, election))
			remember(election, token);
	}
}

/* Write only what still counts, beside the old file, and put it in place. */
static void
rewrite(void)
{
	HASH_SEQ_STATUS status;
	Entry	   *entry;
	FILE	   *fresh = fopen(TOKENS_TEMP, PG_BINARY_W);
	bool		ok = fresh != NULL;

	lines = 0;
	hash_seq_init(&status, entries);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (ok && entry->token != 0)
			ok = write_line(fresh, entry->token, entry->election);
		lines++;
	}
	ok = ok && fflush(fresh) == 0 && fsync(fileno(fresh)) == 0 &&
		rename(TOKENS_TEMP, TOKENS_FILE) == 0;
	if (!ok)
	{
		complain("write");
		if (fresh != NULL)
			fclose(fresh);
		return;
	}
	if (file != NULL)
		fclose(file);
	file = fresh;
}

/*
 * Read the file at the worker's start.  The stream stays open for appending;
 * plain stdio, since it must survive errors that close AllocateFile()'s.
 */
void
le_tokens_load(void)
{
	HASHCTL		ctl = {0};
	FILE	   *old;

	ctl.keysize = LE_MAX_ELECTION_LEN + 1;
	ctl.entrysize = sizeof(Entry);
	entries = hash_create("leader_election tokens", 256, &ctl,
						  HASH_ELEM | HASH_STRINGS);
	old = AllocateFile(TOKENS_FILE, PG_BINARY_R);
	if (old != NULL)
	{
		read_lines(old);
		FreeFile(old);
	}
	else if (errno != ENOENT)
		complain("open");
	rewrite();
}

uint64
le_token_floor(const char *election)
{
	Entry	   *entry = hash_search(entries, election, HASH_FIND, NULL);

	return entry == NULL ? 0 : entry->token;
}

static void
append(const char *election, uint64 token)
{
	remember(election, token);
	if (file == NULL || !write_line(file, token, election) ||
		fflush(file) != 0)
		complain("write");
	if (++lines > 1024 && lines > 4 * hash_get_num_entries(entries))
		rewrite();
}

void
le_token_seen(const char *election, uint64 token)
{
	if (token > le_token_floor(election))
		append(election, token);
}

/* le_reset_token(): lower tokens are accepted from here on. */
void
le_token_forget(const char *election)
{
	append(election, 0);
}
