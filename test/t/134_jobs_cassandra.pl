# Tier: long, 23 s
#
# le_jobs on a real Cassandra, through two gateways: the gateway keeps with each claim
# the record that the claimant sends; another client sends none.  And le_run with ticks
# that nobody has claimed or that a dead leader left, with another interval and with
# its timeout, by the records that another instance has left there.

use strict;
use warnings;

use LeaderElection::Cassandra;
use LeaderElection::Gateway;
use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $cassandra = LeaderElection::Cassandra->shared;
my $keyspace = $cassandra->keyspace;
my @gateways = map {
	LeaderElection::Gateway->new("gateway$_",
		cassandra => $cassandra, keyspace => $keyspace)->start
} 1 .. 2;
my ($a, $b) = map {
	LeaderElection::Node->create($_->[0],
		gateway => $_->[1], settings => { lease_ttl => '10s', log_error => 'on', job_check_interval => '1s' })
} [ 'a', [ @gateways[0, 1] ] ], [ 'b', [ @gateways[1, 0] ] ];
my $tick = '2020-01-01 00:00:00+00';

sub job
{
	my ($node, $job, $columns) = @_;

	return $node->sql("SELECT $columns FROM le_jobs('0') WHERE job = '$job'");
}

# The events are as this instance has seen them.
sub events
{
	my ($node, $event, $job) = @_;

	return "SELECT count(*) FROM le_events WHERE event = '$event' AND election = 'billing' AND detail LIKE 'job $job, %'";
}

# It looks at all jobs, since it leads something.
$b->sql(q(SELECT le_campaign('other')));
ok($a->acquire('billing', wait => '3 min'), 'a leads');
ok(!$b->acquire('billing'), 'and b does not');

is($a->sql_error(q(CALL le_run('billing', 'SELECT pg_sleep(0.2)', job => 'nightly', every => '1 day', wait => '3 min'))), '', 'runs');
is( job($_, 'nightly', "state, late, failures, try, node, duration >= '200 ms' AND duration < '1 min' AND duration = ended_at - started_at, "
		  . "error, last_success = ended_at, every, next_expected = greatest(tick, started_at) + every, now() - started_at < '5 min'"),
	'done|f|0|1|a|t||t|1 day|t|t', 'done, seen by ' . $_->name)
  foreach $a, $b;
is($_->sql(q(SELECT node, claimed_at IS NOT NULL, ended_at IS NOT NULL FROM le_claims WHERE job = 'nightly')), 'a|t|t', 'le_claims too')
  foreach $a, $b;

subtest 'failed' => sub {
	foreach my $minute (1, 2)
	{
		like($a->sql_error(qq(CALL le_run('billing', 'SELECT ''"ä\\'' || 1/0', job => 'fails', tick => '2020-01-01 00:0$minute+00'))),
			qr/division by zero/, 'fails');
	}
	is(job($_, 'fails', 'state, failures, error, last_success'), 'failed|2|22012: division by zero|', 'failed, seen by ' . $_->name)
	  foreach $a, $b;
	is($a->sql(events($a, 'job failed', 'fails')), 2, 'events tell it');
	like($a->sql(q(SELECT detail FROM le_events WHERE event = 'job failed' ORDER BY number DESC LIMIT 1)),
		qr/^job fails, tick .*, try 1: 22012$/, 'in words');
	is($a->sql(q(SELECT string_agg(extract(minute FROM tick) || ' ' || state || ' ' || node || ' ' || error, ', ') FROM le_history('billing', 'fails'))),
		'2 failed a 22012: division by zero, 1 failed a 22012: division by zero', 'history');
	$b->wait_for(q(SELECT count(*) = 1 FROM le_history('billing', 'fails') WHERE node = 'a' AND tick = '2020-01-01 00:02+00' AND state = 'failed'),
		'that of the other instance');
	is($a->sql(q(SELECT runs, failed, run_time BETWEEN 200 AND 60000 FROM le_stat_jobs WHERE election = 'billing')), '3|2|t', 'counted');
};

