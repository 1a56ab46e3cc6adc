# Tier: test, 11 s
#
# pg_cron on primary and standby, as docs/jobs.md says: jobs are scheduled once,
# and run once while the old primary lives on beside the new one.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Docs;
use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $sharedir = qx($ENV{PG_CONFIG} --sharedir);
chomp $sharedir;
plan skip_all => 'pg_cron is not installed'
  unless -e "$sharedir/extension/pg_cron.control";

my $consul = LeaderElection::Consul->new('consul')->start;
my $url = $consul->url;
my $conf = block('primary and standby') =~ s{http://127\.0\.0\.1:8500}{$url}r;
my $primary = LeaderElection::Node->create('primary', allows_streaming => 1, start => 0);

$primary->append_conf('postgresql.conf', $conf);
$primary->start;
$primary->sql('CREATE EXTENSION leader_election; CREATE EXTENSION pg_cron');
$primary->sql(<<'END');
CREATE TABLE runs (tick timestamptz, token bigint);
CREATE PROCEDURE close_books() LANGUAGE sql AS
	$$INSERT INTO runs VALUES (le_tick(), le_fencing_token('billing'))$$;
END
$primary->sql(block('le_run'));
$primary->backup('backup');
my $standby = LeaderElection::Node->create('standby',
	backup => [ $primary, 'backup', has_streaming => 1 ],
	settings => { backend => 'consul' });
$primary->wait_for_catchup($standby);

# As pg_cron does it, which would take until 03:00.
my $command = $standby->sql("SELECT command FROM cron.job WHERE jobname = 'nightly'");
like($command, qr/^CALL le_run\('billing', 'CALL close_books\(\)'/, 'the job is on the standby');

$primary->wait_for_leadership('billing');
$standby->promote;
$standby->wait_for('SELECT NOT pg_is_in_recovery()');
$standby->wait_for(q(SELECT state = 'waiting' FROM le_status WHERE election = 'billing'));
ok(!$standby->is_leader('billing'), 'promoted, and a candidate');

sub ran { return map { $_->sql('SELECT count(*) FROM runs') } $primary, $standby; }

# Two primaries, each with a scheduler
my $call = $command =~ s/every => interval '1 day'/tick => '2020-01-01 03:00Z'/r =~ s/wait => interval '5 min'/wait => interval '1 s'/r;
isnt($call, $command, 'a tick of our own');
$_->sql($call) foreach $standby, $primary;
is_deeply([ ran() ], [ 1, 0 ], 'it runs on the old primary, which leads');
$primary->sql("SELECT le_step_down('billing')");
$standby->wait_for_leadership('billing');
$_->sql($call) foreach $primary, $standby;
is_deeply([ ran() ], [ 1, 0 ], 'and not again when leadership has moved');
$_->sql($call =~ s/2020/2021/r) foreach $primary, $standby;
is_deeply([ ran() ], [ 1, 1 ], 'the next tick runs on the new one');

# The same as it stands, but for the wait
$_->sql($command =~ s/wait => interval '5 min'/wait => interval '0'/r) foreach $primary, $standby;
is($standby->sql("SELECT count(*) FROM le_claims"), 1, 'one job, one record');

# Our own ticks: runs of pg_cron before the standby was promoted are on both.
my %times;
$times{$_}++
  foreach map { split /\n/, $_->sql("SELECT tick FROM runs WHERE tick < '2022-01-01'") } $primary, $standby;
guarantee('G4', [ grep { $times{$_} > 1 } sort keys %times ], 'no tick has run twice');

done_testing();
