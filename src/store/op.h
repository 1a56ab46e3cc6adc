/*-------------------------------------------------------------------------
 *
 * op.h
 *		Operations on a lease store.
 *
 * src/store/op.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_OP_H
#define LE_OP_H

#include "core/clone.h"
#include "core/election.h"
#include "core/tick.h"

#define LE_MAX_ELECTION_LEN		200 /* bytes in an election's name */
#define LE_MAX_VALUE_LEN		1024	/* bytes in a published value */
#define LE_MAX_NODE_NAME_LEN	128
#define LE_SESSION_LEN			36	/* a store session's id */
#define LE_INCARNATION_LEN		32	/* hex digits */
#define LE_UNFIT_LEN			15	/* lower-case letters */
#define LE_ATTEMPT_LEN			32	/* hex digits in the id of an acquire */
#define LE_MAX_JOB_LEN			200 /* bytes in a job's name */
#define LE_CLAIM_ID_LEN			32	/* hex digits */

/* No key has it, neither as index nor as token. */
#define LE_NO_INDEX				((uint64) PG_INT64_MAX)
#define LE_MAX_TICK				(INT64CONST(1) << 52)	/* ms */
#define LE_SQLSTATE_LEN			5
#define LE_MAX_MESSAGE_LEN		200 /* bytes of a failed run's message */

/* Held keys that one node proof checks; the rest follow in rotation. */
#define LE_MAX_CHECKED_KEYS		60

/* Claims that the worker shows at a time. */
#define LE_CLAIMS_PAGE			500

/* Operations that one request may carry. */
#define LE_MAX_JOINED			100

/* How long a watch may be asked to wait. */
#define LE_MAX_WATCH_MS			60000

/* Writes of election keys that a node's news list. */
#define LE_MAX_NEWS				20

/* Servers of one store: more than in practice. */
#define LE_MAX_SERVERS			16

#define LE_MAX_PART_LEN			255 /* bytes in the name of a store's part */
#define LE_MAX_TAG_LEN			64	/* bytes of an ETag or the like */
#define LE_MAX_SECRET_LEN		4096	/* bytes of a token or the like */

typedef enum LeOpKind
{
	/* the node's store session */
	LE_OP_CREATE_SESSION,		/* -> session */
	LE_OP_VERIFY_SESSION,		/* DONE only if it is as asked for; REFUSED
								 * with detail otherwise */
	LE_OP_CHECK_PREFIX,			/* REFUSED if others own the prefix */
	LE_OP_REGISTER_NODE,		/* -> index */
	LE_OP_RENEW_SESSION,		/* LOST: gone */
	LE_OP_PROVE_NODE,			/* -> index; LOST: node key not ours or
								 * session gone; CONFLICT: lost[] */
	LE_OP_LIST_HELD,			/* -> keys: every election key of the prefix,
								 * linearizable */
	LE_OP_DESTROY_SESSION,
	LE_OP_REVOKE_NODE,			/* CONFLICT: session alive, or no node key */
	LE_OP_FORGET_NODE,			/* the same */
	LE_OP_TELL_NEWS,			/* -> index; LOST: our session or its node key
								 * is gone */

	/* one election */
	LE_OP_READ,					/* -> keys[0] or none, linearizable */
	LE_OP_ACQUIRE,				/* -> index */
	LE_OP_TAKE_OVER,			/* -> index; an acquire from "target", whose
								 * belief is known to have ended */
	LE_OP_PUBLISH,				/* -> index */
	LE_OP_RELEASE,				/* -> index */
	LE_OP_RENEW_TERMS,			/* -> renewals: several elections' leases */

	/* claims of one election's jobs */
	LE_OP_READ_CLAIM,			/* -> claims[0] or none, linearizable; REFUSED
								 * if the record is not ours to write */
	LE_OP_CLAIM,				/* CONFLICT: the record differs from "previous"
								 * (CHANGED), or the term from the one that
								 * index and token name (CHANGED, HELD) */
	LE_OP_COMPLETE,				/* CONFLICT: another claim, or not running; the
								 * term does not matter */
	LE_OP_LIST_CLAIMS,			/* -> claims, linearizable: those of all
								 * elections, or of the one named where each
								 * key has a lease of its own */

	/* observation */
	LE_OP_WATCH,				/* -> keys, index to wait for next; for a named
								 * election: as READ */
	LE_OP_WATCH_NEWS,			/* -> news, index to wait for next */
	LE_OP_LIST_NODES,			/* -> nodes; any age */
	LE_OP_SESSION_NAME,			/* -> name of a foreign session, or NULL */

	/* authentication */
	LE_OP_AUTHENTICATE			/* -> secret, lasts: for the requests that
								 * follow */
} LeOpKind;

#define LE_NOPS	(LE_OP_AUTHENTICATE + 1)

