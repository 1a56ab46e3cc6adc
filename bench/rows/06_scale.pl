# Two instances campaign for many elections on a real Consul, or on a real
# Cassandra through one gateway: the time until one of them holds all, the cost of
# holding and waiting in a quiet time, and the time until the other leads all after
# the first is killed.  The peer of the wake-ups of a worker with one election is
# pg_cron's launcher without a job; wake-ups with default settings are counted,
# too, as a round is a part of the lease.
#
# Variables: STORE (consul), ELECTIONS ("1 100 1000 10000"), WINDOW (30: seconds
# in which the cost is counted).

use strict;
use warnings;

use Bench;
use LeaderElection::Cassandra;
use LeaderElection::Gateway;
use LeaderElection::Util;
use POSIX ();
use PostgreSQL::Test::Utils;
use Time::HiRes qw(sleep time);

my @sizes = split ' ', $ENV{ELECTIONS} // size('1 100 1000 10000', '1 100');
my $window = $ENV{WINDOW} // size(30, 2);
my $lease = size(10, 3);
my $limit = 60;
my $pair = 0;
my $kind = $ENV{STORE} // 'consul';

# The bound of docs/failover-times.md for one election.
my $bound = 1.25 * $lease + 0.25;

sub held
{
	my ($node, $n) = @_;

	return $node->ask("SELECT count(*) FROM generate_series(1, $n) i "
		  . "WHERE le_is_leader('$pair/' || i)");
}

# Seconds until the node holds all of them; the limit, with a note, if that is
# too long.
sub until_all
{
	my ($node, $n, $from) = @_;
	my $held;

	do
	{
		$held = held($node, $n);
		return time - $from if $held == $n;
		sleep 0.01;
	} while (time - $from < $limit);
	note("of $n, $held were led after $limit s");
	return $limit;
}

sub campaign
{
	my ($node, $n) = @_;

	$node->sql(
		"SELECT count(le_campaign('$pair/' || i)) FROM generate_series(1, $n) i");
	return;
}

# The worker's counters, of the kernel and of the extension.
sub counted
{
	my ($node) = @_;
	my $pid = $node->worker_pid;
	my @stat = split ' ', slurp_file("/proc/$pid/stat") =~ s/.*\) //sr;
	my $status = slurp_file("/proc/$pid/status");
	my ($requests, $renewals) = split /\|/, $node->ask(
		'SELECT sum(round_trips), sum(renewals) FROM le_stat_store');

	return {
		at => time,
		cpu => ($stat[11] + $stat[12]) / POSIX::sysconf(POSIX::_SC_CLK_TCK()),
		mb => ($status =~ /VmRSS:\s+(\d+)/)[0] / 1024,
		wakeups => ($status =~ /^voluntary_ctxt_switches:\s+(\d+)/m)[0],
		# a bundle's answer counts for each election in it
		requests => $requests - $renewals,
		lost => $node->ask('SELECT sum(losses) FROM le_stat'),
	};
}

sub take_costs
{
	my ($role, $n, $before, $after) = @_;
	my $minutes = ($after->{at} - $before->{at}) / 60;

	take("$role $n $_", ($after->{$_} - $before->{$_}) / $minutes)
	  foreach 'requests', 'wakeups';
	take("$role $n cpu", ($after->{cpu} - $before->{cpu}) / $minutes / 0.6);
	take("$role $n mb", $after->{mb});
	return;
}

# An instance of its own with pg_cron, if that is installed.
sub scheduler
{
	my $share = qx($ENV{PG_CONFIG} --sharedir);

	chomp $share;
	unless (-e "$share/extension/pg_cron.control")
	{
		leave_out('pg_cron', 'it is not installed');
		return;
	}

	my $node = instance('cron', extension => 0,
		conf => { shared_preload_libraries => 'pg_cron' });

	$node->sql('CREATE EXTENSION pg_cron');
	return $node;
}

sub launcher_wakeups
{
	my ($node) = @_;
	my $pid = $node->ask("SELECT pid FROM pg_stat_activity "
		  . "WHERE backend_type = 'pg_cron launcher'");

	return (slurp_file("/proc/$pid/status") =~
		  /^voluntary_ctxt_switches:\s+(\d+)/m)[0];
}

my %place = place();
my $cron = scheduler();

# How the instances reach the store; each pair has keys of its own in it.
sub place
{
	my $cassandra;

	return (consul => consul_server()) if $kind eq 'consul';
	die "STORE is consul or cassandra\n" if $kind ne 'cassandra';
	$cassandra = LeaderElection::Cassandra->shared;
	return (gateway => LeaderElection::Gateway->new('gateway',
			cassandra => $cassandra,
			keyspace => $cassandra->keyspace)->start);
}

