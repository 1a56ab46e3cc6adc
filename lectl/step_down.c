/*
 * lectl/step_down.c
 *
 * lectl step-down: an instance gives up its term, and stays away for a while.
 *
 * With one host that instance steps down, even if it only contends.  With
 * several only the leader does: a contender would stay away at the wrong time.
 */
#include "lectl.h"

#define ANSWER_WITHIN	(30 * SEC)

/* The host that leads, itself or by a session; NULL: none. */
static PGconn *
find_leader(const Options *options, Host *hosts, int n, int *code)
{
	const char *values[] = {options->election};
	const Question question = {
		"SELECT le_is_leader($1) OR "
		"(SELECT coalesce(is_self, false) FROM le_leader($1))", 1, values
	};
	PGconn	   *leader = NULL;

	ask_hosts(options, hosts, n, &question, 1, now() + ANSWER_WITHIN);
	for (int i = 0; i < n; i++)
	{
		if (hosts[i].error != NULL)
		{
			pg_log_warning("%s", hosts[i].error);
			*code = Max(*code, hosts[i].code);
		}
		else if (!has_rows(hosts[i].answers[0]))
		{
			tell_error(hosts[i].answers[0]);
			hosts[i].code = exit_code_of(hosts[i].answers[0]);
			*code = Max(*code, hosts[i].code);
		}
		else if (leader == NULL &&
				 *PQgetvalue(hosts[i].answers[0], 0, 0) == 't')
			leader = hosts[i].conn;
	}
	return leader;
}

/* No time limit: the call waits for transactions bound to the term. */
static int
step_down(const Options *options, PGconn *conn)
{
	const char *values[] = {options->election, options->hold_off};
	const Question question = {
		options->hold_off ? "SELECT le_step_down($1, $2::interval)" :
		"SELECT le_step_down($1)", options->hold_off ? 2 : 1, values
	};
	PGresult   *result = ask_server(conn, &question, NEVER);
	bool		done;

	if (result == NULL || !has_rows(result))
	{
		if (result != NULL)
			tell_error(result);
		else
			pg_log_error("%s", PQerrorMessage(conn));
		return result ? exit_code_of(result) : LECTL_UNAVAILABLE;
	}
	done = *PQgetvalue(result, 0, 0) == 't';
	if (!done && !options->all)
		pg_log_error("the instance neither leads nor seeks election \"%s\"",
					 options->election);
	return done || options->all ? 0 : LECTL_NOT_LEADER;
}

int
run_step_down(const Options *options)
{
	int			n;
	Host	   *hosts = hosts_of(options, &n);
	PGconn	   *leader;
	int			code = 0;

	if (n == 1)
		return step_down(options, connect_ready(options, false));
	if (options->all)
	{
		pg_log_error("--all needs one host, not %d", n);
		wrong_usage();
	}
	leader = find_leader(options, hosts, n, &code);
	if (leader != NULL)
		return step_down(options, leader);
	pg_log_error("none of the hosts leads election \"%s\"", options->election);
	return code != 0 ? code : LECTL_NOT_LEADER;
}
