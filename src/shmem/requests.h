/*-------------------------------------------------------------------------
 *
 * requests.h
 *		Questions of backends to the worker, and its replies.
 *
 * src/shmem/requests.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_REQUESTS_H
#define LE_REQUESTS_H

#include "shmem/leases.h"

typedef enum LeRequestKind
{
	LE_ASK_ACQUIRE,
	LE_ASK_RENEW,
	LE_ASK_RELEASE,
	LE_ASK_LEADER,
	LE_ASK_CAMPAIGN,
	LE_ASK_WITHDRAW,
	LE_ASK_STEP_DOWN,
	LE_ASK_ACCEPT_STORE,
	LE_ASK_CHECK,
	LE_ASK_CLAIM,				/* a tick */
	LE_ASK_COMPLETE,			/* the end of a claim */
	LE_ASK_LOOK,				/* TRUE: the tick is taken care of */
	LE_ASK_CLAIMS,				/* all claims, into shared memory */
	LE_ASK_JOBS					/* read all jobs (job_snapshot.c) */
} LeRequestKind;

/* max_worker_processes leaves no room: there will be no worker. */
extern bool le_worker_left_out;

#define LE_LEFT_OUT_DETAIL \
	"When the server started, \"max_worker_processes\" (%d) left no process for it."
#define LE_LEFT_OUT_HINT	"Raise \"max_worker_processes\" and restart."

/* The subjects of LE_ASK_CHECK; none of them changes anything. */
typedef enum LeCheck
{
	LE_CHECK_WORKER,			/* does it answer? */
		LE_CHECK_SETTINGS,		/* did the settings take effect? */
		LE_CHECK_SECRET,		/* could it be read? */
		LE_CHECK_TLS,			/* does a connection by TLS work? */
		LE_CHECK_CLOCK,			/* does the store's wall clock agree? */
		LE_CHECK_FILES,			/* can tokens and state be kept on disk? */
		LE_CHECK_CLAIM_FILE,	/* and claims, if they are kept there? */
		LE_CHECK_PREFIX,		/* is the namespace ours to use? */
		LE_CHECK_SESSION,		/* can a store session be created? */
		LE_CHECK_READ,			/* may the election's key be read ... */
		LE_CHECK_WRITE,			/* ... and written? */
		LE_CHECK_CLAIM			/* may ticks of its jobs be claimed? */
} LeCheck;

/* A question of a backend. */
typedef struct LeAsk
{
	LeRequestKind kind;
	LeCheck		check;
	LeOwner		owner;			/* on behalf of */
	int			proc;			/* the backend's number and process id */
	int			pid;
	le_time		wait_until;		/* ACQUIRE: give up then; 0: do not wait;
								 * LOOK: give up then */
	le_duration hold_off;		/* STEP_DOWN */
	le_duration within;			/* ACQUIRE, CAMPAIGN: progress, as in
								 * LeProgress */
	le_duration max_staleness;	/* LEADER */
	bool		has_value;
	bool		all;			/* STEP_DOWN: every election that the list in
								 * "value" allows, by le_allows() */

	/* CLAIM, COMPLETE, LOOK */
	int64		tick;			/* ms since 1970-01-01 UTC */
	uint64		token;			/* CLAIM: the term's */
	bool		catch_up;		/* CLAIM */
	bool		forget;			/* CLAIM, COMPLETE: replaces any tick, and is
								 * not run */
	bool		to_the_end;		/* COMPLETE: even if the backend is gone */
	bool		again;			/* CLAIM, COMPLETE: an earlier call may have
								 * written it ... */
	bool		otherwise;		/* CLAIM: ... with another catch_up, every,
								 * missed or max_missed */
	int64		every;			/* CLAIM: ms from tick to tick; 0: not known */
	int64		wait;			/* CLAIM: ms that others wait for their turn */
	int64		due;			/* CLAIM: the present tick, if "tick" is an
								 * older one */
	LeMissed	missed;			/* CLAIM: treatment of ticks before "due" */
	int			max_missed;		/* CLAIM: limit of missed ticks to run */
	LeClaimState ending;		/* COMPLETE ... */
	char		sqlstate[LE_SQLSTATE_LEN + 1];	/* ... by an error, "": none;
												 * the value is its message */
	char		job[LE_MAX_JOB_LEN + 1];
	char		claim_id[LE_CLAIM_ID_LEN + 1];

	/* CLAIMS */
	uint32		segment;		/* handle of the memory to fill ... */
	int			capacity;		/* ... rows that fit */
	int			from;			/* rows already delivered; 0: list anew */

	char		election[LE_MAX_ELECTION_LEN + 1];
	char		value[LE_MAX_VALUE_LEN + 1];
} LeAsk;

