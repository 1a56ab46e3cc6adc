# Tier: long, 37 s
#
# A leader on a real Cassandra that freezes inside a transaction, and wakes up after
# another has taken over: the commit is refused, at whatever point it froze, each
# time.

use strict;
use warnings;

use LeaderElection::Cassandra;
use LeaderElection::Frozen;
use LeaderElection::Gateway;
use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $cassandra = LeaderElection::Cassandra->shared;
my $keyspace = $cassandra->keyspace;
my @gateways = map {
	LeaderElection::Gateway->new("gateway$_",
		cassandra => $cassandra, keyspace => $keyspace)->start
} 1 .. 2;

# Each asks another gateway first.
my @nodes = map {
	LeaderElection::Node->create(
		$_->[0],
		gateway => $_->[1],
		settings => {
			lease_ttl => '8s',
			safety_margin => '500ms',
			renew_interval => '1s',
			campaign => 'e'
		},
		conf => { max_connections => 60 })
} [ 'a', [ @gateways[ 0, 1 ] ] ], [ 'b', [ @gateways[ 1, 0 ] ] ];

prepare($_) foreach @nodes;
foreach my $round (1 .. 4)
{
	my ($leader, $next);

	poll_until(sub { ($leader) = grep { $_->is_leader('e') } @nodes; $leader }, 'a leader');
	($next) = grep { $_ != $leader } @nodes;
	freeze_in_transactions("cassandra $round", $leader,
		sub { next_leader_works($next) });
}
$_->stop foreach @nodes;

diag(attempts());
done_testing();
