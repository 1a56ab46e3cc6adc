/*
 * lectl/exec.c
 *
 * lectl exec: a command that runs only while its caller leads.
 *
 * The session holds the election, and keeps a transaction open that is bound
 * to the term: giving up the term waits for that transaction, and so for the
 * command.  While the command runs we keep asking for how long the term is
 * good.  The end of the term (by an answer, a lost connection, no answer in
 * time) ends the command before another node can lead, see deadline.c.
 */
#include "command.h"

/*
 * No transaction gets older than this, as monitoring alerts on old ones.
 * Tests set less, in milliseconds, in the environment.
 */
#define BIND_EVERY		(10 * SEC)
#define BIND_EVERY_VARIABLE	"LECTL_BIND_EVERY"

/* How long we wait for the server to confirm the release. */
#define GOODBYE			(10 * SEC)

/* Killed processes get at least this time to die. */
#define DYING			(1 * SEC)

/* For how long the election's term (a literal) is good, in microseconds. */
#define REMAINING		"(extract(epoch FROM le_remaining(%s)) * 1000000)::bigint"

typedef struct Exec
{
	const Options *options;
	PGconn	   *conn;			/* NULL: lost, or given back */
	char	   *election;		/* as a literal */
	char	   *token;
	Events		events;
	Deadline	deadline;
	Guard		guard;
	Command		command;
	instant		ask_at;
	instant		bind_at;
	int64_t		bind_every;
	int64_t		settle_for;
	bool		lost;
	bool		killed;
	bool		in_time;		/* the command has ended within the term */
	bool		told_to_end;	/* by our caller */
	char	   *due;			/* the tick that is due, or NULL */
	char	   *tick;			/* the tick that the command runs */
	int			interrupted;	/* by this signal, before the command began */
} Exec;

/* ---- the end of the term ---- */

static void
lose(Exec *exec, const char *why)
{
	if (exec->lost)
		return;
	exec->lost = true;
	pg_log_error("lost election \"%s\": %s", exec->options->election, why);
	deadline_lost(&exec->deadline, now());
	if (exec->guard.pid > 0)
		guard_move(&exec->guard, exec->deadline.kill_at);
	if (exec->options->on_loss != ON_LOSS_IGNORE)
		command_signal(&exec->command, SIGTERM);
}

/* A loss matters only while the command runs. */
static bool
is_at_stake(const Exec *exec)
{
	return exec->command.pid > 0 && !exec->in_time;
}

static void
keep_deadline(Exec *exec)
{
	instant		at = now();

	if (!is_at_stake(exec))
		return;
	if (!exec->lost && at >= exec->deadline.term_at)
		lose(exec, "the server has not confirmed it in time");
	if (exec->lost && !exec->killed && at >= exec->deadline.kill_at)
	{
		exec->killed = true;
		if (exec->options->on_loss == ON_LOSS_KILL)
			command_signal(&exec->command, SIGKILL);
	}
}

static instant
next_deadline(const Exec *exec)
{
	if (!is_at_stake(exec) || exec->killed)
		return NEVER;
	return exec->lost ? exec->deadline.kill_at : exec->deadline.term_at;
}

/* ---- waiting ---- */

static bool
ends(int signo)
{
	return signo != SIGUSR1 && signo != SIGUSR2 && signo != SIGWINCH;
}

static void
take_signals(Exec *exec)
{
	int			signo;

	while ((signo = events_signal(&exec->events)) != 0)
	{
		if (signo == SIGCHLD)
			command_look(&exec->command);
		else if (exec->command.pid > 0 && !exec->command.gone)
		{
			command_signal(&exec->command, signo);
			exec->told_to_end |= ends(signo);
		}
		else if (ends(signo))
			exec->interrupted = signo;
	}
}

/* The session is over, and with it the term. */
static void
hang_up(Exec *exec)
{
	PQfinish(exec->conn);
	exec->conn = NULL;
}

static void
lose_connection(Exec *exec)
{
	char	   *why = pg_strdup(PQerrorMessage(exec->conn));

	why[strcspn(why, "\n")] = '\0';
	if (exec->token != NULL && !exec->in_time)
		lose(exec, why);
	else
		pg_log_error("%s", why);
	free(why);
	hang_up(exec);
}

/* Waits once, for an event or until the instant, and handles the events. */
static void
turn(Exec *exec, instant until)
{
	bool		to_write = exec->conn != NULL && PQflush(exec->conn) == 1;
	bool		ready = events_wait(&exec->events,
									exec->conn ? PQsocket(exec->conn) : -1,
									to_write, Min(until, next_deadline(exec)));

	keep_deadline(exec);
	take_signals(exec);
	if (ready && !PQconsumeInput(exec->conn))
		lose_connection(exec);
}

