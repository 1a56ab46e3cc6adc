# Tier: test, 49 s
#
# Between the check at commit and the commit record: PostgreSQL and other extensions
# may wait there, while the term ends.

use strict;
use warnings;

use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use Test::More;

# A cancel in time is as long before the deadline as a machine may stand still.
my $node = LeaderElection::Node->create(
	'a',
	settings => { lease_ttl => '8s', renew_interval => '1s', safety_margin => '500ms',
		commit_margin => '4s', cancel_lead => '5s', drain_timeout => '500ms', campaign => 'e' },
	conf => { wal_level => 'replica', max_wal_senders => 2, synchronous_standby_names => 'nobody',
		synchronous_commit => 'local' });

$node->wait_for_leadership('e');
$node->sql(<<"END");
CREATE TABLE work (what text);
CREATE EXTENSION postgres_fdw;
CREATE SERVER self FOREIGN DATA WRAPPER postgres_fdw
	OPTIONS (host '${\ $node->host }', port '${\ $node->port }', dbname 'postgres');
CREATE USER MAPPING FOR PUBLIC SERVER self;
CREATE TABLE remote (i int);
CREATE FOREIGN TABLE far (i int) SERVER self OPTIONS (table_name 'remote');
CREATE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
	PERFORM pg_advisory_xact_lock(1);
	RETURN NULL;
END \$\$;
CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON remote
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_at_commit();
END

sub session
{
	return LeaderElection::Session->new($node);
}

# Eight seconds where a term is to run out; else more than any stall has.
sub lease_is
{
	my ($seconds) = @_;
	my $least = $seconds - 3;

	$node->configure(lease_ttl => "${seconds}s");
	$node->wait_for("SELECT le_is_leader('e') AND expires_at - clock_timestamp() "
		  . "BETWEEN interval '$least s' AND interval '$seconds s' FROM le_status WHERE election = 'e'");
	return;
}

sub wait_event
{
	my ($session) = @_;

	return $node->sql('SELECT wait_event FROM pg_stat_activity WHERE pid = ' . $session->pid);
}

sub wait_until_waiting
{
	my ($session, $event) = @_;

	poll_until(sub { wait_event($session) eq $event }, "a wait for $event");
	return;
}

sub cancel
{
	my ($session) = @_;

	$node->sql('SELECT pg_cancel_backend(' . $session->pid . ')');
	return;
}

# A commit that waits for a standby which is not there, with PostgreSQL's lock for
# notifications.
sub holder
{
	my $holder = session();

	$holder->query('SET synchronous_commit = on');
	$holder->start("BEGIN; INSERT INTO work VALUES ('holder'); NOTIFY c; COMMIT");
	wait_until_waiting($holder, 'SyncRep');
	return $holder;
}

# A bound transaction.
sub begin
{
	my ($on_loss, $statements) = @_;
	my $session = session();

	$node->wait_for_leadership('e', left => 6);
	$session->query("BEGIN; SELECT le_require_leader('e', on_loss => '$on_loss'); INSERT INTO work VALUES ('late')");
	$session->query($statements);
	return $session;
}

# Some that have passed their check and wait.
sub bound
{
	my ($statements, $event) = @_;
	my @sessions = map { begin($_, $statements) } 'none', 'cancel';

	$_->start('COMMIT') foreach @sessions;
	wait_until_waiting($_, $event) foreach @sessions;
	return @sessions;
}

sub late_work
{
	return [ split /\n/, $node->sql("SELECT * FROM work WHERE what = 'late'") ];
}

sub left
{
	return $node->sql("SELECT extract(epoch FROM expires_at - clock_timestamp()) FROM le_status WHERE election = 'e'");
}

