# Tier: test, 53 s
#
# The background worker: ended, killed and stopped in the middle of things; shutdowns
# and DROP DATABASE while the store hangs; promotion; its names and its log.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Sampler;
use LeaderElection::Session;
use LeaderElection::Util;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $consul = LeaderElection::Consul->new('consul')->start;
my $recorder = LeaderElection::Recorder->new('r', $consul->host_port)->start;

# No stall of the machine ends a term, or a request.
my %patient = (lease_ttl => '60s', request_timeout => '10s');
my $node = LeaderElection::Node->create(
	'a',
	allows_streaming => 1,
	consul => $recorder,
	settings => { %patient, campaign => 'c', shutdown_timeout => '60s' });

# Writes that end terms, as the store was asked for them.
my $ends = qr{"Verb":"unlock"|session/destroy};

sub sessions
{
	return map { $_->{ID} } @{ $consul->get('/v1/session/list')->{json} };
}

sub is_zombie
{
	my ($pid) = @_;

	return slurp_file("/proc/$pid/stat") =~ /\) Z /;
}

sub count_lines
{
	my ($log, $pattern) = @_;

	return scalar(() = $log =~ /$pattern/g);
}

subtest 'its names' => sub {
	my $named = $node->sql('SHOW server_version_num') >= 170000;

	$node->wait_for_leadership('c');
	is( $node->sql(
			'SELECT backend_type, datname, wait_event_type, wait_event FROM '
			  . 'pg_stat_activity WHERE pid = '
			  . $node->worker_pid),
		'leader_election worker||Extension|'
		  . ($named ? 'LeaderElectionMain' : 'Extension'),
		'pg_stat_activity');
	like(slurp_file('/proc/' . $node->worker_pid . '/cmdline'),
		qr/leader_election worker/, 'ps');
	ok($node->log_like(qr/leader_election worker started as node "a"/),
		'the log');
};

# Only a shutdown of the instance lets go; the worker alone is replaced.
subtest 'pg_terminate_backend' => sub {
	my $session = LeaderElection::Session->new($node);
	my $waiter = LeaderElection::Session->new($node);
	my $other = $consul->session;
	my $pid = $node->worker_pid;
	my $offset = $node->log_offset;
	my $mark = $recorder->mark;
	my ($sampler, @tokens, @store_sessions);

	$session->query("SELECT le_acquire('s', scope => 'session')");
	@tokens = ($node->token('c'), $session->query("SELECT le_fencing_token('s')"));
	@store_sessions = sessions();
	$consul->lock('leader_election/w/leader', $other);
	$waiter->start("SELECT le_acquire('w', wait => '1 min')");
	$recorder->wait_for_request(qr{^GET .*/w/leader}, $mark);
	$sampler = LeaderElection::Sampler->new($node, 'c');
	poll_until(sub { $sampler->samples > 10 }, 'samples');

	# stopped, since it would give up a worker that is away for three seconds
	$node->freeze_worker($waiter->pid);
	$node->sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
		  . "WHERE backend_type = 'leader_election worker'");
	$node->wait_for_worker($pid);
	$node->thaw_worker($waiter->pid);
	$node->wait_for_log_like(qr/worker started/, $offset);
	pass('there is another');
	ok($node->log_like(qr/terminating the leader_election worker due to admin/,
			$offset),
		'the log says why');
	is($node->sql("SELECT le_renew('c')"), 't', 'the node still leads');
	same_term($tokens[0], $node->token('c'), 'in the same term');
	is($session->query("SELECT le_renew('s')"), 't', 'so does the session');
	same_term($tokens[1], $session->query("SELECT le_fencing_token('s')"), 'in its term');
	$sampler->stop;
	is_deeply([ grep { !defined $_->[2] } $sampler->samples ],
		[], 'nobody was told otherwise meanwhile');
	is_deeply([ sort { $a cmp $b } sessions() ],
		[ sort { $a cmp $b } @store_sessions ],
		'the same store session');
	is(scalar($recorder->requests($ends, $mark)), 0, 'nothing was released');
	ok(!$waiter->is_done, 'a waiter waits on');
	$consul->delete('/v1/kv/leader_election/w/leader');
	is($waiter->finish->{output}, 't', 'and is served by the new worker');
	$node->release('w');
	$session->query("SELECT le_release('s')");
	$consul->destroy($other);
};

