
=pod

=head1 NAME

LeaderElection::Sampler - when did a node believe that it leads?

=head1 SYNOPSIS

  my @samplers = map { LeaderElection::Sampler->new($_, 'billing') } ($a, $b);
  ... failover ...
  $_->stop foreach @samplers;
  guarantee('G1', [ LeaderElection::Sampler->overlaps(@samplers) ], 'one at a time');

=head1 DESCRIPTION

One child process per node asks le_is_leader and le_fencing_token over one
connection, over and over, and notes CLOCK_BOOTTIME before the question and
after the answer.  A term is never resumed, so of a row of true answers with
one token it is certain that the node believed from the end of the first to
the beginning of the last; these intervals are compared.  They are what was
seen, hence too short, never too long: no overlap is reported that was none.

=cut

package LeaderElection::Sampler;

use strict;
use warnings;

use Carp;
use IPC::Open2;
use LeaderElection::Util;
use POSIX ();
use PostgreSQL::Test::Utils ();
use Time::HiRes ();

my %running;
my $owner = $$;
my $number = 0;

=pod

=head1 METHODS

=over

=item new($node, $election, [ interval => s ])

Starts sampling, by default every 5 ms.  A node that is down or comes back is
no error: there are no answers while it is away.

=cut

sub new
{
	my ($class, $node, $election, %params) = @_;
	my ($script) = $0 =~ m{([^/]+?)(\.[^.]*)?$};
	my $file = sprintf('%s/t_%s_%s_samples%d',
		$PostgreSQL::Test::Utils::tmp_check,
		$script, $node->name, ++$number);
	my $self = bless {
		name => $node->name,
		file => $file,
		query => "SELECT le_is_leader('$election'), "
		  . "le_fencing_token('$election');\n"
	}, $class;
	my $psql = $node->installed_command('psql');
	my @command = (
		'setpriv', '--pdeathsig', 'KILL', $psql, '-XAtq', '-d',
		$node->connstr('postgres'));

	open(my $fh, '>', $file) or croak "could not write $file: $!";
	$fh->autoflush(1);
	my $pid = fork() // croak "could not fork: $!";
	if ($pid == 0)
	{
		eval {
			_sample($fh, \@command, $self->{query}, $params{interval} // 0.005,
				getppid());
		};
		POSIX::_exit(0);
	}
	$self->{pid} = $pid;
	$running{$pid} = 1;
	return $self;
}

sub _sample
{
	my ($fh, $command, $query, $interval, $parent) = @_;

	local $SIG{TERM} = 'DEFAULT';
	local $SIG{PIPE} = 'IGNORE';
	open(STDERR, '>', '/dev/null');
	while (getppid() == $parent)
	{
		my $pid = open2(my $out, my $in, @$command);

		$in->autoflush(1);
		while (getppid() == $parent)
		{
			my $before = boottime_ns();

			print $in "$query\\echo .\n" or last;
			my $answer = <$out> // last;
			my $after = boottime_ns();

			# a query that failed has no row: psql may not have noticed yet
			# that the server is gone
			last if $answer eq ".\n";
			<$out> // last;
			print $fh "$before $after $answer";
			Time::HiRes::usleep($interval * 1e6);
		}
		close $in;
		close $out;
		kill('KILL', $pid);
		waitpid($pid, 0);
		Time::HiRes::usleep(20_000);
	}
	return;
}

=pod

=item stop()

=item samples()

List of [ before, after, token ], in nanoseconds of CLOCK_BOOTTIME; the token
is undef when the node did not believe.

=item beliefs()

List of [ from, to, token ]: intervals of certain belief.

=item overlaps(@samplers)

Class method: the overlaps between different samplers' beliefs, as
descriptions; an empty list if there are none.

=back

=cut

sub stop
{
	my ($self) = @_;

	return unless $self->{pid};
	kill('TERM', $self->{pid});
	waitpid($self->{pid}, 0);
	delete $running{ delete $self->{pid} };
	return;
}

# Reads what has come since it was asked last: tests poll these while the
# samples grow.
sub _read
{
	my ($self) = @_;

	open(my $fh, '<', $self->{file}) or croak "could not read: $!";
	seek($fh, $self->{read} // 0, 0);
	while (my $line = <$fh>)
	{
		last if $line !~ /\n$/;    # it is being written
		$self->{read} += length $line;

		# "t" without a token: the term ended between the two questions
		$self->_take([ $1, $2, $3 eq 't' && $4 ne '' ? $4 : undef ])
		  if $line =~ /^(\d+) (\d+) ([tf])\|(\d*)$/;
	}
	return;
}

sub _take
{
	my ($self, $sample) = @_;
	my ($before, $after, $token) = @$sample;

	push @{ $self->{samples} }, $sample;
	if (!defined $token)
	{
		delete $self->{current};
	}
	elsif (!$self->{current} || $self->{current}[2] != $token)
	{
		push @{ $self->{beliefs} }, $self->{current} = [ $after, $after, $token ];
	}
	else
	{
		$self->{current}[1] = $before;
	}
	return;
}

sub samples
{
	my ($self) = @_;

	$self->_read;
	return @{ $self->{samples} // [] };
}

sub beliefs
{
	my ($self) = @_;

	$self->_read;
	return map { [@$_] } grep { $_->[1] > $_->[0] } @{ $self->{beliefs} // [] };
}

sub overlaps
{
	my ($class, @samplers) = @_;
	my @overlaps;

	while (my $one = shift @samplers)
	{
		my @beliefs = $one->beliefs;

		foreach my $other (@samplers)
		{
			foreach my $b ($other->beliefs)
			{
				foreach my $a (@beliefs)
				{
					my $from = $a->[0] > $b->[0] ? $a->[0] : $b->[0];
					my $to = $a->[1] < $b->[1] ? $a->[1] : $b->[1];

					push @overlaps,
					  sprintf('%s and %s both led for %.3f ms at %d',
						$one->{name}, $other->{name}, ($to - $from) / 1e6,
						$from)
					  if $from < $to;
				}
			}
		}
	}
	return @overlaps;
}

END
{
	my $rc = $?;

	kill('KILL', keys %running) if $$ == $owner && %running;
	$? = $rc;
}

1;
