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
	my $node = LeaderElection::Node->create('late', consul => $far);
	my $session = LeaderElection::Session->new($node);
	my $path = 'leader_election/e/leader';
	my ($first, $second, $mark, $far_mark, $key, $value, $late, $told_at);

	$node->sql("SELECT le_campaign('e')");
	$node->wait_for_leadership('e');
	$first = $node->token('e');

	# by the way there the proof waits, by the way back longer
	$mark = $near->mark;
	$near->rule(match => $proof, action => 'delay_request', delay => 1,
		count => 1);
	$near->rule(match => request_like('acquire', 'e'),
		action => 'delay_request', delay => 2, count => 1);
	$far_mark = $far->mark;
	$far->rule(match => $proof, action => 'delay_reply', delay => 3,
		count => 1);
	$session->start("SELECT le_renew('e')");
	poll_until(sub { $near->requests($proof, $mark) }, 'proof',
		interval => 0.005);
	$key = $consul->kv($path);
	$value = JSON::PP::decode_json($key->{Value});
	$value->{released} = JSON::PP::true;
	ok($consul->unlock($path, $key->{Session}, JSON::PP::encode_json($value)),
		'released by hand');
	poll_until(sub { $second = $node->token('e'); $second && $second != $first },
		'the next term');
	guarantee('G2', [ $first, $second ], 'with a higher token');

	# the proof has seen the free key, and nobody has heard of it yet
	($late) = $near->requests($proof, $mark);
	is_deeply([ checked_keys($late) ], ['e'], 'a proof about the key');
	like($late->{reply}, qr/failed session check for key/,
		'refused by Consul');
	$told_at = ($far->requests($proof, $far_mark))[0]{received} + 4e9;
	in_time(boottime_ns(), $told_at, 'the worker does not know yet');
	is($session->finish->{output}, 'f', 'the former term is lost');
	poll_until(
		sub {
			grep { $_->{received} > $told_at } $far->requests($proof, $far_mark);
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
	my ($old, $new, $mark, $line, $asked);

	ok($a->acquire('t'), 'a leads');
	$old = $a->token('t');
	$b->sql("SELECT le_campaign('t')");
	wait_for_waiter($b, 't', $a);
	$mark = $recorder->mark;
	$recorder->rule(match => request_like('take_over', 't'),
		action => 'delay_reply', delay => 1.5, count => 1);
	$a->crash;
	$b->wait_for_leadership('t');
	$new = $b->token('t');
	guarantee('G2', [ $old, $new ], 'b leads with a higher token');
	($asked) = $recorder->requests(request_like('take_over', 't'), $mark);
	ok( scalar(
			grep {
					 $_->{answered}
				  && $_->{answered} > $asked->{received}
				  && $_->{answered} < $asked->{answered} + 1e9
			} $recorder->requests(request_like('watch'))),
		'the watch had shown it before');
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
