# Tier: test, 6 s
#
# A tick that is marked done is not undone by a crash: its work is on disk before,
# also where synchronous_commit is off.

use strict;
use warnings;

use LeaderElection::Node;
use LeaderElection::Session;
use Test::More;

# Nobody else writes the log of an idle server for so long.
my $node = LeaderElection::Node->create(
	'a',
	settings => { campaign => 'e' },
	conf => { synchronous_commit => 'off', wal_writer_delay => '10s', autovacuum => 'off',
		checkpoint_timeout => '1h' });
my $minute = "'2020-01-01 00:00:00+00'";

$node->sql('CREATE TABLE work (job text)');
$node->sql('CREATE PROCEDURE work_and_commit(job text) LANGUAGE plpgsql AS
	$$ BEGIN INSERT INTO work VALUES (job); COMMIT; END $$');

# Otherwise later reads clean up pages of catalogs, whose images push the log to disk.
$node->sql('VACUUM');

sub crashed
{
	$node->stop('immediate');
	$node->start;
	$node->wait_for_leadership('e');
	return;
}

sub is_durable
{
	my ($job, $work) = @_;

	$node->wait_for_leadership('e');
	$node->sql('CHECKPOINT');
	$work->(LeaderElection::Session->new($node));
	is($node->sql("SELECT state FROM le_claims WHERE job = '$job'"), 'done', "$job: done");
	crashed();
	is($node->sql("SELECT state FROM le_claims WHERE job = '$job'"), 'done', "$job: still");
	is($node->sql("SELECT count(*) FROM work WHERE job = '$job'"), 1, "$job: and the work is there");
	return;
}

sub run_job
{
	my ($session, $job, $command) = @_;

	$session->query("CALL le_run('e', '$command', job => '$job', tick => $minute)");
	return;
}

is_durable('run', sub { run_job($_[0], 'run', q(INSERT INTO work VALUES (''run''))) });
is_durable('procedure', sub { run_job($_[0], 'procedure', q(CALL work_and_commit(''procedure''))) });

# Another session has done the work.
is_durable(
	'by hand',
	sub {
		my ($session) = @_;

		$session->query("SELECT le_claim('e', 'by hand', $minute)");
		LeaderElection::Session->new($node)->query("INSERT INTO work VALUES ('by hand')");
		$session->query("SELECT le_complete('e', 'by hand', $minute)");
	});

# Without that, this machine does lose it.
$node->sql('CHECKPOINT');
$node->sql("INSERT INTO work VALUES ('lost')");
crashed();
is($node->sql("SELECT count(*) FROM work WHERE job = 'lost'"), 0, 'a commit that nobody marks done can be lost');

done_testing();
