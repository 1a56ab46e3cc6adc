/*-------------------------------------------------------------------------
 *
 * events.h
 *		The last events: the rings behind the view le_events.
 *
 * Any process of the instance may write, with one call; readers never wait.
 * See events.c for the method.
 *
 * src/shmem/events.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_EVENTS_H
#define LE_EVENTS_H

#include "shmem/leases.h"

/* Kinds of events; le_event_name() has the words. */
typedef enum LeEventKind
{
	/* terms of this node */
	LE_EVENT_ACQUIRED,
	LE_EVENT_TOOK_OVER,			/* follows ACQUIRED: old leader, reason */
	LE_EVENT_RELEASED,
	LE_EVENT_STEPPED_DOWN,
	LE_EVENT_NO_PROGRESS,		/* ended for lack of progress */
	LE_EVENT_LOST,
	LE_EVENT_TOKEN_REFUSED,		/* given back: the token was too low */

	/* another node's term, as this node sees it */
	LE_EVENT_SEEN,

	/* the store, and the worker */
	LE_EVENT_STORE_DOWN,
	LE_EVENT_STORE_REFUSED,
	LE_EVENT_STORE_UP,
	LE_EVENT_WORKER_STARTED,
	LE_EVENT_FILE_TROUBLE,		/* a file that must outlive a restart cannot
								 * be written, or was damaged */
	LE_EVENT_FILE_WRITTEN,		/* the file can be written again */
	LE_EVENT_CLONE,				/* another instance shares a system
								 * identifier */

	/* jobs */
	LE_EVENT_FENCE_ABORTED,		/* a bound transaction failed its check */
	LE_EVENT_CANCELED,			/* a session was stopped before the deadline */
	LE_EVENT_CLAIMED,
	LE_EVENT_RUN_STARTED,
	LE_EVENT_RUN_DONE,
	LE_EVENT_RUN_FAILED,
	LE_EVENT_PASSED_OVER,		/* a later tick replaced one not done */
	LE_EVENT_JOB_FAILED,		/* a claim of this node ended as failed */
	LE_EVENT_JOB_MISSED,		/* ticks that were never claimed */
	LE_EVENT_JOB_ABANDONED,		/* a tick runs no more: its term is over */
	LE_EVENT_JOB_LATE,			/* the next tick was not claimed in time */
	LE_EVENT_JOB_AHEAD,			/* the last one lies ahead of our clock */
	LE_EVENT_JOB_LOST			/* the store has lost its record */
} LeEventKind;

#define LE_NEVENTKINDS	(LE_EVENT_JOB_LOST + 1)

#define LE_MAX_EVENT_DETAIL	255

typedef struct LeEvent
{
	uint64		number;			/* 1, 2, ... since the start, of all rings */
	bool		hidden;			/* merged into an earlier event */
	TimestampTz at;
	LeEventKind what;
	int			pid;			/* the writer's */
	uint64		token;			/* the term's; 0: no term */
	char		election[LE_MAX_ELECTION_LEN + 1];	/* "": none */
	char		node[LE_MAX_NODE_NAME_LEN + 1];
	char		detail[LE_MAX_EVENT_DETAIL + 1];	/* UTF-8; "": none */
} LeEvent;

/* After a longer time up, an outage of the store is a new event. */
#define LE_REPEATED_WITHIN	(10 * INT64CONST(60000000))

extern Size le_events_size(void);
extern void le_events_init(bool found, void *where);

/* About this node; election NULL: about none, detail NULL: none. */
extern void le_event(LeEventKind what, const char *election, uint64 token,
					 const char *detail,...) pg_attribute_printf(4, 5);

/* About another node. */
extern void le_event_of(const char *node, LeEventKind what,
						const char *election, uint64 token,
						const char *detail,...) pg_attribute_printf(5, 6);

/*
 * Frequent events must not push out rare ones, so each of these kinds has a
 * ring of its own.
 */
typedef enum LeEventRing
{
	LE_RING_TERMS,				/* terms, the store, the worker */
	LE_RING_RUNS,				/* runs of jobs */
	LE_RING_JOBS				/* what jobs have left undone */
} LeEventRing;

#define LE_NEVENTRINGS	(LE_RING_JOBS + 1)

/* The range of entries in a ring; a copy of one, false if it is not there. */
extern uint64 le_events_oldest(LeEventRing of);
extern uint64 le_events_newest(LeEventRing of);
extern bool le_copy_event(LeEventRing of, uint64 entry, LeEvent *copy);

/* Reads all rings, in the order of the events' numbers. */
typedef struct LeEventReader
{
	uint64		next[LE_NEVENTRINGS];
	uint64		newest[LE_NEVENTRINGS];
	LeEvent		heads[LE_NEVENTRINGS];	/* number 0: none */
} LeEventReader;

extern void le_begin_events(LeEventReader *reader);
extern bool le_next_event(LeEventReader *reader, LeEvent *event);
extern const char *le_event_name(LeEventKind what);

#endif							/* LE_EVENTS_H */
