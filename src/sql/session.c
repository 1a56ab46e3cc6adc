/*-------------------------------------------------------------------------
 *
 * session.c
 *		The state of a session: its bindings, leases and claims.
 *
 * src/sql/session.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sql/session.h"

static LeSession this_session;
LeSession  *le_session = &this_session;
