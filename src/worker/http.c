/*-------------------------------------------------------------------------
 *
 * http.c
 *		HTTP requests inside the worker's wait.
 *
 * libcurl's multi interface tells which sockets it wants watched; they are
 * put into an epoll descriptor of our own, and that one descriptor goes into
 * the worker's WaitLatchOrSocket().  So requests run side by side while the
 * worker stays as responsive as any backend.
 *
 * Three rules.  Nothing is thrown through libcurl: its callbacks only copy
 * into memory from malloc, within limits, and report failure by their return
 * value; answers are handed out after libcurl has returned.  All signals are
 * blocked while libcurl runs, because its resolver starts threads, which
 * inherit the mask and must not run PostgreSQL's handlers.  And no handle is
 * cleaned up when the process exits: that could wait for a resolver thread
 * and hold up a shutdown.
 *
 * src/worker/http.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <curl/curl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lib/ilist.h"
#include "libpq/pqsignal.h"
#include "storage/fd.h"
#include "utils/memutils.h"

#include "compat.h"
#include "settings.h"
#include "shmem/leases.h"
#include "worker/http.h"

/* Headers of one response, altogether. */
#define MAX_HEADERS		(64 * 1024)

#define MAX_TOKEN_LEN	4096

typedef struct Call
{
	dlist_node	node;			/* in finished */
	CURL	   *easy;
	struct curl_slist *headers;
	char	   *request_body;
	size_t		request_len;
	size_t		request_given;	/* how much of it libcurl has taken */
	char	   *body;			/* from malloc */
	size_t		body_len;
	size_t		body_size;
	size_t		max_body;
	size_t		header_bytes;
	size_t		token_offset;	/* in the second of headers; 0: no token */
	bool		too_large;
	bool		has_index;
	uint64		index;
	bool		filtered;
	char		content_type[64];
	char		error[CURL_ERROR_SIZE];
	CURLcode	result;
	LeHttpDone	done;
	void	   *arg;
} Call;

static CURLM *multi = NULL;
static int	epoll_fd = -1;
static le_time timer_at = 0;
static dlist_head finished = DLIST_STATIC_INIT(finished);

static char *origin = NULL;		/* scheme://host:port */
static char *token_header = NULL;
static size_t token_offset;		/* of the token in it */

/* ---- what libcurl calls: no palloc, no ereport ---- */

static int
watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
	struct epoll_event ev = {0};

	if (what == CURL_POLL_REMOVE)
	{
		(void) epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
		curl_multi_assign(multi, fd, NULL);
		return 0;
	}
	if (what & CURL_POLL_IN)
		ev.events |= EPOLLIN;
	if (what & CURL_POLL_OUT)
		ev.events |= EPOLLOUT;
	ev.data.fd = fd;
	if (epoll_ctl(epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd,
				  &ev) != 0)
		return -1;
	curl_multi_assign(multi, fd, &epoll_fd);	/* any mark will do */
	return 0;
}

static int
set_timer(CURLM *m, long ms, void *arg)
{
	timer_at = ms < 0 ? 0 : le_now() + ms * LE_MSEC;
	return 0;
}

/*
 * Hands out the request's body once.  libcurl sends a request again by itself
 * when a kept connection breaks before the answer, and a write whose second
 * copy is refused would look as if it had never been applied.  A body that
 * cannot be had twice stops that: the request fails, its outcome unknown.
 */
static size_t
give_body(char *to, size_t size, size_t n, void *arg)
{
	Call	   *call = arg;
	size_t		len = Min(size * n, call->request_len - call->request_given);

	memcpy(to, call->request_body + call->request_given, len);
	call->request_given += len;
	return len;
}

static size_t
take_body(char *data, size_t size, size_t n, void *arg)
{
	Call	   *call = arg;
	size_t		len = size * n;

	if (len > call->max_body - call->body_len)
	{
		call->too_large = true;
		return 0;
	}
	if (call->body_len + len > call->body_size)
	{
		size_t		want = Max(call->body_size * 2, call->body_len + len);
		char	   *bigger = realloc(call->body, want);

		if (bigger == NULL)
			return 0;
		call->body = bigger;
		call->body_size = want;
	}
	memcpy(call->body + call->body_len, data, len);
	call->body_len += len;
	return len;
}

