
=pod

=head1 NAME

LeaderElection::Process - a service run by a test

=head1 SYNOPSIS

  my $process = LeaderElection::Process->new('consul');
  $process->spawn(cwd => $dir, log => $file, command => [...]);
  $process->freeze;
  $process->thaw;
  $process->kill9;
  $process->terminate;

=head1 DESCRIPTION

Base class of the services.  Whatever a test started ends with it: by the END
block when the test ends or dies, and by the kernel (parent death signal) when
the test itself is killed.

=cut

package LeaderElection::Process;

use strict;
use warnings;

use Carp;
use LeaderElection::Util;
use POSIX qw(WNOHANG);
use Scalar::Util qw(weaken);

my %running;    # pid => process
my $owner = $$;

# An interrupted test runs its END blocks, too.
$SIG{$_} //= sub { exit 1 }
  foreach qw(INT TERM HUP);

sub new
{
	my ($class, $name) = @_;

	return bless { name => $name }, $class;
}

sub name { return $_[0]->{name}; }
sub pid { return $_[0]->{pid}; }

=pod

=head1 METHODS

=over

=item spawn(command => [ ... ], cwd => dir, log => file, env => { ... })

Starts the command, its output appended to the log.

=cut

sub spawn
{
	my ($self, %params) = @_;

	croak "$self->{name} runs already" if $self->is_running;
	my $pid = fork() // croak "could not fork: $!";
	if ($pid == 0)
	{
		# From here on only exec or _exit: no END block of the test.
		eval {
			chdir $params{cwd} or die "chdir: $!";
			open(STDIN, '<', '/dev/null') or die "stdin: $!";
			open(my $log, '>>', $params{log}) or die "log: $!";
			POSIX::dup2(fileno($log), 1);
			POSIX::dup2(fileno($log), 2);
			%ENV = (%ENV, %{ $params{env} // {} });
			exec 'setpriv', '--pdeathsig', 'KILL', @{ $params{command} };
		};
		POSIX::_exit(127);
	}
	$self->{pid} = $pid;
	$self->{log} = $params{log};
	$running{$pid} = $self;
	weaken($running{$pid});
	return $self;
}

=pod

=item is_running()

=cut

sub is_running
{
	my ($self) = @_;

	return 0 unless $self->{pid};
	if (waitpid($self->{pid}, WNOHANG) == 0)
	{
		return 1;
	}
	$self->{status} = $?;
	delete $running{ $self->{pid} };
	delete $self->{pid};
	return 0;
}

=pod

=item freeze(), thaw()

SIGSTOP and SIGCONT: a machine that hangs, and comes back with all it knew.

=cut

sub freeze
{
	my ($self) = @_;

	stop_process($self->{pid}) or croak "$self->{name} does not run";
	$self->{frozen} = 1;
	return;
}

sub thaw
{
	my ($self) = @_;

	kill('CONT', $self->{pid}) or croak "$self->{name} does not run";
	$self->{frozen} = 0;
	return;
}

=pod

=item kill9()

Ends it without a word, frozen or not.

=cut

sub kill9
{
	my ($self) = @_;

	return unless $self->{pid};
	kill('KILL', $self->{pid});
	waitpid($self->{pid}, 0);
	delete $running{ $self->{pid} };
	delete $self->{pid};
	$self->{frozen} = 0;
	return;
}

=pod

=item terminate()

SIGTERM, then waits for its end; SIGKILL if that takes longer than any wait may.

=cut

sub terminate
{
	my ($self) = @_;

	return unless $self->is_running;
	kill('TERM', $self->{pid});
	kill('CONT', $self->{pid}) if $self->{frozen};
	eval { poll_until(sub { !$self->is_running }, "end of $self->{name}"); };
	$self->kill9;
	return;
}

=pod

=item log([ $offset ]), log_size()

Its output so far, or since an earlier log_size().

=back

=cut

sub log
{
	my ($self, $offset) = @_;

	open(my $fh, '<', $self->{log}) or return '';
	seek($fh, $offset // 0, 0);
	local $/ = undef;
	return <$fh> // '';
}

sub log_size
{
	my ($self) = @_;

	return -s $self->{log} // 0;
}

sub DESTROY
{
	my ($self) = @_;

	local ($?, $!, $@);
	$self->kill9 if $$ == $owner;
	return;
}

END
{
	my $rc = $?;

	if ($$ == $owner)
	{
		foreach my $process (grep { defined } values %running)
		{
			$process->kill9;
		}
	}
	$? = $rc;
}

1;