# There is no query of its own that could be canceled.
subtest 'pg_cancel_backend' => sub {
	my $pid = $node->worker_pid;
	my $offset = $node->log_offset;

	is($node->sql("SELECT pg_cancel_backend($pid)"), 't', 'sent');
	is($node->sql("SELECT le_renew('c')"), 't', 'the worker answers');

	# A canceled one would notice as it wakes up for that question.
	is($node->sql("SELECT le_renew('c')"), 't', 'again');
	is($node->worker_pid, $pid, 'and is the same');
	unlike($node->log_since($offset), qr/canceling|exited/, 'nothing is logged');
};

# A file tells that the instance shuts down. One that cannot be read, as when there
# are no descriptors left, does not say that it does.
subtest 'terminated, and no way to tell why' => sub {
	my $file = $node->data_dir . '/postmaster.pid';
	my $pid = $node->worker_pid;
	my $offset = $node->log_offset;
	my $mark = $recorder->mark;
	my $token = $node->token('c');

	chmod 0, $file or die "$file: $!";
	kill('TERM', $pid);
	$node->wait_for_log_like(qr/could not open file "postmaster.pid"/, $offset);
	poll_until(sub { !-e "/proc/$pid" }, 'the end of the worker');
	chmod 0600, $file or die "$file: $!";
	$node->wait_for_worker($pid);
	is($node->sql("SELECT le_renew('c')"), 't', 'there is another');
	same_term($token, $node->token('c'), 'in the same term');
	is(scalar($recorder->requests($ends, $mark)), 0, 'nothing was released');
};

# The parameters of a session are asked of the store when it is made.
subtest 'lease_ttl changed while a session is being made' => sub {
	my $pid = $node->worker_pid;
	my $ttl = 20;

	foreach my $kind ('create', 'verify', 'register')
	{
		my $mark = $recorder->mark;

		$recorder->rule(
			match => request_like($kind),
			action => 'delay_reply',
			delay => 1,
			count => 1);
		$node->configure(lease_ttl => ++$ttl . ' s');
		poll_until(sub { $recorder->requests(request_like($kind), $mark) },
			"$kind to be asked for");
		$node->configure(lease_ttl => ++$ttl . ' s');
		$node->wait_for("SELECT count(*) = 1 FROM le_nodes WHERE is_self "
			  . "AND state = 'live' AND lease = '$ttl s'");
		pass("$kind: the new lease counts");
		$node->wait_for_leadership('c');
	}

	# and while there is no worker to hear of it
	kill('STOP', $node->postmaster_pid);
	kill('TERM', $pid);
	poll_until(sub { !-e "/proc/$pid" || is_zombie($pid) }, 'the end of the worker');
	$node->set('leader_election.lease_ttl', '60s');
	kill('HUP', $node->postmaster_pid);
	kill('CONT', $node->postmaster_pid);
	$node->wait_for_worker($pid);
	$node->wait_for("SELECT count(*) = 1 FROM le_nodes WHERE is_self "
		  . "AND state = 'live' AND lease = '60 s'");
	pass('the next worker applies it');
	$node->wait_for_leadership('c');
};

