# Tier: test, 18 s
#
# Claims and le_run on a real Cassandra, through two gateways.

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
my ($one, $two) = map {
	LeaderElection::Node->create($_->[0],
		gateway => $_->[1], settings => { lease_ttl => $_->[2], renew_interval => '1s' })
} [ 'one', [ @gateways[0, 1] ], '10s' ], [ 'two', [ @gateways[1, 0] ], '60s' ];
my $tick = '2020-01-01 00:00:00+00';

sub claim
{
	my ($job) = @_;

	return "SELECT le_claim('billing', '$job', '$tick')";
}

sub record
{
	my ($job, $columns) = @_;

	return $two->sql("SELECT $columns FROM le_claims WHERE job = '$job'");
}

denied('G4', $one->sql(claim('early')), 'nobody leads: no claim');
ok($one->acquire('billing', wait => '3 min'), 'one leads');
ok(!$two->acquire('billing'), 'and two does not');

# at the same time
my $jobs = 20;
my @sessions = map { my $node = $_; map { LeaderElection::Session->new($node) } 1 .. 2 } $one, $two;
$_->start("WITH s AS MATERIALIZED (SELECT n FROM generate_series(1, $jobs) n ORDER BY random()) SELECT n FROM s WHERE le_claim('billing', 'job/' || n, '$tick')")
  foreach @sessions;
my @won = map { [ split /\n/, $_->finish->{output} ] } @sessions;
is(scalar(map { @$_ } @won), $jobs, 'as many claims as jobs');
my %won;
$won{$_}++ foreach map { @$_ } @won;
is(scalar keys %won, $jobs, 'each job once');
guarantee('G4', [ grep { $won{$_} > 1 } sort keys %won ], 'and no job twice');
is(scalar(map { @$_ } @won[ 2, 3 ]), 0, 'by the leader');

my $session = LeaderElection::Session->new($one);
is($session->query(claim('done')), 't', 'claimed');
denied('G4', $one->sql(claim('done')), 'once');
is($session->query(claim('done') =~ s/le_claim/le_complete/r), 't', 'completed');
is(record('done', "state, try, tick = '$tick', fencing_token"), 'done|1|t|' . $one->token('billing'), 'seen by the other node');

# a dead leader's tick is caught up, where that is asked for
my $claimed = $session->query(claim('dead'));
is($claimed, 't', 'claimed by a leader');
$one->crash;
ok($two->acquire('billing', wait => '3 min'), 'which dies; two leads');
$two->sql('CREATE TABLE ran (tick timestamptz, token bigint)');
my $run = q{CALL le_run('billing', 'INSERT INTO ran VALUES (le_tick(), le_fencing_token(''billing''))', job => 'dead', tick => '%s'};
$two->sql(sprintf($run, $tick) . ')');
my $runs = $two->sql('SELECT count(*) FROM ran');
is($runs, 0, 'not run again');
denied('G4', $claimed eq 't' && $runs, 'nor granted twice');
$two->sql(sprintf($run, '2020-01-01 00:01+00') . ', catch_up => true)') foreach 1 .. 2;
is($two->sql(q{SELECT string_agg(extract(minute FROM tick)::int::text, ',' ORDER BY tick) FROM ran}), '0,1', 'but caught up');
is(record('dead', 'state, try'), 'done|1', 'done');
like($two->sql_error(q{CALL le_run('billing', 'SELECT 1/0', job => 'fails', tick => now()::timestamptz(0))}), qr/22012/, 'an error');
is(record('fails', 'state'), 'failed', 'the claim says failed');

# a decision for a term that is over
is($two->sql(claim('late')), 't', 'claimed');
$two->release('billing');
denied('G4', $two->sql(claim('later')), 'not without a term');

done_testing();
