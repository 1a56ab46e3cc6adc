# Tier: test, 64 s
#
# Many elections: a change costs what changed.  Nodes tell each other what they write;
# writes of a node that tells nothing are seen when all keys are listed again.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

# More than the hundred from which on news are heard.
use constant MANY => 130;

# All keys are listed every 30 s, if nothing else asks for it; not before this.
use constant LISTED_AFTER => 25;

my $consul = LeaderElection::Consul->new('consul')->start;
my %recorder = map {
	$_ => LeaderElection::Recorder->new($_, $consul->host_port)->start
} 'first', 'heir', 'bystander';
my %node = map {
	$_ => LeaderElection::Node->create(
		$_,
		consul => $recorder{$_},
		settings => { lease_ttl => '6s', max_elections => 300 })
} 'first', 'heir', 'bystander';
my $all = qr{GET /v1/kv/leader_election/\?recurse};
my $news = qr{GET /v1/kv/leader_election\.nodes/news/\?recurse};

sub wait_for_news
{
	my ($name) = @_;

	$recorder{$name}->wait_for_request($news, $recorder{$name}->mark);
	return;
}

# Until nothing is new to anybody: the last list of all keys is of a while ago.
sub wait_until_settled
{
	poll_until(
		sub {
			my @lists = map { $recorder{$_}->requests($all) } keys %recorder;

			return !grep { $_->{received} > boottime_ns() - 3e9 } @lists;
		},
		'all to know all',
		interval => 0.5);
	return;
}

# How many times the next leader has listed all keys until it leads.
# No hold-off ends by itself: the time would be right for some machines.
sub hand_over
{
	my ($from, $to, $election) = @_;
	my ($since, @lists);

	$node{$to}->wait_for(
		"SELECT state = 'waiting' FROM le_status WHERE election = '$election'");
	$since = $recorder{$to}->mark;
	$node{$from}->sql("SELECT le_step_down('$election', '1 h')");
	$node{$to}->wait_for_leadership($election);
	@lists = $recorder{$to}->requests($all, $since);
	$node{$from}->sql("SELECT le_step_down('$election', '0')");
	return scalar @lists;
}

# A list may be due by itself just then: the next election shows it.
sub heard_by_news
{
	my ($from, $to, $elections, $what) = @_;
	my $lists;

	foreach my $election (@$elections)
	{
		$lists = hand_over($from, $to, $election);
		last unless $lists;
	}
	is($lists, 0, $what);
	return;
}

foreach my $name ('first', 'heir')
{
	$node{$name}->sql(
		"SELECT count(le_campaign('e' || i)) FROM generate_series(1, "
		  . MANY . ') AS i');
	$node{first}->wait_for_leadership('e' . MANY);
}
ok($node{bystander}->acquire('other'), 'a third has another election');

# Guards against a handoff that waits for the next list, and against lists for
# the sake of each change.
subtest 'handoffs' => sub {
	my (%since, $begun, $seconds, @lists);

	wait_for_news($_) foreach sort keys %recorder;
	wait_until_settled();
	%since = map { $_ => $recorder{$_}->mark } keys %recorder;
	$begun = boottime_ns();
	push @lists, hand_over('first', 'heir', "e$_") foreach 1 .. 6;
	$seconds = (boottime_ns() - $begun) / 1e9;
	isnt(scalar(grep { $_ == 0 } @lists), 0, 'handed over before the next list');
	foreach my $name (sort keys %recorder)
	{
		cmp_ok(scalar $recorder{$name}->requests($all, $since{$name}),
			'<=', 1 + $seconds / LISTED_AFTER,
			"$name has not listed all keys for that");
		isnt(scalar $recorder{$name}->requests($news, $since{$name}),
			0, '... but heard the news');
	}
	is($node{heir}->token('e1'), leader_key($consul, 'e1')->{ModifyIndex},
		'the token is the index of the write');
	is( $node{bystander}->sql("SELECT leader, value ~ 'port', fencing_token = "
			  . leader_key($consul, 'e1')->{ModifyIndex}
			  . " FROM le_leader('e1', '20 s')"),
		'heir|t|t',
		'a value is read, since it is not in the news');
};

# Guards against news that are kept nowhere but in a worker's memory.
subtest 'a new worker' => sub {
	my $pid = $node{heir}->worker_pid;

	$node{heir}->kill_worker('TERM');
	$node{heir}->wait_for_worker($pid);
	heard_by_news('heir', 'first', [ 'e1', 'e3', 'e4', 'e5' ],
		'it tells of what it releases');
	heard_by_news('first', 'heir', [ 'e10' .. 'e15' ], 'and hears of what others do');
};

