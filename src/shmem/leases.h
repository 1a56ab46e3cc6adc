/*-------------------------------------------------------------------------
 *
 * leases.h
 *		The lease table: elections that this node holds, seeks or has seen.
 *
 * The table lies in shared memory.  The worker is its only writer; every
 * other process reads without a lock.  See leases.c for the method.
 *
 * src/shmem/leases.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_LEASES_H
#define LE_LEASES_H

#include "port/atomics.h"
#include "utils/timestamp.h"

#include "core/clone.h"
#include "core/election.h"
#include "core/node.h"
#include "shmem/clock.h"
#include "store/store.h"

/*
 * The owner of a term on this node.  0: none; LE_OWNER_NODE: the instance; any
 * other value: one backend, by the number that it drew when it first used the
 * extension, in scope "transaction" with LE_OWNER_XACT added.
 */
typedef uint64 LeOwner;

#define LE_OWNER_NONE		UINT64CONST(0)
#define LE_OWNER_NODE		UINT64CONST(1)
#define LE_OWNER_XACT		(UINT64CONST(1) << 63)

/*
 * A term that is to end waits for the transactions bound to it, then cancels
 * them, then waits this long for the last to end.
 */
#define LE_DRAIN_GRACE		(3 * LE_SEC / 2)

#define LE_MAX_ERROR_LEN	200

/*
 * One election.  A check reads the first cache line, and the name: the
 * changes of its term are bracketed by "version".
 */
typedef struct LeSlot
{
	pg_atomic_uint64 shown;		/* odd while anything is being changed */
	struct
	{
		pg_atomic_uint64 version;	/* odd while the term is being changed */
		pg_atomic_uint64 deadline;	/* le_time; 0: no belief */
		pg_atomic_uint64 owner; /* LeOwner */
		pg_atomic_uint64 token; /* 0: there is no term */
		pg_atomic_uint64 given_up;	/* token of the term that its owner ended
									 * by itself; written by that backend
									 * only */
		pg_atomic_uint64 drain_until;	/* le_time; from then on transactions
										 * bound to the term may not commit;
										 * 0: it is not to end */
	}			term;
	pg_atomic_uint32 next;		/* in the bucket's chain: slot number + 1 */
	pg_atomic_uint32 grants;	/* calls told of the term that have not
								 * declined it, and marks; see leases.c */

	bool		used;
	char		name[LE_MAX_ELECTION_LEN + 1];

	/* The worker's own state; status views copy it under "shown". */
	bool		campaign;		/* le_campaign() */
	bool		configured;		/* in the setting leader_election.campaign */
	bool		stepping_down;	/* le_step_down() ends the term */
	bool		drain_told;		/* bound sessions were signaled to stop */
	bool		end_confirmed;	/* the store knows of the end of the term that
								 * ended last */
	bool		fault_told;		/* an unusable key was logged */
	LeElection	election;
	LeLocalKey	local;
	int			owner_proc;		/* number of the owning backend */
	int			owner_pid;
	struct						/* the acquire in flight is for this owner */
	{
		LeOwner		owner;
		int			proc;
		int			pid;
	}			candidate;
	int			asked;			/* questions under way about the slot */
	le_duration drain_grace;	/* between drain_until and the term's end */
	uint64		ended_token;	/* the term that ended last */
	le_time		hold_off_until; /* do not contend before */
	le_time		campaign_after; /* a campaign pauses until then */
	le_time		used_at;		/* for choosing a slot to reuse */
	uint64		refused_token;	/* the store's last token, if it was too low;
								 * else 0 */

	/* For views and messages. */
	struct
	{
		TimestampTz term_started;
		TimestampTz renewed_at;
		TimestampTz last_change;
		LeReason	last_reason;
	}			view;
	struct						/* the last error */
	{
		TimestampTz at;
		LeOpKind	kind;		/* if "refused": its le_op_right() ... */
		uint8		cause;		/* ... and its LeCause */
		bool		refused;
		char		text[LE_MAX_ERROR_LEN + 1];
	}			error;

	/* The value to publish. */
	bool		has_value;
	char		value[LE_MAX_VALUE_LEN + 1];

	/* The record last seen in the store. */
	struct
	{
		uint64		index;
		le_time		seen;		/* receipt; 0: never */
		uint64		token;		/* its term's; 0: not known */
		bool		holds;		/* the holder has the key; false: left it
								 * unreleased */
		char		session[LE_SESSION_LEN + 1];	/* another node's, to be
													 * waited for; "": none */
		char		node[LE_MAX_NODE_NAME_LEN + 1];
	}			holder;

	struct						/* where each key has a lease of its own */
	{
		uint64		rev;		/* the key's revision, as last shown */
		uint32		attempt_of; /* number of the newest acquire, among the
								 * decisions ... */
		char		attempt[LE_ATTEMPT_LEN + 1];	/* ... and its id */
	}			key;
} LeSlot;

