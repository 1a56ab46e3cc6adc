
=pod

=head1 NAME

LeaderElection::Outage - jobs of which ticks are missed, since nothing runs

=head1 SYNOPSIS

  use LeaderElection::Outage;

  my $outage = LeaderElection::Outage->new(nodes => [ $a, $b ]);
  $outage->run_for(3);
  $outage->without('the scheduler', sub { });
  $outage->run_for(3);
  $outage->check;

=head1 DESCRIPTION

It stands in for a scheduler: at each tick it calls le_run() on all instances
that are up, of a job for each value of "missed" and of one that has missed more
than it may run.  The instances campaign for the election "billing".

MISSED_OUTAGE in the environment says how long an outage is, as "10min"; then
ticks are minutes, pg_cron calls, and the results are shown.

=cut

package LeaderElection::Outage;

use strict;
use warnings;

use LeaderElection::Session;
use LeaderElection::Util;
use List::Util qw(max min);
use Test::More;
use Time::HiRes qw(time);

# Ticks that nobody claims: more than "few" may run.
my $ticks = 6;
my $few = 3;

my $long = $ENV{MISSED_OUTAGE};
my $every = $long ? 60 : 1;

my %option = (
	skip => '',
	last => ", missed => 'last'",
	all => ", missed => 'all', max_missed => 1000",
	few => ", missed => 'all', max_missed => $few",
	ignore => ", missed => 'ignore'");
my %most = (skip => 0, last => 1, all => 1000, few => $few, ignore => 0);

=pod

=head1 METHODS

=over

=item new(nodes => [ $node ])

Prepares the instances and waits for a leader.

=cut

sub new
{
	my ($class, %params) = @_;
	my $self =
	  bless { nodes => $params{nodes}, session => {}, outages => [], reported => {} },
	  $class;

	foreach my $node (@{ $self->{nodes} })
	{
		# the statement is the CALL, whatever it runs
		$node->sql('CREATE TABLE work (n serial, job text, tick timestamptz, '
			  . 'call text DEFAULT statement_timestamp() || \' \' || pg_backend_pid())');
		$node->sql('CREATE EXTENSION pg_cron') if $long;
		$self->_schedule($node) if $long;
	}
	$self->_wait_for_leader;
	return $self;
}

sub _call
{
	my ($job) = @_;

	return "CALL le_run('billing', 'INSERT INTO work (job, tick) VALUES (''$job'', le_tick())', "
	  . "job => '$job', every => '$every s'$option{$job})";
}

sub _schedule
{
	my ($self, $node) = @_;

	$node->sql("SELECT cron.schedule('$_', '* * * * *', \$\$" . _call($_) . '$$)')
	  foreach sort keys %option;
	return;
}

sub _wait_for_leader
{
	my ($self) = @_;

	poll_until(sub { grep { $_->is_leader('billing') } @{ $self->{nodes} } }, 'a leader');
	return;
}

# The next call of a job on an instance is made when the last one has returned.
sub _fire
{
	my ($self) = @_;

	foreach my $node (@{ $self->{nodes} })
	{
		foreach my $job (sort keys %option)
		{
			my $key = $node->name . " $job";
			my $session = $self->{session}{$key};

			next if $session && $session->{under_way} && !$session->is_done;
			if ($session && $session->{under_way} && $session->finish->{lost})
			{
				$session = undef;
			}
			$session //= LeaderElection::Session->new($node);
			$session->start(_call($job));
			$session->{under_way} = 1;
			$self->{session}{$key} = $session;
		}
	}
	return;
}

sub _all_done
{
	my ($self) = @_;

	return !grep { $_->{under_way} && !$_->is_done } values %{ $self->{session} };
}

=pod

=item run_for($ticks)

Calls the jobs at so many ticks, and waits until the last ones are done.

=cut

sub run_for
{
	my ($self, $n) = @_;
	my $first = int(time() / $every) + 1;

	foreach my $tick ($first .. $first + $n - 1)
	{
		Time::HiRes::usleep(1000) while time() < $tick * $every;
		$self->_fire unless $long;
	}
	poll_until(
		sub { $self->_up_to(($first + $n - 1) * $every) }, 'the jobs');
	return;
}

# Where a call that caught up was still under way at the last tick, it takes one
# more, as a scheduler would make.
sub _up_to
{
	my ($self, $second) = @_;

	return 0 unless $self->_all_done;
	return 1 if $self->_newest('all') >= $second;
	$self->_fire unless $long;
	return 0;
}

# The second of the newest tick that has run.
sub _newest
{
	my ($self, $job) = @_;

	return max(0, map {
			$_->sql("SELECT coalesce(extract(epoch FROM max(tick))::bigint, 0) FROM work WHERE job = '$job'")
		} @{ $self->{nodes} });
}

=pod

=item without($what, $stop, $start)

Nothing is called for some ticks, between which something is stopped and started
again.

=cut

