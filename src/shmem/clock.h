/*-------------------------------------------------------------------------
 *
 * clock.h
 *		The clock of every deadline.
 *
 * src/shmem/clock.h
 *
 *-------------------------------------------------------------------------
 */

#ifndef LE_CLOCK_H
#define LE_CLOCK_H

#include "utils/timestamp.h"

#include "core/timing.h"

extern le_time le_now(void);
extern TimestampTz le_wall(le_time when);

#endif							/* LE_CLOCK_H */
