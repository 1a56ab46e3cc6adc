
=pod

=head1 NAME

LeaderElection::Faults::History - what happened in a run, line by line

=head1 SYNOPSIS

  my $history = LeaderElection::Faults::History->open($dir, 'client3');
  $history->write(type => 'op', op => 'acquire', call => $before, ...);

  my $beliefs = LeaderElection::Faults::Beliefs->new($history, 'n1');
  $beliefs->sample($before, $after, { billing => 42 });

=head1 DESCRIPTION

One file per process that writes, so that none waits for another and none can
spoil another's lines; test/faults/README.md says what the records mean.

=cut

package LeaderElection::Faults::History;

use strict;
use warnings;

use Carp;
use JSON::PP ();

my $json = JSON::PP->new->canonical->utf8;

# Fields that are numbers in JSON, whatever Perl has made of them.
my %number = map { $_ => 1 }
  qw(at bound call cancel_bound client first from index last lease lock_index
  low margin return samples seed to token try until);

=pod

=head1 METHODS

=over

=item open($directory, $name)

=item write(%record)

Fields that are undefined are left out.

=cut

sub open    ## no critic (builtin homonym)
{
	my ($class, $dir, $name) = @_;
	my $file = "$dir/$name.jsonl";

	CORE::open(my $fh, '>', $file) or croak "could not write $file: $!";
	return bless { fh => $fh, dir => $dir, name => $name }, $class;
}

sub write    ## no critic (builtin homonym)
{
	my ($self, %record) = @_;

	foreach my $field (keys %record)
	{
		if (!defined $record{$field})
		{
			delete $record{$field};
		}
		elsif ($number{$field})
		{
			$record{$field} += 0;
		}
	}

	# one system call for a line: what is cut off is the end of the file
	syswrite($self->{fh}, $json->encode(\%record) . "\n") // croak "write: $!";
	return;
}

=pod

=item LeaderElection::Faults::Beliefs->new($history, $holder)

Makes intervals of belief of what single questions were answered.

=item sample($before, $after, \%token)

The holder was asked after $before, and had answered by $after, that it leads
the elections that are keys, with these tokens.

=item flush([ $final ])

Writes what goes on still; to be called now and then, since whoever is killed
cannot tell what it has seen.

=item forget()

The next answer comes from somewhere else: another connection.

=back

=cut

package LeaderElection::Faults::Beliefs;

sub new
{
	my ($class, $history, $holder) = @_;

	return bless {
		history => $history,
		holder => $holder,
		open => {},
		count => 0
	}, $class;
}

sub sample
{
	my ($self, $before, $after, $token) = @_;
	my $open = $self->{open};

	$self->{count}++;
	foreach my $election (keys %$open)
	{
		next if ($token->{$election} // 0) == $open->{$election}{token};
		$self->_write($election, $after);
		delete $open->{$election};
	}
	foreach my $election (keys %$token)
	{
		my $belief = $open->{$election};

		if ($belief)
		{
			$belief->{last} = $before;
			next;
		}
		$open->{$election} = {
			token => $token->{$election},
			low => $self->{previous} // 0,
			first => $after,
			last => $before
		};
	}
	$self->{previous} = $before;
	return;
}

sub _write
{
	my ($self, $election, $until) = @_;
	my $belief = $self->{open}{$election};

	$self->{history}->write(
		type => 'belief',
		holder => $self->{holder},
		election => $election,
		until => $until,
		%$belief);
	return;
}

sub flush
{
	my ($self) = @_;

	$self->_write($_) foreach keys %{ $self->{open} };
	$self->{history}->write(type => 'samples', samples => $self->{count})
	  if $self->{count};
	$self->{count} = 0;
	return;
}

sub forget
{
	my ($self, $holder) = @_;

	$self->flush;
	$self->{open} = {};
	$self->{holder} = $holder if defined $holder;
	delete $self->{previous};
	return;
}

1;
