# Tier: long, 265 s
#
# Leases on Azurite's blobs when time goes by: requests that arrive when nobody waits
# for them any more, leases that an operator breaks, a service that stands still for
# longer than any lease, claims that outlast their term, and names and values as long
# as they may be.

use strict;
use warnings;

use LeaderElection::Azurite;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Sampler;
use LeaderElection::Session;
use LeaderElection::Util;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;

my $azurite = LeaderElection::Azurite->new('azurite')->start;
my $recorder = LeaderElection::Recorder->new('late', $azurite->host_port)->start;
my $one = LeaderElection::Node->create(
	'one',
	azure => $azurite,
	settings => { azure_container_url => $azurite->url($recorder->host_port) });
my $two = LeaderElection::Node->create('two', azure => $azurite);

sub wait_for_end
{
	my ($node, $election) = @_;

	poll_until(sub { !$node->is_leader($election) }, "the end of $election");
	return;
}

# When a request for the lease has last got through, at the latest; one at least has.
sub last_asked
{
	return max(map { $_->{received} } grep { ($_->{action} // '') ne 'lose_request' } $recorder->requests(@_));
}

# An operator breaks a lease; the other node waits for it.
my (%samplers, %waits);

sub break_lease
{
	my ($which, $period) = @_;
	my $name = "order-$which";

	$samplers{$which} = [ map { LeaderElection::Sampler->new($_, $name) } $one, $two ];
	$waits{$which} = LeaderElection::Session->new($two);
	ok($one->acquire($name), "$which period: one leads");
	$waits{$which}->start("SELECT le_acquire('$name', wait => '2 min')");
	is( $azurite->request(
			'PUT', "leader_election/$name~leader", 'comp=lease',
			'x-ms-lease-action' => 'break',
			defined $period ? ('x-ms-lease-break-period' => $period) : ())->{status},
		202, 'broken');
	wait_for_end($one, $name);
	return;
}

# Its outcome is looked at below: it takes as long as all until then.
subtest 'a lease that is broken with a period of a minute' => sub { break_lease('a-long', 60); };

# They come when a lease would be over, and somebody has asked again.
subtest 'delayed by 20 s' => sub {
	my %late = (lease => 'lease', stamp => 'metadata');
	my (%session, %samplers, %token);
	my $began;

	# both at once: most of it is waiting
	foreach my $what (sort keys %late)
	{
		my $name = "delayed-$what";

		# one that has had a term
		ok($two->acquire($name) && $two->release($name), "$what: free");
		$token{$what} = $azurite->blob($name)->{token};
		$samplers{$what} =
		  [ map { LeaderElection::Sampler->new($_, $name) } $one, $two ];
		$session{$what} = LeaderElection::Session->new($one);
		$recorder->rule(match => qr/^PUT \S*$name\S*comp=$late{$what}/,
			action => 'delay_request', delay => 20, count => 1);
	}
	$began = boottime_ns();
	$session{$_}->start("SELECT le_acquire('delayed-$_', wait => '2 min')")
	  foreach sort keys %late;
	foreach my $what (sort keys %late)
	{
		my $name = "delayed-$what";
		my $token;

		is($session{$what}->finish->{output},
			't', "$what: acquired in the end");
		$token = $one->token($name);
		guarantee('G2', [ $token{$what}, $token ], 'with a higher token');
		$token{$what} = $token;
	}
	poll_until(sub { boottime_ns() - $began > 24e9 }, 'the late ones');
	$recorder->clear_rules;
	foreach my $what (sort keys %late)
	{
		my $name = "delayed-$what";

		still_leads($one, $name, "$what: the late one does no harm");
		same_term($token{$what}, $one->token($name), 'in the same term');
		is($azurite->blob($name)->{token}, $token{$what}, 'that the blob tells of');
		ok($one->release($name), 'released');
		ok($two->acquire($name, wait => '3 min'), 'the other has it');
		ok($two->release($name), 'and gives it back');
		$_->stop foreach @{ $samplers{$what} };
		guarantee('G1', [ LeaderElection::Sampler->overlaps(@{ $samplers{$what} }) ],
			'no overlap');
	}
};

# The deadline counts from when the lease was asked for, 13 s before that.
subtest 'a stamp that takes its time' => sub {
	my $lease = qr/^PUT \S*stamp~leader\?\S*comp=lease/;
	my $session = LeaderElection::Session->new($one);
	my ($sampler, $mark, $sent);

	$one->configure(request_timeout => '12500ms');
	$sampler = LeaderElection::Sampler->new($one, 'stamp');
	$mark = $recorder->mark;
	$recorder->rule(match => qr/^PUT \S*stamp~leader\?\S*comp=metadata/,
		action => 'delay_reply', delay => 12, count => 1);
	$session->start(q(SELECT le_acquire('stamp', wait => '3 min')));
	$sent = $recorder->wait_for_request($lease, $mark)->{received};
	$recorder->rule(match => $lease, action => 'lose_request');    # renewals
	poll_until(sub { boottime_ns() > $sent + 14e9 }, 'the end of the lease');
	ok(!$one->is_leader('stamp'), 'no belief beyond what the lease is good for');
	$sampler->stop;
	guarantee('G5', [ [ max($sent, map { $_->[1] } $sampler->beliefs), last_asked($lease, $mark) + 13.1e9 ] ],
		'not for longer than since it was asked for the last time');
	is(scalar(grep { $_->[1] - $_->[0] > 1.1e9 } $sampler->beliefs),
		0, 'a term of a second, or none');
	$recorder->clear_rules;
	$session->finish;
	$one->configure(request_timeout => '5s');
	ok($one->acquire('stamp', wait => '3 min'), 'another term');
	ok($one->release('stamp'), 'the end');
};

# Values are written all the time, and the lease is not renewed by that.
subtest 'values in place of renewals' => sub {
	my $lease = qr/^PUT \S*values~leader\?\S*comp=lease/;
	my $sampler = LeaderElection::Sampler->new($one, 'values');
	my $session = LeaderElection::Session->new($one);
	my $mark = $recorder->mark;
	my $n = 0;
	my $sent;
	my $publish = sub {
		$session->start(q(SELECT le_renew('values', clock_timestamp()::text)));
		$n++ if $session->finish->{output} eq 't';
	};

	ok($one->acquire('values'), 'leads');
	$recorder->wait_for_request($lease, $mark);
	$mark = $recorder->mark;
	# every 5 s: no value puts that off
	poll_until(
		sub {
			$publish->();
			return grep { defined $_->{status} } $recorder->requests($lease, $mark);
		},
		'a renewal beside the values');
	$recorder->rule(match => $lease, action => 'lose_request');
	$sent = last_asked($lease, $mark);
	poll_until(sub { $publish->(); return boottime_ns() > $sent + 14e9; },
		'the end of the lease');
	cmp_ok($n, '>=', 1, 'values are published');
	ok(!$one->is_leader('values'), 'no belief beyond what the lease is good for');
	$sampler->stop;
	guarantee('G5', [ [ max($sent, map { $_->[1] } $sampler->beliefs), last_asked($lease, $mark) + 13.1e9 ] ],
		'nor shortly before, as it was last asked for');
	$recorder->clear_rules;
	$session->quit;
	ok($one->acquire('values', wait => '3 min'), 'another term');
	ok($one->release('values'), 'the end');
};

# Azurite renews a lease that has run out also for another lease id, and names that
# id.
subtest 'renewed for another' => sub {
	ok($one->acquire('foreign'), 'leads');
	$recorder->rule(
		match => qr/^PUT \S*foreign~leader\?\S*comp=lease/,
		action => 'answer',
		status => 200,
		headers => {
			'x-ms-request-id' => 'r',
			'x-ms-version' => '2021-12-02',
			'x-ms-lease-id' => '00000000-0000-4000-8000-000000000000'
		},
		body => '');
	wait_for_end($one, 'foreign');
	like($one->sql(q(SELECT last_loss FROM le_status WHERE election = 'foreign')),
		qr/taken/, 'no term any more');
	$recorder->clear_rules;
	ok($one->acquire('foreign', wait => '3 min'), 'another one');
	ok($one->release('foreign'), 'the end');
};

# A renewal whose answer is lost, and one that is lost itself, are sent again.
subtest 'a renewal without an answer' => sub {
	my $token;

	ok($one->acquire('renewed'), 'leads');
	$token = $one->token('renewed');
	foreach my $action ('lose_reply', 'lose_request')
	{
		my $mark = $recorder->mark;

		$recorder->rule(match => qr/^PUT \S*renewed~leader\?\S*comp=lease/,
			action => $action, count => 1);
		poll_until(sub { grep { !$_->{action} } $recorder->requests(qr/^PUT \S*renewed~leader\?\S*comp=lease/, $mark) },
			"$action: the next");
		same_term($token, $one->token('renewed'), "$action: the same term");
		$recorder->clear_rules;
	}
	ok($one->release('renewed'), 'the end');
};

# The third request of a claim is a renewal of the term.
subtest 'a claim whose term is not confirmed' => sub {
	my $claim = q(SELECT le_claim('claims', '%s', '2020-01-01 00:00+00'));

	ok($one->acquire('claims'), 'leads');
	foreach my $action ('lose_reply', 'lose_request', 'delay_reply')
	{
		my $session = LeaderElection::Session->new($one);
		my @claimed;

		$recorder->rule(match => qr/^PUT \S*claims~leader\?\S*comp=lease/,
			action => $action, delay => 3, count => 1);
		push @claimed, $session->query(sprintf $claim, $action);
		$recorder->clear_rules;
		push @claimed, $one->sql(sprintf $claim, $action);
		guarantee('G4', [ "@claimed" eq 't t' ? $action : () ], "$action: not claimed twice");
		is("@claimed", 't f', "$action: but once");
		$session->quit;
	}

	# its leader is another by then
	my $session = LeaderElection::Session->new($one);
	my ($first, $second);

	$recorder->rule(match => qr/^PUT \S*claims~leader\?\S*comp=lease/, action => 'hang_request');
	$session->start(sprintf $claim, 'between');
	$two->wait_for(q(SELECT count(*) = 1 FROM le_claims WHERE job = 'between'), 'the record');
	ok($two->acquire('claims', wait => '3 min'), 'another leads');
	$first = $session->finish;
	like($first->{error}, qr/LE00[1245]/, 'the claim is refused');
	$recorder->clear_rules;
	$second = $two->sql(sprintf $claim, 'between');
	is($second, 'f', 'its tick is taken, at most once');
	guarantee('G4', [ "$first->{output} $second" eq 't t' ? 'between' : () ], 'not twice');
	ok($two->release('claims'), 'the end');
};

# Without a period a lease stays until it would have run out, and Azurite keeps it
# for all of a longer one; its holder believes in it no more.
subtest 'leases broken in good order' => sub {
	break_lease('no', undef);
	foreach my $which (sort keys %waits)
	{
		my $name = "order-$which";

		is($waits{$which}->finish->{output}, 't', "$which period: the other leads then");
		ok($two->release($name), 'the end');
		$waits{$which}->quit;
		$_->stop foreach @{ $samplers{$which} };
		guarantee('G1', [ LeaderElection::Sampler->overlaps(@{ $samplers{$which} }) ], 'no overlap');
	}
};

# Names and values are back unchanged, and within what a blob's metadata take.
subtest 'as long as may be' => sub {
	my $name = 'ü' x 64;
	my $value = 'é' x 512;
	my $job = 'ä' x 100;
	my $long = LeaderElection::Node->create('long', azure => $azurite,
		settings => { node_name => $name });

	ok($long->acquire('long'), 'leads');
	is($long->sql("SELECT le_renew('long', '$value')"), 't', 'a value');
	is($two->sql("SELECT leader = '$name', value = '$value' FROM le_leader('long')"), 't|t', 'both are back');
	is($long->sql("SELECT le_claim('long', '$job', '2020-01-01 00:00+00')"), 't', 'a job');
	is($two->sql("SELECT job = '$job', node = '$name' FROM le_claims WHERE election = 'long'"), 't|t', 'its record, too');
	$long->stop;
};

# Shorter than a lease, and longer than any.
subtest 'a service that stands still' => sub {
	foreach my $seconds (14, 70)
	{
		my @samplers = map { LeaderElection::Sampler->new($_, 'still') } $one, $two;
		my $session = LeaderElection::Session->new($two);
		my ($began, $frozen, $ended, $token, $alone, $last);

		ok($one->acquire('alone', wait => '3 min'), "$seconds s: leads an election that nobody waits for");
		$alone = $one->token('alone');
		ok($one->acquire('still', wait => '3 min'), 'leads');
		$token = $one->token('still');
		$session->start(q(SELECT le_acquire('still', wait => '5 min')));
		$two->wait_for(q(SELECT state = 'waiting' FROM le_status WHERE election = 'still'), 'one who waits');
		$began = boottime_ns();
		$azurite->freeze;
		$frozen = boottime_ns();
		wait_for_end($one, 'still');
		$ended = boottime_ns();
		# The last question answered with yes; $ended is when it was noticed.
		$last = max(map { $_->[1] } $samplers[0]->beliefs);
		guarantee('G5', [ [ $last, $frozen + 13.5e9 ] ], 'belief ends in time');
		guarantee('G5',
			[ [
				$last,
				13.1e9 + max(map { $_->{received} } grep { $_->{received} < $frozen }
					  $recorder->requests(qr/^PUT \S*still~leader\?\S*comp=lease/))
			] ],
			'counted from when it was last asked for before');
		wait_for_end($one, 'alone');
		poll_until(sub { boottime_ns() - $began > $seconds * 1e9 }, "$seconds s");
		is( scalar(
				grep { ($_->{headers}{'x-ms-lease-action'} // '') eq 'renew' && $_->{received} > $ended }
				  $recorder->requests(qr/still/)),
			0, 'no renewal is sent from then on');
		$azurite->thaw;
		is($session->finish->{output}, 't', 'one leads then');
		guarantee('G2', [ $token, $two->token('still') ], 'in a later term');
		ok($one->acquire('alone', wait => '3 min'), 'the only leader leads again');
		guarantee('G2', [ $alone, $one->token('alone') ], 'in another term');
		ok($one->release('alone'), 'the end');
		ok($two->release('still'), 'the end');
		$session->quit;
		$_->stop foreach @samplers;
		guarantee('G1', [ LeaderElection::Sampler->overlaps(@samplers) ], 'no overlap');
	}
};

$_->stop foreach $one, $two;
done_testing();
