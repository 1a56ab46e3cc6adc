/*-------------------------------------------------------------------------
 *
 * leases.c
 *		The lease table: elections that this node holds, seeks or has seen.
 *
 * A check must be cheap and must never wait for the worker, which may be
 * stopped, swapped out or dead.  So there is no lock.  The worker brackets
 * each change of a slot by making its version odd and then even again; a
 * reader accepts its copy only if the version was even and did not move
 * meanwhile.  It tries a few times and then returns "no term": a worker that
 * died in the middle of a change leaves a slot without a believable term.
 *
 * Renewing a lease moves the deadline alone, forward and within one term, so
 * that needs no bracket; and the fields for views (value, holder, errors) have
 * a version of their own, "shown".  So a leader's readers never have to try
 * twice, and never see "no term" because the worker was stopped at the wrong
 * moment.
 *
 * Names are found through chained buckets.  A slot changes its name only
 * between two moves of "layout": one after it has left its old chain, so that
 * a reader still on it starts again, and one after it has joined its new
 * chain.  A reader that finds nothing starts again if layout moved.  The name
 * in the slot is compared under the slot's version in any case, so the worst
 * outcome of a race is a miss.
 *
 * src/shmem/leases.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/shmem.h"

#include "settings.h"
#include "shmem/clock.h"
#include "shmem/leases.h"
#include "shmem/process.h"

LeTable    *le_table = NULL;

static pg_atomic_uint32 *buckets;
static char *slots;				/* see slot_at() */

/* The number of tries before a reader fails closed. */
#define LE_READ_TRIES	64

static inline LeSlot *
slot_at(int number)
{
	return (LeSlot *) (slots + (Size) number * LE_SLOT_SIZE);
}

static int
bucket_count(int nslots)
{
	int			n = 16;

	while (n < nslots)
		n *= 2;
	return n;
}

/* The table, the buckets and the slots lie behind one another. */
static Size
slots_offset(int nbuckets)
{
	return CACHELINEALIGN(add_size(MAXALIGN(sizeof(LeTable)),
								   mul_size(nbuckets,
											sizeof(pg_atomic_uint32))));
}

Size
le_leases_size(void)
{
	return add_size(slots_offset(bucket_count(le_max_elections)),
					mul_size(le_max_elections, LE_SLOT_SIZE));
}

/* A slot of any table, from its address alone. */
LeSlot *
le_slot_of(LeTable *table, int number)
{
	return (LeSlot *) ((char *) table + slots_offset(table->nbuckets) +
					   (Size) number * LE_SLOT_SIZE);
}

/* All but the versions, which must not go back while readers watch them. */
static void
init_slot(LeSlot *slot)
{
	const Size	versions = offsetof(LeSlot, term.deadline);

	memset((char *) slot + versions, 0, sizeof(*slot) - versions);
	pg_atomic_init_u64(&slot->term.deadline, 0);
	pg_atomic_init_u64(&slot->term.owner, LE_OWNER_NONE);
	pg_atomic_init_u64(&slot->term.token, 0);
	pg_atomic_init_u64(&slot->term.given_up, 0);
	pg_atomic_init_u64(&slot->term.drain_until, 0);
	pg_atomic_init_u32(&slot->next, 0);
	pg_atomic_init_u32(&slot->grants, 0);
}