/* Bytes of a cache line of most processors; a slot begins with a new one. */
#define LE_CACHE_LINE	64
#define LE_SLOT_SIZE	TYPEALIGN(LE_CACHE_LINE, sizeof(LeSlot))

StaticAssertDecl(offsetof(LeSlot, used) == LE_CACHE_LINE,
				 "a check must read one cache line of a slot");
StaticAssertDecl(sizeof(LeSlot) <= 2048, "a slot must fit into 2 KB");

/* A node of the cluster, as read from the store. */
typedef struct LeNodeInfo
{
	char		session[LE_SESSION_LEN + 1];
	char		node[LE_MAX_NODE_NAME_LEN + 1];
	char		incarnation[LE_INCARNATION_LEN + 1];
	uint64		index;
	uint64		seq;
	le_duration lease;
	le_time		first_seen;		/* receipt of the first answer that showed
								 * this index; the mark "revoked" is no sign
								 * of life, and does not count */
	TimestampTz first_seen_wall;
	le_time		doubted;		/* time when a takeover from it was refused;
								 * 0: never */
	bool		held;
	bool		revoked;
	bool		self;
	bool		tells;			/* it publishes news of all its writes */
	char		unfit[LE_UNFIT_LEN + 1];	/* why it cannot lead; "": it can */
	LeSystems	systems;		/* see there */
	uint64		since;			/* index at which its incarnation joined */
	le_time		lives_since;	/* receipt of the first in a row of new proofs;
								 * 0: there was none */
	le_time		proved;			/* ... and of the last one */
	bool		told;			/* that it is a copy, as this one */
} LeNodeInfo;

#define LE_MAX_NODES	256

/*
 * Trouble that concerns all elections of this node, by origin; views show the
 * first.
 */
typedef enum LeTroubleKind
{
	LE_TROUBLE_SETTINGS,		/* settings do not allow the node to lead */
	LE_TROUBLE_TOKENS,			/* tokens cannot be kept on disk */
	LE_TROUBLE_STORE,			/* the store does not answer, or refuses */
	LE_NTROUBLES
} LeTroubleKind;

typedef struct LeTrouble
{
	TimestampTz at;				/* 0: none */
	char		text[LE_MAX_ERROR_LEN + 1];
} LeTrouble;

/* A name that was checked and has no slot in the table. */
typedef struct LeMissing
{
	pg_atomic_uint64 version;	/* odd while it is being written; 0: unused */
	uint32		hash;
	char		name[LE_MAX_ELECTION_LEN + 1];
	Oid			role;			/* that was logged in when it was noted ... */
	uint64		number;			/* ... as the n-th */
	TimestampTz at;				/* its last lookup */
} LeMissing;

#define LE_MAX_MISSING			16
#define LE_MAX_MISSING_OF_ROLE	4

