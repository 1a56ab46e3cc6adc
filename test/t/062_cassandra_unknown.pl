# Tier: test, 41 s
#
# Answers of the gateway that never arrive, and access to it: an acquire is repeated
# under the same attempt, never assumed; a copy that arrives late changes nothing;
# only valid tokens and certificates open the gateway.

use strict;
use warnings;

use LeaderElection::Cassandra;
use LeaderElection::Certificates;
use LeaderElection::Gateway;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Resolver;
use LeaderElection::Util;
use JSON::PP qw(decode_json);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $cassandra = LeaderElection::Cassandra->shared;
my $keyspace = $cassandra->keyspace;
my $gateway = LeaderElection::Gateway->new('gateway',
	cassandra => $cassandra, keyspace => $keyspace)->start;
my $recorder =
  LeaderElection::Recorder->new('a', "127.0.0.1:$gateway->{port}")->start;

# No stall of the machine ends a term; where one is to end, the lease is shorter.
my %settings =
  (lease_ttl => '60s', renew_interval => '3s', request_timeout => '2s');

# Nobody answers where the environment says that proxies are.
my $node = do {
	local %ENV = (%ENV,
		map { $_ => 'http://127.0.0.1:1' } qw(http_proxy https_proxy all_proxy));

	LeaderElection::Node->create('a',
		gateway => $recorder->url, settings => {%settings});
};
ok($node->acquire('proxies') && $node->release('proxies'),
	'proxies of the environment are not used');

sub attempt_of
{
	my ($request) = @_;

	return decode_json($request->{body})->{attempt};
}

# When the recorder had the request, on the wall clock, as expires_at is.
sub sent_at
{
	my ($request) = @_;

	return time() - (boottime_ns() - $request->{received}) / 1e9;
}

