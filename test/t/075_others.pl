# Tier: test, 34 s
#
# Beside other extensions: their work when a transaction is about to commit must not
# get around the fence, nor the fence in the way of their work.

use strict;
use warnings;

use LeaderElection::Module;
use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use Test::More;

my $library = built_module('others');
my $node = LeaderElection::Node->create('a', settings => { campaign => 'e', lease_ttl => '60s' });
my %gate = map { $_ => "SELECT le_require_leader('e', on_loss => '$_')" } 'none', 'cancel';

$node->sql(<<"END");
CREATE FUNCTION others_at_commit(command text, times int) RETURNS void AS '$library' LANGUAGE C;
CREATE FUNCTION others_sleep(how text, ms int) RETURNS int AS '$library' LANGUAGE C;
CREATE TABLE audit (i int);
CREATE TABLE work (i int);
CREATE FUNCTION pass_and_lose(lose bool) RETURNS int LANGUAGE plpgsql AS \$\$
BEGIN
	PERFORM le_require_leader('own');
	IF lose THEN
		PERFORM le_release('own');
	END IF;
	RETURN 1;
END \$\$;
CREATE PROCEDURE work_and_commit(lose bool, times int) LANGUAGE plpgsql AS \$\$
DECLARE
	one int;
BEGIN
	one := pass_and_lose(lose);
	PERFORM others_at_commit('INSERT INTO audit VALUES (1)', times);
	INSERT INTO work VALUES (one);
	COMMIT;
END \$\$;
CREATE FUNCTION register_and_go_on() RETURNS int LANGUAGE plpgsql AS \$\$
BEGIN
	PERFORM others_at_commit('INSERT INTO audit VALUES (1)', 1);
	PERFORM count(*) FROM work;
	RETURN 1;
END \$\$;
CREATE PROCEDURE assign_and_commit(lose bool) LANGUAGE plpgsql AS \$\$
DECLARE
	one int;
BEGIN
	one := pass_and_lose(lose);
	one := register_and_go_on();
	COMMIT;
END \$\$;
CREATE PROCEDURE catch_and_commit(lose bool) LANGUAGE plpgsql AS \$\$
DECLARE
	one int;
BEGIN
	PERFORM pass_and_lose(lose);
	BEGIN
		PERFORM 1 / count(*) FROM work WHERE false;
	EXCEPTION WHEN division_by_zero THEN
		one := register_and_go_on();
	END;
	COMMIT;
END \$\$;
CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
	IF new.i = 1 THEN
		PERFORM le_release('own');
	END IF;
	PERFORM others_at_commit('INSERT INTO audit VALUES (1)', 3);
	RETURN NULL;
END \$\$;
CREATE TABLE deferred (i int);
CREATE CONSTRAINT TRIGGER lose AFTER INSERT ON deferred
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lose();
END

# A session that has the other extension, but has not used it yet.
sub session
{
	my $session = LeaderElection::Session->new($node);

	$session->query("LOAD '$library'");
	is($session->query("SELECT le_acquire('own', wait => '1 min', scope => 'session')"), 't', 'acquired');
	return $session;
}

sub rows_of
{
	return join ' ', map { $node->sql("SELECT count(*) FROM $_") } @_;
}

# The other's callback is called before ours and runs statements of its own.  LOSE:
# whether the term is over by then.
sub at_commit
{
	my ($what, $statement) = @_;

	foreach my $lose (0, 1)
	{
		my $session = session();
		my $error;

		$node->sql('TRUNCATE audit, work, deferred');
		$error = $session->error($statement =~ s/LOSE/$lose/r);
		my $calls = () = $error =~ /called at commit/g;

		if ($lose)
		{
			cmp_ok($calls, '<', 2, "$what: the other is not called twice");
			like($error, qr/ERROR:  LE002: no longer leader of election "own"/, "$what: refused");
			guarantee('G3', [ grep { rows_of($_) > 0 } 'work', 'audit', 'deferred' ], "$what: nothing was committed");
		}
		else
		{
			is($calls, 1, "$what: the other is called once") or diag($error);
			unlike($error, qr/ERROR/, "$what: passes");
			like(rows_of('work', 'audit', 'deferred'), qr/^(1 [13] 0|0 3 1)$/, "$what: all was committed");
			$session->query("SELECT le_release('own')");
		}
		$session->quit;
	}
	return;
}

