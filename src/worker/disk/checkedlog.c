/*-------------------------------------------------------------------------
 *
 * checkedlog.c
 *		A file of lines, with checksums that show damage.
 *
 * Data that must outlive a crash is appended to a file in the data directory,
 * a line at a time, each with its checksum.  The file is replaced by one with
 * only the present data when it is full, and after a write that failed, since
 * its contents are unknown then.
 *
 * The first line has the number of lines that were synced, and the size of the
 * file.  So a file that is damaged or cut short can be told from one whose
 * last lines a crash has spoilt, on which nobody has relied.  A write brings
 * its lines and a new first line to the disk by one flush, and a crash in it
 * may leave either without the other; so the first line promises only lines
 * that were synced before.  Only a loss of the last write cannot be noticed.
 *
 * A file that grows has its size, and so the journal of the file system,
 * flushed with each write.  So it is made with spare capacity, filled with
 * zeros, which readers pass over; a write into that costs one flush of data.
 *
 * The file is opened for each write: so a file that was removed or replaced by
 * hand is noticed, and written anew.
 *
 * src/worker/disk/checkedlog.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "port/pg_crc32c.h"
#include "storage/fd.h"

#include "settings.h"
#include "shmem/events.h"
#include "worker/disk/checkedlog.h"

/* Fixed in length, since it is written in place: lines, bytes. */
#define HEADER_FORMAT	"leader_election %s 2 %010d %010d"

/* The size is a multiple of STEP; a new file has LEAST_ROOM to spare. */
#define STEP			(16 * 1024)
#define LEAST_ROOM		(4 * 1024)

/* A larger file is none of ours. */
#define MAX_SIZE		(512 * 1024 * 1024)

static uint32
checksum(const char *text, size_t len)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, text, len);
	FIN_CRC32C(crc);
	return crc;
}

static void
append_line(StringInfo to, const char *text)
{
	appendStringInfo(to, "%s %08x\n", text, checksum(text, strlen(text)));
}

static void
append_header(StringInfo to, const char *kind, int promised, off_t size)
{
	char	   *text = psprintf(HEADER_FORMAT, kind, promised, (int) size);

	append_line(to, text);
	pfree(text);
}

/* ---- failures ---- */

/* Log each reason once, and keep it for later questions. */
void
le_log_trouble(LeCheckedLog *log, const char *format,...)
{
	char		now[sizeof(log->trouble)];
	va_list		args;

	va_start(args, format);
	vsnprintf(now, sizeof(now), format, args);
	va_end(args);
	if (strcmp(now, log->trouble) == 0)
		return;
	strlcpy(log->trouble, now, sizeof(log->trouble));
	ereport(LOG,
			(errcode(ERRCODE_IO_ERROR),
			 errmsg("%s", now),
			 errdetail("%s", log->meanwhile)));
	le_event(LE_EVENT_FILE_TROUBLE, NULL, 0, "%s", now);
}

/*
 * A function of the standard library that fails may leave errno alone, as
 * write() does after a short write.
 */
static void
failed(LeCheckedLog *log, const char *what, const char *file, int error)
{
	log->size = 0;
	errno = error != 0 ? error : ENOSPC;
	le_log_trouble(log, "could not %s file \"%s\": %m", what, file);
}

static void
succeeded(LeCheckedLog *log)
{
	if (log->trouble[0] == '\0')
		return;
	log->trouble[0] = '\0';
	ereport(LOG,
			(errmsg("file \"%s\" can be written again", log->file)));
	le_event(LE_EVENT_FILE_WRITTEN, NULL, 0, "%s", log->file);
}

/* The file is not as this node left it: move it aside, but keep it. */
bool
le_log_keep_aside(LeCheckedLog *log, const char *why, const char *counts,
				  const char *hint)
{
	char		aside[MAXPGPATH];

	snprintf(aside, sizeof(aside), "%s%s%ld", log->file, LE_DAMAGED,
			 (long) time(NULL));
	if (rename(log->file, aside) != 0)
	{
		failed(log, "rename", log->file, errno);
		return false;
	}
	ereport(LOG,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("file \"%s\" is damaged: %s", log->file, why),
			 errdetail("It is kept as \"%s\". %s", aside, counts),
			 errhint("%s", hint)));
	le_event(LE_EVENT_FILE_TROUBLE, NULL, 0,
			 "\"%s\" is damaged: %s; kept as \"%s\"", log->file, why, aside);
	return true;
}

/* ---- reading ---- */

