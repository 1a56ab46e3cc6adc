
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
use Scalar::Util qw(looks_like_number);
use Socket qw(SOCK_STREAM SOCK_DGRAM);
use Test2::API qw(test2_stack);
use Test::Builder;
use Time::HiRes ();

our @EXPORT = qw(
  boottime_ns
  duration
  free_port
  guarantee
  in_time
  never
  poll_until
  same_term
  still_leads
  stop_process
  timed
);

# The clock the extension uses; see clock_gettime(2).
use constant CLOCK_BOOTTIME => 7;

# What test/stalls looks for.
use constant ONLY_TIME => 'nothing failed but assertions about time';

# The limit of a wait that names none, in seconds.  Slow machines set
# PG_TEST_TIMEOUT_DEFAULT, as for PostgreSQL's own tests.
our $timeout_default = $ENV{PG_TEST_TIMEOUT_DEFAULT} || 60;

# What failed so far, all of it and what is about time; whether the last thing
# was a wait that did; and whether an assertion about time is being made.
my ($failed, $late, $timed_out) = (0, 0, 0);
our $about_time = 0;
my $owner = $$;

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
			timed_out();
			croak "timed out after $timeout s waiting for "
			  . ($what // 'a condition')
			  . ($error ? ": $error" : '');
		}
		Time::HiRes::usleep(max($interval, min($took, 0.2)) * 1e6);
	}
}

=pod

=item guarantee($which, $seen, $what)

Judges what a test has seen of one of the promises of docs/guarantees.md.  They
hold on any machine, so a test that sees one broken fails for good: never().

  G1  $seen lists moments with two leaders: LeaderElection::Sampler->overlaps
  G2  $seen lists fencing tokens of successive terms, the oldest first; or such
      lists, one for each election
  G3  $seen lists what was committed after its term
  G4  $seen lists ticks that were granted, or ran, twice
  G5  $seen lists [ $believed, $deadline ]: the last moment of a belief, and the
      latest that it may have, in nanoseconds of boottime_ns()

A list of G1, G3 or G4 must be empty.  Where a moment is missing, the test fails,
but that breaks no promise; and so if a token is, which is about time, as
still_leads() is.

=cut

my %broken = (
	G1 => sub { return map { "two leaders: $_" } @_ },
	G2 => sub { return map { _lower(@$_) } @_ },
	G3 => sub { return map { "committed after the term: $_" } @_ },
	G4 => sub { return map { "twice: $_" } @_ },
	G5 => sub {
		return map { sprintf 'believed %.3f ms past the deadline', ($_->[0] - $_->[1]) / 1e6 }
		  grep { $_->[0] > $_->[1] } @_;
	});

sub guarantee
{
	my ($which, $seen, $what) = @_;
	my $test = Test::Builder->new;
	my $code = $broken{$which} // croak "no guarantee \"$which\"";

	$seen = [$seen] if $which eq 'G2' && !ref $seen->[0];
	# without a token it does not lead any more
	return _about_time(0, $what) || $test->diag('a token is missing')
	  if $which eq 'G2' && grep { @$_ > 1 && grep { ($_ // '') eq '' } @$_ } @$seen;
	if (my $missing = _missing($which, @$seen))
	{
		return $test->ok(0, $what) || $test->diag($missing);
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return never([ map { "$which: $_" } $code->(@$seen) ], $what);
}

sub _lower
{
	my (@tokens) = @_;

	return map { "token $tokens[$_] after $tokens[$_ - 1]" }
	  grep { $tokens[$_] <= $tokens[ $_ - 1 ] } 1 .. $#tokens;
}

# Says what is not there to be judged, if anything is not.
sub _missing
{
	my ($which, @lists) = @_;

	return '' if $which ne 'G2' && $which ne 'G5';
	return 'nothing was seen' unless @lists;
	foreach my $list (@lists)
	{
		my @no = grep { !looks_like_number($_) } @$list;

		return 'only one was seen' if @$list < 2;
		return 'not a number: "' . ($no[0] // '') . '"' if @no;
	}
	return '';
}

=pod

=item in_time($took, $limit, $what)

=item still_leads($node, $election, $what)

=item same_term($token, $seen, $what)

Assertions about time: what takes $took (seconds, or whatever unit) takes less
than $limit; the node leads (on); a term goes on, so that its token is the same.
They hold while the machine does not stand still; poll_until() has such a bound,
too.  A test in which nothing else has failed may run again if the machine did
stand still (test/stalls).

=cut

# A wait that is about to die, which ends its test as late.
sub timed_out
{
	return $timed_out = 1;
}

sub _about_time
{
	my ($ok, $what) = @_;
	my $test = Test::Builder->new;
	local $about_time = 1;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return $test->ok($ok, $what);
}

sub in_time
{
	my ($took, $limit, $what) = @_;
	my $test = Test::Builder->new;

	return $test->ok(0, $what) || $test->diag('no time was measured')
	  unless looks_like_number($took);
	return _about_time($took < $limit, $what)
	  || $test->diag("took $took, and has $limit");
}

sub still_leads
{
	my ($node, $election, $what) = @_;

	return _about_time($node->is_leader($election), $what);
}

sub same_term
{
	my ($token, $seen, $what) = @_;
	my $test = Test::Builder->new;

	$token //= 'none';
	$seen //= 'none';
	if (looks_like_number($token) && looks_like_number($seen) && $seen < $token)
	{
		local $Test::Builder::Level = $Test::Builder::Level + 1;

		return guarantee('G2', [ $token, $seen ], $what);
	}
	return _about_time($seen eq $token, $what) || $test->diag("token $token, then $seen");
}

# Listens to all assertions, so that an ordinary one that fails is seen as well.
test2_stack()->top->listen(
	sub {
		my ($hub, $event) = @_;

		return if $event->isa('Test2::Event::Subtest') || !$event->increments_count;
		$timed_out = 0;
		return unless $event->causes_fail;
		$failed++;
		$late++ if $about_time;
	},
	inherit => 1);

# Tells test/stalls when nothing has failed but assertions about time.  A test
# that died has, unless a wait was what ended it.
END
{
	my $rc = $?;

	Test::Builder->new->diag(ONLY_TIME)
	  if $$ == $owner && $INC{'Test/More.pm'} && $failed == $late && ($rc != 0 ? $timed_out : $late);
	$? = $rc;
}

=pod

=item never($found, $what)

Tests that the list is empty: what must not happen however slow the machine is,
though it is none of the guarantees, as an internal error.  A test in which it
does is not run again (test/stalls).

=cut

sub never
{
	my ($found, $what) = @_;
	my $test = Test::Builder->new;

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
