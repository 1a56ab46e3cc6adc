/*-------------------------------------------------------------------------
 *
 * pastfile.c
 *		The point at which this database has left its past.
 *
 * A database that is restored from a backup, or a standby that is promoted
 * without the last transactions, lacks later commits, while the store still
 * records the runs of that time as done.  So the worker of a primary notes the
 * time of the last transaction before the restore or the promotion, and when
 * it went on from there; le_check_config() compares the records of jobs with
 * these.
 *
 * Two marks show it: the timeline, which each promotion and each recovery to a
 * target changes; and the backup label that the server was started with last,
 * for a backup whose server just recovers and stays on its timeline.  The file
 * has the marks of the last start as a primary.  It lies in the data
 * directory, so a backup has those of its original.
 *
 * The time of the last transaction is in shared memory until the server
 * restarts, and only after a recovery from an archive or a primary.
 *
 * src/worker/disk/pastfile.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "storage/fd.h"
#include "utils/timestamp.h"

#include "settings.h"
#include "shmem/events.h"
#include "shmem/leases.h"
#include "worker/base/context.h"
#include "worker/disk/pastfile.h"

#define PAST_TEMP		LE_PAST_FILE ".tmp"
#define PAST_FORMAT		"leader_election 1"

typedef struct Past
{
	uint64		system;
	TimeLineID	timeline;
	char		backup[64];		/* where the backup's log begins; "-": none */
	TimestampTz ended;			/* its last transaction; 0: not known */
	TimestampTz left;			/* 0: never, as far as is known */
} Past;

static bool
read_past(Past *past)
{
	FILE	   *file = AllocateFile(LE_PAST_FILE, PG_BINARY_R);
	unsigned long long system;
	long long	ended;
	long long	left;
	int			n;

	if (file == NULL && errno == ENOENT)
		return false;
	if (file == NULL)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", LE_PAST_FILE)));
		return false;
	}
	n = fscanf(file,
			   PAST_FORMAT "\nsystem %llu\ntimeline %u\nbackup %63s\nended %lld\nleft %lld",
			   &system, &past->timeline, past->backup, &ended, &left);
	FreeFile(file);
	past->system = system;
	past->ended = ended;
	past->left = left;
	if (n != 5)
		ereport(LOG,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("ignoring \"%s\", which is damaged", LE_PAST_FILE)));
	return n == 5;
}

static bool
write_past(const Past *past)
{
	FILE	   *file = AllocateFile(PAST_TEMP, PG_BINARY_W);
	bool		written;

	if (file == NULL)
		return false;
	errno = 0;
	fprintf(file,
			"%s\nsystem " UINT64_FORMAT "\ntimeline %u\nbackup %s\nended " INT64_FORMAT "\nleft " INT64_FORMAT "\n",
			PAST_FORMAT, past->system, past->timeline, past->backup,
			past->ended, past->left);
	written = fflush(file) == 0 && !ferror(file);
	if (!written && errno == 0)
		errno = ENOSPC;
	if (FreeFile(file) != 0)
		written = false;
	return written && durable_rename(PAST_TEMP, LE_PAST_FILE, LOG) == 0;
}

/* Without the file all is known until the server restarts. */
static void
keep_past(const Past *past)
{
	char		trouble[LE_MAX_ERROR_LEN + 1];

	if (write_past(past))
		return;
	snprintf(trouble, sizeof(trouble), "could not write file \"%s\": %s",
			 LE_PAST_FILE, strerror(errno));
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("%s", trouble),
			 errdetail("After a restart le_check_config() may not know the last transaction before the restore or the promotion.")));
	le_event(LE_EVENT_FILE_TROUBLE, NULL, 0, "%s", trouble);
}

/* The server keeps the label that it was started with. */
static void
read_label(Past *past)
{
	FILE	   *file = AllocateFile(BACKUP_LABEL_OLD, PG_BINARY_R);

	if (file == NULL ||
		fscanf(file, "START WAL LOCATION: %63s", past->backup) != 1)
		strlcpy(past->backup, "-", sizeof(past->backup));
	if (file != NULL)
		FreeFile(file);
}

static void
tell(const Past *past)
{
	char	   *ended = pstrdup(timestamptz_to_str(past->ended));

	ereport(LOG,
			(errmsg("this database was restored or promoted, on timeline %u",
					past->timeline),
			 past->ended == 0 ?
			 errdetail("The time of the last transaction before that is not known.") :
			 errdetail("The last transaction before that ended at %s.", ended),
			 errhint("le_check_config() shows which ticks are recorded as done after that transaction.")));
	pfree(ended);
}

/*
 * Is this database another than the one that the file is about?  A file of
 * another system is none, as after pg_upgrade.  Without one there is only the
 * time of the last transaction to go by.
 */
static bool
has_left(const Past *now, const Past *last)
{
	if (last == NULL)
		return now->timeline > 1 && now->ended != 0;
	return now->timeline != last->timeline ||
		strcmp(now->backup, last->backup) != 0;
}

/*
 * Once, when this server is a primary, before it leads as one: nothing tells
 * the worker of a promotion.
 */
void
le_past_look(LeWorker *w)
{
	Past		now = {0};
	Past		last = {0};
	bool		known;

	if (le_table->timeline != 0 || RecoveryInProgress())
		return;
	known = read_past(&last) && last.system == GetSystemIdentifier();
	if (!known)
		memset(&last, 0, sizeof(last));
	now.system = GetSystemIdentifier();
	now.timeline = GetWALInsertionTimeLine();
	now.ended = GetLatestXTime();
	read_label(&now);
	if (has_left(&now, known ? &last : NULL))
	{
		now.left = GetCurrentTimestamp();
		tell(&now);
	}
	else
	{
		now.ended = last.ended;
		now.left = last.left;
	}
	if (!known || now.left != last.left)
		keep_past(&now);
	le_table->past_ended = now.ended;
	le_table->past_left = now.left;
	le_table->timeline = now.timeline;
}
