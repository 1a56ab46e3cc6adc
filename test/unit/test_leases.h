/*-------------------------------------------------------------------------
 *
 * test_leases.h
 *		Included in leases.c where test_leases.c tests it: each read of shared
 *		memory is announced.
 *
 * test/unit/test_leases.h
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"

extern void about_to_read(void);

#define pg_atomic_read_u64(p)	(about_to_read(), pg_atomic_read_u64(p))
#define pg_atomic_read_u32(p)	(about_to_read(), pg_atomic_read_u32(p))
