# le_jobs on a real Cassandra, through two gateways: the gateway keeps with each
# claim what its claimant tells.  A claim of an earlier version tells nothing.

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
		gateway => $_->[1], settings => { lease_ttl => '10s', log_error => 'on' })
} [ 'a', [ @gateways[0, 1] ] ], [ 'b', [ @gateways[1, 0] ] ];
my $tick = '2020-01-01 00:00:00+00';

sub job
{
	my ($node, $job, $columns) = @_;

	return $node->sql("SELECT $columns FROM le_jobs('0') WHERE job = '$job'");
}

ok($a->acquire('billing', wait => '30s'), 'a leads');
ok(!$b->acquire('billing'), 'and b does not');

is($a->sql_error(q(CALL le_run('billing', 'SELECT pg_sleep(0.2)', job => 'nightly', every => '1 day', wait => '1 min'))), '', 'runs');
is( job($_, 'nightly', "state, late, failures, try, node, duration >= '200 ms' AND duration < '1 min' AND duration = ended_at - started_at, "
		  . "error, last_success = ended_at, every, next_expected - tick, now() - started_at < '5 min'"),
	'done|f|0|1|a|t||t|1 day|1 day|t', 'done, seen by ' . $_->name)
  foreach $a, $b;
is($_->sql(q(SELECT node, claimed_at IS NOT NULL, ended_at IS NOT NULL FROM le_claims WHERE job = 'nightly')), 'a|t|t', 'le_claims too')
  foreach $a, $b;

like($a->sql_error(qq(CALL le_run('billing', 'SELECT ''"ä\\'' || 1/0', job => 'fails', tick => '$tick'))), qr/division by zero/, 'fails');
is(job($_, 'fails', 'state, failures, error, last_success'), 'failed|1|22012: division by zero|', 'failed, seen by ' . $_->name) foreach $a, $b;

# as an earlier version claims and ends
subtest 'an earlier version' => sub {
	my $lock = $gateways[0]->lock('billing');
	my %claim = (owner => $lock->{owner}, token => $lock->{token}, tick => 1577836800000, try => 1, claim => 'c1');
	my $answer = $gateways[0]->request('POST', '/v1/locks/billing/claims/old', \%claim);

	is($answer->{status}, 201, 'claims');
	is(job($_, 'old', 'state, failures, tick, node, duration, every, late, last_success') =~ s/2020-.*?\|/|/r, 'running|||||||', 'seen by ' . $_->name)
	  foreach $a, $b;
	is($gateways[1]->request('POST', '/v1/locks/billing/claims/old/complete', { claim => 'c1', state => 'failed' })->{status}, 200, 'ends');
	is(job($b, 'old', 'state, failures, error, ended_at'), 'failed|||', 'seen');
	is($a->sql_error(q(CALL le_run('billing', 'SELECT 1/0', job => 'old', tick => '2020-01-02 00:00+00'))) =~ /division/, 1, 'the next one is of this version');
	is(job($b, 'old', 'state, failures, node'), 'failed|1|a', 'and tells');

	# one of ours, ended by an earlier version: what was told stays
	my $session = LeaderElection::Session->new($a);

	is($session->query("SELECT le_claim('billing', 'ours', '$tick')"), 't', 'claimed by this one');
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

$_->stop foreach $a, $b;
done_testing();
