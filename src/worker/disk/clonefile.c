/*-------------------------------------------------------------------------
 *
 * clonefile.c
 *		The mark of a clone's data directory, the system identifiers that it
 *		has had, and the mark of a standby's.
 *
 * An instance that has met its original does not lead when the original is
 * away for a while, or after a restart of its own.  So it says in its data
 * directory that it is a clone.  The original has no such file, hence its
 * backups have none.
 *
 * Every instance notes its system identifier in another file, under those that
 * its data directory had before.  Copies have this file, too: it shows what
 * they are even after they were given another identifier, as by
 * pg_createsubscriber.
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
					 sizeof(mark->namespace) == 1024,
					 "the format has the lengths of the fields");
	n = fscanf(file,
			   CLONE_FORMAT "\nsystem %llu\noriginal %128[^\n]\nplace %1023[^\n]",
			   &system, mark->original, mark->namespace);
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
replace_file(const char *name, const char *contents)
{
	char	   *temp = psprintf("%s.tmp", name);
	FILE	   *file = AllocateFile(temp, PG_BINARY_W);
	bool		written;

	if (file == NULL)
		return false;
	errno = 0;
	fputs(contents, file);
	written = fflush(file) == 0 && !ferror(file);
	if (!written && errno == 0)
		errno = ENOSPC;
	if (FreeFile(file) != 0)
		written = false;
	return written && durable_rename(temp, name, LOG) == 0;
}

static void
write_file(const char *name, const char *contents, const char *consequence)
{
	char		trouble[LE_MAX_ERROR_LEN + 1];

	if (replace_file(name, contents))
		return;
	snprintf(trouble, sizeof(trouble), "could not write file \"%s\": %s",
			 name, strerror(errno));
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("%s", trouble),
			 errdetail("%s", consequence)));
	le_event(LE_EVENT_FILE_TROUBLE, NULL, 0, "%s", trouble);
}

/* Without the mark it steps back all the same, until a start or a reload. */
void
le_clonefile_write(const LeClonemark *mark)
{
	char	   *contents = psprintf("%s\nsystem " UINT64_FORMAT "\noriginal %s\nplace %s\n",
									CLONE_FORMAT, mark->system,
									mark->original, mark->namespace);

	write_file(LE_CLONE_FILE, contents,
			   "After a restart this instance will not know that it is a clone until it meets its original again.");
}

void
le_clonefile_remove(void)
{
	if (unlink(LE_CLONE_FILE) != 0 && errno != ENOENT)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not remove file \"%s\": %m", LE_CLONE_FILE)));
}

/* The readable part of a damaged file counts.  False: do not replace it. */
static bool
read_systems(LeSystems *systems)
{
	FILE	   *file = AllocateFile(LE_SYSTEMS_FILE, PG_BINARY_R);
	unsigned long long system;
	int			n = 0;

	if (file == NULL && errno == ENOENT)
		return true;
	if (file == NULL)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", LE_SYSTEMS_FILE)));
		return false;
	}
	if (fscanf(file, CLONE_FORMAT " system %llu", &system) == 1)
		do
			systems->ids[n++] = system;
		while (n < LE_MAX_SYSTEMS && fscanf(file, " system %llu", &system) == 1);
	if (n == 0 || (n < LE_MAX_SYSTEMS && !feof(file)))
		ereport(LOG,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("ignoring a part of \"%s\", which is damaged",
						LE_SYSTEMS_FILE)));
	FreeFile(file);
	return true;
}

static void
write_systems(const LeSystems *systems)
{
	StringInfoData contents;

	initStringInfo(&contents);
	appendStringInfoString(&contents, CLONE_FORMAT "\n");
	for (int i = 0; i < LE_MAX_SYSTEMS && systems->ids[i] != 0; i++)
		appendStringInfo(&contents, "system " UINT64_FORMAT "\n",
						 systems->ids[i]);
	write_file(LE_SYSTEMS_FILE, contents.data,
			   "A copy of this data directory that is given another system identifier will not be known for a copy.");
}

/* The identifiers of this data directory so far.  A new one is noted. */
void
le_clonefile_systems(LeSystems *systems)
{
	uint64		present = GetSystemIdentifier();
	bool		replaceable = read_systems(systems);

	if (systems->ids[0] == present)
		return;
	le_add_system(systems, present);
	if (replaceable)
		write_systems(systems);
}

/*
 * Does a server in recovery follow a primary?  One that is restored
 * from an archive is in recovery too, but ends it by itself, as a primary.
 */
bool
le_follows_primary(void)
{
	struct stat st;

	return stat(STANDBY_SIGNAL_FILE, &st) == 0;
}
