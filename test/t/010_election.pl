# Tier: test, 86 s
#
# Two and three instances and one Consul, nothing goes wrong: the leader, as everybody
# sees it; handoffs; and keys and sessions that are left behind.

use strict;
use warnings;

use JSON::PP qw(decode_json);
use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Sampler;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;

# An end of a lease, or a timer, is so far away that only news can have come before.
my $lease = 60;
my $renew_interval = 3;
my %cluster = (
	consul => $consul,
	settings => {
		lease_ttl => "$lease s",
		renew_interval => "$renew_interval s",
		shutdown_timeout => '60 s'
	},
	conf => { max_connections => 100 });
my $one = LeaderElection::Node->create('one', %cluster);
my $two = LeaderElection::Node->create('two', %cluster);

sub key
{
	my ($election) = @_;

	return $consul->kv("leader_election/$election/leader");
}

sub sessions
{
	return map { $_->{ID} } @{ $consul->get('/v1/session/list')->{json} };
}

# As le_status on the node shows it.
sub wait_for_state
{
	my ($node, $election, $state) = @_;

	return $node->wait_for(
		"SELECT state = '$state' FROM le_status WHERE election = '$election'",
		$node->name . ": $election $state");
}

sub leader_among
{
	my ($election, @nodes) = @_;

	return poll_until(
		sub { [ grep { $_->is_leader($election) } @nodes ]->[0] },
		"a leader of $election");
}

# The first duty, and what SQL says about it on both sides.
subtest 'one leads' => sub {
	ok($one->acquire('billing'), 'the first gets it');
	ok(!$two->acquire('billing'), 'the second does not');
	ok($one->acquire('billing'), 'the first has it still');
	still_leads($one, 'billing', 'and leads');
	ok(!$two->is_leader('billing'), 'alone');
	is($one->token('billing'), key('billing')->{ModifyIndex},
		'the token is the index of the acquiring write');
	is($two->token('billing'), undef, 'no token without a term');
	is($_->leader('billing'), 'one', $_->name . ' knows who leads')
	  foreach $one, $two;
	is($two->leader('nothing'), undef, 'nobody leads an election that nobody sought');
	is( $two->sql(
			q(SELECT leader, value::json->>'node', is_self, fencing_token
			FROM le_leader('billing'))),
		'one|one|f|' . $one->token('billing'),
		'le_leader on the other node');
	is($one->sql(q(SELECT is_self FROM le_leader('billing'))),
		't', 'and on the leader');
	is( $one->sql(
			q(SELECT state, scope, holder, fencing_token = le_fencing_token(
			election), expires_at - now() BETWEEN '0 s' AND '59 s'
			FROM le_status WHERE election = 'billing')),
		'leader|node|one|t|t',
		'le_status on the leader');
};

# An answer of limited age must come from what the watch has seen, and one of
# no age must not.
subtest 'answers of limited age' => sub {
	my $read = qr{GET /v1/kv/leader_election/billing/leader};
	my ($size, @reads);

	$one->wait_for(q(SELECT le_current_leader('billing', '1 h') = 'one'),
		'the watch to see the key');
	$size = $consul->log_size;
	is( $one->sql(
			q(SELECT leader, is_self, observed_at <= clock_timestamp(),
			observed_at > clock_timestamp() - interval '1 min'
			FROM le_leader('billing', '1 min'))),
		'one|t|t|t',
		'from the cache');
	is($one->sql(q(SELECT le_current_leader('billing', '1 min'))),
		'one', 'again');
	is($one->leader('billing'), 'one', 'from Consul');
	poll_until(sub { $consul->requests($size, $read) }, 'a read in the log');
	@reads = $consul->requests($size, $read);
	is(scalar @reads, 1, 'one request for the three');
	like($reads[0]{url}, qr/consistent/, 'which is a consistent read');
};

