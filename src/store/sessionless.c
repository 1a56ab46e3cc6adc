/*-------------------------------------------------------------------------
 *
 * sessionless.c
 *		The node's session with a store that has no sessions.
 *
 * Where every key has a lease of its own, or the store is this instance, the
 * store session, the node key and its proof exist in name only: they are
 * answered here, at once, and never fail, so that the state machines run as
 * with a store that has sessions.
 *
 * src/store/sessionless.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "store/store.h"

/* The incarnation's hex digits, in the shape of a session id. */
char *
le_session_of_incarnation(const char *incarnation)
{
	static const char shape[] = "........-....-....-....-............";
	char	   *id = palloc(sizeof(shape));

	StaticAssertStmt(sizeof(shape) == LE_SESSION_LEN + 1, "length of an id");
	for (int i = 0; i < LE_SESSION_LEN; i++)
	{
		if (shape[i] == '-')
			id[i] = '-';
		else
			id[i] = *incarnation != '\0' ? *incarnation++ : '0';
	}
	id[LE_SESSION_LEN] = '\0';
	return id;
}

/* Answers an operation on the session, or one that shows other nodes. */
void
le_perform_session(const LeOp *op, LeAnswer *answer)
{
	memset(answer, 0, sizeof(*answer));
	answer->outcome = LE_DONE;
	switch (op->kind)
	{
		case LE_OP_CREATE_SESSION:
			answer->session = le_session_of_incarnation(op->incarnation);
			break;
		case LE_OP_REGISTER_NODE:
			answer->index = 1;
			break;
		case LE_OP_PROVE_NODE:
			answer->index = op->proof.seq + 1;	/* each proof above the last */
			break;
		case LE_OP_TAKE_OVER:
			answer->outcome = LE_CONFLICT;
			answer->conflict = LE_CONFLICT_CHANGED;
			answer->detail = "there is nobody to take over from";
			break;
		default:
			break;
	}
}