/* The whole table, followed by the buckets and the slots. */
typedef struct LeTable
{
	/* identity */
	char		incarnation[LE_INCARNATION_LEN + 1];
	bool		worker_started; /* some worker has run in this incarnation */
	pg_atomic_uint32 worker_proc;	/* its number + 1; 0: none runs */
	pg_atomic_uint32 worker_pid;
	pg_atomic_uint64 last_owner;	/* numbers drawn by backends so far */
	pg_atomic_uint64 turns;		/* the worker's loop counts them: it runs */
	pg_atomic_uint64 hints;		/* counts acts of backends on their own: left,
								 * gave up a term, stopped waiting */

	/* written by workers in turn; see worker/view/eligible.c */
	uint64		settings_taken; /* checksum of the files; 0: not known */
	char		settings_fault[512];	/* why not to lead with them; "": do */

	/* the store session; see core/node.h */
	LeNode		node;
	char		session[LE_SESSION_LEN + 1];
	char		session_incarnation[LE_INCARNATION_LEN + 1];
	char		previous[LE_SESSION_LEN + 1];	/* the session before it */
	LeNamespace namespace;		/* where the session was created */

	/* the cluster; changes bracketed by nodes_version */
	pg_atomic_uint64 nodes_version;
	int			nnodes;
	LeNodeInfo	nodes[LE_MAX_NODES];
	char		unfit[LE_UNFIT_LEN + 1];	/* this node's; see LeNodeInfo */
	LeSystems	systems;		/* this data directory's */
	bool		shows_systems;	/* to other nodes */
	uint64		since;			/* see LeNodeInfo */
	char		clone_of[LE_MAX_NODE_NAME_LEN + 1]; /* its original; "": it is
													 * no clone */

	/* written by workers in turn; see worker/view/clones.c */
	bool		promoted;		/* a standby, or one until lately */
	char		joined[512];	/* the namespace in which "since" counts */
	le_time		unclear_until;	/* it may be a clone; 0: that is clear */

	/* of a primary, noted once; see worker/disk/pastfile.c */
	uint32		timeline;		/* 0: not yet */
	TimestampTz past_ended;		/* 0: not known */
	TimestampTz past_left;		/* 0: never */

	/* the postmaster takes no more connections; see worker/view/eligible.c */
	bool		stopping;

	/* trouble of all elections; bracketed by trouble_version */
	pg_atomic_uint64 trouble_version;
	LeTrouble	troubles[LE_NTROUBLES];

	/* written by any backend, see note_missing() */
	pg_atomic_uint64 nmissing;	/* number of names noted */
	LeMissing	missing[LE_MAX_MISSING];

	/* elections */
	pg_atomic_uint64 layout;	/* moves when a slot gets or loses its name */
	int			nslots;
	int			nbuckets;		/* power of two */
	int			nused;
} LeTable;

extern LeTable *le_table;

/* The result of a check. */
typedef struct LeTerm
{
	LeOwner		owner;
	uint64		token;
	le_time		deadline;
	le_time		drain_until;	/* 0: it is not to end */
} LeTerm;

extern Size le_leases_size(void);
extern LeSlot *le_slot_of(LeTable *table, int number);
extern void le_leases_init(bool found, void *where);

/* reading, from any process */
extern const char *le_scope_name(LeOwner owner);
extern int	le_find_term(const char *election);
extern bool le_read_term(const char *election, LeTerm *term);
extern bool le_read_term_at(int number, const char *election, LeTerm *term);
extern TimestampTz le_copy_missing(int number, char *name);
extern bool le_copy_slot(int number, LeSlot *copy);
extern int	le_copy_nodes(LeNodeInfo *copy);
extern void le_copy_unfit(char *unfit);
extern void le_copy_clone_of(char *original);
extern void le_copy_systems(LeSystems *systems);
extern void le_copy_trouble(LeTrouble *trouble);
extern void le_give_up_term(const char *election, uint64 token);
extern bool le_give_up_terms_of(LeOwner owner);
extern void le_keep_term(const char *election, uint64 token);
extern void le_decline_term(const char *election, uint64 token);

/* writing, from the worker only */
extern LeSlot *le_slot(int number);
extern void le_begin_grants(LeSlot *slot);
extern bool le_grants_open(const LeSlot *slot);
extern void le_grant(LeSlot *slot);
extern void le_end_grants(LeSlot *slot);
extern int	le_slot_number(const LeSlot *slot);
extern LeOwner le_owner_of(const LeSlot *slot);
extern bool le_term_stands(const LeSlot *slot);
extern LeSlot *le_find_slot(const char *election);
extern LeSlot *le_find_or_add_slot(const char *election, bool *added);
extern int	le_held_off(void);
extern bool le_session_live(void);
extern bool le_session_none(void);
extern void le_begin_change(LeSlot *slot);
extern void le_end_change(LeSlot *slot);
extern void le_begin_note(LeSlot *slot);
extern void le_end_note(LeSlot *slot);
extern void le_note_error(LeSlot *slot, LeOpKind kind, LeOutcome outcome,
						  LeCause cause,
						  const char *detail);
extern void le_set_nodes(const LeNodeInfo *nodes, int n);
extern void le_set_unfit(const char *unfit);
extern void le_set_clone_of(const char *original);
extern void le_set_systems(const LeSystems *systems);
extern void le_set_trouble(LeTroubleKind kind, const char *text);

#endif							/* LE_LEASES_H */
