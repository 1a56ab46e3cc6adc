# Tier: test, 12 s
#
# Preloaded with others that use the same hooks, in several orders: everything that a
# job relies on works beside each of them, wherever in the row of hooks we are.

use strict;
use warnings;

use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $sharedir = qx($ENV{PG_CONFIG} --sharedir);
chomp $sharedir;

# The ones that have an extension of SQL objects, by its name.
my @extensions = qw(pg_cron pgaudit pg_stat_statements plpgsql_check);

foreach my $extension (@extensions)
{
	plan skip_all => "$extension is not installed"
	  unless -e "$sharedir/extension/$extension.control";
}

# First, last, and in between.
my @orders = (
	[qw(leader_election pg_cron pgaudit pg_stat_statements auto_explain plpgsql_check)],
	[qw(plpgsql_check auto_explain pg_stat_statements pgaudit pg_cron leader_election)],
	[qw(pgaudit auto_explain leader_election plpgsql_check pg_stat_statements pg_cron)],
	[qw(pg_stat_statements plpgsql_check leader_election pg_cron pgaudit auto_explain)]);

my $gate = "SELECT le_require_leader('e', on_loss => 'cancel')";
my $node = LeaderElection::Node->create(
	'a',
	extension => 0,
	start => 0,
	settings => {
		lease_ttl => '3s',
		renew_interval => '500ms',
		safety_margin => '500ms',
		commit_margin => '100ms',
		cancel_lead => '700ms',
		campaign => 'e'
	},
	conf => {
		client_min_messages => 'warning',
		'cron.database_name' => 'postgres',
		'cron.use_background_workers' => 'on',
		'pgaudit.log' => 'all',
		'pgaudit.log_relation' => 'on',
		'pg_stat_statements.track' => 'all',
		'auto_explain.log_min_duration' => 0,
		'auto_explain.log_analyze' => 'on',
		'auto_explain.log_nested_statements' => 'on',
		'auto_explain.log_triggers' => 'on',
		'plpgsql_check.mode' => 'every_start',
		'plpgsql_check.profiler' => 'on',
		'plpgsql_check.tracer' => 'on',
		'plpgsql_check.enable_tracer' => 'on'
	});

# All of these in one session, and the outcome.
sub gate
{
	my $session = LeaderElection::Session->new($node);
	my $token = $node->token('e');

	same_term($token, $session->query("BEGIN; $gate; INSERT INTO work VALUES ('gate'); COMMIT"),
		'a gate gives the token');
	same_term($token, $session->query("SELECT bill('function')"), 'in a function, too');
	like(
		$session->error("SELECT le_require_leader('nobody')"),
		qr/ERROR:  LE001: not leader/, 'another election is refused');
	$session->quit;
	return;
}

sub commit_refusal
{
	my $session = LeaderElection::Session->new($node);

	is($session->query("SELECT le_acquire('own')"), 't', 'another election');
	$session->query(
		"BEGIN; SELECT le_require_leader('own'); INSERT INTO work VALUES ('refused')");
	$session->query("SELECT le_release('own')");
	like($session->error('COMMIT'),
		qr/ERROR:  LE002: no longer leader of election "own"/,
		'a commit after the term is refused');
	denied('G3', $node->sql("SELECT count(*) FROM work WHERE what = 'refused'"),
		'and its rows are gone');

	# where it is the only statement, its hooks and its commit meet
	is($session->query("SELECT le_acquire('own', wait => '3 min')"), 't', 'once more');
	like($session->error("SELECT bill_and_release('refused')"),
		qr/ERROR:  LE002: no longer leader of election "own"/,
		'that of a single statement, too');
	is($session->query("SELECT le_acquire('own', wait => '3 min')"), 't', 'and more');
	like($session->error("CALL steps()"),
		qr/ERROR:  LE002: no longer leader of election "own"/,
		'and that of a procedure');
	denied('G3', $node->sql("SELECT count(*) FROM work WHERE what = 'refused'"),
		'none of their rows are there');
	$session->quit;
	return;
}

