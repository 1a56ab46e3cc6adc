/*-------------------------------------------------------------------------
 *
 * eligible.h
 *		May this node lead, does it want to, and do its timings allow it?
 *
 * src/worker/view/eligible.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_ELIGIBLE_H
#define LE_ELIGIBLE_H

#include "shmem/leases.h"

typedef struct LeEligibility LeEligibility;

extern LeEligibility *le_eligibility_new(void);
extern void le_judge_settings(LeEligibility *eligibility);
extern le_time le_settings_timer(LeEligibility *eligibility);
extern const char *le_settings_fault(void);
extern bool le_instance_stops(void);
extern void le_look_for_stop(LeEligibility *eligibility);
extern bool le_may_lead(char *why, size_t size, int *sqlstate);
extern const char *le_unfit(void);
extern bool le_steps_back(void);
extern bool le_campaigns(const LeSlot *slot);
extern void le_check_trust(LeEligibility *eligibility, le_duration trust);

#endif							/* LE_ELIGIBLE_H */
