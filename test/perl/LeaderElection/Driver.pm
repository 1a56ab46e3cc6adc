
=pod

=head1 NAME

LeaderElection::Driver - jobs each few seconds on instances that fail

=head1 SYNOPSIS

  use LeaderElection::Driver;

  plan skip_all => 'dblink is not installed'
    unless LeaderElection::Driver->available;
  my $driver = LeaderElection::Driver->new(
    nodes => { a => $a, b => $b, c => $c },
    leader => sub { ... });
  $driver->run_faults('3min', 'kill', 'freeze', 'step down');
  $driver->catch_up;
  $driver->check;

=head1 DESCRIPTION

It stands in for a scheduler with seconds: it fires a job on all instances
together, and on each again only when the last call has returned.  All jobs
call le_run() in the election "billing".  Runs are written down outside of the
elections, by an observer that the jobs tell at once, so that runs whose
commit is refused count too.

JOBS_DURATION in the environment says for how long, as "10min" or "1h", and has
the results shown.

=cut

package LeaderElection::Driver;

use strict;
use warnings;

use Exporter 'import';
use LeaderElection::Session;
use LeaderElection::Util;
use List::Util qw(max shuffle);
use POSIX ();
use PostgreSQL::Test::Cluster;
use Test::More;
use Time::HiRes qw(time);
use Time::Local qw(timegm);

our @EXPORT = qw(tick_of);

# Jobs that may not lose a tick wait longer than it takes two leaders, one after
# the other, to be replaced on a machine that stalls for some seconds meanwhile.
# They are fired less often than that, in turn.
my $jobs = 10;
my $every = 30;
my $wait = 29;

# So long at the end nothing fails, so that late ticks are done.
my $quiet = 15;

# Ticks at the end, of which each catches up what the one before left.
my $rounds = 5;

=pod

=head1 METHODS

=over

=item available()

Is dblink, by which the jobs tell the observer?

=cut

sub available
{
	my $sharedir = qx($ENV{PG_CONFIG} --sharedir);

	chomp $sharedir;
	return -e "$sharedir/extension/dblink.control";
}

=pod

=item new(nodes => { name => $node }, leader => $code, [ faults => { what => $code } ])

Prepares the instances, which campaign, and waits for a leader.  leader gives
the name of the node that the store has, or undef.  faults are kinds of faults
besides those that each instance can have; they get the driver and the name of
the leader.

=cut

