/*-------------------------------------------------------------------------
 *
 * election.h
 *		State machine of one election as one node sees it.
 *
 * The machine decides which request to send next, when a term begins and
 * ends, and the answer for waiting sessions.  It does nothing itself: an
 * input goes in together with the time, the new state and a list of actions
 * come out.  The state is plain data in shared memory, so that a new worker
 * finds what was in flight.
 *
 * The table of states and inputs is in election.c, a diagram of it in
 * docs/architecture.md.
 *
 * src/core/election.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_ELECTION_H
#define LE_ELECTION_H

#include "core/timing.h"

/* Outcome of a request to the store. */
typedef enum LeOutcome
{
	LE_DONE,					/* applied, or the read answered */
	LE_CONFLICT,				/* a condition did not hold: not applied */
	LE_LOST,					/* the store session is gone: not applied */
	LE_REFUSED,					/* permission or configuration: not applied */
	LE_UNAVAILABLE,				/* certainly not applied; try later */
	LE_UNKNOWN					/* may have been applied, or may yet be */
} LeOutcome;

/* Which condition failed, for LE_CONFLICT. */
typedef enum LeConflict
{
	LE_CONFLICT_CHANGED,		/* the key is not as it was read */
	LE_CONFLICT_HELD,			/* another session holds the key */
	LE_CONFLICT_LOCK_DELAY,		/* nobody may lock the key yet */
	LE_CONFLICT_OWN				/* an earlier acquire of ours holds it, at
								 * index */
} LeConflict;

/* The holder of the election's key. */
typedef enum LeKeyHolder
{
	LE_KEY_FREE,
	LE_KEY_OURS,				/* this node's present store session */
	LE_KEY_OTHER
} LeKeyHolder;

/*
 * The election's key as an answer of the store showed it, and the node's
 * knowledge of its last holder.
 */
typedef struct LeKeyView
{
	LeKeyHolder holder;
	bool		exists;
	bool		usable;			/* carries the lock flag; false: a foreign key,
								 * not to be touched */
	bool		released;		/* the last holder had stopped believing */
	bool		holder_ended;	/* belief of the holder or last holder has
								 * ended, although the key does not say so */
	bool		own_lease;		/* the key has a lease of its own, which is in
								 * the answer to a write, not to a read */
	le_time		silent_at;		/* from then on the holder counts as silent;
								 * 0: it cannot be taken over */
	uint64_t	index;			/* last write of the key; 0: no key */
	uint64_t	as_of;			/* the store's index that the answer shows */
	uint64_t	token;			/* the term that wrote it; 0: not known */
	le_duration holder_lease;	/* the last holder's; LE_MAX_LEASE if not
								 * known */
} LeKeyView;

typedef enum LeState
{
	LE_IDLE,					/* no candidate, no term, nothing in flight */
	LE_READING,					/* candidate; a consistent read is in flight */
	LE_WAITING,					/* candidate; not ours to take at present */
	LE_ACQUIRING,				/* a conditional acquire is in flight */
	LE_ACQUIRE_UNSURE,			/* ... its outcome is not known yet */
	LE_HELD,					/* a term, nothing in flight */
	LE_PUBLISHING,				/* a term, a new value is in flight */
	LE_PUBLISH_UNSURE,			/* ... its outcome is not known yet */
	LE_DRAINING,				/* a term, until no session is bound to it */
	LE_RELEASING,				/* belief has ended; release in flight */
	LE_RELEASE_UNSURE			/* ... its outcome is not known yet */
} LeState;

#define LE_NSTATES	(LE_RELEASE_UNSURE + 1)

