/*-------------------------------------------------------------------------
 *
 * candidacy.h
 *		Which elections this node seeks, and for whom.
 *
 * src/worker/lead/candidacy.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CANDIDACY_H
#define LE_CANDIDACY_H

#include "shmem/leases.h"

/* What concerns them all alike. */
typedef struct LeCandidacies
{
	bool		may_lead;		/* this node, by its settings and its state */
	bool		any_pause;		/* some slot waits out a hold-off */
	le_time		list_by;		/* until then they wait for the list of all
								 * keys; 0: they do not */
} LeCandidacies;

extern LeCandidacies le_candidacies;

extern bool le_sought(const LeSlot *slot);
extern bool le_choose_candidate(LeSlot *slot);
extern bool le_candidate_waits(LeSlot *slot);
extern bool le_awaits_list(const LeSlot *slot);
extern void le_pause_campaign(LeSlot *slot, le_duration how_long);
extern bool le_note_fitness(bool session_refused);
extern void le_tell_fitness(void);

#endif							/* LE_CANDIDACY_H */
