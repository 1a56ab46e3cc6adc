/*-------------------------------------------------------------------------
 *
 * settings.c
 *		The settings of the extension (leader_election.*).
 *
 * A check hook sees one setting at a time, in no particular order, so rules
 * about several settings (do the timings leave time for three attempts?) are
 * checked where they matter: le_explain_timing() shows the arithmetic, and a
 * node does not lead while it is wrong.
 *
 * src/settings.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "mb/pg_wchar.h"
#include "postmaster/postmaster.h"
#include "utils/json.h"
#include "utils/memutils.h"

#include "compat.h"
#include "settings.h"

static int	store_chosen;		/* leader_election.backend: its number in the
								 * registry of stores */
static char *node_name;			/* as set; le_my_name() has the default */
static char *node_value;

char	   *le_campaign_list;
char	   *le_allowed_list;
int			le_max_hold_off;
bool		le_eligible;
bool		le_standby_eligible;
bool		le_clone_eligible;
bool		le_read_only_eligible;
int			le_max_elections;
int			le_max_events;
int			le_max_jobs = 1000;
int			le_max_tick_ahead = 86400;
int			le_max_clock_offset = 60;
int			le_job_check_interval = 60000;
bool		le_log_error = false;
int			le_lease_ttl;
int			le_renew_interval;
int			le_safety_margin;
int			le_request_timeout;
int			le_shutdown_timeout;
int			le_on_loss;
int			le_cancel_lead;
int			le_commit_margin;
int			le_drain_timeout;
int			le_progress_within;
char	   *le_ca_file;
char	   *le_cert_file;
char	   *le_key_file;

static const struct config_enum_entry losses[] = {
	{"none", LE_ON_LOSS_NONE, false},
	{"cancel", LE_ON_LOSS_CANCEL, false},
	{NULL, 0, false}
};

static bool
printable(const char *s)
{
	for (; *s != '\0'; s++)
		if ((unsigned char) *s < 0x20 || (unsigned char) *s == 0x7f)
			return false;
	return true;
}

static bool
check_node_name(char **newval, void **extra, GucSource source)
{
	if (strlen(*newval) > LE_MAX_NODE_NAME_LEN)
	{
		GUC_check_errdetail("A node name has at most %d bytes.",
							LE_MAX_NODE_NAME_LEN);
		return false;
	}
	if (!printable(*newval) ||
		!pg_verify_mbstr(PG_UTF8, *newval, strlen(*newval), true))
	{
		GUC_check_errdetail("A node name consists of printable characters in UTF-8.");
		return false;
	}
	return true;
}

static bool
check_node_value(char **newval, void **extra, GucSource source)
{
	if (strlen(*newval) > LE_MAX_VALUE_LEN)
	{
		GUC_check_errdetail("A published value has at most %d bytes.",
							LE_MAX_VALUE_LEN);
		return false;
	}
	if (!pg_verify_mbstr(PG_UTF8, *newval, strlen(*newval), true))
	{
		GUC_check_errdetail("A published value must be valid UTF-8.");
		return false;
	}
	return true;
}

/*
 * Take the next name off a comma-separated list.  Returns false at its end.
 * The name in buf is trimmed, and cut if it is too long to be valid anyway.
 */
