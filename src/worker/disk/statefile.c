/*-------------------------------------------------------------------------
 *
 * statefile.c
 *		The store session that this data directory's node had last.
 *
 * After a restart, the terms of the previous incarnation need not be waited
 * out: the server that believed in them is certainly gone, since PostgreSQL
 * lets only one server run on a data directory.  But that conclusion holds for
 * this directory only, not for a copy of it, whose original may well be alive.
 * So the file carries marks that a copy cannot have: its own device and inode
 * number, the directory's path, and the boot of the machine.
 *
 * It lies in pg_stat_tmp, whose contents pg_basebackup leaves out.
 *
 * src/worker/disk/statefile.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/file_perm.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/memutils.h"

#include "settings.h"
#include "shmem/events.h"
#include "worker/disk/statefile.h"

#define STATE_DIR		"pg_stat_tmp"
#define STATE_FILE		STATE_DIR "/leader_election.session"
#define STATE_TEMP		STATE_DIR "/leader_election.session.tmp"
#define STATE_FORMAT	"leader_election 1"

/* Marks of the original alone. */
typedef struct Identity
{
	char		boot_id[64];
	unsigned long long device;
	unsigned long long inode;
	char		path[MAXPGPATH];
} Identity;

struct LeStateFile
{
	char		trouble[LE_MAX_ERROR_LEN + 1];	/* "": the last write succeeded */
};

LeStateFile *
le_statefile_new(void)
{
	return MemoryContextAllocZero(TopMemoryContext, sizeof(LeStateFile));
}

static bool
identify(int fd, Identity *id)
{
	struct stat st;
	FILE	   *boot;

	memset(id, 0, sizeof(*id));
	boot = AllocateFile("/proc/sys/kernel/random/boot_id", "r");
	if (boot == NULL)
		return false;
	if (fgets(id->boot_id, sizeof(id->boot_id), boot) == NULL)
		id->boot_id[0] = '\0';
	FreeFile(boot);
	id->boot_id[strcspn(id->boot_id, "\n")] = '\0';
	if (id->boot_id[0] == '\0' || fstat(fd, &st) != 0)
		return false;
	id->device = st.st_dev;
	id->inode = st.st_ino;
	strlcpy(id->path, DataDir, sizeof(id->path));
	return true;
}

/* A word for an empty string, so that each line has one. */
static const char *
shown(const char *s)
{
	return s[0] == '\0' ? "-" : s;
}

static void
unshow(char *s)
{
	if (strcmp(s, "-") == 0)
		s[0] = '\0';
}

static bool
write_contents(FILE *file, const LePredecessor *p)
{
	Identity	id;

	if (!identify(fileno(file), &id))
		return false;
	fprintf(file,
			"%s\nboot %s\nfile %llu %llu\nsession %s\nincarnation %s\nlease_ms %d\nprefix %s\ndatacenter %s\npath %s\n",
			STATE_FORMAT, id.boot_id, id.device, id.inode,
			p->session, p->incarnation, (int) (p->lease / LE_MSEC),
			shown(p->namespace.prefix), shown(p->namespace.part), id.path);
	return fflush(file) == 0 && !ferror(file);
}

/* 0, or the errno of the first step that failed. */
static int
replace_file(const LePredecessor *session)
{
	FILE	   *file = AllocateFile(STATE_TEMP, PG_BINARY_W);
	int			error = 0;

	if (file == NULL)
		return errno;
	errno = 0;
	if (!write_contents(file, session))
		error = errno != 0 ? errno : ENOSPC;
	if (FreeFile(file) != 0 && error == 0)
		error = errno;
	if (error == 0 && rename(STATE_TEMP, STATE_FILE) != 0)
		error = errno;
	return error;
}

/*
 * Remember the session before it holds anything.  A failure costs the next
 * incarnation a wait, so it is reported and no more.  Nor is the file synced:
 * after a reboot it counts for nothing.
 */
void
le_statefile_write(LeStateFile *statefile, const LePredecessor *session)
{
	statefile->trouble[0] = '\0';
	if (mkdir(STATE_DIR, pg_dir_create_mode) != 0 && errno != EEXIST)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not create directory \"%s\": %m", STATE_DIR)));
	errno = replace_file(session);
	if (errno == 0)
		return;
	snprintf(statefile->trouble, sizeof(statefile->trouble),
			 "could not write file \"%s\": %m", STATE_FILE);
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("%s", statefile->trouble),
			 errdetail("After a restart this node will wait for its own lease to run out.")));
	le_event(LE_EVENT_FILE_TROUBLE, NULL, 0, "%s", statefile->trouble);
}

/* The reason why the session could not be remembered; "" if it could. */
const char *
le_statefile_trouble(LeStateFile *statefile)
{
	return statefile->trouble;
}

static bool
read_contents(FILE *file, LePredecessor *p)
{
	Identity	now;
	Identity	then = {0};
	int			lease_ms;

	memset(p, 0, sizeof(*p));
	if (!identify(fileno(file), &now) ||
		fscanf(file,
			   STATE_FORMAT "\nboot %63s\nfile %llu %llu\nsession %36s\nincarnation %32s\nlease_ms %d\nprefix %200s\ndatacenter %255s\npath %1023[^\n]",
			   then.boot_id, &then.device, &then.inode, p->session,
			   p->incarnation, &lease_ms, p->namespace.prefix,
			   p->namespace.part, then.path) != 9)
		return false;
	p->lease = lease_ms * LE_MSEC;
	unshow(p->namespace.prefix);
	unshow(p->namespace.part);
	return strcmp(then.boot_id, now.boot_id) == 0 &&
		then.device == now.device && then.inode == now.inode &&
		strcmp(then.path, now.path) == 0;
}

/*
 * The session of this node's previous incarnation, if it certainly was this
 * very data directory's.
 */
bool
le_statefile_read(LePredecessor *session)
{
	FILE	   *file = AllocateFile(STATE_FILE, PG_BINARY_R);
	bool		ours;

	if (file == NULL)
		return false;
	ours = read_contents(file, session);
	FreeFile(file);
	if (!ours)
		ereport(LOG,
				(errmsg("ignoring \"%s\", which was not written by this data directory since the machine was started",
						STATE_FILE),
				 errdetail("Terms of the node that wrote it are waited for, not ended.")));
	return ours;
}

void
le_statefile_remove(void)
{
	(void) unlink(STATE_FILE);
}
