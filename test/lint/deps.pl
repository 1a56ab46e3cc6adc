# scripts/deps, of a user who is not root, where apt knows nothing yet: it says the one
# line to run.

use strict;
use warnings;

use File::Copy qw(copy);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{TESTDIR};
my $empty = tempdir(CLEANUP => 1);
my @user = $> == 0 ? qw(setpriv --reuid=65534 --clear-groups) : ();

# a copy, in case the checkout is not for everybody to read
chmod 0755, $empty;
make_path(map { "$empty/$_" } qw(lists scripts packages/test));
copy("$top/$_", "$empty/$_") or die "$_: $!" foreach qw(scripts/deps packages/test/releases);
append_to_file("$empty/status", '');
append_to_file("$empty/apt.conf", <<"END");
Dir::State::lists "$empty/lists";
Dir::State::status "$empty/status";
Dir::Cache "$empty";
END

my ($release) = slurp_file('/etc/os-release') =~ /^VERSION_CODENAME=(\w+)/m;
my %version = slurp_file("$top/packages/test/releases") =~ /^(\w+) +(\d+)$/mg;
my $version = $version{$release // ''} // 15;

local $ENV{APT_CONFIG} = "$empty/apt.conf";
local $ENV{PG_CONFIG} = "$empty/pg_config";
my ($stdout, $stderr) = run_command([ @user, 'bash', "$empty/scripts/deps", 'build' ]);

is($stdout, '', 'nothing is done');
like(
	$stderr,
	qr/^apt-get update && apt-get install -y (?:\S+ )*postgresql-server-dev-$version$/m,
	'the line to run');

done_testing();
