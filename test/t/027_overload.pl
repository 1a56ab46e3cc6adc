# Tier: test, 53 s
#
# Loads that must not hold up the worker: a name server that hangs, and thousands of
# candidacies. Terms that are held are kept, questions are answered, and the
# instance shuts down as fast as ever.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Resolver;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my $resolver = LeaderElection::Resolver->new;

subtest 'a name server that hangs' => sub {
	my $url = $consul->url =~ s{//[^:/]+}{//slow.example}r;
	my %settings = (request_timeout => '1s', shutdown_timeout => '2s');
	my $node;

	$resolver->hang;
	$resolver->preloaded(
		sub {
			$node = LeaderElection::Node->create('resolver',
				consul => $url, settings => \%settings);
		});

	like(
		$node->sql_error("SELECT le_acquire('x')"),
		qr/ERROR:  LE003: .*DETAIL:  [^\n]*name[^\n]*timed out/s,
		'an acquire says so');

	# Each of these is answered by the worker; it never waits for a look-up.
	$node->sql("SELECT le_withdraw('x')") foreach 1 .. 50;
	pass('the worker goes on meanwhile');
	# A look-up hangs for 20 s.
	cmp_ok($node->sql('SELECT longest_turn FROM le_stat_info'),
		'<', 10_000, 'no look-up is waited for');

	# Each look-up costs a thread: their number is limited for requests that show
	# something to people, but not for those that keep terms.
	my @readers = map { LeaderElection::Session->new($node) } 1 .. 12;

	$_->start("SELECT le_current_leader('x')") foreach @readers;
	$_->finish foreach @readers;
	poll_until(
		sub {
			$node->sql_error("SELECT le_current_leader('x')") =~
			  /name server does not answer/;
		},
		'not every question has a look-up of its own');
	# It waits for longer than a look-up may take: at first the last known error is
	# that of the last question.
	like(
		$node->sql_error("SELECT le_acquire('x', wait => '5 s')"),
		qr/ERROR:  LE003: .*DETAIL:  [^\n]*name[^\n]*timed out/s,
		'a session is asked for all the same');

	$resolver->answer;
	poll_until(sub { $node->sql_error("SELECT le_acquire('x')") eq '' },
		'the name is found');
	ok($node->is_leader('x') || $node->acquire('x'), 'leads');

	$resolver->hang;
	ok($node->sql("SELECT le_release('x')"), 'a name that is known counts');
	$node->stop;

	# It has never found the name, and a thread of it is in the resolver.
	$resolver->preloaded(
		sub {
			$node = LeaderElection::Node->create('never',
				consul => $url,
				settings => { %settings, campaign => 'y' });
		});
	$resolver->wait_for_lookup;
	$node->stop('fast');
	cmp_ok($resolver->hanging_for, '<', 20,
		'a fast shutdown does not wait until the look-up ends, after 20 s');
};

# A caller that asks about an election does not wait behind elections that nobody asks
# about, and is told the truth if it waits behind other callers.
subtest 'the order of the lanes' => sub {
	my $recorder =
	  LeaderElection::Recorder->new('slow', $consul->host_port)->start;
	my $node = LeaderElection::Node->create('asked',
		consul => $recorder,
		settings => {
			lease_ttl => '60s',
			max_elections => 5000,
			request_timeout => '10s'
		});

	ok($node->acquire('held'), 'leads something');

	# 4,000 take a quarter of a minute, eight requests of nineteen at a time.
	$recorder->rule(
		match => request_like('acquire'),
		action => 'delay_request',
		delay => 0.5);
	$node->sql(
		"SELECT le_campaign('new' || i) FROM generate_series(1, 4000) i");
	is($node->sql_error("SELECT le_acquire('new3990')"),
		'', 'an election that is campaigned for, asked for');
	cmp_ok(
		$node->sql("SELECT count(*) FROM generate_series(1, 4000) i "
			  . "WHERE le_is_leader('new' || i)"),
		'<', 4000, 'before the others are led');
	still_leads($node, 'new3990', 'is led');
	$recorder->clear_rules;
	$node->configure(request_timeout => '1s');
	$node->wait_for("SELECT setting = '1000' FROM pg_settings
		WHERE name = 'leader_election.request_timeout'");

	# Eight may ask at a time, and get no answer in their second; when the next
	# eight have their turn the others have waited for a second, too.
	$recorder->rule(
		match => qr{leader_election/busy},
		action => 'hang_request');
	my @busy = map { LeaderElection::Session->new($node) } 1 .. 28;
	my $n = 0;

	$_->start("SELECT le_acquire('busy" . ++$n . "')") foreach @busy;

	my @errors = map { $_->finish->{error} } @busy;

	is(scalar(grep { /ERROR:  LE003: .*busy/ } @errors),
		28, 'nobody is served');
	cmp_ok(
		scalar(
			grep {
				/^DETAIL:  Too many requests of this instance were waiting for their turn\.
HINT:  Try again later, or wait longer with the argument "wait"\.$/m
			} @errors),
		'>',
		0,
		'a caller without a turn is told so, and the store is not blamed');

	$recorder->clear_rules;
	still_leads($node, 'held', 'held elections stay held');
	$node->stop;
};

# An acquire that waits for its turn is for a caller that is still there when the turn
# comes: the store hears of no holder for which nobody asks any more.
subtest 'an acquire for a caller that is still there' => sub {
	my $recorder =
	  LeaderElection::Recorder->new('turns', $consul->host_port)->start;
	# The others are answered in time on any machine: after a failure of the store all
	# would be decided anew.
	my $node = LeaderElection::Node->create('turns',
		consul => $recorder,
		settings => { lease_ttl => '60s', request_timeout => '60s' });
	my ($gone, $next, @busy) =
	  map { LeaderElection::Session->new($node) } 1 .. 10;
	my $n = 0;

	# known to be free, so that nobody has to read it
	ok($node->acquire('turn') && $node->release('turn'), 'one had it before');

	my $mark = $recorder->mark;

	# only reads: an acquire of theirs may take that of the other along
	my $held = $recorder->rule(
		match => qr{^GET /v1/kv/leader_election/busy},
		action => 'hold_request');

	$_->start("SELECT le_acquire('busy" . ++$n . "')") foreach @busy;
	poll_until(
		sub { $recorder->requests(qr{leader_election/busy}, $mark) >= 8 },
		'all that may ask at a time');
	$gone->start(q(SELECT le_acquire('turn', scope => 'session')));
	$node->wait_for(q(SELECT state = 'acquiring' FROM le_status WHERE election = 'turn'));
	$next->start(
		q(SELECT le_acquire('turn', wait => '1 min', scope => 'session', value => 'next')));
	# A caller that asks only when the first has gone has its own request.
	$node->wait_for(q(SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = )
		  . $next->pid);
	$node->sql("SELECT pg_cancel_backend(" . $gone->pid . ")");
	like($gone->finish->{error}, qr/57014/,
		'the caller for whom it waits has gone');
	$recorder->remove_rule($held);
	is($next->finish->{output}, 't', 'another has it');
	is_deeply(
		[
			map { scalar($recorder->requests(request_like($_, 'turn'), $mark)) }
			  'acquire', 'release'
		],
		[ 1, 0 ],
		'by one request');
	is(leader_key($consul, 'turn')->{json}{value}, 'next', "with that one's value");
	is_deeply([ map { $_->finish->{output} } @busy ],
		[ ('t') x 8 ], 'the others were served');
	$node->stop;
};

subtest 'candidacies depose nobody' => sub {
	my %settings = (lease_ttl => '60s', max_elections => 5000);
	my $node = LeaderElection::Node->create('many',
		consul => $consul, settings => \%settings);
	my $held = "SELECT count(*) FROM generate_series(1, %d) i WHERE "
	  . "le_is_leader('old' || i)";

	$node->sql("SELECT le_campaign('old' || i) FROM generate_series(1, 200) i");
	poll_until(sub { $node->sql(sprintf($held, 200)) == 200 }, 'all held');
	my $losses = "SELECT coalesce(sum(losses), 0) FROM le_stat";
	is($node->sql($losses), 0, 'none lost so far');

	$node->sql(
		"SELECT le_campaign('new' || i) FROM generate_series(1, 4000) i");
	# While they are sought a session gets what it asks for.
	ok($node->acquire('asked'), 'a session is served');
	poll_until(
		sub {
			$node->sql("SELECT count(*) FROM generate_series(1, 4000) i "
				  . "WHERE le_is_leader('new' || i)") == 4000;
		},
		'the new ones are held too');
	is($node->sql(sprintf($held, 200)), 200, 'with those held before');
	is($node->sql($losses), 0, 'none was lost');
	cmp_ok($node->sql('SELECT waits FROM le_stat_info'),
		'>', 0, 'that they waited for each other is counted');
	is( $node->sql(
			"SELECT count(*) FROM le_events WHERE event = 'store down'"),
		0,
		'the store is not called down');
	$node->stop;
};

# A node that waits for another knows from the watch what that node held: it reads
# no key, asks for one takeover to mark the node as gone, and then for the rest.
subtest 'all terms of a node that is killed' => sub {
	my $n = 400;
	my %settings = (lease_ttl => '5s', max_elections => 1000);
	my $recorder =
	  LeaderElection::Recorder->new('waiting', $consul->host_port)->start;
	my $leading = LeaderElection::Node->create('leading',
		consul => $consul, settings => \%settings);
	my $waiting = LeaderElection::Node->create('waiting',
		consul => $recorder, settings => \%settings);
	my $held = "SELECT count(*) = $n FROM generate_series(1, $n) i WHERE "
	  . "le_is_leader('many' || i)";

	$_->sql("SELECT le_campaign('many' || i) FROM generate_series(1, $n) i")
	  && $leading->wait_for($held)
	  foreach $leading, $waiting;
	$waiting->wait_for("SELECT count(*) = $n FROM le_status "
		  . "WHERE state = 'waiting' AND holder = 'leading'");

	my $mark = $recorder->mark;

	# So long that the others would be sent meanwhile, on any machine.
	$recorder->rule(
		match => request_like('take_over'),
		action => 'delay_reply',
		delay => 0.5,
		count => 1);
	$leading->crash;
	$waiting->wait_for($held);

	my @takeovers = $recorder->requests(request_like('take_over'), $mark);

	cmp_ok(scalar($recorder->requests(request_like('read'), $mark)),
		'<', 10, 'no key is read');
	is(scalar(grep { ($_->{status} // 0) == 409 } @takeovers),
		0, 'none is asked for that depends on the mark before that is made');
	cmp_ok(scalar(@takeovers), '<', 2 + $n / 20 + 10,
		'twenty are taken over at a time');
	$waiting->stop;
};

done_testing();
