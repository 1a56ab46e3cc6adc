/*-------------------------------------------------------------------------
 *
 * sim.h
 *		Deterministic simulation of a cluster of instances and its store.
 *
 * The worker's own object code runs here, with a worker and shared memory per
 * node, on clocks, a network and a store that are simulated.  Everything that
 * happens follows from a 64-bit seed.
 * README.md in this directory lists the real and the modelled parts.
 *
 * test/sim/sim.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_SIM_H
#define LE_SIM_H

#include "postgres.h"

#include <setjmp.h>
#include <time.h>

#include "shmem/leases.h"
#include "shmem/process.h"
#include "shmem/requests.h"
#include "sql/session.h"
#include "store/consul_plan.h"
#include "store/store.h"
#include "worker/base/context.h"
#include "worker/disk/statefile.h"
#include "worker/wire/http.h"

#define MAX_NODES		128
#define MAX_ELECTIONS	4
#define MAX_SESSIONS	512		/* made in one schedule */
#define MAX_STEPS		(4 * MAX_ELECTIONS + LE_CONSUL_COMMON_STEPS)
#define MAX_FLIGHTS		64		/* per node at a time */
#define MAX_BACKENDS	3		/* per node, that ask questions */
#define CRON_PROC		MAX_BACKENDS	/* the node's scheduler */
#define PROCS			(MAX_BACKENDS + 1)
#define MAX_EVENTS		48		/* interventions of one schedule */
#define ELECTION_JOBS	2		/* per election */
#define MAX_CLAIMS		1024	/* asked for in one schedule */
#define GATEWAYS		2		/* per schedule, of Cassandra */
#define COORDINATORS	3		/* Cassandra's nodes */
#define NEVER			PG_INT64_MAX

/* ---- random.c ---- */

extern uint64 sim_random(void);
extern uint64 sim_below(uint64 n);
extern bool sim_strikes(int per_million);
extern le_duration sim_span(le_duration least, le_duration most);
extern uint64 sim_mix(uint64 seed);

/* ---- exhaustive.c: decisions in place of chance ---- */

extern bool exhaustive;
extern bool exhaustive_decide(void);
extern le_duration exhaustive_span(le_duration least, le_duration most);
extern void exhaustive_note_state(void);

/* ---- the store, as consul.c models it ---- */

/* The fields of our values; a foreign one is only known as such. */
typedef struct Value
{
	bool		ours;
	bool		released;
	bool		revoked;
	short		node;			/* number of the node that is named */
	int			session;
	uint32		user;			/* the user's value, 0: none */
	uint32		incarnation;
	uint64		token;
	uint64		seq;
	uint64		system;
	uint64		since;
	le_duration lease;
	LeGap		gap;			/* a claim's ... */
	uint64		writes;			/* ... and how often its record was written */
} Value;

/* The record of a job; each store keeps it in its own form. */
typedef struct ClaimRecord
{
	bool		exists;
	uint32		id;				/* number of the claim */
	int			try;
	int64		tick;
	uint64		token;
	LeClaimState state;
	bool		ended;			/* has a time at which it ended */
	int64		every;
	LeGap		gap;
	uint64		writes;
} ClaimRecord;

typedef struct Key
{
	bool		exists;
	bool		usable;			/* carries the lock flag */
	int			session;		/* holds it; 0: none */
	uint64		index;
	uint32		lock_index;
	le_time		delay_until;	/* lock-delay */
	Value		value;
} Key;

/* Keys by number: elections first, then node keys by session, then jobs, then
 * news by session. */
#define NODE_KEY(s)		(MAX_ELECTIONS + (s))
#define CLAIM_KEY(election, job) \
	(NODE_KEY(MAX_SESSIONS) + (election) * ELECTION_JOBS + (job))
#define NEWS_KEY(s)		(CLAIM_KEY(MAX_ELECTIONS, 0) + (s))
#define PATRONI_KEY		NEWS_KEY(MAX_SESSIONS)	/* never exists */
#define IS_NEWS_KEY(k)	((k) >= NEWS_KEY(0) && (k) < PATRONI_KEY)
#define IS_CLAIM_KEY(k)	((k) >= CLAIM_KEY(0, 0) && (k) < NEWS_KEY(0))
#define IS_NODE_KEY(k)	((k) >= MAX_ELECTIONS && (k) < NODE_KEY(MAX_SESSIONS))

/* The content of a news key. */
typedef struct NewsText
{
	short		node;
	uint64		number;
	uint64		since;
	int			nitems;
	struct
	{
		int			election;
		LeOpKind	kind;
		uint64		number;
		uint64		index;
		uint64		token;
	}			items[LE_MAX_NEWS];
} NewsText;

/* A step of store/consul_plan.c, in numbers. */
typedef struct Step
{
	LeConsulRole role;
	int			part;			/* index of the joined operation; -1: of all */
	LeConsulVerb verb;
	int			key;
	int			session;		/* 0: none */
	int			value;			/* in the request's values; -1: none */
	uint64		index;
} Step;

/* ---- the store, as cassandra.c and gateway.c model it ---- */

/* Owners by number: the store session and the node that are named. */
#define OWNER(session, node)	((session) << 8 | (node))
#define OWNER_SESSION(owner)	((owner) >> 8)
#define OWNER_NODE(owner)		((owner) & 0xff)
#define OWNER_FOREIGN			1	/* not one of ours */

