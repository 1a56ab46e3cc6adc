# Tier: test, 76 s
#
# Answers that never arrive: what became of the request is read back, never
# assumed, and a copy that arrives late changes nothing.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Sampler;
use LeaderElection::Toxiproxy;
use LeaderElection::Util;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;

my %settings = (
	lease_ttl => '10s',
	request_timeout => '2s',
	shutdown_timeout => '10s');
my $consul = LeaderElection::Consul->new('consul')->start;
my $toxiproxy = LeaderElection::Toxiproxy->new->start;
my (%recorder, %node);

foreach my $name ('a', 'b', 'c')
{
	$recorder{$name} =
	  LeaderElection::Recorder->new($name, $consul->host_port)->start;
}

my $link = $toxiproxy->link('c', $recorder{c}->host_port);

foreach my $name ('a', 'b', 'c')
{
	$node{$name} = LeaderElection::Node->create(
		$name,
		consul => $name eq 'c' ? $link : $recorder{$name},
		settings => \%settings);
}

my ($a, $b, $c) = @node{ 'a', 'b', 'c' };
my $through_a = $recorder{a};

sub sessions_of
{
	my ($name) = @_;

	return
	  map { $_->{ID} }
	  grep { $_->{Name} eq "leader_election: $name" }
	  @{ $consul->get('/v1/session/list')->{json} };
}

sub id_of
{
	my ($created) = @_;

	return $created->{reply} =~ /"ID":\s*"([^"]+)"/ ? $1 : undef;
}

# Guards against a session that nobody knows about being taken for ours.
subtest 'create: reply lost' => sub {
	$through_a->rule(
		match => request_like('create'),
		action => 'lose_reply',
		count => 1);
	ok($a->acquire('create', wait => '30s'), 'leads all the same');

	my @created = $through_a->requests(request_like('create'));

	is(scalar @created, 2, 'by a second session');
	is(leader_key($consul, 'create')->{Session},
		id_of($created[1]), 'which holds the key');
	is_deeply([ keys %{ node_keys($consul) } ],
		[ id_of($created[1]) ], 'and is the only one that takes part');
	ok($a->release('create'), 'released');
};

# Guards against two node keys of one node, and a session left behind that
# holds one of them.
subtest 'register: reply lost' => sub {
	$recorder{b}->rule(
		match => request_like('register'),
		action => 'lose_reply',
		count => 1);
	ok($b->acquire('register', wait => '30s'), 'leads all the same');

	my @created = $recorder{b}->requests(request_like('create'));
	my $first = id_of($created[0]);

	is(leader_key($consul, 'register')->{Session},
		id_of($created[-1]), 'by another session');
	isnt(id_of($created[-1]), $first, 'than the first');
	is_deeply($consul->get("/v1/session/info/$first")->{json},
		[], 'which was ended');
	ok(!node_keys($consul)->{$first}, 'with its node key');
	ok($b->release('register'), 'released');
};

# Guards against belief in an acquire whose answer never came.
subtest 'acquire: reply lost, or late beyond patience' => sub {
	foreach my $action ('lose_reply', 'hang_reply')
	{
		my $mark = $through_a->mark;

		$through_a->rule(
			match => request_like('acquire', $action),
			action => $action,
			count => 1);
		ok($a->acquire($action), "$action: true, without waiting");

		my @locks =
		  $through_a->requests(request_like('acquire', $action), $mark);
		my @reads = $through_a->requests(request_like('read', $action), $mark);

		is(scalar @locks, 1, 'applied once');
		cmp_ok($reads[-1]{received}, '>', $locks[0]{answered}, 'and read back');
		is($a->token($action), leader_key($consul, $action)->{ModifyIndex},
			'the token is the index of the acquire');
		ok($a->release($action), 'released');
	}
};

