
=pod

=head1 NAME

LeaderElection::Gateway - a real le-gateway for tests

=head1 SYNOPSIS

  my $gateway = LeaderElection::Gateway->new('gw',
    cassandra => $cassandra, keyspace => $keyspace)->start;
  my $reply = $gateway->get('/v1/locks/billing');
  is($reply->{json}{owner}, ...);
  $gateway->freeze;

=head1 DESCRIPTION

It listens on a port of 127.0.0.1 of its own, the same after a restart.  A
request never raises an error: the status of one that got no answer is 599.
See LeaderElection::Process for freeze, thaw, kill9 and terminate.

=cut

package LeaderElection::Gateway;

use strict;
use warnings;

use parent 'LeaderElection::Process';

use Carp;
use JSON::PP ();
use LeaderElection::HTTP;
use LeaderElection::Util;
use PostgreSQL::Test::Utils ();

my $json = JSON::PP->new->canonical->allow_nonref->utf8;

=pod

=head1 METHODS

=over

=item new($name, %params)

Parameters: cassandra, keyspace, options (array of further flags), timeout (of
a request of the test itself, 40 s), scheme (default http), tls (parameters of LeaderElection::HTTP for requests of the
test itself), token (bearer token of the same).

=item url()

=cut

sub new
{
	my ($class, $name, %params) = @_;
	my $self = $class->SUPER::new($name);
	my ($script) = $0 =~ m{([^/]+?)(\.[^.]*)?$};

	%$self = (%$self, scheme => 'http', options => [], %params);
	croak 'there is no le-gateway: make gateway'
	  unless -x "$ENV{LE_BIN}/le-gateway";
	$self->{log} = "$PostgreSQL::Test::Utils::log_path/${script}_${name}.log";
	$self->{port} = free_port();
	return $self;
}

sub url
{
	my ($self) = @_;

	return "$self->{scheme}://127.0.0.1:$self->{port}";
}

=pod

=item start([ wait => 0 ])

Starts it, or starts it again, and waits until it reaches Cassandra.

=cut

sub start
{
	my ($self, %params) = @_;

	$self->spawn(
		cwd => $PostgreSQL::Test::Utils::tmp_check,
		log => $self->{log},
		env => { GOMAXPROCS => 2 },
		command => [
			"$ENV{LE_BIN}/le-gateway", '--listen', "127.0.0.1:$self->{port}",
			'--hosts', $self->{cassandra}->hosts,
			'--keyspace', $self->{keyspace}, @{ $self->{options} }
		]);
	$self->wait_until_ready unless exists $params{wait} && !$params{wait};
	return $self;
}

sub wait_until_ready
{
	my ($self) = @_;

	return poll_until(
		sub {
			croak "$self->{name} ended: " . $self->log
			  unless $self->is_running;
			return $self->request('GET', '/readyz')->{status} == 200;
		},
		"$self->{name} to be ready");
}

=pod

=item request($method, $path, [ $body ]), get($path)

The reply, with its body decoded as json; the body is a Perl structure.

=item lock($name)

The lock as it stands, undef if nobody holds it.

=item locks()

Every lock that somebody holds, by name.

=back

=cut

sub request
{
	my ($self, $method, $path, $body) = @_;
	my $http = LeaderElection::HTTP->new(
		timeout => $self->{timeout} // 40,
		%{ $self->{tls} // {} });
	my %options;

	$options{content} = $json->encode($body) if defined $body;
	$options{headers}{Authorization} = "Bearer $self->{token}"
	  if $self->{token};
	my $reply = $http->request($method, $self->url . $path, \%options);
	$reply->{json} = eval { $json->decode($reply->{content}) };
	return $reply;
}

sub get
{
	my ($self, $path) = @_;

	return $self->request('GET', $path);
}

sub lock
{
	my ($self, $name) = @_;
	my $reply;

	$name =~ s{/}{%2F}g;
	$reply = $self->get("/v1/locks/$name");
	return undef if $reply->{status} == 404;
	croak "reading lock $name: $reply->{status} $reply->{content}"
	  unless $reply->{status} == 200;
	return $reply->{json};
}

sub locks
{
	my ($self) = @_;
	my (%locks, $page);

	do
	{
		my $reply = $self->get(
			'/v1/locks?limit=1000' . ($page ? "&page=$page" : ''));

		croak "listing locks: $reply->{status}" unless $reply->{status} == 200;
		$locks{ $_->{name} } = $_ foreach @{ $reply->{json}{locks} };
		$page = $reply->{json}{next};
	} while ($page);
	return \%locks;
}

1;
