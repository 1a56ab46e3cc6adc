
=pod

=head1 NAME

LeaderElection::Faults::Client - a session that acquires, renews, releases, asks

=head1 DESCRIPTION

One process and one connection.  Its acts are drawn from a seed; their times and
answers are its history.  Parameters: node, number,
seed, scope (node, or session, which includes transactions), busy (does not
pause).

Elections have a new name every few seconds (see name()), the same for all
clients: the histories that are to be linearized stay short, and the lease
table has to make room.

=cut

package LeaderElection::Faults::Client;

use strict;
use warnings;

use parent 'LeaderElection::Faults::Child';

use LeaderElection::Session;
use LeaderElection::Util;

use constant AGE => 12e9;      # how long an election is used, in ns
use constant STATEMENT => 120;    # limit of an answer from a frozen instance, s

sub name
{
	my ($scope, $which) = @_;

	return sprintf('work/%s/%d/%d', $scope, boottime_ns() / AGE, $which);
}

sub setup
{
	my ($self) = @_;

	srand($self->{seed});
	open(STDERR, '>', '/dev/null');
	$self->{instance} = $self->{node}->name;
	$self->{beliefs} = LeaderElection::Faults::Beliefs->new($self->{log}, '');
	$self->{connections} = 0;
	$self->{held} = {};
	return;
}

# The end is put off until the operation under way is written down: one whose
# effect is seen, and that nobody tells of, looks like a violation.
sub turn
{
	my ($self) = @_;
	my $ending = 0;

	{
		local $SIG{TERM} = sub { $ending = 1 };

		$self->_turn;
	}
	die "end\n" if $ending;
	return;
}

sub _turn
{
	my ($self) = @_;

	return unless $self->{session} || $self->_connect;
	if ($self->{scope} eq 'node')
	{
		$self->_tidy;
		$self->_operate('node', name('node', 1 + int rand 2));
		$self->_step_down if $self->{jobs} && rand() < 0.1;
	}
	elsif (rand() < 0.3)
	{
		$self->_transaction(name('transaction', 1));
	}
	elsif (rand() < 0.02)
	{
		# a client that goes without a word
		$self->_lost;
	}
	else
	{
		$self->_tidy;
		$self->_operate('session', name('session', 1));
	}
	$self->_sample;
	$self->pause(0.01 + rand 0.06) unless $self->{busy};
	return;
}

sub _connect
{
	my ($self) = @_;

	$self->{session} = eval {
		local $LeaderElection::Util::timeout_default = STATEMENT;
		LeaderElection::Session->new($self->{node});
	};
	unless ($self->{session})
	{
		die $@ if $@ eq "end\n";
		$self->pause(0.2);
		return 0;
	}
	$self->{connections}++;
	$self->{holder} =
	  $self->{scope} eq 'node'
	  ? $self->{instance}
	  : "$self->{instance}/c$self->{number}.$self->{connections}";
	$self->{beliefs}->forget($self->{holder});
	return 1;
}

# A session's leases end with it; the instance's stay.
sub _lost
{
	my ($self) = @_;

	delete $self->{session};
	$self->{beliefs}->flush;
	$self->{held} = {} if $self->{scope} ne 'node';
	return;
}

sub _ask
{
	my ($self, $sql) = @_;
	my $result = $self->{session}->start($sql)->finish(timeout => STATEMENT);

	$self->_lost if $result->{lost};
	return $result;
}

# Elections whose time has passed are let go of, until that is certain.
sub _tidy
{
	my ($self) = @_;
	my $age = int(boottime_ns() / AGE);

	foreach my $election (keys %{ $self->{held} })
	{
		my ($then) = $election =~ m{/(\d+)/\d+$};

		$self->_release($election)
		  if $self->{session} && $then < $age;
	}
	return;
}

sub _operate
{
	my ($self, $scope, $election) = @_;
	my $chance = rand();

	return unless $self->{session};
	return $self->_read($election) if $chance < 0.2;
	if ($self->{held}{$election})
	{
		return $self->_release($election) if $chance < 0.65;
		return $self->_renew($election) if $chance < 0.9;
	}
	elsif ($chance > 0.97)
	{
		# one of another client's
		return rand() < 0.5
		  ? $self->_release($election)
		  : $self->_renew($election);
	}
	return $self->_acquire($scope, $election);
}

