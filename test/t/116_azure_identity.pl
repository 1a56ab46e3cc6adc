# Tier: long, 70 s
#
# The identity of a machine in place of a signature: its tokens come from the
# metadata service, which a proxy without anything behind it stands for here.
# Nobody waits for that service while the last token serves.

use strict;
use warnings;

use LeaderElection::Azurite;
use LeaderElection::Certificates;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Sampler;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $ca = LeaderElection::Certificates->new('ca');
my $azurite = LeaderElection::Azurite->new('azurite', oauth => $ca)->start;
my $metadata = LeaderElection::Recorder->new('metadata', '127.0.0.1:1')->start;
my $asked = qr{^GET /metadata/identity};
my (@given, $one);

# From now on, or for the next requests; in the order of the calls.
sub answer
{
	my (%rule) = @_;

	$metadata->rule(match => $asked, action => 'answer', body => '', %rule);
	return;
}

# From now on: a token that the service accepts for so long, and the time that it
# announces.
sub give
{
	my ($accepted, $said) = @_;

	$metadata->clear_rules;
	push @given, $accepted ? $azurite->token($accepted) : 'not.a.token';
	answer(
		status => 200,
		headers => { 'Content-Type' => 'application/json' },
		body => qq({"access_token":"$given[-1]","client_id":"id",)
		  . qq("expires_in":"$said","resource":"https://storage.azure.com/",)
		  . qq("token_type":"Bearer"}));
	return;
}

sub node
{
	my ($name, $identity, %settings) = @_;

	return LeaderElection::Node->create(
		$name,
		azure => $azurite,
		settings => {
			azure_identity => $identity,
			azure_identity_url => $metadata->url,
			ca_file => $ca->file,
			%settings
		});
}

