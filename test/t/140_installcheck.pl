# Tier: test, 4 s
#
# "make installcheck" touches no server that elects together with others, or that has
# elections of its own.

use strict;
use warnings;

use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeaderElection::Node->create('a', start => 0);

# Returns its output, and whether it passed.
sub installcheck
{
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	my $output = '';
	my $passed = IPC::Run::run(
		[ 'make', 'installcheck', 'REGRESS=arguments', "PG_CONFIG=$ENV{PG_CONFIG}" ],
		'&>', \$output);

	note($output);
	return ($passed, $output);
}

sub refuses
{
	my ($why, %settings) = @_;

	$node->set($_, $settings{$_}) foreach keys %settings;
	$node->start;

	# Tests that are not refused wait for a store that is not there.
	local $ENV{PGOPTIONS} = '-c statement_timeout=1s';
	my ($passed, $output) = installcheck();

	ok(!$passed, "refused: $why");
	like($output, qr/^installcheck: .*$why.*\ninstallcheck: nothing was done/m, 'it says why');
	is($node->sql("SELECT count(*) FROM pg_database WHERE datname ~ 'regress'"), 0,
		'nothing was done');
	$node->stop;
}

refuses('does not preload', shared_preload_libraries => '');
refuses(
	'store "consul"',
	'shared_preload_libraries' => 'leader_election',
	'leader_election.backend' => 'consul');
refuses(
	'set up for: billing',
	'leader_election.backend' => 'local',
	'leader_election.campaign' => 'billing');

my ($passed, $output) = installcheck();

ok(!$passed, 'refused: no server');
like($output, qr/^installcheck: the server could not be asked/m, 'it says why');

$node->set('leader_election.campaign', '');
$node->start;
($passed) = installcheck();
ok($passed, 'a server of its own is tested');

done_testing();
