# Tier: test, 106 s
#
# pg_cron on two instances, the same job every minute on both, gated by
# le_is_leader(): it works where the leader is, and follows it.  And the fence, as
# the pages have it for a background worker.
#
# pg_cron knows no shorter interval than a minute, so this test takes two.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Docs;
use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $sharedir = qx($ENV{PG_CONFIG} --sharedir);
chomp $sharedir;
plan skip_all => 'pg_cron is not installed'
  unless -e "$sharedir/extension/pg_cron.control";

my $consul = LeaderElection::Consul->new('consul')->start;
my %cluster = (
	consul => $consul,
	settings => { lease_ttl => '10s', campaign => 'billing' },
	conf => {
		shared_preload_libraries => 'leader_election,pg_cron',
		'cron.use_background_workers' => 'on'
	});
my @nodes =
  map { LeaderElection::Node->create($_, %cluster) } 'one', 'two';

sub leader
{
	my ($leader) = poll_until(
		sub { [ grep { $_->is_leader('billing') } @nodes ]->[0] },
		'a leader');
	my ($other) = grep { $_ != $leader } @nodes;

	return ($leader, $other);
}

# How often pg_cron has run the job to its end, and how often that did work.
sub ended
{
	my ($node, $since, $job) = @_;

	$job //= 'billing';
	return $node->sql("SELECT count(*) FROM cron.job_run_details JOIN cron.job j USING (jobid)
		WHERE jobname = '$job' AND status NOT IN ('starting', 'running') AND start_time > '$since'");
}

sub worked
{
	my ($node, $since) = @_;

	return $node->sql("SELECT count(*) FROM work WHERE at > '$since'");
}

# Until pg_cron has run the job on all instances; after that there is most of a
# minute to look at what it did.
sub wait_for_run
{
	my ($since) = @_;

	poll_until(sub { !grep { !ended($_, $since) } @nodes },
		'pg_cron', interval => 0.1);
	return;
}

foreach my $node (@nodes)
{
	$node->sql(<<'END');
CREATE EXTENSION pg_cron;
CREATE TABLE work (at timestamptz, token bigint);
CREATE FUNCTION bill() RETURNS void LANGUAGE sql AS
	$$INSERT INTO work VALUES (now(), le_fencing_token('billing'))$$;
SELECT cron.schedule('billing', '* * * * *',
	$$SELECT bill() WHERE le_is_leader('billing')$$);
CREATE TABLE fenced (xid xid8);
CREATE FUNCTION my_job() RETURNS void LANGUAGE sql AS
	$$INSERT INTO fenced VALUES (pg_current_xact_id())$$;
END
	$node->sql(block('fenced job') =~ s{\*/5 }{* }r);
}
my ($leader, $other) = leader();
my $token = $leader->token('billing');

wait_for_run('-infinity');
is( $_->sql(
		q(SELECT count(*) FROM cron.job_run_details JOIN cron.job j USING (jobid)
		WHERE jobname = 'billing' AND status <> 'succeeded')),
	0,
	'the job ran without an error on ' . $_->name)
  foreach @nodes;
is(worked($leader, '-infinity'),
	ended($leader, '-infinity'), 'each run worked on the leader');
is(worked($other, '-infinity'), 0, 'and none elsewhere');
is($leader->sql('SELECT DISTINCT token FROM work'),
	$token, 'as leader of this term');

# The fence, in a background worker.
poll_until(sub { !grep { !ended($_, '-infinity', 'fenced') } @nodes }, 'the fenced job', interval => 0.1);
my $said = q(SELECT DISTINCT status || ': ' || translate(return_message, E'\n', ' ')
	FROM cron.job_run_details JOIN cron.job j USING (jobid)
	WHERE jobname = 'fenced' AND status NOT IN ('starting', 'running'));
like($leader->sql($said), qr/^succeeded/, 'the fenced job has committed on the leader');
cmp_ok($leader->sql('SELECT count(*) FROM fenced'), '>', 0, 'with its work');
like($other->sql($said), qr/^failed: .*not leader of/, 'and is refused elsewhere');
is($other->sql('SELECT count(*) FROM fenced'), 0, 'without any');

# The leader's machine dies and comes back, somebody else leads.
$leader->crash;
$other->wait_for_leadership('billing');
$leader->start;
$leader->wait_for(
	q(SELECT state = 'waiting' FROM le_status WHERE election = 'billing'),
	'the old leader to be a candidate');

# From here on there is a leader in each minute.
my $since = $other->sql('SELECT clock_timestamp()');

wait_for_run($since);
is(worked($other, $since), ended($other, $since),
	'after a failover each run works on the new leader');
is(worked($leader, $since), 0, 'and none on the old one');
guarantee('G2', [ $token, $other->sql("SELECT min(token) FROM work WHERE at > '$since'") ],
	'with a higher token');
is( $other->sql(
		q(SELECT count(*) - count(DISTINCT date_trunc('minute', at))
		FROM work)),
	0,
	'no minute twice');

done_testing();