/* The value of a header if the line is one of that name, else NULL. */
static const char *
header_value(const char *line, size_t len, const char *name)
{
	size_t		n = strlen(name);

	if (len <= n || pg_strncasecmp(line, name, n) != 0 || line[n] != ':')
		return NULL;
	for (line += n + 1; *line == ' '; line++)
		;
	return line;
}

static void
take_index(Call *call, const char *value)
{
	uint64		index = 0;
	int			digits = 0;

	for (; *value >= '0' && *value <= '9' && digits < 19; value++, digits++)
		index = index * 10 + (*value - '0');
	call->has_index = digits > 0;
	call->index = index;
}

static size_t
take_header(char *data, size_t size, size_t n, void *arg)
{
	Call	   *call = arg;
	size_t		len = size * n;
	char		line[128];
	const char *value;

	call->header_bytes += len;
	if (call->header_bytes > MAX_HEADERS)
	{
		call->too_large = true;
		return 0;
	}
	strlcpy(line, data, Min(len + 1, sizeof(line)));
	line[strcspn(line, "\r\n")] = '\0';
	if ((value = header_value(line, strlen(line), "X-Consul-Index")) != NULL)
		take_index(call, value);
	else if ((value = header_value(line, strlen(line),
								   "X-Consul-Results-Filtered-By-ACLs")) != NULL)
		call->filtered = strcmp(value, "true") == 0;
	else if ((value = header_value(line, strlen(line), "Content-Type")) != NULL)
		strlcpy(call->content_type, value, sizeof(call->content_type));
	return len;
}

/* ---- our side ---- */

static void
enter_curl(sigset_t *saved)
{
	sigprocmask(SIG_SETMASK, &BlockSig, saved);
}

static void
leave_curl(const sigset_t *saved)
{
	sigprocmask(SIG_SETMASK, saved, NULL);
}

/* "connections" to the store, those of the watch included. */
void
le_http_start(int connections)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
		(multi = curl_multi_init()) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not initialize libcurl")));
	if (!AcquireExternalFD())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not reserve a file descriptor for leader_election")));
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create an epoll descriptor: %m")));
	curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
	curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS,
					  (long) connections);
	curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long) connections);
}

/* Read the token; false, with a log line, if the file cannot be used. */
static bool
read_token(const char *path, char *token, size_t size)
{
	FILE	   *file = AllocateFile(path, "r");
	size_t		len;

	if (file == NULL)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not open token file \"%s\": %m", path)));
		return false;
	}
	len = fread(token, 1, size - 1, file);
	FreeFile(file);
	token[len] = '\0';
	token[strcspn(token, "\r\n")] = '\0';
	for (char *p = token; *p != '\0'; p++)
	{
		if ((unsigned char) *p <= ' ' || (unsigned char) *p >= 0x7f)
		{
			ereport(LOG,
					(errcode(ERRCODE_CONFIG_FILE_ERROR),
					 errmsg("token file \"%s\" does not hold one printable token",
							path)));
			return false;
		}
	}
	return true;
}

static void
forget_secret(char **secret)
{
	if (*secret == NULL)
		return;
	explicit_bzero(*secret, strlen(*secret));
	pfree(*secret);
	*secret = NULL;
}

/*
 * Take over the settings, at start and after a reload.  Requests in flight
 * keep what they were sent with.  The token goes into a header that begins
 * as given.  False: it cannot be read, so requests go out without one until
 * the next reload.
 */
bool
le_http_configure(const char *url, const char *token_file,
				  const char *header)
{
	char		token[MAX_TOKEN_LEN];
	const char *host = strstr(url, "://") + 3;
	bool		ok = true;

	if (origin != NULL)
		pfree(origin);
	origin = MemoryContextStrdup(TopMemoryContext, url);
	origin[(host - url) + strcspn(host, "/")] = '\0';

	forget_secret(&token_header);
	if (token_file[0] == '\0')
		return true;
	ok = read_token(token_file, token, sizeof(token));
	if (ok && token[0] != '\0')
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		token_header = psprintf("%s%s", header, token);
		token_offset = strlen(header);
		MemoryContextSwitchTo(old);
	}
	explicit_bzero(token, sizeof(token));
	return ok;
}

const char *
le_http_origin(void)
{
	return origin;
}

