/*-------------------------------------------------------------------------
 *
 * azure_settings.c
 *		The store "azure": its settings and abilities.
 *
 * src/store/azure_settings.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "store/azure.h"
#include "store/azure_auth.h"

/* Reads of awaited elections that may be in flight at a time. */
#define MAX_PARKED		16

/* ---- the store ---- */

/* The default is Azurite's, the service's emulator, on this machine. */
static char *container_url =
	"http://127.0.0.1:10000/devstoreaccount1/leader-election";
static char *prefix = "leader_election";
static char *sas_file = "";
static int	poll_interval = 2000;

static const LeSetting settings[] = {
	{
		.name = "leader_election.azure_container_url",
		.kind = LE_SETTING_URL,
		.brief = "Sets the URL of the blob container that holds the leases.",
		.detail = "A change takes effect with the next store session.",
		.text = &container_url
	},
	{
		.name = "leader_election.azure_prefix",
		.kind = LE_SETTING_PREFIX,
		.brief = "Sets the prefix of the names of all blobs.",
		.detail = "A change takes effect with the next store session.",
		.text = &prefix
	},
	{
		.name = "leader_election.azure_sas_file",
		.kind = LE_SETTING_FILE,
		.brief = "Names the file that holds the shared access signature.",
		.detail = "It is read again on reload, and when the service refuses the signature. Empty means that none is sent.",
		.text = &sas_file
	},
	{
		.name = "leader_election.azure_identity",
		.kind = LE_SETTING_WORD,
		.brief = "Sets the identity in whose name blobs are used, in place of a shared access signature.",
		.detail = "\"system\" is the machine's own, a client id one that was assigned to it, \"workload\" that of a Kubernetes service account. Empty means none.",
		.text = &le_azure_identity
	},
	{
		.name = "leader_election.azure_identity_url",
		.kind = LE_SETTING_ISSUER,
		.brief = "Sets the URL of the service that gives out the tokens of the machine's identities.",
		.text = &le_azure_identity_url
	},
	{
		.name = "leader_election.azure_poll_interval",
		.kind = LE_SETTING_MS,
		.brief = "Sets how often an election that another instance leads is read.",
		.ms = &poll_interval,
		.min_ms = 500,
		.max_ms = 30000
	},
};

static const char *
azure_servers(void)
{
	return container_url;
}

static void
azure_namespace(LeNamespace *ns)
{
	strlcpy(ns->prefix, prefix, sizeof(ns->prefix));
	strlcpy(ns->part, container_url, sizeof(ns->part));
}

static const char *
azure_secret_file(void)
{
	return le_azure_identity[0] == '\0' ? sas_file :
		le_azure_is_workload(le_azure_identity) ? le_azure_token_file() : "";
}

static const char *
azure_identity(void)
{
	return le_azure_identity;
}

static void
azure_judge_secret(const char *secret, int64 now, LeFinding *finding)
{
	memset(finding, 0, sizeof(*finding));
	if (le_azure_identity[0] == '\0')
		le_azure_judge_sas(secret, now, finding);
}

/* The last segment of the path, of 3 to 63 characters. */
static bool
names_container(const char *path)
{
	const char *last = strrchr(path, '/');
	size_t		len = last == NULL ? 0 : strlen(last + 1);

	return len >= 3 && len <= 63 && last[1] != '-' && last[len] != '-' &&
		strspn(last + 1, "abcdefghijklmnopqrstuvwxyz0123456789-$") == len;
}

/* The fault of a well-formed URL, or NULL. */
static const char *
azure_url_fault(const char *url)
{
	bool		tls = strncmp(url, "https://", 8) == 0;
	const char *host = url + (tls ? 8 : 7);
	size_t		len = strcspn(host, host[0] == '[' ? "/" : ":/");

	if (host[0] == '[')
		len = strcspn(host, "]") + 1;
	if (strlen(url) > LE_MAX_PART_LEN)
		return psprintf("The URL has at most %d bytes.", LE_MAX_PART_LEN);
	if (!tls && !le_is_loopback(url))
		return "The URL must begin with https:// unless it is of this machine: the signature would go over the network as it is.";
	if (strstr(pnstrdup(host, len), "-secondary.") != NULL)
		return "The secondary endpoint of an account lags behind and takes no leases.";
	if (!names_container(host))
		return "The URL must end in the name of a container: 3 to 63 lower-case letters, digits and \"-\".";
	return NULL;
}

/*
 * Requests in 30 days.  Both renewals and reads come up to a tenth of their
 * interval early, a twentieth on the average.
 */
