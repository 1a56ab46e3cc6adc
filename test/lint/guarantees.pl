# Each promise in docs/guarantees.md names what shows it, and that exists, some of it
# among what "make test" runs; and each sentence of the promises names the rule that
# judges it, or says why none does.

use strict;
use warnings;

use LeaderElection::Docs;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{TESTDIR};
my $text = page('docs/guarantees.md');
my $number = 0;

# Tests that wait for "make test-long", which alone breaks other stores than Consul;
# a module shows nothing without its test.
sub waits
{
	my ($target, $source) = @_;

	return $target !~ m{/Faults/(?:Nemesis|Consul)} if $target =~ /\.pm$/;
	return $target =~ m{\.pl$} && $source =~ /^# Tier: long,/;
}

# Rows of tables whose second column says "shown by".
while ($text =~ /^\| \| shown by \|\n\|[-|]+\n((?:\|.*\n)+)/mg)
{
	foreach my $row (split /\n/, $1)
	{
		my ($claim, $shown) = $row =~ /^\| (.*?) \| (.*) \|$/;
		my @parts = split /(?=\[[^\]]*\]\()/, $shown;
		my $early = 0;

		foreach my $part (@parts)
		{
			my ($target, $names) = $part =~ /^\[[^\]]*\]\(\.\.\/([^)#]*)\)(.*)/;
			my $source = eval { slurp_file("$top/$target") };
			my @names = ($names // '') =~ /"([^"]*)"/g;

			ok(defined $source, "$claim: $target") or next;
			cmp_ok(scalar @names, '>', 0, "$claim: parts of $target");
			ok(index($source, $_) >= 0, "$claim: $target has \"$_\"")
			  foreach @names;
			$early++ unless waits($target, $source);
			$number++;
		}
		cmp_ok($early, '>', 0, "$claim: make test shows it");
	}
}
cmp_ok($number, '>', 20, 'there were some');

# ---- the rules ----

# The sentences of the paragraphs that promise something, as they are read.
sub sentences
{
	my ($promises) = @_;
	my @sentences;

	foreach my $paragraph (split /\n\n+/, $promises)
	{
		next unless $paragraph =~ s/^\n*\*\*(?:G\d\. )?//;
		$paragraph =~ s/\*\*//g;
		$paragraph =~ s/\s+/ /g;
		push @sentences, split /(?<=[.])\s+(?=[A-Z`])/, $paragraph;
	}
	return @sentences;
}

# Rules of the two judges: by number, or by name.
my $checked =
  section('test/sim/README.md', 'Checks after every step');
my %rules = (
	sim => { map { $_ => 1 } $checked =~ /^(\d+)\. /mg },
	faults => {
		map { $_ => 1 }
		  section('test/faults/README.md', 'The checks') =~ /^\| ([A-Z]\d) \|/mg
	});

$rules{sim}{end} = 1 if $checked =~ /^And at the end/m;
cmp_ok(scalar keys %{ $rules{sim} }, '>', 15, 'the simulator has rules');

# those that the page of the faults has are those of the program
is_deeply(
	[ sort keys %{ $rules{faults} } ],
	[ sort(slurp_file("$top/test/faults/judge/checks.go") =~ /^\t\{"([A-Z]\d)",/mg) ],
	'and the judge of the faults');

my @sentences = sentences(section('docs/guarantees.md', 'Promises'));
my @rows = table('sentences');

cmp_ok(scalar @sentences, '>', 15, 'there are sentences');
foreach my $row (@rows)
{
	my ($begins, $sim, $faults) = @$row;
	my %named = (sim => $sim, faults => $faults);

	is(scalar(grep { index($_, $begins) == 0 } @sentences),
		1, "\"$begins\" begins a sentence");
	foreach my $judge (sort keys %named)
	{
		next if $named{$judge} =~ /^none: .{10}/;
		ok($rules{$judge}{$_}, "\"$begins\": $judge has a rule \"$_\"")
		  foreach split /, /, $named{$judge}, -1;
	}
}
foreach my $sentence (@sentences)
{
	ok((grep { index($sentence, $_->[0]) == 0 } @rows),
		'judged by a rule, or not for a reason: ' . substr($sentence, 0, 60));
}

# The short form promises no more.
my @promised = section('README.md', 'Guarantees') =~ /^\| (G\d) \|/mg;

cmp_ok(scalar @promised, '>', 2, 'README promises');
like($text, qr/^\*\*$_\. /m, "$_ of README is explained")
  foreach @promised;

done_testing();