subtest 'acquire: no belief before it was read back' => sub {
	my $mark = $through_a->mark;

	$through_a->rule(
		match => request_like('read', 'late'),
		action => 'pass',
		count => 1);
	$through_a->rule(
		match => request_like('read', 'late'),
		action => 'hang_request');
	$through_a->rule(
		match => request_like('acquire', 'late'),
		action => 'lose_reply',
		count => 1);
	$a->sql("SELECT le_campaign('late')");
	poll_until(
		sub { $through_a->requests(request_like('read', 'late'), $mark) > 1 },
		'read back');
	ok(leader_key($consul, 'late')->{Session}, 'applied');
	ok(!$a->is_leader('late'), 'but not believed');
	is($a->token('late'), undef, 'no token');
	$through_a->clear_rules;
	$a->wait_for_leadership('late');
	is($a->token('late'), leader_key($consul, 'late')->{ModifyIndex},
		'then the token of that acquire');
	is(scalar $through_a->requests(request_like('acquire', 'late'), $mark),
		1, 'which was not repeated');
	ok($a->sql("SELECT le_withdraw('late')"), 'withdrawn');
};

# Guards against an orphan lease when the caller was told "unknown".
subtest 'acquire: reply lost and no way to read' => sub {
	my $offset = $a->log_offset;

	$through_a->rule(
		match => request_like('read', 'unread'),
		action => 'pass',
		count => 1);
	$through_a->rule(
		match => request_like('read', 'unread'),
		action => 'answer',
		status => 500,
		body => 'No cluster leader');
	$through_a->rule(
		match => request_like('acquire', 'unread'),
		action => 'lose_reply',
		count => 1);

	my $error = $a->sql_error("SELECT le_acquire('unread')");
	my $url = $through_a->url;

	like($error, qr/ERROR:  LE004: .*"unread".*\Q$url\E/,
		'outcome unknown, said with election and store');
	like($error, qr/HINT:  .*releases/, 'and the hint says that a lease would be released');
	ok(leader_key($consul, 'unread')->{Session}, 'it was applied');
	ok(!$a->is_leader('unread'), 'not believed');
	$through_a->clear_rules;
	poll_until(sub { key_is_released($consul, 'unread') }, 'release');
	ok(!$a->log_like(qr/leader of election "unread"/, $offset),
		'no term began at any time');
};

# Guards against a first copy that arrives after the second was answered.
subtest 'acquire: request lost, then late' => sub {
	my $mark = $through_a->mark;

	$through_a->rule(
		match => request_like('acquire', 'twice'),
		action => 'lose_request',
		count => 1);
	ok($a->acquire('twice'), 'true');

	my @locks = $through_a->requests(request_like('acquire', 'twice'), $mark);
	my $key = leader_key($consul, 'twice');

	is(scalar @locks, 2, 'sent again');
	is($through_a->replay($locks[0])->{status}, 409, 'late copy refused');
	is_deeply(leader_key($consul, 'twice'), $key, 'nothing changed');
	ok($a->release('twice'), 'released');
	is($through_a->replay($locks[0])->{status}, 409, 'refused again');
	ok(key_is_released($consul, 'twice'), 'still released');
};

