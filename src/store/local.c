/*-------------------------------------------------------------------------
 *
 * local.c
 *		The store "local": elects among the sessions of one instance.
 *
 * There is nobody to ask: the state of each key lies in shared memory that
 * the caller owns, one worker at a time works on it, and perform() answers at
 * once.  The store session and its node key exist in name only and never
 * fail, so that the state machines run as they do with a remote store.
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

#include "store.h"

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
	token = op->next_token();
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

/* Publishing moves no index: nobody else writes, so nobody needs to see it. */
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
		case LE_OP_TAKE_OVER:
		case LE_OP_RENEW_TERMS:
		case LE_OP_WATCH:
		case LE_OP_LIST_NODES:
		case LE_OP_SESSION_NAME:
			break;
	}
}

const LeStore le_store_local = {
	.name = "local",
	.remote = false,
	.perform = local_perform,
};
