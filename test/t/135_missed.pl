# Tier: test, 31 s
#
# Ticks that no leader has claimed: which of them run, in which order, and that
# the others are reported; and the time that a command may take.

use strict;
use warnings;

use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeaderElection::Node->create('local', settings => { lease_ttl => '60s' });

$node->sql(<<'END');
CREATE TABLE work (n serial, job text, tick timestamptz, xid xid8 DEFAULT pg_current_xact_id());
CREATE PROCEDURE work(job text) LANGUAGE sql AS
	$$INSERT INTO work (job, tick) VALUES (job, le_tick())$$;
CREATE FUNCTION second(at timestamptz) RETURNS int LANGUAGE sql AS
	$$SELECT extract(epoch FROM at - '2026-01-01 00:00:00+00')::int$$;
END
$node->acquire('billing');

my $session = LeaderElection::Session->new($node);

# A tick so many seconds after the start of the year.
sub at
{
	my ($second) = @_;

	return "timestamptz '2026-01-01 00:00:00+00' + interval '$second s'";
}

# Claims, and ends, of the second that is due; one per second, unless the options
# say otherwise. Without catch_up no tick is to be had twice.
my (%granted, @twice);

sub claim
{
	my ($job, $second, $options, $by) = @_;
	my $every = ($options // '') =~ /every =>/ ? '' : ", every => '1 s'";
	my $due = at($second);
	my $tick = ($by // $session)->query(
		"SELECT second(le_claim_tick('billing', '$job', $due$every" . ($options ? ", $options" : '') . '))');

	($by // $session)->query("SELECT le_complete('billing', '$job', " . at($tick) . ')')
	  if $tick ne '';
	push @twice, "$job $tick"
	  if $tick ne '' && $granted{"$job $tick"}++ && ($options // '') !~ /catch_up => true/;
	return $tick;
}

# All of them, until the tick that is due has its turn.
sub claims
{
	my ($job, $second, $options) = @_;
	my @claimed;

	do
	{
		push @claimed, claim($job, $second, $options);
	} while ($claimed[-1] ne '' && $claimed[-1] != $second);
	return "@claimed";
}

# The seconds that are said to be missed.
sub missed
{
	my ($job) = @_;

	return $node->sql(<<"END");
SELECT string_agg(coalesce(second(m[1]::timestamptz)::text,
	m[2] || ': ' || second(m[3]::timestamptz) || '-' || second(m[4]::timestamptz)), ', ' ORDER BY number)
FROM le_events, regexp_match(detail, '^job $job, (?:tick (.*)|([0-9]+) ticks from (.*) to (.*))\$') m
WHERE event = 'job missed' AND detail LIKE 'job $job,%'
END
}

sub counted
{
	return $node->sql("SELECT missed FROM le_stat_jobs WHERE election = 'billing'");
}

# ---- which of them run ----

is(claims('new', 1000, "missed => 'all'"), '1000', 'a new job has missed nothing');
is(claims('new', 1001, "missed => 'all'"), '1001', 'nor has the next tick');
is(missed('new'), '', 'and nothing is said');

my $before = counted();

is(claim('skip', 10), 10, 'skip');
is(claims('skip', 15), '15', 'skip: the due tick runs');
is(missed('skip'), '4: 11-14', 'skip: the others are reported');
is(claims('skip', 17), '17', 'skip: one is missed');
is(missed('skip'), '4: 11-14, 16', 'skip: it is reported');
is(counted() - $before, 5, 'skip: all are counted');
ok( $node->log_like(
		qr/ticks of job "skip" of election "billing" were missed: 4\n.*DETAIL:  No leader has claimed them\. The first was due at 2026-01-01 \S+( \S+)?, the last at 2026-01-01/
	),
	'skip: they are logged');

is(claim('last', 10), 10, 'last');
is(claims('last', 15, "missed => 'last'"), '14 15', 'last: the newest missed tick runs, and the due one');
is(missed('last'), '3: 11-13', 'last: the others are reported');
is(claims('last', 16, "missed => 'last'"), '16', 'last: none is missed');
is(claims('last', 18, "missed => 'last'"), '17 18', 'last: one is missed');
is(missed('last'), '3: 11-13', 'last: nothing is reported');

is(claim('all', 10), 10, 'all');
is(claims('all', 15, "missed => 'all'"), '11 12 13 14 15', 'all: the oldest first');
is(claims('all', 115, "missed => 'all'"), join(' ', 16 .. 115), 'all: as many as max_missed allows');
is(missed('all'), '', 'all: nothing is reported');
is(claims('all', 217, "missed => 'all'"), join(' ', 117 .. 217), 'all: one more than max_missed');
is(missed('all'), '116', 'all: it is reported, the oldest');
is(claims('all', 227, "missed => 'all', max_missed => 2"), '225 226 227', 'all: two at most');
is(missed('all'), '116, 7: 218-224', 'all: the others are reported');
is(claims('all', 228, "missed => 'all', max_missed => 1"), '228', 'all: none is missed');

is(claim('ignore', 10), 10, 'ignore');
is(claims('ignore', 15, "missed => 'ignore'"), '15', 'ignore: the due tick runs');
is(missed('ignore'), '', 'ignore: nothing is reported');
is( $node->sql("SELECT every, next_expected, late FROM le_jobs WHERE job = 'ignore'"),
	'||', 'ignore: nobody expects the next');
is(claims('ignore', 20, "missed => 'all'"), '20', 'ignore: ticks that it left out are not missed later');

# By whom, and that it is in order
my $other = LeaderElection::Session->new($node);

is(claim('two', 10), 10, 'two sessions');
is(claim('two', 14, "missed => 'all'"), 11, 'the first');
is(claim('two', 14, "missed => 'all'", $other), 12, 'the second');
is($session->query("SELECT second(le_claim_tick('billing', 'two', " . at(14) . ", every => '1 s', missed => 'all'))"),
	13, 'the first is at work');
is(claim('two', 14, "missed => 'all'", $other), '', 'the second has to wait');
is(claim('two', 14, "missed => 'last'", $other), '', 'with any command');
is($session->query("SELECT le_complete('billing', 'two', " . at(13) . ')'), 't', 'the first is done');
is(claim('two', 14, "missed => 'all'", $other), 14, 'the second goes on');
is(missed('two'), '', 'nothing was missed');

# A tick left undone: at least once, or at most once
foreach my $catch_up ('true', 'false')
{
	my $job = "left $catch_up";
	my $dies = LeaderElection::Session->new($node);

	is(claim($job, 10), 10, $job);
	is($dies->query("SELECT second(le_claim_tick('billing', '$job', " . at(14) . ", every => '1 s', missed => 'all'))"),
		11, "$job: claimed");
	$node->sql('SELECT pg_terminate_backend(' . $dies->pid . ')');
	$node->wait_for('SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = ' . $dies->pid);
	is(claims($job, 14, "missed => 'all', catch_up => $catch_up"),
		$catch_up eq 'true' ? '11 12 13 14' : '12 13 14',
		"$job: the rest");
	is(missed($job), '', "$job: nothing was missed");
}

# Another interval: words, no flood.
is(claim('changed', 86400, "every => '1 day'"), 86400, 'once a day');
my $words = $session->error("SELECT le_claim_tick('billing', 'changed', " . at(2 * 86400) . ", every => '1 s', missed => 'all')");
like(
	$words,
	qr/WARNING:  01000: the interval of job "changed" of election "billing" has changed from 86400 s to 1 s\nDETAIL:  No tick between 2026-01-02 \S+ and 2026-01-03 \S+ counts as missed/,
	'once a second from now on');
is($session->query("SELECT le_complete('billing', 'changed', " . at(2 * 86400) . ')'), 't', 'the due tick runs');
is(missed('changed'), '', 'and nothing is missed');
is(claims('changed', 2 * 86400 + 3, "missed => 'all'"), join(' ', 2 * 86400 + 1 .. 2 * 86400 + 3), 'from then on it is known');
like($session->error("SELECT le_claim_tick('billing', 'changed', " . at(3 * 86400) . ", every => '1 day')"),
	qr/WARNING.* from 1 s to 86400 s/, 'and back');
$session->query("SELECT le_complete('billing', 'changed', " . at(3 * 86400) . ')');
is($session->query("SELECT le_claim('billing', 'named', " . at(10) . ')'), 't', 'a tick that was named');
$session->query("SELECT le_complete('billing', 'named', " . at(10) . ')');
is($session->error("SELECT le_claim_tick('billing', 'named', " . at(20) . ", every => '1 s', missed => 'all')"), '',
	'has no interval, and nothing is said');
$session->query("SELECT le_complete('billing', 'named', " . at(20) . ')');
is(missed('named'), '', 'nor is anything missed');
guarantee('G4', \@twice, 'no tick was granted twice');

# ---- le_run ----

sub call
{
	my ($job, $options, $command) = @_;

	$command //= "CALL work('$job')";
	$command =~ s/'/''/g;
	return "CALL le_run('billing', '$command', job => '$job', every => '1 s'" . ($options ? ", $options" : '') . ')';
}

# How many ticks have run, and by how many transactions; whether without a gap
# and in their order.
sub ran
{
	my ($job) = @_;

	return $node->sql(<<"END");
SELECT count(*), count(DISTINCT xid) = count(*), max(second(tick)) - min(second(tick)) + 1 = count(*),
	bool_and(tick > lag) IS NOT FALSE
FROM (SELECT *, lag(tick) OVER (ORDER BY n) FROM work WHERE job = '$job') w
END
}

# None of its ticks is left out, and as many have run as the pattern says.
sub all_ran
{
	my ($job, $pattern, $what) = @_;
	my $ran = ran($job);

	never([ $ran =~ /\|f\|[tf]$/ ? 'lost' : () ], "$job: no tick is lost");
	like($ran, $pattern, $what);
	return;
}

# One whose last tick was so many seconds ago.
sub new_job
{
	my ($job, $seconds) = @_;
	my $tick = "date_trunc('second', now()) - interval '$seconds s'";

	$session->query("BEGIN");
	$session->query("SELECT le_claim_tick('billing', '$job', $tick, every => '1 s')");
	$session->query("SELECT le_complete('billing', '$job', $tick)");
	$session->query("COMMIT");
	return;
}

new_job('run', 5);
is($session->error(call('run', "missed => 'all'")), '', 'le_run');
all_ran('run', qr/^(?:[5-9]|\d\d+)\|t\|t\|t$/, 'le_run: each tick, in a transaction of its own, in their order');
is(missed('run'), '', 'le_run: none is reported');
new_job('run bounded', 60);
is($session->error(call('run bounded', "missed => 'all', max_missed => 2")), '', 'le_run, bounded');
is(ran('run bounded'), '3|t|t|t', 'le_run, bounded: max_missed of them, and the due one');
like(missed('run bounded'), qr/^(?:5[6-9]|[6-9]\d|\d{3,}): /, 'le_run, bounded: the others are reported');

# One of them fails: the call does; the next one goes on.
new_job('fails', 5);
$node->sql('CREATE TABLE failing (seconds int); INSERT INTO failing VALUES (3)');
my $fails = "DO \$\$ BEGIN CALL work('fails'); "
  . "IF (SELECT count(*) FROM work WHERE job = 'fails') = (SELECT seconds FROM failing) THEN RAISE 'it fails'; END IF; END \$\$";
like($session->error(call('fails', "missed => 'all'", $fails)), qr/it fails/, 'the third of them fails');
is(ran('fails'), '2|t|t|t', 'two are done');
$node->sql('DELETE FROM failing');
is($session->error(call('fails', "missed => 'all'", $fails)), '', 'the next call');
like(ran('fails'), qr/^(?:[4-9]|\d\d+)\|t\|f\|t$/, 'goes on behind the one that failed');
is(missed('fails'), '', 'and misses nothing');

# The term is given up in the middle; the rest is the next one's.
new_job('demoted', 40);
my $running = LeaderElection::Session->new($node);
$running->start(call('demoted', "missed => 'all'", "CALL work('demoted'); SELECT pg_sleep(0.5)"));
$node->wait_for("SELECT EXISTS (SELECT FROM work WHERE job = 'demoted')");
my $token = $node->token('billing');
$node->release('billing');
is($running->finish->{error}, '', 'the leader is demoted in the middle');
my ($done) = ran('demoted') =~ /^(\d+)/;
cmp_ok($done, '<', 40, 'not all are done');
$node->acquire('billing');
guarantee('G2', [ $token, $node->token('billing') ], 'the next term');
is($session->error(call('demoted', "missed => 'all'")), '', 'goes on');
all_ran('demoted', qr/^(?:[4-9]\d|\d{3,})\|t\|t\|t$/, 'and none is run twice or left out');
is(missed('demoted'), '', 'nor reported');

# Two sessions at the same time, and a new worker meanwhile
new_job('together', 12);
my @together = map { LeaderElection::Session->new($node) } 1 .. 3;
$_->start(call('together', "missed => 'all', wait => '900 ms'", "CALL work('together'); SELECT pg_sleep(0.1)"))
  foreach @together;
$node->wait_for("SELECT count(*) > 2 FROM work WHERE job = 'together'");
$node->kill_worker('TERM');
my $said = join '', map { $_->finish->{error} } @together;
note($said);
unlike($said, qr/ERROR:  (?!LE00[34])/, 'three sessions, and the worker is replaced');
$node->wait_for("SELECT le_is_leader('billing')");
poll_until(sub { $session->error(call('together', "missed => 'all'")) eq '' }, 'the rest');
all_ran('together', qr/^\d+\|t\|t\|t$/, 'none is run twice or left out');

# While one is under way, a call that would run the others says so.
new_job('long', 3);
$running->start(call('long', "missed => 'all'", "CALL work('long'); SELECT pg_sleep(600)"));
$node->wait_for("SELECT state = 'running' FROM le_claims WHERE job = 'long'");
like($session->error(call('long', "missed => 'all'")),
	qr/NOTICE:  00000: tick \S+ \S+ of job "long" is not claimed: tick \S+ \S+ may still be under way/, 'under way');
$node->sql('SELECT pg_cancel_backend(' . $running->pid . ')');
like($running->finish->{error}, qr/57014/, 'canceled');
guarantee('G4',
	[ split /\n/, $node->sql('SELECT job, tick FROM work GROUP BY 1, 2 HAVING count(*) > 1') ],
	'no tick ran twice');

# ---- its time ----

sub state
{
	my ($job) = @_;

	return $node->sql("SELECT state FROM le_claims WHERE job = '$job'");
}

sub timed_out
{
	my ($job, $command, $more) = @_;

	return $session->error(call($job, "timeout => '300 ms'" . ($more // ''), $command));
}

my $too_long = qr/ERROR:  57014: canceling command of le_run\(\) due to its timeout\nDETAIL:  It took longer than 0.3 s/;

foreach my $limit ('0', '1h')
{
	$session->query("SET statement_timeout = '$limit'");
	like(timed_out("limit $limit", 'SELECT pg_sleep(600)'), $too_long, "statement_timeout $limit: canceled");
	is(state("limit $limit"), 'failed', "statement_timeout $limit: the claim says failed");
}
like(timed_out('none', 'SELECT pg_sleep(600)', ", on_loss => 'none'"), $too_long, 'also where the term does not cancel');
like(timed_out('several', 'SELECT pg_sleep(0.1);' x 600), $too_long, 'all of its statements together');
like(
	timed_out('catches', q{DO $$ BEGIN FOR i IN 1..5 LOOP BEGIN PERFORM pg_sleep(600); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$}),
	$too_long, 'one that catches it five times');
like(
	timed_out('swallows', q{DO $$ BEGIN BEGIN PERFORM pg_sleep(600); EXCEPTION WHEN query_canceled THEN CALL work('swallows'); END; END $$}),
	$too_long, 'one that catches it, and ends');
is(ran('swallows') =~ s/\|.*//r . state('swallows'), '0failed', 'which does not count as done');
like(
	$session->error(call('commits', "timeout => '3 s'", q{DO $$ BEGIN LOOP CALL work('commits'); COMMIT; PERFORM pg_sleep(0.05); END LOOP; END $$})),
	qr/ERROR:  57014: canceling command of le_run\(\) due to its timeout/, 'one that commits');
cmp_ok($node->sql("SELECT count(*) FROM work WHERE job = 'commits'"), '>', 0, 'committed work stays');
like($session->error("CALL le_run('billing', 'SELECT pg_sleep(600)', timeout => '300 ms')"), $too_long, 'without a tick, too');

# as much as a slow machine needs for it, and no more, since it is waited for
my $enough = 0.3;
poll_until(
	sub {
		$enough *= 2;
		return $session->error(call('in time', "timeout => '$enough s'", "CALL work('in time')")) eq '';
	},
	'one that ends in time', interval => 1);
is(state('in time'), 'done', 'in time: it is done');
is($session->error("SELECT pg_sleep($enough)"), '', 'and the session is left in peace');
new_job('each', 20);
is($session->error(call('each', "missed => 'all', timeout => '5 s'", "CALL work('each'); SELECT pg_sleep(0.3)")),
	'', 'each run has its own time');
all_ran('each', qr/^(?:[2-9]\d|\d{3,})\|t\|t\|t$/, 'all are run');
$session->query("SET statement_timeout = '300 ms'");
like($session->error(call('shorter', "timeout => '1 h'", 'SELECT pg_sleep(600)')),
	qr/57014: canceling statement due to statement timeout/, 'a shorter statement_timeout goes on to count');
$session->query('RESET statement_timeout');

# Guards against a limit that a job brings along, and that a CALL, one statement
# to PostgreSQL, would not have.
foreach my $set ('SET', 'SET LOCAL')
{
	like($session->error(call($set, "timeout => '1 h'", "$set statement_timeout = '300 ms'; SELECT pg_sleep(600)")),
		qr/57014: canceling statement due to statement timeout/, "$set in the command");
	is(state($set), 'failed', "$set: the claim says failed");
}
is($session->error(call('each limited', "timeout => '1 h'", "SET LOCAL statement_timeout = '3 s';" . 'SELECT pg_sleep(0.1);' x 35)),
	'', 'each statement by itself');
is(state('each limited'), 'done', 'and none is limited afterwards');
$session->query("SET statement_timeout = '1 h'");
like($session->error(call('no limit', "timeout => '300 ms'", 'SET LOCAL statement_timeout = 0; SELECT pg_sleep(600)')),
	$too_long, 'or none of its own');
$session->query('RESET statement_timeout');
like(timed_out('idle', 'SELECT pg_sleep(600)', ", wait => '900 ms'"), $too_long, 'not of the wait');

# ---- refusals ----

foreach my $case (
	[ "missed => 'some'", qr/22023: invalid missed: "some"\nHINT:  It is "skip", "last", "all" or "ignore"/ ],
	[ 'missed => NULL', qr/22004: argument "missed" must not be null/ ],
	[ 'max_missed => 0', qr/22023: argument "max_missed" must be at least 1/ ],
	[ 'max_missed => NULL', qr/22004: argument "max_missed" must not be null/ ],
	[ "timeout => '-1 s'", qr/22023: argument "timeout" must not be negative/ ],
	[ "timeout => '1 month'", qr/22023: argument "timeout" must not contain months/ ],
	[ 'timeout => NULL', qr/22004: argument "timeout" must not be null/ ])
{
	my ($options, $pattern) = @$case;

	like($session->error(call('refused', $options)), $pattern, "refused: $options");
}
like($session->error("CALL le_run('billing', 'SELECT 1', job => 'refused', tick => " . at(1) . ", missed => 'all')"),
	qr/22023: the argument "missed" needs "every"/, 'refused: missed with tick');
is(state('refused'), '', 'and no claim is made of it');

done_testing();
