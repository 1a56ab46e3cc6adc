# Tier: test, 58 s
#
# The views when something is wrong: the reason, and since when, until all works
# again; the leader, as far as anybody knows; instances that could lead.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Lectl;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Requests;
use LeaderElection::Session;
use LeaderElection::Takeover;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = $PostgreSQL::Test::Utils::tmp_check;
my $rules = join "\n",
  'key_prefix "leader_election.nodes/" { policy = "write" }',
  'session "acl" { policy = "write" }';
$rules .= "\n" . 'key_prefix "leader_election.claims/" { policy = "write" }';
my $write = "$rules\n" . 'key_prefix "leader_election/" { policy = "write" }';
my $read = "$rules\n" . 'key_prefix "leader_election/" { policy = "list" }';
my $consul = LeaderElection::Consul->new(
	'acl',
	acl => 1,
	config => 'acl { enable_key_list_policy = true }')->start;

sub token_file { return "$dir/t_101_status_token_$_[0]"; }

sub write_token
{
	my ($name, $token) = @_;

	unlink token_file($name);
	append_to_file(token_file($name), "$token\n");
	return;
}

# A token whose rights can be changed.
sub make_token
{
	my ($name, $may) = @_;
	my $policy = $consul->put('/v1/acl/policy', { Name => $name, Rules => $may })->{json};
	my $token = $consul->put('/v1/acl/token', { Policies => [ { Name => $name } ] })->{json};

	write_token($name, $token->{SecretID});
	return ($policy->{ID}, $token->{SecretID});
}

sub allow
{
	my ($id, $name, $may) = @_;

	is($consul->put("/v1/acl/policy/$id", { Name => $name, Rules => $may })->{status}, 200, "rights of $name");
	return;
}

my $recorder = LeaderElection::Recorder->new('b', $consul->host_port)->start;
my (%policy, %token, %node);

foreach my $name ('a', 'b')
{
	($policy{$name}, $token{$name}) = make_token($name, $write);
	$node{$name} = LeaderElection::Node->create(
		$name,
		consul => $name eq 'b' ? $recorder : $consul,
		settings => { short_lease(), consul_token_file => token_file($name) });
}
my ($a, $b) = @node{ 'a', 'b' };

sub status
{
	my ($node, $what) = @_;

	return $node->sql("SELECT $what FROM le_status WHERE election = 'e'");
}

sub state_of
{
	my ($node, $seen_by) = @_;

	return $seen_by->sql("SELECT string_agg(state, ' ' ORDER BY last_proof_seen_at DESC) FROM le_nodes WHERE node = '"
		  . $node->name
		  . "' AND state NOT IN ('ended', 'revoked', 'silent')");
}

$a->sql("SELECT le_campaign('e')");
$a->wait_for_leadership('e');
$b->sql("SELECT le_campaign('e')");
wait_for_waiter($b, 'e', $a);

# Guards against a token that Consul does not know and nobody hears of, and
# against an error that outlives its cause.
subtest 'a token that nobody knows' => sub {
	is(status($b, "state, last_error, last_error_at"), 'waiting||', 'all is well');
	write_token('b', 'bbbbbbbb-1111-2222-3333-444444444444');
	$b->reload;
	$b->wait_for(
		"SELECT state IN ('waiting', 'candidate') AND last_error ~ 'ACL not found' "
		  . "AND last_error_at > now() - interval '1 min' FROM le_status WHERE election = 'e'",
		'le_status to say why');
	poll_until(sub { state_of($b, $b) eq 'refused' }, 'le_nodes to say it');

	my ($code, $out) = lectl($b, 'check', 'store');

	is($code, 2, 'lectl check store');
	like($out, qr/^LECTL STORE CRITICAL - .*ACL not found/, 'says it, too');
	is((lectl($a, 'check', 'store'))[0], 0, "another's token is not refused");

	my $offset = $b->log_offset;
	my $healed = boottime_ns();

	write_token('b', $token{b});
	$b->reload;
	$b->wait_for("SELECT last_error IS NULL AND last_error_at IS NULL AND state = 'waiting' AND holder = 'a' "
		  . "FROM le_status WHERE election = 'e'", 'it to be well again');
	# sessions end and begin meanwhile; a refusal is forgotten by itself in a minute
	$b->wait_for_log_like(qr/store .* answers again/, $offset);
	before(boottime_ns(), $healed + 60e9, 'the log says so, too');
	poll_until(sub { state_of($b, $a) eq 'live' && state_of($b, $b) eq 'live' }, 'live');
};

