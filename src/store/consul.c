/*-------------------------------------------------------------------------
 *
 * consul.c
 *		The store "consul": its settings and abilities.
 *
 * src/store/consul.c
 *
 *-------------------------------------------------------------------------
 */
#ifdef FRONTEND
#include "postgres_fe.h"
#else
#include "postgres.h"
#endif

#include "store/consul_plan.h"
#include "store/consul_wire.h"

/* ---- the store ---- */

static char *url = "http://127.0.0.1:8500";
static char *token_file = "";
static char *datacenter = "";
static char *prefix = "leader_election";
static bool takeover = true;

static const LeSetting settings[] = {
	{
		.name = "leader_election.consul_url",
		.kind = LE_SETTING_URL,
		.brief = "Sets the URL of the Consul agent.",
		.text = &url
	},
	{
		.name = "leader_election.consul_token_file",
		.kind = LE_SETTING_FILE,
		.brief = "Names the file that holds the Consul ACL token.",
		.detail = "It is read again on reload. Empty means no token.",
		.text = &token_file
	},
	{
		.name = "leader_election.consul_datacenter",
		.kind = LE_SETTING_WORD,
		.brief = "Sets the Consul datacenter.",
		.detail = "Empty means the agent's own.",
		.text = &datacenter
	},
	{
		.name = "leader_election.consul_key_prefix",
		.kind = LE_SETTING_PREFIX,
		.brief = "Sets the prefix of all keys in Consul.",
		.detail = "All instances that elect among each other share it.",
		.text = &prefix
	},
	{
		.name = "leader_election.consul_takeover",
		.kind = LE_SETTING_FLAG,
		.brief = "Takes over from a leader that has been silent for its whole lease.",
		.detail = "Off means to wait until Consul ends its session.",
		.flag = &takeover
	},
};

static const char *
consul_servers(void)
{
	return url;
}

static const char *
consul_token_file(void)
{
	return token_file;
}

static void
consul_namespace(LeNamespace *ns)
{
	strlcpy(ns->prefix, prefix, sizeof(ns->prefix));
	strlcpy(ns->part, datacenter, sizeof(ns->part));
}

static bool
consul_takes_over(void)
{
	return takeover;
}

/* When is there another leader after a crash? */
static LeFinding
failover(const LeTiming *t)
{
	le_duration jitter = le_earliest(t->lease / 20, LE_SEC / 4);
	LeFinding	finding = {.level = LE_LEVEL_OK, .topic = "failover"};

	if (takeover)
		finding.text = psprintf("After a crash another candidate leads within %d ms: lease_ttl + lease_ttl / 4 + %d ms.",
								LE_MS(t->lease + t->lease / 4 + jitter),
								LE_MS(jitter));
	else
	{
		finding.level = LE_LEVEL_WARNING;
		finding.text = psprintf("After a crash another candidate leads within %d ms only: 2 x session TTL (%d ms) + lease_ttl + lease_ttl / 20 + 500 ms, because \"leader_election.consul_takeover\" is off.",
								LE_MS(2 * t->session_ttl + t->lease +
									  t->lease / 20 + LE_SEC / 2),
								LE_MS(t->session_ttl));
	}
	return finding;
}

/* Consul takes a lock-delay in whole seconds. */
static LeFinding
lock_delay(const LeTiming *t)
{
	le_duration delay = le_consul_lock_delay_seconds(t->lease) * LE_SEC;
	le_duration trusted = t->lease - t->margin;

	return (LeFinding)
	{
		.level = delay >= trusted ? LE_LEVEL_OK : LE_LEVEL_ERROR,
		.topic = "lock-delay",
		.text = psprintf("Consul's lock-delay (%d ms) covers the %d ms for which a leader may believe after its last proof; session TTL %d ms.",
						 LE_MS(delay), LE_MS(trusted), LE_MS(t->session_ttl))
	};
}

static int
consul_explain(const LeTiming *timing, int elections, LeFinding *findings)
{
	(void) elections;
	findings[0] = failover(timing);
	findings[1] = lock_delay(timing);
	return 2;
}

const LeStore le_store_consul = {
	.name = "consul",
	.between_instances = true,
	.has_sessions = true,
	.takes_over = consul_takes_over,
	.lease = {
		.most = LE_MAX_LEASE,
		.least_session = LE_CONSUL_LEAST_SESSION,
		.hiccup = 4 * LE_SEC,
		.hiccup_cause = "a change of Consul's own leader",
	},
	.batch = {
		.capacity = LE_CONSUL_MAX_STEPS - LE_CONSUL_COMMON_STEPS,
		.takes = le_consul_takes,
		.joins = le_consul_joins,
	},
	.watch = {
		.kind = LE_WATCH_ALL,
		.tells = true,
		.park_ms = 10000,
		.park_grace_ms = 10000 / 16 + 8000, /* a sixteenth, and 7 s when
											 * Consul has no leader */
	},
	.claims = {
		.lists_all = true,
	},
	.settings = {
		.list = settings,
		.n = lengthof(settings),
		.namespace = consul_namespace,
	},
	.servers = {
		.urls = consul_servers,
		.setting = "leader_election.consul_url",
	},
	.secret = {
		.file = consul_token_file,
		.setting = "leader_election.consul_token_file",
		.header = "X-Consul-Token: ",
	},
	.people = {
		.namespace_check = LE_OP_CHECK_PREFIX,
		.namespace_verb = "use the key prefix",
		.foreign_key = "the election's key was made by something else: it lacks the lock flag of Consul's clients",
		.explain = consul_explain,
	},
	.codec = {
		.encode = le_consul_encode,
		.decode = le_consul_decode,
	},
};
