
=pod

=head1 NAME

LeaderElection::Faults::Consul - three Consul servers, to be ill-treated

=head1 DESCRIPTION

What LeaderElection::Faults::Stage needs of a store: start(), timing(),
upstreams() for the proxies of an instance, its settings(), nemeses(),
observer(), tidy() and left().

=cut

package LeaderElection::Faults::Consul;

use strict;
use warnings;

use JSON::PP ();
use LeaderElection::Consul;
use LeaderElection::Faults::Child;
use LeaderElection::Util;
use List::Util qw(shuffle);

use constant PREFIX => 'leader_election';

my $json = JSON::PP->new->utf8;

sub new
{
	my ($class) = @_;

	return bless { servers => [] }, $class;
}

sub name { return 'consul'; }

# Its tokens are indexes, which other writes count as well.
sub grants { return ''; }

sub start
{
	my ($self) = @_;

	$self->{servers} =
	  [ LeaderElection::Consul->cluster(3, log_level => 'info') ];
	return;
}

# Short, so that many terms come and go; and the time within which there is to
# be a leader again. The waits of a node that comes back to a store that comes back,
# in a row: the store, a session, a silent holder's lease; and this is a busy
# machine.
sub timing
{
	return {
		lease_ttl => '5s',
		request_timeout => '1s',
		trust => 5e9,
		margin => 0.5e9,
		bound => 60e9
	};
}

sub upstreams
{
	my ($self, $number) = @_;

	return $self->{servers}[ $number % 3 ]->host_port;
}

sub settings
{
	my ($self, $link) = @_;

	return (backend => 'consul', consul_url => $link->url);
}

# A server that can be asked, past all proxies.
sub _server
{
	my ($self) = @_;

	return LeaderElection::Consul->leader(@{ $self->{servers} });
}

sub _ready
{
	my ($self) = @_;

	$_->wait_until_ready foreach @{ $self->{servers} };
	return;
}

# ---- nemeses ----

sub nemeses
{
	my ($self) = @_;

	return (
		$self->_on('store leader stopped', sub {
			my $leader = $self->_server;

			$leader->freeze;
			return sub { $leader->thaw; $self->_ready };
		}),
		$self->_on('store leader killed', sub {
			my $leader = $self->_server;

			$leader->kill9;
			return sub { $leader->start(wait => 0); $self->_ready };
		}),
		{
			# a silence of all instances, of which some lead (G5)
			first => 1,
			%{ $self->_on('store without a quorum', sub {
				my ($stage) = @_;
				my @two = (shuffle @{ $self->{servers} })[ 0, 1 ];

				$_->freeze foreach @two;
				$stage->silence_all('store without a quorum');
				return sub {
					$stage->silence_over;
					$_->thaw foreach @two;
					$self->_ready;
				};
			}) }
		},
		$self->_on('store servers killed, all', sub {
			my ($stage) = @_;

			$_->kill9 foreach @{ $self->{servers} };
			$stage->silence_all('store servers killed');
			return sub {
				$stage->silence_over;
				$_->start(wait => 0) foreach @{ $self->{servers} };
				$self->_ready;
			};
		}),
		$self->_on('store servers restarted, all', sub {
			$_->stop foreach @{ $self->{servers} };
			$_->start(wait => 0) foreach @{ $self->{servers} };
			$self->_ready;
			return sub { };
		}),
		$self->_on('store session destroyed', sub {
			my ($stage) = @_;
			my $server = $self->_server;
			my $held = _held_job($server);

			_destroy($stage, $server, $held) if $held;
			return sub { };
		}),

		# Consul's lock-delay, which a new leader of its own does not know of,
		# is no protection for a leader that cannot be told.
		$self->_on('cut off, session destroyed, store leader killed', sub {
			my ($stage) = @_;
			my $server = $self->_server;
			my $held = _held_job($server);
			my ($target) = grep { $held && $_->{node}->name eq $held->{node} }
			  @{ $stage->{targets} };

			# not reset(): others may have put something there
			$target->{link}->add("apart_$_", 'timeout', $_, timeout => 0)
			  foreach $target ? ('upstream', 'downstream') : ();
			_destroy($stage, $server, $held) if $held;
			$server->kill9;
			return sub {
				foreach my $way ($target ? ('upstream', 'downstream') : ())
				{
					eval { $target->{link}->remove("apart_$way") };
				}
				$server->start(wait => 0);
				$self->_ready;
			};
		}),

		# G1 does not hold where people edit keys: what follows is for an
		# election of its own. The next holder of the key need not wait for the
		# belief of the one that had it, which lasts a lease at most.
		$self->_on('key deleted', sub {
			my ($stage) = @_;

			$stage->exempt('edited', 'key deleted');
			$self->_server->delete('/v1/kv/' . PREFIX . '/edited/leader');
			return sub { };
		}),
		$self->_on('key overwritten', sub {
			my ($stage) = @_;

			$stage->exempt('edited', 'key overwritten');
			$self->_server->put('/v1/kv/' . PREFIX . '/edited/leader', 'scribble');
			return sub { $self->put_right($stage) };
		}));
}

