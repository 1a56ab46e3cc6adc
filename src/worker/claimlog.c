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
 * src/worker/claimlog.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "port/pg_crc32c.h"
#include "storage/fd.h"
#include "utils/hsearch.h"

#include "store/claim_record.h"
#include "worker/claimlog.h"

#define CLAIMS_FILE		"leader_election.claims"
#define CLAIMS_TEMP		"leader_election.claims.tmp"

typedef struct Key
{
	char		election[LE_MAX_ELECTION_LEN + 1];
	char		job[LE_MAX_JOB_LEN + 1];
} Key;

typedef struct Entry
{
	Key			key;			/* hash key, first */
	LeClaim		claim;			/* its strings are here: */
	char		id[LE_CLAIM_ID_LEN + 1];
	char		node[LE_MAX_NODE_NAME_LEN + 1];
} Entry;

static HTAB *entries = NULL;
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

static void
remember(const LeClaim *claim)
{
	Key			key;
	Entry	   *entry;

	set_key(&key, claim->election, claim->job);
	entry = hash_search(entries, &key, HASH_ENTER, NULL);
	strlcpy(entry->id, claim->id, sizeof(entry->id));
	strlcpy(entry->node, claim->node, sizeof(entry->node));
	entry->claim = *claim;
	entry->claim.election = entry->key.election;
	entry->claim.job = entry->key.job;
	entry->claim.id = entry->id;
	entry->claim.node = entry->node;
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

static const LeClaim *
next(int *cursor)
{
	HASH_SEQ_STATUS status;
	Entry	   *entry;
	int			n = 0;

	hash_seq_init(&status, entries);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (n++ < *cursor)
			continue;
		hash_seq_term(&status);
		(*cursor)++;
		return &entry->claim;
	}
	return NULL;
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
	const LeClaim *claim;
	bool		ok = fresh >= 0;

	lines = 0;
	while (ok && (claim = next(&lines)) != NULL)
		ok = write_line(fresh, claim);
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

const LeClaimLog le_claim_log = {
	.find = find,
	.next = next,
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
