# From the call of le_release() on one instance until the waiting le_acquire() on
# the other has returned; beside a bare blocking query and lock, plus the way to
# the worker and back (store local); beside a blocking query and the worker's own
# requests by threads, one for each question, with a line on the disk before the
# answer; and beside Lock and Unlock of Consul's Go client.  With Cassandra, over
# two gateways.

use strict;
use warnings;

use Bench;
use LeaderElection::Cassandra;
use LeaderElection::Gateway;
use LeaderElection::Session;
use LeaderElection::Util;

my $times = size(30, 3);
my $consul = consul_server();
my $cassandra = LeaderElection::Cassandra->shared;
my $keyspace = $cassandra->keyspace;
my @gateways = map {
	LeaderElection::Gateway->new("gateway$_", cassandra => $cassandra,
		keyspace => $keyspace)->start
} 1, 2;
my $local = instance('local');
my @consul = map { instance("consul$_", consul => $consul) } 1, 2;
my @cassandra =
  map { instance("cassandra$_", gateway => $gateways[ $_ - 1 ]) } 1, 2;
my $number = 0;

foreach my $node ($local, @consul, @cassandra)
{
	$node->sql(<<'END');
CREATE FUNCTION bench_release(name text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	called timestamptz := clock_timestamp();
BEGIN
	IF NOT le_release(name) THEN RAISE 'not released'; END IF;
	RETURN extract(epoch FROM called) * 1000;
END $$;
CREATE FUNCTION bench_wait(name text) RETURNS float8 LANGUAGE plpgsql AS $$
BEGIN
	IF NOT le_acquire(name, wait => '1 min') OR NOT le_is_leader(name) THEN
		RAISE 'not acquired';
	END IF;
	RETURN extract(epoch FROM clock_timestamp()) * 1000;
END $$;
END
}

# Sessions of their own, to and fro.
sub handoffs
{
	my ($times, @nodes) = @_;
	my @sessions = map { LeaderElection::Session->new($_) } @nodes;
	my $election = 'handoff/' . ++$number;
	my @took;

	$sessions[0]->query("SELECT bench_wait('$election')");
	foreach (-1 .. $times)
	{
		$sessions[1]->start("SELECT bench_wait('$election')");
		$nodes[1]->wait_for("SELECT state = 'waiting' FROM le_status
			WHERE election = '$election'", undef, interval => 0.01);

		my $called = $sessions[0]->query("SELECT bench_release('$election')");

		push @took, $sessions[1]->rows - $called;
		@nodes = reverse @nodes;
		@sessions = reverse @sessions;
	}
	$sessions[0]->query("SELECT bench_release('$election')");
	$_->quit foreach @sessions;
	return @took[ 2 .. $#took ];    # without the first wait of each
}

sub round_trips
{
	my $session = LeaderElection::Session->new($local);
	my @took;

	foreach (1 .. $times)
	{
		push @took, split /\n/, $session->query(<<'END');
SELECT le_acquire('trip') \g /dev/null
SELECT -bench_release('trip') + extract(epoch FROM clock_timestamp()) * 1000
END
	}
	$session->quit;
	return @took;
}

rounds(
	sub {
		take('Consul', handoffs($times, @consul));
		take_lines('bare ', 1e-3,
			lines_of(tool('bench-bare'), $consul->url, 'handoffs', $times));
		take_lines('relayed ', 1e-3, lines_of(tool('bench-bare'), $consul->url,
				'relayed-handoffs', $times, $local->data_dir . '/relayed'));
		take('local', round_trips());
		take_lines('Go ', 1e-3, lines_of(tool('consul-lock'), '-address',
				$consul->host_port, '-key', 'bench/go', '-handoffs', $times));
		take('Cassandra', handoffs(size(10, 2), @cassandra));
	});
together('bare + local', 'bare handoff', 'local');
metric('handoff, Consul', unit => 'ms', ours => 'Consul', peer => 'bare + local',
	ratio => '<= 1.3');
metric('handoff, Consul', unit => 'ms', ours => 'Consul', peer => 'bare handoff');
metric('handoff, Consul', unit => 'ms', ours => 'Consul', peer => 'Go handoff',
	ratio => '< 1');
metric('handoff, Consul', unit => 'ms', ours => 'Consul', peer => 'relayed handoff');
metric('relayed: handoff', unit => 'ms', ours => 'relayed handoff',
	peer => 'bare + local');
metric('relayed: handoff', unit => 'ms', ours => 'relayed handoff',
	peer => 'Go handoff');
metric('handoff, Cassandra over two gateways', unit => 'ms', ours => 'Cassandra',
	target => '<= 300');
$_->stop foreach $local, @consul, @cassandra;
finish();
