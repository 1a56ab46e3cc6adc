# le_run() on three instances that are killed, frozen, cut off and stepped
# down while jobs run: no tick runs twice, and none is lost where that was
# asked for.  What ran is written down outside of the elections, by an observer
# that the jobs tell at once, so that runs whose commit is refused count too.
#
# A driver stands in for a scheduler with seconds: it fires a job on all
# instances together, and on each again only when the last call has returned.

use strict;
use warnings;

use LeaderElection::Consul;
use LeaderElection::Node;
use LeaderElection::Session;
use LeaderElection::Takeover;
use LeaderElection::Toxiproxy;
use LeaderElection::Util;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

plan skip_all => 'dblink is not installed'
  unless -e qx($ENV{PG_CONFIG} --sharedir) =~ s/\n//r . '/extension/dblink.control';

# Jobs that may not lose a tick wait longer than a takeover takes, and are
# fired less often than that, in turn.
my $jobs = 5;
my $every = 15;
my $wait = 14;

my $consul = LeaderElection::Consul->new('consul')->start;
my $toxiproxy = LeaderElection::Toxiproxy->new->start;
my $observer = PostgreSQL::Test::Cluster->new('observer', port => free_port());
$observer->init;
$observer->append_conf('postgresql.conf', "max_connections = 60\n");
$observer->start;
$observer->safe_psql('postgres', <<'END');
CREATE TABLE runs (job text, tick timestamptz, token bigint, node text,
	at timestamptz DEFAULT clock_timestamp());
END
my $connstr = $observer->connstr . ' dbname=postgres';

my %link = map { $_ => $toxiproxy->link($_, $consul->host_port) } 'a', 'b', 'c';
my %node = map {
	$_ => LeaderElection::Node->create(
		$_,
		consul => $link{$_},
		settings => { short_lease(), campaign => 'billing' })
} sort keys %link;

foreach my $name (sort keys %node)
{
	$node{$name}->sql(<<"END");
CREATE EXTENSION dblink;
CREATE TABLE committed (job text, tick timestamptz, token bigint);
CREATE PROCEDURE work(job text) LANGUAGE plpgsql AS \$\$
BEGIN
	PERFORM dblink_exec('$connstr', format(
		'INSERT INTO runs VALUES (%L, %L, %L, ''$name'')', job, le_tick(),
		le_fencing_token('billing')));
	PERFORM pg_sleep(0.3);
	INSERT INTO committed VALUES (job, le_tick(), le_fencing_token('billing'));
END \$\$;
END
}
poll_until(sub { grep { $_->is_leader('billing') } values %node }, 'a leader');

# ---- the driver ----

my (%session, %missed, @fired, %calls);

