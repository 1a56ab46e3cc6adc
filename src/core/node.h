/*-------------------------------------------------------------------------
 *
 * node.h
 *		State machine of a node's store session.
 *
 * All terms of a node rest on one session in the store and on one key that
 * the session holds, the node key.  This machine creates the session, proves
 * it once per round, ends belief when the proofs stay away, and takes the
 * session out of the store again.
 *
 * src/core/node.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_NODE_H
#define LE_NODE_H

#include "core/election.h"

typedef enum LeNodeState
{
	LE_NODE_NONE,				/* no session */
	LE_NODE_CREATING,			/* session create in flight or due */
	LE_NODE_VERIFYING,			/* reading back what was created */
	LE_NODE_REGISTERING,		/* node key create in flight */
	LE_NODE_LIVE,				/* proofs carry the terms of this node */
	LE_NODE_LISTING,			/* belief has ended: which keys are held? */
	LE_NODE_UNLOCKING,			/* those keys are being released */
	LE_NODE_DESTROYING,			/* it holds none: session destroy in flight */
	LE_NODE_REVOKING,			/* the dead session's node key gets its mark */
	LE_NODE_FORGETTING			/* or is deleted, when no key names it */
} LeNodeState;

#define LE_NODE_NSTATES	(LE_NODE_FORGETTING + 1)

typedef enum LeNodeInputKind
{
	LE_NODE_IN_WANT,			/* an election needs the session */
	LE_NODE_IN_UNWANT,			/* no election does, or all must go */
	LE_NODE_IN_DONE,			/* the step's request was applied */
	LE_NODE_IN_FAILED,			/* not applied, or unknown: outcome */
	LE_NODE_IN_RENEWED,			/* the session renewal was answered: sent */
	LE_NODE_IN_RENEW_FAILED,	/* outcome; LE_LOST: the session is gone */
	LE_NODE_IN_PROVED,			/* the proof was applied: sent, index */
	LE_NODE_IN_PROOF_FAILED,	/* outcome; LE_LOST: the node key is not ours;
								 * LE_CONFLICT: an election's key is not */
	LE_NODE_IN_LISTED,			/* held, named, early */
	LE_NODE_IN_UNLOCKED,		/* one of the releases was answered */
	LE_NODE_IN_PROVE_NOW,		/* a proof is wanted at once */
	LE_NODE_IN_TIMER
} LeNodeInputKind;

#define LE_NODE_NINPUTS	(LE_NODE_IN_TIMER + 1)

typedef struct LeNodeInput
{
	LeNodeInputKind kind;
	le_time		now;
	uint32_t	random;
	LeOutcome	outcome;
	le_time		sent;			/* when the answered request was sent */
	uint64_t	index;			/* the node key's: registered, PROVED */
	int			held;			/* LISTED: keys that the session holds */
	int			named;			/* LISTED: free keys left unreleased by it */
	bool		early;			/* LISTED: it may have acquired a key since */
} LeNodeInput;

/* The requests to send; several may be asked for at once. */
#define LE_NODE_SEND_CREATE		0x0001
#define LE_NODE_SEND_VERIFY		0x0002
#define LE_NODE_SEND_REGISTER	0x0004
#define LE_NODE_SEND_RENEW		0x0008
#define LE_NODE_SEND_PROOF		0x0010
#define LE_NODE_SEND_LIST		0x0020
#define LE_NODE_SEND_UNLOCKS	0x0040	/* one for each key of the list */
#define LE_NODE_SEND_DESTROY	0x0080
#define LE_NODE_SEND_REVOKE		0x0100
#define LE_NODE_SEND_FORGET		0x0200

typedef struct LeNodeActions
{
	bool		terms_end;		/* first: every term of the node is over */
	LeReason	reason;
	unsigned	send;			/* LE_NODE_SEND_... */
	le_duration timeout;		/* for each of them */
	bool		deadline_moved; /* publish node->deadline */
	bool		became_live;	/* elections may acquire */
	bool		ended;			/* no session is left; another may start */
	bool		failed;			/* a step failed: outcome */
	LeOutcome	outcome;
} LeNodeActions;

typedef struct LeNode
{
	LeNodeState state;
	LeTiming	timing;			/* this session's; its lease is for life */
	LeTiming	next_timing;	/* the next session's */
	bool		wanted;
	bool		gone;			/* the store has ended the session itself */
	bool		destroyed;		/* we have ended it, and the store said so */
	bool		renewing;		/* a renewal is in flight */
	bool		proving;		/* a proof is in flight */
	bool		prove_again;	/* asked for while one was in flight */
	uint32_t	epoch;			/* counts sessions; answers to requests of
								 * older ones are dropped by the caller */
	uint64_t	seq;			/* the newest proof attempt's; never reused */
	uint64_t	proof_index;	/* highest index of the node key seen */
	le_time		proof_sent;		/* the newest proof */
	le_time		renew_sent;		/* the newest renewal that succeeded */
	le_time		deadline;		/* 0: no belief */
	le_time		prove_at;
	le_time		renew_at;
	le_time		step_at;		/* retry of the present step; 0: in flight */
	int			proof_failures;
	int			renew_failures;
	int			step_failures;
	int			setup_failures; /* sessions in a row that could not be used */
	int			unlocks;		/* releases still to be answered */
	int			named;			/* as of the last list */
} LeNode;

/*
 * The contract with the caller.
 *
 * Each answer is fed once, while it is awaited: to the present step, to the
 * proof or the renewal in flight.  The caller drops what was sent under an
 * earlier epoch.  A step of several requests is answered by the last, or by
 * the first that fails.  The releases of LE_NODE_SEND_UNLOCKS are as many as
 * LE_NODE_IN_LISTED told, and each is answered, whatever its outcome.
 *
 * "sent" is when the answered request was sent, which a session, a proof and
 * a renewal count from.  LE_NODE_IN_TIMER may come at any time.  The time
 * never goes back.
 *
 * Between two inputs the caller may replace the timing of a session by one
 * with the same lease, and call the functions below.  It changes nothing else.
 * The deadline stays as it was made until the next proof or renewal.
 *
 * The checks are as those in election.h.
 */
extern void le_node_init(LeNode *n);
extern void le_node_adopt_predecessor(LeNode *n, const LeTiming *timing,
									  le_time now);
extern void le_node_resume(LeNode *n, le_time now);
extern void le_node_set_timing(LeNode *n, const LeTiming *timing);
extern LeNodeActions le_node_input(LeNode *n, const LeNodeInput *input);
extern const char *le_node_sound(const LeNode *n);
extern const char *le_node_contract(const LeNode *n, const LeNodeInput *input);
extern const char *le_node_check(const LeNode *before,
								 const LeNodeInput *input, const LeNode *after,
								 const LeNodeActions *act);
extern le_time le_node_timer(const LeNode *n);

#endif							/* LE_NODE_H */
