/*
 * lectl/connect.c
 *
 * Connections to servers, queries, and the exit codes of their errors.
 */
#include "lectl.h"

#include <poll.h>
#include <unistd.h>

#include "common/string.h"

#define CONNECT_TIMEOUT	10		/* seconds, if not set otherwise */
#define PREPARE_WITHIN	(30 * SEC)

/*
 * These override the role's settings: our session may be idle by design,
 * functions are the extension's, and times are in UTC.
 */
const Question preparations[PREPARATIONS] = {
	PLAIN("SELECT pg_catalog.count(pg_catalog.set_config(name, '0', false)) "
		  "FROM pg_catalog.pg_settings WHERE name IN "
		  "('statement_timeout', 'transaction_timeout', 'idle_session_timeout', "
		  "'idle_in_transaction_session_timeout')"),
	PLAIN("SELECT pg_catalog.count(pg_catalog.set_config('search_path', "
		  "pg_catalog.quote_ident(nspname) || ', pg_catalog, pg_temp', false)) "
		  "FROM pg_catalog.pg_extension e "
		  "JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace "
		  "WHERE extname = 'leader_election' AND "
		  "pg_catalog.set_config('timezone', 'UTC', false) || "
		  "pg_catalog.set_config('datestyle', 'ISO', false) <> ''")
};

/* ---- one connection ---- */

/*
 * Keepalives detect a silent loss of the server while we wait for our turn;
 * the connection string comes later and can set other times.  A host out of
 * several comes after that, whatever its session attributes.  Arguments are
 * UTF-8, so that a job has one name whatever the database's encoding; to exec
 * the caller can say that they are not.  With ping we only look for a server.
 */
static PGconn *
try_connect(const Options *options, const char *password, const Host *host,
			PGPing *ping)
{
	const char *const keywords[] = {
		"fallback_application_name", "connect_timeout", "keepalives_idle",
		"keepalives_interval", "keepalives_count", "host", "port", "user",
		"password", "client_encoding", "dbname",
		host ? "host" : NULL, "hostaddr", "port", "target_session_attrs", NULL
	};
	const char *const values[] = {
		progname, getenv("PGCONNECT_TIMEOUT") ? NULL :
		CppAsString2(CONNECT_TIMEOUT), "10",
		"5", "3", options->host, options->port, options->user,
		password, strcmp(options->word, "exec") == 0 &&
		getenv("PGCLIENTENCODING") ? NULL : "UTF8",
		options->dbname,
		host ? host->host : NULL, host ? host->hostaddr : NULL,
		host ? host->port : NULL, "any", NULL
	};

	if (ping != NULL)
	{
		*ping = PQpingParams(keywords, values, 1);
		return NULL;
	}
	return host ? PQconnectStartParams(keywords, values, 1) :
		PQconnectdbParams(keywords, values, 1);
}

/* Kept for reconnects. */
static char *password;

static char *
ask_password(void)
{
	return simple_prompt("Password: ", false);
}

static void
forget_password(void)
{
	if (password == NULL)
		return;
	explicit_bzero(password, strlen(password));
	free(password);
	password = NULL;
}

/* Would it help to ask for the password? */
static bool
asks_password(const Options *options, const PGconn *conn)
{
	return conn != NULL && PQstatus(conn) == CONNECTION_BAD &&
		PQconnectionNeedsPassword(conn) && password == NULL &&
		options->password == 0 && isatty(STDIN_FILENO);
}

/* Keeps the password for reconnects.  The result may be bad, or NULL. */
PGconn *
connect_again(const Options *options)
{
	PGconn	   *conn;

	if (options->password > 0 && password == NULL)
		password = ask_password();
	conn = try_connect(options, password, NULL, NULL);
	if (asks_password(options, conn))
	{
		PQfinish(conn);
		password = ask_password();
		conn = try_connect(options, password, NULL, NULL);
	}
	return conn;
}

/* After a failed connect: does a server answer? */
PGPing
ping_server(const Options *options)
{
	PGPing		ping;

	try_connect(options, NULL, NULL, &ping);
	return ping;
}

