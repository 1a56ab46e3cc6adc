# Tier: test, 40 s
#
# Two instances, a real Cassandra and two gateways; nothing goes wrong: who
# leads, what everybody sees of it, how it changes hands, what is left behind.

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
	ok($one->acquire('billing'), 'the first has it still');
	still_leads($one, 'billing', 'and leads');
	ok(!$two->is_leader('billing'), 'alone');
	$lock = lock_of('billing');
	is($one->token('billing'), $lock->{token}, 'the token is the epoch');
	is($two->token('billing'), undef, 'no token without a term');
	like($lock->{owner}, qr/^one#[0-9a-f]{32}$/,
		'the owner is node and incarnation');
	is($_->leader('billing'), 'one', $_->name . ' knows who leads')
	  foreach $one, $two;
	is($two->leader('nothing'), undef, 'nobody leads what nobody sought');
	is( $two->sql(
			q(SELECT leader, value::json->>'node', is_self, fencing_token
			FROM le_leader('billing'))),
		'one|one|f|' . $one->token('billing'),
		'le_leader on the other node');
	is( $two->sql(
			q(SELECT le_current_leader('billing', '1 h'))),
		'one', 'an answer of limited age');
	is($one->sql(q(SELECT is_self FROM le_leader('billing'))),
		't', 'and on the leader');
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

