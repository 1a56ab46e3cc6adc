
=pod

=head1 NAME

LeaderElection::Certificates - a certificate authority for one test

=head1 SYNOPSIS

  my $ca = LeaderElection::Certificates->new('ca');
  my $consul = LeaderElection::Consul->new('tls', https => 1,
    config => $ca->consul_config(verify_incoming => 1))->start;
  my ($cert, $key) = $ca->issue('client');
  ... consul_url => $consul->https_url, ca_file => $ca->file,
      cert_file => $cert, key_file => $key ...

  # a server whose certificate is for another name
  $ca->consul_config(names => 'DNS:elsewhere.example')

=cut

package LeaderElection::Certificates;

use strict;
use warnings;

use Carp;
use IPC::Run;
use PostgreSQL::Test::Utils ();

=pod

=head1 METHODS

=over

=item new($name)

Makes the authority, by openssl.

=item file()

Its certificate.

=item directory()

One with that certificate alone, as OpenSSL looks for it there.

=item issue($name, [ $names ])

A certificate of that common name, for the names given (default
"DNS:localhost,IP:127.0.0.1"); returns the paths of certificate and key.

=item consul_config([ verify_incoming => 1, names => ... ])

HCL that makes a Consul serve https with a certificate issued now.

=back

=cut

sub new
{
	my ($class, $name) = @_;
	my ($script) = $0 =~ m{([^/]+?)(\.[^.]*)?$};
	my $self =
	  bless { dir => "$PostgreSQL::Test::Utils::tmp_check/t_${script}_$name" },
	  $class;

	mkdir $self->{dir};
	$self->_openssl(
		'req', '-x509', '-newkey', 'ec', '-pkeyopt',
		'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj',
		"/CN=$name", '-keyout', 'ca.key', '-out', 'ca.crt');
	return $self;
}

sub file { return "$_[0]->{dir}/ca.crt"; }

sub directory
{
	my ($self) = @_;
	my $directory = "$self->{dir}/authorities";

	mkdir $directory;
	symlink $self->file,
	  "$directory/" . $self->_openssl('x509', '-in', 'ca.crt', '-noout', '-hash') . '.0';
	return $directory;
}

sub issue
{
	my ($self, $name, $names) = @_;
	my $extensions = "$self->{dir}/$name.ext";

	$names //= 'DNS:localhost,IP:127.0.0.1';
	open(my $fh, '>', $extensions) or croak "could not write $extensions: $!";
	print $fh "subjectAltName = $names\n";
	close $fh;
	$self->_openssl(
		'req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256',
		'-nodes', '-subj', "/CN=$name", '-keyout', "$name.key", '-out',
		"$name.csr");
	$self->_openssl(
		'x509', '-req', '-in', "$name.csr", '-CA', 'ca.crt', '-CAkey',
		'ca.key', '-CAcreateserial', '-days', '2', '-extfile', "$name.ext",
		'-out', "$name.crt");
	return map { "$self->{dir}/$name.$_" } ('crt', 'key');
}

sub consul_config
{
	my ($self, %params) = @_;
	my ($cert, $key) =
	  $self->issue('server' . ++$self->{servers}, $params{names});
	my $verify = $params{verify_incoming} ? 'true' : 'false';

	return <<"END";
tls {
	defaults {
		ca_file = "$self->{dir}/ca.crt"
		cert_file = "$cert"
		key_file = "$key"
	}
	https {
		verify_incoming = $verify
	}
}
END
}

sub _openssl
{
	my ($self, @arguments) = @_;
	my $output;

	IPC::Run::run([ 'openssl', @arguments ],
		'>&', \$output, init => sub { chdir $self->{dir} or die $! })
	  or croak "openssl @arguments: $output";
	chomp $output;
	return $output;
}

1;
