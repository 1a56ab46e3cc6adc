
=pod

=head1 NAME

LeaderElection::Loss - lectl exec on two instances, of which one loses its term

=head1 SYNOPSIS

  use LeaderElection::Loss;

  my $ground = lose_between($a, $b, carries => 2.5);
  loses('stepped down', 0, sub { $a->ask("SELECT le_step_down('e', '0')") },
    strict => 1);

=head1 DESCRIPTION

The election is "e".  Whatever happens, the command ends before anybody else's
begins.

=cut

package LeaderElection::Loss;

use strict;
use warnings;

use Carp;
use Exporter 'import';
use LeaderElection::Lectl;
use LeaderElection::Util;
use Test::More;

our @EXPORT = qw(
  backend_of
  begun
  death
  exec_on
  lose_between
  loses
);

my ($a, $b, $ground, $carries, $good_for);
my $number = 0;

=pod

=head1 FUNCTIONS

=over

=item lose_between($a, $b, carries => s, [ good_for => s ])

From now on the first leads and the second waits; returns the ground on which
their commands meet.  Carries: how far away the deadline is at most.  Good for: how
far away it is at least, if that is most of a minute or more; a command that is dead
before it was not ended by it.

=cut

sub lose_between
{
	my ($leads, $waits, %params) = @_;

	($a, $b) = ($leads, $waits);
	($carries, $good_for) = @params{ 'carries', 'good_for' };
	return $ground = LeaderElection::Lectl::Ground->new;
}

=pod

=item exec_on($where, $deaf, @options)

Starts lectl exec on an instance, or by a connection string, for a command that
pays heed to SIGTERM, or is deaf to it.

=item begun($start, [ $lectl ])

Waits until the command of this lectl begins, or of one that the code starts.  If the
term ends before, as on a machine that stands still, the code starts another.
Returns lectl, and its run on the ground.

=item backend_of($node)

The process that holds the election there.

=item death($pid, $from)

The seconds from an instant until the process is dead.

=cut

sub exec_on
{
	my ($where, $deaf, @options) = @_;
	my $name = 'w' . ++$number;
	my $connstr = ref $where ? $where->connstr('postgres') : $where;

	return LeaderElection::Lectl->start($name, $connstr, 'exec', 'e',
		'--wait', '2min', @options, $ground->worker($name, $deaf));
}

sub begun
{
	my ($start, $lectl) = @_;
	my $run;

	poll_until(
		sub {
			$lectl //= $start->();
			my $ended = !$lectl->is_running;

			return 1 if ($run) = $ground->runs($lectl->name);
			return 0 if !$ended;
			return 1 if $lectl->code !~ /^7[59]$/;
			note($lectl->name . ': its term ended before the command had begun');
			undef $lectl;
			return 0;
		},
		'a command to begin',
		interval => 0.005);
	croak $lectl->name . ' ended: ' . $lectl->log unless $run;
	return ($lectl, $run);
}

sub backend_of
{
	my ($node) = @_;

	return $node->ask("SELECT pid FROM le_status WHERE election = 'e' AND state = 'leader'");
}

sub death
{
	my ($pid, $from) = @_;

	poll_until(sub { !$ground->alive($pid) }, "death of $pid", interval => 0.001);
	return (boottime_ns() - $from) / 1e9;
}

# By what lectl says, the deadline was not what ended it.
sub _was_told
{
	my ($lectl) = @_;

	return $lectl->log !~ /has not confirmed it in time/;
}

=pod

=item loses($what, $deaf, $happen, %params)

One leads on a, and another waits on b.  It happens to the first; how long did its
command live on?  Then the other's turn comes, and is ended.  Parameters:

=over

=item strict

The next term begins when the command is dead, so there is no need to settle.
Otherwise the next one settles for as long as the old deadline may be away, so
that none of this depends on how fast the machine is.

=item deadline

Only the deadline can end the command, and does.  Without it the loss is told, not
only timed out, in one of three tries: on a machine that stands still in that very
moment both are right.

=item connstr

How the first gets to a.

=item killed

It was lectl that was ended: nobody asks for its exit code, or for what it says.

=item alone

The other begins to wait when all is repaired, since it happens to its instance,
too.

=item repair, finally

Called when the command is dead, with lectl, and when the next one's turn is over.

=back

=back

=cut

sub loses
{
	my ($what, $deaf, $happen, %params) = @_;
	my ($one, $run) = begun(sub { exec_on($params{connstr} // $a, $deaf) });
	my $next = sub { exec_on($b, 0, '--settle', $params{strict} ? '0' : "$carries s") };
	my $two = $params{alone} ? undef : $next->();
	my $from = boottime_ns();
	my $again;

	$happen->($one);
	note("$what: dead after " . death($run->[2], $from) . ' s');
	before(boottime_ns(), $from + $good_for * 1e9, "$what: dead before the deadline")
	  if $good_for && !$params{deadline};
	$params{repair}->($one) if $params{repair};
	$two //= $next->();
	if (!$params{killed})
	{
		is($one->code, 79, 'lectl says that it was lost');
		$again = !$params{deadline} && !_was_told($one) && ($params{tries} // 0) < 2;
		ok($again || _was_told($one), "$what: lectl was told") unless $params{deadline};
	}
	($two, my $its_run) = begun($next, $two);
	guarantee('G2', [ $run->[1], $its_run->[1] ], 'the next has a higher token');
	kill('TERM', $two->pid);
	is($two->code, 143, 'and is ended');
	$params{finally}->() if $params{finally};
	guarantee('G1', [ $ground->overlaps ], 'never two at a time');
	loses($what, $deaf, $happen, %params, tries => ($params{tries} // 0) + 1) if $again;
	return;
}

1;
