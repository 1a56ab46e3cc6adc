# Tier: test, 18 s
#
# The postmaster alone dies: its worker ends belief, tells the store and goes,
# so that the next leader comes at once; what the sessions that are left over
# were doing for the leader is not committed.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Sampler;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

# So far away is the end of a lease.
my ($lease, $renew_interval) = (60, 3);
my $shutdown = 2;
my $consul = LeaderElection::Consul->new('consul')->start;
my ($one, $two) = map {
	LeaderElection::Node->create(
		$_,
		consul => $consul,
		settings => {
			lease_ttl => "$lease s",
			renew_interval => "$renew_interval s",
			shutdown_timeout => "$shutdown s"
		})
} 'one', 'two';

# The state of a process: a zombie is nobody any more.
sub lives
{
	my ($pid) = @_;

	open(my $stat, '<', "/proc/$pid/stat") or return 0;
	return <$stat> !~ /\) Z/;
}

sub kill_postmaster
{
	my ($node) = @_;
	my $worker = $node->worker_pid;

	$node->kill9;
	return $worker;
}

sub lead_and_wait
{
	my ($election) = @_;

	$one->sql("SELECT le_campaign('$election')");
	$one->wait_for_leadership($election);
	$two->sql("SELECT le_campaign('$election')");
	$two->wait_for(
		"SELECT state = 'waiting' FROM le_status WHERE election = '$election'");
	return;
}

subtest 'the next leader comes at once' => sub {
	my (@samplers, $since, $worker, $led);

	lead_and_wait('job');
	@samplers =
	  map { LeaderElection::Sampler->new($_, 'job', interval => 0.005) }
	  $one, $two;
	poll_until(sub { scalar $samplers[0]->beliefs }, 'the sampler');
	$since = boottime_ns();
	$worker = kill_postmaster($one);
	$two->wait_for_leadership('job');
	poll_until(sub { scalar $samplers[1]->beliefs }, 'the other sampler');
	$led = ($samplers[1]->beliefs)[0][0];
	before($led, $since + ($lease - $renew_interval) * 1e9,
		'without waiting for the lease');
	diag(sprintf 'the other leads %.0f ms after kill -9 of the postmaster',
		($led - $since) / 1e6);
	$_->stop foreach @samplers;
	guarantee('G1', [ LeaderElection::Sampler->overlaps(@samplers) ], 'no overlap');
	poll_until(sub { !lives($worker) }, 'the end of the worker');
	ok( $one->log_like(
			qr/leader_election releases everything, since the postmaster is dead/
		),
		'the log says why');
	$one->start;
	denied('G5', $one->is_leader('job'), 'started again it does not lead');
};

# Sessions end as soon as they look at the postmaster, which one that works in
# its own function does not.
subtest 'later work of a session is not committed' => sub {
	my (@sessions, $worker, $offset);

	$two->sql("SELECT le_withdraw('job')");
	lead_and_wait('bound');
	$one->sql('CREATE TABLE done (i int)');
	$one->sql('CREATE PROCEDURE busy() LANGUAGE plpgsql AS $$ BEGIN '
		  . "WHILE pg_stat_file('enough', true) IS NULL LOOP END LOOP; END \$\$");

	# A shutdown would wait for them for half of it.
	$one->configure(shutdown_timeout => '30 s');
	foreach my $on_loss ('none', 'cancel')
	{
		my $session = LeaderElection::Session->new($one);

		push @sessions, $session;
		$session->query("SET leader_election.on_loss = '$on_loss'");

		# as one message, so that nobody waits for the client in between
		$session->start("BEGIN\\; SELECT le_require_leader('bound')\\; "
			  . 'INSERT INTO done VALUES (1)\\; CALL busy()\\; COMMIT');
		$one->wait_for('SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = '
			  . $session->pid
			  . " AND query LIKE '%busy%' AND state = 'active')");
	}
	$offset = $one->log_offset;
	$worker = kill_postmaster($one);
	$two->wait_for_leadership('bound');
	ok(!$one->log_like(qr/They are canceled in [1-9]/, $offset),
		'and are not waited for');
	append_to_file($one->data_dir . '/enough', '');
	poll_until(sub { !lives($worker) }, 'the end of the worker');
	poll_until(
		sub { !grep { lives($_->pid) } @sessions },
		'the end of the sessions');
	# in the file before the start: a reload may not have come to the worker yet
	# when its postmaster is killed next
	$one->set('leader_election.shutdown_timeout', "$shutdown s");

	# which may have to run out below
	$one->set('leader_election.lease_ttl', '30 s');
	$one->start;
	denied('G3', $one->sql('SELECT count(*) FROM done'), 'nothing is committed');
};

# Belief ends although nobody can be told, and the worker does not stay.
subtest 'with the store gone' => sub {
	my $worker;

	$two->sql("SELECT le_withdraw('bound')");
	lead_and_wait('alone');
	$consul->freeze;
	$worker = kill_postmaster($one);
	poll_until(sub { !lives($worker) }, 'its end');
	pass('the worker goes');
	ok(!$two->is_leader('alone'), 'nobody leads meanwhile');
	$consul->thaw;

	# Its requests reach Consul now, or the lease is waited for.
	$two->wait_for_leadership('alone');
	$one->start;
};

subtest 'store local' => sub {
	my $node = LeaderElection::Node->create('local');
	my $worker;

	$node->sql("SELECT le_campaign('here')");
	$node->wait_for_leadership('here');
	$worker = kill_postmaster($node);
	poll_until(sub { !lives($worker) }, 'the end of the worker');
	pass('it goes');
	$node->start;
	$node->sql("SELECT le_campaign('here')");
	$node->wait_for_leadership('here');
};

done_testing();
