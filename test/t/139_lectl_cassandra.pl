# Tier: long, 33 s
#
# lectl on Cassandra: its output differs, since there instances do not know of each
# other. exec holds, counts ticks and ends its command as elsewhere.

use strict;
use warnings;

use JSON::PP;
use LeaderElection::Cassandra;
use LeaderElection::Gateway;
use LeaderElection::Lectl;
use LeaderElection::Loss;
use LeaderElection::Node;
use LeaderElection::Toxiproxy;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $cassandra = LeaderElection::Cassandra->shared;
my $keyspace = $cassandra->keyspace;
my $gateway = LeaderElection::Gateway->new('gateway',
	cassandra => $cassandra, keyspace => $keyspace, options => [ '--max-clock-skew', '500ms' ])->start;
my $to_gateway = LeaderElection::Toxiproxy->new->start->link('gateway', "127.0.0.1:$gateway->{port}");
my ($a, $b) = map {
	LeaderElection::Node->create($_, gateway => $_ eq 'a' ? $to_gateway->url : $gateway, settings => { lease_ttl => '6s' })
} 'a', 'b';
my $both = 'host=' . $a->host . ',' . $b->host . ' port=' . $a->port . ',' . $b->port . ' dbname=postgres';
my @quick = ('--settle', '0');

sub check
{
	my ($expected, $line, $hosts, @arguments) = @_;
	my ($code, $out, $err) = lectl($hosts, 'check', @arguments);

	is("$code$err", $expected, "check @arguments: $expected");
	like($out, qr/^LECTL $line\n\z/, 'its line');
	return;
}

subtest 'exec' => sub {
	my $ground = LeaderElection::Lectl::Ground->new;
	my @tick = ('--job', 'nightly', '--every', '90 days');
	my $one = LeaderElection::Lectl->start('one', $a, 'exec', 'e', @quick, $ground->worker('one'));
	my $run = $ground->wait_for('one');
	my $two = LeaderElection::Lectl->start('two', $b, 'exec', 'e', @quick, '--wait', '3min', $ground->worker('two'));

	is((lectl($b, 'exec', 'e', @quick, 'true'))[0], 75, 'one at a time');
	check(0, qr/LEADER OK - a leads e \| .*/, $b, 'leader', 'e');
	is((lectl($both, 'step-down', 'e', '--hold-off', '1s'))[0], 0, 'the leader steps down');
	is($one->code, 79, 'its command is ended');
	guarantee('G2', [ $run->[1], $ground->wait_for('two')->[1] ], 'then comes the other');
	is((lectl($b, 'wait', 'e', '--leader', 'b', '--timeout', '3min'))[0], 0, 'which leads');
	kill('TERM', $two->pid);
	is($two->code, 143, 'until it is ended');
	guarantee('G1', [ $ground->overlaps ], 'one at a time');

	my @codes = map { (lectl($_, 'exec', 'e', @quick, '--wait', '3min', @tick, 'true'))[0] } $a, $b;
	is("@codes", '0 75', 'a tick, once');
	guarantee('G4', [ "@codes" eq '0 0' ? 'nightly' : () ], 'not twice');
	is((lectl($b, 'exec', 'e', @quick, '--wait', '3min', '--job', 'broken', '--every', '90 days', 'false'))[0], 1, 'one that fails');
};

# The deadline is no further away than the lease, less a second, the allowed clock
# skew and the margin; nor any closer than a renewal later.
subtest 'exec, and its end' => sub {
	my $carries = 4;

	lose_between($a, $b, carries => $carries);
	loses('lectl killed', 1, sub { $_[0]->kill9 }, strict => 1, killed => 1);
	loses('no answer of the gateway', 1, sub { $to_gateway->add('silence', 'timeout', 'downstream', timeout => 0) },
		strict => 1, deadline => 1, repair => sub { $to_gateway->reset });
	loses('backend killed', 1, sub {
		my $pid = backend_of($a);

		kill('KILL', $pid);
		$_[0]->{backend} = $pid;
	}, repair => sub { $a->wait_for_restart($_[0]->{backend}) });
	loses('instance killed', 1, sub { $a->crash }, finally => sub { $a->start });
};

subtest 'list and check' => sub {
	check(2, qr/LEADER CRITICAL - nobody leads e \| .*/, $a, 'leader', 'e');
	check(3, qr/CANDIDATES UNKNOWN - the instance knows of no others: name all hosts/, $a, 'candidates');
	ok($a->acquire('e', wait => '3 min'), 'a leads');
	$b->sql("SELECT le_campaign('e')");
	poll_until(sub { $b->ask("SELECT state FROM le_status WHERE election = 'e'") eq 'waiting' }, 'the other to wait');

	my ($code, $out, $err) = lectl($both, 'list', '--json');
	my @rows = @{ decode_json($out) };
	is("$code$err", '0', 'list');
	is_deeply(
		[ map { [ @$_{qw(election job node state)} ] } @rows ],
		[
			[ 'e', undef, 'a', 'leader' ],
			[ 'e', undef, 'b', 'waiting' ],
			[ 'e', 'broken', $rows[2]{node}, 'failed' ],
			[ 'e', 'nightly', $rows[3]{node}, 'done' ]
		],
		'leader, candidate and jobs');
	check(0, qr/CANDIDATES OK - 2 nodes can lead \| .*/, $both, 'candidates');
	check(0, qr/CANDIDATES OK - 2 nodes can lead \| .*/, $both, 'candidates', 'e');
	check(0, qr/JOBS OK - .*/, $both, 'jobs', '--job', 'nightly');
	check(2, qr/JOBS CRITICAL - failed: broken of e \| .*/, $both, 'jobs');
	check(0, qr/STORE OK - .*/, $b, 'store');

	my $watch = LeaderElection::Lectl->start('watch', $both, 'watch', 'e', '--interval', '200ms');
	poll_until(sub { $watch->log =~ /Z e: a \(token/ }, 'the leader');
	ok($a->release('e'), 'released');
	poll_until(sub { $watch->log =~ /Z e: .*-> b \(token/ }, 'the change');
	kill('TERM', $watch->pid);
	is($watch->code, 143, 'the end');
	$gateway->terminate;
	check(2, qr/STORE CRITICAL - .*/, $b, 'store', '--timeout', '30');
};

done_testing();
