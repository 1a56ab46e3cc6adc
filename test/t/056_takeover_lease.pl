# Tier: long, 39 s
#
# The holder acquires more while it is being deposed; Consul names sessions that
# are nobody's; and leases that are shorter than the shortest session Consul grants.

use strict;
use warnings;

use JSON::PP qw(decode_json encode_json);
use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Session;
use LeaderElection::Takeover;
use LeaderElection::Util;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my (%node, %recorder);

foreach my $name ('a', 'b')
{
	$recorder{$name} =
	  LeaderElection::Recorder->new($name, $consul->host_port)->start;
	$node{$name} = LeaderElection::Node->create(
		$name,
		consul => $recorder{$name},
		settings => { short_lease() });
}

my ($a, $b) = @node{ 'a', 'b' };

# Guards against a deposed holder that gets another election: the acquire that
# was under way comes after the takeover.  One that came before is seen to be
# of the same dead holder.
subtest 'the holder acquires another election meanwhile' => sub {
	ok($a->acquire('first', wait => '3 min'), 'a leads');

	# keys that were released, so that the acquire depends on their index
	foreach my $election ('before', 'after')
	{
		$b->acquire($election, wait => '3 min') or die;
		$b->release($election) or die;
	}
	$b->sql("SELECT le_campaign('first')");
	wait_for_waiter($b, 'first', $a);

	my $case = watch_election('first', $a, $b);
	my $session = leader_key($consul, 'first')->{Session};
	my $mark = $recorder{a}->mark;

	$recorder{a}->rule(
		match => request_like('acquire', 'before'),
		action => 'hang_reply');

	my $held = $recorder{a}->rule(
		match => request_like('acquire', 'after'),
		action => 'hold_request');

	my @calls = map { LeaderElection::Session->new($a) } 1 .. 2;

	# one after the other: requests that wait together go in one transaction
	$calls[0]->start("SELECT le_acquire('before')");
	$recorder{a}->wait_for_request(request_like('acquire', 'before'), $mark);
	$calls[1]->start("SELECT le_acquire('after')");
	poll_until(
		sub {
			2 == grep { $recorder{a}->requests(request_like('acquire', $_),
					$mark) } 'before', 'after';
		},
		'both acquires');

	my $pid = $a->freeze_worker;
	my $frozen = boottime_ns();

	poll_until(sub { leader_key($consul, 'before')->{Session} eq $session },
		'one was applied');
	$b->sql("SELECT le_campaign('before')");
	taken_over($case, from => $a, to => $b, since => $frozen);
	$b->wait_for_leadership('before');
	is(log_line($b, 'before')->{from}, 'a', 'taken over, too');

	# Nobody wants this one, and its key is as a saw it.
	$recorder{a}->remove_rule($held);

	my $late = $recorder{a}->wait_for_request(
		request_like('acquire', 'after'), $mark);

	is($late->{status}, 409, 'is refused');
	is(leader_key($consul, 'after')->{Session}, undef, 'the key is free');
	$b->sql("SELECT le_campaign('after')");
	$b->wait_for_leadership('after');
	is($b->token($_), leader_key($consul, $_)->{ModifyIndex}, "$_ is b's")
	  foreach ('first', 'before', 'after');
	$recorder{a}->clear_rules;
	$a->thaw_worker($pid);
	$a->wait_for_log_like(
		qr/no longer leader of election "first" with fencing token $case->{token}/);
	denied('G5', $a->is_leader('first'), 'first: a follows');

	# it may still ask for one of these
	ok(!$a->is_leader($_), "$_: a follows") foreach ('before', 'after');
	is($b->token($_), leader_key($consul, $_)->{ModifyIndex},
		"$_ is still b's")
	  foreach ('first', 'before', 'after');
	never_overlap($case);
	$b->sql("SELECT le_withdraw('$_')") foreach ('first', 'before', 'after');
};

