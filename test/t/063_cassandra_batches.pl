# Tier: long, 29 s
#
# Many elections in few requests: a start, a takeover and a release of 200, one
# answer of many that is refused, answers that are lost, no answers or late, and
# a gateway that refuses batches.

use strict;
use warnings;

use JSON::PP qw(decode_json encode_json);
use LeaderElection::Cassandra;
use LeaderElection::Gateway;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $cassandra = LeaderElection::Cassandra->shared;
my $keyspace = $cassandra->keyspace;
my $gateway = LeaderElection::Gateway->new('gateway',
	cassandra => $cassandra, keyspace => $keyspace)->start;
my @recorders = map {
	LeaderElection::Recorder->new($_, "127.0.0.1:$gateway->{port}")->start
} 'a', 'b';
my $recorder = $recorders[0];

# No stall, of Cassandra neither, ends so many terms at once; but the first node's end
# with its crash, and until then its leases are short.
use constant LEASE => 60;
use constant SHORT => 10;
my ($one, $two) = map {
	LeaderElection::Node->create($_ == 0 ? 'a' : 'b',
		gateway => $recorders[$_]->url,
		settings => {
			lease_ttl => ($_ == 0 ? SHORT : LEASE) . 's',
			renew_interval => '1s',
			max_elections => 1024,
			request_timeout => '5s'
		} )
} 0, 1;

# Requests that wait together go together, 100 at a time; more requests where
# elections become known in parts, but never as many as a quarter of them.
use constant MANY => 200;
use constant FEW => MANY / 4;

# As the campaign of a setting has them: all at once.
sub names
{
	my ($prefix, $n) = @_;

	return map { sprintf('%s%03d', $prefix, $_) } 1 .. $n;
}

sub campaign
{
	my ($node, @names) = @_;

	$node->configure(campaign => join(',', @names));
	return;
}

