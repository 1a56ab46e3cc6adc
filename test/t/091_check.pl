# Tier: test, 32 s
#
# le_check_config() names each fault, and finds none where there is none.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul', acl => 1)->start;
my $token_file = "$PostgreSQL::Test::Utils::tmp_check/t_091_token";

sub use_token
{
	my ($token) = @_;

	open(my $fh, '>', $token_file) or die "$token_file: $!";
	print $fh "$token\n";
	close $fh;
	chmod 0600, $token_file or die "$token_file: $!";
	return;
}

use_token($consul->{token});

my $node = LeaderElection::Node->create(
	'checked',
	consul => $consul,
	settings => { consul_token_file => $token_file, campaign => 'billing' });

# Rows as "level|topic|message".
sub report
{
	my ($of) = @_;
	my $rows = $of->ask('SELECT * FROM le_check_config()');

	note($rows);
	return $rows;
}

# Until a reload has taken effect: waits for what it should bring about.
sub wait_for_row
{
	my ($of, $pattern, $what) = @_;
	my $rows;

	ok(eval { poll_until(sub { ($rows = report($of)) =~ $pattern }, $what) },
		$what) or diag($rows);
	return $rows;
}

# The clock is the machine's, and none of this test's business.
sub complaints
{
	my ($rows) = @_;

	return join("\n",
		grep { !/^ok\|/ && !/\|clock source\|/ } split /\n/, $rows);
}

subtest 'all is well' => sub {
	$node->wait_for_leadership('billing');

	my $token = $node->token('billing');
	my $key = $consul->kv('leader_election/billing/leader');
	my $rows = report($node);
	my $worker = $node->worker_pid;

	is(complaints($rows), '', 'nothing to complain of');
	like($rows, qr/^ok\|worker\|The worker, process $worker, answers\.$/m,
		'worker');
	like($rows, qr/^ok\|node\|This is node "checked", incarnation [0-9a-f]{32}/m,
		'node');
	like($rows, qr/^ok\|campaign\|.* 1 election\.$/m, 'campaign');

	# with the default settings: 15 s, 1 s, 5 s, 5 s
	foreach my $said (
		qr/timing\|renew_interval \(5000 ms\) plus 3 attempts of at least 500 ms need 6500 ms of the 14000 ms/,
		qr/requests\|.* when 9000 ms are left .* 3000 ms: .* 15000 ms\./,
		qr/belief\|.* at most 14000 ms /,
		qr/clock rate\|.* less than 6\.67 %/,
		qr/failover\|.* within 19000 ms: .* 250 ms\./,
		qr/handoff\|.* 2 x \d+\.\d ms on average/,
		qr/lock-delay\|.* \(15000 ms\) covers the 14000 ms .* TTL 15000 ms/,
		qr/store outage\|.* for 9000 ms:/,
		qr/contact\|The store last answered \d+\.\d s before this check\./,
		qr/node\|No other live node has been seen\./,
		qr/store\|The store lets this instance use the key prefix\./,
		qr/store\|.* have a store session and a node key\./,
		qr/store\|.* read election "billing"\./,
		qr/store\|.* write election "billing"\./,
		qr/claims\|The store lets this instance claim ticks of election "billing"\./,
		qr/on_loss\|.* 1000 ms - 250 ms = 750 ms .* since 9000 ms are left/)
	{
		like($rows, qr/^ok\|$said/m, $said);
	}
	like($rows, qr/clock source\|Reading the clock takes \d+ ns/, 'clock');

	# asking changed nothing
	same_term($token, $node->token('billing'), 'the same term');
	is($consul->kv('leader_election/billing/leader')->{ModifyIndex},
		$key->{ModifyIndex}, 'the key was not written');
	is_deeply([ keys %{ $consul->kv_tree('leader_election.claims/') } ], [], 'nor a claim');
};

