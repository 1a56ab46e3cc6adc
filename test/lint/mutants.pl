# test/mutants/table: a mutant is applied as it is written, and one whose old
# text is not found exactly once changes nothing and is an error.

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = PostgreSQL::Test::Utils::tempdir;
my $source = <<'END';
int
one(void)
{
	return 1;
}

int
two(void)
{
	return 1;

	/* (a+b)* $x */
}
END
my $good = <<'END';
# a comment

Name: in-context
What: two says that it is one
Expect: unit
File: src/a.c
=two(void)
={
-	return 1;
+	return 2;

Name: of-two-edits
What: a line goes, and another comes
Expect: t/001_local
File: src/a.c
-	/* (a+b)* $x */
File: src/a.c
=one(void)
={
+	$y \1 &;
File: src/b.c
-b
+c
END

mkdir "$top/$_" or die "mkdir: $!" foreach qw(src test test/mutants test/t);
append_to_file("$top/test/t/001_local.pl", "# Tier: test, 1 s\n");
append_to_file("$top/test/t/003_slow.pl", "# Tier: long, 100 s\n");
append_to_file("$top/test/mutants/table", slurp_file("$ENV{TESTDIR}/test/mutants/table"));

sub write_tree
{
	my ($table) = @_;

	unlink "$top/src/a.c", "$top/src/b.c", "$top/test/mutants/a.txt";
	append_to_file("$top/src/a.c", $source);
	append_to_file("$top/src/b.c", "bb\nb\nab\n");
	append_to_file("$top/test/mutants/a.txt", $table);
	return;
}

# Its exit code, and what it says.
sub table
{
	IPC::Run::run([ 'perl', "$top/test/mutants/table", @_ ], '>', \my $said, '2>&1');
	return ($? >> 8, $said);
}

subtest 'a good table' => sub {
	write_tree($good);
	is_deeply([ table('--check') ], [ 0, '' ], 'nothing is wrong with it');
	is_deeply([ table('list') ], [ 0, "in-context\nof-two-edits\n" ], 'its names');
	is((table('show', 'in-context'))[1],
		$good =~ s/.*\n(?=Name: in)|\nName: of.*//gsr, 'an entry');
	isnt((table('show', 'of'))[0], 0, 'no entry of that name');

	is_deeply([ table('apply', 'in-context', $top) ], [ 0, '' ], 'is applied');
	is(slurp_file("$top/src/a.c"), $source =~ s/(two.*?return) 1/$1 2/sr, 'in its place');
	isnt((table('apply', 'in-context', $top))[0], 0, 'and not once more');

	write_tree($good);
	is_deeply([ table('apply', 'of-two-edits', $top) ], [ 0, '' ], 'in two files');
	is(slurp_file("$top/src/a.c"),
		$source =~ s/(one.*?\{\n)/$1\t\$y \\1 &;\n/sr =~ s/\t\/\*.*\n//r, 'letter by letter');
	is(slurp_file("$top/src/b.c"), "bb\nc\nab\n", 'a whole line');
};

# Each of these must be noticed by --check; what can be applied in part is not.
sub refused
{
	my ($table, $says, $name) = @_;

	write_tree($table);
	foreach (([ '--check' ], [ 'apply', 'of-two-edits', $top ]))
	{
		my ($rc, $said) = table(@$_);

		isnt($rc, 0, "$name: $_->[0] fails");
		like($said, $says, "$name: $_->[0] says why");
	}
	is(slurp_file("$top/src/a.c"), $source, "$name: nothing has changed");
	return;
}

refused($good =~ s/^-b$/-x/mr, qr{a.txt:12: of-two-edits: src/b.c has the old text 0 times},
	'a text that is not there');
refused($good =~ s/^=one.*\n//mr, qr{of-two-edits: src/a.c has the old text 2 times},
	'a text that is there twice');
refused($good =~ s/^-b$/- b/mr, qr/ 0 times/, 'other blanks');
refused($good =~ s/^\+c/+b/mr, qr/without old text or change/, 'no change');
refused($good =~ s/^-b\n//mr, qr/without old text or change/, 'no old text');
refused($good =~ s{b\.c}{c.c}r, qr{src/c\.c: No such file}, 'no such file');
refused($good =~ s/in-context/of-two-edits/r, qr/is there already/, 'a name twice');
refused($good =~ s/^-b/b/mr, qr/no line of a mutant: b/, 'a line without a mark');

# parts that apply does not need
foreach ([ 't/001_local', 't/002_gone' ], [ 't/001_local', 't/003_slow' ], [ 'Expect: unit', 'Expect: units' ], [ 'What: a', '# ' ])
{
	my ($from, $to) = @$_;

	write_tree($good =~ s/\Q$from/$to/r);
	isnt((table('--check'))[0], 0, "'$to' in place of '$from' is noticed");
}

done_testing();
