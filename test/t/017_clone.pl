# Tier: test, 80 s
#
# A clone of a running instance, its configuration included, does not lead:
# neither beside its original, nor while that one is away, also if it was given
# another system identifier.  A restored backup and a promoted standby do.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Lectl;
use LeaderElection::Node;
use LeaderElection::Recorder;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my $through = LeaderElection::Recorder->new('staging', $consul->host_port)->start;
my %cluster = (
	consul => $consul,
	settings => {
		lease_ttl => '10s',
		campaign => 'billing',
		clone_eligible => 'off'
	});
my $mark = 'leader_election.clone';

sub clone_of
{
	my ($node, $name, $campaign, $store, %streaming) = @_;

	$node->backup($name);
	return LeaderElection::Node->create(
		$name, %cluster,
		consul => $store,
		settings => { %{ $cluster{settings} }, campaign => $campaign },
		backup => [ $node, $name, %streaming ]);
}

sub state_of_itself
{
	my ($node) = @_;

	return $node->sql(q(SELECT coalesce(string_agg(state, ' '), '') FROM le_nodes WHERE is_self AND state NOT IN ('ended', 'revoked')));
}

# As one shows the other.
sub state_of
{
	my ($node, $other) = @_;

	return $node->sql("SELECT coalesce(string_agg(DISTINCT state, ' '), '') FROM le_nodes WHERE node = '"
		  . $other->name
		  . "' AND state NOT IN ('ended', 'revoked')");
}

sub is_clone
{
	my ($node, $of, $what) = @_;

	poll_until(sub { state_of_itself($node) eq 'clone' }, "$what to step back");
	ok(-e $node->data_dir . "/$mark", "$what: its data directory says so");
	like($node->sql_error(q(SELECT le_acquire('other'))),
		qr/55000: this node may not lead.*is a clone of node "\Q$of\E"/s,
		"$what: it may not lead");
	denied('G1', $node->sql(q(SELECT count(*) FROM le_events WHERE event = 'acquired')),
		"$what: it has led nothing, not even what is free");
	return;
}

# The store sessions of a node.
sub sessions
{
	my ($node) = @_;

	return grep { $_->{Name} eq 'leader_election: ' . $node->name }
	  @{ $consul->get('/v1/session/list?consistent')->{json} };
}

sub system_identifier
{
	my ($node) = @_;

	return $node->sql('SELECT system_identifier FROM pg_control_system()');
}

# The last act of pg_createsubscriber, where there is none: another identifier
# in the control file, whose last field is a checksum, and by pg_resetwal in the WAL.
sub change_identifier
{
	my ($node) = @_;
	my $file = $node->data_dir . '/global/pg_control';
	my $control = slurp_file($file);
	my $length = (grep { substr($control, $_, 4) eq pack('L', crc32c(substr($control, 0, $_))) }
		  map { 4 * $_ } 50 .. 120)[0] // die 'the checksum was not found';

	substr($control, 0, 8) = pack('Q', unpack('Q', $control) + 1);
	substr($control, $length, 4) = pack('L', crc32c(substr($control, 0, $length)));
	open(my $out, '+<:raw', $file) or die "could not open $file: $!";
	syswrite($out, $control) == length $control or die "could not write $file: $!";
	close($out);
	system_or_bail('pg_resetwal', '-D', $node->data_dir);
	return;
}

sub crc32c
{
	my ($data) = @_;
	my $crc = 0xFFFFFFFF;

	foreach my $byte (unpack('C*', $data))
	{
		$crc ^= $byte;
		$crc = $crc >> 1 ^ ($crc & 1 ? 0x82F63B78 : 0) foreach 1 .. 8;
	}
	return $crc ^ 0xFFFFFFFF;
}

# Makes a standby a primary with another identifier.
sub make_subscriber
{
	my ($standby, $primary) = @_;

	if ($standby->pg_version < 17)
	{
		$standby->promote;
		$standby->stop('fast');
		change_identifier($standby);
		return;
	}
	$standby->stop('fast');
	command_ok(
		[
			'pg_createsubscriber',
			'--pgdata' => $standby->data_dir,
			'--publisher-server' => $primary->connstr('postgres'),
			'--socketdir' => $standby->host,
			'--subscriber-port' => $standby->port,
			'--database' => 'postgres'
		],
		'pg_createsubscriber');
	return;
}

