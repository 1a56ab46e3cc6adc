/*
 * lectl/lectl.c
 *
 * Leader election at the shell.
 */
#include "lectl.h"

#include "events.h"

const char *progname;

int
main(int argc, char **argv)
{
	Options		options = {0};

	pg_logging_init(argv[0]);
	progname = get_progname(argv[0]);
	events_reset();
	read_options(&options, argc, argv);
	return run_command(&options);
}
