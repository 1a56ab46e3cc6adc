/*-------------------------------------------------------------------------
 *
 * events.c
 *		What happened last: the ring behind the view le_events.
 *
 * The worker writes most of it, backends what concerns their transactions.
 * No lock guards it, not even one that PostgreSQL frees when its holder dies:
 * a process that is stopped, rather than dead, would keep such a lock, and
 * the worker could then not end or renew a term for want of writing about it.
 *
 * Instead each place of the ring has a version.  A writer draws the next
 * number, which names its place, and makes the version of that place odd by
 * compare-and-swap; so there is one writer in a place at a time.  It fails if
 * somebody is in the place already, who was stopped there while all others
 * went once round the ring, or if somebody has been there with a higher
 * number: then the event is dropped, and its number is missing.  A writer
 * never waits and never tries twice.
 *
 * A reader takes a place only if its version says that the number looked for
 * was written completely, before and after the copy.  A writer that is
 * stopped in the middle makes one place unreadable until it goes on; one that
 * is killed there takes the whole instance into a crash restart, which starts
 * with an empty ring.  Nothing else ends a writer in the middle: interrupts
 * are not served there, and nothing can fail.
 *
 * src/shmem/events.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/shmem.h"

#include "settings.h"
#include "shmem/events.h"

typedef struct Place
{
	pg_atomic_uint64 version;	/* 0: never used; odd: being written */
	LeEvent	record;
} Place;

typedef struct Ring
{
	pg_atomic_uint64 drawn;		/* numbers drawn so far */
	int			nplaces;
	Place		places[FLEXIBLE_ARRAY_MEMBER];
} Ring;

static Ring *ring = NULL;

#define BEING_WRITTEN(number)	(2 * (number) - 1)
#define WRITTEN(number)			(2 * (number))

Size
le_events_size(void)
{
	return add_size(offsetof(Ring, places),
					mul_size(le_max_events, sizeof(Place)));
}

void
le_events_init(bool found, void *where)
{
	ring = where;
	if (found)
		return;
	memset(where, 0, le_events_size());
	pg_atomic_init_u64(&ring->drawn, 0);
	ring->nplaces = le_max_events;
	for (int i = 0; i < ring->nplaces; i++)
		pg_atomic_init_u64(&ring->places[i].version, 0);
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

static Place *
place_of(uint64 number)
{
	return &ring->places[number % ring->nplaces];
}

/* Nothing in here may fail or be interrupted once the place is entered. */
static void
write_record(LeEvent *record)
{
	Place	   *place;
	uint64		version;

	record->number = pg_atomic_add_fetch_u64(&ring->drawn, 1);
	place = place_of(record->number);
	version = pg_atomic_read_u64(&place->version);
	if ((version & 1) != 0 || version > WRITTEN(record->number) ||
		!pg_atomic_compare_exchange_u64(&place->version, &version,
										BEING_WRITTEN(record->number)))
		return;
	place->record = *record;
	pg_write_barrier();
	pg_atomic_write_u64(&place->version, WRITTEN(record->number));
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
	write_record(&record);
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
	return pg_atomic_read_u64(&ring->drawn);
}

/*
 * False: it was dropped, has been written over, or is being written right
 * now; and of a number that is higher than any drawn.
 */
bool
le_copy_event(uint64 number, LeEvent *copy)
{
	Place	   *place = place_of(number);

	if (pg_atomic_read_u64(&place->version) != WRITTEN(number))
		return false;
	pg_read_barrier();
	*copy = place->record;
	pg_read_barrier();
	return pg_atomic_read_u64(&place->version) == WRITTEN(number);
}
