# Tier: long, 102 s
#
# le_run() as pg_cron calls it, in a background worker and over a connection,
# on three instances: each minute once, also when the leader is killed just
# before the minute.  And the fence as the pages have it for either mode.
#
# pg_cron knows no shorter interval than a minute, so this test takes two.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Docs;
use LeaderElection::Node;
use LeaderElection::Takeover;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $sharedir = qx($ENV{PG_CONFIG} --sharedir);
chomp $sharedir;
plan skip_all => 'pg_cron is not installed'
  unless -e "$sharedir/extension/pg_cron.control";

my $consul = LeaderElection::Consul->new('consul')->start;
my %mode = (one => 'on', two => 'off', three => 'on');
my %node = map {
	my $node = LeaderElection::Node->create(
		$_,
		consul => $consul,
		settings => { short_lease(lease_ttl => '10s'), campaign => 'billing' },
		conf => {
			shared_preload_libraries => 'leader_election,pg_cron',
			'cron.use_background_workers' => $mode{$_},
			'cron.timezone' => 'Asia/Kolkata'
		},
		start => 0);

	$node->set('cron.host', $node->host);
	$node->start;
	$node->sql('CREATE EXTENSION leader_election');
	$_ => $node
} sort keys %mode;

# A page's job for each minute, under a name, in an election that this instance
# leads all the time.
sub fenced_job
{
	my ($node, $name, $block) = @_;

	$block =~ s{\*/5 }{* };
	$block =~ s{'fenced'}{'$name'};
	$block =~ s{'billing'}{'of_@{[ $node->name ]}'};
	$block =~ s{my_job\(\)}{my_job('$name')};
	$node->sql($block);
	return;
}

foreach my $node (values %node)
{
	$node->sql("SELECT le_campaign('of_@{[ $node->name ]}')");
	$node->wait_for_leadership('of_' . $node->name);
	$node->sql(<<'END');
CREATE EXTENSION pg_cron;
CREATE TABLE work (tick timestamptz, token bigint, batch int);
CREATE PROCEDURE close_books() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..2 LOOP
		INSERT INTO work VALUES (le_tick(), le_fencing_token('billing'), i);
		COMMIT;
	END LOOP;
END $$;
SELECT cron.schedule('books', '* * * * *',
	$$CALL le_run('billing', 'CALL close_books()', job => 'books', every => '1 min', wait => '50 s', catch_up => true)$$);
SELECT cron.schedule('broken', '* * * * *',
	$$CALL le_run('billing', 'SELECT 1/0', job => 'broken', every => '1 min')$$);
CREATE TABLE fenced (job text, xid xid8);
CREATE FUNCTION my_job(text) RETURNS void LANGUAGE sql AS
	$$INSERT INTO fenced VALUES ($1, pg_current_xact_id())$$;
END
	fenced_job($node, 'fenced', block('fenced job'));
	fenced_job($node, 'begins', block('fenced job that begins'));
}

# Before 1.5 a background worker keeps the next job waiting, and a time zone in
# the files means nothing.
foreach my $name (sort keys %node)
{
	my $node = $node{$name};
	my $old = $node->sql(q(SELECT extversion FROM pg_extension WHERE extname = 'pg_cron')) =~ /^1\.[0-4]\b/;

	is($node->sql(q(SELECT count(*) FROM le_check_config() WHERE topic = 'pg_cron' AND level = 'warning')),
		$old && $mode{$name} eq 'on' ? 1 : 0, "$name: a job that keeps others waiting");
	is($node->sql('SELECT le_cron_timezone()'), $old ? 'GMT' : 'Asia/Kolkata', "$name: the time zone");
}

