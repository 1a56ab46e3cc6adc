# Tier: long, 60 s
#
# The contract on a real Cassandra, through a gateway with tokens.

package Contract::Cassandra;

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use parent 'Contract';

use LeaderElection::Cassandra;
use LeaderElection::Gateway;

use constant lease => 10;

# the gateway knows the attempt of a term only while that lasts
use constant late_acquires => 1;

my %secret = (
	good => '0123456789abcdef0123',
	wrong => 'wrongwrongwrongwrong',
	poor => '5e5f0c1d2b3a49586776');
my $gateway;

sub start
{
	my $cassandra = LeaderElection::Cassandra->shared;
	my $file = Contract::secret_file('tokens',
		"all $secret{good} *\npoor $secret{poor} rich/");

	$gateway = LeaderElection::Gateway->new(
		'gateway',
		cassandra => $cassandra,
		keyspace => $cassandra->keyspace,
		token => $secret{good},
		options => [ '--token-file', $file ])->start;
	return;
}

sub host_port { return $gateway ? $gateway->url =~ s{^http://}{}r : undef; }

sub parameters
{
	my ($self, $host_port, $secret) = @_;

	return (
		gateway => "http://$host_port",
		settings => {
			lease_ttl => lease() . 's',
			request_timeout => '2s',
			gateway_token_file => Contract::secret_file($secret, $secret{$secret})
		});
}

# A lock of somebody with curl.
sub foreign
{
	my ($self, $election) = @_;

	$gateway->request('PUT', "/v1/locks/$election", { owner => 'shell script', ttl => '60s' });
	return sub { return join '|', @{ $gateway->lock($election) }{qw(owner token rev)}; };
}

__PACKAGE__->judge;
