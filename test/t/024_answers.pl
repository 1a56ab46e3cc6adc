# Tier: test, 16 s
#
# Unexpected answers, from Consul or from something in front of it: each is taken for
# no more than it can mean, and no secret is repeated.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $secret = 'b8f1f5d2-7a5e-4c4e-9d55-a4a1c0ffee00';
my $token_file = "$PostgreSQL::Test::Utils::tmp_check/t_024_answers_token";
my $consul = LeaderElection::Consul->new('consul')->start;
my $recorder =
  LeaderElection::Recorder->new('r', $consul->host_port)->start;

append_to_file($token_file, "$secret\n");

my $node = LeaderElection::Node->create(
	'node',
	consul => $recorder,
	settings => {
		lease_ttl => '10s',
		request_timeout => '5s',
		renew_interval => '1s',
		consul_token_file => $token_file
	});
my $errors = '';

# The result of a query, or the SQLSTATE of its error.
sub outcome
{
	my ($query) = @_;
	my $error = $node->sql_error($query);

	$errors .= $error;
	return $error =~ /ERROR:  (\w+):/ ? $1 : '';
}

my @index = ('X-Consul-Index' => 7);
my $html = '<html><body>Bad gateway. You sent X-Consul-Token: '
  . "$secret</body></html>";
my %html = ('Content-Type' => 'text/html');
my %text = ('Content-Type' => 'text/plain; charset=utf-8');
my $cut = '[{"LockIndex":1,"Key":"leader_election/';

# name, status, body, headers
my @common = (
	[ 'no permission', 403, 'Permission denied', \%text ],
	[ 'token echoed', 403, "ACL not found: $secret", \%text ],
	[ 'redirect', 301, '', { Location => '/v1/elsewhere' } ],
	[ 'bad request', 400, 'Bad request', \%text ],
	[ 'too many', 429, 'rate limit exceeded, try again later', \%text ],
	[
		'too many connections', 429,
		'Your IP is issuing too many concurrent connections', \%text
	],
	[ 'no leader', 500, 'No cluster leader', \%text ],
	[
		'leader busy', 503,
		'rate limit exceeded for operation that can only be performed by the leader',
		\%text
	],
	[ 'lost on the way', 500, 'rpc error making call: EOF', \%text ],
	[ 'leadership lost', 500,
		'leadership lost while committing log', \%text ],
	[ 'proxy in trouble', 502, $html, \%html ],
	[ 'proxy overloaded', 503, 'upstream', \%text ],
	[ 'not found', 404, 'not here', \%text ],
	[ 'login page', 200, $html, { %html, @index } ],
	[ 'empty', 200, '', {@index} ],
	[ 'truncated', 200, $cut, {@index} ],
	[ 'another document', 200, '{"errors": []}', {@index} ],
	[ 'null', 200, 'null', {@index} ],
	[ 'too deep', 200, '[' x 5000, {@index} ],
	[ 'too large', 200, ' ' x (1200 * 1024) . '[]', {@index} ]);
my %refused =
  map { $_ => 1 } ('no permission', 'token echoed', 'redirect', 'bad request');
my %not_applied = map { $_ => 1 } ('too many', 'too many connections',
	'no leader', 'leader busy', 'not found');

# A session first, so that what follows is about the election.
ok($node->acquire('first'), 'leads');
my $token = $node->token('first');

# Guards against an answer about nothing being taken for "nobody leads".
subtest 'to a read' => sub {
	my $number = 0;

	my $free = '[{"LockIndex":1,"Key":"leader_election/%s/leader",'
	  . '"Flags":3304740253564472344,"Value":null,"CreateIndex":5,'
	  . '"ModifyIndex":5}]';

	foreach my $case (@common,
		[ 'no index', 200, $free, {} ],
		[ 'absent, no index', 404, '', {} ],
		[ 'of another key', 200,
			'[{"LockIndex":0,"Key":"x","Flags":0,"Value":null,"CreateIndex":5,"ModifyIndex":5}]',
			{@index} ])
	{
		my ($name, $status, $body, $headers) = @$case;
		my $election = 'read' . ++$number;
		my $mark = $recorder->mark;
		my $state = $refused{$name} || $name eq 'too large' ? 'LE005' : 'LE003';

		$body = sprintf($body, $election) if $name eq 'no index';
		$recorder->rule(
			match => request_like('read', $election),
			action => 'answer',
			status => $status,
			body => $body,
			headers => $headers);
		is(outcome("SELECT le_current_leader('$election')"),
			$state, "$name: nobody knows who leads");
		is(outcome("SELECT le_acquire('$election')"), $state, 'or whether');
		is( scalar $recorder->requests(
				request_like('acquire', $election), $mark),
			0,
			'nothing was written');
		$recorder->clear_rules;
	}
};

