/*-------------------------------------------------------------------------
 *
 * claims.c
 *		The parts of claims that no schedule uses: the file of the store
 *		"local", memory shared with a backend that reads le_claims, and SQL's
 *		side.
 *
 * test/sim/claims.c
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include "mb/pg_wchar.h"
#include "storage/dsm.h"
#include "utils/builtins.h"

#include "shmem/history.h"
#include "worker/disk/claimlog.h"

const LeClaimLog le_claim_log = {NULL};

LeClaims *
le_claims_load(bool led)
{
	return NULL;
	(void) led;
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

dsm_segment *
dsm_create(Size size, int flags)
{
	(void) size;
	(void) flags;
	abort();
}

dsm_handle
dsm_segment_handle(dsm_segment *segment)
{
	(void) segment;
	abort();
}

void *
MemoryContextAllocHuge(MemoryContext context, Size size)
{
	(void) context;
	(void) size;
	abort();
}

void *
repalloc_huge(void *pointer, Size size)
{
	(void) pointer;
	(void) size;
	abort();
}

/* ---- arguments of SQL functions ---- */

char *
text_to_cstring(const text *t)
{
	(void) t;
	abort();
}

struct varlena *
pg_detoast_datum_packed(struct varlena *datum)
{
	(void) datum;
	abort();
}

char *
le_to_utf8(const char *text)
{
	(void) text;
	abort();
}

/* Only messages show it. */
char *
le_shown(const char *utf8)
{
	return (char *) utf8;
}

void
le_history_note(const LeJobRow *run)
{
	(void) run;
}

bool
le_job_snapshot_copy(LeJobRow **rows, int *nrows, le_time *as_of)
{
	(void) rows;
	(void) nrows;
	(void) as_of;
	return false;
}

void
le_job_snapshot_put(const LeJobRow *rows, int nrows, le_time as_of)
{
	(void) as_of;
	for (int i = 0; i < nrows; i++)
		if (rows[i].lost && !sim.restored)
			sim_fail("n%d says that the store has lost a record of %s, which "
					 "it has not", sim_node->number, rows[i].claim.election);
}

bool
pg_verify_mbstr(int encoding, const char *mbstr, int len, bool noError)
{
	(void) encoding;
	(void) mbstr;
	(void) len;
	(void) noError;
	return true;
}

int
pg_mbcliplen(const char *mbstr, int len, int limit)
{
	(void) mbstr;
	(void) len;
	(void) limit;
	abort();
}

/* Only messages and events show it: a tick in ms. */
const char *
timestamptz_to_str(TimestampTz t)
{
	static char text[32];

	pg_snprintf(text, sizeof(text), INT64_FORMAT,
				(t - le_from_tick(0)) / 1000);
	return text;
}