sub check
{
	my ($node) = @_;

	return $node->sql(q(SELECT level || ': ' || message FROM le_check_config() WHERE topic = 'node'));
}

my $production = LeaderElection::Node->create('production', %cluster, allows_streaming => 'logical');
my $staging;

$production->wait_for_leadership('billing');

subtest 'clone joins' => sub {
	my $token = $production->token('billing');

	# It has to look before it acquires anything, however long that takes.
	$through->rule(
		match => qr{^GET /v1/kv/leader_election\.nodes},
		action => 'delay_request',
		delay => 2,
		count => 1);
	$staging = clone_of($production, 'staging', 'billing, free', $through);
	is_clone($staging, 'production', 'a clone');
	same_term($token, $production->token('billing'), 'the original leads on');
	poll_until(sub { state_of($production, $staging) eq 'clone' }, 'the original to see it');
	$production->wait_for_log_like(qr/WARNING: .*live node "staging" shares a system identifier with this one/);
	is(scalar(() = $staging->log_since =~ /WARNING: .*is a clone of node "production"/g), 1,
		'the clone warns once');
	like(check($production), qr/warning: Live node "staging" is a primary that shares a system identifier with this one/,
		'le_check_config() of the original');
	like(check($staging), qr/error: It does not lead: it is a clone of node "production"/,
		'and of the clone');
	is((lectl($production, 'check', 'store'))[0], 0, 'lectl check store: the original is well');
	my ($code, $out) = lectl($staging, 'check', 'store');
	is($code, 2, 'the clone is not');
	like($out, qr/CRITICAL - It does not lead: it is a clone/, 'and says why');
	is($_->sql(q(SELECT count(*) FROM le_events WHERE event = 'clone')), 1, 'an event')
	  foreach $production, $staging;
};

subtest 'the original is away' => sub {
	my $token = $production->token('billing');

	$production->stop('fast');
	poll_until(sub { !$consul->kv('leader_election/billing/leader')->{Session} }, 'the release');
	is(scalar(sessions($staging)), 1, 'the clone has a store session');
	$staging->stop('fast');
	is(scalar(sessions($staging)), 0, '... and none when it has stopped');
	ok(!$staging->log_like(qr/could not leave the store in time/), '... by itself, in time');
	$staging->start;
	is_clone($staging, 'production', 'a clone that restarts');
	$production->start;
	$production->wait_for_leadership('billing');
	guarantee('G2', [ $token, $production->token('billing') ], 'the original is back');
	is_clone($staging, 'production', 'the clone, still');
	ok(!-e $production->data_dir . "/$mark", 'the original has no mark');
};

# A crash leaves a session that looks alive, here of a machine that is gone:
# the backup is restored elsewhere.
subtest 'restored backup' => sub {
	my $restored;

	$production->backup('restored');
	$production->crash;
	$restored = LeaderElection::Node->create(
		'restored', %cluster,
		backup => [ $production, 'restored', has_streaming => 0 ],
		settings => { %{ $cluster{settings} }, node_name => 'production' });
	ok($restored->acquire('other', wait => '3 min'), 'it leads, once its original is silent');
	$restored->wait_for_leadership('billing');
	ok(!-e $restored->data_dir . "/$mark", 'it is no clone');

	# the machine was not gone
	$production->start;
	is_clone($production, 'production', 'the original, back from the dead');
	still_leads($restored, 'billing', 'the successor leads on');

	# it was the wrong one, and is to lead after all
	$restored->stop('fast');
	$production->configure(clone_eligible => 'on');
	$production->wait_for_leadership('billing');
	ok(!-e $production->data_dir . "/$mark", 'the setting takes the mark away');
	$production->configure(clone_eligible => 'off');
	still_leads($production, 'billing', 'and may be off then');
};

subtest 'promotion' => sub {
	my $standby = clone_of($production, 'standby', 'billing', $consul, has_streaming => 1);
	my $token = $production->token('billing');

	is(state_of_itself($standby), 'standby', 'a standby is no clone');
	$standby->promote;
	$standby->wait_for(
		q(SELECT state = 'waiting' FROM le_status WHERE election = 'billing'), 'it to contend');
	$standby->wait_for_log_like(qr/WARNING: .*live node "production" shares a system identifier with this one/);
	still_leads($production, 'billing', 'the former primary leads on');
	$production->stop('fast');
	$standby->wait_for_leadership('billing');
	guarantee('G2', [ $token, $standby->token('billing') ], 'then the promoted one');
	ok(!-e $standby->data_dir . "/$mark", 'which is no clone');

	# split brain: the former primary is back, as a primary
	$production->start;
	is_clone($production, 'standby', 'the former primary');
	$production->stop('fast');

	# repaired: it follows the new one
	$production->enable_streaming($standby);
	$production->set_standby_mode;
	$production->start;
	poll_until(sub { state_of_itself($production) eq 'standby' }, 'the former primary to know');
	ok(!-e $production->data_dir . "/$mark", 'as a standby it is no clone');
	$standby->stop('fast');
	$production->promote;
	$production->wait_for_leadership('billing');
};

