# Many elections at once: none is forgotten, and each has its own answer.

use strict;
use warnings;

use Contract;
use LeaderElection::Util;
use Test::More;

my @names = map { sprintf 'batch%02d', $_ } 1 .. 20;

sub tokens
{
	my ($node) = @_;

	return split /\n/,
	  $node->ask(q(SELECT coalesce(le_fencing_token(election), 0) FROM le_status
		WHERE election LIKE 'batch%' ORDER BY election));
}

sub leads_all
{
	my ($node) = @_;
	my @tokens;

	poll_until(
		sub {
			@tokens = tokens($node);
			return @names == grep { $_ > 0 } @tokens;
		},
		$node->name . ' to lead all');
	pass($node->name . ' leads all');
	return @tokens;
}

contract 'many elections' => sub {
	my ($store) = @_;
	my $one = $store->one;
	my (@first, @again);

	$one->configure(campaign => join(',', @names));
	@first = leads_all($one);
	$one->configure(eligible => 'off');
	poll_until(sub { !grep { $_ > 0 } tokens($one) }, 'the end of all');
	poll_until(sub { !defined $one->leader($names[-1]) }, 'the store to hear of it');
	$one->configure(eligible => 'on');
	@again = leads_all($one);
	rising("$names[$_]: tokens rise", $first[$_], $again[$_]) foreach 0 .. $#names;
	$one->configure(campaign => '');
	poll_until(sub { !grep { $_ > 0 } tokens($one) }, 'the end of all');
};

contract 'many elections change hands' => sub {
	my ($store) = @_;
	my ($one, $two) = ($store->one, $store->two);
	my (@first, @then, $held);

	$one->configure(campaign => join(',', @names));
	@first = leads_all($one);
	$two->configure(campaign => join(',', @names));
	ok($two->acquire('apart'), 'an election of its own');
	$held = $two->token('apart');
	$two->wait_for(
		q(SELECT count(*) = 20 FROM le_status WHERE election LIKE 'batch%' AND state = 'waiting'),
		'two to wait for all');
	is(scalar(grep { $_ > 0 } tokens($two)), 0, 'the other leads none');
	$one->configure(eligible => 'off');
	@then = leads_all($two);
	rising("$names[$_]: tokens rise", $first[$_], $then[$_]) foreach 0 .. $#names;
	is(scalar(grep { $_ > 0 } tokens($one)), 0, 'one leads none');
	same_term($held, $two->token('apart'), 'a lock outside the batch is as it was');
	$_->configure(campaign => '') foreach $one, $two;
	$one->configure(eligible => 'on');
	ok($two->release('apart'), 'release');
	poll_until(sub { !grep { $_ > 0 } tokens($two) }, 'the end of all');
};

1;
