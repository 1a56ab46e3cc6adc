# Each promise in docs/guarantees.md names what shows it, and that exists.

use strict;
use warnings;

use LeaderElection::Docs;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{TESTDIR};
my $text = page('docs/guarantees.md');
my $number = 0;

# Rows of tables whose second column says "shown by".
while ($text =~ /^\| \| shown by \|\n\|[-|]+\n((?:\|.*\n)+)/mg)
{
	foreach my $row (split /\n/, $1)
	{
		my ($claim, $shown) = $row =~ /^\| (.*?) \| (.*) \|$/;
		my @parts = split /(?=\[[^\]]*\]\()/, $shown;

		foreach my $part (@parts)
		{
			my ($target, $names) = $part =~ /^\[[^\]]*\]\(\.\.\/([^)#]*)\)(.*)/;
			my $source = eval { slurp_file("$top/$target") };
			my @names = ($names // '') =~ /"([^"]*)"/g;

			ok(defined $source, "$claim: $target") or next;
			cmp_ok(scalar @names, '>', 0, "$claim: what of $target");
			ok(index($source, $_) >= 0, "$claim: $target has \"$_\"")
			  foreach @names;
			$number++;
		}
	}
}
cmp_ok($number, '>', 20, 'there were some');

# The short form promises no more.
my @promised = section('README.md', 'Guarantees') =~ /^\| (G\d) \|/mg;

cmp_ok(scalar @promised, '>', 2, 'README promises');
like($text, qr/^\*\*$_\. /m, "$_ of README is explained")
  foreach @promised;

done_testing();
