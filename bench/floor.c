/*
 * bench/floor.c
 *
 * The lower bound of a check: a function of the same signature that does
 * nothing, and one that reads the clock and three words of memory, as a check
 * of a deadline does.
 */
#include "postgres.h"

#include <time.h>

#include "fmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(bench_nothing);
PG_FUNCTION_INFO_V1(bench_clock);

static volatile int64 words[3] = {0, INT64_MAX, 1};

Datum
bench_nothing(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(true);
}

Datum
bench_clock(PG_FUNCTION_ARGS)
{
	struct timespec ts;
	int64		now;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	now = ts.tv_sec * INT64CONST(1000000000) + ts.tv_nsec;
	PG_RETURN_BOOL(words[0] < now && now < words[1] && words[2] != 0);
}
