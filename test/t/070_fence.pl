# Tier: test, 18 s
#
# The fence where one session cannot show it: remote rows of postgres_fdw that
# must not be committed before the check, terms that run out, and a term that
# a later one of the same node has replaced.

use strict;
use warnings;

use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

# There is time to spare between the margin and the deadline.
my $node = LeaderElection::Node->create(
	'a',
	settings => { lease_ttl => '60s', safety_margin => '500ms',
		commit_margin => '400ms', cancel_lead => '500ms', campaign => 'e' });
my $rows = 0;

$node->wait_for_leadership('e');
$node->sql(<<"END");
CREATE EXTENSION postgres_fdw;
CREATE SERVER self FOREIGN DATA WRAPPER postgres_fdw
	OPTIONS (host '${\ $node->host }', port '${\ $node->port }', dbname 'postgres');
CREATE USER MAPPING FOR PUBLIC SERVER self;
CREATE TABLE remote (i int);
CREATE FOREIGN TABLE far (i int) SERVER self OPTIONS (table_name 'remote');
CREATE TABLE work (i int);
CREATE FUNCTION write_far() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
	INSERT INTO far VALUES (new.i);
	RETURN NULL;
END \$\$;
CREATE CONSTRAINT TRIGGER write_far AFTER INSERT ON work
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION write_far();
CREATE TABLE plain (i int);
CREATE FUNCTION write_in_function(i int) RETURNS void LANGUAGE plpgsql AS \$\$
BEGIN
	INSERT INTO far VALUES (i);
END \$\$;
CREATE FUNCTION write_and_fail(i int) RETURNS void LANGUAGE plpgsql AS \$\$
BEGIN
	INSERT INTO far VALUES (i);
	RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN
	NULL;
END \$\$;
CREATE PROCEDURE write_and_commit(i int, late bool) LANGUAGE plpgsql AS \$\$
BEGIN
	PERFORM le_require_leader('own');
	INSERT INTO far VALUES (i);
	IF late THEN
		PERFORM le_release('own');
	END IF;
	COMMIT;
END \$\$;
END

# The shortest lease where a term is to run out; else one that no stall outlasts.
sub lease_is
{
	my ($seconds) = @_;
	my $least = $seconds - $seconds / 3 - 0.7;

	$node->configure(lease_ttl => "${seconds}s");
	$node->wait_for("SELECT le_is_leader('e') AND expires_at - clock_timestamp() "
		  . "BETWEEN interval '$least s' AND interval '$seconds s' FROM le_status WHERE election = 'e'");
	return;
}

sub remote_rows
{
	return $node->sql('SELECT count(*) FROM remote');
}

# The same transaction twice, each time in a session that has never used
# postgres_fdw: once its term holds until the commit, once it is over by then.
sub fenced
{
	my ($what, @statements) = @_;
	my $passed;

	foreach my $over (0, 1)
	{
		my $session = LeaderElection::Session->new($node);
		my $before = remote_rows();
		my $error;

		$session->query("SELECT le_acquire('own', wait => '1 min')");
		foreach my $statement (@statements)
		{
			$statement = "SELECT le_release('own')" x $over
			  if $statement =~ /le_release|^$/;
			$error = $session->error($statement =~ s/\bLATE\b/$over ? 'true' : 'false'/er);
		}
		if ($over)
		{
			like($error, qr/ERROR:  LE002: no longer leader of election "own"/,
				"$what: refused");
			my $more = remote_rows() - $before;

			is($more, 0, "$what: no remote row");

			# the rows of a stopped commit may be late
			denied('G3', $passed && $more, "$what: nor one after the term");
		}
		else
		{
			$passed = $error eq '';
			is($error, '', "$what: passes");
			cmp_ok(remote_rows(), '>', $before, "$what: remote rows");
		}
		$session->quit;
		$node->sql("SELECT le_release('own')") if !$over;
	}
	return;
}

subtest 'postgres_fdw' => sub {
	my $gate = "SELECT le_require_leader('own')";
	my $end = "SELECT le_release('own')";

	fenced('used before the bind',
		'BEGIN', 'INSERT INTO far VALUES (1)', $gate, $end, 'COMMIT');
	fenced('first used after it',
		'BEGIN', $gate, $end, 'INSERT INTO far VALUES (2)', 'COMMIT');
	fenced('first used in a deferred trigger',
		'BEGIN', $gate, $end, 'INSERT INTO work VALUES (3)', 'COMMIT');
	fenced('first used by COPY',
		'BEGIN', $gate, $end,
		q(COPY far FROM PROGRAM 'echo 4'), 'COMMIT');
	fenced('first used in a function',
		'BEGIN', $gate, $end, 'SELECT write_in_function(5)', 'COMMIT');
	fenced('first used where an error was caught',
		'BEGIN', $gate, 'SELECT write_and_fail(6)', $end,
		'INSERT INTO far VALUES (6)', 'COMMIT');
	fenced('first used by a cursor that is still open',
		'BEGIN', $gate, 'DECLARE c CURSOR FOR SELECT * FROM far', 'FETCH c',
		$end, 'INSERT INTO far VALUES (7)', 'COMMIT');
	fenced('in a procedure that commits', 'CALL write_and_commit(8, LATE)');
};

