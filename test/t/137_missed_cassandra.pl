# Tier: long, 33 s
#
# Ticks that nobody has claimed, on two instances over a real Cassandra: while
# nothing was scheduled, while the gateway was down, and while everything was.

use strict;
use warnings;

use LeaderElection::Cassandra;
use LeaderElection::Gateway;
use LeaderElection::Node;
use LeaderElection::Outage;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $cassandra = LeaderElection::Cassandra->shared;
my $gateway = LeaderElection::Gateway->new('gateway',
	cassandra => $cassandra, keyspace => $cassandra->keyspace)->start;
my @nodes = map {
	LeaderElection::Node->create(
		$_,
		gateway => $gateway,
		settings => {
			lease_ttl => '7s',
			safety_margin => '500ms',
			renew_interval => '1500ms',
			request_timeout => '1s',
			campaign => 'billing'
		})
} 'a', 'b';

my $outage = LeaderElection::Outage->new(nodes => \@nodes);

$outage->run_for(3);
$outage->without('no scheduler', sub { }, sub { });
$outage->run_for(2);
$outage->without('no store', sub { $gateway->kill9; }, sub { $gateway->start; });
$outage->run_for(2);
$outage->without(
	'nothing at all',
	sub { $_->stop('immediate') foreach @nodes; $gateway->kill9; },
	sub { $gateway->start; $_->start foreach @nodes; });
$outage->run_for(3);
$outage->check;

done_testing();
