# Tier: test, 28 s
#
# pg_upgrade leaves the claims of the store local behind: a tick that has run
# must not run again because of that.

use strict;
use warnings;

use File::Copy qw(copy);
use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

chomp(my $bin = `"$ENV{PG_CONFIG}" --bindir`);

plan skip_all => 'pg_upgrade is not installed' unless -x "$bin/pg_upgrade";

my $tick = '2026-01-01 00:00:00+00';
my $claim = "SELECT le_claim('billing', 'nightly', '$tick')";
my $old = LeaderElection::Node->create('old', conf => { wal_level => 'replica' });

sub upgraded
{
	my ($name) = @_;
	my $new = LeaderElection::Node->create($name, start => 0);
	my $dir = "$PostgreSQL::Test::Utils::tmp_check/$name.upgrade";

	mkdir $dir or die "$dir: $!";
	system_or_bail('sh', '-c', 'cd "$1" && shift && exec "$@"', 'sh', $dir,
		"$bin/pg_upgrade", '--no-sync',
		'-d', $old->data_dir, '-D', $new->data_dir,
		'-b', $bin, '-B', $bin,
		'-s', $new->host, '-p', $old->port, '-P', $new->port);
	return $new;
}

sub check
{
	my ($node) = @_;

	return $node->sql(q(SELECT message FROM le_check_config()
		WHERE level = 'error' AND topic = 'files'));
}

ok($old->acquire('billing'), 'the old one leads');

my $claimed = $old->sql($claim);
$old->wait_for(q(SELECT ended_at IS NOT NULL FROM le_claims), 'its session has ended');
my $token = $old->token('billing');

is($claimed, 't', 'and claims a tick');

$old->stop;
ok(!-e $old->data_dir . '/leader_election.upgraded', 'no mark without need');

# the directory is used as it was made, by somebody who has read nothing
my $new = upgraded('new');

$new->start;
ok($new->acquire('billing'), 'the new one leads');
guarantee('G2', [ $token, $new->token('billing') ], 'with a higher token');
like(
	$new->sql_error($claim),
	qr/LE005: .*\nDETAIL: +pg_upgrade left "leader_election.claims" in the old data directory/,
	'but claims nothing');
like($new->sql_error(
		"CALL le_run('billing', 'SELECT 1', job => 'nightly', tick => '$tick')"),
	qr/LE005/, 'nor runs anything');
like(check($new), qr/^Nothing can be claimed: pg_upgrade left/, 'the check');
$new->restart;
$new->acquire('billing');
like($new->sql_error($claim), qr/LE005/, 'nor after a restart');


# a copy that has just begun is no file yet
my $claims = slurp_file($old->data_dir . '/leader_election.claims');

append_to_file($new->data_dir . '/leader_election.claims', substr($claims, 0, 100));
like(
	$new->sql_error($claim),
	qr/LE005: .*\nDETAIL: +"leader_election.claims" is not whole, line 2 is not what was written: copy it from there/,
	'with half of the file neither');
is(slurp_file($new->data_dir . '/leader_election.claims'), substr($claims, 0, 100), 'which is left alone');
copy($old->data_dir . '/leader_election.claims',
	$new->data_dir . '/leader_election.claims') or die $!;
denied('G4', $claimed eq 't' && $new->sql($claim), 'with the file: the tick has run');
ok(!-e $new->data_dir . '/leader_election.upgraded', 'and the mark is gone');
is($new->sql("SELECT le_claim('billing', 'nightly', '2026-01-02')"),
	't', 'and the next can be claimed');
is(check($new), '', 'the check');
$new->restart;
$new->acquire('billing');
denied('G4', $claimed eq 't' && $new->sql($claim), 'after a restart as well');
$new->stop;

# the old one is promoted, and pg_upgrade begins with the first timeline again
append_to_file($old->data_dir . '/standby.signal', '');
$old->start;
$old->promote;
ok($old->acquire('billing'), 'the old one leads on another timeline');
guarantee('G2', [ $token, $old->token('billing') ], 'with a higher token');
$token = $old->token('billing');
$old->stop;

# an administrator who wants to do without the claims says so
my $other = upgraded('other');

copy($old->data_dir . '/leader_election.tokens',
	$other->data_dir . '/leader_election.tokens') or die $!;
$other->start;
$other->acquire('billing');
guarantee('G2', [ $token, $other->token('billing') ], 'with the file of tokens they are higher');
like($other->sql_error($claim), qr/LE005/, 'another one');
$other->stop;
rename($other->data_dir . '/leader_election.upgraded',
	$other->data_dir . '/leader_election.claims') or die $!;
$other->start;
$other->acquire('billing');
like($other->sql_error($claim), qr/LE005: .*promoted or restored/, 'refused on another timeline than the file of tokens');
$other->sql('SELECT le_accept_store()');
$token = $other->token('billing');
is($other->sql($claim), 't', 'claims when the mark is renamed');
ok($other->release('billing'), 'released');
ok($other->acquire('billing'), 'it leads again');
guarantee('G2', [ $token, $other->token('billing') ], 'no lower token is accepted');
$other->stop;

# an instance that has never led has nothing to lose
my $fresh = LeaderElection::Node->create('fresh');

$fresh->acquire('billing');
is($fresh->sql($claim), 't', 'no mark where nothing was upgraded');

done_testing();
