/*-------------------------------------------------------------------------
 *
 * run_registry.c
 *		Registry of the runs on this node that may still act on a claim.
 *
 * A claim in state "running" may outlive its run, if the session was
 * terminated, say, or the commit was refused.  Within one term only this
 * incarnation of this node can have made the claim, so the tick can only be
 * running here; and here it can be known for certain that no backend runs it.
 *
 * Each claim's id ends in a number that this incarnation draws only once.  A
 * claim of le_run() has a number of its own, which stands in one of its
 * backend's entries for as long as the run may act on the claim.  A claim made
 * by hand has the number of its session, valid for the session's life, or
 * until DISCARD ALL replaces it.  A number in no entry is over for good: only
 * its backend stores it there, once, and before it asks for the claim.
 *
 * A run that ends without knowing the outcome of its claim parks its number:
 * the same session may ask for the tick again, by the same id.  Or the worker,
 * for another session, finds that no backend acts on the claim.  Each removes
 * the parked number in one step, so the other finds it gone.
 *
 * The entries of a backend that ends are void from the moment when none of its
 * statements runs and its transaction cannot commit any more.  A crash of a
 * backend is the end of this memory, and of all terms.
 *
 * src/shmem/run_registry.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "shmem/requests.h"
#include "shmem/run_registry.h"

/* The part of an id's tail before the number. */
#define INCARNATION_DIGITS	(LE_RUN_DIGITS - 16)

#define ACTIVE(number)	(((number) << 1) | 1)
#define PARKED(number)	((number) << 1)
#define IS_ACTIVE(word)	(((word) & 1) != 0)

typedef struct Backend
{
	pg_atomic_uint64 owner;		/* the session that owns the entries */
	pg_atomic_uint64 entries[LE_RUN_ENTRIES];	/* 0: free */
} Backend;

static Backend *backends;

Size
le_run_registry_size(void)
{
	return mul_size(MaxBackends, sizeof(Backend));
}

void
le_run_registry_init(bool found, void *where)
{
	backends = where;
	if (found)
		return;
	for (int i = 0; i < MaxBackends; i++)
	{
		pg_atomic_init_u64(&backends[i].owner, LE_OWNER_NONE);
		for (int k = 0; k < LE_RUN_ENTRIES; k++)
			pg_atomic_init_u64(&backends[i].entries[k], 0);
	}
}

/* ---- in a backend ---- */

/* The previous backend with this number may have left entries behind. */
static Backend *
my_entries(void)
{
	Backend    *b = &backends[LE_MY_PROC];
	LeOwner		owner = le_my_owner(false);

	if (pg_atomic_read_u64(&b->owner) == owner)
		return b;
	pg_atomic_write_u64(&b->owner, LE_OWNER_NONE);
	pg_write_barrier();
	for (int k = 0; k < LE_RUN_ENTRIES; k++)
		pg_atomic_write_u64(&b->entries[k], 0);
	pg_write_barrier();
	pg_atomic_write_u64(&b->owner, owner);
	return b;
}

/* A free entry, or that of the oldest parked number; -1: neither. */
static int
find_entry(Backend *b)
{
	uint64		oldest = PG_UINT64_MAX;
	int			found = -1;

	for (int k = 0; k < LE_RUN_ENTRIES; k++)
	{
		uint64		word = pg_atomic_read_u64(&b->entries[k]);

		if (word == 0)
			return k;
		if (!IS_ACTIVE(word) && word < oldest)
		{
			oldest = word;
			found = k;
		}
	}
	return found;
}

static pg_atomic_uint64 *
word_at(int entry)
{
	Assert(entry >= 0 && entry < LE_RUN_ENTRIES);
	return &backends[LE_MY_PROC].entries[entry];
}

/*
 * A run may act on a claim from here on.  Returns its entry and its number;
 * -1, and the session's number, if there is no entry.
 */
int
le_run_registry_begin(uint64 *number)
{
	Backend    *b = my_entries();
	int			entry = find_entry(b);

	if (entry < 0)
	{
		*number = le_my_owner(false);
		return -1;
	}
	*number = pg_atomic_add_fetch_u64(&le_table->last_owner, 1);
	Assert(*number > LE_OWNER_NODE);
	pg_atomic_write_u64(&b->entries[entry], ACTIVE(*number));
	pg_memory_barrier();
	return entry;
}

