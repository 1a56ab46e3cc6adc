# Tier: long, 40 s
#
# The container of blobs is deleted and made anew while two instances live.

use strict;
use warnings;

use LeaderElection::Azurite;
use LeaderElection::Emptied;
use LeaderElection::Node;
use PostgreSQL::Test::Utils;
use Test::More;

my $azurite = LeaderElection::Azurite->new('azurite')->start;
my @nodes = map {
	LeaderElection::Node->create($_, azure => $azurite,
		settings => { job_check_interval => '1s' })
} 'a', 'b';

emptied(\@nodes, sub { $azurite->empty });
$_->stop foreach @nodes;
done_testing();
