/*-------------------------------------------------------------------------
 *
 * tokens.c
 *		The highest fencing tokens and the latest records seen, kept on disk.
 *
 * A store that was rebuilt or restored hands out tokens that are lower than
 * ones already in use, and a check of tokens would then refuse the new leader
 * or, worse, let an old one in.  So the node remembers the highest token it
 * has seen, restarts included, and does not lead with a lower one.
 *
 * Tokens can be compared only where they come from one sequence: Consul counts
 * the writes of one datacenter, the store "local" the bytes of this instance's
 * write-ahead log.  So they are kept by store, datacenter and prefix; a store
 * that was tried first does not keep a node from leading in another.  The URL
 * does not count: a store that was rebuilt elsewhere must be noticed too, and
 * an instance that is to use another cluster on purpose is told to call
 * le_accept_store().
 *
 * The same is true of the records of jobs: a store that was restored has older
 * ones, and by those a tick would run again.  So the node remembers of each
 * job how often the latest record that it has seen was written, and its tick.
 *
 * A term begins when its token is on disk, and not if it cannot be written: a
 * node must not lead with a token that it would not know after a crash.  The
 * tokens of others, which it merely sees, and records are written too, but not
 * synced one by one: a record that was seen is not lost with the server, but
 * with the machine.  All tokens of a turn are written together, with one sync.
 * The store "local" needs not even that: its token is a position of the
 * write-ahead log that was flushed before, and no later one can be lower.
 *
 * The store "local" goes back together with this file: on a standby that is
 * promoted, or a server that was restored, both are as old as the base backup.
 * But such a server begins a new timeline.  Then each tick up to this moment
 * counts as one that was seen and lost, whatever the job, and tokens get a new
 * generation, which is higher than all before.  There are as many generations
 * as there were timelines, and one more where pg_upgrade began anew with the
 * first.
 *
 * The file is a checked log, "<token> <namespace> <election>" per line, and
 * "<writes> <namespace> <job's key> <tick>" for a record; the highest token of
 * an election counts, and the latest record of a job.  "<generation and timeline> <namespace> / <tick>"
 * is the change of timeline, with the tick up to which none is claimed, and an
 * election's name before the slash if the tick is another there.  A damaged
 * file is kept aside, under another name, for people to look at; its readable
 * lines count.
 *
 * The file lies in the data directory and is part of a base backup on purpose:
 * a restored node should remember too.
 *
 * src/worker/disk/tokens.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "nodes/pg_list.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "settings.h"
#include "shmem/clock.h"
#include "store/claim_record.h"
#include "worker/disk/checkedlog.h"
#include "worker/disk/tokens.h"

/* "<store>:<datacenter>:<prefix>"; none of them holds a colon or a blank. */
#define MAX_NAMESPACE_LEN	(16 + LE_MAX_PART_LEN + LE_MAX_ELECTION_LEN + 2)

/* "<election>/<job>", with three characters for an escaped one. */
#define MAX_NAME_LEN	(LE_MAX_ELECTION_LEN + 1 + 3 * LE_MAX_JOB_LEN)

/* In the place of a job, which has no such name: the change of timeline. */
#define TIMELINE		"\1"

/*
 * By how much the clock of the server that ran ticks before this one may have
 * been ahead of ours, and its timers early; in ms.
 */
#define APART			INT64CONST(60000)

typedef struct Key
{
	int			namespace;		/* index in "namespaces" */
	char		election[LE_MAX_ELECTION_LEN + 1];
	char		job[LE_MAX_JOB_LEN + 1];	/* "": the election itself */
} Key;

typedef struct Entry
{
	Key			key;			/* hash key, first */
	uint64		number;			/* the token, the record's writes, or the
								 * generation and the timeline */
	int64		tick;			/* the record's, or the last that is refused */
	bool		unwritten;		/* is in "unwritten" */
} Entry;

struct LeTokens
{
	HTAB	   *entries;
	List	   *namespaces;		/* strings; few */
	List	   *unwritten;		/* entries */
	bool		loaded;			/* the file's contents are in "entries" */
	bool		damaged;		/* there may have been more in it */
	uint64		generation;		/* of tokens of the store "local"; 0: not known
								 * yet */
	LeCheckedLog file;
};

