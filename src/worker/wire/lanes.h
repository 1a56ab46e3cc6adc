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

extern int	le_lane_windows[LE_NLANES];

extern void le_lanes_start(int connections[LE_NLANES]);
extern void le_lanes_configure(void);
extern bool le_lane_is_free(LeLane lane);
extern void le_lane_queue(LeFlight *flight);
extern void le_lane_change(LeFlight *flight, LeLane lane);
extern LeFlight *le_lane_next(LeLane lane, const char **unsent);
extern void le_lane_enter(LeFlight *flight);
extern void le_lanes_land(LeFlight *flight, const LeAnswer *answer);
extern void le_lanes_give_up(LeFlight *flight, const char *why);
extern void le_lanes_finish(LeFlight *flight, const LeAnswer *answer);
extern void le_lanes_end_turn(void);
extern le_time le_lanes_timer(void);

#endif							/* LE_LANES_H */
