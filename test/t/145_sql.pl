# Tier: test, 3 s
#
# SQL functions among hostile or careless neighbours: an extension that is
# dropped while its functions run, overloads beside its own, and calls that
# would do nothing, which have to say so.

use strict;
use warnings;

use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use Test::More;

my $sharedir = qx($ENV{PG_CONFIG} --sharedir) =~ s/\n//r;
my $cron = -e "$sharedir/extension/pg_cron.control";
my $node = LeaderElection::Node->create(
	'local',
	settings => { lease_ttl => '60s', campaign => 'billing' },
	conf => {
		$cron
		? (
			shared_preload_libraries => 'leader_election,pg_cron',
			'cron.use_background_workers' => 'on',
			'cron.timezone' => 'Asia/Kolkata')
		: (),
		max_logical_replication_workers => 0
	});

$node->wait_for_leadership('billing');

# ---- overloads, of somebody who may create functions beside ours ----

subtest 'a call as text has one meaning' => sub {
	my $call = $node->sql(q(SELECT le_run_call('billing', 'INSERT INTO work VALUES (''ours'')', 'j', interval '1 day', interval '1 min', missed => 'last')));

	$node->sql(<<'END');
CREATE TABLE work (what text);
CREATE PROCEDURE le_run(election text, command text, job text, every text,
	wait text, missed text DEFAULT '')
LANGUAGE sql AS $$INSERT INTO work VALUES ('theirs')$$;
END
	is($node->sql_error($call), '', 'the CALL');
	is($node->sql('SELECT what FROM work'), 'ours', 'calls le_run()');
	is($node->sql(q(SELECT election, job FROM le_run_command(le_run_call('billing', 'SELECT 1', 'j')))), 'billing|j', 'and can be read again');
	$node->sql('DROP PROCEDURE le_run(text, text, text, text, text, text); DELETE FROM work');
	$node->sql(<<'END');
CREATE PROCEDURE le_run(election text, command text, job text, every interval,
	wait interval, missed text)
LANGUAGE sql AS $$INSERT INTO work VALUES ('theirs')$$;
END
	$node->sql_error($call);
	is($node->sql(q(SELECT count(*) FROM work WHERE what = 'theirs')), 0, 'one of the very types is not called either');
	$node->sql('DROP PROCEDURE le_run(text, text, text, interval, interval, text)');
};

# As pgspot does, but in the text of EXECUTE, too (test/pgspot).
subtest 'functions look up nothing on a path' => sub {
	is($node->sql(<<'END'), '', 'the path of each is that of the system');
SELECT proname FROM pg_proc p JOIN pg_language l ON l.oid = prolang
JOIN pg_depend ON objid = p.oid AND deptype = 'e'
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'leader_election')
WHERE lanname <> 'c' AND (proconfig IS DISTINCT FROM
		'{"search_path=pg_catalog, pg_temp"}' OR prosrc ~ 'search_path')
	OR prosecdef
END
	is($node->sql(<<'END'), '', 'each call of our own names its schema');
SELECT DISTINCT proname, call[1] FROM pg_proc
JOIN pg_depend ON objid = pg_proc.oid AND deptype = 'e'
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'leader_election'),
	regexp_matches(prosrc, '((?<!%s\.)\mle_\w+\()', 'g') call
WHERE call[1] <> 'le_run('
END
};

# ---- commands that would do nothing ----

subtest 'an election that nobody seeks' => sub {
	my $session = LeaderElection::Session->new($node);
	my $idle = qr/WARNING: .*this instance does not seek election "biling"/;

	# The query in a hint, which shows whether anybody leads.
	my $look = sub {
		my ($said, $who) = @_;
		my ($query) = $said =~ /HINT: .* run (SELECT \S+\('biling'\)) as/;

		ok(defined $query && $node->sql("SELECT ($query) IS NULL") eq 't', "$who says how to see that nobody leads");
		return;
	};

	is($node->sql("SELECT le_seeks('billing'), le_seeks('biling'), le_seeks(repeat('x', 300))"), 't|f|f', 'it is known');
	like($session->error("CALL le_run('biling', 'SELECT 1')"), $idle, 'le_run() warns');
	like($session->error("CALL le_run('biling', 'SELECT 1', job => 'j', every => '1 min')"), $idle, 'for a tick, too');
	like($session->error("CALL le_run('biling', 'SELECT 1', job => 'j', every => '1 min', wait => '10 ms')"), $idle, 'and where it waits');
	is($session->error("CALL le_run('billing', 'SELECT 1')"), '', 'where it is sought it does not');

	# The hint has a query for whether another instance leads, and who may ask it.
	$node->sql('CREATE ROLE runner LOGIN; GRANT EXECUTE ON PROCEDURE le_run TO runner');
	my $runner = LeaderElection::Session->new($node, user => 'runner', options => '-c search_path=pg_catalog');
	my ($query) = $runner->error("CALL public.le_run('biling', 'SELECT 1')") =~
	  /^HINT: .* To see the leader, run (SELECT .*) as a role that may call it\.$/m;
	is($query, "SELECT public.le_current_leader('biling')", 'a role without rights reads how to ask');
	like($runner->error($query), qr/42501: permission denied for function le_current_leader/, 'and that it may not');
	$node->sql('GRANT EXECUTE ON FUNCTION le_current_leader TO runner');
	is($runner->error($query), '', 'with that right it asks');
	is($runner->query($query), '', 'that nobody leads');
	is($runner->query($query =~ s/biling/billing/r), $node->sql('SHOW leader_election.node_name'), 'or names the leader');
	return if !$cron;

	$node->sql('CREATE EXTENSION pg_cron');
	my $said = $session->error("SELECT le_cron_schedule('new', '0 3 * * *', 'SELECT 1', 'biling')");
	like($said, $idle, 'le_cron_schedule() warns');
	$look->($said, 'it');
	$node->sql("SELECT cron.schedule('old', '0 3 * * *', 'SELECT 1')");
	$said = $session->error("SELECT le_cron_adopt('biling', 'old')");
	like($said, $idle, 'le_cron_adopt() warns in a dry run');
	$look->($said, 'it');
	$said = $session->error("SELECT le_cron_adopt('biling', 'old', dry_run => false)");
	like($said, qr/55000: this instance does not seek election "biling"/, 'and refuses otherwise');
	$look->($said, 'it');
	is($node->sql("SELECT command FROM cron.job WHERE jobname = 'old'"), 'SELECT 1', 'so that the job goes on');
	is($node->sql("SELECT count(*) FROM le_cron_adopt('biling', 'old', dry_run => false, force => true)"), 1, 'unless one insists');
	is($session->error("SELECT le_cron_adopt('billing', 'new')"), '', 'where it is sought it does neither');
	$node->sql('SELECT cron.unschedule(jobid) FROM cron.job');
};

