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

extern void le_azure_encode(const LePlace *place, const LeOp *op,
							LeHttpRequest *request);
extern void le_azure_decode(const LePlace *place, const LeOp *op,
							const LeHttpResponse *response,
							LeAnswer *answer);

#endif							/* LE_AZURE_H */