# All runs that pg_cron has recorded as ended
sub ended
{
	my ($node, $job, $since) = @_;

	return $node->sql("SELECT count(*) FROM cron.job_run_details d JOIN cron.job j USING (jobid)
		WHERE jobname = '$job' AND d.status NOT IN ('starting', 'running') AND start_time > '$since'");
}

sub leader
{
	my (@among) = @_;

	return poll_until(
		sub { [ grep { $node{$_}->is_leader('billing') } @among ]->[0] },
		'a leader');
}

# So that both modes run the job: the first leader uses background workers.
my $first = poll_until(
	sub {
		my $name = leader(sort keys %node);

		return $name if $mode{$name} eq 'on';
		$node{$name}->sql("SELECT le_step_down('billing', '5 min')");
		return undef;
	},
	'a leader with background workers');

my $since = '-infinity';
poll_until(
	sub { !grep { !ended($_, 'books', $since) || !ended($_, 'broken', $since) } values %node },
	'pg_cron', interval => 0.1);

sub work
{
	my ($name) = @_;

	return $node{$name}->sql('SELECT count(*), count(DISTINCT tick), count(DISTINCT token) FROM work');
}

# On followers a background worker of "books" may keep these waiting.
my ($two) = grep { $mode{$_} eq 'off' } keys %node;

foreach my $name ($first, $two)
{
	my $node = $node{$name};

	poll_until(sub { ended($node, 'fenced', $since) && ended($node, 'begins', $since) }, 'the fenced jobs');
	my %said = map { split /\|/, $_, 2 } split /\n/, $node->sql(<<'END');
SELECT DISTINCT ON (jobname) jobname, d.status || ': ' || translate(return_message, E'\n', ' ')
FROM cron.job_run_details d JOIN cron.job j USING (jobid)
WHERE jobname IN ('fenced', 'begins') AND d.status NOT IN ('starting', 'running')
ORDER BY jobname, start_time
END
	my $done = $node->sql('SELECT job FROM fenced GROUP BY job ORDER BY job');

	like($said{fenced}, qr/^succeeded/, "$name: a fence without BEGIN");
	if ($mode{$name} eq 'off')
	{
		like($said{begins}, qr/^succeeded/, "$name: and with it, over a connection");
		is($done, "begins\nfenced", "$name: both have worked");
	}
	else
	{
		like($said{begins}, qr/^failed: .*unexpected state BEGIN/, "$name: not with it, in a background worker");
		is($done, 'fenced', "$name: one has worked");
	}
}

my %others = map { $_ => 1 } grep { $_ ne $first } keys %node;
is(work($first), '2|1|1', "$first: the job ran once, in a background worker, and could commit");
is(work($_), '0|0|0', "$_: not on the others") foreach sort keys %others;
foreach my $name (sort keys %node)
{
	is( $node{$name}->sql("SELECT string_agg(DISTINCT status, ',') FROM cron.job_run_details d JOIN cron.job j USING (jobid) WHERE jobname = 'books'"),
		'succeeded', "$name: pg_cron says that it succeeded");
}
like($node{$first}->sql("SELECT status || ': ' || return_message FROM cron.job_run_details d JOIN cron.job j USING (jobid) WHERE jobname = 'broken'"),
	qr/failed: .*division by zero/s, 'pg_cron reports the error of the command');
is($node{$first}->sql("SELECT string_agg(job || ' ' || state, ', ' ORDER BY job) FROM le_claims"),
	'books done, broken failed', 'and so do the claims');

# The leader dies just before the minute: nobody leads when pg_cron fires.
my $last = $node{$two}->sql("SELECT max(tick) FROM le_claims WHERE job = 'books'");

# A clock that is read once the leader is dead may show that minute already, and
# pg_cron have begun.
$since = $node{$two}->sql("SELECT '$last'::timestamptz + interval '30 s'");
$node{$_}->sql("SELECT le_step_down('billing', '3 min')") foreach grep { $_ ne $two && $_ ne $first } keys %node;
poll_until(sub { (localtime)[0] >= 58 }, 'the end of the minute');
$node{$first}->crash;
my @alive = grep { $_ ne $first } sort keys %node;
poll_until(
	sub { !grep { !ended($node{$_}, 'books', $since) } @alive },
	'pg_cron after the failover', interval => 0.1);
is(leader(@alive), $two, 'another node leads, which uses connections');
never([ work($two) =~ /^0/ ? 'lost' : () ], 'the tick is not lost');
is(work($two), '2|1|1', 'and has run the job once');
is($node{$two}->sql("SELECT bool_and(tick = '$last'::timestamptz + interval '1 min') FROM work"),
	't', 'the tick that fell into the gap');
is($node{$two}->sql("SELECT state FROM le_claims WHERE job = 'books'"), 'done', 'done');
$node{$first}->start;
is( $node{$first}->sql("SELECT count(*) FROM work WHERE tick > '$last'"), 0, 'not on the old leader');

done_testing();
