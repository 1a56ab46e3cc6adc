
=pod

=head1 NAME

LeaderElection::Faults::Stage - instances, proxies and a store to be tormented

=head1 SYNOPSIS

  my $stage = LeaderElection::Faults::Stage->new(store => $store,
    history => $dir);
  $stage->set_up;
  ...
  $stage->tear_down;

=cut

package LeaderElection::Faults::Stage;

use strict;
use warnings;

use Carp;
use JSON::PP ();
use LeaderElection::Faults::Client;
use LeaderElection::Faults::History;
use LeaderElection::Faults::Job;
use LeaderElection::Faults::Witness;
use LeaderElection::Node;
use LeaderElection::Toxiproxy;
use LeaderElection::Util;
use LeaderElection::WallClock;
use PostgreSQL::Test::Utils ();
use Time::HiRes ();

# Elections that all instances campaign for all the time.  "edited" is the one
# whose key is meddled with.
use constant JOBS => map { "job/$_" } 1 .. 4;

=pod

=head1 METHODS

=over

=item new(store => $store, history => $directory, seed => $n)

=item set_up()

Store, proxies, three instances, their witnesses and clients.

=item clean_up()

Ends what writes histories, and collects what the runs of ticks have committed.

=item stop()

Stops the instances, as an operator would.

=cut

sub new
{
	my ($class, %params) = @_;
	my $self = bless { targets => [], children => [], copies => 0, %params },
	  $class;

	mkdir $self->{history};
	$self->{log} =
	  LeaderElection::Faults::History->open($self->{history}, 'main');
	return $self;
}

sub set_up
{
	my ($self) = @_;

	$self->{store}->start;
	$self->{toxiproxy} = LeaderElection::Toxiproxy->new->start;
	foreach my $number (1 .. 3)
	{
		my $faked = $number == 3 && $self->_clock;
		my $target = $self->add("n$number", faked => $faked);

		$self->{faked} = $target if $faked;
	}
	$self->_begin($self->{store}->observer($self->{history}, JOBS));

	foreach my $target (@{ $self->{targets} })
	{
		foreach my $scope ('node', 'session', 'session')
		{
			$self->_client('Client', $target, scope => $scope);
		}
		foreach my $slow (0, 1)
		{
			$self->_client('Job', $target, slow => $slow);
		}
	}
	return;
}

sub _client
{
	my ($self, $kind, $target, %params) = @_;
	my $number = ++$self->{clients};

	return $self->_begin(
		"LeaderElection::Faults::$kind"->new(
			history => $self->{history},
			name => lc($kind) . $number,
			number => $number,
			seed => $self->{seed} + $number,
			jobs => [JOBS],
			node => $target->{node},
			%params));
}

sub _begin
{
	my ($self, $child) = @_;

	push @{ $self->{children} }, $child->begin;
	return $child;
}

=pod

=item add($name, %params), remove($target)

One more instance, with link and witness; params are those of Node's create(),
and faked: its wall clock can be moved by jump().

=item another($letter)

A name that no instance had yet.

=item start_node($node, %params)

Starts it in the environment it was made for; params are those of
PostgreSQL::Test::Cluster's start(), whose result it returns.

=cut

=item load($target), unload(@clients)

Clients that work without a pause, besides those that are there all the time; and
their end.

=item fill_disk($target, @names), free_disk($target)

Nothing more gets into files of the instance whose path contains one of the names
(test/faults/full_disk.c); and it does again.

=cut

sub load
{
	my ($self, $target) = @_;

	return map {
		$self->_client('Client', $target, scope => $_, busy => 1)
	} qw(node session session);
}

sub unload
{
	my ($self, @clients) = @_;

	foreach my $client (@clients)
	{
		$client->check;
		$client->end;
		$self->{children} = [ grep { $_ != $client } @{ $self->{children} } ];
	}
	return;
}

sub fill_disk
{
	my ($self, $target, @names) = @_;
	my $file = $self->{environment}{ $target->{node}->name }{FULL_DISK};

	open(my $fh, '>', "$file.new") or croak "full disk: $!";
	print $fh "$_\n" foreach @names;
	close $fh;
	rename("$file.new", $file) or croak "full disk: $!";
	return;
}

sub free_disk
{
	my ($self, $target) = @_;

	unlink $self->{environment}{ $target->{node}->name }{FULL_DISK};
	return;
}

sub another
{
	my ($self, $letter) = @_;

	return $letter . ++$self->{copies};
}