/* A lock as a statement shows it; gateway/internal/lease calls it so, too. */
typedef struct Row
{
	uint64		epoch;			/* 0: there never was a term */
	int			owner;			/* 0: free */
	int			ttl;			/* whole seconds that are left */
	uint32		value;
	uint64		attempt;
	uint64		rev;
} Row;

typedef enum LockVerb
{
	LOCK_NONE,					/* not for a gateway */
	LOCK_READY,
	LOCK_GET,
	LOCK_WAIT,
	LOCK_LIST,
	LOCK_ACQUIRE,
	LOCK_RENEW,
	LOCK_RENEW_MANY,
	LOCK_RELEASE,
	LOCK_ACQUIRE_MANY,
	LOCK_RELEASE_MANY,
	LOCK_GET_MANY,
	LOCK_GET_CLAIM,
	LOCK_CLAIM,
	LOCK_COMPLETE
} LockVerb;

/* A request's way to the store. */
typedef struct Travel
{
	le_time		sent;			/* time of sending */
	bool		copied;			/* it travels twice */
} Travel;

/* A request to a gateway, taken from its text. */
typedef struct LockRequest
{
	LockVerb	verb;
	int			gateway;
	int			owner;
	int			ttl_ms;
	bool		has_value;
	uint32		value;
	uint64		attempt;
	uint64		min_token;
	int			n;				/* terms, in requests about several locks */
	struct
	{
		int			election;
		uint64		token;
		uint64		rev;
		bool		has_value;	/* ACQUIRE_MANY, per lock */
		uint32		value;
		uint64		attempt;
		uint64		min_token;
	}			terms[MAX_ELECTIONS];
	int			job;			/* for claims */
	ClaimRecord claim;
	ClaimRecord previous;		/* its id and state; or it does not exist */
	Travel		travel;
} LockRequest;

/* A lock or a problem, as an answer shows it. */
typedef struct LockDoc
{
	int			election;		/* -1: none */
	int			status;
	const char *problem;		/* the last part of its URN; NULL: none */
	bool		shows_row;		/* the problem does */
	int			trust_ms;		/* -1: not granted */
	Row			row;
	bool		shows_claim;
	ClaimRecord claim;
} LockDoc;

typedef struct LockAnswer
{
	LockVerb	verb;
	int			job;
	bool		foreign;		/* by a proxy that got no answer in time */
	int			ndocs;
	LockDoc		docs[MAX_ELECTIONS];
} LockAnswer;

/* ---- the store, as azure.c models it ---- */

#define META_SIZE		640

typedef enum BlobVerb
{
	BLOB_HEAD,
	BLOB_PUT,
	BLOB_METADATA,
	BLOB_ACQUIRE,
	BLOB_RENEW,
	BLOB_CHANGE,
	BLOB_RELEASE,
	BLOB_BREAK,
	BLOB_DELETE,
	BLOB_LIST
} BlobVerb;

/* A request to the service, taken from its text. */
typedef struct BlobRequest
{
	BlobVerb	verb;
	int			blob;			/* by number; LIST: -1 */
	bool		absent;			/* If-None-Match: * */
	uint64		etag;			/* If-Match; 0: any */
	uint64		lease_id;		/* 0: none */
	uint64		proposed;		/* ACQUIRE, CHANGE; 0: none */
	int			seconds;		/* ACQUIRE, BREAK */
	char		meta[META_SIZE];	/* metadata, as lines of the request */
} BlobRequest;

/* A blob as an answer shows it. */
typedef struct BlobShown
{
	int			blob;
	const char *state;			/* the lease's */
	uint64		etag;
	char		meta[META_SIZE];
} BlobShown;

typedef struct BlobAnswer
{
	int			status;
	const char *code;			/* NULL: it was done */
	bool		foreign;		/* from a proxy */
	bool		list;
	uint64		lease_id;		/* 0: none is named */
	int			nshown;
	BlobShown	shown[MAX_ELECTIONS];
} BlobAnswer;

/* An operation on its way, complete in itself. */
typedef struct Request
{
	LeOpKind	kind;
	int			node;
	int			session;
	int			election;		/* -1: none */
	int			job;			/* READ_CLAIM, CLAIM, COMPLETE */
	bool		fresh;
	le_duration lease;
	le_duration ttl;			/* CREATE_SESSION */
	le_duration lock_delay;		/* the same */
	uint64		watch_index;
	le_duration wait;
	int			nvalues;
	int			nsteps;
	int			nparts;			/* joined operations; 0: none is a
								 * transaction */
	int			elections[MAX_ELECTIONS];	/* per operation ... */
	int			write[MAX_ELECTIONS];	/* ... with the step that writes it */
	uint64		term;			/* Azure: the token of RELEASE, RENEW_TERMS */
	LockRequest lock;
	union
	{
		BlobRequest blob;		/* Azure */
		Value		values[2 * MAX_ELECTIONS + 2];	/* Consul */
	};
	Step		steps[MAX_STEPS];
	bool		tells;			/* it writes ... */
	NewsText	news;			/* ... this */
} Request;

typedef struct NewsShown
{
	int			session;
	bool		held;
	uint64		index;
	NewsText	text;
} NewsShown;

typedef struct NodeKeyShown
{
	int			session;
	bool		held;
	uint64		index;
	bool		tells;
	Value		value;
} NodeKeyShown;

