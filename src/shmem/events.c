/*-------------------------------------------------------------------------
 *
 * events.c
 *		What happened last: the ring behind the view le_events.
 *
 * The worker writes most of it, backends what concerns their transactions;
 * nobody waits (ring.c).
 *
 * src/shmem/events.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"

#include "settings.h"
#include "shmem/events.h"
#include "shmem/ring.h"

static LeRing *ring = NULL;

Size
le_events_size(void)
{
	return le_ring_size(le_max_events, sizeof(LeEvent));
}

void
le_events_init(bool found, void *where)
{
	ring = where;
	if (!found)
		le_ring_init(ring, le_max_events, sizeof(LeEvent));
}

const char *
le_event_name(LeEventKind what)
{
	static const char *const names[LE_NEVENTKINDS] = {
		[LE_EVENT_ACQUIRED] = "acquired",
		[LE_EVENT_TOOK_OVER] = "took over",
		[LE_EVENT_RELEASED] = "released",
		[LE_EVENT_STEPPED_DOWN] = "stepped down",
		[LE_EVENT_NO_PROGRESS] = "no progress",
		[LE_EVENT_LOST] = "lost",
		[LE_EVENT_TOKEN_REFUSED] = "token refused",
		[LE_EVENT_SEEN] = "other leads",
		[LE_EVENT_STORE_DOWN] = "store down",
		[LE_EVENT_STORE_REFUSED] = "store refused",
		[LE_EVENT_STORE_UP] = "store up",
		[LE_EVENT_WORKER_STARTED] = "worker started",
		[LE_EVENT_FILE_TROUBLE] = "file trouble",
		[LE_EVENT_FILE_WRITTEN] = "file written",
		[LE_EVENT_FENCE_ABORTED] = "fence aborted",
		[LE_EVENT_CANCELED] = "canceled",
		[LE_EVENT_CLAIMED] = "claimed",
		[LE_EVENT_RUN_STARTED] = "run started",
		[LE_EVENT_RUN_DONE] = "run done",
		[LE_EVENT_RUN_FAILED] = "run failed",
		[LE_EVENT_PASSED_OVER] = "passed over",
		[LE_EVENT_JOB_FAILED] = "job failed",
		[LE_EVENT_JOB_MISSED] = "job missed",
		[LE_EVENT_JOB_ABANDONED] = "job abandoned",
		[LE_EVENT_JOB_LATE] = "job late",
	};

	return names[what];
}

static void pg_attribute_printf(5, 0)
record_event(const char *node, LeEventKind what, const char *election,
			 uint64 token, const char *detail, va_list args)
{
	LeEvent	record = {0};
	char		text[2 * LE_MAX_EVENT_DETAIL] = "";

	if (ring == NULL)
		return;					/* not preloaded */
	record.at = GetCurrentTimestamp();
	record.what = what;
	record.pid = MyProcPid;
	record.token = token;
	strlcpy(record.node, node, sizeof(record.node));
	if (election != NULL)
		strlcpy(record.election, election, sizeof(record.election));
	if (detail != NULL)
		vsnprintf(text, sizeof(text), detail, args);
	/* not in the middle of a character */
	memcpy(record.detail, text,
		   pg_encoding_mbcliplen(PG_UTF8, text, strlen(text),
								 LE_MAX_EVENT_DETAIL));
	record.number = le_ring_draw(ring);
	le_ring_write(ring, record.number, &record);
}

void
le_event(LeEventKind what, const char *election, uint64 token,
		 const char *detail,...)
{
	va_list		args;

	va_start(args, detail);
	record_event(le_my_name(), what, election, token, detail, args);
	va_end(args);
}

void
le_event_of(const char *node, LeEventKind what, const char *election,
			uint64 token, const char *detail,...)
{
	va_list		args;

	va_start(args, detail);
	record_event(node, what, election, token, detail, args);
	va_end(args);
}

uint64
le_events_newest(void)
{
	return le_ring_newest(ring);
}

uint64
le_events_oldest(void)
{
	return le_ring_oldest(ring);
}

/*
 * False: it was dropped, has been written over, or is being written right
 * now; and of a number that is higher than any drawn.
 */
bool
le_copy_event(uint64 number, LeEvent *copy)
{
	return le_ring_copy(ring, number, copy);
}
