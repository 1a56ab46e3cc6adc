# Tier: test, 30 s
#
# PostgreSQL's own time limits, and what each does to a call: the table in
# docs/reference.md.

use strict;
use warnings;

use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeaderElection::Node->create('local', settings => { lease_ttl => '60s' });
my @limits = qw(statement_timeout lock_timeout idle_in_transaction_session_timeout idle_session_timeout);
my $minute = 0;

push @limits, 'transaction_timeout' if $node->pg_version >= 17;
$node->sql('CREATE TABLE work (n int)');
$node->sql('CREATE PROCEDURE steps() LANGUAGE plpgsql AS $$BEGIN FOR i IN 1 .. 4 LOOP PERFORM pg_sleep(0.5); COMMIT; END LOOP; END$$');
$node->acquire('led');

# Another session has it, so calls wait for it here.
my $other = LeaderElection::Session->new($node);
is($other->query(q(SELECT le_acquire('taken', scope => 'session'))), 't', 'another session leads');

# A new session with that limit, of a second.
sub limited
{
	my ($limit) = @_;
	my $session = LeaderElection::Session->new($node);

	$session->query("SET $limit = '1 s'");
	return $session;
}

# The outcome of the call: the SQLSTATE of its error, or else its rows; and
# whether the session is there afterwards.
sub outcome
{
	my ($session, $sql) = @_;
	my $result = $session->start($sql)->finish;
	my ($sqlstate) = $result->{error} =~ /(?:ERROR|FATAL): +([0-9A-Z]{5})/;

	return join '|', $sqlstate // $result->{output}, $result->{lost} ? 'gone' : 'there';
}

sub run
{
	my ($job, $election, $command, $options) = @_;

	return "CALL le_run('$election', '$command', job => '$job', tick => timestamptz '2020-01-01 00:00Z' + interval '"
	  . ++$minute . " min'" . ($options // '') . ')';
}

sub state_of
{
	my ($job) = @_;

	return $node->sql("SELECT state FROM le_jobs('0') WHERE job = '$job'");
}

sub waits_for_state
{
	my ($job, $state) = @_;

	$node->wait_for("SELECT count(*) = 1 FROM le_jobs('0') WHERE job = '$job' AND state = '$state'", "$job is $state");
	return;
}

my %ends_call = (statement_timeout => '57014|there');

foreach my $limit (@limits)
{
	subtest $limit => sub {
		my $is_transaction = $limit eq 'transaction_timeout';

		# le_run waits for its turn
		is(outcome(limited($limit), run("wait $limit", 'taken', 'SELECT 1', q(, wait => '3 s'))),
			$ends_call{$limit} // '|there', 'le_run waits for its turn');
		is(state_of("wait $limit"), '', 'nothing is claimed');

		# its command
		is(outcome(limited($limit), run("long $limit", 'led', 'SELECT pg_sleep(2.5)')),
			$is_transaction ? '25P04|gone' : $ends_call{$limit} // '|there', 'a command that takes long');
		waits_for_state("long $limit", $is_transaction ? 'abandoned' : $ends_call{$limit} ? 'failed' : 'done');
		is(outcome(limited($limit), run("steps $limit", 'led', 'CALL steps()')),
			$ends_call{$limit} // '|there', 'a command of several transactions, each of which is short');

		# a command that waits for a lock
		$other->query('BEGIN');
		$other->query('LOCK TABLE work');
		is(outcome(limited($limit), run("lock $limit", 'led', 'INSERT INTO work VALUES (1)', q(, timeout => '3 s'))),
			$limit eq 'lock_timeout' ? '55P03|there' : $is_transaction ? '25P04|gone' : '57014|there', 'a command that waits for a lock');
		$other->query('COMMIT');
		waits_for_state("lock $limit", $is_transaction ? 'abandoned' : 'failed');

		# a call that waits
		is(outcome(limited($limit), q(SELECT le_acquire('taken', wait => '3 s'))),
			$is_transaction ? '25P04|gone' : $ends_call{$limit} // 'f|there', 'le_acquire waits');
		$other->query(q(SELECT le_release('taken')));
		is($node->sql(q(SELECT state FROM le_status WHERE election = 'taken')), 'idle', 'and does not seek it any more');
		is($other->query(q(SELECT le_acquire('taken', scope => 'session'))), 't', 'the other leads again');

		# what a session holds that does nothing
		foreach my $in ('', 'BEGIN')
		{
			my $session = limited($limit);
			my $ends = $in eq '' ? $limit eq 'idle_session_timeout' :
			  $is_transaction || $limit eq 'idle_in_transaction_session_timeout';
			my $scope = $in eq '' ? 'session' : 'transaction';

			$session->query($in) if $in;
			is($session->query("SELECT le_acquire('mine', scope => '$scope')"), 't', "holds for its $scope");
			$node->wait_for('SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = ' . $session->pid, 'the session has ended') if $ends;
			$session->query('SELECT pg_sleep(0.1)') if !$ends;
			$node->wait_for(q(SELECT NOT le_is_leader('mine') AND state = 'idle' FROM le_status WHERE election = 'mine'), 'the lease is released') if $ends;
			is(outcome($session, q(SELECT le_is_leader('mine'))), 't|there', 'still holds') if !$ends;
			$session->quit;
			$node->wait_for(q(SELECT count(*) = 0 FROM le_status WHERE election = 'mine' AND state <> 'idle'), 'nobody leads');
		}
	};
}

done_testing();
