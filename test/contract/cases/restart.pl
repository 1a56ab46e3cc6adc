# The end and the return of a worker and of an instance, and who an instance is.

use strict;
use warnings;

use Contract;
use LeaderElection::Sampler;
use LeaderElection::Session;
use LeaderElection::Util;
use Test::More;

sub incarnation
{
	my ($node) = @_;

	return $node->sql(q(SELECT substring(message FROM 'incarnation ([0-9a-f]+)')
		FROM le_check_config() WHERE topic = 'node' AND message ~ 'incarnation'));
}

contract 'restart of the worker' => sub {
	my ($store) = @_;
	my $one = $store->one;
	my $sampler = LeaderElection::Sampler->new($one, 'worker');
	my $pid = $one->worker_pid;
	my ($token, $then);

	$one->sql(q(SELECT le_campaign('worker')));
	$one->wait_for_leadership('worker');
	$token = $one->token('worker');
	$one->sql("SELECT pg_terminate_backend($pid)");
	$one->wait_for_worker($pid);
	$one->sql(q(SELECT le_campaign('worker')));
	$one->wait_for_leadership('worker');
	$then = $one->token('worker');
	ok($then, 'with a token');
	denied('G2', $then && $then < $token, 'the token does not go back');
	is($one->leader('worker'), 'one', 'it leads');
	is($one->sql(q(SELECT le_withdraw('worker'))), 't', 'withdrawn');
	is($one->leader('worker'), undef, 'nobody leads');
	$sampler->stop;
};

contract 'restarts of the instance' => sub {
	my ($store) = @_;
	my $one = $store->one;
	my $tick = '2020-01-01 00:00:00+00';
	my $was = incarnation($one);
	my @tokens;

	like($was, qr/^[0-9a-f]{32}$/, 'it is an incarnation');
	foreach my $how ('fast', 'immediate', 'crash')
	{
		my ($is, $claimed);

		ok($one->acquire('restart', wait => '3 min'), "$how: acquire");
		push @tokens, $one->token('restart');
		$claimed = $one->sql("SELECT le_claim('restart', '$how', '$tick')");
		is($claimed, 't', 'a claim');
		$how eq 'crash' ? $one->crash : $one->stop($how);
		$one->start;
		$one->wait_for_worker;
		denied('G5', $one->is_leader('restart'), 'the term is over');
		denied('G5', $one->token('restart'), 'and its token');
		$is = incarnation($one);
		isnt($is, $was, 'another incarnation');
		$was = $is;
		ok($one->acquire('restart', wait => '3 min'), 'acquire');
		push @tokens, $one->token('restart');
		rising('with a higher token', @tokens[ -2, -1 ]);
		never(
			[ grep { "$claimed$_" eq 'tt' } $one->sql("SELECT le_claim('restart', '$how', '$tick')") ],
			'the claim is known');
	}
	ok($one->release('restart'), 'release');
	@tokens = @tokens[ grep { $_ == 0 || $tokens[$_] != $tokens[ $_ - 1 ] } 0 .. $#tokens ];
	cmp_ok(scalar @tokens, '>=', 4, 'a term after each restart');
	rising('tokens rise', @tokens);
};

contract 'a restart ends what its predecessor led' => sub {
	my ($store) = @_;
	my ($one, $two) = ($store->one, $store->two);
	my $waiting = LeaderElection::Session->new($two);
	my @samplers = map { LeaderElection::Sampler->new($_, 'ended') } $one, $two;
	my $token;

	ok($one->acquire('ended'), 'one leads');
	$token = $one->token('ended');
	$waiting->start(q(SELECT le_acquire('ended', wait => '3 min')));
	$two->wait_for(q(SELECT state = 'waiting' FROM le_status WHERE election = 'ended'));
	$one->crash;
	$one->start;
	is($waiting->finish->{output}, 't', 'the other has it');
	rising('with a higher token', $token, $two->token('ended'));
	is($one->leader('ended'), 'two', 'which one knows');
	apart('no two lead at once', @samplers);
	ok($two->release('ended'), 'release');
	$waiting->quit;
};

contract 'a shutdown releases all' => sub {
	my ($store) = @_;
	my ($one, $two) = ($store->one, $store->two);
	my @elections = map { "shutdown$_" } 1 .. 3;
	my @samplers = map { LeaderElection::Sampler->new($_, 'shutdown1') } $one, $two;

	ok($one->acquire($_), "one leads $_") foreach @elections;
	$one->stop('fast');
	is($two->leader($_), undef, "$_ is free, and no lease to be waited for") foreach @elections;
	ok($two->acquire($_, wait => '3 min'), "the other has $_") foreach @elections;
	$one->start;
	apart('no two lead at once', @samplers);
	ok($two->release($_), 'release') foreach @elections;
};

contract 'two instances of one name' => sub {
	my ($store) = @_;
	my $two = $store->two;
	my $twin = $store->node('twin', settings => { node_name => 'two' });

	ok($two->acquire('x'), 'the first leads');
	ok(!$twin->acquire('x'), 'the second does not');
	ok($twin->acquire('y'), 'but another');
	ok(!$two->acquire('y'), 'alone');
	foreach my $case ([ $two, 'x', 't' ], [ $twin, 'x', 'f' ], [ $two, 'y', 'f' ], [ $twin, 'y', 't' ])
	{
		my ($node, $election, $self) = @$case;

		is( $node->sql("SELECT leader, is_self, le_is_leader('$election') FROM le_leader('$election')"),
			"two|$self|$self", "$election: it knows whether it leads");
	}
	is($twin->sql(q(SELECT le_renew('x'))), 'f', 'renew: false');
	ok(!$twin->release('x'), 'release: false');
	isnt(incarnation($twin), incarnation($two), 'incarnations tell them apart');
	ok($two->release('x'), 'release');
	ok($twin->acquire('x', wait => '3 min'), 'for the other');
	$twin->stop;
	is($two->leader($_), undef, "$_ is free") foreach 'x', 'y';
};

1;
