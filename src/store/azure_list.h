/*-------------------------------------------------------------------------
 *
 * azure_list.h
 *		Lists of blobs in the store "azure".
 *
 * src/store/azure_list.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_AZURE_LIST_H
#define LE_AZURE_LIST_H

#include "store/azure_blob.h"

/* Blobs on one page. */
#define LE_AZURE_PAGE_SIZE		1000

extern bool le_azure_read_list(const LeNamespace *ns, const LeOp *op,
							   const LeResponse *response,
							   LeAnswer *answer);

#endif							/* LE_AZURE_LIST_H */
