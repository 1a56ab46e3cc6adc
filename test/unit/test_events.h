/*-------------------------------------------------------------------------
 *
 * test_events.h
 *		Included in ring.c and events.c where test_events.c tests them: each
 *		access to shared memory is announced.
 *
 * test/unit/test_events.h
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"

extern void about_to_access(void);

#define pg_atomic_read_u64(p)	(about_to_access(), pg_atomic_read_u64(p))
#define pg_atomic_write_u64(p, v) \
	(about_to_access(), pg_atomic_write_u64(p, v))
#define pg_atomic_add_fetch_u64(p, v) \
	(about_to_access(), pg_atomic_add_fetch_u64(p, v))
#define pg_atomic_compare_exchange_u64(p, e, v) \
	(about_to_access(), pg_atomic_compare_exchange_u64(p, e, v))