# Guards against a write being taken for done, or for refused.
subtest 'to an acquire' => sub {
	my $number = 0;
	my $lock_delay = '{"Results":null,"Errors":[{"OpIndex":%d,"What":'
	  . '"failed to lock key \\"x\\" due to lock delay"}]}';
	my $stranger = '{"Results":[{"KV":{"LockIndex":1,"Key":'
	  . '"leader_election/%s/leader","Flags":3304740253564472344,'
	  . '"Value":null,"Session":"00000000-1111-2222-3333-444444444444",'
	  . '"CreateIndex":99,"ModifyIndex":99}}],"Errors":null}';

	foreach my $case (@common,
		[ 'no results', 200, '{"Results":null,"Errors":null}', {} ],
		[ 'held by another', 200, $stranger, {} ],
		[ 'conflict without reason', 409, '{}', \%text ],
		[ 'lock delay', 409, sprintf($lock_delay, 4), {} ])
	{
		my ($name, $status, $body, $headers) = @$case;
		my $election = 'acquire' . ++$number;
		my $offset = $node->log_offset;
		my $state =
			$refused{$name} ? 'LE005'
		  : $not_applied{$name} ? 'LE003'
		  : $name eq 'lock delay' ? ''
		  : 'LE004';

		$body = sprintf($body, $election) if $name eq 'held by another';
		$recorder->rule(
			match => request_like('acquire', $election),
			action => 'answer',
			status => $status,
			body => $body,
			headers => $headers);
		is(outcome("SELECT le_acquire('$election')"),
			$state, "$name: " . ($state || 'false'));
		if ($name eq 'too large')
		{
			my $log = $node->log_since($offset);

			like($log, qr/could not use the answer of the store at \S+ could not acquire: the answer is too large/, 'said');
			unlike($log, qr/is down/, 'the store is not down');
		}
		denied('G5', $node->is_leader($election), 'not leader');
		ok(!$node->log_like(qr/leader of election "$election"/, $offset),
			'nor was it ever');
		$recorder->clear_rules;
	}

	# Unresolved requests resolve, and hold nothing.
	$node->wait_for(
		"SELECT bool_and(state = 'idle') FROM le_status "
		  . "WHERE election LIKE 'acquire%'",
		'the end of all attempts');

	my @held = grep { $_->{Key} =~ /acquire/ && $_->{Session} }
	  values %{ $consul->kv_tree('leader_election/') };

	is(scalar @held, 0, 'nothing is held');
	ok($node->acquire('acquire1'), 'and all can be acquired');
	ok($node->release('acquire1'), 'and released');
};

# Guards against terms that end because of a hiccup, or go on for it.
subtest 'in the middle of a term' => sub {
	my $offset = $node->log_offset;
	my $once = sub {
		my ($kind, $name, $status, $body, $headers) = @_;
		my $mark = $recorder->mark;

		$recorder->rule(
			match => request_like($kind),
			action => 'answer',
			status => $status,
			body => $body,
			headers => $headers // {},
			count => 1);

		# so that it need not be waited for
		outcome("SELECT le_renew('first')") if $kind eq 'prove';
		$consul->put('/v1/kv/leader_election/x', $name) if $kind eq 'watch';
		poll_until(
			sub {
				my @all = $recorder->requests(request_like($kind), $mark);

				shift @all while @all && !$all[0]{action};
				return @all > 1;
			},
			"$kind: $name");
		$recorder->clear_rules;
		same_term($token, $node->token('first'), "$kind: $name");
	};

	same_term($token, $node->token('first'), 'leads');
	$once->('renew', @{ $common[$_] }) foreach (0, 5, 6, 14);
	$once->('renew', @{ $common[12] });
	$once->('prove', @$_) foreach @common;
	$once->('watch', 'garbage', 200, $html, { %html, @index });
	$once->('watch', 'no index', 404, '', {});
	$once->('watch', 'an empty list', 404, '', { 'X-Consul-Index' => 999999 });
	is($node->sql("SELECT le_renew('first')"), 't', 'and can be proven');
	like($node->log_since($offset),
		qr/store at \S+ refused to renew session: HTTP 403: Permission denied/,
		'a refusal is reported');
};

# Guards against going on when Consul says that the session has ended, were
# it wrong, and against a key that stays locked by it.
subtest 'renewal: no such session' => sub {
	my $session = leader_key($consul, 'first')->{Session};

	$node->sql("SELECT le_campaign('campaign')");
	$node->wait_for_leadership('campaign');

	my $before = $node->token('campaign');
	my $offset = $node->log_offset;

	$recorder->rule(
		match => request_like('renew'),
		action => 'answer',
		status => 404,
		body => "Session id '$session' not found",
		headers => \%text,
		count => 1);
	$node->wait_for_log_like(
		qr/no longer leader of election "first" .*: store session ended/,
		$offset);
	denied('G5', $node->is_leader('first'), 'stops believing');
	$node->wait_for_leadership('campaign');
	guarantee('G2', [ $before, $node->token('campaign') ],
		'the candidate leads again, with a higher token');
	poll_until(
		sub {
			!@{ $consul->get("/v1/session/info/$session")->{json} };
		},
		'the end of the session that was not gone');
	ok(!leader_key($consul, 'first')->{Session}, 'which holds nothing');
};

