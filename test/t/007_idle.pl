# Tier: long, 80 s
#
# The worker sleeps while there is nothing to do: nobody pays for an extension
# that is installed and not used.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Util;
use PostgreSQL::Test::Utils;
use Test::More;

my $consul = LeaderElection::Consul->new('consul')->start;
my %node = (
	local => LeaderElection::Node->create('local'),
	consul => LeaderElection::Node->create('consul', consul => $consul));

# How often the process went to sleep and was woken, and for how many ticks it
# ran without going to sleep, in some seconds that pass: there is no event to
# poll for when nothing happens.
sub wakeups
{
	my ($pid) = @_;
	my $status = slurp_file("/proc/$pid/status");
	my @stat = split / /, slurp_file("/proc/$pid/stat") =~ s/^.*\) //r;

	$status =~ /^voluntary_ctxt_switches:\s+(\d+)/m or die $status;
	return $1 + $stat[11] + $stat[12];
}

sub wakeups_in
{
	my ($seconds) = @_;
	my %pid = map { $_ => $node{$_}->wait_for_worker } keys %node;
	my %before = map { $_ => wakeups($pid{$_}) } keys %pid;
	my $until = boottime_ns() + $seconds * 1e9;

	poll_until(sub { boottime_ns() > $until }, 'time', interval => 0.2);
	return map { $_ => wakeups($pid{$_}) - $before{$_} } keys %pid;
}

# Until what has been going on is over: a second in which nothing happens.
sub wait_for_rest
{
	poll_until(
		sub {
			my %wakeups = wakeups_in(1);

			return !grep { $_ } values %wakeups;
		},
		'rest');
	return;
}

my %wakeups;

poll_until(sub { $node{$_}->log_like(qr/worker started/) }, 'worker')
  foreach keys %node;
wait_for_rest();
%wakeups = wakeups_in(4);
is($wakeups{$_}, 0, "$_: not woken while nothing was ever held")
  foreach sort keys %node;

# One round in five seconds, and a parked watch.
ok($node{$_}->acquire('e'), "$_: leads") foreach sort keys %node;
%wakeups = wakeups_in(4);
foreach (sort keys %node)
{
	cmp_ok($wakeups{$_}, '<', 40, "$_: few wake-ups while it leads");
	note("$_: $wakeups{$_} wake-ups in 4 s");
}

# A store session that nobody needs is left after a minute.  A node that cannot lead
# needs none, whatever it campaigns for; as long as it has one it tells the others.
my $other = LeaderElection::Node->create('other', consul => $consul);

ok($other->acquire('o'), 'another node takes part');

my $barred = LeaderElection::Node->create('barred', consul => $consul, settings => { campaign => 'b' });

# A node as another's view shows it.
sub state_of
{
	my ($node, $seen_by) = @_;

	return $seen_by->sql("SELECT string_agg(DISTINCT state, ' ') FROM le_nodes WHERE node = '" . $node->name . q('));
}

$barred->wait_for_leadership('b');
poll_until(sub { state_of($node{consul}, $other) eq 'live' && state_of($barred, $other) eq 'live' && state_of($other, $barred) eq 'live' },
	'them to see each other');
ok($node{$_}->release('e'), "$_: releases") foreach sort keys %node;
$barred->configure(eligible => 'off');
poll_until(sub { state_of($barred, $other) eq 'ineligible' }, 'it to see that one cannot lead');
poll_until(sub { @{ $consul->get('/v1/session/list')->{json} } == 1 },
	'end of the store sessions', interval => 0.5);
poll_until(sub { state_of($node{consul}, $other) eq '' && state_of($barred, $other) eq '' }, 'no row elsewhere', interval => 0.5);
is(state_of($barred, $barred), 'ineligible', 'it shows itself, and why it cannot lead');
poll_until(sub { state_of($other, $barred) eq 'silent' }, 'it to hear of no other', interval => 0.5);
still_leads($other, 'o', 'which is there');
is($barred->sql('SELECT state FROM le_status'), 'candidate', 'though it campaigns');
$_->stop foreach $barred, $other;
$node{$_}->wait_for("SELECT count(*) = 0 FROM le_nodes WHERE state = 'live'",
	'end of the session', interval => 0.5)
  foreach sort keys %node;
is($node{$_}->sql("SELECT state FROM le_status"), 'idle', "$_: idle")
  foreach sort keys %node;
wait_for_rest();
%wakeups = wakeups_in(4);
is($wakeups{$_}, 0, "$_: not woken any more") foreach sort keys %node;
ok($node{$_}->acquire('e'), "$_: leads again") foreach sort keys %node;

done_testing();
