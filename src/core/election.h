/*-------------------------------------------------------------------------
 *
 * election.h
 *		State machine of one election as one node sees it.
 *
 * The machine decides what to ask the store next, when a term begins and
 * ends, and what those who wait may be told.  It does nothing itself: an
 * input goes in together with the time, the new state and a list of actions
 * come out.  The state is plain data that lives in shared memory, so that a
 * worker that replaces another finds what was in flight.
 *
 * The table of states and events is in election.c, a diagram of it in
 * docs/architecture.md.
 *
 * src/core/election.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_ELECTION_H
#define LE_ELECTION_H

#include "core/timing.h"

/* What became of a request to the store. */
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

/* Who holds the election's key. */
typedef enum LeKeyHolder
{
	LE_KEY_FREE,
	LE_KEY_OURS,				/* this node's present store session */
	LE_KEY_OTHER
} LeKeyHolder;

/*
 * The election's key as an answer of the store showed it, and what the node
 * knows of its last holder.
 */
typedef struct LeKeyView
{
	LeKeyHolder holder;
	bool		exists;
	bool		usable;			/* carries the lock flag; false: somebody
								 * else's key, not to be touched */
	bool		released;		/* the last holder had stopped believing */
	bool		holder_ended;	/* the holder's or last holder's belief is
								 * known to have ended, although the key does
								 * not say so */
	bool		own_lease;		/* the key has a lease of its own, which only a
								 * write's answer tells, not a read's */
	le_time		silent_at;		/* from then on the holder counts as silent;
								 * 0: it cannot be taken over */
	uint64_t	index;			/* of the key's last write; 0: none exists */
	uint64_t	as_of;			/* the store's index that the answer shows */
	uint64_t	token;			/* of the term that wrote it; 0: not known */
	le_duration holder_lease;	/* of the last holder; LE_MAX_LEASE if not
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
	LE_DRAINING,				/* a term, until nobody depends on it */
	LE_RELEASING,				/* belief has ended; release in flight */
	LE_RELEASE_UNSURE			/* ... its outcome is not known yet */
} LeState;

#define LE_NSTATES	(LE_RELEASE_UNSURE + 1)

typedef enum LeInputKind
{
	LE_IN_WANT,					/* somebody seeks the election */
	LE_IN_UNWANT,				/* nobody does; end the term if there is one */
	LE_IN_DRAIN,				/* end the term; LE_IN_UNWANT will say when,
								 * or it ends by itself: until */
	LE_IN_PUBLISH,				/* the holder has a new value */
	LE_IN_READ,					/* a consistent read was answered: view */
	LE_IN_READ_FAILED,			/* it was not: outcome */
	LE_IN_SEEN,					/* the watch shows: view */
	LE_IN_DONE,					/* the write was applied: index */
	LE_IN_CONFLICT,				/* the write was not applied: conflict */
	LE_IN_NOT_APPLIED,			/* the write was not applied: outcome */
	LE_IN_UNKNOWN,				/* nobody knows about the write */
	LE_IN_NOT_OURS,				/* the node proof shows that the key is not
								 * ours */
	LE_IN_RENEWED,				/* the term's own lease was renewed: sent,
								 * deadline */
	LE_IN_RENEW_FAILED,			/* it was not, or nobody knows: outcome;
								 * LE_LOST: the term is over; LE_CONFLICT:
								 * the key had moved on, renew again */
	LE_IN_EXPIRED,				/* the term's own deadline has come */
	LE_IN_HOLDER,				/* news of the holder waited for: silent_at */
	LE_IN_NODE_ENDED,			/* the store session is over: reason; once
								 * another lives, LE_IN_WANT wakes who waits */
	LE_IN_TIMER					/* timer_at has come */
} LeInputKind;

#define LE_NINPUTS	(LE_IN_TIMER + 1)

