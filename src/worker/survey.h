/*-------------------------------------------------------------------------
 *
 * survey.h
 *		A look at all jobs: what became of them, and whose nobody does.
 *
 * src/worker/survey.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_SURVEY_H
#define LE_SURVEY_H

#include "shmem/requests.h"

extern void le_survey_question(int proc, uint64 number, const LeAsk *ask);
extern void le_survey_run_timers(void);
extern le_time le_survey_timer(void);

#endif							/* LE_SURVEY_H */
