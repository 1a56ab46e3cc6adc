# Tier: test, 44 s
#
# Answers to a takeover that never arrive, and copies of everything that arrive
# late: the takeover is sent again only while nothing has moved, and after it
# no copy changes anything.

use strict;
use warnings;

use JSON::PP ();
use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Takeover;
use LeaderElection::Util;
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

sub set_up
{
	my ($election) = @_;

	ok($a->acquire($election, wait => '3 min'), "$election: a leads");
	$b->sql("SELECT le_campaign('$election')");
	wait_for_waiter($b, $election, $a);

	my $case = watch_election($election, $a, $b);

	$case->{mark}{$_} = $recorder{$_}->mark foreach ('a', 'b');
	$case->{session} = leader_key($consul, $election)->{Session};
	return $case;
}

sub finish
{
	my ($case) = @_;

	$recorder{$_}->clear_rules foreach ('a', 'b');
	never_overlap($case);
	$b->sql("SELECT le_withdraw('$case->{election}')");
	return;
}

sub take_overs
{
	my ($case) = @_;

	return $recorder{b}
	  ->requests(request_like('take_over', $case->{election}),
		$case->{mark}{b});
}

# The transaction as sent, without what differs between connections.
sub operations
{
	my ($request) = @_;

	return JSON::PP->new->utf8->canonical->decode($request->{body});
}

# Late copies, of which none may be applied, on any machine: a key would change
# hands.
sub are_refused
{
	my ($what, @replies) = @_;

	denied('G1', scalar(grep { $_->{status} == 200 } @replies), "$what: none is applied");
	is_deeply([ grep { $_->{status} != 409 } @replies ], [], "$what: refused");
	return;
}