typedef struct Answer
{
	LeNet		net;
	LeOutcome	outcome;
	uint64		index;
	int			session;
	uint32		keys_shown;		/* bits of elections; READ_CLAIM: the record
								 * takes the place of the first */
	int			nnodes;
	NodeKeyShown *nodes;
	int			nnews;
	NewsShown  *news;
	struct SimContext *list;	/* memory of both */
	bool		judged;			/* from a transaction that was tried */
	int			nrefused;		/* steps; 0: it is applied */
	struct
	{
		short		step;
		short		reason;		/* a LeConsulReason */
	}			refused[MAX_STEPS];
	struct						/* values written, per part */
	{
		uint64		index;		/* 0: deleted */
		int			session;
		bool		usable;
	}			written[MAX_ELECTIONS];
	int			gateway;		/* Cassandra: the one that answered */
	union
	{
		Key			keys[MAX_ELECTIONS];	/* Consul */
		LockAnswer	lock;		/* Cassandra */
		BlobAnswer	blob;		/* Azure */
	};
} Answer;

/* ---- schedules ---- */

typedef enum Happening
{
	HAPPEN_FREEZE,				/* SIGSTOP of the worker */
	HAPPEN_KILL,				/* SIGKILL; it is started again */
	HAPPEN_TERMINATE,			/* SIGTERM of the worker alone */
	HAPPEN_CRASH,				/* instance; span: until it starts */
	HAPPEN_SHUTDOWN,			/* instance, in order */
	HAPPEN_SUSPEND,				/* machine */
	HAPPEN_CUT,					/* node cut off from the store */
	HAPPEN_LOSE_ANSWERS,		/* all answers to the node are lost */
	HAPPEN_WALL_JUMP,			/* the node's wall clock */
	HAPPEN_RELOAD,				/* with another lease */
	HAPPEN_SLOW,				/* everything takes long */
	HAPPEN_NEW_SERVER,			/* the store's leader changes */
	HAPPEN_STORE_DOWN,
	HAPPEN_WATCH_HANGS,			/* on a frozen server */
	HAPPEN_INVALIDATE,			/* the node's store session */
	HAPPEN_DELETE_KEY,			/* by hand: outside the assumptions */
	HAPPEN_OVERWRITE_KEY,		/* by hand: outside */
	HAPPEN_FOREIGN_LOCK,		/* another client takes a free key */
	HAPPEN_ACQUIRE,				/* a backend asks ... */
	HAPPEN_RENEW,
	HAPPEN_RELEASE,
	HAPPEN_CAMPAIGN,
	HAPPEN_WITHDRAW,
	HAPPEN_STEP_DOWN,
	HAPPEN_READ_LEADER,
	HAPPEN_CANCEL,				/* the backend stops waiting */
	HAPPEN_EXIT,				/* the backend goes */
	HAPPEN_AMBUSH,				/* stopped with a proof on its way, then cut */
	HAPPEN_JOB,					/* it is time for a job, on every node */
	HAPPEN_TRANSACTION,			/* a backend works under the gate */
	HAPPEN_CRON_STOPS,			/* the node's scheduler, or all */
	HAPPEN_RECORDS,				/* a copy of the jobs' records is taken, or the
								 * store gets it back */
	HAPPEN_KINDS
} Happening;

typedef struct Intervention
{
	Happening	what;
	int			node;
	int			election;
	le_time		at;
	le_duration span;
	uint32		random;
	bool		dropped;		/* left out by the shrinker */
} Intervention;

/* Rates of faults, per million. */
typedef struct Weather
{
	int			lose_request;
	int			lose_answer;
	int			repeat;			/* a request arrives twice */
	int			delay;			/* up to some seconds */
	int			long_delay;		/* up to a minute */
	int			refuse;			/* the store answers "no", unapplied */
	int			break_answer;	/* "perhaps", applied or not */
	int			false_renew;	/* renewal of a dead session answered 200 */
	int			false_gone;		/* renewal of a live one answered 404 */
	int			stale_list;
	int			watch_miss;
	int			watch_reset;	/* its index goes back */
	int			leak;			/* lock-delay not enforced */
	int			pause;			/* worker stops between two instructions */
	int			kill;			/* or dies there */
	int			invalidate;		/* ends the asker's session, at a request */
	int			backend_pause;	/* a backend stops between two instructions */
	int			full_disk;		/* for a while, when a term is to begin */
} Weather;

typedef enum StoreKind
{
	STORE_CONSUL,
	STORE_CASSANDRA,
	STORE_AZURE,
	STORE_KINDS
} StoreKind;

typedef struct Schedule
{
	uint64		seed;
	StoreKind	store;
	int			nnodes;
	int			nelections;
	le_duration storm;			/* then the weather clears up */
	bool		fair;		/* one end of a term: checks the stated bounds */
	bool		beyond;			/* clocks run apart by more than assumed */
	le_duration every;			/* between ticks of jobs */
	int			within;			/* progress, in seconds; 0: not needed */
	Weather		weather;
	int64		kill_at;		/* number of the reading at which a worker
								 * dies; 0: any */
	int			nevents;
	Intervention events[MAX_EVENTS];

	/* per node */
	int			ppm[MAX_NODES];
	int			lease_ms[MAX_NODES];
	int			margin_ms[MAX_NODES];
	bool		takeover[MAX_NODES];
	uint32		campaigns[MAX_NODES];	/* bits of elections */

	/* Cassandra */
	int			max_skew_ms;	/* allowance of the gateways */
	int			skew_ms[COORDINATORS];	/* ahead of true time, at first */
	int			wander;			/* statements to another one, per million */

	/* Azure */
	bool		azurite;		/* behaves as Azurite, not as documented */
	bool		cuts_off;		/* leases begin with the second */
	int			late_ms;		/* latest delay until a lease can be taken */
} Schedule;

