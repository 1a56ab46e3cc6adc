# Tier: test, 30 s
#
# A store that has lost records of jobs: restored from a snapshot while it goes on, or
# with a record deleted; or that another takes the place of, as in a staging system.  No
# instance claims a tick again that it has seen, and each says so, until it is told to
# accept the store.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Lectl;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my $snapshot = PostgreSQL::Test::Utils::tempdir . '/snapshot';
my ($a, $b) = map {
	LeaderElection::Node->create($_, consul => $consul, allows_streaming => 1,
		settings => { lease_ttl => '10s', job_check_interval => '1s' })
} 'a', 'b';
my $lost = qr/LE005: could not claim a tick of election "billing": the lease store has lost records/;

sub snapshot
{
	my ($verb) = @_;

	system_or_bail($consul->binary, 'snapshot', $verb,
		'-http-addr', $consul->host_port, $snapshot);
	return;
}

# The nth minute of a day long ago.
sub call
{
	my ($minute, $options) = @_;

	return sprintf(
		q(CALL le_run('billing', 'INSERT INTO runs VALUES (le_tick())', job => 'nightly', tick => '2020-01-01 00:%02d:00+00'%s)),
		$minute, $options // '');
}

# Runs the job, and returns the error.
sub run
{
	my ($node, $minute, $options) = @_;

	return $node->sql_error(call($minute, $options));
}

sub ticks
{
	my ($node) = @_;

	return $node->sql(q(SELECT string_agg(extract(minute FROM tick)::text, ' ' ORDER BY number) FROM runs));
}

sub wait_for_job
{
	my ($node, $state, $minute) = @_;

	return $node->wait_for(sprintf(
			q(SELECT state = '%s' AND tick = '2020-01-01 00:%02d:00+00' FROM le_jobs(NULL) WHERE job = 'nightly'),
			$state, $minute), $node->name . ": $state");
}

sub leads
{
	my ($node) = @_;

	$node->wait_for_leadership('billing');
	return;
}

$_->sql(q(CREATE TABLE runs (tick timestamptz, number serial)))	foreach $a, $b;
$a->sql(q(SELECT le_campaign('billing')));
leads($a);
$b->sql(q(SELECT le_campaign('billing')));

# Guards against records that go back and let ticks run again.
subtest 'a snapshot is restored' => sub {
	is(run($a, 1), '', 'a tick runs');
	snapshot('save');
	is(run($a, $_), '', "tick $_ runs after the snapshot") foreach 2, 3;
	wait_for_job($b, 'done', 3);
	snapshot('restore');
	leads($a);
	like(run($a, 2), $lost, 'not one from before the restored record');
	like(run($a, 3), qr/$lost.*^DETAIL:  Tick 2020-01-01 00:03:00\+00 of job "nightly" was claimed.*^HINT:  .*runbook.*le_accept_store\(\)/ms, 'nor the last');
	like(run($a, 3, ', catch_up => true'), $lost, 'nor to catch up');
	is(ticks($a), '1 2 3', 'each has run once');
};

subtest 'everybody says so' => sub {
	foreach my $node ($a, $b)
	{
		my $name = $node->name;

		wait_for_job($node, 'lost', 3);
		$node->wait_for(q(SELECT count(*) = 1 FROM le_events WHERE event = 'job lost' AND election = 'billing' AND detail LIKE 'job nightly: the store has lost the record of tick 2020-01-01 00:03:00+00'), "$name: an event");
		like($node->sql(q(SELECT level || ': ' || message FROM le_check_config() WHERE topic = 'records')),
			qr/^error: The store has lost the records of 1 job, as of job "nightly" of election "billing": .* 2020-01-01 00:03:00\+00, .*le_accept_store/, "$name: the check");
	}
};

# The memory of seen records outlives the instance.
subtest 'after a restart' => sub {
	$a->restart;
	$a->sql(q(SELECT le_campaign('billing')));
	leads($b);
	like(run($b, 3), $lost, 'the other has seen it as well');
	$b->sql(q(SELECT le_step_down('billing', '1 s')));
	leads($a);
	like(run($a, 3), $lost, 'and the first still knows');
	wait_for_job($a, 'lost', 3);
};

subtest 'the next tick' => sub {
	is(run($a, 4), '', 'runs');
	is(ticks($a), '1 2 3 4', '... once');
	foreach my $node ($a, $b)
	{
		wait_for_job($node, 'done', 4);
		is($node->sql(q(SELECT count(*) FROM le_check_config() WHERE topic = 'records')), 0, $node->name . ': all is well');
	}
};

subtest 'accepted' => sub {
	$consul->delete('/v1/kv/leader_election.claims/billing/nightly');
	wait_for_job($_, 'lost', 4) foreach $a, $b;
	like(run($a, 4), $lost, 'a record that is deleted');
	$a->sql(q(SELECT le_accept_store()));
	is(run($a, 4), '', 'the tick runs once more');
	is(ticks($a), '1 2 3 4 4', 'as was asked for');
	$b->sql(q(SELECT le_accept_store('billing')));
	wait_for_job($_, 'done', 4) foreach $a, $b;
	ok($a->log_like(qr/LOG: .*the state of the lease store is accepted for all elections/), 'the log says so');
};

# An instance that has seen the later record knows, and no other does.
subtest 'an older record is imported' => sub {
	my $file = PostgreSQL::Test::Utils::tempdir . '/export';
	my $claim = q(SELECT le_claim('billing', 'imported', '2020-01-01 00:0%d:00+00'));
	my $at = '-http-addr=' . $consul->host_port;
	my ($new, $code, $out);

	is($a->sql(sprintf $claim, 1), 't', 'a tick is claimed');
	system_or_bail('sh', '-c', '"$0" "$@" > ' . $file,
		$consul->binary, 'kv', 'export', $at, 'leader_election.claims/billing/imported');
	is($a->sql(sprintf $claim, 2), 't', 'and the next');
	$_->wait_for(q(SELECT extract(minute FROM tick) = 2 FROM le_jobs(NULL) WHERE job = 'imported'))
	  foreach $a, $b;
	system_or_bail($consul->binary, 'kv', 'import', $at, "\@$file");
	$_->wait_for(q(SELECT state = 'lost' FROM le_jobs(NULL) WHERE job = 'imported')) foreach $a, $b;
	like($a->sql_error(sprintf $claim, 2), $lost, 'not once more');
	($code, $out) = lectl($b, 'check', 'jobs');
	is($code, 2, 'lectl check jobs');
	like($out, qr/^LECTL JOBS CRITICAL - lost by the store: imported of billing/, 'says why');
	$new = LeaderElection::Node->create('new', consul => $consul);
	$a->sql(q(SELECT le_step_down('billing', '0')));
	$_->sql(q(SELECT le_withdraw('billing'))) foreach $a, $b;
	ok($new->acquire('billing', wait => '3 min'), 'an instance that has not seen the record');
	is($new->sql(sprintf $claim, 2), 't', 'claims the tick');
	is($new->sql(q(SELECT count(*) FROM le_check_config() WHERE topic = 'records')), 0, 'and says nothing');
	$new->stop;
	$a->sql(q(SELECT le_campaign('billing')));
	leads($a);
	$b->sql(q(SELECT le_campaign('billing')));
};

# A staging system has a copy of the data directory and a Consul that knows nothing.
subtest 'a copied data directory with another Consul' => sub {
	my $own = LeaderElection::Consul->new('own')->start;
	my $copied = qr/copied data directory with a store of its own, .*le_accept_store\(\)/;
	my ($staging, $token);

	$b->stop;
	$consul->put("/v1/kv/elsewhere/$_", 'x') foreach 1 .. 200;
	$a->sql(q(SELECT le_step_down('billing', '0')));
	$a->sql(q(SELECT le_campaign('silver')));
	leads($a);
	$a->wait_for_leadership('silver');
	is(run($a, 5), '', 'a tick runs on the original');
	$token = $a->token('silver');
	$a->backup('copy');
	$staging = LeaderElection::Node->create(
		'staging', consul => $own,
		backup => [ $a, 'copy' ],
		settings => {
			lease_ttl => '1min',
			job_check_interval => '1s',
			campaign => 'billing, silver',
			clone_eligible => 'off'
		});
	foreach my $election (qw(billing silver))
	{
		$staging->wait_for_log_like(qr/LOG: .*store \S+ gave election "$election" a fencing token that is not higher.*\n.*\n.*HINT: .*$copied/);
		like($staging->sql_error("SELECT le_acquire('$election')"), qr/LE005.*HINT: .*$copied/s, "the copy does not lead $election, and says why");
		like($staging->sql("SELECT message FROM le_check_config() WHERE level = 'error' AND topic = 'token' AND message LIKE '%\"$election\"%'"), $copied, 'so does the check');
	}
	$staging->sql(q(SELECT le_accept_store()));
	leads($staging);
	$staging->wait_for_leadership('silver');
	cmp_ok($staging->token('silver'), '<', $token, 'one call, and it leads all with tokens of the new store');
	is(run($staging, 5), '', 'a tick that the original ran runs here');
	$staging->restart;
	leads($staging);
	is(run($staging, 6), '', 'and the next after a restart');
	is($staging->sql(q(SELECT count(*) FROM le_check_config() WHERE topic IN ('token', 'records'))), 0, 'all is well');
	$staging->stop;
	$own->stop;
};

# Guards against two runs of one tick by sessions that claim it at the same time: the
# claim of the first is written, and lost, before anybody here has heard of it.
subtest 'lost while a claim is under way' => sub {
	my $recorder = LeaderElection::Recorder->new('a', $consul->host_port)->start;
	my ($first, $second) = map { LeaderElection::Session->new($a) } 1, 2;
	my $writes = qr{^PUT /v1/txn.*"set".*claims/billing/nightly}s;
	my $reads = qr{^(?!PUT /v1/txn.*"set").*claims/billing/nightly}s;
	my ($mark, $held);

	$a->configure(consul_url => $recorder->url);
	poll_until(sub { $recorder->requests(qr{/v1/session/renew}) }, 'the recorder to be asked');
	leads($a);
	is(run($a, 6), '', 'a tick runs');
	$mark = $recorder->mark;
	$held = $recorder->rule(match => $writes, action => 'hold_reply', count => 1);
	$first->start(call(7));
	is($recorder->wait_for_request($writes, $mark)->{status}, 200, 'the next one is claimed');
	$consul->delete('/v1/kv/leader_election.claims/billing/nightly');
	$mark = $recorder->mark;
	$second->start(call(7));
	poll_until(sub { $recorder->requests($writes, $mark) || 2 <= $recorder->requests($reads, $mark) },
		'the second to have judged');
	$recorder->remove_rule($held);
	like($first->finish->{error}, qr/^WARNING: .*The command was run and committed/s, 'the first has the tick');
	like($second->finish->{error}, $lost, 'the second does not');
	is(ticks($a), '1 2 3 4 4 5 6 7', 'which has run once');
	$a->configure(consul_url => $consul->url);
	$_->quit foreach $first, $second;
};

$a->stop;
$consul->stop;
done_testing();
