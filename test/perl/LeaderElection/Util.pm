
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
use Test::Builder;
use Time::HiRes ();

our @EXPORT = qw(
  before
  boottime_ns
  deliberate
  denied
  duration
  free_port
  guarantee
  never
  poll_until
  same_term
  still_leads
  stop_process
  timed
);

# The clock the extension uses; see clock_gettime(2).
use constant CLOCK_BOOTTIME => 7;

# The limit of a wait that names none, in seconds.  Slow machines set
# PG_TEST_TIMEOUT_DEFAULT, as for PostgreSQL's own tests.
our $timeout_default = $ENV{PG_TEST_TIMEOUT_DEFAULT} || 180;

# A TAP test that waits in another way than by poll_until() must not hold up all others
# for ever.  It stops its servers, unless that hangs as well.
if ($0 =~ m{(?:^|/)test/(?:t|contract)/} && !$ENV{JOBS_DURATION})
{
	my $limit = 10 * $timeout_default;

	$SIG{ALRM} = sub {
		$SIG{ALRM} = 'DEFAULT';
		alarm 60;
		Test::More::diag("this test has not ended after $limit s");
		exit 1;
	};
	alarm $limit;
}

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

=item before($event, $limit, $what)

Tests that one instant came before another, both of boottime_ns() or of a record.  It
shows which of two causes was at work: the event's, or the one that would have
brought it about at $limit.  So that no machine is too slow for it, the two are as far
apart as they can be, by the longest lease or interval; the limit of a promise
in seconds is for the simulator, the judge of test/faults and bench.

=cut

sub before
{
	my ($event, $limit, $what) = @_;
	my $test = Test::Builder->new;

	return $test->ok(0, $what) || $test->diag('an instant is missing')
	  if grep { !looks_like_number($_) } $event, $limit;
	return $test->ok($event < $limit, $what)
	  || $test->diag(sprintf '%.3f s after it', ($event - $limit) / 1e9);
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

A list of G1, G3 or G4 must be empty.  Where a moment or a token is missing, the
test fails, but that breaks no promise.

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

=item denied($which, $answer, $what)

Judges a single answer that a guarantee forbids: a belief after the term, a second
grant of a tick.  False keeps the promise, as Perl and SQL have it (undef, '', 0,
'f'); 't', 1 or a fencing token breaks it, which is final as in guarantee().  Any
other answer, as an error, tells nothing: the test fails as an ordinary one does.

=cut

sub denied
{
	my ($which, $answer, $what) = @_;
	my $test = Test::Builder->new;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	croak "no guarantee \"$which\"" unless $broken{$which};
	$answer //= '';
	return never([ $answer =~ /^(?:t|[1-9]\d*)$/ ? "$which: $answer" : () ], $what)
	  if $answer =~ /^(?:[tf]|\d*)$/;
	return $test->ok(0, $what) || $test->diag("answer: $answer");
}

=pod

=item still_leads($node, $election, $what)

=item same_term($token, $seen, $what)

The node leads (on); a term goes on, so that its token is the same.  A lower token
breaks G2.

=cut

sub still_leads
{
	my ($node, $election, $what) = @_;

	return Test::Builder->new->ok($node->is_leader($election), $what);
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
	return $test->ok($seen eq $token, $what) || $test->diag("token $token, then $seen");
}

=pod

=item never($found, $what)

Tests that the list is empty: what must not happen however slow the machine is,
though it is none of the guarantees, as an internal error.  A test in which it
does is not run again (test/verdict).

=cut

sub never
{
	my ($found, $what) = @_;
	my $test = Test::Builder->new;

	return $test->ok(!@$found, $what)
	  || $test->diag(map { "must never happen: $_\n" } @$found);
}

=pod

=item deliberate($pattern)

Says that a line like this in the logs of this test's servers, as of a crash or a
PANIC, is the test's own doing; see test/verdict.

=cut

sub deliberate
{
	my ($pattern) = @_;

	return Test::Builder->new->note("deliberate: $pattern");
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
