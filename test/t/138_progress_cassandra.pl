# Tier: long, 47 s
#
# A leader that is of no use, where each term has a lease of its own.

use strict;
use warnings;

use LeaderElection::Cassandra;
use LeaderElection::Gateway;
use LeaderElection::Node;
use LeaderElection::Progress;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $cassandra = LeaderElection::Cassandra->shared;
my $gateway = LeaderElection::Gateway->new('gateway',
	cassandra => $cassandra, keyspace => $cassandra->keyspace)->start;
my ($a, $b) = map {
	LeaderElection::Node->create($_, gateway => $gateway, settings => { lease_ttl => '10s', drain_timeout => '500ms', progress_within => '2s' })
} 'a', 'b';

$a->sql("SELECT le_campaign('e')");
$a->wait_for_leadership('e');

my $token = $a->token('e');

keep_asking($a, 3, q(CALL le_run('e', 'SELECT 1', job => 'j', every => '1 s')));
same_term($token, $a->token('e'), 'jobs keep the term');

$b->sql("SELECT le_campaign('e', progress_within => '0')");
my $progress = last_progress($a, 'e', sub { $b->is_leader('e') });

not_given_up_early($a, 'e', $progress, 2);
is($a->sql("SELECT last_loss FROM le_status WHERE election = 'e'"), 'no progress', 'for lack of progress');
is($a->sql("SELECT detail FROM le_events WHERE event = 'no progress'"), 'none for 2.0 s; does not contend for 2.0 s', 'as it says');
guarantee('G2', [ $token, $b->token('e') ], 'a later term');

# a node that may lead without progress does
$a->wait_for("SELECT state = 'waiting' FROM le_status WHERE election = 'e'", 'the first to contend again');
$b->wait_for("SELECT clock_timestamp() - term_started_at > '6 s' FROM le_status WHERE election = 'e'", 'its time to be over');
still_leads($b, 'e', 'which is not asked for it, stays');

# The scheduler does not start it anew while it runs.
subtest 'a job that hangs' => sub {
	my $job = LeaderElection::Session->new($a);

	# until all are there, which takes its time on a slow machine
	$a->sql("SELECT le_campaign('hung', progress_within => '1 min')");
	$a->wait_for_leadership('hung');
	$b->sql("SELECT le_campaign('hung')");
	$token = $a->token('hung');
	$job->start(q(CALL le_run('hung', 'SELECT pg_sleep(600)', job => 'j', every => '1 s', on_loss => 'none')));
	$a->wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'", 'the job');
	$a->sql("SELECT le_campaign('hung')");
	my $next;

	$progress = last_progress($a, 'hung', sub { $next = $b->token('hung') });
	keep_asking($b, 3, q(CALL le_run('hung', 'SELECT 1', job => 'k', every => '1 s')));
	same_term($next, $b->token('hung'), 'where jobs run the term stays');
	guarantee('G2', [ $token, $next ], 'its token is higher');
	not_given_up_early($a, 'hung', $progress, 2);
	like($job->finish->{error} // '', qr/LE002/, 'the job that hangs is canceled');
	is($a->sql("SELECT last_loss FROM le_status WHERE election = 'hung'"), 'no progress', 'the node gave it up');
	is(hold_offs($a, 'hung')->[0], '2.0', 'for as long as it was given');
	$_->sql("SELECT le_withdraw('hung')") foreach $a, $b;
};

subtest 'nodes without progress, all of them' => sub {
	$_->sql("SELECT le_campaign('useless', progress_within => '1 s')") foreach $a, $b;
	all_useless('useless', 1, $a, $b);
};

done_testing();
