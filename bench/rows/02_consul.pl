# le_acquire() and le_release() on a real Consul, beside the same two requests
# in a bare libcurl loop plus the way to the worker and back (store local): the
# minimum that takes and frees a key, and the worker's own requests, with their
# checks.  Beside these requests by another process, which keeps a line of each
# acquire on the disk, as the worker keeps its token.  Beside Lock and Unlock of
# Consul's own Go client with an existing session.  And beside the bare requests
# once more, from SQL by pgsql-http.

use strict;
use warnings;

use Bench;
use LeaderElection::Session;

my $times = size(1000, 50);
my $consul = consul_server();
my %node = (
	consul => instance('one', consul => $consul),
	local => instance('local'));
$node{http} = $node{consul} if pgsql_http($node{consul});
my %session = map { $_ => LeaderElection::Session->new($node{$_}) } keys %node;

# pg_temp.bench_trips() takes and frees, and tells how long each took.
sub make_trips
{
	my ($session, $acquire, $release) = @_;

	$session->query(<<"END");
CREATE FUNCTION pg_temp.bench_trips(times int)
RETURNS TABLE (what text, us float8) LANGUAGE plpgsql AS \$\$
DECLARE
	t0 timestamptz;
	t1 timestamptz;
	t2 timestamptz;
BEGIN
	FOR i IN 1..times LOOP
		t0 := clock_timestamp();
		IF NOT $acquire THEN RAISE 'not acquired'; END IF;
		t1 := clock_timestamp();
		IF NOT $release THEN RAISE 'not released'; END IF;
		t2 := clock_timestamp();
		what := 'acquire'; us := extract(epoch FROM t1 - t0) * 1e6; RETURN NEXT;
		what := 'release'; us := extract(epoch FROM t2 - t1) * 1e6; RETURN NEXT;
	END LOOP;
END \$\$
END
	return;
}

# As SQL statements: Consul's session has no TTL and is never renewed.
sub make_http_trips
{
	my ($session) = @_;
	my $id = $consul->session(TTL => '');
	my %put = map {
		$_ => "(SELECT content = 'true' FROM http_put('"
		  . $consul->url . "/v1/kv/bench/pgsql-http?$_=$id', '', 'text/plain'))"
	} 'acquire', 'release';

	return make_trips($session, @put{ 'acquire', 'release' });
}

make_trips($session{$_}, "le_acquire('trip')", "le_release('trip')")
  foreach 'consul', 'local';
make_http_trips($session{http}) if $session{http};

sub trips
{
	my ($which, $n) = @_;

	return split /\n/, $session{$which}->query("SELECT * FROM pg_temp.bench_trips($n)");
}

trips($_, 50) foreach keys %session;
rounds(
	sub {
		my $requests = $node{consul}->ask('SELECT sum(round_trips) FROM le_stat_store');

		take_lines("$_ ", 1e-3, trips($_, $times)) foreach 'consul', 'local';
		take('requests', ($node{consul}->ask('SELECT sum(round_trips) FROM le_stat_store')
			  - $requests) / $times);
		take_lines('bare ', 1e-3,
			lines_of(tool('bench-bare'), $consul->url, 'pairs', $times));
		take_lines('same ', 1e-3,
			lines_of(tool('bench-bare'), $consul->url, 'transactions', $times));
		take_lines('relayed ', 1e-3, lines_of(tool('bench-bare'), $consul->url,
				'relayed', $times, $node{consul}->data_dir . '/relayed'));
		take_lines('Go ', 1e-3, lines_of(tool('consul-lock'), '-address',
				$consul->host_port, '-key', 'bench/go', '-pairs', $times));
		take_lines('pgsql-http ', 1e-3, trips('http', $times)) if $session{http};
	});
together("bare + local $_", "bare $_", "local $_") foreach 'acquire', 'release';
together("same requests + local $_", "same $_", "local $_")
  foreach 'acquire', 'release';
together('consul pair', 'consul acquire', 'consul release');
together('relayed pair', 'relayed acquire', 'relayed release');
together('Go Lock + Unlock', 'Go lock', 'Go unlock');
together('pgsql-http pair', 'pgsql-http acquire', 'pgsql-http release')
  if $session{http};
foreach my $what ('acquire', 'release')
{
	metric("le_$what()", unit => 'ms', ours => "consul $what",
		peer => "bare + local $what", ratio => '<= 1.15');
	metric("le_$what()", unit => 'ms', ours => "consul $what", peer => "bare $what");
	metric("le_$what()", unit => 'ms', ours => "consul $what",
		peer => "same requests + local $what", ratio => '<= 1.15');
	metric("le_$what()", unit => 'ms', ours => "consul $what",
		peer => "relayed $what");
	metric("relayed: $what", unit => 'ms', ours => "relayed $what",
		peer => "bare + local $what");
	metric("le_$what()", unit => 'ms', ours => "consul $what",
		peer => "pgsql-http $what");
	metric("le_$what(), store local", unit => 'ms', ours => "local $what");
}
metric('le_acquire() and le_release()', unit => 'ms', ours => 'consul pair',
	peer => 'Go Lock + Unlock', ratio => '< 1');
metric('le_acquire() and le_release()', unit => 'ms', ours => 'consul pair',
	peer => 'pgsql-http pair', ratio => '< 1');
metric('le_acquire() and le_release()', unit => 'ms', ours => 'consul pair',
	peer => 'relayed pair');
metric('relayed: both', unit => 'ms', ours => 'relayed pair',
	peer => 'Go Lock + Unlock');
metric('requests of such a pair', unit => 'requests', ours => 'requests');
finish();
