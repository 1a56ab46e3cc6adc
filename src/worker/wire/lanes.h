/*-------------------------------------------------------------------------
 *
 * lanes.h
 *		The turns of requests, and operations that share one.
 *
 * src/worker/wire/lanes.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_LANES_H
#define LE_LANES_H

#include "worker/wire/flight.h"

/* How long operations go one by one when a server does not take several. */
#define LE_APART		(60 * LE_SEC)

/* So many may go together, however slow the store is. */
#define LE_LEAST_TOGETHER	8

typedef struct LeLaneQueue
{
	int			window;
	int			under_way;
	int			carrying;		/* requests with several operations */
	dlist_head	waiting;		/* flights, the oldest first */
} LeLaneQueue;

typedef struct LeLanes
{
	LeLaneQueue each[LE_NLANES];
	uint64		turns;			/* turns of the loop so far */
	le_time		apart_until;	/* until then each operation goes alone */
	int			together;		/* limit per request, if each operation is
								 * carried out by itself */
} LeLanes;

extern const int le_lane_windows[LE_NLANES];	/* as shipped */

extern LeLanes *le_lanes_new(const int windows[LE_NLANES],
							 int connections[LE_NLANES]);
extern void le_lanes_configure(LeWorker *w);
extern bool le_lane_is_free(LeWorker *w, LeLane lane);
extern void le_lane_queue(LeWorker *w, LeFlight *flight);
extern void le_lane_change(LeWorker *w, LeFlight *flight, LeLane lane);
extern LeFlight *le_lane_next(LeWorker *w, LeLane lane, const char **unsent);
extern void le_lane_enter(LeWorker *w, LeFlight *flight);
extern void le_lanes_land(LeWorker *w, LeFlight *flight,
						  const LeAnswer *answer);
extern void le_lanes_give_up(LeWorker *w, LeFlight *flight, const char *why);
extern void le_lanes_finish(LeWorker *w, LeFlight *flight,
							const LeAnswer *answer);
extern void le_lanes_end_turn(LeWorker *w);
extern le_time le_lanes_timer(LeWorker *w);

#endif							/* LE_LANES_H */
