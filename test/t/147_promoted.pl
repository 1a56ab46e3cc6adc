# Tier: test, 7 s
#
# The store local on a standby that is promoted.  Its file of claims is as old as its
# base backup, and the last of the write-ahead log is lost: no tick from before the
# promotion is claimed again, and fencing tokens are higher all the same.

use strict;
use warnings;

use LeaderElection::Node;
use LeaderElection::Util;
use Test::More;

my %settings = (job_check_interval => '1s');
my $primary = LeaderElection::Node->create('primary',
	allows_streaming => 1, settings => {%settings});
my $lost = qr/LE005: could not claim a tick of election "\w+": it may have run before this server was promoted or restored/;

# The nth minute of a day long ago; what went wrong.
sub run
{
	my ($node, $job, $minute, $options) = @_;

	return $node->sql_error(sprintf(
			q(CALL le_run('billing', 'INSERT INTO runs VALUES (le_tick())', job => '%s', tick => '2020-01-01 00:%02d:00+00'%s)),
			$job, $minute, $options // ''));
}

sub ticks
{
	my ($node) = @_;

	return $node->sql(q(SELECT string_agg(extract(minute FROM tick)::text, ' ' ORDER BY number) FROM runs));
}

sub lead
{
	my ($node, @elections) = @_;

	$node->sql("SELECT le_campaign('$_')") foreach @elections;
	$node->wait_for_leadership($_) foreach @elections;
	return;
}

sub wait_for_job
{
	my ($node, $job, $state) = @_;

	return $node->wait_for(
		"SELECT state = '$state' FROM le_jobs(NULL) WHERE job = '$job'", "$job: $state");
}

sub complaints
{
	my ($node) = @_;

	return $node->sql(q(SELECT level || ': ' || message FROM le_check_config() WHERE topic = 'records'));
}

$primary->sql(q(CREATE TABLE runs (tick timestamptz, number serial)));
lead($primary, 'billing');
is(run($primary, 'hourly', 1), '', 'a tick runs before the backup');
$primary->backup('base');

my $standby = LeaderElection::Node->create('standby',
	backup => [ $primary, 'base', has_streaming => 1 ],
	settings => {%settings});

is(run($primary, 'hourly', 2), '', 'a tick runs after the backup');
is(run($primary, 'nightly', 3), '', 'and one of a job that had none before');
$primary->wait_for_catchup($standby);
is(ticks($standby), '1 2 3', 'the standby has their work');
$standby->stop;
$primary->sql(q(SELECT pg_switch_wal())) foreach 1 .. 2;
$primary->sql(q(SELECT le_step_down('billing', '0')));
lead($primary, 'billing');
my $token = $primary->token('billing');
$primary->stop;
$standby->start;
is($standby->sql(q(SELECT count(*) FROM le_jobs(NULL) WHERE state = 'lost')), 0, 'nothing is amiss on a standby');
$standby->promote;
lead($standby, 'billing', 'other');

# Guards against tokens that go back with the write-ahead log.
guarantee('G2', [ $token, $standby->token('billing') ], 'tokens increase');

subtest 'ticks from before the promotion' => sub {
	like(run($standby, 'hourly', 2), qr/$lost.*^DETAIL:  Ticks up to \d.* are not claimed.*^HINT:  .*le_accept_store\(\)/ms, 'not the last one');
	like(run($standby, 'hourly', 2, ', catch_up => true'), $lost, 'nor to catch up');
	like(run($standby, 'nightly', 3), $lost, 'nor one of a job without a record');
	is(ticks($standby), '1 2 3', 'none runs again');
};

subtest 'everybody is told' => sub {
	wait_for_job($standby, 'hourly', 'lost');
	is($standby->sql(q(SELECT extract(minute FROM tick) FROM le_jobs(NULL) WHERE job = 'hourly')), 1, 'the tick is that on record');
	$standby->wait_for(q(SELECT count(*) = 1 FROM le_events WHERE event = 'job lost' AND election = 'billing' AND detail LIKE 'job hourly: ticks after 2020-01-01 00:01:00+00 may have run before this server was promoted or restored'), 'an event');
	like(complaints($standby), qr/^error: .* 1 job, as of job "hourly" of election "billing", .*promoted or restored.*le_accept_store\(\)/, 'the check');
	ok($standby->log_like(qr/LOG: .*this server is on timeline 2/), 'the log');
};

subtest 'after a restart' => sub {
	$standby->restart;
	lead($standby, 'billing', 'other');
	like(run($standby, 'nightly', 3), $lost, 'still not');
	wait_for_job($standby, 'hourly', 'lost');
};

subtest 'later ticks' => sub {
	my $later = q(date_trunc('hour', now()) + '2 h');

	is($standby->sql_error(qq(CALL le_run('billing', 'INSERT INTO runs VALUES (le_tick())', job => 'hourly', tick => $later))), '', 'run');
	wait_for_job($standby, 'hourly', 'done');
	is(complaints($standby), '', 'all is well');
};

subtest 'accepted' => sub {
	$standby->sql(q(SELECT le_accept_store('other')));
	is($standby->sql(q(SELECT le_claim('other', 'nightly', '2020-01-01'))), 't', 'for one election');
	like(run($standby, 'nightly', 3), $lost, '... alone');
	$standby->sql(q(SELECT le_accept_store()));
	is(run($standby, 'nightly', 3), '', 'for all');
	$standby->restart;
	lead($standby, 'billing');
	is(run($standby, 'nightly', 4), '', 'after a restart, too');
};

# It may be a standby whose primary used the extension only after the base backup.
subtest 'without the files' => sub {
	$standby->stop;
	unlink map { $standby->data_dir . "/leader_election.$_" } 'claims', 'tokens';
	$standby->start;
	lead($standby, 'billing');
	like(run($standby, 'nightly', 3), $lost, 'a tick that may have run is not claimed');
};

$standby->stop;
done_testing();