# Discovery clients read the key without any library.
subtest 'value' => sub {
	my $token = $one->token('billing');
	my $url = $consul->url . '/v1/kv/leader_election/billing/leader?raw';
	my $curl = sub { decode_json(qx(curl -sS '$url')) };

	is($curl->()->{value}{node}, 'one', 'default value, by curl');
	is($curl->()->{value}{port}, $one->port, 'with the port');
	is($one->sql(q(SELECT le_renew('billing', '{"url": "pg://h:1/x"}'))),
		't', 'another one is published');
	is_deeply($curl->()->{value}, { url => 'pg://h:1/x' }, 'JSON as JSON');
	is($two->sql(q(SELECT value::json->>'url' FROM le_leader('billing'))),
		'pg://h:1/x', 'and seen by the other node');
	is($one->sql(q(SELECT le_renew('billing', E'one "two"\n'))),
		't', 'and one that is no JSON');
	is($curl->()->{value}, "one \"two\"\n", 'text as a string');
	same_term($token, $one->token('billing'), 'the token stays the same');
	is($two->sql(q(SELECT fencing_token FROM le_leader('billing'))),
		$token, 'for readers, too');
	isnt(key('billing')->{ModifyIndex}, $token, 'though the index moved');
	is($two->sql(q(SELECT le_renew('billing', 'mine'))),
		'f', 'nobody else can publish');
	is($curl->()->{value}, "one \"two\"\n", 'nothing changed by that');

	ok($one->release('billing'), 'released after publishing');
	is(key('billing')->{Session}, undef, 'the key is free');
	is(key('billing')->{Flags},
		LeaderElection::Consul::LOCK_FLAG, 'with the lock flag');
	is($curl->()->{value}, "one \"two\"\n", 'and the value');
	ok($curl->()->{released}, 'marked as released');
	denied('G5', $one->is_leader('billing'), 'nobody leads');
	is($two->leader('billing'), undef, 'everybody knows');
	is( $two->sql(
			q(SELECT leader IS NULL AND NOT is_self
			FROM le_leader('billing'))),
		't', 'in detail too');
	ok($two->acquire('billing', value => 'hers'), 'the next one takes it');
	guarantee('G2', [ $token, $two->token('billing') ], 'with a higher token');
	is($curl->()->{value}, 'hers', 'and publishes its own value');
	my ($rc, $out, $err) =
	  $one->psql('postgres', q(SELECT le_release('billing')));
	is($out, 'f', 'an election not held cannot be released');
	like($err, qr/WARNING:  you do not hold election "billing"/, 'says so');
	ok($two->release('billing'), 'the end');
};

# A waiter is woken by the watch. Were it left to the timers, a handoff would take a
# quarter of a lease at least, by which the keys of nodes are read.
subtest 'handoff' => sub {
	my @nodes = ($one, $two);
	my @samplers = map {
		LeaderElection::Sampler->new($_, 'handoff', interval => 0.001)
	} @nodes;
	my %session =
	  map { $_->name => LeaderElection::Session->new($_) } @nodes;
	my (@called, @beliefs, @gaps);

	ok($one->acquire('handoff'), 'one leads');
	foreach my $n (1 .. 10)
	{
		my ($from, $to) = @nodes;
		my $waiting = $session{ $to->name };

		$waiting->start(q(SELECT le_acquire('handoff', wait => '10 min')));
		wait_for_state($to, 'handoff', 'waiting');
		poll_until(sub { $n == map { $_->beliefs } @samplers },
			'a sample of each term so far');
		push @called, boottime_ns();
		is($session{ $from->name }->query(q(SELECT le_release('handoff'))),
			't', "$n: released");
		is($waiting->finish->{output}, 't', "$n: and the waiter has it");
		@nodes = ($to, $from);
	}
	poll_until(sub { 11 == map { $_->beliefs } @samplers },
		'a sample of the last term');
	$_->stop foreach @samplers;
	@beliefs = sort { $a->[0] <=> $b->[0] } map { $_->beliefs } @samplers;
	is(scalar @beliefs, 11, 'eleven terms were seen');
	guarantee('G1', [ LeaderElection::Sampler->overlaps(@samplers) ], 'which do not overlap');
	@gaps = sort { $a <=> $b }
	  map { ($beliefs[ $_ + 1 ][0] - $called[$_]) / 1e6 } 0 .. 9;
	diag(sprintf 'handoff, le_release() called to le_is_leader() true on '
		  . 'the other instance: median %.1f ms, worst %.1f ms',
		@gaps[5, -1]);
	before($beliefs[10][0], $called[0] + 10 * $lease / 4 * 1e9, 'ten, and not by timers');
	ok($nodes[0]->release('handoff'), 'the end');
};

