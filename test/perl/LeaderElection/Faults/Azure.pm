
=pod

=head1 NAME

LeaderElection::Faults::Azure - Azurite, and one proxy more in front of it

=head1 DESCRIPTION

As LeaderElection::Faults::Consul.  Each instance goes by a proxy of its own to
one proxy, the trunk, behind which is Azurite.  That is stopped and cut off,
but never started again: after a restart of it every lease has expired, whatever
its holder believes.

=cut

package LeaderElection::Faults::Azure;

use strict;
use warnings;

use LeaderElection::Azurite;
use LeaderElection::Toxiproxy;
use LeaderElection::Util;

use constant PREFIX => 'leader_election';

sub new
{
	my ($class) = @_;

	return bless {}, $class;
}

sub name { return 'azure'; }

# Its tokens count them; each takes the lease, then the stamp.
sub grants { return 'counted, in steps'; }

# A second of lease_ttl goes off, since the service counts whole ones. A lease that
# somebody broke is waited out for a minute, the longest there is. Until a lease
# that was acquired has been stamped, reads show who led before.
sub timing
{
	return {
		lease_ttl => '15s',
		request_timeout => '2s',
		trust => 14e9,
		margin => 0.5e9,
		bound => 100e9
	};
}

sub start
{
	my ($self) = @_;

	$self->{azurite} = LeaderElection::Azurite->new('azurite')->start;
	$self->{toxiproxy} = LeaderElection::Toxiproxy->new('trunk')->start;
	$self->{trunk} =
	  $self->{toxiproxy}->link('trunk', $self->{azurite}->host_port);
	return;
}

sub upstreams
{
	my ($self) = @_;

	return $self->{trunk}->host_port;
}

sub settings
{
	my ($self, $link) = @_;

	return (
		backend => 'azure',
		azure_container_url => $self->{azurite}->url($link->host_port),
		azure_sas_file => $self->{azurite}->sas_file,
		azure_poll_interval => '500ms');
}

# ---- nemeses ----

sub nemeses
{
	my ($self) = @_;
	my $trunk = $self->{trunk};

	return (
		{
			# a silence of all instances, of which some lead (G5)
			first => 1,
			%{ $self->_silence('store stopped',
				sub { $self->{azurite}->freeze },
				sub { $self->{azurite}->thaw }) }
		},
		$self->_silence('store cut off', sub { $trunk->down },
			sub { $trunk->up }),
		$self->_silence('answers of the store lost',
			sub { $trunk->add('lost', 'timeout', 'downstream', timeout => 0) },
			sub { $trunk->reset }),
		$self->_on('store slow', sub {
			$trunk->add('slow', 'latency', 'downstream',
				latency => 200 + int(rand 1200), jitter => 200);
			return sub { $trunk->reset };
		}),
		$self->_on('answers of the store cut off', sub {
			$trunk->add('part', 'limit_data', 'downstream',
				bytes => 1 + int(rand 900));
			return sub { $trunk->reset };
		}),
		{
			# it takes a minute until somebody leads again
			rare => 1,
			%{ $self->_on('lease broken', sub {
				my ($stage) = @_;

				$stage->exempt('edited', 'lease broken');
				$self->_break(rand() < 0.5 ? 0 : ());
				return sub { };
			}) }
		},
		$self->_on('blob deleted and put back', sub {
			my ($stage) = @_;
			my $was = $self->_metadata;

			$stage->exempt('edited', 'blob deleted');
			$self->_break(0);
			$self->_request('DELETE');
			$self->_put($was);
			return sub { };
		}),
		$self->_on('blob overwritten', sub {
			my ($stage) = @_;
			my $was = $self->_metadata;

			$stage->exempt('edited', 'blob overwritten');
			$self->_break(0);
			$self->_put({ 'x-ms-meta-colour' => 'blue' });
			return sub {
				$stage->exempt('edited', 'blob put back');
				$self->_put($was);
			};
		}));
}

sub _on
{
	my ($self, $kind, $does) = @_;

	return { kind => $kind, on => 'store', does => $does };
}

