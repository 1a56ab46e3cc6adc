# Tier: test, 34 s
#
# Somebody else meddles with a leader's keys: each way is noticed at once, the next
# leader does not come before the end of the last one's belief, and foreign keys are
# not touched.

use strict;
use warnings;

use JSON::PP qw(decode_json);
use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Sampler;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

# A loss is normally noticed within milliseconds, through the watch.  Without it
# the next proof tells; where none gets through and the reason is not the deadline,
# it was the watch.
my $lease = 10;
my $consul = LeaderElection::Consul->new('consul')->start;
my $recorder = LeaderElection::Recorder->new('one', $consul->host_port)->start;
my %cluster = (
	consul => $consul,
	settings => { lease_ttl => "$lease s", renew_interval => '7 s' });
my $one = LeaderElection::Node->create('one', %cluster, consul => $recorder);
my $two = LeaderElection::Node->create('two', %cluster);
my $flag = LeaderElection::Consul::LOCK_FLAG;

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

# One leads and has just proven it, two is a candidate, both are watched.
sub set_up
{
	my ($election) = @_;
	my %case = (election => $election);

	$one->acquire($election, value => 'kept') or die "not acquired";
	$two->sql("SELECT le_campaign('$election')");
	$two->wait_for(
		"SELECT state = 'waiting' FROM le_status WHERE election = '$election'",
		"two to wait for $election");
	$case{token} = $one->token($election);
	$case{session} = key($election)->{Session};
	$case{samplers} =
	  [ map { LeaderElection::Sampler->new($_, $election) } $one, $two ];
	poll_until(sub { scalar $case{samplers}[0]->beliefs }, 'the sampler');
	$one->sql("SELECT le_renew('$election')");
	$case{began} = boottime_ns();
	return \%case;
}

sub no_proofs
{
	$recorder->rule(match => request_like('prove'), action => 'hang_request');
	return;
}

sub noticed
{
	my ($case, $reason) = @_;
	my $election = $case->{election};
	my $ms;

	$one->wait_for_log_like(
		qr/no longer leader of election "$election" .*: $reason/);
	$recorder->clear_rules;
	denied('G5', $one->is_leader($election), "$election: one does not lead any more");
	$ms = (($case->{samplers}[0]->beliefs)[-1][1] - $case->{began}) / 1e6;
	diag(sprintf 'key "%s": belief ended after %.0f ms',
		$election, $ms < 0 ? 0 : $ms);
	return;
}

# Returns how long it took the next leader to come, in seconds.
sub succeeded
{
	my ($case) = @_;
	my $election = $case->{election};
	my $term;

	$two->wait_for_leadership($election);
	poll_until(sub { ($term) = $case->{samplers}[1]->beliefs },
		'the sampler');
	guarantee('G2', [ $case->{token}, $term->[2] ],
		"$election: two leads with a higher token");
	$_->stop foreach @{ $case->{samplers} };
	return ($term->[0] - $case->{began}) / 1e9;
}

sub no_overlap
{
	my ($case) = @_;

	guarantee('G1', [ LeaderElection::Sampler->overlaps(@{ $case->{samplers} }) ],
		"$case->{election}: no overlap");
	$two->sql("SELECT le_withdraw('$case->{election}')");
	return;
}

# An operator lets go of the lock.  The candidate cannot know that the last
# leader has noticed, so it waits a lease; see further below.
my $released = set_up('released');

subtest 'key released by somebody else' => sub {
	no_proofs();
	ok($consul->unlock(path('released'), $released->{session}),
		'released, and the value wiped');
	noticed($released, 'key deleted or taken');
	is(key('released')->{Session}, undef, 'nobody takes it');
	ok(!$one->release('released'), 'nothing to release');
};

# The same, leaving the value as the last leader wrote it.
my $unlocked = set_up('unlocked');

subtest 'key unlocked as it was' => sub {
	no_proofs();
	ok( $consul->unlock(
			path('unlocked'), $unlocked->{session},
			key('unlocked')->{Value}),
		'released, and the value left');
	noticed($unlocked, 'key deleted or taken');
	is(key('unlocked')->{Session}, undef, 'nobody takes it');
};

