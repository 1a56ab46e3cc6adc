# A leader that is of no use, where each term has a lease of its own.

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
my $gateway = LeaderElection::Gateway->new('gateway',
	cassandra => $cassandra, keyspace => $cassandra->keyspace)->start;
my ($a, $b) = map {
	LeaderElection::Node->create($_, gateway => $gateway, settings => { lease_ttl => '10s', progress_within => '2s' })
} 'a', 'b';

$a->sql("SELECT le_campaign('e')");
$a->wait_for_leadership('e');

my $token = $a->token('e');
my $at_work = LeaderElection::Session->new($a);
my $until = boottime_ns() + 3e9;

while (boottime_ns() < $until)
{
	$at_work->query(q(CALL le_run('e', 'SELECT 1', job => 'j', every => '1 s')));
	$a->sql('SELECT pg_sleep(0.1)');
}
is($a->token('e'), $token, 'jobs keep the term');

$b->sql("SELECT le_campaign('e', progress_within => '0')");
poll_until(sub { $b->is_leader('e') }, 'the other to lead when they stop');
is($a->sql("SELECT last_loss FROM le_status WHERE election = 'e'"), 'no progress', 'for lack of progress');
is($a->sql("SELECT detail FROM le_events WHERE event = 'no progress'"), 'none for 2.0 s; does not contend for 2.0 s', 'as it says');
cmp_ok($b->token('e'), '>', $token, 'a later term');

# who may lead without progress does
$a->wait_for("SELECT state = 'waiting' FROM le_status WHERE election = 'e'", 'the first to contend again');
$a->sql('SELECT pg_sleep(1)');
ok($b->is_leader('e'), 'which is not asked for it, stays');

done_testing();
