# Tier: test, 50 s
#
# The state of each job: le_jobs shows the same on every instance, le_history() the
# runs that this one has seen, and events report jobs that nobody would notice. With
# the store local, and with Consul.

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
my %settings = (lease_ttl => '10s', request_timeout => '1s', job_check_interval => '1s');
my $local = LeaderElection::Node->create('local', settings => {%settings});
my ($a, $b) = map { LeaderElection::Node->create($_, consul => $consul, settings => {%settings}) } 'a', 'b';
my $tick = '2020-01-01 00:00:00+00';

# A job, from the store as it is now.
sub job
{
	my ($node, $job, $columns) = @_;

	return $node->sql("SELECT $columns FROM le_jobs('0') WHERE job = '$job'");
}

sub run
{
	my ($node, $command, $options) = @_;

	return $node->sql_error("CALL le_run('billing', '" . ($command =~ s/'/''/gr) . "', $options)");
}

sub at { return sprintf("tick => '2020-01-01 00:%02d:00+00'", $_[0]) }

sub events
{
	my ($node, $event, $job) = @_;

	return "SELECT count(*) FROM le_events WHERE event = '$event' AND election = 'billing' AND detail LIKE 'job $job, %'";
}

foreach my $node ($local, $a)
{
	my @seen_by = $node == $local ? $local : ($a, $b);
	my $name = $node->name;

	is($node->sql(q(SELECT count(*) FROM le_jobs('0'))), 0, "$name: no jobs");
	$node->acquire('billing', wait => '3 min');
	$node->sql("CREATE TABLE work (n int)");

	# done
	is(run($node, 'SELECT pg_sleep(0.2)', q(job => 'nightly', ) . at(1)), '', 'runs');
	foreach my $by (@seen_by)
	{
		is( job($by, 'nightly', "election, state, late, failures, tick = '2020-01-01 00:01+00', try, node, "
				  . "duration >= '200 ms' AND duration < '1 min' AND duration = ended_at - started_at, error, "
				  . "last_success = ended_at, every, next_expected, fencing_token, observed_at <= clock_timestamp()"),
			"billing|done||0|t|1|$name|t||t|||" . $node->token('billing') . '|t',
			'done, seen by ' . $by->name);
	}

	# failed, twice; only the SQLSTATE is kept
	like(run($node, 'SELECT 1/0', q(job => 'nightly', ) . at($_)), qr/division by zero/, 'fails') foreach 2, 3;
	foreach my $by (@seen_by)
	{
		is(job($by, 'nightly', "state, failures, error, last_success < started_at"), 'failed|2|22012|t', 'failed, seen by ' . $by->name);
	}
	is($node->sql(events($node, 'job failed', 'nightly')), 2, 'events tell it');
	like($node->sql("SELECT detail FROM le_events WHERE event = 'job failed' ORDER BY number DESC LIMIT 1"), qr/^job nightly, tick .*, try 1: 22012$/, 'in words');

	# the message, its first line, where that is allowed
	my $command = q(DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'XX123', MESSAGE = E'für ) . 'x' x 300 . q(\nsecret'; END $$);

	$node->configure(log_error => 'on');
	$node->wait_for("SELECT setting = 'on' FROM pg_settings WHERE name = 'leader_election.log_error'");
	like(run($node, $command, q(job => 'nightly', ) . at(4)), qr/secret/, 'fails');
	foreach my $by (@seen_by)
	{
		like(job($by, 'nightly', 'error'), qr/^XX123: für x{195}$/, 'with its message, seen by ' . $by->name);
	}
	$node->configure(log_error => 'off');
	is(run($node, 'SELECT 1', q(job => 'nightly', ) . at(5)), '', 'runs again');
	is(job($node, 'nightly', "state, failures, error"), 'done|0|', 'and no failure any more');

	# by hand
	my $session = LeaderElection::Session->new($node);

	is($session->query("SELECT le_claim('billing', 'hand', '$tick')"), 't', 'claimed');
	is(job($_, 'hand', 'state, failures, duration IS NOT NULL, ended_at'), 'running|0|t|', 'running, seen by ' . $_->name) foreach @seen_by;
	is($session->query("SELECT le_fail('billing', 'hand', '$tick')"), 't', 'failed');
	is(job($_, 'hand', 'state, failures, error'), 'failed|1|', 'failed, seen by ' . $_->name) foreach @seen_by;

	# le_forget_job() ends the failures, and is no success either
	is($node->sql(q(SELECT le_forget_job('billing', 'hand'))), 't', 'forgotten');
	is(job($node, 'hand', 'state, failures, last_success'), 'done|0|', 'begins anew');
	is($node->sql(events($node, 'job failed', 'hand')), 1, 'and is not told of');

	is($session->query("SELECT le_claim('billing', 'dropped', '$tick')"), 't', 'another one');
	is($node->sql(q(SELECT le_forget_job('billing', 'dropped'))), 't', 'forgotten while it runs');
	is(job($_, 'dropped', 'state, failures, last_success'), 'done|0|', 'ended, seen by ' . $_->name) foreach @seen_by;

	# late: the next tick is due, and nobody has claimed it
	is(run($node, 'SELECT 1', q(job => 'often', every => '2 s', wait => '1 s')), '', 'runs');
	is(job($node, 'often', "late <= (observed_at > next_expected + interval '1 s'), every, next_expected = greatest(tick, started_at) + every, date_trunc('second', tick) = tick"),
		't|00:00:02|t|t', 'not late yet, if it is not');
	foreach my $by (@seen_by)
	{
		$by->wait_for(q(SELECT late FROM le_jobs WHERE job = 'often'), 'late, seen by ' . $by->name);
		is($by->sql(q(SELECT now() > next_expected + interval '1 s' FROM le_jobs WHERE job = 'often')), 't', 'and it is');
	}
	$node->wait_for(events($node, 'job late', 'often') =~ s/count\(\*\)/count(*) > 0/r, 'events tell it');

	# counters
	is($node->sql("SELECT runs, failed, run_time BETWEEN 200 AND 60000 FROM le_stat_jobs WHERE election = 'billing'"), '6|4|t', 'counted');

	# history: the runs of this instance, the newest first; each once, although the
	# scan sees it too
	is( $node->sql(q(SELECT string_agg(extract(minute FROM tick) || state || coalesce(error, ''), ' ') FROM le_history('billing', 'nightly'))),
		'5done 4failedXX123: für ' . 'x' x 195 . ' 3failed22012 2failed22012 1done', 'history');
	is($node->sql(q(SELECT string_agg(extract(minute FROM tick)::text, ' ') FROM le_history('billing', 'nightly', 2))), '5 4', 'the last two');
	is($node->sql(q(SELECT count(*) FROM le_history('other'))), 0, 'none of another election');
	run($node, 'SELECT 1', 'on_loss => $$none$$');
	is($node->sql(q(SELECT job, tick, state, try, node, duration >= '0 s' FROM le_history(max_rows => 1))), "SELECT||done||$name|t", 'a run without a record');
}

# Runs of the other one are seen in passing, the last of each job.
$b->sql(q(SELECT le_campaign('other')));
$b->wait_for(q(SELECT count(*) = 1 FROM le_history('billing', 'nightly') WHERE node = 'a' AND tick = '2020-01-01 00:05+00'), 'the history of the other instance');

# The questions of the README, on any instance.
subtest 'as the pages say' => sub {
	my @queries = page('README.md') =~ /^\| [^|]+\? \| `(SELECT [^`]+)` \|$/mg;

	cmp_ok(scalar @queries, '>=', 7, 'questions');
	foreach my $query (@queries)
	{
		is($_->sql_error($query), '', $_->name . ": $query") foreach $a, $b;
	}
	like($b->sql('SELECT job FROM (' . ($queries[0] =~ s/\*/job, state/r) . ') q'), qr/^nightly$/, 'the first one');
	is($b->sql_error(block('did it run')), '', 'did it run');
};

# A running tick of a term that is over: also when nobody else leads.
subtest 'abandoned' => sub {
	my $session = LeaderElection::Session->new($a);
	my $claim = "SELECT le_claim('billing', 'left', '$tick')";

	is($session->query($claim), 't', 'claimed');
	is(job($_, 'left', 'state'), 'running', 'running, seen by ' . $_->name) foreach $a, $b;
	$a->release('billing');
	foreach my $by ($a, $b)
	{
		is(job($by, 'left', 'state, duration'), 'abandoned|', 'abandoned, seen by ' . $by->name);
		$by->wait_for(events($by, 'job abandoned', 'left') =~ s/count\(\*\)/count(*) = 1/r, 'and events of ' . $by->name . ' tell it') if $by == $b;
	}

	# it was done after all, so it is done
	is($session->query($claim =~ s/le_claim/le_complete/r), 't', 'completed, although the term is over');
	is(job($_, 'left', 'state'), 'done', 'done, seen by ' . $_->name) foreach $a, $b;

	# once
	sleep_until_checked($b);
	is($b->sql(events($b, 'job abandoned', 'left')), 1, 'events tell it once');
};

# The session of a run ends, and its leader leads on: the instance knows that nobody
# will report the result of the run any more.
subtest 'abandoned in a term that goes on' => sub {
	my ($by_run, $by_hand, $reset) = map { LeaderElection::Session->new($a) } 1 .. 3;
	my $token;

	$a->acquire('billing', wait => '3 min');
	$token = $a->sql(q(SELECT le_fencing_token('billing')));
	my $failed = "SELECT failed FROM le_stat_jobs WHERE election = 'billing'";
	my $before = $a->sql($failed);

	$by_run->start("CALL le_run('billing', 'SELECT pg_sleep(3600)', job => 'ended', catch_up => true, " . at(20) . ')');
	is($by_hand->query("SELECT le_claim('billing', 'manual', '$tick')"), 't', 'claimed by hand');
	is($reset->query("SELECT le_claim('billing', 'reset', '$tick')"), 't', 'claimed by hand, in another session');
	$a->wait_for(q(SELECT count(*) = 1 FROM le_jobs('0') WHERE job = 'ended' AND state = 'running'), 'the run has begun');
	sleep_until_checked($a);
	is($a->sql(events($a, 'job abandoned', $_)), 0, "$_ is under way") foreach 'ended', 'manual', 'reset';

	$a->sql(q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CALL le_run%' AND pid <> pg_backend_pid()));
	$by_hand->quit;
	$reset->query('DISCARD ALL');
	foreach my $job ('ended', 'manual', 'reset')
	{
		$a->wait_for("SELECT count(*) = 1 FROM le_jobs(NULL) WHERE job = '$job' AND state = 'abandoned'", "$job is abandoned");
		foreach my $by ($a, $b)
		{
			is(job($by, $job, 'state, failures, duration IS NOT NULL, ended_at IS NOT NULL'), 'abandoned|1|t|t', "$job, seen by " . $by->name);
		}
		is($a->sql(events($a, 'job abandoned', $job)), 1, 'events tell it');
		is($a->sql(events($a, 'run failed', $job) . q( AND detail LIKE '%: its session ended')), 1, '... and why');
		is($a->sql("SELECT string_agg(state, ',') FROM le_history('billing', '$job')"), 'abandoned', '... and the history');
	}
	is($a->sql($failed), $before + 3, 'each counts as failed');
	is($a->sql(q(SELECT le_fencing_token('billing'))), $token, 'the term goes on');

	# The same if another worker has claimed.
	my $replaced = LeaderElection::Session->new($a);
	my $worker = q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'leader_election worker');
	my $was = $a->sql($worker);

	is($replaced->query("SELECT le_claim('billing', 'replaced', '$tick')"), 't', 'claimed before its worker ends');
	$a->sql("SELECT pg_terminate_backend($was)");
	$a->wait_for("SELECT count(*) = 1 FROM ($worker) w WHERE pid <> $was", 'another worker');
	$replaced->quit;
	is($a->sql(q(SELECT le_acquire('billing', wait => '3 min'))), 't', 'it leads');
	$a->wait_for(q(SELECT count(*) = 1 FROM le_jobs(NULL) WHERE job = 'replaced' AND state = 'abandoned'), 'replaced is abandoned');
	is($a->sql(q(SELECT le_fencing_token('billing'))), $token, 'in the same term');
	is(job($b, 'replaced', 'state, failures'), 'abandoned|1', 'replaced, seen by b');

	# The tick is there for a call that catches up, once; then it is done.
	my $again = q(job => 'ended', catch_up => true, ) . at(20);
	is(run($a, 'SELECT 1', $again =~ s/true/false/r), '', 'without catch_up');
	is(job($a, 'ended', 'state'), 'abandoned', '... it stays');
	is(run($a, 'SELECT 1', $again), '', 'a call catches up');
	is(job($_, 'ended', 'state, try, failures'), 'done|2|0', 'done, seen by ' . $_->name) foreach $a, $b;
	isnt(run($a, 'SELECT 1/0', q(job => 'manual', ) . at(21)), '', 'the next tick fails');
	is(job($b, 'manual', 'state, failures'), 'failed|2', '... and the abandoned one counted once');
	$a->release('billing');
};

# A tick is a multiple of its interval, and a job is called when it is called,
# somewhere between two.  "offset" runs half an interval after its tick; "waits"
# is claimed by somebody who may have waited for its turn.
subtest 'late, by when the last one began' => sub {
	my $late = 'late AND observed_at <= greatest(tick, started_at) + every';
	my $look = "SELECT count(*) FILTER (WHERE late), "
	  . "count(*) FILTER (WHERE $late + CASE job WHEN 'waits' THEN interval '6 s' ELSE '0' END) "
	  . "FROM le_jobs('0') WHERE job IN ('offset', 'waits')";
	my $session = LeaderElection::Session->new($a);
	my @early;

	$a->acquire('billing', wait => '3 min');
	$a->wait_for('SELECT extract(epoch FROM clock_timestamp()) % 8 BETWEEN 4 AND 5', 'half way to the next tick');
	is(run($a, 'SELECT 1', q(job => 'offset', every => '8 s')), '', 'runs');
	my $tick = $session->query(q(SELECT date_trunc('second', clock_timestamp())));
	my $claim = "SELECT le_claim_tick('billing', 'waits', '$tick', every => '8 s', wait => '%s') = '$tick'";

	like($session->error(sprintf $claim, '8 s'), qr/22023: argument "wait" must be less than "every"/, 'as le_run() has it');
	is($session->query(sprintf $claim, '6 s'), 't', 'claimed');
	is($session->query("SELECT le_complete('billing', 'waits', '$tick')"), 't', 'done');
	is(job($_, 'offset', 'late <= (observed_at > next_expected), next_expected = greatest(tick, started_at) + every'), 't|t', 'expected an interval later, says ' . $_->name) foreach $a, $b;
	poll_until(
		sub {
			my @seen = map { $_->sql($look) } $a, $b;

			push @early, grep { !/\|0$/ } @seen;
			return @early || !grep { $_ ne '2|0' } @seen;
		},
		'late, in the end');
	is("@early", '', 'not before');
	foreach my $by ($a, $b)
	{
		my $event = "FROM le_events WHERE event = 'job late' AND detail LIKE 'job offset, %'";

		$by->wait_for("SELECT count(*) = 1 $event", 'the event of ' . $by->name);
		is( $by->sql("SELECT (SELECT at $event) > greatest(tick, started_at) + every FROM le_jobs('0') WHERE job = 'offset'"),
			't', 'not before that either');
	}
};

# A run that another leader passes over is none that went well.
subtest 'a leader that dies' => sub {
	$a->acquire('billing', wait => '3 min');
	my $session = LeaderElection::Session->new($a);
	is($session->query("SELECT le_claim('billing', 'dead', '$tick')"), 't', 'claimed');
	$a->crash;
	is($b->sql("SELECT le_acquire('billing', wait => '3 min')"), 't', 'another leads');
	is(job($b, 'dead', 'state, node, failures'), 'abandoned|a|0', 'abandoned');
	is(run($b, 'SELECT 1/0', q(job => 'dead', ) . at(9)), run($b, 'SELECT 1/0', q(job => 'x', ) . at(9)), 'the next tick fails');
	is(job($b, 'dead', 'state, node, failures'), 'failed|b|2', 'and both count');
	$a->start;
};

# ---- le_jobs as others use it ----

# Two looks of the worker from now on: the first may have begun before.
sub sleep_until_checked
{
	my ($node) = @_;

	foreach (1 .. 2)
	{
		my $seen = $node->sql(q(SELECT max(observed_at) FROM le_jobs(NULL)));

		$node->wait_for("SELECT max(observed_at) > '$seen'::timestamptz + interval '0.5 s' FROM le_jobs(NULL)", 'another look');
	}
	return;
}

subtest 'when the store is down' => sub {
	$b->wait_for(q(SELECT count(*) > 0 FROM le_jobs(NULL)), 'seen');
	my $before = $b->sql(q(SELECT string_agg(job || state, ',' ORDER BY job) FROM le_jobs('0')));

	$consul->stop;
	like($b->sql_error(q(SELECT * FROM le_jobs('0'))), qr/ERROR:  LE003: could not read the jobs from the lease store .*^HINT:  le_jobs\(NULL\) shows/ms, 'an error');
	like($b->sql_error(q(SELECT le_current_leader('other', '0'))), qr/ERROR:  LE003: .*^HINT:  Check that the store runs .* The view le_status shows the leader as it was last seen\.$/ms, 'an error of le_current_leader()');
	is($b->sql(q(SELECT string_agg(job || state, ',' ORDER BY job) FROM le_jobs(NULL))), $before, 'but not for what is known');
	is($b->sql(q(SELECT string_agg(job || state, ',' ORDER BY job) FROM le_jobs('1 h'))), $before, 'nor for what is not too old');
	$b->freeze_worker;
	is($b->sql(q(SELECT string_agg(job || state, ',' ORDER BY job) FROM le_jobs(NULL))), $before, 'nor when the worker hangs');
	is($b->sql(q(SELECT bool_and(observed_at < now()) FROM le_jobs(NULL))), 't', 'which says that it was seen before');
	$b->thaw_worker;
	$consul->start;
};

like($local->sql_error(q(SELECT * FROM le_jobs('1 month'))), qr/22023: argument "max_staleness" must not contain months/, 'a month');
like($local->sql_error(q(SELECT * FROM le_history(max_rows => -1))), qr/22023: argument "max_rows" must not be negative/, 'a negative age');
like($local->sql_error(q(SELECT * FROM le_history(max_rows => NULL))), qr/22004: argument "max_rows" must not be null/, 'null');

$_->stop foreach $local, $a, $b;
$consul->stop;
done_testing();
