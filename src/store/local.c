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

	answer->index = op->local.key->index;
	if (op->local.key->index == 0)
		return;
	key = palloc0(sizeof(LeKey));
	key->election = op->election;
	key->holder = op->local.key->held ? op->session : NULL;
	key->index = op->local.key->index;
	key->usable = true;
	key->ours = true;
	key->node = op->node_name;
	key->value_session = op->session;
	key->token = op->local.key->held ? op->local.key->index : 0;
	key->released = !op->local.key->held;
	answer->keys = key;
	answer->nkeys = 1;
}

static void
acquire(const LeOp *op, LeAnswer *answer)
{
	uint64		token;

	if (op->local.key->held)
	{
		conflict(answer, LE_CONFLICT_HELD, "the key is held");
		return;
	}
	if (op->local.key->index != op->index)
	{
		conflict(answer, LE_CONFLICT_CHANGED, "the key has changed");
		return;
	}
	token = op->local.next_token(op->local.tokens);
	if (token == 0)
	{
		answer->outcome = LE_UNAVAILABLE;
		answer->detail = "the local store has no fencing token: this server is in recovery, or has had too many timelines";
		return;
	}
	op->local.key->index = token;
	op->local.key->held = true;
	answer->index = token;
}

/* Publishing moves no index: no other node writes or needs to see it. */
static void
update(const LeOp *op, bool held, LeAnswer *answer)
{
	if (!op->local.key->held || op->local.key->index != op->index)
	{
		conflict(answer, LE_CONFLICT_CHANGED, "the key has changed");
		return;
	}
	op->local.key->held = held;
	answer->index = op->local.key->index;
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
		   (claim = op->local.log->next(op->local.claims, &cursor)) != NULL)
		answer->claims[answer->nclaims++] = copy_of(claim);
	if (answer->nclaims == LE_CLAIMS_PAGE)
		answer->page = psprintf(UINT64_FORMAT, cursor);
}

/* Is the record still the one that the write depends on? */
static bool
unchanged(const LeOp *op)
{
	const LeClaim *found = op->local.log->find(op->local.claims, op->election,
											   op->claim.record->job);

	if (found == NULL || op->claim.previous == NULL)
		return found == NULL && op->claim.previous == NULL;
	return strcmp(found->id, op->claim.previous->id) == 0 &&
		found->state == op->claim.previous->state;
}

/* An unknown job is new only if no records were lost. */
static void
read_claim(const LeOp *op, LeAnswer *answer)
{
	const LeClaim *found = op->local.log->find(op->local.claims, op->election,
											   op->claim.job);
	const char *lost = found != NULL ? NULL :
		op->local.log->lost(op->local.claims);

	if (lost != NULL)
		le_fail(answer, LE_REFUSED, lost);
	else
		show_claim(found, answer);
}

static void
keep_claim(const LeOp *op, LeAnswer *answer)
{
	const char *trouble = op->local.log->trouble(op->local.claims);

	if (trouble != NULL)
		le_fail(answer, LE_REFUSED, trouble);
	else if (!unchanged(op))
		conflict(answer, LE_CONFLICT_CHANGED, "the claim has changed");
	else if (!op->local.log->keep(op->local.claims, op->claim.record))
	{
		/* It may be in the file all the same. */
		answer->outcome = LE_UNKNOWN;
		answer->detail = "could not write the file of claims";
	}
}

static void
claim(const LeOp *op, LeAnswer *answer)
{
	if (op->local.key == NULL || !op->local.key->held ||
		op->local.key->index != op->index)
		conflict(answer, LE_CONFLICT_HELD, "the term is over");
	else if (op->claim.previous == NULL &&
			 !op->local.log->has_room(op->local.claims, op->election))
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
	.lease = {
		.most = LE_MAX_LEASE,
	},
	.claims = {
		.lists_all = true,
	},
	.codec = {
		.perform = local_perform,
	},
};
