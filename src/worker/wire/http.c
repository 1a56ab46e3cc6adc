/*-------------------------------------------------------------------------
 *
 * http.c
 *		HTTP requests inside the worker's wait.
 *
 * libcurl's multi interface tells which sockets to watch; they are put into an
 * epoll descriptor of our own, and that one descriptor goes into the worker's
 * wait.  So requests run side by side while the worker stays as responsive as
 * any backend.
 *
 * Requests that keep a term alive, or give it to others, have connections that
 * nothing else may use; the proofs of each round keep those warm.  The answers
 * of a name server count for all connections.
 *
 * Four rules.  Nothing is thrown through libcurl: its callbacks only copy into
 * memory from malloc, within limits, and report failure by their return value;
 * answers are handed out after libcurl has returned.  All signals are blocked
 * while libcurl runs, because its resolver starts threads, which inherit the
 * mask and must not run PostgreSQL's handlers.  No handle is cleaned up while
 * its name is being looked up, since libcurl would wait for its thread, for as
 * long as the name server likes: time limits are kept here, and a call whose
 * time is up in the resolver is answered and left behind until the thread has
 * come back.  For the same reason none is cleaned up when the process exits.
 * From 7.87 on libcurl can be told not to wait; that is for cases that cannot
 * be seen here, as when another call found the same name meanwhile.
 *
 * src/worker/wire/http.c
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
#include "worker/wire/files.h"
#include "worker/wire/http.h"

/* Headers of one response, altogether. */
#define MAX_HEADERS		(64 * 1024)

/*
 * Look-ups of one server's name that may be left behind at a time, each with a
 * thread of libcurl's.  With so many another would tell nothing new.  Requests
 * that keep terms may have more.
 */
#define MAX_LEFT_BEHIND	8
#define MAX_LEFT_BEHIND_TERMS	64

/* The body is JSON, unless the first of a request's headers gives its type. */
#define CONTENT_TYPE	"Content-Type:"

static const char too_large[] = "the answer is too large";
static const char no_memory[] = "there is no memory for the answer";

/* None of libcurl's own time limits may come first. */
#define NEVER_MS		(24L * 3600 * 1000)

/* Requests that share connections. */
typedef struct Pool
{
	CURLM	   *multi;
	int			number;
	int			epoll_fd;
	le_time		timer_at;
} Pool;

enum
{
	POOL_TERMS, POOL_OTHERS, POOL_PARKED, NPOOLS
};

static const int pool_of[LE_NLANES] = {
	[LE_LANE_LIFE] = POOL_TERMS,
	[LE_LANE_RELEASE] = POOL_TERMS,
	[LE_LANE_ASKED] = POOL_OTHERS,
	[LE_LANE_CAMPAIGN] = POOL_OTHERS,
	[LE_LANE_READ] = POOL_OTHERS,
	[LE_LANE_WATCH] = POOL_PARKED,
};

typedef struct Call
{
	dlist_node	node;			/* in one of the lists below */
	Pool	   *pool;
	CURL	   *easy;			/* NULL: it could not be made */
	le_time		connect_by;		/* when to give up without a connection, if not
								 * 0 ... */
	le_time		answer_by;		/* ... and without an answer */
	bool		looking_up;		/* a thread may be in the resolver for it */
	bool		left_behind;	/* its name is still looked up, although its
								 * time was up ... */
	bool		handed_out;		/* ... and it has been answered */
	struct curl_slist *headers;
	char	   *base;			/* URL of the server */
	char	   *request_body;
	size_t		request_len;
	size_t		request_given;	/* the part that libcurl has taken */
	bool		writes;			/* so it must not be sent twice ... */
	bool		was_sent;		/* ... once it was */
	char	   *body;			/* from malloc */
	size_t		body_len;
	size_t		body_size;
	size_t		max_body;
	size_t		header_bytes;
	char	   *secret;			/* sent with it; NULL: none */
	char	   *header_text;	/* all lines, from malloc */
	bool		(*enough) (const char *body, size_t len);
	bool		ended;			/* enough of it had come */
	const char *untaken;		/* why the answer could not be taken; NULL: no
								 * such reason */
	bool		answer_is_secret;
	char		content_type[256];
	bool		tls;
	char		error[CURL_ERROR_SIZE];
	char		file_trouble[LE_MAX_FILE_TROUBLE];	/* "": no connection has
													 * failed for a file's
													 * sake */
	CURLcode	result;
	LeHttpDone	done;
	void	   *arg;
} Call;