# It ends since the worker stands still.  One commit waits for the lock that every
# commit with NOTIFY needs, the other for a trigger of its remote transaction.
subtest 'the deadline' => sub {
	my $holder = holder();
	my $locker = session();
	my $remote = $node->sql('SHOW server_version_num') < 170000 ? 'Extension' : 'PostgresFdwGetResult';
	my (%sessions, $worker);

	$locker->query('BEGIN; SELECT pg_advisory_xact_lock(1)');
	foreach my $on_loss ('none', 'cancel')
	{
		$sessions{"NOTIFY, $on_loss"} = begin($on_loss, 'NOTIFY c');
		$sessions{"postgres_fdw, $on_loss"} = begin($on_loss, 'INSERT INTO far VALUES (1)');
	}
	$node->wait_for_leadership('e', left => 6);
	$_->start('COMMIT') foreach values %sessions;
	wait_until_waiting($sessions{$_}, /NOTIFY/ ? 'object' : $remote) foreach sort keys %sessions;
	$worker = $node->freeze_worker;
	foreach my $what (sort { $b cmp $a } keys %sessions)
	{
		like($sessions{$what}->finish->{error},
			qr/ERROR:  LE002: canceling statement due to loss of election "e"\nDETAIL:  The term with fencing token \d+: its deadline came closer than (cancel_lead|commit_margin)/,
			"$what: canceled, by its name");
	}
	never(late_work(), 'nothing was committed');
	is($_->query('SELECT 1'), '1', 'the next statement is not hit') foreach values %sessions;
	$node->thaw_worker($worker);
	cancel($holder);
	$holder->finish;
};

subtest 'a term that is given up' => sub {
	lease_is(60);

	my $holder = holder();
	my @sessions = bound('NOTIFY c', 'object');
	my $other = session()->start("SELECT le_step_down('e', '0')");

	like($_->finish->{error},
		qr/ERROR:  LE002: canceling .*: it is given up, and was waited for\./s, 'canceled')
	  foreach @sessions;
	is($other->finish->{output}, 't', 'then given up');
	never(late_work(), 'nothing was committed');
	cancel($holder);
	$holder->finish;
};

# A commit that has passed its check and does not look up is waited for, although
# the time to wait for it is over: it may yet be recorded.
subtest 'a commit that does not look up' => sub {
	my $holder = holder();
	my @sessions = bound('NOTIFY c', 'object');
	my $token = $node->token('e');
	my $other;

	stop_process($_->pid) foreach @sessions;
	$other = session()->start("SELECT le_step_down('e', '0')");
	cancel($holder);
	$holder->finish;
	$node->wait_for_log_like(qr/giving up election "e" with fencing token $token/);
	my $over = boottime_ns() + 3e9;		# drain_timeout, LE_DRAIN_GRACE and 1 s
	poll_until(sub { boottime_ns() > $over }, 'the end of the time to wait');
	ok(!$other->is_done, 'is waited for');
	is($node->sql("SELECT state FROM le_status WHERE election = 'e'"), 'draining', 'the term stays');
	kill('CONT', map { $_->pid } @sessions);
	$_->finish foreach @sessions;
	never(late_work(), 'nothing was committed');
	is($other->finish->{output}, 't', 'no longer than that');
};

# It has been written, so there is nothing to cancel, or to wait for.
subtest 'after the commit record' => sub {
	lease_is(8);

	my $wait = 'SET LOCAL synchronous_commit = on';
	my @sessions = bound($wait, 'SyncRep');
	my $worker = $node->freeze_worker;

	poll_until(sub { left() < 0 }, 'the deadline');
	is(wait_event($_), 'SyncRep', 'the wait for the standby goes on') foreach @sessions;
	$node->thaw_worker($worker);
	foreach my $session (@sessions)
	{
		cancel($session);
		like($session->finish->{error}, qr/^WARNING:.*canceling wait for synchronous replication/, 'until somebody cancels it');
		is($session->query('SELECT 1'), '1', 'the next statement is not hit');
	}
	is(scalar @{ late_work() }, 2, 'all is there');
	lease_is(60);

	@sessions = bound($wait, 'SyncRep');
	is($node->sql("SELECT le_step_down('e')"), 't', 'its term is given up');
	is(wait_event($_), 'SyncRep', 'and the wait goes on') foreach @sessions;
	cancel($_) foreach @sessions;
	$_->finish foreach @sessions;
};

# It ends the wait for the standby; le_run() does not wait for a worker that is gone
# to mark the tick.
subtest 'a fast shutdown' => sub {
	my $session = session();

	$node->wait_for_leadership('e', left => 6);
	$session->query('SET synchronous_commit = on');
	$session->start(
		q(CALL le_run('e', 'INSERT INTO work VALUES (''run'')', job => 'j', tick => '2020-01-01 00:00:00+00')));
	wait_until_waiting($session, 'SyncRep');
	$node->stop('fast');
	pass('is one');
};

done_testing();
