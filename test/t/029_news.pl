# Many elections: a change costs what changed.  Nodes tell each other what they
# write; who tells nothing is heard of when all keys are listed again.

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

# All keys are listed every 30 s; a client's own words in a key are believed
# after a lease at once, and each poll is late by little.
use constant LISTED_WITHIN => 36;

my $consul = LeaderElection::Consul->new('consul')->start;
my %recorder = map {
	$_ => LeaderElection::Recorder->new($_, $consul->host_port)->start
} 'heir', 'bystander';
my %node = map {
	$_ => LeaderElection::Node->create(
		$_,
		consul => $recorder{$_} // $consul,
		settings => { lease_ttl => '6s', max_elections => 300 })
} 'first', 'heir', 'bystander';
my $all = qr{GET /v1/kv/leader_election/\?recurse};
my $news = qr{GET /v1/kv/leader_election\.nodes/news/\?recurse};

sub wait_for_news
{
	my ($name) = @_;
	my $since = $recorder{$name}->mark;

	$recorder{$name}->wait_for_request($news, $since, timeout => 60);
	return;
}

# Seconds from the one's stepping down until the other leads.
sub hand_over
{
	my ($from, $to, $election) = @_;
	my $begun = boottime_ns();

	$from->sql("SELECT le_step_down('$election', '3 s')");
	$to->wait_for_leadership($election);
	return (boottime_ns() - $begun) / 1e9;
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
	my %since;

	wait_for_news($_) foreach sort keys %recorder;
	sleep 10;					# until nothing is new to anybody
	%since = map { $_ => $recorder{$_}->mark } keys %recorder;
	foreach my $i (1 .. 6)
	{
		cmp_ok(hand_over($node{first}, $node{heir}, "e$i"),
			'<', 2, "e$i is handed over at once");
	}
	foreach my $name (sort keys %recorder)
	{
		cmp_ok(scalar $recorder{$name}->requests($all, $since{$name}),
			'<=', 1, "$name has not listed all keys for that");
		cmp_ok(scalar $recorder{$name}->requests($news, $since{$name}),
			'>=', 6, '... but heard the news');
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
	cmp_ok(hand_over($node{heir}, $node{first}, 'e1'),
		'<', 3, 'it tells of what it releases');
	cmp_ok(hand_over($node{first}, $node{heir}, 'e10'),
		'<', 3, 'and hears of what others do');
};

# Guards against keys that are never listed again: other clients tell nothing.
subtest 'other clients' => sub {
	my $key = 'leader_election/foreign/leader';
	my $session = $consul->session(TTL => '120s');
	my $begun;

	ok($consul->lock($key, $session), 'the client has it');
	$node{heir}->sql("SELECT le_campaign('foreign')");
	$node{heir}->wait_for("SELECT state = 'waiting' FROM le_status "
		  . "WHERE election = 'foreign'");
	$consul->delete("/v1/kv/$key");
	$begun = boottime_ns();
	$node{heir}->wait_for_leadership('foreign', timeout => LISTED_WITHIN + 30);
	in_time((boottime_ns() - $begun) / 1e9, LISTED_WITHIN,
		'it is taken when the keys have been listed');
};

# Guards against a claim that waits for the next list of all keys: it rests on the
# leader key as it was seen last, and of a late copy of its own write a node hears
# no news.  All keys have just been listed.
subtest 'a copy of its own write' => sub {
	my $publish = sub { is($node{heir}->sql("SELECT le_renew('e2', '$_[0]')"), 't', "'$_[0]' is published") };
	my ($key, $begun);

	$publish->('before');
	$key = leader_key($consul, 'e2');
	$publish->('now');
	like($key->{Value}, qr/before/, 'what was written first');
	ok($consul->lock($key->{Key}, $key->{Session}, $key->{Value}), '... is written once more');
	$begun = boottime_ns();
	is($node{heir}->sql("SELECT le_claim('e2', 'report', '2026-01-01')"),
		't', 'a tick is claimed');
	in_time((boottime_ns() - $begun) / 1e9, 5, '... at once');
	still_leads($node{heir}, 'e2', '... in the same term');
};

# Guards against going by news when somebody lives who tells none, as a node of
# an earlier version.
subtest 'a node that tells nothing' => sub {
	my $session = $consul->session(TTL => '120s');
	my $key = 'leader_election/early/leader';
	my $flag = LeaderElection::Consul::LOCK_FLAG;
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
	$recorder{heir}->wait_for_request(qr{$all.*index=}, $since, timeout => 30);
	$node{heir}->sql("SELECT le_campaign('early')");
	$node{heir}->wait_for("SELECT state = 'waiting' FROM le_status "
		  . "WHERE election = 'early'");
	ok($consul->unlock($key, $session, $value->('true')), 'it releases');
	$begun = boottime_ns();
	$node{heir}->wait_for_leadership('early');
	in_time((boottime_ns() - $begun) / 1e9, 3, 'and is heard at once');
	$consul->destroy($session);
	wait_for_news('heir');
	sleep 10;					# as above
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
subtest 'more than there is room for' => sub {
	my $begun = boottime_ns();

	$node{first}->sql("SELECT le_step_down(NULL, '8 s')");
	leads_all('heir');
	in_time((boottime_ns() - $begun) / 1e9, 5, 'all are handed over');
};

# Guards against a takeover that rests on keys as they were listed last.
subtest 'a crash' => sub {
	my $begun;

	$node{first}->wait_for('SELECT count(*) = ' . MANY
		  . " FROM le_status WHERE election ~ '^e[0-9]+\$' AND state = 'waiting'",
		'the first to contend again');
	$begun = boottime_ns();
	$node{heir}->crash;
	leads_all('first');

	# a lease, a quarter of one, the jitter, and a second of the machine's
	in_time((boottime_ns() - $begun) / 1e9, 6 * 1.25 + 0.25 + 1.5,
		'the other leads all in time');
};

done_testing();
