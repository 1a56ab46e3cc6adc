# Tier: long, 190 s
#
# The demo of each store, as the README has it: whatever contradicts its text ends it
# with an error.

use strict;
use warnings;

use LeaderElection::Docs;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my @stores = map { /STORE=(\w+)/ ? $1 : 'local' } split /^/, block('make demo');

foreach my $store (@stores)
{
	my $dir = "$ENV{LE_SANDBOX}/$store";
	my $log = "$PostgreSQL::Test::Utils::log_path/142_demo_$store.log";

	mkdir $dir;
	local $ENV{LE_SANDBOX} = $dir;
	my $status = system("timeout -k 10 " . 3 * $LeaderElection::Util::timeout_default
		  . " $ENV{TESTDIR}/scripts/demo $store > $log 2>&1 < /dev/null");
	my $said = slurp_file($log);

	is($status, 0, "$store: ended well") or diag(substr($said, -2000));
	like($said, qr/^Done in \d+ s\.\n\z/m, "$store: to its last line");
	is(scalar(() = $said =~ /^\d\. /mg), scalar(() = demo_of($store) =~ /\bstep "\d\. /g), "$store: all steps");
	note($said =~ /(^Done in .*)/m);
}

# The text of the part of scripts/demo that is a store's.
sub demo_of
{
	my ($store) = @_;

	return slurp_file("$ENV{TESTDIR}/scripts/demo") =~ /^demo_$store\(\)\n\{(.*?)^\}/ms ? $1 : '';
}

done_testing();
