/*-------------------------------------------------------------------------
 *
 * store.h
 *		Operations on a lease store, and its answers.
 *
 * A store is data in, data out: encode() turns an operation into an HTTP
 * request, decode() turns the HTTP response into an answer.  Neither does
 * any I/O, reads a clock or keeps state, so a store builds and runs outside
 * the server too: in the unit tests, the fuzzer and the simulator.  Memory is
 * palloc'd in the current context; the caller resets it.
 *
 * A store differs from another in its LeStore alone, settings included.  The
 * worker never asks which store it is, only what the store can do.
 *
 * To add a store: its file or files, with its LeStore; its declaration below,
 * and its line in store.c's registry; its place in scripts/rooms.
 * docs/adding-a-store.md walks through it.
 *
 * src/store/store.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_STORE_H
#define LE_STORE_H

#include "lib/stringinfo.h"

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

/*
 * The place of the store's keys, for as long as a store session lasts: a
 * change of the settings behind it takes effect with the next.
 */
typedef struct LePlace
{
	char		prefix[LE_MAX_ELECTION_LEN + 1];	/* for all keys */
	char		part[LE_MAX_PART_LEN + 1];	/* in the store, as Consul's
											 * datacenter; "": the usual */
} LePlace;

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
	int64		ended_at;		/* ... 0: not ended, or not kept */

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

typedef struct LeOp
{
	LeOpKind	kind;

	/* further operations of the same request, each on another election */
	const struct LeOp *const *joined;
	int			njoined;		/* at most LE_MAX_JOINED - 1 */

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
	uint64		seq;			/* REGISTER_NODE, PROVE_NODE, REVOKE_NODE */
	const char *unfit;			/* REGISTER_NODE, PROVE_NODE: see LeNodeKey */
	const char *const *held;	/* PROVE_NODE: elections to check */
	int			nheld;			/* at most LE_MAX_CHECKED_KEYS */
	uint64		watch_index;	/* WATCH, WATCH_NEWS: answer when past it; 0:
								 * at once */
	int			wait_ms;		/* the same */
	size_t		from;			/* decode the answer from this byte on, as the
								 * last part said; 0: from its beginning */
	const LeGossip *news;			/* TELL_NEWS; or written together with
								 * ACQUIRE, TAKE_OVER, PUBLISH, RELEASE; NULL:
								 * none */
	bool		fresh;			/* LIST_NODES: not from just any server */
	bool		dry_run;		/* only to learn if it would be allowed: its
								 * conditions hold for no key */
	bool		for_people;		/* READ: name no leader whose term is over,
								 * even if that takes a request more */

	/* where each key has a lease of its own */
	uint64		rev;			/* condition beside the index: the key's
								 * revision; WATCH: answer when another */
	uint64		token_floor;	/* ACQUIRE: the new index must be higher */
	const char *attempt;		/* ACQUIRE: the same for each copy of it;
								 * PUBLISH, CLAIM: the term's acquire */
	const LeTermRef *terms;		/* RENEW_TERMS */
	int			nterms;
	const char *page;			/* LIST_HELD, LIST_CLAIMS: where to continue;
								 * NULL: begin */

	/* multi-step operations */
	LeStep		step;			/* the request to encode or decode */

	const char *secret;			/* AUTHENTICATE: the text of the file */

	/* TAKE_OVER: the silent holder, as its node key was last seen */
	const LeNodeKey *target;
	bool		target_holds;	/* it still holds the election's key */

	/* claims */
	const char *job;			/* READ_CLAIM */
	const LeClaim *claim;		/* CLAIM, COMPLETE: the record to write */
	const LeClaim *previous;	/* the record that was read: condition of the
								 * write; CLAIM only: NULL means that the job
								 * has none */

	/* store "local" only */
	LeLocalKey *local;
	const LeClaimLog *log;
	struct LeClaims *claims;	/* ... and its data */
	/* 0: none to be had (standby) */
	uint64		(*next_token) (struct LeLocalTokens *tokens);
	struct LeLocalTokens *tokens;
} LeOp;

