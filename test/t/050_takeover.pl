# Tier: test, 33 s
#
# The leader's machine dies, its worker dies or hangs, and comes back: a waiter
# takes over after one lease, and there are never two leaders.

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

my $consul = LeaderElection::Consul->new('consul')->start;
my $through_b =
  LeaderElection::Recorder->new('b', $consul->host_port)->start;
my $a = LeaderElection::Node->create(
	'a',
	consul => $consul,
	settings => { short_lease() });
my $b = LeaderElection::Node->create(
	'b',
	consul => $through_b,
	settings => { short_lease() });

# a leads, b waits, both are sampled.
sub set_up
{
	my ($election) = @_;

	ok($a->acquire($election, wait => '3 min'), "$election: a leads");
	$b->sql("SELECT le_campaign('$election')");
	wait_for_waiter($b, $election, $a);
	return watch_election($election, $a, $b);
}

sub finish
{
	my ($case) = @_;

	never_overlap($case);
	$b->sql("SELECT le_withdraw('$case->{election}')");
	return;
}

# Guards against a wait for Consul's session, which keeps the key shut for a
# lock-delay when it ends; and against one lease for each of the elections.
subtest 'instance killed' => sub {
	my @further = map { "crash$_" } 2 .. 6;

	foreach my $election (@further)
	{
		$a->acquire($election, wait => '3 min') or die;
		$b->sql("SELECT le_campaign('$election')");
	}

	my $case = set_up('crash1');
	my %token = map { $_ => $a->token($_) } @further;
	my $session = leader_key($consul, 'crash1')->{Session};
	my $mark = $through_b->mark;
	my $killed = boottime_ns();

	$a->crash;
	taken_over($case, from => $a, to => $b, since => $killed);
	$b->wait_for_leadership($_) foreach @further;
	foreach my $election (@further)
	{
		my $line = log_line($b, $election);

		is($line->{old}, $token{$election}, "$election: log: the old token");
		same_term($line->{new}, $b->token($election), 'the new token');
		cmp_ok($line->{silence}, '>=', lease_s(), 'silence');
	}

	# 4a once, then 4b, of several in one transaction.
	my %how = (marks => 0, elections => 0);
	my @applied =
	  grep { ($_->{status} // 0) == 200 }
	  $through_b->requests(request_like('take_over'), $mark);

	foreach my $request (@applied)
	{
		my @taken =
		  $request->{text} =~ /"lock","Key":"leader_election\/crash\d\/leader"/g;

		$how{elections} += @taken;
		$how{marks}++
		  if $request->{text} =~ /"unlock","Key":"leader_election\.nodes/;
	}
	is_deeply(\%how, { marks => 1, elections => 6 },
		'one transaction marked the node, the others found it marked');

	# A lease of silence is seen in four looks.
	my @looks = grep {
		$_->{received} > $applied[0]{received} && $_->{received} < $applied[-1]{received}
	} $through_b->requests(request_like('list_nodes'), $mark);

	cmp_ok(scalar @looks, '<', 4, 'which did not need another lease of silence');

	my $node_key = node_keys($consul)->{$session};

	ok($node_key->{json}{revoked}, 'node key of a marked');
	is($node_key->{Session}, undef, 'and free');
	is(scalar @{ $consul->get("/v1/session/info/$session")->{json} },
		1, "while a's session lives");
	finish($case);
	$b->sql("SELECT le_withdraw('$_')") foreach @further;

	# It comes back as a new node: no key of its old session is left.
	$a->start;
	ok($a->acquire('crash1', wait => '3 min'), 'a leads again');
	isnt(leader_key($consul, 'crash1')->{Session}, $session,
		'by a new session');
	ok($a->release('crash1'), 'released');
};

# Guards against a takeover where none is needed: the worker that follows takes
# the terms on, or ends them by proof.
subtest 'worker terminated, worker killed' => sub {
	my $case = set_up('worker');
	my $offset = $b->log_offset;
	my $pid = $a->kill_worker('TERM');

	$a->wait_for_worker($pid);
	no_takeover_yet($case, $a, 2);

	my $killed = boottime_ns();

	$a->kill_worker('KILL');
	taken_over(
		$case,
		to => $b,
		since => $killed,
		takeover => 0);
	$a->wait_for("SELECT true");
	denied('G5', $a->is_leader('worker'), 'a follows');
	finish($case);
};

# Guards against a worker that hangs, and believes when it goes on.
subtest 'worker frozen and thawed' => sub {
	my $case = set_up('hung');
	my $session = leader_key($consul, 'hung')->{Session};
	my $offset = $a->log_offset;
	my $frozen = boottime_ns();
	my $pid = $a->freeze_worker;

	taken_over($case, from => $a, to => $b, since => $frozen);
	denied('G5', $a->is_leader('hung'), 'a does not believe any more');
	$a->thaw_worker($pid);
	$a->wait_for_log_like(
		qr/no longer leader of election "hung" with fencing token $case->{token}/,
		$offset);
	denied('G5', $a->is_leader('hung'), 'nor after the thaw');
	still_leads($b, 'hung', 'b leads on');

	# The old session is ended; what is still under way for it cannot count.
	poll_until(
		sub {
			!@{ $consul->get("/v1/session/info/$session")->{json} };
		},
		"the end of a's session");
	ok(!$a->acquire('hung'), 'a is refused');
	$b->sql("SELECT le_withdraw('hung')");
	ok($a->acquire('hung', wait => '3 min'), 'and leads when b lets go');
	isnt(leader_key($consul, 'hung')->{Session},
		$session, 'by a new session');
	guarantee('G2', [ $case->{token}, $a->token('hung') ], 'with a new token');
	$a->release('hung');
	finish($case);
};

# The same for the whole machine: also what backends believe stands still.
subtest 'instance frozen and thawed' => sub {
	my $case = set_up('frozen');
	my $frozen = boottime_ns();

	$a->freeze;
	taken_over($case, from => $a, to => $b, since => $frozen);
	$a->thaw;
	denied('G5', $a->is_leader('frozen'), 'not for a moment after the thaw');
	$a->wait_for_log_like(
		qr/no longer leader of election "frozen" with fencing token $case->{token}/);
	still_leads($b, 'frozen', 'b leads on');
	finish($case);
};

# Guards against a key that is taken as from the node that it was taken over from,
# after one's own release: as long as no watch has shown that it is free.
subtest 'released after a takeover' => sub {
	my $case = set_up('again');
	my $watch = request_like('watch');
	my $mark = $through_b->mark;

	# the watch that is parked shows this, and the next one shows nothing
	$through_b->rule(match => $watch, action => 'hang_request');
	ok($a->acquire('another'), 'another key changes');
	poll_until(sub { $through_b->requests($watch, $mark) }, 'the next watch');

	my $killed = boottime_ns();

	$a->crash;
	taken_over($case, from => $a, to => $b, since => $killed);
	$mark = $through_b->mark;
	$b->sql("SELECT le_release('again'); SELECT le_campaign('again')");
	$b->wait_for_leadership('again');
	is(scalar $through_b->requests(request_like('release', 'again'), $mark), 1, 'b releases');
	is(scalar $through_b->requests(request_like('acquire', 'again'), $mark), 1,
		'and has it again by one request, from nobody');
	is(scalar $through_b->requests(request_like('take_over', 'again'), $mark), 0, '... but itself');
	$through_b->clear_rules;
	finish($case);
};

done_testing();
