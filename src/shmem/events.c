/*-------------------------------------------------------------------------
 *
 * events.c
 *		The last events: the rings behind the view le_events.
 *
 * The worker writes most events, backends those of their transactions; nobody
 * waits (ring.c).  Runs of jobs have a ring of their own: one job a second
 * would push out the events that explain a change of leader.  For the same
 * reason, a store that fails and returns repeatedly has one pair of events
 * with a count.
 *
 * src/shmem/events.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "utils/timestamp.h"

#include "settings.h"
#include "shmem/events.h"
#include "shmem/ring.h"

typedef struct Rings
{
	pg_atomic_uint64 numbers;	/* drawn so far, for all rings */
	char		rings[FLEXIBLE_ARRAY_MEMBER];
} Rings;

static Rings *rings = NULL;

/* The worker's: the last time that the store went, and came back. */
typedef struct Outage
{
	LeEvent		event;
	uint64		entry;			/* 0: none */
	TimestampTz first;
	int			times;
} Outage;

static Outage down,
			up;

static LeRing *
ring_of(LeEventRing of)
{
	return (LeRing *) ((char *) rings + MAXALIGN(offsetof(Rings, rings)) +
					   of * le_ring_size(le_max_events, sizeof(LeEvent)));
}

Size
le_events_size(void)
{
	return add_size(MAXALIGN(offsetof(Rings, rings)),
					mul_size(LE_NEVENTRINGS,
							 le_ring_size(le_max_events, sizeof(LeEvent))));
}

void
le_events_init(bool found, void *where)
{
	rings = where;
	down.entry = up.entry = 0;
	if (found)
		return;
	pg_atomic_init_u64(&rings->numbers, 0);
	for (int i = 0; i < LE_NEVENTRINGS; i++)
		le_ring_init(ring_of(i), le_max_events, sizeof(LeEvent));
}

static LeEventRing
ring_for(LeEventKind what)
{
	return what >= LE_EVENT_JOB_MISSED ? LE_RING_JOBS :
		what >= LE_EVENT_FENCE_ABORTED ? LE_RING_RUNS : LE_RING_TERMS;
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
		[LE_EVENT_CLONE] = "clone",
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
		[LE_EVENT_JOB_AHEAD] = "job ahead",
		[LE_EVENT_JOB_LOST] = "job lost",
	};

	return names[what];
}

/* Text of any length into the detail, not cut in the middle of a character. */
static void
set_detail(LeEvent *record, const char *text)
{
	memset(record->detail, 0, sizeof(record->detail));
	memcpy(record->detail, text,
		   pg_encoding_mbcliplen(PG_UTF8, text, strlen(text),
								 LE_MAX_EVENT_DETAIL));
}

static uint64
append_event(LeEvent *record)
{
	LeRing	   *ring = ring_of(ring_for(record->what));
	uint64		entry = le_ring_draw(ring);

	record->number = pg_atomic_add_fetch_u64(&rings->numbers, 1);
	le_ring_write(ring, entry, record);
	return entry;
}

/* Is this the newest event in the ring of terms? */
static bool
is_newest(const Outage *outage)
{
	return outage->entry != 0 &&
		outage->entry == le_ring_newest(ring_of(LE_RING_TERMS));
}

/* A repeated event takes the place, and the number, of the last one. */
static void
repeat(Outage *outage, const LeEvent *record)
{
	char		text[2 * LE_MAX_EVENT_DETAIL];
	uint64		number = outage->event.number;

	outage->event = *record;
	outage->event.number = number;
	outage->times++;
	snprintf(text, sizeof(text), "%d times since %s%s%s", outage->times,
			 timestamptz_to_str(outage->first),
			 record->detail[0] != '\0' ? ": " : "", record->detail);
	set_detail(&outage->event, text);
	le_ring_write(ring_of(LE_RING_TERMS), outage->entry, &outage->event);
}

static void
begin_outage(Outage *outage, const LeEvent *record)
{
	outage->event = *record;
	outage->entry = append_event(&outage->event);
	outage->first = record->at;
	outage->times = 1;
}

/*
 * The store fails, or comes back.  Merge this with the last such event if that
 * is recent and no other event came in between; the last "store up" event is
 * then hidden during the outage.
 */
static void
note_store(LeEvent *record)
{
	if (record->what == LE_EVENT_STORE_UP)
	{
		if (is_newest(&up) && up.event.hidden)
			repeat(&up, record);
		else
			begin_outage(&up, record);
		return;
	}
	if (is_newest(&up) && !up.event.hidden && up.entry == down.entry + 1 &&
		down.event.what == record->what &&
		strcmp(down.event.election, record->election) == 0 &&
		record->at - up.event.at < LE_REPEATED_WITHIN)
	{
		up.event.hidden = true;
		le_ring_write(ring_of(LE_RING_TERMS), up.entry, &up.event);
		repeat(&down, record);
	}
	else
		begin_outage(&down, record);
}

static void pg_attribute_printf(5, 0)
record_event(const char *node, LeEventKind what, const char *election,
			 uint64 token, const char *detail, va_list args)
{
	LeEvent		record = {0};
	char		text[2 * LE_MAX_EVENT_DETAIL] = "";

	if (rings == NULL)
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
	set_detail(&record, text);
	if (what == LE_EVENT_STORE_DOWN || what == LE_EVENT_STORE_REFUSED ||
		what == LE_EVENT_STORE_UP)
		note_store(&record);
	else
		append_event(&record);
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
le_events_newest(LeEventRing of)
{
	return le_ring_newest(ring_of(of));
}

uint64
le_events_oldest(LeEventRing of)
{
	return le_ring_oldest(ring_of(of));
}

/*
 * False: it was dropped, was overwritten, or is being written right now, or
 * the entry is higher than any drawn.
 */
bool
le_copy_event(LeEventRing of, uint64 entry, LeEvent *copy)
{
	return le_ring_copy(ring_of(of), entry, copy);
}

static void
read_head(LeEventReader *reader, int of)
{
	LeEvent    *head = &reader->heads[of];

	do
	{
		if (reader->next[of] > reader->newest[of])
		{
			head->number = 0;
			return;
		}
	} while (!le_copy_event(of, reader->next[of]++, head) || head->hidden);
}

void
le_begin_events(LeEventReader *reader)
{
	for (int i = 0; i < LE_NEVENTRINGS; i++)
		reader->newest[i] = le_events_newest(i);
	for (int i = 0; i < LE_NEVENTRINGS; i++)
	{
		reader->next[i] = le_events_oldest(i);
		read_head(reader, i);
	}
}

/* The next event of all rings; false: there is none. */
bool
le_next_event(LeEventReader *reader, LeEvent *event)
{
	int			first = -1;

	for (int i = 0; i < LE_NEVENTRINGS; i++)
		if (reader->heads[i].number != 0 &&
			(first < 0 ||
			 reader->heads[i].number < reader->heads[first].number))
			first = i;
	if (first < 0)
		return false;
	*event = reader->heads[first];
	read_head(reader, first);
	return true;
}
