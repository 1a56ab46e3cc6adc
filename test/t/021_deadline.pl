# Tier: test, 27 s
#
# Belief ends by the deadline, whatever keeps the worker from proving the
# term, and no other node believes before that.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Requests;
use LeaderElection::Sampler;
use LeaderElection::Toxiproxy;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

# Fates of the holder of the election of that name, while one rival seeks them all:
# side by side, since a takeover takes half a minute.
my @faults = ('worker', 'thawed', 'instance', 'refused', 'silent');
my $consul = LeaderElection::Consul->new('consul')->start;
my $toxiproxy = LeaderElection::Toxiproxy->new->start;
my %link =
  map { $_ => $toxiproxy->link($_, $consul->host_port) } ('refused', 'silent');
my (%holder, %sampler, %rival_sampler, %token, %deadline, %earliest, %latest, %offset);

foreach my $fault (@faults)
{
	$holder{$fault} = LeaderElection::Node->create(
		$fault,
		consul => $link{$fault} // $consul,
		settings => { lease_ttl => '10s', request_timeout => '2s' });
	ok($holder{$fault}->acquire($fault), "$fault: leads");
}

my $rival = LeaderElection::Node->create(
	'rival',
	consul => $consul,
	settings => { lease_ttl => '10s', campaign => join(',', @faults) });

sub remaining
{
	my ($fault) = @_;

	return (deadline_ns($holder{$fault}, $fault) - boottime_ns()) / 1e9;
}

# Notes the deadline as it is shown: a moment too late, at most, and too early.
sub note_deadline
{
	my ($fault) = @_;
	my $asked = boottime_ns();

	$deadline{$fault} = deadline_ns($holder{$fault}, $fault);
	$earliest{$fault} = $deadline{$fault} - (boottime_ns() - $asked) - 0.1e9;
	return;
}

# Answers that it does not lead, before it had to say so.
sub too_early
{
	my ($fault) = @_;

	return grep { !defined $_->[2] && $_->[1] < $earliest{$fault} } $sampler{$fault}->samples;
}

# The holder's beliefs in its term, and those that outlast the deadline as it was
# shown, which its worker may have moved since.
sub of_term
{
	my ($fault) = @_;

	return grep { $_->[2] == $token{$fault} } $sampler{$fault}->beliefs;
}

sub beyond
{
	my ($fault) = @_;
	my @beyond = grep { $_->[1] > $deadline{$fault} } of_term($fault);

	return @beyond;
}

# Guards against a node that gives up, or loses its term, before it has to.
subtest 'store away for less than the deadline' => sub {
	foreach my $fault (sort keys %link)
	{
		my $node = $holder{$fault};

		$token{$fault} = $node->token($fault);
		$offset{$fault} = $node->log_offset;
		if ($fault eq 'refused')
		{
			$link{$fault}->down;
		}
		else
		{
			$link{$fault}->add('silent', 'timeout', $_, timeout => 0)
			  foreach 'downstream';
		}
	}
	foreach my $fault (sort keys %link)
	{
		my $node = $holder{$fault};

		$node->wait_for_log_like(qr/store at .* is down/, $offset{$fault});

		# less than a leader has whose proofs, a third of a lease apart, succeed
		poll_until(sub { remaining($fault) < 5.6 }, 'a part of the lease');
		$link{$fault}->reset;
	}
	foreach my $fault (sort keys %link)
	{
		my $node = $holder{$fault};

		poll_until(sub { remaining($fault) > 6 }, "$fault: proven again");
		same_term($token{$fault}, $node->token($fault), "$fault: the same term");
		is(scalar(() = $node->log_since($offset{$fault}) =~ /is down/g),
			1, 'one line says that the store went');
		is(scalar(() = $node->log_since($offset{$fault}) =~ /answers again/g),
			1, 'one that it came back');
		ok( !$node->log_like(qr/no longer leader/, $offset{$fault}),
			'none that the term ended');
	}
};

foreach my $fault (@faults)
{
	$sampler{$fault} =
	  LeaderElection::Sampler->new($holder{$fault}, $fault, interval => 0.02);
	$rival_sampler{$fault} =
	  LeaderElection::Sampler->new($rival, $fault, interval => 0.02);
	$token{$fault} = $holder{$fault}->token($fault);
	$offset{$fault} = $holder{$fault}->log_offset;
}
poll_until(sub { $sampler{$_}->beliefs }, "$_: samples") foreach @faults;

# Guards against a flag that somebody would have to clear.
my %worker =
  map { $_ => $holder{$_}->freeze_worker } ('worker', 'thawed');

