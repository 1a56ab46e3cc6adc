/*
 * lectl/help.c
 *
 * The manual.
 */
#include "lectl.h"

static const char usage[] =
"lectl is leader election at the shell.\n\n"
"Usage:\n"
"  lectl [OPTION]... exec ELECTION [OPTION]... [--] COMMAND [ARGUMENT]...\n"
"  lectl [OPTION]... list [ELECTION]...\n"
"  lectl [OPTION]... wait ELECTION [--me | --any | --leader=NODE]\n"
"  lectl [OPTION]... step-down ELECTION | --all\n"
"  lectl [OPTION]... check leader|candidates|jobs|store [ELECTION]...\n"
"  lectl [OPTION]... watch [ELECTION]... [--exec=COMMAND]\n\n"
"An INTERVAL is one of PostgreSQL's, as in 5min; times are in UTC.\n\n";

static const char exec[] =
"exec: a command that runs on the leader only.  lectl seeks to lead ELECTION for\n"
"as long as COMMAND runs.  Before the term can be over, COMMAND is ended.  It\n"
"finds in its environment:\n"
"  LE_ELECTION        ELECTION\n"
"  LE_FENCING_TOKEN   the number of the term, higher in each one\n"
"  LE_TICK            with --every: the time for which it runs\n"
"Options:\n"
"  --wait=INTERVAL    how long to wait for the turn (0)\n"
"  --job=NAME         with --every: the job's name, the same on all hosts\n"
"  --every=INTERVAL   run COMMAND once per tick, whoever leads; a tick is a\n"
"                     multiple of this since 2000-01-01 UTC\n"
"  --catch-up         run again a tick that was begun and not finished; then\n"
"                     a tick is run at least once, else at most once\n"
"  --missed=WHICH     ticks that nobody has begun: skip them (default), run the\n"
"                     last, or run all, the oldest first, at most 100\n"
"  --on-loss=ACTION   what COMMAND gets when the term is about to end:\n"
"                     kill: TERM, and KILL before the deadline (default)\n"
"                     term: TERM only; it may run on after the term\n"
"                     ignore: nothing; the exit code tells\n"
"  --settle=INTERVAL  time between winning and the start of COMMAND, for\n"
"                     that of the leader before to be ended (1s)\n"
"How long COMMAND may take is for timeout(1) to say: one that hangs keeps the\n"
"lead.\n\n";

static const char list[] =
"list: elections, jobs and nodes.  Each host that is named is asked, all of them\n"
"at the same time; one that does not answer has a row that says why.\n"
"  --csv              as comma-separated values\n"
"  --json             as an array of objects\n\n";

static const char wait[] =
"wait: until there is a leader.\n"
"  --me               until the instance that is asked leads (default); of\n"
"                     several hosts it cannot be said which that is\n"
"  --any              until somebody leads, as the store says\n"
"  --leader=NODE      until that node does\n"
"  --timeout=INTERVAL at most so long; 0 looks once (for ever)\n\n";

static const char step_down[] =
"step-down: gives up the term.  With one host that instance steps down, also if\n"
"it only contends; with several the one among them that leads.\n"
"  --all              all elections of the instance (drains it)\n"
"  --hold-off=INTERVAL  for how long it does not contend then (30s); 0 ends that\n\n";

static const char check[] =
"check: for monitoring systems: one line, with performance data, and their exit\n"
"codes: 0 ok, 1 warning, 2 critical, 3 unknown.\n"
"  leader             elections that nobody leads (-c 0)\n"
"  candidates         nodes that can lead, on the hosts named and, with Consul,\n"
"                     elsewhere (-w 2: -c 1:); with ELECTION: hosts that\n"
"                     contend for it, the fewest of several\n"
"  jobs               seconds since the newest tick of a job, the most of\n"
"                     several; critical, too, if the last run of any failed,\n"
"                     was abandoned or lost; warning if a job is late, or ahead\n"
"  store              seconds until the store answers\n"
"  -w, --warning=RANGE   warning outside of it; after the word check -w is this\n"
"  -c, --critical=RANGE  critical outside of it.  N is 0 to N, N: at least N,\n"
"                     ~:N at most N, M:N between the two, @M:N outside of these\n"
"  --job=NAME         of jobs: this one only\n"
"  --timeout=SECONDS  unknown if there is no answer by then (10)\n\n";

static const char watch[] =
"watch: a line for each change of a leader, until it is ended; without ELECTION,\n"
"of all that the instance holds, seeks or has seen.  A lost connection is made\n"
"again.\n"
"  --exec=COMMAND     a shell runs this at each change, one after the other, with\n"
"                     LE_ELECTION, LE_OLD_LEADER and LE_NEW_LEADER (empty:\n"
"                     nobody), LE_FENCING_TOKEN (of the new term) in its\n"
"                     environment\n"
"  --first            COMMAND also for the leaders found at the start\n"
"  --interval=INTERVAL  how often to look (1s)\n\n";

static const char options[] =
"Connection options:\n"
"  -h, --host=HOSTNAME      database server host or socket directory\n"
"  -p, --port=PORT          database server port\n"
"  -U, --username=USERNAME  database user name\n"
"  -d, --dbname=DBNAME      database name, connection string or URI\n"
"  --cluster=VERSION/NAME   a cluster of Debian's, as 17/main, or HOST:PORT for\n"
"                           NAME; before the command's word.  PGCLUSTER does the\n"
"                           same.  A host or a port that is named counts instead\n"
"  -w, --no-password        never prompt for a password\n"
"  -W, --password           prompt for it first\n\n"
"Other options:\n"
"  -V, --version            print the version, then exit\n"
"  -?, --help               show this help, then exit\n\n";

static const char exit_codes[] =
"Exit codes, but for check: 0; of exec that of COMMAND, 128+N if signal N ended\n"
"it; or\n"
"   64  wrong usage\n"
"   69  server or store unavailable; of list: any of the hosts\n"
"   70  the system refused what lectl needs, as an end to what COMMAND left\n"
"       running\n"
"   75  exec: somebody else leads, or may, or the tick is taken; COMMAND was not\n"
"       run.  wait: not in time.  step-down: it neither led nor contended\n"
"   77  refused: privileges or configuration\n"
"   79  exec: the term was lost before COMMAND had ended\n"
"  126  exec: COMMAND could not be run\n"
"  127  exec: COMMAND was not found\n"
" 128+N watch: ended by signal N\n";

void
print_help(void)
{
	static const char *const parts[] = {
		usage, exec, list, wait, step_down, check, watch, options, exit_codes
	};

	for (int i = 0; i < lengthof(parts); i++)
		fputs(parts[i], stdout);
}
