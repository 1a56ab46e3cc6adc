# Tier: test, 72 s
#
# Claims on Consul: one for each tick, also with many callers at the same time and
# whatever becomes of the answers, and never for a term that is over.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul', persistent => 1)->start;
my $recorder = LeaderElection::Recorder->new('a', $consul->host_port)->start;
my %node = map {
	$_ => LeaderElection::Node->create(
		$_,
		consul => $_ eq 'a' ? $recorder : $consul,
		settings => { lease_ttl => '60s', request_timeout => '1s' })
} 'a', 'b', 'c';
my ($a, $b) = @node{ 'a', 'b' };
my $tick = '2020-01-01 00:00:00+00';

sub claim
{
	my ($job, $more) = @_;

	return "SELECT le_claim('billing', '$job', '$tick'::timestamptz + '"
	  . ($more // 0) . " s')";
}

sub complete { return claim(@_) =~ s/le_claim/le_complete/r; }

sub record
{
	my ($job, $columns) = @_;

	return $b->sql("SELECT $columns FROM le_claims WHERE job = '$job'");
}

$a->acquire('billing', wait => '3 min');

# All instances, several sessions on each, at the same time, each in an order of its
# own; again, if one of the leader's sessions was done before the others had begun.
# The order is made first: the planner would claim before it sorts, so that all went
# the same way, and the first session would win every job.
subtest 'at the same time' => sub {
	my $jobs = 60;
	my $competed = 0;
	my @sessions = map {
		my $node = $node{$_};
		map { LeaderElection::Session->new($node) } 1 .. 3
	} sort keys %node;

	foreach my $round (1 .. 5)
	{
		# a common start, for which each session is there in time
		my $start = $a->sql("SELECT now() + interval '1 s'");

		$_->query("SELECT le_is_leader('billing')") foreach @sessions;
		$_->start(<<"END") foreach @sessions;
DO \$\$ BEGIN PERFORM pg_sleep_until('$start'); END \$\$;
WITH shuffled AS MATERIALIZED (
	SELECT n FROM generate_series(1, $jobs) n ORDER BY random())
SELECT n FROM shuffled WHERE le_claim('billing', 'at once $round ' || n, '$tick')
END
		my @won = map { [ split /\n/, $_->finish->{output} ] } @sessions;
		my %times;

		is_deeply({ map { $_ => 1 } map { @$_ } @won },
			{ map { $_ => 1 } 1 .. $jobs }, 'each job once');
		$times{$_}++ foreach map { @$_ } @won;
		guarantee('G4', [ grep { $times{$_} > 1 } keys %times ], 'and no job twice');
		denied('G4', scalar(map { @$_ } @won[ 3 .. 8 ]), 'by the leader');
		note("round $round: ", join(', ', map { scalar @$_ } @won[ 0 .. 2 ]));
		$competed = !grep { !@$_ } @won[ 0 .. 2 ];
		last if $competed;
	}
	ok($competed, 'each of its sessions won some');
	is(record('at once 1 7', 'state, try, node'), 'running|1|a', 'seen by the others');
};

# An answer that is lost is read back; the id says whose the claim is.
subtest 'answers lost' => sub {
	foreach my $action ('lose_reply', 'hang_reply', 'lose_request', 'hang_request')
	{
		my $mark = $recorder->mark;
		my $session = LeaderElection::Session->new($a);

		$recorder->rule(match => request_like('claim', 'billing', $action), action => $action, count => 1);
		$recorder->rule(match => request_like('complete', 'billing', $action), action => $action, count => 1);
		my $claimed = $session->query(claim($action));
		is($claimed, 't', "$action: claimed");
		is($session->query(complete($action)), 't', 'completed');
		is(record($action, 'state, try'), 'done|1', 'as recorded');

		my $times = $action =~ /request/ ? 2 : 1;

		foreach my $kind ('claim', 'complete')
		{
			my @sent = $recorder->requests(request_like($kind, 'billing', $action), $mark);

			cmp_ok(scalar @sent, $times == 1 ? '==' : '>=', $times,
				"$kind: sent " . ($times == 1 ? 'once' : 'again'));
			my $applied = grep { $_->{status} && $_->{status} == 200 } @sent;
			is($applied, 1, 'applied once');
			my $late = $recorder->replay($sent[0])->{status};
			is($late, 409, 'a late copy is refused');
			denied('G4', $applied > 1 || $claimed eq 't' && $late == 200, 'nor is one applied again')
			  if $kind eq 'claim';
		}
		is($b->sql("SELECT count(*) FROM le_claims WHERE job = '$action' AND state = 'done'"),
			1, 'and changes nothing');
	}
};

# Nobody knows: that is an error, and asking again in the same session tells.
subtest 'outcome unknown' => sub {
	my $session = LeaderElection::Session->new($a);

	$recorder->rule(match => request_like('read_claim', 'billing', 'unknown'), action => 'pass', count => 1);
	$recorder->rule(match => request_like('claim'), action => 'lose_reply', count => 1);
	$recorder->rule(match => request_like('read_claim', 'billing', 'unknown'), action => 'answer', status => 500, body => 'No cluster leader');
	my $error = $session->error(claim('unknown'));

	like($error, qr/ERROR:  LE004: could not claim a tick of election "billing" at the lease store \Q${\ $recorder->url}\E/,
		'said as it is');
	like($error, qr/HINT:  Call again in the same session/, 'and the hint');
	like($session->error(claim('unknown')), qr/ERROR:  LE004/, 'asked again, still not known');
	is(record('unknown', 'state'), 'running', 'it was recorded');
	denied('G4', $b->sql(claim('unknown')), 'nobody else');
	$recorder->clear_rules;
	my @answers = $a->sql(claim('unknown'));
	is($answers[0], 'f', 'no other session gets it');
	my $mark = $recorder->mark;
	push @answers, $session->query(claim('unknown'));
	is($answers[1], 't', 'this one has it');
	is(scalar $recorder->requests(request_like('claim'), $mark), 0, 'without claiming again');
	push @answers, $session->query(claim('unknown'));
	is($answers[2], 'f', 'once');
	denied('G4', (grep { $_ eq 't' } @answers) > 1, 'not granted twice');
	is($session->query(complete('unknown')), 't', 'and completes it');
};

# Another session that asks for the same tick, and for those before it that were
# missed, leaves alone a run that its own session may yet ask for again.
subtest 'left as it is' => sub {
	my $session = LeaderElection::Session->new($a);
	my $run = "CALL le_run('billing', 'INSERT INTO left_alone VALUES (le_tick())', "
	  . "job => 'left', every => '7 days', missed => 'all', wait => '0')";
	my @read = (match => request_like('read_claim', 'billing', 'left'));

	$a->sql('CREATE TABLE left_alone AS SELECT le_tick() AS tick LIMIT 0');
	$recorder->rule(@read, action => 'pass', count => 1);
	$recorder->rule(match => request_like('claim'), action => 'lose_reply', count => 1);
	$recorder->rule(@read, action => 'answer', status => 500, body => 'No cluster leader');
	like($session->error($run), qr/ERROR:  LE004/, 'not known');
	is(record('left', 'state, try'), 'running|1', 'it was recorded');
	$recorder->clear_rules;
	$a->sql($run);
	is($a->sql('SELECT count(*) FROM left_alone'), 0, 'another does not run it');
	$session->query($run);
	is($a->sql('SELECT count(*) FROM left_alone'), 1, 'its own session does');
	is(record('left', 'state, try'), 'done|1', 'and it is the first try');
	denied('G4', $a->sql('SELECT count(*) - count(DISTINCT tick) FROM left_alone'), 'no tick has run twice');
};

# The last writer of the record need not read it; one that is mistaken in that does.
subtest 'in rhythm' => sub {
	my $session = LeaderElection::Session->new($a);
	my $count = sub {
		my ($mark) = @_;

		return join ' ', map {
			scalar $recorder->requests(request_like($_), $mark)
		} 'read_claim', 'claim', 'complete';
	};
	my $mark;

	# no request is sent twice
	$a->configure(request_timeout => '30s');
	$a->wait_for("SELECT current_setting('leader_election.request_timeout') = '30s'");
	$mark = $recorder->mark;
	is($session->query(claim('rhythm')), 't', 'the first tick');
	is($session->query(complete('rhythm')), 't', 'done');
	is($count->($mark), '1 1 1', 'is looked at before');
	$mark = $recorder->mark;
	foreach my $second (1 .. 5)
	{
		is($session->query(claim('rhythm', $second)), 't', "second $second");
		is($session->query(complete('rhythm', $second)), 't', 'done');
	}
	is($count->($mark), '0 5 5', 'two requests for each tick');
	$mark = $recorder->mark;
	denied('G4', $session->query(claim('rhythm', 5)), 'one that is taken');
	denied('G4', $session->query(claim('rhythm', 2)), 'and an older one');
	is($count->($mark), '2 0 0', 'are not refused without a look');
	is($session->query(claim('rhythm', 6)), 't', 'the next one');
	is($session->query(complete('rhythm', 6)), 't', 'done');

	# the same job by another interval, of which no tick counts as missed
	my $due = sub {
		my ($in, $second, $every) = @_;
		my $tick = $in->query("SELECT le_claim_tick('billing', 'changed', '$tick'::timestamptz + '$second s', "
			  . "every => '$every s', missed => 'all')");

		return 'none' if $tick eq '';
		is($in->query("SELECT le_complete('billing', 'changed', '$tick')"), 't', "the tick that is due at $second");
		return $in->query("SELECT extract(second FROM '$tick'::timestamptz)::int");
	};
	my $elsewhere = LeaderElection::Session->new($b);

	is($due->($session, 1, 1), 1, 'is claimed by an interval of 1 s');
	$a->sql("SELECT le_step_down('billing', hold_off => '1 s')");
	ok($b->acquire('billing', wait => '3 min'), 'another leads');
	is($b->sql(claim('rhythm', 8)), 't', 'and claims');
	is($due->($elsewhere, 4, 2), 4, 'is claimed there by one of 2 s');
	$b->sql("SELECT le_release('billing')");
	ok($a->acquire('billing', wait => '3 min'), 'the first leads again');
	$mark = $recorder->mark;
	is($session->query(claim('rhythm', 7)), 'f', 'an older tick than that');
	is($count->($mark), '1 1 0', 'was refused, and then looked at');
	is(record('rhythm', "extract(second FROM tick)::int, state"),
		'8|running', 'and changed nothing');
	is($session->query(claim('rhythm', 9)), 't', 'a newer one');
	is(record('rhythm', "extract(second FROM tick)::int, try"), '9|1', 'is claimed');
	is($due->($session, 8, 1), 8, 'and is claimed here, by 1 s again, at once');
	$a->configure(request_timeout => '1s');
};

# A claim that may yet arrive, and then the term was lost.
subtest 'lost meanwhile' => sub {
	my $session = LeaderElection::Session->new($a);
	my $mark = $recorder->mark;

	$recorder->rule(match => request_like('claim'), action => 'hang_request', count => 1);
	$session->start(claim('lost'));
	poll_until(sub { $recorder->requests(request_like('claim'), $mark) }, 'a claim');
	$consul->delete('/v1/kv/leader_election/billing/leader');
	$a->wait_for("SELECT NOT le_is_leader('billing')");
	like($session->finish->{error}, qr/ERROR:  LE002: .*while a tick was being claimed/,
		'nobody says that it was not claimed');
	$recorder->clear_rules;
	$a->acquire('billing', wait => '3 min');
};

# A worker that is replaced while a claim is under way
subtest 'another worker' => sub {
	my $session = LeaderElection::Session->new($a);

	$recorder->rule(match => request_like('claim'), action => 'hang_reply', count => 1);
	my $mark = $recorder->mark;
	$session->start(claim('worker'));
	$recorder->wait_for_request(request_like('claim'), $mark);
	$a->kill_worker('TERM');
	is($session->finish->{output}, 't', 'claimed');
	is(record('worker', 'try, state'), '1|running', 'once');
	$recorder->clear_rules;

	# The next worker must not deny a request of its predecessor.
	$recorder->rule(match => request_like('read_claim', 'billing', 'replaced'), action => 'pass', count => 1);
	$recorder->rule(match => request_like('claim'), action => 'hang_reply', count => 1);
	$recorder->rule(match => request_like('read_claim', 'billing', 'replaced'), action => 'answer', status => 500, body => 'No cluster leader');
	$mark = $recorder->mark;
	$session->start(claim('replaced'));
	$recorder->wait_for_request(request_like('claim'), $mark);
	$a->kill_worker('TERM');
	like($session->finish->{error}, qr/ERROR:  LE004/, 'not known');
	is(record('replaced', 'state'), 'running', 'since it was recorded');
	$recorder->clear_rules;
	is($session->query(claim('replaced')), 't', 'as asking again tells');
};

# Ticks that nobody has claimed are reported by the claim that passes over them,
# whatever becomes of its answer: by the next worker, if it is asked again, or with
# the next claim.
subtest 'missed, and lost' => sub {
	my $every = sub {
		return "SELECT le_claim_tick('billing', 'gap', '$tick'::timestamptz + '$_[0] s', every => '1 s') IS NOT NULL";
	};
	my $told = sub {
		return $a->sql(<<"END");
SELECT string_agg(coalesce(m[1], '1') || ' from ' || extract(epoch FROM m[2]::timestamptz - '$tick')::int
	|| ' to ' || extract(epoch FROM coalesce(m[3], m[2])::timestamptz - '$tick')::int, ', ' ORDER BY number)
FROM le_events,
	LATERAL (SELECT regexp_match(detail, '^job gap, (?:([0-9]+) ticks from|tick) (.*?)(?: to (.*))?\$') m) m
WHERE event = 'job missed' AND detail LIKE 'job gap,%'
END
	};
	my $session = LeaderElection::Session->new($a);
	my $other = LeaderElection::Session->new($a);
	my $lost = sub {
		my ($second, $ends) = @_;
		my $mark = $recorder->mark;

		$recorder->rule(match => request_like('claim'), action => 'hang_reply', count => 1);
		$session->start($every->($second));
		$recorder->wait_for_request(request_like('claim'), $mark);
		poll_until(sub { record('gap', "extract(second FROM tick)::int") eq $second }, 'the record');
		$a->sql('SELECT pg_terminate_backend(' . $session->pid . ', 60000)') if $ends;
		$a->kill_worker('TERM');
		$recorder->clear_rules;
		return $session->finish->{output};
	};

	is($session->query($every->(0)), 't', 'the first tick');
	is($session->query(complete('gap')), 't', 'done');
	is($lost->(4, 0), 't', 'claimed, as the next worker finds');
	is($told->(), '3 from 1 to 3', 'which reports what was missed');
	is($session->query(complete('gap', 4)), 't', 'done');
	is($lost->(6, 1) // '', '', 'nobody hears of another claim');
	is($told->(), '3 from 1 to 3', 'nor of the ticks that it has passed over');
	is(record('gap', 'state'), 'running', 'which stays');
	is($other->query($every->(9)), 't', 'another session claims');
	is($told->(), '3 from 1 to 3, 3 from 5 to 8', 'which reports that, too');
	is($other->query(complete('gap', 9)), 't', 'done');
	is($other->query($every->(10)), 't', 'the next tick');
	is($told->(), '3 from 1 to 3, 3 from 5 to 8', 'reports nothing again');
};

# A request for a term does not count in a later one.
subtest 'late' => sub {
	my $mark = $recorder->mark;
	my $session = LeaderElection::Session->new($a);

	$recorder->rule(match => request_like('claim'), action => 'lose_request');
	$session->start(claim('late'));
	poll_until(sub { $recorder->requests(request_like('claim'), $mark) }, 'a claim');
	$a->sql('SELECT pg_cancel_backend(' . $session->pid . ')');
	$session->finish;
	my ($claim) = $recorder->requests(request_like('claim'), $mark);
	ok($claim, 'a claim that did not arrive');
	my $is_refused = sub {
		my ($never, $what) = @_;
		my $status = $recorder->replay($claim)->{status};

		is($status, 409, $what);
		denied('G4', $never && $status == 200, 'nor applied');
	};
	$recorder->clear_rules;
	my $over = $a->release('billing');
	$is_refused->($over, 'refused when nobody leads');
	$a->acquire('billing', wait => '3 min');
	is(leader_key($consul, 'billing')->{Session}, $consul->kv('leader_election/billing/leader')->{Session}, 'the same session leads again');
	$is_refused->($over, 'refused in a later term of the same node');
	is(record('late', '1'), '', 'nothing is recorded');
	my $claimed = $a->sql(claim('late'));
	is($claimed, 't', 'the later term claims it');
	$is_refused->($claimed eq 't', 'refused when the tick is claimed');
	is(record('late', 'fencing_token'), $a->token('billing'), 'as the record says');
	$a->release('billing');
	ok($b->acquire('billing', wait => '3 min'), 'another node leads');
	$is_refused->($claimed eq 't', 'refused');
	denied('G4', $a->sql(claim('late', 60)), 'the old leader claims nothing');
	is($b->sql(claim('late', 60)), 't', 'the new one does');
	$b->release('billing');
	$a->acquire('billing', wait => '3 min');
};

# A record that is somebody else's is not touched.
subtest 'foreign record' => sub {
	$consul->put('/v1/kv/leader_election.claims/billing/foreign', '{"not":"ours"}');
	like($a->sql_error(claim('foreign')), qr/LE005.*key "leader_election.claims\/billing\/foreign" is not a claim of this extension/s, 'refused');
	is($consul->kv('leader_election.claims/billing/foreign')->{Value}, '{"not":"ours"}', 'and left alone');
	is(record('foreign', '1'), '', 'not shown');
};

# A tick whose claim was still being looked up when the term ended is nobody's:
# le_run() goes on waiting for it, and runs it in the next term.
subtest 'regained' => sub {
	my $session = LeaderElection::Session->new($a);
	my $mark = $recorder->mark;

	# From now on its term is to end.
	my $offset = $a->log_offset;

	$a->configure(lease_ttl => '10s', request_timeout => '5s', renew_interval => '1s');
	$a->wait_for_log_like(qr/settings changed: starting a new store session/, $offset);
	$a->acquire('billing', wait => '3 min');
	$a->sql('CREATE TABLE regained AS SELECT le_tick() AS tick LIMIT 0');
	$recorder->rule(match => request_like('read_claim', 'billing', 'regained'), action => 'hang_request', count => 1);
	$session->start("CALL le_run('billing', 'INSERT INTO regained VALUES (le_tick())', "
		  . "job => 'regained', tick => '$tick', wait => '1 min')");
	poll_until(sub { scalar $recorder->requests(request_like('read_claim', 'billing', 'regained'), $mark) },
		'the record to be read');
	$consul->destroy($consul->kv('leader_election/billing/leader')->{Session});
	$a->wait_for("SELECT NOT le_is_leader('billing')");
	ok($a->acquire('billing', wait => '3 min'), 'lost and regained');
	poll_until(sub { $session->is_done }, 'the run');
	is($session->finish->{error} // '', '', 'no error');
	my $runs = $a->sql('SELECT count(*) FROM regained');
	is($runs, 1, 'the tick has run');
	denied('G4', $runs > 1, 'and not twice');
	is(record('regained', 'state, try'), 'done|1', 'once');
};

# Ticks that a dead leader left running, caught up by the next one
subtest 'dead leader' => sub {
	my $token = $a->token('billing');
	my $session = LeaderElection::Session->new($a);

	my $claimed = $session->query(claim('dead'));

	is($claimed, 't', 'claimed');
	$a->crash;
	ok($b->acquire('billing', wait => '3 min'), 'taken over');
	is(record('dead', 'state, fencing_token'), "running|$token", 'left running');
	my $again = $b->sql(claim('dead'));
	is($again, 'f', 'not claimed again');
	$b->sql("CREATE TABLE ran AS SELECT le_tick() AS tick, le_fencing_token('billing') AS token LIMIT 0");
	my $run = q{CALL le_run('billing', 'INSERT INTO ran VALUES (le_tick(), le_fencing_token(''billing''))', job => 'dead', tick => '%s'};
	$b->sql(sprintf($run, $tick) . ')');
	my $runs = $b->sql('SELECT count(*) FROM ran');
	is($runs, 0, 'nor run again');
	denied('G4', $claimed eq 't' && ($again eq 't' || $runs > 0), 'it is not granted twice');
	$b->sql(sprintf($run, '2020-01-01 00:01+00') . ', catch_up => true)');
	is($b->sql(q{SELECT string_agg(extract(minute FROM tick)::int::text, ',' ORDER BY tick) FROM ran}), '0,1', 'but caught up where that is asked for');
	guarantee('G2', [ $token, $b->sql('SELECT min(token) FROM ran') ],
		'by a higher token');
	$b->sql(sprintf($run, $tick) . ', catch_up => true)');
	is($b->sql('SELECT count(*) FROM ran'), 2, 'once');
};

# Only so many jobs get their first record in a term.
subtest 'so many new jobs' => sub {
	my $claim = sub { claim("limit $_[0]", $_[1]) =~ s/'billing'/'limited'/r };
	my $is_refused = sub {
		like(
			$b->sql_error($claim->($_[0])),
			qr/LE005: .*too many jobs of election "limited"\nDETAIL: .* 3 of them .*leader_election\.max_jobs/,
			"$_[0]: refused");
		is($b->sql("SELECT count(*) FROM le_claims WHERE job = 'limit $_[0]'"), 0, 'and not recorded');
	};

	$b->configure(max_jobs => 3);
	$b->acquire('limited', wait => '3 min');
	is($b->sql($claim->($_)), 't', "$_: claimed") foreach 1 .. 3;
	$is_refused->(4);
	is($b->sql($claim->(1, 1)), 't', 'the next tick of one of them');
	is($b->sql(claim('beside')), 't', 'a job of another election');
	$b->release('limited');
	$b->acquire('limited', wait => '3 min');
	is($b->sql($claim->($_)), 't', "$_: claimed in another term") foreach 4 .. 6;
	$is_refused->(7);
	$b->configure(max_jobs => 4);
	is($b->sql($claim->(7)), 't', 'more under a higher limit');
	$b->configure(max_jobs => 1000);
};

# No store: nothing is claimed, and that is an error.
subtest 'store down' => sub {
	my $session = LeaderElection::Session->new($b);

	is($session->query(claim('before')), 't', 'claimed before');
	$consul->stop;
	like($b->sql_error(claim('down')), qr/LE00[34]/, 'no claim');
	like($b->sql_error('SELECT * FROM le_claims'), qr/LE003: could not read the claims from the lease store/, 'no view');
	like($session->error(complete('before')), qr/LE00[34]: could not complete a tick/, 'no end');
	$consul->start;
	$b->wait_for('SELECT count(*) >= 0 FROM le_claims');
	is($session->query(complete('before')), 't', 'once it is back');
};

done_testing();