/* Why a term ended. */
typedef enum LeReason
{
	LE_REASON_NONE,
	LE_REASON_RELEASED,			/* the holder let go */
	LE_REASON_STEPPED_DOWN,		/* it was told to */
	LE_REASON_NO_PROGRESS,		/* nothing was done in it */
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
	bool		suffices;		/* LE_IN_DONE of a release: the index is all
								 * that an acquire depends on */
	LeOutcome	outcome;		/* LE_IN_READ_FAILED, LE_IN_NOT_APPLIED,
								 * LE_IN_RENEW_FAILED */
	LeConflict	conflict;		/* LE_IN_CONFLICT */
	LeReason	reason;			/* LE_IN_NODE_ENDED */
	le_time		silent_at;		/* LE_IN_HOLDER */
	le_time		sent;			/* with deadline: of the request behind it */
	le_time		deadline;		/* LE_IN_RENEWED; LE_IN_DONE of an acquire or a
								 * publish: until when the term may be trusted
								 * by itself; 0: the node's deadline carries
								 * it */
	bool		renews_apart;	/* LE_IN_DONE of an acquire: publishing in the
								 * term will not renew its lease */
	le_time		until;			/* LE_IN_DRAIN */
} LeInput;

/* What the store is to be asked. */
typedef enum LeSend
{
	LE_SEND_NOTHING,
	LE_SEND_READ,
	LE_SEND_ACQUIRE,
	LE_SEND_TAKE_OVER,			/* an acquire from a holder that fell silent */
	LE_SEND_PUBLISH,
	LE_SEND_RELEASE
} LeSend;

/* What those who wait may be told. */
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
	LE_SAY_LOST,				/* a term ended that nobody released */
	LE_SAY_TOKEN_WENT_BACK		/* acquired, refused for its token, given
								 * back */
} LeVerdict;

typedef struct LeActions
{
	bool		term_ends;		/* carried out first: belief before message */
	LeReason	reason;
	bool		term_drains;	/* it is only for who depends on it now */
	bool		term_begins;
	bool		deadline_moved; /* of the term's own lease */
	LeSend		send;
	uint64_t	index;			/* condition of the write; 0: no key exists */
	bool		unresolved;		/* an acquire was applied in vain, or may have
								 * been, and nobody will find out: others may
								 * have seen the key as held */
	LeVerdict	verdict;
	LeOutcome	outcome;
} LeActions;

/* A decision to acquire the key, which all copies of the request share. */
typedef struct LeAttempt
{
	uint64_t	index;			/* what it depends on */
	uint64_t	floor;			/* token_floor when it was decided on */
	uint32_t	number;			/* of decisions so far; a copy is none */
	bool		takeover;		/* from a holder that fell silent */
	bool		unsure;			/* a copy may have been applied */
} LeAttempt;

typedef struct LeElection
{
	LeState		state;
	bool		wanted;			/* somebody on this node seeks or holds it */
	uint64_t	token;			/* fencing token of the term; 0: no term */
	le_time		drain_until;	/* the term ends then, at the latest; 0: it is
								 * not to end */
	uint64_t	write_index;	/* of our last write to the key, or of a later
								 * one that left it ours */
	LeAttempt	attempt;		/* the last one */
	bool		free;			/* the key was last seen to be free to take */
	uint64_t	token_floor;	/* a new token must be higher */
	uint64_t	free_index;		/* at which the key was last seen to be free to
								 * take, if "free"; 0: there was none */
	uint64_t	seen_index;		/* the unreleased free key that we wait out */
	le_time		seen_at;		/* receipt of the first answer showing it */
	le_time		refused_until;	/* its tokens were too low: acquire nothing
								 * before */
	le_time		look_at;		/* when to read a key that another holds, at
								 * the latest; 0: no holder is waited for */
	le_time		timer_at;		/* 0: none */
	int			failures;		/* in a row; le_election_is_repeating() */
	le_time		deadline;		/* of the term, if it has a lease of its own;
								 * 0: the node's counts */
	le_time		renew_at;		/* when that lease is to be renewed */
	bool		renewing;		/* a renewal is in flight */
	bool		renews_apart;	/* a publish does not renew it */
	int			renew_failures; /* in a row */
	uint32_t	request;		/* number of the newest request; answers to
								 * older ones are dropped by the caller */
} LeElection;

extern void le_election_init(LeElection *e, uint64_t token_floor);
extern LeActions le_election_input(LeElection *e, const LeInput *input);
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
