/*-------------------------------------------------------------------------
 *
 * full_disk.c
 *		A disk that is full under some files, for any user, without a disk.
 *
 * Preloaded (LD_PRELOAD) into an instance.  While the file that FULL_DISK
 * names exists, writes to files whose path contains one of its lines fail with
 * ENOSPC after their first half, as on a real disk with some bytes left.
 * Files can still be made, renamed, removed and read.
 *
 * Only files whose path contains "leader_election." are looked at, so that
 * the server is not slowed down. stdio's own writes do not pass through this
 * library, so it empties stdio's buffers itself.
 *
 * test/faults/full_disk.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OURS		"leader_election."
#define MAX_FD		4096
#define ERROR_SEEN	0x0020		/* glibc's _IO_ERR_SEEN, for ferror() */

/* The original function of that name, behind ours. */
#define NEXT(name)	((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

static bool marked[MAX_FD];

static void
mark(int fd, const char *path)
{
	if (fd >= 0 && fd < MAX_FD)
		marked[fd] = strstr(path, OURS) != NULL;
}

/* By system calls, to bypass this library. */
static bool
full_for(const char *path)
{
	const char *control = getenv("FULL_DISK");
	char		lines[1024];
	char	   *rest = lines;
	char	   *line;
	long		fd;
	long		len;

	fd = control ? syscall(SYS_openat, AT_FDCWD, control, O_RDONLY) : -1;
	if (fd < 0)
		return false;
	len = syscall(SYS_read, fd, lines, sizeof(lines) - 1);
	syscall(SYS_close, fd);
	lines[len > 0 ? len : 0] = '\0';
	while ((line = strsep(&rest, "\n")) != NULL)
		if (line[0] != '\0' && strstr(path, line) != NULL)
			return true;
	return false;
}

/* The descriptor may belong to another file since it was marked. */
static bool
full(int fd)
{
	char		link[64];
	char		path[1024];
	ssize_t		len;
	int			saved = errno;
	bool		result = false;

	if (fd >= 0 && fd < MAX_FD && marked[fd])
	{
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		len = readlink(link, path, sizeof(path) - 1);
		path[len > 0 ? len : 0] = '\0';
		result = strstr(path, OURS) != NULL && full_for(path);
	}
	errno = saved;
	return result;
}

static ssize_t
write_half(int fd, const void *buf, size_t len)
{
	if (len > 1)
		return syscall(SYS_write, fd, buf, len / 2);
	errno = ENOSPC;
	return -1;
}

#define OPEN(name) \
int \
name(const char *path, int flags, ...) \
{ \
	mode_t		mode = 0; \
	va_list		arguments; \
	int			fd; \
	\
	if (flags & (O_CREAT | O_TMPFILE)) \
	{ \
		va_start(arguments, flags); \
		mode = va_arg(arguments, mode_t); \
		va_end(arguments); \
	} \
	fd = NEXT(name) (path, flags, mode); \
	mark(fd, path); \
	return fd; \
}

OPEN(open)
OPEN(open64)

#define FOPEN(name) \
FILE * \
name(const char *path, const char *mode) \
{ \
	FILE	   *file = NEXT(name) (path, mode); \
	\
	if (file != NULL) \
		mark(fileno(file), path); \
	return file; \
}

FOPEN(fopen)
FOPEN(fopen64)

ssize_t
write(int fd, const void *buf, size_t len)
{
	return full(fd) ? write_half(fd, buf, len) : NEXT(write) (fd, buf, len);
}

static ssize_t
pwrite_half(int fd, const void *buf, size_t len, off64_t offset)
{
	if (len > 1)
		return syscall(SYS_pwrite64, fd, buf, len / 2, offset);
	errno = ENOSPC;
	return -1;
}

ssize_t
pwrite(int fd, const void *buf, size_t len, off_t offset)
{
	return full(fd) ? pwrite_half(fd, buf, len, offset) :
		NEXT(pwrite) (fd, buf, len, offset);
}

ssize_t
pwrite64(int fd, const void *buf, size_t len, off64_t offset)
{
	return full(fd) ? pwrite_half(fd, buf, len, offset) :
		NEXT(pwrite64) (fd, buf, len, offset);
}

/* Half of the buffer's content is lost, as after any error. */
static int
spill(FILE *file)
{
	size_t		pending = __fpending(file);

	if (pending == 0)
		return 0;
	(void) write_half(fileno(file), file->_IO_write_base, pending);
	__fpurge(file);
	file->_flags |= ERROR_SEEN;
	errno = ENOSPC;
	return EOF;
}

int
fflush(FILE *file)
{
	if (file != NULL && full(fileno(file)))
		return spill(file);
	return NEXT(fflush) (file);
}

int
fclose(FILE *file)
{
	int			spilt = full(fileno(file)) ? spill(file) : 0;
	int			closed = NEXT(fclose) (file);

	if (spilt == 0)
		return closed;
	errno = ENOSPC;
	return EOF;
}

size_t
fwrite(const void *data, size_t size, size_t n, FILE *file)
{
	if (full(fileno(file)) &&
		__fpending(file) + size * n >= __fbufsize(file) &&
		__fbufsize(file) > 0)
	{
		(void) spill(file);
		file->_flags |= ERROR_SEEN;
		errno = ENOSPC;
		return 0;
	}
	return NEXT(fwrite) (data, size, n, file);
}
