# Tier: test, 1 s
#
# A machine with PostgreSQL's programs but not its server headers, as Debian
# has it with postgresql-client and libpq-dev: pgxs.mk is there all the same.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

chdir $ENV{TESTDIR} or die "chdir: $!";
delete @ENV{qw(MAKEFLAGS MFLAGS MAKEOVERRIDES)};    # of the make that runs us

my $dir = PostgreSQL::Test::Utils::tempdir;
my $pg_config = "$dir/pg_config";
append_to_file(
	$pg_config, join "\n",
	'#!/bin/sh',
	'case $1 in',
	"	--includedir-server) echo '$dir/no-headers' ;;",
	"	*) exec '$ENV{PG_CONFIG}' \"\$@\" ;;",
	'esac', '');
chmod 0755, $pg_config or die "chmod: $!";

# The output of a command, and its exit code.
sub run_with
{
	my ($found, @command) = @_;

	local $ENV{PG_CONFIG} = $found;
	my $output = join "\n", grep { $_ ne '' } run_command(\@command);
	return ($output, $? >> 8);
}

# the compiler's word that there is no postgres.h, in place of ours
subtest 'make' => sub {
	my ($output, $rc) = run_with($pg_config, 'make', 'all');

	isnt($rc, 0, 'does not build');
	like($output, qr/PostgreSQL server headers \(PGXS\) were not found.*make deps/,
		'says what is missing and what to do');

	# a dry run: the other tests use the tree, too
	($output, $rc) = run_with($pg_config, 'make', '-n', 'clean');
	is($rc, 0, 'cleans') or diag($output);
};

# demo and test on a machine where they should install their needs
subtest 'deps' => sub {
	chomp(my $version = `$ENV{PG_CONFIG} --version`);
	my ($major) = $version =~ /^PostgreSQL (\d+)/;
	my ($output, $rc) = run_with($ENV{PG_CONFIG}, 'scripts/deps', 'build');

	is($rc, 0, 'nothing is missing here') or diag($output);
	is($output, '', 'nor is anything said');

	($output, $rc) = run_with($pg_config, 'scripts/deps', 'build');
	is($rc, 1, 'without headers the build cannot begin');
	like($output, qr/\bpostgresql-server-dev-$major\b/,
		'their package is named, of the version found');
	unlike($output, qr/\bpostgresql-$major\b/, 'and no other');
};

done_testing();