/* The number of a namespace; a new one gets the next. */
static int
number_of(LeTokens *tokens, const char *namespace)
{
	MemoryContext old;
	ListCell   *cell;

	foreach(cell, tokens->namespaces)
		if (strcmp(lfirst(cell), namespace) == 0)
			return foreach_current_index(cell);
	old = MemoryContextSwitchTo(TopMemoryContext);
	tokens->namespaces = lappend(tokens->namespaces, pstrdup(namespace));
	MemoryContextSwitchTo(old);
	return list_length(tokens->namespaces) - 1;
}

/* The namespace of the keys that this node sees at present. */
static int
this_namespace(LeTokens *tokens)
{
	char		namespace[MAX_NAMESPACE_LEN + 1];

	snprintf(namespace, sizeof(namespace), "%s:%s:%s",
			 le_configured_store()->name,
			 le_table->namespace.part, le_table->namespace.prefix);
	return number_of(tokens, namespace);
}

static void
set_key(Key *key, int namespace, const char *election, const char *job)
{
	memset(key, 0, sizeof(*key));
	strlcpy(key->election, election, sizeof(key->election));
	strlcpy(key->job, job, sizeof(key->job));
	key->namespace = namespace;
}

static Entry *
find_or_add(LeTokens *tokens, const Key *key)
{
	bool		found;
	Entry	   *entry = hash_search(tokens->entries, key, HASH_ENTER, &found);

	if (!found)
	{
		entry->number = 0;
		entry->tick = 0;
		entry->unwritten = false;
	}
	return entry;
}

/* ---- the file ---- */

static void
put_entry(LeTokens *tokens, LeLogLines *lines, const Entry *entry)
{
	const char *namespace = list_nth(tokens->namespaces,
									 entry->key.namespace);
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, UINT64_FORMAT " %s ", entry->number, namespace);
	if (entry->key.job[0] == '\0')
		appendStringInfoString(&text, entry->key.election);
	else
	{
		if (strcmp(entry->key.job, TIMELINE) == 0)
			appendStringInfo(&text, "%s/", entry->key.election);
		else
			le_claim_append_key(&text, entry->key.election, entry->key.job);
		appendStringInfo(&text, " " INT64_FORMAT, entry->tick);
	}
	le_log_line(lines, text.data);
	pfree(text.data);
}

static void
put_tokens(void *owner, LeLogLines *lines)
{
	LeTokens   *tokens = owner;
	HASH_SEQ_STATUS status;
	Entry	   *entry;

	hash_seq_init(&status, tokens->entries);
	while ((entry = hash_seq_search(&status)) != NULL)
		if (entry->number != 0)
			put_entry(tokens, lines, entry);
}

/* The election and the job of a line with a tick. */
static bool
split_name(char *name, char **election, char **job)
{
	size_t		len = strlen(name);

	if (name[len - 1] != '/')
		return le_claim_split_key(name, election, job);
	name[len - 1] = '\0';
	*election = name;
	*job = TIMELINE;
	return name[0] == '\0' || le_valid_election_name(name);
}

/* Does the line have more than the ones before it? */
static bool
is_later(const Entry *entry, uint64 number, int64 tick)
{
	LeSeenRecord record = {.writes = number, .tick = tick};
	LeSeenRecord before = {.writes = entry->number, .tick = entry->tick};
	bool		is_record = entry->key.job[0] != '\0' &&
		strcmp(entry->key.job, TIMELINE) != 0;

	return is_record && before.writes != 0 ?
		le_record_is_later(&record, &before) : number > entry->number;
}

static bool
take_line(void *owner, char *line)
{
	LeTokens   *tokens = owner;
	char		namespace[MAX_NAMESPACE_LEN + 1];
	char		name[MAX_NAME_LEN + 1];
	char	   *election = name;
	char	   *job = "";
	unsigned long long number;
	long long	tick = 0;
	int			n = sscanf(line, "%llu %473s %801s %lld", &number, namespace,
						   name, &tick);
	Key			key;
	Entry	   *entry;

	if (n == 4 ? !split_name(name, &election, &job) :
		n != 3 || !le_valid_election_name(election))
		return false;
	set_key(&key, number_of(tokens, namespace), election, job);
	entry = find_or_add(tokens, &key);
	if (is_later(entry, number, tick))
	{
		entry->number = number;
		entry->tick = tick;
	}
	return true;
}

