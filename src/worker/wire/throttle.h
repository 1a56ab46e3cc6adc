/*-------------------------------------------------------------------------
 *
 * throttle.h
 *		Asking less of a store that has too much to do.
 *
 * src/worker/wire/throttle.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_THROTTLE_H
#define LE_THROTTLE_H

#include "core/timing.h"

typedef struct LeThrottle
{
	int			level;
	le_time		changed;		/* last change of the level */
	le_time		busy_at;		/* last answer of a busy store ... */
	le_duration asked_for;		/* ... and the pause it asked for */
	le_time		campaigned;
} LeThrottle;

extern LeThrottle *le_throttle_new(void);
extern void le_throttle_busy(LeThrottle *throttle, le_duration asked);
extern le_duration le_throttle_look(LeThrottle *throttle, le_duration gap);
extern le_time le_throttle_campaign(LeThrottle *throttle, le_duration lease);
extern void le_throttle_campaigned(LeThrottle *throttle);

#endif							/* LE_THROTTLE_H */
