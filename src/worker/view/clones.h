/*-------------------------------------------------------------------------
 *
 * clones.h
 *		Instances that share a system identifier with this one.
 *
 * src/worker/view/clones.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CLONES_H
#define LE_CLONES_H

#include "core/timing.h"

struct LeWorker;

extern void le_clones_configure(void);
extern bool le_clones_show_systems(void);
extern void le_clones_joined(uint64 index);
extern bool le_clones_judge(struct LeWorker *w);
extern bool le_clones_unclear(void);
extern bool le_clones_clear_now(void);

#endif							/* LE_CLONES_H */
