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

extern void le_throttle_start(void);
extern void le_throttle_busy(le_duration asked);
extern le_duration le_throttle_look(le_duration gap);
extern le_time le_throttle_campaign(le_duration lease);
extern void le_throttle_campaigned(void);

#endif							/* LE_THROTTLE_H */
