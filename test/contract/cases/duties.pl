# Each operation while nothing goes wrong.

use strict;
use warnings;

use Contract;
use LeaderElection::Session;
use LeaderElection::Util;
use Test::More;


contract 'a term from acquire to release' => sub {
	my ($store) = @_;
	my $one = $store->one;
	my $token;

	is($one->leader('term'), undef, 'nobody leads at first');
	ok($one->acquire('term', value => 'first'), 'acquire: true');
	ok($one->is_leader('term'), 'it leads');
	$token = $one->token('term');
	like($token, qr/^[1-9]\d*$/, 'with a token');
	ok($one->acquire('term', value => 'second'), 'acquire again: true');
	same_term($token, $one->token('term'), 'in the same term');
	is($one->sql(q(SELECT le_renew('term'))), 't', 'renew: true');
	same_term($token, $one->token('term'), 'in the same term');
	is($one->sql(q(SELECT leader, value, is_self, fencing_token FROM le_leader('term'))),
		"one|first|t|$token", 'leader: itself');
	is($one->leader('term'), 'one', 'current leader: itself');
	ok($one->release('term'), 'release: true');
	denied('G5', $one->is_leader('term'), 'it does not lead');
	denied('G5', $one->token('term'), 'no token');
	is($one->leader('term'), undef, 'current leader: nobody');
	ok($one->acquire('term'), 'acquire anew: true');
	rising('with a higher token', $token, $one->token('term'));
	ok($one->release('term'), 'release: true');
};

contract 'a value' => sub {
	my ($store) = @_;
	my $one = $store->one;
	my $reader = $store->two // $one;
	my $token;

	ok($one->acquire('value'), 'acquire');
	$token = $one->token('value');
	is($reader->sql(q(SELECT value::json->>'node' FROM le_leader('value'))),
		'one', 'by default it names the node');
	foreach my $value ('{"url": "pg://h:1/x"}', "one \"two\"\n", '', "\x{c3}\x{a9}" x 100)
	{
		is($one->sql("SELECT le_renew('value', '$value')"), 't', 'renew with a value: true');
		is( $reader->sql(
				"SELECT value = '$value', fencing_token FROM le_leader('value')"),
			"t|$token",
			'seen as it is, in the same term');
	}
	ok($one->release('value'), 'release');
	is($reader->sql(q(SELECT leader IS NULL AND fencing_token IS NULL FROM le_leader('value'))),
		't', 'without a leader there is no token');
};

contract 'renewal by itself' => sub {
	my ($store) = @_;
	my $one = $store->one;
	my ($token, $expires);

	ok($one->acquire('renewed'), 'acquire');
	$token = $one->token('renewed');
	$expires = $one->sql(q(SELECT expires_at FROM le_status WHERE election = 'renewed'));
	$one->wait_for(
		"SELECT expires_at > '$expires' FROM le_status WHERE election = 'renewed'",
		'the deadline to move');
	pass('the deadline moves');
	same_term($token, $one->token('renewed'), 'in the same term');
	ok($one->release('renewed'), 'release');
};

contract 'leases of sessions and transactions' => sub {
	my ($store) = @_;
	my $one = $store->one;
	my $session = LeaderElection::Session->new($one);
	my $token;

	is($session->query(q(SELECT le_acquire('scope', scope => 'session'))),
		't', 'a session holds it');
	$token = $session->query(q(SELECT le_fencing_token('scope')));
	denied('G1', $one->is_leader('scope'), 'and no other');
	is($one->sql(q(SELECT le_acquire('scope', scope => 'session'))), 'f', 'which cannot have it');
	$session->quit;
	poll_until(sub { !defined $one->leader('scope') }, 'its release');
	is( $one->sql(
			q(BEGIN; SELECT le_acquire('scope', scope => 'transaction', wait => '3 min'),
			le_is_leader('scope'); COMMIT; SELECT le_is_leader('scope'))),
		"t|t\nf",
		'a transaction holds it until its end');
	poll_until(sub { !defined $one->leader('scope') }, 'its release');
	ok($one->acquire('scope', wait => '3 min'), 'the instance has it');
	rising('with a higher token', $token, $one->token('scope'));
	ok($one->release('scope'), 'release');
};

contract 'names' => sub {
	my ($store) = @_;
	my $one = $store->one;
	my $reader = $store->two // $one;
	my @names = ('a', 'a/b', 'a.', 'a./b', 'A/b.c/d', 'x' x 100);

	ok($one->acquire($_), "$_ acquired") foreach @names;
	is($reader->leader($_), 'one', "$_ found") foreach @names;
	ok($one->release($_), "$_ released") foreach @names;
};

contract 'a waiter follows a release' => sub {
	my ($store) = @_;
	my @nodes = ($store->one, $store->two);
	my @samplers = map { LeaderElection::Sampler->new($_, 'handoff') } @nodes;
	my $handoffs = 4;
	my (@tokens, $began);

	ok($nodes[0]->acquire('handoff'), 'one leads');
	push @tokens, $nodes[0]->token('handoff');
	$began = boottime_ns();
	foreach my $n (1 .. $handoffs)
	{
		my ($from, $to) = @nodes;
		my $waiting = LeaderElection::Session->new($to);

		$waiting->start(q(SELECT le_acquire('handoff', wait => '3 min')));
		$to->wait_for(q(SELECT state = 'waiting' FROM le_status WHERE election = 'handoff'));
		ok($from->release('handoff'), "$n: release");
		is($waiting->finish->{output}, 't', 'the waiter has it');
		push @tokens, $to->token('handoff');
		$waiting->quit;
		@nodes = ($to, $from);
	}
	before(boottime_ns(), $began + $handoffs * $store->lease * 1e9,
		'no handoff waited for a lease');
	rising('tokens rise', @tokens);
	apart('no two lead at once', @samplers);
	ok($nodes[0]->release('handoff'), 'release');
};

contract 'a candidate steps down' => sub {
	my ($store) = @_;
	my ($one, $two) = ($store->one, $store->two);

	$one->sql(q(SELECT le_campaign('down')));
	$one->wait_for_leadership('down');
	$two->sql(q(SELECT le_campaign('down')));
	$two->wait_for(q(SELECT state = 'waiting' FROM le_status WHERE election = 'down'));
	is($one->sql(q(SELECT le_step_down('down', '1 h'))), 't', 'stepped down');
	$two->wait_for_leadership('down');
	is($one->leader('down'), 'two', 'the other candidate leads');
	like($one->sql_error(q(SELECT le_acquire('down'))), qr/55000.*stepped down/s,
		'one does not contend');
	is($_->sql(q(SELECT le_withdraw('down'))), 't', 'withdrawn') foreach $two, $one;
	is($one->leader('down'), undef, 'nobody leads');
};

contract 'many terms' => sub {
	my ($store) = @_;
	my @tokens;

	foreach my $node ($store->one, $store->two // $store->one)
	{
		push @tokens, split /\n/, $node->sql(<<'SQL');
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
SQL
	}
	is(scalar @tokens, 20, 'twenty terms');
	rising('tokens rise', @tokens);
};

1;
