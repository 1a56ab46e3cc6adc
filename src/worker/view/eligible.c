/*-------------------------------------------------------------------------
 *
 * eligible.c
 *		May this node lead, does it want to, and do its timings allow it?
 *
 * src/worker/view/eligible.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "storage/fd.h"
#include "utils/memutils.h"

#include "mistakes.h"
#include "settings.h"
#include "shmem/clock.h"
#include "shmem/requests.h"
#include "worker/view/eligible.h"

/* A file that cannot be opened is tried this often before that counts. */
#define READ_TRIES	5
#define READ_PAUSE	LE_SEC

/* Least interval of looks whether the instance shuts down. */
#define STOP_LOOKS	LE_SEC

struct LeEligibility
{
	le_time		judge_again_at; /* 0: not by itself */
	int			tries;			/* to read the files, in a row */
	le_duration told_trust;		/* that was reported as too short */
	le_time		look_at;		/* whether the instance shuts down */
};

LeEligibility *
le_eligibility_new(void)
{
	return MemoryContextAllocZero(TopMemoryContext, sizeof(LeEligibility));
}

/*
 * Did all settings take effect?  Called at start and after a reload.
 *
 * A store that elects inside this instance only, because no setting names one,
 * is right for a first try, and for jobs of one instance; but with elections
 * to contend for always, it is rather a forgotten line, and every instance
 * would lead.  An explicit setting says that it is meant.
 */
void
le_judge_settings(LeEligibility *eligibility)
{
	char	   *fault = le_table->settings_fault;
	StringInfoData detail;
	LeMistakes	mistakes;

	initStringInfo(&detail);
	mistakes = le_explain_mistakes(&detail, &le_table->settings_taken);
	eligibility->judge_again_at = 0;
	if (mistakes != LE_MISTAKES_UNREAD)
		eligibility->tries = 0;
	else if (le_table->settings_taken != 0 &&
			 eligibility->tries++ < READ_TRIES)
	{
		/* the earlier result counts meanwhile, also one of a worker before */
		eligibility->judge_again_at = le_now() + READ_PAUSE;
		pfree(detail.data);
		return;
	}
	if (mistakes == LE_MISTAKES_NONE && le_campaign_list[0] != '\0' &&
		le_setting_is_default("leader_election.backend"))
		appendStringInfoString(&detail,
							   "\"leader_election.campaign\" is set, but \"leader_election.backend\" is not: with the store \"local\", its default, every instance would lead. If that is meant, set it to \"local\".");
	strlcpy(fault, detail.data, sizeof(le_table->settings_fault));
	pfree(detail.data);
	if (fault[0] != '\0')
		ereport(LOG,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("leader_election settings are not as they were meant: this node does not lead"),
				 errdetail_internal("%s", fault)));
}

/* When are the settings to be judged again, without a reload?  0: not. */
le_time
le_settings_timer(LeEligibility *eligibility)
{
	return eligibility->judge_again_at;
}

const char *
le_settings_fault(void)
{
	return le_table->settings_fault;
}

/* ---- shutdown ---- */

/* The postmaster notes it in its lock file before it does anything else. */
static bool
says_stopping(FILE *file)
{
	char		line[MAXPGPATH];
	bool		stopping = false;

	for (int number = 1; fgets(line, sizeof(line), file) != NULL; number++)
		if (number == 8)		/* LOCK_FILE_LINE_PM_STATUS */
			stopping = strncmp(line, "stopping", 8) == 0;
	FreeFile(file);
	return stopping;
}

/*
 * After SIGTERM: is the instance shutting down, or was only this process
 * terminated?
 *
 * A file that cannot be read, perhaps for want of descriptors, does not tell.
 * To take that for a terminate is the smaller mistake: at a shutdown the
 * leases run out by themselves, while a worker that released them and left for
 * good would have no successor.
 */
bool
le_instance_stops(void)
{
	FILE	   *file = AllocateFile("postmaster.pid", "r");

	if (file == NULL && errno == ENOENT)
		return true;			/* no lock file: no server */
	if (file == NULL)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m",
						"postmaster.pid")));
		return false;
	}
	return says_stopping(file);
}

/*
 * In a smart shutdown clients may stay for as long as they like, but no new
 * one is let in, and whoever is to run a job connects for it.  No signal tells
 * the worker, so it looks when it is awake, as it is to prove each term.  A
 * file that cannot be read changes nothing.
 *
 * With the store "local" nobody else would lead instead.
 */
void
le_look_for_stop(LeEligibility *eligibility)
{
	FILE	   *file;

	if (le_table->stopping || !le_configured_store()->between_instances ||
		le_now() < eligibility->look_at)
		return;
	eligibility->look_at = le_now() + STOP_LOOKS;
	file = AllocateFile("postmaster.pid", "r");
	if (file == NULL || !says_stopping(file))
		return;
	le_table->stopping = true;
	ereport(LOG,
			(errmsg("leader_election hands over, since the instance is shutting down"),
			 errdetail("The postmaster takes no more connections, though clients may stay.")));
}