/* ---- nodes ---- */

/* The reading of a clock at an instant of the counted time. */
typedef struct Reading
{
	le_time		at;
	le_time		shows;
	struct timespec ts;			/* the same */
} Reading;

typedef struct Clock
{
	le_time		offset;
	int			ppm;
	double		ms_per_count;	/* true time per counted time */
	le_duration suspended;		/* so far */
	le_duration wall;			/* offset set by hand, whole seconds */
	Reading		boot;			/* the last of each */
	Reading		mono;
} Clock;

typedef struct Flight
{
	uint32		number;
	le_time		times_out;		/* on CLOCK_MONOTONIC; 0: never */
	LeOpKind	kind;
	int			session;
	LeHttpDone	done;
	void	   *arg;
	int			message;		/* with the answer */
} Flight;

typedef struct Coroutine Coroutine;

/* The private state of a process. */
typedef struct SimProcess
{
	LeProcess	own;
	LeSession	session;
	struct SimContext *top;
	struct SimContext *context;
	sigjmp_buf *exceptions;
	int			proc;			/* MyProc's */
} SimProcess;

typedef void (*SimCallback) (void);

/* A backend's task. */
typedef struct Script
{
	Happening	what;
	int			election;
	int			job;
	int64		tick;
	int64		every;			/* ms; 0: not said */
	le_duration delay;			/* first of all */
	le_duration span;			/* the work's */
	uint32		random;
} Script;

/* A backend that asks. */
typedef struct Backend
{
	LeOwner		owner;			/* 0: no backend */
	enum
	{
		ASK_FREE, ASK_POSTED, ASK_TAKEN, ASK_ANSWERED
	}			state;
	uint64		number;
	LeAsk		ask;
	LeReply		reply;
	le_time		asked_at;
	bool		again;			/* an earlier worker had taken the question */
	uint64		begun_number;	/* the question that a worker begins with, as
								 * it noted ... */
	uint64		begun_token;	/* ... and the term that it ends */
	uint64		told[MAX_ELECTIONS];	/* tokens it knows of */

	/* process.c: not every backend runs code of its own */
	bool		busy;			/* with its script */
	bool		begun;			/* the process is there */
	bool		awaits;			/* an answer */
	bool		stopped;		/* SIGSTOP */
	bool		canceled;
	bool		goes;			/* exits silently at the end of its script */
	int			reports;		/* reports progress in this election + 1 now;
								 * 0: none */
	le_time		reports_since;
	uint32		acting;			/* acts on this claim; 0: on none */
	uint32		stamp;			/* number of its wake-up */
	int			sqlstate;		/* its last error */

	/* transactions.c */
	int			ncallbacks;
	SimCallback callbacks[8];
	void	   *arguments[8];
	bool		bound;			/* its transaction is ... */
	uint64		token;			/* ... to this term */
	bool		leaving;		/* it is about to end the term itself ... */
	bool		left;			/* ... and has */
	bool		ending;			/* only callbacks are left */
	bool		committing;
	bool		at_commit;		/* until the server has reported it */
	bool		passed;			/* the check; not yet recorded */
	bool		in_memory;		/* its last commit, and not on disk */
	bool		looking;		/* cancel.c watches its terms ... */
	bool		watched;		/* ... on the way to the commit record, too */
	uint64		stops_for;		/* its statement is to stop with this term; 0:
								 * with none ... */
	int			stops_in;		/* ... of this slot */
	bool		knows;			/* that it is over, or to end */
	const char *hindered;		/* at its last clock reading: why nothing may
								 * begin ... */
	const char *objected;		/* ... or be committed; NULL: it may */

	SimProcess	process;
	Coroutine  *coroutine;
	Script		script;
} Backend;