# Guards against believing a watch over a key that is ours.
subtest 'watch: key held by another' => sub {
	my $before = $node->token('campaign');
	my $key = $consul->get('/v1/kv/leader_election/campaign/leader');
	my $body = $key->{body};

	$body =~ s/"Session": *"[^"]*"/"Session":"00000000-1111-2222-3333-444444444444"/;
	$recorder->rule(
		match => request_like('watch'),
		action => 'answer',
		status => 200,
		body => $body,
		headers => { 'X-Consul-Index' => $before + 100_000 },
		count => 1);

	# wake the query that is parked
	$consul->put('/v1/kv/leader_election/x', 'y');
	poll_until(
		sub {
			my $now = $node->token('campaign');

			return $now && $now > $before;
		},
		'another term');
	pass('the term ends; the key, which is ours, is given back and won again');
};

# Guards against secrets in messages.
my $log = $node->log_since;

unlike($errors, qr/\Q$secret\E/, 'no secret in errors');
unlike($log, qr/\Q$secret\E/, 'no secret in the log');
like($errors, qr/ACL not found/, 'although answers are quoted');
is(scalar(grep { ($_->{headers}{'X-Consul-Token'} // '') ne $secret }
		$recorder->requests),
	0, 'it was sent with every request');

# Guards against an answer that is judged with a part of it blotted out: a token
# may be like any word of it.
subtest 'a token that is a word of the answer' => sub {
	my $offset = $node->log_offset;
	my $number = 0;

	unlink $token_file;
	append_to_file($token_file, "OpIndex\n");
	$node->reload;
	$node->wait_for_log_like(qr/read a new token from file/, $offset);
	foreach my $case (
		[
			'in a refusal', 409,
			'{"Results":null,"Errors":[{"OpIndex":4,"What":'
			  . '"failed to lock key \"x\" due to lock delay"}]}', ''
		],
		[ 'in plain text', 403, 'the token OpIndex is not good', 'LE005' ])
	{
		my ($name, $status, $body, $state) = @$case;
		my $election = 'word' . ++$number;

		$recorder->rule(
			match => request_like('acquire', $election),
			action => 'answer',
			status => $status,
			body => $body,
			headers => $status == 403 ? \%text : {});
		is(outcome("SELECT le_acquire('$election')"), $state, $name);
		$recorder->clear_rules;
	}
	$log = $node->log_since($offset);
	like($log, qr/the token \*{7} is not good/, 'the text is quoted without it');
	unlike($log, qr/OpIndex/, 'nowhere with it');
};

# Guards against a mistake of configuration that looks like an outage.
subtest 'settings that are wrong' => sub {
	my $blocking = LeaderElection::Consul->new(
		'blocking',
		config => 'http_config { block_endpoints = ["/v1/txn"] }')->start;
	my $own = 'Trying again does not help: correct the setting that';

	$recorder->rule(
		match => request_like('create'),
		action => 'answer',
		status => 500,
		body => 'cross datacenter lock must be created at server agent',
		headers => \%text);
	foreach my $case (
		[
			'datacenter', $recorder,
			qr/"leader_election.consul_datacenter" must be empty or the agent's own \(HTTP 500: cross/
		],
		[
			'endpoint', $blocking,
			qr{"http_config.block_endpoints" of the agent has /v1/txn \(HTTP 403: Endpoint}
		])
	{
		my ($name, $at, $text) = @$case;
		my $wrong = LeaderElection::Node->create(
			$name,
			consul => $at,
			settings => { consul_datacenter => 'dc1', campaign => 'billing' });

		$wrong->wait_for_log_like(qr/refused to [a-z ]+: $text/);
		like($wrong->sql_error("SELECT le_acquire('a')"),
			qr/LE005: .*DETAIL: +$text.*HINT: +$own the detail names/s,
			"$name: the error");
		like($wrong->sql("SELECT string_agg(message, ' / ') FROM le_check_config() WHERE level = 'error'"),
			qr/^Could not have a store session and a node key: $text/,
			"$name: the check");
		like($wrong->sql("SELECT last_error FROM le_status WHERE election = 'billing'"),
			$text, "$name: the view");
		my @told = $wrong->log_since =~ /refused to [a-z ]+: $text/g;
		is(scalar @told, 1, "$name: told once");
		like($wrong->log_since, qr/HINT: +$own is named/, "$name: the cure");
		$wrong->stop;
	}
	$recorder->clear_rules;
};

done_testing();