static double
monthly(le_duration interval, int elections)
{
	return elections * 30.0 * 86400 * LE_SEC / (Max(interval, LE_MSEC) * 0.95);
}

/* A sample price: "all other operations" in the Hot tier. */
#define PRICE	(0.0044 / 10000)

/* Checks that an identity or a SAS is configured. */
static int
explain_identity(LeFinding *finding)
{
	const char *fault = le_azure_is_workload(le_azure_identity) ?
		le_azure_workload_fault() : NULL;

	finding->topic = "secrets";
	finding->level = LE_LEVEL_ERROR;
	if (fault != NULL)
		finding->text = psprintf("\"leader_election.azure_identity\" is \"workload\": %s",
								 fault);
	else if (le_azure_identity[0] != '\0' && sas_file[0] != '\0')
	{
		finding->level = LE_LEVEL_WARNING;
		finding->text = "Both \"leader_election.azure_identity\" and \"leader_election.azure_sas_file\" are set: the signature is not used.";
	}
	else if (le_azure_identity[0] == '\0' && sas_file[0] == '\0')
		finding->text = "Neither \"leader_election.azure_sas_file\" nor \"leader_election.azure_identity\" is set: the service does not know who asks.";
	else
		return 0;
	return 1;
}

static int
azure_explain(const LeTiming *timing, int elections, LeFinding *findings)
{
	int			n = Max(elections, 1);
	double		leads = monthly(timing->renew_interval, n);
	double		waits = monthly(poll_interval * LE_MSEC, n);

	findings[0] = (LeFinding)
	{
		.level = LE_LEVEL_OK,
		.topic = "failover",
		.text = psprintf("After a crash another candidate leads within %d ms plus a few requests: lease_ttl in whole seconds + azure_poll_interval. Azure's documents allow it a minute until an expired lease can be taken.",
						 (int) ((timing->lease + LE_SEC - 1) / LE_SEC * 1000) +
						 poll_interval)
	};
	findings[1] = (LeFinding)
	{
		.level = LE_LEVEL_OK,
		.topic = "cost",
		.text = psprintf("%d %s about %.0f requests of this instance in 30 days if it leads (one each renew_interval, %d ms) and %.0f if it waits (azure_poll_interval, %d ms): %.2f to %.2f $ at a sample price of 0.0044 $ per 10,000.",
						 n, n == 1 ? "election takes" : "elections take",
						 leads, (int) (timing->renew_interval / LE_MSEC),
						 waits, poll_interval, Min(leads, waits) * PRICE,
						 Max(leads, waits) * PRICE)
	};
	return 2 + explain_identity(&findings[2]);
}

static bool
azure_performs(LeOpKind kind)
{
	switch (kind)
	{
		case LE_OP_READ:
		case LE_OP_ACQUIRE:
		case LE_OP_PUBLISH:
		case LE_OP_RELEASE:
		case LE_OP_RENEW_TERMS:
		case LE_OP_WATCH:
		case LE_OP_LIST_HELD:
		case LE_OP_READ_CLAIM:
		case LE_OP_CLAIM:
		case LE_OP_COMPLETE:
		case LE_OP_LIST_CLAIMS:
		case LE_OP_AUTHENTICATE:
			return false;
		default:
			return true;
	}
}

const LeStore le_store_azure = {
	.name = "azure",
	.between_instances = true,
	.key_leases = true,
	.lease = {
		.renews_apart = true,
		.least = 15 * LE_SEC,
		.most = LE_MAX_LEASE,
		.granularity = LE_SEC,
	},
	.batch = {
		.max_renewals = 1,
	},
	.watch = {
		.kind = LE_WATCH_EACH,
		.park_grace_ms = 5000,
		.max_parked = MAX_PARKED,
		.poll_ms = &poll_interval,
	},
	.claims = {
		.apart = true,
		.lists_all = true,
	},
	.settings = {
		.list = settings,
		.n = lengthof(settings),
		.namespace = azure_namespace,
	},
	.servers = {
		.urls = azure_servers,
		.setting = "leader_election.azure_container_url",
		.url_fault = azure_url_fault,
	},
	.secret = {
		.file = azure_secret_file,
		.setting = "leader_election.azure_sas_file",
		.authenticates = azure_identity,
		.fetched_header = "Authorization: Bearer ",
		.judge = azure_judge_secret,
	},
	.people = {
		.namespace_check = LE_OP_LIST_HELD,
		.namespace_verb = "list blobs",
		.foreign_key = "the blob was not written by this extension",
		.explain = azure_explain,
	},
	.codec = {
		.encode = le_azure_encode,
		.decode = le_azure_decode,
		.performs = azure_performs,
		.perform = le_perform_session,
	},
};
