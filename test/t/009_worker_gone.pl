# Tier: test, 60 s
#
# The worker ends while it works on a question: its successor replies the outcome, or
# that nobody knows it, and never "no" if the work was done.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Session;
use LeaderElection::Util;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my $recorder = LeaderElection::Recorder->new('a', $consul->host_port)->start;
my $node = LeaderElection::Node->create(
	'a',
	consul => $recorder,
	settings => { lease_ttl => '60s', request_timeout => '4s' });
my $session = LeaderElection::Session->new($node);

# The session is stopped meanwhile: it would give up a worker that is away for three
# seconds, as one may be on a machine that stands still.
sub end_worker
{
	my ($between) = @_;
	my $pid = $node->worker_pid;

	$node->freeze_worker($session->pid);
	kill('TERM', $pid);
	poll_until(sub { !kill(0, $pid) }, 'the worker to go');
	$between->() if $between;
	$node->wait_for_worker($pid);
	$node->thaw_worker($session->pid);
	return;
}

# Asks, and has the worker go when the store has answered such a request, but
# the answer has not arrived; returns what the session is told.
sub interrupted
{
	my ($sql, $kind, $election, %rule) = @_;
	my $mark = $recorder->mark;

	$recorder->rule(
		match => request_like($kind, $election),
		action => 'hang_reply',
		count => 1,
		%rule);
	$session->start($sql);
	$recorder->wait_for_request(request_like($kind, $election), $mark);
	end_worker();
	return $session->finish;
}

# The store has confirmed, and the worker that would have replied is gone.
subtest 'questions that give up a term' => sub {
	my %begin = (
		release => "SELECT le_acquire('release', scope => 'session')",
		withdraw => "SELECT le_campaign('withdraw')",
		down => "SELECT le_acquire('down', scope => 'session')",
		all => "SELECT le_acquire('all')");
	my %end = (
		release => "SELECT le_release('release')",
		withdraw => "SELECT le_withdraw('withdraw')",
		down => "SELECT le_step_down('down', '0')",
		all => "SELECT le_step_down(NULL, '0')");

	foreach my $election ('release', 'withdraw', 'down', 'all')
	{
		$session->query($begin{$election});
		$node->wait_for("SELECT state = 'leader' FROM le_status "
			  . "WHERE election = '$election'");

		my $result = interrupted($end{$election}, 'release', $election);

		is($result->{output}, 't', "$election: true");
		is($result->{error}, '', 'without a warning');
		ok(key_is_released($consul, $election), 'as the store shows');
		$recorder->clear_rules;
	}
	is($session->query("SELECT le_step_down('down')"),
		'f', 'an election not held is still not held');
	like($session->error("SELECT le_release('release')"),
		qr/WARNING:.*you do not hold election "release"/, 'nor released');
	is($session->query("SELECT le_withdraw('withdraw')"), 'f', 'nor withdrawn');
};

# Terms that the first worker has not come to are given up by the second.
subtest 'the rest of several' => sub {
	my @elections = map { "several/$_" } 1 .. 5;

	$session->query("SELECT le_acquire('$_')") foreach @elections;

	my $result;

	$recorder->rule(
		match => request_like('release', $_),
		action => 'hang_request',
		count => 1) foreach @elections[ 1, 3 ];
	my $mark = $recorder->mark;

	$session->start("SELECT le_step_down(NULL, '0')");
	poll_until(
		sub {
			$recorder->requests(request_like('release', $elections[3]), $mark);
		},
		'the request that hangs');
	end_worker();
	$result = $session->finish;
	is($result->{output}, 't', 'true');
	is($result->{error}, '', 'without a warning');
	is(scalar(grep { !key_is_released($consul, $_) } @elections),
		0, 'all are released');
	$recorder->clear_rules;
};

subtest 'a renewal with a value' => sub {
	$session->query("SELECT le_acquire('renew', scope => 'session')");

	my $result = interrupted("SELECT le_renew('renew', 'new')",
		'publish', 'renew');

	is($result->{output}, 't', 'true');
	is(leader_key($consul, 'renew')->{json}{value}, 'new', 'as the store shows');
	$session->query("SELECT le_release('renew')");
	$recorder->clear_rules;
};