typedef struct LeHttpRequest
{
	const char *method;			/* HEAD too */
	StringInfoData path;		/* path and query, percent-encoded, below the
								 * URL of a server */
	StringInfoData headers;		/* "Name: value", each ended by a newline */
	StringInfoData body;		/* sent with Content-Length if has_body */
	bool		has_body;
	size_t		max_answer;		/* larger answers are cut off and count as
								 * broken */

	/*
	 * Is this much of the answer enough?  If so it ends there, whole; NULL:
	 * never before its end.  Called by libcurl: it may only look.
	 */
	bool		(*enough) (const char *body, size_t len);

	bool		without_secret; /* sent to obtain the secret */

	/* set by the caller of encode() */
	const char *base;			/* URL of the server, without a slash at its
								 * end; encode() may name another one */
	bool		fresh;			/* over a new connection, to try it */
	int			connect_ms;		/* 0: as long as for the answer */
	const char *secret;			/* NULL: none; it goes behind ... */
	const char *secret_header;	/* ... this, or if that is NULL into the
								 * query */
} LeHttpRequest;

typedef enum LeNet
{
	LE_NET_OK,					/* a complete response */
	LE_NET_NOT_SENT,			/* no connection, TLS refused: the store
								 * cannot have acted on it */
	LE_NET_BROKEN				/* sent, perhaps in part; no (whole) answer */
} LeNet;

typedef struct LeHttpResponse
{
	LeNet		net;
	int			status;
	const char *body;			/* not terminated */
	size_t		body_len;
	const char *content_type;	/* "" if none */
	const char *headers;		/* as they came, a line each; NULL: none.  See
								 * le_header() */
	const char *net_error;		/* for people, when net is not OK */
} LeHttpResponse;

/* An election's key as the store holds it. */
typedef struct LeKey
{
	const char *election;
	const char *holder;			/* store session that holds it; NULL: free */
	uint64		index;			/* its last write */
	bool		usable;			/* carries the lock flag */
	const char *fault;			/* why this key is not usable; NULL: see
								 * LeStore.foreign_key */
	bool		ours;			/* this extension wrote its value; else the
								 * following are NULL, false */
	const char *node;
	const char *value_session;	/* the session that wrote the value */
	const char *value;			/* the user's value, NULL: none */
	uint64		token;			/* the term that wrote it; 0: not known */
	bool		released;
	bool		told;			/* known from news, which leave out "value" */
	uint64		rev;			/* if the key has a lease of its own: revision
								 * within a term */
} LeKey;

/* The result for one of the terms of RENEW_TERMS. */
typedef struct LeRenewal
{
	LeOutcome	outcome;		/* LOST: over; CONFLICT: it is at rev */
	uint64		rev;
	le_duration trust;
	const char *detail;
} LeRenewal;

/* Why was it REFUSED?  The last two concern every request. */
typedef enum LeCause
{
	LE_CAUSE_OTHER,				/* see the text; for other outcomes: none */
	LE_CAUSE_PERMISSION,		/* the secret does not allow it */
	LE_CAUSE_STRANGER,			/* this node is not known, or not let in */
	LE_CAUSE_NOT_STORE			/* the answer is not the store's */
} LeCause;

typedef struct LeAnswer
{
	LeOutcome	outcome;
	LeCause		cause;
	LeConflict	conflict;
	uint64		index;			/* the write's; for reads the answer's */
	const char *session;
	const char *name;
	const char *detail;			/* for people, when outcome is not DONE: one
								 * line, no secrets, control characters
								 * replaced, at most 200 bytes */
	LeKey	   *keys;
	int			nkeys;
	LeNodeKey  *nodes;
	int			nnodes;
	LeGossip	   *news;
	int			nnews;
	LeClaim    *claims;
	int			nclaims;
	int		   *lost;			/* PROVE_NODE: positions in held[] */
	int			nlost;

	/* where each key has a lease of its own */
	uint64		rev;			/* the key's, by a write that was applied */
	le_duration trust;			/* how long that write may be trusted, from
								 * when its request was sent */
	LeRenewal  *renewals;		/* RENEW_TERMS: as many as terms */
	const char *page;			/* LIST_HELD, LIST_CLAIMS: there is more, from
								 * here on */
	size_t		rest;			/* only a part of a long answer has been
								 * decoded: decode again from this byte, with
								 * the same LeAnswer; 0: that is all */
	bool		next_server;	/* certainly not applied, but perhaps by
								 * another server of the list */
	bool		unsent;			/* set by no store: it never left the queue, or
								 * was dropped from it */

	/* where the request carries several operations */
	struct LeAnswer *parts;		/* one each, the first operation included;
								 * NULL: this answer is for all */
	bool		unjudged;		/* in a part: certainly not applied, but only
								 * since another was refused */
	bool		apart;			/* none was applied, since the server does not
								 * take them together: send each alone */

	/* multi-step operations */
	bool		again;			/* another request follows, as "next" says;
								 * ignore the rest of the answer */
	LeStep		next;
	bool		anchors;		/* this request, not a later one, took or
								 * renewed the lease: trust counts from its
								 * sending */

	/* where a secret has to be fetched */
	const char *secret;			/* AUTHENTICATE */
	le_duration lasts;			/* AUTHENTICATE: 0: until it is refused */
	bool		stale_secret;	/* certainly not applied, but perhaps with a
								 * new one */
	bool		busy;			/* the store is overloaded, or was asked too
								 * often ... */
	le_duration busy_for;		/* ... and asks for such a pause; 0: it did not
								 * say */
} LeAnswer;

