# The gateway under load, 1 to 64 clients, each with locks of its own, beside the
# conditional statements alone by gocql; on one node of Cassandra and, unless QUICK
# is set, on three.

use strict;
use warnings;

use Bench;
use LeaderElection::Cassandra;

my %params = (MILLIS => size(2000, 300), LOCKS => size(1000, 100));
my @sizes = @{ size([ 1, 3 ], [1]) };

sub measure
{
	my ($nodes) = @_;

	take_lines("$nodes ", 1,
		gateway_samples('TestBenchLoad', %params, BENCH => "load$nodes",
			COPIES => $nodes,
			($nodes > 1 ? (CLUSTER_DIR => "$ENV{LE_SANDBOX}/three") : ())));
	return;
}

sub cluster
{
	my ($what, @more) = @_;

	system("$ENV{TESTDIR}/test/services/cassandra/cluster $what "
		  . "'$ENV{LE_SANDBOX}/three' @more > tmp_check/log/three 2>&1 < /dev/null") == 0
	  or die "cluster $what failed\n";
	return;
}

LeaderElection::Cassandra->shared;
cluster('start', 3) if @sizes > 1;
rounds(
	sub {
		measure($_) foreach @sizes;
	});
cluster('stop') if @sizes > 1;

foreach my $nodes (@sizes)
{
	foreach my $clients (1, 4, 16, 64)
	{
		my ($ours, $bare) = map { "$nodes ${_}_$clients" } 'gateway', 'bare';

		metric("$nodes node(s), $clients clients: acquires", unit => '/s',
			ours => "${ours}_rate", peer => "${bare}_rate", ratio => '>= 0.9');
		metric("$nodes node(s), $clients clients: p50", unit => 'ms',
			ours => "${ours}_p50", peer => "${bare}_p50");
		metric("$nodes node(s), $clients clients: p99", unit => 'ms',
			ours => "${ours}_p99", peer => "${bare}_p99", ratio => '<= 1.2');
	}
	metric("$nodes node(s): renewal of $params{LOCKS} locks, 100 a request", unit => 'ms',
		ours => "$nodes batch");
	metric("$nodes node(s): acquires and releases that Cassandra gave up",
		unit => 'pairs', ours => "$nodes gateway_failed", peer => "$nodes bare_failed");
}
finish();
