# Names that have been used are dear if the worker looks at each of them: pairs of
# acquire and release in a table with room for 100,000 elections, of which 1, 200
# or 20,000 have been used.  Store "local": nothing else takes time.

use strict;
use warnings;

use Bench;
use LeaderElection::Session;

my @sizes = (1, 200, 20_000);
my $pairs = size(5000, 100);

sub instance_with
{
	my ($names) = @_;
	my $node = instance("names$names", settings => { max_elections => 100_000 });

	$node->sql(<<'END');
CREATE FUNCTION pairs(times int) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz := clock_timestamp();
BEGIN
	FOR i IN 1..times LOOP
		IF NOT le_acquire('one') THEN RAISE 'not acquired'; END IF;
		IF NOT le_release('one') THEN RAISE 'not released'; END IF;
	END LOOP;
	RETURN extract(epoch FROM clock_timestamp() - began) / times * 1e3;
END $$;
END
	my $used = $node->ask("SELECT count(*) FROM generate_series(2, $names) i "
		  . "WHERE le_acquire('n' || i) AND le_release('n' || i)");

	die "$used names instead of " . ($names - 1) . "\n" if $used != $names - 1;
	return LeaderElection::Session->new($node);
}

my %session = map { $_ => instance_with($_) } @sizes;

rounds(
	sub {
		foreach my $names (@sizes)
		{
			progress("$names names");
			take("names $names", $session{$names}->query("SELECT pairs($pairs)"));
		}
	});
foreach my $names (@sizes)
{
	metric("acquire and release, $names names used", unit => 'ms',
		ours => "names $names",
		($names == 1 ? () : (peer => 'names 1', ratio => '<= 1.25')));
}
finish();
