/*-------------------------------------------------------------------------
 *
 * find_leader.h
 *		le_current_leader(): who leads?
 *
 * src/worker/ask/find_leader.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_FIND_LEADER_H
#define LE_FIND_LEADER_H

#include "worker/lead/pending.h"

extern void le_ask_leader(LeWorker *w, LePending *p);

#endif							/* LE_FIND_LEADER_H */
