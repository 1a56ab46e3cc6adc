# Tier: long, 64 s
#
# Acts of Consul itself during a takeover: it ends the holder's session first, it
# loses its own leader, its own client wants the key, too.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Takeover;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

# Consul's servers may take several rounds to agree on a leader, a second or
# two each.  A waiter whose own session ends meanwhile does not take over, but
# begins anew.
use constant LEASE => 12;

my @servers = LeaderElection::Consul->cluster(3,
	config => 'performance { raft_multiplier = 1 }');

sub raft_leader
{
	return LeaderElection::Consul->leader(@servers);
}

sub others
{
	my ($server) = @_;

	return grep { $_ != $server } @servers;
}

my ($follower) = others(raft_leader());
my $recorder =
  LeaderElection::Recorder->new('b', $follower->host_port)->start;
my $a = LeaderElection::Node->create(
	'a',
	consul => $follower,
	settings => { short_lease(lease_ttl => LEASE . 's') });
my $b = LeaderElection::Node->create(
	'b',
	consul => $recorder,
	settings => { short_lease(lease_ttl => LEASE . 's') });

sub set_up
{
	my ($election) = @_;

	ok($a->acquire($election, wait => '3 min'), "$election: a leads");
	$b->sql("SELECT le_campaign('$election')");
	wait_for_waiter($b, $election, $a);
	return watch_election($election, $a, $b);
}

# Consul may be about to settle still: then b is told so, and goes on telling
# Consul.
sub finish
{
	my ($case) = @_;
	my $election = $case->{election};

	never_overlap($case);
	like(
		$b->sql_error("SELECT le_withdraw('$election')"),
		qr/^$|could not release.*worker goes on telling the store/s,
		"$election: b withdraws");
	poll_until(sub { key_is_released($follower, $election) },
		"$election: the key to be released");
	return;
}

# Guards against a wait that is skipped: the session was ended, or both keys
# were freed, by somebody; the holder may still believe, and the key does not
# say released.  In the second case no lock-delay helps.
foreach my $how ('destroyed', 'freed')
{
	subtest "holder invalidated: $how" => sub {
		my $case = set_up($how);
		my $key = leader_key($follower, $how);
		my $session = $key->{Session};
		my $mark = $recorder->mark;
		my $pid = $a->freeze_worker;
		my $node = "leader_election.nodes/$session";
		my $ended = boottime_ns();

		if ($how eq 'destroyed')
		{
			$follower->destroy($session);
		}
		else
		{
			ok( $follower->unlock(
					$node, $session, $follower->kv($node)->{Value}),
				'node key');
			ok( $follower->unlock(
					"leader_election/$how/leader", $session, $key->{Value}),
				'key');
		}

		taken_over($case, to => $b, since => $ended, takeover => 0);

		my ($belief) = $case->{samplers}{b}->beliefs;

		cmp_ok(($belief->[0] - $ended) / 1e9,
			'>', LEASE - 0.5, 'after a whole lease');

		my ($taken) =
		  grep { ($_->{status} // 0) == 200 }
		  $recorder->requests(request_like('acquire', $how), $mark);

		like($taken->{text}, qr/"cas","Key":"\Q$node\E/,
			'in the transaction that marks the node key');
		ok(node_keys($follower)->{$session}{json}{revoked}, 'marked');
		$a->thaw_worker($pid);
		$a->wait_for_log_like(
			qr/no longer leader of election "$how" with fencing token $case->{token}/
		);
		finish($case);
	};
}

# Guards against trust in a Consul that changes its leader just then: the
# silence was seen, and nobody knows what becomes of the takeover.
subtest "Consul's leader killed during it" => sub {
	foreach my $round ('before', 'during')
	{
		my $leader = raft_leader();

		# Neither node goes by the server that dies.
		if ($leader == $follower)
		{
			($follower) = others($leader);
			$recorder->{upstream} = $follower->host_port;
			$recorder->terminate;
			$recorder->start;
			$a->configure(consul_url => $follower->url);
		}

		my $case = set_up($round);
		my $mark = $recorder->mark;

		# The takeover is under way when the leader dies, or on its way there.
		$recorder->rule(
			match => request_like('take_over', $round),
			action => 'delay_request',
			delay => 0.3,
			count => 1) if $round eq 'before';
		$a->freeze;

		my $frozen = boottime_ns();

		poll_until(
			sub {
				$recorder->requests(request_like('take_over', $round), $mark);
			},
			'the takeover',
			interval => 0.001);
		$leader->kill9;
		taken_over($case, from => $a, to => $b, since => $frozen);

		my @applied =
		  grep { ($_->{status} // 0) == 200 }
		  $recorder->requests(request_like('take_over', $round), $mark);

		cmp_ok(scalar @applied, '<=', 1, 'applied once');

		my $key = poll_until(sub { leader_key($follower, $round) },
			'Consul to answer');

		is($b->token($round), $key->{ModifyIndex},
			'the token is the index in the store');
		$a->thaw;
		denied('G5', $a->is_leader($round), 'a follows');
		finish($case);
		$leader->start;
		$leader->wait_until_ready;
	}
};

done_testing();
