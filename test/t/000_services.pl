# Tier: test, 26 s
#
# The services the other tests stand on do what those tests take for granted:
# a real Consul, alone and as a cluster, toxiproxy and the recorder.

use strict;
use warnings;

use LeaderElection::Certificates;
use LeaderElection::Consul;
use LeaderElection::Recorder;
use LeaderElection::Toxiproxy;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

# one agent
my $consul = LeaderElection::Consul->new('dev')->start;
my $session = $consul->session;
my $other = $consul->session;
my %lock = (
	Verb => 'lock',
	Key => 'x/leader',
	Flags => LeaderElection::Consul::LOCK_FLAG);

my $reply = $consul->txn({ %lock, Session => $session, Value => '{"a": 1}' });
is($reply->{status}, 200, 'lock by transaction');
is($reply->{results}[0]{LockIndex}, 1, 'held');

my $token = $reply->{results}[0]{ModifyIndex};
cmp_ok($token, '>', 0, 'with an index');

$reply = $consul->txn({ %lock, Session => $other, Value => '{}' });
is($reply->{status}, 409, 'second lock refused');
like($reply->{errors}[0]{What}, qr/lock is already held/, 'for the reason');

is_deeply(
	$consul->kv('x/leader'),
	{
		CreateIndex => $token,
		Flags => LeaderElection::Consul::LOCK_FLAG,
		Key => 'x/leader',
		LockIndex => 1,
		ModifyIndex => $token,
		Session => $session,
		Value => '{"a": 1}'
	},
	'read back');
is($consul->kv('x/nothing'), undef, 'absent key');
is_deeply([ keys %{ $consul->kv_tree('x') } ], ['x/leader'], 'tree');
ok(!$consul->lock('x/leader', $other), 'refused to the Go client, too');
ok($consul->unlock('x/leader', $session), 'released');
ok($consul->lock('x/leader', $other), 'and taken');
is($consul->get('/v1/kv/?keys')->{status}, 200, 'plain request');

my $size = $consul->log_size;
$consul->renew($other) foreach 1 .. 3;
poll_until(sub { $consul->requests($size, qr/PUT .*renew/) == 3 },
	'requests in the log');
pass('requests can be counted in the log');

$consul->freeze;
is($consul->get('/v1/status/leader', timeout => 0.3)->{status},
	599, 'frozen: no answer');
$consul->thaw;
ok($consul->get('/v1/status/leader')->{json}, 'thawed');
$consul->restart;
is($consul->kv('x/leader'), undef, 'a -dev agent forgets');

