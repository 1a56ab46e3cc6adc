# Tier: test, 16 s
#
# Recipes for a DBA on call: run as they stand in the documentation, by roles with
# the documented grants only.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Docs;
use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my ($a, $b) = map {
	LeaderElection::Node->create(
		$_,
		consul => $consul,
		settings => { campaign => 'billing' })
} 'a', 'b';

sub leading
{
	return poll_until(
		sub { (grep { $_->is_leader('billing') } $a, $b)[0] }, 'a leader');
}

$_->sql(block('grants')) foreach $a, $b;

subtest 'on call' => sub {
	my $leader = leading();
	my $other = $leader == $a ? $b : $a;
	my ($look, $move) = block('on call') =~ /^(.*?;\n)(-- move .*)/s;
	my $as = sub { "SET ROLE billing_operator; $_[0]" };
	my @rows;

	$leader->sql("SELECT le_renew('billing')");
	$other->wait_for(
		"SELECT holder IS NOT NULL FROM le_status WHERE election = 'billing'");
	foreach my $node ($leader, $other)
	{
		$node->wait_for(
			"SELECT count(*) = 2 FROM le_nodes WHERE state = 'live'");
		@rows = split /\n/, $node->sql($as->($look));
		like(
			$rows[0],
			$node == $leader
			? qr/^billing\|leader\|\Q@{[ $leader->name ]}\E\|\d+\|00:[\d:.]+\|00:00:[\d.]+\|\|$/
			: qr/^billing\|waiting\|\Q@{[ $leader->name ]}\E\|\|\|\|\|$/,
			$node->name . ': who leads, since when, for how long');
		is(scalar(grep { /^[ab]\|(?:t|f)\|live\|/ } @rows),
			2, 'nodes that could lead');
		is(scalar(grep { /^\S+ \S+\|[a-z ]+\|billing\|/ } @rows),
			1, 'and since when it is so');
		is($rows[-1], $leader->name, 'asked of the store');
	}

	# move it, as the operator
	@rows = split /\n/, $leader->sql($as->($move));
	is($rows[0], 't', 'moved');
	$other->wait_for_leadership('billing');
	is(
		$leader->sql("SELECT event FROM le_events WHERE election = 'billing' "
			  . "AND event = 'stepped down'"),
		'stepped down',
		'and told');
};

done_testing();
