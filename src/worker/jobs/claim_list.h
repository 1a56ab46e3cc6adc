/*-------------------------------------------------------------------------
 *
 * claim_list.h
 *		The records of all jobs, page by page.
 *
 * src/worker/jobs/claim_list.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CLAIM_LIST_H
#define LE_CLAIM_LIST_H

#include "worker/lead/pending_list.h"

typedef struct LeClaimList
{
	Size		size;			/* a row's; rows begin with a LeClaimRow */
	void	   *rows;
	int			nrows;
	int			capacity;
	char	   *page;			/* the next one; NULL: the first */
	int			next_slot;		/* the next election, where each is listed by
								 * itself */
} LeClaimList;

/* Questions for all records (LE_ASK_CLAIMS). */
extern LePendingList *le_claim_listings_new(void);

extern void le_claim_row(LeClaimRow *row, const LeClaim *claim);
extern bool le_claim_list_next(LeClaimList *list, const char **election);
extern void *le_claim_list_new_row(LeClaimList *list);
extern void le_claim_list_add(LeClaimList *list, const LeAnswer *answer);
extern void le_claim_list_clear(LeClaimList *list);
extern void le_ask_claims(LeWorker *w, int proc, uint64 number,
						  const LeAsk *ask);

#endif							/* LE_CLAIM_LIST_H */
