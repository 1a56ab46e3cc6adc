/*
 * lectl/check.c
 *
 * lectl check: a plugin for monitoring systems: one line with performance
 * data, and the exit codes of such plugins.  A failed check and wrong usage
 * are UNKNOWN.
 */
#include "lectl.h"

#include <ctype.h>
#include <math.h>

typedef enum Level
{
	OK,
	WARNING,
	CRITICAL,
	UNKNOWN
} Level;

static const char *const level_names[] = {
	"OK", "WARNING", "CRITICAL", "UNKNOWN"
};

/* A plugin's threshold: values outside of it alert, or those inside. */
typedef struct Range
{
	const char *text;			/* NULL: never alerts */
	double		from;
	double		to;
	bool		inside;
} Range;

typedef struct Check
{
	const Options *options;
	instant		limit;
	Range		warning;
	Range		critical;
	const char *what;
} Check;

/* ---- the line ---- */

static void
tell(const Check *check, Level level, const char *text, const char *perf)
{
	char	   *line = first_line(text);

	/* the bar begins the performance data */
	for (char *c = line; *c != '\0'; c++)
		if (*c == '|')
			*c = '/';
	printf("LECTL %s %s - %s%s%s\n", check->what, level_names[level], line,
		   perf ? " | " : "", perf ? perf : "");
	exit(level);
}

static void
tell_failure(const Check *check, Level level, const PGresult *result)
{
	tell(check, level, error_of(result), NULL);
}

/* ---- thresholds ---- */

static bool
read_number(const char **text, double *number)
{
	char	   *end;

	if (!isdigit((unsigned char) **text) && **text != '-' && **text != '.')
		return false;
	*number = strtod(*text, &end);
	*text = end;
	return true;
}

static Range
read_range(const char *text, const char *option)
{
	Range		range = {text, 0, HUGE_VAL, false};
	const char *at = text;
	bool		fine = true;

	if (text == NULL)
		return range;
	if (*at == '@')
		range.inside = *at++ == '@';
	if (strchr(at, ':') == NULL)
		fine = read_number(&at, &range.to);
	else
	{
		if (*at == '~')
		{
			range.from = -HUGE_VAL;
			at++;
		}
		else if (*at != ':')
			fine = read_number(&at, &range.from);
		if (*at != ':')
			fine = false;
		else if (*++at != '\0')
			fine = fine && read_number(&at, &range.to);
	}
	if (!fine || *at != '\0' || range.from > range.to)
	{
		pg_log_error("invalid range for option \"%s\": \"%s\"", option, text);
		wrong_usage();
	}
	return range;
}

static bool
alerts(const Range *range, double value)
{
	return range->text != NULL &&
		(value >= range->from && value <= range->to) == range->inside;
}

static Level
level_of(const Check *check, double value)
{
	return alerts(&check->critical, value) ? CRITICAL :
		alerts(&check->warning, value) ? WARNING : OK;
}

static void
set_thresholds(Check *check, const char *warning, const char *critical)
{
	const Options *options = check->options;
	bool		own = options->warning != NULL || options->critical != NULL;

	check->warning = read_range(own ? options->warning : warning, "--warning");
	check->critical = read_range(own ? options->critical : critical,
								 "--critical");
}

static char *
performance(const Check *check, const char *name, const char *value)
{
	return psprintf("%s=%s;%s;%s;0", name, value,
					check->warning.text ? check->warning.text : "",
					check->critical.text ? check->critical.text : "");
}

/* ---- asking ---- */

/* Connecting counts, too. */
static instant
read_timeout(const char *text)
{
	char	   *end;
	double		seconds = strtod(text, &end);

	if (end == text || *end != '\0' || !(seconds > 0 && seconds < 1e6))
	{
		pg_log_error("invalid value for option \"%s\": \"%s\"", "--timeout", text);
		wrong_usage();
	}
	setenv("PGCONNECT_TIMEOUT", psprintf("%d", (int) ceil(seconds)), 0);
	return (instant) (seconds * SEC);
}

/* A silent server is a finding of the check, not its failure. */
static void
tell_silence(const Check *check, const char *why)
{
	tell(check, CRITICAL, psprintf("no server answers: %s", why), NULL);
}

static void
tell_delay(const Check *check)
{
	tell(check, CRITICAL, "the server has not answered in time", NULL);
}

/*
 * A server that answers and rejects us, and invalid parameters, are failures
 * of the check.  The ping may take as long as the connection attempt did.
 */
