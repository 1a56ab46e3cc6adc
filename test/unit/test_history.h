/*-------------------------------------------------------------------------
 *
 * test_history.h
 *		Included in history.c where test_history.c tests it: each comparison
 *		and each look into a table of hashes is a step.
 *
 * test/unit/test_history.h
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/hsearch.h"

extern int	step(int result);
extern HTAB *table_create(const HASHCTL *ctl, int nelem);
extern void *table_search(HTAB *table, const void *key, HASHACTION action);

#define strcmp(a, b)		step(strcmp(a, b))
#define strncmp(a, b, n)	step(strncmp(a, b, n))
#define memcmp(a, b, n)		step(memcmp(a, b, n))
#define hash_create(name, nelem, ctl, flags)	table_create(ctl, nelem)
#define hash_search(table, key, action, found) \
	table_search(table, key, action)