# Guards against a takeover whose answer was lost being taken for refused, or
# for done.
foreach my $action ('lose_reply', 'lose_request', 'hang_reply')
{
	subtest "outcome unknown: $action" => sub {
		my $case = set_up($action);

		$recorder{b}->rule(
			match => request_like('take_over', $action),
			action => $action,
			count => 1);

		my $frozen = boottime_ns();
		my $pid = $a->freeze_worker;

		taken_over($case, from => $a, to => $b, since => $frozen);

		my @sent = take_overs($case);
		my ($read) = grep { $_->{received} > $sent[0]{received} }
		  $recorder{b}->requests(request_like('read', $action),
			$case->{mark}{b});

		ok($read, 'the key was read back');
		if ($action eq 'lose_request')
		{
			cmp_ok(scalar @sent, '>', 1, 'the index had not moved: sent again');
			is(scalar(grep { ($_->{status} // 0) == 200 } @sent), 1, 'applied once');
			is_deeply(operations($sent[1]), operations($sent[0]),
				'the same transaction');
			cmp_ok($read->{received}, '<', $sent[1]{received}, 'after that');
		}
		else
		{
			is(scalar @sent, 1, 'applied once');
		}
		is($b->token($action), leader_key($consul, $action)->{ModifyIndex},
			'the token is the index of the takeover');
		$a->thaw_worker($pid);
		$a->wait_for_log_like(
			qr/no longer leader of election "$action" with fencing token $case->{token}/);
		finish($case);
	};
}

# Guards against a repeated takeover on the basis of newer knowledge: the copy of a
# proof that was long under way came in between.  The holder does not believe any more,
# but the waiter cannot know that.
subtest 'outcome unknown, and then a sign of life' => sub {
	my $case = set_up('sign');
	my $frozen = boottime_ns();
	my $pid = $a->freeze_worker;

	# The takeover is lost, and cannot be read back until the sign was seen.
	$recorder{b}->rule(
		match => request_like('take_over', 'sign'),
		action => 'lose_request',
		count => 1);
	$recorder{b}->rule(
		match => request_like('read', 'sign'),
		action => 'hang_request');

	my $first = poll_until(sub { (take_overs($case))[0] }, 'the takeover');
	my $since = boottime_ns();
	my $session = $case->{session};
	my $entry = node_keys($consul)->{$session};
	my $signed = $consul->txn(
		{
			Verb => 'lock',
			Key => "leader_election.nodes/$session",
			Session => $session,
			Flags => LeaderElection::Consul::LOCK_FLAG,
			Value => $entry->{Value} =~ s/"seq":\d+/"seq":999999/r
		});

	is($signed->{status}, 200, 'a sign of life');
	$recorder{b}->wait_for_request(request_like('list_nodes'), $recorder{b}->mark);
	$recorder{b}->clear_rules;
	taken_over($case, from => $a, to => $b, since => $frozen);

	my @applied = grep { ($_->{status} // 0) == 200 } take_overs($case);

	is(scalar @applied, 1, 'taken over once');
	cmp_ok(($applied[0]{received} - $since) / 1e9,
		'>=', lease_s(), 'a whole lease after the sign');

	are_refused('a late copy of the first', $recorder{b}->replay($first));
	$a->thaw_worker($pid);
	finish($case);
};

# Guards against late copies: whatever a or b sent before and during the
# takeover arrives again, after it, and in any order.
subtest 'late duplicates of everything' => sub {
	my $case = set_up('copies');

	# one request of each kind
	$a->acquire('other', wait => '3 min') or die;
	$a->sql("SELECT le_renew('other', 'published')");
	$a->release('other');
	$a->acquire('other', wait => '3 min') or die;
	$b->sql("SELECT le_campaign('other')");

	my $frozen = boottime_ns();
	my $pid = $a->freeze_worker;

	taken_over($case, from => $a, to => $b, since => $frozen);
	$b->wait_for_leadership('other');

	my $state = sub {
		my $tree = $consul->kv_tree('leader_election');

		# b goes on proving itself
		delete $tree->{"leader_election.nodes/"
			  . leader_key($consul, 'copies')->{Session} };
		return $tree;
	};
	my $before = $state->();
	my %copy;

	foreach my $request ($recorder{a}->requests)
	{
		next if $request->{method} ne 'PUT' || !defined $request->{status};
		foreach my $kind (
			'register', 'prove', 'publish', 'release')
		{
			push @{ $copy{$kind} }, $request
			  if $request->{text} =~ request_like($kind)
			  && $request->{text} =~ /\Q$case->{session}\E/;
		}
	}
	$copy{'take over'} =
	  [ $recorder{b}->requests(request_like('take_over')) ];
	foreach my $kind (sort keys %copy)
	{
		my @status =
		  map { $recorder{ $kind eq 'take over' ? 'b' : 'a' }->replay($_) }
		  @{ $copy{$kind} };

		cmp_ok(scalar @status, '>', 0, "$kind: copies");
		are_refused($kind, @status);
	}
	is_deeply($state->(), $before, 'nothing has changed');

	# b's own release, and then its takeover again
	my $mark = $recorder{b}->mark;

	$b->sql("SELECT le_withdraw('other')");
	$recorder{b}->wait_for_request(request_like('release', 'other'), $mark);
	are_refused('a copy of the takeover after its release', $recorder{b}->replay($_))
	  foreach $recorder{b}->requests(request_like('take_over', 'other'));
	is(leader_key($consul, 'other')->{Session}, undef, 'the key stays free');

	# The end of a's session takes nothing from b, by a's hand or another's.
	is($consul->destroy($case->{session})->{body},
		"true", "a's session destroyed");
	denied(
		'G1',
		scalar(
			grep { $_->{status} == 200 }
			map { $recorder{a}->replay($_) } map { @$_ } @copy{
				'register', 'prove', 'publish'}),
		'and then all copies once more');
	still_leads($b, 'copies', 'b leads on');
	$a->thaw_worker($pid);
	$a->wait_for_log_like(
		qr/no longer leader of election "copies" with fencing token $case->{token}/);
	ok($a->acquire('other', wait => '3 min'), 'a is back, by a new session');
	is($b->token('copies'), leader_key($consul, 'copies')->{ModifyIndex},
		"b's key was not touched");
	finish($case);
};

done_testing();