static bool
is_silent(const Check *check, instant began)
{
	PGPing		ping;

	if (now() + (now() - began) > check->limit)
		return true;
	ping = ping_server(check->options);
	return ping == PQPING_NO_RESPONSE || ping == PQPING_REJECT;
}

/* Any host that answers will do. */
static PGconn *
connect_in_time(const Check *check)
{
	instant		began = now();
	PGconn	   *conn = connect_again(check->options);

	if (conn == NULL || PQstatus(conn) == CONNECTION_BAD)
	{
		if (is_silent(check, began))
			tell_silence(check, why_lost(conn));
		tell(check, UNKNOWN, why_lost(conn), NULL);
	}
	for (int i = 0; i < PREPARATIONS; i++)
	{
		PGresult   *result = ask_server(conn, &preparations[i], check->limit);

		if (result == NULL)
			tell_delay(check);
		if (!has_rows(result))
			tell_failure(check, UNKNOWN, result);
		if (i == 1 && !found_extension(result))
			tell(check, UNKNOWN, "extension \"leader_election\" is not installed there",
				 NULL);
		PQclear(result);
	}
	return conn;
}

static PGresult *
must_ask(const Check *check, PGconn *conn, const Question *question)
{
	PGresult   *result = ask_server(conn, question, check->limit);

	if (result == NULL)
		tell_delay(check);
	if (!has_rows(result))
		tell_failure(check, UNKNOWN, result);
	return result;
}

/* ---- the checks ---- */

/* Elections without a leader, by a read of the store. */
static void
check_leader(Check *check)
{
	const char *values[] = {text_array(check->options->words + 1)};
	const Question question = {
		"SELECT election, le_current_leader(election) FROM "
		"pg_catalog.unnest($1::text[]) election", 1, values
	};
	const Question of_all =
	PLAIN("SELECT election, le_current_leader(election) FROM le_status "
		  "WHERE state <> 'idle' ORDER BY election");
	PGresult   *result;
	char	   *without = NULL;
	int			n = 0;
	int			of;

	set_thresholds(check, NULL, "0");
	result = must_ask(check, connect_in_time(check),
					  values[0] ? &question : &of_all);
	of = PQntuples(result);
	if (of == 0)
		tell(check, UNKNOWN, "the instance seeks no election: name one", NULL);
	for (int i = 0; i < of; i++)
		if (PQgetisnull(result, i, 1))
		{
			without = without == NULL ? psprintf("nobody leads %s", PQgetvalue(result, i, 0)) :
				psprintf("%s, %s", without, PQgetvalue(result, i, 0));
			n++;
		}
	if (without == NULL)
		without = of == 1 ? psprintf("%s leads %s", PQgetvalue(result, 0, 1),
									 PQgetvalue(result, 0, 0)) :
			psprintf("%d elections have a leader", of);
	tell(check, level_of(check, n), without,
		 psprintf("%s elections=%d;;;0",
				  performance(check, "leaderless", psprintf("%d", n)), of));
}

typedef struct Candidate
{
	const char *election;
	const char *id;
} Candidate;

typedef struct Candidates
{
	Candidate  *list;
	int			n;
	int			silent;			/* hosts without a result */
	int			refused;		/* those of them that answered an error */
	const char *why;
	bool		others;			/* the store lists other nodes */
} Candidates;

static void
add_candidate(Candidates *all, const char *election, const char *id)
{
	for (int i = 0; i < all->n; i++)
		if (strcmp(all->list[i].election, election) == 0 &&
			strcmp(all->list[i].id, id) == 0)
			return;
	all->list = pg_realloc(all->list, (all->n + 1) * sizeof(Candidate));
	all->list[all->n].election = pg_strdup(election);
	all->list[all->n++].id = pg_strdup(id);
}

static int
count_candidates(const Candidates *all, const char *election)
{
	int			n = 0;

	for (int i = 0; i < all->n; i++)
		n += strcmp(all->list[i].election, election) == 0;
	return n;
}

static void
hear_candidates(Candidates *all, const Host *host)
{
	const PGresult *result = host->answers[0];

	if (host->error != NULL || !has_rows(result))
	{
		all->silent++;
		all->refused += host->error == NULL;
		all->why = host->error ? host->error :
			error_of(result);
		return;
	}
	for (int r = 0; r < PQntuples(result); r++)
	{
		all->others |= *PQgetvalue(result, r, 2) == 't';
		if (!PQgetisnull(result, r, 1))
			add_candidate(all, PQgetvalue(result, r, 0),
						  PQgetvalue(result, r, 1));
	}
}

