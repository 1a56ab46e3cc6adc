# Tier: test, 54 s
#
# Stop in time: a statement is canceled before its term's deadline, whatever
# it does, and nothing that comes after it in the same session.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;


# As long before the deadline as a machine may stand still.
my $lead = 5000;    # ms
my $consul = LeaderElection::Consul->new('consul')->start;
my $node = LeaderElection::Node->create(
	'a',
	consul => $consul,
	settings => {
		lease_ttl => '8s',
		renew_interval => '1s',
		safety_margin => '500ms',
		commit_margin => '100ms',
		cancel_lead => "${lead}ms",
		campaign => 'e'
	});
my $gate = "SELECT le_require_leader('e', on_loss => 'cancel')";
my $lost = qr/ERROR:  LE002: canceling statement due to loss of election "e"/;

# The same for a statement that comes past the point: the cancel may meet it while
# it is being parsed.
my $stopped = qr/$lost|ERROR:  57014: canceling statement due to user request/;
my $came_close = qr/DETAIL:  The term with fencing token \d+: its deadline came closer than cancel_lead \($lead ms\)\./;
my (@before_deadline, @after_loss);

$node->wait_for_leadership('e');
$node->sql(<<'END');
CREATE TABLE work (i int PRIMARY KEY);
INSERT INTO work SELECT generate_series(1, 10);
CREATE TABLE log (what text);
CREATE FUNCTION burn() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	LOOP
		PERFORM 1;
	END LOOP;
END $$;
CREATE FUNCTION stubborn() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_sleep(60);
EXCEPTION WHEN OTHERS THEN
	RAISE WARNING 'swallowed';
END $$;
CREATE FUNCTION deaf() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		PERFORM pg_sleep(60);
	EXCEPTION WHEN query_canceled THEN
		RAISE WARNING 'caught %', SQLSTATE;
	END;
	PERFORM pg_sleep(60);
END $$;
CREATE FUNCTION clumsy() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..100 LOOP
		BEGIN
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN
			NULL;
		END;
	END LOOP;
	PERFORM pg_sleep(60);
END $$;
CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_sleep(60);
	RETURN NULL;
END $$;
CREATE TABLE deferred (i int);
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON deferred
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late();
CREATE FUNCTION late_stubborn() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_sleep(60);
	RETURN NULL;
EXCEPTION WHEN OTHERS THEN
	RAISE WARNING 'swallowed';
	RETURN NULL;
END $$;
CREATE TABLE deferred_stubborn (i int);
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON deferred_stubborn
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late_stubborn();
CREATE PROCEDURE steps() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..100000 LOOP
		PERFORM le_require_leader('e', on_loss => 'cancel');
		PERFORM pg_sleep(0.05);
		COMMIT;
	END LOOP;