sub led
{
	my ($node, $prefix) = @_;

	return $node->ask(
		"SELECT count(*) FROM le_status WHERE state = 'leader'
		AND election LIKE '$prefix%' AND le_is_leader(election)");
}

sub wait_until_led
{
	my ($node, $prefix, $n) = @_;

	poll_until(sub { led($node, $prefix) == $n },
		"$n of $prefix to be led",
		interval => 0.1);
	return;
}

# The elections of a request, by name; of one alone just that.
sub entries
{
	my ($request) = @_;

	return map { $_->{name} => $_ } @{ decode_json($request->{body})->{locks} }
	  if $request->{path} =~ m{^/v1/(acquire|release|read)$};
	my ($name) = $request->{path} =~ m{^/v1/locks/([^/?]+)};
	return ($name => $request->{body} ? decode_json($request->{body}) : {});
}

# How many requests of that kind, single or not, and how often each election
# was in them.
sub count_requests
{
	my ($kind, $method, $prefix, $mark, $which) = @_;
	my @requests = ($which // $recorder)->requests(
		qr{^(POST /v1/$kind\n.*"$prefix|$method /v1/locks/$prefix)}s, $mark);
	my %times;

	foreach my $request (@requests)
	{
		my %entries = entries($request);

		$times{$_}++ foreach keys %entries;
	}
	return (scalar @requests, \%times);
}

sub acquires { return count_requests('acquire', 'PUT', @_); }
sub releases { return count_requests('release', 'DELETE', @_); }

# A request for several elections of that prefix.
sub several
{
	my ($prefix) = @_;

	return qr{^POST /v1/acquire\n.*"$prefix\d+".*"$prefix\d+"}s;
}

sub give_up
{
	my ($prefix, @names) = @_;

	campaign($one);
	$one->sql("SELECT le_step_down(NULL, '1 s')");
	poll_until(sub { !grep { /^$prefix/ } keys %{ $gateway->locks } },
		"$prefix to be free");
	return;
}

my @many = names('many', MANY);

# Guards against a request per election.
subtest 'a start' => sub {
	my $mark = $recorder->mark;

	campaign($one, @many);
	wait_until_led($one, 'many', MANY);
	my ($n, $times) = acquires('many', $mark);
	is_deeply([ sort keys %$times ], \@many, 'each was asked for');
	cmp_ok($n, '<=', FEW, "in $n requests");
	my ($reads) = count_requests('read', 'GET', 'many', $mark);
	cmp_ok($reads, '<=', MANY / 2, "read in $reads");
	my $locks = $gateway->locks;
	is(scalar(grep { $locks->{$_}{owner} =~ /^a#/ && $locks->{$_}{token} == 1 }
			  @many),
		MANY, 'the first term of each');
};

# How many find out in the same turn of the worker depends on the machine; of one
# that stood still while the leases ran out, all that it waited for at a time.
# These are 64 (MAX_PARKED), so that they take four requests, or more.
subtest 'a takeover' => sub {
	my $which = $recorders[1];
	my $parked = $which->mark;
	my ($mark, $worker);

	campaign($two, @many);
	$two->wait_for(
		'SELECT count(*) = ' . MANY . " FROM le_status WHERE holder = 'a'
		AND state = 'waiting'",
		'the other to wait for each');
	$mark = $which->mark;
	$one->crash;
	$worker = $two->freeze_worker;
	poll_until(sub { !%{ $gateway->locks } }, 'the end of all leases',
		interval => 0.1);
	poll_until(
		sub {
			!grep { !defined $_->{answered} }
			  $which->requests(qr{^GET .*[?]wait=}, $parked);
		},
		'the gateway to have seen it');
	$two->thaw_worker($worker);
	wait_until_led($two, 'many', MANY);
	my ($n, $times) = acquires('many', $mark, $which);
	is_deeply([ sort keys %$times ], \@many, 'each was asked for');
	cmp_ok($n, '<=', FEW, "in $n requests");
	guarantee('G2', [ 1, $two->sql('SELECT min(fencing_token) FROM le_status') ],
		'in a later term');
};

subtest 'a release' => sub {
	my $which = $recorders[1];
	my $mark = $which->mark;

	campaign($two);
	poll_until(sub { !%{ $gateway->locks } }, 'all to be free');
	my ($n, $times) = releases('many', $mark, $which);
	is_deeply([ sort keys %$times ], \@many, 'each by name');
	cmp_ok($n, '<=', FEW, "in $n requests");
	$two->stop;
	$one->set('leader_election.campaign', '');
	$one->set('leader_election.lease_ttl', LEASE . 's');
	$one->start;
};

# A refusal of one does not touch the others, nor does its place.
subtest 'some held by others' => sub {
	my @names = names('some', 20);
	my $mark = $recorder->mark;

	is( $gateway->request('PUT', "/v1/locks/$_",
			{ owner => 'shell', ttl => '1h' })->{status},
		201, "$_ is held")
	  foreach @names[ 0, 7, 19 ];
	campaign($one, @names);
	wait_until_led($one, 'some', 17);
	is( $one->sql("SELECT string_agg(election, ' ' ORDER BY election)
		FROM le_status WHERE election LIKE 'some%' AND holder = 'shell'"),
		join(' ', @names[ 0, 7, 19 ]), 'the others are known to be held');
	my $locks = $gateway->locks;
	is($locks->{$_}{token}, $one->token($_), "$_: token")
	  foreach @names[ 1, 6, 8, 18 ];
	ok($recorder->requests(qr{^POST /v1/(acquire|read)\n.*some007}, $mark),
		'asked for together');
	$gateway->request('DELETE',
		"/v1/locks/$_?owner=shell&token=1&rev=1")
	  foreach @names[ 0, 7, 19 ];
	wait_until_led($one, 'some', 20);
	give_up('some');
};

# Guards against belief without an answer, and against a second term where the first
# was applied: each is asked for again under its own attempt.
subtest 'answers lost' => sub {
	foreach my $case (
		[ lost => (action => 'lose_reply') ],
		[ garbled => (
				action => 'answer', status => 200,
				headers => { 'Content-Type' => 'application/json' },
				body => '{"results":[]}') ],
		[ foreign => (
				action => 'answer', status => 502,
				headers => { 'Content-Type' => 'text/html' },
				body => '<p>later</p>') ])
	{
		my ($prefix, %rule) = @$case;
		my @names = names($prefix, 30);
		my $mark = $recorder->mark;
		my (%attempts, $lost);

		$recorder->rule(match => several($prefix), count => 1, %rule);
		campaign($one, @names);
		wait_until_led($one, $prefix, 30);
		foreach my $request ($recorder->requests(
				qr{^(POST /v1/acquire\n|PUT ).*$prefix}s, $mark))
		{
			my %entries = entries($request);

			$lost = { %entries } if $request->{action};
			push @{ $attempts{$_} }, $entries{$_}{attempt} foreach keys %entries;
		}
		cmp_ok(scalar keys %$lost, '>', 1, "$prefix: an answer to several");
		is( scalar(
				grep {
					my $attempt = $lost->{$_}{attempt};

					2 > grep { $_ eq $attempt } @{ $attempts{$_} }
				} keys %$lost),
			0, 'each is asked for again, by the same attempt');
		my $locks = $gateway->locks;
		is(scalar(grep { $locks->{$_}{token} == $one->token($_) } @names),
			30, 'the terms are those of the store');
		is(scalar(grep { $locks->{$_}{token} != 1 } @names), 0,
			'one of each') if $prefix eq 'lost';
		$recorder->clear_rules;
		give_up($prefix);
	}
};

# Guards against counting trust from the answer.
subtest 'trust counts from the sending of the request' => sub {
	my $trust = LEASE - 1 - 2 - 1;    # granularity, skew, safety_margin
	my $mark = $recorder->mark;

	$recorder->rule(match => qr{^POST /v1/renew\n}, action => 'hang_request');
	$recorder->rule(
		match => several('anchor'),
		action => 'delay_reply',
		delay => 2,
		count => 1);
	campaign($one, names('anchor', 30));
	wait_until_led($one, 'anchor', 30);
	my ($first) = grep { $_->{action} } $recorder->requests(several('anchor'), $mark);
	my %entries = entries($first);
	my $sent = time() - (boottime_ns() - $first->{received}) / 1e9;
	my $names = join(',', map { "'$_'" } keys %entries);
	cmp_ok(scalar keys %entries, '>', 1, 'several, with an answer that was slow');
	cmp_ok( $one->sql("SELECT extract(epoch FROM max(expires_at))
		FROM le_status WHERE election IN ($names)"),
		'<=', $sent + $trust + 0.2, 'trusted as if it had been fast');
	$recorder->clear_rules;
	give_up('anchor');
};

# Guards against a batch that keeps all from campaigning for the fault of one.
subtest 'a gateway that refuses batches' => sub {
	my $mark = $recorder->mark;
	my $offset = $one->log_offset;
	my $batch = qr{^POST /v1/(acquire|release|read)\n};
	my @names = names('old', 20);

	$recorder->rule(
		match => $batch,
		action => 'answer',
		status => 400,
		headers => { 'Content-Type' => 'application/problem+json' },
		body => encode_json(
			{
				type => 'urn:leader-election:problem:bad-request',
				title => 'The request is malformed',
				status => 400
			}));
	campaign($one, @names);
	wait_until_led($one, 'old', 20);
	my @batches = $recorder->requests($batch, $mark);
	my @singles = $recorder->requests(qr{^PUT /v1/locks/old}, $mark);
	cmp_ok(scalar @batches, '>=', 1, 'it was asked');
	cmp_ok(scalar @batches, '<=', 8, 'and a window of requests later no more');
	my %by_itself = map { entries($_) } @singles;

	is_deeply([ sort keys %by_itself ], \@names, 'each went by itself');
	ok( $one->log_like(
			qr/does not take several elections in one request/, $offset),
		'the log says so');
	is(scalar(() = substr(slurp_file($one->logfile), $offset) =~
			/does not take several elections/g),
		1, 'once');
	is($one->sql("SELECT count(*) FROM le_events WHERE event = 'store refused'"),
		0, 'and it was no refusal');
	$recorder->clear_rules;
	$one->reload;
	$mark = $recorder->mark;
	campaign($one, names('new', 20));
	wait_until_led($one, 'new', 20);
	cmp_ok(scalar $recorder->requests(qr{^POST /v1/acquire\n.*new}s, $mark),
		'>=', 1, 'after a reload it is tried again');
};

$_->stop foreach $one;
done_testing();
