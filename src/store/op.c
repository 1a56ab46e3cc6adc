/*-------------------------------------------------------------------------
 *
 * op.c
 *		Kinds of operations, and the names that operations take.
 *
 * src/store/op.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "mb/pg_wchar.h"

#include "store/op.h"

typedef struct OpInfo
{
	const char *name;
	bool		writes;
} OpInfo;

static const OpInfo ops[] = {
	[LE_OP_CREATE_SESSION] = {"create session", true},
	[LE_OP_VERIFY_SESSION] = {"verify session", false},
	[LE_OP_CHECK_PREFIX] = {"check prefix", false},
	[LE_OP_REGISTER_NODE] = {"register node", true},
	[LE_OP_RENEW_SESSION] = {"renew session", true},
	[LE_OP_PROVE_NODE] = {"prove node", true},
	[LE_OP_LIST_HELD] = {"list held", false},
	[LE_OP_DESTROY_SESSION] = {"destroy session", true},
	[LE_OP_REVOKE_NODE] = {"revoke node", true},
	[LE_OP_FORGET_NODE] = {"forget node", true},
	[LE_OP_TELL_NEWS] = {"tell news", true},
	[LE_OP_READ] = {"read", false},
	[LE_OP_ACQUIRE] = {"acquire", true},
	[LE_OP_TAKE_OVER] = {"take over", true},
	[LE_OP_PUBLISH] = {"publish", true},
	[LE_OP_RELEASE] = {"release", true},
	[LE_OP_RENEW_TERMS] = {"renew terms", true},
	[LE_OP_READ_CLAIM] = {"read claim", false},
	[LE_OP_CLAIM] = {"claim", true},
	[LE_OP_COMPLETE] = {"complete", true},
	[LE_OP_LIST_CLAIMS] = {"list claims", false},
	[LE_OP_WATCH] = {"watch", false},
	[LE_OP_WATCH_NEWS] = {"watch news", false},
	[LE_OP_LIST_NODES] = {"list nodes", false},
	[LE_OP_SESSION_NAME] = {"session name", false},
	[LE_OP_AUTHENTICATE] = {"authenticate", false},
};

static const char *const claim_states[] = {
	[LE_CLAIM_RUNNING] = "running",
	[LE_CLAIM_DONE] = "done",
	[LE_CLAIM_FAILED] = "failed",
};

/*
 * Does it change the store?  Without an answer the outcome of a write is
 * unknown; a read has simply failed.
 */
bool
le_op_writes(LeOpKind kind)
{
	return ops[kind].writes;
}

/*
 * Which operations need the same permission?  Returns one that stands for all
 * that write the same kind of key.
 */
LeOpKind
le_op_right(LeOpKind kind)
{
	switch (kind)
	{
		case LE_OP_TAKE_OVER:
		case LE_OP_PUBLISH:
		case LE_OP_RELEASE:
			return LE_OP_ACQUIRE;
		case LE_OP_REGISTER_NODE:
		case LE_OP_REVOKE_NODE:
		case LE_OP_FORGET_NODE:
		case LE_OP_TELL_NEWS:
			return LE_OP_PROVE_NODE;
		case LE_OP_RENEW_SESSION:
		case LE_OP_DESTROY_SESSION:
			return LE_OP_CREATE_SESSION;
		case LE_OP_COMPLETE:
			return LE_OP_CLAIM;
		default:
			return kind;
	}
}

const char *
le_op_name(LeOpKind kind)
{
	return ops[kind].name;
}

const char *
le_claim_state_name(LeClaimState state)
{
	return claim_states[state];
}

/* The state of that name; false: there is none, or no name. */
bool
le_claim_state_named(const char *name, LeClaimState *state)
{
	for (int i = 0; name != NULL && i < LE_CLAIM_NSTATES; i++)
	{
		if (strcmp(name, claim_states[i]) == 0)
		{
			*state = i;
			return true;
		}
	}
	return false;
}

/* Does the record say what this one says about the end of the same claim? */
bool
le_claim_ends_alike(const LeClaim *found, const LeClaim *claim)
{
	return strcmp(found->id, claim->id) == 0 && found->state == claim->state &&
		(found->state != LE_CLAIM_RUNNING ||
		 (found->ended_at != 0) == (claim->ended_at != 0));
}

static bool
valid_segment(const char *s, size_t len)
{
	if (len == 0)
		return false;
	return !(s[0] == '.' && (len == 1 || (len == 2 && s[1] == '.')));
}

/*
 * 1..200 bytes of A-Z a-z 0-9 . _ - / without an empty, "." or ".." segment:
 * every store and every proxy in front of it leaves such a name as it is.
 */
bool
le_valid_election_name(const char *name)
{
	const char *allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"abcdefghijklmnopqrstuvwxyz0123456789._-/";
	const char *segment = name;
	size_t		len = strlen(name);

	if (len < 1 || len > LE_MAX_ELECTION_LEN || strspn(name, allowed) != len)
		return false;
	for (;;)
	{
		size_t		n = strcspn(segment, "/");

		if (!valid_segment(segment, n))
			return false;
		if (segment[n] == '\0')
			return true;
		segment += n + 1;
	}
}

/* 1..200 bytes of UTF-8 without control characters (C0, DEL, C1). */
bool
le_valid_job_name(const char *name)
{
	const unsigned char *s = (const unsigned char *) name;
	size_t		len = strlen(name);

	if (len < 1 || len > LE_MAX_JOB_LEN ||
		pg_encoding_verifymbstr(PG_UTF8, name, (int) len) != (int) len)
		return false;
	for (; *s != '\0'; s++)
	{
		if (*s < ' ' || *s == 0x7f || (*s == 0xc2 && s[1] < 0xa0))
			return false;
	}
	return true;
}

bool
le_valid_sqlstate(const char *sqlstate)
{
	return strlen(sqlstate) == LE_SQLSTATE_LEN &&
		strspn(sqlstate, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") ==
		LE_SQLSTATE_LEN;
}

/*
 * Can a claim of this tick have passed over these, at least one?  Each comes
 * after another tick, so none is the first of all.
 */
bool
le_valid_gap(const LeGap *gap, int64 tick)
{
	return gap->n >= 1 && gap->first >= 1 && gap->last < tick &&
		gap->n - 1 <= gap->last - gap->first;
}
