/*-------------------------------------------------------------------------
 *
 * guard.h
 *		A shared table that refuses an older leader.
 *
 * src/sql/guard.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_GUARD_H
#define LE_GUARD_H

extern void le_guard(Oid rel, const char *election, uint64 token);

#endif							/* LE_GUARD_H */
