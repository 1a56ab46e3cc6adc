/*-------------------------------------------------------------------------
 *
 * claims.c
 *		What claims need that no schedule uses: the file of the store "local",
 *		and memory shared with a backend that reads le_claims.
 *
 * test/sim/claims.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include "storage/dsm.h"

#include "claimlog.h"

const LeClaimLog le_claim_log = {NULL, NULL, NULL};

void
le_claim_log_load(void)
{
}

dsm_segment *
dsm_attach(dsm_handle handle)
{
	(void) handle;
	abort();
}

void
dsm_detach(dsm_segment *segment)
{
	(void) segment;
	abort();
}

void *
dsm_segment_address(dsm_segment *segment)
{
	(void) segment;
	abort();
}
