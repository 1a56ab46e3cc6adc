/*-------------------------------------------------------------------------
 *
 * arguments.c
 *		Shared by the SQL functions: arguments, questions, terms.
 *
 * src/sql/arguments.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "settings.h"
#include "shmem/progress.h"
#include "sql/arguments.h"
#include "sql/encoding.h"

/* The longest wait or hold-off, so that nanoseconds cannot overflow. */
#define MAX_INTERVAL	(INT64CONST(366) * 86400 * LE_SEC)

void
le_say_not_preloaded(int elevel)
{
	ereport(elevel,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("leader_election must be loaded via \"shared_preload_libraries\""),
			 errhint("Add leader_election to \"shared_preload_libraries\" and restart the server.")));
}

void
le_check_preloaded(void)
{
	if (le_table == NULL)
		le_say_not_preloaded(ERROR);
}

void
le_check_not_null(FunctionCallInfo fcinfo, int n, const char *name)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be null", name)));
}

static void
set_name(LeAsk *ask, text *name)
{
	char	   *election = text_to_cstring(name);

	if (!le_valid_election_name(election))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid election name: \"%s\"",
						pnstrdup(election,
								 pg_mbcliplen(election, strlen(election),
											  LE_MAX_ELECTION_LEN))),
				 errdetail("A name consists of 1 to %d of the characters A-Z a-z 0-9 . _ - /, without empty, \".\" or \"..\" segments.",
						   LE_MAX_ELECTION_LEN)));
	strlcpy(ask->election, election, sizeof(ask->election));
}

/*
 * An election that the caller is about to change or to depend on.  The limits
 * of a session follow from its login's role and database, not from the current
 * role: those settings apply at login.
 */
void
le_set_election(LeAsk *ask, text *name)
{
	set_name(ask, name);
	if (!le_allows(le_allowed_list, ask->election))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for election \"%s\"",
						ask->election),
				 errdetail("It is not among those that \"leader_election.allowed_elections\" lists for this session.")));
}

/* Values travel as UTF-8, independent of the database's encoding. */
void
le_set_value(LeAsk *ask, text *value)
{
	char	   *server = text_to_cstring(value);
	char	   *utf8 = le_to_utf8(server);

	if (strlen(utf8) > LE_MAX_VALUE_LEN)
		ereport(ERROR,
				(errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
				 errmsg("value is too long"),
				 errdetail("A published value has at most %d bytes; this one has %d.",
						   LE_MAX_VALUE_LEN, (int) strlen(utf8))));
	if (!pg_verify_mbstr(PG_UTF8, utf8, strlen(utf8), true))
		ereport(ERROR,
				(errcode(ERRCODE_CHARACTER_NOT_IN_REPERTOIRE),
				 errmsg("value cannot be represented in UTF-8")));
	strlcpy(ask->value, utf8, sizeof(ask->value));
	ask->has_value = true;
}

/* An interval as a duration; months have no fixed length and are refused. */
le_duration
le_to_duration(Interval *interval, const char *name)
{
	double		seconds;

	if (interval->month != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must not contain months or years",
						name)));
	seconds = interval->day * 86400.0 + interval->time / 1000000.0;
	if (seconds < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must not be negative", name)));
	if (seconds * LE_SEC > (double) MAX_INTERVAL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must not exceed 366 days", name)));
	return (le_duration) (seconds * LE_SEC);
}

/* The time for which this instance is to stay away from an election. */
le_duration
le_to_hold_off(Interval *interval)
{
	le_duration hold_off = le_to_duration(interval, "hold_off");

	if (hold_off > le_max_hold_off * LE_SEC)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"hold_off\" must not exceed %d s",
						le_max_hold_off),
				 errhint("The limit is \"leader_election.max_hold_off\". To stay away for good, turn \"leader_election.eligible\" off.")));
	return hold_off;
}

/*
 * The time within which there must be progress.  '0' means no limit, NULL the
 * setting.  The minimum is a second, since neither pg_cron nor le_run() has
 * shorter intervals.
 */
le_duration
le_to_within(FunctionCallInfo fcinfo, int n)
{
	le_duration within;

	if (PG_ARGISNULL(n))
		return LE_WITHIN_SETTING;
	within = le_to_duration(PG_GETARG_INTERVAL_P(n), "progress_within");
	if (within == 0)
		return LE_WITHIN_ANY;
	if (within < LE_SEC)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"progress_within\" must be at least one second, or zero")));
	return within;
}