# Runs one statement and writes down what came of it.  An answer that does not
# say what happened is "unknown", whatever the reason.
sub _record
{
	my ($self, $op, $election, $sql) = @_;
	my $holder = $self->{holder};
	my $before = boottime_ns();
	my $result = $self->_ask($sql);
	my %seen = (result => 'unknown');

	if (!$result->{lost} && $result->{error} !~ /^(psql:.*)?(ERROR|FATAL)/m)
	{
		my ($answer, $more) = split /\|/, $result->{output}, 2;

		if ($op eq 'read')
		{
			%seen = (result => 'true', leader => $answer // '');
		}
		elsif (($answer // '') =~ /^[tf]$/)
		{
			%seen = (result => $answer eq 't' ? 'true' : 'false');
			$seen{token} = $more if ($more // '') =~ /^\d+$/;
		}
	}
	elsif ($result->{error} =~ /ERROR:  LE003/ && $op ne 'release')
	{
		$seen{result} = 'unavailable';
	}
	elsif ($result->{error} =~ /ERROR:  LE005: could not keep the fencing token/)
	{
		$seen{result} = 'gave back';
	}
	elsif ($result->{error} =~ /ERROR:  LE005/)
	{
		$seen{result} = 'refused';
	}
	$self->{log}->write(
		type => 'op',
		client => $self->{number},
		holder => $holder,
		node => $self->{instance},
		election => $election,
		op => $op,
		call => $before,
		return => $result->{at},
		%seen);
	return $seen{result};
}

sub _acquire
{
	my ($self, $scope, $election) = @_;
	my $wait = rand() < 0.7 ? 0 : int(rand 2500);
	my $sql = "SELECT le_acquire('$election', wait => '$wait ms', "
	  . "scope => '$scope'), le_fencing_token('$election')";
	my $limit = 1 + int(rand 400);

	# now and then canceled, at any point of it
	$sql = "SET statement_timeout = '$limit ms';\n$sql;\n"
	  . 'RESET statement_timeout'
	  if rand() < 0.1;

	my $result = $self->_record('acquire', $election, $sql);

	$self->{held}{$election} = 1
	  if $self->{session} && ($result eq 'true' || $result eq 'unknown');
	return $result;
}

sub _release
{
	my ($self, $election) = @_;
	my $result = $self->_record('release', $election,
		"SELECT le_release('$election')");

	delete $self->{held}{$election}
	  if $result eq 'true' || $result eq 'false';
	return;
}

sub _renew
{
	my ($self, $election) = @_;
	my $value = rand() < 0.3 ? ", 'value " . int(rand 1000) . "'" : '';

	$self->_record('renew', $election, "SELECT le_renew('$election'$value)");
	return;
}

sub _read
{
	my ($self, $election) = @_;

	$self->_record('read', $election,
		"SELECT le_current_leader('$election')");
	return;
}

# Belief in scope transaction ends at its end, whatever the end.
sub _transaction
{
	my ($self, $election) = @_;

	return if $self->_ask('BEGIN')->{lost};
	if ($self->_acquire('transaction', $election) eq 'true')
	{
		foreach my $i (0 .. rand 6)
		{
			last unless $self->{session};
			$self->_sample;
			$self->pause(0.005);
		}
	}
	$self->_ask(rand() < 0.7 ? 'COMMIT' : 'ROLLBACK') if $self->{session};
	delete $self->{held}{$election};
	$self->_sample($election);
	return;
}

# The session's belief; the instance's belief has a witness of its own. The token
# alone is no belief: within a transaction that is bound to a term it is that term's
# until the end, also when the term is over.
sub _sample
{
	my ($self, @more) = @_;
	my @elections = (keys %{ $self->{held} }, @more);

	return unless $self->{session} && $self->{scope} ne 'node';
	unless (@elections || %{ $self->{beliefs}{open} })
	{
		return;
	}

	my $before = boottime_ns();
	my $result = $self->_ask(
		'SELECT '
		  . join(
			" || ' ' || ",
			"''",
			map {
				"'$_=' || CASE WHEN le_is_leader('$_') "
				  . "THEN coalesce(le_fencing_token('$_'), 0) ELSE 0 END"
			} @elections));

	$self->{beliefs}->sample(
		$before,
		$result->{at},
		{
			map { /^(.*)=(\d+)$/ && $2 ? ($1 => $2) : () }
			  split / /, $result->{output}
		}) if !$result->{lost} && $result->{error} eq '';
	return;
}

# An operator moves a job elsewhere.
sub _step_down
{
	my ($self) = @_;
	my $job = $self->{jobs}[ rand @{ $self->{jobs} } ];

	$self->_record('step down', $job, "SELECT le_step_down('$job', '1 s')")
	  if $self->{session}
	  && $self->_ask("SELECT le_is_leader('$job')")->{output} eq 't';
	return;
}

sub finish
{
	my ($self) = @_;

	# within what the parent waits for
	eval {
		local $SIG{ALRM} = sub { die "late\n" };
		alarm 5;
		if ($self->{session})
		{
			$self->_release($_) foreach keys %{ $self->{held} };
			$self->_sample;
		}
		alarm 0;
	};
	$self->{beliefs}->flush;
	return;
}

1;
