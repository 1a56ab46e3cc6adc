/*-------------------------------------------------------------------------
 *
 * check.c
 *		le_check_config(): the effect of the settings, and the state of all
 *		that they depend on.
 *
 * Shared memory and this machine are checked here.  The worker is asked about
 * the store, one question at a time, with short timeouts: a missing answer is
 * a finding, too.
 *
 * src/sql/check.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>
#include <unistd.h>

#include "access/xact.h"
#include "access/xlog.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/builtins.h"

#include "mistakes.h"
#include "settings.h"
#include "shmem/job_snapshot.h"
#include "shmem/leases.h"
#include "shmem/progress.h"
#include "shmem/requests.h"
#include "shmem/stats.h"
#include "sql/arguments.h"
#include "sql/cron.h"
#include "sql/cron_jobs.h"
#include "sql/encoding.h"
#include "sql/run.h"
#include "sql/status.h"

PG_FUNCTION_INFO_V1(le_check_config);

/* A healthy worker always answers within this time. */
#define WORKER_PATIENCE	(3 * LE_SEC)

/* The store's time limit, with all retries. */
#define STORE_PATIENCE	(4 * (le_request_timeout * LE_MSEC) + LE_SEC)

/* A clock that takes longer to read makes checks slow. */
#define SLOW_CLOCK		(500)

#define CLOCK_SOURCE \
	"/sys/devices/system/clocksource/clocksource0/current_clocksource"

static const char *const OK = "ok";
static const char *const WARN = "warning";
static const char *const BAD = "error";

typedef struct Report
{
	Tuplestorestate *rows;
	TupleDesc	desc;
	const LeStore *store;
	bool		may_ask;		/* the worker answers */
	bool		eligible;		/* allowed to lead */
	LeTiming	timing;
	bool		sound;			/* the timing allows to lead */
} Report;

static void say(Report *report, const char *level, const char *topic,
				const char *format,...) pg_attribute_printf(4, 5);

static void
say(Report *report, const char *level, const char *topic,
	const char *format,...)
{
	char		text[1024];
	va_list		args;
	Datum		values[3];
	bool		nulls[3] = {false};

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	values[0] = CStringGetTextDatum(level);
	values[1] = CStringGetTextDatum(topic);
	values[2] = CStringGetTextDatum(le_shown(text));
	tuplestore_putvalues(report->rows, report->desc, values, nulls);
}

/* ---- worker ---- */

static bool
ask_worker(const char *election, LeCheck check, le_duration patience,
		   LeReply *reply)
{
	LeAsk		question = {0};

	question.kind = LE_ASK_CHECK;
	question.check = check;
	question.owner = le_my_owner(false);
	strlcpy(question.election, election, sizeof(question.election));
	return le_ask_within(&question, reply, patience);
}

static void
check_worker(Report *report)
{
	uint32		pid = pg_atomic_read_u32(&le_table->worker_pid);
	LeReply		reply;

	report->may_ask = false;
	if (le_worker_left_out)
		say(report, BAD, "worker",
			"The worker is not running. " LE_LEFT_OUT_DETAIL " " LE_LEFT_OUT_HINT,
			max_worker_processes);
	else if (pg_atomic_read_u32(&le_table->worker_proc) == 0)
		say(report, BAD, "worker",
			"The worker is not running; the server log says why. It starts again one second after it fails.");
	else if (!ask_worker("", LE_CHECK_WORKER, WORKER_PATIENCE, &reply))
		say(report, BAD, "worker",
			"The worker, process %u, has not answered for %d ms: it hangs or is stopped.",
			pid, LE_MS(WORKER_PATIENCE));
	else
	{
		report->may_ask = true;
		say(report, OK, "worker", "The worker, process %u, answers.", pid);
		if (reply.kind == LE_REPLY_ERROR)
			say(report, WARN, "worker", "%s", reply.detail);
	}
}

/* ---- settings ---- */

static void
check_pending(Report *report)
{
	StringInfoData names;

	initStringInfo(&names);
	le_explain_pending(&names);
	if (names.len > 0)
		say(report, WARN, "settings",
			"Settings that change with the next restart: %s. Instances with different stores elect separate leaders: if the store changes, stop all instances before the first starts again.",
			names.data);
}

/* Settings that PostgreSQL rejected, or that are hardly intended. */
static void
check_settings(Report *report)
{
	LeReply		reply;

	check_pending(report);
	if (!report->may_ask ||
		!ask_worker("", LE_CHECK_SETTINGS, WORKER_PATIENCE, &reply) ||
		reply.kind != LE_REPLY_ERROR)
		return;
	report->eligible = false;
	say(report, BAD, "settings", "This node does not lead: %s", reply.detail);
}

/* ---- files ---- */