# A deleted key looks like one that never existed, so the candidate takes it at
# once: only its wait for others' leases protects from overlaps, and deleting
# keys by hand is said to be unsafe.  Noticed it must be all the same.
subtest 'key deleted' => sub {
	my $case = set_up('deleted');

	no_proofs();
	$consul->delete('/v1/kv/' . path('deleted'));
	noticed($case, 'key deleted or taken');
	succeeded($case);
	is($one->leader('deleted'), 'two', 'the former leader sees that');
	$two->sql(q(SELECT le_withdraw('deleted')));
};

# A plain write goes through the lock and leaves it in place: still ours, so
# the term goes on, and the next write of ours puts things right.
subtest 'key overwritten' => sub {
	my $token;

	ok($one->acquire('written', value => 'kept'), 'one leads');
	ok(!$two->acquire('written'), 'two does not');
	$token = $one->token('written');
	$consul->put('/v1/kv/' . path('written'), 'scribble');
	is(key('written')->{Flags}, 0, 'lock flag and value are gone');
	like($two->sql_error(q(SELECT le_acquire('written'))),
		qr/LE005/, 'two takes it for somebody else\'s');
	is($one->sql(q(SELECT le_renew('written'))),
		't', 'one proves that it leads');
	same_term($token, $one->token('written'), 'in the same term');
	is($one->sql(q(SELECT le_renew('written', 'mended'))),
		't', 'and publishes');
	is(key('written')->{Flags}, $flag, 'with the flag');
	is(decode_json(key('written')->{Value})->{value},
		'mended', 'and the value');
	ok(!$two->acquire('written'), 'two sees who leads');
	$consul->put('/v1/kv/' . path('written'), 'scribble again');
	ok($one->release('written'), 'released all the same');
	is(key('written')->{Flags}, $flag, 'in good order');
	ok($two->acquire('written'), 'for two to take it');
	guarantee('G2', [ $token, $two->token('written') ], 'with a higher token');
	ok($two->release('written'), 'the end');
};

# A key without the lock flag was not made by us or Consul's clients.
subtest 'keys of somebody else' => sub {
	my %foreign = (
		plain => 0,
		numbered => 42,
		# Consul's semaphore, above 2^63
		semaphore => '16210313421097356768');

	foreach my $election (sort keys %foreign)
	{
		my $before;

		$consul->put('/v1/kv/' . path($election) . "?flags=$foreign{$election}",
			"bytes\0of $election");
		$before = key($election);
		like($_->sql_error("SELECT le_acquire('$election')"),
			qr/LE005: could not acquire election "$election".*\nDETAIL:  the election's key was made by something else: it lacks the lock flag of Consul's clients$/sm,
			"$election: refused to " . $_->name)
		  foreach $one, $two;
		like(
			$one->sql_error(
				"SELECT le_acquire('$election', 'value', '10 s', 'session')"),
			qr/LE005/,
			'at once, although the call would wait');
		$one->sql("SELECT le_campaign('$election')");
		$one->wait_for(
			"SELECT state = 'waiting' AND last_change_at IS NULL "
			  . "FROM le_status WHERE election = '$election'",
			'the candidate to see it');
		like($one->sql("SELECT last_error FROM le_status WHERE election = '$election'"),
			qr/lacks the lock flag/, 'and le_status says why it waits');
		$one->sql("SELECT le_withdraw('$election')");
		is_deeply(key($election), $before,
			'neither bytes nor index have changed');
	}
	$consul->delete('/v1/kv/' . path('plain'));
	ok($one->acquire('plain'), 'once it is gone the name is free');
	ok($one->release('plain'), 'the end');
};