struct LeHttp
{
	Pool		pools[NPOOLS];
	CURLSH	   *shared;			/* the pools' names and TLS sessions */
	int			epoll_fd;
	dlist_head	under_way;
	dlist_head	finished;
	dlist_head	left_behind;
};

/* ---- called by libcurl: no palloc, no ereport ---- */

static int
watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
	Pool	   *pool = arg;
	struct epoll_event ev = {0};

	if (what == CURL_POLL_REMOVE)
	{
		(void) epoll_ctl(pool->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
		curl_multi_assign(pool->multi, fd, NULL);
		return 0;
	}
	if (what & CURL_POLL_IN)
		ev.events |= EPOLLIN;
	if (what & CURL_POLL_OUT)
		ev.events |= EPOLLOUT;
	ev.data.u64 = ((uint64) pool->number << 32) | (uint32) fd;
	if (epoll_ctl(pool->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd,
				  &ev) != 0)
		return -1;
	curl_multi_assign(pool->multi, fd, pool);	/* any mark will do */
	return 0;
}

static int
set_pool_timer(CURLM *m, long ms, void *arg)
{
	Pool	   *pool = arg;

	pool->timer_at = ms < 0 ? 0 : le_now() + ms * LE_MSEC;
	return 0;
}

/*
 * Called for a name that is in no cache, also for the second try of a call
 * whose kept connection was found closed: libcurl's own times are those of the
 * first try.
 */
static int
start_lookup(void *resolver, void *reserved, void *arg)
{
	((Call *) arg)->looking_up = true;
	return 0;
}

/*
 * A call that was left behind ends with its look-up.  From here on libcurl
 * opens the files that TLS needs, and would wait for a FIFO.
 */
static curl_socket_t
open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	Call	   *call = arg;

	call->looking_up = false;
	if (call->left_behind)
		return CURL_SOCKET_BAD;
	if (call->tls)
		le_tls_trouble(call->file_trouble);
	if (call->file_trouble[0] != '\0')
		return CURL_SOCKET_BAD;
	return socket(address->family, address->socktype | SOCK_CLOEXEC,
				  address->protocol);
}

/*
 * libcurl sends a request again by itself when a kept connection breaks before
 * the answer, and a write whose second copy is refused would look as if it had
 * never been applied.  So each write is sent once: the second time it fails,
 * its outcome unknown.  A call left behind was reported as not sent.
 */
#if LIBCURL_VERSION_NUM >= 0x075000
static int
send_once(void *arg, char *to, char *from, int to_port, int from_port)
{
	Call	   *call = arg;

	if (call->left_behind || (call->writes && call->was_sent))
		return CURL_PREREQFUNC_ABORT;
	call->was_sent = true;
	return CURL_PREREQFUNC_OK;
}
#else

/*
 * A libcurl that does not ask before it sends: the body is handed out once.
 * It comes after the headers, which costs the server a second look.
 */
static size_t
give_body(char *to, size_t size, size_t n, void *arg)
{
	Call	   *call = arg;
	size_t		len = Min(size * n, call->request_len - call->request_given);

	if (call->left_behind)
		return CURL_READFUNC_ABORT;
	memcpy(to, call->request_body + call->request_given, len);
	call->request_given += len;
	return len;
}
#endif

static size_t
cannot_take(Call *call, const char *why)
{
	call->untaken = why;
	return 0;
}

static size_t
take_body(char *data, size_t size, size_t n, void *arg)
{
	Call	   *call = arg;
	size_t		len = size * n;

	if (len > call->max_body - call->body_len)
		return cannot_take(call, too_large);
	if (call->body_len + len > call->body_size)
	{
		size_t		want = Max(call->body_size * 2, call->body_len + len);
		char	   *bigger = realloc(call->body, want);

		if (bigger == NULL)
			return cannot_take(call, no_memory);
		call->body = bigger;
		call->body_size = want;
	}
	memcpy(call->body + call->body_len, data, len);
	call->body_len += len;
	if (call->enough != NULL && call->enough(call->body, call->body_len))
	{
		call->ended = true;
		return 0;				/* ends the transfer, and its connection */
	}
	return len;
}

