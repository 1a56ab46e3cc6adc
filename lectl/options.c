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
	OPT_CATCH_UP,
	OPT_MISSED,
	OPT_CSV,
	OPT_JSON,
	OPT_ME,
	OPT_ANY,
	OPT_LEADER,
	OPT_TIMEOUT,
	OPT_ALL,
	OPT_HOLD_OFF,
	OPT_EXEC,
	OPT_FIRST,
	OPT_INTERVAL,
	OPT_WARNING,
	OPT_CRITICAL,				/* the last that belongs to a command */
	OPT_CLUSTER
};

#define BIT(option)		(1 << (option))

static const struct option long_options[] = {
	{"cluster", required_argument, NULL, OPT_CLUSTER},
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
	{"missed", required_argument, NULL, OPT_MISSED},
	{"csv", no_argument, NULL, OPT_CSV},
	{"json", no_argument, NULL, OPT_JSON},
	{"me", no_argument, NULL, OPT_ME},
	{"any", no_argument, NULL, OPT_ANY},
	{"leader", required_argument, NULL, OPT_LEADER},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"all", no_argument, NULL, OPT_ALL},
	{"hold-off", required_argument, NULL, OPT_HOLD_OFF},
	{"exec", required_argument, NULL, OPT_EXEC},
	{"first", no_argument, NULL, OPT_FIRST},
	{"interval", required_argument, NULL, OPT_INTERVAL},
	{"warning", required_argument, NULL, OPT_WARNING},
	{"critical", required_argument, NULL, OPT_CRITICAL},
	{"help", no_argument, NULL, '?'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0}
};

/* The commands: their options, and how many words follow. */
static const struct Command
{
	const char *word;
	int			(*run) (const Options *options);
	int			takes;
	int			least;
	int			most;
} commands[] = {
	{"exec", run_exec, BIT(OPT_ON_LOSS) | BIT(OPT_WAIT) | BIT(OPT_SETTLE) |
	BIT(OPT_JOB) | BIT(OPT_EVERY) | BIT(OPT_CATCH_UP) |
	BIT(OPT_MISSED), 1, INT_MAX},
	{"list", run_list, BIT(OPT_CSV) | BIT(OPT_JSON), 0, INT_MAX},
	{"wait", run_wait, BIT(OPT_ME) | BIT(OPT_ANY) | BIT(OPT_LEADER) |
	BIT(OPT_TIMEOUT), 1, 1},
	{"step-down", run_step_down, BIT(OPT_ALL) | BIT(OPT_HOLD_OFF), 0, 1},
	{"check", run_check, BIT(OPT_WARNING) | BIT(OPT_CRITICAL) | BIT(OPT_JOB) |
	BIT(OPT_TIMEOUT), 1, INT_MAX},
	{"watch", run_watch, BIT(OPT_EXEC) | BIT(OPT_FIRST) | BIT(OPT_INTERVAL),
	0, INT_MAX}
};

/* Monitoring systems know no 64. */
#define CHECK_UNKNOWN	3

static const struct Command *command;	/* the named one, or NULL */

static bool
is_check(void)
{
	return command != NULL && command->run == run_check;
}

/* For errors before the first query. */
void
end_before(int code)
{
	exit(is_check() ? CHECK_UNKNOWN : code);
}