subtest 'no proof: not leader by the deadline' => sub {
	note_deadline($_) foreach ('worker', 'thawed', 'instance');
	$holder{instance}->freeze;
	$link{refused}->down;
	$link{silent}->add('silent', 'timeout', 'downstream', timeout => 0);

	# The proof of a term was sent before now, also if its worker has yet to read
	# the answer.
	%latest = map { $_ => boottime_ns() + 9e9 } @faults;
	$latest{$_} = $deadline{$_} foreach ('worker', 'thawed');
	foreach my $fault (sort keys %link)
	{
		# No answer can be under way once the loss has been noticed.
		$holder{$fault}
		  ->wait_for_log_like(qr/store at .* is down/, $offset{$fault});
		note_deadline($fault);
	}
	foreach my $fault (grep { $_ ne 'instance' } @faults)
	{
		my $node = $holder{$fault};

		poll_until(sub { !$node->is_leader($fault) }, "$fault: end of belief");
		denied('G5', $node->token($fault), "$fault: no token either");
	}

	# A worker that comes back right after the deadline, and a network.
	$holder{thawed}->thaw_worker($worker{thawed});
	$link{silent}->reset;

	foreach my $fault (grep { $_ ne 'instance' } @faults)
	{
		my ($first) = $sampler{$fault}->beliefs;

		is($first->[2], $token{$fault}, "$fault: believed in one term");
		guarantee('G5', [ [ $first->[1], $latest{$fault} ] ], 'not beyond its deadline');
		is(scalar(beyond($fault)), 0, 'as it was shown');
		is(scalar(too_early($fault)), 0, 'and not given up early');
		guarantee('G5',
			[ map { [ $_->[1], $latest{$fault} ] } of_term($fault) ],
			'never again');
	}
};

# Guards against a worker that finds its old term and goes on with it, and
# against waiting for a lease that its holder can end itself.
subtest 'back after the deadline: a new term or none' => sub {
	foreach my $fault ('thawed', 'silent')
	{
		my $node = $holder{$fault};

		$node->wait_for_log_like(
			qr/no longer leader of election "$fault" with fencing token $token{$fault}: deadline passed/,
			$offset{$fault});
		poll_until(
			sub {
				$rival->is_leader($fault) || $node->is_leader($fault);
			},
			"$fault: next term");
		my $next = $rival->token($fault) // $node->token($fault);
		guarantee('G2', [ $token{$fault}, $next ], "$fault: with a new token");
	}
};

subtest 'takeover' => sub {
	foreach my $fault (@faults)
	{
		$rival->wait_for_leadership($fault);
		guarantee('G2', [ $token{$fault}, $rival->token($fault) ],
			"$fault: the rival's token is higher");
	}
};

subtest 'the losers come back' => sub {
	my %before = map { $_ => $rival->token($_) } @faults;

	$holder{worker}->thaw_worker($worker{worker});
	$holder{instance}->thaw;
	denied('G5', $holder{instance}->is_leader('instance'), 'thawed: not leader');
	$link{refused}->reset;
	foreach my $fault (@faults)
	{
		$holder{$fault}->wait_for_log_like(
			qr/no longer leader of election "$fault" with fencing token $token{$fault}: /,
			$offset{$fault});
		same_term($before{$fault}, $rival->token($fault),
			"$fault: the rival's term goes on");
		denied('G5', $holder{$fault}->is_leader($fault), 'the other one is over');
	}
	foreach my $fault (sort keys %link)
	{
		$holder{$fault}
		  ->wait_for_log_like(qr/answers again/, $offset{$fault});
		foreach my $line ('is down', 'answers again')
		{
			is( scalar(
					() = $holder{$fault}->log_since($offset{$fault}) =~
					  /leader_election store at \S+ $line/g),
				1,
				"$fault: one line \"$line\"");
		}
	}

	# It may lead again, by a new term.
	ok($rival->sql("SELECT le_step_down('refused', '1h')"), 'handed back');
	poll_until(sub { $holder{refused}->acquire('refused') }, 'taken');
	guarantee('G2', [ $before{refused}, $holder{refused}->token('refused') ],
		'with a higher token');
};

foreach my $fault (@faults)
{
	$sampler{$fault}->stop;
	$rival_sampler{$fault}->stop;
	guarantee('G1',
		[ LeaderElection::Sampler->overlaps($sampler{$fault}, $rival_sampler{$fault}) ],
		"$fault: never two leaders");
	cmp_ok(scalar $rival_sampler{$fault}->beliefs, '>=', 1, 'one after another');
	guarantee('G5',
		[ map { [ $_->[1], $latest{$fault} ] } of_term($fault) ],
		'never beyond the deadline');
	is(scalar(beyond($fault)), 0, 'as it was shown');
}

done_testing();
