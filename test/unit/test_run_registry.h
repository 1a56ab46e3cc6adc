/*-------------------------------------------------------------------------
 *
 * test_run_registry.h
 *		Included in run_registry.c where test_run_registry.c tests it: a
 *		process takes the place of any.
 *
 * test/unit/test_run_registry.h
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "storage/proc.h"

extern int	my_proc;

#undef LE_MY_PROC
#define LE_MY_PROC	my_proc
