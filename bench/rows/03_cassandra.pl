# le_acquire(), le_renew() and le_release() through a gateway on a real Cassandra
# of one node, beside the bare statements by gocql.

use strict;
use warnings;

use Bench;
use LeaderElection::Cassandra;
use LeaderElection::Gateway;
use LeaderElection::Session;

my $times = size(200, 20);
my $cassandra = LeaderElection::Cassandra->shared;
my $gateway = LeaderElection::Gateway->new('gateway', cassandra => $cassandra,
	keyspace => $cassandra->keyspace)->start;
my $node = instance('one', gateway => $gateway);
my $session = LeaderElection::Session->new($node);

$node->sql(<<'END');
CREATE FUNCTION bench_trips(times int)
RETURNS TABLE (what text, ms float8) LANGUAGE plpgsql AS $$
DECLARE
	t0 timestamptz;
	t1 timestamptz;
	t2 timestamptz;
	t3 timestamptz;
BEGIN
	FOR i IN 1..times LOOP
		t0 := clock_timestamp();
		IF NOT le_acquire('trip') THEN RAISE 'not acquired'; END IF;
		t1 := clock_timestamp();
		IF NOT le_renew('trip') THEN RAISE 'not renewed'; END IF;
		t2 := clock_timestamp();
		IF NOT le_release('trip') THEN RAISE 'not released'; END IF;
		t3 := clock_timestamp();
		what := 'acquire'; ms := extract(epoch FROM t1 - t0) * 1e3; RETURN NEXT;
		what := 'renew'; ms := extract(epoch FROM t2 - t1) * 1e3; RETURN NEXT;
		what := 'release'; ms := extract(epoch FROM t3 - t2) * 1e3; RETURN NEXT;
	END LOOP;
END $$;
END

sub trips
{
	my ($n) = @_;

	return split /\n/, $session->query("SELECT * FROM bench_trips($n)");
}

trips(20);
rounds(
	sub {
		take_lines('le_', 1, trips($times));
		take_lines('bare ', 1, gateway_samples('TestBenchBare', TIMES => $times));
	});
metric('le_acquire()', unit => 'ms', ours => 'le_acquire', peer => 'bare acquire',
	ratio => '<= 1.5');
metric("le_$_()", unit => 'ms', ours => "le_$_", peer => "bare $_",
	ratio => '<= 1.25') foreach 'renew', 'release';
$session->quit;
$node->stop;
finish();
