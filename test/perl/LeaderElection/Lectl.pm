
=pod

=head1 NAME

LeaderElection::Lectl - lectl, and commands that tell when they ran

=head1 SYNOPSIS

  my ($code, $out, $err) = lectl($node, 'exec', 'e', '--', 'echo', 'x');

  my $ground = LeaderElection::Lectl::Ground->new;
  my $lectl = LeaderElection::Lectl->start('one', $node, 'exec', 'e',
    $ground->worker('one'));
  $ground->wait_for('one');
  is($lectl->code, 79);
  guarantee('G1', [ $ground->overlaps ], 'one at a time');

=head1 DESCRIPTION

A worker is a command that holds a lock on the ground's file for as long as it
lives: the kernel gives it back the moment the process is dead, so a worker that
finds it taken has met another.

=cut

package LeaderElection::Lectl;

use strict;
use warnings;

use parent 'LeaderElection::Process';

use Carp;
use Exporter 'import';
use IPC::Run;
use LeaderElection::Util;
use PostgreSQL::Test::Utils ();

our @EXPORT = qw(lectl);

=pod

=head1 METHODS

=over

=item lectl($node, @arguments)

Runs it to its end: exit code, output and errors.  $node is an instance or a
connection string.

=item start($name, $node, @arguments)

Starts it.

=item code()

Waits for its end; its exit code as a shell gives it.

=back

=cut

sub _command
{
	my ($node, @arguments) = @_;

	return ("$ENV{LE_BIN}/lectl", '-w', '-d',
		ref $node ? $node->connstr('postgres') : $node, @arguments);
}

sub lectl
{
	my ($node, @arguments) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run([ _command($node, @arguments) ], '<', \'', '>', \$out, '2>', \$err,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return (_code($?), $out, $err);
}

sub _code
{
	my ($status) = @_;

	return $status & 127 ? 128 + ($status & 127) : $status >> 8;
}

sub start
{
	my ($class, $name, $node, @arguments) = @_;
	my ($script) = $0 =~ m{([^/]+?)(\.[^.]*)?$};
	my $self = $class->SUPER::new($name);

	$self->spawn(
		cwd => $PostgreSQL::Test::Utils::tmp_check,
		log => "$PostgreSQL::Test::Utils::log_path/${script}_$name.log",
		command => [ _command($node, @arguments) ]);
	return $self;
}

sub code
{
	my ($self) = @_;

	poll_until(sub { !$self->is_running }, "end of lectl $self->{name}", interval => 0.002);
	return _code($self->{status});
}

package LeaderElection::Lectl::Ground;

=pod

=head1 GROUND

=over

=item new()

=item worker($name, [ $trap ])

The words of a command that runs until it is ended; with $trap it pays no heed
to SIGTERM.

=item wait_for($name, [ $n ])

Until the worker of that name has started (for the nth time).

=item runs([ $name ])

The runs that started: name, fencing token, process and when (CLOCK_BOOTTIME, ns), each an
array.

=item overlaps()

The workers that met another.

=item alive($pid)

=back

=cut

use LeaderElection::Util;

my $grounds = 0;

my $worker = <<'END';
use Fcntl qw(:flock);
my ($dir, $name, $trap) = @ARGV;
$SIG{TERM} = 'IGNORE' if $trap;
open(my $lock, '>>', "$dir/lock") or die;
open(my $log, '>>', "$dir/log") or die;
my $met = flock($lock, LOCK_EX | LOCK_NB) ? '' : ' overlap';
syswrite($log, "$name $ENV{LE_FENCING_TOKEN} $$ "
	. int(Time::HiRes::clock_gettime(7) * 1e9) . "$met\n");
sleep 1 while 1;
END

sub new
{
	my ($class) = @_;
	my $dir = "$PostgreSQL::Test::Utils::tmp_check/ground" . ++$grounds . ".$$";

	mkdir $dir or die "mkdir $dir: $!";
	return bless { dir => $dir }, $class;
}

sub worker
{
	my ($self, $name, $trap) = @_;

	return ('--', $^X, '-MTime::HiRes', '-e', $worker, $self->{dir}, $name, $trap ? 1 : 0);
}

sub _lines
{
	my ($self) = @_;

	open(my $log, '<', "$self->{dir}/log") or return;
	return map { [ split ' ' ] } <$log>;
}

sub runs
{
	my ($self, $name) = @_;

	return grep { !defined $name || $_->[0] eq $name } $self->_lines;
}

sub wait_for
{
	my ($self, $name, $n) = @_;

	return poll_until(sub { ($self->runs($name))[ ($n // 1) - 1 ] },
		"worker $name", interval => 0.005);
}

sub overlaps
{
	my ($self) = @_;

	return map { "@$_" } grep { @$_ > 4 } $self->_lines;
}

# A dead process that nobody has waited for yet counts as dead.
sub alive
{
	my ($self, $pid) = @_;

	open(my $fh, '<', "/proc/$pid/stat") or return 0;
	return (<$fh> // '') !~ /^\d+ \(.*\) [ZX]/;
}

1;