static void
init_table(void)
{
	unsigned char raw[LE_INCARNATION_LEN / 2];

	memset(le_table, 0, sizeof(*le_table));
	if (!pg_strong_random(raw, sizeof(raw)))
		ereport(FATAL,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random incarnation for leader_election")));
	for (int i = 0; i < (int) sizeof(raw); i++)
		snprintf(le_table->incarnation + 2 * i, 3, "%02x", raw[i]);

	pg_atomic_init_u32(&le_table->worker_proc, 0);
	pg_atomic_init_u32(&le_table->worker_pid, 0);
	pg_atomic_init_u64(&le_table->last_owner, LE_OWNER_NODE);
	pg_atomic_init_u64(&le_table->turns, 0);
	pg_atomic_init_u64(&le_table->hints, 0);
	pg_atomic_init_u64(&le_table->nodes_version, 0);
	pg_atomic_init_u64(&le_table->trouble_version, 0);
	pg_atomic_init_u64(&le_table->nmissing, 0);
	for (int i = 0; i < LE_MAX_MISSING; i++)
		pg_atomic_init_u64(&le_table->missing[i].version, 0);
	pg_atomic_init_u64(&le_table->layout, 1);
	le_node_init(&le_table->node);
	le_table->nslots = le_max_elections;
	le_table->nbuckets = bucket_count(le_max_elections);
}

/* Called with AddinShmemInitLock held, in every process that attaches. */
void
le_leases_init(bool found, void *where)
{
	le_table = where;
	if (!found)
		init_table();
	Assert(le_table->nslots == le_max_elections);
	Assert((le_table->nbuckets & (le_table->nbuckets - 1)) == 0);
	buckets = (pg_atomic_uint32 *)
		((char *) where + MAXALIGN(sizeof(LeTable)));
	slots = (char *) le_slot_of(le_table, 0);
	if (found)
		return;
	for (int i = 0; i < le_table->nbuckets; i++)
		pg_atomic_init_u32(&buckets[i], 0);
	for (int i = 0; i < le_table->nslots; i++)
	{
		pg_atomic_init_u64(&slot_at(i)->term.version, 0);
		pg_atomic_init_u64(&slot_at(i)->shown, 0);
		init_slot(slot_at(i));
	}
}

static pg_atomic_uint32 *
bucket_of(const char *election)
{
	uint32		hash = hash_bytes((const unsigned char *) election,
								  strlen(election));

	return &buckets[hash & (le_table->nbuckets - 1)];
}

static int
follow_chain(const char *election)
{
	uint32		next = pg_atomic_read_u32(bucket_of(election));

	/* A chain that changes under us could lead in a circle. */
	for (int steps = 0; next != 0 && steps < le_table->nslots; steps++)
	{
		LeSlot	   *slot = slot_at(next - 1);

		Assert(next <= (uint32) le_table->nslots);
		if (strncmp(slot->name, election, sizeof(slot->name)) == 0)
			return next - 1;
		next = pg_atomic_read_u32(&slot->next);
	}
	return -1;
}

/* Does the slot have that name, and is it not being changed? */
static bool
is_named(LeSlot *slot, const char *election)
{
	uint64		version = pg_atomic_read_u64(&slot->term.version);
	bool		same;

	pg_read_barrier();
	same = strncmp(slot->name, election, sizeof(slot->name)) == 0;
	pg_read_barrier();
	return same && (version & 1) == 0 &&
		pg_atomic_read_u64(&slot->term.version) == version;
}

/*
 * "Not found" is certain only if the chains did not change meanwhile; a found
 * slot is certain, even while other names move.
 */
static int
look_up(const char *election, uint64 *layout)
{
	for (int i = 0; i < LE_READ_TRIES; i++)
	{
		int			number;

		*layout = pg_atomic_read_u64(&le_table->layout);
		pg_read_barrier();
		number = follow_chain(election);
		pg_read_barrier();
		if (pg_atomic_read_u64(&le_table->layout) == *layout ||
			(number >= 0 && is_named(slot_at(number), election)))
			return number;
	}
	*layout = 0;
	return -1;
}

/*
 * The number of the election's slot.  Most sessions ask about one election, so
 * its slot is cached until names move.  Caching more would take a hash table,
 * which costs as much as the one in shared memory and grows with every name.
 */
static int
find_cached(const char *election)
{
	LeLookedUp *cached = &le_process->cached;

	if (cached->as_of != pg_atomic_read_u64(&le_table->layout) ||
		strcmp(cached->name, election) != 0)
	{
		strlcpy(cached->name, election, sizeof(cached->name));
		cached->number = look_up(election, &cached->as_of);
		cached->noted = false;
	}
	return cached->number;
}

static bool
is_missing(const LeMissing *missing, uint32 hash, const char *election)
{
	return missing->hash == hash &&
		strncmp(missing->name, election, sizeof(missing->name)) == 0;
}

/*
 * The entry for one more name: the oldest.  But anybody may check any names,
 * so a role that has its share of the entries replaces its own oldest.
 */
static LeMissing *
next_missing(Oid role)
{
	LeMissing  *oldest = &le_table->missing[0];
	LeMissing  *own = NULL;
	int			share = 0;

	for (int i = 0; i < LE_MAX_MISSING; i++)
	{
		LeMissing  *entry = &le_table->missing[i];

		if (entry->number < oldest->number)
			oldest = entry;
		if (entry->role != role)
			continue;
		share++;
		if (own == NULL || entry->number < own->number)
			own = entry;
	}
	return share >= LE_MAX_MISSING_OF_ROLE ? own : oldest;
}

/*
 * Note a check of an election without a slot.  It returns false, for ever if
 * the name is misspelt, so le_check_config() lists the last few such names.
 * Like any check this must not wait, so it skips an entry that is being
 * written.
 */
static void
note_missing(const char *election)
{
	uint32		hash = hash_bytes((const unsigned char *) election,
								  strlen(election));
	LeMissing  *entry = NULL;
	Oid			role = GetSessionUserId();
	uint64		number;
	uint64		version;

	for (int i = 0; i < LE_MAX_MISSING && entry == NULL; i++)
		if (is_missing(&le_table->missing[i], hash, election))
			entry = &le_table->missing[i];
	if (entry == NULL)
	{
		entry = next_missing(role);
		number = pg_atomic_add_fetch_u64(&le_table->nmissing, 1);
	}
	else
	{
		role = entry->role;		/* whoever asks for it, too */
		number = entry->number;
	}
	version = pg_atomic_read_u64(&entry->version);
	if ((version & 1) != 0 ||
		!pg_atomic_compare_exchange_u64(&entry->version, &version,
										version + 1))
		return;
	entry->hash = hash;
	strlcpy(entry->name, election, sizeof(entry->name));
	entry->role = role;
	entry->number = number;
	entry->at = GetCurrentTimestamp();
	pg_write_barrier();
	pg_atomic_write_u64(&entry->version, version + 2);
}

/*
 * One of those names, into LE_MAX_ELECTION_LEN + 1 bytes, and the time of its
 * last lookup; 0: none there.
 */
TimestampTz
le_copy_missing(int number, char *name)
{
	LeMissing  *entry = &le_table->missing[number];
	uint64		version = pg_atomic_read_u64(&entry->version);
	TimestampTz at;

	Assert(number < LE_MAX_MISSING);
	pg_read_barrier();
	strlcpy(name, entry->name, LE_MAX_ELECTION_LEN + 1);
	at = entry->at;
	pg_read_barrier();
	if (version == 0 || (version & 1) != 0 ||
		pg_atomic_read_u64(&entry->version) != version)
		return 0;
	return at;
}

/* The number of the election's slot; -1: it has none. */
int
le_find_term(const char *election)
{
	return find_cached(election);
}

/*
 * Read this node's term in the election.  False: no readable term, which
 * callers must take for "none".  Callers must compare the deadline with the
 * clock, and the owner with the one that they expect.
 */
bool
le_read_term(const char *election, LeTerm *term)
{
	int			number = find_cached(election);

	/* Once, not at each check. */
	if (number < 0 && !le_process->cached.noted)
	{
		le_process->cached.noted = true;
		note_missing(election);
	}
	return le_read_term_at(number, election, term);
}

/*
 * The same for a slot that was found before.  Keeps nothing, so a signal
 * handler may call it, too.
 */
bool
le_read_term_at(int number, const char *election, LeTerm *term)
{
	LeSlot	   *slot;

	if (number < 0)
		return false;
	Assert(number < le_table->nslots);
	slot = slot_at(number);
	for (int i = 0; i < LE_READ_TRIES; i++)
	{
		uint64		version = pg_atomic_read_u64(&slot->term.version);
		bool		same;

		if (version & 1)
			continue;
		pg_read_barrier();
		term->deadline = (le_time) pg_atomic_read_u64(&slot->term.deadline);
		term->owner = pg_atomic_read_u64(&slot->term.owner);
		term->token = pg_atomic_read_u64(&slot->term.token);
		term->drain_until =
			(le_time) pg_atomic_read_u64(&slot->term.drain_until);
		if (pg_atomic_read_u64(&slot->term.given_up) == term->token)
			term->deadline = 0;
		same = strncmp(slot->name, election, sizeof(slot->name)) == 0;
		pg_read_barrier();
		if (pg_atomic_read_u64(&slot->term.version) == version)
			return same && term->deadline != 0 && term->token != 0;
	}
	return false;
}

/*
 * For display: copy data that the worker changes between make_odd() and
 * make_even().  False: it was changing all the time.
 */
static bool
copy_whole(pg_atomic_uint64 *version, void *to, const void *from, Size size)
{
	for (int i = 0; i < LE_READ_TRIES; i++)
	{
		uint64		before = pg_atomic_read_u64(version);

		if (before & 1)
		{
			pg_usleep(10);
			continue;
		}
		pg_read_barrier();
		memcpy(to, from, size);
		pg_read_barrier();
		if (pg_atomic_read_u64(version) == before)
			return true;
	}
	return false;
}

/* Copy a slot for display; false if it is unused or could not be read. */
bool
le_copy_slot(int number, LeSlot *copy)
{
	LeSlot	   *slot = slot_at(number);

	Assert(number >= 0 && number < le_table->nslots);
	return copy_whole(&slot->shown, copy, slot, sizeof(*copy)) && copy->used;
}

/* Copy the known nodes for display, up to LE_MAX_NODES. */
int
le_copy_nodes(LeNodeInfo *copy)
{
	for (int i = 0; i < LE_READ_TRIES; i++)
	{
		uint64		version = pg_atomic_read_u64(&le_table->nodes_version);
		int			n;

		pg_read_barrier();
		n = Min(le_table->nnodes, LE_MAX_NODES);
		memcpy(copy, le_table->nodes, n * sizeof(LeNodeInfo));
		pg_read_barrier();
		if ((version & 1) == 0 &&
			pg_atomic_read_u64(&le_table->nodes_version) == version)
			return n;
		pg_usleep(10);
	}
	return 0;
}

/* The reason that this node cannot lead, in LE_UNFIT_LEN + 1 bytes, or "". */
void
le_copy_unfit(char *unfit)
{
	if (!copy_whole(&le_table->nodes_version, unfit, le_table->unfit,
					sizeof(le_table->unfit)))
		unfit[0] = '\0';
}

/* The node whose clone this one is, in LE_MAX_NODE_NAME_LEN + 1 bytes, or
 * "". */
void
le_copy_clone_of(char *original)
{
	if (!copy_whole(&le_table->nodes_version, original, le_table->clone_of,
					sizeof(le_table->clone_of)))
		original[0] = '\0';
}

void
le_copy_systems(LeSystems *systems)
{
	if (!copy_whole(&le_table->nodes_version, systems, &le_table->systems,
					sizeof(le_table->systems)))
		memset(systems, 0, sizeof(*systems));
}

/* The trouble that concerns all elections, if any. */
void
le_copy_trouble(LeTrouble *trouble)
{
	LeTrouble	all[LE_NTROUBLES];
	int			kind = 0;

	if (!copy_whole(&le_table->trouble_version, all, le_table->troubles,
					sizeof(all)))
		memset(all, 0, sizeof(all));
	while (kind < LE_NTROUBLES - 1 && all[kind].at == 0)
		kind++;
	*trouble = all[kind];
}

/*
 * A backend ends its own term: at once for every reader, without waiting for
 * the worker, which will find the mark and tell the store.  The mark of an
 * earlier term must not replace that of a later one: tokens only grow.
 */
void
le_give_up_term(const char *election, uint64 token)
{
	int			number = find_cached(election);
	uint64		marked;

	if (number < 0)
		return;
	marked = pg_atomic_read_u64(&slot_at(number)->term.given_up);
	while (marked < token &&
		   !pg_atomic_compare_exchange_u64(&slot_at(number)->term.given_up,
										   &marked, token))
		;
}

/* The same for all terms of this owner; was there any? */
bool
le_give_up_terms_of(LeOwner owner)
{
	bool		any = false;

	for (int i = 0; i < le_table->nused; i++)
	{
		LeSlot	   *slot = slot_at(i);
		LeTerm		term;

		if (pg_atomic_read_u64(&slot->term.owner) != owner ||
			!le_read_term_at(i, slot->name, &term) || term.owner != owner)
			continue;
		le_give_up_term(slot->name, term.token);
		any = true;
	}
	return any;
}

/*
 * One acquire may serve several calls, and any of them may be canceled after
 * the worker has answered it.  A call that reads its answer keeps the term for
 * all; if none does, the last one to decline gives the term up, as no caller
 * knows of it.  The worker counts as a call while it answers.  If it ends in
 * between, TELLING stays set, and its successor goes on from there.
 */
#define KEPT	(1U << 31)
#define TELLING	(1U << 30)

static LeSlot *
slot_of_term(const char *election, uint64 token)
{
	int			number = find_cached(election);

	if (number < 0 || pg_atomic_read_u64(&slot_at(number)->term.token) !=
		token)
		return NULL;
	return slot_at(number);
}

void
le_keep_term(const char *election, uint64 token)
{
	LeSlot	   *slot = slot_of_term(election, token);

	if (slot != NULL)
		pg_atomic_fetch_or_u32(&slot->grants, KEPT);
}

void
le_decline_term(const char *election, uint64 token)
{
	LeSlot	   *slot = slot_of_term(election, token);

	if (slot != NULL && pg_atomic_sub_fetch_u32(&slot->grants, 1) == 0)
		le_give_up_term(election, token);
}

/* Before the term is visible: from then on a caller must learn of it. */
void
le_begin_grants(LeSlot *slot)
{
	pg_atomic_write_u32(&slot->grants, TELLING);
}

/* Are there calls that wait for the term without an answer? */
bool
le_grants_open(const LeSlot *slot)
{
	return (pg_atomic_read_u32(&((LeSlot *) slot)->grants) & TELLING) != 0;
}

/* Before the call is answered; if it cannot be, le_decline_term(). */
void
le_grant(LeSlot *slot)
{
	Assert(le_grants_open(slot));
	pg_atomic_fetch_add_u32(&slot->grants, 1);
}

void
le_end_grants(LeSlot *slot)
{
	uint32		others = ~TELLING &
		pg_atomic_fetch_and_u32(&slot->grants, ~TELLING);

	if (others == 0)
		le_give_up_term(slot->name, pg_atomic_read_u64(&slot->term.token));
}

/* ---- the worker's side ---- */

LeSlot *
le_slot(int number)
{
	Assert(number >= 0 && number < le_table->nslots);
	return slot_at(number);
}

int
le_slot_number(const LeSlot *slot)
{
	Size		offset = (const char *) slot - slots;

	Assert(offset % LE_SLOT_SIZE == 0 &&
		   offset / LE_SLOT_SIZE < (Size) le_table->nslots);	/* no copy */
	return (int) (offset / LE_SLOT_SIZE);
}

LeOwner
le_owner_of(const LeSlot *slot)
{
	return pg_atomic_read_u64(&((LeSlot *) slot)->term.owner);
}

/*
 * Does the node hold a term whose deadline is still to come?  After that, for
 * example because the worker was stopped, the election's holder is unknown,
 * even if the worker has not ended the term yet.
 */
bool
le_term_stands(const LeSlot *slot)
{
	return le_election_has_term(&slot->election) &&
		le_believes(le_now(), (le_time)
					pg_atomic_read_u64(&((LeSlot *) slot)->term.deadline));
}

LeSlot *
le_find_slot(const char *election)
{
	int			number = follow_chain(election);

	return number < 0 ? NULL : slot_at(number);
}

const char *
le_scope_name(LeOwner owner)
{
	if (owner == LE_OWNER_NODE)
		return "node";
	return owner & LE_OWNER_XACT ? "transaction" : "session";
}

/* May the node hold terms at present? */
bool
le_session_live(void)
{
	return le_table->node.state == LE_NODE_LIVE;
}

/* Is there no store session of this node? */
bool
le_session_none(void)
{
	return le_table->node.state == LE_NODE_NONE;
}

static void
make_odd(pg_atomic_uint64 *version)
{
	pg_atomic_write_u64(version, pg_atomic_read_u64(version) | 1);
	pg_write_barrier();
}

static void
make_even(pg_atomic_uint64 *version)
{
	pg_write_barrier();
	pg_atomic_write_u64(version, (pg_atomic_read_u64(version) | 1) + 1);
}

/* Around changes of any field, including those that a check reads. */
void
le_begin_change(LeSlot *slot)
{
	make_odd(&slot->term.version);
	make_odd(&slot->shown);
}

void
le_end_change(LeSlot *slot)
{
	Assert(((pg_atomic_read_u64(&slot->term.version) |
			 pg_atomic_read_u64(&slot->shown)) & 1) != 0);
	make_even(&slot->shown);
	make_even(&slot->term.version);
}

/* Around changes of fields that only status views show. */
void
le_begin_note(LeSlot *slot)
{
	make_odd(&slot->shown);
}

void
le_end_note(LeSlot *slot)
{
	Assert((pg_atomic_read_u64(&slot->shown) & 1) != 0);
	make_even(&slot->shown);
}

/*
 * Does the success end the noted error?  A refusal lasts until a success of
 * the same kind, since a token may allow to read a key and not to write it; a
 * fencing token that is too low, until there is a higher one.  Any other error
 * is over as soon as the store answers for the election.
 */
static bool
is_over(const LeSlot *slot, LeOpKind kind)
{
	return slot->error.at != 0 && slot->refused_token == 0 &&
		(!slot->error.refused || slot->error.kind == le_op_right(kind));
}

/* Keep an error of the election for le_status, until it is over. */
void
le_note_error(LeSlot *slot, LeOpKind kind, LeOutcome outcome, LeCause cause,
			  const char *detail)
{
	bool		well = outcome == LE_DONE || outcome == LE_CONFLICT;

	if (well && !is_over(slot, kind))
		return;
	le_begin_note(slot);
	strlcpy(slot->error.text, well ? "" :
			detail ? detail : le_outcome_name(outcome),
			sizeof(slot->error.text));
	slot->error.at = well ? 0 : GetCurrentTimestamp();
	slot->error.refused = outcome == LE_REFUSED;
	slot->error.kind = le_op_right(kind);
	slot->error.cause = cause;
	le_end_note(slot);
}

/* The same for trouble of all elections; "": it is over. */
void
le_set_trouble(LeTroubleKind kind, const char *text)
{
	LeTrouble  *trouble = &le_table->troubles[kind];

	Assert(kind < LE_NTROUBLES);
	if (text[0] == '\0' && trouble->at == 0)
		return;
	make_odd(&le_table->trouble_version);
	strlcpy(trouble->text, text, sizeof(trouble->text));
	trouble->at = text[0] == '\0' ? 0 : GetCurrentTimestamp();
	make_even(&le_table->trouble_version);
}

/* The nodes, as just read from the store. */
void
le_set_nodes(const LeNodeInfo *nodes, int n)
{
	Assert(n >= 0 && n <= LE_MAX_NODES);
	make_odd(&le_table->nodes_version);
	memcpy(le_table->nodes, nodes, n * sizeof(LeNodeInfo));
	le_table->nnodes = n;
	make_even(&le_table->nodes_version);
}

void
le_set_unfit(const char *unfit)
{
	make_odd(&le_table->nodes_version);
	strlcpy(le_table->unfit, unfit, sizeof(le_table->unfit));
	make_even(&le_table->nodes_version);
}

void
le_set_clone_of(const char *original)
{
	make_odd(&le_table->nodes_version);
	strlcpy(le_table->clone_of, original, sizeof(le_table->clone_of));
	make_even(&le_table->nodes_version);
}

void
le_set_systems(const LeSystems *systems)
{
	make_odd(&le_table->nodes_version);
	le_table->systems = *systems;
	make_even(&le_table->nodes_version);
}

/* Is nothing held, sought or under way in this slot? */
static bool
is_idle(const LeSlot *slot)
{
	return slot->election.state == LE_IDLE && !slot->election.wanted &&
		slot->asked == 0 && !slot->campaign && !slot->configured;
}

/*
 * A slot with a hold-off is kept, too: otherwise the hold-off would be lost,
 * and the next acquire would win back an election that this node shall stay
 * out of.
 */
static bool
can_be_reused(const LeSlot *slot)
{
	return is_idle(slot) && slot->hold_off_until <= le_now();
}

/* The number of slots kept only by a hold-off. */
int
le_held_off(void)
{
	int			n = 0;

	for (int i = 0; i < le_table->nused; i++)
		n += is_idle(slot_at(i)) && !can_be_reused(slot_at(i));
	return n;
}

static void
unlink_slot(LeSlot *slot)
{
	pg_atomic_uint32 *link = bucket_of(slot->name);
	uint32		self = (uint32) le_slot_number(slot) + 1;

	while (pg_atomic_read_u32(link) != self)
	{
		Assert(pg_atomic_read_u32(link) != 0);	/* it is in its chain */
		link = &slot_at(pg_atomic_read_u32(link) - 1)->next;
	}
	pg_atomic_write_u32(link, pg_atomic_read_u32(&slot->next));
}

/* An unused slot, or else the least recently used idle one. */
static LeSlot *
slot_for_new_name(void)
{
	LeSlot	   *oldest = NULL;

	if (le_table->nused < le_table->nslots)
		return slot_at(le_table->nused);
	for (int i = 0; i < le_table->nslots; i++)
		if (can_be_reused(slot_at(i)) &&
			(oldest == NULL || slot_at(i)->used_at < oldest->used_at))
			oldest = slot_at(i);
	return oldest;
}

/*
 * NULL: the table is full of elections that are held, sought or held off
 * (le_held_off()).  With "added", data kept elsewhere for the slot belongs to
 * another election.
 */
LeSlot *
le_find_or_add_slot(const char *election, bool *added)
{
	LeSlot	   *slot = le_find_slot(election);
	pg_atomic_uint32 *bucket = bucket_of(election);
	uint32		request;

	*added = false;
	if (slot != NULL)
	{
		slot->used_at = le_now();
		return slot;
	}
	slot = slot_for_new_name();
	if (slot == NULL)
		return NULL;

	Assert(strlen(election) <= LE_MAX_ELECTION_LEN);
	Assert(!slot->used || is_idle(slot));
	*added = true;
	le_begin_change(slot);
	if (slot->used)
	{
		unlink_slot(slot);
		pg_write_barrier();
		pg_atomic_fetch_add_u64(&le_table->layout, 1);
	}
	else
		le_table->nused++;
	request = slot->election.request;
	init_slot(slot);
	slot->used = true;
	slot->used_at = le_now();
	strlcpy(slot->name, election, sizeof(slot->name));
	le_election_init(&slot->election, 0);
	slot->election.request = request + 1;	/* late answers are not for it */
	pg_atomic_write_u32(&slot->next, pg_atomic_read_u32(bucket));
	pg_write_barrier();
	pg_atomic_write_u32(bucket, (uint32) le_slot_number(slot) + 1);
	le_end_change(slot);
	pg_write_barrier();
	pg_atomic_fetch_add_u64(&le_table->layout, 1);
	Assert(le_table->nused <= le_table->nslots);
	Assert(le_find_slot(election) == slot);
	return slot;
}