END $$;
CREATE FUNCTION spin(until timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	WHILE clock_timestamp() < until LOOP
	END LOOP;
END $$;
CREATE FUNCTION unrelated() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_sleep(0.03);
	RETURN 'unrelated';
END $$;
END

# The term goes on for a second at least until it is time to cancel.
sub wait_for_term
{
	return $node->wait_for_leadership('e', left => $lead / 1000 + 1);
}

# Where a term is lost at once, its deadline is far away.
sub lease_is_long
{
	$node->configure(lease_ttl => '60s');
	return $node->wait_for_leadership('e', left => 50);
}

# The deadline on the clock of the test's own measurements.
sub deadline
{
	my ($election) = @_;
	my $before = boottime_ns();
	my $left = $node->sql("SELECT extract(epoch FROM expires_at - "
		  . "clock_timestamp()) FROM le_status WHERE election = '$election'");
	my $after = boottime_ns();

	return ($before + $left * 1e9, $after + $left * 1e9);
}

# Nothing renews the lease; statements run into its end.
sub run_out
{
	my (%sessions) = @_;
	my $worker = $node->freeze_worker;
	my ($early, $late) = deadline('e');
	my %result;

	poll_until(
		sub {
			# looked at often: the time of an answer is that of its reading
			$result{$_} = $sessions{$_}->finish
			  foreach grep { !$result{$_} && $sessions{$_}->is_done }
			  keys %sessions;
			return keys %result == keys %sessions;
		},
		'the statements to be stopped',
		interval => 0.002);
	foreach my $what (sort keys %result)
	{
		my $at = $result{$what}->{at};

		like($result{$what}->{error}, $what =~ /swallows/ ? $stopped : $lost, "$what: stopped");
		like($result{$what}->{error}, $came_close, "$what: since the deadline came close")
		  unless $what =~ /swallows/;
		cmp_ok($at, '>', $early - ($lead + 20) * 1e6,
			"$what: not before its time");
		push @before_deadline, ($late - $at) / 1e6;
	}
	$node->thaw_worker($worker);
	wait_for_term();
	return \%result;
}

subtest 'whatever it does' => sub {
	my %sessions = map { $_ => LeaderElection::Session->new($node) }
	  qw(sleep burn lock stubborn deaf clumsy deferred procedure one-statement swallows);
	my $blocker = LeaderElection::Session->new($node);
	my $result;

	$blocker->query('BEGIN; UPDATE work SET i = i + 100 WHERE i = 1');
	$sessions{$_}->query("BEGIN; $gate; INSERT INTO log VALUES ('$_')")
	  foreach grep { $_ ne 'procedure' && $_ ne 'one-statement' } keys %sessions;
	$sessions{sleep}->start('SELECT pg_sleep(60)');
	$sessions{burn}->start('SELECT burn()');
	$sessions{lock}->start('UPDATE work SET i = i + 100 WHERE i = 1');
	$sessions{stubborn}->start('SELECT stubborn()');
	$sessions{deaf}->start('SELECT deaf()');
	$sessions{clumsy}->start('SELECT clumsy()');
	$sessions{deferred}->start('INSERT INTO deferred VALUES (1); COMMIT');
	$sessions{swallows}->start('INSERT INTO deferred_stubborn VALUES (1); COMMIT');
	$sessions{procedure}->start('CALL steps()');
	$sessions{'one-statement'}->start("SELECT pg_sleep(60) FROM le_require_leader('e', on_loss => 'cancel')");
	$result = run_out(%sessions);
	unlike($result->{$_}->{error}, qr/swallowed/, "$_: WHEN OTHERS does not swallow the cancel")
	  foreach 'stubborn', 'swallows';
	like($result->{deaf}->{error}, qr/WARNING:.*caught 57014/,
		'inside it is a cancel; who catches that is canceled again');
	$blocker->query('ROLLBACK');
	guarantee('G3', [ split /\n/, $node->sql('TABLE log') ], 'nothing was committed');
	is($sessions{$_}->query('ROLLBACK; SELECT unrelated()'), 'unrelated', "$_: the session goes on")
	  foreach sort keys %sessions;
};

# A cancel finds nothing to cancel while the client thinks.
subtest 'idle in transaction' => sub {
	my ($one, $two) = map { LeaderElection::Session->new($node) } 1, 2;
	my $worker;
	my $early;
	my $result;

	$_->query("BEGIN; $gate; INSERT INTO log VALUES ('idle')") foreach $one, $two;
	$worker = $node->freeze_worker;
	($early) = deadline('e');
	poll_until(sub { boottime_ns() > $early - ($lead - 100) * 1e6 }, 'the cancel point', interval => 0.01);
	$result = $one->start('SELECT pg_sleep(60)')->finish;
	like($result->{error}, $stopped, 'the next statement is stopped');
	like($two->error('COMMIT'), $stopped, 'and so is a commit, with time left for it');
	still_leads($node, 'e', 'before the deadline');
	$node->thaw_worker($worker);
	is($one->query('ROLLBACK; SELECT unrelated()'), 'unrelated', 'the session goes on');
	is($two->query('SELECT unrelated()'), 'unrelated', 'so does the other');
	guarantee('G3', [ split /\n/, $node->sql('TABLE log') ], 'nothing was committed');
	wait_for_term();
};

# Renewals carry a statement past the deadline that it began with.
subtest 'a healthy leader' => sub {
	my $session;

	# the deadline as it was at first comes after 7.5 s
	$node->configure(cancel_lead => '200ms');
	$node->wait_for("SELECT current_setting('leader_election.cancel_lead') = '200ms'");
	$session = LeaderElection::Session->new($node);
	is($session->query("BEGIN; $gate; SELECT pg_sleep(8); INSERT INTO log VALUES ('long'); COMMIT; "
			  . 'DELETE FROM log RETURNING what') =~ s/.*\n//sr,
		'long', 'is not canceled');
	$node->configure(cancel_lead => "${lead}ms");
	$node->wait_for("SELECT setting = '$lead' FROM pg_settings WHERE name = 'leader_election.cancel_lead'");
};

# A cancel that nobody has come across when its transaction is over: it comes
# while a rollback is under way that takes a while.  In the second half of it the
# transaction is over already, so it is aimed at the first, in four places.
subtest 'in the middle of a rollback' => sub {
	my $cursors = q{DO $$ BEGIN FOR i IN 1..10000 LOOP
		EXECUTE 'DECLARE c' || i || ' CURSOR FOR SELECT 1'; END LOOP; END $$};
	my $undisturbed = 0;

	foreach my $round (1 .. 10)
	{
		my $session = LeaderElection::Session->new($node);
		my ($early, $worker, $result);

		$session->query("BEGIN; $cursors");
		$early = $lead
		  + 1000 * timed(sub { $session->query('ROLLBACK') }) * (1 + $round % 4) / 10;
		$session->query("BEGIN; $cursors");
		$worker = $node->freeze_worker;
		$session->query($gate);
		$result = $session->start("SELECT spin(expires_at - interval '$early ms') FROM le_status WHERE election = 'e'\\; ROLLBACK\\; SELECT unrelated();")->finish;
		$node->thaw_worker($worker);
		wait_for_term();
		if ($result->{error} eq '')
		{
			last if ++$undisturbed == 4;
			next;
		}
		# late: then it was met in the transaction
		like($result->{error}, qr/ERROR:  (?:LE002|57014)/, "round $round: stopped");
		like($session->error('SELECT 1'), qr/25P02/, "round $round: the transaction itself was hit")
		  or diag($result->{error});
	}
	cmp_ok($undisturbed, '>', 0, 'the next statement is not hit');
};

# on_loss from the setting, and for sessions that hold a term in their name.
subtest 'scopes and settings' => sub {
	my ($setting, $session, $idle, $xact, $none) =
	  map { LeaderElection::Session->new($node) } 1 .. 5;
	my $acquire = sub {
		my ($who, $election, $scope, $more) = @_;

		return $who->query("SELECT le_acquire('$election', scope => '$scope'$more)");
	};
	my $worker;

	$setting->query("SET leader_election.on_loss = 'cancel'; BEGIN; SELECT le_require_leader('e')");
	is($acquire->($session, 's', 'session', ", on_loss => 'cancel'"), 't', 'session');
	is($acquire->($idle, 'i', 'session', ", on_loss => 'cancel'"), 't', 'another');
	$xact->query('BEGIN');
	is($acquire->($xact, 'x', 'transaction', ", on_loss => 'cancel'"), 't', 'transaction');
	$none->query("SET leader_election.on_loss = 'cancel'");
	is($acquire->($none, 'n', 'session', ", on_loss => 'none'"), 't', 'not to be canceled');
	$_->start('SELECT pg_sleep(60)') foreach $setting, $session, $xact;
	$none->start('SELECT pg_sleep(4)');
	$worker = $node->freeze_worker;
	like($_->finish->{error}, qr/ERROR:  LE002: canceling statement/, 'stopped') foreach $setting, $session, $xact;
	still_leads($node, 'e', 'before the deadline');
	$node->thaw_worker($worker);
	is($none->finish->{error}, '', 'on_loss => none: left alone');
	is($idle->query('SELECT unrelated()'), 'unrelated', 'no session is hit that was idle meanwhile');
	is($session->query('SELECT unrelated()'), 'unrelated', 'nor a later statement');
	wait_for_term();

	# A session that lets go of a term is not stopped for it.
	is($acquire->($idle, 'own', 'session', ", on_loss => 'cancel'"), 't', 'held again');
	is($idle->query("BEGIN; SELECT le_release('own')"), 't', 'released');
	is($idle->query('SELECT pg_sleep(0.3); COMMIT; SELECT unrelated()') =~ s/^\n//r, 'unrelated', 'and on it goes');
};

# Belief ends at once, without a deadline that could have been seen coming.
subtest 'a sudden loss' => sub {
	lease_is_long();
	foreach my $round (1 .. 3)
	{
		my $session = LeaderElection::Session->new($node);
		my $none = LeaderElection::Session->new($node);
		my $result;
		my $from;

		$session->query("BEGIN; $gate");
		$none->query("BEGIN; SELECT le_require_leader('e', on_loss => 'none')");
		$session->start('SELECT pg_sleep(60)');
		$none->start('SELECT pg_sleep(2)');
		$from = boottime_ns();
		$consul->delete('/v1/kv/leader_election/e/leader');
		$result = $session->finish;
		like($result->{error}, $lost, "stopped ($round)");
		like($result->{error}, qr/DETAIL:  The term with fencing token \d+: (key deleted or taken|a later term has begun)\./, 'the user is told why')
		  if $round == 1;
		before($result->{at}, $from + 40e9, 'long before the deadline') or last;
		push @after_loss, ($result->{at} - $from) / 1e6;
		is($none->finish->{error}, '', 'a session that did not ask for it is not stopped');
		like($none->error('COMMIT'), qr/LE002: no longer leader/, 'but the fence holds');
		$node->wait_for_leadership('e');
	}
};

# The same for a session that holds the term in its own name, was idle for a while,
# and begins a statement shortly before.
subtest 'a sudden loss, held by the session' => sub {
	my @late;

	foreach my $round (1 .. 7)
	{
		my $session = LeaderElection::Session->new($node);
		my ($result, $from);

		is($session->query("SELECT le_acquire('own', wait => '1 min', scope => 'session', on_loss => 'cancel')"), 't', 'held');
		sleep_ms(500 + 150 * $round);
		$session->start('SELECT pg_sleep(60)');
		poll_until(sub { $node->sql('SELECT count(*) FROM pg_stat_activity WHERE wait_event = \'PgSleep\'') == 1 }, 'the statement', interval => 0.01);
		$from = boottime_ns();
		$consul->delete('/v1/kv/leader_election/own/leader');
		$result = $session->finish;
		like($result->{error}, qr/LE002: canceling statement due to loss of election "own"/, "stopped ($round)");
		before($result->{at}, $from + 40e9, 'long before the deadline') or last;
		push @late, ($result->{at} - $from) / 1e6;
		is($session->query('SELECT unrelated()'), 'unrelated', 'the session goes on');

		# no later statement is told of a lost term
		is($session->query('SELECT unrelated()'), 'unrelated', 'undisturbed');
	}
	diag('held by the session: ' . spread(@late));
};

# Terms that end all the time, at any moment of short transactions.
subtest 'stress: nothing else is ever hit' => sub {
	my @sessions = map { LeaderElection::Session->new($node) } 0 .. 3;
	my %count = (hit => 0, stopped => 0, refused => 0);

	# How many terms begin meanwhile depends on the machine.
	foreach (1 .. 5)
	{
		stress(\%count, @sessions);
		last if $count{stopped} > 10;
	}
	is($count{hit}, 0, 'no other statement was canceled');
	cmp_ok($count{stopped}, '>', 10, 'many were');
	note("$count{stopped} stopped, $count{refused} not begun");
	cmp_ok($node->sql("SELECT cancels + fence_aborts FROM le_stat WHERE election = 'e'"), '>=', $count{stopped}, 'counted');
};

sub stress
{
	my ($count, @sessions) = @_;
	my $n = 60;

	foreach my $k (0 .. $#sessions)
	{
		$sessions[$k]->start(join('', map { short_transaction($k % 2) } 1 .. $n));
	}
	until (!grep { !$_->is_done } @sessions)
	{
		$consul->delete('/v1/kv/leader_election/e/leader');
		sleep_ms(20 + rand(60));
	}
	foreach my $k (0 .. $#sessions)
	{
		my $result = $sessions[$k]->finish;
		my $unrelated = () = $result->{output} =~ /unrelated/g;

		$count->{hit} += () = $result->{error} =~ /function unrelated/g;
		$count->{stopped} += () = $result->{error} =~ /ERROR:  (?:LE002|57014)/g;
		$count->{refused} += () = $result->{error} =~ /ERROR:  LE001/g;
		next unless $k % 2;
		is($unrelated, $n, "session $k: all of its other statements ran")
		  or diag($result->{error});
	}
	return;
}

# As statements of their own, or as one string.  A COMMIT that is hit itself does not
# end the transaction. A node that does not lead waits: else all would be over
# before the next term begins.
sub short_transaction
{
	my ($apart) = @_;
	my $work = sprintf('SELECT pg_sleep(%.4f)', rand(0.05));

	return $apart
	  ? "BEGIN; $gate;\n\\set refused :ERROR\n$work; COMMIT;\n"
	  . "\\if :ERROR\nROLLBACK;\n\\endif\n"
	  . "\\if :refused\nSELECT pg_sleep(0.05);\n\\endif\nSELECT unrelated();\n"
	  : "BEGIN\\; $gate\\; $work\\; ROLLBACK\\; SELECT unrelated();\n"
	  . "\\if :ERROR\nROLLBACK;\nSELECT pg_sleep(0.05);\n\\endif\n";
}

sub sleep_ms
{
	return select(undef, undef, undef, $_[0] / 1000);
}

sub spread
{
	my @ms = sort { $a <=> $b } @_;

	return sprintf('%.0f .. %.0f ms, median %.0f, of %d', $ms[0], $ms[-1], $ms[ @ms / 2 ], scalar @ms);
}

diag('stopped before the deadline by ' . spread(@before_deadline)
	  . "; cancel_lead $lead ms");
diag('stopped after a sudden loss by ' . spread(@after_loss));
done_testing();
