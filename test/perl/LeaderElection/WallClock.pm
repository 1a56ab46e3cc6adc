
=pod

=head1 NAME

LeaderElection::WallClock - a wall clock that a test moves

=head1 SYNOPSIS

  my $clock = LeaderElection::WallClock->new('n1')
    or plan skip_all => 'no libfaketime';
  $clock->start($node);
  $clock->set(8 * 3600);

=head1 DESCRIPTION

libfaketime, for one instance. It leaves CLOCK_BOOTTIME alone: were that shifted
too, a jump of it would look like a machine that slept for an hour.

=cut

package LeaderElection::WallClock;

use strict;
use warnings;

use Carp;
use LeaderElection::Util;
use PostgreSQL::Test::Utils ();
use Time::HiRes ();

my %litter;
my $owner = $$;

=pod

=head1 METHODS

=over

=item new($name)

Undef without libfaketime.

=cut

sub new
{
	my ($class, $name) = @_;
	my ($library) = glob '/usr/lib/*/faketime/libfaketime.so.1';

	return unless $library;

	my $file = "$PostgreSQL::Test::Utils::tmp_check/faketime_$name";
	my $self = bless {
		file => $file,
		environment => {
			LD_PRELOAD => $library,
			FAKETIME_TIMESTAMP_FILE => $file,
			FAKETIME_CACHE_DURATION => 1,
			FAKETIME_DONT_FAKE_MONOTONIC => 1
		}
	}, $class;

	$self->set(3600);

	my ($boot, $wall) = do {
		local @ENV{ keys %{ $self->{environment} } } =
		  values %{ $self->{environment} };

		split / /,
		  `$^X -MTime::HiRes -e 'printf "%.3f %d", Time::HiRes::clock_gettime(7), time'`;
	};

	croak 'faketime: the wall clock does not move'
	  if abs($wall - time() - 3600) > 60;
	croak 'faketime: CLOCK_BOOTTIME moves'
	  if abs($boot - boottime_ns() / 1e9) > 60;
	$self->set(0);
	return $self;
}

=pod

=item environment()

The environment of processes with this clock, a hash.

=item start($node)

Starts the instance with this clock.

=item LeaderElection::WallClock::reach_worker($node)

Lets the worker of an instance that has just started see such a clock.

=item set($offset)

The clock is so many seconds ahead, within a second.

=item LeaderElection::WallClock::tidily(sub { ... })

Runs the code. Files that libfaketime makes in shared memory meanwhile are removed
in the end: it leaves them when its process is killed.

=back

=cut

sub environment
{
	my ($self) = @_;

	return $self->{environment};
}

sub start
{
	my ($self, $node) = @_;

	local @ENV{ keys %{ $self->{environment} } } =
	  values %{ $self->{environment} };

	tidily(sub { $node->start });
	reach_worker($node);
	return;
}

# libfaketime fakes nothing while the program is in its select(), in whose signal
# handlers the postmaster of PostgreSQL 15 starts the first worker: for life.  The
# next one it starts elsewhere.
sub reach_worker
{
	my ($node) = @_;

	$node->wait_for_worker($node->wait_for_worker && $node->kill_worker('TERM'));
	return;
}

sub set
{
	my ($self, $offset) = @_;

	open(my $fh, '>', "$self->{file}.new") or croak "faketime: $!";
	printf $fh "%+d\n", $offset;
	close $fh;
	rename("$self->{file}.new", $self->{file}) or croak "faketime: $!";
	return;
}

sub _files { return glob '/dev/shm/*faketime_s*' }

sub tidily
{
	my ($code) = @_;
	my %before = map { $_ => 1 } _files();
	my $result = $code->();

	$litter{$_} = 1 foreach grep { !$before{$_} } _files();
	return $result;
}

END
{
	my $rc = $?;

	unlink keys %litter if $$ == $owner;
	$? = $rc;
}

1;