# Guards against a candidate that could not lead and is counted as one.
subtest 'a key that may not be written' => sub {
	allow($policy{b}, 'b', $read);
	is($a->sql("SELECT le_step_down('e', '10 s')"), 't', 'nobody leads');
	$b->wait_for("SELECT last_error ~ 'Permission denied' FROM le_status WHERE election = 'e'", 'b to be refused');
	poll_until(sub { state_of($b, $a) eq 'refused' && state_of($b, $b) eq 'refused' }, 'both to see it');
	$a->wait_for_leadership('e');
	is(state_of($a, $b), 'live', 'the leader can lead');
	is(status($a, 'last_error'), '', "another's refusal is not its");
	$b->wait_for("SELECT holder = 'a' AND state = 'waiting' AND last_error ~ 'Permission denied' FROM le_status WHERE election = 'e'",
		'b to wait in vain');

	my $offset = $b->log_offset;

	allow($policy{b}, 'b', $write);
	$b->wait_for("SELECT last_error IS NULL FROM le_status WHERE election = 'e'", 'to be allowed again');
	$b->wait_for_log_like(qr/store .* answers again/, $offset);
	poll_until(sub { state_of($b, $a) eq 'live' }, 'live again');
	still_leads($a, 'e', 'while another leads, which was left alone');
};

