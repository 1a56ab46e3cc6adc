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
		}
	});

$driver->run_for(3);
$driver->fault($_)
  foreach 'kill', 'freeze', 'step down', 'cut off', 'freeze the worker', 'silence', 'step down';
$driver->run_for(15);
$driver->catch_up;
$driver->check(each => 40, others => 20);

done_testing();
