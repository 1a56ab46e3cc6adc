# Tier: test, 88 s
#
# A session that waits for the worker or the store can be canceled, timed out and
# terminated at any moment, and leaves nothing held behind: effects of its call alone
# are undone, leases from before stay.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my $recorder = LeaderElection::Recorder->new('r', $consul->host_port)->start;

# A request that hangs does so until the test lets go of it: none times out before.
my $node = LeaderElection::Node->create(
	'a',
	consul => $recorder,
	settings => { lease_ttl => '30s', request_timeout => '60s' });
my $admin = LeaderElection::Session->new($node);
my $reloads = 0;
my %stopped;

my %interrupt = (
	pg_cancel_backend => {
		error => qr/ERROR:  57014: canceling statement due to user request/,
		act => sub { $admin->query("SELECT pg_cancel_backend($_[0])") }
	},
	pg_terminate_backend => {
		error => qr/FATAL:  57P01: terminating connection/,
		act => sub { $admin->query("SELECT pg_terminate_backend($_[0])") }
	},
	statement_timeout => {
		error => qr/ERROR:  57014: canceling statement due to statement timeout/
	});

# requests of the election "e"
my $leader_key = '"Key":"leader_election/e/leader"';
my $create = qr{^PUT /v1/session/create};
my $watch = qr{^GET /v1/kv/leader_election/\?recurse};
my $read = qr{^GET /v1/kv/leader_election/e/leader\?consistent};
my $lock = qr{^PUT /v1/txn.*"Verb":"lock",$leader_key}s;
my $unlock = qr{^PUT /v1/txn.*"Verb":"unlock",$leader_key}s;
my $proof = qr{^PUT /v1/txn.*"Verb":"lock","Key":"leader_election.nodes/}s;

# The store answers again, and connections on which something hangs are closed.
sub let_go
{
	$recorder->clear_rules;
	$recorder->kill9;
	$recorder->start;
	$consul->thaw;
	return;
}

# In each of the three ways: runs the statement until it hangs, interrupts it, lets
# the store recover and looks at the rest.  An error of the interrupt shows that the
# session obeyed it, and did not wait for the request that hangs.
sub interrupted
{
	my ($what, $sql, %params) = @_;

	foreach my $way (sort keys %interrupt)
	{
		my ($session, $mark, $result);
		my $rule = $params{rule};
		my $or = $params{or} // $interrupt{$way}{error};

		$params{before}->() if $params{before};
		$session = LeaderElection::Session->new($node);
		$session->query("SET statement_timeout = '500 ms'")
		  if $way eq 'statement_timeout';
		$mark = $recorder->mark;
		if ($rule && $rule->{action} eq 'late')
		{
			$consul->freeze;
		}
		elsif ($rule)
		{
			$recorder->rule(%$rule);
		}
		$session->start($sql);
		if ($rule)
		{
			poll_until(
				sub {
					$session->is_done
					  || $recorder->requests($rule->{match}, $mark);
				},
				"$what: request that hangs",
				interval => 0.005);
		}
		if ($interrupt{$way}{act})
		{
			my $waits = 'SELECT wait_event_type = $$Extension$$ FROM pg_stat_activity '
			  . 'WHERE pid = ' . $session->pid;

			poll_until(
				sub { $node->ask($waits) eq 't' || $session->is_done },
				"$what: $way: a wait");
			ok(!$session->is_done, "$what: $way: waits") unless $params{or};
			$interrupt{$way}{act}->($session->pid);
		}
		$result = $session->finish;
		like($result->{error}, qr/$interrupt{$way}{error}|$or/,
			"$what: $way: ends it");
		let_go() if $rule;
		$params{after}->("$what: $way") if $params{after};
	}
	return;
}

# The store has recovered: nothing is held, sought or under way.
sub nothing_left
{
	my ($what) = @_;
	my $key;

	$node->wait_for(
		"SELECT count(*) = 0 FROM le_status WHERE state <> 'idle'",
		"$what: idle");
	$key = $consul->kv('leader_election/e/leader');
	is($key && $key->{Session}, undef, "$what: not held in Consul");
	denied('G5', $node->sql("SELECT le_is_leader('e')"), "$what: not led");
	return;
}

my $token;

sub hold
{
	poll_until(sub { $node->acquire('e', wait => '60s') }, 'a term');
	$token = $node->token('e');
	return;
}

sub still_held
{
	my ($what) = @_;

	is($node->sql("SELECT le_renew('e')"), 't', "$what: still held");
	same_term($token, $node->token('e'), "$what: the same term");
	return;
}

# First, while there is no store session yet.
subtest 'creating the store session' => sub {
	$recorder->rule(match => $create, action => 'hang_request');
	interrupted(
		"create, $_",
		"SELECT le_acquire('e', scope => '$_', wait => '1 h')")
	  foreach 'node', 'session';
	is($consul->kv('leader_election/e/leader'), undef, 'nothing happened yet');
	let_go();
	nothing_left('create');
};

subtest 'acquiring' => sub {
	# never arrives; arrives, but the answer does not; the answer comes when the
	# caller has gone, also to a read that may be needed before
	my %fault = (
		hang_request => { match => $lock, action => 'hang_request' },
		hang_reply => { match => $lock, action => 'hang_reply' },
		late => { match => qr/$lock|$read/, action => 'late' });
	my %faults = (
		node => [ 'hang_request', 'hang_reply', 'late' ],
		session => [ 'hang_reply', 'late' ]);

	# a caller that has just been shown that the key is free need not read it
	interrupted(
		'read',
		"SELECT le_acquire('e', wait => '1 h')",
		before => sub { $recorder->rule(match => $watch, action => 'hang_request') },
		rule => { match => $read, action => 'hang_request' },
		after => \&nothing_left);
	foreach my $scope (sort keys %faults)
	{
		interrupted(
			"$scope, $_",
			"SELECT le_acquire('e', scope => '$scope', wait => '1 h')",
			rule => $fault{$_},
			after => \&nothing_left)
		  foreach @{ $faults{$scope} };
	}
	interrupted(
		'transaction, hang_reply',
		"BEGIN; SELECT le_acquire('e', scope => 'transaction')",
		rule => { match => $lock, action => 'hang_reply' },
		after => \&nothing_left);
};

# A lease from before the call is none of its business.
subtest 'renewing and publishing' => sub {
	hold();
	interrupted(
		'renew',
		"SELECT le_renew('e')",
		rule => { match => $proof, action => 'hang_request' },
		after => \&still_held);
	interrupted(
		"publish, $_",
		"SELECT le_renew('e', md5(random()::text))",
		rule => { match => $lock, action => $_ },
		after => \&still_held)
	  foreach 'hang_request', 'hang_reply';
	ok($node->release('e'), 'released in the end');
	nothing_left('publish');
};

# A release that is interrupted goes on without the caller.
subtest 'releasing' => sub {
	interrupted(
		"le_release, $_",
		"SELECT le_release('e')",
		before => \&hold,
		rule => { match => $unlock, action => $_ },
		after => \&nothing_left)
	  foreach 'hang_request', 'hang_reply';
	interrupted(
		'le_step_down',
		"SELECT le_step_down('e', '0')",
		before => \&hold,
		rule => { match => $unlock, action => 'hang_request' },
		after => \&nothing_left);
	interrupted(
		'le_withdraw',
		"SELECT le_withdraw('e')",
		before => sub {
			$node->sql("SELECT le_campaign('e')");
			$node->wait_for_leadership('e');
		},
		rule => { match => $unlock, action => 'hang_request' },
		after => \&nothing_left);
};

# From now on a request that hangs is given up after so long.
sub requests_end_after
{
	my ($timeout) = @_;
	my $mark = 'reload' . ++$reloads;

	# the worker has read all of the file when it leads what only that names
	$node->configure(request_timeout => $timeout, campaign => $mark);
	$node->wait_for_leadership($mark);
	$node->configure(campaign => '');
	$node->wait_for("SELECT count(*) = 0 FROM le_status WHERE state <> 'idle' AND election = '$mark'");
	return;
}

# "Stepped down from all" means that the store has confirmed all of it, and
# nothing but it: a release that was under way before does not count.
subtest 'le_step_down of all' => sub {
	my ($one, $two) = map { LeaderElection::Session->new($node) } 1 .. 2;
	my $other = $unlock =~ s/e\/leader/f\/leader/r;
	my $mark;

	hold();
	ok($node->acquire('f'), 'two elections held');
	$mark = $recorder->mark;
	$recorder->rule(match => $unlock, action => 'delay_reply', delay => 0.3);
	$recorder->rule(match => $other, action => 'delay_request', delay => 0.8);
	$one->start("SELECT le_release('e')");
	poll_until(sub { $recorder->requests($unlock, $mark) }, 'first release');
	is($two->query("SELECT le_step_down(NULL, '0')"), 't', 'stepped down');
	is($consul->kv('leader_election/f/leader')->{Session},
		undef, 'confirmed by the store');
	is($one->finish->{output}, 't', 'so is the other');
	$recorder->clear_rules;
	hold();
	requests_end_after('2s');
	$recorder->rule(match => $unlock, action => 'hang_request');
	like(
		$two->error("SELECT le_step_down(NULL, '0')"),
		qr/ERROR:  LE004: could not release all elections at the lease store/,
		'could not find out: an error');
	let_go();
	nothing_left('le_step_down of all');
};

# A write whose fate is open when the caller's time is up: neither "no" nor
# "nothing was changed".
subtest 'time up while a write hangs' => sub {
	my $open = sub {
		my ($sql, $what) = @_;

		like($admin->error($sql),
			qr/ERROR:  LE004: could not \w+ election "e" at/, $what);
	};

	$recorder->rule(match => $lock, action => 'hang_request');
	$open->("SELECT le_acquire('e')", 'acquiring');
	let_go();
	nothing_left('acquiring');
	hold();
	$recorder->rule(match => $lock, action => 'hang_request');
	$open->("SELECT le_renew('e', md5(random()::text))", 'publishing');
	let_go();
	still_held('publishing');
	$recorder->rule(match => $unlock, action => 'hang_request');
	$open->("SELECT le_release('e')", 'releasing');
	let_go();
	nothing_left('releasing');
	# A key that was never seen is read first.
	$recorder->rule(
		match => $read =~ s/e\/leader/never\/leader/r,
		action => 'hang_request');
	like($admin->error("SELECT le_acquire('never')"),
		qr/ERROR:  LE003: could not acquire election "never"/,
		'only read so far: nothing was changed');
	let_go();
	nothing_left('reading');
	requests_end_after('60s');
};

subtest 'asking who leads' => sub {
	interrupted(
		$_,
		"SELECT $_('e')",
		rule => { match => $read, action => 'hang_request' },
		after => \&nothing_left)
	  foreach 'le_current_leader', 'le_leader';
};

# A waiter that has gone must not be granted its election.
subtest 'waiting for another holder' => sub {
	my $other = $consul->session;

	ok($consul->lock('leader_election/e/leader', $other), 'held elsewhere');
	interrupted(
		'foreign holder',
		"SELECT le_acquire('e', wait => '1 h')",
		after => sub {
			$node->wait_for(
				"SELECT count(*) = 0 FROM le_status WHERE state <> 'idle'");
			pass("$_[0]: waits no more");
		});
	$consul->unlock('leader_election/e/leader', $other);
	nothing_left('foreign holder');
	$consul->destroy($other);
	$consul->delete('/v1/kv/leader_election/e/leader');

	# and for a session of this node
	my $holder = LeaderElection::Session->new($node);

	poll_until(
		sub {
			$holder->query("SELECT le_acquire('e', scope => 'session')") eq 't';
		},
		'a term');
	interrupted('session of this node',
		"SELECT le_acquire('e', scope => 'session', wait => '1 h')");
	is($holder->query("SELECT le_release('e')"), 't', 'released');
	nothing_left('session of this node');
};

# The answer may be there already when the interrupt is noticed: a term that
# nobody will ever know of must not stay.
subtest 'answered and canceled at once' => sub {
	my $answered = sub {
		my ($session) = @_;

		# Questions are looked at in rounds: this one comes after.
		$admin->query("SELECT le_current_leader('e')");
		kill('INT', $session->pid);
		kill('CONT', $session->pid);
		delete $stopped{ $session->pid };
		return $session->finish;
	};
	my $asked = sub {
		my ($session, $sql) = @_;
		my $worker = $node->freeze_worker;

		$session->start($sql);
		$node->wait_for(
			'SELECT wait_event_type = $$Extension$$ FROM pg_stat_activity '
			  . 'WHERE pid = ' . $session->pid);
		$stopped{ $session->pid } = 1;
		stop_process($session->pid);
		$node->thaw_worker($worker);
	};
	my $result;

	foreach my $scope ('node', 'session')
	{
		my $session = LeaderElection::Session->new($node);

		$asked->($session, "SELECT le_acquire('e', scope => '$scope')");
		$node->wait_for(
			"SELECT state = 'leader' FROM le_status WHERE election = 'e'");
		$result = $answered->($session);
		like($result->{error}, qr/ERROR:  57014/, "$scope: canceled");
		nothing_left("$scope: answered");
		denied('G5', $session->query("SELECT le_is_leader('e')"), 'it knows');
	}

	hold();
	my $session = LeaderElection::Session->new($node);

	$asked->($session, "SELECT le_acquire('e')");
	$result = $answered->($session);
	like($result->{error}, qr/ERROR:  57014/, 'held before: canceled');
	still_held('held before');
	$node->release('e');
	nothing_left('held before');
};

# One acquire serves two calls for the instance.  It belongs to both: only if
# neither takes note of it nobody would know.
subtest 'two answered, and canceled' => sub {
	my $acquire = "SELECT le_acquire('e')";
	my $answer_both = sub {
		my @sessions = map { LeaderElection::Session->new($node) } 1 .. 2;
		my $worker = $node->freeze_worker;

		foreach my $session (@sessions)
		{
			$session->start($acquire);
			$node->wait_for(
				'SELECT wait_event_type = $$Extension$$ FROM pg_stat_activity '
				  . 'WHERE pid = ' . $session->pid);
			$stopped{ $session->pid } = 1;
			stop_process($session->pid);
		}
		$node->thaw_worker($worker);
		$node->wait_for(
			"SELECT state = 'leader' FROM le_status WHERE election = 'e'");
		# Questions are looked at in rounds: this one comes after.
		$admin->query("SELECT le_current_leader('e')");
		return @sessions;
	};
	my $go_on = sub {
		my ($session, $cancel) = @_;

		kill('INT', $session->pid) if $cancel;
		kill('CONT', $session->pid);
		delete $stopped{ $session->pid };
		return $session->finish;
	};

	foreach my $first (0, 1)
	{
		my @sessions = $answer_both->();

		like($go_on->($sessions[$first], 1)->{error}, qr/57014/, 'canceled');
		is($go_on->($sessions[ 1 - $first ])->{output}, 't', 'the other is told');
		is($node->sql("SELECT le_is_leader('e')"), 't', 'and rightly so');
		ok($node->release('e'), 'released');
		nothing_left("two answered, $first canceled");
	}
	like($go_on->($_, 1)->{error}, qr/57014/, 'both canceled')
	  foreach $answer_both->();
	nothing_left('two answered, both canceled');
};

# The lease that arrives late was sought for a caller that has gone: it must go to the
# next in line.
subtest 'canceled with another behind' => sub {
	my ($first, $second) =
	  map { LeaderElection::Session->new($node) } 1 .. 2;
	my $acquire = "SELECT le_acquire('e', scope => 'session', wait => '1 h')";
	my $mark = $recorder->mark;

	$consul->freeze;
	$first->start($acquire);
	poll_until(sub { $recorder->requests(qr/$lock|$read/, $mark) }, 'acquire');
	$second->start($acquire);
	$node->wait_for(
		'SELECT wait_event_type = $$Extension$$ FROM pg_stat_activity '
		  . 'WHERE pid = ' . $second->pid);
	$admin->query('SELECT pg_cancel_backend(' . $first->pid . ')');
	like($first->finish->{error}, qr/57014/, 'canceled');
	$consul->thaw;
	is($second->finish->{output}, 't', 'the next one gets it');
	is($second->query("SELECT le_is_leader('e')"), 't', 'and believes');
	denied('G1', $first->query("SELECT le_is_leader('e')"), 'the first does not');
	$second->query("SELECT le_release('e')");
	nothing_left('behind');
};

# A worker that is stopped answers nobody, and finds nobody waiting later.
subtest 'worker stopped' => sub {
	my $worker = $node->freeze_worker;

	interrupted('stopped', "SELECT le_acquire('e', wait => '1 h')");
	interrupted('stopped', "SELECT le_current_leader('e')");
	$node->thaw_worker($worker);
	nothing_left('stopped');
};

# A caller is told after three seconds, so that an interrupt may come too late.
subtest 'worker absent' => sub {
	my $absent = qr/ERROR:  55000: the leader_election worker is not running.*HINT:/s;

	$node->set('max_worker_processes', 0);
	$node->restart;
	$admin = LeaderElection::Session->new($node);
	is($node->worker_pid, undef, 'no worker');
	interrupted('absent', "SELECT le_acquire('e', wait => '1 h')", or => $absent);
	like($admin->error("SELECT le_acquire('e', wait => '1 h')"),
		$absent, 'left alone: an error');
	denied('G5', $node->sql("SELECT le_is_leader('e')"), 'checks work without');
	is($node->sql('SELECT count(*) FROM le_status'), 0, 'le_status, too');
};

done_testing();

END
{
	my $rc = $?;

	kill('CONT', keys %stopped) if %stopped;
	$? = $rc;
}
