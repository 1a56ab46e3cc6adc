/*-------------------------------------------------------------------------
 *
 * news.h
 *		What nodes tell each other of the election keys that they write.
 *
 * src/worker/news.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_NEWS_H
#define LE_NEWS_H

#include "store/store.h"

/* telling */
extern int	le_news_room;

extern void le_news_start(void);
extern void le_news_begin(le_duration until_settled);
extern void le_news_attach(LeOp *op);
extern void le_news_landed(const LeOp *op, const LeAnswer *answer);
extern bool le_news_untold(void);
extern le_time le_news_timer(void);

/* What there is to hear in one node's news; several may be true. */
#define LE_HEARD_ITEMS		1	/* those that have an index */
#define LE_HEARD_GAP		2	/* something was told of and missed */
#define LE_HEARD_END		4	/* its session is over */

/* hearing */
extern int	le_news_hear(const LeNews *news);
extern void le_news_heard(const LeAnswer *answer);
extern void le_news_forget(void);

#endif							/* LE_NEWS_H */
