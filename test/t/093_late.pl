# Tier: test, 14 s
#
# News that come in an unusual order: late news of a former term must not end
# the present one, and early news of our own takeover must not blur whom the
# term was taken from.

use strict;
use warnings;

use JSON::PP ();
use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Session;
use LeaderElection::Takeover;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my $proof = request_like('prove');

# The proof finds the key free, since somebody has released it by hand; its
# answer comes when the node has long acquired the key anew.
subtest 'proof about the key of a former term' => sub {
	my $near = LeaderElection::Recorder->new('near', $consul->host_port)->start;
	my $far = LeaderElection::Recorder->new('far', $near->host_port)->start;
	my $node = LeaderElection::Node->create(
		'late',
		consul => $far,
		settings => { lease_ttl => '60s', request_timeout => '50s' });
	my $session = LeaderElection::Session->new($node);
	my $path = 'leader_election/e/leader';
	my ($first, $second, $mark, $key, $value, $late, $told_at);
	my ($on_its_way, $on_its_way_back, $anew);

	$node->sql("SELECT le_campaign('e')");
	$node->wait_for_leadership('e');
	$first = $node->token('e');

	$mark = $near->mark;
	$on_its_way_back = $far->rule(match => $proof, action => 'hold_reply', count => 1);
	$on_its_way = $near->rule(match => $proof, action => 'hold_request', count => 1);
	$anew = $near->rule(match => request_like('acquire', 'e'), action => 'hold_request');
	$session->start("SELECT le_renew('e')");
	poll_until(sub { $near->requests($proof, $mark) }, 'proof');
	$key = $consul->kv($path);
	$value = JSON::PP::decode_json($key->{Value});
	$value->{released} = JSON::PP::true;
	ok($consul->unlock($path, $key->{Session}, JSON::PP::encode_json($value)),
		'released by hand');
	$near->remove_rule($on_its_way);
	$late = $near->wait_for_request($proof, $mark);
	$near->remove_rule($anew);
	poll_until(sub { $second = $node->token('e'); $second && $second != $first },
		'the next term');
	guarantee('G2', [ $first, $second ], 'with a higher token');

	# the proof has seen the free key, and nobody has heard of it yet
	is_deeply([ checked_keys($late) ], ['e'], 'a proof about the key');
	like($late->{reply}, qr/failed session check for key/,
		'refused by Consul');
	is($session->finish->{output}, 'f', 'the former term is lost');
	$far->remove_rule($on_its_way_back);
	$told_at = boottime_ns();

	# the recorder lets its requests go before it takes a later one
	poll_until(
		sub {
			$session->query("SELECT le_renew('e')");
			return grep { $_->{received} > $told_at + 1e8 } $far->requests($proof);
		},
		'a proof after it');
	same_term($second, $node->token('e'), 'the present one goes on');
	is(
		$node->sql("SELECT event, fencing_token FROM le_events "
			  . "WHERE election = 'e' AND event IN ('acquired', 'lost')"),
		"acquired|$first\nlost|$first\nacquired|$second",
		'nothing else was lost');
	$node->stop;
};

# The watch shows the key as ours before the takeover was answered.
subtest 'takeover seen by the watch first' => sub {
	my $recorder =
	  LeaderElection::Recorder->new('b', $consul->host_port)->start;
	my $a = LeaderElection::Node->create(
		'a',
		consul => $consul,
		settings => { short_lease() });
	my $b = LeaderElection::Node->create(
		'b',
		consul => $recorder,
		settings => { short_lease(), request_timeout => '3s' });
	my ($old, $new, $mark, $held, $line, $asked);

	ok($a->acquire('t'), 'a leads');
	$old = $a->token('t');
	$b->sql("SELECT le_campaign('t')");
	wait_for_waiter($b, 't', $a);
	$mark = $recorder->mark;
	$held = $recorder->rule(match => request_like('take_over', 't'),
		action => 'hold_reply', count => 1);
	$a->crash;
	$asked = $recorder->wait_for_request(request_like('take_over', 't'), $mark);
	poll_until(
		sub {
			grep { $_->{answered} && $_->{answered} > $asked->{received} }
			  $recorder->requests(request_like('watch'));
		},
		'the watch to show it');
	$recorder->remove_rule($held);
	$b->wait_for_leadership('t');
	$new = $b->token('t');
	guarantee('G2', [ $old, $new ], 'b leads with a higher token');
	poll_until(sub { $line = log_line($b, 't') }, 'log line');
	is("$line->{from} $line->{old} $line->{new}", "a $old $new",
		'from whom, and both tokens');
	is(
		$b->sql("SELECT detail ~ 'from node \"a\" with token $old after' "
			  . "FROM le_events WHERE event = 'took over'"),
		't',
		'so says le_events');
};

done_testing();
