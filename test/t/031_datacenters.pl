# Tier: long, 8 s
#
# Two datacenters of a real Consul, and instances that all name the one: with an
# agent of it they elect; with one of the other, whatever its kind, no words but
# those that say which setting is wrong.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $first = LeaderElection::Consul->new('dc1', datacenter => 'dc1', wan => [])->start;
my $second = LeaderElection::Consul->new('dc2', datacenter => 'dc2', wan => [$first])->start;
my $client = LeaderElection::Consul->new('client', datacenter => 'dc2', join => [$second])->start;

# The agents of the one forward requests to the other.
poll_until(sub { $_->get('/v1/kv/x?dc=dc1')->{status} == 404 }, $_->{name} . ' of dc2')
  foreach $second, $client;

sub node
{
	my ($name, $agent, %settings) = @_;

	return LeaderElection::Node->create(
		$name,
		consul => $agent,
		settings => { consul_datacenter => 'dc1', campaign => 'billing', lease_ttl => '60s', %settings });
}

my $near = node('near', $first);

$near->wait_for_leadership('billing');
is($first->kv_tree('leader_election/')->{'leader_election/billing/leader'}{Key},
	'leader_election/billing/leader', 'with an agent of the datacenter there is a leader');

# Consul says it in two ways. A server's is also that of an agent which has just
# started, so it may pass.
my $setting = qr/"leader_election.consul_datacenter" must be empty or the agent's own/;
my $cure = 'Trying again does not help: correct the setting that';
my %far = (
	client => [ $client, 'LE005', qr/$setting \(HTTP 500: cross datacenter lock must be created at server agent\)/ ],
	server => [ $second, 'LE003', qr/HTTP 500: .*Missing node registration \(if it lasts: $setting\)/ ]);

foreach my $kind (sort keys %far)
{
	my ($agent, $state, $text) = @{ $far{$kind} };
	my $far = node($kind, $agent);

	$far->wait_for("SELECT last_error <> '' FROM le_status WHERE election = 'billing'");
	like($far->sql("SELECT last_error FROM le_status WHERE election = 'billing'"), $text, "a $kind of another: the view");
	like($far->sql_error("SELECT le_acquire('a')"), qr/$state: .*DETAIL: +$text/s, 'the error');
	like($far->sql("SELECT string_agg(message, ' / ') FROM le_check_config() WHERE level = 'error'"),
		qr/^Could not have a store session and a node key: $text/, 'the check');
	like($far->log_since, qr/could not create session: $text|refused to create session: $text/, 'the log');
	if ($kind eq 'client')
	{
		my @told = $far->log_since =~ /refused to [a-z ]+: $text/g;

		is(scalar @told, 1, 'told once');
		like($far->log_since, qr/HINT: +$cure is named/, 'with the cure');
		like($far->sql_error("SELECT le_acquire('a')"), qr/HINT: +$cure the detail names/, 'so does the error');
		unlike($far->log_since, qr/ is down: /, 'not as an outage');
	}
	denied('G5', $far->is_leader('billing'), 'it does not lead');
	$far->stop;
}
is($near->is_leader('billing'), 1, 'the leader leads on');

done_testing();
