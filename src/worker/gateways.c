/*-------------------------------------------------------------------------
 *
 * gateways.c
 *		The gateways of the store "cassandra", and which of them to ask.
 *
 * The first of the list that answers is asked.  One that does not, or that
 * cannot reach Cassandra, is passed over until it says by itself that it is
 * ready again: it is asked that beside everything else, so that no renewal
 * has to find out by waiting for it.  If none is ready, all are tried.
 *
 * src/worker/gateways.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "compat.h"
#include "settings.h"
#include "shmem/leases.h"
#include "worker/gateways.h"
#include "worker/http.h"

/* How often a gateway that failed is asked whether it is ready. */
#define PROBE_GAP		(2 * LE_SEC)
#define PROBE_TIMEOUT	(2 * LE_SEC)

typedef struct Gateway
{
	char	   *url;			/* without a slash at its end */
	bool		failed;
	bool		probing;
	le_time		probe_at;
	le_time		failed_at;
} Gateway;

static Gateway gateways[LE_MAX_GATEWAYS];
static int	ngateways = 0;
static uint32 list = 0;			/* counts lists */

/* Take over the setting, at start and after a reload. */
void
le_gateways_configure(const char *urls)
{
	char		url[MAXPGPATH];

	for (int i = 0; i < ngateways; i++)
		pfree(gateways[i].url);
	memset(gateways, 0, sizeof(gateways));
	ngateways = 0;
	list++;
	while (ngateways < LE_MAX_GATEWAYS &&
		   le_next_name(&urls, url, sizeof(url)))
	{
		size_t		len = strlen(url);

		while (len > 0 && url[len - 1] == '/')
			url[--len] = '\0';
		gateways[ngateways++].url = MemoryContextStrdup(TopMemoryContext, url);
	}
}

static Gateway *
find(LeGatewayRef ref)
{
	return ref.list == list ? &gateways[ref.number] : NULL;
}

bool
le_gateways_several(void)
{
	return ngateways > 1;
}

/*
 * Whom to ask?  The first that has not failed, or else the one that failed
 * longest ago; none that was tried already.  False: all were.
 */
bool
le_gateway_pick(unsigned *tried, LeGatewayRef *gateway)
{
	int			best = -1;

	for (int i = 0; i < ngateways; i++)
	{
		if (*tried & (1u << i))
			continue;
		if (best < 0 || (gateways[best].failed &&
						 (!gateways[i].failed ||
						  gateways[i].failed_at < gateways[best].failed_at)))
			best = i;
	}
	if (best < 0)
		return false;
	*tried |= 1u << best;
	gateway->list = list;
	gateway->number = best;
	return true;
}

const char *
le_gateway_url(LeGatewayRef ref)
{
	const Gateway *gateway = find(ref);

	return gateway == NULL ? "" : gateway->url;
}

/* How messages name the store: by the gateway that is asked at present. */
const char *
le_gateway_place(void)
{
	unsigned	tried = 0;
	LeGatewayRef first;

	return le_gateway_pick(&tried, &first) ? le_gateway_url(first) : "nowhere";
}

void
le_gateway_failed(LeGatewayRef ref, const char *why)
{
	Gateway    *gateway = find(ref);
	bool		news;

	if (gateway == NULL)
		return;
	news = !gateway->failed;
	gateway->failed = true;
	gateway->failed_at = le_now();
	if (!news)
		return;
	gateway->probe_at = le_now() + PROBE_GAP;
	if (ngateways > 1)
		ereport(LOG,
				(errmsg("leader_election gateway at %s failed: %s",
						gateway->url, why),
				 errdetail("The next request goes to %s.",
						   le_gateway_place())));
}

void
le_gateway_answered(LeGatewayRef ref)
{
	Gateway    *gateway = find(ref);

	if (gateway == NULL || !gateway->failed)
		return;
	gateway->failed = false;
	if (ngateways > 1)
		ereport(LOG,
				(errmsg("leader_election gateway at %s answers again",
						gateway->url)));
}

/* ---- is it ready again? ---- */

static void
probe_answered(void *arg, const LeHttpResponse *response)
{
	LeGatewayRef *ref = arg;
	Gateway    *gateway = find(*ref);

	if (gateway != NULL)
	{
		gateway->probing = false;
		gateway->probe_at = le_now() + PROBE_GAP;
		if (response->net == LE_NET_OK && response->status == 200)
			le_gateway_answered(*ref);
	}
	pfree(ref);
}

static void
probe(int number)
{
	LeHttpRequest request = {.method = "GET", .max_answer = 64 * 1024};
	LeGatewayRef *ref = MemoryContextAlloc(TopMemoryContext,
										   sizeof(LeGatewayRef));

	ref->list = list;
	ref->number = number;
	gateways[number].probing = true;
	initStringInfo(&request.path);
	appendStringInfoString(&request.path, "/readyz");
	request.base = gateways[number].url;
	le_http_send(&request, PROBE_TIMEOUT, probe_answered, ref);
	pfree(request.path.data);
}

static bool
to_be_probed(const Gateway *gateway)
{
	return ngateways > 1 && gateway->failed && !gateway->probing;
}

void
le_gateways_run_timers(void)
{
	le_time		now = le_now();

	for (int i = 0; i < ngateways; i++)
		if (to_be_probed(&gateways[i]) && now >= gateways[i].probe_at)
			probe(i);
}

le_time
le_gateways_timer(void)
{
	le_time		next = 0;

	for (int i = 0; i < ngateways; i++)
		if (to_be_probed(&gateways[i]))
			next = le_earliest(next, gateways[i].probe_at);
	return next;
}
