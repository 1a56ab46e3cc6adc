# Tier: test, 16 s
#
# le_run() on one instance: commands that it runs and that it refuses, and its claims
# afterwards.

use strict;
use warnings;

use LeaderElection::Docs;
use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

# A release does not wait for running commands: here it stands for a loss.
my $node = LeaderElection::Node->create('local',
	settings => { drain_timeout => '0', lease_ttl => '60s' });

$node->sql(<<'END');
CREATE TABLE work (n serial, what text, tick timestamptz, token bigint, at timestamptz DEFAULT now());
CREATE PROCEDURE work(what text) LANGUAGE sql AS
	$$INSERT INTO work (what, tick, token)
	VALUES (what, le_tick(), le_fencing_token('billing'))$$;
CREATE PROCEDURE batches(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..n LOOP
		CALL work('batch');
		COMMIT;
	END LOOP;
END $$;
CREATE FUNCTION made_so_far() RETURNS text LANGUAGE sql STABLE AS
	$$SELECT what || token FROM work WHERE what = 'made'$$;
CREATE PROCEDURE fails() LANGUAGE plpgsql AS $$
BEGIN
	CALL work('before');
	COMMIT;
	CALL work('after');
	RAISE EXCEPTION SQLSTATE 'XX123' USING MESSAGE = 'as it does', HINT = 'none';
END $$;
CREATE ROLE alice LOGIN;
CREATE ROLE bob LOGIN;
GRANT EXECUTE ON PROCEDURE le_run TO alice, bob;
GRANT INSERT ON work TO alice, bob;
GRANT USAGE ON SEQUENCE work_n_seq TO alice, bob;
END

my $tick = '2020-01-01 00:00:00+00';

sub le_run
{
	my ($command, $more) = @_;

	$command =~ s/'/''/g;
	return $node->sql_error("CALL le_run('billing', '$command'" . ($more // '') . ')');
}

sub at
{
	my ($job, $seconds) = @_;

	return sprintf(", job => '%s', tick => '2020-01-01 00:00:%02d+00'", $job, $seconds // 0);
}

sub state
{
	my ($job) = @_;

	return $node->sql("SELECT state, try FROM le_claims WHERE job = '$job'");
}

sub worked
{
	my ($what) = @_;

	return $node->sql("SELECT count(*) FROM work WHERE what = '$what'");
}

# Not the leader: quietly nothing.
is(le_run("CALL work('quiet')"), '', 'no error');
is(le_run("CALL work('quiet')", at('quiet')), '', 'nor with a tick');
denied('G3', worked('quiet'), 'no work');
is(state('quiet'), '', 'no claim');

$node->acquire('billing');
my $token = $node->token('billing');

# Without a tick: gate and fence only.
is(le_run("CALL work('plain')"), '', 'plain');
is(le_run("CALL work('plain')"), '', 'as often as it is called');
is($node->sql("SELECT count(*), count(tick), min(token) FROM work WHERE what = 'plain'"),
	"2|0|$token", 'run by the leader, without a tick');
is($node->sql('SELECT count(*) FROM le_claims'), 0, 'no claim');

# With one: once.
is(le_run("CALL work('once')", at('once')), '', 'once');
is(le_run("CALL work('once')", at('once')), '', 'and again, quietly');
is($node->sql("SELECT count(*), min(tick) = '$tick' FROM work WHERE what = 'once'"),
	'1|t', 'run once, and told its tick');
denied('G4', worked('once') > 1, 'not twice');
is(state('once'), 'done|1', 'done');
is($node->sql('SELECT le_tick()'), '', 'no tick outside of le_run');
is(le_run("CALL batches(3)", at('batches')), '', 'a command that commits');
is(worked('batch'), 3, 'in batches');
is(state('batches'), 'done|1', 'is done at its end');
is(le_run("SELECT 1; CALL batches(2); INSERT INTO work (what) VALUES ('last')", at('several')),
	'', 'several statements');
is(worked('last'), 1, 'up to the last');
is( le_run("CREATE TABLE made AS SELECT 'made'::text AS what;\n"
		  . " INSERT INTO work (what) SELECT what FROM made; /* ; */ UPDATE work SET token = 1 WHERE what = 'made';\n"
		  . "CALL work(made_so_far()); DROP TABLE made;;", at('made')),
	'', 'which build on each other');
is(worked('made') . worked('made1'), '11', 'each statement sees the effects of those before it');
is(le_run("DO \$\$ BEGIN CALL work('do'); ROLLBACK; CALL work('do'); COMMIT; END \$\$", at('do')), '', 'a DO block');
is(worked('do'), 1, 'with its own rollback');

# SET TRANSACTION, as in a block of a client
my $characteristics = q(DO $$ BEGIN RAISE '% % %', current_setting('transaction_isolation'),
	current_setting('transaction_read_only'), current_setting('transaction_deferrable'); END $$);
foreach my $set (
	'TRANSACTION ISOLATION LEVEL SERIALIZABLE', 'TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE',
	'TRANSACTION READ ONLY', 'LOCAL transaction_isolation = serializable', 'SESSION CHARACTERISTICS AS TRANSACTION READ ONLY')
{
	my ($as_client) = $node->sql_error("BEGIN; SET $set; $characteristics") =~ /ERROR: (.*)/;

	like(le_run("SET $set; $characteristics"), qr/ERROR: \Q$as_client\E/, "SET $set:$as_client");
}
like(le_run("SET TRANSACTION READ ONLY; CALL work('read only')"), qr/25006/, 'a read-only transaction writes nothing');
like(le_run("CALL work('query'); SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"), qr/25001: SET TRANSACTION ISOLATION LEVEL must/,
	'after a query it is too late');
is(le_run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; CALL batches(2); CALL work('committed')"), '', 'it commits');
is(worked('committed'), 1, 'the rows');
{
	my ($holder, $caller) = map { LeaderElection::Session->new($node) } 1 .. 2;
	my $saw = sub {
		my ($waits, $meanwhile) = @_;

		$holder->query("INSERT INTO work (what) VALUES ('$meanwhile')");
		$caller->start("CALL le_run('billing', 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; $waits; "
			  . "INSERT INTO work (what) SELECT ''saw '' || count(*) FROM work WHERE what = ''$meanwhile''')");
		$node->wait_for('SELECT count(*) = 1 FROM pg_locks WHERE NOT granted AND pid = ' . $caller->pid);
		$holder->query('COMMIT');
		is($caller->finish->{error}, '', "$waits waits");
		return $node->sql("DELETE FROM work WHERE what LIKE 'saw %' RETURNING what");
	};

	$holder->query('BEGIN; SELECT pg_advisory_xact_lock(82)');
	is($saw->('SELECT pg_advisory_xact_lock(82)', 'later'), 'saw 0', 'all its statements see the snapshot of the first');
	$holder->query('BEGIN');
	is($saw->('LOCK TABLE work IN SHARE ROW EXCLUSIVE MODE', 'earlier'), 'saw 1', 'a LOCK, which comes first, sees nothing yet');
}

# every: a tick named by the clock
is(le_run("CALL work('every')", ", job => 'every', every => '1 day'"), '', 'every');
is(le_run("CALL work('every')", ", job => 'every', every => '1 day'"), '', 'every, again');
is($node->sql("SELECT count(*), bool_and(tick = date_trunc('day', now() + interval '2 s', 'UTC')) FROM work WHERE what = 'every'"),
	'1|t', 'once a day');
denied('G4', $node->sql("SELECT count(*) - count(DISTINCT tick) FROM work WHERE what = 'every'"),
	'no tick twice');
is(state('every'), 'done|1', 'done');

# a tick by local time, as docs/jobs.md names it: each night has its own, at 01:00
# in Berlin on both sides of a change of clocks
my ($local) = page('docs/jobs.md') =~ /^- \*\*Local time\.\*\*.*?`tick => (date_trunc\([^`]*)`/ms;
is(le_run("CALL work('night')", ", job => 'night', tick => $local"), '', 'by local time');
is($node->sql("SELECT count(*), bool_and(tick = $local) FROM work WHERE what = 'night'"), '1|t', 'its tick');
foreach my $nights (
	[ '2027-03-27 00:00Z', '2027-03-28 00:00Z', '2027-03-28 23:00Z', '2027-03-29 23:00Z' ],
	[ '2027-10-29 23:00Z', '2027-10-30 23:00Z', '2027-11-01 00:00Z', '2027-11-02 00:00Z' ])
{
	my $of = $local =~ s/now\(\)/at/r;
	is($node->sql("SELECT count(DISTINCT $of) FROM unnest(ARRAY['" . join("', '", @$nights) . "']::timestamptz[]) AS at"),
		4, "four nights from $nights->[0]");
}

# A command is never shown: it may hold a password.
is(le_run("SELECT 'hunter2'; SELECT 2"), '', 'without a name');
is($node->sql(q{SELECT string_agg(event || ' ' || detail, ', ' ORDER BY number) FROM le_events
	WHERE detail LIKE 'job SELECT%'}), 'run started job SELECT, run done job SELECT', 'le_events have its kind');
like(le_run("SELECT 'hunter2'", $_), qr/22023: the arguments "every" and "tick" need "job"\nHINT/, "refused without a name:$_")
  foreach ", every => '1 day'", ", tick => '$tick'";
is($node->sql(q{SELECT count(*) FROM le_events WHERE detail LIKE '%hunter2%'}), 0, 'no literal in le_events');
is($node->sql(q{SELECT count(*) FROM le_claims WHERE job LIKE '%hunter2%'}), 0, 'nor in le_claims');

# An error of the command
my $error = le_run('CALL fails()', at('fails'));
like($error, qr/ERROR:  XX123: as it does\nHINT:  none/, 'is the error of the call, unchanged');
is(worked('before') . worked('after'), '10', 'committed work stays');
is(state('fails'), 'failed|1', 'the claim says failed');
is(le_run("CALL work('retry')", at('fails') . ', catch_up => true'), '', 'again');
is(worked('retry'), 0, 'failed is final');
is(le_run("CALL work('retry')", at('fails', 1)), '', 'but for the next tick');
is(worked('retry'), 1, 'it runs');
like(le_run('SELECT 1/0', at('division')), qr/22012/, 'an error at once');
is(state('division'), 'failed|1', 'failed');
$node->sql('CREATE TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)');
like(le_run('INSERT INTO late VALUES (1), (1)', at('deferred')), qr/23505/, 'an error of the commit');
is(state('deferred'), 'failed|1', 'failed');

# Canceled by hand: that is an error of the command too.
my $session = LeaderElection::Session->new($node);
$session->start("CALL le_run('billing', 'SELECT pg_sleep(60)'" . at('canceled') . ')');
# not while it still claims: then nobody knows of a run that could have failed
$node->wait_for("SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = " . $session->pid);
is(state('canceled'), 'running|1', 'running');
$node->wait_for("SELECT pg_cancel_backend(" . $session->pid . ')');
like($session->finish->{error}, qr/57014/, 'canceled');
is(state('canceled'), 'failed|1', 'failed');

# Terminated: nobody is left to say so; a later term may catch up (and this one,
# 088_catch_up).
$session->start("CALL le_run('billing', 'SELECT pg_sleep(60)'" . at('terminated') . ')');
$node->wait_for("SELECT state = 'running' FROM le_claims WHERE job = 'terminated'");
$node->sql("SELECT pg_terminate_backend(" . $session->pid . ')');
ok($session->finish->{lost}, 'terminated');
is(state('terminated'), 'running|1', 'still running');
$node->release('billing');
$node->acquire('billing');
is(le_run("CALL work('caught')", at('terminated')), '', 'a later term');
denied('G4', worked('caught'), 'not unless asked to');
is(le_run("CALL work('caught')", at('terminated', 1) . ', catch_up => true'), '', 'catching up');
is($node->sql("SELECT string_agg(extract(second FROM tick)::int::text, ',' ORDER BY n) FROM work WHERE what = 'caught'"),
	'0,1', 'first the old tick, then the new one');
is(state('terminated'), 'done|1', 'done');

# The term runs out while the command runs: its commit is refused, and the tick
# is left to a later term.
$node->configure(lease_ttl => '4s');
poll_until(
	sub {
		$node->acquire('billing') && $node->sql(q(
			SELECT expires_at - clock_timestamp() < '4 s' FROM le_status
			WHERE election = 'billing')) eq 't';
	},
	'a short lease');
$session = LeaderElection::Session->new($node);
$session->start(
	"CALL le_run('billing', 'DO \$\$ BEGIN CALL work(''lost''); "
	  . "WHILE le_is_leader(''billing'') LOOP PERFORM pg_sleep(0.01); END LOOP; END \$\$', on_loss => 'none'"
	  . at('lost')
	  . ')');
$node->wait_for("SELECT state = 'running' FROM le_claims WHERE job = 'lost'");
my $worker = $node->freeze_worker;
like($session->finish->{error}, qr/LE002/, 'lost: refused');
$node->thaw_worker($worker);
denied('G3', worked('lost'), 'lost: undone');
is(state('lost'), 'running|1', 'lost: not failed');
$node->configure(lease_ttl => '60s');
poll_until(sub { $node->acquire('billing') }, 'a later term');
is(le_run("CALL work('lost')", at('lost') . ', catch_up => true'), '', 'lost: caught up');
is(worked('lost') . '|' . state('lost'), '1|done|2', 'lost: by the second try');

# The session is as before, whatever became of the command.
$session = LeaderElection::Session->new($node);
$session->error("CALL le_run('billing', 'SELECT 1/0'" . at('session') . ')');
is($session->query('SELECT le_tick() IS NULL'), 't', 'no tick');
$node->release('billing');
is($session->error('INSERT INTO late VALUES (5)'), '', 'and no binding is left');
$node->acquire('billing');
is($session->error("CALL le_run('billing', 'CALL work(''twice'')'" . at('session', 1) . ')'), '', 'it can run again');

# wait, on a node that does not lead
$node->release('billing');
my $seconds = timed(sub { is(le_run("CALL work('gap')", at('gap') . ", wait => '1 s'"), '', 'waits'); });
cmp_ok($seconds, '>', 1, 'as long as it was told to');
$session->start("CALL le_run('billing', 'CALL work(''gap'')'" . at('gap') . ", wait => '1 min')");
$node->wait_for("SELECT wait_event_type = 'Extension' AND backend_xmin IS NULL FROM pg_stat_activity WHERE pid = " . $session->pid);
$node->acquire('billing');
unlike($session->finish->{error}, qr/ERROR/, 'until its turn has come');
is(worked('gap') . '|' . state('gap'), '1|done|1', 'and runs');
denied('G4', worked('gap') > 1, 'not twice');
$session->start("CALL le_run('other', 'SELECT 1', job => 'x', tick => '$tick', wait => '1 min')");
$node->wait_for("SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = " . $session->pid);
$node->sql('SELECT pg_cancel_backend(' . $session->pid . ')');
like($session->finish->{error}, qr/57014/, 'interruptibly');

# Refusals, before a claim is made
my $claims = $node->sql('SELECT count(*) FROM le_claims');
foreach my $case (
	[ 'VACUUM', qr/0A000: le_run\(\) cannot run VACUUM\nHINT:  It has to be the only/ ],
	[ 'CREATE DATABASE x', qr/0A000: le_run\(\) cannot run CREATE DATABASE\nHINT/ ],
	[ 'CREATE INDEX CONCURRENTLY ON work (n)', qr/0A000: le_run\(\) cannot run CREATE INDEX\nHINT/ ],
	[ 'CLUSTER', qr/0A000: le_run\(\) cannot run CLUSTER\nHINT:  It has to be the only/ ],
	[ 'SELECT 1; COMMIT', qr/0A000: le_run\(\) cannot run COMMIT\nHINT:  The command is committed/ ],
	[ 'BEGIN', qr/0A000: le_run\(\) cannot run BEGIN\nHINT/ ],
	[ 'COPY work TO STDOUT', qr/0A000: le_run\(\) cannot run COPY\nHINT/ ],
	[ '', qr/22023: argument "command" is empty/ ],
	[ 'SELEC 1', qr/42601/ ])
{
	my ($command, $pattern) = @$case;

	like(le_run($command, at('refused')), $pattern, "refused: $command");
}
is(le_run("SELECT 1;\nSELEC 'ä' FROM x", at('refused')) =~ s/^.*?(?=ERROR)//sr =~ s/^LOCATION.*//msr,
	"ERROR:  42601: syntax error at or near \"SELEC\"\nLINE 2: SELEC 'ä' FROM x\n        ^\n"
	  . "QUERY:  SELECT 1;\nSELEC 'ä' FROM x\n", 'a syntax error is shown in the command');
like(le_run("SELECT 1; SELECT 'ä', n FROM nowhere"),
	qr/42P01: .*\nLINE 1: +SELECT 'ä', n FROM nowhere\n +\^\nQUERY: +SELECT 'ä', n FROM nowhere\n/, 'as any other error');
SKIP:
{
	skip 'REPACK came with 19', 5
	  if $node->sql('SHOW server_version_num') < 190000;
	my $refused = qr/0A000: le_run\(\) cannot run REPACK\nHINT:  It has to be the only/;

	like(le_run($_, at('refused')), $refused, "refused: $_")
	  foreach ('REPACK', 'REPACK USING INDEX', 'REPACK (CONCURRENTLY, VERBOSE) work');
	is(le_run("REPACK (CONCURRENTLY off) work; CALL work('repacked')"), '', 'one table can be repacked');
	is(worked('repacked'), 1, 'and was');
}
foreach my $case (
	[ ", every => '1 month'", qr/22023: argument "every" must not contain months/ ],
	[ ", every => '0.5 s'", qr/22023: argument "every" must be at least one second/ ],
	[ ", every => '1.0005 s'", qr/22023: argument "every" must be at least one second, in whole/ ],
	[ ", every => '1 min', tick => now()", qr/22023: only one of the arguments/ ],
	[ ", job => 'x', every => '1 min', wait => '1 min'", qr/22023: argument "wait" must be less than "every"/ ],
	[ ", wait => '1 min'", qr/22023: the arguments "wait" and "catch_up" need/ ],
	[ ", catch_up => true", qr/22023: the arguments "wait" and "catch_up" need/ ],
	[ ", on_loss => 'x'", qr/22023: invalid on_loss: "x"/ ],
	[ ", job => ''", qr/22023: invalid job name/ ],
	[ ", wait => NULL", qr/22004: argument "wait" must not be null/ ])
{
	my ($more, $pattern) = @$case;

	like(le_run('SELECT 1', $more), $pattern, "refused: $more");
}
foreach my $around ('BEGIN; %s; COMMIT', "SELECT 1\\; %s", 'DO $x$ BEGIN %s; EXCEPTION WHEN OTHERS THEN RAISE; END $x$')
{
	like(
		$node->sql_error(sprintf($around, q{CALL le_run('billing', 'SELECT 1')})),
		qr/25001: le_run\(\) cannot be called inside a transaction block\nHINT:  Let the CALL be the only/,
		"refused: $around");
}
like(le_run(q{CALL le_run('billing', 'SELECT 1')}), qr/55006: le_run\(\) is already running in this session/,
	'not inside of itself');
is($node->sql('SELECT count(*) FROM le_claims'), $claims, 'no claim is made of it');
is($node->sql_error(q{DO $$ BEGIN CALL le_run('billing', 'CALL work(''nested'')'); COMMIT; END $$}), '',
	'from a procedure that may commit it runs');
is(worked('nested'), 1, 'and works');

# One name for two roles' jobs: at each tick one runs, and each is told. Another
# owner, or a tick by hand, is nothing of the kind.
subtest 'two callers' => sub {
	my %role = map { $_ => LeaderElection::Session->new($node, user => $_) } qw(alice bob);
	my $since = $node->log_offset;
	my $logged = sub { scalar(() = $node->log_since($since) =~ /WARNING: .*has two callers/g) };
	my $call = sub {
		my ($who, $second) = @_;

		return $role{$who}->error("CALL le_run('billing', 'INSERT INTO work (what) VALUES (''by $who'')'" . at('shared', $second) . ')');
	};
	my $check = sub {
		$node->sql('SELECT * FROM le_jobs()');
		return $node->sql("SELECT level, message FROM le_check_config() WHERE topic = 'jobs'");
	};
	my $pair = sub { qr/Role "$_[0]" calls it in database "postgres", and role "$_[1]" in database "postgres": at each tick one/ };

	is($call->('alice', $_), '', "alice, $_") foreach 0 .. 2;
	is($call->('bob', $_), '', "bob, the new owner, $_") foreach 3 .. 5;
	is(le_run('SELECT 1', at('shared', 6)), '', 'somebody else, by hand');
	is($call->('bob', $_), '', "bob, $_") foreach 7 .. 10;
	is($check->(), '', 'nothing to say');

	is($call->($_, 11), '', "$_, 11") foreach qw(alice bob);
	is(worked('by alice') . worked('by bob'), '47', 'the first caller ran it');
	like($call->('alice', 12), $pair->('alice', 'bob'), 'alice is told');
	like($call->('bob', 12), $pair->('bob', 'alice'), 'so is bob');
	like($call->('bob', 13), $pair->('bob', 'alice'), 'at each call');
	like($call->('alice', 13), qr/WARNING:  01000: job "shared" of election "billing" has two callers\nDETAIL.*\nHINT:  Give one/, 'both of them');
	is($logged->(), 1, 'the log has it once');
	like($check->(), qr/^warning\|Job "shared" of election "billing" has two callers\. @{[$pair->('alice', 'bob')]}/, 'and the check');
	$call->('alice', $_) foreach 14 .. 17;
	is($call->('alice', 18), '', 'it ends when only one calls');
	is($check->(), '', 'and the check is clean');
};

# Traces afterwards
is( $node->sql(
		q{SELECT string_agg(event, ', ' ORDER BY number) FROM le_events
		WHERE detail LIKE 'job once, tick %, try 1'}),
	'claimed, run started, run done', 'le_events of a tick');
is( $node->sql(
		q{SELECT string_agg(event, ', ' ORDER BY event) FROM le_events
		WHERE detail LIKE 'job division, tick %, try 1%'}),
	'claimed, job failed, run failed, run started', 'and of one that failed');
my ($runs, $skips, $claimed) = split /\|/,
  $node->sql("SELECT runs, skips, claims FROM le_stat_jobs WHERE election = 'billing'");
le_run("CALL work('once')", at('once'));
le_run("CALL work('counted')", at('counted'));
is( $node->sql("SELECT runs, skips, claims FROM le_stat_jobs WHERE election = 'billing'"),
	join('|', $runs + 1, $skips + 1, $claimed + 1), 'le_stat counts both');

done_testing();