# ---- what pg_cron makes of its settings ----

# Before 1.5 a background worker keeps the next job waiting, and a time zone in
# the files means nothing.
subtest 'pg_cron of this version' => sub {
	plan skip_all => 'pg_cron is not installed' unless $cron;
	my $old = $node->sql(q(SELECT extversion FROM pg_extension WHERE extname = 'pg_cron')) =~ /^1\.[0-4]\b/;
	my $warned = q(SELECT message FROM le_check_config() WHERE topic = 'pg_cron' AND level = 'warning');
	my $keeps = qr/^"cron.use_background_workers" is on, .* starts no job while another runs\./;

	like($node->sql($warned), $old ? $keeps : qr/^$/, 'a job that keeps others waiting');
	is($node->sql('SELECT le_cron_timezone()'), $old ? 'GMT' : 'Asia/Kolkata', 'the time zone of schedules');
};

# ---- intervals by which runs would be lost ----

subtest 'two runs in a tick' => sub {
	plan skip_all => 'pg_cron is not installed' unless $cron;
	my $session = LeaderElection::Session->new($node);

	foreach my $case (
		[ '*/5 * * * *', '5 min', undef ],
		[ '*/5 * * * *', '6 min', '00:05:00' ],
		[ '0 3 * * *', '1 day', undef ],
		[ '0 3 * * *', '36 h', '1 day' ],
		[ '0 0,23 * * *', '12 h', undef ],
		[ '@reboot', '1 day', undef ])
	{
		my ($schedule, $every, $longest) = @$case;
		my $said = $session->error("SELECT le_cron_schedule('ours', '$schedule', 'SELECT 1', 'billing', every => '$every')");

		like( $said,
			$longest ? qr/WARNING: .*argument "every" is too long for schedule "\Q$schedule\E".*longest .* is $longest\./s : qr/^$/,
			"$schedule by $every");
	}
	$node->sql('SELECT cron.unschedule(jobid) FROM cron.job');
};

# ---- commands that cannot run in a transaction ----