# Without the lock flag nobody touches a key but its holder, who may lose it
# rounds later: until somebody deletes it, there is no leader.
sub put_right
{
	my ($self, $stage) = @_;

	eval {
		my $path = '/v1/kv/' . PREFIX . '/edited/leader';
		my $key = $self->_server->kv(PREFIX . '/edited/leader');

		if ($key && !$key->{Session} && $key->{Flags} == 0)
		{
			$stage->exempt('edited', 'overwritten key deleted');
			$self->_server->delete("$path?cas=$key->{ModifyIndex}");
		}
	};
	return;
}

# The key of a job that somebody leads, with the name of that node.
sub _held_job
{
	my ($server) = @_;
	my ($held) = shuffle grep { $_->{Session} }
	  values %{ $server->kv_tree(PREFIX . '/job/') };

	$held->{node} = eval { $json->decode($held->{Value})->{node} } // ''
	  if $held;
	return $held;
}

# By it the store frees what the node holds, whatever that believes.
sub _destroy
{
	my ($stage, $server, $held) = @_;

	$stage->{log}->write(
		type => 'freed',
		holder => $held->{node},
		from => boottime_ns());
	$server->destroy($held->{Session});
	return;
}

sub _on
{
	my ($self, $kind, $does) = @_;

	return { kind => $kind, on => 'store', does => $does };
}

# ---- answers of the store ----

# Keys of elections that nobody uses any more.
sub tidy
{
	my ($self, $age) = @_;

	eval {
		my $server = $self->_server;
		my $keys = $server->kv_tree(PREFIX . '/work/');

		foreach my $key (values %$keys)
		{
			my ($then) = $key->{Key} =~ m{/(\d+)/\d+/leader$} or next;

			$server->delete(
				"/v1/kv/$key->{Key}?cas=$key->{ModifyIndex}")
			  if $then < $age && !$key->{Session};
		}
	};
	return;
}

# Keys still held, and sessions alive, of instances that have all been stopped.
sub left
{
	my ($self) = @_;
	my $server = $self->_server;
	my $keys = $server->kv_tree(PREFIX . '/');
	my $sessions = $server->get('/v1/session/list?consistent')->{json} // [];

	return (
		(map { "key $_->{Key}, held by $_->{Session}" }
			grep { $_->{Session} } map { $keys->{$_} } sort keys %$keys),
		(map { "store session $_->{ID} ($_->{Name})" } @$sessions));
}

sub observer
{
	my ($self, $dir) = @_;

	return LeaderElection::Faults::Consul::Observer->new(
		history => $dir,
		name => 'store',
		servers => $self->{servers});
}

=pod

=head1 THE OBSERVER

A process that follows the keys of the jobs by blocking queries, past all
proxies, and writes down every state of them that it sees.

=cut

package LeaderElection::Faults::Consul::Observer;

use parent -norequire, 'LeaderElection::Faults::Child';

use LeaderElection::Util;

sub setup
{
	my ($self) = @_;

	$self->{index} = 0;
	$self->{seen} = {};
	$self->{which} = 0;
	return;
}

sub turn
{
	my ($self) = @_;
	my $server = $self->{servers}[ $self->{which} % 3 ];
	my $reply = $server->get(
		'/v1/kv/' . LeaderElection::Faults::Consul::PREFIX
		  . "/job/?recurse&wait=3s&index=$self->{index}",
		timeout => 6);

	if ($reply->{status} != 200 || !$reply->{index})
	{
		$self->{which}++;
		$self->{index} = 0;
		$self->pause(0.1);
		return;
	}
	$self->{index} = $reply->{index};
	foreach my $key (@{ $reply->{json} })
	{
		my $entry = LeaderElection::Consul::_entry($key);
		my ($election) = $entry->{Key} =~ m{^[^/]+/(.*)/leader$} or next;

		next if $entry->{ModifyIndex} <= ($self->{seen}{$election} // 0);
		$self->{seen}{$election} = $entry->{ModifyIndex};

		my $value = eval { $json->decode($entry->{Value}) } // {};

		$self->{log}->write(
			type => 'key',
			at => boottime_ns(),
			election => $election,
			index => $entry->{ModifyIndex},
			lock_index => $entry->{LockIndex},
			session => $entry->{Session},
			value_session => $value->{session},
			released => $value->{released} ? JSON::PP::true : JSON::PP::false);
	}
	return;
}

1;