/* Damaged files stay until an administrator removes them. */
static void
check_damaged(Report *report)
{
	DIR		   *dir = AllocateDir(DataDir);
	struct dirent *entry;

	while ((entry = ReadDirExtended(dir, DataDir, LOG)) != NULL)
		if (strncmp(entry->d_name, "leader_election.", 16) == 0 &&
			strstr(entry->d_name, LE_DAMAGED) != NULL)
			say(report, WARN, "files",
				"File \"%s\" of the data directory was found damaged and put aside; the server log says why. Remove it when nobody needs it any more.",
				entry->d_name);
	FreeDir(dir);
}

/* See claimlog.c.  False: nothing can be claimed. */
static bool
check_claim_file(Report *report)
{
	LeReply		reply;

	if (!ask_worker("", LE_CHECK_CLAIM_FILE, WORKER_PATIENCE, &reply) ||
		reply.kind != LE_REPLY_ERROR)
		return true;
	say(report, BAD, "files", "Nothing can be claimed: %s", reply.detail);
	return false;
}

static void
check_files(Report *report)
{
	LeReply		reply;
	bool		well;

	check_damaged(report);
	if (!report->may_ask)
		return;
	well = check_claim_file(report);
	if (!ask_worker("", LE_CHECK_FILES, WORKER_PATIENCE, &reply))
		return;
	if (reply.kind == LE_REPLY_ERROR && reply.sqlstate == ERRCODE_WARNING)
		say(report, WARN, "files",
			"After a restart this instance will wait for its own lease to run out: %s",
			reply.detail);
	else if (reply.kind == LE_REPLY_ERROR)
		say(report, BAD, "files",
			"This instance begins no term, since it could not keep the fencing token: %s",
			reply.detail);
	else if (well)
		say(report, OK, "files",
			"Tokens and %s can be kept in the data directory.",
			report->store->between_instances ? "state" : "claims");
}

/* ---- pg_cron ---- */

/* An adopted job asks the election of the server that runs it. */
static void
check_cron_server(Report *report, const LeCronJob *job)
{
	if (job->calls_run && job->server != NULL)
		say(report, WARN, "pg_cron",
			"Job \"%s\" of role \"%s\" calls le_run(), but pg_cron runs it on server \"%s\". Unschedule it, and schedule it anew to run it here.",
			job->name, job->role, job->server);
}

static void
check_cron_clash(Report *report, const LeCronJob *job, const LeCronJob *other)
{
	if (job->active && other->active && strcmp(job->role, other->role) != 0 &&
		le_have_same_ticks(job, other))
		say(report, WARN, "pg_cron",
			"Roles \"%s\" and \"%s\" each have a job \"%s\" of election \"%s\": at each tick one of the two runs. Give one of them another name.",
			job->role, other->role, job->job, job->election);
}

/* A record that was forgotten has ended, but not as a success. */
static bool
is_forgotten(const LeClaimRow *record)
{
	return record->state == LE_CLAIM_DONE &&
		record->last_success != record->ended_at;
}

/* Does the text mention a function of ours? */
static bool
mentions_ours(const char *command)
{
	for (const char *p = command; *p != '\0'; p++)
		if (pg_strncasecmp(p, "le_", 3) == 0 &&
			(p == command || !(isalnum((unsigned char) p[-1]) ||
							   p[-1] == '_' || IS_HIGHBIT_SET(p[-1]))))
			return true;
	return false;
}

/*
 * Has the job become a plain one here?  A migration that schedules it again
 * does that, and so does an adoption on another instance only.  A command that
 * mentions a function of ours is not plain: it may ask by itself.
 */
static void
check_cron_plain(Report *report, const LeCronJob *job, const LeJobRow *records,
				 int nrecords)
{
	char	   *name;

	if (!job->active || job->server != NULL || mentions_ours(job->command))
		return;
	name = pg_server_to_any(job->name, strlen(job->name), PG_UTF8);
	for (int i = 0; i < nrecords; i++)
	{
		const LeClaimRow *record = &records[i].claim;

		if (strcmp(record->job, name) == 0 && !is_forgotten(record))
			say(report, WARN, "pg_cron",
				"Job \"%s\" of role \"%s\" has a record in election \"%s\", but does not call le_run() here: this instance runs it whoever leads. Adopt it, and use le_cron_schedule() where it was scheduled; or le_forget_job(), if it is to run on each.",
				job->name, job->role, record->election);
	}
}

/* Those of this database, unless it is a standby's, where none runs. */
static void
check_cron_jobs(Report *report)
{
	List	   *jobs = RecoveryInProgress() ? NIL : le_all_cron_jobs();
	LeJobRow   *records;
	int			nrecords;
	le_time		as_of;

	if (!le_job_snapshot_copy(&records, &nrecords, &as_of))
		nrecords = 0;
	for (int i = 0; i < list_length(jobs); i++)
	{
		LeCronJob  *job = list_nth(jobs, i);

		check_cron_server(report, job);
		for (int j = i + 1; j < list_length(jobs); j++)
			check_cron_clash(report, job, list_nth(jobs, j));
		check_cron_plain(report, job, records, nrecords);
	}
}

