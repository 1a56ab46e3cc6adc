/*
 * lectl/lectl.h
 *
 * Leader election at the shell: what all of the program's files know.
 */
#ifndef LECTL_H
#define LECTL_H

#include "postgres_fe.h"

#include "common/logging.h"
#include "libpq-fe.h"

/*
 * Exit codes of our own.  Those of sysexits.h where one fits; a command's own
 * code is passed on, so they are far from what commands use.
 */
#define LECTL_USAGE			64
#define LECTL_UNAVAILABLE	69	/* server or store, nothing was run */
#define LECTL_SOFTWARE		70	/* the system refused us something */
#define LECTL_NOT_LEADER	75	/* or the tick is taken */
#define LECTL_REFUSED		77	/* privileges, configuration */
#define LECTL_LOST			79	/* the term was over before the command */
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
	char	   *host;
	char	   *port;
	char	   *user;
	char	   *dbname;
	int			password;		/* -1 never ask, 0 when needed, 1 ask first */

	char	   *word;			/* exec, ... */
	char	   *election;
	OnLoss		on_loss;
	char	   *wait;
	char	   *settle;
	char	   *job;			/* NULL: no ticks */
	char	   *every;
	bool		catch_up;
	char	  **command;		/* and its arguments, NULL at the end */
} Options;

extern const char *progname;

/* options.c */
extern void read_options(Options *options, int argc, char **argv);

/* connect.c */
extern PGconn *connect_to(const Options *options);
extern int	exit_code_of(const PGresult *result);

/* exec.c */
extern int	run_exec(const Options *options);

#endif							/* LECTL_H */