/*
 * A question about the election in the first argument.  To ask for its leader
 * takes no more than EXECUTE on the function.
 */
void
le_start_ask(LeAsk *ask, LeRequestKind kind, FunctionCallInfo fcinfo)
{
	memset(ask, 0, sizeof(*ask));
	le_check_preloaded();
	le_check_not_null(fcinfo, 0, "election");
	ask->kind = kind;
	ask->owner = le_my_owner(false);
	if (kind == LE_ASK_LEADER)
		set_name(ask, PG_GETARG_TEXT_PP(0));
	else
		le_set_election(ask, PG_GETARG_TEXT_PP(0));
}

/* Raise the error that the worker replied. */
void
le_throw(const LeReply *reply)
{
	ereport(ERROR,
			(errcode(reply->sqlstate),
			 errmsg_internal("%s", le_shown(reply->message)),
			 reply->detail[0] ?
			 errdetail_internal("%s", le_shown(reply->detail)) : 0,
			 reply->hint[0] ? errhint("%s", le_shown(reply->hint)) : 0));
}

/* Ask the worker; raises the error that it replies. */
void
le_ask_worker(LeAsk *ask, LeReply *reply)
{
	le_ask(ask, reply);
	if (reply->kind == LE_REPLY_ERROR)
		le_throw(reply);
}

/* The same; the hint is for a caller who can do without the store. */
void
le_ask_store(LeAsk *ask, LeReply *reply, const char *hint)
{
	le_ask(ask, reply);
	if (reply->kind != LE_REPLY_ERROR)
		return;
	if (reply->sqlstate == LE_ERRCODE_UNAVAILABLE)
	{
		if (reply->hint[0] != '\0')
			strlcat(reply->hint, " ", sizeof(reply->hint));
		strlcat(reply->hint, hint, sizeof(reply->hint));
	}
	le_throw(reply);
}

/*
 * The term of this backend, if it holds now.  The clock must be read after the
 * deadline: otherwise, after a pause in between, an old instant would meet a
 * newer deadline.
 */
bool
le_my_term(const char *election, LeTerm *term)
{
	return le_read_term(election, term) && le_is_mine(term->owner) &&
		le_believes(le_now(), term->deadline);
}

/* The same for new work: false for a term that is being given up. */
bool
le_may_begin(const char *election, LeTerm *term)
{
	return le_my_term(election, term) && term->drain_until == 0;
}

/* Does this instance hold the election, seek it, or stay away for a while? */
bool
le_takes_part(const char *election)
{
	int			number = le_find_term(election);
	LeSlot	   *slot;
	bool		part;

	if (number < 0)
		return false;
	slot = palloc(sizeof(LeSlot));
	part = le_copy_slot(number, slot) &&
		(slot->election.state != LE_IDLE || slot->campaign ||
		 slot->configured || slot->hold_off_until > le_now());
	pfree(slot);
	return part;
}

/*
 * Note progress of the caller; false: it does not lead.  For the order of the
 * two readings of the clock see le_note_progress().
 */
bool
le_make_progress(const char *election)
{
	le_time		now = le_now();
	LeTerm		term;

	if (!le_may_begin(election, &term))
		return false;
	le_note_progress(le_find_term(election), now);
	return true;
}

/*
 * The leader as last seen; NULL if that was long ago, since an instance that
 * takes no part, or cannot reach the store, would name an outdated one.
 */
const char *
le_leader_seen(const LeSlot *slot)
{
	const LeStore *store = le_configured_store();
	le_duration fresh = 2 * Max(le_table->node.timing.lease,
								store->watch.park_ms * LE_MSEC);

	if (slot->holder.seen == 0 || le_now() - slot->holder.seen > fresh)
		return NULL;
	return slot->holder.node;
}

/* For an error: the leader, or else the trouble, as last seen. */
const char *
le_leader_instead(const char *election)
{
	int			number = le_find_term(election);
	LeSlot	   *slot = palloc(sizeof(LeSlot));
	LeTrouble	trouble;
	const char *holder;
	const char *error;

	if (number < 0 || !le_copy_slot(number, slot))
		return "This instance does not seek it.";
	holder = le_leader_seen(slot);
	if (holder != NULL && holder[0] != '\0')
		return psprintf("Node \"%s\" leads, as last seen.", le_shown(holder));
	le_copy_trouble(&trouble);
	error = trouble.at > slot->error.at ? trouble.text : slot->error.text;
	if (error[0] != '\0')
		return psprintf("No leader is known. The last error: %s",
						le_shown(error));
	return "No leader is known.";
}
