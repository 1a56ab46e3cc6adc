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

/* The first private key of a file, which is the one that TLS takes. */
typedef enum Key
{
	KEY_NONE, KEY_BEGUN, KEY_PLAIN, KEY_ENCRYPTED
} Key;

/*
 * Newer keys say in their first line that they are encrypted, older ones in
 * their second.
 */
static Key
with_line(Key before, const char *line)
{
	static const char kind[] = "PRIVATE KEY-----";
	static const char by_pass_phrase[] = "Proc-Type: 4,ENCRYPTED";

	if (before == KEY_BEGUN)
		return strncmp(line, by_pass_phrase, strlen(by_pass_phrase)) == 0 ?
			KEY_ENCRYPTED : KEY_PLAIN;
	if (strstr(line, kind) == NULL)
		return KEY_NONE;
	return strstr(line, "ENCRYPTED PRIVATE KEY") != NULL ? KEY_ENCRYPTED :
		KEY_BEGUN;
}

static Key
key_in(int fd)
{
	char		text[4096];
	char		line[128];		/* longer ones are of no interest */
	size_t		len = 0;
	size_t		all = 0;
	ssize_t		n;
	Key			key = KEY_NONE;

	while (key <= KEY_BEGUN && all < MAX_PEM &&
		   (n = read(fd, text, sizeof(text))) > 0)
	{
		for (ssize_t i = 0; i < n && key <= KEY_BEGUN; i++)
		{
			if (text[i] != '\n' && len < sizeof(line) - 1)
				line[len++] = text[i];
			if (text[i] != '\n')
				continue;
			line[len] = '\0';
			key = with_line(key, line);
			len = 0;
		}
		all += n;
	}
	line[len] = '\0';
	if (key <= KEY_BEGUN)
		key = with_line(key, line);
	explicit_bzero(text, sizeof(text));
	explicit_bzero(line, sizeof(line));
	return key;
}

/*
 * Can the private key be used?  Nobody can be asked for its pass phrase.  A
 * key file without a key is left to the TLS library: it knows more kinds.
 */
static bool
has_usable_key(char *trouble)
{
	bool		apart = le_key_file[0] != '\0';
	const char *what = apart ? "private key" : "certificate";
	const char *path = apart ? le_key_file : le_cert_file;
	int			fd = open_regular(what, path, trouble);
	Key			key;

	if (fd < 0)
		return false;
	key = key_in(fd);
	close(fd);
	if (key == KEY_ENCRYPTED)
		return fails(trouble, apart ?
					 "the key in %s file \"%s\" is encrypted: \"leader_election.key_file\" takes only one without a pass phrase" :
					 "the key in %s file \"%s\" is encrypted: \"leader_election.cert_file\" takes only one without a pass phrase",
					 what, path);
	if (key == KEY_NONE && !apart)
		return fails(trouble, "%s file \"%s\" holds no private key, and \"leader_election.key_file\" is not set",
					 what, path);
	return true;
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
		le_cert_file[0] != '\0')
		(void) has_usable_key(trouble);
}
