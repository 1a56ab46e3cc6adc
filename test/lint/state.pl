# The worker, the stores and the core have no state at file scope but constants: a
# worker's state is in LeWorker (src/worker/base/context.h), so that several workers
# fit into one process.  And no file of C includes another's source.

use strict;
use warnings;

use File::Find;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{TESTDIR};
# The bytes of a list that a store decodes at a time, which unit tests make few.
my $excused = qr/^le_\w+_slice$/;
# The line being written, in builds of the tests only; none outlives a call but the file.
my %tests_only = ('src/worker/base/trace.c' => 0);

# The text without comments, strings and lines of the preprocessor.
sub code
{
	my ($text) = @_;

	$text =~ s{/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'}{ $& =~ m{^/} ? ' ' : 0 }gse;
	$text =~ s{^[ \t]*#(?:[^\n\\]|\\\n|\\.)*}{}gm;
	return $text;
}

# Statements outside of all braces, and those within that begin with "static".
sub declarations
{
	my ($text) = @_;
	my $depth = 0;
	my $statement = '';
	my @found;

	push @found, map { s/[={].*//sr } $text =~ /^[ \t]+(static\b[^;]*);/gm;
	foreach my $part (split /([{};])/, $text)
	{
		$depth-- if $part eq '}';
		$statement .= $part if $depth == 0;
		$depth++ if $part eq '{';
		next unless $depth == 0 && $part =~ /[};]/;
		# a definition of a function ends here, others with a semicolon
		next if $part eq '}' && $statement !~ /\)\s*\{\}$/;
		push @found, $statement =~ s/^\s+//r if $part eq ';';
		$statement = '';
	}
	return @found;
}

# The variable that a declaration makes, if it is no constant.
sub variable
{
	my ($declaration) = @_;
	my $left = $declaration =~ s/[={].*//sr;
	my $name;

	return if $declaration =~ /^(?:typedef|extern|enum|StaticAssert\w*|PG_\w+)\b/;
	return if $declaration =~ /^(?:static\s+)?(?:struct|union)\s+\w+\s*(?:\{\}\s*)?;/;
	return $1 =~ /^const$/ ? undef : $1 if $left =~ /^[^(]*\(\s*\*\s*(\w+)/;	# to a function
	return if $left =~ /\)\s*(?:pg_attribute\w+\s*(?:\([^)]*\))*\s*)?;?\s*$/;
	return if $left =~ /\*\s*const\b/;
	return if $left =~ /\bconst\b/ && $left !~ /\*/;
	($name) = $declaration =~ /(\w+)\s*(?:\[[^\]]*\]\s*)*(?:[=;].*)?$/s;
	return $name // $declaration;
}

my (@bad, @sources, @includes);
my $needed = 0;
my $settings = join ' ', map { code(slurp_file($_)) } glob "$top/src/store/*.c";

# PostgreSQL writes a store's settings into these variables (LeSetting).
sub is_setting
{
	my ($name) = @_;

	return $settings =~ /\.(?:text|flag|ms) = &$name\b/;
}

find({ no_chdir => 1, wanted => sub { push @sources, $_ if /\.[ch]$/ } },
	map { "$top/$_" } qw(src test bench lectl));
foreach my $file (@sources)
{
	my $short = $file =~ s{^\Q$top\E/}{}r;
	my $text = slurp_file($file);

	push @includes, map { "$short: $_" } $text =~ /^#include "(.*\.c)"/gm;
	next unless $short =~ m{^src/(?:core|store|worker)/.*\.c$};
	my $code = code($text);
	foreach my $declaration (declarations($code))
	{
		my $name = variable($declaration);

		next if !defined $name || is_setting($name);
		if ($name =~ $excused) { $needed = 1 }
		elsif (exists $tests_only{$short}) { $tests_only{$short}++ }
		else { push @bad, "$short: $name" }
	}
}
is_deeply(\@includes, [], 'no source is included');
is_deeply(\@bad, [], 'constants only at file scope');
ok($needed && !grep { !$_ } values %tests_only, 'the excuses are needed');

# The reading of declarations, by examples.
my %examples = (
	'static int n;' => 'n',
	'static void (*act) (int);' => 'act',
	'static const char *name = "x";' => 'name',
	'static LeSweep sweep = {.look = look};' => 'sweep',
	'LeTable *le_table;' => 'le_table',
	'static struct { int a; } known;' => 'known',
	"void f(void)\n{\n\tstatic bool told;\n}" => 'told',
	'static const char *const names[] = {"a"};' => undef,
	'const int windows[3] = {1};' => undef,
	'static bool f(int a, void (*g) (int));' => undef,
	"struct A\n{\n\tint a;\n};" => undef,
	'extern int n;' => undef);

foreach my $example (sort keys %examples)
{
	my @names = grep { defined } map { variable($_) } declarations(code($example));

	is($names[0], $examples{$example}, $example =~ s/\s+/ /gr);
}

done_testing();
