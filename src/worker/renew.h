/*-------------------------------------------------------------------------
 *
 * renew.h
 *		Renewing terms that have leases of their own, many at a time.
 *
 * src/worker/renew.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_RENEW_H
#define LE_RENEW_H

#include "shmem/leases.h"

extern le_time le_trusted_until(le_time sent, le_duration trust);
extern void le_renew_check_trust(le_duration trust);
extern void le_renew_run_timers(void);

#endif							/* LE_RENEW_H */