# Guards against an orphan, or a second term, when the first copy arrives
# after the key was read back and stands in the way of the second.
subtest 'acquire: request lost, then between the attempts' => sub {
	my %call = (
		between => "SELECT le_campaign('between')",
		canceled => "SET statement_timeout = '300ms'; "
		  . "SELECT le_acquire('canceled')");

	foreach my $election (sort keys %call)
	{
		my $mark = $through_a->mark;

		$through_a->rule(
			match => request_like('read', $election),
			action => 'pass',
			count => 1);
		$through_a->rule(
			match => request_like('read', $election),
			action => 'delay_reply',
			delay => 1.5,
			count => 1);
		$through_a->rule(
			match => request_like('acquire', $election),
			action => 'lose_request',
			count => 1);
		$a->sql_error($call{$election});

		my (undef, $read) = poll_until(
			sub {
				my @read = $through_a->requests(request_like('read', $election),
					$mark);

				return $read[1] && $read[1]{status} ? \@read : undef;
			},
			'read back')->@*;
		my ($lost) =
		  $through_a->requests(request_like('acquire', $election), $mark);

		is($read->{status}, 404, "$election: not applied, says the store");

		my $copy = $through_a->replay($lost);

		is($copy->{status}, 200, 'but then it is');
		if ($election eq 'between')
		{
			$a->wait_for_leadership($election);
			is( $a->token($election),
				$copy->{json}{Results}[-1]{KV}{ModifyIndex},
				'a term by the first copy');
			is( scalar $through_a->requests(
					request_like('release', $election), $mark),
				0,
				'without a detour');
			ok($a->sql("SELECT le_withdraw('$election')"), 'withdrawn');
		}
		else
		{
			$a->wait_for("SELECT state = 'idle' FROM le_status "
				  . "WHERE election = '$election'");
		}
		ok(key_is_released($consul, $election), 'nothing is held in the end');
	}
};

# Guards against a lost token or write index after an unknown publish.
subtest 'publish: reply lost' => sub {
	ok($a->acquire('publish', value => 'one'), 'leads');

	my $token = $a->token('publish');

	foreach my $action ('lose_reply', 'hang_reply', 'lose_request')
	{
		$through_a->rule(
			match => qr{"value":"$action"},
			action => $action,
			count => 1);
		is($a->sql("SELECT le_renew('publish', '$action')"),
			't', "$action: published");
		is(leader_key($consul, 'publish')->{json}{value},
			$action, 'as the store shows');
	}
	same_term($token, $a->token('publish'), 'the term went on');
	ok($a->release('publish'), 'released after it');
	ok(key_is_released($consul, 'publish'), 'as the store shows');
	is(leader_key($consul, 'publish')->{json}{value},
		'lose_request', 'with its value');
};

# Guards against "released" being said of a key that is not, and against
# belief that outlives the request.
subtest 'release: reply lost' => sub {
	foreach my $action ('lose_reply', 'hang_reply', 'lose_request')
	{
		my $election = "release-$action";
		my $mark = $through_a->mark;

		ok($a->acquire($election), "$action: leads");
		my $sampler = LeaderElection::Sampler->new($a, $election);
		poll_until(sub { $sampler->beliefs }, 'samples');
		$through_a->rule(
			match => request_like('release', $election),
			action => $action,
			count => 1);
		ok($a->release($election), 'released');
		$sampler->stop;
		ok(key_is_released($consul, $election), 'as the store shows');

		my @unlocks =
		  $through_a->requests(request_like('release', $election), $mark);
		my @beliefs = $sampler->beliefs;
		my $asked = $unlocks[0]{received} // boottime_ns();

		is(scalar @unlocks, $action eq 'lose_request' ? 2 : 1,
			'by as many requests as needed');
		guarantee('G1',
			[ map { "believed until $_->[1]" } grep { $_->[1] > $asked } @beliefs ],
			'belief had ended before');
	}
};

# Guards against a new term on a key whose release may still arrive, and two
# terms with one token.
subtest 'release: unresolved' => sub {
	foreach my $action ('lose_request', 'lose_reply')
	{
		my $election = "unresolved-$action";

		ok($a->acquire($election), "$action: leads");

		my $first = $a->token($election);
		my $mark = $through_a->mark;

		$through_a->rule(
			match => request_like('release', $election),
			action => $action);
		$through_a->rule(
			match => request_like('read', $election),
			action => 'answer',
			status => 500,
			body => 'No cluster leader');
		like(
			$a->sql_error("SELECT le_release('$election')"),
			qr/ERROR:  LE004: .*"$election"/,
			'outcome unknown');
		denied('G5', $a->is_leader($election), 'does not lead');
		like($a->sql_error("SELECT le_acquire('$election')"),
			qr/ERROR:  LE003/, 'no new term while that is so');
		is( scalar $through_a->requests(
				request_like('acquire', $election), $mark),
			0,
			'nor was one asked for');
		ok(!$a->is_leader($election), 'does not lead');
		$through_a->clear_rules;
		ok($a->acquire($election, wait => '30s'), 'but after it');
		guarantee('G2', [ $first, $a->token($election) ], 'with a higher token');

		my $key = leader_key($consul, $election);

		foreach my $unlock (
			$through_a->requests(request_like('release', $election), $mark))
		{
			is($through_a->replay($unlock)->{status},
				409, 'late release refused');
		}
		is_deeply(leader_key($consul, $election), $key, 'nothing changed');
		ok($a->release($election), 'released');
	}
};