/* Jobs that two roles, or two databases, call in turn. */
static void
check_callers(Report *report)
{
	LeJobRow   *records;
	int			nrecords;
	le_time		as_of;

	if (!le_job_snapshot_copy(&records, &nrecords, &as_of))
		return;
	for (int i = 0; i < nrecords; i++)
	{
		const LeClaimRow *record = &records[i].claim;
		LeJobCallers callers;
		const char *who;

		if (!le_copy_callers(record->election, record->job, &callers) ||
			!le_callers_clash(&callers))
			continue;
		who = le_name_callers(&callers);
		if (who != NULL)
			say(report, WARN, "jobs",
				"Job \"%s\" of election \"%s\" has two callers. %s %s",
				record->job, record->election, who, LE_CALLERS_HINT);
	}
	pfree(records);
}

static void
check_cron(Report *report)
{
	if (le_cron_runs_one_job())
		say(report, WARN, "pg_cron",
			"\"cron.use_background_workers\" is on, and this version of pg_cron starts no job while another runs. Turn it off, and set \"cron.host\".");
	check_cron_jobs(report);
}

/* ---- this node ---- */

/*
 * As last seen: two live nodes of one name or that share a system identifier
 * (a clone is told of that elsewhere), or only this one, as where another has
 * a different store or prefix.
 */
static void
check_nodes(Report *report, bool is_clone)
{
	LeNodeInfo *nodes = palloc(LE_MAX_NODES * sizeof(LeNodeInfo));
	int			n = report->store->has_sessions ? le_copy_nodes(nodes) : 0;
	LeSystems	systems;
	int			others = 0;

	le_copy_systems(&systems);
	for (int i = 0; i < n; i++)
	{
		bool		lives = le_now() - nodes[i].first_seen <
			2 * nodes[i].lease;

		if (nodes[i].self || !nodes[i].held || nodes[i].revoked)
			continue;
		others++;
		if (lives && !is_clone && !le_clone_eligible &&
			!RecoveryInProgress() &&
			le_shared_system(&nodes[i].systems, &systems) != 0)
			say(report, strcmp(nodes[i].unfit, "clone") == 0 ? WARN : BAD,
				"node",
				"Live node \"%s\" is a primary that shares a system identifier with this one: one of the two is a clone. Give that one another prefix or store, or an empty \"leader_election.campaign\".",
				nodes[i].node);
		if (lives && strcmp(nodes[i].node, le_my_name()) == 0)
			say(report, BAD, "node",
				"Another live node calls itself \"%s\"; its store session is %s. Set \"leader_election.node_name\" to a different name on each instance.",
				nodes[i].node, nodes[i].session);
	}
	if (n > 0 && others == 0)
		say(report, OK, "node",
			"No other live node has been seen. If there is one, compare \"leader_election.backend\", and address and prefix of the store: instances with different ones elect separate leaders.");
	pfree(nodes);
}

static void
check_node(Report *report)
{
	char		original[LE_MAX_NODE_NAME_LEN + 1];
	char		unfit[LE_UNFIT_LEN + 1];
	bool		reads_only;

	say(report, OK, "node",
		"This is node \"%s\", incarnation %s, with the store \"%s\".",
		le_my_name(), le_table->incarnation, le_configured_store()->name);
	le_copy_clone_of(original);
	check_nodes(report, original[0] != '\0');
	le_copy_unfit(unfit);
	reads_only = strcmp(unfit, "readonly") == 0;
	report->eligible = le_eligible && original[0] == '\0' &&
		!le_table->stopping && !reads_only &&
		(!RecoveryInProgress() ||
		 (le_standby_eligible && report->store->between_instances));
	if (le_table->stopping)
		say(report, WARN, "node",
			"It does not lead: it is shutting down, and ends when its last client has gone.");
	else if (!le_eligible)
		say(report, WARN, "node",
			"It does not lead: \"leader_election.eligible\" is off.");
	else if (reads_only)
		say(report, WARN, "node",
			"It does not lead: \"default_transaction_read_only\" is on in the server's configuration, so jobs could not write. If they only read, turn \"leader_election.read_only_eligible\" on.");
	else if (RecoveryInProgress() && !report->store->between_instances)
		say(report, WARN, "node",
			"It does not lead: a standby cannot with the store \"local\".");
	else if (RecoveryInProgress() && !le_standby_eligible)
		say(report, OK, "node",
			"It does not lead while it is a standby: \"leader_election.standby_eligible\" is off.");
	else if (original[0] != '\0')
		say(report, BAD, "node",
			"It does not lead: it is a clone of node \"%s\", and \"leader_election.clone_eligible\" is off.",
			original);
}