subtest 'statements of a callback at commit' => sub {
	at_commit('one statement',
		"INSERT INTO work SELECT pass_and_lose(LOSE::bool) FROM others_at_commit('INSERT INTO audit VALUES (1)', 1)");
	at_commit('one statement, several of the callback',
		"INSERT INTO work SELECT pass_and_lose(LOSE::bool) FROM others_at_commit('INSERT INTO audit VALUES (1)', 3)");
	at_commit('a block',
		"BEGIN; INSERT INTO work SELECT pass_and_lose(LOSE::bool) FROM others_at_commit('INSERT INTO audit VALUES (1)', 1); COMMIT");
	at_commit('a procedure', 'CALL work_and_commit(LOSE::bool, 1)');
	at_commit('a procedure, several of the callback', 'CALL work_and_commit(LOSE::bool, 3)');
	at_commit('in a deferred trigger',
		"INSERT INTO deferred SELECT LOSE FROM le_require_leader('own')");
};

# Our callback is called before any that is newer at the commit: also where the last
# statement before it was in a function, or in a block that has caught an error.
subtest 'newest at the commit of a procedure' => sub {
	foreach my $procedure ('assign_and_commit', 'catch_and_commit')
	{
		my $session = session();

		is($session->error("CALL $procedure(false)") =~ s/.*(called at commit).*/$1/sr, 'called at commit',
			"$procedure: the other is called");
		$session->query("SELECT le_release('own')");
		$session->quit;
		$session = session();
		my $error = $session->error("CALL $procedure(true)");

		like($error, qr/ERROR:  LE002: no longer leader of election "own"/, "$procedure: refused");
		unlike($error, qr/called at commit/, "$procedure: before the other is called");
		$session->quit;
	}
};