sub findings
{
	my ($node, $topic) = @_;

	return $node->sql("SELECT level || ':' || message FROM le_check_config()
		WHERE topic = '$topic' ORDER BY 1");
}

sub statistics
{
	return split /\|/, $one->sql(q(SELECT renewals, failures, losses
		FROM le_stat() WHERE election = 'billing'));
}

# One request, however short the announced life of the token is.
subtest 'a machine' => sub {
	my $two;

	give(3600, 86400);
	$one = node('one', 'system', campaign => 'billing');
	$one->wait_for_leadership('billing');
	is_deeply(
		[ map { $_->{path} } $metadata->requests($asked) ],
		['/metadata/identity/oauth2/token?api-version=2018-02-01'
			  . '&resource=https%3A%2F%2Fstorage.azure.com%2F'],
		'one request for a token, with all parameters');
	is(($metadata->requests($asked))[0]{headers}{Metadata}, 'true',
		'as the service wants to be asked');
	is($one->sql(q(SELECT count(*) FROM le_check_config()
		WHERE level = 'error')), 0, 'nothing to complain of');
	$two = node('two', '11111111-2222-3333-4444-555555555555');
	ok(!$two->acquire('billing'), 'another is not leader');
	is($two->leader('billing'), 'one', 'and knows the leader');
	like(($metadata->requests($asked))[1]{path},
		qr/&client_id=11111111-2222-3333-4444-555555555555$/,
		'by a client id');
	$two->stop;
};

# It is refused after a while, whatever time was announced: a new one serves.
subtest 'a token that is revoked' => sub {
	my $token = $one->token('billing');
	my ($mark, $given);

	give(5, 86400);
	$given = boottime_ns();
	$one->restart;
	poll_until(
		sub {
			return 1 if $one->is_leader('billing');

			# it must not run out before anything is done with it
			return 0 if boottime_ns() - $given < 4e9;
			give(5, 86400);
			$given = boottime_ns();
			return 0;
		},
		'a leader');
	$one->sql('SELECT le_stat_reset()');
	guarantee('G2', [ $token, $one->token('billing') ], 'a new term');
	$token = $one->token('billing');
	give(3600, 86400);
	$mark = $metadata->mark;
	poll_until(sub { $metadata->requests($asked, $mark) }, 'another is fetched');
	poll_until(sub { (statistics())[0] > 2 }, 'and serves');
	same_term($token, $one->token('billing'), 'in the same term');
	is(scalar $metadata->requests($asked, $mark), 1, 'for all requests');
	is(join(' ', (statistics())[ 1, 2 ]), '0 0', 'and none has failed');
};

# A token of a short life, and no other to be had for a while, in all the ways in
# which the service's documents say that it may fail.
subtest 'a service that fails' => sub {
	my $sampler;
	my $token;
	my ($renewals, $mark);

	give(3600, 6);
	$one->restart;
	$one->wait_for_leadership('billing');
	$token = $one->token('billing');
	$mark = $metadata->mark;
	$metadata->clear_rules;
	answer(status => 404, count => 1);
	answer(status => 410, count => 1);
	answer(status => 429, count => 1, headers => { 'Retry-After' => 1 });
	answer(status => 500, count => 1);
	answer(action => 'hang_request');
	$one->wait_for_log_like(qr/a new token could not be fetched: no token from the machine's metadata service: HTTP 404/);
	($renewals) = statistics();
	poll_until(sub { $metadata->requests($asked, $mark) >= 5 },
		'all of these answers');
	poll_until(sub { (statistics())[0] >= $renewals + 3 }, 'renewals go on');
	same_term($token, $one->token('billing'), 'in the same term');
	is(join(' ', (statistics())[ 1, 2 ]), '0 0', 'and none has failed');
	like(findings($one, 'secrets'),
		qr/^warning:A new token could not be fetched, so the last one is used: no token from the machine's metadata service: /,
		'which the check says');
	is($one->sql(q(SELECT count(*) FROM le_events
		WHERE event LIKE 'store%' AND at > now() - interval '20 s')), 0,
		'and nothing else');
	give(3600, 86400);
	$one->wait_for_log_like(qr/LOG: +a new token could be fetched/);
	is(findings($one, 'secrets'), '', 'in the end there is one');
};

# One that nobody accepts ends the term, at its deadline.
subtest 'a token that nobody accepts' => sub {
	my ($mark, $began);

	give(0, 86400);
	$one->configure(azure_identity => '66666666-2222-3333-4444-555555555555');
	$mark = $metadata->mark;
	$began = boottime_ns();
	poll_until(sub { !$one->is_leader('billing') },
		'the end of the term');
	like($one->sql(q(SELECT last_loss FROM le_status WHERE election = 'billing')),
		qr/deadline/, 'is its deadline');
	like($one->sql_error(q(SELECT le_acquire('other'))),
		qr/LE005.*AuthenticationFailed/s, 'which is said');
	cmp_ok(scalar $metadata->requests($asked, $mark),
		'<', 6 + (boottime_ns() - $began) / 3e9,
		'and others are not asked for all the time');
	$metadata->clear_rules;
	answer(status => 400);
	$one->configure(azure_identity => 'system');
	poll_until(
		sub {
			findings($one, 'secrets') =~
			  /^error:A token could not be fetched: .*HTTP 400 \(is this identity assigned/;
		},
		'nor is none');
	give(3600, 86400);
	$one->wait_for_leadership('billing');
	ok(1, 'until there is one');
};

# As in Kubernetes: a token of the cluster is exchanged for one of Azure's.
subtest 'a workload' => sub {
	my $file = "$PostgreSQL::Test::Utils::tmp_check/t_116_federated";
	my ($node, $request);

	append_to_file($file, 'federated.token');
	chmod 0600, $file;
	$metadata->clear_rules;
	$metadata->rule(
		match => qr{^POST /tenant/oauth2/v2.0/token\n},
		action => 'answer',
		status => 200,
		body => '{"token_type":"Bearer","expires_in":3599,"access_token":"'
		  . $azurite->token . '"}');
	{
		local $ENV{AZURE_FEDERATED_TOKEN_FILE} = $file;
		local $ENV{AZURE_CLIENT_ID} = 'client';
		local $ENV{AZURE_TENANT_ID} = 'tenant';
		local $ENV{AZURE_AUTHORITY_HOST} = $metadata->url . '/';

		$node = node('workload', 'workload');
	}
	ok($node->acquire('work'), 'leads');
	($request) = $metadata->requests(qr/^POST/);
	is($request->{headers}{'Content-Type'},
		'application/x-www-form-urlencoded', 'a form');
	like($request->{body}, qr/&client_assertion=federated\.token$/,
		"with the file's contents");
	ok(!$node->log_like(qr/federated\.token/), 'which nobody else sees');
	$node->stop;
	$one->configure(azure_identity => 'workload');
	poll_until(
		sub {
			findings($one, 'secrets') =~
			  /^error:.*environment has no AZURE_FEDERATED_TOKEN_FILE/m;
		},
		'the missing setting is named');
};

subtest 'settings' => sub {
	foreach my $url ('http://metadata.example', 'http://169.254.169.254.example',
		'ftp://169.254.169.254')
	{
		like($one->sql_error("ALTER SYSTEM SET leader_election.azure_identity_url
			= '$url'"), qr/must begin with https|must have the form/, $url);
	}
	$one->sql(q(ALTER SYSTEM SET leader_election.azure_identity_url =
		'http://169.254.169.254'));
	$one->sql('ALTER SYSTEM RESET ALL');
};

# Tokens given out are nowhere.
subtest 'secrecy' => sub {
	my $any = join('|', map { quotemeta } @given);

	ok(!$one->log_like(qr/$any/), 'not in the log');
	is($one->sql("SELECT count(*) FROM le_events e
		WHERE e::text ~ 'eyJ|not.a.token'"), 0, 'not among the events');
	is($one->sql("SELECT count(*) FROM le_status s
		WHERE s::text ~ 'eyJ|not.a.token'"), 0, 'not in the status');
	is($one->sql("SELECT count(*) FROM pg_stat_activity a
		WHERE a::text ~ 'eyJ[A-Z]'"), 0, 'not in a title');
};

done_testing();
