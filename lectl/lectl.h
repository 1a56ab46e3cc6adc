/*
 * lectl/lectl.h
 *
 * Leader election at the shell: declarations for all of the program's files.
 */
#ifndef LECTL_H
#define LECTL_H

#include "postgres_fe.h"

#include <limits.h>

#include "common/logging.h"
#include "deadline.h"
#include "libpq-fe.h"

/*
 * Our own exit codes, from sysexits.h where one fits.  We pass on a command's
 * code, so ours are far from those that commands use.
 */
#define LECTL_USAGE			64
#define LECTL_UNAVAILABLE	69	/* server or store, nothing was run */
#define LECTL_SOFTWARE		70	/* the system refused us something */
#define LECTL_NOT_LEADER	75	/* or the tick is taken */
#define LECTL_REFUSED		77	/* privileges, configuration */
#define LECTL_LOST			79	/* the term ended before the command */
#define LECTL_CANNOT_RUN	126
#define LECTL_NOT_FOUND		127

typedef enum OnLoss
{
	ON_LOSS_KILL,				/* TERM, and KILL before the deadline */
	ON_LOSS_TERM,				/* TERM only */
	ON_LOSS_IGNORE				/* nothing but the exit code */
} OnLoss;

typedef struct Options
{
	/* connection, as psql's */
	char	   *cluster;		/* one of Debian's, by its name */
	char	   *host;
	char	   *port;
	char	   *user;
	char	   *dbname;
	int			password;		/* -1 never ask, 0 when needed, 1 ask first */

	const char *word;			/* the command's name */
	char	  **words;			/* after that name, NULL at the end */
	int			n_words;

	/* exec */
	char	   *election;		/* step-down and wait, too */
	OnLoss		on_loss;
	char	   *wait;
	char	   *settle;
	char	   *job;			/* NULL: no ticks; check: all jobs */
	char	   *every;
	bool		catch_up;
	const char *missed;			/* NULL: not given */
	char	  **command;		/* and its arguments, NULL at the end */

	/* list */
	bool		csv;
	bool		json;

	/* wait */
	bool		me;
	bool		any;
	char	   *leader;			/* this node */
	char	   *timeout;		/* check, too */

	/* step-down */
	bool		all;
	char	   *hold_off;

	/* check */
	char	   *warning;
	char	   *critical;

	/* watch */
	char	   *run;			/* a shell runs this at each change */
	bool		first;			/* and for the leaders found first */
	char	   *interval;
} Options;

/* The columns of jobs_query. */
typedef enum JobsColumn
{
	JOBS_ELECTION,
	JOBS_JOB,
	JOBS_NODE,
	JOBS_STATE,
	JOBS_TOKEN,
	JOBS_SINCE,					/* when it began */
	JOBS_TICK,
	JOBS_REMARK,
	JOBS_LOCAL,					/* only this instance has the record */
	JOBS_AGE,					/* seconds since the tick */
	JOBS_LATE,					/* the next tick should have been claimed */
	JOBS_AHEAD					/* the last one lies ahead of the clock */
} JobsColumn;

/* A query with its parameters. */
typedef struct Question
{
	const char *query;
	int			n;				/* parameters, all of them text */
	const char *const *values;
} Question;

#define PLAIN(text)		{text, 0, NULL}

#define MAX_ANSWERS		8

/* A named host, for commands that ask each host and not just any. */
typedef struct Host
{
	char	   *name;			/* for people: host:port */
	char	   *host;			/* these as libpq takes them, or NULL */
	char	   *hostaddr;
	char	   *port;
	PGconn	   *conn;
	char	   *error;			/* NULL: there are answers */
	int			code;			/* the exit code for the error */
	PGresult   *answers[MAX_ANSWERS];

	/* connect.c's own */
	int			step;			/* the query in flight, -1: none yet */
	int			events;			/* for poll */
	instant		limit;
} Host;

extern const char *progname;

/* options.c */
extern void read_options(Options *options, int argc, char **argv);
extern void wrong_usage(void);
extern void end_before(int code);
extern int	run_command(const Options *options);

/* help.c */
extern void print_help(void);

/* cluster.c */
extern void take_cluster(Options *options);

/* connect.c */
#define PREPARATIONS	2
extern const Question preparations[PREPARATIONS];
extern PGconn *connect_to(const Options *options);
extern PGconn *connect_again(const Options *options);
extern PGPing ping_server(const Options *options);
extern bool string_names(const Options *options, const char *keyword);
extern PGconn *connect_ready(const Options *options, bool again);
extern bool make_ready(PGconn *conn);
extern char *why_lost(const PGconn *conn);
extern PGresult *ask_server(PGconn *conn, const Question *question,
							instant limit);
extern bool has_rows(const PGresult *result);
extern const char *value_of(const PGresult *result, int row, int column);
extern bool found_extension(const PGresult *result);
extern void tell_no_extension(const PGconn *conn);
extern void tell_error(const PGresult *result);
extern char *error_of(const PGresult *result);
extern int	exit_code_of(const PGresult *result);
extern char *first_line(const char *text);
extern char *text_array(char **words);
extern int64_t interval_of(PGconn *conn, const char *text);
extern Host *hosts_of(const Options *options, int *n);
extern void ask_hosts(const Options *options, Host *hosts, int n_hosts,
					  const Question *questions, int n_questions,
					  instant limit);

/* jobs.c */
extern const char jobs_query[];

/* exec.c, and a file for each of the others */
extern int	run_exec(const Options *options);
extern int	run_list(const Options *options);
extern int	run_wait(const Options *options);
extern int	run_step_down(const Options *options);
extern int	run_check(const Options *options);
extern int	run_watch(const Options *options);

#endif							/* LECTL_H */
