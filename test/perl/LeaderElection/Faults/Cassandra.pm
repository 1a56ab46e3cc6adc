
=pod

=head1 NAME

LeaderElection::Faults::Cassandra - three nodes of Cassandra, two gateways

=head1 DESCRIPTION

As LeaderElection::Faults::Consul.  Each instance knows both gateways, each by a
proxy of its own.

=cut

package LeaderElection::Faults::Cassandra;

use strict;
use warnings;

use Carp;
use LeaderElection::Gateway;
use LeaderElection::Util;
use List::Util qw(shuffle);
use PostgreSQL::Test::Utils ();

my $owner = $$;
my @running;

sub new
{
	my ($class) = @_;

	return bless {
		dir => "$ENV{LE_SANDBOX}/cassandra_faults",
		script => "$ENV{TESTDIR}/test/services/cassandra/cluster",
		gateways => []
	}, $class;
}

sub name { return 'cassandra'; }

# Its tokens count them.
sub grants { return 'counted'; }

# A second of lease_ttl goes off, since Cassandra counts whole ones, and the
# gateway's --max-clock-skew.
sub timing
{
	return {
		lease_ttl => '8s',
		request_timeout => '2s',
		trust => 5e9,
		margin => 0.5e9,
		bound => 60e9
	};
}

sub start
{
	my ($self) = @_;

	push @running, $self;
	$self->_cluster('start', 3);
	$self->{hosts} = $self->_cluster('hosts');
	$self->{keyspace} = 'faults';

	$self->_make_keyspace;
	$self->{gateways} = [
		map {
			LeaderElection::Gateway->new(
				"gateway$_",
				cassandra => $self,
				keyspace => 'faults')->start
		} 1 .. 2
	];

	# without javac the nodes have the machine's clock
	$self->{clocks} = eval { $self->_cluster('clock', 1, 0); 1; };
	return;
}

# Nodes that have just begun to listen may not know of each other yet: one has the
# keyspace then, and the next is asked for a table in it.
sub _make_keyspace
{
	my ($self) = @_;
	my $file = "$PostgreSQL::Test::Utils::tmp_check/schema.log";

	poll_until(
		sub {
			system(qq("$ENV{LE_BIN}/le-gateway" schema --hosts "$self->{hosts}" )
				  . "--replication datacenter1=3 --keyspace $self->{keyspace} --apply "
				  . qq(>"$file" 2>&1 </dev/null)) == 0
			  or croak 'le-gateway schema: '
			  . PostgreSQL::Test::Utils::slurp_file($file);
		},
		'the keyspace', timeout => 60, interval => 1);
	return;
}

sub hosts { return $_[0]->{hosts}; }

sub _cluster
{
	my ($self, $command, @arguments) = @_;
	my $file = "$PostgreSQL::Test::Utils::tmp_check/cluster.$$";

	# through files: a pipe would stay open as long as Cassandra runs
	my $rc = system(
		qq("$self->{script}" $command "$self->{dir}" @arguments )
		  . qq(>"$file" 2>"$file.err" </dev/null));
	my $out = PostgreSQL::Test::Utils::slurp_file($file);

	croak "cluster $command: "
	  . PostgreSQL::Test::Utils::slurp_file("$file.err")
	  if $rc != 0;
	chomp $out;
	return $out;
}

sub upstreams
{
	my ($self) = @_;

	return map { "127.0.0.1:$_->{port}" } @{ $self->{gateways} };
}

sub settings
{
	my ($self, @links) = @_;

	return (
		backend => 'cassandra',
		gateway_url => join(', ', map { $_->url } @links));
}

sub _ready
{
	my ($self) = @_;

	$_->wait_until_ready foreach @{ $self->{gateways} };
	return;
}

# ---- nemeses ----