/* ---- asking ---- */

/*
 * The answer to the last query.  NULL: none by the instant, or it no longer
 * matters: the term or the connection is lost, the command has ended, or we
 * are to end.  While the command runs its deadline is kept.
 */
static PGresult *
answer(Exec *exec, instant until)
{
	PGresult   *last = NULL;
	PGresult   *next;

	for (;;)
	{
		while (exec->conn != NULL && PQisBusy(exec->conn))
		{
			if (exec->interrupted || exec->lost || now() >= until ||
				(exec->command.ended && !exec->command.gone))
			{
				PQclear(last);
				return NULL;
			}
			turn(exec, until);
		}
		if (exec->conn == NULL)
		{
			PQclear(last);
			return NULL;
		}
		next = PQgetResult(exec->conn);
		if (next == NULL)
			return last;
		/* a failed statement is the last one: it ends the query */
		PQclear(last);
		last = next;
	}
}

static PGresult *
ask(Exec *exec, const char *query, instant until)
{
	if (exec->conn == NULL)
		return NULL;
	if (!PQsendQuery(exec->conn, query))
	{
		lose_connection(exec);
		return NULL;
	}
	return answer(exec, until);
}

static bool
has_row(const PGresult *result)
{
	return PQresultStatus(result) == PGRES_TUPLES_OK &&
		PQntuples(result) == 1 && !PQgetisnull(result, 0, 0);
}

static int64_t
microseconds(const PGresult *result, int column)
{
	return strtoll(PQgetvalue(result, 0, column), NULL, 10) * 1000;
}

static char *
literal(Exec *exec, const char *text)
{
	char	   *quoted = PQescapeLiteral(exec->conn, text, strlen(text));

	if (quoted == NULL)
	{
		pg_log_error("%s", PQerrorMessage(exec->conn));
		exit(LECTL_USAGE);
	}
	return quoted;
}

/* Nothing runs yet, so we just end. */
static void
give_up(Exec *exec, const PGresult *result)
{
	int			code = LECTL_UNAVAILABLE;

	if (exec->interrupted)
	{
		char		message[256];
		PGcancel   *cancel = PQgetCancel(exec->conn);

		/* a second signal need not wait for a server that does not answer */
		events_give_back(&exec->events);
		if (cancel != NULL)
			PQcancel(cancel, message, sizeof(message));
		code = 128 + exec->interrupted;
	}
	else if (result != NULL)
	{
		tell_error(result);
		code = exit_code_of(result);
	}
	if (exec->conn != NULL)
		hang_up(exec);
	exit(code);
}

static PGresult *
must_ask(Exec *exec, char *query)
{
	PGresult   *result = ask(exec, query, NEVER);

	if (result == NULL || !has_row(result))
		give_up(exec, result);
	free(query);
	return result;
}

/* ---- the term ---- */

static void
must_be(bool fine, const char *what)
{
	if (fine)
		return;
	pg_log_error("%s", what);
	exit(LECTL_USAGE);
}

/*
 * The tick that is due, as le_run() computes it.  We do so before we wait for
 * our turn: afterwards another tick may be due.
 */
static void
name_tick(Exec *exec)
{
	char	   *every = literal(exec, exec->options->every);
	char	   *wait = literal(exec, exec->options->wait);
	PGresult   *result;

	result = must_ask(exec, psprintf("SELECT interval %s >= '1s', "
									 "interval %s < interval %s",
									 every, wait, every));
	must_be(*PQgetvalue(result, 0, 0) == 't',
			"the interval of --every must be at least one second");
	must_be(*PQgetvalue(result, 0, 1) == 't',
			"the interval of --wait must be less than that of --every");
	PQclear(result);
	result = must_ask(exec, psprintf("SELECT date_bin(%s, clock_timestamp() + "
									 "least(interval %s / 4, '2s'), "
									 "'2000-01-01 00:00:00+00')",
									 every, every));
	exec->due = pg_strdup(PQgetvalue(result, 0, 0));
	PQclear(result);
}

static void
prepare(Exec *exec)
{
	char	   *settle = literal(exec, exec->options->settle);
	PGresult   *result;

	result = must_ask(exec, pg_strdup(preparations[0].query));
	PQclear(result);
	result = must_ask(exec, pg_strdup(preparations[1].query));
	if (!found_extension(result))
	{
		tell_no_extension(exec->conn);
		exit(LECTL_REFUSED);
	}
	PQclear(result);
	result = must_ask(exec, psprintf("SELECT (extract(epoch FROM interval %s) "
									 "* 1000000)::bigint", settle));
	exec->settle_for = microseconds(result, 0);
	PQclear(result);
	if (exec->options->job != NULL)
		name_tick(exec);
}

