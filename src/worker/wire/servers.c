/*-------------------------------------------------------------------------
 *
 * servers.c
 *		The servers of the store, and which of them to ask.
 *
 * The first of the list that answers is asked.  One that does not, or that
 * says that it cannot serve, is passed over until it is ready again.  Separate
 * probes find that out, so that no renewal has to wait for it.  If none is
 * ready, all are tried.
 *
 * src/worker/wire/servers.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "settings.h"
#include "shmem/clock.h"
#include "worker/wire/http.h"
#include "worker/wire/servers.h"

/* Interval of probes of a failed server, or of new attempts where none can be
 * probed. */
#define PROBE_GAP		(2 * LE_SEC)
#define PROBE_TIMEOUT	(2 * LE_SEC)

typedef struct Server
{
	char	   *url;			/* without a slash at its end */
	bool		failed;
	bool		probing;
	le_time		probe_at;
	le_time		failed_at;
} Server;

struct LeServers
{
	Server		each[LE_MAX_SERVERS];
	int			n;
	uint32		list;			/* counts lists */
};

LeServers *
le_servers_new(void)
{
	return MemoryContextAllocZero(TopMemoryContext, sizeof(LeServers));
}

/* The next URL of the setting, without a slash at its end. */
static bool
next_url(const char **urls, char *url, size_t size)
{
	size_t		len;

	if (!le_next_name(urls, url, size))
		return false;
	len = strlen(url);
	while (len > 0 && url[len - 1] == '/')
		url[--len] = '\0';
	return true;
}

/* Are these the servers that are asked already? */
static bool
are_listed(const LeServers *servers, const char *urls)
{
	char		url[MAXPGPATH];
	int			n = 0;

	while (n < LE_MAX_SERVERS && next_url(&urls, url, sizeof(url)))
	{
		if (n == servers->n || strcmp(servers->each[n].url, url) != 0)
			return false;
		n++;
	}
	return n == servers->n;
}

/*
 * Take over the setting, at start and after a reload.  True: other servers are
 * asked from now on, perhaps of another store.
 */
bool
le_servers_configure(LeWorker *w, const char *urls)
{
	LeServers  *servers = w->servers;
	char		url[MAXPGPATH];

	if (are_listed(servers, urls))
		return false;
	for (int i = 0; i < servers->n; i++)
		pfree(servers->each[i].url);
	memset(servers->each, 0, sizeof(servers->each));
	servers->n = 0;
	servers->list++;
	while (servers->n < LE_MAX_SERVERS && next_url(&urls, url, sizeof(url)))
		servers->each[servers->n++].url =
			MemoryContextStrdup(TopMemoryContext, url);
	return true;
}

static Server *
find_server(LeWorker *w, LeServerRef ref)
{
	LeServers  *servers = w->servers;

	return ref.list == servers->list ? &servers->each[ref.number] : NULL;
}

bool
le_servers_several(LeWorker *w)
{
	return w->servers->n > 1;
}

/* Has the server failed, without an answer since? */
static bool
passed_over(const Server *server)
{
	return server->failed &&
		(le_configured_store()->servers.ready_path != NULL ||
		 le_now() < server->probe_at);
}

/*
 * Choose the first server that has not failed, or else the one that failed
 * longest ago, but none of "tried".  False: all were.
 */
bool
le_server_pick(LeWorker *w, unsigned *tried, LeServerRef *server)
{
	LeServers  *servers = w->servers;
	int			best = -1;

	for (int i = 0; i < servers->n; i++)
	{
		if (*tried & (1u << i))
			continue;
		if (best < 0 || (passed_over(&servers->each[best]) &&
						 (!passed_over(&servers->each[i]) ||
						  servers->each[i].failed_at <
						  servers->each[best].failed_at)))
			best = i;
	}
	if (best < 0)
		return false;
	*tried |= 1u << best;
	server->list = servers->list;
	server->number = best;
	return true;
}

const char *
le_server_url(LeWorker *w, LeServerRef ref)
{
	const Server *server = find_server(w, ref);

	return server == NULL ? "" : server->url;
}

/* The name of the store in messages: the server that is asked at present. */
const char *
le_server_address(LeWorker *w)
{
	unsigned	tried = 0;
	LeServerRef first;

	return le_server_pick(w, &tried, &first) ? le_server_url(w, first) :
		"nowhere";
}

void
le_server_failed(LeWorker *w, LeServerRef ref, const char *why)
{
	Server	   *server = find_server(w, ref);
	bool		newly_failed;

	if (server == NULL)
		return;
	newly_failed = !server->failed;
	server->failed = true;
	server->failed_at = le_now();
	if (newly_failed || le_configured_store()->servers.ready_path == NULL)
		server->probe_at = le_now() + PROBE_GAP;
	if (!newly_failed)
		return;
	if (w->servers->n > 1)
		ereport(LOG,
				(errmsg("leader_election store server at %s failed: %s",
						server->url, why),
				 errdetail("The next request goes to %s.",
						   le_server_address(w))));
}

void
le_server_answered(LeWorker *w, LeServerRef ref)
{
	Server	   *server = find_server(w, ref);

	if (server == NULL || !server->failed)
		return;
	server->failed = false;
	if (w->servers->n > 1)
		ereport(LOG,
				(errmsg("leader_election store server at %s answers again",
						server->url)));
}

/* ---- probes of failed servers ---- */

static void
probe_answered(LeWorker *w, void *arg, const LeResponse *response)
{
	LeServerRef *ref = arg;
	Server	   *server = find_server(w, *ref);

	if (server != NULL)
	{
		server->probing = false;
		server->probe_at = le_now() + PROBE_GAP;
		if (response->net == LE_NET_OK && response->http.status == 200)
			le_server_answered(w, *ref);
	}
	pfree(ref);
}

static void
probe(LeWorker *w, int number)
{
	LeServers  *servers = w->servers;
	LeRequest request = {.http.method = "GET", .max_answer = 64 * 1024};
	LeServerRef *ref = MemoryContextAlloc(TopMemoryContext,
										   sizeof(LeServerRef));

	ref->list = servers->list;
	ref->number = number;
	servers->each[number].probing = true;
	initStringInfo(&request.http.path);
	initStringInfo(&request.http.headers);
	appendStringInfoString(&request.http.path,
						   le_configured_store()->servers.ready_path);
	request.base = servers->each[number].url;
	le_http_send(w, &request, LE_LANE_READ, PROBE_TIMEOUT, probe_answered,
				 ref);
	pfree(request.http.path.data);
	pfree(request.http.headers.data);
}

static bool
to_be_probed(LeWorker *w, const Server *server)
{
	return w->servers->n > 1 && server->failed && !server->probing &&
		le_configured_store()->servers.ready_path != NULL;
}

void
le_servers_run_timers(LeWorker *w)
{
	LeServers  *servers = w->servers;
	le_time		now = le_now();

	for (int i = 0; i < servers->n; i++)
		if (to_be_probed(w, &servers->each[i]) &&
			now >= servers->each[i].probe_at)
			probe(w, i);
}

le_time
le_servers_timer(LeWorker *w)
{
	LeServers  *servers = w->servers;
	le_time		next = 0;

	for (int i = 0; i < servers->n; i++)
		if (to_be_probed(w, &servers->each[i]))
			next = le_earliest(next, servers->each[i].probe_at);
	return next;
}
