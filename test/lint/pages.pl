# The pages of the documentation as such: every example is run by a test or
# says why not, every link leads somewhere, and the first page stays short.

use strict;
use warnings;

use LeaderElection::Docs;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{TESTDIR};
my $tests = join '', map { slurp_file($_) } glob "$top/test/t/*.pl $top/test/lint/*.pl";

# Those that change the machine are pasted in clean roots.
my $pasted = slurp_file("$top/packages/test/inside/pages");

# An example that nobody runs is soon one that does not run.
subtest 'examples' => sub {
	foreach my $page (pages())
	{
		foreach my $block (blocks($page))
		{
			my ($mark, $name) = map { $_ // '' } @$block{qw(mark name)};
			my $where = "$page:$block->{line}";

			isnt($mark, '', "$where is marked");
			like($name, qr/\w+ \w+ \w+/, "$where: a reason")
			  if $mark eq 'not run';
			like($pasted, qr/^\s*paste\w* \S+ '\Q$name\E'/m, "$where: it is pasted")
			  if $mark eq 'pasted';
			next if $mark ne 'test';
			ok($tests =~ /\b(?:block|curl)\('\Q$name\E'/,
				"$where: a test takes \"$name\"");
			is(eval { block($name) } // $@, $block->{text}, 'the same everywhere');
		}

		# code that is only indented has no place for a mark
		unlike(page($page) =~ s/^(`{3,}).*?^\g1$//msgr,
			qr/^\n(?: {4}|\t)(?! *[-*|\d])\S/m, "$page: no indented code");
	}
};

# A page that has its reader restart the server before the library is there.
subtest 'order' => sub {
	foreach my $page ('README.md', 'docs/setup.md')
	{
		my (%seen, %at);
		my @pasted = grep { !$seen{$_}++ } $pasted =~ /^\s*paste\w*(?: "\S+")? \Q$page\E '(.*)'/mg;

		@at{ map { $_->{name} // '' } blocks($page) } = map { $_->{line} } blocks($page);
		is_deeply(\@pasted, [ sort { $at{$a} <=> $at{$b} } @pasted ], "$page: pasted as it stands there");
	}
};

# The names of tables are taken as well.
subtest 'tables' => sub {
	foreach my $page (pages())
	{
		ok($tests =~ /\btable\('\Q$_\E'\)/, "$page: a test reads table \"$_\"")
		  foreach page($page) =~ /^<!-- table: (.*) -->$/mg;
	}
};

sub target_of
{
	my ($page, $link) = @_;
	my ($file, $anchor) = split /#/, $link, 2;
	my @path = $page =~ m{^(.*)/} ? split m{/}, $1 : ();

	return ($page, $anchor) if $file eq '';
	foreach my $part (split m{/}, $file)
	{
		if ($part eq '..')
		{
			@path or return (undef, $anchor);    # out of the tree
			pop @path;
		}
		elsif ($part ne '.')
		{
			push @path, $part;
		}
	}
	return (join('/', @path), $anchor);
}

# a heading that was renamed, a page that was moved, or that nothing leads to
subtest 'links' => sub {
	my (%linked, %to);

	foreach my $page (pages())
	{
		foreach my $link (links($page))
		{
			my ($file, $anchor) = target_of($page, $link);

			ok(defined $file && -e "$top/$file", "$page: $link") or next;
			ok(anchors($file)->{$anchor}, "$page: heading $link")
			  if defined $anchor;
			$to{$page}{$file} = 1;
		}
	}
	my @next = 'README.md';
	while (defined(my $page = shift @next))
	{
		push @next, grep { /\.md$/ } keys %{ $to{$page} // {} }
		  unless $linked{$page}++;
	}
	is_deeply([ grep { !$linked{$_} } pages() ],
		[], 'README leads to all of them');
};

# a target that was renamed
subtest 'targets of make' => sub {
	my %target =
	  map { $_ => 1 } map { split } map { /^([a-z][\w -]*):(?!=)/mg }
	  map { slurp_file($_) } "$top/Makefile", glob("$top/*/*.mk $top/test/*/*.mk");
	my %named;

	# those that PGXS brings
	$target{$_} = 1 foreach qw(all install uninstall installcheck clean);
	foreach my $page (pages())
	{
		my @texts = (page($page) =~ /`(make [^`]+)`/g, map { $_->{text} } blocks($page));

		$named{$_} = $page
		  foreach map { /^(?:sudo )?make ([a-z][\w-]*)/mg } @texts;
	}
	ok($target{$_}, "$named{$_}: make $_") foreach sort keys %named;
	cmp_ok(scalar keys %named, '>', 10, 'there are some');

	# and what the demo is asked for
	my $demo = slurp_file("$top/scripts/demo");
	my @stores = map { /STORE=(\w+)/ ? $1 : 'local' } split /^/,
	  block('make demo');
	ok($demo =~ /^demo_$_\(\)/m, "demo of $_") foreach @stores;
	is(scalar @stores, 4, 'one of each store');
};

# a file or a function that has another name by now
subtest 'names of the source' => sub {
	my %text = map { s{^\Q$top\E/}{}r => slurp_file($_) }
	  map { glob "$top/$_" }
	  qw(src/*.[ch] src/*/*.[ch] src/*/*/*.[ch] sql/*.sql test/sim/*.[ch] test/unit/*.[ch]
	  test/prove/*.[ch] test/faults/*.[ch] bench/*.[ch] lectl/*.[ch] test/perl/*/*.pm scripts/* gateway/cmd/*/*.go);
	my %file = map { $_ => 1, s{^src/}{}r => 1, s{.*/}{}r => 1 } keys %text;
	my %word = map { $_ => 1 } map { /\w+/g } values %text;

	# every file of the extension has its line
	my @files = map { $_->[0] =~ /`([^`]+)`/g } table('files');
	is_deeply(
		[ sort grep { /\.c$/ } @files ],
		[ sort map { s{.*/}{}r } grep { m{^src/.*\.c$} } keys %text ],
		'the files of the extension');

	foreach my $page (pages())
	{
		my @named = page($page) =~ /`([^`\n]+)`/g;

		is_deeply(
			[ grep { m{^[\w/]+\.[ch]$} && !$file{$_} } @named ],
			[], "$page: files");
		# the gateway puts the names of its variables and metrics together
		is_deeply(
			[ grep { !$word{ s/\(\)$//r } && !/^le_gateway_/i }
				grep { /^(?:le|LE)_\w+(?:\(\))?$|^Le[A-Z]\w+$/
					|| $page =~ /architecture/ && /^[a-z]\w+\(\)$|^[a-z]+(?:_[a-z]+)+$/ }
				@named ],
			[], "$page: names");
	}
};

# A mutant that has another name by now, a seed that was dropped: what stands for a
# defect of the past is there.
subtest 'past defects' => sub {
	my $page = page('docs/past-defects.md');
	my %mutant = map { $_ => 1 } map { /^Name: (.*)$/mg }
	  map { slurp_file($_) } glob "$top/test/mutants/*.txt";
	my %seed = map { $_ => 1 } map { /^(seed=[^#\n]*?) *(?:#|$)/mg }
	  map { slurp_file($_) } glob "$top/test/sim/seeds/*.seeds";
	my %finder = map { $_->[0] => 1 } table('found by');
	my $n = 0;

	while ($page =~ /^\| defect \| .*\n\|[-|]+\n((?:\|.*\n)+)/mg)
	{
		foreach my $row (split /\n/, $1)
		{
			my ($defect, $finders, $stand, $mended) =
			  map { $_ // '' } $row =~ /^\| (.*?) \| (.*?) \| (.*) \| (.*) \|$/;

			ok($finder{$_}, "$defect: found by $_") foreach split /, /, $finders, -1;
			like($mended, qr/^[0-9a-f]{7}(?:, [0-9a-f]{7})*$/, "$defect: mended");
			# a test alone does not show that it can fail
			my $trees = $mended =~ s/, /|/gr;
			like($page, qr/^git worktree add --detach \S+ (?:$trees)\^$/m, "$defect: commands for its tree")
			  if $stand !~ /(?:mutant|seed) `/;
			foreach my $part (split /; /, $stand, -1)
			{
				if (my ($kind, $names) = $part =~ /^(mutant|seed) (`.*`)$/)
				{
					my $is_there = $kind eq 'mutant' ? \%mutant : \%seed;

					ok($is_there->{$_}, "$defect: $kind $_")
					  foreach split /`, `/, $names =~ s/^`|`$//gr;
				}
				elsif ($part =~ /^\[\w+\]\(\.\.\/(.*?)\) "(.*)"$/)
				{
					my ($file, $name) = ($1, $2);

					ok(index(slurp_file("$top/$file"), $name) >= 0,
						"$defect: $file has \"$name\"");
				}
				else
				{
					fail("$defect: \"$part\" stands for it");
				}
			}
			$n++;
		}
	}
	cmp_ok($n, '>=', 30, 'there are some');

	# those that were tried on a tree of before
	my @tried = $page =~ /^\| ([0-9a-f]{7})\^ \| (\d+) \|/mg;

	cmp_ok(scalar @tried, '>', 0, 'seeds for trees of before');
	while (my ($tree, $seed) = splice(@tried, 0, 2))
	{
		like($page, qr/^\| .*`seed=$seed\b.*\|[^|]*\b$tree\b[^|]*\|$/m, "seed $seed: mended by $tree");
	}
};

# A page that leads through a struct names each of its fields.
subtest 'a store' => sub {
	my $page = page('docs/adding-a-store.md');
	my ($struct) = slurp_file("$top/src/store/store.h") =~
	  /^typedef struct LeStore\n\{\n(.*?)^\} LeStore;$/ms;
	my %rows;

	# A row without a part goes on with that of the row before.
	my $part = '';
	foreach my $row ($page =~ /^\|(.*)\|$/mg)
	{
		my ($of, $fields) = split /\s*\|\s*/, $row =~ s/^\s+//r;
		$part = $1 if $of =~ /^`(\w+)`$/;
		$rows{$part} .= $fields // '';
	}

	my $n = 0;
	my $check = sub {
		my ($part, $text) = @_;
		foreach my $field (grep { defined }
			$text =~ /^\t+\w[^;(]*?(\w+);|\(\*(\w+)\) \(/mg)
		{
			like($rows{$part}, qr/`$field`/, $part ? "$part.$field" : $field);
			$n++;
		}
	};

	$struct =~ s{/\*.*?\*/}{}gs;
	$check->($2, $1)
	  while $struct =~ s/^\tstruct\s*\n\t\{\n(.*?)^\t\}\s*(\w+);\n//ms;
	$check->('', $struct);
	cmp_ok($n, '>', 40, 'fields of LeStore');
};

# The first page is read to the end only if it is short.
subtest 'the first page' => sub {
	my $lines = page('README.md') =~ tr/\n//;
	my ($sql) = grep { $_->{language} eq 'sql' } blocks('README.md');

	cmp_ok($lines, '<=', 250, 'at most 250 lines');
	cmp_ok($sql->{line}, '<=', 40, 'SQL on the first screen');
};

# One width for all of them, but where a line cannot be broken.
subtest 'width' => sub {
	foreach my $page (pages())
	{
		my $prose = page($page) =~ s/^\s*(`{3,}).*?^\s*\g1$//msgr;
		my @long =
		  grep { length > 90 && !/^\s*\|/ && !/^\S+$/ } split /\n/, $prose;

		is_deeply(\@long, [], $page);
	}
};

done_testing();
