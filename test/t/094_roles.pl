# Tier: test, 17 s
#
# All acts of jobs and their operators, as ordinary login roles that have the
# documented grants only; and refusals to everybody else.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Docs;
use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my $node = LeaderElection::Node->create(
	'a',
	consul => $consul,
	settings => {
		lease_ttl => '3s',
		renew_interval => '500ms',
		safety_margin => '500ms',
		commit_margin => '100ms',
		cancel_lead => '700ms',
		drain_timeout => '1s',
		campaign => 'billing'
	});
my $tick = "'2020-01-01 00:00:00+00'";

$node->sql(block('grants'));
$node->sql(<<'END');
CREATE ROLE nobody LOGIN;
CREATE TABLE others (election text PRIMARY KEY, fencing_token bigint NOT NULL);
CREATE SCHEMA worker AUTHORIZATION billing_worker;
CREATE SCHEMA runner AUTHORIZATION billing_runner;
END
$node->wait_for_leadership('billing');

sub as
{
	my ($role) = @_;

	return LeaderElection::Session->new($node, user => $role);
}

sub log_of
{
	my ($schema, $what) = @_;

	return $node->sql("SELECT count(*) FROM $schema.log WHERE what = '$what'");
}

my ($worker, $runner, $operator, $nobody) =
  map { as($_) } 'billing_worker', 'billing_runner', 'billing_operator', 'nobody';

# Nothing renews the lease until the code is done.
sub without_renewal
{
	my ($code) = @_;
	my $pid = $node->freeze_worker;

	$code->();
	$node->thaw_worker($pid);
	$node->wait_for_leadership('billing', left => 1.5);
	return;
}

is($node->sql(q{SELECT count(*) FROM pg_roles WHERE rolname ~ '^(billing_|nobody)'
		AND rolcanlogin AND NOT (rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls)}),
	5, 'ordinary roles');

subtest 'gate and fence' => sub {
	my $token;

	$worker->query('CREATE TABLE worker.log (what text)');
	$token = $worker->query("BEGIN; SELECT le_require_leader('billing')");
	same_term($token, $worker->query("SELECT le_fencing_token('billing')"), 'the token');
	is($worker->error("INSERT INTO worker.log VALUES ('gate'); COMMIT"), '', 'committed');
	is($worker->query("SELECT le_progress('billing'), le_progress('other')"), 't|f', 'told of it');
	like($worker->error("SELECT le_require_leader('billing', '1 min')"),
		qr/LE001: .*min_remaining/s, 'not for as long as that');
	like($worker->error("SELECT le_require_leader('other')"), qr/LE001/, 'not of another');

	$worker->query("BEGIN; SELECT le_require_leader('billing', on_loss => 'none'); INSERT INTO worker.log VALUES ('late')");
	without_renewal(
		sub {
			poll_until(sub { !$node->is_leader('billing') }, 'the deadline');
			like($worker->error('COMMIT'), qr/LE002: no longer leader/, 'refused after its term');
		});
	foreach my $how ("on_loss => 'cancel'", 'setting')
	{
		my $set = $how eq 'setting' ? "SET leader_election.on_loss = 'cancel'; " : '';
		my $more = $how eq 'setting' ? '' : ", $how";

		$worker->query("${set}BEGIN; SELECT le_require_leader('billing'$more); INSERT INTO worker.log VALUES ('late')");
		$worker->start('SELECT pg_sleep(60)');
		without_renewal(
			sub {
				like($worker->finish->{error},
					qr/LE002: canceling statement due to loss of election "billing"/, "stopped: $how");
			});
		$worker->query('ROLLBACK; RESET leader_election.on_loss');
	}
	is(log_of('worker', 'gate'), 1, 'the commits');
	denied('G3', log_of('worker', 'late'), 'and nothing after a term');
	like($worker->error("BEGIN; SELECT le_require_leader('billing'); PREPARE TRANSACTION 'x'"), qr/0A000/, 'not in two phases');
	$worker->query('ROLLBACK');
};

subtest 'guard' => sub {
	my $guard = "SELECT le_fence_guard('worker.guard', 'billing')";
	my ($token, $older);

	$worker->query('CREATE TABLE worker.guard (election text PRIMARY KEY, fencing_token bigint NOT NULL)');
	$token = $worker->query($guard);
	is($worker->query('SELECT election, fencing_token FROM worker.guard'), "billing|$token", 'in a table of its own');
	$worker->query('UPDATE worker.guard SET fencing_token = fencing_token + 1000000');
	$older = $worker->error($guard);
	guarantee('G3', [ $older eq '' ? 'an older leader' : () ], 'an older leader is not let in');
	like($older, qr/LE002.*has seen a higher fencing token/s, 'and told why');
	like($worker->error("SELECT le_fence_guard('others', 'billing')"),
		qr/42501: permission denied for table others/, "not in another's table");
	$node->sql('GRANT SELECT, INSERT, UPDATE ON others TO billing_worker');
	like($worker->error("SELECT le_fence_guard('others', 'billing')"), qr/^$/, 'but with the documented grants');
};

