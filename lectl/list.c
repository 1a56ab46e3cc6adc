/*
 * lectl/list.c
 *
 * lectl list: elections, jobs and nodes, as several instances see them, in one
 * table.
 *
 * Each host reports the elections that it holds or seeks.  Its view of others
 * (leaders, nodes, the jobs in the store) is shown once, and without the nodes
 * that answered themselves.
 */
#include "table.h"

#define ANSWER_WITHIN	(30 * SEC)

/* The columns; the queries below have more behind these. */
enum
{
	COLUMN_ELECTION,
	COLUMN_JOB,
	COLUMN_NODE,
	COLUMN_HOST,
	COLUMN_STATE,
	COLUMN_TOKEN,
	COLUMN_SINCE,
	COLUMN_TICK,
	COLUMN_REMARK
};

static const char *const headers[TABLE_COLUMNS] = {
	"election", "job", "node", "host", "state", "token", "since", "tick",
	"remark"
};
static const bool numbers[TABLE_COLUMNS] = {[COLUMN_TOKEN] = true};

/* The order of an election's rows, then those without an election. */
enum
{
	RANK_LEADER,
	RANK_OTHER,
	RANK_JOB,
	RANK_NODE,
	RANK_HOST
};

enum
{
	ASK_STATUS,
	ASK_NODES,
	ASK_JOBS
};

/* This instance: a row for each election, or one row if there is none. */
static const char status_query[] =
	"SELECT s.election, NULL, "
	"coalesce(n.node, pg_catalog.current_setting('leader_election.node_name')), "
	"NULL, coalesce(s.state, n.state, 'idle'), s.fencing_token, "
	"pg_catalog.date_trunc('second', coalesce(s.term_started_at, s.last_change_at)), "
	"NULL, coalesce(s.last_error, 'for another ' || "
	"pg_catalog.round(extract(epoch FROM s.expires_at - clock_timestamp())) || ' s'), "
	"s.holder, n.incarnation, s.fencing_token IS NOT NULL "
	"FROM (SELECT 1) one LEFT JOIN le_nodes n ON n.is_self "
	"LEFT JOIN le_status s "
	"ON $1::text[] IS NULL OR s.election = ANY ($1::text[])";
#define STATUS_HOLDER		9
#define STATUS_INCARNATION	10
#define STATUS_LEADS		11

/* The other nodes, as this instance sees them. */
static const char nodes_query[] =
	"SELECT NULL, NULL, node, NULL, state, NULL, NULL, NULL, "
	"'last seen ' || pg_catalog.date_trunc('second', last_proof_seen_at), "
	"incarnation FROM le_nodes "
	"WHERE NOT is_self AND state NOT IN ('ended', 'revoked')";
#define NODES_INCARNATION	9

