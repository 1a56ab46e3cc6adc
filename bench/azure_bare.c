/*-------------------------------------------------------------------------
 *
 * azure_bare.c
 *		The store azure's requests with nothing around them: by libcurl, over
 *		one connection, in one process.
 *
 *		azure_bare statements N | handoff N | crash N
 *
 * statements: to acquire (HEAD, lease, metadata), to renew, to release, N
 * times.  handoff, crash: a lease is released, or abandoned, at a random time
 * between two polls of the waiter, which polls every two seconds; how long
 * until the waiter has it?  The container's URL is AZURE_URL in the
 * environment, its SAS AZURE_SAS.
 *
 * bench/azure_bare.c
 *
 *-------------------------------------------------------------------------
 */
#include <curl/curl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_GAP	2.0			/* s, as azure_poll_interval */
#define BLOB		"bare/blob"

static const char *const ids[] = {
	"00000000-0000-4000-8000-00000000000a",
	"00000000-0000-4000-8000-00000000000b"
};

static CURL *curl;
static char etag[128];
static char state[32];			/* the lease's */

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void
wait_for(double seconds)
{
	if (seconds > 0)
		usleep((useconds_t) (seconds * 1e6));
}

/* The header's value, if the line has this header. */
static void
take(const char *line, size_t len, const char *name, char *value, size_t size)
{
	size_t		n = strlen(name);

	if (len <= n || curl_strnequal(line, name, n) == 0)
		return;
	for (line += n, len -= n; len > 0 && *line == ' '; line++)
		len--;
	while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == '\n'))
		len--;
	snprintf(value, size, "%.*s", (int) len, line);
}

static size_t
take_header(char *line, size_t size, size_t n, void *arg)
{
	(void) arg;
	take(line, size * n, "ETag:", etag, sizeof(etag));
	take(line, size * n, "x-ms-lease-state:", state, sizeof(state));
	return size * n;
}

static size_t
drop_body(char *body, size_t size, size_t n, void *arg)
{
	(void) body;
	(void) arg;
	return size * n;
}

/* "headers" are lines; returns the status. */
static long
request(const char *method, const char *query, const char *headers)
{
	char		url[2048];
	char		line[512];
	struct curl_slist *list = NULL;
	long		status = 0;

	snprintf(url, sizeof(url), "%s/" BLOB "?%s%s%s", getenv("AZURE_URL"),
			 query, query[0] ? "&" : "", getenv("AZURE_SAS"));
	list = curl_slist_append(list, "x-ms-version: 2021-12-02");
	list = curl_slist_append(list, "Content-Type:");
	while (*headers != '\0')
	{
		size_t		len = strcspn(headers, "\n");

		snprintf(line, sizeof(line), "%.*s", (int) len, headers);
		list = curl_slist_append(list, line);
		headers += len + (headers[len] == '\n');
	}
	curl_easy_reset(curl);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop_body);
	curl_easy_setopt(curl, CURLOPT_TCP_NODELAY, 1L);
	if (strcmp(method, "HEAD") == 0)
		curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
	else
	{
		curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, 0L);
		curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, "");
	}
	if (curl_easy_perform(curl) == CURLE_OK)
		curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	curl_slist_free_all(list);
	return status;
}

static void
expect(const char *what, long status, long wanted)
{
	if (status == wanted)
		return;
	fprintf(stderr, "azure_bare: could not %s: HTTP %ld\n", what, status);
	exit(1);
}

/* The store's three requests, or two if the caller has polled. */
static void
acquire(const char *id, bool looked)
{
	char		headers[512];

	if (!looked)
		expect("look", request("HEAD", "", ""), 200);
	snprintf(headers, sizeof(headers),
			 "x-ms-lease-action: acquire\nx-ms-lease-duration: 15\n"
			 "x-ms-proposed-lease-id: %s\nIf-Match: %s", id, etag);
	expect("acquire", request("PUT", "comp=lease", headers), 201);
	snprintf(headers, sizeof(headers),
			 "x-ms-lease-id: %s\nIf-Match: %s\nx-ms-meta-le_proto: 1\n"
			 "x-ms-meta-le_token: 1\nx-ms-meta-le_attempt: %s", id, etag, id);
	expect("stamp", request("PUT", "comp=metadata", headers), 200);
}

static void
lease(const char *action, const char *id)
{
	char		headers[256];

	snprintf(headers, sizeof(headers),
			 "x-ms-lease-action: %s\nx-ms-lease-id: %s", action, id);
	expect(action, request("PUT", "comp=lease", headers), 200);
}

static int
compare(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return x < y ? -1 : x > y;
}

static void
report(const char *what, double *took, int n)
{
	qsort(took, n, sizeof(double), compare);
	printf("  %-11s median %.1f ms, p99 %.1f ms, max %.1f ms (%d)\n", what,
		   took[(n - 1) / 2] * 1e3, took[(n - 1) * 99 / 100] * 1e3,
		   took[n - 1] * 1e3, n);
}

static void
statements(int n)
{
	double	   *took[3];
	const char *const names[] = {"acquire", "renew", "release"};

	for (int k = 0; k < 3; k++)
		took[k] = calloc(n, sizeof(double));
	for (int i = 0; i < n; i++)
	{
		double		t[4];

		t[0] = now();
		acquire(ids[i % 2], false);
		t[1] = now();
		lease("renew", ids[i % 2]);
		t[2] = now();
		lease("release", ids[i % 2]);
		t[3] = now();
		for (int k = 0; k < 3; k++)
			took[k][i] = t[k + 1] - t[k];
	}
	for (int k = 0; k < 3; k++)
		report(names[k], took[k], n);
}

/* The waiter polls until the lease is free, and takes it. */
static double
await(double first_look, double from)
{
	for (double at = first_look;; at += LOOK_GAP)
	{
		wait_for(at - now());
		expect("look", request("HEAD", "", ""), 200);
		if (strcmp(state, "available") == 0 || strcmp(state, "expired") == 0)
			break;
	}
	acquire(ids[1], true);
	return now() - from;
}

static void
changes(int n, bool crash)
{
	double	   *took = calloc(n, sizeof(double));

	for (int i = 0; i < n; i++)
	{
		/* renewed up to 5 s before it is abandoned */
		double		idle = crash ? 5.0 * rand() / RAND_MAX : 0;
		double		look;
		double		from;

		acquire(ids[0], false);
		look = now() + LOOK_GAP * rand() / RAND_MAX;
		wait_for(idle);
		from = now();
		if (!crash)
			lease("release", ids[0]);
		while (look < from)
			look += LOOK_GAP;
		took[i] = await(look, from);
		lease("release", ids[1]);
	}
	report(crash ? "crash" : "handoff", took, n);
}

int
main(int argc, char **argv)
{
	int			n = argc == 3 ? atoi(argv[2]) : 0;
	long		status;

	if (n < 1 || getenv("AZURE_URL") == NULL || getenv("AZURE_SAS") == NULL)
	{
		fprintf(stderr, "usage: azure_bare statements|handoff|crash N\n");
		return 1;
	}
	srand((unsigned) getpid());
	curl_global_init(CURL_GLOBAL_DEFAULT);
	curl = curl_easy_init();
	status = request("PUT", "", "x-ms-blob-type: BlockBlob\n"
					 "If-None-Match: *");
	if (status != 409)
		expect("create a blob", status, 201);
	if (strcmp(argv[1], "statements") == 0)
		statements(n);
	else
		changes(n, strcmp(argv[1], "crash") == 0);
	curl_easy_cleanup(curl);
	return 0;
}
