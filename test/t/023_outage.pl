# Tier: test, 38 s
#
# Consul is not there, not yet there, not there any more: what SQL says, and
# what happens when it comes back.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Sampler;
use LeaderElection::Toxiproxy;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('server', persistent => 1)->start;
my $agent = LeaderElection::Consul->new('agent', join => [$consul])->start;
my $toxiproxy = LeaderElection::Toxiproxy->new->start;
my $link = $toxiproxy->link('late', $consul->host_port);

sub sessions_of
{
	my ($name) = @_;

	return grep { $_->{Name} eq "leader_election: $name" }
	  @{ $consul->get('/v1/session/list')->{json} };
}

# Guards against an instance that does not start without its store, or that
# has to be told when the store is there.
$link->down;
my $late = LeaderElection::Node->create(
	'late',
	consul => $link,
	settings =>
	  { lease_ttl => '10s', request_timeout => '1s', campaign => 'always' });

subtest 'down at start, up later' => sub {
	my $url = $link->url;

	denied('G5', $late->is_leader('always'), 'does not lead');
	like(
		$late->sql_error("SELECT le_acquire('now')"),
		qr/ERROR:  LE003: .*"now".*\Q$url\E/,
		'unavailable, with election and URL');
	like(
		$late->sql_error("SELECT le_current_leader('now')"),
		qr/ERROR:  LE003: .*"now".*\Q$url\E/,
		'nor is it known who leads');
	is($late->sql('SELECT count(*) FROM le_status'), 2, 'le_status answers');
	is(
		$late->sql("SELECT state FROM le_status WHERE election = 'always' "
			  . "AND last_error ~ 'onnect'"),
		'candidate',
		'and says why there is no leader');
	is($late->sql("SELECT le_renew('always')"), 'f', 'nothing to renew');
	$link->up;
	$late->wait_for_leadership('always');
	is($late->sql("SELECT last_error FROM le_status WHERE election = 'always'"),
		'', 'a term, and no error');
	ok($late->acquire('now'), 'leads once it is up');
	foreach my $line ('is down', 'answers again')
	{
		is(scalar(() = $late->log_since =~ /leader_election store .* $line/g),
			1, "one line \"$line\"");
	}
	ok($late->release('now'), 'released');
};

# Guards against messages that leave the reader without a clue.
subtest 'the messages' => sub {
	my $recorder =
	  LeaderElection::Recorder->new('messages', $consul->host_port)->start;
	my $silent = $toxiproxy->link('silent', $consul->host_port);
	my $nobody = 'http://127.0.0.1:' . free_port();
	my $node = LeaderElection::Node->create(
		'messages',
		consul => $nobody,
		settings => { lease_ttl => '10s', request_timeout => '1s' });
	my $error = sub {
		my ($election) = @_;

		return $node->sql_error("SELECT le_acquire('$election')");
	};
	my $try = sub {
		my ($url, $state, $detail, $what) = @_;
		my $got;

		$node->configure(consul_url => $url);

		# The worker may still be busy with the URL before it.
		poll_until(
			sub {
				$got = $error->('one');
				$got =~ /$detail/;
			},
			"$what like $detail");
		like($got, qr/ERROR:  $state: .*"one".*\Q$url\E/, "$what: $state");
		like($got, qr/DETAIL:  .*$detail/, 'with the reason');
		like(
			$got,
			qr/HINT:  Check that the store runs and that "leader_election.consul_url" is right\./,
			'and the hint');
		denied('G5', $node->is_leader('one'), 'not leader');
	};

	$silent->add($_, 'timeout', $_, timeout => 0) foreach 'upstream',
	  'downstream';
	$try->($nobody, 'LE003', 'connect', 'connection refused');
	$try->($silent->url, 'LE003', 'timed out', 'no answer');
	$try->('http://nowhere.invalid:8500', 'LE003', 'resolve', 'unknown host');

	# something else lives there
	$try->("http://127.0.0.1:$toxiproxy->{port}",
		'LE003', 'not Consul', 'no Consul');
	$node->configure(consul_url => $recorder->url);
	poll_until(sub { $node->acquire('one') }, 'the right URL');
	pass('leads by the right URL');

	# once a write has been sent nobody knows
	$recorder->rule(
		match => request_like('read', 'two'),
		action => 'pass',
		count => 1);
	$recorder->rule(match => qr{/two/leader}, action => 'hang_request');

	my $got = $error->('two');

	like($got, qr/ERROR:  LE004: .*"two"/, 'no answer to a write: LE004');
	like($got, qr/DETAIL:  .*timed out/, 'with the reason');
	like($got, qr/HINT:  /, 'and the hint');
	$recorder->clear_rules;
	$recorder->rule(
		match => request_like('acquire', 'three'),
		action => 'answer',
		status => 403,
		body => 'Permission denied');
	$got = $error->('three');
	like($got, qr/ERROR:  LE005: .*"three"/, 'refused: LE005');
	like($got, qr/DETAIL:  .*Permission denied/, 'with the reason');
	like(
		$got,
		qr/HINT:  Check the token in "leader_election.consul_token_file" and its policy\./,
		'and the hint');
	$node->stop;
};