# Guards against a session that is renewed once per proof, or not in time, and
# against a term that outlives what the store promised for its session.
subtest 'session on its own schedule' => sub {
	my $mark = $recorder{a}->mark;

	ok($a->acquire('schedule', wait => '3 min'), 'a leads');

	my $case = watch_election('schedule', $a, $b);

	no_takeover_yet($case, $a, 10);

	my ($created) = (
		grep { $_->{method} eq 'PUT' }
		  $recorder{a}->requests(request_like('create')))[-1];

	is(decode_json($created->{body})->{TTL}, '10s',
		'a session is for no less than Consul grants');
	is(decode_json($created->{body})->{LockDelay},
		lease_s() . 's', 'with the delay of the lease');

	# From one to the next, on average; their numbers alone are too small to
	# compare.
	my %apart = map {
		my @sent = map { $_->{received} } $recorder{a}->requests(request_like($_), $mark);

		$_ => ($sent[-1] - $sent[0]) / 1e9 / (@sent - 1)
	} 'prove', 'renew';

	cmp_ok($apart{renew}, '>', 1.5 * $apart{prove},
		'more proofs than renewals');

	# The session cannot be renewed any more, while the proofs go on.
	$recorder{a}->rule(
		match => request_like('renew'),
		action => 'answer',
		status => 500,
		body => 'No cluster leader');

	poll_until(sub { !$a->is_leader('schedule') }, 'the end');
	$case->{samplers}{a}->stop;

	my @good = map { $_->{received} }
	  grep { ($_->{status} // 0) == 200 && !$_->{action} }
	  $recorder{a}->requests(request_like('renew'));
	my ($belief) = $case->{samplers}{a}->beliefs;

	# or since its session was created, if it has not come to a renewal
	my @since = (
		@good,
		map { $_->{received} }
		  grep { ($_->{status} // 0) == 200 && $_->{received} < $belief->[1] }
		  $recorder{a}->requests(request_like('create')));

	guarantee('G5', [ [ $belief->[1], @since ? max(@since) + 9.5e9 : undef ] ],
		'belief ended before the session could, whenever it was renewed last, or created');

	my ($proven) = reverse map { $_->{received} }
	  grep { ($_->{status} // 0) == 200 && $_->{received} < $belief->[1] }
	  $recorder{a}->requests(request_like('prove'), $mark);

	before(max(@since), $proven, 'while proofs went on');
	$a->wait_for_log_like(
		qr/no longer leader of election "schedule" .*: deadline passed/);
	$recorder{a}->clear_rules;
	never_overlap($case);
};

# Guards against the longest lease, a minute, for a last holder whose session nobody
# knows: this instance's own, once Consul has named sessions to it that were never its.
# The key says which lease its holder had.
subtest 'sessions that are not ours' => sub {
	my $foreign = '00000000-1111-2222-3333-444444444444';

	$a->sql("SELECT le_campaign('foreign')");
	$a->wait_for_leadership('foreign');

	my $token = $a->token('foreign');
	my $session = leader_key($consul, 'foreign')->{Session};
	my $mark = $recorder{a}->mark;
	my $freed = boottime_ns();

	$recorder{a}->rule(
		match => request_like('create'),
		action => 'answer',
		status => 200,
		body => encode_json({ ID => $foreign }),
		headers => { 'Content-Type' => 'application/json' });
	$consul->put("/v1/session/destroy/$session");
	$consul->delete("/v1/kv/leader_election.nodes/$session");
	poll_until(
		sub {
			(grep { $_->{action} } $recorder{a}->requests(request_like('create'), $mark)) >= 2;
		},
		'foreign sessions');
	denied('G5', $a->is_leader('foreign'), 'no leader by such a session');

	my $key = leader_key($consul, 'foreign');

	ok(!$key->{Session} && !$key->{json}{released} && $key->{json}{session} eq $session,
		'the key is free, and its last holder has not said that it ended')
	  or diag(explain($key));

	$recorder{a}->clear_rules;
	$a->wait_for_leadership('foreign');
	before(boottime_ns(), $freed + 60e9, 'leads again after its own lease');
	guarantee('G2', [ $token, $a->token('foreign') ], 'with a higher token');
	ok($a->sql("SELECT le_withdraw('foreign')"), 'withdraws');
};

# Guards against limits that do not hold, and a lease that does not work.
subtest 'the shortest lease' => sub {
	like(
		$b->sql_error("ALTER SYSTEM SET leader_election.lease_ttl = '2999ms'"),
		qr/ERROR:  22023: 2999 ms is outside the valid range .*\(3000/,
		'three seconds are the least');
	$b->configure(lease_ttl => '3s', safety_margin => '1s', renew_interval => '0');
	$b->wait_for("SELECT current_setting('leader_election.lease_ttl') = '3s'");
	like(
		$b->sql_error("SELECT le_acquire('short', wait => '3 min')"),
		qr/renew_interval \(1000 ms\) plus 3 attempts .* 3000 ms - 1000 ms/s,
		'with a smaller margin');
	$b->configure(safety_margin => '500ms');
	$b->wait_for(
		"SELECT current_setting('leader_election.safety_margin') = '500ms'");
	ok($b->acquire('short', wait => '3 min'), 'leads');

	my $session = leader_key($consul, 'short')->{Session};
	my ($info) = @{ $consul->get("/v1/session/info/$session")->{json} };

	is($info->{TTL}, '10s', 'in a session of ten seconds');
	is(node_keys($consul)->{$session}{json}{lease_ms},
		3000, 'which others know');
	$a->sql("SELECT le_campaign('short')");
	wait_for_waiter($a, 'short', $b);

	my $case = watch_election('short', $b, $a);
	my $killed = boottime_ns();

	$b->crash;
	taken_over($case, from => $b, to => $a, since => $killed);
	never_overlap($case);
};

done_testing();