subtest 'keys that no election has written yet' => sub {
	my $other = LeaderElection::Node->create(
		'other',
		consul => $consul,
		settings => { consul_token_file => $token_file, eligible => 'off' });

	$other->sql("SELECT le_campaign('fresh')");
	like(report($other), qr/^warning\|node\|.*eligible" is off/m, 'not eligible');
	is(scalar @{ $consul->get('/v1/session/list')->{json} },
		1, 'and makes no store session');
	$node->sql("SELECT le_step_down('billing', '1 h')");
	$other->set('leader_election.campaign', 'fresh, billing');
	$other->configure(eligible => 'on');
	$other->wait_for_leadership('fresh');
	$other->stop;
	$node->sql("SELECT le_campaign('billing'), le_campaign('never')");
	$node->wait_for_leadership($_) foreach 'billing', 'never';
	$node->sql("SELECT le_step_down('never', '1 h')");
	$consul->delete('/v1/kv/leader_election/never/leader');
	is(complaints(report($node)), '', 'absent keys are no fault');
	is($consul->kv('leader_election/never/leader'), undef, 'and stay absent');
	$node->sql("SELECT le_withdraw('never'), le_campaign('billing')");
};

subtest 'permissions' => sub {
	my $rules = sub {
		my ($billing, $claims) = @_;

		use_token(
			$consul->acl_token(
				qq(key_prefix "leader_election/" { policy = "read" }\n)
				  . qq(key_prefix "leader_election/billing/" { policy = "$billing" }\n)
				  . qq(key_prefix "leader_election.nodes/" { policy = "write" }\n)
				  . ($claims ? qq(key_prefix "leader_election.claims/" { policy = "$claims" }\n) : '')
				  . qq(session_prefix "" { policy = "write" }\n)));
		$node->reload;
	};

	my $offset = $node->log_offset;
	my $number = $node->sql('SELECT coalesce(max(number), 0) FROM le_events');

	$rules->('read');
	wait_for_row(
		$node,
		qr/^error\|store\|Could not write election "billing": .*key:write/m,
		'may read, not write');
	$rules->('write');
	wait_for_row($node, qr/^ok\|store\|.* write election "billing"/m,
		'may write');

	foreach my $claims (undef, 'read')
	{
		$rules->('write', $claims);
		wait_for_row(
			$node,
			qr/^warning\|claims\|Could not claim ticks of election "billing", which le_claim\(\) and le_run\(\) need: .*Permission denied/m,
			'may not claim');
	}
	$rules->('write', 'write');
	wait_for_row($node, qr/^ok\|claims\|/m, 'may claim');
	ok(!$node->log_like(qr/refused to (?:complete|claim)/, $offset), 'a claim that was made up is not logged as refused');
	is($node->sql("SELECT count(*) FROM le_events WHERE number > $number AND event = 'store refused' AND detail LIKE 'could not complete%'"),
		0, 'nor an event');
	use_token('bbbbbbbb-0000-0000-0000-000000000000');
	$node->reload;
	my $rows = wait_for_row($node,
		qr/^error\|store\|Could not use the key prefix: .*ACL not found/m,
		'unknown token');
	unlike($rows, qr/bbbbbbbb/, 'which is not shown');
	use_token($consul->{token});
	$node->reload;
	wait_for_row($node, qr/^ok\|store\|.* use the key prefix/m, 'a good one');
};

# Known only by trying, on a node that has no session yet.
subtest 'no store session to be had' => sub {
	my $file = "$token_file.narrow";
	my $narrow = LeaderElection::Node->create(
		'narrow',
		consul => $consul,
		settings => { consul_token_file => $file });

	append_to_file($file,
		$consul->acl_token(
			qq(key_prefix "leader_election" { policy = "write" }\n)));
	$narrow->reload;
	wait_for_row(
		$narrow,
		qr/^error\|store\|Could not have a store session and a node key: .*session:write/m,
		'told why');
	$narrow->stop;
};

subtest 'settings' => sub {
	my $rows;

	$node->configure(
		lease_ttl => '5 s',
		safety_margin => '500 ms',
		consul_takeover => 'off',
		shutdown_timeout => 0,
		campaign => '');
	$node->sql("SELECT le_withdraw('billing')");
	$rows = wait_for_row($node, qr/^warning\|campaign\|.* for nothing/m,
		'no campaign');
	like($rows, qr/^warning\|store outage\|.* for 2833 ms /m, 'short lease');
	like($rows, qr/^warning\|failover\|.* 25750 ms .* TTL \(10000 ms\)/m,
		'no takeover');
	like($rows, qr/^warning\|handoff\|A shutdown releases nothing/m,
		'no time for a shutdown');
	$node->configure(safety_margin => '3 s');
	$rows = wait_for_row(
		$node,
		qr/^error\|timing\|This node does not lead: safety_margin \(3000 ms\) .* 2500 ms/m,
		'unsafe');
	unlike($rows, qr/\|(?:belief|failover|lock-delay|on_loss)\|/,
		'no arithmetic with it');
	$node->configure(safety_margin => '1 s', cancel_lead => '200 ms');
	wait_for_row(
		$node,
		qr/^warning\|on_loss\|on_loss => 'cancel', the default of le_run\(\), is refused: cancel_lead \(200 ms\) must be more than commit_margin \(250 ms\)\.$/m,
		'cancels too late');
	$node->configure(cancel_lead => '2500 ms', on_loss => 'cancel');
	wait_for_row(
		$node,
		qr/^error\|on_loss\|.*cancel_lead \(2500 ms\) must be less than .*: 5000 ms - 1000 ms - 1666 ms = 2333 ms\.$/m,
		'too early, and is the default');
	$node->configure(cancel_lead => '1 s', on_loss => 'none');
	wait_for_row($node, qr/^ok\|on_loss\|/m, 'good again');
	$node->configure(
		lease_ttl => '15 s',
		safety_margin => '1 s',
		consul_takeover => 'on',
		shutdown_timeout => '2 s',
		campaign => 'billing');
	$node->wait_for_leadership('billing');
};

# The check must report a fault, not hang by it.
subtest 'store and worker' => sub {
	my ($rows, $worker);

	$consul->freeze;
	$node->configure(request_timeout => '300 ms');
	wait_for_row($node, qr/^error\|store\|Could not use the key prefix: .*timed out/m,
		'store hangs');
	wait_for_row($node,
		qr/^warning\|contact\|The store last answered \d{2,}\.\d s before/m,
		'silent for two rounds');
	$consul->thaw;
	wait_for_row($node, qr/^ok\|store\|.* use the key prefix/m, 'answers again');

	$worker = $node->freeze_worker;
	$rows = report($node);
	like($rows, qr/^error\|worker\|The worker, process $worker, has not answered/m,
		'worker stopped');
	unlike($rows, qr/\|store\|/, 'the store is not asked about');
	$node->thaw_worker($worker);
	wait_for_row($node, qr/^ok\|worker/m, 'goes on');

	$node->set('leader_election.max_events', 17);
	$node->reload;
	wait_for_row($node,
		qr/^warning\|settings\|Settings that change with the next restart: "leader_election.max_events"\./m,
		'a value that waits for a restart');

	# Nobody promises that it starts again, or takes settings for empty.
	$node->set('max_worker_processes', 0);
	$node->restart;
	$rows = report($node);
	unlike($rows, qr/next restart/, 'which has come');
	like($rows, qr/^error\|worker\|The worker is not running\. .*"max_worker_processes" \(0\)/m,
		'no worker');
	unlike($rows, qr/^\w+\|(?:campaign|names)\|/m, 'its part in elections is not reported');
	like($node->sql_error("SELECT le_acquire('billing')"),
		qr/55000: the leader_election worker is not running.*"max_worker_processes" \(0\) left no process for it\..*Raise/s,
		'a call says so');
	like(($node->psql('postgres', "CALL le_run('billing', 'SELECT 1')"))[2],
		qr/WARNING:  the leader_election worker is not running.*"max_worker_processes" \(0\).*not run here/s,
		'le_run, too');
	$node->stop;
};

# Attempts are none that the store has answered.
subtest 'a store that has never answered' => sub {
	my $node = LeaderElection::Node->create(
		'unheard',
		settings => {
			backend => 'consul',
			consul_url => 'http://127.0.0.1:9',
			campaign => 'billing'
		});

	$node->wait_for("SELECT last_error IS NOT NULL FROM le_status WHERE election = 'billing'", 'an attempt');
	like(report($node), qr/^ok\|contact\|The store has not answered since the start\.$/m, 'it has not answered');
	$node->stop;
};

subtest 'store local' => sub {
	my $local = LeaderElection::Node->create('local',
		settings => { campaign => 'billing' });
	my $rows;

	$local->wait_for_leadership('billing');
	$rows = report($local);
	is(complaints($rows), '', 'nothing to complain of');
	like($rows, qr/^ok\|store\|The store "local" elects among the sessions/m,
		'its kind');
	unlike($rows, qr/\|(?:failover|lock-delay|contact)\|/, 'nothing of Consul');
	like($local->sql_error('SET ROLE pg_monitor; SELECT * FROM le_check_config()'),
		qr/42501/, 'not for everybody');
};

done_testing();