# The next tick is due, and nobody claims it.
subtest 'late' => sub {
	is($a->sql_error(q(CALL le_run('billing', 'SELECT 1', job => 'often', every => '2 s', wait => '1 s'))), '', 'runs');
	is(job($a, 'often', q(state, late <= (observed_at > next_expected + interval '1 s'), every, next_expected = greatest(tick, started_at) + every)),
		'done|t|00:00:02|t', 'not late yet, if it is not');
	foreach my $by ($a, $b)
	{
		$by->wait_for(q(SELECT late FROM le_jobs('0') WHERE job = 'often'), 'late, seen by ' . $by->name);
		is(job($by, 'often', q(now() > next_expected + interval '1 s')), 't', 'and it is');
		$by->wait_for(events($by, 'job late', 'often') =~ s/count\(\*\)/count(*) > 0/r, 'events of ' . $by->name . ' tell it');
	}
};

subtest 'timeout' => sub {
	like($a->sql_error(q(CALL le_run('billing', 'SELECT pg_sleep(600)', job => 'slow', every => '1 day', timeout => '300 ms'))),
		qr/ERROR:  57014: canceling command of le_run\(\) due to its timeout\nDETAIL:  It took longer than 0.3 s/, 'canceled');
	is(job($_, 'slow', 'state, failures, error'), 'failed|1|57014: canceling command of le_run() due to its timeout', 'failed, seen by ' . $_->name)
	  foreach $a, $b;
};

# clients of the gateway that claim and end, and send no record
subtest 'another client' => sub {
	my $lock = $gateways[0]->lock('billing');
	my %claim = (owner => $lock->{owner}, token => $lock->{token}, tick => 1577836800000, try => 1, claim => 'c1');
	my $answer = $gateways[0]->request('POST', '/v1/locks/billing/claims/old', \%claim);

	is($answer->{status}, 201, 'claims');
	is(job($_, 'old', 'state, failures, tick, node, duration, every, late, last_success') =~ s/2020-.*?\|/|/r, 'running|||||||', 'seen by ' . $_->name)
	  foreach $a, $b;
	is($gateways[1]->request('POST', '/v1/locks/billing/claims/old/complete', { claim => 'c1', state => 'failed' })->{status}, 200, 'ends');
	is(job($b, 'old', 'state, failures, error, ended_at'), 'failed|||', 'seen');
	is($a->sql_error(q(CALL le_run('billing', 'SELECT 1/0', job => 'old', tick => '2020-01-02 00:00+00'))) =~ /division/, 1, 'the next one is by this extension');
	is(job($b, 'old', 'state, failures, node'), 'failed|1|a', 'and tells');

	# one of ours, ended by another client: the record stays
	my $session = LeaderElection::Session->new($a);

	is($session->query("SELECT le_claim('billing', 'ours', '$tick')"), 't', 'claimed by le_claim');
	my $id = $a->sql(q(SELECT claim FROM le_claims WHERE job = 'ours'));
	is($gateways[1]->request('POST', '/v1/locks/billing/claims/ours/complete', { claim => $id, state => 'done' })->{status}, 200, 'ended by that');
	is(job($b, 'ours', 'state, node, started_at IS NOT NULL, ended_at'), 'done|a|t|', 'all that is known');
};

subtest 'abandoned' => sub {
	my $session = LeaderElection::Session->new($a);

	is($session->query("SELECT le_claim('billing', 'left', '$tick')"), 't', 'claimed');
	is(job($_, 'left', 'state'), 'running', 'running, seen by ' . $_->name) foreach $a, $b;
	$a->release('billing');
	is(job($_, 'left', 'state, node'), 'abandoned|a', 'abandoned, seen by ' . $_->name) foreach $a, $b;
	is($b->sql(q(SELECT count(*) FROM le_events WHERE event = 'job abandoned' AND node = 'a' AND detail LIKE 'job left, %')), 1, 'events tell it');
	is($session->query("SELECT le_complete('billing', 'left', '$tick')"), 't', 'completed after all');
	is(job($_, 'left', 'state, failures'), 'done|0', 'done, seen by ' . $_->name) foreach $a, $b;
};

# Days, so that the test knows which ticks are due; but at midnight.
my $today = 'to_timestamp(floor(extract(epoch FROM now()) / 86400) * 86400)';

