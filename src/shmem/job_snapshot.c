/*-------------------------------------------------------------------------
 *
 * job_snapshot.c
 *		All jobs as the worker last saw them in the store: behind le_jobs().
 *
 * There may be few or many, so the rows are in dynamic shared memory.  The
 * worker makes a new segment each time, and unpins the previous one, which
 * goes away after its last reader.  Nobody waits: a reader that finds its
 * segment gone takes the next one.
 *
 * A failure to allocate memory must not affect the leases: then there is no
 * snapshot.
 *
 * src/shmem/job_snapshot.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"
#include "storage/dsm.h"
#include "utils/memutils.h"

#include "shmem/job_snapshot.h"

#define NONE	0				/* no segment's handle */

/* The number of times that a reader looks for the newest snapshot. */
#define TRIES	10

/* A segment's content. */
typedef struct JobSnapshot
{
	uint64		magic;			/* it is ours */
	le_time		as_of;
	int			nrows;
	LeJobRow	rows[FLEXIBLE_ARRAY_MEMBER];
} JobSnapshot;

#define MAGIC	UINT64CONST(0x6c655f6a6f627301)

typedef struct Newest
{
	pg_atomic_uint32 handle;	/* the newest snapshot's */
} Newest;

static Newest *newest = NULL;

Size
le_job_snapshot_size(void)
{
	return sizeof(Newest);
}

void
le_job_snapshot_init(bool found, void *where)
{
	newest = where;
	if (!found)
		pg_atomic_init_u32(&newest->handle, NONE);
}

/* ---- in the worker ---- */

/* NONE: out of segments. */
static dsm_handle
make_snapshot(const LeJobRow *rows, int nrows, le_time as_of)
{
	Size		size = add_size(offsetof(JobSnapshot, rows),
								mul_size(nrows, sizeof(LeJobRow)));
	dsm_segment *segment = dsm_create(size, DSM_CREATE_NULL_IF_MAXSEGMENTS);
	dsm_handle	handle;
	JobSnapshot *snapshot;

	if (segment == NULL)
		return NONE;
	snapshot = dsm_segment_address(segment);
	snapshot->magic = MAGIC;
	snapshot->as_of = as_of;
	snapshot->nrows = nrows;
	if (nrows > 0)
		memcpy(snapshot->rows, rows, nrows * sizeof(LeJobRow));
	handle = dsm_segment_handle(segment);
	dsm_pin_segment(segment);
	dsm_detach(segment);
	return handle;
}

void
le_job_snapshot_put(const LeJobRow *rows, int nrows, le_time as_of)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile dsm_handle handle = NONE;
	dsm_handle	old;

	Assert(nrows >= 0);
	PG_TRY();
	{
		handle = make_snapshot(rows, nrows, as_of);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		EmitErrorReport();
		FlushErrorState();
	}
	PG_END_TRY();
	old = pg_atomic_exchange_u32(&newest->handle, handle);
	if (old != NONE)
		dsm_unpin_segment(old);
}

/* ---- reading ---- */

static void
copy_snapshot(const JobSnapshot *snapshot, LeJobRow **rows, int *nrows,
			  le_time *as_of)
{
	Size		size = mul_size(snapshot->nrows, sizeof(LeJobRow));

	*rows = MemoryContextAllocHuge(CurrentMemoryContext, Max(size, 1));
	memcpy(*rows, snapshot->rows, size);
	*nrows = snapshot->nrows;
	*as_of = snapshot->as_of;
}

bool
le_job_snapshot_copy(LeJobRow **rows, int *nrows, le_time *as_of)
{
	for (int i = 0; i < TRIES; i++)
	{
		dsm_handle	handle = pg_atomic_read_u32(&newest->handle);
		dsm_segment *segment = handle == NONE ? NULL : dsm_attach(handle);
		JobSnapshot *snapshot;
		bool		ours;

		if (handle == NONE)
			return false;
		if (segment == NULL)
			continue;			/* replaced meanwhile */
		snapshot = dsm_segment_address(segment);
		ours = snapshot->magic == MAGIC;
		if (ours)
			copy_snapshot(snapshot, rows, nrows, as_of);
		dsm_detach(segment);
		if (ours)
			return true;
	}
	return false;
}
