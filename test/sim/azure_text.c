/*-------------------------------------------------------------------------
 *
 * azure_text.c
 *		The text of requests to Azure Blob Storage, and of its answers.
 *
 * Requests are as store/azure.c writes them, answers as the service does;
 * store/azure.c reads them.  In between they travel as structures, with the
 * metadata unchanged.
 *
 * test/sim/azure_text.c
 *
 *-------------------------------------------------------------------------
 */
#include "azure.h"

#define META	"x-ms-meta-le_"

/* ---- reading ---- */

static void
no_sense(const LeRequest *request)
{
	fprintf(stderr, "sim: the service cannot read %s %s\n%s",
			request->http.method,
			request->http.path.data, request->http.headers.data);
	abort();
}

/* The text after the name of a field; NULL: no such field. */
const char *
blob_field(const char *meta, const char *name)
{
	size_t		len = strlen(name);

	for (; *meta != '\0'; meta += strcspn(meta, "\n") + 1)
		if (strncmp(meta, META, strlen(META)) == 0 &&
			strncmp(meta + strlen(META), name, len) == 0 &&
			meta[strlen(META) + len] == ':')
			return meta + strlen(META) + len + 2;
	return NULL;
}

/* The first 16 digits of an id tell: node and number of the attempt. */
uint64
blob_lease_id(const char *text)
{
	uint64		n = 0;

	for (int digits = 0; digits < 16; text++)
	{
		if (*text == '-')
			continue;
		n = n * 16 + (*text <= '9' ? *text - '0' : *text - 'a' + 10);
		digits++;
	}
	return n;
}

static const char *
write_id(uint64 id)
{
	static char text[LE_SESSION_LEN + 1];

	pg_snprintf(text, sizeof(text), "%08x-%04x-%04x-0000-000000000000",
				(unsigned) (id >> 32), (unsigned) (id >> 16) & 0xffff,
				(unsigned) id & 0xffff);
	return text;
}

static bool
starts(const char *text, const char *word)
{
	return strncmp(text, word, strlen(word)) == 0;
}

static const char *
behind(const char *line, const char *name)
{
	return starts(line, name) ? line + strlen(name) : NULL;
}

static BlobVerb
lease_verb(const char *action)
{
	switch (action[2])
	{
		case 'q':
			return BLOB_ACQUIRE;
		case 'n':
			return BLOB_RENEW;
		default:
			return BLOB_RELEASE;
	}
}

static void
read_headers(const char *headers, BlobRequest *b)
{
	char	   *meta = b->meta;
	const char *at;

	for (const char *line = headers; *line != '\0';)
	{
		size_t		len = strcspn(line, "\n") + 1;

		if (starts(line, META))
		{
			if (meta + len >= b->meta + META_SIZE)
				abort();
			memcpy(meta, line, len);
			meta += len;
		}
		else if ((at = behind(line, "If-Match: ")) != NULL)
			b->etag = strtoull(at + 1, NULL, 16);
		else if (starts(line, "If-None-Match: *"))
			b->absent = true;
		else if ((at = behind(line, "x-ms-lease-id: ")) != NULL)
			b->lease_id = blob_lease_id(at);
		else if ((at = behind(line, "x-ms-proposed-lease-id: ")) != NULL)
			b->proposed = blob_lease_id(at);
		else if ((at = behind(line, "x-ms-lease-duration: ")) != NULL)
			b->seconds = atoi(at);
		else if ((at = behind(line, "x-ms-lease-action: ")) != NULL)
			b->verb = lease_verb(at);
		line += len;
	}
	*meta = '\0';
}

/* "/leader_election/e0~leader" or "/leader_election~claims/e0~/j0" */
static int
blob_of_path(const char *path)
{
	const char *rest = behind(path, "/leader_election/");
	const char *claims = behind(path, "/leader_election~claims/");

	if (rest != NULL && starts(rest + 2, "~leader"))
		return election_of_name(rest);
	if (claims != NULL && starts(claims + 2, "~/"))
		return CLAIM_BLOB(election_of_name(claims), job_of_name(claims + 4));
	return -1;
}

/* The encoder notes the operation, which the text does not tell. */
void
blob_read_request(const LeRequest *request, Request *r)
{
	BlobRequest *b = &r->blob;
	const char *path = request->http.path.data;
	bool		puts = strcmp(request->http.method, "PUT") == 0;

	memset(b, 0, offsetof(BlobRequest, meta));
	b->blob = blob_of_path(path);
	if (strcmp(request->http.method, "GET") == 0)
		b->verb = BLOB_LIST;
	else if (!puts)
		b->verb = BLOB_HEAD;
	else if (strstr(path, "?comp=metadata") != NULL)
		b->verb = BLOB_METADATA;
	else
		b->verb = BLOB_PUT;
	read_headers(request->http.headers.data, b);
	if (b->blob < 0 && b->verb != BLOB_LIST)
		no_sense(request);
}

/* ---- writing ---- */

static char headers[1024];
static char body[8192];

/* As elements of XML; no character needs an escape. */
static char *
put_meta(char *to, const char *meta)
{
	for (const char *line = meta; *line != '\0';)
	{
		const char *name = line + strlen("x-ms-meta-");
		int			len = (int) strcspn(name, ":");
		const char *value = name + len + 2;
		int			value_len = (int) strcspn(value, "\n");

		to += sprintf(to, "<%.*s>%.*s</%.*s>", len, name, value_len, value,
					  len, name);
		line = value + value_len + 1;
	}
	return to;
}

static char *
put_list(const BlobAnswer *b)
{
	char	   *to = body;

	to += sprintf(to, "<?xml version=\"1.0\" encoding=\"utf-8\"?>"
				  "<EnumerationResults><Blobs>");
	for (int i = 0; i < b->nshown; i++)
	{
		const BlobShown *s = &b->shown[i];

		to += sprintf(to, "<Blob><Name>leader_election/%s~leader</Name>"
					  "<Properties><LeaseState>%s</LeaseState></Properties>"
					  "<Metadata>", name_of_election(s->blob), s->state);
		to = put_meta(to, s->meta);
		to += sprintf(to, "</Metadata></Blob>");
	}
	to += sprintf(to, "</Blobs><NextMarker/></EnumerationResults>");
	return to;
}

static char *
put_headers(const BlobAnswer *b)
{
	const BlobShown *s = &b->shown[0];
	char	   *to = headers;

	to += sprintf(to, "x-ms-request-id: 1\n");
	if (b->code != NULL)
		return to + sprintf(to, "x-ms-error-code: %s\n", b->code);
	to += sprintf(to, "x-ms-version: 2021-12-02\n");
	if (b->lease_id != 0)
		to += sprintf(to, "x-ms-lease-id: %s\n", write_id(b->lease_id));
	if (b->list || b->nshown == 0)
		return to;
	to += sprintf(to, "ETag: \"0x%llX\"\n", (unsigned long long) s->etag);
	if (s->state != NULL)
		to += sprintf(to, "x-ms-lease-state: %s\n%s", s->state, s->meta);
	return to;
}

void
blob_write_answer(const Answer *a, LeResponse *response)
{
	const BlobAnswer *b = &a->blob;

	response->http.status = b->status;
	response->body = body;
	response->http.content_type = "";
	response->http.headers = headers;
	if (b->foreign)
	{
		response->http.content_type = "text/html";
		strcpy(headers, "Server: a proxy\n");
		response->body_len = sprintf(body, "<html>Bad gateway</html>");
		return;
	}
	put_headers(b);
	response->body_len = b->list ? put_list(b) - body : 0;
}