/* Can what is led here do its work? */
static void
check_writes(Report *report)
{
	LeSlot	   *slot = palloc(sizeof(LeSlot));
	int			n = 0;

	for (int i = 0; i < le_table->nused; i++)
		n += le_copy_slot(i, slot) &&
			pg_atomic_read_u64(&slot->term.token) != 0;
	pfree(slot);
	if (n > 0 && RecoveryInProgress())
		say(report, WARN, "writes",
			"This standby leads %d %s: jobs that write fail here, and do nothing on instances that could write. \"leader_election.standby_eligible\" is for jobs that only read.",
			n, n == 1 ? "election" : "elections");
	else if (n > 0 && DefaultXactReadOnly && !le_read_only_eligible)
		say(report, WARN, "writes",
			"\"default_transaction_read_only\" is on for this role or in this database: le_run() runs nothing there.");
}

static int
count_campaigns(void)
{
	LeSlot	   *slot = palloc(sizeof(LeSlot));
	int			n = 0;

	for (int i = 0; i < le_table->nused; i++)
		if (le_copy_slot(i, slot) && (slot->campaign || slot->configured))
			n++;
	pfree(slot);
	return n;
}

/* Elections that were acquired and given back because of the token. */
static void
check_tokens(Report *report)
{
	LeSlot	   *slot = palloc(sizeof(LeSlot));

	for (int i = 0; i < le_table->nused; i++)
		if (le_copy_slot(i, slot) && slot->refused_token != 0)
			say(report, BAD, "token",
				"This instance does not lead election \"%s\": the store gave it fencing token " UINT64_FORMAT ", which is not higher than " UINT64_FORMAT ", the highest seen. " LE_ACCEPT_HINT,
				slot->name, slot->refused_token, slot->election.token_floor);
	pfree(slot);
}

/* Jobs that the store knows less of than this instance has seen. */
static void
check_records(Report *report)
{
	LeJobRow   *jobs = NULL;
	const LeJobRow *first = NULL;
	le_time		as_of;
	int			njobs = 0;
	int			n = 0;

	if (!le_job_snapshot_copy(&jobs, &njobs, &as_of))
		return;
	for (int i = 0; i < njobs; i++)
		if (jobs[i].lost)
		{
			first = first == NULL ? &jobs[i] : first;
			n++;
		}
	if (n > 0 && !report->store->between_instances)
		say(report, BAD, "records",
			"Ticks of %d %s, as of job \"%s\" of election \"%s\", may have run before this server was promoted or restored, which the store \"local\" does not know: of those that were due before, none is claimed. If ticks without a record are to run, call le_accept_store().",
			n, n == 1 ? "job" : "jobs", first->claim.job,
			first->claim.election);
	else if (n > 0)
		say(report, BAD, "records",
			"The store has lost the records of %d %s, as of job \"%s\" of election \"%s\": this instance has seen its tick %s, and claims none up to there. " LE_ACCEPT_HINT,
			n, n == 1 ? "job" : "jobs", first->claim.job,
			first->claim.election,
			timestamptz_to_str(le_from_tick(first->claim.tick)));
	pfree(jobs);
}

/* Was the run done at a time that this database does not have? */
static bool
is_outside_past(const LeJobRow *job)
{
	TimestampTz done = le_from_tick(job->claim.ended_at);

	return job->claim.state == LE_CLAIM_DONE && job->claim.ended_at != 0 &&
		!job->lost && !is_forgotten(&job->claim) &&
		done > le_table->past_ended && done < le_table->past_left;
}

/*
 * Runs that are done by the store's records, and whose work this database may
 * lack, since it was restored or promoted after them.  The clocks of instances
 * are compared.  A run that was under way when the past has ended may have
 * committed before: its own commit may be the end.
 */
static void
check_past(Report *report)
{
	TimestampTz ended = le_table->past_ended;
	TimestampTz left = le_table->past_left;
	LeJobRow   *jobs;
	le_time		as_of;
	int			njobs;
	char	   *shown_end = ended == 0 ? "" :
		psprintf(", with its transactions up to %s",
				 timestamptz_to_str(ended));

	if (left == 0 || !le_job_snapshot_copy(&jobs, &njobs, &as_of))
		return;
	for (int i = 0; i < njobs; i++)
	{
		const LeClaimRow *record = &jobs[i].claim;

		if (!is_outside_past(&jobs[i]))
			continue;
		say(report, WARN, "restore",
			"Tick %s of job \"%s\" of election \"%s\" is recorded as done at %s on node \"%s\", but this database was restored or promoted at %s%s: the work of that run in this database %s missing. Follow the runbook for a restored database. The job's next tick ends this warning, or le_forget_job().",
			pstrdup(timestamptz_to_str(le_from_tick(record->tick))),
			record->job, record->election,
			pstrdup(timestamptz_to_str(le_from_tick(record->ended_at))),
			record->node, pstrdup(timestamptz_to_str(left)), shown_end,
			ended != 0 && le_from_tick(record->claimed_at) > ended ?
			"is" : "may be");
	}
	pfree(jobs);
}