/*
 * The nodes that can lead, which every instance knows with Consul; or the
 * hosts that contend for an election: each host knows only of itself.
 */
static void
check_candidates(Check *check)
{
	char	  **elections = check->options->words + 1;
	const char *values[] = {text_array(elections)};
	const Question of_elections = {
		"SELECT e, n.incarnation, false FROM pg_catalog.unnest($1::text[]) e "
		"LEFT JOIN le_status s ON s.election = e AND "
		"s.state NOT IN ('idle', 'candidate', 'stepped down', 'expired', 'reading') "
		"LEFT JOIN le_nodes n ON n.is_self AND s.election IS NOT NULL",
		1, values
	};
	const Question of_nodes =
	PLAIN("SELECT '', n.incarnation, pg_catalog.current_setting("
		  "'leader_election.backend') = 'consul' "
		  "FROM (SELECT 1) one LEFT JOIN le_nodes n ON state = 'live'");
	Candidates	all = {0};
	int			n;
	Host	   *hosts = hosts_of(check->options, &n);
	int			least;
	char	   *text;

	set_thresholds(check, "2:", "1:");
	ask_hosts(check->options, hosts, n,
			  values[0] ? &of_elections : &of_nodes, 1, check->limit);
	for (int i = 0; i < n; i++)
		hear_candidates(&all, &hosts[i]);
	if (all.silent == n && all.refused == 0)
		tell_silence(check, all.why);
	if (all.silent == n)
		tell(check, UNKNOWN, all.why, NULL);
	if (n == 1 && !all.others)
		tell(check, UNKNOWN, "the instance knows of no others: name all hosts", NULL);
	least = count_candidates(&all, elections[0] ? elections[0] : "");
	for (int i = 1; elections[0] != NULL && elections[i] != NULL; i++)
		least = Min(least, count_candidates(&all, elections[i]));
	text = psprintf("%d %s can lead", least, least == 1 ? "node" : "nodes");
	if (all.silent > 0)
		text = psprintf("%s, %d of %d hosts did not answer: %s", text, all.silent,
						n, all.why);
	tell(check, level_of(check, least), text,
		 performance(check, "candidates", psprintf("%d", least)));
}

/* Jobs with the same fault. */
typedef struct Jobs
{
	const char *what;
	char	   *names;			/* NULL: none */
	int			n;
} Jobs;

static void
add_job(Jobs *jobs, const PGresult *result, int row)
{
	char	   *name = psprintf("%s of %s", PQgetvalue(result, row, JOBS_JOB),
								PQgetvalue(result, row, JOBS_ELECTION));

	jobs->names = jobs->names ? psprintf("%s, %s", jobs->names, name) :
		psprintf("%s: %s", jobs->what, name);
	jobs->n++;
}

static char *
append(char *text, const char *more)
{
	if (more == NULL)
		return text;
	return text == NULL ? pg_strdup(more) : psprintf("%s; %s", text, more);
}

static int64_t
age_of(const PGresult *result, int row)
{
	return strtoll(PQgetvalue(result, row, JOBS_AGE), NULL, 10);
}

/*
 * Judges the result of the last run, the age of its tick, a tick that is
 * overdue, and one that a wrong clock claimed.
 */
