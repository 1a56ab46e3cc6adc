/*-------------------------------------------------------------------------
 *
 * dry_run.h
 *		le_check_config(): would the store carry out its requests?
 *
 * src/worker/ask/dry_run.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_DRY_RUN_H
#define LE_DRY_RUN_H

#include "worker/lead/pending.h"

extern void le_ask_check(LeWorker *w, LePending *p);

#endif							/* LE_DRY_RUN_H */
