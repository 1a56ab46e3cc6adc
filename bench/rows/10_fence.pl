# The cost that the fence adds to a transaction (the gate, a row, a real commit),
# beside the same without a fence, and with a lease row read FOR SHARE.  And the
# cost of le_run with an empty command on Consul.

use strict;
use warnings;

use Bench;
use LeaderElection::Session;
use Time::HiRes qw(time usleep);

my $commits = size(1000, 50);
my $times = size(20_000, 500);
my $runs = size(200, 10);
my $consul = consul_server();
my $node = instance('one', consul => $consul);
my $local = instance('local');
my ($session, $at_local);

$node->sql(<<'END');
CREATE TABLE bench_rows (i int);
CREATE TABLE bench_lease (name text PRIMARY KEY, holder text,
	expires_at timestamptz);
INSERT INTO bench_lease VALUES ('bench/fence', 'me', 'infinity');
CREATE FUNCTION bench_clock_ns() RETURNS float8 VOLATILE LANGUAGE sql AS $$
	SELECT COALESCE(
		split_part(pg_read_file('/proc/self/schedstat', 0, 100, true), ' ', 1),
		(extract(epoch FROM clock_timestamp()) * 1e9)::text)::float8
$$;
CREATE TABLE bench_spent (cpu float8, seconds float8);
CREATE PROCEDURE bench_fence(kind text, n int) LANGUAGE plpgsql AS $$
DECLARE
	cpu float8 := bench_clock_ns();
	began timestamptz := clock_timestamp();
BEGIN
	FOR i IN 1..n LOOP
		CASE kind
			WHEN 'bare' THEN
				PERFORM pg_is_in_recovery();
			WHEN 'fence' THEN
				PERFORM le_require_leader('bench/fence');
			WHEN 'cancel' THEN
				PERFORM le_require_leader('bench/fence', on_loss => 'cancel');
			WHEN 'bare row' THEN
				PERFORM pg_is_in_recovery();
				INSERT INTO bench_rows VALUES (i);
			WHEN 'fence row' THEN
				PERFORM le_require_leader('bench/fence');
				INSERT INTO bench_rows VALUES (i);
			WHEN 'lease row' THEN
				PERFORM FROM bench_lease WHERE name = 'bench/fence'
					AND holder = 'me' AND expires_at > clock_timestamp() FOR SHARE;
				INSERT INTO bench_rows VALUES (i);
		END CASE;
		COMMIT;
	END LOOP;
	TRUNCATE bench_spent;
	INSERT INTO bench_spent VALUES ((bench_clock_ns() - cpu) / n / 1e3,
		extract(epoch FROM clock_timestamp() - began));
END $$;
SELECT le_acquire('bench/fence');
END
$local->sql(q(SELECT le_acquire('bench/fence')));
$session = LeaderElection::Session->new($node);
$at_local = LeaderElection::Session->new($local);

# Takes both elapsed and processor time.
sub fence
{
	my ($kind, $n) = @_;

	$session->query("CALL bench_fence('$kind', $n)");
	return split /\|/, $session->query('SELECT * FROM bench_spent');
}

sub spent
{
	$session->query('SET synchronous_commit = off');
	take("$_ cpu", (fence($_, $times))[0])
	  foreach 'bare', 'fence', 'cancel', 'bare row', 'fence row', 'lease row';
	take("$_ added", this_round("$_ cpu") - this_round('bare cpu'))
	  foreach 'fence', 'cancel';
	take("$_ added", this_round("$_ cpu") - this_round('bare row cpu'))
	  foreach 'fence row', 'lease row';
	return;
}

sub committed
{
	$session->query('SET synchronous_commit = on');
	take("$_ rate", $commits / (fence($_, $commits))[1])
	  foreach 'bare row', 'fence row', 'lease row';
	return;
}

my $tick = 0;

# The election's requests, without renewals.
sub requests
{
	return $node->ask("SELECT sum(round_trips - renewals) FROM le_stat_store "
		  . "WHERE election = 'bench/fence'");
}

# A job that is due each second.
sub rhythm
{
	my $ticks = size(10, 3);
	my $before = requests();

	foreach (1 .. $ticks)
	{
		usleep((1 - time + int(time)) * 1e6 + 10_000);
		$session->start("CALL le_run('bench/fence', 'SELECT', job => 'rhythm', "
			  . "every => '1 s')")->rows;
	}
	take('rhythm requests', (requests() - $before) / $ticks);
	return;
}

# The milliseconds to run nothing at the next tick.
sub run_ms
{
	my ($session) = @_;

	$session->start("CALL le_run('bench/fence', 'SELECT', job => 'empty', "
		  . "tick => '2020-01-01'::timestamptz + interval '$tick min')")->rows;
	return $session->finish->{seconds} * 1000;
}

sub runs
{
	my $requests = requests();
	my (@run, @local, @bare);

	foreach (1 .. $runs)
	{
		$tick++;
		push @bare, $session->start('SELECT')->finish->{seconds} * 1000;
		push @run, run_ms($session);
		push @local, run_ms($at_local);
	}
	take('le_run', @run);
	take('local le_run', @local);
	take('bare command', @bare);
	take('le_run requests', (requests() - $requests) / $runs);
	take_lines('Consul ', 1e-3,
		lines_of(tool('bench-bare'), $consul->url, 'pairs', $runs));
	return;
}

rounds(
	sub {
		spent();
		committed();
		runs();
		rhythm();
	});
together('two bare requests + local', 'Consul acquire', 'Consul release',
	'local le_run');
metric('require, insert, commit on disk', unit => '/s', ours => 'fence row rate',
	peer => 'bare row rate', ratio => '>= 0.97');
metric('require, insert, commit on disk', unit => '/s', ours => 'fence row rate',
	peer => 'lease row rate', ratio => '>= 1');
metric('processor that the fence adds, no row', unit => 'us', ours => 'fence added');
metric('the same, on_loss => cancel', unit => 'us', ours => 'cancel added');
metric('processor that the fence adds, a row', unit => 'us',
	ours => 'fence row added', peer => 'lease row added', ratio => '< 1');
metric('the whole transaction, a row', unit => 'us', ours => 'fence row cpu',
	peer => 'bare row cpu');
metric('requests of le_run, each second', unit => 'requests',
	ours => 'rhythm requests', target => '<= 2');
metric('requests of le_run, a tick by name', unit => 'requests',
	ours => 'le_run requests');
metric('le_run of an empty command, Consul', unit => 'ms', ours => 'le_run',
	peer => 'two bare requests + local', ratio => '<= 1');
metric('le_run of an empty command, Consul', unit => 'ms', ours => 'le_run',
	peer => 'bare command');
metric('le_run of an empty command, store local', unit => 'ms',
	ours => 'local le_run', peer => 'bare command');
finish();
