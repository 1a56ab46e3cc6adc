/*
 * bench/bare.c
 *
 *		bench-bare URL pairs N
 *		bench-bare URL transactions N
 *		bench-bare URL handoffs N
 *		bench-bare URL relayed N FILE
 *		bench-bare URL relayed-handoffs N FILE
 *
 * The minimum for Consul: its lock by bare requests over warm connections of
 * libcurl.  Prints how long each took, in microseconds: "acquire US" and
 * "release US"; or "handoff US", from before one connection sends the release
 * until the other, woken from its blocking query, has the answer to its
 * acquire.
 *
 * "transactions" are the worker's requests in place of "pairs": to take the
 * key only if nobody has written it since it was read, and the worker's node
 * key exists; and to give up this very term and no later one.
 *
 * "relayed" are the same requests by another process, one for each question.
 * That process flushes a line to FILE before it answers that the key is taken.
 * This is the minimum for a worker that keeps tokens.  FILE must be on the
 * disk of the instances.
 */
#include <curl/curl.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEY "bench/bare"
#define NODE_KEYS "bench/nodes/"

/* Pairs before those that count. */
#define WARM_UP 10

/* About the lengths of a term's stored data. */
#define LINE_SIZE	43
#define HEAD_SIZE	56
#define FILE_SIZE	16384

/* The time for a blocking query to reach the server. */
#define PARKED_US 20000

typedef struct Connection
{
	CURL	   *curl;
	char		session[64];
	char		body[4096];
	size_t		length;
	unsigned long long index;	/* X-Consul-Index of the last answer, or the
								 * key's after the last transaction */
} Connection;

static const char *base;
static double held_at;			/* when the waiter had it */

static void
die(const char *what)
{
	fprintf(stderr, "bench-bare: %s\n", what);
	exit(1);
}

static double
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e6 + ts.tv_nsec / 1e3;
}

static size_t
take_body(char *data, size_t size, size_t n, void *arg)
{
	Connection *c = arg;
	size_t		bytes = size * n;

	if (c->length + bytes >= sizeof(c->body))
		return 0;
	memcpy(c->body + c->length, data, bytes);
	c->length += bytes;
	c->body[c->length] = '\0';
	return bytes;
}

static size_t
take_header(char *data, size_t size, size_t n, void *arg)
{
	Connection *c = arg;
	static const char name[] = "X-Consul-Index: ";

	if (size * n > sizeof(name) && strncmp(data, name, sizeof(name) - 1) == 0)
		c->index = strtoull(data + sizeof(name) - 1, NULL, 10);
	return size * n;
}

/* The answer is in c->body. */
static void
request(Connection *c, const char *method, const char *path, const char *body)
{
	char		url[512];
	long		status;

	snprintf(url, sizeof(url), "%s%s", base, path);
	curl_easy_setopt(c->curl, CURLOPT_URL, url);
	if (body != NULL)
	{
		curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, body);
		curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE, (long) strlen(body));
		curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, method);
	}
	else
	{
		curl_easy_setopt(c->curl, CURLOPT_HTTPGET, 1L);
		curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, NULL);
	}
	c->length = 0;
	c->body[0] = '\0';
	if (curl_easy_perform(c->curl) != CURLE_OK)
		die("no answer");
	curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200 && status != 404)
		die(c->body);
}