static void
check_campaigns(Report *report)
{
	int			n = count_campaigns();

	if (n == 0)
		say(report, WARN, "campaign",
			"This instance contends for nothing by itself: \"leader_election.campaign\" is empty, and le_campaign() was not called.");
	else
		say(report, OK, "campaign", "This instance contends for %d %s.", n,
			n == 1 ? "election" : "elections");
	if (le_table->nused >= le_table->nslots)
		say(report, WARN, "campaign",
			"The lease table is full: %d of max_elections (%d) are in use. A new name takes the place of one that is neither held nor sought.",
			le_table->nused, le_table->nslots);
}

/* Elections given up for lack of progress, without progress since. */
static void
check_progress(Report *report)
{
	LeSlot	   *slot = palloc(sizeof(LeSlot));

	if (le_progress_within != 0)
		say(report, OK, "progress",
			"This instance gives up a term after %d s without progress (progress_within). It then does not contend for as long, and for twice as long each further time, up to an hour.",
			le_progress_within);
	for (int i = 0; i < le_table->nused; i++)
	{
		const LeProgress *p = le_progress_of(i);
		le_duration left;

		if (!le_copy_slot(i, slot) || p->idled == 0 ||
			(pg_atomic_read_u64(&slot->term.token) != 0 &&
			 le_made_progress(i)))
			continue;
		left = p->idles ? slot->hold_off_until - le_now() : 0;
		say(report, WARN, "progress",
			"This instance gave up election \"%s\" for lack of progress, and has made none since; it %s. Do its jobs run here?",
			slot->name, left <= 0 ? "contends again" :
			psprintf("does not contend for another %.1f s",
					 left / (double) LE_SEC));
	}
	pfree(slot);
}

/* Names that a job checks and that this instance never sought. */
static void
check_names(Report *report)
{
	char		name[LE_MAX_ELECTION_LEN + 1];
	TimestampTz at;

	for (int i = 0; i < LE_MAX_MISSING; i++)
	{
		at = le_copy_missing(i, name);
		if (at == 0 || le_find_term(name) >= 0)
			continue;			/* it has been sought since */
		for (char *p = name; *p != '\0'; p++)
			if ((unsigned char) *p < ' ' || *p == 0x7f)
				*p = '?';		/* the name is not validated */
		say(report, WARN, "names",
			"A job asked at %s whether this instance leads \"%s\", which it never sought: is the name spelled right, and in \"leader_election.campaign\"?",
			timestamptz_to_str(at), name);
	}
}

/* ---- arithmetic ---- */

/* The part of a lease that a setting of the store takes. */
static const char *
also_takes(const Report *report, const char *before)
{
	const char *what = report->store->lease.takes_more;

	return what == NULL ? "" : psprintf("%s%s", before, what);
}

static void
check_timing(Report *report)
{
	const LeTiming *t = &report->timing;
	StringInfoData detail;

	initStringInfo(&detail);
	report->sound = le_explain_timing(t, &detail);
	if (!report->sound)
		say(report, BAD, "timing", "This node does not lead: %s", detail.data);
	else
		say(report, OK, "timing",
			t->granularity == 0 ?
			"renew_interval (%d ms) plus %d attempts of at least %d ms need %d ms of the %d ms that lease_ttl (%d ms) minus safety_margin (%d ms) leaves." :
			"renew_interval (%d ms) plus %d attempts of at least %d ms need %d ms of the %d ms that lease_ttl (%d ms) minus safety_margin and the store's granularity (%d ms) leaves%s%s.",
			LE_MS(t->renew_interval), LE_ATTEMPTS, LE_MS(LE_MIN_ATTEMPT),
			LE_MS(t->renew_interval + LE_ATTEMPTS * LE_MIN_ATTEMPT),
			LE_MS(t->lease - t->margin - t->granularity), LE_MS(t->lease),
			LE_MS(t->margin + t->granularity), also_takes(report, "; "),
			report->store->lease.takes_more == NULL ? "" :
			" takes its part of them");
	pfree(detail.data);
}

/* The rest of the term when a round begins, at worst. */
static le_duration
round_budget(const LeTiming *t)
{
	return t->lease - t->margin - t->granularity - t->renew_interval;
}

