# Tier: test, 23 s
#
# Settings: refusals and their reasons, the effects of a reload under a leader, and
# the limit of the lease table.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my $node = LeaderElection::Node->create(
	'a',
	consul => $consul,
	settings => { lease_ttl => '10s' });
my $dir = $PostgreSQL::Test::Utils::tmp_check;

# Reloads, and waits until the worker has: it leads an election that only the
# new settings name.
my $reloads = 0;
my @campaign;

sub configure
{
	my (%settings) = @_;
	my $mark = 'reload' . ++$reloads;

	$node->configure(%settings, campaign => join(',', @campaign, $mark));
	$node->wait_for_leadership($mark);
	return;
}

# The store sessions of this node, as Consul has them.
sub sessions
{
	my ($at) = @_;

	return grep { $_->{Name} eq 'leader_election: ' . $node->name }
	  @{ ($at // $consul)->get('/v1/session/list?consistent')->{json} };
}

# Each value is refused when it is set, with words that tell why.
subtest 'check hooks' => sub {
	my $name = qr/consists of printable characters/;
	my $url = qr{must have the form http://host:port or https://host:port};
	my $socket = qr{A socket is named unix:///path, with .* up to 107 bytes};
	my $prefix = qr/has the same form as an election name/;
	my $range = qr/outside the valid range/;
	my @bad = (
		[ backend => 'etcd', qr/HINT:  Available values: local, consul/ ],
		[ node_name => 'n' x 129, qr/at most 128 bytes/ ],
		[ node_name => "a\nb", $name ],
		[ node_name => "a\x7f", $name ],
		[ node_value => 'v' x 1025, qr/at most 1024 bytes/ ],
		[ campaign => 'a, /b', qr{"/b" is not a valid election name} ],
		[ campaign => 'a b', qr/"a b" is not a valid/ ],
		[ campaign => 'a,b/../c', qr{"b/\.\./c" is not a valid} ],
		[ campaign => 'e' x 201, qr/"e+" is not a valid/ ],
		[ eligible => 'perhaps', qr/requires a Boolean/ ],
		[ standby_eligible => 'perhaps', qr/requires a Boolean/ ],
		[ consul_takeover => 'perhaps', qr/requires a Boolean/ ],
		[ max_elections => 0, $range ],
		[ max_elections => 100001, $range ],
		[ lease_ttl => '2999ms', $range ],
		[ lease_ttl => '60001ms', $range ],
		[ renew_interval => '-1', $range ],
		[ renew_interval => '30001ms', $range ],
		[ safety_margin => '99ms', $range ],
		[ safety_margin => '30001ms', $range ],
		[ request_timeout => '99ms', $range ],
		[ request_timeout => '60001ms', $range ],
		[ shutdown_timeout => '-1', $range ],
		[ shutdown_timeout => '60001ms', $range ],
		[ consul_url => '', $url ],
		[ consul_url => 'ftp://host', $url ],
		[ consul_url => 'host:8500', $url ],
		[ consul_url => 'http://', $url ],
		[ consul_url => 'http:///path', $url ],
		[ consul_url => 'http://host/?x=y', $url ],
		[ consul_url => 'http://host/#x', $url ],
		[ consul_url => 'http://ho st', $url ],
		[ consul_url => 'unix://', $socket ],
		[ consul_url => 'unix://run/consul.sock', $socket ],
		[ consul_url => 'unix:///' . 'x' x 107, $socket ],
		[ consul_url => "http://host\n", $url ],
		[
			consul_url => 'http://me:secret@host',
			qr/must not contain a user or password.*HINT:.*consul_token_file/s
		],
		[ consul_datacenter => 'dc 1', qr/consists of letters, digits/ ],
		[ consul_datacenter => 'dc&x', qr/consists of letters, digits/ ],
		[ consul_key_prefix => '', $prefix ],
		[ consul_key_prefix => '/a', $prefix ],
		[ consul_key_prefix => 'a/', $prefix ],
		[ consul_key_prefix => 'a//b', $prefix ],
		[ consul_key_prefix => 'a/../b', $prefix ],
		[ consul_key_prefix => 'a b', $prefix ],
		[ consul_key_prefix => 'p' x 201, $prefix ],
		[ nonsense => 1, qr/unrecognized configuration parameter/ ]);
	my @good = (
		[ node_name => 'n' x 128 ],
		[ node_value => 'v' x 1024 ],
		[ campaign => "a,\t b/c ,,d" ],
		[ campaign => 'e' x 200 ],
		[ max_elections => 100000 ],
		[ lease_ttl => '3s' ],
		[ lease_ttl => '60s' ],
		[ safety_margin => '100ms' ],
		[ shutdown_timeout => 0 ],
		[ consul_url => 'https://host.example:8501/consul' ],
		[ consul_url => 'http://[::1]:8500' ],
		[ consul_url => 'unix:///run/consul.sock' ],
		[ consul_url => 'unix:///' . 'x' x 106 ],
		[ consul_key_prefix => 'a/b.c_d-e' ],
		[ consul_datacenter => 'dc-1_x' ]);

	foreach my $case (@bad)
	{
		my ($setting, $value, $why) = @$case;
		my $shown = substr($value, 0, 20) =~ s/[^ -~]/?/gr;

		like(
			$node->sql_error(
				"ALTER SYSTEM SET leader_election.$setting = '$value'"),
			$why,
			"$setting = '$shown'");
	}
	foreach my $case (@good)
	{
		my ($setting, $value) = @$case;

		is( $node->sql_error(
				"ALTER SYSTEM SET leader_election.$setting = '$value'"),
			'',
			"$setting may be '" . substr($value, 0, 20) =~ s/\t/ /r . "'");
	}
	$node->sql('ALTER SYSTEM RESET ALL');
	like(
		$node->sql_error("SET leader_election.consul_url = 'http://host'"),
		qr/55P02: .*cannot be changed now/,
		'where the store is cannot be set from SQL');
};

# A value that is refused at reload changes nothing. But other instances may have
# taken it, so this one does not lead.
subtest 'bad value in the file' => sub {
	my $offset = $node->log_offset;
	my $token;

	@campaign = ('held');
	configure();
	$node->wait_for_leadership('held');
	$token = $node->token('held');
	$node->configure(consul_url => 'nonsense', lease_ttl => '1s');
	$node->wait_for_log_like(
		qr/invalid value for parameter "leader_election.consul_url"/, $offset);
	$node->wait_for(q(SELECT NOT le_is_leader('held')), 'the end of the term');
	is(
		$node->sql(
			q(SELECT current_setting('leader_election.consul_url') ||
			current_setting('leader_election.lease_ttl'))),
		$consul->url . '10s',
		'values stay as they were');
	$node->configure(consul_url => $consul->url, lease_ttl => '10s');
	configure();
	$node->wait_for_leadership('held');
	guarantee('G2', [ $token, $node->token('held') ], 'the next term, when mended');
};

# Three attempts have to fit before the deadline, or one lost packet deposes.
subtest 'unsafe timing' => sub {
	my %unsafe = (
		'renew_interval (7501 ms) plus 3 attempts of at least 500 ms need '
		  . '9001 ms, but lease_ttl minus safety_margin leaves '
		  . '10000 ms - 1000 ms = 9000 ms.' =>
		  { renew_interval => '7501ms', safety_margin => '1s' },
		'safety_margin (5000 ms) must be less than half of lease_ttl '
		  . '(10000 ms / 2 = 5000 ms).' =>
		  { renew_interval => '0', safety_margin => '5s' });
	my @just_safe = (
		{ renew_interval => '7500ms', safety_margin => '1s' },
		{ renew_interval => '0', safety_margin => '4999ms' });

	foreach my $why (sort keys %unsafe)
	{
		my $offset = $node->log_offset;
		my $error;

		still_leads($node, 'held', 'led before');
		$node->configure(%{ $unsafe{$why} });
		$node->wait_for("SELECT NOT le_is_leader('held')");
		$node->wait_for_log_like(
			qr/timing is unsafe: this node does not lead\n.*DETAIL:  \Q$why\E/,
			$offset);
		pass('the arithmetic is in the log');
		$error = $node->sql_error("SELECT le_acquire('e')");
		like($error, qr/ERROR:  LE005: this node may not lead election "e"/,
			'refused');
		like($error, qr/DETAIL:  \Q$why\E/, 'with the arithmetic');
		configure(renew_interval => 0, safety_margin => '1s');
		$node->wait_for_leadership('held');
	}
	foreach my $settings (@just_safe)
	{
		my $token = $node->token('held');

		configure(%$settings);
		same_term($token, $node->token('held'),
			join(', ', %$settings) . ' is just safe');
	}

	# At start, too.
	my $offset = $node->log_offset;

	$node->set('leader_election.renew_interval', '9s');
	$node->restart;
	$node->wait_for_log_like(qr/timing is unsafe/, $offset);
	like($node->sql_error("SELECT le_acquire('e')"), qr/LE005/, 'at start');
	configure(renew_interval => 0, safety_margin => '1s');
	$node->wait_for_leadership('held');
};

# A reload must not depose a leader: it happens in the middle of the day.
subtest 'reload under a leader' => sub {
	my $recorder =
	  LeaderElection::Recorder->new('r', $consul->host_port)->start;
	my %change = (
		node_value => 'published by a later term',
		standby_eligible => 'on',
		clone_eligible => 'off',
		read_only_eligible => 'on',
		renew_interval => '2s',
		safety_margin => '1500ms',
		request_timeout => '3s',
		shutdown_timeout => '1s',
		azure_container_url => 'http://127.0.0.1:1/account/container',
		azure_identity => 'system',
		azure_identity_url => 'http://127.0.0.1:1',
		azure_poll_interval => '3s',
		azure_prefix => 'another',
		azure_sas_file => "$dir/no_token",
		cancel_lead => '900ms',
		commit_margin => '300ms',
		job_check_interval => '1min',
		progress_within => '1h',
		drain_timeout => '4s',
		max_jobs => '500',
		max_tick_ahead => '1h',
		max_clock_offset => '2min',
		consul_token_file => "$dir/no_token",
		consul_url => $recorder->url,
		consul_takeover => 'off',
		gateway_url => 'http://127.0.0.1:1',
		gateway_token_file => "$dir/no_token",
		ca_file => "$dir/no_ca",
		cert_file => "$dir/no_cert",
		key_file => "$dir/no_key");

	# with consequences of their own, tested here and in 003_scopes.pl
	my %special = map { $_ => 1 }
	  qw(campaign eligible lease_ttl consul_key_prefix consul_datacenter);
	my $token = $node->token('held');
	my ($session) = sessions();
	my $mark;

	append_to_file("$dir/no_token", "\n");
	foreach my $name (
		split /\n/,
		$node->sql(
			"SELECT substr(name, 17) FROM pg_settings WHERE context = 'sighup' "
			  . "AND name LIKE 'leader\\_election.%' ORDER BY 1"))
	{
		next if $special{$name};
		ok(defined $change{$name}, "$name is known to this test") or next;
		configure($name => delete $change{$name});
		same_term($token, $node->token('held'), "$name changed: the same term");
	}
	is_deeply([ sort keys %change ], [], 'all were there');
	$mark = $recorder->mark;
	$recorder->wait_for_request(qr/session.renew/, $mark);
	pass('the new URL is used');
	same_term($token, $node->token('held'), 'still the same term');
	is((sessions())[0]{ID}, $session->{ID}, 'and the same store session');
	configure(
		consul_url => $consul->url,
		consul_token_file => '',
		ca_file => '',
		cert_file => '',
		key_file => '',
		node_value => '');
	$node->sql("SELECT le_renew('held')");
	same_term($token, $node->token('held'), 'back again: the same term');
	$recorder->terminate;
};

# A setting that is fixed for the life of a store session takes another one.
subtest 'settings that start a new store session' => sub {
	my %change = (
		lease_ttl => '12s',
		consul_key_prefix => 'elsewhere/le',
		consul_datacenter => 'dc1');

	foreach my $name (sort keys %change)
	{
		my $offset = $node->log_offset;
		my $token = $node->token('held');
		my ($before) = sessions();
		my @after;

		ok($node->acquire('manual'), 'a term that no campaign renews');
		configure($name => $change{$name});
		$node->wait_for_leadership('held');
		ok( $node->log_like(
				qr/settings changed: starting a new store session/, $offset),
			"$name: announced");
		guarantee('G2', [ $token, $node->token('held') ], "$name: a new term");
		ok(!$node->is_leader('manual'), 'the other has ended');
		@after = sessions();
		is(scalar @after, 1, 'one store session');
		isnt($after[0]{ID}, $before->{ID}, 'another one');
	}
	is((sessions())[0]{TTL}, '12s', 'with the new lease');
	ok($consul->kv('elsewhere/le/held/leader')->{Session},
		'the key is under the new prefix');
	is(scalar(grep { $_->{Session} }
			  values %{ $consul->kv_tree('leader_election') }),
		0, 'nothing is held under the old one');
	is_deeply(
		[ keys %{ $consul->kv_tree('leader_election.nodes/') } ],
		[], 'nor is a node key there');

	# A datacenter that does not exist: it says so, and comes back.
	$node->configure(consul_datacenter => 'nowhere');
	$node->wait_for("SELECT NOT le_is_leader('held')");
	like($node->sql_error("SELECT le_acquire('manual')"),
		qr/LE003: could not acquire.*DETAIL:.*datacenter/s, 'no such place');
	configure(consul_datacenter => '');
	$node->wait_for_leadership('held');
	pass('and back');
};

# Tokens are rotated by replacing a file; a leader must survive that.
subtest 'token file' => sub {
	my $secured = LeaderElection::Consul->new('acl', acl => 1)->start;
	my $rules = 'key_prefix "sec" { policy = "write" } '
	  . 'session_prefix "" { policy = "write" }';
	my @secret = map { $secured->acl_token($rules) } 1 .. 2;
	my $file = "$dir/token";
	my ($token, $error);
	my $put = sub {
		unlink $file;
		append_to_file($file, "$_[0]\n");
	};
	my $offset = $node->log_offset;

	$put->($secret[0]);
	$node->configure(
		consul_url => $secured->url,
		consul_token_file => $file,
		consul_key_prefix => 'sec',
		campaign => '');
	@campaign = ();
	$node->wait_for(
		"SELECT count(*) = 0 FROM le_status WHERE state = 'leader'");
	poll_until(sub { eval { $node->acquire('e') } }, 'a term with a token');
	$token = $node->token('e');

	$put->($secret[1]);
	configure();
	$secured->put('/v1/acl/logout', '', token => $secret[0]);
	is($node->sql("SELECT le_renew('e')"), 't', 'renewed with another token');
	same_term($token, $node->token('e'), 'in the same term');

	$put->('00000000-0000-0000-0000-00000000dead');
	$node->reload;
	poll_until(
		sub {
			$error = $node->sql_error("SELECT le_acquire('f')");
			$error =~ /LE005/;
		},
		'a wrong token to be read');
	like($error, qr/ERROR:  LE005: could not acquire election "f"/, 'refused');
	like($error, qr/DETAIL:  HTTP 403: .*ACL not found/, 'by Consul');
	unlike($error, qr/dead/, 'which does not tell the token');

	$put->($secret[0]);
	$node->reload;
	poll_until(sub { eval { $node->acquire('f') } }, 'the token to be read');
	pass('a right token');

	# Unreadable: said once, and the requests go without.
	unlink $file;
	$node->reload;
	$node->wait_for_log_like(
		qr/could not open token file ".*token": No such file/, $offset);
	like($node->sql_error("SELECT le_acquire('g')"),
		qr/LE005.*HTTP 403/s, 'refused without a token');
	$put->("two\nlines are fine, two words are not");
	$put->('two words');
	$node->reload;
	$node->wait_for_log_like(
		qr/token file ".*token" does not hold one printable token/, $offset);
	my $log = $node->log_since($offset);

	ok(index($log, $_) < 0, 'no token in the log') foreach @secret;
	$node->stop;
	$secured->stop;
};

# The table is of fixed size; being full must be an error, never a mix-up.
subtest 'lease table' => sub {
	my $small = LeaderElection::Node->create(
		'small',
		settings => { lease_ttl => '10s', max_elections => 3 });
	my $session = LeaderElection::Session->new($small);
	my $offset = $small->log_offset;
	my $error;

	is($session->query("SELECT le_acquire('t' || i) FROM generate_series(1, 3) i"),
		"t\nt\nt", 'room for three');
	$error = $small->sql_error("SELECT le_acquire('t4')");
	like($error, qr/ERROR:  53400: no room for another election/, 'no fourth');
	like($error, qr/HINT:  Raise "leader_election.max_elections"/, 'with advice');
	like($small->sql_error("SELECT le_campaign('t4')"),
		qr/53400/, 'nor as a candidacy');
	$small->configure(campaign => 't4');
	$small->wait_for_log_like(qr/no room for election "t4" in the lease table/,
		$offset);
	pass('the log tells of one in the configuration');
	$small->configure(campaign => '');
	is($small->leader('t4'), undef, 'looking does not take room');
	is($session->query("SELECT le_is_leader('t4')"), 'f', 'not led');
	is($session->query("SELECT le_is_leader('t2')"), 't', 'the others are');

	# One slot, two names, one after the other.
	my $token = $session->query("SELECT le_fencing_token('t2')");

	is($small->release('t2') && $small->acquire('t4'), 1, 'its place is taken');
	denied('G5', $session->query("SELECT le_is_leader('t2')"), 'the old name: not led');
	denied('G5', $session->query("SELECT le_fencing_token('t2')"), 'no token');
	is($session->query("SELECT le_is_leader('t4')"), 't', 'the new name: led');
	is($session->query("SELECT count(*) FROM le_status"), 3, 'three rows');
	$small->release('t4');
	ok($small->acquire('t2'), 'the old name again');
	denied('G5', $session->query("SELECT le_is_leader('t4')"), 'the new one: not led');
	guarantee('G2', [ $token, $session->query("SELECT le_fencing_token('t2')") ],
		'its tokens go on');

	# A name in hold-off keeps its place: forgetting it would end the hold-off.
	$small->sql("SELECT le_step_down('t2', '1 min')");
	like($small->sql_error("SELECT le_acquire('t4')"), qr/53400/, 'held off');
	$small->restart;

	# Names come and go in two slots as fast as they can, while others look:
	# "mine" is only ever led by a session, so for the others it is never.
	$small->set('leader_election.max_elections', 2);
	$small->restart;
	$small->wait_for_worker;
	$small->sql(<<'END');
CREATE FUNCTION churn() RETURNS int LANGUAGE plpgsql AS $$
DECLARE n int := 0;
BEGIN
	WHILE n <= 20 OR pg_stat_file('enough', true) IS NULL LOOP
		PERFORM le_acquire('mine', scope => 'session');
		PERFORM le_release('mine');
		FOR i IN 1 .. 4 LOOP
			PERFORM le_acquire('node' || (n + i) % 7);
			PERFORM le_release('node' || (n + i) % 7);
		END LOOP;
		n := n + 1;
	END LOOP;
	RETURN n;
END $$;
CREATE FUNCTION look(until timestamptz, OUT wrong int, OUT seen int)
LANGUAGE plpgsql AS $$
BEGIN
	wrong := 0;
	seen := 0;
	WHILE clock_timestamp() < until OR seen = 0 LOOP
		FOR i IN 0 .. 6 LOOP
			wrong := wrong + le_is_leader('mine')::int
				+ (le_fencing_token('mine') IS NOT NULL)::int;
			seen := seen + le_is_leader('node' || i)::int;
		END LOOP;
	END LOOP;
END $$
END
	my $until = $small->sql("SELECT clock_timestamp() + '4 s'");
	my $busy = LeaderElection::Session->new($small);
	my @look = map { LeaderElection::Session->new($small) } 1 .. 2;
	my $seen = 0;

	$busy->start('SELECT churn()');
	$_->start("SELECT wrong, seen FROM look('$until')") foreach @look;
	$_->finish foreach @look;
	append_to_file($small->data_dir . '/enough', '');
	cmp_ok($busy->finish->{output}, '>', 20, 'names came and went');
	foreach my $session (@look)
	{
		my ($wrong, $some) = split /\|/, $session->finish->{output};

		denied('G1', $wrong // 'none', 'never a wrong true');
		$seen += $some;
	}
	cmp_ok($seen, '>', 0, 'while there was something to be seen');

	# The largest table there can be.
	$small->set('leader_election.max_elections', 100000);
	$small->restart;
	ok($small->acquire('t1'), 'a large table works');
	$small->stop;
};

done_testing();