sub lease_is
{
	my ($seconds) = @_;

	$node->configure(%settings, lease_ttl => "${seconds}s");
	poll_until(
		sub {
			$node->acquire('probe') && $node->ask("SELECT expires_at - clock_timestamp()
				BETWEEN interval '$seconds s' / 3 AND interval '$seconds s'
				FROM le_status WHERE election = 'probe'") eq 't';
		},
		"leases of $seconds s");
	$node->release('probe');
	return;
}

sub wait_until_free
{
	my ($lock) = @_;

	return poll_until(sub { !$gateway->lock($lock) }, "$lock to be free");
}

# Guards against belief in an acquire whose answer never came, and against a
# second term where the first was applied.
subtest 'acquire: answer lost, or late beyond patience' => sub {
	foreach my $action ('lose_reply', 'hang_reply')
	{
		my $mark = $recorder->mark;
		my $lock = "acquire/$action";

		$recorder->rule(
			match => qr{^PUT /v1/locks/acquire%2F$action},
			action => $action,
			count => 1);
		ok($node->acquire($lock), "$action: true, without waiting");

		my @puts = $recorder->requests(qr{^PUT .*$action}, $mark);

		cmp_ok(scalar @puts, '>', 1, 'sent again');
		is(scalar(grep { $_->{body} ne $puts[0]{body} } @puts), 0, 'the same each time');
		is($puts[0]{status}, 201, 'applied by the first');
		is($puts[-1]{status}, 200, 'found by the last');
		is($node->token($lock), $gateway->lock($lock)->{token},
			'one term, known on both sides');

		# the deadline is that of the answer that came
		my $grant = decode_json($puts[-1]{reply});
		my $expires = $node->sql(
			"SELECT extract(epoch FROM expires_at - clock_timestamp())
			FROM le_status WHERE election = '$lock'");
		cmp_ok($expires, '<=', $grant->{trust_ms} / 1000 - 1,
			'trusted for no longer than that answer says');
		ok($node->release($lock), 'released');
		ok(!$gateway->lock($lock), 'and free');
	}
};

# Guards against counting trust from the answer: Cassandra counts the lease
# from when it carried the request out, which may have been long before.
subtest 'trust counts from the sending of the request' => sub {
	my $expires = q(SELECT extract(epoch FROM expires_at) FROM le_status
		WHERE election = 'anchor');
	my $now = q(SELECT extract(epoch FROM clock_timestamp()));
	my $trust = 60 - 1 - 2 - 1;    # granularity, skew, safety_margin
	my $before;

	# no renewal by itself meanwhile, which would count from later
	$recorder->rule(
		match => qr{^POST /v1/renew\n.*anchor},
		action => 'hang_request');
	$recorder->rule(
		match => qr{^PUT .*anchor},
		action => 'delay_reply',
		delay => 1.5,
		count => 1);
	$before = $node->sql($now);
	ok($node->acquire('anchor'), 'acquired, with an answer that was slow');
	cmp_ok($node->sql($now), '>', $before + 1.5, 'indeed');
	# reading the lock came before, and may itself have taken its time
	my ($put) = $recorder->requests(qr{^PUT .*anchor});
	my $sent = sent_at($put);
	cmp_ok($node->sql($expires), '<=', $sent + $trust + 0.2,
		'trusted as if it had been fast');
	$recorder->clear_rules;
	$recorder->rule(
		match => qr{^POST /v1/renew\n.*anchor},
		action => 'delay_reply',
		delay => 0.5);
	is($node->sql(q(SELECT le_renew('anchor'))), 't', 'renewed, the same way');
	my ($renewal) = reverse grep { defined $_->{status} }
	  $recorder->requests(qr{^POST /v1/renew\n.*anchor});
	ok($renewal, 'by such a request')
	  or diag(join("\n",
			map { join(' ', $_->{text}, $_->{status} // 'unanswered', $_->{action} // '') }
			  $recorder->requests(qr{anchor})));
	$sent = sent_at($renewal);
	cmp_ok($node->sql($expires), '<=', $sent + $trust + 0.2, 'trusted as if it had been fast, too');
	$recorder->clear_rules;
	ok($node->release('anchor'), 'released');
};

# Guards against two decisions that share an attempt, and so a term.
subtest 'each decision has an attempt of its own' => sub {
	my $mark = $recorder->mark;
	my %seen;

	foreach (1 .. 3)
	{
		ok($node->acquire('fresh'), 'leads');
		ok($node->release('fresh'), 'released');
	}
	$seen{ attempt_of($_) }++
	  foreach $recorder->requests(qr{^PUT .*fresh}, $mark);
	is_deeply([ values %seen ], [ 1, 1, 1 ], 'three attempts');
	like((keys %seen)[0], qr/^[0-9a-f]{32}$/, 'at random');
};

# Guards against a renewal that is counted although nobody knows of it, or
# held against the term.
subtest 'renewal: answers lost' => sub {
	my ($token, $mark, @renewals);

	ok($node->acquire('renewal'), 'leads');
	$token = $node->token('renewal');
	$mark = $recorder->mark;
	$recorder->rule(
		match => qr{^POST /v1/renew\n},
		action => 'lose_reply',
		count => 2);
	poll_until(
		sub { 4 <= $recorder->requests(qr{^POST /v1/renew\n}, $mark) },
		'renewals');
	same_term($token, $node->token('renewal'), 'the term goes on');
	@renewals = $recorder->requests(qr{^POST /v1/renew\n}, $mark);
	is($renewals[1]{body}, $renewals[0]{body},
		'after an answer that was lost the same is sent again');
	like($renewals[2]{reply}, qr/"rev":2\b/, 'and answered as done');
	ok($node->release('renewal'), 'released');

	# an answer that is not the gateway's vouches for nothing
	my $expires = q(SELECT extract(epoch FROM expires_at) FROM le_status
		WHERE election = 'renewal' AND state = 'leader');
	lease_is(10);
	ok($node->acquire('renewal'), 'leads again');
	$mark = $recorder->mark;
	$recorder->rule(
		match => qr{^POST /v1/renew\n},
		action => 'answer',
		status => 200,
		headers => { 'Content-Type' => 'application/json' },
		body => '{"results":[]}');
	my $answers = sub {
		return scalar grep { $_->{action} }
		  $recorder->requests(qr{^POST /v1/renew\n}, $mark);
	};
	# no other is under way then
	poll_until(sub { $answers->() >= 1 }, 'an answer that is none');
	my $before = $node->sql($expires);
	poll_until(sub { $answers->() >= 3 }, 'more of them');
	# the wall clock shows the same deadline with a microsecond more or less
	my $after = $node->sql($expires);

	ok($after eq '' || abs($after - $before) < 0.5, 'no deadline follows from them')
	  or diag("$before, then $after");
	poll_until(sub { !$node->is_leader('renewal') }, 'the end of belief');
	$recorder->clear_rules;
	wait_until_free('renewal');
	denied('G5', $node->is_leader('renewal'), 'and of the term');
	lease_is(60);
};

subtest 'acquire: a copy that is late' => sub {
	my ($mark, $acquire);

	$mark = $recorder->mark;
	ok($node->acquire('late'), 'leads');
	ok($node->release('late'), 'released');
	($acquire) = $recorder->requests(qr{^PUT .*late}, $mark);
	is($recorder->replay($acquire)->{status}, 201, 'a late copy is applied');
	denied('G5', $node->is_leader('late'), 'but not believed in');
	ok($node->acquire('late', wait => '3 min'), 'seeking it again');
	guarantee('G2',
		[ decode_json($recorder->replay($acquire)->{body})->{token} - 1, $node->token('late') ],
		'is another term');
	ok($node->release('late'), 'released');
};

# Unsafe settings are refused with the arithmetic.
subtest 'timing' => sub {
	$node->configure(lease_ttl => '4s', renew_interval => '0');
	$node->wait_for(
		q(SELECT current_setting('leader_election.lease_ttl') = '4s'));
	like($node->sql_error(q(SELECT le_acquire('timing'))),
		qr/LE005.*lease_ttl \(4000 ms\) must be at least 5000 ms with the store "cassandra"/s,
		'too short for the gateway');
	$node->configure(lease_ttl => '5s', renew_interval => '2s');
	$node->wait_for(
		q(SELECT current_setting('leader_election.lease_ttl') = '5s'));
	like($node->sql_error(q(SELECT le_acquire('timing'))),
		qr/LE005.*granularity leaves 5000 ms - 2000 ms = 3000 ms/s,
		'too short for three attempts');

	# The gateway's clock skew takes more than this node can know.
	my $offset = $node->log_offset;
	$node->configure(lease_ttl => '7s', renew_interval => '2s');
	ok($node->acquire('timing', wait => '3 min'), 'possible, but');
	$node->wait_for_log_like(
		qr/leases are trusted for 4000 ms only.*need 4500 ms/s, $offset);
	$node->release('timing');
	lease_is(60);
};

# Tokens open names; nobody is heard without, nor shown one.
subtest 'bearer tokens' => sub {
	my $file = "$PostgreSQL::Test::Utils::tmp_check/t_062_tokens";
	my $mine = "$PostgreSQL::Test::Utils::tmp_check/t_062_token";
	my $write = sub {
		my ($name, $text) = @_;

		open(my $fh, '>', $name) or die "$name: $!";
		print $fh $text;
		close $fh;
		chmod 0600, $name;
	};

	$write->($file, "jobs 5e5f0c1d2b3a49586776 jobs/ reports/\n"
		  . "all 0123456789abcdef0123 *\n");
	my $secured = LeaderElection::Gateway->new('secured',
		cassandra => $cassandra, keyspace => $keyspace,
		options => [ '--token-file', $file ])->start;
	my $offset = $node->log_offset;

	$node->configure(gateway_url => $secured->url);
	poll_until(
		sub {
			$node->sql_error(q(SELECT le_acquire('jobs/a'))) =~
			  /LE005.*bearer token/is;
		},
		'refusal without a token');
	$write->($mine, "5e5f0c1d2b3a49586776\n");
	$node->configure(gateway_token_file => $mine);
	poll_until(
		sub { $node->sql_error(q(SELECT le_acquire('jobs/a'))) eq '' },
		'the token to be read');
	still_leads($node, 'jobs/a', 'leads what the token opens');
	like($node->sql_error(q(SELECT le_acquire('other'))),
		qr/LE005.*does not open/s, 'and nothing else');
	$write->($mine, "wrongwrongwrongwrong\n");
	$node->reload;
	poll_until(
		sub {
			$node->sql_error(q(SELECT le_acquire('jobs/b'))) =~ /LE005/;
		},
		'refusal of a wrong one');
	unlike($node->log_since, qr/5e5f0c1d2b3a49586776|wrongwrong/,
		'no token in the log');
	unlike($node->sql(q(SELECT string_agg(s::text, ' ') FROM le_status s)),
		qr/5e5f0c1d2b3a49586776|wrongwrong/, 'nor in the views');
	$write->($mine, "0123456789abcdef0123\n");
	$node->reload;
	poll_until(
		sub { $node->sql_error(q(SELECT le_acquire('other'))) eq '' },
		'the wider token');
	is($node->sql(q(SELECT le_step_down())), 't', 'all released');
	$node->configure(gateway_url => $recorder->url,
		gateway_token_file => '');
};

# TLS as for Consul: chain and name are verified, and so is the client.
subtest 'TLS' => sub {
	my $ca = LeaderElection::Certificates->new('ca');
	my $stranger = LeaderElection::Certificates->new('stranger');
	my ($cert, $key) = $ca->issue('server');
	my ($mine, $mykey) = $ca->issue('client');
	my $secured = LeaderElection::Gateway->new('tls',
		cassandra => $cassandra, keyspace => $keyspace, scheme => 'https',
		tls => {
			verify_SSL => 1,
			SSL_options => {
				SSL_ca_file => $ca->file,
				SSL_cert_file => $mine,
				SSL_key_file => $mykey
			}
		},
		options => [
			'--tls-cert', $cert, '--tls-key', $key, '--client-ca', $ca->file
		])->start(wait => 0);
	my $try = sub { $node->sql_error(q(SELECT le_acquire('tls'))) };

	$node->configure(gateway_url => $secured->url,
		ca_file => $stranger->file);
	poll_until(sub { $try->() =~ /LE003.*certificate/is },
		'refusal of a certificate by a stranger');
	$node->configure(ca_file => $ca->file);
	poll_until(sub { $try->() =~ /LE00[345]/ },
		'refusal of a client without a certificate');
	$node->configure(cert_file => $mine, key_file => $mykey);
	$node->sql(q(SELECT le_campaign('tls')));
	$node->wait_for_leadership('tls');
	pass('leads with one, by no proxy of the environment');
	is($node->sql(q(SELECT le_withdraw('tls'))), 't', 'withdrawn');
	$node->configure(gateway_url => $recorder->url, ca_file => '',
		cert_file => '', key_file => '');
};

$node->stop;
# The name server never answers for the name of one of two gateways: requests to the
# other, renewals above all, do not wait for that.
subtest 'a gateway that is being looked up' => sub {
	my $resolver = LeaderElection::Resolver->new;
	my $named;

	$resolver->hang;
	$resolver->preloaded(
		sub {
			$named = LeaderElection::Node->create('c',
				gateway => [
					"http://slow.example:$gateway->{port}", $gateway->url
				],
				settings => {%settings});
		});
	ok($named->acquire('named'), 'acquired through the other');
	$resolver->wait_for_lookup;
	ok($named->sql("SELECT le_renew('named') FROM generate_series(1, 3)"),
		'renewed through it');
	$named->wait_for("SELECT renewals >= 6 FROM le_stat() WHERE election = 'named'");
	is($named->sql("SELECT losses FROM le_stat() WHERE election = 'named'"),
		0, 'no term was lost');
	# it takes 20 s
	cmp_ok($named->sql('SELECT longest_turn FROM le_stat_info'),
		'<', 10_000, 'no look-up was waited for');
	$named->stop;
};

done_testing();
