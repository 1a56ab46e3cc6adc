# Tier: test, 129 s
#
# Two instances on a real Cassandra, and faults between them and it: a gateway that
# dies or hangs, all of them, an instance that dies and comes back, a worker that
# ends, a lock taken away.

use strict;
use warnings;

use LeaderElection::Cassandra;
use LeaderElection::Gateway;
use LeaderElection::Node;
use LeaderElection::Sampler;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $cassandra = LeaderElection::Cassandra->shared;
my $keyspace = $cassandra->keyspace;
my @gateways = map {
	LeaderElection::Gateway->new("gateway$_",
		cassandra => $cassandra, keyspace => $keyspace)->start
} 1 .. 2;
my ($first, $second) = @gateways;

# Where a term is to end by itself; else long enough for a gateway that hangs to leave
# the other one some time, and for a machine that stands still.
use constant SHORT => 15;
use constant LONG => 60;

# Less 1 s of granularity, 2 s of clock skew, 1 s of safety_margin.
use constant TRUST => SHORT - 4;

my %settings =
  (lease_ttl => LONG . 's', renew_interval => '3s', request_timeout => '5s');
my $one = LeaderElection::Node->create('one',
	gateway => \@gateways, settings => {%settings}, allows_streaming => 1);
my $two = LeaderElection::Node->create('two',
	gateway => \@gateways, settings => {%settings});