# Keys of Patroni's own leaders must not be mixed with ours.
subtest 'keys of Patroni' => sub {
	my %keys = map { ("service/batman/$_" => "patroni's $_") }
	  qw(config initialize leader members/pg1);
	my $refused = qr/LE005.*\n.*Patroni/;
	my ($three, $before);

	$consul->put("/v1/kv/$_", $keys{$_}) foreach sort keys %keys;
	$before = $consul->kv_tree('service');
	$three = LeaderElection::Node->create(
		'three',
		consul => $consul,
		settings => {
			lease_ttl => '60 s',
			renew_interval => '30 s',
			consul_key_prefix => 'service'
		});
	like($three->sql_error("SELECT le_acquire('$_')"),
		$refused, "prefix with Patroni's keys: $_ refused")
	  foreach 'batman', 'robin';
	is_deeply($consul->kv_tree('service'),
		$before, 'nothing there has changed, and nothing is new');
	poll_until(
		sub {
			!grep { $_->{Name} =~ /three/ }
			  @{ $consul->get('/v1/session/list')->{json} };
		},
		'the end of the store session');

	# one that shows up later, or is somewhere in the prefix
	$three->configure(consul_key_prefix => 'apps');
	ok($three->acquire('mine', wait => '3 min'), 'another prefix is free');
	foreach my $name ('config', 'initialize')
	{
		$consul->put("/v1/kv/apps/$name/$name", "patroni's");
		$before = $consul->kv_tree('apps/');
		like($three->sql_error("SELECT le_acquire('$name')"),
			$refused, "a name with Patroni's $name refused");
		is_deeply($consul->kv_tree('apps/'), $before, 'untouched');
	}
	still_leads($three, 'mine', 'the rest goes on');

	# With nobody else to take a key that is deleted there is only its absence to be
	# seen.  A node that sees it proves at once, and not when a proof is due.
	my $proven = boottime_ns();

	is($three->sql(q(SELECT le_renew('mine'))), 't', 'proven');
	$consul->delete('/v1/kv/apps/mine/leader');
	$three->wait_for_log_like(
		qr/no longer leader of election "mine" .*: key deleted or taken/);
	before(boottime_ns(), $proven + 27e9, 'noticed before the next proof is due');
	denied('G5', $three->is_leader('mine'), 'and led no longer');
	$three->stop;
};

# Held by a session that is not a node's: its owner is the leader, though unknown.
subtest 'key held by an unknown session' => sub {
	my $session = $consul->session;
	my $before;

	ok($consul->lock(path('unknown'), $session, ''), 'held, with no value');
	$before = key('unknown');
	ok(!$one->acquire('unknown'), 'one does not get it');
	ok(!$one->acquire('unknown', wait => '1 s'), 'by waiting neither');
	is($two->leader('unknown'), "session:$session", 'it leads');
	is($two->sql(q(SELECT value IS NULL AND NOT is_self
		FROM le_leader('unknown'))), 't', 'with no value');
	is_deeply(key('unknown'), $before, 'untouched');
	$consul->destroy($session);
};

# The wait for those that were let go of above.
subtest 'released keys' => sub {
	foreach my $case ($released, $unlocked)
	{
		my $seconds = succeeded($case);

		cmp_ok($seconds, '>=', $lease, 'after a whole lease');
		no_overlap($case);
	}
};

# The node key is what every proof rests on.  Its loss is noticed by the next
# proof only, and since the leader can still tell the store, nobody has to wait.
subtest 'node key deleted' => sub {
	my $case = set_up('node');
	my $value;

	# so that the key can be looked at before two has it
	$two->freeze_worker;
	$consul->delete("/v1/kv/leader_election.nodes/$case->{session}");
	noticed($case, '(?!deadline)');
	poll_until(sub { !key('node')->{Session} }, 'one to let go of the key');
	$value = decode_json(key('node')->{Value});
	ok($value->{released}, 'released, so that two need not wait');
	$two->thaw_worker;
	succeeded($case);
	no_overlap($case);
	ok($one->acquire('afterwards'), 'one is back');
	isnt(key('afterwards')->{Session},
		$case->{session}, 'with another store session');
	ok($one->release('afterwards'), 'the end');
};

# Consul's lock-delay keeps everybody away for a lease after this.
subtest 'session destroyed' => sub {
	my $case = set_up('session');
	my $other = $one->acquire('other');

	$case->{session} = key('session')->{Session};
	$case->{began} = boottime_ns();
	$consul->destroy($case->{session});
	noticed($case, '(key deleted or taken|store session ended)');
	ok(!$one->is_leader('other'), 'nor anything else');
	succeeded($case);
	no_overlap($case);
	ok($one->acquire('again', wait => '3 min'), 'one is back');
	ok($one->release('again'), 'the end');
};

done_testing();