sub new
{
	my ($class, %params) = @_;
	my $observer = PostgreSQL::Test::Cluster->new('observer', port => free_port());
	my $self = bless {
		nodes => $params{nodes},
		leader => $params{leader},
		observer => $observer,
		session => {},
		missed => 0,
		late => 0,
		fired => [],
		calls => {},
		faults => 0
	}, $class;

	$self->{kinds} = { $self->_own_faults, %{ $params{faults} // {} } };
	$observer->init;
	$observer->append_conf('postgresql.conf', "max_connections = 60\n");
	$observer->start;
	$observer->safe_psql('postgres', <<'END');
CREATE TABLE runs (job text, tick timestamptz, token bigint, node text, others int,
	at timestamptz DEFAULT clock_timestamp());
END
	$self->_prepare($_) foreach sort keys %{ $self->{nodes} };
	poll_until(sub { grep { $_->is_leader('billing') } values %{ $self->{nodes} } },
		'a leader');
	$self->{started} = time();
	$self->{next} = int($self->{started}) + 1;
	return $self;
}

sub _prepare
{
	my ($self, $name) = @_;
	my $connstr = $self->{observer}->connstr . ' dbname=postgres';

	$self->{nodes}{$name}->sql(<<"END");
CREATE EXTENSION dblink;
CREATE TABLE committed (job text, tick timestamptz, token bigint);
CREATE PROCEDURE work(job text) LANGUAGE plpgsql AS \$\$
DECLARE
	token bigint;
	others int;
BEGIN
	-- runs of the tick in this term that have not failed, besides this one
	SELECT count(*) FILTER (WHERE event = 'run started')
			- count(*) FILTER (WHERE event = 'run failed') - 1 INTO others
		FROM le_events
		WHERE detail LIKE 'job ' || job || ', tick %'
			AND event IN ('run started', 'run failed')
			AND split_part(split_part(detail, ', tick ', 2), ', try', 1)::timestamptz = le_tick()
			AND fencing_token = (SELECT fencing_token FROM le_events
				WHERE event = 'run started' AND pid = pg_backend_pid()
				ORDER BY number DESC LIMIT 1);
	-- also of a term that is given up, as long as it may commit
	BEGIN
		token := le_require_leader('billing');
	EXCEPTION WHEN SQLSTATE 'LE001' OR SQLSTATE 'LE002' THEN
		NULL;
	END;
	PERFORM dblink_exec('$connstr', format(
		'INSERT INTO runs VALUES (%L, %L, %L, ''$name'', %s)', job, le_tick(), token, others));
	PERFORM pg_sleep(0.3);
	INSERT INTO committed VALUES (job, le_tick(), token);
END \$\$;
END
	return;
}

# ---- firing ----

# The call has returned, or its server is gone.
sub _ready
{
	my ($self, $key) = @_;
	my $session = $self->{session}{$key} or return 1;

	return 1 if $session->{idle};
	return 0 unless $session->is_done;
	my $result = $session->finish;
	# 55000 is what a call is told that meets no worker for three seconds: a disk
	# that stands still holds up the one that the postmaster is to start.
	my ($sqlstate) = $result->{error} =~
	  /(LE\d\d\d|57014|57P0\d|55000(?=: the leader_election worker is not running))/;

	die "$key: $result->{error}"
	  if $result->{error} =~ /ERROR/ && !$sqlstate;
	$self->{calls}{ $result->{lost} ? 'cut short' : $sqlstate // 'returned' }++;
	$session->{idle} = 1;
	delete $self->{session}{$key} if $result->{lost};
	return 1;
}

sub _all_ready
{
	my ($self) = @_;

	return !grep { !$self->_ready($_) } keys %{ $self->{session} };
}

sub _up
{
	my ($self, $name) = @_;

	return !$self->{nodes}{$name}{frozen_by_test} && !$self->{nodes}{$name}{down};
}

sub _fire
{
	my ($self, $job, $call, $again) = @_;

	foreach my $name (sort keys %{ $self->{nodes} })
	{
		my $key = "$name $job" . ($again // '');
		my $session;

		if (!$self->_up($name) || !$self->_ready($key))
		{
			$self->{missed}++;
			next;
		}
		$session =
		  $self->{session}{$key} //= LeaderElection::Session->new($self->{nodes}{$name});
		$session->{idle} = 0;
		$session->start("CALL le_run('billing', 'CALL work(''$job'')', job => '$job', $call)");
	}
	return;
}

# One that is still under way on an instance that is up is not fired at all: the
# others have a wait, but if that instance leads all the time they do not run it.
sub _fire_for_good
{
	my ($self, $job, $tick) = @_;
	my @up = grep { $self->_up($_) } keys %{ $self->{nodes} };

	if (grep { !$self->_ready("$_ $job") } @up)
	{
		$self->{late}++;
		return;
	}
	push @{ $self->{fired} }, [ $job, $tick, time(), { map { $_ => 1 } @up } ];
	$self->_fire($job, "tick => '$tick', wait => '$wait s', catch_up => true");
	return;
}

=pod

=item tick_of($second)

A second since 1970 as SQL has it.  A function.

=cut

sub tick_of
{
	my ($second) = @_;

	return POSIX::strftime('%Y-%m-%d %H:%M:%S+00', gmtime($second));
}

# Waits for the next second, and starts the jobs that are due.
sub _turn
{
	my ($self) = @_;
	my $next = $self->{next};

	Time::HiRes::usleep(1000) while time() < $next;
	# and once more, as somebody might by hand while the first is under way
	$self->_fire('each second', "every => '1 s'", $_) foreach '', ' again';
	if ($next % ($every / $jobs) == 0)
	{
		$self->_fire_for_good('job ' . ($next / ($every / $jobs) % $jobs),
			tick_of($next));
	}
	$self->{next} = int(time()) + 1;
	return;
}

=pod

=item run_for($seconds)

Lets the jobs go on for so long.

=item run_until($condition, $what, [ timeout => s ])

The same until the condition is met; it is asked each second.  One that dies is
not yet met.

=cut

sub run_for
{
	my ($self, $seconds) = @_;
	my $until = time() + $seconds;

	$self->_turn while time() < $until;
	return;
}

sub run_until
{
	my ($self, $condition, $what, %params) = @_;
	my $limit =
	  time() + ($params{timeout} // $LeaderElection::Util::timeout_default);

	# The leader cannot always be read while things fail.
	until (eval { $condition->() })
	{
		die "timed out waiting for $what" . ($@ ? ": $@" : '')
		  if time() > $limit;
		$self->_turn;
	}
	return;
}

=pod

=item run_faults($duration, @kinds)

Lets one fault follow the other: each kind once, and all of them again in
another order, for as long as it says ("3min") or JOBS_DURATION does.

=item run_until_taken_over($name)

Until somebody else leads, and for a while longer.

=cut

sub run_until_taken_over
{
	my ($self, $old) = @_;

	$self->run_until(sub { ($self->{leader}->() // $old) ne $old },
		"somebody to take over from $old");
	$self->run_for(2);
	return;
}

# ---- faults ----

sub run_faults
{
	my ($self, $duration, @kinds) = @_;
	my $until = $self->{started} + duration($ENV{JOBS_DURATION} || $duration);
	my @next = @kinds;

	$self->run_for(3);
	do
	{
		@next = shuffle(@kinds) if !@next;
		$self->fault(shift @next);
	} until ($self->{faults} >= @kinds && time() > $until - $quiet);
	$self->run_for(max($quiet, $until - time()));
	return;
}

=pod

=item fault($what)

Has it happen to the leader, and ends it when another leads: kill, freeze,
freeze the worker, restart the worker, step down, or one of new().

=cut

sub fault
{
	my ($self, $what) = @_;
	my $name = poll_until($self->{leader}, 'a leader');

	note(sprintf('%.1f s: %s, %s', time() - $self->{started}, $name, $what));
	$self->{kinds}{$what}->($self, $name);
	$self->{faults}++;
	$self->{happened}{$what}++;
	$self->run_for(2);
	return;
}

sub _own_faults
{
	return (
		kill => sub {
			my ($self, $name) = @_;
			my $node = $self->{nodes}{$name};

			$node->crash;
			$node->{down} = 1;
			$self->run_until_taken_over($name);
			$node->start;
			$node->{down} = 0;
			delete @{ $self->{session} }{ grep { /^$name / } keys %{ $self->{session} } };
		},
		freeze => sub {
			my ($self, $name) = @_;
			my $node = $self->{nodes}{$name};

			$node->{frozen_by_test} = 1;
			$node->freeze;
			$self->run_until_taken_over($name);
			$node->thaw;
			$node->{frozen_by_test} = 0;
		},
		'freeze the worker' => sub {
			my ($self, $name) = @_;
			my $pid = $self->{nodes}{$name}->freeze_worker;

			$self->run_until_taken_over($name);
			$self->{nodes}{$name}->thaw_worker($pid);
		},
		'restart the worker' => sub {
			my ($self, $name) = @_;

			$self->{nodes}{$name}->kill_worker('TERM');
			$self->run_for(3);
		},
		'step down' => sub {
			my ($self, $name) = @_;

			$self->{nodes}{$name}->sql("SELECT le_step_down('billing', '3 s')");
			$self->run_until_taken_over($name);
		});
}

# ---- outcome ----

=pod

=item started()

When the jobs began, in seconds since 1970.

=item catch_up([ @more ])

Waits for all calls, and fires a last tick of each job that may not lose one,
and of more that others have fired: it catches up what the last fault left.
Where a machine that stalls ends a term meanwhile, the next tick does, as it
would if the jobs went on.

=cut

sub started { return $_[0]->{started}; }

sub catch_up
{
	my ($self, @more) = @_;

	$self->{stopped} = time();
	poll_until(sub { $self->_all_ready }, 'the last calls');
	foreach my $round (1 .. $rounds)
	{
		$self->_fire_for_good($_, tick_of($self->{next} + $round * $every))
		  foreach @more, map { "job $_" } 0 .. $jobs - 1;
		poll_until(sub { $self->_all_ready }, 'the calls of the last ticks');

		# le_run() may return before the store has "done"
		last
		  if eval { poll_until(sub { $self->_undone eq '' }, 'claims to be done', timeout => 10) };
		note("left for another tick: " . $self->_undone);
	}
	return;
}

=pod

=item runs([ $pattern ])

The runs of the jobs whose names match, as the observer has seen them: their fencing
tokens, in their order, by "job|tick".

=item committed()

How many commits there were, by "job|tick".

=cut

sub runs
{
	my ($self, $pattern) = @_;
	my %runs;

	foreach my $line (
		split /\n/,
		$self->{observer}->safe_psql('postgres',
			"SELECT job, tick AT TIME ZONE 'UTC', token FROM runs ORDER BY at"))
	{
		my ($job, $tick, $token) = split /\|/, $line;

		push @{ $runs{"$job|$tick"} }, $token
		  if !defined $pattern || $job =~ $pattern;
	}
	return %runs;
}

sub committed
{
	my ($self) = @_;
	my %committed;

	foreach my $node (values %{ $self->{nodes} })
	{
		$committed{$_}++
		  foreach split /\n/,
		  $node->sql("SELECT job, tick AT TIME ZONE 'UTC' FROM committed");
	}
	return %committed;
}

# How long it took until a tick of a job that may not lose one was run at first.
sub _latest
{
	my ($self) = @_;

	return $self->{observer}->safe_psql('postgres', <<'END');
SELECT max(extract(epoch FROM after)) FROM
	(SELECT min(at) - tick AS after FROM runs WHERE job LIKE 'job %' GROUP BY job, tick) t
END
}

# The jobs that may not lose a tick and have a claim that is not "done".
sub _undone
{
	my ($self) = @_;
	my ($any) = values %{ $self->{nodes} };

	return $any->sql(q{SELECT string_agg(job || ' ' || state, ', ') FROM le_claims
		WHERE job LIKE 'job %' AND state <> 'done'});
}

=pod

=item took_over_uncalled($at, @names)

Those of these instances that began a term while calls of that time waited for
their turn.  Each was down or frozen when its scheduler would have called: a
leader runs no tick that it was not called for, and the others do not lead.

=cut

sub took_over_uncalled
{
	my ($self, $at, @names) = @_;
	my @took_over;

	foreach my $name (@names)
	{
		my @began =
		  map { /^(\d+)-(\d+)-(\d+) (\d+):(\d+):(\d+)/ ? timegm($6, $5, $4, $3, $2 - 1, $1) : () }
		  grep { /LOG:  leader of election "billing"/ }
		  split /\n/, $self->{nodes}{$name}->log_since;

		push @took_over, $name if grep { $_ >= int($at) && $_ <= $at + $wait + 1 } @began;
	}
	return @took_over;
}

# Is it lost because an instance led that was not called for it?
sub _excused
{
	my ($self, $fired) = @_;
	my (undef, undef, $at, $called) = @$fired;

	return $self->took_over_uncalled($at,
		grep { !$called->{$_} } sort keys %{ $self->{nodes} });
}

# The runs that began in a term in which another was under way, or had not failed.
sub _beside_another
{
	my ($self) = @_;

	return split /\n/,
	  $self->{observer}->safe_psql('postgres',
		'SELECT job, tick, token, node, others FROM runs WHERE others > 0');
}

# A tick that was fired, as committed() has it.
sub _name
{
	my ($fired) = @_;

	return "$fired->[0]|" . $fired->[1] =~ s/\+00//r;
}

=pod

=item check()

Tests that no tick ran twice, and none was lost where that was asked for, but if
an instance led that was not called for it, and that there were ticks enough to
tell.

=back

=cut

sub check
{
	my ($self) = @_;
	my %committed = $self->committed;
	my %each = $self->runs(qr/^each second/);
	my %others = $self->runs(qr/^job /);
	my @again = sort grep { @{ $others{$_} } > 1 } keys %others;
	my @fired = @{ $self->{fired} };
	my @lost = grep { !$committed{ _name($_) } } @fired;
	my @excused = grep { $self->_excused($_) } @lost;
	my $seconds = $self->{stopped} - $self->{started};
	my $say = $ENV{JOBS_DURATION} ? \&diag : \&note;

	guarantee('G4', [ grep { @{ $each{$_} } > 1 } keys %each ], 'each second: no tick ran twice');
	guarantee('G4', [ grep { /^each/ && $committed{$_} > 1 } keys %committed ], 'nor was committed twice');
	guarantee('G4', [ $self->_beside_another ], 'no tick ran twice in one term but after a run that failed');
	never([ map { 'lost: ' . _name($_) } grep { !$self->_excused($_) } @lost ],
		'with wait and catch_up no tick is lost');
	is($self->_undone, '', 'all are done');

	# How many there are depends on the machine; one for each fault there must be.
	cmp_ok(scalar keys %others, '>=', $self->{faults}, 'ticks enough to tell');
	cmp_ok(scalar keys %each, '>=', $self->{faults}, 'each second, too');

	$say->(sprintf('%.0f s, %d faults; each second: %d ticks, %d of them ran, %d runs; '
		  . 'with wait and catch_up: %d ticks, %d runs, %d ticks ran again in a later term (%s), %d lost since an instance led that was not called',
		$seconds, $self->{faults}, int($seconds), scalar keys %each,
		scalar(map { @$_ } values %each), scalar @fired,
		scalar(map { @$_ } values %others), scalar @again,
		join('; ', map { "$_: @{ $others{$_} }" } @again), scalar @excused));
	$say->(sprintf('of a wait of %d s the latest took %.1f s', $wait, $self->_latest));
	$say->('faults: '
		  . join(', ', map { "$_ $self->{happened}{$_}" } sort keys %{ $self->{happened} }));
	$say->('calls: '
		  . join(', ', map { "$_ $self->{calls}{$_}" } sort keys %{ $self->{calls} })
		  . '; not fired since the last one was still under way or the instance down: '
		  . "$self->{missed}, with wait and catch_up nowhere $self->{late}");
	return;
}

1;