# The same for a permanent candidate, whom nobody asked at that moment.
subtest 'handoff by stepping down' => sub {
	my ($first, $second);

	$_->sql(q(SELECT le_campaign('campaign'))) foreach $one, $two;
	$first = leader_among('campaign', $one, $two);
	$second = $first == $one ? $two : $one;
	wait_for_state($second, 'campaign', 'waiting');
	is($first->sql(q(SELECT le_step_down('campaign', '1 h'))),
		't', 'stepped down');
	$second->wait_for_leadership('campaign');
	pass('the other candidate leads');
	$second->sql(q(SELECT le_step_down('campaign', '1 h')));
	like($first->sql_error(q(SELECT le_acquire('campaign'))),
		qr/55000.*may not lead.*\n.*stepped down/,
		'no contender for an hour after a step-down');
	$_->sql(q(SELECT le_withdraw('campaign'))) foreach $one, $two;
	is(key('campaign')->{Session}, undef, 'nobody leads after withdrawal');
};

# A release while campaigning must not be won straight back.
subtest 'release of a campaigned election' => sub {
	$one->sql(q(SELECT le_campaign('back')));
	$one->wait_for_leadership('back');
	ok($one->release('back'), 'released');
	ok(!$one->is_leader('back'), 'not leading');
	wait_for_state($one, 'back', 'stepped down');
	ok($two->acquire('back'), 'the other one has time to take it');
	ok($two->release('back'), 'and gives it back');
	is($one->sql(q(SELECT le_withdraw('back'))), 't', 'withdrawn');
	is($one->sql(q(SELECT le_withdraw('back'))), 'f', 'once');
};

# Waiting ends with "somebody else has it", not with an error.
subtest 'a wait that is in vain' => sub {
	my ($seconds, $got);

	ok($one->acquire('kept'), 'one leads');
	($seconds, $got) =
	  timed(sub { $two->acquire('kept', wait => '1500 ms') });
	ok(!$got, 'two does not');
	cmp_ok($seconds, '>=', 1.5, 'it waited');
	still_leads($one, 'kept', 'one leads still');
	ok($one->release('kept'), 'released');
	wait_for_state($two, 'kept', 'idle');
	is(key('kept')->{Session}, undef, 'a waiter that gave up got nothing');
};

# Sessions and keys must not pile up, and no term may repeat a token.
subtest 'many terms' => sub {
	my @before = sort(sessions());
	my $keys = keys %{ $consul->kv_tree('leader_election') };
	my $size = $consul->log_size;
	my @tokens;

	foreach my $node (($one, $two) x 3)
	{
		push @tokens, split /\n/, $node->sql(<<'END');
CREATE TEMP TABLE tokens (token bigint);
DO $$
BEGIN
	FOR i IN 1..20 LOOP
		IF NOT le_acquire('many') THEN RAISE 'not acquired'; END IF;
		INSERT INTO tokens VALUES (le_fencing_token('many'));
		IF NOT le_release('many') THEN RAISE 'not released'; END IF;
	END LOOP;
END $$;
SELECT token FROM tokens;
END
	}
	is(scalar @tokens, 120, '120 terms');
	guarantee('G2', \@tokens, 'their tokens rise');
	is_deeply([ sort(sessions()) ], \@before, 'the same sessions as before');
	is(scalar(my @made = $consul->requests($size, qr{/session/create})),
		0, 'and no other in between');
	is(scalar(keys %{ $consul->kv_tree('leader_election') }),
		$keys + 1, 'and one new key');
};

# Fifty sessions of two instances at the same moment: one gets it.
subtest 'rush' => sub {
	my $query = q(SELECT pg_advisory_lock_shared(1);
		SELECT le_acquire('rush', scope => 'session'), le_acquire('common'));
	my (@keepers, @sessions, %answers);

	foreach my $node ($one, $two)
	{
		my @mine = map { LeaderElection::Session->new($node) } 0 .. 25;
		my $keeper = shift @mine;

		$keeper->query('SELECT pg_advisory_lock(1)');
		$_->start($query) foreach @mine;
		$node->wait_for(
			q(SELECT count(*) = 25 FROM pg_locks
			WHERE locktype = 'advisory' AND NOT granted),
			'all to stand at the gate');
		push @keepers, $keeper;
		push @sessions, @mine;
	}
	$_->start('SELECT pg_advisory_unlock(1)') foreach @keepers;
	$_->finish foreach @keepers;
	foreach my $session (@sessions)
	{
		my $result = $session->finish;

		$answers{rush}++ if $result->{output} =~ /^t\|/m;
		$answers{common}++ if $result->{output} =~ /\|t$/m;
		$answers{error}++ if $result->{error};
	}
	is_deeply(
		\%answers,
		{ rush => 1, common => 25 },
		'one session of 50, and one node for all of its own');
	is(scalar(grep { $_->is_leader('common') } $one, $two),
		1, 'one node leads');
	denied('G1', scalar(grep { $_->is_leader('rush') } $one, $two),
		'a session leads for nobody else');
	$_->quit foreach @sessions, @keepers;
	poll_until(sub { !key('rush')->{Session} },
		'the release of the term of a session that is gone');
	pass('a session lease ends with its session');
	ok(leader_among('common', $one, $two)->release('common'), 'the end');
};

