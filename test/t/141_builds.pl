# Tier: long, 60 s
#
# Ways to build. Objects of another PostgreSQL, or of another kind of build, are
# built anew. A library without libcurl needs no library that PostgreSQL does not
# bring. It elects among the sessions of one instance, and does not lead where the
# settings name a store that it cannot ask.

use strict;
use warnings;

use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = Cwd::getcwd();
my $build = "$ENV{LE_SANDBOX}/without-curl";
my $stage = "$build/stage";

my @make = ('make', '-C', $build, '-f', "$top/Makefile", 'with_llvm=no', "PG_CONFIG=$ENV{PG_CONFIG}");

# How many files would be compiled.
sub compiled
{
	my ($output) = run_command([ @make, '-n', 'all', @_ ]);

	return scalar(() = $output =~ / -c -o /g);
}

mkdir $build or die "could not make $build: $!";
system_or_bail(@make, '-s', 'install', 'WITHOUT_CURL=1', "DESTDIR=$stage");

is(compiled('WITHOUT_CURL=1'), 0, 'it is built');

my $all = compiled();

cmp_ok($all, '>', 50, 'in another way it is built anew');
is(compiled('WITHOUT_CURL=1', 'MAJORVERSION=99'), $all, 'and for another PostgreSQL');

my ($pkglibdir) = run_command([ $ENV{PG_CONFIG}, '--pkglibdir' ]);
my $library = "$stage$pkglibdir/leader_election.so";
my ($needs) = run_command([ 'objdump', '-p', $library ]);

is_deeply([ grep { !/^(libc|librt|libpthread|ld-linux\S*)\.so/ } $needs =~ /NEEDED\s+(\S+)/g ],
	[], 'it needs libc alone');

my $node = LeaderElection::Node->create('a',
	conf => { dynamic_library_path => "$stage$pkglibdir:\$libdir" });

ok($node->acquire('e'), 'it leads');
is($node->sql('SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ $$leader_election$$'),
	1, 'the worker runs');

$node->set('leader_election.backend', 'consul');
$node->restart;
like(
	$node->sql_error("SELECT le_acquire('e')"),
	qr/"leader_election\.backend" has a value that is not valid/,
	'it does not lead where the store is one that it cannot ask');
like(
	$node->sql(q(SELECT string_agg(level || ': ' || message, E'\n') FROM le_check_config())),
	qr/^error: This node does not lead: "leader_election\.backend" has a value that is not valid/m,
	'le_check_config() says so');
like(
	slurp_file($node->logfile),
	qr/DETAIL:  The library was built without libcurl, which this store needs\./,
	'the log says why');

done_testing();
