# Tier: test, 16 s
#
# A tick that a run leaves undone is caught up in the same term, as soon as it is
# certain that nobody works on it; and a tick that is passed over is reported.

use strict;
use warnings;

use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeaderElection::Node->create('local');

$node->sql(<<'END');
CREATE TABLE work (n serial, job text, tick timestamptz);
CREATE PROCEDURE work(job text) LANGUAGE sql AS
	$$INSERT INTO work (job, tick) VALUES (job, le_tick())$$;
END
$node->acquire('billing');

my $token = $node->token('billing');

sub call
{
	my ($command, $job, $second, $more) = @_;

	$command =~ s/'/''/g;
	return sprintf("CALL le_run('billing', '%s', job => '%s', tick => '2026-01-01 00:00:%02d+00'%s)",
		$command, $job, $second, $more // '');
}

# With warnings and notices, besides errors.
sub le_run
{
	my ($rc, $output, $said) =
	  $node->psql('postgres', "\\set VERBOSITY verbose\n" . call(@_));

	return $said;
}

sub catch_up { return le_run("CALL work('$_[0]')", @_, ', catch_up => true'); }

# The seconds of the ticks whose work was committed, in its order.
sub worked
{
	my ($job) = @_;

	return $node->sql("SELECT coalesce(string_agg(extract(second FROM tick)::int::text, ',' ORDER BY n), '') "
		  . "FROM work WHERE job = '$job'");
}

sub record
{
	my ($job) = @_;

	return $node->sql("SELECT extract(second FROM tick)::int, try, state FROM le_claims WHERE job = '$job'");
}

sub passed_over
{
	my ($job) = @_;

	return $node->sql("SELECT string_agg(detail, '; ' ORDER BY number) FROM le_events "
		  . "WHERE event = 'passed over' AND detail LIKE 'job $job,%'");
}

# A run that goes on until it is stopped.
sub begin
{
	my ($job, $more) = @_;
	my $session = LeaderElection::Session->new($node);

	$session->start(call('SELECT pg_sleep(600)', $job, 0, $more));
	$node->wait_for("SELECT state = 'running' FROM le_claims WHERE job = '$job'");
	$node->wait_for("SELECT EXISTS (SELECT FROM le_events "
		  . "WHERE event = 'run started' AND detail LIKE 'job $job,%')");
	return $session;
}

sub terminate
{
	my ($session) = @_;

	$node->sql('SELECT pg_terminate_backend(' . $session->pid . ')');
	ok($session->finish->{lost}, 'a session is terminated in the middle of its job');
	return;
}

# The next tick
terminate(begin('next'));
is(record('next'), '0|1|running', 'its claim stays');
is(catch_up('next', 1), '', 'the next tick');
is(worked('next'), '0,1', 'after the one that was left');
is(record('next'), '1|1|done', 'all done');

# The same tick
terminate(begin('same'));
is(le_run("CALL work('same')", 'same', 0), '', 'the same tick');
denied('G4', worked('same') ne '', 'not unless asked to');
is(catch_up('same', 0), '', 'asked to');
my $same = worked('same') . ' ' . record('same');
is($same, '0 0|2|done', 'it runs, as another try');
is(catch_up('same', 0), '', 'and again');
is(worked('same'), '0', 'not once it is done');
denied('G4', $same eq '0 0|2|done' && worked('same') ne '0', 'which is final');

# While the run goes on, a call that catches up neither joins it nor passes it over.
my $under_way = begin('under way');

is(catch_up('under way', 0), '', 'the same tick, under way');
like(
	catch_up('under way', 1),
	qr/NOTICE:\s+00000: tick 2026-01-01 \S+ of job "under way" is not claimed: tick 2026-01-01 \S+ may still be under way/,
	'the next tick, under way');
is(worked('under way') . record('under way'), '0|1|running', 'nothing is claimed');
denied('G4', worked('under way') ne '', 'nor does anything run');

my $waiting = LeaderElection::Session->new($node);

$waiting->start(call("CALL work('under way')", 'under way', 1, ", wait => '5 min', catch_up => true"));
$node->wait_for("SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = " . $waiting->pid);
terminate($under_way);
is($waiting->finish->{error}, '', 'the waiter');
is(worked('under way'), '0,1', 'has both ticks run when it is over');

# An error of the command is final, and said.
my $failing = begin('failing');

$node->sql('SELECT pg_cancel_backend(' . $failing->pid . ')');
like($failing->finish->{error}, qr/57014/, 'canceled');
is(record('failing'), '0|1|failed', 'failed');
is(catch_up('failing', 1), '', 'the next tick');
is(worked('failing'), '1', 'runs alone');

# The deadline came so close that the run was stopped; then the term went on.
$node->configure(cancel_lead => '8s');

my $stopped = begin('stopped', ", on_loss => 'cancel'");
my $worker = $node->freeze_worker;

like($stopped->finish->{error}, qr/LE002/, 'stopped before the deadline');
$node->thaw_worker($worker);
$node->configure(cancel_lead => '1s');
# it ends on a machine that stands still
same_term($token, $node->token('billing'), 'and the term goes on');
is(record('stopped'), '0|1|running', 'not failed');
# the session that was stopped is there, and idle
is(catch_up('stopped', 1), '', 'the next tick');
is(worked('stopped'), '0,1', 'after the one that was left');

# By hand: for as long as the session lives it may be at it.
my $hand = LeaderElection::Session->new($node);

is($hand->query("SELECT le_claim('billing', 'hand', '2026-01-01 00:00:00+00')"), 't', 'claimed by hand');
like(catch_up('hand', 1), qr/NOTICE.*may still be under way/, 'the next tick');
is(record('hand'), '0|1|running', 'is not claimed');
is($hand->query("SELECT le_complete('billing', 'hand', '2026-01-01 00:00:00+00')"), 't', 'completed');
is(catch_up('hand', 1), '', 'the next tick');
is(worked('hand'), '1', 'runs');
is($hand->query("SELECT le_claim('billing', 'hand', '2026-01-01 00:00:02+00')"), 't', 'claimed again');
$node->sql('SELECT pg_terminate_backend(' . $hand->pid . ')');
$node->wait_for('SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = ' . $hand->pid);
is(catch_up('hand', 3), '', 'the tick after');
is(worked('hand'), '1,2,3', 'with the tick that the session left');

# A session that is reset, for another client of a pool, counts as ended here: nobody
# waits for its claims, and the next client cannot end them.
my $pooled = LeaderElection::Session->new($node);
my $of_tick = sub { "SELECT $_[0]('billing', 'pooled', '2026-01-01 00:00:0$_[1]+00')" };

is($pooled->query($of_tick->('le_claim', 0)), 't', 'claimed in a session of a pool');
$pooled->query('DISCARD PLANS; RESET ALL');
like(catch_up('pooled', 1), qr/NOTICE.*may still be under way/, 'other resets leave it alone');
is($pooled->error('DISCARD ALL'), '', 'reset');
like($pooled->error($of_tick->('le_complete', 0)), qr/WARNING:.*you have not claimed that tick/, 'the next client has not claimed it');
is(record('pooled'), '0|1|running', 'and does not end it');
is(catch_up('pooled', 1), '', 'the next tick');
is(worked('pooled'), '0,1', 'after the one that was left');
is($pooled->query($of_tick->('le_claim', 2)), 't', 'the next client claims');
like(catch_up('pooled', 3), qr/NOTICE.*may still be under way/, 'and counts');
is($pooled->query($of_tick->('le_complete', 2)), 't', 'completes');
is(record('pooled'), '2|1|done', 'its claim');
$pooled->quit;

# A worker that is new knows as much.
my $kept = begin('kept');

$node->kill_worker('TERM');
$node->wait_for("SELECT le_is_leader('billing')");
poll_until(sub { catch_up('kept', 1) =~ /NOTICE.*may still be under way/ }, 'the new worker');
is(record('kept'), '0|1|running', 'a new worker: under way');
terminate($kept);
is(catch_up('kept', 1), '', 'a new worker: the next tick');
is(worked('kept'), '0,1', 'a new worker: after the one that was left');

# Without catch_up a tick that was left is passed over, and said to be.
my $offset = $node->log_offset;

terminate(begin('passed'));
is(le_run("CALL work('passed')", 'passed', 1), '', 'without catch_up');
is(worked('passed') . ' ' . record('passed'), '1 1|1|done', 'the old tick is passed over');
like(passed_over('passed'), qr/^job passed, tick 2026-01-01 \S+, try 1: left undone$/, 'event');
ok( $node->log_like(
		qr/tick 2026-01-01 \S+( \S+)? of job "passed" of election "billing" was passed over/, $offset),
	'and log');

my $busy = begin('busy');

is(le_run("CALL work('busy')", 'busy', 1), '', 'one under way, without catch_up');
like(passed_over('busy'), qr/^job busy, tick 2026-01-01 \S+, try 1: perhaps under way$/, 'event');
terminate($busy);
is(le_run("CALL work('busy')", 'busy', 2), '', 'nothing is passed over');
unlike(passed_over('busy'), qr/;/, 'that was done');

# So is what an earlier term left.
terminate(begin('term'));
$node->release('billing');
$node->acquire('billing');
is(le_run("CALL work('term')", 'term', 1), '', 'a later term');
like(passed_over('term'), qr/^job term, tick 2026-01-01 \S+, try 1: left undone$/, 'event');

done_testing();
