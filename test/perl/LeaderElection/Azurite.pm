
=pod

=head1 NAME

LeaderElection::Azurite - Azure Blob Storage's emulator for tests

=head1 SYNOPSIS

  my $azurite = LeaderElection::Azurite->new('azurite')->start;
  my $node = LeaderElection::Node->create('one', azure => $azurite);
  is($azurite->blob('billing')->{token}, 7);
  $azurite->freeze;

=head1 DESCRIPTION

It listens on a port of 127.0.0.1 of its own and has one container.  After a
restart of it every lease has expired, so a test must not start it again while
a term lasts.  See LeaderElection::Process for freeze and thaw.

=cut

package LeaderElection::Azurite;

use strict;
use warnings;

use parent 'LeaderElection::Process';

use Carp;
use JSON::PP ();
use LeaderElection::HTTP;
use LeaderElection::Util;
use MIME::Base64 qw(decode_base64url encode_base64url);
use PostgreSQL::Test::Utils ();
use Test::More;

=pod

=head1 METHODS

=over

=item new($name, [ oauth => LeaderElection::Certificates ], [ address => ...,
names => ... ]), start()

With an authority it speaks https, with a certificate from there, and takes
bearer tokens, too; only by curl can it be asked then.  At another address of this
machine it has a certificate for other names, among which the address must be.

=item url([ $host_port ])

The container's, there or behind a proxy at that address.

=item host_port()

=cut

sub new
{
	my ($class, $name, %params) = @_;
	my $self = $class->SUPER::new($name);
	my ($script) = $0 =~ m{([^/]+?)(\.[^.]*)?$};

	croak 'there is no Azurite: test/services/azurite/install'
	  unless $ENV{LE_AZURITE} && -d $ENV{LE_AZURITE};
	$self->{dir} = "$PostgreSQL::Test::Utils::tmp_check/t_${script}_${name}";
	$self->{log} = "$PostgreSQL::Test::Utils::log_path/${script}_${name}.log";
	$self->{port} = free_port();
	$self->{files} = 0;
	$self->{ca} = $params{oauth};
	$self->{address} = $params{address} // '127.0.0.1';
	$self->{names} = $params{names};
	mkdir $self->{dir};
	return $self;
}

sub start
{
	my ($self) = @_;
	my ($cert, $key) = $self->{ca} ? $self->{ca}->issue($self->{name}, $self->{names}) : ();

	$self->spawn(
		cwd => $self->{dir},
		log => $self->{log},
		command => [
			'node',
			"$ENV{LE_AZURITE}/node_modules/azurite/dist/src/blob/main.js",
			'--silent', '--disableTelemetry', '--location', $self->{dir},
			'--blobHost', $self->{address}, '--blobPort', $self->{port},
			$cert ? ('--oauth', 'basic', '--cert', $cert, '--key', $key) : ()
		]);
	poll_until(
		sub {
			croak "$self->{name} ended: " . $self->log
			  unless $self->is_running;
			return $self->{ca} ? $self->_create_by_token : $self->_answers;
		},
		"Azurite $self->{name}");
	$self->{sas} = $self->_sas('--create', $self->url, 'rwld')
	  unless $self->{ca};
	return $self;
}

sub _answers
{
	my ($self) = @_;
	my $reply = LeaderElection::HTTP->new(timeout => 1)
	  ->request('GET', 'http://' . $self->host_port . '/');

	return $reply->{status} != 599;
}

sub _create_by_token
{
	my ($self) = @_;

	return system('curl', '-sf', '-m', 2, '--cacert', $self->{ca}->file,
		'-X', 'PUT', '-H', 'Authorization: Bearer ' . $self->token,
		'-H', 'Content-Length: 0', '-H', 'x-ms-version: 2021-12-02',
		$self->url . '?restype=container') == 0;
}

sub host_port
{
	my ($self) = @_;

	return "$self->{address}:$self->{port}";
}

sub url
{
	my ($self, $host_port) = @_;

	$host_port //= $self->host_port;
	return ($self->{ca} ? 'https' : 'http')
	  . "://$host_port/devstoreaccount1/le-test";
}

=pod

=item token([ $seconds ])

A bearer token that is accepted for so long (an hour); of oauth only.

=cut

sub token
{
	my ($self, $seconds) = @_;
	my $now = int time;
	my @parts = (
		{ alg => 'none', typ => 'JWT' },
		{
			aud => 'https://storage.azure.com',
			iss => 'https://sts.windows.net/tenant/',
			iat => $now - 60,
			nbf => $now - 60,
			exp => $now + ($seconds // 3600),
			jti => ++$self->{tokens}
		});

	return join('.',
		map({ encode_base64url(JSON::PP->new->canonical->encode($_)) } @parts),
		'unsigned');
}

sub _sas
{
	my ($self, @arguments) = @_;
	my $sas = `test/services/azurite/sas @arguments`;

	croak 'no signature' unless $? == 0;
	chomp $sas;
	return $sas;
}

=pod

=item sas_file([ $letters, [ $expiry ] ])

Writes a file with a signature that allows what the letters say (rwl, the least
that the extension needs) and returns its name.

=cut

sub sas_file
{
	my ($self, $letters, $expiry) = @_;
	my $file = "$self->{dir}/sas" . $self->{files}++;
	my $sas = $self->_sas($self->url, $letters // 'rwl', $expiry // ());

	open(my $fh, '>', $file) or croak "could not write $file: $!";
	chmod 0600, $file;
	print $fh "$sas\n";
	close $fh;
	return $file;
}

=pod

=item request($method, $blob, [ $query ], [ %headers ])

With a signature that allows everything.  Names are given as they are in the
container; the query without question mark.

=item blob($election)

The contents of its blob: token, node, value, attempt, session, state of the lease
and etag; undef if there is none.

=item empty()

Deletes the container and makes another of its name.

=item tells_no_secret($node)

Tests that nothing of a signature is in the node's log or among its events.

=back

=cut

sub request
{
	my ($self, $method, $blob, $query, %headers) = @_;
	my $url = $self->url . ($blob eq '' ? '' : "/$blob");
	my $all = join('&', grep { length } $query // '', $self->{sas});
	my %options = (headers => { 'x-ms-version' => '2021-12-02', %headers });

	$options{content} = '' if $method eq 'PUT';
	return LeaderElection::HTTP->new(timeout => $LeaderElection::Util::timeout_default)
	  ->request($method, "$url?$all", \%options);
}

sub blob
{
	my ($self, $election) = @_;
	my $reply = $self->request('HEAD', "leader_election/$election~leader");
	my $headers = $reply->{headers};

	return undef if $reply->{status} == 404;
	croak "HEAD $election: $reply->{status}" unless $reply->{status} == 200;
	return {
		state => $headers->{'x-ms-lease-state'},
		etag => $headers->{etag},
		(map { $_ => $headers->{"x-ms-meta-le_$_"} } qw(token attempt session)),
		map {
			my $text = $headers->{"x-ms-meta-le_$_"};
			$_ => defined $text ? decode_base64url($text) : undef
		} qw(node value)
	};
}

sub empty
{
	my ($self) = @_;

	$self->_sas($_, $self->url, 'rwl') foreach '--delete', '--create';
	return;
}

sub tells_no_secret
{
	my ($self, $node) = @_;

	ok(!$node->log_like(qr/sig=|se=20|%3D/), $node->name . "'s log is silent");
	is($node->sql(q(SELECT count(*) FROM le_events WHERE detail ~ 'sig=')),
		0, 'and so are its events');
	return;
}

1;