typedef enum LeInputKind
{
	LE_IN_WANT,					/* this node seeks the election */
	LE_IN_UNWANT,				/* it no longer does; end a term */
	LE_IN_DRAIN,				/* end the term at LE_IN_UNWANT, or at "until"
								 * at the latest */
	LE_IN_PUBLISH,				/* the holder has a new value */
	LE_IN_READ,					/* a consistent read was answered: view */
	LE_IN_READ_FAILED,			/* it was not: outcome */
	LE_IN_SEEN,					/* the watch shows: view */
	LE_IN_DONE,					/* the write was applied: index */
	LE_IN_CONFLICT,				/* the write was not applied: conflict */
	LE_IN_NOT_APPLIED,			/* the write was not applied: outcome */
	LE_IN_UNKNOWN,				/* the write's outcome is unknown */
	LE_IN_NOT_OURS,				/* the node proof shows that the key is not
								 * ours */
	LE_IN_RENEWED,				/* the term's own lease was renewed: sent,
								 * deadline */
	LE_IN_RENEW_FAILED,			/* not renewed, or unknown: outcome; LE_LOST:
								 * the term is over; LE_CONFLICT: the key had
								 * moved on, renew again */
	LE_IN_EXPIRED,				/* the term's own deadline has come */
	LE_IN_HOLDER,				/* a list shows the node that is waited for:
								 * silent_at */
	LE_IN_NODE_ENDED,			/* the store session is over: reason; once
								 * another lives, LE_IN_WANT wakes waiters */
	LE_IN_TIMER					/* timer_at has come */
} LeInputKind;

#define LE_NINPUTS	(LE_IN_TIMER + 1)

/* Why a term ended. */
typedef enum LeReason
{
	LE_REASON_NONE,
	LE_REASON_RELEASED,			/* the holder let go */
	LE_REASON_STEPPED_DOWN,		/* on request */
	LE_REASON_NO_PROGRESS,		/* the leader did nothing */
	LE_REASON_KEY_LOST,			/* the key was deleted or taken */
	LE_REASON_SESSION_LOST,		/* the store ended the session */
	LE_REASON_EXPIRED,			/* the deadline came first */
	LE_REASON_TOKEN				/* the store's index went back */
} LeReason;

typedef struct LeInput
{
	LeInputKind kind;
	le_time		now;
	uint32_t	random;			/* for jitter */
	const LeTiming *timing;
	const LeKeyView *view;		/* LE_IN_READ, LE_IN_SEEN */
	uint64_t	index;			/* LE_IN_DONE; LE_CONFLICT_OWN */
	bool		suffices;		/* LE_IN_DONE of a release: an acquire needs
								 * the index and nothing else */
	LeOutcome	outcome;		/* LE_IN_READ_FAILED, LE_IN_NOT_APPLIED,
								 * LE_IN_RENEW_FAILED */
	LeConflict	conflict;		/* LE_IN_CONFLICT */
	LeReason	reason;			/* LE_IN_NODE_ENDED */
	le_time		silent_at;		/* LE_IN_HOLDER */
	le_time		sent;			/* with deadline: when its request was sent */
	le_time		deadline;		/* LE_IN_RENEWED; LE_IN_DONE of an acquire or a
								 * publish: end of the trust in the term's own
								 * lease; 0: the node's deadline counts */
	bool		renews_apart;	/* LE_IN_DONE of an acquire: publishing in the
								 * term will not renew its lease */
	le_time		until;			/* LE_IN_DRAIN */
} LeInput;

/* The next request to the store. */
typedef enum LeSend
{
	LE_SEND_NOTHING,
	LE_SEND_READ,
	LE_SEND_ACQUIRE,
	LE_SEND_TAKE_OVER,			/* an acquire from a holder that fell silent */
	LE_SEND_PUBLISH,
	LE_SEND_RELEASE
} LeSend;

/* The answer for waiting sessions. */
typedef enum LeVerdict
{
	LE_SAY_NOTHING,
	LE_SAY_GRANTED,				/* a term began */
	LE_SAY_DENIED,				/* certainly not ours now */
	LE_SAY_FAILED,				/* could not find out: outcome */
	LE_SAY_PUBLISHED,
	LE_SAY_PUBLISH_FAILED,		/* outcome */
	LE_SAY_RELEASED,			/* the store confirmed */
	LE_SAY_RELEASE_FAILED,		/* not confirmed yet; it goes on: outcome */
	LE_SAY_LOST,				/* a term ended without a release */
	LE_SAY_TOKEN_WENT_BACK		/* acquired, refused for its token, given
								 * back */
} LeVerdict;

typedef struct LeActions
{
	bool		term_ends;		/* carried out first: belief before message */
	LeReason	reason;
	bool		term_drains;	/* only for sessions bound to it by now */
	bool		term_begins;
	bool		deadline_moved; /* the one of the term's own lease */
	LeSend		send;
	uint64_t	index;			/* condition of the write; 0: no key exists */
	bool		unresolved;		/* an acquire was or may have been applied in
								 * vain: others may have seen a held key */
	LeVerdict	verdict;
	LeOutcome	outcome;
} LeActions;