sub nemeses
{
	my ($self) = @_;

	return (
		$self->_on('gateway stopped', sub {
			my $gateway = $self->_one;

			$gateway->freeze;
			return sub { $gateway->thaw };
		}),
		$self->_on('gateway killed', sub {
			my $gateway = $self->_one;

			$gateway->kill9;
			return sub { $gateway->start };
		}),
		$self->_on('gateways killed, both', sub {
			my ($stage) = @_;

			$_->kill9 foreach @{ $self->{gateways} };
			$stage->silence_all('gateways killed');
			return sub {
				$stage->silence_over;
				$_->start(wait => 0) foreach @{ $self->{gateways} };
				$self->_ready;
			};
		}),
		$self->_on('store node stopped', sub {
			my $node = 1 + int rand 3;

			$self->_cluster('freeze', $node);
			return sub { $self->_cluster('thaw', $node); $self->_ready };
		}),
		$self->_on('store node killed', sub {
			my $node = 1 + int rand 3;

			$self->_cluster('kill', $node);
			return sub { $self->_cluster('start', 3); $self->_ready };
		}),
		{
			# a silence of all instances, of which some lead (G5)
			first => 1,
			%{ $self->_on('store without a quorum', sub {
				my ($stage) = @_;
				my @two = (shuffle 1 .. 3)[ 0, 1 ];

				$self->_cluster('freeze', $_) foreach @two;
				$stage->silence_all('store without a quorum');
				return sub {
					$stage->silence_over;
					$self->_cluster('thaw', $_) foreach @two;
					$self->_ready;
				};
			}) }
		},
		{
			# it takes them minutes to start where processors are few
			rare => 1,
			%{ $self->_on('store nodes killed, all', sub {
				my ($stage) = @_;

				$self->_cluster('kill', $_) foreach 1 .. 3;
				$stage->silence_all('store nodes killed');
				return sub {
					$stage->silence_over;
					$self->_cluster('start', 3);
					$self->_ready;
				};
			}) }
		},
		(!$self->{clocks} ? () : $self->_on('store clocks apart', sub {

			# from each other by less than --max-clock-skew
			$self->_cluster('clock', $_, int(rand 1800) - 900)
			  foreach 1 .. 3;
			return sub { $self->_cluster('clock', $_, 0) foreach 1 .. 3 };
		})),
		$self->_on('lock taken away', sub {
			my ($stage) = @_;
			my $lock = eval { $self->_one->lock('edited') };

			$stage->exempt('edited', 'lock taken away');
			$self->_one->request('DELETE', '/v1/locks/edited?owner='
				  . $lock->{owner} =~ s/([^\w.-])/sprintf '%%%02X', ord $1/ger
				  . "&token=$lock->{token}&rev=$lock->{rev}") if $lock;
			return sub { };
		}));
}

sub _one
{
	my ($self) = @_;

	return $self->{gateways}[ rand @{ $self->{gateways} } ];
}

sub _on
{
	my ($self, $kind, $does) = @_;

	return { kind => $kind, on => 'store', does => $does };
}

# ---- answers of the store ----

sub tidy { return; }

sub put_right { return; }

sub left
{
	my ($self) = @_;
	my $locks = $self->_one->locks;

	return map { "lock $_, held by $locks->{$_}{owner}" } sort keys %$locks;
}

sub observer
{
	my ($self, $dir, @jobs) = @_;

	return LeaderElection::Faults::Cassandra::Observer->new(
		history => $dir,
		name => 'store',
		jobs => \@jobs,
		gateways => $self->{gateways});
}

END
{
	my $rc = $?;

	if ($$ == $owner)
	{
		eval { $_->_cluster('stop') } foreach @running;
	}
	$? = $rc;
}

=pod

=head1 THE OBSERVER

A process that reads the locks of the jobs over and over, past all proxies and
linearizably, from whichever gateway answers, and writes down every change.

=cut

package LeaderElection::Faults::Cassandra::Observer;

use parent -norequire, 'LeaderElection::Faults::Child';

use JSON::PP ();
use LeaderElection::Util;

sub setup
{
	my ($self) = @_;

	# copies, as this is a process of its own
	$_->{timeout} = 4 foreach @{ $self->{gateways} };
	$self->{which} = 0;
	$self->{seen} = {};
	return;
}

sub turn
{
	my ($self) = @_;

	$self->_look($_) foreach @{ $self->{jobs} };
	$self->pause(0.1);
	return;
}

sub _look
{
	my ($self, $election) = @_;
	my $gateway = $self->{gateways}[ $self->{which} % 2 ];
	my $before = boottime_ns();
	my $reply = $gateway->get('/v1/locks/' . $election =~ s{/}{%2F}gr);
	my $after = boottime_ns();
	my $lock = $reply->{json};

	if (($reply->{status} != 200 && $reply->{status} != 404)
		|| ref $lock ne 'HASH' || !defined $lock->{token})
	{
		$self->{which}++;
		return;
	}

	my $free = $reply->{status} == 404;
	my $state = $lock->{token} . ($free ? ' free' : '');

	return if $state eq ($self->{seen}{$election} // '');
	$self->{seen}{$election} = $state;
	$self->{log}->write(
		type => 'lock',
		election => $election,
		token => $lock->{token},
		owner => $lock->{owner},
		free => $free ? JSON::PP::true : JSON::PP::false,
		call => $before,
		return => $after);
	return;
}

1;