sub without
{
	my ($self, $what, $stop, $start) = @_;
	my $until = time() + ($long ? duration($long) : $ticks * $every);

	$self->_take_reports;
	$_->quit foreach values %{ $self->{session} };
	$self->{session} = {};
	push @{ $self->{outages} }, [ $what, time() ];
	$stop->();
	Time::HiRes::usleep(100_000) while time() < $until;
	$start->();
	$self->_wait_for_leader;
	return;
}

# ---- outcome ----

# The runs of each call of the job: the seconds of its ticks, in their order.
sub _calls
{
	my ($self, $job) = @_;
	my %calls;

	foreach my $node (@{ $self->{nodes} })
	{
		foreach my $line (
			split /\n/,
			$node->sql("SELECT extract(epoch FROM tick)::bigint, call FROM work WHERE job = '$job' ORDER BY n"))
		{
			my ($second, $call) = split /\|/, $line;

			push @{ $calls{ $node->name . " $call" } }, $second;
		}
	}
	return sort { $a->[-1] <=> $b->[-1] } values %calls;
}

# An instance forgets its events when it is stopped.
sub _take_reports
{
	my ($self) = @_;

	foreach my $node (@{ $self->{nodes} })
	{
		foreach my $line (
			split /\n/, $node->sql(<<"END"))
SELECT m[1], extract(epoch FROM s)::bigint, e.at, e.number FROM le_events e,
	LATERAL (SELECT regexp_match(e.detail, '^job (.*), (?:tick (.*)|[0-9]+ ticks from (.*) to (.*))\$') m) m,
	LATERAL generate_series(coalesce(m[2], m[3])::timestamptz, coalesce(m[2], m[4])::timestamptz, '$every s') s
WHERE event = 'job missed'
END
		{
			my ($job, $second, @event) = split /\|/, $line;

			$self->{reported}{$job}{$second}{"@event"} = 1;
		}
		foreach my $line (
			split /\n/, $node->sql(<<'END'))
SELECT m[1], extract(epoch FROM m[2]::timestamptz)::bigint FROM le_events e,
	LATERAL (SELECT regexp_match(e.detail, '^job (.*), tick (.*), try [0-9]+: left undone$') m) m
WHERE event = 'passed over'
END
		{
			my ($job, $second) = split /\|/, $line;

			$self->{passed}{$job}{$second} = 1;
		}
	}
	return;
}

=pod

=item check()

Tests what became of each tick since the first of each job: of those that no call
has found due as many have run as may, the newest ones, and the others are
reported.  A tick that was claimed by a term that ended before it ran, as it may on
a machine that is slow, was not missed: it is passed over, and reported as that.
The ticks that claim itself had passed over may be reported twice.

=back

=cut

sub check
{
	my ($self) = @_;

	$self->_take_reports;
	$self->_check_job($_) foreach sort keys %option;
	return;
}

sub _check_job
{
	my ($self, $job) = @_;
	my $say = $long ? \&diag : \&note;
	my @calls = $self->_calls($job);
	my %reported = %{ $self->{reported}{$job} // {} };
	my %passed = %{ $self->{passed}{$job} // {} };
	my @outages = @{ $self->{outages} };
	my (%ran, @wrong, @lost, $last);
	my $is_left = sub {
		my ($tick) = @_;

		$tick += $every while $reported{$tick};
		return $passed{$tick};
	};

	# the first and the last that were missed may enclose it
	delete @reported{ keys %passed };
	$ran{$_}++ foreach map { @$_ } @calls;
	guarantee('G4', [ grep { $ran{$_} > 1 } keys %ran ], "$job: no tick ran twice");
	guarantee('G4', [ grep { $ran{$_} } keys %reported, keys %passed ],
		"$job: none that ran is reported as missed or passed over");
	is(join(' ', grep { keys %{ $reported{$_} } > 1 && !$is_left->($_) } keys %reported), '', "$job: none twice");
	foreach my $call (@calls)
	{
		my $due = $call->[-1];
		my @missed = grep { !$passed{$_} } defined $last ? _between($last, $due) : ();
		my @run = splice @missed, max(0, @missed - $most{$job});
		my @told = $job eq 'ignore' ? () : @missed;

		push @wrong, "at $due: ran @$call, not @run" if "@run $due" ne "@$call[0 .. $#$call - 1] $due";
		push @lost, "at $due: neither run nor reported: $_"
		  foreach grep { !$reported{$_} && !$ran{$_} } @told;
		push @wrong, "at $due: not reported: $_" foreach grep { !$reported{$_} } @told;
		if (@outages && defined $last && $outages[0][1] < $due)
		{
			$say->((shift @outages)->[0] . ", $job: of " . (@missed + @run) . ' ticks '
				  . @run . ' ran, ' . @told . ' were reported');
		}
		$last = $due;
	}
	never(\@lost, "$job: no tick is lost without a word");
	is(join("\n", @wrong), '', "$job: what was missed, and only that, was run or reported");
	is(scalar @outages, 0, "$job: all outages");
	return;
}

sub _between
{
	my ($after, $before) = @_;

	return map { $after + $_ * $every } 1 .. ($before - $after) / $every - 1;
}

1;