void
wrong_usage(void)
{
	pg_log_error_hint("Try \"%s --help\" for more information.", progname);
	end_before(LECTL_USAGE);
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

static const char *
to_missed(const char *name)
{
	if (strcmp(name, "skip") == 0 || strcmp(name, "last") == 0 ||
		strcmp(name, "all") == 0)
		return name;
	pg_log_error("invalid value for option \"%s\": \"%s\"", "--missed", name);
	pg_log_error_hint("It is \"skip\", \"last\" or \"all\".");
	exit(LECTL_USAGE);
}

/* Behind the command's word the option may be meant for another program. */
static char *
cluster_before_command(char *name)
{
	if (command == NULL)
		return name;
	pg_log_error("option \"--cluster\" must come before \"%s\"", command->word);
	wrong_usage();
	return NULL;
}

static void
take_connection_option(Options *options, int option)
{
	switch (option)
	{
		case OPT_CLUSTER:
			options->cluster = cluster_before_command(optarg);
			break;
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
		case 'V':
			puts("lectl (leader_election) " LE_VERSION);
			exit(0);
		default:
			wrong_usage();
	}
}

static void
take_option(Options *options, int option)
{
	switch (option)
	{
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
		case OPT_MISSED:
			options->missed = to_missed(optarg);
			break;
		case OPT_CSV:
			options->csv = true;
			break;
		case OPT_JSON:
			options->json = true;
			break;
		case OPT_ME:
			options->me = true;
			break;
		case OPT_ANY:
			options->any = true;
			break;
		case OPT_LEADER:
			options->leader = optarg;
			break;
		case OPT_TIMEOUT:
			options->timeout = optarg;
			break;
		case OPT_ALL:
			options->all = true;
			break;
		case OPT_HOLD_OFF:
			options->hold_off = optarg;
			break;
		case OPT_EXEC:
			options->run = optarg;
			break;
		case OPT_FIRST:
			options->first = true;
			break;
		case OPT_INTERVAL:
			options->interval = optarg;
			break;
		case OPT_WARNING:
			options->warning = optarg;
			break;
		case OPT_CRITICAL:
			options->critical = optarg;
			break;
		default:
			take_connection_option(options, option);
	}
}

/* getopt returns "?" for unknown options, too. */
static void
look_for_help(int option, char **argv)
{
	const char *last = argv[optind - 1];

	if (option == '?' &&
		((optopt == 0 && strncmp(last, "--h", 3) == 0) ||
		 strcmp(last, "-?") == 0))
	{
		print_help();
		exit(0);
	}
}

static void
name_command(Options *options, char *word)
{
	options->word = word;
	for (int i = 0; i < lengthof(commands); i++)
		if (strcmp(commands[i].word, word) == 0)
			command = &commands[i];
	if (command == NULL)
	{
		pg_log_error("unknown command \"%s\"", word);
		wrong_usage();
	}
}

/* check has the options of monitoring plugins, -w and -c. */
static int
next_option(int argc, char **argv)
{
	int			option = getopt_long(argc, argv, is_check() ?
									 "+h:p:U:d:w:c:WV?" : "+h:p:U:d:wWV?",
									 long_options, NULL);

	if (option == 'w' && is_check() && optarg != NULL)
		return OPT_WARNING;
	return option == 'c' ? OPT_CRITICAL : option;
}

/* exec takes one word; then comes its command, with options of its own. */
static bool
takes_words(const Options *options)
{
	return command == NULL || command->run != run_exec ||
		options->n_words < 1;
}

static int
read_words(Options *options, int argc, char **argv)
{
	int			given = 0;

	options->words = pg_malloc0((argc + 1) * sizeof(char *));
	for (;;)
	{
		int			option = next_option(argc, argv);

		if (option != -1)
		{
			look_for_help(option, argv);
			take_option(options, option);
			if (option <= OPT_CRITICAL)
				given |= BIT(option);
		}
		else if (optind < argc && takes_words(options) &&
				 (command == NULL || command->run != run_exec ||
				  strcmp(argv[optind - 1], "--") != 0))
		{
			if (command == NULL)
				name_command(options, argv[optind++]);
			else
				options->words[options->n_words++] = argv[optind++];
		}
		else
			break;
	}
	options->command = argv + optind;
	return given;
}

static void
refuse_options(int given)
{
	for (const struct option *o = long_options; o->name != NULL; o++)
		if (o->val <= OPT_CRITICAL && (given & BIT(o->val) & ~command->takes))
		{
			pg_log_error("option \"--%s\" is not for \"%s\"", o->name,
						 command->word);
			wrong_usage();
		}
}

static void
must(bool fine, const char *what)
{
	if (fine)
		return;
	pg_log_error("%s", what);
	wrong_usage();
}

/*
 * Our options stand before, between and after our words; behind "exec
 * ELECTION" comes the command, with or without "--", and its own options.
 */
void
read_options(Options *options, int argc, char **argv)
{
	int			given;

	options->wait = "0";
	options->settle = "1s";
	given = read_words(options, argc, argv);
	must(command != NULL, "no command was given");
	refuse_options(given);
	options->election = options->words[0];
	if (is_check())
		must(options->election != NULL, "nothing was given to check");
	must(options->n_words >= command->least, "no election was given");
	must(options->n_words <= command->most, "more than one election was given");
	if (command->run == run_exec)
	{
		must(options->command[0] != NULL, "nothing was given to run");
		must((options->job == NULL) == (options->every == NULL) &&
			 (options->job != NULL ||
			  (!options->catch_up && options->missed == NULL)),
			 "options --job and --every need each other, and --catch-up and --missed both");
	}
	if (command->run == run_step_down)
		must(options->all == (options->election == NULL),
			 "either an election or --all must be given");
	must(options->me + options->any + (options->leader != NULL) <= 1,
		 "only one of --me, --any and --leader can be given");
	must(!options->csv || !options->json,
		 "only one of --csv and --json can be given");
	must(!options->first || options->run != NULL, "option --first needs --exec");
	take_cluster(options);
}

int
run_command(const Options *options)
{
	return command->run(options);
}