static void
acquire(Exec *exec)
{
	char	   *wait = literal(exec, exec->options->wait);
	PGresult   *result;

	result = must_ask(exec,
					  psprintf("SELECT le_acquire(%s, wait => %s, "
							   "scope => 'session', on_loss => 'none')",
							   exec->election, wait));
	if (strcmp(PQgetvalue(result, 0, 0), "t") != 0)
	{
		pg_log_debug("not the leader of election \"%s\"",
					exec->options->election);
		hang_up(exec);
		exit(LECTL_NOT_LEADER);
	}
	PQclear(result);
}

/* Begins a transaction and binds it to the term. */
static char *
bind_query(Exec *exec)
{
	return psprintf("BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY; "
					"SELECT le_require_leader(%s, on_loss => 'none'), "
					REMAINING, exec->election, exec->election);
}

/*
 * Ends the bound transaction and begins another.  Between the two, giving up
 * the term does not wait for us, so we must not commit once that has begun:
 * the query just before raises an error then.  The error must not end the
 * transaction either, hence the savepoint.
 */
static char *
rebind_query(Exec *exec)
{
	char	   *bind = bind_query(exec);
	char	   *query = psprintf("SAVEPOINT bound; "
								 "SELECT coalesce(le_remaining(%s)::text, "
								 "'lectl: the term is being given up')::interval; "
								 "COMMIT; %s", exec->election, bind);

	free(bind);
	return query;
}

/* Both results are of the term that the transaction is bound to. */
static char *
remaining_query(Exec *exec)
{
	return psprintf("SELECT le_fencing_token(%s), " REMAINING,
					exec->election, exec->election);
}

static bool
is_our_term(const Exec *exec, const PGresult *result)
{
	return exec->token == NULL ||
		strcmp(PQgetvalue(result, 0, 0), exec->token) == 0;
}

/* true: the same term goes on. */
static bool
is_confirmed(const Exec *exec, const PGresult *result)
{
	return has_row(result) && !PQgetisnull(result, 0, 1) &&
		is_our_term(exec, result);
}

static void
learn(Exec *exec, const PGresult *result, instant sent)
{
	if (!exec->lost)
		deadline_learn(&exec->deadline, sent, microseconds(result, 1));
	if (!exec->lost && exec->guard.pid > 0)
		guard_move(&exec->guard, exec->deadline.kill_at);
	exec->ask_at = sent + exec->deadline.ask_every;
}

static void
bind_first(Exec *exec)
{
	instant		sent = now();
	char	   *query = bind_query(exec);
	PGresult   *result = ask(exec, query, NEVER);

	free(query);
	if (result == NULL || !is_confirmed(exec, result))
		give_up(exec, result);
	exec->token = pg_strdup(PQgetvalue(result, 0, 0));
	exec->bind_at = sent + exec->bind_every;
	learn(exec, result, sent);
	PQclear(result);
}

/* The next leader may no longer wait for the command: no grace. */
static void
lose_at_once(Exec *exec, const char *why)
{
	exec->deadline.kill_at = Min(exec->deadline.kill_at, now());
	lose(exec, why);
	keep_deadline(exec);
}

/* The transaction is still bound, so giving up the term waits for us. */
static bool
is_given_up(const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return sqlstate != NULL &&
		strcmp(sqlstate, "22007") == 0;	/* our text is no interval */
}

static void
rebind(Exec *exec)
{
	instant		sent = now();
	char	   *query = rebind_query(exec);
	PGresult   *result = ask(exec, query, NEVER);

	free(query);
	if (result == NULL)
		return;
	exec->bind_at = sent + exec->bind_every;
	if (is_confirmed(exec, result))
		learn(exec, result, sent);
	else if (is_given_up(result))
		lose(exec, "it is being given up");
	else
		lose_at_once(exec, "it was over before it could be bound again");
	PQclear(result);
}

/*
 * We do not rebind a term that seems no longer renewed: its commit might be
 * refused, and an abort ends the binding, too.
 */
static bool
is_good(const Exec *exec, const PGresult *result)
{
	return microseconds(result, 1) > exec->deadline.longest / 2;
}

