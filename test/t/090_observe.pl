# Tier: test, 36 s
#
# Events and counters: le_events and le_stat tell them from shared memory alone, in
# any state of worker and store.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Session;
use LeaderElection::Takeover;
use LeaderElection::Util;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my $recorder = LeaderElection::Recorder->new('r', $consul->host_port)->start;
my $a = LeaderElection::Node->create(
	'a',
	consul => $recorder,
	settings => { short_lease(), max_events => 40 });
my $b = LeaderElection::Node->create(
	'b',
	consul => $consul,
	settings => { short_lease() });

# Rows of the view since a number, without times and numbers.
sub newest
{
	return $_[0]->sql('SELECT COALESCE(max(number), 0) FROM le_events');
}

sub events
{
	my ($node, $since, $election) = @_;
	my $rows = $node->sql(
		'SELECT event, node, fencing_token, detail FROM le_events '
		  . "WHERE number > $since AND election = '$election'");

	return [ split /\n/, $rows ];
}

sub stat_of
{
	my ($node, $column, $election) = @_;
	my $of = defined $election ? "= '$election'" : 'IS NULL';

	return $node->sql("SELECT $column FROM le_stat() WHERE election $of");
}

# Reads both views while something is stopped; must not wait for it.
sub readable
{
	my ($node, $what) = @_;

	is( $node->sql(
			q(SET statement_timeout = '60 s'; SELECT EXISTS (SELECT FROM le_events)
				AND EXISTS (SELECT FROM le_stat))),
		't',
		"$what: both views can be read");
	return;
}

subtest 'a term, seen by both' => sub {
	my %since = (a => newest($a), b => newest($b));
	my ($token, $other);

	$b->sql("SELECT le_campaign('term')");
	$b->wait_for_leadership('term');
	$b->sql("SELECT le_withdraw('term')");
	ok($a->acquire('term', wait => '3 min'), 'a leads');
	$token = $a->token('term');
	$b->sql("SELECT le_campaign('term')");
	wait_for_waiter($b, 'term', $a);
	ok($a->release('term'), 'and lets go');
	$b->wait_for_leadership('term');
	$other = $b->token('term');
	guarantee('G2', [ $token, $other ], 'b leads with a higher token');
	# a may or may not see b: it does not look at elections it does not seek
	is_deeply(
		[ @{ events($a, $since{a}, 'term') }[ 0, 1 ] ],
		[ "acquired|a|$token|scope node", "released|a|$token|" ],
		'as a tells it');
	like(
		join("\n", @{ events($b, $since{b}, 'term') }),
		qr/\Aacquired\|b\|\d+\|scope\ node\n
			released\|b\|\d+\|\n
			other\ leads\|a\|$token\|\n
			acquired\|b\|$other\|scope\ node\z/x,
		'as b tells it');
	is(
		$a->sql(
			"SELECT bool_and(at BETWEEN now() - interval '5 min' AND now()) "
			  . "FROM le_events WHERE number > $since{a}"),
		't',
		'with the time');
	is(stat_of($a, 'terms, releases, losses', 'term'),
		'1|1|0', 'as a counts it');
	is(stat_of($b, 'terms, releases, losses', 'term'),
		'2|1|0', 'as b counts it');
	$b->sql("SELECT le_withdraw('term')");
};

subtest 'a loss, and its reason' => sub {
	my $since = newest($a);
	my $token;

	ok($a->acquire('loss', wait => '3 min'), 'a leads');
	$token = $a->token('loss');
	$consul->destroy($consul->kv('leader_election/loss/leader')->{Session});
	$a->wait_for("SELECT NOT le_is_leader('loss')");
	$a->wait_for("SELECT last_loss IS NOT NULL FROM le_status "
		  . "WHERE election = 'loss'");
	my $reason =
	  $a->sql("SELECT last_loss FROM le_status WHERE election = 'loss'");
	isnt($reason, 'released', 'not by itself');
	is_deeply(
		events($a, $since, 'loss'),
		[ "acquired|a|$token|scope node", "lost|a|$token|$reason" ],
		'both are told');
	is(stat_of($a, 'terms, releases, losses', 'loss'),
		'1|0|1', 'and counted');
};

