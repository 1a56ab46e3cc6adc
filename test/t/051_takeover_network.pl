# Tier: test, 49 s
#
# The leader or those who wait are cut off from Consul: the leader stops in
# time, a waiter takes over, and a waiter that comes back takes nothing from a
# leader that is well.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Takeover;
use LeaderElection::Toxiproxy;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my $toxiproxy = LeaderElection::Toxiproxy->new->start;
my (%link, %node, %recorder);

foreach my $name ('a', 'b', 'c')
{
	$recorder{$name} =
	  LeaderElection::Recorder->new($name, $consul->host_port)->start;
	$link{$name} = $toxiproxy->link($name, $recorder{$name}->host_port);
	$node{$name} = LeaderElection::Node->create(
		$name,
		consul => $link{$name},
		settings => { short_lease() });
}

my ($a, $b, $c) = @node{ 'a', 'b', 'c' };

# a leads, the others wait, all are sampled.
sub set_up
{
	my ($election, @waiters) = @_;

	ok($a->acquire($election, wait => '3 min'), "$election: a leads");
	foreach my $waiter (@waiters)
	{
		$waiter->sql("SELECT le_campaign('$election')");
		wait_for_waiter($waiter, $election, $a);
	}
	return watch_election($election, $a, @waiters);
}

sub finish
{
	my ($case, @waiters) = @_;

	never_overlap($case);
	$_->sql("SELECT le_withdraw('$case->{election}')") foreach @waiters;
	return;
}

# A session that a cut-off node left behind is ended when it is back.
sub back
{
	my ($name, $case, $session) = @_;

	$link{$name}->reset;
	poll_until(
		sub {
			!@{ $consul->get("/v1/session/info/$session")->{json} };
		},
		"the end of ${name}'s session");
	denied('G5', $node{$name}->is_leader($case->{election}),
		"$case->{election}: $name follows");
	return;
}

# Guards against belief without proof, and against waiting for Consul.
foreach my $way ('down', 'half_open')
{
	subtest "leader cut off: $way" => sub {
		my $case = set_up($way, $b);
		my $session = leader_key($consul, $way)->{Session};
		my $cut;

		if ($way eq 'down')
		{
			$link{a}->down;
		}
		else
		{
			$link{a}->add("dead_$_", 'timeout', $_, timeout => 0)
			  foreach ('upstream', 'downstream');
		}
		$cut = boottime_ns();
		taken_over($case, from => $a, to => $b, since => $cut);
		ok($case->{samplers}{a}->samples > 0, 'a can be asked');

		my ($old) = $case->{samplers}{a}->beliefs;

		guarantee('G5', [ [ $old->[1], $cut + lease_s() * 1e9 ] ], 'a stopped by its deadline');
		back('a', $case, $session);
		still_leads($b, $way, 'b leads on');
		finish($case, $b);
	};
}

# The leader's requests arrive, and it does not know: its signs of life are counted
# as long as they come, which is not longer than it believes.
subtest 'leader cut off: replies lost' => sub {
	my $case = set_up('replies', $b);
	my $session = leader_key($consul, 'replies')->{Session};
	my $cut = boottime_ns();

	$link{a}->add('dead', 'timeout', 'downstream', timeout => 0);
	taken_over($case, from => $a, to => $b, since => $cut);
	back('a', $case, $session);
	finish($case, $b);
};

# Guards against a takeover that rests on knowledge from before the outage: the leader
# has proven itself since.
subtest 'waiters cut off, leader well' => sub {
	my $case = set_up('well', $b, $c);
	my %mark = map { $_ => $recorder{$_}->mark } 'b', 'c';
	my $cut = boottime_ns();

	# Long enough for b and c to lose their own sessions' trust.
	$link{b}->down;
	$link{c}->down;
	poll_until(sub { boottime_ns() > $cut + (lease_s() + 2) * 1e9 },
		'more than a lease');
	$link{$_}->up foreach ('b', 'c');
	wait_for_waiter($_, 'well', $a) foreach ($b, $c);

	my $up = boottime_ns();

	# Until each has looked again after its return.
	foreach my $name ('b', 'c')
	{
		$recorder{$name}->wait_for_request(request_like('list_nodes'),
			$recorder{$name}->mark);
	}
	no_takeover_yet($case, $a, lease_s() / 2);
	foreach my $name ('b', 'c')
	{
		my @takeovers =
		  $recorder{$name}->requests(request_like('take_over'), $mark{$name});

		is(scalar(grep { $_->{status} == 200 } @takeovers),
			0, "$name took nothing");
		is( scalar(
				grep {
					$takeovers[$_]{received} - $takeovers[ $_ - 1 ]{received} < lease_s() * 1e9
				} 1 .. $#takeovers),
			0,
			'nor tried again and again');
	}

	# They find it dead at once, and one of them takes over.
	foreach my $name ('b', 'c')
	{
		$link{$name}->down;
	}

	my $killed = boottime_ns();

	$a->crash;
	poll_until(sub { boottime_ns() > $killed + (lease_s() + 2) * 1e9 },
		'more than a lease');
	$link{$_}->up foreach ('b', 'c');
	poll_until(sub { grep { $_->is_leader('well') } $b, $c },
		'a new leader');
	is(scalar(grep { $_->is_leader('well') } $b, $c), 1, 'one new leader');
	finish($case, $b, $c);
};

done_testing();