bool
le_next_name(const char **list, char *buf, size_t size)
{
	const char *p = *list;
	const char *end;
	size_t		len;

	while (*p == ',' || *p == ' ' || *p == '\t' || *p == '\n')
		p++;
	if (*p == '\0')
		return false;
	for (end = p; *end != '\0' && *end != ','; end++)
		;
	*list = end;
	while (end > p && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\n'))
		end--;
	len = Min((size_t) (end - p), size - 1);
	memcpy(buf, p, len);
	buf[len] = '\0';
	return true;
}

static bool
check_campaign(char **newval, void **extra, GucSource source)
{
	const char *list = *newval;
	char		name[LE_MAX_ELECTION_LEN + 2];

	while (le_next_name(&list, name, sizeof(name)))
	{
		if (!le_valid_election_name(name))
		{
			GUC_check_errdetail("\"%s\" is not a valid election name.", name);
			return false;
		}
	}
	return true;
}

/* All elections, in a list of elections. */
#define ALL_ELECTIONS	"*"

/* A name, or a prefix of names that ends in a slash. */
static bool
valid_pattern(const char *pattern)
{
	char		name[LE_MAX_ELECTION_LEN + 2];
	size_t		len = strlcpy(name, pattern, sizeof(name));

	if (strcmp(pattern, ALL_ELECTIONS) == 0)
		return true;
	if (len > 0 && name[len - 1] == '/')
		name[len - 1] = '\0';
	return le_valid_election_name(name);
}

static bool
check_allowed(char **newval, void **extra, GucSource source)
{
	const char *list = *newval;
	char		pattern[LE_MAX_ELECTION_LEN + 2];

	/* The worker gets it in the field of a value. */
	if (strlen(*newval) > LE_MAX_VALUE_LEN)
	{
		GUC_check_errdetail("The list has at most %d bytes.",
							LE_MAX_VALUE_LEN);
		GUC_check_errhint("Elections whose names begin alike can be listed as \"prefix/\".");
		return false;
	}
	while (le_next_name(&list, pattern, sizeof(pattern)))
	{
		if (!valid_pattern(pattern))
		{
			GUC_check_errdetail("\"%s\" is neither an election's name, nor the beginning of names up to a \"/\", nor \"*\".",
								pattern);
			return false;
		}
	}
	return true;
}

/* Does the list, which check_allowed() has accepted, match the election? */
bool
le_allows(const char *list, const char *election)
{
	char		pattern[LE_MAX_ELECTION_LEN + 2];

	while (le_next_name(&list, pattern, sizeof(pattern)))
	{
		size_t		len = strlen(pattern);

		if (strcmp(pattern, ALL_ELECTIONS) == 0 ||
			strcmp(pattern, election) == 0 ||
			(pattern[len - 1] == '/' && strncmp(pattern, election, len) == 0))
			return true;
	}
	return false;
}

/* The beginning of a URL's host; NULL: not a valid URL. */
static const char *
host_of(const char *url)
{
	const char *host = NULL;

	if (strncmp(url, "http://", 7) == 0)
		host = url + 7;
	else if (strncmp(url, "https://", 8) == 0)
		host = url + 8;
	if (host == NULL || *host == '\0' || *host == '/' || !printable(url) ||
		strpbrk(url, " ?#,") != NULL)
	{
		GUC_check_errdetail("The URL must have the form http://host:port or https://host:port, optionally with a path.");
		return NULL;
	}
	if (strcspn(host, "@") < strcspn(host, "/"))
	{
		GUC_check_errdetail("The URL must not contain a user or password.");
		return NULL;
	}
	return host;
}

/* A socket of this machine, as unix:///run/consul.sock. */
static bool
valid_socket(const char *url)
{
	struct sockaddr_un address;
	const char *path = url + strlen(LE_UNIX_SCHEME);

	if (path[0] == '/' && path[1] != '\0' && printable(url) &&
		strpbrk(url, " ,") == NULL && strlen(path) < sizeof(address.sun_path))
		return true;
	GUC_check_errdetail("A socket is named unix:///path, with a path of up to %d bytes.",
						(int) sizeof(address.sun_path) - 1);
	return false;
}

static bool
valid_url(const char *url, const LeStore *store)
{
	const char *fault;

	if (store->servers.url_fault == NULL &&
		strncmp(url, LE_UNIX_SCHEME, strlen(LE_UNIX_SCHEME)) == 0)
		return valid_socket(url);
	if (host_of(url) == NULL)
	{
		if (strchr(url, '@') != NULL && store->secret.setting != NULL)
			GUC_check_errhint("Put a token into the file that \"%s\" names.",
							  store->secret.setting);
		return false;
	}
	if (store->servers.url_fault != NULL &&
		(fault = store->servers.url_fault(url)) != NULL)
	{
		GUC_check_errdetail("%s", fault);
		return false;
	}
	return true;
}

static bool
takes_list(const LeStore *store)
{
	for (int i = 0; i < store->settings.n; i++)
		if (store->settings.list[i].kind == LE_SETTING_URLS)
			return true;
	return false;
}

/* One URL, or several if the store allows a list. */
static bool
valid_urls(const char *list, const LeStore *store)
{
	char		url[MAXPGPATH];
	int			n = 0;

	if (!takes_list(store))
		return valid_url(list, store);
	while (le_next_name(&list, url, sizeof(url)))
	{
		if (!valid_url(url, store))
			return false;
		n++;
	}
	if (n < 1 || n > LE_MAX_SERVERS)
	{
		GUC_check_errdetail("The list must have 1 to %d URLs.",
							LE_MAX_SERVERS);
		return false;
	}
	return true;
}

static bool
check_prefix(char **newval, void **extra, GucSource source)
{
	if (!le_valid_election_name(*newval))
	{
		GUC_check_errdetail("A key prefix has the same form as an election name: up to %d of A-Z a-z 0-9 . _ - /, without empty, \".\" or \"..\" segments.",
							LE_MAX_ELECTION_LEN);
		return false;
	}
	return true;
}

static bool
check_word(char **newval, void **extra, GucSource source)
{
	const char *allowed = "abcdefghijklmnopqrstuvwxyz"
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

	if (strspn(*newval, allowed) != strlen(*newval) ||
		strlen(*newval) > LE_MAX_PART_LEN)
	{
		GUC_check_errdetail("The name consists of letters, digits, \"_\" and \"-\", at most %d of them.",
							LE_MAX_PART_LEN);
		return false;
	}
	return true;
}

/*
 * An issuer sends secrets, so the network needs https.  Link-local addresses,
 * as 169.254.169.254, are answered by the machine's host.
 */
static bool
check_issuer(char **newval, void **extra, GucSource source)
{
	const char *host = host_of(*newval);

	if (host == NULL)
		return false;
	if (le_goes_in_clear(*newval) &&
		(strncmp(host, "169.254.", 8) != 0 ||
		 strspn(host, "0123456789.") != strcspn(host, ":/")))
	{
		GUC_check_errdetail("The URL must begin with https:// unless it is of this machine or of its host (169.254.0.0/16).");
		return false;
	}
	return true;
}

static void
define_string(const char *name, const char *brief, const char *detail,
			  char **variable, const char *boot, GucStringCheckHook check)
{
	DefineCustomStringVariable(name, brief, detail, variable, boot,
							   PGC_SIGHUP, 0, check, NULL, NULL);
}

static void
define_ms(const char *name, const char *brief, const char *detail,
		  int *variable, int boot, int min, int max)
{
	DefineCustomIntVariable(name, brief, detail, variable, boot, min, max,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
}

/* Without libcurl the library cannot talk to a server. */
static bool
check_backend(int *newval, void **extra, GucSource source)
{
#ifdef LE_WITHOUT_CURL
	if (le_store_number(*newval)->between_instances)
	{
		GUC_check_errdetail("The library was built without libcurl, which this store needs.");
		return false;
	}
#endif
	return true;
}

/* The registry as a list of names; the first, which needs no server, is the
 * default. */
static const struct config_enum_entry *
store_names(void)
{
	struct config_enum_entry *names;
	int			n = 0;

	while (le_store_number(n) != NULL)
		n++;
	names = MemoryContextAllocZero(TopMemoryContext, (n + 1) * sizeof(*names));
	for (int i = 0; i < n; i++)
	{
		names[i].name = le_store_number(i)->name;
		names[i].val = i;
	}
	return names;
}

static void
define_identity_settings(void)
{
	DefineCustomEnumVariable("leader_election.backend",
							 "Selects the store that decides who leads.",
							 "\"local\" elects among the sessions of this instance only.",
							 &store_chosen, 0, store_names(),
							 PGC_POSTMASTER, 0, check_backend, NULL, NULL);
	DefineCustomStringVariable("leader_election.node_name",
							   "Sets the name under which this instance takes part.",
							   "Empty means host name and port. It must differ between instances.",
							   &node_name, "", PGC_POSTMASTER, 0,
							   check_node_name, NULL, NULL);
	define_string("leader_election.node_value",
				  "Sets the value that a leader publishes unless it names another.",
				  "Empty means a JSON object with node, host and port.",
				  &node_value, "", check_node_value);
	define_string("leader_election.campaign",
				  "Lists elections that this instance always contends for.",
				  "Names are separated by commas.",
				  &le_campaign_list, "", check_campaign);
	DefineCustomBoolVariable("leader_election.eligible",
							 "Allows this instance to lead.",
							 "Turning it off releases everything that the instance leads.",
							 &le_eligible, true, PGC_SIGHUP, 0,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("leader_election.standby_eligible",
							 "Allows this instance to lead while it is a standby.",
							 NULL,
							 &le_standby_eligible, false, PGC_SIGHUP, 0,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("leader_election.clone_eligible",
							 "Allows this instance to lead beside one that shares a system identifier with it.",
							 "Off: of two primaries that are copies of one data directory, the one that joined later does not lead.",
							 &le_clone_eligible, false, PGC_SIGHUP, 0,
							 NULL, NULL, NULL);
	DefineCustomBoolVariable("leader_election.read_only_eligible",
							 "Allows this instance to lead while its transactions are read-only by default.",
							 "Off: an instance does not lead if its configuration turns \"default_transaction_read_only\" on, and le_run() runs nothing where a role or database turns it on.",
							 &le_read_only_eligible, false, PGC_SIGHUP, 0,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("leader_election.max_elections",
							"Sets how many elections the lease table has room for.",
							"Each takes some 2 kB of shared memory.",
							&le_max_elections, 256, 1, 100000,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("leader_election.max_events",
							"Sets how many events of each kind and runs of jobs are remembered.",
							"For le_events and le_history(); each takes some 3000 bytes of shared memory.",
							&le_max_events, 1000, 16, 1000000,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("leader_election.max_jobs",
							"Sets how many jobs an election can have.",
							"Each is a record of its last tick in the store.",
							&le_max_jobs, 1000, 1, 1000000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("leader_election.max_tick_ahead",
							"Sets how far ahead of the clock a tick can be claimed.",
							"A tick in the far future would make all before it count as taken.",
							&le_max_tick_ahead, 86400, 0, 366 * 86400,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("leader_election.max_clock_offset",
							"Sets how far the wall clocks of this instance and the store may differ.",
							"Beyond it no tick is claimed here. No lease depends on wall clocks.",
							&le_max_clock_offset, 60, 1, 366 * 86400,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	define_ms("leader_election.job_check_interval",
			  "Sets how often the records of all jobs are read, for events and monitoring.",
			  "It is done while this instance holds or seeks an election; 0: only for le_jobs.",
			  &le_job_check_interval, 60000, 0, 3600000);
	DefineCustomBoolVariable("leader_election.log_error",
							 "Keeps the first line of the error message of a job that fails.",
							 "It goes into the store, for le_jobs; off: the SQLSTATE alone.",
							 &le_log_error, false, PGC_SUSET, 0,
							 NULL, NULL, NULL);
}

static void
define_privilege_settings(void)
{
	DefineCustomStringVariable("leader_election.allowed_elections",
							   "Lists elections that a session may change or depend on.",
							   "Names, and beginnings of names up to a \"/\", are separated by commas; \"*\" means all.",
							   &le_allowed_list, ALL_ELECTIONS, PGC_SUSET, 0,
							   check_allowed, NULL, NULL);
	DefineCustomIntVariable("leader_election.max_hold_off",
							"Sets the longest hold-off that a session may ask for.",
							"It bounds the hold_off of le_step_down().",
							&le_max_hold_off, 86400, 30, 366 * 86400,
							PGC_SUSET, GUC_UNIT_S, NULL, NULL, NULL);
}

static void
define_timing_settings(void)
{
	define_ms("leader_election.lease_ttl",
			  "Sets how long a lease lasts without renewal.",
			  "A change takes effect with the next store session.",
			  &le_lease_ttl, 15000, 3000, 60000);
	define_ms("leader_election.renew_interval",
			  "Sets how often leases are renewed.",
			  "0 means a third of lease_ttl.",
			  &le_renew_interval, 0, 0, 30000);
	define_ms("leader_election.safety_margin",
			  "Sets how long before a lease's end the leader stops believing in it.",
			  "It covers clocks that run at different rates.",
			  &le_safety_margin, 1000, 100, 30000);
	define_ms("leader_election.request_timeout",
			  "Sets how long to wait for one answer of the store.",
			  NULL,
			  &le_request_timeout, 5000, 100, 60000);
	define_ms("leader_election.shutdown_timeout",
			  "Sets how long a shutdown may wait for leases to be released.",
			  NULL,
			  &le_shutdown_timeout, 2000, 0, 60000);
}

static void
define_job_settings(void)
{
	DefineCustomEnumVariable("leader_election.on_loss",
							 "Sets what happens to a running statement when its term is about to end.",
							 "\"cancel\" cancels it cancel_lead before the deadline, \"none\" leaves it to the check at commit.",
							 &le_on_loss, LE_ON_LOSS_NONE, losses,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	define_ms("leader_election.cancel_lead",
			  "Sets how long before its term's deadline a statement is canceled.",
			  "It must be more than commit_margin.",
			  &le_cancel_lead, 1000, 10, 30000);
	define_ms("leader_election.commit_margin",
			  "Sets how much time before its term's deadline a transaction needs to commit.",
			  "With less than that left, the commit of a bound transaction is refused.",
			  &le_commit_margin, 250, 0, 30000);
	define_ms("leader_election.drain_timeout",
			  "Sets how long a term that is given up waits for the transactions bound to it.",
			  "They are canceled then, and the store is told.",
			  &le_drain_timeout, 5000, 0, 600000);
	/* Whole seconds: no schedule of pg_cron is finer. */
	DefineCustomIntVariable("leader_election.progress_within",
							"Sets how long this instance may lead an election without progress.",
							"It is given up then, for as long again or longer. 0 turns this off.",
							&le_progress_within, 0, 0, 366 * 86400,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
}

/*
 * A check hook does not know its setting, and the hint on a URL names another
 * setting of the same store, so each store needs a hook.
 */
#define URL_CHECK(number) \
static bool \
check_urls_##number(char **newval, void **extra, GucSource source) \
{ \
	return valid_urls(*newval, le_store_number(number)); \
}

URL_CHECK(0)
URL_CHECK(1)
URL_CHECK(2)
URL_CHECK(3)
URL_CHECK(4)
URL_CHECK(5)

static const GucStringCheckHook url_checks[] = {
	check_urls_0, check_urls_1, check_urls_2, check_urls_3, check_urls_4,
	check_urls_5
};

static const GucStringCheckHook text_checks[] = {
	[LE_SETTING_PREFIX] = check_prefix,
	[LE_SETTING_WORD] = check_word,
	[LE_SETTING_ISSUER] = check_issuer,
	[LE_SETTING_FILE] = NULL,
};

/* The setting's variable holds the default. */
static void
define_store_setting(const LeSetting *s, int store)
{
	switch (s->kind)
	{
		case LE_SETTING_URL:
		case LE_SETTING_URLS:
			if (store >= lengthof(url_checks))
				elog(FATAL, "leader_election has more stores than URL_CHECK()s");
			define_string(s->name, s->brief, s->detail, s->text, *s->text,
						  url_checks[store]);
			break;
		case LE_SETTING_FLAG:
			DefineCustomBoolVariable(s->name, s->brief, s->detail, s->flag,
									 *s->flag, PGC_SIGHUP, 0,
									 NULL, NULL, NULL);
			break;
		case LE_SETTING_MS:
			define_ms(s->name, s->brief, s->detail, s->ms, *s->ms, s->min_ms,
					  s->max_ms);
			break;
		default:
			define_string(s->name, s->brief, s->detail, s->text, *s->text,
						  text_checks[s->kind]);
			break;
	}
}

/* For all stores: a configuration file may be shared, or prepared. */
static void
define_store_settings(void)
{
	const LeStore *store;

	for (int i = 0; (store = le_store_number(i)) != NULL; i++)
		for (int k = 0; k < store->settings.n; k++)
			define_store_setting(&store->settings.list[k], i);
}

static void
define_tls_settings(void)
{
	define_string("leader_election.ca_file",
				  "Names the file with the certificates of trusted authorities.",
				  "Empty means those of the system.",
				  &le_ca_file, "", NULL);
	define_string("leader_election.cert_file",
				  "Names the file with this client's certificate.",
				  NULL,
				  &le_cert_file, "", NULL);
	define_string("leader_election.key_file",
				  "Names the file with this client's private key.",
				  NULL,
				  &le_key_file, "", NULL);
}

void
le_define_settings(void)
{
	define_identity_settings();
	define_privilege_settings();
	define_timing_settings();
	define_job_settings();
	define_store_settings();
	define_tls_settings();
	MarkGUCPrefixReserved("leader_election");
}

const LeStore *
le_configured_store(void)
{
	return le_store_number(store_chosen);
}

void
le_configured_timing(LeTiming *timing)
{
	timing->lease = le_lease_ttl * LE_MSEC;
	timing->margin = le_safety_margin * LE_MSEC;
	timing->request_timeout = le_request_timeout * LE_MSEC;
	le_store_limits(le_configured_store(), timing);
	timing->renew_interval = le_renew_interval * LE_MSEC;
	if (timing->renew_interval == 0)
		timing->renew_interval = le_default_interval(timing->lease);
}

/*
 * True if a node may lead with these timings; otherwise the reason, with the
 * numbers, is appended to detail.
 */
bool
le_explain_timing(const LeTiming *t, StringInfo detail)
{
	switch (le_timing_fault(t))
	{
		case LE_TIMING_OK:
			return true;
		case LE_TIMING_LEASE:
			appendStringInfo(detail,
							 "lease_ttl (%d ms) must be at %s %d ms with the store \"%s\".",
							 LE_MS(t->lease),
							 t->lease < t->least_lease ? "least" : "most",
							 LE_MS(t->lease < t->least_lease ? t->least_lease :
								   t->most_lease),
							 le_configured_store()->name);
			break;
		case LE_TIMING_MARGIN:
			appendStringInfo(detail,
							 "safety_margin (%d ms) must be less than half of lease_ttl (%d ms / 2 = %d ms).",
							 LE_MS(t->margin), LE_MS(t->lease),
							 LE_MS(t->lease / 2));
			break;
		case LE_TIMING_INTERVAL:
			appendStringInfo(detail,
							 t->granularity == 0 ?
							 "renew_interval (%d ms) plus %d attempts of at least %d ms need %d ms, but lease_ttl minus safety_margin leaves %d ms - %d ms = %d ms." :
							 "renew_interval (%d ms) plus %d attempts of at least %d ms need %d ms, but lease_ttl minus safety_margin and the store's granularity leaves %d ms - %d ms = %d ms.",
							 LE_MS(t->renew_interval), LE_ATTEMPTS,
							 LE_MS(LE_MIN_ATTEMPT),
							 LE_MS(t->renew_interval +
								   LE_ATTEMPTS * LE_MIN_ATTEMPT),
							 LE_MS(t->lease),
							 LE_MS(t->margin + t->granularity),
							 LE_MS(t->lease - t->margin - t->granularity));
			break;
	}
	return false;
}

/*
 * The same for cancel_lead: a cancel must come before commits are refused, and
 * not while a healthy leader waits for its next renewal.
 */
bool
le_explain_cancel_lead(const LeTiming *t, StringInfo detail)
{
	le_duration lead = le_cancel_lead * LE_MSEC;
	le_duration taken = t->margin + t->granularity;
	le_duration healthy = t->lease - taken - t->renew_interval;

	if (le_cancel_lead <= le_commit_margin)
		appendStringInfo(detail,
						 "cancel_lead (%d ms) must be more than commit_margin (%d ms).",
						 le_cancel_lead, le_commit_margin);
	else if (lead >= healthy)
		appendStringInfo(detail,
						 t->granularity == 0 ?
						 "cancel_lead (%d ms) must be less than lease_ttl minus safety_margin minus renew_interval: %d ms - %d ms - %d ms = %d ms." :
						 "cancel_lead (%d ms) must be less than lease_ttl minus safety_margin and the store's granularity minus renew_interval: %d ms - %d ms - %d ms = %d ms.",
						 le_cancel_lead, LE_MS(t->lease), LE_MS(taken),
						 LE_MS(t->renew_interval), LE_MS(healthy));
	else
		return true;
	return false;
}

/* NULL: as the setting says. */
LeOnLoss
le_on_loss_named(const char *name)
{
	if (name == NULL)
		return (LeOnLoss) le_on_loss;
	for (int i = 0; losses[i].name != NULL; i++)
		if (strcmp(name, losses[i].name) == 0)
			return (LeOnLoss) losses[i].val;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid on_loss: \"%s\"", name),
			 errhint("It is \"none\" or \"cancel\".")));
	return LE_ON_LOSS_NONE;		/* keep compilers quiet */
}

/* Can the network read traffic to this URL? */
bool
le_goes_in_clear(const char *url)
{
	return strncmp(url, "http://", 7) == 0 && !le_is_loopback(url);
}

/*
 * Could others than this server and root read a secret from the file?  The
 * rule is PostgreSQL's for its private key: a group may read root's file.
 */
bool
le_others_can_read(const char *file)
{
	struct stat st;

	if (file[0] == '\0' || stat(file, &st) != 0)
		return false;
	if (st.st_uid == 0)
		return (st.st_mode & (S_IWGRP | S_IXGRP | S_IRWXO)) != 0;
	return (st.st_mode & (S_IRWXG | S_IRWXO)) != 0;
}

static void
host_name(char *buf, size_t size)
{
	if (gethostname(buf, size) != 0)
		strlcpy(buf, "localhost", size);
	buf[size - 1] = '\0';
}

/* This node's name; host:port unless it is set. */
const char *
le_my_name(void)
{
	static char name[LE_MAX_NODE_NAME_LEN + 1];

	if (node_name[0] != '\0')
		return node_name;
	if (name[0] == '\0')
	{
		char		host[LE_MAX_NODE_NAME_LEN - 8];

		host_name(host, sizeof(host));
		snprintf(name, sizeof(name), "%s:%d", host, PostPortNumber);
	}
	return name;
}

static void
append_json(StringInfo buf, const char *key, const char *value)
{
	escape_json(buf, key);
	appendStringInfoString(buf, ": ");
	escape_json(buf, value);
}

/* The default value of this node, in a buffer that the next call reuses. */
const char *
le_my_value(void)
{
	static char value[LE_MAX_VALUE_LEN + 1];
	StringInfoData buf;
	char		host[256];

	if (node_value[0] != '\0')
		return node_value;
	host_name(host, sizeof(host));
	initStringInfo(&buf);
	appendStringInfoChar(&buf, '{');
	append_json(&buf, "node", le_my_name());
	appendStringInfoString(&buf, ", ");
	append_json(&buf, "host", host);
	appendStringInfo(&buf, ", \"port\": %d}", PostPortNumber);
	strlcpy(value, buf.data, sizeof(value));
	pfree(buf.data);
	return value;
}

void
le_each_campaign(void (*act) (const char *election, void *arg), void *arg)
{
	const char *list = le_campaign_list;
	char		name[LE_MAX_ELECTION_LEN + 2];

	while (le_next_name(&list, name, sizeof(name)))
		act(name, arg);
}
