/*-------------------------------------------------------------------------
 *
 * store.h
 *		A lease store.
 *
 * A store is data in, data out: encode() turns an operation into a
 * request, decode() turns the response into an answer.  Neither does any I/O,
 * reads a clock or keeps state, so a store builds and runs outside the server
 * too: in the unit tests, the fuzzer and the simulator.  Memory is palloc'd in
 * the current context; the caller resets it.
 *
 * A store differs from another in its LeStore alone, settings included.  The
 * worker never asks which store it is, only what the store can do.
 *
 * docs/adding-a-store.md says how to add one.
 *
 * src/store/store.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_STORE_H
#define LE_STORE_H

#include "store/answer.h"
#include "store/op.h"
#include "store/request.h"
#include "store/setting.h"

/*
 * Where the store's keys are, for as long as a store session lasts: a change
 * of the settings behind it takes effect with the next.
 */
typedef struct LeNamespace
{
	char		prefix[LE_MAX_ELECTION_LEN + 1];	/* for all keys */
	char		part[LE_MAX_PART_LEN + 1];	/* in the store, as Consul's
											 * datacenter; "": the usual */
} LeNamespace;

/* How this node learns that a key has changed hands. */
typedef enum LeWatching
{
	LE_WATCH_NOTHING,			/* there is no other node */
	LE_WATCH_ALL,				/* one parked query shows every key */
	LE_WATCH_EACH				/* a query for each key that is waited for */
} LeWatching;

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

	struct
	{
		le_duration least;		/* 0: any */
		le_duration most;
		le_duration granularity;	/* how much shorter than asked one may
									 * be */
		le_duration least_session;	/* the shortest TTL that it grants */
		const char *takes_more; /* the setting of a further deduction from a
								 * lease */
		le_duration hiccup;		/* how long the store may be silent in good
								 * health */
		const char *hiccup_cause;
		bool		renews_apart;	/* PUBLISH does not renew the key's
									 * lease */
	}			lease;

	/* several operations in one request */
	struct
	{
		int			capacity;	/* in units that takes() counts; 0: each
								 * operation goes alone */
		int			(*takes) (const LeOp *op);	/* units of op; 0: it goes
												 * alone */
		/* may both go in one? */
		bool		(*joins) (const LeOp *op, const LeOp *other);
		int			max_renewals;	/* terms of one RENEW_TERMS; at least 1
									 * where keys have leases */
	}			batch;

	struct
	{
		LeWatching	kind;
		bool		tells;		/* nodes may publish news of their writes, so
								 * that no node has to read all keys */
		int			park_ms;	/* how long a WATCH stays parked ... */
		int			park_grace_ms;	/* ... and what the store may add */
		int			max_parked; /* EACH: how many may be parked at a time */
		const int  *poll_ms;	/* EACH: a WATCH is answered at once, the next
								 * is sent so much later; NULL: it is parked */
	}			watch;

	struct
	{
		bool		apart;		/* a claim is written first, and the term
								 * checked then: a claimant that finds its own
								 * record sends CLAIM once more */
		bool		lists_all;	/* LIST_CLAIMS: those of all elections; false:
								 * the named one's */
	}			claims;

	struct
	{
		const LeSetting *list;
		int			n;
		void		(*namespace) (LeNamespace *ns); /* by the present values */
	}			settings;

	struct
	{
		const char *(*urls) (void); /* separated by commas */
		const char *setting;	/* for hints */
		const char *(*url_fault) (const char *url); /* the fault of a
													 * well-formed URL; NULL:
													 * none */
		const char *ready_path; /* answers 200 if the server can be asked;
								 * NULL: each request shows it */
	}			servers;

	struct
	{
		const char *(*file) (void); /* "": none is sent */
		const char *setting;	/* for hints */
		const char *header;		/* the secret goes behind it, as in
								 * "Authorization: Bearer "; NULL: into the
								 * query, as it is */
		const char *(*authenticates) (void);	/* the identity for
												 * AUTHENTICATE; "": not used.
												 * NULL: never */
		const char *fetched_header; /* before a secret that was fetched */
		void		(*judge) (const char *secret, int64 now,
							  LeFinding *finding);	/* judges the secret of
													 * the file; now in ms
													 * since 1970.  NULL: it
													 * shows nothing */
	}			secret;

	/* texts for people */
	struct
	{
		LeOpKind	namespace_check;	/* le_check_config() sends it to find
										 * if the namespace is ours to use,
										 * and says that the node may or may
										 * not ... */
		const char *namespace_verb; /* "use the key prefix" */
		const char *foreign_key;	/* why an unusable key is unusable */
		int			(*explain) (const LeTiming *timing, int elections,
								LeFinding *findings);	/* for a node that
														 * contends for so
														 * many elections */
	}			people;

	/* requests and answers */
	struct
	{
		bool		(*performs) (LeOpKind kind);	/* does perform() answer
													 * it at once, unlike
													 * other kinds? NULL:
													 * never */
		void		(*encode) (const LeNamespace *ns, const LeOp *op,
							   LeRequest *request);
		void		(*decode) (const LeNamespace *ns, const LeOp *op,
							   const LeResponse *response, LeAnswer *answer);
		void		(*perform) (const LeOp *op, LeAnswer *answer);
	}			codec;
} LeStore;

extern const LeStore le_store_local;
extern const LeStore le_store_consul;
extern const LeStore le_store_cassandra;
extern const LeStore le_store_azure;
extern const LeStore *le_store_number(int number);
extern void le_store_limits(const LeStore *store, LeTiming *timing);
extern bool le_performs(const LeStore *store, LeOpKind kind);
extern char *le_session_of_incarnation(const char *incarnation);
extern void le_perform_session(const LeOp *op, LeAnswer *answer);

#endif							/* LE_STORE_H */