typedef struct SimNode
{
	int			number;
	bool		up;				/* the instance runs */
	bool		running;		/* the worker's process exists */
	bool		latch;
	bool		stopping;		/* the instance is being shut down ... */
	le_time		told_to_stop;	/* ... since then */
	uint32		incarnation;
	uint32		process;		/* counts workers; a flight belongs to one */
	le_time		run_at;			/* in true time; NEVER: not at all */
	uint64		term[MAX_ELECTIONS];	/* token of the term that it has, for
										 * checks.c; here, since each step
										 * looks at it */
	le_time		sleeps_until;	/* on CLOCK_MONOTONIC; 0: for ever */
	le_time		went_on;		/* in true time: after it stood still last */
	le_time		began_at;		/* in true time: its process */
	le_time		awake_since;	/* in true time: its turn began then */
	le_time		frozen_until;	/* in true time */
	le_time		wakes_at;		/* the machine, from its sleep */
	le_time		cut_from;
	le_time		cut_until;
	int			cut_gateway;	/* cut off from this one alone; -1: from the
								 * store */
	le_time		deaf_until;		/* loses all answers until then */
	le_duration ambush;			/* stops for this long at its next proof */
	Clock		clock;
	Coroutine  *worker;
	char	   *shmem;
	LeSlot	   *slots[MAX_ELECTIONS];	/* in shmem, where they were last */

	/* the worker's process */
	SimProcess	main;
	LeLimits	limits;
	int			lane_windows[LE_NLANES];	/* of the limits */
	void		(*on_sigterm) (int);
	bool		terminated;		/* by that signal */
	void		(*on_exit) (int, Datum);
	bool		reload;

	/* settings */
	int			lease_ms;
	int			margin_ms;
	bool		moved;			/* to other servers of the store */
	bool		takeover;
	uint32		campaigns;

	/* files */
	uint64		token_floor[MAX_ELECTIONS]; /* in the worker's memory, and
											 * ... */
	uint64		token_kept[MAX_ELECTIONS];	/* ... as it is on disk */
	LeSeenRecord seen[MAX_ELECTIONS][ELECTION_JOBS];	/* in memory ... */
	LeSeenRecord seen_kept[MAX_ELECTIONS][ELECTION_JOBS];	/* ... and file */
	bool		unkept;			/* it could not be written */
	le_time		disk_full_until;
	bool		has_statefile;
	LePredecessor statefile;

	uint32		last_flight;
	uint64		in_flight;		/* bits of flights ... */
	uint64		answered;		/* ... and of those that came back */

	/* checks.c */
	le_time		took_at[MAX_ELECTIONS]; /* the store gave it the key ... */
	uint64		took[MAX_ELECTIONS];	/* ... at this index ... */
	uint64		took_for[MAX_ELECTIONS];	/* ... for this question, */
	le_time		took_by[MAX_ELECTIONS]; /* by a request sent at this time */
	uint64		asked_for[MAX_ELECTIONS];	/* question of the last request; 0:
											 * none ... */
	int			asked_in[MAX_ELECTIONS];	/* ... and its session */
	le_time		deadline[MAX_ELECTIONS];	/* the last term's */
	uint64		term_believed[MAX_ELECTIONS];	/* the last that counted */
	int			term_session[MAX_ELECTIONS];
	le_time		renewed_by[MAX_ELECTIONS];	/* last request to renew it was
											 * sent then, ... */
	le_time		proved_by;		/* ... or one to prove all its terms */
	le_time		lost_at[MAX_ELECTIONS]; /* its key, on its clock */
	le_duration lost_lease[MAX_ELECTIONS];
	le_time		drained[MAX_ELECTIONS]; /* how long its term is waited for */
	le_time		awaits_at[MAX_ELECTIONS];	/* its end waited longer than that,
											 * last */
	uint64		hasty[MAX_ELECTIONS];	/* its last term that was given up
										 * without waiting */
	char		attempt[MAX_ELECTIONS][LE_ATTEMPT_LEN + 1];	/* the last id */
	uint32		decision[MAX_ELECTIONS];	/* decision that it belongs to */
	le_duration margin;			/* least in this session */

	/* progress.c; times are on its clock */
	le_time		cron_until;		/* its scheduler is dead, in true time */
	le_time		began[MAX_ELECTIONS];	/* its term, as seen */
	le_time		progress[MAX_ELECTIONS];	/* last in it */
	le_time		commit_at[MAX_ELECTIONS];	/* a commit was under way last */
	le_time		bound_at[MAX_ELECTIONS];	/* a session was bound to it last,
											 * seen when it was overdue */
	bool		made[MAX_ELECTIONS];	/* progress since the begin */
	le_time		idle_until[MAX_ELECTIONS];	/* it has to stay away */
	le_duration idled[MAX_ELECTIONS];	/* length of the last one ... */
	bool		meddled[MAX_ELECTIONS]; /* a caller asked for another state */
	bool		unsure[MAX_ELECTIONS];	/* perhaps there was progress */
	bool		ends[MAX_ELECTIONS];	/* no session believes in the term, and
										 * the worker is not done with it */
	uint64		ended_token[MAX_ELECTIONS]; /* token of the term seen last */
	bool		idled_known[MAX_ELECTIONS]; /* ... if it is known */
	le_time		turns_since;	/* turns are counted from then */
	int			turns;
	int			session;		/* its newest session in the store */
	bool		gone;			/* its table shows its session as gone */
	int			told_lost;		/* the session that a request was lost with */
	uint64		nodes_version;	/* its list of node keys, when checked last */
	uint32		look;			/* counts readings of that list */
	uint32		node_look[MAX_SESSIONS];	/* the last that showed this one */
	uint64		node_index[MAX_SESSIONS];	/* with this index */
	Request		encoded;		/* the last, which le_http_send() sends */

	/* not cleared from here on, but by its users */
	Flight		flights[MAX_FLIGHTS];
	Backend		backends[PROCS];
} SimNode;

/* ---- the world ---- */