sub add
{
	my ($self, $name, %params) = @_;
	my $faked = delete $params{faked};
	my %settings = %{ delete $params{settings} // {} };
	my $number = scalar @{ $self->{targets} };
	my $timing = $self->{store}->timing;
	my $which = 0;
	my @links = map {
		$self->{toxiproxy}->link("${name}_" . ++$which, $_)
	} $self->{store}->upstreams($number);
	my $node = LeaderElection::Node->create(
		$name,
		start => 0,
		($params{backup} ? () : (allows_streaming => 1)),
		settings => {
			$self->{store}->settings(@links),
			lease_ttl => $timing->{lease_ttl},
			safety_margin => $timing->{margin} / 1e6 . 'ms',
			request_timeout => $timing->{request_timeout},
			max_elections => 48,
			campaign => join(', ', JOBS, 'edited'),
			# the wall clock that jumps goes on claiming
			max_clock_offset => '1d',
			%settings
		},
		%params);

	$self->{environment}{$name} = $self->_environment($name, $faked)
	  unless $params{backup};
	$self->start_node($node);
	$node->sql('CREATE EXTENSION leader_election; '
		  . 'CREATE TABLE work(job text, token bigint); '
		  . 'CREATE TABLE ran(job text, tick bigint)')
	  unless $params{backup};

	my $target = {
		node => $node,
		link => LeaderElection::Faults::Links->new(@links),
		witness => LeaderElection::Faults::Witness->new(
			history => $self->{history},
			name => "witness_$name",
			node => $node)->begin
	};

	push @{ $self->{children} }, $target->{witness};
	push @{ $self->{targets} }, $target unless $params{backup};
	return $target;
}

sub remove
{
	my ($self, $target) = @_;

	$self->{children} =
	  [ grep { $_ != $target->{witness} } @{ $self->{children} } ];
	$target->{node}->stop('fast');
	$target->{witness}->end;
	$target->{node}->clean_node;
	return;
}

sub start_node
{
	my ($self, $node, %params) = @_;
	my $environment = $self->{environment}{ $node->name } // {};

	local @ENV{ keys %$environment } = values %$environment;

	my $started =
	  LeaderElection::WallClock::tidily(sub { $node->start(%params) });

	LeaderElection::WallClock::reach_worker($node)
	  if $started && $environment->{FAKETIME_TIMESTAMP_FILE};
	return $started;
}

sub _clock
{
	my ($self) = @_;

	return $self->{clock} = LeaderElection::WallClock->new('stage');
}

# The surroundings of an instance: a disk that can be filled, and perhaps a wall
# clock that can be moved.
sub _environment
{
	my ($self, $name, $faked) = @_;
	my $library = "$ENV{LE_BIN}/full-disk.so";
	my %environment = $faked ? %{ $faked->environment } : ();

	croak "no $library" unless -e $library;
	$environment{LD_PRELOAD} = join(':',
		grep { defined } $environment{LD_PRELOAD}, $library);
	$environment{FULL_DISK} =
	  "$PostgreSQL::Test::Utils::tmp_check/full_disk_$name";
	return \%environment;
}

=pod

=item jump($offset)

Moves the wall clock of the instance whose clock can be moved, and makes sure
that it did, while what its terms have left (CLOCK_BOOTTIME) did not.

=cut

sub jump
{
	my ($self, $offset) = @_;
	my $node = $self->{faked}{node};
	my $lease = $self->{store}->timing->{trust} / 1e9;

	$self->{clock}->set($offset);
	poll_until(
		sub {
			my ($wall, $left) = split /\|/,
			  $node->sql('SELECT extract(epoch FROM clock_timestamp()), '
				  . 'coalesce(max(extract(epoch FROM expires_at - clock_timestamp())), 0) '
				  . 'FROM le_status');

			croak "faketime: a term has $left s left" if $left > $lease + 1;
			return abs($wall - time() - $offset) < 30;
		},
		$node->name . "'s wall clock to move",
		timeout => 60,
		interval => 0.1);
	return;
}

=pod

=item silence_all($why), silence_over()

Nothing that proves a term reaches any instance, from now on.

=item exempt($election, $why)

For a lease from now on, two may believe in it.

=cut

sub silence_all
{
	my ($self, $why) = @_;

	$self->{silence} = { kind => $why, from => boottime_ns() };
	return;
}

sub silence_over
{
	my ($self) = @_;
	my $silence = delete $self->{silence} // return;

	$self->{log}->write(
		type => 'silence',
		holder => $_->{node}->name,
		to => boottime_ns(),
		%$silence) foreach @{ $self->{targets} };
	return;
}

sub exempt
{
	my ($self, $election, $why) = @_;
	my $now = boottime_ns();

	$self->{log}->write(
		type => 'exempt',
		election => $election,
		from => $now,
		to => $now + $self->{store}->timing->{trust} + 1e9,
		checks => [ 'I1', 'I3', 'I6' ],
		what => $why);
	$self->_deed($election, $why, $now) if $ENV{LE_TRACES};
	return;
}

# For test/traces: the workers' record cannot show who else has written a key.
sub _deed
{
	my ($self, $election, $what, $at) = @_;

	$self->{deeds} //=
	  LeaderElection::Faults::History->open($ENV{LE_TRACES}, 'deeds');
	$self->{deeds}->write(
		line => 'deed',
		at => $at,
		election => $election,
		what => $what);
	return;
}

=pod

=item witnessed()

Waits until all witnesses have seen something from now on: a run whose
witnesses are blind proves nothing.

=item leaders()

The number of jobs of which somebody believes to be the leader.

=item claim($tick)

Every instance tries to claim the tick of a job until one has got it; to be
called when all is well.

=item check()

Dies if a part of the harness itself has died.

=back

=cut

sub leaders
{
	my ($self) = @_;
	my %led;

	foreach my $target (@{ $self->{targets} })
	{
		my $answer = eval {
			$target->{node}->sql('SELECT election FROM le_status '
				  . "WHERE le_is_leader(election) AND election ~ '^(job/|edited)'");
		} // '';

		$led{$_} = 1 foreach split /\n/, $answer;
	}
	return scalar keys %led;
}

sub witnessed
{
	my ($self) = @_;
	my $now = Time::HiRes::time();

	foreach my $target (@{ $self->{targets} })
	{
		my $file = "$self->{history}/$target->{witness}{name}.jsonl";

		poll_until(sub { (Time::HiRes::stat($file))[9] > $now },
			$target->{node}->name . "'s witness to see something");
	}
	return;
}

sub claim
{
	my ($self, $tick) = @_;
	my $job = (JOBS)[ rand JOBS ];
	my $sql = "SELECT le_claim('$job', 'round', to_timestamp($tick)), "
	  . "coalesce(le_fencing_token('$job'), 0)";
	my $limit = boottime_ns() + $self->{store}->timing->{bound};
	my %result = (true => 0, unknown => 0);

	$self->{claims} //=
	  $self->{targets}[0]{node}
	  ->sql("SELECT count(*) FROM pg_proc WHERE proname = 'le_claim'");
	return unless $self->{claims};
	until ($result{true} || $result{unknown} || boottime_ns() > $limit)
	{
		# not just until the first: the others must be refused
		foreach my $target (@{ $self->{targets} })
		{
			my $before = boottime_ns();
			my ($rc, $out, $error) = $target->{node}->psql('postgres',
				"\\set VERBOSITY verbose\n$sql");
			my ($answer, $token) = split /\|/, $out;
			my $result =
			    $rc == 0 ? ($answer eq 't' ? 'true' : 'false')
			  : $error =~ /ERROR:  LE00[13]/ ? 'refused'
			  : 'unknown';

			$result{$result}++;
			$self->{log}->write(
				type => 'claim',
				holder => $target->{node}->name,
				election => $job,
				job => 'round',
				tick => "$tick",
				try => 1,
				token => $rc == 0 ? $token : 0,
				call => $before,
				return => boottime_ns(),
				result => $result);
		}
	}
	$self->{log}->write(
		type => 'tick',
		election => $job,
		job => 'round',
		tick => "$tick",
		required => $result{unknown} ? JSON::PP::false : JSON::PP::true);
	return;
}

sub elections
{
	return (JOBS, 'edited');
}

sub check
{
	my ($self) = @_;

	$_->check foreach @{ $self->{children} };
	return;
}

sub clean_up
{
	my ($self) = @_;

	$_->end foreach reverse @{ $self->{children} };
	$self->{children} = [];
	foreach my $target (@{ $self->{targets} })
	{
		$self->{log}->write(
			type => 'ran',
			holder => $target->{node}->name,
			election => $_->[0],
			job => 'run',
			tick => $_->[1])
		  foreach map { [ split /\|/ ] }
		  split /\n/, $target->{node}->sql('SELECT DISTINCT job, tick FROM ran');
	}
	return;
}

sub stop
{
	my ($self) = @_;

	$_->{node}->stop('fast') foreach @{ $self->{targets} };
	return;
}

=pod

=head1 LINKS

All ways from one instance to its store, as if they were one
LeaderElection::Toxiproxy link.

=cut

package LeaderElection::Faults::Links;

sub new
{
	my ($class, @links) = @_;

	return bless [@links], $class;
}

sub add { my ($self, @toxic) = @_; $_->add(@toxic) foreach @$self; return; }
sub remove { my ($self, $toxic) = @_; $_->remove($toxic) foreach @$self; return; }
sub reset { $_->reset foreach @{ $_[0] }; return; }
sub down { $_->down foreach @{ $_[0] }; return; }
sub up { $_->up foreach @{ $_[0] }; return; }

1;