/* How this node learns that a key has changed hands. */
typedef enum LeWatching
{
	LE_WATCH_NOTHING,			/* there is no other node */
	LE_WATCH_ALL,				/* one parked query shows every key */
	LE_WATCH_EACH				/* a query for each key that is waited for */
} LeWatching;

/* A setting of a store; its name begins with "leader_election.". */
typedef enum LeSettingKind
{
	LE_SETTING_URL,
	LE_SETTING_URLS,			/* a list, the first that answers is asked */
	LE_SETTING_ISSUER,			/* URL of the issuer of secrets, on this
								 * machine or its host, or by https */
	LE_SETTING_PREFIX,			/* the prefix of keys */
	LE_SETTING_WORD,			/* letters, digits, "_" and "-"; or empty */
	LE_SETTING_FILE,
	LE_SETTING_FLAG,
	LE_SETTING_MS
} LeSettingKind;

typedef struct LeSetting
{
	const char *name;
	LeSettingKind kind;
	const char *brief;
	const char *detail;			/* NULL: none */
	char	  **text;			/* the variable, by kind; until then it has the
								 * default */
	bool	   *flag;
	int		   *ms;
	int			min_ms;			/* MS */
	int			max_ms;
} LeSetting;

/* How good a finding of le_check_config() is. */
typedef enum LeLevel
{
	LE_LEVEL_OK,
	LE_LEVEL_WARNING,
	LE_LEVEL_ERROR
} LeLevel;

typedef struct LeFinding
{
	LeLevel		level;
	const char *topic;
	const char *text;
	const char *lasting;		/* the same without parts that change with
								 * time; NULL: no such part */
} LeFinding;

#define LE_MAX_FINDINGS		4	/* from one store */

/*
 * A store: its abilities and its functions.  A field left out is 0, false or
 * NULL.  Any process of the server may call all of it.
 */