subtest 'renewals, and a store that does not answer' => sub {
	my $since = newest($a);
	my $proof = qr{^PUT /v1/txn.*"Verb":"lock","Key":"leader_election.nodes/}s;
	my ($before, $began, $ms);

	ok($a->acquire('renewed', wait => '3 min'), 'a leads');

	# a machine that stands still may make one too late
	poll_until(
		sub {
			$began = boottime_ns();
			$a->sql('SELECT le_stat_reset()');
			poll_until(sub { stat_of($a, 'renewals', 'renewed') >= 2 }, 'renewals');
			return stat_of($a, 'failures + unknown', 'renewed') == 0;
		},
		'two of which none failed');
	$ms = int((boottime_ns() - $began) / 1e6) + 1;
	is(
		stat_of(
			$a,
			'min_time > 0 AND min_time <= avg_time AND avg_time <= max_time AND '
			  . "max_time <= $ms AND round_trips >= 2 AND "
			  . 'abs(total_time - round_trips * avg_time) <= round_trips * 0.001',
			$_),
		't',
		'round trips of ' . ($_ // 'none'))
	  foreach 'renewed', undef;

	# An answer that is late shows, one that never comes counts as unknown.
	$recorder->rule(match => $proof, action => 'delay_reply', delay => 0.4);
	poll_until(sub { stat_of($a, 'max_time', 'renewed') >= 400 },
		'the slow one');
	$recorder->clear_rules;
	$recorder->rule(match => $proof, action => 'hang_reply', count => 1);
	poll_until(sub { stat_of($a, 'unknown', 'renewed') >= 1 }, 'a hanging one');
	poll_until(
		sub {
			$a->sql("SELECT count(*) FROM le_events WHERE number > $since "
				  . "AND event = 'store up'");
		},
		'the end of it');
	like(
		$a->sql("SELECT detail FROM le_events WHERE number > $since "
			  . "AND event = 'store down' ORDER BY number DESC LIMIT 1"),
		qr/\Acould not .*: .+\z/,
		'store down: the operation and the reason');
	$recorder->clear_rules;

	$before = stat_of($a, 'failures');
	$recorder->terminate;
	poll_until(sub { stat_of($a, 'failures') > $before }, 'failures');
	$recorder->start;
	ok(poll_until(sub { $a->acquire('renewed', wait => '3 min') }, 'again'),
		'leads again');
	ok($a->release('renewed'), 'released');
};

subtest 'gate, fence and cancel' => sub {
	my $since = newest($a);
	my $session = LeaderElection::Session->new($a);
	my ($token, $worker, $canceled, $error);

	like($a->sql_error("SELECT le_require_leader('gate')"),
		qr/LE001/, 'refused, for a name without a slot in the table');
	is(stat_of($a, 'gate_refused'), 1, 'counted for none');
	ok($a->acquire('gate', wait => '3 min'), 'a leads');
	$token = $a->token('gate');
	$a->sql("SELECT le_require_leader('gate')") foreach 1 .. 3;
	like($a->sql_error("SELECT le_require_leader('gate', '1 h')"),
		qr/LE001/, 'refused');
	is(stat_of($a, 'gate_passed, gate_refused', 'gate'), '3|1', 'counted');

	$session->query("BEGIN; SELECT le_require_leader('gate')");
	$session->query("SELECT le_release('gate')");
	$error = $session->error('COMMIT');
	guarantee('G3', [ $error eq '' ? 'COMMIT' : () ], 'not committed');
	like($error, qr/LE002/, 'refused at commit');
	is(stat_of($a, 'gate_passed, fence_aborts, cancels', 'gate'),
		'4|1|0', 'counted');
	is(
		$a->sql('SELECT event, fencing_token FROM le_events '
			  . "WHERE number > $since AND pid = " . $session->pid),
		"fence aborted|$token",
		'and told');

	ok($a->acquire('gate', wait => '3 min'), 'a leads again');
	$token = $a->token('gate');
	$worker = $a->freeze_worker;
	$session->start("SELECT le_require_leader('gate', on_loss => 'cancel'), "
		  . 'pg_sleep(60)');
	like($session->finish->{error}, qr/LE002/, 'canceled');
	is(stat_of($a, 'cancels', 'gate'), 1, 'counted');
	$canceled = $a->sql('SELECT event, fencing_token, detail IS NOT NULL '
		  . "FROM le_events WHERE event = 'canceled' AND pid = "
		  . $session->pid);
	is($canceled, "canceled|$token|t", 'and told');
	$a->thaw_worker($worker);
	$a->wait_for("SELECT le_acquire('gate', wait => '3 min')");
	ok($a->release('gate'), 'released');
};

# Guards against a lock that a process may keep: a stopped process would stay in it.
subtest 'worker stopped' => sub {
	my $worker;

	ok($a->acquire('stopped', wait => '3 min'), 'a leads');
	$worker = $a->freeze_worker;
	readable($a, 'worker');
	$a->thaw_worker($worker);
	$a->wait_for("SELECT le_acquire('stopped', wait => '3 min')");
	ok($a->release('stopped'), 'released');
};

subtest 'worker terminated' => sub {
	my $since = newest($a);
	my $worker = $a->worker_pid;
	my $before;

	ok($a->acquire('kept', wait => '3 min'), 'a leads');
	$before = stat_of($a, 'terms', 'kept');
	$a->sql("SELECT pg_terminate_backend($worker)");
	$worker = $a->wait_for_worker($worker);
	$a->wait_for("SELECT count(*) = 1 FROM le_events WHERE number > $since "
		  . "AND event = 'worker started' AND pid = $worker");
	is(stat_of($a, 'terms', 'kept'), $before, 'counters are kept');
	is_deeply(events($a, $since, 'kept'),
		[ 'acquired|a|' . $a->token('kept') . '|scope node' ], 'and events');
	ok($a->release('kept'), 'released');
};

# The ring is bounded, and keeps the newest.
subtest 'many events' => sub {
	my $newest;

	$a->sql("SELECT le_acquire('many'), le_release('many')")
	  foreach 1 .. 30;
	$newest = newest($a);
	cmp_ok($newest, '>=', 60, 'numbered on');
	is(
		$a->sql("SELECT count(*), min(number), max(number) FROM le_events WHERE event IN ('acquired', 'released')"),
		join('|', 40, $newest - 39, $newest),
		'as many as max_events, the newest');

	# runs have a ring of their own; the page's query is about leaders
	my $terms = $a->sql("SELECT array_agg(number) FROM le_events WHERE event IN ('acquired', 'released')");
	my ($query) = slurp_file("$ENV{TESTDIR}/README.md") =~ /^\| Why did the leader change\? \| `(.*)` \|$/m;

	ok($a->acquire('billing'), 'another leads');
	$a->sql(join ';', map { "CALL le_run('billing', 'SELECT 1', job => 'often$_')" } 1 .. 25);
	is($a->sql("SELECT count(*) FROM le_events WHERE event IN ('claimed', 'run started', 'run done')"), 40, 'as many of runs');
	is($a->sql("SELECT '$terms'::bigint[] <@ array_agg(number) OR count(*) >= 40 FROM le_events WHERE event IN ('acquired', 'released')"), 't', 'and terms are kept');
	is($a->sql("SELECT string_agg(event, ',') FROM ($query) q"), 'acquired', 'why the leader changed');
	ok($a->release('billing'), 'released');
};

# Both tokens: the one that was taken over from, and the new one.
subtest 'takeover' => sub {
	my ($since, $old, $new, $line);

	ok($a->acquire('taken', wait => '3 min'), 'a leads');
	$a->sql(q{SELECT le_renew('taken', '"here"')});
	$old = $a->token('taken');
	$since = newest($b);
	$b->sql("SELECT le_campaign('taken')");
	wait_for_waiter($b, 'taken', $a);
	$a->freeze;
	$b->wait_for_leadership('taken');
	$new = $b->token('taken');
	guarantee('G2', [ $old, $new ], 'b leads with a higher token');
	$line = log_line($b, 'taken');
	is_deeply(
		events($b, $since, 'taken'),
		[
			"other leads|a|$old|",
			"acquired|b|$new|scope node",
			"took over|b|$new|from node \"a\" with token $old after "
			  . "$line->{silence} s of silence"
		],
		'from whom, with both tokens');
	is("$line->{old} $line->{new}", "$old $new", 'as the log has it');
	$since = newest($a) if $a->thaw;
	$a->wait_for("SELECT count(*) = 1 FROM le_events WHERE event = 'lost' "
		  . "AND election = 'taken' AND fencing_token = $old");
	is(stat_of($a, 'losses', 'taken'), 1, 'the old one has noticed');
	$b->sql("SELECT le_withdraw('taken')");
};

# A process that is killed takes the ring with it; nothing half-written stays.
subtest 'crash restart' => sub {
	my $pid = $a->worker_pid;

	ok($a->acquire('crash', wait => '3 min'), 'a leads');
	$a->kill_worker('KILL');
	$a->wait_for_worker($pid);
	$a->wait_for('SELECT count(*) > 0 FROM le_events');
	is($a->sql('SELECT event FROM le_events WHERE number = 1'),
		'worker started', 'a new ring');
	is(
		$a->sql("SELECT count(*) FROM le_stat WHERE election = 'crash' "
			  . 'AND terms > 0'),
		0,
		'and new counters');
};

# A DBA on call reads them as they come.
subtest 'the counters fit a screen' => sub {
	foreach my $view ('le_stat', 'le_stat_jobs', 'le_stat_store', 'le_stat_info')
	{
		my ($out) = run_command(
			[
				'psql', '-X', '-P', 'pager=off', '-h', $b->host, '-p', $b->port,
				'-d', 'postgres', '-c', "SELECT * FROM $view"
			]);
		my $widest = max(map { length } split /\n/, $out);

		cmp_ok($widest, '>', 40, "$view: seen");
		cmp_ok($widest, '<=', 120, 'columns');
	}
};

done_testing();