typedef struct Counts
{
	uint64		schedules;
	uint64		steps;
	uint64		requests;
	uint64		terms;
	uint64		takeovers;
	uint64		joined;			/* operations that went with another's request,
								 * and of these ... */
	uint64		unjudged;		/* ... repeated because of another */
	uint64		apart;			/* batches that a gateway did not know */
	uint64		told;			/* writes told by news in an answer */
	uint64		claims_abandoned;
	uint64		gaps;			/* news that begin with one */
	uint64		expired;		/* sessions that the store ended */
	uint64		invalidated;
	uint64		delayed;		/* locks refused for lock-delay */
	uint64		leaked;
	uint64		late;			/* requests applied after their sender had
								 * given them up */
	uint64		duplicates;
	uint64		unknown;
	uint64		pauses;
	uint64		kills;
	uint64		crashes;
	uint64		unkept;			/* tokens of terms, on a full disk */
	uint64		suspends;
	uint64		questions;
	uint64		backend_pauses;
	uint64		claims_asked;
	uint64		claims_granted; /* the caller was told */
	uint64		claims_refused;
	uint64		claims_unknown;
	uint64		claims_behind;	/* an older tick had to come first */
	uint64		claims_again;	/* second and later tries */
	uint64		claims_same_term;
	uint64		claims_under_way;
	uint64		missed_run;		/* ticks not claimed in time ... */
	uint64		missed_told;	/* ... and those that were reported */
	uint64		intervals;		/* claims after one with another interval */
	uint64		completed;
	uint64		completed_late; /* after the term's end */
	uint64		bound;			/* transactions */
	uint64		commits;
	uint64		refused_commits;
	uint64		commit_waits;
	uint64		canceled_commits;
	uint64		cut;			/* those that waited long enough */
	uint64		nudges;			/* to look at a term */
	uint64		nudges_late;	/* ... that was over */
	uint64		progress;		/* reports of it */
	uint64		useless;		/* terms given up for lack of it */
	uint64		outside;		/* overlaps that the assumptions exclude */
	uint64		fair_handovers;
	uint64		op[LE_OP_SESSION_NAME + 1];
	uint64		happened[HAPPEN_KINDS];
	le_duration worst_handover;
	uint64		of_store[STORE_KINDS];	/* schedules */
	uint64		statements;		/* sent by gateways to Cassandra */
	uint64		open_statements;	/* with unknown outcome */
	uint64		late_statements;
	uint64		proposals;		/* left half way, and finished by another */
	uint64		burned;
	uint64		gateways_killed;
	uint64		gateways_frozen;
	uint64		leases;			/* on blobs, and of these ... */
	uint64		unstamped;		/* ... never given a token ... */
	uint64		broken;			/* ... or broken by hand */
	uint64		throttled;		/* requests that a busy service refused */
} Counts;

/* The worker's surroundings, except the network. */
typedef struct StoreModel
{
	const LeStore *store;		/* its codec */
	void		(*reset) (void);
	bool		(*apply) (const Request *request, Answer *answer, int node,
						  uint32 process, int flight, uint32 number);
	void		(*event) (int what, int a, uint32 b);
	void		(*invalidate) (int session);
	void		(*new_server) (le_duration down);
	void		(*hang_watches) (le_time until);
	void		(*clear_up) (void);
	bool		(*lives) (int session);
	Key		   *(*key) (int number);
	void		(*write_by_hand) (int election, bool delete);
	void		(*foreign_lock) (int election);
	/* tokens began anew, and an operator permits it everywhere */
	void		(*forget) (int election);
	void		(*records) (bool restore);
	uint64		(*index) (void);
	int			(*owner) (int session);
	le_duration (*lease) (int session);

	/* where the codec's text is real; else NULL */
	void		(*read_request) (const LeRequest *request, Request *r);
	void		(*write_answer) (const Answer *a, LeResponse *response);

	/* certainly closed to all other nodes, by any clock?  NULL: unknown */
	bool		(*safe) (int session, int election, uint64 token);
	/* did a read show that its lease had run out? */
	bool		(*ran_out) (int election, uint64 token);
} StoreModel;

extern const StoreModel consul_model;
extern const StoreModel cassandra_model;
extern const StoreModel azure_model;

typedef struct World
{
	uint64		random;
	le_time		now;			/* true time */
	bool		storm;
	le_time		slow_until;
	const Schedule *schedule;
	const StoreModel *model;
	int			nnodes;
	int			nelections;
	uint32		incarnations;	/* so far */
	uint32		claims;			/* asked for so far */
	uint32		attempts;		/* ids drawn so far */
	bool		exposed;		/* a worker's code runs, and may stop */
	int64		readings;		/* readings of a clock by such workers */
	int64		pause_at;		/* at this reading */
	int64		kill_at;
	int64		fate_at;		/* either */
	SimNode    *node[MAX_NODES];
	Counts		counts;

	/* checks.c */
	uint64		digest;			/* hash of all events */
	bool		failed;
	char		failure[256];
	Travel		travel;			/* way of the applied request */
	uint64		last_token[MAX_ELECTIONS];
	bool		forgotten[MAX_ELECTIONS];	/* tokens begin anew */
	bool		restored;		/* records of jobs went back */
	uint64		released[MAX_ELECTIONS];	/* the last term whose end reached
											 * the store */
	le_time		outside_until[MAX_ELECTIONS];	/* belief may overlap */
	le_time		leaderless[MAX_ELECTIONS];	/* since; 0: there is a leader */
	le_time		free_since[MAX_ELECTIONS];	/* free to take since then */
	uint64		free_index;		/* the store's index at that finding ... */
	le_time		free_until[MAX_ELECTIONS];	/* ... and how long it holds */
} World;

extern World sim;

/* Nothing goes wrong by chance once the weather has cleared up. */
static inline bool
sim_chance(int per_million)
{
	return per_million != 0 && sim.storm && sim_strikes(per_million);
}

