
=pod

=head1 NAME

LeaderElection::Cassandra - a real Cassandra that all tests of a run share

=head1 SYNOPSIS

  my $cassandra = LeaderElection::Cassandra->shared;
  my $keyspace = $cassandra->keyspace;
  my $gateway = LeaderElection::Gateway->new('gw',
    cassandra => $cassandra, keyspace => $keyspace)->start;

=head1 DESCRIPTION

One node of Cassandra takes about half a minute to start, so the first test of
a run that needs one starts it and leaves it running; test/run stops it when
the last has ended.  Each test has a keyspace of its own, and must not break
what others use: whoever wants Cassandra to be away puts away its gateways.

=cut

package LeaderElection::Cassandra;

use strict;
use warnings;

use Carp;
use Fcntl qw(:flock);
use IO::Socket::INET;
use IPC::Run;
use LeaderElection::Util;
use PostgreSQL::Test::Utils ();

=pod

=head1 METHODS

=over

=item shared()

The node, running.

=item hosts()

Its address.

=cut

sub shared
{
	my ($class) = @_;
	my $sandbox = $ENV{LE_SANDBOX} // croak 'run this through scripts/sandbox';
	my $self = bless {
		dir => "$sandbox/cassandra",
		script => "$ENV{TESTDIR}/test/services/cassandra/cluster"
	}, $class;

	open(my $lock, '>', "$sandbox/cassandra.lock")
	  or croak "could not open the lock: $!";
	flock($lock, LOCK_EX) or croak "could not lock: $!";
	# Processes started here must not keep the lock, nor the test's output.
	$self->_run('start', 1);
	$self->{hosts} = $self->_run('hosts');
	close($lock);
	return $self;
}

sub _run
{
	my ($self, $command, @arguments) = @_;
	my ($out, $err);

	# Through files: a pipe would stay open as long as Cassandra runs.
	my $file = "$PostgreSQL::Test::Utils::tmp_check/cluster.$$";
	my $rc = system(
		qq("$self->{script}" $command "$self->{dir}" @arguments ) .
		  qq(>"$file" 2>"$file.err" </dev/null));

	$out = PostgreSQL::Test::Utils::slurp_file($file);
	$err = PostgreSQL::Test::Utils::slurp_file("$file.err");
	croak "cluster $command: $err" if $rc != 0;
	chomp $out;
	return $out;
}

sub hosts { return $_[0]->{hosts}; }

=pod

=item keyspace()

The name of a new keyspace with the gateway's table, also when a test is run
again.

=item truncate($keyspace)

Deletes what the gateway has there, as the statement does that an administrator
may give.

=back

=cut

my $keyspaces = 0;

sub keyspace
{
	my ($self) = @_;
	my ($script) = $0 =~ m{([^/]+?)(\.[^.]*)?$};
	my $name = sprintf('t_%s_%d_%d', $script, ++$keyspaces, $$);

	my ($out, $err) = ('', '');

	$name =~ s/\W/_/g;
	IPC::Run::run(
		[
			"$ENV{LE_BIN}/le-gateway", 'schema', '--hosts', $self->hosts,
			'--replication', 'datacenter1=1', '--allow-fragile',
			'--keyspace', $name, '--apply'
		],
		'>', \$out, '2>', \$err)
	  or croak "le-gateway schema: $out$err";
	return $name;
}

# A message of the native protocol, version 4, and the kind of the answer.
sub _message
{
	my ($socket, $kind, $body) = @_;
	my $header;
	my $text = '';

	print $socket pack('CCnCN/a*', 4, 0, 0, $kind, $body);
	read($socket, $header, 9) == 9 or croak 'no answer from Cassandra';
	my ($answer, $size) = (unpack('CCnCN', $header))[3, 4];
	read($socket, $text, $size) == $size or croak 'half an answer from Cassandra';
	croak "Cassandra: $text" if $answer == 0;
	return $answer;
}

sub truncate
{
	my ($self, $keyspace) = @_;
	my $socket = IO::Socket::INET->new(
		PeerAddr => $self->hosts, PeerPort => 9042, Timeout => 10)
	  or croak "Cassandra: $@";

	$socket->autoflush;
	_message($socket, 1, pack('n(n/a*)2', 1, 'CQL_VERSION', '3.0.0'));
	_message($socket, 7, pack('N/a*nC', "TRUNCATE $keyspace.leases", 1, 0));
	return;
}

1;