typedef struct LeStore
{
	const char *name;			/* in leader_election.backend */

	/* its kind of lease */
	bool		between_instances;	/* false: perform() answers everything, at
									 * once, for this instance alone */
	bool		has_sessions;	/* a store session per node carries all its
								 * terms, its node key tells the others of it;
								 * false: both exist in name only */
	bool		key_leases;		/* each key has a lease of its own, with its
								 * own renewals */
	bool		(*takes_over) (void);	/* may a holder that was silent for
										 * its whole lease be deposed?  NULL:
										 * the store judges its leases */

	/* its leases */
	le_duration least_lease;	/* 0: any */
	le_duration most_lease;
	le_duration granularity;	/* how much shorter than asked one may be */
	le_duration least_session;	/* the shortest TTL that it grants */
	const char *takes_more;		/* the setting of a further deduction from a
								 * lease */
	le_duration hiccup;			/* how long it may be silent in good health */
	const char *hiccup_cause;

	/* how many at a time */
	int			room;			/* places of a request that carries several
								 * operations; 0: each goes alone */
	int			(*takes) (const LeOp *op);	/* places that op takes; 0: it goes
											 * alone */
	bool		(*joins) (const LeOp *op, const LeOp *other);	/* may both go
																 * in one? */
	int			max_renewals;	/* terms of one RENEW_TERMS; at least 1 where
								 * keys have leases */
	LeWatching	watching;
	bool		tells;			/* nodes may publish news of their writes, so
								 * that no node has to read all keys */
	int			park_ms;		/* how long a WATCH stays parked ... */
	int			park_grace_ms;	/* ... and what the store may add */
	int			max_parked;		/* EACH: how many may be parked at a time */
	const int  *poll_ms;		/* EACH: a WATCH is answered at once, the next
								 * is sent so much later; NULL: it is parked */
	bool		renews_apart;	/* PUBLISH does not renew the key's lease */
	bool		claims_apart;	/* a claim is written first, and the term
								 * checked then: a claimant that finds its own
								 * record sends CLAIM once more */
	bool		lists_all_claims;	/* LIST_CLAIMS: those of all elections;
									 * false: the named one's */

	/* its settings, and functions of them */
	const LeSetting *settings;
	int			nsettings;
	const char *(*servers) (void);	/* URLs, separated by commas */
	const char *url_setting;	/* for hints */
	const char *(*url_fault) (const char *url); /* the fault of a well-formed
												 * URL; NULL: none */
	void		(*place) (LePlace *place);	/* by the present settings */

	/* its secret */
	const char *(*secret_file) (void);	/* "": none is sent */
	const char *secret_setting; /* for hints */
	const char *secret_header;	/* the secret goes behind it, as in
								 * "Authorization: Bearer "; NULL: into the
								 * query, as it is */
	const char *(*authenticates) (void);	/* the identity for AUTHENTICATE;
											 * "": not used.  NULL: never */
	const char *fetched_header; /* before a secret that was fetched */
	void		(*judge_secret) (const char *secret, int64 now,
								 LeFinding *finding);	/* judges the secret of
														 * the file; now in ms
														 * since 1970.  NULL:
														 * it shows nothing */

	/* several servers */
	const char *ready_path;		/* answers 200 if the server can be asked;
								 * NULL: each request shows it */

	/* texts for people */
	LeOpKind	place_check;	/* le_check_config() sends it to find if the
								 * place is ours to use, and says that the
								 * node may or may not ... */
	const char *place_verb;		/* "use the key prefix" */
	const char *foreign_key;	/* why an unusable key is unusable */
	int			(*explain) (const LeTiming *timing, int elections,
							LeFinding *findings);	/* for a node that contends
													 * for so many elections */

	/* requests and answers */
	bool		(*performs) (LeOpKind kind);	/* does perform() answer it at
												 * once, unlike other kinds?
												 * NULL: never */
	void		(*encode) (const LePlace *place, const LeOp *op,
						   LeHttpRequest *request);
	void		(*decode) (const LePlace *place, const LeOp *op,
						   const LeHttpResponse *response, LeAnswer *answer);
	void		(*perform) (const LeOp *op, LeAnswer *answer);
} LeStore;

extern const LeStore le_store_local;
extern const LeStore le_store_consul;
extern const LeStore le_store_cassandra;
extern const LeStore le_store_azure;

extern const LeStore *le_store_number(int number);
extern void le_store_limits(const LeStore *store, LeTiming *timing);
extern bool le_performs(const LeStore *store, LeOpKind kind);
extern bool le_header(const LeHttpResponse *response, const char *name,
					  char *value, size_t size);
extern bool le_refuses_all(LeCause cause);
extern bool le_op_writes(LeOpKind kind);
extern LeOpKind le_op_right(LeOpKind kind);
extern const char *le_op_name(LeOpKind kind);
extern const char *le_outcome_name(LeOutcome outcome);
extern bool le_valid_election_name(const char *name);
extern void le_append_encoded(StringInfo path, const char *s,
							  const char *kept);
extern void le_copy_key(LeKey *to, const LeKey *from);
extern const char *le_clean_detail(const char *s);
extern void le_fail(LeAnswer *answer, LeOutcome outcome, const char *detail);
extern void le_fail_open(const LeOp *op, LeAnswer *answer,
						 const char *detail);
extern void le_fail_shape(const LeOp *op, const LeHttpResponse *response,
						  const char *whose, LeAnswer *answer);
extern void le_fail_network(const LeOp *op, const LeHttpResponse *response,
							LeAnswer *answer);
extern char *le_session_of_incarnation(const char *incarnation);
extern void le_perform_session(const LeOp *op, LeAnswer *answer);
extern bool le_valid_job_name(const char *name);
extern bool le_valid_sqlstate(const char *sqlstate);
extern char *le_shown_message(const char *message);
extern char *le_shown_name(const char *name, size_t len);
extern bool le_is_loopback(const char *url);
extern const char *le_claim_state_name(LeClaimState state);
extern bool le_claim_state_named(const char *name, LeClaimState *state);

#endif							/* LE_STORE_H */
