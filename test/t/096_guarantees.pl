# Each promise in docs/guarantees.md names what shows it, and that exists.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{TESTDIR};
my $text = slurp_file("$top/docs/guarantees.md");
my $readme = slurp_file("$top/README.md");
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

# Other links, and headings of the README.
my %anchor =
  map { lc($_) =~ s/[^\w -]//gr =~ s/ /-/gr => 1 } $readme =~ /^#+ (.*)$/mg;

foreach my $link ($text =~ /\]\(([^)]+)\)/g)
{
	my ($file, $heading) = split /#/, $link;

	ok(-e "$top/docs/$file", "file $file");
	ok($anchor{$heading}, "heading $heading")
	  if defined $heading && $file eq '../README.md';
}

# The short form promises no more.
my ($table) = $readme =~ /^## Guarantees\n(.*?)^## /ms;
my @promised = $table =~ /^\| (G\d) \|/mg;

cmp_ok(scalar @promised, '>', 2, 'README promises');
like($text, qr/^\*\*$_\. /m, "$_ of README is explained")
  foreach @promised;

done_testing();
