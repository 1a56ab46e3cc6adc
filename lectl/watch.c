/*
 * lectl/watch.c
 *
 * lectl watch: reports each change of a leader, and runs a command at each.
 *
 * We poll, so a leader that came and went between two reads is missed.  The
 * last state survives a lost connection, so a change meanwhile is reported.
 * Commands run one after the other, in the order of the changes, while we go
 * on polling.
 */
#include "command.h"

#include <time.h>

#define ANSWER_WITHIN	(60 * SEC)
#define CONNECT_EVERY	SEC

/* Warn at so many, as the command does not keep up. */
#define MANY_CHANGES	100

typedef struct Seen
{
	char	   *election;
	char	   *leader;			/* empty: nobody */
	char	   *token;
	struct Seen *next;
} Seen;

typedef struct Change
{
	char	   *election;
	char	   *old_leader;
	char	   *new_leader;
	char	   *token;
	struct Change *next;
} Change;

typedef struct Watch
{
	const Options *options;
	PGconn	   *conn;			/* NULL: lost */
	Events		events;
	Seen	   *seen;
	int64_t		interval;
	char	   *max_age;		/* the interval, for the server */
	instant		look_at;
	bool		troubled;		/* and that was reported */
	Change	   *changes;		/* without a command so far */
	Change	  **last_change;
	int			n_changes;
	Command		command;		/* valid if running */
	bool		running;
	int			signal;			/* ends us */
} Watch;

/* ---- trouble ---- */

/* Reports trouble once, until all is well again; frees the text. */
static void
tell_trouble(Watch *watch, char *what)
{
	if (!watch->troubled)
		pg_log_warning("%s", what);
	watch->troubled = true;
	free(what);
}

static void
lose_connection(Watch *watch)
{
	tell_trouble(watch, why_lost(watch->conn));
	PQfinish(watch->conn);
	watch->conn = NULL;
	watch->look_at = now() + CONNECT_EVERY;
}

/* libpq connects without a look at our signals, so they end us then. */
static void
reconnect(Watch *watch)
{
	events_give_back(&watch->events);
	watch->conn = connect_again(watch->options);
	if (watch->conn != NULL &&
		(PQstatus(watch->conn) == CONNECTION_BAD || !make_ready(watch->conn)))
		lose_connection(watch);
	events_take_again(&watch->events);
}

/* ---- the command ---- */

static void
take_signals(Watch *watch)
{
	int			signo;

	while ((signo = events_signal(&watch->events)) != 0)
	{
		if (signo == SIGCHLD || signo == SIGWINCH)
			continue;
		if (watch->running)
			command_signal(&watch->command, signo);
		if (signo != SIGUSR1 && signo != SIGUSR2)
			watch->signal = signo;
	}
}

static void
start_command(Watch *watch)
{
	static char shell[] = "/bin/sh";
	static char flag[] = "-c";
	char	   *argv[] = {shell, flag, watch->options->run, NULL};
	Change	   *change = watch->changes;

	watch->changes = change->next;
	watch->n_changes--;
	if (watch->changes == NULL)
		watch->last_change = &watch->changes;
	setenv("LE_ELECTION", change->election, 1);
	setenv("LE_OLD_LEADER", change->old_leader, 1);
	setenv("LE_NEW_LEADER", change->new_leader, 1);
	setenv("LE_FENCING_TOKEN", change->token, 1);
	memset(&watch->command, 0, sizeof(watch->command));
	watch->running = command_start(&watch->command, argv, SIGTERM, NULL,
								   NEVER, &watch->events, false);
	if (!watch->running)
		pg_log_error("could not start a process: %m");
	free(change->election);
	free(change->old_leader);
	free(change->new_leader);
	free(change->token);
	free(change);
}

static void
see_to_command(Watch *watch)
{
	/* its end may have come while libpq connected */
	if (watch->running)
		command_look(&watch->command);
	if (watch->running && watch->command.ended)
	{
		command_forget(&watch->command);
		watch->running = false;
		if (watch->command.code != 0)
			pg_log_warning("command exited with code %d", watch->command.code);
	}
	if (!watch->running && watch->changes != NULL && watch->signal == 0)
		start_command(watch);
}

static void
queue_change(Watch *watch, const Seen *seen, const char *leader,
			 const char *token)
{
	Change	   *change = pg_malloc0(sizeof(Change));

	change->election = pg_strdup(seen->election);
	change->old_leader = pg_strdup(seen->leader ? seen->leader : "");
	change->new_leader = pg_strdup(leader);
	change->token = pg_strdup(token);
	*watch->last_change = change;
	watch->last_change = &change->next;
	if (++watch->n_changes == MANY_CHANGES)
		pg_log_warning("%d changes wait for the command", MANY_CHANGES);
}

/* ---- waiting and asking ---- */

static void
turn(Watch *watch, int socket, instant until)
{
	events_wait(&watch->events, socket, false, until);
	take_signals(watch);
	see_to_command(watch);
}

