# Tier: long, 26 s
#
# On one key with users of Consul's own Go client (LeaderElection::Consul's
# lock() and unlock() send what it sends): each side respects the other, and
# Consul's lock-delay, which leaks under load, is not what keeps ours apart.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Sampler;
use LeaderElection::Session;
use LeaderElection::Util;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

my $lease = 10;
my $flag = LeaderElection::Consul::LOCK_FLAG;
my $consul = LeaderElection::Consul->new('consul')->start;
my %cluster = (consul => $consul, settings => { lease_ttl => "$lease s" });
my $one = LeaderElection::Node->create('one', %cluster);
my $two = LeaderElection::Node->create('two', %cluster);

sub path
{
	my ($election) = @_;

	return "leader_election/$election/leader";
}

sub key
{
	my ($election) = @_;

	return $consul->kv(path($election));
}

sub wait_for_state
{
	my ($node, $election, $state) = @_;

	return $node->wait_for(
		"SELECT state = '$state' FROM le_status WHERE election = '$election'",
		$node->name . ": $election $state");
}

# Takes the key as soon as Consul lets it, asking without a pause, and gives it
# back; in a process of its own.  Tells when it had it, by CLOCK_BOOTTIME.
sub hammer
{
	my ($election, $session) = @_;
	my $parent = $$;
	my $pid = open(my $out, '-|') // die "could not fork: $!";

	if ($pid == 0)
	{
		my $limit = boottime_ns() + $LeaderElection::Util::timeout_default * 1e9;

		while (getppid() == $parent && boottime_ns() < $limit)
		{
			next unless $consul->lock(path($election), $session, 'hammered');
			my $from = boottime_ns();

			Time::HiRes::usleep(100_000);
			my $to = boottime_ns();

			$consul->unlock(path($election), $session, 'hammered');
			syswrite(STDOUT, "$from $to\n");
			last;
		}
		POSIX::_exit(0);
	}
	return $out;
}

# The client's lock, while somebody here would like to have it.
my $client = $consul->session(Name => 'nightly backup');

subtest 'held by a client' => sub {
	my $hidden = $consul->session;
	my $before;

	ok($consul->lock(path('client'), $client, 'its own words'),
		'a client takes a key that never existed');
	$before = key('client');
	ok(!$one->acquire('client'), 'we do not get it');
	is($one->leader('client'), 'nightly backup', 'its session has a name');
	is( $one->sql(
			q(SELECT leader, value IS NULL, is_self FROM le_leader('client'))),
		'nightly backup|t|f',
		'in detail too');
	is($one->sql(q(SELECT le_current_leader('client', '1 h'))),
		'nightly backup', 'at any staleness');
	is_deeply(key('client'), $before, 'the key is as it was');
	ok($consul->lock(path('nameless'), $hidden), 'one without a name');
	is($one->leader('nameless'), "session:$hidden", 'is shown by its session');
	$consul->destroy($hidden);
};

# It says unlock, but our value with its mark is not there: nobody knows what the
# client does at its end.  So its key is waited for like one of a node that vanished.
# Consul would give it away at once.
my @unlocked;

subtest 'unlocked by a client' => sub {
	$unlocked[0] = LeaderElection::Session->new($one);
	$unlocked[0]->start(q(SELECT le_acquire('client', wait => '1 min')));
	wait_for_state($one, 'client', 'waiting');
	$unlocked[1] = $one->sql('SELECT clock_timestamp()');
	ok($consul->unlock(path('client'), $client, 'its own words'), 'unlocked');
	$consul->destroy($client);
	ok(!$two->acquire('client'), 'not ours yet');
	is($two->leader('client'), undef, 'nobody has it');
	is(key('client')->{Session}, undef, 'nobody at all');
};

# The other direction: while we hold it and after we let go.
subtest 'held and released by us' => sub {
	my $session = $consul->session(Name => 'patient');
	my $token;

	ok($one->acquire('ours', value => 'words'), 'ours');
	$token = $one->token('ours');
	ok(!$consul->lock(path('ours'), $session, ''), 'not the client\'s');
	is(key('ours')->{Flags}, $flag, 'the flag that the client insists on');
	still_leads($one, 'ours', 'it did no harm');
	ok($one->release('ours'), 'released');
	is(key('ours')->{Flags}, $flag, 'still with the flag');
	ok($consul->lock(path('ours'), $session, ''), 'the client takes it at once');
	ok(!$one->acquire('ours'), 'not ours now');
	is($one->leader('ours'), 'patient', 'as we know');
	ok($consul->unlock(path('ours'), $session, ''), 'unlocked');
	ok($consul->lock(path('ours'), $session, ''), 'taken again');
	cmp_ok(key('ours')->{ModifyIndex}, '>', $token, 'the index rises');
	$consul->delete('/v1/kv/' . path('ours'));
	ok($one->acquire('ours'), 'a client that destroys its lock frees it');
	guarantee('G2', [ $token, $one->token('ours') ], 'our tokens rise all the same');
	ok($one->release('ours'), 'the end');
	$consul->destroy($session);
};