# A third instance, and who takes part as each of them sees it.
subtest 'three instances' => sub {
	my $three = LeaderElection::Node->create('three', %cluster);
	my @nodes = ($one, $three, $two);    # by name
	my @samplers = map { LeaderElection::Sampler->new($_, 'three') } @nodes;
	my ($last, %leaders) = (0);
	my $begun = $one->sql('SELECT clock_timestamp()');

	$_->sql(q(SELECT le_campaign('three'))) foreach @nodes;
	foreach my $n (1 .. 6)
	{
		my $leader = leader_among('three', @nodes);
		my $token = $leader->token('three');

		guarantee('G2', [ $last, $token ], "$n: a higher token");
		$last = $token;
		$leaders{ $leader->name }++;
		is_deeply([ map { $_->leader('three') } @nodes ],
			[ ($leader->name) x 3 ], "$n: all know who leads");
		$leader->sql(q(SELECT le_step_down('three', '2 s')));
	}
	cmp_ok(scalar(keys %leaders), '>', 1, 'more than one of them led');
	foreach my $node (@nodes)
	{
		$node->wait_for(
			"SELECT count(*) = 3 FROM le_nodes WHERE state = 'live' "
			  . "AND last_proof_seen_at > '$begun'",
			$node->name . ' to see three nodes');
		is( $node->sql(
				"SELECT node, is_self, lease, last_proof_seen_at > '$begun' "
				  . 'FROM le_nodes ORDER BY node'),
			join("\n",
				map {
					$_->name . '|' . ($_ == $node ? 't' : 'f') . '|00:01:00|t'
				} @nodes),
			'le_nodes on ' . $node->name);
	}
	is( $one->sql(
			q(SELECT count(DISTINCT incarnation),
			count(DISTINCT store_session) FROM le_nodes)),
		'3|3',
		'each is one of its own');
	$_->stop foreach @samplers;
	guarantee('G1', [ LeaderElection::Sampler->overlaps(@samplers) ], 'no two led at the same time');
	$_->sql(q(SELECT le_withdraw('three'))) foreach @nodes;
	$three->stop;
};

# The end of an instance: everything is let go of before it is gone.
subtest 'shutdown' => sub {
	my @elections = map { "shutdown$_" } 1 .. 5;
	my ($session, @samplers, $offset, $ends, $tree);

	ok($one->acquire($_), "one leads $_") foreach @elections;
	$two->sql("SELECT le_campaign('$_')") foreach @elections;
	wait_for_state($two, $_, 'waiting') foreach @elections;
	$session = key('shutdown1')->{Session};
	@samplers =
	  map { LeaderElection::Sampler->new($_, 'shutdown1') } $one, $two;
	poll_until(sub { scalar $samplers[0]->beliefs }, 'the sampler');
	$offset = $one->log_offset;
	$ends = boottime_ns() + ($lease - $renew_interval) * 1e9;
	$one->stop('fast');
	ok(!$one->log_like(qr/could not leave the store/, $offset),
		'one left the store');
	ok(!(grep { $_ eq $session } sessions()), 'its session is gone');
	is($consul->kv("leader_election.nodes/$session"),
		undef, 'and its node key');
	$two->wait_for_leadership($_) foreach @elections;
	before(boottime_ns(), $ends, 'two leads all of them, without waiting for a lease');
	poll_until(sub { scalar $samplers[1]->beliefs }, 'the sampler');
	$_->stop foreach @samplers;
	guarantee('G1', [ LeaderElection::Sampler->overlaps(@samplers) ], 'without an overlap');
	$two->stop;
	is_deeply([ sessions() ], [], 'no session is left');
	is_deeply($consul->kv_tree('leader_election.nodes'),
		{}, 'nor a node key');
	$tree = $consul->kv_tree('leader_election');
	is_deeply([ grep { $tree->{$_}{Session} } keys %$tree ],
		[], 'nor a key that is held');
	is_deeply(
		[
			grep { !decode_json($tree->{$_}{Value})->{released} }
			  keys %$tree
		],
		[],
		'nor one that is not marked as released');
};

done_testing();