# Jobs that a runs, and leaves to the next leader: a job that has last run so many
# days ago, one that runs once a day, and one that is under way.
subtest 'a leader that dies' => sub {
	my $session = LeaderElection::Session->new($a);

	ok($a->acquire('billing', wait => '3 min'), 'a leads again');
	foreach my $days (3, 4)
	{
		my $then = "$today - interval '$days days'";

		isnt($session->query("SELECT le_claim_tick('billing', '$days days', $then, every => '1 day')"), '', "a job of $days days ago");
		is($session->query("SELECT le_complete('billing', '$days days', $then)"), 't', 'is done');
	}
	is($a->sql_error(q(CALL le_run('billing', 'SELECT 1', job => 'changed', every => '1 day'))), '', 'a job that runs once a day');
	is($session->query("SELECT le_claim('billing', '$_', '$tick')"), 't', "and one that is under way: $_")
	  foreach 'dead', 'unfinished';
	$a->crash;
	ok($b->acquire('billing', wait => '3 min'), 'b leads');
	is(job($b, 'dead', 'state, node, failures, ended_at'), 'abandoned|a|0|', 'which has abandoned it');
	$b->wait_for(events($b, 'job abandoned', 'dead') =~ s/count\(\*\)/count(*) = 1/r, 'and events tell it');
	like($b->sql_error(q(CALL le_run('billing', 'SELECT 1/0', job => 'dead', tick => '2020-01-02 00:00+00'))), qr/division by zero/, 'the next tick fails');
	is(job($b, 'dead', 'state, node, failures'), 'failed|b|2', 'and both count');
};

subtest 'ticks of another leader' => sub {
	my $session = LeaderElection::Session->new($b);

	$b->sql('CREATE TABLE work (n serial, job text, tick timestamptz)');
	foreach my $days (3, 4)
	{
		is($session->error("CALL le_run('billing', 'INSERT INTO work (job, tick) VALUES (''$days days'', le_tick())', job => '$days days', "
				  . "every => '1 day', missed => 'all', max_missed => 2)"), '', "$days days ago");
		is($b->sql("SELECT string_agg(extract(day FROM $today - tick)::text, ' ' ORDER BY n) FROM work WHERE job = '$days days'"),
			'2 1 0', 'as many run as may, and what is due');
	}
	is($b->sql(events($b, 'job missed', '3 days')), 0, 'all that was missed has run');
	is($b->sql("SELECT regexp_replace(detail, '.* tick ', '')::timestamptz = $today - interval '3 days' FROM le_events WHERE event = 'job missed'"),
		't', 'where one more was missed, it is reported, the oldest');
	is($b->sql(q(SELECT missed FROM le_stat_jobs WHERE election = 'billing')), 1, 'and counted');

	like(
		$session->error(q(CALL le_run('billing', 'INSERT INTO work (job, tick) VALUES (''changed'', le_tick())', job => 'changed', every => '1 s', missed => 'all'))),
		qr/WARNING:  01000: the interval of job "changed" of election "billing" has changed from 86400 s to 1 s\nDETAIL:  No tick between .* counts as missed/,
		'another interval: words');
	is($b->sql(q(SELECT count(*) FROM work WHERE job = 'changed')), 1, 'no flood');
	is(job($b, 'changed', 'state, every'), 'done|00:00:01', 'from now on it is known');
	is($b->sql(events($b, 'job missed', 'changed')), 0, 'and none was missed');

	# the dead leader's tick runs again only where that is asked for
	my $run = q{CALL le_run('billing', 'INSERT INTO work (job, tick) VALUES (''unfinished'', le_tick())', job => 'unfinished', tick => '%s'};
	my $ran = q(SELECT string_agg(extract(minute FROM tick)::int::text, ',' ORDER BY tick) FROM work WHERE job = 'unfinished');

	$session->error(sprintf($run, $tick) . ')');
	denied('G4', $b->sql(q(SELECT count(*) FROM work WHERE job = 'unfinished')), 'it does not run again');
	$session->error(sprintf($run, '2020-01-01 00:01+00') . ', catch_up => true)') foreach 1 .. 2;
	is($b->sql($ran), '0,1', 'but is caught up');
	is(job($b, 'unfinished', 'state, failures'), 'done|0', 'done');
};

subtest 'when the store is down' => sub {
	my $known = q(SELECT string_agg(job || ' ' || state, ', ' ORDER BY job) FROM le_jobs);
	my $before = $b->sql("$known('0')");

	$_->terminate foreach @gateways;
	like($b->sql_error(q(SELECT * FROM le_jobs('0'))), qr/ERROR:  LE003: could not read the jobs from the lease store /m, 'an error');
	is($b->sql("$known(NULL)"), $before, 'but not for what is known');
	is($b->sql("$known('1 h')"), $before, 'nor for what is not too old');
};

$b->stop;
done_testing();
