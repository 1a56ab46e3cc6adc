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

#include "miscadmin.h"

#include "shmem/clock.h"
#include "shmem/process.h"

/* From 1970 to 2000. */
#define EPOCH_SHIFT \
	((POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

/*
 * The clock of every deadline.  CLOCK_BOOTTIME goes on while the machine
 * sleeps and cannot be set; reading it takes no system call.
 */
le_time
le_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (le_time) ts.tv_sec * LE_SEC + ts.tv_nsec;
}

/* For display only: the wall clock's time at that instant. */
TimestampTz
le_wall(le_time when)
{
	return GetCurrentTimestamp() + (when - le_now()) / 1000;
}

/* For jitter only, so the quality of the generator does not matter. */
uint32
le_random(void)
{
	uint64		state = le_process->random;

	if (state == 0)
		state = (uint64) le_now() ^ ((uint64) MyProcPid << 32);
	state = state * UINT64CONST(6364136223846793005) +
		UINT64CONST(1442695040888963407);
	le_process->random = state;
	return (uint32) (state >> 32);
}

int64
le_unix_us(TimestampTz when)
{
	return when + EPOCH_SHIFT;
}

int64
le_tick_now(void)
{
	return le_unix_us(GetCurrentTimestamp()) / 1000;
}

TimestampTz
le_from_tick(int64 ms)
{
	return ms * 1000 - EPOCH_SHIFT;
}