static void
open_connection(Connection *c)
{
	const char *id;

	memset(c, 0, sizeof(*c));
	c->curl = curl_easy_init();
	if (c->curl == NULL)
		die("out of memory");
	curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, c);
	curl_easy_setopt(c->curl, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(c->curl, CURLOPT_HEADERDATA, c);
	curl_easy_setopt(c->curl, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
	request(c, "PUT", "/v1/session/create",
			"{\"TTL\":\"1h\",\"LockDelay\":\"0s\",\"Checks\":[],"
			"\"NodeChecks\":[]}");
	id = strstr(c->body, "\"ID\"");
	if (id == NULL || sscanf(id, "\"ID\" : \"%63[^\"]", c->session) != 1)
		die("no session");
}

static void
close_connection(Connection *c)
{
	char		path[128];

	snprintf(path, sizeof(path), "/v1/session/destroy/%s", c->session);
	request(c, "PUT", path, "");
	curl_easy_cleanup(c->curl);
}

static bool
change(Connection *c, const char *what)
{
	char		path[256];

	snprintf(path, sizeof(path), "/v1/kv/" KEY "?%s=%s", what, c->session);
	request(c, "PUT", path, "x");
	return strncmp(c->body, "true", 4) == 0;
}

static bool
acquire(Connection *c)
{
	return change(c, "acquire");
}

static bool
release(Connection *c)
{
	return change(c, "release");
}

typedef bool (*Step) (Connection *c);

static void
measure(Connection *c, int n, Step take, Step give_up)
{
	for (int i = -WARM_UP; i < n; i++)
	{
		double		t0 = now_us();
		double		t1;
		double		t2;

		if (!take(c))
			die("not acquired");
		t1 = now_us();
		if (!give_up(c))
			die("not released");
		t2 = now_us();
		if (i >= 0)
			printf("acquire %.1f\nrelease %.1f\n", t1 - t0, t2 - t1);
	}
}

static void
pairs(int n)
{
	Connection	c;

	open_connection(&c);
	measure(&c, n, acquire, release);
	close_connection(&c);
}

/* Flags and value have about the length of the worker's. */
static const char marks[] = "\"Flags\":3304740253564472344,\"Value\":\""
"bGVhZGVyX2VsZWN0aW9uIHdyaXRlcyBoZXJlIHdobyBsZWFkcywgdW5kZXIgd2hpY2ggc2Vzc2lv"
"biwgd2hlcmUgdGhhdCBub2RlIGNhbiBiZSByZWFjaGVkLCBhbmQgd2hldGhlciBpdCBoYXMgcmVs"
"ZWFzZWQ6IHNvbWUgMTUwIGJ5dGVzIG9mIEpTT04gaW4gYmFzZTY0Lg==\"";

/* Needs the key as it was last read; "check" precedes that condition. */
static bool
transact(Connection *c, const char *check, const char *verb)
{
	static const char name[] = "\"ModifyIndex\"";
	char		body[2048];
	const char *at = c->body;
	unsigned long long written = 0;

	snprintf(body, sizeof(body),
			 "[%s{\"KV\":{\"Verb\":\"check-index\",\"Key\":\"" KEY
			 "\",\"Index\":%llu}},{\"KV\":{\"Verb\":\"%s\",\"Key\":\"" KEY
			 "\",\"Session\":\"%s\",%s}}]",
			 check, c->index, verb, c->session, marks);
	request(c, "PUT", "/v1/txn", body);
	while ((at = strstr(at, name)) != NULL)
	{
		at += strlen(name);
		written = strtoull(at + strspn(at, ": "), NULL, 10);
	}
	c->index = written;			/* the last index is the write's */
	return written != 0;
}

static bool
acquire_checked(Connection *c)
{
	char		check[256];

	snprintf(check, sizeof(check),
			 "{\"KV\":{\"Verb\":\"check-session\",\"Key\":\"" NODE_KEYS
			 "%s\",\"Session\":\"%s\"}},", c->session, c->session);
	return transact(c, check, "lock");
}

static bool
release_checked(Connection *c)
{
	return transact(c, "", "unlock");
}

static void
open_for_transactions(Connection *c)
{
	char		path[256];

	open_connection(c);
	snprintf(path, sizeof(path), "/v1/kv/" NODE_KEYS "%s?acquire=%s",
			 c->session, c->session);
	request(c, "PUT", path, "x");
	request(c, "PUT", "/v1/kv/" KEY, "x");
	request(c, "GET", "/v1/kv/" KEY, NULL);
}

static void
transactions(int n)
{
	Connection	c;

	open_for_transactions(&c);
	measure(&c, n, acquire_checked, release_checked);
	close_connection(&c);
}

/* ---- the same by another process ---- */

static int	questions;			/* eventfd: take a step */
static int	answers;			/* ... and it is taken */
static int	kept = -1;			/* the file */

static void
open_relay(const char *file)
{
	static char zeros[FILE_SIZE];

	questions = eventfd(0, EFD_CLOEXEC);
	answers = eventfd(0, EFD_CLOEXEC);
	if (questions < 0 || answers < 0)
		die("no eventfd");
	kept = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (kept < 0 || write(kept, zeros, sizeof(zeros)) != sizeof(zeros) ||
		fsync(kept) != 0)
		die(file);
}

/* Writes a line and the file's first one, like a log that counts lines. */
static void
keep_line(void)
{
	static char text[HEAD_SIZE];
	static off_t at = HEAD_SIZE;

	memset(text, 'x', sizeof(text));
	if (pwrite(kept, text, LINE_SIZE, at) != LINE_SIZE ||
		pwrite(kept, text, HEAD_SIZE, 0) != HEAD_SIZE ||
		fdatasync(kept) != 0)
		die("could not keep a line");
	at = at + 2 * LINE_SIZE > FILE_SIZE ? HEAD_SIZE : at + LINE_SIZE;
}

static void
signal_other(int fd)
{
	uint64_t	one = 1;

	if (write(fd, &one, sizeof(one)) != sizeof(one))
		die("no answer");
}

static void
wait_for_other(int fd)
{
	uint64_t	count;

	if (read(fd, &count, sizeof(count)) != sizeof(count))
		die("no answer");
}

/* Takes and frees the key in turn, a step for each question. */
static void
serve(int steps)
{
	Connection	c;

	open_for_transactions(&c);
	for (int i = 0; i < steps; i++)
	{
		wait_for_other(questions);
		if (!(i % 2 == 0 ? acquire_checked(&c) : release_checked(&c)))
			die("refused");
		if (i % 2 == 0)
			keep_line();
		signal_other(answers);
	}
	close_connection(&c);
}

static bool
ask_other(Connection *unused)
{
	(void) unused;
	signal_other(questions);
	wait_for_other(answers);
	return true;
}

static void
relayed(int n)
{
	pid_t		pid = fork();

	if (pid < 0)
		die("no other process");
	if (pid == 0)
	{
		serve(2 * (n + WARM_UP));
		exit(0);
	}
	measure(NULL, n, ask_other, ask_other);
	(void) waitpid(pid, NULL, 0);
}

/* ---- handoffs ---- */

/* The steps to take and free the key; threads stand in for processes. */
static Step take = acquire;
static Step give_up = release;

/* Waits until nobody holds the key, and takes it. */
static void *
wait_for_it(void *arg)
{
	Connection *c = arg;
	char		path[128];

	do
	{
		do
		{
			snprintf(path, sizeof(path), "/v1/kv/" KEY "?wait=60s&index=%llu",
					 c->index);
			request(c, "GET", path, NULL);
		} while (strstr(c->body, "\"Session\"") != NULL);
	} while (!take(c));
	held_at = now_us();
	if (kept >= 0)
	{
		keep_line();
		signal_other(answers);
	}
	return NULL;
}

static void *
give_up_when_asked(void *arg)
{
	wait_for_other(questions);
	if (!give_up(arg))
		die("not released");
	return NULL;
}

static double
handoff(Connection *holder, Connection *waiter)
{
	pthread_t	seeking;
	pthread_t	leading;
	double		released;

	/* the waiter knows that the key is held */
	request(waiter, "GET", "/v1/kv/" KEY, NULL);
	if (pthread_create(&seeking, NULL, wait_for_it, waiter) != 0 ||
		(kept >= 0 &&
		 pthread_create(&leading, NULL, give_up_when_asked, holder) != 0))
		die("no thread");
	usleep(PARKED_US);
	released = now_us();
	if (kept >= 0)
	{
		(void) ask_other(NULL);
		held_at = now_us();
		pthread_join(leading, NULL);
	}
	else if (!give_up(holder))
		die("not released");
	pthread_join(seeking, NULL);
	return held_at - released;
}

static void
handoffs(int n)
{
	Connection	c[2];

	open_for_transactions(&c[0]);
	open_for_transactions(&c[1]);
	request(&c[0], "GET", "/v1/kv/" KEY, NULL);
	if (!take(&c[0]))
		die("not acquired");
	for (int i = -5; i < n; i++)
	{
		int			holds = (i + 6) % 2 == 1 ? 0 : 1;
		double		us = handoff(&c[holds], &c[1 - holds]);

		if (i >= 0)
			printf("handoff %.1f\n", us);
	}
	close_connection(&c[0]);
	close_connection(&c[1]);
}

static void
relayed_handoffs(int n)
{
	take = acquire_checked;
	give_up = release_checked;
	handoffs(n);
}

int
main(int argc, char **argv)
{
	static const struct
	{
		const char *name;
		void		(*run) (int n);
		bool		keeps;		/* lines in a file */
	}			works[] = {
		{"pairs", pairs, false},
		{"transactions", transactions, false},
		{"handoffs", handoffs, false},
		{"relayed", relayed, true},
		{"relayed-handoffs", relayed_handoffs, true},
	};

	curl_global_init(CURL_GLOBAL_DEFAULT);
	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
	{
		if (argc < 4 || strcmp(argv[2], works[i].name) != 0 ||
			argc != (works[i].keeps ? 5 : 4))
			continue;
		base = argv[1];
		if (works[i].keeps)
			open_relay(argv[4]);
		works[i].run(atoi(argv[3]));
		return 0;
	}
	die("usage: bench-bare URL pairs|transactions|handoffs N,"
		" or bench-bare URL relayed|relayed-handoffs N FILE");
}