subtest 'scopes' => sub {
	my $take = "SELECT le_acquire('own', wait => '3 min', scope => 'transaction')";
	my $error;

	is($worker->query("BEGIN; $take; INSERT INTO worker.log VALUES ('scope'); SELECT le_is_leader('own')"), "t\nt", 'transaction');
	is($worker->error('COMMIT'), '', 'committed');
	is($worker->query("BEGIN; $take"), 't', 'and again');
	$error = $worker->error("SELECT le_release('own'); COMMIT");
	guarantee('G3', [ $error eq '' ? 'COMMIT' : () ], 'fenced: not committed');
	like($error, qr/LE002/, 'fenced: released before the commit');
	is($worker->query("SELECT le_acquire('own', wait => '3 min', scope => 'session', on_loss => 'cancel')"), 't', 'session');
	is($worker->query("SELECT le_renew('own', 'a value'), le_release('own')"), 't|t', 'renewed and released');
	is(log_of('worker', 'scope'), 1, 'the commits');
};

subtest 'claims' => sub {
	my @claimed = map { $_->query("SELECT le_claim('billing', 'by hand', $tick)") }
	  $worker, as('billing_worker');

	guarantee('G4', [ "@claimed" eq 't t' ? 'by hand' : () ], 'not twice');
	is("@claimed", 't f', 'claimed, once');
	is($worker->query("SELECT le_complete('billing', 'by hand', $tick)"), 't', 'done');
	is($operator->query("SELECT state, try, node FROM le_claims WHERE job = 'by hand'"), 'done|1|a', 'as the operator sees');
	like($worker->error('SELECT * FROM le_claims'), qr/42501/, 'the worker does not');
};

