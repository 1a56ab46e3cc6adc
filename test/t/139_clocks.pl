# Tier: test, 20 s
#
# Wall clocks that are wrong: a leader whose clock differs from the store's claims no
# tick, and a claim that lies ahead of an instance's clock does not silence a job
# without a word.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Util;
use LeaderElection::WallClock;
use Test::More;

my $clock = LeaderElection::WallClock->new('a')
  or plan skip_all => 'there is no libfaketime';
my $consul = LeaderElection::Consul->new('consul')->start;
my %settings = (job_check_interval => '1s', lease_ttl => '60s');
my $wrong = LeaderElection::Node->create('a', consul => $consul, settings => {%settings}, start => 0);
my $right = LeaderElection::Node->create('b', consul => $consul, settings => {%settings});
my $runs = 0;

sub set_clock
{
	my ($hours) = @_;

	$clock->set($hours * 3600);
	$wrong->wait_for("SELECT abs(extract(epoch FROM clock_timestamp()) - @{[time]} - $hours * 3600) < 600",
		"$hours hours ahead");
	return;
}

sub run
{
	my ($rc, $out, $err) = $wrong->psql('postgres', q(\set VERBOSITY verbose
		CALL le_run('billing', 'INSERT INTO runs DEFAULT VALUES', job => 'sync', every => '1 s')));

	return $err;
}

sub job { return $_[0]->sql(q(SELECT state, ahead FROM le_jobs('0') WHERE job = 'sync')) }

# The worker sees a new time within a second.
sub wait_for_check
{
	my ($level) = @_;

	$wrong->wait_for("SELECT level = '$level' FROM le_check_config() WHERE topic = 'clock'", "the check says $level");
	return;
}

$clock->start($wrong);
$wrong->sql($_) foreach 'CREATE EXTENSION leader_election', 'CREATE TABLE runs (at timestamptz DEFAULT le_tick())';
ok($wrong->acquire('billing', wait => '3 min'), 'leads');

subtest 'a clock that differs from the store\'s' => sub {
	foreach my $hours (8, -8)
	{
		set_clock($hours);
		wait_for_check('error');
		like(
			run(),
			qr/LE005: could not claim a tick of election "billing": clocks differ\nDETAIL:  The wall clock of this instance is 28\d\d\d s \w+( of)? that of the store/,
			"$hours hours: no claim");
	}
	is(job($right), '', 'nothing is recorded');
	ok($wrong->is_leader('billing'), 'leadership goes on');
	set_clock(0);
	wait_for_check('ok');
	is(run(), '', 'right again: it runs');
	is(job($right), 'done|f', 'as recorded');
};

subtest 'a claim ahead of the clock' => sub {
	set_clock(8);
	wait_for_check('error');
	$wrong->configure(max_clock_offset => '1d');
	wait_for_check('ok');
	is(run(), '', 'allowed: it runs');
	is(job($wrong), 'done|f', 'ahead of no clock of its own');
	is(job($right), 'done|t', 'but of the other\'s');
	$right->wait_for(q(SELECT count(*) > 0 FROM le_events WHERE event = 'job ahead' AND node = 'a' AND detail LIKE 'job sync, tick %'),
		'an event tells it');

	set_clock(0);
	$wrong->configure(max_clock_offset => '60s');
	wait_for_check('ok');
	$runs = $wrong->sql('SELECT count(*) FROM runs');
	like(run(), qr/WARNING:  01000: the last claim of job "sync" of election "billing" lies ahead of this instance's clock\nDETAIL:  Tick .* was claimed at /,
		'the call warns');
	is($wrong->sql('SELECT count(*) FROM runs'), $runs, 'the job rests');

	$wrong->sql(q(SELECT le_forget_job('billing', 'sync')));
	is(job($right), 'done|f', 'it begins anew');
	poll_until(sub { is(run(), '', 'called'); return $wrong->sql('SELECT count(*) FROM runs') > $runs }, 'the job to run again');
};

$_->stop foreach $wrong, $right;
done_testing();
