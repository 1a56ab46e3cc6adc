/*-------------------------------------------------------------------------
 *
 * known.h
 *		What the store was last seen to hold: keys, and other nodes.
 *
 * src/worker/known.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_KNOWN_H
#define LE_KNOWN_H

#include "shmem/leases.h"

/* election keys, as the newest list showed them, and news since */
extern void le_known_keep_keys(const LeAnswer *answer, le_time sent);
extern bool le_known_hear(const LeNews *news, const LeNewsItem *item);
extern void le_known_heard(void);
extern void le_known_forget_keys(void);
extern int	le_known_keys(const LeKey **keys);
extern const LeKey *le_known_key(const char *election);
extern le_time le_known_as_of(void);
extern bool le_known_lately(le_duration within, uint64 *index);
extern bool le_known_to_be_named(const char *session);

/* node keys */
extern void le_known_keep_nodes(const LeAnswer *answer);
extern const LeNodeInfo *le_known_node(const char *session);
extern le_time le_known_silent_at(const LeNodeInfo *info);
extern bool le_known_all_tell(void);
extern void le_known_doubt(const char *session);
extern void le_known_marking(bool under_way);

#endif							/* LE_KNOWN_H */