/* Read up to the end, regardless of the reported size; 0, or errno. */
static int
read_file(const char *file, StringInfo text)
{
	int			fd = BasicOpenFile(file, O_RDONLY | PG_BINARY);
	ssize_t		n;
	int			error;

	if (fd < 0)
		return errno;
	do
	{
		enlargeStringInfo(text, STEP);
		n = read(fd, text->data + text->len, STEP);
		text->len += Max(n, 0);
	} while (n > 0 && text->len < MAX_SIZE);
	error = n < 0 ? errno : n > 0 ? EFBIG : 0;
	close(fd);
	text->data[text->len] = '\0';
	return error;
}

/* The next line behind "at", which moves on; NULL: there is none. */
static char *
next_line(const StringInfoData *text, int *at)
{
	char	   *line;

	while (*at < text->len &&
		   (text->data[*at] == '\0' || text->data[*at] == '\n'))
		++*at;
	if (*at == text->len)
		return NULL;
	line = text->data + *at;
	*at += strcspn(line, "\n");
	text->data[*at] = '\0';
	return line;
}

/* The length of the line's text; -1: the line is not as it was written. */
static int
text_length(const char *line)
{
	const char *crc = strrchr(line, ' ');

	if (crc == NULL || strlen(crc) != 9 ||
		strtoul(crc, NULL, 16) != checksum(line, crc - line))
		return -1;
	return crc - line;
}

static bool
read_header(const char *kind, const char *line, int *promised, int *size)
{
	char		found[16];

	return text_length(line) >= 0 &&
		sscanf(line, "leader_election %15s 2 %d %d", found, promised,
			   size) == 3 &&
		strcmp(found, kind) == 0;
}

/* NULL if each line that was synced is there, and whole; else the fault. */
static const char *
find_fault(const char *kind, const StringInfoData *text)
{
	int			at = 0;
	char	   *line = next_line(text, &at);
	int			promised;
	int			size;

	if (line == NULL)
		return "it is empty";
	if (!read_header(kind, line, &promised, &size))
		return "its first line is not what it should be";
	for (int n = 0; n < promised; n++)
	{
		/* zeros in between are in the place of a line */
		char	   *expected = text->data + at + 1;

		line = next_line(text, &at);
		if (line == NULL)
			return psprintf("it has %d lines of %d", n, promised);
		if (line != expected || text_length(line) < 0)
			return psprintf("line %d is not what was written", n + 2);
	}
	if (text->len < size)
		return psprintf("it has %d bytes of %d", text->len, size);
	return NULL;
}

/*
 * Read the file, or a similar one under another name, and judge it, without
 * taking its lines.  DAMAGED: "fault" is the reason.
 */
LeLogState
le_log_read(LeCheckedLog *log, const char *file, StringInfo text,
			const char **fault)
{
	int			error;

	initStringInfo(text);
	*fault = NULL;
	error = read_file(file, text);
	if (error == ENOENT)
		return LE_LOG_ABSENT;
	if (error == EISDIR)
		*fault = "it is a directory";
	else if (error != 0)
	{
		failed(log, "read", file, error);
		return LE_LOG_UNREAD;
	}
	else
		*fault = find_fault(log->kind, text);
	return *fault == NULL ? LE_LOG_WHOLE : LE_LOG_DAMAGED;
}

/* Take the lines that are whole.  False: one makes no sense all the same. */
bool
le_log_take(const LeCheckedLog *log, StringInfo text)
{
	int			at = 0;
	char	   *line;
	int			len;
	int			unused;
	bool		ok = true;

	while ((line = next_line(text, &at)) != NULL)
	{
		len = text_length(line);
		if (len < 0 || read_header(log->kind, line, &unused, &unused))
			continue;
		line[len] = '\0';
		ok = log->take(log->owner, line) && ok;
	}
	return ok;
}

/* ---- writing ---- */

void
le_log_begin(LeLogLines *lines)
{
	initStringInfo(&lines->text);
	lines->n = 0;
}

void
le_log_line(LeLogLines *lines, const char *text)
{
	append_line(&lines->text, text);
	lines->n++;
}

static bool
write_at(int fd, const StringInfoData *text, off_t at)
{
	errno = 0;
	return pg_pwrite(fd, text->data, text->len, at) == text->len;
}

/* As much spare capacity as contents, so that rewrites are rare. */
static off_t
size_for(int len)
{
	return TYPEALIGN(STEP, (off_t) len + Max(len, LEAST_ROOM));
}

