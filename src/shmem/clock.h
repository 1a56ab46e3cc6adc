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
extern uint32 le_random(void);

/* In the units of stores: since 1970-01-01 UTC; ticks in milliseconds. */
extern int64 le_unix_us(TimestampTz when);
extern int64 le_tick_now(void);
extern TimestampTz le_from_tick(int64 ms);

#endif							/* LE_CLOCK_H */