static bool
set_transport(Call *call)
{
	CURL	   *easy = call->easy;
	bool		ok = true;

#define SET(option, value) \
	(ok = ok && curl_easy_setopt(easy, (option), (value)) == CURLE_OK)
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	SET(CURLOPT_FOLLOWLOCATION, 0L);	/* a redirected PUT loses its body */
	SET(CURLOPT_TCP_KEEPALIVE, 1L);
	SET(CURLOPT_TCP_NODELAY, 1L);
	SET(CURLOPT_NOPROXY, "*");
	SET(CURLOPT_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_SSL_VERIFYHOST, 2L);
#if LIBCURL_VERSION_NUM >= 0x075500
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
	SET(CURLOPT_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	if (le_ca_file[0] != '\0')
		SET(CURLOPT_CAINFO, le_ca_file);
	if (le_cert_file[0] != '\0')
		SET(CURLOPT_SSLCERT, le_cert_file);
	if (le_key_file[0] != '\0')
		SET(CURLOPT_SSLKEY, le_key_file);
	return ok;
}

static bool
set_request(Call *call, const LeHttpRequest *request, const char *url,
			le_duration timeout)
{
	CURL	   *easy = call->easy;
	bool		ok = true;

	SET(CURLOPT_URL, url);
	SET(CURLOPT_CUSTOMREQUEST, request->method);
	SET(CURLOPT_TIMEOUT_MS, (long) Max(timeout / LE_MSEC, 1));
	SET(CURLOPT_CONNECTTIMEOUT_MS,
		request->connect_ms > 0 && request->connect_ms < timeout / LE_MSEC ?
		(long) request->connect_ms : (long) Max(timeout / LE_MSEC, 1));
	SET(CURLOPT_ERRORBUFFER, call->error);
	SET(CURLOPT_WRITEFUNCTION, take_body);
	SET(CURLOPT_WRITEDATA, call);
	SET(CURLOPT_HEADERFUNCTION, take_header);
	SET(CURLOPT_HEADERDATA, call);
	SET(CURLOPT_PRIVATE, call);
	/* A body of known length, if only an empty one: Consul ignores others. */
	if (call->request_len > 0)
	{
		SET(CURLOPT_POST, 1L);
		SET(CURLOPT_POSTFIELDSIZE, (long) call->request_len);
		SET(CURLOPT_READFUNCTION, give_body);
		SET(CURLOPT_READDATA, call);
	}
	else if (strcmp(request->method, "PUT") == 0)
	{
		SET(CURLOPT_POSTFIELDSIZE, 0L);
		SET(CURLOPT_COPYPOSTFIELDS, "");
	}
	call->headers = curl_slist_append(NULL, "Expect:");
	if (call->headers && token_header)
	{
		call->headers = curl_slist_append(call->headers, token_header);
		call->token_offset = token_offset;
	}
	if (call->headers)
		call->headers = curl_slist_append(call->headers,
										  "Content-Type: application/json");
	SET(CURLOPT_HTTPHEADER, call->headers);
	return ok && call->headers != NULL;
#undef SET
}

/*
 * Send a request.  done() is called once, from le_http_run(), never from
 * here: with the answer, or with the reason why there is none.
 */
void
le_http_send(const LeHttpRequest *request, le_duration timeout,
			 LeHttpDone done, void *arg)
{
	Call	   *call = MemoryContextAllocZero(TopMemoryContext, sizeof(Call));
	char	   *url = psprintf("%s%s",
							   request->base ? request->base : origin,
							   request->path.data);
	sigset_t	saved;
	bool		ok;

	call->max_body = request->max_answer;
	call->done = done;
	call->arg = arg;
	if (request->has_body)
	{
		call->request_body = MemoryContextStrdup(TopMemoryContext,
												 request->body.data);
		call->request_len = request->body.len;
	}

	enter_curl(&saved);
	call->easy = curl_easy_init();
	ok = call->easy != NULL && set_transport(call) &&
		set_request(call, request, url, timeout) &&
		curl_multi_add_handle(multi, call->easy) == CURLM_OK;
	leave_curl(&saved);
	pfree(url);
	if (!ok)
	{
		call->result = CURLE_FAILED_INIT;
		dlist_push_tail(&finished, &call->node);
	}
}

int
le_http_socket(void)
{
	return epoll_fd;
}

/* When does le_http_run() have something to do even if nothing is readable? */
le_time
le_http_timer(void)
{
	return dlist_is_empty(&finished) ? timer_at : le_now();
}

/* Can the store have seen the request?  Only "certainly not" counts as no. */
static bool
never_sent(Call *call)
{
	curl_off_t	pretransfer = 0;

	switch (call->result)
	{
		case CURLE_FAILED_INIT:
		case CURLE_URL_MALFORMAT:
		case CURLE_COULDNT_RESOLVE_HOST:
		case CURLE_COULDNT_CONNECT:
		case CURLE_SSL_CONNECT_ERROR:
		case CURLE_SSL_CERTPROBLEM:
		case CURLE_SSL_CACERT_BADFILE:
		case CURLE_PEER_FAILED_VERIFICATION:
			break;
		case CURLE_OPERATION_TIMEDOUT:
			break;
		default:
			return false;
	}
	if (call->easy == NULL || call->result == CURLE_FAILED_INIT)
		return true;
	return curl_easy_getinfo(call->easy, CURLINFO_PRETRANSFER_TIME_T,
							 &pretransfer) == CURLE_OK && pretransfer == 0;
}

/*
 * Whatever is in front of the store may quote what it was sent, and messages
 * quote it in turn: the token is taken out before.
 */
static void
hide_token(Call *call)
{
	for (struct curl_slist *h = call->headers; h != NULL; h = h->next)
	{
		const char *token = h->data + call->token_offset;
		size_t		len;

		if (call->token_offset == 0 || h != call->headers->next)
			continue;
		len = strlen(token);
		for (size_t i = 0; i + len <= call->body_len; i++)
			if (memcmp(call->body + i, token, len) == 0)
				memset(call->body + i, '*', len);
	}
}

static void
hand_out(Call *call)
{
	LeHttpResponse response = {0};
	long		status = 0;

	response.content_type = call->content_type;
	if (call->result == CURLE_OK)
	{
		curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
		if (status != 200)
			hide_token(call);
		response.net = LE_NET_OK;
		response.status = (int) status;
		response.body = call->body ? call->body : "";
		response.body_len = call->body_len;
		response.has_index = call->has_index;
		response.index = call->index;
		response.filtered = call->filtered;
	}
	else
	{
		response.net = never_sent(call) ? LE_NET_NOT_SENT : LE_NET_BROKEN;
		response.body = "";
		response.net_error = call->too_large ? "the answer is too large" :
			call->error[0] ? call->error : curl_easy_strerror(call->result);
	}
	call->done(call->arg, &response);
}

static void
free_call(Call *call)
{
	sigset_t	saved;

	enter_curl(&saved);
	if (call->easy != NULL)
	{
		curl_multi_remove_handle(multi, call->easy);
		curl_easy_cleanup(call->easy);
	}
	curl_slist_free_all(call->headers);
	leave_curl(&saved);
	free(call->body);
	if (call->request_body != NULL)
		pfree(call->request_body);
	pfree(call);
}

static void
collect_finished(void)
{
	CURLMsg    *msg;
	int			left;

	while ((msg = curl_multi_info_read(multi, &left)) != NULL)
	{
		Call	   *call = NULL;

		if (msg->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **) &call);
		call->result = msg->data.result;
		dlist_push_tail(&finished, &call->node);
	}
}

