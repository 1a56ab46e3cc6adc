# Tier: test, 17 s
#
# Finds of "make faults", each with the smallest case that shows it.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Session;
use LeaderElection::Util;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my %recorder;
my ($one, $two) = map {
	$recorder{$_} =
	  LeaderElection::Recorder->new($_, $consul->host_port)->start;
	LeaderElection::Node->create(
		$_,
		consul => $recorder{$_},
		settings => { lease_ttl => '60s' })
} 'one', 'two';

# Guards against a node that goes on seeking an election for a caller that was
# told "false" when its time was up: it would take the key as soon as that is
# free, for nobody, and deny it to others meanwhile.
subtest 'a wait that has ended' => sub {
	# something that keeps two's watch going
	ok($two->acquire('own'), 'two leads another election');
	ok($one->acquire('ended'), 'one leads');

	# the end of a session would tell the worker to look again
	my $session = LeaderElection::Session->new($two);

	is($session->query(q(SELECT le_acquire('ended', wait => '1s'))),
		'f', 'two waits, in vain');

	my $mark = $recorder{two}->mark;

	ok($one->release('ended'), 'then one releases');

	my $key = leader_key($consul, 'ended');

	# by then two has been shown that the key is free
	$recorder{two}->wait_for_request(request_like('watch'), $mark);
	$two->wait_for(
		q{SELECT holder IS NULL FROM le_status WHERE election = 'ended'},
		'two to see it');
	is($two->leader('ended'), undef, 'nobody leads');
	is(scalar($recorder{two}->requests(request_like('acquire', 'ended'), $mark)),
		0, 'two did not try');
	is_deeply(leader_key($consul, 'ended'), $key, 'the key is as it was');
};

done_testing();