static void
confirm(Exec *exec)
{
	instant		sent = now();
	char	   *query = remaining_query(exec);
	PGresult   *result = ask(exec, query, NEVER);
	bool		bind = false;

	free(query);
	if (result != NULL && is_confirmed(exec, result))
	{
		learn(exec, result, sent);
		bind = !exec->lost && sent >= exec->bind_at && is_good(exec, result);
	}
	else if (result != NULL &&
			 PQtransactionStatus(exec->conn) == PQTRANS_INTRANS)
		lose(exec, "it is over, or being given up");
	else if (result != NULL)	/* an error has ended the binding */
		lose_at_once(exec, "the server does not confirm it");
	PQclear(result);
	if (bind)
		rebind(exec);
}

/* The server answers ROLLBACK to the COMMIT of a failed transaction. */
static bool
is_committed(PGresult *result)
{
	return PQresultStatus(result) == PGRES_COMMAND_OK &&
		strcmp(PQcmdStatus(result), "COMMIT") == 0;
}

/*
 * Releases the term, so that the next leader need not wait for the end of the
 * lease.  If the commit is refused, the term was over before we knew.
 */
static void
release(Exec *exec)
{
	instant		limit = now() + GOODBYE;
	PGresult   *result;
	char	   *query = psprintf("SELECT le_release(%s)", exec->election);

	result = ask(exec, "COMMIT", limit);
	if (result != NULL && !is_committed(result))
		lose(exec, "it was over, or being given up, before the command had ended");
	PQclear(result);
	result = exec->lost ? NULL : ask(exec, query, limit);
	if (!exec->lost && (result == NULL || !has_row(result) ||
						*PQgetvalue(result, 0, 0) != 't'))
		pg_log_warning("could not confirm that election \"%s\" is released",
					   exec->options->election);
	PQclear(result);
	free(query);
}

/* ---- the command ---- */

/* ^C or a hangup of the terminal, which the command had and we had not. */
static bool
is_typed(const Command *command)
{
	return command->has_terminal &&
		(command->code == 128 + SIGINT || command->code == 128 + SIGQUIT ||
		 command->code == 128 + SIGHUP);
}

/* Confirms the term regularly, until the instant or the end. */
static void
lead_until(Exec *exec, instant until)
{
	while (!exec->command.ended && !exec->interrupted && now() < until)
	{
		if (exec->lost || exec->conn == NULL)
		{
			if (exec->command.pid == 0)
				return;
			turn(exec, NEVER);
		}
		else if (now() >= exec->ask_at)
			confirm(exec);
		else
			turn(exec, Min(until, exec->ask_at));
	}
}

/*
 * Waits until the previous leader's command is certainly ended, and until the
 * term is good for a while: the store may just have come back, with the next
 * proof still under way.
 */
static void
settle(Exec *exec, int64_t time)
{
	lead_until(exec, now() + time);
	while (!exec->lost && !exec->interrupted &&
		   now() >= exec->deadline.term_at)
		lead_until(exec, now() + 10 * MSEC);
	if (exec->interrupted)
		give_up(exec, NULL);
	if (exec->lost)
		exit(LECTL_NOT_LEADER);
}

/* Claims the tick, or an earlier one that was left undone or missed. */
static void
claim(Exec *exec)
{
	char	   *job = literal(exec, exec->options->job);
	char	   *every = literal(exec, exec->options->every);
	char	   *wait = literal(exec, exec->options->wait);
	const char *missed = exec->options->missed;
	char	   *query = psprintf("SELECT le_claim_tick(%s, %s, '%s', %s, %s, '%s', "
								 "wait => %s)",
								 exec->election, job, exec->due,
								 exec->options->catch_up ? "true" : "false",
								 every, missed != NULL ? missed : "skip",
								 wait);
	PGresult   *result = ask(exec, query, NEVER);

	if (result == NULL || PQresultStatus(result) != PGRES_TUPLES_OK)
		give_up(exec, result);
	if (PQgetisnull(result, 0, 0))
	{
		pg_log_debug("tick %s is taken", exec->due);
		hang_up(exec);
		exit(LECTL_NOT_LEADER);
	}
	exec->tick = pg_strdup(PQgetvalue(result, 0, 0));
	PQclear(result);
	free(query);
}

/*
 * A claim is marked as failed only if the command failed by itself; one that
 * we were told to end stays for the catch-up.  An error must not end the bound
 * transaction: its commit tells if the term has lasted.
 */
