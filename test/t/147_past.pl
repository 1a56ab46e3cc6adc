# Tier: test, 10 s
#
# A database that lacks what a run has written, while the store says that the run is
# done: after a promotion, a point-in-time restore, a start from a bare backup.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Docs;
use LeaderElection::Lectl;
use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my %cluster = (consul => $consul, settings => { campaign => 'billing' });
my %off = (archive_mode => 'off');    # whose archive is the one of the original
my $a = LeaderElection::Node->create('a', %cluster, allows_streaming => 1, has_archiving => 1);

# The nth minute of a day long ago.
sub run
{
	my ($node, $job, $minute) = @_;

	$node->sql(sprintf(
			q(CALL le_run('billing', 'INSERT INTO runs VALUES (%s, le_tick())', job => '%s', tick => '2020-01-01 00:%02d:00+00')),
			"''$job''", $job, $minute));
	return;
}

# Jobs that the check names, with the words that are to be there.
sub named
{
	my ($node, $words) = @_;

	$node->wait_for_leadership('billing');
	$node->sql('SELECT count(*) FROM le_jobs()');
	return $node->sql(sprintf(<<'END', $words));
SELECT coalesce(string_agg(job || ' ' || verb, ', ' ORDER BY job), 'none') FROM (
	SELECT (regexp_match(message, '^Tick 2020-01-01 00:01:00\+00 of job "(.*)" of election "billing" is recorded as done at .* on node "a", but this database was restored or promoted at [^,]*%s: the work of that run in this database (is|may be) missing\..*le_forget_job\(\)'))[1:2]
	FROM le_check_config() WHERE topic = 'restore' AND level = 'warning') AS rows (m),
	LATERAL (SELECT m[1], m[2]) AS parts (job, verb)
END
}

sub has
{
	my ($node) = @_;

	return $node->sql(q(SELECT string_agg(job, ' ' ORDER BY job) FROM runs));
}

my $ends = ', with its transactions up to [^:]*:[^:]*:[^:]*';

$a->sql('CREATE TABLE runs (job text, tick timestamptz)');
$a->sql(q(CREATE PROCEDURE close_books() LANGUAGE sql AS $$INSERT INTO runs VALUES ('nightly again', le_tick())$$));
$a->wait_for_leadership('billing');
run($a, 'before', 1);
$a->backup('base');

my $standby = LeaderElection::Node->create('standby', %cluster,
	backup => [ $a, 'base', has_streaming => 1 ],
	conf => {%off});
my $long = LeaderElection::Session->new($a);

# The next runs are in the past of the standby and of the restored database ...
run($a, 'kept', 1);
$long->query(q(SELECT le_claim('billing', 'long', '2020-01-01 00:01:00+00')));
$a->sql(q(CREATE TABLE last ()));
$a->sql(q(SELECT pg_create_restore_point('target')));
$a->wait_for_catchup($standby, 'replay', $a->lsn('insert'));
$standby->append_conf('postgresql.conf', q(primary_conninfo = ''));
$standby->reload;
$standby->wait_for('SELECT count(*) = 0 FROM pg_stat_wal_receiver');

# ... and this is not.
$long->query(q(SELECT le_complete('billing', 'long', '2020-01-01 00:01:00+00')));
$long->quit;
run($a, $_, 1) foreach 'nightly', 'hourly', 'failing';
like($a->sql_error(q(CALL le_run('billing', 'SELECT 1 / 0', job => 'failing', tick => '2020-01-01 00:02:00+00'))),
	qr/division by zero/, 'a tick fails');
is(has($a), 'before failing hourly kept nightly', 'all have run');
is(named($a, ''), 'none', 'and nothing is told');
$a->restart;
is(named($a, ''), 'none', 'nor after a restart');

my $segment = $a->sql('SELECT pg_walfile_name(pg_switch_wal())');

$a->wait_for("SELECT last_archived_wal >= '$segment' FROM pg_stat_archiver", 'the archive');
$a->stop;

# Guards against ticks that are done, and whose work is gone, without a word.
subtest 'a standby that lacked the last transactions' => sub {
	$standby->promote;
	is(named($standby, $ends), 'hourly is, long may be, nightly is', 'the check names them');
	is(has($standby), 'before kept', 'they are missing');
	$standby->stop;
};

my $restored = LeaderElection::Node->create('restored', %cluster,
	backup => [ $a, 'base', has_restoring => 1, standby => 0 ],
	conf => { %off, recovery_target_name => 'target', recovery_target_action => 'promote' });

subtest 'a restore to a point in time' => sub {
	$restored->wait_for('SELECT NOT pg_is_in_recovery()');
	is(named($restored, $ends), 'hourly is, long may be, nightly is', 'the check names them');
	run($restored, 'nightly', 1);
	is(has($restored), 'before kept', 'they are missing, and no call runs them again');
	ok($restored->log_like(qr/LOG: .*this database was restored or promoted, on timeline 2\n.*DETAIL: .*The last transaction before that ended at/), 'the log says so');
	my ($code, $out) = lectl($restored, 'check', 'store');

	is($code, 1, 'lectl check store warns');
	like($out, qr/this database was restored or promoted/, '... of that');
	$restored->restart;
	is(named($restored, $ends), 'hourly is, long may be, nightly is', 'after a restart too');
	$restored->crash;
	$restored->start;
	is(named($restored, $ends), 'hourly is, long may be, nightly is', '... and a crash');
	run($restored, 'long', 2);
	is(named($restored, $ends), 'hourly is, nightly is', 'the next tick ends it');
	is($restored->sql('WITH jobs AS (' . block('done since') =~ s/;//r . ") SELECT string_agg(job, ' ' ORDER BY job) FROM jobs"), 'before failing hourly kept long nightly', 'the query of the runbook has one whose last tick has failed, too');
	$restored->sql(block('run again'));
	is(has($restored), 'before kept long nightly again', 'run again by another name');
	is(named($restored, $ends), 'hourly is', 'le_forget_job ends it');
	$restored->stop;
};

# No recovery.signal: the timeline stays as it was.
subtest 'a server that is started on a backup' => sub {
	my $bare = LeaderElection::Node->create('bare', %cluster,
		backup => [ $a, 'base' ],
		conf => {%off});

	is($bare->sql('SELECT timeline_id FROM pg_control_checkpoint()'), 1, 'on its timeline');
	is(named($bare, ''), 'before may be, hourly may be, kept may be', 'all that may be missing is named');
	is(has($bare), 'before', 'some is');
	$bare->stop;

	my $file = $bare->data_dir . '/leader_election.past';
	my $text = slurp_file($file);

	like($text, qr/^left [1-9]/m, 'the file says when');
	open(my $fh, '>', $file) or die "$file: $!";
	print $fh $text =~ s/^system \d+/system 1/mr;
	close($fh);
	$bare->start;
	is(named($bare, ''), 'none', 'a file of another system counts for nothing, as after pg_upgrade');
	unlike(slurp_file($file), qr/^left [1-9]/m, '... and is replaced');
	$bare->stop;
};

$consul->stop;
done_testing();
