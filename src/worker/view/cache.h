/*-------------------------------------------------------------------------
 *
 * cache.h
 *		The keys and nodes that the store was last seen to hold.
 *
 * src/worker/view/cache.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CACHE_H
#define LE_CACHE_H

#include "shmem/leases.h"
#include "worker/base/context.h"

/* election keys, as the newest list showed them, and news since */
typedef struct LeCache LeCache;

extern LeCache *le_cache_new(void);
extern void le_cache_keep_keys(LeCache *cache, const LeAnswer *answer,
							   le_time sent);
extern bool le_cache_hear(LeCache *cache, const LeGossip *news,
						  const LeGossipItem *item);
extern void le_cache_heard(LeCache *cache);
extern void le_cache_begin_anew(LeWorker *w);
extern int	le_cache_keys(LeCache *cache, const LeKey **keys);
extern const LeKey *le_cache_key(LeCache *cache, const char *election);
extern le_time le_cache_as_of(LeCache *cache);
extern bool le_cache_lately(LeCache *cache, le_duration within, uint64 *index);
extern bool le_cache_to_be_named(LeCache *cache, const char *session);

/* node keys */
extern void le_cache_keep_nodes(LeCache *cache, const LeAnswer *answer);
extern const LeNodeInfo *le_cache_node(const char *session);
extern le_time le_cache_silent_at(LeCache *cache, const LeNodeInfo *info);
extern bool le_cache_lives(const LeNodeInfo *info);
extern bool le_cache_all_tell(void);
extern void le_cache_doubt(const char *session);
extern void le_cache_marking(LeCache *cache, bool under_way);

#endif							/* LE_CACHE_H */
