/*-------------------------------------------------------------------------
 *
 * flight.h
 *		One operation under way.
 *
 * src/worker/wire/flight.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_FLIGHT_H
#define LE_FLIGHT_H

#include "lib/ilist.h"
#include "nodes/pg_list.h"

#include "shmem/leases.h"
#include "worker/wire/http.h"
#include "worker/wire/servers.h"

typedef struct LeFlight LeFlight;
typedef struct LeFlights LeFlights;

typedef void (*LeFlightDone) (LeWorker *w, LeFlight *flight,
							  const LeAnswer *answer);

/*
 * One operation under way.  It lives in a memory context of its own, which
 * goes away after done() has returned.
 */
struct LeFlight
{
	MemoryContext context;
	dlist_node	node;			/* while it waits for its turn ... */
	bool		under_way;		/* ... which has come */
	bool		handed_over;	/* to the socket, so that the store may have
								 * it; not while it waits to go again */
	bool		carries;		/* several operations that the store carries
								 * out one by one */
	uint64		turn;			/* turn of the loop when it began to wait */
	LeLane		lane;
	bool		keeps_waiting;	/* without a time limit */
	/* still, when it is its turn?  NULL: always */
	bool		(*wanted) (LeWorker *w, LeFlight *flight);
	LeFlight  **joined;	/* flights whose operations go with this one's
								 * request: op.njoined */
	int			unjudged;		/* sends in vain, since another operation of
								 * the request was refused */
	LeOp		op;				/* its strings live in context, or longer */
	le_time		sent;			/* when the request that trust counts from was
								 * sent */
	le_time		transmitted;	/* when its newest request was sent */
	bool		anchored;		/* "sent" is that of an earlier request */
	uint32		epoch;			/* the node session's when it was sent ... */
	uint32		store;			/* ... and the number of the store */
	int			slot;			/* the election's, or -1 */
	uint32		request;		/* number of the election's request, or 0 */
	struct
	{
		int			proc;		/* the backend's ... */
		uint64		number;		/* ... and its question's; 0: none */
	}			asker;
	int		   *held_slots;		/* PROVE_NODE: slots of op.held ... */
	uint64	   *held_tokens;	/* ... and their terms; also for RENEW_TERMS */
	List	   *earlier;		/* LIST_HELD: keys of the pages before ... */
	bool		early;			/* ... and were acquires under way? */
	LeServerRef server;			/* asked last ... */
	unsigned	tried;			/* ... and all that were asked, by bits */
	uint32		secret_number;	/* the secret last sent with it ... */
	bool		renewed_secret; /* ... which was replaced for its sake, once */
	bool		fresh;			/* over a new connection, to try it */
	bool		may_be_refused; /* only the caller is told: no log, no event */
	le_duration patience;		/* for the answer ... */
	le_time		until;			/* ... and when it ends */
	le_time		not_after;		/* no request is sent from then on; 0: no such
								 * limit */
	LeFlightDone done;
};

extern LeFlights *le_flights_new(void);
extern LeFlight *le_flight_new(LeOpKind kind, LeFlightDone done);
extern LeFlight *le_flight_without_effect(LeOpKind kind, const char *election,
										  LeFlightDone done);
extern const char *le_flight_string(LeFlight *flight, const char *s);
extern void le_flight_local_key(LeFlight *flight, LeSlot *slot);
extern List *le_flights_append(List *flights, void *member);
extern void le_flight_expect(LeWorker *w, LeFlight *flight);
extern LeFlight *le_flight_newest(LeWorker *w, int slot);
extern bool le_flights_acquire(LeWorker *w);
extern bool le_flight_may_park(const LeFlight *flight);
extern bool le_flight_is_past(const LeFlight *flight);
extern bool le_flight_is_outdated(LeWorker *w, const LeFlight *flight);
extern void le_flight_fail_rest(const LeFlight *flight, LeAnswer *answer,
								LeOutcome outcome, const char *why);
extern void le_flight_deliver(LeWorker *w, LeFlight *flight,
							  const LeAnswer *answer);

#endif							/* LE_FLIGHT_H */
