# Tier: test, 54 s
#
# The contract on a real Consul, with tokens.

package Contract::Consul;

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use parent 'Contract';

use LeaderElection::Consul;

use constant lease => 10;

my %right = (
	elections => 'key_prefix "leader_election/" { policy = "write" }',
	nodes => 'key_prefix "leader_election.nodes/" { policy = "write" }',
	claims => 'key_prefix "leader_election.claims/" { policy = "write" }',
	session => 'session_prefix "" { policy = "write" }');
my ($consul, %secret);

sub start
{
	$consul = LeaderElection::Consul->new('consul', acl => 1)->start;
	%secret = (
		good => $consul->acl_token(join "\n", values %right),
		wrong => 'bbbbbbbb-0000-0000-0000-000000000000',
		poor => $consul->acl_token(
			join "\n",
			values(%right), 'key_prefix "leader_election/poor/" { policy = "read" }'));
	return;
}

sub host_port { return $consul->host_port; }

sub parameters
{
	my ($self, $host_port, $secret) = @_;

	return (
		consul => "http://$host_port",
		settings => {
			lease_ttl => lease() . 's',
			request_timeout => '2s',
			consul_token_file => Contract::secret_file($secret, $secret{$secret})
		});
}

# Not a lock of Consul's clients.
sub foreign
{
	my ($self, $election) = @_;
	my $key = "leader_election/$election/leader";

	$consul->put("/v1/kv/$key", 'mine');
	return sub { return join '|', @{ $consul->kv($key) }{qw(ModifyIndex Value)}; };
}

__PACKAGE__->judge;