# The call has returned, or its server is gone.
sub ready
{
	my ($key) = @_;
	my $session = $session{$key} or return 1;

	return 1 if $session->{idle};
	return 0 unless $session->is_done;
	my $result = $session->finish;
	my ($sqlstate) = $result->{error} =~ /(LE\d\d\d|57014|57P0\d)/;

	die "$key: $result->{error}"
	  if $result->{error} =~ /ERROR/ && !$sqlstate;
	$calls{ $result->{lost} ? 'cut short' : $sqlstate // 'returned' }++;
	$session->{idle} = 1;
	delete $session{$key} if $result->{lost};
	return 1;
}

sub all_ready
{
	return !grep { !ready($_) } keys %session;
}

sub fire
{
	my ($job, $call) = @_;

	foreach my $name (sort keys %node)
	{
		my $key = "$name $job";

		if ($node{$name}{frozen_by_test} || $node{$name}{down} || !ready($key))
		{
			$missed{$key}++;
			next;
		}
		$session{$key} //= LeaderElection::Session->new($node{$name});
		$session{$key}{idle} = 0;
		$session{$key}->start("CALL le_run('billing', 'CALL work(''$job'')', job => '$job', $call)");
	}
	return;
}

my $started = time();
my $next = int($started) + 1;

sub tick_of
{
	my ($second) = @_;

	return POSIX::strftime('%Y-%m-%d %H:%M:%S+00', gmtime($second));
}

# One turn of the driver: waits for the next second, and fires what is due.
sub turn
{
	Time::HiRes::usleep(1000) while time() < $next;
	fire('each second', "every => '1 s'");
	if ($next % ($every / $jobs) == 0)
	{
		my $job = 'job ' . ($next / ($every / $jobs) % $jobs);

		push @fired, [ $job, tick_of($next) ];
		fire($job, "tick => '" . tick_of($next) . "', wait => '$wait s', catch_up => true");
	}
	$next = int(time()) + 1;
	return;
}

sub run_for
{
	my ($seconds) = @_;
	my $until = time() + $seconds;

	turn() while time() < $until;
	return;
}

sub leader
{
	my $key = $consul->kv('leader_election/billing/leader');

	return $key && $key->{Session} && $key->{Value} =~ /"node":"(\w)"/ ? $1 : undef;
}

# Until somebody else leads, with the jobs going on.
sub run_until_taken_over
{
	my ($old) = @_;
	my $limit = time() + 30;

	while ((leader() // $old) eq $old)
	{
		die "nobody took over from $old" if time() > $limit;
		turn();
	}
	run_for(2);
	return;
}

# ---- the faults ----

my %fault = (
	kill => sub {
		my ($name) = @_;

		$node{$name}->crash;
		$node{$name}{down} = 1;
		run_until_taken_over($name);
		$node{$name}->start;
		$node{$name}{down} = 0;
		delete $session{$_} foreach grep { /^$name / } keys %session;
	},
	freeze => sub {
		my ($name) = @_;

		$node{$name}{frozen_by_test} = 1;
		$node{$name}->freeze;
		run_until_taken_over($name);
		$node{$name}->thaw;
		$node{$name}{frozen_by_test} = 0;
	},
	'freeze the worker' => sub {
		my ($name) = @_;
		my $pid = $node{$name}->freeze_worker;

		run_until_taken_over($name);
		$node{$name}->thaw_worker($pid);
	},
	'step down' => sub {
		my ($name) = @_;

		$node{$name}->sql("SELECT le_step_down('billing', '3 s')");
		run_until_taken_over($name);
	},
	'cut off' => sub {
		my ($name) = @_;

		$link{$name}->down;
		run_until_taken_over($name);
		$link{$name}->up;
	},
	'silence' => sub {
		my ($name) = @_;

		$link{$name}->add('silent', 'timeout', 'downstream', timeout => 0);
		run_until_taken_over($name);
		$link{$name}->remove('silent');
	});

run_for(3);
foreach my $fault ('kill', 'freeze', 'step down', 'cut off', 'freeze the worker', 'silence', 'step down')
{
	my $name = leader();

	note(sprintf('%.1f s: %s, %s', time() - $started, $name, $fault));
	$fault{$fault}->($name);
	run_for(2);
}
note(sprintf('%.1f s: calm', time() - $started));
run_for($every);

# A last tick of each job, which catches up what the last fault left.
poll_until(\&all_ready, 'the last calls');
foreach my $n (0 .. $jobs - 1)
{
	my $tick = tick_of($next + $every);

	push @fired, [ "job $n", $tick ];
	fire("job $n", "tick => '$tick', wait => '$wait s', catch_up => true");
}
poll_until(\&all_ready, 'the calls of the last ticks');

# ---- what came of it ----

my %committed;
foreach my $node (values %node)
{
	$committed{$_}++
	  foreach split /\n/, $node->sql("SELECT job, tick AT TIME ZONE 'UTC' FROM committed");
}
my @fields = map { [ split /\|/ ] } split /\n/,
  $observer->safe_psql('postgres', "SELECT job, tick AT TIME ZONE 'UTC', token, at FROM runs ORDER BY at");
my (%runs, %by_term, %last);
foreach my $run (@fields)
{
	my ($job, $tick, $token) = @$run;

	push @{ $runs{"$job|$tick"} }, $token;
	$by_term{"$job|$tick|$token"}++;
}
my @each = grep { /^each second/ } keys %runs;
my @others = grep { !/^each second/ } keys %runs;

is(join(', ', grep { @{ $runs{$_} } > 1 } @each), '', 'each second: no tick ran twice');
is(join(', ', grep { $_ =~ /^each/ && $committed{$_} > 1 } keys %committed), '', 'nor was committed twice');
is(join(', ', grep { $by_term{$_} > 1 } keys %by_term), '', 'no tick ran twice in one term');

my @again = grep { @{ $runs{$_} } > 1 } @others;
my %order = map { $_ => join(' ', @{ $runs{$_} }) } @again;
my @lost = grep { !$committed{$_} } map { "$_->[0]|" . $_->[1] =~ s/\+00//r } @fired;
is(join(', ', @lost), '', 'with wait and catch_up no tick is lost');
is( $node{a}->sql(q{SELECT string_agg(job || ' ' || state, ', ') FROM le_claims
		WHERE job LIKE 'job %' AND state <> 'done'}),
	'', 'all are done');
cmp_ok(scalar @others, '>=', 20, 'ticks enough to tell');
cmp_ok(scalar @each, '>=', 40, 'each second, too');

note(sprintf('%.0f s, 7 faults; each second: %d ticks, %d runs, 0 doubles expected; '
	  . 'with wait and catch_up: %d ticks, %d runs, %d ticks ran again in a later term (%s), %d lost',
	time() - $started, int(time() - $started), scalar @each, scalar @fired,
	scalar(map { @{ $runs{$_} } } @others), scalar @again,
	join('; ', map { "$_: $order{$_}" } sort @again), scalar @lost));
note('calls: ' . join(', ', map { "$_ $calls{$_}" } sort keys %calls)
	  . '; not fired since the last one was still under way or the instance down: '
	  . eval { my $n = 0; $n += $_ foreach values %missed; $n });

done_testing();
