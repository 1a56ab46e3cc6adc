/*-------------------------------------------------------------------------
 *
 * azure.h
 *		Requests to Azure Blob Storage, and its answers.
 *
 * src/store/azure.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_AZURE_H
#define LE_AZURE_H

#include "store/store.h"

extern void le_azure_encode(const LeNamespace *ns, const LeOp *op,
							LeRequest *request);
extern void le_azure_decode(const LeNamespace *ns, const LeOp *op,
							const LeResponse *response,
							LeAnswer *answer);

#endif							/* LE_AZURE_H */