# Renewals move the deadline, again and again, and keep the term.
subtest 'renewal' => sub {
	my $token = $one->token('billing');
	my $expires = q(SELECT extract(epoch FROM expires_at) FROM le_status
		WHERE election = 'billing');
	my $first = $one->sql($expires);
	my $rev = lock_of('billing')->{rev};

	poll_until(sub { $one->sql($expires) > $first + 6 },
		'two renewals by themselves');
	same_term($token, $one->token('billing'), 'the term is the same');
	cmp_ok(lock_of('billing')->{rev}, '>', $rev, 'at a later revision');
	$rev = lock_of('billing')->{rev};
	is($one->sql(q(SELECT le_renew('billing'))), 't', 'proven on request');
	cmp_ok(lock_of('billing')->{rev}, '>', $rev, 'by a renewal');
	is($two->sql(q(SELECT le_renew('billing'))), 'f', 'by nobody else');
	is( $one->sql(
			q(SELECT renewals >= 3, losses, failures FROM le_stat()
			WHERE election = 'billing')),
		't|0|0',
		'le_stat counts each');
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
	my $token = $one->token('billing');
	my $rev;

	is($one->sql(q(SELECT le_renew('billing', '{"url": "pg://h:1/x"}'))),
		't', 'published');
	is(lock_of('billing')->{value}, '{"url": "pg://h:1/x"}', 'as it is');
	is($two->sql(q(SELECT value::json->>'url' FROM le_leader('billing'))),
		'pg://h:1/x', 'seen by the other node');
	is($one->sql(q(SELECT le_renew('billing', E'one "two"\né'))),
		't', 'and one that is no JSON');
	is($two->sql(q(SELECT value = E'one "two"\né' FROM le_leader('billing'))),
		't', 'the same on the other side');
	same_term($token, $one->token('billing'), 'the token stays the same');

	# A renewal writes the value again, lest it should run out.
	$rev = lock_of('billing')->{rev};
	poll_until(sub { lock_of('billing')->{rev} > $rev + 1 },
		'renewals');
	is($two->sql(q(SELECT value = E'one "two"\né' FROM le_leader('billing'))),
		't', 'the value outlives renewals');
	is($two->sql(q(SELECT le_renew('billing', 'mine'))),
		'f', 'nobody else can publish');

	ok($one->release('billing'), 'released after publishing');
	is(lock_of('billing'), undef, 'the lock is free');
	denied('G5', $one->is_leader('billing'), 'nobody leads');
	is($two->leader('billing'), undef, 'everybody knows');
	ok($two->acquire('billing', value => 'hers'), 'the next one takes it');
	guarantee('G2', [ $token, $two->token('billing') ], 'with a higher token');
	is(lock_of('billing')->{value}, 'hers', 'and publishes its own value');
	ok($two->release('billing'), 'the end');
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
		is($waiting->finish->{output}, 't', "$n: and had by who waited");
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

subtest 'campaign, step down, withdraw' => sub {
	my ($first, $second, $called);

	$_->sql(q(SELECT le_campaign('campaign'))) foreach $one, $two;
	$first = poll_until(
		sub { [ grep { $_->is_leader('campaign') } $one, $two ]->[0] },
		'a leader');
	$second = $first == $one ? $two : $one;
	wait_for_state($second, 'campaign', 'waiting');
	$called = boottime_ns();
	is( $first->sql(q(SELECT le_step_down('campaign', '1 h'))),
		't', 'stepped down');
	$second->wait_for_leadership('campaign');
	before(boottime_ns(), $called + (LEASE - 10) * 1e9, 'the other candidate leads, before any lease could have run out');
	is($second->sql(q(SELECT le_step_down(NULL, '1 h'))), 't', 'drained');
	like($first->sql_error(q(SELECT le_acquire('campaign'))),
		qr/55000.*may not lead.*\n.*stepped down/,
		'no contender for an hour after a step-down');
	$_->sql(q(SELECT le_withdraw('campaign'))) foreach $one, $two;
	is(lock_of('campaign'), undef, 'nobody leads after withdrawal');
};

# Somebody with curl takes part, under any name.
subtest 'a foreign holder' => sub {
	my $reply = $gateways[0]->request('PUT', '/v1/locks/foreign%2Fx',
		{ owner => 'shell script', ttl => '60s' });

	is($reply->{status}, 201, 'curl has the lock');
	ok(!$one->acquire('foreign/x'), 'the instance does not');
	is($one->leader('foreign/x'), 'shell script', 'and says who does');
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

# Scopes: a lease that belongs to a session, or to a transaction.
subtest 'scopes' => sub {
	my $session = LeaderElection::Session->new($one);
	my $xact;

	is($session->query(q(SELECT le_acquire('mine', scope => 'session'))),
		't', 'a session holds it');
	denied('G1', $one->is_leader('mine'), 'and nobody else on the node');
	$session->quit;
	poll_until(sub { !lock_of('mine') }, 'its release with the session');
	$xact = $one->sql(
		q(BEGIN; SELECT le_acquire('mine', scope => 'transaction'),
		le_is_leader('mine'); COMMIT; SELECT le_is_leader('mine')));
	is($xact, "t|t\nf", 'a transaction holds it until its end');
	denied('G5', $xact =~ s/.*\n//r, 'and no longer');
	poll_until(sub { !lock_of('mine') }, 'its release with the transaction');
	pass('released');
};

# No term may repeat a token, no lock may be left behind.
subtest 'many terms' => sub {
	my @tokens;

	foreach my $node (($one, $two) x 2)
	{
		push @tokens, split /\n/, $node->sql(<<'END');
CREATE TEMP TABLE tokens (token bigint);
DO $$
BEGIN
	FOR i IN 1..10 LOOP
		IF NOT le_acquire('many') THEN RAISE 'not acquired'; END IF;
		INSERT INTO tokens VALUES (le_fencing_token('many'));
		IF NOT le_release('many') THEN RAISE 'not released'; END IF;
	END LOOP;
END $$;
SELECT token FROM tokens;
END
	}
	is(scalar @tokens, 40, '40 terms');
	guarantee('G2', \@tokens, 'their tokens rise');
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

# The end of an instance: everything is let go of before it is gone.
subtest 'shutdown' => sub {
	my @elections = map { "shutdown$_" } 1 .. 5;
	my ($offset, $stopped, @samplers);

	ok($one->acquire($_), "one leads $_") foreach @elections;
	$two->sql("SELECT le_campaign('$_')") foreach @elections;
	wait_for_state($two, $_, 'waiting') foreach @elections;
	@samplers =
	  map { LeaderElection::Sampler->new($_, 'shutdown1') } $one, $two;
	poll_until(sub { scalar $samplers[0]->beliefs }, 'the sampler');
	$offset = $one->log_offset;
	$stopped = boottime_ns();
	$one->stop('fast');
	ok(!$one->log_like(qr/could not leave the store/, $offset),
		'one left the store');
	is(scalar(grep { $_->{owner} =~ /^one#/ && $_->{name} =~ /^shutdown/ }
			  values %{ $gateways[0]->locks }),
		0, 'and holds nothing');
	$two->wait_for_leadership($_) foreach @elections;
	before(boottime_ns(), $stopped + (LEASE - 10) * 1e9, 'two leads all of them, before any lease could have run out');
	poll_until(sub { scalar $samplers[1]->beliefs }, 'the sampler');
	$_->stop foreach @samplers;
	guarantee('G1', [ LeaderElection::Sampler->overlaps(@samplers) ], 'without an overlap');
	$two->stop;
	is_deeply([ grep { !/^rebuilt/ } sort keys %{ $gateways[0]->locks } ],
		[], 'no lock is left');
};

done_testing();
