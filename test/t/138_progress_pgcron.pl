# Tier: long, 73 s
#
# pg_cron's launcher hangs where the election is led: the worker renews, the
# sessions are well, and no job runs.  The other instance takes over, and its
# pg_cron runs the very tick that the first one missed.
#
# pg_cron knows no shorter interval than a minute, so this test takes two.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Progress;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $sharedir = qx($ENV{PG_CONFIG} --sharedir);
chomp $sharedir;
plan skip_all => 'pg_cron is not installed'
  unless -e "$sharedir/extension/pg_cron.control";

my $consul = LeaderElection::Consul->new('consul')->start;
my @nodes = map {
	LeaderElection::Node->create(
		$_,
		consul => $consul,
		settings => { lease_ttl => '60s', renew_interval => '2s', campaign => 'billing', progress_within => '65s' },
		conf => {
			shared_preload_libraries => 'leader_election,pg_cron',
			'cron.use_background_workers' => 'on'
		})
} 'one', 'two';

foreach my $node (@nodes)
{
	$node->sql(<<'END');
CREATE EXTENSION pg_cron;
CREATE TABLE work (tick timestamptz, token bigint);
SELECT cron.schedule('books', '* * * * *',
	$$CALL le_run('billing', 'INSERT INTO work VALUES (le_tick(), le_fencing_token(''billing''))',
		job => 'books', every => '1 min', wait => '50 s')$$);
END
}

# by pg_cron, since the term began
my $at_work = "SELECT extract(epoch FROM progress_at) FROM le_status WHERE election = 'billing' AND progress_at > term_started_at";
my $leader;

poll_until(
	sub {
		($leader) = grep { $_->sql($at_work) ne '' && $_->sql("SELECT count(*) FROM work WHERE token = le_fencing_token('billing')") > 0 } @nodes;
		return $leader;
	},
	'pg_cron to run the job', interval => 0.1);
my ($other) = grep { $_ != $leader } @nodes;
my $token = $leader->token('billing');
my $last = $leader->sql('SELECT max(tick) FROM work');

my $launcher = $leader->freeze_worker($leader->sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_cron launcher'"));

my $progress = last_progress($leader, 'billing', sub { $other->is_leader('billing') }, interval => 0.1);

# The tick of the next minute waits for its turn on the other node, since it
# came before the end of the term.
poll_until(sub { $other->sql('SELECT count(*) FROM work') > 0 }, 'its pg_cron to run the job', interval => 0.1);
is($other->sql("SELECT min(tick) = '$last'::timestamptz + interval '1 min' FROM work"), 't', 'the tick that was missed, runs there');
is($leader->sql("SELECT count(*) FROM work WHERE tick > '$last'"), 0, 'and not where the launcher hangs');

my %ran;

$ran{$_}++ foreach map { split /\n/, $_->sql('SELECT tick FROM work') } @nodes;
guarantee('G4', [ grep { $ran{$_} > 1 } sort keys %ran ], 'no tick ran twice');
is($leader->sql("SELECT last_loss FROM le_status WHERE election = 'billing'"), 'no progress', 'which gave it up for lack of progress');
is($leader->sql("SELECT count(*) FROM le_events WHERE event = 'no progress' AND fencing_token = $token"), 1, 'in that term');
not_given_up_early($leader, 'billing', $progress, 65);
like($leader->sql("SELECT message FROM le_check_config() WHERE topic = 'progress' AND level = 'warning'"),
	qr/gave up election "billing" for lack of progress/, 'le_check_config() says so');
$leader->thaw_worker($launcher);

done_testing();