/* ---- the verdict ---- */

/*
 * Would jobs fail to write?  The worker, without database and user, sees what
 * the server's configuration says.  A standby has a setting of its own.
 */
static bool
reads_only(void)
{
	return DefaultXactReadOnly && !le_read_only_eligible &&
		!RecoveryInProgress();
}

/* As le_may_lead(), whether it is a clone or not. */
static bool
may_lead_as_original(char *why, size_t size, int *sqlstate)
{
	bool		between = le_configured_store()->between_instances;
	LeTiming	timing;
	StringInfoData detail;

	if (le_settings_fault()[0] != '\0')
	{
		*sqlstate = LE_ERRCODE_REFUSED;
		strlcpy(why, le_settings_fault(), size);
		return false;
	}
	*sqlstate = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
	if (le_table->stopping)
	{
		strlcpy(why, "This instance is shutting down.", size);
		return false;
	}
	if (!le_eligible)
	{
		strlcpy(why, "\"leader_election.eligible\" is off on this instance.", size);
		return false;
	}
	if (RecoveryInProgress() && (!le_standby_eligible || !between))
	{
		strlcpy(why, between ?
				"This instance is a standby and \"leader_election.standby_eligible\" is off." :
				"A standby cannot lead with the store \"local\".", size);
		return false;
	}
	if (reads_only())
	{
		strlcpy(why, "\"default_transaction_read_only\" is on in the server's configuration, so jobs could not write, and \"leader_election.read_only_eligible\" is off.", size);
		return false;
	}
	le_configured_timing(&timing);
	if (le_timing_fault(&timing) != LE_TIMING_OK)
	{
		initStringInfo(&detail);
		le_explain_timing(&timing, &detail);
		*sqlstate = LE_ERRCODE_REFUSED;
		strlcpy(why, detail.data, size);
		pfree(detail.data);
		return false;
	}
	return true;
}

/*
 * May this node contend at all?  If not, "why" is the reason, for an error
 * message or for the status view.
 */
bool
le_may_lead(char *why, size_t size, int *sqlstate)
{
	if (!may_lead_as_original(why, size, sqlstate))
		return false;
	if (le_table->clone_of[0] != '\0')
	{
		snprintf(why, size,
				 "This instance is a clone of node \"%s\", and \"leader_election.clone_eligible\" is off.",
				 le_table->clone_of);
		return false;
	}
	return true;
}

/* Would it contend if it were no clone? */
bool
le_steps_back(void)
{
	char		why[LE_MAX_ERROR_LEN + 1];
	int			sqlstate;

	return le_table->clone_of[0] != '\0' &&
		may_lead_as_original(why, sizeof(why), &sqlstate);
}

/* The same in a word, for other nodes to show; NULL: it may. */
const char *
le_unfit(void)
{
	char		why[256];
	int			sqlstate;

	if (le_may_lead(why, sizeof(why), &sqlstate))
		return NULL;
	if (le_steps_back())
		return "clone";
	if (le_table->stopping)
		return "stopping";
	if (le_eligible && reads_only())
		return "readonly";
	return le_eligible && RecoveryInProgress() &&
		!(le_standby_eligible && le_configured_store()->between_instances) ?
		"standby" : "ineligible";
}

/*
 * The store knows the part of a lease that is lost to clocks, this node only
 * its renewal interval: report it if the two do not fit.  It is safe, but
 * every hitch of the store costs the lead.
 */
void
le_check_trust(LeEligibility *eligibility, le_duration trust)
{
	const char *more = le_configured_store()->lease.takes_more;
	const LeTiming *t = &le_table->node.timing;
	le_duration need = t->renew_interval + LE_ATTEMPTS * LE_MIN_ATTEMPT +
		t->margin;

	if (trust >= need || trust == eligibility->told_trust)
		return;
	eligibility->told_trust = trust;
	ereport(LOG,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("leader_election leases are trusted for %d ms only, too short for three attempts to renew them",
					(int) (trust / LE_MSEC)),
			 errdetail("renew_interval (%d ms), 3 attempts of at least %d ms and safety_margin (%d ms) need %d ms.",
					   (int) (t->renew_interval / LE_MSEC),
					   (int) (LE_MIN_ATTEMPT / LE_MSEC),
					   (int) (t->margin / LE_MSEC), (int) (need / LE_MSEC)),
			 more == NULL ?
			 errhint("Raise \"leader_election.lease_ttl\".") :
			 errhint("Raise \"leader_election.lease_ttl\", or lower %s if the clocks allow it.",
					 more)));
}

/* Does this node contend for the election without a call that waits? */
bool
le_campaigns(const LeSlot *slot)
{
	return (slot->campaign || slot->configured) &&
		le_now() >= slot->campaign_after;
}
