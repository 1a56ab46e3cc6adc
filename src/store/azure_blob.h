/*-------------------------------------------------------------------------
 *
 * azure_blob.h
 *		Blobs of the store "azure": their names, metadata and leases.
 *
 * src/store/azure_blob.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_AZURE_BLOB_H
#define LE_AZURE_BLOB_H

#include "store/store.h"

#define LE_AZURE_PROTO			1

/* The fields of the metadata. */
enum
{
	F_PROTO, F_TOKEN, F_ATTEMPT, F_SESSION, F_NODE, F_VALUE, F_LEASE,
	F_JOB, F_TICK, F_TRY, F_ID, F_STATE, F_CLAIMED, F_ENDED,
	F_EVERY, F_WAIT, F_SUCCESS, F_MISSED, F_MISSED_FROM, F_MISSED_TO,
	F_WRITES, F_FAILURES, F_SQLSTATE, F_MESSAGE,
	LE_AZURE_NFIELDS
};

/* How the service shows a blob's lease. */
typedef enum LeAzureLease
{
	LE_AZURE_FREE,				/* never taken, or released */
	LE_AZURE_EXPIRED,			/* free, too, unless a renewal comes late */
	LE_AZURE_HELD,				/* also until a break takes effect */
	LE_AZURE_BROKEN,			/* broken on request, perhaps too early */
	LE_AZURE_UNCLEAR
} LeAzureLease;

/* A blob, as far as an answer shows it. */
typedef struct LeAzureBlob
{
	const char *fields[LE_AZURE_NFIELDS];	/* NULL: missing */
	LeAzureLease lease;
	bool		endless;		/* a lease that does not run out */
} LeAzureBlob;

/* ---- names ---- */

extern char *le_azure_leader_name(const LeNamespace *ns, const char *election);
extern char *le_azure_claim_name(const LeNamespace *ns, const char *election,
								 const char *job);
extern char *le_azure_name_prefix(const LeNamespace *ns, bool claims);
extern char *le_azure_election_of(const LeNamespace *ns, const char *name);
extern char *le_azure_election_of_claim(const LeNamespace *ns,
										const char *name, const char *job);

/* ---- metadata and leases ---- */

extern const char *const le_azure_field_names[LE_AZURE_NFIELDS];

extern char *le_azure_to_text(const char *s);
extern LeAzureLease le_azure_lease_of(const char *state);
extern char *le_azure_lease_id(const char *attempt);
extern void le_azure_read_blob(const LeResponse *response,
							   LeAzureBlob *blob);
extern bool le_azure_field_is(const LeAzureBlob *blob, int field,
							  const char *value);
extern bool le_azure_read_term(const LeAzureBlob *blob, uint64 *token);
extern bool le_azure_read_claim(const LeAzureBlob *blob,
								const char *election, LeClaim *claim);
extern void le_azure_show_key(const char *election, const LeAzureBlob *blob,
							  uint64 token, LeKey *key);

#endif							/* LE_AZURE_BLOB_H */
