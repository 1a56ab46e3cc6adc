# Tier: test, 30 s
#
# Two instances, a real Cassandra and two gateways; nothing goes wrong.  Peculiarities
# of this store; common traits of all stores are in test/contract.

use strict;
use warnings;

use LeaderElection::Cassandra;
use LeaderElection::Docs;
use LeaderElection::Gateway;
use LeaderElection::Node;
use LeaderElection::Sampler;
use LeaderElection::Session;
use LeaderElection::Util;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;

my $cassandra = LeaderElection::Cassandra->shared;
my $keyspace = $cassandra->keyspace;
my @gateways = map {
	LeaderElection::Gateway->new("gateway$_",
		cassandra => $cassandra, keyspace => $keyspace)->start
} 1 .. 2;

# Nothing here waits for the end of a lease: no stall of the machine ends a term.
use constant LEASE => 60;
my %settings =
  (lease_ttl => LEASE . 's', renew_interval => '3s', shutdown_timeout => '60s');

# Each asks another gateway first.
my $one = LeaderElection::Node->create('one',
	gateway => [ @gateways[0, 1] ], settings => {%settings});
my $two = LeaderElection::Node->create('two',
	gateway => [ @gateways[1, 0] ], settings => {%settings});

sub lock_of
{
	my ($election) = @_;

	return $gateways[0]->lock($election);
}

sub wait_for_state
{
	my ($node, $election, $state) = @_;

	return $node->wait_for(
		"SELECT state = '$state' FROM le_status WHERE election = '$election'",
		$node->name . ": $election $state");
}

# The first duty, and what SQL says about it on both sides.
subtest 'one leads' => sub {
	my $lock;

	ok($one->acquire('billing'), 'the first gets it');
	ok(!$two->acquire('billing'), 'the second does not');
	$lock = lock_of('billing');
	like($lock->{owner}, qr/^one#[0-9a-f]{32}$/,
		'the owner is node and incarnation');
	is( $two->sql(
			q(SELECT le_current_leader('billing', '1 h'))),
		'one', 'an answer of limited age');
	is( $one->sql(
			q(SELECT state, scope, holder, fencing_token = le_fencing_token(
			election), expires_at - now() BETWEEN '0 s' AND '56 s', store
			FROM le_status WHERE election = 'billing')),
		'leader|node|one|t|t|cassandra',
		'le_status on the leader');
	is( $one->sql(
			q(SELECT node, is_self, state, lease FROM le_nodes)),
		'one|t|live|00:01:00',
		'le_nodes shows the instance itself');
};

# The effect of the settings, with another arithmetic than Consul's.
subtest 'le_check_config' => sub {
	my $token = $one->token('billing');

	$one->sql(q(SELECT le_campaign('billing')));
	is($one->sql(q(SELECT * FROM le_check_config() WHERE level <> 'ok')),
		'', 'nothing to complain of');
	like(
		$one->sql(q(SELECT string_agg(message, ' ') FROM le_check_config())),
		qr/lets this instance list locks.*write election "billing".*claim ticks of election "billing"/s,
		'the gateway was asked');
	is($one->sql('SELECT count(*) FROM le_claims'), 0, 'and recorded nothing');
	like(
		$one->sql(
			q(SELECT message FROM le_check_config() WHERE topic = 'belief')),
		qr/at most 58000 ms .*less the gateway's --max-clock-skew/,
		'the arithmetic of its leases');
	same_term($token, $one->token('billing'), 'nothing was changed by that');
	$one->sql(q(SELECT le_withdraw('billing')));
	ok($one->acquire('billing'), 'one leads again');
};

subtest 'value' => sub {
	my $rev;

	is($one->sql(q(SELECT le_renew('billing', '{"url": "pg://h:1/x"}'))),
		't', 'published');
	is(lock_of('billing')->{value}, '{"url": "pg://h:1/x"}', 'as it is');
	is($one->sql(q(SELECT le_renew('billing', E'one "two"\né'))),
		't', 'and one that is no JSON');
	# A renewal writes the value again, lest it should run out.
	$rev = lock_of('billing')->{rev};
	poll_until(sub { lock_of('billing')->{rev} > $rev + 1 },
		'renewals');
	is($two->sql(q(SELECT value = E'one "two"\né' FROM le_leader('billing'))),
		't', 'the value outlives renewals');
	ok($one->release('billing'), 'the end');
};

