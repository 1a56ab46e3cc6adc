# Refusals, and the answer of each: no request is granted by mistake.

use strict;
use warnings;

use Contract;
use LeaderElection::Session;
use LeaderElection::Util;
use Test::More;

contract 'held by another instance' => sub {
	my ($store) = @_;
	my ($one, $two) = ($store->one, $store->two);
	my ($token, $seconds, $got);

	ok($one->acquire('held', value => 'mine'), 'one leads');
	$token = $one->token('held');
	ok(!$two->acquire('held', value => 'yours'), 'acquire: false');
	($seconds, $got) = timed(sub { $two->acquire('held', wait => '1500 ms') });
	ok(!$got, 'acquire with a wait: false');
	cmp_ok($seconds, '>=', 1.5, 'after the wait');
	is($two->sql(q(SELECT le_renew('held', 'yours'))), 'f', 'renew: false');
	ok(!$two->release('held'), 'release: false');
	ok(!$two->is_leader('held'), 'it does not lead');
	is($two->token('held'), undef, 'and has no token');
	is($two->sql(q(SELECT leader, value, is_self, fencing_token FROM le_leader('held'))),
		"one|mine|f|$token", 'nothing has changed');
	ok($one->is_leader('held'), 'one leads on');
	ok($one->release('held'), 'release');
};

contract 'held by another session' => sub {
	my ($store) = @_;
	my $one = $store->one;
	my $session = LeaderElection::Session->new($one);

	is($session->query(q(SELECT le_acquire('session', scope => 'session'))), 't', 'one leads');
	is($one->sql(q(SELECT le_acquire('session', scope => 'session'))), 'f', 'acquire: false');
	denied('G1', $one->sql(q(SELECT le_renew('session'))), 'renew: false');
	ok(!$one->release('session'), 'release: false');
	is($session->query(q(SELECT le_is_leader('session'))), 't', 'it leads on');
	is($session->query(q(SELECT le_release('session'))), 't', 'release');
	$session->quit;
};

contract 'not held' => sub {
	my ($store) = @_;
	my $one = $store->one;
	my ($rc, $out, $err) = $one->psql('postgres', q(SELECT le_release('nobody')));

	is($out, 'f', 'release: false');
	like($err, qr/WARNING:  you do not hold election "nobody"/, 'with a warning');
	is($one->sql(q(SELECT le_renew('nobody'))), 'f', 'renew: false');
	is($one->sql(q(SELECT le_renew('nobody', 'value'))), 'f', 'with a value: false');
	denied('G4', $one->sql(q(SELECT le_claim('nobody', 'job', '2020-01-01'))), 'claim: false');
	is($one->sql(q(SELECT le_complete('nobody', 'job', '2020-01-01'))), 'f', 'complete: false');
	denied('G5', $one->token('nobody'), 'no token');
	is($one->leader('nobody'), undef, 'no leader');
	is($one->sql(q(SELECT count(*) FROM le_claims WHERE election = 'nobody')), 0, 'no claim');
};

contract "somebody else's key" => sub {
	my ($store) = @_;
	my $one = $store->one;
	my $there = $store->foreign('foreign');
	my $before = $there->();

	isnt(eval { $one->acquire('foreign') } || 0, 1, 'acquire is not granted');
	ok(!$one->is_leader('foreign'), 'it does not lead');
	is($one->token('foreign'), undef, 'and has no token');
	isnt($one->leader('foreign') // '', 'one', 'nor is it shown as leader');
	is($one->sql(q(SELECT le_renew('foreign', 'mine'))), 'f', 'renew: false');
	ok(!$one->release('foreign'), 'release: false');
	is($there->(), $before, 'nothing has changed');
};

foreach my $case ([ 'a wrong secret', 'wrong' ], [ 'missing rights', 'poor' ])
{
	my ($title, $kind) = @$case;

	contract $title => sub {
		my ($store) = @_;
		# at its end it may not even list the keys that it might hold
		my $node = $store->node("with_$kind", secret => $kind,
			settings => { shutdown_timeout => '1s' });

		ok($store->two->acquire('poor'), 'another leads');
		denied('G1', ($node->psql('postgres', q(SELECT le_acquire('poor'))))[1],
			'acquire is not granted');
		ok($store->two->release('poor'), 'released');
		like($node->sql_error(q(SELECT le_acquire('poor'))),
			qr/ERROR:  LE005: .*"poor"/, 'acquire of a free election: refused');
		denied('G5', $node->is_leader('poor'), 'it does not lead');
		is($store->two->leader('poor'), undef, 'nobody leads');
		$node->stop;
	};
}

1;
