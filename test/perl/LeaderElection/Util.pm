
=pod

=head1 NAME

LeaderElection::Util - waiting, clocks and ports for the TAP tests

=head1 SYNOPSIS

  use LeaderElection::Util;

  poll_until(sub { $node->is_leader('billing') }, 'first leader');
  poll_until(sub { ... }, 'takeover', timeout => 40);
  my $port = free_port();
  my $now = boottime_ns();

=head1 DESCRIPTION

Nothing here sleeps for a fixed time: every wait polls a condition, and every
wait has a limit.

=cut

package LeaderElection::Util;

use strict;
use warnings;

use Carp;
use Exporter 'import';
use Fcntl qw(:flock);
use IO::Socket::INET;
use List::Util qw(max min);
use Socket qw(SOCK_STREAM SOCK_DGRAM);
use Test::Builder;
use Time::HiRes ();

our @EXPORT = qw(
  boottime_ns
  duration
  free_port
  never
  poll_until
  stop_process
  timed
);

# The clock the extension uses; see clock_gettime(2).
use constant CLOCK_BOOTTIME => 7;

# The limit of a wait that names none, in seconds.  Slow machines set
# PG_TEST_TIMEOUT_DEFAULT, as for PostgreSQL's own tests.
our $timeout_default = $ENV{PG_TEST_TIMEOUT_DEFAULT} || 60;

=pod

=head1 FUNCTIONS

=over

=item boottime_ns()

Nanoseconds on CLOCK_BOOTTIME, the extension's clock: instants taken here can
be compared with those of every process of the machine.

=cut

sub boottime_ns
{
	return int(Time::HiRes::clock_gettime(CLOCK_BOOTTIME) * 1e9);
}

=pod

=item poll_until($condition, $what, [ timeout => s, interval => s ])

Calls the condition until it returns true, and returns that value.  A
condition that dies is taken as not yet met.  After the timeout dies with
$what and the last error.  A condition that takes its time is given as much
pause, so that it leaves the machine to what is waited for.

=cut

sub poll_until
{
	my ($condition, $what, %params) = @_;
	my $timeout = $params{timeout} // $timeout_default;
	my $interval = $params{interval} // 0.02;
	my $limit = boottime_ns() + $timeout * 1e9;

	for (;;)
	{
		my $asked = boottime_ns();
		my $result = eval { $condition->() };
		my $error = $@;
		my $now = boottime_ns();
		my $took = ($now - $asked) / 1e9;

		return $result if $result;
		if ($now > $limit)
		{
			croak "timed out after $timeout s waiting for "
			  . ($what // 'a condition')
			  . ($error ? ": $error" : '');
		}
		Time::HiRes::usleep(max($interval, min($took, 0.2)) * 1e6);
	}
}

=pod

=item never($found, $what)

Tests that the list is empty: what must not happen however slow the machine is.
A test in which it does is not run again (test/stalls).

=cut

sub never
{
	my ($found, $what) = @_;
	my $test = Test::Builder->new;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return $test->ok(!@$found, $what)
	  || $test->diag(map { "must never happen: $_\n" } @$found);
}

=pod

=item duration($text)

The seconds of "90s", "10min" (or "10m") and "1h"; of a bare number, too.

=cut

sub duration
{
	my ($text) = @_;
	my %unit = ('' => 1, s => 1, m => 60, min => 60, h => 3600);

	$text =~ /^(\d+(?:\.\d+)?)(s|m|min|h|)$/ or croak "bad duration \"$text\"";
	return $1 * $unit{$2};
}

=pod

=item timed($code)

Runs the code and returns the seconds it took; in list context also what it
returned.

=cut

sub timed
{
	my ($code) = @_;
	my $start = boottime_ns();
	my $result = $code->();
	my $seconds = (boottime_ns() - $start) / 1e9;

	return wantarray ? ($seconds, $result) : $seconds;
}

=pod

=item stop_process($pid)

SIGSTOP, and waits until every thread of the process has stopped: a thread on
another processor may run on for a moment.

=cut

sub stop_process
{
	my ($pid) = @_;

	kill('STOP', $pid) or return 0;
	return poll_until(
		sub {
			foreach my $stat (glob "/proc/$pid/task/*/stat")
			{
				open(my $fh, '<', $stat) or next;
				return 0 if (<$fh> // '') =~ /^\d+ \(.*\) [^tTZX]/;
			}
			return 1;
		},
		"process $pid to stop",
		interval => 0.001);
}

=pod

=item free_port()

A port of 127.0.0.1, free for TCP and UDP, that no other test asked for (of this
sandbox, or of all that share the directory LE_PORTS).  It lies below the range the kernel gives to outgoing connections, so that a
server can be stopped and started again on it.

=back

=cut

my @port_locks;
my $next_port;

sub free_port
{
	my $dir = $ENV{LE_PORTS} || ($ENV{LE_SANDBOX} // '/tmp') . '/ports';
	my ($lower, $upper) = (12000, 31999);

	mkdir $dir;
	$next_port //= $lower + int(rand($upper - $lower));
	for (my $tries = 0; $tries <= $upper - $lower; $tries++)
	{
		$next_port = $lower if ++$next_port > $upper;

		# The lock lasts as long as this process, whatever becomes of it.
		open(my $lock, '>>', "$dir/$next_port") or next;
		flock($lock, LOCK_EX | LOCK_NB) or next;
		next unless _can_bind($next_port);
		push @port_locks, $lock;
		return $next_port;
	}
	croak 'no free port';
}

sub _can_bind
{
	my ($port) = @_;

	foreach my $proto ('tcp', 'udp')
	{
		IO::Socket::INET->new(
			LocalAddr => '127.0.0.1',
			LocalPort => $port,
			Proto => $proto,
			Type => $proto eq 'tcp' ? SOCK_STREAM : SOCK_DGRAM,
			ReuseAddr => $proto eq 'tcp',
			($proto eq 'tcp' ? (Listen => 1) : ()))
		  or return 0;
	}
	return 1;
}

1;