sub end
{
	my ($node) = @_;

	$node->hang_up;
	eval { $node->stop('immediate') };
	$node->clean_node;
	return;
}

# Measures one election, which one instance leads and the other waits for.
sub wakeups_by_default
{
	my %node = map { $_ => instance("${_}d", %place) } 'leader', 'waiting';
	my %before;

	$pair++;
	campaign($node{leader}, 1);
	until_all($node{leader}, 1, time);
	campaign($node{waiting}, 1);
	sleep size(22, 3);    # until the start is over
	$before{$_} = counted($node{$_}) foreach keys %node;
	sleep $window;
	take("$_ default wakeups",
		(counted($node{$_})->{wakeups} - $before{$_}{wakeups}) * 60 / $window)
	  foreach keys %node;
	end($_) foreach values %node;
	return;
}

sub measure
{
	my ($n) = @_;

	$pair++;
	my %settings = (lease_ttl => "${lease}s", max_elections => 2 * $n + 16,
		safety_margin => $lease < 5 ? '500ms' : '1s',
		($kind eq 'consul' ? (consul_key_prefix => "scale$pair") : ()));
	my %node = map {
		$_ => instance("${_}$pair", %place, settings => \%settings)
	} 'leader', 'waiting';
	my (%before, %after);
	my $began = time;

	campaign($node{leader}, $n);
	take("held $n", until_all($node{leader}, $n, $began));
	campaign($node{waiting}, $n);
	sleep $lease * 1.5;    # until the start is over
	my $woken = $n == 1 && $cron ? launcher_wakeups($cron) : 0;

	$before{$_} = counted($node{$_}) foreach keys %node;
	sleep $window;
	$after{$_} = counted($node{$_}) foreach keys %node;
	take("pg_cron's launcher", (launcher_wakeups($cron) - $woken) * 60 / $window)
	  if $n == 1 && $cron;
	take_costs($_, $n, $before{$_}, $after{$_}) foreach keys %node;
	take("lost $n", $after{leader}{lost});

	# By arithmetic: the Go client renews a session every half TTL, client-go a
	# Lease every 2 s.
	take("a session per lock $n", $n * 60 / ($lease / 2));
	take("client-go's Lease per lock $n", $n * 60 / 2);
	my $still = held($node{leader}, $n);
	note("of $n, $still were led before the kill") if $still != $n;

	my $killed = time;

	$node{leader}->crash;
	take("taken $n", until_all($node{waiting}, $n, $killed));
	take("turn $n", $node{waiting}->ask('SELECT longest_turn FROM le_stat_info'));
	end($_) foreach values %node;
	return;
}

# A round is minutes long, and has no varying peer.  One small number is enough:
# the lease is most of the wait.
rounds(
	sub {
		foreach my $n (grep { $_[0] == 1 || $_ >= 1000 } @sizes)
		{
			progress("$n elections");
			measure($n);
		}
		return if $_[0] > 1 || $kind ne 'consul';
		progress('1 election, default settings');
		wakeups_by_default();
	},
	2);

if ($kind eq 'consul')
{
	metric("1, default settings: wake-ups, $_", unit => '/min',
		ours => "$_ default wakeups", peer => 'pg_cron\'s launcher', ratio => '< 1')
	  foreach 'leader', 'waiting';
}
foreach my $n (@sizes)
{
	metric("$n: until all are held", unit => 's', ours => "held $n",
		target => '<= 10');
	metric("$n: kill -9 until all are led again", unit => 's', ours => "taken $n",
		target => '<= ' . ($bound + ($n > 1 ? 3 : 0)));
	metric("$n: terms lost meanwhile", unit => 'terms', ours => "lost $n",
		target => '= 0');
	foreach my $role ('leader', 'waiting')
	{
		metric("$n: requests, $role", unit => '/min', ours => "$role $n requests");
		metric("$n: processor, $role", unit => '%', ours => "$role $n cpu",
			($n == 1000 ? (target => '<= 1') : ()));
		metric("$n: wake-ups, $role", unit => '/min', ours => "$role $n wakeups",
			($n == 1 ? (peer => 'pg_cron\'s launcher') : ()));
		metric("$n: memory, $role", unit => 'MB', ours => "$role $n mb",
			($n == 10000 ? (target => '<= 200') : ()));
	}
	metric("$n: longest turn of the worker that took over", unit => 'ms',
		ours => "turn $n", target => '<= 50');
	next if $n == $sizes[0];
	metric("$n: requests of the leader", unit => '/min',
		ours => "leader $n requests", peer => "$_ $n", ratio => '< 1')
	  foreach 'a session per lock', 'client-go\'s Lease per lock';
}
finish();