static void
check_requests(Report *report)
{
	const LeTiming *t = &report->timing;
	le_duration first = le_attempt_timeout(t, t->lease,
										   t->lease + round_budget(t), 0);

	say(report, OK, "requests",
		"A round that begins when %d ms are left (lease_ttl - safety_margin - renew_interval) gives its first of %d attempts %d ms: the least of request_timeout (%d ms) and a third of what is left. A call is answered after its wait plus at most 3 x request_timeout = %d ms.",
		LE_MS(round_budget(t)), LE_ATTEMPTS, LE_MS(first),
		LE_MS(t->request_timeout),
		LE_MS(3 * t->request_timeout));
}

static void
check_belief(Report *report)
{
	const LeTiming *t = &report->timing;
	double		percent = 100.0 * t->margin / t->lease;

	if (report->store->key_leases)
		say(report, OK, "belief",
			"A leader that hears nothing stops believing at most %d ms after it sent its last renewal: lease_ttl%s - safety_margin%s.",
			LE_MS(t->lease - t->margin - t->granularity),
			t->granularity == 0 ? "" :
			psprintf(" - %d s", (int) (t->granularity / LE_SEC)),
			also_takes(report, ", less "));
	else
		say(report, OK, "belief",
			"A leader that hears nothing stops believing at most %d ms after it sent its last proof: lease_ttl - safety_margin.",
			LE_MS(t->lease - t->margin));
	say(report, OK, "clock rate",
		"Beliefs of two nodes do not overlap while the rates of their clocks differ by less than %.2f %%: safety_margin / lease_ttl.",
		percent);
}

/* Is there time to cancel?  If not, an error if on_loss is "cancel". */
static void
check_cancel(Report *report)
{
	const LeTiming *t = &report->timing;
	StringInfoData detail;

	initStringInfo(&detail);
	if (!le_explain_cancel_lead(t, &detail))
		say(report, le_on_loss == LE_ON_LOSS_CANCEL ? BAD : WARN, "on_loss",
			"on_loss => 'cancel', the default of le_run(), is refused: %s",
			detail.data);
	else
		say(report, OK, "on_loss",
			"With on_loss => 'cancel' a statement has cancel_lead - commit_margin = %d ms - %d ms = %d ms to stop before commits are refused; no renewal of a healthy leader comes so late, since %d ms are left then.",
			le_cancel_lead, le_commit_margin,
			le_cancel_lead - le_commit_margin, LE_MS(round_budget(t)));
	pfree(detail.data);
}

/* The store's findings: the time until another node leads, and the like. */
static void
check_findings(Report *report)
{
	LeFinding	findings[LE_MAX_FINDINGS];
	int			n = report->store->people.explain == NULL ? 0 :
		report->store->people.explain(&report->timing, count_campaigns(),
									  findings);

	for (int i = 0; i < n; i++)
		say(report, findings[i].level == LE_LEVEL_OK ? OK :
			findings[i].level == LE_LEVEL_WARNING ? WARN : BAD,
			findings[i].topic, "%s", findings[i].text);
}

static void
check_handoff(Report *report)
{
	LeStatRow	row;

	le_copy_stat(LE_STAT_NODE, &row);
	if (row.trips == 0)
		say(report, OK, "handoff",
			"A candidate follows a leader that releases after two round trips to the store; none was measured yet.");
	else
		say(report, OK, "handoff",
			"A candidate follows a leader that releases after two round trips to the store: 2 x %.1f ms on average, 2 x %.1f ms at worst so far.",
			row.trips_total / 1000.0 / row.trips, row.trip_max / 1000.0);
	if (le_shutdown_timeout == 0)
		say(report, WARN, "handoff",
			"A shutdown releases nothing: \"leader_election.shutdown_timeout\" is 0. Others wait as after a crash.");
}

static void
check_outage(Report *report)
{
	le_duration budget = round_budget(&report->timing);

	if (budget < report->store->lease.hiccup)
		say(report, WARN, "store outage",
			"A store that does not answer for %d ms (lease_ttl - safety_margin - renew_interval) may depose every leader; %s was seen to take %d ms.",
			LE_MS(budget), report->store->lease.hiccup_cause,
			LE_MS(report->store->lease.hiccup));
	else
		say(report, OK, "store outage",
			"Leaders survive a store that does not answer for %d ms: lease_ttl - safety_margin - renew_interval.",
			LE_MS(budget));
}

static void
check_arithmetic(Report *report)
{
	le_configured_timing(&report->timing);
	check_timing(report);
	if (!report->sound)
		return;
	check_requests(report);
	check_belief(report);
	check_cancel(report);
	if (!report->store->between_instances)
		return;
	check_findings(report);
	check_handoff(report);
	check_outage(report);
}

/* ---- clock ---- */

static bool
clock_source(char *buf, int size)
{
	FILE	   *file = AllocateFile(CLOCK_SOURCE, "r");
	bool		found;

	if (file == NULL)
		return false;
	found = fgets(buf, size, file) != NULL;
	FreeFile(file);
	if (found)
		buf[strcspn(buf, "\n")] = '\0';
	return found && buf[0] != '\0';
}

