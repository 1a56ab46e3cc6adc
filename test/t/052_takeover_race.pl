# Tier: long, 92 s
#
# Several waiters, one that comes late, one that slept, one that is shown an old
# state: only one takes over, never from a leader that lives, and none before it has
# itself seen a whole lease of silence.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Takeover;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

# Here most leaders are to go on: long enough for that where the machine stands
# still for some seconds.
use constant LEASE => 8;

my $consul = LeaderElection::Consul->new('consul')->start;
my (%node, %recorder);

foreach my $name ('a', 'b', 'c')
{
	$recorder{$name} =
	  LeaderElection::Recorder->new($name, $consul->host_port)->start;
	$node{$name} = LeaderElection::Node->create(
		$name,
		consul => $recorder{$name},
		settings => { short_lease(lease_ttl => LEASE . 's') });
}

my ($a, $b, $c) = @node{ 'a', 'b', 'c' };

sub take_overs
{
	my ($name, $mark) = @_;

	return
	  grep { defined $_->{status} }
	  $recorder{$name}->requests(request_like('take_over'), $mark);
}

# From an answer to a takeover: for so long its sender itself must see silence, on
# any machine.
sub a_whole_lease
{
	my ($from, $to, $what) = @_;

	return ok(0, $what) unless $from->{answered} && $to->{received};
	return never([ grep { $_ < LEASE } ($to->{received} - $from->{answered}) / 1e9 ], $what);
}

# Guards against a takeover that rests on a timer alone: while b slept, a went
# on, and b wakes up to a timer that has run out.
subtest 'a waiter that was suspended' => sub {
	ok($a->acquire('slept', wait => '3 min'), 'a leads');
	$b->sql("SELECT le_campaign('slept')");
	wait_for_waiter($b, 'slept', $a);

	my $case = watch_election('slept', $a, $b);
	my $mark = $recorder{b}->mark;
	my $frozen = boottime_ns();
	my $pid = $b->freeze_worker;

	no_takeover_yet($case, $a, LEASE + 2);
	$b->thaw_worker($pid);
	no_takeover_yet($case, $a, LEASE);
	is(scalar(grep { $_->{status} == 200 } take_overs('b', $mark)),
		0, 'b took nothing');

	# The whole instance, and the leader dies meanwhile: b counts a lease from
	# when it wakes, or sees that nothing has changed since it looked last.
	wait_for_waiter($b, 'slept', $a);
	$b->freeze;

	my $killed = boottime_ns();

	$a->crash;
	poll_until(sub { boottime_ns() > $killed + (LEASE - 2) * 1e9 },
		'b to sleep');
	$b->thaw;
	taken_over($case, from => $a, to => $b, since => $killed);
	never_overlap($case);
	$b->sql("SELECT le_withdraw('slept')");
	$a->start;
};

# Guards against a waiter that goes on looking once per lease, as it does while
# it waits for nobody: it would be late by most of a lease.
subtest 'a waiter that begins to wait' => sub {
	ok($a->acquire('begun', wait => '3 min'), 'a leads');
	ok($b->acquire('own', wait => '3 min'), 'b has something of its own');
	$b->wait_for(q{SELECT EXISTS (SELECT FROM le_nodes WHERE node = 'a')},
		'b to know a');

	my $listed = $recorder{b}->wait_for_request(request_like('list_nodes'),
		$recorder{b}->mark);
	my $mark = $recorder{b}->mark;

	$b->sql("SELECT le_campaign('begun')");

	my $next = $recorder{b}->wait_for_request(request_like('list_nodes'),
		$mark);

	# Sixteen proofs of its own go with a lease, four with a quarter of one.
	my @proofs = grep {
		$_->{received} > $listed->{received} && $_->{received} < $next->{received}
	} $recorder{b}->requests(request_like('prove'));

	cmp_ok(scalar @proofs, '<', 10, 'b looks more often at once');
	$b->sql("SELECT le_withdraw('begun')");
	ok($b->release('own'), 'released');
	ok($a->release('begun'), 'released');
};