StaticAssertDecl(MAX_NAMESPACE_LEN == 473, "take_line() says 473");
StaticAssertDecl(MAX_NAME_LEN == 801, "take_line() says 801");

/* False: the file may hold tokens that are not known. */
static bool
load_tokens(LeTokens *tokens)
{
	StringInfoData text;
	const char *fault;
	LeLogState	found = le_log_read(&tokens->file, LE_TOKENS_FILE, &text,
									&fault);

	if (found == LE_LOG_UNREAD)
		return false;
	if (!le_log_take(&tokens->file, &text) && fault == NULL)
		fault = "it was written by another version";
	pfree(text.data);
	tokens->damaged = fault != NULL;
	return !tokens->damaged ||
		le_log_keep_aside(&tokens->file, fault,
						  "Its readable lines count.",
						  "Should the store have been rebuilt or restored lately, lower fencing tokens may not be noticed.");
}

static void
all_written(LeTokens *tokens)
{
	ListCell   *cell;

	foreach(cell, tokens->unwritten)
		((Entry *) lfirst(cell))->unwritten = false;
	list_free(tokens->unwritten);
	tokens->unwritten = NIL;
}

static bool
rewrite_tokens(LeTokens *tokens)
{
	bool		ok = le_log_rewrite(&tokens->file);

	if (ok)
		all_written(tokens);
	return ok;
}

static bool
append_tokens(LeTokens *tokens, bool sync)
{
	LeLogLines	lines;
	ListCell   *cell;
	bool		ok;

	le_log_begin(&lines);
	foreach(cell, tokens->unwritten)
		put_entry(tokens, &lines, lfirst(cell));
	ok = le_log_append(&tokens->file, &lines, sync);
	if (ok)
		all_written(tokens);
	pfree(lines.text.data);
	return ok;
}

/*
 * Write the tokens seen since the last time; with "sync" they are on disk when
 * this returns.  False: they are not, le_tokens_trouble() says why.
 */
bool
le_tokens_keep(LeTokens *tokens, bool sync)
{
	if (tokens->unwritten == NIL && (le_log_synced(&tokens->file) || !sync))
		return tokens->file.trouble[0] == '\0';
	/* Not in each turn: le_tokens_try() tells when it can be written again. */
	if (!tokens->loaded || (tokens->file.trouble[0] != '\0' && !sync))
		return false;
	return append_tokens(tokens, sync);
}

/* Is the obstacle gone?  Costs nothing while all is well. */
bool
le_tokens_try(LeTokens *tokens)
{
	if (tokens->file.trouble[0] == '\0')
		return true;
	if (!tokens->loaded)
		tokens->loaded = load_tokens(tokens);
	return tokens->loaded && rewrite_tokens(tokens);
}

/* The reason why tokens cannot be kept; "" if they can. */
const char *
le_tokens_trouble(LeTokens *tokens)
{
	return tokens->file.trouble;
}

/* Read the file at the worker's start. */
LeTokens *
le_tokens_load(void)
{
	LeTokens   *tokens = MemoryContextAllocZero(TopMemoryContext,
												sizeof(LeTokens));
	HASHCTL		ctl = {0};

	tokens->file.file = LE_TOKENS_FILE;
	tokens->file.kind = "tokens";
	tokens->file.owner = tokens;
	tokens->file.take = take_line;
	tokens->file.put_all = put_tokens;
	tokens->file.meanwhile = "This node begins no term until the file can be used.";
	ctl.keysize = sizeof(Key);
	ctl.entrysize = sizeof(Entry);
	tokens->entries = hash_create("leader_election tokens", 256, &ctl,
								  HASH_ELEM | HASH_BLOBS);
	tokens->loaded = load_tokens(tokens);
	if (tokens->loaded)
		(void) rewrite_tokens(tokens);
	return tokens;
}

/* ---- timelines of the store "local" ---- */

