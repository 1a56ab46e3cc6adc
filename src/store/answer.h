/*-------------------------------------------------------------------------
 *
 * answer.h
 *		Answers to operations.
 *
 * src/store/answer.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_ANSWER_H
#define LE_ANSWER_H

#include "store/op.h"
#include "store/request.h"

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
	le_duration lease;			/* its writer's; 0: not known */
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

/* Why was it REFUSED?  See le_refuses_all(). */
typedef enum LeCause
{
	LE_CAUSE_OTHER,				/* see the text; for other outcomes: none */
	LE_CAUSE_PERMISSION,		/* the secret does not allow it */
	LE_CAUSE_STRANGER,			/* this node is not known, or not let in */
	LE_CAUSE_NOT_STORE,			/* the answer is not the store's */
	LE_CAUSE_SETTING			/* a setting is wrong, of ours or of the
								 * store's own: the text names it */
} LeCause;

/*
 * The answer to an operation.  A field that the kind does not name as its
 * result, behind the arrow, is 0 or NULL.
 */
typedef struct LeAnswer
{
	LeOutcome	outcome;
	LeCause		cause;
	LeConflict	conflict;
	const char *detail;			/* for people, when outcome is not DONE: one
								 * line, no secrets, control characters
								 * replaced, at most 200 bytes */
	bool		unsent;			/* set by no store: it never left the queue, or
								 * was dropped from it */

	uint64		index;			/* the write's; for reads the answer's */
	const char *session;
	const char *name;
	LeKey	   *keys;
	int			nkeys;
	LeNodeKey  *nodes;
	int			nnodes;
	LeGossip   *news;
	int			nnews;
	LeClaim    *claims;
	int			nclaims;
	int		   *lost;			/* PROVE_NODE: positions in held[] */
	int			nlost;
	LeRenewal  *renewals;		/* RENEW_TERMS: as many as terms */
	const char *page;			/* LIST_HELD, LIST_CLAIMS: there is more, from
								 * here on */
	const char *secret;			/* AUTHENTICATE ... */
	le_duration lasts;			/* ... 0: until it is refused */

	struct						/* where each key has a lease of its own */
	{
		uint64		rev;		/* the key's, by a write that was applied */
		le_duration trust;		/* how long that write may be trusted, from
								 * when its request was sent */
	}			term;

	/*
	 * How the request fared, of those that carry the operation, for
	 * worker/wire.  A store that needs none of it leaves it alone.
	 */
	struct
	{
		/* several operations in one request */
		struct LeAnswer *parts; /* one each, the first operation included;
								 * NULL: this answer is for all */
		bool		unjudged;	/* in a part: certainly not applied, but only
								 * since another was refused */
		bool		apart;		/* none was applied, since the server does not
								 * take them together: send each alone */

		/* several requests for one operation */
		bool		again;		/* another request follows, as "next" says;
								 * ignore the rest of the answer */
		LeStep		next;
		bool		anchors;	/* this request, not a later one, took or
								 * renewed the lease: trust counts from its
								 * sending */

		size_t		rest;		/* only a part of a long answer has been
								 * decoded: decode again from this byte, with
								 * the same LeAnswer; 0: that is all */
		bool		next_server;	/* certainly not applied, but perhaps by
									 * another server of the list */
		bool		untaken;	/* LE_NET_UNTAKEN: the server is well */
		bool		stale_secret;	/* certainly not applied, but perhaps with
									 * a new one */
		bool		busy;		/* the store is overloaded, or was asked too
								 * often ... */
		le_duration busy_for;	/* ... and asks for such a pause; 0: it did
								 * not say */
	}			wire;
} LeAnswer;

extern bool le_refuses_all(LeCause cause);
extern const char *le_outcome_name(LeOutcome outcome);
extern void le_copy_key(LeKey *to, const LeKey *from);
extern const char *le_clean_detail(const char *s);
extern char *le_shown_message(const char *message);
extern char *le_shown_name(const char *name, size_t len);
extern char *le_without_secret(const char *text, const char *secret);
extern void le_hide_secret(const LeOp *op, const char *secret,
						   LeAnswer *answer);
extern void le_fail(LeAnswer *answer, LeOutcome outcome, const char *detail);
extern void le_fail_open(const LeOp *op, LeAnswer *answer,
						 const char *detail);
extern void le_fail_untaken(const LeResponse *response, bool open,
							LeAnswer *answer);
extern void le_fail_shape(const LeOp *op, const LeResponse *response,
						  const char *whose, LeAnswer *answer);
extern void le_fail_network(const LeOp *op, const LeResponse *response,
							LeAnswer *answer);

#endif							/* LE_ANSWER_H */
