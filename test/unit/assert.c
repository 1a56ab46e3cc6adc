/*-------------------------------------------------------------------------
 *
 * assert.c
 *		An Assert of server code that a unit test includes.
 *
 * test/unit/assert.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

/* As the server declares it; 16 had one argument less. */
#if PG_VERSION_NUM >= 160000
extern void ExceptionalCondition(const char *condition, const char *file,
								 int line);

void
ExceptionalCondition(const char *condition, const char *file, int line)
#else
extern void ExceptionalCondition(const char *condition, const char *type,
								 const char *file, int line);

void
ExceptionalCondition(const char *condition, const char *type,
					 const char *file, int line)
#endif
{
	fprintf(stderr, "%s:%d: Assert(%s)\n", file, line, condition);
	abort();
}
