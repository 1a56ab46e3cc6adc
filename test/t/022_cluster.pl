# Tier: test, 58 s
#
# Three Consul servers, any of which may fail: a change of Consul's leader is
# survived if it is quick enough, and ends belief in time if it is not.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Sampler;
use LeaderElection::Util;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;

# Heartbeats of 2 s; a deposed leader may answer for another second.
my @servers = LeaderElection::Consul->cluster(3,
	config => 'performance { raft_multiplier = 2 }');

sub raft_leader
{
	return LeaderElection::Consul->leader(@_ ? @_ : @servers);
}

sub others
{
	my ($server) = @_;

	return grep { $_ != $server } @servers;
}

sub wait_for_samples
{
	my ($sampler, $token) = @_;

	return poll_until(
		sub {
			grep { $_->[2] == $token } $sampler->beliefs;
		},
		'samples');
}

# Guards against giving up for a fault that Consul survives.
subtest 'Consul loses its leader' => sub {
	my ($server) = others(raft_leader());
	my $node = LeaderElection::Node->create(
		'steady',
		consul => $server,
		settings => {
			lease_ttl => '60s',
			renew_interval => '3s',
			request_timeout => '3s',
			campaign => 'steady'
		});

	$node->wait_for_leadership('steady');
	my $token = $node->token('steady');
	my $sampler =
	  LeaderElection::Sampler->new($node, 'steady', interval => 0.02);
	wait_for_samples($sampler, $token);
	foreach my $end ('kill9', 'freeze', 'stop')
	{
		my $leader = raft_leader();

		# The node does not go by the very server that fails.
		if ($leader == $server)
		{
			($server) = others($leader);
			$node->configure(consul_url => $server->url);
		}
		$leader->$end;
		raft_leader(others($leader));

		my $since = $node->sql('SELECT clock_timestamp()');

		$node->wait_for(
			"SELECT last_renewed_at > '$since' FROM le_status "
			  . "WHERE election = 'steady'",
			"$end: a proof by the next leader");
		$end eq 'freeze' ? $leader->thaw : $leader->start;
		same_term($token, $node->token('steady'), "$end: the same term");
	}
	$sampler->stop;

	my @beliefs = $sampler->beliefs;

	is(scalar @beliefs, 1, 'believed in without a gap');
	ok(!$node->log_like(qr/no longer leader/), 'no term ended');
	$node->stop;
};