# A worker that is on its way, but whose disk takes seconds: here its file is a
# pipe that nobody writes to. Callers wait for it.
subtest 'a start that takes long' => sub {
	my $session = LeaderElection::Session->new($node);
	my $file = $node->data_dir . '/leader_election.tokens';
	my $pid = $node->worker_pid;
	my $begun;

	unlink $file or die "$file: $!";
	POSIX::mkfifo($file, 0600) or die "$file: $!";
	kill('TERM', $pid);
	poll_until(sub { !kill(0, $pid) }, 'the end of the worker');
	$node->wait_for_worker($pid);
	$session->start("SELECT le_acquire('slow')");
	$begun = time;
	poll_until(sub { $session->is_done || time - $begun > 4 }, 'four seconds');
	ok(!$session->is_done, 'nobody is told that there is no worker');
	open(my $pipe, '>', $file) or die "$file: $!";
	close $pipe;
	is($session->finish->{output}, 't', 'and it answers when it is ready');
	$node->release('slow');
	ok(-f $file, 'the file is a file again');
};

# A crash of one process resets shared memory: a new incarnation, which can
# prove that the old one is dead, since it was the same data directory's.
subtest 'kill -9' => sub {
	my $token = $node->token('c');
	my $offset = $node->log_offset;
	my ($before) = sessions();
	my $incarnation = 'SELECT incarnation FROM le_nodes WHERE is_self '
	  . "AND state = 'live'";
	my $was = $node->sql($incarnation);

	$node->kill_worker('KILL');
	$node->wait_for("SELECT coalesce(le_fencing_token('c') <> $token, false)");
	guarantee('G2', [ $token, $node->token('c') ], 'a later term');
	ok($node->log_like(qr/ending the leases of this node's previous incarnation/,
			$offset),
		'by proof, without waiting for the lease');
	poll_until(sub { !grep { $_ eq $before } sessions() }, 'end of the session');
	is(scalar(sessions()), 1, 'one store session');
	$node->wait_for("SELECT count(*) > 0 FROM ($incarnation) x");
	isnt($node->sql($incarnation), $was, 'a new incarnation');
};

