/*
 * lectl/wait.c
 *
 * lectl wait: until this instance leads, or any node does.
 *
 * Passing trouble (a lost connection, a silent store) is reported, and waited
 * out until the time is over.
 */
#include "lectl.h"

#include <poll.h>

#define ANSWER_WITHIN	(60 * SEC)

/* Shared memory may be read more often than the store. */
#define LOOK_EVERY		(100 * MSEC)
#define ASK_EVERY		(500 * MSEC)
#define CONNECT_EVERY	SEC

typedef struct Wait
{
	const Options *options;
	PGconn	   *conn;			/* NULL: lost */
	instant		until;
	bool		troubled;		/* and that was reported */
} Wait;

/* Reports trouble once, until all is well again; frees the text. */
static void
tell_trouble(Wait *wait, char *what)
{
	if (!wait->troubled)
		pg_log_warning("%s", what);
	wait->troubled = true;
	free(what);
}

static void
lose_connection(Wait *wait)
{
	tell_trouble(wait, why_lost(wait->conn));
	PQfinish(wait->conn);
	wait->conn = NULL;
}

static void
reconnect(Wait *wait)
{
	wait->conn = connect_again(wait->options);
	if (wait->conn != NULL &&
		(PQstatus(wait->conn) == CONNECTION_BAD || !make_ready(wait->conn)))
		lose_connection(wait);
}

static bool
look(Wait *wait)
{
	const Options *options = wait->options;
	const char *values[] = {options->election, options->leader};
	const char *query = options->leader ?
		"SELECT coalesce(le_current_leader($1) = $2, false)" : options->any ?
		"SELECT le_current_leader($1) IS NOT NULL" : "SELECT le_is_leader($1)";
	Question	question = {query, options->leader ? 2 : 1, values};
	PGresult   *result = ask_server(wait->conn, &question,
									now() + ANSWER_WITHIN);
	bool		found = false;

	if (result == NULL)
		lose_connection(wait);
	else if (has_rows(result))
	{
		wait->troubled = false;
		found = *PQgetvalue(result, 0, 0) == 't';
	}
	else if (exit_code_of(result) != LECTL_UNAVAILABLE)
	{
		tell_error(result);
		exit(exit_code_of(result));
	}
	else
		tell_trouble(wait, error_of(result));
	PQclear(result);
	return found;
}

/*
 * le_is_leader() must not fail, and is false for an invalid name; we would
 * wait for ever.  le_run_call() is open to all roles, too, and raises an
 * error.
 */
static void
must_be_a_name(Wait *wait)
{
	const char *values[] = {wait->options->election};
	const Question question = {"SELECT le_run_call($1, 'SELECT 1')", 1, values};
	PGresult   *result = ask_server(wait->conn, &question,
									now() + ANSWER_WITHIN);

	if (result != NULL && !has_rows(result) &&
		exit_code_of(result) == LECTL_USAGE)
	{
		tell_error(result);
		exit(LECTL_USAGE);
	}
	PQclear(result);
}

/* "this instance" is ambiguous with several hosts. */
static void
must_be_one_host(const Options *options)
{
	int			n;

	hosts_of(options, &n);
	if (n == 1)
		return;
	pg_log_error("--me needs one host, not %d", n);
	wrong_usage();
}

int
run_wait(const Options *options)
{
	Wait		wait = {.options = options, .until = NEVER};
	bool		me = !options->any && options->leader == NULL;
	instant		next;

	if (me)
		must_be_one_host(options);
	wait.conn = connect_ready(options, true);
	if (me)
		must_be_a_name(&wait);
	if (options->timeout != NULL)
		wait.until = now() + interval_of(wait.conn, options->timeout);
	for (;;)
	{
		if (wait.conn != NULL && look(&wait))
			return 0;
		if (now() >= wait.until)
			break;
		next = wait.conn == NULL ? CONNECT_EVERY : me ? LOOK_EVERY : ASK_EVERY;
		next = Min(next, wait.until - now());
		poll(NULL, 0, (int) (Max(next, 0) / MSEC) + 1);
		if (wait.conn == NULL)
			reconnect(&wait);
	}
	pg_log_error("none of the awaited nodes leads election \"%s\"",
				 options->election);
	return LECTL_NOT_LEADER;
}
