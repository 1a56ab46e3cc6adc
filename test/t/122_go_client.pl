# Tier: test, 43 s
#
# Beside Consul's own Go client (test/goclient), on one key: its Lock itself, not our
# model of it, against instances of ours, each side killed while it holds. They never
# hold at once, and the waiter gets it; the times are those of docs/failover-times.md.

use strict;
use warnings;

use Carp;
use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Sampler;
use LeaderElection::Session;
use LeaderElection::Util;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

my $binary = "$ENV{LE_BIN}/consul-lock";

plan skip_all => 'the Go client was not built' unless -x $binary;

# The client's session has a TTL of its own, as short as this Consul allows.
my ($lease, $ttl, $delay) = (5, 5, 2);

my $consul = LeaderElection::Consul->new('consul')->start;
my %cluster = (consul => $consul, settings => { lease_ttl => "$lease s" });
my $one = LeaderElection::Node->create('one', %cluster);
my $two = LeaderElection::Node->create('two', %cluster);

# A lease that nobody waits for.
my $long = LeaderElection::Node->create(
	'long',
	consul => $consul,
	settings => { lease_ttl => '60 s', renew_interval => '3 s' });
my (%clients, @samplers);
my $owner = $$;

# A client of that name that wants the election, with its output in a file.
sub client
{
	my ($election) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir . '/said';

	pipe(my $in, my $out) or croak "pipe: $!";
	my $pid = fork() // croak "fork: $!";
	if ($pid == 0)
	{
		open(my $said, '>', $file) or POSIX::_exit(126);
		POSIX::dup2(fileno($in), 0);
		POSIX::dup2(fileno($said), 1);
		close $out;
		exec 'setpriv', '--pdeathsig', 'KILL', $binary,
		  '-address', $consul->host_port,
		  '-key', "leader_election/$election/leader",
		  '-name', "client of $election", '-ttl', "${ttl}s",
		  '-delay', "${delay}s"
		  or POSIX::_exit(127);
	}
	close $in;
	$out->autoflush(1);
	my $client = { pid => $pid, in => $out, file => $file };
	$clients{$pid} = $client;
	return $client;
}

# The instant at which it said so; undef if it did not.
sub said
{
	my ($client, $what) = @_;

	return slurp_file($client->{file}) =~ /^\Q$what\E (\d+)$/m ? $1 : undef;
}

sub wait_until_said
{
	my ($client, $what) = @_;

	return poll_until(sub { said($client, $what) }, "a client to say \"$what\"");
}

# Returns the last instant at which it may have acted on its lock.
sub kill_client
{
	my ($client) = @_;
	my $before = boottime_ns();

	kill('KILL', $client->{pid});
	waitpid($client->{pid}, 0);
	delete $clients{ $client->{pid} };
	return $client->{killed} = $before;
}

# From when until when a client certainly held its lock.
sub held
{
	my ($client) = @_;
	my $from = said($client, 'locked') // return;
	my ($to) = sort { $a <=> $b } grep { defined } said($client, 'unlocked'),
	  said($client, 'lost'), $client->{killed}, boottime_ns();

	return [ $from, $to ];
}

sub overlaps
{
	my ($client, @of) = @_;
	my $held = held($client) // return;

	return map {
		my $sampler = $_;

		map { "$sampler->{name} led from $_->[0] to $_->[1], the client @$held" }
		  grep { $_->[0] < $held->[1] && $_->[1] > $held->[0] } $sampler->beliefs
	} @of;
}

sub since
{
	my ($from) = @_;

	return (boottime_ns() - $from) / 1e9;
}

sub wait_for_state
{
	my ($node, $election, $state) = @_;

	return $node->wait_for(
		"SELECT state = '$state' FROM le_status WHERE election = '$election'",
		$node->name . ": $election $state");
}

# Until nobody holds the key any more; returns when somebody still did, as at the
# instant that is given.
sub wait_until_free
{
	my ($election, $asked) = @_;
	my $held;

	poll_until(
		sub {
			$held = $asked;
			$asked = boottime_ns();
			return !$consul->kv("leader_election/$election/leader")->{Session};
		},
		"Consul to free $election", interval => 0.05);
	return $held;
}

# ---- both begin at the same time, since each waits for long ----

# The client holds, an instance waits.
my $holds = client('theirs');
wait_until_said($holds, 'locked');
$two->sql(q(SELECT le_campaign('theirs')));
wait_for_state($two, 'theirs', 'waiting');
is($two->leader('theirs'), 'client of theirs', 'the client is known by its name');
ok(!$one->acquire('theirs'), 'nobody gets its lock');

# An instance holds, the client waits.
ok($one->acquire('ours'), 'an instance leads');
my $waits = client('ours');
wait_until_said($waits, 'waiting');
is(said($waits, 'locked'), undef, 'no client gets that');
push @samplers, LeaderElection::Sampler->new($two, 'theirs'),
  LeaderElection::Sampler->new($one, 'ours');
poll_until(sub { scalar $samplers[1]->beliefs }, 'the sampler');

subtest 'orderly, both ways' => sub {
	my $client;

	ok($long->acquire('both'), 'an instance leads');
	my @here = map { LeaderElection::Sampler->new($_, 'both') } $long, $two;
	$client = client('both');
	wait_until_said($client, 'waiting');
	poll_until(sub { scalar $here[0]->beliefs }, 'the sampler');

	my $released = boottime_ns();

	ok($long->release('both'), 'released');
	before(wait_until_said($client, 'locked'), $released + 60e9,
		'the client has it, without a lock-delay');
	$two->sql(q(SELECT le_campaign('both')));
	wait_for_state($two, 'both', 'waiting');
	print { $client->{in} } "unlock\n";
	wait_until_said($client, 'unlocked');
	$two->wait_for_leadership('both');
	pass('then the other instance has it');
	poll_until(sub { scalar $here[1]->beliefs }, 'the sampler');
	$_->stop foreach @here;
	guarantee('G1', [ overlaps($client, @here) ], 'never both');
	kill_client($client);
	$two->sql(q(SELECT le_withdraw('both')));
};

# ---- both are killed ----

subtest 'killed on either side' => sub {
	my $client_killed = kill_client($holds);

	ok(!$two->is_leader('theirs'), 'the waiter has not got it yet');
	$one->crash;
	my $instance_killed = boottime_ns();

	# Consul frees what the dead client held
	my $held = wait_until_free('theirs', $client_killed);

	$two->wait_for_leadership('theirs');
	my $took = since($held);

	cmp_ok($took, '>', $lease - 0.5, 'our instance waits for a lease');
	poll_until(sub { scalar $samplers[0]->beliefs }, 'the sampler');

	# its retry after the lock-delay comes every 5 s
	my $locked = wait_until_said($waits, 'locked');

	pass('the client follows a dead instance');
	note(sprintf 'client after %.1f s, instance %.1f s after the key was free',
		($locked - $instance_killed) / 1e9, $took);
	is($two->leader('ours'), 'client of ours', 'as the other one knows');
	is(said($waits, 'lost'), undef, 'and keeps it');
	$_->stop foreach @samplers;
	guarantee('G1', [ overlaps($holds, $samplers[0]), overlaps($waits, $samplers[1]) ],
		'never both');
	kill_client($waits);
};

done_testing();

END
{
	my $rc = $?;

	kill('KILL', keys %clients) if $$ == $owner && %clients;
	$? = $rc;
}