/* Keep the line as it came, with a NUL behind the last. */
static size_t
take_header(char *data, size_t size, size_t n, void *arg)
{
	Call	   *call = arg;
	size_t		len = size * n;
	char	   *bigger;

	if (call->header_bytes + len > MAX_HEADERS)
		return cannot_take(call, too_large);
	bigger = realloc(call->header_text, call->header_bytes + len + 1);
	if (bigger == NULL)
		return cannot_take(call, no_memory);
	call->header_text = bigger;
	memcpy(bigger + call->header_bytes, data, len);
	call->header_bytes += len;
	bigger[call->header_bytes] = '\0';
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

/* Does libcurl look names up asynchronously? */
bool
le_http_looks_up_apart(void)
{
	return (curl_version_info(CURLVERSION_NOW)->features &
			CURL_VERSION_ASYNCHDNS) != 0;
}

/* "connections": how many are kept open in each lane. */
void
le_http_start(LeWorker *w, const int connections[LE_NLANES])
{
	LeHttp	   *http = MemoryContextAllocZero(TopMemoryContext,
											  sizeof(LeHttp));
	bool		ok = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK &&
		(http->shared = curl_share_init()) != NULL &&
		curl_share_setopt(http->shared, CURLSHOPT_SHARE,
						  CURL_LOCK_DATA_DNS) == CURLSHE_OK &&
		curl_share_setopt(http->shared, CURLSHOPT_SHARE,
						  CURL_LOCK_DATA_SSL_SESSION) == CURLSHE_OK;
	long		kept[NPOOLS] = {0};

	w->http = http;
	dlist_init(&http->under_way);
	dlist_init(&http->finished);
	dlist_init(&http->left_behind);
	if (!le_http_looks_up_apart())
		ereport(WARNING,
				(errmsg("this libcurl looks names up inside of its caller"),
				 errdetail("A name server that hangs would hold up all that leader_election does."),
				 errhint("Give the store's address as a number, or use a libcurl with AsynchDNS.")));
	for (int i = 0; ok && i < NPOOLS; i++)
	{
		http->pools[i].number = i;
		http->pools[i].multi = curl_multi_init();
		ok = http->pools[i].multi != NULL;
	}
	if (!ok)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not initialize libcurl")));
	if (!AcquireExternalFD())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not reserve a file descriptor for leader_election")));
	http->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (http->epoll_fd < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create an epoll descriptor: %m")));
	for (int i = 0; i < LE_NLANES; i++)
		kept[pool_of[i]] += connections[i];
	for (int i = 0; i < NPOOLS; i++)
	{
		CURLM	   *multi = http->pools[i].multi;

		http->pools[i].epoll_fd = http->epoll_fd;
		curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
		curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, &http->pools[i]);
		curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, set_pool_timer);
		curl_multi_setopt(multi, CURLMOPT_TIMERDATA, &http->pools[i]);
		curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, kept[i]);
	}
}

/*
 * The authorities of ca_file replace the system's: libcurl is often built with
 * a directory of the latter, which it goes on trusting when it is given a
 * file.  A libcurl that knows no directories has none.
 */
static bool
forget_directory(CURL *easy, CURLoption option)
{
	CURLcode	result = curl_easy_setopt(easy, option, (char *) NULL);

	return result == CURLE_OK || result == CURLE_NOT_BUILT_IN ||
		result == CURLE_UNKNOWN_OPTION;
}

