
=pod

=head1 NAME

LeaderElection::Node - a PostgreSQL instance with leader_election

=head1 SYNOPSIS

  my $a = LeaderElection::Node->create('a',
    consul => $consul,
    settings => { lease_ttl => '10s', campaign => 'billing' },
    conf => { log_min_messages => 'debug1' });

  ok($a->acquire('billing'));
  ok($a->is_leader('billing'));
  $a->wait_for_leadership('billing');
  $a->freeze_worker;

=head1 DESCRIPTION

A PostgreSQL::Test::Cluster that preloads leader_election, restarts after a
crash, as servers do by default, and listens on a socket only.

=cut

package LeaderElection::Node;

use strict;
use warnings;

use parent -norequire, 'PostgreSQL::Test::Cluster';

use Carp;
use Fcntl qw(:flock);
use LeaderElection::Session;
use LeaderElection::Util;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

my %frozen;    # pids to wake up before the instances are stopped
my $initialized = 0;    # instances of this test

=pod

=head1 METHODS

=over

=item create($name, %params)

A new instance, started, with the extension in its database postgres.
Parameters, besides those of PostgreSQL::Test::Cluster's init():

=over

=item consul

a LeaderElection::Consul, a link to one, or its URL: the store (default:
local)

=item gateway

a LeaderElection::Gateway, an array of such, or their URLs: the store is
cassandra

=item azure

a LeaderElection::Azurite: the store is azure

=item settings

hash of settings of the extension, without prefix; undef: not set, also where it
would be by itself, as node_name

=item conf

hash of other settings

=item backup

[ node, name ] or [ node, name, init_from_backup parameters ]: made from a
backup instead of initdb

=item start, extension

0: do not

=back

=cut