# Nobody can tell: the store does not answer any more.
subtest 'no way to find out' => sub {
	$session->query("SELECT le_acquire('unknown', scope => 'session')");
	$recorder->rule(
		match => request_like('read', 'unknown'),
		action => 'hang_request');

	my $result =
	  interrupted("SELECT le_release('unknown')", 'release', 'unknown');

	like($result->{error}, qr/ERROR:  LE004: .*"unknown"/, 'outcome unknown');
	$recorder->clear_rules;
	$node->wait_for(
		"SELECT state = 'idle' FROM le_status WHERE election = 'unknown'");
	ok(key_is_released($consul, 'unknown'), 'it was released');
};

# The tick may have been marked before another claim came: nobody can tell.
subtest 'ticks' => sub {
	my $tick = "'2020-01-01 00:00:00+00'::timestamptz";
	my ($result, $key, $record);

	$node->acquire('ticks');
	$result = interrupted("SELECT le_claim('ticks', 'job', $tick)",
		'claim', 'ticks');
	is($result->{output}, 't', 'claimed, says the new worker');
	$result = interrupted("SELECT le_complete('ticks', 'job', $tick)",
		'complete', 'ticks');
	is($result->{output}, 't', 'completed, says the new worker');
	$recorder->clear_rules;

	is($session->query("SELECT le_claim('ticks', 'job', $tick + '1 min')"),
		't', 'another');
	$key = 'leader_election.claims/ticks/job';
	$record = $consul->kv($key)->{Value};
	like($record, qr/"claim":"/, 'a record with the id of the claim');
	$record =~ s/("claim":")[0-9a-f]{4}/${1}0000/;

	my $mark = $recorder->mark;

	$recorder->rule(
		match => request_like('read_claim', 'ticks'),
		action => 'hang_request',
		count => 1);
	$recorder->rule(
		match => request_like('complete', 'ticks'),
		action => 'hang_reply',
		count => 1);
	$session->start("SELECT le_complete('ticks', 'job', $tick + '1 min')");
	$recorder->wait_for_request(request_like('complete', 'ticks'), $mark);
	end_worker();
	$consul->put("/v1/kv/$key?flags=3304740253564472344", $record);
	$result = $session->finish;
	like($result->{error}, qr/ERROR:  LE004: could not complete a tick/,
		'replaced since: outcome unknown');
	is($result->{output}, '', 'not false');
	$node->release('ticks');
	$recorder->clear_rules;
};

# An acquire under way, whose answer does not come, is never told "no": neither
# by a worker that may not lead, nor because another could not begin a term.
sub begun
{
	my ($election) = @_;
	my $mark = $recorder->mark;
	my $asked = request_like('acquire', $election);

	$recorder->rule(match => $asked, action => 'hang_reply', count => 1);
	$session->start("SELECT le_acquire('$election', scope => 'session')");
	$recorder->wait_for_request($asked, $mark);
	poll_until(sub { leader_key($consul, $election)->{Session} },
		'the store to grant it');
	return;
}

subtest 'the next worker may not lead' => sub {
	begun('mistaken');
	end_worker(sub { $node->configure(lease_tttl => '15s') });
	like($session->finish->{error}, qr/ERROR:  LE004: .*"mistaken"/,
		'outcome unknown');
	like(
		$node->sql_error(q(SELECT le_acquire('another'))),
		qr/LE005: .*\nDETAIL: +.*lease_tttl/,
		'questions to it are refused');
	$node->adjust_conf('postgresql.conf', 'leader_election.lease_tttl', undef);
	$node->reload;
	poll_until(sub { key_is_released($consul, 'mistaken') },
		'grants to be given back');
	$recorder->clear_rules;
	poll_until(
		sub { $node->sql_error(q(SELECT le_acquire('mended'))) eq '' },
		'it to lead again');
};

subtest 'others cannot begin a term' => sub {
	my $file = $node->data_dir . '/leader_election.tokens';
	my $of_first = qr{leader_election/first/leader};
	my $mark;

	begun('first');
	$mark = $recorder->mark;
	rename($file, "$file.aside") or die "$file: $!";
	mkdir $file or die "$file: $!";
	foreach my $election ('second', 'first')
	{
		like(
			$node->sql_error("SELECT le_acquire('$election')"),
			qr/LE005: .*"$election"\nDETAIL: +could not write file/,
			"$election: refused");
	}
	like($session->finish->{error}, qr/ERROR:  LE00[45]: .*"first"/,
		'a caller with a request under way gets an error');
	isnt(scalar $recorder->requests($of_first, $mark),
		0, '... after the store has told the outcome');
	poll_until(sub { key_is_released($consul, 'first') },
		'grants to be given back');
	rmdir $file or die "$file: $!";
	$recorder->clear_rules;
	poll_until(sub { $node->sql_error(q(SELECT le_acquire('first'))) eq '' },
		'it to lead again');
};

# A worker that does not come back: its last request may have been carried out.
subtest 'no worker' => sub {
	my $postmaster = $node->postmaster_pid;
	my $mark = $recorder->mark;
	my $other = LeaderElection::Session->new($node);

	$session->query("SELECT le_acquire('gone', scope => 'session')");
	$other->query("SELECT le_is_leader('gone')");
	$recorder->rule(
		match => request_like('release', 'gone'),
		action => 'hang_reply',
		count => 1);
	$session->start("SELECT le_release('gone')");
	$recorder->wait_for_request(request_like('release', 'gone'), $mark);
	my $pid = $node->worker_pid;
	kill('STOP', $postmaster);
	kill('TERM', $pid);
	like($session->finish->{error},
		qr/ERROR:  LE004: the leader_election worker is not running/,
		'its last request may be done');
	like($other->error("SELECT le_release('gone')"),
		qr/ERROR:  55000: the leader_election worker is not running/,
		'an unseen question is not');
	kill('CONT', $postmaster);
	$node->wait_for_worker($pid);
	$recorder->clear_rules;
};

# Seconds, by the log, from a worker's end to the start of the next one.
sub longest_absence
{
	my ($of) = @_;
	my ($ended, $longest) = (undef, 0);

	foreach (split /\n/, $of->log_since)
	{
		next unless /^\S+ (\d+):(\d+):([\d.]+) .*leader_election worker(.*)/;
		my ($at, $what) = (($1 * 60 + $2) * 60 + $3, $4);

		$ended = $at if $what =~ /exited with exit code/;
		next unless defined $ended && $what =~ /^ started as node/;
		$at += 86400 if $at < $ended;
		$longest = max($longest, $at - $ended);
		$ended = undef;
	}
	return $longest;
}

# The store "local" answers at once, but not within the same turn of the loop.
subtest 'store local, under load' => sub {
	my $local = LeaderElection::Node->create(
		'b', settings => { backend => 'local' });
	my @sessions = map { LeaderElection::Session->new($local) } 1 .. 8;
	my $rounds = 8;

	$local->sql('CREATE TABLE seen (released bool)');
	$local->sql('CREATE TABLE given_up (why text)');
	$sessions[ $_ - 1 ]->start(<<"END") foreach 1 .. @sessions;
DO \$\$
DECLARE held bool;
BEGIN
    LOOP
        BEGIN
            held := le_acquire('local/$_', scope => 'session');
        EXCEPTION
            WHEN SQLSTATE 'LE004' THEN
                held := false;
            WHEN SQLSTATE '55000' THEN
                held := false;
                INSERT INTO given_up VALUES (SQLERRM);
        END;
        BEGIN
            IF held THEN
                INSERT INTO seen VALUES (le_release('local/$_'));
            END IF;
        EXCEPTION WHEN SQLSTATE '55000' THEN
            INSERT INTO given_up VALUES (SQLERRM);
        END;
        COMMIT;
        EXIT WHEN EXISTS (SELECT FROM pg_class WHERE relname = 'enough');
    END LOOP;
END \$\$
END
	$local->wait_for('SELECT count(*) > 0 FROM seen');
	foreach my $round (1 .. $rounds)
	{
		my $pid = $local->worker_pid;
		my $sofar = $local->sql('SELECT count(*) FROM seen');

		kill('TERM', $pid);
		$local->wait_for_worker($pid);
		# A session that has ended says why below.
		poll_until(
			sub {
				$local->ask("SELECT count(*) > $sofar FROM seen") eq 't' ||
				  grep { $_->is_done } @sessions;
			},
			'the sessions to go on with the next worker');
	}
	$local->sql('CREATE TABLE enough ()');
	my @errors = map { $_->finish->{error} } @sessions;

	is(join('', @errors), '', 'no error, no warning');

	# Patience ends when there was no worker for three seconds; a machine that
	# is busy may keep it away for as long.
	my $longest = longest_absence($local);

	is( $local->sql('SELECT count(*) FROM given_up'), 0,
		'no call gave up a worker that came back in time')
	  if $longest < 3;
	is( $local->sql(q(SELECT count(*) FROM given_up
			WHERE why <> 'the leader_election worker is not running')),
		0,
		sprintf 'nobody was told anything else; away for %.1f s at most',
		$longest);
	is( $local->sql('SELECT count(*) FROM seen WHERE NOT released'), 0,
		'the holder that released was told so');
};

done_testing();