/* Data that a request of a multi-step operation passes to the next one. */
typedef struct LeStep
{
	int			number;			/* from 0 */
	uint64		index;
	char		tag[LE_MAX_TAG_LEN + 1];	/* opaque, as an ETag */
} LeStep;

/*
 * One election's key in the store "local".  The caller keeps it in shared
 * memory, so that a new worker finds it.
 */
typedef struct LeLocalKey
{
	uint64		index;			/* 0: never held */
	bool		held;
} LeLocalKey;

/* A job's record of its last claim. */
typedef struct LeClaim
{
	const char *election;
	const char *job;
	int64		tick;			/* ms since 1970-01-01 UTC, not negative */
	int			try;			/* from 1 */
	const char *id;				/* drawn at random by the claimant, who knows
								 * the claim by it if the answer was lost */
	uint64		token;			/* the claiming term's */
	const char *node;			/* NULL: not kept by the store */
	LeClaimState state;
	int64		every;			/* ms from tick to tick; 0: not known, as from
								 * an earlier version */
	int64		claimed_at;		/* by the claimant's wall clock, as tick ... */
	int64		ended_at;		/* ... 0: not ended, or not kept; of one that
								 * is running: its run is over, without a
								 * result */

	/*
	 * Ticks that this claim has passed over, and the claims before it that
	 * never ended.  They may not be reported yet: so the record keeps them
	 * until the claim ends, and a claim in its place reports them.
	 */
	LeGap		gap;

	/*
	 * So many times the record was written, this one included; 0: not known,
	 * as from an earlier version.  Each write is based on the one before it.
	 * So a store whose record was written fewer times than one that it had
	 * before has lost that one: it was restored, or the record was deleted.
	 */
	uint64		writes;

	/*
	 * For people: no decision depends on it, and a record of an earlier
	 * version lacks it.
	 */
	int64		wait;			/* ms that other nodes wait for their turn */
	int64		last_success;	/* when a tick was last done, as claimed_at; 0:
								 * never, or not known */
	int			failures;		/* unsuccessful runs in a row, this one
								 * included; -1: not known */
	const char *sqlstate;		/* the failure's; NULL: none, or not known */
	const char *message;		/* the same: one line, if it is kept at all */

	uint64		index;			/* the record's last write, where the store
								 * counts writes */
} LeClaim;

/*
 * The log of claims of the store "local"; the caller does the I/O.  A claim
 * that keep() has confirmed outlives a crash.
 */
struct LeClaims;				/* the caller's */
struct LeLocalTokens;

typedef struct LeClaimLog
{
	const LeClaim *(*find) (struct LeClaims *claims, const char *election,
							const char *job);
	/* from 0; NULL: no more */
	const LeClaim *(*next) (struct LeClaims *claims, uint64 *cursor);
	/* for one more job of the election */
	bool		(*has_room) (struct LeClaims *claims, const char *election);
	bool		(*keep) (struct LeClaims *claims, const LeClaim *claim);
	/* why some earlier claims are not known; NULL: all are */
	const char *(*lost) (struct LeClaims *claims);
	/* the same, or why nothing can be written; NULL: it may be tried */
	const char *(*trouble) (struct LeClaims *claims);
} LeClaimLog;

/* A node key. */
typedef struct LeNodeKey
{
	const char *session;		/* the key is named after it */
	bool		held;			/* its session still holds it */
	uint64		index;
	const char *node;
	const char *incarnation;
	le_duration lease;
	uint64		seq;			/* its last proof's */
	bool		revoked;		/* its belief is known to have ended */
	const char *unfit;			/* why it cannot lead, in a word for people;
								 * NULL: it can.  A later version may use
								 * other words */
	bool		tells;			/* it publishes news of all its writes */
	LeSystems	systems;		/* see there */
	uint64		since;			/* index of the first session that its
								 * incarnation had, and of its node key */
} LeNodeKey;

/* One write of an election's key, as its writer's news list it. */
typedef struct LeGossipItem
{
	const char *election;
	LeOpKind	kind;			/* ACQUIRE, as which a takeover counts, PUBLISH
								 * or RELEASE */
	uint64		number;			/* its transaction's, by the writer's count */
	uint64		index;			/* the key's by this write; 0: not known, as
								 * while the write was in flight */
	uint64		token;			/* PUBLISH: the term's */
} LeGossipItem;

/*
 * A node's news of its writes, in a key of its own that is written in the same
 * transactions.  So a write listed for the first time has the index of this
 * key, except PUBLISH, which may leave the election's key as it is.
 */
typedef struct LeGossip
{
	const char *session;		/* the key is named after it */
	bool		held;			/* its session still holds it */
	uint64		index;			/* the key's last write */
	const char *node;			/* NULL: unreadable, may list any write */
	uint64		number;			/* the transaction that wrote it */
	uint64		since;			/* writes with a number up to this one may be
								 * missing */
	const LeGossipItem *items;
	int			nitems;			/* at most LE_MAX_NEWS */
} LeGossip;