/* NULL: no answer, the connection is lost, or we are to end. */
static PGresult *
ask(Watch *watch, const Question *question)
{
	instant		limit = now() + ANSWER_WITHIN;
	PGresult   *last = NULL;
	PGresult   *next;

	if (!PQsendQueryParams(watch->conn, question->query, question->n, NULL,
						   question->values, NULL, NULL, 0))
	{
		lose_connection(watch);
		return NULL;
	}
	for (;;)
	{
		while (PQisBusy(watch->conn))
		{
			turn(watch, PQsocket(watch->conn), limit);
			if (watch->signal == 0 && now() < limit &&
				PQconsumeInput(watch->conn))
				continue;
			PQclear(last);
			lose_connection(watch);
			return NULL;
		}
		next = PQgetResult(watch->conn);
		if (next == NULL)
			break;
		PQclear(last);
		last = next;
	}
	if (PQstatus(watch->conn) == CONNECTION_BAD)
	{
		PQclear(last);
		lose_connection(watch);
		return NULL;
	}
	return last;
}

/* A permanent error ends us. */
static bool
is_answer(Watch *watch, const PGresult *result)
{
	if (result == NULL)
		return false;
	if (has_rows(result))
		return true;
	if (exit_code_of(result) != LECTL_UNAVAILABLE)
	{
		tell_error(result);
		exit(exit_code_of(result));
	}
	tell_trouble(watch, error_of(result));
	return false;
}

/* ---- elections ---- */

static void
add_election(Watch *watch, const char *election)
{
	Seen	  **seen = &watch->seen;

	while (*seen != NULL && strcmp((*seen)->election, election) != 0)
		seen = &(*seen)->next;
	if (*seen != NULL)
		return;
	*seen = pg_malloc0(sizeof(Seen));
	(*seen)->election = pg_strdup(election);
}

static void
tell_change(const Seen *seen, const char *leader, const char *token)
{
	char		at[32];
	time_t		seconds = time(NULL);

	strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", gmtime(&seconds));
	printf("%s %s: ", at, seen->election);
	if (seen->leader != NULL)
		printf("%s -> ", seen->leader[0] ? seen->leader : "nobody");
	printf("%s", leader[0] ? leader : "nobody");
	if (token[0] != '\0')
		printf(" (token %s)", token);
	putchar('\n');
	if (fflush(stdout) != 0)
		exit(LECTL_SOFTWARE);	/* our reader is gone */
}

static void
see(Watch *watch, Seen *seen, const char *leader, const char *token)
{
	bool		first = seen->leader == NULL;

	if (!first && strcmp(seen->leader, leader) == 0 &&
		strcmp(seen->token, token) == 0)
		return;
	tell_change(seen, leader, token);
	if (watch->options->run != NULL &&
		(!first || (watch->options->first && leader[0] != '\0')))
		queue_change(watch, seen, leader, token);
	free(seen->leader);
	free(seen->token);
	seen->leader = pg_strdup(leader);
	seen->token = pg_strdup(token);
}

/* false: the rest need not be asked now. */
static bool
look_at(Watch *watch, Seen *seen)
{
	const char *values[] = {seen->election, watch->max_age};
	const Question question = {
		"SELECT coalesce(leader, ''), CASE WHEN leader IS NULL THEN '' "
		"ELSE fencing_token::text END FROM le_leader($1, $2::interval)",
		2, values
	};
	PGresult   *result = ask(watch, &question);
	bool		fine = is_answer(watch, result);

	if (fine)
		see(watch, seen, PQgetvalue(result, 0, 0), PQgetvalue(result, 0, 1));
	PQclear(result);
	return fine;
}

/* Without names we watch all elections that the instance ever listed. */
static bool
look_for_elections(Watch *watch)
{
	static const Question question =
	PLAIN("SELECT election FROM le_status ORDER BY 1");
	PGresult   *result = ask(watch, &question);
	bool		fine = is_answer(watch, result);

	for (int i = 0; fine && i < PQntuples(result); i++)
		add_election(watch, PQgetvalue(result, i, 0));
	PQclear(result);
	return fine;
}

static void
look(Watch *watch)
{
	bool		fine = watch->options->n_words > 0 ||
		look_for_elections(watch);

	for (Seen *seen = watch->seen; fine && seen != NULL; seen = seen->next)
		fine = look_at(watch, seen);
	if (fine && watch->troubled)
		pg_log_warning("going on");
	if (fine)
		watch->troubled = false;
	if (watch->conn != NULL)
		watch->look_at = now() + watch->interval;
}

static void
start_watch(Watch *watch)
{
	const char *interval = watch->options->interval;

	watch->conn = connect_ready(watch->options, true);
	watch->interval = interval ? interval_of(watch->conn, interval) : SEC;
	watch->interval = Max(watch->interval, 10 * MSEC);
	watch->max_age = psprintf("%lld ms", (long long) (watch->interval / MSEC));
	for (int i = 0; i < watch->options->n_words; i++)
		add_election(watch, watch->options->words[i]);
}

int
run_watch(const Options *options)
{
	Watch		watch = {.options = options};

	watch.last_change = &watch.changes;
	start_watch(&watch);
	if (!events_open(&watch.events))
	{
		pg_log_error("could not wait for signals: %m");
		return LECTL_SOFTWARE;
	}
	while (watch.signal == 0 || watch.running)
	{
		if (watch.signal != 0)
			turn(&watch, -1, NEVER);
		else if (now() < watch.look_at)
			turn(&watch, watch.conn ? PQsocket(watch.conn) : -1,
				 watch.look_at);
		else if (watch.conn == NULL)
			reconnect(&watch);
		else
			look(&watch);
		see_to_command(&watch);
	}
	return 128 + watch.signal;
}
