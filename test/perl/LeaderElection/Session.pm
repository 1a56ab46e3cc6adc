
=pod

=head1 NAME

LeaderElection::Session - one database session that can be left waiting

=head1 SYNOPSIS

  my $session = LeaderElection::Session->new($node);
  is($session->query("SELECT le_acquire('billing', scope => 'session')"), 't');

  $session->start("SELECT le_acquire('billing', wait => '1 min')");
  ok(!$session->is_done);
  $node->cancel($session->pid);
  my $result = $session->finish;
  like($result->{error}, qr/57014/);

=head1 DESCRIPTION

A psql of its own, spoken to through pipes, with verbose errors.  Unlike
PostgreSQL::Test::BackgroundPsql, a statement can be started and looked after
later, and a session that dies is a result like any other.

=cut

package LeaderElection::Session;

use strict;
use warnings;

use Carp;
use IO::Select;
use LeaderElection::Util;
use POSIX ();

my $number = 0;

=pod

=head1 METHODS

=over

=item new($node, [ dbname => name, user => name, options => '-c name=value' ])

Connects.  The options are the server's: RESET goes back to them.

=item pid()

The server process.

=cut

sub new
{
	my ($class, $node, %params) = @_;
	my $dbname = $params{dbname} // 'postgres';
	my $connstr = $node->connstr($dbname)
	  . (defined $params{user} ? " user=$params{user}" : '')
	  . (defined $params{options} ? " options='$params{options}'" : '');
	my @command = (
		'setpriv', '--pdeathsig', 'KILL', $node->installed_command('psql'),
		'-XAtq', '-v', 'VERBOSITY=verbose', '-d', $connstr);

	pipe(my $out, my $out_child) or croak "pipe: $!";
	pipe(my $in_child, my $in) or croak "pipe: $!";
	my $psql = fork() // croak "could not fork: $!";
	if ($psql == 0)
	{
		# From here on only exec or _exit: no END block of the test.
		POSIX::dup2(fileno($in_child), 0);
		POSIX::dup2(fileno($out_child), 1);
		POSIX::dup2(fileno($out_child), 2);
		exec { $command[0] } @command or POSIX::_exit(127);
	}
	close $_ foreach $in_child, $out_child;
	$in->autoflush(1);

	my $self = bless {
		psql => $psql,
		owner => $$,
		in => $in,
		out => $out,
		select => IO::Select->new($out),
		buffer => ''
	}, $class;

	$self->{pid} = $self->query('SELECT pg_backend_pid()');
	return $self;
}

sub pid { return $_[0]->{pid}; }

=pod

=item start($sql)

Sends it, without waiting.

=item is_done()

Has all of it been answered, or the connection been lost?

=item finish([ timeout => s ])

Waits for that and returns { output, error, lost, at, seconds }: the rows, the
messages with their SQLSTATEs, whether the session is gone, when the answer
arrived (CLOCK_BOOTTIME, ns) and how long it took since start().

=cut

sub start
{
	my ($self, $sql) = @_;

	croak 'a statement is under way' if $self->{mark};
	$self->{mark} = '--done-' . ++$number . '--';
	$self->{buffer} = '';
	$self->{sql} = $sql;
	$self->{started} = boottime_ns();
	delete $self->{result};
	local $SIG{PIPE} = 'IGNORE';
	print { $self->{in} } "$sql\n;\n\\echo $self->{mark}\n";
	return $self;
}

sub is_done
{
	my ($self, $wait) = @_;

	return 1 if $self->{result};
	while ($self->{select}->can_read($wait // 0))
	{
		my $n = sysread($self->{out}, $self->{buffer}, 65536,
			length $self->{buffer});
		my $lost = !$n;

		if ($lost || $self->{buffer} =~ s/^\Q$self->{mark}\E\n\z//m)
		{
			$self->_take($lost);
			return 1;
		}
	}
	return 0;
}

sub _take
{
	my ($self, $lost) = @_;
	my $now = boottime_ns();
	my @lines = split /\n/, $self->{buffer};
	my @error;

	# An error is a message and what follows it; psql marks both.
	@lines = grep {
		my $error = /^(psql:[^:]*:\d+: |)(ERROR|FATAL|PANIC|WARNING|NOTICE|LOG|
			DETAIL|HINT|CONTEXT|LOCATION|STATEMENT|LINE\ \d+):/x
		  || /^(server\ closed|(psql:.*:\ error:\ )?connection\ to\ server|
			\tThis\ probably|\tbefore\ or|The\ connection|
			no\ connection\ to\ the\ server)/x;

		push @error, $_ if $error;
		!$error
	} @lines;
	delete $self->{mark};
	$self->{result} = {
		output => join("\n", @lines),
		error => join("\n", @error),
		lost => $lost || scalar(
			grep { /server closed the connection|no connection to the server/ }
			  @error),
		at => $now,
		seconds => ($now - $self->{started}) / 1e9
	};
	return;
}

sub finish
{
	my ($self, %params) = @_;
	my $timeout = $params{timeout} // $LeaderElection::Util::timeout_default;
	my $limit = boottime_ns() + $timeout * 1e9;

	until ($self->is_done(0.2))
	{
		next if boottime_ns() <= $limit;
		croak "no answer within $timeout s";
	}
	return $self->{result};
}

=pod

=item rows()

The rows of that; dies on error.

=item query($sql)

The rows of a statement; dies on error.

=item error($sql)

Its error or warning, verbose; '' if there is none.

=cut

sub rows
{
	my ($self) = @_;
	my $result = $self->finish;

	croak "$self->{sql}: $result->{error}"
	  if $result->{lost} || $result->{error} =~ /^(psql:.*)?(ERROR|FATAL)/m;
	return $result->{output};
}

sub query
{
	my ($self, $sql) = @_;

	return $self->start($sql)->rows;
}

sub error
{
	my ($self, $sql) = @_;

	return $self->start($sql)->finish->{error};
}

=pod

=item quit()

Ends the session in an orderly way.

=back

=cut

sub quit
{
	my ($self) = @_;

	return unless $self->{psql};
	# a process that was forked since may hold the other end of the pipe open
	local $SIG{PIPE} = 'IGNORE';
	print { $self->{in} } "\\q\n";
	close $self->{in};
	waitpid(delete $self->{psql}, 0);
	return;
}

sub DESTROY
{
	my ($self) = @_;

	return unless $self->{psql} && $self->{owner} == $$;
	local ($?, $!, $@);
	kill('KILL', $self->{psql});
	waitpid($self->{psql}, 0);
	return;
}

1;