# PostgreSQL itself says which those are. A block runs statements as le_run() does.
subtest 'refused before a claim' => sub {
	my $version = $node->sql('SHOW server_version_num');
	my @refused = (
		'VACUUM', 'VACUUM (ANALYZE) t', 'CLUSTER', 'DISCARD ALL', q(ALTER SYSTEM SET work_mem = '8MB'),
		'CREATE INDEX CONCURRENTLY ON t (i)', 'DROP INDEX CONCURRENTLY ti',
		'REINDEX TABLE CONCURRENTLY t', 'REINDEX INDEX CONCURRENTLY ti', 'REINDEX (CONCURRENTLY) TABLE t',
		'REINDEX (VERBOSE, CONCURRENTLY true) INDEX ti', 'REINDEX SCHEMA s', 'REINDEX DATABASE postgres',
		'REINDEX SYSTEM postgres', 'REINDEX TABLE parts', 'REINDEX INDEX partsi', 'CLUSTER parts USING partsi',
		'ALTER TABLE parts DETACH PARTITION part CONCURRENTLY',
		'CREATE DATABASE d', 'DROP DATABASE d', 'ALTER DATABASE postgres SET TABLESPACE pg_default',
		q(CREATE TABLESPACE s LOCATION '/nowhere'), 'DROP TABLESPACE s',
		q(CREATE SUBSCRIPTION new CONNECTION 'dbname=none' PUBLICATION p),
		'ALTER SUBSCRIPTION enabled REFRESH PUBLICATION',
		'ALTER SUBSCRIPTION enabled REFRESH PUBLICATION WITH (copy_data = false)',
		'ALTER SUBSCRIPTION enabled SET PUBLICATION p',
		'ALTER SUBSCRIPTION enabled SET PUBLICATION p WITH (refresh)',
		'ALTER SUBSCRIPTION enabled ADD PUBLICATION r',
		'ALTER SUBSCRIPTION enabled DROP PUBLICATION q WITH (copy_data = false, refresh = on)');
	my @taken = (
		'ANALYZE t', 'CLUSTER t USING ti', 'DISCARD PLANS', 'DROP INDEX ti', 'CREATE INDEX ON t (i)',
		'REINDEX TABLE t', 'REINDEX (CONCURRENTLY false) TABLE t', 'REINDEX INDEX ti', 'REINDEX TABLE part',
		'ALTER TABLE parts DETACH PARTITION part', 'ALTER DATABASE postgres CONNECTION LIMIT 50',
		q(CREATE SUBSCRIPTION new CONNECTION 'dbname=none' PUBLICATION p WITH (connect = false)),
		'ALTER SUBSCRIPTION enabled SET PUBLICATION p WITH (refresh = false)',
		'ALTER SUBSCRIPTION enabled ADD PUBLICATION r WITH (refresh = off)',
		'ALTER SUBSCRIPTION enabled DROP PUBLICATION q WITH (refresh = false)',
		'ALTER SUBSCRIPTION enabled SET (binary = true)', 'ALTER SUBSCRIPTION enabled DISABLE',
		'ALTER SUBSCRIPTION disabled ENABLE', q(ALTER SUBSCRIPTION enabled CONNECTION 'dbname=other'),
		'ALTER SUBSCRIPTION enabled SKIP (lsn = NONE)');

	push @refused, 'ALTER SUBSCRIPTION disabled SET (failover = true)', 'ALTER SUBSCRIPTION disabled SET (failover = false)'
	  if $version >= 170000;
	push @refused, 'ALTER SUBSCRIPTION disabled SET (binary = true, two_phase = false)' if $version >= 180000;
	push @taken, 'ALTER SUBSCRIPTION disabled SET (two_phase = true)' if $version >= 180000;
	push @refused, 'REPACK', 'REPACK (CONCURRENTLY) t', 'REPACK parts', q(WAIT FOR LSN '0/0') if $version >= 190000;
	push @taken, 'REPACK t' if $version >= 190000;

	$node->sql(<<'END');
CREATE TABLE t (i int);
CREATE INDEX ti ON t (i);
CREATE TABLE parts (i int) PARTITION BY LIST (i);
CREATE TABLE part PARTITION OF parts FOR VALUES IN (1);
CREATE INDEX partsi ON parts (i);
CREATE SCHEMA s;
CREATE SUBSCRIPTION enabled CONNECTION 'dbname=none' PUBLICATION p, q
	WITH (connect = false, slot_name = 'one');
ALTER SUBSCRIPTION enabled ENABLE;
CREATE SUBSCRIPTION disabled CONNECTION 'dbname=none' PUBLICATION p
	WITH (connect = false, slot_name = 'two');
END
	my $in_block = sub { $node->sql_error("BEGIN; DO \$d\$ BEGIN EXECUTE \$c\$$_[0]\$c\$; END \$d\$") };
	my $call = sub { $node->sql_error("SELECT le_run_call('billing', \$c\$$_[0]\$c\$)") };

	foreach my $command (@refused)
	{
		like($in_block->($command), qr/25001: |0A000: WAIT/, "PostgreSQL: $command");
		like($call->($command), qr/0A000: le_run\(\) cannot run/, "refused: $command");
	}
	foreach my $command (@taken)
	{
		is($in_block->($command), '', "PostgreSQL: $command");
		is($call->($command), '', "taken: $command");
	}
};

# ---- the extension is gone ----

subtest 'dropped while it runs' => sub {
	my $holder = LeaderElection::Session->new($node);
	my $caller = LeaderElection::Session->new($node);
	my $started = $node->sql('SELECT pg_postmaster_start_time()');

	$node->sql(<<'END');
CREATE TABLE looked_at (i int);
CREATE FUNCTION late(i int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	IF i = 2 THEN
		PERFORM pg_advisory_xact_lock(145);
		EXECUTE 'SELECT count(*) FROM looked_at';
	END IF;
	RETURN 'SELECT 1';
END $$;
END
	$holder->query('SELECT pg_advisory_lock(145)');
	$caller->start("SELECT count(le_run_call('billing', late(i))) FROM generate_series(1, 2) i");
	$node->wait_for("SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", 'the caller');
	$node->sql('DROP EXTENSION leader_election');
	$holder->query('SELECT pg_advisory_unlock(145)');
	like($caller->finish->{error}, qr/42704: extension "leader_election" has been dropped/, 'an error says so');
	is($node->sql('SELECT pg_postmaster_start_time()'), $started, 'the server runs on');
	$node->sql('CREATE EXTENSION leader_election');
};

done_testing();