/* Tell libcurl which sockets are ready and what time it is. */
static void
drive(void)
{
	struct epoll_event events[32];
	sigset_t	saved;
	int			running;
	int			n = epoll_wait(epoll_fd, events, lengthof(events), 0);

	enter_curl(&saved);
	for (int i = 0; i < n; i++)
	{
		int			flags = 0;

		if (events[i].events & EPOLLIN)
			flags |= CURL_CSELECT_IN;
		if (events[i].events & EPOLLOUT)
			flags |= CURL_CSELECT_OUT;
		if (events[i].events & (EPOLLERR | EPOLLHUP))
			flags |= CURL_CSELECT_ERR;
		curl_multi_socket_action(multi, events[i].data.fd, flags, &running);
	}
	if (timer_at != 0 && le_now() >= timer_at)
	{
		timer_at = 0;
		curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
	}
	collect_finished();
	leave_curl(&saved);
}

/*
 * Move all requests on and hand out the answers that have come.  A done()
 * that throws leaves its answer behind as delivered.
 */
void
le_http_run(void)
{
	drive();
	while (!dlist_is_empty(&finished))
	{
		Call	   *call = dlist_container(Call, node,
										   dlist_pop_head_node(&finished));

		hand_out(call);
		free_call(call);
	}
}