sub run
{
	my $session = LeaderElection::Session->new($node);
	my $runs;
	my $tick = "tick => '"
	  . $node->sql("SELECT date_trunc('minute', now())") . "'";
	my $call = sub {
		my ($job, $command) = @_;

		return "CALL le_run('e', \$c\$$command\$c\$, job => '$job', $tick)";
	};

	is($session->error($call->('run', "SELECT bill('run')")),
		'', 'a command runs');
	$session->error($call->('run', "SELECT bill('run')"));
	$runs = $node->sql("SELECT count(*) FROM work WHERE what = 'run'");
	guarantee('G4', [ $runs > 1 ? "$runs runs" : () ], 'not twice in a tick');
	is($runs, 1, 'but once');
	like(
		$session->error(
			$call->('fails', "INSERT INTO work VALUES ('fails'); SELECT 1/0")),
		qr/22012: division by zero/,
		'an error comes out of it');
	is( $node->sql("SELECT string_agg(job || ' ' || state, ',' ORDER BY job) "
			  . 'FROM le_claims'),
		'fails failed,run done',
		'the claims tell of both');
	is($node->sql("SELECT count(*) FROM work WHERE what = 'fails'"),
		0, 'failures have left nothing');
	$session->quit;
	return;
}

# Nothing renews the lease, and statements run into its end.
sub cancel
{
	my %sql = (
		'in a statement' => 'SELECT pg_sleep(600)',
		'in a function' => 'SELECT stubborn()',
		'in le_run' =>
		  "CALL le_run('e', 'SELECT pg_sleep(600)', job => 'late', on_loss => 'cancel')");
	my %session =
	  map { $_ => LeaderElection::Session->new($node) } keys %sql;

	$node->wait_for_leadership('e', left => 2);
	foreach my $what (sort keys %sql)
	{
		$session{$what}->query("BEGIN; $gate") unless $what eq 'in le_run';
		$session{$what}->start($sql{$what});
	}
	$node->wait_for(
		"SELECT count(*) = 3 FROM pg_stat_activity WHERE wait_event = 'PgSleep'",
		'all to sleep');

	my $worker = $node->freeze_worker;
	my $frozen = boottime_ns();

	foreach my $what (sort keys %sql)
	{
		my $result = $session{$what}->finish;

		like($result->{error},
			qr/ERROR:  LE002: canceling statement due to loss of election "e"/,
			"$what: canceled");
		before($result->{at}, $frozen + 300e9, "$what: long before its end");
	}
	is($session{'in a statement'}->error('COMMIT'), '', 'nothing comes after it');
	$node->thaw_worker($worker);
	$_->quit foreach values %session;
	return;
}

foreach my $order (@orders)
{
	my $what = join(', ', @$order);

	subtest $what => sub {
		my $offset = $node->log_offset;

		$node->set('shared_preload_libraries', join(', ', @$order));
		$node->start;
		$node->sql(<<'END') if $order == $orders[0];
CREATE EXTENSION leader_election;
CREATE EXTENSION pg_cron;
CREATE EXTENSION pgaudit;
CREATE EXTENSION pg_stat_statements;
CREATE EXTENSION plpgsql_check;
CREATE TABLE work (what text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM 1;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER note AFTER INSERT ON work
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();
CREATE FUNCTION bill(what text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	token bigint := le_require_leader('e', on_loss => 'cancel');
BEGIN
	INSERT INTO work VALUES (bill.what);
	RETURN token;
END $$;
CREATE FUNCTION bill_and_release(what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM le_require_leader('own');
	INSERT INTO work VALUES (bill_and_release.what);
	PERFORM le_release('own');
END $$;
CREATE PROCEDURE steps() LANGUAGE plpgsql AS $$
BEGIN
	COMMIT;
	PERFORM le_require_leader('own');
	INSERT INTO work VALUES ('refused');
	PERFORM le_release('own');
	COMMIT;
END $$;
CREATE FUNCTION stubborn() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_sleep(600);
EXCEPTION WHEN OTHERS THEN
	RAISE WARNING 'swallowed';
END $$;
END
		$node->sql('TRUNCATE work; SELECT pg_stat_statements_reset()');
		$node->sql("DELETE FROM cron.job");
		$node->wait_for_leadership('e', left => 1.5);
		gate();
		commit_refusal();
		run();
		cancel();

		# that they were there and at work, as we were
		my $log = $node->log_since($offset);

		like($log, qr/AUDIT: SESSION/, 'pgaudit was at work');
		like($log, qr/LOG:  duration: .* plan:/, 'so was auto_explain');
		is( $node->sql(q(SELECT count(*) > 0 FROM pg_stat_statements
				WHERE query LIKE '%le_require_leader%')),
			't',
			'and pg_stat_statements');
		is( $node->sql(q(SELECT count(*) FROM pg_stat_activity
				WHERE backend_type = 'pg_cron launcher')),
			1,
			'and pg_cron');
		unlike($log, qr/PANIC|TRAP|XX\d{3}|terminated by signal/, 'nothing odd');
		$node->stop;

		# the claims of one order are not to be met by the next
		# as if it had never led
		unlink map { $node->data_dir . "/leader_election.$_" } 'claims', 'tokens';
	};
}

done_testing();