# DROP DATABASE waits until every process has noticed.
subtest 'DROP DATABASE while the store hangs' => sub {
	my $token = $node->token('c');
	my ($session, $admin);

	$node->sql("CREATE DATABASE $_") foreach 'dropped', 'forced';
	$node->safe_psql('forced', 'CREATE EXTENSION leader_election');
	$session = LeaderElection::Session->new($node, dbname => 'forced');
	my $mark = $recorder->mark;
	$recorder->rule(match => qr{.}, action => 'hang_request');
	$session->start("SELECT le_acquire('d', scope => 'session', wait => '1 h')");
	poll_until(sub { $recorder->requests(qr{GET .*/d/leader}, $mark) },
		'request that hangs');
	$admin = LeaderElection::Session->new($node);
	is($admin->query('DROP DATABASE dropped'), '', 'not held up by the worker');
	ok(!$session->is_done, 'although the request of another session hangs');
	is($admin->query('DROP DATABASE forced WITH (FORCE)'),
		'', 'nor by a session that waits, with FORCE');
	ok($session->finish->{lost}, 'which was terminated');

	# without this the worker would wait until the requests time out
	$recorder->clear_rules;
	$recorder->kill9;
	$recorder->start;
	is($node->sql("SELECT le_renew('c')"), 't', 'the node leads on');
	same_term($token, $node->token('c'), 'in the same term');
	$node->wait_for("SELECT state = 'idle' FROM le_status WHERE election = 'd'");
	ok(!($consul->kv('leader_election/d/leader') // {})->{Session},
		'nothing held for the session that went');
};

# A store that refuses for several reasons at once must not fill the log.
subtest 'log lines of refusals' => sub {
	my $offset;
	my $mark;
	my $log;

	$node->configure(lease_ttl => '10s');
	$node->wait_for("SELECT count(*) = 1 FROM le_nodes WHERE lease = '10 s'");
	$node->wait_for_leadership('c');
	$offset = $node->log_offset;
	$mark = $recorder->mark;
	$recorder->rule(
		match => qr{/v1/txn},
		action => 'answer',
		status => 403,
		body => 'Permission denied: no key:write');
	$recorder->rule(
		match => qr{/v1/session/renew},
		action => 'answer',
		status => 403,
		body => 'Permission denied: no session:write');
	poll_until(
		sub {
			$recorder->requests(qr{/v1/txn}, $mark) > 3
			  && $recorder->requests(qr{/v1/session/renew}, $mark) > 3;
		},
		'refusals');
	$recorder->clear_rules;
	$node->wait_for_log_like(qr/answers again/, $offset);
	$log = $node->log_since($offset);
	cmp_ok(count_lines($log, qr/LOG:  .*store at .* refused to/),
		'<=', 2, 'refused: once for each reason');
	is(count_lines($log, qr/LOG:  .*answers again/), 1, 'answers again: once');
	$node->wait_for_leadership('c');
};

# The log when the store goes and comes back: each change once.
subtest 'log lines' => sub {
	my $offset;
	my $log;

	$node->configure(
		lease_ttl => '5s',
		safety_margin => '500ms',
		request_timeout => '500ms');
	$node->wait_for("SELECT count(*) = 1 FROM le_nodes WHERE lease = '5 s'");
	$node->wait_for_leadership('c');
	$offset = $node->log_offset;
	$consul->freeze;
	$node->wait_for_log_like(qr/no longer leader/, $offset);

	# Some more failures, so that a line for each would show.
	poll_until(
		sub {
			$node->sql_error("SELECT le_acquire('c')") =~ /LE003/
			  && ++$log > 5;
		},
		'failures');
	$consul->thaw;
	$node->wait_for_leadership('c');
	$log = $node->log_since($offset);
	is(count_lines($log, qr/LOG:  .*store at .* is down/), 1, 'down: once');
	is(count_lines($log, qr/LOG:  .*answers again/), 1, 'up again: once');
	is(count_lines($log, qr/LOG:  no longer leader of election "c" .*deadline/),
		1, 'lost: once, and why');
	is(count_lines($log, qr/LOG:  leader of election "c"/), 1, 'acquired: once');
};

# No check needs the worker, or anybody, to stop believing.
subtest 'SIGSTOP' => sub {
	my $holder = LeaderElection::Session->new($node);
	my @samplers;
	my ($worker, $earliest, $deadline, $token, $left);

	$node->wait_for_leadership('c');
	$holder->query("SELECT le_acquire('s', scope => 'session', wait => '20 s')");
	$token = $node->token('c');
	@samplers = map { LeaderElection::Sampler->new($node, 'c') } 1 .. 2;
	poll_until(sub { $_->samples > 10 }, 'samples') foreach @samplers;
	$worker = $node->freeze_worker;
	$earliest = boottime_ns();
	$left = $node->sql("SELECT extract(epoch FROM expires_at "
		  . "- clock_timestamp()) FROM le_status WHERE election = 'c'");
	$deadline = boottime_ns() + $left * 1e9;
	$earliest += $left * 1e9;
	cmp_ok($left, '<', 4.51, 'less than lease and margin are left');
	poll_until(sub { boottime_ns() > $deadline + 0.5e9 }, 'the deadline');
	is($holder->query("SELECT le_is_leader('s'), le_fencing_token('s')"),
		'f|', 'the session does not lead');
	denied('G5', $node->sql("SELECT le_is_leader('c')"), 'nor does the node');
	denied('G5', $node->sql("SELECT le_fencing_token('c')"), 'nor has it a token');
	is( $node->sql(
			'SELECT DISTINCT state FROM le_status '
			  . "WHERE election IN ('c', 's')"),
		'expired',
		'le_status says so');

	# A call does not wait for ever for a worker that will not come.
	foreach my $wait (0, 2)
	{
		my $error;
		my $seconds = timed(
			sub {
				$error = $node->sql_error("SET statement_timeout = '180s';
					SELECT le_acquire('other', wait => '$wait s')");
			});

		like($error,
			qr/LE003: +the leader_election worker does not answer\n.*DETAIL: +Process $worker hangs or is stopped/s,
			"an acquire that waits $wait s");
		cmp_ok($seconds, '>=', $wait, 'not before');
	}
	$_->stop foreach @samplers;
	foreach my $sampler (@samplers)
	{
		my @true = grep { defined $_->[2] } $sampler->samples;
		my @false = grep { !defined $_->[2] } $sampler->samples;

		# The deadline was computed a moment too late, at most, or too early.
		my $last = (sort { $a <=> $b } map { $_->[0] } @true)[-1];
		guarantee('G5', [ [ $last, $deadline ] ], 'nobody believed after the deadline');
		is(scalar(grep { $_->[1] < $earliest - 0.1e9 } @false), 0, 'but until then');
	}

	# Woken, it must not take up an expired term.
	$node->thaw_worker($worker);
	$node->wait_for("SELECT coalesce(le_fencing_token('c') <> $token, false)");
	guarantee('G2', [ $token, $node->token('c') ], 'a later term');
	denied('G5', $holder->query("SELECT le_is_leader('s')"), 'an expired term is not revived');
	$holder->quit;
	$node->configure(%patient);
	$node->wait_for("SELECT count(*) = 1 FROM le_nodes WHERE lease = '60 s'");
	$node->wait_for_leadership('c');
};

subtest 'shutdown' => sub {
	my ($seconds, $proven, $offset, $client, $key);
	my $lease_ends = sub { return $proven + 60e9 };

	# The store answers: everything is handed over.
	$offset = $node->log_offset;
	$node->stop('fast');
	$key = $consul->kv('leader_election/c/leader');
	ok(!$key->{Session}, 'the key is free');
	like($key->{Value}, qr/"released":true/, 'marked released');
	is(scalar(sessions()), 0, 'the store session is gone');
	is_deeply($consul->kv_tree('leader_election.nodes/'), {}, 'the node key too');
	ok($node->log_like(qr/no longer leader of election "c".*released/, $offset),
		'logged');

	# The store hangs: not for longer than allowed.
	$node->set('leader_election.shutdown_timeout', '2s');
	$node->start;
	$node->wait_for_leadership('c');
	$offset = $node->log_offset;
	$proven = boottime_ns();
	is($node->sql("SELECT le_renew('c')"), 't', 'proven');
	$consul->freeze;
	$seconds = timed(sub { $node->stop('fast') });
	note(sprintf('fast shutdown, store hangs: %.2f s', $seconds));
	cmp_ok($seconds, '>=', 1.9, 'shutdown_timeout was used');
	ok($node->log_like(qr/could not leave the store in time/, $offset),
		'logged');
	$consul->thaw;
	$node->start;
	$node->wait_for_leadership('c');
	before(boottime_ns(), $lease_ends->(), 'the next start does not wait for the lease');
	$offset = $node->log_offset;
	$proven = boottime_ns();
	is($node->sql("SELECT le_renew('c')"), 't', 'proven');
	$consul->freeze;
	$node->stop('immediate');

	# After 5 s the postmaster itself kills processes that do not end.
	ok(!$node->log_like(qr/to recalcitrant children/, $offset), 'immediate');
	$consul->thaw;
	$node->set('leader_election.shutdown_timeout', '60s');
	$node->start;
	$node->wait_for_leadership('c');
	before(boottime_ns(), $lease_ends->(), 'nor does this one');

	# Smart: a client may stay for long, but nobody can come in to do the work.
	$node->configure(drain_timeout => '60s');
	$node->sql('CREATE TABLE smart (i int)');
	$node->hang_up;
	$client = LeaderElection::Session->new($node);
	$client->query("BEGIN; SELECT le_require_leader('c')");
	$offset = $node->log_offset;
	system_or_bail('pg_ctl', '-D', $node->data_dir, '-m', 'smart',
		'--no-wait', 'stop');
	$node->wait_for_log_like(qr/giving up election "c".*when the transactions bound to it are done/, $offset);
	is($client->query('INSERT INTO smart VALUES (1); COMMIT'), '', 'smart: what is bound may finish');
	poll_until(sub { !$consul->kv('leader_election/c/leader')->{Session} },
		'release');
	$key = $consul->kv('leader_election/c/leader');
	like($key->{Value}, qr/"released":true/, 'released while a client is connected');
	like($client->error("SELECT le_acquire('c')"), qr/55000: this node may not lead.*This instance is shutting down/s, 'and for good');
	is($client->query("SELECT state FROM le_nodes WHERE is_self"), 'stopping', 'le_nodes says why');
	is($client->query("SELECT detail FROM le_events WHERE event = 'released' ORDER BY number DESC LIMIT 1"),
		'state: stopping', 'so does the event');
	like($client->query("SELECT message FROM le_check_config() WHERE level <> 'ok' AND topic = 'node'"), qr/shutting down/, 'and the check');
	$client->quit;
	poll_until(sub { !-e $node->data_dir . '/postmaster.pid' }, 'shutdown');
	$node->_update_pid(0);
	is_deeply($consul->kv_tree('leader_election.nodes/'), {}, 'it has left the store');
	$node->start;
	$node->wait_for_leadership('c');
};

# A standby contends if it may, and once it is none.
subtest 'promotion' => sub {
	$node->backup('b');

	my $standby = LeaderElection::Node->create(
		'b',
		backup => [ $node, 'b', has_streaming => 1 ],
		consul => $consul,
		settings => { campaign => 'p', lease_ttl => '60s' });
	my ($token, $offset);

	$node->wait_for_catchup($standby, 'replay');
	never([ $standby->is_leader('p') ? 'a standby leads' : () ], 'a standby does not lead');
	is($standby->sql("SELECT state FROM le_status WHERE election = 'p'"),
		'candidate', 'nor contend');
	like(
		$standby->sql_error("SELECT le_acquire('q')"),
		qr/55000: this node may not lead.*"leader_election.standby_eligible" is off/s,
		'le_acquire says why');
	$standby->configure(standby_eligible => 'on');
	$standby->wait_for_leadership('p');
	is($standby->sql('SELECT pg_is_in_recovery()'), 't', 'unless it may');
	like($standby->sql("SELECT level, message FROM le_check_config() WHERE topic = 'writes'"),
		qr/^warning\|This standby leads 1 election: jobs that write fail here/, 'with a warning');
	$token = $standby->token('p');
	$offset = $standby->log_offset;
	$standby->configure(standby_eligible => 'off');
	$standby->wait_for("SELECT NOT le_is_leader('p')");
	is($standby->leader('p'), undef, 'it lets go when it may no more');

	# Started anew, its worker has no timer of a store session to wake it.
	$standby->restart;
	$standby->wait_for_log_like(qr/worker started/, $offset);
	$standby->promote;
	$standby->wait_for_leadership('p');
	guarantee('G2', [ $token, $standby->token('p') ], 'promoted, it leads');

	# Leading as a standby, it goes on through its promotion.
	$standby->stop;
	$standby->clean_node;
	$standby = LeaderElection::Node->create(
		'd',
		backup => [ $node, 'b', has_streaming => 1 ],
		consul => $consul,
		settings => {
			campaign => 'p', lease_ttl => '60s', standby_eligible => 'on' });
	$standby->wait_for_leadership('p');
	$token = $standby->token('p');
	$standby->promote;
	is($standby->sql("SELECT le_renew('p')"), 't', 'led through the promotion');
	same_term($token, $standby->token('p'), 'in the same term');
	$standby->stop;
};

done_testing();