subtest 'le_run' => sub {
	my $run = sub {
		my ($what, $more) = @_;

		return "CALL le_run('billing', 'CALL runner.work(''$what'')'" . ($more // '') . ')';
	};
	my $state = sub {
		return $operator->query("SELECT state, try FROM le_claims WHERE job = '$_[0]'");
	};
	my $at = sub {
		return sprintf(", job => '%s', tick => '2020-01-01 00:00:%02d+00'", $_[0], $_[1] // 0);
	};
	my $other = as('billing_runner');

	$runner->query(<<'END');
CREATE TABLE runner.log (what text, tick timestamptz, who name DEFAULT current_user);
CREATE PROCEDURE runner.work(what text) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO runner.log VALUES (what, le_tick());
	COMMIT;
	INSERT INTO runner.log VALUES (what || ' again', le_tick());
END $$;
END
	is($runner->error($run->('plain')), '', 'no claim');
	is($runner->error($run->('every', ", job => 'every', every => '1 day'")), '', 'every');
	is($runner->error($run->('every', ", job => 'every', every => '1 day'")), '', 'and again');
	is($runner->error($run->('tick', $at->('tick'))), '', 'tick');
	is($runner->error($run->('none', $at->('none') . ", on_loss => 'none'")), '', 'on_loss');
	is(join(' ', map { log_of('runner', $_) . log_of('runner', "$_ again") } 'plain', 'every', 'tick', 'none'),
		'11 11 11 11', 'each has run once, up to its end');
	is($runner->query('SELECT DISTINCT who FROM runner.log'), 'billing_runner', 'as the caller');
	is($state->('tick'), 'done|1', 'done');
	like($runner->error("CALL le_run('billing', 'SELECT pg_reload_conf()'" . $at->('more') . ')'),
		qr/42501/, 'with its privileges');
	is($state->('more'), 'failed|1', 'failed');

	# wait: there is no leader for a while
	is($operator->query("SELECT le_step_down('billing', '1 s')"), 't', 'stepped down');
	is($runner->error($run->('gap', $at->('gap'))), '', 'not the leader: quietly nothing');
	is($runner->error($run->('gap', $at->('gap') . ", wait => '3 min'")), '', 'wait');
	is(log_of('runner', 'gap'), 1, 'has run in its turn');

	# catch_up: a session that died, and a later term
	$other->start("CALL le_run('billing', 'SELECT pg_sleep(60)'" . $at->('dead') . ')');
	poll_until(sub { $state->('dead') eq 'running|1' }, 'it to begin');
	$runner->query('SELECT pg_terminate_backend(' . $other->pid . ')');
	ok($other->finish->{lost}, 'terminated');
	$operator->query("SELECT le_step_down('billing', '0')");
	$node->wait_for_leadership('billing');
	is($runner->error($run->('dead', $at->('dead', 1) . ', catch_up => true')), '', 'catch_up');
	is($runner->query("SELECT string_agg(extract(second FROM tick)::int::text, ',' ORDER BY tick) FROM runner.log WHERE what = 'dead'"),
		'0,1', 'the old tick, and the new one');

	# stopped, without asking for it
	$other = as('billing_runner');
	$other->start("CALL le_run('billing', 'SELECT pg_sleep(60)'" . $at->('stopped') . ')');
	poll_until(sub { $state->('stopped') eq 'running|1' }, 'it to begin');
	without_renewal(sub { like($other->finish->{error}, qr/LE002: canceling statement/, 'stopped'); });
	is($state->('stopped'), 'running|1', 'for a leader that catches up');
	guarantee('G4',
		[ split /\n/, $node->sql('SELECT what, tick FROM runner.log WHERE tick IS NOT NULL '
				  . 'GROUP BY 1, 2 HAVING count(*) > 1') ],
		'no tick ran twice');
	like($runner->error("BEGIN; CALL le_run('billing', 'SELECT 1')"), qr/25001/, 'not in a transaction block');
	$runner->query('ROLLBACK');
};

subtest 'the operator' => sub {
	is($operator->query("SELECT le_current_leader('billing'), leader FROM le_leader('billing')"), 'a|a', 'the leader');
	is($operator->query("SELECT state FROM le_status WHERE election = 'billing'"), 'leader', 'le_status');
	is($operator->query('SELECT state FROM le_nodes'), 'live', 'le_nodes');
	foreach my $event ('acquired', 'stepped down', 'claimed', 'run started', 'run done', 'run failed', 'fence aborted', 'canceled')
	{
		cmp_ok($operator->query("SELECT count(*) FROM le_events WHERE election = 'billing' AND event = '$event'"),
			'>', 0, "le_events: $event");
	}
	is( $operator->query('SELECT gate_passed > 5, gate_refused > 0, fence_aborts > 0, cancels > 0, runs > 5, claims > 5, skips > 0, failed > 0 '
			  . "FROM le_stat() WHERE election = 'billing'"),
		't|t|t|t|t|t|t|t', 'le_stat');
	is($operator->query("SELECT count(*) > 0 FROM le_jobs WHERE election = 'billing'"), 't', 'le_jobs');
	is($operator->query("SELECT count(*) FROM le_history('billing', max_rows => 3)"), 3, 'le_history()');
	is($operator->query(q(SELECT count(*) FROM le_check_config() WHERE level = 'error')), 0, 'le_check_config()');
	like($operator->error('SELECT le_stat_reset()'), qr/42501: permission denied for function le_stat_reset/, 'le_stat_reset() needs a grant');
	$node->sql('GRANT EXECUTE ON FUNCTION le_stat_reset TO billing_operator');
	is($operator->error('SELECT le_stat_reset()'), '', 'and works with it');
	is($operator->query("SELECT runs FROM le_stat_jobs WHERE election = 'billing'"), 0, 'all counters are zero');
	like($operator->error("SET leader_election.cancel_lead = '1s'"), qr/55P02/, 'settings of the instance are not for sessions');
};

# Every function and view of the extension is either documented for a role or refused
# to it, before it looks at its arguments.
subtest 'the others' => sub {
	my $signatures = <<'END';
SELECT p.prokind, p.proname, (SELECT coalesce(string_agg('NULL::' || t::regtype, ', ' ORDER BY o), '')
	FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY a (t, o))
FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e' AND d.classid = 'pg_proc'::regclass
	JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'leader_election'
ORDER BY p.proname
END
	# those for pg_cron do nothing that their caller may not do without them
	my $cron = 'le_cron_adopt le_cron_alter le_cron_check le_cron_every le_cron_jobs'
	  . ' le_cron_release le_cron_schedule le_cron_server le_cron_taken le_cron_ticks le_cron_timezone le_cron_unschedule';
	my $public = "$cron le_fencing_token le_is_leader le_remaining le_run_call le_run_command le_seeks le_tick le_version";
	my $rows = 'le_claims le_events le_jobs le_nodes le_stat le_status';
	my $views = "$rows le_stat_info le_stat_jobs le_stat_store";
	my %may = (
		nobody => $public,
		billing_job => $public,
		billing_runner => "$public le_run",
		billing_worker => "$public le_acquire le_claim le_claim_tick le_complete le_fail le_fence_guard le_progress le_release le_renew le_require_leader",
		billing_operator => "$public $rows le_check_config le_history le_current_leader le_leader le_stat_reset le_step_down");
	my @signatures = map { [ split /\|/, $_, -1 ] } split /\n/, $node->sql($signatures);

	cmp_ok(scalar @signatures, '>=', 25, 'all of them');
	foreach my $role (sort keys %may)
	{
		my $session = as($role);
		my (@allowed, @seen);

		foreach my $signature (@signatures)
		{
			my ($kind, $name, $arguments) = @$signature;
			my $error = $session->error($kind eq 'p' ? "CALL $name($arguments)"
				: "BEGIN; SELECT * FROM $name($arguments)");

			$session->query('ROLLBACK') if $kind ne 'p';
			push @allowed, $name
			  unless $error =~ /42501: permission denied for (function|procedure) \Q$name\E$/m;
		}
		is(join(' ', @allowed), join(' ', sort split / /, $may{$role}), "functions that $role may call");
		foreach my $view (split / /, $views)
		{
			push @seen, $view
			  unless $session->error("SELECT * FROM $view") =~ /42501: permission denied for view $view/;
		}
		is(join(' ', @seen), $may{$role} =~ /le_status/ ? $views : '', "views that $role may read");
	}
	is($nobody->query("SELECT le_is_leader('billing'), le_fencing_token('billing') > 0, le_tick() IS NULL"), 't|t|t', 'functions for everybody');
};

done_testing();