# Guards against belief that rests on a watch: the server on which it is
# parked does not say that the key has gone to another.
subtest 'frozen server, key taken meanwhile' => sub {
	my $leader = raft_leader();
	my ($follower, $third) = others($leader);
	my $recorder =
	  LeaderElection::Recorder->new('through', $follower->host_port)->start;
	my %settings = (request_timeout => '2s', renew_interval => '2s');
	my %node = (

		# asks a server that forwards to the leader
		through => LeaderElection::Node->create(
			'through',
			consul => $recorder,
			settings => { %settings, lease_ttl => '60s' }),

		# asks the leader
		direct => LeaderElection::Node->create(
			'direct',
			consul => $leader,
			settings => { %settings, lease_ttl => '10s' }));
	my (%sampler, %token, %deadline, %latest, %offset);

	ok($node{through}->acquire('spared', wait => '10s'), 'another election');
	foreach my $name (sort keys %node)
	{
		ok($node{$name}->acquire($name, wait => '10s'), "$name leads");
		$token{$name} = $node{$name}->token($name);
		$offset{$name} = $node{$name}->log_offset;
		$sampler{$name} = LeaderElection::Sampler->new($node{$name}, $name,
			interval => 0.02);
		wait_for_samples($sampler{$name}, $token{$name});
	}
	$recorder->wait_for_request(request_like('list_nodes'));

	my $spared = $node{through}->token('spared');
	my $mark = $recorder->mark;

	$leader->freeze;

	# its worker may have yet to read an answer
	$latest{direct} = boottime_ns() + 9e9;
	$deadline{direct} = deadline_ns($node{direct}, 'direct');

	my $next = raft_leader($follower, $third);
	my $foreign = $next->session(TTL => '60s');

	# Wait for a proof by the new leader: this node has survived the change.
	my $before = boottime_ns();
	poll_until(
		sub {
			grep { ($_->{status} // 0) == 200 && $_->{received} > $before }
			  $recorder->requests(request_like('prove'), $mark);
		},
		'a proof by the next leader');

	# A proof that was sent later cannot succeed any more.
	foreach my $name (sort keys %node)
	{
		is($next->delete("/v1/kv/leader_election/$name/leader")->{body},
			"true", "$name: key deleted");
		ok($next->lock("leader_election/$name/leader", $foreign), 'and taken');
	}

	my $taken = boottime_ns();

	$deadline{through} = $latest{through} = $taken + 59e9;
	foreach my $name ('through', 'direct')
	{
		poll_until(sub { !$node{$name}->is_leader($name) },
			"$name: end of belief");
		$sampler{$name}->stop;

		my @beliefs = $sampler{$name}->beliefs;

		is(scalar @beliefs, 1, "$name: one term");
		guarantee('G5', [ [ $beliefs[0][1], $latest{$name} ] ],
			'ended by the deadline');
		cmp_ok($beliefs[0][1], '<=', $deadline{$name}, 'as it was shown');
	}

	my @told =
	  grep { defined $_->{status} && $_->{answered} > $taken }
	  $recorder->requests(request_like('watch'), $mark);

	like($node{through}->log_since($offset{through}),
		qr/no longer leader of election "through" .*: key deleted or taken/,
		'through: the proof told, and not the deadline');
	is(scalar @told, 0, 'while the watch was silent');
	same_term($spared, $node{through}->token('spared'),
		'the other term of the node went on');
	$leader->thaw;
	$_->stop foreach values %node;
};

# Guards against trust in a renewal that a deposed leader answers, and against
# belief without a quorum.
subtest 'no quorum' => sub {
	my $leader = raft_leader();
	my $recorder =
	  LeaderElection::Recorder->new('deposed', $leader->host_port)->start;
	my $node = LeaderElection::Node->create(
		'deposed',
		consul => $recorder,
		settings => {
			lease_ttl => '10s',
			request_timeout => '2s',
			renew_interval => '200ms',
			campaign => 'deposed'
		});

	$node->wait_for_leadership('deposed');

	my $token = $node->token('deposed');
	my $offset = $node->log_offset;
	my $sampler = LeaderElection::Sampler->new($node, 'deposed',
		interval => 0.02);

	wait_for_samples($sampler, $token);
	$recorder->wait_for_request(request_like($_)) foreach ('prove', 'renew');
	$_->freeze foreach others($leader);
	poll_until(sub { !$node->is_leader('deposed') }, 'end of belief');
	$sampler->stop;

	my ($belief, @more) = $sampler->beliefs;
	my @good = map {
		max map { $_->{received} } grep { ($_->{status} // 0) == 200 }
		  $recorder->requests(request_like($_))
	} ('prove', 'renew');

	is_deeply(\@more, [], 'one term');
	cmp_ok($good[1], '>', $good[0] + 0.1e9,
		'the deposed leader answered renewals');
	guarantee('G5', [ [ $belief->[1], $good[0] + 9e9 ] ], 'which did not extend the term');
	like($node->log_since($offset),
		qr/no longer leader of election "deposed" .*: deadline passed/,
		'the log says why');
	like($node->sql_error("SELECT le_acquire('deposed')"),
		qr/ERROR:  LE003/, 'nor can it be acquired');
	$_->thaw foreach others($leader);
	$node->wait_for_leadership('deposed');
	guarantee('G2', [ $token, $node->token('deposed') ],
		'leads again, with a higher token');
};

done_testing();
