# Tier: test, 14 s
#
# The gateway's table is truncated while two instances live.

use strict;
use warnings;

use LeaderElection::Cassandra;
use LeaderElection::Emptied;
use LeaderElection::Gateway;
use LeaderElection::Node;
use Test::More;

my $cassandra = LeaderElection::Cassandra->shared;
my $keyspace = $cassandra->keyspace;
my $gateway = LeaderElection::Gateway->new('gateway',
	cassandra => $cassandra, keyspace => $keyspace)->start;
my @nodes = map {
	LeaderElection::Node->create($_, gateway => $gateway,
		settings => { lease_ttl => '10s', job_check_interval => '1s' })
} 'a', 'b';

emptied(\@nodes, sub { $cassandra->truncate($keyspace) });
$_->stop foreach @nodes;
done_testing();
