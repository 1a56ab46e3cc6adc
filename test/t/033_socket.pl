# Tier: test, 7 s
#
# Consul's agent listens to a socket of this machine, and to nothing else.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $socket = PostgreSQL::Test::Utils::tempdir_short() . '/consul.sock';
my $consul = LeaderElection::Consul->new(
	'socket',
	config => qq(addresses { http = "127.0.0.1 unix://$socket" }))->start;
my $node = LeaderElection::Node->create(
	'socket',
	consul => "unix://$socket",
	settings => { lease_ttl => '60s', request_timeout => '2s' });

ok($node->acquire('a'), 'leads');
is($node->leader('a'), 'socket', 'the store says who leads');
like($consul->kv('leader_election/a/leader')->{Value},
	qr/"node":"socket"/, 'it is the store behind the socket');
is( $node->sql(
		"SELECT level || ':' || message FROM le_check_config()
		WHERE level = 'error' OR topic = 'store' AND level <> 'ok'"),
	'',
	'the check has nothing against it');
ok($node->release('a'), 'released');

unlink $socket;
$consul->stop;
like($node->sql_error("SELECT le_acquire('a')"),
	qr/ERROR:  LE003: .*unix:/s, 'nobody listens: the error names the socket');
$node->stop;

done_testing();