/* The result of a question. */
typedef enum LeReplyKind
{
	LE_REPLY_TRUE,
	LE_REPLY_FALSE,
	LE_REPLY_NOT_HELD,			/* RELEASE: not the caller's to release */
	LE_REPLY_ERROR
} LeReplyKind;

typedef struct LeReply
{
	LeReplyKind kind;
	int			sqlstate;		/* ERROR */
	char		message[256];
	char		detail[512];
	char		hint[256];
	uint64		token;			/* ACQUIRE: the term's ... */
	bool		fresh;			/* ... begun only for calls like this one */
	/* LEADER */
	bool		has_leader;
	bool		has_value;
	bool		is_self;
	uint64		leader_token;	/* 0: not known */
	TimestampTz observed;
	/* CLAIM */
	bool		behind;			/* FALSE: an older tick comes first ... */
	int64		tick;			/* ... this one; TRUE: the old record's */
	bool		ahead;			/* FALSE: the record lies ahead of the clock,
								 * by that tick, or by ... */
	int64		claimed_at;		/* ... the time of its claim; 0: not known */
	bool		under_way;		/* FALSE: that tick may still be under way */
	bool		no_term;		/* FALSE: the term is over, and the tick is
								 * not known to be claimed */
	int			try;			/* TRUE */
	int64		every_before;	/* TRUE: ms between ticks in the old record;
								 * 0: the same, or not known */
	/* CLAIMS */
	int			rows;			/* in total; as many as fit are written */
	char		leader[LE_MAX_NODE_NAME_LEN + 1];
	char		value[LE_MAX_VALUE_LEN + 1];
} LeReply;

/* A row of le_claims; texts are UTF-8. */
typedef struct LeClaimRow
{
	char		election[LE_MAX_ELECTION_LEN + 1];
	char		job[LE_MAX_JOB_LEN + 1];
	char		id[LE_CLAIM_ID_LEN + 1];
	char		node[LE_MAX_NODE_NAME_LEN + 1]; /* "": not kept */
	int64		tick;			/* all times: ms since 1970-01-01 UTC */
	int64		claimed_at;		/* 0: not kept */
	int64		ended_at;		/* 0: not ended, or not kept */
	uint64		token;
	int			try;
	LeClaimState state;
	int64		every;			/* in ms; 0: not known */
	int64		wait;
	int64		last_success;	/* 0: never, or not known */
	int			failures;		/* -1: not known */
	uint64		writes;			/* of the record so far; 0: not known */
	char		sqlstate[LE_SQLSTATE_LEN + 1];	/* "": none */
	char		message[LE_MAX_MESSAGE_LEN + 1];	/* "": none */
} LeClaimRow;

/* SQLSTATEs that a job can catch. */
#define LE_ERRCODE_NOT_LEADER		MAKE_SQLSTATE('L','E','0','0','1')
#define LE_ERRCODE_LOST				MAKE_SQLSTATE('L','E','0','0','2')
#define LE_ERRCODE_UNAVAILABLE		MAKE_SQLSTATE('L','E','0','0','3')
#define LE_ERRCODE_UNKNOWN			MAKE_SQLSTATE('L','E','0','0','4')
#define LE_ERRCODE_REFUSED			MAKE_SQLSTATE('L','E','0','0','5')

extern Size le_requests_size(void);
extern void le_requests_init(bool found, void *where);

/* in a backend */
extern LeOwner le_my_owner(bool xact);
extern void le_renew_owner(void);
extern bool le_has_owner(void);
extern bool le_is_mine(LeOwner owner);
extern void le_ask(LeAsk *ask, LeReply *reply);
extern bool le_ask_within(LeAsk *ask, LeReply *reply, le_duration patience);
extern bool le_tell(LeAsk *ask, LeReply *reply, le_duration patience);
extern void le_hint_worker(void);

/* in the worker */

/* Instead of a backend's number: a question of the worker itself. */
#define LE_NO_PROC	(-1)

typedef void (*LeRequestTaken) (void *arg, int proc, uint64 number,
								const LeAsk *ask);

extern void le_each_request(LeRequestTaken act, void *arg, bool taken_too);
extern bool le_still_asked(int proc, uint64 number);
extern void le_note_begun(int proc, uint64 number, uint64 token);
extern bool le_was_begun(int proc, uint64 number, uint64 *token);
extern bool le_answer(int proc, uint64 number, const LeReply *reply);
extern bool le_owner_lives(LeOwner owner, int proc);
extern bool le_waits_for_standby(int proc);

#endif							/* LE_REQUESTS_H */