sub create
{
	my ($class, $name, %params) = @_;
	my %settings = (node_name => $name, %{ delete $params{settings} // {} });
	my %conf = %{ delete $params{conf} // {} };
	my $consul = delete $params{consul};
	my $gateway = delete $params{gateway};
	my $azure = delete $params{azure};
	my $backup = delete $params{backup};
	my $start = delete $params{start} // 1;
	my $extension = delete $params{extension} // !$backup;
	my $self = $class->new($name, port => free_port());

	if ($backup)
	{
		my ($root, $backup_name, %rest) = @$backup;

		$self->init_from_backup($root, $backup_name, %rest);
	}
	else
	{
		$self->init(%params);
	}
	if ($consul)
	{
		$settings{backend} //= 'consul';
		$settings{consul_url} //= ref $consul ? $consul->url : $consul;

		# a copy of one that may run yet
		$settings{clone_eligible} //= 'on' if $backup;
	}
	if ($gateway)
	{
		$settings{backend} //= 'cassandra';
		$settings{gateway_url} //= join(', ',
			map { ref $_ ? $_->url : $_ }
			  ref $gateway eq 'ARRAY' ? @$gateway : $gateway);
	}
	if ($azure)
	{
		$settings{backend} //= 'azure';
		$settings{azure_container_url} //= $azure->url;
		$settings{azure_sas_file} //= $azure->sas_file
		  unless $settings{azure_identity};
	}
	$self->append_conf('postgresql.conf',
		"shared_preload_libraries = 'leader_election'\n"
		  . "restart_after_crash = on\n"
		  . "max_connections = 40\n"
		  . "max_worker_processes = 16\n"
		  . "log_statement = none\n");
	$settings{backend} = 'local' unless exists $settings{backend};
	$self->set("leader_election.$_", $settings{$_})
	  foreach grep { defined $settings{$_} } sort keys %settings;
	$self->set($_, $conf{$_}) foreach sort keys %conf;
	if ($start)
	{
		$self->start;
		$self->safe_psql('postgres', 'CREATE EXTENSION leader_election')
		  if $extension;
	}
	return $self;
}

=pod

=item init(%params)

As the one of PostgreSQL::Test::Cluster, but what initdb makes is copied by other
tests of the sandbox: that takes half of the processor's time. Instances of one test
are no copies of each other, since clones do not lead side by side.

=cut

sub init
{
	my ($self, %params) = @_;
	my $run = \&PostgreSQL::Test::Utils::system_or_bail;

	no warnings 'redefine';
	local *PostgreSQL::Test::Utils::system_or_bail = sub {
		my ($command, @arguments) = @_;

		return $run->($command, @arguments)
		  if $command ne 'initdb' || $params{extra} || !$ENV{LE_SANDBOX};

		my $template = "$ENV{LE_SANDBOX}/template" . ++$initialized;

		open(my $lock, '>', "$template.lock") or croak "could not open the lock: $!";
		flock($lock, LOCK_EX) or croak "could not lock: $!";
		unless (-d $template)
		{
			# where the directory stands among them differs by version
			$run->(
				$command,
				map { $_ eq $self->data_dir ? "$template.new" : $_ }
				  @arguments);
			rename("$template.new", $template) or croak "rename: $!";
		}
		close($lock);
		$run->('cp', '-RPp', $template, $self->data_dir);
	};
	return $self->SUPER::init(%params);
}

=pod

=item set($setting, $value)

Appends one line to postgresql.conf; the last one counts.  reload() or
restart() makes it take effect.

=item configure(%settings)

Sets settings of the extension, without prefix, and reloads.

=cut

sub set
{
	my ($self, $setting, $value) = @_;

	$value =~ s/'/''/g;
	$self->append_conf('postgresql.conf', "$setting = '$value'\n");
	return;
}

sub configure
{
	my ($self, %settings) = @_;

	$self->set("leader_election.$_", $settings{$_}) foreach sort keys %settings;
	$self->reload;
	return;
}

=pod

=item sql($query)

The result of a query in database postgres; dies on error.

=item sql_error($query)

The error of a query, in full (verbose: with SQLSTATE); '' if there is none.

=item ask($query)

The same as sql() for a query that changes nothing, over a connection that is
kept: it may be asked many times a second.  A psql for each would take so much
of a small machine that what is waited for is late.

=item hang_up()

Ends that connection.

=cut

sub sql
{
	my ($self, $query) = @_;

	return $self->safe_psql('postgres', $query);
}

sub sql_error
{
	my ($self, $query) = @_;
	my ($rc, $stdout, $stderr) =
	  $self->psql('postgres', "\\set VERBOSITY verbose\n$query");

	return $rc == 0 ? '' : $stderr;
}

# One that was lost with its server is made anew, once.
sub ask
{
	my ($self, $query) = @_;

	foreach my $last (0, 1)
	{
		my $session = delete $self->{asking}{$$} // LeaderElection::Session->new($self);
		my $lost = $session->start($query)->finish->{lost};

		$self->{asking}{$$} = $session unless $lost;
		return $session->rows if !$lost || $last;
	}
}

sub hang_up
{
	my ($self) = @_;
	my $session = delete $self->{asking}{$$} or return;

	$session->quit;
	return;
}

=pod

=item is_leader($election), acquire($election, [ %arguments ]),
release($election), token($election), leader($election)

The SQL functions, with Perl's truth and undef.  Arguments of acquire are
SQL's by name, as in wait => '1 min'.

=cut

sub _quote
{
	my ($value) = @_;

	return 'NULL' unless defined $value;
	$value =~ s/'/''/g;
	return "'$value'";
}

sub is_leader
{
	my ($self, $election) = @_;

	return $self->ask("SELECT le_is_leader(" . _quote($election) . ")") eq 't';
}

sub acquire
{
	my ($self, $election, %arguments) = @_;
	my $more = join('',
		map { qq(, "$_" => ) . _quote($arguments{$_}) } sort keys %arguments);

	return $self->sql("SELECT le_acquire(" . _quote($election) . "$more)") eq
	  't';
}

sub release
{
	my ($self, $election) = @_;

	return $self->sql("SELECT le_release(" . _quote($election) . ")") eq 't';
}

sub token
{
	my ($self, $election) = @_;
	my $token =
	  $self->ask("SELECT le_fencing_token(" . _quote($election) . ")");

	return $token eq '' ? undef : $token;
}

sub leader
{
	my ($self, $election) = @_;
	my $leader =
	  $self->sql("SELECT le_current_leader(" . _quote($election) . ")");

	return $leader eq '' ? undef : $leader;
}

=pod

=item wait_for($query, [ $what ], [ timeout => s ])

Polls until the query gives true.

=item wait_for_leadership($election, [ left => s, timeout => s ])

Until it leads; with "left", until it will for so long even if nothing renews its
lease: one that ran out almost to its end is still believed in when its worker
goes on, but lets nobody through a gate.

=item wait_for_restart()

After the crash of a server process.  The connection that is kept may not be
gone yet.

=cut

sub wait_for
{
	my ($self, $query, $what, %params) = @_;

	return poll_until(
		sub { $self->ask($query) eq 't' },
		$what // $self->name . ": $query", %params);
}

sub wait_for_leadership
{
	my ($self, $election, %params) = @_;
	my $left = delete $params{left};
	my $name = _quote($election);
	my $query = "SELECT le_is_leader($name)";

	$query .= " AND expires_at - clock_timestamp() > interval '$left s' "
	  . "FROM le_status WHERE election = $name" if defined $left;
	return $self->wait_for($query, $self->name . " to lead $election", %params);
}

sub wait_for_restart
{
	my ($self, $pid) = @_;

	# Until the server has noticed, it lets everybody in as before.
	$self->wait_for_log_like(qr/\(PID $pid\) was terminated by signal 9/);
	$self->hang_up;
	return $self->wait_for('SELECT NOT pg_is_in_recovery()', 'crash restart');
}

=pod

=item log_offset(), log_since([ $offset ]), log_like($pattern, [ $offset ])

The server's log.

=item wait_for_log_like($pattern, [ $offset ], [ timeout => s ])

=cut

sub log_offset
{
	my ($self) = @_;

	return -s $self->logfile // 0;
}

sub log_since
{
	my ($self, $offset) = @_;

	return slurp_file($self->logfile, $offset // 0);
}

sub log_like
{
	my ($self, $pattern, $offset) = @_;

	return $self->log_since($offset) =~ $pattern;
}

sub wait_for_log_like
{
	my ($self, $pattern, $offset, %params) = @_;

	return poll_until(sub { $self->log_like($pattern, $offset) },
		$self->name . ": log like $pattern", %params);
}

=pod

=item worker_pid()

The process of the background worker, found among the children of the
postmaster, without asking the server; undef if there is none.

=item wait_for_worker([ $not_this_pid ])

=cut

sub postmaster_pid
{
	my ($self) = @_;

	open(my $fh, '<', $self->data_dir . '/postmaster.pid') or return undef;
	my $pid = <$fh>;
	chomp $pid;
	return $pid;
}

sub worker_pid
{
	my ($self) = @_;
	my $postmaster = $self->postmaster_pid // return undef;

	# A child exists for a moment under the postmaster's own title.
	foreach my $stat (glob '/proc/[0-9]*/stat')
	{
		open(my $fh, '<', $stat) or next;
		my $line = <$fh> // next;
		my ($pid, $state, $parent) = $line =~ /^(\d+) \(.*\) (\S) (\d+)/
		  or next;

		next unless $parent == $postmaster && $state ne 'Z';
		open(my $title, '<', "/proc/$pid/cmdline") or next;
		return $pid if (<$title> // '') =~ /^postgres: .*leader.election/;
	}
	return undef;
}

sub wait_for_worker
{
	my ($self, $not) = @_;

	return poll_until(
		sub {
			my $pid = $self->worker_pid;

			return $pid && $pid != ($not // 0) ? $pid : undef;
		},
		$self->name . ': a worker');
}

=pod

=item freeze_worker([ $pid ]), thaw_worker($pid)

SIGSTOP and SIGCONT to the worker, or to another process of the instance;
freeze returns its pid.

=item kill_worker($signal)

Returns the pid.

=item freeze(), thaw()

The same for all processes of the instance: a machine that hangs.

=cut

sub _stop
{
	my ($pid) = @_;

	$frozen{$pid} = 1;
	stop_process($pid);
	return;
}

sub freeze_worker
{
	my ($self, $pid) = @_;

	$pid //= $self->worker_pid // croak $self->name . ': no worker';
	_stop($pid);
	return $pid;
}

sub thaw_worker
{
	my ($self, $pid) = @_;

	$pid //= $self->worker_pid;
	kill('CONT', $pid);
	delete $frozen{$pid};
	return;
}

sub kill_worker
{
	my ($self, $signal) = @_;
	my $pid = $self->worker_pid // croak $self->name . ': no worker';

	kill($signal, $pid);
	return $pid;
}

sub _processes
{
	my ($self) = @_;
	my $postmaster = $self->postmaster_pid // return;
	my @pids = ($postmaster);

	foreach my $stat (glob '/proc/[0-9]*/stat')
	{
		open(my $fh, '<', $stat) or next;
		push @pids, $1
		  if (<$fh> // '') =~ /^(\d+) \(.*\) \S $postmaster /;
	}
	return @pids;
}

# The postmaster is stopped first: a process that is born while its siblings are
# looked for would be overlooked.
sub _all_processes
{
	my ($self) = @_;
	my $postmaster = $self->postmaster_pid // return;

	_stop($postmaster);
	return $self->_processes;
}

sub freeze
{
	my ($self) = @_;

	_stop($_) foreach $self->_all_processes;
	return;
}

sub thaw
{
	my ($self) = @_;

	foreach my $pid ($self->_processes)
	{
		kill('CONT', $pid);
		delete $frozen{$pid};
	}
	return;
}

=pod

=item crash()

SIGKILL to the postmaster and all its children: a machine that is gone.
Afterwards start() starts the instance again.

=back

=cut

sub crash
{
	my ($self) = @_;
	my @pids = $self->_all_processes;

	# a worker that sees its postmaster dead first would release its terms
	kill('STOP', @pids);
	kill('KILL', @pids);
	delete @frozen{@pids};
	poll_until(sub { !grep { _is_alive($_) } @pids },
		$self->name . ': death of its processes');
	$self->kill9;
	return;
}

sub kill9
{
	my ($self) = @_;

	$self->{le_killed} = $self->postmaster_pid;
	return $self->SUPER::kill9;
}

# A new postmaster takes a dead one for alive, by its lock files, until init
# has waited for it; some take their time, or never do.
sub start
{
	my ($self, @arguments) = @_;

	if (my $pid = delete $self->{le_killed})
	{
		my $gone = eval {
			poll_until(sub { !kill(0, $pid) }, 'init', timeout => 5);
		};

		unlink($self->data_dir . '/postmaster.pid',
			sprintf('%s/.s.PGSQL.%d.lock', $self->host, $self->port))
		  unless $gone || _is_alive($pid);
	}
	return $self->SUPER::start(@arguments);
}

# A dead process that nobody has waited for yet counts as dead.
sub _is_alive
{
	my ($pid) = @_;

	open(my $fh, '<', "/proc/$pid/stat") or return 0;
	return (<$fh> // '') !~ /^\d+ \(.*\) [ZX]/;
}

# A frozen instance cannot be stopped; this block runs before the one of
# PostgreSQL::Test::Cluster, which was compiled earlier.
END
{
	my $rc = $?;

	kill('CONT', keys %frozen) if %frozen;
	$? = $rc;
}

1;