# A copy that pg_createsubscriber made has another identifier than its original,
# which goes on.
subtest 'another identifier' => sub {
	my $blue = $production;
	my $green = clone_of($blue, 'green', 'billing, free', $consul, has_streaming => 1);
	my $token = $blue->token('billing');

	is(state_of_itself($green), 'standby', 'a standby');
	make_subscriber($green, $blue);
	$green->start;
	isnt(system_identifier($green), system_identifier($blue), 'that becomes a primary of its own');
	is( slurp_file($green->data_dir . '/leader_election.systems'),
		join("\nsystem ", 'leader_election 1', map { system_identifier($_) } $green, $blue) . "\n",
		'it knows its former identifier');
	is_clone($green, 'production', 'the copy');
	same_term($token, $blue->token('billing'), 'the original leads on');

	$blue->stop('fast');
	poll_until(sub { !$consul->kv('leader_election/billing/leader')->{Session} }, 'the release');
	$green->restart;
	is_clone($green, 'production', 'the copy, while the original restarts');
	$blue->start;
	$blue->wait_for_leadership('billing');
	guarantee('G2', [ $token, $blue->token('billing') ], 'the original is back');
	$blue->wait_for_log_like(qr/WARNING: .*live node "green" shares a system identifier with this one.*\n.*identifier \Q@{[system_identifier($blue)]};/);
	like(check($blue), qr/warning: Live node "green" is a primary that shares a system identifier/,
		'le_check_config() of the original');
	like(check($green), qr/error: It does not lead: it is a clone of node "production"/,
		'and of the copy');

	# the work moves to the copy for good, and the original comes back by mistake
	$blue->stop('fast');
	$green->configure(clone_eligible => 'on');
	$green->wait_for_leadership('billing');
	$green->configure(clone_eligible => 'off');
	still_leads($green, 'billing', 'the copy leads without the setting');
	ok(!-e $green->data_dir . "/$mark", 'and without a mark');
	$blue->start;
	is_clone($blue, 'green', 'the original, now');
	still_leads($green, 'billing', 'the copy leads on');
	$green->stop('fast');
	$blue->configure(clone_eligible => 'on');
	$blue->wait_for_leadership('billing');
	$blue->configure(clone_eligible => 'off');
};

# With keys of its own the clone is nobody's.  It was there first now, but
# elsewhere: back beside its original it is a clone.
subtest 'another prefix' => sub {
	$staging->configure(consul_key_prefix => 'staging');
	$staging->wait_for_leadership('billing');
	$staging->restart;
	$staging->wait_for_leadership('billing');
	unlink $staging->data_dir . "/$mark" or die "unlink: $!";
	$staging->restart;
	$staging->wait_for_leadership('billing');
	$production->restart;
	$production->wait_for_leadership('billing');
	$staging->configure(consul_key_prefix => 'leader_election');
	poll_until(sub { state_of_itself($staging) eq 'clone' }, 'it to step back');
	ok(-e $staging->data_dir . "/$mark", 'with a mark');
	still_leads($production, 'billing', 'the original leads on');
};

# Both may lead; the instance that allows it is nobody's clone or original.
subtest 'allowed' => sub {
	$staging->configure(clone_eligible => 'on');
	poll_until(sub { !-e $staging->data_dir . "/$mark" }, 'the mark to go');
	$staging->wait_for(
		q(SELECT state = 'waiting' FROM le_status WHERE election = 'billing'), 'it to contend');
	$production->stop('fast');
	$staging->wait_for_leadership('billing');
	$production->start;
	$production->wait_for(
		q(SELECT state = 'waiting' FROM le_status WHERE election = 'billing'), 'the other to contend, too');
	ok(!-e $production->data_dir . "/$mark", 'no mark there either');
};

done_testing();