# Nothing reaches any instance.
sub _silence
{
	my ($self, $kind, $begin, $end) = @_;

	return $self->_on($kind, sub {
		my ($stage) = @_;

		$begin->();
		$stage->silence_all($kind);
		return sub {
			$stage->silence_over;
			$end->();
		};
	});
}

# ---- by hand, past all proxies ----

sub _request
{
	my ($self, $method, $query, %headers) = @_;
	my $reply = $self->{azurite}
	  ->request($method, PREFIX . '/edited~leader', $query, %headers);

	die "$method: $reply->{status}\n" unless $reply->{success};
	return $reply;
}

# Ends the lease at once, or with the time that it has left; there may be none.
sub _break
{
	my ($self, $period) = @_;

	eval {
		$self->_request(
			'PUT', 'comp=lease',
			'x-ms-lease-action' => 'break',
			defined $period ? ('x-ms-lease-break-period' => $period) : ());
	};
	return;
}

sub _metadata
{
	my ($self) = @_;
	my $headers = $self->_request('HEAD')->{headers};

	return { map { $_ => $headers->{$_} } grep { /^x-ms-meta-/ } keys %$headers };
}

sub _put
{
	my ($self, $metadata) = @_;

	$self->_request('PUT', '', 'x-ms-blob-type' => 'BlockBlob', %$metadata);
	return;
}

# ---- answers of the store ----

# All blobs of elections: name and state of the lease.
sub _blobs
{
	my ($self) = @_;
	my ($marker, @blobs) = ('');

	do
	{
		my $reply = $self->{azurite}->request('GET', '',
			"restype=container&comp=list&prefix=" . PREFIX . "/&marker=$marker");

		die "list: $reply->{status}\n" unless $reply->{status} == 200;
		push @blobs, [ $1, $2 ]
		  while $reply->{content} =~
		  m{<Name>([^<]*)</Name>.*?<LeaseState>(\w+)</LeaseState>}gs;
		($marker) = $reply->{content} =~ m{<NextMarker>([^<]+)</NextMarker>};
	} while ($marker);
	return @blobs;
}

# Blobs of elections that nobody uses any more; those under a lease stay.
sub tidy
{
	my ($self, $age) = @_;

	eval {
		foreach my $blob ($self->_blobs)
		{
			my ($then) = $blob->[0] =~ m{/work/.*/(\d+)/\d+~leader$} or next;

			$self->{azurite}->request('DELETE', $blob->[0]) if $then < $age;
		}
	};
	return;
}

sub put_right { return; }

sub left
{
	my ($self) = @_;

	return map { "blob $_->[0], $_->[1]" }
	  grep { $_->[1] =~ /^(leased|breaking)$/ } $self->_blobs;
}

sub observer
{
	my ($self, $dir, @jobs) = @_;

	return LeaderElection::Faults::Azure::Observer->new(
		history => $dir,
		name => 'store',
		jobs => \@jobs,
		azurite => $self->{azurite});
}

=pod

=head1 THE OBSERVER

A process that looks at the blobs of the jobs over and over, past all proxies,
and writes down every change.  A blob under a lease that was not stamped yet
shows the term before as held, until it is.

=cut

package LeaderElection::Faults::Azure::Observer;

use parent -norequire, 'LeaderElection::Faults::Child';

use JSON::PP ();
use LeaderElection::Util;

sub setup
{
	my ($self) = @_;

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
	my $before = boottime_ns();
	my $blob = eval { $self->{azurite}->blob($election) };
	my $after = boottime_ns();

	return unless $blob && $blob->{token};

	my $free = $blob->{state} !~ /^(leased|breaking)$/;
	my $state = $blob->{token} . ($free ? ' free' : '');

	return if $state eq ($self->{seen}{$election} // '');
	$self->{seen}{$election} = $state;
	$self->{log}->write(
		type => 'lock',
		election => $election,
		token => $blob->{token},
		owner => $blob->{node},
		free => $free ? JSON::PP::true : JSON::PP::false,
		call => $before,
		return => $after);
	return;
}

1;
