/*-------------------------------------------------------------------------
 *
 * clock.c
 *		The clock of every deadline.
 *
 * src/shmem/clock.c
 *
 *-------------------------------------------------------------------------
 */

#include "postgres.h"

#include <time.h>

#include "shmem/clock.h"

/*
 * The clock of every deadline.  CLOCK_BOOTTIME goes on while the machine
 * sleeps and is not set by anybody; reading it takes no system call.
 */
le_time
le_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (le_time) ts.tv_sec * LE_SEC + ts.tv_nsec;
}

/* For display only: what the wall clock shows at that instant. */
TimestampTz
le_wall(le_time when)
{
	return GetCurrentTimestamp() + (when - le_now()) / 1000;
}
