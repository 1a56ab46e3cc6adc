/*-------------------------------------------------------------------------
 *
 * request.c
 *		Parts of requests and responses that several stores have.
 *
 * src/store/request.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include <arpa/inet.h>

#include "store/request.h"

/* The value of a header if the line is one of that name, else NULL. */
static const char *
header_of_line(const char *line, size_t len, const char *name)
{
	size_t		n = strlen(name);

	if (len <= n || line[n] != ':' || pg_strncasecmp(line, name, n) != 0)
		return NULL;
	for (line += n + 1; *line == ' ' || *line == '\t'; line++)
		;
	return line;
}

/*
 * The value of a header of the answer; false if there is none, or it does not
 * fit.  The last of several of one name counts.
 */
bool
le_header(const LeResponse *response, const char *name, char *value,
		  size_t size)
{
	bool		found = false;

	for (const char *line = response->http.headers;
		 line != NULL && *line != '\0';)
	{
		size_t		len = strcspn(line, "\r\n");
		const char *at = header_of_line(line, len, name);

		if (at != NULL)
		{
			size_t		n = at > line + len ? 0 : line + len - at;

			while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\t'))
				n--;
			found = n < size;
			if (found)
			{
				memcpy(value, at, n);
				value[n] = '\0';
			}
		}
		line += len;
		line += strspn(line, "\r\n");
	}
	return found;
}

/* Appends s percent-encoded but for RFC 3986's unreserved characters and those
 * that are to be kept. */
void
le_append_encoded(StringInfo path, const char *s, const char *kept)
{
	const char *plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"abcdefghijklmnopqrstuvwxyz0123456789-._~";

	for (; *s != '\0'; s++)
	{
		if (strchr(plain, *s) != NULL || strchr(kept, *s) != NULL)
			appendStringInfoChar(path, *s);
		else
			appendStringInfo(path, "%%%02X", (unsigned char) *s);
	}
}

/*
 * Does a URL lead to this machine, for any resolver?  Only whole addresses
 * count: a resolver decides on the meaning of 127.1.
 */
bool
le_is_loopback(const char *url)
{
	const char *scheme = strstr(url, "://");
	const char *host = scheme == NULL ? url : scheme + 3;
	size_t		len = strcspn(host, host[0] == '[' ? "/" : ":/");
	char		name[sizeof("127.255.255.255")];
	struct in_addr address;

	if (host[0] == '[')
		return strncmp(host, "[::1]", 5) == 0 &&
			(host[5] == '\0' || host[5] == ':' || host[5] == '/');
	if (len >= sizeof(name))
		return false;
	memcpy(name, host, len);
	name[len] = '\0';
	return strcmp(name, "localhost") == 0 ||
		(inet_pton(AF_INET, name, &address) == 1 &&
		 (ntohl(address.s_addr) >> 24) == 127);
}