static uint64
timeline_number(uint64 generation, TimeLineID timeline)
{
	return generation << 32 | timeline;
}

/* The entry of the change of timeline; NULL: there was none. */
static Entry *
find_timeline(LeTokens *tokens, const char *election)
{
	Key			key;
	Entry	   *entry;

	set_key(&key, this_namespace(tokens), election, TIMELINE);
	entry = hash_search(tokens->entries, &key, HASH_FIND, NULL);
	return entry == NULL || entry->number == 0 ? NULL : entry;
}

/* The server is on another timeline than the one of this file. */
static void
change_timeline(LeTokens *tokens, uint64 generation, TimeLineID timeline)
{
	int			namespace = this_namespace(tokens);
	HASH_SEQ_STATUS status;
	Entry	   *entry;
	Key			key;

	hash_seq_init(&status, tokens->entries);
	while ((entry = hash_seq_search(&status)) != NULL)
		if (entry->key.namespace == namespace &&
			strcmp(entry->key.job, TIMELINE) == 0)
			entry->number = 0;
	set_key(&key, namespace, "", TIMELINE);
	entry = find_or_add(tokens, &key);
	entry->number = timeline_number(generation, timeline);
	entry->tick = le_tick_now() + APART;
	/* no term begins before it is on disk */
	(void) rewrite_tokens(tokens);
	ereport(LOG,
			(errmsg("no tick up to %s is claimed: this server is on timeline %u now",
					timestamptz_to_str(le_from_tick(entry->tick)), timeline),
			 errdetail("Such ticks may have run before the promotion or the restore, and the store \"local\" has no record of them."),
			 errhint("le_accept_store() lets them run.")));
}

/*
 * The generation of tokens of the store "local", once the server is not in
 * recovery; 0: it is, or the file could not be read.
 */
uint64
le_tokens_generation(LeTokens *tokens)
{
	const Entry *entry;
	uint64		before = timeline_number(1, 1);
	uint64		generation;
	TimeLineID	timeline;

	if (tokens->generation != 0 || !tokens->loaded || RecoveryInProgress())
		return tokens->generation;
	timeline = GetWALInsertionTimeLine();
	entry = find_timeline(tokens, "");
	if (entry != NULL)
		before = entry->number;
	generation = before >> 32;
	if (timeline != (TimeLineID) before)
	{
		generation += timeline > (TimeLineID) before ?
			timeline - (TimeLineID) before : 1;
		change_timeline(tokens, generation, timeline);
	}
	tokens->generation = generation;
	return generation;
}

/* A job of which nothing is known but the change of timeline. */
static LeSeenRecord
seen_before_timeline(LeTokens *tokens, const char *election)
{
	const Entry *entry = find_timeline(tokens, election);
	LeSeenRecord seen = {0};

	if (entry == NULL)
		entry = find_timeline(tokens, "");
	if (entry != NULL && entry->tick != 0)
	{
		seen.writes = LE_FIRST_OF_GENERATION(entry->number >> 32);
		seen.tick = entry->tick;
	}
	return seen;
}

/* ---- questions of the worker ---- */

/*
 * Has the present store given this node a token before, as far as the file can
 * tell?  Call it right after the file was read.
 */
bool
le_tokens_led_before(LeTokens *tokens)
{
	const char *store = le_configured_store()->name;
	size_t		len = strlen(store);
	ListCell   *cell;

	foreach(cell, tokens->namespaces)
	{
		const char *namespace = lfirst(cell);

		if (strncmp(namespace, store, len) == 0 && namespace[len] == ':')
			return true;
	}
	return tokens->damaged || !tokens->loaded;
}

/* The highest token that was seen at the present namespace; 0: none. */
uint64
le_token_floor(LeTokens *tokens, const char *election)
{
	Key			key;
	Entry	   *entry;

	set_key(&key, this_namespace(tokens), election, "");
	entry = hash_search(tokens->entries, &key, HASH_FIND, NULL);
	return entry == NULL ? 0 : entry->number;
}