static void
end_claim(Exec *exec)
{
	char	   *job;
	char	   *query;
	PGresult   *result;
	int			code = exec->command.code;

	if (exec->conn == NULL || (code != 0 && exec->told_to_end))
		return;
	job = literal(exec, exec->options->job);
	query = psprintf("SAVEPOINT ended; SELECT %s(%s, %s, '%s')",
					 code == 0 ? "le_complete" : "le_fail",
					 exec->election, job, exec->tick);
	result = ask(exec, query, now() + GOODBYE);
	if (result != NULL && !has_row(result))
		PQclear(ask(exec, "ROLLBACK TO ended", now() + GOODBYE));
	if (result == NULL || !has_row(result) || *PQgetvalue(result, 0, 0) != 't')
		pg_log_warning("could not confirm that tick %s of job \"%s\" is marked as %s",
					   exec->tick, exec->options->job,
					   code == 0 ? "done" : "failed");
	PQclear(result);
	free(query);
}

static void
start(Exec *exec)
{
	static const int death_signals[] = {SIGKILL, SIGTERM, 0};
	int			death_signal = death_signals[exec->options->on_loss];
	bool		guarded = death_signal != 0;

	setenv("LE_ELECTION", exec->options->election, 1);
	setenv("LE_FENCING_TOKEN", exec->token, 1);
	if (exec->tick != NULL)
		setenv("LE_TICK", exec->tick, 1);
	else
		unsetenv("LE_TICK");
	if (!command_start(&exec->command, exec->options->command, death_signal,
					   guarded ? &exec->guard : NULL, exec->deadline.kill_at,
					   &exec->events, true))
	{
		pg_log_error("could not start a process: %m");
		exit(LECTL_SOFTWARE);
	}
}

/* Unkillable processes must not keep the term for ever. */
static void
abandon(Exec *exec)
{
	pg_log_error("could not end what the command has left running");
	pg_log_error_detail("It runs on, and election \"%s\" is given up.",
						exec->options->election);
	guard_dismiss(&exec->guard);
	if (exec->conn != NULL)
		hang_up(exec);
	exit(LECTL_SOFTWARE);
}

/*
 * The answer to the query in flight when the command ended.  If the
 * transaction is now bound to another term, its commit says nothing of ours.
 */
static void
take_last_answer(Exec *exec)
{
	PGresult   *result = answer(exec, now() + GOODBYE);

	if (result != NULL && has_row(result) && !is_our_term(exec, result))
		lose(exec, "it was over before the command had ended");
	else if (result != NULL && PQtransactionStatus(exec->conn) == PQTRANS_IDLE)
		lose(exec, "it was over before it could be bound again");
	PQclear(result);
}

/* No process of the command may outlive the session, which ends the term. */
static void
finish(Exec *exec)
{
	if (exec->options->on_loss != ON_LOSS_KILL)
		command_forget(&exec->command);
	else if (!command_end_rest(&exec->command,
							   Max(exec->deadline.kill_at, now() + DYING)))
		abandon(exec);
	if (exec->guard.pid > 0)
		guard_dismiss(&exec->guard);

	/* the guard may have ended the command, at the deadline */
	keep_deadline(exec);
	exec->in_time = !exec->lost;
	if (exec->in_time && exec->conn != NULL)
		take_last_answer(exec);
}

/* Runs the command once; true: an earlier tick was run, go on. */
static bool
run(Exec *exec)
{
	memset(&exec->command, 0, sizeof(exec->command));
	exec->in_time = false;
	if (exec->due != NULL)
		claim(exec);
	settle(exec, 0);
	start(exec);
	lead_until(exec, NEVER);
	exec->told_to_end |= is_typed(&exec->command);
	finish(exec);
	if (exec->lost || exec->due == NULL)
		return false;
	end_claim(exec);
	return exec->command.code == 0 && !exec->told_to_end &&
		exec->conn != NULL && strcmp(exec->tick, exec->due) != 0;
}

static int64_t
bind_every(void)
{
	const char *value = getenv(BIND_EVERY_VARIABLE);

	return value != NULL ? atoi(value) * MSEC : BIND_EVERY;
}

int
run_exec(const Options *options)
{
	Exec		exec = {.options = options,.bind_every = bind_every()};

	exec.conn = connect_to(options);
	PQsetnonblocking(exec.conn, 1);
	if (!events_open(&exec.events))
	{
		pg_log_error("could not wait for signals: %m");
		return LECTL_SOFTWARE;
	}
	exec.election = literal(&exec, options->election);
	prepare(&exec);
	acquire(&exec);
	bind_first(&exec);
	settle(&exec, exec.settle_for);
	while (run(&exec))
		;
	if (!exec.lost)
		release(&exec);
	if (exec.conn != NULL)
		hang_up(&exec);
	return exec.lost ? LECTL_LOST : exec.command.code;
}