/* Without a connection nothing was run, so a failure ends us. */
PGconn *
connect_to(const Options *options)
{
	PGconn	   *conn = connect_again(options);

	forget_password();
	if (conn == NULL || PQstatus(conn) == CONNECTION_BAD)
	{
		pg_log_error("%s", conn ? PQerrorMessage(conn) : "out of memory");
		exit(LECTL_UNAVAILABLE);
	}
	return conn;
}

/* ---- asking ---- */

static bool
wait_for(int socket, int events, instant limit)
{
	struct pollfd fd = {socket, events, 0};
	instant		left = limit - now();

	if (left < 0)
		left = 0;
	return poll(&fd, 1, limit == NEVER ? -1 :
				(int) Min(left / MSEC + 1, INT_MAX)) > 0 || left > 0;
}

static bool
send_question(PGconn *conn, const Question *question)
{
	return PQsendQueryParams(conn, question->query, question->n, NULL,
							 question->values, NULL, NULL, 0) == 1;
}

/*
 * NULL: no answer by the limit, or the connection is lost; in both cases the
 * connection is of no more use.
 */
PGresult *
ask_server(PGconn *conn, const Question *question, instant limit)
{
	PGresult   *last = NULL;
	PGresult   *next;

	if (!send_question(conn, question))
		return NULL;
	for (;;)
	{
		while (PQisBusy(conn))
			if (!wait_for(PQsocket(conn), POLLIN, limit) ||
				!PQconsumeInput(conn))
			{
				PQclear(last);
				return NULL;
			}
		next = PQgetResult(conn);
		if (next == NULL)
			break;
		PQclear(last);
		last = next;
	}
	if (PQstatus(conn) == CONNECTION_BAD)
	{
		PQclear(last);
		return NULL;
	}
	return last;
}

bool
has_rows(const PGresult *result)
{
	return PQresultStatus(result) == PGRES_TUPLES_OK;
}

/* An SQL NULL is NULL. */
const char *
value_of(const PGresult *result, int row, int column)
{
	return PQgetisnull(result, row, column) ? NULL :
		PQgetvalue(result, row, column);
}

bool
found_extension(const PGresult *result)
{
	return strcmp(PQgetvalue(result, 0, 0), "1") == 0;
}

void
tell_no_extension(const PGconn *conn)
{
	pg_log_error("extension \"leader_election\" is not installed in database \"%s\"",
				 PQdb(conn));
}

void
tell_error(const PGresult *result)
{
	char	   *what = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	char	   *more = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
	char	   *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);

	pg_log_error("%s", what ? what : "unexpected answer of the server");
	if (more != NULL)
		pg_log_error_detail("%s", more);
	if (hint != NULL)
		pg_log_error_hint("%s", hint);
}

