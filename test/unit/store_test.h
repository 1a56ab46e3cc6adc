/*-------------------------------------------------------------------------
 *
 * store_test.h
 *		Shared by the unit tests of src/store.
 *
 * test/unit/store_test.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_STORE_TEST_H
#define LE_STORE_TEST_H

#include "postgres_fe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "memory.h"

static inline int
forget_memory(void **state)
{
	(void) state;
	reset_memory();
	return 0;
}

#define store_test(f)	cmocka_unit_test_teardown(f, forget_memory)

#endif							/* LE_STORE_TEST_H */
