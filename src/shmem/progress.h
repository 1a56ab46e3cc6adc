/*-------------------------------------------------------------------------
 *
 * progress.h
 *		Is a term of any use?  The time of the last progress in it.
 *
 * src/shmem/progress.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_PROGRESS_H
#define LE_PROGRESS_H

#include "port/atomics.h"

#include "core/timing.h"

/* The time within which a term must see progress: a duration, or else ... */
#define LE_WITHIN_SETTING	((le_duration) 0)	/* the setting's */
#define LE_WITHIN_ANY		((le_duration) -1)	/* no limit */

/* Progress of an election, by the number of its slot. */
typedef struct LeProgress
{
	pg_atomic_uint64 at;		/* le_time of the last progress, or of the
								 * term's begin; only ever raised */

	/* The worker's own state; others read it for views. */
	le_time		began_at;		/* the term: no progress yet if "at" is this */
	le_duration limit;			/* as of the worker's check; 0: none ... */
	le_time		since;			/* ... and its beginning, if that was later */
	le_duration within;			/* the present term's limit, ... */
	le_duration candidate_within;	/* ... the sought term's, ... */
	le_duration campaign_within;	/* ... and the limit of le_campaign() */
	le_duration useless;		/* time without progress for which the term is
								 * given up; 0: none */
	le_duration idled;			/* the last hold-off for lack of progress; 0:
								 * there was some since */
	le_time		away_until;		/* the end of that hold-off */
	le_time		judged;			/* began_at of the last term for which the
								 * hold-off was decided */
	bool		idles;			/* the slot's hold-off is for lack of
								 * progress */
} LeProgress;

extern Size le_progress_size(void);
extern void le_progress_init(bool found, void *where);

/* from any process */
extern void le_note_progress(int slot, le_time at);
extern LeProgress *le_progress_of(int slot);
extern le_duration le_progress_limit(int slot);
extern le_time le_progress_until(int slot);
extern bool le_made_progress(int slot);

/* in the worker */
extern void le_progress_forget(int slot);
extern void le_progress_begin(int slot, le_time now);
extern void le_progress_end(int slot);
extern le_time le_progress_due(int slot);
extern void le_progress_shorten(int slot, le_duration within);

#endif							/* LE_PROGRESS_H */