/* The end of the id of a claim with this number. */
void
le_run_print(char *to, uint64 number)
{
	snprintf(to, LE_RUN_DIGITS + 1, "%.*s%016llx", INCARNATION_DIGITS,
			 le_table->incarnation, (unsigned long long) number);
	Assert(strlen(to) == LE_RUN_DIGITS);
}

/* The run does not act on the claim any more, and never will again. */
void
le_run_registry_end(int entry, uint64 number)
{
	pg_atomic_uint64 *word;

	if (entry < 0)
		return;
	word = word_at(entry);
	if (pg_atomic_read_u64(word) >> 1 == number)
		pg_atomic_write_u64(word, 0);
}

/* The run does not act, but may resume unless the worker retires it. */
void
le_run_registry_park(int entry, uint64 number)
{
	pg_atomic_uint64 *word;

	if (entry < 0)
		return;
	word = word_at(entry);
	if (pg_atomic_read_u64(word) == ACTIVE(number))
		pg_atomic_write_u64(word, PARKED(number));
}

/* May the run act again?  False is final. */
bool
le_run_registry_resume(int entry, uint64 number)
{
	pg_atomic_uint64 *word;
	uint64		expected = PARKED(number);

	if (entry < 0)
		return true;			/* the session's */
	word = word_at(entry);
	return pg_atomic_read_u64(word) == ACTIVE(number) ||
		pg_atomic_compare_exchange_u64(word, &expected, ACTIVE(number));
}

/* ---- in the worker ---- */

static const char *
tail_of(const char *claim_id)
{
	return claim_id + LE_CLAIM_ID_LEN - LE_RUN_DIGITS;
}

static bool
is_of_this_incarnation(const char *claim_id)
{
	return strlen(claim_id) == LE_CLAIM_ID_LEN &&
		strncmp(tail_of(claim_id), le_table->incarnation,
				INCARNATION_DIGITS) == 0;
}

/* The number at the end of an id of this incarnation; 0: it has none. */
static uint64
number_of(const char *claim_id)
{
	uint64		number;

	if (!is_of_this_incarnation(claim_id))
		return 0;
	number = strtoull(tail_of(claim_id) + INCARNATION_DIGITS, NULL, 16);
	if (number <= LE_OWNER_NODE ||
		number > pg_atomic_read_u64(&le_table->last_owner))
		return 0;
	return number;
}

/* Does the number stand in this word?  Removes a parked one. */
static bool
stands(pg_atomic_uint64 *word, uint64 number)
{
	uint64		expected = PARKED(number);

	if (pg_atomic_compare_exchange_u64(word, &expected, 0))
		return false;
	return expected == ACTIVE(number);
}

/* Does the session act on it, or may it resume to, unless that is retired? */
static bool
acts(Backend *b, int proc, uint64 number, bool retire)
{
	if (le_owner_lives(number, proc))
		return true;
	if (!le_owner_lives(pg_atomic_read_u64(&b->owner), proc))
		return false;
	for (int k = 0; k < LE_RUN_ENTRIES; k++)
	{
		pg_atomic_uint64 *word = &b->entries[k];

		if (retire ? stands(word, number) :
			pg_atomic_read_u64(word) >> 1 == number)
			return true;
	}
	return false;
}

/*
 * Retires the run behind a claim that has the token of a term of this
 * incarnation: a parked run can never resume from here on.  False: the run is
 * active or unknown.  True: no session acts on the claim now or ever will.
 *
 * A claim of another incarnation with such a token means that tokens have gone
 * back, and that its term was an earlier one.  An id in another form is not
 * ours and tells nothing.  "asker" is the claim that would replace this one;
 * it never retires itself.
 */
bool
le_run_retire(const char *claim_id, const char *asker)
{
	uint64		number;

	if (strlen(claim_id) != LE_CLAIM_ID_LEN || strcmp(claim_id, asker) == 0)
		return false;
	if (!is_of_this_incarnation(claim_id))
		return true;
	number = number_of(claim_id);
	if (number == 0)
		return false;
	for (int i = 0; i < MaxBackends; i++)
		if (acts(&backends[i], i, number, true))
			return false;
	return true;
}

/*
 * Has the run ended for good, without anybody's help?  Other than by
 * le_run_retire(), a parked run may still resume, so it has not.
 */
bool
le_run_is_over(const char *claim_id)
{
	uint64		number = number_of(claim_id);

	if (number == 0)
		return false;
	for (int i = 0; i < MaxBackends; i++)
		if (acts(&backends[i], i, number, false))
			return false;
	return true;
}
