/*-------------------------------------------------------------------------
 *
 * discard.h
 *		DISCARD ALL ends leases in scope "session".
 *
 * src/sql/discard.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_DISCARD_H
#define LE_DISCARD_H

#include "nodes/nodes.h"

extern void le_discard_done(const Node *statement);

#endif							/* LE_DISCARD_H */
