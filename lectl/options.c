/*
 * lectl/options.c
 *
 * Command line and help.
 */
#include "lectl.h"

#include "getopt_long.h"

enum
{
	OPT_ON_LOSS = 1,
	OPT_WAIT,
	OPT_SETTLE,
	OPT_JOB,
	OPT_EVERY,
	OPT_CATCH_UP
};

static const struct option long_options[] = {
	{"host", required_argument, NULL, 'h'},
	{"port", required_argument, NULL, 'p'},
	{"username", required_argument, NULL, 'U'},
	{"dbname", required_argument, NULL, 'd'},
	{"no-password", no_argument, NULL, 'w'},
	{"password", no_argument, NULL, 'W'},
	{"on-loss", required_argument, NULL, OPT_ON_LOSS},
	{"wait", required_argument, NULL, OPT_WAIT},
	{"settle", required_argument, NULL, OPT_SETTLE},
	{"job", required_argument, NULL, OPT_JOB},
	{"every", required_argument, NULL, OPT_EVERY},
	{"catch-up", no_argument, NULL, OPT_CATCH_UP},
	{"help", no_argument, NULL, '?'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0}
};

static void
help(void)
{
	printf("lectl runs a command on the leader of an election only.\n\n"
		   "Usage:\n"
		   "  lectl [OPTION]... exec ELECTION [OPTION]... [--] COMMAND [ARGUMENT]...\n\n"
		   "Seeks to lead ELECTION for as long as COMMAND runs.  Before the term can\n"
		   "be over, COMMAND is ended.  It finds in its environment:\n"
		   "  LE_ELECTION        ELECTION\n"
		   "  LE_FENCING_TOKEN   the number of the term, higher in each one\n"
		   "  LE_TICK            with --every: the time for which it runs, in UTC\n\n"
		   "Options:\n"
		   "  --wait=INTERVAL    how long to wait for the turn, as in 5min (0)\n"
		   "  --job=NAME         with --every: the job's name, the same on all hosts\n"
		   "  --every=INTERVAL   run COMMAND once per tick, whoever leads; a tick is a\n"
		   "                     multiple of this since 2000-01-01 UTC\n"
		   "  --catch-up         run again a tick that was begun and not finished; then\n"
		   "                     a tick is run at least once, else at most once\n"
		   "  --on-loss=ACTION   what COMMAND gets when the term is about to end:\n"
		   "                     kill: TERM, and KILL before the deadline (default)\n"
		   "                     term: TERM only; it may run on after the term\n"
		   "                     ignore: nothing; the exit code tells\n"
		   "  --settle=INTERVAL  time between winning and the start of COMMAND, for\n"
		   "                     that of the leader before to be ended (1s)\n"
		   "  -V, --version      print the version, then exit\n"
		   "  -?, --help         show this help, then exit\n\n"
		   "Connection options:\n"
		   "  -h, --host=HOSTNAME      database server host or socket directory\n"
		   "  -p, --port=PORT          database server port\n"
		   "  -U, --username=USERNAME  database user name\n"
		   "  -d, --dbname=DBNAME      database name, connection string or URI\n"
		   "  -w, --no-password        never prompt for a password\n"
		   "  -W, --password           prompt for it first\n\n"
		   "Exit codes: that of COMMAND, 128+N if signal N ended it, or\n"
		   "   64  wrong usage\n"
		   "   69  server or store unavailable\n"
		   "   70  the system refused what lectl needs\n"
		   "   75  somebody else leads, or may, or the tick is taken; COMMAND was not run\n"
		   "   77  refused: privileges or configuration; COMMAND was not run\n"
		   "   79  the term was lost before COMMAND had ended\n"
		   "  126  COMMAND could not be run\n"
		   "  127  COMMAND was not found\n");
}

static void
wrong_usage(void)
{
	pg_log_error_hint("Try \"%s --help\" for more information.", progname);
	exit(LECTL_USAGE);
}

static OnLoss
to_on_loss(const char *name)
{
	if (strcmp(name, "kill") == 0)
		return ON_LOSS_KILL;
	if (strcmp(name, "term") == 0)
		return ON_LOSS_TERM;
	if (strcmp(name, "ignore") == 0)
		return ON_LOSS_IGNORE;
	pg_log_error("invalid value for option \"%s\": \"%s\"", "--on-loss", name);
	pg_log_error_hint("It is \"kill\", \"term\" or \"ignore\".");
	exit(LECTL_USAGE);
}

static void
take_option(Options *options, int option)
{
	switch (option)
	{
		case 'h':
			options->host = optarg;
			break;
		case 'p':
			options->port = optarg;
			break;
		case 'U':
			options->user = optarg;
			break;
		case 'd':
			options->dbname = optarg;
			break;
		case 'w':
			options->password = -1;
			break;
		case 'W':
			options->password = 1;
			break;
		case OPT_ON_LOSS:
			options->on_loss = to_on_loss(optarg);
			break;
		case OPT_WAIT:
			options->wait = optarg;
			break;
		case OPT_SETTLE:
			options->settle = optarg;
			break;
		case OPT_JOB:
			options->job = optarg;
			break;
		case OPT_EVERY:
			options->every = optarg;
			break;
		case OPT_CATCH_UP:
			options->catch_up = true;
			break;
		case 'V':
			puts("lectl (leader_election) " LE_VERSION);
			exit(0);
		default:
			wrong_usage();
	}
}

/* getopt answers "?" to what it does not know, too. */
static void
look_for_help(int option, char **argv)
{
	const char *last = argv[optind - 1];

	if (option == '?' && optopt == 0 && strncmp(last, "--h", 3) == 0)
	{
		help();
		exit(0);
	}
	if (option == '?' && strcmp(last, "-?") == 0)
	{
		help();
		exit(0);
	}
}

/*
 * Options stand before, between and after our two words; whatever follows
 * these is the command, "--" or not, and its options are its own.
 */
void
read_options(Options *options, int argc, char **argv)
{
	char	  **words[] = {&options->word, &options->election};
	int			n = 0;

	options->wait = "0";
	options->settle = "1s";
	for (;;)
	{
		int			option = getopt_long(argc, argv, "+h:p:U:d:wWV?",
										 long_options, NULL);

		if (option != -1)
		{
			look_for_help(option, argv);
			take_option(options, option);
		}
		else if (optind < argc && n < lengthof(words) &&
				 strcmp(argv[optind - 1], "--") != 0)
			*words[n++] = argv[optind++];
		else
			break;
	}
	options->command = argv + optind;

	if (n == 0 || strcmp(options->word, "exec") != 0)
	{
		if (n == 0)
			pg_log_error("no command was given");
		else
			pg_log_error("unknown command \"%s\"", options->word);
		wrong_usage();
	}
	if (n < 2 || options->command[0] == NULL)
	{
		pg_log_error("%s", n < 2 ? "no election was given" :
					 "nothing was given to run");
		wrong_usage();
	}
	if ((options->job == NULL) != (options->every == NULL) ||
		(options->catch_up && options->job == NULL))
	{
		pg_log_error("options --job and --every need each other, and --catch-up both");
		wrong_usage();
	}
}