/* A whole file, with spare capacity; "end" is the end of its lines. */
static StringInfo
contents(const char *kind, const LeLogLines *lines, off_t *end)
{
	StringInfo	text = makeStringInfo();
	off_t		size;

	/* the first line has a fixed length */
	append_header(text, kind, lines->n, 0);
	size = size_for(text->len + lines->text.len);
	resetStringInfo(text);
	append_header(text, kind, lines->n, size);
	appendBinaryStringInfo(text, lines->text.data, lines->text.len);
	*end = text->len;
	enlargeStringInfo(text, size - text->len);
	memset(text->data + text->len, 0, size - text->len);
	text->len = size;
	return text;
}

/* Write a new file beside the old one, and put it in place; 0, or errno. */
static int
write_file(const char *file, const StringInfoData *text, struct stat *st)
{
	char		temp[MAXPGPATH];
	int			fd;
	bool		ok;
	int			error;

	snprintf(temp, sizeof(temp), "%s.tmp", file);
	fd = BasicOpenFile(temp, O_RDWR | O_CREAT | O_TRUNC | PG_BINARY);
	ok = fd >= 0 && write_at(fd, text, 0) && pg_fsync(fd) == 0 &&
		fstat(fd, st) == 0;
	error = errno;
	if (fd >= 0)
		close(fd);
	if (ok)
	{
		ok = durable_rename(temp, file, LOG) == 0;
		error = errno;
	}
	return ok ? 0 : error != 0 ? error : ENOSPC;
}

static int
write_lines(const char *file, const char *kind, const LeLogLines *lines,
			struct stat *st, off_t *end)
{
	StringInfo	text = contents(kind, lines, end);
	int			error = write_file(file, text, st);

	pfree(text->data);
	pfree(text);
	return error;
}

/* Write only the present data; returns the number of its lines, or -1. */
static int
write_all(LeCheckedLog *log, const char *file, struct stat *st, off_t *end)
{
	LeLogLines	lines;
	int			error;

	le_log_begin(&lines);
	log->put_all(log->owner, &lines);
	error = write_lines(file, log->kind, &lines, st, end);
	pfree(lines.text.data);
	if (error != 0)
		failed(log, "write", file, error);
	return error != 0 ? -1 : lines.n;
}

/* Replace the file by one with only the present data. */
bool
le_log_rewrite(LeCheckedLog *log)
{
	struct stat st;
	off_t		end;
	int			n = write_all(log, log->file, &st, &end);

	if (n < 0)
		return false;
	log->size = st.st_size;
	log->end = end;
	log->device = st.st_dev;
	log->inode = st.st_ino;
	log->lines = log->synced = n;
	succeeded(log);
	return true;
}

/* Write the present data under another name, and leave the file alone. */
bool
le_log_copy(LeCheckedLog *log, const char *file)
{
	struct stat st;
	off_t		end;

	return write_all(log, file, &st, &end) >= 0;
}

/* Create a file without lines; 0, or errno.  Needs no worker. */
int
le_log_create(const char *file, const char *kind)
{
	LeLogLines	none;
	struct stat st;
	off_t		end;

	le_log_begin(&none);
	return write_lines(file, kind, &none, &st, &end);
}

/* Open the file as it was left; -1: it is another one by now, or gone. */
static int
open_again(const LeCheckedLog *log)
{
	int			fd = BasicOpenFile(log->file, O_RDWR | PG_BINARY);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && st.st_dev == log->device &&
		st.st_ino == log->inode && st.st_size == log->size)
		return fd;
	close(fd);
	return -1;
}

/* The new first line promises the lines that were synced before. */
static bool
write_header(int fd, const LeCheckedLog *log)
{
	StringInfoData head;
	bool		ok;

	initStringInfo(&head);
	append_header(&head, log->kind, log->synced, log->size);
	ok = write_at(fd, &head, 0);
	pfree(head.data);
	return ok;
}

/*
 * Write these lines, or if that cannot be done all present data; put_all() of
 * the caller includes them.  With "sync" they are on disk when this returns.
 * False: the contents of the file are unknown now, "trouble" says why.
 */
bool
le_log_append(LeCheckedLog *log, const LeLogLines *lines, bool sync)
{
	int			fd;
	bool		ok;
	int			error;

	if (log->end + lines->text.len > log->size || (fd = open_again(log)) < 0)
		return le_log_rewrite(log);
	ok = write_at(fd, &lines->text, log->end) &&
		(!sync || (write_header(fd, log) && pg_fdatasync(fd) == 0));
	error = errno;
	close(fd);
	if (!ok)
	{
		failed(log, "write", log->file, error);
		return false;
	}
	log->end += lines->text.len;
	log->lines += lines->n;
	if (sync)
		log->synced = log->lines;
	succeeded(log);
	return true;
}

/* Are all written lines on disk? */
bool
le_log_synced(const LeCheckedLog *log)
{
	return log->synced == log->lines;
}