/* A decision to acquire the key, which all copies of the request share. */
typedef struct LeAttempt
{
	uint64_t	index;			/* condition of the write */
	uint64_t	floor;			/* token_floor when it was decided on */
	uint32_t	number;			/* counts decisions, not copies */
	bool		takeover;		/* from a holder that fell silent */
	bool		unsure;			/* a copy may have been applied */
} LeAttempt;

typedef struct LeElection
{
	LeState		state;
	bool		wanted;			/* this node seeks or holds it */
	uint64_t	token;			/* fencing token of the term; 0: no term */
	le_time		drain_until;	/* latest end of the term; 0: it does not
								 * drain */
	uint64_t	write_index;	/* our last write of the key, or a later one
								 * that left it ours */
	LeAttempt	attempt;		/* the last one */
	bool		free;			/* the key was last seen to be free to take */
	uint64_t	token_floor;	/* a new token must be higher */
	uint64_t	free_index;		/* index of the free key, if "free"; 0: no
								 * key existed */
	uint64_t	seen_index;		/* the unreleased free key that we wait out */
	le_time		seen_at;		/* receipt of the first answer showing it */
	le_time		refused_until;	/* its tokens were too low: no acquire
								 * before */
	le_time		look_at;		/* latest time to read another holder's key;
								 * 0: no holder is waited for */
	le_time		timer_at;		/* 0: none */
	int			failures;		/* in a row; le_election_is_repeating() */
	int			tries;			/* writes that this candidate has decided on
								 * since it last had a term or waited */
	le_time		deadline;		/* the end of the term's own lease; 0: the
								 * node's deadline counts */
	le_time		renew_at;		/* when that lease is to be renewed */
	bool		renewing;		/* a renewal is in flight */
	bool		renews_apart;	/* a publish does not renew it */
	int			renew_failures; /* in a row */
	uint32_t	request;		/* number of the newest request; answers to
								 * older ones are dropped by the caller */
} LeElection;

/*
 * The contract with the caller.
 *
 * Each answer is fed once, while it is awaited: the caller drops answers to
 * requests other than the newest, to renewals of an earlier term, and to all
 * that an earlier store session sent.  A renewal is one that
 * le_election_renewal_sent() told of.
 *
 * A deadline comes with LE_IN_RENEWED, or with the LE_IN_DONE of an acquire or
 * a publish, and is at most a lease, less the margin, after the sending of
 * that request.  Where keys have leases of their own, the answer to an acquire
 * and to a renewal has one.
 *
 * LE_IN_TIMER is fed once the time has come; to LE_WAITING also earlier, and
 * the key is then read sooner.  LE_IN_EXPIRED may come at any time.
 *
 * Between two inputs the caller may raise token_floor, or set it to 0 where a
 * person accepts lower tokens, take the timer of LE_WAITING away, put off that
 * of LE_DRAINING, and call the functions below.  It changes nothing else.
 *
 * The time never goes back.  The node's timing may change at any time; a
 * deadline stays as it was made.
 *
 * le_election_sound() is the invariant of a state, le_election_contract() the
 * above for one input, le_election_check() what then holds of the step: NULL,
 * or in words what does not hold.  Builds with Asserts check all three
 * whenever the worker feeds an input.
 */
extern void le_election_init(LeElection *e, uint64_t token_floor);
extern LeActions le_election_input(LeElection *e, const LeInput *input);
extern const char *le_election_sound(const LeElection *e);
extern const char *le_election_contract(const LeElection *e,
										const LeInput *input);
extern const char *le_election_check(const LeElection *before,
									 const LeInput *input,
									 const LeElection *after,
									 const LeActions *act);
extern bool le_election_has_term(const LeElection *e);
extern bool le_election_in_flight(const LeElection *e);
extern bool le_election_is_repeating(const LeElection *e);
extern bool le_election_is_ending(const LeElection *e);
extern le_time le_election_renew_at(const LeElection *e);
extern void le_election_renewal_sent(LeElection *e);
extern void le_election_renewal_unsent(LeElection *e);
extern void le_election_renew_now(LeElection *e, le_time now);
extern void le_election_resume(LeElection *e, le_time now);
extern const char *le_state_name(LeState state);
extern const char *le_reason_name(LeReason reason);

#endif							/* LE_ELECTION_H */