# The deadline passes while the worker stands still.
subtest 'a term that runs out' => sub {
	lease_is(3);

	my $session = LeaderElection::Session->new($node);
	my $later = LeaderElection::Session->new($node);
	my $worker;
	my $error;

	$session->query("BEGIN; SELECT le_require_leader('e'); INSERT INTO plain VALUES (1)");
	$later->query("BEGIN; SELECT le_require_leader('e'); INSERT INTO plain VALUES (2)");
	$worker = $node->freeze_worker;

	# Close to the deadline it is too late already.
	poll_until(
		sub {
			my $left = $session->query("SELECT extract(epoch FROM "
				  . "expires_at - clock_timestamp()) FROM le_status WHERE election = 'e'");

			return $left < 0.35;
		},
		'the margin',
		interval => 0.01);
	$error = $session->error('COMMIT');
	like($error, qr/ERROR:  LE002: no longer leader of election "e"/, 'refused in the margin');
	like($error,
		qr/bound to the term with fencing token \d+, whose deadline (is \d+ ms away, less than commit_margin \(400 ms\)|passed)/,
		'says so');
	like($session->error("SELECT le_require_leader('e')"),
		qr/ERROR:  LE001: not leader of election "e"/, 'no new gate');

	poll_until(sub { !$node->is_leader('e') }, 'the deadline');
	$error = $later->error('COMMIT');
	like($error, qr/ERROR:  LE002/, 'refused after it');
	like($error, qr/whose deadline passed \d+ ms ago/, 'says so');
	like($later->error("SELECT le_require_leader('e')"),
		qr/ERROR:  LE001.*The deadline of its term passed \d+ ms ago/s, 'no new gate');
	$node->thaw_worker($worker);
	$node->wait_for_leadership('e');
	guarantee('G3', [ split /\n/, $node->sql('TABLE plain') ], 'nothing was committed');
};

# The node leads again, but not for transactions that were bound before.
subtest 'a later term' => sub {
	my $session = LeaderElection::Session->new($node);
	my $token = $session->query("BEGIN; SELECT le_require_leader('e'); INSERT INTO plain VALUES (3)");
	my $worker = $node->freeze_worker;

	poll_until(sub { !$node->is_leader('e') }, 'the deadline');
	$node->thaw_worker($worker);
	$node->wait_for_leadership('e');
	guarantee('G2', [ $token, $node->token('e') ], 'a later term');
	is($session->query("SELECT le_is_leader('e')"), 't', 'which a check sees');
	is($session->query("SELECT le_fencing_token('e')"), $token, 'a transaction bound to the first keeps its token');
	is($session->query("SELECT le_remaining('e')"), '', 'which left nothing');
	isnt($node->sql("SELECT le_remaining('e')"), '', 'unlike of the later');
	like($session->error('COMMIT'),
		qr/ERROR:  LE002.*bound to the term with fencing token $token/s,
		'the fence does not take it for the first');
	guarantee('G3', [ split /\n/, $node->sql('TABLE plain') ], 'nothing was committed');
};

# Its traces in monitoring.
subtest 'counted' => sub {
	lease_is(60);

	my $session = LeaderElection::Session->new($node);
	my $count = sub {
		return split /\|/, $node->sql("SELECT gate_passed, gate_refused, fence_aborts FROM le_stat WHERE election = 'own'");
	};
	my @before = $count->();
	my $token;

	$session->error("SELECT le_require_leader('own')");
	$token = $session->query("SELECT le_acquire('own', wait => '1 min'); BEGIN; SELECT le_require_leader('own')") =~ s/.*\n//sr;
	$session->query("SELECT le_require_leader('own'); SELECT le_release('own')");
	$session->error('COMMIT');
	my @after = $count->();
	is_deeply([ map { $after[$_] - $before[$_] } 0 .. 2 ], [ 2, 1, 1 ], 'gates passed, refused, aborts');
	is($node->sql("SELECT event, fencing_token FROM le_events WHERE event = 'fence aborted' ORDER BY number DESC LIMIT 1"),
		"fence aborted|$token", 'event');
};

