# Tier: test, 99 s
#
# Requests to Azurite that are lost, late, sent twice, answered by somebody else, or
# refused since there are too many, and the outcome of each.

use strict;
use warnings;

use LeaderElection::Azurite;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $azurite = LeaderElection::Azurite->new('azurite')->start;

# A recorder before the service, and an instance behind it.
sub behind_recorder
{
	my ($name, %settings) = @_;
	my $recorder =
	  LeaderElection::Recorder->new($name, $azurite->host_port)->start;
	my $node = LeaderElection::Node->create(
		$name,
		azure => $azurite,
		settings => {
			azure_container_url => $azurite->url($recorder->host_port),
			%settings
		});

	return ($recorder, $node);
}

# A claim whose check got no answer is checked, not believed.
subtest 'claim without an answer' => sub {
	my ($recorder, $node) = behind_recorder('claims');
	my $claim = q(SELECT le_claim('lost', '%s', '2020-01-01 00:00+00'));
	my ($write, $mark, @claimed);

	ok($node->acquire('lost'), 'leads');
	foreach my $action ('lose_reply', 'lose_request')
	{
		foreach my $step (qr/^PUT \S*claims/, qr/^HEAD \S*claims/)
		{
			my $job = "job" . ++$write;

			$mark = $recorder->mark;
			$recorder->rule(match => $step, action => $action, count => 1);
			@claimed = map { $node->sql(sprintf $claim, $job) } 1 .. 2;
			guarantee('G4', [ "@claimed" eq 't t' ? $job : () ], "$job is not claimed twice");
			is("@claimed", 't f', 'but once');
			is(scalar(grep { $_->{action} } $recorder->requests(qr/claims/, $mark)),
				1, "although a request or its answer was lost");
			$recorder->clear_rules;
		}
	}
	$node->release('lost');
	$node->stop;
};


# Lost answers of the steps of an acquire, a publish, a release: one term, and
# one token.
subtest 'acquire without an answer' => sub {
	my ($recorder, $node) = behind_recorder('acquire');
	my $n = 0;
	my ($token, %attempts);

	foreach my $step (
		qr/^HEAD \S*unsure/, qr/^PUT \S*unsure\S*comp=lease/,
		qr/^PUT \S*unsure\S*comp=metadata/)
	{
		foreach my $action ('lose_reply', 'lose_request')
		{
			$recorder->rule(match => $step, action => $action, count => 1);
			ok($node->acquire('unsure', wait => '3 min'), "$action: acquired");
			$recorder->clear_rules;
			$token = $node->token('unsure');
			guarantee('G2', [ $n, $token ], 'with a higher token');
			is($token, ++$n, 'the next');
			$recorder->rule(match => $step, action => $action, count => 1);
			is($node->sql(qq(SELECT le_renew('unsure', '$n'))),
				't', 'published');
			$recorder->clear_rules;
			is($azurite->blob('unsure')->{value}, $n, 'which can be read');
			$attempts{ $azurite->blob('unsure')->{attempt} } = 1;
			$recorder->rule(match => $step, action => $action, count => 1);
			ok($node->release('unsure'), 'released');
			$recorder->clear_rules;
			is($azurite->blob('unsure')->{state}, 'available', 'for others');
		}
	}
	is(scalar keys %attempts, $n, 'no lease id serves two terms');
	$node->stop;
};

