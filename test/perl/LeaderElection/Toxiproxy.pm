
=pod

=head1 NAME

LeaderElection::Toxiproxy - faults on the network between a node and its store

=head1 SYNOPSIS

  my $toxiproxy = LeaderElection::Toxiproxy->new->start;
  my $link = $toxiproxy->link('a', $consul->host_port);
  ... consul_url => $link->url ...

  $link->add('lost_replies', 'timeout', 'downstream', timeout => 0);
  $link->remove('lost_replies');
  $link->down;
  $link->up;

=head1 DESCRIPTION

One toxiproxy server, controlled by its HTTP API.  Toxics (latency, timeout,
bandwidth, reset_peer, limit_data, slicer, slow_close) are described in its
README.  "downstream" is the way of the replies, "upstream" that of the
requests.  It knows bytes only; LeaderElection::Recorder knows requests.

=cut

package LeaderElection::Toxiproxy;

use strict;
use warnings;

use parent 'LeaderElection::Process';

use Carp;
use JSON::PP ();
use LeaderElection::HTTP;
use LeaderElection::Util;
use PostgreSQL::Test::Utils ();

my $json = JSON::PP->new->utf8;

=pod

=head1 METHODS

=over

=item new([ $name ]), start()

=cut

sub new
{
	my ($class, $name) = @_;
	my $self = $class->SUPER::new($name // 'toxiproxy');

	$self->{port} = free_port();
	return $self;
}

sub start
{
	my ($self) = @_;
	my ($script) = $0 =~ m{([^/]+?)(\.[^.]*)?$};
	my $binary = 'toxiproxy-server';

	$binary = "$ENV{LE_BIN}/toxiproxy"
	  if $ENV{LE_BIN} && -x "$ENV{LE_BIN}/toxiproxy";
	$self->spawn(
		cwd => $PostgreSQL::Test::Utils::tmp_check,
		log => "$PostgreSQL::Test::Utils::log_path/${script}_$self->{name}.log",
		command => [ $binary, '-host', '127.0.0.1', '-port', $self->{port} ]);
	poll_until(sub { $self->api('GET', '/version')->{success} }, 'toxiproxy');
	return $self;
}

sub api
{
	my ($self, $method, $path, $body) = @_;
	my %options;

	# toxiproxy refuses what looks like a browser
	$options{headers} = { 'User-Agent' => 'leader_election tests' };
	$options{content} = $json->encode($body) if defined $body;
	return LeaderElection::HTTP->new(timeout => 5)
	  ->request($method, "http://127.0.0.1:$self->{port}$path", \%options);
}

sub _must
{
	my ($self, @request) = @_;
	my $reply = $self->api(@request);

	croak "toxiproxy: @request[0, 1]: $reply->{status} $reply->{content}"
	  unless $reply->{success};
	return;
}

=pod

=item link($name, $upstream, [ $port ])

A proxy in front of host:port.

=back

=cut

sub link
{
	my ($self, $name, $upstream, $port) = @_;
	my $listen = '127.0.0.1:' . ($port // free_port());

	$self->_must('POST', '/proxies',
		{ name => $name, listen => $listen, upstream => $upstream });
	return bless { toxiproxy => $self, name => $name, listen => $listen },
	  'LeaderElection::Toxiproxy::Link';
}

package LeaderElection::Toxiproxy::Link;

=pod

=head1 LINKS

=over

=item url(), host_port()

=item add($toxic, $type, $stream, %attributes)

=item remove($toxic)

=item down(), up()

Down closes the connections and refuses new ones; that differs from a
"timeout" toxic of 0, under which they stay and nothing arrives.

=item reset()

Up, and without toxics.

=back

=cut

sub host_port { return $_[0]->{listen}; }
sub url { return "http://$_[0]->{listen}"; }

sub add
{
	my ($self, $toxic, $type, $stream, %attributes) = @_;

	# numbers must be JSON numbers
	$_ += 0 foreach values %attributes;
	$self->{toxics}{$toxic} = 1;
	$self->{toxiproxy}->_must(
		'POST',
		"/proxies/$self->{name}/toxics",
		{
			name => $toxic,
			type => $type,
			stream => $stream,
			attributes => \%attributes
		});
	return;
}

sub remove
{
	my ($self, $toxic) = @_;

	delete $self->{toxics}{$toxic};
	$self->{toxiproxy}
	  ->_must('DELETE', "/proxies/$self->{name}/toxics/$toxic");
	return;
}

sub down
{
	my ($self) = @_;

	$self->{toxiproxy}->_must('POST', "/proxies/$self->{name}",
		{ enabled => JSON::PP::false });
	return;
}

sub up
{
	my ($self) = @_;

	$self->{toxiproxy}->_must('POST', "/proxies/$self->{name}",
		{ enabled => JSON::PP::true });
	return;
}

sub reset
{
	my ($self) = @_;

	$self->remove($_) foreach keys %{ $self->{toxics} };
	$self->up;
	return;
}

1;
