# Tier: long, 193 s
#
# le_run() on three instances that are killed, frozen, cut off and stepped
# down while jobs run: no tick runs twice, and none is lost where that was
# asked for.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Driver;
use LeaderElection::Node;
use LeaderElection::Takeover;
use LeaderElection::Toxiproxy;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'dblink is not installed'
  unless LeaderElection::Driver->available;

my $consul = LeaderElection::Consul->new('consul')->start;
my $toxiproxy = LeaderElection::Toxiproxy->new->start;
my %link = map { $_ => $toxiproxy->link($_, $consul->host_port) } 'a', 'b', 'c';
my %node = map {
	$_ => LeaderElection::Node->create(
		$_,
		consul => $link{$_},
		settings => { short_lease(), campaign => 'billing' })
} sort keys %link;

sub leader
{
	my $key = $consul->kv('leader_election/billing/leader');

	return $key && $key->{Session} && $key->{Value} =~ /"node":"(\w)"/ ? $1 : undef;
}

my $longer_than_a_lease = LeaderElection::Takeover::LEASE + 1;

my $driver = LeaderElection::Driver->new(
	nodes => \%node,
	leader => \&leader,
	faults => {
		'cut off' => sub {
			my ($self, $name) = @_;

			$link{$name}->down;
			$self->run_until_taken_over($name);
			$link{$name}->up;
		},
		'silence' => sub {
			my ($self, $name) = @_;

			$link{$name}->add('silent', 'timeout', 'downstream', timeout => 0);
			$self->run_until_taken_over($name);
			$link{$name}->remove('silent');
		},
		'freeze the store' => sub {
			my ($self) = @_;

			# long enough for nobody to believe any more
			$consul->freeze;
			$self->run_for($longer_than_a_lease);
			$consul->thaw;
		}
	});

$driver->run_faults(
	'3min',
	'kill', 'freeze', 'step down', 'cut off', 'freeze the worker', 'silence',
	'freeze the store', 'restart the worker');
$driver->catch_up;
$driver->check;

done_testing();