# The command line tool keeps a key of its own below the election's.
subtest 'consul lock' => sub {
	my @lock = (
		LeaderElection::Consul->binary, 'lock',
		'-http-addr=' . $consul->url, 'leader_election/tool');

	ok($one->acquire('tool'), 'ours');
	command_ok([ @lock, 'true' ], 'its own lock of that name');
	still_leads($one, 'tool', 'does not touch ours');
	ok($two->acquire('tool2'), 'nor does its key disturb anybody');
	ok($one->release('tool'), 'the end');
	ok($two->release('tool2'), 'the end');
};

# A client whose session is ended by Consul: no node of ours, so there is
# nothing to be known of it but that a lease should be enough.
my $ended;

subtest 'session of a client ended' => sub {
	my $session = $consul->session(Name => 'killed', LockDelay => '0s');

	ok($consul->lock(path('ended'), $session, ''), 'held by a client');
	$two->sql(q(SELECT le_campaign('ended')));
	wait_for_state($two, 'ended', 'waiting');
	$ended = $two->sql('SELECT clock_timestamp()');
	$consul->destroy($session);
	is($two->leader('ended'), undef, 'free, and without a lock-delay');
	ok(!$two->is_leader('ended'), 'but waited for');
};

# A leader that cannot notice the end of its session believes until its
# deadline.  Clients hammer the key, and may get it early through Consul's
# leaking lock-delay; the other node must neither follow them too early nor be
# kept away for ever.  It stands still until a client has had the key: it might
# have that before, since it waits hardly longer than the lock-delay.
subtest 'lock-delay hammered' => sub {
	my @samplers = map { LeaderElection::Sampler->new($_, 'hammered') } $one,
	  $two;
	my ($session, $pid, $other, $destroyed, @hammers, @held, $term);

	ok($one->acquire('hammered'), 'one leads');
	$two->sql(q(SELECT le_campaign('hammered')));
	wait_for_state($two, 'hammered', 'waiting');
	poll_until(sub { scalar $samplers[0]->beliefs }, 'the sampler');
	$session = key('hammered')->{Session};
	$pid = $one->freeze_worker;
	$other = $two->freeze_worker;
	$destroyed = boottime_ns();
	$consul->destroy($session);
	still_leads($one, 'hammered', 'one still thinks so');
	push @hammers, hammer('hammered', $consul->session(TTL => '1h'))
	  foreach 1, 2;
	foreach my $out (@hammers)
	{
		my $line = <$out> // '';

		push @held, [ $1, $2 ] if $line =~ /^(\d+) (\d+)$/;
		close $out;
		$two->thaw_worker($other) if @held == 1;
	}
	is(scalar @held, 2, 'each of the clients had it');
	@held = sort { $a->[0] <=> $b->[0] } @held;
	diag(sprintf 'first client after %.1f s of a lock-delay of %d s',
		($held[0][0] - $destroyed) / 1e9, $lease);
	$two->wait_for_leadership('hammered');
	poll_until(sub { ($term) = $samplers[1]->beliefs }, 'the sampler');
	$one->thaw_worker($pid);
	$_->stop foreach @samplers;
	guarantee('G1', [ LeaderElection::Sampler->overlaps(@samplers) ], 'no overlap of one and two');
	is( scalar(grep { $_->[0] < $term->[1] && $_->[1] > $term->[0] } @held),
		0,
		'nor of two and a client');
	cmp_ok(($term->[0] - $held[-1][1]) / 1e9,
		'>=', $lease, 'two waited for a lease after the last client');
	poll_until(
		sub { $one->sql(q(SELECT le_fencing_token('hammered') IS NULL)) eq 't' },
		'one to stand back');
	ok(!$one->acquire('hammered'), 'one sees that it is too late');
	is($one->leader('hammered'), 'two', 'and who leads');
	$two->sql(q(SELECT le_withdraw('hammered')));
};

# The ends of the waits above.
subtest 'waits for clients' => sub {
	my $result = $unlocked[0]->finish;
	my $waited = $one->sql(
		"SELECT extract(epoch FROM term_started_at - '$unlocked[1]') "
		  . q(FROM le_status WHERE election = 'client'));

	is($result->{output}, 't', 'after an unlock we get it');
	cmp_ok($waited, '>=', $lease, 'after a whole lease');
	still_leads($two, 'ended', 'after the end of its session, too');
	is( $two->sql(
			"SELECT term_started_at - '$ended' >= '$lease s' "
			  . q(FROM le_status WHERE election = 'ended')),
		't',
		'after a whole lease');
};

done_testing();