# The same where bytes are lost, not requests.
subtest 'release: network swallows all replies' => sub {
	ok($c->acquire('swallowed'), 'leads');

	my $first = $c->token('swallowed');

	$link->add('swallow', 'timeout', 'downstream', timeout => 0);
	like($c->sql_error("SELECT le_release('swallowed')"),
		qr/ERROR:  LE004/, 'outcome unknown');
	ok(key_is_released($consul, 'swallowed'), 'it was applied');
	denied('G5', $c->is_leader('swallowed'), 'does not lead');
	$link->remove('swallow');
	ok($c->acquire('swallowed', wait => '30s'), 'leads again');
	guarantee('G2', [ $first, $c->token('swallowed') ], 'with a higher token');
	ok($c->release('swallowed'), 'released');
};

# Guards against a lease that nobody knows of: its caller is gone.
subtest 'acquire: caller canceled in mid-flight' => sub {
	my %rule = (
		reply_late => [ action => 'delay_reply', delay => 1.2 ],
		reply_lost => [ action => 'hang_reply' ],
		request_lost => [ action => 'hang_request' ]);

	foreach my $election (sort keys %rule)
	{
		my $offset = $a->log_offset;
		my $mark = $through_a->mark;

		$through_a->rule(
			match => request_like('acquire', $election),
			count => 1,
			@{ $rule{$election} });
		like(
			$a->sql_error(
				"SET statement_timeout = '300ms'; "
				  . "SELECT le_acquire('$election')"),
			qr/ERROR:  57014/,
			"$election: canceled");
		ok(!$a->is_leader($election), 'does not lead');
		poll_until(
			sub {
				$a->sql("SELECT state FROM le_status "
					  . "WHERE election = '$election'") eq 'idle';
			},
			'the worker is done with it');

		my $key = leader_key($consul, $election);

		ok(!$key || !$key->{Session} && $key->{json}{released},
			'nothing is held');
		ok(!$a->is_leader($election), 'and not believed');
		ok(!$a->log_like(qr/leader of election "$election"/, $offset),
			'nor was it ever');
		my ($lock) =
		  $through_a->requests(request_like('acquire', $election), $mark);
		if ($key)
		{
			is($through_a->replay($lock)->{status},
				409, 'not by a late copy either');
		}
	}
};

# Everything that was ever sent for a term arrives once more after the next
# has begun: of the same node, by the same store session.
subtest "late copies in the node's own next term" => sub {
	my $mark = $through_a->mark;

	# once as a new key, once as one that was released
	foreach my $term (1, 2)
	{
		ok($a->acquire('again', value => "of term $term"), "term $term");
		is($a->sql("SELECT le_renew('again', 'two')"), 't', 'published');
		ok($a->release('again'), 'released');
	}

	my @copies = (
		$through_a->requests(request_like('acquire', 'again'), $mark),
		$through_a->requests(request_like('release', 'again'), $mark));
	my $replay = sub {
		my ($when) = @_;
		my $key = leader_key($consul, 'again');

		is_deeply([ map { $through_a->replay($_)->{status} } @copies ],
			[ (409) x 6 ], "$when: late copies are refused");
		is_deeply(leader_key($consul, 'again'),
			$key, 'the key is as it was');
	};

	$replay->('between terms');
	ok($a->acquire('again', value => 'three'), 'third term');

	my $token = $a->token('again');

	$replay->('in the next term');
	is($a->sql("SELECT le_renew('again')"), 't', 'the term can be proven');
	same_term($token, $a->token('again'), 'with its token');
	ok($a->release('again'), 'released');
};

