# The gateway's unit, by systemd's own tools: no key that it does not know, and as
# little as now that the service could do beyond its work.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

my $unit = slurp_file("$ENV{TESTDIR}/gateway/le-gateway.service");
my $dir = PostgreSQL::Test::Utils::tempdir();
my $file = "$dir/leader-election-gateway.service";

# They refuse a unit whose program is not installed, and say what they found to
# both outputs.
sub analyze
{
	my ($text, @arguments) = @_;

	unlink $file;
	append_to_file($file, $text =~ s{^ExecStart=\S+}{ExecStart=/bin/true}mr);
	my $said = `systemd-analyze @arguments $file 2>&1`;

	return ($?, $said);
}

plan skip_all => 'systemd is not installed' if system('systemd-analyze --version > /dev/null 2>&1') != 0;

my ($status, $said) = analyze($unit, 'verify', '--man=no');

is("$status$said", '0', 'nothing is wrong with it');
($status, $said) = analyze($unit =~ s/^WatchdogSec/WatchDogSec/mr, 'verify', '--man=no');
like($said, qr/WatchDogSec/, 'a wrong key would be found');
($status, $said) = analyze($unit, 'security', '--offline=true', '--threshold=15');
like($said, qr/exposure level for leader-election-gateway\.service: 1\.\d OK/, 'its exposure');

# Both of these are nothing that systemd could find wrong.
my ($watchdog) = $unit =~ /^WatchdogSec=(\d+)$/m;
my ($stop) = $unit =~ /^TimeoutStopSec=(\d+)$/m;

cmp_ok($watchdog, '>', $stop, 'an end of its own comes before that by the watchdog');
like($unit, qr/^Type=notify\n(?:.*\n)*RestrictAddressFamilies=.*\bAF_UNIX$/m, 'it can tell systemd');

done_testing();