# Copies of all that a term consisted of, once it is over and another is on.
subtest 'late copies' => sub {
	my ($recorder, $node) = behind_recorder('late');
	my (@of_first, %status);

	ok($node->acquire('late'), 'a term');
	is($node->sql(q(SELECT le_renew('late', 'first'))), 't', 'published');
	$recorder->wait_for_request(qr/^PUT \S*late\S*comp=lease/,
		$recorder->mark);    # a renewal
	@of_first = grep { $_->{method} eq 'PUT' } $recorder->requests(qr/late~leader/);
	ok($node->release('late'), 'is over');
	push @of_first, grep { ($_->{headers}{'x-ms-lease-action'} // '') eq 'release' }
	  $recorder->requests(qr/late~leader/);
	ok($node->acquire('late'), 'another');
	foreach my $request (@of_first)
	{
		my $what = $request->{headers}{'x-ms-lease-action'}
		  // ($request->{path} =~ /comp=metadata/ ? 'write' : 'create');

		$status{$what}{ $recorder->replay($request)->{status} } = 1;
	}
	is_deeply(
		{ map { $_ => join(' ', sort keys %{ $status{$_} }) } keys %status },
		{
			create => 409,
			acquire => 412,
			write => 412,
			renew => 409,
			release => 409
		},
		'no copy of the first does anything');
	is($node->sql(q(SELECT le_renew('late', 'second'))), 't', 'it goes on');
	is($node->token('late'), 2, 'with its token');
	is($azurite->blob('late')->{token}, 2, 'which is the last');
	is($azurite->blob('late')->{value}, 'second', 'and its value');

	# copies of what has just been sent
	@of_first = ($recorder->requests(qr/^PUT \S*late\S*comp=(lease|metadata)/))[ -2, -1 ];
	ok($recorder->replay($_)->{status} =~ /^(200|201|412)$/, 'a copy at once')
	  foreach @of_first;
	is($node->sql(q(SELECT le_renew('late', 'third'))), 't', 'does no harm');
	ok($node->release('late'), 'released');
	$node->stop;
};

# An answer of another server is no answer: neither "no such blob" nor a term.
subtest 'proxies' => sub {
	my ($recorder, $node) = behind_recorder('proxied');
	my %html = (
		action => 'answer',
		headers => { 'Content-Type' => 'text/html' },
		body => '<html>sorry</html>');
	my $token;

	ok($node->acquire('proxied'), 'leads');
	$token = $node->token('proxied');
	foreach my $status (404, 502, 200, 403, 409)
	{
		$recorder->rule(%html, match => qr/^HEAD/, status => $status);
		like($node->sql_error(q(SELECT le_current_leader('proxied'))),
			qr/LE003/, "$status: nobody knows who leads");
		like($node->sql_error(q(SELECT le_acquire('nobodys'))),
			qr/LE003/, 'nor takes it');
		$recorder->clear_rules;
	}
	$recorder->rule(
		match => qr/^HEAD/,
		action => 'answer',
		status => 307,
		headers => { Location => $azurite->url . '/elsewhere' },
		body => '');
	like($node->sql_error(q(SELECT le_current_leader('proxied'))),
		qr/LE005.*HTTP 307/s, 'a redirection is not followed');
	$recorder->clear_rules;

	# to a renewal, one after the other
	foreach my $status (404, 502, 200, 409)
	{
		$recorder->rule(%html, match => qr/^PUT \S*comp=lease/,
			status => $status, count => 1);
	}
	poll_until(
		sub {
			4 == grep { $_->{action} } $recorder->requests(qr/^PUT \S*comp=lease/);
		},
		'such answers to renewals');
	$recorder->wait_for_request(qr/^PUT \S*comp=lease/, $recorder->mark);
	same_term($token, $node->token('proxied'), 'end no term');
	$node->release('proxied');
	$node->stop;
};

# A node has the lease, and dies before it has written the stamp that makes it a
# term: in an election that has had one, and in one of which nobody has seen
# anything yet.
subtest 'death between lease and stamp' => sub {
	my ($recorder, $node) = behind_recorder('gate');
	my $other = LeaderElection::Node->create('other', azure => $azurite);
	my %token = (gate => 2, fresh => 1);
	my %session = map { $_ => LeaderElection::Session->new($node) } keys %token;
	my %waiting = map { $_ => LeaderElection::Session->new($other) } keys %token;

	ok($node->acquire('gate') && $node->release('gate'), 'a first term');
	$recorder->rule(match => qr/^PUT \S*(gate|fresh)~\S*comp=metadata/,
		action => 'hang_request');
	$session{$_}->start("SELECT le_acquire('$_')") foreach keys %session;
	foreach my $election (sort keys %token)
	{
		poll_until(
			sub {
				(($azurite->blob($election) // {})->{state} // '') eq 'leased'
				  && grep { $_->{action} } $recorder->requests(qr/$election~/);
			},
			"$election: the lease, and the stamp");
		is($other->leader($election), undef, 'nobody is said to lead');
		is($other->sql("SELECT le_acquire('$election')"),
			'f', 'and nobody else does');
	}
	$node->crash;
	is($other->sql(q(SELECT le_acquire('fresh'))),
		'f', 'nor when the holder of the lease is dead');
	$waiting{$_}->start("SELECT le_acquire('$_', wait => '3 min')")
	  foreach keys %waiting;
	is($waiting{$_}->finish->{output}, 't', "$_: the other leads")
	  foreach sort keys %waiting;
	foreach my $election (sort keys %token)
	{
		my $token = $other->token($election);

		guarantee('G2', [ $token{$election} - 1, $token ], "$election: with a higher token");
		is($token, $token{$election}, "$election: no token is left out");
	}
	$other->stop;
};

# Three of four requests fail for a while, mostly since there are too many: a leader
# goes on to lead, a waiter looks less often.
subtest 'throttling' => sub {
	my ($before_leader, $leader) = behind_recorder('busy');
	my ($before_waiter, $waiter) = behind_recorder('patient');
	my $session = LeaderElection::Session->new($waiter);
	my $looks = qr/^HEAD \S*busy~leader/;
	my ($token, $renewals, $fails, @marks, $n, $began, $seconds);

	ok($leader->acquire('busy'), 'leads');
	$token = $leader->token('busy');
	$session->start(q(SELECT le_acquire('busy', wait => '5 min')));
	$waiter->wait_for("SELECT state = 'waiting' FROM le_status
		WHERE election = 'busy'", 'one who waits');
	$fails = sub {
		my ($recorder, $status, $code) = @_;

		$recorder->clear_rules;
		$recorder->rule(
			match => qr/^(PUT|HEAD)/,
			action => 'answer',
			status => $status,
			all_but => 4,
			headers => {
				'x-ms-request-id' => 'r',
				'x-ms-error-code' => $code,
				'Retry-After' => 1
			},
			body => '');
	};
	$fails->($_, 503, 'ServerBusy') foreach $before_leader, $before_waiter;
	@marks = ($before_leader->mark, $before_waiter->mark);
	$began = boottime_ns();
	$renewals = $leader->sql(
		q(SELECT renewals FROM le_stat() WHERE election = 'busy'));

	# for two leases
	foreach my $failure (undef, [ 500, 'InternalError' ], [ 429, 'Whatever' ])
	{
		$fails->($before_leader, @$failure) if $failure;
		$renewals += 2;
		$leader->wait_for("SELECT renewals >= $renewals FROM le_stat()
			WHERE election = 'busy'", 'renewals');
	}
	same_term($token, $leader->token('busy'), 'in the same term');
	is($leader->sql(q(SELECT losses FROM le_stat() WHERE election = 'busy')),
		0, 'without a loss');
	cmp_ok(
		scalar(grep { ($_->{action} // '') eq 'answer' }
			  $before_leader->requests(qr/busy/, $marks[0])),
		'>=', 9, 'although the service was busy');
	$n = scalar $before_waiter->requests($looks, $marks[1]);
	$seconds = (boottime_ns() - $began) / 1e9;
	cmp_ok($n, '>', 0, 'a waiter looks');
	cmp_ok($n, '<', $seconds * 0.4,
		'but not as often as every two seconds');
	$_->clear_rules foreach $before_leader, $before_waiter;
	ok($leader->release('busy'), 'in the end the election is free');
	is($session->finish->{output}, 't', 'and taken');
	$_->stop foreach $leader, $waiter;
};

done_testing();