static bool
set_transport(LeWorker *w, Call *call, const LeRequest *request)
{
	CURL	   *easy = call->easy;
	bool		ok = true;

#define SET(option, value) \
	(ok = ok && curl_easy_setopt(easy, (option), (value)) == CURLE_OK)
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_SHARE, w->http->shared);
	SET(CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	SET(CURLOPT_FOLLOWLOCATION, 0L);	/* a redirected PUT loses its body */
	SET(CURLOPT_TCP_KEEPALIVE, 1L);
	SET(CURLOPT_TCP_NODELAY, 1L);
	SET(CURLOPT_NOPROXY, "*");
	SET(CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);	/* at least */
#if LIBCURL_VERSION_NUM >= 0x075700
	SET(CURLOPT_QUICK_EXIT, 1L);
#endif
	SET(CURLOPT_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_SSL_VERIFYHOST, 2L);
#if LIBCURL_VERSION_NUM >= 0x075500
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
	SET(CURLOPT_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
	/* A CA may be replaced in its file.  Refused if libcurl keeps none. */
	(void) curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
#endif
	if (request->fresh)
	{
		SET(CURLOPT_FRESH_CONNECT, 1L);
		SET(CURLOPT_FORBID_REUSE, 1L);
		SET(CURLOPT_SSL_SESSIONID_CACHE, 0L);
	}
	if (le_ca_file[0] != '\0')
	{
		SET(CURLOPT_CAINFO, le_ca_file);
		SET(CURLOPT_PROXY_CAINFO, le_ca_file);
		ok = ok && forget_directory(easy, CURLOPT_CAPATH) &&
			forget_directory(easy, CURLOPT_PROXY_CAPATH);
	}
	if (le_cert_file[0] != '\0')
		SET(CURLOPT_SSLCERT, le_cert_file);
	if (le_key_file[0] != '\0')
		SET(CURLOPT_SSLKEY, le_key_file);
	/* An answer to a question that the worker could wait for, for ever. */
	SET(CURLOPT_KEYPASSWD, "");
	return ok;
}

static bool
add_header(Call *call, const char *header)
{
	struct curl_slist *more = curl_slist_append(call->headers, header);

	if (more == NULL)
		return false;
	call->headers = more;
	return true;
}

/* One header per line. */
static bool
add_headers(Call *call, const char *lines)
{
	bool		ok = true;

	while (ok && *lines != '\0')
	{
		size_t		len = strcspn(lines, "\n");

		ok = add_header(call, pnstrdup(lines, len));
		lines += len + (lines[len] == '\n');
	}
	return ok;
}

/* NULL: the server does not listen on a socket of this machine. */
static const char *
path_of_socket(const char *base)
{
	size_t		len = strlen(LE_UNIX_SCHEME);

	return strncmp(base, LE_UNIX_SCHEME, len) == 0 ? base + len : NULL;
}

static bool
set_request(Call *call, const LeRequest *request, const char *url)
{
	CURL	   *easy = call->easy;
	bool		ok = true;

	SET(CURLOPT_URL, url);
	if (path_of_socket(request->base) != NULL)
		SET(CURLOPT_UNIX_SOCKET_PATH, path_of_socket(request->base));
	call->writes = strcmp(request->http.method, "GET") != 0 &&
		strcmp(request->http.method, "HEAD") != 0;
	/* Given only its name, libcurl would wait for a body that never comes. */
	if (strcmp(request->http.method, "HEAD") == 0)
		SET(CURLOPT_NOBODY, 1L);
	else
		SET(CURLOPT_CUSTOMREQUEST, request->http.method);
	SET(CURLOPT_CONNECTTIMEOUT_MS, NEVER_MS);
	SET(CURLOPT_RESOLVER_START_FUNCTION, start_lookup);
	SET(CURLOPT_RESOLVER_START_DATA, call);
	SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
	SET(CURLOPT_OPENSOCKETDATA, call);
#if LIBCURL_VERSION_NUM >= 0x075000
	SET(CURLOPT_PREREQFUNCTION, send_once);
	SET(CURLOPT_PREREQDATA, call);
#endif
	SET(CURLOPT_ERRORBUFFER, call->error);
	SET(CURLOPT_WRITEFUNCTION, take_body);
	SET(CURLOPT_WRITEDATA, call);
	SET(CURLOPT_HEADERFUNCTION, take_header);
	SET(CURLOPT_HEADERDATA, call);
	SET(CURLOPT_PRIVATE, call);
	/* Give each body a length, even an empty one: Consul ignores others. */
	if (call->request_len > 0)
	{
		SET(CURLOPT_POST, 1L);
		SET(CURLOPT_POSTFIELDSIZE, (long) call->request_len);
#if LIBCURL_VERSION_NUM >= 0x075000
		SET(CURLOPT_POSTFIELDS, call->request_body);
#else
		SET(CURLOPT_READFUNCTION, give_body);
		SET(CURLOPT_READDATA, call);
#endif
	}
	else if (strcmp(request->http.method, "PUT") == 0)
	{
		SET(CURLOPT_POSTFIELDSIZE, 0L);
		SET(CURLOPT_COPYPOSTFIELDS, "");
	}
	ok = ok && add_header(call, "Expect:") &&
		(strncmp(request->http.headers.data, CONTENT_TYPE,
				 strlen(CONTENT_TYPE)) == 0 ||
		 add_header(call, CONTENT_TYPE " application/json")) &&
		add_headers(call, request->http.headers.data) &&
		(request->secret == NULL || request->secret_header == NULL ||
		 add_header(call, psprintf("%s%s", request->secret_header,
								   request->secret)));
	SET(CURLOPT_HTTPHEADER, call->headers);
	return ok;
#undef SET
}

/*
 * A secret without a header of its own goes into the query, as it is, but
 * without the question mark that some tools put before it.
 */
static char *
url_of(const LeRequest *request)
{
	const char *base = path_of_socket(request->base) == NULL ?
		request->base : "http://localhost";

	if (request->secret == NULL || request->secret_header != NULL)
		return psprintf("%s%s", base, request->http.path.data);
	return psprintf("%s%s%c%s", base, request->http.path.data,
					strchr(request->http.path.data, '?') == NULL ? '?' : '&',
					request->secret + (request->secret[0] == '?'));
}

/*
 * Another look-up beside those left behind would only leave another thread
 * behind.  Requests that keep terms may have more of them: there are few, and
 * their connections are kept, so they may need no look-up.
 */
static bool
resolver_hangs(LeWorker *w, Call *call)
{
	LeHttp	   *http = w->http;
	int			n = 0;
	int			most = call->pool == &http->pools[POOL_TERMS] ?
		MAX_LEFT_BEHIND_TERMS : MAX_LEFT_BEHIND;
	dlist_iter	iter;

	dlist_foreach(iter, &http->left_behind)
		n += strcmp(dlist_container(Call, node, iter.cur)->base,
					call->base) == 0;
	if (n < most)
		return false;
	strlcpy(call->error, "the name server does not answer",
			sizeof(call->error));
	return true;
}

/*
 * Send a request now: its time begins here.  done() is called once, from
 * le_http_run(), never from here: with the answer, or with the reason why
 * there is none.
 */
void
le_http_send(LeWorker *w, const LeRequest *request, LeLane lane,
			 le_duration timeout, LeHttpDone done, void *arg)
{
	LeHttp	   *http = w->http;
	Call	   *call = MemoryContextAllocZero(TopMemoryContext, sizeof(Call));
	char	   *url = url_of(request);
	le_duration connect = request->connect_ms * LE_MSEC;
	sigset_t	saved;
	bool		ok;

	call->pool = &http->pools[pool_of[lane]];
	call->max_body = request->max_answer;
	call->enough = request->enough;
	call->answer_is_secret = request->without_secret;
	call->answer_by = le_now() + Max(timeout, LE_MSEC);
	if (connect > 0 && connect < timeout)
		call->connect_by = le_now() + connect;
	call->tls = strncmp(request->base, "https://", 8) == 0;
	call->base = MemoryContextStrdup(TopMemoryContext, request->base);
	if (request->secret != NULL)
		call->secret = MemoryContextStrdup(TopMemoryContext, request->secret);
	call->done = done;
	call->arg = arg;
	if (request->http.has_body)
	{
		call->request_body = MemoryContextStrdup(TopMemoryContext,
												 request->http.body.data);
		call->request_len = request->http.body.len;
	}

	enter_curl(&saved);
	ok = !resolver_hangs(w, call) &&
		(call->easy = curl_easy_init()) != NULL &&
		set_transport(w, call, request) &&
		set_request(call, request, url) &&
		curl_multi_add_handle(call->pool->multi, call->easy) == CURLM_OK;
	leave_curl(&saved);
	pfree(url);
	call->result = CURLE_FAILED_INIT;
	dlist_push_tail(ok ? &http->under_way : &http->finished, &call->node);
}

int
le_http_socket(LeWorker *w)
{
	return w->http->epoll_fd;
}

/* When does le_http_run() have work, even if nothing is readable? */
le_time
le_http_timer(LeWorker *w)
{
	LeHttp	   *http = w->http;
	le_time		next = dlist_is_empty(&http->finished) ? 0 : le_now();
	dlist_iter	iter;

	for (int i = 0; i < NPOOLS; i++)
		next = le_earliest(next, http->pools[i].timer_at);
	dlist_foreach(iter, &http->under_way)
	{
		const Call *call = dlist_container(Call, node, iter.cur);

		next = le_earliest(next, call->connect_by != 0 ? call->connect_by :
						   call->answer_by);
	}
	return next;
}

/* True only if the store can certainly not have seen the request. */
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

/* The secret as url_of() or a header has it. */
static const char *
sent_secret(const Call *call)
{
	return call->secret == NULL ? NULL :
		call->secret + (call->secret[0] == '?');
}

static void
hand_out(LeWorker *w, Call *call)
{
	LeResponse response = {0};
	long		status = 0;
	char		date[64];

	response.http.content_type = "";
	response.secret = sent_secret(call);
	if (call->ended && call->result == CURLE_WRITE_ERROR)
		call->result = CURLE_OK;
	if (call->result == CURLE_OK)
	{
		curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
		response.net = LE_NET_OK;
		response.http.status = (int) status;
		response.body = call->body ? call->body : "";
		response.body_len = call->body_len;
		response.http.headers = call->header_text;
		if (le_header(&response, "Content-Type", call->content_type,
					  sizeof(call->content_type)))
			response.http.content_type = call->content_type;
		if (le_header(&response, "Date", date, sizeof(date)))
			response.http.date = Max(curl_getdate(date, NULL), 0);
	}
	else
	{
		response.net = never_sent(call) ? LE_NET_NOT_SENT :
			call->untaken != NULL ? LE_NET_UNTAKEN : LE_NET_BROKEN;
		response.body = "";
		response.net_error = call->untaken != NULL ? call->untaken :
			call->file_trouble[0] ? call->file_trouble :
			call->error[0] ? call->error : curl_easy_strerror(call->result);
	}
	call->done(w, call->arg, &response);
}

static void
free_call(Call *call)
{
	sigset_t	saved;

	enter_curl(&saved);
	if (call->easy != NULL)
	{
		curl_multi_remove_handle(call->pool->multi, call->easy);
		curl_easy_cleanup(call->easy);
	}
	curl_slist_free_all(call->headers);
	leave_curl(&saved);
	if (call->answer_is_secret && call->body != NULL)
		explicit_bzero(call->body, call->body_len);
	free(call->body);
	free(call->header_text);
	if (call->secret != NULL)
	{
		explicit_bzero(call->secret, strlen(call->secret));
		pfree(call->secret);
	}
	pfree(call->base);
	if (call->request_body != NULL)
		pfree(call->request_body);
	pfree(call);
}

static bool
timer_due(const Pool *pool, le_time now)
{
	return pool->timer_at != 0 && now >= pool->timer_at;
}

static bool
any_timer_due(LeWorker *w, le_time now)
{
	for (int i = 0; i < NPOOLS; i++)
		if (timer_due(&w->http->pools[i], now))
			return true;
	return false;
}

static void
run_timer(Pool *pool, le_time now)
{
	int			running;

	if (!timer_due(pool, now))
		return;
	pool->timer_at = 0;
	curl_multi_socket_action(pool->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

static void
collect_finished(LeWorker *w, Pool *pool)
{
	CURLMsg    *msg;
	int			left;

	while ((msg = curl_multi_info_read(pool->multi, &left)) != NULL)
	{
		Call	   *call = NULL;

		if (msg->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **) &call);
		call->result = msg->data.result;
		dlist_delete(&call->node);
		dlist_push_tail(&w->http->finished, &call->node);
	}
}

/*
 * Have libcurl begin the requests just given to it, instead of in the next
 * turn: its timers are due at once.  No done() is called from here.
 */
void
le_http_push(LeWorker *w)
{
	LeHttp	   *http = w->http;
	sigset_t	saved;
	le_time		now = le_now();

	if (!any_timer_due(w, now))
		return;
	enter_curl(&saved);
	for (int i = 0; i < NPOOLS; i++)
	{
		run_timer(&http->pools[i], now);
		collect_finished(w, &http->pools[i]);
	}
	leave_curl(&saved);
}

/* Tell libcurl which sockets are ready and what time it is. */
static void
drive_libcurl(LeWorker *w)
{
	LeHttp	   *http = w->http;
	struct epoll_event events[32];
	sigset_t	saved;
	int			running;
	int			n = epoll_wait(http->epoll_fd, events, lengthof(events), 0);

	if (n <= 0 && !any_timer_due(w, le_now()))
		return;
	enter_curl(&saved);
	for (int i = 0; i < n; i++)
	{
		Pool	   *pool = &http->pools[events[i].data.u64 >> 32];
		int			flags = 0;

		if (events[i].events & EPOLLIN)
			flags |= CURL_CSELECT_IN;
		if (events[i].events & EPOLLOUT)
			flags |= CURL_CSELECT_OUT;
		if (events[i].events & (EPOLLERR | EPOLLHUP))
			flags |= CURL_CSELECT_ERR;
		curl_multi_socket_action(pool->multi, (int) events[i].data.u64, flags,
								 &running);
	}
	for (int i = 0; i < NPOOLS; i++)
	{
		run_timer(&http->pools[i], le_now());
		collect_finished(w, &http->pools[i]);
	}
	leave_curl(&saved);
}

/* ---- time limits ---- */

static bool
has_passed(const Call *call, CURLINFO stage)
{
	curl_off_t	after = 0;

	return curl_easy_getinfo(call->easy, stage, &after) == CURLE_OK &&
		after > 0;
}

/*
 * The call's time is up.  It is answered like one that libcurl has ended.  One
 * that is still in the resolver is kept apart, and freed when that lets go of
 * it.
 */
static void
end_late(LeWorker *w, Call *call)
{
	const char *what = "the server's answer";

	call->result = CURLE_OPERATION_TIMEDOUT;
	if (call->looking_up)
	{
		what = "looking up the server's name";
		call->left_behind = true;
	}
	else if (!has_passed(call, CURLINFO_PRETRANSFER_TIME_T))
		what = "connecting";
	snprintf(call->error, sizeof(call->error), "%s timed out", what);
	dlist_delete(&call->node);
	dlist_push_tail(&w->http->finished, &call->node);
}

static void
enforce_limits(LeWorker *w, le_time now)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &w->http->under_way)
	{
		Call	   *call = dlist_container(Call, node, iter.cur);

		if (now >= call->answer_by)
			end_late(w, call);
		else if (call->connect_by == 0 || now < call->connect_by)
			continue;
		else if (has_passed(call, CURLINFO_PRETRANSFER_TIME_T))
			call->connect_by = 0;
		else
			end_late(w, call);
	}
}

/*
 * Hand an answer out, and free its call unless a look-up still needs it.  A
 * call left behind comes here again when its look-up is over.
 */
static void
settle_call(LeWorker *w, Call *call)
{
	if (call->left_behind && !call->handed_out)
	{
		dlist_push_tail(&w->http->left_behind, &call->node);
		call->handed_out = true;
		hand_out(w, call);
		return;
	}
	if (!call->handed_out)
		hand_out(w, call);
	free_call(call);
}

/*
 * Move all requests on and hand out the answers that have come.  If a done()
 * throws, its answer counts as delivered.
 */
void
le_http_run(LeWorker *w)
{
	LeHttp	   *http = w->http;

	drive_libcurl(w);
	enforce_limits(w, le_now());
	while (!dlist_is_empty(&http->finished))
		settle_call(w, dlist_container(Call, node,
									   dlist_pop_head_node(&http->finished)));
}
