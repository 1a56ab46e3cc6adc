# The cost of a check: in a loop of one session, less the loop itself, in
# processor time of the process; and by pgbench as a statement of its own.  A GET
# of pgsql-http asks Consul for the holder of a key.

use strict;
use warnings;

use Bench;
use LeaderElection::Session;

# Nothing here commits, but acquiring 10,000 elections does.
my $node = instance('check', settings => { max_elections => 10100 },
	conf => { fsync => 'off' });
my $floor = tool('bench-floor.so');

$node->sql(<<"END");
CREATE FUNCTION bench_nothing(text) RETURNS bool STRICT LANGUAGE C
	AS '$floor', 'bench_nothing';
CREATE FUNCTION bench_clock(text) RETURNS bool STRICT LANGUAGE C
	AS '$floor', 'bench_clock';
CREATE TABLE bench_lease (name text PRIMARY KEY, holder text,
	expires_at timestamptz);
INSERT INTO bench_lease SELECT 'bench/' || i, 'me', 'infinity'
	FROM generate_series(0, 10000) i;
CREATE TABLE bench_names AS
	SELECT 'bench/' || i AS name FROM generate_series(1, 10000) i;
CREATE FUNCTION bench_spent() RETURNS float8 VOLATILE LANGUAGE sql AS \$\$
	SELECT COALESCE(
		split_part(pg_read_file('/proc/self/schedstat', 0, 100, true), ' ', 1),
		(extract(epoch FROM clock_timestamp()) * 1e9)::text)::float8
\$\$;
CREATE FUNCTION bench_loop(query text, nrows int) RETURNS float8
LANGUAGE plpgsql AS \$\$
DECLARE
	started float8 := bench_spent();
BEGIN
	EXECUTE query;
	RETURN (bench_spent() - started) / nrows;
END \$\$;
VACUUM ANALYZE bench_lease, bench_names;
SELECT le_acquire('bench/0'), le_release('bench/0'), le_acquire('bench/1');
END

my $consul = pgsql_http($node) ? consul_server() : undef;
my $holder = $consul && $consul->session(TTL => '');
my $lease = "(SELECT holder = 'me' AND expires_at > clock_timestamp() "
  . "FROM bench_lease WHERE name = 'bench/1' AND a IS NOT NULL)";
my %expression = (
	empty => 'true',
	nothing => "bench_nothing('bench/1')",
	clock => "bench_clock('bench/1')",
	recovery => 'pg_is_in_recovery()',
	held => "le_is_leader('bench/1')",
	not_held => "le_is_leader('bench/0')",
	unknown => "le_is_leader('bench/none')",
	token => "le_fencing_token('bench/1')",
	advisory => 'pg_try_advisory_lock(1) AND pg_advisory_unlock(1)',
	lease => $lease,
	# evaluated once only, unless the query depends on the row
	$consul ? ('pgsql-http' => '(' . asks_consul('CASE WHEN a > 0 THEN %s END') . ')')
	: ());
my %nrows = (
	advisory => size(200_000, 20_000),
	lease => size(200_000, 20_000),
	'pgsql-http' => size(2_000, 1_000));
my $session = LeaderElection::Session->new($node);

if ($consul)
{
	$consul->lock('bench/leader', $holder);
	die 'not locked' unless $node->ask(asks_consul('%s')) eq 't';
}

# A query that is true while the key has the holder of our lock.
sub asks_consul
{
	my ($address) = @_;

	return "SELECT content::jsonb -> 0 ->> 'Session' = '$holder' FROM http_get("
	  . sprintf($address, "'" . $consul->url . "/v1/kv/bench/leader'") . ')';
}

sub loop
{
	my ($query, $nrows) = @_;

	return $session->query(
		'SELECT bench_loop($$' . $query . '$$' . ", $nrows)");
}