static void
check_jobs(Check *check)
{
	const char *values[] = {
		text_array(check->options->words + 1), check->options->job
	};
	const Question question = {jobs_query, 2, values};
	PGresult   *result;
	Jobs		failed = {.what = "failed"};
	Jobs		abandoned = {.what = "abandoned"};
	Jobs		lost = {.what = "lost by the store"};
	Jobs		late = {.what = "late"};
	Jobs		ahead = {.what = "ahead of the clock"};
	int			oldest = 0;
	Level		level;
	Level		said;
	char	   *text;
	char	   *wrong;

	set_thresholds(check, NULL, NULL);
	result = must_ask(check, connect_in_time(check), &question);
	if (PQntuples(result) == 0)
		tell(check, UNKNOWN, "no job has run", NULL);
	for (int r = 0; r < PQntuples(result); r++)
	{
		const char *state = PQgetvalue(result, r, JOBS_STATE);

		if (age_of(result, r) > age_of(result, oldest))
			oldest = r;
		if (strcmp(state, "failed") == 0)
			add_job(&failed, result, r);
		if (strcmp(state, "abandoned") == 0)
			add_job(&abandoned, result, r);
		if (strcmp(state, "lost") == 0)
			add_job(&lost, result, r);
		if (*PQgetvalue(result, r, JOBS_LATE) == 't')
			add_job(&late, result, r);
		if (*PQgetvalue(result, r, JOBS_AHEAD) == 't')
			add_job(&ahead, result, r);
	}
	level = level_of(check, age_of(result, oldest));
	said = failed.n + abandoned.n + lost.n > 0 ? CRITICAL :
		late.n + ahead.n > 0 ? WARNING : OK;
	text = psprintf("the newest tick of %s of %s was at %s",
					PQgetvalue(result, oldest, JOBS_JOB),
					PQgetvalue(result, oldest, JOBS_ELECTION),
					PQgetvalue(result, oldest, JOBS_TICK));
	wrong = append(append(failed.names, abandoned.names), lost.names);
	wrong = append(wrong, append(late.names, ahead.names));
	if (wrong != NULL)
		text = level == OK ? wrong : append(wrong, text);
	tell(check, Max(said, level), text,
		 psprintf("%s failed=%d;;0;0 abandoned=%d;;0;0 lost=%d;;0;0 late=%d;0;;0 ahead=%d;0;;0 jobs=%d;;;0",
				  performance(check, "age", psprintf("%ss", PQgetvalue(result, oldest, JOBS_AGE))),
				  failed.n, abandoned.n, lost.n, late.n, ahead.n,
				  PQntuples(result)));
}

static bool
has_sqlstate(const PGresult *result, const char *sqlstate)
{
	const char *found = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return found != NULL && strcmp(found, sqlstate) == 0;
}

/* A read of the store, and the instance's own findings about it. */
static void
check_store(Check *check)
{
	const char *values[] = {
		psprintf("%lld ms", (long long) Max(1, (check->limit - now() - SEC / 2) / MSEC))
	};
	const Question hurry = {
		"SELECT pg_catalog.set_config('statement_timeout', $1, false)", 1, values
	};
	const Question read = PLAIN("SELECT le_current_leader('lectl/check')");
	const Question judge =
	PLAIN("SELECT level, message FROM le_check_config() WHERE level <> 'ok' AND "
		  "(topic IN ('worker', 'store', 'contact', 'claims', 'token', 'restore') "
		  "OR level = 'error' AND topic IN ('node', 'secrets', 'files')) "
		  "ORDER BY level = 'error' DESC LIMIT 1");
	PGconn	   *conn;
	PGresult   *result;
	instant		sent;
	double		seconds;
	char	   *perf;
	Level		level;
	Level		said;

	set_thresholds(check, NULL, NULL);
	conn = connect_in_time(check);
	PQclear(must_ask(check, conn, &hurry));
	sent = now();
	result = ask_server(conn, &read, check->limit);
	seconds = (double) (now() - sent) / SEC;
	perf = performance(check, "time", psprintf("%.6fs", seconds));
	if (result == NULL)
		tell_delay(check);
	if (has_sqlstate(result, "57014"))
		tell(check, CRITICAL, "the store has not answered in time", NULL);
	if (!has_rows(result))
		tell_failure(check, has_sqlstate(result, "42501") ? UNKNOWN : CRITICAL,
					 result);
	level = level_of(check, seconds);
	result = must_ask(check, conn, &judge);
	said = PQntuples(result) == 0 ? OK :
		strcmp(PQgetvalue(result, 0, 0), "error") == 0 ? CRITICAL : WARNING;
	tell(check, Max(level, said), said >= level && said != OK ?
		 PQgetvalue(result, 0, 1) :
		 psprintf("the store answered in %.1f ms", seconds * 1000), perf);
}

int
run_check(const Options *options)
{
	static const struct
	{
		const char *word;
		const char *what;
		void		(*run) (Check *check);
	}			checks[] = {
		{"leader", "LEADER", check_leader},
		{"candidates", "CANDIDATES", check_candidates},
		{"jobs", "JOBS", check_jobs},
		{"store", "STORE", check_store}
	};
	Check		check = {
		.options = options,.limit = now() + read_timeout(options->timeout ? options->timeout : "10")
	};

	for (int i = 0; i < lengthof(checks); i++)
		if (strcmp(options->words[0], checks[i].word) == 0)
		{
			check.what = checks[i].what;
			checks[i].run(&check);
		}
	pg_log_error("\"%s\" cannot be checked", options->words[0]);
	wrong_usage();
	return UNKNOWN;
}
