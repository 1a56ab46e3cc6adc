# Tier: test, 28 s
#
# A primary and its standby are two nodes like any others, except that a
# standby does not lead unless it may, and contends once it is promoted.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Sampler;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my %cluster = (
	consul => $consul,
	settings => { lease_ttl => '10s', campaign => 'billing' });

# So far away is the end of the primary's lease, for which nobody is to wait.
my ($lease, $renew_interval) = (60, 3);
my $primary = LeaderElection::Node->create(
	'primary', %cluster,
	allows_streaming => 1,
	settings => {
		%{ $cluster{settings} },
		lease_ttl => "$lease s",
		renew_interval => "$renew_interval s",
		shutdown_timeout => '60 s'
	});

$primary->backup('base');

my $standby = LeaderElection::Node->create(
	'standby', %cluster,
	backup => [ $primary, 'base', has_streaming => 1 ],
	settings => { %{ $cluster{settings} }, renew_interval => '0' });

# As the view of the first shows the second.
sub state_of
{
	my ($node, $other) = @_;

	return $node->sql("SELECT string_agg(DISTINCT state, ' ') FROM le_nodes WHERE node = '"
		  . $other->name
		  . "' AND state NOT IN ('ended', 'revoked')");
}

# It runs and knows, but does not take part.
subtest 'standby' => sub {
	$primary->wait_for_leadership('billing');
	never([ $standby->is_leader('billing') ? 'a standby leads' : () ], 'a standby does not lead');
	is($standby->leader('billing'), 'primary', 'but can ask for the leader');
	like($standby->sql_error(q(SELECT le_acquire('other'))),
		qr/55000.*\n.*is a standby/, 'and may not lead a free election');
	ok($primary->acquire('other'), 'the primary may');
	ok($primary->release('other'), 'the end');
	is( $standby->sql(
			q(SELECT state FROM le_status WHERE election = 'billing')),
		'candidate',
		'it is a candidate for later');
	is( scalar(
			grep { $_->{Name} =~ /standby/ }
			  @{ $consul->get('/v1/session/list')->{json} }),
		0,
		'and needs no store session for that');
	is($standby->sql('SELECT node, state FROM le_nodes'), 'standby|standby', 'le_nodes says why, and shows no other');

	# so it cannot know that another has its name
	$standby->set('leader_election.node_name', 'primary');
	$standby->restart;
	is($standby->leader('billing'), 'primary', 'by the name of the other');
	is($standby->sql(q(SELECT count(*) FROM le_check_config() WHERE message ~ 'calls itself')), 0, 'it does not notice');
	$standby->set('leader_election.node_name', 'standby');
	$standby->restart;
};

# Nobody leads while only a standby is there.
subtest 'permission' => sub {
	my $token = $primary->token('billing');

	$primary->configure(eligible => 'off');
	poll_until(sub { !$primary->is_leader('billing') }, 'the primary to drain');
	poll_until(sub { !$consul->kv('leader_election/billing/leader')->{Session} },
		'the release');
	never([ $standby->is_leader('billing') ? 'a standby leads' : () ], 'a standby does not step in');
	$standby->configure(standby_eligible => 'on');
	$standby->wait_for_leadership('billing');
	guarantee('G2', [ $token, $standby->token('billing') ], 'unless it may');
	$primary->configure(eligible => 'on');
	ok(!$primary->acquire('billing'), 'then the primary has to wait');
	$standby->configure(standby_eligible => 'off');
	poll_until(sub { !$standby->is_leader('billing') }, 'the standby to drain');
	poll_until(sub { state_of($primary, $standby) eq 'standby' },
		'the other to see that it is no candidate');
	$primary->wait_for_leadership('billing');
	never([ $standby->is_leader('billing') ? 'a standby leads' : () ], 'back to where it was');
};

# Promotion comes without a message to the worker.
subtest 'promotion' => sub {
	my @samplers =
	  map { LeaderElection::Sampler->new($_, 'billing') } $primary, $standby;
	my $ends;

	$standby->promote;
	ok($standby->acquire('promoted', wait => '3 min'),
		'a former standby may lead');
	$standby->wait_for(
		q(SELECT state = 'waiting' FROM le_status
		WHERE election = 'billing'), 'it to contend');
	still_leads($primary, 'billing', 'the leader leads on');
	poll_until(sub { scalar $samplers[0]->beliefs }, 'the sampler');
	$ends = boottime_ns() + ($lease - $renew_interval) * 1e9;
	$primary->stop('fast');
	$standby->wait_for_leadership('billing');
	before(boottime_ns(), $ends, 'the next leader, without waiting for a lease');
	poll_until(sub { scalar $samplers[1]->beliefs }, 'the sampler');
	$_->stop foreach @samplers;
	guarantee('G1', [ LeaderElection::Sampler->overlaps(@samplers) ], 'no overlap');
};

# The usual failover: the primary is gone, the standby is promoted.
subtest 'failover of the whole instance' => sub {
	my ($token, $next);

	$standby->backup('base');
	$next = LeaderElection::Node->create(
		'next', %cluster,
		backup => [ $standby, 'base', has_streaming => 1 ]);
	ok(!$next->log_like(qr/previous incarnation/),
		'a standby has no predecessor to end');
	$token = $standby->token('billing');
	$standby->crash;
	$next->promote;
	ok(!$next->is_leader('billing'), 'not before the lease has run out');
	$next->wait_for_leadership('billing');
	guarantee('G2', [ $token, $next->token('billing') ], 'then with a higher token');
};

done_testing();