/* Sources that are coarse, or known to go wrong. */
static bool
poor_source(const char *name)
{
	static const char *const poor[] = {
		"jiffies", "refined-jiffies", "pit", "acpi_pm", "hpet"
	};

	for (int i = 0; i < lengthof(poor); i++)
		if (strcmp(name, poor[i]) == 0)
			return true;
	return false;
}

/* Nanoseconds for one reading, on average. */
static int
reading_time(void)
{
	const int	n = 2000;
	le_time		start = le_now();

	for (int i = 1; i < n; i++)
		(void) le_now();
	return (int) ((le_now() - start) / n);
}

static void
check_clock(Report *report)
{
	char		name[64];
	int			ns = reading_time();

	if (!clock_source(name, sizeof(name)))
		say(report, WARN, "clock source",
			"The kernel's clock source could not be read from %s.",
			CLOCK_SOURCE);
	else
		say(report, poor_source(name) ? WARN : OK, "clock source",
			"The kernel's clock source is \"%s\"%s.", name,
			poor_source(name) ? ", which is slow or not accurate" : "");
	say(report, ns > SLOW_CLOCK ? WARN : OK, "clock source",
		"Reading the clock takes %d ns; each check reads it once.", ns);
}

/* ---- store ---- */

static void
check_url(Report *report, const char *url, const char *token_file)
{
	if (le_goes_in_clear(url))
		say(report, WARN, "store",
			"\"%s\" is neither encrypted (https) nor on this machine: %s",
			le_configured_store()->servers.setting,
			token_file[0] != '\0' ?
			"the token can be read on the network." :
			"answers can be forged on the network.");
}

static void
check_transport(Report *report)
{
	const LeStore *store = report->store;
	const char *list = store->servers.urls();
	char		url[MAXPGPATH];

	while (le_next_name(&list, url, sizeof(url)))
		check_url(report, url,
				  store->secret.file == NULL ? "" : store->secret.file());
}

/* The worker's findings about the secret. */
static void
report_secret(Report *report, const LeReply *reply)
{
	const LeStore *store = report->store;
	bool		bad = reply->sqlstate == LE_ERRCODE_REFUSED;
	const char *level = bad ? BAD :
		reply->sqlstate == ERRCODE_WARNING ? WARN : OK;

	if (reply->message[0] != '\0')
		say(report, level, "secrets", "%s", reply->message);
	else if (store->secret.authenticates == NULL ||
			 store->secret.authenticates()[0] == '\0')
		say(report, level, "secrets",
			bad ?
			"No token is sent, although \"%s\" names a file: %s" :
			"The token is an old one, from the file that \"%s\" names: %s",
			store->secret.setting, reply->detail);
	else
		say(report, level, "secrets",
			bad ? "A token could not be fetched: %s" :
			"A new token could not be fetched, so the last one is used: %s",
			reply->detail);
}

/* The secrets by which the store knows this instance. */
static void
check_secrets(Report *report)
{
	const LeStore *store = report->store;
	const char *file = store->secret.file == NULL ? "" : store->secret.file();
	LeReply		reply;

	if (report->may_ask &&
		ask_worker("", LE_CHECK_SECRET, WORKER_PATIENCE, &reply) &&
		reply.kind == LE_REPLY_ERROR)
		report_secret(report, &reply);
	if (report->may_ask && ask_worker("", LE_CHECK_TLS, WORKER_PATIENCE,
									  &reply) &&
		reply.kind == LE_REPLY_ERROR)
		say(report, BAD, "secrets",
			"No connection by TLS can be made: %s", reply.detail);
	if (le_others_can_read(file))
		say(report, WARN, "secrets",
			"Token file \"%s\" has group or world access. " LE_SECRET_MODE,
			file);
	if (le_others_can_read(le_key_file))
		say(report, WARN, "secrets",
			"Private key file \"%s\" has group or world access. "
			LE_SECRET_MODE, le_key_file);
}

/* The state before this report asked the store. */
static void
check_contact(Report *report, le_time last, bool holds)
{
	le_duration ago = le_now() - last;
	le_duration limit = 2 * report->timing.renew_interval;

	if (last == 0)
		say(report, OK, "contact",
			"The store has not answered since the start.");
	else
		say(report, holds && ago > limit ? WARN : OK, "contact",
			"The store last answered %.1f s before this check%s.",
			ago / (double) LE_SEC,
			holds ? "" : "; nothing is held or sought");
}

/* Wall clocks: as of the store's last answer. */
static void
check_store_clock(Report *report)
{
	LeReply		reply;

	if (!report->may_ask ||
		!ask_worker("", LE_CHECK_CLOCK, WORKER_PATIENCE, &reply))
		return;
	if (reply.kind == LE_REPLY_ERROR)
		say(report, BAD, "clock", "%s No tick is claimed here.",
			reply.detail);
	else
		say(report, OK, "clock",
			"The store's answers show no wall clock that differs by more than \"leader_election.max_clock_offset\", %d s.",
			le_max_clock_offset);
}