/* One of the terms of RENEW_TERMS. */
typedef struct LeTermRef
{
	const char *election;
	uint64		token;
	uint64		rev;
	const char *attempt;		/* the acquire's id */
} LeTermRef;

/*
 * An operation.  Each part is for the kinds named beside it, or for the stores
 * that need it; the others leave it alone.
 */
typedef struct LeOp
{
	LeOpKind	kind;

	/* this node */
	const char *node_name;
	const char *incarnation;
	const char *session;		/* the store session that the operation is
								 * about or acts for; "" if there is none */
	le_duration lease;			/* that session's */

	/* the object */
	const char *election;
	const char *value;			/* ACQUIRE, PUBLISH, RELEASE: the holder's
								 * value as the user gave it; NULL: none */
	uint64		index;			/* condition: the key's index; ACQUIRE only:
								 * 0 means that no key exists */
	uint64		token;			/* PUBLISH: the term's; goes with the value,
								 * since the index does not show it any more.
								 * CLAIM: the claiming term's */
	const LeGossip *news;		/* TELL_NEWS; or written together with
								 * ACQUIRE, TAKE_OVER, PUBLISH, RELEASE; NULL:
								 * none */
	bool		dry_run;		/* only to learn if it would be allowed: its
								 * conditions hold for no key */
	bool		fresh;			/* LIST_NODES: not from just any server */
	bool		for_people;		/* READ: name no leader whose term is over,
								 * even if that takes a request more */
	const char *page;			/* LIST_HELD, LIST_CLAIMS: where to continue;
								 * NULL: begin */
	const char *secret;			/* AUTHENTICATE: the text of the file */

	struct						/* REGISTER_NODE, PROVE_NODE, REVOKE_NODE */
	{
		uint64		seq;
		const char *unfit;		/* see LeNodeKey; not for REVOKE_NODE */
		LeSystems	systems;	/* the same */
		uint64		since;		/* the same; 0: this is the first session */
		const char *const *held;	/* PROVE_NODE: elections to check */
		int			nheld;		/* at most LE_MAX_CHECKED_KEYS */
	}			proof;

	struct						/* WATCH, WATCH_NEWS */
	{
		uint64		index;		/* answer when past it; 0: at once */
		int			wait_ms;
	}			watch;

	struct						/* TAKE_OVER */
	{
		const LeNodeKey *target;	/* the silent holder, as its node key was
									 * last seen */
		bool		target_holds;	/* it still holds the election's key */
	}			takeover;

	struct						/* READ_CLAIM, CLAIM, COMPLETE */
	{
		const char *job;		/* READ_CLAIM */
		const LeClaim *record;	/* to be written */
		const LeClaim *previous;	/* the record that was read: condition of
									 * the write; CLAIM only: NULL means that
									 * the job has none */
	}			claim;

	struct						/* where each key has a lease of its own */
	{
		uint64		rev;		/* condition beside the index: the key's
								 * revision; WATCH: answer when another */
		uint64		token_floor;	/* ACQUIRE: the new index must be higher */
		const char *attempt;	/* ACQUIRE: the same for each copy of it;
								 * PUBLISH, CLAIM: the term's acquire */
	}			term;

	struct						/* RENEW_TERMS */
	{
		const LeTermRef *terms;
		int			nterms;
	}			renew;

	struct						/* the store "local" */
	{
		LeLocalKey *key;
		const LeClaimLog *log;
		struct LeClaims *claims;	/* ... and its data */
		/* 0: none to be had, as on a standby */
		uint64		(*next_token) (struct LeLocalTokens *tokens);
		struct LeLocalTokens *tokens;
	}			local;

	/*
	 * The request, of those that carry the operation.  worker/wire sets it; a
	 * store that takes no operations together, and answers each with one
	 * request, need not look.
	 */
	struct
	{
		/* further operations of it, each on another election */
		const struct LeOp *const *joined;
		int			njoined;	/* at most LE_MAX_JOINED - 1 */
		LeStep		step;		/* ... and of those of one operation */
		size_t		from;		/* decode the answer from this byte on, as the
								 * last part said; 0: from its beginning */
	}			wire;
} LeOp;

extern bool le_op_writes(LeOpKind kind);
extern LeOpKind le_op_right(LeOpKind kind);
extern const char *le_op_name(LeOpKind kind);
extern bool le_valid_election_name(const char *name);
extern bool le_valid_job_name(const char *name);
extern bool le_valid_sqlstate(const char *sqlstate);
extern bool le_valid_gap(const LeGap *gap, int64 tick);
extern const char *le_claim_state_name(LeClaimState state);
extern bool le_claim_ends_alike(const LeClaim *found, const LeClaim *claim);
extern bool le_claim_state_named(const char *name, LeClaimState *state);

#endif							/* LE_OP_H */
