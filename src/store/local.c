/*-------------------------------------------------------------------------
 *
 * local.c
 *		The store "local": elects among the sessions of one instance.
 *
 * There is no other server: the state of each key lies in shared memory that
 * the caller owns, one worker at a time uses it, and perform() answers at
 * once.  The store session and its node key exist in name only and never
 * fail, so that the state machines run as with a remote store.  Claims have to
 * outlive a crash of the instance, so they lie in a log that the caller keeps.
 *
 * src/store/local.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "store/store.h"

static void
conflict(LeAnswer *answer, LeConflict what, const char *detail)
{
	answer->outcome = LE_CONFLICT;
	answer->conflict = what;
	answer->detail = detail;
}

static void
read_key(const LeOp *op, LeAnswer *answer)
{
	LeKey	   *key;

	answer->index = op->local->index;
	if (op->local->index == 0)
		return;
	key = palloc0(sizeof(LeKey));
	key->election = op->election;
	key->holder = op->local->held ? op->session : NULL;
	key->index = op->local->index;
	key->usable = true;
	key->ours = true;
	key->node = op->node_name;
	key->value_session = op->session;
	key->token = op->local->held ? op->local->index : 0;
	key->released = !op->local->held;
	answer->keys = key;
	answer->nkeys = 1;
}

static void
acquire(const LeOp *op, LeAnswer *answer)
{
	uint64		token;

	if (op->local->held)
	{
		conflict(answer, LE_CONFLICT_HELD, "the key is held");
		return;
	}
	if (op->local->index != op->index)
	{
		conflict(answer, LE_CONFLICT_CHANGED, "the key has changed");
		return;
	}
	token = op->next_token(op->tokens);
	if (token == 0)
	{
		answer->outcome = LE_UNAVAILABLE;
		answer->detail = "a standby cannot lead with the local store";
		return;
	}
	op->local->index = token;
	op->local->held = true;
	answer->index = token;
}

/* Publishing moves no index: no other node writes or needs to see it. */
static void
update(const LeOp *op, bool held, LeAnswer *answer)
{
	if (!op->local->held || op->local->index != op->index)
	{
		conflict(answer, LE_CONFLICT_CHANGED, "the key has changed");
		return;
	}
	op->local->held = held;
	answer->index = op->local->index;
}

/* ---- claims ---- */

static const char *
text_of(const char *s)
{
	return s == NULL ? NULL : pstrdup(s);
}

/*
 * The claim as it is now: another operation may write the record before this
 * answer is read.  The new id beside the old tick would allow two claims of
 * the same tick.
 */
static LeClaim
copy_of(const LeClaim *claim)
{
	LeClaim		copy = *claim;

	copy.election = text_of(claim->election);
	copy.job = text_of(claim->job);
	copy.id = text_of(claim->id);
	copy.node = text_of(claim->node);
	copy.sqlstate = text_of(claim->sqlstate);
	copy.message = text_of(claim->message);
	return copy;
}

static void
show_claim(const LeClaim *claim, LeAnswer *answer)
{
	if (claim == NULL)
		return;
	answer->claims = palloc(sizeof(LeClaim));
	answer->claims[answer->nclaims++] = copy_of(claim);
}

/* At most as many at a time as the worker has time for. */
static void
list_claims(const LeOp *op, LeAnswer *answer)
{
	const LeClaim *claim;
	uint64		cursor = op->page == NULL ? 0 : strtoull(op->page, NULL, 10);

	answer->claims = palloc(LE_CLAIMS_PAGE * sizeof(LeClaim));
	while (answer->nclaims < LE_CLAIMS_PAGE &&
		   (claim = op->log->next(op->claims, &cursor)) != NULL)
		answer->claims[answer->nclaims++] = copy_of(claim);
	if (answer->nclaims == LE_CLAIMS_PAGE)
		answer->page = psprintf(UINT64_FORMAT, cursor);
}

/* Is the record still the one that the write depends on? */
static bool
unchanged(const LeOp *op)
{
	const LeClaim *found = op->log->find(op->claims, op->election,
										 op->claim->job);

	if (found == NULL || op->previous == NULL)
		return found == NULL && op->previous == NULL;
	return strcmp(found->id, op->previous->id) == 0 &&
		found->state == op->previous->state;
}

/* An unknown job is new only if no records were lost. */
static void
read_claim(const LeOp *op, LeAnswer *answer)
{
	const LeClaim *found = op->log->find(op->claims, op->election, op->job);
	const char *lost = found != NULL ? NULL : op->log->lost(op->claims);

	if (lost != NULL)
		le_fail(answer, LE_REFUSED, lost);
	else
		show_claim(found, answer);
}

static void
keep_claim(const LeOp *op, LeAnswer *answer)
{
	const char *trouble = op->log->trouble(op->claims);

	if (trouble != NULL)
		le_fail(answer, LE_REFUSED, trouble);
	else if (!unchanged(op))
		conflict(answer, LE_CONFLICT_CHANGED, "the claim has changed");
	else if (!op->log->keep(op->claims, op->claim))
	{
		/* It may be in the file all the same. */
		answer->outcome = LE_UNKNOWN;
		answer->detail = "could not write the file of claims";
	}
}

static void
claim(const LeOp *op, LeAnswer *answer)
{
	if (op->local == NULL || !op->local->held ||
		op->local->index != op->index)
		conflict(answer, LE_CONFLICT_HELD, "the term is over");
	else if (op->previous == NULL &&
			 !op->log->has_room(op->claims, op->election))
		le_fail(answer, LE_REFUSED, "the election has as many jobs as leader_election.max_jobs allows");
	else
		keep_claim(op, answer);
}

static void
local_perform(const LeOp *op, LeAnswer *answer)
{
	le_perform_session(op, answer);
	switch (op->kind)
	{
		case LE_OP_READ:
			read_key(op, answer);
			break;
		case LE_OP_ACQUIRE:
			acquire(op, answer);
			break;
		case LE_OP_PUBLISH:
			update(op, true, answer);
			break;
		case LE_OP_RELEASE:
			update(op, false, answer);
			break;
		case LE_OP_READ_CLAIM:
			read_claim(op, answer);
			break;
		case LE_OP_CLAIM:
			claim(op, answer);
			break;
		case LE_OP_COMPLETE:
			keep_claim(op, answer);
			break;
		case LE_OP_LIST_CLAIMS:
			list_claims(op, answer);
			break;
		case LE_OP_CREATE_SESSION:
		case LE_OP_REGISTER_NODE:
		case LE_OP_PROVE_NODE:
		case LE_OP_VERIFY_SESSION:
		case LE_OP_CHECK_PREFIX:
		case LE_OP_RENEW_SESSION:
		case LE_OP_LIST_HELD:
		case LE_OP_DESTROY_SESSION:
		case LE_OP_REVOKE_NODE:
		case LE_OP_FORGET_NODE:
		case LE_OP_TELL_NEWS:
		case LE_OP_WATCH_NEWS:
		case LE_OP_TAKE_OVER:
		case LE_OP_RENEW_TERMS:
		case LE_OP_WATCH:
		case LE_OP_LIST_NODES:
		case LE_OP_SESSION_NAME:
		case LE_OP_AUTHENTICATE:
			break;
	}
}

const LeStore le_store_local = {
	.name = "local",
	.most_lease = LE_MAX_LEASE,
	.lists_all_claims = true,
	.perform = local_perform,
};