sub expires
{
	my ($node, $election) = @_;

	return $node->sql(
		"SELECT extract(epoch FROM expires_at) FROM le_status
		WHERE election = '$election'");
}

# Nothing is led, so nothing is given up.
sub leases_are
{
	my ($seconds) = @_;

	foreach my $node ($one, $two)
	{
		$node->configure(lease_ttl => "${seconds}s");
		poll_until(
			sub {
				$node->acquire('probe') && $node->ask("SELECT expires_at - clock_timestamp()
					BETWEEN interval '$seconds s' / 3 AND interval '$seconds s'
					FROM le_status WHERE election = 'probe'") eq 't';
			},
			"leases of $seconds s");
		$node->release('probe');
	}
	return;
}

# The deadline moves on by more than one renewal.
sub goes_on
{
	my ($node, $election, $token, $what) = @_;
	my $before = expires($node, $election);

	poll_until(
		sub { (expires($node, $election) || 0) > $before + 5 },
		"renewals $what");
	same_term($token, $node->token($election), "$what: the term goes on");
	return;
}

# A term must not end because a gateway does.
subtest 'a gateway of two' => sub {
	my ($token, $offset);

	ok($one->acquire('gateway'), 'one leads');
	$token = $one->token('gateway');
	$offset = $one->log_offset;
	$first->kill9;
	goes_on($one, 'gateway', $token, 'killed');
	$one->wait_for_log_like(
		qr/The next request goes to \Q${\$second->url}\E/,
		$offset);
	ok(!$two->acquire('gateway'), 'the other instance asks the other one, too');

	$first->start;
	$one->wait_for_log_like(qr/store server at \Q${\$first->url}\E answers again/,
		$offset);
	$second->kill9;
	goes_on($one, 'gateway', $token, 'and the other way round');
	$second->start;

	$first->freeze;
	goes_on($one, 'gateway', $token, 'frozen');
	ok($two->acquire('elsewhere'), 'a frozen gateway keeps nobody from acquiring');
	ok($two->release('elsewhere'), 'nor from releasing');
	$first->thaw;
	ok($one->release('gateway'), 'the end');
	poll_until(sub { !@{ [ %{ $second->locks } ] } },
		'all locks to be free');
};

# Belief ends by the deadline, whichever part is silent.
subtest 'no gateway at all' => sub {
	my ($token, $expires, $offset);

	leases_are(SHORT);
	my $sampler = LeaderElection::Sampler->new($one, 'away');

	ok($one->acquire('away'), 'one leads');
	$token = $one->token('away');
	$one->sql(q(SELECT le_campaign('away')));
	poll_until(sub { scalar $sampler->beliefs }, 'the sampler');
	$_->freeze foreach @gateways;
	my $frozen = boottime_ns();
	$offset = $one->log_offset;
	poll_until(sub { !$one->is_leader('away') },
		'the end of belief');
	$one->wait_for_log_like(
		qr/no longer leader of election "away" .*deadline passed/, $offset);
	$sampler->stop;
	my ($belief) = $sampler->beliefs;

	guarantee('G5', [ [ $belief->[1], $frozen + (TRUST + 0.1) * 1e9 ] ],
		'not later than the deadline after the last renewal');
	like($one->sql_error(q(SELECT le_acquire('other'))),
		qr/LE00[34].*could not acquire election "other" at the lease store/s,
		'nobody is told "no"');
	like($one->sql_error(q(SELECT le_current_leader('away'))),
		qr/LE003/, 'nor "nobody"');
	$_->thaw foreach @gateways;
	$one->wait_for_leadership('away');
	guarantee('G2', [ $token, $one->token('away') ], 'another term afterwards');
	is($one->sql(q(SELECT le_withdraw('away'))), 't', 'withdrawn');
	poll_until(sub { !%{ $first->locks } },
		'as long as the time without an answer has left');
	pass('nothing is left behind');
};

# The issue of all this: the leader dies, another takes over, never both.
subtest 'a dead leader' => sub {
	my ($token, $killed, @samplers, @beliefs);

	ok($one->acquire('crash'), 'one leads');
	$token = $one->token('crash');
	$two->sql(q(SELECT le_campaign('crash')));
	$two->wait_for(q(SELECT state = 'waiting' FROM le_status
		WHERE election = 'crash'), 'two to wait');
	@samplers =
	  map { LeaderElection::Sampler->new($_, 'crash') } $one, $two;
	poll_until(sub { scalar $samplers[0]->beliefs }, 'the sampler');
	$killed = boottime_ns();
	$one->crash;
	$two->wait_for_leadership('crash');
	poll_until(sub { scalar $samplers[1]->beliefs }, 'the sampler');
	$_->stop foreach @samplers;
	@beliefs = $samplers[1]->beliefs;
	diag(sprintf 'failover, kill -9 to le_is_leader() true on the other '
		  . 'instance: %.2f s at lease_ttl ' . SHORT . 's',
		($beliefs[0][0] - $killed) / 1e9);
	guarantee('G1', [ LeaderElection::Sampler->overlaps(@samplers) ], 'without an overlap');
	guarantee('G2', [ $token, $two->token('crash') ], 'with a higher token');
	is($two->sql(q(SELECT le_withdraw('crash'))), 't', 'withdrawn');
	$one->start;
};

# A restarted instance ends its predecessor's terms, so nobody waits for them.
subtest 'a restarted leader' => sub {
	my @elections = map { "again/$_" } 1 .. 3;
	my ($owner, $killed);

	leases_are(LONG);
	ok($one->acquire($_), "one leads $_") foreach @elections;
	$owner = $first->lock('again/1')->{owner};
	$killed = boottime_ns();
	$one->crash;
	$one->start;
	ok($two->acquire($_, wait => '3 min'), "two leads $_") foreach @elections;
	before(boottime_ns(), $killed + (LONG - 10) * 1e9, 'before the leases ran out');
	ok($one->log_like(qr/ending the leases of this node's previous/),
		'the log says so');
	unlike($first->lock($_)->{owner}, qr/^\Q$owner\E$/, "$_: another owner")
	  foreach @elections;
	ok($two->release($_), "$_ released") foreach @elections;
	poll_until(sub { !%{ $first->locks } }, 'all locks to be free');

	# a copy of the data directory is not the one that led
	ok($one->acquire('copied'), 'one leads again');
	$one->backup('copy');
	my $copy = LeaderElection::Node->create('copy',
		backup => [ $one, 'copy' ], settings => { node_name => 'one' },
		gateway => \@gateways);
	ok($copy->sql('SELECT 1'), 'a copy of it starts');
	still_leads($one, 'copied', 'and leaves the leader alone');
	ok(!$copy->acquire('copied'), 'nor does it lead');
	$copy->stop;
	ok($one->release('copied'), 'the end');
};

# A worker that is terminated comes back to its terms.
subtest 'the worker' => sub {
	my ($token, $worker);

	leases_are(SHORT);
	ok($one->acquire('worker'), 'one leads');
	$token = $one->token('worker');
	$worker = $one->kill_worker('TERM');
	$one->wait_for_worker($worker);
	goes_on($one, 'worker', $token, 'terminated');

	# one that is stopped does not renew, and nobody believes
	my $sampler = LeaderElection::Sampler->new($one, 'worker');
	poll_until(sub { scalar $sampler->beliefs }, 'the sampler');
	$worker = $one->freeze_worker;
	poll_until(sub { !$one->is_leader('worker') },
		'the end of belief');
	ok($two->acquire('worker', wait => '3 min'), 'the other one leads');
	$one->thaw_worker($worker);
	$one->wait_for_log_like(
		qr/no longer leader of election "worker" with fencing token $token/);
	denied('G5', $one->is_leader('worker'), 'and the first does not come back');
	still_leads($two, 'worker', 'nor does it take anything away');
	$sampler->stop;
	ok($two->release('worker'), 'the end');
};

# Somebody with owner, token and revision ends the term over HTTP.
subtest 'a lock taken away' => sub {
	my ($lock, $offset);

	leases_are(LONG);
	ok($one->acquire('taken'), 'one leads');
	$lock = $first->lock('taken');
	$lock->{owner} =~ s/#/%23/;
	$offset = $one->log_offset;
	is( $first->request('DELETE',
			"/v1/locks/taken?owner=$lock->{owner}&token=$lock->{token}"
			  . "&rev=$lock->{rev}")->{status},
		204, 'released by hand');
	is($one->sql(q(SELECT le_renew('taken'))), 'f',
		'a proof on request finds out');
	ok(!$one->is_leader('taken'), 'and ends belief');
	ok($one->log_like(qr/no longer leader of election "taken" .*key deleted/,
			$offset),
		'the log says why');
};

# More than one batch: a few requests per round, none without its term.
subtest 'many elections' => sub {
	my $n = 230;
	my ($before, $requests);
	my $count = sub {
		my $sum = 0;

		foreach my $gateway (@gateways)
		{
			my $metrics = $gateway->get('/metrics')->{content};

			$sum += $1
			  while $metrics =~
			  /^le_gateway_http_requests_total\{.*"renew_many".*\} (\d+)/mg;
		}
		return $sum;
	};

	is( $one->sql(
			"SELECT count(*) FROM generate_series(1, $n) AS i
			WHERE le_acquire('many/' || i)"),
		$n, "one leads $n");
	$one->wait_for(
		"SELECT count(*) = $n FROM le_status
		WHERE state = 'leader' AND last_renewed_at > term_started_at",
		'a renewal of each');
	$before = $count->();
	my $mark = $one->sql('SELECT clock_timestamp()');
	my ($seconds) = timed(
		sub {
			$one->wait_for(
				"SELECT count(*) = $n FROM le_status
				WHERE state = 'leader' AND last_renewed_at > '$mark'",
				'another round');
			$requests = $count->() - $before;
		});
	cmp_ok($requests, '>=', 3, 'in batches of at most 100');

	# a round of three each three seconds, and room for some that are repeated
	cmp_ok($requests, '<=', 14 * ($seconds / 3 + 1), 'in a few requests');
	is( $one->sql(
			"SELECT count(*) FROM le_status WHERE state = 'leader'
			AND term_started_at < '$mark'"),
		$n, 'and no term was lost');
	is($one->sql(q(SELECT le_step_down(NULL, '1 h'))), 't', 'all released');
	is_deeply($first->locks, {}, 'and free');
};

$_->stop foreach $one, $two;
done_testing();
