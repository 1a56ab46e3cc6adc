/*-------------------------------------------------------------------------
 *
 * azure.h
 *		Blobs, their leases, and requests about them.
 *
 * test/sim/azure.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_SIM_AZURE_H
#define LE_SIM_AZURE_H

#include "sim.h"

/* Blobs by number: elections first, then jobs. */
#define CLAIM_BLOB(election, job) \
	(MAX_ELECTIONS + (election) * ELECTION_JOBS + (job))
#define IS_CLAIM_BLOB(b)	((b) >= MAX_ELECTIONS)
#define BLOBS				CLAIM_BLOB(MAX_ELECTIONS, 0)

/* Seconds of a lease, and of a break without a period. */
#define FOR_EVER			(-1)
#define NOT_SAID			(-1)

/* ---- azure.c ---- */

extern void azure_variant(bool azurite);
extern void azure_execute(const BlobRequest *r, BlobAnswer *a);
extern const char *azure_state(int blob);
extern void azure_asked_for(int session, le_duration lease);

/* ---- azure_text.c ---- */

extern void blob_read_request(const LeRequest *request, Request *r);
extern void blob_write_answer(const Answer *a, LeResponse *response);
extern const char *blob_field(const char *meta, const char *name);
extern uint64 blob_lease_id(const char *text);

#endif							/* LE_SIM_AZURE_H */
