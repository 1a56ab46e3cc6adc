/*
 * lectl/connect.c
 *
 * The connection to the server, and what its errors mean to our caller.
 */
#include "lectl.h"

#include <unistd.h>

#include "common/string.h"

/*
 * A server that is gone without a word must be noticed while we wait for our
 * turn, so the kernel asks after it; who wants other times says so in the
 * connection string, which counts since it comes later.
 */
static PGconn *
try_connect(const Options *options, const char *password)
{
	const char *const keywords[] = {
		"fallback_application_name", "connect_timeout", "keepalives_idle",
		"keepalives_interval", "keepalives_count", "host", "port", "user",
		"password", "dbname", NULL
	};
	const char *const values[] = {
		progname, getenv("PGCONNECT_TIMEOUT") ? NULL : "10", "10",
		"5", "3", options->host, options->port, options->user,
		password, options->dbname, NULL
	};

	return PQconnectdbParams(keywords, values, 1);
}

static char *
ask_password(void)
{
	return simple_prompt("Password: ", false);
}

/* Who cannot connect has run nothing; that ends us. */
PGconn *
connect_to(const Options *options)
{
	char	   *password = options->password > 0 ? ask_password() : NULL;
	PGconn	   *conn = try_connect(options, password);

	if (conn != NULL && PQstatus(conn) == CONNECTION_BAD &&
		PQconnectionNeedsPassword(conn) && password == NULL &&
		options->password == 0 && isatty(STDIN_FILENO))
	{
		PQfinish(conn);
		password = ask_password();
		conn = try_connect(options, password);
	}
	if (password != NULL)
	{
		explicit_bzero(password, strlen(password));
		free(password);
	}
	if (conn == NULL || PQstatus(conn) == CONNECTION_BAD)
	{
		pg_log_error("%s", conn ? PQerrorMessage(conn) : "out of memory");
		exit(LECTL_UNAVAILABLE);
	}
	return conn;
}

/* By the SQLSTATE of an error, as docs/reference.md lists them. */
int
exit_code_of(const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	if (sqlstate == NULL)
		return LECTL_UNAVAILABLE;
	if (strcmp(sqlstate, "LE001") == 0 || strcmp(sqlstate, "LE002") == 0)
		return LECTL_NOT_LEADER;
	if (strncmp(sqlstate, "22", 2) == 0 || strncmp(sqlstate, "0A", 2) == 0)
		return LECTL_USAGE;
	if (strcmp(sqlstate, "LE005") == 0 || strncmp(sqlstate, "42", 2) == 0 ||
		strncmp(sqlstate, "53", 2) == 0 || strncmp(sqlstate, "F0", 2) == 0)
		return LECTL_REFUSED;
	return LECTL_UNAVAILABLE;
}
