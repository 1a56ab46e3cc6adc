/*-------------------------------------------------------------------------
 *
 * dispatch.h
 *		Operations on their way to the store and back.
 *
 * src/worker/dispatch.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_DISPATCH_H
#define LE_DISPATCH_H

#include "nodes/pg_list.h"

#include "shmem/leases.h"
#include "worker/servers.h"

/*
 * One operation under way.  It lives in a memory context of its own, which
 * goes away after done() has returned.
 */
typedef struct LeFlight
{
	MemoryContext context;
	LeOp		op;				/* its strings live in context, or longer */
	le_time		sent;			/* the request that trust counts from */
	le_time		transmitted;	/* the newest of its requests */
	bool		anchored;		/* "sent" is that of an earlier one */
	uint32		epoch;			/* of the node's session when it was sent */
	int			slot;			/* of the election, or -1 */
	uint32		request;		/* number of the election's request */
	uint64		pending;		/* number of the backend's question, or 0 */
	int		   *held_slots;		/* PROVE_NODE: slots of op.held ... */
	uint64	   *held_tokens;	/* ... and of which terms; also for
								 * RENEW_TERMS */
	List	   *earlier;		/* LIST_HELD: keys of the pages before */
	LeServerRef server;			/* that was asked last ... */
	unsigned	tried;			/* ... and all that were, one bit each */
	bool		renewed_secret; /* for its sake, once */
	le_time		until;			/* when to give up */
	void		(*done) (struct LeFlight *flight, const LeAnswer *answer);
} LeFlight;

extern void le_dispatch_start(void);
extern void le_dispatch_configure(void);
extern LeFlight *le_flight_new(LeOpKind kind,
							   void (*done) (LeFlight *, const LeAnswer *));
extern const char *le_flight_string(LeFlight *flight, const char *s);
extern void le_flight_send(LeFlight *flight, le_duration timeout);
extern void le_dispatch_run(void);
extern le_time le_dispatch_timer(void);
extern const char *le_store_place(void);
extern const char *le_store_trouble(void);
extern uint32 le_random(void);

#endif							/* LE_DISPATCH_H */