# Guards against terms that outlive, or do not survive, a restart of Consul.
subtest 'Consul stopped and started' => sub {
	my $short = LeaderElection::Node->create(
		'short',
		consul => $consul,
		settings =>
		  { lease_ttl => '5s', request_timeout => '1s', campaign => 'short' });
	my $long = LeaderElection::Node->create(
		'long',
		consul => $consul,
		settings =>
		  { lease_ttl => '60s', request_timeout => '1s', campaign => 'long' });

	$short->wait_for_leadership('short');
	$long->wait_for_leadership('long');

	my ($short_token, $long_token) =
	  ($short->token('short'), $long->token('long'));
	my $ghost = leader_key($consul, 'short')->{Session};
	my $offset = $short->log_offset;
	my $size = $consul->log_size;
	my $sampler =
	  LeaderElection::Sampler->new($short, 'short', interval => 0.02);

	poll_until(sub { $sampler->beliefs }, 'samples');
	$consul->stop;

	# the worker may have yet to read an answer
	my $latest = boottime_ns() + 4e9;
	my $deadline = deadline_ns($short, 'short');

	poll_until(sub { !$short->is_leader('short') }, 'end of belief');
	$sampler->stop;

	my @beliefs = $sampler->beliefs;

	is(scalar @beliefs, 1, 'down: one term');
	guarantee('G5', [ [ $beliefs[0][1], $latest ] ], 'which ends by its deadline');
	cmp_ok($beliefs[0][1], '<=', $deadline, 'as it was shown');
	like($short->sql_error("SELECT le_acquire('other')"),
		qr/ERROR:  LE003/, 'nothing can be acquired');
	same_term($long_token, $long->token('long'), 'a long lease goes on');
	$consul->start;
	$short->wait_for_leadership('short');
	guarantee('G2', [ $short_token, $short->token('short') ],
		'up: elected again, with a higher token');
	is($long->sql("SELECT le_renew('long')"), 't', 'the long lease is proven');
	same_term($long_token, $long->token('long'), 'in the same term');
	poll_until(
		sub {
			$consul->requests($size, qr{^PUT /v1/session/destroy/$ghost});
		},
		'the node to end its first session');
	poll_until(sub { sessions_of('short') == 1 },
		'the end of the first session');
	is(leader_key($consul, 'short')->{Session},
		(sessions_of('short'))[0]{ID},
		'no ghost of the first term is left');
	foreach my $line ('is down', 'answers again')
	{
		is( scalar(
				() = $short->log_since($offset) =~
				  /leader_election store .* $line/g),
			1,
			"one line \"$line\"");
	}
	$_->stop foreach ($short, $long);
};

# Guards against two leaders when a client agent leaves: Consul ends all of
# its sessions at once, and their holder is the last to know.
subtest 'client agent leaves' => sub {
	my %settings = (lease_ttl => '10s', request_timeout => '1s');
	my $through = LeaderElection::Node->create(
		'through',
		consul => $agent,
		settings => { %settings, campaign => 'leave' });

	$through->wait_for_leadership('leave');

	my $recorder =
	  LeaderElection::Recorder->new('rival', $consul->host_port)->start;
	my $rival = LeaderElection::Node->create(
		'rival',
		consul => $recorder,
		settings => { %settings, campaign => 'leave' });
	my @samplers = map {
		LeaderElection::Sampler->new($_, 'leave', interval => 0.02)
	} ($through, $rival);
	my $token = $through->token('leave');
	my $session = leader_key($consul, 'leave')->{Session};

	$rival->wait_for("SELECT holder = 'through' FROM le_status "
		  . "WHERE election = 'leave'");
	poll_until(sub { $samplers[0]->beliefs }, 'samples');

	# It might be told while the agent leaves; this time it is not.
	my $worker = $through->freeze_worker;
	my $asked = boottime_ns();
	my $deadline = deadline_ns($through, 'leave');
	my $stopped = boottime_ns();
	my $earliest = $deadline - ($stopped - $asked) - 0.1e9;

	$agent->stop;

	poll_until(
		sub {
			!@{ $consul->get("/v1/session/info/$session")->{json} };
		},
		'the session to go with its agent');
	$rival->wait_for_leadership('leave');
	$through->thaw_worker($worker);
	guarantee('G2', [ $token, $rival->token('leave') ], 'taken by the rival');

	# Consul's own lock-delay would hide a rival that does not wait, mostly.
	my ($first) = grep { $_->{received} > $stopped }
	  $recorder->requests(request_like('acquire', 'leave'));

	cmp_ok($first->{received}, '>=', $stopped + 10e9,
		"which has not tried before the holder's lease was over");
	$_->stop foreach @samplers;
	guarantee('G1', [ LeaderElection::Sampler->overlaps(@samplers) ], 'never two leaders');
	guarantee('G5', [ [ ($samplers[0]->beliefs)[-1][1], $deadline ] ],
		'belief ended by the deadline');
	is( scalar(
			grep { !defined $_->[2] && $_->[1] < $earliest } $samplers[0]->samples),
		0,
		'which nobody had been told before');

	# and the agent is back
	$agent->start;
	poll_until(sub { $through->acquire('again') }, 'a new session');
	still_leads($through, 'again', 'its node takes part again');
	ok(!$through->is_leader('leave'), 'but leads nothing of before');
	is($rival->sql("SELECT le_renew('leave')"), 't', 'the rival goes on');
};

done_testing();