/* Note it in memory; le_tokens_keep() writes it. */
static void
note(LeTokens *tokens, const char *election, const char *job, uint64 number,
	 int64 tick)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	Key			key;
	Entry	   *entry;

	set_key(&key, this_namespace(tokens), election, job);
	entry = find_or_add(tokens, &key);
	entry->number = number;
	entry->tick = tick;
	if (!entry->unwritten)
		tokens->unwritten = lappend(tokens->unwritten, entry);
	entry->unwritten = true;
	MemoryContextSwitchTo(old);
}

void
le_token_seen(LeTokens *tokens, const char *election, uint64 token)
{
	if (token > le_token_floor(tokens, election))
		note(tokens, election, "", token, 0);
}

/*
 * The latest record of the job that was seen.  Records of the store "local"
 * that were written on this timeline count their writes from the first number
 * of its generation.
 */
LeSeenRecord
le_record_seen_last(LeTokens *tokens, const char *election, const char *job)
{
	LeSeenRecord seen = {0};
	Key			key;
	Entry	   *entry;

	if (!le_configured_store()->between_instances)
		return seen_before_timeline(tokens, election);
	set_key(&key, this_namespace(tokens), election, job);
	entry = hash_search(tokens->entries, &key, HASH_FIND, NULL);
	if (entry != NULL)
	{
		seen.writes = entry->number;
		seen.tick = entry->tick;
	}
	return seen;
}

/* All records that were seen at the present namespace. */
void
le_each_record_seen(LeTokens *tokens,
					void (*act) (void *arg, const char *election,
								 const char *job, const LeSeenRecord *seen),
					void *arg)
{
	int			namespace = this_namespace(tokens);
	HASH_SEQ_STATUS status;
	Entry	   *entry;

	hash_seq_init(&status, tokens->entries);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		LeSeenRecord seen = {.writes = entry->number, .tick = entry->tick};

		if (entry->key.namespace == namespace && entry->key.job[0] != '\0' &&
			strcmp(entry->key.job, TIMELINE) != 0 && entry->number != 0)
			act(arg, entry->key.election, entry->key.job, &seen);
	}
}

/* The records of the store "local" are in this data directory themselves. */
void
le_record_seen(LeTokens *tokens, const LeClaim *claim)
{
	LeSeenRecord record = {.writes = claim->writes, .tick = claim->tick};
	LeSeenRecord seen;

	if (!le_configured_store()->between_instances || record.writes == 0)
		return;
	seen = le_record_seen_last(tokens, claim->election, claim->job);
	if (seen.writes == 0 || le_record_is_later(&record, &seen))
		note(tokens, claim->election, claim->job, claim->writes, claim->tick);
}

/*
 * le_accept_store(): what was seen of the election counts no more; NULL: of
 * all elections.  False: that could not be written, and nothing has changed.
 * The change of timeline stays known, but no tick is refused for it.
 */
bool
le_tokens_forget(LeTokens *tokens, const char *election)
{
	int			namespace = this_namespace(tokens);
	List	   *forgotten = NIL;
	const Entry *timeline;
	HASH_SEQ_STATUS status;
	ListCell   *cell;
	Entry	   *entry;
	Entry	   *kept = NULL;
	bool		ok;

	if (!le_tokens_try(tokens))
		return false;
	timeline = find_timeline(tokens, "");
	if (timeline != NULL)
	{
		Key			key;

		set_key(&key, namespace, election == NULL ? "" : election, TIMELINE);
		kept = find_or_add(tokens, &key);
	}
	hash_seq_init(&status, tokens->entries);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		Entry	   *copy;

		if (entry->key.namespace != namespace ||
			(election != NULL && strcmp(entry->key.election, election) != 0))
			continue;
		copy = palloc(sizeof(Entry));
		*copy = *entry;
		forgotten = lappend(forgotten, copy);
		if (entry == kept)
		{
			kept->number = timeline->number;
			kept->tick = 0;
		}
		else
			entry->number = 0;
	}
	ok = rewrite_tokens(tokens);
	foreach(cell, forgotten)
	{
		const Entry *copy = lfirst(cell);

		if (ok)
			continue;
		entry = find_or_add(tokens, &copy->key);
		entry->number = copy->number;
		entry->tick = copy->tick;
	}
	list_free_deep(forgotten);
	return ok;
}
