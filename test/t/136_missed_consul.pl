# Tier: long, 38 s
#
# Ticks that nobody has claimed, on two instances over a real Consul: while
# nothing was scheduled, while the store was down, and while everything was.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Outage;
use LeaderElection::Takeover;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul', persistent => 1)->start;
my @nodes = map {
	LeaderElection::Node->create(
		$_,
		consul => $consul,
		settings => { short_lease(), campaign => 'billing' },
		conf => $ENV{MISSED_OUTAGE}
		? {
			shared_preload_libraries => 'leader_election,pg_cron',
			'cron.use_background_workers' => 'on'
		  }
		: {})
} 'a', 'b';

my $outage = LeaderElection::Outage->new(nodes => \@nodes);

$outage->run_for(3);
if (!$ENV{MISSED_OUTAGE})
{
	$outage->without('no scheduler', sub { }, sub { });
	$outage->run_for(2);
	$outage->without('no store', sub { $consul->kill9; }, sub { $consul->start; });
	$outage->run_for(2);
}
$outage->without(
	'nothing at all',
	sub { $_->stop('immediate') foreach @nodes; $consul->kill9; },
	sub { $consul->start; $_->start foreach @nodes; });
$outage->run_for(3);
$outage->check;

done_testing();