extern SimNode *sim_node;			/* node that runs; NULL: none */
extern Backend *sim_backend;	/* and its backend; NULL: the worker */

/* ---- clock.c ---- */

extern void clock_start(SimNode *n, int ppm);
extern le_time clock_reckon(const Clock *c, const Reading *r, le_time at);
extern le_time clock_mono_inverse(const SimNode *n, le_time mono);

/* A turn asks for one instant many times, and it is reckoned once. */
static inline le_time
clock_boot(const SimNode *n, le_time now)
{
	const Clock *c = &n->clock;

	return c->boot.at == now ? c->boot.shows : clock_reckon(c, &c->boot, now);
}

static inline le_time
clock_mono(const SimNode *n, le_time now)
{
	const Clock *c = &n->clock;

	now -= c->suspended;
	return c->mono.at == now ? c->mono.shows : clock_reckon(c, &c->mono, now);
}

/* ---- coroutine.c ---- */

extern Coroutine *coroutine_new(void (*run) (void));
extern void coroutine_reset(Coroutine *c);
extern void coroutine_resume(Coroutine *c);
extern void coroutine_yield(void);
extern bool coroutine_runs(void);

/* ---- memory.c ---- */

extern struct SimContext *memory_new(void);
extern void memory_reset_all(void);

/* ---- network.c ---- */

extern void network_reset(void);
extern void network_send(const Request *request, int flight);
extern void network_answer(int node, uint32 process, int flight,
						   uint32 number, const Answer *answer);
extern bool network_awaits(int node, uint32 process, int flight,
						   uint32 number);
extern const Answer *network_answer_to(const Flight *f);
extern void network_forget(SimNode *n);
extern le_time network_next(void);
extern void network_step(void);
extern uint64 network_hash(void);
extern void network_at(le_time at, int what, int a, uint32 b);

/* The kinds of events for network_at(). */
#define AT_REQUEST		0
#define AT_ANSWER		1
#define AT_EXPIRY		2
#define AT_PARKED		3
#define AT_HAPPENING	4
#define AT_START		5		/* an instance */
#define AT_WORKER		6		/* a worker */
#define AT_BACKEND		7		/* a backend resumes */
#define AT_JOB			8		/* a gateway's request resumes */
#define AT_HUB			9		/* a gateway reads a lock */
#define AT_GATEWAY		10		/* a gateway restarts */
#define AT_LATE			11		/* a statement of Cassandra's */
#define AT_CRON			12		/* a node's scheduler */
#define AT_KINDS		13

/* ---- consul.c ---- */

extern void store_reset(void);
extern bool store_apply(const Request *request, Answer *answer, int node,
						uint32 process, int flight, uint32 number);
extern uint32 store_try(const Request *request, Answer *answer);
extern int	store_create(const Request *request);
extern void store_expiry(int session, uint32 stamp);
extern void store_parked(int proc, uint32 stamp);
extern void store_invalidate(int session);
extern void store_new_server(le_duration down);
extern void store_hang_watches(le_time until);
extern void store_clear_up(void);
extern bool store_lives(int session);
extern Key *store_key(int number);
extern void store_write_by_hand(int election, bool delete);
extern void store_foreign_lock(int election);
extern uint64 store_index(void);
extern int	store_owner(int session);
extern void store_list_free(const Answer *a);
extern le_duration store_lease(int session);
extern int	store_nsessions(void);

/* ---- consul_numbers.c ---- */

extern ClaimRecord record_of_key(const Key *key);

/* ---- stores.c ---- */

extern LeStore sim_consul;
extern LeStore sim_cassandra;
extern LeStore sim_azure;
extern void stores_adapt(void);

/* ---- names.c ---- */

extern const char *name_of_session(int session);
extern int	session_of_name(const char *name);
extern int	election_of_name(const char *name);
extern const char *name_of_election(int election);
extern short node_of_name(const char *name);
extern const char *name_of_node(int node);
extern uint32 number_of_value(const char *value);
extern const char *name_of_value(uint32 user);
extern uint32 number_of_incarnation(const char *incarnation);
extern const char *name_of_incarnation(uint32 number);

/* ---- node.c ---- */

extern void nodes_reset(const Schedule *s);
extern void node_start(SimNode *n);
extern void node_stop(SimNode *n);
extern void node_start_worker(SimNode *n);
extern void node_kill_worker(SimNode *n);
extern void node_signal(SimNode *n);
extern void node_reload(SimNode *n);
extern void node_wake(SimNode *n);
extern void node_plan(SimNode *n);
extern void node_run(SimNode *n);
extern void node_enter(SimNode *n);
extern void node_enter_process(SimNode *n, SimProcess *p);
extern void node_begin_process(SimNode *n, SimProcess *p);
extern LeSlot *node_find_slot(SimNode *n, int election);
extern struct LeProgress *node_progress(SimNode *n, const LeSlot *slot);
extern LeTable *node_table(const SimNode *n);
extern void node_meets_fate(void);
extern void node_ambush(void);

/*
 * The election's slot in the node's lease table; NULL: none.  Every check asks
 * for it, so the search begins at its last place.
 */
static inline LeSlot *
node_slot(SimNode *n, int election)
{
	LeSlot	   *slot = n->slots[election];

	if (slot != NULL && slot->name[1] == '0' + election)
		return slot;
	return node_find_slot(n, election);
}