# A table for several instances: an older leader fails, whatever its snapshot says.
subtest 'guard' => sub {
	my ($old, $new) = map { LeaderElection::Session->new($node) } 1, 2;
	my $guard = "SELECT le_fence_guard('guard', 'e')";
	my $refused = sub {
		my ($call, $error, $what) = @_;
		my $result = $old->start($call)->finish;

		denied('G3', !$result->{lost} && $result->{error} eq '', "$what: not let in");
		like($result->{error}, $error, $what);
	};

	$node->sql('CREATE TABLE guard (election text PRIMARY KEY, fencing_token bigint NOT NULL); '
		  . q(CREATE FOREIGN TABLE far_guard (election text, fencing_token bigint) SERVER self OPTIONS (table_name 'guard')));

	# the first two of all come at once
	$old->query("BEGIN; $guard");
	$new->start("BEGIN; $guard");
	$old->query('COMMIT');
	is($new->finish->{error}, '', 'the second waits for the first, and passes');
	$new->query('COMMIT');

	# a snapshot from before a later leader's work
	$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM guard');
	$new->query("UPDATE guard SET fencing_token = fencing_token + 1000000000");
	$refused->($guard, qr/ERROR:  (40001|LE002)/, 'refused under REPEATABLE READ');
	$old->query('ROLLBACK');
	$refused->($guard, qr/ERROR:  LE002.*Table public.guard has seen a higher fencing token/s, 'and without');

	# the same from another database server
	$refused->("SELECT le_fence_guard('far_guard', 'e')",
		qr/ERROR:  LE002.*Table public.far_guard has seen a higher/s, 'refused through a foreign table');
	$new->query('UPDATE guard SET fencing_token = 0');
	like($old->query("SELECT le_fence_guard('far_guard', 'e')"), qr/^\d+$/, 'a first token through it');
	is($old->query("SELECT le_fence_guard('far_guard', 'e')"),
		$new->query('SELECT fencing_token FROM guard'), 'and again');

	# which cannot be asked for its key: exactly one row, and none by the guard
	$new->query('TRUNCATE guard');
	$refused->("SELECT le_fence_guard('far_guard', 'e')",
		qr/ERROR:  42P16.*0 rows of the election instead of one.*HINT:.*once/s, 'no row');
	is($new->query('SELECT count(*) FROM guard'), 0, 'and none is inserted');
	$new->query(q(ALTER TABLE guard DROP CONSTRAINT guard_pkey; )
		  . q(INSERT INTO guard VALUES ('e', 0), ('e', 1000000000)));
	$refused->("SELECT le_fence_guard('far_guard', 'e')", qr/ERROR:  42P16.*2 rows/s, 'two');

	# a table that allows a second row; sql/guard.sql has more
	foreach my $key ('SELECT',
		'CREATE UNIQUE INDEX ON keyless (election) WHERE fencing_token < 0',
		'CREATE UNIQUE INDEX ON keyless (election, fencing_token)',
		'ALTER TABLE keyless ADD UNIQUE (election) DEFERRABLE')
	{
		$new->query('CREATE TABLE keyless (election text, fencing_token bigint); '
			  . "INSERT INTO keyless VALUES ('e', 1000000000); $key");
		$refused->("SELECT le_fence_guard('keyless', 'e')",
			qr/ERROR:  42P16.*HINT:  ALTER TABLE public.keyless ADD PRIMARY KEY \(election\);/s, "keyless: $key");
		$new->query('DROP TABLE keyless');
	}

	# a trigger that swallows the write is no later leader
	$new->query(<<'END');
CREATE TABLE swallows (election text PRIMARY KEY, fencing_token bigint);
CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER swallow BEFORE INSERT OR UPDATE ON swallows FOR EACH ROW EXECUTE FUNCTION swallow();
END
	$refused->("SELECT le_fence_guard('swallows', 'e')", qr/ERROR:  42P16.*shows 0 rows.*HINT:  Triggers/s, 'no row');
};

# Settings that could not stop a statement in time.
subtest 'settings' => sub {
	lease_is(3);

	my $gate = "SELECT le_require_leader('e', on_loss => 'cancel')";

	$node->configure(cancel_lead => '300ms', campaign => 'e,one');
	$node->wait_for_leadership('one');
	like($node->sql_error($gate),
		qr/ERROR:  F0000: statements cannot be canceled in time.*cancel_lead \(300 ms\) must be more than commit_margin \(400 ms\)/s,
		'cancel_lead within commit_margin');
	$node->configure(cancel_lead => '1500ms', campaign => 'e,two');
	$node->wait_for_leadership('two');
	like($node->sql_error($gate),
		qr/cancel_lead \(1500 ms\) must be less than lease_ttl minus safety_margin minus renew_interval: 3000 ms - 500 ms - 1000 ms = 1500 ms/,
		'cancel_lead that a healthy leader would reach');
	is($node->sql_error("SELECT le_require_leader('e')"), '',
		'no matter where nothing is canceled');
	$node->configure(cancel_lead => '500ms', campaign => 'e,three');
	$node->wait_for_leadership('three');
	is($node->sql_error($gate), '', 'good again');
};

done_testing();
