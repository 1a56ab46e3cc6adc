# A leader that hears nothing: its belief ends in time, and another leads.

use strict;
use warnings;

use Contract;
use LeaderElection::Sampler;
use LeaderElection::Session;
use LeaderElection::Util;
use Test::More;

contract 'silence and takeover' => sub {
	my ($store) = @_;
	my ($one, $two, $link) = ($store->one, $store->two, $store->link);
	my $waiting = LeaderElection::Session->new($two);
	my ($token, $cut, $result, @samplers, @believed);

	ok($one->acquire('silence'), 'one leads');
	$token = $one->token('silence');
	@samplers = map { LeaderElection::Sampler->new($_, 'silence') } $one, $two;
	$waiting->start(q(SELECT le_acquire('silence', wait => '3 min')));
	$two->wait_for(q(SELECT state = 'waiting' FROM le_status WHERE election = 'silence'));
	poll_until(sub { scalar $samplers[0]->beliefs }, 'a sample');
	$link->rule(match => qr/./, action => 'hang_request');
	$cut = boottime_ns();
	$result = $waiting->finish;
	is($result->{output}, 't', 'the other leads');
	rising('with a higher token', $token, $two->token('silence'));
	poll_until(sub { scalar $samplers[1]->beliefs }, 'a sample');
	apart('no two lead at once', @samplers);
	@believed = $samplers[0]->beliefs;
	never([ grep { $_->[1] > $cut + $store->lease * 1e9 } @believed ],
		'no belief outlasts the lease');
	guarantee('G1', [ $result->{output} eq 't' && $one->is_leader('silence') ? 'one' : () ],
		'one does not lead');

	$link->clear_rules;
	$one->wait_for(q(SELECT le_current_leader('silence') = 'two'), 'one to hear of it');
	denied('G1', $one->sql(q(SELECT le_renew('silence'))), 'it cannot renew');
	ok($two->is_leader('silence'), 'the other leads on');
	ok($two->release('silence'), 'release');
	$waiting->quit;
};

1;