# Guards against keys that are never listed again: other clients tell nothing.
subtest 'other clients' => sub {
	my $key = 'leader_election/foreign/leader';
	my $session = $consul->session(TTL => '1h');

	ok($consul->lock($key, $session), 'the client has it');
	$node{heir}->sql("SELECT le_campaign('foreign')");
	$node{heir}->wait_for("SELECT state = 'waiting' FROM le_status "
		  . "WHERE election = 'foreign'");
	$consul->delete("/v1/kv/$key");
	$node{heir}->wait_for_leadership('foreign');
	pass('it is taken when the keys have been listed');
};

# Guards against a claim that waits for the next list of all keys: it rests on the
# leader key as it was seen last, and of a late copy of its own write a node hears
# no news.  All keys have just been listed.
subtest 'a copy of its own write' => sub {
	my $publish = sub { is($node{heir}->sql("SELECT le_renew('e2', '$_[0]')"), 't', "'$_[0]' is published") };
	my ($key, $since);

	$publish->('before');
	$key = leader_key($consul, 'e2');
	$publish->('now');
	like($key->{Value}, qr/before/, 'the first write');
	ok($consul->lock($key->{Key}, $key->{Session}, $key->{Value}), '... is written once more');
	$since = $recorder{heir}->mark;
	is($node{heir}->sql("SELECT le_claim('e2', 'report', '2026-01-01')"),
		't', 'a tick is claimed');
	is(scalar $recorder{heir}->requests($all, $since), 0, '... before the next list');
	still_leads($node{heir}, 'e2', '... in the same term');
};

# Guards against going by news while a live node tells none: a node begins to tell
# when a list shows it more than a hundred keys.
subtest 'a node that tells nothing' => sub {
	my $session = $consul->session(TTL => '1h');
	my $key = 'leader_election/early/leader';
	my $flag = LeaderElection::Consul::LOCK_FLAG;
	my $waits = qr{$all.*index=};
	my $since = $recorder{heir}->mark;
	my $value = sub {
		return qq({"proto":1,"node":"early","session":"$session","released":$_[0]});
	};
	my $begun;

	is( $consul->txn(
			{
				Verb => 'lock',
				Key => "leader_election.nodes/$session",
				Session => $session,
				Flags => $flag,
				Value => qq({"proto":1,"node":"early","incarnation":"abc",)
				  . qq("session":"$session","lease_ms":60000,"seq":1,)
				  . '"revoked":false}'
			},
			{
				Verb => 'lock',
				Key => $key,
				Session => $session,
				Flags => $flag,
				Value => $value->('false')
			})->{status},
		200,
		'it is there, and leads');
	$recorder{heir}->wait_for_request($waits, $since);
	$node{heir}->sql("SELECT le_campaign('early')");
	$node{heir}->wait_for("SELECT state = 'waiting' FROM le_status "
		  . "WHERE election = 'early'");
	$begun = boottime_ns();    # before: the answer may come before unlock returns
	ok($consul->unlock($key, $session, $value->('true')), 'it releases');
	$node{heir}->wait_for_leadership('early');
	isnt( scalar(
			grep { ($_->{answered} // 0) > $begun }
			  $recorder{heir}->requests($waits, $since)),
		0,
		'and is heard by a query that waits for it');
	$consul->destroy($session);
	wait_for_news('heir');
};

sub leads_all
{
	my ($name) = @_;

	return $node{$name}->wait_for('SELECT count(*) = ' . MANY
		  . ' FROM generate_series(1, ' . MANY . ') AS i '
		  . "WHERE le_is_leader('e' || i)");
}

# Guards against a gap that is not noticed: each transaction writes more than
# news can list.
subtest 'more news than a list has room for' => sub {
	my ($listed, $since, @lists);

	# so that no other is due soon
	wait_until_settled();
	$listed = $recorder{heir}->wait_for_request($all, $recorder{heir}->mark);
	$since = $recorder{heir}->mark;
	$node{first}->sql("SELECT le_step_down(NULL, '1 h')");
	leads_all('heir');
	@lists = $recorder{heir}->requests($all, $since);
	before(
		$lists[0]{received},
		$listed->{received} + LISTED_AFTER * 1e9,
		'all are handed over, for which the keys are listed');
};

# Guards against a takeover that rests on keys as they were listed last.
subtest 'a crash' => sub {
	$node{first}->sql("SELECT le_step_down(NULL, '0')");
	$node{first}->wait_for('SELECT count(*) = ' . MANY
		  . " FROM le_status WHERE election ~ '^e[0-9]+\$' AND state = 'waiting'",
		'the first to contend again');
	$node{heir}->crash;
	leads_all('first');
	pass('the other leads all');
};

done_testing();