subtest "late copies in another node's term" => sub {
	ok($a->acquire('dup', value => 'one'), 'a leads');
	is($a->sql("SELECT le_renew('dup', 'two')"), 't', 'publishes');
	ok($a->release('dup'), 'releases');
	ok($a->acquire('dup'), 'leads again');

	my $session = leader_key($consul, 'dup')->{Session};

	ok($a->release('dup'), 'releases again');
	ok($b->acquire('dup'), 'b leads');

	my $token = $b->token('dup');
	my $key = leader_key($consul, 'dup');
	my @kinds = ('register', 'prove', 'acquire', 'release');
	my $copies = sub {
		my ($kind) = @_;
		my $election = $kind =~ /acquire|release/ ? 'dup' : undef;

		return grep { $_->{body} =~ /$session/ }
		  $through_a->requests(request_like($kind, $election));
	};
	my $untouched = sub {
		is_deeply(leader_key($consul, 'dup'), $key, 'the key is as it was');
		still_leads($b, 'dup', 'b leads');
		is($b->sql("SELECT le_renew('dup')"), 't', 'and can prove it');
		same_term($token, $b->token('dup'), 'with its token');
	};

	# while the first node's session lives
	foreach my $kind (grep { $_ ne 'prove' } @kinds)
	{
		my @statuses =
		  map { $through_a->replay($_)->{status} } $copies->($kind);

		cmp_ok(scalar @statuses, '>=', $kind eq 'acquire' ? 3 : 1,
			"$kind: copies");
		is_deeply([ grep { $_ != 409 } @statuses ], [], 'all refused');
	}
	$through_a->replay($_) foreach $copies->('prove');
	$untouched->();
	ok($a->acquire('other'), 'a late proof does not harm its node');
	is($a->sql("SELECT le_renew('other')"), 't', 'which goes on proving');

	# after it has ended
	$a->stop('fast');
	ok(!(grep { $_ eq $session } sessions_of('a')), 'a has gone');
	foreach my $kind (@kinds)
	{
		my @statuses =
		  map { $through_a->replay($_)->{status} } $copies->($kind);

		is_deeply([ grep { $_ == 200 } @statuses ],
			[], "$kind: copies refused");
	}
	foreach my $kind ('create', 'renew', 'destroy')
	{
		my ($copy) =
		  reverse $through_a->requests(request_like($kind));

		ok($copy, "$kind: sent again");
		$through_a->replay($copy);
	}
	ok(!node_keys($consul)->{$session}, 'the node key has not come back');
	$untouched->();
	ok($b->release('dup'), 'released');
	$a->start;
};

# Guards against a takeover that is taken for refused, or that is repeated by
# a late copy when another leads.
subtest 'take over: reply lost, then late copies' => sub {
	ok($a->acquire('taken', wait => '30s'), 'a leads');

	my $first = $a->token('taken');
	my $session = leader_key($consul, 'taken')->{Session};

	$recorder{b}->rule(
		match => request_like('take_over', 'taken'),
		action => 'lose_reply',
		count => 1);

	my $worker = $a->freeze_worker;

	ok($b->acquire('taken', wait => '50s'), 'b takes over');
	$a->thaw_worker($worker);

	my @taken = $recorder{b}->requests(request_like('take_over', 'taken'));

	is($b->token('taken'), leader_key($consul, 'taken')->{ModifyIndex},
		'its token is the index of that write');
	guarantee('G2', [ $first, $b->token('taken') ], 'and higher');
	is(scalar(grep { $_->{status} == 200 } @taken), 1, 'applied once');
	ok($b->release('taken'), 'b releases');
	ok($c->acquire('taken'), 'c leads');

	my $key = leader_key($consul, 'taken');

	foreach my $copy (
		@taken,
		grep { $_->{body} =~ /$session/ } map {
			$through_a->requests(request_like(@$_))
		} ([ 'acquire', 'taken' ], ['register'], ['prove']))
	{
		isnt($through_a->replay($copy)->{status}, 200, 'late copy refused');
	}
	is_deeply(leader_key($consul, 'taken'), $key, 'the key is as it was');
	is($c->sql("SELECT le_renew('taken')"), 't', 'c can prove its term');
	ok($c->release('taken'), 'released');
};

