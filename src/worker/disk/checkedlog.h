/*-------------------------------------------------------------------------
 *
 * checkedlog.h
 *		A file of lines, with checksums that show damage.
 *
 * src/worker/disk/checkedlog.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LE_CHECKEDLOG_H
#define LE_CHECKEDLOG_H

#include <sys/stat.h>

#include "lib/stringinfo.h"

#include "shmem/leases.h"

/* Lines as they are in the file, each with its checksum. */
typedef struct LeLogLines
{
	StringInfoData text;
	int			n;
} LeLogLines;

typedef struct LeCheckedLog
{
	/* set by its owner */
	const char *file;
	const char *kind;			/* kind of data, as in the first line */
	void	   *owner;
	/* a line that was read; false: it makes no sense */
	bool		(*take) (void *owner, char *line);
	/* all present data */
	void		(*put_all) (void *owner, LeLogLines *lines);
	const char *meanwhile;		/* consequence while it cannot be used */

	/* "": it can be used */
	char		trouble[LE_MAX_ERROR_LEN + 1];

	/* private to checkedlog.c: the file as it was left */
	off_t		size;			/* 0: not known, it is to be rewritten */
	off_t		end;			/* end of the lines; padding follows */
	dev_t		device;
	ino_t		inode;
	int			lines;
	int			synced;			/* those on disk */
} LeCheckedLog;

typedef enum LeLogState
{
	LE_LOG_WHOLE,				/* each synced line is there */
	LE_LOG_ABSENT,
	LE_LOG_DAMAGED,
	LE_LOG_UNREAD				/* "trouble" says why */
} LeLogState;

/* reading */
extern LeLogState le_log_read(LeCheckedLog *log, const char *file,
							  StringInfo text, const char **fault);
extern bool le_log_take(const LeCheckedLog *log, StringInfo text);

/* writing */
extern void le_log_begin(LeLogLines *lines);
extern void le_log_line(LeLogLines *lines, const char *text);
extern bool le_log_append(LeCheckedLog *log, const LeLogLines *lines,
						  bool sync);
extern bool le_log_rewrite(LeCheckedLog *log);
extern bool le_log_synced(const LeCheckedLog *log);
extern bool le_log_copy(LeCheckedLog *log, const char *file);
extern int	le_log_create(const char *file, const char *kind);

/* failures */
extern void le_log_trouble(LeCheckedLog *log, const char *format,...)
			pg_attribute_printf(2, 3);
extern bool le_log_keep_aside(LeCheckedLog *log, const char *why,
							  const char *counts, const char *hint);

#endif							/* LE_CHECKEDLOG_H */
