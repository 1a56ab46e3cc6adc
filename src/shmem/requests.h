/*-------------------------------------------------------------------------
 *
 * requests.h
 *		How a backend asks the worker, and gets its reply.
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
	LE_ASK_RESET_TOKEN,
	LE_ASK_CHECK,
	LE_ASK_CLAIM,				/* a tick */
	LE_ASK_COMPLETE,			/* the end of a claim */
	LE_ASK_LOOK,				/* TRUE: the tick needs nobody any more */
	LE_ASK_CLAIMS,				/* all of them, into shared memory */
	LE_ASK_JOBS					/* a look at all jobs (job_snapshot.c) */
} LeRequestKind;

/* What LE_ASK_CHECK is to find out; none of it changes anything. */
typedef enum LeCheck
{
	LE_CHECK_WORKER,			/* does it answer? */
	LE_CHECK_SETTINGS,			/* did the settings take? */
	LE_CHECK_SECRET,			/* could it be read? */
	LE_CHECK_TLS,				/* could a connection by it be made? */
	LE_CHECK_FILES,				/* can it write what must outlive it? */
	LE_CHECK_CLAIM_FILE,		/* claims too, where it keeps them itself? */
	LE_CHECK_PREFIX,			/* is the place of the keys ours to use? */
	LE_CHECK_SESSION,			/* can a store session be had? */
	LE_CHECK_READ,				/* may the election's key be read ... */
	LE_CHECK_WRITE,				/* ... and written? */
	LE_CHECK_CLAIM				/* may ticks of its jobs be claimed? */
} LeCheck;

/* What a backend wants. */
typedef struct LeAsk
{
	LeRequestKind kind;
	LeCheck		check;
	LeOwner		owner;			/* for whom */
	int			proc;			/* the backend's place and process id */
	int			pid;
	le_time		wait_until;		/* ACQUIRE: give up then; 0: do not wait;
								 * LOOK: give up then */
	le_duration hold_off;		/* STEP_DOWN */
	le_duration within;			/* ACQUIRE, CAMPAIGN: progress, as in
								 * LeProgress */
	le_duration max_staleness;	/* LEADER */
	bool		has_value;
	bool		all;			/* STEP_DOWN: every election that the list in
								 * "value" allows, as le_allows() reads it */

	/* CLAIM, COMPLETE, LOOK */
	int64		tick;			/* ms since 1970-01-01 UTC */
	uint64		token;			/* CLAIM: of the term that claims */
	bool		catch_up;		/* CLAIM */
	bool		forget;			/* CLAIM, COMPLETE: over any tick, and not to
								 * be run */
	bool		to_the_end;		/* COMPLETE: also when nobody waits */
	bool		again;			/* CLAIM, COMPLETE: was asked before, and may
								 * have been written then */
	bool		otherwise;		/* CLAIM: ... with another catch_up, every,
								 * missed or max_missed */
	int64		every;			/* CLAIM: ms from tick to tick; 0: not known */
	int64		wait;			/* CLAIM: ms that others wait for their turn */
	int64		due;			/* CLAIM: the tick it is time for, if "tick" is
								 * an older one */
	LeMissed	missed;			/* CLAIM: what becomes of ticks before "due" */
	int			max_missed;		/* CLAIM: that may be run */
	LeClaimState ending;		/* COMPLETE ... */
	char		sqlstate[LE_SQLSTATE_LEN + 1];	/* ... of the error that ended
												 * it, "": none; the value is
												 * its message */
	char		job[LE_MAX_JOB_LEN + 1];
	char		claim_id[LE_CLAIM_ID_LEN + 1];

	/* CLAIMS */
	uint32		segment;		/* handle of the memory to fill ... */
	int			room;			/* ... rows that fit */
	int			from;			/* rows that were shown before; 0: list them */

	char		election[LE_MAX_ELECTION_LEN + 1];
	char		value[LE_MAX_VALUE_LEN + 1];
} LeAsk;

/* How it ended. */
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
	uint64		token;			/* ACQUIRE: of the term ... */
	bool		fresh;			/* ... which calls like this one alone brought
								 * about */
	/* LEADER */
	bool		has_leader;
	bool		has_value;
	bool		is_self;
	uint64		leader_token;	/* 0: not known */
	TimestampTz observed;
	/* CLAIM */
	bool		behind;			/* FALSE: an older tick comes first ... */
	int64		tick;			/* ... this one; TRUE: of the record before */
	bool		under_way;		/* FALSE: that one may be under way yet */
	bool		no_term;		/* FALSE: the term is over, and nobody has the
								 * tick, as far as is known */
	int			try;			/* TRUE */
	int64		every_before;	/* TRUE: ms between ticks, as the record had
								 * it; 0: the same, or not known */
	/* CLAIMS */
	int			rows;			/* there are; as many as fit are written */
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
	int64		tick;			/* ms since 1970-01-01 UTC, as the others */
	int64		claimed_at;		/* 0: not kept */
	int64		ended_at;		/* 0: not ended, or not kept */
	uint64		token;
	int			try;
	LeClaimState state;
	int64		every;			/* in ms; 0: not known */
	int64		wait;
	int64		last_success;	/* 0: never, or not known */
	int			failures;		/* -1: not known */
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
extern void le_each_request(void (*act) (int proc, uint64 number,
										 const LeAsk *ask),
							bool taken_too);
extern bool le_still_asked(int proc, uint64 number);
extern void le_note_begun(int proc, uint64 number, uint64 token);
extern bool le_was_begun(int proc, uint64 number, uint64 *token);
extern bool le_answer(int proc, uint64 number, const LeReply *reply);
extern bool le_owner_lives(LeOwner owner, int proc);
extern bool le_waits_for_standby(int proc);

#endif							/* LE_REQUESTS_H */
