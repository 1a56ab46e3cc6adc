# Tier: long, 70 s
#
# The contract on Azurite's blobs, with signatures.

package Contract::Azure;

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use parent 'Contract';

use LeaderElection::Azurite;

use constant lease => 15;

my $azurite;

sub start
{
	$azurite = LeaderElection::Azurite->new('azurite')->start;
	return;
}

sub host_port { return $azurite->host_port; }

sub parameters
{
	my ($self, $host_port, $secret) = @_;
	my $file = $azurite->sas_file($secret eq 'poor' ? 'r' : 'rwl');

	$file = Contract::secret_file('wrong', PostgreSQL::Test::Utils::slurp_file($file) =~ s/sig=../sig=AA/r)
	  if $secret eq 'wrong';
	return (
		azure => $azurite,
		settings => {
			azure_container_url => $azurite->url($host_port),
			azure_sas_file => $file
		});
}

# A blob that this extension has not written.
sub foreign
{
	my ($self, $election) = @_;

	$azurite->request('PUT', "leader_election/$election~leader", '',
		'x-ms-blob-type' => 'BlockBlob', 'x-ms-meta-owner' => 'somebody');
	return sub { return join '|', @{ $azurite->blob($election) }{qw(etag state)}; };
}

__PACKAGE__->judge;
