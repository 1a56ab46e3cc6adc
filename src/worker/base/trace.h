/*-------------------------------------------------------------------------
 *
 * trace.h
 *		The record of what goes into the decisions and what comes out.
 *
 * A line per input of the machines of core/, and per decision that the worker
 * makes without them, for test/traces to judge: see its README.  Builds of the
 * tests have it (LE_TRACES), and write it where the environment's LE_TRACES
 * names a directory; in all others these functions are empty.
 *
 * src/worker/base/trace.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_TRACE_H
#define LE_TRACE_H

#include "core/node.h"
#include "core/tick.h"
#include "shmem/leases.h"

/* Without an input: a new worker has found the machine like this. */
#ifdef LE_TRACES

/* Writes a line, which lacks the beginning "{", its time and the end. */
extern void (*le_trace_sink) (const char *line);

extern void le_trace_worker(void);
extern void le_trace_election(const LeSlot *slot, const LeElection *before,
							  const LeInput *input, const LeActions *act);
extern void le_trace_node(const LeNode *before, const LeNodeInput *input,
						  const LeNodeActions *act);
extern void le_trace_accept(const LeSlot *slot);
extern void le_trace_unlock(const char *election, uint64 index);
extern void le_trace_unlocked(const char *election, uint64 index,
							  LeOutcome outcome, uint64 written);
extern void le_trace_claim(const char *election, const char *job,
						   const LeClaimView *found, const LeClaimPlan *plan,
						   LeClaimVerdict verdict, int try, int64 older);
#else
static inline void
le_trace_worker(void)
{
}

static inline void
le_trace_election(const LeSlot *slot, const LeElection *before,
				  const LeInput *input, const LeActions *act)
{
}

static inline void
le_trace_node(const LeNode *before, const LeNodeInput *input,
			  const LeNodeActions *act)
{
}

static inline void
le_trace_accept(const LeSlot *slot)
{
}

static inline void
le_trace_unlock(const char *election, uint64 index)
{
}

static inline void
le_trace_unlocked(const char *election, uint64 index, LeOutcome outcome,
				  uint64 written)
{
}

static inline void
le_trace_claim(const char *election, const char *job,
			   const LeClaimView *found, const LeClaimPlan *plan,
			   LeClaimVerdict verdict, int try, int64 older)
{
}
#endif							/* LE_TRACES */

#endif							/* LE_TRACE_H */