static bool
is_same(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void
take_row(Table *table, const PGresult *result, int row, const char *host,
		 int rank)
{
	const char *cells[TABLE_COLUMNS];

	for (int i = 0; i < TABLE_COLUMNS; i++)
		cells[i] = value_of(result, row, i);
	cells[COLUMN_HOST] = host;
	table_add(table, cells, rank);
}

static int
take_error(Table *table, const Host *host, const char *state,
		   const char *error, int code)
{
	const char *cells[TABLE_COLUMNS] = {
		[COLUMN_HOST] = host->name,[COLUMN_STATE] = state,
		[COLUMN_REMARK] = error
	};

	table_add(table, cells, RANK_HOST);
	return code;
}

/* An error has a row, too. */
static int
take_failure(Table *table, const Host *host, const char *state,
			 const PGresult *result)
{
	return take_error(table, host, state, error_of(result),
					  exit_code_of(result));
}

static int
take_status(Table *table, const Host *host)
{
	const PGresult *result = host->answers[ASK_STATUS];

	if (host->error != NULL)
		return take_error(table, host, "no answer", host->error, host->code);
	if (!has_rows(result))
		return take_failure(table, host, "refused", result);
	for (int r = 0; r < PQntuples(result); r++)
		take_row(table, result, r, host->name,
				 PQgetisnull(result, r, COLUMN_ELECTION) ? RANK_NODE :
				 *PQgetvalue(result, r, STATUS_LEADS) == 't' ? RANK_LEADER :
				 RANK_OTHER);
	return 0;
}

static bool
has_leader(const Table *table, const char *election)
{
	for (int i = 0; i < table->n; i++)
		if (table->rows[i].rank == RANK_LEADER &&
			is_same(table->rows[i].cells[COLUMN_ELECTION], election))
			return true;
	return false;
}

/* Leaders that were not asked, or do not see themselves as leader. */
static void
take_holders(Table *table, const Host *host)
{
	const PGresult *result = host->answers[ASK_STATUS];

	for (int r = 0; host->error == NULL && has_rows(result) &&
		 r < PQntuples(result); r++)
	{
		const char *holder = value_of(result, r, STATUS_HOLDER);
		const char *cells[TABLE_COLUMNS] = {
			[COLUMN_ELECTION] = value_of(result, r, COLUMN_ELECTION),
			[COLUMN_NODE] = holder,[COLUMN_STATE] = "leader",
			[COLUMN_REMARK] = psprintf("as %s has seen", host->name)
		};

		if (holder != NULL && !has_leader(table, cells[COLUMN_ELECTION]))
			table_add(table, cells, RANK_LEADER);
	}
}

static bool
was_asked(const Host *hosts, int n, const char *incarnation)
{
	for (int i = 0; i < n; i++)
	{
		const PGresult *result = hosts[i].answers[ASK_STATUS];

		if (hosts[i].error == NULL && has_rows(result) &&
			PQntuples(result) > 0 &&
			is_same(value_of(result, 0, STATUS_INCARNATION), incarnation))
			return true;
	}
	return false;
}

static bool
has_row(const Table *table, int rank, const char *const *like,
		const int *columns, int n)
{
	for (int i = 0; i < table->n; i++)
	{
		bool		same = table->rows[i].rank == rank;

		for (int c = 0; c < n; c++)
			same = same && is_same(table->rows[i].cells[columns[c]],
								   like[columns[c]]);
		if (same)
			return true;
	}
	return false;
}

static void
take_nodes(Table *table, const Host *host, const Host *hosts, int n)
{
	static const int node[] = {COLUMN_NODE, COLUMN_HOST};
	const PGresult *result = host->answers[ASK_NODES];

	for (int r = 0; has_rows(result) && r < PQntuples(result); r++)
	{
		const char *cells[TABLE_COLUMNS] = {
			[COLUMN_NODE] = value_of(result, r, COLUMN_NODE)
		};

		if (!was_asked(hosts, n, value_of(result, r, NODES_INCARNATION)) &&
			!has_row(table, RANK_NODE, cells, node, lengthof(node)))
			take_row(table, result, r, NULL, RANK_NODE);
	}
}

/* Jobs are the same on all hosts, except with store local. */
static int
take_jobs(Table *table, const Host *host)
{
	static const int job[] = {COLUMN_ELECTION, COLUMN_JOB, COLUMN_HOST};
	const PGresult *result = host->answers[ASK_JOBS];

	if (!has_rows(result))
		return take_failure(table, host, "no jobs", result);
	for (int r = 0; r < PQntuples(result); r++)
	{
		bool		local = *PQgetvalue(result, r, JOBS_LOCAL) == 't';
		const char *cells[TABLE_COLUMNS] = {
			[COLUMN_ELECTION] = value_of(result, r, JOBS_ELECTION),
			[COLUMN_JOB] = value_of(result, r, JOBS_JOB),
			[COLUMN_NODE] = value_of(result, r, JOBS_NODE),
			[COLUMN_HOST] = local ? host->name : NULL,
			[COLUMN_STATE] = value_of(result, r, JOBS_STATE),
			[COLUMN_TOKEN] = value_of(result, r, JOBS_TOKEN),
			[COLUMN_SINCE] = value_of(result, r, JOBS_SINCE),
			[COLUMN_TICK] = value_of(result, r, JOBS_TICK),
			[COLUMN_REMARK] = value_of(result, r, JOBS_REMARK)
		};

		if (!has_row(table, RANK_JOB, cells, job, lengthof(job)))
			table_add(table, cells, RANK_JOB);
	}
	return 0;
}

static int
compare_text(const char *a, const char *b)
{
	if (a == NULL || b == NULL)
		return (a == NULL) - (b == NULL);
	return strcmp(a, b);
}

static int
compare_rows(const void *a, const void *b)
{
	static const int by[] = {
		COLUMN_JOB, COLUMN_NODE, COLUMN_HOST, COLUMN_STATE
	};
	const TableRow *one = a;
	const TableRow *two = b;
	int			found = compare_text(one->cells[COLUMN_ELECTION],
									 two->cells[COLUMN_ELECTION]);

	if (found == 0)
		found = one->rank - two->rank;
	for (int i = 0; found == 0 && i < lengthof(by); i++)
		found = compare_text(one->cells[by[i]], two->cells[by[i]]);
	return found;
}

/* The highest exit code counts. */
static void
raise_code(int *code, int other)
{
	*code = Max(*code, other);
}

int
run_list(const Options *options)
{
	const char *elections = text_array(options->words);
	const char *values[] = {elections, NULL};
	const Question questions[] = {
		[ASK_STATUS] = {status_query, 1, values},
		[ASK_NODES] = {nodes_query, 0, NULL},
		[ASK_JOBS] = {jobs_query, 2, values}
	};
	Table		table = {.headers = headers,.numbers = numbers};
	int			n;
	Host	   *hosts = hosts_of(options, &n);
	int			code = 0;

	ask_hosts(options, hosts, n, questions, lengthof(questions),
			  now() + ANSWER_WITHIN);
	for (int i = 0; i < n; i++)
		raise_code(&code, take_status(&table, &hosts[i]));
	for (int i = 0; i < n; i++)
		take_holders(&table, &hosts[i]);
	for (int i = 0; i < n; i++)
	{
		if (hosts[i].error != NULL || !has_rows(hosts[i].answers[ASK_STATUS]))
			continue;
		if (elections == NULL)
			take_nodes(&table, &hosts[i], hosts, n);
		raise_code(&code, take_jobs(&table, &hosts[i]));
	}
	if (table.n > 0)
		qsort(table.rows, table.n, sizeof(TableRow), compare_rows);
	table_print(&table, options->csv ? TABLE_CSV : options->json ? TABLE_JSON :
				TABLE_ALIGNED, stdout);
	return code;
}