# toxiproxy
my $toxiproxy = LeaderElection::Toxiproxy->new->start;
my $link = $toxiproxy->link('consul', $consul->host_port);
my $direct = $consul->{port}{http};
my $put = sub {
	my ($port, $body, $timeout) = @_;

	local $consul->{port}{http} = $port;
	return $consul->put('/v1/kv/t', $body, timeout => $timeout // 180)->{status};
};
my $applied = sub {
	my ($value, $what) = @_;

	poll_until(sub { $consul->kv('t')->{Value} eq $value }, "$value to be applied");
	pass($what);
};
my ($linked) = $link->host_port =~ /(\d+)$/;

is($put->($linked, 'one'), 200, 'through toxiproxy');
$link->add('lost', 'timeout', 'downstream', timeout => 0);
is($put->($linked, 'two', 0.5), 599, 'reply lost');
$applied->('two', 'request applied');
$link->remove('lost');
is($put->($linked, 'three'), 200, 'reply there again');
$link->down;
is($put->($linked, 'four'), 599, 'down');
is($consul->kv('t')->{Value}, 'three', 'request not applied');
$link->reset;
is($put->($linked, 'five'), 200, 'up');

# the recorder
my $recorder = LeaderElection::Recorder->new('r', $consul->host_port)->start;
my $mark = $recorder->mark;

is($put->($recorder->{port}, 'six'), 200, 'through the recorder');
$recorder->rule(match => qr/PUT .*seven/s, action => 'lose_reply', count => 1);
is($put->($recorder->{port}, 'not this'), 200, 'no rule for this');
is($put->($recorder->{port}, 'seven'), 599, 'reply lost');
$applied->('seven', 'request applied');
is($put->($recorder->{port}, 'seven'), 200, 'once');
$recorder->rule(match => qr/eight/, action => 'lose_request');
is($put->($recorder->{port}, 'eight'), 599, 'request lost');
is($consul->kv('t')->{Value}, 'seven', 'not applied');
$recorder->clear_rules;
$recorder->rule(
	match => qr/nine/,
	action => 'answer',
	status => 503,
	body => 'made up');
is($put->($recorder->{port}, 'nine'), 503, 'answer made up');
$recorder->clear_rules;
$recorder->rule(match => qr/ten/, action => 'hang_request');
is($put->($recorder->{port}, 'ten', 0.5), 599, 'request that hangs');
$recorder->clear_rules;
$recorder->rule(match => qr/eleven/, action => 'delay_reply', delay => 0.1);
cmp_ok(scalar timed(sub { $put->($recorder->{port}, 'eleven') }),
	'>=', 0.1, 'late reply');
$recorder->clear_rules;

my ($seven) = $recorder->requests(qr/seven/, $mark);
is($seven->{status}, 200, 'recorded with its lost answer');
cmp_ok($seven->{answered}, '>', $seven->{received}, 'and when it came');
is($recorder->replay($seven)->{status}, 200, 'sent again');
is($consul->kv('t')->{Value}, 'seven', 'late duplicate applied');
is(scalar(grep { $_->{action} } $recorder->requests),
	5, 'actions are recorded');
{
	local $consul->{port}{http} = $recorder->{port};
	$consul->txn({ Verb => 'set', Key => 't', Value => '{"inside": true}' });
	cmp_ok(length $consul->get('/v1/agent/self')->{body},
		'>', 4096, 'a long, chunked answer passes');
}
is(scalar(() = $recorder->requests(qr/^PUT .*"inside": true/s)),
	1, 'values of a transaction can be matched');

# three servers
my @servers = LeaderElection::Consul->cluster(3);
my $leader = LeaderElection::Consul->leader(@servers);
my ($follower) = grep { $_ != $leader } @servers;

$session = $follower->session;
ok($follower->lock('y/leader', $session), 'lock through a follower');
$leader->freeze;
my $next = LeaderElection::Consul->leader(grep { $_ != $leader } @servers);
isnt($next->name, $leader->name, 'a frozen leader is replaced');
poll_until(sub { $next->kv('y/leader')->{Session} eq $session },
	'state on the next leader');
pass('which knows the lock');
$leader->thaw;
$next->kill9;
ok(!$next->is_running, 'killed');
LeaderElection::Consul->leader(@servers);
$next->start;
is($next->kv('y/leader')->{Session}, $session, 'back with its data');
$_->stop foreach @servers;

# access control
my $secured = LeaderElection::Consul->new('acl', acl => 1)->start;
is($secured->put('/v1/kv/x', 'y', token => undef)->{status},
	403, 'no token, no access');
my $secret = $secured->acl_token('key_prefix "x" { policy = "write" }');
is($secured->put('/v1/kv/x', 'y', token => $secret)->{status},
	200, 'token of a policy');
is($secured->put('/v1/kv/y', 'y', token => $secret)->{status},
	403, 'which ends there');

# https with client certificates, and http beside it for the test itself
my $ca = LeaderElection::Certificates->new('ca');
my $https = LeaderElection::Consul->new(
	'tls',
	https => 1,
	config => $ca->consul_config(verify_incoming => 1))->start;
my ($cert, $key) = $ca->issue('client');
my @curl = ('curl', '-sS', '--cacert', $ca->file);
my $path = $https->https_url . '/v1/status/leader';

command_like([ @curl, '--cert', $cert, '--key', $key, $path ],
	qr/127\.0\.0\.1/, 'https with a client certificate');
command_fails([ @curl, $path ], 'and not without');

# an agent that is no server
my $server = LeaderElection::Consul->new('server', persistent => 1)->start;
my $agent = LeaderElection::Consul->new('agent', join => [$server])->start;
$session = $agent->session;
ok($agent->lock('z', $session), 'lock through a client agent');
is($server->kv('z')->{Session}, $session, 'seen by the server');
$server->restart;
$agent->wait_until_ready;
is($agent->kv('z')->{Session}, $session, 'and kept over its restart');

done_testing();
