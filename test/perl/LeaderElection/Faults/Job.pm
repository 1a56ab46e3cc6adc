
=pod

=head1 NAME

LeaderElection::Faults::Job - work that only the leader may do

=head1 DESCRIPTION

One process and one connection for an instance, like a job that is scheduled on
each: transactions that are bound to the term, statements that are to be
stopped with it, ticks that are to be claimed once, ticks that are to be run and
none lost; slow ones if the parameter slow is true.  Ticks are named by the
harness, so that all instances mean the same, whatever their wall clocks say.

=cut

package LeaderElection::Faults::Job;

use strict;
use warnings;

use parent 'LeaderElection::Faults::Client';

use LeaderElection::Util;

use constant TICK => 0.5e9;    # ns

sub setup
{
	my ($self) = @_;

	$self->{scope} = 'node';
	$self->SUPER::setup;
	return;
}

sub turn
{
	my ($self) = @_;
	my $job = $self->{jobs}[ rand @{ $self->{jobs} } ];
	my $chance = rand();

	return unless $self->{session} || $self->_connect;
	if ($self->{slow})
	{
		$chance < 0.6 ? $self->_commit($job)
		  : $chance < 0.8 ? $self->_gated($job)
		  : $self->_run($job);
	}
	else
	{
		$chance < 0.4 ? $self->_claim($job)
		  : $chance < 0.6 ? $self->_run($job)
		  : $self->_commit($job);
	}
	$self->pause(0.01 + rand 0.05);
	return;
}

# The token of the term that the transaction is now bound to; undef if none.
sub _bind
{
	my ($self, $job, $more) = @_;

	return undef if $self->_ask('BEGIN')->{lost};

	my $bound = $self->_ask("SELECT le_require_leader('$job'$more)");

	return $bound->{output}
	  if $bound->{error} eq '' && $bound->{output} =~ /^\d+$/;
	$self->_ask('ROLLBACK') if $self->{session};
	return undef;
}

sub _write
{
	my ($self, $type, $job, $token, %more) = @_;

	$self->{log}->write(
		type => $type,
		client => $self->{number},
		holder => $self->{instance},
		node => $self->{instance},
		election => $job,
		token => $token,
		%more);
	return;
}

# A slow one takes so much time that the term may end before the commit.
sub _commit
{
	my ($self, $job) = @_;
	my $token = $self->_bind($job, '') // return;
	my $work = $self->_ask(
		"INSERT INTO work VALUES ('$job', $token)");

	$self->pause($self->{slow} ? rand 5 : rand 0.03)
	  if $self->{session};
	return unless $self->{session};

	my $before = boottime_ns();
	my $done = $self->_ask('COMMIT');
	my $result = 'unknown';

	if (!$done->{lost})
	{
		$result =
		  $done->{error} eq '' && $work->{error} eq '' ? 'true' : 'false';
	}
	$self->_write(
		'commit', $job, $token,
		call => $before,
		return => $done->{at},
		result => $result);
	return;
}

sub _gated
{
	my ($self, $job) = @_;
	my $token = $self->_bind($job, ", on_loss => 'cancel'") // return;
	my $before = boottime_ns();
	my $slept = $self->_ask('SELECT pg_sleep(' . rand(20) . ')');

	# its connection lost, nobody knows when it ended
	$self->_write(
		'gated', $job, $token,
		from => $before,
		to => $slept->{at}) unless $slept->{lost};
	$self->_ask('ROLLBACK') if $self->{session};
	return;
}

sub _claim
{
	my ($self, $job) = @_;
	my $tick = int(boottime_ns() / TICK);

	$self->{claims} //=
	  $self->_ask('SELECT count(*) FROM pg_proc '
		  . "WHERE proname = 'le_claim'")->{output};
	return unless $self->{claims} && $self->{session};

	my $before = boottime_ns();
	my $claim = $self->_ask("SELECT le_claim('$job', 'beat', "
		  . "to_timestamp($tick)), coalesce(le_fencing_token('$job'), 0)");
	my ($answer, $token) = split /\|/, $claim->{output};
	my $known = !$claim->{lost} && $claim->{error} eq '';

	# a node that does not lead is told so by an error, and that is no claim
	return if !$claim->{lost} && $claim->{error} =~ /LE001/;
	$self->_write(
		'claim', $job,
		$known ? $token : 0,
		job => 'beat',
		tick => "$tick",
		try => 1,
		call => $before,
		return => $claim->{at},
		result => !$known ? 'unknown' : $answer eq 't' ? 'true' : 'false');
	$self->_ask("SELECT le_complete('$job', 'beat', to_timestamp($tick))")
	  if $known && $answer eq 't' && rand() < 0.8;
	return;
}

# A run says which ticks it begins, the old ones that it catches up with
# included, so that they are known whatever becomes of it. Its commits are collected
# in the end.
sub _run
{
	my ($self, $job) = @_;
	my $tick = int(boottime_ns() / TICK);
	my $seconds = $self->{slow} ? rand 3 : rand 0.3;
	my $before = boottime_ns();
	my $run = $self->_ask(<<"END" =~ s/\s+/ /gr);
CALL le_run('$job', \$\$
	DO 'BEGIN RAISE NOTICE \$q\$begun %\$q\$, extract(epoch FROM le_tick())::bigint; END';
	INSERT INTO ran VALUES ('$job', extract(epoch FROM le_tick())::bigint);
	SELECT pg_sleep($seconds) \$\$,
	job => 'run', tick => to_timestamp($tick), catch_up => true)
END

	$self->_write(
		'begun', $job, 0,
		job => 'run',
		tick => $_,
		call => $before,
		return => $run->{at}) foreach $run->{error} =~ /NOTICE: .*?begun (\d+)/g;
	return;
}

1;
