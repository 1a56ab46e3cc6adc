/*-------------------------------------------------------------------------
 *
 * clonefile.c
 *		The mark of a clone's data directory, and of a standby's.
 *
 * An instance that has met its original does not lead when the original is
 * away for a while, or after a restart of its own.  So it says in its data
 * directory that it is a clone.  The original has no such file, hence its
 * backups have none.
 *
 * src/worker/disk/clonefile.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "storage/fd.h"

#include "settings.h"
#include "shmem/events.h"
#include "worker/disk/clonefile.h"

#define CLONE_TEMP		LE_CLONE_FILE ".tmp"
#define CLONE_FORMAT	"leader_election 1"

/* A damaged mark is none, but is told of. */
bool
le_clonefile_read(LeClonemark *mark)
{
	FILE	   *file = AllocateFile(LE_CLONE_FILE, PG_BINARY_R);
	unsigned long long system;
	int			n;

	if (file == NULL && errno == ENOENT)
		return false;
	if (file == NULL)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", LE_CLONE_FILE)));
		return false;
	}
	StaticAssertStmt(sizeof(mark->original) == 129 &&
					 sizeof(mark->place) == 1024,
					 "the format has the lengths of the fields");
	n = fscanf(file,
			   CLONE_FORMAT "\nsystem %llu\noriginal %128[^\n]\nplace %1023[^\n]",
			   &system, mark->original, mark->place);
	FreeFile(file);
	mark->system = system;
	if (n != 3)
		ereport(LOG,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("ignoring \"%s\", which is damaged",
						LE_CLONE_FILE)));
	return n == 3;
}

static bool
write_mark(const LeClonemark *mark)
{
	FILE	   *file = AllocateFile(CLONE_TEMP, PG_BINARY_W);
	bool		written;

	if (file == NULL)
		return false;
	errno = 0;
	fprintf(file, "%s\nsystem " UINT64_FORMAT "\noriginal %s\nplace %s\n",
			CLONE_FORMAT, mark->system, mark->original, mark->place);
	written = fflush(file) == 0 && !ferror(file);
	if (!written && errno == 0)
		errno = ENOSPC;
	if (FreeFile(file) != 0)
		written = false;
	return written && durable_rename(CLONE_TEMP, LE_CLONE_FILE, LOG) == 0;
}

/* Without the mark it steps back all the same, until a start or a reload. */
void
le_clonefile_write(const LeClonemark *mark)
{
	char		trouble[LE_MAX_ERROR_LEN + 1];

	if (write_mark(mark))
		return;
	snprintf(trouble, sizeof(trouble), "could not write file \"%s\": %s",
			 LE_CLONE_FILE, strerror(errno));
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("%s", trouble),
			 errdetail("After a restart this instance will not know that it is a clone until it meets its original again.")));
	le_event(LE_EVENT_FILE_TROUBLE, NULL, 0, "%s", trouble);
}

void
le_clonefile_remove(void)
{
	if (unlink(LE_CLONE_FILE) != 0 && errno != ENOENT)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not remove file \"%s\": %m", LE_CLONE_FILE)));
}

/*
 * Of a server in recovery: does it follow a primary?  One that is restored
 * from an archive is in recovery too, but ends it by itself, as a primary.
 */
bool
le_follows_primary(void)
{
	struct stat st;

	return stat(STANDBY_SIGNAL_FILE, &st) == 0;
}
