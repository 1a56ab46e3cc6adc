# Tier: long, 68 s
#
# Not everybody plays by these rules: Consul's own client on the same key, and
# nodes that wait as Consul wants it.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Takeover;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use POSIX ();
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my (%node, %recorder);

foreach my $name ('a', 'b', 'c')
{
	$recorder{$name} =
	  LeaderElection::Recorder->new($name, $consul->host_port)->start;
	$node{$name} = LeaderElection::Node->create(
		$name,
		consul => $recorder{$name},
		settings => { short_lease() });
}

my ($a, $b, $c) = @node{ 'a', 'b', 'c' };

sub path
{
	my ($election) = @_;

	return "leader_election/$election/leader";
}

# Returns how many seconds it was; the code, if any, is called time and again.
sub pass_time
{
	my ($seconds, $code) = @_;
	my $from = boottime_ns();

	poll_until(
		sub {
			$code->() if $code;
			return boottime_ns() > $from + $seconds * 1e9;
		},
		'time to pass',
		interval => 0.2);
	return (boottime_ns() - $from) / 1e9;
}

# Guards against a foreign lock being stolen: from a client without node key,
# and from one whose value names a node of ours that has been silent for long.
subtest 'foreign holders' => sub {
	my $foreign = $consul->session(TTL => '60s');

	ok($consul->lock(path('foreign'), $foreign, 'theirs'), 'theirs');
	ok($a->acquire('copied', wait => '3 min'), 'a leads');

	my $session = leader_key($consul, 'copied')->{Session};
	my $value = leader_key($consul, 'copied')->{Value};
	my %mark = (b => $recorder{b}->mark);

	$b->sql("SELECT le_campaign('$_')") foreach ('foreign', 'copied');
	wait_for_waiter($b, 'copied', $a);
	$a->crash;

	# An operator frees the key before b may, the other client takes it, and keeps its
	# value.
	ok($consul->unlock(path('copied'), $session, $value), 'freed');
	ok($consul->lock(path('copied'), $foreign, $value), 'and taken');
	pass_time(2 * lease_s() + 2);
	is(leader_key($consul, $_)->{Session}, $foreign, "$_: still theirs")
	  foreach ('foreign', 'copied');
	is(
		scalar(
			$recorder{b}->requests(
				qr/"Verb":"(un)?lock","Key":"leader_election\/(foreign|copied)/,
				$mark{b})),
		0,
		'b did not even try');

	# Only an instance that waits for a node lists the node keys often.
	my $mark = $recorder{b}->mark;
	my $passed = pass_time(2 * lease_s());

	cmp_ok(
		scalar($recorder{b}->requests(request_like('list_nodes'), $mark)),
		'<=', 1 + $passed / lease_s(), 'no node key is watched for it');

	# They let go in their way.
	ok($consul->unlock(path('foreign'), $foreign), 'released');
	$b->wait_for_leadership('foreign');
	$consul->destroy($foreign);
	$b->wait_for_leadership('copied');
	$b->sql("SELECT le_withdraw('$_')") foreach ('foreign', 'copied');
	$a->start;
};

# Guards against two holders when another client hammers the key: it gets the
# key or b does, and b believes only if it did.
subtest 'a foreign contender' => sub {
	foreach my $session_ends (0, 1)
	{
		my $election = "contended$session_ends";

		ok($a->acquire($election, wait => '3 min'), "$election: a leads");
		$b->sql("SELECT le_campaign('$election')");
		wait_for_waiter($b, $election, $a);

		my $case = watch_election($election, $a, $b);
		my $session = leader_key($consul, $election)->{Session};
		my $foreign = $consul->session(TTL => '60s');
		my $file = "$PostgreSQL::Test::Utils::tmp_check/$election";
		my $hammer = fork() // die "fork: $!";

		if ($hammer == 0)
		{
			open(my $out, '>', $file);
			until ($consul->lock(path($election), $foreign, 'theirs'))
			{
				select(undef, undef, undef, 0.02);
			}
			print $out boottime_ns();
			close $out;
			POSIX::_exit(0);
		}

		my $pid = $a->freeze_worker;
		my $frozen = boottime_ns();

		# Against another client only Consul's lock-delay protects a leader,
		# and that leaks: let belief end first.
		if ($session_ends)
		{
			poll_until(sub { !$a->is_leader($election) }, 'end of belief');
			$consul->destroy($session);
		}

		my $winner = poll_until(
			sub {
				my $holder = leader_key($consul, $election)->{Session} // '';

				return if $holder eq '' || $holder eq $session;
				return $holder eq $foreign ? 'foreign' : 'b';
			},
			'somebody to get it');

		diag("$election: $winner");
		if (!$session_ends)
		{
			is($winner, 'b', 'never free, so b takes it');
			taken_over($case, from => $a, to => $b, since => $frozen);
		}
		if ($winner eq 'b')
		{
			$b->wait_for_leadership($election);
			is(-s $file, 0, 'the other client goes without');
			$b->sql("SELECT le_withdraw('$election')");
		}

		# It had to wait until a, or b, was done.
		poll_until(sub { -s $file }, 'the other client');
		waitpid($hammer, 0);

		my $got = slurp_file($file);

		$a->thaw_worker($pid);
		denied('G5', $a->is_leader($election), 'a follows');
		never_overlap($case);

		my @late = grep { $_->[1] > $got && $_->[0] < $got }
		  map { $_->beliefs } values %{ $case->{samplers} };

		guarantee('G1', [ map { "$_->[0] to $_->[1], and theirs at $got" } @late ],
			'nobody believed when the other client had it');
		$b->sql("SELECT le_withdraw('$election')");
		$consul->destroy($foreign);
		$a->wait_for_log_like(
			qr/no longer leader of election "$election" with fencing token $case->{token}/);
	}
};

# Guards against a setting that does nothing, or too much: b waits for Consul,
# c does not, a does not care.
subtest 'takeover off, and mixed' => sub {
	$_->configure(consul_takeover => 'off') foreach ($a, $b);
	ok($a->acquire('mixed', wait => '3 min'), 'a leads');
	$_->sql("SELECT le_campaign('mixed')") foreach ($b, $c);
	wait_for_waiter($_, 'mixed', $a) foreach ($b, $c);

	my $case = watch_election('mixed', $a, $b, $c);
	my $killed = boottime_ns();

	$a->crash;
	taken_over($case, from => $a, to => $c, since => $killed);
	ok(!$b->is_leader('mixed'), 'b waits');

	# Now there is nobody but b.
	my $token = $c->token('mixed');
	my $mark = $recorder{b}->mark;

	$killed = boottime_ns();
	wait_for_waiter($b, 'mixed', $c);
	$c->crash;

	# that Consul does not end its session is no sign of life
	my $session = leader_key($consul, 'mixed')->{Session};

	pass_time(2 * lease_s(), sub { $consul->put("/v1/session/renew/$session") });
	is(leader_key($consul, 'mixed')->{ModifyIndex},
		$token, 'two leases later the key is as it was');
	is(scalar($recorder{b}->requests(request_like('acquire', 'mixed'), $mark)),
		0, 'and nobody tried to get it');
	$case->{token} = $token;
	$b->configure(consul_takeover => 'on');
	taken_over($case, from => $c, to => $b, since => $killed);
	never_overlap($case);
};

done_testing();
