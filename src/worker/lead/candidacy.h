/*-------------------------------------------------------------------------
 *
 * candidacy.h
 *		The elections that this node seeks, and their candidates.
 *
 * src/worker/lead/candidacy.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CANDIDACY_H
#define LE_CANDIDACY_H

#include "shmem/leases.h"
#include "worker/base/context.h"

/* State common to all candidacies. */
typedef struct LeCandidacies
{
	bool		may_lead;		/* this node, by its settings and its state */
	bool		any_pause;		/* some slot waits out a hold-off */
	le_time		list_by;		/* candidacies wait for the list of all keys
								 * until then; 0: they do not */
} LeCandidacies;

extern LeCandidacies *le_candidacies_new(void);
extern bool le_sought(LeWorker *w, const LeSlot *slot);
extern bool le_choose_candidate(LeWorker *w, LeSlot *slot);
extern bool le_candidate_waits(LeWorker *w, LeSlot *slot);
extern bool le_awaits_list(LeWorker *w, const LeSlot *slot);
extern void le_pause_campaign(LeWorker *w, LeSlot *slot, le_duration how_long);
extern bool le_note_fitness(LeWorker *w, bool session_refused);
extern void le_tell_fitness(LeWorker *w);

#endif							/* LE_CANDIDACY_H */
