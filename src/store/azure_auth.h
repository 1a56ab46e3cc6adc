/*-------------------------------------------------------------------------
 *
 * azure_auth.h
 *		Authentication to Azure: signatures and identities.
 *
 * src/store/azure_auth.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_AZURE_AUTH_H
#define LE_AZURE_AUTH_H

#include "store/store.h"

/* Values of the setting azure_identity other than client ids. */
#define LE_AZURE_SYSTEM		"system"
#define LE_AZURE_WORKLOAD	"workload"

/* The identity of this instance; "": a signature is used. */
extern char *le_azure_identity;
extern char *le_azure_identity_url;

extern bool le_azure_is_workload(const char *identity);
extern const char *le_azure_token_file(void);
extern const char *le_azure_workload_fault(void);
extern void le_azure_ask_token(const char *identity, const char *url,
							   const LeOp *op, LeRequest *request);
extern void le_azure_take_token(const char *identity,
								const LeResponse *response,
								LeAnswer *answer);
extern void le_azure_judge_sas(const char *sas, int64 now,
							   LeFinding *finding);

#endif							/* LE_AZURE_AUTH_H */