subtest 'not eligible' => sub {
	$b->configure(eligible => 'off');
	poll_until(sub { (state_of($b, $a) // '') eq 'ineligible' }, 'the other to see it');
	is(state_of($b, $b), 'ineligible', 'as it does itself');
	is($a->sql("SELECT count(*) FROM le_nodes WHERE state = 'live'"), 1, 'no other candidate');
	$b->configure(eligible => 'on');
	poll_until(sub { state_of($b, $a) eq 'live' && state_of($b, $b) eq 'live' }, 'and back');
};

# Guards against a name that was right once.
subtest 'the holder' => sub {
	is(status($b, 'holder'), 'a', 'seen');
	like($b->sql_error("SELECT le_require_leader('e')"), qr/LE001: .*\nDETAIL:  Node "a" leads, as last seen\.$/m, 'and named by the gate');
	$consul->freeze;
	poll_until(sub { status($a, 'state') ne 'leader' }, 'the term to end');
	isnt(status($a, 'holder'), 'a', 'the former leader does not name itself');
	$b->wait_for("SELECT holder IS NULL FROM le_status WHERE election = 'e'", 'nobody to be known');
	isnt(status($b, 'last_error'), '', 'and why');
	like($_->sql_error("SELECT le_require_leader('e')"),
		qr/LE001: .*\nDETAIL:  No leader is known\. The last error: .*timed out$/m, 'which the gate says')
	  foreach $a, $b;

	my $mark = $recorder->mark;

	like($b->sql_error(q(SET statement_timeout = '60 s'; SELECT * FROM le_claims)),
		qr/LE003/, 'claims are not known, either');
	is(scalar $recorder->requests(qr{^GET /v1/kv/leader_election\.claims/}, $mark),
		1, 'which is said when the store has not answered once');
	$consul->thaw;
	$_->wait_for("SELECT last_error IS NULL AND holder IS NOT NULL FROM le_status WHERE election = 'e'", 'all well')
	  foreach $a, $b;
};

# Guards against a store that counts as down, each second anew, because of one list
# for which there is no room.  (Headers have the lowest limit.)
subtest 'an answer that is too large' => sub {
	my $offset = $b->log_offset;
	my $mark = $recorder->mark;
	my $leader = status($a, 'holder');
	my $claims = qr{^GET /v1/kv/leader_election\.claims/};

	$recorder->rule(
		match => qr{$claims|@{[request_like('list_nodes')]}},
		action => 'answer',
		status => 200,
		body => '[]',
		headers => { 'X-Consul-Index' => 7, 'X-Pad' => 'x' x (80 * 1024) });
	like($b->sql_error('SELECT * FROM le_claims'),
		qr/ERROR:  LE005: .*\nDETAIL:  the answer is too large$/m, "refused: try $_")
	  foreach 1 .. 2;
	poll_until(sub { $recorder->requests(request_like('list_nodes'), $mark) >= 4 }, 'lists of nodes');
	is($b->sql("SELECT le_current_leader('e')"), $leader, 'others are answered');
	is(status($b, 'holder'), $leader, 'and the watch goes on');
	$b->wait_for("SELECT last_error ~ 'too large' FROM le_status WHERE election = 'e'", 'what does not');

	my $log = $b->log_since($offset);

	is(scalar(() = $log =~ /could not use the answer of the store at \S+ could not list $_: the answer is too large/g),
		1, "told once: $_")
	  foreach 'claims', 'nodes';
	unlike($log, qr/ is down|answers again/, 'the store is not down');
	$recorder->clear_rules;
	$b->wait_for("SELECT last_error IS NULL FROM le_status WHERE election = 'e'", 'all well');
};

# Guards against a check that says no for ever without anybody noticing.
subtest 'a misspelt name' => sub {
	my $names = "SELECT message FROM le_check_config() WHERE topic = 'names' AND level = 'warning'";

	is($a->sql($names), '', 'none so far');
	is($a->sql("SELECT le_is_leader('e') IS NOT NULL, le_is_leader('biling')"), 't|f', 'asked');
	$a->sql("SELECT le_is_leader('b' || i || E'\\n') FROM generate_series(1, 3) i");
	like($a->sql($names), qr/^A job asked at .* whether this instance leads "biling", which it never sought/m, 'listed');
	like($a->sql($names), qr/"b3\?"/, 'on a line of its own');
	unlike($a->sql($names), qr/"e"/, 'not an election that it seeks');
	$a->sql("SELECT le_is_leader('x' || i) FROM generate_series(1, 100) i");
	is($a->sql("SELECT count(*) FROM ($names) x"), 4, 'the last few of a role');
	like($a->sql($names), qr/"x99".*"x100"/s, 'with the last');
	$a->sql("SELECT le_campaign('x100')");
	unlike($a->sql($names), qr/"x100"/, 'no more once it is sought');
};

# Columns needed first are on the screen; wide ones come behind.
subtest 'width' => sub {
	my %last = (
		le_status => 'pid',
		le_nodes => 'last_proof_seen_at',
		le_events => 'pid',
		le_claims => 'fencing_token',
		le_jobs => 'error');

	foreach my $view (sort keys %last)
	{
		my (undef, $out) = $a->psql('postgres', "SELECT * FROM $view", extra_params => [ '--no-psqlrc', '-P', 'format=aligned', '-P', 'tuples_only=off' ]);
		my ($head) = split /\n/, $out;
		my $from = index($head, $last{$view});

		cmp_ok($from, '>', 0, "$view: has $last{$view}");
		cmp_ok(index("$head|", '|', $from), '<=', 120, "$view: up to $last{$view}");
	}
};

# Where jobs cannot write, a tick would be claimed and lost, and nobody else would
# run it.
subtest 'read-only' => sub {
	my $reader = LeaderElection::Session->new($a, options => '-c default_transaction_read_only=on');
	my $run = sub { return "CALL le_run('e', '$_[1]', job => '$_[0]', every => '1 h', missed => 'skip')" };
	my $jobs = "SELECT string_agg(job || ' ' || state, ', ' ORDER BY job) FROM le_jobs('0')";
	my $check = "SELECT topic, message FROM le_check_config() WHERE level = 'warning' AND topic IN ('node', 'writes')";

	$b->sql("SELECT le_step_down('e', '10 s')");
	$a->wait_for_leadership('e');
	$a->sql('CREATE TABLE written (job text)');
	like($reader->error($run->('lost', 'INSERT INTO written VALUES (1)')),
		qr/25006: le_run\(\) does not run a command in a read-only transaction.*No tick was claimed.*read_only_eligible/s,
		'by a role or database: refused');
	is($a->sql($jobs), '', 'before the claim');
	like($reader->query($check), qr/^writes\|"default_transaction_read_only" is on for this role/m, 'the check says so');
	is($a->sql($check), '', 'where it is so');
	is($reader->query($run->('writes', 'SET TRANSACTION READ WRITE; INSERT INTO written VALUES (2)')), '',
		'a command may decide for itself');
	$a->configure(read_only_eligible => 'on');
	poll_until(sub { $reader->query('SHOW leader_election.read_only_eligible') eq 'on' }, 'reload');
	is($reader->query($run->('reads', 'SELECT 1')), '', 'one that reads may run where that is meant');
	is($a->sql($jobs), 'reads done, writes done', 'they were run');
	$reader->quit;

	# In the server's configuration: another instance is to lead.
	$a->set('default_transaction_read_only', 'on');
	$a->reload;
	$a->wait_for("SELECT current_setting('default_transaction_read_only') = 'on'");
	still_leads($a, 'e', 'where that is meant');
	$a->configure(read_only_eligible => 'off');
	$b->wait_for_leadership('e');
	is(state_of($a, $a), 'readonly', 'le_nodes says why');
	like($a->sql_error("SELECT le_acquire('e')"), qr/55000: .*"default_transaction_read_only" is on in the server's configuration/s, 'le_acquire says why');
	like($a->sql($check), qr/^node\|It does not lead: "default_transaction_read_only" is on/m, 'so does the check');
	is($a->sql("SELECT detail FROM le_events WHERE event = 'released' ORDER BY number DESC LIMIT 1"), 'state: readonly', 'and the event');
	$a->set('default_transaction_read_only', 'off');
	$a->reload;
	poll_until(sub { state_of($a, $a) eq 'live' }, 'and back');
};

$_->stop foreach $a, $b;
$consul->stop;
done_testing();