/* The same in one line. */
char *
error_of(const PGresult *result)
{
	char	   *what = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	char	   *more = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
	char	   *line = psprintf("%s%s%s",
								what ? what : "unexpected answer of the server",
								more ? ": " : "", more ? more : "");

	line[strcspn(line, "\n")] = '\0';
	return line;
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

/* ---- a session for our questions ---- */

/* false: a later attempt may succeed.  A permanent error ends us. */
bool
make_ready(PGconn *conn)
{
	for (int i = 0; i < PREPARATIONS; i++)
	{
		PGresult   *result = ask_server(conn, &preparations[i],
										now() + PREPARE_WITHIN);
		bool		fine = result != NULL && has_rows(result);

		if (fine && i == 1 && !found_extension(result))
		{
			tell_no_extension(conn);
			exit(LECTL_REFUSED);
		}
		if (result != NULL && !fine &&
			exit_code_of(result) != LECTL_UNAVAILABLE)
		{
			tell_error(result);
			exit(exit_code_of(result));
		}
		PQclear(result);
		if (!fine)
			return false;
	}
	return true;
}

/* The error of a bad connection. */
char *
why_lost(const PGconn *conn)
{
	char	   *why = first_line(conn ? PQerrorMessage(conn) : "out of memory");

	return why[0] != '\0' ? why : pg_strdup("the server does not answer");
}

/*
 * At the start nothing is done yet, so a failure ends us.  With again, the
 * password is kept for reconnects.
 */
PGconn *
connect_ready(const Options *options, bool again)
{
	PGconn	   *conn = connect_again(options);

	if (!again)
		forget_password();
	if (conn == NULL || PQstatus(conn) == CONNECTION_BAD || !make_ready(conn))
	{
		pg_log_error("%s", why_lost(conn));
		exit(LECTL_UNAVAILABLE);
	}
	return conn;
}

/* An interval as the server understands it, in nanoseconds. */
int64_t
interval_of(PGconn *conn, const char *text)
{
	const char *values[] = {text};
	Question	question = {
		"SELECT (least(extract(epoch FROM $1::interval), 1e9) * 1e9)::bigint",
		1, values
	};
	PGresult   *result = ask_server(conn, &question, now() + PREPARE_WITHIN);
	int64_t		found;

	if (result == NULL || !has_rows(result))
	{
		if (result != NULL)
			tell_error(result);
		else
			pg_log_error("%s", PQerrorMessage(conn));
		exit(result ? exit_code_of(result) : LECTL_UNAVAILABLE);
	}
	found = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
	PQclear(result);
	if (found < 0)
	{
		pg_log_error("interval \"%s\" must not be negative", text);
		exit(LECTL_USAGE);
	}
	return found;
}

/* ---- text ---- */

char *
first_line(const char *text)
{
	char	   *line = pg_strdup(text);

	line[strcspn(line, "\n")] = '\0';
	return line;
}

/* As the server reads a text[]; no words: NULL. */
char *
text_array(char **words)
{
	size_t		room = 3;
	char	   *array;
	char	   *to;

	if (words[0] == NULL)
		return NULL;
	for (int i = 0; words[i] != NULL; i++)
		room += 2 * strlen(words[i]) + 3;
	to = array = pg_malloc(room);
	*to++ = '{';
	for (int i = 0; words[i] != NULL; i++)
	{
		if (i > 0)
			*to++ = ',';
		*to++ = '"';
		for (const char *from = words[i]; *from != '\0'; from++)
		{
			if (*from == '"' || *from == '\\')
				*to++ = '\\';
			*to++ = *from;
		}
		*to++ = '"';
	}
	*to++ = '}';
	*to = '\0';
	return array;
}

/* ---- several hosts, each of them ---- */

static const char *
find_option(PQconninfoOption *found, const char *keyword)
{
	for (PQconninfoOption *o = found; o != NULL && o->keyword != NULL; o++)
		if (strcmp(o->keyword, keyword) == 0)
			return o->val;
	return NULL;
}

static bool
is_connection_string(const char *dbname)
{
	return dbname != NULL &&
		(strchr(dbname, '=') != NULL ||
		 strncmp(dbname, "postgresql://", 13) == 0 ||
		 strncmp(dbname, "postgres://", 11) == 0);
}

/* false also for a plain database name and an invalid string. */
bool
string_names(const Options *options, const char *keyword)
{
	PQconninfoOption *string = is_connection_string(options->dbname) ?
		PQconninfoParse(options->dbname, NULL) : NULL;
	const char *value = find_option(string, keyword);
	bool		named = value != NULL && value[0] != '\0';

	PQconninfoFree(string);
	return named;
}

/* libpq reveals a service's settings only if the environment names it. */
static void
set_environment(const char *variable, const char *value)
{
	if (value != NULL)
		setenv(variable, value, 1);
}

typedef struct Given
{
	PQconninfoOption *string;
	PQconninfoOption *defaults;
} Given;

static Given
read_given(const Options *options)
{
	Given		given = {NULL, NULL};
	char	   *error = NULL;

	if (is_connection_string(options->dbname))
	{
		given.string = PQconninfoParse(options->dbname, &error);
		if (given.string == NULL)
		{
			pg_log_error("%s", error ? first_line(error) : "out of memory");
			wrong_usage();
		}
		set_environment("PGSERVICEFILE",
						find_option(given.string, "servicefile"));
		set_environment("PGSERVICE", find_option(given.string, "service"));
	}
	given.defaults = PQconndefaults();
	return given;
}

/*
 * The value that libpq would use: the connection string comes before our
 * option, and that before a service and the environment.
 */
static char *
given_option(const Given *given, const char *keyword, const char *option)
{
	const char *value = find_option(given->string, keyword);

	if (value == NULL)
		value = option;
	if (value == NULL)
		value = find_option(given->defaults, keyword);
	return value == NULL || value[0] == '\0' ? NULL : pg_strdup(value);
}

static int
count_items(const char *list)
{
	int			n = list != NULL;

	for (; list != NULL && *list != '\0'; list++)
		n += *list == ',';
	return n;
}

/* The ith of a list, NULL if it is empty. */
static char *
item(const char *list, int i)
{
	char	   *found;

	for (; list != NULL && i > 0; i--)
		list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL;
	if (list == NULL)
		return NULL;
	found = pg_strdup(list);
	found[strcspn(found, ",")] = '\0';
	return found[0] == '\0' ? NULL : found;
}

Host *
hosts_of(const Options *options, int *n)
{
	Given		given = read_given(options);
	char	   *host = given_option(&given, "host", options->host);
	char	   *hostaddr = given_option(&given, "hostaddr", NULL);
	char	   *port = given_option(&given, "port", options->port);
	int			ports = count_items(port);
	Host	   *hosts;

	*n = Max(1, Max(count_items(host), count_items(hostaddr)));
	if (host != NULL && hostaddr != NULL &&
		count_items(host) != count_items(hostaddr))
	{
		pg_log_error("could not match %d host names to %d addresses",
					 count_items(host), count_items(hostaddr));
		wrong_usage();
	}
	if (ports > 1 && ports != *n)
	{
		pg_log_error("could not match %d port numbers to %d hosts", ports, *n);
		wrong_usage();
	}
	hosts = pg_malloc0(*n * sizeof(Host));
	for (int i = 0; i < *n; i++)
	{
		hosts[i].host = item(host, i);
		hosts[i].hostaddr = item(hostaddr, i);
		hosts[i].port = item(port, ports > 1 ? i : 0);
	}
	PQconninfoFree(given.string);
	PQconninfoFree(given.defaults);
	return hosts;
}

static int64_t
connect_timeout(const Options *options)
{
	Given		given = read_given(options);
	char	   *value = given_option(&given, "connect_timeout", NULL);
	long		seconds = value ? strtol(value, NULL, 10) : CONNECT_TIMEOUT;

	PQconninfoFree(given.string);
	PQconninfoFree(given.defaults);
	free(value);
	return seconds <= 0 ? 24 * 3600 * SEC : Max(seconds, 2) * SEC;
}

static void
host_fails(Host *host, const char *error, int code)
{
	host->error = first_line(error);
	host->code = code;
	if (host->conn != NULL)
		PQfinish(host->conn);
	host->conn = NULL;
}

static void
host_start(const Options *options, Host *host, instant limit)
{
	host->conn = try_connect(options, password, host, NULL);
	host->step = -1;
	host->events = POLLOUT;
	host->limit = limit;
	if (host->conn == NULL)
	{
		host_fails(host, "out of memory", LECTL_SOFTWARE);
		return;
	}
	if (host->name == NULL)
		host->name = psprintf("%s:%s", PQhost(host->conn), PQport(host->conn));
	if (PQstatus(host->conn) == CONNECTION_BAD)
		host_fails(host, PQerrorMessage(host->conn), LECTL_UNAVAILABLE);
}

static void
host_ask(Host *host, const Question *questions, int n)
{
	host->events = POLLIN;
	if (host->step < PREPARATIONS + n &&
		!send_question(host->conn, host->step < PREPARATIONS ?
					   &preparations[host->step] :
					   &questions[host->step - PREPARATIONS]))
		host_fails(host, PQerrorMessage(host->conn), LECTL_UNAVAILABLE);
}

/* A failed preparation is the host's failure; other errors are answers. */
static void
host_take(Host *host, PGresult *result)
{
	if (host->step >= PREPARATIONS)
	{
		PQclear(host->answers[host->step - PREPARATIONS]);
		host->answers[host->step - PREPARATIONS] = result;
		return;
	}
	if (!has_rows(result))
		host_fails(host, error_of(result), exit_code_of(result));
	else if (host->step == 1 && !found_extension(result))
		host_fails(host, "extension \"leader_election\" is not installed there",
				   LECTL_REFUSED);
	PQclear(result);
}

static void
host_connect(Host *host, const Question *questions, int n, instant limit)
{
	switch (PQconnectPoll(host->conn))
	{
		case PGRES_POLLING_OK:
			host->step = 0;
			host->limit = limit;
			host_ask(host, questions, n);
			break;
		case PGRES_POLLING_FAILED:
			if (PQconnectionNeedsPassword(host->conn))
				host->step = -2;
			host_fails(host, PQerrorMessage(host->conn), LECTL_UNAVAILABLE);
			break;
		case PGRES_POLLING_READING:
			host->events = POLLIN;
			break;
		default:
			host->events = POLLOUT;
	}
}

static void
host_hear(Host *host, const Question *questions, int n)
{
	PGresult   *result;

	if (!PQconsumeInput(host->conn))
	{
		host_fails(host, PQerrorMessage(host->conn), LECTL_UNAVAILABLE);
		return;
	}
	while (host->conn != NULL && host->step < PREPARATIONS + n &&
		   !PQisBusy(host->conn))
	{
		result = PQgetResult(host->conn);
		if (result != NULL)
			host_take(host, result);
		else if (PQstatus(host->conn) == CONNECTION_BAD)
			host_fails(host, PQerrorMessage(host->conn), LECTL_UNAVAILABLE);
		else
		{
			host->step++;
			host_ask(host, questions, n);
		}
	}
}

static bool
host_is_busy(const Host *host, int n)
{
	return host->conn != NULL && host->step < PREPARATIONS + n;
}

/* Waits until a host is ready or its time is over. */
static void
hosts_turn(Host *hosts, int n_hosts, const Question *questions, int n,
		   instant limit)
{
	struct pollfd *fds = pg_malloc0(n_hosts * sizeof(struct pollfd));
	instant		first = NEVER;

	for (int i = 0; i < n_hosts; i++)
	{
		fds[i].fd = host_is_busy(&hosts[i], n) ? PQsocket(hosts[i].conn) : -1;
		fds[i].events = hosts[i].events;
		if (fds[i].fd >= 0)
			first = Min(first, hosts[i].limit);
	}
	poll(fds, n_hosts, (int) Min(Max(first - now(), 0) / MSEC + 1, 60 * 1000));
	for (int i = 0; i < n_hosts; i++)
	{
		if (fds[i].fd < 0)
			continue;
		if (fds[i].revents != 0 && hosts[i].step < 0)
			host_connect(&hosts[i], questions, n, limit);
		else if (fds[i].revents != 0)
			host_hear(&hosts[i], questions, n);
		else if (now() >= hosts[i].limit)
			host_fails(&hosts[i], hosts[i].step < 0 ?
					   "the server does not answer" :
					   "the server has not answered in time", LECTL_UNAVAILABLE);
	}
	free(fds);
}

static void
ask_hosts_once(const Options *options, Host *hosts, int n_hosts,
			   const Question *questions, int n, instant limit)
{
	instant		connected = now() + connect_timeout(options);
	bool		busy = true;

	for (int i = 0; i < n_hosts; i++)
		if (hosts[i].conn == NULL && hosts[i].error == NULL)
			host_start(options, &hosts[i], connected);
	while (busy)
	{
		busy = false;
		for (int i = 0; i < n_hosts; i++)
			busy |= host_is_busy(&hosts[i], n);
		if (busy)
			hosts_turn(hosts, n_hosts, questions, n, limit);
	}
}

/*
 * Asks all hosts at the same time.  The entry of each gets its answers or its
 * error; hosts that answered stay connected.
 */
void
ask_hosts(const Options *options, Host *hosts, int n_hosts,
		  const Question *questions, int n_questions, instant limit)
{
	bool		ask = false;

	if (options->password > 0 && password == NULL)
		password = ask_password();
	ask_hosts_once(options, hosts, n_hosts, questions, n_questions, limit);
	for (int i = 0; i < n_hosts; i++)
		ask |= hosts[i].step == -2;
	if (!ask || password != NULL || options->password != 0 ||
		!isatty(STDIN_FILENO))
		return;
	password = ask_password();
	for (int i = 0; i < n_hosts; i++)
		if (hosts[i].step == -2)
			hosts[i].error = NULL;
	ask_hosts_once(options, hosts, n_hosts, questions, n_questions, limit);
}