# Statements of a function in a loop cost no memory of the session, however a commit
# may follow it.
subtest 'statements without end' => sub {
	my $n = 100_000;
	my $memory = sub {
		my ($session, $column) = @_;

		return $session->query("SELECT $column FROM pg_backend_memory_contexts WHERE name = 'TopMemoryContext'");
	};

	$node->sql(<<'END');
CREATE FUNCTION one_query() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	PERFORM count(*) FROM audit WHERE false;
	RETURN 1;
END $$;
CREATE FUNCTION many_queries(n int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		PERFORM count(*) FROM audit WHERE false;
	END LOOP;
	RETURN 1;
END $$;
CREATE PROCEDURE many_in_block(n int) LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		FOR i IN 1 .. n LOOP
			PERFORM count(*) FROM audit WHERE false;
		END LOOP;
	EXCEPTION WHEN division_by_zero THEN
	END;
	COMMIT;
END $$;
CREATE PROCEDURE many_assignments(n int) LANGUAGE plpgsql AS $$
DECLARE
	one int;
BEGIN
	FOR i IN 1 .. n LOOP
		one := one_query();
	END LOOP;
	COMMIT;
END $$;
CREATE FUNCTION many_in_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM many_queries(new.i);
	FOR i IN 1 .. new.i LOOP
		PERFORM count(*) FROM audit WHERE false;
	END LOOP;
	RETURN NULL;
END $$;
CREATE TABLE deferred_work (i int);
CREATE CONSTRAINT TRIGGER many AFTER INSERT ON deferred_work
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION many_in_trigger();
CREATE PROCEDURE many_at_commit(n int) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO deferred_work VALUES (n);
	COMMIT;
END $$;
CREATE FUNCTION many_acquired(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	yes bool;
BEGIN
	FOR i IN 1 .. n LOOP
		yes := le_acquire('many', scope => 'session');
	END LOOP;
	RETURN n;
END $$;
END
	$node->wait_for_leadership('e');
	foreach my $statement (
		"CALL le_run('e', 'SELECT many_queries($n)')",
		"CALL le_run('e', 'DO ''BEGIN PERFORM many_queries($n); END''')",
		"CALL le_run('e', 'CALL many_in_block($n)')",
		"CALL le_run('e', 'CALL many_assignments($n)')",
		"CALL le_run('e', 'CALL many_at_commit($n)')",
		'SELECT many_acquired(5000)')
	{
		my $session = LeaderElection::Session->new($node);
		my $first = $statement =~ s/\d{4,}/10/r;
		my ($used, $total);

		is($session->error($first), '', "$first: passes");
		$used = $memory->($session, 'used_bytes');
		$total = $memory->($session, 'total_bytes');
		is($session->error($statement), '', "$statement: passes");
		cmp_ok($memory->($session, 'used_bytes') - $used, '<', 50_000, 'and leaves nothing behind');
		# blocks stay when what is in them is freed, and one may be large
		cmp_ok($memory->($session, 'total_bytes') - $total, '<', 2_000_000, 'nor did it need more meanwhile');
		$session->quit;
	}
};

# A gate that is passed only by the callback: the transaction is bound all the same.
subtest 'the gate at commit' => sub {
	my $session = session();
	my $error;

	$node->sql('TRUNCATE audit, work');
	$error = $session->error("INSERT INTO work SELECT 1 FROM others_at_commit('SELECT pass_and_lose(true)', 1)");
	like($error, qr/ERROR:  LE002: no longer leader of election "own"/, 'refused');
	denied('G3', rows_of('work'), 'nothing was committed');
};

# A transaction that is bound is looked at when its deadline comes close, of which
# a signal tells; before that, nothing may be cut short.
subtest 'a wait is not cut short' => sub {
	my %sessions;

	$node->wait_for_leadership('e');
	foreach my $on_loss (sort keys %gate)
	{
		foreach my $how ('sleep', 'poll', 'nanosleep')
		{
			my $session = $sessions{"on_loss => '$on_loss', $how()"} = LeaderElection::Session->new($node);

			$session->query("BEGIN; $gate{$on_loss}");
			$session->start("SELECT others_sleep('$how', 3000)");
		}
	}
	cmp_ok($sessions{$_}->finish->{output}, '>=', 2999, $_) foreach sort keys %sessions;
};

# The limit of pending signals stands in for whatever keeps a timer from being made.
subtest 'no timer can be had' => sub {
	my $session = LeaderElection::Session->new($node);
	my $limit = sub {
		system('prlimit', '--pid', $session->pid, "--sigpending=$_[0]:") == 0 or die 'prlimit failed';
	};
	my %seen;

	$limit->(0);
	$seen{ $session->error($gate{cancel}) =~ s/.*ERROR:  (\S+: [^:\n]*).*/$1/sr }++ foreach 1 .. 40;
	is_deeply(\%seen, { '53000: could not create a timer for leader_election' => 40 }, 'refused each time')
	  or diag(explain(\%seen));
	is($session->error($gate{none}), '', 'a transaction that needs none passes');
	$limit->(1000);
	is($session->error($gate{cancel}), '', 'nothing is used up');
};

# A user cancels while the cancel for a lost term is under way already.  When the bound
# work is rolled back, that one is not needed any more; the user's still is.  Both come
# while code of another extension is deaf to them.
subtest "a user's own cancel" => sub {
	my $lead = 5000;
	my $short = LeaderElection::Node->create(
		'short',
		settings => { lease_ttl => '8s', renew_interval => '1s', safety_margin => '500ms', commit_margin => '100ms', cancel_lead => "${lead}ms", campaign => 'e' });

	$short->sql(<<"END");
CREATE FUNCTION others_fail(ms int) RETURNS void AS '$library' LANGUAGE C;
CREATE FUNCTION bound_and_deaf(ms int) RETURNS text LANGUAGE plpgsql AS \$\$
BEGIN
	BEGIN
		PERFORM le_require_leader('e', on_loss => 'cancel');
		PERFORM others_fail(ms);
	EXCEPTION WHEN division_by_zero THEN
		NULL;
	END;
	PERFORM pg_sleep(0.2);
	RETURN 'went on';
END \$\$;
END
	foreach my $canceled (0, 1)
	{
		my $session = LeaderElection::Session->new($short);
		my ($worker, $left, $from, $result);

		$short->wait_for_leadership('e', left => 6);
		$worker = $short->freeze_worker;
		$left = $short->sql("SELECT 1000 * extract(epoch FROM expires_at - clock_timestamp()) FROM le_status WHERE election = 'e'");
		$from = boottime_ns();
		$session->start(sprintf('SELECT bound_and_deaf(%d)', $left - $lead + 3000));
		poll_until(sub { boottime_ns() - $from > ($left - $lead + 200) * 1e6 }, 'the cancel');
		$short->sql('SELECT pg_cancel_backend(' . $session->pid . ')') if $canceled;
		$result = $session->finish;
		$short->thaw_worker($worker);
		# as one or the other: once both have come, nobody can tell whose it is
		like($result->{error}, qr/ERROR:  (?:57014|LE002): canceling statement/, 'is not lost') if $canceled;
		is($result->{output}, $canceled ? '' : 'went on', 'and without it nothing is hit');
	}
};

done_testing();
