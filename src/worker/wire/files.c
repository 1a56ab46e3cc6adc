/*-------------------------------------------------------------------------
 *
 * files.c
 *		Files that settings name.
 *
 * The worker reads the file of the token itself; libcurl reads certificates
 * and the private key, with each new connection.  A FIFO or a terminal would
 * hold up its reader forever, so only regular files are opened to be read, and
 * libcurl is kept from opening others.
 *
 * All of this may run inside libcurl: nothing is allocated or thrown.
 *
 * src/worker/wire/files.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "settings.h"
#include "worker/wire/files.h"

/* Limit of a certificate file with its whole chain, and a key. */
#define MAX_PEM			(256 * 1024)

static bool
fails(char *trouble, const char *format, const char *what, const char *path)
{
	snprintf(trouble, LE_MAX_FILE_TROUBLE, format, what, path);
	return false;
}

/* -1: it cannot be opened, or is not a file that has an end. */
static int
open_regular(const char *what, const char *path, char *trouble)
{
	int			fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
	{
		(void) fails(trouble, "could not open %s file \"%s\": %m", what, path);
		return -1;
	}
	if (fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
		return fd;				/* a directory fails when it is read */
	(void) fails(trouble, "%s file \"%s\" is not a regular file", what, path);
	close(fd);
	return -1;
}

/*
 * The file's first "size" bytes, or all if there are fewer.  False: it cannot
 * be read, and "trouble", of LE_MAX_FILE_TROUBLE bytes, says why.
 */
bool
le_read_file(const char *what, const char *path, char *text, size_t size,
			 size_t *len, char *trouble)
{
	int			fd = open_regular(what, path, trouble);
	ssize_t		n = 0;

	*len = 0;
	if (fd < 0)
		return false;
	while (*len < size && (n = read(fd, text + *len, size - *len)) > 0)
		*len += n;
	if (n < 0)
		(void) fails(trouble, "could not read %s file \"%s\": %m", what, path);
	close(fd);
	return n >= 0;
}

static bool
can_be_read(const char *what, const char *path, char *trouble)
{
	char		byte;
	size_t		len;

	return path[0] == '\0' ||
		le_read_file(what, path, &byte, 1, &len, trouble);
}

/* Does a line of the file begin a private key of any kind? */
static bool
holds_key(const char *path, char *trouble)
{
	static const char mark[] = "PRIVATE KEY-----";
	char		text[4096 + sizeof(mark)];
	size_t		keep = 0;
	size_t		all = 0;
	ssize_t		n;
	bool		found = false;
	int			fd = open_regular("certificate", path, trouble);

	if (fd < 0)
		return false;
	while (!found && all < MAX_PEM && (n = read(fd, text + keep, 4096)) > 0)
	{
		size_t		len = keep + n;

		for (size_t i = 0; i + strlen(mark) <= len && !found; i++)
			found = memcmp(text + i, mark, strlen(mark)) == 0;
		keep = Min(len, strlen(mark));
		memmove(text, text + len - keep, keep);
		all += n;
	}
	explicit_bzero(text, sizeof(text));
	close(fd);
	if (!found)
		(void) fails(trouble, "%s file \"%s\" holds no private key, and \"leader_election.key_file\" is not set",
					 "certificate", path);
	return found;
}

/* The reason why the files as they are prevent TLS connections; "": no fault
 * of theirs is known. */
void
le_tls_trouble(char *trouble)
{
	trouble[0] = '\0';
	if (can_be_read("CA", le_ca_file, trouble) &&
		can_be_read("certificate", le_cert_file, trouble) &&
		can_be_read("private key", le_key_file, trouble) &&
		le_cert_file[0] != '\0' && le_key_file[0] == '\0')
		(void) holds_key(le_cert_file, trouble);
}
