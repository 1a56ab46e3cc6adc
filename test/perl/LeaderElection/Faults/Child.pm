
=pod

=head1 NAME

LeaderElection::Faults::Child - a process of the harness beside the main one

=head1 SYNOPSIS

  package LeaderElection::Faults::Witness;
  use parent 'LeaderElection::Faults::Child';

  sub turn { ... ask once ... }
  sub finish { ... write the rest ... }

  my $witness = LeaderElection::Faults::Witness->new(history => $dir,
    name => 'witness_n1', node => $node)->begin;
  $witness->end;

=head1 DESCRIPTION

begin() forks; the child calls turn() over and over until end() or the death of
the parent, then finish().  No END block of the parent runs in it.

=cut

package LeaderElection::Faults::Child;

use strict;
use warnings;

use Carp;
use LeaderElection::Faults::History;
use LeaderElection::Util;
use POSIX qw(WNOHANG);
use Time::HiRes ();

my %running;
my $owner = $$;

sub new
{
	my ($class, %params) = @_;

	return bless {%params}, $class;
}

sub begin
{
	my ($self) = @_;
	my $parent = $$;
	my $pid = fork() // croak "could not fork: $!";

	if ($pid == 0)
	{
		my $ok = eval {
			local $SIG{TERM} = sub { die "end\n" };
			local $SIG{PIPE} = 'IGNORE';

			$self->{log} = LeaderElection::Faults::History->open($self->{history},
				$self->{name});
			eval { $self->setup; $self->turn while getppid() == $parent; };
			die $@ if $@ && $@ ne "end\n";
			1;
		};
		my $error = $@;

		$SIG{TERM} = 'IGNORE';
		eval { $self->finish };
		print STDERR "$self->{name}: $error" unless $ok;
		POSIX::_exit($ok ? 0 : 1);
	}
	$self->{pid} = $pid;
	$running{$pid} = 1;
	return $self;
}

sub setup { return; }
sub finish { return; }

=pod

=head1 METHODS

=over

=item begin(), end()

=item pause($seconds)

For turn(); ends early on end().

=item check()

Dies if the child has died: a run whose witness is gone proves nothing.

=back

=cut

sub pause
{
	my ($self, $seconds) = @_;

	Time::HiRes::usleep($seconds * 1e6);
	return;
}

sub check
{
	my ($self) = @_;

	return unless $self->{pid};
	croak "$self->{name} has died" if waitpid($self->{pid}, WNOHANG) != 0;
	return;
}

sub end
{
	my ($self) = @_;
	my $pid = delete $self->{pid} // return;

	kill('TERM', $pid);
	eval {
		poll_until(sub { waitpid($pid, WNOHANG) != 0 },
			"end of $self->{name}", timeout => 10);
		1;
	} or do { kill('KILL', $pid); waitpid($pid, 0); };
	delete $running{$pid};
	return;
}

END
{
	my $rc = $?;

	kill('KILL', keys %running) if $$ == $owner && %running;
	$? = $rc;
}

1;