/* Asks the worker and reports the result. */
static bool
check_store(Report *report, LeCheck check, const char *election,
			const char *what)
{
	LeReply		reply;

	if (!ask_worker(election, check, STORE_PATIENCE, &reply))
		say(report, BAD, "store", "Could not %s: no answer from the worker.",
			what);
	else if (reply.kind == LE_REPLY_ERROR)
		say(report, BAD, "store", "Could not %s: %s", what,
			reply.detail[0] != '\0' ? reply.detail : "no answer");
	else
	{
		say(report, OK, "store", "The store lets this instance %s.", what);
		return true;
	}
	return false;
}

/* The records of jobs.  An instance without jobs does not need them. */
static void
check_claims(Report *report, const char *election)
{
	LeReply		reply;
	const char *trouble = NULL;

	if (!ask_worker(election, LE_CHECK_CLAIM, STORE_PATIENCE, &reply))
		trouble = "no answer from the worker";
	else if (reply.kind == LE_REPLY_ERROR)
		trouble = reply.detail;
	if (trouble == NULL)
		say(report, OK, "claims",
			"The store lets this instance claim ticks of election \"%s\".",
			election);
	else
		say(report, WARN, "claims",
			"Could not claim ticks of election \"%s\", which le_claim() and le_run() need: %s",
			election, trouble);
}

/* Node keys of past store sessions, as last seen. */
static void
check_leftovers(Report *report)
{
	LeNodeInfo *nodes = palloc(LE_MAX_NODES * sizeof(LeNodeInfo));
	int			n = report->store->has_sessions ? le_copy_nodes(nodes) : 0;
	int			over = 0;

	for (int i = 0; i < n; i++)
		over += !nodes[i].held;
	if (over > 0)
		say(report, OK, "leftovers",
			"%d of %d node keys belong to store sessions that are over. Instances that lead or contend remove them: five session TTL after their last sign of life if the node is back, else after an hour.",
			over, n);
	pfree(nodes);
}

/* The keys of the elections that this instance contends for. */
static void
check_keys(Report *report)
{
	LeSlot	   *slot = palloc(sizeof(LeSlot));

	for (int i = 0; i < le_table->nused; i++)
	{
		if (!le_copy_slot(i, slot) || !(slot->campaign || slot->configured))
			continue;
		if (!check_store(report, LE_CHECK_READ, slot->name,
						 psprintf("read election \"%s\"", slot->name)))
			continue;
		check_store(report, LE_CHECK_WRITE, slot->name,
					psprintf("write election \"%s\"", slot->name));
		check_claims(report, slot->name);
	}
	pfree(slot);
}

static bool
holds_or_seeks(void)
{
	LeSlot	   *slot = palloc(sizeof(LeSlot));
	bool		any = false;

	for (int i = 0; i < le_table->nused && !any; i++)
		any = le_copy_slot(i, slot) && slot->election.state != LE_IDLE;
	pfree(slot);
	return any;
}

static void
check_stores(Report *report, le_time last_contact)
{
	if (!report->store->between_instances)
	{
		say(report, OK, "store",
			"The store \"local\" elects among the sessions of this instance only, not between instances.");
		return;
	}
	check_transport(report);
	check_secrets(report);
	check_contact(report, last_contact, holds_or_seeks());
	check_leftovers(report);
	if (!report->may_ask)
		return;
	if (!check_store(report, LE_CHECK_PREFIX, "",
					 report->store->people.namespace_verb))
		return;
	check_store_clock(report);
	if (report->sound && report->eligible &&
		(!report->store->has_sessions ||
		 check_store(report, LE_CHECK_SESSION, "",
					 "have a store session and a node key")))
		check_keys(report);
}

Datum
le_check_config(PG_FUNCTION_ARGS)
{
	Report		report = {0};
	le_time		last_contact;

	le_check_preloaded();
	report.rows = le_begin_rows(fcinfo, &report.desc);
	report.store = le_configured_store();
	last_contact = le_last_contact();
	check_worker(&report);
	check_node(&report);
	check_settings(&report);
	check_files(&report);
	check_cron(&report);
	check_callers(&report);
	/* Until a worker has made a turn, nobody knows what is contended for. */
	if (pg_atomic_read_u64(&le_table->turns) > 0)
	{
		check_campaigns(&report);
		check_writes(&report);
		check_tokens(&report);
		check_records(&report);
		check_past(&report);
		check_progress(&report);
		check_names(&report);
	}
	check_arithmetic(&report);
	check_clock(&report);
	check_stores(&report, last_contact);
	return (Datum) 0;
}