# Guards against a list from a server that lags: it shows an index that does not move,
# while the leader lives.  The transaction is refused, and the wait starts anew, from a
# list by Consul's leader.
subtest 'stale lists' => sub {
	ok($a->acquire('stale', wait => '3 min'), 'a leads');
	$b->sql("SELECT le_campaign('stale')");
	wait_for_waiter($b, 'stale', $a);

	my $case = watch_election('stale', $a, $b);
	my $listed = $recorder{b}->wait_for_request(
		qr{^GET /v1/kv/leader_election\.nodes/\?recurse&stale},
		$recorder{b}->mark);
	my $mark = $recorder{b}->mark;

	$recorder{b}->rule(
		match => qr{^GET /v1/kv/leader_election\.nodes/\?recurse&stale},
		action => 'answer',
		status => 200,
		headers => { 'X-Consul-Index' => 1 },
		body => $listed->{reply});

	my $refused = $recorder{b}->wait_for_request(request_like('take_over'),
		$mark);

	is($refused->{status}, 409, 'takeover refused');
	same_term($case->{token}, $a->token('stale'), "a's term goes on");

	my $fresh = $recorder{b}->wait_for_request(
		qr{^GET /v1/kv/leader_election\.nodes/\?recurse(?!&stale)}, $mark);

	cmp_ok($fresh->{received}, '>', $refused->{answered},
		'then b asks the leader of the store');

	# Older lists than that are ignored, so the wait is for another lease.
	my $again = poll_until(
		sub {
			my @all = take_overs('b', $mark);

			return @all > 1 ? $all[1] : undef;
		},
		'the next try');
	a_whole_lease($refused->{status} == 409 ? $refused : {}, $again, 'a whole lease later');
	is($again->{status}, 409, 'refused again');

	my ($first, $second) =
	  map { $_->{body} =~ /"Key":"leader_election\.nodes[^}]*"Index":(\d+)/ }
	  ($refused, $again);

	cmp_ok($second, '>', $first, 'for the highest index that was ever shown');
	$recorder{b}->clear_rules;
	no_takeover_yet($case, $a, 1);
	never_overlap($case);
	$b->sql("SELECT le_withdraw('stale')");
	ok($a->release('stale'), 'released');
};

# Guards against two winners, and against a loser that gives up: each of the
# two gets what the other does not.
subtest 'two waiters at once' => sub {
	my @elections = map { "race$_" } 1 .. 8;
	my %sampler;

	foreach my $election (@elections)
	{
		$a->acquire($election, wait => '3 min') or die;
		$_->sql("SELECT le_campaign('$election')") foreach ($b, $c);
	}
	wait_for_waiter($_, $elections[-1], $a) foreach ($b, $c);

	my @cases = map { watch_election($_, $a, $b, $c) } @elections[ 0, 1 ];
	my %mark = map { $_ => $recorder{$_}->mark } 'b', 'c';

	$a->crash;
	poll_until(
		sub {
			@elections == grep {
				my $election = $_;
				grep { $_->is_leader($election) } $b, $c;
			} @elections;
		},
		'a leader for each',
		interval => 0.1);

	foreach my $election (@elections)
	{
		my @leaders = grep { $_->is_leader($election) } $b, $c;
		my $key = leader_key($consul, $election);

		is(scalar @leaders, 1, "$election: one leader");
		is($leaders[0]->token($election),
			$key->{ModifyIndex}, 'its takeover is in Consul');
	}

	my @won = grep { $_->{status} == 200 } map { take_overs($_, $mark{$_}) }
	  ('b', 'c');

	my $taken = join('', map { $_->{text} } @won);

	# One transaction may take over several.
	is(scalar(() = $taken =~ /"lock","Key":"leader_election\/race/g),
		scalar @elections, 'as many takeovers as elections');
	is(
		scalar(
			grep { $_->{text} =~ /"unlock","Key":"leader_election\.nodes/ }
			  @won),
		1,
		'a was marked once');
	never_overlap($_) foreach @cases;
	foreach my $waiter ($b, $c)
	{
		$waiter->sql("SELECT le_withdraw('$_')") foreach @elections;
	}
	$a->start;
};

# Guards against a lease that is not counted from the waiter's own observation: c has
# seen nothing of a dead leader but its keys.
subtest 'a waiter that starts late' => sub {
	ok($a->acquire('late', wait => '3 min'), 'a leads');

	my $case = watch_election('late', $a, $c);

	$c->stop;
	$a->crash;

	my $died = boottime_ns();

	poll_until(sub { boottime_ns() > $died + (LEASE - 1) * 1e9 },
		'silence that nobody sees');

	my $mark = $recorder{c}->mark;

	$c->start;
	$c->sql("SELECT le_campaign('late')");
	taken_over($case, from => $a, to => $c, since => $died);

	my ($listed) = $recorder{c}->requests(request_like('list_nodes'), $mark);
	my ($taken) = take_overs('c', $mark);

	a_whole_lease($listed, $taken, 'a whole lease after c saw a first');
	never_overlap($case);
};

done_testing();