# The cost of an evaluation above the empty loop; and of ours above a function
# that does nothing.
sub measure_loops
{
	my ($suffix, @cases) = @_;
	my %spent;

	foreach my $case ('empty', @cases)
	{
		my $nrows = $nrows{$case} // size(10_000_000, 100_000);
		my $times = $nrows / 1000;

		$spent{$case} = loop("SELECT count($expression{$case}) "
			  . "FROM generate_series(1, 1000) a, generate_series(1, $times) b",
			$nrows);
	}
	take("$_$suffix", $spent{$_} - $spent{empty}) foreach @cases;
	take("above$suffix", $spent{held} - $spent{nothing});
	return;
}

# A session's cache cannot help.
sub measure_in_turn
{
	my $times = size(100, 10);
	my %spent = map {
		$_ => loop("SELECT count($_) FROM generate_series(1, $times), bench_names",
			$times * 10000)
	} 'name', 'bench_nothing(name)', 'le_is_leader(name)';

	take('in turn', $spent{'le_is_leader(name)'} - $spent{name});
	take('nothing in turn', $spent{'bench_nothing(name)'} - $spent{name});
	return;
}

my %statement = (
	held => "SELECT le_is_leader('bench/1');",
	recovery => 'SELECT pg_is_in_recovery();',
	advisory => 'SELECT pg_try_advisory_lock(:client_id), '
	  . 'pg_advisory_unlock(:client_id);',
	lease => "SELECT holder = 'me' AND expires_at > clock_timestamp() "
	  . "FROM bench_lease WHERE name = 'bench/1';",
	$consul ? ('pgsql-http' => asks_consul('%s') . ';') : ());

# The rates of one client depend on how fast the processors wake up, which changes
# from second to second by more than the cost of a check: close candidates take
# turns often.
sub measure_statements
{
	my ($clients) = @_;
	my $turns = size(6, 1);
	my @close = ('held', 'recovery');

	take_rate($_, $clients) foreach (@close) x $turns;
	foreach my $case (sort keys %statement)
	{
		take_rate($case, $clients) unless grep { $_ eq $case } @close;
	}
	return;
}

sub take_rate
{
	my ($case, $clients) = @_;
	my $file = "$PostgreSQL::Test::Utils::tmp_check/$case.sql";

	open(my $fh, '>', $file) or die "$file: $!";
	print $fh "$statement{$case}\n";
	close $fh;
	my ($tps) = join("\n", lines_of(
			$node->installed_command('pgbench'),
			'-n', '-M', 'prepared', '-T', 1, '-c', $clients,
			'-j', $clients, '-f', $file, '-h', $node->host, '-p', $node->port,
			'postgres')) =~ /^tps = ([\d.]+)/m;

	take("rate $case $clients", $tps);
	return;
}

rounds(
	sub {
		measure_loops('', grep { $_ ne 'empty' } sort keys %expression);
		measure_statements($_) foreach 1, 2;
	});
$session->query('SELECT count(le_acquire(name)) FROM bench_names');
rounds(
	sub {
		measure_loops(' of many', 'nothing', 'held');
		measure_in_turn();
	});

metric('le_is_leader(), less an empty function', unit => 'ns', ours => 'above',
	target => '<= 40');
metric('the same, of 10,000 elections', unit => 'ns', ours => 'above of many',
	target => '<= 40');
metric('each of 10,000 in turn', unit => 'ns', ours => 'in turn',
	target => '<= 120');
metric("le_is_leader(), $_->[0]", unit => 'ns', ours => $_->[1], peer => 'nothing')
  foreach [ 'held', 'held' ], [ 'not held', 'not_held' ],
  [ 'unknown name', 'unknown' ];
metric('le_fencing_token()', unit => 'ns', ours => 'token', peer => 'nothing');
metric('le_is_leader()', unit => 'ns', ours => 'held', peer => $_)
  foreach 'clock', 'recovery', 'advisory', 'lease', 'pgsql-http';
foreach my $clients (1, 2)
{
	my @ours = (unit => '/s', ours => "rate held $clients");

	metric("statements of $clients client(s)", @ours,
		peer => "rate recovery $clients", ratio => '>= 0.98');
	metric("statements of $clients client(s)", @ours, peer => "rate $_ $clients")
	  foreach 'advisory', 'lease', 'pgsql-http';
}
finish();
