
=pod

=head1 NAME

LeaderElection::Faults::Witness - asks an instance, all the time, what it leads

=head1 DESCRIPTION

One process and one connection for an instance.  The questions are the ones
that jobs ask, le_is_leader() and le_fencing_token(), of every election that
the instance knows.  CLOCK_BOOTTIME is read here, outside of all that is made to
fail, before each question and after its answer.

=cut

package LeaderElection::Faults::Witness;

use strict;
use warnings;

use parent 'LeaderElection::Faults::Child';

use IPC::Open2;
use LeaderElection::Util;

use constant QUERY => q{SELECT coalesce(string_agg(election || '=' ||
 le_fencing_token(election), ' '), '-') FROM le_status
 WHERE le_is_leader(election);} =~ s/\n//gr . "\n\\echo .\n";

sub setup
{
	my ($self) = @_;
	my $node = $self->{node};

	open(STDERR, '>', '/dev/null');
	$self->{beliefs} =
	  LeaderElection::Faults::Beliefs->new($self->{log}, $node->name);
	$self->{command} = [
		'setpriv', '--pdeathsig', 'KILL', $node->installed_command('psql'),
		'-XAtq', '-d', $node->connstr('postgres')
	];
	$self->{flushed} = 0;
	return;
}

sub turn
{
	my ($self) = @_;

	$self->_connect unless $self->{psql};

	my $before = boottime_ns();
	my $answer =
	  print({ $self->{in} } QUERY) ? readline($self->{out}) : undef;
	my $after = boottime_ns();

	# A query that failed has no row: psql may not have noticed yet that the
	# server is gone.
	if (!defined $answer
		|| $answer eq ".\n"
		|| !defined readline($self->{out}))
	{
		$self->_disconnect;
		$self->pause(0.1);
		return;
	}
	chomp $answer;
	$self->{beliefs}->sample($before, $after,
		$answer eq '-' ? {} : { map { /^(.*)=(\d+)$/ } split / /, $answer });
	if ($after - $self->{flushed} > 1e9)
	{
		$self->{flushed} = $after;
		$self->{beliefs}->flush;
	}
	$self->pause($self->{interval} // 0.006);
	return;
}

sub _connect
{
	my ($self) = @_;

	$self->{psql} =
	  open2($self->{out}, $self->{in}, @{ $self->{command} });
	$self->{in}->autoflush(1);
	return;
}

sub _disconnect
{
	my ($self) = @_;

	close delete $self->{$_} foreach ('in', 'out');
	kill('KILL', $self->{psql});
	waitpid(delete $self->{psql}, 0);
	$self->{beliefs}->forget;
	return;
}

sub finish
{
	my ($self) = @_;

	$self->{beliefs}->flush;
	return;
}

1;