# A waiter is woken by the long poll, through another gateway.
subtest 'handoff' => sub {
	my @nodes = ($one, $two);
	my @samplers = map {
		LeaderElection::Sampler->new($_, 'handoff', interval => 0.001)
	} @nodes;
	my %session =
	  map { $_->name => LeaderElection::Session->new($_) } @nodes;
	my $n = 0;

	ok($one->acquire('handoff'), 'one leads');
	poll_until(sub { 1 == map { $_->beliefs } @samplers }, 'a sample of its term');

	my $handoff = sub {
		my ($from, $to) = @nodes;
		my $waiting = $session{ $to->name };
		my $called;

		$n++;
		$waiting->start(q(SELECT le_acquire('handoff', wait => '1 min')));
		wait_for_state($to, 'handoff', 'waiting');
		$called = boottime_ns();
		is($session{ $from->name }->query(q(SELECT le_release('handoff'))),
			't', "$n: released");
		is($waiting->finish->{output}, 't', "$n: and the waiter has it");
		poll_until(sub { $n + 1 == map { $_->beliefs } @samplers },
			'a sample of the term that began');
		@nodes = ($to, $from);
		my $began = max(map { $_->[0] } map { $_->beliefs } @samplers);

		# renewed three seconds ago at most, but for a renewal that was late
		before($began, $called + (LEASE - 10) * 1e9, 'before any lease could have run out');
		return ($began - $called) / 1e6;
	};

	my @gaps = sort { $a <=> $b } map { $handoff->() } 1 .. 6;

	diag(sprintf 'handoff through two gateways: median %.1f ms, worst %.1f ms',
		@gaps[3, -1]);
	$_->stop foreach @samplers;
	guarantee('G1', [ LeaderElection::Sampler->overlaps(@samplers) ], 'terms do not overlap');
	ok($nodes[0]->release('handoff'), 'the end');
	$_->quit foreach values %session;
};

# Somebody with curl takes part, under any name.
subtest 'a foreign holder' => sub {
	my $reply = $gateways[0]->request('PUT', '/v1/locks/foreign%2Fx',
		{ owner => 'shell script', ttl => '60s' });

	is($reply->{status}, 201, 'curl has the lock');
	ok(!$one->acquire('foreign/x'), 'the instance does not');
	is($one->leader('foreign/x'), 'shell script', 'and names the holder');
	is( $gateways[0]->request('DELETE',
			"/v1/locks/foreign%2Fx?owner=shell%20script&token=" .
			  "$reply->{json}{token}&rev=1")->{status},
		204,
		'given back');
	ok($one->acquire('foreign/x', wait => '3 min'), 'and taken');
	guarantee('G2', [ $reply->{json}{token}, $one->token('foreign/x') ],
		'with a higher token');
	ok($one->release('foreign/x'), 'the end');
};

# A lock that is gone from the store (TRUNCATE, a restore) does not take the
# token back: the node asks for one above all it has seen.
subtest 'tokens survive the loss of the store' => sub {
	my ($token, $reply);

	ok($one->acquire('rebuilt'), 'one leads');
	$token = $one->token('rebuilt');
	$one->stop('immediate');
	# another keyspace is a store without memory
	my $other = LeaderElection::Gateway->new('other',
		cassandra => $cassandra, keyspace => $cassandra->keyspace)->start;
	$reply = $other->request('PUT', '/v1/locks/rebuilt', { ttl => '60s' });
	is($reply->{json}{token}, 1, 'the new store starts from 1');
	$other->request('DELETE', "/v1/locks/rebuilt?owner=" .
		  "$reply->{json}{owner}&token=1&rev=1");
	$one->set('leader_election.gateway_url', $other->url);
	$one->start;
	ok($one->acquire('rebuilt', wait => '3 min'), 'the node leads there');
	guarantee('G2', [ $token, $one->token('rebuilt') ], 'with a token above the old');
	ok($one->release('rebuilt'), 'released');
	$one->set('leader_election.gateway_url',
		join(', ', map { $_->url } @gateways));
	$one->restart;
};

# The configuration of the documentation, as it stands there.
subtest 'recipe' => sub {
	my $conf = block('cassandra configuration');
	my $url = $gateways[0]->url;
	my $db1 = LeaderElection::Node->create('configured', start => 0);

	like($conf, qr{'http://127\.0\.0\.1:7480'}, 'the usual port');
	$conf =~ s{http://127\.0\.0\.1:7480}{$url};
	$db1->append_conf('postgresql.conf', $conf);
	$db1->start;
	$db1->sql('CREATE EXTENSION leader_election');
	$db1->wait_for_leadership('billing');
	is($db1->leader('billing'), 'db1', 'campaigns as configured');
	my ($got, $shown) = curl('curl gateway', 'http://127.0.0.1:7480', $url);
	is_deeply([ sort keys %$got ], [ sort keys %$shown ], 'and curl shows it');
	like($got->{owner}, qr/^db1#/, 'with its owner');

	# the first example of the gateway's own page
	($got, $shown) = curl('curl put', 'http://127.0.0.1:7480', $url);
	is_deeply([ sort keys %$got ], [ sort keys %$shown ], 'a lock by curl');
	is($got->{$_}, $shown->{$_}, $_) foreach 'rev', 'expires_in_ms', 'trust_ms';
	$gateways[0]->request('DELETE',
		"/v1/locks/my_lock?owner=$got->{owner}&token=$got->{token}&rev=1");
	$db1->stop;
	ok(!lock_of('billing'), 'released at its end');
};

$_->stop foreach $one, $two;
is_deeply([ grep { !/^rebuilt/ } sort keys %{ $gateways[0]->locks } ],
	[], 'no lock is left');

done_testing();
