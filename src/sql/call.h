/*-------------------------------------------------------------------------
 *
 * call.h
 *		The CALL of le_run() as text, for a scheduler to keep, and back.
 *
 * src/sql/call.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CALL_H
#define LE_CALL_H

extern bool le_calls_run(const char *text, char **election, char **job);

#endif							/* LE_CALL_H */
