/*-------------------------------------------------------------------------
 *
 * renew.h
 *		Renewing terms that have leases of their own, many at a time.
 *
 * src/worker/lead/renew.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_RENEW_H
#define LE_RENEW_H

#include "worker/base/context.h"

extern void le_renew_run_timers(LeWorker *w);

#endif							/* LE_RENEW_H */