/* ---- backends.c ---- */

extern void backend_ask(SimNode *n, int proc, const LeAsk *ask,
						bool by_backend);
extern void backend_cancel(SimNode *n, int proc);
extern void backend_exit(SimNode *n, int proc);
extern void backends_reset(SimNode *n);
extern void backend_post(SimNode *n, Backend *b);

/* ---- postgres.c ---- */

extern void process_has_proc(int proc);
extern int	process_of_pid(pid_t pid);

/* ---- process.c: backends with code of their own ---- */

extern void process_start(SimNode *n, int proc, const Script *script);
extern void process_run(SimNode *n, int proc, uint32 stamp);
extern void process_wake(SimNode *n, int proc);
extern void process_cancel(SimNode *n, int proc);
extern void process_end(SimNode *n, int proc);
extern void process_sleep(le_duration span);
extern void process_sleep_deaf(le_duration span);
extern void process_may_stop(void);

/* Between two instructions of a backend or a worker. */
static inline void
node_may_pause(void)
{
	if (sim_backend != NULL)
		process_may_stop();
	else if (sim.exposed && ++sim.readings >= sim.fate_at)
		node_meets_fate();
}

/* ---- scripts.c: their tasks ---- */

extern void script_run(const Script *script);
extern void script_set_tick(Script *s);
extern bool script_goes(const Script *s);
extern bool script_is_run(const Script *script);

/* ---- transactions.c ---- */

extern void transaction_looks(void);
extern void transaction_may_begin(void);
extern void transaction_bound(uint64 token);
extern void transaction_unbound(void);
extern void transaction_commit(bool stays_bound);
extern void transaction_abort(void);
extern void transactions_ended(SimNode *n, int election, uint64 token);
extern void transactions_told(SimNode *n, int number, LeSlot *slot);
extern void transactions_note_drain(SimNode *n, int election, LeSlot *slot);
extern void transactions_check_drain(SimNode *n, int election);

/* ---- progress.c ---- */

extern void progress_begins(void);
extern void progress_ends(bool made);
extern void progress_report(const char *election);
extern void do_cron(Script *s);
extern void cron_fires(SimNode *n);
extern void progress_meddled(SimNode *n);
extern void progress_forgotten(SimNode *n);
extern void progress_cut_off(SimNode *n, const Backend *b);
extern void progress_term_begins(SimNode *n, int election);
extern void progress_term_ends(SimNode *n, int election, LeSlot *slot);
extern void progress_check(SimNode *n, int election);

/* ---- records.c: jobs' records, and the invariants of claims ---- */

extern void claims_reset(void);
extern uint32 claim_draw(void);
extern uint32 claim_of_name(const char *id);
extern const char *name_of_claim(uint32 id);
extern const char *name_of_job(int job);
extern int	job_of_name(const char *name);
extern void claim_asked(const LeAsk *ask);
extern void missed_reported(const char *election, const char *job,
							const LeGap *gap);
extern void claim_told(const LeAsk *ask, const LeReply *reply);
extern bool claim_stays(int election, int job, uint64 token, bool by_run);
extern void claim_written(int node, int election, int job,
						  const ClaimRecord *before,
						  const ClaimRecord *after, int holder,
						  uint64 token);
extern void claims_left(int node, LeOwner owner);
extern void claims_check_left(int election, int leader);
extern void claims_confirmed(int election, uint64 token);
extern void record_restored(int election, int job, const ClaimRecord *now);

/* ---- schedule.c ---- */

extern void schedule_make(Schedule *s, uint64 seed);
extern void schedule_make_for(Schedule *s, uint64 seed, StoreKind store);
extern const char *store_kind_name(StoreKind store);
extern void schedule_start(const Schedule *s);
extern void schedule_run_until(le_time until);
extern void schedule_run(const Schedule *s);
extern void schedule_happen(int number);
extern void schedule_print(const Schedule *s);
extern const char *happening_name(Happening what);

/* ---- checks.c ---- */

extern void check_reset(void);
extern void check_step(void);
extern void check_terms(SimNode *n);
extern void check_shut_down(const SimNode *n);
extern void check_proof(SimNode *n, const Request *r);
extern void check_grants(SimNode *n);
extern void check_denied(const SimNode *n, const Backend *b);
extern void check_told_renewed(const SimNode *n, const Backend *b);
extern void check_nothing_done(const SimNode *n, const Backend *b);
extern void check_write(int session, int election, const Key *before,
						const Key *after);
extern void check_sent(SimNode *n, const Request *r);
extern void check_calm(void);
extern bool check_believes(const SimNode *n, int election);
extern int	check_leader(int election);
extern void check_begins_anew(int election);
extern bool check_outside(int election);
extern void check_allow_overlap(int election);
extern void sim_fail(const char *format,...) pg_attribute_printf(1, 2);

/* ---- traces.c ---- */

extern void traces_deed(int election, const char *what);

/* ---- trace.c ---- */

extern bool trace_on;
extern void trace_write(const SimNode *n, const char *format,...)
			pg_attribute_printf(2, 3);

#define trace(...)	(trace_on ? trace_write(__VA_ARGS__) : (void) 0)
extern const char *trace_request(const Request *r);
extern const char *trace_blob_request(const BlobRequest *r);

#endif							/* LE_SIM_H */