# Guards against a session left behind by a clean shutdown.
subtest 'destroy: reply lost' => sub {
	my $offset = $b->log_offset;

	ok($b->acquire('destroy'), 'leads');

	my $session = leader_key($consul, 'destroy')->{Session};

	$recorder{b}->rule(
		match => request_like('destroy'),
		action => 'lose_reply',
		count => 1);
	$b->stop('fast');
	ok(key_is_released($consul, 'destroy'), 'key released');
	ok(!(grep { $_ eq $session } sessions_of('b')), 'session ended');
	ok( !$b->log_like(qr/could not leave the store/, $offset),
		'seen to be so');
	$b->start;
};

# Guards against a deadline that follows requests of unknown outcome, a
# renewal without a proof, or an answer that shows no new write.
subtest 'answers that extend no deadline' => sub {
	my %term = (a => 'renewals', b => 'proofs', c => 'rewrites');
	my %kind = (a => 'renew', b => 'prove', c => 'prove');
	my %first = (a => 'create', b => 'register', c => 'register');
	my (%sampler, %mark);

	foreach my $name (sort keys %term)
	{
		ok($node{$name}->acquire($term{$name}, wait => '30s'), "$name leads");
		$mark{$name} = $recorder{$name}->mark;
		$sampler{$name} =
		  LeaderElection::Sampler->new($node{$name}, $term{$name},
			interval => 0.02);
	}
	poll_until(
		sub {
			$recorder{c}->requests(request_like('prove'), $mark{c});
		},
		'a proof');

	my $proof =
	  $recorder{c}->wait_for_request(request_like('prove'), $mark{c});

	$recorder{a}->rule(match => request_like('renew'), action => 'lose_reply');
	$recorder{b}->rule(match => request_like('prove'), action => 'lose_reply');
	$recorder{c}->rule(
		match => request_like('prove'),
		action => 'answer',
		status => 200,
		body => $proof->{reply});
	foreach my $name (sort keys %term)
	{
		poll_until(sub { !$node{$name}->is_leader($term{$name}) },
			"$name to stop believing");
		$sampler{$name}->stop;

		my @sent =
		  $recorder{$name}->requests(request_like($kind{$name}), $mark{$name});
		my @since = grep { $_->{action} } @sent;
		my @beliefs = $sampler{$name}->beliefs;
		my $good = max grep { $_ < $beliefs[0][1] }
		  map { $_->{received} }
		  grep { !$_->{action} }
		  map { $recorder{$name}->requests(request_like($_)) }
		  ($kind{$name}, $first{$name});

		cmp_ok(scalar @since, '>=', 1, "$term{$name}: tried");
		is_deeply([ grep { ($_->{status} // 200) != 200 } @since ],
			[], 'and applied');
		is(scalar @beliefs, 1, 'one term');
		guarantee('G5', [ [ $beliefs[0][1], $good + 9e9 ] ],
			'ended by the deadline of the last good one');
		$node{$name}->wait_for_log_like(
			qr/no longer leader of election "$term{$name}" .*: deadline passed/);
		pass('and not given up earlier');
		$recorder{$name}->clear_rules;
	}
};

done_testing();
