/*-------------------------------------------------------------------------
 *
 * tokens.c
 *		The highest fencing token seen of each election, kept on disk.
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
 * le_reset_token().
 *
 * A term begins when its token is on disk, and not if it cannot be written: a
 * node must not lead with a token that it would not know after a crash.  The
 * tokens of others, which it merely sees, are written too, but not synced one
 * by one.  All tokens of a turn are written together, with one sync.  The
 * store "local" needs not even that: its token is a position of the
 * write-ahead log that was flushed before, and no later one can be lower.
 *
 * The file is a checked log, "<token> <namespace> <election>" per line; the
 * highest line of an election counts, except that a line with token 0 forgets
 * all before it.  A damaged file is kept aside, under another name, for people
 * to look at; its readable lines count.
 *
 * The file lies in the data directory and is part of a base backup on purpose:
 * a restored node should remember too.
 *
 * src/worker/disk/tokens.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "settings.h"
#include "worker/disk/checkedlog.h"
#include "worker/disk/tokens.h"

/* "<store>:<datacenter>:<prefix>"; none of them holds a colon or a blank. */
#define MAX_NAMESPACE_LEN	(16 + LE_MAX_PART_LEN + LE_MAX_ELECTION_LEN + 2)

typedef struct Key
{
	char		election[LE_MAX_ELECTION_LEN + 1];
	int			namespace;		/* index in "namespaces" */
} Key;

typedef struct Entry
{
	Key			key;			/* hash key, first */
	uint64		token;
	bool		unwritten;		/* is in "unwritten" */
} Entry;

struct LeTokens
{
	HTAB	   *entries;
	List	   *namespaces;		/* strings; few */
	List	   *unwritten;		/* entries */
	bool		loaded;			/* the file's contents are in "entries" */
	bool		damaged;		/* there may have been more in it */
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
set_key(Key *key, int namespace, const char *election)
{
	memset(key, 0, sizeof(*key));
	strlcpy(key->election, election, sizeof(key->election));
	key->namespace = namespace;
}

static Entry *
find_or_add(LeTokens *tokens, const Key *key)
{
	bool		found;
	Entry	   *entry = hash_search(tokens->entries, key, HASH_ENTER, &found);

	if (!found)
	{
		entry->token = 0;
		entry->unwritten = false;
	}
	return entry;
}

/* ---- the file ---- */

static void
put_token(LeTokens *tokens, LeLogLines *lines, const Entry *entry)
{
	char	   *text = psprintf(UINT64_FORMAT " %s %s", entry->token,
								(char *) list_nth(tokens->namespaces,
												  entry->key.namespace),
								entry->key.election);

	le_log_line(lines, text);
	pfree(text);
}

static void
put_tokens(void *owner, LeLogLines *lines)
{
	LeTokens   *tokens = owner;
	HASH_SEQ_STATUS status;
	Entry	   *entry;

	hash_seq_init(&status, tokens->entries);
	while ((entry = hash_seq_search(&status)) != NULL)
		if (entry->token != 0)
			put_token(tokens, lines, entry);
}

static bool
take_token(void *owner, char *line)
{
	LeTokens   *tokens = owner;
	char		namespace[MAX_NAMESPACE_LEN + 1];
	char		election[LE_MAX_ELECTION_LEN + 1];
	unsigned long long token;
	Key			key;
	Entry	   *entry;

	if (sscanf(line, "%llu %473s %200s", &token, namespace, election) != 3)
		return false;
	set_key(&key, number_of(tokens, namespace), election);
	entry = find_or_add(tokens, &key);
	if (token == 0 || token > entry->token)
		entry->token = token;
	return true;
}

StaticAssertDecl(MAX_NAMESPACE_LEN == 473, "take_token() says 473");

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
						  "What could be read of it counts.",
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
		put_token(tokens, &lines, lfirst(cell));
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
	tokens->file.take = take_token;
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

	set_key(&key, this_namespace(tokens), election);
	entry = hash_search(tokens->entries, &key, HASH_FIND, NULL);
	return entry == NULL ? 0 : entry->token;
}

static void
set_token(LeTokens *tokens, const char *election, uint64 token)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	Key			key;
	Entry	   *entry;

	set_key(&key, this_namespace(tokens), election);
	entry = find_or_add(tokens, &key);
	entry->token = token;
	if (!entry->unwritten)
		tokens->unwritten = lappend(tokens->unwritten, entry);
	entry->unwritten = true;
	MemoryContextSwitchTo(old);
}

/* Note it in memory; le_tokens_keep() writes it. */
void
le_token_seen(LeTokens *tokens, const char *election, uint64 token)
{
	if (token > le_token_floor(tokens, election))
		set_token(tokens, election, token);
}

/*
 * le_reset_token(): lower tokens are accepted from here on.  False: that could
 * not be written, and nothing has changed.
 */
bool
le_token_forget(LeTokens *tokens, const char *election)
{
	uint64		floor = le_token_floor(tokens, election);

	if (!le_tokens_try(tokens))
		return false;
	set_token(tokens, election, 0);
	if (le_tokens_keep(tokens, true))
		return true;
	set_token(tokens, election, floor);
	return false;
}
